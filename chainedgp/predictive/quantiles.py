"""The cdf and the quantiles of a predictive mixture, for many rows at once.

F(y) = E[P(Y ≤ y | z)] is increasing in y on any fixed set of nodes, because the weights are
positive. So quantiles are bracketed roots on one lattice, which is then checked at the root and
refined where it has to be. Where q is narrow a few Gauss–Hermite nodes do as well as a lattice of
hundreds: of two or three latents they are tried first, and taken where more of them say the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logit

from ..errors import QuadratureWarning, warn
from ..expectations.quadrature import row_blocks
from ..likelihoods import Likelihood
from ..likelihoods.support import Continuum
from .few import few_nodes
from .nodes import (
    LAST_LEVEL,
    REACH,
    Lattice,
    Mixture,
    lattice,
    log_expectation,
    step_resolved,
)

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]

LOGIT_TOLERANCE = 1e-10
"""The search for a quantile ends at this error of logit F."""
ROUGH = 1e-3
"""Quantiles are found to this error of logit F on the coarse lattice."""
START_STEPS, START_CLOSE = 3, 0.05
"""The first roots are sought by so many steps of Newton's method; one from an error of logit F that
is below START_CLOSE leaves one below ROUGH."""
CLOSE, NEWTON_STEPS = 1e-5, 5
"""One more Newton step makes an error CLOSE of logit F negligible. What is not so close after
NEWTON_STEPS is searched for in a bracket."""
POLISH = 0.05
"""A bracket after Newton steps has this share of the width of the first bracket."""
ROUGH_COUNT, FINE_COUNT = 1e-4, 1e-9
"""Quantiles that are counts are found to these relative errors before and after F is resolved."""

FEW: dict[int, tuple[int, ...]] = {2: (5, 9, 13, 17, 23), 3: (5, 7, 9, 11, 15)}
"""Rules of these degrees, of two or three latents, are tried one after the other."""
SAME, SAME_SLOPE, BEND = 1e-6, 1e-5, 0.3
"""Two such rules say the same if logit F and the logarithm of its slope differ by at most SAME and
SAME_SLOPE, and BEND times the change of logit F between them: that much slopes may bend. The larger
rule has an error far below it where the integrand is smooth, and of its size at a kink."""
SAME_MASS = 1e-3
"""For counts the logarithms of their probabilities differ by at most this."""
AT_ATOMS: dict[int, tuple[int, int]] = {1: (11, 19), 2: (7, 13), 3: (5, 9)}
"""Rules of these degrees, in one dimension to three, tell whether a quantile is an atom."""
LOG_TAIL = float(np.log(1e-3))
"""A probability P(Y > y) whose logarithm is below this is a tail."""
OF_TAILS = {1: 11.0, 2: 11.0, 3: 7.5}
"""Nodes for a tail lie within so many standard deviations of the latents, by their number: two
rates that are added have two modes far out, of which a window that moves would hold one."""
SURE = 10.0
"""They tell it if the level of the quantile is so many times farther from the ends of the cdf's
jump than both numbers of nodes differ."""


def mixture_cdf(mixture: Mixture, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The cdf of a predictive mixture, P(Y ≤ y) = E[P(Y ≤ y | z)], (N,), at y (N,) of some rows."""

    def log_cdf(y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        return np.log(mixture.cdf(y, rows, latents))

    value = log_expectation(mixture, log_cdf, y, rows, probe=mixture.log_density, follow=False)
    return np.minimum(np.exp(value), 1.0)


def mixture_log_sf(mixture: Mixture, y: np.ndarray, rows: np.ndarray, of_cdf: bool) -> np.ndarray:
    """The log of the upper tail of a predictive mixture, log E[P(Y > y | z)], (N,).

    of_cdf : where it is not small it is one less the cdf, which some likelihoods have faster.
    """

    def over(y: np.ndarray, rows: np.ndarray, reach: float | None = None) -> np.ndarray:
        args = mixture, mixture.log_survival, y, rows
        return log_expectation(*args, probe=mixture.log_density, reach=reach)

    with np.errstate(divide="ignore"):
        value = np.log1p(-mixture_cdf(mixture, y, rows)) if of_cdf else over(y, rows)
    tail = np.flatnonzero(value < LOG_TAIL)
    value[tail] = over(y[tail], rows[tail], OF_TAILS.get(mixture.dim, REACH[3]))
    return np.minimum(value, 0.0)


def mixture_ppf(
    mixture: Mixture, q: np.ndarray, rows: np.ndarray, likelihood: Likelihood
) -> np.ndarray:
    """Quantiles of a predictive mixture, the smallest y with P(Y ≤ y) ≥ q in (0, 1), (N,)."""
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
    """Quantiles (N,) that are an atom, where F jumps over q, and indices of the others."""
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
    """The cdf below and at an atom (2, N) by a few nodes, and how far fewer are from it (N,)."""
    ends = np.full((2, 2, len(rows)), np.nan)
    for k, degree in enumerate(AT_ATOMS.get(mixture.dim, ())):
        grid = few_nodes(mixture.dim, degree)
        for part in row_blocks(len(rows), grid.size):
            nodes = _Nodes(mixture, rows[part], grid)
            top, log_mass = nodes.cdf_and_density(np.full(len(nodes.rows), atom), nodes.every)
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
    """Quantiles t (N,): roughly on a coarse lattice, then on finer ones until F is resolved."""
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
                t[block], _ = solver.start(*args)
            else:
                t[block], done = solver.improve(*args, level == last)
                coarse[part] = ~done
        todo = todo[coarse]
        if not len(todo):
            return t
    warn(
        f"{len(todo)} of {len(q)} quantiles are inaccurate even with {grid.size} nodes: the "
        "posterior is more than a thousand times wider than the noise, or the density has a kink.",
        QuadratureWarning,
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
    """Write quantiles to t (N,) by few nodes: exact where two rules agree; return the others."""
    least, *more = FEW[mixture.dim]
    before = np.full((2, len(q)), np.nan)
    for block in row_blocks(len(q), few_nodes(mixture.dim, least).size):
        nodes = _Nodes(mixture, rows[block], few_nodes(mixture.dim, least))
        t[block], before[1, block] = solver.start(nodes, q[block], t[block], width[block])
    todo = np.arange(len(q))
    for degree in more:
        grid, open_ = few_nodes(mixture.dim, degree), np.ones(len(todo), dtype=bool)
        for part in row_blocks(len(todo), grid.size):
            i = todo[part]
            nodes = _Nodes(mixture, rows[i], grid)
            args = (nodes, q[i], t[i], width[i], before[:, i])
            t[i], before[:, i], done = solver.compare(*args, degree == more[0])
            open_[part] = ~done
        todo = todo[open_]
        if not len(todo):
            break
    return todo


class _Nodes:
    """A predictive mixture on one lattice for a block of entries: F(y) = Σ_k w_k P(Y ≤ y | z_k)."""

    def __init__(self, mixture: Mixture, rows: np.ndarray, grid: Lattice) -> None:
        self.mixture, self.rows, self.grid = mixture, rows, grid
        log_base, self.latents = mixture.nodes(rows, grid.x[:, :, None])
        self.log_weights = log_base + grid.log_volume[:, None]  # (K, N) or (K, 1)
        weights = np.exp(self.log_weights)
        self.mass = weights.sum(axis=0)
        self.weights = weights / self.mass
        self.every = np.arange(len(rows))

    def _of(self, i: np.ndarray, array: np.ndarray) -> np.ndarray:
        """The columns i of an array (K, N) or (K, 1) of a mixture's nodes."""
        return array if array.shape[1] == 1 or len(i) == len(self.rows) else array[:, i]

    def cdf(self, y: np.ndarray, i: np.ndarray) -> np.ndarray:
        """The cdf F(y) on a lattice of nodes, of the entries i of the block."""
        latents = tuple(self._of(i, f) for f in self.latents)
        values = self.mixture.cdf(y, self.rows[i], latents)
        if self.weights.shape[1] == 1:
            return self.weights[:, 0] @ values
        return np.einsum("kn,kn->n", self._of(i, self.weights), values)

    def cdf_and_density(self, y: np.ndarray, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F(y) and log p(y) of the entries i."""
        latents = tuple(self._of(i, f) for f in self.latents)
        values = self.mixture.log_density(y, self.rows[i], latents)
        top = np.where(np.isfinite(top := np.fmax.reduce(values, axis=0)), top, 0.0)
        density = np.nan_to_num(np.exp(values - top), nan=0.0)
        weights = np.broadcast_to(self._of(i, self.weights), density.shape)
        return self.cdf(y, i), top + np.log(np.einsum("kn,kn->n", weights, density))

    def look(self, y: np.ndarray, i: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F(y) and log p(y) of the entries i, and whether the lattice of nodes resolves them."""
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
    """Quantiles of continuous targets, roots of logit F(t) = logit q: F is near a line for most."""

    def __init__(self, line: Continuum) -> None:
        self.line = line

    def start(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Roots to three digits of logit F, by steps of Newton's method or in a bracket.

        And the logarithm of the slope of logit F, close to the root.
        """
        near, log_slope, i = t.copy(), np.empty(len(t)), nodes.every
        for _ in range(START_STEPS):
            F, log_p = nodes.cdf_and_density(self.line.to_y(near[i]), i)
            log_slope[i] = self._log_slope(near[i], F, log_p)
            near[i], excess = self._step(q[i], near[i], width[i], F, log_slope[i])
            i = i[~(np.abs(excess) < START_CLOSE)]
            if not len(i):
                return near, log_slope
        own = (q[i], t[i], width[i])
        near[i] = self._bracketed(nodes, *own, i, ROUGH)
        return near, log_slope

    def improve(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray, last: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """One Newton step for all quantiles, exact roots where F is resolved; and where it is."""
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
        """t after a Newton step for the quantiles i, whether F was resolved, and t near a root."""
        F, log_p, done = nodes.look(self.line.to_y(t), i)
        t, excess = self._step(q, t, width, F, self._log_slope(t, F, log_p))
        return t, done, np.abs(excess) < CLOSE

    def _log_slope(self, t: np.ndarray, F: np.ndarray, log_p: np.ndarray) -> np.ndarray:
        """log d logit F/dt."""
        F = np.clip(F, 1e-300, 1.0 - 1e-16)
        return log_p + self.line.log_slope(t) - np.log(F) - np.log1p(-F)

    def _step(
        self, q: np.ndarray, t: np.ndarray, width: np.ndarray, F: np.ndarray, log_slope: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """t after a step of Newton's method, no longer than width, and logit q − logit F before."""
        excess = logit(q) - logit(np.clip(F, 1e-300, 1.0 - 1e-16))
        step = excess * np.exp(-log_slope)
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
        """Roots; the last step of logit F and its log slope before, (2, N); where t was a root.

        t is the root of fewer nodes, which gave `before`. If all steps end at it, these agree. The
        first step is by their slope, which is nearly that of more nodes.
        """
        if first:
            F = nodes.cdf(self.line.to_y(t), nodes.every)
            t, _ = self._step(q, t, width, F, before[1])
        F, log_p = nodes.cdf_and_density(self.line.to_y(t), nodes.every)
        log_slope = self._log_slope(t, F, log_p)
        t, excess = self._step(q, t, width, F, log_slope)
        bend = SAME_SLOPE + BEND * before[0]
        same = (np.abs(excess) < SAME) & (np.abs(log_slope - before[1]) < bend)
        return t, np.stack([np.abs(excess), log_slope]), same & (not first)

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
    """Quantiles of counts: the smallest integers with F ≥ q."""

    def start(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """On the coarse lattice; nothing is known of a slope."""
        return _solve_integer(nodes.cdf, q, t, ROUGH_COUNT), np.full(len(q), np.nan)

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
        F, log_p = nodes.cdf_and_density(t, nodes.every)
        wrong = ~((F >= q - 1e-14) & (F - np.exp(log_p) < q - 1e-14))
        same = np.abs(logit(np.clip(F, 1e-300, 1.0 - 1e-16)) - before[0]) < SAME
        same &= (np.abs(log_p - before[1]) < SAME_MASS) & ~wrong
        if len(i := np.flatnonzero(wrong)):
            t[i] = _solve_integer(lambda y, k: nodes.cdf(y, i[k]), q[i], t[i], ROUGH_COUNT)
            F, log_p = nodes.cdf_and_density(t, nodes.every)
        return t, np.stack([logit(np.clip(F, 1e-300, 1.0 - 1e-16)), log_p]), same

    def improve(
        self, nodes: _Nodes, q: np.ndarray, t: np.ndarray, width: np.ndarray, last: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of counts, exact where this lattice resolves F, else rough; where it does."""
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
    """Quantiles as roots of logit F(t) = logit q, (N,), in brackets; `low` or `high` if none.

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
    """Quantiles as roots in brackets [a, b], fa ≤ 0 ≤ fb: inverse quadratic steps where safe.

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
    """Quantiles of counts, (N,): growing steps, then bisection to a relative error."""
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
