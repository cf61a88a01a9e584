"""Natural gradients: the inner loop finds q at fixed hyperparameters, one likelihood pass a step.

A step of length ρ mixes the sites, λ ← (1 − ρ) λ + ρ λ⁺; q follows by S⁻¹ = I + A diag(λ2) Aᵀ and
S⁻¹μ = A (λ1 − λ2 mean). Mixing is linear, so a step is first tried on the (M, M) sums alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import NOT_FINITE, NumericalError
from ..linalg import Array, cholesky
from ..posterior.evaluator import Evaluator, State
from ..posterior.gaussian import Gaussian, symmetric_kl
from ..posterior.sums import Gram

# Steps are halved down to this length ρ; if that does not raise the bound, no step does.
SHORTEST_STEP = 2.0**-12
# From a bound below this no search can start: squares of its terms would overflow.
LOWEST = -1e100
# Within this many nats of the optimum, steps shorter than a tenth of the last are not worth a pass.
NEAR = 1e-3
# The search ends if this many steps together raised the bound by less than the tolerance.
STALL = 6
# Anderson acceleration begins after ANDERSON_AFTER plain steps, after ANDERSON_SOON if full steps
# overshoot, and combines at most the last ANDERSON_MEMORY steps.
ANDERSON_AFTER, ANDERSON_SOON, ANDERSON_MEMORY = 5, 2, 8
# After a step shorter than this, Anderson acceleration forgets the steps before it: they mislead.
SHORT_STEP = 0.2


@dataclass
class InnerResult:
    """The result of the search for q: its last state, and the predicted gap J/2 to the optimum."""

    state: State
    gap: float
    steps: int
    converged: bool


def find_q(
    evaluator: Evaluator,
    tolerance: float,
    max_steps: int = 500,
    seen: Callable[[State], object] | None = None,
) -> InnerResult:
    """Find q: maximise the bound over q by natural gradients at the evaluator's hyperparameters.

    It starts from the evaluator's current sites, and stops when ½[KL(q‖q⁺) + KL(q⁺‖q)] summed over
    latents is below `tolerance` (in nats), where q⁺ is the full step: this needs no likelihood
    evaluation and tracks the true gap. Raises NumericalError if the bound is not finite.

    seen : a function that is called with every state on the way.
    """
    starts = _starts(evaluator)
    state, moved = next(starts), False
    acceleration = _Anderson(evaluator)
    rho, gap, damped = 1.0, np.inf, False
    bounds: deque[float] = deque(maxlen=STALL + 1)
    for step in range(max_steps):
        if seen is not None:
            seen(state)
        full = _full_step(evaluator, state)
        gap = _gap(state, full)
        if gap <= tolerance:
            return InnerResult(state, gap, step, True)
        bounds.append(state.bound)
        if len(bounds) > STALL and state.bound - bounds[0] < tolerance:
            # Derivatives by differences have an error, and the gap does not fall below it.
            return InnerResult(state, gap, step, gap <= 1e3 * tolerance)
        after = ANDERSON_SOON if damped else ANDERSON_AFTER
        accelerated = acceleration.step(state) if step >= after else None
        if accelerated is not None:
            state, moved = accelerated, True
            continue
        near = gap <= min(1e3 * tolerance, NEAR)
        shortest = 0.1 * rho if near else SHORTEST_STEP
        tried = rho
        new, rho = _step(evaluator, state, state.proposal(), rho, shortest, full)
        if new is None and gap > 1e3 * tolerance:
            new, rho = _positive_step(evaluator, state)
        if new is None and not moved and np.isinf(gap):
            # Nothing leads on from here, though the bound is finite: a safer q may be a start.
            new, rho = next(starts, None), 1.0
            if new is not None:
                state = new
                continue
        if new is None:
            # No step, however short, raises the bound beyond rounding: this is the optimum.
            return InnerResult(state, gap, step, gap <= 1e3 * tolerance)
        evaluator.accept(rho)
        damped = damped or rho < 1.0
        acceleration.forget_if_short(rho)
        # A length that was halved is kept: where full steps overshoot, every other pass would fail.
        state, rho = new, min(1.0, 2.0 * rho) if rho >= tried else rho
        moved = True
    return InnerResult(state, gap, max_steps, False)


def start_from_q(evaluator: Evaluator, q: tuple[Gaussian, ...]) -> State:
    """Make sites from any given q in one pass: those of the full natural-gradient step from it."""
    state = evaluator.evaluate(q)
    evaluator.accept(0.0)
    evaluator.take_proposal()
    return state


def slack(evaluator: Evaluator, state: State) -> float:
    """How far the bound may fall by rounding in a natural-gradient step.

    It is relative to the terms of the bound, not to their sum.
    """
    return 1e-12 * (evaluator.num_rows + state.evaluation.abs_E)


def _starts(evaluator: Evaluator) -> Iterator[State]:
    """Evaluate the bound at the q of the current sites, then at safer ones, where it is finite.

    The bound of the prior itself is −inf for densities with light tails, such as Gumbel's, which
    overflow at far nodes: the last start is a narrow q around the mean functions. Raises
    NumericalError if the bound is finite at none.
    """
    found = False
    for repair in (None, evaluator.clip, evaluator.clear, evaluator.narrow):
        if repair is not None:
            repair()
        try:
            gram = evaluator.gram()
            state = evaluator.evaluate(evaluator.gaussians(gram), gram)
        except NumericalError:
            continue
        if state.bound > LOWEST and _has_slopes(state):
            evaluator.accept(0.0)
            found = True
            yield state
    if not found:
        raise NumericalError(NOT_FINITE)


def _has_slopes(state: State) -> bool:
    """Whether a natural-gradient step can start here, because all derivatives are finite."""
    slopes = (*state.evaluation.G, *state.evaluation.A_gm)
    return all(np.isfinite(part).all() for part in slopes)


def predicted_gap(evaluator: Evaluator, state: State) -> float:
    """Nats by which the bound is about below its maximum over q: ½[KL(q‖q⁺) + KL(q⁺‖q)].

    q⁺ is the full natural-gradient step.
    """
    return _gap(state, _full_step(evaluator, state))


def _full_step(evaluator: Evaluator, state: State) -> tuple[Gaussian, ...] | None:
    """The q⁺ of a full natural-gradient step, or None if it does not exist."""
    try:
        return evaluator.gaussians(state.proposal())
    except NumericalError:
        return None


def _gap(state: State, full: tuple[Gaussian, ...] | None) -> float:
    if full is None:
        return np.inf
    return sum(symmetric_kl(q, q_plus) for q, q_plus in zip(state.q, full, strict=True))


def _try(
    evaluator: Evaluator, state: State, target: Gram, q: tuple[Gaussian, ...] | None = None
) -> State | None:
    """The state at natural parameters `target` (q, if known), or None if q or the bound fails."""
    try:
        q = evaluator.gaussians(target) if q is None else q
    except NumericalError:
        return None
    new = evaluator.evaluate(q, target)
    better = np.isfinite(new.bound) and new.bound >= state.bound - slack(evaluator, state)
    if better and _has_slopes(new):
        return new
    return None


def _step(
    evaluator: Evaluator,
    state: State,
    ahead: Gram,
    rho: float,
    shortest: float = SHORTEST_STEP,
    full: tuple[Gaussian, ...] | None = None,
) -> tuple[State | None, float]:
    """The state after the longest natural-gradient step towards `ahead` that keeps the bound.

    full : q at `ahead` itself, if it is known.
    """
    if state.gram is None:
        raise RuntimeError("the inner loop starts from sites")
    while rho >= shortest:
        if rho == 1.0:
            new = _try(evaluator, state, ahead, full)
        else:
            new = _try(evaluator, state, Gram.mixed((1.0 - rho, rho), (state.gram, ahead)))
        if new is not None:
            return new, rho
        rho *= 0.5
    return None, rho


def _positive_step(evaluator: Evaluator, state: State) -> tuple[State | None, float]:
    """A step without negative curvature, for when the natural gradient leads nowhere."""
    new, rho = _step(evaluator, state, evaluator.positive_proposal(state.q), 1.0)
    if new is None:  # The true proposal is put back, since gradients are read from it.
        evaluator.evaluate(state.q, state.gram)
        evaluator.accept(0.0)
    return new, rho


class _Anderson:
    """Anderson acceleration of natural gradients λ → λ⁺; steps that lower the bound are not taken.

    The next sites are Σ_k c_k λ⁺_k with Σ c = 1 that minimise the residual Σ_k c_k (λ⁺_k − λ_k),
    measured on the (M, M) sums in the Fisher metric of the current q.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.past: deque[tuple[Gram, Gram]] = deque(maxlen=ANDERSON_MEMORY)
        self.pause, self.waiting = 1, 0  # They count plain steps after a failure.
        evaluator.forget()

    def step(self, state: State) -> State | None:
        """An accelerated state with its sites accepted, or None if the step failed or must wait."""
        if state.gram is None:
            return None
        self.past.append((state.gram, state.proposal()))
        self.evaluator.remember()
        if len(self.past) < 2 or self.waiting:
            self.waiting = max(0, self.waiting - 1)
            return None
        weights = anderson_weights(state, self.past)
        target = Gram.mixed(weights, tuple(ahead for _, ahead in self.past))
        new = _try(self.evaluator, state, target)
        if new is None:
            self.past = deque([self.past[-1]], maxlen=ANDERSON_MEMORY)
            self.evaluator.forget(1)
            self.pause = self.waiting = min(2 * self.pause, 16)
            return None
        self.pause = 1
        self.evaluator.accept_combination(weights)
        return new

    def forget_if_short(self, rho: float) -> None:
        """Forget past residuals after a short natural-gradient step, because they mislead."""
        if rho < SHORT_STEP:
            self.past.clear()
            self.evaluator.forget()


