"""Inputs of a model by name or index, alone or in groups, and typical metadata of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..data.columns import Column, Number
from ..data.rows import WEIGHTS
from ..data.types import Data, Metadata
from ..errors import InputError
from ..likelihoods.observation import OBSERVATION
from .fitted import FittedModel


def need_rows(model: FittedModel, instead: str = "") -> None:
    """Raise InputError where rows are needed and a model was saved without its data.

    instead : what else a user may give, such as "X and Y".
    """
    if not len(model.X):
        ways = f", or give {instead}" if instead else ""
        raise InputError(
            "this model was saved without its data, which are needed here. Give it rows by "
            f"m.set_data(X, Y, Y_metadata){ways}."
        )


def input_names(model: FittedModel) -> list[str]:
    """Names of a model's inputs: its `input_names`, else x, or x0, x1, …"""
    D = model.X.shape[1]
    given = getattr(model, "input_names", None)
    if given is not None:
        if isinstance(given, str) or len(given) != D:
            raise InputError(f"input_names must be {D} names, one per column; got {given!r}.")
        return [str(name) for name in given]
    return ["x"] if D == 1 else [f"x{d}" for d in range(D)]


def column_of(model: FittedModel, d: int) -> Column:
    """How a column of a model's inputs was read."""
    columns = getattr(model, "columns", None)
    return Number(input_names(model)[d]) if columns is None else columns[d]


def column_index(model: FittedModel, input: int | str) -> int:
    """Index of a model's input that a user gave by index or name."""
    names = input_names(model)
    if isinstance(input, str) and input in names:
        return names.index(input)
    if isinstance(input, int | np.integer) and -len(names) <= input < len(names):
        return int(input) % len(names)
    raise InputError(
        f"input must be an index below {len(names)} or one of {', '.join(names)}; got {input!r}."
    )


def grouped(
    model: FittedModel, groups: Mapping[str, Sequence[int | str]] | None
) -> tuple[list[str], list[list[int]]]:
    """Names and columns of groups of inputs, with each other input alone, in their order."""
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


def metadata_at_rest(model: FittedModel, Y_metadata: Metadata = None) -> dict[str, Data]:
    """Metadata of rows at which something is predicted: as given, else typical of the data.

    Exposure, trials and the like take their (lower) median. What says how an event was seen
    (censored, entry) says nothing of the event itself and is left out.
    """
    typical = {
        key: float(np.quantile(value, 0.5, method="lower"))
        for key, value in model.Y_metadata.items()
        if key not in (*OBSERVATION, WEIGHTS)
    }
    return {**typical, **(Y_metadata or {})}
