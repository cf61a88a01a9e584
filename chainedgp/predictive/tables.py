"""Tables of the cdf and quantiles of a predictive mixture of which only the density is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial.legendre import legint, legval, legvander

from ..expectations.quadrature import row_blocks
from ..likelihoods import Likelihood, from_density
from ..likelihoods.support import WHOLE_LINE, Continuum
from ..likelihoods.wrappers.atoms import Law, WithAtoms
from .few import few_nodes
from .nodes import Mixture, log_expectation

LogDensity = Callable[[np.ndarray], np.ndarray]

LEVELS = (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)
"""These quantiles tell where a density lies beside an atom that holds the median."""
CENTRAL = np.array([[0.5], [0.2], [0.8]])
"""The panels of a table for a narrow q are placed by these quantiles."""
TABLE_ROWS = 32
"""Number of rows that are tabulated at a time: a table has hundreds of targets times nodes for
each."""
TABLE_FLOOR = -20.0
"""Where log-densities (per spread of y on the line) are below this, an integral over y is not
refined."""
FEW = {
    2: ((9, 9, 13), (15, 15, 23), (23, 23, 39)),
    3: ((7, 9, 11), (9, 11, 15), (15, 17, 23)),
}
"""Rules of two or three latents that are tried one after the other: of the first degree is that for
all nodes of a panel, those of the others are compared in the middles of panels."""
FEW_ROWS = 256
"""So many rows are tabulated at a time on few nodes."""
KEPT_ROWS = 2000
"""The tables of so many rows are kept, some 30 MB; those of more are made for each question."""
SAME, SAME_SHARE = 3e-6, 1e-2
"""They are taken for a row where the densities of t that are compared differ by at most SAME of the
highest, and by at most SAME_SHARE of themselves where this is above SAME. The error of the last
rule, whose density is taken, is far smaller where the integrand is smooth."""
BETWEEN = 1e-6
"""Interpolation from two panels fewer differs by at most this part of the highest density."""
WIDTH = float(from_density.EDGES[1] - from_density.EDGES[0])
"""All panels are this wide in t."""
REACH = 4
"""A correction is interpolated between the middles of so many panels to either side."""
NOTHING = -34.0
"""Panels whose log-density of t is so far below the highest hold nothing of a distribution."""


class DensityTables:
    """Predictive cdf and quantiles, tabulated, of a mixture of which only the density is known.

    The mixture's own density is integrated over y (`from_density`), in blocks of rows. It is summed
    over few nodes where more of them say the same, and else over a lattice: some tenths of a
    millisecond a row with two latents, or ten. A likelihood with a `cdf` of its own avoids it.
    """

    def __init__(self, mixture: Mixture, num_rows: int, likelihood: Likelihood) -> None:
        self.mixture, self.num_rows, self.likelihood = mixture, num_rows, likelihood
        self._kept: list[tuple[np.ndarray, Law]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # Tables are large, and made again where wanted.

    def _table(self, rows: np.ndarray) -> Law:
        """The tabulated distribution of some rows: `from_density.Tabulated`, or with atoms."""
        support, atoms = self.likelihood.target_support, self.likelihood.atoms
        line = support if isinstance(support, Continuum) else WHOLE_LINE
        with np.errstate(all="ignore"):
            guess = self._guess(rows)
            _, low, high = (line.clip(line.from_y(y)) for y in guess)
            floor = TABLE_FLOOR - float(np.log(np.nanmax(high - low) + 1e-300))

        def log_p(y: np.ndarray) -> np.ndarray:
            y, row = np.broadcast_arrays(y, rows)
            with np.errstate(all="ignore"):  # Of a density, that on the line counts.
                slope = np.where(np.isin(y, atoms), 0.0, line.log_slope(line.clip(line.from_y(y))))
            options: Any = {"floor": (floor - slope).ravel(), "follow": False}
            density = self.mixture.log_density
            value = log_expectation(self.mixture, density, y.ravel(), row.ravel(), **options)
            return value.reshape(y.shape)

        if not isinstance(support, Continuum):
            return from_density.Discrete(log_p, (len(rows),), support.size)
        if not atoms:
            return _Panels(log_p, support, guess)

        def beside(y: np.ndarray) -> np.ndarray:  # This density has no atoms.
            return log_p(np.where(np.isin(y, atoms), np.nextafter(y, np.inf), y))

        rest = _Panels(beside, support, guess)
        masses = [np.exp(log_p(np.full(len(rows), atom))) for atom in atoms]
        return WithAtoms(rest, rest.total, atoms, masses)

    def _few(self, rows: np.ndarray, degrees: tuple[int, int, int]) -> tuple[Law, np.ndarray]:
        """The distribution of some rows on few nodes, and for which of them it can be taken."""
        first, few, many = (self._log_density_on(degree, rows) for degree in degrees)
        support, shape = self.likelihood.target_support, (len(rows),)
        if isinstance(support, Continuum):
            # Few nodes serve a narrow q alone, so that quantiles at its centre tell the spread.
            guess = self.mixture.middle(CENTRAL * np.ones(len(rows)), rows)
            panels = _Panels(first, support, tuple(guess), (few, many))
            return panels, panels.same
        one, two = (from_density.Discrete(log_p, shape, support.size) for log_p in (few, many))
        size = min(len(one.p), len(two.p))
        same = np.abs(one.p[:size] - two.p[:size]).max(axis=0) < SAME
        return two, same & (np.abs(one.total - two.total) < SAME) & (one.first == two.first)

    def _log_density_on(self, degree: int, rows: np.ndarray) -> LogDensity:
        """log p(y) by the rule of this degree, a function of y (…, len(rows))."""
        grid = few_nodes(self.mixture.dim, degree)
        log_base, latents = self.mixture.nodes(rows, grid.x[:, :, None])
        weights = np.exp(log_base + grid.log_volume[:, None])  # (K, N) or (K, 1)

        def log_p(y: np.ndarray) -> np.ndarray:
            shape = np.broadcast_shapes(y.shape, rows.shape)
            flat = np.broadcast_to(y, shape).reshape(-1, len(rows))
            result = np.empty(flat.shape)
            for part in row_blocks(len(flat), grid.size * len(rows)):
                some = len(flat[part])
                own = tuple(np.tile(f, (1, some)) for f in latents) if some > 1 else latents
                w = np.tile(weights, (1, some)) if some > 1 and weights.shape[1] > 1 else weights
                values = self.mixture.log_density(flat[part].ravel(), np.tile(rows, some), own)
                top = np.fmax.reduce(values, axis=0)
                top = np.where(np.isfinite(top), top, 0.0)
                terms = np.exp(values - top)
                total = w[:, 0] @ terms if w.shape[1] == 1 else np.einsum("kn,kn->n", w, terms)
                result[part] = (top + np.log(total)).reshape(some, -1)
            return np.where(np.isnan(result), -np.inf, result).reshape(shape)

        return log_p

    def _guess(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """The median and two other quantiles of some rows, guessed from those that are no atoms."""
        guess = np.stack(self.mixture.guess(np.full(len(rows), 0.5), rows))
        at = np.isin(guess, self.likelihood.atoms).any(axis=0)
        if at.any():
            found = [self.mixture.guess(np.full(at.sum(), q), rows[at]) for q in LEVELS]
            some = np.concatenate(found)  # (3 levels, rows)
            some = np.where(np.isin(some, self.likelihood.atoms), np.nan, some)
            some[:, np.isnan(some).all(axis=0)] = self.likelihood.atoms[0]
            ends = np.nanmin(some, axis=0), np.nanmax(some, axis=0)
            same = 0.5 * (ends[0] == ends[1])
            guess[:, at] = np.nanmedian(some, axis=0), ends[0] - same, ends[1] + same
        return tuple(guess)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The predictive cdf by tables of the density, P(Y ≤ y), (n, k) for y (n, k)."""
        return np.clip(self._apply(lambda table, y: table.cdf(y), y), 0.0, 1.0)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Predictive quantiles by tables of the density, (n, k) for q (n, k)."""
        return self._apply(lambda table, q: table.ppf(q), q)

    def _apply(
        self, look_up: Callable[[Any, np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        result = np.empty(values.shape)
        if self._kept is None and self.num_rows <= KEPT_ROWS:
            self._kept = list(self._tables())
        for rows, table in self._kept or self._tables():
            with np.errstate(all="ignore"):
                result[rows] = look_up(table, values[rows].T).T
        return result

    def _tables(self) -> Iterator[tuple[np.ndarray, Law]]:
        """Rows, and their table, block by block. The last table that a row is in is its own."""
        todo = np.arange(self.num_rows)
        for degrees in () if self.likelihood.atoms else FEW.get(self.mixture.dim, ()):
            left = []
            for start in range(0, len(todo), FEW_ROWS):
                rows = todo[start : start + FEW_ROWS]
                with np.errstate(all="ignore"):
                    table, same = self._few(rows, degrees)
                yield rows, table
                left.append(rows[~same])
            todo = np.concatenate(left)
            if not len(todo):
                return
        for start in range(0, len(todo), TABLE_ROWS):
            rows = todo[start : start + TABLE_ROWS]
            yield rows, self._table(rows)


class _Panels(from_density.Continuous):
    """A table of a predictive density that is smooth and costs much: evaluated once a node.

    It is `from_density.Continuous` but for that.

    Inside a panel the density is the polynomial through its nodes. Panels are placed by a guess of
    the median and of two other quantiles, (n,) each.

    better : two better rules, the second the best. They are evaluated in the middles of panels
        alone: between them what the best one adds to the density is interpolated. `same` (n,) tells
        for which rows the two agree and that is right. Panels that hold nothing are left out.
    """

    def __init__(
        self,
        log_p: LogDensity,
        support: Continuum,
        guess: tuple[np.ndarray, ...],
        better: tuple[LogDensity, LogDensity] | None = None,
    ) -> None:
        self.guess, self.better, self.same = guess, better, np.ones(len(guess[0]), dtype=bool)
        super().__init__(log_p, guess[0].shape, support)
        x, w, degree = from_density.GL_NODES, from_density.GL_WEIGHTS, len(from_density.GL_NODES)
        size = np.arange(degree) + 0.5
        transform = legvander(x, degree - 1).T * w * size[:, None]
        density = np.exp(self.log_w) / w[:, None]  # (panels, nodes, n), times half a panel
        self.slopes = np.einsum("ij,pjn->ipn", transform, density)
        self.series = legint(self.slopes, lbnd=-1.0)
        del self.log_p, self.better  # They hold all nodes of all rows, and have done their work.

    def _log_density(self, t: np.ndarray) -> np.ndarray:
        if self.better is None:
            return super()._log_density(t)
        middle = t[:, :1] + 0.5 * (t[:, -1:] - t[:, :1])  # (panels, 1, 1)
        first = self._by(self.log_p, middle)  # (panels, n)
        held = _grown((first > first.max(axis=0) + NOTHING).any(axis=1), 1)
        few, best = np.full((2, *first.shape), -np.inf)
        few[held], best[held] = (self._by(log_p, middle[held]) for log_p in self.better)
        top = best.max(axis=0)
        size = np.exp(best - top)
        gap = np.where(held[:, None], size - np.exp(first - top), 0.0)
        off = np.abs(size - np.exp(few - top))
        self.same = ((off < SAME) & ((off < SAME_SHARE * size) | (size < SAME))).all(axis=0)
        gap = np.pad(np.nan_to_num(gap), ((REACH, REACH), (0, 0)))
        windows = sliding_window_view(gap, 2 * REACH + 1, axis=0)[held]  # (panels, n, k)
        between, rougher = (np.einsum("jk,pnk->pjn", A, windows) for A in _BETWEEN)
        self.same &= np.isfinite(top) & (np.abs(between - rougher) < BETWEEN).all(axis=(0, 1))
        own = super()._log_density(t[held])
        share = np.clip(between * np.exp(top - own), -0.5, 1.0)
        result = np.full((*t.shape[:2], t.shape[2] * len(top)), -np.inf)
        result[held] = own + np.log1p(np.where(np.isnan(share), 0.0, share))
        return result

    def _by(self, log_p: LogDensity, t: np.ndarray) -> np.ndarray:
        """The log-density of t (panels, 1, 1) by another rule, (panels, n)."""
        own, self.log_p = self.log_p, log_p
        value = super()._log_density(t)[:, 0]
        self.log_p = own
        return value

    def _place(self, shape: tuple[int, ...], hints: Any) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            centre, *ends = (self.support.clip(self.support.from_y(y)) for y in self.guess)
        return centre, np.maximum(ends[1] - centre, centre - ends[0]) + 1e-9 * np.abs(centre)

    def _cdf_in_panel(self, t: np.ndarray, panel: np.ndarray) -> np.ndarray:
        row = np.broadcast_to(np.arange(self.series.shape[2]), np.shape(t))
        part = legval(_within(t, panel), self.series[:, panel, row], tensor=False)
        return self.edges_cdf[panel, row] + part

    def _density_in_panel(self, t: np.ndarray, panel: np.ndarray) -> np.ndarray:
        row = np.broadcast_to(np.arange(self.series.shape[2]), np.shape(t))
        return legval(_within(t, panel), self.slopes[:, panel, row], tensor=False) * 2.0 / WIDTH


def _within(t: np.ndarray, panel: np.ndarray) -> np.ndarray:
    """Where t is in its panel of a tabulated density, from −1 to 1."""
    return 2.0 * (t - from_density.EDGES[panel]) / WIDTH - 1.0


def _grown(panels: np.ndarray, reach: int) -> np.ndarray:
    """Panels, and so many beside each of them."""
    return np.convolve(panels, np.ones(2 * reach + 1), mode="same") > 0.0


def _interpolation(reach: int) -> np.ndarray:
    """Values at the nodes of a panel from those in the middles of panels `reach` to either side.

    Columns are for REACH panels to either side: 0 for those that are farther.
    """
    places = np.arange(-reach, reach + 1.0)
    matrix = np.zeros((len(from_density.GL_NODES), 2 * REACH + 1))
    for k, place in enumerate(places):
        others = np.delete(places, k)
        steps = (0.5 * from_density.GL_NODES[:, None] - others) / (place - others)
        matrix[:, REACH - reach + k] = steps.prod(axis=1)
    return matrix


_BETWEEN = _interpolation(REACH), _interpolation(REACH - 1)
