"""Quadrature, integrals against a Gaussian: E[h(f_1, …, f_b)], f ~ N(m, V), V full or diagonal.

A `Rule` holds nodes x and weights w of the standard normal in broadcasting form: on a product
grid latent f has shape (h, 1, n) and g (1, h, n), so a function of g alone costs h·n, not h²·n.
Correlated latents are f = m + R x with the Cholesky factor R of V = R Rᵀ: the grid is rotated.
Everything is float64, deterministic, cached and immutable, and works in blocks of rows, so that
memory is bounded whatever n is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri

BLOCK = 2**14
"""This many nodes times rows are evaluated at once: the half dozen temporaries of a density stay in
cache, and arrays below 128 kB are reused without asking the system for new pages."""

VARIANCE_FLOOR = 1e-20
"""Smallest variance of a latent at which nodes are placed; smaller ones are raised to it. Values
are then those of the limit v → 0 to rounding; dE/dv = ½ E[∂²], a difference over 1e-10, is right to
about 1e-6."""


PIVOT_FLOOR = 1e-14
"""Smallest conditional variance of a latent given the others of its row, as a share of its own
variance: V itself has rounding errors of about this size."""


@lru_cache(maxsize=64)
def gauss_hermite(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite nodes and weights, (n,) each; Σ w h(x) = E[h(N(0, 1))] for degree < 2n."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return _frozen(x), _frozen(w / w.sum())


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array, dtype=np.float64)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Rule:
    """A quadrature rule: nodes and weights of N(0, I_b) in broadcasting form.

    x: b arrays that broadcast to `weights`, with a trailing axis for rows: (h, 1, 1), (1, h, 1)
    on a grid, (s, 1) each for scattered nodes. weights: (h, h, 1) or (s, 1), summing to one.
    """

    x: tuple[np.ndarray, ...]
    weights: np.ndarray
    _value_and_slope: tuple[np.ndarray, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Every derivative needs two sums over the nodes, weighted by w and by w·x_j: (2, h, h).
        pairs = [np.stack([self.weights[..., 0], (self.weights * x)[..., 0]]) for x in self.x]
        object.__setattr__(self, "_value_and_slope", tuple(_frozen(p) for p in pairs))

    @cached_property
    def _value_and_slopes(self) -> np.ndarray:
        """Weights w, w·x_1, …, w·x_b of quadrature sums of correlated latents, (1 + b, h, h)."""
        slopes = [(self.weights * x)[..., 0] for x in self.x]
        return _frozen(np.stack([self.weights[..., 0], *slopes]))

    @cached_property
    def _hermite(self) -> np.ndarray:
        """Weights w, w x_j, w (x_j² − 1), then w x_j x_k for k < j: (1 + 2b + b(b − 1)/2, h, h)."""
        x, b = self.x, len(self.x)
        below = [x[j] * x[k] for j in range(b) for k in range(j)]
        rows = [np.ones(1), *x, *(xj * xj - 1.0 for xj in x), *below]
        return _frozen(np.stack([(self.weights * row)[..., 0] for row in rows]))

    @property
    def size(self) -> int:
        """Number of nodes of the whole quadrature rule."""
        return self.weights.size

    def expand(self, means: np.ndarray, variances: np.ndarray) -> list[np.ndarray]:
        """Latents at the quadrature nodes, f_j = m_j + sqrt(v_j) x_j: b arrays such as (h, 1, n).

        variances (n, b), or covariances (n, b, b): then f_j = m_j + Σ_{k ≤ j} R_jk x_k.
        """
        if variances.ndim == 3:
            return self.rotate(means, cholesky_factors(variances))
        scale = np.sqrt(np.maximum(variances, VARIANCE_FLOOR))
        return [means[:, j] + scale[:, j] * x for j, x in enumerate(self.x)]

    def rotate(self, means: np.ndarray, R: np.ndarray) -> list[np.ndarray]:
        """Latents at rotated nodes, f_j = m_j + Σ_{k ≤ j} R_jk x_k: such as (h, 1, n), (h, h, n).

        means (n, b), R (b, b, n) lower triangular, or its diagonal (b, n).
        """
        b = len(self.x)
        if R.ndim == 2:
            return [means[:, j] + R[j] * x for j, x in enumerate(self.x)]
        return [
            sum((R[j, k] * self.x[k] for k in range(j)), start=means[:, j] + R[j, j] * self.x[j])
            for j in range(b)
        ]

    def sums(self, values: np.ndarray, j: int | None = 0) -> np.ndarray:
        """Quadrature sums Σ w a and Σ w x_j a, (2, n), of an a that broadcasts to (h, h, n).

        j : None for the slopes of all latents, Σ w a, Σ w x_1 a, …, Σ w x_b a (1 + b, n).

        An array that does not vary along a node axis is not expanded: the weights are summed.
        """
        return self._summed(
            self._value_and_slopes if j is None else self._value_and_slope[j], values
        )

    def hermite_sums(self, values: np.ndarray, pairs: bool) -> np.ndarray:
        """Quadrature sums with Hermite polynomials: Σ w a, Σ w x_j a and Σ w (x_j² − 1) a.

        pairs : whether Σ w x_j x_k a, k < j, come after them. Returns (1 + 2b, n), or b(b − 1)/2
            more.
        """
        return self._summed(self._hermite[: None if pairs else 1 + 2 * len(self.x)], values)

    def _summed(self, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Quadrature sums over the nodes with each of the weights (k, h, h): (k, n)."""
        grid = self.weights.shape[:-1]
        values = values.reshape((1,) * (len(grid) + 1 - values.ndim) + values.shape)
        flat = tuple(k + 1 for k, size in enumerate(values.shape[:-1]) if size != grid[k])
        if flat:
            weights = weights.sum(axis=flat, keepdims=True)
        return weights.reshape(len(weights), -1) @ values.reshape(-1, values.shape[-1])


