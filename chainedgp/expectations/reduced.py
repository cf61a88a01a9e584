"""Reduced forms of E[log p]: expectations of functions of one Gaussian, or of a sum of log-normals.

Functions of one Gaussian are sums over Gauss–Hermite nodes. Functions of a sum of log-normal
variables are one-dimensional too: for independent f_k ~ N(m_k, v_k) the sum s = Σ_k e^{f_k} has a
Laplace transform that factorises, E e^{−ts} = Π_k E e^{−t e^{f_k}}. A function that is an integral
over it,

    log s = ∫ (e^{−t} − e^{−ts}) dt/t,      ρ(s) = ∫ k(t) e^{−ts} dt/t

(ρ Binet's function, k(t) = ½ coth(t/2) − 1/t), needs K · nodes · (points in t) exponentials
instead of nodes^K. With t = e^u the trapezoidal rule in u converges geometrically (the integrands
are analytic for |Im u| < π/2): the result is, to 1e-8, the sum over the product grid of
Gauss–Hermite nodes, and the gradients are those of that sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import erfcx, ndtr

from ..linalg import Array, Indices
from . import quadrature, special
from .closed import expected_log1p_square, expected_softplus

Arrays = tuple[Array, ...]
Moments = tuple[Array, Array, Array]
STEP = np.log(4.0) / 3.0  # Points in u are this far apart: over three steps t grows four times.
START = -8.0  # This is the first point u_0: below it the integrand is quadratic in t.
Q = np.exp(-STEP)
# The first two weights are multiplied by FIRST, which stands for all points below START, where the
# integrand's terms in t and t² are geometric series.
FIRST = np.linalg.solve([[Q, 1.0], [Q * Q, 1.0]], [1.0 / (1.0 - Q), 1.0 / (1.0 - Q * Q)])
LOG_SUM_LIMITS = (0.38, 0.9, 1.8, 3.6, 6.4, 10.3, 14.4)
"""Largest variance at which each of `levels.LEVELS` gives E log Σ e^f to 1e-6."""
LIGHTEST = 1e-12  # Nodes of less weight are left out: half of 64 are, and nothing changes.
# E log Σ e^f of at most this many correlated terms is integrated over their differences.
MOST_DIFFERENCES = 4
RESTART = 36  # After this many points exponentials are computed anew: squaring adds up rounding.


def nodes_of(mean: Array, variance: Array, nodes: int) -> tuple[Array, Array, Array]:
    """The Gauss–Hermite nodes and weights of N(mean, variance), (n,) each.

    Returns the nodes (h, n) and two sets of weights: those of E, (h,), and those that make
    dE/dvariance of a derivative dh/df at the nodes, (h, n).
    """
    x, w = quadrature.gauss_hermite(nodes)
    sd = np.sqrt(np.maximum(variance, quadrature.VARIANCE_FLOOR))
    return mean + sd * x[:, None], w, (w * x)[:, None] * (0.5 / sd)


def expected_of_exp(
    function: Callable[[Array], tuple[Array, Array]], mean: Array, variance: Array, nodes: int
) -> Moments:
    """E h(e^g), g ~ N(mean, variance), (n,) each, with derivatives in mean and variance, by nodes.

    function: x -> h(x) and x h′(x).
    """
    g, w, dw = nodes_of(mean, variance, nodes)
    value, slope = function(np.exp(g))
    return w @ value, w @ slope, np.einsum("hn,hn->n", dw, slope)


class Conditional:
    """For reduced forms: f given the Gauss–Hermite nodes of g, for jointly Gaussian f and g.

    With c = cov(f, g) and β = c/v_g, f | g ~ N(m_f + β (g − m_g), v_f − β c). If c is None, f and g
    are independent.

    g: the nodes (h, n). mean: of f given g, (h, n) or (n,). variance: of f given g, (n,).
    """

    def __init__(self, f: Arrays, g: Arrays, c: Array | None, nodes: int) -> None:
        (self.mean, self.variance), self.beta = f, None
        self.g, self.w, self.dw = nodes_of(g[0], g[1], nodes)
        if c is not None:
            self.beta = c / np.maximum(g[1], quadrature.VARIANCE_FLOOR)
            self.mean = self.mean + self.beta * (self.g - g[0])
            self.variance = np.maximum(self.variance - self.beta * c, 0.0)

    def averages(self, parts: Arrays, rows: Indices | slice = slice(None)) -> Array:
        """Reduced form E φ and its derivatives in m_f, v_f, m_g, v_g and c, (6, rows); c None: 5.

        parts: φ = E[h | g] at the nodes, (h, rows), and its derivatives in `mean`, `variance`, g.
        """
        dw, beta = self.dw[:, rows], self.beta
        out = np.empty((5 if beta is None else 6, dw.shape[1]))
        for k, part in enumerate(parts):
            out[k] = self.w @ part
        out[4] = np.einsum("hn,hn->n", dw, parts[3])
        if beta is not None:
            beta, pull = beta[rows], 2.0 * np.einsum("hn,hn->n", dw, parts[1])
            out[4] += beta * (beta * out[2] - 0.5 * pull)
            out[5] = pull - 2.0 * beta * out[2]
        return out


def lean(V: Array, log_width2: Array) -> Array:
    """How far f moves with one sd of g, in widths of a reduced form's integrand, (n,).

    It is √(ρ² v_f/(w² + (1 − ρ²) v_f)): at the nodes of g a function of f of width w is averaged
    over f | g. The number of nodes depends on it. V (n, 2, 2): covariance of f and g. log_width2:
    log w² (n,).
    """
    v_f, v_g, c = V[:, 0, 0], np.maximum(V[:, 1, 1], quadrature.VARIANCE_FLOOR), V[:, 0, 1]
    moved = np.minimum(c * c / v_g, v_f)
    width2 = np.exp(np.clip(log_width2, -600.0, 600.0)) + quadrature.VARIANCE_FLOOR
    return np.sqrt(moved / (width2 + v_f - moved))


def expected_log_tail(x: Arrays, t: Arrays, c: Array | None, nodes: int) -> Array:
    """Reduced Student-t integral: E log(1 + x² e^{−t}) of Gaussian x and t, and its derivatives.

    Exact in x, by `nodes` Gauss–Hermite nodes in t. x, t: mean and variance (n,) of each. c: their
    covariance, or None. The result is as of `Conditional.averages`: (6, n), without c (5, n).
    """
    given = Conditional(x, t, c, nodes)
    scale = np.exp(-0.5 * given.g)  # (h, n)
    scale2 = scale * scale
    delta, kappa = given.mean * scale, given.variance * scale2
    term, ddelta, dkappa = expected_log1p_square(delta, kappa)
    delta *= ddelta
    kappa *= dkappa
    slope = -0.5 * delta - kappa  # the derivative in t
    ddelta *= scale
    dkappa *= scale2
    return given.averages((term, ddelta, dkappa, slope))


def expected_hazard_sum(
    hazard: Callable[..., Moments],
    terms: Sequence[tuple[Array, ...]],
    f: Arrays,
    g: Arrays,
    c: Array | None,
    nodes: int,
) -> Array:
    """Reduced survival integral: E Σ above · H(a) − below · log H′(a), a = e^g (x − f), and slopes.

    H is a cumulative hazard. Exact in f, by `nodes` Gauss–Hermite nodes in g. terms: (above, below,
    x), (n,) each. f, g: mean and variance (n,) of each. c: their covariance or None. Returns value
    and derivatives as `Conditional.averages` has them, (6, n) or (5, n).

    hazard : (mu, spread, above, below) -> the expectation for a ~ N(mu, spread), of shapes (h, n),
        and its derivatives in mu and spread, in arrays of their own.
    """
    given = Conditional(f, g, c, nodes)
    scale = np.exp(given.g)  # (h, n)
    total = np.zeros((5 if c is None else 6, f[0].size))
    for above, below, x in terms:
        used = np.flatnonzero(above + below)
        e = scale[:, used]
        mu, spread = e * (x - given.mean)[..., used], e * e * given.variance[used]
        term, dmu, dspread = hazard(mu, spread, above[used], below[used])
        mu *= dmu
        spread *= dspread
        slope = mu + 2.0 * spread  # the derivative in g
        dmu *= -e
        dspread *= e * e
        total[:, used] += given.averages((term, dmu, dspread, slope), used)
    return total


def logistic_hazard(mu: Array, spread: Array, above: Array, below: Array) -> Moments:
    """Expected `hazard` of a logistic variable: H(a) = softplus(a), log H′(a) = −softplus(−a)."""
    term, dmu, dspread = expected_softplus(mu, spread, terms=12)
    for part in (term, dmu, dspread):
        part *= above + below
    term -= below * mu  # softplus(−a) = softplus(a) − a
    dmu -= below
    return term, dmu, dspread


def gumbel_hazard(mu: Array, spread: Array, above: Array, below: Array, *, cap: float) -> Moments:
    """Expected `hazard` of a Gumbel: H(a) = e^a, straight from cap on; H′(a) = e^min(a, cap).

    With c = (cap − mu)/sd, T = E max(a − cap, 0) and E₁ = E[e^a; a < cap]:
    E H = E₁ + e^cap (T + Φ(−c)) and E log H′ = mu − T.
    """
    sd = np.sqrt(np.maximum(spread, quadrature.VARIANCE_FLOOR))
    c = (cap - mu) / sd
    beyond, peak = ndtr(-c), np.exp(-0.5 * c * c - special.HALF_LOG_2PI)
    T = sd * peak - (cap - mu) * beyond
    shift = c - sd  # E₁ = exp(mu + spread/2) Φ(shift) = ½ exp(cap − c²/2) erfcx(−shift/√2)
    near = np.exp(np.minimum(mu + 0.5 * spread, cap)) * ndtr(shift)
    far = np.exp(cap - 0.5 * c * c) * erfcx(np.maximum(-shift, 0.0) * np.sqrt(0.5)) * 0.5
    E1, top = np.where(shift > 0.0, near, far), np.exp(cap)
    return (
        above * (E1 + top * (T + beyond)) - below * (mu - T),
        above * (E1 + top * beyond) - below * (1.0 - beyond),
        0.5 * (above * E1 + below * peak / sd),
    )


def expected_log_sum(
    log_a: Callable[..., tuple[Array, ...]],
    means: Array,
    variances: Array,
    nodes: int,
    num_extra: int = 0,
    lightest: float = 0.0,
) -> tuple[Array, Array, Array, Array]:
    """E log(a(f_1, …, f_{b−1}) + e^{f_b}), with derivatives: exact in f_b, by nodes in the others.

    The last latent is Gaussian given the others, so that its part is E softplus(log a − f_b).

    log_a : (rows, f_1, …, f_{b−1}) -> log a, its b − 1 derivatives, then `num_extra` others.
    means (n, b), variances (n, b) or covariances (n, b, b). Returns value (n,), d/dmeans (n, b),
    d/dvariances of the shape of variances, and the other derivatives (n, num_extra).
    """

    def both(rows: slice, spread: Array, *latents: Array) -> tuple[Array, ...]:
        *others, h = latents
        size, *slopes = log_a(rows, *others)
        value, slope, bend = expected_softplus(size - h, spread)
        first, rest = slopes[: len(others)], slopes[len(others) :]
        own = [slope * d for d in (*first, *rest)]
        return h + value, *own[: len(others)], 1.0 - slope, *own[len(others) :], bend

    return quadrature.expectation_exact_in_last(both, means, variances, nodes, num_extra, lightest)


def expected_log_sum_exp(means: Array, variances: Array, nodes: int) -> tuple[Array, Array, Array]:
    """E log Σ_k e^{f_k} of Gaussian f_k, the reduced softmax integral, with derivatives.

    means, variances: (n, K). Returns value (n,), d/dmeans (K, n), d/dvariances (K, n): as on the
    grid of `nodes` per dimension, for K = 2 exact. With covariances (n, K, K) the Laplace transform
    of the sum does not factorise: `expected_log_sum` is used, for K = 3 and 4 on differences of the
    f_k, which have one dimension less; d/dcovariances is (K, K, n).
    """
    if means.shape[1] == 2:
        apart = np.array([-1.0, 1.0])  # f_2 − f_1 is Gaussian
        spread = variances.sum(axis=1) if variances.ndim == 2 else apart @ variances @ apart
        value, slope, bend = expected_softplus(means @ apart, spread)
        dV = np.ones((2, 1)) if variances.ndim == 2 else np.outer(apart, apart)[:, :, None]
        return means[:, 0] + value, np.stack([1.0 - slope, slope]), dV * bend
    if variances.ndim == 3 and means.shape[1] <= MOST_DIFFERENCES:
        return _by_differences(means, variances, nodes)
    if variances.ndim == 3:
        value, *slopes, _ = expected_log_sum(
            lambda rows, *f: _with_shares(f), means, variances, nodes
        )
        return value, slopes[0].T, np.moveaxis(slopes[1], 0, -1)
    value, dmeans, dvariances, size = _sums(means, variances, nodes, None, -np.inf)
    return size - value, -dmeans, -dvariances


def _by_differences(means: Array, V: Array, nodes: int) -> tuple[Array, Array, Array]:
    """E log Σ_k e^{f_k} of covariances V (n, K, K), K = 3 or 4, by differences of the f_k.

    It is m_r + E log(1 + Σ_{k≠r} e^{d_k}) with d_k = f_k − f_r, exact in the last d. That leaves
    K − 2 dimensions, of 2 · `nodes` each because differences are wider than the f_k.
    """
    order = _order(V)[1]
    each, K = np.arange(len(V))[:, None], V.shape[1]
    B = np.eye(K)[:-1] - np.eye(K)[-1]  # d = B f, the reference last
    m = means[each, order]
    C = B @ V[each[:, :, None], order[:, :, None], order[:, None, :]] @ B.T
    value, slopes, G, _ = expected_log_sum(_one_more, m @ B.T, C, 2 * nodes, lightest=LIGHTEST)
    dmeans, dV = np.empty_like(means), np.empty_like(V)
    own = slopes @ B
    own[:, -1] += 1.0
    dmeans[each, order] = own
    dV[each[:, :, None], order[:, :, None], order[:, None, :]] = B.T @ G @ B
    return m[:, -1] + value, dmeans.T, np.moveaxis(dV, 0, -1)


def _one_more(rows: slice, *d: Array) -> tuple[Array, ...]:
    """log(1 + Σ eᵈ) and its derivatives, for the reduced softmax integral by differences."""
    value, shares = special.log_total([np.zeros(1), *d])
    return value, *shares[1:]


def _order(V: Array) -> tuple[Array, Indices]:
    """The score (n,) of `log_sum_score`, and the order of the terms (n, K) with the reference last.

    With three terms, the difference whose nodes give the least score is the axis of the nodes.
    """
    K = V.shape[1]
    orders = np.array([(0, 1, 2), (0, 2, 1), (1, 0, 2)] if K == 3 else [range(K)])
    B = np.eye(K)[:-1] - np.eye(K)[-1]
    scores = []
    for order in orders:
        R = quadrature.cholesky_factors(B @ V[:, order][:, :, order] @ B.T)[:, :-1]
        angles = np.concatenate([R, np.zeros((1, *R.shape[1:]))])  # those of d_k, and 0 of f_r
        scores.append(0.5 * np.square(np.ptp(angles, axis=0)).max(axis=0))
    return np.min(scores, axis=0), orders[np.argmin(scores, axis=0)]


def log_sum_score(V: Array) -> Array:
    """The score (n,) that `LOG_SUM_LIMITS` bound, for E log Σ e^{f_k} of covariances V (n, K, K).

    Along an axis of the nodes of `_by_differences` the angle between two terms grows as the
    difference of their slopes. The score is the square of the largest, halved because there are
    twice the nodes.
    """
    return _order(V)[0] if 2 < V.shape[1] <= MOST_DIFFERENCES else widest_of_sum(V)


def widest_of_sum(V: Array) -> Array:
    """The variance (n,) that decides on the nodes of a function of Σ e^{f_k}, V (n, K, K).

    Singularities lie where the angles of two complex e^{f_k} differ by π. Along an axis of the
    nodes the angles grow as the standard deviations; their difference grows as the sum of these if
    two latents are negatively correlated.
    """
    sd = np.sqrt(np.maximum(np.einsum("njj->nj", V), quadrature.VARIANCE_FLOOR))
    against = np.maximum(-V, 0.0) / sd[:, :, None]  # |ρ_jk| sd_k
    return ((sd + against.sum(axis=2)) ** 2).max(axis=1)


def _with_shares(terms: Sequence[Array]) -> tuple[Array, ...]:
    """log Σ eᶠ and its derivatives, the shares of the terms."""
    value, shares = special.log_total(terms)
    return value, *shares


def expected_stirling_sum(means: Array, variances: Array, nodes: int) -> Moments:
    """E ρ(Σ_k e^{f_k}) with Binet's function ρ, `special.stirling_remainder`, and derivatives.

    It is the part of log-gamma functions of a sum that Stirling's formula leaves. Arguments and
    results are those of `expected_log_sum_exp`. With covariances (n, K, K) it is quadrature.
    """
    if variances.ndim == 2:
        return _sums(means, variances, nodes, _binet_kernel, 0.0)[:3]

    def both(rows: slice, *f: Array) -> tuple[Array, ...]:
        sizes = [np.exp(np.minimum(x, 100.0)) for x in f]  # ρ(e^100) is 0
        total = sum(sizes[1:], sizes[0])
        value, slope = special.stirling_remainder(total)
        slope = slope / total
        return value, *(slope * size for size in sizes)

    rule = quadrature.rule_for(means.shape[1], nodes)
    value, dmeans, G, _ = quadrature.rotated_expectation(both, means, variances, rule)
    return value, dmeans.T, np.moveaxis(G, 0, -1)


def _binet_kernel(t: Array) -> Array:
    """Binet's k(t) = ½ coth(t/2) − 1/t, for t > 0, by its series where the terms would cancel."""
    square = t * t
    near = t * (1 / 12 - square * (1 / 720 - square * (1 / 30240 - square / 1209600)))
    far = np.maximum(t, 0.1)
    with np.errstate(over="ignore"):
        return np.where(t < 0.4, near, 0.5 - 1.0 / far + 1.0 / np.expm1(far))


