"""What a predictive distribution is a mixture of: p(y | z) and π(z) of each row, z ~ `dim` latents.

Any likelihood is a mixture over all its latents (`GaussianLatents`). Where some of them can be
integrated exactly, fewer are left, and the rest is smooth: a latent in which y is normal
(`ScaleMixture`, `NormalInFirst`), log-odds of point masses (`WithOdds`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, polygamma

from ..data.rows import rows_of
from ..data.types import Keywords
from ..expectations.quadrature import row_blocks
from ..likelihoods import Inflated, Likelihood
from ..likelihoods.observation import TINY, seen
from .nodes import LOG_SQRT_2PI, REACH, Mixture, lattice

__all__ = ["GaussianLatents", "NormalInFirst", "ScaleMixture", "WithOdds", "mixture_of"]

KNOTS, SD_FLOOR = 400, 0.03
"""The mixing density is interpolated between so many values of log(sd + SD_FLOOR), sd that of g."""
ODDS_LEVEL = 3
"""The lattice over log-odds has this level: sums are right to 1e-9 for their sd of up to 3."""


def mixture_of(
    likelihood: Likelihood, means: np.ndarray, variances: np.ndarray, kw: Keywords
) -> Mixture:
    """The mixture over the fewest latents; means and variances (n, b), kw as the likelihood's."""
    if isinstance(likelihood, Inflated):
        return WithOdds(likelihood, means, variances, kw)
    law = declared_normal(likelihood, rows_of(kw, slice(1)))
    if law is None or not law.is_of_density:  # It may be inherited from another density.
        return GaussianLatents(likelihood, means, variances, kw)
    if law.shape is not None:
        return ScaleMixture(means, variances, law.shape)
    return NormalInFirst(likelihood, means, variances, kw)


class DeclaredNormal(NamedTuple):
    """What a likelihood declares of y given the first latent, held against its density.

    shape: that of `normal_scale_mixture`; None where it declares `normal_in_first`.
    method: the name of the member. want, got: log-densities of a few y, declared and given (k,).
    """

    shape: float | None
    method: str
    want: np.ndarray
    got: np.ndarray

    @property
    def is_of_density(self) -> bool:
        """Whether both say the same."""
        return np.allclose(self.got, self.want, rtol=1e-6, atol=1e-6)


def declared_normal(likelihood: Likelihood, kw: Keywords) -> DeclaredNormal | None:
    """`normal_scale_mixture` or `normal_in_first`, or None where neither is declared.

    kw: parameters, and metadata of one row.
    """
    rest = -0.2 * np.arange(1.0, len(likelihood.latents))[:, None] * np.ones(3)
    if (shape := likelihood.normal_scale_mixture(**kw)) is not None:
        method, slope, variance = "normal_scale_mixture", np.ones(3), np.exp(rest[0])
    elif (pair := likelihood.normal_in_first(*rest, **kw)) is not None:
        method, (slope, variance) = "normal_in_first", pair
    else:
        return None
    f, z = np.full(3, 0.3), np.array([0.0, -0.7, 2.5])
    want = -0.5 * np.log(variance) + _log_standard(z, np.inf if shape is None else shape)
    got = likelihood.log_density(slope * f + z * np.sqrt(variance), f, *rest, **kw)
    return DeclaredNormal(shape, method, want, got)


def _log_standard(z: np.ndarray, shape: float) -> np.ndarray:
    """log ∫ N(z; 0, 1/λ) Gamma(λ; a, a) dλ: a Student-t with 2a degrees of freedom."""
    if np.isinf(shape):
        return -0.5 * z * z - LOG_SQRT_2PI
    constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2.0 * np.pi * shape)
    return constant - (shape + 0.5) * np.log1p(0.5 * z * z / shape)


