"""Figures of what drives mean and noise: importance, partial dependence, kernel parts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from ..assessment.components import centred_component, grouped_parts
from ..assessment.effects.dependence import Dependence, individual_curves
from ..assessment.effects.frames import LEVEL, NUM, Scene, one_name
from ..assessment.effects.importance import importance
from ..assessment.effects.population import Population
from ..assessment.effects.quantities import Quantity, latent_quantities
from ..data.arguments import fraction, one_of, positive_int
from ..data.kinds import readable
from ..data.types import Data, Metadata
from ..errors import InputError, MomentWarning
from ..kernels import Kernel, Periodic
from ..linalg import Array
from ..parameters.parts import latent_index
from ..predictive.fitted import FittedModel
from ..sampling.averaged import Averaged
from . import grids, style
from .grids import Limit, Place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCHES = ("", "////", "....", "xxxx")  # Bars have these hatches in turn, beside their colours.
MOST_CURVES = 60  # At most so many rows have a curve of their own in a figure of effects.
KINDS = ("average", "individual")
MANY, FEW = 20, 3  # Of more than MANY periods of a season a figure of it alone shows FEW.
Groups = Mapping[str, Sequence[int | str]] | None


def plot_effects(
    model: FittedModel,
    input: int | str | None = None,
    of: str | Sequence[str] | None = None,
    *,
    kind: str = "average",
    groups: Groups = None,
    values: Data | None = None,
    num: int = NUM,
    rows: int | None = None,
    level: float = LEVEL,
    X: Data | None = None,
    Y_metadata: Metadata = None,
    over: Averaged | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot how much each input drives some quantities, or how one depends on one input.

    Without an input: bars of the total index of Sobol, the share of a quantity's variation over
    the rows that is lost if the input is not known, from 0 to 1. With an input: the quantity
    averaged over the rows as the input takes one value after another, with its credible band. An
    input of few different values, or a group, is drawn as points with intervals.

    Parameters
    ----------
    input : index or name of an input, or name of a group; None draws the importance of all.
    of : names of quantities, of which `m.effects()` has the list. None is the mean, or the median
        where there is no mean, and for bars the width of the central interval beside it. For
        classes it is their probabilities.
    kind : "individual" draws a thin line for each of some rows, too.
    groups, values, num, rows, level, X, Y_metadata, over : as in `m.effects`.
    """
    one_of(kind, KINDS, "kind")
    scene = Scene(model, groups, rows, level, X, Y_metadata, curve=input is not None)
    if input is None:
        found = importance(scene.population, scene.listed(_bars_of(scene) if of is None else of))
        ax = _draw_bars(ax, found.inputs, found.quantities, found.total)
        ax.set_xlim(0.0, 1.0)
        return style.tidy(ax, "share of the variation that the input drives")
    quantity = scene.one(one_name(of))
    place = scene.population.place(model, input)
    at = scene.values(scene.population.columns[place], values, positive_int(num, "num"))
    ax = style.one_axes(ax)
    curve = scene.dependence(scene.population.columns[place], at, quantity, over=over)
    _draw_dependence(ax, scene, place, curve, quantity if kind == "individual" else None)
    style.legend_above(ax)
    label = style.words(quantity.name)
    if quantity.name in ("mean", "median"):
        label = f"{quantity.name} of {grids.target_label(model, scene.population.metadata)}"
    return style.tidy(ax, scene.population.names[place], label)


def plot_relevance(model: FittedModel, *, groups: Groups = None, ax: Axes | None = None) -> Axes:
    """Plot how much each input matters to each latent: one bar per input and latent.

    The bar is the standard deviation of the posterior mean of the latent as the input is redrawn
    from the values that the data have, all other inputs as they are, root mean square over rows.
    An input with short bars for all latents could be left out: `loo` of a model without it tells.
    `plot_effects` has the same for the mean, the noise and other quantities.

    groups : inputs that belong together, {name: indices or names of columns}, such as the columns
        of 0 and 1 that code one category. A group has one bar.
    """
    grids.need_rows(model)
    found = importance(Population.of(model, groups), latent_quantities(model.likelihood))
    ax = _draw_bars(ax, found.inputs, found.quantities, found.sd)
    return style.tidy(ax, "relevance (sd of the latent as the input varies)")


