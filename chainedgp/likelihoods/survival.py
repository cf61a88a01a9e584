"""Times to an event, censored in every way, and the log-logistic family."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit

from .. import quadrature, special
from ..errors import InputError
from . import levels
from .base import Array, Arrays, FourArrays, Likelihood
from .wrappers import ConstantLatent

__all__ = ["LogLogistic", "LogLogisticSurvival", "Survival"]

EXACT, RIGHT, LEFT, INTERVAL = 0, 1, -1, 2
"""Codes of the metadata `censored`."""

Metadata = Array | None
TINY = np.finfo(float).tiny


class Survival(Likelihood):
    """A positive time T given by its log-hazard log h and log-survival log S; any censoring.

    An author writes `log_survival` (or `cdf`) and `log_hazard`, or `distribution`. With the
    metadata `censored` (0 exact, 1 right, −1 left, 2 interval (y, y_upper]) and `entry` (left
    truncation: the row is known only because T > entry) the density of a row is

        exact     h(y) S(y) / S(entry)
        right     S(y) / S(entry)
        left      (S(entry) − S(y)) / S(entry)
        interval  (S(y) − S(y_upper)) / S(entry)

    all in log space, differences taken in the smaller of the two tails. Moments, cdf, ppf and
    samples are those of T itself: metadata do not enter them.
    """

    support = "positive"

    def log_hazard(self, t: Array, *latents: Array, **kw: Any) -> Array:
        """The log-hazard, log p(t) − log S(t), broadcast shape. Default: by `distribution`."""
        if type(self).distribution is Likelihood.distribution:
            raise NotImplementedError(f"{type(self).__name__} must define log_hazard(t, *latents).")
        frozen = self.distribution(*latents, **kw)
        return _minus(frozen.logpdf(t), frozen.logsf(t))

    def log_survival(self, t: Array, *latents: Array, **kw: Any) -> Array:
        """The log-survival log S(t) = log P(T > t), broadcast shape. Default: log(1 − cdf)."""
        if type(self).cdf is Survival.cdf:
            raise NotImplementedError(f"{type(self).__name__} must define log_survival or cdf.")
        with np.errstate(divide="ignore"):
            return np.log1p(-self.cdf(t, *latents, **kw))

    def log_cdf(self, t: Array, *latents: Array, **kw: Any) -> Array:
        """The log-cdf log P(T ≤ t), broadcast shape. Default: log(1 − S), stable at both ends."""
        return special.log1mexp(np.minimum(self.log_survival(t, *latents, **kw), 0.0))

    def cdf(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """P(T ≤ y | latents), without metadata."""
        return -np.expm1(self.log_survival(y, *latents, **_without_metadata(kw)))

    def log_density(
        self,
        y: Array,
        *latents: Array,
        censored: Metadata = None,
        y_upper: Metadata = None,
        entry: Metadata = None,
        **kw: Any,
    ) -> Array:
        """log-density of an exact row, log-probability of a censored one; broadcast shape."""
        code = _codes(censored)
        value: Any = 0.0
        if np.any(code == EXACT):
            value = self._log_event(y, *latents, **kw)
        if np.any(code != EXACT):
            value = np.where(code == EXACT, value, self.log_survival(y, *latents, **kw))
        start = np.maximum(0.0 if entry is None else entry, np.finfo(float).tiny)
        if np.any(code == LEFT):
            value = np.where(code == LEFT, self._log_between(start, y, *latents, **kw), value)
        if np.any(code == INTERVAL):
            upper = np.where(code == INTERVAL, _required(y_upper), np.inf)
            value = np.where(code == INTERVAL, self._log_between(y, upper, *latents, **kw), value)
        return value if entry is None else _minus(value, self.log_survival(start, *latents, **kw))

    def _log_event(self, t: Array, *latents: Array, **kw: Any) -> Array:
        """The log-density of T, log h + log S."""
        low = self.log_survival(t, *latents, **kw)
        return _minus(low, -self.log_hazard(t, *latents, **kw))

    def _log_between(self, low: Array, high: Array, *latents: Array, **kw: Any) -> Array:
        """The logarithm of P(low < T ≤ high), taken in the smaller of the two tails."""
        survival = self.log_survival(low, *latents, **kw)
        upper = special.log_diff_exp(survival, self.log_survival(high, *latents, **kw))
        lower = special.log_diff_exp(
            self.log_cdf(high, *latents, **kw), self.log_cdf(low, *latents, **kw)
        )
        return np.where(survival < -np.log(2.0), upper, lower)


def _minus(a: Array, b: Array) -> Array:
    """a − b, −inf where a is, whatever b."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a), -np.inf, a - b)


