"""The profiled bound L*(θ) = max_q L(θ, q): L-BFGS on θ, natural gradients for q inside.

Sites are kept when θ moves, so q at a new θ starts almost converged. The gradient is taken with the
sites fixed, which is exact at any inner tolerance. Every trial of a line search starts from the
sites of the last accepted θ; the sites of an accepted trial replace them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
from paramz import Param

from ..errors import NumericalError
from ..linalg import Array
from ..posterior.evaluator import State
from ..posterior.sums import Gram
from .candidates import choose_start
from .lbfgs import TOLERANCE, Memory, Outcome, new_memory
from .monitor import Monitor
from .natural_gradients import InnerResult, find_q, start_from_q
from .objective import BoundObjective
from .overlooked import begin_where_it_sees
from .problem import Problem
from .rescue import WIDEST, shrink_variances
from .result import INTERRUPTED
from .subsets import begin_on_subsets

# At each θ, q is found to within a tolerance in nats: LOOSEST at first, tighter as the gains of θ
# become smaller, down to TIGHTEST, and FINAL_TOLERANCE at the end; ROUGH if starts are compared.
LOOSEST, TIGHTEST, FINAL_TOLERANCE, ROUGH = 1.0, 1e-6, 1e-7, 0.01
# At one θ the search for q takes at most TRIAL_STEPS steps, ROUGH_STEPS if starts are compared; the
# gradient at fixed sites is exact wherever it ends. At the last θ it may take FINAL_STEPS.
TRIAL_STEPS, ROUGH_STEPS, FINAL_STEPS = 50, 15, 500
SMALLER = "the given variances of kernels are far too large: began from smaller ones"


class ProfiledBound(BoundObjective):
    """The profiled bound as an objective: −(L*(θ) + log prior) of the free vector x of θ."""

    def __init__(
        self,
        problem: Problem,
        monitor: Monitor,
        trial_steps: int = TRIAL_STEPS,
        held: Collection[Param] = (),
    ) -> None:
        super().__init__(problem, monitor, held=held)
        self.evaluator, self.trial_steps = problem.evaluator, trial_steps
        self.tolerance = LOOSEST
        self.inner: InnerResult | None = None
        self.accepted = 0

    def value(self, x: Array) -> float:
        """Find q at x from the committed sites; inf if the profiled bound cannot be evaluated."""
        self.vector.write(x)
        try:
            with np.errstate(all="ignore"):
                self.problem.set_hyperparameters()
                self.evaluator.restore()
                steps = FINAL_STEPS if self.tolerance <= FINAL_TOLERANCE else self.trial_steps
                self.inner = find_q(self.evaluator, self.tolerance, steps)
        except NumericalError:
            return np.inf
        self.evaluator.freeze_nodes(True)
        return -(self.inner.state.bound + self.problem.log_prior())

    def gradient(self) -> Array:
        """Gradient of the profiled bound's objective at the last evaluated x, sites fixed."""
        if self.inner is None:
            raise RuntimeError("value comes first")
        with np.errstate(all="ignore"):
            gradient = self.evaluator.gradient(self.inner.state, sites_fixed=True)
        self.problem.write_gradient(gradient)
        return -self.vector.gradient()

    def accept(self, x: Array, value: float) -> float:
        """Commit the sites of a new θ; tighten the tolerance of q with the progress made."""
        self.evaluator.commit()
        if self.best is not None:
            decrease = self.best[0] - value
            self.tolerance = float(np.clip(0.1 * decrease, TIGHTEST, LOOSEST))
        if self._change_nodes():
            again = self.value(x)
            if np.isfinite(again):
                self.evaluator.commit()
                value = again
            self.evaluator.freeze_nodes(True)
        if self.monitor.is_watched():
            self.put_back(x.copy())()
        return super().accept(x, value)

    def put_back(self, x: Array) -> Callable[[], None]:
        """A function that writes θ and q of x, the last point given to `value`, to the leaves.

        If the rows are a subset that stands for more rows, q is made of their scaled sites.
        """
        if self.inner is None:
            return super().put_back(x)
        state, scale = self.inner.state, self.monitor.scale

        def write() -> None:
            q = state.q
            if scale != 1.0 and state.gram is not None:
                q = self.evaluator.gaussians(Gram.mixed((scale,), (state.gram,)))
            self.write(x)
            self.problem.parts.write_q(q)

        return write

    def descend(self, x: Array, max_iters: int, tolerance: float, tries: int = 15) -> Outcome:
        """Minimise from x; if the bound is −inf for every q, from smaller kernel variances.

        The bound is −inf if the variance that inducing inputs cannot explain is too large for a
        density that falls like an exponential of the latent.
        """
        try:
            return super().descend(x, max_iters, tolerance)
        except NumericalError:
            wide = self.vector.variances_of(self.problem.parts.kernels)
            if self.best is not None or not tries or not wide.any():
                raise
        self.monitor.note(SMALLER)
        return self.descend(np.where(wide, x - 4.0, x), max_iters, tolerance, tries - 1)

    def _change_nodes(self) -> bool:
        """Give rows new numbers of nodes between two line searches; whether some may have changed.

        If numbers of nodes are found by trials, only after accepted points number 2, 4, 8, …
        """
        self.accepted += 1
        if self.problem.parts.likelihood.tries_nodes:
            power = self.accepted > 1 and self.accepted.bit_count() == 1
            now = self.problem.num_nodes is None and power
            if now:
                self.evaluator.freeze_nodes(False)
            return now
        raised = self.inner is not None and self.inner.state.evaluation.raised > 0
        if raised:
            self.evaluator.raise_nodes()
        return raised


