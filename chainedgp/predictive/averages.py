"""Predictive distributions averaged over several posteriors: p(y) = Σ_k w_k p_k(y) of each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import logsumexp, ndtr

from ..data.arguments import as_fractions, as_generator, as_percent, positive_int
from ..data.types import Data, Seed
from ..likelihoods import Likelihood
from ..linalg import Array
from .distribution import LatentFunction, Predictive
from .law import FEW_NODES, Curve
from .survival import SurvivalCurves

HALVINGS = 60  # A quantile of an average is searched for in at most so many steps.
CLOSE = 1e-7  # The search ends when this share is left of the bracket of a quantile.
# What depends on latents is represented by so many quantiles of each averaged distribution, and by
# so many of all of them.
LEVELS, POOLED = 32, 1024


class AveragedPredictive(SurvivalCurves):
    """The averaged predictive distribution of y at n rows, p(y) = Σ_k w_k p_k(y).

    Its methods are those of `Predictive`, named as in scipy.stats.

    Parameters
    ----------
    likelihood : of the targets.
    parts : `Predictive` of K n rows in all: n of the first p_k, n of the next, and so on. Those of
        one part have the same parameters of the likelihood.
    weights : (K,), which sum to 1.
    """

    def __init__(self, likelihood: Likelihood, parts: Sequence[Predictive], weights: Array) -> None:
        self._parts, self._weights = list(parts), np.asarray(weights, dtype=float)
        self._n = sum(len(part) for part in parts) // len(self._weights)
        self._support, self._atoms = likelihood.target_support, likelihood.atoms
        self._likelihood = likelihood

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"<Average of {len(self._weights)} predictive distributions of {len(self)} rows>"

    def _each(self, answer: Callable[[Predictive], Array]) -> Array:
        """What every averaged distribution p_k answers, (K, n, …)."""
        return self._by_point([answer(part) for part in self._parts])

    def _by_point(self, found: Sequence[Array]) -> Array:
        """Answers of the parts of an average, of K n rows in all, as (K, n, …)."""
        each = np.concatenate(found)
        return each.reshape(len(self._weights), self._n, *each.shape[1:])

    def _over(self, each: Array) -> Array:
        """The weighted average Σ_k w_k of the answers (K, n, …) of distributions p_k."""
        return np.tensordot(self._weights, each, 1)

    def _log_over(self, each: Array) -> Array:
        """log Σ_k w_k e^{a_k} of the answers a_k (K, n, k) of distributions p_k."""
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(each, axis=0, b=self._weights[:, None, None]))

    def _at(self, y: Array, answer: Callable[[Predictive, Array], Array]) -> Array:
        """What every averaged distribution p_k answers at the values y (n, …), (K, n, …)."""
        starts = np.cumsum([0, *(len(part) for part in self._parts)])
        rows = np.tile(np.arange(self._n), len(self._weights))
        pairs = zip(self._parts, starts, strict=False)
        found = [answer(part, y[rows[start : start + len(part)]]) for part, start in pairs]
        return self._by_point(found)

    # ---- moments ---------------------------------------------------------------------------------

    def _found_moments(self) -> tuple[Array, Array]:
        """Averaged mean, noise and latent variance (3, n), and rows (n,) that may be off.

        The latent variance is that within the p_k and that of their means. What is infinite in a
        p_k of any weight is infinite in the average.
        """
        found = [part._found_moments() for part in self._parts]
        mean, noise, latent = self._by_point([moments.T for moments, _ in found]).transpose(2, 0, 1)
        rough = np.any(self._by_point([rough for _, rough in found]), axis=0)
        middle = self._over(mean)
        with np.errstate(invalid="ignore"):
            between = np.where(np.isfinite(middle), (mean - middle) ** 2, np.inf)
        return np.stack([middle, self._over(noise), self._over(latent + between)]), rough

    # ---- the distribution ------------------------------------------------------------------------

    def logpdf(self, y: Data) -> Array:
        """The log-density of an averaged predictive, log Σ_k w_k p_k(y), (n, k)."""
        return self._log_over(self._at(self._as_targets(y), Predictive.logpdf))

    def _cdf(self, y: Data) -> Array:
        """P(Y ≤ y), (n, k)."""
        return self._over(self._at(self._as_targets(y), Predictive._cdf))

    def _log_event_density(self, t: Data) -> Array:
        """The log-density of events in an average, (n, k), whatever was seen of the rows."""
        return self._log_over(self._at(self._as_targets(t, "t"), Predictive._log_event_density))

    def logsf(self, y: Data) -> Array:
        """The log of an averaged predictive's upper tail, log Σ_k w_k P_k(Y > y), (n, k)."""
        return self._log_over(self._at(self._as_targets(y), Predictive.logsf))

    def ppf(self, q: float | Array) -> Array:
        """Quantiles of an averaged predictive, the least y with cdf(y) ≥ q: (n, k) for k values.

        Each lies between the least and the largest of the p_k's own quantiles.
        """
        levels = np.atleast_1d(as_fractions(q, "q"))
        each = self._each(lambda part: part.ppf(levels))
        low, high = each.min(axis=0), each.max(axis=0)
        want = np.broadcast_to(levels, low.shape)
        if not self._support.continuous:
            low, high = low - 1.0, high  # cdf(low) < q ≤ cdf(high), and so it stays
            while (high - low > 1.0).any():
                middle = np.floor(0.5 * (low + high))
                enough = (self.cdf(middle) >= want) | (high - low <= 1.0)
                low, high = np.where(enough, low, middle), np.where(enough, middle, high)
                high = np.where(high > low, high, low + 1.0)
            return high
        found = mixture_quantiles(self.cdf, want, low, high)
        for atom in np.unique(self._atoms):  # The cdf jumps there.
            below, at = self.cdf(np.full(want.shape, np.nextafter(atom, -np.inf))), self.cdf([atom])
            found = np.where((below < want) & (want <= at), atom, found)
        return found

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Independent draws from an averaged predictive for each row, (n, size)."""
        size, generator = positive_int(size, "size"), as_generator(rng)
        chosen = generator.choice(len(self._weights), size=(self._n, size), p=self._weights)
        most = int(max(np.bincount(row).max() for row in chosen))
        drawn = self._each(lambda part: part.sample(most, generator))  # (K, n, most)
        result = np.empty((self._n, size))
        for i, row in enumerate(chosen):  # The first draw of a p_k where it is chosen first, …
            order = np.argsort(row, kind="stable")
            starts = np.searchsorted(row[order], row[order])
            result[i, order] = drawn[row[order], i, np.arange(size) - starts]
        return result

    def parameters(
        self,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        functions: Mapping[str, LatentFunction] | None = None,
    ) -> dict[str, Array]:
        """Quantiles (percent) of natural parameters over averaged posteriors: name -> (n, k).

        functions : other functions of the latents instead, as in `Predictive.parameters`.
        """
        levels, inner = as_percent(quantiles, "quantiles"), self._inner
        tables = self._named(lambda part: part.parameters(tuple(100.0 * inner), functions))
        return {name: self._pooled(each, levels) for name, each in tables.items()}

    def parameter_means(
        self, functions: Mapping[str, LatentFunction] | None = None
    ) -> dict[str, Array]:
        """Means of natural parameters over averaged posteriors: name -> (n, 1)."""
        tables = self._named(lambda part: part.parameter_means(functions))
        return {name: self._over(each) for name, each in tables.items()}

    def _named(self, answer: Callable[[Predictive], dict[str, Array]]) -> dict[str, Array]:
        """What every averaged distribution p_k answers under each name, (K, n, …)."""
        tables = [answer(part) for part in self._parts]
        return {name: self._by_point([table[name] for table in tables]) for name in tables[0]}

    def _quantiles_at(self, y: Array, curve: Curve, levels: Array, count: int) -> Array:
        """Quantiles (n, k) over averaged posteriors of a curve given the latents at y (n,)."""
        inner = self._inner
        own_count = min(count, max(FEW_NODES, 4 * count // len(self._weights)))
        each = self._at(y, lambda part, own: part._quantiles_at(own, curve, inner, own_count))
        return self._pooled(each, levels)

    @property
    def _inner(self) -> Array:
        """Levels (m,) of the quantiles that represent what an averaged distribution says."""
        m = max(LEVELS, POOLED // len(self._weights))
        return (np.arange(m) + 0.5) / m

    def _pooled(self, each: Array, levels: Array) -> Array:
        """Quantiles (n, k) pooled over averaged p_k, from those of each at `_inner`, (K, n, m)."""
        pooled, m = each.transpose(1, 0, 2).reshape(self._n, -1), each.shape[2]
        weights = np.repeat(self._weights, m) / m
        return np.stack([_weighted_quantiles(row, weights, levels) for row in pooled])


def _weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Quantiles (k,) of values pooled over averaged distributions with weights, interpolated."""
    order = np.argsort(values)
    before = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.interp(levels, before, values[order])


