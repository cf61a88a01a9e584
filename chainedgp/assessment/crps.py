"""Integrals and sums of the squared error of a cdf, for the continuous ranked probability score."""

from __future__ import annotations

import numpy as np

from ..linalg import Array
from ..predictive.distribution import Predictive
from ..predictive.observed import ObservedLaw

LOWER = (1e-6, 1e-3, 0.05, 0.25)  # Levels are closest in the tails, where F bends most.
LEVELS = (*LOWER, 0.5, *(1.0 - level for level in reversed(LOWER)))
"""Integrals over y are cut into panels at the quantiles of these levels."""
NODES = 8
"""Each panel has this many Gauss–Legendre nodes."""
COUNT_LEVELS = np.array([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1.0 - 1e-6])
"""The counts of a row are cut into runs at the quantiles of these levels."""
LARGEST = 2.0**53
"""Counts above this are left out: floating-point numbers no longer hold every integer."""
LONGEST = 20
"""Runs of up to this many counts are added up term by term; longer ones have distinct nodes."""
TERMS, FEWER = 10, (0, 1, 3, 4, 6, 8, 9)
"""A longer run is summed from TERMS of its terms; the sum from those in FEWER gives the error."""
ERROR = 1e-6
"""A run is halved if its two sums differ by more than this times its number of counts. The error of
the better sum is smaller: for a smooth F a thousandth of the difference."""


def ranked_probability_score(predictive: Predictive, y: Array, horizon: float) -> Array:
    """CRPS: ∫ (F(z) − [y ≤ z])² dz up to the horizon, (n,), or a sum over counts; F given entry."""
    law = ObservedLaw(predictive)
    if not predictive._likelihood.target_support.continuous:
        return _sum_over_counts(law, y, horizon)
    _, z, dz = _nodes(law, y, horizon)
    gap = law.cdf(z) - (z >= np.where(y < horizon, y, np.inf)[:, None])
    return np.einsum("ij,ij->i", gap * gap, dz)


def mean_up_to(predictive: Predictive, horizon: float) -> Array:
    """E[min(Y, τ)], (n,), given the entry, for scores: the least value plus ∫ (1 − F) up to τ.

    Without a horizon the integral ends at the quantile of 1 − 1e-6.
    """
    law = ObservedLaw(predictive)
    first, z, dz = _nodes(law, np.full(len(predictive), horizon), horizon)
    return first + np.einsum("ij,ij->i", 1.0 - law.cdf(z), dz)


def _nodes(law: ObservedLaw, y: Array, horizon: float) -> tuple[Array, Array, Array]:
    """Nodes z (n, k) and weights of the CRPS integral ∫ dz over quantiles and y; its start (n,).

    Panels end at quantiles, at atoms, at y and at the horizon. A positive target's upper tail may
    be as heavy as that of a log-logistic: its panels are even on the scale of log z.
    """
    likelihood = law.predictive._likelihood
    quantiles = law.rough_ppf(np.array(LEVELS))
    y = np.where(np.isfinite(y), y, quantiles[:, -1])
    fixed = np.array([a for a in likelihood.atoms if np.isfinite(a)])
    fixed = np.clip(fixed, quantiles[:, :1], quantiles[:, -1:])  # (n, atoms)
    edges = np.sort(np.concatenate([quantiles, fixed, y[:, None]], axis=1), axis=1)
    edges = np.minimum(edges, horizon)
    first = edges[:, 0].copy()
    x, w = np.polynomial.legendre.leggauss(NODES)
    decades = likelihood.target_support.logarithmic and edges.min() > 0.0
    edges = np.log(edges) if decades else edges
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]  # (n, panels, 1)
    z = (edges[:, :-1, None] + half * (1.0 + x)).reshape(len(y), -1)
    dz = (half * w).reshape(len(y), -1)
    return (first, np.exp(z), dz * np.exp(z)) if decades else (first, z, dz)


# ---- counts --------------------------------------------------------------------------------------


