"""Counts: one rate, a sum of two, a spread of its own, or a number of trials."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, expit, gammaln, log_expit, logit, pdtr, xlogy

from ..data.types import Value
from ..expectations import special
from ..expectations.closed import expected_softplus
from ..linalg import Booleans
from .contract import Array, Arrays, Averages, packed
from .family import Family

__all__ = ["AdditivePoisson", "Binomial", "NegativeBinomial", "Poisson"]

MAX_RATE = 1e18  # numpy draws from no larger rate: those that are larger count as this one


class Poisson(Family):
    """y ~ Poisson(exposure · e^f): latent log_rate f, optional metadata exposure (default 1).

    log p = y (f + log exposure) − exposure e^f − log y!
    """

    latents: tuple[str, ...] = ("log_rate",)
    support = "counts"
    positive_metadata = ("exposure",)
    exact_expectation = True
    scipy_name = "poisson"

    def _arguments(self, *latents: Array, exposure: Value = 1.0) -> Arrays:
        return (np.minimum(self.conditional_mean(*latents, exposure=exposure), MAX_RATE),)

    def log_density(self, y: Array, f: Array, *, exposure: Value = 1.0) -> Array:
        """The log of Poisson(y; exposure e^f)."""
        return y * f - exposure * np.exp(f) + (xlogy(y, exposure) - gammaln(y + 1.0))

    def dlog_density(self, y: Array, f: Array, *, exposure: Value = 1.0) -> Arrays:
        """Slope y − exposure e^f."""
        return (y - exposure * np.exp(f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, exposure: Value = 1.0
    ) -> Averages:
        """E[log p] = y (m + log exposure) − exposure e^{m + v/2} − log y!, closed; see base."""
        m = means[:, 0]
        with np.errstate(over="ignore"):
            rate = exposure * np.exp(m + 0.5 * variances[:, 0])
        value = y * m - rate + (xlogy(y, exposure) - gammaln(y + 1.0))
        return packed(value, (y - rate,), (-0.5 * rate,))

    def conditional_mean(self, *latents: Array, exposure: Value = 1.0) -> Array:
        """The rate, exposure times the sum of e^f over the latents."""
        with np.errstate(over="ignore"):
            return exposure * sum((np.exp(f) for f in latents[1:]), np.exp(latents[0]))

    conditional_variance = conditional_mean  # type: ignore[assignment]

    def cdf(self, y: Array, *latents: Array, exposure: Value = 1.0) -> Array:
        """P(Y ≤ ⌊y⌋), a regularised gamma function; 0 below 0."""
        rate = self.conditional_mean(*latents, exposure=exposure)
        return np.where(np.less(y, 0.0), 0.0, pdtr(np.maximum(np.floor(y), 0.0), rate))

    def ppf(self, q: Array, *latents: Array, exposure: Value = 1.0) -> Array:
        """The smallest count whose cdf is at least q."""
        rate = self.conditional_mean(*latents, exposure=exposure)
        return special.poisson_ppf(np.asarray(q), rate)

    def initial_latents(self, y: Array, *, exposure: Value = 1.0) -> Array:
        """The log of the overall rate, in equal parts, finite if all counts are zero."""
        rate = (np.sum(y) + 0.5) / np.sum(exposure + np.zeros(len(y)))
        return np.full(len(self.latents), np.log(rate / len(self.latents)))


class AdditivePoisson(Poisson):
    """y ~ Poisson(E (e^f + e^g)), E the optional metadata `exposure` (1 where it is not given).

    (Saul et al. 2016, eq. 10)

    log p = y (log E + f + softplus(g − f)) − E (e^f + e^g) − log y!; log_rate_1 f, log_rate_2 g.

    The expectation is closed: E[e^f] = exp(m + v/2), and g − f is Gaussian, so that
    E softplus(g − f) is `expectations.closed.expected_softplus`. No nodes, any variance.
    """

    latents: tuple[str, ...] = ("log_rate_1", "log_rate_2")
    symmetric = True

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """The log-density log p(y | f, g), in the broadcast shape of y, f and g."""
        log_rate = f + special.softplus(np.subtract(g, f))
        rate = self.conditional_mean(f, g, exposure=exposure)
        return y * log_rate - rate + (xlogy(y, exposure) - gammaln(y + 1.0))

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Arrays:
        """∂ log p / ∂f = y e^f/(e^f + e^g) − E e^f, and the same in g."""
        share = expit(np.subtract(f, g))
        return y * share - exposure * np.exp(f), y * expit(np.subtract(g, f)) - exposure * np.exp(g)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, exposure: Value = 1.0
    ) -> Averages:
        """E[log p] in closed form (`nodes` is not used); shapes as in `Likelihood`."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        term, slope, curvature = expected_softplus(m_g - m_f, v_f + v_g)
        rates = exposure * np.exp(means.T + 0.5 * variances.T)  # (2, n)
        value = y * (m_f + term) - rates.sum(0) + (xlogy(y, exposure) - gammaln(y + 1.0))
        dmeans = np.stack([y * (1.0 - slope), y * slope]) - rates
        return packed(value, dmeans, y * curvature - 0.5 * rates)

    def natural_parameters(self, f: Array, g: Array, *, exposure: Value = 1.0) -> dict[str, Array]:
        """The two rates (per unit of exposure) and their sum."""
        return {"rate_1": np.exp(f), "rate_2": np.exp(g), "rate": np.exp(f) + np.exp(g)}


