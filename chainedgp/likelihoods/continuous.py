"""Continuous noise: Laplace on the line, gamma on the half line."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf

from ..data.types import Value
from ..expectations import reduced, special
from ..expectations.quadrature import VARIANCE_FLOOR
from ..expectations.special import HALF_LOG_2PI
from .contract import Array, Arrays, Averages, packed
from .family import Family

__all__ = ["HetGamma", "HetLaplace"]


class HetLaplace(Family):
    """y ~ Laplace(f, e^g): latents location f and log_scale g, **scale** e^g = E|y − f|.

    log p = −log 2 − g − |y − f| e^{−g}; the expectation is closed, kink and all.
    """

    latents = ("location", "log_scale")
    exact_expectation = True
    scipy_name = "laplace"

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return f, np.exp(g)

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The log of Laplace(y; f, e^g)."""
        return -np.log(2.0) - g - np.abs(y - f) * np.exp(-g)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """±e^{−g}, by the side on which y is (0 at the kink), and |y − f| e^{−g} − 1."""
        inverse = np.exp(np.negative(g))
        return np.sign(y - f) * inverse, np.abs(y - f) * inverse - 1.0

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, **kw: Value
    ) -> Averages:
        """−log 2 − m_g − e^{−m_g + v_g/2} E|y − f|: closed."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        sd = np.sqrt(np.maximum(v_f, VARIANCE_FLOOR))
        u = (y - m_f) / sd
        side, peak = erf(u / np.sqrt(2.0)), np.exp(-0.5 * u * u - HALF_LOG_2PI)
        with np.errstate(over="ignore"):
            inverse = np.exp(0.5 * v_g - m_g)  # E[e^{−g}]
            size = inverse * ((y - m_f) * side + 2.0 * sd * peak)
        value = -np.log(2.0) - m_g - size
        return packed(value, (inverse * side, size - 1.0), (-inverse * peak / sd, -0.5 * size))


class HetGamma(Family):
    """y ~ Gamma with mean e^f and shape α = e^g: latents log_mean and log_shape; var = e^{2f−g}.

    With u = log y − f and Binet's function ρ (`special.stirling_remainder`)
    log p = α (1 + u − e^u) + ½ g − ½ log 2π − ρ(α) − log y. The expectation is closed but for
    ρ, which is summed over g.
    """

    latents = ("log_mean", "log_shape")
    support = "positive"
    scipy_name = "gamma"
    node_limits = (0.35, 1.0, 1.85, 3.7, 6.6, 10.5, 15.0)

    def _arguments(self, f: Array, g: Array) -> tuple[Any, ...]:
        return np.exp(g), 0.0, np.exp(np.subtract(f, g))

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """As in the class docstring."""
        alpha, u = np.exp(g), np.log(y) - f
        main = alpha * (u - np.expm1(u)) - special.stirling_remainder(alpha)[0]
        return main + 0.5 * g - (np.log(y) + HALF_LOG_2PI)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """α (e^u − 1) and α (1 + u − e^u) + ½ − α ρ′(α)."""
        alpha, u = np.exp(g), np.log(y) - f
        excess = np.expm1(u)
        slope = special.stirling_remainder(alpha)[1]
        return alpha * excess, alpha * (u - excess) + (0.5 - slope)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> Averages:
        """E[α] E[1 + u − e^u] closed, `nodes` Gauss–Hermite nodes for E[ρ(α)]."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        rho, dm_g, dv_g = reduced.expected_of_exp(special.stirling_remainder, m_g, v_g, nodes)
        with np.errstate(over="ignore"):
            alpha, u = np.exp(m_g + 0.5 * v_g), np.log(y) - m_f
            excess = np.expm1(u + 0.5 * v_f)  # E[e^u] − 1
            main = alpha * (u - excess)
            df, dv_f = alpha * excess, -0.5 * alpha * (excess + 1.0)
        value = main + 0.5 * m_g - rho - (np.log(y) + HALF_LOG_2PI)
        return packed(value, (df, main + 0.5 - dm_g), (dv_f, 0.5 * main - dv_g))

    def node_score(self, y: Array, means: Array, variances: Array) -> Array:
        """v_g: f is integrated exactly."""
        return variances[:, 1]
