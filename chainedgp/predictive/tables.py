"""The cdf of a predictive mixture of which only the density is known, and its inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legint, legval, legvander

from ..likelihoods import Likelihood, from_density
from ..likelihoods.support import Continuum
from ..likelihoods.wrappers.atoms import Law, WithAtoms
from .nodes import Mixture, log_expectation

__all__ = ["DensityTables"]

LEVELS = (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)
"""These quantiles tell where a density lies beside an atom that holds the median."""
TABLE_ROWS = 32
TABLE_FLOOR = -26.0
"""Where log-densities (per spread of y) are below this, an integral over y is not refined."""


class DensityTables:
    """cdf and quantiles of a mixture of which only the density is known.

    The mixture's own density is integrated over y (`from_density`), in blocks of rows: some ten
    milliseconds a row with two latents. A likelihood with a `cdf` of its own avoids it.
    """

    def __init__(self, mixture: Mixture, num_rows: int, likelihood: Likelihood) -> None:
        self.mixture, self.num_rows, self.likelihood = mixture, num_rows, likelihood

    def _table(self, rows: np.ndarray) -> Law:
        """The distribution of some rows: `from_density.Tabulated`, or with atoms beside it."""
        with np.errstate(all="ignore"):
            guess = self._guess(rows)
            floor = TABLE_FLOOR - float(np.log(np.nanmax(guess[2] - guess[1]) + 1e-300))

        def log_p(y: np.ndarray) -> np.ndarray:
            y, row = np.broadcast_arrays(y, rows)
            options: Any = {"floor": floor, "follow": False}
            density = self.mixture.log_density
            value = log_expectation(self.mixture, density, y.ravel(), row.ravel(), **options)
            return value.reshape(y.shape)

        support, atoms = self.likelihood.target_support, self.likelihood.atoms
        if not isinstance(support, Continuum):
            return from_density.Discrete(log_p, (len(rows),), support.size)
        if not atoms:
            return _Panels(log_p, support, guess)

        def beside(y: np.ndarray) -> np.ndarray:  # It has no atoms.
            return log_p(np.where(np.isin(y, atoms), np.nextafter(y, np.inf), y))

        rest = _Panels(beside, support, guess)
        masses = [np.exp(log_p(np.full(len(rows), atom))) for atom in atoms]
        return WithAtoms(rest, rest.total, atoms, masses)

    def _guess(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """The median and two other quantiles of some rows, taken from those that are no atoms."""
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
        """P(Y ≤ y), (n, k) for y (n, k)."""
        return np.clip(self._apply(lambda table, y: table.cdf(y), y), 0.0, 1.0)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Quantiles, (n, k) for q (n, k)."""
        return self._apply(lambda table, q: table.ppf(q), q)

    def _apply(
        self, look_up: Callable[[Any, np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        result = np.empty(values.shape)
        for start in range(0, self.num_rows, TABLE_ROWS):
            rows = np.arange(start, min(start + TABLE_ROWS, self.num_rows))
            result[rows] = look_up(self._table(rows), values[rows].T).T
        return result


class _Panels(from_density.Continuous):
    """`from_density.Continuous` for a density that is smooth and costs much: evaluated once a node.

    Inside a panel the density is the polynomial through its nodes. Panels are placed by a guess of
    the median and of two other quantiles, (n,) each.
    """

    def __init__(self, log_p: Callable, support: Continuum, guess: tuple[np.ndarray, ...]) -> None:
        self.guess = guess
        super().__init__(log_p, guess[0].shape, support)
        x, w, degree = from_density.GL_NODES, from_density.GL_WEIGHTS, len(from_density.GL_NODES)
        size = np.arange(degree) + 0.5
        transform = legvander(x, degree - 1).T * w * size[:, None]
        density = np.exp(self.log_w) / w[:, None]  # (panels, nodes, n), times half a panel
        self.series = legint(np.einsum("ij,pjn->ipn", transform, density), lbnd=-1.0)

    def _place(self, shape: tuple[int, ...], hints: Any) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            centre, *ends = (self.support.clip(self.support.from_y(y)) for y in self.guess)
        return centre, np.maximum(ends[1] - centre, centre - ends[0]) + 1e-9 * np.abs(centre)

    def _cdf_in_panel(self, t: np.ndarray, panel: np.ndarray) -> np.ndarray:
        edge, width = from_density.EDGES[panel], np.diff(from_density.EDGES)[0]
        row = np.broadcast_to(np.arange(self.series.shape[2]), np.shape(t))
        part = legval(2.0 * (t - edge) / width - 1.0, self.series[:, panel, row], tensor=False)
        return self.edges_cdf[panel, row] + part
