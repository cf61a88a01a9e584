"""Fits of many rows begin on subsets: hyperparameters are found on few rows, then more, then all.

A fit of 2,000 rows finds the hyperparameters nearly as well as one of 20,000. What is left to be
found on all rows takes few passes, all the more since L-BFGS knows the curvature from the smaller
fits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import NumericalError
from ..likelihoods.density_check import row_numbers
from ..posterior.sums import Gram
from .lbfgs import Memory, new_memory
from .monitor import Monitor, Stage
from .problem import Problem

# A fit of MANY rows or more begins on a subset of FIRST rows, or PER_INDUCING rows for each
# inducing input if that is more. Every next subset has FACTOR times as many rows, as long as it is
# at most the share SHARE of all rows.
MANY, FIRST, PER_INDUCING, FACTOR, SHARE = 5000, 2000, 20, 5, 0.5
# A fit on a subset goes on while 10 iterations gain this many nats a row.
PER_ROW = 1e-3
# A fit that may take fewer iterations than this begins on all rows.
FEWEST_ITERATIONS = 50

FitSubset = Callable[[Problem, Monitor, int, float, Memory], Memory]
"""A fit of a subset: (problem, monitor, max_iters, tolerance, memory) → memory.

It leaves θ and q in the leaves. The memory holds the curvature that L-BFGS knows before and after.
"""


def sizes_of_subsets(N: int, M: int) -> list[int]:
    """Sizes of the subsets on which the fit of N rows with M inducing inputs begins."""
    sizes: list[int] = []
    size = max(FIRST, PER_INDUCING * M)
    while N >= MANY and size <= SHARE * N:
        sizes.append(size)
        size *= FACTOR
    return sizes


def begin_on_subsets(problem: Problem, monitor: Monitor, max_iters: int, fit: FitSubset) -> Memory:
    """Fit random subsets of the rows, each a part of the next; returns the curvature for L-BFGS.

    The leaves then hold the hyperparameters that were found, and q scaled to all rows. If a fit
    fails, or a noise vanishes on few rows, they are as they were.
    """
    N, parts = problem.num_rows, problem.parts
    sizes = sizes_of_subsets(N, max(parts.sizes)) if problem.is_local else []
    if not sizes or max_iters < FEWEST_ITERATIONS:
        return new_memory()
    order = np.random.default_rng(0).permutation(N)
    memory = new_memory()
    before, last = problem.snapshot(), 0
    for size in sizes:
        rows = np.sort(order[:size])
        subset, stage = problem.on(rows), Stage(monitor, N / size)
        monitor.say(f"{size} rows")
        try:
            with row_numbers(rows):
                tolerance = PER_ROW * size * problem.starts.mean_weight
                memory = fit(subset, stage, max_iters, tolerance, _scaled(memory, size, last))
                q = subset.evaluator.gaussians(Gram.mixed((N / size,), (Gram.of(parts.q()),)))
        except NumericalError:
            problem.restore(before)
            return new_memory()
        _count(problem, subset)
        if monitor.stop_reason is None and stage.stop_reason is not None:
            problem.restore(before)
            return new_memory()
        last = size
    parts.write_q(q)
    monitor.say(monitor.method)
    return _scaled(memory, N, last)


def _scaled(memory: Memory, size: int, last: int) -> Memory:
    """The curvature of a fit of a subset of `last` rows, scaled to `size` rows."""
    return new_memory((s, y * (size / last)) for s, y in memory)


def _count(problem: Problem, subset: Problem) -> None:
    """Count the passes over a subset, as parts of passes over all rows, for the whole problem."""
    passes, settings = subset.counts
    problem.evaluator.num_likelihood += passes * subset.num_rows / problem.num_rows
    problem.evaluator.num_theta += settings
