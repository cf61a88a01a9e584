"""Gaussian likelihoods: a variance that varies or not, and a signal whose size varies."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from ..data.names import checks_names
from ..expectations.forms import Form, Latents, OneForm
from ..expectations.special import HALF_LOG_2PI
from .contract import Array, Arrays
from .family import Family
from .wrappers.constant import ConstantLatent


class HetGaussian(OneForm, Family):
    """y ~ N(f, e^g): latents mean f and log_variance g, **variance** e^g.

    log p = −½ log 2π − ½ g − ½ (y − f)² e^{−g}
    """

    latents = ("mean", "log_variance")
    coupled = False  # Standard deviations of a mean-field q are at least 0.88 of the posterior's.
    exact_expectation = True
    scipy_name = "norm"

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return f, np.exp(0.5 * np.asarray(g))

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The Gaussian log-density, log N(y; f, e^g)."""
        return -HALF_LOG_2PI - 0.5 * g - 0.5 * (y - f) ** 2 * np.exp(-g)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of the Gaussian log-density: (y − f) e^{−g} and ½ (y − f)² e^{−g} − ½."""
        slope = (y - f) * np.exp(-g)
        return slope, 0.5 * (y - f) * slope - 0.5

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of Gaussian noise whose variance varies: closed.

        −½ log 2π − ½ m_g − ½ ((y − m_f + c)² + v_f) e^{−m_g + v_g/2}, c = cov(f, g).
        """
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        with np.errstate(over="ignore"):
            precision = np.exp(0.5 * v_g - m_g)  # E[e^{−g}], which moves the mean of f by −c
            residual = y - m_f + q.covariance(0, 1)
            half = 0.5 * (residual**2 + v_f) * precision
        slope = residual * precision
        value = -HALF_LOG_2PI - 0.5 * m_g - half
        return Form(value, (slope, half - 0.5), (-0.5 * precision, -0.5 * half), (-slope,))

    def conditional_mean(self, f: Array, g: Array) -> Array:
        """The mean of Gaussian noise, the latent f."""
        return f + 0.0 * g

    def conditional_variance(self, f: Array, g: Array) -> Array:
        """The variance of Gaussian noise, e^g."""
        return np.exp(g) + 0.0 * f

    def cdf(self, y: Array, f: Array, g: Array) -> Array:
        """The Gaussian cdf, Φ((y − f) e^{−g/2})."""
        return ndtr((y - f) * np.exp(-0.5 * g))

    def log_tails(self, y: Array, f: Array, g: Array) -> tuple[Array, Array]:
        """Log-tails of Gaussian noise, log Φ(±z), z = (y − f) e^{−g/2}."""
        z = (y - f) * np.exp(-0.5 * np.asarray(g))
        return log_ndtr(z), log_ndtr(-z)

    def quantile_slopes(self, y: Array, f: Array, g: Array) -> Arrays:
        """A Gaussian quantile y = f + e^{g/2} z moves by 1 with f, by (y − f)/2 with g."""
        return np.ones(()), 0.5 * (y - f)

    def ppf(self, q: Array, f: Array, g: Array) -> Array:
        """Gaussian quantiles, f + e^{g/2} Φ⁻¹(q)."""
        return f + np.exp(0.5 * g) * ndtri(q)

    def normal_scale_mixture(self) -> float:
        """Gaussian noise is a scale mixture with a = ∞: predictions integrate f exactly.

        y | f, g ~ N(f, e^g/λ), λ ~ Gamma(a, a).
        """
        return np.inf

    def initial_latents(self, y: Array) -> Array:
        """Start of a Gaussian fit: sample mean and log variance."""
        return np.array([np.mean(y), np.log(np.var(y) or 1.0)])


class Gaussian(ConstantLatent):
    """y ~ N(f, variance): latent mean f, one constant parameter `variance` (positive)."""

    @checks_names
    def __init__(self, variance: float | None = None, name: str | None = None) -> None:
        super().__init__(HetGaussian(), "log_variance", variance, positive="variance", name=name)


