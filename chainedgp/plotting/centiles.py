"""Figures of centile curves, as growth charts have them, and worm plots, which check them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from ..assessment.residuals import z_scores
from ..data.arguments import positive_int
from ..data.types import Data, Metadata, Seed
from ..errors import InputError
from ..linalg import Array
from ..predictive.fitted import FittedModel
from . import grids, style
from .grids import Limit, Place
from .targets import draw_data, shown_targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CENTILES = (3.0, 10.0, 25.0, 50.0, 75.0, 90.0, 97.0)
APART = 0.045  # Labels of curves are at least so far apart, in heights of the axes.
GREY = "#A3A3A3"  # Data behind centile curves have this colour.
PANELS = 4  # A worm plot over an input has so many panels.


def plot_centiles(
    model: FittedModel,
    centiles: Sequence[float] = CENTILES,
    input: int | str | None = None,
    *,
    bands: tuple[float, float] | None = (5.0, 95.0),
    at: Place = None,
    limits: tuple[Limit, Limit] | None = None,
    num: int = 100,
    data: bool = True,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot centile curves of the target along one input, each named at its right end.

    Parameters
    ----------
    centiles : in percent.
    input, at, limits, num : as in `plot_slice`; a model of one input needs neither of the first.
    bands : percentages of the band of each curve over q, or None.
    data : whether to draw the rows behind the curves: those that have the levels for which the
        curves are drawn, whatever their other inputs are.
    """
    column = grids.most_relevant(model) if input is None else grids.column_index(model, input)
    values = grids.axis_values(model, column, num, limits)
    grid, x = grids.curve_along(model, column, values)
    rows = grids.rows_along(model, [column], grid[:, None], at)
    metadata = grids.metadata_at_rest(model, Y_metadata)
    found = model.predictive(rows, metadata).centiles(centiles, bands)
    middle, lower, upper = found if isinstance(found, tuple) else (found, found, found)
    ax = style.one_axes(ax)
    shown = shown_targets(model, metadata)
    drawn = grids.rows_of_levels(model, [column], at) if data else np.zeros(len(shown), dtype=bool)
    if data:
        seen = grids.positions(model, column, np.asarray(model.X[:, column]))
        draw_data(ax, model, seen, shown, GREY, drawn)
    # Pieces over a category have gaps: matplotlib loses the ends of stepped ones.
    stepped = not model.likelihood.target_support.continuous and not grids.has_gaps(x)
    blue, shape = style.COLOURS["blue"], "steps-mid" if stepped else "default"
    levels = np.atleast_1d(np.asarray(centiles, dtype=float))
    for k, level in enumerate(levels):
        if bands is not None:
            look: Any = {"color": blue, "alpha": 0.18, "lw": 0, "zorder": 3.2}
            look["step"] = "mid" if stepped else None
            label = f"{style.percent(bands[1] - bands[0])} band" if k == 0 else None
            ax.fill_between(x, lower[:, k], upper[:, k], label=label, **look)
        width = 2.0 if level == 50.0 else 1.1
        ax.plot(x, middle[:, k], color=blue, lw=width, drawstyle=shape, zorder=3.4)
    grids.dress_axis(ax, model, column, values)
    ax.set_ylim(*_limits(model, np.concatenate([shown[drawn], lower.ravel(), upper.ravel()])))
    _name_curves(ax, ax.get_xlim()[1], middle[-1], levels)
    style.legend_above(ax)
    label = grids.axis_name(model, [column], at)
    return style.tidy(ax, label, grids.target_label(model, metadata))


def _limits(model: FittedModel, values: Array) -> tuple[float, float]:
    """Limits of a centile figure that show all values with a margin, inside the support."""
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * ((high - low) or 1.0)
    first, last = model.likelihood.target_support.ends
    return max(low - margin, first - 0.3 * margin), min(high + margin, last + 0.3 * margin)


def _name_curves(ax: Axes, x: float, heights: Array, levels: Array) -> None:
    """Write the centile at the right end of each curve, moved apart where curves are close."""
    low, high = ax.get_ylim()
    order = np.argsort(heights, kind="stable")
    places = (heights[order] - low) / (high - low)
    apart = APART * np.arange(len(places))
    # The least moves that keep the order: running maxima from below and minima from above, halved.
    up = np.maximum.accumulate(places - apart) + apart
    down = np.minimum.accumulate((places - apart)[::-1])[::-1] + apart
    for k, place in zip(order, 0.5 * (up + down), strict=True):
        ax.annotate(
            f"{levels[k]:g}",
            (x, low + place * (high - low)),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
            color=style.COLOURS["blue"],
            annotation_clip=False,
        )


