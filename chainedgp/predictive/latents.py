"""The latent functions q(f*) at new inputs: marginals, covariances and joint draws.

Every function takes the projectors of all latents, q of their groups, the family of q and X (n, D).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ..errors import NumericalError
from ..linalg import Array, cholesky, one_blas_thread
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import Projector, project

BLOCK_ROWS = 4096  # Marginals of q(f*) are computed for so many rows at once, to bound memory.
JOINT_ROWS = 2048  # At most so many rows are drawn jointly given u: that takes an (n, n) matrix.


def marginals_at(
    priors: Sequence[Projector], q: Sequence[Gaussian], family: PosteriorFamily, X: Array
) -> tuple[Array, Array]:
    """Means (n, b) of q(f*) at new inputs, and variances (n, b) or covariances (n, b, b).

    They are covariances if q has correlations between latents (Saul et al. 2016, eqs. 4 and 5).
    """
    return marginals_and_loads_at(priors, q, family, X, None)[:2]


def marginals_and_loads_at(
    priors: Sequence[Projector],
    q: Sequence[Gaussian],
    family: PosteriorFamily,
    X: Array,
    links: Sequence[Array] | None,
) -> tuple[Array, Array, Array | None]:
    """Those of `marginals_at`, and cov(f_j*, z) (n, b, c) of each latent with variables z (c,).

    links : cov(v_j, z), (M_j, c), with the whitened inducing values; None where there is no z.
    """
    parts, loads = [], []
    with one_blas_thread():
        for start in range(0, X.shape[0], BLOCK_ROWS):
            block = np.ascontiguousarray(X[start : start + BLOCK_ROWS], dtype=float)
            chunks = [project(prior, block) for prior in priors]
            parts.append(family.marginals(chunks, q))
            if links is not None:
                pairs = zip(chunks, links, strict=True)
                loads.append(np.stack([chunk.A.T @ link for chunk, link in pairs], axis=1))
    m = np.concatenate([part.m for part in parts], axis=-1)
    V = np.concatenate([part.V for part in parts], axis=-1)
    return m.T, V.T, None if links is None else np.concatenate(loads)


def covariances_at(
    priors: Sequence[Projector], q: Sequence[Gaussian], family: PosteriorFamily, X: Array
) -> tuple[Array, Array]:
    """Means (n, b), covariances (b, n, n) of q(f*) at new inputs: K** + Aᵀ(S − I)A of latents."""
    means, covariances = [], []
    by_latent = family.by_latent(q, [len(prior.Z) for prior in priors])
    with one_blas_thread():
        for prior, part in zip(priors, by_latent, strict=True):
            chunk = project(prior, X)
            C = prior.kernel.K(X) + chunk.A.T @ (part.S_minus_I @ chunk.A)
            means.append(chunk.mean + part.mu @ chunk.A)
            covariances.append(0.5 * (C + C.T))
    return np.stack(means, 1), np.stack(covariances)


def cross_covariances_at(
    priors: Sequence[Projector], q: Sequence[Gaussian], family: PosteriorFamily, X: Array
) -> tuple[Array, Array]:
    """Means (n, b) and covariances (b, b, n, n) of q(f*): A_jᵀ S_jk A_k between latents j and k."""
    means, own = covariances_at(priors, q, family, X)
    (b, n, _), every = own.shape, np.arange(len(priors))
    covariances = np.zeros((b, b, n, n))
    covariances[every, every] = own
    with one_blas_thread():
        for group, part in zip(family.groups(b), q, strict=True):
            ends = np.cumsum([0, *(len(priors[j].Z) for j in group)])
            A = [project(priors[j], X).A for j in group] if len(group) > 1 else []
            for i, h in combinations(range(len(A)), 2):
                S = part.S[ends[i] : ends[i + 1], ends[h] : ends[h + 1]]
                block = A[i].T @ (S @ A[h])
                covariances[group[i], group[h]] = block
                covariances[group[h], group[i]] = block.T
    return means, covariances


def draws_at(
    priors: Sequence[Projector],
    q: Sequence[Gaussian],
    family: PosteriorFamily,
    X: Array,
    size: int,
    rng: np.random.Generator,
) -> Array:
    """Joint draws of the latent functions at new inputs from q(f*), (n, b, size).

    f = mean(x) + Aᵀv + r with v ~ q(v) and r ~ N(0, K** − AᵀA), in blocks of JOINT_ROWS rows.
    """
    draws = np.empty((X.shape[0], len(priors), size))
    for group, part in zip(family.groups(len(priors)), q, strict=True):
        root = part.root
        if root is None:
            root = cholesky(part.S, "the covariance of q(u)")
        v = part.mu[:, None] + root @ rng.standard_normal((len(root), size))
        ends = np.cumsum([len(priors[j].Z) for j in group])
        with one_blas_thread():  # Threads of BLAS that wait for each other cost more than they do.
            for j, v_j in zip(group, np.split(v, ends[:-1]), strict=True):
                _write_draws(draws[:, j], priors[j], v_j, X, rng)
    return draws


def _write_draws(
    draws: Array, prior: Projector, v: Array, X: Array, rng: np.random.Generator
) -> None:
    """Set joint draws (n, size) of one latent, given those of its inducing values v (M, size)."""
    for start in range(0, X.shape[0], JOINT_ROWS):
        block = np.ascontiguousarray(X[start : start + JOINT_ROWS], dtype=float)
        chunk = project(prior, block)
        C = prior.kernel.K(block) - chunk.A.T @ chunk.A
        C = 0.5 * (C + C.T)
        # This is only for rounding: often the inducing values leave nothing open, and C is 0.
        C.flat[:: len(C) + 1] += 1e-9 * chunk.kff.mean() + 1e-300
        noise = _root(C) @ rng.standard_normal((len(C), v.shape[1]))
        draws[start : start + len(C)] = chunk.mean[:, None] + chunk.A.T @ v + noise


def _root(C: Array) -> Array:
    """A root R of a covariance of latents, R Rᵀ = C, or of the nearest semidefinite matrix."""
    try:
        return cholesky(C, "the prior covariance given the inducing values")
    except NumericalError:
        values, vectors = np.linalg.eigh(C)
        return vectors * np.sqrt(np.maximum(values, 0.0))
