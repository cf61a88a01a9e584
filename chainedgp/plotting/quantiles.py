"""Quantiles to the accuracy of a figure, for likelihoods that are known by their density alone.

Their exact quantiles cost about half a second a row. A line on paper needs three digits: the
density on two grids, a wide one for all rows and one fitted to each, gives them at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..likelihoods import Likelihood
from ..linalg import Array

__all__ = ["quantiles"]

POINTS = 250
SUPPORTS = ("real", "positive", "unit")
TAIL = 1e-4  # probability left out at either end of a row's own grid
TOLERANCE = 5e-3  # of the total probability: beyond it the exact quantiles are asked for


def quantiles(model: Any, predictive: Any, q: Array) -> Array:
    """The quantiles q (k,) of each row, (n, k)."""
    likelihood = model.likelihood
    while hasattr(likelihood, "_base"):
        likelihood = likelihood._base
    by_density = type(likelihood).cdf is Likelihood.cdf and not likelihood.atoms
    if not by_density or likelihood.support not in SUPPORTS:
        return predictive.ppf(q)
    table = _from_density(predictive, q, *_range(model))
    return predictive.ppf(q) if table is None else table


def _range(model: Any) -> tuple[float, float]:
    """Ends of the wide grid: the data and once their range on either side, in the support."""
    y, support = np.asarray(model.Y), model.likelihood.support
    width = float(np.ptp(y)) or 1.0
    low, high = float(y.min()) - width, float(y.max()) + width
    tiny = 1e-6 * width
    return (
        low if support == "real" else tiny,
        high if support != "unit" else 1.0 - 1e-6,
    )


def _from_density(predictive: Any, q: Array, low: float, high: float) -> Array | None:
    """Quantiles (n, k) by the trapezoidal rule, or None where the grids do not hold the mass."""
    n = len(predictive)
    wide = np.broadcast_to(np.linspace(low, high, POINTS), (n, POINTS))
    rough, total = _cumulative(wide, predictive.pdf(wide[0]))
    if not (np.abs(total - 1.0) < 10.0 * TOLERANCE).all():
        return None
    ends = _invert(wide, rough, np.array([TAIL, 1.0 - TAIL]))  # (n, 2)
    step = (high - low) / (POINTS - 1)
    start, stop = np.maximum(ends[:, 0] - step, low), np.minimum(ends[:, 1] + step, high)
    own = np.linspace(start, stop, POINTS, axis=1)  # (n, POINTS)
    fine, total = _cumulative(own, predictive.pdf(own))
    if not (np.abs(total - 1.0) < TOLERANCE).all():
        return None
    return _invert(own, fine, q)


def _cumulative(y: Array, p: Array) -> tuple[Array, Array]:
    """Integral of p from the left end to each y, made to end at 1, and its total (n,)."""
    pieces = 0.5 * (p[:, 1:] + p[:, :-1]) * np.diff(y, axis=1)
    F = np.concatenate([np.zeros((len(y), 1)), np.cumsum(pieces, axis=1)], axis=1)
    return F / F[:, -1:], F[:, -1]


def _invert(y: Array, F: Array, q: Array) -> Array:
    """The y (n, k) where the rising F takes the values q (k,)."""
    return np.array([np.interp(q, each, at) for each, at in zip(F, y, strict=True)])
