"""The choice of quadrature levels from the width of q."""

from __future__ import annotations

import numpy as np

from ..quadrature import LEVELS

__all__ = ["choose"]

Array = np.ndarray


def choose(score: Array, limits: tuple[float, ...]) -> tuple[Array, Array]:
    """The first level whose limit is at least score (n,): nodes (n,), and rows beyond the last.

    limits: the largest score that each of `quadrature.LEVELS` serves; measured, see
    docs/quadrature_error.md.
    """
    index = np.searchsorted(limits, score)
    unmet = index == len(LEVELS)
    return np.take(LEVELS, np.minimum(index, len(LEVELS) - 1)), unmet
