"""Integrals over the latents of prediction rows: E_q[exp h(f)] on lattices that adapt to each row.

A density that is narrow against q(f) combs on a fixed grid. Here standardised latents z ~ N(0, I)
are summed on an equally spaced lattice (the trapezoid rule, whose error falls geometrically once
the spacing resolves the integrand). Sub-lattices of every lattice are compared: where they
disagree, the row goes to the next lattice with twice the nodes. The lattices are rotated by an
angle whose slopes are badly approximable numbers: a ridge of relative width ε, along an axis or
across it (f − g in Beta, f + g in Poisson), takes O(1/ε) nodes in two dimensions and not O(1/ε²).
Where the mode of the integrand lies far out in q (an outlier), the window of the lattice moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from ..errors import QuadratureWarning, warn
from ..expectations.quadrature import row_blocks, sobol_rule

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
GOLDEN = 0.5 * (1.0 + np.sqrt(5.0))
"""A square lattice turned by this slope never has two nodes at the same value of one latent."""
SPACING = 0.75
"""Nodes of level 0 are this far apart, in standard deviations: smooth integrands are then exact
to about 1e-12, the size of the Gaussian's transform at 2π/SPACING."""
REACH = {1: 7.5, 2: 7.5, 3: 6.5}
"""Nodes lie within so many standard deviations of the centre, by the number of latents: the
Gaussian has less than 1e-9 of its mass outside. Three latents have less room for nodes."""
LAST_LEVEL = {1: 12, 2: 8, 3: 5}
"""The number of nodes doubles with each level, up to this one, by the number of latents."""
SHARE = {1: 0.45, 2: 0.25, 3: 0.15}
"""One node may hold this share of a sum; if one holds more, the lattice does not resolve the
peak."""
SPREAD = {1: 5e-4, 2: 5e-4, 3: 1e-2}
"""Sub-lattices (of spacing 2h) may disagree by this share of a sum; the error of the whole lattice
(of spacing h) is about the square of it."""
MASS = 1e-7
"""On a lattice that resolves a cdf the total weight differs from 1 by at most this."""
NEGLIGIBLE = 1e-10
"""A cdf on whose value sub-lattices agree to this is resolved, whatever the density does."""
BESIDE = 3.5
"""A window of its own reach moves where its end is less than this from the mode."""
KEEP, MOVES = 3.0, 100
"""A moving window has its centre KEEP standard deviations behind the mode; it moves MOVES times."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """A lattice of nodes x (dim, K) for integrals over latents x ~ N(0, I).

    Σ exp(log_volume + log φ(x)) h(x) ≈ E[h(x)].

    Sub-lattices are contiguous: `starts` are their first nodes.
    """

    x: np.ndarray
    log_volume: np.ndarray
    starts: np.ndarray

    @property
    def size(self) -> int:
        """Number of nodes K of a lattice of latents."""
        return self.x.shape[1]


@lru_cache(maxsize=64)
def lattice(dim: int, level: int, reach: float | None = None) -> Lattice:
    """The rotated cubic lattice of volume SPACING^dim / 2^level in a ball; Sobol from 4 latents."""
    if dim > 3:
        return _sobol_lattice(dim, level)
    h = SPACING * 2.0 ** (-level / dim)
    reach = REACH[dim] if reach is None else reach
    side = np.arange(-int(reach / h) - 1, int(reach / h) + 2)
    index = np.stack(np.meshgrid(*[side] * dim, indexing="ij")).reshape(dim, -1)  # (dim, K)
    index = index[:, _radius(index) <= reach / h * (1.0 + 1e-12)]
    label = 2 ** np.arange(dim) @ (index % 2)  # 2^dim sub-lattices of spacing 2h
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], np.arange(label.max() + 1))
    x = _rotation(dim) @ (h * index[:, order])
    return Lattice(x, np.full(x.shape[1], dim * np.log(h)), starts)


def _radius(x: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(np.square(x, dtype=float), axis=0))


def _rotation(dim: int) -> np.ndarray:
    """A rotation of lattice nodes; entries (of degree dim) that rationals approximate badly."""
    if dim == 2:  # slopes 1/φ of the axes, φ³ of the diagonals
        c, s = np.array([GOLDEN, 1.0]) / np.hypot(GOLDEN, 1.0)
        return np.array([[c, -s], [s, c]])
    k = np.arange(1, 4)
    return (
        np.eye(1) if dim == 1 else 2.0 / np.sqrt(7.0) * np.sin(2.0 * np.pi / 7.0 * np.outer(k, k))
    )


def _sobol_lattice(dim: int, level: int) -> Lattice:
    """Sobol nodes of the latents as a lattice: equal weights under N(0, I) written as volumes.

    Two interleaved halves are its sub-lattices.
    """
    rule = sobol_rule(dim, 2 ** (12 + max(level, 0)))
    x = np.stack([column[:, 0] for column in rule.x])
    x = np.concatenate([x[:, ::2], x[:, 1::2]], axis=1)
    log_phi = -0.5 * np.sum(x * x, axis=0) - dim * LOG_SQRT_2PI
    count = x.shape[1]
    return Lattice(x, -np.log(count) - log_phi, np.array([0, count // 2]))


class Mixture(Protocol):
    """A predictive mixture p(y) = ∫ p(y | z) π(z) dz of n rows, z the `dim` standard latents."""

    dim: int
    far: float
    """A mode of the integrand that lies this far from the window's centre moves the window."""

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log π(z) of a mixture, (K, N) or (K, 1), and the latents (K, N) at z (dim, K, N or 1)."""
        ...

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log p(y | latents) at nodes of a mixture, (K, N) for y (N,)."""
        ...

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """P(Y ≤ y | latents) at nodes of a mixture, (K, N) for y (N,)."""
        ...

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log P(Y > t | latents) at nodes of a mixture, (K, N) for t (N,)."""
        ...

    def middle(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """A quantile of a mixture of about the right size, (N,): the first of `guess`."""
        ...

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A quantile of a mixture of about the right size, and two around it, (N,) each."""
        ...


