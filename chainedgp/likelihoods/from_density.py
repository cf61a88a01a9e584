"""Default cdf, quantiles, moments and starts of a likelihood, by integrals of its density.

A likelihood is known here only through its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from ..data.rows import rows_of
from ..data.types import Keywords
from .moving_ends import MovingEnds, ends_of
from .observation import of_event
from .support import Continuum
from .wrappers.atoms import WithAtoms

if TYPE_CHECKING:
    from .contract import Likelihood

# Panels lie in t of the map u = c + s sinh(π/2 sinh t): |t| ≤ 4.6 reaches s·1e33, far enough for
# algebraic tails. Each panel is integrated by Gauss–Legendre of order 10.
LAST_T = 4.6
PANELS = 56
EDGES = np.linspace(-LAST_T, LAST_T, PANELS + 1)
GL_NODES, GL_WEIGHTS = np.polynomial.legendre.leggauss(10)
SHORT = 100.0
"""A range of u shorter than this is covered by one sinh in t, u = c + s sinh(a t); a second sinh
compresses longer ranges."""
MAX_COUNTS = 2**14
"""Sums over counts have at most so many terms, around the mode where the counts are larger."""


def tabulate(
    likelihood: Likelihood,
    latents: tuple,
    kw: Keywords,
    near: np.ndarray | None = None,
    panels: int = PANELS,
) -> Tabulated | WithAtoms:
    """Table of the distribution p(y | latents) of a likelihood that gives a log-density alone.

    Its shape S is that of the latents.

    near : targets (S) at which the density is not 0, where they are known.
    panels : number of panels of an integral; a density that changes steeply needs more.
    """
    arrays = [np.asarray(f, dtype=np.float64) for f in latents]
    kw = of_event(kw)
    shape = np.broadcast_shapes(*(a.shape for a in arrays), *(np.shape(v) for v in kw.values()))

    def log_p(y: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = likelihood.log_density(y, *arrays, **kw)
        return np.where(np.isnan(values), -np.inf, values)

    support = likelihood.target_support
    if isinstance(support, Continuum):
        with np.errstate(divide="ignore", invalid="ignore"):  # atoms may lie outside the support
            known = [] if near is None else [support.clip(np.nan_to_num(support.from_y(near)))]
        hints = np.stack([np.broadcast_to(a, shape) for a in (*arrays, *known)])
        if not (atoms := likelihood.atoms):
            return _continuous(log_p, shape, support, hints, panels)

        def beside(y: np.ndarray) -> np.ndarray:  # this is the density alone, never at an atom
            return log_p(np.where(np.isin(y, atoms), np.nextafter(y, np.inf), y))

        masses = [np.exp(np.broadcast_to(log_p(np.full((), a)), shape)) for a in atoms]
        rest = _continuous(beside, shape, support, hints, panels)
        total = rest.total + sum(masses)
        table = WithAtoms(rest, rest.total / total, atoms, [mass / total for mass in masses])
        table.total = total
        return table
    return Discrete(log_p, shape, support.size)


class Tabulated:
    """A distribution of y tabulated from its density, one for each element of shape S."""

    total: np.ndarray
    """Integral or sum of the density, S: 1 for a density that is normalised."""

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of a tabulated density, S; inf where the integral does not converge."""
        raise NotImplementedError

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The cdf of a tabulated density, P(Y ≤ y), y broadcasting against S."""
        raise NotImplementedError

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Quantiles of a tabulated density, q broadcasting against S."""
        raise NotImplementedError


