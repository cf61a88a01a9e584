"""Linear algebra of small (M, M) matrices, and the guard that holds BLAS to one thread."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from .errors import NumericalError

Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Indices = NDArray[np.integer[Any]]  # These may be indices or other whole numbers.

# Triangular products multiply this many rows at once: larger blocks meet more zeros, smaller ones
# need more calls.
BLOCK = 48


def cholesky(K: Array, what: str) -> Array:
    """Lower Cholesky factor of K (M, M); a NumericalError that names `what` when there is none.

    It is numpy's, since scipy's holds the GIL: the factors of several latents are made in parallel.
    """
    L = np.full((1, 1), np.nan)
    with suppress(np.linalg.LinAlgError):
        L = np.asarray(np.linalg.cholesky(K), dtype=float)
    if not np.isfinite(L[-1, -1]):
        raise NumericalError(
            f"{what} is not positive definite to working precision: two inducing inputs may "
            "coincide, a lengthscale may be very long, or the data very badly scaled. "
            "Standardise the inputs, use fewer inducing inputs or a larger model.jitter."
        )
    return L


def invert_lower(L: Array) -> Array:
    """Inverse of a lower triangular matrix (M, M), used in products with chunks of rows.

    scipy's triangular solve holds the GIL, numpy's matmul does not: one inverse for every
    evaluation lets all chunks of rows run in parallel. The matrix is halved,

        [A 0; C B]⁻¹ = [A⁻¹ 0; −B⁻¹ C A⁻¹ B⁻¹],

    so that the inverse is itself made of products, except for the last, small blocks.
    """
    L_inv = np.zeros(L.shape)
    _invert_lower(L, L_inv)
    return L_inv


def _invert_lower(L: Array, out: Array) -> None:
    """Write the inverse of lower triangular L into `out`, which is zero above its diagonal."""
    M = len(L)
    if M <= 2 * BLOCK:
        upper, info = lapack.dtrtri(L.T, lower=0)
        if info != 0:
            raise NumericalError(
                "a triangular factor is singular: a variance has underflowed to 0."
            )
        out[:] = upper.T
        return
    half = M // 2
    A, C, B = L[:half, :half], L[half:, :half], L[half:, half:]
    _invert_lower(A, out[:half, :half])
    _invert_lower(B, out[half:, half:])
    CA = C @ out[:half, :half]
    np.negative(CA, out=CA)
    np.matmul(out[half:, half:], CA, out=out[half:, :half])


def variances_in(V: Array) -> Array:
    """The variances (n, b) in V: V itself, or a view of covariances (n, b, b)."""
    return V if V.ndim == 2 else np.diagonal(V, axis1=1, axis2=2)


class Workspace:
    """Arrays that one module writes intermediate results to, kept from one call to the next.

    The system takes large arrays back when they are freed, and clears them when they are asked for
    again: for the arrays of a chunk of rows that costs as much as some of the work on them. Every
    thread has arrays of its own. A module makes its own workspace, so that no other can write to
    its arrays.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        return Workspace, ()  # a copy starts empty: what the arrays hold is of no use elsewhere

    def array(self, name: str, *shape: int) -> Array:
        """A work array of this thread, with any content; the next call with this name reuses it."""
        kept, size = self._local.__dict__, math.prod(shape)
        if name not in kept or kept[name].size < size:
            kept[name] = np.zeros(size)
        return kept[name][:size].reshape(shape)


_work = Workspace()


def lower_product(L: Array, K: Array, out: Array | None = None) -> Array:
    """L K for lower triangular L (M, M) and K (M, n), without most of the products with zeros."""
    out = np.empty(K.shape) if out is None else out
    for i in range(0, len(L), BLOCK):
        rows = slice(i, i + BLOCK)
        np.matmul(L[rows, : i + BLOCK], K[: i + BLOCK], out=out[rows])
    return out


