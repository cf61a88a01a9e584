"""Likelihoods of growth charts: positive y, normal or Student-t after a Box–Cox power."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, exprel, log_ndtr, ndtr, ndtri, stdtr

from ..data.types import Value
from ..expectations import reduced, special
from ..expectations.forms import Form, Latents, OneForm
from ..expectations.special import HALF_LOG_2PI
from ..linalg import Array
from ..parameters.priors import Gamma, Normal
from .contract import Arrays, Averages
from .shapes import Constant, _Shaped, checks_shapes

TINY = 5e-324  # The least positive number stands for y = 0, whose logarithm stays finite.
FARTHEST = 1e150  # A larger |z| is taken for this one: squares stay finite.
POWER = Constant("power", "real", 0.5)


class _BoxCox(_Shaped):
    """Positive y of which z = ((y/μ)^λ − 1)/(λ σ) has a symmetric law F, cut where y > 0 ends.

    As y > 0, |λ| σ z > −1 on one side. With x = log(y/μ) and b = 1/(σ|λ|), log p = λ x − log y
    − log σ + log F′(z) − log F(b). A subclass gives the law.
    """

    support = "positive"

    def _law(self, quantities: Arrays) -> _NormalLaw | _StudentTLaw:
        """The law F of the Box–Cox transformed target z, from all quantities."""
        raise NotImplementedError

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The Box–Cox log-density, as in the class docstring; −inf for y ≤ 0."""
        value = super().log_density(y, *latents, **kw)
        return np.where(np.less_equal(y, 0.0), -np.inf, value)

    def _log_density(self, y: Array, *quantities: Array) -> Array:
        g, power = quantities[1:3]
        return self._log_beside(y, *quantities) - self._law(quantities).log_cdf(_end(g, power))

    def _log_beside(self, y: Array, *quantities: Array) -> Array:
        """The Box–Cox log-density without the constant log F(b) of its truncation."""
        f, g, power = quantities[:3]
        log_y = np.log(np.maximum(y, TINY))
        x = log_y - f
        return power * x - log_y - g + self._law(quantities).log_density(x, power * x, g)

    def _slopes(self, y: Array, *quantities: Array) -> Arrays:
        """Slopes of the Box–Cox log-density: those without F(b), minus those of log F(b)."""
        beside, end = self._slopes_beside(y, *quantities), self._slopes_of_end(*quantities)
        first = [d - e for d, e in zip(beside[1:], end, strict=True)]
        return beside[0], *first

    def _slopes_beside(self, y: Array, *quantities: Array) -> Arrays:
        """Slopes of the Box–Cox log-density without its truncation log F(b).

        With w = λ x and T = −z ∂ log F′/∂z they are ∂f: −λ + T/(x (1 − e^{−w})/w), ∂log σ:
        −1 + T, ∂λ: x − T x (1/(1 − e^{−w}) − 1/w), then those of the law.
        """
        f, g, power = quantities[:3]
        law, x = self._law(quantities), np.log(np.maximum(y, TINY)) - f
        w = power * x
        pull = law.pull(x, w, g)
        with_f = np.where(x == 0.0, 0.0, pull / (x * exprel(-w)))
        dpower = x - np.where(x == 0.0, 0.0, pull * x * _log_slope(w))
        return with_f - power, pull - 1.0, dpower, *law.slopes(x, w, g)

    def _slopes_of_end(self, *quantities: Array) -> Arrays:
        """Slopes of the truncation log F(b) of a Box–Cox target in log σ, λ and the law.

        In log σ it is −b F′(b)/F(b), in λ that over λ, then those in what else the law has.
        """
        g, power = quantities[1:3]
        law, b = self._law(quantities), _end(g, power)
        end = b * law.ratio(b)
        end = np.where(np.isfinite(end), end, 0.0)
        return -end, np.where(end == 0.0, 0.0, -end / power), *law.slopes_of_end(b)

    def cdf(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The Box–Cox cdf, (F(z) − F(−b))/F(b) for λ > 0, F(z)/F(b) else; F(b) = 1 − F(−b)."""
        quantities = self._all(latents, kw)
        f, g, power = quantities[:3]
        law = self._law(tuple(quantities))
        with np.errstate(all="ignore"):
            x = np.log(np.maximum(y, TINY)) - f
            end = law.cdf(-_end(g, power))
            part = law.cdf(_z(x, power * x, g)) - np.where(np.greater(power, 0.0), end, 0.0)
            return np.where(np.less_equal(y, 0.0), 0.0, np.clip(part / (1.0 - end), 0.0, 1.0))

    def log_tails(self, y: Array, *latents: Array, **kw: Value) -> tuple[Array, Array]:
        """Logarithms of the Box–Cox cdf and of 1 − cdf; one of them is a difference."""
        quantities = self._all(latents, kw)
        f, g, power = quantities[:3]
        law = self._law(tuple(quantities))
        with np.errstate(all="ignore"):
            x, b = np.log(np.maximum(y, TINY)) - f, _end(g, power)
            z, above = _z(x, power * x, g), np.greater(power, 0.0)
            log_end, log_whole = law.log_cdf(-b), law.log_cdf(b)
            sides = []
            for t, cut in ((z, above), (-z, ~above)):
                plain = law.log_cdf(t)
                less = special.log_diff_exp(np.maximum(plain, log_end), log_end)
                sides.append(np.minimum(np.where(cut, less, plain) - log_whole, 0.0))
        return sides[0], sides[1]

    def ppf(self, q: Array, *latents: Array, **kw: Value) -> Array:
        """Box–Cox quantiles, μ (1 + λ σ z)^{1/λ}, z those of F between its ends."""
        quantities = self._all(latents, kw)
        f, g, power = quantities[:3]
        law = self._law(tuple(quantities))
        with np.errstate(all="ignore"):
            b = _end(g, power)
            whole, end, above = law.cdf(b), law.cdf(-b), np.greater(power, 0.0)
            below = np.where(above, end, 0.0) + q * whole
            beyond = np.where(above, 0.0, end) + (1.0 - np.asarray(q)) * whole
            z = np.where(below < 0.5, law.ppf(below), -law.ppf(beyond))
            step = special.scaled(np.minimum(g, 700.0), z)
            w = np.where(np.equal(power, 0.0), 0.0, power * step)  # The step may be infinite.
            grown = np.where(np.abs(w) < 1e-8, step * (1.0 - 0.5 * w), np.log1p(w) / power)
            return np.exp(f + np.where(w <= -1.0, np.where(power > 0.0, -np.inf, np.inf), grown))

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """Start of a Box–Cox fit: the log of the median, and of the spread by the quartiles."""
        start = {key: _start(self.constants[key]) for key in self.latents[2:]}
        power = float(self._all(tuple(np.array([0.0, 0.0, *start.values()])), kw)[2])
        low, middle, high = np.log(np.quantile(y, (0.25, 0.5, 0.75)))
        ends = [x * float(exprel(power * x)) for x in (low - middle, high - middle)]
        scale = (ends[1] - ends[0]) / (2.0 * 0.6744897501960817)
        scale = scale or float(np.std(np.log(y))) or 1.0
        return np.array([middle, np.log(np.clip(scale, 1e-6, 10.0)), *start.values()])


def _start(constant: Constant) -> float:
    """The start of a Box–Cox shape that is a latent and not a learnt constant."""
    return constant.start if constant.domain == "real" else float(np.log(constant.start))


class BoxCoxNormal(OneForm, _BoxCox):
    """Positive y with z = ((y/μ)^λ − 1)/(λ σ) normal: the LMS method, BCCG of gamlss.

    Latents log_median f, μ = e^f, the median but for the truncation at 0, and log_cv g, σ = e^g,
    which is close to the coefficient of variation. The Box–Cox **power** λ is a learnt constant,
    or a latent; 1 is a normal y, 0 a log-normal one, and a value below 1 a skewness to the right.
    With x = log y − f,

        log p = λ x − log y − g + log φ(z) − log Φ(1/(σ|λ|)),   z = (e^{λ x} − 1)/(λ σ),

    and z = x/σ at λ = 0. The last term is there because y > 0 bounds z on one side; it is exact.
    Where λ is a constant the expectation is closed but for that term, which is summed over g.

    Parameters
    ----------
    power : start of the constant λ, or "latent": the latent power.
    """

    quantities = ("log_median", "log_cv", "power")
    constants = {"power": POWER}
    node_limits = (0.01, 0.03, 0.06, 0.12, 0.22)
    default_priors = {"power": Normal(0.0, 2.0)}

    @checks_shapes
    def __init__(self, name: str | None = None, *, power: float | str = 0.5) -> None:
        super().__init__(name, {"power": power})
        if self.own_expectation:
            self.quadrature_latent = "log_cv"
            # Standard deviations of a mean-field q are at least 0.92 of the posterior's.
            self.coupled = False

    def _law(self, quantities: Arrays) -> _NormalLaw:
        return _NormalLaw()

    @property
    def own_expectation(self) -> bool:
        """Whether E[log p] of `BoxCoxNormal` is closed: it is where the power is a constant."""
        return len(self.latents) == 2

    @property
    def own_joint_expectation(self) -> bool:
        """Whether E[log p] of `BoxCoxNormal` is closed where latents are correlated."""
        return self.own_expectation

    def _averages(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] of `BoxCoxNormal`: the form where the power is a constant, else quadrature."""
        if not self.own_expectation:
            return self._quadrature(y, means, variances, nodes=nodes, **kw)
        return super()._averages(y, means, variances, nodes=nodes, **kw)

    def node_score(self, y: Array, means: Array, variances: Array, **kw: Value) -> Array:
        """The spread that decides on nodes of `BoxCoxNormal`: v_g, 0 without a truncation.

        It is 0 where 1/(σ|λ|) is so large that Φ of it is 1.
        """
        m_g, v_g = means[:, 1], variances[:, 1]
        end = _end(m_g + 5.0 * np.sqrt(v_g), np.asarray(kw["power"]))
        return np.where(end > 9.0, 0.0, v_g)

    def joint_node_score(self, y: Array, means: Array, covariances: Array, **kw: Value) -> Array:
        """The spread for nodes of `BoxCoxNormal` where latents are correlated, v_g as well."""
        return self.node_score(y, means, np.diagonal(covariances, axis1=1, axis2=2), **kw)

    def _form(self, y: Array, q: Latents, nodes: int, power: float) -> Form:
        """E[log p] of `BoxCoxNormal`, closed but for nodes in log Φ(1/(σ|λ|)).

        It has E[z²] = E[e^{−2g}] E[(e^{λx} − 1)²]/λ².

        With x ~ N(m, v), m moved by 2 cov(f, g), and a = λ t, t = m + λ v/2, the second factor is
        ((e^a − 1)/λ)² + e^{2a} (e^{λ² v} − 1)/λ², in which nothing cancels.
        """
        (m_f, m_g), (v, v_g), log_y = q.means, q.variances, np.log(y)
        m = log_y - m_f + 2.0 * q.covariance(0, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            t = m + 0.5 * power * v
            a, b = power * t, power * power * v
            grown, size = np.exp(a), t * exprel(a)
            wide = grown * grown * v * exprel(b)
            square = size * size + wide
            dm = 2.0 * (size * grown + power * wide)
            dv = power * (size * grown + power * wide) + grown * grown * np.exp(b)
            dsize = size * _log_slope(a) * (m + power * v) + 0.5 * exprel(a) * v
            dpower = 2.0 * (size * dsize + wide * (m + power * v + power * v * _log_slope(b)))
            half = 0.5 * np.exp(2.0 * (v_g - m_g))  # ½ E[e^{−2g}]
            main = half * square
        end, dg, dv_g, share = _expected_end(m_g, v_g, power, nodes)
        value = power * (log_y - m_f) - log_y - m_g - main - HALF_LOG_2PI - end
        dmeans = half * dm - power, 2.0 * main - 1.0 - dg
        dvariances = -half * dv, -2.0 * main - dv_g
        dtheta = log_y - m_f - half * dpower + share
        return Form(value, dmeans, dvariances, (-2.0 * half * dm,), (dtheta,))


class BoxCoxT(_BoxCox):
    """Positive y with z = ((y/μ)^λ − 1)/(λ σ) Student-t of ν degrees of freedom: BCT of gamlss.

    As `BoxCoxNormal`, with tails that are heavier the smaller ν is: t and its cdf stand in the
    place of φ and Φ. Power λ and degrees of freedom ν are learnt constants, or latents.

    Parameters
    ----------
    power : start of the constant λ, or "latent": the latent power.
    nu : start of the constant ν > 1, or "latent": the latent log_nu.
    """

    quantities = ("log_median", "log_cv", "power", "log_nu")
    constants = {"power": POWER, "log_nu": Constant("nu", "above_one", 10.0)}
    node_limits = (0.016, 0.045, 0.095, 0.17)
    default_priors = {"power": Normal(0.0, 2.0), "nu": Gamma(2.0, 0.1)}

    @checks_shapes
    def __init__(
        self, name: str | None = None, *, power: float | str = 0.5, nu: float | str = 10.0
    ) -> None:
        super().__init__(name, {"power": power, "nu": nu})

    def _law(self, quantities: Arrays) -> _StudentTLaw:
        return _StudentTLaw(np.exp(np.clip(quantities[3], -7.0, 20.0)))

    def _quadrature(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] of `BoxCoxT` by quadrature, with log F(b) in g alone where λ is a constant.

        log F(b), which costs most, then has nodes in one dimension, as many as the rest has
        in g, so that the errors of both are alike.
        """
        if len(self.latents) > 2:
            return super()._quadrature(y, means, variances, nodes=nodes, **kw)
        functions = self._log_beside, self._slopes_beside
        found = self._integral(y, means, variances, nodes, kw, functions)
        value, dmeans, dvariances, dtheta = (np.array(part) for part in found)
        v_g = variances[:, 1] if variances.ndim == 2 else variances[:, 1, 1]
        g, w, dw = reduced.nodes_of(means[:, 1], v_g, nodes)
        with np.errstate(all="ignore"):
            quantities = tuple(self._all((g, g), kw))
            end = self._law(quantities).log_cdf(_end(g, quantities[2]))
            slopes = self._slopes_of_end(*quantities)
        value -= w @ end
        dmeans[:, 1] -= w @ slopes[0]
        of_variance = dvariances[:, 1] if variances.ndim == 2 else dvariances[:, 1, 1]
        of_variance -= np.einsum("hn,hn->n", dw, slopes[0])
        constants = self._of_constants((g, *slopes), kw)
        dtheta -= np.stack([w @ np.broadcast_to(d, g.shape) for d in constants], axis=1)
        return value, dmeans, dvariances, dtheta

    def node_score(self, y: Array, means: Array, variances: Array, **kw: Value) -> Array:
        """Spread for nodes of `BoxCoxT`, of v_g and v_f/σ² the larger; errors grow as z²."""
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        x = np.log(y) - m_f
        with np.errstate(over="ignore"):
            spread = np.maximum(v_f * np.exp(2.0 * (v_g - m_g)), v_g)
            z = np.minimum(np.abs(_z(x, kw["power"] * x, m_g)), 1e100)
        return spread * (1.0 + kw["power"] ** 2 * v_f) * (1.0 + 0.05 * z * z) ** 0.25


class _NormalLaw:
    """The standard normal law of a Box–Cox transformed target z = x (e^w − 1)/w e^{−g}."""

    def log_density(self, x: Array, w: Array, g: Array) -> Array:
        return -0.5 * _z(x, w, g) ** 2 - HALF_LOG_2PI

    def pull(self, x: Array, w: Array, g: Array) -> Array:
        """−z ∂ log F′/∂z of the normal law of a Box–Cox target, z²."""
        return _z(x, w, g) ** 2

    def ratio(self, b: Array) -> Array:
        """F′(b)/F(b) of the normal law of a Box–Cox target, at its truncation b."""
        return np.exp(-0.5 * b * b - HALF_LOG_2PI - log_ndtr(b))

    def slopes(self, x: Array, w: Array, g: Array) -> Arrays:
        """No slopes: the normal law of a Box–Cox target has no parameters."""
        return ()

    def slopes_of_end(self, b: Array) -> Arrays:
        """No slopes of log F(b): the normal law of a Box–Cox target has no parameters."""
        return ()

    def log_cdf(self, z: Array) -> Array:
        return log_ndtr(z)

    def cdf(self, z: Array) -> Array:
        return ndtr(z)

    def ppf(self, q: Array) -> Array:
        return ndtri(q)


class _StudentTLaw:
    """The Student-t law of a Box–Cox transformed target z, with ν degrees of freedom."""

    def __init__(self, nu: Array) -> None:
        self.nu = nu

    def _log_ratio(self, x: Array, w: Array, g: Array) -> Array:
        """log(z²/ν) of a Box–Cox target z, right where z itself overflows."""
        log_z = np.log(np.abs(x)) + np.where(w > 30.0, w - np.log(np.abs(w)), np.log(exprel(w))) - g
        return 2.0 * log_z - np.log(self.nu)

    def log_density(self, x: Array, w: Array, g: Array) -> Array:
        tail = np.logaddexp(0.0, self._log_ratio(x, w, g))
        return special.student_t_log_constant(self.nu) - 0.5 * (self.nu + 1.0) * tail

    def pull(self, x: Array, w: Array, g: Array) -> Array:
        """−z ∂ log F′/∂z of the Student-t law of a Box–Cox target, (ν + 1) z²/(ν + z²)."""
        return (self.nu + 1.0) * expit(self._log_ratio(x, w, g))

    def ratio(self, b: Array) -> Array:
        """F′(b)/F(b) of the Student-t law of a Box–Cox target, at its truncation b."""
        tail = special.student_t_tail(b, np.zeros(()), self.nu)
        log_p = special.student_t_log_constant(self.nu) - 0.5 * (self.nu + 1.0) * tail
        return np.exp(log_p) / stdtr(self.nu, b)

    def slopes(self, x: Array, w: Array, g: Array) -> Arrays:
        """The derivative in log ν of log F′(z), the Student-t density of a Box–Cox target."""
        nu, ratio = self.nu, self._log_ratio(x, w, g)
        slope = special.student_t_constant(nu)[1] - 0.5 * nu * np.logaddexp(0.0, ratio)
        return (slope + 0.5 * (nu + 1.0) * expit(ratio),)

    def slopes_of_end(self, b: Array) -> Arrays:
        """The derivative in log ν of the truncation log F(b), by differences: none is known."""
        nu, step = self.nu, 0.03
        end = sum(
            c * np.log(stdtr(nu * np.exp(k * step), b) / stdtr(nu * np.exp(-k * step), b))
            for k, c in ((1.0, 0.75), (2.0, -0.15), (3.0, 1.0 / 60.0))
        )
        return (np.where(b < 1e30, end / step, 0.0),)

    def log_cdf(self, z: Array) -> Array:
        return np.log(stdtr(self.nu, z))

    def cdf(self, z: Array) -> Array:
        return stdtr(self.nu, z)

    def ppf(self, q: Array) -> Array:
        return special.student_t_quantile(self.nu, q)


def _z(x: Array, w: Array, g: Array) -> Array:
    """The Box–Cox transformed target z = x (e^w − 1)/w e^{−g}, kept so small that z² is finite."""
    inverse = np.exp(np.minimum(-np.asarray(g), 600.0))
    return np.clip(x * exprel(np.minimum(w, 700.0)) * inverse, -FARTHEST, FARTHEST)


def _end(g: Array, power: Array) -> Array:
    """The end b = 1/(σ|λ|) that y > 0 sets to a Box–Cox transformed target, infinite at λ = 0."""
    return np.exp(np.minimum(-np.asarray(g), 600.0)) / np.maximum(np.abs(power), 1e-40)


def _log_slope(w: Array) -> Array:
    """The slope of log((e^w − 1)/w) of Box–Cox targets, 1/(1 − e^{−w}) − 1/w, ½ at 0."""
    with np.errstate(all="ignore"):
        near = 0.5 + w * (1.0 / 12.0 - w * w * (1.0 / 720.0 - w * w / 30240.0))
        return np.where(np.abs(w) < 0.05, near, 1.0 / -np.expm1(-np.asarray(w)) - 1.0 / w)


def _expected_end(m_g: Array, v_g: Array, power: float, nodes: int) -> tuple[Array, ...]:
    """E log Φ(e^{−g}/|λ|), of a Box–Cox truncation, its slopes in m_g, v_g, and minus that in λ."""
    if power == 0.0:
        return tuple(np.zeros((4, m_g.size)))
    g, w, dw = reduced.nodes_of(m_g, v_g, nodes)
    with np.errstate(over="ignore"):
        b = np.exp(-g) / abs(power)
        pull = b * np.exp(-0.5 * b * b - HALF_LOG_2PI - log_ndtr(b))
    pull = np.where(np.isfinite(pull), pull, 0.0)
    mean = w @ pull
    return w @ log_ndtr(b), -mean, -np.einsum("hn,hn->n", dw, pull), mean / power