LogFunction = Callable[[np.ndarray, np.ndarray, tuple], np.ndarray]


def log_expectation(
    mixture: Mixture,
    function: LogFunction,
    y: np.ndarray,
    rows: np.ndarray,
    *,
    probe: LogFunction | None = None,
    follow: bool = True,
    reach: float | None = None,
    floor: float | np.ndarray = -np.inf,
    nothing: float = 0.0,
) -> np.ndarray:
    """The integral log E[exp h(y, z)] over the latents z ~ π of each prediction row, (N,).

    It is −inf where exp h is 0 at every node.

    Parameters
    ----------
    function: h(y, rows, latents), (K, N): `mixture.log_density`, or a log-cdf, a log-survival.
    y, rows: (N,), targets and the rows of the mixture they belong to.
    probe: for a function that is a step in the latents: the log-density whose peak must be
        resolved, because sub-lattices can agree on a step by chance.
    follow: move the window to the mode where that is far out.
    reach: of the window, in standard deviations, for a tail, whose mode is not near the centre, or
        which has several; else that of a density. Even the smallest tail is then resolved.
    floor: values below it, a number or (N,), are not refined.
    nothing: for a function that is the logarithm of a probability P: where E[P (1 − P)] is below
        it P is all but 0 or 1 wherever π is, and nothing has to be resolved.
    """
    result = np.empty(len(y))
    centre = np.zeros((mixture.dim, len(y)))
    todo = np.arange(len(y))
    last, far = LAST_LEVEL.get(mixture.dim, 2), None
    floors = np.broadcast_to(floor, len(y))
    if follow:
        far = mixture.far if reach is None or mixture.dim > 3 else reach - BESIDE
    with np.errstate(all="ignore"):  # A log-density may well be −inf.
        for level in range(last + 1):
            grid = lattice(mixture.dim, level, reach)
            coarse = np.zeros(len(todo), dtype=bool)
            for part in row_blocks(len(todo), grid.size):
                block = todo[part]
                args = (mixture, function, y[block], rows[block], grid, probe, nothing)
                options = centre[:, block], far, reach is not None
                result[block], done, centre[:, block] = _window_sum(*args, *options)
                coarse[part] = ~(done | (result[block] < floors[block]))
            todo = todo[coarse]
            if not len(todo):
                return result
    warn(
        f"{len(todo)} of {len(y)} predictive values are inaccurate even with {grid.size} nodes: "
        "the posterior is over a thousand times wider than the noise, or the density has a kink.",
        QuadratureWarning,
    )
    return result


