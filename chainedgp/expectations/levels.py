"""Numbers of quadrature nodes: how many a row needs, by a score, or by trying one after another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LEVELS: tuple[int, ...] = (5, 8, 12, 20, 32, 48, 64)
"""The numbers of nodes per dimension among which `Likelihood.required_nodes` chooses."""
SETTLED, ROUGHLY, LOW = 1e-5, 1e-4, 0.1
"""Thresholds of `settled`, explained there."""


def choose(score: np.ndarray, limits: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Choose numbers of quadrature nodes (n,): for every score the first level whose limit holds.

    limits: for each of `LEVELS` the largest score at which it is accurate; measured, see
    docs/quadrature_error.md. Returns nodes (n,), and which rows lie beyond the last limit (n,).
    """
    index = np.searchsorted(limits, score)
    return np.take(LEVELS, np.minimum(index, len(LEVELS) - 1)), index == len(limits)


def tried(sums: Callable[[np.ndarray, int], np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Choose numbers of quadrature nodes by trying: the first level whose sums agree with the next.

    They must agree to 7e-7; else it is the last level. sums(rows, nodes): (len(rows), k), for rows
    an array of indices. It has more than one column, because two levels may agree by chance in one.
    The fewest of `LEVELS` are accurate only for integrands known to be smooth, and are left out.
    """
    levels = LEVELS[1:]
    nodes, todo = np.full(rows.size, levels[-1]), np.arange(rows.size)
    last, before = np.full((rows.size, 1), np.nan), levels[0]
    for level in levels:
        now = sums(rows[todo], level)
        with np.errstate(invalid="ignore"):
            agree = np.all(np.abs(now - last) < 7e-7, axis=1)
        nodes[todo[agree]] = before
        todo, last, before = todo[~agree], now[~agree], level
        if not todo.size:
            break
    return nodes


def settled(
    sums: Callable[[np.ndarray, int], np.ndarray], num_rows: int, levels: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Choose numbers of quadrature nodes (n,) by how far sums at successive levels differ.

    sums : as for `tried`, `by_values.trial_sums` of a density. Returns the level (n,) of each row,
    and whether it is accurate (n,).

    If sums over a and over b > a nodes differ by d, d is the error of a, and that of b is about
    d^√(b/a): sums of analytic functions over h nodes converge as e^{−c√h} or faster. So a serves
    where d < 7e-7, and b where d < SETTLED. From the last two b is taken where d < ROUGHLY. Of
    rows whose first sum is far below 0, which no good fit has, d is relative to it.
    """
    nodes, served = np.full(num_rows, levels[-1]), np.zeros(num_rows, dtype=bool)
    todo = np.arange(num_rows)
    last, before = sums(todo, levels[0]), levels[0]
    for level in levels[1:]:
        now = sums(todo, level)
        with np.errstate(invalid="ignore"):
            gap = np.abs(now - last).max(axis=1) / np.maximum(1.0, LOW * np.abs(now[:, 0]))
        nodes[todo] = np.where(gap < 7e-7, before, level)
        served[todo] = gap < (ROUGHLY if level == levels[-1] else SETTLED)
        left = ~served[todo]
        todo, last, before = todo[left], now[left], level
        if not todo.size:
            break
    return nodes, served


def all_fail(sums: Callable[[np.ndarray, int], np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Rows whose quadrature is inaccurate even at the last level: it changes at twice the nodes.

    The change counts if it exceeds 1e-6 and rounding. sums, rows: as for `tried`. Returns
    (len(rows),) booleans.
    """
    last, now = (sums(rows, factor * LEVELS[-1])[:, 0] for factor in (1, 2))
    with np.errstate(invalid="ignore"):
        return ~(np.abs(now - last) <= 1e-6 + 1e-12 * np.abs(now))
