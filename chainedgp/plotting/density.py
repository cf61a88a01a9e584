"""Figure of the whole predictive density over one input and the target, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..data.arguments import positive_int
from ..data.types import Data, Metadata
from ..errors import InputError
from ..linalg import Array
from ..predictive.distribution import Predictive
from ..predictive.fitted import FittedModel
from . import grids, style
from .grids import Limit, Place
from .targets import draw_data, shown_targets, target_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BRIGHTEST = 0.995  # Densities above this quantile of all in the figure share the darkest colour.
MOST_CELLS = 400  # The picture has at most so many cells along an axis.


def plot_density(
    model: FittedModel,
    input: int | str | None = None,
    *,
    at: Place = None,
    limits: tuple[Limit, Limit] | None = None,
    y: Data | None = None,
    num: int = 120,
    data: bool | None = None,
    colorbar: bool = True,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the predictive density p(y | x), or probability of a count, over x and y.

    Parameters
    ----------
    input, at : along which input, and where the others are held, as in `plot_slice`.
    limits : ends of the grid in x; None takes the range of the data.
    y : grid of targets (k,); None takes the range of data and 95 % band.
    num : points of each grid.
    data : draw the rows; None draws them for a model of one input.
    Y_metadata : metadata for the drawn curve (exposure, trials); None takes medians of the data.
    """
    support = model.likelihood.target_support
    if support.size is not None:
        raise InputError("plot_density is for numbers; plot_fit draws probabilities of classes.")
    column = grids.most_relevant(model) if input is None else grids.column_index(model, input)
    x = grids.axis_values(model, column, num, limits)
    rows = grids.rows_along(model, [column], x[:, None], at)
    metadata = grids.metadata_at_rest(model, Y_metadata)
    predictive, targets = model.predictive(rows, metadata), shown_targets(model, metadata)
    values = _target_grid(model, targets, predictive, num) if y is None else _as_grid(y)
    p = predictive.pdf(values)  # (n, k)
    ax = style.one_axes(ax)
    top = float(np.quantile(p[np.isfinite(p)], BRIGHTEST)) or 1.0
    counts = not support.continuous
    levels = bool(grids.column_of(model, column).level_names)
    image = ax.pcolormesh(
        grids.positions(model, column, x),
        values,
        p.T,
        vmin=0.0,
        vmax=top,
        cmap=style.density_map(),
        shading="nearest" if counts or levels else "gouraud",
        rasterized=True,
    )
    if data or (data is None and model.X.shape[1] == 1):
        seen = grids.positions(model, column, np.asarray(model.X[:, column]))
        draw_data(ax, model, seen, targets, style.COLOURS["vermilion"])
    grids.dress_axis(ax, model, column, x)
    half = 0.5 if counts else 0.0 if support.whole_line else values[0] - support.ends[0]
    ax.set_ylim(values[0] - half, values[-1] + half)
    if colorbar:
        label = "probability" if counts else "predictive density"
        style.colour_bar(ax, image, label, "max" if p.max() > top else "neither")
    return style.tidy(ax, grids.axis_name(model, [column], at), grids.target_label(model, metadata))


def _as_grid(y: Data) -> Array:
    grid = np.asarray(y, dtype=float).ravel()
    if grid.size < 2 or not (np.diff(grid) > 0).all():
        raise InputError("y must be a rising grid of at least two targets.")
    return grid


def _target_grid(model: FittedModel, y: Array, predictive: Predictive, num: int) -> Array:
    """Targets (k,) to draw a density at: inside the support, whole numbers for counts."""
    num, support = positive_int(num, "num"), model.likelihood.target_support
    ends = predictive.ppf(np.array([0.025, 0.975]))
    low, high = target_limits(model, y, ends[:, 0], ends[:, 1])
    if not support.continuous:
        last = np.floor(high)
        return np.unique(np.round(np.linspace(0.0, last, min(int(last) + 1, MOST_CELLS))))
    first, last = support.ends
    if np.isfinite(first):  # The cells begin at this end, their middles half a cell above it.
        return first + (np.arange(num) + 0.5) / num * (min(high, last) - first)
    return np.linspace(low, high, num)
