"""Checks of a likelihood's density on a few rows: what is wrong with the arrays it returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np

from ..data.rows import Rows, Selection, rows_of
from ..data.types import Keywords
from ..errors import InputError
from ..linalg import Array, variances_in
from .contract import Likelihood
from .declarations import check_signatures
from .observation import of_event

# The density is tried at these latents, in standard deviations of q from its mean: the ends are as
# far out as the farthest nodes of a quadrature.
REACH = (-7.5, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 7.5)
# A latent below this, in units of max(1, |y|), is moderate: nothing overflows in a density that is
# written with care. NaN at larger latents only says that a step of the optimiser was too long.
MODERATE = 30.0


class DensityError(InputError):
    """A method of a likelihood returned NaN at some row and latents."""

    def __init__(self, method: str, row: int, where: str) -> None:
        super().__init__(method, row, where, rows=[row])
        self.method, self.row, self.where = method, row, where

    def __str__(self) -> str:
        return (
            f"{self.method} returned NaN at row {self.row}, {self.where}; −inf is allowed, NaN is "
            "not. Look for the logarithm or a power of a negative number, and for 0/0 and ∞ − ∞."
        )


@contextmanager
def row_numbers(rows: Selection) -> Iterator[None]:
    """Context in which a `DensityError` counts some rows; outside of it counts all rows."""
    try:
        yield
    except DensityError as error:
        numbers = np.arange(rows.stop)[rows] if isinstance(rows, slice) else rows
        raise DensityError(error.method, int(numbers[error.row]), error.where) from None


def check_not_nan(
    likelihood: Likelihood, y: Array, means: Array, variances: Array, kw: Keywords
) -> None:
    """Raise `DensityError` where the density or a derivative of it is NaN at moderate latents.

    y (n,), means (n, b), variances (n, b) or covariances (n, b, b) : of rows whose expectation is
        NaN.
    kw : parameters and metadata of these rows.
    """
    variances = variances_in(variances)
    few = np.flatnonzero(np.isfinite(means).all(1) & np.isfinite(variances).all(1))[:100]
    kw, methods = rows_of(kw, few), ["log_density"]
    if type(likelihood).dlog_density is not Likelihood.dlog_density:  # Differences are never NaN.
        methods.append("dlog_density")
    with row_numbers(few):
        own = y[few], means[few], variances[few], kw
        _refuse_nan(likelihood, methods, *own, REACH, np.abs(y[few]))


def check_predicted(likelihood: Likelihood, means: Array, variances: Array, kw: Keywords) -> None:
    """Raise `DensityError` where the density is NaN at latents that matter for predictions.

    It is tried at the rows where q reaches farthest, and at a few others, for one possible target.

    means (n, b), variances (n, b) or covariances (n, b, b) : those of q at the rows.
    kw : parameters and metadata of these rows.
    """
    if not len(means):
        return
    variances = variances_in(variances)
    far = 2.0 * np.sqrt(variances)
    ends = [np.argmin(means - far, axis=0), np.argmax(means + far, axis=0)]
    few = np.unique([*np.concatenate(ends), *np.linspace(0, len(means) - 1, 4).astype(int)])
    y = np.full(len(few), float(likelihood.target_support.interior))
    at = y, means[few], variances[few], rows_of(of_event(kw), few)
    with row_numbers(few):
        _refuse_nan(likelihood, ("log_density",), *at, REACH[1:-1], np.abs(means[few]).max(axis=1))


def _refuse_nan(
    likelihood: Likelihood,
    methods: Sequence[str],
    y: Array,
    means: Array,
    variances: Array,
    kw: Keywords,
    reach: Sequence[float],
    size: Array,
) -> None:
    """Raise `DensityError` of the most central latents at which a method of a density is NaN.

    reach : they are so many standard deviations of q from its mean.
    size : of moderate latents (n,), as `MODERATE` has it.
    """
    sds, b = np.sqrt(np.maximum(variances, 0.0)), means.shape[1]
    steps = np.array([*product(reach, repeat=b)] if b < 4 else [[k] * b for k in reach])
    latents = [means[:, j] + steps[:, j, None] * sds[:, j] for j in range(b)]  # (k, n)
    far = np.max([np.abs(f) for f in latents], axis=0) > MODERATE * np.maximum(1.0, size)
    for method in methods:
        with np.errstate(all="ignore"):
            found = getattr(likelihood, method)(y, *latents, **kw)
        for part in found if isinstance(found, tuple | list) else (found,):
            bad = np.argwhere(np.isnan(np.broadcast_to(part, far.shape)) & ~far)
            if len(bad):
                # This is the most central of the bad points.
                k, i = bad[np.argmin(np.abs(steps[bad[:, 0]]).sum(1))]
                names = zip(likelihood.latents, latents, strict=True)
                at = ", ".join(f"{name} = {f[k, i]:.6g}" for name, f in names)
                where = f"where y = {y[i]:.6g} and the latents are {at}"
                raise DensityError(f"{type(likelihood).__name__}.{method}", int(i), where)


def array_fault(value: object, shape: tuple[int, ...], exact: bool = True) -> str | None:
    """Why a value that a density returned is no float64 array of the shape, in words, or None.

    With `exact` False it may also broadcast to the shape.
    """
    if not isinstance(value, np.ndarray | np.float64):
        return f"returns a {type(value).__name__}, not a numpy array of float64"
    if value.dtype != np.float64:
        return f"returns {value.dtype}, not float64: use float64 throughout"
    if value.shape != shape and (exact or not _broadcasts(value.shape, shape)):
        return (
            f"returns shape {value.shape} instead of {shape}, the broadcast shape of its "
            "arguments; use elementwise operations only, no reshaping or summing"
        )
    return None


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def check_density(likelihood: Likelihood, rows: Rows) -> None:
    """Call `log_density` and its derivatives on a few rows before a fit, at latents near 0.

    Raises InputError that names method and fault, where a fit would end in an obscure error.
    `testing.check_likelihood` checks far more.
    """
    few = slice(3)
    y, kw = rows.targets(few), rows.keywords(few, **likelihood.parameter_values())
    b, n = len(likelihood.latents), len(y)
    steps = [np.array([-0.1, 0.1]).reshape((1,) * j + (2,) + (1,) * (b - j)) for j in range(b)]
    latents = [step + np.zeros(n) for step in steps]  # shapes as on a quadrature grid: (2, 1, n), …
    shape = np.broadcast_shapes(*(f.shape for f in latents))
    check_signatures(likelihood, likelihood.latents, y, latents, of_event(kw))
    methods: tuple[tuple[Callable[..., Any], int], ...] = (
        (likelihood.log_density, 0),
        (likelihood.dlog_density, b),
    )
    for method, count in methods:
        where = f"{type(likelihood).__name__}.{method.__name__}"
        try:
            with np.errstate(all="ignore"):
                result = method(y, *latents, **kw)
        except InputError:
            raise
        except Exception as error:
            shapes = ", ".join(str(f.shape) for f in latents)
            raise InputError(
                f"{where} raised {type(error).__name__}: {error}. It is called with arrays that "
                f"broadcast, here y {y.shape} and latents {shapes}."
            ) from error
        if count and not (isinstance(result, tuple | list) and len(result) == count):
            raise InputError(f"{where} must return {count} arrays, one for each latent.")
        for part in result if count else (result,):
            fault = array_fault(part, shape, exact=not count)
            if fault is None and np.isnan(part).any():
                fault = "is NaN for latents near 0; −inf is allowed, NaN is not"
            if fault is not None:
                raise InputError(f"{where} {fault}. testing.check_likelihood tells more.")
