"""Figures that tell whether a fit is to be trusted: calibration, PIT, the trace of the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..data.arguments import as_generator, one_of, positive_int
from ..data.frames import check_order
from ..data.labels import coded
from ..data.missing_metadata import warn_of_unsaid
from ..data.rows import as_metadata, as_targets
from ..data.types import Data, Metadata, Seed
from ..errors import InputError
from ..inference.result import OptimizationResult
from ..linalg import Array
from ..predictive.classes import class_names, class_probabilities
from ..predictive.distribution import Predictive
from ..predictive.fitted import FittedModel
from ..predictive.inputs import need_rows
from ..predictive.observed import pit_ends
from . import grids, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SQUARE = (3.6, 3.4)  # Figures whose two axes have the same units have this size in inches.
CLASS_BINS = 10  # Rows are put into so many bins by the probability of a class.
# A trace may have these horizontal axes; their values are in these columns of `trace_array`.
TRACE_AXES = {"iterations": None, "seconds": 3, "evaluations": 1}


def plot_pit(
    model: FittedModel,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    bins: int = 10,
    rng: Seed = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot a histogram of the probability integral transform u = F(y | x): flat if calibrated.

    A hump says that predictive distributions are too wide, a bowl that they are too narrow, a
    slope that they are biased. The grey band holds 95 % of the bars of a calibrated model.

    Parameters
    ----------
    X, Y, Y_metadata : rows to judge by; None takes the data of the fit (which flatters).
    bins : number of bars.
    rng : seed or Generator: u is drawn between F(y−) and F(y) for counts, and between the ends of
        what is known for censored rows.
    """
    u = _transform(model, X, Y, Y_metadata, rng)
    bins, n = positive_int(bins, "bins"), len(u)
    ax = style.one_axes(ax)
    from scipy import stats

    low, high = stats.binom.ppf([0.025, 0.975], n, 1.0 / bins) * bins / n
    ax.hist(
        u,
        bins=np.linspace(0.0, 1.0, bins + 1).tolist(),
        weights=np.full(n, bins / n),
        color=style.tint(style.COLOURS["blue"], 0.45),
        edgecolor="white",
        label="rows",
    )
    ax.axhspan(low, high, color="0.5", alpha=0.25, lw=0, label="95 % if calibrated")
    ax.axhline(1.0, color=style.POINTS, lw=1.0, ls="--")
    ax.set_xlim(0.0, 1.0)
    style.legend_above(ax)
    return style.tidy(ax, "probability integral transform", "density")


