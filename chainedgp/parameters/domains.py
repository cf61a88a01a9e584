"""Domains of parameters, where their values may lie: positive, real, above one …"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from paramz.transformations import Logexp, Logistic, Transformation

from ..errors import InputError
from .leaves import Leaf


class AboveOne(Logexp):
    """The constraint θ = 1 + log(1 + eˣ) > 1. No constructor arguments: paramz keeps one object."""

    lower = 1.0

    def f(self, x: np.ndarray) -> np.ndarray:
        """The constrained parameter θ > 1 from the unconstrained x, never rounded to 1."""
        return 1.0 + np.maximum(super().f(x), 1e-9)

    def finv(self, f: np.ndarray) -> np.ndarray:
        """The unconstrained x from the constrained parameter θ > 1."""
        return super().finv(np.maximum(f - 1.0, 1e-300))

    def gradfactor(self, f: np.ndarray, df: np.ndarray) -> np.ndarray:
        """Gradient in the unconstrained x from that in the constrained parameter θ > 1."""
        return super().gradfactor(f - 1.0, df)

    def initialize(self, f: np.ndarray) -> np.ndarray:
        """A start of a parameter inside the domain θ > 1."""
        return np.where(f > 1.0, f, 2.0)

    def log_jacobian(self, f: np.ndarray) -> np.ndarray:
        """The log-Jacobian log dθ/dx of the constraint θ > 1."""
        return super().log_jacobian(f - 1.0)

    def log_jacobian_grad(self, f: np.ndarray) -> np.ndarray:
        """Derivative in θ of the log-Jacobian of the constraint θ > 1."""
        return super().log_jacobian_grad(f - 1.0)

    def __str__(self) -> str:
        return ">1"


class Domain(NamedTuple):
    """Domain of a likelihood's parameter: two ends, and a constraint of paramz that keeps them."""

    lower: float
    constraint: Callable[[], Transformation] | None
    upper: float = np.inf


DOMAINS = {
    "positive": Domain(0.0, Logexp),
    "real": Domain(-np.inf, None),
    "above_one": Domain(AboveOne.lower, AboveOne),
    "one_to_two": Domain(1.0, partial(Logistic, 1.0, 2.0), 2.0),
    "tail_shape": Domain(-0.5, partial(Logistic, -0.5, 1.0), 1.0),
}


def make_parameter(key: str, value: float, domain: str) -> Leaf:
    """A scalar parameter that starts at value, kept in its domain; InputError if it is outside."""
    if domain not in DOMAINS:
        raise InputError(f"Domain {domain!r} of {key!r} is unknown: use {', '.join(DOMAINS)}.")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"Parameter {key} must be a number; got {value!r}.") from error
    lower, constraint, upper = DOMAINS[domain]
    if not (np.isfinite(number) and lower < number < upper):
        words = f"between {lower:g} and {upper:g}" if upper < np.inf else domain.replace("_", " ")
        raise InputError(f"Parameter {key} must be finite and {words}; got {value!r}.")
    return Leaf(key, number, constraint() if constraint else None)