def _without_metadata(kw: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kw.items() if k not in ("censored", "y_upper", "entry")}


def _codes(censored: Metadata) -> Array:
    """The codes as an array, 0 for None; InputError for a code that does not exist."""
    code = np.zeros(()) if censored is None else np.asarray(censored)
    known = (code == EXACT) | (code == RIGHT) | (code == LEFT) | (code == INTERVAL)
    if not np.all(known):
        wrong = code[~known].flat[0] if code.ndim else code
        raise InputError(
            f"censored must be 0 (exact), 1 (right), -1 (left) or 2 (interval); got {wrong}."
        )
    return code


def _required(y_upper: Metadata) -> Array:
    if y_upper is None:
        raise InputError("Rows with censored = 2 need Y_metadata['y_upper'], the interval's end.")
    return y_upper


class _LogScale(Survival):
    """log T = f + Z/k, Z a standard variable, k = e^{±g}. A subclass gives Z and the sign."""

    _sign = 1.0

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """Of Z: log p(z), its derivative, log P(Z > z), log P(Z ≤ z)."""
        raise NotImplementedError

    def _z(self, t: Array, f: Array, g: Array) -> Array:
        log_t = np.where(np.greater(t, 0.0), np.log(np.clip(t, TINY, 1e300)), -np.inf)
        return np.exp(np.clip(self._sign * np.asarray(g), -700.0, 700.0)) * (log_t - f)

    def log_hazard(self, t: Array, f: Array, g: Array) -> Array:
        """The log-hazard, log k − log t + log p(z) − log S(z), z = k (log t − f)."""
        return _minus(self._log_event(t, f, g), self.log_survival(t, f, g))

    def _log_event(self, t: Array, f: Array, g: Array) -> Array:
        with np.errstate(over="ignore"):
            return self._sign * g - np.log(t) + self._standard(self._z(t, f, g))[0]

    def log_survival(self, t: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """The log-survival, log P(Z > z)."""
        with np.errstate(over="ignore"):
            return self._standard(self._z(t, f, g))[2]

    def log_cdf(self, t: Array, f: Array, g: Array) -> Array:
        """The log-cdf, log P(Z ≤ z)."""
        with np.errstate(over="ignore"):
            return self._standard(self._z(t, f, g))[3]

    def dlog_density(
        self,
        y: Array,
        f: Array,
        g: Array,
        *,
        censored: Metadata = None,
        y_upper: Metadata = None,
        entry: Metadata = None,
    ) -> Arrays:
        """∂ log p / ∂f = −k Σ u, ∂ log p / ∂g = ± (Σ u z + [exact]), u = ∂ log p / ∂z of each z."""
        code = _codes(censored)
        with np.errstate(over="ignore", invalid="ignore"):
            z = self._z(y, f, g)
            log_p, slope, log_survival, _ = self._standard(z)
            hazard = -np.exp(_minus(log_p, log_survival))
            terms = [(z, np.where(code == EXACT, slope, np.where(code == RIGHT, hazard, 0.0)))]
            start = np.maximum(0.0 if entry is None else entry, TINY)
            if np.any(inner := (code == LEFT) | (code == INTERVAL)):
                upper = y if y_upper is None and np.all(code != INTERVAL) else _required(y_upper)
                low, high = np.where(code == LEFT, start, y), np.where(code == LEFT, y, upper)
                total = self._log_between(low, high, f, g)
                for t, sign in ((high, 1.0), (low, -1.0)):
                    z = self._z(t, f, g)
                    u = sign * np.exp(_minus(self._standard(z)[0], total))
                    terms.append((z, np.where(inner, u, 0.0)))
            if entry is not None:
                z = self._z(start, f, g)
                log_p, _, log_survival, _ = self._standard(z)
                terms.append((z, np.exp(_minus(log_p, log_survival))))
            k = np.exp(np.clip(self._sign * np.asarray(g), -700.0, 700.0))
            df = -k * sum(u for _, u in terms)
            dg = sum(np.where(u == 0.0, 0.0, u * z) for z, u in terms)
        return df, self._sign * (dg + (code == EXACT))


class LogLogisticSurvival(_LogScale):
    """T ~ log-logistic with scale = median e^f and shape e^g.

    With a(t) = e^g (log t − f): S(t) = 1/(1 + e^a), and for a row at y with metadata of `Survival`

        exact     g − log y − softplus(a) − softplus(−a)
        right     −softplus(a)
        left      −softplus(−a)                            (given entry: + log(1 − e^{−u}))
        interval  −softplus(a) − softplus(−a_upper) + log(1 − e^{−u})

    and + softplus(a_entry) for truncation, where u = e^g log(upper/lower) has no f in it. So in
    every case f, being Gaussian, is integrated exactly (`special.expected_softplus`), and only g
    by Gauss–Hermite nodes.
    """

    latents = ("log_median", "log_shape")
    quadrature_latent = "log_shape"
    infinite_mean = True  # E[y] needs a shape above 1; a Gaussian log-shape is below 0 sometimes

    log_density = Survival.log_density

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        tail = np.log1p(np.exp(-np.abs(z)))
        above, below = np.minimum(-z, 0.0) - tail, np.minimum(z, 0.0) - tail
        return above + below, -np.tanh(0.5 * z), above, below

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **metadata: Metadata
    ) -> FourArrays:
        """E[log p], exact in f, `nodes` Gauss–Hermite nodes in g; shapes as in `Likelihood`."""
        rows = _Rows(y, **metadata)
        x, w = quadrature.gauss_hermite(nodes)
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        sd = np.sqrt(np.maximum(v_g, quadrature.VARIANCE_FLOOR))
        shape = np.exp(m_g + sd * x[:, None])  # e^g at the nodes (h, n)
        at_node, slope_g, _ = rows.width_terms(shape)
        slope_g = slope_g + np.zeros_like(shape)
        value = rows.exact * (m_g - rows.log_y) + w @ (at_node + np.zeros_like(shape))
        dmeans, dvariances = np.zeros((2, y.size)), np.zeros((2, y.size))
        for above, below, log_t in rows.terms:
            used = np.flatnonzero(above + below)
            above, below, e = above[used], below[used], shape[:, used]
            mu, spread = e * (log_t - m_f)[used], e * e * v_f[used]
            term, dmu, dspread = special.expected_softplus(mu, spread, terms=12)
            # softplus(−a) = softplus(a) − a
            value[used] += (above + below) * (w @ term) - below * (w @ mu)
            dmu *= above + below
            dmu -= below
            dspread *= above + below
            dmeans[0, used] -= w @ (dmu * e)
            dvariances[0, used] += w @ (dspread * e * e)
            slope_g[:, used] += dmu * mu + 2.0 * dspread * spread
        dmeans[1] = rows.exact + w @ slope_g
        dvariances[1] = (w * x) @ slope_g * (0.5 / sd)
        return value, dmeans.T, dvariances.T, np.empty((y.size, 0))

    def conditional_mean(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """e^f b/sin b, b = π e^{−g}; infinite for a shape of 1 or less."""
        with np.errstate(over="ignore"):
            inverse = np.exp(-np.asarray(g))
        finite = inverse < 1.0
        return np.exp(f) * np.where(finite, 1.0 / np.sinc(np.where(finite, inverse, 0.0)), np.inf)

    def conditional_variance(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """e^{2f} b (tan b − b)/sin² b, b = π e^{−g}; infinite for a shape of 2 or less."""
        with np.errstate(over="ignore"):
            b = np.pi * np.exp(-np.asarray(g))
        finite = b < 0.5 * np.pi
        b = np.where(finite, b, 0.1)
        square = b * b
        small = square / 3.0 * (1.0 + square * (2.0 / 5.0 + square * 17.0 / 105.0))
        excess = np.where(b < 0.02, small, np.tan(b) / np.maximum(b, 1e-300) - 1.0)
        return np.exp(2.0 * np.asarray(f)) * np.where(
            finite, excess / np.sinc(b / np.pi) ** 2, np.inf
        )

    def cdf(self, y: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """P(T ≤ y) = 1/(1 + e^{−a})."""
        return expit(self._z(y, f, g))

    def ppf(self, q: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """Quantiles, exp(f + e^{−g} logit q)."""
        with np.errstate(over="ignore", invalid="ignore"):
            shift = np.exp(-np.asarray(g)) * logit(q)
            return np.exp(f + np.where(np.equal(q, 0.5), 0.0, shift))

    def natural_parameters(self, f: Array, g: Array, **metadata: Metadata) -> dict[str, Array]:
        """Median and shape."""
        return {"median": np.exp(f), "shape": np.exp(g)}

    def required_nodes(
        self, y: Array, means: Array, variances: Array, **metadata: Metadata
    ) -> Array:
        """Nodes in g for about 1e-6: set by v_g, because f is integrated exactly."""
        return levels.choose(variances[:, 1], _LIMITS)[0]

    def unmet(self, y: Array, means: Array, variances: Array, **metadata: Metadata) -> Array:
        """Rows where v_g is too large for the last level."""
        return levels.choose(variances[:, 1], _LIMITS)[1]


class LogLogistic(ConstantLatent):
    """T ~ log-logistic with median e^f and the constant log_shape; any censoring.

    `LogLogisticSurvival().with_constant("log_shape")`; the expectation is exact.
    """

    def __init__(self, name: str | None = None, *, log_shape: float | None = None) -> None:
        super().__init__(LogLogisticSurvival(), "log_shape", log_shape, name=name)


# v_g at which the sum over g is off by 1e-6, for each of quadrature.LEVELS
_LIMITS = (0.2, 0.42, 0.88, 1.55, 2.5, 3.5)


class _Rows:
    """What the metadata of log-logistic rows make of them: coefficients, all of the shape of y.

    exact : 1 for exact rows, else 0
    terms : (above, below, log t): above · softplus(a) + below · softplus(−a), a = e^g (log t − f)
    width : log(upper/lower) of rows whose probability is that of an interval, or None
    """

    def __init__(
        self, y: Array, censored: Metadata = None, y_upper: Metadata = None, entry: Metadata = None
    ) -> None:
        self.log_y = np.log(y)
        code = _codes(censored) + np.zeros_like(self.log_y)
        left, interval = code == LEFT, code == INTERVAL
        self.exact = (code == EXACT).astype(float)
        self.terms = [(np.where(left, 0.0, -1.0), -self.exact - left, self.log_y)]
        width = np.zeros_like(self.log_y)
        if interval.any():
            upper = _required(y_upper)
            interval = interval & np.isfinite(upper)  # else right-censored
            log_upper = np.log(np.where(interval, upper, 1.0))
            width = np.where(interval, log_upper - self.log_y, width)
            self.terms.append((np.zeros_like(width), -1.0 * interval, log_upper))
        self.wide = interval
        if entry is not None:
            entered = np.asarray(entry) + np.zeros_like(self.log_y) > 0.0
            log_entry = np.log(np.where(entered, entry, 1.0))
            width = np.where(left & entered, self.log_y - log_entry, width)
            self.wide = interval | (left & entered)
            self.terms.append((1.0 * (entered & ~left), np.zeros_like(width), log_entry))
        # an empty interval has probability 0, not NaN
        self.width = np.maximum(width, 0.0) if self.wide.any() else None

    def width_terms(self, shape: Array) -> tuple[Any, Any, Any]:
        """log(1 − e^{−u}), u = e^g width, with two derivatives in g, for shape = e^g."""
        if self.width is None:
            return 0.0, 0.0, 0.0
        u = shape * np.where(self.wide, self.width, 1.0)
        with np.errstate(over="ignore"):
            ratio = np.where(u > 0.0, u / np.expm1(np.maximum(u, 1e-300)), 1.0)
        second = ratio * (1.0 - u - ratio)
        value, ratio, second = (
            np.where(self.wide, t, 0.0) for t in (special.log1mexp(-u), ratio, second)
        )
        return value, ratio, second
