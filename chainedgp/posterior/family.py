"""What a variational posterior over the latents may be, and all that depends on the choice.

The whitened inducing values v = (v_1, …, v_b) of the b latents fall into *groups*, within which q
has correlations and between which it has none: q(v) is a product of Gaussians, one for each group.
In the mean field every latent is a group of its own, q(u_1) … q(u_b); a joint posterior has one
group. KL, natural-gradient steps, their mixing and acceleration are the
same for the Gaussian of any group and need no word here (`gaussian`, `sums`).

What a row has to do with q depends on the family, and is a method of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array
from .gaussian import Gaussian, root_of
from .sparse import InducingPrior, KernelGradient, Projection
from .sums import Gram

__all__ = ["Marginals", "PosteriorFamily", "SiteFactors"]

T = TypeVar("T")


class Marginals(NamedTuple):
    """q(f_1(x_i), …, f_b(x_i)) of every row i of a chunk; rows are the last axis."""

    m: Array  # (b, n) means
    V: Array  # (b, n) variances or, where q has correlations, (b, b, n) covariances
    floored: NDArray[np.bool_]  # of the shape of V: where rounding would have made it negative


class SiteFactors(NamedTuple):
    """What the gradient at fixed sites takes beside the sums of an evaluation, of one group."""

    left: Array  # what turns slopes and sites of a row into the gradient in Kuf
    S_mu_bar: Array  # Sμ̄, the change of S⁻¹μ by which the mean of q gains most
    H: list[Array]  # (∂/∂A) Aᵀ of each latent of the group, (M, M), its lower triangle


class PosteriorFamily(ABC):
    """A family of posteriors; see the module's docstring. It has no state of its own.

    Below, `chunks` has the projection of a chunk of n rows for each latent, `priors` the priors of
    the latents of one group, and lists over groups are in the order of `groups`. The *slopes* of a
    row are the derivatives of its E_q[log p(y | f)], g_m (b, n) in m and g_V in V, of its shape.
    Sites are Λ = −2 g_V and λ1 = g_m + Λ m, as many numbers a row as the family needs: arrays
    (*site_shape, n), or views of some rows of them, which methods may write to. Where Kuu is well
    conditioned and gradients follow, Kuf stands in the place of A in chunks, and sums come back
    with it: `whiten` puts that right.

    A joint posterior of all latents, as an example, has Gaussians of Σ_j M_j dimensions, blocks Λ
    (b × b) and λ1 (b) in a site, and V_jk = δ_jk kff_j + a_jᵀ(S − I)_jk a_k; its sums are the
    stacked [A_j diag(g_V,jk) A_kᵀ]_jk and [A_j g_m,j]_j.
    """

    # ---- latents and groups ---------------------------------------------------------------------

    @abstractmethod
    def groups(self, b: int) -> list[tuple[int, ...]]:
        """The latents of each group: numbers from 0 to b − 1, in their order."""

    def grouped(self, parts: Sequence[T]) -> list[tuple[T, ...]]:
        """What belongs to each latent, by groups."""
        return [tuple(parts[j] for j in group) for group in self.groups(len(parts))]

    def stacked(self, parts: Sequence[Array]) -> list[Array]:
        """Vectors (M_j,) of each latent, one after another in a vector for each group."""
        return [np.concatenate(g) if len(g) > 1 else g[0] for g in self.grouped(parts)]

    def split(self, stacked: Sequence[Array], sizes: Sequence[int]) -> list[Array]:
        """The reverse of `stacked`, given the number of inducing inputs M_j of each latent."""
        ends = [np.cumsum(group)[:-1] for group in self.grouped(sizes)]
        pairs = zip(stacked, ends, strict=True)
        return [part for vector, cuts in pairs for part in np.split(vector, cuts)]

    def prior(self, sizes: Sequence[int]) -> tuple[Gaussian, ...]:
        """q(v) = N(0, I): the posterior of no rows."""
        totals = [sum(group) for group in self.grouped(sizes)]
        return tuple(Gaussian(np.zeros(M), np.eye(M), 0.0) for M in totals)

    def packed(
        self, q: Sequence[Gaussian], sizes: Sequence[int]
    ) -> tuple[list[Array], list[Array]]:
        """What the leaves of q hold: a mean (M_j,) of each latent, a packed root of each group."""
        return self.split([part.mu for part in q], sizes), [root_of(part) for part in q]

    def by_latent(self, q: Sequence[Gaussian], sizes: Sequence[int]) -> list[Gaussian]:
        """q(v_j) of each latent on its own."""
        parts = []
        for part, group in zip(q, self.grouped(sizes), strict=True):
            ends = np.cumsum(group)
            for M, end in zip(group, ends, strict=True):
                at = slice(end - M, end)
                S = part.S[at, at]
                alone = Gaussian(part.mu[at], S, float(np.linalg.slogdet(S)[1]))
                parts.append(alone if len(group) > 1 else part)
        return parts

    # ---- sites and rows: on a chunk, in threads -------------------------------------------------

    @abstractmethod
    def site_shape(self, b: int) -> tuple[int, ...]:
        """Shape of the site of one row."""

    @abstractmethod
    def precisions(self, sites: Array) -> Array:
        """Λ_jj of every row, (b, n): how precisely its site tells latent j."""

    @abstractmethod
    def write_sites(self, sites: Array, m: Array, g_m: Array, g_V: Array) -> None:
        """Set sites to those that have these slopes at means m (b, n)."""

    @abstractmethod
    def slopes(
        self, chunks: Sequence[Projection], q: Sequence[Gaussian], sites: Array
    ) -> tuple[Array, Array]:
        """g_m and g_V, from which sites were written at this q."""

    @abstractmethod
    def clip(self, sites: Array) -> None:
        """Drop what has negative precision from sites: q then exists."""

    @abstractmethod
    def make_positive(
        self, chunks: Sequence[Projection], q: Sequence[Gaussian], sites: Array
    ) -> None:
        """Drop the negative part of the sites' precisions, at the same slope g_m at q."""

    @abstractmethod
    def narrow(self, chunks: Sequence[Projection], sites: Array) -> None:
        """Set sites to such that hold every latent close to its mean function."""

    @abstractmethod
    def gram(self, chunks: Sequence[Projection], sites: Array) -> Gram:
        """The natural parameters of q that sites sum up to, of each group."""

    @abstractmethod
    def marginals(self, chunks: Sequence[Projection], q: Sequence[Gaussian]) -> Marginals:
        """q(f) of every row."""

    @abstractmethod
    def cavities(
        self, chunks: Sequence[Projection], q: Sequence[Gaussian], sites: Array
    ) -> tuple[Marginals, NDArray[np.bool_]]:
        """q(f) of every row without the row's own site, and (n,) whether that is a distribution."""

    @abstractmethod
    def marginals_for_gradient(
        self, chunks: Sequence[Projection], left: Sequence[Array]
    ) -> tuple[Marginals, list[Array]]:
        """As `marginals`, by `fixed_q_factors`, and products that `reverse` is made of."""

    @abstractmethod
    def sums(
        self, chunks: Sequence[Projection], g_m: Array, g_V: Array
    ) -> tuple[list[Array], list[Array]]:
        """G = ∂E/∂S and A g_m = ∂E/∂μ of each group."""

    @abstractmethod
    def reverse(
        self,
        chunks: Sequence[Projection],
        g_m: Array,
        g_V: Array,
        left: Sequence[Array],
        products: list[Array] | None = None,
    ) -> list[KernelGradient]:
        """Gradients at fixed q of each latent, all but the part through L; spoils `products`."""

    @abstractmethod
    def reverse_sites(
        self,
        chunks: Sequence[Projection],
        g_m: Array,
        g_V: Array,
        sites: Array,
        left: Sequence[Array],
        S_mu_bar: Sequence[Array],
    ) -> list[KernelGradient]:
        """As `reverse`, for q as a function of the hyperparameters at fixed sites."""

    # ---- small matrices: of one group -----------------------------------------------------------

    @abstractmethod
    def fixed_q_factors(
        self, priors: Sequence[InducingPrior], q: Gaussian, *, whitened: bool = True
    ) -> Array:
        """What turns slopes into the gradient in Kuf at fixed q; whitened : if chunks have A."""

    @abstractmethod
    def site_factors(
        self,
        priors: Sequence[InducingPrior],
        q: Gaussian,
        A_gm: Array,
        G: Array,
        b: Array,
        Lam: Array,
    ) -> SiteFactors:
        """What the gradient at fixed sites takes: from sums at q, and its natural parameters."""

    @abstractmethod
    def whiten(self, priors: Sequence[InducingPrior], G: Array, A_gm: Array) -> tuple[Array, Array]:
        """Sums with A from those with Kuf in its place."""

    @abstractmethod
    def through_L(
        self, priors: Sequence[InducingPrior], q: Gaussian, A_gm: Array, G: Array
    ) -> list[tuple[Array, Array]]:
        """The part of the gradient at fixed q that goes through L: kernel and Z of each latent."""
