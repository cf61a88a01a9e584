"""Tweedie noise between Poisson and gamma: sums of a Poisson number of gamma amounts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import exprel, gammainc

from ..data.rows import rows_of
from ..data.types import Value
from ..errors import InputError
from ..expectations import reduced
from ..expectations.forms import Form, Latents, OneForm
from ..expectations.special import binet, stirling_remainder
from ..parameters.priors import Normal
from .box_cox import _log_slope
from .contract import Array, Arrays, Likelihood

FEW, SOME, MANY = 4.0, 45.0, 24
"""A sum over the number j of amounts has 40 terms where its mode is below FEW, 130 below SOME, and
else MANY on either side of the mode, at steps of half its width: it is smooth in j there."""
NEGLIGIBLE = 1e-18
"""A term of a sum counts where it is larger than this part of the largest."""
MOST = 1e18  # Larger rates count as this one: numpy draws from no larger ones.
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
        """As in the class docstring; −λ at 0, and −inf below."""
        power = _inside(power)
        f, g = _of_exposure(f, g, power, exposure)
        with np.errstate(all="ignore"):
            one, two, log_y = power - 1.0, 2.0 - power, np.log(np.maximum(y, 5e-324))
            none = -np.exp(np.minimum(two * f - g, 690.0)) / two
            if not np.any(np.greater(y, 0.0)):  # No row needs the sum.
                return np.where(np.equal(y, 0.0), none, -np.inf)
            x = np.clip(log_y - f, -1e4, 1e4)
            deviance = np.exp(np.minimum(two * log_y - g, 700.0)) * _excess(x, one, two)
            series = _series(two * log_y - g - np.log(two), two / one)[0]
            beside = series - log_y - np.minimum(np.nan_to_num(deviance, nan=np.inf), 1e300)
            return np.where(np.greater(y, 0.0), beside, np.where(np.equal(y, 0.0), none, -np.inf))

    def dlog_density(
        self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Arrays:
        """In f and in g; S moves by (1+α) (E[j] − Λ) with log Λ, of the terms of its sum."""
        return self._slopes(y, f, g, power, exposure, False)[:2]

    def dlog_density_dtheta(
        self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Arrays:
        """In the power."""
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
            _, with_log_size, with_alpha = _series(log_size, two / one)
            rate = np.exp(np.minimum(two * f - g, 690.0)) / two
            df = np.where(zero, -two * rate, size * (up - down))
            dg = np.where(zero, rate, deviance - with_log_size)
            if not with_power:
                return df, dg
            bend = x * x * (_exprel_slope(one * x) - _exprel_slope(-two * x))
            beside = log_y * deviance - size * bend + with_log_size * (1.0 / two - log_y)
            beside = beside - with_alpha / one**2
            beside = np.where(np.isnan(beside), 0.0, beside)  # where terms overflow
            dpower = np.where(zero, rate * (f - 1.0 / two), beside)
            return df, dg, dpower - np.log(exposure) * dg + np.zeros(np.shape(df))

    def _form(self, y: Array, q: Latents, nodes: int, power: float, exposure: Value = 1.0) -> Form:
        """The deviance closed, `nodes` Gauss–Hermite nodes in g for S.

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
        S, dS, with_alpha = _series(two * log_y - g - np.log(two), two / one)
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
        """v_g/(2 (p − 1))²: f is integrated exactly, and S bends more the closer p is to 1."""
        return variances[:, 1] / (4.0 * (_inside(power) - 1.0) ** 2)

    def joint_node_score(
        self, y: Array, means: Array, covariances: Array, *, power: Value, exposure: Value = 1.0
    ) -> Array:
        """As `node_score`: what has nodes is a function of g alone."""
        return covariances[:, 1, 1] / (4.0 * (_inside(power) - 1.0) ** 2)

    def _amounts(
        self, f: Array, g: Array, power: Value, exposure: Value
    ) -> tuple[Array, Array, Array]:
        """Their mean number λ, the logarithm of the scale of each, and the shape α."""
        power = _inside(power)
        f, g = _of_exposure(f, g, power, exposure)
        with np.errstate(over="ignore"):
            rate = np.exp(np.minimum((2.0 - power) * f - g, 690.0)) / (2.0 - power)
        log_scale = g + np.log(power - 1.0) + (power - 1.0) * f
        return rate, log_scale, np.asarray((2.0 - power) / (power - 1.0))

    def conditional_mean(self, f: Array, g: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """μ times the exposure."""
        with np.errstate(over="ignore"):
            return exposure * np.exp(f) + np.zeros(np.shape(g))

    def conditional_variance(
        self, f: Array, g: Array, *, power: Value, exposure: Value = 1.0
    ) -> Array:
        """φ μ^p times the exposure."""
        with np.errstate(over="ignore"):
            return exposure * np.exp(g + _inside(power) * np.asarray(f))

    def cdf(self, y: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """e^{−λ} + Σ_j Poisson(j; λ) P(jα, y/γ), P the incomplete gamma function; 0 below 0."""
        rate, log_scale, alpha = self._amounts(f, g, power, exposure)
        with np.errstate(all="ignore"):
            scaled = np.exp(np.log(np.maximum(y, 0.0)) - log_scale)
            total = np.exp(-rate) + _over_counts(rate, alpha, scaled)
        return np.where(np.less(y, 0.0), 0.0, np.minimum(total, 1.0))

    def ppf(self, q: Array, f: Array, g: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """0 up to e^{−λ}; else the root of cdf in log y, by bisection and steps of Newton."""
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
        """The y > 0 with cdf(y) = q, all (n,)."""
        mean = np.log(self.conditional_mean(f, g, **kw))
        low, high = mean - 700.0, mean + 50.0
        t, todo = mean.copy(), np.arange(len(q))
        for _ in range(100):
            if not todo.size:
                break
            own = rows_of(kw, todo)
            now, y = t[todo], np.exp(t[todo])
            excess = self.cdf(y, f[todo], g[todo], **own) - q[todo]
            low[todo] = np.where(excess < 0.0, now, low[todo])
            high[todo] = np.where(excess < 0.0, high[todo], now)
            with np.errstate(all="ignore"):
                slope = np.exp(self.log_density(y, f[todo], g[todo], **own) + now)
                newton = now - excess / slope
            inside = (newton > low[todo]) & (newton < high[todo])
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
        """A Poisson number, and a gamma variable of so many times the shape."""
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
        """The mean and P(y = 0) of the given exposure, and the dispersion of a unit of it."""
        f, g = np.broadcast_arrays(f, g)
        none = np.exp(-self._amounts(f, g, power, exposure)[0])
        return {"mean": exposure * np.exp(f), "dispersion": np.exp(g), "probability_0": none}

    def check_targets(self, y: Array) -> None:
        """Refuse numbers below 0; 0 is a target."""
        bad = np.flatnonzero(~(np.isfinite(y) & (y >= 0.0)))
        if len(bad):
            raise InputError(
                f"{type(self).__name__} needs targets that are 0 or positive; {len(bad)} of "
                f"{len(y)} are not, the first is Y[{bad[0]}] = {y[bad[0]]}."
            )

    def initial_latents(self, y: Array, *, power: Value, exposure: Value = 1.0) -> Array:
        """The mean per exposure, and the dispersion from E[(y − eμ)²] = e φ μ^p."""
        e = exposure + np.zeros(len(y))
        mean = float(np.sum(y) / np.sum(e)) or 0.5 / float(np.sum(e))
        spread = float(np.sum((y - e * mean) ** 2) / np.sum(e)) or mean**2
        return np.array([np.log(mean), np.log(spread) - float(np.mean(power)) * np.log(mean)])


def _inside(power: Value) -> Array:
    """The power, not too close to 1 and 2."""
    return np.clip(power, 1.0 + EDGE, 2.0 - EDGE)


def _of_exposure(f: Array, g: Array, power: Value, exposure: Value) -> tuple[Array, Array]:
    """log μ and log φ of a sum over e units: μ e and φ e^{1−p}."""
    log_e = np.log(exposure)
    return np.add(f, log_e), np.subtract(g, (power - 1.0) * log_e)


def _excess(x: Array, one: Value, two: Value) -> Array:
    """(e^{ax} − 1)/a + (e^{−bx} − 1)/b for a = p − 1 and b = 2 − p, at least 0."""
    return np.maximum(x * exprel(np.multiply(one, x)) - x * exprel(np.multiply(-two, x)), 0.0)


def _exprel_slope(w: Array) -> Array:
    """d/dw (e^w − 1)/w."""
    return exprel(w) * _log_slope(w)


# ---- sums over the number of amounts ------------------------------------------------------------


def _series(log_size: Array, alpha: Value) -> tuple[Array, Array, Array]:
    """S of `Tweedie`, its derivative in log Λ, and that in α at a fixed Λ; log_size is log Λ."""
    log_size, alpha = np.broadcast_arrays(np.asarray(log_size, dtype=float), alpha)
    flat, result = log_size.reshape(-1), np.empty((3, log_size.size))
    shapes = alpha.reshape(-1)
    for own in np.unique(shapes):
        places = np.flatnonzero(shapes == own)
        values = np.clip(flat[places], -1e8, 690.0)
        size = np.exp(values)
        for count, part in (
            (40, size < FEW),
            (130, (size >= FEW) & (size < SOME)),
            (MANY, size >= SOME),
        ):
            rows = np.flatnonzero(part)
            for start in range(0, len(rows), 4096):  # Memory stays bounded.
                some = rows[start : start + 4096]
                terms = _terms_near if count == MANY else _first_terms
                result[:, places[some]] = terms(values[some], float(own), count)
    return tuple(part.reshape(log_size.shape) for part in result)  # type: ignore[return-value]


def _first_terms(log_size: Array, alpha: float, count: int) -> Array:
    """S and its derivatives, (3, n), from the terms j = 1, …, count."""
    j = np.arange(1.0, count + 1.0)[:, None]
    rho, (rho_a, slope_a) = binet(j), stirling_remainder(j * alpha)
    size, cost = np.exp(log_size), j * np.log(j) - j - j * log_size
    total = (1.0 + alpha) * cost + rho + rho_a
    # Λ is the same in all terms, and is added to them afterwards.
    return _summed(j - size, cost + size, total, alpha, slope_a) - np.stack(
        [(1.0 + alpha) * size, 0.0 * size, 0.0 * size]
    )


def _terms_near(log_size: Array, alpha: float, count: int) -> Array:
    """S and its derivatives, (3, n), from `count` terms on either side of the mode."""
    size = np.exp(log_size)
    j, step = _lattice(size, alpha, count)
    cost = size * _entropy((j - size) / size, j, size)
    valid = np.maximum(j, 1.0)
    rho, (rho_a, slope_a) = binet(valid), stirling_remainder(valid * alpha)
    total = (1.0 + alpha) * cost + rho + rho_a - np.log(step)
    return _summed(j - size, cost, np.where(j < 1.0, np.inf, total), alpha, slope_a)


def _summed(gap: Array, cost: Array, total: Array, alpha: float, slope_a: Array) -> Array:
    """log Σ_j e^{−total} + ½ log α − log 2π, and its derivatives in log Λ and α; gap is j − Λ."""
    least = total.min(axis=0)
    p = np.exp(least - total)
    sums = p.sum(axis=0)
    p = p / sums
    value = np.log(sums) - least + 0.5 * np.log(alpha) - np.log(2.0 * np.pi)
    with_size = (1.0 + alpha) * (p * gap).sum(axis=0)
    with_alpha = 0.5 / alpha - (p * (cost + slope_a / alpha)).sum(axis=0)
    return np.stack([value, with_size, with_alpha])


def _lattice(size: Array, alpha: float, reach: int) -> tuple[Array, Array]:
    """Points j (2 reach + 1, n) about `size`, at steps of half the width √(size/(1+α)), or of 1."""
    step = np.maximum(0.5 * np.sqrt(size / (1.0 + alpha)), 1.0)
    centre = np.where(step == 1.0, np.round(size), size)
    return centre + step * np.arange(-reach, reach + 1.0)[:, None], step


def _entropy(gap: Array, j: Array, size: Array) -> Array:
    """r log r − r + 1 at r = 1 + gap ≥ 0, by its series where that would cancel."""
    series = np.zeros_like(gap)
    for k in range(12, 1, -1):
        series = (-1.0) ** k / (k * (k - 1.0)) + gap * series
    r = np.maximum(j, 1e-300) / size
    return np.where(np.abs(gap) < 0.03, gap * gap * series, r * np.log(r) - r + 1.0)


def _over_counts(rate: Array, alpha: Array, scaled: Array) -> Array:
    """Σ_{j ≥ 1} Poisson(j; rate) P(jα, scaled)."""
    rate, alpha, scaled = np.broadcast_arrays(np.maximum(rate, 1e-300), alpha, scaled)
    shape, (rates, shapes, x) = rate.shape, (a.reshape(-1) for a in (rate, alpha, scaled))
    result = np.empty(rates.size)
    for own in np.unique(shapes):
        a = float(own)
        reach = int(np.ceil(20.0 * np.sqrt(1.0 + a))) + 4
        for low, high, points in _plans(reach):
            rows = np.flatnonzero((shapes == own) & (rates >= low) & (rates < high))
            rows = rows[np.argsort(rates[rows])]  # Rates that are alike need as many terms.
            for start in range(0, len(rows), 512):
                some = rows[start : start + 512]
                j, step = points(rates[some], a)
                log_p = -rates[some] * _entropy((j - rates[some]) / rates[some], j, rates[some])
                valid = np.maximum(j, 1.0)
                log_p = log_p - 0.5 * np.log(2.0 * np.pi * valid) - binet(valid)
                p = np.where(j < 1.0, 0.0, step * np.exp(log_p))
                # P falls with j: beyond the mean, a term of a small p is small beside the others.
                needed = (p > NEGLIGIBLE * p.max(axis=0)) | (j <= rates[some])
                share = np.zeros(p.shape)
                of, at = (valid * a)[needed], np.broadcast_to(x[some], p.shape)[needed]
                found = gammainc(of, at)  # It is NaN where both are endless.
                share[needed] = np.where(np.isnan(found), at > of, found)
                result[some] = (p * share).sum(axis=0)
    return result.reshape(shape)


def _plans(reach: int) -> list[tuple[float, float, Callable[[Array, float], tuple[Array, Array]]]]:
    """Ranges of the rate, and the points over which a sum in each is taken."""

    def first(rate: Array, alpha: float) -> tuple[Array, Array]:
        top = float(rate.max())  # A number nine deviations and twelve above it is never seen.
        j = np.arange(1.0, np.ceil(top + 9.0 * np.sqrt(top)) + 13.0)[:, None]
        return j + np.zeros(rate.size), np.ones(rate.size)

    def near(rate: Array, alpha: float) -> tuple[Array, Array]:
        return _lattice(rate, alpha, reach)

    return [(0.0, SOME, first), (SOME, np.inf, near)]
