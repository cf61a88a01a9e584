"""Rows of a data set: inputs, targets, metadata and weights, read, checked, sliced and joined.

Every error names the argument, what came and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from ..errors import InputError, quoted
from ..linalg import Array, Indices
from .columns import Columns
from .frames import (
    BESIDE,
    CLASSES,
    COLUMNS,
    RowLabels,
    check_numbers,
    check_one_row,
    check_order,
    check_target,
    check_words,
    column_names,
    in_order,
    index_of,
)
from .labels import coded
from .missing_metadata import telling
from .row_names import WITH_GAPS, RowNames, named_rows, numbers_of_rows
from .types import Data, Keywords, Metadata

WEIGHTS = "weights"
BLOCK = 2**16  # So many rows are searched for NaN at a time: a memmap stays on disk.
EVERY = slice(None)
Value = TypeVar("Value", float | Array, Array)
Selection = slice | np.ndarray  # Rows are selected by a slice, row numbers or (n,) booleans.
Expected: TypeAlias = int | tuple[str, ...] | Columns | None
"""What a model expects of the columns of X: their number, their names, or how they are read."""


class TakesRows(Protocol):
    """What reading rows asks of a likelihood; `likelihoods.Likelihood` has all of it."""

    positive_metadata: tuple[str, ...]
    unbounded_metadata: tuple[str, ...]
    class_names: tuple[str, ...] | None

    def check_metadata(self, names: Iterable[str]) -> None:
        """Raise InputError if metadata have a name unknown to the likelihood, or lack one."""

    def check_rows(self, y: Array, **metadata: Array) -> None:
        """Raise InputError if targets are outside the support or contradict their metadata."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a data set: inputs, targets, metadata and weights; immutable, so they can be shared.

    Parameters
    ----------
    X : (n, D) inputs: an array, a memmap that stays on disk, or a Dask array.
    y : (n,) targets, of the same kinds.
    metadata : name -> (n,), what the likelihood takes by keyword beside y.
    weights : (n,) powers of the rows' densities, or None where all are 1.
    names : what the user calls the rows, where these are not their numbers.
    kept : (n,) numbers of the rows in the user's table, and how many rows this has; None where no
        row was left out.
    index : of the pandas object that the rows come from, by which others are paired with them; None
        without one, and after joining data sets.
    """

    X: Array
    y: Array
    metadata: Mapping[str, Array] = field(default_factory=dict)
    weights: Array | None = None
    names: RowNames | None = None
    kept: tuple[Indices, int] | None = None
    index: RowLabels | None = None

    @classmethod
    def read(
        cls,
        X: Data,
        Y: Data,
        Y_metadata: Metadata,
        likelihood: TakesRows,
        *,
        missing: str = "raise",
        columns: Expected = None,
        names: tuple[str, str] = ("X", "Y"),
        weighted: bool = True,
    ) -> Rows:
        """Read and check the rows of a data set as a user gives them.

        missing : "raise" refuses NaN; "drop" leaves out rows without a target or an input.
        columns : how many columns X must have, the names of those that a frame must have, or how
            they are read.
        names : the user's names of X and Y, for messages.
        weighted : False ignores row weights, which have no meaning in predictions.
        """
        check_order(X, Y, Y_metadata, names[1])
        check_target(X, Y, names)
        drop, called = missing == "drop", RowNames.of(X, Y)
        index = next((one for one in map(index_of, (X, Y)) if one is not None), None)
        labels = getattr(
            columns, "names", columns if isinstance(columns, tuple) else column_names(X)
        )
        with named_rows(called):
            X = as_inputs(X, names[0], columns, allow_missing=drop)
            Y = coded(Y, likelihood.class_names, names[1])
            y = as_targets(Y, len(X), names[1], allow_missing=drop)
            rows = cls(
                X, y, *as_metadata(Y_metadata, likelihood, len(X), weighted), called, index=index
            )
        kept = ~np.isnan(y)
        if drop and not isinstance(X, np.memmap):
            kept &= ~np.isnan(X).any(axis=1)
        if drop and not kept.all():
            if not kept.any():
                empty = np.isnan(X).all(axis=0)
                if empty.any() and labels is not None and len(X) > 1:
                    raise InputError(
                        _without_values(names[0], np.array(labels, dtype=object)[empty])
                    )
                raise InputError(
                    "all targets in Y are missing (NaN): nothing is left to fit."
                    if np.isnan(y).all()
                    else "every row misses its target or an input: nothing is left to fit. "
                    "Leave out columns with many missing values."
                )
            rows = rows[kept].known_as((np.flatnonzero(kept), len(y)))
        with named_rows(rows.names):
            likelihood.check_rows(rows.targets(), **rows.metadata)
        return rows

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Join data sets: the rows of all parts, in memory; all must have the same metadata."""
        first = parts[0]
        return cls(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            {key: np.concatenate([part.metadata[key] for part in parts]) for key in first.metadata},
            None
            if first.weights is None
            else np.concatenate([part.weights for part in parts if part.weights is not None]),
            RowNames.joined(
                [
                    None if part.names is None or part.names.by == WITH_GAPS else part.names
                    for part in parts
                ]
            ),
        ).known_as(_joined_numbers(parts))

    def known_as(self, kept: tuple[Indices, int] | None) -> Rows:
        """These data rows as those of a table from which others were left out; see `kept`."""
        if kept is None:
            return self
        return replace(self, names=self.names or RowNames(kept[0], WITH_GAPS), kept=kept)

    def followed_by(self, more: Rows) -> Rows:
        """Append the rows of another data set, in memory; both must have the same metadata.

        If only one of the two has weights, those of the other are 1.
        """
        mine, theirs = set(self.metadata), set(more.metadata)
        if mine != theirs:
            lacking, whose = (mine - theirs, "new") if mine - theirs else (theirs - mine, "old")
            names = ", ".join(repr(name) for name in sorted(lacking))
            raise InputError(
                f"the {whose} rows have no Y_metadata {names}, which the others have. Give all "
                "rows the same metadata; set_data(X, Y, Y_metadata) takes all rows anew."
            )
        if self.weights is None and more.weights is None:
            return Rows.joined([self, more])
        parts = (self, more)
        ones = [np.ones(part.num_rows) if part.weights is None else part.weights for part in parts]
        return Rows.joined([replace(p, weights=w) for p, w in zip(parts, ones, strict=True)])

    def check_weights(self) -> None:
        """Raise InputError if all row weights are 0."""
        if self.weights is not None and not bool((self.weights > 0.0).any()):
            raise InputError(
                "Y_metadata['weights'] are 0 in all rows: nothing is left to fit. Give one row or "
                "more a positive weight, or leave weights out."
            )

    @property
    def num_rows(self) -> int:
        """Number n of rows of the data set."""
        return self.X.shape[0]

    @property
    def numbers(self) -> Indices:
        """Numbers (n,) of the rows in the user's table, in which rows with gaps are counted."""
        return np.arange(self.num_rows) if self.kept is None else self.kept[0]

    @property
    def num_given(self) -> int:
        """Number of rows of the user's table, with those that were left out."""
        return self.num_rows if self.kept is None else self.kept[1]

    @property
    def on_disk(self) -> bool:
        """Whether the inputs are a memmap: arrays as large as the data then belong on disk."""
        return isinstance(self.X, np.memmap)

    @property
    def Y_metadata(self) -> dict[str, Array]:
        """The metadata of the rows as a user gives them, with the weights among them."""
        return {**self.metadata, **({} if self.weights is None else {WEIGHTS: self.weights})}

    @cached_property
    def telling(self) -> tuple[str, ...]:
        """Names of the metadata that are not their default in all rows."""
        return telling(self.metadata)

    @cached_property
    def last_time(self) -> float | None:
        """The largest of the targets in memory and of the finite ends of their intervals."""
        ends = [self.y, self.metadata.get("y_upper")]
        held = [a[np.isfinite(a)] for a in ends if isinstance(a, np.ndarray)]
        return max((float(a.max()) for a in held if a.size), default=None)

    def __getitem__(self, rows: Selection) -> Rows:
        """Some of the data rows, by slice, indices or booleans; a slice of a memmap is a memmap."""
        weights = None if self.weights is None else self.weights[rows]
        names = None if self.names is None else self.names[rows]
        index = None if self.index is None else self.index[rows]
        kept = None if self.kept is None else (self.kept[0][rows], self.kept[1])
        some = self.X[rows], self.y[rows], rows_of(self.metadata, rows)
        return Rows(*some, weights, names, kept, index)

    def take(self, rows: Selection) -> Rows:
        """Some of the data rows in memory, inputs and targets as float64."""
        some = self[rows]
        return replace(some, X=np.asarray(some.X, dtype=float), y=some.targets())

    def thinned(self, most: int) -> Rows:
        """Every k-th data row, with the largest k that leaves `most` rows or more; or all."""
        return self[:: max(1, self.num_rows // most)]

    def counted(self, most: int) -> Rows:
        """Repeat the data rows as often as their weights say, for methods that take no weights.

        Not many more than `most` rows come back. Whole weights whose sum is at most `most` are
        counted exactly, others to about a tenth of a row.
        """
        if self.weights is None:
            return self.thinned(most)
        weights = np.asarray(self.weights, dtype=float)
        if not weights.any():  # Only a sample can have no weight: whole data sets are checked.
            return self.thinned(most)
        whole = bool(np.all(weights == np.round(weights)))
        count = int(min(most, weights.sum() if whole else 10 * np.count_nonzero(weights)))
        ends = np.cumsum(weights)
        middles = (np.arange(count) + 0.5) * (ends[-1] / count)
        return self[np.minimum(np.searchsorted(ends, middles), self.num_rows - 1)]

    def counting(self) -> Rows:
        """The data rows whose weight is not 0; all rows if none has a positive weight."""
        some = None if self.weights is None else np.asarray(self.weights) > 0.0
        return self if some is None or some.all() or not some.any() else self[some]

    def chunks(self, size: int) -> list[slice]:
        """Slices of `size` data rows each, the last perhaps shorter, that together are all rows."""
        n = self.num_rows
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def inputs(self, rows: Selection = EVERY) -> Array:
        """Inputs X of some rows in memory: (n, D), contiguous float64."""
        return np.ascontiguousarray(self.X[rows], dtype=float)

    def targets(self, rows: Selection = EVERY) -> Array:
        """Targets of some rows in memory: (n,), float64."""
        return np.asarray(self.y[rows], dtype=float)

    def keywords(self, rows: Selection = EVERY, /, **parameters: float) -> Keywords:
        """Keywords of a likelihood's methods at some rows: its parameters and these metadata."""
        return {**parameters, **rows_of(self.metadata, rows)}


def _joined_numbers(parts: Sequence[Rows]) -> tuple[Indices, int] | None:
    """`Rows.kept` of several tables, one below the other."""
    if all(part.kept is None for part in parts):
        return None
    ends = np.cumsum([part.num_given for part in parts])
    pairs = zip(parts, ends, strict=True)
    numbers = [part.numbers + end - part.num_given for part, end in pairs]
    return np.concatenate(numbers), int(ends[-1])


def rows_of(values: Mapping[str, Value], rows: Selection) -> dict[str, Value]:
    """Restrict the per-row arrays among named values, such as metadata, to some rows."""
    return {
        key: value if isinstance(value, float | int) or not np.ndim(value) else value[rows]
        for key, value in values.items()
    }


def is_dask(value: object) -> bool:
    """Whether data are a Dask collection, whose rows are elsewhere or not computed yet."""
    return hasattr(value, "__dask_graph__")


def as_inputs(
    X: Data, name: str = "X", columns: Expected = None, allow_missing: bool = False
) -> Array:
    """Read the inputs X as a finite float (n, D) array: a copy, but a memmap itself.

    One-dimensional X becomes one column. If the model has named columns, those of a data frame are
    put into their order.

    columns : the number of columns that X must have; or the names that those of a frame must have;
        or how they are read, if some are no numbers.
    allow_missing : whether X may have NaN; a memmap may not.
    """
    check_one_row(X, name, columns if isinstance(columns, tuple) else getattr(columns, "names", ()))
    names = column_names(X)
    doubled = {key for key in names if names.count(key) > 1} if names else ()
    if doubled:
        listed = ", ".join(repr(key) for key in sorted(doubled))
        raise InputError(
            f"{name} has several columns named {listed}: rename them, or leave out all but one."
        )
    reading = columns if isinstance(columns, Columns) else None
    if isinstance(columns, tuple | Columns):
        columns = columns.names if isinstance(columns, Columns) else columns
        X = in_order(X, columns, name)
        names = None if names is None else columns
        columns = len(columns)
    if reading is not None and names is not None and hasattr(X, "columns"):
        array: Array = reading.read(X, name)
    elif isinstance(X, np.memmap):
        if X.ndim != 2:
            raise InputError(f"{name} is a memmap of {X.ndim} dimensions; expected 2 (n, D).")
        array = X
        allow_missing = False
    else:
        array = _as_float(X, name)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2:
            raise InputError(
                f"{name} must be (n, D); got an array of shape {array.shape}. "
                "Reshape it so that rows are observations and columns are inputs."
            )
    if allow_missing:
        _check_finite(np.where(np.isnan(array), 0.0, array), name, names)
    else:
        _check_missing(array, name, names)
        _check_finite(array, name, names)
    if 0 in array.shape:
        raise InputError(
            f"{name} is empty: its shape is {array.shape}. Give at least one row and one column."
        )
    if columns is not None and array.shape[1] != columns:
        raise InputError(
            f"{name} has {array.shape[1]} columns; the model was built with {columns}. "
            "Give the same inputs, in the same order."
        )
    if reading is not None:
        reading.check(array, name)
    return array


def as_targets(Y: Data | None, rows: int, name: str = "Y", allow_missing: bool = False) -> Array:
    """Read targets Y as a finite float (n,) array; (n, 1) is accepted, NaN if `allow_missing`."""
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
            f"{way if name == 'Y' else 'Drop those rows.'}",
            rows=bad[:1],
        )
    _check_finite(np.where(np.isnan(array), 0.0, array) if bad.size else array, name)
    return array


def as_metadata(
    metadata: Metadata, likelihood: TakesRows, rows: int, weighted: bool = True
) -> tuple[dict[str, Array], Array | None]:
    """Read Y_metadata as (n,) arrays, and the row weights: None without, or if not `weighted`.

    Scalars are repeated. Unknown names, wrong lengths and values that are not finite are errors.
    """
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        raise InputError(
            f"Y_metadata must be a dict of per-row values, for example {{'weights': w}}; got "
            f"{type(metadata).__name__}."
        )
    values = {
        key: as_row_values(
            value, f"Y_metadata[{key!r}]", rows, key in likelihood.unbounded_metadata
        )
        for key, value in metadata.items()
        if weighted or key != WEIGHTS
    }
    weights = values.pop(WEIGHTS, None)
    likelihood.check_metadata(values)
    for key in set(likelihood.positive_metadata) & set(values):
        if (values[key] <= 0.0).any():
            first = int(np.flatnonzero(values[key] <= 0.0)[0])
            raise InputError(
                f"Y_metadata[{key!r}] must be positive; row {first} is {values[key][first]}. Leave "
                f"out rows without {key}; if you have its logarithm, give exp(…) of it.",
                rows=[first],
            )
    if weights is not None and (weights < 0).any():
        first = int(np.flatnonzero(weights < 0)[0])
        raise InputError(
            f"Y_metadata['weights'] must not be negative; row {first} is {weights[first]}. "
            "A weight of 0 leaves a row out.",
            rows=[first],
        )
    return values, weights


def as_row_values(value: Data, name: str, rows: int, unbounded: bool = False) -> Array:
    """Read one value per data row, (n,), a scalar repeated; infinite ones only if `unbounded`."""
    array = _as_float(value, name, BESIDE)
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(
            f"{name} must be a scalar or have one value per row ({rows}); got shape {array.shape}."
        )
    _check_finite(np.where(np.isposinf(array), 0.0, array) if unbounded else array, name)
    return array


def _as_float(value: Data | None, name: str, remedy: str = COLUMNS) -> Array:
    """Read data as a new C-ordered float64 array; the error says what to do about other data."""
    check_numbers(value, name, remedy)
    if value is None:
        raise InputError(f"{name} is None; expected numbers. Give an array, a list or a frame.")
    try:
        if np.iscomplexobj(value):
            raise InputError(
                f"{name} is complex; expected real numbers. Give its real and imaginary parts."
            )
        if hasattr(value, "isna") and hasattr(value, "to_numpy"):  # numpy cannot read pandas.NA.
            value = value.to_numpy(dtype=float, na_value=np.nan)
        return np.array(value, dtype=float, order="C")
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        ragged = "inhomogeneous" in str(error)
        if not ragged:
            check_words(value, name, name, remedy == CLASSES)
        reason = "its rows differ in length" if ragged else error
        raise InputError(
            f"{name} could not be read as numbers ({reason}). {remedy.format(it=name)}; leave out "
            "or impute what is missing, and give rows of equal length."
        ) from None


def _without_values(name: str, names: np.ndarray) -> str:
    """The error of a table X that has columns without a single value."""
    listed, (s, it) = quoted(names.tolist()), ("s", "them") if len(names) > 1 else ("", "it")
    return (
        f"{name} has no value in its column{s} {listed}: leave {it} out, or fill {it}. If values "
        "came from another table, the two may have different indexes."
    )


def _check_missing(array: Array, name: str, columns: tuple[str, ...] | None) -> None:
    """Raise InputError that names the columns of a frame, and their rows, with missing values."""
    if columns is None or array.ndim != 2 or array.shape[1] != len(columns):
        return
    holes = np.isnan(array)
    if not holes.any():
        return
    found, empty = [], holes.all(axis=0)
    if empty.any() and name == "X" and len(array) > 1:
        raise InputError(_without_values(name, np.array(columns, dtype=object)[empty]))
    for column, hole in zip(columns, holes.T, strict=True):
        rows = np.flatnonzero(hole)
        if rows.size:
            word = "row" if rows.size == 1 else f"{rows.size} rows,"
            found.append(f"column {column!r} in {word} {numbers_of_rows(rows)}")
    number = int(holes.sum())
    ways = "Leave those rows out or impute them; a missing level can be a level of its own."
    drop = 'missing="drop" leaves those rows out; or impute them. A missing level can be a level.'
    raise InputError(
        f"{name} has {number} missing {'value' if number == 1 else 'values'}: {'; '.join(found)}. "
        f"{drop if name == 'X' else ways}",
        rows=np.flatnonzero(holes.any(axis=1)),
    )


def _check_finite(array: Array, name: str, columns: tuple[str, ...] | None = None) -> None:
    """An error with count and place of what is NaN or infinite; reads a memmap block by block."""
    bad, first, row = 0, "", 0
    for start in range(0, len(array), BLOCK):
        found = np.argwhere(~np.isfinite(array[start : start + BLOCK]))
        if len(found) and not bad:
            place = [int(i) for i in found[0] + (start, *[0] * (array.ndim - 1))]
            row = place[0]
            first = f"at index ({', '.join(map(str, place))})"
            if columns:
                first = f"in row {row} of column {columns[place[1]]!r}"
        bad += len(found)
    if bad:
        values = "value that is" if bad == 1 else "values that are"
        raise InputError(
            f"{name} has {bad} {values} missing, NaN or infinite, the first {first}. "
            "Remove or impute those rows.",
            rows=[row],
        )