class GaussianLatents:
    """p(y | f), f_j = m_j + sqrt(v_j) z_j: any likelihood. kw: its parameters and metadata."""

    far = 5.0

    def __init__(
        self, likelihood: Likelihood, means: np.ndarray, variances: np.ndarray, kw: Keywords
    ) -> None:
        self.likelihood, self.kw = likelihood, kw
        self.means, self.scales = means.T, np.sqrt(variances.T)  # (b, n)
        self.dim = len(self.means)

    def keywords(self, rows: np.ndarray) -> Keywords:
        """Keywords of the likelihood's methods for these rows."""
        return rows_of(self.kw, rows)

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

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log P(T > t | f), (K, N), of an event time."""
        return self.likelihood.log_survival(t, *latents, **self.keywords(rows))

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
    far = 7.0  # The window is not symmetric around the bulk.

    def __init__(self, means: np.ndarray, variances: np.ndarray, shape: float) -> None:
        (self.m_f, self.m_g), (self.v_f, self.v_g) = means.T, variances.T
        self.shape, self.sd_g = shape, np.sqrt(self.v_g)
        # The window holds 7.5 sd of g, and on either side all but about e^{−32} of the mass of λ.
        high, low = _log_gamma_range(shape, 32.0)
        low, high = np.hypot(REACH[1] * self.sd_g, low), np.hypot(REACH[1] * self.sd_g, high)
        self.centre = self.m_g + 0.5 * (high - low)
        self.scale = 0.5 * (high + low) / REACH[1] + 1e-12
        # The density of log λ varies on this length.
        self.width = min(float(np.sqrt(polygamma(1, shape))), 1.0) if np.isfinite(shape) else 0.0
        self._splines: dict[int, Any] = {}

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log density of z, and the inverse sd (v_f + e^s)^{−½}; see `Mixture`."""
        offset = (self.centre - self.m_g)[rows] + self.scale[rows] * z[0]  # s − m_g
        if np.isfinite(self.shape) and z.shape[2] == 1 and len(self.m_f) > 2 * KNOTS:
            log_base = self._spline(z[0])(np.log(self.sd_g[rows] + SD_FLOOR)).T
        else:
            log_base = self._log_density_s(offset, self.sd_g[rows]) + np.log(self.scale[rows])
        return log_base, (1.0 / np.sqrt(self.v_f[rows] + np.exp(self.m_g[rows] + offset)),)

    def _spline(self, z: np.ndarray) -> Any:
        """log π at the nodes z (K, 1), a function of the standard deviation of g alone.

        The convolution costs 40 exponentials a node: for many rows it is interpolated.
        """
        from scipy.interpolate import CubicSpline  # This is slow to import and rarely needed.

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