def upper_product(U: Array, K: Array, out: Array | None = None) -> Array:
    """U K for U (M, M + k), zero below its diagonal, and K (M + k, n), like `lower_product`."""
    out = np.empty((len(U), K.shape[1])) if out is None else out
    for i in range(0, len(U), BLOCK):
        rows = slice(i, i + BLOCK)
        np.matmul(U[rows, i:], K[i:], out=out[rows])
    return out


def lower_triangle_product(
    B: Array, C: Array, out: Array | None = None, *, lower: bool = False
) -> Array:
    """The lower triangle of B C (M, M), with any numbers above it. lower : whether C is lower."""
    out = np.zeros((len(B), C.shape[1])) if out is None else out
    for i in range(0, len(B), BLOCK):
        columns, k = slice(i, i + BLOCK), slice(i if lower else 0, None)
        np.matmul(B[i:, k], C[k, columns], out=out[i:, columns])
    return out


def root_gram(R: Array) -> Array:
    """R Rᵀ (M, M) for lower triangular R, without most of the products with zeros."""
    if len(R) <= 3 * BLOCK:
        return R @ R.T
    S = np.empty(R.shape)
    for i in range(0, len(R), BLOCK):
        rows, k = slice(i, i + BLOCK), slice(0, i + BLOCK)
        np.matmul(R[i:, k], R[rows, k].T, out=S[i:, rows])
    return mirrored(S)


def mirrored(S: Array) -> Array:
    """The lower triangle of S (M, M) copied above its diagonal, in place."""
    for i in range(0, len(S), 2 * BLOCK):
        rows, below = slice(i, i + 2 * BLOCK), slice(i + 2 * BLOCK, None)
        S[rows, below] = S[below, rows].T
        block = S[rows, rows]
        np.copyto(block, block.T, where=~_lower(len(block)))
    return S


def weighted_gram(A: Array, w: Array) -> Array:
    """A diag(w) Aᵀ (M, M) for A (M, n) and weights w (n,) of either sign.

    numpy multiplies an array by its own transpose in half the time. So A is multiplied by the
    square roots of |w|, as if all weights had the sign of most of them; the contribution of the
    columns with the other sign is then corrected.
    """
    B = np.multiply(A, np.sqrt(np.abs(w)), out=_work.array("work", *A.shape))
    G = B @ B.T
    positive = np.count_nonzero(w > 0.0)
    sign = 1.0 if positive > 0.5 * w.size else -1.0
    if positive not in (0, w.size):
        other = sign * w < 0.0
        C = np.ascontiguousarray(B[:, other])
        G -= 2.0 * (C @ C.T)
    return G if sign > 0.0 else np.negative(G, out=G)


def pack_lower(L: Array) -> Array:
    """Pack the lower triangle of L (M, M) row by row: (M (M + 1) / 2,)."""
    return L[_lower(len(L))]


def unpack_lower(packed: Array, M: int) -> Array:
    """The lower triangular matrix (M, M) that `pack_lower` packed."""
    L = np.zeros((M, M))
    L[_lower(M)] = packed
    return L


@lru_cache(maxsize=8)
def _lower(M: int) -> NDArray[np.bool_]:
    """Mask of the lower triangle, (M, M) of bool."""
    return np.tri(M, dtype=bool)


class _BlasGuard:
    """Guard that holds BLAS to one thread while the main thread is inside, and restores it after.

    The rows are already split over threads, so threads inside BLAS would only compete with them
    (two BLAS threads make an evaluation about four times slower on two cores). The setting belongs
    to the process and OpenBLAS ignores requests from other threads, so only the main thread asks.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._before: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._depth == 0:
            self._before = [library.get_num_threads() for library in _blas_libraries()]
            self._set([1] * len(self._before))
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._set(self._before)

    @staticmethod
    def _set(counts: list[int]) -> None:
        for library, count in zip(_blas_libraries(), counts, strict=True):
            if library.get_num_threads() != count:
                library.set_num_threads(count)


@cache
def _blas_libraries() -> list[Any]:
    """The loaded BLAS libraries; finding them takes milliseconds, so it is done once a process."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


one_blas_thread = _BlasGuard()
