"""A start of a fit in which latents follow functions that the likelihood finds in the data.

Some bounds, such as that of angles, have local optima among functions. There hyperparameters alone
are no start: q itself must begin on the right side. A likelihood that knows such functions gives
the values F_ij of its latents at some rows. A Gaussian likelihood in the place of its own makes q,

    F_ij ~ N(f_j(x_i), 1/I_j),    I_j = mean over rows of (∂ log p(y_i | F_i)/∂f_j)².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.rows import Rows
from ..errors import InputError
from ..linalg import Array
from ..posterior.evaluator import Evaluator
from ..posterior.shards import Shard
from .problem import Problem
from .starts import input_spread

# The likelihood finds functions at no more rows than this, evenly taken.
ROWS = 600


@dataclass(frozen=True)
class Functions:
    """Functions to start from: values (b, n) of the latents at rows, and their precisions (b,)."""

    rows: Rows
    values: Array
    precisions: Array


def found_functions(problem: Problem) -> Functions | None:
    """Functions that the likelihood finds in the rows of a problem to start from; None without."""
    likelihood = problem.parts.likelihood
    rows = problem.rows_at_hand.thinned(ROWS)
    X, unordered = rows.inputs(), problem.parts.unordered_columns
    numbers = np.setdiff1d(np.arange(X.shape[1]), unordered)
    scaled = ((X - X.mean(axis=0)) / input_spread(X, unordered))[:, numbers]
    y, kw = rows.targets(), rows.keywords(**likelihood.parameter_values())
    values = likelihood.initial_functions(scaled, y, **kw)
    if values is None:
        return None
    values, shape = np.asarray(values, dtype=float), (len(likelihood.latents), len(y))
    if values.shape != shape or not np.isfinite(values).all():
        raise InputError(
            f"{type(likelihood).__name__}.initial_functions must return finite values of shape "
            f"{shape}, one for each latent and row, or None; it returned shape {values.shape}."
        )
    with np.errstate(all="ignore"):
        slopes = np.stack(np.broadcast_arrays(*likelihood.dlog_density(y, *values, **kw)))
        information = np.mean(np.square(np.where(np.isfinite(slopes), slopes, 0.0)), axis=1)
    return Functions(rows, values, np.maximum(information, 1e-12))


def follow(problem: Problem, found: Functions) -> None:
    """Set q of a problem, at its hyperparameters, so that its latents follow these functions."""
    family, parts = problem.parts.family, problem.parts
    shard = Shard(found.rows, nodes=problem.num_nodes, num_threads=1)
    shard.load_sites(family.measured(found.values, found.precisions))
    evaluator = Evaluator([shard], family)
    evaluator.set_hyperparameters(parts.theta())
    parts.write_q(evaluator.gaussians(evaluator.gram()))
