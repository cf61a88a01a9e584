"""Likelihoods of counts: one rate, a sum of two, a spread of its own, or a number of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaln, expit, gammaln, log_expit, logit, pdtr, xlogy

from ..data.types import Value
from ..expectations import special
from ..expectations.closed import expected_softplus
from ..expectations.forms import Form, Latents, OneForm
from ..linalg import Booleans
from .contract import Array, Arrays, Averages, packed
from .family import Family

MAX_RATE = 1e18  # Larger rates count as this one: numpy draws from no larger ones.


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
        """The log-probability of a Poisson count of rate exposure e^f."""
        return y * f - exposure * np.exp(f) + (xlogy(y, exposure) - gammaln(y + 1.0))

    def dlog_density(self, y: Array, f: Array, *, exposure: Value = 1.0) -> Arrays:
        """The slope of the Poisson log-probability, y − exposure e^f."""
        return (y - exposure * np.exp(f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, exposure: Value = 1.0
    ) -> Averages:
        """Poisson E[log p] = y (m + log exposure) − exposure e^{m + v/2} − log y!: closed."""
        m = means[:, 0]
        with np.errstate(over="ignore"):
            rate = exposure * np.exp(m + 0.5 * variances[:, 0])
        value = y * m - rate + (xlogy(y, exposure) - gammaln(y + 1.0))
        return packed(value, (y - rate,), (-0.5 * rate,))

    def conditional_mean(self, *latents: Array, exposure: Value = 1.0) -> Array:
        """The Poisson rate, exposure times the sum of e^f over the latents."""
        with np.errstate(over="ignore"):
            return exposure * sum((np.exp(f) for f in latents[1:]), np.exp(latents[0]))

    conditional_variance = conditional_mean  # type: ignore[assignment]

    def cdf(self, y: Array, *latents: Array, exposure: Value = 1.0) -> Array:
        """The Poisson cdf P(Y ≤ ⌊y⌋), a regularised gamma function; 0 below 0."""
        rate = self.conditional_mean(*latents, exposure=exposure)
        return np.where(np.less(y, 0.0), 0.0, pdtr(np.maximum(np.floor(y), 0.0), rate))

    def ppf(self, q: Array, *latents: Array, exposure: Value = 1.0) -> Array:
        """Poisson quantiles: the smallest count whose cdf is at least q."""
        rate = self.conditional_mean(*latents, exposure=exposure)
        return special.poisson_ppf(np.asarray(q), rate)

    def initial_latents(self, y: Array, *, exposure: Value = 1.0) -> Array:
        """Start: the log of the overall Poisson rate, in equal parts; finite if all are zero."""
        rate = (np.sum(y) + 0.5) / np.sum(exposure + np.zeros(len(y)))
        return np.full(len(self.latents), np.log(rate / len(self.latents)))


class AdditivePoisson(OneForm, Poisson):
    """y ~ Poisson(E (e^f + e^g)), E the optional metadata `exposure` (1 where it is not given).

    (Saul et al. 2016, eq. 10)

    log p = y (log E + f + softplus(g − f)) − E (e^f + e^g) − log y!; log_rate_1 f, log_rate_2 g.

    The expected log-density has a closed form, also for correlated latents: E[e^f] = exp(m + v/2),
    and g − f is Gaussian, so that E softplus(g − f) is `expectations.closed.expected_softplus`.
    """

    latents: tuple[str, ...] = ("log_rate_1", "log_rate_2")
    coupled = True  # The sds of a mean-field q are 0.3 to 0.6 of the posterior's, some 0.22.
    symmetric = True

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """The log-probability of a count that is a sum of two Poisson rates."""
        log_rate = f + special.softplus(np.subtract(g, f))
        rate = self.conditional_mean(f, g, exposure=exposure)
        return y * log_rate - rate + (xlogy(y, exposure) - gammaln(y + 1.0))

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Arrays:
        """Slopes of the sum of two Poisson rates.

        ∂ log p / ∂f = y e^f/(e^f + e^g) − E e^f, and the same in g.
        """
        share = expit(np.subtract(f, g))
        return y * share - exposure * np.exp(f), y * expit(np.subtract(g, f)) - exposure * np.exp(g)

    def _form(self, y: Array, q: Latents, nodes: int, exposure: Value = 1.0) -> Form:
        """E[log p] of a sum of two Poisson rates: closed.

        y (m_f + E softplus(g − f)) − Σ exposure e^{m + v/2}, var(g − f) = v_f + v_g − 2c.
        """
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        term, slope, bend = expected_softplus(m_g - m_f, v_f + v_g - 2.0 * q.covariance(0, 1))
        rates = exposure * np.exp(q.means + 0.5 * q.variances)  # (2, n)
        value = y * (m_f + term) - rates.sum(0) + (xlogy(y, exposure) - gammaln(y + 1.0))
        dmeans, bend = np.stack([y * (1.0 - slope), y * slope]) - rates, y * bend
        return Form(value, dmeans, bend - 0.5 * rates, (-2.0 * bend,))

    def natural_parameters(self, f: Array, g: Array, *, exposure: Value = 1.0) -> dict[str, Array]:
        """The two Poisson rates (per unit of exposure) and their sum."""
        return {"rate_1": np.exp(f), "rate_2": np.exp(g), "rate": np.exp(f) + np.exp(g)}


SMALL = 1e-3
"""A lower tail P(Y ≤ y) below this is computed by itself, to keep its digits."""


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
    coupled = False  # Standard deviations of a mean-field q are at least 0.96 of the posterior's.

    def _arguments(self, f: Array, g: Array, *, exposure: Value = 1.0) -> Arrays:
        # Counts are nearly Poisson at this least dispersion; at a lower one p = r/(r + μ) would
        # be so close to 1 that digits are lost.
        a = f + np.log(exposure)
        g = np.clip(g, -18.0 - 0.75 * np.maximum(a, 0.0), 600.0)
        return np.exp(-g), np.maximum(expit(-(a + g)), 1e-300)

    def conditional_mean(self, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """The negative binomial mean, exposure e^f."""
        with np.errstate(over="ignore"):
            return exposure * np.exp(f) + np.zeros(np.shape(g))

    def conditional_variance(self, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """The negative binomial variance μ + e^g μ², μ the mean."""
        a = f + np.log(exposure)
        with np.errstate(over="ignore"):
            return np.exp(a) + np.exp(g + 2.0 * a)

    def _tails(self, y: Array, f: Array, g: Array, exposure: Value) -> tuple[Array, Array]:
        """The lower and the upper tail of a negative binomial: P(Y ≤ ⌊y⌋) and P(Y > ⌊y⌋).

        The upper one is betainc of y + 1, r and 1 − p, where 1 − p = 1/(1 + e^{−a−g}) keeps its
        digits where p rounds to 1. Its complement betaincc, which takes ten times longer, is needed
        only where the lower tail is small.
        """
        g = np.clip(g, -60.0, 600.0)
        above, k = expit(f + np.log(exposure) + g), np.maximum(np.floor(y), 0.0) + 1.0
        k, r, above = np.broadcast_arrays(k, np.exp(-g), above)
        upper = np.asarray(betainc(k, r, above))
        lower = np.array(1.0 - upper)
        small = lower < SMALL
        lower[small] = betaincc(k[small], r[small], above[small])
        return lower, upper

    def cdf(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """The negative binomial cdf P(Y ≤ ⌊y⌋), a regularised beta function; 0 below 0."""
        return np.where(np.less(y, 0.0), 0.0, self._tails(y, f, g, exposure)[0])

    def log_tails(
        self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0
    ) -> tuple[Array, Array]:
        """Negative binomial log P(Y ≤ ⌊y⌋) and log P(Y > ⌊y⌋), by regularised beta functions."""
        below, above = self._tails(y, f, g, exposure)
        none = np.less(y, 0.0)
        with np.errstate(divide="ignore"):
            lower = np.where(above < 0.5, np.log1p(-above), np.log(below))
            return np.where(none, -np.inf, lower), np.where(none, 0.0, np.log(above))

    def ppf(self, q: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """Negative binomial quantiles, scaled above a mean of 1e15, where scipy's may not end."""
        a = f + np.log(exposure)
        capped = np.minimum(a, np.log(1e15))
        return super().ppf(q, capped, g) * np.exp(np.minimum(a - capped, 600.0))

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Array:
        """The negative binomial log-probability, as in the class docstring; −inf for y < 0."""
        g = np.clip(g, -600.0, 600.0)
        r, a, below = np.exp(-g), f + np.log(exposure), np.less(y, 0.0)
        y = np.maximum(y, 0.0)
        rho = special.binet(r + y) - special.binet(r)
        alone = (r + y - 0.5) * np.log1p(y * np.exp(g)) + rho - (y + gammaln(y + 1.0))
        return np.where(below, -np.inf, y * a - (r + y) * special.softplus(a + g) + alone)

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Value = 1.0) -> Arrays:
        """Slopes of the negative binomial: y − (r + y) logistic(a + g), and that in g."""
        g = np.clip(g, -600.0, 600.0)
        r, t = np.exp(-g), f + np.log(exposure) + g
        slope = y * expit(-t) - r * expit(t)
        near, far = special.stirling_remainder(r)[1], special.stirling_remainder(r + y)[1]
        alone = near - (0.5 * y + r * far) / (r + y) - r * np.log1p(y * np.exp(g))
        return slope, slope + r * special.softplus(t) + alone

    def natural_parameters(self, f: Array, g: Array, *, exposure: Value = 1.0) -> dict[str, Array]:
        """Negative binomial mean exposure · e^f, of the exposure given, and dispersion e^g."""
        with np.errstate(over="ignore"):
            return {"mean": exposure * np.exp(f), "dispersion": np.exp(g)}


