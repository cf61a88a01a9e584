"""Episodes: rows cut where covariates change with time, as start–stop rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..data.arguments import as_band
from ..data.frames import check_order, frame_rows
from ..data.rows import as_row_values, as_targets, is_dask, rows_of
from ..data.types import Data, Metadata, Seed
from ..errors import InputError
from ..expectations import special
from ..likelihoods.observation import LEFT, RIGHT, TINY, codes, of_event
from ..linalg import Array, Indices
from ..model import ChainedGP


class Episodes(NamedTuple):
    """Episodes of rows (start–stop), ready for a model.

    ChainedGP(e.X, e.Y, likelihood, Y_metadata=e.Y_metadata)

    X : (m, D) inputs, repeated; a frame stays one of its library. Y : (m,) ends of the episodes.
    Y_metadata : `censored` and `entry` of the episodes, and what the rows had, repeated.
    rows : (m,) which row each episode is of.
    """

    X: Data
    Y: Array
    Y_metadata: dict[str, Array]
    rows: Indices

    def __repr__(self) -> str:
        count = len(np.unique(self.rows))
        return f"<{len(self.rows)} episodes of {count} rows: X, Y, Y_metadata, rows, start>"

    @property
    def start(self) -> Array:
        """Times (m,) at which the episodes of rows begin."""
        return self.Y_metadata["entry"]


def split_episodes(
    X: Data, Y: Data, Y_metadata: Metadata = None, *, times: Data | Sequence[Data]
) -> Episodes:
    """Cut rows at given times into episodes, so that covariates may change there.

    A row that is followed from its entry e to y becomes (e, c₁], (c₁, c₂], …, (c_m, y] at the times
    c between. All but the last are right-censored, and the last has what the row had. As

        S(c₁)/S(e) · S(c₂)/S(c₁) ⋯ p(y)/S(c_m) = p(y)/S(e),

    splitting alone does not change the likelihood of the row, for every survival likelihood. Then
    set the inputs that vary:

        e = split_episodes(frame, time, {"censored": censored}, times=[1.0, 2.0])
        e.X["dose"] = dose_at(e.rows, e.start)

    In the model of the episodes the hazard at every time depends on the inputs at that time. With a
    constant shape, `WeibullSurvival().with_constant("log_shape")`, this is the proportional-hazards
    model with time-varying covariates, as in a Cox regression. Log-logistic and log-normal times
    have proper hazards too, but this is not the accelerated failure time model, in which the past
    of an input also matters.

    Parameters
    ----------
    X, Y, Y_metadata : rows as for `ChainedGP`: inputs, times, `censored`, `entry`, weights, others.
    times : (k,) times at which all rows are cut, or a sequence of n such, one for each row. Times
        outside a row's follow-up do nothing. A left-censored row stays whole. An interval-censored
        row is cut only before its interval, because the episode of the event is not known.
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


def episode_survival(
    model: ChainedGP,
    episodes: Episodes,
    bands: tuple[float, float] | None = None,
    *,
    size: int = 400,
    rng: Seed = 0,
) -> Array | tuple[Array, Array, Array]:
    """Survival to the end of each episode of rows whose inputs change with time, (m,).

    Given survival up to the start of the row's first episode, and with latents f_e at the inputs of
    episode (a_e, b_e],

        S = E_q[Π_e S(b_e | f_e)/S(a_e | f_e)]

    over the episodes of the row so far, by joint draws from q.

    Parameters
    ----------
    model : of event times. episodes : in the order of rows and times, as `split_episodes` makes
        them; how they ended (`censored`) does not matter.
    bands : percentages; then the result is (estimate, lower, upper), percentiles over the draws.
    size, rng : number of draws, and their seed.
    """
    if not model.likelihood.event_times:
        raise InputError(f"{type(model.likelihood).__name__} is no survival likelihood.")
    start, stop, rows = episodes.start, np.asarray(episodes.Y), np.asarray(episodes.rows)
    first = np.append(True, rows[1:] != rows[:-1])
    if (np.diff(rows) < 0).any() or ((start[1:] < stop[:-1]) & ~first[1:]).any():
        raise InputError("episodes must be in the order of their rows, and of time in each row.")
    beside = {
        key: value
        for key, value in of_event(episodes.Y_metadata).items()
        if key in model.likelihood.metadata_names
    }
    event = model.predictive(episodes.X, beside)._event
    draws = model.posterior_samples_f(episodes.X, size, rng)  # (m, b, size)
    latents, every = tuple(np.moveaxis(draws, 0, 2)), np.arange(len(rows))
    with np.errstate(all="ignore"):
        steps = event.log_survival(stop, every, latents)
        before = event.log_survival(np.maximum(start, TINY), every, latents)
        steps = np.where(start > 0.0, special.minus(steps, before), steps)  # (size, m)
    total = np.cumsum(steps, axis=1)
    offset = np.where(first, total - steps, 0.0)  # This is the sum over the rows before.
    S = np.exp(total - offset[:, np.maximum.accumulate(np.where(first, every, 0))])
    if bands is None:
        return S.mean(0)
    levels = as_band(bands)
    lower, upper = np.quantile(S, levels, axis=0)
    return S.mean(0), lower, upper


def _cuts(times: Data | Sequence[Data], n: int) -> list[Array]:
    """Sorted times at which each row is cut into episodes."""
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
    """Rows of X of the episodes by their numbers, in a copy; a pandas frame gets a new index."""
    table = np.array(X) if isinstance(X, list | tuple) else X
    found = frame_rows(table, rows)
    return found.reset_index(drop=True) if hasattr(found, "reset_index") else found
