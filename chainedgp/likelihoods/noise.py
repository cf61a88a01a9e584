"""Continuous noise: Laplace, a scaled signal, Student-t with varying tails, gamma, beta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf, expit, log_expit

from .. import quadrature, special
from . import beta, levels, student_t
from .base import Array, Arrays, FourArrays, Likelihood
from .gaussian import HALF_LOG_2PI

__all__ = ["BetaMeanPrecision", "HetGamma", "HetLaplace", "HetStudentTNu", "SignalNoiseGaussian"]

LINKS = (("logit_", expit), ("logit", expit), ("log_", np.exp))


class _Named(Likelihood):
    """What follows from a distribution of scipy.stats, the names of the latents, and limits.

    node_limits: the largest variance in a row that each of `quadrature.LEVELS` serves to 1e-6.
    """

    scipy_name: ClassVar[str]
    _arguments: ClassVar[Callable[..., tuple[Any, ...]]]  # of the distribution, from the latents
    node_limits: ClassVar[tuple[float, ...]] = (np.inf,)

    def distribution(self, *latents: Array, **kw: Any) -> Any:
        """The distribution of scipy.stats."""
        from scipy import stats  # slow to import

        return getattr(stats, self.scipy_name)(*self._arguments(*latents, **kw))

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """The latents without their links: log_scale g is scale e^g, logit_mean is mean."""
        named = {}
        for name, f in zip(self.latents, latents, strict=True):
            match = ((p, link) for p, link in LINKS if name.startswith(p))
            prefix, link = next(match, ("", np.asarray))
            named[name.removeprefix(prefix) or "probability"] = link(f)
        return named

    def _score(self, means: Array, variances: Array) -> Array:
        """What `node_limits` limit, (n,)."""
        return variances.max(axis=1)

    def required_nodes(self, y: Array, means: Array, variances: Array, **kw: Any) -> Array:
        """Nodes for about 1e-6, by `node_limits`."""
        return levels.choose(self._score(means, variances), self.node_limits)[0]

    def unmet(self, y: Array, means: Array, variances: Array, **kw: Any) -> Array:
        """Rows beyond the last of `node_limits`."""
        return levels.choose(self._score(means, variances), self.node_limits)[1]


def packed(value: Array, dmeans: Sequence[Array], dvariances: Sequence[Array]) -> FourArrays:
    """The four arrays of `expected_log_density`, from (n,) for each latent; no parameters."""
    return value, np.stack(dmeans).T, np.stack(dvariances).T, np.empty((0, value.size)).T


class HetLaplace(_Named):
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
        """sign(y − f) e^{−g} and |y − f| e^{−g} − 1."""
        inverse = np.exp(-g)
        return np.sign(y - f) * inverse, np.abs(y - f) * inverse - 1.0

    def d2log_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """0, but for the kink, and −|y − f| e^{−g}."""
        size = np.abs(y - f) * np.exp(-g)
        return np.zeros_like(size), -size

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> FourArrays:
        """−log 2 − m_g − e^{−m_g + v_g/2} E|y − f|: closed, `nodes` unused."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        sd = np.sqrt(np.maximum(v_f, quadrature.VARIANCE_FLOOR))
        u = (y - m_f) / sd
        side, peak = erf(u / np.sqrt(2.0)), np.exp(-0.5 * u * u - HALF_LOG_2PI)
        with np.errstate(over="ignore"):
            inverse = np.exp(0.5 * v_g - m_g)  # E[e^{−g}]
            size = inverse * ((y - m_f) * side + 2.0 * sd * peak)
        value = -np.log(2.0) - m_g - size
        return packed(value, (inverse * side, size - 1.0), (-inverse * peak / sd, -0.5 * size))


