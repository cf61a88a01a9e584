"""Grids of inputs that figures draw along: over one or two columns, the others at rest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..assessment.effects.importance import importance
from ..assessment.effects.population import Population
from ..assessment.effects.quantities import latent_quantities
from ..data.arguments import positive_int
from ..data.columns import Date
from ..data.kinds import readable
from ..data.types import Data
from ..errors import InputError
from ..kernels.scales import shortest_scale
from ..linalg import Array, Booleans
from ..predictive.fitted import FittedModel
from ..predictive.inputs import (
    column_index,
    column_of,
    input_names,
    need_rows,
)
from ..predictive.inputs import (
    metadata_at_rest as metadata_at_rest,  # Plots find it here, with the rest of their grid.
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Place: TypeAlias = Data | Mapping[int, object] | Mapping[str, object] | None
"""Where a figure holds inputs that it does not draw: a row, or values of some. None is the medians,
and of categories the most frequent levels."""
Limit: TypeAlias = float | str | np.datetime64 | datetime.date
"""The end of an axis: a number, or a date."""
BEYOND = 0.05  # Ends of the data are marked where a figure goes on for this share of its width.
MARGIN = 0.02  # A grid reaches this share of the data's range beyond them, on either side.
SAMPLE_ROWS = 60  # The input to draw along is chosen by at most so many rows of the data.
LEAST_POINTS, MOST_POINTS = 200, 2000  # A curve has so many points, at least and at most.
POINTS_PER_SCALE = 16  # Within these limits, the shortest scale of the kernels has so many points.
MOST_NAMED = 4  # An axis names at most so many inputs at rest.
HALF = 0.35  # A level of a category is drawn so far to both sides of its tick.
LINE_LENGTH = 55  # A line below an axis has at most so many characters.


def target_name(model: FittedModel) -> str:
    """Name of the target on an axis: the model's `target_name`, else y, or "time"."""
    given = getattr(model, "target_name", None)
    return str(given) if given else "time" if model.likelihood.event_times else "y"


def axis_name(model: FittedModel, columns: Sequence[int], at: Place = None) -> str:
    """Label of an axis: the first drawn input and, below, where the others are held."""
    names, row, medians = input_names(model), resting_point(model, at), resting_point(model)
    others = [d for d in range(len(names)) if d not in columns]
    given = at.items() if isinstance(at, Mapping) else ()
    said = {column_index(model, key): value for key, value in given}
    few = len(others) <= MOST_NAMED
    told = others if few else [d for d in others if d in said or row[d] != medians[d]]
    shown = {d: column_of(model, d).shown(row[d]) for d in told[:MOST_NAMED]}
    # A level that the data do not have has a name only in what was given.
    shown |= {d: v for d, v in said.items() if d in shown and column_of(model, d).is_new(row[d], v)}
    words = [f"{names[d]} = {word}" for d, word in shown.items()]
    if len(told) > MOST_NAMED:
        words.append(f"{len(told) - MOST_NAMED} more as given")
    rest = [column_of(model, d) for d in others if d not in told]
    levels = [column for column in rest if column.level_names]
    if rest:
        known = ["medians"] * (len(levels) < len(rest)) + ["commonest levels"] * bool(levels)
        words.append(f"others at their {' and '.join(known)}")
    lines = [names[columns[0]]]
    for k, word in enumerate(words):  # A line that is wider than the axes would be cut off.
        text = ("" if k else "(") + word + (")" if k == len(words) - 1 else ",")
        if k and len(lines[-1]) + len(text) < LINE_LENGTH:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return "\n".join(lines)


def target_label(model: FittedModel, metadata: Mapping[str, Data]) -> str:
    """Label of the target's axis, with the metadata of the drawn rows: "y (exposure 17)"."""
    return target_name(model) + words_of(metadata)


def words_of(metadata: Mapping[str, Data]) -> str:
    """Metadata of the drawn rows as they stand behind a label: " (exposure 17)", or nothing."""
    scalars = {key: np.asarray(value) for key, value in metadata.items() if not np.ndim(value)}
    words = [f"{key} {readable(float(value), 4)}" for key, value in scalars.items()]
    return f" ({', '.join(words)})" if words else ""


def resting_point(model: FittedModel, at: Place = None) -> Array:
    """Where inputs that a figure does not draw are held, (D,): medians, or what `at` says.

    Of categories and truth values it is the most frequent one.

    at : None, a row (D,), or a dict {index or name: value} for some of the inputs; values are
        numbers, levels or dates.
    """
    need_rows(model)
    row = np.median(np.asarray(model.X), axis=0)
    for d in range(row.size):
        if column_of(model, d).level_names:
            values, counts = np.unique(np.asarray(model.X[:, d]), return_counts=True)
            row[d] = values[np.argmax(counts)]
    if at is None:
        return row
    if isinstance(at, Mapping):
        for key, value in at.items():
            d = column_index(model, key)
            row[d] = column_of(model, d).number(value)
        return row
    given = np.asarray(at, dtype=float).ravel()
    if given.shape != row.shape or not np.isfinite(given).all():
        raise InputError(f"at must be a dict, or a finite row of {row.size} inputs; got {at!r}.")
    return given


