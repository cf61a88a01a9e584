"""Extreme value distributions: the reduced variate w(z) at a shape ξ, and the link of the shape.

With z = (y − location)/scale and shape ξ,

    w(z) = log(1 + ξ z)/ξ,    z(w) = (e^{ξw} − 1)/ξ,    ds/dz of s = dw/dz = e^{−ξw} is −ξ s².

An extreme value of shape ξ has a w that is Gumbel, an excess over a threshold one that is standard
exponential. The support of y ends where 1 + ξz = 0, a place that moves with all parameters: beyond
it a log-density is −∞, and so is its mean under any Gaussian of the parameters. Here w(z) is exact
up to a pivot, and goes on from there as its own second-order polynomial,

    w = p + u − ½ ξ u²,    u = e^{−ξp} (z − z(p)),    p = TOP for ξ < 0, p = −BOTTOM for ξ > 0,

which rises for ever. A distribution of y is the image of that of w under z(w), so that it stays one
exactly: densities integrate to 1, and all quantiles whose w is inside the pivot are the exact ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit, zeta

from ..linalg import Array

TOP = 14.0
"""The pivot of ξ < 0. An extreme value exceeds it with probability e^{−14} = 8.3e-7, at most once
in 1.2 million years if it is the largest of a year."""
BOTTOM = 4.0
"""The pivot of ξ > 0 is −BOTTOM: an extreme value is below it with probability exp(−e⁴) = 2e-24."""
LOWEST, HIGHEST = -0.5, 1.0
"""Shapes lie between: below −½ maximum likelihood is not regular, from 1 on there is no mean."""
FARTHEST = 1e100  # A larger |z| is replaced by this, so that squares stay finite.
NO_SHAPE = 1e-150  # A shape nearer to 0 is replaced by this one.
SMALL = 0.05  # Power series of 14 terms are used for arguments of at most this size.
_TERMS = np.arange(14)
_INNER = (-1.0) ** (_TERMS + 1) * (_TERMS + 1.0) / (_TERMS + 2.0)
_OUTER = 1.0 / (np.cumprod(np.maximum(_TERMS, 1.0)) * (_TERMS + 2.0))
_ZETA = np.concatenate([[0.0, np.euler_gamma], zeta(np.arange(2.0, 28.0)) / np.arange(2.0, 28.0)])


def _series(coefficients: Array, x: Array) -> Array:
    """Power series Σ c_k x^k, for functions of extreme values near shape 0."""
    total = np.zeros_like(x)
    for c in coefficients[::-1]:
        total = total * x + c
    return total


def _over(x: Array, coefficients: Array, direct: Array) -> Array:
    """Power series where |x| is small, near shape 0 of extreme values; else the direct formula."""
    return np.where(np.abs(x) < SMALL, _series(coefficients, np.clip(x, -SMALL, SMALL)), direct)


def _ratio(numerator: Array, x: Array) -> Array:
    """The quotient numerator/x, which tends to 1 at x = 0, for extreme values near shape 0."""
    none = x == 0.0
    return np.where(none, 1.0, numerator / np.where(none, 1.0, x))


class Variate(NamedTuple):
    """The reduced variate w(z) of an extreme value, log s with s = dw/dz, and parts of derivatives.

    inner: z, or z(p) beyond the pivot p. s_inner: s at inner. u: as in the module's docstring, and
    0 inside the pivot. shape: ξ.
    """

    w: Array
    log_s: Array
    inner: Array
    s_inner: Array
    u: Array
    shape: Array

    @property
    def s(self) -> Array:
        """The slope s = dw/dz of the reduced variate."""
        return self.s_inner * (1.0 - self.shape * self.u)

    @property
    def dlog_s(self) -> Array:
        """The derivative in z of log s, of the reduced variate's slope s = dw/dz."""
        return -self.shape * self.s_inner / (1.0 - self.shape * self.u)

    def in_shape(self) -> tuple[Array, Array]:
        """Derivatives of the reduced variate w and of log s in the shape ξ, at a fixed z."""
        z, xi, u = self.inner, self.shape, self.u
        x = np.asarray(xi * z)
        with np.errstate(all="ignore"):
            inside = x * self.s_inner - np.log1p(x)
            dw, dlog_s = np.asarray(inside / (xi * xi)), np.asarray(-z * self.s_inner)
        small = np.abs(x) < SMALL
        dw[small] = np.broadcast_to(z, x.shape)[small] ** 2 * _series(_INNER, x[small])
        outside = u != 0.0
        if np.any(outside):
            xi, u = np.broadcast_to(xi, u.shape)[outside], u[outside]
            p = _pivot(xi)
            x = xi * p
            with np.errstate(all="ignore"):
                dz0 = p * p * _over(x, _OUTER, (x * np.exp(x) - np.expm1(x)) / (x * x))
            s_inner = np.broadcast_to(self.s_inner, outside.shape)[outside]
            du, rest = -p * u - s_inner * dz0, 1.0 - xi * u
            dw[outside] = du * rest - 0.5 * u * u
            dlog_s[outside] = -p - (u + xi * du) / rest
        return dw, dlog_s


