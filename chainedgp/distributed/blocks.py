"""Dask arrays as rows, and predictions on every block of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from ..data.rows import is_dask
from ..errors import InputError
from ..linalg import Array
from ..parameters.leaves import copy_of
from ..predictive.methods import Prediction

__all__ = ["as_dask", "blocks_of", "map_blocks", "row_values", "split_rows"]


def as_dask(value: Any, name: str, rows: int | None = None, unknown: bool = False) -> Any:
    """A Dask array (n,) or (n, k), with known numbers of rows if they may not be `unknown`."""
    if is_dask(value) and not isinstance(value, da.Array):
        raise InputError(
            f"{name} is a Dask {type(value).__name__}; expected a Dask array. For a data frame "
            f"give {name}.to_dask_array(lengths=True)."
        )
    array = value if is_dask(value) else da.from_array(np.asarray(value))
    if np.isnan(array.shape[0]) and not unknown:
        raise InputError(
            f"{name} is a Dask array of unknown length. Call {name}.compute_chunk_sizes() first, "
            "or make it from a data frame by to_dask_array(lengths=True)."
        )
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise InputError(f"{name} has shape {array.shape}; expected one row for each observation.")
    if rows is not None and array.shape[0] != rows:
        raise InputError(f"{name} has {array.shape[0]} rows but X has {rows}; they must agree.")
    return array


def row_values(metadata: Any, rows: int | None) -> dict[str, Any]:
    """Values with one entry per row as Dask arrays (n,), others as they are."""
    if metadata is not None and not isinstance(metadata, Mapping):
        kind = type(metadata).__name__
        raise InputError(f"Y_metadata must be a dict of per-row values; got {kind}.")
    values = {}
    for key, value in (metadata or {}).items():
        if is_dask(value) or np.ndim(value):
            value = as_dask(value, f"Y_metadata[{key!r}]", rows)
            value = value[:, 0] if value.ndim == 2 else value
        values[key] = value
    return values


def blocks_of(array: Any, X: Any = None) -> list[Delayed]:
    """Blocks of rows of a Dask array, the same rows as the blocks of X."""
    if X is not None:
        array = array.rechunk((X.chunks[0], *array.shape[1:]))
    return list(array.to_delayed().ravel())


def split_rows(values: Mapping[str, Any], X: Any) -> list[dict[str, Any]]:
    """A dict for each block of X: the block's rows of Dask arrays, other values as they are."""
    parts = [dict(values) for _ in X.chunks[0]]
    for key, value in values.items():
        if is_dask(value):
            for part, block in zip(parts, blocks_of(value, X), strict=True):
                part[key] = block
    return parts


class Posterior(Prediction):
    """What predictions are made of: priors, q and the likelihood. Small: it goes to every block."""

    def __init__(self, model: Any) -> None:
        priors, self._of_v = model._posterior()
        self._priors = [
            replace(p, kernel=copy_of(p.kernel), mean=copy_of(p.mean), L=p.L[:0], pull_Kuu=len)
            for p in priors
        ]
        self.likelihood, self.latents = copy_of(model.likelihood), model.latents
        self.X = np.empty((0, model.X.shape[1]))

    def _posterior(self) -> Any:
        return self._priors, self._of_v


def map_blocks(model: Any, method: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    """A prediction method on every block of a Dask array Xnew: lazy Dask arrays.

    Arguments with a row for each of Xnew's (targets, metadata) may be Dask arrays too.
    """
    given = inspect.signature(method).bind(model, *args, **kw).arguments
    del given["self"]
    X = as_dask(given.pop("Xnew"), "Xnew", unknown=True)
    X = X.rechunk({axis: -1 for axis in range(1, X.ndim)})
    metadata = row_values(given.pop("Y_metadata", None), X.shape[0])
    number, width = _outputs(method.__name__, model, given)
    for key in given:
        if key == "Ynew" or (key == "y" and np.ndim(given[key]) == 2):
            given[key] = as_dask(given[key], key, X.shape[0])
    posterior = dask.delayed(Posterior(model), traverse=False)
    columns: list[list[Any]] = [[] for _ in range(number)]
    parts = zip(blocks_of(X), split_rows(given, X), split_rows(metadata, X), strict=True)
    for n, (block, own, of_rows) in zip(X.chunks[0], parts, strict=True):
        extra = {"Y_metadata": of_rows} if of_rows else {}
        call = dask.delayed(_predict)(posterior, method.__name__, block, {**own, **extra})
        for i, column in enumerate(columns):
            column.append(da.from_delayed(call[i], (n, width), dtype=float))
    arrays = [da.concatenate(column) for column in columns]
    if method.__name__ == "predict_quantiles":
        return arrays
    return tuple(arrays) if number == 2 else arrays[0]


def _outputs(name: str, model: Any, given: Mapping[str, Any]) -> tuple[int, int]:
    """How many arrays a prediction method returns, and their columns."""
    if name == "predict_quantiles":
        return np.size(given.get("quantiles", (2.5, 97.5))), 1
    if name == "log_predictive_density":
        return 1, 1
    if name in ("predict_density", "predict_cdf"):
        return 1, 1 if np.ndim(given["y"]) == 2 else np.size(given["y"])
    if given.get("full_cov"):
        raise InputError("full_cov needs its rows in memory: give some, as X[:1000].compute().")
    return 2, len(model.latents) if name == "predict_latents" else 1


def _predict(posterior: Posterior, name: str, X: Array, given: dict[str, Any]) -> tuple[Array, ...]:
    """One block of a prediction."""
    made = getattr(posterior, name)(X, **given)
    return tuple(made) if isinstance(made, list | tuple) else (made,)
