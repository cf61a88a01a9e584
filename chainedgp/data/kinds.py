"""The kinds of columns that inputs are read from: numbers, truth values, categories, dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .labels import labels_of
from .reading import (
    SECONDS,
    dates_in,
    durations_in,
    floats_in,
    holds_nothing,
    is_missing,
    kind_of,
    label_of,
    since,
)
from .types import Data

__all__ = ["Boolean", "Category", "Column", "Date", "Duration", "Number", "column_from"]

SEASONS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 365.25 * 7200.0}
SEASONS["year"] = 12 * SEASONS["month"]
"""Periods of dates by name, in seconds."""
WHOLE, NUMBER = r"[-+]?\d+", r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"
"""How numbers look among levels."""
SET_UNSEEN = 'set m.unseen = "prior"'  # Messages say so; an estimator has words of its own.
MOST_NAMED = 8  # Messages name so many levels at most.


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
        if holds_nothing(column):
            return np.full(len(np.asarray(column)), np.nan)
        return self._read(column, owner)

    def _read(self, column: Data, owner: str) -> Array:
        """Values (n,) of a column that has one or more."""
        raise NotImplementedError

    def check(self, values: Array, owner: str) -> None:
        """Raise InputError where numbers (n,) that were given by an array cannot be this column."""

    def number(self, value: object) -> float:
        """One value of a user's as the number that a model sees."""
        if is_missing(value):
            raise InputError(f"the value of column {self.name!r} is missing; got {value!r}.")
        return self._number(value)

    def _number(self, value: Any) -> float:
        """One value that is there."""
        column = np.empty(1, dtype=object)
        column[0] = value
        return float(self.read(column, "the value")[0])

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

    def _read(self, column: Data, owner: str) -> Array:
        """Values (n,) of a column of numbers."""
        what = kind_of(column)
        if what not in ("number", "boolean"):
            raise InputError(
                f"column {self.name!r} of {owner} is a {what}; the model was built with numbers "
                "there. Give numbers, or build the model with such a column."
            )
        return floats_in(column)


@dataclass(frozen=True)
class Boolean(Column):
    """A column of truth values: 0 for False and 1 for True."""

    kind: ClassVar[str] = "boolean"

    @property
    def words(self) -> str:
        """How it was read, for people."""
        return "boolean: 0 is False, 1 is True"

    def _read(self, column: Data, owner: str) -> Array:
        """0 and 1 (n,) of a column of truth values, or of numbers 0 and 1."""
        if kind_of(column) not in ("number", "boolean"):
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                "truth values there. Give True and False, or 0 and 1."
            )
        values = floats_in(column)
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

    def period(self, value: object) -> float:
        """Truth values have no seasons."""
        raise _no_seasons(self, "has truth values")


