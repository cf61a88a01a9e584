"""Special functions for densities and their expectations, numerically stable, that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import (
    betainc,
    betainccinv,
    betaincinv,
    betaln,
    log_ndtr,
    ndtr,
    pdtr,
    pdtrik,
    stdtrit,
)

from ..linalg import Array

LOG_2PI = float(np.log(2.0 * np.pi))
HALF_LOG_2PI = 0.5 * LOG_2PI
_CHUNK = 8192  # This many points are evaluated at a time, so that temporaries stay in the cache.


def softplus(x: Array) -> Array:
    """log(1 + eˣ) without overflow; x of any shape, the same shape back."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def log1mexp(x: Array) -> Array:
    """log(1 − eˣ) for x ≤ 0, exact to rounding near 0 and for x → −∞ (−inf at x = 0)."""
    x = np.asarray(x, dtype=float)
    near, result = x > -np.log(2.0), np.empty_like(x)
    with np.errstate(divide="ignore"):
        result[near] = np.log(-np.expm1(x[near]))
    far = ~near
    result[far] = np.log1p(-np.exp(np.maximum(x[far], -740.0)))  # Underflow in exp is slow.
    return result


def log1mexp_of_exp(x: Array) -> tuple[Array, Array]:
    """log(1 − e^{−x}) and x times its derivative, x/(eˣ − 1), for x > 0."""
    with np.errstate(over="ignore"):
        return log1mexp(-x), x / np.expm1(x)


def log_diff_exp(a: Array, b: Array) -> Array:
    """log(eᵃ − eᵇ) for a ≥ b, in log space; −inf where a = b (also where both are −inf)."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(b), -np.inf, b - a)
    return np.where(np.isneginf(a), -np.inf, a + log1mexp(np.minimum(gap, 0.0)))


def log_normal_between(a: Array, b: Array) -> Array:
    """log(Φ(b) − Φ(a)), a < b, in the smaller tail; for a narrow interval log(φ · (b − a))."""
    low, high = np.where(a + b > 0.0, -b, a), np.where(a + b > 0.0, -a, b)  # `high` is nearer to 0.
    value = log_diff_exp(log_ndtr(high), log_ndtr(low))
    middle, width = 0.5 * (a + b), b - a
    narrow = width * np.maximum(1.0, np.abs(middle)) < 1e-5
    if not np.any(narrow):
        return value
    with np.errstate(divide="ignore"):
        return np.where(narrow, np.log(width) - 0.5 * middle * middle - HALF_LOG_2PI, value)


def stirling_remainder(x: Array) -> tuple[Array, Array]:
    """Binet's function ρ(x) = lgamma(x) − (x − ½) log x + x − ½ log 2π, and x ρ′(x), for x > 0.

    Both to 1e-14 absolute for every x. lgamma(x + 6) by Stirling's series, brought back with the
    product P(x) = x(x+1)…(x+5) = q(q+4)(q+6), q = x(x+5); the logarithms of x + 6 over x are
    taken as log1p, so that nothing cancels when x is large.
    """
    value, slope = _stirling(x, 2)
    return value, slope


def binet(x: Array) -> Array:
    """ρ(x) of `stirling_remainder` alone, in half the time."""
    return _stirling(x, 1)[0]


def _stirling(x: Array, rows: int) -> Array:
    """ρ(x), or with two rows x ρ′(x) too: (rows, *shape of x)."""
    x = np.asarray(x, dtype=float)
    out = np.empty((rows, x.size))
    flat = x.ravel()
    for start in range(0, x.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        # ρ is 0 to rounding from x = 1e15 on; below 1e-300 its value at 1e-300 does.
        _stirling_chunk(np.clip(flat[part], 1e-300, 1e15), out[:, part])
    return out.reshape(rows, *x.shape)


def _stirling_chunk(x: Array, out: Array) -> None:
    """One chunk of `_stirling`, x (n,), written to out (rows, n)."""
    far = x + 6.0
    inverse = 1.0 / far
    u = inverse * inverse
    q = x * (x + 5.0)
    # Kahan's form of log1p(6/x) calls log, which is much faster than numpy's log1p.
    ratio = 6.0 / x
    one = 1.0 + ratio
    step = np.log(one)
    one -= 1.0
    ratio /= one
    step *= ratio
    # `rest` is P(x)/(x (x + 6)⁵), without the factor x of P, which may be as small as 1e-300.
    rest = (q + 4.0) * u
    rest *= (q + 6.0) * u
    near = x + 5.0
    rest *= near * inverse
    value = _horner(_STIRLING, u)
    value *= inverse
    value -= np.log(rest)
    value += (x + 0.5) * step
    np.subtract(value, 6.0, out=out[0])
    if len(out) == 1:
        return
    # x ρ′ = x (ψ(x+6) − log x) − x P′/P + ½, x P′/P = (2x+5) (1/(x+5) + x/(q+4) + x/(q+6))
    slope = _horner(_STIRLING_SLOPE, u)
    slope *= -u
    slope -= 0.5 * inverse
    slope += step
    slope *= x
    ratio = 1.0 / near + x * (2.0 * q + 10.0) / ((q + 4.0) * (q + 6.0))
    ratio *= x + near
    slope -= ratio
    np.add(slope, 0.5, out=out[1])


def lgamma_half_step(x: Array | float) -> tuple[Array, Array]:
    """lgamma(x + ½) − lgamma(x) and its derivative, for x > 0; nothing cancels at large x."""
    x = np.asarray(x, dtype=float)
    upper, upper_slope = stirling_remainder(x + 0.5)
    lower, lower_slope = stirling_remainder(x)
    step = np.log1p(0.5 / x)
    value = x * step + 0.5 * np.log(x) - 0.5 + upper - lower
    slope = step + 0.5 / (x * (2.0 * x + 1.0)) + upper_slope / (x + 0.5) - lower_slope / x
    return value, slope


def rising_excess(a: Array, k: Array | float) -> tuple[Array, Array]:
    """T(a, k) = lgamma(a + k) − lgamma(a) − k log a and a ∂T/∂a, for a > 0 and k ≥ 0.

    By Binet's function ρ, so that nothing cancels: T = (a + k − ½) log(1 + k/a) − k + ρ(a + k)
    − ρ(a). It is small where a is large, about k(k−1)/2a.
    """
    total = a + k
    step = np.log1p(k / a)
    (far, far_slope), (near, near_slope) = stirling_remainder(total), stirling_remainder(a)
    value = (total - 0.5) * step - k + far - near
    return value, a * step - k + (0.5 * k + a * far_slope) / total - near_slope


def rising_excess_value(a: Array, k: Array | float) -> Array:
    """T(a, k) of `rising_excess` alone, in half the time."""
    total = a + k
    return (total - 0.5) * np.log1p(k / a) - k + binet(total) - binet(a)


def scaled(log_scale: Array, z: Array) -> Array:
    """The product e^log_scale z; a z of 0 or ±inf stays as it is even if the factor is inf or 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.exp(log_scale) * z
    return np.where(np.equal(z, 0.0) | np.isinf(z), z, product)


