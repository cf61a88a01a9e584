"""`optimize` and `optimize_restarts`: arguments are read, a method does the work."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from ..data.arguments import as_generator, one_of, positive_float, positive_int
from ..errors import InputError, NumericalError, QuadratureWarning
from ..linalg import one_blas_thread
from .lbfgs import TOLERANCE, Outcome
from .plain import fit_plain
from .problem import Problem
from .profile import fit_profile, fit_variational
from .rescue import SMALL, set_nearly_constant, worse_than_constants
from .restarts import fit_restarts
from .result import Monitor, OptimizationResult, TracePoint
from .step_rules import RULES
from .stochastic import Settings, fit_batches, read_settings

__all__ = ["METHODS", "optimize", "optimize_restarts"]

METHODS = ("profile", "lbfgsb", "natgrad", *RULES)
ALIASES = {"lbfgs": "lbfgsb", "bfgs": "lbfgsb", "l-bfgs-b": "lbfgsb"}


def optimize(
    problem: Problem,
    method: str | None = None,
    messages: bool | None = None,
    max_iters: int = 1000,
    *,
    tolerance: float = TOLERANCE,
    only: str | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
    rng: int | np.random.Generator | None = None,
    holdout: float | None = None,
    patience: int | None = None,
    learning_rate: float | None = None,
    callback: Callable[[TracePoint], object] | None = None,
    save: Callable[[], None] | None = None,
    save_every: int = 10,
    optimizer: str | None = None,
) -> OptimizationResult:
    """Solve a problem; its leaves then hold the best parameters seen.

    save, save_every : called after every so many iterations, or epochs of a stochastic method.
    The other arguments are those of `ChainedGP.optimize`.
    """
    method = _method_name(method, optimizer, batch_size)
    max_iters = positive_int(max_iters, "max_iters")
    tolerance = positive_float(tolerance, "tolerance")
    if only is not None:
        method = str(one_of(only, ("variational",), "only"))
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of a TracePoint; got {callback!r}.")
    given = (batch_size, epochs, holdout, patience, learning_rate)
    settings = _settings(method, problem.num_rows, rng, *given)
    if settings is not None and not problem.is_local:
        raise InputError(
            f"{method!r} draws batches of rows, which stay on the cluster; on Dask arrays use "
            '"profile" (the default) or "lbfgsb". For a first fit take a part of the rows.'
        )
    every = positive_int(save_every, "checkpoint_every")
    monitor = Monitor(method, messages, callback, save, every)
    before = problem.counts
    try:
        fit = _Fit(problem, monitor, method, max_iters, tolerance, settings)
        outcome = fit.run()
        if settings is None and method != "variational":
            outcome = fit.again_if_astray(outcome)
    finally:
        monitor.close()
    likelihood, theta = problem.counts
    return _result(problem, monitor, outcome, (likelihood - before[0], theta - before[1]))


def optimize_restarts(
    problem: Problem,
    num_restarts: int = 10,
    *,
    messages: bool | None = None,
    max_iters: int = 1000,
    rng: int | np.random.Generator | None = 0,
) -> OptimizationResult:
    """Solve a problem from several perturbed starts, as `ChainedGP.optimize_restarts` tells."""
    num_restarts = positive_int(num_restarts, "num_restarts")
    max_iters = positive_int(max_iters, "max_iters")
    monitor = Monitor("restarts", messages, None)
    try:
        generator = as_generator(rng)
        outcome, counts = fit_restarts(problem, monitor, num_restarts, max_iters, generator)
        fit = _Fit(problem, monitor, "profile", max_iters, TOLERANCE, None)
        outcome = fit.again_if_astray(outcome)
    finally:
        monitor.close()
    return _result(problem, monitor, outcome, counts)


class _Fit:
    """A method with its arguments, which may be run more than once."""

    def __init__(
        self,
        problem: Problem,
        monitor: Monitor,
        method: str,
        max_iters: int,
        tolerance: float,
        settings: Settings | None,
    ) -> None:
        self.problem, self.monitor, self.method = problem, monitor, method
        self.max_iters, self.tolerance, self.settings = max_iters, tolerance, settings

    @one_blas_thread()  # all along: BLAS's own threads wait by spinning, for the next product
    def run(self) -> Outcome:
        """Hand over to the method."""
        given = self.problem, self.monitor
        if self.settings is not None:
            return fit_batches(*given, self.method, self.settings)
        if self.method == "variational":
            return fit_variational(*given, self.max_iters)
        fit = fit_profile if self.method == "profile" else fit_plain
        return fit(*given, self.max_iters, self.tolerance)

    def again_if_astray(self, outcome: Outcome) -> Outcome:
        """Where the fit is worse than constant latents, fit from nearly constant ones.

        Then from ever more constant ones; the best fit is kept.
        """
        if not self._is_astray(outcome):
            return outcome
        problem, monitor = self.problem, self.monitor
        monitor.note(
            "the fit was worse than constant latents: began again from nearly constant ones"
        )
        best, value, trace = problem.snapshot(), problem.objective(), monitor.trace[:]
        for small in (SMALL, 0.0):
            set_nearly_constant(problem, small)
            monitor.trace.clear()
            try:
                again = self.run()
            except NumericalError:
                continue
            found = problem.objective()
            if found <= value:
                outcome, best, value, trace = again, problem.snapshot(), found, monitor.trace[:]
            if not self._is_astray(again):
                break
        problem.restore(best)
        monitor.trace[:] = trace
        return outcome

    def _is_astray(self, outcome: Outcome) -> bool:
        """Whether a fit that nobody stopped is worse than constant latents."""
        stopped = self.monitor.stop_reason or outcome.reason == "interrupted"
        return not stopped and worse_than_constants(self.problem)


def _result(
    problem: Problem, monitor: Monitor, outcome: Outcome, counts: tuple[float, int]
) -> OptimizationResult:
    """The result at the end of a fit, with its warnings."""
    _warn_of_quadrature(problem, monitor)
    return monitor.result(
        converged=outcome.converged,
        reason=outcome.reason,
        bound=problem.bound(),
        iterations=outcome.iterations,
        counts=counts,
    )


def _settings(
    method: str,
    N: int,
    rng: int | np.random.Generator | None,
    batch_size: int | None,
    epochs: float | None,
    holdout: float | None,
    patience: int | None,
    learning_rate: float | None,
) -> Settings | None:
    """Checked settings of a stochastic method; None for the others, which take none of them."""
    if method == "natgrad" or method in RULES:
        return read_settings(N, batch_size, epochs, rng, holdout, patience, learning_rate)
    given = (batch_size, epochs, holdout, patience, learning_rate)
    if any(value is not None for value in given):
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


def _warn_of_quadrature(problem: Problem, monitor: Monitor) -> None:
    """Say so where even the most nodes leave an error above 1e-6 in some rows' integrals."""
    if problem.parts.likelihood.exact_expectation or problem.num_nodes is not None:
        return
    q = problem.state().q
    unmet = problem.evaluator.evaluate(q, count_unmet=True).evaluation.unmet
    if unmet:
        text = (
            f"the quadrature of {unmet} of {problem.num_rows} rows may be off by more than 1e-6 "
            "with the most nodes there are: the posterior is very wide there. Add inducing inputs "
            "or rows near them, or accept a rougher bound; `num_nodes=` sets the nodes by hand."
        )
        monitor.note(text)
        warnings.warn(text, QuadratureWarning, stacklevel=5)
