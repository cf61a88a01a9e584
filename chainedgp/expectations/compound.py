"""Sums over a Poisson number of gamma amounts: the cdf, and the series S of the Tweedie density.

Each sum has tens of terms. Of many values with one shape α of the amounts, S is interpolated, since
it depends on one number, and so is the cdf, which depends on two: its probit, which is smooth and
keeps the digits of both tails, over the logarithm of the rate and a coordinate of the amount.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import (
    gammainc,
    gammaincc,
    gammaln,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
    wrightomega,
)

from ..data.types import Value
from ..linalg import Array, Booleans
from .special import binet, stirling_remainder

FEW, SOME, MANY = 4.0, 45.0, 24
"""A sum over the number j of amounts has 40 terms where its mode is below FEW, 130 below SOME, and
else MANY on either side of the mode, at steps of half its width: it is smooth in j there."""
NEGLIGIBLE = 1e-18
"""A term of a sum counts where it is larger than this part of the largest."""
ZOOM, TERMS = 16, 60
"""Points of a grid on which the largest term of an upper tail is sought, and terms of its sum."""

STEP = 0.05
"""Between points of a table: of log Λ, of the logarithm of the rate and of the coordinate."""
LOWEST, WORTH = 0.05, 1
"""Lower rates are summed directly, and all values where a table would have more than WORTH times
as many columns: a column takes tens of sums, and the next block of values may use it again."""
ORDER, PAD = 5, 20
"""Of splines, and so many points beyond either end of a range: they are less exact near ends."""
ROUND = 0.5
"""Ends of ranges are multiples of this, so that a table serves the next block of values too."""


def series(log_size: Array, alpha: Value) -> tuple[Array, Array, Array]:
    """S of `likelihoods.Tweedie`, its derivatives in log Λ and, at a fixed Λ, in α.

    log_size is log Λ.
    """
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


def _log_poisson(j: Array, rate: Array) -> Array:
    """The logarithm of a Poisson probability of j ≥ 1, without cancellation at large rates."""
    gap = (j - rate) / rate
    far = j * (np.log(j) - np.log(rate)) - (j - rate)
    cost = np.where(np.abs(gap) < 0.5, rate * _entropy(np.clip(gap, -0.5, 0.5), j, rate), far)
    return np.asarray(-cost - 0.5 * np.log(2.0 * np.pi * j) - binet(j))


def over_counts(rate: Array, alpha: Array, scaled: Array) -> Array:
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
                valid = np.maximum(j, 1.0)
                p = np.where(j < 1.0, 0.0, step * np.exp(_log_poisson(valid, rates[some])))
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


# ---- tables of both -----------------------------------------------------------------------------


def series_value(log_size: Array, alpha: Value) -> Array:
    """S of `series` alone, of many values from a table: to 1e-10."""
    log_size, alpha = np.broadcast_arrays(np.asarray(log_size, dtype=float), alpha)
    flat = np.clip(log_size.reshape(-1), -1e8, 690.0)
    if flat.size > PAD and np.ptp(alpha) == 0.0 and not np.isnan(flat).any():
        low, high, own = *_ends(flat), float(alpha.flat[0])
        step = 2.0 * STEP / (1.0 + own)
        if (high - low) / step + 2 * PAD < WORTH * flat.size:
            places = (flat - low) / step + PAD
            return _interpolated(_series_table(own, low, high), places[None]).reshape(alpha.shape)
    return series(log_size, alpha)[0]


def cdf(rate: Array, alpha: Value, scaled: Array) -> Array:
    """P(Σ ≤ scaled) of a Poisson number of gamma amounts of shape α and scale 1; scaled ≥ 0."""
    rate, alpha, scaled = np.broadcast_arrays(rate, alpha, scaled)
    result = np.exp(-rate).reshape(-1)
    sums = np.flatnonzero(np.ravel(~(scaled <= 0.0)))
    rates, shapes, x = (a.reshape(-1)[sums] for a in (rate, alpha, scaled))
    total, (table, rest) = np.empty(len(sums)), _tabled(rates, shapes, x)
    if table is not None:
        total[~rest] = ndtr(table(rates[~rest], x[~rest]))
    total[rest] = np.exp(-rates[rest]) + over_counts(rates[rest], shapes[rest], x[rest])
    result[sums] = np.minimum(total, 1.0)
    return result.reshape(rate.shape)


def log_upper(rate: Array, alpha: Value, scaled: Array) -> Array:
    """log P(Σ > scaled), however small, of a Poisson number of gamma amounts, as in `cdf`."""
    rate, alpha, scaled = np.broadcast_arrays(rate, alpha, scaled)
    rates, shapes, x = (a.reshape(-1) for a in (rate, alpha, scaled))
    result, (table, rest) = np.empty(len(rates)), _tabled(rates, shapes, x)
    if table is not None:
        result[~rest] = log_ndtr(-table(rates[~rest], x[~rest]))
        rest |= ~table.holds(x)
    # Nothing is above an endless value, and no amounts at all are above none.
    result[rest] = -np.inf
    direct = np.flatnonzero(rest & (rates > 0.0) & np.isfinite(x))
    for start in range(0, len(direct), 4096):
        some = direct[start : start + 4096]
        result[some] = _log_tail_sum(rates[some], shapes[some], x[some], upper=True)
    return result.reshape(rate.shape)


def log_lower(rate: Array, alpha: Value, scaled: Array) -> Array:
    """log P(Σ ≤ scaled), however small, of sums as in `cdf`; scaled ≥ 0. It is slower than `cdf`.

    The cdf is a sum about the mean number of amounts, and where it is tiny, fewer amounts matter.
    """
    rate, alpha, scaled = np.broadcast_arrays(rate, alpha, scaled)
    rates, shapes, x = (a.reshape(-1) for a in (rate, alpha, scaled))
    result = -np.asarray(rates, dtype=float)
    some = np.flatnonzero((rates > 0.0) & np.isfinite(x) & (x > 0.0))
    tail = _log_tail_sum(rates[some], shapes[some], x[some], upper=False)
    result[some] = np.minimum(np.logaddexp(result[some], tail), 0.0)
    return result.reshape(rate.shape)


def _log_tail_sum(rates: Array, shapes: Array, x: Array, *, upper: bool) -> Array:
    """log Σ_{j ≥ 1} Poisson(j; rate) Q(jα, x), all (n,), by the terms about the largest.

    Of a lower tail it is the sum with P = 1 − Q. The terms are log-concave in j, which may be any
    number: where many count they are smooth, and are taken at ends of equal steps.
    """
    share = gammaincc if upper else gammainc

    def log_term(j: Array) -> Array:
        return _log_poisson(j, rates) + np.log(share(j * shapes, x))

    with np.errstate(all="ignore"):
        mean = np.maximum(rates, x / shapes) if upper else rates
        first, last = np.ones(len(x)), mean + 9.0 * np.sqrt(mean) + 13.0  # No tail has more.
        low, high = first, last
        for _ in range(3):  # The largest term is sought on a grid that zooms in.
            grid = low + (high - low) * np.linspace(0.0, 1.0, ZOOM)[:, None]
            values = log_term(grid)
            best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=0)
            top = np.take_along_axis(values, best[None], 0)[0]
            low, mode, high = (
                np.take_along_axis(grid, np.clip(best + k, 0, ZOOM - 1)[None], 0)[0]
                for k in (-1, 0, 1)
            )
        ends = []
        for far in (first, last):  # Beyond these ends, found by halving, no term counts.
            none, some = far, mode
            for _ in range(12):
                middle = 0.5 * (none + some)
                counts = log_term(middle) > top + np.log(NEGLIGIBLE)
                none, some = np.where(counts, none, middle), np.where(counts, middle, some)
            ends.append(none)
        low = np.maximum(np.floor(ends[0]), 1.0)
        step = np.maximum((ends[1] - low) / TERMS, 1.0)
        j = low + step * np.arange(TERMS + 1.0)[:, None]
        return np.asarray(np.minimum(logsumexp(log_term(j), axis=0) + np.log(step), 0.0))


def _tabled(rates: Array, shapes: Array, x: Array) -> tuple[_Table | None, Booleans]:
    """A table of probits for sums of gamma amounts, and for which, (n,), it does not serve."""
    rest = np.ones(len(rates), dtype=bool)
    if len(rates) <= PAD or np.ptp(shapes) > 0.0:
        return None, rest
    rest = ~((rates >= LOWEST) & (rates < SOME) & np.isfinite(x))
    count = np.count_nonzero(~rest)
    table = _table(float(shapes[0]), *_ends(np.log(rates[~rest]))) if count else None
    if table is None or len(table.u) >= WORTH * count:
        return None, np.ones(len(rates), dtype=bool)
    return table, rest


def _ends(values: Array) -> tuple[float, float]:
    """Multiples of ROUND that enclose all values."""
    low, high = np.floor(values.min() / ROUND), np.ceil(values.max() / ROUND)
    return ROUND * float(low), ROUND * float(high)


@lru_cache(maxsize=8)
def _series_table(alpha: float, low: float, high: float) -> Array:
    """Coefficients of a spline of S in log Λ."""
    step = 2.0 * STEP / (1.0 + alpha)
    places = np.arange(-PAD, np.ceil((high - low) / step) + PAD + 1.0)
    return _coefficients(series(low + step * places, alpha)[0])


def _coefficients(table: Array) -> Array:
    from scipy.ndimage import spline_filter  # This is slow to import and rarely needed.

    return np.asarray(spline_filter(table, ORDER))


def _interpolated(coefficients: Array, places: Array) -> Array:
    """Values of a spline at places (axes, n), in steps of its table."""
    from scipy.ndimage import map_coordinates

    return np.asarray(
        map_coordinates(coefficients, places, order=ORDER, mode="nearest", prefilter=False)
    )


class _Table:
    """The probit of the cdf over log rate and u = min(α, 1) log x + 2 √x.

    In u all amounts have a spread of about 1 or more, and the cdf of small x is exponential.
    """

    def __init__(self, alpha: float, low: float, high: float) -> None:
        self.alpha, self.slope = alpha, min(alpha, 1.0)
        self.log_rates = np.arange(low - PAD * STEP, high + (PAD + 1) * STEP, STEP)
        most = float(np.exp(high + PAD * STEP))
        self.count = int(np.ceil(most + 9.0 * np.sqrt(most))) + 13
        # Below the first x the sum is e^{-rate} to 1e-13, above the last it is 1 to as much.
        first = (gammaln(alpha + 1.0) - np.log(most) - 30.0) / alpha
        mean = alpha * self.count
        last = mean + 9.0 * np.sqrt(mean) + 40.0
        low_u, high_u = (float(self._u(x)) for x in (np.exp(max(first, -700.0)), last))
        self.step = STEP * min(1.0, 3.0 * alpha)  # u bends more where log x enters it less.
        self.u = np.arange(low_u - PAD * self.step, high_u + (PAD + 1) * self.step, self.step)

    def _u(self, x: Array | float) -> Array:
        return self.slope * np.log(x) + 2.0 * np.sqrt(x)

    @cached_property
    def _probits(self) -> Array:
        """Coefficients of a spline of them, at all log rates and u."""
        m = self.slope
        x = (m * wrightomega(0.5 * self.u / m - np.log(m))) ** 2
        j, rate = np.arange(1.0, self.count + 1.0), np.exp(self.log_rates)[:, None]
        weights = np.exp(j * np.log(rate) - rate - gammaln(j + 1.0))
        a, x = np.broadcast_arrays(j[:, None] * self.alpha, x)
        low, (below, above) = x < a, np.empty((2, *x.shape))
        below[low], above[~low] = gammainc(a[low], x[low]), gammaincc(a[~low], x[~low])
        above[low], below[~low] = 1.0 - below[low], 1.0 - above[~low]
        F, tail = np.exp(-rate) + weights @ below, weights @ above
        smaller = np.maximum(np.where(F < 0.5, F, tail), 1e-300)
        return _coefficients(np.where(F < 0.5, 1.0, -1.0) * ndtri(smaller))

    def holds(self, x: Array) -> Booleans:
        """Whether sums x (n,) are within the range of the table."""
        return np.asarray(self._u(np.maximum(x, 1e-300)) < self.u[-PAD])

    def __call__(self, rates: Array, x: Array) -> Array:
        """The probit of the cdf, all (n,)."""
        u = np.clip(self._u(np.maximum(x, 1e-300)), self.u[PAD // 2], self.u[-PAD // 2])
        row, column = np.log(rates) - self.log_rates[0], u - self.u[0]
        return _interpolated(self._probits, np.stack([row / STEP, column / self.step]))


_table = lru_cache(maxsize=4)(_Table)
