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

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, ndtr, ndtri, polygamma

from .errors import QuadratureWarning
from .quadrature import row_blocks, sobol_rule

__all__ = ["GaussianLatents", "Lattice", "Mixture", "ScaleMixture", "lattice", "log_expectation"]

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
GOLDEN = 0.5 * (1.0 + np.sqrt(5.0))
SPACING = 0.75
REACH = {1: 7.5, 2: 7.5, 3: 6.5}
LAST_LEVEL = {1: 12, 2: 8, 3: 5}
SHARE = {1: 0.45, 2: 0.25, 3: 0.15}
"""Largest part of the sum that one node may hold; more, and the peak is not resolved."""
SPREAD = {1: 1e-3, 2: 1e-3, 3: 1e-2}
"""Largest relative disagreement of sub-lattices (spacing 2h); the error at h is its square."""
MASS = 1e-7
"""Largest error of the total weight of a lattice on which a cdf is computed."""
NEGLIGIBLE = 1e-10
"""Sub-lattices of a cdf that agree to this are converged, whatever the density does."""
KNOTS, SD_FLOOR = 400, 0.03
"""Knots in log(sd + SD_FLOOR) of the interpolated mixing density."""
KEEP, MOVES = 3.0, 100
"""A window that moves has its centre KEEP standard deviations behind the mode."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """Nodes x (dim, K) with Σ exp(log_volume + log φ(x)) h(x) ≈ E[h(x)], x ~ N(0, I).

    Sub-lattices are contiguous: `starts` are their first nodes.
    """

    x: np.ndarray
    log_volume: np.ndarray
    starts: np.ndarray

    @property
    def size(self) -> int:
        """Number of nodes K."""
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
    """Orthogonal, with entries that integer relations approximate badly (fields of degree dim)."""
    if dim == 2:  # slopes 1/φ of the axes, φ³ of the diagonals
        c, s = np.array([GOLDEN, 1.0]) / np.hypot(GOLDEN, 1.0)
        return np.array([[c, -s], [s, c]])
    k = np.arange(1, 4)
    return (
        np.eye(1) if dim == 1 else 2.0 / np.sqrt(7.0) * np.sin(2.0 * np.pi / 7.0 * np.outer(k, k))
    )


def _sobol_lattice(dim: int, level: int) -> Lattice:
    """Equal weights under N(0, I) written as volumes: two interleaved halves as sub-lattices."""
    rule = sobol_rule(dim, 2 ** (12 + max(level, 0)))
    x = np.stack([column[:, 0] for column in rule.x])
    x = np.concatenate([x[:, ::2], x[:, 1::2]], axis=1)
    log_phi = -0.5 * np.sum(x * x, axis=0) - dim * LOG_SQRT_2PI
    count = x.shape[1]
    return Lattice(x, -np.log(count) - log_phi, np.array([0, count // 2]))


class Mixture(Protocol):
    """p(y) = ∫ p(y | z) π(z) dz for each of n rows, z the `dim` standardised latents."""

    dim: int
    far: float
    """A mode of the integrand that lies this far from the window's centre moves the window."""

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log π(z), (K, N) or (K, 1), and the latents (K, N) at z (dim, K, N or 1)."""
        ...

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log p(y | latents), (K, N) for y (N,)."""
        ...

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """P(Y ≤ y | latents), (K, N) for y (N,)."""
        ...

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A quantile of about the right size, and two others that tell the spread, (N,) each."""
        ...


class GaussianLatents:
    """p(y | f), f_j = m_j + sqrt(v_j) z_j: any likelihood. kw: its parameters and metadata."""

    far = 5.0

    def __init__(
        self, likelihood: Any, means: np.ndarray, variances: np.ndarray, kw: dict[str, Any]
    ) -> None:
        self.likelihood, self.kw = likelihood, kw
        self.means, self.scales = means.T, np.sqrt(variances.T)  # (b, n)
        self.dim = len(self.means)

    def keywords(self, rows: np.ndarray) -> dict[str, Any]:
        """Keywords of the likelihood's methods for these rows."""
        return {key: value[rows] if np.ndim(value) else value for key, value in self.kw.items()}

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log N(z; 0, I) and f = m + sqrt(v) z; see `Mixture`."""
        latents = self.means[:, None, rows] + self.scales[:, None, rows] * z
        return -0.5 * np.sum(z * z, axis=0) - self.dim * LOG_SQRT_2PI, tuple(latents)

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log p(y | f); see `Mixture`."""
        return self.likelihood.log_density(y, *latents, **self.keywords(rows))

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """P(Y ≤ y | f); see `Mixture`."""
        return self.likelihood.cdf(y, *latents, **self.keywords(rows))

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles at the mean of q, and the extremes one sd to either side of each latent."""
        centre, kw = self.means[:, rows], self.keywords(rows)
        middle = self.likelihood.ppf(q, *centre, **kw)
        around = [
            self.likelihood.ppf(np.full(len(q), level), *centre, **kw) for level in (0.2, 0.8)
        ]
        for j in range(self.dim):
            for sign in (-1.0, 1.0):
                moved = centre.copy()
                moved[j] += sign * self.scales[j, rows]
                around.append(self.likelihood.ppf(q, *moved, **kw))
        return middle, np.fmin.reduce(around), np.fmax.reduce(around)


class ScaleMixture:
    """y | f, g ~ N(f, e^g/λ), λ ~ Gamma(a, a) (a = ∞: λ = 1), f integrated exactly.

    p(y) = ∫ N(y; m_f, v_f + e^s) r(s) ds, where s = g − log λ has the density r: N(m_g, v_g)
    convolved with that of −log λ. HetGaussian has a = ∞, HetStudentT a = ν/2. One dimension,
    smooth on the unit scale of s whatever v_f is.
    """

    dim = 1
    far = 7.0  # the window is not symmetric around the bulk

    def __init__(self, means: np.ndarray, variances: np.ndarray, shape: float) -> None:
        (self.m_f, self.m_g), (self.v_f, self.v_g) = means.T, variances.T
        self.shape, self.sd_g = shape, np.sqrt(self.v_g)
        # the window: 7.5 sd of g, and all but about e^{−32} of the mass of λ on either side
        high, low = _log_gamma_range(shape, 32.0)
        low, high = np.hypot(REACH[1] * self.sd_g, low), np.hypot(REACH[1] * self.sd_g, high)
        self.centre = self.m_g + 0.5 * (high - low)
        self.scale = 0.5 * (high + low) / REACH[1] + 1e-12
        # the length on which the density of log λ varies
        self.width = min(float(np.sqrt(polygamma(1, shape))), 1.0) if np.isfinite(shape) else 0.0
        self._splines: dict[int, CubicSpline] = {}

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log density of z, and the inverse sd (v_f + e^s)^{−½}; see `Mixture`."""
        offset = (self.centre - self.m_g)[rows] + self.scale[rows] * z[0]  # s − m_g
        if np.isfinite(self.shape) and z.shape[2] == 1 and len(self.m_f) > 2 * KNOTS:
            log_base = self._spline(z[0])(np.log(self.sd_g[rows] + SD_FLOOR)).T
        else:
            log_base = self._log_density_s(offset, self.sd_g[rows]) + np.log(self.scale[rows])
        return log_base, (1.0 / np.sqrt(self.v_f[rows] + np.exp(self.m_g[rows] + offset)),)

    def _spline(self, z: np.ndarray) -> CubicSpline:
        """log π at the nodes z (K, 1), a function of the standard deviation of g alone.

        The convolution costs 40 exponentials a node: for many rows it is interpolated.
        """
        if z.size not in self._splines:
            t = np.log(self.sd_g + SD_FLOOR)
            t = np.linspace(t.min() - 0.01, t.max() + 0.01, KNOTS)
            sd = np.maximum(np.exp(t) - SD_FLOOR, 0.0)
            knots = ScaleMixture(np.zeros((KNOTS, 2)), np.stack([sd, sd], 1) ** 2, self.shape)
            values = knots.nodes(np.arange(KNOTS), z[None])[0]  # (K, KNOTS)
            self._splines[z.size] = CubicSpline(t, np.maximum(values, -700.0).T)
        return self._splines[z.size]

    def _log_density_s(self, s: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """log r(s + m_g), (K, N), for sd (N,) of g."""
        sd = np.maximum(sd, 1e-12)
        if np.isinf(self.shape):
            return -0.5 * (s / sd) ** 2 - np.log(sd) - LOG_SQRT_2PI
        result = np.empty(s.shape)
        narrow = sd <= 0.45 * self.width
        for rows, part in ((narrow, self._over_g), (~narrow, self._over_u)):
            if rows.any():
                result[:, rows] = part(s[:, rows], sd[rows])
        return result

    def _log_gamma_density(self, u: np.ndarray) -> np.ndarray:
        """log density of u = log λ."""
        a = self.shape
        return a * (np.log(a) + u - np.exp(u)) - gammaln(a)

    def _over_g(self, s: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """log ∫ N(g; 0, sd²) p_u(g − s) dg, on nodes of g: for sd below the width of p_u."""
        peak = np.full(s.shape, -np.inf)
        total = np.zeros(s.shape)
        base = lattice(1, 0)
        for x, log_volume in zip(base.x[0], base.log_volume, strict=True):
            term = self._log_gamma_density(sd * x - s) + (log_volume - 0.5 * x * x - LOG_SQRT_2PI)
            top = np.maximum(peak, term)
            total = total * np.exp(peak - top) + np.exp(term - top)
            peak = top
        return peak + np.log(total)

    def _over_u(self, s: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """log ∫ N(s + u; 0, sd²) p_u(u) du, on nodes of u: for sd above the width of p_u."""
        step = 0.35 * self.width
        low, high = _log_gamma_range(self.shape, 40.0)
        nodes = np.arange(-low, high + step, step)
        total = np.zeros(s.shape)
        for u, log_p in zip(nodes, self._log_gamma_density(nodes), strict=True):
            total += np.exp(log_p - 0.5 * ((s + u) / sd) ** 2)
        return np.log(total) + (np.log(step) - np.log(sd) - LOG_SQRT_2PI)

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log N(y; m_f, v_f + e^s); see `Mixture`."""
        (inverse,) = latents
        return np.log(inverse) - 0.5 * ((y - self.m_f[rows]) * inverse) ** 2 - LOG_SQRT_2PI

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """Φ((y − m_f)/sqrt(v_f + e^s)); see `Mixture`."""
        return ndtr((y - self.m_f[rows]) * latents[0])

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Normal quantiles with the variance at the centre of q(g)."""
        scale = np.sqrt(self.v_f[rows] + np.exp(self.m_g[rows]))
        middle = self.m_f[rows] + scale * ndtri(q)
        return middle, middle - 0.5 * scale, middle + 0.5 * scale


def _log_gamma_range(shape: float, nats: float) -> tuple[float, float]:
    """Distances l, r with P(u < −l), P(u > r) ≤ e^{−nats} for u = log λ, λ ~ Gamma(a, a)."""
    x = nats / shape  # Chernoff bounds: λ > 1 + sqrt(2x) + x, and |u| − 1 + e^{−|u|} > x
    reach = x + np.sqrt(2.0 * x)
    return reach, np.log1p(reach)


LogFunction = Callable[[np.ndarray, np.ndarray, tuple], np.ndarray]


def log_expectation(
    mixture: Mixture,
    function: LogFunction,
    y: np.ndarray,
    rows: np.ndarray,
    *,
    probe: LogFunction | None = None,
    follow: bool = True,
    floor: float = -np.inf,
) -> np.ndarray:
    """log E[exp h(y, z)], z ~ π of each row, (N,): −inf where exp h is 0 at every node.

    Parameters
    ----------
    function: h(y, rows, latents), (K, N): `mixture.log_density`, or a log-cdf, a log-survival.
    y, rows: (N,), targets and the rows of the mixture they belong to.
    probe: for a function that is a step in the latents: the log-density whose peak must be
        resolved, because sub-lattices can agree on a step by chance.
    follow: move the window to the mode where that is far out.
    floor: values below it are not refined.
    """
    result = np.empty(len(y))
    centre = np.zeros((mixture.dim, len(y)))
    todo = np.arange(len(y))
    last = LAST_LEVEL.get(mixture.dim, 2)
    with np.errstate(all="ignore"):  # −inf is a legitimate log-density
        for level in range(last + 1):
            grid = lattice(mixture.dim, level)
            coarse = np.zeros(len(todo), dtype=bool)
            for part in row_blocks(len(todo), grid.size):
                block = todo[part]
                args = (mixture, function, y[block], rows[block], grid, probe)
                result[block], done, centre[:, block] = _window_sum(*args, centre[:, block], follow)
                coarse[part] = ~(done | (result[block] < floor))
            todo = todo[coarse]
            if not len(todo):
                return result
    warnings.warn(
        f"{len(todo)} of {len(y)} predictive values did not converge on {grid.size} nodes: q is "
        "more than a thousand times wider than the noise, or the density has a kink.",
        QuadratureWarning,
        stacklevel=4,
    )
    return result


def _window_sum(
    mixture: Mixture,
    function: LogFunction,
    y: np.ndarray,
    rows: np.ndarray,
    grid: Lattice,
    probe: LogFunction | None,
    centre: np.ndarray,
    follow: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One lattice for all entries: log sums (N,), whether resolved (N,), new centres (dim, N)."""
    value, done = np.empty(len(y)), np.empty(len(y), dtype=bool)
    todo = np.arange(len(y))
    for _ in range(MOVES):
        z = grid.x[:, :, None] + (centre[:, None, todo] if centre.any() else 0.0)
        log_base, latents = mixture.nodes(rows[todo], z)
        log_base = log_base + grid.log_volume[:, None]
        terms = log_base + function(y[todo], rows[todo], latents)
        value[todo], done[todo], best = _sum(terms, grid)
        if probe is not None:
            density = log_base + probe(y[todo], rows[todo], latents)
            done[todo] = step_resolved(log_base, density, np.exp(terms), grid)
        step = grid.x[:, best]
        mode = centre[:, todo] + step
        new = mode * np.maximum(0.0, 1.0 - KEEP / np.maximum(_radius(mode), 1e-300))
        moving = follow & (_radius(step) > mixture.far) & np.isfinite(value[todo])
        moving &= _radius(new - centre[:, todo]) > 0.5
        centre[:, todo] = np.where(moving | centre[:, todo].any(axis=0), new, 0.0)
        todo = todo[moving]
        if not len(todo):
            break
    return value, done, centre


def step_resolved(
    log_weights: np.ndarray, density: np.ndarray, values: np.ndarray, grid: Lattice
) -> np.ndarray:
    """Whether a lattice resolves the sum of a step function of the latents, (N,).

    A step is resolved where the weights (K, N) add up to one, and either the log-density (K, N)
    that makes the step is resolved or sub-lattices agree on the sum of the values (K, N).
    """
    mass = np.abs(np.exp(log_weights).sum(axis=0) - 1.0) < MASS
    parts = np.add.reduceat(values, grid.starts, axis=0) * len(grid.starts)
    return mass & (_sum(density, grid)[1] | (np.ptp(parts, axis=0) < NEGLIGIBLE))


def _sum(terms: np.ndarray, grid: Lattice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Σ exp(terms) (N,), whether sub-lattices agree (N,), index of the largest term (N,)."""
    terms = np.where(np.isnan(terms), -np.inf, terms)
    best = np.argmax(terms, axis=0)
    top = np.take_along_axis(terms, best[None], axis=0)[0]
    finite = np.isfinite(top)
    weights = np.exp(terms - np.where(finite, top, 0.0))  # the largest is 1
    parts = np.add.reduceat(weights, grid.starts, axis=0)  # (cosets, N)
    total = parts.sum(axis=0)
    share, spread = SHARE.get(len(grid.x), 0.15), SPREAD.get(len(grid.x), 1e-2)
    resolved = (np.ptp(parts, axis=0) * len(parts) < spread * total) & (total * share > 1.0)
    value = np.where(finite, top + np.log(total), top)
    return value, resolved | ~finite, best
