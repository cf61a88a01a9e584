"""L-BFGS that never ends in NaN, keeps the best point, and asks for gradients only if needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..errors import NOT_FINITE, NumericalError
from ..linalg import Array

# L-BFGS remembers this many last steps and changes of the gradient, for the curvature.
MEMORY = 100
# A step is taken if it gains the share ARMIJO of what the slope at its start promises, and if the
# slope at its end is at most CURVATURE times as steep (the weak Wolfe condition).
ARMIJO, CURVATURE = 1e-4, 0.9
# No step changes a coordinate by more than this; coordinates are logarithms or standard units.
LONGEST_STEP = 2.0
# A line search gives up after this many points.
TRIALS = 25
# The scale of one group of coordinates is within this factor of the scale of all.
FARTHEST_SCALE = 1e3
# The search has converged when WINDOW iterations have together gained less than TOLERANCE nats.
WINDOW, TOLERANCE = 10, 1e-3
# If the curvature is known at the start, steps are good from the first on: then this many
# iterations suffice, with the same gain for each.
KNOWN_WINDOW = 5
# With a slope above this, in nats per unit of a coordinate, no search has converged: at the maximum
# of a bound slopes are below 1, even where the noise is a millionth of the signal. A memory of
# curvature that has gone wrong may be what keeps steps short; it is dropped once.
STEEP = 10.0
TOO_STEEP = (
    "{end}, but slopes of {slope:.1e} nats are left: the bound is too steep for double precision. "
    "Perhaps some noise nearly vanishes: look for targets that are repeated exactly, or give the "
    "noise a prior"
)


Memory = deque[tuple[Array, Array]]
"""L-BFGS's memory of the curvature: the last steps s and the changes y of the gradient."""


def new_memory(pairs: Iterable[tuple[Array, Array]] = ()) -> Memory:
    """A memory for L-BFGS of some steps and changes of the gradient; the last MEMORY are kept."""
    return deque(pairs, maxlen=MEMORY)


class Objective(Protocol):
    """The objective that L-BFGS minimises; `value` may be inf, `gradient` is at its last point."""

    def value(self, x: Array) -> float:
        """The objective of L-BFGS at x, inf where it cannot be evaluated."""

    def gradient(self) -> Array:
        """Gradient of the objective at the last point given to `value`."""

    def accept(self, x: Array, value: float) -> float:
        """Accept the last point as the new iterate; may re-evaluate it, and returns its value."""


@dataclass
class Outcome:
    """The outcome of L-BFGS: where it stopped and why."""

    x: Array
    value: float
    iterations: int
    converged: bool
    reason: str


# Slopes near a singularity may overflow; steps along them are refused, so no warning is needed.
@np.errstate(over="ignore", invalid="ignore")
def minimise(
    objective: Objective,
    x: Array,
    *,
    groups: Sequence[Array] = (),
    kinked: Sequence[int] | Array = (),
    max_iters: int,
    tolerance: float = TOLERANCE,
    stop: Callable[[], str | None] = lambda: None,
    steep: float = STEEP,
    memory: Memory | None = None,
) -> Outcome:
    """Minimise by L-BFGS from x, till the last 10 iterations together gain less than `tolerance`.

    If the objective is still steep then, the memory of its curvature is dropped once; if it is
    steep after that too, the search has ended, but not converged.

    A line search looks for a point with sufficient decrease and less steep slope (weak Wolfe), by
    bracketing: a trial of infinite value only shortens the step. When no trial gives a decrease,
    the curvature memory is dropped once and the search starts along the gradient; when that fails
    too, the `kinked` coordinates are held where they are.

    groups : indices of coordinates of one kind; each has its own scale, measured in the last step.
    kinked : indices of coordinates that may stand at a kink, as inducing inputs do that lie on rows
        under a very short lengthscale.
    steep : the largest slope that may be left where the search has converged.
    memory : what is known of the curvature already; it holds what is known at the end.
    """
    value = objective.value(x)
    if not np.isfinite(value):
        raise NumericalError(NOT_FINITE)
    gradient = objective.gradient()
    value, gradient = _accepted(objective, x, value, gradient)
    pairs = new_memory() if memory is None else memory
    window = KNOWN_WINDOW if pairs else WINDOW
    tolerance *= window / WINDOW
    gains: deque[float] = deque(maxlen=window)
    free, kinked = np.ones(x.size), np.asarray(kinked, dtype=int)
    afresh = False  # It says whether the memory was dropped since the last gain that matters.
    for iteration in range(max_iters):
        if x.size == 0 or np.abs(gradient).max() < 1e-7:
            return Outcome(x, value, iteration, True, "the gradient vanishes")
        if reason := stop():
            return Outcome(x, value, iteration, False, reason)
        direction = _direction(gradient, pairs, groups)
        if direction @ gradient >= 0.0:
            pairs.clear()
            direction = _direction(gradient, pairs, groups)
        found = _line_search(objective, x, value, gradient, direction)
        if found is None:
            if not pairs and not free[kinked].any():
                end = Outcome(x, value, iteration, True, "no step lowers the objective")
                return _unless_steep(end, gradient, steep)
            if not pairs:
                free[kinked] = 0.0
                gradient = gradient * free
            pairs.clear()
            continue
        new_x, new_value, new_gradient = found[0], found[1], found[2] * free
        gains.append(value - new_value)
        s, y = new_x - x, new_gradient - gradient
        if s @ y > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
            pairs.append((s, y))
        x = new_x
        value, gradient = _accepted(objective, x, new_value, new_gradient)
        gradient = gradient * free
        if len(gains) == window and sum(gains) >= tolerance:
            afresh = False
        elif len(gains) == window:
            if np.abs(gradient).max() > steep and not afresh:
                afresh = True
                pairs.clear()
                gains.clear()
                continue
            gained = f"{window} iterations gained less than {tolerance:g}"
            return _unless_steep(Outcome(x, value, iteration + 1, True, gained), gradient, steep)
    return Outcome(x, value, max_iters, False, f"{max_iters} iterations were not enough")


