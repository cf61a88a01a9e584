"""Blocks of Dask arrays: rows of data as blocks, and predictions on every block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.rows import is_dask
from ..data.types import Data, Metadata
from ..errors import InputError
from ..linalg import Array

if TYPE_CHECKING:
    import dask.array as da
    from dask.delayed import Delayed

NUMBERS = "biuf"  # Dtypes of these kinds are numbers.
Predict = Callable[..., Array | list[Array] | tuple[Array, ...]]  # of a block X


def as_dask(value: Data, name: str, rows: int | None = None, unknown: bool = False) -> da.Array:
    """Make data a Dask array (n,) or (n, k), of known length unless `unknown` is allowed."""
    import dask.array as da

    if is_dask(value) and not isinstance(value, da.Array):
        raise InputError(
            f"{name} is a Dask {type(value).__name__}; expected a Dask array. For a data frame "
            f"give {name}.to_dask_array(lengths=True)."
        )
    array = value if isinstance(value, da.Array) else da.from_array(np.asarray(value))
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


def with_checked_blocks(array: da.Array, name: str) -> da.Array:
    """The same Dask array, but computing a block of another shape or type is an InputError."""
    if array.dtype == object:
        return array
    import dask.array as da

    # `from_array` turns a pandas series into blocks that are series; these are read as arrays.
    plain = isinstance(array._meta, np.ndarray)
    meta = array._meta if plain else np.empty((0,) * array.ndim, array.dtype)
    return da.map_blocks(_checked, array, name, dtype=array.dtype, meta=meta)


def _checked(block: Array, name: str, block_info: Any = None) -> Array:
    """Check that a computed block has the shape its Dask array states, and holds numbers."""
    if not block_info:
        return block
    own = block_info[None]
    said: object = tuple(own["chunk-shape"])
    found = np.shape(block)
    dtype, said_dtype = np.asarray(block).dtype, np.dtype(own["dtype"])
    numbers = dtype.kind in NUMBERS or said_dtype.kind not in NUMBERS
    if found == said and numbers:
        return block if isinstance(block, np.ndarray) else np.asarray(block)
    place, first = own["chunk-location"], own["array-location"][0][0]
    what = "is None" if block is None else f"has shape {found}"
    if found == said:
        what, said = f"has dtype {dtype}", said_dtype
    raise InputError(
        f"the block of {name} that begins with row {first} {what}; its Dask array says {said}. "
        f"Look at it by {name}.blocks{[*place]}.compute()."
    )


def row_values(metadata: Metadata, rows: int | None) -> dict[str, Data]:
    """Turn metadata with a value per row into Dask arrays (n,), and leave others as they are."""
    if metadata is not None and not isinstance(metadata, Mapping):
        kind = type(metadata).__name__
        raise InputError(f"Y_metadata must be a dict of per-row values; got {kind}.")
    values = {}
    for key, value in (metadata or {}).items():
        if is_dask(value) or np.ndim(value):
            name = f"Y_metadata[{key!r}]"
            value = with_checked_blocks(as_dask(value, name, rows), name)
            if value.ndim == 2 and value.shape[1] != 1:
                raise InputError(
                    f"{name} must be a scalar or have one value per row; got shape {value.shape}."
                )
            value = value[:, 0] if value.ndim == 2 else value
        values[key] = value
    return values


def blocks_of(array: da.Array, X: da.Array | None = None) -> list[Delayed]:
    """The blocks of rows of a Dask array, divided into the same rows as the blocks of X."""
    if X is not None:
        array = array.rechunk((X.chunks[0], *array.shape[1:]))
    return list(array.to_delayed().ravel())


def split_rows(values: Mapping[str, Data], X: da.Array) -> list[dict[str, Data | Delayed]]:
    """Divide per-row values like the blocks of X: one dict per block, other values as they are."""
    parts = [dict(values) for _ in X.chunks[0]]
    for key, value in values.items():
        if is_dask(value):
            for part, block in zip(parts, blocks_of(as_dask(value, key), X), strict=True):
                part[key] = block
    return parts


def map_blocks(
    predict: Predict,
    Xnew: Data,
    widths: Sequence[int],
    Y_metadata: Metadata = None,
    **by_row: Data,
) -> list[Array]:
    """Apply `predict(X, …)` to every block of a Dask array Xnew, lazily; returns Dask arrays.

    Parameters
    ----------
    predict : gives one array (n, width), or several, for a block X (n, D) and, by keyword, for the
        block's own rows of `Y_metadata` and of `by_row`. It goes to every block.
    widths : columns of each array that `predict` returns.
    Y_metadata, by_row : values with a row for each of Xnew's; they may be Dask arrays too.
    """
    import dask.array as da
    from dask import delayed

    X = as_dask(Xnew, "Xnew", unknown=True)
    X = X.rechunk({axis: -1 for axis in range(1, X.ndim)})
    metadata = row_values(Y_metadata, X.shape[0])
    values = {key: as_dask(value, key, X.shape[0]) for key, value in by_row.items()}
    sent = delayed(predict, traverse=False)
    columns: list[list[da.Array]] = [[] for _ in widths]
    parts = zip(blocks_of(X), split_rows(values, X), split_rows(metadata, X), strict=True)
    for n, (block, own, of_rows) in zip(X.chunks[0], parts, strict=True):
        extra = {"Y_metadata": of_rows} if of_rows else {}
        call = delayed(_predicted)(sent, block, {**own, **extra})
        for i, (column, width) in enumerate(zip(columns, widths, strict=True)):
            column.append(da.from_delayed(call[i], (n, width), dtype=float))
    return [da.concatenate(column) for column in columns]


def _predicted(predict: Predict, X: Array, given: dict[str, object]) -> tuple[Array, ...]:
    """Predict on one block of rows; the result is always a tuple of arrays."""
    made = predict(X, **given)
    return tuple(made) if isinstance(made, list | tuple) else (made,)
