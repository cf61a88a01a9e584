"""Student-t noise: constant or varying scale, constant or varying tails."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

from ..data.types import Value
from ..expectations import reduced, special
from .contract import Array, Arrays, Averages, packed
from .family import Family
from .wrappers.constant import ConstantLatent

__all__ = ["HetStudentT", "HetStudentTNu", "StudentT"]


class HetStudentT(Family):
    """y ~ Student-t with location f, **squared scale** e^g and ν degrees of freedom, a constant.

    (Saul et al. 2016, eq. 9)

    log p = lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) − g/2 − (ν+1)/2 · log(1 + (y−f)²/(ν e^g)).

    The expectation is exact in f, for every width of q(f) against the scale
    (`reduced.expected_log_tail`); Gauss–Hermite in g alone. While it is fitted ν > 1; every
    method takes any ν > 0.
    """

    latents = ("location", "log_scale2")
    parameters = {"nu": 4.0}
    domains = {"nu": "above_one"}
    quadrature_latent = "log_scale2"
    scipy_name = "t"
    node_limits = (0.25, 1.0, 1.85, 3.7, 6.6, 10.5, 15.0)

    def _arguments(self, f: Array, g: Array, *, nu: float) -> tuple:
        return nu, f, np.exp(0.5 * np.asarray(g))

    def log_density(self, y: Array, f: Array, g: Array, *, nu: Value) -> Array:
        """As in the class docstring."""
        constant, tail = special.student_t_constant(nu)[0], special.student_t_tail(y - f, g, nu)
        return constant - 0.5 * g - 0.5 * (nu + 1.0) * tail

    def dlog_density(self, y: Array, f: Array, g: Array, *, nu: Value) -> Arrays:
        """∂ log p / ∂f = (ν+1) r/(ν e^g + r²), ∂ log p / ∂g = −½ + ½ (ν+1) r²/(ν e^g + r²)."""
        share, slope = special.student_t_share(y - f, g, nu)
        return (nu + 1.0) * slope, 0.5 * (nu + 1.0) * share - 0.5

    def dlog_density_dtheta(self, y: Array, f: Array, g: Array, *, nu: Value) -> Arrays:
        """∂ log p / ∂ν."""
        pull = 0.5 * (nu + 1.0) * special.student_t_share(y - f, g, nu)[0]
        slope = (special.student_t_constant(nu)[1] + pull) / nu
        return (slope - 0.5 * special.student_t_tail(y - f, g, nu),)

    def d2log_density(self, y: Array, f: Array, g: Array, *, nu: float) -> Arrays:
        """∂² log p / ∂f², ∂² log p / ∂g²; the first is positive for |y − f| > sqrt(ν e^g)."""
        share, slope = special.student_t_share(y - f, g, nu)
        c2 = nu * np.exp(g)
        # The first is (r² − c²)/(r² + c²)², where 1/(r² + c²) = (1 − share)/c² does not overflow.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            narrow = (1.0 - share) / c2
        second = (nu + 1.0) * (slope * slope - np.where(c2 > 0.0, narrow * (1.0 - share), 0.0))
        return second, -0.5 * (nu + 1.0) * share * (1.0 - share)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, nu: float
    ) -> Averages:
        """E[log p], exact in f, `nodes` Gauss–Hermite nodes in g; shapes as in `Likelihood`."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        tail = reduced.expected_log_tail(y - m_f, v_f, m_g + np.log(nu), v_g, nodes)
        half = 0.5 * (nu + 1.0)
        term, dr, dv_f, dg, dv_g = -half * tail
        constant, slope = special.student_t_constant(nu)
        dnu = (slope + dg) / nu - 0.5 * tail[0]
        return packed(constant - 0.5 * m_g + term, (-dr, dg - 0.5), (dv_f, dv_g), (dnu,))

    def conditional_mean(self, f: Array, g: Array, *, nu: float) -> Array:
        """The location f; inf for ν ≤ 1, where the mean does not exist."""
        return np.where(nu > 1.0, f, np.inf) + np.zeros_like(g)

    def conditional_variance(self, f: Array, g: Array, *, nu: float) -> Array:
        """e^g ν/(ν − 2), infinite for ν ≤ 2."""
        if nu <= 2.0:  # it is infinite whatever e^g is, which may be 0 to rounding
            return np.full(np.broadcast_shapes(np.shape(f), np.shape(g)), np.inf)
        return np.exp(g) * (nu / (nu - 2.0)) + np.zeros_like(f)

    def cdf(self, y: Array, f: Array, g: Array, *, nu: float) -> Array:
        """P(Y ≤ y | f, g; ν)."""
        with np.errstate(over="ignore"):
            return stdtr(nu, (y - f) * np.exp(-0.5 * np.asarray(g)))

    def ppf(self, q: Array, f: Array, g: Array, *, nu: float) -> Array:
        """Quantiles, f + e^{g/2} t_ν(q)."""
        return f + np.exp(0.5 * np.asarray(g)) * stdtrit(nu, q)

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

    def node_score(self, y: Array, means: Array, variances: Array, *, nu: float) -> Array:
        """v_g, widened for the factor (ν+1)/2: the errors grow as its sixth power or faster."""
        return variances[:, 1] * max(0.5 * (nu + 1.0), 1.0) ** (1.0 / 6.0)


