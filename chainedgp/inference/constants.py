"""A fit that ends below constant latents has gone astray: how to see it, and where to begin again.

From a wild start (a prior variance of 1e12, say) the bound can lead to a plateau. The model with
kernel variances of 0 and the right means is the one with constant latents, so a start close to that
is never far below its log-likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .vector import FreeVector

__all__ = ["SMALL", "set_nearly_constant", "shrink_variances", "worse_than_constants"]

SLACK = 0.02  # nats a row
SMALL = 0.1  # prior standard deviations, in the scale on which a latent varies


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


def shrink_variances(model: Any, most: float) -> bool:
    """Divide the free variances of kernels till prior sds are `most` latent scales; if any was.

    A kernel whose variance comes from elsewhere, from a fixed part say, is left as it is.
    """
    vector, rows = FreeVector(model), np.asarray(model._sample.X[:100], dtype=float)
    x, before = vector.read(), vector.read()
    for kernel, scale in zip(model.kernels, model._latent_scales, strict=True):
        variances, last = vector.variances_of([kernel]), np.inf
        while (typical := float(np.mean(kernel.Kdiag(rows)))) > (most * scale) ** 2:
            if not variances.any() or typical > 0.9 * last:
                x[variances] = before[variances]
                vector.write(x)
                break
            last = typical
            x[variances] -= 1.0
            vector.write(x)
    return bool(np.any(x != before))
