"""Columns of dates and durations in a data frame, read as the time since a start, in a unit."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .kinds import Column
from .reading import SECONDS, dates_in, durations_in, kind_of, since
from .types import Data

SEASONS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 365.25 * 7200.0}
SEASONS["year"] = 12 * SEASONS["month"]
"""Lengths in seconds of the seasons that a column of dates can have by name."""
OFFSET = r"UTC([+-]\d\d):(\d\d)"  # This names a time zone by its difference to UTC, not its place.


@dataclass(frozen=True)
class Date(Column):
    """How a column of dates or times is read from a data frame: as time since `start`, in a unit.

    start : the ISO date and time that is read as 0. unit : "seconds", "minutes", "hours" or "days".
    zoned : whether the dates have a time zone; they are then read as times of UTC.
    zone : the name of that zone, "Europe/Paris" or "UTC+01:00", in which dates are shown again.
    """

    start: str
    unit: str
    zoned: bool = False
    zone: str = "UTC"
    kind: ClassVar[str] = "date"

    @property
    def words(self) -> str:
        """Say in words how the column of dates is read."""
        if not self.zoned:
            return f"date, in {self.unit} since {self._start}"
        shown = "" if self.zone == "UTC" else f", shown in the time of {self.zone}"
        return f"date, in {self.unit} since {self._start} UTC{shown}"

    @property
    def time_zone(self) -> datetime.tzinfo:
        """The zone in which a column's dates are shown; UTC if they have none or it is unknown."""
        return _zone(self.zone) if self.zoned else datetime.UTC

    @property
    def _start(self) -> str:
        """The date that is read as 0, as it is printed."""
        return self.start.removesuffix("T00:00:00").replace("T", " ")

    def _read(self, column: Data, owner: str) -> Array:
        """Read a column of dates as the time since the start (n,), NaN where a date is missing."""
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
        """Read one date, an ISO text or a number of units as the time since the column's start."""
        if isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64):
            return float(value)
        try:
            dates, zoned = dates_in(np.array([value], dtype=object), f"column {self.name!r}")
        except (TypeError, ValueError):
            raise InputError(
                f"column {self.name!r} has dates, and {value!r} is none. Give a date, a text such "
                f"as '2024-12-31', or a number of {self.unit} since {self._start}."
            ) from None
        if self.zoned and not zoned:  # A date without a zone is taken to be in the column's.
            dates = np.array([self._in_utc(dates.astype("datetime64[us]")[0])])
        return float(since(dates, np.datetime64(self.start, "s"), self.unit)[0])

    def _in_utc(self, local: np.datetime64) -> np.datetime64:
        """Convert a moment of the column's zone to UTC; beyond Python's years it is left as is."""
        moment = local.item()
        if not isinstance(moment, datetime.datetime):
            return local
        offset = moment.replace(tzinfo=self.time_zone).utcoffset() or datetime.timedelta()
        return np.datetime64(moment, "us") - np.timedelta64(offset, "us")

    def shown(self, value: float) -> str:
        """Print a date in the column's zone, with the time of day unless the unit is days."""
        moment = self._moments(np.array([value]))[0]
        if self.zoned:
            there = _with_zone(moment.item(), self.time_zone)
            if isinstance(there, datetime.datetime):
                moment = np.datetime64(there.replace(tzinfo=None), "us")
        date = str(moment.astype("datetime64[s]"))
        return date[:-9] if self.unit == "days" else date.replace("T", " ")

    def back(self, values: Array) -> np.ndarray:
        """Turn numbers of the model back into dates, which are Python's if they have a zone."""
        moments = self._moments(values)
        if self.zoned:
            zone = self.time_zone
            return np.array([_with_zone(moment, zone) for moment in moments.tolist()], dtype=object)
        return _in_nanoseconds(moments)

    def _moments(self, values: Array) -> np.ndarray:
        """Turn numbers of the model back into moments, in microseconds; of UTC if zoned."""
        steps = np.rint(values * (SECONDS[self.unit] * 1e6)).astype("timedelta64[us]")
        moments: np.ndarray = np.datetime64(self.start, "us") + steps
        return moments

    def period(self, value: object) -> float:
        """Read the length of a season of dates, by name or as a duration, in the column's unit.

        A number is refused: it would be in the unit of the column, which changes with the span of
        the data, and 12 for a column of months looks like a year.
        """
        if isinstance(value, str) and value in SEASONS:
            return SEASONS[value] / SECONDS[self.unit]
        names = ", ".join(map(repr, SEASONS))
        if isinstance(value, int | float | np.number) and not isinstance(
            value, bool | np.timedelta64
        ):
            raise InputError(
                f"periodic[{self.name!r}] is {value!r}, a number without a unit, but the column "
                f"has dates. Name the season, {names} (a year for 12 months), or give its length: "
                f"numpy.timedelta64({max(1, round(float(value)))}, 'D') if days are meant."
            )
        if isinstance(value, str):
            raise InputError(
                f"periodic[{self.name!r}] must be one of {names}, or a duration such as "
                f"pandas.Timedelta('7D'); got {value!r}."
            )
        return _length(self, value)


