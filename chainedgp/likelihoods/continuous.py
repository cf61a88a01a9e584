"""Continuous likelihoods: Laplace on the line, with even sides or not, gamma on the half line."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf, gammainc, gammaincc, ndtr

from ..errors import InputError
from ..expectations import reduced, special
from ..expectations.forms import Form, Latents, OneForm
from ..expectations.quadrature import VARIANCE_FLOOR
from ..expectations.special import HALF_LOG_2PI
from .contract import Array, Arrays
from .family import Family
from .shapes import is_number


class HetLaplace(OneForm, Family):
    """y ~ Laplace(f, e^g): latents location f and log_scale g, **scale** e^g = E|y − f|.

    log p = −log 2 − g − |y − f| e^{−g}; its expectation has a closed form.
    """

    latents = ("location", "log_scale")
    exact_expectation = True
    scipy_name = "laplace"
    coupled = False  # Standard deviations of a mean-field q are at least 0.93 of the posterior's.

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return f, np.exp(g)

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The log-density of Laplace noise, log Laplace(y; f, e^g)."""
        return -np.log(2.0) - g - np.abs(y - f) * np.exp(-g)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of the Laplace log-density: ±e^{−g}, 0 at the kink, and |y − f| e^{−g} − 1."""
        inverse = np.exp(np.negative(g))
        return np.sign(y - f) * inverse, np.abs(y - f) * inverse - 1.0

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of Laplace noise: closed.

        −log 2 − m_g − e^{−m_g + v_g/2} E|y − f + c|, c = cov(f, g).
        """
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        sd = np.sqrt(np.maximum(v_f, VARIANCE_FLOOR))
        residual = y - m_f + q.covariance(0, 1)
        u = residual / sd
        side, peak = erf(u / np.sqrt(2.0)), np.exp(-0.5 * u * u - HALF_LOG_2PI)
        with np.errstate(over="ignore"):
            inverse = np.exp(0.5 * v_g - m_g)  # E[e^{−g}]
            size = inverse * (residual * side + 2.0 * sd * peak)
        value, slope = -np.log(2.0) - m_g - size, inverse * side
        dvariances = (-inverse * peak / sd, -0.5 * size)
        return Form(value, (slope, size - 1.0), dvariances, (-slope,))

    def log_tails(self, y: Array, f: Array, g: Array) -> tuple[Array, Array]:
        """Laplace log-tails −log 2 − |z| where y is, or log(1 − e^{−|z|}/2); z = (y − f) e^{−g}."""
        z = (y - f) * np.exp(np.negative(g))
        far = -np.log(2.0) - np.abs(z)
        rest = np.log1p(-np.exp(far))
        return np.where(z < 0.0, far, rest), np.where(z < 0.0, rest, far)

    def quantile_slopes(self, y: Array, f: Array, g: Array) -> Arrays:
        """A Laplace quantile y = f + e^g z moves by 1 with f, by y − f with g."""
        return np.ones(()), y - f


