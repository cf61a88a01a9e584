"""Labels of classes, as text or categories: class names in order, targets as codes 0, 1, 2, …"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, quoted
from ..linalg import Array
from .reading import is_missing
from .types import Data


class Labels(NamedTuple):
    """Class labels as text, None where one is missing, and their categories in order, if told.

    ordered : whether the order of the categories has a meaning, from the lowest to the highest.
    """

    values: list[str | None]
    categories: list[str] | None
    ordered: bool


def class_names_of(
    Y: Data, num_classes: int | None, in_order: bool, owner: str
) -> tuple[str, ...] | None:
    """Names of the classes in targets, the k-th of code k; None if Y has numbers or is no class.

    Categories come in their own order, text is sorted.

    num_classes : number of classes of the likelihood; None if its targets are no classes.
    in_order : whether the likelihood needs ordered classes, which sorted text is not.
    owner : the likelihood's name, for messages.
    """
    labels = None if num_classes is None else labels_of(Y)
    if labels is None:
        return None
    if in_order and not labels.ordered:
        raise InputError(
            f"Y has labels without an order, which {owner} needs. Give the classes from the "
            "lowest to the highest: pandas.Categorical(Y, categories=[…], ordered=True), or "
            "Y.cast(polars.Enum([…])) in polars."
        )
    seen = {value for value in labels.values if value is not None}
    names = sorted(seen) if labels.categories is None else labels.categories
    if len(names) != num_classes:
        names = [label for label in names if label in seen]
    if len(names) != num_classes:
        raise InputError(
            f"Y has {len(names)} classes ({quoted(names)}); {owner} is of {num_classes}. "
            "Give a likelihood of as many classes, such as Softmax(K), or categories that have "
            "all of them: pandas.Categorical(Y, categories=[…])."
        )
    return tuple(names)


def coded(Y: Data, names: tuple[str, ...] | None, name: str) -> Data:
    """Turn class labels into codes (n,), NaN where one is missing; Y itself if it holds numbers.

    names : names of the classes; None if targets are no classes: labels are left to other checks.
    """
    labels = None if names is None else labels_of(Y)
    if names is None or labels is None:
        return Y
    codes: dict[str | None, float] = {label: float(code) for code, label in enumerate(names)}
    unknown = sorted({v for v in labels.values if v is not None and v not in codes})
    if unknown:
        raise InputError(
            f"{name} has labels that are no class of the model: {quoted(unknown)}. The classes "
            f"are {quoted(names)}."
        )
    result: Array = np.array([codes.get(value, np.nan) for value in labels.values])
    return result


def labels_of(Y: Data) -> Labels | None:
    """Find class labels, text or categories, in a list, array, series or frame of one column.

    None for anything else, also for data that are not read yet (Dask arrays, lazy frames).
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
    except (TypeError, ValueError):  # Rows of different lengths are refused later.
        return None
    if held.ndim == 2 and held.shape[1] == 1:
        held = held[:, 0]
    if held.ndim != 1 or held.dtype.kind not in "OUT":
        return None
    entries = held.tolist()
    if not any(isinstance(entry, str) for entry in entries):
        return None
    return Labels([None if is_missing(v) else str(v) for v in entries], None, False)
