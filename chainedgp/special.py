"""Stable primitives, and two exact expectations of a Gaussian variable.

Everything here is a pure function of float64 arrays that broadcast. Two expectations carry the
reduced forms of the likelihoods, and both hold for every width of the Gaussian, narrow or wide:

* `expected_log1p_square`: E log(1 + x²), the Student-t integral, by the Faddeeva function;
* `expected_softplus`: E log(1 + eˣ), the logistic integral, by a scale mixture of normals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr, pdtr, pdtrik

Array = np.ndarray
LOG_2PI = float(np.log(2.0 * np.pi))
HALF_LOG_2PI = 0.5 * LOG_2PI
_SQRT_PI = float(np.sqrt(np.pi))
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))
_CHUNK = 8192  # points at a time: temporaries stay in cache


# -- elementary functions ----------------------------------------------------------------------


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
    result[far] = np.log1p(-np.exp(np.maximum(x[far], -740.0)))  # exp is slow where it underflows
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


def stirling_remainder(x: Array) -> tuple[Array, Array]:
    """Binet's function ρ(x) = lgamma(x) − (x − ½) log x + x − ½ log 2π, and x ρ′(x), for x > 0.

    Both to 1e-14 absolute for every x. lgamma(x + 6) by Stirling's series, brought back with the
    product P(x) = x(x+1)…(x+5) = q(q+4)(q+6), q = x(x+5); the logarithms of x + 6 over x are
    taken as log1p, so that nothing cancels when x is large.
    """
    x = np.asarray(x, dtype=float)
    out = np.empty((2, x.size))
    flat = x.ravel()
    for start in range(0, x.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        # ρ(1e15) is 0, and below 1e-300 is as good as at it
        _stirling_chunk(np.clip(flat[part], 1e-300, 1e15), out[:, part])
    value, slope = out.reshape(2, *x.shape)
    return value, slope


def _stirling_chunk(x: Array, out: Array) -> None:
    """One chunk of `stirling_remainder`, x (n,), written to out (2, n)."""
    far = x + 6.0
    inverse = 1.0 / far
    u = inverse * inverse
    q = x * (x + 5.0)
    # log1p(6/x), as Kahan has it: log is much the faster ufunc
    ratio = 6.0 / x
    one = 1.0 + ratio
    step = np.log(one)
    one -= 1.0
    ratio /= one
    step *= ratio
    # P(x)/(x (x + 6)⁵): without the factor x, which may be as small as e⁻³⁰⁰
    rest = (q + 4.0) * u
    rest *= (q + 6.0) * u
    near = x + 5.0
    rest *= near * inverse
    value = _horner(_STIRLING, u)
    value *= inverse
    value -= np.log(rest)
    value += (x + 0.5) * step
    np.subtract(value, 6.0, out=out[0])
    # x (ψ(x+6) − log x) − x P′/P + ½ with x P′/P = (2x+5) (1/(x+5) + x/(q+4) + x/(q+6))
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


def minus(a: Array, b: Array) -> Array:
    """a − b for logarithms of densities: −inf where a is, whatever b."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a), -np.inf, a - b)


def poisson_ppf(q: Array, rate: Array) -> Array:
    """The smallest count whose Poisson cdf is at least q."""
    with np.errstate(invalid="ignore"):
        upper = np.maximum(np.ceil(pdtrik(q, rate)), 0.0)
    upper = np.where(np.isnan(upper), 0.0, upper)  # q at or below P(Y = 0)
    lower = np.maximum(upper - 1.0, 0.0)  # pdtrik is exact to rounding only
    return np.where(pdtr(lower, rate) >= q, lower, upper)


def student_t_constant(nu: Array | float) -> tuple[Array, Array]:
    """lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) and its derivative in log ν, for ν > 0."""
    return _constant(float(nu)) if np.ndim(nu) == 0 else _constant.__wrapped__(nu)


@lru_cache(maxsize=16)  # every chunk of rows asks for one and the same
def _constant(nu: Any) -> tuple[Array, Array]:
    step, slope = lgamma_half_step(0.5 * np.asarray(nu))
    return step - 0.5 * np.log(np.pi * nu), 0.5 * nu * slope - 0.5