@lru_cache(maxsize=64)
def product_rule(dim: int, nodes: int, lightest: float = 0.0) -> Rule:
    """Product Gauss–Hermite grid, `nodes` in each dimension, but those lighter than `lightest`."""
    x, w = gauss_hermite(nodes)
    if lightest:
        x, w = x[w > lightest], w[w > lightest]
        w = w / w.sum()
    shapes = [tuple(x.size if k == j else 1 for k in range(dim)) + (1,) for j in range(dim)]
    weights = np.ones((1,) * (dim + 1))
    for shape in shapes:
        weights = weights * w.reshape(shape)
    return Rule(tuple(_frozen(x.reshape(shape)) for shape in shapes), _frozen(weights))


@lru_cache(maxsize=16)
def sobol_rule(dim: int, count: int) -> Rule:
    """Scrambled Sobol nodes in `dim` dimensions, deterministic: `count`, or the next power of two.

    Every coordinate has one point in each of its equal cells; it is moved to the middle of the
    cell, so that no stray point in a tail spoils the moments. Half of the nodes mirror the other
    half and the whole is whitened: polynomials of degree 3 in all latents are exact.
    """
    from scipy.stats import qmc  # scipy.stats is slow to import and rarely needed

    half = max(1, int(np.ceil(np.log2(count))) - 1)
    uniform = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(0)).random_base2(half)
    nodes = ndtri((np.floor(uniform * len(uniform)) + 0.5) / len(uniform))
    nodes = np.concatenate([nodes, -nodes])
    if len(uniform) > dim:
        nodes = np.linalg.solve(np.linalg.cholesky(nodes.T @ nodes / len(nodes)), nodes.T).T
    count = len(nodes)
    x = tuple(_frozen(column[:, None]) for column in nodes.T)
    return Rule(x, _frozen(np.full((count, 1), 1.0 / count)))


def rule_for(dim: int, nodes: int, lightest: float = 0.0) -> Rule:
    """Quadrature rule of `dim` latents: a product grid, or about nodes³ Sobol nodes.

    Grids are for up to 3 latents, and for 4 where they have no more than 9 nodes per dimension.
    """
    grid = dim <= 3 or (dim == 4 and nodes <= 9)
    return product_rule(dim, nodes, lightest) if grid else sobol_rule(dim, nodes**3)


