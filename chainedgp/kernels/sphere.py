"""Stationary kernels on the sphere, by chordal distance: for columns of latitude and longitude."""

from __future__ import annotations

import numpy as np

from ..data.names import checks_names
from ..errors import InputError
from ..linalg import Array
from .base import Columns, Evaluate, Pullback
from .stationary import RBF, Matern12, Matern32, Matern52, Stationary

DEGREES = 180.0 / np.pi  # A sphere of this radius has a degree of latitude of length 1.
SHAPES: dict[str, type[Stationary]] = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}


class Sphere(Stationary):
    """Kernel on a sphere: variance · ρ(c² / lengthscale²), c the straight distance of two places.

    x is (latitude, longitude) in degrees. Places are points on the sphere in three dimensions,

        u(x) = radius · (cos φ cos λ, cos φ sin λ, sin φ),    c = |u(x) − u(z)|,

    so that a degree of longitude is shorter near the poles, and places on both sides of the date
    line are neighbours. The straight distance through the Earth is 1 % shorter than that along the
    surface at 3,100 km; with distances along the surface most shapes ρ are not valid covariances.

    Parameters
    ----------
    input_dim : 2, the columns of latitude (from −90 to 90) and longitude, in this order.
    variance : k(x, x), positive.
    lengthscale : in degrees of latitude by default, of 111 km each on the Earth; positive.
    shape : "matern52", "matern32", "matern12" or "rbf": the ρ of these kernels.
    radius : the sphere's radius, in the unit of lengthscales: 6371 for kilometres on the Earth.
        With the default, 180/π, the unit is a degree of latitude.
    active_dims : the two columns of X; None where X has no others.
    name : ASCII identifier.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    default_name = "sphere"

    @checks_names
    def __init__(
        self,
        input_dim: int = 2,
        variance: float = 1.0,
        lengthscale: float | None = None,
        shape: str = "matern52",
        radius: float = DEGREES,
        active_dims: Columns | None = None,
        name: str | None = None,
    ) -> None:
        if input_dim != 2:
            raise InputError(
                f"Sphere: input_dim must be 2, latitude and longitude, got {input_dim!r}"
            )
        if shape not in SHAPES:
            raise InputError(f"Sphere: shape must be one of {', '.join(SHAPES)}, got {shape!r}")
        if not (isinstance(radius, int | float | np.number) and 0.0 < float(radius) < np.inf):
            raise InputError(f"Sphere: radius must be positive and finite, got {radius!r}")
        lengthscale = float(radius) * np.pi / 18.0 if lengthscale is None else lengthscale
        super().__init__(input_dim, variance, lengthscale, False, active_dims, name)
        self.shape, self.radius = shape, float(radius)
        self.kink, self.largest_r2 = SHAPES[shape].kink, SHAPES[shape].largest_r2

    def correlation(self, r2: Array, *shape: float) -> tuple[Array, object]:
        """ρ(r²) of the shape chosen for the sphere, and what `slope` needs."""
        if self.shape == "rbf":
            return np.exp(-0.5 * r2), None
        return SHAPES[self.shape].correlation(self, r2)

    def slope(self, memo: object, K: Array, *shape: float) -> tuple[Array, float]:
        """dk/dr² of the shape chosen for the sphere."""
        return (K, -0.5) if self.shape == "rbf" else SHAPES[self.shape].slope(self, memo, K)

    def distances_in(self, spread: Array) -> Array:
        """Standard deviations of latitude and longitude as lengths on the sphere, (2,)."""
        return np.deg2rad(super().distances_in(spread)) * self.radius

    def check_inputs(self, X: Array, name: str) -> None:
        """Raise InputError for latitudes outside −90 to 90, which are most often longitudes."""
        column = 0 if self.active_dims is None else int(self.active_dims[0])
        latitudes = np.asarray(X[:, column], dtype=float)
        bad = np.flatnonzero(np.abs(latitudes) > 90.0)
        if bad.size:
            raise InputError(
                f"{self.name}: {name} has the latitude {latitudes[bad[0]]:g} in row {bad[0]} of "
                f"column {column}; expected degrees from -90 to 90. Latitude comes first, then "
                "longitude: active_dims=[latitude, longitude]"
            )

    def _prepare(self, X: Array) -> Evaluate:
        inner = super()._prepare(self._embed(X))

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """The sphere kernel's K (n, m) and its pullback, at the parameters as prepared."""
            K, pull = inner(None if Z is None else self._embed(Z))

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """Reverse pass through the embedding: dL/dθ, dL/dX and dL/dZ from dL/dK."""
                dL_dtheta, dU, dV = pull(dL_dK, wrt_second)
                dL_dZ = None if Z is None or dV is None else self._pull_embedding(Z, dV)
                return dL_dtheta, self._pull_embedding(X, dU), dL_dZ

            return K, pullback

        return evaluate

    def _embed(self, X: Array) -> Array:
        """Points u(x), (n, 3), on the sphere from latitude and longitude."""
        phi, lam = np.deg2rad(X).T
        u = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=1)
        return self.radius * u

    def _pull_embedding(self, X: Array, dU: Array) -> Array:
        """Reverse pass of `_embed`: dL/dX (n, 2) of latitude and longitude from dL/du (n, 3)."""
        phi, lam = np.deg2rad(X).T
        zero = np.zeros_like(phi)
        north = np.stack([-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)])
        east = np.stack([-np.cos(phi) * np.sin(lam), np.cos(phi) * np.cos(lam), zero])
        slopes = [np.einsum("dn,nd->n", along, dU) for along in (north, east)]
        return np.deg2rad(self.radius * np.stack(slopes, axis=1))
