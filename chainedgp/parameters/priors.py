"""Hyperpriors on positive or real parameters: log-densities that enter the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from ..errors import InputError
from ..linalg import Array

__all__ = ["Gamma", "HalfNormal", "LogNormal", "Normal", "Prior"]

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Prior:
    """A prior density on each entry of a parameter, on the parameter's own scale.

    No Jacobian is added for the optimiser's transformation: the optimum is the mode (MAP) in the
    parameter itself.
    """

    def log_density(self, x: Array) -> Array:
        """log p(x), elementwise."""
        raise NotImplementedError

    def gradient(self, x: Array) -> Array:
        """d log p / dx, elementwise."""
        raise NotImplementedError

    #: Names of fields that may be any number; all other fields must be positive.
    real_fields: ClassVar[tuple[str, ...]] = ("mean",)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            real = name in self.real_fields
            if not np.isfinite(value) or not (real or value > 0):
                what = "finite" if real else "positive and finite"
                raise InputError(f"{type(self).__name__}: {name} must be {what}; got {value!r}.")


@dataclass(frozen=True)
class Normal(Prior):
    """x ~ N(mean, sd²)."""

    mean: float = 0.0
    sd: float = 1.0

    def log_density(self, x: Array) -> Array:
        """−½ ((x − mean)/sd)² − log sd − ½ log 2π."""
        z = (x - self.mean) / self.sd
        return -0.5 * z * z - np.log(self.sd) - HALF_LOG_2PI

    def gradient(self, x: Array) -> Array:
        """−(x − mean)/sd²."""
        return -(x - self.mean) / self.sd**2


@dataclass(frozen=True)
class LogNormal(Prior):
    """log x ~ N(mean, sd²), x > 0."""

    mean: float = 0.0
    sd: float = 1.0

    def log_density(self, x: Array) -> Array:
        """−½ ((log x − mean)/sd)² − log x − log sd − ½ log 2π."""
        log_x = np.log(x)
        z = (log_x - self.mean) / self.sd
        return -0.5 * z * z - log_x - np.log(self.sd) - HALF_LOG_2PI

    def gradient(self, x: Array) -> Array:
        """−(1 + (log x − mean)/sd²) / x."""
        return -(1.0 + (np.log(x) - self.mean) / self.sd**2) / x


@dataclass(frozen=True)
class Gamma(Prior):
    """x ~ Gamma(shape, rate), x > 0, with mean shape/rate."""

    shape: float = 2.0
    rate: float = 1.0

    def log_density(self, x: Array) -> Array:
        """shape log rate − lgamma(shape) + (shape − 1) log x − rate x."""
        normaliser = self.shape * np.log(self.rate) - gammaln(self.shape)
        return normaliser + (self.shape - 1.0) * np.log(x) - self.rate * x

    def gradient(self, x: Array) -> Array:
        """(shape − 1)/x − rate."""
        return (self.shape - 1.0) / x - self.rate


@dataclass(frozen=True)
class HalfNormal(Prior):
    """x ~ |N(0, sd²)|, x ≥ 0."""

    sd: float = 1.0

    def log_density(self, x: Array) -> Array:
        """−½ (x/sd)² + log 2 − log sd − ½ log 2π."""
        z = x / self.sd
        return -0.5 * z * z + np.log(2.0) - np.log(self.sd) - HALF_LOG_2PI

    def gradient(self, x: Array) -> Array:
        """−x/sd²."""
        return -x / self.sd**2
