"""Families of posteriors: what q over the latents may be, and all that depends on the choice.

The whitened inducing values v = (v_1, …, v_b) of the b latents fall into *groups*, within which q
has correlations and between which it has none: q(v) is a product of Gaussians, one for each group.
In the mean field every latent is a group of its own, q(u_1) … q(u_b); a joint posterior has one
group. KL, natural-gradient steps, their mixing and acceleration are the same for the Gaussian of
any group and need no word here (`gaussian`, `sums`).

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array, Booleans, Workspace, weighted_gram
from .blocks import Arrays, Chunks, reverse_chunk, reverse_sites, spans_of, times_A
from .gaussian import Gaussian, root_of
from .sparse import KernelGradient, Projection
from .sums import Gram

# Rounding can make a variance of q(f) negative: it is raised to this share of the row's prior
# variance.
VARIANCE_FLOOR = 1e-12
# Rounding can make a correlation of two latents exceed 1: it is kept this much below.
CORRELATION_GAP = 1e-12
NARROW = 30.0  # A site of `narrow` is so many times as precise as the prior is at its row.

T = TypeVar("T")
Entry = TypeVar("Entry", np.float64, np.bool_)
Weight = Callable[[Array, int, int], Array]
Q = Sequence[Gaussian]  # The Gaussian of each group.

_work = Workspace()


class Marginals(NamedTuple):
    """Marginals q(f_1(x_i), …, f_b(x_i)) of every row i of a chunk; rows are the last axis."""

    m: Array  # (b, n) means
    V: Array  # (b, n) variances or, where q has correlations, (b, b, n) covariances
    floored: Booleans  # True where rounding had made V negative; shape of V.


class PosteriorFamily(ABC):
    """A family of posteriors, such as the mean field. One object, without state, serves all models.

    name : what users and files call it.

    A member says which latents are a group, what the site of a row is, and what q and a chunk of
    rows have to do with each other: the marginals of q(f), the sums over rows that move q, and the
    reverse pass from the marginals to kernels, means and inducing inputs.

    Slopes are the derivatives of the rows' E_q[log p(y | f)]: g_m (b, n) in the means m, and g_V in
    V, of its shape. Sites are Λ = −2 g_V and λ1 = g_m + Λ m in arrays (*site_shape, n), of which
    methods get the rows of a chunk as a view to read or write. `left`, `q` and sums have an entry
    for each group. Where Kuu is well conditioned and gradients follow, Kuf stands in the place of A
    in chunks, and `blocks.whiten` then turns the sums into those with A.
    """

    name: ClassVar[Literal["mean_field", "joint"]]

    # ---- latents and groups ---------------------------------------------------------------------

    @abstractmethod
    def groups(self, b: int) -> list[tuple[int, ...]]:
        """The latents of each group that q correlates: numbers from 0 to b − 1, in their order."""

    def grouped(self, parts: Sequence[T]) -> list[tuple[T, ...]]:
        """What belongs to each latent, sorted by groups of q."""
        return [tuple(parts[j] for j in group) for group in self.groups(len(parts))]

    def stacked(self, parts: Arrays) -> list[Array]:
        """Vectors (M_j,) of the latents, one after another in a vector for each group of q."""
        return [np.concatenate(g) if len(g) > 1 else g[0] for g in self.grouped(parts)]

    def split(self, stacked: Arrays, sizes: Sequence[int]) -> list[Array]:
        """Vectors of the latents from stacked ones: the reverse of `stacked`.

        sizes : number of inducing inputs M_j of each latent.
        """
        ends = [np.cumsum(group)[:-1] for group in self.grouped(sizes)]
        pairs = zip(stacked, ends, strict=True)
        return [part for vector, cuts in pairs for part in np.split(vector, cuts)]

    def prior(self, sizes: Sequence[int]) -> tuple[Gaussian, ...]:
        """The prior q(v) = N(0, I) of all groups: the posterior of no rows."""
        totals = [sum(group) for group in self.grouped(sizes)]
        return tuple(Gaussian(np.zeros(M), np.eye(M), 0.0) for M in totals)

    def packed(self, q: Q, sizes: Sequence[int]) -> tuple[list[Array], list[Array]]:
        """What the leaves of q hold: a mean (M_j,) of each latent, a packed root of each group."""
        return self.split([part.mu for part in q], sizes), [root_of(part) for part in q]

    def by_latent(self, q: Q, sizes: Sequence[int]) -> list[Gaussian]:
        """The marginal Gaussian q(v_j) of each latent on its own."""
        parts = []
        for part, group in zip(q, self.grouped(sizes), strict=True):
            if len(group) == 1:
                parts.append(part)
                continue
            for M, end in zip(group, np.cumsum(group), strict=True):
                own = slice(end - M, end)
                S = part.S[own, own]
                parts.append(Gaussian(part.mu[own], S, float(np.linalg.slogdet(S)[1])))
        return parts

    # ---- where V and the sites of rows keep their entries -------------------------------------

    @abstractmethod
    def marginal_shape(self, b: int) -> tuple[int, ...]:
        """Shape of V of one row: the variances of its latents, or their covariance."""

    @abstractmethod
    def entry(self, V: NDArray[Entry], j: int, k: int) -> NDArray[Entry]:
        """The covariance block V_jk of every row, a view (n,); j and k are latents of one group."""

    @abstractmethod
    def linear(self, sites: Array) -> Array:
        """The linear part λ1 of the sites of every row, a view (b, n)."""

    @abstractmethod
    def precision(self, sites: Array, j: int, k: int) -> Array:
        """The precision Λ_jk of the site of every row, a view (n,); j, k are latents of a group."""

    @abstractmethod
    def site_shape(self, b: int) -> tuple[int, ...]:
        """Shape of the site of one row, in this family of posteriors."""

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
            spans = spans_of([len(chunks[j].A) for j in group])
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

    @abstractmethod
    def clip(self, sites: Array) -> None:
        """Drop what has negative precision from sites, so that q exists."""

    @abstractmethod
    def make_positive(self, chunks: Chunks, q: Q, sites: Array) -> None:
        """Drop the negative part of the sites' precisions, at the same slope g_m at q."""

    # ---- marginals and their reverse ------------------------------------------------------------

    def marginals(self, chunks: Chunks, q: Q) -> Marginals:
        """Marginals q(f) of rows: m = mean + Aᵀμ, V = kff + Σ_M A ∘ (S − I) A, by blocks.

        (Saul et al. 2016, eqs. 4 and 5)

        The paper has the diagonal blocks alone.
        """
        made = self._empty(self.means(chunks, q))
        for group, part in zip(self.groups(len(chunks)), q, strict=True):
            spans = spans_of([len(chunks[j].A) for j in group])
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
            spans = spans_of([len(chunks[j].A) for j in group])
            for i, k in enumerate(group):
                PA = times_A(chunks[k], factors[:, spans[i]], k)
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
            spans = spans_of([len(chunks[j].A) for j in group])
            if products is None:
                pairs = zip(group, spans, strict=True)
                own = [times_A(chunks[k], factors[:, span], k) for k, span in pairs]
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
        """Gradients in kernels, Z and means at fixed sites; see `blocks.reverse_sites`."""
        parts, r = [], self._pulls(chunks, sites)
        for group, factors, moved in zip(self.groups(len(chunks)), left, S_mu_bar, strict=True):
            own = [chunks[j] for j in group]
            spans = spans_of([len(chunk.A) for chunk in own])
            pairs = zip(own, spans, strict=True)
            x = [moved[span] @ chunk.A for chunk, span in pairs]  # The change (Sμ̄) of means.
            for i, j in enumerate(group):
                g = [self.entry(g_V, j, k) for k in group]
                Lam = [self.precision(sites, j, k) for k in group]
                d_mean = g_m[j] - sum(L * move for L, move in zip(Lam, x, strict=True))
                slopes = g_m[j], g, r[j], Lam
                parts.append(reverse_sites(own, i, *slopes, factors[spans[i]], d_mean))
        return parts

    @abstractmethod
    def cavities(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Marginals, Booleans]:
        """Cavities: q(f) of every row without its own site; (n,) whether it is a distribution."""
