"""What one column of a data frame holds, and how its truth values and dates become numbers."""

from __future__ import annotations

import datetime
import numbers
import re
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .types import Data

SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
"""Units of dates and durations."""
SIGNED = r"[-+]?[€$£¥]? ?\d+([ ,.'’]\d{3})*([.,]\d+)? ?[%€$£¥]?"
"""How people write numbers: 1,5 and 1.234,50 and $ 12 and 7 %."""
WITHOUT_SIGNS = (
    "{it}.str.replace(',', '.').astype(float) where commas are decimal, in polars "
    "{it}.str.replace(',', '.').cast(float); commas between thousands, %, $ and the like are "
    "replaced by ''"
)
UNITS_SPANNED = 3.0  # The data span so many units at least; smaller ones are taken for less.


def kind_of(column: Data) -> str:
    """What a data column holds: "number", "boolean", "category", "text", "date" or "duration".

    Other kinds, which are refused, have a name for messages: "time of day", "mixture of …".
    """
    kind = str(getattr(column, "dtype", "")).lower()
    if kind.startswith(("categor", "enum")):
        return "category"
    if kind.startswith("bool"):
        return "boolean"
    if kind.startswith("duration"):
        return "duration"
    if kind.startswith(("datetime", "date", "period")):
        return "date"
    if kind == "time":  # That is the dtype of polars for times of day.
        return "time of day"
    held = np.asarray(column)
    kinds = {"b": "boolean", "M": "date", "m": "duration", "U": "text", "T": "text"}
    if held.dtype.kind != "O":
        return kinds.get(held.dtype.kind, "complex number" if held.dtype.kind == "c" else "number")
    return _kind_of_entries([entry for entry in held.ravel().tolist() if not is_missing(entry)])


def _kind_of_entries(present: list[object]) -> str:
    """What kind of data the Python objects in a column are; missing entries are left out before."""
    if any(isinstance(entry, str) for entry in present):
        return "text"
    classes = {
        "boolean": bool | np.bool_,
        "number": numbers.Real | Decimal | np.bool_,
        "date": datetime.date | np.datetime64,
        "duration": datetime.timedelta | np.timedelta64,
        "time of day": datetime.time,
        "complex number": numbers.Complex,
    }
    if not present:
        return "number"
    for word, known in classes.items():
        if all(isinstance(entry, known) for entry in present):
            return word
    return f"mixture of {' and '.join(sorted({type(entry).__name__ for entry in present}))}"


def reads_as_number(value: str) -> bool:
    """Whether a text is a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def has_signs(value: str) -> bool:
    """Whether a text is a number for people alone: with commas, a currency, or per cent."""
    return not reads_as_number(value) and re.fullmatch(SIGNED, value.strip()) is not None


def is_missing(entry: object) -> bool:
    """Whether an entry of a data column is missing: None, NaN, NaT, or pandas.NA."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(entry, np.datetime64 | np.timedelta64):
        return bool(np.isnat(entry))
    return isinstance(entry, float | np.floating) and bool(np.isnan(entry))


def holds_nothing(column: Data) -> bool:
    """Whether a data column has rows and all values are missing, so that its type tells nothing."""
    held = np.asarray(column)
    if held.dtype.kind == "f":
        return held.size > 0 and bool(np.isnan(held).all())
    return held.dtype.kind == "O" and held.size > 0 and all(map(is_missing, held.ravel().tolist()))


def label_of(value: object) -> str | None:
    """Write a level of a category as text: whole numbers without decimals, None if missing."""
    if is_missing(value):
        return None
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def floats_in(given: Data) -> Array:
    """Read a column of numbers or truth values as float64, NaN where one is missing."""
    column: Any = given
    if hasattr(column, "isna") and hasattr(column, "to_numpy"):  # numpy cannot read pandas.NA.
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    held = np.asarray(column)
    if held.dtype.kind == "O":
        held = np.array([np.nan if is_missing(entry) else entry for entry in held])
    return held.astype(float)


