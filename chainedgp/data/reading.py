"""What a column of a data frame holds, and its numbers: truth values, dates and durations."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np

from ..linalg import Array
from .types import Data

__all__ = [
    "SECONDS",
    "dates_in",
    "durations_in",
    "floats_in",
    "is_missing",
    "kind_of",
    "label_of",
    "since",
    "span_of",
    "unit_of",
]

SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
"""Units of dates and durations."""
UNITS_SPANNED = 3.0  # The data span so many units at least; smaller ones are taken for less.


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
    present = [entry for entry in held.ravel().tolist() if not is_missing(entry)]
    if any(isinstance(entry, str) for entry in present):
        return "text"
    for cls, word in ((bool, "boolean"), (datetime.date, "date"), (datetime.timedelta, "duration")):
        if present and all(isinstance(entry, cls) for entry in present):
            return word
    return "number"


def is_missing(entry: object) -> bool:
    """Whether an entry stands for nothing: None, NaN, NaT, or what pandas writes for it."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float) and bool(np.isnan(entry))


def label_of(value: object) -> str | None:
    """A level as text: whole numbers have no decimals, None is what is missing."""
    if is_missing(value):
        return None
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def floats_in(given: Data) -> Array:
    """A column of numbers or truth values as float64, NaN where one is missing."""
    column: Any = given
    if hasattr(column, "isna") and hasattr(column, "to_numpy"):  # numpy cannot read pandas.NA.
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    held = np.asarray(column)
    if held.dtype.kind == "O":
        held = np.array([np.nan if is_missing(entry) else entry for entry in held])
    return held.astype(float)


def dates_in(given: Data) -> tuple[np.ndarray, bool]:
    """Dates (n,) as datetime64[ns], of UTC where they have a time zone, and whether they have."""
    column: Any = given
    kind = str(getattr(column, "dtype", "")).lower()
    if kind.startswith("period"):
        column = column.dt.to_timestamp()
    zoned = bool(re.search(r"datetime64\[.*,|time_zone='", kind))
    if zoned and hasattr(column, "dt") and hasattr(column.dt, "tz_convert"):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    held = np.asarray(column)
    if held.dtype.kind == "O":
        entries = [None if is_missing(entry) else entry for entry in held.tolist()]
        zoned = any(getattr(entry, "tzinfo", None) is not None for entry in entries)
        if zoned:
            entries = [None if entry is None else _in_utc(entry) for entry in entries]
        held = np.array(entries, dtype="datetime64[us]")
    return held.astype("datetime64[ns]"), zoned


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """The same moment in UTC, without the word on its zone."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def durations_in(column: Data) -> np.ndarray:
    """Durations (n,) as timedelta64[ns]."""
    held = np.asarray(column)
    if held.dtype.kind == "O":
        entries = [None if is_missing(entry) else entry for entry in held.tolist()]
        held = np.array(entries, dtype="timedelta64[us]")
    return held.astype("timedelta64[ns]")


def span_of(times: np.ndarray) -> float | None:
    """The seconds from the first to the last of dates or durations; None where there are none."""
    present = times[~np.isnat(times)]
    if not present.size:
        return None
    return float((present.max() - present.min()) / np.timedelta64(1, "s"))


def unit_of(span: float | None) -> str:
    """The largest unit of which the data span several."""
    if span is None or span == 0.0:
        return "days"
    fitting = [unit for unit, length in SECONDS.items() if span >= UNITS_SPANNED * length]
    return (fitting or ["seconds"])[-1]


def since(times: np.ndarray, start: np.datetime64 | np.timedelta64, unit: str) -> Array:
    """Times (n,) since a start in a unit, NaN where one is missing."""
    steps = times - start
    values = steps / np.timedelta64(1, "s") / SECONDS[unit]
    return np.where(np.isnat(steps), np.nan, values)
