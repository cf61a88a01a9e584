"""Rows cut into episodes, within which covariates are constant: start–stop rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..data.frames import check_order, frame_rows
from ..data.rows import as_row_values, as_targets, is_dask, rows_of
from ..data.types import Data, Metadata
from ..errors import InputError
from ..likelihoods.observation import LEFT, RIGHT, codes
from ..linalg import Array, Indices

__all__ = ["Episodes", "split_episodes"]


class Episodes(NamedTuple):
    """Start–stop rows, ready for a model: ChainedGP(e.X, e.Y, likelihood, Y_metadata=e.Y_metadata).

    X : (m, D) inputs, repeated; a frame stays one of its library. Y : (m,) ends of the episodes.
    Y_metadata : `censored` and `entry` of the episodes, and what the rows had, repeated.
    rows : (m,) which row each episode is of.
    """

    X: Data
    Y: Array
    Y_metadata: dict[str, Array]
    rows: Indices

    @property
    def start(self) -> Array:
        """Times (m,) at which the episodes begin."""
        return self.Y_metadata["entry"]


def split_episodes(
    X: Data, Y: Data, Y_metadata: Metadata = None, *, times: Data | Sequence[Data]
) -> Episodes:
    """Cut rows at given times into episodes, so that covariates may change there.

    A row that is followed from its entry e to y becomes (e, c₁], (c₁, c₂], …, (c_m, y] at the times
    c between. All but the last are right-censored, and the last has what the row had. As

        S(c₁)/S(e) · S(c₂)/S(c₁) ⋯ p(y)/S(c_m) = p(y)/S(e),

    the likelihood of the row is unchanged until an input of an episode is. This is so for every
    survival likelihood, whatever its hazard. Change the inputs that vary in the result:

        e = split_episodes(frame, time, {"censored": censored}, times=[1.0, 2.0])
        e.X["dose"] = dose_at(e.rows, e.start)

    This is then modelled: at every time the hazard is that of the likelihood with the inputs of
    that time. With a constant shape, `WeibullSurvival().with_constant("log_shape")`, these are the
    proportional hazards of a Cox model with covariates that vary in time. Log-logistic and
    log-normal times have proper hazards too, but not those of an accelerated clock: there the whole
    path of an input would count, here only its present value does.

    Parameters
    ----------
    X, Y, Y_metadata : rows as for `ChainedGP`: inputs, times, `censored`, `entry`, weights, others.
    times : (k,) times at which all rows are cut, or a sequence of n such, one for each row. Times
        outside a row's follow-up do nothing. A left-censored row stays whole, and one that is known
        to an interval is cut before it only: inside, nobody knows in which episode the event was.
    """
    if is_dask(X):
        raise InputError("X is a Dask array; split the rows of its blocks where they are made.")
    check_order(X, Y, Y_metadata)
    y = as_targets(Y, np.size(Y), "Y")
    n = len(y)
    if len(np.asarray(X) if isinstance(X, list | tuple) else X) != n:  # type: ignore[arg-type]
        raise InputError(f"X must have a row for each of the {n} times in Y.")
    given = {
        key: as_row_values(value, f"Y_metadata[{key!r}]", n, key == "y_upper")
        for key, value in (Y_metadata or {}).items()
    }
    code = codes(given.pop("censored", None)) + np.zeros(n)
    entry = np.maximum(given.pop("entry", np.zeros(n)), 0.0)
    if (entry > y).any():
        first = int(np.flatnonzero(entry > y)[0])
        raise InputError(f"row {first} ends at {y[first]:g}, before its entry {entry[first]:g}.")
    cuts = _cuts(times, n)
    starts, ends, rows = [], [], []
    for i in range(n):
        own = cuts[i] if code[i] != LEFT else cuts[i][:0]
        inside = own[(own > entry[i]) & (own < y[i])]
        starts.append(np.concatenate([[entry[i]], inside]))
        ends.append(np.concatenate([inside, [y[i]]]))
        rows.append(np.full(len(inside) + 1, i))
    which: Indices = np.concatenate(rows)
    last = np.append(which[1:] != which[:-1], True)
    metadata = {
        "censored": np.where(last, code[which], float(RIGHT)),
        "entry": np.concatenate(starts),
        **rows_of(given, which),
    }
    return Episodes(_repeated(X, which), np.concatenate(ends), metadata, which)


def _cuts(times: Data | Sequence[Data], n: int) -> list[Array]:
    """Sorted times at which each row is cut."""
    parts = list(times) if np.iterable(times) else [times]
    if parts and any(np.ndim(part) for part in parts):
        if len(parts) != n:
            raise InputError(
                f"times must be (k,), or one sequence for each of the {n} rows; got {len(parts)}."
            )
        return [_sorted(part) for part in parts]
    return [_sorted(np.asarray(parts, dtype=float))] * n


def _sorted(times: Data) -> Array:
    found = np.unique(np.atleast_1d(np.asarray(times, dtype=float)))
    if found.ndim != 1 or np.isnan(found).any():
        raise InputError("times must be numbers, the times at which rows are cut.")
    return found


def _repeated(X: Data, rows: Indices) -> Data:
    """Rows of X by their numbers, in a copy; a pandas frame gets a new index."""
    table = np.array(X) if isinstance(X, list | tuple) else X
    found = frame_rows(table, rows)
    return found.reset_index(drop=True) if hasattr(found, "reset_index") else found
