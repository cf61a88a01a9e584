"""The cdf of a predictive mixture and its inverse, for many rows at once.

F(y) = E[P(Y ≤ y | z)] is increasing in y on any fixed set of nodes, because the weights are
positive. So quantiles are bracketed roots on one lattice, which is then checked at the root and
refined where it has to be. Where q is narrow a few Gauss–Hermite nodes do as well as a lattice of
hundreds: of two or three latents they are tried first, and taken where more of them say the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import logit

from ..errors import QuadratureWarning
from ..expectations.quadrature import row_blocks
from ..likelihoods import Likelihood
from ..likelihoods.support import Continuum
from .nodes import (
    LAST_LEVEL,
    Lattice,
    Mixture,
    few_nodes,
    lattice,
    log_expectation,
    step_resolved,
)

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]

LOGIT_TOLERANCE = 1e-10
"""The search for a quantile ends at this error of logit F."""
ROUGH = 1e-3
"""On the coarse lattice roots are found to this error of logit F."""
START_STEPS, START_CLOSE = 3, 0.05
"""The first roots are sought by so many steps of Newton's method; one from an error of logit F that
is below START_CLOSE leaves one below ROUGH."""
CLOSE, NEWTON_STEPS = 1e-5, 5
"""One more step makes an error CLOSE of logit F negligible; after NEWTON_STEPS brackets serve."""
POLISH = 0.05
"""Such a bracket has this share of the width of the first."""
ROUGH_COUNT, FINE_COUNT = 1e-4, 1e-9
"""Quantiles that are counts are found to these relative errors before and after F is resolved."""

FEW: dict[int, tuple[int, ...]] = {2: (3, 5, 8, 12), 3: (3, 4, 6, 8)}
"""So many Gauss–Hermite nodes for each of two or three latents are tried one after the other."""
SAME, SAME_DENSITY = 3e-6, 1e-3
"""Two such rules say the same if logit F and log p differ by at most this: the larger one has an
error far below it where the integrand is smooth, and of its size where there is a kink."""
AT_ATOMS: dict[int, tuple[int, int]] = {1: (6, 10), 2: (4, 7), 3: (3, 5)}
"""So many nodes, in one dimension to three, tell whether a quantile is an atom."""
SURE = 10.0
"""They do if its level is so many times farther from the ends of the jump than they differ."""


def mixture_cdf(mixture: Mixture, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) = E[P(Y ≤ y | z)], (N,), for targets y (N,) of the given rows (N,)."""

    def log_cdf(y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        return np.log(mixture.cdf(y, rows, latents))

    value = log_expectation(mixture, log_cdf, y, rows, probe=mixture.log_density, follow=False)
    return np.minimum(np.exp(value), 1.0)


def mixture_ppf(
    mixture: Mixture, q: np.ndarray, rows: np.ndarray, likelihood: Likelihood
) -> np.ndarray:
    """The smallest y with P(Y ≤ y) ≥ q, (N,), for q in (0, 1), (N,), of the given rows (N,)."""
    line = likelihood.target_support
    with np.errstate(all="ignore"):
        if not isinstance(line, Continuum):
            middle = mixture.middle(q, rows)
            start = np.where(np.isfinite(middle), np.maximum(middle, 0.0), 0.0)
            return _refined(_Integers(), mixture, q, rows, start, np.ones(len(q)))
        result, todo = _at_atoms(mixture, q, rows, likelihood.atoms)
        q, rows = q[todo], rows[todo]
        t, below, above = (line.clip(line.from_y(y)) for y in mixture.guess(q, rows))
        width = np.maximum(above - t, t - below) + 1e-12 * np.abs(t)
        t = np.where(np.isfinite(t), t, 0.0)
        width = np.where(np.isfinite(width) & (width > 0.0), width, 1.0)
        t = _refined(_Reals(line), mixture, q, rows, t, width)
        first, last = line.ends
        result[todo] = np.where(t <= line.low, first, np.where(t >= line.high, last, line.to_y(t)))
        return result


def _at_atoms(
    mixture: Mixture, q: np.ndarray, rows: np.ndarray, atoms: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles (N,) that are one of the atoms, where F jumps over q, and indices of the others."""
    result = np.full(len(q), np.nan)
    each, back = np.unique(rows, return_inverse=True)  # All levels of a row ask for the same.
    for atom in atoms:
        (bottom, top), error = _jump_by_few_nodes(mixture, atom, each)
        near = np.minimum(np.abs(q - bottom[back]), np.abs(q - top[back]))
        i = np.unique(back[~(near > SURE * error[back])])
        if len(i):
            y = np.full(len(i), atom)
            top[i] = mixture_cdf(mixture, y, each[i])
            bottom[i] = top[i] - np.exp(log_expectation(mixture, mixture.log_density, y, each[i]))
        result[(q > bottom[back]) & (q <= top[back])] = atom
    return result, np.flatnonzero(np.isnan(result))


def _jump_by_few_nodes(
    mixture: Mixture, atom: float, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """F below and at an atom (2, N) by a few nodes, and how far fewer nodes are from it (N,)."""
    ends = np.full((2, 2, len(rows)), np.nan)
    for k, count in enumerate(AT_ATOMS.get(mixture.dim, ())):
        grid = few_nodes(mixture.dim, count)
        for part in row_blocks(len(rows), grid.size):
            nodes = _Nodes(mixture, rows[part], grid)
            top, log_mass = nodes.cdf_and_density(np.full(len(nodes.rows), atom))
            ends[k, :, part] = top - np.exp(log_mass), top
    return ends[1], np.abs(ends[1] - ends[0]).max(axis=0) + 1e-12


def _refined(
    solver: _Reals | _Integers,
    mixture: Mixture,
    q: np.ndarray,
    rows: np.ndarray,
    t: np.ndarray,
    width: np.ndarray,
) -> np.ndarray:
    """Roots t (N,): roughly on a coarse lattice, then on ever finer ones until F is resolved."""
    t, todo = t.copy(), np.arange(len(q))
    last, levels = LAST_LEVEL.get(mixture.dim, 2), [-mixture.dim, 0]
    if mixture.dim in FEW:
        todo, levels = _by_few_nodes(solver, mixture, q, rows, t, width), [0]
        if not len(todo):
            return t
    for level in [*levels, *range(1, last + 1)]:
        grid = lattice(mixture.dim, level)
        coarse = np.ones(len(todo), dtype=bool)
        for part in row_blocks(len(todo), grid.size):
            block = todo[part]
            nodes = _Nodes(mixture, rows[block], grid)
            args = (nodes, q[block], t[block], width[block])
            if level < 0:
                t[block] = solver.start(*args)
            else:
                t[block], done = solver.improve(*args, level == last)
                coarse[part] = ~done
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


def _by_few_nodes(
    solver: _Reals | _Integers,
    mixture: Mixture,
    q: np.ndarray,
    rows: np.ndarray,
    t: np.ndarray,
    width: np.ndarray,
) -> np.ndarray:
    """Write roots to t (N,): exact where two rules agree, near to them elsewhere. Returns these."""
    least, *more = FEW[mixture.dim]
    for block in row_blocks(len(q), few_nodes(mixture.dim, least).size):
        nodes = _Nodes(mixture, rows[block], few_nodes(mixture.dim, least))
        t[block] = solver.start(nodes, q[block], t[block], width[block])
    todo, before = np.arange(len(q)), np.full((2, len(q)), np.nan)
    for count in more:
        grid, open_ = few_nodes(mixture.dim, count), np.ones(len(todo), dtype=bool)
        for part in row_blocks(len(todo), grid.size):
            i = todo[part]
            nodes = _Nodes(mixture, rows[i], grid)
            args = (nodes, q[i], t[i], width[i], before[:, i])
            t[i], before[:, i], done = solver.compare(*args, count == more[0])
            open_[part] = ~done
        todo = todo[open_]
        if not len(todo):
            break
    return todo


class _Nodes:
    """The mixture on one lattice for a block of entries: F(y) = Σ_k w_k P(Y ≤ y | z_k)."""

    def __init__(self, mixture: Mixture, rows: np.ndarray, grid: Lattice) -> None:
        self.mixture, self.rows, self.grid = mixture, rows, grid
        log_base, self.latents = mixture.nodes(rows, grid.x[:, :, None])
        self.log_weights = log_base + grid.log_volume[:, None]  # (K, N) or (K, 1)
        weights = np.exp(self.log_weights)
        self.mass = weights.sum(axis=0)
        self.weights = weights / self.mass

    def _of(self, i: np.ndarray, array: np.ndarray) -> np.ndarray:
        """The columns i of an array (K, N) or (K, 1)."""
        return array if array.shape[1] == 1 or len(i) == len(self.rows) else array[:, i]

    def cdf(self, y: np.ndarray, i: np.ndarray) -> np.ndarray:
        """F(y) of the entries i of the block."""
        latents = tuple(self._of(i, f) for f in self.latents)
        values = self.mixture.cdf(y, self.rows[i], latents)
        if self.weights.shape[1] == 1:
            return self.weights[:, 0] @ values
        return np.einsum("kn,kn->n", self._of(i, self.weights), values)

    def cdf_and_density(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F(y) and log p(y) of all entries."""
        values = self.mixture.log_density(y, self.rows, self.latents)
        top = np.where(np.isfinite(top := np.fmax.reduce(values, axis=0)), top, 0.0)
        density = np.nan_to_num(np.exp(values - top), nan=0.0)
        p = np.einsum("kn,kn->n", np.broadcast_to(self.weights, density.shape), density)
        return self.cdf(y, np.arange(len(self.rows))), top + np.log(p)

    def look(self, y: np.ndarray, i: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F(y) and log p(y) of the entries i, and whether the lattice resolves them."""
        latents, log_weights = (
            tuple(self._of(i, f) for f in self.latents),
            self._of(i, self.log_weights),
        )
        density = log_weights + self.mixture.log_density(y, self.rows[i], latents)
        weights = self._of(i, self.weights)
        values = weights * self.mixture.cdf(y, self.rows[i], latents)
        mass = self.mass if len(self.mass) == 1 else self.mass[i]
        done, log_p = step_resolved(mass, density, weights, values, self.grid)
        return values.sum(axis=0), log_p, done


class _Reals:
    """Roots of logit F(t) = logit q: near a line for most F, so that Newton's method is fast."""

    def __init__(self, line: Continuum) -> None:
        self.line = line

    def start(self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray) -> np.ndarray:
        """Roots to three digits of logit F: by steps of Newton's method, or in a bracket."""
        near = t
        for _ in range(START_STEPS):
            F, log_p = nodes.cdf_and_density(self.line.to_y(near))
            near, excess = self._step(q, near, width, F, log_p)
            i = np.flatnonzero(~(np.abs(excess) < START_CLOSE))
            if not len(i):
                return near
        own = (q[i], t[i], width[i])
        near[i] = self._bracketed(nodes, *own, i, ROUGH)
        return near

    def improve(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray, last: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """One step for all entries, exact roots where F is resolved; and where it is."""
        t, done, close = self._newton(nodes, q, t, width, np.arange(len(q)))
        i = np.flatnonzero(~close & (done | last))
        for _ in range(NEWTON_STEPS):
            t[i], done[i], close = self._newton(nodes, q[i], t[i], width[i], i)
            i = i[~close & (done[i] | last)]
            if not len(i):
                return t, done
        t[i] = self._bracketed(nodes, q[i], t[i], POLISH * width[i], i, LOGIT_TOLERANCE)
        return t, done

    def _newton(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray, i: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """t after one step for the entries i, whether F was resolved, and t close to a root."""
        F, log_p, done = nodes.look(self.line.to_y(t), i)
        t, excess = self._step(q, t, width, F, log_p)
        return t, done, np.abs(excess) < CLOSE

    def _step(
        self, q: np.ndarray, t: np.ndarray, width: np.ndarray, F: np.ndarray, log_p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """t after a step of Newton's method, no longer than width, and logit q − logit F before."""
        F = np.clip(F, 1e-300, 1.0 - 1e-16)
        excess = logit(q) - logit(F)
        step = excess * np.exp(np.log(F) + np.log1p(-F) - log_p - self.line.log_slope(t))
        step = np.clip(np.where(np.isfinite(step), step, 0.0), -width, width)
        return self.line.clip(t + step), excess

    def compare(
        self,
        nodes: _Nodes,
        q: np.ndarray,
        t: np.ndarray,
        width: np.ndarray,
        before: np.ndarray,
        first: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Roots, log p there (2, N; its second row is not used), and where t was one before.

        t is the root of fewer nodes, which gave `before`. If all steps end at it, these agree.
        """
        for _ in range(2 if first else 1):
            F, log_p = nodes.cdf_and_density(self.line.to_y(t))
            t, excess = self._step(q, t, width, F, log_p)
        same = (np.abs(excess) < SAME) & (np.abs(log_p - before[0]) < SAME_DENSITY)
        return t, np.stack([log_p, log_p]), same

    def _bracketed(
        self,
        nodes: _Nodes,
        q: np.ndarray,
        t: np.ndarray,
        width: np.ndarray,
        i: np.ndarray,
        tolerance: float,
    ) -> np.ndarray:
        def cdf(t: np.ndarray, k: np.ndarray) -> np.ndarray:
            return nodes.cdf(self.line.to_y(t), i[k])

        return _solve(cdf, q, t, width, tolerance, self.line.low, self.line.high)


class _Integers:
    """The smallest integers with F ≥ q."""

    def start(self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray) -> np.ndarray:
        """On the coarse lattice."""
        return _solve_integer(nodes.cdf, q, t, ROUGH_COUNT)

    def compare(
        self,
        nodes: _Nodes,
        q: np.ndarray,
        t: np.ndarray,
        width: np.ndarray,
        before: np.ndarray,
        first: bool,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Roots, logit F and log p there (2, N), and where they are those of fewer nodes."""
        F, log_p = nodes.cdf_and_density(t)
        wrong = ~((F >= q - 1e-14) & (F - np.exp(log_p) < q - 1e-14))
        same = np.abs(logit(np.clip(F, 1e-300, 1.0 - 1e-16)) - before[0]) < SAME
        same &= (np.abs(log_p - before[1]) < SAME_DENSITY) & ~wrong
        if len(i := np.flatnonzero(wrong)):
            t[i] = _solve_integer(lambda y, k: nodes.cdf(y, i[k]), q[i], t[i], ROUGH_COUNT)
            F, log_p = nodes.cdf_and_density(t)
        return t, np.stack([logit(np.clip(F, 1e-300, 1.0 - 1e-16)), log_p]), same

    def improve(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray, last: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Exact where this lattice resolves F, rough elsewhere; and where it does."""
        every = np.arange(len(q))
        done = nodes.look(t, every)[2]
        if last and not done.all():
            t = np.where(done, t, _solve_integer(nodes.cdf, q, t, ROUGH_COUNT))
            done = nodes.look(t, every)[2]
        if len(i := np.flatnonzero(done)):
            t[i] = _solve_integer(lambda y, k: nodes.cdf(y, i[k]), q[i], t[i], FINE_COUNT)
            done[i] = nodes.look(t[i], i)[2]
        return t, done


def _solve(
    cdf: Function,
    q: np.ndarray,
    start: np.ndarray,
    width: np.ndarray,
    tolerance: float,
    low: float,
    high: float,
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
    return np.where(
        fa > 0.0, low, np.where(fb < 0.0, high, _chandrupatla(excess, a, b, fa, fb, tolerance))
    )


def _chandrupatla(
    function: Function,
    a: np.ndarray,
    b: np.ndarray,
    fa: np.ndarray,
    fb: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """Roots in brackets [a, b], fa ≤ 0 ≤ fb: inverse quadratic steps where they are safe.

    T. R. Chandrupatla (1997), Advances in Engineering Software 28, 145-149. At a jump of the
    function (an atom of the distribution) the upper end of the last bracket is returned.
    """
    root = np.where(np.abs(fa) < np.abs(fb), a, b)
    i = np.flatnonzero((np.minimum(np.abs(fa), np.abs(fb)) > tolerance) & (fa < 0) & (fb > 0))
    a, b, fa, fb = a[i], b[i], fa[i], fb[i]
    share = fa / (fa - fb)  # The first step is the secant's, kept off the ends.
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
        close = np.minimum(np.abs(fa), np.abs(fb)) <= tolerance
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


def _solve_integer(cdf: Function, q: np.ndarray, start: np.ndarray, error: float) -> np.ndarray:
    """The smallest integers with F ≥ q, (N,): growing steps, then bisection to a relative error."""
    q = q - 1e-14  # F is a sum of many rounded terms.
    middle = np.floor(start)
    enough = cdf(middle, np.arange(len(q))) >= q
    low, high = np.where(enough, -1.0, middle), np.where(enough, middle, np.inf)
    step = first = np.maximum(1.0, np.floor(10.0 * error * middle))
    while len(i := np.flatnonzero((low < 0.0) & (high > 0.0) & enough)):  # downwards
        trial = np.maximum(high[i] - step[i], -1.0)
        over = (trial >= 0.0) & (cdf(np.maximum(trial, 0.0), i) >= q[i])
        high[i] = np.where(over, trial, high[i])
        low[i] = np.where(over, -1.0, trial)
        enough[i] = over
        step = 4.0 * step
    step = first
    while len(i := np.flatnonzero(np.isinf(high) & np.isfinite(low))):  # upwards; inf has no end
        trial = low[i] + step[i]
        over = cdf(trial, i) >= q[i]
        high[i], low[i] = np.where(over, trial, np.inf), np.where(over, low[i], trial)
        step = 4.0 * step
    while len(i := np.flatnonzero(high - low > np.maximum(1.0, error * high))):
        trial = np.floor(0.5 * (low[i] + high[i]))
        over = cdf(trial, i) >= q[i]
        high[i], low[i] = np.where(over, trial, high[i]), np.where(over, low[i], trial)
    return high
