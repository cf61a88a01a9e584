"""Likelihoods of event times whose log is f + Z/k: log-logistic, Weibull and log-normal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import erfcx, log_ndtr, logit, ndtri

from ..data.rows import rows_of
from ..data.types import Keywords, Value
from ..expectations import quadrature, reduced, special
from ..expectations.forms import Form, Latents, OneForm
from . import observation
from .contract import Array, Arrays, Averages, Distribution, merged
from .family import Family
from .observation import EXACT, INTERVAL, LEFT, RIGHT, TINY
from .survival import Survival
from .wrappers.constant import ConstantLatent

NARROWEST = 1e-9  # A narrower interval of z has the probability density × width, to rounding.
CAP = 12.0  # The log-hazard of a standard Weibull time goes no higher; see `WeibullSurvival`.


class _LogScale(Survival):
    """Event times T with log T = f + Z/k, Z a standard variable, k = e^{±g}.

    A subclass gives Z and the sign.
    """

    infinite_mean = True  # E[T] diverges under a Gaussian g, whatever its variance
    scipy_name: ClassVar[str]
    _sign = 1.0

    _standard: Callable[[Array], tuple[Array, Array, Array]]
    """Of Z at z: the log-hazard, d log p(z)/dz and log P(Z > z); log p(z) is first plus third."""
    _log_below: Callable[[Array], Array]
    """The logarithm of the cdf of Z, log P(Z ≤ z)."""
    _quantile: Callable[[Array], Array]
    """The quantile function of Z."""

    def _k(self, g: Array) -> Array:
        return np.exp(np.clip(self._sign * np.asarray(g), -700.0, 700.0))

    def _z(self, t: Array, f: Array, g: Array) -> Array:
        log_t = np.where(np.greater(t, TINY), np.log(np.clip(t, TINY, 1e300)), -np.inf)
        return self._k(g) * (log_t - f)

    def distribution(self, f: Array, g: Array, **metadata: Value) -> Distribution:
        """The distribution of an event time in scipy.stats: all have shape e^g and scale e^f."""
        from scipy import stats  # slow to import

        return getattr(stats, self.scipy_name)(np.exp(g), 0.0, np.exp(f))

    natural_parameters = Family.natural_parameters
    sample = Survival._quantiles_at_random

    def log_hazard(self, t: Array, f: Array, g: Array) -> Array:
        """An event time's log-hazard, log k − log t + log p(z) − log S(z), z = k (log t − f)."""
        with np.errstate(over="ignore"):
            return self._sign * g - np.log(t) + self._standard(self._z(t, f, g))[0]

    def _log_event(self, t: Array, f: Array, g: Array) -> Array:
        with np.errstate(over="ignore"):
            return self._sign * g - np.log(t) + np.add(*self._standard(self._z(t, f, g))[::2])

    def log_survival(self, t: Array, f: Array, g: Array, **metadata: Value) -> Array:
        """The log-survival of an event time, log P(Z > z)."""
        with np.errstate(over="ignore"):
            return self._standard(self._z(t, f, g))[2]

    def log_cdf(self, t: Array, f: Array, g: Array, **metadata: Value) -> Array:
        """The log-cdf of an event time, log P(Z ≤ z)."""
        with np.errstate(over="ignore"):
            return self._log_below(self._z(t, f, g))

    def _log_between(self, low: Array, high: Array, *latents: Array, **kw: Value) -> Array:
        """The log-probability that an event time lies in an interval.

        It is the log of a difference of S, or of the cdf where log S is too close to 0.
        """
        end = self.log_survival(high, *latents)
        value = special.log_diff_exp(self.log_survival(low, *latents), end)
        lost = end > -1e-290
        if np.any(lost):
            log_cdf = self.log_cdf(high, *latents), self.log_cdf(low, *latents)
            value = np.where(lost, special.log_diff_exp(*log_cdf), value)
        width = self._width(low, high, latents[1])
        narrow = width < NARROWEST
        if not np.any(narrow):
            return value
        log_hazard, slope, log_survival = self._standard(self._z(high, *latents))
        with np.errstate(divide="ignore"):
            log_width = np.log(np.maximum(width, 0.0))  # an end before the start has probability 0
            here = log_hazard + log_survival + log_width - 0.5 * slope * width
        return np.where(narrow, here, value)

    def _width(self, low: Array, high: Array, g: Array) -> Array:
        """The width of an interval of event times, on the scale of the standard variable z."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return self._k(g) * np.log1p(np.subtract(high, low) / low)

    def cdf(self, y: Array, f: Array, g: Array, **metadata: Value) -> Array:
        """The cdf of an event time, P(T ≤ y)."""
        return np.exp(self.log_cdf(y, f, g))

    def ppf(self, q: Array, f: Array, g: Array, **metadata: Value) -> Array:
        """Quantiles of an event time, exp(f + Z(q)/k)."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            z = self._quantile(np.asarray(q, dtype=float))
            return np.exp(f + np.where(z == 0.0, 0.0, z / self._k(g)))

    def dlog_density(self, y: Array, f: Array, g: Array, **metadata: Value) -> Arrays:
        """Slopes of the log-density of event times, censored or truncated ones included.

        ∂ log p / ∂f = −k Σ u, ∂ log p / ∂g = ± (Σ u z + [exact]), u = ∂ log p / ∂z of each
        z.
        """
        code, entry = observation.codes(metadata.get("censored")), metadata.get("entry")
        with np.errstate(over="ignore", invalid="ignore"):
            z = self._z(y, f, g)
            log_hazard, slope = self._standard(z)[:2]
            right = np.where(code == RIGHT, -np.exp(log_hazard), 0.0)
            terms, density = [(z, np.where(code == EXACT, slope, right))], code == EXACT
            start = np.maximum(0.0 if entry is None else entry, TINY)
            if np.any(inner := (code == LEFT) | (code == INTERVAL)):
                given = metadata.get("y_upper")
                upper = y if np.all(code != INTERVAL) else observation.upper_ends(given)
                low, high = np.where(code == LEFT, start, y), np.where(code == LEFT, y, upper)
                total = self._log_between(low, high, f, g)
                narrow = inner & (self._width(low, high, g) < NARROWEST)
                for t, sign in ((high, 1.0), (low, -1.0)):
                    z = self._z(t, f, g)
                    log_hazard, slope, log_survival = self._standard(z)
                    u = sign * np.exp(special.minus(log_hazard + log_survival, total))
                    u = np.where(narrow, 0.5 * slope, u)
                    terms.append((z, np.where(inner, u, 0.0)))
                density = density | narrow
            if entry is not None:
                z = self._z(start, f, g)
                terms.append((z, np.exp(self._standard(z)[0])))
            df = -self._k(g) * sum(u for _, u in terms)
            dg = sum(np.where(u == 0.0, 0.0, u * z) for z, u in terms)
        return df, self._sign * (dg + density)

    def _by_hazard(
        self,
        hazard: Callable[..., reduced.Moments],
        y: Array,
        q: Latents,
        nodes: int,
        metadata: Keywords,
    ) -> tuple[Array, Form]:
        """Widths of intervals, and E[log p] of event times from a cumulative hazard of z.

        E[log p] is exact in f; k = e^g.

        See `observation.hazard_terms` and `reduced.expected_hazard_sum`.
        """
        exact, terms, width = observation.hazard_terms(y, **metadata)
        f, g = zip(q.means, q.variances, strict=True)
        c = None if q.covariances is None else q.covariances[0, 1]
        total = reduced.expected_hazard_sum(hazard, terms, f, g, c, nodes)
        total[0] += exact * (q.means[1] - np.log(y))
        total[3] += exact
        return width, Form(total[0], total[1:4:2], total[2:5:2], total[5:])

    def node_score(self, y: Array, means: Array, variances: Array, **metadata: Value) -> Array:
        """An event time's spread for nodes: the variance of z, more where e^z is large."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        z = np.clip(self._z(y, m_f, m_g), -1e3, 1e3)
        with np.errstate(over="ignore"):
            spread = v_f * self._k(m_g) ** 2 * np.exp(2.0 * v_g) + v_g * (1.0 + z * z)
            return spread * np.exp(np.maximum(z, 0.0) / 3.0)


class LogLogisticSurvival(OneForm, _LogScale):
    """T ~ log-logistic with scale = median e^f and shape e^g: latents log_median f, log_shape g.

    With a(t) = e^g (log t − f): S(t) = 1/(1 + e^a), and for a row at y with metadata of `Survival`

        exact     g − log y − softplus(a) − softplus(−a)
        right     −softplus(a)
        left      −softplus(−a)                            (given entry: + log(1 − e^{−u}))
        interval  −softplus(a) − softplus(−a_upper) + log(1 − e^{−u})

    and + softplus(a_entry) for truncation, where u = e^g log(upper/lower) has no f in it. So in
    every case f, being Gaussian, is integrated exactly (`reduced.expected_hazard_sum`), and only
    g by Gauss–Hermite nodes.
    """

    latents = ("log_median", "log_shape")
    coupled = False  # Standard deviations of a mean-field q are at least 0.92 of the posterior's.
    quadrature_latent = "log_shape"
    scipy_name = "fisk"
    node_limits = (0.075, 0.2, 0.42, 0.88, 1.55, 2.5, 3.5)

    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        tail = np.log1p(np.exp(-np.abs(z)))
        return np.minimum(z, 0.0) - tail, -np.tanh(0.5 * z), np.minimum(-z, 0.0) - tail

    def _log_below(self, z: Array) -> Array:
        return -special.softplus(-z)

    def _quantile(self, q: Array) -> Array:
        return logit(q)

    def _form(self, y: Array, q: Latents, nodes: int, **metadata: Value) -> Form:
        """E[log p] of a log-logistic time, exact in f given g, `nodes` in g."""
        width, form = self._by_hazard(reduced.logistic_hazard, y, q, nodes, metadata)
        wide = np.flatnonzero(np.isfinite(width))
        if wide.size:  # an empty interval has probability 0, not NaN
            log_width = np.log(np.maximum(width[wide], TINY))
            g = log_width + q.means[1, wide], q.variances[1, wide]
            parts = reduced.expected_of_exp(special.log1mexp_of_exp, *g, nodes)
            for target, part in zip(
                (form.value, form.dmeans[1], form.dvariances[1]), parts, strict=True
            ):
                target[wide] += part
        return form

    def conditional_mean(self, f: Array, g: Array, **metadata: Value) -> Array:
        """Log-logistic mean e^f b/sin b, b = π e^{−g}; infinite for a shape of 1 or less."""
        return np.exp(f) * special.log_logistic_moments(g)[0]

    def conditional_variance(self, f: Array, g: Array, **metadata: Value) -> Array:
        """The variance of a log-logistic time, e^{2f} b (tan b − b)/sin² b, b = π e^{−g}.

        It is infinite for a shape of 2 or less.
        """
        return np.exp(2.0 * np.asarray(f)) * special.log_logistic_moments(g)[1]

    def node_score(self, y: Array, means: Array, variances: Array, **metadata: Value) -> Array:
        """The spread of a log-logistic log-shape, v_g, decides on nodes: f has none."""
        return variances[:, 1]

    def joint_node_score(
        self, y: Array, means: Array, covariances: Array, **metadata: Value
    ) -> Array:
        """Log-logistic v_g for nodes, larger the more f moves with g, in widths π e^{−g}."""
        sd = np.sqrt(covariances[:, 1, 1])
        log_width2 = 2.0 * (np.log(np.pi) - means[:, 1] - 2.0 * sd)
        return (sd + 1.5 * reduced.lean(covariances, log_width2)) ** 2


class LogLogistic(ConstantLatent):
    """T ~ log-logistic with median e^f and the constant log_shape; any censoring.

    `LogLogisticSurvival().with_constant("log_shape")`; the expectation is exact.
    """

    def __init__(self, name: str | None = None, *, log_shape: float | None = None) -> None:
        super().__init__(LogLogisticSurvival(), "log_shape", log_shape, name=name)


class WeibullSurvival(OneForm, _LogScale):
    """T ~ Weibull with scale e^f and shape e^g: log S(t) = −(t e^{−f})^{e^g}, log_scale f.

    log p = g − log t + z − e^z, z = e^g (log t − f); latents log_scale f and log_shape g, any
    censoring. The median is e^f (log 2)^{e^{−g}}.

    E[e^z] is infinite for a Gaussian log-shape. So the cumulative hazard e^z goes on as a straight
    line in z from z = 12 on, where S < e^{−160,000}: still a distribution, with a finite bound.

    For exact and right-censored rows f is integrated exactly and only g by Gauss–Hermite nodes;
    rows known to an interval need nodes in both.
    """

    latents = ("log_scale", "log_shape")
    scipy_name = "weibull_min"
    coupled = False  # Standard deviations of a mean-field q are at least 0.90 of the posterior's.
    node_limits = (0.0, 0.2)

    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        capped = np.minimum(z, CAP)
        slope = np.exp(capped)
        return capped, (z < CAP) - slope, -slope * (1.0 + np.maximum(z - CAP, 0.0))

    def _log_below(self, z: Array) -> Array:
        return np.where(z < -36.0, z, special.log1mexp(self._standard(z)[2]))

    def _averages(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **metadata: Value
    ) -> Averages:
        """E[log p] of a Weibull time, exact in f for all rows but those of an interval."""
        in_interval, parts = self._in_interval(y, metadata), []
        if not in_interval.any():
            return super()._averages(y, means, variances, nodes=nodes, **metadata)
        for wanted, method in ((in_interval, self._quadrature), (~in_interval, super()._averages)):
            rows = np.flatnonzero(wanted)
            kw = rows_of(metadata, rows)
            found = method(y[rows], means[rows], variances[rows], nodes=nodes, **kw)
            parts.append((rows, found))
        return merged(parts)

    def _form(self, y: Array, q: Latents, nodes: int, **metadata: Value) -> Form:
        """E[log p] of exact and right-censored Weibull times: exact in f, `nodes` in g."""
        hazard = partial(reduced.gumbel_hazard, cap=CAP)
        return self._by_hazard(hazard, y, q, nodes, metadata)[1]

    def _in_interval(self, y: Array, metadata: Keywords) -> Array:
        """Rows (n,) of event times left-censored, or known to an interval that ends."""
        code = observation.codes(metadata.get("censored")) + np.zeros(len(y))
        interval = code == INTERVAL
        if interval.any():
            interval &= np.isfinite(observation.upper_ends(metadata.get("y_upper")))
        return (code == LEFT) | interval

    def node_score(self, y: Array, means: Array, variances: Array, **metadata: Value) -> Array:
        """The spread that decides on nodes of a Weibull time.

        It is that of z; where f is integrated exactly, that of log E_f[e^z] in g alone.
        """
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        z = np.clip(self._z(y, m_f, m_g), -1e3, 1e3)
        spread = np.minimum(v_f * self._k(m_g) ** 2, 1e3)
        size = np.exp(np.maximum(z + 0.5 * spread, 0.0) / 3.0)
        alone = v_g * (1.0 + (z + spread) ** 2) * size
        both = super().node_score(y, means, variances, **metadata)
        return np.where(self._in_interval(y, metadata), both, alone)

    def joint_node_score(
        self, y: Array, means: Array, covariances: Array, **metadata: Value
    ) -> Array:
        """The spread for nodes of a Weibull time under correlated f and g.

        It is the larger of that of wider variances and that of z where f moves with g.
        """
        wide = quadrature.widened(covariances)
        v_f, v_g = np.einsum("njj->jn", covariances)
        c = covariances[:, 0, 1]
        moved = np.minimum(c * c / np.maximum(v_g, quadrature.VARIANCE_FLOOR), v_f)
        moved = np.stack([moved, wide[:, 1]], axis=1)
        both = super().node_score(y, means, moved, **metadata)
        return np.maximum(both, self.node_score(y, means, wide, **metadata))

    def _quantile(self, q: Array) -> Array:
        return np.log(-np.log1p(-q))


class LogNormalSurvival(_LogScale):
    """log T ~ N(f, e^{2g}): latents log_median f and log_sigma g, **standard deviation** e^g.

    log p = −½ log 2π − g − log t − ½ z², z = e^{−g} (log t − f); any censoring.
    """

    latents = ("log_median", "log_sigma")
    scipy_name = "lognorm"
    node_limits = (0.0, 0.2)
    coupled = False  # Standard deviations of a mean-field q are at least 0.85 of the posterior's.
    _sign = -1.0

    def _standard(self, z: Array) -> tuple[Array, Array, Array]:
        far = -np.log(erfcx(np.maximum(z, 0.0) * np.sqrt(0.5)) * np.sqrt(0.5 * np.pi))
        near = -0.5 * (z * z + special.LOG_2PI) - log_ndtr(-z)
        return np.where(z > 0.0, far, near), -z, log_ndtr(-z)

    def _log_below(self, z: Array) -> Array:
        return log_ndtr(z)

    def _quantile(self, q: Array) -> Array:
        return ndtri(q)
