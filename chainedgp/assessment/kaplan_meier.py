"""Survival without a model: Kaplan–Meier curves and Aalen–Johansen cumulative incidences.

At every time s there are r_s rows at risk, which have entered before s and have not gone before it,
and d_s of them have their event. A row of weight w counts as w rows.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..data.arguments import fraction
from ..data.frames import check_same_rows
from ..data.rows import as_row_values, as_targets
from ..data.types import Data
from ..errors import CensoringWarning, InputError, quoted, warn
from ..likelihoods.observation import EXACT, RIGHT
from ..linalg import Array, Indices

NOTHING = 1e-12
"""A survival probability below this is 0, but for the rounding of sums of weights."""
MISSING = ("<NA>", "NaT")
"""Missing values of pandas are printed as one of these."""


class RiskSets(NamedTuple):
    """Sets at risk: times at which rows leave, how many are at risk then, how many leave and why.

    times : (m,) sorted. at_risk : (m,). counts : (K, m), rows that leave for reasons 0 to K − 1.
    """

    times: Array
    at_risk: Array
    counts: Array


def risk_sets(
    y: Array,
    reason: Indices,
    entry: Data | None,
    weights: Data | None,
    num_reasons: int = 2,
) -> RiskSets:
    """Find the sets at risk, for Kaplan–Meier curves, at all times at which rows leave.

    y, reason : (n,) times at which the rows leave, and for which of the reasons 0, 1, …
    entry : (n,) times after which the rows are followed; None is from the beginning. Rows that end
        where they enter were never followed, and are left out. An entry after the end is an error.
    weights : (n,) of the rows, or None for 1.
    """
    weights = _as_weights(weights, len(y))
    if entry is not None:
        entry = as_row_values(entry, "entry", len(y))
        if (entry > y).any():
            i = int(np.flatnonzero(entry > y)[0])
            raise InputError(
                f"row {i} goes at {y[i]:g}, before its entry {entry[i]:g}. Leave such rows out, or "
                "correct them."
            )
        followed = entry < y
        y, entry, weights = (a[followed] for a in (y, entry, weights))
        reason = reason[followed]
    times, which = np.unique(y, return_inverse=True)
    counts: Array = np.zeros((num_reasons, len(times)))
    np.add.at(counts, (reason, which.ravel()), weights)
    started = np.full(len(times), weights.sum())
    if entry is not None:
        started = _weight_before(entry, weights, times)
    gone = counts.sum(0)
    return RiskSets(times, started - np.cumsum(gone) + gone, counts)


def _as_weights(weights: Data | None, rows: int) -> Array:
    """Row weights (n,) of a Kaplan–Meier estimate: as given, none of them negative, or all 1."""
    values = np.ones(rows) if weights is None else as_row_values(weights, "weights", rows)
    if (values < 0.0).any():
        first = int(np.flatnonzero(values < 0.0)[0])
        raise InputError(f"weights must not be negative; row {first} is {values[first]:g}.")
    return values


def _weight_before(values: Array, weights: Array, t: Array) -> Array:
    """Sum of the weights of the rows whose time is below t, of t's shape, for sets at risk."""
    order = np.argsort(values, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(weights[order])])
    return total[np.searchsorted(values[order], t, side="left")]


def _check_times(y: Array) -> None:
    """Raise InputError if there are no rows of event times, or some time is negative."""
    if not y.size:
        raise InputError("y is empty: give the time of one row or more.")
    if (y < 0.0).any():
        first = int(np.flatnonzero(y < 0.0)[0])
        raise InputError(
            f"y must be times from 0 on; row {first} is {y[first]:g}. Count time from where the "
            "follow-up of each row begins."
        )


def _at_times(t: Data) -> Array:
    """Check the times at which a survival curve is asked for, of any shape."""
    times = np.asarray(t, dtype=float)
    if np.isnan(times).any():
        raise InputError("t has a value that is missing (NaN); a curve has values at numbers only.")
    return times


def events_and_times(y: Data, censored: Data) -> tuple[Array, np.ndarray]:
    """Read event times (n,), and whether they are right-censored (n,) bool."""
    y = np.asarray(y, dtype=float)
    y = as_targets(y, y.size, "y")
    code = as_row_values(censored, "censored", len(y))
    if not np.isin(code, (EXACT, RIGHT)).all():
        raise InputError("censored must be 0 (event seen) or 1 (right-censored) here.")
    return y, code == RIGHT


