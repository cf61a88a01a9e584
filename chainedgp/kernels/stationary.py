"""Stationary kernels k = variance · ρ(r²), r² = Σ_d (x_d − z_d)² / lengthscale_d²."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.names import checks_names
from ..linalg import Array, Workspace
from ..parameters.roles import Role
from .base import Columns, Evaluate, Kernel, Pullback, PullbackDiag, Values, constant_diag, positive
from .distances import DistancesFrom

SQRT3, SQRT5 = np.sqrt(3.0), np.sqrt(5.0)

_work = Workspace()


class Stationary(Kernel):
    """Stationary kernel k(x, z) = variance · ρ(r²), with r² = Σ_d (x_d − z_d)² / lengthscale_d².

    A new stationary kernel gives `correlation` (ρ of r²) and `slope` (dk/dr²), nothing else, or
    just `exponent`, c where ρ = exp(c r²). A class that writes `correlation` anew has neither the
    `exponent` nor the `largest_r2` of its parent, which belong to the parent's ρ.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on.
    variance : k(x, x), positive.
    lengthscale : one value, or (input_dim,) with ARD; 1 if None.
    ARD : one lengthscale per dimension (automatic relevance determination).
    active_dims : the columns of X it acts on; None for all.
    name : ASCII identifier; None for the `default_name` of its class.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    default_name: str = "stationary"
    roles = {"variance": Role.VARIANCE, "lengthscale": Role.LENGTHSCALE}
    #: The c of a kernel with ρ = exp(c · r²): the matrix product of distances then gives c · r².
    exponent: float | None = None
    #: Larger r² count as this one: a kernel that is 0 to rounding beyond it sets it, for speed.
    largest_r2: float = np.inf
    #: Whether ρ has a kink at r = 0, where its derivative in r² is infinite.
    kink: bool = False
    #: Names of parameters of ρ itself; the constructor links them after variance and lengthscale.
    shape_names: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reset in a kernel class with its own ρ what holds only for its parent's ρ."""
        super().__init_subclass__(**kwargs)
        if "correlation" in cls._written():
            cls.exponent = vars(cls).get("exponent")
            cls.largest_r2 = vars(cls).get("largest_r2", np.inf)

    @checks_names
    def __init__(
        self,
        input_dim: int,
        variance: float = 1.0,
        lengthscale: Values | None = None,
        ARD: bool = False,
        active_dims: Columns | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_dim, self.default_name if name is None else name, active_dims)
        self.ARD = bool(ARD)
        self.variance = positive(type(self).__name__, "variance", variance)
        self.lengthscale = self._per_dimension("lengthscale", lengthscale, self.ARD)
        self.link_parameters(self.variance, self.lengthscale)

    def correlation(self, r2: Array, *shape: float) -> tuple[Array, object]:
        """ρ(r²) (n, m) of a stationary kernel, and what `slope` needs. May overwrite r2 (n, m)."""
        raise NotImplementedError(f"{type(self).__name__} must implement correlation")

    def slope(self, memo: object, K: Array, *shape: float) -> tuple[Array, float]:
        """dk/dr² as (S, c) with dk/dr² = c · S, S (n, m); S may be K itself, which saves a pass."""
        if self.exponent is None:
            raise NotImplementedError(f"{type(self).__name__} must implement slope")
        return K, self.exponent

    def shape_slopes(self, memo: object, K: Array, *shape: float) -> tuple[Array, ...]:
        """Derivatives dk/dshape (n, m) of a stationary kernel, one for each of `shape_names`."""
        return ()

    def _prepare(self, X: Array) -> Evaluate:
        variance, lengthscale = float(self.variance.values[0]), self.lengthscale.values.copy()
        shape = [float(getattr(self, name).values[0]) for name in self.shape_names]
        level = {} if self.exponent is None else {"scale": self.exponent, "shift": np.log(variance)}
        distances = DistancesFrom(
            X, lengthscale, exact_zero=self.kink, largest=self.largest_r2, **level
        )

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """The stationary kernel's K (n, m) and its pullback, at the parameters as prepared."""
            K, pull = distances.among() if Z is None else distances.to(Z)
            memo = None
            if self.exponent is None:
                K, memo = self.correlation(K, *shape)
                K *= variance
            else:
                np.exp(K, out=K)

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """Reverse pass of a stationary kernel: dL/dθ, dL/dX and dL/dZ from dL/dK."""
                S, c = self.slope(memo, K, *shape)
                W = np.multiply(dL_dK, S, out=_work.array("dL_dr2", *K.shape))
                total, dX, dZ, spread = pull(W, wrt_second)
                dX *= 2.0 * c / lengthscale
                if dZ is not None:
                    dZ *= 2.0 * c / lengthscale
                dL_dtheta = np.empty(self.size)
                dL_dtheta[0] = (total if S is K else np.vdot(dL_dK, K)) / variance
                dL_dtheta[1 : self.size - len(shape)] = (
                    -2.0 * c * (spread if self.ARD else spread.sum()) / lengthscale
                )
                for k, slope in enumerate(self.shape_slopes(memo, K, *shape)):
                    dL_dtheta[k - len(shape)] = np.vdot(dL_dK, slope)
                return dL_dtheta, dX, dZ

            return K, pullback

        return evaluate

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        return constant_diag(self, X)


