"""Predictions at new inputs, all from one small object: likelihood, priors, q, columns of X."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..data.arguments import as_generator, as_percent, positive_int
from ..data.columns import Columns
from ..data.frames import check_order, frame_like
from ..data.rows import Expected, Rows, as_inputs, as_metadata, is_dask
from ..data.types import Data, Frame, Metadata, Seed
from ..data.unsaid import unsaid, warn_of_unsaid
from ..distributed import Predict, map_blocks
from ..errors import InputError
from ..likelihoods import Likelihood
from ..linalg import Array
from ..parameters.parts import copy_of
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian
from ..posterior.mean_field import MEAN_FIELD
from ..posterior.sparse import Projector
from .centiles import centile_frame
from .classes import check_mean, class_columns, class_probabilities, num_classes, proba_like
from .distribution import Predictive
from .latents import covariances_at, cross_covariances_at, draws_at, marginals_at


@dataclass(frozen=True)
class Predictor:
    """What predictions are made of, as it was when this object was made: threads may share it.

    Methods that take Dask arrays of inputs work block by block, later, and give Dask arrays.

    Parameters
    ----------
    likelihood : of the targets, with its current parameters.
    priors : of every latent, at the inducing inputs.
    q : q(v) of every group of latents.
    columns : how many columns new inputs must have, the names of those that a frame must have, or
        how they are read.
    family : what q may be.
    told : names of the metadata that the rows of the fit had; scores without them warn.
    """

    likelihood: Likelihood
    priors: tuple[Projector, ...]
    q: tuple[Gaussian, ...]
    columns: Expected
    family: PosteriorFamily = MEAN_FIELD
    told: tuple[str, ...] = ()

    def inputs(self, X: Data, name: str = "Xnew") -> Array:
        """X as (n, D) with the model's columns."""
        if is_dask(X):
            raise InputError(
                f"{name} is a Dask array, which predict, predict_latents, predict_quantiles, "
                "predict_density, predict_cdf and log_predictive_density take, without full_cov. "
                f"Here give rows that fit into memory: {name}[:1000].compute()."
            )
        return as_inputs(X, name, self.columns)

    def latents(
        self, Xnew: Data, full_cov: bool = False, cross_cov: bool = False
    ) -> tuple[Array, Array]:
        """Mean (n, b) and variance (n, b) of q(f*); see `ChainedGP.predict_latents`."""
        if is_dask(Xnew):
            if full_cov or cross_cov:
                raise InputError(
                    f"{'full_cov' if full_cov else 'cross_cov'} needs its rows in memory: give "
                    "some, as X[:1000].compute()."
                )
            mean, variance = self._on_blocks(Predictor.latents, Xnew, [len(self.priors)] * 2)
            return mean, variance
        X, b = self.inputs(Xnew), np.arange(len(self.priors))
        if full_cov:
            moments = cross_covariances_at if cross_cov else covariances_at
            return moments(self.priors, self.q, self.family, X)
        mean, V = marginals_at(self.priors, self.q, self.family, X)
        if cross_cov:
            return mean, V if V.ndim == 3 else V[:, :, None] * np.eye(len(b))
        return mean, V if V.ndim == 2 else V[:, b, b]

    def distribution(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """p(y* | x*) under q, one distribution for each row of Xnew."""
        check_order(Xnew, None, Y_metadata)
        X = self.inputs(Xnew)
        metadata, _ = as_metadata(Y_metadata, self.likelihood, len(X), weighted=False)
        marginals = marginals_at(self.priors, self.q, self.family, X)
        missing = unsaid(self.told, metadata)
        return Predictive(self.likelihood, *marginals, metadata, missing)

    def moments(self, Xnew: Data, Y_metadata: Metadata = None) -> tuple[Array, Array]:
        """Mean and variance of the targets at Xnew, each (n, 1)."""
        check_mean(self.likelihood)
        if is_dask(Xnew):
            mean, variance = self._on_blocks(Predictor.moments, Xnew, [1, 1], Y_metadata)
            return mean, variance
        distribution = self.distribution(Xnew, Y_metadata)
        return distribution.mean, distribution.variance

    def quantiles(
        self, Xnew: Data, percent: Sequence[float], Y_metadata: Metadata = None
    ) -> list[Array]:
        """Quantiles of the targets at Xnew, a list of (n, 1)."""
        if is_dask(Xnew):
            later = partial(Predictor.quantiles, percent=percent)
            return self._on_blocks(later, Xnew, [1] * np.size(percent), Y_metadata)
        levels = as_percent(percent, "quantiles")
        table = self.distribution(Xnew, Y_metadata).ppf(levels)  # (n, k)
        return [table[:, k : k + 1] for k in range(levels.size)]

    def frame(
        self,
        Xnew: Data,
        percent: Sequence[float],
        Y_metadata: Metadata = None,
        names: Sequence[str] | None = None,
    ) -> Frame:
        """Mean, variance and quantiles as a data frame of the kind that Xnew is, else of pandas.

        Of classes, whose codes have no mean, the one decided for and the probabilities.

        names : of the inputs, which then come first; None leaves them out.
        """
        levels = as_percent(percent, "quantiles")
        distribution = self.distribution(Xnew, Y_metadata)
        first: dict[str, np.ndarray] = {}
        if names is not None:
            X = self.inputs(Xnew)
            own = self.columns.back(X).values() if isinstance(self.columns, Columns) else X.T
            first = dict(zip(names, own, strict=True))
        if self.likelihood.target_support.num_classes is not None:
            p = class_probabilities(distribution, self.likelihood)
            return frame_like(Xnew, {**first, **class_columns(p, self.likelihood)})
        percents = (f"{100 * level:g}%" for level in levels)
        moments = {"mean": distribution.mean[:, 0], "variance": distribution.variance[:, 0]}
        table = dict(zip(percents, distribution.ppf(levels).T, strict=True))
        return frame_like(Xnew, {**first, **moments, **table})

    def centiles(
        self,
        Xnew: Data,
        percent: Sequence[float],
        bands: tuple[float, float] | None,
        Y_metadata: Metadata = None,
    ) -> Frame:
        """Centiles of the targets given the latents, with bands, as a data frame like `frame`."""
        found = self.distribution(Xnew, Y_metadata).centiles(percent, bands)
        return centile_frame(Xnew, percent, found)

    def probabilities(self, Xnew: Data, Y_metadata: Metadata = None) -> Array | Frame:
        """Probabilities of the classes at Xnew, (n, K); a frame where Xnew is one."""
        K = num_classes(self.likelihood)
        if is_dask(Xnew):
            # Every block is an array, for which the result is one.
            method: Any = Predictor.probabilities
            (p,) = self._on_blocks(method, Xnew, [K], Y_metadata)
            return p
        distribution = self.distribution(Xnew, Y_metadata)
        return proba_like(Xnew, class_probabilities(distribution, self.likelihood), self.likelihood)

    def density(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Density (or mass) of the targets at y: a 1-D grid gives (n, k), (n, 1) is per row."""
        if is_dask(Xnew):
            return self._at_targets(Predictor.density, Xnew, y, Y_metadata)
        return self.distribution(Xnew, Y_metadata).pdf(y)

    def cdf(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Probability of a target of at most y; shapes as in `density`."""
        if is_dask(Xnew):
            return self._at_targets(Predictor.cdf, Xnew, y, Y_metadata)
        return self.distribution(Xnew, Y_metadata).cdf(y)

    def log_density(self, Xnew: Data, Ynew: Data, Y_metadata: Metadata = None) -> Array:
        """log p(y* | x*) of new rows, (n, 1); warns where metadata are missing that the fit had."""
        if is_dask(Xnew):
            warn_of_unsaid(unsaid(self.told, Y_metadata or ()))
            (value,) = self._on_blocks(Predictor.log_density, Xnew, [1], Y_metadata, Ynew=Ynew)
            return value
        rows = Rows.read(
            Xnew,
            Ynew,
            Y_metadata,
            self.likelihood,
            columns=self.columns,
            names=("Xnew", "Ynew"),
            weighted=False,
        )
        distribution = self.distribution(rows.X, rows.metadata)
        warn_of_unsaid(distribution.unsaid)
        return distribution.logpdf(rows.targets()[:, None])

    def draws(self, Xnew: Data, size: int, rng: Seed, Y_metadata: Metadata = None) -> Array:
        """Draws of the targets at Xnew, independent over rows: (n, 1, size)."""
        size = positive_int(size, "size")
        draws = self.distribution(Xnew, Y_metadata).sample(size, as_generator(rng))
        return draws[:, None, :]

    def latent_draws(self, Xnew: Data, size: int, rng: Seed) -> Array:
        """Joint draws of the latent functions at Xnew from q: (n, b, size)."""
        size, rng = positive_int(size, "size"), as_generator(rng)
        return draws_at(self.priors, self.q, self.family, self.inputs(Xnew), size, rng)

    # ---- Dask arrays ----------------------------------------------------------------------------

    def _at_targets(
        self,
        method: Predict,
        Xnew: Data,
        y: Data,
        Y_metadata: Metadata,
    ) -> Array:
        """The density or cdf on every block of Xnew: y of the block's rows, or the same grid."""
        if np.ndim(y) == 2:
            (value,) = self._on_blocks(method, Xnew, [1], Y_metadata, y=y)
        else:
            (value,) = self._on_blocks(partial(method, y=y), Xnew, [np.size(y)], Y_metadata)
        return value

    def _on_blocks(
        self,
        method: Predict,
        Xnew: Data,
        widths: Sequence[int],
        Y_metadata: Metadata = None,
        **by_row: Data,
    ) -> list[Array]:
        """A method on every block of Xnew; what goes there is small, and part of no model."""
        priors = tuple(
            Projector.at(copy_of(p.kernel), copy_of(p.mean), p.Z, p.L_inv) for p in self.priors
        )
        small = replace(self, likelihood=copy_of(self.likelihood), priors=priors, told=())
        return map_blocks(partial(method, small), Xnew, widths, Y_metadata, **by_row)