class KaplanMeier:
    """The Kaplan–Meier estimate of the survival function of times that may be right-censored.

        S(t) = Π_{s ≤ t} (1 − d_s/r_s),    var S(t) ≈ S(t)² Σ_{s ≤ t} d_s/(r_s (r_s − d_s)),

    the variance by Greenwood's formula.

    Parameters
    ----------
    y, censored : (n,) times, and 1 where the event comes after y, else 0; one number for all rows.
    entry : (n,) times after which the rows are followed (left truncation); None is from the
        beginning. If only a few rows are at risk at first, the curve depends on these.
    weights : (n,) row weights, or None for 1.

    Attributes
    ----------
    times : (m,) times of events. at_risk, events : (m,) rows at risk and events there.
    values : (m,) the estimate from each of these times on. variances : (m,) of it.
    """

    def __init__(
        self, y: Data, censored: Data, entry: Data | None = None, weights: Data | None = None
    ) -> None:
        check_same_rows({"y": y, "censored": censored, "entry": entry, "weights": weights})
        y, late = events_and_times(y, censored)
        _check_times(y)
        sets = risk_sets(y, late.astype(np.intp), entry, weights)
        seen = sets.counts[0] > 0.0
        self.times, self.at_risk = sets.times[seen], sets.at_risk[seen]
        self.events = sets.counts[0][seen]
        left = np.maximum(self.at_risk - self.events, 0.0)
        left[left < NOTHING * self.at_risk] = 0.0
        self.values = np.cumprod(left / self.at_risk)
        with np.errstate(divide="ignore"):
            self._sum = np.cumsum(self.events / (self.at_risk * left))  # It becomes inf at S = 0.
        square = self.values**2
        self.variances = np.multiply(square, self._sum, out=np.zeros(len(square)), where=square > 0)
        self.last = float(sets.times[-1]) if len(sets.times) else 0.0
        self._rows = y, _as_weights(weights, len(y))
        self._entry = None if entry is None else as_row_values(entry, "entry", len(y))

    def __repr__(self) -> str:
        rows, events = len(self._rows[0]), f"{self.events.sum():g}"
        return f"<KaplanMeier of {rows} rows, {events} events, median {self.median:.4g}>"

    def __call__(self, t: Data) -> Array:
        """Estimated survival S(t) = P(T > t), of t's shape; NaN after the end if rows are left."""
        values = np.concatenate([[1.0], self.values])
        t = _at_times(t)
        S = values[np.searchsorted(self.times, t, side="right")]
        return np.where((t > self.last) & (S > 0.0), np.nan, S)

    def interval(self, t: Data, level: float = 0.95) -> tuple[Array, Array]:
        """Ends of a pointwise confidence interval of the survival curve S(t), each of t's shape.

            S(t)^{exp(±z σ(t)/log S(t))},    σ² = Σ_{s ≤ t} d_s/(r_s (r_s − d_s)),

        which is symmetric for log(−log S). Where S is 0 the lower end is 0, and the upper end is
        the one at the last time before. Before the first event the formula does not apply. The
        interval is then Clopper and Pearson's for r rows at risk at t without an event,

            (α/2)^{1/r} ≤ S(t) ≤ 1,    α = 1 − level.
        """
        t, level = _at_times(t), fraction(level, "level")
        z = float(ndtri(0.5 + 0.5 * level))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_S = np.log(self.values)
            width = z * np.sqrt(self._sum) / -log_S
            lower, upper = (np.exp(log_S * np.exp(sign * width)) for sign in (1.0, -1.0))
        none = self.values == 0.0
        before = upper[~none][-1] if (~none).any() else 1.0
        lower, upper = np.where(none, 0.0, lower), np.where(none, before, upper)
        at = np.searchsorted(self.times, t, side="right")
        known = ~np.isnan(self(t))
        low, high = (np.concatenate([[1.0], end])[at] for end in (lower, upper))
        low = np.where((at == 0) & (t > 0.0), self._least_without_event(t, level), low)
        return np.where(known, low, np.nan), np.where(known, high, np.nan)

    def number_at_risk(self, t: Data) -> Array:
        """Number at risk just before t, of t's shape; a row of weight w counts as w rows.

        These rows entered before t, or at 0 or before if t is 0, and leave at t or later.
        """
        t, (y, weights) = _at_times(t), self._rows
        entered = weights.sum()
        if self._entry is not None:
            entered = _weight_before(np.where(self._entry > 0.0, self._entry, -1.0), weights, t)
        return np.maximum(entered - _weight_before(y, weights, t), 0.0)

    def _least_without_event(self, t: Array, level: float) -> Array:
        """Lower end of the interval of S(t) before the first event: 0 where no row is at risk."""
        with np.errstate(divide="ignore"):
            return np.exp(np.log(0.5 * (1.0 - level)) / self.number_at_risk(t))

    @property
    def median(self) -> float:
        """The first time with survival S(t) ≤ ½; infinity if the curve stays above ½."""
        reached = self.times[self.values <= 0.5 + NOTHING]
        return float(reached[0]) if reached.size else np.inf


