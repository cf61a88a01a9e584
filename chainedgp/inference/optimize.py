"""The model's `optimize`: reads the arguments and hands over to a method."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..data.arguments import as_generator, one_of, positive_float, positive_int
from ..data.rows import is_dask
from ..errors import InputError, NumericalError, QuadratureWarning
from ..linalg import one_blas_thread
from .lbfgs import Outcome
from .plain import fit_plain
from .profile import fit_profile, fit_variational
from .rescue import SMALL, set_nearly_constant, worse_than_constants
from .restarts import fit_restarts
from .result import Monitor, OptimizationResult
from .step_rules import RULES
from .stochastic import Settings, fit_natgrad, fit_step_rule, read_settings

__all__ = ["METHODS", "Fitting"]

METHODS = ("profile", "lbfgsb", "natgrad", *RULES)
TOLERANCE = 1e-3  # nats in 10 iterations
ALIASES = {"lbfgs": "lbfgsb", "bfgs": "lbfgsb", "l-bfgs-b": "lbfgsb"}


class Fitting:
    """Optimisation methods of the model."""

    def optimize(
        self,
        method: str | None = None,
        messages: bool | None = None,
        max_iters: int = 1000,
        *,
        tolerance: float = TOLERANCE,
        only: str | None = None,
        batch_size: int | None = None,
        epochs: float | None = None,
        rng: Any = None,
        holdout: float | None = None,
        patience: int | None = None,
        learning_rate: float | None = None,
        callback: Callable[[Any], Any] | None = None,
        checkpoint: Any = None,
        checkpoint_every: int = 10,
        optimizer: str | None = None,
    ) -> OptimizationResult:
        """Fit the model; afterwards it holds the best parameters seen.

        Parameters
        ----------
        method : None or "profile" (natural gradients for q inside L-BFGS on everything else), or
            "lbfgsb": this package's own L-BFGS, without bounds, on the gradients of all parameters
            together, those of q included, as in the paper; for large N "natgrad" (the default where
            batch_size is given), "adam", "rmsprop" or "adagrad". GPy's names "lbfgs" and "bfgs" for
            "lbfgsb" are understood, and its keyword `optimizer`.
        messages : show progress; None shows it when a person is watching.
        max_iters : most iterations.
        tolerance : nats that the last 10 iterations must have gained together, or the fit has
            converged; with very many rows 1e-4 N saves time and costs no accuracy that matters.
        only : "variational" finds q alone, at the current hyperparameters.
        batch_size, epochs, rng : rows in a batch (1,000), passes over the data (10), seed or
            Generator of the shuffling; stochastic methods only.
        holdout, patience : fraction of rows held out for an NLPD after every epoch, the best of
            which is kept; stop after so many epochs without a better one. "natgrad" settles q on
            all rows at the end.
        learning_rate : of the step rule; None takes the rule's own.
        callback : called with every accepted `TracePoint`; a true return value stops.
        checkpoint, checkpoint_every : path of a file that gets the model every so many iterations
            (epochs of a stochastic method); `chainedgp.load(path).optimize()` goes on from there.

        Returns
        -------
        OptimizationResult : converged or not, why it stopped, counts, the trace of the bound.
        """
        method = _method_name(method, optimizer, batch_size)
        max_iters = positive_int(max_iters, "max_iters")
        tolerance = positive_float(tolerance, "tolerance")
        if only is not None:
            method = str(one_of(only, ("variational",), "only"))
        if callback is not None and not callable(callback):
            raise InputError(f"callback must be a function of a TracePoint; got {callback!r}.")
        model: Any = self
        batches = (batch_size, epochs, holdout, patience, learning_rate)
        settings = _settings(method, model.X.shape[0], rng, *batches)
        whole = not is_dask(model.X)  # the rows are in this process
        if settings is not None and not whole:
            raise InputError(
                f"{method!r} draws batches of rows, which stay on the cluster; on Dask arrays use "
                '"profile" (the default) or "lbfgsb". For a first fit take a part of the rows.'
            )
        every = positive_int(checkpoint_every, "checkpoint_every")
        save = None if checkpoint is None else lambda: model.save(checkpoint, data=whole)
        monitor = Monitor(method, messages, callback, save, every)
        before = model._evaluator.num_likelihood, model._evaluator.num_theta
        try:
            arguments = monitor, method, max_iters, tolerance, settings
            outcome = _fit(model, *arguments)
            whole_fit = settings is None and method != "variational"
            if whole_fit and _has_gone_astray(model, monitor, outcome):
                outcome = _fit_again(model, outcome, *arguments)
        finally:
            monitor.close()
        counts = (
            model._evaluator.num_likelihood - before[0],
            model._evaluator.num_theta - before[1],
        )
        _warn_of_quadrature(model, monitor)
        model.last_result = monitor.result(
            converged=outcome.converged,
            reason=outcome.reason,
            bound=model.log_likelihood(),
            iterations=outcome.iterations,
            counts=counts,
        )
        return model.last_result

    def optimize_restarts(
        self,
        num_restarts: int = 10,
        *,
        messages: bool | None = None,
        max_iters: int = 1000,
        rng: Any = 0,
    ) -> OptimizationResult:
        """Fit from several perturbed starts, the first from the model as it is; the best wins.

        rng : seed or Generator of the perturbations. Restarts run in parallel on threads. One that
        fails is reported in `result.warnings` and never wins.
        """
        num_restarts = positive_int(num_restarts, "num_restarts")
        max_iters = positive_int(max_iters, "max_iters")
        model: Any = self
        monitor = Monitor("restarts", messages, None)
        try:
            (outcome, winner), notes = fit_restarts(
                model, monitor, num_restarts, max_iters, as_generator(rng)
            )
            model._restore(winner._snapshot())
            for note in notes:
                monitor.note(note)
            if _has_gone_astray(model, monitor, outcome):
                outcome = _fit_again(model, outcome, monitor, "profile", max_iters, TOLERANCE, None)
        finally:
            monitor.close()
        _warn_of_quadrature(model, monitor)
        model.last_result = monitor.result(
            converged=outcome.converged,
            reason=outcome.reason,
            bound=model.log_likelihood(),
            iterations=outcome.iterations,
            counts=(winner._evaluator.num_likelihood, winner._evaluator.num_theta),
        )
        return model.last_result


@one_blas_thread()  # all along: BLAS's own threads wait by spinning, for the next product
def _fit(
    model: Any,
    monitor: Monitor,
    method: str,
    max_iters: int,
    tolerance: float,
    settings: Settings | None,
) -> Outcome:
    """Hand over to the method."""
    if method == "variational":
        return fit_variational(model, monitor, max_iters)
    if method == "profile":
        return fit_profile(model, monitor, max_iters, tolerance)
    if settings is None:
        return fit_plain(model, monitor, max_iters, tolerance)
    if method == "natgrad":
        return fit_natgrad(model, monitor, settings)
    return fit_step_rule(model, monitor, method, settings)


def _has_gone_astray(model: Any, monitor: Monitor, outcome: Outcome) -> bool:
    """Whether a fit that nobody stopped is worse than constant latents."""
    stopped = monitor.stop_reason or outcome.reason == "interrupted"
    return not stopped and worse_than_constants(model)


def _fit_again(model: Any, outcome: Outcome, monitor: Monitor, *arguments: Any) -> Outcome:
    """Fit from nearly constant latents, then from ever more constant ones; the best fit is kept."""
    monitor.note("the fit was worse than constant latents: began again from nearly constant ones")
    best, bound = model._snapshot(), model.log_likelihood() + model.log_prior()
    trace = monitor.trace[:]
    for small in (SMALL, 0.0):
        set_nearly_constant(model, small)
        monitor.trace.clear()
        try:
            again = _fit(model, monitor, *arguments)
        except NumericalError:
            continue
        found = model.log_likelihood() + model.log_prior()
        if found >= bound:
            outcome, best, bound, trace = again, model._snapshot(), found, monitor.trace[:]
        if not _has_gone_astray(model, monitor, again):
            break
    model._restore(best)
    monitor.trace[:] = trace
    return outcome


def _settings(
    method: str,
    N: int,
    rng: Any,
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


def _warn_of_quadrature(model: Any, monitor: Monitor) -> None:
    """Say so where even the most nodes leave an error above 1e-6 in some rows' integrals."""
    if model.likelihood.exact_expectation or model.num_nodes is not None:
        return
    q = model._evaluated().q
    unmet = model._evaluator.evaluate(q, count_unmet=True).evaluation.unmet
    if unmet:
        text = (
            f"the quadrature of {unmet} of {model.X.shape[0]} rows may be off by more than 1e-6 "
            "with the most nodes there are: the posterior is very wide there. Add inducing inputs "
            "or rows near them, or accept a rougher bound; `num_nodes=` sets the nodes by hand."
        )
        monitor.note(text)
        warnings.warn(text, QuadratureWarning, stacklevel=3)