def plot_components(
    model: FittedModel,
    latent: int | str = 0,
    input: int | str | None = None,
    level: float = LEVEL,
    *,
    at: Place = None,
    limits: tuple[Limit, Limit] | None = None,
    num: int | None = None,
    centred: bool = True,
    groups: Groups = None,
    ax: Axes | Sequence[Axes] | np.ndarray | None = None,
) -> np.ndarray:
    """Plot the additive parts of a latent whose kernel is a sum, one axes each, with bands of q.

    Each part is drawn along the input that it reads, or if it reads several along `input`, the
    others fixed. Of a season that repeats more than 20 times in the data three periods are drawn.
    `m.effects(kind="parts")` has how much each contributes.

    The average over the rows of the data is subtracted from each part, because the data determine
    only the level of the sum. With their levels the parts have wider bands.

    Parameters
    ----------
    latent : index or name of the latent.
    input : index or name; None takes the first column of parts that read several.
    level : probability of the bands.
    at, limits, num : where other inputs are held, and the grid, as in `plot_slice`.
    centred : False draws the parts with their levels, as `predict_component` has them.
    groups : {name: parts} that are drawn as one, such as {"trend": ["linear", "rbf"]}.

    Returns an array of axes, one for each part.
    """
    grids.need_rows(model)
    j, population = latent_index(latent, model.latents), Population.of(model, curve=True)
    level, predictor = fraction(level, "level"), population.predictor
    parts = grouped_parts(predictor.priors[j].kernel, groups)
    axes, z = style.many_axes(ax, len(parts), share=False), ndtri(0.5 + 0.5 * level)
    size = len(population.X) if centred else 0
    around = population.X[:size], population.weights[:size]
    for k, (axis, (name, kernels)) in enumerate(zip(axes, parts.items(), strict=True)):
        column = _column_of_part(model, kernels, input)
        values = grids.axis_values(model, column, num, limits)
        if limits is None:
            values = _few_periods(kernels, values)
        grid, x = grids.curve_along(model, column, values)
        rows = grids.rows_along(model, [column], grid[:, None], at)
        mean, variance = centred_component(predictor, rows, j, kernels, *around)
        colour, half = style.SEQUENCE[k % len(style.SEQUENCE)], z * np.sqrt(variance)
        ends = [(mean - half, mean + half)]
        style.draw_bands(axis, x, ends, np.array([100.0 * level]), colour)
        axis.plot(x, mean, color=colour, lw=1.4, label="median", zorder=2)
        grids.dress_axis(axis, model, column, values)
        grids.mark_ends(axis, model, column, values)
        label = style.words(model.latents[j] if len(parts) == 1 else name)
        style.tidy(axis, grids.input_names(model)[column], label)
    axes[-1].figure.align_ylabels(list(axes))
    return axes


def _few_periods(kernels: Sequence[Kernel], values: Array) -> Array:
    """The first few periods of a grid along which a part of a kernel repeats many times."""
    periods = [k.period.values for k in kernels if isinstance(k, Periodic)]
    if len(periods) < len(kernels) or any(period.size > 1 for period in periods):
        return values
    longest = max(float(period[0]) for period in periods)
    if values[-1] - values[0] <= MANY * longest:
        return values
    return np.linspace(values[0], values[0] + FEW * longest, len(values))