class SignalNoiseGaussian(_Named):
    """y ~ N(e^s f, e^g): latents signal f, log_signal_scale s, log_variance g (**variance** e^g).

    Both the size of the signal and that of the noise vary (Tolvanen, Jylänki & Vehtari 2014).
    log p = −½ log 2π − ½ g − ½ (y − e^s f)² e^{−g}; the expectation is closed.
    """

    latents = ("signal", "log_signal_scale", "log_variance")
    exact_expectation = True
    scipy_name = "norm"

    def _arguments(self, f: Array, s: Array, g: Array) -> Arrays:
        return np.exp(s) * f, np.exp(0.5 * np.asarray(g))

    def log_density(self, y: Array, f: Array, s: Array, g: Array) -> Array:
        """The log of N(y; e^s f, e^g)."""
        return -HALF_LOG_2PI - 0.5 * g - 0.5 * (y - np.exp(s) * f) ** 2 * np.exp(-g)

    def dlog_density(self, y: Array, f: Array, s: Array, g: Array) -> Arrays:
        """r e^{s−g}, r e^{s−g} f and ½ r² e^{−g} − ½, with r = y − e^s f."""
        scale = np.exp(s)
        residual = y - scale * f
        slope = residual * np.exp(-g)
        return slope * scale, slope * (scale * f), 0.5 * residual * slope - 0.5

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> FourArrays:
        """−½ log 2π − ½ m_g − ½ E[(y − e^s f)²] e^{−m_g + v_g/2}: closed, `nodes` unused."""
        (m_f, m_s, m_g), (v_f, v_s, v_g) = means.T, variances.T
        with np.errstate(over="ignore"):
            scale, precision = np.exp(m_s + 0.5 * v_s), np.exp(0.5 * v_g - m_g)
            square = scale * scale * np.exp(v_s)  # E[e^{2s}]
            spread = scale * scale * np.expm1(v_s) * m_f**2 + square * v_f
            half = 0.5 * precision * ((y - scale * m_f) ** 2 + spread)
            first, second = y * scale * m_f * precision, square * (m_f**2 + v_f) * precision
            slope = (y * scale - square * m_f) * precision
        dvariances = (-0.5 * square * precision, 0.5 * first - second, -0.5 * half)
        value = -HALF_LOG_2PI - 0.5 * m_g - half
        return packed(value, (slope, first - second, half - 0.5), dvariances)

    def initial_latents(self, y: Array) -> Array:
        """All of y may be signal or noise; at a signal of 0 its scale would not matter."""
        mean, sd = np.mean(y), float(np.std(y)) or 1.0
        return np.array([np.copysign(max(abs(mean / sd), 1.0), mean), np.log(sd), 2.0 * np.log(sd)])


class HetStudentTNu(_Named):
    """y ~ Student-t with location f, **squared scale** e^g and ν = e^h degrees of freedom.

    `HetStudentT` with a third latent, log_nu h, in the place of its parameter. With
    T = log(1 + (y−f)² e^{−g−h}), log p = c(ν) − g/2 − ½ (1 + e^h) T is exact in f, and
    one-dimensional in t = g + h, because e^h tilts the Gaussian of h:

        E[T] for t ~ N(m_g + m_h, v_g + v_h),
        E[e^h T] = e^{m_h + v_h/2} E[T] for t ~ N(m_g + m_h + v_h, v_g + v_h).

    A Gaussian log ν is below 0 sometimes: predictions have quantiles but no mean.
    """

    latents = ("location", "log_scale2", "log_nu")
    infinite_mean = True
    scipy_name = "t"
    node_limits = student_t._LIMITS

    def _arguments(self, f: Array, g: Array, h: Array) -> Arrays:
        return np.exp(np.clip(h, -7.0, 20.0)), f, np.exp(0.5 * np.asarray(g))  # Gaussian at e^20

    def log_density(self, y: Array, f: Array, g: Array, h: Array) -> Array:
        """The log-density, broadcast shape of y, f, g and h."""
        nu, tail = np.exp(h), np.log1p((y - f) ** 2 * np.exp(-np.add(g, h)))
        return _constant(nu)[0] - 0.5 * g - 0.5 * (nu + 1.0) * tail

    def dlog_density(self, y: Array, f: Array, g: Array, h: Array) -> Arrays:
        """As `HetStudentT` in f and g; in h, ν times its derivative in ν."""
        nu, tail = np.exp(h), np.log1p((y - f) ** 2 * np.exp(-np.add(g, h)))
        share, slope = student_t._share(y - f, g, nu)
        pull = 0.5 * (nu + 1.0) * share
        return (nu + 1.0) * slope, pull - 0.5, _constant(nu)[1] - 0.5 * nu * tail + pull

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> FourArrays:
        """E[log p], exact in f, `nodes` Gauss–Hermite nodes in g + h and in h."""
        (m_f, m_g, m_h), (v_f, v_g, v_h) = means.T, variances.T
        x, w = quadrature.gauss_hermite(nodes)
        sd = np.sqrt(np.maximum(v_h, quadrature.VARIANCE_FLOOR))
        constant, slope = _constant(np.exp(m_h + sd * x[:, None]))  # (nodes, n)
        r, m_t, v_t = y - m_f, m_g + m_h, v_g + v_h
        plain = _expected_tail(r, v_f, m_t, v_t, nodes)
        tilted = np.exp(m_h + 0.5 * v_h) * _expected_tail(r, v_f, m_t + v_h, v_t, nodes)
        value, dr, dv_f, dt, dv_t = -0.5 * (plain + tilted)
        dmeans = (-dr, dt - 0.5, dt - 0.5 * tilted[0] + w @ slope)
        dv_h = dv_t - 0.25 * tilted[0] - 0.5 * tilted[3] + (w * x) @ slope * (0.5 / sd)
        return packed(w @ constant - 0.5 * m_g + value, dmeans, (dv_f, dv_t, dv_h))

    def _score(self, means: Array, variances: Array) -> Array:
        """v_g + v_h, widened for the factor (ν+1)/2 as in `HetStudentT`."""
        nu = np.clip(np.exp(means[:, 2] + variances[:, 2]), 1.0, 1e3)  # beyond: nearly Gaussian
        return (variances[:, 1] + variances[:, 2]) * (0.5 * nu + 0.5) ** (1.0 / 6.0)

    def initial_latents(self, y: Array) -> Array:
        """As `HetStudentT` with ν = 4: the best constant ν may be infinite."""
        return np.append(student_t.HetStudentT().initial_latents(y, nu=4.0), np.log(4.0))