class NegativeBinomial(Family):
    """y ~ NB with mean μ = exposure · e^f and variance μ + e^g μ²: log_mean, log_dispersion.

    With r = e^{−g}, a = f + log exposure and Binet's function ρ, so that nothing cancels as r → ∞
    (Poisson): log p = y a − (r + y) softplus(a + g) + (r + y − ½) log(1 + y/r) − y + ρ(r + y)
    − ρ(r) − log y!.
    """

    latents = ("log_mean", "log_dispersion")
    support = "counts"
    positive_metadata = ("exposure",)
    scipy_name = "nbinom"
    node_limits = (0.1, 0.5)

    def _arguments(self, f: Array, g: Array, *, exposure: Value = 1.0) -> Arrays:
        g = np.clip(g, -18.0, 600.0)  # below it is Poisson, but p = r/(r + μ) would lose digits
        return np.exp(-g), expit(-(f + np.log(exposure) + g))

    def ppf(self, q: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """Quantiles; above a mean of 1e15 in proportion to it, as scipy's may never end."""
        a = f + np.log(exposure)
        capped = np.minimum(a, np.log(1e15))
        return super().ppf(q, capped, g) * np.exp(np.minimum(a - capped, 600.0))

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """As in the class docstring."""
        r, a = np.exp(-g), f + np.log(exposure)
        rho = special.stirling_remainder(r + y)[0] - special.stirling_remainder(r)[0]
        alone = (r + y - 0.5) * np.log1p(y * np.exp(g)) + rho - (y + gammaln(y + 1.0))
        return y * a - (r + y) * special.softplus(a + g) + alone

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Arrays:
        """y − (r + y) logistic(a + g), and the derivative in g."""
        r, t = np.exp(-g), f + np.log(exposure) + g
        slope = y * expit(-t) - r * expit(t)
        near, far = special.stirling_remainder(r)[1], special.stirling_remainder(r + y)[1]
        alone = near - (0.5 * y + r * far) / (r + y) - r * np.log1p(y * np.exp(g))
        return slope, slope + r * special.softplus(t) + alone


class Binomial(Family):
    """y ~ Binomial(trials, 1/(1 + e^{−f})): latent logit f, metadata trials (required).

    log p = log C(trials, y) − y softplus(−f) − (trials − y) softplus(f); closed expectation.
    """

    latents = ("logit",)
    support = "counts"
    exact_expectation = True
    scipy_name = "binom"

    def _arguments(self, f: Array, *, trials: Value) -> Arrays:
        return np.asarray(trials, dtype=int), expit(f)

    def log_density(self, y: Array, f: Array, *, trials: Value) -> Array:
        """As in the class docstring; −inf for y > trials."""
        value = y * log_expit(f) + (trials - y) * log_expit(np.negative(f))
        choose = -np.log1p(trials) - betaln(trials - y + 1.0, y + 1.0)
        return np.where(y <= trials, value + choose, -np.inf)

    def dlog_density(self, y: Array, f: Array, *, trials: Value) -> Arrays:
        """Slope y − trials · p."""
        return (y * expit(np.negative(f)) - (trials - y) * expit(f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, trials: Value
    ) -> Averages:
        """E[log p] = y m − trials E softplus(f) + log C: closed, `nodes` unused."""
        value, slope, bend = expected_softplus(means[:, 0], variances[:, 0])
        value = self.log_density(y, np.zeros(1), trials=trials) + trials * (np.log(2.0) - value)
        value += y * means[:, 0]
        return packed(value, (y - trials * slope,), (-trials * bend,))

    def impossible(self, y: Array, *, trials: Value) -> tuple[Booleans, str]:
        """Refuse rows with more successes than trials, or with trials that are no whole numbers."""
        parts = np.not_equal(trials, np.floor(trials))
        if parts.any():
            return parts, "have trials that are not whole numbers"
        return y > trials, "have more successes Y than trials"

    def initial_latents(self, y: Array, *, trials: Value) -> Array:
        """The logit of the share of successes."""
        return logit([(np.sum(y) + 0.5) / (np.sum(trials + np.zeros(len(y))) + 1.0)])
