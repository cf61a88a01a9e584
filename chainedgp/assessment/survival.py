"""Observed against predicted survival: curves of groups of rows, and risks up to a time.

The Kaplan–Meier curve of a group is compared with the curve that the model expects of the same
rows. Without entries that is the mean of their survival curves. A row that enters at e_i counts
from then on, as one that is alive at e_i:

    S̄(t) = Π_k Σ_i R_i(t_k) / Σ_i R_i(t_{k−1}),    R_i(t) = S_i(t)/S_i(e_i),

over steps of time t_k, each with the rows that have entered before it. All rows from the beginning
give the mean again. Both curves assume that censoring does not depend on the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..data.arguments import as_band, as_generator, positive_float, positive_int
from ..data.columns import Category, Column, Number
from ..data.frames import check_same_rows, comparable, index_of
from ..data.missing_metadata import unsaid, warn_of_unsaid
from ..data.rows import Rows, is_dask
from ..data.tables import Table
from ..data.types import Data, Metadata, Seed
from ..errors import InputError
from ..expectations import quadrature
from ..likelihoods.observation import EXACT, RIGHT, codes, of_event
from ..linalg import Array, Indices
from ..predictive.distribution import Predictive
from ..predictive.fitted import FittedModel
from ..predictive.inputs import column_of, need_rows
from .kaplan_meier import KaplanMeier

NODES, MANY = {1: 24, 2: 10}, 6
"""Quadrature nodes per latent in averages over q: with one latent, with two, and with more."""
STEPS = 60
"""Curves of groups with late entries are built in this many even steps of time, besides `times`."""
MOST_ROWS = 1000
"""The band of a group's mean curve comes from at most this many of its rows, evenly taken."""
FEW_VALUES = 4
"""An input with at most this many values has a group for each; others are cut at quantiles."""
TERTILES = 3
"""An input, or the predicted risk, is cut into this many groups of about equal size."""
RISK = "risk"  # by="risk" forms groups of rows by their predicted risk.


class SurvivalCheck(NamedTuple):
    """Observed (Kaplan–Meier) and predicted survival of G groups of rows at k times.

    times : (k,). groups : G names. observed : G `KaplanMeier` estimates.
    predicted : (G, k) curves that the model expects of the rows of each group.
    lower, upper : (G, k) ends of its credible bands; None if no bands were asked for.
    """

    times: Array
    groups: tuple[str, ...]
    observed: tuple[KaplanMeier, ...]
    predicted: Array
    lower: Array | None
    upper: Array | None

    def table(self) -> Table:
        """Observed and predicted survival with their ends, a row for each group and time."""
        ends = [np.stack(estimate.interval(self.times)) for estimate in self.observed]
        low, high = np.stack(ends, axis=1)  # (groups, times) each
        columns = {
            "observed": np.stack([estimate(self.times) for estimate in self.observed]),
            "observed lower": low,
            "observed upper": high,
            "predicted": self.predicted,
        }
        if self.lower is not None and self.upper is not None:
            columns |= {"lower": self.lower, "upper": self.upper}
        index = tuple(f"{group}, {t:.4g}" for group in self.groups for t in self.times)
        return Table(index, {name: values.ravel() for name, values in columns.items()}, {})

    def __repr__(self) -> str:
        return str(self.table())


def survival_check(
    model: FittedModel,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    by: int | str | Data | None = None,
    times: Data | None = None,
    bands: tuple[float, float] | None = (2.5, 97.5),
    size: int = 100,
    rng: Seed = 0,
) -> SurvivalCheck:
    """Kaplan–Meier curves of groups of rows, and the survival that a model predicts for them.

    Parameters
    ----------
    X, Y, Y_metadata : the rows, with `censored` and `entry` among the metadata; None takes those
        of the model. Events must be observed or right-censored.
    by : the groups. An input, by index or name: the levels of a category, the values of another
        input where there are four at most, else its thirds. "risk" takes thirds of the predicted
        risk, and None makes one group of all rows. An array (n,) gives each row its group; it may
        have the rows that missing="drop" left out. A Series must have the rows in their order, or,
        if it is longer, their labels in its index.
    times : (k,) ascending, positive; None is an even grid up to the 98 % quantile of Y.
    bands : percentages of the bands of the predicted curves over q, or None.
    size, rng : number of joint draws from q for the bands, and their seed.
    """
    rows = _rows(model, X, Y, Y_metadata)
    times = _times(rows.y, times)
    kw = of_event(rows.metadata)
    predictive = model.predictive(rows.X, kw)
    names, member = _groups(model, rows, predictive, by)
    observed, curves = [], []
    for g in range(len(names)):
        some = np.flatnonzero(member == g)
        observed.append(_kaplan_meier(rows[some]))
        curves.append(_curve(model, rows[some], times, bands, size, rng))
    predicted, *ends = (np.stack(parts) for parts in zip(*curves, strict=True))
    return SurvivalCheck(times, names, tuple(observed), predicted, *(ends or (None, None)))


