"""Scales of a kernel: over what distance in one input its functions change."""

from __future__ import annotations

import numpy as np

from ..parameters.roles import Role
from .base import Kernel


def shortest_scale(kernel: Kernel, column: int) -> float:
    """The shortest lengthscale or period that any part of a kernel has along a column of X.

    A periodic part with a lengthscale ℓ below 1 has finer features than its period: the period
    times ℓ counts. Infinite where nothing tells, as in a linear kernel.
    """
    found = np.inf
    for part in kernel.simple_parts:
        if column not in part.columns:
            continue
        dims = part.columns if part.active_dims is None else part.active_dims
        place = [int(d) for d in dims].index(column)
        lengths, periods = (_values(part, role, place) for role in (Role.LENGTHSCALE, Role.PERIOD))
        if periods:
            found = min(found, min(periods) * min([1.0, *lengths]))
        else:
            found = min([found, *lengths])
    return float(found)


def _values(part: Kernel, role: Role, place: int) -> list[float]:
    """Values of a kernel part's parameters of this role in one dimension."""
    values = [np.ravel(leaf.values) for leaf in part.leaves_with(role)]
    return [float(v[place] if v.size > max(place, 1) else v.min()) for v in values]
