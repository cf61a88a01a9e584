"""How an event time was observed: exact, censored on either side or between, truncated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..data.types import Keywords, Value
from ..errors import InputError
from ..linalg import Array, Booleans

EXACT, RIGHT, LEFT, INTERVAL = 0, 1, -1, 2
"""Codes of the metadata `censored`: the time is y, later, earlier, or between y and y_upper."""
OBSERVATION = ("censored", "y_upper", "entry")
"""Metadata that say how y was observed; they do not change the distribution of y itself."""

TINY = np.finfo(float).tiny  # Times of 0 are taken for this one, whose logarithm is finite.


def codes(censored: Value | None) -> Array:
    """Codes of censoring as an array, 0 for None; InputError for a code that does not exist."""
    code = np.zeros(()) if censored is None else np.asarray(censored)
    known = (code == EXACT) | (code == RIGHT) | (code == LEFT) | (code == INTERVAL)
    if not np.all(known):
        wrong = code[~known].flat[0] if code.ndim else code
        raise InputError(
            f"censored must be 0 (exact), 1 (right), -1 (left) or 2 (interval); got {wrong}."
        )
    return code


def upper_ends(y_upper: Value | None) -> Value:
    """The ends of the intervals to which event times are censored; they must be given."""
    if y_upper is None:
        raise InputError("Rows with censored = 2 need Y_metadata['y_upper'], the interval's end.")
    return y_upper


def of_event(kw: Mapping[str, Value]) -> Keywords:
    """Keywords of the distribution of an event time itself, without those of `OBSERVATION`."""
    return {key: value for key, value in kw.items() if key not in OBSERVATION}


class Event(NamedTuple):
    """What rows say of an event time T: that it is one number, low = high, or in (low, high].

    y, kw: what `log_density` takes for the probability of the event, without an `entry`.
    """

    low: Array
    high: Array
    y: Array
    kw: Keywords

    @property
    def exact(self) -> Booleans:
        """Rows of which the event time T itself is known."""
        return np.equal(self.low, self.high)

    @property
    def certain(self) -> Booleans:
        """Rows that say nothing of the event time T."""
        return np.isneginf(self.low) & np.isposinf(self.high)

    def holds(self, values: tuple[float, ...]) -> Booleans:
        """Whether what is known of T allows each of k values, (k, *shape of y)."""
        at = np.reshape(values, (-1,) + (1,) * np.ndim(self.low))
        return np.where(self.exact, at == self.low, (self.low < at) & (at <= self.high))


def seen(y: Array, kw: Mapping[str, Value]) -> Event:
    """The event that each row reports of T: an exact time, or (entry or y, y or y_upper or ∞]."""
    rest = of_event(kw)
    if all(kw.get(key) is None for key in OBSERVATION):
        return Event(y, y, y, rest)
    code, entry = codes(kw.get("censored")), kw.get("entry")
    start = -np.inf if entry is None else np.where(np.greater(entry, 0.0), entry, -np.inf)
    upper = upper_ends(kw.get("y_upper")) if np.any(code == INTERVAL) else np.inf
    low = np.where(code == LEFT, start, y)
    high = np.select([code == RIGHT, code == INTERVAL], [np.inf, upper], y)
    late = (code == LEFT) & np.isfinite(low)  # T is known to lie between the entry and y
    rest["censored"] = np.where(late, float(INTERVAL), code)
    if np.any(late | (code == INTERVAL)):
        rest["y_upper"] = np.where(late | (code == INTERVAL), high, np.inf)
    return Event(low, high, np.where(late, low, y), rest)


def entered(y: Array, kw: Mapping[str, Value]) -> Event | None:
    """What was known of T before rows were seen, T > entry; None without an entry above 0."""
    entry = kw.get("entry")
    if entry is None or not np.any(np.greater(entry, 0.0)):
        return None
    entry = entry + np.zeros(np.shape(y))
    start = np.where(entry > 0.0, entry, -np.inf)
    rest = of_event(kw)
    rest["censored"] = np.full(entry.shape, float(RIGHT))
    return Event(start, np.full(entry.shape, np.inf), np.where(entry > 0.0, entry, 1.0), rest)


def hazard_terms(
    y: Array,
    censored: Value | None = None,
    y_upper: Value | None = None,
    entry: Value | None = None,
) -> tuple[Array, list[tuple[Array, Array, Array]], Array]:
    """Censored rows as sums of H(a), log H′(a); H is the cumulative hazard of a = e^g (log t − f).

    Returns 1 for exact rows, else 0; terms (above, below, log t), the coefficients of H(a) and
    −log H′(a); log(upper/lower) of rows whose probability is that of an interval, else inf. All of
    the shape of y. Left-censored and interval rows are right for the log-logistic alone, where
    log P(T ≤ t) is −softplus(−a) = log H′(a).
    """
    log_y = np.log(y)
    code = codes(censored) + np.zeros_like(log_y)
    left, interval = code == LEFT, code == INTERVAL
    exact, width = 1.0 * (code == EXACT), np.full_like(log_y, np.inf)
    terms = [(np.where(left, 0.0, -1.0), -exact - left, log_y)]
    if interval.any():
        upper = upper_ends(y_upper)
        interval = interval & np.isfinite(upper)  # without an end a row is right-censored
        log_upper = np.log(np.where(interval, upper, 1.0))
        width = np.where(interval, log_upper - log_y, width)
        terms.append((np.zeros_like(log_y), -1.0 * interval, log_upper))
    if entry is not None:
        entered = np.asarray(entry) + np.zeros_like(log_y) > 0.0
        log_entry = np.log(np.where(entered, entry, 1.0))
        width = np.where(left & entered, log_y - log_entry, width)
        terms.append((1.0 * (entered & ~left), np.zeros_like(log_y), log_entry))
    return exact, terms, width
