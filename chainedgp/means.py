"""Mean functions m(x): the prior means of the latents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from paramz import Param

from .errors import InputError
from .linalg import Array
from .parameters.leaves import InputParam
from .parameters.parts import Part
from .parameters.roles import Role

__all__ = ["Constant", "Linear", "MeanFunction", "Zero"]

#: The reverse pass of a mean function maps dL_dm (n,) to dL_dtheta (size,).
MeanPullback = Callable[[Array], Array]


class MeanFunction(Part):
    """A mean function m(x | θ) of a latent. A new one implements `evaluate`.

    `evaluate` is pure: it reads parameter values and writes nothing.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not (name.isascii() and name.isidentifier()):
            raise InputError(
                f"{type(self).__name__}: name must be an ASCII identifier, got {name!r}"
            )
        super().__init__(name=name)

    def check_columns(self, num_columns: int) -> None:
        """Raise InputError if the mean function cannot act on inputs with so many columns."""
        for leaf in self.leaves_with(Role.SLOPE):
            if leaf.size != num_columns:
                raise InputError(
                    f"{self.name}: {leaf.name} has the role SLOPE, which is one value for each "
                    f"column of X; got {leaf.size} for {num_columns} columns. Leave the role out."
                )

    def set_constant(self, value: float) -> None:
        """Make the mean function this constant, if its free parameters can; else leave it so."""

    def evaluate(self, X: Array) -> tuple[Array, MeanPullback]:
        """The mean function m(x_i) (n,) at X (n, D), and its reverse pass.

        `pullback(dL_dm)` with dL_dm (n,) -> dL_dtheta (size,), in the order of `param_array`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement evaluate")


class Zero(MeanFunction):
    """The mean function m(x) = 0, without parameters."""

    def __init__(self, name: str = "zero") -> None:
        super().__init__(name)

    def evaluate(self, X: Array) -> tuple[Array, MeanPullback]:
        """Mean of zeros (n,), and a pullback to no parameters (0,)."""

        def pullback(dL_dm: Array) -> Array:
            return np.zeros(0)

        return np.zeros(len(X)), pullback


class Constant(MeanFunction):
    """The constant mean function m(x) = value, one unconstrained parameter.

    Parameters
    ----------
    value : the level, a finite number.
    name : ASCII identifier.
    """

    roles = {"value": Role.LEVEL}

    def __init__(self, value: float = 0.0, name: str = "constant") -> None:
        super().__init__(name)
        self.value = Param("value", finite(type(self).__name__, "value", value, 1))
        self.link_parameter(self.value)

    def set_constant(self, value: float) -> None:
        """Set the level of the mean function, unless it is fixed."""
        if not self.value.is_fixed:
            self.value[:] = value

    def evaluate(self, X: Array) -> tuple[Array, MeanPullback]:
        """The constant mean (n,) at X (n, D); its pullback maps to (1,)."""

        def pullback(dL_dm: Array) -> Array:
            return np.array([np.sum(dL_dm)])

        return np.full(len(X), self.value.values[0]), pullback


class Linear(MeanFunction):
    """The linear mean function m(x) = weightsᵀ x + bias, unconstrained.

    Parameters
    ----------
    input_dim : the number of columns of X.
    weights : (input_dim,), or one value for all; 0 if None.
    bias : a finite number.
    name : ASCII identifier.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    roles = {"weights": Role.SLOPE, "bias": Role.LEVEL}

    def __init__(
        self,
        input_dim: int,
        weights: float | Sequence[float] | Array | None = None,
        bias: float = 0.0,
        name: str = "linear",
    ) -> None:
        super().__init__(name)
        integer = isinstance(input_dim, (int, np.integer)) and not isinstance(input_dim, bool)
        if not integer or input_dim < 1:
            raise InputError(f"Linear: input_dim must be a positive integer, got {input_dim!r}")
        self.input_dim = int(input_dim)
        weights = 0.0 if weights is None else weights
        self.weights = InputParam("weights", finite("Linear", "weights", weights, self.input_dim))
        self.bias = Param("bias", finite("Linear", "bias", bias, 1))
        self.link_parameters(self.weights, self.bias)

    def check_columns(self, num_columns: int) -> None:
        """Raise InputError unless the inputs of the linear mean have input_dim columns."""
        if num_columns != self.input_dim:
            raise InputError(
                f"{self.name}: X must have input_dim = {self.input_dim} columns, got "
                f"{num_columns}; give mean_functions with input_dim={num_columns}"
            )

    def set_constant(self, value: float) -> None:
        """Set slopes to 0 and the bias to the value, unless one of them is fixed."""
        if not (self.weights.is_fixed or self.bias.is_fixed):
            self.weights[:], self.bias[:] = 0.0, value

    def evaluate(self, X: Array) -> tuple[Array, MeanPullback]:
        """The linear mean X weights + bias (n,) at X (n, D); its pullback maps to (D + 1,)."""
        X = np.asarray(X, dtype=float)
        if X.ndim != 2:
            raise InputError(f"{self.name}: X must have two dimensions, got shape {X.shape}")
        self.check_columns(X.shape[1])

        def pullback(dL_dm: Array) -> Array:
            return np.append(dL_dm @ X, np.sum(dL_dm))

        return X @ self.weights.values + self.bias.values[0], pullback


def finite(owner: str, name: str, value: float | Sequence[float] | Array, size: int) -> Array:
    """Check a mean function's parameter: a finite number or vector, returned as array (size,)."""
    try:
        array = np.array(value, dtype=float).ravel()
    except (TypeError, ValueError):
        raise InputError(f"{owner}: {name} must be numeric, got {value!r}") from None
    if array.size not in (1, size):
        raise InputError(f"{owner}: {name} must have 1 or {size} values, got {array.size}")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{owner}: {name} must be finite, got {value!r}")
    return np.broadcast_to(array, (size,)).copy()
