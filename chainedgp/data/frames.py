"""Data frames of pandas and polars: column names, row order, and columns that must be numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from ..errors import InputError, quoted
from ..linalg import Array, Indices
from .reading import WITHOUT_SIGNS, has_signs, is_missing, reads_as_number, since, unit_of
from .types import Data, Frame

COLUMNS = (
    "Give a data frame of pandas or polars to a model, which reads categories, text and dates; or "
    "one column for each category (pandas.get_dummies, to_dummies of polars)"
)
CLASSES = (
    "Likelihoods of classes (Bernoulli, Softmax, Ordinal) take labels as they are, unless a "
    "cluster holds the rows. Code two classes as 0 and 1, more as 0, 1, 2, …: "
    "numpy.unique({it}, return_inverse=True)[1] does it in their sorted order"
)
BESIDE = (
    "Give numbers; a comparison turns words into numbers, such as 1.0 * ({it} == 'alive') for rows "
    "that ended without their event"
)
"""What to do with text and categories, among the inputs, as targets and in the metadata."""
TO_NUMBERS = 'pandas.to_numeric({it}, errors="coerce"), {it}.cast(float, strict=False) in polars'
LIMITS = (
    "A value below a limit of detection is left-censored: give the limit itself as the target, "
    "{{'censored': -1}} for its row (1 for a value above a limit, 0 for all others) as "
    "Y_metadata, and a likelihood that takes it, such as LogNormalSurvival or WeibullSurvival. "
)
LIMIT = r"[<>≤≥]|below|not? det|b?lo?[dq]$|b[dq]l$|n\.?d\.?$"
"""What to do with words among numbers, in general and for the limits of a measurement."""


def column_names(X: object) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, or of a series; None if they are not all text."""
    if hasattr(X, "collect"):  # This is a lazy frame, which `check_numbers` refuses.
        return None
    if hasattr(X, "columns"):
        names = tuple(X.columns)
    else:
        names = (X.name,) if type(X).__name__ == "Series" and hasattr(X, "name") else ()
    return names if names and all(isinstance(name, str) for name in names) else None


def as_column_names(names: Iterable[object], columns: int) -> list[str]:
    """Check the names that a user gives to the columns of X."""
    listed = [] if isinstance(names, str) else [str(name) for name in names]
    if len(listed) != columns or len(set(listed)) != columns:
        raise InputError(
            f"input_names must be {columns} different names, one for each column of X; got "
            f"{names!r}."
        )
    return listed


def in_order(X: Data, expected: tuple[str, ...], name: str) -> Data:
    """Put the columns of a frame into the order of the model's, by name; others are an error.

    Data without column names are left as they are.
    """
    found = column_names(X)
    if found is None or found == expected:
        return X
    if sorted(found) == sorted(expected):
        frame: Any = X
        ordered: Data = frame[list(expected)]
        return ordered
    lacking, more = [c for c in expected if c not in found], [c for c in found if c not in expected]
    wrong = f"lacks {_listed(lacking)}" * bool(lacking) + " and " * bool(lacking and more)
    wrong += f"has {_listed(more)}, which the model does not know" * bool(more)
    raise InputError(
        f"{name} {wrong}; the model was built with {', '.join(map(repr, expected))}. "
        f"Give {name}[{list(expected)}]."
    )


def _listed(names: list[str]) -> str:
    """Columns by their names."""
    return f"the column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"


