"""Squared distances of many points by matrix products, and their reverse pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Array

__all__ = ["SquaredDistances"]

EPS = np.finfo(float).eps
#: rounding of r² beyond which points that coincide are told apart from points that do not
ROUNDING = 1e-10


class SquaredDistances:
    """r²_ij = |x_i − z_j|² = |x_i|² + |z_j|² − 2 x_iᵀz_j, without an (n, m, D) array.

    Parameters
    ----------
    X, Z : (n, D) and (m, D), centred and scaled; Z None for the symmetric case.
    exact_zero : set r² to exactly 0 where it is not larger than its own rounding error. Kernels
        with a kink at r = 0 need it; for others it is done only where rounding could be seen.
    largest : r² is cut here (inf for no cut).

    Attributes
    ----------
    r2 : (n, m), not negative, with exact zeros on the diagonal in the symmetric case.
    """

    def __init__(self, X: Array, Z: Array | None, exact_zero: bool, largest: float) -> None:
        self.X = X
        x2 = np.einsum("ij,ij->i", X, X)
        if Z is None:
            self.Z1 = None
            z2 = x2
            r2 = X @ X.T  # one array and its transpose: exactly symmetric
            r2 *= -2.0
            r2 += x2[:, None] + x2
            np.fill_diagonal(r2, 0.0)
        else:
            D = X.shape[1]
            z2 = np.einsum("ij,ij->i", Z, Z)
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
        tolerance = (X.shape[1] + 4) * EPS
        largest_rounding = tolerance * (x2.max(initial=0.0) + z2.max(initial=0.0))
        if exact_zero or largest_rounding > ROUNDING:
            r2[r2 <= tolerance * (x2[:, None] + z2)] = 0.0
        self.r2 = r2

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
