"""Inducing inputs: where they start, at data points, and which rows to add to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels import Kernel
from ..linalg import Array
from ..posterior.sparse import Projector, project
from .problem import Problem
from .starts import farthest, input_spread

# Inducing inputs are chosen among at most this many rows, drawn at random from larger data.
CANDIDATES = 10_000
# A row whose variance given the chosen ones is below this share of the prior variance adds nothing:
# what is left of its variance is rounding.
EXHAUSTED = 1e-6
# Conditional variances below this share of the mean prior variance, the share of the jitter, are
# rounding.
ROUNDING = 1e-8
# The cost of the inducing inputs is measured at about this many rows.
OPEN_ROWS = 1000


def select_inducing(kernel: Kernel, X: Array, num_inducing: int, rng: np.random.Generator) -> Array:
    """Choose `num_inducing` distinct rows of X (M, D) as inducing inputs, or all if fewer.

    Greedy conditional variance, by the pivoted Cholesky factorisation of K(X, X): the next row is
    the one with the largest prior variance given those chosen so far. A smooth kernel is exhausted
    after a few rows, but lengthscales will shrink in the fit: the rest are the rows farthest from
    all chosen ones, in standard deviations. O(n M²) on at most 10,000 candidates.
    """
    if X.shape[0] > CANDIDATES:
        X = X[np.sort(rng.choice(X.shape[0], CANDIDATES, replace=False))]
    X = np.unique(np.asarray(X, dtype=float), axis=0)
    M = min(num_inducing, X.shape[0])
    chosen = _by_variance(kernel, X, M)
    unordered = kernel.unordered_columns
    return X[farthest(X / input_spread(X), M, chosen, unordered)].copy()


def more_inducing(prior: Projector, X: Array, count: int) -> Array:
    """Up to `count` rows of X to add to the inducing inputs: those that these determine least."""
    X = np.unique(np.asarray(X, dtype=float), axis=0)
    return X[_by_variance(prior.kernel, X, min(count, len(X)), project(prior, X).A)]


def left_open(problem: Problem) -> float:
    """About how many nats a row, at most, inducing inputs cost: ½ Σ_j λ_ij (k_ii − a_iᵀa_i).

    λ_ij is the precision of the site of row i and latent j, and k_ii − a_iᵀa_i the variance given
    the inducing values; it is the mean over up to 1,000 rows of what that variance costs, as in the
    trace term of a Gaussian's collapsed bound. 0 if there are no sites in this process.
    """
    seen = _seen(problem, OPEN_ROWS)
    return 0.0 if seen is None else float(seen.costs().mean())


def rows_to_add(problem: Problem, most: int, usual: int, enough: float) -> Array:
    """Rows of X (k, D) to be added to the inducing inputs of all latents: `usual` or more.

    Rows are added until the cost is at most `enough` nats a row, but no more than `most`. Greedy,
    by pivoted Cholesky factorisations of each latent's covariance given the inducing inputs: the
    next row is the one that costs most, ½ Σ_j λ_ij (k_ii − a_iᵀa_i), given those before. O(n M²)
    for each latent, on up to 10,000 rows.
    """
    seen = _seen(problem, CANDIDATES)
    if seen is None or most < 1:
        return np.empty((0, problem.sample.X.shape[1]))
    return seen.X[seen.costliest(most, usual, enough)]


@dataclass
class _Seen:
    """Some rows with what the inducing inputs leave open of their latents.

    X : (n, D). weights : ½ λ_ij, half the precisions of the sites, (b, n). kernels : one for each
    latent. factors : A = L⁻¹ Kuf of each latent, (M, n). residuals : k_ii − a_iᵀa_i (b, n).
    """

    X: Array
    weights: Array
    kernels: list[Kernel]
    factors: list[Array]
    residuals: Array

    def costs(self) -> Array:
        """Nats that the inducing inputs cost each row, (n,)."""
        return np.einsum("ji,ji->i", self.weights, self.residuals)

    def costliest(self, most: int, usual: int, enough: float) -> list[int]:
        """Indices of the rows to be added to the inducing inputs, one after another."""
        floors = [ROUNDING * kernel.evaluate_diag(self.X)[0].mean() for kernel in self.kernels]
        M, n = len(self.factors[0]), len(self.X)
        rows = [np.vstack([A, np.empty((most, n))]) for A in self.factors]
        chosen: list[int] = []
        for k in range(M, M + most):
            costs = self.costs()
            pivot = int(np.argmax(costs))
            open_at = self.residuals[:, pivot] > floors
            if not open_at.any() or (len(chosen) >= usual and costs.mean() <= enough):
                break
            chosen.append(pivot)
            for kernel, L, residual, is_open in zip(
                self.kernels, rows, self.residuals, open_at, strict=True
            ):
                L[k] = 0.0
                if is_open:
                    column = kernel.evaluate(self.X[pivot : pivot + 1], self.X)[0][0]  # (n,)
                    L[k] = (column - L[:k, pivot] @ L[:k]) / np.sqrt(residual[pivot])
                    np.maximum(residual - L[k] ** 2, 0.0, out=residual)
                residual[pivot] = 0.0
        return chosen


def _seen(problem: Problem, most: int) -> _Seen | None:
    """About `most` rows with what the inducing inputs leave open of them; None without sites."""
    shards = problem.evaluator.shards
    if not problem.is_local or not shards or not shards[0].has_sites:
        return None
    rows, setting = shards[0].rows, problem.evaluator.setting
    some = np.arange(0, rows.num_rows, -(-rows.num_rows // most))
    precisions = problem.evaluator.family.precisions(shards[0].sites.current)[:, some]  # (b, n)
    X = np.asarray(rows.X[some], dtype=float)
    chunks = [project(prior, X) for prior in setting.projectors]
    left = [chunk.kff - np.einsum("ij,ij->j", chunk.A, chunk.A) for chunk in chunks]
    return _Seen(
        X,
        0.5 * np.maximum(precisions, 0.0),
        [prior.kernel for prior in setting.projectors],
        [chunk.A for chunk in chunks],
        np.maximum(left, 0.0),
    )


def _by_variance(kernel: Kernel, X: Array, M: int, given: Array | None = None) -> list[int]:
    """At most M rows for inducing inputs: each has the largest variance given those before.

    given : (m, n) factor of the covariance of X that other inducing inputs explain, or None.
    """
    residual = np.array(kernel.evaluate_diag(X)[0])  # (n,) conditional variances
    threshold = EXHAUSTED * residual.max()
    m = 0 if given is None else len(given)
    rows = np.empty((m + M, X.shape[0]))  # rows of the pivoted Cholesky factor
    if given is not None:
        rows[:m] = given
        residual -= np.einsum("ij,ij->j", given, given)
    chosen: list[int] = []
    for k in range(m, m + M):
        pivot = int(np.argmax(residual))
        if residual[pivot] <= threshold:
            break
        column = kernel.evaluate(X[pivot : pivot + 1], X)[0][0]  # (n,)
        done = rows[:k]
        rows[k] = (column - done[:, pivot] @ done) / np.sqrt(residual[pivot])
        residual -= rows[k] ** 2
        residual[pivot] = 0.0
        np.maximum(residual, 0.0, out=residual)
        chosen.append(pivot)
    return chosen
