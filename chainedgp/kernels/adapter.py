"""Adapter for kernels of GPy, behind this package's pure interface. GPy is never imported."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from paramz import Param, Parameterized

from ..errors import InputError
from ..linalg import Array
from ..parameters.roles import Role
from .base import Indices, Kernel, Pullback, PullbackDiag

#: An object with these methods is taken for a kernel of GPy.
GPY_METHODS = ("K", "Kdiag", "update_gradients_full", "update_gradients_diag", "gradients_X")
#: GPy's kernels declare no roles: the names that GPy gives to parameters say what these are.
GPY_ROLES = {
    "variance": Role.VARIANCE,
    "variances": Role.VARIANCE,
    "lengthscale": Role.LENGTHSCALE,
    "period": Role.PERIOD,
}
TIED_TO_ROWS = ("Fixed", "WhiteHeteroscedastic")  # These kernels of GPy have no values at new X.


def as_kernel(obj: object) -> Kernel:
    """Return a kernel of this package as it is, and a kernel of GPy inside an adapter.

    Raises
    ------
    InputError : obj is neither, or it is a kernel of GPy with a prior.
    """
    if isinstance(obj, Kernel):
        return obj
    if isinstance(obj, Parameterized) and all(callable(getattr(obj, m, None)) for m in GPY_METHODS):
        return GPyKernel(obj)
    got = f"the class {obj.__name__}" if isinstance(obj, type) else type(obj).__name__
    raise InputError(
        f"kernels: expected a kernel, got {got}; use an object of chainedgp.kernels such as "
        "RBF(input_dim), or a kernel of GPy"
    )


class GPyKernel(Kernel):
    """A kernel of GPy, k(x, z) as GPy computes it, with its parameters under their own names.

    GPy's methods cache and overwrite gradients. So the adapter holds the kernel twice: `kernel` is
    linked and carries parameters, constraints and fixes; a detached twin does the arithmetic under
    a lock, at the parameter values of the call. Evaluation is thus pure, but not parallel.

    Parameters
    ----------
    kernel : the GPy kernel; it is copied. One with a prior is refused, since a bound on the
        likelihood would ignore it.
    name : ASCII identifier; "gpy" if None.

    Raises
    ------
    InputError : the kernel has a prior.
    """

    def __init__(self, kernel: Parameterized, name: str | None = None) -> None:
        priors = kernel._index_operations.get("priors")
        if priors is not None and priors.size > 0:
            raise InputError(
                f"GPyKernel: the kernel {kernel.name!r} has a prior, which would be ignored; "
                "remove it with kernel.unset_priors()"
            )
        tied = [part.name for part in family(kernel) if type(part).__name__ in TIED_TO_ROWS]
        if tied:
            raise InputError(
                f"GPyKernel: {tied[0]!r} is a covariance of fixed rows, which inducing inputs do "
                "not have; for noise that varies use a likelihood such as HetGaussian"
            )
        super().__init__(int(kernel.input_dim), "gpy" if name is None else name)
        kernel = kernel.copy()
        kernel.traverse(forget_priors)
        self.link_parameter(kernel)
        self.has_white = any("White" in type(part).__name__ for part in family(kernel))
        # To walk the tree is not thread-safe in paramz, so it is done here once.
        self._columns = columns_of(kernel)
        twin = kernel.copy()
        twin.unconstrain()  # a fixed part would keep stale values, and GPy skips its gradient
        self._twin = twin
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> GPyKernel:
        super().__setstate__(state)
        self._lock = threading.Lock()
        reconnect(self)
        return self

    @property
    def kernel(self) -> Parameterized:
        """The linked GPy kernel: parameters, constraints, fixes."""
        return self.parameters[0]

    def leaves_with(self, role: Role) -> list[Param]:
        """The parameters of GPy's kernel that have a role, by the names that GPy gives them."""
        return [leaf for leaf in self.flattened_parameters if GPY_ROLES.get(leaf.name) is role]

    @property
    def columns(self) -> Indices:
        """The columns of X that the GPy kernel reads, ascending."""
        return self._columns

    def check_columns(self, num_columns: int) -> None:
        """Raise InputError if X has too few columns (GPy slices, so more are no error)."""
        needed = int(self.columns[-1]) + 1
        if num_columns < needed:
            raise InputError(
                f"{self.name}: the GPy kernel needs at least {needed} columns, X has {num_columns}"
            )

    def _at(self, theta: Array) -> Parameterized:
        """GPy's kernel, as its twin, at parameters theta (size,), gradient zero; needs the lock."""
        twin = self._twin
        if not np.array_equal(twin.param_array, theta):
            twin[:] = theta
        twin.gradient_full[:] = 0.0  # some kernels of GPy leave gradients they think are zero
        return twin

    def _theta(self) -> Array:
        return np.concatenate([leaf.values.ravel() for leaf in self.flattened_parameters])

    def _evaluate(self, X: Array, Z: Array | None) -> tuple[Array, Pullback]:
        theta = self._theta()
        with self._lock:
            K = np.array(self._at(theta).K(X, Z), dtype=float)

        def pullback(dL_dK: Array, wrt_second: bool = True) -> tuple[Array, Array, Array | None]:
            """Reverse pass of the GPy kernel: dL/dθ, dL/dX and dL/dZ from dL/dK."""
            dL_dK = np.array(dL_dK)  # GPy may write into it.
            with self._lock:
                twin = self._at(theta)
                try:
                    twin.update_gradients_full(dL_dK, X, Z)
                    dL_dtheta = np.array(twin.gradient_full)
                    if Z is None:  # X is on both sides, of which some kernels of GPy count only one
                        dL_dX = np.array(twin.gradients_X(dL_dK + dL_dK.T, X, X.copy()))
                    else:
                        dL_dX = np.array(twin.gradients_X(dL_dK, X, Z))
                    dL_dZ = None
                    if wrt_second and Z is not None:
                        dL_dZ = np.array(twin.gradients_X(dL_dK.T.copy(), Z, X))
                except NotImplementedError:
                    raise InputError(
                        f"{self.name}: GPy's kernel {twin.name!r} has no gradients in its inputs, "
                        "which inducing inputs need; use one of chainedgp.kernels"
                    ) from None
            return dL_dtheta, dL_dX, dL_dZ

        return K, pullback

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        theta = self._theta()
        with self._lock:
            k = np.array(self._at(theta).Kdiag(X), dtype=float)

        def pullback(dL_dk: Array) -> tuple[Array, Array]:
            """Reverse pass of the GPy kernel's diagonal: dL/dθ and dL/dX from dL/dk."""
            with self._lock:
                twin = self._at(theta)
                twin.update_gradients_diag(np.array(dL_dk), X)
                dL_dtheta = np.array(twin.gradient_full)
                try:
                    dL_dX = np.array(twin.gradients_X_diag(np.array(dL_dk), X))
                except (AttributeError, NotImplementedError):  # Some kernels of GPy lack it.
                    dL_dX = np.array(twin.gradients_X(np.diag(dL_dk), X, None))
            return dL_dtheta, dL_dX

        return k, pullback


def family(kernel: Parameterized) -> list[Parameterized]:
    """The GPy kernel and all kernels inside it."""
    members: list[Parameterized] = []
    kernel.traverse(members.append)
    return [member for member in members if hasattr(member, "Kdiag")]


def columns_of(kernel: Parameterized) -> Indices:
    """The columns that a GPy kernel reads, ascending: those of its parts that combine no others."""
    used = [
        np.arange(part.input_dim) if part.active_dims is None else part.active_dims
        for part in family(kernel)
        if not any(hasattr(inner, "Kdiag") for inner in part.parameters)
    ]
    return np.unique(np.concatenate(used)).astype(int)


def forget_priors(node: Parameterized) -> None:
    """Drop a GPy kernel's index of priors, for which a parent from paramz alone has no place."""
    if "priors" in node._index_operations:
        node.remove_index_operation("priors")


def reconnect(node: Parameterized) -> None:
    """Let parts of a GPy kernel notify their parents again: a copy by GPy loses that link."""
    for child in node.parameters:
        child._parent_ = node
        child.remove_observer(node, node._pass_through_notify_observers)
        child.add_observer(node, node._pass_through_notify_observers, -np.inf)
        reconnect(child)
