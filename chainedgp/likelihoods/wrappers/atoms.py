"""Mixtures of a distribution and point masses ("atoms"): moments, cdf and quantiles.

F(y) = r G(y) + Σ_k w_k [y ≥ a_k], r + Σ w_k = 1, G the cdf of the rest. Weights r and w_k are
arrays that broadcast, atoms a_k are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...data.rows import rows_of
from ...data.types import Keywords
from ...expectations import reduced, special
from ...expectations.closed import expected_softplus
from ...linalg import Array, Booleans, Indices

if TYPE_CHECKING:
    from ..contract import Likelihood


class Law(Protocol):
    """What a mixture with atoms needs of a distribution of y, one for each element of a shape."""

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of a distribution that is mixed with atoms."""
        ...

    def cdf(self, y: Array) -> Array:
        """The cdf of a distribution that is mixed with atoms, P(Y ≤ y)."""
        ...

    def ppf(self, q: Array) -> Array:
        """Quantiles of a distribution that is mixed with atoms."""
        ...


class GivenLatents:
    """The distribution of a likelihood given its latents, as a `Law` to be mixed with atoms."""

    def __init__(self, likelihood: Likelihood, latents: Sequence[Array], kw: Keywords) -> None:
        self.likelihood, self.latents, self.kw = likelihood, latents, kw

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of a likelihood given its latents, to be mixed with atoms."""
        given = self.likelihood
        mean = given.conditional_mean(*self.latents, **self.kw)
        return mean, given.conditional_variance(*self.latents, **self.kw)

    def cdf(self, y: Array) -> Array:
        """The cdf of a likelihood given its latents, P(Y ≤ y), to be mixed with atoms."""
        return self.likelihood.cdf(y, *self.latents, **self.kw)

    def ppf(self, q: Array) -> Array:
        """Quantiles of a likelihood given its latents, to be mixed with atoms."""
        return self.likelihood.ppf(q, *self.latents, **self.kw)

    def log_tails(self, y: Array) -> tuple[Array, Array]:
        """Log-tails of a likelihood given its latents, log P(Y ≤ y) and log P(Y > y)."""
        return self.likelihood.log_tails(y, *self.latents, **self.kw)


class WithMoments:
    """What scipy.stats' distributions have, for a mixture with atoms that has moments and a cdf."""

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of a mixture with atoms."""
        raise NotImplementedError

    def mean(self) -> Array:
        """The mean of a mixture with atoms."""
        return self.moments()[0]

    def var(self) -> Array:
        """The variance of a mixture with atoms."""
        return self.moments()[1]

    def cdf(self, y: Array) -> Array:
        """The cdf of a mixture with atoms, P(Y ≤ y)."""
        raise NotImplementedError

    def log_tails(self, y: Array) -> tuple[Array, Array]:
        """Log-tails of a mixture with atoms, log P(Y ≤ y) and log P(Y > y), from its cdf."""
        with np.errstate(divide="ignore"):
            cdf = self.cdf(y)
            return np.log(cdf), np.log1p(-cdf)

    def logcdf(self, y: Array) -> Array:
        """The logarithm of the cdf of a mixture with atoms, log P(Y ≤ y)."""
        return self.log_tails(y)[0]

    def logsf(self, y: Array) -> Array:
        """The log-survival of a mixture with atoms, log P(Y > y)."""
        return self.log_tails(y)[1]


class WithAtoms(WithMoments):
    """A mixture of a distribution `rest` of the given share and atoms with weights; all sum to one.

    rest: `GivenLatents`, or a distribution that is `from_density.Tabulated`.
    step: distance to the next lower value of the rest: 1 for counts, 0 beside a density.
    """

    total: Array

    def __init__(
        self,
        rest: Law,
        share: Array,
        atoms: Sequence[float],
        weights: Sequence[Array],
        step: float = 0.0,
    ) -> None:
        self.rest, self.share, self.step = rest, share, step
        order = np.argsort(atoms)
        self.atoms, self.weights = [atoms[k] for k in order], [weights[k] for k in order]

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of a mixture with atoms; inf where the rest has none."""
        mean, variance = self.rest.moments()
        pairs = list(zip(self.atoms, self.weights, strict=True))
        with np.errstate(invalid="ignore", over="ignore"):
            total = self.share * mean + sum(w * a for a, w in pairs)
            spread = self.share * (variance + (mean - total) ** 2)
            spread = spread + sum(w * (a - total) ** 2 for a, w in pairs)
        no_mean = np.isinf(mean)
        return np.where(no_mean, mean, total), np.where(
            no_mean | np.isinf(variance), np.inf, spread
        )

    def cdf(self, y: Array) -> Array:
        """The cdf of a mixture with atoms, P(Y ≤ y)."""
        below = sum(
            w * np.greater_equal(y, a) for a, w in zip(self.atoms, self.weights, strict=True)
        )
        return np.minimum(self.share * self.rest.cdf(y) + below, 1.0)

    def log_tails(self, y: Array) -> tuple[Array, Array]:
        """Log-tails of a mixture with atoms: sums without cancellation, if the rest has its own."""
        if not isinstance(self.rest, GivenLatents):
            return super().log_tails(y)
        with np.errstate(divide="ignore"):
            tails = [np.log(self.share) + tail for tail in self.rest.log_tails(y)]
            for atom, weight in zip(self.atoms, self.weights, strict=True):
                below = np.greater_equal(y, atom)
                for k, held in enumerate((below, ~below)):
                    tails[k] = np.logaddexp(tails[k], np.where(held, np.log(weight), -np.inf))
        return np.minimum(tails[0], 0.0), np.minimum(tails[1], 0.0)

    def ppf(self, q: Array) -> Array:
        """Quantiles of a mixture with atoms, the smallest y with cdf ≥ q."""
        passed = np.cumsum(np.stack([np.zeros_like(self.weights[0]), *self.weights]), axis=0)

        # This is the quantile of the rest where atoms of this mass lie below.
        def inverse(mass: Array) -> Array:
            with np.errstate(divide="ignore", invalid="ignore"):
                return self.rest.ppf(np.clip(np.nan_to_num((q - mass) / self.share), 0.0, 1.0))

        result = inverse(passed[-1])
        for a, w, mass in zip(self.atoms[::-1], self.weights[::-1], passed[-2::-1], strict=True):
            start = mass + self.share * self.rest.cdf(np.asarray(a - self.step))
            result = np.where(q <= start + w, a, result)
            result = np.where(q <= start, inverse(mass), result)
        return result


