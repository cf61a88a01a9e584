"""Event times e^f times a power of a standard time: Weibull and log-normal."""

from __future__ import annotations

import numpy as np
from scipy.special import gamma, log_ndtr, ndtri

from .. import special
from .base import Array, Arrays
from .survival import EXACT, INTERVAL, LEFT, RIGHT, Metadata, Survival, _codes, _minus, _required

__all__ = ["LogNormalSurvival", "WeibullSurvival"]

TINY = np.finfo(float).tiny


class _LogScale(Survival):
    """log T = f + Z/k, Z a standard variable, k = e^{±g}. A subclass gives Z and the sign."""

    _sign = 1.0

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """Of Z: log p(z), its derivative, log P(Z > z), log P(Z ≤ z)."""
        raise NotImplementedError

    def _z(self, t: Array, f: Array, g: Array) -> Array:
        log_t = np.log(np.clip(t, TINY, 1e300))
        return np.exp(np.clip(self._sign * np.asarray(g), -700.0, 700.0)) * (log_t - f)

    def log_hazard(self, t: Array, f: Array, g: Array) -> Array:
        """The log-hazard, log k − log t + log p(z) − log S(z), z = k (log t − f)."""
        with np.errstate(over="ignore"):
            log_p, _, log_survival, _ = self._standard(self._z(t, f, g))
        return self._sign * g - np.log(t) + _minus(log_p, log_survival)

    def log_survival(self, t: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """The log-survival, log P(Z > z)."""
        with np.errstate(over="ignore"):
            return self._standard(self._z(t, f, g))[2]

    def log_cdf(self, t: Array, f: Array, g: Array) -> Array:
        """The log-cdf, log P(Z ≤ z)."""
        with np.errstate(over="ignore"):
            return self._standard(self._z(t, f, g))[3]

    def dlog_density(
        self,
        y: Array,
        f: Array,
        g: Array,
        *,
        censored: Metadata = None,
        y_upper: Metadata = None,
        entry: Metadata = None,
    ) -> Arrays:
        """∂ log p / ∂f = −k Σ u, ∂ log p / ∂g = ± (Σ u z + [exact]), u = ∂ log p / ∂z of each z."""
        code = _codes(censored)
        with np.errstate(over="ignore", invalid="ignore"):
            z = self._z(y, f, g)
            log_p, slope, log_survival, _ = self._standard(z)
            hazard = -np.exp(_minus(log_p, log_survival))
            terms = [(z, np.where(code == EXACT, slope, np.where(code == RIGHT, hazard, 0.0)))]
            start = np.maximum(0.0 if entry is None else entry, TINY)
            if np.any(inner := (code == LEFT) | (code == INTERVAL)):
                upper = y if y_upper is None and np.all(code != INTERVAL) else _required(y_upper)
                low, high = np.where(code == LEFT, start, y), np.where(code == LEFT, y, upper)
                total = self._log_between(low, high, f, g)
                for t, sign in ((high, 1.0), (low, -1.0)):
                    z = self._z(t, f, g)
                    u = sign * np.exp(_minus(self._standard(z)[0], total))
                    terms.append((z, np.where(inner, u, 0.0)))
            if entry is not None:
                z = self._z(start, f, g)
                log_p, _, log_survival, _ = self._standard(z)
                terms.append((z, np.exp(_minus(log_p, log_survival))))
            k = np.exp(np.clip(self._sign * np.asarray(g), -700.0, 700.0))
            df = -k * sum(u for _, u in terms)
            dg = sum(np.where(u == 0.0, 0.0, u * z) for z, u in terms)
        return df, self._sign * (dg + (code == EXACT))


class WeibullSurvival(_LogScale):
    """T ~ Weibull with scale e^f and shape e^g: log S(t) = −(t e^{−f})^{e^g}, log_scale f.

    log p = g − log t + z − e^z, z = e^g (log t − f); latents log_scale f and log_shape g, any
    censoring. The median is e^f (log 2)^{e^{−g}}.
    """

    latents = ("log_scale", "log_shape")
    infinite_mean = True  # E Γ(1 + e^{−g}) diverges for a Gaussian g
    log_density = Survival.log_density

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        hazard = np.exp(z)
        below = np.where(z < -36.0, z, special.log1mexp(-hazard))
        return np.where(np.isinf(hazard), -np.inf, z - hazard), 1.0 - hazard, -hazard, below

    def conditional_mean(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """e^f Γ(1 + e^{−g})."""
        with np.errstate(over="ignore"):
            return np.exp(f) * gamma(1.0 + np.exp(-np.asarray(g)))

    def conditional_variance(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """e^{2f} (Γ(1 + 2/k) − Γ(1 + 1/k)²), k = e^g."""
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = np.exp(-np.asarray(g))
            first, second = gamma(1.0 + inverse), gamma(1.0 + 2.0 * inverse)
            value = np.exp(2.0 * np.asarray(f)) * np.maximum(second - first**2, 0.0)
        return np.where(np.isinf(second), np.inf, value)

    def ppf(self, q: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """Quantiles, exp(f + e^{−g} log(−log(1 − q)))."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.exp(f + np.exp(-np.asarray(g)) * np.log(-np.log1p(-np.asarray(q))))

    def natural_parameters(self, f: Array, g: Array, **metadata: Metadata) -> dict[str, Array]:
        """Scale and shape."""
        return {"scale": np.exp(f), "shape": np.exp(g)}


class LogNormalSurvival(_LogScale):
    """log T ~ N(f, e^{2g}): latents log_median f and log_sigma g, **standard deviation** e^g.

    log p = −½ log 2π − g − log t − ½ z², z = e^{−g} (log t − f); any censoring.
    """

    latents = ("log_median", "log_sigma")
    infinite_mean = True  # E exp(½ e^{2g}) diverges for a Gaussian g
    log_density = Survival.log_density
    _sign = -1.0

    def _standard(self, z: Array) -> tuple[Array, Array, Array, Array]:
        return -0.5 * (z * z + special.LOG_2PI), -z, log_ndtr(-z), log_ndtr(z)

    def conditional_mean(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """exp(f + ½ e^{2g})."""
        with np.errstate(over="ignore"):
            return np.exp(f + 0.5 * np.exp(2.0 * np.asarray(g)))

    def conditional_variance(self, f: Array, g: Array, **metadata: Metadata) -> Array:
        """(e^{σ²} − 1) e^{2f + σ²}, σ = e^g."""
        with np.errstate(over="ignore"):
            square = np.exp(2.0 * np.asarray(g))
            return np.expm1(square) * np.exp(2.0 * np.asarray(f) + square)

    def ppf(self, q: Array, f: Array, g: Array, **metadata: Metadata) -> Array:
        """Quantiles, exp(f + e^g Φ⁻¹(q))."""
        with np.errstate(over="ignore"):
            return np.exp(f + np.exp(g) * ndtri(q))

    def natural_parameters(self, f: Array, g: Array, **metadata: Metadata) -> dict[str, Array]:
        """Median and standard deviation of log T."""
        return {"median": np.exp(f), "sigma": np.exp(g)}
