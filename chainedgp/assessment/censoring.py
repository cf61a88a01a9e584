"""Weights for scores of event times of which some are right-censored (IPCW).

Up to a horizon τ the time min(T, τ) of a row is known if its event was seen, or if the row was
followed to τ. A row that happens to be known stands for 1/P(known) rows, the inverse probability of
censoring weights (IPCW). So the weighted mean of any score of min(T, τ) has the mean that it would
have without censoring, if censoring depends neither on the time nor on x. Times after τ, of which
nothing is known, do not enter.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ..data.frames import check_same_rows
from ..data.rows import as_targets
from ..data.types import Data
from ..errors import InputError
from ..likelihoods.observation import EXACT, INTERVAL, RIGHT, codes
from ..linalg import Array
from ..predictive.distribution import Predictive
from .kaplan_meier import events_and_times, risk_sets

Entry: TypeAlias = Data | None
Train: TypeAlias = tuple[Data, Data] | tuple[Data, Data, Entry] | tuple[Data, Data, Entry, Entry]
"""Times, censoring and, if there are any, entries and weights of the rows that estimate G."""
LEAST_FOLLOWED = 0.1
"""The default horizon is the last time that this share of rows would reach uncensored, by G."""


class Censoring:
    """Kaplan–Meier estimate of the survival function G of the times at which rows are censored.

        G(t) = Π_{s ≤ t} (1 − c_s/(r_s − d_s)),

    c, d, r the weights of the rows that are censored, that die and that are at risk at s: entered
    before s and not gone before it. Who dies at s is not at risk of being censored there.

    Parameters
    ----------
    y, censored : (n,) times, and 1 where the event comes after y, else 0.
    entry : (n,) times from which on the rows are followed; None is from the beginning.
    weights : (n,) row weights; None is 1.
    """

    def __init__(
        self, y: Data, censored: Data, entry: Data | None = None, weights: Data | None = None
    ) -> None:
        check_same_rows({"y": y, "censored": censored, "entry": entry, "weights": weights})
        y, censored = events_and_times(y, censored)
        sets = risk_sets(y, censored.astype(np.intp), entry, weights)
        self.times, (died, lost) = sets.times, sets.counts
        at_risk = sets.at_risk - died  # Those who died at s cannot be censored at s.
        steps = 1.0 - np.divide(lost, at_risk, out=np.zeros(len(lost)), where=lost > 0.0)
        self.values = np.concatenate([[1.0], np.cumprod(np.maximum(steps, 0.0))])
        self.values[self.values < 1e-12] = 0.0  # Only rounding of sums of weights makes it not 0.

    def __call__(self, t: Array) -> Array:
        """Kaplan–Meier estimate of G(t) = P(C > t), of the time C of censoring."""
        return self.values[np.searchsorted(self.times, t, side="right")]

    def before(self, t: Array) -> Array:
        """Kaplan–Meier estimate of G(t⁻) = P(C ≥ t), of the time C of censoring."""
        return self.values[np.searchsorted(self.times, t, side="left")]

    @property
    def horizon(self) -> float:
        """The last observed time t with G(t⁻) ≥ `LEAST_FOLLOWED`, up to which to score."""
        followed = self.times[self.values[:-1] >= LEAST_FOLLOWED]
        return float(followed[-1]) if followed.size else np.inf


class Known(NamedTuple):
    """What is known of right-censored event times up to a horizon τ, with weights for scores.

    y : (n,) min(T, τ) of the rows that have a weight.
    weights : (n,) with a mean of 1, and 0 for rows that were censored before the horizon.
    horizon : τ, infinity where no row is censored.
    """

    y: Array
    weights: Array
    horizon: float


def known_rows(
    predictive: Predictive,
    y: Array,
    name: str,
    train: Train | None,
    tau: float | None,
) -> Known:
    """Find the rows whose event times are known up to a horizon, and their weights for a score.

    Parameters
    ----------
    y : (n,) times, censored as the predictive's metadata say.
    name : the name of the score, for error messages.
    train : (y, censored), or (y, censored, entry), of the rows from which G is estimated; None
        takes the given rows.
    tau : the horizon τ; None takes that of G, and infinity where no row is censored and no
        other rows are given.
    """
    code = codes_of(predictive)
    if tau is not None and not (np.ndim(tau) == 0 and tau > 0.0):
        raise InputError(
            f"tau must be a positive number, the time up to which to score; got {tau!r}."
        )
    if not np.isin(code, (EXACT, RIGHT)).all():
        count = int((~np.isin(code, (EXACT, RIGHT))).sum())
        raise InputError(
            f"{name} needs times that were seen or are right-censored; {count} of {len(y)} rows "
            "are left- or interval-censored. nlpd, pit, interval_coverage and d_calibration take "
            "them; or leave these rows out."
        )
    censored, entry = code == RIGHT, predictive._seen.kw.get("entry")
    if train is None and not censored.any():
        horizon = np.inf if tau is None else float(tau)
        return Known(np.minimum(y, horizon), np.ones(len(y)), horizon)
    G = Censoring(*((y, censored, entry) if train is None else train))
    horizon = G.horizon if tau is None else float(tau)
    y, known = np.minimum(y, horizon), ~censored | (y >= horizon)
    at = G.before(y)
    if (at[known] <= 0.0).any():
        raise InputError(
            f"{int((at[known] <= 0.0).sum())} events lie where no one was left to be censored; "
            "choose tau before the last censoring time."
        )
    since = 1.0 if entry is None else G(np.maximum(entry, 0.0))
    weights = np.divide(since, at, out=np.zeros(len(y)), where=known)
    if not weights.any():
        raise InputError(
            f"{name}: every row is censored before {horizon:g}; give a smaller tau, or use nlpd."
        )
    return Known(y, weights / weights.mean(), horizon)


def codes_of(predictive: Predictive, censored: Data | None = None) -> Array:
    """Censoring codes (n,) of rows: those given, which must agree with what `predictive` was told.

    An interval without an upper end counts as right-censored.
    """
    told = predictive._seen.kw.get("censored")
    if censored is None:
        censored = np.zeros(len(predictive)) if told is None else told
    code = codes(as_targets(censored, len(predictive), "censored"))
    if told is not None and (code != told).any():
        raise InputError(
            f"censored differs from what the predictive distribution was told in "
            f"{int((code != told).sum())} of {len(code)} rows; leave it out to use the latter."
        )
    endless = predictive._seen.kw.get("y_upper", np.zeros(len(code))) == np.inf
    return np.where((code == INTERVAL) & endless, RIGHT, code)
