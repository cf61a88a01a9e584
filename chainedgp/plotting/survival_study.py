"""Figures of a survival study: observed against predicted survival, survival along an input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..assessment.survival import SurvivalCheck, survival_calibration, survival_check
from ..data.arguments import positive_float
from ..data.types import Data, Metadata, Seed
from ..errors import InputError
from ..linalg import Array
from ..predictive.fitted import FittedModel
from . import grids, style
from .grids import Limit, Place
from .survival import band_label, check_event_times, plot_survival

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VALUES = (10.0, 50.0, 90.0)  # Survival curves along an input are drawn at these percentiles of it.
AT_RISK, LINE = -44, 10  # Numbers at risk begin 44 points below the axis, in lines 10 points apart.
MOST_VALUES = 4  # An input of at most so many values has a curve at each; so has every level.


def plot_survival_check(
    model: FittedModel,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    by: int | str | Data | None = None,
    times: Data | None = None,
    bands: tuple[float, float] | None = (2.5, 97.5),
    level: float = 0.95,
    at_risk: bool | None = None,
    rng: Seed = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot observed survival of groups (Kaplan–Meier steps) over the survival that is predicted.

    Thin lines are pointwise confidence intervals of the steps. The predicted mean curve of the same
    rows has a credible band from q. `chainedgp.survival.survival_check` returns the numbers, and
    explains the arguments.

    Parameters
    ----------
    X, Y, Y_metadata : the rows; None takes those of the model.
    by : an input (its values, or thirds), "risk", an array of groups (n,), or None for one group.
    times : grid (k,). bands : percentages of the bands of the predicted curves, or None.
    level : of the confidence intervals of the observed curves; 0 leaves them out.
    at_risk : whether to write the numbers of rows at risk below the figure; None does so if `ax` is
        not given.
    """
    below = ax is None if at_risk is None else at_risk
    check = survival_check(model, X, Y, Y_metadata, by=by, times=times, bands=bands, rng=rng)
    ax = style.one_axes(ax)
    t = np.concatenate([[0.0], check.times])
    for g, name in enumerate(check.groups):
        pick = g % len(style.SEQUENCE)
        colour, observed = style.SEQUENCE[pick], check.observed[g]
        if check.lower is not None and check.upper is not None:
            low, high = (np.concatenate([[1.0], end[g]]) for end in (check.lower, check.upper))
            ax.fill_between(t, low, high, color=colour, alpha=0.18, lw=0)
        curve = np.concatenate([[1.0], check.predicted[g]])
        ax.plot(t, curve, color=colour, ls=style.LINE_STYLES[pick], lw=1.6, label=name)
        # After the last row has left, no row is at risk, and the curve says no more.
        end = min(float(t[-1]), observed.last)
        steps = np.concatenate([[0.0], observed.times[observed.times <= end], [end]])
        ax.step(steps, observed(steps), where="post", color=colour, lw=1.0)
        if level > 0.0:
            for bound in observed.interval(steps, level):
                ax.step(steps, bound, where="post", color=colour, lw=0.5, alpha=0.6)
    ax.plot([], [], color="0.3", lw=1.6, label="predicted")
    ax.step(
        [], [], color="0.3", lw=1.0, label=f"observed, {100 * level:g} %" if level else "observed"
    )
    if bands is not None:
        ax.fill([], [], color="0.5", alpha=0.3, lw=0, label=band_label(bands))
    ax.set_xlim(0.0, float(t[-1]))
    ax.set_ylim(0.0, 1.02)
    style.legend_above(ax, 3)
    style.tidy(ax, grids.target_name(model), "survival probability")
    if below:
        _write_at_risk(ax, check)
    return ax


def _write_at_risk(ax: Axes, check: SurvivalCheck) -> None:
    """Write numbers of rows at risk below a survival figure, a line for each group."""
    low, high = ax.get_xlim()
    ticks = [t for t in ax.get_xticks() if low <= t <= high]
    ax.set_xticks(ticks)
    look: Any = {"textcoords": "offset points", "fontsize": style.SMALL, "annotation_clip": False}
    look |= {"xycoords": ("data", "axes fraction")}
    ax.annotate("at risk", (low, 0.0), (-14, AT_RISK), ha="right", **look)
    for g, curve in enumerate(check.observed):
        # Lines are in the order and the colours of the legend, whose names may be long.
        y, colour = AT_RISK - LINE * g, "black"
        if len(check.groups) > 1:
            colour = style.SEQUENCE[g % len(style.SEQUENCE)]
        for t, number in zip(ticks, curve.number_at_risk(ticks), strict=True):
            ax.annotate(f"{number:.0f}", (t, 0.0), (0, y), ha="center", color=colour, **look)


