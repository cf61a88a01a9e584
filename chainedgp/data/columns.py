"""How all columns of a data frame are read as inputs: numbers, booleans, categories, dates.

A model keeps how it read each column, so that frames to predict at are read in the same way, and
so that axes and messages show levels and dates, not codes and numbers of days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, quoted
from ..linalg import Array
from .frames import column_names
from .kinds import Boolean, Category, Column, Number
from .labels import labels_of
from .reading import (
    SECONDS,
    WITHOUT_SIGNS,
    dates_in,
    durations_in,
    has_signs,
    is_missing,
    kind_of,
    reads_as_number,
    span_of,
    unit_of,
    zone_in,
)
from .times import Date, Duration
from .types import Data

KINDS: dict[str, type[Column]] = {
    cls.kind: cls for cls in (Number, Boolean, Category, Date, Duration)
}
# Text is refused as a category if it has more levels than this, and more than half the rows.
FEW_LEVELS = 20
DATE = r"\d{4}[-/.]\d\d?[-/.]\d\d?([T ].*)?|\d\d?[-/.]\d\d?[-/.]\d{4}( .*)?"
"""How dates look: 2024-12-31, 31.12.2024, 12/31/2024."""


@dataclass(frozen=True)
class Columns:
    """How all columns of a data frame are read, in the order in which a model has them."""

    each: tuple[Column, ...]

    @classmethod
    def of(cls, X: object, name: str = "X", unseen: str = "raise") -> Columns | None:
        """Find how a frame of pandas, polars or the like is to be read; None if all are numbers.

        Arrays, lazy frames and Dask collections give None too: other checks are for them.
        """
        names = column_names(X)
        if hasattr(X, "collect") or hasattr(X, "__dask_graph__"):
            return None
        frame: Any = X
        if not hasattr(X, "columns"):
            return None
        if len(set(frame.columns)) < len(frame.columns):
            return None  # `as_inputs` refuses doubled names.
        found = {key: kind_of(frame[key]) for key in frame.columns}
        if set(found.values()) <= {"number"}:
            return None
        if names is None:
            raise InputError(
                f"{name} has columns that are no numbers, and names of columns that are no text, "
                f"{list(frame.columns)}. Give it names that are text."
            )
        return cls(tuple(_column(key, frame[key], found, name, unseen) for key in names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the data frame's columns."""
        return tuple(column.name for column in self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, d: int) -> Column:
        return self.each[d]

    @property
    def levels(self) -> list[tuple[str, ...]]:
        """The levels of each column, an empty tuple if it is no category."""
        return [c.levels if isinstance(c, Category) else () for c in self.each]

    @property
    def unordered(self) -> list[int]:
        """Indices of the columns that are categories without an order."""
        return [d for d, c in enumerate(self.each) if isinstance(c, Category) and not c.ordered]

    @property
    def ordered(self) -> list[int]:
        """Indices of the columns that are ordered categories."""
        return [d for d, c in enumerate(self.each) if isinstance(c, Category) and c.ordered]

    def renamed(self, names: Iterable[str]) -> Columns:
        """The description of the same columns under other names."""
        pairs = zip(self.each, names, strict=True)
        return Columns(tuple(replace(column, name=str(name)) for column, name in pairs))

    def with_unseen(self, unseen: str) -> Columns:
        """The same columns with another rule for category levels that the model has not seen."""
        return Columns(
            tuple(replace(c, unseen=unseen) if isinstance(c, Category) else c for c in self.each)
        )

    def read(self, X: Data, name: str) -> Array:
        """Read a data frame with these columns in this order as (n, D), NaN for what is missing."""
        frame: Any = X
        parts = [column.read(frame[column.name], name) for column in self.each]
        return np.stack(parts, axis=1)

    def check(self, X: Array, name: str) -> None:
        """Raise InputError if the numbers of an array (n, D) cannot be values of these columns."""
        for column, values in zip(self.each, X.T, strict=True):
            column.check(values, name)

    def back(self, X: Array) -> dict[str, np.ndarray]:
        """Turn an array (n, D) back into columns, by name, with the values of the data frame."""
        return {c.name: c.back(values) for c, values in zip(self.each, X.T, strict=True)}

    def stored(self) -> list[dict[str, object]]:
        """The fields that a file keeps of how the columns are read."""
        return [column.stored() for column in self.each]

    @classmethod
    def from_stored(cls, stored: Iterable[Mapping[str, object]]) -> Columns:
        """Make the columns that a file describes; ValueError or TypeError if it does not."""
        return cls(tuple(column_from(one) for one in stored))


def column_from(stored: Mapping[str, object]) -> Column:
    """Make the description of one column that a file holds, and check the types of its fields."""
    known: dict[str, Any] = {**stored}
    cls = KINDS[known.pop("kind")]
    if "levels" in known:
        known["levels"] = tuple(known["levels"])
        if not known["levels"] or not all(isinstance(level, str) for level in known["levels"]):
            raise ValueError("levels of a category are no texts")
    column = cls(**known)
    if getattr(column, "unit", "days") not in SECONDS:
        raise ValueError("a unit of time is unknown")
    if getattr(column, "unseen", "raise") not in ("raise", "prior"):
        raise ValueError("what to do with levels that were not seen is unknown")
    if isinstance(column, Date):
        np.datetime64(column.start, "s")
    flags = (getattr(column, "ordered", False), getattr(column, "zoned", False))
    texts = (column.name, getattr(column, "zone", "UTC"))
    if not all(isinstance(t, str) for t in texts) or not all(isinstance(f, bool) for f in flags):
        raise TypeError("a name or a flag of a column has a wrong type")
    return column


