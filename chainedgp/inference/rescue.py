"""A fit that ends below constant latents has gone astray: how to see it, and where to begin again.

From a wild start (a prior variance of 1e12, say) the bound can lead to a plateau. The model with
kernel variances of 0 and the right means is the one with constant latents, so a start close to that
is never far below its log-likelihood.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import NumericalError
from .lbfgs import Outcome
from .monitor import Monitor
from .problem import Best, Problem

# A fit has gone astray where it is more than this many nats a row below constant latents.
SLACK = 0.02
# A bound so many nats a row above constant latents means that a noise shrank by a factor of e³⁰.
MOST = 30.0
# A site of this precision, in units of 1/scale² of its latent, tells the latent to 1e-9 of its
# scale: nothing is measured so well, and no search gets on among such sites.
SHARPEST = 1e18
# Nearly constant latents have prior standard deviations of this share of their scales.
SMALL = 0.1

NO_LIMIT = (
    "the bound grows without limit, because some noise vanishes: targets are repeated exactly, or "
    "a prior on the noise is needed"
)


def grows_without_limit(problem: Problem, bound: float) -> bool:
    """Whether a noise vanishes: a bound far above that of constant latents can have no other cause.

    Or a bound above it at all, where some rows tell a latent more precisely than numbers can.
    """
    if not problem.parts.likelihood.target_support.continuous:
        return False
    starts, rows = problem.starts, problem.evaluator.num_rows
    flat = starts.score * rows
    most = flat + MOST * starts.mean_weight * rows
    return bool(bound > most) or bool(bound > flat and rows_without_noise(problem).size)


def rows_without_noise(problem: Problem) -> np.ndarray:
    """Indices of rows that tell a latent to within 1e-9 of the scale on which it varies.

    By the precision of their sites; none where a fit has no sites, or they are on a cluster.
    """
    shards = problem.evaluator.shards
    if not shards or not shards[0].has_sites:
        return np.empty(0, dtype=int)
    precision = problem.evaluator.family.precisions(shards[0].sites.current).T  # (n, b)
    precision = precision * np.square(problem.starts.scales)
    weights = shards[0].rows.weights
    if weights is not None:
        precision = precision / np.maximum(weights, 1e-300)[:, None]
    return np.flatnonzero((precision > SHARPEST).any(axis=1))


def worse_than_constants(problem: Problem) -> bool:
    """Whether the bound is below the log-likelihood of constant latents (moment estimates)."""
    if not problem.is_local:
        return False
    starts, rows = problem.starts, problem.evaluator.num_rows
    worst = (starts.score - SLACK * starts.mean_weight) * rows
    return bool(np.isfinite(worst)) and problem.bound() < worst


def begin_again_if_astray(
    problem: Problem, monitor: Monitor, outcome: Outcome, fit: Callable[[], Outcome]
) -> Outcome:
    """Fit from nearly constant latents, if a fit that nobody stopped is worse than constant ones.

    Then from ever more constant ones; the best fit is kept.
    """

    def astray(outcome: Outcome) -> bool:
        return not monitor.stop_reason and worse_than_constants(problem)

    if not astray(outcome):
        return outcome
    monitor.note("the fit was worse than constant latents: began again from nearly constant ones")
    best, trace = Best(problem), monitor.trace[:]
    best.offer(problem.objective())
    for small in (SMALL, 0.0):
        set_nearly_constant(problem, small)
        monitor.trace.clear()
        try:
            again = fit()
        except NumericalError:
            continue
        if best.offer(problem.objective()):
            outcome, trace = again, monitor.trace[:]
        if not astray(again):
            break
    best.restore()
    monitor.trace[:] = trace
    return outcome


def set_nearly_constant(problem: Problem, small: float = SMALL) -> None:
    """Small variances of kernels, the constants as means, q the prior; what is fixed stays.

    small : prior standard deviations in the scale on which a latent varies; 0 for such that the
        bound is close to that of constant latents, where a fit cannot but end above it.
    """
    for mean, value in zip(problem.parts.means, problem.starts.constants, strict=True):
        mean.set_constant(float(value))
    problem.parts.reset_q()
    if small > 0.0:
        shrink_variances(problem, small)
        return
    vector = problem.free_vector()
    x, variances = vector.read(), vector.variances_of(problem.parts.kernels)
    last = -np.inf
    # Once a fixed part of a kernel has what is left of the variance, smaller factors do not help.
    while worse_than_constants(problem) and problem.bound() > last + 1e-3 and variances.any():
        last = problem.bound()
        x[variances] -= 4.0
        vector.write(x)


@np.errstate(over="ignore")
def shrink_variances(problem: Problem, most: float) -> bool:
    """Divide the free variances of kernels till prior sds are `most` latent scales; if any was.

    A kernel is divided as long as it helps: what a fixed part gives to the variance stays.
    """
    vector, rows = problem.free_vector(), np.asarray(problem.sample.X[:100], dtype=float)
    x, shrunk = vector.read(), False
    for kernel, scale in zip(problem.parts.kernels, problem.starts.scales, strict=True):
        step = np.where(vector.variances_of([kernel]), 1.0, 0.0)
        size = float(np.mean(kernel.Kdiag(rows)))
        while size > (most * scale) ** 2:
            vector.write(x - step)
            last, size = size, float(np.mean(kernel.Kdiag(rows)))
            if not size < 0.9 * last:
                vector.write(x)
                break
            x, shrunk = vector.read(), True
    return shrunk
