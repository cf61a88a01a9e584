"""Figures of survival and hazard curves of chosen rows, with credible bands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..data.rows import rows_of
from ..data.types import Data, Metadata
from ..errors import InputError
from ..linalg import Array
from ..predictive.distribution import Predictive
from ..predictive.fitted import FittedModel
from . import grids, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TYPICAL = (0.1, 0.5, 0.9)  # Rows drawn by default are these quantiles in order of their medians.
MOST_BANDS = 4  # More curves than this are drawn without bands.


def plot_survival(
    model: FittedModel,
    X: Data | None = None,
    *,
    times: Data | None = None,
    bands: tuple[float, float] | None = (2.5, 97.5),
    labels: Sequence[str] | None = None,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot survival curves S(t) = P(T > t) of chosen rows, with credible bands from q.

    Parameters
    ----------
    X : rows (n, D); None takes three rows of the data, with a short, middling and long median.
    times : grid (k,); None goes up to the 98 % quantile of the times.
    bands : percentages of the bands, or None. They are left out for more than four rows.
    labels : a name for each row; else its name in the index of a data frame, or its inputs.
    """
    ax = _plot_curves(model, Predictive.sf, X, times, bands, labels, Y_metadata, ax)
    ax.set_ylim(0.0, 1.02)
    return style.tidy(ax, None, "survival probability")


def plot_hazard(
    model: FittedModel,
    X: Data | None = None,
    *,
    times: Data | None = None,
    bands: tuple[float, float] | None = (2.5, 97.5),
    labels: Sequence[str] | None = None,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot hazard curves h(t) = −d log S(t)/dt of chosen rows; arguments as in `plot_survival`."""
    ax = _plot_curves(model, Predictive.hazard, X, times, bands, labels, Y_metadata, ax)
    # A hazard may grow without limit at 0: curves, not bands, decide how far the axis reaches.
    heights = [float(np.quantile(np.asarray(line.get_ydata()), 0.98)) for line in ax.lines]
    ax.set_ylim(0.0, 1.5 * max(heights))
    return style.tidy(ax, None, "hazard")


def _plot_curves(
    model: FittedModel,
    curve: Callable[..., Array | tuple[Array, ...]],
    X: Data | None,
    times: Data | None,
    bands: tuple[float, float] | None,
    labels: Sequence[str] | None,
    Y_metadata: Metadata,
    ax: Axes | None,
) -> Axes:
    check_event_times(model)
    rows = _typical_rows(model) if X is None else model._predictor().inputs(X, "X")
    names = _row_labels(model, rows, X) if labels is None else [str(label) for label in labels]
    if len(names) != len(rows):
        raise InputError(f"labels must be {len(rows)} names, one for each row; got {len(names)}.")
    t = _time_grid(model) if times is None else np.asarray(times, dtype=float).ravel()
    shown = bands if len(rows) <= MOST_BANDS else None
    metadata = grids.metadata_at_rest(model, Y_metadata)
    found = curve(model.predictive(rows, metadata), t, bands=shown)
    estimate, *ends = found if shown is not None else (found,)
    ax = style.one_axes(ax)
    for i, name in enumerate(names):
        pick = i % len(style.SEQUENCE)
        colour = style.SEQUENCE[pick]
        if ends:
            ax.fill_between(t, ends[0][i], ends[1][i], color=colour, alpha=0.18, lw=0)
        ax.plot(t, estimate[i], color=colour, ls=style.LINE_STYLES[pick], lw=1.6, label=name)
    if shown is not None:
        ax.fill([], [], color="0.5", alpha=0.3, lw=0, label=band_label(shown))
    ax.set_xlim(0.0, float(t[-1]))
    style.legend_above(ax, 3)
    return style.tidy(ax, grids.target_name(model))


def check_event_times(model: FittedModel) -> None:
    """Raise InputError where a figure of survival has targets that are no times to an event."""
    if not model.likelihood.event_times:
        raise InputError(
            f"survival curves are for survival likelihoods; this is a "
            f"{type(model.likelihood).__name__}. Use plot_fit or plot_density."
        )


def band_label(bands: tuple[float, float]) -> str:
    """Percentages of a drawn band in words: "95 % band"."""
    central = abs(sum(bands) - 100.0) < 1e-9
    level = f"{bands[1] - bands[0]:g} %" if central else f"{bands[0]:g} to {bands[1]:g} %"
    return f"{level} band"


def _time_grid(model: FittedModel) -> Array:
    """Times (200,) of a figure of survival, up to the 98 % quantile of those seen."""
    grids.need_rows(model, "times")
    end = float(np.quantile(np.asarray(model.Y), 0.98))
    return np.linspace(end / 400.0, end, 200)


def _typical_rows(model: FittedModel) -> Array:
    """Rows to draw survival curves of: their predicted medians are short, middling, long."""
    grids.need_rows(model, "X and times")
    X = np.asarray(model.X)[:2000]
    kept = grids.metadata_at_rest(model)
    metadata = {key: value for key, value in model.Y_metadata.items() if key in kept}
    metadata = rows_of(metadata, slice(2000))
    order = np.argsort(model.predictive(X, metadata).ppf(0.5)[:, 0], kind="stable")
    picks = np.unique(np.round(np.array(TYPICAL) * (len(order) - 1)).astype(int))
    return X[order[picks]]


def _row_labels(model: FittedModel, rows: Array, X: Data | None) -> list[str]:
    """Names of drawn rows: from a frame's index, else inputs (x0 = 0.3), or numbers if many."""
    index, names = getattr(X, "index", None), grids.input_names(model)
    if index is not None and not callable(index) and list(index) != list(range(len(rows))):
        word = index.name or "row"
        return [key if isinstance(key, str) else f"{word} {key}" for key in index]
    if len(names) > 3:
        return [f"row {i}" for i in range(len(rows))]
    return [
        ", ".join(
            f"{name} = {grids.column_of(model, d).shown(row[d])}" for d, name in enumerate(names)
        )
        for row in rows
    ]
