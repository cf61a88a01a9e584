"""Rows of inputs to draw at: a grid along one or two columns, the others at rest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..data.arguments import positive_int
from ..data.columns import Boolean, Category, Column, Date, Number
from ..data.rows import WEIGHTS
from ..data.types import Data, Metadata
from ..errors import InputError
from ..likelihoods.observation import OBSERVATION
from ..linalg import Array
from ..predictive.fitted import FittedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["input_names", "relevances", "target_name"]

Place: TypeAlias = Data | Mapping[int, object] | Mapping[str, object] | None
"""Where inputs that are not drawn are held: a row, or values of some; None is the medians, and of
categories the most frequent levels."""
Limit: TypeAlias = float | str | np.datetime64 | datetime.date
"""The end of an axis: a number, or a date."""
MARGIN = 0.02  # a grid reaches so far beyond the data on either side, in ranges of the data
SAMPLE_ROWS = 200  # rows of the data, at most, over which relevances are averaged
STEP = 0.1  # least change of an input, in its standard deviations, by which a slope is taken
MOST_PATTERNS = 50  # combinations of several columns, at most, that are tried
MOST_NAMED = 4  # inputs at rest, at most, that are named on an axis
HALF = 0.35  # A level of a category is drawn so far to both sides of its tick.


def input_names(model: FittedModel) -> list[str]:
    """Names of the inputs: the model's `input_names`, else x, or x0, x1, …"""
    D = model.X.shape[1]
    given = getattr(model, "input_names", None)
    if given is not None:
        if isinstance(given, str) or len(given) != D:
            raise InputError(f"input_names must be {D} names, one per column; got {given!r}.")
        return [str(name) for name in given]
    return ["x"] if D == 1 else [f"x{d}" for d in range(D)]


def target_name(model: FittedModel) -> str:
    """Name of the target: the model's `target_name`, else y, or "time" for survival times."""
    given = getattr(model, "target_name", None)
    return str(given) if given else "time" if model.likelihood.event_times else "y"


def column_of(model: FittedModel, d: int) -> Column:
    """How an input was read."""
    columns = getattr(model, "columns", None)
    return Number(input_names(model)[d]) if columns is None else columns[d]


def axis_name(model: FittedModel, columns: Sequence[int], at: Place = None) -> str:
    """Name of the first of the drawn inputs and, on a second line, where the others are held."""
    names, row, medians = input_names(model), resting_point(model, at), resting_point(model)
    others = [d for d in range(len(names)) if d not in columns]
    named = others if len(others) <= MOST_NAMED else [d for d in others if row[d] != medians[d]]
    words = [f"{names[d]} = {column_of(model, d).shown(row[d])}" for d in named[:MOST_NAMED]]
    if len(words) < len(others):
        words.append("others at their medians" if len(words) == len(named) else "others as given")
    return "\n".join([names[columns[0]], *([f"({', '.join(words)})"] if words else [])])


def target_label(model: FittedModel, metadata: Mapping[str, Data]) -> str:
    """Name of the target, with the metadata of the drawn rows: "y (exposure 17)"."""
    scalars = {key: np.asarray(value) for key, value in metadata.items() if not np.ndim(value)}
    words = [f"{key} {value:.4g}" for key, value in scalars.items()]
    return target_name(model) + (f" ({', '.join(words)})" if words else "")


def column_index(model: FittedModel, input: int | str) -> int:
    """Index of an input given by index or name."""
    names = input_names(model)
    if isinstance(input, str) and input in names:
        return names.index(input)
    if isinstance(input, int | np.integer) and -len(names) <= input < len(names):
        return int(input) % len(names)
    raise InputError(
        f"input must be an index below {len(names)} or one of {', '.join(names)}; got {input!r}."
    )


def resting_point(model: FittedModel, at: Place = None) -> Array:
    """Where the other inputs are held, (D,): medians of the data, or what `at` says.

    Of categories and truth values it is the most frequent one.

    at : None, a row (D,), or a dict {index or name: value} for some of the inputs; values are
        numbers, levels or dates.
    """
    row = np.median(np.asarray(model.X), axis=0)
    for d in range(row.size):
        if isinstance(column_of(model, d), Category | Boolean):
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


