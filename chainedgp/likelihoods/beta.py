"""Beta likelihoods of targets in the unit interval: by two shapes, or by mean and precision."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, expit, log_expit

from ..expectations import reduced, special
from ..expectations.closed import expected_softplus
from ..expectations.forms import Form, Latents, OneForm
from .contract import Array, Arrays
from .family import Family


class Beta(OneForm, Family):
    """y ~ Beta(α = e^f, β = e^g) on (0, 1): latents log_alpha f and log_beta g.

    (Saul et al. 2016, eq. 8)

    With Binet's function ρ (`special.stirling_remainder`) and d = g − f, so that the large parts of
    the gamma functions cancel by algebra and not in floating point:

        log p = α (softplus(d) + log y) + β (softplus(−d) + log(1−y)) − log y − log(1−y)
                + ½ (g − softplus(d)) − ½ log 2π + ρ(α+β) − ρ(α) − ρ(β).

    The expectations of all terms but ρ have closed forms (e^f tilts the Gaussian: the mean of f
    moves by v_f, that of g by cov(f, g)). ρ is small and flat; its three terms are summed over the
    same Gauss–Hermite nodes (`reduced.expected_stirling_sum`).
    """

    latents = ("log_alpha", "log_beta")
    coupled = True  # Standard deviations of a mean-field q are 0.65 of the posterior's, some 0.51.
    trends = True
    support = "unit"
    scipy_name = "beta"
    node_limits = (0.35, 1.0, 1.85, 3.7, 6.6, 10.5, 15.0)

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return np.exp(f), np.exp(g)

    def cdf(self, y: Array, f: Array, g: Array) -> Array:
        """The cdf of the Beta distribution, P(Y ≤ y | f, g)."""
        with np.errstate(all="ignore"):
            return special.beta_cdf(y, *self._arguments(f, g))

    def log_tails(self, y: Array, f: Array, g: Array) -> tuple[Array, Array]:
        """Logarithms of the Beta cdf of y, and of that of 1 − y with the shapes exchanged."""
        with np.errstate(divide="ignore"):
            return np.log(self.cdf(y, f, g)), np.log(self.cdf(1.0 - y, g, f))

    def ppf(self, q: Array, f: Array, g: Array) -> Array:
        """Quantiles of the Beta distribution; a shape that overflows is the largest number."""
        return betaincinv(*(np.exp(np.clip(x, -700.0, 700.0)) for x in (f, g)), q)

    def conditional_mean(self, f: Array, g: Array) -> Array:
        """The mean of a Beta distribution, α/(α + β)."""
        return expit(np.subtract(f, g))

    def conditional_variance(self, f: Array, g: Array) -> Array:
        """The variance of a Beta distribution, μ (1 − μ)/(1 + α + β)."""
        d = np.subtract(f, g)
        return expit(d) * expit(-d) * expit(-np.logaddexp(f, g))

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The Beta log-density, as in the class docstring."""
        alpha, beta = np.exp(f), np.exp(g)
        up, down = special.softplus_pair(np.subtract(g, f))
        log_y, log_1y = np.log(y), np.log1p(-y)
        rest = special.binet(alpha + beta) + 0.5 * (g - up)
        rest = rest - special.binet(alpha) - special.binet(beta)
        main = alpha * (up + log_y) + beta * (down + log_1y)
        return main + rest - (log_y + log_1y + special.HALF_LOG_2PI)

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of the Beta log-density: ∂f = α (ψ(α+β) − ψ(α) + log y), in g with 1 − y."""
        alpha, beta = np.exp(f), np.exp(g)
        up, down = special.softplus_pair(np.subtract(g, f))
        share = expit(np.subtract(f, g))
        other = expit(np.subtract(g, f))
        both = special.stirling_remainder(alpha + beta)[1]
        df = alpha * (up + np.log(y)) + 0.5 * other + share * both
        dg = beta * (down + np.log1p(-y)) + 0.5 * share + other * both
        return df - special.stirling_remainder(alpha)[1], dg - special.stirling_remainder(beta)[1]

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of the Beta likelihood: closed, but for ρ with `nodes` per dimension."""
        (means, variances, V), c = q, q.covariance(0, 1)
        (m_f, m_g), total = means, variances.sum(axis=0) - 2.0 * c  # var(g − f)
        logs = np.log(y), np.log1p(-y)
        spread = variances.T if V is None else V.transpose(2, 0, 1)
        value, dmeans, dV = reduced.expected_stirling_sum(means.T, spread, nodes)
        dvariances, dc = (dV, 0.0) if V is None else (np.einsum("jjn->jn", dV), 2.0 * dV[0, 1])
        # This term is ½ (g − softplus(g − f)).
        term, slope, curvature = expected_softplus(m_g - m_f, total)
        value += 0.5 * (m_g - term) - (logs[0] + logs[1] + special.HALF_LOG_2PI)
        dmeans[0] += 0.5 * slope
        dmeans[1] += 0.5 * (1.0 - slope)
        dvariances -= 0.5 * curvature
        dc += curvature
        # This term is −ρ(α) + α (softplus(g − f) + log y): the latter is exp(m_f + v_f/2) times
        # its mean with f shifted by v_f and g by c; the other latent has the same with the roles
        # exchanged.
        for i, log_target in enumerate(logs):
            m, v, k = means[i], variances[i], 1 - i
            rho, dm, dv = reduced.expected_of_exp(special.stirling_remainder, m, v, nodes)
            term, slope, curvature = expected_softplus(means[k] - m - v + c, total)
            size = np.exp(m + 0.5 * v)
            slope *= size
            curvature *= size
            size *= term + log_target
            value += size - rho
            dmeans[i] += size - slope - dm
            dmeans[k] += slope
            dvariances[i] += 0.5 * size - slope + curvature - dv
            dvariances[k] += curvature
            dc += slope - 2.0 * curvature
        return Form(value, dmeans, dvariances, (dc,))

    def joint_node_score(self, y: Array, means: Array, covariances: Array) -> Array:
        """The variance that decides on Beta's nodes: of α + β, or the largest of all."""
        return reduced.widest_of_sum(covariances)

    def initial_latents(self, y: Array) -> Array:
        """Start of a Beta likelihood: the shapes with the mean and variance of y."""
        mean = float(np.mean(y))
        variance = max(float(np.var(y)), 1e-6 * mean * (1.0 - mean))
        total = max(mean * (1.0 - mean) / variance - 1.0, 0.1)
        return np.log(total * np.array([mean, 1.0 - mean]))