def minus(a: Array, b: Array) -> Array:
    """Difference a − b of logarithms of densities: −inf where a is, whatever b."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a), -np.inf, a - b)


def beta_cdf(y: Array, alpha: Array, beta: Array) -> Array:
    """Cdf P(Y ≤ y) of Beta(α, β); if both exceed 1e10 that of a normal, with its first correction.

    The incomplete beta function would take a time of √α; the next correction is of order 1/α.
    """
    y, alpha, beta = np.broadcast_arrays(y, alpha, beta)
    large = np.minimum(alpha, beta) > 1e10
    value = betainc(np.where(large, 1.0, alpha), np.where(large, 1.0, beta), np.clip(y, 0.0, 1.0))
    if large.any():
        a, b = alpha[large], beta[large]
        share = b / (a + b)
        sd = np.sqrt(share / (a + b + 1.0)) * np.sqrt(a / (a + b))
        z = (y[large] - a / (a + b)) / sd
        sixth_of_skewness = (b - a) / (3.0 * (a + b) * np.sqrt(a) * np.sqrt(share))
        density = np.exp(-0.5 * z * z - HALF_LOG_2PI)
        value[large] = ndtr(z) - sixth_of_skewness * (z * z - 1.0) * density
    return value


def poisson_ppf(q: Array, rate: Array) -> Array:
    """Poisson quantile: the smallest count whose cdf is at least q."""
    with np.errstate(invalid="ignore"):
        upper = np.maximum(np.ceil(pdtrik(q, rate)), 0.0)
    upper = np.where(np.isnan(upper), 0.0, upper)  # pdtrik is NaN for q at or below P(Y = 0)
    lower = np.maximum(upper - 1.0, 0.0)  # pdtrik may be one too high by rounding
    return np.where(pdtr(lower, rate) >= q, lower, upper)


def student_t_constant(nu: Array | float) -> tuple[Array, Array]:
    """Student-t constant lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ), and its derivative in log ν."""
    return _constant(float(nu)) if np.ndim(nu) == 0 else _constant.__wrapped__(nu)


def student_t_log_constant(nu: Array | float) -> Array:
    """The value of `student_t_constant` alone: of many ν in half the time."""
    if np.ndim(nu) == 0:
        return student_t_constant(nu)[0]
    x = 0.5 * np.asarray(nu)
    step = x * np.log1p(0.5 / x) + 0.5 * np.log(x) - 0.5 + binet(x + 0.5) - binet(x)
    return step - 0.5 * np.log(np.pi * nu)


@lru_cache(maxsize=16)  # every chunk of rows asks for the same ν
def _constant(nu: Any) -> tuple[Array, Array]:
    step, slope = lgamma_half_step(0.5 * np.asarray(nu))
    return step - 0.5 * np.log(np.pi * nu), 0.5 * nu * slope - 0.5


def _horner(coefficients: Array, x: Array) -> Array:
    """Polynomial Σ cₖ xᵏ, lowest order first."""
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= x
        total += c
    return total


# Stirling's series in 1/x has coefficients B₂ₖ/(2k (2k − 1)); its derivative's follow, negated.
_STIRLING = np.array(
    [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400]
)
_STIRLING_SLOPE = _STIRLING * (2.0 * np.arange(_STIRLING.size) + 1.0)


def student_t_tail(r: Array, g: Array, nu: Array | float) -> Array:
    """log(1 + r²/(ν e^g)), by which the Student-t log-density depends on the residual r."""
    with np.errstate(over="ignore"):
        return np.log1p(r**2 * (np.exp(-np.asarray(g)) / nu))


def student_t_share(r: Array, g: Array, nu: Array | float) -> tuple[Array, Array]:
    """Student-t derivatives: r²/(ν e^g + r²) and r/(ν e^g + r²), without overflow, 0 at r = 0."""
    norm = np.hypot(r, np.sqrt(nu) * np.exp(0.5 * np.asarray(g)))
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.where(norm > 0.0, r / norm, 0.0)
        return unit * unit, np.where(norm > 0.0, unit / norm, 0.0)


def student_t_quantile(nu: Array | float, q: Array | float) -> Array:
    """Quantile F⁻¹(q) of a Student-t with ν degrees of freedom.

    In the tails |t| = √(ν y/x), where x = I⁻¹(ν/2, ½; 2p) is the inverse of the regularised
    incomplete beta function, y = 1 − x without cancellation, and p = min(q, 1 − q); where
    x < 1e-20, 2p = x^{ν/2}/(ν/2 · B(ν/2, ½)). scipy's stdtrit returns NaN or
    infinities of the wrong sign far out there, in ways that differ by version.
    """
    nu, q = np.broadcast_arrays(np.asarray(nu, dtype=float), np.asarray(q, dtype=float))
    p = np.minimum(q, 1.0 - q)
    tail = p < 0.25
    t = np.asarray(stdtrit(nu, np.where(tail, 0.5, q)))
    a, p2 = 0.5 * nu[tail], 2.0 * p[tail]
    with np.errstate(divide="ignore", over="ignore"):
        x = betaincinv(a, 0.5, p2)
        far = np.exp(-0.5 * (np.log(p2 * a) + betaln(a, 0.5)) / a)
        size = np.where(x < 1e-20, far, np.sqrt(betainccinv(0.5, a, p2) / x)) * np.sqrt(2.0 * a)
    t[tail] = np.where(q[tail] < 0.5, -size, size)
    return t


def log_logistic_moments(log_shape: Array) -> tuple[Array, Array]:
    """Mean b/sin b and variance b (tan b − b)/sin² b of a log-logistic of median 1, b = π/shape.

    The mean is infinite for a shape of 1 or less, the variance for a shape of 2 or less.
    """
    with np.errstate(over="ignore"):
        b = np.pi * np.exp(-np.asarray(log_shape))
    mean = np.where(b < np.pi, 1.0 / np.sinc(np.where(b < np.pi, b, 0.0) / np.pi), np.inf)
    narrow = b < 0.5 * np.pi
    b = np.where(narrow, b, 0.1)
    square = b * b
    small = square / 3.0 * (1.0 + square * (2.0 / 5.0 + square * 17.0 / 105.0))
    excess = np.where(b < 0.02, small, np.tan(b) / np.maximum(b, 1e-300) - 1.0)
    return mean, np.where(narrow, excess / np.sinc(b / np.pi) ** 2, np.inf)


def softplus_pair(x: Array) -> tuple[Array, Array]:
    """softplus(x) and softplus(−x), which share their transcendental part."""
    tail = np.log1p(np.exp(-np.abs(x)))
    return np.maximum(x, 0.0) + tail, np.maximum(-x, 0.0) + tail


def log_total(terms: Sequence[Array]) -> tuple[Array, list[Array]]:
    """log Σ eᶠ of arrays that broadcast, and shares eᶠ/Σ, with few exponentials on grids of nodes.

    Each array is shifted by the largest value of its row (the last axis) and exponentiated before
    it broadcasts: on a quadrature grid that takes far fewer exponentials than it has points.
    """
    peaks = [np.max(f, axis=tuple(range(np.ndim(f) - 1))) for f in terms]
    top = np.max(np.broadcast_arrays(*peaks), axis=0)
    sizes = [np.exp(f - top) for f in terms]
    total = sum(sizes[1:], sizes[0])
    inverse = 1.0 / total
    return top + np.log(total), [size * inverse for size in sizes]
