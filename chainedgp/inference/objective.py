"""A problem as an objective of the free vector, which `minimise` lowers point by point."""

from __future__ import annotations

import numpy as np

from ..linalg import Array
from .lbfgs import Outcome, minimise
from .problem import Problem
from .rescue import NO_LIMIT, grows_without_limit
from .result import Monitor

__all__ = ["BoundObjective"]


class BoundObjective:
    """−(bound + log prior) of a problem; a subclass says which q belongs to a point."""

    def __init__(self, problem: Problem, monitor: Monitor, *, with_q: bool = False) -> None:
        self.problem, self.monitor = problem, monitor
        self.vector = problem.free_vector(with_q=with_q)
        self.best: tuple[float, Array] | None = None  # The last accepted is best.

    def value(self, x: Array) -> float:
        """The objective at x, inf where it cannot be evaluated."""
        raise NotImplementedError

    def gradient(self) -> Array:
        """Gradient at the last point given to `value`."""
        raise NotImplementedError

    def accept(self, x: Array, value: float) -> float:
        """Remember the point, and tell the monitor; a bound without limit ends the fit."""
        self.best = (value, x.copy())
        bound = -value - self.problem.log_prior()
        if grows_without_limit(self.problem, bound):
            self.monitor.stop(NO_LIMIT)
        self.monitor.point(bound, *self.problem.counts)
        return value

    def minimise(self, max_iters: int, tolerance: float) -> Outcome:
        """Minimise from the current parameters; the leaves hold the best point afterwards."""
        try:
            return self.descend(self.vector.read(), max_iters, tolerance)
        except KeyboardInterrupt:
            value, x = self.best or (np.inf, self.vector.read())
            return Outcome(x, value, len(self.monitor.trace), False, "interrupted")
        finally:
            if self.best is not None:
                self.vector.write(self.best[1])

    def descend(self, x: Array, max_iters: int, tolerance: float) -> Outcome:
        """Minimise from x."""
        return minimise(
            self,
            x,
            groups=self.vector.groups,
            kinked=self.vector.inducing,
            max_iters=max_iters,
            tolerance=tolerance,
            stop=lambda: self.monitor.stop_reason,
        )
