"""q(f*) of the latent functions at new inputs: marginals, covariances and joint draws.

Every function takes `priors` and `q`, one for each latent, and X (n, D).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import NumericalError
from ..linalg import Array, cholesky, one_blas_thread
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import Prior, marginals, project

__all__ = ["covariances_at", "draws_at", "marginals_at"]

BLOCK_ROWS = 4096  # rows whose marginals are computed at once, so that memory stays bounded
JOINT_ROWS = 2048  # rows that are drawn jointly, given the inducing values: (n, n) covariances


def marginals_at(priors: Sequence[Prior], q: Sequence[Gaussian], X: Array) -> tuple[Array, Array]:
    """Means and variances of q(f*), each (n, b) (Saul et al. 2016, eqs. 4 and 5)."""
    n, b = X.shape[0], len(priors)
    m, v = np.empty((b, n)), np.empty((b, n))
    with one_blas_thread():
        for start in range(0, n, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            block = np.ascontiguousarray(X[rows], dtype=float)
            for j, (prior, part) in enumerate(zip(priors, q, strict=True)):
                m[j, rows], v[j, rows], _ = marginals(project(prior, block), part)
    return m.T, v.T


def covariances_at(priors: Sequence[Prior], q: Sequence[Gaussian], X: Array) -> tuple[Array, Array]:
    """Means (n, b) and covariances (b, n, n) of q(f*): K** + Aᵀ(S − I)A of every latent."""
    means, covariances = [], []
    with one_blas_thread():
        for prior, part in zip(priors, q, strict=True):
            chunk = project(prior, X)
            C = prior.kernel.K(X) + chunk.A.T @ (part.S_minus_I @ chunk.A)
            means.append(chunk.mean + part.mu @ chunk.A)
            covariances.append(0.5 * (C + C.T))
    return np.stack(means, 1), np.stack(covariances)


def draws_at(
    priors: Sequence[Prior],
    q: Sequence[Gaussian],
    X: Array,
    size: int,
    rng: np.random.Generator,
) -> Array:
    """Joint draws from q(f*), (n, b, size).

    f = mean(x) + Aᵀv + r with v ~ q(v) and r ~ N(0, K** − AᵀA), in blocks of JOINT_ROWS rows.
    """
    draws = np.empty((X.shape[0], len(priors), size))
    for j, (prior, part) in enumerate(zip(priors, q, strict=True)):
        root = cholesky(part.S, "the covariance of q(u)")
        v = part.mu[:, None] + root @ rng.standard_normal((len(root), size))
        for start in range(0, X.shape[0], JOINT_ROWS):
            block = np.ascontiguousarray(X[start : start + JOINT_ROWS], dtype=float)
            chunk = project(prior, block)
            C = prior.kernel.K(block) - chunk.A.T @ chunk.A
            C = 0.5 * (C + C.T)
            # only for rounding: often the inducing values leave nothing open, and C is 0
            C.flat[:: len(C) + 1] += 1e-9 * chunk.kff.mean() + 1e-300
            noise = _root(C) @ rng.standard_normal((len(C), size))
            draws[start : start + len(C), j] = chunk.mean[:, None] + chunk.A.T @ v + noise
    return draws


def _root(C: Array) -> Array:
    """R with R Rᵀ = C; where rounding has made C indefinite, of the nearest matrix that is not."""
    try:
        return cholesky(C, "the prior covariance given the inducing values")
    except NumericalError:
        values, vectors = np.linalg.eigh(C)
        return vectors * np.sqrt(np.maximum(values, 0.0))
