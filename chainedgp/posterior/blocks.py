"""Products of a family of posteriors with the rows of a chunk, and with small matrices, in blocks.

`family` has the formulas, and says what the letters are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..linalg import (
    Array,
    Workspace,
    lower_product,
    lower_triangle_product,
    upper_product,
)
from .gaussian import Gaussian
from .sparse import InducingPrior, KernelGradient, Projection, pull, reverse_prior

BLOCK = 20  # A matrix (M, n) is scaled so many of its rows at a time: they stay in the cache.

Arrays = Sequence[Array]
Chunks = Sequence[Projection]  # Projections of some rows, one for each latent.
Priors = Sequence[InducingPrior]  # The priors of the latents of one group.

_work = Workspace()


class SiteFactors(NamedTuple):
    """What the gradient at fixed sites takes beside the sums of an evaluation, of one group."""

    left: Array  # This turns slopes and sites of a row into the gradient in Kuf.
    S_mu_bar: Array  # Sμ̄, the change of S⁻¹μ by which the mean of q gains most
    H: list[Array]  # (∂/∂A) Aᵀ of each latent of the group, (M, M), its lower triangle


def spans_of(sizes: Sequence[int]) -> list[slice]:
    """Where each latent of a group is in a stacked v, by the numbers of inducing inputs."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - M, end) for M, end in zip(sizes, ends, strict=True)]


def _by_prior(priors: Priors) -> list[tuple[InducingPrior, slice]]:
    """Each latent of a group, by its prior, with its place in stacked vectors."""
    return list(zip(priors, spans_of([len(prior.Z) for prior in priors]), strict=True))


def _up(priors: Priors, F: Array, out: Array | None = None) -> Array:
    """L_j⁻ᵀ F_j of the rows F_j (M_j, ·) that each latent of a group has in a stacked matrix."""
    out = np.empty(F.shape) if out is None else out
    for prior, span in _by_prior(priors):
        upper_product(prior.L_inv.T, F[span], out[span])
    return out


def _down(priors: Priors, F: Array) -> Array:
    """L_j⁻¹ F_j of the rows F_j (M_j, ·) that each latent of a group has in a stacked matrix."""
    out = np.empty(F.shape)
    for prior, span in _by_prior(priors):
        lower_product(prior.L_inv, F[span], out[span])
    return out


def times_A(chunk: Projection, P: Array, k: int) -> Array:
    """P A of latent k in the marginals of rows; P are the columns of its group for k."""
    return np.matmul(P, chunk.A, out=_work.array(f"PA{k}", len(P), chunk.A.shape[1]))


def reverse_chunk(
    chunk: Projection, i: int, g_m: Array, g_V: Arrays, alpha: Array, PA: Arrays
) -> KernelGradient:
    """Gradients of the i-th latent j of a group at fixed q, all but the part that goes through L.

    ∂/∂Kuf = Σ_k P_jk A_k diag(2 g_V,jk) + L⁻ᵀμ g_mᵀ with g_V and PA of every k of the group, and
    alpha = L⁻ᵀμ (M, 1); overwrites PA (M, n).
    """
    d_Kuf, twice = PA[i], [2.0 * g for g in g_V]
    others = [(PA[k], twice[k]) for k in range(len(PA)) if k != i]
    for start in range(0, len(d_Kuf), BLOCK):
        rows = slice(start, start + BLOCK)
        block = d_Kuf[rows]
        block *= twice[i]
        block += alpha[rows] * g_m
        for other, scale in others:
            other[rows] *= scale
            block += other[rows]
    return pull(chunk, d_Kuf, g_V[i], g_m)


