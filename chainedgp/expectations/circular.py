"""The von Mises distribution on the circle: stable parts of its density, its cdf and quantiles."""

from __future__ import annotations

import numpy as np
from scipy.special import gamma, gammainc, i0e, i1e, ndtri

from ..linalg import Array

FEW = 30.0
"""From this concentration on the cdf is a short sum of incomplete gamma functions."""
TERMS = 16  # That sum has this many terms: the next is below 1e-16.
TERMS_CDF = 52  # Below FEW the cdf's Fourier series has this many terms: the next is below 1e-19.
ASYMPTOTIC = 100.0
"""Above this concentration κ (1 − I₁/I₀) is computed by its asymptotic series in 1/κ, with the
coefficients below: the terms that are left out are less than 4e-12."""
_SLOPES = (0.5, 1 / 8, 1 / 8, 25 / 128, 13 / 32, 1073 / 1024)
HARMONICS = 80  # Fourier series of moments have this many terms; the next is below 1e-40 up to FEW.
STEPS = 60  # A quantile is searched for in at most this many steps.


def wrapped(angle: Array) -> Array:
    """Wrap an angle to the range from −π to π."""
    return np.asarray(angle) - 2.0 * np.pi * np.round(np.asarray(angle) / (2.0 * np.pi))


def log_i0e(k: Array) -> tuple[Array, Array]:
    """Von Mises normaliser: log(e^{−k} I₀(k)) and k times its derivative, k (I₁/I₀ − 1), k ≥ 0."""
    k = np.asarray(k, dtype=float)
    large = k > ASYMPTOTIC
    near, inverse = np.where(large, 1.0, k), 1.0 / np.where(large, k, ASYMPTOTIC)
    far = np.zeros_like(k)
    for c in _SLOPES[::-1]:
        far = far * inverse + c
    return np.log(i0e(k)), np.where(large, -far, near * (i1e(near) / i0e(near) - 1.0))


def resultant_length(k: Array) -> Array:
    """Mean resultant length of a von Mises: E cos(y − direction) = I₁(k)/I₀(k)."""
    k = np.asarray(k, dtype=float)
    return i1e(k) / i0e(k)


def centred_cdf(angle: Array, k: Array) -> Array:
    """Von Mises cdf P(Y ≤ angle) around 0 with concentration k, for angles from −π to π."""
    return centred_cdf_and_slope(angle, k)[0]


def centred_cdf_and_slope(angle: Array, k: Array) -> tuple[Array, Array]:
    """Von Mises cdf P(Y ≤ angle) around 0, and k times its derivative in k."""
    angle, k = np.broadcast_arrays(np.asarray(angle, dtype=float), np.asarray(k, dtype=float))
    few, value, slope = k < FEW, np.empty(angle.shape), np.empty(angle.shape)
    for rows, of in ((few, _fourier_cdf), (~few, _narrow_cdf)):
        if rows.any():
            value[rows], slope[rows] = of(angle[rows], k[rows])
    return np.clip(value, 0.0, 1.0), slope


def _fourier_cdf(t: Array, k: Array) -> tuple[Array, Array]:
    """Von Mises cdf as a Fourier series, ½ + t/2π + S/π, S = Σ ρ_j sin(jt)/j, and its slope.

    ρ_j = I_j/I₀. The slope, k times the derivative in k, is (Σ (ρ_j + k ρ_{j+1}/j) sin(jt)
    − k ρ_1 S)/π. Sums are nested, from the last term down, with the ratios ρ_j/ρ_{j−1}
    = 1/(2j/k + ρ_{j+1}/ρ_j).
    """
    sine, cosine, sin_t, cos_t = np.sin(TERMS_CDF * t), np.cos(TERMS_CDF * t), np.sin(t), np.cos(t)
    ratio, S, T = np.zeros(k.shape), np.zeros(k.shape), np.zeros(k.shape)
    twice = 2.0 / np.maximum(k, 1e-300)
    for j in range(TERMS_CDF, 0, -1):
        new = 1.0 / (j * twice + ratio)
        S = new * (sine / j + S)
        T = new * (sine * (1.0 + k * ratio / j) + T)
        ratio = new
        sine, cosine = sine * cos_t - cosine * sin_t, cosine * cos_t + sine * sin_t
    return 0.5 + (0.5 * t + S) / np.pi, (T - k * ratio * S) / np.pi


def _narrow_cdf(t: Array, k: Array) -> tuple[Array, Array]:
    """Von Mises cdf of a large concentration k, and its slope, by incomplete gamma functions.

    The cdf is ½ ± Σ_j c_j (2k)^{−j−½} γ(j + ½, x)/(2π e^{−k} I₀(k)) with x = 2k sin²(t/2), since it
    is ∫ e^{−2k s²} 2 ds/√(1 − s²) over s = |sin(t/2)|, where the square root is a power series with
    c_j = C(2j, j)/4^j. The slope has γ(j + 3/2, x) in the place of γ(j + ½, x), and −k times
    the derivative of log(e^{−k} I₀(k)). Incomplete gamma functions come from the last one down,
    γ(a, x) = (γ(a + 1, x) + x^a e^{−x})/a, in which nothing cancels.
    """
    k = np.minimum(k, 1e300)
    x = 2.0 * k * np.sin(0.5 * t) ** 2
    with np.errstate(divide="ignore"):
        log_x = np.log(x)
    above = gamma(TERMS + 0.5) * gammainc(TERMS + 0.5, x)
    c = np.cumprod([1.0, *((2.0 * j + 1.0) / (2.0 * j + 2.0) for j in range(TERMS - 1))])
    total, moved = np.zeros(t.shape), np.zeros(t.shape)
    for j in range(TERMS - 1, -1, -1):
        a = j + 0.5
        own = (above + np.exp(a * log_x - x)) / a
        total, moved = total / (2.0 * k) + c[j] * own, moved / (2.0 * k) + c[j] * above
        above = own
    whole = 2.0 * np.pi * np.sqrt(2.0 * k) * i0e(k)
    half = np.sign(t) * total / whole
    return 0.5 + half, -np.sign(t) * moved / whole - log_i0e(k)[1] * half


