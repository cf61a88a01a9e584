"""The mean field: q(u_1) … q(u_b) without correlations between latents (Saul et al. 2016, eq. 2).

Whitened: u = L v + mean(Z), Kuu + jitter = L Lᵀ, q(v) = N(μ, S), A = L⁻¹ Kuf (M, n). Then

    m = mean(X) + Aᵀμ,    v = kff + Σ_M A ∘ (S − I) A        (Saul et al. 2016, eqs. 4 and 5).

Where gradients follow, v = kff + Σ_M Kuf ∘ P A with P = L⁻ᵀ(S − I): the same number, and P A is
what the gradient in Kuf is made of. Where Kuu is well conditioned, P L⁻¹ Kuf needs no A.

Sites are two numbers per row and latent, λ2 = −2 g_v and λ1 = g_m + λ2 m, in arrays (2, b, n): λ1
first.
"""

from __future__ import annotations

import numpy as np

from ..linalg import (
    Array,
    Booleans,
    Workspace,
    lower_product,
    lower_triangle_product,
    upper_product,
    weighted_gram,
)
from .family import Arrays, Chunks, Marginals, PosteriorFamily, Priors, Q, SiteFactors
from .gaussian import Gaussian
from .sparse import KernelGradient, Projection, pull, reverse_prior
from .sums import Gram

__all__ = ["MEAN_FIELD", "MeanField", "reverse_chunk", "reverse_sites"]

# Rounding can make v negative: it is raised to this share of the row's prior variance.
VARIANCE_FLOOR = 1e-12
CAVITY_FLOOR = 1e-6  # the least 1 − λ2 s: below it, q without a site is no distribution
NARROW = 30.0  # A narrow site is so many times as precise as the prior is at its row.
BLOCK = 20  # So many rows of a matrix (M, n) are scaled at once: they stay in the cache.

_work = Workspace()


