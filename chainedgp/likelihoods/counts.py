"""Counts with one latent function."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, pdtr, pdtrik, xlogy

from .base import Array, Arrays, FourArrays, Likelihood

__all__ = ["Poisson"]

MAX_RATE = 1e18
"""Largest rate that numpy's generator draws from; beyond it the draw is of this rate."""


class Poisson(Likelihood):
    """y ~ Poisson(exposure · e^f): latent log_rate f, optional metadata exposure (default 1).

    log p = y (f + log exposure) − exposure e^f − log y!
    """

    latents = ("log_rate",)
    support = "counts"
    exact_expectation = True

    def log_density(self, y: Array, f: Array, *, exposure: Any = 1.0) -> Array:
        """The log of Poisson(y; exposure e^f)."""
        return y * f - exposure * np.exp(f) + (xlogy(y, exposure) - gammaln(y + 1.0))

    def dlog_density(self, y: Array, f: Array, *, exposure: Any = 1.0) -> Arrays:
        """Slope y − exposure e^f."""
        return (y - exposure * np.exp(f),)

    def d2log_density(self, y: Array, f: Array, *, exposure: Any = 1.0) -> Arrays:
        """−exposure e^f."""
        return (-exposure * np.exp(f) + 0.0 * y,)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, exposure: Any = 1.0
    ) -> FourArrays:
        """E[log p] = y (m + log exposure) − exposure e^{m + v/2} − log y!, closed; see base."""
        m = means[:, 0]
        with np.errstate(over="ignore"):
            rate = exposure * np.exp(m + 0.5 * variances[:, 0])
        value = y * m - rate + (xlogy(y, exposure) - gammaln(y + 1.0))
        return value, (y - rate)[:, None], (-0.5 * rate)[:, None], np.empty((len(y), 0))

    def conditional_mean(self, f: Array, *, exposure: Any = 1.0) -> Array:
        """The rate, exposure e^f."""
        return exposure * np.exp(f)

    def conditional_variance(self, f: Array, *, exposure: Any = 1.0) -> Array:
        """The rate, exposure e^f."""
        return exposure * np.exp(f)

    def cdf(self, y: Array, f: Array, *, exposure: Any = 1.0) -> Array:
        """P(Y ≤ ⌊y⌋), a regularised gamma function."""
        return np.where(y < 0, 0.0, pdtr(np.maximum(np.floor(y), 0.0), exposure * np.exp(f)))

    def ppf(self, q: Array, f: Array, *, exposure: Any = 1.0) -> Array:
        """The smallest count whose cdf is at least q."""
        rate = exposure * np.exp(f)
        upper = np.maximum(np.ceil(pdtrik(q, rate)), 0.0)
        lower = np.maximum(upper - 1.0, 0.0)  # pdtrik is exact to rounding only
        return np.where(pdtr(lower, rate) >= q, lower, upper)

    def sample(
        self, rng: np.random.Generator, f: Array, *, size: int | None = None, exposure: Any = 1.0
    ) -> Array:
        """Draws of Poisson(exposure e^f), as floats."""
        rate = np.minimum(exposure * np.exp(f), MAX_RATE)
        return rng.poisson(rate, self._draw_shape(size, (rate,), {})).astype(np.float64)

    def natural_parameters(self, f: Array, **kw: Any) -> dict[str, Array]:
        """The rate e^f, per unit of exposure."""
        return {"rate": np.exp(f)}

    def initial_latents(self, y: Array, *, exposure: Any = 1.0) -> Array:
        """The log of the overall rate, finite if all counts are zero."""
        total = np.sum(exposure + np.zeros(len(y)))
        return np.array([np.log((np.sum(y) + 0.5) / total)])