class BetaMeanPrecision(Family):
    """y ~ Beta(μφ, (1−μ)φ), μ = 1/(1 + e^{−f}), φ = e^g: latents logit_mean and log_precision.

    `Beta` at log α = g − softplus(−f), log β = g − softplus(f); var[y] = μ(1−μ)/(1+φ).
    """

    latents = ("logit_mean", "log_precision")
    support = "unit"
    scipy_name = "beta"
    node_limits = (0.05, 0.2)
    coupled = False  # Standard deviations of a mean-field q are at least 0.89 of the posterior's.

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return np.exp(g + log_expit(f)), np.exp(g + log_expit(np.negative(f)))

    def cdf(self, y: Array, f: Array, g: Array) -> Array:
        """The cdf of the Beta distribution by mean and precision, P(Y ≤ y | f, g)."""
        return _BETA.cdf(y, g + log_expit(f), g + log_expit(np.negative(f)))

    def log_tails(self, y: Array, f: Array, g: Array) -> tuple[Array, Array]:
        """Logarithms of cdf and 1 − cdf, those of `Beta` at the two shapes."""
        return _BETA.log_tails(y, g + log_expit(f), g + log_expit(np.negative(f)))

    def ppf(self, q: Array, f: Array, g: Array) -> Array:
        """Quantiles of the Beta distribution by mean and precision."""
        return _BETA.ppf(q, g + log_expit(f), g + log_expit(np.negative(f)))

    def conditional_mean(self, f: Array, g: Array) -> Array:
        """The mean μ itself, at every precision."""
        return np.broadcast_to(expit(f), np.broadcast_shapes(np.shape(f), np.shape(g)))

    def conditional_variance(self, f: Array, g: Array) -> Array:
        """The variance of a Beta distribution by mean and precision, μ (1 − μ)/(1 + φ)."""
        return expit(f) * expit(np.negative(f)) * expit(np.negative(g))

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The log-density of `Beta` at the two shapes."""
        return _BETA.log_density(y, g + log_expit(f), g + log_expit(np.negative(f)))

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of `Beta` by mean and precision: (1−μ) ∂_α − μ ∂_β and ∂_α + ∂_β."""
        da, db = _BETA.dlog_density(y, g + log_expit(f), g + log_expit(np.negative(f)))
        return expit(np.negative(f)) * da - expit(f) * db, da + db


_BETA = Beta()
