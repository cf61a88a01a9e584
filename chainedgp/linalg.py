"""Linear algebra of the small (M, M) matrices, and the guard that holds BLAS to one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from .errors import NumericalError

Array = NDArray[np.float64]

__all__ = ["Array", "cholesky", "invert_lower", "one_blas_thread", "pack_lower", "unpack_lower"]


def cholesky(K: Array, what: str) -> Array:
    """Lower Cholesky factor of K (M, M); a NumericalError that names `what` when there is none."""
    L, info = lapack.dpotrf(K, lower=1, clean=1)
    if info != 0 or not np.isfinite(L[-1, -1]):
        raise NumericalError(
            f"{what} is not positive definite to working precision: two inducing inputs may "
            "coincide, a lengthscale may be very long, or the data very badly scaled. "
            "Standardise the inputs, use fewer inducing inputs or a larger model.jitter."
        )
    return L


def invert_lower(L: Array) -> Array:
    """Inverse of a lower triangular matrix (M, M), C-ordered for the products with chunks of rows.

    scipy's triangular solve holds the GIL, numpy's matmul does not: one inverse for every
    evaluation lets all chunks of rows run in parallel.
    """
    L_inv, info = lapack.dtrtri(L, lower=1)
    if info != 0:
        raise NumericalError("a triangular factor is singular: a variance has underflowed to 0.")
    return np.ascontiguousarray(np.tril(L_inv))


def pack_lower(L: Array) -> Array:
    """Lower triangle of L (M, M) row by row: (M (M + 1) / 2,)."""
    return L[np.tril_indices(L.shape[0])]


def unpack_lower(packed: Array, M: int) -> Array:
    """The matrix of which `pack_lower` gave the lower triangle: (M, M)."""
    L = np.zeros((M, M))
    L[np.tril_indices(M)] = packed
    return L


class _BlasGuard:
    """Holds BLAS to one thread while the main thread is inside; restores it when that leaves.

    The rows are already split over threads, so threads inside BLAS would only compete with them
    (two BLAS threads make an evaluation about four times slower on two cores). The setting belongs
    to the process and OpenBLAS ignores requests from other threads, so only the main thread asks.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._limiter: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._depth == 0:
            self._limiter = _blas_controller().limit(limits=1, user_api="blas")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._limiter.restore_original_limits()
                self._limiter = None


@cache
def _blas_controller() -> Any:
    """The loaded BLAS libraries; finding them takes milliseconds, so once per process."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


one_blas_thread = _BlasGuard()
