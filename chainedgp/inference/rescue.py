"""A fit that ends below constant latents has gone astray: how to see it, and where to begin again.

From a wild start (a prior variance of 1e12, say) the bound can lead to a plateau. The model with
kernel variances of 0 and the right means is the one with constant latents, so a start close to that
is never far below its log-likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parameters.domains import CONTINUOUS
from .free_vector import FreeVector

__all__ = [
    "NO_LIMIT",
    "SMALL",
    "grows_without_limit",
    "rows_without_noise",
    "set_nearly_constant",
    "shrink_variances",
    "worse_than_constants",
]

SLACK = 0.02  # nats a row
MOST = 30.0  # nats a row above constant latents: a noise has shrunk by a factor of e³⁰
SHARPEST = 1e26  # precision, in latent scales: beyond it the latent itself is rounded
SMALL = 0.1  # prior standard deviations, in the scale on which a latent varies

NO_LIMIT = (
    "the bound grows without limit, because some noise vanishes: targets are repeated exactly, or "
    "a prior on the noise is needed"
)


def grows_without_limit(model: Any, bound: float) -> bool:
    """Whether a noise vanishes: a bound far above that of constant latents can have no other cause.

    Or a bound above it at all, where some rows tell a latent more precisely than numbers can.
    """
    if model.likelihood.support not in CONTINUOUS:
        return False
    rows = model._evaluator.num_rows  # not all, in a fit to some of them
    flat = model._flat_score * rows
    most = flat + MOST * model._total_weight * rows / model.X.shape[0]
    return bool(bound > most) or bool(bound > flat and rows_without_noise(model).size)


def rows_without_noise(model: Any) -> np.ndarray:
    """Indices of rows that tell a latent to within 1e-13 of the scale on which it varies.

    By the precision of their sites; none where a fit has no sites, or they are on a cluster.
    """
    shards = model._evaluator.shards
    if not shards or not shards[0].has_sites():
        return np.empty(0, dtype=int)
    precision = shards[0].sites()[1].T * np.square(model._latent_scales)  # (n, b)
    weights = shards[0].rows.weights
    if weights is not None:
        precision = precision / np.maximum(weights, 1e-300)[:, None]
    return np.flatnonzero((precision > SHARPEST).any(axis=1))


def worse_than_constants(model: Any) -> bool:
    """Whether the bound is below the log-likelihood of constant latents (moment estimates)."""
    shards = model._evaluator.shards
    if not shards:  # the rows are on a cluster
        return False
    flat = model._flat_score * model._evaluator.num_rows
    return bool(np.isfinite(flat)) and model.log_likelihood() < flat - SLACK * model._total_weight


def set_nearly_constant(model: Any, small: float = SMALL) -> None:
    """Small variances of kernels, the constants as means, q the prior; what is fixed stays.

    small : prior standard deviations in the scale on which a latent varies; 0 for such that the
        bound is close to that of constant latents, where a fit cannot but end above it.
    """
    for mean, value in zip(model.mean_functions, model._flat_latents, strict=True):
        mean.set_constant(float(value))
    model._reset_q()
    if small > 0.0:
        shrink_variances(model, small)
        return
    vector = FreeVector(model)
    x, variances = vector.read(), vector.variances_of(model.kernels)
    last = -np.inf
    # smaller ones help no more once what is fixed has the rest of the variance
    while worse_than_constants(model) and model.log_likelihood() > last + 1e-3 and variances.any():
        last = model.log_likelihood()
        x[variances] -= 4.0
        vector.write(x)


@np.errstate(over="ignore")
def shrink_variances(model: Any, most: float) -> bool:
    """Divide the free variances of kernels till prior sds are `most` latent scales; if any was.

    A kernel is divided as long as it helps: what a fixed part gives to the variance stays.
    """
    vector, rows = FreeVector(model), np.asarray(model._sample.X[:100], dtype=float)
    x, shrunk = vector.read(), False
    for kernel, scale in zip(model.kernels, model._latent_scales, strict=True):
        step = np.where(vector.variances_of([kernel]), 1.0, 0.0)
        size = float(np.mean(kernel.Kdiag(rows)))
        while size > (most * scale) ** 2:
            vector.write(x - step)
            last, size = size, float(np.mean(kernel.Kdiag(rows)))
            if not size < 0.9 * last:
                vector.write(x)
                break
            x, shrunk = vector.read(), True
    return shrunk