def dates_in(given: Data, it: str) -> tuple[np.ndarray, bool]:
    """Read dates (n,) as datetime64, of UTC if they have a time zone, and whether they have one.

    Dates keep the unit that they have, because a finer one has no room for remote years.

    it : the name of the column in error messages.
    """
    column: Any = given
    kind = str(getattr(column, "dtype", "")).lower()
    if kind.startswith("period"):
        return _starts_of(column), False
    zoned = bool(re.search(r"datetime64\[.*,|time_zone='", kind))
    if zoned and hasattr(column, "dt") and hasattr(column.dt, "tz_convert"):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    held = np.asarray(column)
    if held.dtype.kind != "O":
        return held, zoned
    entries = [None if is_missing(entry) else entry for entry in held.tolist()]
    zones = {getattr(entry, "tzinfo", None) is not None for entry in entries if entry is not None}
    if len(zones) > 1:
        raise InputError(
            f"{it} has dates with a time zone and dates without one. Give all of them a zone, or "
            "none: in pandas .tz_localize(…) of a Timestamp adds one, .tz_localize(None) drops it."
        )
    zoned = True in zones
    if zoned:
        entries = [None if entry is None else _in_utc(entry) for entry in entries]
    return np.array(entries, dtype="datetime64[us]"), zoned


def zone_in(given: Data) -> str:
    """Find the name of the time zone of a column of dates; "UTC" if they have none, or several.

    A zone given by its difference to UTC has a name such as "UTC+01:00".
    """
    kind: Any = getattr(given, "dtype", None)
    # pandas calls it `tz`, polars `time_zone`.
    zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
    if isinstance(zone, str):
        return zone
    if zone is None:
        held = np.asarray(given)
        entries = held.tolist() if held.dtype.kind == "O" else []
        found = {_zone_name(entry.tzinfo) for entry in entries if getattr(entry, "tzinfo", None)}
        return found.pop() if len(found) == 1 else "UTC"
    return _zone_name(zone)


def _zone_name(zone: Any) -> str:
    """The name of a time zone of Python or of pytz."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name:
        return str(name)
    offset = zone.utcoffset(None)
    minutes = 0 if offset is None else round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "UTC"


def _starts_of(periods: Any) -> np.ndarray:
    """The first moments of a column of pandas periods."""
    try:
        return np.asarray(periods.dt.to_timestamp())
    except ValueError:  # Nanoseconds only reach from 1678 to 2262.
        seconds = periods.dt.asfreq("s", how="start").astype("int64")
        return np.asarray(seconds).view("datetime64[s]")


def _in_utc(moment: datetime.datetime) -> np.datetime64:
    """Convert a date with a time zone to UTC, even to a year that Python has no dates for."""
    offset = moment.utcoffset() or datetime.timedelta()
    return np.datetime64(moment.replace(tzinfo=None), "us") - np.timedelta64(offset, "us")


def durations_in(column: Data) -> np.ndarray:
    """Read a column of durations (n,) as timedelta64, in the unit that they have."""
    held = np.asarray(column)
    if held.dtype.kind == "O":
        entries = [None if is_missing(entry) else entry for entry in held.tolist()]
        held = np.array(entries, dtype="timedelta64[us]")
    return held


def span_of(times: np.ndarray) -> float | None:
    """Seconds from the first to the last of dates or durations; None if all are missing."""
    present = times[~np.isnat(times)]
    if not present.size:
        return None
    start = present.min().astype(f"{present.dtype.kind}8[s]")
    return float(np.ptp(since(present, start, "seconds")))


def unit_of(span: float | None) -> str:
    """The largest unit of time of which the data span several."""
    if span is None or span == 0.0:
        return "days"
    fitting = [unit for unit, length in SECONDS.items() if span >= UNITS_SPANNED * length]
    return (fitting or ["seconds"])[-1]


def since(times: np.ndarray, start: np.datetime64 | np.timedelta64, unit: str) -> Array:
    """Turn dates or durations (n,) into times since a start, in a unit, NaN where one is missing.

    start : in whole seconds. Whole seconds and the rest of each time are subtracted apart, because
        a difference in nanoseconds has no room for more than 292 years.
    """
    seconds = times.astype(f"{times.dtype.kind}8[s]")
    rest = (times - seconds.astype(times.dtype)) / np.timedelta64(1, "s")
    values = ((seconds - start) / np.timedelta64(1, "s") + rest) / SECONDS[unit]
    return np.where(np.isnat(times), np.nan, values)
