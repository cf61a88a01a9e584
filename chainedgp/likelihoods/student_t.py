"""Student-t noise, heteroscedastic or not."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

from .. import quadrature, special
from . import levels
from .base import Array, Arrays, FourArrays, Likelihood
from .wrappers import ConstantLatent

__all__ = ["HetStudentT", "StudentT"]


class HetStudentT(Likelihood):
    """y ~ Student-t with location f, **squared scale** e^g and ν degrees of freedom, a constant.

    log p = lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) − g/2 − (ν+1)/2 · log(1 + (y−f)²/(ν e^g)).

    The expectation is exact in f, for every width of q(f) against the scale
    (`special.expected_log1p_square`); Gauss–Hermite in g alone. While it is fitted ν > 1; every
    method takes any ν > 0.
    """

    latents = ("location", "log_scale2")
    parameters = {"nu": 4.0}
    domains = {"nu": "above_one"}
    quadrature_latent = "log_scale2"
    late_parameters = ("nu",)  # early on, misfit would pass for heavy tails

    def log_density(self, y: Array, f: Array, g: Array, *, nu: float) -> Array:
        """The log-density log p(y | f, g; ν), in the broadcast shape of y, f and g."""
        with np.errstate(over="ignore"):
            square = (y - f) ** 2 * (np.exp(-g) / nu)
        return _normaliser(nu)[0] - 0.5 * g - 0.5 * (nu + 1.0) * np.log1p(square)

    def dlog_density(self, y: Array, f: Array, g: Array, *, nu: float) -> Arrays:
        """∂ log p / ∂f = (ν+1) r/(ν e^g + r²), ∂ log p / ∂g = −½ + ½ (ν+1) r²/(ν e^g + r²)."""
        share, slope = _share(y - f, g, nu)
        return (nu + 1.0) * slope, 0.5 * (nu + 1.0) * share - 0.5

    def dlog_density_dtheta(self, y: Array, f: Array, g: Array, *, nu: float) -> Arrays:
        """∂ log p / ∂ν."""
        share, _ = _share(y - f, g, nu)
        with np.errstate(over="ignore"):
            square = (y - f) ** 2 * (np.exp(-g) / nu)
        slope = _normaliser(nu)[1]
        return (slope - 0.5 * np.log1p(square) + 0.5 * (nu + 1.0) / nu * share,)

    def d2log_density(self, y: Array, f: Array, g: Array, *, nu: float) -> Arrays:
        """∂² log p / ∂f², ∂² log p / ∂g²; the first is positive for |y − f| > sqrt(ν e^g)."""
        share, slope = _share(y - f, g, nu)
        c2 = nu * np.exp(g)
        # (r² − c²)/(r² + c²)², with 1/(r² + c²) = (1 − share)/c²
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            narrow = (1.0 - share) / c2
        second = (nu + 1.0) * (slope * slope - np.where(c2 > 0.0, narrow * (1.0 - share), 0.0))
        return second, -0.5 * (nu + 1.0) * share * (1.0 - share)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, nu: float
    ) -> FourArrays:
        """E[log p], exact in f, `nodes` Gauss–Hermite nodes in g; shapes as in `Likelihood`."""
        x, w = quadrature.gauss_hermite(nodes)
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        sd = np.sqrt(np.maximum(v_g, quadrature.VARIANCE_FLOOR))
        scale = np.exp(-0.5 * (m_g + sd * x[:, None])) / np.sqrt(nu)  # 1/c at the nodes (h, n)
        scale2 = scale * scale
        delta, kappa = (y - m_f) * scale, v_f * scale2
        term, ddelta, dkappa = special.expected_log1p_square(delta, kappa)
        delta *= ddelta
        kappa *= dkappa
        slope = -0.5 * delta - kappa  # d term / dg (h, n)
        half = 0.5 * (nu + 1.0)
        ddelta *= scale
        dkappa *= scale2
        mean_term, mean_slope = w @ term, w @ slope
        normaliser, dnormaliser = _normaliser(nu)
        value = normaliser - 0.5 * m_g - half * mean_term
        dmeans, dvariances = np.empty((2, y.size)), np.empty((2, y.size))
        dmeans[0] = half * (w @ ddelta)
        dmeans[1] = -0.5 - half * mean_slope
        dvariances[0] = -half * (w @ dkappa)
        dvariances[1] = -0.5 * half / sd * ((w * x) @ slope)
        dnu = dnormaliser - 0.5 * mean_term - half / nu * mean_slope
        return value, dmeans.T, dvariances.T, dnu[:, None]

    def conditional_mean(self, f: Array, g: Array, *, nu: float) -> Array:
        """f; inf, because it does not exist, for ν ≤ 1."""
        return np.where(nu > 1.0, f, np.inf) + np.zeros_like(g)

    def conditional_variance(self, f: Array, g: Array, *, nu: float) -> Array:
        """e^g ν/(ν − 2), infinite for ν ≤ 2."""
        factor = nu / (nu - 2.0) if nu > 2.0 else np.inf
        return np.exp(g) * factor + np.zeros_like(f)

    def cdf(self, y: Array, f: Array, g: Array, *, nu: float) -> Array:
        """P(Y ≤ y | f, g; ν)."""
        with np.errstate(over="ignore"):
            return stdtr(nu, (y - f) * np.exp(-0.5 * np.asarray(g)))

    def ppf(self, q: Array, f: Array, g: Array, *, nu: float) -> Array:
        """Quantiles, f + e^{g/2} t_ν(q)."""
        return f + np.exp(0.5 * np.asarray(g)) * stdtrit(nu, q)

    def sample(
        self, rng: np.random.Generator, f: Array, g: Array, *, nu: float, size: int | None = None
    ) -> Array:
        """Draws: the broadcast shape of f and g, preceded by `size`."""
        shape = self._draw_shape(size, (f, g), {})
        return f + np.exp(0.5 * np.asarray(g)) * rng.standard_t(nu, size=shape)

    def normal_scale_mixture(self, *, nu: float) -> float:
        """y | f, g ~ N(f, e^g/λ), λ ~ Gamma(a, a) with a = ν/2: predictions integrate f exactly."""
        return 0.5 * nu

    def natural_parameters(self, f: Array, g: Array, *, nu: float) -> dict[str, Array]:
        """Location f and scale e^{g/2}."""
        return {"location": np.asarray(f), "scale": np.exp(0.5 * np.asarray(g))}

    def initial_latents(self, y: Array, *, nu: float) -> Array:
        """The median and, from the interquartile range, the logarithm of the squared scale."""
        low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
        scale = (high - low) / (2.0 * float(stdtrit(nu, 0.75)))
        if scale <= 0.0:  # more than half of the rows are equal
            scale = float(np.std(y)) or 1.0
        return np.array([middle, 2.0 * np.log(scale)])

    def required_nodes(self, y: Array, means: Array, variances: Array, *, nu: float) -> Array:
        """Nodes in g for about 1e-6: set by v_g and ν alone, because f is integrated exactly."""
        return levels.choose(_score(variances, nu), _LIMITS)[0]

    def unmet(self, y: Array, means: Array, variances: Array, *, nu: float) -> Array:
        """Rows where v_g is too large for the last level."""
        return levels.choose(_score(variances, nu), _LIMITS)[1]


# v_g at which E_g[E_f log(1 + (y−f)²/(ν e^g))] is off by 1e-6, for each of quadrature.LEVELS
_LIMITS = (1.0, 1.85, 3.7, 6.6, 10.5, 15.0)


def _score(variances: Array, nu: float) -> Array:
    """v_g, widened for the factor (ν+1)/2: the errors grow as its sixth power or faster (n,)."""
    return variances[:, 1] * max(0.5 * (nu + 1.0), 1.0) ** (1.0 / 6.0)


def _normaliser(nu: float) -> tuple[float, float]:
    """lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) and its derivative in ν."""
    step, slope = special.lgamma_half_step(0.5 * nu)
    return float(step - 0.5 * np.log(np.pi * nu)), float(0.5 * slope - 0.5 / nu)


def _share(r: Array, g: Array, nu: float) -> Arrays:
    """r²/(ν e^g + r²) and r/(ν e^g + r²), without overflow, 0 at r = 0 whatever g is."""
    c = np.sqrt(nu) * np.exp(0.5 * np.asarray(g))
    norm = np.hypot(r, c)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.where(norm > 0.0, r / norm, 0.0)
        return unit * unit, np.where(norm > 0.0, unit / norm, 0.0)


class StudentT(ConstantLatent):
    """y ~ Student-t with location f and constants log_scale2 (the **squared** scale) and nu.

    `HetStudentT().with_constant("log_scale2")`; the expectation is exact, without quadrature.
    """

    def __init__(
        self, name: str | None = None, *, nu: float = 4.0, log_scale2: float | None = None
    ) -> None:
        super().__init__(HetStudentT(nu=nu), "log_scale2", log_scale2, name=name)
