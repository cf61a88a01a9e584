"""The objective of an optimiser: a problem as a function of the free vector, lowered by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
from paramz import Param

from ..linalg import Array
from .lbfgs import STEEP, Outcome, minimise, new_memory
from .monitor import Monitor
from .problem import Problem
from .rescue import NO_LIMIT, grows_without_limit

# A converged fit may have slopes of this many nats for each nat of its tolerance.
STEEP_GAIN = 200.0


class BoundObjective:
    """The objective −(bound + log prior) of a problem; a subclass says which q belongs to a point.

    with_q : whether q is part of the free vector. held : leaves that stay as they are.
    """

    def __init__(
        self,
        problem: Problem,
        monitor: Monitor,
        *,
        with_q: bool = False,
        held: Collection[Param] = (),
    ) -> None:
        self.problem, self.monitor = problem, monitor
        self.vector = problem.free_vector(with_q=with_q, held=held)
        # Values of held leaves are kept because a later stage of the fit may move these leaves.
        self.held = [(leaf, np.array(leaf.values)) for leaf in held]
        self.best: tuple[float, Array] | None = None  # The last accepted point is the best.
        self.memory = new_memory()  # It holds what is known of the curvature.

    def value(self, x: Array) -> float:
        """The objective at x, inf where it cannot be evaluated."""
        raise NotImplementedError

    def gradient(self) -> Array:
        """Gradient of the objective at the last point given to `value`."""
        raise NotImplementedError

    def accept(self, x: Array, value: float) -> float:
        """Accept a point and tell the monitor; a bound that grows without limit ends the fit."""
        self.keep(x, value)
        bound = -value - self.problem.log_prior()
        if grows_without_limit(self.problem, bound):
            self.monitor.stop(NO_LIMIT)
        self.monitor.point(bound, *self.problem.counts)
        return value

    def keep(self, x: Array, value: float) -> None:
        """Remember x, the last point given to `value`, as the best of the objective."""
        self.best = (value, x.copy())
        self.monitor.keep(self, value, self.put_back(x.copy()))

    def put_back(self, x: Array) -> Callable[[], None]:
        """A function that writes θ and q of x, the last point given to `value`, to the leaves."""
        return partial(self.write, x)

    def write(self, x: Array) -> None:
        """Write x to the leaves, and to those that are held the values that they had."""
        self.vector.write(x)
        for leaf, values in self.held:
            leaf[:] = values

    def minimise(self, max_iters: int, tolerance: float) -> Outcome:
        """Minimise the objective from the current parameters; the leaves then hold the best."""
        outcome = self.descend(self.vector.read(), max_iters, tolerance)
        if self.best is not None:
            self.vector.write(self.best[1])
        return outcome

    def descend(self, x: Array, max_iters: int, tolerance: float) -> Outcome:
        """Minimise the objective by L-BFGS from x."""
        return minimise(
            self,
            x,
            groups=self.vector.groups,
            kinked=self.vector.inducing,
            max_iters=max_iters,
            tolerance=tolerance,
            # Where gains as large as the tolerance do not matter, neither do slopes that would give
            # no more: with n rows they grow like n, as the default tolerance does.
            steep=max(STEEP, STEEP_GAIN * tolerance),
            stop=lambda: self.monitor.stop_reason,
            memory=self.memory,
        )
