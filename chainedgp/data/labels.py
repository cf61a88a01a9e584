"""Labels of classes, as text or categories: names in order, and targets as codes 0, 1, 2, …"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .reading import is_missing
from .types import Data

MOST_NAMED = 8  # Messages name so many classes at most.


class Labels(NamedTuple):
    """Labels as text, None where one is missing; their categories in order, where these are told.

    ordered : whether the categories are an order of the classes, and not only a list of them.
    """

    values: list[str | None]
    categories: list[str] | None
    ordered: bool


def class_names_of(
    Y: Data, num_classes: int | None, in_order: bool, owner: str, name: str = "Y"
) -> tuple[str, ...] | None:
    """Names of the classes, the k-th that of code k; None where Y has numbers, or no classes.

    Categories come in their own order, text is sorted.

    num_classes : how many the likelihood has; None where its targets are no classes.
    in_order : whether the likelihood needs classes in an order, which sorted text has not.
    owner : the likelihood's name, for messages.
    """
    labels = None if num_classes is None else labels_of(Y)
    if labels is None:
        return None
    if in_order and not labels.ordered:
        raise InputError(
            f"{name} has labels without an order, which {owner} needs. Give the classes from the "
            f"lowest to the highest: pandas.Categorical({name}, categories=[…], ordered=True), or "
            f"{name}.cast(polars.Enum([…])) in polars."
        )
    seen = {value for value in labels.values if value is not None}
    names = sorted(seen) if labels.categories is None else labels.categories
    if len(names) != num_classes:
        names = [label for label in names if label in seen]
    if len(names) != num_classes:
        raise InputError(
            f"{name} has {len(names)} classes ({_listed(names)}); {owner} is of {num_classes}. "
            "Give a likelihood of as many classes, such as Softmax(K), or categories that have "
            f"all of them: pandas.Categorical({name}, categories=[…])."
        )
    return tuple(names)


def coded(Y: Data, names: tuple[str, ...] | None, name: str) -> Data:
    """Labels as codes (n,), NaN where one is missing; Y itself where it holds numbers.

    names : of the classes; None where labels have no meaning, and are left to other checks.
    """
    labels = None if names is None else labels_of(Y)
    if names is None or labels is None:
        return Y
    codes: dict[str | None, float] = {label: float(code) for code, label in enumerate(names)}
    unknown = sorted({v for v in labels.values if v is not None and v not in codes})
    if unknown:
        raise InputError(
            f"{name} has labels that are no class of the model: {_listed(unknown)}. The classes "
            f"are {_listed(names)}."
        )
    result: Array = np.array([codes.get(value, np.nan) for value in labels.values])
    return result


def _listed(names: tuple[str, ...] | list[str]) -> str:
    """Some names for a message."""
    dots = ", …" if len(names) > MOST_NAMED else ""
    return ", ".join(repr(label) for label in names[:MOST_NAMED]) + dots


def labels_of(Y: Data) -> Labels | None:
    """The labels in Y: text or categories in a list, an array, a series or a frame of one column.

    None for anything else, among it what is not read yet (Dask arrays, lazy frames).
    """
    column: Any = Y
    if isinstance(column, np.memmap) or hasattr(column, "__dask_graph__"):
        return None
    if hasattr(column, "collect"):
        return None
    if hasattr(column, "columns"):
        if len(column.columns) != 1:
            return None
        column = column[next(iter(column.columns))]
    kind = str(getattr(column, "dtype", "")).lower()
    pandas_like: Any = column if hasattr(column, "codes") else getattr(column, "cat", None)
    if kind == "category" and pandas_like is not None:
        names = [str(label) for label in pandas_like.categories]
        values = [names[code] if code >= 0 else None for code in np.asarray(pandas_like.codes)]
        return Labels(values, names, bool(pandas_like.ordered))
    if kind.startswith(("categor", "enum")) and hasattr(column, "to_list"):
        values = [None if v is None else str(v) for v in column.to_list()]
        if kind.startswith("enum"):
            return Labels(values, [str(v) for v in column.dtype.categories], True)
        return Labels(values, None, False)
    try:
        held = np.asarray(column)
    except (TypeError, ValueError):  # Rows of several lengths are refused elsewhere.
        return None
    if held.ndim == 2 and held.shape[1] == 1:
        held = held[:, 0]
    if held.ndim != 1 or held.dtype.kind not in "OUT":
        return None
    entries = held.tolist()
    if not any(isinstance(entry, str) for entry in entries):
        return None
    return Labels([None if is_missing(v) else str(v) for v in entries], None, False)
