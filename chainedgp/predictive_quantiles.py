"""The cdf of a predictive mixture and its inverse, for many rows at once.

F(y) = E[P(Y ≤ y | z)] is increasing in y on any fixed set of nodes, because the weights are
positive. So quantiles are bracketed roots on one lattice, which is then checked at the root and
refined where it has to be.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit, logit

from .errors import QuadratureWarning
from .likelihoods import numeric
from .predictive_nodes import (
    LAST_LEVEL,
    Lattice,
    Mixture,
    lattice,
    log_expectation,
    step_resolved,
)
from .quadrature import row_blocks

__all__ = ["DensityTables", "mixture_cdf", "mixture_ppf"]

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]

DISCRETE = ("counts", "binary", "categories")
# The line t ↔ the support: y from t, t from y, and the range of t in which y is representable.
LINKS: dict[str, tuple[Callable, Callable, float, float]] = {
    "real": (lambda t: t, lambda y: y, -1e300, 1e300),
    "positive": (np.exp, np.log, -744.0, 709.0),
    "unit": (expit, logit, -744.0, 36.7),
}
ENDS = {"real": (-np.inf, np.inf), "positive": (0.0, np.inf), "unit": (0.0, 1.0)}
LOGIT_TOLERANCE = 1e-10
POLISH = 0.05
"""Width of the bracket around the root of the last lattice, relative to the bracket there."""
TABLE_ROWS = 32
TABLE_FLOOR = -200.0
"""Log-densities below it add nothing to an integral over y: they are not refined."""


def mixture_cdf(mixture: Mixture, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) = E[P(Y ≤ y | z)], (N,), for targets y (N,) of the given rows (N,)."""

    def log_cdf(y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        return np.log(mixture.cdf(y, rows, latents))

    value = log_expectation(mixture, log_cdf, y, rows, probe=mixture.log_density, follow=False)
    return np.minimum(np.exp(value), 1.0)


def mixture_ppf(mixture: Mixture, q: np.ndarray, rows: np.ndarray, support: str) -> np.ndarray:
    """The smallest y with P(Y ≤ y) ≥ q, (N,), for q in (0, 1), (N,), of the given rows (N,)."""
    with np.errstate(all="ignore"):
        if support in DISCRETE:
            middle, _, _ = mixture.guess(q, rows)
            start = np.where(np.isfinite(middle), np.maximum(middle, 0.0), 0.0)
            return _refined(mixture, q, rows, start, np.ones(len(q)), _solve_integer, lambda y: y)
        from_line, to_line, low, high = LINKS[support]
        t, below, above = (np.clip(to_line(y), low, high) for y in mixture.guess(q, rows))
        width = np.maximum(above - t, t - below) + 1e-12 * np.abs(t)
        t = np.where(np.isfinite(t), t, 0.0)
        width = np.where(np.isfinite(width) & (width > 0.0), width, 1.0)

        def solve(cdf: Function, q: np.ndarray, start: np.ndarray, width: np.ndarray) -> np.ndarray:
            return _solve(cdf, q, start, width, low, high)

        t = _refined(mixture, q, rows, t, width, solve, from_line)
        first, last = ENDS[support]
        return np.where(t <= low, first, np.where(t >= high, last, from_line(t)))


def _refined(
    mixture: Mixture,
    q: np.ndarray,
    rows: np.ndarray,
    t: np.ndarray,
    width: np.ndarray,
    solve: Callable[..., np.ndarray],
    from_line: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Roots t (N,), first on a coarse lattice, then on ever finer ones where they are needed."""
    t, width = t.copy(), width.copy()
    todo = np.arange(len(q))
    levels = [-mixture.dim, *range(LAST_LEVEL.get(mixture.dim, 2) + 1)]
    for level in levels:
        grid = lattice(mixture.dim, level)
        coarse = np.ones(len(todo), dtype=bool)
        for part in row_blocks(len(todo), grid.size):
            block = todo[part]
            nodes = _Nodes(mixture, rows[block], grid)
            t[block] = solve(
                lambda t, i, nodes=nodes: nodes.cdf(from_line(t), i),
                q[block],
                t[block],
                width[block],
            )
            if level >= 0:
                coarse[part] = ~nodes.resolved(from_line(t[block]))
        width[todo] *= POLISH
        todo = todo[coarse]
        if not len(todo):
            return t
    warnings.warn(
        f"{len(todo)} of {len(q)} quantiles did not converge on {grid.size} nodes: q is more than "
        "a thousand times wider than the noise, or the density has a kink.",
        QuadratureWarning,
        stacklevel=5,
    )
    return t


class _Nodes:
    """The mixture on one lattice for a block of entries: F(y) = Σ_k w_k P(Y ≤ y | z_k)."""

    def __init__(self, mixture: Mixture, rows: np.ndarray, grid: Lattice) -> None:
        self.mixture, self.rows, self.grid = mixture, rows, grid
        log_base, self.latents = mixture.nodes(rows, grid.x[:, :, None])
        self.log_weights = log_base + grid.log_volume[:, None]  # (K, N) or (K, 1)
        weights = np.exp(self.log_weights)
        self.weights = weights / weights.sum(axis=0)

    def cdf(self, y: np.ndarray, i: np.ndarray) -> np.ndarray:
        """F(y) of the entries i of the block."""
        if len(i) == len(self.rows):
            latents = self.latents
        else:
            latents = tuple(f[:, i] for f in self.latents)
        values = self.mixture.cdf(y, self.rows[i], latents)
        if self.weights.shape[1] == 1:
            return self.weights[:, 0] @ values
        weights = self.weights if len(i) == len(self.rows) else self.weights[:, i]
        return np.einsum("kn,kn->n", weights, values)

    def resolved(self, y: np.ndarray) -> np.ndarray:
        """Whether the lattice resolves the density at y, or sub-lattices agree on F(y)."""
        density = self.log_weights + self.mixture.log_density(y, self.rows, self.latents)
        values = self.weights * self.mixture.cdf(y, self.rows, self.latents)
        return step_resolved(self.log_weights, density, values, self.grid)


def _solve(
    cdf: Function, q: np.ndarray, start: np.ndarray, width: np.ndarray, low: float, high: float
) -> np.ndarray:
    """Roots of logit F(t) = logit q, (N,): near a line for most F. `low` or `high` if none.

    cdf(t, i) evaluates the entries i. The bracket start ± width is doubled until it holds a root.
    """
    goal = logit(q)

    def excess(t: np.ndarray, i: np.ndarray) -> np.ndarray:
        F = np.clip(cdf(t, i), 1e-300, 1.0 - 1e-16)
        return np.log(F) - np.log1p(-F) - goal[i]

    every = np.arange(len(q))
    a, b = np.maximum(start - width, low), np.minimum(start + width, high)
    fa, fb = excess(a, every), excess(b, every)
    step = 2.0 * width
    while len(i := np.flatnonzero((fa > 0.0) & (a > low))):
        b[i], fb[i] = a[i], fa[i]
        a[i] = np.maximum(a[i] - step[i], low)
        fa[i], step[i] = excess(a[i], i), 4.0 * step[i]
    step = 2.0 * width
    while len(i := np.flatnonzero((fb < 0.0) & (b < high))):
        a[i], fa[i] = b[i], fb[i]
        b[i] = np.minimum(b[i] + step[i], high)
        fb[i], step[i] = excess(b[i], i), 4.0 * step[i]
    return np.where(fa > 0.0, low, np.where(fb < 0.0, high, _chandrupatla(excess, a, b, fa, fb)))


def _chandrupatla(
    function: Function, a: np.ndarray, b: np.ndarray, fa: np.ndarray, fb: np.ndarray
) -> np.ndarray:
    """Roots in brackets [a, b], fa ≤ 0 ≤ fb: inverse quadratic steps where they are safe.

    T. R. Chandrupatla (1997), Advances in Engineering Software 28, 145-149. At a jump of the
    function (an atom of the distribution) the upper end of the last bracket is returned.
    """
    root = np.where(np.abs(fa) < np.abs(fb), a, b)
    i = np.flatnonzero((np.minimum(np.abs(fa), np.abs(fb)) > LOGIT_TOLERANCE) & (fa < 0) & (fb > 0))
    a, b, fa, fb = a[i], b[i], fa[i], fb[i]
    share = fa / (fa - fb)  # the first step is the secant's, kept off the ends
    share = np.clip(share, 0.05, 0.95)
    for _ in range(200):
        if not len(i):
            break
        x = a + share * (b - a)
        fx = function(x, i)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        small = np.abs(fa) < np.abs(fb)
        upper = np.where(fa > 0.0, a, b)
        best = np.where(small, a, b)
        gap = np.abs(b - a)
        resolution = 4e-16 * np.maximum(np.abs(a), np.abs(b)) + 1e-300
        close = np.minimum(np.abs(fa), np.abs(fb)) <= LOGIT_TOLERANCE
        done = close | (gap <= resolution)
        root[i[done]] = np.where(close | (np.abs(fa - fb) < 1e-3), best, upper)[done]
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
            fc - fb
        )
        share = np.where(safe & np.isfinite(quadratic), quadratic, 0.5)
        least = 0.5 * resolution / np.maximum(gap, 1e-300)
        share = np.clip(share, least, 1.0 - least)
        i, a, b, fa, fb, share = (v[~done] for v in (i, a, b, fa, fb, share))
    return root


def _solve_integer(
    cdf: Function, q: np.ndarray, start: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """The smallest integers with F ≥ q, (N,): steps that double from `start`, then bisection."""
    q = q - 1e-14  # F is a sum of many rounded terms
    middle = np.floor(start)
    enough = cdf(middle, np.arange(len(q))) >= q
    low, high = np.where(enough, -1.0, middle), np.where(enough, middle, np.inf)
    step = 1.0
    while len(i := np.flatnonzero((low < 0.0) & (high > 0.0) & enough)):  # downwards
        trial = np.maximum(high[i] - step, -1.0)
        over = (trial >= 0.0) & (cdf(np.maximum(trial, 0.0), i) >= q[i])
        high[i] = np.where(over, trial, high[i])
        low[i] = np.where(over, -1.0, trial)
        enough[i] = over
        step *= 2.0
    step = 1.0
    while len(i := np.flatnonzero(np.isinf(high))):  # upwards
        trial = low[i] + step
        over = cdf(trial, i) >= q[i]
        high[i], low[i] = np.where(over, trial, np.inf), np.where(over, low[i], trial)
        step *= 2.0
    while len(i := np.flatnonzero(high - low > 1.0)):
        trial = np.floor(0.5 * (low[i] + high[i]))
        over = cdf(trial, i) >= q[i]
        high[i], low[i] = np.where(over, trial, high[i]), np.where(over, low[i], trial)
    return high


class DensityTables:
    """cdf, quantiles and moments of a mixture of which only the density is known.

    The mixture's own density is integrated over y (`likelihoods.numeric`), in blocks of rows.
    Slow, some ten milliseconds a row with two latents: a likelihood with a `cdf` avoids it.
    """

    def __init__(self, mixture: Mixture, num_rows: int, likelihood: Any) -> None:
        self.mixture, self.num_rows, self.likelihood = mixture, num_rows, likelihood

    def _tables(self) -> Iterator[tuple[slice, numeric.Table]]:
        support = self.likelihood.support
        for start in range(0, self.num_rows, TABLE_ROWS):
            rows = np.arange(start, min(start + TABLE_ROWS, self.num_rows))

            def log_p(y: np.ndarray, rows: np.ndarray = rows) -> np.ndarray:
                y, row = np.broadcast_arrays(y, rows)
                density = self.mixture.log_density
                value = log_expectation(
                    self.mixture, density, y.ravel(), row.ravel(), floor=TABLE_FLOOR
                )
                return value.reshape(y.shape)

            block = slice(start, start + len(rows))
            if support in DISCRETE:
                sizes = {"binary": 2, "categories": self.likelihood.num_categories}
                yield block, numeric.Discrete(log_p, (len(rows),), sizes.get(support))
            else:
                yield block, numeric.Continuous(log_p, (len(rows),), support)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y ≤ y), (n, k) for y (n, k)."""
        return self._apply("cdf", y)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Quantiles, (n, k) for q (n, k)."""
        return self._apply("ppf", q)

    def _apply(self, method: str, values: np.ndarray) -> np.ndarray:
        result = np.empty(values.shape)
        for rows, table in self._tables():
            result[rows] = getattr(table, method)(values[rows].T).T
        return np.clip(result, 0.0, 1.0) if method == "cdf" else result
