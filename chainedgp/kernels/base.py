"""The contract of a kernel: a pure `evaluate` with its reverse pass, and GPy's names on top."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paramz.transformations import Logexp

from ..errors import InputError
from ..linalg import Array
from ..parameters.leaves import InputParam, Leaf
from ..parameters.parts import Part

Columns = Iterable[int | str]  # Columns of X are given by number or by name.
Indices = NDArray[np.intp]  # These are numbers of columns of X.
Values = float | Sequence[float] | Array  # A parameter has one value, or one for each dimension.
#: The reverse pass of a kernel: dL_dK (n, m), wrt_second=True -> dL_dtheta (size,), dL_dX (n, D),
#: dL_dZ or None.
Pullback = Callable[..., tuple[Array, Array, Array | None]]
#: A kernel with its X (n, d) given: Z (m, d) or None -> K (n, m) and its pullback.
Evaluate = Callable[[Array | None], tuple[Array, Pullback]]
#: The reverse pass of a kernel's diagonal: dL_dk (n,) -> dL_dtheta (size,), dL_dX (n, D) or None
#: where it is all zero.
PullbackDiag = Callable[[Array], tuple[Array, Array | None]]


#: A column of levels counts with this standard deviation, which 0 and 1 in equal shares have.
LEVEL_SPREAD = 0.5


def positive(
    owner: str, name: str, value: Values, size: int = 1, per_dimension: bool = False
) -> Leaf:
    """Make a positive kernel parameter (size,), constrained by Logexp; a scalar fills it."""
    try:
        array = np.array(value, dtype=float).ravel()
    except (TypeError, ValueError):
        raise InputError(f"{owner}: {name} must be numeric, got {value!r}") from None
    if array.size not in (1, size):
        one = size == 1 and not per_dimension
        raise InputError(
            f"{owner}: {name} must have {'one value' if one else f'1 or {size} values'}, got "
            f"{array.size}; {'set ARD for one value per dimension' if one else 'match input_dim'}"
        )
    if not np.all(np.isfinite(array)) or not np.all(array > 0):
        raise InputError(f"{owner}: {name} must be positive and finite, got {value!r}")
    kind = InputParam if per_dimension else Leaf
    return kind(name, np.broadcast_to(array, (size,)).copy(), Logexp())


def constant_diag(kernel: Kernel, X: Array) -> tuple[Array, PullbackDiag]:
    """Diagonal k(x_i, x_i) (n,) of a kernel if it is everywhere its first parameter; pullback."""

    def pullback(dL_dk: Array) -> tuple[Array, None]:
        dL_dtheta = np.zeros(kernel.size)
        dL_dtheta[0] = np.sum(dL_dk)
        return dL_dtheta, None

    return np.full(X.shape[0], kernel.parameters[0].values[0]), pullback


class Kernel(Part):
    """A covariance function k(x, z | θ) with positive parameters θ.

    A new kernel implements `_evaluate` and `_evaluate_diag` on the active columns alone; slicing,
    checks, the GPy-style methods, `+` and `*` come from here. Both are pure: they read parameter
    values and write nothing, so that threads may share a kernel and gradients add up over chunks.

    A class may declare more:

    - `roles`: which parameters are variances, lengthscales or periods, which fits treat specially.
    - `has_white`: whether K(X) has noise on its diagonal that K(X, X) does not have.
    - `level_columns`: which columns hold codes of levels, as in `Categorical`: no gradient moves
      the inducing inputs there.
    - `check_inputs`: an error for rows that the kernel cannot take, such as latitudes beyond the
      poles.
    - `distances_in`: how far rows typically are from each other in the units of lengthscales,
      if these are not the units of X.
    - `_prepare(X)`, instead of `_evaluate`: a function of Z that does the work on X, the inducing
      inputs, only once. A class that writes one of the two overrides both of its parent: a child
      of a class with `_prepare` may go back to `_evaluate`.
    - `evaluate`, `evaluate_diag`: the kernel on all columns of X. A class that writes its own is
      evaluated by that and nothing else; `super().evaluate(X, Z)` evaluates its parent.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on.
    name : ASCII identifier, its name inside a sum, a product or a model.
    active_dims : the columns of X it acts on, by number or, in a model that is built with a data
        frame, by name; None for all of them, X then has `input_dim`.
    """

    #: Whether K(X) has independent noise on its diagonal, which K(X, X) has not.
    has_white: bool = False
    #: Whether `_prepare` or else `_evaluate` defines the kernel; None if neither is written.
    _prepares: bool | None = None
    #: Whether a class has an `evaluate` of its own, which then alone defines the kernel.
    _evaluates_itself: bool = False
    #: The classes behind + and *. They are subclasses of this one, so they enter themselves here.
    _combinations: dict[str, Callable[[list[Any]], Kernel]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Note for every new kernel class which of its methods define the kernel."""
        super().__init_subclass__(**kwargs)
        written = cls._written()
        if "evaluate" in written:
            cls._evaluates_itself = True
        if "_prepare" in written or "_evaluate" in written:
            cls._prepares = "_prepare" in written

    @classmethod
    def _written(cls) -> set[str]:
        """Names that a kernel class has from its own body, or from bases that are no kernels."""
        mixins = [base for base in cls.__bases__ if not issubclass(base, Kernel)]
        return {*vars(cls), *(name for base in mixins for name in dir(base))}

    def __init__(self, input_dim: int, name: str, active_dims: Columns | None = None) -> None:
        owner = type(self).__name__
        reserved = isinstance(name, str) and (name == "size" or hasattr(Kernel, name))
        if not isinstance(name, str) or not (name.isascii() and name.isidentifier()) or reserved:
            raise InputError(
                f"{owner}: name must be an ASCII identifier that no method of a kernel has, "
                f"got {name!r}"
            )
        super().__init__(name=name)
        if isinstance(input_dim, bool) or not isinstance(input_dim, (int, np.integer)):
            raise InputError(f"{owner}: input_dim must be an integer, got {input_dim!r}")
        if input_dim < 1:
            raise InputError(f"{owner}: input_dim must be at least 1, got {input_dim}")
        self.input_dim = int(input_dim)
        self.active_dims = self._checked_dims(active_dims)

    def _per_dimension(self, name: str, value: Values | None, ARD: bool) -> Leaf:
        """A positive parameter with one value or, with ARD, one for each dimension; 1 if None."""
        size, value = self.input_dim if ARD else 1, 1.0 if value is None else value
        return positive(type(self).__name__, name, value, size, ARD)

    def _given(self) -> tuple[str, ...]:
        dims = self.active_dims
        return str(self.input_dim), *([] if dims is None else [f"active_dims={dims.tolist()}"])

    def _checked_dims(self, active_dims: Columns | None) -> NDArray[Any] | None:
        if active_dims is None:
            return None
        owner, dims = type(self).__name__, np.atleast_1d(np.array(active_dims))
        named = dims.dtype.kind == "U"
        numbers = np.issubdtype(dims.dtype, np.integer) and not np.any(dims < 0)
        if dims.ndim != 1 or not (named or numbers):
            raise InputError(
                f"{owner}: active_dims must be column numbers from 0 on, or the names of columns, "
                f"got {active_dims!r}"
            )
        if np.unique(dims).size != dims.size:
            raise InputError(
                f"{owner}: active_dims names a column twice: {dims.tolist()}; name each once"
            )
        if dims.size != self.input_dim:
            raise InputError(
                f"{owner}: input_dim is the number of active columns, but input_dim is "
                f"{self.input_dim} and active_dims has {dims.size}: {dims.tolist()}"
            )
        return dims

    # ---- what a kernel implements

    def _evaluate(self, X: Array, Z: Array | None) -> tuple[Array, Pullback]:
        """Kernel matrix K (n, m) and its pullback on active columns: X (n, d), Z (m, d) or None."""
        if self._prepares is None:
            raise NotImplementedError(f"{type(self).__name__} must implement _evaluate")
        return self._prepare(X)(Z)

    def _prepare(self, X: Array) -> Evaluate:
        """`_evaluate` of the kernel for one X and many Z; override it to do the work on X once."""
        return partial(self._evaluate, X)

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        """Diagonal k(x_i, x_i) (n,) of the kernel and its pullback on active columns: X (n, d)."""
        raise NotImplementedError(f"{type(self).__name__} must implement _evaluate_diag")

    # ---- the pure interface

    @property
    def columns(self) -> Indices:
        """The columns of X that the kernel reads, ascending."""
        return np.arange(self.input_dim) if self.active_dims is None else np.sort(self.active_dims)

    @property
    def level_columns(self) -> Indices:
        """The columns that the kernel reads as codes of levels; inducing inputs must keep them."""
        return np.empty(0, dtype=np.intp)

    @property
    def unordered_columns(self) -> Indices:
        """The columns that the kernel reads as codes of levels without an order."""
        return self.level_columns

    def distances_in(self, spread: Array) -> Array:
        """Standard deviations (d,) of the columns that the kernel reads, in units of lengthscales.

        spread : (D,) standard deviations of all columns of X, in their own units.
        """
        return spread[: self.input_dim] if self.active_dims is None else spread[self.active_dims]

    @property
    def simple_parts(self) -> tuple[Kernel, ...]:
        """The kernels it is made of that combine no others; only itself if it combines none."""
        return (self,)

    @property
    def additive_parts(self) -> tuple[Kernel, ...]:
        """The terms of a kernel that is a sum, nested sums included; else only itself."""
        return (self,)

    @property
    def unplaced(self) -> bool:
        """Whether active_dims are names of columns that `name_columns` has not made numbers yet."""
        return self.active_dims is not None and self.active_dims.dtype.kind == "U"

    def name_columns(self, names: Sequence[str] | None) -> None:
        """Replace names in the kernel's active_dims by numbers, given the names of X's columns."""
        if self.active_dims is None or not self.unplaced or names is None:
            return
        missing = [str(name) for name in self.active_dims if name not in names]
        if missing:
            raise InputError(
                f"{self.name}: active_dims name {', '.join(map(repr, missing))}, but the columns "
                f"of X are {', '.join(map(repr, names))}"
            )
        self.active_dims = np.array([list(names).index(name) for name in self.active_dims])

    def check_inputs(self, X: Array, name: str) -> None:
        """Raise InputError if the kernel is not for some rows (n, D) that a user gave.

        name : the name of X in error messages.
        """

    def check_columns(self, num_columns: int) -> None:
        """Raise InputError if the kernel cannot act on inputs with this number of columns."""
        if self.active_dims is None:
            if num_columns != self.input_dim:
                raise InputError(
                    f"{self.name}: X must have input_dim = {self.input_dim} columns, got "
                    f"{num_columns}; give active_dims to act on some columns only"
                )
        elif self.unplaced:
            raise InputError(
                f"{self.name}: active_dims are names, {self.active_dims.tolist()}, and X has none; "
                "build the model with a data frame, or give numbers, which count from 0"
            )
        elif num_columns <= self.columns[-1]:
            raise InputError(
                f"{self.name}: active_dims {self.active_dims.tolist()} need at least "
                f"{self.columns[-1] + 1} columns, but X has {num_columns}; they count from 0"
            )

    def _checked_inputs(self, X: Array, argument: str = "X") -> Array:
        X = np.asarray(X, dtype=float)
        if X.ndim != 2:
            raise InputError(
                f"{self.name}: {argument} must have two dimensions (rows, columns), "
                f"got shape {X.shape}"
            )
        self.check_columns(X.shape[1])
        return X

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """The kernel matrix K_ij = k(x_i, z_j) and its reverse pass. Pure: writes nothing.

        Parameters
        ----------
        X : (n, D)
            The first inputs, the rows of K.
        Z : (m, D)
            The second inputs, the columns of K; None for the symmetric case Z = X.

        Returns
        -------
        K : (n, m), read-only because the pullback keeps it; copy it to change it.
        pullback : `pullback(dL_dK, wrt_second=True)` -> dL_dtheta (size,) in the order of
            `param_array` and with respect to the untransformed values, dL_dX (n, D),
            dL_dZ (m, D). With Z None, dL_dX carries both sides and dL_dZ is None; it is also
            None, and not computed, with `wrt_second=False`. May be called repeatedly.
        """
        return self._prepared(X)(Z)

    def prepare(self, X: Array) -> Evaluate:
        """`evaluate` of a kernel for one X (n, D): a function of Z, the work on X done once."""
        return partial(self.evaluate, X) if self._evaluates_itself else self._prepared(X)

    def _prepared(self, X: Array) -> Evaluate:
        """`evaluate` of the kernel for one X, on all its columns, by `_prepare` or `_evaluate`."""
        X = self._checked_inputs(X)
        dims, num_columns = self.active_dims, X.shape[1]
        active = X if dims is None else X[:, dims]
        inner = self._prepare(active) if self._prepares else partial(self._evaluate, active)

        def evaluate(Z: Array | None = None) -> tuple[Array, Pullback]:
            """The kernel matrix K and its pullback on all columns; Z None means Z = X."""
            Z = None if Z is None else self._checked_inputs(Z, "Z")
            K, pull = inner(Z if Z is None or dims is None else Z[:, dims])
            K.flags.writeable = False
            if dims is None:
                return K, pull

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                theta, dL_dX, dL_dZ = pull(dL_dK, wrt_second)
                dL_dZ = None if dL_dZ is None else scatter(dL_dZ, dims, num_columns)
                return theta, scatter(dL_dX, dims, num_columns), dL_dZ

            return K, pullback

        return evaluate

    def evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        """Kernel diagonal k(x_i, x_i) (n,) at X (n, D), and its reverse pass. Pure: writes nothing.

        `pullback(dL_dk)` with dL_dk (n,) -> dL_dtheta (size,), dL_dX (n, D) or None if zero.
        """
        X = self._checked_inputs(X)
        dims = self.active_dims
        if dims is None:
            return self._evaluate_diag(X)
        k, pull = self._evaluate_diag(X[:, dims])
        num_columns = X.shape[1]

        def pullback(dL_dk: Array) -> tuple[Array, Array | None]:
            dL_dtheta, dL_dX = pull(dL_dk)
            return dL_dtheta, None if dL_dX is None else scatter(dL_dX, dims, num_columns)

        return k, pullback

    # ---- GPy's names

    def K(self, X: Array, X2: Array | None = None) -> Array:
        """Covariance k(x_i, x2_j), (n, m), of X (n, D) and X2 (m, D); X2 None is X itself."""
        K, _ = self.evaluate(X, X2)
        if not K.flags.owndata:
            return K.copy()
        K.flags.writeable = True  # The pullback, which would read K, is dropped.
        return K

    def Kdiag(self, X: Array) -> Array:
        """Variances k(x_i, x_i), (n,), at X (n, D)."""
        return self.evaluate_diag(X)[0]

    def update_gradients_full(self, dL_dK: Array, X: Array, X2: Array | None = None) -> None:
        """Set (overwrite) the gradients of the kernel's parameters from dL_dK (n, m)."""
        self.gradient[:] = self.evaluate(X, X2)[1](dL_dK, False)[0]

    def update_gradients_diag(self, dL_dKdiag: Array, X: Array) -> None:
        """Set (overwrite) the gradients of the kernel's parameters from dL_dKdiag (n,)."""
        self.gradient[:] = self.evaluate_diag(X)[1](dL_dKdiag)[0]

    def gradients_X(self, dL_dK: Array, X: Array, X2: Array | None = None) -> Array:
        """dL_dX (n, D) from dL_dK (n, m) of the kernel matrix; both sides count if X2 is None."""
        return self.evaluate(X, X2)[1](dL_dK, False)[1]

    def gradients_X_diag(self, dL_dKdiag: Array, X: Array) -> Array:
        """dL_dX (n, D) from dL_dKdiag (n,) of the kernel's diagonal."""
        dL_dX = self.evaluate_diag(X)[1](dL_dKdiag)[1]
        return np.zeros(np.shape(X)) if dL_dX is None else dL_dX

    def __add__(self, other: Any) -> Kernel:
        return self._combinations["sum"]([self, other])

    def __mul__(self, other: Any) -> Kernel:
        return self._combinations["product"]([self, other])


def scatter(active: Array, dims: Indices, num_columns: int) -> Array:
    """Put the gradient in a kernel's active columns (n, d) into all columns (n, D), else zero."""
    full = np.zeros((active.shape[0], num_columns))
    full[:, dims] = active
    return full