def rows_along(
    model: FittedModel, columns: Sequence[int], values: Array, at: Place = None
) -> Array:
    """Rows (n, D): `values` (n, len(columns)) in `columns`, the resting point elsewhere."""
    rows = np.tile(resting_point(model, at), (len(values), 1))
    rows[:, list(columns)] = values
    return rows


def axis_values(
    model: FittedModel, column: int, num: int, limits: tuple[Limit, Limit] | None = None
) -> Array:
    """An even grid over the range of an input, a little wider, or over `limits`: (num,).

    Of a category the codes of its levels, whatever the limits are.
    """
    num, read = positive_int(num, "num"), column_of(model, column)
    if isinstance(read, Category):
        return np.arange(float(len(read.levels)))
    if limits is None:
        x = np.asarray(model.X[:, column])
        low, high = float(x.min()), float(x.max())
        margin = MARGIN * (high - low) or 0.5
        low, high = low - margin, high + margin
    else:
        low, high = (read.number(value) for value in limits)
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"limits must be two numbers, low and high; got {limits!r}.")
    return np.linspace(low, high, num)


def positions(model: FittedModel, column: int, values: Array) -> Array:
    """Where values of an input lie on an axis: dates as matplotlib counts them, else themselves."""
    read = column_of(model, column)
    if not isinstance(read, Date):
        return values
    from matplotlib.dates import date2num

    return np.asarray(date2num(read.back(values)), dtype=float)


def curve_along(model: FittedModel, column: int, values: Array) -> tuple[Array, Array]:
    """A grid for curves, and where its points lie on the axis: (n,) each.

    Curves over a category are pieces, one for each level, with a gap (nan) after each.
    """
    if not isinstance(column_of(model, column), Category):
        return values, positions(model, column, values)
    pieces = values[:, None] + np.array([-HALF, HALF, np.nan])
    return np.repeat(values, 3), pieces.ravel()


def dress_axis(ax: Axes, model: FittedModel, column: int, values: Array, axis: str = "x") -> None:
    """Limits of an axis and, for dates and categories, its ticks.

    values : the grid. axis : "x" or "y".
    """
    read, own = column_of(model, column), ax.xaxis if axis == "x" else ax.yaxis
    set_limits = ax.set_xlim if axis == "x" else ax.set_ylim
    if isinstance(read, Category):
        own.set_ticks(np.arange(len(read.levels)), list(read.levels))
        set_limits(-0.5, len(read.levels) - 0.5)
        return
    if isinstance(read, Date):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        (ax.xaxis_date if axis == "x" else ax.yaxis_date)()
        locator = AutoDateLocator(minticks=3, maxticks=7)
        own.set_major_locator(locator)
        own.set_major_formatter(ConciseDateFormatter(locator))
    ends = positions(model, column, values[[0, -1]])
    set_limits(float(ends[0]), float(ends[1]))


def metadata_at_rest(model: FittedModel, Y_metadata: Metadata = None) -> dict[str, Data]:
    """Metadata of drawn rows: what is given, else a typical value of the data.

    Exposure, trials and the like take their (lower) median; what says how an event was seen
    (censored, entry) says nothing of the event itself and is left out.
    """
    typical = {
        key: float(np.quantile(value, 0.5, method="lower"))
        for key, value in model.Y_metadata.items()
        if key not in (*OBSERVATION, WEIGHTS)
    }
    return {**typical, **(Y_metadata or {})}