def row_blocks(n: int, nodes: int) -> Iterator[slice]:
    """Slices of rows for quadrature, such that nodes × rows of a slice stays near `BLOCK`."""
    step = max(1, BLOCK // nodes)
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def expectation(
    log_p: Callable[..., np.ndarray],
    dlog_p: Callable[..., tuple[np.ndarray, ...]],
    means: np.ndarray,
    variances: np.ndarray,
    rule: Rule,
    num_extra: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """E = Σ_k w_k log p(m + sqrt(v) x_k) per row and the exact gradient of that sum.

    dE/dm_j = Σ w ∂_j log p and dE/dv_j = Σ w ∂_j log p · x_j / (2 sqrt(v_j)): the paper's
    E[½ ∂_j² log p] integrated by parts (Saul et al. 2016, eqs. 11 and 12). With covariances
    V = R Rᵀ nodes are m + R x_k, and dE/dR_jk = Σ w ∂_j log p · x_k gives dE/dV.

    Parameters
    ----------
    log_p, dlog_p : callables
        Called as log_p(rows, *latents), rows a slice and latents the rule's broadcasting arrays;
        dlog_p returns the b derivatives, then `num_extra` others (in parameters).
    means : (n, b)
        m_j of each row.
    variances : (n, b) or (n, b, b)
        v_j of each row, or the covariances V_jk.
    rule : Rule
        Nodes and weights in b dimensions.
    num_extra : int
        How many derivatives dlog_p returns beyond b.

    Returns
    -------
    value (n,), dmeans (n, b), dvariances of the shape of variances, extra (n, num_extra). With
    covariances dE = Σ_jk (dvariances)_jk dV_jk, symmetric.
    """
    n, b = means.shape
    if variances.ndim == 3:
        return rotated_expectation(
            lambda rows, *f: (log_p(rows, *f), *dlog_p(rows, *f)), means, variances, rule, num_extra
        )
    value, dmeans, dvariances = np.empty(n), np.empty((b, n)), np.empty((b, n))
    extra = np.empty((num_extra, n))
    half_inverse = 0.5 / np.sqrt(np.maximum(variances, VARIANCE_FLOOR))
    with np.errstate(all="ignore"):  # −inf is a legitimate log-density; the caller judges it
        for rows in row_blocks(n, rule.size):
            latents = rule.expand(means[rows], variances[rows])
            value[rows] = rule.sums(log_p(rows, *latents))[0]
            for j, derivative in enumerate(dlog_p(rows, *latents)):
                if j < b:
                    dmeans[j, rows], slope = rule.sums(derivative, j)
                    dvariances[j, rows] = slope * half_inverse[rows, j]
                else:
                    extra[j - b, rows] = rule.sums(derivative)[0]
    return value, dmeans.T, dvariances.T, extra.T


def rotated_expectation(
    both: Callable[..., tuple[np.ndarray, ...]],
    means: np.ndarray,
    covariances: np.ndarray,
    rule: Rule,
    num_extra: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Quadrature of correlated latents: `expectation` with covariances (n, b, b), on rotated grids.

    both(rows, *latents) -> log p, its derivatives.
    """
    R = cholesky_factors(covariances)
    value, dmeans, dR, extra = _rotated_sums(both, means, R, rule, num_extra)
    return value, dmeans.T, _through_cholesky(R, dR), extra.T


def _rotated_sums(
    both: Callable[..., tuple[np.ndarray, ...]],
    means: np.ndarray,
    R: np.ndarray,
    rule: Rule,
    num_extra: int,
) -> tuple[np.ndarray, ...]:
    """Sums over rotated nodes m + R x: value (n,), d/dmeans (b, n), d/dR (b, b, n), extra."""
    n, b = means.shape
    value, dmeans, extra = np.empty(n), np.empty((b, n)), np.empty((num_extra, n))
    dR = np.zeros((b, b, n))
    with np.errstate(all="ignore"):  # −inf is a legitimate log-density; the caller judges it
        for rows in row_blocks(n, rule.size):
            latents = rule.rotate(means[rows], R[..., rows])
            log_p, *derivatives = both(rows, *latents)
            value[rows] = rule.sums(log_p)[0]
            for j, derivative in enumerate(derivatives):
                if j < b:
                    sums = rule.sums(derivative, None)
                    dmeans[j, rows], dR[j, : j + 1, rows] = sums[0], sums[1 : j + 2]
                else:
                    extra[j - b, rows] = rule.sums(derivative)[0]
    return value, dmeans, dR, extra


def expectation_exact_in_last(
    both: Callable[..., tuple[np.ndarray, ...]],
    means: np.ndarray,
    variances: np.ndarray,
    nodes: int,
    num_extra: int,
    lightest: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Quadrature of a function whose integral over the last latent, given the others, is exact.

    both(rows, spread, *latents) -> the integral at the nodes of the others, its derivatives in all
    latents and `num_extra` others, and last that in `spread`. The last of `latents` is its mean
    given the others, `spread` (n,) its variance.

    means (n, b), variances (n, b) or covariances (n, b, b), nodes per dimension of b − 1.
    lightest : nodes of a dimension that weigh less are left out, if the integrand grows slowly.
    """
    single, R = variances.ndim == 2, scales(variances)
    last = R[-1] if single else R[-1, -1]
    spread, rule = last * last, _last_at_mean(means.shape[1], nodes, lightest)
    value, dmeans, dR, extra = _rotated_sums(
        lambda rows, *f: both(rows, spread[rows], *f), means, R, rule, num_extra + 1
    )
    dR[-1, -1] = 2.0 * last * extra[-1]
    dV = 0.5 * (np.einsum("jjn->jn", dR) / R).T if single else _through_cholesky(R, dR)
    return value, dmeans.T, dV, extra[:-1].T


@lru_cache(maxsize=64)
def _last_at_mean(dim: int, nodes: int, lightest: float) -> Rule:
    """The quadrature rule of dim − 1 latents, with one more that has a single node at 0."""
    rule = rule_for(dim - 1, nodes, lightest) if dim > 1 else product_rule(1, 1)
    return Rule((*rule.x[: dim - 1], _frozen(np.zeros((1,) * rule.weights.ndim))), rule.weights)


def cholesky_factors(V: np.ndarray) -> np.ndarray:
    """Cholesky factors R (b, b, n), rows last, of each row's covariances: V = R Rᵀ, V (n, b, b).

    A pivot below its floor, as rounding can make it, is raised to it.
    """
    b = V.shape[1]
    R = np.zeros((b, b, len(V)))
    for j in range(b):
        for k in range(j + 1):
            rest = V[:, j, k] - np.einsum("in,in->n", R[j, :k], R[k, :k])
            if k == j:
                floor = np.maximum(VARIANCE_FLOOR, PIVOT_FLOOR * V[:, j, j])
                R[j, j] = np.sqrt(np.maximum(rest, floor))
            else:
                R[j, k] = rest / R[k, k]
    return R


def widened(V: np.ndarray) -> np.ndarray:
    """Variances v_j Σ_k |ρ_jk| (n, b) of V (n, b, b), by which a rotated grid gets its nodes."""
    variances = np.einsum("njj->nj", V)
    sds = np.sqrt(np.maximum(variances, VARIANCE_FLOOR))
    return variances * np.abs(V / (sds[:, :, None] * sds[:, None, :])).sum(axis=2)


def _through_cholesky(R: np.ndarray, dR: np.ndarray) -> np.ndarray:
    """Symmetric dE/dV (n, b, b) from dE/dR (b, b, n), V = R Rᵀ: ½ R⁻ᵀ (P + Pᵀ) R⁻¹.

    P is the lower triangle of Rᵀ dE/dR with half its diagonal.
    """
    b = len(R)
    P = np.einsum("kin,kjn->nij", R, dR) * np.tril(np.full((b, b), 0.5) - 0.25 * np.eye(b))[None]
    R_inv = np.linalg.inv(R.transpose(2, 0, 1))
    return R_inv.swapaxes(1, 2) @ (P + P.swapaxes(1, 2)) @ R_inv


def scales(variances: np.ndarray) -> np.ndarray:
    """Scales R (b, n) of quadrature nodes from variances (n, b), or (b, b, n) from covariances."""
    if variances.ndim == 3:
        return cholesky_factors(variances)
    return np.sqrt(np.maximum(variances.T, VARIANCE_FLOOR))
