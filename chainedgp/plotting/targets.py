"""The data on the axes of a figure, and how far the axis of the target reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.types import Data
from ..linalg import Array, Booleans
from ..predictive.fitted import FittedModel
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REACH = 0.5  # A band may widen the axis of the target by so many ranges of the data.
# Where no data are drawn, a long band is shown up to its quantile TYPICAL, but not above ABOVE
# times the quantile MOST of the data. A band of at most SPIKE times TYPICAL is shown whole.
TYPICAL, ABOVE, MOST, SPIKE = 0.9, 3.0, 0.95, 1.5
PROPORTIONAL = ("exposure", "trials")  # These metadata multiply the mean of a count.
MARKS = {0: (".", "data"), 1: ("^", "right-censored"), -1: ("v", "left-censored")}
INTERVAL = 2  # Interval-censored rows have this code, and are drawn as bars.
MOST_DRAWN = 5000  # More points than this become pixels in a PDF, whose size stays small.


def shown_targets(model: FittedModel, metadata: Mapping[str, Data]) -> Array:
    """Targets (N,) as a figure shows them: counts scaled to exposure or trials of drawn rows."""
    y, support = np.array(model.Y)[:, 0], model.likelihood.target_support
    for key in () if support.continuous or support.bounded else PROPORTIONAL:
        own = model.Y_metadata.get(key)
        if own is not None and np.ndim(metadata[key]) == 0:
            shown = float(np.asarray(metadata[key]))
            y *= np.divide(shown, own, out=np.ones(len(y)), where=own > 0.0)
    return y


def draw_data(
    ax: Axes,
    model: FittedModel,
    x: Array,
    y: Array,
    colour: str = style.POINTS,
    rows: Booleans | None = None,
) -> None:
    """Draw the targets y of the data over x, (N,); censored ones as triangles, intervals as bars.

    Classes, which have no place on an axis of probabilities, are rows of ticks at its foot.

    rows : which are drawn, (N,) of booleans; None draws all.
    """
    drawn = np.ones(len(y), dtype=bool) if rows is None else rows
    x, own = np.asarray(x), "" if drawn.all() else " of these levels"
    if not model.likelihood.target_support.ordered:
        for k in range(model.likelihood.num_categories):
            ticks = x[drawn & (y == k)]
            height = np.full(len(ticks), 0.02 + 0.035 * k)
            colour = style.SEQUENCE[k % len(style.SEQUENCE)]
            ax.plot(ticks, height, "|", ms=5, color=colour, transform=ax.get_xaxis_transform())
        return
    seen = model.Y_metadata.get("censored", np.zeros(len(y)))
    size, alpha = (4.0, 0.9) if len(y) <= 150 else (3.2, 0.8) if len(y) <= 500 else (2.5, 0.5)
    for code, (marker, label) in MARKS.items():
        mask = drawn & (seen == code)
        if mask.any():
            look: Any = {"ms": size, "color": colour, "alpha": alpha, "ls": "none", "zorder": 3}
            look["rasterized"] = len(y) > MOST_DRAWN
            face: Any = {} if code == 0 else {"mfc": "white", "mew": 0.8}
            ax.plot(x[mask], y[mask], marker=marker, label=label + own, **look, **face)
    mask = drawn & (seen == INTERVAL)
    if mask.any():
        upper = model.Y_metadata["y_upper"][mask]
        label = "interval-censored" + own
        ax.vlines(x[mask], y[mask], upper, color=colour, lw=0.8, label=label, zorder=3)


def target_limits(
    model: FittedModel, y: Array, low: Array, high: Array, data: bool = True
) -> tuple[float, float]:
    """Limits of the target's axis: they show band and data, but not all of an endless tail.

    low and high are the ends of the band, y the data.
    """
    support = model.likelihood.target_support
    first, last = support.ends
    if support.bounded:
        return first - 0.02 * (last - first), last + 0.02 * (last - first)
    tail = not (support.whole_line or data)  # Where no data are drawn a long tail may be cut.
    bottom, top = float(y.min()), float(np.quantile(y, MOST) if tail else y.max())
    reach = REACH * ((top - bottom) or 1.0)
    lowest = max(float(np.min(low)), bottom - reach)
    highest = min(float(np.max(high)), top + reach)
    if tail:  # Where many rows are censored the band lies above all times seen.
        typical, end = float(np.quantile(high, TYPICAL)), float(np.max(high))
        highest = max(highest, min(end if end <= SPIKE * typical else typical, ABOVE * top))
    bottom, top = (min(bottom, lowest), max(top, highest)) if data else (lowest, highest)
    margin = 0.04 * ((top - bottom) or 1.0)
    return (bottom - margin if support.whole_line else first - 0.3 * margin), top + margin
