"""Where the fit of a new model begins: candidates from different ideas, fitted roughly.

The bound has local optima: noise may swallow a signal, a lengthscale may begin too long to see it,
a latent that hardly matters may spoil the others. No single start is safe from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from paramz import Param

from ..errors import NumericalError
from ..kernels import Kernel
from ..likelihoods.density_check import row_numbers
from ..linalg import Array
from ..parameters.roles import Role
from ..posterior.evaluator import Evaluator
from .functions import Functions, follow, found_functions
from .lbfgs import Outcome
from .monitor import Monitor
from .natural_gradients import start_from_q
from .problem import Best, Problem
from .screen import Screen, screen_inputs, screen_targets
from .starts import input_spread, inputs_that_count
from .theta_and_q import leaves_below

# A rough fit has at most so many iterations.
ROUGH_ITERATIONS = 12
# A fit that may take fewer iterations than this begins where the model is.
FEWEST_ITERATIONS = 50
# Rough fits use at most so many rows and inducing inputs, evenly taken.
ROUGH_ROWS, ROUGH_INDUCING = 300, 100
# Latents that are held constant have prior standard deviations of this share of their scales; when
# they are freed, of that share.
HELD, FREED = 0.02, 0.5
# An input that tells nothing of a latent begins with a lengthscale of so many standard deviations.
LONG = 10.0
# Where the latents of a likelihood play the same role, local optima differ by which latent takes
# which part: lengthscales of the first latent and of all others are multiplied by such factors.
FACTORS = ((0.5, 0.2), (1.5, 0.1), (0.15, 0.2), (4.0, 0.5))


class RoughFit(Protocol):
    """Maximises a problem roughly from where it is; its leaves hold θ and q of the end."""

    def __call__(
        self, problem: Problem, monitor: Monitor, max_iters: int, held: Collection[Param]
    ) -> Outcome:
        """How the search ended, and the value there."""


def choose_start(problem: Problem, monitor: Monitor, max_iters: int, fit: RoughFit) -> None:
    """Have the problem begin with the hyperparameters and q of the best of several rough fits.

    These are made on a smaller problem, fast enough that no callback is needed to stop them. Where
    q has local optima, hyperparameters alone would not lead back to the one that was found.
    """
    if max_iters < FEWEST_ITERATIONS:
        return
    n = problem.rows_at_hand.num_rows
    rows = np.unique(np.linspace(0, n - 1, min(n, ROUGH_ROWS)).astype(int))
    small = problem.smaller(rows, ROUGH_INDUCING)
    given, best = small.snapshot(), Best(small)
    chosen = ""
    values: dict[str, float] = {}
    ideas, functions = list(_ideas(small, values)), found_functions(problem)
    if functions is not None:
        ideas.append(("functions followed", partial(_followed, small, functions)))
    if len(ideas) == 1:
        return

    def rough(held: Collection[Param] = ()) -> Outcome:
        return fit(small, Monitor("start"), ROUGH_ITERATIONS, [*small.parts.Z, *held])

    with row_numbers(rows):
        for name, idea in ideas:
            small.restore(given)
            monitor.say(f"start: {name}")
            try:
                value = idea(rough).value
            except NumericalError:
                continue
            if np.isfinite(value):
                values[name] = -value
                chosen = name if best.offer(value) else chosen
    monitor.say(monitor.method)
    small.restore(given)
    best.restore()
    if chosen:
        _take_q(problem, small)
    monitor.choose(chosen, values, small.counts[0] * small.num_rows / problem.num_rows)
    passes, settings = small.counts
    problem.evaluator.num_likelihood += passes * small.num_rows / problem.num_rows
    problem.evaluator.num_theta += settings


def _take_q(problem: Problem, small: Problem) -> None:
    """Set q of a problem to what the rows of a smaller one, which has the same θ, tell at its q.

    Where these rows do not make a Gaussian it is left as it is.
    """
    small.set_hyperparameters()
    with np.errstate(all="ignore"):
        start_from_q(small.evaluator, small.parts.q())
        evaluator = Evaluator(small.evaluator.shards, problem.parts.family)
        evaluator.set_hyperparameters(problem.parts.theta())
        try:
            problem.parts.write_q(evaluator.gaussians(evaluator.gram()))
        except NumericalError:
            problem.parts.reset_q()


Idea = Callable[[Callable[..., Outcome]], Outcome]


def _ideas(problem: Problem, values: dict[str, float]) -> Iterator[tuple[str, Idea]]:
    """What is tried, by name: functions that take the problem from its given start to an end.

    values : where bound + log prior after each rough fit will be; what comes later looks at them.
    The values of kernels that a user gave are changed only where latents play the same role.
    """
    yield "as given", lambda rough: rough()
    parts, starts = problem.parts, problem.starts
    if not parts.given_kernels:
        unordered = parts.unordered_columns
        screen = screen_inputs(parts.likelihood, problem.rows, starts.constants, unordered)
        if screen.relevant.any():
            yield "inputs screened", partial(_screened, problem, screen)
        if np.isfinite(screen.together).any():
            yield "inputs together", partial(_together, problem, screen)
        if len(parts.kernels) > 1:
            yield "one latent first", partial(_one_latent_first, problem, screen, values)
    if parts.likelihood.symmetric:
        for first, others in FACTORS:
            name = f"lengthscales times {first:g} and {others:g}"
            yield name, partial(_scaled, problem, first, others)


def _screened(problem: Problem, screen: Screen, rough: Callable[..., Outcome]) -> Outcome:
    """Lengthscales as the screen of the inputs found them."""
    _set_lengthscales(problem, screen)
    return rough()


def _together(problem: Problem, screen: Screen, rough: Callable[..., Outcome]) -> Outcome:
    """Lengthscales of a GP of all inputs, where that tells more than the best input alone."""
    _set_together(problem, screen)
    return rough()


def _followed(problem: Problem, found: Functions, rough: Callable[..., Outcome]) -> Outcome:
    """Latents follow functions that the likelihood has found; kernels suit these."""
    if not problem.parts.given_kernels:
        centred = found.values - found.values.mean(axis=1, keepdims=True)
        X, weights = found.rows.inputs(), np.ones(found.rows.num_rows)
        unordered = problem.parts.unordered_columns
        spread = input_spread(inputs_that_count(problem.sample), unordered)
        screen = screen_targets(X, centred, weights, spread, unordered)
        _set_lengthscales(problem, screen)
        spreads = zip(problem.parts.kernels, problem.starts.scales, centred.std(1), strict=True)
        for kernel, scale, sd in spreads:
            if sd > scale:
                _set_spread(problem, kernel, float(sd))
    follow(problem, found)
    return rough()


def _scaled(
    problem: Problem, first: float, others: float, rough: Callable[..., Outcome]
) -> Outcome:
    """Lengthscales of the first latent times one factor, of all others times another."""
    vector = problem.free_vector()
    x = vector.read()
    for j, kernel in enumerate(problem.parts.kernels):
        for leaf in kernel.leaves_with(Role.LENGTHSCALE):
            x = vector.with_values(x, leaf, leaf.values * (first if j == 0 else others))
    vector.write(x)
    return rough()


def _one_latent_first(
    problem: Problem, screen: Screen, values: dict[str, float], rough: Callable[..., Outcome]
) -> Outcome:
    """The first latent alone, all others constant; these are freed when it is found.

    Lengthscales are those of the screen where these were better than the given ones before.
    A constant latent is one with a small prior variance: every point on the way is one of the
    model, whose special case is thus compared with the other starts.
    """
    before = {"as given": -np.inf, **values}
    best = max(before, key=lambda name: before[name])
    if best == "inputs screened":
        _set_lengthscales(problem, screen)
    elif best == "inputs together":
        _set_together(problem, screen)
    others = list(zip(problem.parts.kernels, problem.starts.scales, strict=True))[1:]
    for kernel, scale in others:
        _set_spread(problem, kernel, HELD * scale)
    rough(held=[leaf for kernel, _ in others for leaf in leaves_below(kernel)])
    for kernel, scale in others:
        _set_spread(problem, kernel, FREED * scale)
    return rough()


def _set_lengthscales(problem: Problem, screen: Screen) -> None:
    """Lengthscales of the screen, long ones where an input tells nothing.

    The lengthscales of k inputs that matter are √k times those of one: distances grow like that. A
    latent of which no input tells anything keeps what it has.
    """
    X = inputs_that_count(problem.sample)
    spread = input_spread(X, problem.parts.unordered_columns)
    found = zip(screen.relevant, screen.lengthscales, strict=True)
    _write_lengthscales(problem, [
        np.where(relevant, np.sqrt(relevant.sum()) * lengths, LONG * spread)
        if relevant.any() else None
        for relevant, lengths in found
    ])  # fmt: skip


def _set_together(problem: Problem, screen: Screen) -> None:
    """Lengthscales of a GP of all inputs; a latent of which it tells nothing keeps what it has."""
    lengths = [each if np.isfinite(each).all() else None for each in screen.together]
    _write_lengthscales(problem, lengths)


def _write_lengthscales(problem: Problem, lengths: Sequence[Array | None]) -> None:
    """Lengthscales (D,) for the kernel of each latent; None leaves one as it is."""
    vector = problem.free_vector()
    x = vector.read()
    for kernel, own in zip(problem.parts.kernels, lengths, strict=True):
        if own is None:
            continue
        for part in kernel.simple_parts:
            if part.leaves_with(Role.PERIOD):
                continue  # There a lengthscale is a share of a period.
            of_columns = own[part.columns]
            for leaf in part.leaves_with(Role.LENGTHSCALE):
                each = leaf.size == of_columns.size
                x = vector.with_values(x, leaf, of_columns if each else of_columns.min())
    vector.write(x)


def _set_spread(problem: Problem, kernel: Kernel, sd: float) -> None:
    """Multiply the free variances of a kernel until its mean prior standard deviation is `sd`.

    Steps go half of the way: the variances of a product multiply. What is fixed stays.
    """
    vector, rows = problem.free_vector(), np.asarray(problem.sample.X[:100], dtype=float)
    half = np.where(vector.variances_of([kernel]), 0.5, 0.0)
    for _ in range(20):
        missing = np.log(sd * sd / float(np.mean(kernel.Kdiag(rows))))
        if abs(missing) < 0.05:
            break
        vector.write(vector.read() + half * missing)
