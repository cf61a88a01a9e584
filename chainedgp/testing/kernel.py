"""Tests of a kernel's contract from outside: only its public methods are called."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..kernels import Kernel
from ..linalg import Array
from ..parameters import Role
from .report import Report

EXACT = 1e-9  # Two ways to the same number must agree to this, relative to its size.
GRADIENT = 1e-6  # A gradient must agree with differences to this, relative to its size.
STEP = 1e-4  # Fourth-order differences have this relative step: rounding adds 1e-12 to them.


def check_kernel(
    kernel: Kernel, X: Array | None = None, rng: int | np.random.Generator = 0
) -> None:
    """Check a kernel against its contract and explain every fault in words.

    Laws: K(X) is symmetric, positive semi-definite, finite, float64, with Kdiag(X) on its
    diagonal; K(X, Z) = K(Z, X)ᵀ, and K(X, X) = K(X) but for white noise; every element of the
    pullbacks agrees with central differences; nothing is written to inputs, parameters or
    gradients; columns that are not active do not matter; copies and pickles are equal; GPy's
    methods agree with `evaluate`; leaves are what `roles` says: K is linear in a variance,
    correlations do not fall as a lengthscale grows; columns of levels, which get whole numbers,
    are among those that are active, and have a gradient of exactly 0.

    Parameters
    ----------
    kernel : Kernel
        The kernel, left as it is.
    X : (n, D)
        Inputs to check at; 7 normal rows if None.
    rng : int or Generator
        For the inputs and the weights dL_dK.

    Raises
    ------
    ContractError : lists the method, the fault and the size of the disagreement.
    """
    if isinstance(kernel, type):
        raise InputError(f"give an object: check_kernel({kernel.__name__}(…), …).")
    rng = np.random.default_rng(rng)
    report = Report()
    with report.guard("copy"):
        kernel = kernel.copy()
    if not report.faults:
        X = rng.normal(size=(7, _num_columns(kernel))) if X is None else np.array(X, dtype=float)
        m = max(1, len(X) - 2)
        Z = X[rng.permutation(len(X))[:m]] + 0.3 * rng.normal(size=(m, X.shape[1]))
        for points in (X, Z):  # Codes are whole numbers, so that some rows have the same level.
            points[:, kernel.level_columns] = np.rint(points[:, kernel.level_columns])
        for law in (
            _check_values,
            _check_diagonal,
            _check_gradients,
            _check_diagonal_gradients,
            _check_purity,
            _check_columns,
            _check_copies,
            _check_wrappers,
            _check_kernel_roles,
        ):
            with report.guard("evaluate"):
                law(kernel, X, Z, rng, report)
    report.raise_if_any(f"kernel {type(kernel).__name__} ({kernel.name})")


def _num_columns(kernel: Kernel) -> int:
    """How many columns of X to test a kernel with: one more than it reads, if it allows that."""
    needed = int(kernel.columns[-1]) + 1
    try:
        kernel.check_columns(needed + 1)
    except InputError:
        return needed
    return needed + 1


def _check_values(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that K(X) is a finite, symmetric, positive semi-definite matrix, and K(X, Z) agrees."""
    K, Kxz = kernel.evaluate(X)[0], kernel.evaluate(X, Z)[0]
    n, m = len(X), len(Z)
    for name, value, shape in (("evaluate(X)", K, (n, n)), ("evaluate(X, Z)", Kxz, (n, m))):
        if value.shape != shape or value.dtype != np.float64:
            report.fault(
                "evaluate",
                f"{name} must be float64 of shape {shape}, got {value.dtype} of {value.shape}",
            )
            return
        if not np.all(np.isfinite(value)):
            report.fault("evaluate", f"{name} has {np.sum(~np.isfinite(value))} values not finite")
            return
    size = np.abs(K).max()
    report.close("evaluate", "K(X) is not symmetric", K, K.T, 0.0, 1e-12 * size)
    lowest = np.linalg.eigvalsh((K + K.T) / 2).min()
    if lowest < -1e-10 * n * size:
        report.fault(
            "evaluate",
            f"K(X) is not positive semi-definite: its lowest eigenvalue is {lowest:.3g} "
            f"where its largest element is {size:.3g}",
        )
    cross = kernel.evaluate(X, X.copy())[0].copy()
    if kernel.has_white:  # independent noise is on the diagonal of K(X) alone
        np.fill_diagonal(cross, np.diagonal(K))
    report.close("evaluate", "K(X, X) disagrees with K(X)", cross, K, EXACT, 1e-7 * size)
    transposed = kernel.evaluate(Z, X)[0].T
    report.close(
        "evaluate", "K(X, Z) disagrees with K(Z, X)ᵀ", Kxz, transposed, EXACT, EXACT * size
    )