def plot_calibration(
    model: FittedModel,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    rng: Seed = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot calibration: the share of rows inside central predictive intervals by probability.

    Below the diagonal intervals are too narrow, above it too wide. The grey band holds 95 % of the
    curve's points for a calibrated model. Arguments as in `plot_pit`.

    For classes, the predicted probabilities (of the second class if there are two, of all classes
    if there are more) are sorted into ten bins. The share of rows in which the class occurred is
    drawn against the mean probability of the bin. If the model is calibrated, the grey bars hold
    95 % of these shares.
    """
    if model.likelihood.target_support.num_classes is not None:
        return _draw_reliability(*_judged(model, X, Y, Y_metadata), model, ax)
    u = _transform(model, X, Y, Y_metadata, rng)
    n = len(u)
    # The central interval of this probability just holds the row.
    needed = np.sort(np.abs(2.0 * u - 1.0))
    levels = np.linspace(0.0, 1.0, 201)
    covered = np.searchsorted(needed, levels, side="right") / n
    from scipy import stats

    low, high = stats.binom.ppf(np.array([[0.025], [0.975]]), n, levels) / n
    ax = style.one_axes(ax, SQUARE)
    ax.fill_between(levels, low, high, color="0.85", lw=0, label="95 % if calibrated")
    ax.plot([0, 1], [0, 1], color=style.POINTS, lw=1.0, ls="--")
    ax.plot(levels, covered, color=style.COLOURS["blue"], lw=1.6, label="rows")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    style.legend_above(ax)
    return style.tidy(ax, "probability of the interval", "share of rows inside")


def plot_trace(
    source: OptimizationResult | FittedModel,
    against: str = "iterations",
    *,
    gap: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Plot the trace of the bound over an optimisation.

    Parameters
    ----------
    source : the result of `optimize`, or a model that was fitted.
    against : "iterations", "seconds" or "evaluations" (of the likelihood, over all rows).
    gap : draw how far the bound is below its best, on a logarithmic axis.
    """
    result: OptimizationResult | None = getattr(source, "last_result", None)
    if isinstance(source, OptimizationResult):
        result = source
    if result is None or not len(result.trace):
        raise InputError("there is no trace yet: call optimize() first, or give its result.")
    one_of(against, tuple(TRACE_AXES), "against")
    table, column = result.trace_array(), TRACE_AXES[against]
    x = np.arange(len(table)) if column is None else table[:, column]
    bound = table[:, 0]
    ax = style.one_axes(ax)
    blue = style.COLOURS["blue"]
    if gap:
        below = max(bound.max(), result.bound) - bound
        seen = below > 0.0  # The best point has no place on a logarithmic axis.
        ax.semilogy(x[seen], below[seen], color=blue, lw=1.4, marker=".", ms=4)
        return style.tidy(ax, against, "distance to the best bound")
    errors = np.array(result.estimates, dtype=float)
    if len(errors) == len(bound):  # A fit by minibatches has standard errors: ± 2 are drawn.
        half = 2.0 * errors[:, 1]
        ax.fill_between(x, bound - half, bound + half, color=style.tint(blue, 0.25), lw=0)
    ax.plot(x, bound, color=blue, lw=1.4, marker=".", ms=4, label="trace")
    ax.axhline(result.bound, color=style.POINTS, lw=0.8, ls="--", label="at the end")
    style.legend_above(ax)
    return style.tidy(ax, against, "bound")


def _draw_reliability(
    predictive: Predictive, codes: Array, model: FittedModel, ax: Axes | None
) -> Axes:
    """Draw how often a class occurred against its predicted probability, by bins of the latter."""
    from scipy import stats

    p, names = class_probabilities(predictive, model.likelihood), class_names(model.likelihood)
    occurred = codes[:, None] == np.arange(len(names))
    label = "predicted probability of a class"
    if len(names) == 2:  # The first class has what the second leaves.
        p, occurred = p[:, 1:], occurred[:, 1:]
        label = f"predicted P({grids.target_name(model)} = {names[1]})"
    bins = np.minimum((CLASS_BINS * p.ravel()).astype(int), CLASS_BINS - 1)
    n = np.bincount(bins, minlength=CLASS_BINS)
    used = n > 0
    mean, share = (
        np.bincount(bins, 1.0 * values.ravel(), CLASS_BINS)[used] / n[used]
        for values in (p, occurred)
    )
    ends = stats.binom.ppf(np.array([[0.025], [0.975]]), n[used], np.clip(mean, 0.0, 1.0)) / n[used]
    ax = style.one_axes(ax, SQUARE)
    ax.plot([0, 1], [0, 1], color=style.POINTS, lw=1.0, ls="--")
    ax.vlines(mean, *ends, color="0.82", lw=7.0, label="95 % if calibrated", zorder=1)
    ax.plot(mean, share, color=style.COLOURS["blue"], marker="o", ms=4, lw=1.0, label="rows")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_above(ax)
    return style.tidy(ax, label, "share in which it occurred")


def _judged(
    model: FittedModel, X: Data | None, Y: Data | None, Y_metadata: Metadata
) -> tuple[Predictive, Array]:
    """Predictive distributions of the rows that a figure judges by, and targets (n,), or codes.

    Codes are of classes.
    """
    if (X is None) != (Y is None):
        raise InputError("give both X and Y, or neither for the data of the fit.")
    if X is None or Y is None:
        need_rows(model, "X and Y")
        X, Y, Y_metadata = model.X, model.Y, model.Y_metadata
    check_order(X, Y, Y_metadata)
    X = model._predictor().inputs(X, "X")
    y = as_targets(coded(Y, model.likelihood.class_names, "Y"), len(X))
    given, _ = as_metadata(Y_metadata, model.likelihood, len(X))
    model.likelihood.check_rows(y, **given)
    predictive = model.predictive(X, given)
    warn_of_unsaid(predictive.unsaid)
    return predictive, y


def _transform(
    model: FittedModel, X: Data | None, Y: Data | None, Y_metadata: Metadata, rng: Seed
) -> Array:
    """PIT values (n,) for figures, uniform if calibrated; drawn where only a range is known."""
    if not model.likelihood.target_support.ordered:
        raise InputError(
            "classes have no order: a PIT is for numbers. plot_calibration compares predicted "
            "probabilities of classes with what was observed."
        )
    predictive, y = _judged(model, X, Y, Y_metadata)
    lower, upper = pit_ends(predictive, y)
    draw = as_generator(rng).uniform(size=len(y))
    return np.clip(lower + draw * (upper - lower), 0.0, 1.0)
