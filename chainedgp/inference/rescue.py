"""Rescue of a fit that has gone astray, below constant latents: how to see it and begin again.

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

# A fit has gone astray if its bound is more than this many nats a row below constant latents.
SLACK = 0.02
# A bound this many nats a row above constant latents means that a noise shrank by a factor of e³⁰.
MOST = 30.0
# A site of this precision, in units of 1/scale² of its latent, determines the latent to 1e-9 of its
# scale: no data are so precise, and no search makes progress among such sites.
SHARPEST = 1e18
# A new model begins with prior standard deviations of at most this many scales of its latents.
WIDEST = 10.0
# Nearly constant latents have prior standard deviations of this share of their scales.
SMALL = 0.1

NO_LIMIT = (
    "the bound grows without limit, because some noise vanishes: targets are repeated exactly, or "
    "a prior on the noise is needed"
)


def grows_without_limit(problem: Problem, bound: float) -> bool:
    """Whether the bound grows without limit because a noise vanishes at some rows.

    That is so if the bound is far above that of constant latents, which has no other cause, or
    above it at all while some rows determine a latent more precisely than numbers can.
    """
    if not problem.parts.likelihood.target_support.continuous:
        return False
    starts, rows = problem.starts, problem.evaluator.num_rows
    flat = starts.score * rows
    most = flat + MOST * starts.mean_weight * rows
    return bool(bound > most) or bool(bound > flat and rows_without_noise(problem).size)


def rows_without_noise(problem: Problem) -> np.ndarray:
    """Indices of rows without noise: their sites tell a latent to within 1e-9 of its scale.

    Without sites, or with sites on a cluster, there are none.
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
    """Whether a fit went astray: its bound is below the log-likelihood of constant latents."""
    if not problem.is_local:
        return False
    starts, rows = problem.starts, problem.evaluator.num_rows
    worst = (starts.score - SLACK * starts.mean_weight) * rows
    return bool(np.isfinite(worst)) and problem.bound() < worst


def begin_again_if_astray(
    problem: Problem, monitor: Monitor, outcome: Outcome, fit: Callable[[], Outcome]
) -> Outcome:
    """Fit again from nearly constant latents if a fit that nobody stopped went astray.

    If that goes astray too, it begins from even more constant ones; the best fit is kept.
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


def set_nearly_constant(problem: Problem, small: float) -> None:
    """Start a rescue from nearly constant latents: small kernel variances, constant means, q prior.

    What is fixed stays.

    small : prior standard deviations, as a share of the scale on which a latent varies; 0 makes
        them so small that the bound is close to that of constant latents, and a fit from there ends
        above it.
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
    """Shrink the free variances of kernels till prior sds are at most `most` latent scales.

    Each term of a sum is shrunk by itself: beside a far too wide one another may be as it should.
    Returns whether any was shrunk. It ends where it no longer helps, because the variance of a
    fixed part of a kernel stays.
    """
    vector, rows = problem.free_vector(), np.asarray(problem.sample.X[:100], dtype=float)
    x, shrunk = vector.read(), False
    for kernel, scale in zip(problem.parts.kernels, problem.starts.scales, strict=True):
        for part in kernel.additive_parts:
            step = np.where(vector.variances_of([part]), 1.0, 0.0)
            size = float(np.mean(part.Kdiag(rows)))
            while size > (most * scale) ** 2:
                vector.write(x - step)
                last, size = size, float(np.mean(part.Kdiag(rows)))
                if not size < 0.9 * last:
                    vector.write(x)
                    break
                x, shrunk = vector.read(), True
    return shrunk
