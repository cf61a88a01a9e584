"""Student-t likelihoods: constant or varying scale, constant or varying tails."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

from ..data.names import checks_names
from ..data.types import Value
from ..expectations import reduced, special
from ..expectations.forms import Form, Latents, OneForm
from ..parameters.priors import Gamma
from .contract import Array, Arrays
from .family import Family
from .wrappers.constant import ConstantLatent


class HetStudentT(OneForm, Family):
    """y ~ Student-t with location f, **squared scale** e^g and ν degrees of freedom, a constant.

    (Saul et al. 2016, eq. 9)

    log p = lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) − g/2 − (ν+1)/2 · log(1 + (y−f)²/(ν e^g)).

    The expectation over f is analytic, however wide q(f) is compared with the scale
    (`reduced.expected_log_tail`); only g uses Gauss–Hermite quadrature. A fit keeps ν above 1; the
    methods accept any ν > 0.
    """

    latents = ("location", "log_scale2")
    coupled = False  # Standard deviations of a mean-field q are at least 0.95 of the posterior's.
    parameters = {"nu": 4.0}
    domains = {"nu": "above_one"}
    default_priors = {"nu": Gamma(2.0, 0.1)}  # Juárez and Steel (2010): mostly 3 to 50.
    quadrature_latent = "log_scale2"
    scipy_name = "t"
    node_limits = (0.25, 1.0, 1.85, 3.7, 6.6, 10.5, 15.0)

    def _arguments(self, f: Array, g: Array, *, nu: float) -> tuple:
        return nu, f, np.exp(0.5 * np.asarray(g))

    def log_density(self, y: Array, f: Array, g: Array, *, nu: Value) -> Array:
        """As in the class docstring."""
        constant, tail = special.student_t_log_constant(nu), special.student_t_tail(y - f, g, nu)
        return constant - 0.5 * g - 0.5 * (nu + 1.0) * tail

    def dlog_density(self, y: Array, f: Array, g: Array, *, nu: Value) -> Arrays:
        """Slopes of the Student-t log-density in location and log of the squared scale.

        ∂ log p / ∂f = (ν+1) r/(ν e^g + r²), ∂ log p / ∂g = −½ + ½ (ν+1) r²/(ν e^g + r²).
        """
        share, slope = special.student_t_share(y - f, g, nu)
        return (nu + 1.0) * slope, 0.5 * (nu + 1.0) * share - 0.5

    def dlog_density_dtheta(self, y: Array, f: Array, g: Array, *, nu: Value) -> Arrays:
        """The slope of the Student-t log-density in its degrees of freedom, ∂ log p / ∂ν."""
        pull = 0.5 * (nu + 1.0) * special.student_t_share(y - f, g, nu)[0]
        slope = (special.student_t_constant(nu)[1] + pull) / nu
        return (slope - 0.5 * special.student_t_tail(y - f, g, nu),)

    def d2log_density(self, y: Array, f: Array, g: Array, *, nu: float) -> Arrays:
        """Second derivatives of the Student-t log-density, ∂² log p / ∂f² and ∂² log p / ∂g².

        The first is positive for |y − f| > sqrt(ν e^g).
        """
        share, slope = special.student_t_share(y - f, g, nu)
        c2 = nu * np.exp(g)
        # The first is (r² − c²)/(r² + c²)², where 1/(r² + c²) = (1 − share)/c² does not overflow.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            narrow = (1.0 - share) / c2
        second = (nu + 1.0) * (slope * slope - np.where(c2 > 0.0, narrow * (1.0 - share), 0.0))
        return second, -0.5 * (nu + 1.0) * share * (1.0 - share)

    def _form(self, y: Array, q: Latents, nodes: int, nu: float) -> Form:
        """E[log p] of Student-t noise, exact in f given g, `nodes` Gauss–Hermite nodes in g."""
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        # This is the covariance of y − f and g.
        c = None if q.covariances is None else -q.covariances[0, 1]
        tail = reduced.expected_log_tail((y - m_f, v_f), (m_g + np.log(nu), v_g), c, nodes)
        half = 0.5 * (nu + 1.0)
        term, dr, dv_f, dg, dv_g, *dc = -half * tail
        constant, slope = special.student_t_constant(nu)
        dnu, value = (slope + dg) / nu - 0.5 * tail[0], constant - 0.5 * m_g + term
        return Form(value, (-dr, dg - 0.5), (dv_f, dv_g), [-d for d in dc], (dnu,))

    def conditional_mean(self, f: Array, g: Array, *, nu: float) -> Array:
        """The Student-t mean f; inf for ν ≤ 1, where the mean does not exist."""
        return np.where(nu > 1.0, f, np.inf) + np.zeros_like(g)

    def conditional_variance(self, f: Array, g: Array, *, nu: float) -> Array:
        """The Student-t variance e^g ν/(ν − 2), infinite for ν ≤ 2."""
        if nu <= 2.0:  # it is infinite whatever e^g is, which may be 0 to rounding
            return np.full(np.broadcast_shapes(np.shape(f), np.shape(g)), np.inf)
        return np.exp(g) * (nu / (nu - 2.0)) + np.zeros_like(f)

    def cdf(self, y: Array, f: Array, g: Array, *, nu: float) -> Array:
        """The Student-t cdf, P(Y ≤ y | f, g; ν)."""
        with np.errstate(over="ignore"):
            return stdtr(nu, (y - f) * np.exp(-0.5 * np.asarray(g)))

    def log_tails(self, y: Array, f: Array, g: Array, *, nu: Value) -> tuple[Array, Array]:
        """Student-t log-tails, log P(T ≤ z) and log P(T ≤ −z), z = (y − f) e^{−g/2}."""
        with np.errstate(over="ignore", divide="ignore"):
            z = (y - f) * np.exp(-0.5 * np.asarray(g))
            return np.log(stdtr(nu, z)), np.log(stdtr(nu, -z))

    def quantile_slopes(self, y: Array, f: Array, g: Array, *, nu: Value) -> Arrays:
        """A Student-t quantile y = f + e^{g/2} t moves by 1 with f, by (y − f)/2 with g."""
        return np.ones(()), 0.5 * (y - f)

    def ppf(self, q: Array, f: Array, g: Array, *, nu: float) -> Array:
        """Student-t quantiles, f + e^{g/2} t_ν(q)."""
        return f + np.exp(0.5 * np.asarray(g)) * special.student_t_quantile(nu, q)

    def normal_scale_mixture(self, *, nu: float) -> float:
        """Student-t noise is a scale mixture of normals with a = ν/2.

        y | f, g ~ N(f, e^g/λ), λ ~ Gamma(a, a): predictions integrate f exactly.
        """
        return 0.5 * nu

    def natural_parameters(self, f: Array, g: Array, *, nu: float) -> dict[str, Array]:
        """Student-t location f and scale e^{g/2}."""
        return {"location": np.asarray(f), "scale": np.exp(0.5 * np.asarray(g))}

    def initial_latents(self, y: Array, *, nu: float) -> Array:
        """Start of a Student-t fit: the median, and the log of the squared scale by quartiles."""
        low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
        scale = (high - low) / (2.0 * float(stdtrit(nu, 0.75)))
        if scale <= 0.0:  # more than half of the rows are equal
            scale = float(np.std(y)) or 1.0
        return np.array([middle, 2.0 * np.log(scale)])

    def node_score(self, y: Array, means: Array, variances: Array, *, nu: float) -> Array:
        """Student-t spread for nodes, v_g ((ν+1)/2)^{1/6}: errors grow as v_g⁶ or faster."""
        return variances[:, 1] * max(0.5 * (nu + 1.0), 1.0) ** (1.0 / 6.0)

    def joint_node_score(self, y: Array, means: Array, covariances: Array, *, nu: float) -> Array:
        """The spread for nodes of Student-t noise, larger the more f moves with g."""
        v_g = _moved(covariances, means[:, 1] + np.log(nu))
        return self.node_score(y, means, np.stack([v_g, v_g], axis=1), nu=nu)


class StudentT(ConstantLatent):
    """y ~ Student-t with location f and constants log_scale2 (the **squared** scale) and nu.

    `HetStudentT().with_constant("log_scale2")`; the expectation is exact, without quadrature.
    """

    @checks_names
    def __init__(
        self, name: str | None = None, *, nu: float = 4.0, log_scale2: float | None = None
    ) -> None:
        super().__init__(HetStudentT(nu=nu), "log_scale2", log_scale2, name=name)


class HetStudentTNu(OneForm, Family):
    """y ~ Student-t with location f, **squared scale** e^g and ν = e^h degrees of freedom.

    `HetStudentT` with a third latent, log_nu h, in the place of its parameter. With
    T = log(1 + (y−f)² e^{−g−h}), log p = c(ν) − g/2 − ½ (1 + e^h) T is exact in f, and
    one-dimensional in t = g + h, because e^h tilts the Gaussian of h:

        E[T] for t ~ N(m_g + m_h, v_g + v_h),
        E[e^h T] = e^{m_h + v_h/2} E[T] for t ~ N(m_g + m_h + v_h, v_g + v_h),

    with var(t) and the tilted means of f and t by all covariances where latents are correlated.

    Under a Gaussian posterior log ν is below 0 with some probability, so that predictions have
    quantiles but no mean.
    """

    latents = ("location", "log_scale2", "log_nu")
    infinite_mean = True
    scipy_name = "t"
    node_limits = HetStudentT.node_limits
    coupled = True  # Standard deviations of a mean-field q: 0.96, 0.85, 0.89 of the posterior's.

    def _arguments(self, f: Array, g: Array, h: Array) -> Arrays:
        return np.exp(np.clip(h, -7.0, 20.0)), f, np.exp(0.5 * np.asarray(g))  # ν = e^20: Gaussian

    def log_density(self, y: Array, f: Array, g: Array, h: Array) -> Array:
        """The log-density of `HetStudentT` at ν = e^h."""
        return _CONSTANT_NU.log_density(y, f, g, nu=np.exp(h))

    def dlog_density(self, y: Array, f: Array, g: Array, h: Array) -> Arrays:
        """The slopes of `HetStudentT`; that in ν times ν is the one in h."""
        nu = np.exp(h)
        first = _CONSTANT_NU.dlog_density(y, f, g, nu=nu)
        return (*first, nu * _CONSTANT_NU.dlog_density_dtheta(y, f, g, nu=nu)[0])

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of a Student-t with latent ν: exact in f, `nodes` in t = g + h and in h."""
        (m_f, m_g, m_h), (v_f, v_g, v_h) = q.means, q.variances
        c_fh, c_gh = q.covariance(0, 2), q.covariance(1, 2)
        constant, dh, dv_h = reduced.expected_of_exp(special.student_t_constant, m_h, v_h, nodes)
        r, m_t, v_t = y - m_f, m_g + m_h, v_g + v_h + 2.0 * c_gh
        V = q.covariances
        c = None if V is None else -(V[0, 1] + V[0, 2])  # the covariance of y − f and t
        plain = reduced.expected_log_tail((r, v_f), (m_t, v_t), c, nodes)
        moved = (r - c_fh, v_f), (m_t + v_h + c_gh, v_t)
        tilted = reduced.expected_log_tail(*moved, c, nodes)
        tilted *= np.exp(m_h + 0.5 * v_h)
        value, dr, dv_f, dt, dv_t, *dc = -0.5 * (plain + tilted)
        dmeans = (-dr, dt - 0.5, dt - 0.5 * tilted[0] + dh)
        dv_h += dv_t - 0.25 * tilted[0] - 0.5 * tilted[3]
        dcovariances = [pair for d in dc for pair in (-d, 0.5 * tilted[1] - d)]
        dcovariances.append(2.0 * dv_t - 0.5 * tilted[3])
        return Form(constant - 0.5 * m_g + value, dmeans, (dv_f, dv_t, dv_h), dcovariances)

    def cdf(self, y: Array, f: Array, g: Array, h: Array) -> Array:
        """The Student-t cdf with a latent ν, that of a Student-t at (y − f) e^{−g/2}."""
        with np.errstate(all="ignore"):
            nu, _, scale = self._arguments(f, g, h)
            return stdtr(nu, (y - f) / scale)

    def log_tails(self, y: Array, f: Array, g: Array, h: Array) -> tuple[Array, Array]:
        """Log-tails of `HetStudentT` at ν = e^h."""
        nu, *_ = self._arguments(f, g, h)
        return _CONSTANT_NU.log_tails(y, f, g, nu=nu)

    def node_score(self, y: Array, means: Array, variances: Array) -> Array:
        """The spread for nodes of `HetStudentTNu`: v_g + v_h, widened for the factor (ν+1)/2."""
        nu = np.clip(np.exp(means[:, 2] + variances[:, 2]), 1.0, 1e3)  # ν above 1e3: Gaussian
        return (variances[:, 1] + variances[:, 2]) * (0.5 * nu + 0.5) ** (1.0 / 6.0)

    def joint_node_score(self, y: Array, means: Array, covariances: Array) -> Array:
        """`node_score` of t = g + h, or of h alone, larger the more f moves with t."""
        A = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])  # f and t
        v_h = covariances[:, 2, 2]
        v_t = _moved(A @ covariances @ A.T, means[:, 1] + means[:, 2])
        rest = np.maximum(v_t - v_h, 0.0)
        return self.node_score(y, means, np.stack([rest, rest, v_h], axis=1))

    def initial_latents(self, y: Array) -> Array:
        """Start as `HetStudentT` with ν = 4: the best constant ν may be infinite."""
        return np.append(_CONSTANT_NU.initial_latents(y, nu=4.0), np.log(4.0))


def _moved(V: Array, m_t: Array) -> Array:
    """The variance of t that decides on nodes of Student-t noise, larger as f moves with t.

    V (n, 2, 2) is of f and t; widths of f are e^{t/2}.

    At a singularity of log(1 + x² e^{−t}) t is π off the real line, x e^{t/2}: per sd of t they
    are sd/π and the `lean` of f. Widths are those of two sds below the mean of t.
    """
    sd = np.sqrt(V[:, 1, 1])
    return (sd + np.pi * reduced.lean(V, m_t - 2.0 * sd)) ** 2


_CONSTANT_NU = HetStudentT()
