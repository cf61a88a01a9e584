"""Event times e^f times a power of a standard time: Weibull and log-normal."""

from __future__ import annotations

import numpy as np
from scipy.special import gamma, log_ndtr, ndtri

from .. import special
from .base import Array
from .survival import Metadata, Survival, _LogScale

__all__ = ["LogNormalSurvival", "WeibullSurvival"]


class WeibullSurvival(_LogScale):
    """T ~ Weibull with scale e^f and shape e^g: log S(t) = −(t e^{−f})^{e^g}, log_scale f.

    log p = g − log t + z − e^z, z = e^g (log t − f); latents log_scale f and log_shape g, any
    censoring. The median is e^f (log 2)^{e^{−g}}.

    E[e^z] is infinite for a Gaussian log-shape. So the cumulative hazard e^z goes on as a straight
    line in z from z = 12 on, where S < e^{−160,000}: still a distribution, with a finite bound.
    """

    latents = ("log_scale", "log_shape")
    infinite_mean = True  # E Γ(1 + e^{−g}) diverges for a Gaussian g
    log_density = Survival.log_density

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        capped = np.minimum(z, 12.0)
        slope = np.exp(capped)
        hazard = slope * (1.0 + np.maximum(z - 12.0, 0.0))
        below = np.where(z < -36.0, z, special.log1mexp(-hazard))
        return capped - hazard, (z < 12.0) - slope, -hazard, below

    def conditional_mean(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """e^f Γ(1 + e^{−g})."""
        with np.errstate(over="ignore"):
            return np.exp(f) * gamma(1.0 + np.exp(-np.asarray(g)))

    def conditional_variance(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """e^{2f} (Γ(1 + 2/k) − Γ(1 + 1/k)²), k = e^g."""
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = np.exp(-np.asarray(g))
            first, second = gamma(1.0 + inverse), gamma(1.0 + 2.0 * inverse)
            value = np.exp(2.0 * np.asarray(f)) * np.maximum(second - first**2, 0.0)
        return np.where(np.isinf(second), np.inf, value)

    def ppf(self, q: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """Quantiles, exp(f + e^{−g} log(−log(1 − q)))."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.exp(f + np.exp(-np.asarray(g)) * np.log(-np.log1p(-np.asarray(q))))

    def natural_parameters(self, f: Array, g: Array, **metadata: Metadata) -> dict[str, Array]:
        """Scale and shape."""
        return {"scale": np.exp(f), "shape": np.exp(g)}


class LogNormalSurvival(_LogScale):
    """log T ~ N(f, e^{2g}): latents log_median f and log_sigma g, **standard deviation** e^g.

    log p = −½ log 2π − g − log t − ½ z², z = e^{−g} (log t − f); any censoring.
    """

    latents = ("log_median", "log_sigma")
    infinite_mean = True  # E exp(½ e^{2g}) diverges for a Gaussian g
    log_density = Survival.log_density
    _sign = -1.0

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        return -0.5 * (z * z + special.LOG_2PI), -z, log_ndtr(-z), log_ndtr(z)

    def conditional_mean(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """exp(f + ½ e^{2g})."""
        with np.errstate(over="ignore"):
            return np.exp(f + 0.5 * np.exp(2.0 * np.asarray(g)))

    def conditional_variance(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """(e^{σ²} − 1) e^{2f + σ²}, σ = e^g."""
        with np.errstate(over="ignore"):
            square = np.exp(2.0 * np.asarray(g))
            return np.expm1(square) * np.exp(2.0 * np.asarray(f) + square)

    def ppf(self, q: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """Quantiles, exp(f + e^g Φ⁻¹(q))."""
        with np.errstate(over="ignore"):
            return np.exp(f + np.exp(g) * ndtri(q))

    def natural_parameters(self, f: Array, g: Array, **metadata: Metadata) -> dict[str, Array]:
        """Median and standard deviation of log T."""
        return {"median": np.exp(f), "sigma": np.exp(g)}
