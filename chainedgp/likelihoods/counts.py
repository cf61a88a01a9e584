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

    latents: tuple[str, ...] = ("log_rate",)
    support = "counts"
    exact_expectation = True

    def log_density(self, y: Array, f: Array, *, exposure: Any = 1.0) -> Array:
        """The log of Poisson(y; exposure e^f)."""
        return y * f - exposure * np.exp(f) + (xlogy(y, exposure) - gammaln(y + 1.0))

    def dlog_density(self, y: Array, f: Array, *, exposure: Any = 1.0) -> Arrays:
        """Slope y − exposure e^f."""
        return (y - exposure * np.exp(f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, exposure: Any = 1.0
    ) -> FourArrays:
        """E[log p] = y (m + log exposure) − exposure e^{m + v/2} − log y!, closed; see base."""
        m = means[:, 0]
        with np.errstate(over="ignore"):
            rate = exposure * np.exp(m + 0.5 * variances[:, 0])
        value = y * m - rate + (xlogy(y, exposure) - gammaln(y + 1.0))
        return value, (y - rate)[:, None], (-0.5 * rate)[:, None], np.empty((len(y), 0))

    def conditional_mean(self, *latents: Array, exposure: Any = 1.0) -> Array:
        """The rate, exposure e^f."""
        with np.errstate(over="ignore"):
            return exposure * np.exp(latents[0])

    def conditional_variance(self, *latents: Array, exposure: Any = 1.0) -> Array:
        """The rate."""
        return self.conditional_mean(*latents, exposure=exposure)

    def cdf(self, y: Array, *latents: Array, exposure: Any = 1.0) -> Array:
        """P(Y ≤ ⌊y⌋), a regularised gamma function; 0 below 0."""
        rate = self.conditional_mean(*latents, exposure=exposure)
        return np.where(np.less(y, 0.0), 0.0, pdtr(np.maximum(np.floor(y), 0.0), rate))

    def ppf(self, q: Array, *latents: Array, exposure: Any = 1.0) -> Array:
        """The smallest count whose cdf is at least q."""
        rate = self.conditional_mean(*latents, exposure=exposure)
        with np.errstate(invalid="ignore"):
            upper = np.maximum(np.ceil(pdtrik(q, rate)), 0.0)
        upper = np.where(np.isnan(upper), 0.0, upper)  # q at or below P(Y = 0)
        lower = np.maximum(upper - 1.0, 0.0)  # pdtrik is exact to rounding only
        return np.where(pdtr(lower, rate) >= q, lower, upper)

    def sample(
        self,
        rng: np.random.Generator,
        *latents: Array,
        size: int | None = None,
        exposure: Any = 1.0,
    ) -> Array:
        """Draws as floats: the broadcast shape, or (size, *shape)."""
        rate = np.minimum(self.conditional_mean(*latents, exposure=exposure), MAX_RATE)
        return rng.poisson(rate, self._draw_shape(size, (rate,), {})).astype(np.float64)

    def natural_parameters(self, f: Array, **kw: Any) -> dict[str, Array]:
        """The rate e^f, per unit of exposure."""
        return {"rate": np.exp(f)}

    def initial_latents(self, y: Array, *, exposure: Any = 1.0) -> Array:
        """The log of the overall rate, finite if all counts are zero."""
        total = np.sum(exposure + np.zeros(len(y)))
        return np.array([np.log((np.sum(y) + 0.5) / total)])