class AalenJohansen:
    """Cumulative incidences of competing events, estimated without a model.

        F_k(t) = Σ_{s ≤ t} S(s⁻) d_ks/r_s,    S(t) = Π_{s ≤ t} (1 − Σ_k d_ks/r_s),

    so that Σ_k F_k + S = 1.

    Parameters
    ----------
    y, cause : (n,) times, and what happened at each.
    censored : the value in `cause` of rows without an event; None if their cause is missing (None
        or NaN).
    entry, weights : as for `KaplanMeier`.

    Attributes
    ----------
    causes : the different events, sorted. times : (m,) times at which rows leave.
    """

    def __init__(
        self,
        y: Data,
        cause: Data,
        censored: Hashable = 0,
        entry: Data | None = None,
        weights: Data | None = None,
    ) -> None:
        check_same_rows({"y": y, "cause": cause, "entry": entry, "weights": weights})
        y = as_targets(y, np.size(y), "y")
        _check_times(y)
        self.causes, reason = cause_codes(cause, len(y), censored)
        sets = risk_sets(y, reason, entry, weights, len(self.causes) + 1)
        self.times, self.last = sets.times, float(sets.times[-1]) if len(sets.times) else 0.0
        hazards = sets.counts[1:] / np.where(sets.at_risk > 0.0, sets.at_risk, 1.0)
        left = np.maximum(1.0 - hazards.sum(0), 0.0)
        self._survival = np.concatenate([[1.0], np.cumprod(left)])
        steps = np.cumsum(self._survival[:-1] * hazards, axis=1)
        self._incidence = np.pad(steps, ((0, 0), (1, 0)))

    def __call__(self, t: Data) -> dict[Hashable, Array]:
        """Cumulative incidence F_k(t) of each cause, of t's shape; NaN after the last time."""
        t = _at_times(t)
        at = np.searchsorted(self.times, t, side="right")
        known = (t <= self.last) | (self._survival[-1] == 0.0)
        return {
            cause: np.where(known, F[at], np.nan)
            for cause, F in zip(self.causes, self._incidence, strict=True)
        }


def cause_codes(cause: Data, rows: int, censored: Hashable) -> tuple[list[Hashable], Indices]:
    """The causes of events, sorted, and each row's code: 0 if it is censored, k for the k-th cause.

    censored : the value in `cause` that stands for censored; None if a missing cause does.

    Raises InputError where a row has no cause, or where all are censored. Warns where no row is
    censored, unless causes are numbers and `censored` is 0.
    """
    values = np.asarray(cause)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (rows,):
        raise InputError(
            f"cause must have one entry for each of the {rows} rows; got shape {values.shape}."
        )
    listed = [_plain(entry) for entry in values.tolist()]
    censored = _plain(censored)
    if None in listed and censored is not None:
        raise InputError(
            f"cause of row {listed.index(None)} is missing. Give {censored!r} to rows in which "
            "nothing had happened yet; or give censored=None, if that is what a missing cause says."
        )
    found = set(listed) - {censored}
    if not found:
        raise InputError(f"all causes are {censored!r}, which says censored: there is no event.")
    try:
        causes = sorted(found)  # type: ignore[type-var]
    except TypeError:
        raise InputError(
            "cause has numbers and text; give one or the other, and `censored` of the same kind."
        ) from None
    _warn_if_never(censored, listed, causes)
    number = {name: k + 1 for k, name in enumerate(causes)}
    codes: Indices = np.array([number.get(entry, 0) for entry in listed], dtype=np.intp)
    return causes, codes


def _plain(entry: Hashable) -> Hashable:
    """A cause of events as a plain Python value, None if it is missing."""
    if isinstance(entry, np.generic):
        entry = entry.item()
    if entry is None or isinstance(entry, str):
        return entry
    # A missing value of numpy or pandas differs from itself, or cannot tell whether it does.
    return None if str(entry) in MISSING or entry != entry else entry


def _warn_if_never(censored: Hashable, listed: list[Hashable], causes: list[Hashable]) -> None:
    """Warn if no row has the value that stands for censored, which may be misspelt."""
    numbers = isinstance(causes[0], int | float)
    if censored is None or censored in listed or (numbers and censored == 0):
        return
    warn(
        f"no row has the cause {censored!r}, which stands for censored, so every row counts as an "
        f"event. The causes are {quoted(causes)}. If one of these means that no event was seen, "
        "give it as `censored`; if all rows have an event, give censored=None.",
        CensoringWarning,
    )
