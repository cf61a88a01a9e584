"""Fits by plain gradients on all parameters, q too, as in the paper: a comparison and an oracle."""

from __future__ import annotations

import numpy as np

from ..errors import NumericalError
from ..linalg import Array
from .lbfgs import Outcome
from .monitor import Monitor
from .objective import BoundObjective
from .problem import Problem


class PlainBound(BoundObjective):
    """−(L(θ, q) + log prior) as an objective of the free vector of all parameters, q included."""

    def value(self, x: Array) -> float:
        """The objective −(bound + log prior) at x, inf where it cannot be evaluated."""
        self.vector.write(x)
        try:
            with np.errstate(all="ignore"):
                self.problem.state(gradient=True)  # The gradient is nearly always asked for.
                value = self.problem.objective()
        except NumericalError:
            return np.inf
        return value if np.isfinite(value) else np.inf

    def gradient(self) -> Array:
        """Plain gradient of the objective at the last evaluated x, q included."""
        with np.errstate(all="ignore"):
            self.problem.take_gradient()
        return -self.vector.gradient()


def fit_plain(problem: Problem, monitor: Monitor, max_iters: int, tolerance: float) -> Outcome:
    """Fit by plain L-BFGS on hyperparameters and q together."""
    return PlainBound(problem, monitor, with_q=True).minimise(max_iters, tolerance)
