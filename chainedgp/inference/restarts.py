"""Restarts from perturbed hyperparameters: seeded, in parallel, the best bound wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import NumericalError
from ..linalg import one_blas_thread
from .lbfgs import Outcome
from .monitor import Monitor
from .problem import Problem
from .profile import fit_profile
from .result import INTERRUPTED

# Restarts perturb the logarithms of positive parameters by this standard deviation.
SPREAD = 1.0


@dataclass
class Restart:
    """How one restart ended; without an outcome it failed, and without a limit it may not win."""

    problem: Problem
    outcome: Outcome | None
    has_limit: bool
    told: str  # The result has this note on the restart.

    @property
    def rank(self) -> tuple[bool, float]:
        """Rank of a restart, larger is better: one with a limit first, then bound + log-prior."""
        return self.has_limit, -np.inf if self.outcome is None else -self.outcome.value

    @property
    def bound(self) -> float:
        """The bound that the restart reached, without hyperpriors."""
        return self.rank[1] - self.problem.log_prior()


def perturb(problem: Problem, rng: np.random.Generator) -> None:
    """Perturb a restart: multiply free positive kernel parameters by e^N(0, 1); q is the prior.

    Bounded parameters move inside their bounds, by N(0, 1) before the transformation.
    """
    vector = problem.free_vector()
    steps = vector.units_of(problem.parts.kernels) * rng.standard_normal(vector.size)
    vector.write(vector.read() + SPREAD * steps)
    problem.parts.reset_q()


def fit_restarts(
    problem: Problem,
    monitor: Monitor,
    num_restarts: int,
    max_iters: int,
    rng: np.random.Generator,
    *,
    hold_inducing: bool = False,
) -> tuple[Outcome, tuple[float, int]]:
    """Fit copies of the problem from perturbed starts (the first unperturbed); the best wins.

    Its parameters and q are put into the problem; its outcome and counts are returned. Failed
    restarts are noted and never win; one whose bound grows without limit wins only if all do.
    Copies run on threads, one each. After an error or an interrupt all end at their next accepted
    points, and the best point of any is kept.

    hold_inducing : whether inducing inputs stay where they are.
    """
    copies = [problem.copy() for _ in range(num_restarts)]
    seeds = rng.spawn(num_restarts)
    monitors = [Monitor(f"restart {k}") for k in range(num_restarts)]

    def run(k: int) -> Restart:
        """Run the k-th restart: the model as it is (k = 0), or perturbed at random."""
        one, quiet = copies[k], monitors[k]
        one.use_threads(1)
        if k > 0:
            perturb(one, seeds[k])
        try:
            # A perturbed start is one of several already, and needs no candidates of its own.
            held = one.parts.Z if hold_inducing else ()
            outcome = fit_profile(one, quiet, max_iters, several_starts=k == 0, held=held)
        except NumericalError as error:
            return Restart(one, None, False, f"restart {k} failed: {error}")
        if not np.isfinite(outcome.value):
            return Restart(one, None, False, f"restart {k} ended without a finite bound")
        if quiet.stop_reason is not None:
            return Restart(one, outcome, False, f"restart {k} stopped: {quiet.stop_reason}")
        return Restart(one, outcome, True, "")

    ended: list[Restart] = []
    try:
        with one_blas_thread(), ThreadPoolExecutor(problem.num_threads) as pool:
            futures = [pool.submit(run, k) for k in range(num_restarts)]
            try:
                for future in futures:
                    ended.append(future.result())
                    if ended[-1].outcome is not None:
                        monitor.point(ended[-1].bound, *ended[-1].problem.counts)
            except BaseException:
                for future, one in zip(futures, monitors, strict=True):
                    future.cancel()
                    one.stop(INTERRUPTED)
                raise  # It takes effect when the running fits reach their next points.
    except BaseException:
        value, k = min((one.best_value, k) for k, one in enumerate(monitors))
        if np.isfinite(value):
            monitors[k].put_back_best()
            monitor.keep(copies, value, partial(problem.restore, copies[k].snapshot()))
        raise
    notes = [restart.told for restart in ended if restart.told]
    best = max(ended, key=lambda restart: restart.rank)
    if best.outcome is None:
        raise NumericalError("every restart failed: " + "; ".join(notes))
    bounds = ", ".join(f"{restart.bound:.2f}" for restart in ended)
    for note in (*notes, f"bounds of the restarts: {bounds}"):
        monitor.note(note)
    first = monitors[0]
    monitor.choose(first.start if best.problem is copies[0] else "perturbed", first.starts, 0.0)
    problem.restore(best.problem.snapshot())
    return best.outcome, best.problem.counts
