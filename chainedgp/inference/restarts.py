"""Restarts from perturbed hyperparameters: seeded, in parallel, the best bound wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..errors import NumericalError
from ..linalg import one_blas_thread
from .free_vector import FreeVector
from .profile import fit_profile
from .result import Monitor

__all__ = ["fit_restarts"]

SPREAD = 1.0  # standard deviation of the logarithm of perturbed scales


def perturb(model: Any, rng: np.random.Generator) -> None:
    """Multiply the free positive parameters of kernels by e^N(0, 1); q goes back to the prior.

    Bounded ones move inside their bounds, by N(0, 1) before the transformation.
    """
    vector = FreeVector(model)
    steps = vector.units_of(model.kernels) * rng.standard_normal(vector.size)
    vector.write(vector.read() + SPREAD * steps)
    model._reset_q()


def fit_restarts(
    model: Any, monitor: Monitor, num_restarts: int, max_iters: int, rng: np.random.Generator
) -> tuple[Any, list[str]]:
    """Fit copies of the model from perturbed starts (the first unperturbed); give the best copy.

    Failed restarts are reported as notes and never win; one whose bound grows without limit wins
    only if all do. Copies run on threads, one each.
    """
    copies = [model.copy() for _ in range(num_restarts)]
    seeds = rng.spawn(num_restarts)
    notes: list[str] = []

    def run(k: int) -> tuple[bool, float, Any, str]:
        """Whether restart k may win, its objective, (outcome, model) or None, and what to tell."""
        one = copies[k]
        one._use_threads(1)
        if k > 0:
            perturb(one, seeds[k])
        try:
            quiet = Monitor(f"restart {k}", False, None)
            # a perturbed start is one of many already
            outcome = fit_profile(one, quiet, max_iters, several_starts=k == 0)
        except NumericalError as error:
            return False, -np.inf, None, f"restart {k} failed: {error}"
        if not np.isfinite(outcome.value):
            return False, -np.inf, None, f"restart {k} ended without a finite bound"
        stopped = quiet.stop_reason
        told = "" if stopped is None else f"restart {k} stopped: {stopped}"
        return stopped is None, -outcome.value, (outcome, one), told

    results, bounds = [], []
    with one_blas_thread(), ThreadPoolExecutor(model.num_threads) as pool:
        for result in pool.map(run, range(num_restarts)):  # in their order, as they end
            results.append(result)
            _, value, fit, told = result
            notes += [told] if told else []
            bounds.append(-np.inf if fit is None else value - fit[1].log_prior())
            if fit is not None:
                counts = fit[1]._evaluator
                monitor.point(bounds[-1], counts.num_likelihood, counts.num_theta)
    winner = max(results, key=lambda result: result[:2])[2]
    if winner is None:
        raise NumericalError("every restart failed: " + "; ".join(notes))
    notes.append(f"bounds of the restarts: {', '.join(f'{bound:.2f}' for bound in bounds)}")
    return winner, notes
