"""`optimize` and `optimize_restarts`: check their arguments and call a method of fitting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from ..data.arguments import as_generator, one_of, positive_float, positive_int
from ..errors import InputError, QuadratureWarning, warn
from ..linalg import one_blas_thread
from .growth import fit_growing, go_on, grows
from .inducing import left_open
from .lbfgs import TOLERANCE, Outcome
from .monitor import Monitor
from .overlooked import tell_of_overlooked
from .plain_gradients import fit_plain
from .problem import Problem
from .profile import fit_profile, fit_variational
from .rescue import begin_again_if_astray
from .restarts import fit_restarts
from .result import INTERRUPTED, OptimizationResult, TracePoint
from .steps import RULES
from .stochastic import BatchArguments, Settings, fit_batches

METHODS = ("profile", "lbfgsb", "natgrad", *RULES)
# The default method goes on while 10 iterations gain this many nats a row: a prediction that is off
# by a hundredth of its sd costs a row ½ · 0.01² nats.
PER_ROW = 5e-5
# The result notes that inducing inputs are too few if they cost more than this many nats a row.
MUCH_OPEN = 0.05
ALIASES = {"lbfgs": "lbfgsb", "bfgs": "lbfgsb", "l-bfgs-b": "lbfgsb"}


def optimize(
    problem: Problem,
    method: str | None = None,
    messages: bool | None = None,
    max_iters: int = 1000,
    *,
    tolerance: float | None = None,
    only: str | None = None,
    batches: BatchArguments | None = None,
    callback: Callable[[TracePoint], object] | None = None,
    save: Callable[[], None] | None = None,
    save_every: int = 10,
    optimizer: str | None = None,
) -> OptimizationResult:
    """Solve a problem by optimisation; its leaves then hold the best parameters seen.

    save : called after every `save_every` iterations, or epochs of a stochastic method.
    The other arguments are those of `ChainedGP.optimize`.
    """
    batches = batches or BatchArguments()
    method = _method_name(method, optimizer, batches.batch_size)
    max_iters = positive_int(max_iters, "max_iters")
    if tolerance is None:
        tolerance = _default_tolerance(problem, method)
    tolerance = positive_float(tolerance, "tolerance")
    if only is not None:
        method = str(one_of(only, ("variational",), "only"))
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of a TracePoint; got {callback!r}.")
    settings = _settings(problem, method, batches)
    every = positive_int(save_every, "checkpoint_every")
    how = "growing" if method == "profile" and grows(problem, max_iters) else method
    before, spent = problem.counts, None
    with Monitor(method, messages, callback, save, every) as monitor:
        fit = partial(_fit, problem, monitor, how, max_iters, tolerance, settings)
        with _best_point(problem, monitor) as ended:
            outcome = fit()
            if settings is None and how not in ("growing", "variational"):
                outcome = begin_again_if_astray(problem, monitor, outcome, fit)
            ended.append(outcome)
            spent = problem.counts  # The check at the end does not count.
            _check_end(problem, monitor)
            _tell_of_inducing(problem, monitor)
            _tell_of_targets(problem, monitor)
            if only is None and not monitor.stop_reason:
                tell_of_overlooked(problem, monitor)
    spent = spent or problem.counts  # An interrupted fit has not come to its check.
    counts = spent[0] - before[0], spent[1] - before[1]
    return monitor.result(ended[0], float(problem.state().bound), counts, problem.log_prior())


def optimize_restarts(
    problem: Problem,
    num_restarts: int = 10,
    *,
    messages: bool | None = None,
    max_iters: int = 1000,
    rng: int | np.random.Generator | None = 0,
) -> OptimizationResult:
    """Solve a problem from several perturbed starts, as `ChainedGP.optimize_restarts` describes."""
    num_restarts = positive_int(num_restarts, "num_restarts")
    max_iters = positive_int(max_iters, "max_iters")
    generator = as_generator(rng)
    counts = 0.0, 0
    with Monitor("restarts", messages) as monitor, _best_point(problem, monitor) as ended:
        growing = grows(problem, max_iters)
        given = problem, monitor, num_restarts, max_iters, generator
        outcome, counts = fit_restarts(*given, hold_inducing=growing)
        before = problem.counts
        fit = partial(_fit, problem, monitor, "profile", max_iters, TOLERANCE)
        outcome = begin_again_if_astray(problem, monitor, outcome, fit)
        if growing:
            kept = partial(problem.restore, problem.snapshot())
            monitor.keep(kept, problem.objective(), kept)
            outcome = _grow(problem, monitor, outcome, max_iters)
        ended.append(outcome)
        now = problem.counts
        counts = counts[0] + now[0] - before[0], counts[1] + now[1] - before[1]
        _check_end(problem, monitor)
        _tell_of_inducing(problem, monitor)
        _tell_of_targets(problem, monitor)
        tell_of_overlooked(problem, monitor)
    return monitor.result(ended[0], float(problem.state().bound), counts, problem.log_prior())


@contextmanager
def _best_point(problem: Problem, monitor: Monitor) -> Iterator[list[Outcome]]:
    """Whatever happens to the fit inside, θ and q are those of its best accepted point afterwards.

    The caller puts the outcome of the fit into the list; after Ctrl-C this function does.
    """
    bound = problem.state().bound if problem.is_current else -np.inf
    value = -(bound + problem.log_prior()) if np.isfinite(bound) else np.inf
    monitor.keep(problem, value, partial(problem.restore, problem.snapshot()))
    ended: list[Outcome] = []
    try:
        yield ended
    except KeyboardInterrupt:
        monitor.put_back_best()
        value = monitor.best_value
        ended[:] = [Outcome(np.empty(0), value, len(monitor.trace), False, INTERRUPTED)]
    except BaseException:
        monitor.put_back_best()
        raise


@one_blas_thread()  # BLAS's own threads would spin, and take our cores, between two products.
def _fit(
    problem: Problem,
    monitor: Monitor,
    method: str,
    max_iters: int,
    tolerance: float,
    settings: Settings | None = None,
) -> Outcome:
    """Hand the problem over to the optimisation method."""
    if settings is not None:
        return fit_batches(problem, monitor, method, settings)
    if method == "variational":
        return fit_variational(problem, monitor, max_iters)
    fit = {"profile": fit_profile, "growing": fit_growing}.get(method, fit_plain)
    return fit(problem, monitor, max_iters, tolerance)


@one_blas_thread()
def _grow(problem: Problem, monitor: Monitor, outcome: Outcome, max_iters: int) -> Outcome:
    """Go on from the best of several restarts, with as many inducing inputs as it needs."""
    cold = problem.parts.likelihood.symmetric
    return go_on(problem, monitor, outcome, max_iters, TOLERANCE, cold)


def _settings(problem: Problem, method: str, batches: BatchArguments) -> Settings | None:
    """Checked settings of a stochastic method; None for other methods, which take none."""
    if method == "natgrad" or method in RULES:
        settings = batches.settings(problem.num_rows)
        if problem.is_local:
            return settings
        raise InputError(
            f"{method!r} draws batches of rows, which stay on the cluster; on Dask arrays use "
            '"profile" (the default) or "lbfgsb". For a first fit take a part of the rows.'
        )
    if batches.any_given:
        raise InputError(
            "batch_size, epochs, holdout, patience and learning_rate belong to the stochastic "
            f'methods ("natgrad", "adam", …); the method is {method!r}.'
        )
    return None


def _method_name(method: str | None, optimizer: str | None, batch_size: int | None) -> str:
    if method is not None and optimizer is not None:
        raise InputError("give method or optimizer (GPy's name for it), not both.")
    name = method if method is not None else optimizer
    if name is None:
        return "profile" if batch_size is None else "natgrad"
    lowered = str(name).lower()
    return str(one_of(ALIASES.get(lowered, lowered), METHODS, "method"))


def _default_tolerance(problem: Problem, method: str) -> float:
    """Default tolerance of a method: nats that 10 iterations must gain to go on."""
    if method != "profile":
        return TOLERANCE
    return max(TOLERANCE, PER_ROW * problem.num_rows * problem.starts.mean_weight)


def _tell_of_inducing(problem: Problem, monitor: Monitor) -> None:
    """Note in the result that more inducing inputs would help, if the present ones cost much."""
    cost, M = left_open(problem), max(problem.parts.sizes)
    more = min(2 * M, problem.num_rows)
    if cost > MUCH_OPEN and more > M:
        monitor.note(
            f"more inducing inputs would raise the bound by up to {cost:.2g} nats a row: try "
            f"num_inducing={more} instead of {M}; a fit then takes up to four times as long"
        )


def _tell_of_targets(problem: Problem, monitor: Monitor) -> None:
    """Note in the result that all targets are the same, if their support is continuous."""
    y = problem.sample.targets()
    if y.size > 1 and problem.parts.likelihood.target_support.continuous and np.all(y == y[0]):
        monitor.note(
            f"all targets are {y[0]:g}: they say neither how they depend on X nor how much they "
            "vary, so that predictions rest on priors alone"
        )


def _check_end(problem: Problem, monitor: Monitor) -> None:
    """Check the end of a fit: NumericalError if its bound is not finite.

    It warns if even the most quadrature nodes leave an error above 1e-6 in some rows' integrals.
    """
    problem.bound()
    if problem.is_exact or problem.num_nodes is not None:
        return
    q = problem.state().q
    unmet = problem.evaluator.evaluate(q, count_unmet=True).evaluation.unmet
    if unmet:
        text = (
            f"the integrals of {unmet} of {problem.num_rows} rows may be off by more than 1e-6 "
            "(1e-4 on average for densities of your own and extremes), even with the largest "
            "number of quadrature nodes, because the posterior is very wide at these rows or the "
            "density has a kink. Add inducing inputs or data near them, or accept a rougher bound; "
            "`num_nodes=` sets the number by hand."
        )
        monitor.note(text)
        warn(text, QuadratureWarning)
