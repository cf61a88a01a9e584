"""MacKay's periodic kernel, an RBF on the circle."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.names import checks_names
from ..linalg import Array
from ..parameters.roles import Role
from .base import Columns, Kernel, Pullback, PullbackDiag, Values, constant_diag, positive
from .distances import DistancesFrom


class Periodic(Kernel):
    """Periodic kernel, k = variance · exp(−½ Σ_d sin²(π (x_d − z_d) / period_d) / lengthscale_d²).

    MacKay's (1998) periodic kernel in the parametrisation of GPy's StdPeriodic. It is an RBF on
    the circle: with φ = 2πx/period, sin²(π(x − z)/period) = ¼ |(cos φ_x, sin φ_x) −
    (cos φ_z, sin φ_z)|², so it is computed by the same matrix products.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on.
    variance : k(x, x), positive.
    period : one value, or (input_dim,) with ARD1; 1 if None.
    lengthscale : one value, or (input_dim,) with ARD2; 1 if None.
    ARD1, ARD2 : one period, one lengthscale per dimension (GPy's names).
    active_dims : the columns of X it acts on; None for all.
    name : ASCII identifier.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    roles = {
        "variance": Role.VARIANCE,
        "period": Role.PERIOD,
        "lengthscale": Role.LENGTHSCALE,
    }

    @checks_names
    def __init__(
        self,
        input_dim: int,
        variance: float = 1.0,
        period: Values | None = None,
        lengthscale: Values | None = None,
        ARD1: bool = False,
        ARD2: bool = False,
        active_dims: Columns | None = None,
        name: str = "periodic",
    ) -> None:
        super().__init__(input_dim, name, active_dims)
        self.ARD1, self.ARD2 = bool(ARD1), bool(ARD2)
        self.variance = positive(type(self).__name__, "variance", variance)
        self.period = self._per_dimension("period", period, self.ARD1)
        self.lengthscale = self._per_dimension("lengthscale", lengthscale, self.ARD2)
        self.link_parameters(self.variance, self.period, self.lengthscale)

    def _evaluate(self, X: Array, Z: Array | None) -> tuple[Array, Pullback]:
        D = X.shape[1]
        variance = float(self.variance.values[0])
        period, lengthscale = self.period.values.copy(), self.lengthscale.values.copy()
        radius = 0.5 / lengthscale  # on circles of this radius r² is the sum in the exponent
        centre = X.mean(0) if len(X) else 0.0  # the phase of an x far from 0 would lose digits

        def embed(points: Array) -> tuple[Array, Array]:
            phase = (points - centre) * (2.0 * np.pi / period)  # (n, D)
            return phase, np.hstack((np.cos(phase) * radius, np.sin(phase) * radius))  # (n, 2D)

        phase_X, U = embed(X)
        phase_Z: Any = None
        V: Any = None
        if Z is not None:
            phase_Z, V = embed(Z)
        distances = DistancesFrom(U, 1.0, largest=1e3, scale=-0.5, shift=np.log(variance))
        K, pull = distances.among() if V is None else distances.to(V)
        np.exp(K, out=K)

        def pullback(dL_dK: Array, wrt_second: bool = True) -> tuple[Array, Array, Array | None]:
            """Reverse pass of the periodic kernel: dL/dθ, dL/dX and dL/dZ from dL/dK."""
            # The period moves the points of both sides, so both gradients are always needed.
            total, dU, dV, spread = pull(dL_dK * K, True)  # dk/dr² = −k/2
            d_phase = -(U[:, :D] * dU[:, D:] - U[:, D:] * dU[:, :D])  # (n, D)
            d_period = np.einsum("ij,ij->j", d_phase, phase_X)
            dL_dZ = None
            if V is not None:
                d_phase_Z = -(V[:, :D] * dV[:, D:] - V[:, D:] * dV[:, :D])
                d_period += np.einsum("ij,ij->j", d_phase_Z, phase_Z)
                dL_dZ = d_phase_Z * (2.0 * np.pi / period) if wrt_second else None
            d_period = (d_period if self.ARD1 else d_period.sum()) / -period
            spread = spread[:D] + spread[D:]
            d_lengthscale = (spread if self.ARD2 else spread.sum()) / lengthscale
            dL_dtheta = np.hstack((total / variance, d_period, d_lengthscale))
            return dL_dtheta, d_phase * (2.0 * np.pi / period), dL_dZ

        return K, pullback

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        return constant_diag(self, X)
