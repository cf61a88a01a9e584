"""The mean field: q(u_1) … q(u_b) without correlations between latents (Saul et al. 2016, eq. 2).

Its marginals are (Saul et al. 2016, eqs. 4 and 5)

    m = mean(X) + Aᵀμ,    v = kff + Σ_M A ∘ (S − I) A.

Sites are two numbers per row and latent, λ2 = −2 g_v and λ1 = g_m + λ2 m, in arrays (2, b, n): λ1
first. All else of a family of q is in `family`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array, Booleans
from .blocks import Chunks
from .family import Entry, Marginals, PosteriorFamily, Q

CAVITY_FLOOR = 1e-6  # Where 1 − λ2 s is less, the cavity (q without a site) is no distribution.


class MeanField(PosteriorFamily):
    """The mean field: every latent has a Gaussian q(u_j) of its own."""

    name = "mean_field"

    def groups(self, b: int) -> list[tuple[int, ...]]:
        """Each latent alone is a group of the mean field."""
        return [(j,) for j in range(b)]

    def marginal_shape(self, b: int) -> tuple[int, ...]:
        """Shape of a row's marginal in the mean field, a variance for each latent."""
        return (b,)

    def entry(self, V: NDArray[Entry], j: int, k: int) -> NDArray[Entry]:
        """The variance of latent j = k at every row in the mean field."""
        return V[j]

    def site_shape(self, b: int) -> tuple[int, ...]:
        """Shape of a row's site in the mean field: λ1 and λ2 of each latent."""
        return 2, b

    def linear(self, sites: Array) -> Array:
        """λ1 of the sites of the mean field, (b, n)."""
        return sites[0]

    def precision(self, sites: Array, j: int, k: int) -> Array:
        """λ2 of the sites of latent j = k in the mean field."""
        return sites[1, j]

    def clip(self, sites: Array) -> None:
        """Set sites of negative precision to 0 in the mean field."""
        sites[:, sites[1] < 0.0] = 0.0

    def make_positive(self, chunks: Chunks, q: Q, sites: Array) -> None:
        """Take negative precisions from mean-field sites: λ2⁺ = max(λ2, 0), λ1⁺ = g_m + λ2⁺ m."""
        lam1, lam2 = sites
        negative = np.minimum(lam2, 0.0)
        lam1 -= negative * self.means(chunks, q)
        lam2 -= negative

    def cavities(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Marginals, Booleans]:
        """Mean-field cavities: with s = aᵀSa and s₋ = s/(1 − λ2 s), m − s₋ g_m and v − s + s₋.

        Here v = kff − aᵀa + s.

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