def _sums(
    means: Array,
    variances: Array,
    nodes: int,
    kernel: Callable[[Array], Array] | None,
    least: float,
) -> tuple[Array, Array, Array, Array]:
    """∫ k(t) Π_k φ_k(t) dt/t over Laplace transforms φ_k(t) = E e^{−t e^{f_k}} of log-normals.

    Without a kernel k it is ∫ (Π φ_k − e^{−t e^c}) dt/t. The points are t_i = e^{u_i − c}, with
    c = log Σ e^{m_k + 1.5 v_k} rounded up and at least `least`, so that below the first point the
    integrand is quadratic in t: a geometric series, which is in the first weights.
    Returns value (n,), d/dmeans, d/dvariances (K, n), c (n,).
    """
    x, w = quadrature.gauss_hermite(nodes)
    x, w = x[w > LIGHTEST], w[w > LIGHTEST]
    w = w / w.sum()
    n, K = means.shape
    sd = np.sqrt(np.maximum(variances.T, quadrature.VARIANCE_FLOOR))
    F = means.T + sd * x[:, None, None]  # (h, K, n)
    if kernel is not None:
        F = np.minimum(F, 100.0)  # ρ(e^100) is 0
    size = means + 1.5 * variances
    top = size.max(axis=1)
    c = top + np.log(np.exp(size.T - top).sum(axis=0))
    c = np.maximum(np.minimum(c, F.max(axis=(0, 1)) + np.log(K)), least)  # no node lies beyond c
    shift = np.ceil(c / STEP).astype(int)
    c = STEP * shift  # a multiple of the step puts the points of all rows on one grid
    # At the last point one of the K factors, hence the product, has fallen to e^{−28}.
    reach = np.minimum(3.35 + np.min(c - F[0], axis=0) - START, 700.0)
    points = 3 * np.ceil(reach / (3.0 * STEP)).astype(int)
    order = np.argsort(points)  # rows that need about as many points are evaluated together
    value, slopes = np.empty(n), np.empty_like(F)
    for block in quadrature.row_blocks(n, 3 * K * w.size):
        rows = order[block]
        index = np.arange(points[rows[-1]])
        t = np.exp(START + STEP * index)
        weights = np.full((t.size, 1), STEP)
        weights[:2, 0] *= FIRST
        scales = np.exp(F[:, :, rows] - c[rows])
        if kernel is None:
            value[rows], slopes[:, :, rows] = _products(t, weights, scales, w)
            value[rows] -= np.exp(-t) @ weights
        else:
            first, last = shift[rows].min(), shift[rows].max()
            table = kernel(np.exp(START + STEP * np.arange(-last, t.size - first)))
            weights = weights * table[index[:, None] + (last - shift[rows])]
            value[rows], slopes[:, :, rows] = _products(t, weights, scales, w)
    slopes = slopes.reshape(w.size, -1)
    dmeans, dvariances = (np.stack([w, w * x]) @ slopes).reshape(2, K, n)
    return value, dmeans, dvariances * (0.5 / sd), c


