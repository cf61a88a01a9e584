"""The mean field: q(u_1) … q(u_b) without correlations between latents (Saul et al. 2016, eq. 2).

Its marginals are (Saul et al. 2016, eqs. 4 and 5)

    m = mean(X) + Aᵀμ,    v = kff + Σ_M A ∘ (S − I) A.

Sites are two numbers per row and latent, λ2 = −2 g_v and λ1 = g_m + λ2 m, in arrays (2, b, n): λ1
first. All else of a family of q is in `blocks`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array, Booleans
from .blocks import Blocks, T
from .family import Chunks, Marginals, Q

CAVITY_FLOOR = 1e-6  # Where 1 − λ2 s is less, q without a site is no distribution.


class MeanField(Blocks):
    """Every latent has a Gaussian q(u_j) of its own."""

    name = "mean_field"

    def groups(self, b: int) -> list[tuple[int, ...]]:
        """Each latent alone."""
        return [(j,) for j in range(b)]

    def marginal_shape(self, b: int) -> tuple[int, ...]:
        """A variance for each latent."""
        return (b,)

    def entry(self, V: NDArray[T], j: int, k: int) -> NDArray[T]:
        """The variance of latent j = k."""
        return V[j]

    def site_shape(self, b: int) -> tuple[int, ...]:
        """λ1 and λ2 of each latent."""
        return 2, b

    def linear(self, sites: Array) -> Array:
        """λ1, (b, n)."""
        return sites[0]

    def precision(self, sites: Array, j: int, k: int) -> Array:
        """λ2 of latent j = k."""
        return sites[1, j]

    def clip(self, sites: Array) -> None:
        """Sites of negative precision become 0."""
        sites[:, sites[1] < 0.0] = 0.0

    def make_positive(self, chunks: Chunks, q: Q, sites: Array) -> None:
        """λ2⁺ = max(λ2, 0) and λ1⁺ = g_m + λ2⁺ m."""
        lam1, lam2 = sites
        negative = np.minimum(lam2, 0.0)
        lam1 -= negative * self.means(chunks, q)
        lam2 -= negative

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


MEAN_FIELD = MeanField()
