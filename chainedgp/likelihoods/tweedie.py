"""Tweedie likelihood, between Poisson and gamma: a Poisson number of gamma amounts, summed."""

from __future__ import annotations

import numpy as np
from scipy.special import exprel

from ..data.rows import rows_of
from ..data.types import Value
from ..errors import InputError
from ..expectations import compound, reduced
from ..expectations.forms import Form, Latents, OneForm
from ..parameters.priors import Normal
from .box_cox import _log_slope
from .contract import Array, Arrays, Likelihood

MOST = 1e18  # Larger rates count as this one: numpy draws from no larger ones.
TAIL = 1e-6  # The probability of a tail that is smaller has a sum of its own.
SEEN = 1e-17  # A cdf that is smaller is not right: Newton's method does not follow it.
EDGE = 0.01  # A power closer to 1 or 2 counts as one that is so far away: amounts stay countable.


class Tweedie(OneForm, Likelihood):
    """y = 0 with probability e^{−λ}, else positive: a Poisson number of gamma amounts, summed.

    For rain, claims and catches. Latents log_mean f, μ = e^f, and log_dispersion g, φ = e^g, with
    var[y] = φ μ^p. The power 1 < p < 2 is a learnt constant: close to 1 are many small amounts, as
    of Poisson counts, close to 2 few and uneven ones. The number of amounts has the mean
    λ = μ^{2−p}/(φ (2−p)), each has the shape α = (2−p)/(p−1). With Λ = y^{2−p}/(φ (2−p)),
    x = log y − f, r = j/Λ and Binet's function ρ (Dunn and Smyth 2005, about the mode),

        log p = −y^{2−p}/φ ((e^{(p−1)x} − 1)/(p−1) + (e^{−(2−p)x} − 1)/(2−p)) − log y + S(Λ),
        S = log Σ_j exp(−Λ (1+α) (r log r − r + 1) − ρ(j) − ρ(jα)) + ½ log α − log 2π.

    S does not depend on f, so that the expectation is closed but for E[S], which has nodes in g.
    The optional metadata `exposure` e stands for a sum over e units: mean e μ and e λ amounts.
    """

    latents = ("log_mean", "log_dispersion")
    parameters = {"power": 1.5}
    domains = {"power": "one_to_two"}
    default_priors = {"power": Normal(1.5, 0.25)}
    support = "positive"
    atoms = (0.0,)
    positive_metadata = ("exposure",)
    quadrature_latent = "log_dispersion"
    node_limits = (0.022, 0.075, 0.16, 0.33, 0.6)
    slow_ppf = True

    def log_density(
        self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Array:
        """The Tweedie log-density, as in the class docstring; −λ at 0, and −inf below."""
        power = _inside(power)
        f, g = _of_exposure(f, g, power, exposure)
        with np.errstate(all="ignore"):
            one, two, log_y = power - 1.0, 2.0 - power, np.log(np.maximum(y, 5e-324))
            none = -np.exp(np.minimum(two * f - g, 690.0)) / two
            # All targets are 0 or less: no row needs the sum over amounts.
            if not np.any(np.greater(y, 0.0)):
                return np.where(np.equal(y, 0.0), none, -np.inf)
            x = np.clip(log_y - f, -1e4, 1e4)
            deviance = np.exp(np.minimum(two * log_y - g, 700.0)) * _excess(x, one, two)
            series = compound.series_value(two * log_y - g - np.log(two), two / one)
            beside = series - log_y - np.minimum(np.nan_to_num(deviance, nan=np.inf), 1e300)
            return np.where(np.greater(y, 0.0), beside, np.where(np.equal(y, 0.0), none, -np.inf))

    def dlog_density(
        self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Arrays:
        """Tweedie slopes in f and g; S moves by (1+α) (E[j] − Λ) with log Λ, over its terms."""
        return self._slopes(y, f, g, power, exposure, False)[:2]

    def dlog_density_dtheta(
        self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Arrays:
        """The slope of the Tweedie log-density in its power."""
        return self._slopes(y, f, g, power, exposure, True)[2:]

    def _slopes(
        self, y: Array, f: Array, g: Array, power: Value, exposure: Value, with_power: bool
    ) -> Arrays:
        power = _inside(power)
        f, g = _of_exposure(f, g, power, exposure)
        zero = np.less_equal(y, 0.0)
        with np.errstate(all="ignore"):
            one, two, log_y = power - 1.0, 2.0 - power, np.log(np.maximum(y, 5e-324))
            x = np.clip(log_y - f, -1e4, 1e4)
            size = np.exp(np.minimum(two * log_y - g, 300.0))
            up, down = np.exp(np.minimum(one * x, 300.0)), np.exp(np.minimum(-two * x, 300.0))
            deviance = size * np.minimum(_excess(x, one, two), 1e130)
            log_size = two * log_y - g - np.log(two)
            _, with_log_size, with_alpha = compound.series(log_size, two / one)
            rate = np.exp(np.minimum(two * f - g, 690.0)) / two
            df = np.where(zero, -two * rate, size * (up - down))
            dg = np.where(zero, rate, deviance - with_log_size)
            if not with_power:
                return df, dg
            bend = x * x * (_exprel_slope(one * x) - _exprel_slope(-two * x))
            beside = log_y * deviance - size * bend + with_log_size * (1.0 / two - log_y)
            beside = beside - with_alpha / one**2
            beside = np.where(np.isnan(beside), 0.0, beside)  # A slope is NaN where terms overflow.
            dpower = np.where(zero, rate * (f - 1.0 / two), beside)
            return df, dg, dpower - np.log(exposure) * dg + np.zeros(np.shape(df))

    def _form(self, y: Array, q: Latents, nodes: int, power: float, exposure: Value = 1.0) -> Form:
        """E[log p] of Tweedie noise: the deviance closed, `nodes` Gauss–Hermite nodes in g for S.

        E[e^{−g + a x}] = exp(a (m + c) + a² v/2 − m_g + v_g/2), m the mean of x, c = cov(f, g).
        """
        power = float(_inside(power))
        one, two, c, log_e = power - 1.0, 2.0 - power, q.covariance(0, 1), np.log(exposure)
        (m_f, m_g), (v, v_g) = q.means, q.variances
        m_f, m_g, zero = m_f + log_e, m_g - one * log_e, y == 0.0
        log_y = np.log(np.where(zero, 1.0, y))
        m = log_y - m_f + c
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.exp(two * log_y - m_g + 0.5 * v_g)
            b, d = one * m + 0.5 * one**2 * v, -two * m + 0.5 * two**2 * v
            up, down = np.exp(b), np.exp(d)
            t_b, t_d = m + 0.5 * one * v, m - 0.5 * two * v
            gap = t_b * exprel(b) - t_d * exprel(d)
            rate = np.exp(two * (m_f - c) + 0.5 * two**2 * v - m_g + 0.5 * v_g) / two
            dgap = (m + one * v) * t_b * _exprel_slope(b) + 0.5 * v * (exprel(b) - exprel(d))
            dgap = dgap - (m - two * v) * t_d * _exprel_slope(d)
        g, w, dw = reduced.nodes_of(m_g, v_g, nodes)
        S, dS, with_alpha = compound.series(two * log_y - g - np.log(two), two / one)
        value = np.where(zero, -rate, w @ S - log_y - size * gap)
        mean_dS = w @ dS
        df = np.where(zero, -two * rate, size * (up - down))
        dg = np.where(zero, rate, size * gap - mean_dS)
        dv = -0.5 * np.where(zero, two**2 * rate, size * (one * up + two * down))
        dv_g = -np.where(zero, 0.5 * rate, 0.5 * size * gap + np.einsum("hn,hn->n", dw, dS))
        dpower = log_y * size * gap - size * dgap
        dpower = dpower + mean_dS * (1.0 / two - log_y) - w @ with_alpha / one**2
        on_zero = rate * (m_f - c + two * v - 1.0 / two)
        dpower = np.where(zero, on_zero, dpower) - log_e * dg
        return Form(value, (df, dg), (dv, dv_g), (-df,), (dpower,))

    def node_score(
        self, y: Array, means: Array, variances: Array, *, power: Value, exposure: Value = 1.0
    ) -> Array:
        """Tweedie spread for nodes, v_g/(2 (p − 1))²: S bends more the closer p is to 1."""
        return variances[:, 1] / (4.0 * (_inside(power) - 1.0) ** 2)

    def joint_node_score(
        self, y: Array, means: Array, covariances: Array, *, power: Value, exposure: Value = 1.0
    ) -> Array:
        """The spread for nodes of Tweedie noise where latents are correlated, v_g as well."""
        return covariances[:, 1, 1] / (4.0 * (_inside(power) - 1.0) ** 2)

    def _amounts(
        self, f: Array, g: Array, power: Value, exposure: Value
    ) -> tuple[Array, Array, Array]:
        """The amounts of a Tweedie target: mean number λ, log-scale and shape α of each."""
        power = _inside(power)
        f, g = _of_exposure(f, g, power, exposure)
        with np.errstate(over="ignore"):
            rate = np.exp(np.minimum((2.0 - power) * f - g, 690.0)) / (2.0 - power)
        log_scale = g + np.log(power - 1.0) + (power - 1.0) * f
        return rate, log_scale, np.asarray((2.0 - power) / (power - 1.0))

    def conditional_mean(self, f: Array, g: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """The Tweedie mean, μ times the exposure."""
        with np.errstate(over="ignore"):
            return exposure * np.exp(f) + np.zeros(np.shape(g))

    def conditional_variance(
        self, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Array:
        """The Tweedie variance, φ μ^p times the exposure."""
        with np.errstate(over="ignore"):
            return exposure * np.exp(g + _inside(power) * np.asarray(f))

    def cdf(self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """The Tweedie cdf e^{−λ} + Σ_j Poisson(j; λ) P(jα, y/γ), P incomplete gamma; 0 below 0."""
        rate, log_scale, alpha = self._amounts(f, g, power, exposure)
        with np.errstate(all="ignore"):
            scaled = np.exp(np.log(np.maximum(y, 0.0)) - log_scale)
            total = compound.cdf(rate, alpha, scaled)
        return np.where(np.less(y, 0.0), 0.0, total)

    def log_tails(
        self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> tuple[Array, Array]:
        """Log-tails of Tweedie noise; each has a sum of its own where it is small."""
        F = self.cdf(y, f, g, power=power, exposure=exposure)
        with np.errstate(all="ignore"):
            below, above = np.array(np.log(F)), np.array(np.log1p(-F))
            rate, log_scale, alpha = self._amounts(f, g, power, exposure)
            parts = np.broadcast_arrays(y, rate, alpha, np.exp(np.log(y) - log_scale))[1:]
            tail = np.greater(F, 1.0 - TAIL)
            above[tail] = compound.log_upper(*(part[tail] for part in parts))
            tail = np.less(F, TAIL) & np.greater_equal(y, 0.0)
            below[tail] = compound.log_lower(*(part[tail] for part in parts))
            return below, above

    def ppf(self, q: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """Tweedie quantiles: 0 up to e^{−λ}; else roots of the cdf in log y (bisection, Newton)."""
        kw = {"power": power, "exposure": exposure}
        shape = np.broadcast_shapes(*(np.shape(a) for a in (q, f, g, power, exposure)))
        rate = self._amounts(f, g, power, exposure)[0]
        positive = np.flatnonzero(np.broadcast_to(np.asarray(q) > np.exp(-rate), shape).ravel())
        result = np.zeros(shape).reshape(-1)

        def of(value: Value) -> Array:
            return np.broadcast_to(value, shape).reshape(-1)[positive]

        own = {key: of(value) for key, value in kw.items()}
        result[positive] = self._root(of(np.asarray(q)), of(f), of(g), own)
        return result.reshape(shape)

    def _root(self, q: Array, f: Array, g: Array, kw: dict[str, Array]) -> Array:
        """The y > 0 with cdf(y) = q, all (n,).

        Newton's method for the log-odds of (F − e^{−λ})/(1 − e^{−λ}), nearly a line in log y.
        """
        mean = np.log(self.conditional_mean(f, g, **kw))
        low, high = mean - 700.0, mean + 50.0
        none = np.exp(-self._amounts(f, g, kw["power"], kw["exposure"])[0])
        t, todo = mean.copy(), np.arange(len(q))
        for _ in range(100):
            if not todo.size:
                break
            own = rows_of(kw, todo)
            now, y = t[todo], np.exp(t[todo])
            F = self.cdf(y, f[todo], g[todo], **own)
            excess = F - q[todo]
            low[todo] = np.where(excess < 0.0, now, low[todo])
            high[todo] = np.where(excess < 0.0, high[todo], now)
            with np.errstate(all="ignore"):
                below, above = F - none[todo], 1.0 - F
                odds = np.log1p(-excess / below) - np.log1p(excess / above)
                log_p = self.log_density(y, f[todo], g[todo], **own) + now
                newton = now + odds / (np.exp(log_p) * (1.0 / below + 1.0 / above))
            inside = (newton >= low[todo]) & (newton <= high[todo]) & (F > SEEN)
            near = np.where(now - low[todo] > 4.0, now - 2.0, 0.5 * (low[todo] + high[todo]))
            near = np.where((excess < 0.0) & (high[todo] - now > 4.0), now + 2.0, near)
            t[todo] = np.where(inside, newton, near)
            todo = todo[np.abs(t[todo] - now) > 1e-13 * np.maximum(np.abs(now), 1.0)]
        return np.exp(t)

    def sample(
        self,
        rng: np.random.Generator,
        f: Array,
        g: Array,
        size: int | None = None,
        *,
        power: Value,
        exposure: Value = 1.0,
    ) -> Array:
        """Draws of Tweedie noise: a Poisson number of amounts, and their gamma sum."""
        kw = {"power": power, "exposure": exposure}
        shape = self._draw_shape(size, (f, g), kw)
        rate, log_scale, alpha = self._amounts(f, g, power, exposure)
        count = rng.poisson(np.broadcast_to(np.minimum(rate, MOST), shape))
        with np.errstate(over="ignore"):
            drawn = rng.gamma(np.maximum(count, 1) * alpha) * np.exp(log_scale)
        tiny = np.finfo(float).tiny  # A sum of amounts that underflows is no zero.
        return np.where(count > 0, np.maximum(drawn, tiny), 0.0)

    def natural_parameters(
        self, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> dict[str, Array]:
        """The Tweedie mean and P(y = 0) of the exposure, and the dispersion of a unit of it."""
        f, g = np.broadcast_arrays(f, g)
        none = np.exp(-self._amounts(f, g, power, exposure)[0])
        return {"mean": exposure * np.exp(f), "dispersion": np.exp(g), "probability_0": none}

    def check_targets(self, y: Array) -> None:
        """Refuse Tweedie targets below 0; 0 is a target."""
        bad = np.flatnonzero(~(np.isfinite(y) & (y >= 0.0)))
        if len(bad):
            raise InputError(
                f"{type(self).__name__} needs targets that are 0 or positive; {len(bad)} of "
                f"{len(y)} are not, the first is Y[{bad[0]}] = {y[bad[0]]}.",
                rows=bad[:1],
            )

    def initial_latents(self, y: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """Start: Tweedie mean per exposure, and dispersion from E[(y − eμ)²] = e φ μ^p."""
        e = exposure + np.zeros(len(y))
        mean = float(np.sum(y) / np.sum(e)) or 0.5 / float(np.sum(e))
        spread = float(np.sum((y - e * mean) ** 2) / np.sum(e)) or mean**2
        return np.array([np.log(mean), np.log(spread) - float(np.mean(power)) * np.log(mean)])


def _inside(power: Value) -> Array:
    """The Tweedie power, not too close to 1 and 2."""
    return np.clip(power, 1.0 + EDGE, 2.0 - EDGE)


def _of_exposure(f: Array, g: Array, power: Value, exposure: Value) -> tuple[Array, Array]:
    """log μ and log φ of a Tweedie sum over e units of exposure: μ e and φ e^{1−p}."""
    log_e = np.log(exposure)
    return np.add(f, log_e), np.subtract(g, (power - 1.0) * log_e)


def _excess(x: Array, one: Value, two: Value) -> Array:
    """Tweedie deviance (e^{ax} − 1)/a + (e^{−bx} − 1)/b, a = p − 1, b = 2 − p, at least 0."""
    return np.maximum(x * exprel(np.multiply(one, x)) - x * exprel(np.multiply(-two, x)), 0.0)


def _exprel_slope(w: Array) -> Array:
    """The derivative of (e^w − 1)/w in w, of the Tweedie deviance."""
    return exprel(w) * _log_slope(w)