class AsymmetricLaplace(OneForm, Family):
    """Quantile regression: f is the given quantile of y, e^g the scale of the asymmetric Laplace.

    log p = log τ(1−τ) − g − ρ_τ(y − f) e^{−g} with the check function ρ_τ(u) = u (τ − [u < 0]):
    P(y ≤ f) = τ. A fit minimises the check loss, weighted by a scale that varies with x. The
    expectation has a closed form: for u ~ N(μ, v), E ρ_τ(u) = μ (τ − Φ(−μ/√v)) + √v φ(μ/√v).

    The density is a device to find the quantile. Its own other quantiles are those of an asymmetric
    Laplace distribution, which the data need not follow: fit one model for each quantile wanted.

    Parameters
    ----------
    quantile : τ between 0 and 1; a constant of the model, not fitted.
    """

    latents = ("quantile_location", "log_scale")
    exact_expectation = True
    scipy_name = "laplace_asymmetric"

    def __init__(self, quantile: float = 0.5, name: str | None = None) -> None:
        if not (is_number(quantile) and 0.0 < quantile < 1.0):
            raise InputError(
                f"AsymmetricLaplace: quantile must be a number between 0 and 1; got {quantile!r}."
            )
        self.quantile = float(quantile)
        super().__init__(name)

    def _arguments(self, f: Array, g: Array) -> tuple[Any, ...]:
        even = self.quantile * (1.0 - self.quantile)
        return (
            np.sqrt(self.quantile / (1.0 - self.quantile)),
            f,
            np.exp(np.clip(g, -700.0, 700.0)) / np.sqrt(even),
        )

    def _side(self, u: Array) -> Array:
        """τ for u ≥ 0 and τ − 1 below: the slope of the check function of quantile regression."""
        return np.where(np.less(u, 0.0), self.quantile - 1.0, self.quantile)

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The asymmetric Laplace log-density, as in the class docstring."""
        u = np.subtract(y, f)
        return self._log_peak - g - u * self._side(u) * np.exp(np.minimum(np.negative(g), 700.0))

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Asymmetric Laplace slopes, (τ − [y < f]) e^{−g} and ρ_τ(y − f) e^{−g} − 1."""
        u = np.subtract(y, f)
        slope = self._side(u) * np.exp(np.minimum(np.negative(g), 700.0))
        return slope, u * slope - 1.0

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of quantile regression: closed.

        log τ(1−τ) − m_g − e^{−m_g + v_g/2} E ρ_τ(y − f + c), c = cov(f, g).
        """
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        sd = np.sqrt(np.maximum(v_f, VARIANCE_FLOOR))
        residual = y - m_f + q.covariance(0, 1)
        u = residual / sd
        side, peak = self.quantile - ndtr(-u), np.exp(-0.5 * u * u - HALF_LOG_2PI)
        with np.errstate(over="ignore"):
            inverse = np.exp(0.5 * v_g - m_g)  # E[e^{−g}]
            size = inverse * (residual * side + sd * peak)
        value, slope = self._log_peak - m_g - size, inverse * side
        dvariances = (-0.5 * inverse * peak / sd, -0.5 * size)
        return Form(value, (slope, size - 1.0), dvariances, (-slope,))

    @property
    def _log_peak(self) -> float:
        return float(np.log(self.quantile) + np.log1p(-self.quantile))

    def initial_latents(self, y: Array) -> Array:
        """Start of quantile regression: a quantile of y; as scale the mean check function."""
        f = float(np.quantile(y, self.quantile))
        u = y - f
        return np.array([f, np.log(float(np.mean(u * self._side(u))) or 1.0)])

    def natural_parameters(self, f: Array, g: Array) -> dict[str, Array]:
        """The quantile that is regressed, and the scale of the asymmetric Laplace."""
        return {"quantile": np.asarray(f), "scale": np.exp(g)}

    def quantile_slopes(self, y: Array, f: Array, g: Array) -> Arrays:
        """An asymmetric Laplace quantile y = f + e^g z moves by 1 with f, y − f with g."""
        return np.ones(()), y - f


class HetGamma(OneForm, Family):
    """y ~ Gamma with mean e^f and shape α = e^g: latents log_mean and log_shape; var = e^{2f−g}.

    With u = log y − f and Binet's function ρ (`special.stirling_remainder`)
    log p = α (1 + u − e^u) + ½ g − ½ log 2π − ρ(α) − log y. The expectation is closed but for
    ρ, which is summed over g.
    """

    latents = ("log_mean", "log_shape")
    support = "positive"
    scipy_name = "gamma"
    coupled = False  # Standard deviations of a mean-field q are at least 0.95 of the posterior's.
    node_limits = (0.35, 1.0, 1.85, 3.7, 6.6, 10.5, 15.0)

    def _arguments(self, f: Array, g: Array) -> tuple[Any, ...]:
        return np.exp(g), 0.0, np.exp(np.subtract(f, g))

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The gamma log-density, as in the class docstring."""
        alpha, u = np.exp(g), np.log(y) - f
        main = alpha * (u - np.expm1(u)) - special.binet(alpha)
        return main + 0.5 * g - (np.log(y) + HALF_LOG_2PI)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of the gamma log-density: α (e^u − 1) and α (1 + u − e^u) + ½ − α ρ′(α)."""
        alpha, u = np.exp(g), np.log(y) - f
        excess = np.expm1(u)
        slope = special.stirling_remainder(alpha)[1]
        return alpha * excess, alpha * (u - excess) + (0.5 - slope)

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of gamma noise: E[α (1 + u − e^u)] closed, `nodes` for E[ρ(α)].

        The factor α moves the mean of u by −cov(f, g).
        """
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        rho, dm_g, dv_g = reduced.expected_of_exp(special.stirling_remainder, m_g, v_g, nodes)
        with np.errstate(over="ignore"):
            alpha, u = np.exp(m_g + 0.5 * v_g), np.log(y) - m_f - q.covariance(0, 1)
            excess = np.expm1(u + 0.5 * v_f)  # E[e^u] − 1
            main = alpha * (u - excess)
            df, dv_f = alpha * excess, -0.5 * alpha * (excess + 1.0)
        value = main + 0.5 * m_g - rho - (np.log(y) + HALF_LOG_2PI)
        return Form(value, (df, main + 0.5 - dm_g), (dv_f, 0.5 * main - dv_g), (df,))

    def log_tails(self, y: Array, f: Array, g: Array) -> tuple[Array, Array]:
        """Log-tails of gamma noise: incomplete gamma functions at α y e^{−f}."""
        with np.errstate(over="ignore", divide="ignore"):
            alpha = np.exp(np.minimum(g, 700.0))
            x = y * np.exp(np.minimum(np.subtract(g, f), 700.0))
            return np.log(gammainc(alpha, x)), np.log(gammaincc(alpha, x))

    def node_score(self, y: Array, means: Array, variances: Array) -> Array:
        """The spread of a gamma log-shape, v_g, decides on nodes: f is integrated exactly."""
        return variances[:, 1]

    def joint_node_score(self, y: Array, means: Array, covariances: Array) -> Array:
        """The spread v_g of a gamma log-shape, of which alone the part with nodes is a function."""
        return covariances[:, 1, 1]
