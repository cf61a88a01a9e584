"""Squared distances of all pairs of points, for kernels; by matrix products where exact enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..linalg import Array, Workspace

EPS = np.finfo(float).eps  # A product of two numbers is rounded by this share of its size.
#: If matrix products would round r² by more than this, coordinates are subtracted before squaring.
ROUNDING = 1e-9

_work = Workspace()

#: The reverse pass of distances in scaled coordinates: W = dL/dr² (n, m), wrt_second -> Σ_ij W_ij;
#: ½ dL/dX (n, D), of both sides if Z is X; ½ dL/dZ (m, D) or None; Σ_ij W_ij (x_id − z_jd)², (D,).
Pull = Callable[[Array, bool], tuple[float, Array, Any, Array]]


class DistancesFrom:
    """Squared distances r²_ij = |x_i|² + |z_j|² − 2 x_iᵀz_j of points X to Z, centred and scaled.

    There is no (n, m, D) array. If points are very many lengthscales from their centre, too many
    digits cancel: then r² is Σ_d (x_id − z_jd)², added dimension after dimension, which is slower.

    Parameters
    ----------
    X : (n, D)
    lengthscale : number or (D,); all coordinates are divided by it.
    exact_zero : set r² to exactly 0 where it is not larger than its own rounding error; kernels
        with a kink at r = 0 need it.
    largest : r² is cut here (inf for no cut).
    scale, shift : `among` and `to` give scale · r² + shift: the exponent of a kernel, at no cost.
    """

    def __init__(
        self,
        X: Array,
        lengthscale: float | Array,
        *,
        exact_zero: bool = False,
        largest: float = np.inf,
        scale: float = 1.0,
        shift: float = 0.0,
    ) -> None:
        # Distances do not depend on the origin; amid the data the fewest digits of r² cancel.
        self.centre = X.mean(0) if len(X) else np.zeros(X.shape[1])
        self.lengthscale, self.exact_zero = lengthscale, exact_zero
        one = self._with_squares(X)  # (n, D + 2)
        self.X, self.x2 = one[:, :-2], one[:, -1]
        self.most = self.x2.max(initial=0.0)
        self.tolerance = (X.shape[1] + 4) * EPS
        self.scale, self.shift = scale, shift
        # exp is several times slower where it underflows, so nothing is farther than `largest`.
        self.ends = sorted((shift, scale * largest + shift))
        # Since r² ≤ 2 (|x|² + |z|²), an exponent may need no cut; r² itself is always cut, because
        # rounding may put it below 0.
        self.least_cut = 0.0 if scale == 1.0 else largest
        # The product of this array with [z, 1, |z|²] is scale · r² + shift.
        self.left = np.empty(one.shape)
        np.multiply(self.X, -2.0 * scale, out=self.left[:, :-2])
        self.left[:, -2] = scale * self.x2 + shift
        self.left[:, -1] = scale

    def _with_squares(self, X: Array) -> Array:
        """For distances: centred and scaled points with 1 and squares, [x, 1, |x|²] (n, D + 2)."""
        one = np.empty((X.shape[0], X.shape[1] + 2))
        scaled = np.subtract(X, self.centre, out=one[:, :-2])
        scaled /= self.lengthscale
        one[:, -2] = 1.0
        np.einsum("ij,ij->i", scaled, scaled, out=one[:, -1])
        return one

    def among(self) -> tuple[Array, Pull]:
        """Squared distances of all pairs of X, (n, n), exactly 0 on the diagonal; reverse pass."""
        X, x2 = self.X, self.x2
        if self._are_far(self.most):
            return self._one_by_one(X, True)
        r2 = X @ X.T  # an array times its own transpose is exactly symmetric
        r2 *= -2.0 * self.scale
        half = self.scale * x2 + 0.5 * self.shift
        r2 += np.add(half[:, None], half, out=_work.array("squares", *r2.shape))
        np.fill_diagonal(r2, self.shift)

        def pull(W: Array, wrt_second: bool) -> tuple[float, Array, None, Array]:
            """Reverse pass of distances, see `Pull`; there is no second side."""
            W = np.add(W, W.T, out=_work.array("both sides", *W.shape))
            rows = W.sum(1)
            dX = rows[:, None] * X - W @ X
            return float(rows.sum()) / 2, dX, None, np.einsum("ij,ij->j", X, dX)

        if self.least_cut <= 4.0 * self.most:
            self._cut(r2, x2)
        return r2, pull

    def to(self, Z: Array) -> tuple[Array, Pull]:
        """Squared distances (n, m) of X to every point of Z (m, D), and their reverse pass."""
        one = self._with_squares(Z)
        scaled, z2 = one[:, :-2], one[:, -1]
        most = z2.max(initial=0.0)
        if self._are_far(most):
            return self._one_by_one(scaled, False)
        values = self.left @ one.T
        if self.least_cut <= 2.0 * (self.most + most):
            self._cut(values, z2)

        def pull(W: Array, wrt_second: bool) -> tuple[float, Array, Any, Array]:
            """As `Pull` says."""
            WZ = W @ one  # (n, D + 2): Σ_j W_ij z_jd, then Σ_j W_ij
            rows, columns = WZ[:, -2], W.sum(0)
            WZ = WZ[:, :-2]
            dX = rows[:, None] * self.X
            dX -= WZ
            spread = columns @ (scaled * scaled)
            spread += np.einsum("ij,ij->j", self.X, dX - WZ)
            dZ = columns[:, None] * scaled - W.T @ self.X if wrt_second else None
            return float(rows.sum()), dX, dZ, spread

        return values, pull

    def _are_far(self, most: float) -> bool:
        """Whether a matrix product loses too many digits of r² if the largest |z|² is `most`."""
        return not self.tolerance * (self.most + most) <= ROUNDING

    def _cut(self, values: Array, z2: Array) -> Array:
        np.clip(values, *self.ends, out=values)
        if self.exact_zero:
            size = np.abs(values - self.shift)
            values[size <= abs(self.scale) * self.tolerance * (self.x2[:, None] + z2)] = self.shift
        return values

    def _one_by_one(self, Z: Array, symmetric: bool) -> tuple[Array, Pull]:
        """Squared distances by differences of coordinates, and their reverse pass; Z is scaled."""
        X = self.X

        def differences() -> Iterator[Array]:
            """x_id − z_jd, (n, m), for one d after the other, always in the same array."""
            out = np.empty((len(X), len(Z)))
            for x, z in zip(X.T, Z.T, strict=True):
                yield np.subtract(x[:, None], z, out=out)

        r2 = np.zeros((len(X), len(Z)))
        for difference in differences():
            r2 += np.square(difference, out=difference)
        r2 *= self.scale
        r2 += self.shift
        np.clip(r2, *self.ends, out=r2)

        def pull(W: Array, wrt_second: bool) -> tuple[float, Array, Any, Array]:
            """As `Pull` says."""
            dX, dZ, spread = np.empty_like(X), np.empty_like(Z), np.empty(X.shape[1])
            for d, difference in enumerate(differences()):
                slope = W * difference
                spread[d] = np.einsum("ij,ij->", slope, difference)
                dX[:, d], dZ[:, d] = slope.sum(axis=1), -slope.sum(axis=0)
            if symmetric:
                dX += dZ
            return float(W.sum()), dX, dZ if wrt_second and not symmetric else None, spread

        return r2, pull
