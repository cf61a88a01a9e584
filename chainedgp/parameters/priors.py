"""Hyperpriors on positive or real parameters: log-densities that enter the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from ..errors import InputError
from ..linalg import Array

__all__ = ["Gamma", "HalfNormal", "LogGaussian", "LogNormal", "Normal", "Prior"]

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Prior:
    """A hyperprior: a density on the entries of a parameter, on the parameter's own scale.

    No Jacobian is added for the optimiser's transformation: the optimum is the mode (MAP) in the
    parameter itself.
    """

    def log_density(self, x: Array) -> Array:
        """A hyperprior's log p(x) of each entry, or shares of a sum if entries are dependent."""
        raise NotImplementedError

    def gradient(self, x: Array) -> Array:
        """The derivative of a hyperprior's log-density, summed over entries, in each entry."""
        raise NotImplementedError

    def words(self, entry: int) -> str:
        """What a table of parameters says of the hyperprior of one entry."""
        return str(self)

    #: Names of fields that may be any number; all other fields must be positive.
    real_fields: ClassVar[tuple[str, ...]] = ("mean",)
    #: Whether the density is that of the logarithm of x, not of x.
    of_logarithms: ClassVar[bool] = False
    #: Names of fields that may be 0.
    zero_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            real, zero = name in self.real_fields, name in self.zero_fields
            try:
                numbers = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                numbers = np.array(np.nan)
            positive = real or (numbers > 0).all() or (zero and (numbers >= 0).all())
            if not (np.isfinite(numbers).all() and positive):
                what = "finite" if real else "positive and finite"
                what = "at least 0 and finite" if zero else what
                raise InputError(f"{type(self).__name__}: {name} must be {what}; got {value!r}.")


@dataclass(frozen=True)
class Normal(Prior):
    """The normal hyperprior x ~ N(mean, sd²)."""

    mean: float = 0.0
    sd: float = 1.0

    def log_density(self, x: Array) -> Array:
        """The log-density of a normal hyperprior, −½ ((x − mean)/sd)² − log sd − ½ log 2π."""
        z = (x - self.mean) / self.sd
        return -0.5 * z * z - np.log(self.sd) - HALF_LOG_2PI

    def gradient(self, x: Array) -> Array:
        """The slope of a normal hyperprior's log-density, −(x − mean)/sd²."""
        return -(x - self.mean) / self.sd**2


@dataclass(frozen=True)
class LogNormal(Prior):
    """The log-normal hyperprior log x ~ N(mean, sd²), x > 0."""

    mean: float = 0.0
    sd: float = 1.0

    def log_density(self, x: Array) -> Array:
        """Log-normal hyperprior: −½ ((log x − mean)/sd)² − log x − log sd − ½ log 2π."""
        log_x = np.log(x)
        z = (log_x - self.mean) / self.sd
        return -0.5 * z * z - log_x - np.log(self.sd) - HALF_LOG_2PI

    def gradient(self, x: Array) -> Array:
        """The slope of a log-normal hyperprior, −(1 + (log x − mean)/sd²) / x."""
        return -(1.0 + (np.log(x) - self.mean) / self.sd**2) / x


@dataclass(frozen=True)
class Gamma(Prior):
    """The gamma hyperprior x ~ Gamma(shape, rate), x > 0, with mean shape/rate."""

    shape: float = 2.0
    rate: float = 1.0

    def log_density(self, x: Array) -> Array:
        """Gamma hyperprior: shape log rate − lgamma(shape) + (shape − 1) log x − rate x."""
        normaliser = self.shape * np.log(self.rate) - gammaln(self.shape)
        return normaliser + (self.shape - 1.0) * np.log(x) - self.rate * x

    def gradient(self, x: Array) -> Array:
        """The slope of a gamma hyperprior's log-density, (shape − 1)/x − rate."""
        return (self.shape - 1.0) / x - self.rate


@dataclass(frozen=True)
class HalfNormal(Prior):
    """The half-normal hyperprior x ~ |N(0, sd²)|, x ≥ 0."""

    sd: float = 1.0

    def log_density(self, x: Array) -> Array:
        """The log-density of a half-normal hyperprior, −½ (x/sd)² + log 2 − log sd − ½ log 2π."""
        z = x / self.sd
        return -0.5 * z * z + np.log(2.0) - np.log(self.sd) - HALF_LOG_2PI

    def gradient(self, x: Array) -> Array:
        """The slope of a half-normal hyperprior's log-density, −x/sd²."""
        return -x / self.sd**2


@dataclass(frozen=True)
class LogGaussian(Prior):
    """A hyperprior on positive x_d: log(x_d/median_d) jointly N(0, sd² I + common_sd² 11ᵀ).

    That is x_d = median_d · e^(c + r_d) with a common c ~ N(0, common_sd²), integrated out, and
    r_d ~ N(0, sd²). The entries shrink towards a common multiple of their medians, which the data
    determine. With few data they stay nearly in proportion; with many data each has its own value.

    Unlike `LogNormal`, this is a density of the logarithms. Its mode is therefore the median, and
    does not depend on the unit of x.

    Parameters
    ----------
    median : one number for all entries, or a tuple with one for each.
    sd, common_sd : standard deviations of the logarithms, of each entry and of what they share.
    """

    median: float | tuple[float, ...] = 1.0
    sd: float = 1.0
    common_sd: float = 0.0

    of_logarithms = True
    zero_fields = ("common_sd",)

    def log_density(self, x: Array) -> Array:
        """The log-density of a joint hyperprior of logarithms, in shares of the entries.

        It is −½ zᵀΣ⁻¹z − ½ log |2πΣ| with z = log(x / median); the shares of the first term
        are z_d (Σ⁻¹z)_d, those of the second equal.
        """
        z, D = self._logarithms(x), x.size
        log_determinant = np.log1p(D * (self.common_sd / self.sd) ** 2) / D
        shares = -0.5 * z * self._whitened(z) - 0.5 * log_determinant - np.log(self.sd)
        return (shares - HALF_LOG_2PI).reshape(x.shape)

    def gradient(self, x: Array) -> Array:
        """The slope of a joint hyperprior of logarithms, −(Σ⁻¹z)_d / x_d."""
        return -self._whitened(self._logarithms(x)).reshape(x.shape) / x

    def words(self, entry: int) -> str:
        """What a table says of a joint hyperprior of logarithms: median, factor, if shared.

        Two of three values are within the factor of the median.
        """
        medians = np.atleast_1d(self.median)
        factor = float(np.exp(np.hypot(self.sd, self.common_sd)))
        shared = ", in part common to all" if self.common_sd > 0.0 and medians.size > 1 else ""
        median = float(medians[entry % medians.size])
        return f"about {median:.3g}, within a factor of {factor:.2g}{shared}"

    def _logarithms(self, x: Array) -> Array:
        """The logarithms z (D,) of x over its medians under a joint hyperprior."""
        return np.log(np.ravel(x)) - np.log(np.asarray(self.median))

    def _whitened(self, z: Array) -> Array:
        """Σ⁻¹z of a joint hyperprior of logarithms, by the formula of Sherman and Morrison."""
        common2, own2 = self.common_sd**2, self.sd**2
        return (z - z.sum() * common2 / (own2 + z.size * common2)) / own2
