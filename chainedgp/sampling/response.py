"""How much wider q must be because it is the best Gaussian and not the posterior: linear response.

The Gaussian that maximises a bound is too narrow where the posterior is skewed or bent. Pull at the
posterior with a small force t, p_t(v) ∝ p̂(v) e^{tᵀv}: its mean moves by Cov[v] t, exactly. q finds
its mean much better than its covariance, and so the response of q's mean to a force is a better
covariance than S (Giordano, Broderick and Jordan 2018). At the optimum

    μ = Σ_i P_i g_i(m_i, V_i) + t,    S⁻¹ = I − 2 Σ_i P_i G_i(m_i, V_i) P_iᵀ,
    m_i = mean_i + P_iᵀ μ,            V_i = rest_i + P_iᵀ S P_i,

where the columns of P_i are those of A of row i, one for each latent. Let S = R Rᵀ and U_i = RᵀP_i.
The differentials μ' = R z and S' = R Y Rᵀ then have the linear equations

    z = Rᵀt + Σ_i U_i g_i',    Y = 2 Σ_i U_i G_i' U_iᵀ,
    g_i' = H_i U_iᵀz + (∂g/∂V)[U_iᵀ Y U_i],    G_i' = (∂G/∂m) U_iᵀz + (∂G/∂V)[U_iᵀ Y U_i].

H is the part of ∂g/∂m that S has not taken in already: with a joint q nothing, and with the mean
field what a latent does to another. Y is a sum of U_i G U_iᵀ and is sought among products of pairs
of columns of R, which are turned so that the rows see the first of them most; pairs that the rows
hardly see are left out. What is solved are as many equations as there are pairs. The response is

    μ'/t = R (I − N)⁻¹ Rᵀ,    N = N_mm + N_mV (I − N_VV)⁻¹ N_Vm,

and N has no negative eigenvalues within a group of latents, so that something is added to S.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import NumericalError
from ..inference.problem import Problem
from ..linalg import Array, Indices, one_blas_thread
from .density import LogJoint, whitened_q

# Derivatives in V are second derivatives in m, ∂E/∂V = ½ ∂²E/∂m², which are differences over this
# share of a standard deviation.
STEP = 0.05
# Pairs of directions of v are left out where the rows see less than this share of the first one.
SEEN = 3e-4
MOST_PAIRS = 1000
# A response of more than so many times the variance of q is not linear, and is taken for so much.
LARGEST = 6.0
# What adds less than this share of the variance of q is left out.
LEAST = 1e-5
ENTRIES = 2**22  # So many numbers of products of pairs are held at once.


class _Rows(NamedTuple):
    """What each of n rows sees of v in the directions R, and the second derivatives of its E."""

    U: Array  # (n, b, D)
    H_mm: Array  # (n, b, b) of which the part that S has not taken in
    H_mV: Array  # (n, b, p) for the p entries of V that q has, each taken once
    H_VV: Array  # (n, p, p)


def response(problem: Problem) -> tuple[Array, ...] | None:
    """Q (M, k) for each group of latents, whose linear response has the covariance S + Q Qᵀ.

    None where it cannot be evaluated, or where q is not at an optimum.
    """
    try:
        with one_blas_thread(), np.errstate(all="ignore"):
            density, (mu, R) = LogJoint(problem), whitened_q(problem)
            groups = _entries_of(problem)
            scales = np.asarray(problem.starts.scales, dtype=float)
            R, U, seen = _turned(density, R, groups, scales)
            entries = _entries_of_V(problem)
            rows = _second_derivatives(problem, density, mu, U, entries)
            if not all(np.isfinite(part).all() for part in rows):
                return None
            return _roots(rows, R, entries, _pairs(seen, groups), groups)
    except (NumericalError, np.linalg.LinAlgError):
        return None


def _entries_of(problem: Problem) -> list[Indices]:
    """The entries of v that belong to each group of latents."""
    sizes = problem.parts.sizes
    ends = np.cumsum([0, *sizes])
    groups = problem.parts.family.groups(len(sizes))
    return [np.concatenate([np.arange(ends[j], ends[j + 1]) for j in group]) for group in groups]


def _entries_of_V(problem: Problem) -> list[tuple[int, int]]:
    """The entries (j, k), k ≤ j, of the covariance of a row that q has, the diagonal first."""
    b = len(problem.parts.sizes)
    diagonal = [(j, j) for j in range(b)]
    if len(problem.parts.family.groups(b)) == b:
        return diagonal
    return diagonal + [(j, k) for j in range(b) for k in range(j)]


def _turned(
    density: LogJoint, R: Array, groups: Sequence[Indices], scales: Array
) -> tuple[Array, Array, Array]:
    """R with the columns of each group turned, U (n, b, D), and what rows see of each column (D,).

    The columns of U are then orthogonal within a group, summed over rows and latents, each latent
    in units of the scale (b,) on which it varies.
    """
    blocks = [
        chunk.A.T @ part
        for chunk, part in zip(
            density.chunks, np.split(R, np.cumsum(density.sizes)[:-1]), strict=True
        )
    ]
    U, R, seen = np.stack(blocks, axis=1), R.copy(), np.zeros(len(R))
    for own in groups:
        part = (U[:, :, own] / scales[:, None]).reshape(-1, own.size)
        squares, turn = np.linalg.eigh(part.T @ part)
        R[:, own], U[:, :, own] = R[:, own] @ turn, U[:, :, own] @ turn
        seen[own] = np.sqrt(np.maximum(squares, 0.0))
    return R, U, seen


def _pairs(seen: Array, groups: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Pairs (c, d) of directions of a group whose products the rows see, those seen most first."""
    both = [own[np.stack(np.triu_indices(own.size))] for own in groups]
    c, d = np.concatenate(both, axis=1)
    size = seen[c] * seen[d]
    order = np.argsort(-size, kind="stable")[:MOST_PAIRS]
    order = order[size[order] > SEEN * seen.max() ** 2]
    return c[order], d[order]


