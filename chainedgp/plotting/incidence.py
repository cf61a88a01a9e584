"""Figure of cumulative incidences of competing events, stacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..linalg import Array
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_incidences(
    times: Array,
    incidences: Mapping[str, Array],
    observed: Mapping[str, Array] | None,
    time_name: str,
    ax: Axes | None,
) -> Axes:
    """Draw the cumulative incidences (k,) of several events, one upon the other.

    What is left is white.

    observed : probabilities of the same events without a model, as dashed lines.
    """
    ax = style.one_axes(ax)
    below, seen = np.zeros(len(times)), np.zeros(len(times))
    for i, (name, F) in enumerate(incidences.items()):
        colour = style.SEQUENCE[i % len(style.SEQUENCE)]
        ax.fill_between(times, below, below + F, color=style.tint(colour, 0.55), lw=0, label=name)
        below = below + F
        ax.plot(times, below, color=colour, lw=1.2)
        if observed is not None:
            seen = seen + observed[name]
            ax.plot(times, seen, color="0.2", ls="--", lw=1.0)
    if observed is not None:
        ax.plot([], [], color="0.2", ls="--", lw=1.0, label="observed")
    ax.set_xlim(0.0, float(times[-1]))
    ax.set_ylim(0.0, 1.0)
    style.legend_above(ax, 4)
    return style.tidy(ax, time_name, "probability of the event by then")