def _horner(coefficients: Array, x: Array) -> Array:
    """Σ cₖ xᵏ, lowest order first."""
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= x
        total += c
    return total


# B₂ₖ / (2k (2k − 1)): Stirling's series in 1/x, and minus its derivative's coefficients
_STIRLING = np.array(
    [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400]
)
_STIRLING_SLOPE = _STIRLING * (2.0 * np.arange(_STIRLING.size) + 1.0)


def _in_chunks(
    chunk: Callable[..., None], mean: Array, variance: Array, size: int, *constants: Array
) -> tuple[Array, Array, Array]:
    """Run chunk(mean, variance, out, *constants) over flat pieces: three broadcast arrays."""
    mean, variance = np.broadcast_arrays(mean, variance)
    out = np.empty((3, mean.size))
    flat_mean, flat_variance = mean.ravel(), variance.ravel()
    for start in range(0, mean.size, size):
        part = slice(start, start + size)
        chunk(flat_mean[part], flat_variance[part], out[:, part], *constants)
    value, dmean, dvariance = out.reshape(3, *mean.shape)
    return value, dmean, dvariance


def student_t_tail(r: Array, g: Array, nu: Array | float) -> Array:
    """log(1 + r²/(ν e^g)), the Student-t's dependence on the residual r."""
    with np.errstate(over="ignore"):
        return np.log1p(r**2 * (np.exp(-np.asarray(g)) / nu))


def student_t_share(r: Array, g: Array, nu: Array | float) -> tuple[Array, Array]:
    """r²/(ν e^g + r²) and r/(ν e^g + r²), without overflow, 0 at r = 0 whatever g is."""
    norm = np.hypot(r, np.sqrt(nu) * np.exp(0.5 * np.asarray(g)))
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.where(norm > 0.0, r / norm, 0.0)
        return unit * unit, np.where(norm > 0.0, unit / norm, 0.0)