def _constant(nu: Array) -> Arrays:
    """lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) and its derivative in log ν."""
    step, slope = special.lgamma_half_step(0.5 * nu)
    return step - 0.5 * np.log(np.pi * nu), 0.5 * nu * slope - 0.5


def _expected_tail(r: Array, v_f: Array, mean: Array, variance: Array, nodes: int) -> Array:
    """E log(1 + x² e^{−t}), x ~ N(r, v_f), t ~ N(mean, variance), and its derivatives, (5, n)."""
    x, w = quadrature.gauss_hermite(nodes)
    sd = np.sqrt(np.maximum(variance, quadrature.VARIANCE_FLOOR))
    scale = np.exp(-0.5 * (mean + sd * x[:, None]))  # (nodes, n)
    delta, kappa = r * scale, v_f * scale * scale
    term, ddelta, dkappa = special.expected_log1p_square(delta, kappa)
    slope = -0.5 * delta * ddelta - kappa * dkappa  # in t
    dr, dv_f = w @ (ddelta * scale), w @ (dkappa * scale * scale)
    return np.stack([w @ term, dr, dv_f, w @ slope, (w * x) @ slope * (0.5 / sd)])


class HetGamma(_Named):
    """y ~ Gamma with mean e^f and shape α = e^g: latents log_mean and log_shape; var = e^{2f−g}.

    With u = log y − f and Binet's function ρ (`special.stirling_remainder`)
    log p = α (1 + u − e^u) + ½ g − ½ log 2π − ρ(α) − log y. The expectation is closed but for
    ρ, which is summed over g.
    """

    latents = ("log_mean", "log_shape")
    support = "positive"
    scipy_name = "gamma"
    node_limits = beta._LIMITS

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
        rest = 0.5 - special.stirling_remainder(alpha)[1]
        return alpha * np.expm1(u), alpha * (u - np.expm1(u)) + rest

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> FourArrays:
        """E[α] E[1 + u − e^u] closed, `nodes` Gauss–Hermite nodes for E[ρ(α)]."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        x, w = quadrature.gauss_hermite(nodes)
        sd = np.sqrt(np.maximum(v_g, quadrature.VARIANCE_FLOOR))
        rho, slope = special.stirling_remainder(np.exp(m_g + sd * x[:, None]))  # (nodes, n)
        with np.errstate(over="ignore"):
            alpha, u = np.exp(m_g + 0.5 * v_g), np.log(y) - m_f
            excess = np.expm1(u + 0.5 * v_f)  # E[e^u] − 1
            main = alpha * (u - excess)
            df, dv_f = alpha * excess, -0.5 * alpha * (excess + 1.0)
        value = main + 0.5 * m_g - w @ rho - (np.log(y) + HALF_LOG_2PI)
        dv_g = 0.5 * main - (w * x) @ slope * (0.5 / sd)
        return packed(value, (df, main + 0.5 - w @ slope), (dv_f, dv_g))

    def _score(self, means: Array, variances: Array) -> Array:
        """v_g: f is integrated exactly."""
        return variances[:, 1]


class BetaMeanPrecision(_Named):
    """y ~ Beta(μφ, (1−μ)φ), μ = 1/(1 + e^{−f}), φ = e^g: latents logit_mean and log_precision.

    `Beta` at log α = g − softplus(−f), log β = g − softplus(f); var[y] = μ(1−μ)/(1+φ).
    """

    latents = ("logit_mean", "log_precision")
    support = "unit"
    scipy_name = "beta"
    node_limits = (0.25, 0.6, 1.2, 2.2, 3.4, 4.7)

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return np.exp(g + log_expit(f)), np.exp(g + log_expit(np.negative(f)))

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """That of `Beta`."""
        return _BETA.log_density(y, g + log_expit(f), g + log_expit(np.negative(f)))

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """By the chain rule: (1−μ) ∂_α − μ ∂_β and ∂_α + ∂_β."""
        da, db = _BETA.dlog_density(y, g + log_expit(f), g + log_expit(np.negative(f)))
        return expit(np.negative(f)) * da - expit(f) * db, da + db


_BETA = beta.Beta()
