"""Likelihoods of extremes: block maxima (GEV) and excesses over a threshold (Pareto).

Both have the reduced variate w of `expectations.extremes`, which is exact up to a probability of
1 − e^{−14} and then goes on smoothly, so that no latent makes a target impossible.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy.special import gamma

from ..data.names import checks_names
from ..data.types import Keywords, Value
from ..errors import InputError
from ..expectations import extremes, quadrature, special
from ..parameters.priors import Normal
from .contract import Array, Arrays, Averages, Likelihood
from .support import Above

CAP = extremes.BOTTOM
"""Below a reduced variate of w = −CAP, −log F = e^{−w} of a GEV goes on as a straight line in w."""
FIRST, LAST = -0.1, 0.2
"""A fit starts the shape ξ between these. The shape of all targets taken together is not to be
trusted further: it mixes places whose location and scale differ."""
SHAPE_PRIOR = Normal(0.0, 0.25)
"""The default prior of ξ: shapes of measured extremes are between −½ and ½ nearly always, and few
targets say little of theirs."""


class _Extreme(Likelihood):
    """A likelihood of extremes: y = location + e^g z(w), w a standard variable, z of shape ξ."""

    shaped: ClassVar[bool] = False
    """Whether the last latent is that of the shape ξ; else the shape is a parameter."""

    def _place(self, latents: Arrays) -> tuple[Any, Arrays]:
        """The location of an extreme, and the latents other than it."""
        raise NotImplementedError

    def _standard(self, w: Array) -> tuple[Array, Array]:
        """log p(w) of the standard variable of extremes, and its derivative."""
        raise NotImplementedError

    def _tails(self, w: Array) -> tuple[Array, Array]:
        """Log-tails of the standard variable of extremes, log P(W ≤ w) and log P(W > w)."""
        raise NotImplementedError

    def _quantile(self, q: Array) -> Array:
        """The quantile of the standard variable of extremes, the w with P(W ≤ w) = q."""
        raise NotImplementedError

    def _moments(self, xi: Array) -> tuple[Array, Array]:
        """Mean and variance of the standardised extreme z."""
        raise NotImplementedError

    def _law(self, latents: Arrays, kw: Keywords) -> tuple[Any, Array, Array, Array]:
        """Location, log-scale g, shape ξ of an extreme, dξ/dh of its latent (1 for a parameter)."""
        location, (g, *rest) = self._place(latents)
        xi, slope = extremes.linked_shape(rest[0]) if self.shaped else (kw["shape"], 1.0)
        return location, np.asarray(g), np.asarray(xi, dtype=float), np.asarray(slope)

    def _variate(self, y: Array, latents: Arrays, kw: Keywords) -> extremes.Variate:
        """The reduced variate w of extremes y."""
        location, g, xi, _ = self._law(latents, kw)
        with np.errstate(over="ignore"):
            return extremes.variate((y - location) * np.exp(-np.clip(g, -700.0, 700.0)), xi)

    def _all(self, y: Array, latents: Arrays, kw: Keywords) -> Iterator[Array]:
        """log p of an extreme, its slopes in latents, then in a constant ξ; each when asked for.

        With P = ∂ log p/∂z they are −P e^{−g} in a location, −1 − zP in g, ∂ log p/∂ξ · dξ/dh in h.
        """
        location, g, xi, slope = self._law(latents, kw)
        inverse = np.exp(-np.clip(g, -700.0, 700.0))
        with np.errstate(over="ignore"):
            z = np.clip((y - location) * inverse, -extremes.FARTHEST, extremes.FARTHEST)
        v = extremes.variate(z, xi)
        log_p, pull = self._standard(v.w)
        yield log_p + v.log_s - g
        P = pull * v.s + v.dlog_s
        if self._located:
            yield -P * inverse
        yield -1.0 - z * P
        dw, dlog_s = v.in_shape()
        yield (pull * dw + dlog_s) * slope

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The log-density of extremes, −g + log p(w) + log dw/dz."""
        return next(self._all(y, latents, kw))

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of extremes in location, g and the latent of ξ, as far as they are latents."""
        return tuple(islice(self._all(y, latents, kw), 1, 1 + len(self.latents)))

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """The slope of the log-density of extremes in a constant shape ξ."""
        return tuple(islice(self._all(y, latents, kw), 1 + len(self.latents), None))

    def _quadrature(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] of extremes by quadrature; density and slopes come from one variate."""
        kept: list[Array] = []

        def log_p(rows: slice, *latents: Array) -> Array:
            kept[:] = self._all(y[rows], latents, kw)
            return kept[0]

        def dlog_p(rows: slice, *latents: Array) -> Arrays:
            return tuple(kept[1:])

        rule, extra = quadrature.rule_for(means.shape[1], nodes), len(self.parameter_keys)
        return quadrature.expectation(log_p, dlog_p, means, variances, rule, extra)

    @property
    def _located(self) -> bool:
        return "location" in self.latents

    def cdf(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The cdf of extremes, P(W ≤ w(y))."""
        return np.exp(self.log_tails(y, *latents, **kw)[0])

    def log_tails(self, y: Array, *latents: Array, **kw: Value) -> tuple[Array, Array]:
        """Log-tails of extremes, log P(W ≤ w(y)) and log P(W > w(y))."""
        return self._tails(self._variate(y, latents, kw).w)

    def ppf(self, q: Array, *latents: Array, **kw: Value) -> Array:
        """Quantiles of extremes, location + e^g z(w) at the quantile w."""
        location, g, xi, _ = self._law(latents, kw)
        z = extremes.quantile(self._quantile(np.asarray(q, dtype=float)), xi)
        return location + special.scaled(g, z)

    def quantile_slopes(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """How a quantile y of extremes moves with each latent.

        The slopes are 1 in a location, y − location in g, and −e^g (∂w/∂h)/(∂w/∂z) in the latent
        of ξ.
        """
        location, g, _, slope = self._law(latents, kw)
        slopes = [np.ones(())] if self._located else []
        slopes.append(y - location)
        if self.shaped:
            v = self._variate(y, latents, kw)
            with np.errstate(all="ignore"):
                moved = v.in_shape()[0] / v.s
            slopes.append(special.scaled(g, -slope * np.where(np.isnan(moved), 0.0, moved)))
        return tuple(slopes)

    def conditional_mean(self, *latents: Array, **kw: Value) -> Array:
        """The mean of an extreme, location + e^g E[z]."""
        location, g, xi, _ = self._law(latents, kw)
        return location + special.scaled(g, self._moments(xi)[0])

    def conditional_variance(self, *latents: Array, **kw: Value) -> Array:
        """The variance of an extreme, e^{2g} var[z]; infinite for a shape of ½ or more."""
        location, g, xi, _ = self._law(latents, kw)
        return special.scaled(2.0 * g, self._moments(xi)[1]) + np.zeros_like(location)

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """Location and scale e^g of extremes and, where it is a latent, the shape ξ."""
        location, g, xi, _ = self._law(latents, kw)
        named = {"location": np.asarray(location)} if self._located else {}
        shape = {"shape": xi} if self.shaped else {}
        return {**named, "scale": np.exp(g), **shape}


class _Maximum(_Extreme):
    """Block maxima: w is a Gumbel variable, P(W ≤ w) = exp(−e^{−w})."""

    coupled = True  # The sd of the log-scale under a mean-field q is 0.85 of the posterior's.

    def _place(self, latents: Arrays) -> tuple[Any, Arrays]:
        return latents[0], latents[1:]

    def _standard(self, w: Array) -> tuple[Array, Array]:
        a = np.negative(w)
        capped = np.minimum(a, CAP)
        hazard = np.exp(capped)
        return capped - hazard * (1.0 + a - capped), hazard - (a < CAP)

    def _tails(self, w: Array) -> tuple[Array, Array]:
        a = np.negative(w)
        capped = np.minimum(a, CAP)
        log_cdf = -np.exp(capped) * (1.0 + a - capped)
        return log_cdf, np.where(w > 36.0, a, special.log1mexp(log_cdf))

    def _quantile(self, q: Array) -> Array:
        top = np.exp(CAP)
        with np.errstate(divide="ignore"):
            total = -np.log(q)  # It is e^{−w}, or e^CAP (1 − w − CAP) on the straight line.
            return np.where(total < top, -np.log(np.minimum(total, top)), 1.0 - CAP - total / top)

    def _moments(self, xi: Array) -> tuple[Array, Array]:
        return extremes.gev_moments(xi)


class GEV(_Maximum):
    """y ~ generalised extreme value with location f, **scale** e^g and a constant shape ξ.

    The distribution of the largest value of a block, such as the highest flood of a year:

        P(Y ≤ y) = exp(−(1 + ξz)^{−1/ξ}),    z = (y − f) e^{−g},

    and exp(−e^{−z}), the Gumbel distribution, for ξ = 0. The upper tail is heavy for ξ > 0 and ends
    for ξ < 0. In scipy.stats.genextreme c = −ξ. For smallest values give −y.

    The parameter `shape` is ξ, learnt between −½ and 1, with a prior N(0, 0.25²) in models with
    default priors. `GEVShape` has it as a third latent.

    The support ends where 1 + ξz = 0, which moves with f and g. So that no target is impossible,
    w = log(1 + ξz)/ξ, of which P(Y ≤ y) = exp(−e^{−w}), is exact from w = −4 on, for ξ < 0 up to
    w = 14, and goes on from there as a polynomial of degree 2; below w = −4, e^{−w} goes on as a
    straight line. That is a distribution, too. The exact one has a probability of e^{−14} = 8e-7
    above w = 14, and of 2e-24 below w = −4.

    Parameters
    ----------
    shape : where ξ starts; None: where L-moments of the targets put it.
    """

    latents = ("location", "log_scale")
    parameters = {"shape": 0.1}
    domains = {"shape": "tail_shape"}
    default_priors = {"shape": SHAPE_PRIOR}

    @checks_names
    def __init__(self, name: str | None = None, *, shape: float | None = None) -> None:
        self._open = shape is None
        super().__init__(name, **({} if shape is None else {"shape": shape}))

    def initial_latents(self, y: Array, *, shape: float) -> Array:
        """Start of a GEV fit: location and log-scale by L-moments at the shape."""
        return np.array(_gev_start(y, shape))

    def initial_parameters(self, y: Array, *, shape: float) -> dict[str, float]:
        """Start of the GEV shape by L-moments, from −0.1 to 0.2, if no value was given."""
        return {"shape": _gev_shape(y)} if self._open else {}


class GEVShape(_Maximum):
    """y ~ generalised extreme value with location f, **scale** e^g and a shape that varies.

    `GEV` with a third latent, logit_shape h, in the place of its parameter:

        ξ = −½ + (3/2)/(1 + 2 e^{−h}),

    between −½ and 1, 0 at h = 0 and about h/3 near it. It takes many rows to learn how a shape
    varies. With `kernels.Bias` as the kernel of h the shape is a constant, and the band of a return
    level tells that it is not known exactly.
    """

    latents = ("location", "log_scale", "logit_shape")
    shaped = True

    def initial_latents(self, y: Array) -> Array:
        """Start of a GEV fit with a latent shape: all three by L-moments."""
        xi = _gev_shape(y)
        return np.array([*_gev_start(y, xi), extremes.shape_latent(xi)])


class _Excess(_Extreme):
    """Excesses: w is a standard exponential variable; the location is a known threshold."""

    coupled = True  # Correlations of scale and shape add up to 0.8 nats to a bound of 500 rows.

    def _set_threshold(self, threshold: float) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
            raise InputError(
                f"{type(self).__name__}: threshold must be a number, the same for all rows; got "
                f"{threshold!r}. With thresholds that differ give Y minus threshold."
            )
        self.threshold = float(threshold)
        self.support = Above.threshold(self.threshold) if self.threshold else "positive"

    def _given(self) -> tuple[str, ...]:
        return (f"{self.threshold:g}",)

    def _place(self, latents: Arrays) -> tuple[Any, Arrays]:
        return self.threshold, latents

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """An excess's log-density −g + log p(w) + log dw/dz; −inf up to the threshold."""
        value = super().log_density(y, *latents, **kw)
        return np.where(np.less_equal(y, self.threshold), -np.inf, value)

    def _standard(self, w: Array) -> tuple[Array, Array]:
        return np.negative(w), np.full(np.shape(w), -1.0)

    def _tails(self, w: Array) -> tuple[Array, Array]:
        rest = -np.maximum(w, 0.0)  # It is 0 at the threshold and below.
        return special.log1mexp(rest), rest

    def _quantile(self, q: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.log1p(-q)

    def _moments(self, xi: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            mean = np.where(xi < 1.0, 1.0 / (1.0 - np.minimum(xi, 1.0)), np.inf)
            variance = mean**2 / (1.0 - 2.0 * np.minimum(xi, 0.5))
        return mean, np.where(xi < 0.5, variance, np.inf)


class GeneralisedPareto(_Excess):
    """y above a threshold u: y − u ~ generalised Pareto with **scale** e^g and a constant shape ξ.

    The distribution of how far a value goes beyond a high threshold, if it does:

        P(Y > y) = (1 + ξz)^{−1/ξ},    z = (y − u) e^{−g},

    and e^{−z} for ξ = 0. Rows are the exceedances alone, with y as it was measured, above u. How
    often there is one is another model, or a number: `predictive(X).return_level(…, rate=…)`.

    The parameter `shape` is ξ, learnt between −½ and 1, with a prior N(0, 0.25²) in models with
    default priors. `GeneralisedParetoShape` has it as a second latent. For ξ < 0 the support ends
    at z = −1/ξ: w = log(1 + ξz)/ξ goes on as in `GEV` from w = 14 on, beyond which the exact
    distribution has a probability of 8e-7.

    Parameters
    ----------
    threshold : u, a constant. 0: targets are excesses, of which each may have its own threshold.
    shape : where ξ starts; None: where the mean and L-scale of the targets put it.
    """

    latents = ("log_scale",)
    parameters = {"shape": 0.1}
    domains = {"shape": "tail_shape"}
    default_priors = {"shape": SHAPE_PRIOR}

    @checks_names
    def __init__(
        self, threshold: float = 0.0, name: str | None = None, *, shape: float | None = None
    ) -> None:
        self._open = shape is None
        self._set_threshold(threshold)
        super().__init__(name, **({} if shape is None else {"shape": shape}))

    def initial_latents(self, y: Array, *, shape: float) -> Array:
        """Start of a Pareto fit: the scale is (1 − ξ) times the mean excess."""
        return np.array([_excess_start(y - self.threshold, shape)])

    def initial_parameters(self, y: Array, *, shape: float) -> dict[str, float]:
        """Start of the Pareto shape by L-moments, from −0.1 to 0.2, if none was given."""
        return {"shape": _excess_shape(y - self.threshold)} if self._open else {}


class GeneralisedParetoShape(_Excess):
    """y above a threshold u: y − u ~ generalised Pareto with **scale** e^g and a shape that varies.

    `GeneralisedPareto` with a second latent, logit_shape h, in the place of its parameter, linked
    to ξ as in `GEVShape`.

    Parameters
    ----------
    threshold : u, a constant. 0: targets are excesses.
    """

    latents = ("log_scale", "logit_shape")
    shaped = True

    @checks_names
    def __init__(self, threshold: float = 0.0, name: str | None = None) -> None:
        self._set_threshold(threshold)
        super().__init__(name)

    def initial_latents(self, y: Array) -> Array:
        """Start of a Pareto fit with a latent shape: both by L-moments."""
        xi = _excess_shape(y - self.threshold)
        return np.array([_excess_start(y - self.threshold, xi), extremes.shape_latent(xi)])


def _l_moments(y: Array) -> tuple[float, float, float]:
    """The first two L-moments and L-skewness (third over second) of extremes (n,)."""
    x = np.sort(np.asarray(y, dtype=float))
    n = x.size
    rank = np.arange(n) / max(n - 1, 1)
    second = np.arange(n) * (np.arange(n) - 1.0) / max((n - 1) * (n - 2), 1)
    b0, b1, b2 = float(x.mean()), float(np.mean(rank * x)), float(np.mean(second * x))
    scale = 2.0 * b1 - b0
    if n < 3 or scale <= 1e-12 * np.abs(x).max(initial=0.0):
        return b0, float(x.std()) or 1.0, 0.17
    return b0, scale, (6.0 * b2 - 6.0 * b1 + b0) / scale


def _gev_shape(y: Array) -> float:
    """GEV shape ξ by L-skewness (Hosking, Wallis, Wood 1985), between FIRST and LAST."""
    c = 2.0 / (3.0 + _l_moments(y)[2]) - np.log(2.0) / np.log(3.0)
    return float(np.clip(-(7.8590 * c + 2.9554 * c * c), FIRST, LAST))


def _gev_start(y: Array, shape: float) -> tuple[float, float]:
    """Location and log-scale of a GEV whose L-moments at shape ξ are those of y.

    Of z they are the mean, and (2^ξ − 1) Γ(1 − ξ)/ξ, which is log 2 for ξ = 0.
    """
    first, second, _ = _l_moments(y)
    xi = min(float(shape), 0.9)
    growth = np.log(2.0) if xi == 0.0 else np.expm1(xi * np.log(2.0)) / xi
    scale = second / (growth * gamma(1.0 - xi))
    return first - scale * float(extremes.gev_moments(np.array(xi))[0]), float(np.log(scale))


def _excess_shape(excess: Array) -> float:
    """The generalised Pareto shape ξ = 2 − λ₁/λ₂ by L-moments, kept between FIRST and LAST."""
    first, second, _ = _l_moments(excess)
    return float(np.clip(2.0 - first / second, FIRST, LAST))


def _excess_start(excess: Array, shape: float) -> float:
    """The generalised Pareto log-scale from the mean excess, which is scale/(1 − ξ)."""
    return float(np.log(max(float(np.mean(excess)), 1e-300) * (1.0 - min(float(shape), 0.9))))