def _column(key: str, column: Any, found: Mapping[str, str], name: str, unseen: str) -> Column:
    """Find how one column of a data frame is to be read, by what it holds."""
    kind = found[key]
    if kind == "boolean":
        return Boolean(key)
    if kind == "date":
        dates, zoned = dates_in(column, f"column {key!r} of {name}")
        span = span_of(dates)
        unit = unit_of(span)
        first = dates[~np.isnat(dates)].min() if span is not None else np.datetime64(0, "ns")
        start = first.astype("datetime64[D]" if unit in ("days", "hours") else "datetime64[s]")
        zone = zone_in(column) if zoned else "UTC"
        return Date(key, str(start.astype("datetime64[s]")), unit, zoned, zone)
    if kind == "duration":
        return Duration(key, unit_of(span_of(durations_in(column))))
    if kind in ("category", "text"):
        return _category(key, column, kind, name, unseen)
    if kind != "number":
        raise InputError(f"column {key!r} of {name} is a {kind}. {_way_out(kind, key, name)}")
    return Number(key)


def _way_out(kind: str, key: str, name: str) -> str:
    """Advice for a column of a data frame that cannot be read."""
    it = f"{name}[{key!r}]"
    if kind == "time of day":
        return (
            f"Give hours as a number: {it}.map(lambda t: t.hour + t.minute / 60) in pandas, "
            f'{it}.dt.hour() + {it}.dt.minute() / 60 in polars; periodic={{"{key}": 24}} joins '
            "midnight to midnight."
        )
    if kind == "complex number":
        return "Give real and imaginary parts as two columns."
    return "Give numbers, truth values, text, categories, dates or durations, one kind in a column."


def _category(key: str, column: Any, kind: str, name: str, unseen: str) -> Category:
    """Find the levels of a column of text or categories; refuse text that looks like other data."""
    found = labels_of(column)
    values = () if found is None else found.values
    seen = sorted({value for value in values if value is not None})
    if found is None or not seen:
        raise InputError(f"column {key!r} of {name} has no value at all: leave it out.")
    if kind == "text":
        _check_text(key, column, seen, len(found.values), name)
    levels = seen if found.categories is None else found.categories
    return Category(key, tuple(levels), found.ordered, unseen)


def _check_text(key: str, column: Any, seen: list[str], rows: int, name: str) -> None:
    """Raise InputError if a column's text is more likely dates, numbers or notes than levels."""
    it = f"{name}[{key!r}]"
    levels = f'or make it a category if levels are meant: {it}.astype("category").'
    dates = f"pandas.to_datetime({it}), {it}.str.to_datetime() in polars"
    if any(re.match(r"\d{1,2}\D", value) for value in seen):
        dates = (
            f"pandas.to_datetime({it}, dayfirst=True), without dayfirst where the month comes "
            f'first; {it}.str.to_datetime("%d.%m.%Y") in polars'
        )
    numbers = f"{it}.astype(float), {it}.cast(float) in polars"
    lax = {
        dates: f'pandas.to_datetime({it}, errors="coerce"), {it}.str.to_datetime(strict=False)',
        numbers: f'pandas.to_numeric({it}, errors="coerce"), {it}.cast(float, strict=False)',
    }
    like_number = reads_as_number
    if any(map(has_signs, seen)):
        numbers = WITHOUT_SIGNS.format(it=it)
        lax[numbers] = (
            f'{numbers}; then pandas.to_numeric(…, errors="coerce"), .cast(float, strict=False)'
        )

        def like_number(value: str) -> bool:
            return reads_as_number(value) or has_signs(value)

    for meant, like, way in (("dates", _is_date, dates), ("numbers", like_number, numbers)):
        others = [value for value in seen if not like(value)]
        if not others:
            raise InputError(
                f"column {key!r} of {name} is text that reads like {meant}: {way}; {levels}"
            )
        if 2 * len(others) < len(seen) or _mostly(column, like):
            raise InputError(
                f"column {key!r} of {name} reads like {meant}, but for {quoted(others)}. To take "
                f"these for missing: {lax[way]} in polars; {levels}"
            )
    if len(seen) > max(FEW_LEVELS, rows / 2):
        raise InputError(
            f"column {key!r} of {name} has {len(seen)} different texts in {rows} rows: names or "
            f"notes say nothing about other rows. Leave it out, {levels}"
        )


def _mostly(column: Any, like: Callable[[str], bool]) -> bool:
    """Whether at least half of a column's entries are no text but print like dates or numbers."""
    entries = [entry for entry in np.asarray(column).tolist() if not is_missing(entry)]
    odd = [e for e in entries if not isinstance(e, str | bool | np.bool_) and like(str(e))]
    return 2 * len(odd) >= len(entries)


def _is_date(value: str) -> bool:
    """Whether a text is a date."""
    return re.fullmatch(DATE, value) is not None