class MeanField(PosteriorFamily):
    """Every latent has a Gaussian q(u_j) of its own."""

    def groups(self, b: int) -> list[tuple[int, ...]]:
        """Each latent alone."""
        return [(j,) for j in range(b)]

    # ---- sites ----------------------------------------------------------------------------------

    def site_shape(self, b: int) -> tuple[int, ...]:
        """λ1 and λ2 of each latent."""
        return 2, b

    def precisions(self, sites: Array) -> Array:
        """λ2, (b, n)."""
        return sites[1]

    def write_sites(self, sites: Array, m: Array, g_m: Array, g_V: Array) -> None:
        """λ2 = −2 g_v and λ1 = g_m + λ2 m."""
        sites[1] = -2.0 * g_V
        sites[0] = g_m - 2.0 * g_V * m

    def slopes(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Array, Array]:
        """g_v = −½ λ2 and g_m = λ1 − λ2 m."""
        lam1, lam2 = sites
        m = np.empty(lam1.shape)
        for j, chunk in enumerate(chunks):
            np.add(chunk.mean, q[j].mu @ chunk.A, out=m[j])
        return lam1 - lam2 * m, -0.5 * lam2

    def clip(self, sites: Array) -> None:
        """Sites of negative precision become 0."""
        sites[:, sites[1] < 0.0] = 0.0

    def make_positive(self, chunks: Chunks, q: Q, sites: Array) -> None:
        """λ2⁺ = max(λ2, 0) and λ1⁺ = g_m + λ2⁺ m."""
        lam1, lam2 = sites
        for j, (chunk, part) in enumerate(zip(chunks, q, strict=True)):
            negative = np.minimum(lam2[j], 0.0)
            lam1[j] -= negative * (chunk.mean + part.mu @ chunk.A)
            lam2[j] -= negative

    def narrow(self, chunks: Chunks, sites: Array) -> None:
        """A precision of many times the prior's, at the mean function."""
        for j, chunk in enumerate(chunks):
            sites[1, j] = NARROW / np.maximum(chunk.kff, 1e-300)
            sites[0, j] = sites[1, j] * chunk.mean

    def gram(self, chunks: Chunks, sites: Array) -> Gram:
        """Λ = A diag(λ2) Aᵀ and b = A (λ1 − λ2 mean) of each latent."""
        Lam, b = [], []
        for chunk, lam1, lam2 in zip(chunks, *sites, strict=True):
            Lam.append(weighted_gram(chunk.A, lam2))
            b.append(chunk.A @ (lam1 - lam2 * chunk.mean))
        return Gram(Lam, b)

    # ---- marginals and their reverse ------------------------------------------------------------

    def marginals(self, chunks: Chunks, q: Q) -> Marginals:
        """m = mean(X) + Aᵀμ and v = kff + Σ_M A ∘ (S − I) A (Saul et al. 2016, eqs. 4 and 5)."""
        made = _empty_marginals(chunks)
        for j, (chunk, part) in enumerate(zip(chunks, q, strict=True)):
            SA = np.matmul(part.S_minus_I, chunk.A, out=_work.array("SA", *chunk.A.shape))
            _write_moments(made, j, chunk, part.mu @ chunk.A, chunk.A, SA)
        return made

    def cavities(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Marginals, Booleans]:
        """With s = aᵀSa, of which v = kff − aᵀa + s, and s₋ = s/(1 − λ2 s): m − s₋ g_m, v − s + s₋.

        Where 1 − λ2 s is not positive, no distribution is left, and s₋ stays s.
        """
        m, v, floored = self.marginals(chunks, q)
        lam1, lam2 = sites
        pairs = zip(chunks, q, strict=True)
        s = np.stack([np.einsum("ij,ij->j", c.A, part.S @ c.A) for c, part in pairs])
        rest = 1.0 - lam2 * s
        proper = rest > CAVITY_FLOOR
        new = s / np.where(proper, rest, 1.0)
        return Marginals(m - new * (lam1 - lam2 * m), v - s + new, floored), proper.all(axis=0)

    def marginals_for_gradient(self, chunks: Chunks, left: Arrays) -> tuple[Marginals, list[Array]]:
        """As `marginals`, from `left` = [P, L⁻ᵀμ] (M, M + 1) of each latent; and P A, (M, n)."""
        made, products = _empty_marginals(chunks), []
        for j, (chunk, factors) in enumerate(zip(chunks, left, strict=True)):
            PA = _product(chunk, factors, j)
            _write_moments(made, j, chunk, factors[:, -1] @ chunk.Kuf, chunk.Kuf, PA)
            products.append(PA)
        return made, products

    def sums(self, chunks: Chunks, g_m: Array, g_V: Array) -> tuple[list[Array], list[Array]]:
        """G = A diag(g_v) Aᵀ and A g_m of each latent."""
        G = [weighted_gram(chunk.A, g) for chunk, g in zip(chunks, g_V, strict=True)]
        return G, [chunk.A @ g for chunk, g in zip(chunks, g_m, strict=True)]

    def reverse(
        self,
        chunks: Chunks,
        g_m: Array,
        g_V: Array,
        left: Arrays,
        products: list[Array] | None = None,
    ) -> list[KernelGradient]:
        """Gradients at fixed q, all but the part through L, from `left` = [P, L⁻ᵀμ]."""
        parts = []
        for j, chunk in enumerate(chunks):
            PA = products[j] if products else _product(chunk, left[j], j)
            parts.append(reverse_chunk(chunk, g_m[j], g_V[j], left[j], PA))
        return parts

    def reverse_sites(
        self, chunks: Chunks, g_m: Array, g_V: Array, sites: Array, left: Arrays, S_mu_bar: Arrays
    ) -> list[KernelGradient]:
        """The same at fixed sites; see `reverse_sites` of this module."""
        latents = zip(chunks, g_m, g_V, left, *sites, S_mu_bar, strict=True)
        return [reverse_sites(*latent) for latent in latents]

    # ---- small matrices: of one latent ----------------------------------------------------------

    def fixed_q_factors(self, priors: Priors, q: Gaussian, *, whitened: bool = True) -> Array:
        """[P, L⁻ᵀμ] (M, M + 1): P = L⁻ᵀ(S − I), or L⁻ᵀ(S − I) L⁻¹ where A is not whitened."""
        upper = priors[0].L_inv.T
        left = np.empty((len(upper), len(upper) + 1))
        upper_product(upper, q.S_minus_I, left[:, :-1])
        if not whitened:
            left[:, :-1] = upper_product(upper, left[:, :-1].T)
        np.matmul(upper, q.mu, out=left[:, -1])
        return left

    def site_factors(
        self, priors: Priors, q: Gaussian, A_gm: Array, G: Array, b: Array, Lam: Array
    ) -> SiteFactors:
        """[L⁻ᵀ(S − I), L⁻ᵀμ, L⁻ᵀΠ, L⁻ᵀSμ̄] (M, 2M + 2), Sμ̄ (M,) and H of one latent.

        With μ̄ = A g_m − μ, S̄ = G − ½(I − S⁻¹), Π = −S(S̄ + ½(μ̄bᵀ + bμ̄ᵀ))S and b = S⁻¹μ; to H the
        sites add (Sμ̄) bᵀ + 2 Π Λ.
        """
        if q.precision is None:
            raise RuntimeError("this q was not made from sites")
        H = _through_A(q, A_gm, G)
        mu_bar = A_gm - q.mu
        S_bar = G + 0.5 * q.precision
        S_bar.flat[:: S_bar.shape[0] + 1] -= 0.5
        outer = 0.5 * np.outer(mu_bar, q.precision @ q.mu)
        Pi = -(q.S @ (S_bar + outer + outer.T) @ q.S)
        S_mu_bar = q.S @ mu_bar
        H += np.outer(S_mu_bar, b)
        H += lower_triangle_product(2.0 * Pi, Lam)
        factors = np.column_stack([q.S_minus_I, q.mu, Pi, S_mu_bar])
        return SiteFactors(upper_product(priors[0].L_inv.T, factors), S_mu_bar, [H])

    def whiten(self, priors: Priors, G: Array, A_gm: Array) -> tuple[Array, Array]:
        """L⁻¹ G L⁻ᵀ and L⁻¹ A_gm: sums with Kuf in the place of A become those with A."""
        L_inv = priors[0].L_inv
        return lower_product(L_inv, lower_product(L_inv, G).T), L_inv @ A_gm

    def through_L(
        self, priors: Priors, q: Gaussian, A_gm: Array, G: Array
    ) -> list[tuple[Array, Array]]:
        """Gradients through L of one latent at fixed q."""
        return [reverse_prior(priors[0], _through_A(q, A_gm, G, _work.array("H", *G.shape)))]


