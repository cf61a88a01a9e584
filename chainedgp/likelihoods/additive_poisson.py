"""Counts whose rate is a sum of two positive functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from .. import special
from .base import Array, Arrays, FourArrays
from .counts import Poisson

__all__ = ["AdditivePoisson"]


class AdditivePoisson(Poisson):
    """y ~ Poisson(E (e^f + e^g)), E the optional metadata `exposure` (1 where it is not given).

    log p = y (log E + f + softplus(g − f)) − E (e^f + e^g) − log y!.

    The expectation is closed: E[e^f] = exp(m + v/2), and g − f is Gaussian, so that
    E softplus(g − f) is `special.expected_softplus`. No nodes, any variance.
    """

    latents: tuple[str, ...] = ("log_rate_1", "log_rate_2")
    symmetric = True

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Any = 1.0) -> Array:
        """The log-density log p(y | f, g), in the broadcast shape of y, f and g."""
        with np.errstate(over="ignore"):
            rate = exposure * (np.exp(f) + np.exp(g))
        log_rate = f + special.softplus(np.subtract(g, f))
        return y * log_rate - rate + xlogy(y, exposure) - special.log_factorial(y)

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Any = 1.0) -> Arrays:
        """∂ log p / ∂f = y e^f/(e^f + e^g) − E e^f, and the same in g."""
        share = expit(np.subtract(f, g))
        return y * share - exposure * np.exp(f), y * expit(np.subtract(g, f)) - exposure * np.exp(g)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, exposure: Any = 1.0
    ) -> FourArrays:
        """E[log p] in closed form (`nodes` is not used); shapes as in `Likelihood`."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        term, slope, curvature = special.expected_softplus(m_g - m_f, v_f + v_g)
        rates = exposure * np.exp(means.T + 0.5 * variances.T)  # (2, n)
        value = y * (m_f + term) - rates.sum(0) + xlogy(y, exposure) - special.log_factorial(y)
        dmeans = np.stack([y * (1.0 - slope), y * slope]) - rates
        dvariances = y * curvature - 0.5 * rates
        return value, dmeans.T, dvariances.T, np.empty((y.size, 0))

    def conditional_mean(self, f: Array, g: Array, *, exposure: Any = 1.0) -> Array:
        """The rate E (e^f + e^g)."""
        with np.errstate(over="ignore"):
            return exposure * (np.exp(f) + np.exp(g))

    def natural_parameters(self, f: Array, g: Array, *, exposure: Any = 1.0) -> dict[str, Array]:
        """The two rates (per unit of exposure) and their sum."""
        return {"rate_1": np.exp(f), "rate_2": np.exp(g), "rate": np.exp(f) + np.exp(g)}

    def initial_latents(self, y: Array, *, exposure: Any = 1.0) -> Array:
        """Both rates half of the mean rate."""
        rate = max(float(np.sum(y)), 0.5) / float(np.sum(np.broadcast_to(exposure, y.shape)))
        return np.full(2, np.log(0.5 * rate))