class ZeroTruncated(WithMoments):
    """Counts `rest` given that they are not 0, the part of a hurdle: p(y)/(1 − p₀), y > 0.

    log_share: log(1 − p₀). odds: p₀/(1 − p₀).
    """

    def __init__(self, rest: Law, log_share: Array, odds: Array) -> None:
        self.rest, self.log_share, self.odds = rest, log_share, odds

    def moments(self) -> tuple[Array, Array]:
        """Moments of zero-truncated counts: the mean over 1 − p₀, and E[y²] − E[y]²."""
        (mean, variance), factor = self.rest.moments(), np.exp(-self.log_share)
        second = (variance + mean**2) * factor
        return mean * factor, np.maximum(second - (mean * factor) ** 2, 0.0)

    def cdf(self, y: Array) -> Array:
        """The cdf of zero-truncated counts, (F(y) − p₀)/(1 − p₀)."""
        cdf = self.rest.cdf(y) * np.exp(-self.log_share) - self.odds
        return np.where(np.less(y, 1.0), 0.0, np.clip(cdf, 0.0, 1.0))

    def ppf(self, q: Array) -> Array:
        """Quantiles of zero-truncated counts, those of p₀ + q (1 − p₀) of all counts."""
        share = np.exp(self.log_share)
        return np.maximum(self.rest.ppf(1.0 - share + q * share), 1.0)


def expected_total(means: Array, variances: Array, nodes: int, *, one: bool) -> tuple[Array, ...]:
    """E log Σ e^{h_k} of the log-odds h of one atom or more, with its slopes.

    value (n,), d/dmeans (k, n), d/dvariances with rows last.

    variances (n, k), or covariances (n, k, k). one: with 1 in the sum, E log(1 + Σ e^{h_k}).
    """
    if means.shape[1] == 1:
        m, v = means[:, 0], variances.reshape(-1)
        if one:
            value, slope, bend = expected_softplus(m, v)
        else:
            value, slope, bend = m, np.ones(m.size), np.zeros(m.size)
        return value, slope[None], bend.reshape(variances.T.shape)
    if not one:
        return reduced.expected_log_sum_exp(means, variances, nodes)
    if variances.ndim == 3:

        def with_one(rows: slice, *h: Array) -> tuple[Array, ...]:
            total, shares = special.log_total([np.zeros(1), *h])
            return total, *shares[1:]

        averages = reduced.expected_log_sum(with_one, means, variances, nodes)
        return tuple(np.moveaxis(part, 0, -1) for part in averages[:3])
    m, v = (np.insert(a.T, 0, 0.0, axis=0).T for a in (means, variances))  # log 1 = 0
    value, *slopes = reduced.expected_log_sum_exp(m, v, nodes)
    return value, *(d[1:] for d in slopes)


def expected_log_with_atoms(
    rest: Likelihood, y: Array, means: Array, variances: Array, nodes: int, kw: Keywords
) -> tuple[Array, ...]:
    """E log(p(y | f) + Σ_k e^{h_k}) of a row that atoms of log-odds h and density p share.

    p is that of the likelihood `rest`, and there is one h_k or more.

    Exact in the last h, nodes in f and in the others. means (n, c + k) of f, then all h, variances
    (n, c + k) or covariances (n, c + k, c + k).
    Returns value (n,), d/dmeans (c + k, n), d/dvariances with rows last, and d/dθ (p, n).
    """
    c, p = len(rest.latents), len(rest.parameter_keys)

    def log_a(rows: slice, *latents: Array) -> tuple[Array, ...]:
        """The log of density and atoms but the last, and its slopes in all latents and θ."""
        own, kw_rows = latents[:c], rows_of(kw, rows)
        log_p = np.maximum(rest.log_density(y[rows], *own, **kw_rows), -1e300)
        total = log_p
        for h in latents[c:]:
            total = np.logaddexp(total, h)
        share = np.exp(log_p - total)
        slopes = rest.dlog_density(y[rows], *own, **kw_rows)
        theta = rest.dlog_density_dtheta(y[rows], *own, **kw_rows) if p else ()
        first, last = (
            [np.where(share > 0.0, share * d, 0.0) for d in ds] for ds in (slopes, theta)
        )
        return total, *first, *(np.exp(h - total) for h in latents[c:]), *last

    averages = reduced.expected_log_sum(log_a, means, variances, nodes, p)
    return tuple(np.moveaxis(part, 0, -1) for part in averages)


def alike(flags: Booleans) -> list[Indices]:
    """Sets (indices) of rows with the same atoms: equal columns of the booleans (k, n)."""
    sets: list[Indices] = [np.arange(flags.shape[1])]
    for row in flags:
        sets = [part for one in sets for part in (one[row[one]], one[~row[one]]) if part.size]
    return sets
