"""Maps over two inputs: mean, quantiles, spread or latents in colour, with the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.types import Data, Metadata
from ..errors import InputError, MomentWarning
from ..linalg import Array
from ..parameters.parts import latent_index
from ..predictive.classes import class_names, class_probabilities
from ..predictive.fitted import FittedModel
from . import grids, style
from .grids import Limit, Place
from .targets import shown_targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

MARKERS = "os^Dv<"  # Rows of the classes have these marks in turn.
SIZE = (4.6, 3.6)  # A map with its colour bar has this size in inches.


def plot_map(
    model: FittedModel,
    what: str | float | None = None,
    inputs: tuple[int | str, int | str] = (0, 1),
    *,
    at: Place = None,
    limits: Sequence[tuple[Limit, Limit] | None] = (None, None),
    num: int = 60,
    data: bool = True,
    colorbar: bool = True,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot a map of a quantity over two inputs, with contours and data.

    Parameters
    ----------
    what : "mean", "median" or "sd" of the target; a number, a percentile of it; a latent's name
        (its mean under q) or that of a parameter of the likelihood (its median), such as "scale".
        For classes the name of one, whose probability is drawn. None: the mean where it exists,
        else the median; of two classes the probability of the second; of more all probabilities,
        as a mixture of the colours of the classes in these shares.
    inputs : the two inputs, by index or name: horizontal, vertical.
    at : where the others are held: a row (D,) or {index or name: value}; else the medians.
    limits : ends of the two grids, a pair each; None takes the range of the data.
    num : points of each grid.
    data : draw the rows. Where the map shows the target's own scale they are filled by their
        target, in the same colours: a point that stands out is badly fitted.
    """
    columns = [grids.column_index(model, each) for each in inputs]
    if len(columns) != 2 or columns[0] == columns[1]:
        raise InputError(f"inputs must be two different inputs; got {inputs!r}.")
    ends = (None, None) if limits is None else limits
    own = [grids.axis_values(model, c, num, end) for c, end in zip(columns, ends, strict=True)]
    mesh = np.stack([part.ravel() for part in np.meshgrid(*own)], axis=1)
    x, y = (grids.positions(model, c, grid) for c, grid in zip(columns, own, strict=True))
    levels = any(grids.column_of(model, c).level_names for c in columns)
    rows = grids.rows_along(model, columns, mesh, at)
    metadata = grids.metadata_at_rest(model, Y_metadata)
    vertical = grids.input_names(model)[columns[1]]
    if what is None and (model.likelihood.target_support.num_classes or 0) > 2:
        p = class_probabilities(model.predictive(rows, metadata), model.likelihood)
        ax = style.one_axes(ax, SIZE)
        _draw_classes(ax, model, (x, y), p, columns if data else None, levels)
        _dress(ax, model, columns, own)
        return style.tidy(ax, grids.axis_name(model, columns, at), vertical)
    label, values, on_target_scale = _quantity(model, rows, what, metadata)
    ax = style.one_axes(ax, SIZE)
    table = values.reshape(len(y), len(x))
    shading: Any = "nearest" if levels else "gouraud"
    image = ax.pcolormesh(x, y, table, cmap="cividis", shading=shading, rasterized=True)
    lines = None
    if np.ptp(table) > 1e-9 * np.abs(table).max() and not levels:
        lines = ax.contour(
            x, y, table, levels=7, colors="white", linewidths=0.5, linestyles="solid", alpha=0.7
        )
    if data:
        shown = shown_targets(model, metadata) if on_target_scale else None
        _draw_rows(ax, model, columns, shown, image)
    _dress(ax, model, columns, own)
    if colorbar:
        bar = style.colour_bar(ax, image, label)
        if lines is not None:  # Labels on the map itself would be in the way.
            bar.add_lines(lines)
            bar.set_ticks([v for v in lines.levels if table.min() <= v <= table.max()])
    return style.tidy(ax, grids.axis_name(model, columns, at), vertical)


def _dress(ax: Axes, model: FittedModel, columns: list[int], grids_of: list[Array]) -> None:
    """Set limits and ticks of both axes of a map."""
    for axis, column, values in zip("xy", columns, grids_of, strict=True):
        grids.dress_axis(ax, model, column, values, axis)


def _places_on_map(model: FittedModel, columns: list[int]) -> Array:
    """Where the rows lie on a map, (N, 2)."""
    X = np.asarray(model.X)
    return np.stack([grids.positions(model, c, X[:, c]) for c in columns], axis=1)