def reverse_sites(
    chunks: Chunks,
    i: int,
    g_m: Array,
    g_V: Arrays,
    r: Array,
    Lam: Arrays,
    left: Array,
    d_mean: Array,
) -> KernelGradient:
    """Gradients of a latent in kernel, Z and mean at fixed sites, where q follows hyperparameters.

    That adds Σ_k L⁻ᵀΠ_jk A_k diag(2 Λ_jk) + L⁻ᵀSμ̄ rᵀ with r = λ1 − Λ mean(X) to ∂/∂Kuf: one
    product with `left` = [L⁻ᵀ(S − I), L⁻ᵀμ, L⁻ᵀΠ, L⁻ᵀSμ̄] (M_j, 2M + 2), the rows of latent j.
    chunks : of all latents of the group. d_mean : ∂/∂mean(X) (n,).
    """
    M, n = len(left), g_m.size
    half = left.shape[1] // 2
    right, start = _work.array("right", 2 * half, n), 0
    for chunk, g, L in zip(chunks, g_V, Lam, strict=True):
        end = start + len(chunk.A)
        np.multiply(chunk.A, 2.0 * g, out=right[start:end])
        np.multiply(chunk.A, 2.0 * L, out=right[half + start : half + end])
        start = end
    right[half - 1], right[-1] = g_m, r
    d_Kuf = np.matmul(left, right, out=_work.array("dKuf", M, n))
    return pull(chunks[i], d_Kuf, g_V[i], d_mean)


def fixed_q_factors(priors: Priors, q: Gaussian, *, whitened: bool = True) -> Array:
    """Gradient factors [P, L⁻ᵀμ], P = L⁻ᵀ(S − I), or L⁻ᵀ(S − I) L⁻¹ if A is not whitened."""
    left = np.empty((len(q.mu), len(q.mu) + 1))
    _up(priors, q.S_minus_I, left[:, :-1])
    if not whitened:
        left[:, :-1] = _up(priors, left[:, :-1].T)
    for prior, span in _by_prior(priors):
        np.matmul(prior.L_inv.T, q.mu[span], out=left[span, -1])
    return left


def site_factors(
    priors: Priors, q: Gaussian, A_gm: Array, G: Array, b: Array, Lam: Array
) -> SiteFactors:
    """The factors [L⁻ᵀ(S − I), L⁻ᵀμ, L⁻ᵀΠ, L⁻ᵀSμ̄] of gradients at fixed sites, Sμ̄ and H.

    The shapes are (M, 2M + 2), (M,) and, of each latent, (M_j, M_j).

    With μ̄ = A g_m − μ, S̄ = G − ½(I − S⁻¹), Π = −S(S̄ + ½(μ̄bᵀ + bμ̄ᵀ))S and b = S⁻¹μ; to H the
    sites add (Sμ̄) bᵀ + 2 Π Λ.
    """
    if q.precision is None:
        raise RuntimeError("this q was not made from sites")
    mu_bar = A_gm - q.mu
    S_bar = G + 0.5 * q.precision
    S_bar.flat[:: S_bar.shape[0] + 1] -= 0.5
    outer = 0.5 * np.outer(mu_bar, q.precision @ q.mu)
    Pi = -(q.S @ (S_bar + outer + outer.T) @ q.S)
    S_mu_bar, H = q.S @ mu_bar, []
    for _, span in _by_prior(priors):
        own = _through_A(q, A_gm, G, span)
        own += np.outer(S_mu_bar[span], b[span])
        own += lower_triangle_product(2.0 * Pi[span], Lam[:, span])
        H.append(own)
    factors = np.column_stack([q.S_minus_I, q.mu, Pi, S_mu_bar])
    return SiteFactors(_up(priors, factors), S_mu_bar, H)


def whiten(priors: Priors, G: Array, A_gm: Array) -> tuple[Array, Array]:
    """Turn sums over rows with Kuf in the place of A into those with A: L⁻¹ G L⁻ᵀ, L⁻¹ A_gm."""
    A_gm = np.concatenate([prior.L_inv @ A_gm[span] for prior, span in _by_prior(priors)])
    return _down(priors, _down(priors, G).T), A_gm


def through_L(priors: Priors, q: Gaussian, A_gm: Array, G: Array) -> list[tuple[Array, Array]]:
    """Gradients of each latent at fixed q that go through L, the Cholesky factor of Kuu."""
    return [reverse_prior(p, _through_A(q, A_gm, G, span)) for p, span in _by_prior(priors)]


def _through_A(q: Gaussian, A_gm: Array, G: Array, span: slice) -> Array:
    """H = (∂/∂A) Aᵀ = μ (A g_m)ᵀ + 2 (S − I) G of a latent at fixed q, its lower triangle."""
    H = lower_triangle_product(q.S_minus_I[span], G[:, span])
    H *= 2.0
    H += np.multiply(q.mu[span, None], A_gm[span], out=_work.array("outer", *H.shape))
    return H
