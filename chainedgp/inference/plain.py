"""Plain gradients on everything, q included: the paper's way, for comparison and as an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NOT_FINITE, NumericalError
from ..linalg import Array
from .free_vector import FreeVector
from .lbfgs import Outcome, minimise
from .rescue import NO_LIMIT, grows_without_limit
from .result import Monitor

__all__ = ["PlainBound", "fit_plain"]

SCG_WINDOW = 30  # steps that must gain something: single ones may be short


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


def fit_plain(
    model: Any, monitor: Monitor, method: str, max_iters: int, tolerance: float
) -> Outcome:
    """L-BFGS or scaled conjugate gradients on hyperparameters and q together."""
    objective = PlainBound(model, monitor)
    x = objective.vector.read()
    try:
        if method == "scg":
            outcome = _scg(objective, x, max_iters, tolerance)
        else:
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


def _scg(objective: PlainBound, x: Array, max_iters: int, tolerance: float) -> Outcome:
    """Møller's scaled conjugate gradients: no line search, a trust parameter instead."""
    value = objective.value(x)
    if not np.isfinite(value):
        raise NumericalError(NOT_FINITE)
    gradient = objective.gradient()
    objective.accept(x, value)
    direction, beta, recent = -gradient, 1.0, [value]
    success, again = True, False
    for iteration in range(max_iters):
        if reason := objective.monitor.stop_reason:
            return Outcome(x, value, iteration, False, reason)
        slope = float(direction @ gradient)
        if slope >= 0.0:
            direction, slope = -gradient, -float(gradient @ gradient)
        if success:
            size = float(direction @ direction)
            if size < 1e-24:
                return Outcome(x, value, iteration, True, "the gradient vanishes")
            h = 1e-6 / np.sqrt(size)
            ahead = objective.value(x + h * direction)
            curvature = (
                float(direction @ (objective.gradient() - gradient)) / h
                if np.isfinite(ahead)
                else 0.0
            )
        delta = curvature + beta * size
        if delta <= 0.0:
            delta, beta = beta * size, beta - curvature / size
        step = -slope / delta
        trial = x + step * direction
        new = objective.value(trial)
        ratio = 2.0 * (value - new) / (-step * slope) if np.isfinite(new) else -1.0
        success = ratio >= 0.0
        if success:
            new_gradient = objective.gradient()
            x, value = trial, objective.accept(trial, new)
            turn = max(0.0, float((new_gradient - gradient) @ new_gradient) / -slope)
            direction, gradient = -new_gradient + turn * direction, new_gradient
            recent.append(value)
            if len(recent) > SCG_WINDOW and recent[-SCG_WINDOW - 1] - value < tolerance:
                if again:
                    gained = f"{SCG_WINDOW} steps gained less than {tolerance:g}, twice"
                    return Outcome(x, value, iteration + 1, True, gained)
                # short steps gain little wherever they are: once more along the gradient
                again, recent, beta, direction = True, [value], 1e-3, -gradient
        beta = float(
            np.clip(beta * (4.0 if ratio < 0.25 else 0.5 if ratio > 0.75 else 1.0), 1e-15, 1e60)
        )
        if beta >= 1e60:
            return Outcome(x, value, iteration, True, "no step lowers the objective")
    return Outcome(x, value, max_iters, False, f"{max_iters} iterations were not enough")