MEAN_FIELD = MeanField()


def _empty_marginals(chunks: Chunks) -> Marginals:
    shape = len(chunks), chunks[0].kff.size
    return Marginals(np.empty(shape), np.empty(shape), np.empty(shape, dtype=bool))


def _write_moments(
    made: Marginals, j: int, chunk: Projection, m: Array, B: Array, C: Array
) -> None:
    """Set latent j's mean(X) + m and kff + Σ_M B ∘ C, which is not below its floor."""
    v = chunk.kff + np.einsum("ij,ij->j", B, C)
    floor = VARIANCE_FLOOR * chunk.kff
    made.floored[j] = v <= floor
    made.V[j] = np.maximum(v, floor) if made.floored[j].any() else v
    np.add(chunk.mean, m, out=made.m[j])


def _product(chunk: Projection, left: Array, j: int) -> Array:
    """P A of latent j, (M, n)."""
    return np.matmul(left[:, :-1], chunk.A, out=_work.array(f"PA{j}", *chunk.A.shape))


def reverse_chunk(
    chunk: Projection, g_m: Array, g_v: Array, left: Array, PA: Array
) -> KernelGradient:
    """Gradients of one latent at fixed q from its slopes, all but the part that goes through L.

    ∂/∂Kuf = P A diag(2 g_v) + L⁻ᵀμ g_mᵀ with `left` = [P, L⁻ᵀμ]; overwrites PA (M, n).
    """
    twice, alpha = 2.0 * g_v, left[:, -1:]
    for i in range(0, len(PA), BLOCK):
        block = PA[i : i + BLOCK]
        block *= twice
        block += alpha[i : i + BLOCK] * g_m
    return pull(chunk, PA, g_v, g_m)


def reverse_sites(
    chunk: Projection,
    g_m: Array,
    g_v: Array,
    left: Array,
    lam1: Array,
    lam2: Array,
    S_mu_bar: Array,
) -> KernelGradient:
    """As `reverse_chunk`, but for q as a function of the hyperparameters at fixed sites.

    That adds L⁻ᵀΠ A diag(2 λ2) + L⁻ᵀSμ̄ rᵀ with r = λ1 − λ2 mean(X) to ∂/∂Kuf: one product with
    `left` = [L⁻ᵀ(S − I), L⁻ᵀμ, L⁻ᵀΠ, L⁻ᵀSμ̄] (M, 2M + 2).
    """
    M, n = chunk.A.shape
    right = _work.array("right", 2 * M + 2, n)
    np.multiply(chunk.A, 2.0 * g_v, out=right[:M])
    right[M] = g_m
    np.multiply(chunk.A, 2.0 * lam2, out=right[M + 1 : -1])
    right[-1] = lam1 - lam2 * chunk.mean
    dL_dKuf = np.matmul(left, right, out=_work.array("dKuf", M, n))
    return pull(chunk, dL_dKuf, g_v, g_m - lam2 * (S_mu_bar @ chunk.A))


def _through_A(q: Gaussian, A_gm: Array, G: Array, out: Array | None = None) -> Array:
    """H = (∂/∂A) Aᵀ = μ (A g_m)ᵀ + 2 (S − I) G of one latent at fixed q, its lower triangle."""
    H = lower_triangle_product(q.S_minus_I, G, out)
    H *= 2.0
    H += np.multiply(q.mu[:, None], A_gm, out=_work.array("outer", *G.shape))
    return H
