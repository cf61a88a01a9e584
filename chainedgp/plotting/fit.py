"""Figures of a fit along one input: the target with quantile bands, and the latent functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from ..data.types import Metadata
from ..errors import InputError
from ..linalg import Array
from ..parameters.parts import latent_index
from ..predictive.classes import class_names, class_probabilities
from ..predictive.distribution import Predictive
from ..predictive.fitted import FittedModel
from . import grids, style
from .grids import Limit, Place
from .targets import draw_data, shown_targets, target_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = (50.0, 95.0)  # By default bands of these probabilities, in percent, are drawn.


def plot_fit(
    model: FittedModel,
    levels: Sequence[float] = LEVELS,
    *,
    limits: tuple[Limit, Limit] | None = None,
    num: int | None = None,
    data: bool = True,
    legend: bool = True,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the fit of a model of one input: predictive median, central quantile bands, the data.

    Targets of 0 and 1 and of classes are drawn by their probabilities instead. Right-censored
    times are open triangles that point up, left-censored ones point down, intervals are bars.
    Counts are drawn for one exposure, or number of trials, which the axis names; counts of rows
    with another exposure are scaled to it.

    Parameters
    ----------
    levels : probabilities of the bands, in percent.
    limits : ends of the grid in x; None takes the range of the data.
    num : number of points of the grid; None takes 200, or more where the kernels have shorter
        lengthscales or periods, so that each of many seasons is resolved.
    data, legend : whether to draw them.
    Y_metadata : metadata for the drawn curve (exposure, trials); None takes medians of the data.
    ax : axes to draw on; None makes a figure.
    """
    if model.X.shape[1] != 1:
        raise InputError(
            f"plot_fit is for models of one input; this one has {model.X.shape[1]}. Use plot_slice "
            "along one of them, or plot_map over two."
        )
    ax = plot_slice(
        model, 0, levels, limits=limits, num=num, legend=False, Y_metadata=Y_metadata, ax=ax
    )
    if data:
        shown = shown_targets(model, grids.metadata_at_rest(model, Y_metadata))
        draw_data(ax, model, grids.positions(model, 0, np.asarray(model.X[:, 0])), shown)
    if legend:
        style.legend_above(ax)
    return ax