def _check_diagonal(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that a kernel's `evaluate_diag` is the diagonal of K(X)."""
    K, k = kernel.evaluate(X)[0], kernel.evaluate_diag(X)[0]
    size = np.abs(K).max()
    message = "evaluate_diag disagrees with the diagonal of K(X)"
    report.close("evaluate_diag", message, k, np.diagonal(K), EXACT, EXACT * size)


def _difference(f: Callable[[float], float], x: float) -> float:
    """The derivative f'(x) for tests of a kernel, by the central difference of fourth order."""
    h = STEP * max(abs(x), 1e-2)
    return (8.0 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12.0 * h)


def _difference_array(f: Callable[[Array], float], at: Array) -> Array:
    """Gradient of a function of a kernel's inputs, by differences element by element."""
    gradient = np.empty(at.shape)
    for index in np.ndindex(at.shape):

        def along(value: float, index: tuple[int, ...] = index) -> float:
            moved = at.copy()
            moved[index] = value
            return f(moved)

        gradient[index] = _difference(along, float(at[index]))
    return gradient


def _difference_theta(kernel: Kernel, f: Callable[[Kernel], float]) -> Array:
    """Gradient of f(kernel) in untransformed parameters, (size,), by differences leaf by leaf."""
    moved, gradient = kernel.copy(), []
    for leaf in moved.flattened_parameters:  # a fixed leaf ignores what its parent is set to
        for index in np.ndindex(leaf.shape):
            start = float(leaf.values[index])

            def along(value: float, leaf: Any = leaf, index: tuple[int, ...] = index) -> float:
                leaf[index] = value
                return f(moved)

            gradient.append(_difference(along, start))
            leaf[index] = start
    return np.array(gradient)


def _check_gradients(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test every element of a kernel's pullback against central differences."""
    for second in (None, Z):
        case = "in the symmetric case" if second is None else "for two sets of inputs"
        K, pullback = kernel.evaluate(X, second)
        dL_dK = rng.normal(size=K.shape)
        dL_dtheta, dL_dX, dL_dZ = pullback(dL_dK)
        # A gradient of the size of rounding says nothing: below this it counts as zero.
        atol = 1e-8 * np.abs(dL_dK * K).sum()

        def value(k: Kernel, A: Array, B: Array | None, W: Array = dL_dK) -> float:
            return float(np.sum(W * k.evaluate(A, B)[0]))

        fd = _difference_theta(kernel, lambda k, B=second: value(k, X, B))
        message = f"dL_dtheta {case} disagrees with central differences, in the order of "
        message += ", ".join(kernel.parameter_names())
        report.close("pullback", message, dL_dtheta, fd, GRADIENT, atol)
        fd = _difference_array(lambda A, B=second: value(kernel, A, B), X)
        message = f"dL_dX {case} disagrees with central differences"
        report.close("pullback", message, dL_dX, fd, GRADIENT, atol)
        if second is None:
            if dL_dZ is not None:
                report.fault("pullback", "dL_dZ must be None in the symmetric case")
            continue
        fd = _difference_array(lambda B: value(kernel, X, B), Z)
        message = "dL_dZ disagrees with central differences"
        if dL_dZ is None:
            report.fault("pullback", "dL_dZ is None although wrt_second is True")
        else:
            report.close("pullback", message, dL_dZ, fd, GRADIENT, atol)
        first = pullback(dL_dK, wrt_second=False)
        if first[2] is not None:
            report.fault("pullback", "dL_dZ must be None with wrt_second=False")
        for name, a, b in (("dL_dtheta", first[0], dL_dtheta), ("dL_dX", first[1], dL_dX)):
            report.close("pullback", f"{name} depends on wrt_second", a, b, EXACT, 1e-4 * atol)


def _check_diagonal_gradients(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test every element of the pullback of a kernel's diagonal against central differences."""
    k, pullback = kernel.evaluate_diag(X)
    dL_dk = rng.normal(size=k.shape)
    dL_dtheta, dL_dX = pullback(dL_dk)
    atol = 1e-8 * np.abs(dL_dk * k).sum()

    def value(kernel: Kernel, A: Array) -> float:
        return float(dL_dk @ kernel.evaluate_diag(A)[0])

    fd = _difference_theta(kernel, lambda k: value(k, X))
    message = "dL_dtheta disagrees with central differences"
    report.close("pullback of evaluate_diag", message, dL_dtheta, fd, GRADIENT, atol)
    fd = _difference_array(lambda A: value(kernel, A), X)
    message = "dL_dX disagrees with central differences (None stands for zero)"
    dL_dX = np.zeros(X.shape) if dL_dX is None else dL_dX
    report.close("pullback of evaluate_diag", message, dL_dX, fd, GRADIENT, atol)


def _check_purity(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that a kernel writes to nothing it is given, and that a pullback does not change."""
    kernel.gradient[:] = rng.normal(size=kernel.size)
    dL_dK = rng.normal(size=(len(X), len(Z)))
    watched = {
        "its input X": X,
        "its input Z": Z,
        "dL_dK": dL_dK,
        "the parameter values": kernel.param_array,
        "the gradients of the parameters": kernel.gradient,
    }
    before = {name: array.copy() for name, array in watched.items()}
    pullback = kernel.evaluate(X, Z)[1]
    kernel.evaluate(X)[1](rng.normal(size=(len(X), len(X))))
    kernel.evaluate_diag(X)[1](rng.normal(size=len(X)))
    early = pullback(dL_dK)
    for name, array in watched.items():
        if not np.array_equal(array, before[name]):
            change = np.abs(array - before[name]).max()
            report.fault("evaluate", f"writes into {name}, which changed by up to {change:.3g}")
            array[...] = before[name]  # restored, it makes one fault, not one in every later law
    moved = kernel.copy()
    late_pullback = moved.evaluate(X, Z)[1]
    for leaf in moved.flattened_parameters:
        leaf[:] = leaf.values * 1.7
    moved.evaluate(X, Z)
    late = late_pullback(dL_dK)
    for name, a, b in zip(("dL_dtheta", "dL_dX", "dL_dZ"), late, early, strict=True):
        if a is None or b is None:
            continue
        message = f"{name} depends on parameters that were set after evaluate"
        report.close("pullback", message, a, b, EXACT, EXACT * np.abs(b).max(initial=0.0))


def _check_columns(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that inactive columns do not matter to a kernel, with gradient 0, as for levels."""
    if not np.isin(kernel.level_columns, kernel.columns).all():
        report.fault("level_columns", "names columns that are not active")
    alone = [part for part in kernel.simple_parts if len(part.level_columns)]
    for part in alone:
        moved = part.evaluate(X, Z)[1](np.ones((len(X), len(Z))))[1]
        if np.any(moved[:, part.level_columns]):
            report.fault("pullback", "dL_dX is not zero in columns of levels, which are codes")
    idle = np.setdiff1d(np.arange(X.shape[1]), kernel.columns)
    if idle.size == 0:
        return
    K, pullback = kernel.evaluate(X, Z)
    moved_X, moved_Z = X.copy(), Z.copy()
    moved_X[:, idle], moved_Z[:, idle] = rng.normal(size=2)
    size = np.abs(K).max()
    message = f"K depends on columns {idle.tolist()}, which are not active"
    moved = kernel.evaluate(moved_X, moved_Z)[0]
    report.close("evaluate", message, moved, K, EXACT, EXACT * size)
    _, dL_dX, dL_dZ = pullback(rng.normal(size=K.shape))
    for name, gradient in (("dL_dX", dL_dX), ("dL_dZ", dL_dZ)):
        message = f"{name} is not zero in columns {idle.tolist()}, which are not active"
        if gradient is None:
            continue
        values = gradient[:, idle] if gradient.shape[1] == X.shape[1] else gradient
        report.close("pullback", message, values, np.zeros((len(gradient), idle.size)), 0.0, 0.0)


def _check_copies(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that copies and pickles of a kernel give the same K, and share no parameters."""
    K = kernel.evaluate(X, Z)[0]
    with report.guard("copy"):
        copy = kernel.copy()
        report.close("copy", "a copy gives another K", copy.evaluate(X, Z)[0], K, 0.0, 0.0)
        for leaf in copy.flattened_parameters:
            leaf[:] = leaf.values * 1.7
        message = "changing the parameters of a copy changes the original"
        report.close("copy", message, kernel.evaluate(X, Z)[0], K, 0.0, 0.0)
    with report.guard("pickle"):
        twin = pickle.loads(pickle.dumps(kernel))
        report.close("pickle", "a pickle gives another K", twin.evaluate(X, Z)[0], K, 0.0, 0.0)


def _check_wrappers(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that a kernel's methods of GPy give what `evaluate` gives."""
    for second in (None, Z):
        K, pullback = kernel.evaluate(X, second)
        dL_dK = rng.normal(size=K.shape)
        dL_dtheta, dL_dX, _ = pullback(dL_dK)
        kernel.update_gradients_full(dL_dK, X, second)
        for method, got, expected in (
            ("K", kernel.K(X, second), K),
            ("update_gradients_full", kernel.gradient, dL_dtheta),
            ("gradients_X", kernel.gradients_X(dL_dK, X, second), dL_dX),
        ):
            atol = EXACT * np.abs(expected).max(initial=0.0)
            report.close(method, "disagrees with evaluate", got, expected, EXACT, atol)
    k, pullback_diag = kernel.evaluate_diag(X)
    dL_dk = rng.normal(size=k.shape)
    dL_dtheta, diag_dX = pullback_diag(dL_dk)
    kernel.update_gradients_diag(dL_dk, X)
    for method, got, expected in (
        ("Kdiag", kernel.Kdiag(X), k),
        ("update_gradients_diag", kernel.gradient, dL_dtheta),
        (
            "gradients_X_diag",
            kernel.gradients_X_diag(dL_dk, X),
            np.zeros(X.shape) if diag_dX is None else diag_dX,
        ),
    ):
        atol = EXACT * np.abs(expected).max(initial=0.0)
        report.close(method, "disagrees with evaluate_diag", got, expected, EXACT, atol)


def _check_kernel_roles(
    kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator, report: Report
) -> None:
    """Test that leaves of a kernel behave as their roles say; their names do not matter."""
    for part in kernel.simple_parts:
        leaves = {leaf.name for leaf in part.parameters}
        for name, role in part.roles.items():
            if name not in leaves or not isinstance(role, Role):
                known = ", ".join(sorted(leaves))
                report.fault("roles", f"{name}: {role!r} is no Role of one of the leaves {known}")
                continue
            copy = part.copy()
            leaf = next(leaf for leaf in copy.parameters if leaf.name == name)
            if not np.all(leaf.values > 0.0):
                report.fault("roles", f"{name} is a {role.value}, but it is not positive")
                continue
            given, values = np.array(leaf.values), []
            for factor in (1.0, 2.0, 3.0):
                leaf[:] = factor * given
                values.append(np.array(copy.evaluate(X)[0]))
            if role is Role.VARIANCE:
                _check_variance(name, values, report)
            elif role is Role.LENGTHSCALE:
                _check_lengthscale(name, values, report)


def _check_variance(name: str, values: list[Array], report: Report) -> None:
    """Test a kernel's variance: K at one, two and three times it lies on a rising line."""
    first, second, third = values
    message = f"{name} is a variance, but K is not linear in it"
    report.close(
        "roles", message, third - second, second - first, EXACT, EXACT * np.abs(third).max()
    )
    if np.any(np.diagonal(second) < np.diagonal(first)):
        report.fault("roles", f"{name} is a variance, but Kdiag falls as it grows")


def _check_lengthscale(name: str, values: list[Array], report: Report) -> None:
    """Test a kernel's lengthscale: correlations at three times it are no smaller on the whole."""
    sd = [np.sqrt(np.diagonal(K)) for K in values]
    if all(np.all(one > 0.0) for one in sd):
        before, *_, after = (
            np.sum((K / np.outer(s, s)) ** 2) for K, s in zip(values, sd, strict=True)
        )
        if after < before * (1.0 - EXACT):
            report.fault("roles", f"{name} is a lengthscale, but correlations fall as it grows")
