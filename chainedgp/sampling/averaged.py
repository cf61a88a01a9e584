"""Predictions that average over points: hyperparameters, each with its q, each with a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..data.arguments import as_generator, as_percent, positive_int
from ..data.frames import check_order, frame_like
from ..data.rows import Expected, Rows, as_inputs, as_metadata, is_dask
from ..data.types import Data, Frame, Metadata, Seed
from ..data.unsaid import unsaid, warn_of_unsaid
from ..errors import InputError
from ..inference.problem import Problem
from ..likelihoods import Likelihood
from ..linalg import Array, one_blas_thread
from ..parameters.parts import copy_of
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import make_prior
from ..predictive.averages import AveragedPredictive, normal_mixture_quantiles
from ..predictive.centiles import Bands, centile_frame
from ..predictive.classes import check_mean, class_columns, class_probabilities, proba_like
from ..predictive.distribution import Predictive
from ..predictive.latents import marginals_at
from ..predictive.predictor import Predictor

Columns = Expected  # what is known of the columns of new inputs


class Point(NamedTuple):
    """Hyperparameters and a posterior at them."""

    x: Array | None  # The free hyperparameters (p,); None leaves them as they are in the model.
    q: tuple[Gaussian, ...]  # of each group of latents


class Averaged:
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
        """What predictions at each point are made of: each until the next is asked for."""
        parts, priors = self.problem.parts, None
        for point in self.points:
            if point.x is not None:
                full = self._start.copy()
                full[self._chosen] = point.x
                self._vector.write(full)
            if point.x is not None or priors is None:
                theta = parts.theta()
                with one_blas_thread():
                    trio = zip(theta.kernels, theta.means, theta.Z, strict=True)
                    priors = tuple(make_prior(*part, theta.jitter) for part in trio)
            yield Predictor(parts.likelihood, priors, point.q, self.columns, self.family)

    # ---- latents --------------------------------------------------------------------------------

    def _marginals(self, Xnew: Data) -> tuple[Array, Array]:
        """Means and variances (K, n, b) of the latents at each point."""
        X = self._inputs(Xnew)
        means, variances = zip(*(part.latents(X) for part in self.predictors()), strict=True)
        return np.stack(means), np.stack(variances)

    def predict_latents(self, Xnew: Data) -> tuple[Array, Array]:
        """Mean and variance of the latents at Xnew, each (n, b)."""
        means, variances = self._marginals(Xnew)
        mean = np.tensordot(self.weights, means, 1)
        return mean, np.tensordot(self.weights, variances + (means - mean) ** 2, 1)

    def predict_latent_quantiles(
        self, Xnew: Data, quantiles: Sequence[float] = (2.5, 97.5)
    ) -> list[Array]:
        """Quantiles of the latents at Xnew, in percent: a list of (n, b)."""
        levels = as_percent(quantiles, "quantiles")
        means, variances = self._marginals(Xnew)
        table = normal_mixture_quantiles(means, np.sqrt(variances), self.weights, levels)
        return [table[..., k] for k in range(levels.size)]

    def posterior_samples_f(self, Xnew: Data, size: int = 10, rng: Seed = None) -> Array:
        """Joint draws of the latent functions at Xnew: (n, b, size)."""
        size, generator, X = positive_int(size, "size"), as_generator(rng), self._inputs(Xnew)
        chosen = generator.choice(len(self.points), size=size, p=self.weights)
        result = np.empty((len(X), len(self.problem.parts.kernels), size))
        for k, part in enumerate(self.predictors()):
            if (here := np.flatnonzero(chosen == k)).size:
                result[:, :, here] = part.latent_draws(X, len(here), generator)
        return result

    # ---- targets --------------------------------------------------------------------------------

    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> AveragedPredictive:
        """The predictive distribution of the targets at Xnew, one per row."""
        check_order(Xnew, None, Y_metadata)
        X, likelihood = self._inputs(Xnew), self.problem.parts.likelihood
        metadata, _ = as_metadata(Y_metadata, likelihood, len(X), weighted=False)
        parts: list[Predictive] = []
        pending: list[tuple[Array, Array]] = []
        known, own = None, likelihood
        for part in self.predictors():
            values = likelihood.parameter_values()
            if pending and values != known:
                parts.append(_joined(own, pending, metadata))
                pending = []
            if not pending:
                known, own = values, copy_of(likelihood)
            pending.append(marginals_at(part.priors, part.q, part.family, X))
        parts.append(_joined(own, pending, metadata))
        return AveragedPredictive(likelihood, parts, self.weights)

    def predict(self, Xnew: Data, Y_metadata: Metadata = None) -> tuple[Array, Array]:
        """Mean and variance of the targets at Xnew, each (n, 1)."""
        check_mean(self.problem.parts.likelihood)
        distribution = self.predictive(Xnew, Y_metadata)
        return distribution.mean, distribution.variance

    def predict_quantiles(
        self, Xnew: Data, quantiles: Sequence[float] = (2.5, 97.5), Y_metadata: Metadata = None
    ) -> list[Array]:
        """Quantiles of the targets, in percent: a list of (n, 1)."""
        levels = as_percent(quantiles, "quantiles")
        table = self.predictive(Xnew, Y_metadata).ppf(levels)
        return [table[:, k : k + 1] for k in range(levels.size)]

    def predict_frame(
        self,
        Xnew: Data,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        Y_metadata: Metadata = None,
    ) -> Frame:
        """Mean, variance and quantiles as a data frame of the kind that Xnew is.

        Of classes the one decided for and the probabilities, as in `ChainedGP.predict_frame`.
        """
        levels = as_percent(quantiles, "quantiles")
        distribution = self.predictive(Xnew, Y_metadata)
        likelihood = self.problem.parts.likelihood
        if likelihood.target_support.num_classes is not None:
            p = class_probabilities(distribution, likelihood)
            return frame_like(Xnew, class_columns(p, likelihood))
        table = {"mean": distribution.mean[:, 0], "variance": distribution.variance[:, 0]}
        names = (f"{100 * level:g}%" for level in levels)
        return frame_like(
            Xnew, {**table, **dict(zip(names, distribution.ppf(levels).T, strict=True))}
        )

    def predict_centiles(
        self,
        Xnew: Data,
        centiles: Sequence[float] = (3.0, 10.0, 25.0, 50.0, 75.0, 90.0, 97.0),
        bands: Bands = (5.0, 95.0),
        Y_metadata: Metadata = None,
    ) -> Frame:
        """A table of centiles with bands, as in `ChainedGP.predict_centiles`.

        The bands tell of hyperparameters and constant parameters of the likelihood too.
        """
        found = self.predictive(Xnew, Y_metadata).centiles(centiles, bands)
        return centile_frame(Xnew, centiles, found)

    def predict_proba(self, Xnew: Data, Y_metadata: Metadata = None) -> Array | Frame:
        """Probabilities of the classes at Xnew, (n, K), as in `ChainedGP.predict_proba`."""
        likelihood = self.problem.parts.likelihood
        p = class_probabilities(self.predictive(Xnew, Y_metadata), likelihood)
        return proba_like(Xnew, p, likelihood)

    def predict_density(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Predictive density (or mass) at y: a 1-D grid gives (n, k), (n, 1) is per row."""
        return self.predictive(Xnew, Y_metadata).pdf(y)

    def predict_cdf(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Predictive probability of a target of at most y; shapes as in `predict_density`."""
        return self.predictive(Xnew, Y_metadata).cdf(y)

    def log_predictive_density(self, Xnew: Data, Ynew: Data, Y_metadata: Metadata = None) -> Array:
        """log p(y* | x*) of new rows, (n, 1); the mean of its negative is the NLPD."""
        rows = Rows.read(
            Xnew,
            Ynew,
            Y_metadata,
            self.problem.parts.likelihood,
            columns=self.columns,
            names=("Xnew", "Ynew"),
            weighted=False,
        )
        warn_of_unsaid(unsaid(self.problem.rows.telling, rows.metadata))
        return self.predictive(rows.X, rows.metadata).logpdf(rows.targets()[:, None])

    def posterior_samples(
        self, Xnew: Data, size: int = 10, rng: Seed = None, Y_metadata: Metadata = None
    ) -> Array:
        """Draws of the targets at Xnew, independent over rows: (n, 1, size)."""
        return self.predictive(Xnew, Y_metadata).sample(size, rng)[:, None, :]

    def _inputs(self, Xnew: Data) -> Array:
        if is_dask(Xnew):
            raise InputError(
                "Xnew is a Dask array; averages over draws take rows that fit into memory: "
                "Xnew[:1000].compute()."
            )
        return as_inputs(Xnew, "Xnew", self.columns)


def _joined(
    likelihood: Likelihood, marginals: list[tuple[Array, Array]], metadata: dict[str, Array]
) -> Predictive:
    """The distributions at the points that have the same parameters of the likelihood, in one."""
    means, V = (np.concatenate(part) for part in zip(*marginals, strict=True))
    copies = {name: np.tile(value, len(marginals)) for name, value in metadata.items()}
    return Predictive(likelihood, means, V, copies)