def survival_calibration(
    model: FittedModel,
    t: float,
    X: Data | None = None,
    Y: Data | None = None,
    Y_metadata: Metadata = None,
    *,
    groups: int = 10,
    level: float = 0.95,
) -> Table:
    """Predicted against observed risk of an event up to time t, in groups of like predicted risk.

    The rows are sorted by 1 − S_i(t) and cut into groups of equal size. The observed risk of a
    group is 1 − Kaplan–Meier at t, with its confidence interval; NaN where t is after the last time
    of a group. If the model is right, most intervals contain the predicted risk.

    Parameters
    ----------
    t : the time. X, Y, Y_metadata : the rows, as in `survival_check`; best rows to which the
        model was not fitted.
    groups : number of groups. level : of the confidence intervals.

    Returns
    -------
    Table : a row for each group: rows, events up to t, predicted, observed, lower, upper.
    """
    t, groups = positive_float(t, "t"), positive_int(groups, "groups")
    rows = _rows(model, X, Y, Y_metadata)
    if t > rows.y.max():
        raise InputError(
            f"t = {t:g} is after the last time of all rows, {rows.y.max():g}: nothing was observed "
            "there. Give an earlier time."
        )
    if groups > rows.num_rows:
        raise InputError(f"groups must be at most the number of rows, {rows.num_rows}.")
    predictive = model.predictive(rows.X, of_event(rows.metadata))
    risk = 1.0 - _Latents.nodes(predictive).survival(t)[0]
    table: dict[str, list[float]] = {
        name: [] for name in ("rows", "events", "predicted", "observed", "lower", "upper")
    }
    for some in np.array_split(np.argsort(risk, kind="stable"), groups):
        part = rows[some]
        curve = _kaplan_meier(part)
        lower, upper = curve.interval(t, level)
        early = (part.y <= t) & (codes(part.metadata.get("censored")) == EXACT)
        expected = _curve(model, part, np.array([t]), None, 0, 0)[0][0]
        found = len(some), early.sum(), 1 - expected, 1 - curve(t), 1 - upper, 1 - lower
        for column, value in zip(table.values(), found, strict=True):
            column.append(float(value))
    index = tuple(f"group {g + 1}" for g in range(groups))
    return Table(index, {key: np.array(column) for key, column in table.items()}, {})


# ---- rows and groups ----------------------------------------------------------------------------


def _rows(model: FittedModel, X: Data | None, Y: Data | None, Y_metadata: Metadata) -> Rows:
    """Check the rows whose survival is compared with that predicted; default: the model's own."""
    likelihood = model.likelihood
    if not likelihood.event_times:
        raise InputError(
            f"survival is of event times; {type(likelihood).__name__} is no survival likelihood. "
            "plot_pit and plot_calibration look at other targets."
        )
    if (X is None) != (Y is None):
        raise InputError("X and Y belong together: give both, or neither for the model's own rows.")
    own = None
    if X is None or Y is None:
        if Y_metadata is not None:
            raise InputError("Y_metadata belong to X and Y: give these too.")
        need_rows(model, "X and Y")
        X, Y, Y_metadata = model.X, model.Y, model.Y_metadata
        own = getattr(model, "_data", None)
    if is_dask(X):
        raise InputError("these rows are Dask arrays; give some that fit into memory as X and Y.")
    predictor = model._predictor()
    rows = Rows.read(X, Y, Y_metadata, likelihood, columns=predictor.columns)
    if isinstance(own, Rows):
        rows = replace(rows, index=own.index, kept=own.kept)
    warn_of_unsaid(unsaid(predictor.told, rows.metadata))
    code = codes(rows.metadata.get("censored"))
    if not np.isin(code, (EXACT, RIGHT)).all():
        raise InputError(
            "a Kaplan–Meier curve needs times that were seen or are right-censored; some rows are "
            "left- or interval-censored. Leave these out."
        )
    return rows


