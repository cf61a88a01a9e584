"""Validation at the public boundary: every message names the argument, what came and the remedy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ChainedGPWarning, InputError
from ..linalg import Array

__all__ = [
    "as_column_names",
    "as_fractions",
    "as_generator",
    "as_inputs",
    "as_metadata",
    "as_name",
    "as_percent",
    "as_row_values",
    "as_targets",
    "check_order",
    "column_names",
    "fraction",
    "is_dask",
    "one_of",
    "positive_float",
    "positive_int",
    "rows_by_name",
    "thread_count",
    "without_weights",
]

WEIGHTS = "weights"
BLOCK = 2**16  # rows that are checked at a time
COLUMNS = (
    "Give one column for each category (pandas.get_dummies, to_dummies of polars, or OneHotEncoder "
    "of scikit-learn), or the rank in an ordered one ({it}.cat.codes, {it}.to_physical() in polars)"
)
CLASSES = (
    "Code two classes as 0 and 1, more as 0, 1, 2, …: numpy.unique({it}, return_inverse=True)[1] "
    "does it in their sorted order"
)
"""What to do with text and categories, among the inputs and as targets."""


def as_inputs(X: Any, name: str = "X", columns: int | tuple[str, ...] | None = None) -> Array:
    """X as a finite float (n, D) array: a copy, but a memmap is referenced as it is.

    One-dimensional X becomes one column. Data frames are read by value.

    columns : how many columns there must be, or their names, which those of a frame must be.
    """
    names = column_names(X)
    doubled = {key for key in names if names.count(key) > 1} if names else ()
    if doubled:
        listed = ", ".join(repr(key) for key in sorted(doubled))
        raise InputError(
            f"{name} has several columns named {listed}: rename them, or leave out all but one."
        )
    if isinstance(columns, tuple):
        _check_names(names, columns, name)
        columns = len(columns)
    if isinstance(X, np.memmap):
        if X.ndim != 2:
            raise InputError(f"{name} is a memmap of {X.ndim} dimensions; expected 2 (n, D).")
        array: Array = X
    else:
        array = _as_float(X, name)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2:
            raise InputError(
                f"{name} must be (n, D); got an array of shape {array.shape}. "
                "Reshape it so that rows are observations and columns are inputs."
            )
    _check_finite(array, name, names)
    if 0 in array.shape:
        raise InputError(
            f"{name} is empty: its shape is {array.shape}. Give one row and one column or more."
        )
    if columns is not None and array.shape[1] != columns:
        raise InputError(
            f"{name} has {array.shape[1]} columns; the model was built with {columns}. "
            "Give the same inputs, in the same order."
        )
    return array


def as_targets(Y: Any, rows: int, name: str = "Y", allow_missing: bool = False) -> Array:
    """Y as a finite float (n,) array; (n, 1) is accepted, and NaN with `allow_missing`."""
    array = Y if isinstance(Y, np.memmap) else _as_float(Y, name, CLASSES)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        lying = array.shape == (1, rows)
        raise InputError(
            f"{name} must be (n,) or (n, 1): one target per row; got shape {array.shape}. "
            + (f"Transpose it: {name}.T." if lying else "Fit one model per output column.")
        )
    if array.size != rows:
        raise InputError(
            f"{name} has {array.size} rows but the inputs have {rows}: give one for each row."
        )
    bad = np.flatnonzero(np.isnan(array))
    if bad.size and not allow_missing:
        way = 'Drop those rows, or give missing="drop".'
        values = "value" if bad.size == 1 else "values"
        raise InputError(
            f"{name} has {bad.size} missing {values} (NaN), the first at row {bad[0]}. "
            f"{way if name == 'Y' else 'Drop those rows.'}"
        )
    _check_finite(array[~np.isnan(array)] if bad.size else array, name)
    return array


def as_metadata(
    metadata: Any, likelihood: Any, rows: int, name: str = "Y_metadata"
) -> tuple[dict[str, Array], Array | None]:
    """Per-row values as (n,) arrays, and the row weights (or None).

    Scalars are repeated. Unknown names, wrong lengths and values that are not finite are errors.
    """
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        raise InputError(
            f"{name} must be a dict of per-row values, for example {{'weights': w}}; got "
            f"{type(metadata).__name__}."
        )
    values = {
        key: as_row_values(value, f"{name}[{key!r}]", rows, key in likelihood.unbounded_metadata)
        for key, value in metadata.items()
    }
    weights = values.pop(WEIGHTS, None)
    likelihood.check_metadata(values)
    for key in set(likelihood.positive_metadata) & set(values):
        if (values[key] <= 0.0).any():
            first = int(np.flatnonzero(values[key] <= 0.0)[0])
            raise InputError(
                f"{name}[{key!r}] must be positive; row {first} is {values[key][first]}. Leave "
                f"out rows without {key}; give exp(…) where there is a logarithm of it."
            )
    if weights is not None and (weights < 0).any():
        first = int(np.flatnonzero(weights < 0)[0])
        raise InputError(
            f"{name}['weights'] must not be negative; row {first} is {weights[first]}. "
            "A weight of 0 leaves a row out."
        )
    return values, weights


def as_row_values(value: Any, name: str, rows: int, unbounded: bool = False) -> Array:
    """One value per row (n,), a scalar repeated; infinite ones only where `unbounded`."""
    array = _as_float(value, name)
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(
            f"{name} must be a scalar or have one value per row ({rows}); got shape {array.shape}."
        )
    _check_finite(array[~np.isposinf(array)] if unbounded else array, name)
    return array


def check_order(X: Any, given: Mapping[str, Any]) -> None:
    """Raise InputError if a pandas object has the rows of the frame X in another order."""
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "equals"):
        return
    for name, value in given.items():
        other: Any = getattr(value, "index", None)
        if not hasattr(other, "equals") or len(other) != len(index) or other.equals(index):
            continue
        comparable = index.is_unique and other.is_unique and index.nlevels == other.nlevels
        if comparable and other.isin(index).all():
            raise InputError(
                f"{name} has the rows of X in another order, by its index. Give "
                f"{name}.loc[X.index], or {name}.to_numpy() if the rows do belong together."
            )


def rows_by_name(Y: Any, Y_metadata: Any, name: str = "Y") -> dict[str, Any]:
    """What `check_order` compares with X, as the user calls it."""
    by_row = Y_metadata if isinstance(Y_metadata, Mapping) else {}
    return {name: Y, **{f"Y_metadata[{key!r}]": value for key, value in by_row.items()}}


def without_weights(metadata: Any) -> Any:
    """Metadata for prediction, where row weights have no meaning."""
    if isinstance(metadata, Mapping):
        return {key: value for key, value in metadata.items() if key != WEIGHTS}
    return metadata


def as_name(name: Any) -> str:
    """A name that paramz and regular expressions can work with."""
    if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
        raise InputError(
            f"name must be an ASCII identifier (letters, digits, underscores); got {name!r}."
        )
    return name


def as_column_names(names: Any, columns: int) -> list[str]:
    """Names for the columns of X, given by the user."""
    listed = [] if isinstance(names, str) else [str(name) for name in names]
    if len(listed) != columns or len(set(listed)) != columns:
        raise InputError(
            f"input_names must be {columns} different names, one for each column of X; got "
            f"{names!r}."
        )
    return listed


def as_generator(rng: Any) -> np.random.Generator:
    """A numpy Generator from an int, a Generator or None (fresh entropy)."""
    if isinstance(rng, int | np.integer) and rng < 0:
        raise InputError(f"rng must not be negative where it is an int; got {rng}.")
    if rng is None or isinstance(rng, int | np.integer | np.random.Generator):
        return np.random.default_rng(rng)
    raise InputError(f"rng must be an int, a numpy Generator or None; got {type(rng).__name__}.")


def is_dask(value: Any) -> bool:
    """Whether a value is a Dask collection: its rows are somewhere else, or nowhere yet."""
    return hasattr(value, "__dask_graph__")


def one_of(value: Any, allowed: Any, name: str) -> Any:
    """`value` if it is one of `allowed`, else an error that lists them."""
    if value not in allowed:
        listed = ", ".join(repr(a) for a in allowed)
        raise InputError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def positive_int(value: Any, name: str) -> int:
    """`value` as an int ≥ 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be an integer of at least 1; got {value!r}.")
    return int(value)