@dataclass(frozen=True)
class Duration(Column):
    """How a column of durations is read: in a unit, "seconds", "minutes", "hours" or "days"."""

    unit: str
    kind: ClassVar[str] = "duration"

    @property
    def words(self) -> str:
        """Say in words how the column of durations is read."""
        return f"duration, in {self.unit}"

    def _read(self, column: Data, owner: str) -> Array:
        """Read a column of durations (n,) in the unit, NaN where one is missing."""
        if kind_of(column) != "duration":
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                "durations there. Give durations, in pandas by pandas.to_timedelta(…)."
            )
        return since(durations_in(column), np.timedelta64(0, "s"), self.unit)

    def _number(self, value: Any) -> float:
        """Read one duration in the column's unit; a number is in that unit already."""
        if isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64):
            return float(value)
        return super()._number(value)

    def shown(self, value: float) -> str:
        """Print a duration with its unit."""
        return f"{value:.3g} {self.unit}"

    def back(self, values: Array) -> np.ndarray:
        """Turn numbers of the model back into durations."""
        steps = np.rint(values * (SECONDS[self.unit] * 1e6)).astype("timedelta64[us]")
        return _in_nanoseconds(steps)

    def period(self, value: object) -> float:
        """Read the length of a season of durations: a duration, or a number in the unit."""
        return _length(self, value)


def _length(column: Date | Duration, value: Any) -> float:
    """The length of a season, given as a duration or a number, in the unit of the column."""
    if isinstance(value, datetime.timedelta | np.timedelta64):
        value = float(np.timedelta64(value) / np.timedelta64(1, "s")) / SECONDS[column.unit]
    return Column.period(column, value)


def _in_nanoseconds(times: np.ndarray) -> np.ndarray:
    """Convert dates or durations to nanoseconds, the unit that pandas long had, if all fit."""
    try:
        found = times.astype(f"{times.dtype.kind}8[ns]")
    except OverflowError:  # From numpy 2.5 on; before, what does not fit came back as another time.
        return times
    kept = (found.astype(times.dtype) == times) | np.isnat(times)
    return found if kept.all() else times


def _with_zone(moment: datetime.datetime | int | None, zone: datetime.tzinfo) -> object:
    """Put a moment of UTC into a time zone; beyond Python's years it stays as it is."""
    if not isinstance(moment, datetime.datetime):
        return moment
    in_utc = moment.replace(tzinfo=datetime.UTC)
    try:
        return in_utc.astimezone(zone)
    except OverflowError:
        return in_utc


def _zone(name: str) -> datetime.tzinfo:
    """The time zone of this name; UTC if this computer does not know it."""
    if found := re.fullmatch(OFFSET, name):
        hours, minutes = int(found[1]), int(found[1][0] + found[2])
        return datetime.timezone(datetime.timedelta(hours=hours, minutes=minutes))
    if name == "UTC":
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.UTC
