"""The profiled bound L*(θ) = max_q L(θ, q): L-BFGS on θ, natural gradients for q inside.

Sites are kept when θ moves, so q at a new θ starts almost converged; the gradient is taken with the
sites fixed, which is exact at any inner tolerance. Every trial of a line search starts from the
sites of the last accepted θ; sites are committed on acceptance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NumericalError
from ..linalg import Array
from ..parameters.roles import Role
from ..posterior.evaluator import Evaluator
from .free_vector import FreeVector
from .lbfgs import Outcome, minimise
from .natural_gradients import InnerResult, find_q, start_from_q
from .rescue import NO_LIMIT, grows_without_limit, shrink_variances
from .result import Monitor

__all__ = ["ProfiledBound", "fit_profile", "fit_variational", "start_sites"]

LOOSEST, TIGHTEST = 1.0, 1e-6  # inner tolerances in nats
FINAL_TOLERANCE = 1e-7
ROUGH = 0.01  # the same for starts that are compared
TRIAL_STEPS = 50  # inner steps for one θ; sites-fixed gradients are exact wherever these end
ROUGH_STEPS = 15  # the same for starts that are compared
WIDEST = 10.0  # prior standard deviations to begin with, in the scale on which a latent varies
SMALLER = "the given variances of kernels are far too large: began from smaller ones"
# factors on the lengthscales of the first and of all other latents, for symmetric likelihoods
STARTS = ((1.0, 1.0), (0.5, 0.2), (1.5, 0.1), (0.15, 0.2), (4.0, 0.5))


class ProfiledBound:
    """−(L*(θ) + log prior) of a model as an objective of the free vector x."""

    def __init__(self, model: Any, monitor: Monitor, trial_steps: int = TRIAL_STEPS) -> None:
        self.model, self.monitor, self.trial_steps = model, monitor, trial_steps
        self.evaluator: Evaluator = model._evaluator
        self.vector = FreeVector(model)
        self.tolerance = LOOSEST
        self.inner: InnerResult | None = None
        self.accepted = 0
        self.best: tuple[float, Array] | None = None

    def value(self, x: Array) -> float:
        """Find q at x from the committed sites; inf where the bound cannot be evaluated."""
        self.vector.write(x)
        try:
            with np.errstate(all="ignore"):
                self.evaluator.set_hyperparameters(self.model._theta())
                self.evaluator.restore()
                steps = 500 if self.tolerance <= FINAL_TOLERANCE else self.trial_steps
                self.inner = find_q(self.evaluator, self.tolerance, steps)
        except NumericalError:
            return np.inf
        self.evaluator.freeze_nodes(True)
        return -(self.inner.state.bound + self.model.log_prior())

    def gradient(self) -> Array:
        """Gradient at the last evaluated x, sites fixed."""
        if self.inner is None:
            raise RuntimeError("value comes first")
        with np.errstate(all="ignore"):
            gradient = self.evaluator.gradient(self.inner.state, sites_fixed=True)
        self.model._write_gradients(gradient)
        self.model._add_prior_gradients()
        return -self.vector.gradient()

    def accept(self, x: Array, value: float) -> float:
        """Commit the sites; tighten the inner tolerance with the progress made."""
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
        self.best = (value, x.copy())
        bound = -value - self.model.log_prior()
        if grows_without_limit(self.model, bound):
            self.monitor.stop(NO_LIMIT)
        counts = self.evaluator.num_likelihood, self.evaluator.num_theta
        if self.inner is not None and self.monitor.checkpoint_is_due():
            self.model._write_q(self.inner.state.q)
        self.monitor.point(bound, *counts)
        return value

    def _change_nodes(self) -> bool:
        """Give rows the nodes that they want, between two line searches; whether some may change.

        Where it takes trials to know, after the accepted points number 2, 4, 8, …
        """
        self.accepted += 1
        if self.model.likelihood.tries_nodes:
            power = self.accepted > 1 and self.accepted.bit_count() == 1
            now = self.model.num_nodes is None and power
            if now:
                self.evaluator.freeze_nodes(False)
            return now
        raised = self.inner is not None and self.inner.state.evaluation.raised > 0
        if raised:
            self.evaluator.raise_nodes()
        return raised


def start_sites(model: Any) -> int:
    """Sites for the model's current q; returns the likelihood evaluations that took (0 or 1)."""
    evaluator: Evaluator = model._evaluator
    evaluator.set_hyperparameters(model._theta())
    evaluations = 0
    if model._q_is_prior():
        evaluator.start_sites(len(model.latents))
    else:
        start_from_q(evaluator, model._q())
        evaluations = 1
    evaluator.commit()
    return evaluations