def log_logistic_moments(log_shape: Array) -> tuple[Array, Array]:
    """Mean b/sin b and variance b (tan b − b)/sin² b of a log-logistic of median 1, b = π/shape.

    inf for a shape of 1 or less, and of 2 or less.
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
    """log Σ eᶠ of arrays that broadcast, and the shares eᶠ/Σ; exponentials of each array alone.

    Shifted by the largest of a row (the last axis), they are few on a quadrature grid.
    """
    peaks = [np.max(f, axis=tuple(range(np.ndim(f) - 1))) for f in terms]
    top = np.max(np.broadcast_arrays(*peaks), axis=0)
    sizes = [np.exp(f - top) for f in terms]
    total = sum(sizes[1:], sizes[0])
    inverse = 1.0 / total
    return top + np.log(total), [size * inverse for size in sizes]


# -- E softplus(x), x Gaussian -----------------------------------------------------------------


def _logistic_mixture(terms: int) -> tuple[Array, Array]:
    """Scales τ and probabilities with logistic(0, 1) ≈ Σ p N(0, τ²): each (terms,).

    τ/2 has Kolmogorov's distribution; the rule is Gauss's for the measure of log τ (Lanczos on a
    fine grid), which converges geometrically: errors 4e-8, 3e-10, 3e-12 at 8, 12, 16 terms.
    """
    u, step = np.linspace(np.log(0.075), np.log(20.0), 501, retstep=True)
    x = np.exp(u)
    j = np.arange(1, 20)[:, None]
    k = (2.0 * j - 1.0) ** 2 * np.pi**2 / 8.0
    # two series of one density, each where it converges fast
    low = _SQRT_2PI * ((2.0 * k / x**4 - 1.0 / x**2) * np.exp(-k / x**2)).sum(0)
    high = 8.0 * x * (-((-1.0) ** j) * j**2 * np.exp(-2.0 * (j * x) ** 2)).sum(0)
    weight = np.where(x < 0.6, low, high) * x * step
    basis = [np.sqrt(weight / weight.sum())]
    diagonal, off = [], []
    for _ in range(terms):
        v = u * basis[-1]
        diagonal.append(v @ basis[-1])
        for _ in range(2):  # twice is enough
            for b in basis:
                v = v - (v @ b) * b
        off.append(np.linalg.norm(v))
        basis.append(v / off[-1])
    jacobi = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return 2.0 * np.exp(nodes), vectors[0] ** 2 / (vectors[0] ** 2).sum()


_MIXTURES = {terms: _logistic_mixture(terms) for terms in (12, 16)}


def expected_softplus(mean: Array, variance: Array, terms: int = 16) -> tuple[Array, Array, Array]:
    """E log(1 + eˣ), x ~ N(mean, variance), with its derivatives in mean and variance.

    The logistic distribution is a scale mixture of normals, hence, exactly and for every variance,
    E softplus(x) = E_τ [μ Φ(μ/s) + s φ(μ/s)], s² = variance + τ² (Monahan & Stefanski 1992);
    the mean over τ is a Gauss rule of `terms` points: absolute error 3e-12 (16), 3e-10 (12).

    mean and variance (≥ 0) are arrays that broadcast; terms is 12 or 16. Returns value, dmean,
    dvariance, arrays of the broadcast shape.
    """
    return _in_chunks(_softplus_chunk, mean, variance, _CHUNK // terms * 4, *_MIXTURES[terms])


def _softplus_chunk(mean: Array, variance: Array, out: Array, tau: Array, p: Array) -> None:
    """One chunk of `expected_softplus`, (n,) each, written to out (3, n)."""
    s = np.sqrt(variance + (tau * tau)[:, None])  # (terms, n)
    r = mean / s
    np.matmul(p, ndtr(r), out=out[1])
    r *= r
    r *= -0.5
    density = np.exp(r, out=r)
    np.matmul(0.5 / _SQRT_2PI * p, density / s, out=out[2])
    density *= s
    out[0] = mean * out[1] + (p / _SQRT_2PI) @ density


# -- E log(1 + x²), x Gaussian -----------------------------------------------------------------

_POWERS, _BLOCKS = 8, 5
_ORDER = _POWERS * _BLOCKS  # Weideman's N; 40 gives full precision
_L = float(np.sqrt(_ORDER / np.sqrt(2.0)))


def _weideman() -> Array:
    """Coefficients (3 blocks of rows, powers) of the three polynomials in Z of the docstring below.

    p approximates w(z) ≈ 2p(Z)/(L−iz)² + π^{-1/2}/(L−iz), Z = (L+iz)/(L−iz) (Weideman 1994).
    With p(−1) = L/(2√π), which holds for the exact series and is imposed on the truncated one:
    Σ aₙ (Z^{n+1} − (−1)^{n+1})/(n+1) = (Z+1) q(Z) and p(Z) − p(−1) = (Z+1) r(Z).
    """
    m = 2 * _ORDER
    t = _L * np.tan(np.arange(-m + 1, m) * np.pi / (2 * m))
    f = np.concatenate([[0.0], np.exp(-t * t) * (_L**2 + t * t)])
    p = np.real(np.fft.fft(np.fft.fftshift(f)))[1 : _ORDER + 1] / (2 * m)
    sign = (-1.0) ** np.arange(_ORDER)
    p[0] += _L / (2.0 * _SQRT_PI) - p @ sign
    q = _deflate(np.concatenate([[0.0], p / np.arange(1, _ORDER + 1)]))
    r = np.append(_deflate(p), 0.0)
    return np.stack([q, p, p - 2.0 * r]).reshape(3 * _BLOCKS, _POWERS)


def _deflate(c: Array) -> Array:
    """Quotient of a polynomial (lowest order first) by Z + 1, the remainder dropped."""
    out = np.empty(c.size - 1)
    carry = 0.0
    for i in range(c.size - 1, 0, -1):
        carry = c[i] - carry
        out[i - 1] = carry
    return out


_COEFFICIENTS = _weideman()


def expected_log1p_square(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """E log(1 + x²), x ~ N(mean, variance), with its derivatives in mean and variance.

    With δ = mean, τ² = 2 variance and z = (δ + i)/τ the value is log τ² + 2 Re F(z),
    F′(z) = −i√π w(z), w the Faddeeva function. Weideman's rational series of w integrates term by
    term; with D = Lτ + 1 − iδ, Z = 2Lτ/D − 1 and the polynomials q, p, r of `_weideman`
    (p and its quotients), everything is finite at τ = 0 and nothing cancels:

        value     = log|D|² − 4√π τ Re[q(Z)/D]
        dmean     = 2 Im[(1 + 2√π τ p(Z)/D)/D]
        dvariance = 4√π L Re[(p(Z) − 2 r(Z))/D²]

    The derivatives are those of the computed value, and all are right to 1e-12 for every
    mean and variance ≥ 0. A Student-t needs mean (y − m)/c and variance v/c².

    mean and variance are arrays that broadcast. Returns value, dmean, dvariance, arrays of the
    broadcast shape.
    """
    value, dmean, dvariance = _in_chunks(_log1p_square_chunk, mean, variance, _CHUNK, *_scratch())
    m, v = np.broadcast_arrays(mean, variance)
    small = m * m + 3.0 * v < _SMALL
    if small.any():
        # the Gaussian limit multiplies the value by ν: it must be right relative to itself
        m, v = m[small], v[small]
        m2 = m * m
        fourth = m2 * m2 + 6.0 * m2 * v + 3.0 * v * v
        sixth = m2 * (m2 * m2 + 15.0 * m2 * v + 45.0 * v * v) + 15.0 * v**3
        dmean[small] = 2.0 * m * (1.0 - m2 - 3.0 * v + m2 * m2 + 10.0 * m2 * v + 15.0 * v * v)
        dvariance[small] = 1.0 - 3.0 * (m2 + v) + 5.0 * fourth
        value[small] = m2 + v - 0.5 * fourth + sixth / 3.0
    return value, dmean, dvariance


_SMALL = 1e-4  # of E[x²]: the next term, E[x⁸]/4, is then below 1e-12 relative
_LOCAL = threading.local()


def _scratch() -> tuple[Array, Array]:
    """Work space of the polynomials, kept per thread (allocating it would take half of the time).

    Powers Z⁰ … Z⁸ (9, chunk) and the blocks of the three sums (15, chunk), complex.
    """
    if not hasattr(_LOCAL, "arrays"):
        powers = np.ones((_POWERS + 1, _CHUNK), dtype=complex)
        _LOCAL.arrays = powers, np.empty((3 * _BLOCKS, _CHUNK), dtype=complex)
    return _LOCAL.arrays


def _log1p_square_chunk(
    mean: Array, variance: Array, out: Array, powers: Array, parts: Array
) -> None:
    """One chunk of `expected_log1p_square`, (n,) each, written to out (3, n)."""
    tau = np.sqrt(2.0 * variance)
    shift = _L * tau
    D = np.empty(mean.size, dtype=complex)
    D.real = 1.0 + shift
    D.imag = -mean
    inverse = 1.0 / D
    powers, parts = powers[:, : mean.size], parts[:, : mean.size]
    np.multiply(inverse, 2.0 * shift, out=powers[1])
    powers[1] -= 1.0
    for k in (1, 2, 4):  # Z^{k+1} … Z^{2k} at once
        np.multiply(powers[1 : k + 1], powers[k], out=powers[k + 1 : 2 * k + 1])
    # the real coefficients act on real and imaginary parts alike: one real product
    np.matmul(_COEFFICIENTS, powers[:_POWERS].view(float), out=parts.view(float))
    parts = parts.reshape(3, _BLOCKS, mean.size)
    total = parts[:, -1]
    for block in range(_BLOCKS - 2, -1, -1):
        total *= powers[_POWERS]
        total += parts[:, block]
    q, p, e = total
    q *= inverse
    p *= inverse
    out[0] = np.log1p(shift * (2.0 + shift) + mean * mean) - 4.0 * _SQRT_PI * tau * q.real
    p *= 2.0 * _SQRT_PI * tau
    p += 1.0
    p *= inverse
    np.multiply(p.imag, 2.0, out=out[1])
    e *= inverse
    e *= inverse
    np.multiply(e.real, 4.0 * _SQRT_PI * _L, out=out[2])