def _times(y: Array, times: Data | None) -> Array:
    if times is None:
        return np.linspace(0.0, float(np.quantile(y, 0.98)), 101)[1:]
    t: Array = np.atleast_1d(np.asarray(times, dtype=float))
    if t.ndim != 1 or not ((np.diff(t) > 0.0).all() and (t > 0.0).all() and np.isfinite(t).all()):
        raise InputError("times must be (k,), positive and ascending.")
    return t


def _groups(
    model: FittedModel, rows: Rows, predictive: Predictive, by: int | str | Data | None
) -> tuple[tuple[str, ...], Indices]:
    """Names of the groups whose survival is compared, and the group of each row, (n,)."""
    n, inputs = rows.num_rows, list(model.input_names or [])
    if by is None:
        return ("all rows",), np.zeros(n, dtype=np.intp)
    if np.ndim(by) > 0:
        labels = np.asarray(_of_rows(by, rows)).ravel()
        if labels.shape != (n,):
            table = f", or of the {rows.num_given} of the table" * (rows.kept is not None)
            raise InputError(
                f"by must have one group for each of the {n} rows{table}; got {labels.size}."
            )
        found, member = np.unique(labels, return_inverse=True)
        return tuple(str(label) for label in found), member.ravel()
    if isinstance(by, str) and by == RISK and RISK not in inputs:
        risk = 1.0 - _Latents.nodes(predictive).survival(float(np.median(rows.y)))[0]
        return _cut(risk, Number(RISK), RISK, ("low", "middle", "high"))
    D = rows.X.shape[1]
    if isinstance(by, str) and by in inputs:
        column = inputs.index(by)
    elif isinstance(by, int | np.integer) and -D <= by < D:
        column = int(by) % D
    else:
        known = f" {', '.join(map(repr, inputs))}" if inputs else ""
        raise InputError(
            f"by must be an index below {D}, an input{known}, {RISK!r}, or an array of groups; got "
            f"{by!r}."
        )
    name = inputs[column] if inputs else "x" if D == 1 else f"x{column}"
    return _cut(np.asarray(rows.X[:, column], dtype=float), column_of(model, column), name)


def _of_rows(by: Any, rows: Rows) -> Any:
    """Groups of the rows: as given, or taken from those of a longer table.

    A longer Series that has the labels of the rows is taken by these, and else groups of the whole
    table, from which missing="drop" left out rows, by position. Raises InputError if a Series has
    the rows in another order.
    """
    own, index = rows.index, index_of(by)
    if own is not None and index is not None and comparable(own, index):
        found = own.isin(index)
        if len(index) > len(own) and found.any():
            return by.loc[own] if found.all() else by
        check_same_rows({"X": rows, "by": by})
    if rows.kept is not None and np.shape(by)[0] == rows.num_given:
        return np.asarray(by)[rows.kept[0]]
    return by


def _cut(
    values: Array, read: Column, name: str, words: Sequence[str] | None = None
) -> tuple[tuple[str, ...], Indices]:
    """Form groups of rows for survival curves: one for each value or level if few, else thirds.

    read : how the column was read from the data; it prints the values. words : names of the thirds.
    """
    found, member = np.unique(values, return_inverse=True)
    if words is None and (len(found) <= FEW_VALUES or isinstance(read, Category)):
        return tuple(f"{name} = {read.shown(value)}" for value in found), member.ravel()
    edges = np.unique(np.quantile(values, np.arange(1, TERTILES) / TERTILES))
    member = np.searchsorted(edges, values, side="left")
    ends = [read.shown(edge) for edge in edges]
    named = [f"{name} ≤ {ends[0]}"]
    named += [f"{low} < {name} ≤ {high}" for low, high in pairwise(ends)]
    named.append(f"{name} > {ends[-1]}")
    if words is not None and len(named) == len(words):
        named = [f"{word} {name}" for word in words]
    kept, member = np.unique(member, return_inverse=True)
    return tuple(named[g] for g in kept), member.ravel()