class RowLabels(Protocol):
    """What is asked of the index of a pandas object: its labels of rows."""

    @property
    def is_unique(self) -> bool:
        """Whether no two rows have the same label."""

    @property
    def nlevels(self) -> int:
        """The number of parts of each label of a row."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Any: ...

    def equals(self, other: object) -> bool:
        """Whether another index has the same labels of rows in the same order."""

    def isin(self, values: RowLabels) -> np.ndarray:
        """Which labels of rows are among the values, (n,) booleans."""


def index_of(value: object) -> RowLabels | None:
    """The index of a pandas object, or of predictions for one; None for all else."""
    index: RowLabels | None = getattr(value, "index", None)
    return index if hasattr(index, "equals") and not hasattr(value, "__dask_graph__") else None


def comparable(one: RowLabels, other: RowLabels) -> bool:
    """Whether the labels of two pandas indices can tell which rows belong together."""
    return one.is_unique and other.is_unique and one.nlevels == other.nlevels


def check_order(X: object, Y: object, Y_metadata: object, name: str = "Y") -> None:
    """Raise InputError if targets or metadata have other rows than X, or in another order.

    name : the user's name of Y, for messages; see `check_same_rows`.
    """
    by_row = Y_metadata if isinstance(Y_metadata, Mapping) else {}
    given = {f"Y_metadata[{key!r}]": value for key, value in by_row.items()}
    check_same_rows({"X": X, name: Y, **given})


def check_same_rows(given: Mapping[str, object]) -> None:
    """Raise InputError if pandas objects have other rows than the first one, or in another order.

    An object whose index shares no label with that of the first is paired with it by position, as
    arrays and lists are.

    given : the user's name of each -> the object.
    """
    every = {name: index_of(value) for name, value in given.items()}
    indexed = {name: index for name, index in every.items() if index is not None}
    first = next(iter(indexed), "")
    for name, other in indexed.items():
        index = indexed[first]
        if len(other) != len(index) or other.equals(index) or not comparable(index, other):
            continue
        if shared := int(other.isin(index).sum()):
            wrong = f"only {shared} of the {len(index)} rows of {first}"
            wrong = wrong if shared < len(index) else f"the rows of {first} in another order"
            raise InputError(
                f"{name} has {wrong}, by its index. Give {name}.loc[{first}.index], or "
                f"{name}.to_numpy() if the rows do belong together."
            )


def check_one_row(X: object, name: str, expected: Iterable[str]) -> None:
    """Raise InputError if X is one row, a dict or a series by column names, and no table of rows.

    expected : names of the model's columns; empty if they have none.
    """
    if hasattr(X, "collect"):  # This is a lazy frame, which `check_numbers` refuses.
        return
    if isinstance(X, Mapping) and not hasattr(X, "columns"):
        raise InputError(
            f"{name} is a dict; expected rows. One row is pandas.DataFrame([{name}]), a dict of "
            f"columns pandas.DataFrame({name}); dates are made by pandas.to_datetime."
        )
    index: Any = getattr(X, "index", None)
    if hasattr(X, "columns") or not hasattr(index, "equals"):
        return
    wanted = set(expected)
    if len(wanted) > 1 and wanted <= set(index):
        raise InputError(
            f"{name} is one row of a frame as a series, whose columns have lost their types. Give "
            "frame.iloc[[k]], with two brackets, in the place of frame.iloc[k]."
        )


def check_target(X: object, Y: object, names: tuple[str, str]) -> None:
    """Raise InputError if the frame of inputs has the target, by name and values, as a column.

    names : the user's names of X and Y, for messages.
    """
    target = (column_names(Y) or (None,))[0]
    if target is None or target not in (column_names(X) or ()):
        return
    frame: Any = X
    if not hasattr(X, "columns") or any(hasattr(part, "__dask_graph__") for part in (X, Y)):
        return
    table, series = np.asarray(frame[target]), np.asarray(Y)
    series = series[:, 0] if series.ndim == 2 else series
    missing = table != table
    if not np.all(missing) and table.shape == series.shape and np.all((table == series) | missing):
        raise InputError(
            f"{names[0]} has the target {target!r} among its columns, so that a model would learn "
            f"to copy it. Leave it out: {names[0]}.drop(columns={target!r})."
        )


def check_words(column: object, owner: str, it: str, limits: bool) -> None:
    """Raise InputError for a column of numbers in which a few words stand.

    limits : whether such words may be limits of a measurement, as they may for a target.
    """
    held = np.asarray(column, dtype=object).ravel().tolist()
    entries = [str(entry).strip() for entry in held if not is_missing(entry)]
    odd = [entry for entry in entries if not reads_as_number(entry)]
    signed = [entry for entry in odd if has_signs(entry)]
    if signed and 2 * (len(odd) - len(signed)) <= len(entries):
        raise InputError(
            f"{owner} is text, of numbers for people such as {signed[0]!r}: "
            f"{WITHOUT_SIGNS.format(it=it)}."
        )
    if not odd or 2 * len(odd) > len(entries):
        return
    words = list(dict.fromkeys(odd))
    limited = limits and any(re.match(LIMIT, w.lower()) for w in words)
    raise InputError(
        f"{owner} has numbers, but for {len(odd)} of its {len(entries)} entries: {quoted(words)}. "
        f"{LIMITS.format() if limited else ''}To take {'others' if limited else 'these'} for "
        f"missing: {TO_NUMBERS.format(it=it)}" + (', with missing="drop".' if limits else ".")
    )


def _time_as_number(column: Any, it: str) -> str:
    """How dates and durations are made into numbers, in the unit that fits."""
    times = np.asarray(column)
    if times.dtype.kind == "M":
        return (
            f"Give the time since a start in a unit of your choice: ({it} - {it}.min()) / "
            f"numpy.timedelta64(1, 'D'), in polars ({it} - {it}.min()).dt.total_days("
            "fractional=True)."
        )
    unit = unit_of(float(np.nanmax(np.abs(since(times, np.timedelta64(0, "s"), "seconds")))))
    short = {"days": "D", "hours": "h", "minutes": "m", "seconds": "s"}[unit]
    return (
        f"Give {unit}: {it} / numpy.timedelta64(1, {short!r}), in polars {it}.dt.total_{unit}("
        "fractional=True)."
    )


def check_numbers(value: object, name: str, remedy: str) -> None:
    """Raise InputError if data hold text, categories or dates, which numpy would make numbers."""
    if hasattr(value, "collect"):
        raise InputError(f"{name} is a {type(value).__name__}, not read yet: {name}.collect().")
    frame: Any = value
    if hasattr(value, "items") and hasattr(value, "columns"):
        columns = value.items()
    elif hasattr(value, "columns"):
        columns = ((key, frame[key]) for key in value.columns)
    else:
        # Dates of pandas come as a Series or as an Index; numpy would read both as raw counts.
        one_column = type(value).__name__.endswith(("Series", "Index"))
        columns = [(None, value)] if one_column else []
    if isinstance(value, np.ndarray) and value.dtype.kind in "Mm":
        columns = [(None, value)]
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(
            f"{name} is a masked array with {np.ma.count_masked(value)} masked values; expected "
            f"numbers. Leave those rows out, or give {name}.filled(numpy.nan) where NaN may stand."
        )
    for key, column in columns:
        owner, it = (
            (name, name) if key is None else (f"column {key!r} of {name}", f"{name}[{key!r}]")
        )
        kind = str(column.dtype).lower()
        held = np.asarray(column)
        text = held.dtype.kind in "OUST" and any(isinstance(entry, str) for entry in held)
        if text and not kind.startswith(("categor", "enum")):
            check_words(column, owner, it, remedy == CLASSES)
        if kind.startswith(("categor", "enum")) or text:
            what = "text" if text and not kind.startswith(("categor", "enum")) else "categorical"
            raise InputError(
                f"{owner} is {what}; expected numbers. {remedy.format(it=it)}; text that is meant "
                f"as numbers by {it}.astype(float), {it}.cast(float) in polars."
            )
        if kind == "time":
            raise InputError(
                f"{owner} holds times of the day; expected numbers. Give hours, in polars "
                f"{it}.dt.hour() + {it}.dt.minute() / 60."
            )
        if held.dtype.kind in "Mm":
            what = "dates" if held.dtype.kind == "M" else "durations"
            read = remedy == COLUMNS and key is None and hasattr(value, "to_frame")
            ways = f" A data frame is read with its {what}: {it}.to_frame()." if read else ""
            raise InputError(
                f"{owner} holds {what}; expected numbers. {_time_as_number(column, it)}{ways}"
            )


def frame_rows(X: Data, rows: Array | Indices) -> Data:
    """Select rows of an array or a data frame by their indices; a frame stays a frame."""
    table: Any = X
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def columns_of(X: object, names: Iterable[str]) -> list[np.ndarray]:
    """Columns of a frame as they are, with their own types."""
    frame: Any = X
    return [getattr(frame[name], "array", frame[name]) for name in names]


def frame_like(X: object, columns: Mapping[str, np.ndarray]) -> Frame:
    """Make a data frame of the library that X, a frame or series, is of, or else of pandas.

    columns : name -> (n,). The index of X is kept, in libraries whose frames have one.
    """
    library: Any = sys.modules.get(type(X).__module__.partition(".")[0])
    index = getattr(X, "index", None)
    if not hasattr(library, "DataFrame"):
        import pandas

        library = pandas
    # Both libraries find out what Python objects in a list are, such as dates with a time zone.
    columns = {
        name: values.tolist()
        if isinstance(values, np.ndarray) and values.dtype.kind == "O"
        else values
        for name, values in columns.items()
    }
    if index is None or callable(index):  # The index of a list is a method.
        return library.DataFrame(columns)
    return library.DataFrame(columns, index=index)
