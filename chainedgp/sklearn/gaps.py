"""Rows of an estimator's fit that have gaps: which they are, and the data without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from ..data.reading import is_missing
from ..data.types import Data
from ..errors import InputError
from ..linalg import Booleans

ADVICE = (
    "Impute them before the estimator, as sklearn.impute.SimpleImputer does, or give a category a "
    'level of its own for them, such as "unknown".'
)
"""What to do about gaps of rows that are to be predicted."""


def gaps_in(data: Data) -> Booleans:
    """Rows (n,) of a frame, array, list or structured array in which a value is missing."""
    table: Any = data
    if hasattr(table, "columns"):
        parts = [np.asarray(table[name]) for name in table.columns]
    else:
        held = np.asarray(table)
        names = held.dtype.names or ()
        parts = [held[name] for name in names] if names else [held]
    gaps = [_missing(part).reshape(len(part), -1).any(axis=1) for part in parts]
    return np.any(gaps, axis=0)


def without_gaps(
    X: Data, y: Data, sample_weight: Data | None, metadata: Mapping[str, Data]
) -> tuple[Data, Data, Data | None, dict[str, Data]]:
    """The rows of an estimator's fit that have their target and all of their inputs."""
    gaps, more = gaps_in(X), gaps_in(y)
    if len(gaps) != len(more):
        return X, y, sample_weight, dict(metadata)  # scikit-learn refuses them.
    kept = np.flatnonzero(~(gaps | more))
    if not kept.size:
        raise InputError(
            "every row misses its target or an input: nothing is left to fit. Leave out "
            "columns with many missing values."
        )

    def some(data: Any) -> Any:
        return data if data is None or np.ndim(data) == 0 else _safe_indexing(data, kept)

    return some(X), some(y), some(sample_weight), {key: some(v) for key, v in metadata.items()}


def _missing(values: np.ndarray) -> Booleans:
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    found = [values.dtype.kind == "O" and is_missing(entry) for entry in values.ravel().tolist()]
    return np.reshape(found, values.shape)
