"""Predictive mixtures: p(y | z) and π(z) of each row, whose integral over z is predictive.

Any likelihood is a mixture over all its latents (`GaussianLatents`). Where some of them can be
integrated exactly, fewer are left, and the rest is smooth: a latent in which y is normal
(`ScaleMixture`, `NormalInFirst`), log-odds of point masses (`WithOdds`). What is seen of y after it
was rounded is the probability of an interval under the mixture of y itself (`WithRounding`).

V is what q says of the latents of a row beside their means: variances (n, b), or covariances
(n, b, b). Correlated latents are f = m + R z, R Rᵀ = V; a latent that is integrated exactly is so
given the others, with a mean that moves with them and the variance that they leave open.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr, ndtri, polygamma

from ..data.rows import rows_of
from ..data.types import Keywords, Value
from ..expectations.levels import LEVELS
from ..expectations.quadrature import cholesky_factors, row_blocks, rule_for
from ..expectations.special import log_normal_between
from ..likelihoods import Inflated, Likelihood, Rounded
from ..likelihoods.observation import TINY, seen
from .nodes import LOG_SQRT_2PI, REACH, Mixture, lattice

KNOTS, SD_FLOOR = 400, 0.03
"""The mixing density of a `ScaleMixture` is interpolated between so many values of
log(sd + SD_FLOOR), where sd is that of g."""
ODDS_LEVEL = 3
"""The lattice over the log-odds of atoms has this level: sums are right to 1e-9 for sds of the
log-odds up to 3."""
ODDS_SDS = (0.3, 0.5, 0.7, 1.1, 1.6, 2.1, np.inf)
"""Sums over log-odds with as many nodes as an entry of LEVELS says are right to 1e-8 for sds up to
the entry here in the same place."""
ODDS_NODES = {1: 64, 2: 20}
"""One log-odds of an atom has at most 64 nodes, each of two at most 20, each of more at most 8."""


def mixture_of(likelihood: Likelihood, means: np.ndarray, V: np.ndarray, kw: Keywords) -> Mixture:
    """The predictive mixture over the fewest latents; means (n, b), kw as the likelihood's."""
    if isinstance(likelihood, Inflated):
        return WithOdds(likelihood, means, V, kw)
    if isinstance(likelihood, Rounded):
        return WithRounding(likelihood, means, V, kw)
    law = declared_normal(likelihood, rows_of(kw, slice(1)))
    # A declaration may be inherited from a likelihood of another density.
    if law is None or not law.is_of_density:
        return GaussianLatents(likelihood, means, V, kw)
    if law.shape is None:
        return NormalInFirst(likelihood, means, V, kw)
    if V.ndim == 2:
        return ScaleMixture(means, V, law.shape)
    return CorrelatedScale(likelihood, means, V, kw, law.shape)


class DeclaredNormal(NamedTuple):
    """What a likelihood declares of y normal in its first latent, held against its density.

    shape: that of `normal_scale_mixture`; None where it declares `normal_in_first`.
    method: the name of the member. want, got: log-densities of a few y, declared and given (k,).
    """

    shape: float | None
    method: str
    want: np.ndarray
    got: np.ndarray

    @property
    def is_of_density(self) -> bool:
        """Whether y is normal in the first latent by its density as well as by declaration."""
        return np.allclose(self.got, self.want, rtol=1e-6, atol=1e-6)


