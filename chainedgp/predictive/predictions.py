"""Predictions of new rows, by the same methods for models and for averages over posteriors.

A class that predicts is a `Predictions` and says by `_predictor` what its predictions are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..data.arguments import as_generator, as_percent, positive_int
from ..data.columns import Columns
from ..data.frames import columns_of, frame_like
from ..data.missing_metadata import unsaid, warn_of_unsaid
from ..data.names import checks_names
from ..data.rows import Expected, Rows, is_dask
from ..data.types import Data, Frame, Metadata, Seed
from ..distributed import Predict, map_blocks
from ..errors import InputError
from ..likelihoods import Likelihood
from ..linalg import Array
from .centiles import Bands, centile_frame
from .classes import check_mean, class_columns, class_probabilities, num_classes, proba_like
from .law import PredictiveLaw


class Source(Protocol):
    """What predictions are made of, as it was when it was asked for; `Predictor` is one."""

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood of predicted targets, with its parameters."""

    @property
    def columns(self) -> Expected:
        """What is known of the columns of new inputs: how they are read, their names or number."""

    @property
    def told(self) -> tuple[str, ...]:
        """Names of the metadata that the rows of the fit had; scores without them warn."""

    def inputs(self, X: Data, name: str = "Xnew") -> Array:
        """New inputs X as (n, D) with the columns that predictions need."""

    def distribution(self, Xnew: Data, Y_metadata: Metadata = None) -> PredictiveLaw:
        """The predictive distributions p(y* | x*), one for each row of Xnew."""

    def for_blocks(self) -> Predictions:
        """The same, small and shared with nothing, to be sent to blocks of Dask arrays."""

    def latents(
        self, Xnew: Data, full_cov: bool = False, cross_cov: bool = False
    ) -> tuple[Array, Array]:
        """Mean and variance of the latents at Xnew; see `Predictions.predict_latents`."""

    def latent_quantiles(self, Xnew: Data, levels: Array) -> Array:
        """Quantiles (n, b, k) of the latents at Xnew, at levels (k,) in (0, 1)."""

    def latent_draws(self, Xnew: Data, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of the latent functions at Xnew: (n, b, size)."""


class Predictions:
    """Methods that predict the targets and latents of new rows: moments, quantiles, draws.

    Most methods take Dask arrays of inputs too, and give Dask arrays, which are computed block by
    block.
    """

    input_names: Sequence[str] | None = None

    def _predictor(self) -> Source:
        """What predictions are made of, at the current parameters and q."""
        raise NotImplementedError

    # ---- latents --------------------------------------------------------------------------------

    @checks_names
    def predict_latents(
        self, Xnew: Data, full_cov: bool = False, cross_cov: bool = False
    ) -> tuple[Array, Array]:
        """Posterior mean and variance of every latent function at Xnew.

        These are the moments of q(f*) (Saul et al. 2016, eqs. 4 and 5). If the model takes its
        hyperparameters as uncertain, variances include this, and the spread that q leaves out.

        full_cov : whether to return covariances between rows. cross_cov : whether to return
        covariances between latents, which are 0 in the mean field.

        Returns the mean (n, b), and the variance (n, b); with `full_cov` the covariance (b, n, n)
        of each latent, with `cross_cov` (n, b, b) of each row, with both (b, b, n, n) of all.
        """
        source = self._predictor()
        if is_dask(Xnew):
            if full_cov or cross_cov:
                raise InputError(
                    f"{'full_cov' if full_cov else 'cross_cov'} needs its rows in memory: give "
                    "some, as X[:1000].compute()."
                )
            widths = [len(source.likelihood.latents)] * 2
            mean, variance = _on_blocks(source, Predictions.predict_latents, Xnew, widths)
            return mean, variance
        return source.latents(Xnew, full_cov, cross_cov)

    @checks_names
    def predict_latent_quantiles(
        self, Xnew: Data, quantiles: Sequence[float] = (2.5, 97.5)
    ) -> list[Array]:
        """Quantiles of every latent function at Xnew, in percent: a list of (n, b).

        Two of them, such as (5, 95), are a credible band of the latents; those of the likelihood's
        natural parameters are in `predictive(Xnew).parameters()`.
        """
        levels = as_percent(quantiles, "quantiles")
        return list(np.moveaxis(self._predictor().latent_quantiles(Xnew, levels), -1, 0))

    @checks_names
    def posterior_samples_f(self, Xnew: Data, size: int = 10, rng: Seed = None) -> Array:
        """Joint draws of the latent functions at Xnew from their posterior: (n, b, size).

        f = mean(x) + Aᵀv + r with v ~ q(v), and r ~ N(0, K** − AᵀA), what the inducing values leave
        open. For more than 2,048 rows r is drawn in blocks of as many, independent of each other;
        v, and with it nearly all correlation, is common to all.
        """
        size, generator = positive_int(size, "size"), as_generator(rng)
        return self._predictor().latent_draws(Xnew, size, generator)

    # ---- targets --------------------------------------------------------------------------------

    @checks_names
    def predict(self, Xnew: Data, Y_metadata: Metadata = None) -> tuple[Array, Array]:
        """Predict mean and variance of the targets at Xnew, each (n, 1).

        For two classes the mean is the probability of the second one. Three or more classes have no
        mean, and an error says so: use `predict_proba` or `predict_frame`.
        """
        source = self._predictor()
        check_mean(source.likelihood)
        if is_dask(Xnew):
            mean, variance = _on_blocks(source, Predictions.predict, Xnew, [1, 1], Y_metadata)
            return mean, variance
        distribution = source.distribution(Xnew, Y_metadata)
        return distribution.mean, distribution.variance

    @checks_names
    def predict_frame(
        self,
        Xnew: Data,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        Y_metadata: Metadata = None,
        *,
        inputs: bool = False,
    ) -> Frame:
        """Predictions as a pandas DataFrame with the index of Xnew, where it has one.

        A frame of another library, such as polars, gives a frame of that library. Columns: mean,
        variance, and the quantiles, in percent: "2.5%", "50%", "97.5%". For classes instead
        "class", the most probable one, and the probability of each: "P(no)", "P(yes)".

        inputs : put the inputs first, under their names; levels and dates are what they were in the
            table, also where Xnew is an array.
        """
        source, levels = self._predictor(), as_percent(quantiles, "quantiles")
        distribution = source.distribution(Xnew, Y_metadata)
        first = self._input_columns(source, Xnew) if inputs else {}
        if source.likelihood.target_support.num_classes is not None:
            p = class_probabilities(distribution, source.likelihood)
            return frame_like(Xnew, {**first, **class_columns(p, source.likelihood)})
        percents = (f"{100 * level:g}%" for level in levels)
        moments = {"mean": distribution.mean[:, 0], "variance": distribution.variance[:, 0]}
        table = dict(zip(percents, distribution.ppf(levels).T, strict=True))
        return frame_like(Xnew, {**first, **moments, **table})

    def _input_columns(self, source: Source, Xnew: Data) -> dict[str, np.ndarray]:
        """The inputs by their names, for a frame of predictions, as the table had them."""
        X, columns = source.inputs(Xnew), source.columns
        values = list(columns.back(X).values()) if isinstance(columns, Columns) else list(X.T)
        known = columns.names if isinstance(columns, Columns) else columns
        if isinstance(known, tuple) and hasattr(Xnew, "columns"):
            each = columns.each if isinstance(columns, Columns) else ()
            zoned = {column.name for column in each if getattr(column, "zoned", False)}
            own = columns_of(Xnew, known)  # Dates with a zone come back in that of the table.
            values = [v if k in zoned else o for k, o, v in zip(known, own, values, strict=True)]
        numbered = tuple(f"x{d}" for d in range(len(values)))
        names = self.input_names or (known if isinstance(known, tuple) else numbered)
        return dict(zip(names, values, strict=True))

    @checks_names
    def predict_proba(self, Xnew: Data, Y_metadata: Metadata = None) -> Array | Frame:
        """Predict class probabilities at Xnew, P(y = k | x) = ∫ P(y = k | f) q(f) df: (n, K).

        For likelihoods of classes: `Bernoulli`, `HetProbit`, `Softmax`, `Ordinal`. Columns are in
        the order of the codes, which is that of `class_names`; rows sum to 1. A data frame Xnew
        gives a frame of its library, with the names of the classes as columns.
        """
        source = self._predictor()
        K = num_classes(source.likelihood)
        if is_dask(Xnew):
            method: Any = Predictions.predict_proba  # A block is an array: so is the result.
            (p,) = _on_blocks(source, method, Xnew, [K], Y_metadata)
            return p
        p = class_probabilities(source.distribution(Xnew, Y_metadata), source.likelihood)
        return proba_like(Xnew, p, source.likelihood)

    @checks_names
    def predict_quantiles(
        self, Xnew: Data, quantiles: Sequence[float] = (2.5, 97.5), Y_metadata: Metadata = None
    ) -> list[Array]:
        """Predict quantiles of the targets at Xnew: a list of (n, 1), one for each percentage."""
        source = self._predictor()
        if is_dask(Xnew):
            later = partial(Predictions.predict_quantiles, quantiles=quantiles)
            return _on_blocks(source, later, Xnew, [1] * np.size(quantiles), Y_metadata)
        levels = as_percent(quantiles, "quantiles")
        table = source.distribution(Xnew, Y_metadata).ppf(levels)  # (n, k)
        return [table[:, k : k + 1] for k in range(levels.size)]

    @checks_names
    def predict_centiles(
        self,
        Xnew: Data,
        centiles: Sequence[float] = (3.0, 10.0, 25.0, 50.0, 75.0, 90.0, 97.0),
        bands: Bands = (5.0, 95.0),
        Y_metadata: Metadata = None,
    ) -> Frame:
        """Predict a table of centiles, as growth charts have them: a data frame.

        The column "3%" is the posterior median of the 3rd centile of y at Xnew. "3% lower" and "3%
        upper" are the ends of its credible band, by default of 90 %; bands=None leaves it out. See
        `Predictive.centiles`, and `predict_quantiles` for the quantiles of one new target.
        """
        found = self._predictor().distribution(Xnew, Y_metadata).centiles(centiles, bands)
        return centile_frame(Xnew, centiles, found)

    @checks_names
    def predict_density(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Predict the density of targets at y, or the probability of a count.

        A 1-D grid y (k,) is evaluated at every row and gives (n, k); y (n, 1) has one value for
        each row and gives (n, 1).
        """
        source = self._predictor()
        if is_dask(Xnew):
            return _at_targets(source, Predictions.predict_density, Xnew, y, Y_metadata)
        return source.distribution(Xnew, Y_metadata).pdf(y)

    @checks_names
    def predict_cdf(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Predict the probability of a target of at most y, in shapes as `predict_density`."""
        source = self._predictor()
        if is_dask(Xnew):
            return _at_targets(source, Predictions.predict_cdf, Xnew, y, Y_metadata)
        return source.distribution(Xnew, Y_metadata).cdf(y)

    @checks_names
    def log_predictive_density(self, Xnew: Data, Ynew: Data, Y_metadata: Metadata = None) -> Array:
        """The log predictive density of new rows, (n, 1); its negative mean is the NLPD."""
        source = self._predictor()
        if is_dask(Xnew):
            warn_of_unsaid(unsaid(source.told, Y_metadata or ()))
            method = Predictions.log_predictive_density
            (value,) = _on_blocks(source, method, Xnew, [1], Y_metadata, Ynew=Ynew)
            return value
        given, names = (Xnew, Ynew, Y_metadata, source.likelihood), ("Xnew", "Ynew")
        rows = Rows.read(*given, columns=source.columns, names=names, weighted=False)
        warn_of_unsaid(unsaid(source.told, rows.metadata))
        return source.distribution(rows.X, rows.metadata).logpdf(rows.targets()[:, None])

    @checks_names
    def posterior_samples(
        self, Xnew: Data, size: int = 10, rng: Seed = None, Y_metadata: Metadata = None
    ) -> Array:
        """Draw targets at Xnew from their predictive, independent over rows: (n, 1, size)."""
        size, generator = positive_int(size, "size"), as_generator(rng)
        return self._predictor().distribution(Xnew, Y_metadata).sample(size, generator)[:, None, :]


def _at_targets(
    source: Source, method: Predict, Xnew: Data, y: Data, Y_metadata: Metadata
) -> Array:
    """The predictive density or cdf on every block of a Dask Xnew: y of its rows, or one grid."""
    if np.ndim(y) == 2:
        (value,) = _on_blocks(source, method, Xnew, [1], Y_metadata, y=y)
    else:
        (value,) = _on_blocks(source, partial(method, y=y), Xnew, [np.size(y)], Y_metadata)
    return value


def _on_blocks(
    source: Source,
    method: Any,
    Xnew: Data,
    widths: Sequence[int],
    Y_metadata: Metadata = None,
    **by_row: Data,
) -> list[Array]:
    """Call a method of predictions on every block of a Dask array Xnew; see `map_blocks`."""
    later = partial(method, source.for_blocks())
    return map_blocks(later, Xnew, widths, Y_metadata, **by_row)
