"""Gaussian noise, with a variance that varies or not."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from .base import Array, Arrays, FourArrays, Likelihood
from .wrappers import ConstantLatent

__all__ = ["Gaussian", "HetGaussian"]

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class HetGaussian(Likelihood):
    """y ~ N(f, e^g): latents mean f and log_variance g, **variance** e^g.

    log p = −½ log 2π − ½ g − ½ (y − f)² e^{−g}
    """

    latents = ("mean", "log_variance")
    exact_expectation = True

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The log of N(y; f, e^g)."""
        return -HALF_LOG_2PI - 0.5 * g - 0.5 * (y - f) ** 2 * np.exp(-g)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """(y − f) e^{−g} and ½ (y − f)² e^{−g} − ½."""
        slope = (y - f) * np.exp(-g)
        return slope, 0.5 * (y - f) * slope - 0.5

    def d2log_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """−e^{−g} and −½ (y − f)² e^{−g}."""
        precision = np.exp(-g)
        return -precision + 0.0 * (y - f), -0.5 * (y - f) ** 2 * precision

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Any
    ) -> FourArrays:
        """−½ log 2π − ½ m_g − ½ ((y − m_f)² + v_f) e^{−m_g + v_g/2}: closed, `nodes` unused."""
        n = len(y)
        m_f, m_g = means.T
        v_f, v_g = variances.T
        dmeans, dvariances = np.empty((2, n)), np.empty((2, n))
        with np.errstate(over="ignore"):
            precision = np.exp(0.5 * v_g - m_g)  # E[e^{−g}]
            residual = y - m_f
            half = 0.5 * (residual**2 + v_f) * precision
        dmeans[0], dmeans[1] = residual * precision, half - 0.5
        dvariances[0], dvariances[1] = -0.5 * precision, -0.5 * half
        value = -HALF_LOG_2PI - 0.5 * m_g - half
        return value, dmeans.T, dvariances.T, np.empty((0, n)).T

    def conditional_mean(self, f: Array, g: Array) -> Array:
        """The latent f."""
        return f + 0.0 * g

    def conditional_variance(self, f: Array, g: Array) -> Array:
        """e^g."""
        return np.exp(g) + 0.0 * f

    def cdf(self, y: Array, f: Array, g: Array) -> Array:
        """Φ((y − f) e^{−g/2})."""
        return ndtr((y - f) * np.exp(-0.5 * g))

    def ppf(self, q: Array, f: Array, g: Array) -> Array:
        """Quantiles f + e^{g/2} Φ⁻¹(q)."""
        return f + np.exp(0.5 * g) * ndtri(q)

    def sample(
        self, rng: np.random.Generator, f: Array, g: Array, *, size: int | None = None
    ) -> Array:
        """Draws of N(f, e^g)."""
        noise = rng.standard_normal(self._draw_shape(size, (f, g), {}))
        return f + np.exp(0.5 * g) * noise

    def normal_scale_mixture(self) -> float:
        """y | f, g ~ N(f, e^g/λ), λ ~ Gamma(a, a) with a = ∞: predictions integrate f exactly."""
        return np.inf

    def natural_parameters(self, f: Array, g: Array) -> dict[str, Array]:
        """The mean f and variance e^g."""
        return {"mean": np.asarray(f), "variance": np.exp(g)}

    def initial_latents(self, y: Array) -> Array:
        """Sample mean and log variance."""
        return np.array([np.mean(y), np.log(np.var(y) or 1.0)])


class Gaussian(ConstantLatent):
    """y ~ N(f, variance): latent mean f, one constant parameter `variance` (positive)."""

    def __init__(self, variance: float | None = None, name: str | None = None) -> None:
        super().__init__(HetGaussian(), "log_variance", variance, positive="variance", name=name)
