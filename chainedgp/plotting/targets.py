"""The data on the axes of a figure, and how far the axis of the target reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..linalg import Array
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_data", "target_limits"]

REACH = 0.5  # how far a band may widen the axes, in ranges of the data
MARKS = {0: (".", "data"), 1: ("^", "right-censored"), -1: ("v", "left-censored")}
INTERVAL = 2
MOST_DRAWN = 5000  # more points than this become pixels in a PDF


def draw_data(ax: Axes, model: Any, x: Array, colour: str = style.POINTS) -> None:
    """The targets over x (N,); censored ones as open triangles, intervals as bars.

    Classes, which have no place on an axis of probabilities, are rows of ticks at its foot.
    """
    x, y = np.asarray(x), np.asarray(model.Y)[:, 0]
    if model.likelihood.support == "categories":
        for k in range(model.likelihood.num_categories):
            ticks = x[y == k]
            height = np.full(len(ticks), 0.02 + 0.035 * k)
            colour = style.SEQUENCE[k % len(style.SEQUENCE)]
            ax.plot(ticks, height, "|", ms=5, color=colour, transform=ax.get_xaxis_transform())
        return
    seen = model.Y_metadata.get("censored", np.zeros(len(y)))
    size, alpha = (4.0, 0.9) if len(y) <= 150 else (3.2, 0.8) if len(y) <= 500 else (2.5, 0.5)
    for code, (marker, label) in MARKS.items():
        mask = seen == code
        if mask.any():
            look: Any = {"ms": size, "color": colour, "alpha": alpha, "ls": "none", "zorder": 3}
            look["rasterized"] = len(y) > MOST_DRAWN
            face: Any = {} if code == 0 else {"mfc": "white", "mew": 0.8}
            ax.plot(x[mask], y[mask], marker=marker, label=label, **look, **face)
    mask = seen == INTERVAL
    if mask.any():
        upper = model.Y_metadata["y_upper"][mask]
        ax.vlines(
            x[mask], y[mask], upper, color=colour, lw=0.8, label="interval-censored", zorder=3
        )


def target_limits(model: Any, low: Array, high: Array, data: bool = True) -> tuple[float, float]:
    """Limits in y that show the band low to high and the data, but not all of an endless tail."""
    y, support = np.asarray(model.Y), model.likelihood.support
    if support == "unit":
        return -0.02, 1.02
    bottom, top = float(y.min()), float(y.max())
    reach = REACH * ((top - bottom) or 1.0)
    lowest = max(float(np.min(low)), bottom - reach)
    highest = min(float(np.max(high)), top + reach)
    bottom, top = (min(bottom, lowest), max(top, highest)) if data else (lowest, highest)
    margin = 0.04 * ((top - bottom) or 1.0)
    return (bottom - margin if support == "real" else -0.3 * margin), top + margin
