"""The linear kernel, k(x, z) = Σ_d variances_d (x_d − c_d)(z_d − c_d)."""

from __future__ import annotations

import numpy as np

from ..data.names import checks_names
from ..errors import InputError
from ..linalg import Array
from ..parameters.roles import Role
from .base import Columns, Kernel, Pullback, PullbackDiag, Values


class Linear(Kernel):
    """Kernel of linear functions that are 0 at c, k(x, z) = Σ_d variances_d (x_d − c_d)(z_d − c_d).

    Parameters
    ----------
    input_dim : number of columns the kernel acts on.
    variances : prior variances of the slopes: one value, or (input_dim,) with ARD; 1 if None.
    ARD : one variance per dimension.
    active_dims : the columns of X it acts on; None for all.
    name : ASCII identifier.
    centre : the point c, one value or (input_dim,), which is no parameter. If X is far from 0, as
        years are, slopes are easier to find with c at the mean of X.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    roles = {"variances": Role.VARIANCE}

    @checks_names
    def __init__(
        self,
        input_dim: int,
        variances: Values | None = None,
        ARD: bool = False,
        active_dims: Columns | None = None,
        name: str = "linear",
        centre: Values = 0.0,
    ) -> None:
        super().__init__(input_dim, name, active_dims)
        self.centre = self._checked_centre(centre)
        self.ARD = bool(ARD)
        self.variances = self._per_dimension("variances", variances, self.ARD)
        self.link_parameter(self.variances)

    def _checked_centre(self, centre: Values) -> Array:
        """Check the centre c of the linear kernel, (input_dim,)."""
        try:
            values = np.array(centre, dtype=float).ravel()
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.size not in (1, self.input_dim) or not np.isfinite(values).all():
            raise InputError(
                f"{type(self).__name__}: centre must be finite, one value or {self.input_dim}; "
                f"got {centre!r}"
            )
        return np.broadcast_to(values, (self.input_dim,)).copy()

    def _gradient(self, per_dimension: Array) -> Array:
        return per_dimension if self.ARD else np.array([per_dimension.sum()])

    def _evaluate(self, X: Array, Z: Array | None) -> tuple[Array, Pullback]:
        v = self.variances.values.copy()
        X, Z = X - self.centre, None if Z is None else Z - self.centre
        if Z is None:
            scaled = X * np.sqrt(v)
            K = scaled @ scaled.T  # an array times its own transpose is exactly symmetric
        else:
            K = (X * v) @ Z.T

        def pullback(dL_dK: Array, wrt_second: bool = True) -> tuple[Array, Array, Array | None]:
            if Z is None:
                WX = (dL_dK + dL_dK.T) @ X  # (n, d)
                return self._gradient(np.einsum("ij,ij->j", X, WX) / 2), WX * v, None
            WZ = dL_dK @ Z
            dL_dZ = (dL_dK.T @ X) * v if wrt_second else None
            return self._gradient(np.einsum("ij,ij->j", X, WZ)), WZ * v, dL_dZ

        return K, pullback

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        v = self.variances.values.copy()
        X = X - self.centre
        X2 = X * X

        def pullback(dL_dk: Array) -> tuple[Array, Array]:
            return self._gradient(dL_dk @ X2), 2.0 * dL_dk[:, None] * X * v

        return (X2 * v).sum(1), pullback