def plot_slice(
    model: FittedModel,
    input: int | str | None = None,
    levels: Sequence[float] = LEVELS,
    *,
    at: Place = None,
    latent: int | str | None = None,
    limits: tuple[Limit, Limit] | None = None,
    num: int | None = None,
    data: bool = False,
    legend: bool = True,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the predictive distribution, or a latent, along one of several inputs.

    Parameters
    ----------
    input : index or name of the input; None takes the most relevant one.
    levels : probabilities of the bands, in percent.
    at : where the other inputs are held: a row (D,) or {index or name: value}; else the medians.
    latent : index or name of a latent function to draw in place of the target.
    data : whether to draw the rows: those that have the levels at which categories are held,
        whatever their other inputs are. With more than one input, ticks at the foot of the axes
        always show the inputs of all rows.
    """
    column = grids.most_relevant(model) if input is None else grids.column_index(model, input)
    grid = grids.axis_values(model, column, num, limits)
    values, x = grids.curve_along(model, column, grid)
    rows = grids.rows_along(model, [column], values[:, None], at)
    seen = grids.positions(model, column, np.asarray(model.X[:, column]))
    ax, widths = style.one_axes(ax), style.as_levels(levels)
    if latent is not None:
        j = latent_index(latent, model.latents)
        _draw_latent(ax, x, model.predict_latents(rows), j, widths)
        ylabel = style.words(model.latents[j])
    else:
        metadata = grids.metadata_at_rest(model, Y_metadata)
        shown = shown_targets(model, metadata)
        found = model.predictive(rows, metadata), shown, grids.target_label(model, metadata)
        ylabel = _draw_target(ax, model, x, *found, widths, data or model.X.shape[1] == 1)
        if data and model.X.shape[1] > 1:
            drawn = grids.rows_of_levels(model, [column], at)
            draw_data(ax, model, seen, shown, rows=drawn)
    if model.X.shape[1] > 1:
        style.draw_rug(ax, seen)
    grids.dress_axis(ax, model, column, grid)
    grids.mark_ends(ax, model, column, grid)
    style.tidy(ax, grids.axis_name(model, [column], at), ylabel)
    if legend:
        style.legend_above(ax)
    return ax


def plot_latents(
    model: FittedModel,
    input: int | str | None = None,
    levels: Sequence[float] = LEVELS,
    *,
    at: Place = None,
    natural: bool = False,
    limits: tuple[Limit, Limit] | None = None,
    num: int | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> np.ndarray:
    """Plot each latent function along one input with the bands of q, one axes per latent.

    Parameters
    ----------
    input, at : as in `plot_slice`; a model of one input needs neither.
    natural : draw the likelihood's own parameters (scale, rate, …) instead of the latents.
    ax : as many axes as there are curves to draw; None makes a figure.

    Returns an array (b,) of axes; with `natural`, one for each parameter.
    """
    column = grids.most_relevant(model) if input is None else grids.column_index(model, input)
    grid = grids.axis_values(model, column, num, limits)
    values, x = grids.curve_along(model, column, grid)
    rows, widths = grids.rows_along(model, [column], values[:, None], at), style.as_levels(levels)
    if natural:
        table = model.predictive(rows, grids.metadata_at_rest(model)).parameters(_ends(widths))
        axes = style.many_axes(ax, len(table))
        for axis, (key, found) in zip(axes, table.items(), strict=True):
            _draw_quantiles(axis, x, found, widths)
            style.tidy(axis, None, style.words(key))
    else:
        axes = style.many_axes(ax, len(model.latents))
        moments = model.predict_latents(rows)
        for j, axis in enumerate(axes):
            _draw_latent(axis, x, moments, j, widths)
            style.tidy(axis, None, style.words(model.latents[j]))
    for axis in axes:
        grids.dress_axis(axis, model, column, grid)
        grids.mark_ends(axis, model, column, grid)
    style.tidy(axes[-1], grids.axis_name(model, [column], at))
    axes[-1].figure.align_ylabels(list(axes))
    if legend:
        style.legend_above(axes[0])
    return axes


# ---- parts --------------------------------------------------------------------------------------


def _ends(levels: Array) -> tuple[float, ...]:
    """Percentages for a figure of a fit: lower, then upper ends of bands, then the median."""
    return (*(50.0 - levels / 2.0), *(50.0 + levels / 2.0), 50.0)


def _draw_quantiles(
    ax: Axes, x: Array, table: Array, levels: Array, colour: str = "", step: bool = False
) -> None:
    """Draw bands and median of a fit from the columns (n, 2k + 1) that `_ends` asks for."""
    colour, k = colour or style.COLOURS["blue"], len(levels)
    # Over a category curves are pieces with gaps, and matplotlib loses the ends of stepped pieces.
    step = step and not grids.has_gaps(x)
    ends = [(table[:, i], table[:, k + i]) for i in range(k)]
    style.draw_bands(ax, x, ends, levels, colour, step)
    shape = "steps-mid" if step else "default"
    ax.plot(x, table[:, -1], color=colour, lw=1.6, drawstyle=shape, label="median", zorder=2)


def _draw_latent(ax: Axes, x: Array, moments: tuple[Array, Array], j: int, levels: Array) -> None:
    """Draw a latent function: q(f_j) is Gaussian, its quantiles are mean + z sd."""
    mean, sd = moments[0][:, j], np.sqrt(moments[1][:, j])
    z = ndtri(np.array(_ends(levels)) / 100.0)
    colour = style.SEQUENCE[j % len(style.SEQUENCE)]
    _draw_quantiles(ax, x, mean[:, None] + sd[:, None] * z, levels, colour)


def _draw_target(
    ax: Axes,
    model: FittedModel,
    x: Array,
    predictive: Predictive,
    y: Array,
    name: str,
    levels: Array,
    data: bool,
) -> str:
    """Draw quantiles of the target, or probabilities of classes; returns the axis label."""
    support = model.likelihood.target_support
    if not support.ordered:
        curves = class_probabilities(predictive, model.likelihood).T
        for k, label in enumerate(class_names(model.likelihood)):
            pick = k % len(style.SEQUENCE)
            look: Any = {"color": style.SEQUENCE[pick], "ls": style.LINE_STYLES[pick]}
            ax.plot(x, curves[k], lw=1.6, label=f"{name} = {label}", **look)
        ax.set_ylim(-0.02, 1.02)
        return "probability"
    if support.size == 2:
        parameters = predictive.parameters(_ends(levels))
        if "probability" in parameters:
            _draw_quantiles(ax, x, parameters["probability"], levels)
        else:
            ax.plot(x, predictive.mean[:, 0], color=style.COLOURS["blue"], lw=1.6, label="mean")
        ax.set_ylim(-0.04, 1.04)
        return f"P({name} = {class_names(model.likelihood)[1]})"
    table = predictive.ppf(np.array(_ends(levels)) / 100.0)  # (n, 2k + 1)
    _draw_quantiles(ax, x, table, levels, step=not support.continuous)
    ax.set_ylim(*target_limits(model, y, table[:, 0], table[:, len(levels)], data))
    return name