class NormalInFirst(GaussianLatents):
    """y | f, rest ~ N(a f, s), a and s functions of the rest, f ~ N(m, v) integrated exactly.

    p(y) = ∫ N(y; a m, a² v + s) q(rest), with (a, s) = likelihood.normal_in_first(*rest).
    """

    def __init__(
        self, likelihood: Likelihood, means: np.ndarray, variances: np.ndarray, kw: Keywords
    ) -> None:
        super().__init__(likelihood, means[:, 1:], variances[:, 1:], kw)
        self.first = means[:, 0], variances[:, 0]

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log N(z; 0, I), and mean and inverse sd of y; see `Mixture`."""
        log_base, rest = super().nodes(rows, z)
        slope, variance = self.likelihood.normal_in_first(*rest, **self.keywords(rows))
        m, v = (part[rows] for part in self.first)
        return log_base, (slope * m, 1.0 / np.sqrt(slope**2 * v + variance))

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log N(y; a m, a² v + s); see `Mixture`."""
        mean, inverse = latents
        return np.log(inverse) - 0.5 * ((y - mean) * inverse) ** 2 - LOG_SQRT_2PI

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """Φ((y − a m)/sqrt(a² v + s)); see `Mixture`."""
        return ndtr((y - latents[0]) * latents[1])

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Normal quantiles at the mean of q."""
        mean, inverse = (part[0] for part in self.nodes(rows, np.zeros((self.dim, 1, 1)))[1])
        middle = mean + ndtri(q) / inverse
        return middle, middle - 0.5 / inverse, middle + 0.5 / inverse


class WithOdds:
    """p(y) = r p_base(y) + Σ_k w_k [y = a_k]: an `Inflated` likelihood.

    Under q the log-odds are independent of the base's latents. So r = E[1/Z] and w_k = E[e^{h_k}/Z]
    are numbers for each row, and a mixture over the base's latents is left.
    """

    def __init__(
        self, likelihood: Inflated, means: np.ndarray, variances: np.ndarray, kw: Keywords
    ) -> None:
        c = len(likelihood.base.latents)
        self.likelihood, self.kw = likelihood, kw
        self.inner: Any = mixture_of(likelihood._part, means[:, :c], variances[:, :c], kw)
        self.dim, self.far = self.inner.dim, self.inner.far
        self.share, self.weights = _odds(means[:, c:].T, variances[:, c:].T)  # (n,), (K, n)

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Those of the base; see `Mixture`."""
        return self.inner.nodes(rows, z)

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log(r p_base(y) + Σ w_k [y = a_k]), or of what was seen of y; see `Mixture`."""
        hit, none, safe = self.likelihood._asked(seen(y, rows_of(self.kw, rows)))  # (K, N), (N,) …
        return self._log_total(hit, none, self.inner.log_density(safe, rows, latents), rows)

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log P(T > t), (K, N), of an event time."""
        above = np.less.outer(t, self.likelihood.at).T
        inner = self.inner.log_survival(np.maximum(t, TINY), rows, latents)
        return self._log_total(above, np.zeros(len(t), dtype=bool), inner, rows)

    def _log_total(
        self, hit: np.ndarray, none: np.ndarray, inner: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """log(r P_base + Σ w_k [hit_k]), P_base = exp(inner) but for rows of which it has none."""
        total = np.where(none, -np.inf, np.log(self.share[rows]) + inner)
        for one, weight in zip(hit, self.weights, strict=True):
            total = np.where(one, np.logaddexp(total, np.log(weight[rows])), total)
        return total

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """r F_base(y) + Σ w_k [y ≥ a_k]; see `Mixture`."""
        below = np.greater_equal.outer(y, self.likelihood.at).T * self.weights[:, rows]
        return self.share[rows] * self.inner.cdf(y, rows, latents) + below.sum(axis=0)

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of the base at what is left of q without the atoms below its median."""
        median = self.inner.guess(np.full(len(q), 0.5), rows)[0]
        below = np.less.outer(self.likelihood.at, median) * self.weights[:, rows]
        left = (q - below.sum(axis=0)) / self.share[rows]
        return self.inner.guess(np.clip(left, 1e-6, 1.0 - 1e-6), rows)


def _odds(means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[1/Z] (n,) and E[e^{h_k}/Z] (K, n), Z = 1 + Σ e^{h_k}, for moments (K, n) of h."""
    grid = lattice(len(means), ODDS_LEVEL)
    log_phi = grid.log_volume - 0.5 * np.sum(grid.x**2, axis=0)
    weights = np.exp(log_phi - log_phi.max())
    weights /= weights.sum()
    share, atoms = np.empty(means.shape[1]), np.empty(means.shape)
    for rows in row_blocks(means.shape[1], grid.size):
        h = means[:, None, rows] + np.sqrt(variances[:, None, rows]) * grid.x[:, :, None]
        log_z = np.logaddexp.reduce(np.concatenate([np.zeros((1, *h.shape[1:])), h]), axis=0)
        share[rows] = weights @ np.exp(-log_z)
        atoms[:, rows] = np.einsum("s,ksn->kn", weights, np.exp(h - log_z))
    return share, atoms


def _log_gamma_range(shape: float, nats: float) -> tuple[float, float]:
    """Distances l, r with P(u < −l), P(u > r) ≤ e^{−nats} for u = log λ, λ ~ Gamma(a, a)."""
    x = nats / shape  # Chernoff bounds: λ > 1 + sqrt(2x) + x, and |u| − 1 + e^{−|u|} > x
    reach = x + np.sqrt(2.0 * x)
    return reach, np.log1p(reach)
