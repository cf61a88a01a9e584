"""Plain gradients on everything, q included: the paper's way, for comparison and as an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NumericalError
from ..linalg import Array
from .free_vector import FreeVector
from .lbfgs import Outcome, minimise
from .rescue import NO_LIMIT, grows_without_limit
from .result import Monitor

__all__ = ["PlainBound", "fit_plain"]


class PlainBound:
    """−(L(θ, q) + log prior) as an objective of the free vector of all parameters."""

    def __init__(self, model: Any, monitor: Monitor) -> None:
        self.model, self.monitor = model, monitor
        self.vector = FreeVector(model, with_q=True)
        self.best: tuple[float, Array] | None = None

    def value(self, x: Array) -> float:
        """The objective at x, inf where it cannot be evaluated."""
        self.vector.write(x)
        try:
            with np.errstate(all="ignore"):
                self.model._evaluated(gradient=True)  # which is nearly always asked for
                value = self.model.objective_function()
        except NumericalError:
            return np.inf
        return value if np.isfinite(value) else np.inf

    def gradient(self) -> Array:
        """Gradient at the last evaluated x."""
        with np.errstate(all="ignore"):
            self.model.objective_function_gradients()
        return -self.vector.gradient()

    def accept(self, x: Array, value: float) -> float:
        """Remember the best point."""
        if self.best is None or value < self.best[0]:
            self.best = (value, x.copy())
        counts = self.model._evaluator.num_likelihood, self.model._evaluator.num_theta
        bound = -value - self.model.log_prior()
        if grows_without_limit(self.model, bound):
            self.monitor.stop(NO_LIMIT)
        self.monitor.point(bound, *counts)
        return value


def fit_plain(model: Any, monitor: Monitor, max_iters: int, tolerance: float) -> Outcome:
    """L-BFGS on hyperparameters and q together."""
    objective = PlainBound(model, monitor)
    x = objective.vector.read()
    try:
        outcome = minimise(
            objective,
            x,
            groups=objective.vector.groups,
            kinked=objective.vector.inducing,
            max_iters=max_iters,
            tolerance=tolerance,
            stop=lambda: monitor.stop_reason,
        )
    except KeyboardInterrupt:
        outcome = Outcome(x, np.nan, len(monitor.trace), False, "interrupted")
    finally:
        if objective.best is not None:
            objective.vector.write(objective.best[1])
    return outcome
