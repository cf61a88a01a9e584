"""A fit that ends below constant latents has gone astray: how to see it, and where to begin again.

From a wild start (a prior variance of 1e12, say) the bound can lead to a plateau. The model with
kernel variances of 0 and the right means is the one with constant latents, so a start close to that
is never far below its log-likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..means import Constant
from .vector import FreeVector

__all__ = ["set_nearly_constant", "worse_than_constants"]

SLACK = 0.02  # nats a row
SMALL = 0.1  # prior standard deviations, in the scale on which a latent varies


def worse_than_constants(model: Any) -> bool:
    """Whether the bound is below the log-likelihood of constant latents (moment estimates)."""
    shards = model._evaluator.shards
    if not shards:  # the rows are on a cluster
        return False
    flat = model._flat_score * model._evaluator.num_rows
    return bool(np.isfinite(flat)) and model.log_likelihood() < flat - SLACK * shards[0].num_rows


def set_nearly_constant(model: Any) -> None:
    """Small variances of kernels, the constants as means, q the prior; what is fixed stays."""
    for mean, value in zip(model.mean_functions, model._flat_latents, strict=True):
        if isinstance(mean, Constant) and not mean.value.is_fixed:
            mean.value[:] = value
    vector, rows = FreeVector(model), np.asarray(model.X[:100], dtype=float)
    x, variances = vector.read(), vector.kernel_variances
    for _ in range(100):
        typical = [float(np.mean(kernel.Kdiag(rows))) for kernel in model.kernels]
        if np.all(typical <= (SMALL * np.asarray(model._latent_scales)) ** 2):
            break
        x[variances] -= 1.0
        vector.write(x)
    model._reset_q()
