"""A density called on a few rows: what is wrong with the arrays that it returned, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.rows import Rows
from ..errors import InputError
from .contract import Likelihood

__all__ = ["array_fault", "check_density"]


def array_fault(value: object, shape: tuple[int, ...], exact: bool = True) -> str | None:
    """Why value is not a float64 array of the shape (or one that broadcasts to it), or None."""
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
    """Call `log_density` and its derivatives on a few rows, at a small grid of latents near 0.

    Raises InputError that names method and fault, where a fit would end in an obscure error.
    `testing.check_likelihood` checks far more.
    """
    few = slice(3)
    y, kw = rows.targets(few), rows.keywords(few, **likelihood.parameter_values())
    b, n = len(likelihood.latents), len(y)
    steps = [np.array([0.0, 0.1]).reshape((1,) * j + (2,) + (1,) * (b - j)) for j in range(b)]
    latents = [step + np.zeros(n) for step in steps]  # shapes as on a quadrature grid: (2, 1, n), …
    shape = np.broadcast_shapes(*(f.shape for f in latents))
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
