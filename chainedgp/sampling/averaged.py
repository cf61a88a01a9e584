"""Predictions that average over points: hyperparameters, each with its q, each with a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..data.frames import check_order, index_of
from ..data.rows import Expected, as_inputs, as_metadata, is_dask
from ..data.types import Data, Metadata
from ..errors import InputError
from ..inference.problem import Problem
from ..likelihoods import Likelihood
from ..linalg import Array
from ..parameters.parts import copy_of
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian
from ..predictive.averages import AveragedPredictive, normal_mixture_quantiles
from ..predictive.distribution import Predictive
from ..predictive.latents import marginals_at
from ..predictive.predictions import Predictions
from ..predictive.predictor import Predictor

IN_MEMORY = (
    "{name} is a Dask array; averages over draws take rows that fit into memory: "
    "{name}[:1000].compute()."
)
# Indices of the covariance between means (K, n, b) of points: full_cov, cross_cov.
BETWEEN = {
    (False, False): "kib,kib->ib",
    (True, False): "kib,kjb->bij",
    (False, True): "kib,kic->ibc",
    (True, True): "kib,kjc->bcij",
}
Columns = Expected  # what is known of the columns of new inputs


class Point(NamedTuple):
    """A point of an average: hyperparameters, and a posterior q at them."""

    x: Array | None  # The free hyperparameters (p,); None leaves them as they are in the model.
    q: tuple[Gaussian, ...]  # of each group of latents
    q_targets: tuple[Gaussian, ...] | None = None  # for targets, where that is another one


class Averaged(Predictions):
    """Predictions p(y*) = Σ_k w_k p(y* | θ_k, q_k): with the methods of `ChainedGP`.

    It has copies of all that it needs: it does not change when the model does. One object is not
    to be used by several threads at once.

    Attributes
    ----------
    points : hyperparameters, each with a posterior of the latents.
    weights : (K,) of the points, which sum to 1.
    """

    def __init__(
        self,
        problem: Problem,
        points: Sequence[Point],
        weights: Array,
        columns: Columns,
        family: PosteriorFamily,
    ) -> None:
        self.problem, self.points, self.weights = problem.copy(), list(points), weights
        self.columns, self.family = columns, family
        self._vector = self.problem.free_vector()
        self._start, self._chosen = self._vector.read(), self._vector.groups[0]

    def __repr__(self) -> str:
        return f"<Predictions averaged over {len(self.points)} points>"

    def predictors(self) -> Iterator[Predictor]:
        """What predictions at each point of an average are made of, each until the next one."""
        parts, priors = self.problem.parts, None
        for point in self.points:
            if point.x is not None:
                full = self._start.copy()
                full[self._chosen] = point.x
                self._vector.write(full)
            if point.x is not None or priors is None:
                priors = parts.theta().priors()
            yield Predictor(
                parts.likelihood,
                priors,
                point.q,
                self.columns,
                self.family,
                q_targets=point.q_targets,
            )

    # ---- latents --------------------------------------------------------------------------------

    def latents(
        self, Xnew: Data, full_cov: bool = False, cross_cov: bool = False
    ) -> tuple[Array, Array]:
        """Mean and variance of the latents at Xnew: what they are within points, and between."""
        X, means, within = self.inputs(Xnew), [], np.zeros(())
        for weight, part in zip(self.weights, self.predictors(), strict=True):
            mean, variance = part.latents(X, full_cov, cross_cov)
            means.append(mean)
            within = within + weight * variance
        mean = np.tensordot(self.weights, means, 1)
        moved = np.sqrt(self.weights)[:, None, None] * (np.stack(means) - mean)
        return mean, within + np.einsum(BETWEEN[bool(full_cov), bool(cross_cov)], moved, moved)

    def latent_quantiles(self, Xnew: Data, levels: Array) -> Array:
        """Quantiles (n, b, k) of the latents at Xnew over all points, at levels (k,)."""
        X = self.inputs(Xnew)
        means, variances = zip(*(part.latents(X) for part in self.predictors()), strict=True)
        sds = np.sqrt(np.stack(variances))
        return normal_mixture_quantiles(np.stack(means), sds, self.weights, levels)

    def latent_draws(self, Xnew: Data, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of the latent functions at Xnew, averaged over points: (n, b, size)."""
        X, chosen = self.inputs(Xnew), rng.choice(len(self.points), size=size, p=self.weights)
        result = np.empty((len(X), len(self.problem.parts.kernels), size))
        for k, part in enumerate(self.predictors()):
            if (here := np.flatnonzero(chosen == k)).size:
                result[:, :, here] = part.latent_draws(X, len(here), rng)
        return result

    # ---- targets --------------------------------------------------------------------------------

    def _predictor(self) -> Averaged:
        return self

    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> AveragedPredictive:
        """The averaged predictive distribution of the targets at Xnew, one per row."""
        return self.distribution(Xnew, Y_metadata)

    def distribution(self, Xnew: Data, Y_metadata: Metadata = None) -> AveragedPredictive:
        """Averaged predictive distributions p(y*) = Σ_k w_k p(y* | θ_k, q_k), one for each row."""
        check_order(Xnew, None, Y_metadata)
        X, likelihood = self.inputs(Xnew), self.likelihood
        metadata, _ = as_metadata(Y_metadata, likelihood, len(X), weighted=False)
        parts: list[Predictive] = []
        pending: list[tuple[Array, ...]] = []
        known, own = None, likelihood
        for part in self.predictors():
            values = likelihood.parameter_values()
            if pending and values != known:
                parts.append(_joined(own, pending, metadata))
                pending = []
            if not pending:
                known, own = values, copy_of(likelihood)
            moments: tuple[Array, ...] = marginals_at(part.priors, part.q, part.family, X)
            if part.q_targets is not None:
                own_moments = marginals_at(part.priors, part.q_targets, part.family, X)
                moments = (*own_moments, moments[1])
            pending.append(moments)
        parts.append(_joined(own, pending, metadata))
        found = AveragedPredictive(likelihood, parts, self.weights)
        found.index = index_of(Xnew)
        if likelihood.event_times:
            found.last_time = self.problem.rows.last_time
        return found

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood of an average, whose parameters are those of the last point asked."""
        return self.problem.parts.likelihood

    @property
    def told(self) -> tuple[str, ...]:
        """Names of the metadata that the rows of the averaged model's fit had."""
        return self.problem.rows.telling

    def inputs(self, X: Data, name: str = "Xnew") -> Array:
        """New inputs X of an average as (n, D) with the model's columns."""
        if is_dask(X):
            raise InputError(IN_MEMORY.format(name=name))
        return as_inputs(X, name, self.columns)

    def for_blocks(self) -> Averaged:
        """Refuse a Dask array: an average at its blocks would be made again at each."""
        raise InputError(IN_MEMORY.format(name="Xnew"))


def _joined(
    likelihood: Likelihood, marginals: list[tuple[Array, ...]], metadata: dict[str, Array]
) -> Predictive:
    """The predictive distributions at points that share parameters of the likelihood, in one.

    marginals : means and covariances of the latents, and wider covariances where bands of latents
        have others than targets.
    """
    means, V, *wider = (np.concatenate(part) for part in zip(*marginals, strict=True))
    copies = {name: np.tile(value, len(marginals)) for name, value in metadata.items()}
    return Predictive(likelihood, means, V, copies, wider=wider[0] if wider else None)