def _pivot(xi: Array) -> Array:
    return np.where(np.less(xi, 0.0), TOP, -BOTTOM)


def variate(z: Array, xi: Array) -> Variate:
    """The reduced variate w(z) at shape ξ, which broadcast; see the module."""
    xi = np.asarray(xi, dtype=float)
    xi = np.where(np.abs(xi) < NO_SHAPE, NO_SHAPE, xi)  # log1p(ξz)/ξ is then z to rounding.
    z, p = np.clip(z, -FARTHEST, FARTHEST), _pivot(xi)
    side, end = np.sign(p), np.expm1(xi * p) / xi  # side · z must not exceed side · end.
    inner = side * np.minimum(side * z, side * end)
    x = xi * inner
    log1p = np.log1p(x)
    w, log_s, s = log1p / xi, -log1p, 1.0 / (1.0 + x)
    u = z - inner
    beyond = u != 0.0
    if np.any(beyond):  # Few values, if any, are beyond.
        w, log_s, u = np.asarray(w), np.asarray(log_s), np.asarray(u)
        shape, own = np.broadcast_to(xi, u.shape)[beyond], u[beyond] * s[beyond]
        u[beyond] = own
        w[beyond] += own * (1.0 - 0.5 * shape * own)
        log_s[beyond] += np.log1p(-shape * own)
    return Variate(w, log_s, inner, s, u, xi)


def quantile(w: Array, xi: Array) -> Array:
    """The inverse z(w) of the reduced variate at shape ξ."""
    xi = np.asarray(xi, dtype=float)
    p = _pivot(xi)
    inner = np.where(xi < 0.0, np.minimum(w, p), np.maximum(w, p))
    with np.errstate(all="ignore"):
        x, rest = xi * inner, np.where(np.equal(w, inner), 0.0, w - inner)  # w may be inf.
        # Of the two roots of w − p = u − ½ ξ u², u is the one that is small if w is near p.
        root = np.sqrt(1.0 - 2.0 * xi * rest)
        u = np.where(np.isinf(rest), rest, 2.0 * rest / (1.0 + root))
        return np.where(
            np.isinf(inner),
            np.where(xi == 0.0, inner, np.expm1(x) / xi),
            inner * _ratio(np.expm1(x), x),
        ) + u * np.exp(xi * p)


def linked_shape(h: Array) -> tuple[Array, Array]:
    """Shape ξ = −½ + (3/2)/(1 + 2 e^{−h}) of extreme values from its latent h, and dξ/dh.

    It lies between −½ and 1, and is 0 with slope ⅓ at h = 0.
    """
    share = expit(np.subtract(h, np.log(2.0)))
    width = HIGHEST - LOWEST
    return LOWEST + width * share, width * share * (1.0 - share)


def shape_latent(xi: float) -> float:
    """The latent h of an extreme value shape ξ, the inverse of `linked_shape`."""
    return float(logit((xi - LOWEST) / (HIGHEST - LOWEST)) + np.log(2.0))


def gev_moments(xi: Array) -> tuple[Array, Array]:
    """Mean and variance of an extreme value z of shape ξ: (Γ₁ − 1)/ξ and (Γ₂ − Γ₁²)/ξ².

    Γ_k = Γ(1 − kξ); infinite from ξ = 1 and from ξ = ½ on. Near ξ = 0 by the series of log Γ.
    """
    xi = np.asarray(xi, dtype=float)
    near = np.abs(xi) < SMALL
    small = np.where(near, xi, 0.0)
    with np.errstate(all="ignore"):
        first = np.where(near, small * _series(_ZETA[1:], small), gammaln(1.0 - xi))
        mean = np.where(near, _series(_ZETA[1:], small), first / xi) * _ratio(
            np.expm1(first), first
        )
        powers = 2.0 ** np.arange(_ZETA.size) - 2.0
        excess = _series((_ZETA * powers)[2:], small)  # (log Γ₂ − 2 log Γ₁)/ξ²
        excess = np.where(near, excess, (gammaln(1.0 - 2.0 * xi) - 2.0 * first) / xi**2)
        variance = np.exp(2.0 * first) * excess * _ratio(np.expm1(excess * xi**2), excess * xi**2)
    return np.where(xi < 1.0, mean, np.inf), np.where(xi < 0.5, variance, np.inf)