def positive_float(value: Any, name: str) -> float:
    """`value` as a positive finite float."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not (np.isfinite(value) and value > 0.0):
        raise InputError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def fraction(value: Any, name: str) -> float:
    """`value` as a float strictly between 0 and 1."""
    number = isinstance(value, float | np.floating)
    if not (number and 0.0 < value < 1.0):
        raise InputError(f"{name} must be strictly between 0 and 1; got {value!r}.")
    return float(value)


def as_fractions(values: Any, name: str) -> Array:
    """A number or numbers strictly between 0 and 1, as they came or (k,)."""
    fractions = _numbers(values)
    if fractions.ndim > 1 or not (fractions.size and np.all((fractions > 0) & (fractions < 1))):
        raise InputError(
            f"{name} must be a number or a list of numbers strictly between 0 and 1; got "
            f"{values!r}. For percentages use predict_quantiles of the model."
        )
    return fractions


def as_percent(values: Any, name: str) -> Array:
    """Percentages strictly between 0 and 100 as fractions, (k,); warns if all are below 1."""
    percent = np.atleast_1d(_numbers(values))
    inside = (percent > 0.0) & (percent < 100.0)
    if percent.ndim != 1 or not (percent.size and inside.all()):
        raise InputError(
            f"{name} must be percentages between 0 and 100 (not included); got {values!r}."
        )
    if (percent < 1.0).all():
        warnings.warn(
            f"{name} are percentages, and all of {values!r} are below 1: for the median write 50, "
            "not 0.5.",
            ChainedGPWarning,
            stacklevel=4,
        )
    return percent / 100.0


def _numbers(values: Any) -> Array:
    """An array of floats; an empty one where the values are no numbers."""
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        return np.empty(0)


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, or of a series; None where there are none."""
    if hasattr(X, "collect"):  # a lazy frame, which `_check_numbers` refuses
        return None
    if hasattr(X, "columns"):
        names = tuple(X.columns)
    else:
        names = (X.name,) if type(X).__name__ == "Series" else ()
    return names if names and all(isinstance(name, str) for name in names) else None