def plot_variance(
    model: FittedModel,
    input: int | str | None = None,
    *,
    at: Place = None,
    limits: tuple[Limit, Limit] | None = None,
    num: int | None = None,
    legend: bool = True,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the predictive variance along one input in two parts: noise, and ignorance on top.

    Noise, E_q[var[y | f]], would remain if the latents were known; ignorance, var_q[E[y | f]], is
    what the rows leave open about them (`predictive.variance_parts`).

    Parameters
    ----------
    input, at, limits, num : along which input, where the others are held, and the grid, as in
        `plot_slice`.
    Y_metadata : metadata for the drawn curve (exposure, trials); None takes medians of the data.
    """
    column = grids.most_relevant(model) if input is None else grids.column_index(model, input)
    values = grids.axis_values(model, column, num, limits)
    grid, x = grids.curve_along(model, column, values)
    rows = grids.rows_along(model, [column], grid[:, None], at)
    metadata = grids.metadata_at_rest(model, Y_metadata)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MomentWarning)
        parts = model.predictive(rows, metadata).variance_parts()
    if not np.isfinite(sum(parts.values())).any():
        raise InputError(
            f"the targets of {type(model.likelihood).__name__} have no finite variance here: draw "
            "their interval by plot_slice, or effects on its width by plot_effects(of='width')."
        )
    ax, below = style.one_axes(ax), np.zeros(len(x))
    for (name, part), key in zip(parts.items(), ("orange", "blue"), strict=True):
        above = below + part[:, 0]
        colour = style.COLOURS[key]
        ax.fill_between(x, below, above, color=style.tint(colour, 0.45), lw=0, label=name)
        ax.plot(x, above, color=colour, lw=1.2, ls="-" if name == "ignorance" else "--")
        below = above
    style.draw_rug(ax, grids.positions(model, column, np.asarray(model.X[:, column])))
    grids.dress_axis(ax, model, column, values)
    grids.mark_ends(ax, model, column, values)
    ax.set_ylim(bottom=0.0)
    if legend:
        style.legend_above(ax)
    square = "²" if grids.target_name(model).endswith(")") else ""  # A unit in brackets is squared.
    name = f"variance of {grids.target_name(model)}{square}{grids.words_of(metadata)}"
    return style.tidy(ax, grids.axis_name(model, [column], at), name)


# ---- parts --------------------------------------------------------------------------------------


def _bars_of(scene: Scene) -> list[str]:
    """What bars are of by default: the mean and the width, else all that `m.effects()` has.

    Of two classes it is the probability of the second: that of the first tells the same.
    """
    if scene.model.likelihood.target_support.num_classes == 2:
        return scene.central()
    listed = [quantity.name for quantity in scene.listed(None)]
    return listed if "width" not in listed else [*scene.central(), "width"]


def _draw_bars(
    ax: Axes | None, inputs: Sequence[str], quantities: Sequence[str], table: Array
) -> Axes:
    """Draw horizontal bars (inputs, quantities) of importance, the first input on top."""
    D, b = table.shape
    ax = style.one_axes(ax, (style.SIZE[0], 0.9 + D * (0.14 + 0.14 * b)))
    height = 0.8 / b
    for k, name in enumerate(quantities):
        ax.barh(
            np.arange(D) + (k - 0.5 * (b - 1)) * height,
            table[:, k],
            height=0.9 * height,
            color=style.SEQUENCE[k % len(style.SEQUENCE)],
            hatch=HATCHES[k % len(HATCHES)],
            edgecolor="white",
            lw=0.0,
            label=style.words(name),
        )
    ax.set_yticks(np.arange(D), inputs)
    ax.set_ylim(D - 0.5, -0.5)  # The axis points down: the first input is on top.
    style.legend_above(ax)
    return ax


def _draw_dependence(
    ax: Axes, scene: Scene, place: int, found: Dependence, single: Quantity | None
) -> None:
    """Draw partial dependence: a curve, or points of a category; and single rows."""
    population, level = scene.population, scene.level
    columns, curves = population.columns[place], None
    if single is not None:
        curves = individual_curves(population, columns, found.values, single)
        curves = curves[:, :: -(-curves.shape[1] // MOST_CURVES)]
    if len(columns) > 1 or population.is_category(columns):
        labels = population.labels(columns, found.values).tolist()
        _draw_points(ax, found, labels, curves, level)
        return
    model, (column,) = scene.model, columns
    _draw_curve(ax, grids.positions(model, column, found.values[:, 0]), found, curves, level)
    style.draw_rug(ax, grids.positions(model, column, population.every[:, column]))
    grids.dress_axis(ax, model, column, np.sort(found.values[:, 0]))


def _draw_curve(ax: Axes, x: Array, found: Dependence, curves: Array | None, level: float) -> None:
    """Draw partial dependence as a line with its band, and thin lines of single rows."""
    blue = style.COLOURS["blue"]
    if curves is not None:
        ax.plot(x, curves, color="0.6", lw=0.5, alpha=0.6, zorder=1.05)
        ax.plot([], [], color="0.6", lw=0.5, label="single rows")
    if found.low is not None and found.high is not None:
        ends = [(found.low, found.high)]
        style.draw_bands(ax, x, ends, np.array([100.0 * level]), blue)
    ax.plot(x, found.mean, color=blue, lw=1.6, label="average", zorder=2)


def _draw_points(
    ax: Axes,
    found: Dependence,
    labels: Sequence[object],
    curves: Array | None,
    level: float,
) -> None:
    """Draw partial dependence at each value of a category, with intervals, and single rows."""
    x, blue = np.arange(len(found.mean)), style.COLOURS["blue"]
    if curves is not None:
        spread = np.linspace(-0.12, 0.12, curves.shape[1]) if curves.shape[1] > 1 else np.zeros(1)
        ax.plot(x[:, None] + spread, curves, ".", color="0.65", ms=2.5, zorder=1)
        ax.plot([], [], ".", color="0.65", ms=2.5, label="single rows")
    if found.low is not None and found.high is not None:
        words = f"{style.percent(100.0 * level)} interval"
        ax.vlines(x, found.low, found.high, color=blue, lw=2.0, label=words, zorder=2)
    ax.plot(x, found.mean, "o", color=blue, ms=5, label="average", zorder=3)
    words_of = [readable(one, 4) if isinstance(one, float) else str(one) for one in labels]
    ax.set_xticks(x, words_of)
    ax.set_xlim(-0.5, len(x) - 0.5)


def _column_of_part(model: FittedModel, kernels: Sequence[Kernel], input: int | str | None) -> int:
    """The column along which a kernel's part, or several together, is drawn."""
    reads = sorted({int(d) for kernel in kernels for d in kernel.columns})
    if len(reads) == 1 or input is None:
        return reads[0]
    column = grids.column_index(model, input)
    if column not in reads:
        raise InputError(
            f"input {input!r} is not read by the part {kernels[0].name!r}: it reads "
            f"{', '.join(grids.input_names(model)[d] for d in reads)}."
        )
    return column
