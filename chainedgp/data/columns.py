"""How the columns of a data frame are read as inputs: numbers, booleans, categories, dates.

A model keeps how it read each column, so that frames to predict at are read in the same way, and
so that axes and messages show levels and dates, not codes and numbers of days.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .frames import column_names
from .labels import labels_of
from .types import Data

__all__ = ["Boolean", "Category", "Column", "Columns", "Date", "Duration", "Number"]

SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
"""Units of dates and durations."""
SEASONS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 365.25 * 7200.0}
SEASONS["year"] = 12 * SEASONS["month"]
"""Periods of dates by name, in seconds."""
UNITS_SPANNED = 3.0  # The data span so many units at least; smaller ones are taken for less.
MOST_NAMED = 8  # Messages name so many levels at most.
# Text that differs in more than half of the rows, and has more than so many levels, is no category.
FEW_LEVELS = 20


@dataclass(frozen=True)
class Column:
    """How one column is read: as the float64 array that a model sees.

    name : of the column in the frame.
    """

    name: str
    kind: ClassVar[str] = ""

    @property
    def words(self) -> str:
        """How it was read, for people."""
        return self.kind

    def read(self, column: Data, owner: str) -> Array:
        """Values (n,) of a column, NaN where one is missing.

        owner : what a message calls the frame.
        """
        raise NotImplementedError

    def check(self, values: Array, owner: str) -> None:
        """Raise InputError where numbers (n,) that were given by an array cannot be this column."""

    def number(self, value: object) -> float:
        """One value of a user's as the number that a model sees."""
        return float(self.read(np.array([value], dtype=object), "the value")[0])

    def shown(self, value: float) -> str:
        """A number that a model sees, in the words of the table."""
        return f"{value:.3g}"

    def back(self, values: Array) -> np.ndarray:
        """Numbers (n,) that a model sees as the table had them."""
        return values

    def period(self, value: object) -> float:
        """The length of a season in the unit of the column."""
        number = value if isinstance(value, int | float | np.number) else np.nan
        if isinstance(value, bool) or not 0.0 < float(number) < np.inf:
            raise InputError(
                f"periodic[{self.name!r}] must be a positive number, the season in the unit of the "
                f"column; got {value!r}."
            )
        return float(number)

    def stored(self) -> dict[str, object]:
        """What a file keeps of it, by `from_stored` made into the same again."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **own}


@dataclass(frozen=True)
class Number(Column):
    """A column of numbers, taken as they are."""

    kind: ClassVar[str] = "number"

    def read(self, column: Data, owner: str) -> Array:
        """Values (n,) of a column of numbers."""
        what = kind_of(column)
        if what not in ("number", "boolean"):
            raise InputError(
                f"column {self.name!r} of {owner} is a {what}; the model was built with numbers "
                "there. Give numbers, or build the model with such a column."
            )
        return _floats(column)


@dataclass(frozen=True)
class Boolean(Column):
    """A column of truth values: 0 for False and 1 for True."""

    kind: ClassVar[str] = "boolean"

    @property
    def words(self) -> str:
        """How it was read, for people."""
        return "boolean: 0 is False, 1 is True"

    def read(self, column: Data, owner: str) -> Array:
        """0 and 1 (n,) of a column of truth values, or of numbers 0 and 1."""
        if kind_of(column) not in ("number", "boolean"):
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                "truth values there. Give True and False, or 0 and 1."
            )
        values = _floats(column)
        self.check(values, owner)
        return values

    def check(self, values: Array, owner: str) -> None:
        """Only 0 and 1 are truth values."""
        bad = values[~(np.isnan(values) | np.isin(values, (0.0, 1.0)))]
        if bad.size:
            raise InputError(
                f"column {self.name!r} of {owner} has {bad[0]:g}; expected True and False, or 0 "
                "and 1."
            )

    def shown(self, value: float) -> str:
        """Truth values as such."""
        return {0.0: "False", 1.0: "True"}.get(float(value), f"{value:.3g}")

    def back(self, values: Array) -> np.ndarray:
        """Truth values, where all are."""
        return values.astype(bool) if np.isin(values, (0.0, 1.0)).all() else values


@dataclass(frozen=True)
class Category(Column):
    """A column of text or categories: codes 0, 1, 2, … of its levels.

    levels : in the order of their codes. ordered : whether that is an order of the levels.
    unseen : "raise", or "prior" to give levels that the model has not seen codes of their own.
    """

    levels: tuple[str, ...]
    ordered: bool = False
    unseen: str = "raise"
    kind: ClassVar[str] = "category"

    @property
    def words(self) -> str:
        """How it was read, for people."""
        if self.ordered:
            return f"ordered category: {' < '.join(_short(self.levels))}"
        return f"category of {len(self.levels)} levels: {', '.join(_short(self.levels))}"

    def read(self, column: Data, owner: str) -> Array:
        """Codes (n,) of the labels in a column, NaN where one is missing."""
        found = labels_of(column)
        values = found.values if found is not None else self._labels(np.asarray(column))
        codes: dict[str | None, float] = {label: float(k) for k, label in enumerate(self.levels)}
        codes[None] = np.nan
        unknown = list(dict.fromkeys(value for value in values if value not in codes))
        if unknown and (self.ordered or self.unseen == "raise"):
            self._refuse(values, unknown, owner)
        codes |= {label: float(len(self.levels) + k) for k, label in enumerate(unknown)}
        return np.array([codes[value] for value in values], dtype=float)

    def _labels(self, values: np.ndarray) -> list[str | None]:
        """Levels that were given as numbers or truth values."""
        return [str(value) if str(value) in self.levels else _label(value) for value in values]

    def _refuse(self, values: Sequence[str | None], unknown: Sequence[Any], owner: str) -> None:
        """Raise InputError for levels that the model does not know."""
        first = list(values).index(unknown[0])
        ways = "Give one of these" if self.ordered else (
            'Give one of these, or set m.unseen = "prior": a level without data is then predicted '
            "from what the others have in common"
        )  # fmt: skip
        raise InputError(
            f"column {self.name!r} of {owner} has {'levels' if len(unknown) > 1 else 'a level'} "
            f"that the model does not know: {', '.join(_short(unknown))}, first in row {first}. It "
            f"knows {', '.join(_short(self.levels))}. {ways}."
        )

    def check(self, values: Array, owner: str) -> None:
        """Codes are whole numbers below the number of levels."""
        bad = (values != np.rint(values)) & ~np.isnan(values)
        if self.unseen == "raise" or self.ordered:
            bad |= (values < 0) | (values >= len(self.levels))
        if bad.any():
            raise InputError(
                f"{owner} has {values[bad][0]:g} in column {self.name!r}; expected the codes of "
                f"its levels, from 0 for {self.levels[0]} to {len(self.levels) - 1} for "
                f"{self.levels[-1]}, or a data frame with the levels themselves."
            )

    def number(self, value: object) -> float:
        """The code of a level; a number that is no level is taken for a code."""
        if not isinstance(value, str) and _label(value) not in self.levels:
            code = np.array([float(value)])
            self.check(code, "the value")
            return float(code[0])
        return float(self.read(np.array([value], dtype=object), "the value")[0])

    def shown(self, value: float) -> str:
        """The level of a code."""
        code = int(np.rint(value))
        return self.levels[code] if 0 <= code < len(self.levels) else f"code {code}"

    def back(self, values: Array) -> np.ndarray:
        """The levels of codes."""
        return np.array([self.shown(value) for value in values], dtype=object)

    def period(self, value: object) -> float:
        """Categories have no seasons."""
        raise InputError(
            f"periodic names {self.name!r}, which is a category; expected a column of numbers or "
            "dates."
        )


@dataclass(frozen=True)
class Date(Column):
    """A column of dates or times: the time since `start`, in a unit.

    start : ISO date and time of 0. unit : "seconds", "minutes", "hours" or "days".
    zoned : whether dates have a time zone; their numbers are then those of UTC.
    """

    start: str
    unit: str
    zoned: bool = False
    kind: ClassVar[str] = "date"

    @property
    def words(self) -> str:
        """How it was read, for people."""
        start = self.start.removesuffix("T00:00:00").replace("T", " ")
        return f"date, in {self.unit} since {start}{' UTC' if self.zoned else ''}"

    def read(self, column: Data, owner: str) -> Array:
        """Time since the start (n,), NaN where a date is missing."""
        if kind_of(column) != "date":
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                f"dates there. Give dates, in pandas by pandas.to_datetime(…)."
            )
        dates, zoned = _dates(column)
        if zoned != self.zoned:
            raise InputError(
                f"column {self.name!r} of {owner} has dates {'with' if zoned else 'without'} a "
                f"time zone; the model was built with dates {'with' if self.zoned else 'without'} "
                "one. In pandas .dt.tz_localize(…) adds a zone, .dt.tz_localize(None) drops it."
            )
        return _since(dates, np.datetime64(self.start, "ns"), self.unit)

    def number(self, value: object) -> float:
        """The time since the start of a date, an ISO text, or of a number in the unit itself."""
        if isinstance(value, int | float | np.number):
            return float(value)
        dates, _ = _dates(np.array([value], dtype=object))
        return float(_since(dates, np.datetime64(self.start, "ns"), self.unit)[0])

    def shown(self, value: float) -> str:
        """A date, with a time of the day where the unit is shorter than a day."""
        date = str(self.back(np.array([value]))[0].astype("datetime64[s]"))
        return date[:10] if self.unit == "days" else date.replace("T", " ")

    def back(self, values: Array) -> np.ndarray:
        """Dates, of UTC where there was a time zone."""
        steps = np.rint(values * (SECONDS[self.unit] * 1e6)).astype("timedelta64[us]")
        return (np.datetime64(self.start, "us") + steps).astype("datetime64[ns]")

    def period(self, value: object) -> float:
        """The length of a season: by name, as a duration, or as a number in the unit."""
        if isinstance(value, str):
            if value not in SEASONS:
                raise InputError(
                    f"periodic[{self.name!r}] must be one of {', '.join(map(repr, SEASONS))}, a "
                    f"duration, or a number of {self.unit}; got {value!r}."
                )
            return SEASONS[value] / SECONDS[self.unit]
        return _length(self, value)


@dataclass(frozen=True)
class Duration(Column):
    """A column of durations, in a unit: "seconds", "minutes", "hours" or "days"."""

    unit: str
    kind: ClassVar[str] = "duration"

    @property
    def words(self) -> str:
        """How it was read, for people."""
        return f"duration, in {self.unit}"

    def read(self, column: Data, owner: str) -> Array:
        """Durations (n,) in the unit, NaN where one is missing."""
        if kind_of(column) != "duration":
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                "durations there. Give durations, in pandas by pandas.to_timedelta(…)."
            )
        return _since(_durations(column), np.timedelta64(0, "ns"), self.unit)

    def number(self, value: object) -> float:
        """A duration in the unit; a number is in that unit already."""
        if isinstance(value, int | float | np.number):
            return float(value)
        return super().number(value)

    def shown(self, value: float) -> str:
        """A duration with its unit."""
        return f"{value:.3g} {self.unit}"

    def back(self, values: Array) -> np.ndarray:
        """Durations as such."""
        steps = np.rint(values * (SECONDS[self.unit] * 1e6)).astype("timedelta64[us]")
        return steps.astype("timedelta64[ns]")

    def period(self, value: object) -> float:
        """The length of a season: as a duration, or as a number in the unit."""
        return _length(self, value)


KINDS: dict[str, type[Column]] = {
    cls.kind: cls for cls in (Number, Boolean, Category, Date, Duration)
}


@dataclass(frozen=True)
class Columns:
    """How all columns of a frame are read, in the order in which a model has them."""

    each: tuple[Column, ...]

    @classmethod
    def of(cls, X: object, name: str = "X", unseen: str = "raise") -> Columns | None:
        """How a frame of pandas, polars or the like is to be read; None where all are numbers.

        None too for arrays, lazy frames and Dask collections, which other checks are for.
        """
        names = column_names(X)
        if hasattr(X, "collect") or hasattr(X, "__dask_graph__"):
            return None
        frame: Any = X
        if not hasattr(X, "columns"):
            return None
        found = {key: kind_of(frame[key]) for key in frame.columns if _once(frame, key)}
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
        """The names of the columns."""
        return tuple(column.name for column in self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, d: int) -> Column:
        return self.each[d]

    @property
    def levels(self) -> list[tuple[str, ...]]:
        """The levels of each column, none where it is no category."""
        return [c.levels if isinstance(c, Category) else () for c in self.each]

    @property
    def unordered(self) -> list[int]:
        """Numbers of the columns that are categories without an order."""
        return [d for d, c in enumerate(self.each) if isinstance(c, Category) and not c.ordered]

    @property
    def ordered(self) -> list[int]:
        """Numbers of the columns that are ordered categories."""
        return [d for d, c in enumerate(self.each) if isinstance(c, Category) and c.ordered]

    def renamed(self, names: Iterable[str]) -> Columns:
        """The same columns under other names."""
        pairs = zip(self.each, names, strict=True)
        return Columns(tuple(replace(column, name=str(name)) for column, name in pairs))

    def with_unseen(self, unseen: str) -> Columns:
        """The same columns, with another word on levels that the model has not seen."""
        return Columns(
            tuple(replace(c, unseen=unseen) if isinstance(c, Category) else c for c in self.each)
        )

    def read(self, X: Data, name: str) -> Array:
        """A frame that has these columns in this order as (n, D), NaN where a value is missing."""
        frame: Any = X
        parts = [column.read(frame[column.name], name) for column in self.each]
        return np.stack(parts, axis=1)

    def check(self, X: Array, name: str) -> None:
        """Raise InputError where an array (n, D) has no such columns."""
        for column, values in zip(self.each, X.T, strict=True):
            column.check(values, name)

    def back(self, X: Array) -> dict[str, np.ndarray]:
        """Columns of an array (n, D) by name, as the table had them."""
        return {c.name: c.back(values) for c, values in zip(self.each, X.T, strict=True)}

    def stored(self) -> list[dict[str, object]]:
        """What a file keeps."""
        return [column.stored() for column in self.each]

    @classmethod
    def from_stored(cls, stored: Iterable[Mapping[str, object]]) -> Columns:
        """The columns that a file describes; ValueError or TypeError where it does not."""
        return cls(tuple(_from_stored(one) for one in stored))


def _from_stored(stored: Mapping[str, object]) -> Column:
    """One column of a file, whose fields have the types that they must have."""
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
        np.datetime64(column.start, "ns")
    flags = (getattr(column, "ordered", False), getattr(column, "zoned", False))
    if not isinstance(column.name, str) or not all(isinstance(flag, bool) for flag in flags):
        raise TypeError("a name or a flag of a column has a wrong type")
    return column


def _once(frame: Any, key: Any) -> bool:
    """Whether a frame has one column of this name; doubled names are refused elsewhere."""
    return list(frame.columns).count(key) == 1


def kind_of(column: Data) -> str:
    """What a column holds: "number", "boolean", "category", "text", "date" or "duration"."""
    kind = str(getattr(column, "dtype", "")).lower()
    if kind.startswith(("categor", "enum")):
        return "category"
    if kind.startswith("bool"):
        return "boolean"
    if kind.startswith("duration"):
        return "duration"
    if kind.startswith(("datetime", "date", "period")):
        return "date"
    held = np.asarray(column)
    if held.dtype.kind in "bMm":
        return {"b": "boolean", "M": "date", "m": "duration"}[held.dtype.kind]
    if held.dtype.kind in "UT":
        return "text"
    if held.dtype.kind != "O":
        return "number"
    present = [entry for entry in held.ravel().tolist() if not _is_missing(entry)]
    if any(isinstance(entry, str) for entry in present):
        return "text"
    for cls, word in ((bool, "boolean"), (datetime.date, "date"), (datetime.timedelta, "duration")):
        if present and all(isinstance(entry, cls) for entry in present):
            return word
    return "number"


def _column(key: str, column: Any, found: Mapping[str, str], name: str, unseen: str) -> Column:
    """How a column is read, by what it holds."""
    kind = found[key]
    if kind == "boolean":
        return Boolean(key)
    if kind == "date":
        dates, zoned = _dates(column)
        span = _span(dates)
        unit = _unit(span)
        first = dates[~np.isnat(dates)].min() if span is not None else np.datetime64(0, "ns")
        start = first.astype("datetime64[D]" if unit in ("days", "hours") else "datetime64[s]")
        return Date(key, str(start.astype("datetime64[s]")), unit, zoned)
    if kind == "duration":
        return Duration(key, _unit(_span(_durations(column))))
    if kind in ("category", "text"):
        return _category(key, column, kind, name, unseen)
    return Number(key)


def _category(key: str, column: Any, kind: str, name: str, unseen: str) -> Category:
    """The levels of a column of text or categories; text that looks like something else is refused."""
    found = labels_of(column)
    assert found is not None
    seen = sorted({value for value in found.values if value is not None})
    it = f"{name}[{key!r}]"
    if not seen:
        raise InputError(f"column {key!r} of {name} has no value at all: leave it out.")
    if kind == "text":
        meant = ""
        if all(re.fullmatch(r"\d{4}-\d\d-\d\d([T ].*)?", value) for value in seen):
            meant = f"dates: pandas.to_datetime({it}), {it}.str.to_datetime() in polars"
        elif all(_is_number(value) for value in seen):
            meant = f"numbers: {it}.astype(float), {it}.cast(float) in polars"
        elif len(seen) > max(FEW_LEVELS, len(found.values) / 2):
            raise InputError(
                f"column {key!r} of {name} has {len(seen)} different texts in {len(found.values)} "
                "rows: names or notes tell nothing of other rows. Leave it out, or make it a "
                f'category if levels are meant: {it}.astype("category").'
            )
        if meant:
            raise InputError(
                f"column {key!r} of {name} is text that reads like {meant}; or make it a category "
                f'if levels are meant: {it}.astype("category").'
            )
    levels = seen if found.categories is None else found.categories
    return Category(key, tuple(levels), found.ordered, unseen)


def _is_number(value: str) -> bool:
    """Whether a text is a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def _is_missing(entry: object) -> bool:
    """Whether an entry stands for nothing: None, NaN, NaT, or what pandas writes for it."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float) and bool(np.isnan(entry))


def _label(value: object) -> str | None:
    """A level as text: whole numbers have no decimals, None is what is missing."""
    if _is_missing(value):
        return None
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def _floats(column: Any) -> Array:
    """A column of numbers or truth values as float64, NaN where one is missing."""
    if hasattr(column, "isna") and hasattr(column, "to_numpy"):  # numpy cannot read pandas.NA.
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    held = np.asarray(column)
    if held.dtype.kind == "O":
        held = np.array([np.nan if _is_missing(entry) else entry for entry in held])
    return held.astype(float)


def _dates(column: Any) -> tuple[np.ndarray, bool]:
    """Dates (n,) as datetime64[ns], of UTC where they have a time zone, and whether they have."""
    kind = str(getattr(column, "dtype", "")).lower()
    if kind.startswith("period"):
        column = column.dt.to_timestamp()
    zoned = bool(re.search(r"datetime64\[.*,|time_zone='", kind))
    if zoned and hasattr(column, "dt") and hasattr(column.dt, "tz_convert"):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    held = np.asarray(column)
    if held.dtype.kind == "O":
        entries = [None if _is_missing(entry) else entry for entry in held.tolist()]
        zoned = any(getattr(entry, "tzinfo", None) is not None for entry in entries)
        if zoned:
            utc = datetime.timezone.utc
            entries = [
                None if e is None else e.astimezone(utc).replace(tzinfo=None) for e in entries
            ]
        held = np.array(entries, dtype="datetime64[us]")
    return held.astype("datetime64[ns]"), zoned


def _durations(column: Any) -> np.ndarray:
    """Durations (n,) as timedelta64[ns]."""
    held = np.asarray(column)
    if held.dtype.kind == "O":
        entries = [None if _is_missing(entry) else entry for entry in held.tolist()]
        held = np.array(entries, dtype="timedelta64[us]")
    return held.astype("timedelta64[ns]")


def _span(times: np.ndarray) -> float | None:
    """The seconds from the first to the last of dates or durations; None where there are none."""
    present = times[~np.isnat(times)]
    if not present.size:
        return None
    return float((present.max() - present.min()) / np.timedelta64(1, "s"))


def _unit(span: float | None) -> str:
    """The largest unit of which the data span several."""
    if span is None or span == 0.0:
        return "days"
    fitting = [unit for unit, length in SECONDS.items() if span >= UNITS_SPANNED * length]
    return (fitting or ["seconds"])[-1]


def _since(times: np.ndarray, start: Any, unit: str) -> Array:
    """Times (n,) since a start in a unit, NaN where one is missing."""
    steps = times - start
    values = steps / np.timedelta64(1, "s") / SECONDS[unit]
    return np.where(np.isnat(steps), np.nan, values)


def _length(column: Date | Duration, value: Any) -> float:
    """A season, a duration or a number in the unit of the column, in that unit."""
    if isinstance(value, datetime.timedelta | np.timedelta64):
        value = float(np.timedelta64(value) / np.timedelta64(1, "s")) / SECONDS[column.unit]
    return Column.period(column, value)


def _short(names: Sequence[Any]) -> list[str]:
    """So many names as a message may have."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    return [*shown, f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else shown
