"""Return levels: what is exceeded once in a stated period, given the latents, with bands over q.

With `rate` targets per unit of time, the level y_T of a period T is exceeded by one target in T on
average: P(Y > y_T | f) = 1/(rate T). It is a quantile of p(y | f), hence a function of the latents,
and its posterior follows from theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.arguments import fraction
from ..data.types import Data
from ..errors import InputError
from ..likelihoods import Likelihood
from ..linalg import Array


class ReturnLevels(NamedTuple):
    """Return levels of n rows and k periods: the median and the ends of a band, (n, k) each."""

    level: Array
    lower: Array
    upper: Array


def band_percentages(level: float) -> tuple[float, float, float]:
    """Percentages of a return level's median and of both ends of a central band."""
    half = 50.0 * fraction(level, "level")
    return 50.0, 50.0 - half, 50.0 + half


def as_exceedance(periods: Data, rate: Data, n: int, likelihood: Likelihood) -> Array:
    """Probabilities (n, k) that a target exceeds the return level of each period, 1/(rate T).

    periods : k times, longer than the mean time between two targets. rate : a number or (n,).
    """
    support = likelihood.target_support
    if not support.continuous or not support.ordered or support.bounded:
        raise InputError(
            f"return_level is for measurements that may be arbitrarily high; targets of "
            f"{type(likelihood).__name__} are {support.words}."
        )
    T, rates = _positive(periods, "periods"), _positive(rate, "rate")
    if rates.size not in (1, n):
        raise InputError(f"rate must be a number, or one for each of {n} rows; got {rates.size}.")
    p = 1.0 / (rates[:, None] * T)
    if p.max() >= 1.0:
        short = f"{T.min():g}, with a rate of {rates.min():g} targets per unit of time"
        raise InputError(
            "periods must be longer than the time between two targets, 1/rate; the shortest is "
            f"{short}."
        )
    return np.broadcast_to(p, (n, T.size))


def _positive(values: Data, name: str) -> Array:
    """Periods or rates of return levels: a number or numbers, positive and finite, as (k,)."""
    try:
        found = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or not (found.size and np.isfinite(found).all() and (found > 0).all()):
        raise InputError(f"{name} must be a positive number or a list of them; got {values!r}.")
    return found