def rows_of_levels(model: FittedModel, columns: Sequence[int], at: Place) -> Booleans:
    """Rows of the data that a figure shows, (N,) of booleans.

    They are those with the levels at which it holds the categories that it does not draw along.
    """
    row, X = resting_point(model, at), np.asarray(model.X)
    held = [d for d in range(X.shape[1]) if d not in columns and column_of(model, d).level_names]
    return np.asarray((X[:, held] == row[held]).all(axis=1))


def rows_along(model: FittedModel, columns: Sequence[int], values: Array, at: Place) -> Array:
    """Rows (n, D) to draw at: `values` (n, len(columns)) in `columns`, others at rest."""
    rows = np.tile(resting_point(model, at), (len(values), 1))
    rows[:, list(columns)] = values
    return rows


def axis_values(
    model: FittedModel,
    column: int,
    num: int | None,
    limits: tuple[Limit, Limit] | None = None,
) -> Array:
    """Grid of a figure's axis over the range of an input, a little wider, or over `limits`: (num,).

    Of a category the codes of its levels, whatever the limits are.

    num : None takes as many points as show the fastest change that the model's kernels have along
        this input, such as each of many seasons, from 200 to 2,000. A likelihood that is known by
        its density alone, whose quantiles take long, has 200.
    """
    read = column_of(model, column)
    if read.level_names:
        return np.arange(float(len(read.level_names)))
    if limits is None:
        need_rows(model)
        x = np.asarray(model.X[:, column])
        low, high = float(x.min()), float(x.max())
        margin = MARGIN * (high - low) or 0.5
        low, high = low - margin, high + margin
    else:
        low, high = (read.number(value) for value in limits)
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"limits must be two numbers, low and high; got {limits!r}.")
    if num is None:
        scale = min(shortest_scale(p.kernel, column) for p in model._predictor().priors)
        most = MOST_POINTS if model.likelihood.has_cdf else LEAST_POINTS
        num = int(np.clip(np.ceil(POINTS_PER_SCALE * (high - low) / scale), LEAST_POINTS, most))
    return np.linspace(low, high, positive_int(num, "num"))


def positions(model: FittedModel, column: int, values: Array) -> Array:
    """Where values of an input lie on an axis: dates as matplotlib counts, else as they are."""
    read = column_of(model, column)
    if not isinstance(read, Date):
        return values
    from matplotlib.dates import date2num

    return np.asarray(date2num(read.back(values)), dtype=float)


def has_gaps(x: Array) -> bool:
    """Whether a drawn curve consists of pieces, one for each level of a category."""
    return x.dtype.kind == "f" and bool(np.isnan(x).any())


def curve_along(model: FittedModel, column: int, values: Array) -> tuple[Array, Array]:
    """A grid for drawn curves, and where its points lie on the axis: (n,) each.

    Curves over a category are pieces, one for each level, with a gap (nan) after each.
    """
    if not column_of(model, column).level_names:
        return values, positions(model, column, values)
    pieces = values[:, None] + np.array([-HALF, HALF, np.nan])
    return np.repeat(values, 3), pieces.ravel()


def dress_axis(ax: Axes, model: FittedModel, column: int, values: Array, axis: str = "x") -> None:
    """Set the limits of a figure's axis and, for dates and categories, its ticks.

    values : the grid. axis : "x" or "y".
    """
    read, own = column_of(model, column), ax.xaxis if axis == "x" else ax.yaxis
    set_limits = ax.set_xlim if axis == "x" else ax.set_ylim
    if read.level_names:
        own.set_ticks(np.arange(len(read.level_names)), list(read.level_names))
        set_limits(-0.5, len(read.level_names) - 0.5)
        return
    if isinstance(read, Date):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        (ax.xaxis_date if axis == "x" else ax.yaxis_date)()
        locator = AutoDateLocator(read.time_zone, minticks=3, maxticks=7)
        own.set_major_locator(locator)
        own.set_major_formatter(ConciseDateFormatter(locator, read.time_zone))
    ends = positions(model, column, values[[0, -1]])
    set_limits(float(ends[0]), float(ends[1]))


def mark_ends(ax: Axes, model: FittedModel, column: int, values: Array) -> None:
    """Draw dashed lines at the first and last row where a figure goes on well beyond them.

    values : the grid, in the unit of the model. Levels of a category have no such ends.
    """
    if column_of(model, column).level_names or not len(model.X):
        return
    x = np.asarray(model.X[:, column], dtype=float)
    low, high = float(x.min()), float(x.max())
    margin = BEYOND * float(values[-1] - values[0])
    ends = [end for end, far in ((low, low - values[0]), (high, values[-1] - high)) if far > margin]
    for k, end in enumerate(positions(model, column, np.array(ends)) if ends else ()):
        label = "end of the data" if k == 0 else None
        ax.axvline(float(end), color="0.4", lw=0.8, ls="--", zorder=1.8, label=label)


def most_relevant(model: FittedModel) -> int:
    """The input to draw along, which moves latents most, each in units of its largest effect."""
    if model.X.shape[1] == 1:
        return 0
    need_rows(model)
    population = Population.of(model, rows=SAMPLE_ROWS)
    table = importance(population, latent_quantities(model.likelihood)).sd
    largest = table.max(axis=0)
    return int(np.argmax((table / np.where(largest > 0.0, largest, 1.0)).sum(axis=1)))
