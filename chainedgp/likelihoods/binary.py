"""Two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit

from ..special import expected_softplus
from .base import Array, Arrays, FourArrays, Likelihood

__all__ = ["Bernoulli"]


class Bernoulli(Likelihood):
    """P(y = 1) = 1 / (1 + e^{−f}): latent logit f, targets 0 or 1.

    log p = −log(1 + e^{−sf}), s = 2y − 1
    """

    latents = ("logit",)
    support = "binary"
    exact_expectation = True

    def log_density(self, y: Array, f: Array) -> Array:
        """−log(1 + e^{−sf})."""
        return log_expit((2.0 * y - 1.0) * f)

    def dlog_density(self, y: Array, f: Array) -> Arrays:
        """Slope s logistic(−sf)."""
        sign = 2.0 * y - 1.0
        return (sign * expit(-sign * f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20
    ) -> FourArrays:
        """−E log(1 + e^{−sf}), exact for every variance; `nodes` unused."""
        sign = 2.0 * y - 1.0
        value, slope, curvature = expected_softplus(-sign * means[:, 0], variances[:, 0])
        return -value, (sign * slope)[:, None], -curvature[:, None], np.empty((len(y), 0))

    def distribution(self, f: Array) -> Any:
        """Bernoulli of scipy.stats."""
        from scipy import stats  # slow to import

        return stats.bernoulli(expit(f))

    def conditional_variance(self, f: Array) -> Array:
        """Product p (1 − p), small ones too."""
        return expit(f) * expit(-f)

    def natural_parameters(self, f: Array) -> dict[str, Array]:
        """The probability p = P(y = 1)."""
        return {"probability": expit(f)}

    def initial_latents(self, y: Array) -> Array:
        """The logit of the share of ones, finite if all are alike."""
        return np.array([logit((np.sum(y) + 0.5) / (len(y) + 1.0))])
