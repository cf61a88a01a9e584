"""Squared distances of many points, by matrix products where these are exact enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .base import Array

__all__ = ["SquaredDistances"]

EPS = np.finfo(float).eps
#: rounding of r² beyond which differences are taken before squares
ROUNDING = 1e-9


class SquaredDistances:
    """r²_ij = |x_i − z_j|² = |x_i|² + |z_j|² − 2 x_iᵀz_j, without an (n, m, D) array.

    Where points are very many lengthscales from their centre, that difference has lost too many
    digits: then it is Σ_d (x_id − z_jd)², dimension after dimension, which is slower.

    Parameters
    ----------
    X, Z : (n, D) and (m, D), centred and scaled; Z None for the symmetric case.
    exact_zero : set r² to exactly 0 where it is not larger than its own rounding error; kernels
        with a kink at r = 0 need it.
    largest : r² is cut here (inf for no cut).

    Attributes
    ----------
    r2 : (n, m), not negative, with exact zeros on the diagonal in the symmetric case.
    """

    def __init__(self, X: Array, Z: Array | None, exact_zero: bool, largest: float) -> None:
        self.X, self.Z = X, X if Z is None else Z
        self.Z1: Array | None = None
        x2 = np.einsum("ij,ij->i", X, X)
        z2 = x2 if Z is None else np.einsum("ij,ij->i", Z, Z)
        tolerance = (X.shape[1] + 4) * EPS
        rounding = tolerance * (x2.max(initial=0.0) + z2.max(initial=0.0))
        self.symmetric, self.one_by_one = Z is None, not rounding <= ROUNDING
        if self.one_by_one:
            r2 = np.zeros((len(self.X), len(self.Z)))
            for difference in self._differences():
                r2 += np.square(difference, out=difference)
        elif Z is None:
            r2 = X @ X.T  # one array and its transpose: exactly symmetric
            r2 *= -2.0
            r2 += x2[:, None] + x2
            np.fill_diagonal(r2, 0.0)
        else:
            D = X.shape[1]
            # norms ride along as two more columns: one product instead of three passes over r²
            X1 = np.empty((X.shape[0], D + 2))
            np.multiply(X, -2.0, out=X1[:, :D])
            X1[:, D] = x2
            X1[:, D + 1] = 1.0
            self.Z1 = Z1 = np.empty((Z.shape[0], D + 2))
            Z1[:, :D] = Z
            Z1[:, D] = 1.0
            Z1[:, D + 1] = z2
            r2 = X1 @ Z1.T
        # exp is several times slower where it underflows, so nothing is farther than `largest`
        np.clip(r2, 0.0, largest, out=r2)
        if exact_zero and not self.one_by_one:
            r2[r2 <= tolerance * (x2[:, None] + z2)] = 0.0
        self.r2 = r2

    def _differences(self) -> Iterator[Array]:
        """x_id − z_jd, (n, m), for one d after the other, always in the same array."""
        out = np.empty((len(self.X), len(self.Z)))
        for x, z in zip(self.X.T, self.Z.T, strict=True):
            yield np.subtract(x[:, None], z, out=out)

    def pull(self, W: Array, wrt_second: bool) -> tuple[float, Array, Any, Array]:
        """Reverse pass for W = dL/dr² (n, m).

        Returns
        -------
        total : Σ_ij W_ij
        dX : ½ dL/dX (n, D); both sides in the symmetric case.
        dZ : ½ dL/dZ (m, D), or None.
        spread : Σ_ij W_ij (x_id − z_jd)², (D,)
        """
        X = self.X
        if self.one_by_one:
            return self._pull_one_by_one(W, wrt_second)
        if self.Z1 is None:
            W = W + W.T
            rows = W.sum(1)
            dX = rows[:, None] * X - W @ X
            return float(rows.sum()) / 2, dX, None, np.einsum("ij,ij->j", X, dX)
        D = X.shape[1]
        Z = self.Z1[:, :D]
        WZ = W @ self.Z1  # (n, D + 2): Σ_j W_ij z_jd, then Σ_j W_ij
        rows, columns = WZ[:, D], W.sum(0)
        dX = rows[:, None] * X
        spread = np.einsum("ij,ij->j", X, dX - 2.0 * WZ[:, :D])
        spread += columns @ (Z * Z)
        dX -= WZ[:, :D]
        dZ = columns[:, None] * Z - W.T @ X if wrt_second else None
        return float(rows.sum()), dX, dZ, spread

    def _pull_one_by_one(self, W: Array, wrt_second: bool) -> tuple[float, Array, Any, Array]:
        dX, dZ, spread = np.empty_like(self.X), np.empty_like(self.Z), np.empty(self.X.shape[1])
        for d, difference in enumerate(self._differences()):
            slope = W * difference
            spread[d] = np.einsum("ij,ij->", slope, difference)
            dX[:, d], dZ[:, d] = slope.sum(axis=1), -slope.sum(axis=0)
        if self.symmetric:
            dX += dZ
        return float(W.sum()), dX, dZ if wrt_second and not self.symmetric else None, spread