def _unless_steep(outcome: Outcome, gradient: Array, steep: float) -> Outcome:
    """The outcome when L-BFGS gains nothing more: not converged if the objective is still steep."""
    slope = float(np.abs(gradient).max())
    if slope > steep:
        outcome.converged = False
        outcome.reason = TOO_STEEP.format(end=outcome.reason, slope=slope)
    return outcome


def _accepted(objective: Objective, x: Array, value: float, gradient: Array) -> tuple[float, Array]:
    """Accept x in L-BFGS; if that changes the value there, the gradient is taken anew."""
    now = objective.accept(x, value)
    return now, gradient if now == value else objective.gradient()


def _direction(gradient: Array, pairs: Memory, groups: Sequence[Array]) -> Array:
    """The L-BFGS direction −H g by the two-loop recursion, no coordinate longer than LONGEST_STEP.

    H begins as a diagonal, one scale sᵀy/yᵀy for every group: thousands of inducing inputs, each of
    little weight, would else set the step of a few hyperparameters that decide.
    """
    d = -gradient
    weights = []
    for s, y in reversed(pairs):
        a = (s @ d) / (s @ y)
        d = d - a * y
        weights.append(a)
    if pairs:
        s, y = pairs[-1]
        overall = float((s @ y) / (y @ y))
        scales = np.full_like(d, overall)
        for group in groups:
            scales[group] = _scale(s[group], y[group], overall)
        d = d * scales
    else:
        d = d * min(1.0, 0.5 / np.abs(gradient).max())
    for (s, y), a in zip(pairs, reversed(weights), strict=True):
        d = d + (a - (y @ d) / (s @ y)) * s
    return d * min(1.0, LONGEST_STEP / np.abs(d).max())


def _scale(s: Array, y: Array, overall: float) -> float:
    """L-BFGS's scale sᵀy/yᵀy of a group of coordinates if positive, near that of all others."""
    sy, yy = float(s @ y), float(y @ y)
    if sy <= 0.0 or yy <= 0.0:  # Squares of small numbers may be 0.
        return overall
    return float(np.clip(sy / yy, overall / FARTHEST_SCALE, overall * FARTHEST_SCALE))


def _line_search(
    objective: Objective, x: Array, value: float, gradient: Array, direction: Array
) -> tuple[Array, float, Array] | None:
    slope = float(direction @ gradient)
    low, high, step = 0.0, np.inf, 1.0
    best: tuple[Array, float, Array] | None = None
    longest = LONGEST_STEP / np.abs(direction).max()
    for _ in range(TRIALS):
        trial = x + step * direction
        new = objective.value(trial)
        if not np.isfinite(new) or new > value + ARMIJO * step * slope:
            high = step
            if best is not None:
                break  # A decrease is in hand: below, the objective goes back to its point.
            step = low + (high - low) * _shrink(value, new, slope, high)
            continue
        new_gradient = objective.gradient()
        if not np.isfinite(new_gradient).all():
            # The step leads to a singularity (a noise that vanishes): this is as bad as no value.
            high, step = step, low + 0.2 * (step - low)
            if best is not None:
                break
            continue
        new_slope = float(new_gradient @ direction)
        best = (trial, new, new_gradient)
        if new_slope >= CURVATURE * slope or step >= longest:
            return best
        low = step
        step = min(2.0 * step if not np.isfinite(high) else 0.5 * (low + high), longest)
    if best is None:
        return None
    # The last trial failed: the objective is brought back to the accepted point.
    again = objective.value(best[0])
    return (best[0], again, best[2]) if np.isfinite(again) else None


def _shrink(value: float, new: float, slope: float, step: float) -> float:
    """Factor on a failed line search step: minimum of a parabola through it, in [0.1, 0.5]."""
    if not np.isfinite(new):
        return 0.2
    curvature = new - value - slope * step
    return float(np.clip(-0.5 * slope * step / curvature, 0.1, 0.5)) if curvature > 0 else 0.5