def _products(t: Array, weights: Array, scales: Array, w: Array) -> tuple[Array, Array]:
    """Sums over t_i of products of Laplace transforms, Σ_i W_i Π_k φ_k(t_i), and their slopes.

    φ_k(t) = Σ_h w_h e^{−t s_hk}. t (U,), weights W (U, n) or (U, 1), scales s (h, K, n), w (h,).
    Returns the sum (n,) and its derivatives in log s_hk, divided by w_h, (h, K, n).
    """
    h, K, n = scales.shape
    value, slopes = np.zeros(n), np.zeros_like(scales)
    powers, rest = np.empty((3, h, K, n)), np.empty((3, K, n))  # powers: e^{−ts} at three t
    for start in range(0, t.size, 3):
        points = slice(start, start + 3)
        if start % RESTART == 0:
            np.exp(-t[points, None, None, None] * scales, out=powers)
        else:  # t is four times that of three points before: the fourth power
            np.square(powers, out=powers)
            np.square(powers, out=powers)
        phi = (w @ powers.reshape(3, h, K * n)).reshape(3, K, n)
        before = [weights[points]]  # W Π_{j<k} φ_j
        for k in range(K):
            before.append(before[-1] * phi[:, k])
        value += before[-1].sum(axis=0)
        after = -t[points, None]
        for k in range(K - 1, -1, -1):  # −t W Π_{j≠k} φ_j
            np.multiply(before[k], after, out=rest[:, k])
            after = after * phi[:, k]
        slopes += np.einsum("ukn,uhkn->hkn", rest, powers)
    return value, slopes * scales
