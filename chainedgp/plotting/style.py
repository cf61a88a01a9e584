"""Style of all figures: colours, labels and the small habits that they share.

Colours are those of Okabe and Ito, which readers with any kind of colour vision tell apart; bands
are tints of them, so that they also differ in grey print.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..linalg import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap
    from matplotlib.transforms import Bbox

COLOURS = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
}
SEQUENCE = tuple(COLOURS[key] for key in ("blue", "vermilion", "green", "purple", "orange", "sky"))
"""Several curves of a figure take their colours in this order."""
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
"""Curves have these line styles in turn, so that colour is never the only difference."""
POINTS = "#333333"  # Data have this colour.
SIZE = (5.2, 3.2)  # A column and a half of a journal, in inches, is the size of a figure.
SMALL = 8  # The smallest type has this size in points.
# In a legend a letter has about this width, and a handle with its gaps; in sizes of the type.
LETTER, HANDLE = 0.56, 3.1
WIDER = 1.1  # A legend may be so much wider than its axes.


def tint(colour: str, strength: float) -> tuple[float, float, float]:
    """A colour of a figure mixed with white: strength 1 is the colour itself, 0 is white."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1.0 - strength * (1.0 - part) for part in to_rgb(colour))
    return red, green, blue


def density_map() -> Colormap:
    """Colour map of densities, white to dark blue: it reads the same in grey."""
    from matplotlib.colors import LinearSegmentedColormap

    steps: Any = ["#ffffff", tint(COLOURS["sky"], 0.5), COLOURS["sky"], COLOURS["blue"], "#00233b"]
    return LinearSegmentedColormap.from_list("chainedgp_density", steps)


def one_axes(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is None:
        from matplotlib import pyplot as plt

        return plt.subplots(figsize=size, layout="constrained")[1]
    if not hasattr(ax, "add_collection"):
        raise InputError(f"ax must be matplotlib axes or None; got {type(ax).__name__}.")
    return ax


def many_axes(
    axes: Axes | Sequence[Axes] | np.ndarray | None, count: int, share: bool = True
) -> np.ndarray:
    """Given axes as an array (count,), or those of a new figure, one below the other.

    share : whether they have the same horizontal axis.
    """
    if axes is None:
        from matplotlib import pyplot as plt

        size = (SIZE[0], 0.5 + 1.9 * count)
        _, new = plt.subplots(
            count, figsize=size, layout="constrained", sharex=share, squeeze=False
        )
        return new[:, 0]
    found = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if found.size != count:
        raise InputError(f"axes must be {count} matplotlib axes, one for each; got {found.size}.")
    return np.array([one_axes(ax) for ax in found], dtype=object)


def words(name: str) -> str:
    """A name as it is written on a figure's axis: log_scale2 becomes "log scale²"."""
    return re.sub(r"(?<=[a-z])2$", "²", name).replace("_", " ")


def tidy(ax: Axes, xlabel: str | None = None, ylabel: str | None = None) -> Axes:
    """Give axes the style of all figures: no box, small ticks, labels if the caller set none."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    # A factor of all ticks, "1e6", stands left of the axis: the legend is above, to its right.
    ax.yaxis.get_offset_text().set(horizontalalignment="right", fontsize=SMALL)
    if xlabel is not None and not ax.get_xlabel():
        ax.set_xlabel(xlabel)
    if ylabel is not None and not ax.get_ylabel():
        ax.set_ylabel(ylabel)
    return ax


def _width(ax: Axes) -> float:
    """The width of axes in points."""
    return float(ax.get_window_extent().width) * 72.0 / ax.figure.dpi


def _row_width(labels: Sequence[str], ncols: int) -> float:
    """About the width of a legend in points, whose entries are in rows of so many."""
    widest = (max(map(len, labels[k::ncols])) for k in range(ncols))
    return sum((LETTER * letters + HANDLE) * SMALL for letters in widest)


class _OfLegend:
    """The place of the legend of some axes, in fractions of the figure, when these are drawn."""

    def __init__(self, owner: Axes) -> None:
        self.owner = owner

    def __call__(self, ax: Any, renderer: Any) -> Bbox:
        legend, figure = self.owner.get_legend(), self.owner.figure
        drawn = self.owner if legend is None else legend
        inside = figure.transSubfigure.inverted()
        return drawn.get_window_extent(renderer).transformed(inside)


def legend_above(ax: Axes, ncols: int = 4) -> None:
    """A legend over the axes, in rows, where it can hide nothing; a title goes above it."""
    handles, labels = ax.get_legend_handles_labels()
    if labels:
        ncols = min(ncols, len(labels))
        while ncols > 1 and _row_width(labels, ncols) > WIDER * _width(ax):
            ncols -= 1
        # matplotlib fills column by column: entries are handed over so that they read row by row.
        order = [k for first in range(ncols) for k in range(first, len(labels), ncols)]
        ax.legend(
            [handles[k] for k in order],
            [labels[k] for k in order],
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=ncols,
            frameon=False,
            fontsize=SMALL,
            borderaxespad=0.2,
            borderpad=0.2,
            handlelength=1.6,
            handletextpad=0.5,
            columnspacing=1.0,
        )
        # Titles keep clear of axes inside their own, and of nothing else: these lie on the legend.
        spacer = ax.inset_axes((0.0, 1.0, 1.0, 0.0))
        spacer.set_axis_off()
        spacer.set_in_layout(False)
        spacer.set_navigate(False)
        spacer.set_axes_locator(_OfLegend(ax))


def colour_bar(ax: Axes, image: ScalarMappable, label: str, extend: str = "neither") -> Colorbar:
    """Put a colour bar beside axes, in the style of all figures."""
    bar = ax.figure.colorbar(image, ax=ax, extend=extend, pad=0.02)
    bar.set_label(label)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    return bar


def percent(level: float) -> str:
    """A percentage as figures write it: 50.0 as "50 %", 97.5 as "97.5 %"."""
    return f"{level:g} %"


def as_levels(levels: Sequence[float]) -> Array:
    """Probabilities of a figure's central bands in percent, widest first."""
    values = np.unique(np.atleast_1d(np.asarray(levels, dtype=float)))[::-1]
    if not (values.size and ((values > 0) & (values < 100)).all()):
        raise InputError(f"levels are percentages between 0 and 100; got {levels!r}.")
    return values


def draw_bands(
    ax: Axes,
    x: Array,
    ends: Sequence[tuple[Array, Array]],
    levels: Array,
    colour: str,
    step: bool = False,
) -> None:
    """Draw nested bands, the widest first and palest; stepped where values are whole numbers."""
    for k, ((lower, upper), level) in enumerate(zip(ends, levels, strict=True)):
        strength = 0.18 + 0.3 * k / max(1, len(levels) - 1)
        ax.fill_between(
            x,
            lower,
            upper,
            color=tint(colour, strength),
            lw=0,
            step="mid" if step else None,
            label=f"{percent(level)} interval",
            zorder=1 + 0.1 * k,
        )


def draw_rug(ax: Axes, values: Array) -> None:
    """Draw ticks at the foot of the axes where the data lie in this input."""
    shown = values[:: max(1, len(values) // 500)]
    foot = ax.get_xaxis_transform()
    ax.plot(shown, np.zeros(len(shown)), "|", transform=foot, ms=5, mew=0.4, color=POINTS)
