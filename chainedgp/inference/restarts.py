"""Restarts from perturbed hyperparameters: seeded, in parallel, the best bound wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..errors import NumericalError
from ..linalg import one_blas_thread
from .profile import fit_profile
from .result import Monitor

__all__ = ["fit_restarts"]

SPREAD = 1.0  # standard deviation of the logarithm of perturbed scales


def perturb(model: Any, rng: np.random.Generator) -> None:
    """Multiply the free positive parameters of kernels by e^N(0, 1); q goes back to the prior."""
    for kernel in model.kernels:
        for leaf in kernel.flattened_parameters:
            fixed = np.zeros(leaf.size, dtype=bool)
            for constraint, entries in leaf.constraints.items():
                if constraint == "fixed":
                    fixed[entries] = True
            factor = np.exp(SPREAD * rng.standard_normal(leaf.size))
            values = np.where(fixed, leaf.values.ravel(), leaf.values.ravel() * factor)
            leaf[:] = values.reshape(leaf.shape)
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

    def run(k: int) -> tuple[bool, float, Any]:
        """Whether restart k may win, its bound, and (outcome, model) or None if it failed."""
        one = copies[k]
        one._use_threads(1)
        if k > 0:
            perturb(one, seeds[k])
        try:
            quiet = Monitor(f"restart {k}", False, None)
            # a perturbed start is one of many already
            outcome = fit_profile(one, quiet, max_iters, several_starts=k == 0)
        except NumericalError as error:
            notes.append(f"restart {k} failed: {error}")
            return False, -np.inf, None
        value = -outcome.value
        if not np.isfinite(value):
            notes.append(f"restart {k} ended without a finite bound")
            return False, -np.inf, None
        monitor.point(value, int(one._evaluator.num_likelihood), one._evaluator.num_theta)
        if quiet.stop_reason is not None:
            notes.append(f"restart {k} stopped: {quiet.stop_reason}")
        return quiet.stop_reason is None, value, (outcome, one)

    with one_blas_thread(), ThreadPoolExecutor(model.num_threads) as pool:
        results = list(pool.map(run, range(num_restarts)))
    winner = max(results, key=lambda result: result[:2])[2]
    if winner is None:
        raise NumericalError("every restart failed: " + "; ".join(notes))
    spread = ", ".join(f"{value:.2f}" for _, value, _ in results)
    notes.append(f"bounds of the restarts: {spread}")
    return winner, notes
