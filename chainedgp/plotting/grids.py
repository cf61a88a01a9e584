"""Rows of inputs to draw at: a grid along one or two columns, the others at rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.arguments import positive_int
from ..data.rows import WEIGHTS
from ..errors import InputError
from ..likelihoods.wrappers.constant import innermost
from ..linalg import Array
from ..predictive.fitted import FittedModel
from ..predictive.survival import CENSORING

__all__ = ["input_names", "relevances", "target_name"]

MARGIN = 0.02  # a grid reaches so far beyond the data on either side, in ranges of the data
SAMPLE_ROWS = 200  # rows of the data, at most, over which relevances are averaged
STEP = 0.1  # an input is moved by so many of its standard deviations to see what the latents do
MOST_NAMED = 4  # inputs at rest, at most, that are named on an axis


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
    return str(given) if given else "time" if is_survival(model.likelihood) else "y"


def is_survival(likelihood: Any) -> bool:
    """Whether the targets are event times."""
    return hasattr(innermost(likelihood), "log_survival")


def axis_name(model: FittedModel, columns: Sequence[int], at: Any = None) -> str:
    """Name of the first of the drawn inputs and, on a second line, where the others are held."""
    names, row, medians = input_names(model), resting_point(model, at), resting_point(model)
    others = [d for d in range(len(names)) if d not in columns]
    named = others if len(others) <= MOST_NAMED else [d for d in others if row[d] != medians[d]]
    words = [f"{names[d]} = {row[d]:.3g}" for d in named[:MOST_NAMED]]
    if len(words) < len(others):
        words.append("others at their medians" if len(words) == len(named) else "others as given")
    return "\n".join([names[columns[0]], *([f"({', '.join(words)})"] if words else [])])


def target_label(model: FittedModel, metadata: Mapping[str, Any]) -> str:
    """Name of the target, with the metadata of the drawn rows: "y (exposure 17)"."""
    words = [f"{key} {value:.4g}" for key, value in metadata.items() if np.ndim(value) == 0]
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


def resting_point(model: FittedModel, at: Any = None) -> Array:
    """Where the other inputs are held, (D,): medians of the data, or what `at` says.

    at : None, a row (D,), or a dict {index or name: value} for some of the inputs.
    """
    row = np.median(np.asarray(model.X), axis=0)
    if at is None:
        return row
    if isinstance(at, Mapping):
        for key, value in at.items():
            row[column_index(model, key)] = float(value)
        return row
    given = np.asarray(at, dtype=float).ravel()
    if given.shape != row.shape or not np.isfinite(given).all():
        raise InputError(f"at must be a dict, or a finite row of {row.size} inputs; got {at!r}.")
    return given


def rows_along(model: FittedModel, columns: Sequence[int], values: Array, at: Any = None) -> Array:
    """Rows (n, D): `values` (n, len(columns)) in `columns`, the resting point elsewhere."""
    rows = np.tile(resting_point(model, at), (len(values), 1))
    rows[:, list(columns)] = values
    return rows


def axis_values(model: FittedModel, column: int, num: int, limits: Any = None) -> Array:
    """An even grid over the range of an input, a little wider, or over `limits`: (num,)."""
    num = positive_int(num, "num")
    if limits is None:
        x = np.asarray(model.X[:, column])
        low, high = float(x.min()), float(x.max())
        margin = MARGIN * (high - low) or 0.5
        low, high = low - margin, high + margin
    else:
        low, high = (float(value) for value in limits)
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"limits must be two numbers, low and high; got {limits!r}.")
    return np.linspace(low, high, num)


def metadata_at_rest(model: FittedModel, Y_metadata: Any = None) -> dict[str, Any]:
    """Metadata of drawn rows: what is given, else a typical value of the data.

    Exposure, trials and the like take their (lower) median; what says how an event was seen
    (censored, entry) says nothing of the event itself and is left out.
    """
    typical = {
        key: float(np.quantile(value, 0.5, method="lower"))
        for key, value in model.Y_metadata.items()
        if key not in (*CENSORING, WEIGHTS)
    }
    return {**typical, **(Y_metadata or {})}


def relevances(model: FittedModel) -> Array:
    """How fast each fitted latent changes with each input, (D, b).

        r_dj = mean[(m_j(x + h s_d e_d) − m_j(x − h s_d e_d))²]^½ / 2h

    m_j the posterior mean of latent j, s_d the standard deviation of input d, with a small h,
    averaged over rows of the data.
    """
    every = max(1, len(model.X) // SAMPLE_ROWS)
    X = np.array(model.X[::every][:SAMPLE_ROWS], dtype=float)
    result = np.empty((X.shape[1], len(model.latents)))
    for d, s in enumerate(np.std(np.asarray(model.X), axis=0)):
        shift = np.zeros(X.shape[1])
        shift[d] = STEP * s
        change = model.predict_latents(X + shift)[0] - model.predict_latents(X - shift)[0]
        result[d] = np.sqrt(np.mean(change**2, axis=0)) / (2.0 * STEP)
    return result


def most_relevant(model: FittedModel) -> int:
    """The input that moves the latents most; each latent in units of its own largest effect."""
    if model.X.shape[1] == 1:
        return 0
    table = relevances(model)
    largest = table.max(axis=0)
    return int(np.argmax((table / np.where(largest > 0.0, largest, 1.0)).sum(axis=1)))
