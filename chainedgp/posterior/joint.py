"""The joint posterior: one Gaussian q(u_1, …, u_b) with correlations between latents.

Where a likelihood couples its latents, the mean field is far too sure of itself. The stacked v has
M = Σ_j M_j dimensions, and a row b means and a covariance V (b, b) of its latents. Its site is λ1
(b) and Λ = −2 G (b, b), symmetric: in arrays (b + b(b + 1)/2, n), λ1 first, then the rows of the
lower triangle of Λ. All else of a family of q is in `family`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import NOT_FINITE, NumericalError
from ..expectations.quadrature import cholesky_factors
from ..linalg import Array, Booleans, Indices
from .blocks import Chunks
from .family import Entry, Marginals, PosteriorFamily, Q
from .mean_field import CAVITY_FLOOR


class Joint(PosteriorFamily):
    """The family of joint posteriors: all latents have one Gaussian q(u_1, …, u_b)."""

    name = "joint"

    def groups(self, b: int) -> list[tuple[int, ...]]:
        """All latents together are the one group of a joint posterior."""
        return [tuple(range(b))]

    def marginal_shape(self, b: int) -> tuple[int, ...]:
        """Shape of a row's marginal under a joint posterior, a covariance of all latents."""
        return b, b

    def entry(self, V: NDArray[Entry], j: int, k: int) -> NDArray[Entry]:
        """The covariance of latents j and k at every row under a joint posterior."""
        return V[j, k]

    def site_shape(self, b: int) -> tuple[int, ...]:
        """Shape of a row's site under a joint posterior: λ1 and the lower triangle of Λ."""
        return (b * (b + 3) // 2,)

    def linear(self, sites: Array) -> Array:
        """λ1 of the sites of a joint posterior, (b, n)."""
        return sites[: _num_latents(sites)]

    def precision(self, sites: Array, j: int, k: int) -> Array:
        """Λ_jk of the sites of a joint posterior."""
        row, column = max(j, k), min(j, k)
        return sites[_num_latents(sites) + row * (row + 1) // 2 + column]

    def clip(self, sites: Array) -> None:
        """Drop what sites of a joint posterior say along directions of negative precision."""
        w, U = self._eigen(sites)
        bad = np.flatnonzero((w < 0.0).any(axis=1))
        w, U = w[bad], U[bad]
        lam1 = self.linear(sites)
        along = np.einsum("nji,jn->ni", U, lam1[:, bad]) * (w >= 0.0)
        lam1[:, bad] = np.einsum("nij,nj->in", U, along)
        self._write_some(sites, bad, w, U)

    def make_positive(self, chunks: Chunks, q: Q, sites: Array) -> None:
        """Take the negative eigenvalues from Λ of joint sites: Λ⁺, and λ1⁺ = g_m + Λ⁺ m."""
        w, U = self._eigen(sites)
        bad = np.flatnonzero((w < 0.0).any(axis=1))
        w, U = w[bad], U[bad]
        along = np.einsum("nji,jn->ni", U, self.means(chunks, q)[:, bad]) * np.minimum(w, 0.0)
        self.linear(sites)[:, bad] -= np.einsum("nij,nj->in", U, along)
        self._write_some(sites, bad, w, U)

    def _eigen(self, sites: Array) -> tuple[Array, Array]:
        """Eigenvalues (n, b) and vectors (n, b, b) of Λ of joint sites.

        Raises NumericalError where Λ is not finite.
        """
        try:
            w, U = np.linalg.eigh(self._block(sites))
        except np.linalg.LinAlgError:
            raise NumericalError(NOT_FINITE) from None
        return w, U

    def _block(self, sites: Array) -> Array:
        """The precision Λ of the joint site of every row, (n, b, b)."""
        b = _num_latents(sites)
        rows = [[self.precision(sites, j, k) for k in range(b)] for j in range(b)]
        return np.array(rows).transpose(2, 0, 1)

    def _write_some(self, sites: Array, rows: Indices, w: Array, U: Array) -> None:
        """Set Λ of the joint sites of some rows to U max(w, 0) Uᵀ."""
        Lam = (U * np.maximum(w, 0.0)[:, None, :]) @ U.swapaxes(1, 2)
        for j in range(Lam.shape[1]):
            for k in range(j + 1):
                self.precision(sites, j, k)[rows] = Lam[:, j, k]

    def cavities(self, chunks: Chunks, q: Q, sites: Array) -> tuple[Marginals, Booleans]:
        """Joint cavities: with s_jk = a_jᵀS_jk a_k and s₋ = (s⁻¹ − Λ)⁻¹, m − s₋ g_m and V − s + s₋.

        With s = R Rᵀ, s₋ = R (I − RᵀΛR)⁻¹ Rᵀ. Where I − RᵀΛR is not positive definite, no
        distribution is left, and s₋ stays s.
        """
        m, V, floored = self.marginals(chunks, q)
        sizes = [len(chunk.A) for chunk in chunks]
        s = np.moveaxis(V, -1, 0).copy()  # s is (n, b, b); V has another diagonal.
        for j, (chunk, part) in enumerate(zip(chunks, self.by_latent(q, sizes), strict=True)):
            s[:, j, j] = np.einsum("ij,ij->j", chunk.A, part.S @ chunk.A)
        R = np.moveaxis(cholesky_factors(s), -1, 0)
        rest = np.eye(len(m)) - R.swapaxes(1, 2) @ self._block(sites) @ R
        proper = np.linalg.eigvalsh(rest)[:, 0] > CAVITY_FLOOR
        new = R @ np.linalg.inv(np.where(proper[:, None, None], rest, np.eye(len(m))))
        new = new @ R.swapaxes(1, 2)
        g_m = self.linear(sites) - self._times(sites, m)
        m = m - np.einsum("njk,kn->jn", new, g_m)
        return Marginals(m, V + np.moveaxis(new - s, 0, -1), floored), proper


JOINT = Joint()


def _num_latents(sites: Array) -> int:
    """The number b of latents of joint sites, which have b + b(b + 1)/2 numbers a row."""
    return int((np.sqrt(9 + 8 * len(sites)) - 3) / 2 + 0.5)
