"""Counts whose rate is a sum of two positive functions."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, pdtr, pdtrik, xlogy

from .. import quadrature, special
from .base import Array, Arrays, FourArrays, Likelihood

__all__ = ["AdditivePoisson"]

Exposure = Array | None


class AdditivePoisson(Likelihood):
    """y ~ Poisson(E (e^f + e^g)), E the optional metadata `exposure` (1 where it is not given).

    log p = y (log E + f + softplus(g − f)) − E (e^f + e^g) − log y!.

    The expectation is closed: E[e^f] = exp(m + v/2), and g − f is Gaussian, so that
    E softplus(g − f) is `special.expected_softplus`. No nodes, any variance.
    """

    latents = ("log_rate_1", "log_rate_2")
    support = "counts"
    symmetric = True

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Exposure = None) -> Array:
        """The log-density log p(y | f, g), in the broadcast shape of y, f and g."""
        scale = _exposure(exposure)
        with np.errstate(over="ignore"):
            rate = scale * (np.exp(f) + np.exp(g))
        log_rate = f + special.softplus(np.subtract(g, f))
        return y * log_rate - rate + xlogy(y, scale) - special.log_factorial(y)

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Exposure = None) -> Arrays:
        """∂ log p / ∂f = y e^f/(e^f + e^g) − E e^f, and the same in g."""
        scale = _exposure(exposure)
        share = expit(np.subtract(f, g))
        return y * share - scale * np.exp(f), y * expit(np.subtract(g, f)) - scale * np.exp(g)

    def dlog_density_dtheta(
        self, y: Array, f: Array, g: Array, *, exposure: Exposure = None
    ) -> Arrays:
        """No parameters."""
        return ()

    def d2log_density(self, y: Array, f: Array, g: Array, *, exposure: Exposure = None) -> Arrays:
        """∂² log p / ∂f² = y p (1 − p) − E e^f, p = e^f/(e^f + e^g), and the same in g."""
        scale = _exposure(exposure)
        curvature = y * expit(np.subtract(f, g)) * expit(np.subtract(g, f))
        return curvature - scale * np.exp(f), curvature - scale * np.exp(g)

    def expected_log_density(
        self,
        y: Array,
        means: Array,
        variances: Array,
        *,
        nodes: int = 20,
        exposure: Exposure = None,
    ) -> FourArrays:
        """E[log p] in closed form (`nodes` is not used); shapes as in `Likelihood`."""
        scale = _exposure(exposure)
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        term, slope, curvature = special.expected_softplus(m_g - m_f, v_f + v_g)
        rates = scale * np.exp(means.T + 0.5 * variances.T)  # (2, n)
        value = y * (m_f + term) - rates.sum(0) + xlogy(y, scale) - special.log_factorial(y)
        dmeans = np.stack([y * (1.0 - slope), y * slope]) - rates
        dvariances = y * curvature - 0.5 * rates
        return value, dmeans.T, dvariances.T, np.empty((y.size, 0))

    def required_nodes(self, y: Array, means: Array, variances: Array, **kw: Array) -> Array:
        """The lowest level: there is no quadrature."""
        return np.full(len(means), quadrature.LEVELS[0])

    def conditional_mean(self, f: Array, g: Array, *, exposure: Exposure = None) -> Array:
        """The rate E (e^f + e^g)."""
        with np.errstate(over="ignore"):
            return _exposure(exposure) * (np.exp(f) + np.exp(g))

    def conditional_variance(self, f: Array, g: Array, *, exposure: Exposure = None) -> Array:
        """The rate E (e^f + e^g)."""
        return self.conditional_mean(f, g, exposure=exposure)

    def cdf(self, y: Array, f: Array, g: Array, *, exposure: Exposure = None) -> Array:
        """P(Y ≤ y | f, g); 0 below 0."""
        y = np.floor(y)
        rate = self.conditional_mean(f, g, exposure=exposure)
        return np.where(y < 0.0, 0.0, pdtr(np.maximum(y, 0.0), rate))

    def ppf(self, q: Array, f: Array, g: Array, *, exposure: Exposure = None) -> Array:
        """The smallest count y with cdf(y) ≥ q."""
        rate = self.conditional_mean(f, g, exposure=exposure)
        with np.errstate(invalid="ignore"):
            y = np.maximum(np.ceil(pdtrik(q, rate)), 0.0)
        y = np.where(np.isnan(y), 0.0, y)  # q at or below P(Y = 0)
        below = np.maximum(y - 1.0, 0.0)  # rounding of the inverse
        return np.where(pdtr(below, rate) >= q, below, y)

    def sample(
        self,
        rng: np.random.Generator,
        f: Array,
        g: Array,
        *,
        size: int | None = None,
        exposure: Exposure = None,
    ) -> Array:
        """Draws (float): the broadcast shape, preceded by `size`; normal for rates over 1e15."""
        shape = self._draw_shape(size, (f, g), {"exposure": exposure})
        rate = np.broadcast_to(self.conditional_mean(f, g, exposure=exposure), shape)
        draws = rng.poisson(np.minimum(rate, 1e15)).astype(float)
        wide = rate > 1e15
        if wide.any():
            draws[wide] = rate[wide] + np.sqrt(rate[wide]) * rng.standard_normal(wide.sum())
        return draws

    def natural_parameters(
        self, f: Array, g: Array, *, exposure: Exposure = None
    ) -> dict[str, Array]:
        """The two rates (per unit of exposure) and their sum."""
        return {"rate_1": np.exp(f), "rate_2": np.exp(g), "rate": np.exp(f) + np.exp(g)}

    def initial_latents(self, y: Array, *, exposure: Exposure = None) -> Array:
        """Both rates half of the mean rate."""
        total = (
            float(len(y)) if exposure is None else float(np.sum(np.broadcast_to(exposure, y.shape)))
        )
        rate = max(float(np.sum(y)), 0.5) / total
        return np.full(2, np.log(0.5 * rate))


def _exposure(exposure: Exposure) -> Array:
    """The exposure, 1 where it is not given."""
    return np.ones(()) if exposure is None else exposure
