"""Families of posteriors: what q over the latents may be, and all that depends on the choice.

The whitened inducing values v = (v_1, …, v_b) of the b latents fall into *groups*, within which q
has correlations and between which it has none: q(v) is a product of Gaussians, one for each group.
In the mean field every latent is a group of its own, q(u_1) … q(u_b); a joint posterior has one
group. KL, natural-gradient steps, their mixing and acceleration are the same for the Gaussian of
any group and need no word here (`gaussian`, `sums`).

What a row has to do with q depends on the family, and is a method of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from ..linalg import Array, Booleans
from .gaussian import Gaussian, root_of
from .sparse import InducingPrior, KernelGradient, Projection
from .sums import Gram

T = TypeVar("T")
Arrays = Sequence[Array]
Chunks = Sequence[Projection]  # Projections of some rows, one for each latent.
Priors = Sequence[InducingPrior]  # The priors of the latents of one group.
Q = Sequence[Gaussian]  # The Gaussian of each group.


class Marginals(NamedTuple):
    """Marginals q(f_1(x_i), …, f_b(x_i)) of every row i of a chunk; rows are the last axis."""

    m: Array  # (b, n) means
    V: Array  # (b, n) variances or, where q has correlations, (b, b, n) covariances
    floored: Booleans  # True where rounding had made V negative; shape of V.


class SiteFactors(NamedTuple):
    """What the gradient at fixed sites takes beside the sums of an evaluation, of one group."""

    left: Array  # This turns slopes and sites of a row into the gradient in Kuf.
    S_mu_bar: Array  # Sμ̄, the change of S⁻¹μ by which the mean of q gains most
    H: list[Array]  # (∂/∂A) Aᵀ of each latent of the group, (M, M), its lower triangle


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
    in chunks, and `whiten` then turns the sums into those with A.

    `blocks` has the formulas for any groups.
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

    # ---- sites and rows: on a chunk, in threads -------------------------------------------------

    @abstractmethod
    def site_shape(self, b: int) -> tuple[int, ...]:
        """Shape of the site of one row, in this family of posteriors."""

    @abstractmethod
    def precisions(self, sites: Array) -> Array:
        """Precisions Λ_jj of the sites of rows, (b, n): how precisely they tell latent j."""

    @abstractmethod
    def write_sites(self, sites: Array, m: Array, g_m: Array, g_V: Array) -> None:
        """Set sites to those that have these slopes of E[log p] at means m (b, n)."""

    @abstractmethod
    def measured(self, values: Array, precisions: Array) -> Array:
        """Sites of rows at which latents were measured: values (b, n), of precisions (b,)."""

    @abstractmethod
    def slopes(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Array, Array]:
        """The slopes g_m and g_V of E[log p] from which sites were written at this q."""

    @abstractmethod
    def clip(self, sites: Array) -> None:
        """Drop what has negative precision from sites, so that q exists."""

    @abstractmethod
    def make_positive(self, chunks: Chunks, q: Q, sites: Array) -> None:
        """Drop the negative part of the sites' precisions, at the same slope g_m at q."""

    @abstractmethod
    def narrow(self, chunks: Chunks, sites: Array) -> None:
        """Set sites to such that hold every latent close to its mean function."""

    @abstractmethod
    def gram(self, chunks: Chunks, sites: Array) -> Gram:
        """The natural parameters of q that the sites of a chunk sum up to, of each group."""

    @abstractmethod
    def marginals(self, chunks: Chunks, q: Q) -> Marginals:
        """The marginals q(f) of every row of a chunk."""

    @abstractmethod
    def cavities(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Marginals, Booleans]:
        """Cavities: q(f) of every row without its own site; (n,) whether it is a distribution."""

    @abstractmethod
    def marginals_for_gradient(self, chunks: Chunks, left: Arrays) -> tuple[Marginals, list[Array]]:
        """Marginals q(f) of a chunk from `fixed_q_factors`, and the products `reverse` takes."""

    @abstractmethod
    def sums(self, chunks: Chunks, g_m: Array, g_V: Array) -> tuple[list[Array], list[Array]]:
        """Sums over a chunk's rows, G = ∂E/∂S and A g_m = ∂E/∂μ of each group of q."""

    @abstractmethod
    def reverse(
        self,
        chunks: Chunks,
        g_m: Array,
        g_V: Array,
        left: Arrays,
        products: list[Array] | None = None,
    ) -> list[KernelGradient]:
        """Gradients at fixed q in kernel, Z, mean, all but those through L; spoils `products`."""

    @abstractmethod
    def reverse_sites(
        self, chunks: Chunks, g_m: Array, g_V: Array, sites: Array, left: Arrays, S_mu_bar: Arrays
    ) -> list[KernelGradient]:
        """Gradients as `reverse` gives them, for a q that moves with θ at fixed sites."""

    # ---- small matrices: of one group -----------------------------------------------------------

    @abstractmethod
    def fixed_q_factors(self, priors: Priors, q: Gaussian, *, whitened: bool = True) -> Array:
        """Factors that turn slopes of rows into the gradient in Kuf at fixed q.

        whitened : whether chunks have A.
        """

    @abstractmethod
    def site_factors(
        self, priors: Priors, q: Gaussian, A_gm: Array, G: Array, b: Array, Lam: Array
    ) -> SiteFactors:
        """What the gradient at fixed sites takes: from sums at q and its natural parameters."""

    @abstractmethod
    def whiten(self, priors: Priors, G: Array, A_gm: Array) -> tuple[Array, Array]:
        """Sums over rows with A = L⁻¹ Kuf, from those with Kuf in its place."""

    @abstractmethod
    def through_L(
        self, priors: Priors, q: Gaussian, A_gm: Array, G: Array
    ) -> list[tuple[Array, Array]]:
        """The part of the gradient at fixed q that goes through L: kernel and Z of each latent."""