def plot_worm(
    model: FittedModel,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    input: int | str | None = None,
    panels: int = PANELS,
    rng: Seed = 0,
    ax: Axes | Sequence[Axes] | None = None,
) -> Axes | np.ndarray:
    """Worm plot (van Buuren and Fredriks 2001): how far z-scores are from normal quantiles.

    Each point is a row: its height is the z-score of the row, less the standard normal quantile
    of its rank, which is the position along the axis. If the model is right, the worm is flat and
    inside the 95 % band. If the worm lies above zero, the location is too low; if it rises, the
    scale is too small; if it looks like a bowl, the skewness is too low; if it looks like an S
    whose left end points up, the tails are too heavy. The line is the cubic curve through the
    points.

    Parameters
    ----------
    X, Y, Y_metadata : rows to judge by; None takes the data of the fit (which flatters).
    input : index or name of an input; rows are then divided into panels by its value.
    panels : into how many, with about the same number of rows each.
    rng : seed or Generator, for z-scores of counts and censored rows.

    Returns axes, or an array of them where an input is given.
    """
    z = z_scores(model, X, Y, Y_metadata, rng)
    if input is None:
        if ax is not None and not hasattr(ax, "plot"):
            raise InputError("without an input a worm plot has one axes; give ax as one.")
        return _draw_worm(style.one_axes(ax), z)  # type: ignore[arg-type]
    column = grids.column_index(model, input)
    inputs = model.X if X is None else model._predictor().inputs(X, "X")
    values = np.asarray(inputs)[:, column]
    read = grids.column_of(model, column)
    if read.level_names:
        codes, place = np.unique(values, return_inverse=True)
        count, words = len(codes), [read.shown(code) for code in codes]
    else:
        edges = np.quantile(values, np.linspace(0.0, 1.0, positive_int(panels, "panels") + 1))
        edges = np.unique(edges)
        count = max(len(edges) - 1, 1)
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, count - 1)
        ends = [read.shown(edge) for edge in edges]
        words = [f"{ends[k]} to {ends[min(k + 1, len(ends) - 1)]}" for k in range(count)]
    axes, name = _panel_axes(ax, count), grids.input_names(model)[column]
    for k, axis in enumerate(axes):
        _draw_worm(axis, z[place == k], legend=False)
        axis.set_title(f"{name}: {words[k]}", fontsize=style.SMALL, loc="left")
    reach = max(abs(limit) for axis in axes for limit in axis.get_ylim())
    for axis in axes:
        axis.set_ylim(-reach, reach)
    return axes


def _panel_axes(ax: Axes | Sequence[Axes] | None, count: int) -> np.ndarray:
    """Axes of a worm plot's panels: given ones as an array (count,), or new, two in a row."""
    if ax is not None:
        return style.many_axes(ax, count)
    from matplotlib import pyplot as plt

    columns = min(count, 2)
    lines = -(-count // columns)
    size = (style.SIZE[0] * 0.7 * columns, 2.3 * lines + 0.3)
    figure, new = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for spare in new.ravel()[count:]:
        figure.delaxes(spare)
    return new.ravel()[:count]


def _draw_worm(ax: Axes, z: Array, legend: bool = True) -> Axes:
    """Draw one worm plot of z-scores (n,)."""
    n = len(z)
    rank = (np.arange(1, n + 1) - 0.5) / n
    normal, ordered = ndtri(rank), np.sort(z)
    reach = max(3.2, float(np.abs(normal).max()) + 0.2) if n else 3.2
    x = np.linspace(-reach, reach, 200)
    ax.axhline(0.0, color=style.POINTS, lw=0.8, ls="--")
    half = _half_band(x, max(n, 1))
    ax.fill_between(x, -half, half, color="0.88", lw=0, label="95 % if right", zorder=0)
    ax.plot(normal, ordered - normal, ".", ms=3.5, color=style.POINTS, label="rows")
    if n >= 20:
        cubic = np.polynomial.Polynomial.fit(normal, ordered - normal, 3)
        ax.plot(normal, cubic(normal), color=style.COLOURS["vermilion"], lw=1.4, label="cubic")
    seen = float(np.abs(ordered - normal).max(initial=0.0))
    top = 1.15 * max(seen, float(_half_band(2.0, max(n, 1))))
    ax.set(xlim=(-reach, reach), ylim=(-top, top))
    if legend:
        style.legend_above(ax)
    return style.tidy(ax, "normal quantile", "z-score − quantile")


def _half_band(x: Array | float, n: int) -> Array:
    """Half the band of a worm plot, 1.96 standard errors of an ordered standard normal number.

    √(p(1−p)/n)/φ(x) is a standard error, p = Φ(x).
    """
    from scipy import stats

    p = stats.norm.cdf(x)
    return 1.96 * np.sqrt(p * (1.0 - p) / n) / stats.norm.pdf(x)
