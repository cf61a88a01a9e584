"""The log-posterior of the whitened inducing values v, which q approximates, to draw from.

q maximises the bound, which is −KL(q ‖ p̂) + constant for the density

    log p̂(v) = Σ_i w_i E[log p(y_i | f_i) | v] − ½ |v|² + constant,
    f_ij | v ~ N(mean_j(x_i) + a_ijᵀ v_j, k_j(x_i, x_i) − |a_ij|²),  independent over latents j.

It is the best posterior of v among all, Gaussian or not (Hensman et al. 2015), and the exact one
where the inducing inputs are the rows. The expectation is that of the bound with S = 0: one
evaluation gives value and gradient, for every family of q.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.rows import rows_of
from ..data.types import Keywords
from ..errors import InputError
from ..inference.problem import Problem
from ..linalg import Array, Indices, one_blas_thread
from ..posterior.gaussian import Gaussian
from ..posterior.mean_field import MEAN_FIELD
from ..posterior.sparse import project

ENTRIES = 2**17  # So many pairs of a row and a draw are evaluated at once: memory stays bounded.


def point(v: Array) -> Gaussian:
    """The point mass q(v) at one v (M,), to evaluate the posterior density there: S = 0."""
    S = np.zeros((v.size, v.size))
    return Gaussian(v, S, -np.inf, root=S)


def whitened_q(problem: Problem) -> tuple[Array, Array]:
    """Mean (D,) and root R (D, D), S = R Rᵀ, of q of all latents' inducing values, stacked."""
    family, sizes = problem.parts.family, problem.parts.sizes
    ends = np.cumsum([0, *sizes])
    mean, root = np.zeros(ends[-1]), np.zeros((ends[-1], ends[-1]))
    for group, part in zip(family.groups(len(sizes)), problem.parts.q(), strict=True):
        entries = np.concatenate([np.arange(ends[j], ends[j + 1]) for j in group])
        mean[entries] = part.mu
        root[np.ix_(entries, entries)] = part.root
    return mean, root


class Expectation(NamedTuple):
    """Expected log-densities of rows (n,), and their slopes in means (n, b) and V, as V is."""

    value: Array
    dmeans: Array
    dV: Array


class LogJoint:
    """The log-posterior log p̂(v) of inducing values at current hyperparameters, up to a constant.

    The parts that the rows see are read once, here: nothing changes when the model does.
    """

    def __init__(self, problem: Problem) -> None:
        if not problem.is_local:
            raise InputError(
                "draws from the posterior need the rows in memory, and these are on a cluster: "
                "build a model of some of the rows, such as X[:1000].compute()."
            )
        theta, rows = problem.parts.theta(), problem.rows
        X, self.y = rows.inputs(slice(None)), rows.targets()
        with one_blas_thread():
            self.chunks = [project(prior, X) for prior in theta.priors()]
            nothing = [point(np.zeros(len(chunk.A))) for chunk in self.chunks]
            self.variances = MEAN_FIELD.marginals(self.chunks, nothing).V.T.copy()  # (n, b)
        self.likelihood, self.num_nodes = theta.likelihood, problem.num_nodes
        self.weights = rows.weights
        self._levels: Indices | None = None
        self.keywords = rows.keywords(slice(None), **theta.parameters)
        self.sizes = [len(chunk.A) for chunk in self.chunks]
        self.num_dimensions = sum(self.sizes)

    def split(self, V: Array) -> list[Array]:
        """The parts of stacked inducing values V (D, S) that belong to each latent."""
        return np.split(V, np.cumsum(self.sizes)[:-1])

    def latents(self, V: Array, rows: np.ndarray | slice = slice(None)) -> Array:
        """Means (b, n, S) of f given inducing values v at some rows, for S draws V (D, S)."""
        pairs = zip(self.chunks, self.split(V), strict=True)
        return np.stack([c.mean[rows, None] + c.A[:, rows].T @ v for c, v in pairs])

    def slopes(self, means: Array, V: Array, nodes: int | Indices | None = None) -> Expectation:
        """E[log p] of every row under N(means, V), and its slopes, times the weights of the rows.

        nodes : how many each row has; None takes as many as it needs.
        """
        lik, weights = self.likelihood, 1.0 if self.weights is None else self.weights
        many = self.nodes(means, V) if nodes is None else nodes
        value, dmeans, dV, _ = lik.expectation(self.y, means, V, many, **self.keywords)
        return Expectation(weights * value, (weights * dmeans.T).T, (weights * dV.T).T)

    def nodes(self, means: Array, V: Array) -> int | Indices:
        """How many nodes the rows need at these moments of their latents."""
        if self.num_nodes is not None or self.likelihood.exact_expectation:
            return self.num_nodes or 1  # An exact one has no use for nodes.
        return self.likelihood.required_nodes(self.y, means, V, **self.keywords)

    def __call__(self, V: Array) -> tuple[Array, Array]:
        """Log-posterior log p̂ (S,) and gradients (D, S) at draws V (D, S); −inf without value."""
        values, slopes = np.empty(V.shape[1]), np.empty(V.shape)
        step = max(1, ENTRIES // len(self.y))
        with one_blas_thread(), np.errstate(all="ignore"):
            for start in range(0, V.shape[1], step):
                some = slice(start, start + step)
                values[some], slopes[:, some] = self._block(V[:, some])
        finite = np.isfinite(values) & np.isfinite(slopes).all(axis=0)
        return np.where(finite, values, -np.inf), np.where(finite, slopes, 0.0)

    def _tried_once(self, y: Array, means: Array, variances: Array, kw: Keywords) -> Indices:
        """Quadrature nodes (n,) of each row, the most that the draws of the first block want.

        Trials cost more than the sums themselves, and variances given v are the same for all draws.
        """
        if self._levels is None:
            wanted = self.likelihood.required_nodes(y, means, variances, **kw)
            self._levels = wanted.reshape(len(self.y), -1).max(axis=1)
        return self._levels

    def _block(self, V: Array) -> tuple[Array, Array]:
        n, S = len(self.y), V.shape[1]
        means = self.latents(V).reshape(len(self.sizes), n * S).T
        rows = np.repeat(np.arange(n), S)
        y, variances, kw = self.y[rows], self.variances[rows], rows_of(self.keywords, rows)
        lik = self.likelihood
        nodes: int | Indices = self.num_nodes or 1  # An exact expectation has no use for nodes.
        if self.num_nodes is None and lik.tries_nodes:
            nodes = self._tried_once(y, means, variances, kw)[rows]
        elif self.num_nodes is None and not lik.exact_expectation:
            nodes = lik.required_nodes(y, means, variances, **kw)
        value, dm, _, _ = lik.expectation(y, means, variances, nodes, **kw)
        weights = np.ones(n) if self.weights is None else self.weights
        slopes = dm.T.reshape(-1, n, S) * weights[:, None]
        pairs = zip(self.chunks, slopes, strict=True)
        gradient = np.concatenate([chunk.A @ slope for chunk, slope in pairs]) - V
        return weights @ value.reshape(n, S) - 0.5 * np.sum(V * V, axis=0), gradient