def _check_names(found: tuple[str, ...] | None, expected: tuple[str, ...], name: str) -> None:
    """The columns of a frame must be those of the model's, in the same order."""
    if found is None or found == expected:
        return
    if sorted(found) == sorted(expected):
        wrong = "the model's columns in another order"
    else:
        lists = {
            "without": [repr(c) for c in expected if c not in found],
            "and with": [repr(c) for c in found if c not in expected],
        }
        parts = [f"{word} {', '.join(some)}" for word, some in lists.items() if some]
        wrong = f"columns {' '.join(parts).removeprefix('and ')}"
    raise InputError(
        f"{name} has {wrong}; the model was built with {', '.join(map(repr, expected))}. "
        f"Give {name}[{list(expected)}]."
    )


def _check_numbers(value: Any, name: str, remedy: str) -> None:
    """No column of a data frame, or series, may hold what numpy would turn into numbers unasked."""
    if hasattr(value, "collect"):
        raise InputError(f"{name} is a {type(value).__name__}, not read yet: {name}.collect().")
    if hasattr(value, "columns"):
        columns = (
            value.items()
            if hasattr(value, "items")
            else ((key, value[key]) for key in value.columns)
        )
    else:
        columns = [(None, value)] if type(value).__name__ == "Series" else []
    for key, column in columns:
        owner, it = (
            (name, name) if key is None else (f"column {key!r} of {name}", f"{name}[{key!r}]")
        )
        kind = str(column.dtype).lower()
        held = np.asarray(column)
        text = held.dtype.kind in "OUST" and any(isinstance(entry, str) for entry in held)
        if kind.startswith(("categor", "enum")) or text:
            what = "text" if text and not kind.startswith(("categor", "enum")) else "categorical"
            raise InputError(
                f"{owner} is {what}; expected numbers. {remedy.format(it=it)}; text that is meant "
                f"as numbers by {it}.astype(float), {it}.cast(float) in polars."
            )
        if held.dtype.kind in "Mm":
            raise InputError(
                f"{owner} holds dates or times; expected numbers. Give the time since a start in a "
                f"unit of your choice: ({it} - {it}.min()) / pandas.Timedelta('1D'), in polars "
                f"({it} - {it}.min()).dt.total_days(fractional=True)."
            )


def _as_float(value: Any, name: str, remedy: str = COLUMNS) -> Array:
    """A new C-ordered float64 array; an error that names the way out where there is none."""
    _check_numbers(value, name, remedy)
    if value is None:
        raise InputError(f"{name} is None; expected numbers. Give an array, a list or a frame.")
    try:
        if np.iscomplexobj(value):
            raise InputError(
                f"{name} is complex; expected real numbers. Give real and imaginary parts apart."
            )
        if hasattr(value, "isna") and hasattr(value, "to_numpy"):  # numpy cannot read pandas.NA
            value = value.to_numpy(dtype=float, na_value=np.nan)
        return np.array(value, dtype=float, order="C")
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        ragged = "inhomogeneous" in str(error)
        reason = "its rows differ in length" if ragged else error
        raise InputError(
            f"{name} could not be read as numbers ({reason}). {remedy.format(it=name)}; leave out "
            "or impute what is missing, and give rows of equal length."
        ) from None


def _check_finite(array: Array, name: str, columns: tuple[str, ...] | None = None) -> None:
    """An error with count and place of what is NaN or infinite; reads a memmap block by block."""
    bad, first = 0, ""
    for start in range(0, len(array), BLOCK):
        found = np.argwhere(~np.isfinite(array[start : start + BLOCK]))
        if len(found) and not bad:
            place = [int(i) for i in found[0] + (start, *[0] * (array.ndim - 1))]
            first = f"at index ({', '.join(map(str, place))})"
            if columns:
                first = f"in row {place[0]} of column {columns[place[1]]!r}"
        bad += len(found)
    if bad:
        values = "value that is" if bad == 1 else "values that are"
        raise InputError(
            f"{name} has {bad} {values} missing, NaN or infinite, the first {first}. "
            "Remove or impute those rows."
        )


def thread_count(num_threads: int | None) -> int:
    """Threads by argument, by CHAINEDGP_NUM_THREADS, or one for each core we may use."""
    if num_threads is not None:
        return positive_int(num_threads, "num_threads")
    setting = os.environ.get("CHAINEDGP_NUM_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if not setting.isdigit() or int(setting) < 1:
        raise InputError(
            f"CHAINEDGP_NUM_THREADS must be an integer of at least 1; got {setting!r}."
        )
    return int(setting)
