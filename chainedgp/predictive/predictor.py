"""The predictor, what predictions of one posterior are made of: likelihood, priors, q, columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from ..data.frames import check_order, index_of
from ..data.missing_metadata import unsaid
from ..data.row_names import RowNames, named_rows
from ..data.rows import Expected, as_inputs, as_metadata, is_dask
from ..data.types import Data, Keywords, Metadata
from ..errors import InputError
from ..likelihoods import Likelihood
from ..likelihoods.density_check import check_predicted
from ..linalg import Array
from ..parameters.parts import copy_of
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian
from ..posterior.mean_field import MEAN_FIELD
from ..posterior.sparse import Projector
from .constants import DRAWS, Constants, ConstantsAt
from .distribution import Predictive
from .latents import (
    covariances_at,
    cross_covariances_at,
    draws_at,
    marginals_and_loads_at,
    marginals_at,
)
from .predictions import Predictions


@dataclass(frozen=True)
class Predictor(Predictions):
    """What predictions of one posterior are made of, as it was when made: threads may share it.

    Parameters
    ----------
    likelihood : of the targets, with its current parameters.
    priors : of every latent, at the inducing inputs.
    q : q(v) of every group of latents.
    columns : how many columns new inputs must have, the names of those that a frame must have, or
        how they are read.
    family : what q may be.
    told : names of the metadata that the rows of the fit had; scores without them warn.
    q_targets : q(v) of every group for targets, where that is another than for latents.
    constants : those of the likelihood that are uncertain; bands are over these, too.
    last_time : of the data of the fit, where targets are event times; None if not known.
    """

    likelihood: Likelihood
    priors: tuple[Projector, ...]
    q: tuple[Gaussian, ...]
    columns: Expected
    family: PosteriorFamily = MEAN_FIELD
    told: tuple[str, ...] = ()
    q_targets: tuple[Gaussian, ...] | None = None
    constants: Constants | None = None
    last_time: float | None = None

    def _predictor(self) -> Predictor:
        return self

    def inputs(self, X: Data, name: str = "Xnew") -> Array:
        """New inputs X as (n, D) with the model's columns."""
        if is_dask(X):
            raise InputError(
                f"{name} is a Dask array, which predict, predict_latents, predict_quantiles, "
                "predict_density, predict_cdf and log_predictive_density take, without full_cov. "
                f"Here give rows that fit into memory: {name}[:1000].compute()."
            )
        with named_rows(RowNames.of(X)):
            return as_inputs(X, name, self.columns)

    def latents(
        self, Xnew: Data, full_cov: bool = False, cross_cov: bool = False
    ) -> tuple[Array, Array]:
        """Mean (n, b) and variance (n, b) of q(f*) at Xnew; see `Predictions.predict_latents`."""
        X, b = self.inputs(Xnew), np.arange(len(self.priors))
        if full_cov:
            moments = cross_covariances_at if cross_cov else covariances_at
            return moments(self.priors, self.q, self.family, X)
        mean, V = marginals_at(self.priors, self.q, self.family, X)
        if cross_cov:
            return mean, V if V.ndim == 3 else V[:, :, None] * np.eye(len(b))
        return mean, V if V.ndim == 2 else V[:, b, b]

    def latent_quantiles(self, Xnew: Data, levels: Array) -> Array:
        """Quantiles (n, b, k) of q(f*) at Xnew, at levels (k,)."""
        mean, variance = self.latents(Xnew)
        return mean[..., None] + np.sqrt(variance)[..., None] * ndtri(levels)

    def latent_draws(self, Xnew: Data, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of the latent functions at Xnew from q: (n, b, size)."""
        return draws_at(self.priors, self.q, self.family, self.inputs(Xnew), size, rng)

    def draws_with_constants(
        self, X: Array, size: int, rng: np.random.Generator
    ) -> Iterator[tuple[Array, dict[str, float]]]:
        """Joint draws (n, b, k) of the latents, `size` in all, each with constants of its own.

        Where no constant of the likelihood is uncertain, all draws come at once, with none.
        """
        if self.constants is None:
            yield self.latent_draws(X, size, rng), {}
            return
        links = self.constants.links
        groups = self.family.groups(len(self.priors))
        loads = [np.concatenate([links[j] for j in group]) for group in groups]
        given = ConstantsAt(self.constants.values, loads[0]).each()
        for k, (z, constants) in enumerate(given):
            q = tuple(
                replace(part, mu=part.mu + C @ z, S=part.S - C @ C.T, precision=None, root=None)
                for part, C in zip(self.q, loads, strict=True)
            )
            count = len(range(k, size, DRAWS))
            if count:
                yield replace(self, q=q).latent_draws(X, count, rng), constants

    def distribution(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """The predictive distributions p(y* | x*) under q, one for each row of Xnew."""
        found = self._distribution(Xnew, Y_metadata)
        found.index, found.last_time = index_of(Xnew), self.last_time
        return found

    def _distribution(self, Xnew: Data, Y_metadata: Metadata) -> Predictive:
        """The predictive distributions of rows, which do not know what the rows are called."""
        check_order(Xnew, None, Y_metadata)
        X = self.inputs(Xnew)
        with named_rows(RowNames.of(Xnew)):
            metadata, _ = as_metadata(Y_metadata, self.likelihood, len(X), weighted=False)
        missing = unsaid(self.told, metadata)
        links = None if self.constants is None else self.constants.links
        mean, V, loads = marginals_and_loads_at(self.priors, self.q, self.family, X, links)
        constants = None
        if self.constants is not None and loads is not None:
            constants = ConstantsAt(self.constants.values, loads)
        if self.q_targets is None:
            self._check_density(mean, V, metadata)
            return Predictive(self.likelihood, mean, V, metadata, missing, constants=constants)
        own = marginals_at(self.priors, self.q_targets, self.family, X)
        self._check_density(*own, metadata)
        return Predictive(self.likelihood, *own, metadata, missing, wider=V, constants=constants)

    def _check_density(self, means: Array, V: Array, metadata: Mapping[str, Array]) -> None:
        """Refuse a likelihood whose density is NaN at latents that matter for these rows."""
        kw: Keywords = {**self.likelihood.parameter_values(), **metadata}
        check_predicted(self.likelihood, means, V, kw)

    def for_blocks(self) -> Predictor:
        """A copy for blocks of Dask arrays, which is small and shares nothing with the model."""
        priors = tuple(
            Projector.at(copy_of(p.kernel), copy_of(p.mean), p.Z, p.L_inv) for p in self.priors
        )
        return replace(self, likelihood=copy_of(self.likelihood), priors=priors, told=())