def fit_variational(model: Any, monitor: Monitor, max_iters: int) -> Outcome:
    """Find q alone, at the model's hyperparameters."""
    evaluator: Evaluator = model._evaluator
    start_sites(model)
    inner = find_q(evaluator, 0.1 * FINAL_TOLERANCE, max_iters)
    if not inner.converged and not model._q_is_prior():
        # a q far from anything sensible: the prior may be a better place to start from
        evaluator.start_sites(len(model.latents))
        cold = find_q(evaluator, 0.1 * FINAL_TOLERANCE, max_iters)
        inner = cold if cold.state.bound > inner.state.bound else inner
    evaluator.commit()
    model._write_q(inner.state.q)
    bound = inner.state.bound
    monitor.point(bound, evaluator.num_likelihood, evaluator.num_theta)
    reason = f"q is within {inner.gap:.1e} nats of its optimum"
    if not inner.converged:
        reason = f"{inner.steps} natural-gradient steps were not enough"
    return Outcome(np.empty(0), -bound, inner.steps, inner.converged, reason)


def fit_profile(
    model: Any,
    monitor: Monitor,
    max_iters: int,
    tolerance: float = 1e-3,
    several_starts: bool = True,
) -> Outcome:
    """Maximise the profiled bound over all free hyperparameters, then settle q.

    A symmetric likelihood (its latents play the same role) has local optima that differ by which
    latent takes which part: a new model is then fitted roughly from several lengthscales first
    (if `several_starts`), and at the end q is also found from a cold start; the best bound is kept.
    """
    new = model._q_is_prior()
    if new and shrink_variances(model, WIDEST):
        monitor.note(SMALLER)
    cold = model.likelihood.symmetric and new
    if cold and several_starts:
        _choose_start(model, monitor, max_iters)
    return _settle(*_maximise(model, monitor, max_iters, tolerance), cold)


def _maximise(
    model: Any,
    monitor: Monitor,
    max_iters: int,
    tolerance: float,
    trial_steps: int = TRIAL_STEPS,
) -> tuple[ProfiledBound, Outcome]:
    """Maximise over θ; leaves the best parameters in the model and its sites committed."""
    start_sites(model)
    objective = ProfiledBound(model, monitor, trial_steps)
    try:
        outcome = _minimise_from(
            objective,
            objective.vector.read(),
            groups=objective.vector.groups,
            kinked=objective.vector.inducing,
            max_iters=max_iters,
            tolerance=tolerance,
            stop=lambda: monitor.stop_reason,
        )
    except KeyboardInterrupt:
        value, x = objective.best or (np.inf, objective.vector.read())
        outcome = Outcome(x, value, len(monitor.trace), False, "interrupted")
    finally:
        model._evaluator.freeze_nodes(False)
        if objective.best is not None:
            objective.vector.write(objective.best[1])
    return objective, outcome


def _minimise_from(objective: ProfiledBound, x: Array, tries: int = 15, **options: Any) -> Outcome:
    """Minimise from x; where its bound is −inf for every q, from smaller variances of kernels.

    The variance that inducing inputs cannot take away is too large there for a density that falls
    like an exponential of the latent.
    """
    try:
        return minimise(objective, x, **options)
    except NumericalError:
        wide = objective.vector.variances_of(objective.model.kernels)
        if objective.best is not None or not tries or not wide.any():
            raise
    objective.monitor.note(SMALLER)
    return _minimise_from(objective, np.where(wide, x - 4.0, x), tries - 1, **options)


def _choose_start(model: Any, monitor: Monitor, max_iters: int) -> None:
    """Rough fits from several lengthscales; the model is left at the start of the best."""
    given = model._snapshot()
    best: tuple[float, Any] | None = None
    for first, others in STARTS:
        model._restore(given)
        for j, kernel in enumerate(model.kernels):
            _scale_lengthscales(kernel, first if j == 0 else others)
        rough = Monitor("start", False, None)
        try:
            found = _maximise(model, rough, min(max_iters, 60), 0.3, ROUGH_STEPS)
            outcome = _settle(*found, cold=False, tolerance=ROUGH)
        except NumericalError:
            continue
        if np.isfinite(outcome.value) and (best is None or outcome.value < best[0]):
            best = (outcome.value, model._snapshot())  # q included
    model._restore(given if best is None else best[1])
    monitor.note(f"chose the best of {len(STARTS)} starts")


def _scale_lengthscales(kernel: Any, factor: float) -> None:
    """Multiply the free lengthscales of a kernel."""
    for leaf in kernel.leaves_with(Role.LENGTHSCALE):
        if not leaf.is_fixed:
            leaf[:] = leaf.values * factor


def _settle(
    objective: ProfiledBound, outcome: Outcome, cold: bool, tolerance: float = FINAL_TOLERANCE
) -> Outcome:
    """Converge q at the best θ, from the sites at hand and perhaps from none; keep the better."""
    if objective.best is None:
        return outcome
    model, evaluator, x = objective.model, objective.evaluator, objective.best[1]
    objective.tolerance = tolerance
    outcome.x, outcome.value = x, objective.value(x)
    if not np.isfinite(outcome.value) or objective.inner is None:
        return outcome
    evaluator.commit()
    q = objective.inner.state.q
    if cold:
        evaluator.start_sites(len(model.latents))
        again = objective.value(x)
        if again < outcome.value - 1e-6:
            outcome.value, q = again, objective.inner.state.q
            evaluator.commit()
    model._write_q(q)
    return outcome
