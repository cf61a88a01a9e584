"""Predictive distributions averaged over several posteriors: p(y) = Σ_k w_k p_k(y) for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy.special import logsumexp, ndtr

from ..data.arguments import as_fractions, as_generator, as_percent, fraction, positive_int
from ..data.types import Data, Seed
from ..errors import InputError
from ..likelihoods import Likelihood
from ..linalg import Array
from .centiles import Bands, Centiles, as_centiles
from .distribution import Predictive
from .return_levels import ReturnLevels, as_exceedance, band_percentages

HALVINGS = 60  # A quantile is searched for in at most so many steps.
CLOSE = 1e-7  # It is found to within this share of where it may lie.
LEVELS = 32  # Parameters of each distribution are represented by so many of their quantiles.
INNER = tuple(100.0 * (np.arange(LEVELS) + 0.5) / LEVELS)  # These are their levels, in percent.


class AveragedPredictive:
    """The distribution of y at n rows, p(y) = Σ_k w_k p_k(y), in the habit of scipy.stats.

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
        """What every p_k answers, (K, n, …)."""
        found = np.concatenate([answer(part) for part in self._parts])
        return found.reshape(len(self._weights), self._n, *found.shape[1:])

    def _over(self, each: Array) -> Array:
        """Σ_k w_k of (K, n, …)."""
        return np.tensordot(self._weights, each, 1)

    def _at(self, y: Array, answer: Callable[[Predictive, Array], Array]) -> Array:
        """What every p_k answers at targets y (n, k), (K, n, k)."""
        starts = np.cumsum([0, *(len(part) for part in self._parts)])
        rows = np.tile(np.arange(self._n), len(self._weights))
        pairs = zip(self._parts, starts, strict=False)
        found = [answer(part, y[rows[start : start + len(part)]]) for part, start in pairs]
        return np.concatenate(found).reshape(len(self._weights), *y.shape)

    def _as_targets(self, y: Data) -> Array:
        """Targets (n, k): a number or a grid (k,) for all rows, or (n, k) as it is."""
        values = np.asarray(y, dtype=float)
        if values.ndim == 2 and len(values) == self._n:
            return values
        if values.ndim > 1:
            raise InputError(
                f"y must be a number, a grid (k,) for all rows, or ({self._n}, k), values for each "
                f"row; got shape {values.shape}."
            )
        return np.broadcast_to(values.reshape(1, -1), (self._n, values.size))

    # ---- moments ---------------------------------------------------------------------------------

    @property
    def mean(self) -> Array:
        """E[y] = Σ_k w_k E_k[y], (n, 1)."""
        return self._over(self._means)

    @cached_property
    def _means(self) -> Array:
        return self._each(lambda part: part.mean)

    @property
    def noise_variance(self) -> Array:
        """Σ_k w_k E_k[var[y | f]], (n, 1): what would remain if the latents were known."""
        return self._over(self._each(lambda part: part.noise_variance))

    @property
    def latent_variance(self) -> Array:
        """var[E[y | f]], (n, 1): within each p_k, and of their means."""
        between = self._over((self._means - self.mean) ** 2)
        return self._over(self._each(lambda part: part.latent_variance)) + between

    @property
    def variance(self) -> Array:
        """var[y] = `noise_variance` + `latent_variance`, (n, 1)."""
        return self.noise_variance + self.latent_variance

    def variance_parts(self) -> dict[str, Array]:
        """The variance in two parts, "noise" and "ignorance", which add up to it: (n, 1) each.

        Ignorance is of the latents and of the hyperparameters that p_k differ in.
        """
        return {"noise": self.noise_variance, "ignorance": self.latent_variance}

    # ---- the distribution ------------------------------------------------------------------------

    def pdf(self, y: Data) -> Array:
        """p(y), a density or a probability: (n, k) for a grid (k,), or for (n, k) per row."""
        return np.exp(self.logpdf(y))

    def logpdf(self, y: Data) -> Array:
        """log Σ_k w_k p_k(y), (n, k)."""
        each = self._at(self._as_targets(y), Predictive.logpdf)
        with np.errstate(divide="ignore"):
            found = logsumexp(each, axis=0, b=self._weights[:, None, None])
        return np.asarray(found)

    def cdf(self, y: Data) -> Array:
        """P(Y ≤ y), (n, k)."""
        return self._over(self._at(self._as_targets(y), Predictive.cdf))

    def sf(self, y: Data) -> Array:
        """P(Y > y), (n, k): of an event time the probability of surviving y."""
        return 1.0 - self.cdf(y)

    def ppf(self, q: float | Array) -> Array:
        """The least y with cdf(y) ≥ q: (n, k) for k values.

        It lies between the least and the largest of the p_k's own quantiles.
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

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central interval with probability `level` in (0, 1): lower and upper end, (n, 1) each."""
        level = fraction(level, "level")
        ends = self.ppf(np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level]))
        return ends[:, :1], ends[:, 1:]

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Independent draws for each row, (n, size)."""
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

    def parameters(self, quantiles: tuple[float, ...] = (2.5, 50.0, 97.5)) -> dict[str, Array]:
        """Quantiles (percent) of the likelihood's natural parameters: name -> (n, k)."""
        levels = as_percent(quantiles, "quantiles")
        tables = [part.parameters(INNER) for part in self._parts]
        return {name: self._pooled([t[name] for t in tables], levels) for name in tables[0]}

    def return_level(self, periods: Data, *, level: float = 0.9, rate: Data = 1.0) -> ReturnLevels:
        """What is exceeded once in each period, with bands that average over hyperparameters too.

        Arguments and results as in `Predictive.return_level`.
        """
        percent = np.array(band_percentages(level)) / 100.0
        p = as_exceedance(periods, rate, self._n, self._likelihood)
        starts = np.cumsum([0, *(len(part) for part in self._parts)])
        rows = np.tile(np.arange(self._n), len(self._weights))
        found = []
        for column in p.T:
            tables = [
                part._quantile_given(1.0 - column[rows[start : start + len(part)]], INNER)
                for part, start in zip(self._parts, starts, strict=False)
            ]
            found.append(self._pooled(tables, percent))
        return ReturnLevels(*np.moveaxis(np.stack(found, axis=1), -1, 0))

    def centiles(
        self,
        centiles: Sequence[float] = (3.0, 10.0, 25.0, 50.0, 75.0, 90.0, 97.0),
        bands: Bands = None,
    ) -> Centiles:
        """Centiles of y given the latents, with bands that average over hyperparameters too.

        Arguments and results as in `Predictive.centiles`.
        """
        levels, wanted = as_centiles(centiles, bands, self._support)
        inner = np.array(INNER) / 100.0
        table = np.stack([
            self._pooled([p._centile_quantiles(float(c), inner, few=True) for p in self._parts],
                         wanted)
            for c in levels
        ], axis=1)  # fmt: skip
        parts = np.moveaxis(table, 2, 0)
        return parts[0] if bands is None else (parts[0], parts[1], parts[2])

    def _pooled(self, tables: list[Array], levels: Array) -> Array:
        """Quantiles (n, k) over all p_k from `INNER` percentiles of each, in (K n, LEVELS)."""
        each = np.concatenate(tables).reshape(-1, self._n, LEVELS)
        pooled = each.transpose(1, 0, 2).reshape(self._n, -1)
        weights = np.repeat(self._weights, LEVELS) / LEVELS
        return np.stack([_weighted_quantiles(row, weights, levels) for row in pooled])


def _weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Quantiles (k,) of values that have these weights, linear between them."""
    order = np.argsort(values)
    before = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.interp(levels, before, values[order])


def mixture_quantiles(cdf: Callable[[Array], Array], want: Array, low: Array, high: Array) -> Array:
    """Where an increasing cdf reaches `want`, between `low` and `high`, which have it between them.

    Secants, and halves of what is left in every other step.
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
    """Quantiles (…, k) of Σ_k w_k N(means_k, sds_k²), of arrays (K, …)."""
    reach = 9.0 * sds
    low, high = (means - reach).min(axis=0), (means + reach).max(axis=0)

    def cdf(y: Array) -> Array:
        z = (y - means[..., None]) / np.maximum(sds, 1e-300)[..., None]
        return np.tensordot(weights, ndtr(z), 1)

    want = np.broadcast_to(levels, (*low.shape, len(levels)))
    ends = (np.broadcast_to(end[..., None], want.shape) for end in (low, high))
    return mixture_quantiles(cdf, want, *ends)
