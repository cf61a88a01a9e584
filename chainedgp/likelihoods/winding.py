"""Start of a likelihood of angles: a direction as a function without jumps, however far it turns.

An angle tells a direction up to whole turns. Whoever follows it from a constant start takes the
nearest turn for the right one, row by row, and ends with a function that turns back where it should
go on. Here whole turns are found first: slopes are taken out, the rest is smoothed as a vector,
(cos, sin), and its direction is followed from row to row along a tree of near rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from ..expectations.circular import wrapped
from ..linalg import Array

# Widths of the smoother, in standard deviations of an input and times √D for D inputs together.
WIDTHS = tuple(np.geomspace(0.02, 1.3, 8))
# Slopes are tried in steps of this many turns over the range of an input, up to this many turns and
# to a quarter of a turn from one row to the next: beyond half a turn, slopes cannot be told apart.
STEP, MOST_TURNS, TURNS_A_ROW = 0.4, 100.0, 0.25
# Slopes are tried in pairs of inputs, and smoothers in each alone, for at most so many inputs.
FEW_INPUTS = 6
# The direction of a row is followed from its nearest neighbours, of which there are so many.
NEIGHBOURS = 10
# A resultant length r of the angles of n rows is more than chance where n r² is above this.
CHANCE = 6.0


def winding_direction(X: Array, y: Array) -> tuple[Array, float] | None:
    """A direction (n,) without jumps for rows of angles, and how closely angles y follow it.

    The closeness is the mean of cos(y_i − direction of the rows near x_i without y_i itself).
    Of several slopes, inputs and widths of a smoother those are used that make it largest. None
    where it is no larger than chance may make it, or for fewer than 4 rows.

    X : (n, D) inputs, in standard deviations.
    """
    n, D = X.shape
    if n < 4 or D == 0:
        return None
    alone = [[d] for d in range(D)] if 1 < D <= FEW_INPUTS else []
    best, found = np.sqrt(CHANCE / n), None
    for slope in _slopes(X, y):
        z = np.exp(1j * (y - X @ slope))
        for inputs in [list(range(D)), *alone]:
            d2 = _squared_distances(X[:, inputs] / np.sqrt(len(inputs)))
            for width in WIDTHS:
                around = np.exp(-0.5 * d2 / width**2)
                smooth = around @ z
                others = smooth - z  # A row has a distance of 0 and a weight of 1 in its own mean.
                size = np.abs(others)
                closeness = np.mean((z * np.conj(others)).real / np.where(size > 1e-9, size, 1.0))
                if closeness > best:
                    best, found = closeness, (slope, d2, smooth)
    if found is None:
        return None
    slope, d2, smooth = found
    return X @ slope + _without_jumps(np.angle(smooth), d2, int(np.argmax(np.abs(smooth)))), best


def _slopes(X: Array, y: Array) -> Iterator[Array]:
    """Slopes w (D,) a winding direction may have: 0, and that of the largest |Σ e^{i(y − w·x)}|.

    Of few inputs all pairs are searched, with slopes in both at the same time.
    """
    D, z = X.shape[1], np.exp(1j * np.asarray(y, dtype=float))
    yield np.zeros(D)
    ranges = np.ptp(X, axis=0)
    grids = []
    for column, width in zip(X.T, ranges, strict=True):
        most = min(MOST_TURNS, TURNS_A_ROW * len(np.unique(column)))
        turns = np.arange(-np.floor(most / STEP), np.floor(most / STEP) + 1.0) * STEP
        grids.append(2.0 * np.pi * turns / width if width > 0.0 else np.zeros(1))
    waves = [np.exp(-1j * np.outer(w, x)) for w, x in zip(grids, X.T, strict=True)]
    best, slope = -np.inf, np.zeros(D)
    pairs = list(combinations(range(D), 2)) if D <= FEW_INPUTS else []
    for j, k in pairs:
        size = np.abs((waves[j] * z) @ waves[k].T)
        if size.max() > best:
            best, (a, b) = size.max(), np.unravel_index(np.argmax(size), size.shape)
            slope = np.zeros(D)
            first, second = grids[j], grids[k]
            slope[[j, k]] = first[a], second[b]
    for j in range(D) if not pairs else ():
        size = np.abs(waves[j] @ z)
        if size.max() > best:
            best, slope, own = size.max(), np.zeros(D), grids[j]
            slope[j] = own[np.argmax(size)]
    if slope.any():
        yield slope


def _squared_distances(X: Array) -> Array:
    """Squared distances (n, n) between the inputs X (n, D) of angles."""
    d2 = np.zeros((len(X), len(X)))
    for column in X.T:
        d2 += np.subtract.outer(column, column) ** 2
    return d2


def _without_jumps(angles: Array, d2: Array, first: int) -> Array:
    """Angles (n,) plus whole turns, so that a direction has no jumps from row to row.

    The tree joins all rows by the steps that turn least, between near rows where these reach.
    """
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree  # slow to import

    n = len(angles)
    near = np.argpartition(d2, min(NEIGHBOURS, n - 1), axis=1)[:, : NEIGHBOURS + 1]
    linked = np.zeros((n, n), dtype=bool)
    np.put_along_axis(linked, near, True, axis=1)
    turned = np.abs(wrapped(np.subtract.outer(angles, angles)))
    # A weight of 0 would be no link, and all links between far rows come after those of near ones.
    weight = np.where(linked | linked.T, 1e-6 + turned, 10.0 + d2 / max(d2.max(), 1e-300))
    tree = minimum_spanning_tree(np.triu(weight, 1))
    order, before = breadth_first_order(tree, first, directed=False)
    result = angles.copy()
    for row in order[1:]:
        result[row] = result[before[row]] + wrapped(angles[row] - angles[before[row]])
    return result
