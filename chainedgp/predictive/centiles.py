"""Centiles, as growth charts have them: arguments of users, and the table of results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.arguments import as_band, as_percent
from ..data.frames import frame_like
from ..data.types import Data, Frame
from ..errors import InputError
from ..likelihoods.support import Support
from ..linalg import Array

Ends = tuple[float, float]
"""Two percentages, the ends of a band."""
Bands = Ends | None
"""The same; None for no band."""
Centiles = Array | tuple[Array, Array, Array]
"""Centiles (n, k), with bands also their lower and upper ends."""


def as_centiles(centiles: Sequence[float], bands: Bands, support: Support) -> tuple[Array, Array]:
    """Centiles (k,) a user asks for, and the levels of each: its median, the ends of a band."""
    levels = as_percent(centiles, "centiles")
    ends = np.empty(0) if bands is None else as_band(bands)
    if not support.ordered:
        raise InputError("classes have no order: centiles are of numbers.")
    return levels, np.array([0.5, *ends])


def centile_frame(Xnew: Data, percent: Sequence[float], found: Centiles) -> Frame:
    """A data frame like Xnew of centiles: columns "3%", and "3% lower", "3% upper" of the bands."""
    names = [f"{level:g}%" for level in np.atleast_1d(np.asarray(percent, dtype=float))]
    if not isinstance(found, tuple):
        return frame_like(Xnew, dict(zip(names, found.T, strict=True)))
    sides = ("", " lower", " upper")
    columns = {
        name + side: part[:, k]
        for k, name in enumerate(names)
        for side, part in zip(sides, found, strict=True)
    }
    return frame_like(Xnew, columns)
