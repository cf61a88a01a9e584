"""Prediction methods of the model; all distributions come from one `Predictive` object."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ..data.arguments import as_generator, as_percent, positive_int
from ..data.frames import check_order, frame_like, rows_by_name
from ..data.rows import as_inputs, as_metadata, as_targets, is_dask, without_weights
from ..errors import InputError, NumericalError
from ..linalg import Array, cholesky, one_blas_thread
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import Prior, make_prior, marginals, project
from .distribution import Predictive

__all__ = ["Prediction"]

BLOCK_ROWS = 4096
JOINT_ROWS = 2048


Method = TypeVar("Method", bound=Callable[..., Any])


def _by_blocks(method: Method) -> Method:
    """A method that on a Dask array works block by block, later, and gives Dask arrays."""

    @functools.wraps(method)
    def either(self: Any, Xnew: Any, *args: Any, **kw: Any) -> Any:
        if not is_dask(Xnew):
            return method(self, Xnew, *args, **kw)
        from ..distributed import map_blocks  # it builds on this module

        return map_blocks(self, method, Xnew, *args, **kw)

    return cast(Method, either)


class Prediction:
    """Prediction methods of the model: latents, and the distribution of new targets."""

    _column_names: tuple[str, ...] | None = None  # of the data frame that the model was built with

    def _rows(self, X: Any, name: str = "Xnew") -> Array:
        """X as (n, D) with the model's columns."""
        if is_dask(X):
            raise InputError(
                f"{name} is a Dask array, which predict, predict_latents, predict_quantiles, "
                "predict_density, predict_cdf and log_predictive_density take, without full_cov. "
                f"Here give rows that fit into memory: {name}[:1000].compute()."
            )
        return as_inputs(X, name, self._column_names or self.X.shape[1])  # type: ignore

    @_by_blocks
    def predict_latents(self, Xnew: Any, full_cov: bool = False) -> tuple[Array, Array]:
        """q(f*) of every latent at Xnew (Saul et al. 2016, eqs. 4 and 5).

        Returns mean (n, b) and variance (n, b), or with `full_cov` the covariance (b, n, n).
        """
        model: Any = self
        X = model._rows(Xnew)
        priors, q = self._posterior()
        with one_blas_thread():
            if full_cov:
                parts = [_joint(prior, part, X) for prior, part in zip(priors, q, strict=True)]
                return np.stack([m for m, _ in parts], 1), np.stack([C for _, C in parts])
            return _marginals_in_blocks(priors, q, X)

    def predictive(self, Xnew: Any, Y_metadata: Any = None) -> Predictive:
        """The predictive distribution of the targets at Xnew: p(y* | x*) under q (one per row)."""
        model: Any = self
        check_order(Xnew, rows_by_name(None, Y_metadata))
        X = model._rows(Xnew)
        given = without_weights(Y_metadata)
        metadata, _ = as_metadata(given, model.likelihood, X.shape[0])
        means, variances = self.predict_latents(X)
        return Predictive(model.likelihood, means, variances, metadata)

    @_by_blocks
    def predict(self, Xnew: Any, Y_metadata: Any = None) -> tuple[Array, Array]:
        """Mean and variance of the targets at Xnew, each (n, 1)."""
        distribution = self.predictive(Xnew, Y_metadata)
        return distribution.mean, distribution.variance

    def predict_frame(
        self,
        Xnew: Any,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        Y_metadata: Any = None,
    ) -> Any:
        """Predictions as a pandas DataFrame with the index of Xnew, where it has one.

        A frame of another library, such as polars, gives a frame of that library. Columns: mean,
        variance, and the quantiles, in percent: "2.5%", "50%", "97.5%".
        """
        levels = as_percent(quantiles, "quantiles")
        distribution = self.predictive(Xnew, Y_metadata)
        table = dict(
            zip((f"{100 * q:g}%" for q in levels), distribution.ppf(levels).T, strict=True)
        )
        moments = {"mean": distribution.mean[:, 0], "variance": distribution.variance[:, 0]}
        return frame_like(Xnew, {**moments, **table})

    @_by_blocks
    def predict_quantiles(
        self, Xnew: Any, quantiles: Sequence[float] = (2.5, 97.5), Y_metadata: Any = None
    ) -> list[Array]:
        """Quantiles of the targets, in percent as in GPy: a list of (n, 1)."""
        levels = as_percent(quantiles, "quantiles")
        table = self.predictive(Xnew, Y_metadata).ppf(levels)  # (n, k)
        return [table[:, k : k + 1] for k in range(levels.size)]

    @_by_blocks
    def predict_density(self, Xnew: Any, y: Any, Y_metadata: Any = None) -> Array:
        """Predictive density (or mass) at y: a 1-D grid gives (n, k), (n, 1) is per row."""
        return self.predictive(Xnew, Y_metadata).pdf(y)

    @_by_blocks
    def predict_cdf(self, Xnew: Any, y: Any, Y_metadata: Any = None) -> Array:
        """Predictive probability of a target of at most y; shapes as in `predict_density`."""
        return self.predictive(Xnew, Y_metadata).cdf(y)

    @_by_blocks
    def log_predictive_density(self, Xnew: Any, Ynew: Any, Y_metadata: Any = None) -> Array:
        """log p(y* | x*) of new rows, (n, 1); the mean of its negative is the NLPD."""
        model: Any = self
        check_order(Xnew, rows_by_name(Ynew, Y_metadata, "Ynew"))
        X = model._rows(Xnew)
        y = as_targets(Ynew, X.shape[0], "Ynew")
        given = without_weights(Y_metadata)
        metadata, _ = as_metadata(given, model.likelihood, X.shape[0])
        model.likelihood.check_rows(y, **metadata)
        return self.predictive(X, metadata).logpdf(y[:, None])

    def posterior_samples(
        self, Xnew: Any, size: int = 10, rng: Any = None, Y_metadata: Any = None
    ) -> Array:
        """Draws of the targets at Xnew, independent over rows: (n, 1, size)."""
        size = positive_int(size, "size")
        draws = self.predictive(Xnew, Y_metadata).sample(size, as_generator(rng))
        return draws[:, None, :]

    def posterior_samples_f(self, Xnew: Any, size: int = 10, rng: Any = None) -> Array:
        """Joint draws of the latent functions at Xnew from q: (n, b, size).

        f = mean(x) + Aᵀv + r with v ~ q(v), and r ~ N(0, K** − AᵀA), what the inducing values leave
        open. For more than 2,048 rows r is drawn in blocks of as many, independent of each other;
        v, and with it nearly all correlation, is common to all.
        """
        model: Any = self
        size, rng = positive_int(size, "size"), as_generator(rng)
        X = model._rows(Xnew)
        draws = np.empty((X.shape[0], len(model.latents), size))
        for j, (prior, q) in enumerate(zip(*self._posterior(), strict=True)):
            root = cholesky(q.S, "the covariance of q(u)")
            v = q.mu[:, None] + root @ rng.standard_normal((len(root), size))
            for start in range(0, X.shape[0], JOINT_ROWS):
                block = np.ascontiguousarray(X[start : start + JOINT_ROWS], dtype=float)
                part = project(prior, block)
                C = prior.kernel.K(block) - part.A.T @ part.A
                C = 0.5 * (C + C.T)
                # rounding only: what the inducing values leave open is often nothing
                C.flat[:: len(C) + 1] += 1e-9 * part.kff.mean() + 1e-300
                noise = _root(C) @ rng.standard_normal((len(C), size))
                draws[start : start + len(C), j] = part.mean[:, None] + part.A.T @ v + noise
        return draws

    def _posterior(self) -> tuple[list[Prior], tuple[Gaussian, ...]]:
        """Priors and q at the current parameters; a snapshot, so threads may predict at once."""
        theta = self._theta()  # type: ignore[attr-defined]
        with one_blas_thread():
            priors = [
                make_prior(kernel, mean, Z, theta.jitter)
                for kernel, mean, Z in zip(theta.kernels, theta.means, theta.Z, strict=True)
            ]
        return priors, self._q()  # type: ignore[attr-defined]