class StudentT(ConstantLatent):
    """y ~ Student-t with location f and constants log_scale2 (the **squared** scale) and nu.

    `HetStudentT().with_constant("log_scale2")`; the expectation is exact, without quadrature.
    """

    def __init__(
        self, name: str | None = None, *, nu: float = 4.0, log_scale2: float | None = None
    ) -> None:
        super().__init__(HetStudentT(nu=nu), "log_scale2", log_scale2, name=name)


class HetStudentTNu(Family):
    """y ~ Student-t with location f, **squared scale** e^g and ν = e^h degrees of freedom.

    `HetStudentT` with a third latent, log_nu h, in the place of its parameter. With
    T = log(1 + (y−f)² e^{−g−h}), log p = c(ν) − g/2 − ½ (1 + e^h) T is exact in f, and
    one-dimensional in t = g + h, because e^h tilts the Gaussian of h:

        E[T] for t ~ N(m_g + m_h, v_g + v_h),
        E[e^h T] = e^{m_h + v_h/2} E[T] for t ~ N(m_g + m_h + v_h, v_g + v_h).

    A Gaussian log ν is below 0 sometimes: predictions have quantiles but no mean.
    """

    latents = ("location", "log_scale2", "log_nu")
    infinite_mean = True
    scipy_name = "t"
    node_limits = HetStudentT.node_limits

    def _arguments(self, f: Array, g: Array, h: Array) -> Arrays:
        return np.exp(np.clip(h, -7.0, 20.0)), f, np.exp(0.5 * np.asarray(g))  # e^20: Gaussian

    def log_density(self, y: Array, f: Array, g: Array, h: Array) -> Array:
        """The density of `HetStudentT` at ν = e^h."""
        return _CONSTANT_NU.log_density(y, f, g, nu=np.exp(h))

    def dlog_density(self, y: Array, f: Array, g: Array, h: Array) -> Arrays:
        """The derivatives of `HetStudentT`; the one in ν times ν is that in h."""
        nu = np.exp(h)
        first = _CONSTANT_NU.dlog_density(y, f, g, nu=nu)
        return (*first, nu * _CONSTANT_NU.dlog_density_dtheta(y, f, g, nu=nu)[0])

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> Averages:
        """E[log p], exact in f, `nodes` Gauss–Hermite nodes in g + h and in h."""
        (m_f, m_g, m_h), (v_f, v_g, v_h) = means.T, variances.T
        constant, dh, dv_h = reduced.expected_of_exp(special.student_t_constant, m_h, v_h, nodes)
        r, m_t, v_t = y - m_f, m_g + m_h, v_g + v_h
        plain = reduced.expected_log_tail(r, v_f, m_t, v_t, nodes)
        tilted = reduced.expected_log_tail(r, v_f, m_t + v_h, v_t, nodes)
        tilted *= np.exp(m_h + 0.5 * v_h)
        value, dr, dv_f, dt, dv_t = -0.5 * (plain + tilted)
        dmeans = (-dr, dt - 0.5, dt - 0.5 * tilted[0] + dh)
        dv_h += dv_t - 0.25 * tilted[0] - 0.5 * tilted[3]
        return packed(constant - 0.5 * m_g + value, dmeans, (dv_f, dv_t, dv_h))

    def node_score(self, y: Array, means: Array, variances: Array) -> Array:
        """v_g + v_h, widened for the factor (ν+1)/2 as in `HetStudentT`."""
        nu = np.clip(np.exp(means[:, 2] + variances[:, 2]), 1.0, 1e3)  # above 1e3: Gaussian
        return (variances[:, 1] + variances[:, 2]) * (0.5 * nu + 0.5) ** (1.0 / 6.0)

    def initial_latents(self, y: Array) -> Array:
        """As `HetStudentT` with ν = 4: the best constant ν may be infinite."""
        return np.append(_CONSTANT_NU.initial_latents(y, nu=4.0), np.log(4.0))


_CONSTANT_NU = HetStudentT()