def declared_normal(likelihood: Likelihood, kw: Keywords) -> DeclaredNormal | None:
    """Check that y is normal in the first latent where a likelihood declares it, else None.

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
    """log ∫ N(z; 0, 1/λ) Gamma(λ; a, a) dλ of a scale mixture: a Student-t with ν = 2a."""
    if np.isinf(shape):
        return -0.5 * z * z - LOG_SQRT_2PI
    constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2.0 * np.pi * shape)
    return constant - (shape + 0.5) * np.log1p(0.5 * z * z / shape)


class GaussianLatents:
    """The predictive mixture over all latents, p(y | f), f = m + R z, R Rᵀ = V.

    It serves any likelihood; kw are its parameters and metadata.

    means: (b, n). scales: (b, n), the diagonal of the lower triangular R, sqrt(v_j) in the mean
    field. below: what R has below its diagonal, (j, k, R_jk (n,)).
    """

    far = 5.0

    def __init__(
        self, likelihood: Likelihood, means: np.ndarray, V: np.ndarray, kw: Keywords
    ) -> None:
        self.likelihood, self.kw = likelihood, kw
        self.means, self.dim = means.T, means.shape[1]
        self.below: list[tuple[int, int, np.ndarray]] = []
        if V.ndim == 2:
            self.scales = np.sqrt(V.T)
            return
        R = cholesky_factors(V)
        self.scales = np.diagonal(R).T  # The diagonal of the first two axes comes out as the last.
        self.below = [(j, k, R[j, k]) for j in range(self.dim) for k in range(j)]

    def keywords(self, rows: np.ndarray) -> Keywords:
        """Keywords of the likelihood's methods for some rows of a predictive mixture."""
        return rows_of(self.kw, rows)

    def moved(self, shift: np.ndarray, constants: Mapping[str, Value]) -> GaussianLatents:
        """The same with means that are moved by a shift (b, n), and other parameters."""
        other = copy.copy(self)
        other.means, other.kw = self.means + shift, {**self.kw, **constants}
        return other

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log N(z; 0, I) and latents f = m + R z at nodes of a mixture; see `Mixture`."""
        latents = self.means[:, None, rows] + self.scales[:, None, rows] * z
        for j, k, slope in self.below:
            latents[j] += slope[rows] * z[k]
        return -0.5 * np.sum(z * z, axis=0) - len(z) * LOG_SQRT_2PI, tuple(latents)

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log p(y | f) at nodes of a mixture over all latents; see `Mixture`."""
        return self.likelihood.log_density(y, *latents, **self.keywords(rows))

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """P(Y ≤ y | f) at nodes of a mixture over all latents; see `Mixture`."""
        return self.likelihood.cdf(y, *latents, **self.keywords(rows))

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log P(Y > t | f) at nodes of a mixture, right where it is far below 0, (K, N)."""
        if self.likelihood.event_times:
            return self.likelihood.log_survival(t, *latents, **self.keywords(rows))
        return self.likelihood.log_tails(t, *latents, **self.keywords(rows))[1]

    def middle(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Quantiles of a mixture guessed at the mean of q; see `Mixture`."""
        return self.likelihood.ppf(q, *self.means[:, rows], **self.keywords(rows))

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles at the mean of q, and the extremes one sd to either side along each z_j."""
        moved = [self.means[:, None, rows]] * 3  # at q itself, and at two other levels
        for step in np.eye(self.dim)[:, :, None, None]:
            for sign in (-1.0, 1.0):
                moved.append(np.stack(self.nodes(rows, sign * step)[1]))
        latents = np.concatenate(moved, axis=1)  # (b, 3 + 2 dim, N): all in one call
        levels = np.tile(q, (latents.shape[1], 1))
        levels[1], levels[2] = 0.2, 0.8
        found = self.likelihood.ppf(levels, *latents, **self.keywords(rows))
        return found[0], np.fmin.reduce(found[1:]), np.fmax.reduce(found[1:])


class ScaleMixture:
    """Predictive scale mixture of normals: y | f, g ~ N(f, e^g/λ), f integrated exactly.

    λ ~ Gamma(a, a); for a = ∞, λ = 1.

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
        """Log-density of z, inverse sd (v_f + e^s)^{−½} at a scale mixture's nodes (`Mixture`)."""
        offset = (self.centre - self.m_g)[rows] + self.scale[rows] * z[0]  # s − m_g
        if np.isfinite(self.shape) and z.shape[2] == 1 and len(self.m_f) > 2 * KNOTS:
            log_base = self._spline(z[0])(np.log(self.sd_g[rows] + SD_FLOOR)).T
        else:
            log_base = self._log_density_s(offset, self.sd_g[rows]) + np.log(self.scale[rows])
        return log_base, (1.0 / np.sqrt(self.v_f[rows] + np.exp(self.m_g[rows] + offset)),)

    def _spline(self, z: np.ndarray) -> Any:
        """log π of a scale mixture at the nodes z (K, 1), a function of the sd of g alone.

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
        """log r(s + m_g) of a scale mixture's s = g − log λ, (K, N), for sd (N,) of g."""
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
        """The log-density of u = log λ in a scale mixture."""
        a = self.shape
        return a * (np.log(a) + u - np.exp(u)) - gammaln(a)

    def _over_g(self, s: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Scale mixture's log ∫ N(g; 0, sd²) p_u(g − s) dg on nodes of g, sd below p_u's width."""
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
        """Scale mixture's log ∫ N(s + u; 0, sd²) p_u(u) du on nodes of u, sd above p_u's width."""
        step = 0.35 * self.width
        low, high = _log_gamma_range(self.shape, 40.0)
        nodes = np.arange(-low, high + step, step)
        total = np.zeros(s.shape)
        for u, log_p in zip(nodes, self._log_gamma_density(nodes), strict=True):
            total += np.exp(log_p - 0.5 * ((s + u) / sd) ** 2)
        return np.log(total) + (np.log(step) - np.log(sd) - LOG_SQRT_2PI)

    def normal(self, rows: np.ndarray, latents: tuple) -> tuple[np.ndarray, np.ndarray]:
        """Mean and inverse standard deviation of the normal y at nodes of a scale mixture."""
        return self.m_f[rows], latents[0]

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log N(y; m_f, v_f + e^s) at nodes of a scale mixture; see `Mixture`."""
        (inverse,) = latents
        return np.log(inverse) - 0.5 * ((y - self.m_f[rows]) * inverse) ** 2 - LOG_SQRT_2PI

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """Φ((y − m_f)/sqrt(v_f + e^s)) at nodes of a scale mixture; see `Mixture`."""
        return ndtr((y - self.m_f[rows]) * latents[0])

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log Φ((m_f − t)/sqrt(v_f + e^s)) at nodes of a scale mixture; see `Mixture`."""
        return log_ndtr((self.m_f[rows] - t) * latents[0])

    def middle(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """A quantile of a scale mixture of about the right size; see `Mixture`."""
        return self.guess(q, rows)[0]

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles of a scale mixture guessed as normal, with the variance at q(g)'s centre."""
        scale = np.sqrt(self.v_f[rows] + np.exp(self.m_g[rows]))
        middle = self.m_f[rows] + scale * ndtri(q)
        return middle, middle - 0.5 * scale, middle + 0.5 * scale


class NormalInFirst(GaussianLatents):
    """Predictive mixture of y | f, rest ~ N(a f, s), the first latent f integrated exactly.

    a and s are functions of the rest.

    Given the rest, f ~ N(m + Σ_k r_k z_k, v), r_k = 0 where it is independent of them. So
    p(y) = ∫ N(y; a (m + Σ r_k z_k), a² v + s) N(z; 0, I) dz, (a, s) = normal_in_first(*rest).
    """

    def __init__(
        self, likelihood: Likelihood, means: np.ndarray, V: np.ndarray, kw: Keywords
    ) -> None:
        if V.ndim == 2:
            super().__init__(likelihood, means[:, 1:], V[:, 1:], kw)
            self.shifts: tuple[np.ndarray, ...]
            self.first, self.shifts = (means[:, 0], V[:, 0]), ()
            return
        super().__init__(likelihood, means[:, 1:], V[:, 1:, 1:], kw)
        # The order of the latents: the rest, and then the first.
        last = np.roll(np.arange(V.shape[1]), -1)
        *shifts, scale = cholesky_factors(V[:, last[:, None], last])[-1]
        self.first, self.shifts = (means[:, 0], scale**2), tuple(shifts)

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log N(z; 0, I), and mean and inverse sd of a y normal in f, at nodes; see `Mixture`."""
        log_base, rest = super().nodes(rows, z)
        slope, variance = self.likelihood.normal_in_first(*rest, **self.keywords(rows))
        return log_base, self._mean_and_inverse(rows, z, slope, variance)

    def _mean_and_inverse(
        self, rows: np.ndarray, z: np.ndarray, slope: np.ndarray | float, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean a (m + Σ r_k z_k) and inverse sd (a² v + s)^{−½} of y at nodes, (K, N) each."""
        m, v = (part[rows] for part in self.first)
        for k, shift in enumerate(self.shifts):
            m = m + shift[rows] * z[k]
        return slope * m, 1.0 / np.sqrt(slope**2 * v + variance)

    def normal(self, rows: np.ndarray, latents: tuple) -> tuple[np.ndarray, np.ndarray]:
        """Mean and inverse standard deviation of the normal y at nodes of a mixture."""
        return latents[0], latents[1]

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log N(y; a m, a² v + s) at nodes of a mixture normal in f; see `Mixture`."""
        mean, inverse = latents
        return np.log(inverse) - 0.5 * ((y - mean) * inverse) ** 2 - LOG_SQRT_2PI

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """Φ((y − a m)/sqrt(a² v + s)) at nodes of a mixture normal in f; see `Mixture`."""
        return ndtr((y - latents[0]) * latents[1])

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log Φ((a m − t)/sqrt(a² v + s)) at nodes of a mixture normal in f; see `Mixture`."""
        return log_ndtr((latents[0] - t) * latents[1])

    def middle(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """A quantile of a mixture normal in f, of about the right size; see `Mixture`."""
        return self.guess(q, rows)[0]

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles of a mixture normal in f, guessed as normal at the mean of q."""
        mean, inverse = (part[0] for part in self.nodes(rows, np.zeros((self.dim, 1, 1)))[1])
        middle = mean + ndtri(q) / inverse
        return middle, middle - 0.5 / inverse, middle + 0.5 / inverse


class CorrelatedScale(NormalInFirst):
    """Predictive scale mixture of normals, y | f, g ~ N(f, e^g/λ), with f and g correlated.

    λ ~ Gamma(a, a); for a = ∞, λ = 1.

    p(y) = ∫ N(y; m_f + r z_1, v + e^g/λ) N(z; 0, I) dz, where z_1 is that of g and λ the quantile
    of its distribution at Φ(z_2). `ScaleMixture` has one dimension also for a < ∞, since there f
    does not depend on g.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        means: np.ndarray,
        V: np.ndarray,
        kw: Keywords,
        shape: float,
    ) -> None:
        super().__init__(likelihood, means, V, kw)
        self.shape, self.dim = shape, 1 if np.isinf(shape) else 2

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """log N(z; 0, I), mean and inverse sd of y at nodes of a scale mixture; see `Mixture`."""
        log_base, (g,) = GaussianLatents.nodes(self, rows, z[:1])
        variance = np.exp(g)
        if self.dim == 2:
            log_base = log_base - 0.5 * z[1] ** 2 - LOG_SQRT_2PI
            tail = ndtr(-np.abs(z[1]))  # The smaller tail keeps its digits.
            quantile = np.where(
                z[1] < 0.0, gammaincinv(self.shape, tail), gammainccinv(self.shape, tail)
            )
            variance = variance * (self.shape / quantile)
        return log_base, self._mean_and_inverse(rows, z[:1], 1.0, variance)


class WithOdds:
    """Predictive mixture with atoms, p(y) = E[r p_base(y | f) + Σ_k w_k [y = a_k]] (`Inflated`).

    r = E[1/Z] and w_k = E[e^{h_k}/Z] are over the log-odds h given the base's latents f, so that a
    mixture over f is left. In the mean field they are numbers for each row, and some of f may be
    integrated exactly. Where h and f are correlated, h given f has a mean that moves with z.
    """

    def __init__(
        self, likelihood: Inflated, means: np.ndarray, V: np.ndarray, kw: Keywords
    ) -> None:
        self.likelihood, self.kw, c = likelihood, kw, len(likelihood.base.latents)
        self.inner: Any
        self._known: list[np.ndarray] = []  # r and w_k, (1, n) each, if they do not depend on f
        if V.ndim == 2:
            self.inner = mixture_of(likelihood._part, means[:, :c], V[:, :c], kw)
            share, weights = _odds(means[:, c:].T, V[:, c:].T)
            self._known = [share[None], *weights[:, None]]
        else:
            self.inner = GaussianLatents(likelihood._part, means[:, :c], V[:, :c, :c], kw)
            self._odds_mean, self._odds_rows = means[:, c:].T, cholesky_factors(V)[c:]
        self.dim, self.far = self.inner.dim, self.inner.far

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Nodes of the base's mixture; r and w_k of atoms, (1, N) or (K, N) each; see `Mixture`."""
        log_base, latents = self.inner.nodes(rows, z)
        return log_base, (*latents, *self._shares(rows, z))

    def _shares(self, rows: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
        """Shares r of the base and w_k of the atoms at nodes z.

        With R as in f = m + R z of all latents, h = m_h + R_hf z + R_hh z_h.
        """
        if self._known:
            return [part[:, rows] for part in self._known]
        if z.shape[2] == 1:  # Many targets of a row have the same shares.
            rows, back = np.unique(rows, return_inverse=True)
        m, R = self._odds_mean[:, None, rows], self._odds_rows[..., rows]  # (K, 1, N), (K, b, N)
        for k in range(self.dim):
            m = m + R[:, k, None] * z[k]
        shares = _odds_around(m, R[:, self.dim :])
        return [share[:, back] for share in shares] if z.shape[2] == 1 else shares

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log(r p_base(y) + Σ w_k [y = a_k]) at nodes, or of what was seen of y; see `Mixture`."""
        hit, none, safe = self.likelihood._asked(seen(y, rows_of(self.kw, rows)))  # (K, N), (N,) …
        inner, shares = self._parted(latents)
        return self._log_total(hit, none, self.inner.log_density(safe, rows, inner), shares)

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log P(Y > t) of a target with atoms at nodes of a mixture, (K, N)."""
        above = np.less.outer(t, self.likelihood.at).T
        latents, shares = self._parted(latents)
        t = np.maximum(t, TINY) if self.likelihood.event_times else t
        inner = self.inner.log_survival(t, rows, latents)
        return self._log_total(above, np.zeros(len(t), dtype=bool), inner, shares)

    def _parted(self, latents: tuple) -> tuple[tuple, tuple]:
        """The latents of the base, and the shares r and w_k of a mixture with atoms."""
        cut = len(latents) - 1 - len(self.likelihood.at)
        return latents[:cut], latents[cut:]

    def _log_total(
        self, hit: np.ndarray, none: np.ndarray, inner: np.ndarray, shares: tuple
    ) -> np.ndarray:
        """log(r P_base + Σ w_k [hit_k]) with atoms; P_base is exp(inner), 0 where `none`."""
        total = np.where(none, -np.inf, np.log(shares[0]) + inner)
        for one, weight in zip(hit, shares[1:], strict=True):
            total = np.where(one, np.logaddexp(total, np.log(weight)), total)
        return total

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """r F_base(y) + Σ w_k [y ≥ a_k] at nodes of a mixture with atoms; see `Mixture`."""
        inner, (share, *weights) = self._parted(latents)
        total = share * self.inner.cdf(y, rows, inner)
        for atom, weight in zip(self.likelihood.at, weights, strict=True):
            total = total + weight * (y >= atom)
        return total

    def middle(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """A quantile of a mixture with atoms: the base's at what is left of q; see `Mixture`."""
        return self.inner.middle(self._left(q, rows), rows)

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles of a mixture with atoms: the base's guesses at what is left of q."""
        return self.inner.guess(self._left(q, rows), rows)

    def _left(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """What is left of a quantile's q without atoms below the base's median, in (0, 1)."""
        median = self.inner.middle(np.full(len(q), 0.5), rows)
        (share,), *weights = self._shares(rows, np.zeros((self.dim, 1, 1)))
        below = np.less.outer(self.likelihood.at, median) * np.concatenate(weights)
        left = (q - below.sum(axis=0)) / share
        return np.clip(left, 1e-6, 1.0 - 1e-6)


class WithRounding:
    """Predictive mixture of a rounded y: p(y) = P(y − w/2 < Y ≤ y + w/2)/w (`Rounded`).

    P is under the mixture of Y itself, whose cdf and quantiles these are.
    """

    def __init__(self, likelihood: Rounded, means: np.ndarray, V: np.ndarray, kw: Keywords) -> None:
        self.likelihood, self.kw = likelihood, kw
        self.law: Any = mixture_of(likelihood.base, means, V, likelihood.of_target(kw))
        self.dim, self.far = self.law.dim, self.law.far

    def nodes(self, rows: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Nodes of the mixture of Y before it was rounded; see `Mixture`."""
        return self.law.nodes(rows, z)

    def log_density(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """Log of a rounding interval's probability over its width, at nodes; see `Mixture`."""
        kw = rows_of(self.kw, rows)
        if isinstance(self.law, GaussianLatents) and not isinstance(self.law, NormalInFirst):
            return self.likelihood.log_density(y, *latents, **kw)
        low, high, width = self.likelihood.ends(y, kw)
        mean, inverse = self.law.normal(rows, latents)
        value = log_normal_between((low - mean) * inverse, (high - mean) * inverse)
        return np.where(low < high, value - np.log(width), self.law.log_density(y, rows, latents))

    def cdf(self, y: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """The cdf of Y before it was rounded, at nodes of the mixture; see `Mixture`."""
        return self.law.cdf(y, rows, latents)

    def log_survival(self, t: np.ndarray, rows: np.ndarray, latents: tuple) -> np.ndarray:
        """log P(Y > t) of Y before it was rounded, at nodes of the mixture; see `Mixture`."""
        return self.law.log_survival(t, rows, latents)

    def middle(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """A quantile of Y before it was rounded, of about the right size."""
        return self.law.middle(q, rows)

    def guess(self, q: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Guessed quantiles of Y before it was rounded."""
        return self.law.guess(q, rows)


def _odds(means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[1/Z] (n,) and E[e^{h_k}/Z] (K, n), Z = 1 + Σ e^{h_k}, for moments (K, n) of h."""
    shares, sds = np.empty((1 + len(means), means.shape[1])), np.sqrt(variances)
    counts = np.append(LEVELS, np.inf)[np.searchsorted(ODDS_SDS, sds.max(axis=0))]
    counts[counts > ODDS_NODES.get(len(means), 8)] = np.inf
    for count in np.unique(counts):
        some = np.flatnonzero(counts == count)
        if np.isinf(count):
            shares[:, some] = _odds_on_lattice(means[:, some], sds[:, some])
        else:
            C = np.eye(len(means))[:, :, None] * sds[:, some]
            shares[:, some] = np.concatenate(_odds_around(means[:, None, some], C))
    return shares[0], shares[1:]


def _odds_on_lattice(means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """E[1/Z], E[e^{h_1}/Z], …, (1 + K, n), whatever the standard deviations are."""
    grid = lattice(len(means), ODDS_LEVEL)
    log_phi = grid.log_volume - 0.5 * np.sum(grid.x**2, axis=0)
    weights = np.exp(log_phi - log_phi.max())
    weights /= weights.sum()
    shares = np.empty((1 + len(means), means.shape[1]))
    for rows in row_blocks(means.shape[1], grid.size):
        h = means[:, None, rows] + sds[:, None, rows] * grid.x[:, :, None]
        h = np.concatenate([np.zeros((1, *h.shape[1:])), h])
        log_z = np.logaddexp.reduce(h, axis=0)
        shares[:, rows] = np.einsum("s,ksn->kn", weights, np.exp(h - log_z))
    return shares


def _odds_around(centre: np.ndarray, C: np.ndarray) -> list[np.ndarray]:
    """E[1/Z], E[e^{h_1}/Z], … of atoms, (S, N): h ~ N(centre (K, S, N), C Cᵀ), C (K, K, N)."""
    widest = np.sqrt(np.max(np.sum(C * C, axis=1), initial=0.0))
    count = min(LEVELS[np.searchsorted(ODDS_SDS, widest)], ODDS_NODES.get(len(C), 8))
    rule = rule_for(len(C), count)
    x = [np.broadcast_to(column, rule.weights.shape).ravel() for column in rule.x]
    result = [np.zeros(centre.shape[1:]) for _ in range(1 + len(C))]
    for weight, *node in zip(rule.weights.ravel(), *x, strict=True):
        h = centre + np.tensordot(C, node, axes=(1, 0))[:, None]
        log_z = np.logaddexp.reduce(np.concatenate([np.zeros((1, *h.shape[1:])), h]), axis=0)
        for total, log_share in zip(result, (0.0, *h), strict=True):
            total += weight * np.exp(log_share - log_z)
    return result


def _log_gamma_range(shape: float, nats: float) -> tuple[float, float]:
    """Distances l, r with P(u < −l), P(u > r) ≤ e^{−nats} for u = log λ, λ ~ Gamma(a, a)."""
    x = nats / shape  # Chernoff bounds: λ > 1 + sqrt(2x) + x, and |u| − 1 + e^{−|u|} > x
    reach = x + np.sqrt(2.0 * x)
    return reach, np.log1p(reach)