def _window_sum(
    mixture: Mixture,
    function: LogFunction,
    y: np.ndarray,
    rows: np.ndarray,
    grid: Lattice,
    probe: LogFunction | None,
    nothing: float,
    centre: np.ndarray,
    far: float | None,
    relative: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sum over one lattice of nodes: log sums (N,), if resolved (N,), new centres (dim, N)."""
    value, done = np.empty(len(y)), np.empty(len(y), dtype=bool)
    todo = np.arange(len(y))
    for _ in range(MOVES):
        z = grid.x[:, :, None] + (centre[:, None, todo] if centre.any() else 0.0)
        log_base, latents = mixture.nodes(rows[todo], z)
        log_base = log_base + grid.log_volume[:, None]
        terms = log_base + function(y[todo], rows[todo], latents)
        value[todo], done[todo] = _sum(terms, grid)
        if probe is not None:
            density = log_base + probe(y[todo], rows[todo], latents)
            weights = np.exp(log_base)
            mass, values = weights.sum(axis=0), np.exp(terms)
            resolved = step_resolved(mass, density, weights, values, grid)[0]
            if (moved := centre[:, todo].any(axis=0)).any():
                # Its window leaves most of the mass out: the peaks alone have to be resolved.
                resolved |= moved & _sum(density, grid)[1]
            done[todo] = resolved & done[todo] if relative else resolved
            if nothing > 0.0:
                # At a node of weight w it is w P (1 − P).
                uncertain = values - np.exp(2.0 * terms - log_base)
                done[todo] |= (np.nansum(uncertain, axis=0) < nothing) & (np.abs(mass - 1.0) < MASS)
        if far is None:
            break
        step = grid.x[:, np.nanargmax(np.fmax(terms, -1e300), axis=0)]
        mode = centre[:, todo] + step
        new = mode * np.maximum(0.0, 1.0 - KEEP / np.maximum(_radius(mode), 1e-300))
        moving = (_radius(step) > far) & np.isfinite(value[todo])
        moving &= _radius(new - centre[:, todo]) > 0.5
        centre[:, todo] = np.where(moving | centre[:, todo].any(axis=0), new, 0.0)
        todo = todo[moving]
        if not len(todo):
            break
    return value, done, centre


def step_resolved(
    mass: np.ndarray, density: np.ndarray, weights: np.ndarray, values: np.ndarray, grid: Lattice
) -> tuple[np.ndarray, np.ndarray]:
    """Whether a lattice resolves the sum of a step function of the latents, and log p, (N,).

    A step is resolved where the weights add up to one (`mass`), and either the log-density (K, N)
    that makes the step is resolved or sub-lattices agree on the sum of the values w P (K, N). At a
    centre of symmetry they agree on w P whatever the step is: they have to on w P (1 − P) too.
    """
    log_p, smooth = _sum(density, grid)
    agree = _disagreement(values, grid) < NEGLIGIBLE
    doubtful = np.flatnonzero(agree & ~smooth)
    if len(doubtful):
        P = values[:, doubtful]
        w = weights if weights.shape[1] == 1 else weights[:, doubtful]
        unsure = np.where(w > 0.0, P - P * P / w, 0.0)
        agree[doubtful] = _disagreement(unsure, grid) < NEGLIGIBLE
    return (np.abs(mass - 1.0) < MASS) & (smooth | agree), log_p


def _disagreement(values: np.ndarray, grid: Lattice) -> np.ndarray:
    """The largest difference between what sub-lattices of nodes say of a sum, (N,)."""
    return np.ptp(np.add.reduceat(values, grid.starts, axis=0) * len(grid.starts), axis=0)


def _sum(terms: np.ndarray, grid: Lattice) -> tuple[np.ndarray, np.ndarray]:
    """log Σ exp(terms) over lattice nodes (N,), nan as −inf; whether sub-lattices agree (N,)."""
    top = np.fmax.reduce(terms, axis=0)
    finite = np.isfinite(top)
    weights = np.exp(terms - np.where(finite, top, 0.0))  # The largest weight is 1.
    parts = np.add.reduceat(weights, grid.starts, axis=0)  # (cosets, N)
    if np.isnan(parts).any():
        parts = np.add.reduceat(np.nan_to_num(weights, nan=0.0), grid.starts, axis=0)
    total = parts.sum(axis=0)
    share, spread = SHARE.get(len(grid.x), 0.15), SPREAD.get(len(grid.x), 1e-2)
    resolved = (np.ptp(parts, axis=0) * len(parts) < spread * total) & (total * share > 1.0)
    value = np.where(finite, top + np.log(total), np.where(np.isnan(top), -np.inf, top))
    return value, resolved | ~finite
