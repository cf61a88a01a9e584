"""Beta noise on the unit interval, both shapes functions of the input."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit

from .. import quadrature, special
from . import levels
from .base import Array, Arrays, FourArrays, Likelihood

__all__ = ["Beta"]


class Beta(Likelihood):
    """y ~ Beta(α = e^f, β = e^g) on (0, 1).

    With Binet's function ρ (`special.stirling_remainder`) and d = g − f, so that the large parts of
    the gamma functions cancel by algebra and not in floating point:

        log p = α (softplus(d) + log y) + β (softplus(−d) + log(1−y)) − log y − log(1−y)
                + ½ (g − softplus(d)) − ½ log 2π + ρ(α+β) − ρ(α) − ρ(β).

    In the expectation all but ρ is closed (e^f tilts the Gaussian: its mean moves by v_f); ρ, which
    is small and flat, is summed on a grid, the same nodes for its three terms.
    """

    latents = ("log_alpha", "log_beta")
    support = "unit"

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The log-density log p(y | f, g), in the broadcast shape of y, f and g."""
        alpha, beta, up, down = _shapes(f, g)
        log_y, log_1y = np.log(y), np.log1p(-y)
        rest = special.stirling_remainder(alpha + beta)[0] + 0.5 * (g - up)
        rest = rest - special.stirling_remainder(alpha)[0] - special.stirling_remainder(beta)[0]
        main = alpha * (up + log_y) + beta * (down + log_1y)
        return main + rest - (log_y + log_1y + 0.5 * special.LOG_2PI)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """∂ log p / ∂f = α (ψ(α+β) − ψ(α) + log y), and the same in g with 1 − y."""
        alpha, beta, up, down = _shapes(f, g)
        share = expit(np.subtract(f, g))
        other = expit(np.subtract(g, f))
        both = special.stirling_remainder(alpha + beta)[1]
        df = alpha * (up + np.log(y)) + 0.5 * other + share * both
        dg = beta * (down + np.log1p(-y)) + 0.5 * share + other * both
        return df - special.stirling_remainder(alpha)[1], dg - special.stirling_remainder(beta)[1]

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> FourArrays:
        """E[log p], `nodes` per dimension for ρ alone; shapes as in `Likelihood`."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        total = v_f + v_g
        log_y, log_1y = np.log(y), np.log1p(-y)
        value, dmeans, dvariances = _expected_remainder(means, variances, nodes)
        # ½ (g − softplus(g − f))
        term, slope, curvature = special.expected_softplus(m_g - m_f, total)
        value += 0.5 * (m_g - term) - (log_y + log_1y + 0.5 * special.LOG_2PI)
        dmeans[0] += 0.5 * slope
        dmeans[1] += 0.5 * (1.0 - slope)
        dvariances -= 0.5 * curvature
        # α (softplus(g − f) + log y): exp(m_f + v_f/2) times its mean with f shifted by v_f;
        # then the same with the roles exchanged
        for i, log_target in ((0, log_y), (1, log_1y)):
            k = 1 - i
            gap = means[:, k] - means[:, i] - variances[:, i]
            term, slope, curvature = special.expected_softplus(gap, total)
            size = np.exp(means[:, i] + 0.5 * variances[:, i])
            slope *= size
            curvature *= size
            size *= term + log_target
            value += size
            dmeans[i] += size - slope
            dmeans[k] += slope
            dvariances[i] += 0.5 * size - slope + curvature
            dvariances[k] += curvature
        return value, dmeans.T, dvariances.T, np.empty((y.size, 0))

    def required_nodes(self, y: Array, means: Array, variances: Array) -> Array:
        """Nodes per dimension for about 1e-6, by the larger variance: y does not enter."""
        return levels.choose(variances.max(axis=1), _LIMITS)[0]

    def unmet(self, y: Array, means: Array, variances: Array) -> Array:
        """Rows with a variance too large for the last level."""
        return levels.choose(variances.max(axis=1), _LIMITS)[1]

    def distribution(self, f: Array, g: Array) -> Any:
        """Beta(e^f, e^g) of scipy.stats."""
        from scipy import stats  # slow to import

        return stats.beta(np.exp(f), np.exp(g))

    def natural_parameters(self, f: Array, g: Array) -> dict[str, Array]:
        """Shapes alpha and beta."""
        return {"alpha": np.exp(f), "beta": np.exp(g)}

    def initial_latents(self, y: Array) -> Array:
        """The shapes with the mean and variance of y."""
        mean = float(np.mean(y))
        variance = max(float(np.var(y)), 1e-6 * mean * (1.0 - mean))
        total = max(mean * (1.0 - mean) / variance - 1.0, 0.1)
        return np.log(total * np.array([mean, 1.0 - mean]))


# largest variance at which the grid's sum of ρ is off by 1e-6, for each of quadrature.LEVELS
_LIMITS = (1.0, 1.85, 3.7, 6.6, 10.5, 15.0)


def _shapes(f: Array, g: Array) -> Arrays:
    """α, β, softplus(g − f), softplus(f − g): the last two share their transcendental part."""
    gap = np.subtract(g, f)
    tail = np.log1p(np.exp(-np.abs(gap)))
    up, down = np.maximum(gap, 0.0) + tail, np.maximum(-gap, 0.0) + tail
    return np.exp(f), np.exp(g), up, down


def _expected_remainder(means: Array, variances: Array, nodes: int) -> Arrays:
    """E[ρ(α+β) − ρ(α) − ρ(β)] on the grid: value (n,), d/dmeans (2, n), d/dvariances (2, n)."""
    x, w = quadrature.gauss_hermite(nodes)
    first, second, weights = _grid(nodes)
    n = len(means)
    value, dmeans, dvariances = np.empty(n), np.empty((2, n)), np.empty((2, n))
    sd = np.sqrt(np.maximum(variances.T, quadrature.VARIANCE_FLOOR))
    single = np.stack([w, w * x])
    for rows in quadrature.row_blocks(n, first.size):
        shapes = np.exp(means.T[:, None, rows] + sd[:, None, rows] * x[:, None])  # (2, h, n)
        parts = np.take(shapes[0], first, axis=0), np.take(shapes[1], second, axis=0)  # (s, n)
        both = parts[0] + parts[1]
        rho, slope = special.stirling_remainder(both)
        alone, own = special.stirling_remainder(shapes)
        value[rows] = weights[0] @ rho - w @ (alone[0] + alone[1])
        slope /= both
        for j, part in enumerate(parts):
            part *= slope
            dmeans[j, rows], dvariances[j, rows] = weights[[0, j + 1]] @ part - single @ own[j]
    dvariances *= 0.5 / sd
    return value, dmeans, dvariances


@lru_cache(maxsize=16)
def _grid(nodes: int) -> Arrays:
    """The product grid without nodes of weight below 1e-12, of which a bounded ρ feels nothing.

    Indices (s,) into the nodes of α and of β, and rows w, w x_α, w x_β (3, s). A third of 20 × 20
    nodes falls away, three quarters of 64 × 64.
    """
    x, w = quadrature.gauss_hermite(nodes)
    weights = np.outer(w, w)
    first, second = np.nonzero(weights > 1e-12)
    weights = weights[first, second]
    return first, second, np.stack([weights, weights * x[first], weights * x[second]])
