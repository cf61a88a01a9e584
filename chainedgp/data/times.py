"""Columns of dates and durations, read as the time since a start, in a unit."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .column import Column
from .reading import SECONDS, dates_in, durations_in, kind_of, since
from .types import Data

SEASONS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 365.25 * 7200.0}
SEASONS["year"] = 12 * SEASONS["month"]
"""Periods of dates by name, in seconds."""


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