def _kaplan_meier(rows: Rows) -> KaplanMeier:
    censored = rows.metadata.get("censored", np.zeros(rows.num_rows))
    return KaplanMeier(rows.y, censored, rows.metadata.get("entry"), rows.weights)


# ---- what the model expects ---------------------------------------------------------------------


class _Latents:
    """Survival S(t | f) of n rows at K values of their latents f: quadrature nodes of q, or draws.

    latents : (K, n) each. weights : (K,) by which S is averaged over f; None keeps all K draws.
    """

    def __init__(
        self, predictive: Predictive, latents: tuple[Array, ...], weights: Array | None
    ) -> None:
        self._event, self._latents, self._weights = predictive._event, latents, weights
        self._rows = np.arange(len(predictive))

    @classmethod
    def nodes(cls, predictive: Predictive) -> _Latents:
        """Quadrature nodes of q(f) at every row: averages of S(t | f) are right to about 1e-5."""
        event = predictive._event
        rule = quadrature.rule_for(event.dim, NODES.get(event.dim, MANY))
        shape = (event.dim, *rule.weights.shape)
        z = np.stack([np.broadcast_to(x, rule.weights.shape) for x in rule.x]).reshape(shape[0], -1)
        _, latents = event.nodes(np.arange(len(predictive)), z[:, :, None])
        return cls(predictive, latents, rule.weights.ravel())

    def survival(self, t: float, since: Array | None = None) -> Array:
        """Survival S_i(t), given survival to `since` (n,) if told: (1, n), or (K, n) of draws."""
        with np.errstate(all="ignore"):
            log_S = self._log_survival(np.full(len(self._rows), t))
            if since is not None:
                log_S = np.where(since > 0.0, log_S - self._log_survival(since), log_S)
            S = np.exp(np.minimum(np.nan_to_num(log_S, nan=-np.inf), 0.0))
        return S if self._weights is None else (self._weights @ S)[None]

    def _log_survival(self, t: Array) -> Array:
        t = np.maximum(t, np.finfo(float).tiny)  # S(0) = 1.
        return self._event.log_survival(t, self._rows, self._latents)


def _curve(
    model: FittedModel,
    rows: Rows,
    times: Array,
    bands: tuple[float, float] | None,
    size: int,
    rng: Seed,
) -> list[Array]:
    """A group's predicted survival curve at the times, (k,), and with bands its two ends."""
    predictive = model.predictive(rows.X, of_event(rows.metadata))
    estimate = _expected(_Latents.nodes(predictive), rows, times)[0]
    if bands is None:
        return [estimate]
    levels = as_band(bands)
    some = rows.thinned(MOST_ROWS)
    size, generator = positive_int(size, "size"), as_generator(rng)
    draws = model._predictor().latent_draws(some.X, size, generator)  # (n, b, size)
    predictive = model.predictive(some.X, of_event(some.metadata))
    curves = _expected(_Latents(predictive, tuple(np.moveaxis(draws, 0, 2)), None), some, times)
    offset = estimate - curves.mean(0)  # The band is centred at the estimate of all rows.
    return [estimate, *np.clip(np.quantile(curves, levels, axis=0) + offset, 0.0, 1.0)]


def _expected(latents: _Latents, rows: Rows, times: Array) -> Array:
    """Predicted survival S̄ of a group of rows at the times: (1, k), or (K, k) of draws."""
    weights = np.ones(rows.num_rows) if rows.weights is None else np.asarray(rows.weights)
    entry = np.maximum(rows.metadata.get("entry", np.zeros(rows.num_rows)), 0.0)
    if not entry.any():
        whole = [latents.survival(t) @ weights for t in times]
        return np.stack(whole, axis=1) / weights.sum()
    grid = np.union1d(times, np.linspace(0.0, times[-1], STEPS + 1)[1:])
    now = latents.survival(0.0)
    total, found, before = np.ones(len(now)), [], 0.0
    for t in grid:
        inside = weights * (entry <= before)
        ahead = np.where(entry <= t, latents.survival(t, entry), 1.0)
        there = now @ inside
        total = total * np.divide(ahead @ inside, there, out=np.ones_like(there), where=there > 0)
        found.append(total)
        now, before = ahead, t
    return np.stack(found, axis=1)[:, np.searchsorted(grid, times)]
