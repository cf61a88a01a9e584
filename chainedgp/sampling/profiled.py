"""The log-posterior of hyperparameters, with the profiled bound in the place of log p(y | θ).

    p(θ | y) ∝ e^{L*(x)} p(θ) |∂θ/∂x|,    L*(x) = max_q L(θ(x), q).

Its logarithm has a gradient for the price of one q, at fixed sites.
"""

from __future__ import annotations

import numpy as np

from ..inference.monitor import Monitor
from ..inference.problem import Problem
from ..inference.profile import ProfiledBound, start_sites
from ..linalg import Array
from ..posterior.gaussian import Gaussian
from .hyper import jacobian_leaves

TOLERANCE = 1e-6  # At every point q is found to within so many nats of the best bound.


class LogPosterior:
    """Log-posterior L*(x) + log p(θ) + log |∂θ/∂x| of free hyperparameters x (p,), with slopes."""

    def __init__(self, problem: Problem, monitor: Monitor) -> None:
        start_sites(problem)
        self.objective = ProfiledBound(problem, monitor)
        self.objective.tolerance = TOLERANCE
        self.vector = self.objective.vector
        self.start, self.chosen = self.vector.read(), self.vector.groups[0]
        self.leaves = jacobian_leaves(problem)
        self.reach = self.vector.reach()[self.chosen]

    def value(self, x: Array) -> float:
        """The log-posterior of hyperparameters x, up to a constant; −inf where there is none."""
        full = self.start.copy()
        full[self.chosen] = x
        value = -self.objective.value(full)
        return value + self.vector.log_jacobian(self.leaves)[0] if np.isfinite(value) else -np.inf

    def gradient(self) -> Array:
        """The gradient (p,) of the hyperparameters' log-posterior at the last x of `value`."""
        slopes = -self.objective.gradient() + self.vector.log_jacobian(self.leaves)[1]
        return slopes[self.chosen]

    def q(self) -> tuple[Gaussian, ...]:
        """The q that was found at the last hyperparameters x given to `value`."""
        if self.objective.inner is None:
            raise RuntimeError("value comes first")
        return self.objective.inner.state.q

    def commit(self) -> None:
        """Start the search for q at other hyperparameters from the q at the last ones."""
        self.objective.evaluator.commit()


def curvature_root(H: Array, reach: Array) -> Array:
    """Root C (p, p) of the covariance C Cᵀ = (−H)⁻¹ of hyperparameters of Hessian H.

    A direction about which nothing is known has the standard deviation of its reach (p,).
    """
    values, vectors = np.linalg.eigh(-0.5 * reach[:, None] * (H + H.T) * reach)
    return reach[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
