"""Candidates for the start of a new model's fit: different ideas, each fitted roughly.

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
from .lbfgs import Outcome
from .monitor import Monitor
from .natural_gradients import start_from_q
from .problem import Best, Problem
from .screen import Screen, screen_inputs, screen_targets
from .start_functions import Functions, follow, found_functions
from .starts import input_spread, inputs_that_count
from .theta_and_q import leaves_below

GIVEN = "as given"
# A rough fit has at most this many iterations.
ROUGH_ITERATIONS = 8
# A fit that may take fewer iterations than this tries no candidates and begins where the model is.
FEWEST_ITERATIONS = 50
# A fit begins as given, as if nothing had been tried, if that start is not worse than the best by
# more than TIE nats for all rows. The candidates then lead to nearly the same optimum, and a few
# rows should not decide which: their optimum may be a local one for all rows.
TIE = 1.0
# Rough fits use at most ROUGH_ROWS rows and ROUGH_INDUCING inducing inputs, evenly taken.
ROUGH_ROWS, ROUGH_INDUCING = 300, 100
# Latents that are held constant have prior standard deviations of the share HELD of their scales;
# when they are freed, of the share FREED.
HELD, FREED = 0.02, 0.5
# If the latents of a likelihood play the same role, local optima differ by which latent takes which
# part: candidates multiply lengthscales of the first latent and of all others by these factors.
FACTORS = ((0.5, 0.2), (1.5, 0.1), (0.15, 0.2), (4.0, 0.5))


class RoughFit(Protocol):
    """A function that fits a candidate roughly; its leaves then hold θ and q of the end."""

    def __call__(
        self, problem: Problem, monitor: Monitor, max_iters: int, held: Collection[Param]
    ) -> Outcome:
        """Fit the problem roughly from where it is; returns how the search ended."""


def choose_start(problem: Problem, monitor: Monitor, max_iters: int, fit: RoughFit) -> None:
    """Choose the start of a fit: hyperparameters and q of the best of several rough fits.

    The rough fits are of a smaller problem, and so fast that no callback is needed to stop them.
    Where q has local optima, hyperparameters alone would not lead back to the one that was found.
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
    tie = TIE * small.num_rows / problem.num_rows
    if values.get(GIVEN, -np.inf) >= max(values.values(), default=np.inf) - tie:
        chosen = GIVEN
    elif chosen:
        best.restore()
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
    """Candidates by name: functions that take the problem from its start through a rough fit.

    values : will hold bound + log prior after each rough fit, which later candidates look at.
    The values of kernels that a user gave are changed only if latents play the same role.
    """
    yield GIVEN, lambda rough: rough()
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
    """Candidate with the lengthscales that the screen of the inputs found."""
    _set_lengthscales(problem, screen)
    return rough()


def _together(problem: Problem, screen: Screen, rough: Callable[..., Outcome]) -> Outcome:
    """Candidate with lengthscales of a GP of all inputs, if that beats the best input alone."""
    _set_together(problem, screen)
    return rough()


def _followed(problem: Problem, found: Functions, rough: Callable[..., Outcome]) -> Outcome:
    """Candidate whose latents follow functions that the likelihood found, with kernels to suit."""
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
                set_spread(problem, kernel, float(sd))
    follow(problem, found)
    return rough()


def _scaled(
    problem: Problem, first: float, others: float, rough: Callable[..., Outcome]
) -> Outcome:
    """Candidate with the first latent's lengthscales times one factor, others' times another."""
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
    """Candidate that fits the first latent alone, all others constant, and then frees these.

    Lengthscales are those of the screen if a candidate before was better with these than as given.
    A constant latent is one with a small prior variance, so that every point on the way is a point
    of the model itself, and can be compared with the other candidates.
    """
    before = {GIVEN: -np.inf, **values}
    best = max(before, key=lambda name: before[name])
    if best == "inputs screened":
        _set_lengthscales(problem, screen)
    elif best == "inputs together":
        _set_together(problem, screen)
    others = list(zip(problem.parts.kernels, problem.starts.scales, strict=True))[1:]
    for kernel, scale in others:
        set_spread(problem, kernel, HELD * scale)
    rough(held=[leaf for kernel, _ in others for leaf in leaves_below(kernel)])
    for kernel, scale in others:
        set_spread(problem, kernel, FREED * scale)
    return rough()


def _set_lengthscales(problem: Problem, screen: Screen) -> None:
    """Set lengthscales of a candidate from the screen, long ones for inputs that do not matter.

    A latent for which no input matters keeps its lengthscales.
    """
    spread = input_spread(inputs_that_count(problem.sample), problem.parts.unordered_columns)
    _write_lengthscales(problem, screen.starts(spread))


def _set_together(problem: Problem, screen: Screen) -> None:
    """Set a candidate's lengthscales from GPs of all inputs, for latents these explain better."""
    lengths = [each if np.isfinite(each).all() else None for each in screen.together]
    _write_lengthscales(problem, lengths)


def _write_lengthscales(problem: Problem, lengths: Sequence[Array | None]) -> None:
    """Write a candidate's lengthscales (D,) for each latent's kernel; None leaves one as it is."""
    for kernel, own in zip(problem.parts.kernels, lengths, strict=True):
        if own is not None:
            write_lengthscales(problem, kernel, own)


def write_lengthscales(problem: Problem, kernel: Kernel, lengths: Array) -> None:
    """Write lengthscales by column (D,) to a kernel; one of several columns gets the shortest."""
    vector = problem.free_vector()
    x = vector.read()
    for part in kernel.simple_parts:
        if part.leaves_with(Role.PERIOD):
            continue  # The lengthscale of a season is a share of its period.
        of_columns = lengths[part.columns]
        for leaf in part.leaves_with(Role.LENGTHSCALE):
            each = leaf.size == of_columns.size
            x = vector.with_values(x, leaf, of_columns if each else of_columns.min())
    vector.write(x)


def set_spread(problem: Problem, kernel: Kernel, sd: float) -> None:
    """Scale the free variances of a kernel until its mean prior sd is `sd`, for a start.

    Steps go half of the way, because the variances of a product multiply. What is fixed stays.
    """
    vector, rows = problem.free_vector(), np.asarray(problem.sample.X[:100], dtype=float)
    half = np.where(vector.variances_of([kernel]), 0.5, 0.0)
    for _ in range(20):
        missing = np.log(sd * sd / float(np.mean(kernel.Kdiag(rows))))
        if abs(missing) < 0.05:
            break
        vector.write(vector.read() + half * missing)