def centred_quantile(q: Array, k: Array) -> Array:
    """Von Mises quantile, the inverse of `centred_cdf`, by Newton's steps and bisection."""
    q, k = np.broadcast_arrays(np.asarray(q, dtype=float), np.asarray(k, dtype=float))
    shape, q, k = q.shape, q.ravel(), k.ravel()
    low, high = np.full(q.shape, -np.pi), np.full(q.shape, np.pi)
    with np.errstate(all="ignore"):
        # For a large k, 2 √k sin(t/2) is nearly normal; for a small one t is nearly uniform.
        normal = 2.0 * np.arcsin(np.clip(0.5 * ndtri(q) / np.sqrt(k), -1.0, 1.0))
        t = np.where(k > 1.0, normal, 2.0 * np.pi * (q - 0.5))
    t = np.where(np.isfinite(t), t, 0.0)
    todo = np.flatnonzero((q > 0.0) & (q < 1.0))
    for _ in range(STEPS):
        if not todo.size:
            break
        now, own = t[todo], k[todo]
        excess = centred_cdf(now, own) - q[todo]
        low[todo] = np.where(excess < 0.0, now, low[todo])
        high[todo] = np.where(excess < 0.0, high[todo], now)
        with np.errstate(all="ignore"):
            density = np.exp(-2.0 * own * np.sin(0.5 * now) ** 2) / (2.0 * np.pi * i0e(own))
            newton = now - excess / density
        inside = (newton >= low[todo]) & (newton <= high[todo])
        t[todo] = np.where(inside, newton, 0.5 * (low[todo] + high[todo]))
        small = np.abs(t[todo] - now) <= 1e-13 * np.minimum(np.pi, 1.0 / np.sqrt(own + 1e-3))
        todo = todo[~small]
    return np.where(q <= 0.0, -np.pi, np.where(q >= 1.0, np.pi, t)).reshape(shape)


def linear_moments(centre: Array, k: Array) -> tuple[Array, Array]:
    """Mean and variance of a von Mises y as a number from −π to π, for a direction `centre`.

    With ρ_j = I_j(k)/I₀(k), E y = −2 Σ (−1)^j ρ_j sin(j c)/j and E y² = π²/3 + 4 Σ (−1)^j ρ_j
    cos(j c)/j². For concentrations above FEW they are integrals over the few angles that matter.
    """
    centre, k = np.broadcast_arrays(np.asarray(centre, dtype=float), np.asarray(k, dtype=float))
    few, first, second = k < FEW, np.empty(k.shape), np.empty(k.shape)
    first[few], second[few] = _fourier_moments(centre[few], k[few])
    first[~few], second[~few] = _narrow_moments(centre[~few], np.minimum(k[~few], 1e15))
    return first, np.maximum(second - first * first, 0.0)


def _fourier_moments(c: Array, k: Array) -> tuple[Array, Array]:
    """E y and E y² of a von Mises by Fourier series, summed from the last term down."""
    ratio, sines, cosines = np.zeros(k.shape), np.zeros(k.shape), np.zeros(k.shape)
    k2 = 2.0 / np.maximum(k, 1e-300)
    back, power = -np.exp(-1j * c), (-1) ** HARMONICS * np.exp(1j * HARMONICS * c)
    for j in range(HARMONICS, 0, -1):
        ratio = 1.0 / (j * k2 + ratio)
        sines = ratio * (power.imag / j + sines)
        cosines = ratio * (power.real / j**2 + cosines)
        power *= back  # It is (−1)^j e^{ijc}.
    return -2.0 * sines, np.pi**2 / 3.0 + 4.0 * cosines


def _narrow_moments(c: Array, k: Array) -> tuple[Array, Array]:
    """E y and E y² of a von Mises of large concentration, by integrals over r = y − c."""
    c, side = np.abs(c), np.sign(c)
    reach = np.minimum(10.0 / np.sqrt(k), np.pi)
    end = np.minimum(np.pi - c, reach)  # Beyond it y is r + c − 2π.
    x, w = np.polynomial.legendre.leggauss(48)
    first, second = np.zeros(k.shape), np.zeros(k.shape)
    for low, high, turn in ((-reach, end, 0.0), (end, reach, 2.0 * np.pi)):
        half = 0.5 * (high - low)
        r = low + half * (1.0 + x.reshape((-1,) + (1,) * k.ndim))
        p = np.exp(-2.0 * k * np.sin(0.5 * r) ** 2) / (2.0 * np.pi * i0e(k)) * half
        y = r + c - turn
        first += np.tensordot(w, p * y, 1)
        second += np.tensordot(w, p * y * y, 1)
    return np.where(side < 0.0, -first, first), second
