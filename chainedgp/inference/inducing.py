"""Where to put inducing inputs: greedily where the prior is least determined by those chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import Array

__all__ = ["select_inducing"]

CANDIDATES = 10_000
EXHAUSTED = 1e-9  # of the prior variance: no row is left that the chosen ones do not determine


def select_inducing(kernel: Any, X: Array, num_inducing: int, rng: np.random.Generator) -> Array:
    """Up to `num_inducing` rows of X (M, D) by greedy conditional variance.

    The pivoted Cholesky factorisation of K(X, X): the next row is the one with the largest prior
    variance given those chosen so far. Stops early when nothing is left to determine, so
    duplicated rows are never chosen twice. O(n M²) on at most 10,000 candidates.
    """
    if X.shape[0] > CANDIDATES:
        X = X[np.sort(rng.choice(X.shape[0], CANDIDATES, replace=False))]
    X = np.unique(np.asarray(X, dtype=float), axis=0)
    n = X.shape[0]
    M = min(num_inducing, n)
    residual = np.array(kernel.evaluate_diag(X)[0])  # (n,) conditional variances
    threshold = EXHAUSTED * residual.max()
    rows = np.empty((M, n))  # of the pivoted factor
    chosen: list[int] = []
    for k in range(M):
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
    return X[chosen or [0]].copy()