class Discrete(Tabulated):
    """A table of the probabilities of `size` consecutive integers from `first` on.

    Without a size there are as many, from 0 on, as hold the mass, at most 2¹⁴; where these do
    not hold half of it, the window is moved to the mode.
    """

    def __init__(self, log_p: Callable, shape: tuple[int, ...], size: int | None) -> None:
        self.first = np.zeros(shape)
        self._fill(log_p, shape, size or 64)
        while size is None and np.any(self.total < 1.0 - 1e-13) and len(self.p) < MAX_COUNTS:
            previous = self.total
            self._fill(log_p, shape, 4 * len(self.p))
            if np.all((self.total - previous < 1e-14) & (previous > 0.5)):
                break  # a wider window adds nothing: the mass sums to 1 but for rounding
        far = self.total < 0.5
        if size is None and np.any(far):
            mode = np.expm1(_mode(lambda u: log_p(np.round(np.expm1(u))), shape, 0.0, 40.0))
            self.first = np.where(far, np.maximum(np.round(mode) - MAX_COUNTS // 2, 0.0), 0.0)
            self._fill(log_p, shape, MAX_COUNTS)

    def _fill(self, log_p: Callable, shape: tuple[int, ...], size: int) -> None:
        self.y = self.first + np.arange(size).reshape((size,) + (1,) * len(shape))  # (size, *S)
        # No probability is above 1, though few nodes in the tail of a wide q can make it so.
        self.p = np.exp(np.minimum(np.broadcast_to(log_p(self.y), self.y.shape), 0.0))
        self.total = self.p.sum(axis=0)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of tabulated probabilities of counts, S."""
        p = self.p / self.total
        mean = (p * self.y).sum(axis=0)
        return mean, (p * (self.y - mean) ** 2).sum(axis=0)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The cdf of tabulated probabilities of counts, P(Y ≤ y), y broadcasting against S."""
        index = np.floor(y) - self.first
        table = np.cumsum(self.p, axis=0) / self.total
        inside = np.clip(index, 0, len(table) - 1).astype(int)
        return np.where(index < 0, 0.0, _take(table, inside))

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Quantiles of tabulated counts: the smallest with cdf ≥ q, q broadcasting against S."""
        table = np.cumsum(self.p, axis=0) / self.total
        return self.first + np.minimum(_search(table, q * (1.0 - 1e-15)), len(table) - 1)


class Continuous(Tabulated):
    """A table of the integrals of a density on a `Continuum`, by panels of Gauss–Legendre.

    y = T(u) maps the line to the support, and u = c + s sinh(π/2 sinh t) with c the mode and s the
    width in u; or u = c + s sinh(a t), which has nodes enough for modes at both ends of an
    interval. Panels in t are integrated by Gauss–Legendre; a partial panel gives the cdf, bisection
    and Newton steps inside one panel the quantile.
    hints (k, *S): where in u the mode may be (the latents), for densities with narrow supports.
    """

    def __init__(
        self,
        log_p: Callable,
        shape: tuple[int, ...],
        support: Continuum,
        hints: np.ndarray | None = None,
        panels: int = PANELS,
    ) -> None:
        self.log_p, self.support = log_p, support
        self.edges = EDGES if panels == PANELS else np.linspace(-LAST_T, LAST_T, panels + 1)
        self.centre, self.scale = self._place(shape, hints)
        range_of_u = support.evaluated[1] - support.evaluated[0]
        self.pace = np.arcsinh(range_of_u / self.scale) / LAST_T if range_of_u < SHORT else None
        half = 0.5 * np.diff(self.edges)[:, None]
        t = self.edges[:-1, None] + half * (1.0 + GL_NODES)  # (panels, 10)
        self.t = t.reshape(t.shape + (1,) * len(shape))
        weights = (half * GL_WEIGHTS).reshape(self.t.shape)
        self.log_w = np.log(weights) + self._log_density(self.t)
        below = np.cumsum(np.exp(self.log_w).sum(axis=1), axis=0)  # (panels, *S)
        self.total = np.maximum(below[-1], 1e-300)
        self.edges_cdf = np.concatenate([np.zeros((1, *below.shape[1:])), below])

    def _place(self, shape: tuple[int, ...], hints: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mode and width in u of a density to be tabulated, S."""
        reach = self.support.reach
        centre = _mode(self._log_q, shape, -reach, reach, hints)
        return centre, _width(self._log_q, centre, reach)

    def _y(self, u: np.ndarray) -> np.ndarray:
        return self.support.to_y(np.clip(u, *self.support.evaluated))

    def _log_q(self, u: np.ndarray) -> np.ndarray:
        """The log-density of u = T⁻¹(y) under the map of the support, −inf where y overflows."""
        return self.support.log_density_of_u(self.log_p, u)

    def _inner(self, t: np.ndarray) -> np.ndarray:
        """The argument of the outer sinh in the map from t to u: π/2 sinh t, or a t."""
        return 0.5 * np.pi * np.sinh(t) if self.pace is None else self.pace * t

    def _u(self, t: np.ndarray) -> np.ndarray:
        return self.centre + self.scale * np.sinh(self._inner(t))

    def _log_density(self, t: np.ndarray) -> np.ndarray:
        """The log-density of t, the variable of the panels in which a density is integrated."""
        slope = 0.5 * np.pi * np.cosh(t) if self.pace is None else self.pace
        jacobian = slope * np.cosh(self._inner(t)) * self.scale
        with np.errstate(all="ignore"):
            return self._log_q(self._u(t)) + np.log(jacobian)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of a tabulated density, S; inf where ends of the range contribute."""
        mean = self._moment(0.0, 1)
        return mean, self._moment(np.where(np.isfinite(mean), mean, 0.0), 2)

    def _moment(self, centre: Any, power: int) -> np.ndarray:
        """A tabulated density's ∫ (y − centre)^power p dy, in log space as y may overflow."""
        u = self._u(self.t)
        y = self._y(u) - centre
        with np.errstate(all="ignore"):
            size = np.exp(power * np.log(np.abs(y)) + self.log_w) / self.total
        size = np.minimum(np.where(np.isnan(size), 0.0, size), 1e200)
        ends = (np.abs(self.t) > 4.4) | self.support.in_tail(u)
        diverges = (size * ends).sum(axis=(0, 1)) > 1e-5 * size.sum(axis=(0, 1))
        return np.where(diverges, np.inf, (np.sign(y) ** power * size).sum(axis=(0, 1)))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The cdf of a tabulated density, P(Y ≤ y), y broadcasting against S."""
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(all="ignore"):
            u = self.support.from_y(np.clip(y, *self.support.ends))
            inner = np.arcsinh((u - self.centre) / self.scale)
            t = np.arcsinh(inner / (0.5 * np.pi)) if self.pace is None else inner / self.pace
        t, edges = np.clip(t, -LAST_T, LAST_T), self.edges
        panel = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(edges) - 2)
        return self._cdf_in_panel(t, panel) / self.total

    def _cdf_in_panel(self, t: np.ndarray, panel: np.ndarray) -> np.ndarray:
        """The integral of a density up to t in `panel`: the panels below and a part of one."""
        half = 0.5 * (t - self.edges[panel])
        nodes = GL_NODES.reshape((-1,) + (1,) * half.ndim)
        inner = np.exp(self._log_density(self.edges[panel] + half * (1.0 + nodes)))
        return _take(self.edges_cdf, panel) + half * np.tensordot(GL_WEIGHTS, inner, axes=1)

    def _density_in_panel(self, t: np.ndarray, panel: np.ndarray) -> np.ndarray:
        """The density of t, the variable of the panels, for a t that lies in `panel`."""
        return np.exp(self._log_density(t))

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Quantiles of a tabulated density, q broadcasting against S."""
        target = np.asarray(q, dtype=np.float64) * self.total
        panel = np.clip(_search(self.edges_cdf, target) - 1, 0, len(self.edges) - 2)
        low, high = self.edges[panel], self.edges[panel + 1]
        below, above = _take(self.edges_cdf, panel), _take(self.edges_cdf, panel + 1)
        with np.errstate(all="ignore"):
            share = (target - below) / (above - below)
        t = low + np.where((share > 0.01) & (share < 0.99), share, 0.5) * (high - low)
        for _ in range(40):
            excess = self._cdf_in_panel(t, panel) - target
            low, high = np.where(excess < 0, t, low), np.where(excess < 0, high, t)
            with np.errstate(all="ignore"):
                newton = t - excess / self._density_in_panel(t, panel)
            inside = (newton >= low) & (newton <= high)  # A root may be an end by rounding.
            step = np.where(inside, newton, 0.5 * (low + high)) - t
            t = t + step
            if np.all((np.abs(step) < 1e-13) | (np.abs(excess) < 1e-16 * self.total)):
                break
        lowest, highest = self.support.ends
        y = np.where(target <= 0, lowest, self._y(self._u(t)))
        return np.where(np.asarray(q) >= 1, highest, y)


def _continuous(
    log_p: Callable, shape: tuple[int, ...], support: Continuum, hints: np.ndarray, panels: int
) -> Continuous:
    """The table of a density on a continuum, taken between its own ends where it has some."""
    table = Continuous(log_p, shape, support, hints, panels)
    with np.errstate(all="ignore"):
        ends = ends_of(table._log_q, table.centre, support)
        if ends is None:
            return table
        between = MovingEnds(support, *ends)
        middle = np.nan_to_num(between.from_u(table.centre), posinf=30.0, neginf=-30.0)
        return Continuous(log_p, shape, between, middle[None], panels)


def _take(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Tabulated integrals table[index] along the first axis, index broadcasting against others."""
    shape = np.broadcast_shapes(table.shape[1:], np.shape(index))
    table = table.reshape((len(table),) + (1,) * (len(shape) + 1 - table.ndim) + table.shape[1:])
    table = np.broadcast_to(table, (len(table), *shape))
    return np.take_along_axis(table, np.broadcast_to(index, shape)[None], axis=0)[0]


def _search(table: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Number of entries of an increasing table (k, *S) of cdfs that are < q, by bisection."""
    shape = np.broadcast_shapes(table.shape[1:], np.shape(q))
    low = np.zeros(shape, dtype=int)
    high = np.full(shape, len(table))
    while np.any(low < high):
        middle = np.minimum((low + high) // 2, len(table) - 1)
        right = (_take(table, middle) < q) & (low < high)
        low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
        high = np.maximum(low, high)
    return low


def _mode(
    log_q: Callable,
    shape: tuple[int, ...],
    low: float,
    high: float,
    hints: np.ndarray | None = None,
) -> np.ndarray:
    """The mode of a density to be tabulated, in [low, high], S, by zooming a grid dense near 0.

    log_q is taken for unimodal.

    hints (k, *S): further points of the first grid, for densities that vanish on all others.
    """
    grid = np.linspace(-1.0, 1.0, 65).reshape((-1,) + (1,) * len(shape))
    reach = np.arcsinh(max(abs(low), abs(high)) * 1e3)
    u = np.sinh(grid * reach) * 1e-3 + np.zeros(shape)
    u = np.sort(np.clip(np.concatenate([u] if hints is None else [u, hints]), low, high), axis=0)
    for _ in range(24):
        values = np.broadcast_to(log_q(u), u.shape)
        best = np.argmax(values, axis=0)
        if len(u) == 65:  # on a plateau the centre stays: only a higher point replaces it
            best = np.where(values[32] == values.max(axis=0), 32, best)
        centre = _take(u, best)
        left = _take(u, np.maximum(best - 1, 0))
        right = _take(u, np.minimum(best + 1, len(u) - 1))
        if np.all(right - left <= 1e-7 * (1e-12 + np.abs(centre))):
            break
        u = centre + np.where(grid < 0, centre - left, right - centre) * grid
    return centre


def _width(log_q: Callable, centre: np.ndarray, reach: float) -> np.ndarray:
    """Width of a density to be tabulated: the distance at which log_q falls by about 1.

    It is that on the steeper side of the mode.
    """
    steps = np.geomspace(1e-9, reach, 161).reshape((-1,) + (1,) * centre.ndim)
    peak = log_q(centre)
    with np.errstate(all="ignore"):
        fallen = np.minimum(log_q(centre - steps), log_q(centre + steps)) < peak - 1.0
    first = np.where(fallen.any(axis=0), np.argmax(fallen, axis=0), 160)
    return _take(steps, first) + np.zeros(centre.shape)


def constant_fit(
    likelihood: Likelihood, y: np.ndarray, kw: Keywords, start: np.ndarray | None = None
) -> np.ndarray:
    """Constants (b,) that maximise the likelihood of all rows, from which a fit may start.

    They are near the maximum of Σ log p(y_i | c) − Σ (c_j − c⁰_j)²/200, and always finite.

    c⁰ is `start`, or the best of a few values per latent taken from the spread of y; at most 1,000
    rows are used. The weak pull towards c⁰ keeps unbounded cases (all targets equal) finite.
    """
    rows = np.linspace(0, len(y) - 1, min(len(y), 1000)).astype(int)
    y = y[rows]
    kw = rows_of(kw, rows)
    b = len(likelihood.latents)

    def total(c: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            latents = [np.asarray(cj) for cj in c]
            value = float(np.sum(likelihood.log_density(y, *latents, **kw)))
        return value if np.isfinite(value) else -1e200

    def nearby(c: np.ndarray) -> float:
        """The lesser of `total` at constants c and close by: an infinite density is no optimum."""
        return min(total(c), total(c + 1e-9 * (1.0 + np.abs(c))))

    searches = 2 if start is None else 0
    start = np.zeros(b) if start is None else start
    value = nearby(start)
    for _ in range(searches):  # each search goes over the candidates of one latent after the other
        for j in range(b):
            for candidate in _candidates(y):
                trial = np.where(np.arange(b) == j, candidate, start)
                if (trial_value := nearby(trial)) > value:
                    start, value = trial, trial_value

    def objective(c: np.ndarray) -> tuple[float, np.ndarray]:
        latents = tuple(np.full(len(y), cj) for cj in c)
        with np.errstate(all="ignore"):
            slope = np.array([np.sum(d) for d in likelihood.dlog_density(y, *latents, **kw)])
        slope = np.where(np.isfinite(slope), slope, 0.0)
        return 0.005 * np.sum((c - start) ** 2) - total(c), 0.01 * (c - start) - slope

    size = 10.0 + 10.0 * np.std(y)
    bounds = list(zip(start - size, start + size, strict=True))
    options = {"maxiter": 100, "maxfun": 200}
    end = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return end if np.all(np.isfinite(end)) and total(end) > value else start


def _candidates(y: np.ndarray) -> tuple[float, ...]:
    """Values from which a latent of an unknown likelihood may start: locations, log-scales."""
    spread = np.log(np.std(y) or 1e-6)
    level = np.log(np.mean(np.abs(y)) or 1e-6)
    return (0.0, float(np.median(y)), float(np.mean(y)), spread, 2.0 * spread, level, -level)