def anderson_weights(state: State, past: Sequence[tuple[Gram, Gram]]) -> Array:
    """Anderson's weights c, Σ c = 1, with Σ_k c_k λ⁺_k closest to the fixed point of λ → λ⁺.

    past : natural parameters λ and λ⁺, before and after a full step, of some steps.
    """
    columns = [fisher_vector(state.q, now, ahead) for now, ahead in past]
    R = np.stack(columns, axis=1)  # (b (M + M²), k)
    gram = R.T @ R
    gram.flat[:: gram.shape[0] + 1] += 1e-10 * np.trace(gram) + 1e-300
    c = np.linalg.solve(gram, np.ones(len(columns)))
    return c / c.sum()


def fisher_vector(q: Sequence[Gaussian], now: Gram, ahead: Gram) -> Array:
    """A natural-gradient step λ⁺ − λ as a vector whose squared length is in the Fisher metric of q.

    For each group of latents it has Rᵀ(Δb − ΔΛμ) and RᵀΔΛR/√2, with S = RRᵀ. Half of its square is
    about ½ [KL(q‖q⁺) + KL(q⁺‖q)] of the step.
    """
    parts = []
    for j, own in enumerate(q):
        R = cholesky(own.S, "the covariance of q(u)")
        d_Lam = ahead.Lam[j] - now.Lam[j]
        parts.append(R.T @ (ahead.b[j] - now.b[j] - d_Lam @ own.mu))
        parts.append((R.T @ d_Lam @ R).ravel() * np.sqrt(0.5))
    return np.concatenate(parts)
