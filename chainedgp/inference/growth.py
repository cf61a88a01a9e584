"""Growth of the inducing inputs during a fit if nobody said how many: more while they are worth it.

Inducing inputs cost a row about ½ Σ_j λ_ij (k_ii − a_iᵀa_i) nats: the precision of its site times
what they leave open of its variance, as in the trace term of a Gaussian's collapsed bound. A fit
begins with few of them, which stay at rows of X. If they cost much, the costliest rows are added,
and the fit goes on from the hyperparameters and the sites that it has. If there are still few of
them at the end, the last stage moves them to where they serve best.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import NumericalError
from ..linalg import Array
from ..posterior.evaluator import State
from .inducing import left_open, rows_to_add
from .lbfgs import Outcome
from .monitor import Monitor
from .natural_gradients import find_q, start_from_q
from .problem import Problem
from .profile import fit_profile
from .rescue import begin_again_if_astray

# A fit begins with FIRST inducing inputs, and ends with at most MOST.
FIRST, MOST = 100, 400
# A pass over n rows has about n M² products for each latent, or n (b M)² if q joins b latents. More
# than FIRST inducing inputs are used only if that is at most this.
LARGEST_PASS = 4e8
# FIRST inducing inputs that cost more than MUCH nats a row are at least doubled, until they cost
# LITTLE. With M of them a stage takes about M³ products, so that the limit MUCH grows like M³.
MUCH, LITTLE = 5e-4, 2e-3
# Stages before the last go on while 10 iterations gain this many nats a row.
LOOSE = 2.5e-3
# The last stage moves the inducing inputs if there are at most FIRST and they cost more than CLOSED
# nats over all rows, or at most FEW and they cost more than STILL_OPEN; more are never moved.
CLOSED, FEW, STILL_OPEN = 0.01, 200, 1.0
# A fit that may take fewer iterations than this does not add inducing inputs but moves those that
# it has; a stage with added ones needs as many iterations.
FEWEST_ITERATIONS = 50
# At new inducing inputs q is found to within GAP nats, by at most STEPS steps.
GAP, STEPS = 0.1, 20


def grows(problem: Problem, max_iters: int) -> bool:
    """Whether a fit chooses the number of inducing inputs: nobody set it, and rows are local."""
    return problem.has_open_inducing and problem.is_local and max_iters >= FEWEST_ITERATIONS


def most_inducing(problem: Problem) -> int:
    """The most inducing inputs that a fit of these rows uses if nobody said how many."""
    n, parts = problem.num_rows, problem.parts
    width = len(parts.kernels) if parts.family.name == "joint" else 1
    return max(FIRST, min(MOST, n, int(np.sqrt(LARGEST_PASS / n)) // width))


def fit_growing(problem: Problem, monitor: Monitor, max_iters: int, tolerance: float) -> Outcome:
    """Fit by the profiled bound, as `fit_profile` does, and choose the number of inducing inputs.

    A first stage that ends below constant latents begins again, as a whole fit would.
    """
    cold = problem.parts.likelihood.symmetric and problem.parts.q_is_prior()

    def first() -> Outcome:
        loose = _loose(problem, tolerance)
        return fit_profile(problem, monitor, max_iters, loose, held=problem.parts.Z)

    outcome = begin_again_if_astray(problem, monitor, first(), first)
    return go_on(problem, monitor, outcome, max_iters, tolerance, cold)


def go_on(
    problem: Problem,
    monitor: Monitor,
    outcome: Outcome,
    max_iters: int,
    tolerance: float,
    cold: bool,
) -> Outcome:
    """Add inducing inputs as long as it is worth it, with a stage of the fit after each time.

    outcome : outcome of the stages before, whose iterations count. cold : as for `fit_profile`.
    """
    parts, most = problem.parts, most_inducing(problem)
    while outcome.iterations < max_iters:
        if monitor.stop_reason:  # It may have come with the last point of a stage.
            return replace(outcome, converged=False, reason=monitor.stop_reason)
        left = max_iters - outcome.iterations
        bound, cost = _look(problem)
        much = cost > MUCH * (parts.sizes[0] / FIRST) ** 3
        enough = left >= FEWEST_ITERATIONS
        added = much and enough and _add(problem, monitor, bound + tolerance, most)
        last = not added or parts.sizes[0] >= most
        cost = _cost(problem) if added else cost
        try:
            again = fit_profile(
                problem,
                monitor,
                left,
                tolerance if last else _loose(problem, tolerance),
                several_starts=False,
                held=() if last and _are_worth_moving(problem, cost) else parts.Z,
                cold=cold and last,
            )
        except NumericalError:  # What the fit found before is valid, and is kept.
            monitor.put_back_best()
            break
        again.iterations += outcome.iterations
        again.reason = again.reason.replace(
            f"{left} iterations were", f"{max_iters} iterations were"
        )
        outcome = again
        if last:
            break
    return outcome


def _are_worth_moving(problem: Problem, cost: float) -> bool:
    """Whether the last stage moves the inducing inputs, which cost `cost` nats a row."""
    M, total = problem.parts.sizes[0], cost * problem.num_rows
    return M <= FEW and total > (CLOSED if M <= FIRST else STILL_OPEN)


def _loose(problem: Problem, tolerance: float) -> float:
    """The tolerance of all stages but the last of a fit that adds inducing inputs."""
    return max(tolerance, LOOSE * problem.num_rows * problem.starts.mean_weight)


def _look(problem: Problem) -> tuple[float, float]:
    """The bound at the present q, with sites made from it, and the cost of the inducing inputs."""
    problem.set_hyperparameters()
    state = start_from_q(problem.evaluator, problem.parts.q())
    problem.evaluator.commit()
    return state.bound, _cost(problem)


def _cost(problem: Problem) -> float:
    """Nats that the inducing inputs cost a row of weight 1, at the evaluator's setting."""
    return left_open(problem) / problem.starts.mean_weight


def _add(problem: Problem, monitor: Monitor, bound: float, most: int) -> bool:
    """Add rows to the inducing inputs, up to `most`, if that raises the bound; whether it did."""
    (Z,) = problem.parts.Z
    enough = LITTLE * problem.starts.mean_weight
    added = rows_to_add(problem, most - len(Z), len(Z), enough)
    if not len(added):
        return False
    more = np.vstack([Z.values, added])
    found = _find_q(problem, more)
    if found is None or not found.bound > bound:
        return False
    q, others = found.q, [(leaf, np.array(leaf.values)) for leaf in problem.parts.others]

    def put() -> None:
        for leaf, values in others:
            leaf[:] = values
        problem.use_inducing(more, q)

    monitor.say(f"{monitor.method}, {len(more)} inducing inputs")
    monitor.keep(put, -(found.bound + problem.log_prior()), put)
    put()
    return True


def _find_q(problem: Problem, Z: Array) -> State | None:
    """The best q at other inducing inputs, found from the sites; None if there is none.

    No leaf is changed.
    """
    theta = problem.parts.theta()
    try:
        problem.evaluator.set_hyperparameters(replace(theta, Z=[Z] * len(theta.Z)))
        return find_q(problem.evaluator, GAP, STEPS).state
    except NumericalError:
        return None