def relevances(model: FittedModel, groups: Sequence[Sequence[int]] | None = None) -> Array:
    """How much each fitted latent changes with each input, or group of inputs, (groups, b).

    Of a single column d it is the slope between values that the data have, times the column's
    standard deviation s_d, root mean square over rows of the data:

        r_dj = s_d mean_i[((m_j(x_i; x_d = u_i) − m_j(x_i; x_d = l_i))/(u_i − l_i))²]^½,

    m_j the posterior mean of latent j; u_i and l_i the nearest values of the column that are h s_d
    or more above and below x_id, and x_id itself where there are none. So a column of 0 and 1 is
    judged by the step from one to the other, whatever the functions do between them.

    Of several columns, and of a category, it is the standard deviation of m_j, root mean square
    over rows, when the columns run through the combinations that the data have, all others as they
    are. For one column of two values the two are the same.

    groups : columns that are changed together, each an index or several; None is each alone.
    """
    data = np.asarray(model.X, dtype=float)
    every = max(1, len(data) // SAMPLE_ROWS)
    X = data[::every][:SAMPLE_ROWS]
    groups = [[d] for d in range(X.shape[1])] if groups is None else groups
    return np.stack([
        _slopes(model, X, data, columns[0])
        if len(columns) == 1 and not isinstance(column_of(model, columns[0]), Category)
        else _spread_over(model, X, data[:, list(columns)], list(columns))
        for columns in groups
    ])  # fmt: skip


def grouped(
    model: FittedModel, groups: Mapping[str, Sequence[int | str]] | None
) -> tuple[list[str], list[list[int]]]:
    """Names and columns of the groups of inputs, each that is in no group alone, in their order."""
    names = input_names(model)
    members = {
        name: [column_index(model, input) for input in inputs]
        for name, inputs in (groups or {}).items()
    }
    taken = [d for columns in members.values() for d in columns]
    if not all(members.values()) or len(set(taken)) < len(taken):
        raise InputError(
            f"groups must be {{name: inputs}}, each input in one group at most; got {groups!r}."
        )
    alone = {names[d]: [d] for d in range(len(names)) if d not in taken}
    ordered = sorted({**alone, **members}.items(), key=lambda pair: min(pair[1]))
    return [name for name, _ in ordered], [columns for _, columns in ordered]


def _slopes(model: FittedModel, X: Array, data: Array, d: int) -> Array:
    """Root mean square of s_d times the slope of each latent between observed values, (b,)."""
    values, s = np.unique(data[:, d]), float(np.std(data[:, d]))
    if len(values) == 1:
        return np.zeros(len(model.latents))
    x, step = X[:, d], STEP * s
    above = np.searchsorted(values, x + step, side="left")
    below = np.searchsorted(values, x - step, side="right") - 1
    ends = np.tile(X, (2, 1, 1))
    ends[0, :, d] = np.where(above < len(values), values[np.minimum(above, len(values) - 1)], x)
    ends[1, :, d] = np.where(below >= 0, values[np.maximum(below, 0)], x)
    high, low = (model.predict_latents(rows)[0] for rows in ends)
    slope = (high - low) / (ends[0, :, d] - ends[1, :, d])[:, None]
    return s * np.sqrt(np.mean(slope**2, axis=0))


def _spread_over(model: FittedModel, X: Array, seen: Array, columns: list[int]) -> Array:
    """Root mean square over rows of the sd of each latent over combinations of columns, (b,)."""
    patterns, counts = np.unique(seen, axis=0, return_counts=True)
    if len(patterns) > MOST_PATTERNS:  # A few rows stand for all.
        patterns = seen[np.linspace(0, len(seen) - 1, MOST_PATTERNS).astype(int)]
        counts = np.ones(MOST_PATTERNS, dtype=int)
    rows = np.tile(X, (len(patterns), 1, 1))  # (patterns, n, D)
    rows[:, :, columns] = patterns[:, None, :]
    means = np.stack([model.predict_latents(part)[0] for part in rows])  # (patterns, n, b)
    share = counts / counts.sum()
    centred = means - np.einsum("p,pnb->nb", share, means)
    return np.sqrt(np.einsum("p,pnb->b", share, centred**2) / len(X))


def most_relevant(model: FittedModel) -> int:
    """The input that moves the latents most; each latent in units of its own largest effect."""
    if model.X.shape[1] == 1:
        return 0
    table = relevances(model)
    largest = table.max(axis=0)
    return int(np.argmax((table / np.where(largest > 0.0, largest, 1.0)).sum(axis=1)))