def plot_survival_calibration(
    model: FittedModel,
    t: float,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    groups: int = 10,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Plot predicted against observed risk of an event up to a time t, in groups of like risk.

    Bars are confidence intervals of the observed risk, 1 − Kaplan–Meier; on the dashed line both
    are the same. `chainedgp.survival.survival_calibration` has the numbers.

    Parameters
    ----------
    t : the time. X, Y, Y_metadata : the rows; None takes those of the model.
    groups : number of groups. level : of the confidence intervals.
    """
    table = survival_calibration(model, t, X, Y, Y_metadata, groups=groups, level=level)
    ax = style.one_axes(ax, (3.6, 3.4))
    x, y = table["predicted"], table["observed"]
    bars = np.stack([y - table["lower"], table["upper"] - y])
    colour = style.COLOURS["blue"]
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.6", lw=1.0, ls="--")
    ax.errorbar(x, y, bars, fmt="o", color=colour, ms=4, lw=1.0, capsize=2)
    top = float(np.nanmax(np.concatenate([x, table["upper"]])))
    end = min(1.0, 1.08 * top)
    ax.set_xlim(0.0, end)
    ax.set_ylim(0.0, end)
    unit = _unit(model)
    when = f"{t:g} {unit}" if unit else f"{grids.target_name(model)} = {t:g}"
    label = f"predicted risk up to {when}"
    return style.tidy(ax, label, f"observed risk, {100 * level:g} % interval")


def plot_survival_along(
    model: FittedModel,
    input: int | str,
    values: Sequence[object] | Array | None = None,
    *,
    at: Place = None,
    times: Data | None = None,
    bands: tuple[float, float] | None = (2.5, 97.5),
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot survival curves at several values of one input, the others at typical values.

    Parameters
    ----------
    input : index or name of the input.
    values : of the input: numbers, levels or dates. None takes all levels of a category, all
        values where there are four at most, and else the 10, 50 and 90 % quantiles of the data.
    at : where the other inputs are held; None is their medians, a dict gives some of them.
    times, bands, Y_metadata : as in `plot_survival`.
    """
    check_event_times(model)
    column = grids.column_index(model, input)
    if values is None:
        x, few = _seen_values(model, column)
        x = x if few else np.percentile(model.X[:, column], VALUES)
    else:
        x = _as_values(model, column, values)
    rows = grids.rows_along(model, [column], x[:, None], at)
    name, read = grids.input_names(model)[column], grids.column_of(model, column)
    labels = [f"{name} = {read.shown(value)}" for value in x]
    ax = plot_survival(
        model, rows, times=times, bands=bands, labels=labels, Y_metadata=Y_metadata, ax=ax
    )
    others = grids.axis_name(model, [column], at).partition("\n")[2]
    if others and ax.get_xlabel() == grids.target_name(model):
        ax.set_xlabel(f"{ax.get_xlabel()}\n{others}")
    return ax


def plot_restricted_mean(
    model: FittedModel,
    input: int | str,
    horizon: float,
    *,
    at: Place = None,
    limits: tuple[Limit, Limit] | None = None,
    num: int = 50,
    bands: tuple[float, float] | None = (2.5, 97.5),
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the restricted mean survival time E[min(T, horizon)] along one input, with its band.

    Parameters
    ----------
    input : index or name of the input. horizon : the time h up to which the mean is taken.
    at : where the other inputs are held; None is their medians, a dict gives some of them.
    limits, num : range and number of the values of the input. A category, and an input of four
        values at most, is drawn at its values alone.
    bands : percentages of the band over q, or None.
    """
    check_event_times(model)
    horizon = positive_float(horizon, "horizon")
    column = grids.column_index(model, input)
    x, points = _seen_values(model, column)
    if limits is not None and not grids.column_of(model, column).level_names:
        points = False
    if not points:
        x = grids.axis_values(model, column, num, limits)
    rows = grids.rows_along(model, [column], x[:, None], at)
    metadata = grids.metadata_at_rest(model, Y_metadata)
    found = model.predictive(rows, metadata).restricted_mean(horizon, bands=bands)
    mean, *ends = np.stack(found if isinstance(found, tuple) else (found,))[:, :, 0]
    ax, colour = style.one_axes(ax), style.COLOURS["blue"]
    if points:
        bars = np.abs(np.stack(ends) - mean) if ends else None
        ax.errorbar(x, mean, bars, fmt="o", color=colour, ms=5, lw=1.2, capsize=3)
        read = grids.column_of(model, column)
        ax.set_xticks(x, [read.shown(value) for value in x])
    else:
        drawn = grids.positions(model, column, x)
        if ends:
            ax.fill_between(drawn, ends[0], ends[1], color=colour, alpha=0.2, lw=0)
        ax.plot(drawn, mean, color=colour, lw=1.6)
        grids.dress_axis(ax, model, column, x)
    label = f"mean {grids.target_name(model)}\nup to {horizon:g} {_unit(model)}".rstrip()
    if bands is not None:
        label += f"\n({band_label(bands)})"
    return style.tidy(ax, grids.axis_name(model, [column], at), label)


def _unit(model: FittedModel) -> str:
    """The unit of the target, if its name ends with one in brackets, as in "time (months)"."""
    named = re.fullmatch(r".*\((.+)\)", grids.target_name(model))
    return named[1] if named else ""


def _seen_values(model: FittedModel, column: int) -> tuple[Array, bool]:
    """Values (k,) that a drawn input has in the data, and whether they are few or levels."""
    grids.need_rows(model)
    x = np.unique(np.asarray(model.X[:, column]))
    return x, len(x) <= MOST_VALUES or bool(grids.column_of(model, column).level_names)


def _as_values(model: FittedModel, column: int, values: Sequence[object] | Array) -> Array:
    """Values (k,) of an input at which to draw survival, as the numbers that the model sees."""
    given: Any = values
    listed = [given] if isinstance(given, str) or not np.ndim(given) else list(given)
    read = grids.column_of(model, column)
    if listed and not any(np.ndim(value) for value in listed):
        x = np.array([read.number(value) for value in listed])
        if np.isfinite(x).all():
            return x
    raise InputError(
        f"values must be (k,) numbers, levels or dates, as column {read.name!r} has them; got "
        f"{values!r}."
    )