class SignalNoiseGaussian(OneForm, Family):
    """y ~ N(e^s f, e^g): latents signal f, log_signal_scale s, log_variance g (**variance** e^g).

    Both the size of the signal and that of the noise vary (Tolvanen, Jylänki & Vehtari 2014).
    log p = −½ log 2π − ½ g − ½ (y − e^s f)² e^{−g}; the expectation is closed.
    """

    latents = ("signal", "log_signal_scale", "log_variance")
    exact_expectation = True
    scipy_name = "norm"
    coupled = True  # The sds of a mean-field q are 0.4 and 0.3 of the posterior's, some 0.12.

    def _arguments(self, f: Array, s: Array, g: Array) -> Arrays:
        return np.exp(s) * f, np.exp(0.5 * np.asarray(g))

    def log_density(self, y: Array, f: Array, s: Array, g: Array) -> Array:
        """The Gaussian log-density of a signal whose size varies, log N(y; e^s f, e^g)."""
        return -HALF_LOG_2PI - 0.5 * g - 0.5 * (y - np.exp(s) * f) ** 2 * np.exp(-g)

    def dlog_density(self, y: Array, f: Array, s: Array, g: Array) -> Arrays:
        """Signal and noise slopes r e^s, r e^s f, ½ (y − e^s f) r − ½; r = (y − e^s f) e^{−g}."""
        scale = np.exp(s)
        slope, dg = HetGaussian.dlog_density(self, y, scale * f, g)
        return slope * scale, slope * scale * f, dg

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of `SignalNoiseGaussian`: closed.

        −½ log 2π − ½ m_g − ½ E[(y − e^s f)² e^{−g}].

        E[e^{−g} h(f, s)] = e^{−m_g + v_g/2} E[h] with means moved by −cov(f, g) and −cov(s, g); the
        factors e^s and e^{2s} then move the mean of f by c and 2c, c = cov(f, s).
        """
        (m_f, m_s, m_g), (v_f, v_s, v_g) = q.means, q.variances
        c, c_fg, c_sg = q.covariance(0, 1), q.covariance(0, 2), q.covariance(1, 2)
        with np.errstate(over="ignore"):
            scale, precision = np.exp(m_s - c_sg + 0.5 * v_s), np.exp(0.5 * v_g - m_g)
            square = scale * scale * np.exp(v_s)  # E[e^{2s}]
            once = m_f - c_fg + c
            twice = once + c
            spread = scale * scale * (np.expm1(v_s) * twice**2 + c * (once + twice)) + square * v_f
            half = 0.5 * precision * ((y - scale * once) ** 2 + spread)
            first, second = y * scale * once * precision, square * (twice**2 + v_f) * precision
            lean = square * twice * precision  # E[e^{2s − g} f]
            slope = y * scale * precision - lean
        dvariances = (-0.5 * square * precision, 0.5 * first - second, -0.5 * half)
        value = -HALF_LOG_2PI - 0.5 * m_g - half
        pull = first - second
        return Form(value, (slope, pull, half - 0.5), dvariances, (slope - lean, -slope, -pull))

    def log_tails(self, y: Array, f: Array, s: Array, g: Array) -> tuple[Array, Array]:
        """Log-tails of `SignalNoiseGaussian`, log Φ(±z), z = (y − e^s f) e^{−g/2}."""
        return HetGaussian.log_tails(self, y, np.exp(s) * f, g)

    def quantile_slopes(self, y: Array, f: Array, s: Array, g: Array) -> Arrays:
        """How a quantile y = e^s f + e^{g/2} z of a Gaussian signal moves with each latent.

        By e^s with f, by e^s f with s, by (y − e^s f)/2 with g.
        """
        scale = np.exp(s)
        return scale, scale * f, 0.5 * (y - scale * f)

    def normal_in_first(self, s: Array, g: Array) -> Arrays:
        """y | f ~ N(a f, s²), a = e^s, s² = e^g: predictions integrate the signal f exactly."""
        return np.exp(s), np.exp(g)

    def initial_latents(self, y: Array) -> Array:
        """Start of signal and noise; at a signal of 0 its scale would have no gradient."""
        mean, sd = float(np.mean(y)), float(np.std(y)) or 1.0
        return np.array([np.copysign(max(abs(mean / sd), 1.0), mean), np.log(sd), 2.0 * np.log(sd)])
