"""Kernels that do not look at the inputs: a constant and independent noise."""

from __future__ import annotations

import numpy as np

from ..data.names import checks_names
from ..linalg import Array
from ..parameters.roles import Role
from .base import Columns, Kernel, Pullback, PullbackDiag, constant_diag, positive


class Static(Kernel):
    """A kernel that ignores the inputs: one parameter, `variance` = k(x, x), no gradient in X."""

    default_name: str = "static"
    roles = {"variance": Role.VARIANCE}

    @checks_names
    def __init__(
        self,
        input_dim: int,
        variance: float = 1.0,
        active_dims: Columns | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_dim, self.default_name if name is None else name, active_dims)
        self.variance = positive(type(self).__name__, "variance", variance)
        self.link_parameter(self.variance)

    def _pullback(self, X: Array, Z: Array | None, identity: bool) -> Pullback:
        """Reverse pass of a static kernel: variance · I (identity), or one constant variance."""

        def pullback(dL_dK: Array, wrt_second: bool = True) -> tuple[Array, Array, Array | None]:
            total = np.trace(dL_dK) if identity else np.sum(dL_dK)
            dL_dZ = np.zeros(Z.shape) if wrt_second and Z is not None else None
            return np.array([total]), np.zeros(X.shape), dL_dZ

        return pullback

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        return constant_diag(self, X)


class Bias(Static):
    """A constant kernel, k(x, z) = variance: a function that is one unknown level.

    Parameters: input_dim, variance (positive), active_dims, name.
    """

    default_name = "bias"

    def _evaluate(self, X: Array, Z: Array | None) -> tuple[Array, Pullback]:
        shape = (X.shape[0], X.shape[0] if Z is None else Z.shape[0])
        # K is a view of one number: in a sum, the usual place of a bias, no array need be filled.
        K = np.broadcast_to(np.array(self.variance.values[0]), shape)
        return K, self._pullback(X, Z, identity=False)


class White(Static):
    """Independent noise as a kernel: K(X) = variance · I, 0 between two sets of inputs (as in GPy).

    K(X) has the noise on its diagonal, and K(X, X) has none: rows count as the same only in a call
    with one argument, whatever their values are. Parameters: input_dim, variance (positive),
    active_dims, name.
    """

    default_name = "white"
    has_white = True

    def _evaluate(self, X: Array, Z: Array | None) -> tuple[Array, Pullback]:
        if Z is None:
            K = np.zeros((X.shape[0], X.shape[0]))
            np.fill_diagonal(K, self.variance.values[0])
            return K, self._pullback(X, None, identity=True)

        def pullback(dL_dK: Array, wrt_second: bool = True) -> tuple[Array, Array, Array | None]:
            return np.zeros(1), np.zeros(X.shape), np.zeros(Z.shape) if wrt_second else None

        return np.zeros((X.shape[0], Z.shape[0])), pullback