def start_sites(problem: Problem) -> int:
    """Make sites for the current q; returns the likelihood evaluations that this took (0 or 1)."""
    problem.set_hyperparameters()
    new = problem.parts.q_is_prior()
    if new:
        problem.evaluator.start_sites(len(problem.parts.kernels))
    else:
        start_from_q(problem.evaluator, problem.parts.q())
    problem.evaluator.commit()
    return 0 if new else 1


def fit_variational(problem: Problem, monitor: Monitor, max_iters: int) -> Outcome:
    """Fit q alone, at the current hyperparameters."""
    evaluator, parts = problem.evaluator, problem.parts

    def keep(owner: object, state: State) -> None:
        monitor.keep(owner, -(state.bound + problem.log_prior()), partial(parts.write_q, state.q))

    start_sites(problem)
    inner = find_q(evaluator, 0.1 * FINAL_TOLERANCE, max_iters, partial(keep, "given"))
    if not inner.converged and not parts.q_is_prior():
        # The given q is far from anything sensible: the prior may be a better place to start from.
        evaluator.start_sites(len(parts.kernels))
        cold = find_q(evaluator, 0.1 * FINAL_TOLERANCE, max_iters, partial(keep, "cold"))
        inner = cold if cold.state.bound > inner.state.bound else inner
    evaluator.commit()
    parts.write_q(inner.state.q)
    keep("end", inner.state)
    bound = inner.state.bound
    monitor.point(bound, *problem.counts)
    reason = f"q is within {inner.gap:.1e} nats of its optimum"
    if not inner.converged:
        reason = f"{inner.steps} natural-gradient steps were not enough"
    return Outcome(np.empty(0), -bound, inner.steps, inner.converged, reason)


def fit_profile(
    problem: Problem,
    monitor: Monitor,
    max_iters: int,
    tolerance: float = TOLERANCE,
    several_starts: bool = True,
    held: Collection[Param] = (),
    cold: bool = False,
) -> Outcome:
    """Fit by the profiled bound: maximise it over all free hyperparameters, then settle q.

    A model that nobody has touched begins with the best of several candidates, fitted roughly (if
    `several_starts`; see `candidates`). If given kernels were blind to a signal, it is fitted again
    from where they see it. Of a symmetric likelihood (its latents play the same role)
    q is at the end also found from a cold start; the better bound is kept.

    held : leaves that stay as they are. cold : find q also from a cold start, even if q is not new.
    """
    untouched, new = problem.is_new, problem.parts.q_is_prior()
    if new and shrink_variances(problem, WIDEST):
        monitor.note(SMALLER)
    cold |= problem.parts.likelihood.symmetric and new
    memory = new_memory()
    if untouched and several_starts:
        choose_start(problem, monitor, max_iters, _fit_roughly)
        memory = begin_on_subsets(problem, monitor, max_iters, partial(_fit_subset, held))

    def fit(memory: Memory | None = None) -> Outcome:
        found = _maximise(problem, monitor, max_iters, tolerance, held=held, memory=memory)
        return _settle(*found, cold)

    outcome = fit(memory)
    if untouched and several_starts and problem.parts.given_kernels:
        outcome = begin_where_it_sees(problem, monitor, outcome, max_iters, fit)
    return outcome


def _maximise(
    problem: Problem,
    monitor: Monitor,
    max_iters: int,
    tolerance: float,
    trial_steps: int = TRIAL_STEPS,
    held: Collection[Param] = (),
    memory: Memory | None = None,
) -> tuple[ProfiledBound, Outcome]:
    """Maximise the profiled bound over θ; the leaves then hold the best, and sites are committed.

    memory : the curvature that L-BFGS knows already.
    """
    start_sites(problem)
    objective = ProfiledBound(problem, monitor, trial_steps, held)
    objective.memory.extend(memory or ())
    try:
        return objective, objective.minimise(max_iters, tolerance)
    finally:
        problem.evaluator.freeze_nodes(False)


def _fit_roughly(
    problem: Problem, monitor: Monitor, max_iters: int, held: Collection[Param]
) -> Outcome:
    """Fit roughly by the profiled bound: few iterations, loose q; leaves then hold θ and q."""
    problem.evaluator.use_few_nodes(True)
    try:
        found = _maximise(problem, monitor, max_iters, 0.3, ROUGH_STEPS, held)
    finally:
        problem.evaluator.use_few_nodes(False)
    return _settle(*found, cold=False, tolerance=ROUGH)


def _fit_subset(
    held: Collection[Param],
    problem: Problem,
    monitor: Monitor,
    max_iters: int,
    tolerance: float,
    memory: Memory,
) -> Memory:
    """Fit a subset of the rows by the profiled bound; returns the curvature for L-BFGS."""
    found = _maximise(problem, monitor, max_iters, tolerance, held=held, memory=memory)
    _settle(*found, cold=False, tolerance=ROUGH)
    return found[0].memory


def _settle(
    objective: ProfiledBound, outcome: Outcome, cold: bool, tolerance: float = FINAL_TOLERANCE
) -> Outcome:
    """Converge q at the best θ, from the present sites and perhaps from none; keep the better."""
    if objective.best is None:
        return outcome
    parts, evaluator, x = objective.problem.parts, objective.evaluator, objective.best[1]
    if objective.monitor.stop_reason == INTERRUPTED:  # This would take time.
        return outcome
    objective.tolerance = tolerance
    outcome.x, outcome.value = x, objective.value(x)
    if not np.isfinite(outcome.value) or objective.inner is None:
        return outcome
    evaluator.commit()
    objective.keep(x, outcome.value)
    q = objective.inner.state.q
    if cold:
        evaluator.start_sites(len(parts.kernels))
        again = objective.value(x)
        if again < outcome.value - 1e-6:
            outcome.value, q = again, objective.inner.state.q
            evaluator.commit()
    parts.write_q(q)
    return outcome