def _draw_classes(
    ax: Axes,
    model: FittedModel,
    axes: tuple[Array, Array],
    p: Array,
    columns: list[int] | None,
    levels: bool,
) -> None:
    """Draw class probabilities (n, K) as shares Σ_k p_k colour_k; rows in their own colour."""
    from matplotlib.colors import to_rgb

    names = class_names(model.likelihood)
    picked = [style.SEQUENCE[k % len(style.SEQUENCE)] for k in range(len(names))]
    colours = np.array([to_rgb(style.tint(colour, 0.6)) for colour in picked])
    x, y = axes
    half = 0.5 * np.array([-1.0, 1.0])
    extent = (*(x[[0, -1]] + half * (x[1] - x[0])), *(y[[0, -1]] + half * (y[1] - y[0])))
    image = np.clip(p @ colours, 0.0, 1.0).reshape(len(y), len(x), 3)
    # Between two levels of a category there is nothing to be drawn.
    smooth: Any = "nearest" if levels else "bilinear"
    ax.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation=smooth)
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    targets = np.array(model.Y)[:, 0]
    points = _places_on_map(model, columns) if columns else np.empty((len(targets), 2))
    for k, label in enumerate(names):
        own = points[targets == k] if columns else np.empty((0, 2))
        mark = MARKERS[k % len(MARKERS)]  # Colour is never the only difference.
        look: Any = {"color": picked[k], "edgecolors": "white", "linewidths": 0.5}
        ax.scatter(
            *own.T, s=16.0, marker=mark, label=f"{grids.target_name(model)} = {label}", **look
        )
    style.legend_above(ax)


def _quantity(
    model: FittedModel, rows: Array, what: str | float | None, metadata: dict[str, Data]
) -> tuple[str, Array, bool]:
    """Label and values (n,) of what a map shows, and whether they are on the target's scale."""
    name, predictive = grids.target_label(model, metadata), model.predictive(rows, metadata)
    number = model.likelihood.target_support.num_classes
    names = () if number is None else class_names(model.likelihood)
    if what in names or (what is None and number == 2):
        k = 1 if what is None else names.index(str(what))
        p = class_probabilities(predictive, model.likelihood)[:, k]
        return f"P({name} = {names[k]})", p, number == 2 and k == 1
    if what is None or what in ("mean", "sd"):
        with warnings.catch_warnings():
            # The warning is not needed: a moment that does not exist is an error below.
            warnings.simplefilter("ignore", MomentWarning)
            mean, variance = predictive.mean[:, 0], predictive.variance[:, 0]
        if what == "sd":
            return (
                f"standard deviation of {name}",
                _moment_that_exists(np.sqrt(variance), "sd"),
                False,
            )
        if what == "mean" or np.isfinite(mean).all():
            return f"mean of {name}", _moment_that_exists(mean, "mean"), True
        what = "median"
    if what == "median":
        return f"median of {name}", predictive.ppf(0.5)[:, 0], True
    if isinstance(what, int | float | np.number):
        if not 0.0 < float(what) < 100.0:
            raise InputError(f"what, a percentile, must lie between 0 and 100; got {what!r}.")
        label = f"{style.percent(float(what))} quantile of {name}"
        return label, predictive.ppf(float(what) / 100.0)[:, 0], True
    if what in model.latents:
        j = latent_index(what, model.latents)
        return style.words(what), model.predict_latents(rows)[0][:, j], False
    parameters = predictive.parameters((50.0,))
    if what in parameters:
        return style.words(what), parameters[what][:, 0], False
    known = ", ".join(dict.fromkeys(["mean", "median", "sd", *names, *model.latents, *parameters]))
    raise InputError(f"what must be a percentile or one of {known}; got {what!r}.")


def _moment_that_exists(values: Array, what: str) -> Array:
    """The values of a moment on a map, if they are finite everywhere; else an error."""
    if np.isfinite(values).all():
        return values
    raise InputError(
        f'The {what} of the target does not exist everywhere on the map. Use what="median", or a '
        "percentile such as what=90."
    )


def _draw_rows(
    ax: Axes, model: FittedModel, columns: list[int], y: Array | None, image: ScalarMappable
) -> None:
    """Draw the rows on a map, filled by their targets y, if given, in the map's colours."""
    points = _places_on_map(model, columns)
    size = 14.0 if len(points) <= 300 else 8.0
    if y is None:
        ax.scatter(*points.T, s=0.6 * size, c="white", edgecolors="black", linewidths=0.4)
        return
    censored = model.Y_metadata.get("censored", np.zeros(len(y)))
    look: Any = {"cmap": image.cmap, "norm": image.norm, "edgecolors": "white", "linewidths": 0.5}
    for mask, marker, label in ((censored == 0, "o", "event"), (censored != 0, "^", "censored")):
        if mask.any():
            ax.scatter(*points[mask].T, s=size, c=y[mask], marker=marker, **look)
        if censored.any():
            ax.scatter([], [], s=size, c="0.5", marker=marker, label=label)
    style.legend_above(ax)
