"""Importance: how much each input drives each quantity, by redrawing it from its observed values.

Let h(x) be a prediction. Column d, or a group of columns, of row i is replaced by each of its
observed values v with its frequency p_v, all other columns as they are: h_vi, with weights w_i of
the rows. From this one table come

    total_d = Σ_i w_i var_v[h_vi]        what is lost if the input is not known,
    alone_d = var_v[Σ_i w_i h_vi]        the part of it that does not depend on the other inputs,
    whole_d = var_vi[h_vi].

√total_d is in the unit of h: for h = Σ_d b_d x_d it is |b_d| times the standard deviation of x_d,
whatever values x_d has: two, many, or some far out. For independent inputs 2 total_d is the mean
squared change of h when the column is permuted. total/whole and alone/whole are the total and the
first-order index of Sobol, of an input that is independent of the others. Both are 0 for a quantity
that is flat, whatever input its last digits follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...linalg import Array
from .flat import least_sds
from .population import Population
from .quantities import Quantity, predicted

MOST_VALUES = 24  # An input is redrawn from at most this many values.


@dataclass(frozen=True)
class Importance:
    """Importance of inputs, or groups of them, for quantities: arrays (inputs, quantities).

    Parameters
    ----------
    inputs, quantities : their names.
    sd : √total, in the unit of the quantity.
    total, alone : total and first-order indices of Sobol, from 0 to 1.
    """

    inputs: tuple[str, ...]
    quantities: tuple[str, ...]
    sd: Array
    total: Array
    alone: Array


def importance(population: Population, wanted: Sequence[Quantity]) -> Importance:
    """The importance of each input of the population for each of the wanted quantities."""
    parts = np.stack(
        [_parts(population, columns, wanted) for columns in population.columns]
    )  # (inputs, 3, quantities)
    total, alone, whole = parts.transpose(1, 0, 2)
    with np.errstate(invalid="ignore"):  # A mean may be infinite.
        flat = ~(np.sqrt(whole.max(axis=0)) > least_sds(wanted, population))
    scale = np.where(flat, np.inf, np.where(whole > 0.0, whole, 1.0))
    names = tuple(population.names), tuple(quantity.name for quantity in wanted)
    return Importance(*names, np.sqrt(total), total / scale, alone / scale)


def _parts(population: Population, columns: list[int], wanted: Sequence[Quantity]) -> Array:
    """The importance measures total, alone and whole of some columns for each quantity, (3, k)."""
    values, p = redraws(population.every[:, columns], population.shares)
    rows, w = [population.with_values(columns, value) for value in values], population.weights
    h = predicted(wanted, population.predictor, np.concatenate(rows), population.metadata)
    h = h.reshape(len(wanted), len(values), len(w))  # (k, values, rows)
    with np.errstate(invalid="ignore"):  # A mean may be infinite: there is no importance for it.
        return _variances(h, p, w)


def _variances(h: Array, p: Array, w: Array) -> Array:
    """Importance measures (3, k) from predictions h (k, values, rows) and weights p, w of these."""
    by_row = np.einsum("v,kvi->ki", p, h)
    by_value = np.einsum("i,kvi->kv", w, h)
    mean = by_row @ w
    total = np.einsum("v,i,kvi->k", p, w, (h - by_row[:, None]) ** 2)
    alone = (by_value - mean[:, None]) ** 2 @ p
    whole = np.einsum("v,i,kvi->k", p, w, (h - mean[:, None, None]) ** 2)
    # If a quantity does not depend on the input, its values differ only by rounding.
    rounding = 1e-20 * np.einsum("v,i,kvi->k", p, w, h**2)
    small = total <= rounding
    return np.stack([np.where(small, 0.0, total), np.where(small, 0.0, alone), whole])


def redraws(values: Array, shares: Array) -> tuple[Array, Array]:
    """Values (k, c) from which an input is redrawn for its importance, with probabilities (k,).

    If the columns (N, c) have few different values, all of them are taken, with their shares. A
    single column with more is cut into cells, each with at most 2/k of the rows and 2/k of the
    range, and the value in the middle of each is taken, so that both the bulk of a skewed column
    and values far out are there with what they weigh. Of several columns with many combinations
    some rows are taken at random, with a fixed seed.
    """
    seen, which = np.unique(values, axis=0, return_inverse=True)
    p: Array = np.bincount(which.ravel(), shares, len(seen)).astype(float)
    if len(seen) <= MOST_VALUES:
        return seen, p
    if values.shape[1] > 1:
        drawn = np.random.default_rng(0).choice(len(values), 2 * MOST_VALUES, p=shares)
        return values[drawn], np.full(len(drawn), 1.0 / len(drawn))
    x = seen[:, 0]
    place = 0.5 * (np.cumsum(p) - 0.5 * p) + 0.5 * (x - x[0]) / (x[-1] - x[0])  # from 0 to 1
    cell = np.minimum((place * MOST_VALUES).astype(int), MOST_VALUES - 1)
    cells, cell = np.unique(cell, return_inverse=True)
    mass: Array = np.bincount(cell, weights=p).astype(float)
    middle = np.bincount(cell, weights=p * x) / np.where(mass > 0.0, mass, 1.0)
    gap = np.where(cell == np.arange(len(cells))[:, None], np.abs(x - middle[:, None]), np.inf)
    return seen[np.argmin(gap, axis=1)], mass / mass.sum()