class RBF(Stationary):
    """Squared exponential kernel, k = variance · exp(−r²/2). Arguments: see `Stationary`."""

    default_name = "rbf"
    exponent = -0.5
    largest_r2 = 1e3  # At this r² ρ is exp(-500).


class Matern12(Stationary):
    """Exponential kernel (Matérn ν = 1/2), k = variance · exp(−r). Arguments: see `Stationary`.

    The kink at r = 0 has no derivative in x; it contributes zero to gradients.
    """

    default_name = "matern12"
    largest_r2 = 2.5e5  # At this r² ρ is exp(-500).
    kink = True

    def correlation(self, r2: Array, *shape: float) -> tuple[Array, Array]:
        """Matérn 1/2: ρ = exp(−r); keeps r for `slope`."""
        r = np.sqrt(r2, out=r2)
        rho = np.negative(r)
        return np.exp(rho, out=rho), r

    def slope(self, memo: Array, K: Array, *shape: float) -> tuple[Array, float]:
        """Matérn 1/2: dk/dr² = −k / (2r), and 0 at r = 0."""
        return np.divide(K, memo, out=np.zeros_like(K), where=memo > 0), -0.5


class Matern32(Stationary):
    """Matérn ν = 3/2, k = variance · (1 + s) exp(−s), s = √3 r. Arguments: see `Stationary`."""

    default_name = "matern32"
    largest_r2 = 8e4  # At this r² ρ is about exp(-490).

    def correlation(self, r2: Array, *shape: float) -> tuple[Array, Array]:
        """Matérn 3/2: ρ = (1 + s) exp(−s); keeps 1 + s for `slope`."""
        s = np.sqrt(r2, out=r2)
        s *= SQRT3
        rho = np.negative(s)
        np.exp(rho, out=rho)
        s += 1.0
        rho *= s
        return rho, s

    def slope(self, memo: Array, K: Array, *shape: float) -> tuple[Array, float]:
        """Matérn 3/2: dk/dr² = −3/2 variance · exp(−s) = −3/2 k / (1 + s), finite at r = 0."""
        return K / memo, -1.5


class Matern52(Stationary):
    """Matérn ν = 5/2, k = variance · (1 + s + s²/3) exp(−s), s = √5 r. See `Stationary`."""

    default_name = "matern52"
    largest_r2 = 5e4  # At this r² ρ is about exp(-500).

    def correlation(self, r2: Array, *shape: float) -> tuple[Array, tuple[Array, Array]]:
        """Matérn 5/2: ρ = (1 + s + s²/3) exp(−s); keeps 1 + s and the polynomial for `slope`."""
        polynomial = r2 * (5.0 / 3.0)
        s = np.sqrt(r2, out=r2)
        s *= SQRT5
        rho = np.negative(s)
        np.exp(rho, out=rho)
        s += 1.0
        polynomial += s
        rho *= polynomial
        return rho, (s, polynomial)

    def slope(self, memo: tuple[Array, Array], K: Array, *shape: float) -> tuple[Array, float]:
        """Matérn 5/2: dk/dr² = −5/6 variance · (1 + s) exp(−s), finite at r = 0."""
        S = K / memo[1]
        S *= memo[0]
        return S, -5.0 / 6.0


class RationalQuadratic(Stationary):
    """Rational quadratic kernel, GPy's RatQuad: k = variance · (1 + r²/2)^(−power).

    Arguments are those of `Stationary` and `power`.

    There is no division of r² by the power: if `power` (positive) grows, the lengthscale must grow
    like √power to keep the same shape.
    """

    default_name = "rational_quadratic"
    shape_names = ("power",)

    @checks_names
    def __init__(
        self,
        input_dim: int,
        variance: float = 1.0,
        lengthscale: Values | None = None,
        power: float = 2.0,
        ARD: bool = False,
        active_dims: Columns | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_dim, variance, lengthscale, ARD, active_dims, name)
        self.power = positive(type(self).__name__, "power", power)
        self.link_parameter(self.power)

    def correlation(self, r2: Array, *shape: float) -> tuple[Array, tuple[Array, Array]]:
        """Rational quadratic: ρ = t^(−power), t = 1 + r²/2; keeps t and log t for the slopes."""
        r2 *= 0.5
        log_t = np.log1p(r2)
        r2 += 1.0
        rho = log_t * -shape[0]
        return np.exp(rho, out=rho), (r2, log_t)

    def slope(self, memo: tuple[Array, Array], K: Array, *shape: float) -> tuple[Array, float]:
        """Rational quadratic: dk/dr² = −power/2 · k / t."""
        return K / memo[0], -0.5 * shape[0]

    def shape_slopes(self, memo: tuple[Array, Array], K: Array, *shape: float) -> tuple[Array]:
        """Rational quadratic: dk/dpower = −k log t."""
        return (-K * memo[1],)
