"""Closed expectations of two functions of a Gaussian variable, log(1 + x²) and log(1 + eˣ).

Both come with derivatives in mean and variance, and hold for a narrow and a wide Gaussian alike.
The reduced forms of the likelihoods are built of them:

* `expected_log1p_square`: E log(1 + x²), the Student-t integral, by the Faddeeva function;
* `expected_softplus`: E log(1 + eˣ), the logistic integral, by a scale mixture of normals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from ..linalg import Array

_SQRT_PI = float(np.sqrt(np.pi))
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))
_CHUNK = 8192  # This many points are evaluated at a time, so that temporaries stay in the cache.


# -- E softplus(x), x Gaussian -----------------------------------------------------------------


def _logistic_mixture(terms: int) -> tuple[Array, Array]:
    """Scales τ and probabilities p, (terms,) each, with logistic(0, 1) ≈ Σ p N(0, τ²).

    τ/2 has Kolmogorov's distribution; the rule is Gauss's for the measure of log τ (Lanczos on a
    fine grid), which converges geometrically: errors 4e-8, 3e-10, 3e-12 at 8, 12, 16 terms.
    """
    u, step = np.linspace(np.log(0.075), np.log(20.0), 501, retstep=True)
    x = np.exp(u)
    j = np.arange(1, 20)[:, None]
    k = (2.0 * j - 1.0) ** 2 * np.pi**2 / 8.0
    # The density has two series: each is used where it converges fast, below and above 0.6.
    low = _SQRT_2PI * ((2.0 * k / x**4 - 1.0 / x**2) * np.exp(-k / x**2)).sum(0)
    high = 8.0 * x * (-((-1.0) ** j) * j**2 * np.exp(-2.0 * (j * x) ** 2)).sum(0)
    weight = np.where(x < 0.6, low, high) * x * step
    basis = [np.sqrt(weight / weight.sum())]
    diagonal, off = [], []
    for _ in range(terms):
        v = u * basis[-1]
        diagonal.append(v @ basis[-1])
        for _ in range(2):  # Gram–Schmidt done twice is orthogonal to rounding
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
    """Evaluate one chunk of `expected_softplus`, (n,) each, and write it to out (3, n)."""
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

# The series is summed as _BLOCKS polynomials with _POWERS coefficients each, by one product.
_POWERS, _BLOCKS = 8, 5
_ORDER = _POWERS * _BLOCKS  # Weideman's series has N terms: 40 are exact to rounding.
_L = float(np.sqrt(_ORDER / np.sqrt(2.0)))


def _weideman() -> Array:
    """Coefficients (3 · blocks, powers) of the polynomials q, p, r in `expected_log1p_square`.

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
    """Quotient of a polynomial of `_weideman` (lowest order first) by Z + 1, without remainder."""
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
        # A Student-t multiplies the value by ν: a small one must be right relative to itself.
        m, v = m[small], v[small]
        m2 = m * m
        fourth = m2 * m2 + 6.0 * m2 * v + 3.0 * v * v
        sixth = m2 * (m2 * m2 + 15.0 * m2 * v + 45.0 * v * v) + 15.0 * v**3
        dmean[small] = 2.0 * m * (1.0 - m2 - 3.0 * v + m2 * m2 + 10.0 * m2 * v + 15.0 * v * v)
        dvariance[small] = 1.0 - 3.0 * (m2 + v) + 5.0 * fourth
        value[small] = m2 + v - 0.5 * fourth + sixth / 3.0
    return value, dmean, dvariance


_SMALL = 1e-4  # If E[x²] is below this, three terms of a series do: the next is 1e-12 of the value.
_LOCAL = threading.local()


def _scratch() -> tuple[Array, Array]:
    """Work space of the polynomials in `expected_log1p_square`, kept per thread.

    Allocating it anew would take half of the time. Powers Z⁰ … Z⁸ (9, chunk) and the blocks of the
    three sums (15, chunk), complex.
    """
    if not hasattr(_LOCAL, "arrays"):
        powers = np.ones((_POWERS + 1, _CHUNK), dtype=complex)
        _LOCAL.arrays = powers, np.empty((3 * _BLOCKS, _CHUNK), dtype=complex)
    return _LOCAL.arrays


def _log1p_square_chunk(
    mean: Array, variance: Array, out: Array, powers: Array, parts: Array
) -> None:
    """Evaluate one chunk of `expected_log1p_square`, (n,) each, and write it to out (3, n)."""
    tau = np.sqrt(2.0 * variance)
    shift = _L * tau
    D = np.empty(mean.size, dtype=complex)
    D.real = 1.0 + shift
    D.imag = -mean
    inverse = 1.0 / D
    powers, parts = powers[:, : mean.size], parts[:, : mean.size]
    np.multiply(inverse, 2.0 * shift, out=powers[1])
    powers[1] -= 1.0
    for k in (1, 2, 4):  # one product makes Z^{k+1} … Z^{2k}
        np.multiply(powers[1 : k + 1], powers[k], out=powers[k + 1 : 2 * k + 1])
    # Real coefficients act on real and imaginary parts alike, so one real product does both.
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


def _in_chunks(
    chunk: Callable[..., None], mean: Array, variance: Array, size: int, *constants: Array
) -> tuple[Array, Array, Array]:
    """Evaluate a closed expectation in flat pieces by chunk(mean, variance, out, *constants)."""
    mean, variance = np.broadcast_arrays(mean, variance)
    out = np.empty((3, mean.size))
    flat_mean, flat_variance = mean.ravel(), variance.ravel()
    for start in range(0, mean.size, size):
        part = slice(start, start + size)
        chunk(flat_mean[part], flat_variance[part], out[:, part], *constants)
    value, dmean, dvariance = out.reshape(3, *mean.shape)
    return value, dmean, dvariance