def _sum_over_counts(law: ObservedLaw, y: Array, horizon: float) -> Array:
    """CRPS of counts: Σ_k (F(k) − [y ≤ k])² over the counts k below the horizon, (n,).

    The counts between extreme quantiles and y are cut into runs at quantiles and at y. A short run
    is added up. The sum over a long one, on which F is smooth, follows from a few of its terms; a
    second sum is taken from fewer of them, and the run is halved where the two disagree. So the
    work grows with the logarithm of the counts.
    """
    quantiles = law.ppf(COUNT_LEVELS)
    cuts = np.concatenate([quantiles, quantiles[:, -1:] + 1.0, y[:, None]], axis=1)
    cuts = np.minimum(np.sort(cuts, axis=1), min(horizon, LARGEST))
    size = np.ceil(np.diff(cuts, axis=1))
    rows, columns = np.nonzero(size > 0.0)
    start, size = cuts[rows, columns], size[rows, columns]
    total = np.zeros(len(y))
    while len(rows):
        value, error = _sums_over_runs(law, y, rows, start, size)
        done = error <= ERROR * size
        total += np.bincount(rows[done], value[done], len(y))
        rows, start, size = (np.repeat(a[~done], 2) for a in (rows, start, size))
        left = np.floor(0.5 * size[::2])
        start[1::2] += left
        size[::2], size[1::2] = left, size[1::2] - left
    return total


def _sums_over_runs(
    law: ObservedLaw, y: Array, rows: np.ndarray, start: Array, size: Array
) -> tuple[Array, Array]:
    """CRPS sums (R,), with errors, over runs of `size` counts from `start` on; rows must ascend."""
    short = size <= LONGEST
    every = np.tile(np.arange(float(LONGEST)), (len(rows), 1))
    k = np.where(short[:, None], every, 0.0)
    k[~short, :TERMS] = _nodes_of_run(size[~short])
    used = every < np.where(short, size, TERMS)[:, None]
    terms = np.zeros(k.shape)
    i, j = np.nonzero(used)
    terms[i, j] = _terms(law, y, rows[i], start[i] + k[i, j])
    value, error = terms.sum(axis=1), np.zeros(len(rows))
    if not short.all():
        k, terms, size = k[~short, :TERMS], terms[~short, :TERMS], size[~short]
        value[~short] = _weighted(k, terms, size)
        fewer = _weighted(k[:, FEWER], terms[:, FEWER], size)
        error[~short] = np.abs(value[~short] - fewer)
    return value, error


def _terms(law: ObservedLaw, y: Array, rows: np.ndarray, k: Array) -> Array:
    """CRPS terms (F(k) − [y ≤ k])² of counts k (N,) in ascending rows (N,)."""
    if not len(rows):
        return np.zeros(0)
    counts = np.bincount(rows, minlength=len(y))
    column = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    table = np.full((len(y), counts.max()), -1.0)  # −1 is below all counts: F is not evaluated.
    table[rows, column] = k
    return (law.cdf(table)[rows, column] - (k >= y[rows])) ** 2


def _nodes_of_run(size: Array) -> Array:
    """Nodes (R, TERMS) of a sum over 0, …, N − 1: those of Gauss–Legendre, rounded to integers."""
    x = np.polynomial.legendre.leggauss(TERMS)[0]
    return np.round(0.5 * size[:, None] * (1.0 + x) - 0.5)


def _weighted(k: Array, terms: Array, size: Array) -> Array:
    """Sum over 0, …, N − 1 of the polynomial through terms (R, m) at integers k (R, m), for a CRPS.

    Weights follow from the polynomials t_j that are orthogonal on 0, …, N − 1 (Gram's), of which
    all but t_0 = 1 have the sum 0:

        (j + 1) t_{j+1} = (2j + 1) ((2k − N + 1)/N) t_j − j (1 − j²/N²) t_{j−1}.
    """
    N = size[:, None]
    t = [np.ones_like(k), (2.0 * k - N + 1.0) / N]
    for j in range(1, k.shape[1] - 1):
        previous = j * (1.0 - (j / N) ** 2) * t[j - 1]
        t.append(((2 * j + 1) * t[1] * t[j] - previous) / (j + 1))
    sums = np.zeros((*k.shape, 1))
    sums[:, 0, 0] = size
    return np.einsum("ij,ij->i", np.linalg.solve(np.stack(t, axis=1), sums)[:, :, 0], terms)