def _root(C: Array) -> Array:
    """R with R Rᵀ = C; where rounding has made C indefinite, of the nearest matrix that is not."""
    try:
        return cholesky(C, "the prior covariance given the inducing values")
    except NumericalError:
        values, vectors = np.linalg.eigh(C)
        return vectors * np.sqrt(np.maximum(values, 0.0))


def _marginals_in_blocks(
    priors: Sequence[Prior], q: Sequence[Gaussian], X: Array
) -> tuple[Array, Array]:
    """Means and variances (n, b) of q(f*), in blocks of rows so that memory stays bounded."""
    n, b = X.shape[0], len(priors)
    m, v = np.empty((b, n)), np.empty((b, n))
    for start in range(0, n, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = np.ascontiguousarray(X[rows], dtype=float)
        for j, (prior, part) in enumerate(zip(priors, q, strict=True)):
            m[j, rows], v[j, rows], _ = marginals(project(prior, block), part)
    return m.T, v.T


def _joint(prior: Prior, q: Gaussian, X: Array) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) of q(f*) of one latent: K** + Aᵀ(S − I)A."""
    A = project(prior, X)
    C = prior.kernel.K(X) + A.A.T @ (q.S_minus_I @ A.A)
    return A.mean + q.mu @ A.A, 0.5 * (C + C.T)
