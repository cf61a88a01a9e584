"""How an event time was observed: exact, censored on either side or between, truncated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError

__all__ = ["EXACT", "INTERVAL", "LEFT", "RIGHT", "codes", "hazard_terms", "upper_ends"]

Array = np.ndarray
EXACT, RIGHT, LEFT, INTERVAL = 0, 1, -1, 2
"""Codes of the metadata `censored`."""

Metadata = Array | None
TINY = np.finfo(float).tiny


def codes(censored: Metadata) -> Array:
    """The codes as an array, 0 for None; InputError for a code that does not exist."""
    code = np.zeros(()) if censored is None else np.asarray(censored)
    known = (code == EXACT) | (code == RIGHT) | (code == LEFT) | (code == INTERVAL)
    if not np.all(known):
        wrong = code[~known].flat[0] if code.ndim else code
        raise InputError(
            f"censored must be 0 (exact), 1 (right), -1 (left) or 2 (interval); got {wrong}."
        )
    return code


def upper_ends(y_upper: Metadata) -> Array:
    """The ends of intervals, which must be given."""
    if y_upper is None:
        raise InputError("Rows with censored = 2 need Y_metadata['y_upper'], the interval's end.")
    return y_upper


def hazard_terms(
    y: Array, censored: Metadata = None, y_upper: Metadata = None, entry: Metadata = None
) -> tuple[Array, list[Any], Array]:
    """Rows as sums of H(a) and log H′(a), H the cumulative hazard of a = e^g (log t − f).

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
        interval = interval & np.isfinite(upper)  # else right-censored
        log_upper = np.log(np.where(interval, upper, 1.0))
        width = np.where(interval, log_upper - log_y, width)
        terms.append((np.zeros_like(log_y), -1.0 * interval, log_upper))
    if entry is not None:
        entered = np.asarray(entry) + np.zeros_like(log_y) > 0.0
        log_entry = np.log(np.where(entered, entry, 1.0))
        width = np.where(left & entered, log_y - log_entry, width)
        terms.append((1.0 * (entered & ~left), np.zeros_like(log_y), log_entry))
    return exact, terms, width
