"""What families of q share: marginals, sites and sums in blocks, one for each pair of latents.

Whitened: u_j = L_j v_j + mean_j(Z), Kuu + jitter = L Lᵀ, A_j = L_j⁻¹ Kuf (M_j, n). The stacked v of
a group is q(v) = N(μ, S) with blocks S_jk. The marginals of a row, a_j its column of A_j, are

    m_j = mean_j(x) + a_jᵀμ_j,    V_jk = δ_jk kff_j + a_jᵀ(S − I)_jk a_k.

With slopes g = ∂E/∂m and G = ∂E/∂V the sites of a row are Λ = −2 G and λ1 = g + Λ m, and

    S⁻¹ = I + [A_j diag(Λ_jk) A_kᵀ]_jk,    S⁻¹μ = [A_j r_j]_j,    r_j = λ1_j − Σ_k Λ_jk mean_k(X).

Where gradients follow, V_jk = δ_jk kff_j + Σ_M Kuf_j ∘ P_jk A_k with P_jk = L_j⁻ᵀ(S − I)_jk: the
same number, and P A is what the gradient in Kuf is made of. Where Kuu is well conditioned,
P L⁻¹ Kuf needs no A. In the mean field every group has one latent, and j = k throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..linalg import (
    Array,
    Workspace,
    lower_product,
    lower_triangle_product,
    upper_product,
    weighted_gram,
)
from .family import Arrays, Chunks, Marginals, PosteriorFamily, Priors, Q, SiteFactors
from .gaussian import Gaussian
from .sparse import InducingPrior, KernelGradient, Projection, pull, reverse_prior
from .sums import Gram

# Rounding can make a variance of q(f) negative: it is raised to this share of the row's prior
# variance.
VARIANCE_FLOOR = 1e-12
# Rounding can make a correlation of two latents exceed 1: it is kept this much below.
CORRELATION_GAP = 1e-12
NARROW = 30.0  # A site of `narrow` is so many times as precise as the prior is at its row.
BLOCK = 20  # A matrix (M, n) is scaled so many of its rows at a time: they stay in the cache.

T = TypeVar("T", np.float64, np.bool_)
Weight = Callable[[Array, int, int], Array]

_work = Workspace()


class Blocks(PosteriorFamily):
    """A family of posteriors that says where V, λ1 and Λ keep their entries; all else follows."""

    @abstractmethod
    def marginal_shape(self, b: int) -> tuple[int, ...]:
        """Shape of V of one row: the variances of its latents, or their covariance."""

    @abstractmethod
    def entry(self, V: NDArray[T], j: int, k: int) -> NDArray[T]:
        """The covariance block V_jk of every row, a view (n,); j and k are latents of one group."""

    @abstractmethod
    def linear(self, sites: Array) -> Array:
        """The linear part λ1 of the sites of every row, a view (b, n)."""

    @abstractmethod
    def precision(self, sites: Array, j: int, k: int) -> Array:
        """The precision Λ_jk of the site of every row, a view (n,); j, k are latents of a group."""

    def neighbours(self, b: int) -> list[tuple[int, ...]]:
        """For each latent those that q correlates it with: its group, itself included."""
        return [group for group in self.groups(b) for _ in group]

    # ---- sites ----------------------------------------------------------------------------------

    def precisions(self, sites: Array) -> Array:
        """The precisions Λ_jj of the sites of all rows, (b, n)."""
        return np.stack([self.precision(sites, j, j) for j in range(len(self.linear(sites)))])

    def write_sites(self, sites: Array, m: Array, g_m: Array, g_V: Array) -> None:
        """Write the sites Λ = −2 g_V and λ1 = g_m + Λ m of some rows, from slopes at means m."""
        for j, group in enumerate(self.neighbours(len(m))):
            for k in group[: group.index(j) + 1]:
                np.multiply(self.entry(g_V, j, k), -2.0, out=self.precision(sites, j, k))
        self.linear(sites)[:] = g_m + self._times(sites, m)

    def measured(self, values: Array, precisions: Array) -> Array:
        """Sites Λ = diag(precisions) and λ1 = Λ values of rows where latents were measured.

        They are a normal density of each latent at each row.
        """
        b, n = values.shape
        sites = np.zeros((*self.site_shape(b), n))
        for j, precision in enumerate(precisions):
            self.precision(sites, j, j)[:] = precision
        self.linear(sites)[:] = precisions[:, None] * values
        return sites

    def _times(self, sites: Array, x: Array) -> Array:
        """The product Λ x of the sites' precisions with x, of every row, (b, n) as x is."""
        product = np.empty(x.shape)
        for j, group in enumerate(self.neighbours(len(x))):
            np.multiply(self.precision(sites, j, group[0]), x[group[0]], out=product[j])
            for k in group[1:]:
                product[j] += self.precision(sites, j, k) * x[k]
        return product

    def slopes(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Array, Array]:
        """Slopes g_V = −½ Λ and g_m = λ1 − Λ m, the reverse of `write_sites`."""
        g_m = self.linear(sites) - self._times(sites, self.means(chunks, q))
        g_V = np.empty((*self.marginal_shape(len(chunks)), g_m.shape[1]))
        for j, group in enumerate(self.neighbours(len(chunks))):
            for k in group:
                np.multiply(self.precision(sites, j, k), -0.5, out=self.entry(g_V, j, k))
        return g_m, g_V

    def means(self, chunks: Chunks, q: Q) -> Array:
        """Means of q(f) at the rows, m_j = mean_j(X) + A_jᵀμ_j, (b, n)."""
        mus = self.split([part.mu for part in q], [len(chunk.A) for chunk in chunks])
        pairs = zip(chunks, mus, strict=True)
        return np.stack([chunk.mean + mu @ chunk.A for chunk, mu in pairs])

    def narrow(self, chunks: Chunks, sites: Array) -> None:
        """Set sites to a precision of many times the prior's, at the mean function."""
        sites[:] = 0.0
        for j, chunk in enumerate(chunks):
            precision = self.precision(sites, j, j)
            precision[:] = NARROW / np.maximum(chunk.kff, 1e-300)
            self.linear(sites)[j] = precision * chunk.mean

    def gram(self, chunks: Chunks, sites: Array) -> Gram:
        """Sums of sites to q of each group: [A_j diag(Λ_jk) A_kᵀ]_jk and [A_j r_j]_j."""
        r = self._pulls(chunks, sites)
        b = [chunk.A @ own for chunk, own in zip(chunks, r, strict=True)]
        return Gram(self._weighted(chunks, self.precision, sites), self.stacked(b))

    def _pulls(self, chunks: Chunks, sites: Array) -> Array:
        """The part r = λ1 − Λ mean(X) of the sites that sums up to q, (b, n)."""
        return self.linear(sites) - self._times(sites, np.stack([c.mean for c in chunks]))

    def _weighted(self, chunks: Chunks, weight: Weight, of: Array) -> list[Array]:
        """The matrix [A_j diag(w_jk) A_kᵀ]_jk of each group; weight(of, j, k) is w_jk (n,)."""
        made = []
        for group in self.groups(len(chunks)):
            if len(group) == 1:
                made.append(weighted_gram(chunks[group[0]].A, weight(of, group[0], group[0])))
                continue
            spans = _spans([len(chunks[j].A) for j in group])
            whole = np.empty((spans[-1].stop, spans[-1].stop))
            for i, j in enumerate(group):
                A = chunks[j].A
                whole[spans[i], spans[i]] = weighted_gram(A, weight(of, j, j))
                for k, span in zip(group[:i], spans, strict=False):
                    scaled = np.multiply(A, weight(of, j, k), out=_work.array("scaled", *A.shape))
                    block = scaled @ chunks[k].A.T
                    whole[spans[i], span], whole[span, spans[i]] = block, block.T
            made.append(whole)
        return made

    # ---- marginals and their reverse ------------------------------------------------------------

    def marginals(self, chunks: Chunks, q: Q) -> Marginals:
        """Marginals q(f) of rows: m = mean + Aᵀμ, V = kff + Σ_M A ∘ (S − I) A, by blocks.

        (Saul et al. 2016, eqs. 4 and 5)

        The paper has the diagonal blocks alone.
        """
        made = self._empty(self.means(chunks, q))
        for group, part in zip(self.groups(len(chunks)), q, strict=True):
            spans = _spans([len(chunks[j].A) for j in group])
            for i, k in enumerate(group):  # Blocks below the diagonal are those above, transposed.
                A, D = chunks[k].A, part.S_minus_I[: spans[i].stop, spans[i]]
                SA = np.matmul(D, A, out=_work.array("SA", len(D), A.shape[1]))
                for j, span in zip(group[: i + 1], spans, strict=False):
                    self._write(made, j, k, chunks[j], chunks[j].A, SA[span])
        return self._limited(made)

    def marginals_for_gradient(self, chunks: Chunks, left: Arrays) -> tuple[Marginals, list[Array]]:
        """Marginals q(f) of rows for a pass with gradients, from `left` = [P, L⁻ᵀμ] of each group.

        Returned too are the products P_·k A_k of each latent k.
        """
        made, products = self._empty(np.empty((len(chunks), chunks[0].kff.size))), []
        for group, factors in zip(self.groups(len(chunks)), left, strict=True):
            spans = _spans([len(chunks[j].A) for j in group])
            for i, k in enumerate(group):
                PA = _product(chunks[k], factors[:, spans[i]], k)
                alpha = factors[spans[i], -1]
                np.add(chunks[k].mean, alpha @ chunks[k].Kuf, out=made.m[k])
                for j, span in zip(group[: i + 1], spans, strict=False):
                    self._write(made, j, k, chunks[j], chunks[j].Kuf, PA[span])
                products.append(PA)
        return self._limited(made), products

    def _empty(self, m: Array) -> Marginals:
        shape = *self.marginal_shape(len(m)), m.shape[1]
        return Marginals(m, np.empty(shape), np.zeros(shape, dtype=bool))

    def _write(
        self, made: Marginals, j: int, k: int, chunk: Projection, B: Array, C: Array
    ) -> None:
        """Set a block V_jk = δ_jk kff + Σ_M B ∘ C of the marginals; variances have a floor."""
        V = np.einsum("ij,ij->j", B, C)
        if j != k:
            self.entry(made.V, j, k)[:] = self.entry(made.V, k, j)[:] = V
            return
        V += chunk.kff
        floor = VARIANCE_FLOOR * chunk.kff
        low = V <= floor
        self.entry(made.V, j, j)[:] = np.maximum(V, floor) if low.any() else V
        self.entry(made.floored, j, j)[:] = low

    def _limited(self, made: Marginals) -> Marginals:
        """The marginals, in which covariances that exceed what the variances allow are put back."""
        for j, group in enumerate(self.neighbours(len(made.m))):
            for k in group[: group.index(j)]:
                V = self.entry(made.V, j, k)
                most = np.sqrt(self.entry(made.V, j, j) * self.entry(made.V, k, k))
                most *= 1.0 - CORRELATION_GAP
                high = np.abs(V) > most
                if high.any():
                    for one in ((j, k), (k, j)):
                        self.entry(made.V, *one)[:] = np.clip(V, -most, most)
                        self.entry(made.floored, *one)[:] = high
        return made

    def sums(self, chunks: Chunks, g_m: Array, g_V: Array) -> tuple[list[Array], list[Array]]:
        """Sums over rows G = [A_j diag(g_V,jk) A_kᵀ]_jk and [A_j g_m,j]_j, of each group."""
        A_gm = [chunk.A @ g for chunk, g in zip(chunks, g_m, strict=True)]
        return self._weighted(chunks, self.entry, g_V), self.stacked(A_gm)

    def reverse(
        self,
        chunks: Chunks,
        g_m: Array,
        g_V: Array,
        left: Arrays,
        products: list[Array] | None = None,
    ) -> list[KernelGradient]:
        """Gradients in kernels, Z and means at fixed q, all but the part through L.

        `left` is [P, L⁻ᵀμ].
        """
        parts = []
        for group, factors in zip(self.groups(len(chunks)), left, strict=True):
            spans = _spans([len(chunks[j].A) for j in group])
            if products is None:
                pairs = zip(group, spans, strict=True)
                own = [_product(chunks[k], factors[:, span], k) for k, span in pairs]
            else:
                own = [products[k] for k in group]
            for i, j in enumerate(group):
                g = [self.entry(g_V, j, k) for k in group]
                alpha, PA = factors[spans[i], -1:], [product[spans[i]] for product in own]
                parts.append(reverse_chunk(chunks[j], i, g_m[j], g, alpha, PA))
        return parts

    def reverse_sites(
        self, chunks: Chunks, g_m: Array, g_V: Array, sites: Array, left: Arrays, S_mu_bar: Arrays
    ) -> list[KernelGradient]:
        """Gradients in kernels, Z and means at fixed sites; see `reverse_sites` of this module."""
        parts, r = [], self._pulls(chunks, sites)
        for group, factors, moved in zip(self.groups(len(chunks)), left, S_mu_bar, strict=True):
            own = [chunks[j] for j in group]
            spans = _spans([len(chunk.A) for chunk in own])
            pairs = zip(own, spans, strict=True)
            x = [moved[span] @ chunk.A for chunk, span in pairs]  # The change (Sμ̄) of means.
            for i, j in enumerate(group):
                g = [self.entry(g_V, j, k) for k in group]
                Lam = [self.precision(sites, j, k) for k in group]
                d_mean = g_m[j] - sum(L * move for L, move in zip(Lam, x, strict=True))
                slopes = g_m[j], g, r[j], Lam
                parts.append(reverse_sites(own, i, *slopes, factors[spans[i]], d_mean))
        return parts

    # ---- small matrices: of one group -----------------------------------------------------------

    def fixed_q_factors(self, priors: Priors, q: Gaussian, *, whitened: bool = True) -> Array:
        """Gradient factors [P, L⁻ᵀμ], P = L⁻ᵀ(S − I), or L⁻ᵀ(S − I) L⁻¹ if A is not whitened."""
        left = np.empty((len(q.mu), len(q.mu) + 1))
        _up(priors, q.S_minus_I, left[:, :-1])
        if not whitened:
            left[:, :-1] = _up(priors, left[:, :-1].T)
        for prior, span in _by_prior(priors):
            np.matmul(prior.L_inv.T, q.mu[span], out=left[span, -1])
        return left

    def site_factors(
        self, priors: Priors, q: Gaussian, A_gm: Array, G: Array, b: Array, Lam: Array
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

    def whiten(self, priors: Priors, G: Array, A_gm: Array) -> tuple[Array, Array]:
        """Turn sums over rows with Kuf in the place of A into those with A: L⁻¹ G L⁻ᵀ, L⁻¹ A_gm."""
        A_gm = np.concatenate([prior.L_inv @ A_gm[span] for prior, span in _by_prior(priors)])
        return _down(priors, _down(priors, G).T), A_gm

    def through_L(
        self, priors: Priors, q: Gaussian, A_gm: Array, G: Array
    ) -> list[tuple[Array, Array]]:
        """Gradients of each latent at fixed q that go through L, the Cholesky factor of Kuu."""
        return [reverse_prior(p, _through_A(q, A_gm, G, span)) for p, span in _by_prior(priors)]


def _spans(sizes: Sequence[int]) -> list[slice]:
    """Where each latent of a group is in a stacked v, by the numbers of inducing inputs."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - M, end) for M, end in zip(sizes, ends, strict=True)]


def _by_prior(priors: Priors) -> list[tuple[InducingPrior, slice]]:
    """Each latent of a group, by its prior, with its place in stacked vectors."""
    return list(zip(priors, _spans([len(prior.Z) for prior in priors]), strict=True))


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


def _product(chunk: Projection, P: Array, k: int) -> Array:
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


def _through_A(q: Gaussian, A_gm: Array, G: Array, span: slice) -> Array:
    """H = (∂/∂A) Aᵀ = μ (A g_m)ᵀ + 2 (S − I) G of a latent at fixed q, its lower triangle."""
    H = lower_triangle_product(q.S_minus_I[span], G[:, span])
    H *= 2.0
    H += np.multiply(q.mu[span, None], A_gm[span], out=_work.array("outer", *H.shape))
    return H