class Binomial(Family):
    """y ~ Binomial(trials, 1/(1 + e^{−f})): latent logit f, metadata trials (required).

    log p = log C(trials, y) − y softplus(−f) − (trials − y) softplus(f).
    """

    latents = ("logit",)
    support = "counts"
    exact_expectation = True
    scipy_name = "binom"

    def _arguments(self, f: Array, *, trials: Value) -> Arrays:
        return np.asarray(trials, dtype=int), expit(f)

    def log_density(self, y: Array, f: Array, *, trials: Value) -> Array:
        """The binomial log-probability, as in the class docstring; −inf for y > trials."""
        value = y * log_expit(f) + (trials - y) * log_expit(np.negative(f))
        choose = -np.log1p(trials) - betaln(trials - y + 1.0, y + 1.0)
        return np.where(y <= trials, value + choose, -np.inf)

    def dlog_density(self, y: Array, f: Array, *, trials: Value) -> Arrays:
        """The slope of the binomial log-probability, y − trials · p."""
        return (y * expit(np.negative(f)) - (trials - y) * expit(f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, trials: Value
    ) -> Averages:
        """Binomial E[log p] = y m − trials E softplus(f) + log C: closed, without nodes."""
        value, slope, bend = expected_softplus(means[:, 0], variances[:, 0])
        value = self.log_density(y, np.zeros(1), trials=trials) + trials * (np.log(2.0) - value)
        value += y * means[:, 0]
        return packed(value, (y - trials * slope,), (-trials * bend,))

    def impossible(self, y: Array, *, trials: Value) -> tuple[Booleans, str]:
        """Refuse counts with more successes than trials, or trials that are no whole numbers."""
        parts = np.not_equal(trials, np.floor(trials))
        if parts.any():
            return parts, "have trials that are not whole numbers"
        return y > trials, "have more successes Y than trials"

    def initial_latents(self, y: Array, *, trials: Value) -> Array:
        """Start of a binomial fit: the logit of the share of successes."""
        return logit([(np.sum(y) + 0.5) / (np.sum(trials + np.zeros(len(y))) + 1.0)])


class BetaBinomial(Family):
    """y ~ Binomial(trials, p), p ~ Beta(μφ, (1−μ)φ): successes that vary more than a binomial's.

    Latents logit_mean f, μ = 1/(1 + e^{−f}), and log_precision g, φ = e^g; metadata trials
    (required). var[y] = trials μ(1−μ) (trials + φ)/(1 + φ): as φ → ∞ it is `Binomial`.

    With T(a, k) = log Γ(a + k) − log Γ(a) − k log a, which Binet's function gives without
    cancellation (`special.rising_excess`), α = μφ, β = (1−μ)φ and n = trials

        log p = log C(n, y) + y log μ + (n−y) log(1−μ) + T(α, y) + T(β, n−y) − T(φ, n).
    """

    latents = ("logit_mean", "log_precision")
    support = "counts"
    scipy_name = "betabinom"
    node_limits = (0.05, 0.2)
    impossible = Binomial.impossible  # type: ignore[assignment]

    def _shapes(self, f: Array, g: Array) -> Arrays:
        """The shapes α, β and the precision φ of a beta-binomial."""
        g = np.clip(g, -600.0, 600.0)
        shapes = (np.exp(g + log_expit(side)) for side in (f, np.negative(f)))
        return *(np.maximum(shape, 1e-300) for shape in shapes), np.exp(g)

    def _arguments(self, f: Array, g: Array, *, trials: Value) -> tuple[Any, ...]:
        # Beyond a precision of 1e9 the distribution is binomial, but scipy would lose digits.
        return np.asarray(trials, dtype=int), *self._shapes(f, np.minimum(g, np.log(1e9)))[:2]

    def conditional_mean(self, f: Array, g: Array, *, trials: Value) -> Array:
        """The mean of a beta-binomial, trials · μ."""
        return trials * (expit(f) + 0.0 * np.asarray(g))

    def conditional_variance(self, f: Array, g: Array, *, trials: Value) -> Array:
        """The variance of a beta-binomial, trials μ (1 − μ) (1 + (trials − 1)/(1 + φ))."""
        spread = 1.0 + (np.asarray(trials) - 1.0) * expit(np.negative(g))
        return trials * expit(f) * expit(np.negative(f)) * spread

    def log_density(self, y: Array, f: Array, g: Array, *, trials: Value) -> Array:
        """The beta-binomial log-probability (class docstring); −inf for y < 0, y > trials."""
        alpha, beta, phi = self._shapes(f, g)
        outside, y = np.less(y, 0.0) | np.greater(y, trials), np.maximum(y, 0.0)
        rest = np.maximum(trials - y, 0.0)
        spread = special.rising_excess_value(alpha, y)
        spread = spread + special.rising_excess_value(beta, rest)
        spread = spread - special.rising_excess_value(phi, trials)
        binomial = y * log_expit(f) + rest * log_expit(np.negative(f))
        choose = -np.log1p(trials) - betaln(rest + 1.0, y + 1.0)
        return np.where(outside, -np.inf, binomial + spread + choose)

    def _log_below(self, k: Array, f: Array, g: Array, trials: Value) -> Array:
        """The beta-binomial log P(Y ≤ k) of whole numbers k < trials, a sum from k downwards.

        It is log p(k) and the logarithm of a sum of products of ratios.

        p(j−1)/p(j) = j (n−j+β)/((n−j+1) (j−1+α)), downwards from k; nothing cancels.
        """
        a, b, _ = self._shapes(f, g)
        k, a, b, n = np.broadcast_arrays(k, a, b, trials)
        j = np.maximum(k, 0.0)
        shift = np.where(k >= 0.0, self.log_density(j, f, g, trials=trials), -np.inf)
        term = total = np.ones(j.shape)
        while np.any(term > 1e-17 * total):
            ratio = j * (n - j + b) / ((n - j + 1.0) * np.maximum(j - 1.0 + a, 1e-300))
            term = term * np.minimum(ratio, 1e300)
            total, j = total + term, np.maximum(j - 1.0, 0.0)
            if np.any(large := total > 1e4):  # The sum may rise from a far tail to all the mass.
                size = np.where(large, total, 1.0)
                shift, term, total = shift + np.log(size), term / size, total / size
        return np.minimum(shift + np.log(total), 0.0)

    def log_tails(self, y: Array, f: Array, g: Array, *, trials: Value) -> tuple[Array, Array]:
        """Beta-binomial log P(Y ≤ ⌊y⌋), log P(Y > ⌊y⌋); the larger is from the smaller."""
        k = np.clip(np.floor(y), 0.0, np.subtract(trials, 1.0))
        below = self._log_below(k, f, g, trials)
        # Upwards is downwards for failures: there are at most n − k − 1 of them.
        above = self._log_below(trials - k - 1.0, np.negative(f), g, trials)
        lower, upper = (
            np.where(own <= other, own, special.log1mexp(other))
            for own, other in ((below, above), (above, below))
        )
        none, full = np.less(y, 0.0), np.greater_equal(y, trials)
        lower = np.where(full, 0.0, np.where(none, -np.inf, lower))
        return lower, np.where(none, 0.0, np.where(full, -np.inf, upper))

    def cdf(self, y: Array, f: Array, g: Array, *, trials: Value) -> Array:
        """The beta-binomial cdf P(Y ≤ ⌊y⌋), from a sum over counts on the shorter side.

        Up to the mean it is a sum over smaller counts, beyond it 1 minus one over larger
        ones.
        """
        k = np.clip(np.floor(y), 0.0, np.subtract(trials, 1.0))
        lower = k <= trials * expit(f)
        k, sign = np.where(lower, k, trials - k - 1.0), np.where(lower, 1.0, -1.0)
        share = np.exp(self._log_below(k, sign * f, g, trials))
        value = np.where(lower, share, 1.0 - share)
        return np.where(np.less(y, 0.0), 0.0, np.where(np.greater_equal(y, trials), 1.0, value))

    def ppf(self, q: Array, f: Array, g: Array, *, trials: Value) -> Array:
        """Beta-binomial quantiles: the smallest count whose cdf is at least q, by bisection."""
        shape = np.broadcast_shapes(*(np.shape(x) for x in (q, f, g, trials)))
        low, high = np.full(shape, -1.0), np.broadcast_to(trials, shape).astype(float)
        while np.any(high - low > 1.0):
            middle = np.floor(0.5 * (low + high))
            enough = self.cdf(middle, f, g, trials=trials) >= np.asarray(q) - 1e-14
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def dlog_density(self, y: Array, f: Array, g: Array, *, trials: Value) -> Arrays:
        """Beta-binomial slopes by the chain rule from those in α, β, φ, a ∂T(a, k)/∂a."""
        alpha, beta, phi = self._shapes(f, g)
        rest, mu, other = np.maximum(trials - y, 0.0), expit(f), expit(np.negative(f))
        up, down = special.rising_excess(alpha, y)[1], special.rising_excess(beta, rest)[1]
        slope = other * (y + up) - mu * (rest + down)
        return slope, up + down - special.rising_excess(phi, trials)[1]

    def initial_latents(self, y: Array, *, trials: Value) -> Array:
        """Start of a beta-binomial fit: the share of successes, and a precision.

        The precision is what the spread of the rows' shares asks for.

        E[(y − nμ)²] = nμ(1−μ) (1 + (n−1) ρ) with ρ = 1/(1 + φ).
        """
        n = trials + np.zeros(len(y))
        (f,) = Binomial.initial_latents(self, y, trials=trials)
        mu, more = expit(f), n > 1.0
        excess = (y - n * mu) ** 2 / (n * mu * (1.0 - mu)) - 1.0
        rho = np.sum(excess[more]) / max(float(np.sum(n[more] - 1.0)), 1.0)
        rho = float(np.clip(rho, 1e-3, 0.9))
        return np.array([f, np.log(1.0 / rho - 1.0)])
