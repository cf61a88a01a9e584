"""The base of all predictive distributions of rows, of one posterior or averaged over several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..data.arguments import as_band, fraction
from ..data.frames import RowLabels, check_same_rows
from ..data.names import OF_PREDICTIVES
from ..data.types import Data, Seed
from ..errors import InputError, MomentWarning, warn
from ..likelihoods.contract import Likelihood
from ..likelihoods.support import Support
from ..linalg import Array, Indices
from .centiles import Bands, Centiles, Ends, as_centiles
from .mixtures import GaussianLatents
from .moments import TOLERANCE
from .return_levels import ReturnLevels, as_exceedance, band_percentages

BAND_NODES = 2048
"""The quantiles of a band are those of so many equally weighted Sobol points of q(f)."""
FEW_NODES = 128
"""The number of Sobol nodes for a band where each node takes the root of an integral."""


Latents = tuple[Array, ...]
Curve = Callable[[GaussianLatents, Array, Indices, Latents], Array]
"""What is asked of rows (N,), given latents (K, N) each, at one value (N,) for each row: (K, N)."""


class PredictiveLaw:
    """The base of predictive distributions of y at n rows, named as in scipy.stats.

    A one-dimensional y (or t) is a grid, with results (n, k); an array (n, k), such as (n, 1),
    holds values for each row.
    """

    _likelihood: Likelihood
    _support: Support
    index: RowLabels | None = None
    """The index of the pandas frame whose rows are predicted; None for arrays."""

    def __len__(self) -> int:
        raise NotImplementedError

    if not TYPE_CHECKING:  # With it a type checker would accept any attribute.

        def __getattr__(self, name: str) -> Any:
            """Explain an attribute of a predictive distribution that other libraries have."""
            words = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in OF_PREDICTIVES:
                words = f"a predictive distribution has no {name!r}: it is {OF_PREDICTIVES[name]}."
            raise AttributeError(words)

    @property
    def num_classes(self) -> int | None:
        """The number of classes that predicted targets are one of; None for numbers."""
        return self._support.num_classes

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Labels of the predicted classes in the order of their codes; None without labels."""
        return self._likelihood.class_names

    # ---- moments ---------------------------------------------------------------------------------

    @property
    def mean(self) -> Array:
        """The predictive mean E[y], (n, 1); inf, with a warning, if there is none.

        nan for a Student-t with ν ≤ 1, whose mean is not even infinite.
        """
        return self._moments[0].copy()

    @property
    def noise_variance(self) -> Array:
        """Noise in the predictive variance, E[var[y | f]], (n, 1): more data do not reduce it."""
        return self._moments[1].copy()

    @property
    def latent_variance(self) -> Array:
        """The ignorance var[E[y | f]] in a predictive variance, (n, 1): more data reduce it."""
        return self._moments[2].copy()

    @cached_property
    def _moments(self) -> Array:
        """Predictive mean, noise and latent variance, (3, n, 1); warns, once for the object."""
        moments, rough = self._found_moments()
        self._warn_of_moments(
            {f"have a mean or variance that is uncertain by over {TOLERANCE:.0%}": rough}
        )
        infinite = ~np.isfinite([moments[0], moments[1] + moments[2]])
        words = ("have no mean", "have no variance")
        self._warn_of_moments(dict(zip(words, infinite, strict=True)), " (infinite)")
        return moments[:, :, None]

    def _found_moments(self) -> tuple[Array, Array]:
        """Predictive mean, noise and latent variance (3, n), and rows (n,) that may be off."""
        raise NotImplementedError

    def _warn_of_moments(self, rows: dict[str, Array], how: str = "") -> None:
        """Warn once (MomentWarning) of how many rows (n,) have infinite or uncertain moments."""
        counts = {what: int(which.sum()) for what, which in rows.items() if which.any()}
        if counts:
            words = " and ".join(f"{count} {what}" for what, count in counts.items())
            warn(
                f"Of {len(self)} predictive distributions of {type(self._likelihood).__name__} "
                f"{words}{how}. The median and other quantiles exist: use ppf(0.5), "
                "interval(level) or predict_quantiles.",
                MomentWarning,
            )

    @property
    def variance(self) -> Array:
        """The predictive variance var[y] = `noise_variance` + `latent_variance`, (n, 1)."""
        return self.noise_variance + self.latent_variance

    def variance_parts(self) -> dict[str, Array]:
        """The predictive variance of the targets in two parts, which add up to it: name -> (n, 1).

            var[y] = E[var[y | f]] + var[E[y | f]]

        "noise", the first, would remain if the latents were known: more rows do not remove it.
        "ignorance", the second, is what the rows leave open about the latents, and in an average
        about the hyperparameters: more rows reduce it.
        """
        return {"noise": self.noise_variance, "ignorance": self.latent_variance}

    # ---- the distribution ------------------------------------------------------------------------

    def pdf(self, y: Data) -> Array:
        """The predictive density p(y), or a probability: (n, k) for a grid (k,)."""
        return np.exp(self.logpdf(y))

    def logpdf(self, y: Data) -> Array:
        """The predictive log-density log p(y), (n, k)."""
        raise NotImplementedError

    @overload
    def cdf(self, y: Data, bands: None = None) -> Array: ...

    @overload
    def cdf(self, y: Data, bands: Ends) -> tuple[Array, Array, Array]: ...

    def cdf(self, y: Data, bands: Bands = None) -> Array | tuple[Array, Array, Array]:
        """P(Y ≤ y), (n, k) for a grid (k,).

        With bands=(5, 95) the result is (probability, lower, upper): these percentiles, over q(f),
        of P(Y ≤ y | f), the probability among rows that share the latents f.
        """
        value = self._cdf(y)
        return value if bands is None else (value, *self._band_of_probability(y, bands))

    def _cdf(self, y: Data) -> Array:
        """P(Y ≤ y), (n, k)."""
        raise NotImplementedError

    def _band_of_probability(
        self, y: Data, bands: Ends, above: bool = False
    ) -> tuple[Array, Array]:
        """Percentiles over q(f) of P(Y ≤ y | f), or P(Y > y | f) if `above`, (n, k) each."""
        support, atoms = self._support, self._likelihood.atoms
        share, ends = (sf_given, (1.0, 0.0)) if above else (GaussianLatents.cdf, (0.0, 1.0))

        def curve(event: GaussianLatents, y: Array, rows: Indices, latents: Latents) -> Array:
            low, high = support.outside(y, atoms)
            y = y if support.continuous else np.floor(y)
            given = share(event, np.where(low | high, support.interior, y), rows, latents)
            return np.where(low, ends[0], np.where(high, ends[1], given))

        count = BAND_NODES if self._likelihood.has_cdf else FEW_NODES
        return self._band(self._as_targets(y), curve, as_band(bands), count)

    def _band(
        self, y: Array, curve: Curve, levels: Array, count: int = BAND_NODES
    ) -> tuple[Array, Array]:
        """The band (n, k), lower and upper, of a curve given the latents at values y (n, k)."""
        found = [self._quantiles_at(column, curve, levels, count) for column in y.T]
        lower, upper = np.moveaxis(np.reshape(found, (-1, len(self), 2)), (0, 1, 2), (2, 1, 0))
        return lower, upper

    def _quantiles_at(self, y: Array, curve: Curve, levels: Array, count: int) -> Array:
        """Quantiles (n, k) under q(f), at some levels, of a curve given the latents at y (n,).

        count : of Sobol nodes, where these are needed.
        """
        raise NotImplementedError

    def sf(self, y: Data, bands: Bands = None) -> Array | tuple[Array, Array, Array]:
        """P(Y > y), (n, k) for a grid (k,): the probability of more than y; `bands` as in `cdf`.

        Small probabilities keep their digits, where 1 − cdf rounds to 0; not those of a likelihood
        that is known by its density alone.
        """
        value = np.exp(self.logsf(y))
        return value if bands is None else (value, *self._band_of_probability(y, bands, True))

    def logsf(self, y: Data) -> Array:
        """log P(Y > y), (n, k) for a grid (k,), also where P(Y > y) is smaller than any number."""
        raise NotImplementedError

    def ppf(self, q: float | Array) -> Array:
        """Predictive quantiles, the least y with cdf(y) ≥ q: (n, k) for k values."""
        raise NotImplementedError

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Independent draws from the predictive distribution for each row, (n, size)."""
        raise NotImplementedError

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central predictive interval of probability `level` in (0, 1): both ends, (n, 1) each."""
        level = fraction(level, "level")
        ends = self.ppf(np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level]))
        return ends[:, :1], ends[:, 1:]

    # ---- quantiles of y given the latents --------------------------------------------------------

    @property
    def _centile_nodes(self) -> int:
        """How many Sobol nodes of q(f) make the band of a centile."""
        slow = self._likelihood.slow_ppf or not self._likelihood.has_draws
        return FEW_NODES if slow else BAND_NODES // 2

    def _quantile_given(self, q: Array, levels: Array, count: int = BAND_NODES) -> Array:
        """Quantiles (n, k) under q(f), at some levels, of the quantile of y at q (n,) given f."""
        return self._quantiles_at(q, quantile_given, levels, count)

    def return_level(self, periods: Data, *, level: float = 0.9, rate: Data = 1.0) -> ReturnLevels:
        """Return levels, exceeded once in each period on average: their median and a band.

        The level y of a period T has P(Y > y | f) = 1/(rate T) given the latents f; the band is the
        central one of probability `level` under q(f). Each array is (n, k) for k periods.

            level, lower, upper = m.predictive(X).return_level([10, 50, 100])

        Hyperparameters and constants of the likelihood, such as the `shape` of a `GEV`, are
        uncertain if the model takes them as such (`ChainedGP(hyperparameters=…)`): the band then
        includes this. `m.over_hyperparameters().predictive(X)` has the same method, whose bands
        always include them. `ppf(1 - 1/T)` is a quantile of the predictive distribution at the
        fitted constants, in which the uncertainty of the latents is averaged out.

        Parameters
        ----------
        periods : T, in the unit of time that `rate` refers to.
        level : probability of the band.
        rate : targets per unit of time, a number or (n,): 1 for the maximum of each year, the mean
            number of exceedances a year for a `GeneralisedPareto`.
        """
        levels = np.array(band_percentages(level)) / 100.0
        p = as_exceedance(periods, rate, len(self), self._likelihood)
        found = np.stack([self._quantile_given(1.0 - column, levels) for column in p.T], axis=1)
        return ReturnLevels(*np.moveaxis(found, -1, 0))

    def centiles(
        self,
        centiles: Sequence[float] = (3.0, 10.0, 25.0, 50.0, 75.0, 90.0, 97.0),
        bands: Bands = None,
    ) -> Centiles:
        """Centiles of y given the latents, in percent: the median over q of each, (n, k).

        Q(c | f) is the centile of those who share the latents f, for example of all children of one
        age; more data determine it better. `ppf` has the quantiles of one new
        target, which are wider where the latents are uncertain.

        bands : two percentages, such as (5, 95): the result is then (centile, lower, upper), with
            these quantiles over q of Q(c | f), from 1,024 Sobol nodes, or from 128 where the
            likelihood has no quick `ppf`.

        Hyperparameters and constants of the likelihood are uncertain if the model takes them as
        such; bands of `m.over_hyperparameters().predictive(X)` always include this.
        """
        levels, wanted = as_centiles(centiles, bands, self._support)
        each = (np.full(len(self), level) for level in levels)
        nodes = self._centile_nodes
        table = np.stack([self._quantile_given(q, wanted, nodes) for q in each], axis=1)
        parts = np.moveaxis(table, 2, 0)
        return parts[0] if bands is None else (parts[0], parts[1], parts[2])

    # ---- arguments -------------------------------------------------------------------------------

    def _as_targets(self, y: Data, name: str = "y") -> Array:
        """Targets y to predict at, (n, k): from a scalar or a grid (k,), or (n, k) as it is."""
        try:
            values = np.array(y, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"{name} must be numbers; got {y!r}.") from None
        if np.isnan(values).any():
            raise InputError(f"{name} has {int(np.isnan(values).sum())} missing values (NaN).")
        if values.ndim < 2:
            return np.broadcast_to(values.reshape(1, -1), (len(self), values.size))
        if values.ndim == 2 and len(values) == len(self):
            check_same_rows({"predictive": self, name: y})
            return values
        raise InputError(
            f"{name} must be a number, a grid (k,) for all rows, or ({len(self)}, k), values for "
            f"each row; got shape {values.shape}."
        )


def quantile_given(event: GaussianLatents, q: Array, rows: Indices, latents: Latents) -> Array:
    """The quantile of y at q (N,), given the latents of some rows, (K, N)."""
    return np.asarray(event.likelihood.ppf(q, *latents, **event.keywords(rows)))


def sf_given(event: GaussianLatents, y: Array, rows: Indices, latents: Latents) -> Array:
    """P(Y > y | f) at y (N,), given the latents of some rows, (K, N)."""
    return np.exp(event.log_survival(y, rows, latents))