def mixture_quantiles(cdf: Callable[[Array], Array], want: Array, low: Array, high: Array) -> Array:
    """Quantiles of an average: where its cdf reaches `want`, between `low` and `high`.

    These have it between them. Steps are secants, and every other one halves what is left.
    """
    low, high = low.copy(), high.copy()
    width = np.maximum(high - low, 1e-300)
    at_low, at_high = cdf(low) - want, cdf(high) - want
    for step in range(HALVINGS):
        middle = 0.5 * (low + high)
        if step % 2:
            with np.errstate(all="ignore"):
                secant = low - at_low * (high - low) / (at_high - at_low)
            inside = (secant > low) & (secant < high)
            middle = np.where(inside, secant, middle)
        value = cdf(middle) - want
        above = value >= 0.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
        at_low, at_high = np.where(above, at_low, value), np.where(above, value, at_high)
        if (high - low <= CLOSE * width + 1e-14 * np.abs(high)).all():
            break
    return high


def normal_mixture_quantiles(means: Array, sds: Array, weights: Array, levels: Array) -> Array:
    """Quantiles (…, k) of an average of normals, Σ_k w_k N(means_k, sds_k²), of arrays (K, …)."""
    reach = 9.0 * sds
    low, high = (means - reach).min(axis=0), (means + reach).max(axis=0)

    def cdf(y: Array) -> Array:
        z = (y - means[..., None]) / np.maximum(sds, 1e-300)[..., None]
        return np.tensordot(weights, ndtr(z), 1)

    want = np.broadcast_to(levels, (*low.shape, len(levels)))
    ends = (np.broadcast_to(end[..., None], want.shape) for end in (low, high))
    return mixture_quantiles(cdf, want, *ends)