@dataclass(frozen=True)
class Category(Column):
    """A column of text or categories: codes 0, 1, 2, … of its levels.

    levels : in the order of their codes. ordered : whether that is an order of the levels.
    unseen : "raise", or "prior" to give levels that the model has not seen codes of their own;
        "never" where rows of a fit are read, whose levels have to keep their codes.
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

    def _read(self, column: Data, owner: str) -> Array:
        """Codes (n,) of the labels in a column, NaN where one is missing."""
        found = labels_of(column)
        values = self._labels(column, owner) if found is None else found.values
        codes: dict[str | None, float] = {_short_number(v): k for v, k in self._codes.items()}
        codes |= self._codes
        codes[None] = np.nan
        short = {v: _short_number(v) for v in values if v is not None and v not in codes}
        codes |= {v: codes[own] for v, own in short.items() if own in codes}
        unknown = list(dict.fromkeys(value for value in values if value not in codes))
        if unknown and (self.ordered or self.unseen != "prior"):
            self._refuse(values, unknown, owner)
        codes |= {label: float(len(self.levels) + k) for k, label in enumerate(unknown)}
        return np.array([codes[value] for value in values], dtype=float)

    @property
    def _codes(self) -> dict[str, float]:
        """The codes of the levels."""
        return {label: float(k) for k, label in enumerate(self.levels)}

    def _labels(self, column: Data, owner: str) -> list[str | None]:
        """Levels that were given as numbers or truth values.

        Other numbers are levels that the model has not seen only where its levels are numbers too.
        """
        values, kind = np.asarray(column), kind_of(column)
        labels = [str(v) if str(v) in self.levels else label_of(v) for v in values]
        known = {*self.levels, *map(_short_number, self.levels), None}
        new = [label for label in labels if label not in known]
        like = WHOLE if all(re.fullmatch(WHOLE, level) for level in self.levels) else NUMBER
        numbers = any(re.fullmatch(NUMBER, level) for level in self.levels)
        fits = kind == "number" and numbers and all(re.fullmatch(like, str(v)) for v in new)
        if new and self.unseen == "prior" and not fits:
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind} and has {new[0]}, which cannot be a "
                "level beside those that the model knows: "
                f"{', '.join(_short(self.levels))}. Give levels as they were in the data."
            )
        return labels

    def _refuse(self, values: Sequence[str | None], unknown: Sequence[Any], owner: str) -> None:
        """Raise InputError for levels that the model does not know."""
        first = list(values).index(unknown[0])
        ways = "Give one of these"
        if self.unseen == "never":
            ways = "Rows with other levels need a new model, built with all rows"
        elif not self.ordered:
            ways += (
                f", or {SET_UNSEEN}: a level without data is then predicted from what the others "
                "have in common"
            )
        raise InputError(
            f"column {self.name!r} of {owner} has {'levels' if len(unknown) > 1 else 'a level'} "
            f"that the model does not know: {', '.join(_short(unknown))}, first in row {first}. It "
            f"knows {', '.join(_short(self.levels))}. {ways}."
        )

    def check(self, values: Array, owner: str) -> None:
        """Codes are whole numbers below the number of levels."""
        bad = ((values != np.rint(values)) & ~np.isnan(values)) | np.isinf(values) | (values < 0)
        if self.unseen != "prior" or self.ordered:
            bad |= values >= len(self.levels)
        if bad.any() and values[bad][0] == -1.0:
            raise InputError(
                f"{owner} has -1 in column {self.name!r}, which pandas writes for a level that is "
                "missing. Leave those rows out, or give missing levels a level of their own."
            )
        if bad.any():
            raise InputError(
                f"{owner} has {values[bad][0]:g} in column {self.name!r}; expected the codes of "
                f"its levels, from 0 for {self.levels[0]} to {len(self.levels) - 1} for "
                f"{self.levels[-1]}, or a data frame with the levels themselves."
            )

    def _number(self, value: Any) -> float:
        """The code of a level; a number that is no level is taken for a code."""
        levels = {*self.levels, *map(_short_number, self.levels)}
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if number and str(value) not in levels and label_of(value) not in levels:
            code = np.array([float(value)])
            self.check(code, "the value")
            return float(code[0])
        return super()._number(value)

    def shown(self, value: float) -> str:
        """The level of a code."""
        code = int(np.rint(value))
        return self.levels[code] if 0 <= code < len(self.levels) else f"code {code}"

    def back(self, values: Array) -> np.ndarray:
        """The levels of codes."""
        return np.array([self.shown(value) for value in values], dtype=object)

    def period(self, value: object) -> float:
        """Categories have no seasons."""
        raise _no_seasons(self, "is a category")


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
        return f"date, in {self.unit} since {self._start}{' UTC' if self.zoned else ''}"

    @property
    def _start(self) -> str:
        """The start for people."""
        return self.start.removesuffix("T00:00:00").replace("T", " ")

    def _read(self, column: Data, owner: str) -> Array:
        """Time since the start (n,), NaN where a date is missing."""
        if kind_of(column) != "date":
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                f"dates there. Give dates, in pandas by pandas.to_datetime(…)."
            )
        dates, zoned = dates_in(column, f"column {self.name!r} of {owner}")
        if zoned != self.zoned:
            raise InputError(
                f"column {self.name!r} of {owner} has dates {'with' if zoned else 'without'} a "
                f"time zone; the model was built with dates {'with' if self.zoned else 'without'} "
                "one. In pandas .dt.tz_localize(…) adds a zone, .dt.tz_localize(None) drops it."
            )
        return since(dates, np.datetime64(self.start, "s"), self.unit)

    def _number(self, value: Any) -> float:
        """The time since the start of a date, an ISO text, or of a number in the unit itself."""
        if isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64):
            return float(value)
        try:
            dates, _ = dates_in(np.array([value], dtype=object), f"column {self.name!r}")
        except (TypeError, ValueError):
            raise InputError(
                f"column {self.name!r} has dates, and {value!r} is none. Give a date, a text such "
                f"as '2024-12-31', or a number of {self.unit} since {self._start}."
            ) from None
        return float(since(dates, np.datetime64(self.start, "s"), self.unit)[0])

    def shown(self, value: float) -> str:
        """A date, with a time of the day where the unit is shorter than a day."""
        date = str(self._moments(np.array([value]))[0].astype("datetime64[s]"))
        return date[:-9] if self.unit == "days" else date.replace("T", " ")

    def back(self, values: Array) -> np.ndarray:
        """Dates; where there was a time zone they are Python's, in UTC, as numpy's have no zone."""
        moments = self._moments(values)
        if self.zoned:
            return np.array([_with_zone(moment) for moment in moments.tolist()], dtype=object)
        return _in_nanoseconds(moments)

    def _moments(self, values: Array) -> np.ndarray:
        """Dates, of UTC where there was a time zone, in microseconds."""
        steps = np.rint(values * (SECONDS[self.unit] * 1e6)).astype("timedelta64[us]")
        moments: np.ndarray = np.datetime64(self.start, "us") + steps
        return moments

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

    def _read(self, column: Data, owner: str) -> Array:
        """Durations (n,) in the unit, NaN where one is missing."""
        if kind_of(column) != "duration":
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                "durations there. Give durations, in pandas by pandas.to_timedelta(…)."
            )
        return since(durations_in(column), np.timedelta64(0, "s"), self.unit)

    def _number(self, value: Any) -> float:
        """A duration in the unit; a number is in that unit already."""
        if isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64):
            return float(value)
        return super()._number(value)

    def shown(self, value: float) -> str:
        """A duration with its unit."""
        return f"{value:.3g} {self.unit}"

    def back(self, values: Array) -> np.ndarray:
        """Durations as such."""
        steps = np.rint(values * (SECONDS[self.unit] * 1e6)).astype("timedelta64[us]")
        return _in_nanoseconds(steps)

    def period(self, value: object) -> float:
        """The length of a season: as a duration, or as a number in the unit."""
        return _length(self, value)


KINDS: dict[str, type[Column]] = {
    cls.kind: cls for cls in (Number, Boolean, Category, Date, Duration)
}


def column_from(stored: Mapping[str, object]) -> Column:
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
        np.datetime64(column.start, "s")
    flags = (getattr(column, "ordered", False), getattr(column, "zoned", False))
    if not isinstance(column.name, str) or not all(isinstance(flag, bool) for flag in flags):
        raise TypeError("a name or a flag of a column has a wrong type")
    return column


def _no_seasons(column: Column, what: str) -> InputError:
    """The error for a season of a column that has no order in time."""
    return InputError(
        f"periodic names {column.name!r}, which {what}; expected a column of numbers or dates."
    )


def _length(column: Date | Duration, value: Any) -> float:
    """A season, a duration or a number in the unit of the column, in that unit."""
    if isinstance(value, datetime.timedelta | np.timedelta64):
        value = float(np.timedelta64(value) / np.timedelta64(1, "s")) / SECONDS[column.unit]
    return Column.period(column, value)


def _in_nanoseconds(times: np.ndarray) -> np.ndarray:
    """Times in nanoseconds, as tables of pandas have had them, where all have room there."""
    found = times.astype(f"{times.dtype.kind}8[ns]")
    kept = (found.astype(times.dtype) == times) | np.isnat(times)
    return found if kept.all() else times


def _with_zone(moment: datetime.datetime | int | None) -> object:
    """A moment of UTC that says so; one beyond the years of Python has no way to."""
    return moment.replace(tzinfo=datetime.UTC) if isinstance(moment, datetime.datetime) else moment


def _short_number(level: str) -> str:
    """A level that is a whole number with a decimal, 1.0, without: both are the same level."""
    return level[:-2] if level.endswith(".0") and re.fullmatch(WHOLE, level[:-2]) else level


def _short(names: Sequence[Any]) -> list[str]:
    """So many names as a message may have."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    return [*shown, f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else shown