def _second_derivatives(
    problem: Problem, density: LogJoint, mu: Array, U: Array, entries: Sequence[tuple[int, int]]
) -> _Rows:
    """Second derivatives of E in m and the entries of V, by differences of its gradients in m."""
    (n, b, _), p = U.shape, len(entries)
    m = density.latents(mu[:, None])[:, :, 0].T
    variances = density.variances + np.einsum("njc,njc->nj", U, U)
    full = np.einsum("njc,nkc->njk", U, U, optimize=True)
    full[:, range(b), range(b)] = variances
    V = variances if p == b else full
    nodes = density.nodes(m, V)
    twice = np.array([1.0 if j == k else 2.0 for j, k in entries])

    def slopes(shift: Array) -> Array:
        _, g, G = density.slopes(m + shift, V, nodes)
        G = G if p == b else np.stack([G[:, j, k] for j, k in entries], axis=1)
        return np.concatenate([g, twice * G], axis=1)

    steps = STEP * np.sqrt(variances)[:, :, None] * np.eye(b)  # (n, b, b): a step in each latent
    centre = slopes(np.zeros((n, b)))
    ends = [(slopes(steps[:, j]), slopes(-steps[:, j])) for j in range(b)]
    size = STEP * np.sqrt(variances).T[:, :, None]  # (b, n, 1)
    first = [(up - down) / (2.0 * size[j]) for j, (up, down) in enumerate(ends)]
    second = []
    for j, k in entries:
        if j == k:
            bend = (ends[j][0] - 2.0 * centre + ends[j][1]) / size[j] ** 2
        else:
            both = steps[:, j] + steps[:, k]
            bend = slopes(both) + slopes(-both) + 2.0 * centre - sum(ends[j]) - sum(ends[k])
            bend = bend / (2.0 * size[j] * size[k])
        second.append(bend[:, b:])
    H_mm = np.stack([part[:, :b] for part in first], axis=2)
    for group in problem.parts.family.groups(b):
        H_mm[np.ix_(range(n), group, group)] = 0.0
    H_mV = np.stack([part[:, b:] for part in first], axis=1)
    H_VV = 0.5 * twice * np.stack(second, axis=2)
    return _Rows(
        U,
        0.5 * (H_mm + H_mm.swapaxes(1, 2)),
        H_mV,
        0.5 * (H_VV + H_VV.swapaxes(1, 2)),
    )


def _products(
    U: Array, entries: Sequence[tuple[int, int]], pairs: tuple[Indices, Indices]
) -> Array:
    """What rows see in V of Y = (e_c e_dᵀ + e_d e_cᵀ)/√(1 + δ_cd) for each pair: (n, p, pairs)."""
    c, d = pairs
    norm = np.where(c == d, np.sqrt(0.5), 1.0)
    seen = [(U[:, j, c] * U[:, k, d] + U[:, j, d] * U[:, k, c]) * norm for j, k in entries]
    return np.stack(seen, axis=1)


def _roots(
    rows: _Rows,
    R: Array,
    entries: Sequence[tuple[int, int]],
    pairs: tuple[Indices, Indices],
    groups: Sequence[Indices],
) -> tuple[Array, ...] | None:
    """Q of each group, from (I − N)⁻¹ − I, of which the diagonal blocks are those of groups."""
    n, _, D = rows.U.shape
    count = pairs[0].size
    N_mm, N_mV, N_VV = np.zeros((D, D)), np.zeros((D, count)), np.zeros((count, count))
    step = max(1, ENTRIES // max(1, count * len(entries)))
    for start in range(0, n, step):
        U, H_mm, H_mV, H_VV = (part[start : start + step] for part in rows)
        L = _products(U, entries, pairs)
        flat, wide = U.reshape(-1, D), L.reshape(-1, count)
        N_mm += flat.T @ (H_mm @ U).reshape(-1, D)
        N_mV += flat.T @ (H_mV @ L).reshape(-1, count)
        N_VV += wide.T @ (H_VV @ L).reshape(-1, count)
    rest = np.eye(count) - N_VV
    if np.linalg.eigvalsh(rest)[0] <= 0.0:
        return None
    N = N_mm + N_mV @ np.linalg.solve(rest, N_mV.T)
    values, vectors = np.linalg.eigh(0.5 * (N + N.T))
    if values[-1] >= 1.0:
        return None
    added = (vectors / (1.0 - values)) @ vectors.T - np.eye(D)
    found = []
    for own in groups:
        squares, axes = np.linalg.eigh(added[np.ix_(own, own)])
        kept = squares > LEAST
        scale = np.sqrt(np.minimum(squares[kept], LARGEST - 1.0))
        found.append(R[np.ix_(own, own)] @ (axes[:, kept] * scale))
    return tuple(found)
