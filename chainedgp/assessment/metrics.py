"""Metrics of predictions: scores of distributions, calibration, and measures for survival.

`predictive` is a `Predictive` of n rows (`m.predictive(Xnew, Y_metadata)`), and y has their
targets, (n,) or (n, 1). Its metadata say how the rows were observed (`censored`, `y_upper`,
`entry`); a score accounts for this, or raises an error. With an entry, the scored distribution is
that of y given y > entry. Survival scores take times and `censored` (0 observed, 1 right-censored).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

from ..data.arguments import as_generator, fraction
from ..data.frames import check_same_rows
from ..data.labels import coded
from ..data.missing_metadata import unsaid, warn_of_unsaid
from ..data.names import checks_names
from ..data.rows import as_targets
from ..data.types import Data, Seed
from ..errors import InputError
from ..likelihoods.observation import EXACT, LEFT, RIGHT
from ..linalg import Array
from ..predictive.distribution import Predictive
from ..predictive.observed import ObservedLaw, pit_ends
from .censoring import Censoring, Known, Train, codes_of, known_rows
from .crps import mean_up_to, ranked_probability_score
from .kaplan_meier import events_and_times

__all__ = [
    "DCalibration",
    "brier_score",
    "concordance_harrell",
    "concordance_uno",
    "crps",
    "d_calibration",
    "integrated_brier_score",
    "interval_coverage",
    "interval_width",
    "mae",
    "nlpd",
    "pit",
    "quantile_residuals",
    "rmse",
]

PAIRS = 4_000_000  # Concordance compares this many pairs of rows at once, so memory stays bounded.
TIED = 1e-12  # Risks that differ by at most this share of the larger, by rounding, count as tied.
PREDICTIVE = "predictive"  # Messages about rows call a predictive so.
RISKS = "a number for each row, higher for earlier events, such as -predictive.ppf(0.5)"


# ---- distributions -------------------------------------------------------------------------------


@checks_names
def nlpd(predictive: Predictive, y: Data) -> float:
    """Negative log predictive density, −mean_i log p(y_i): lower is better.

    A censored row (by the predictive's metadata) counts with the probability of what was seen.
    """
    y = _targets(predictive, y)
    return float(-np.mean(predictive.logpdf(y[:, None])))


@checks_names
def crps(
    predictive: Predictive, y: Data, train: Train | None = None, tau: float | None = None
) -> Array:
    """Continuous ranked probability score of each row, (n,): lower is better, in units of y.

        CRPS = ∫ (F(z) − [y ≤ z])² dz = ∫_{−∞}^y F² dz + ∫_y^∞ (1 − F)² dz,

    for counts the sum over k of (F(k) − [y ≤ k])². The integral runs between quantiles of 1e-6 and
    1 − 1e-6, in panels that end at quantiles, at atoms and at y, over log z for positive targets.
    For a point forecast it is the absolute error. It exists where E[min(y, y')] does: for a
    log-logistic with a shape over ½, without a mean.

    Where rows are right-censored the integral ends at the horizon τ, and the score of a row is
    multiplied by [known]/G(min(y, τ)), divided by the mean of these weights, where a row is known
    if its event was seen or it was followed to τ, and G is the Kaplan–Meier estimate of the
    survival function of the censoring. The mean over the rows is then what it would be without
    censoring; the score of a single row means little. Other censoring is an error: use `nlpd`.

    Parameters
    ----------
    train : (y, censored) of the rows from which G is estimated; None takes the given rows.
    tau : the horizon τ; None takes the last time up to which a tenth of the rows is followed.
    """
    y = _targets(predictive, y)
    known = known_rows(predictive, y, "crps", train, tau)
    return known.weights * ranked_probability_score(predictive, known.y, known.horizon)


@checks_names
def interval_coverage(predictive: Predictive, y: Data, level: float = 0.95) -> float:
    """Fraction of targets inside the central interval: mean_i [l_i ≤ y_i ≤ u_i], nominally `level`.

    For counts, whose intervals hold more than `level`, it is above it even for the true model. A
    censored row counts with the probability that it is inside, given what was seen of it.
    """
    return float(np.mean(inside_interval(predictive, _targets(predictive, y), level)))


def inside_interval(predictive: Predictive, y: Array, level: float) -> Array:
    """Whether each row's target is inside its central predictive interval, (n,).

    With the ends of the PIT, F(y⁻) and F(y), a row that was seen counts 1 if F(y) ≥ α/2 and
    F(y⁻) < 1 − α/2, α = 1 − level, else 0. A censored row counts with the probability that its
    target is inside: the share of the range between its PIT ends that lies between α/2 and 1 − α/2.
    """
    margin = 0.5 - 0.5 * fraction(level, "level")
    lower, upper = pit_ends(predictive, y)
    inside = 1.0 * ((upper >= margin) & (lower < 1.0 - margin))
    shared = np.clip(upper, margin, 1.0 - margin) - np.clip(lower, margin, 1.0 - margin)
    wide = (codes_of(predictive) != EXACT) & (upper > lower)
    return np.divide(shared, upper - lower, out=inside, where=wide)


@checks_names
def interval_width(predictive: Predictive, level: float = 0.95) -> float:
    """Mean width of the central predictive interval, mean_i (u_i − l_i)."""
    lower, upper = predictive.interval(level)
    return float(np.mean(upper - lower))


@checks_names
def pit(predictive: Predictive, y: Data, rng: Seed = 0) -> Array:
    """Probability integral transform of each row, (n,): uniform on (0, 1) if the model is right.

        u_i = F(y_i⁻) + V_i (F(y_i) − F(y_i⁻)),   V_i ~ U(0, 1) from `rng`,

    which is F(y_i) where y is continuous and randomised over the jump for counts and atoms. A
    censored time is randomised over all that it may have been: F(y_i) to 1 if it is right-censored.
    """
    y = _targets(predictive, y)
    lower, upper = pit_ends(predictive, y)
    return lower + as_generator(rng).uniform(size=len(y)) * np.maximum(upper - lower, 0.0)


@checks_names
def quantile_residuals(predictive: Predictive, y: Data, rng: Seed = 0) -> Array:
    """Quantile residuals, or z-scores, r_i = Φ⁻¹(u_i) of the `pit` u_i, (n,).

    They are independent standard normal numbers if the model is right, for every likelihood:
    randomised over the jump for counts and atoms, and over all that a censored target may have
    been. A target so far above all others that F(y) is 1 to rounding has the residual 8.2.
    """
    return ndtri(np.clip(pit(predictive, y, rng), np.finfo(float).tiny, 1.0 - 2.0**-53))


@checks_names
def mae(prediction: Data, y: Data, train: Train | None = None, tau: float | None = None) -> float:
    """Mean absolute error, mean_i |ŷ_i − y_i|; ŷ (n,) or (n, 1), or a predictive's median.

    If rows of a predictive are right-censored, it is the error of min(ŷ, τ) for min(y, τ), weighted
    as in `crps`, which explains `train` and `tau`. With predictions (n,) all targets count as seen.
    """
    return _mean_error(prediction, y, "mae", train, tau)


@checks_names
def rmse(prediction: Data, y: Data, train: Train | None = None, tau: float | None = None) -> float:
    """Root mean squared error, sqrt(mean_i (ŷ_i − y_i)²); ŷ (n,), (n, 1) or a predictive's mean.

    If rows of a predictive are right-censored, it is the error of E[min(y, τ)] for min(y, τ),
    weighted as in `crps`, which explains `train` and `tau`. For predictions (n,) all targets count
    as observed.
    """
    return float(np.sqrt(_mean_error(prediction, y, "rmse", train, tau)))


def _mean_error(
    prediction: Data, y: Data, name: str, train: Train | None, tau: float | None
) -> float:
    """The metric "mae", the mean absolute error, or for "rmse" the mean squared error."""
    weights: Any = 1.0
    if isinstance(prediction, Predictive):
        known = known_rows(prediction, _targets(prediction, y), name, train, tau)
        point = median_of if name == "mae" else mean_of
        prediction, y, weights = point(prediction, known), known.y, known.weights
    elif train is not None or tau is not None:
        raise InputError(
            f"{name}: train and tau are for a Predictive whose rows are censored; predictions "
            f"(n,) are scored against targets that were all seen."
        )
    errors = np.abs(_errors(prediction, y))
    return float(np.mean(weights * (errors if name == "mae" else errors**2)))


def median_of(predictive: Predictive, known: Known) -> Array:
    """The best guess of min(y, τ) by absolute error, (n,): the predictive median, cut at τ."""
    return np.minimum(ObservedLaw(predictive).ppf(np.array([0.5]))[:, 0], known.horizon)


def mean_of(predictive: Predictive, known: Known) -> Array:
    """The best guess of min(y, τ) by squared error, (n,): the predictive mean."""
    if known.horizon < np.inf:
        return mean_up_to(predictive, known.horizon)
    mean = predictive.mean[:, 0]
    if not ObservedLaw(predictive).entered.any():
        return mean
    return np.where(np.isfinite(mean), mean_up_to(predictive, np.inf), mean)


# ---- survival ------------------------------------------------------------------------------------


@checks_names
def concordance_harrell(risk: Data, y: Data, censored: Data) -> float:
    """Harrell's concordance: the fraction of comparable pairs that the risk puts in order.

    (i, j) is comparable if i had its event and y_i < y_j, or y_i = y_j and j is censored. It counts
    1 if risk_i > risk_j and ½ if they are tied.

    Parameters
    ----------
    risk : (n,) or (n, 1), higher for earlier events, such as −median of a predictive.
    y, censored : (n,) times, and 1 where the event comes after y.
    """
    check_same_rows({"risk": risk, "y": y, "censored": censored})
    y, censored = events_and_times(y, censored)
    risk = _one_per_row(risk, len(y), "risk", RISKS)
    return _concordance(risk, y, censored, np.ones(len(y)))


@checks_names
def concordance_uno(
    risk: Data,
    y: Data,
    censored: Data,
    train: Train | None = None,
    tau: float | None = None,
) -> float:
    """Uno's concordance: pairs as Harrell's, weighted 1/G(y_i)², so that censoring does not matter.

    G is the Kaplan–Meier estimate of the survival function of the censoring times.

    Parameters
    ----------
    risk, y, censored : as in `concordance_harrell`.
    train : (y, censored) of the rows from which G is estimated; None takes the given rows.
    tau : pairs whose first event is at tau or later are left out.
    """
    check_same_rows({"risk": risk, "y": y, "censored": censored})
    y, censored = events_and_times(y, censored)
    risk = _one_per_row(risk, len(y), "risk", RISKS)
    G = Censoring(*((y, censored) if train is None else train))
    used = ~censored if tau is None else ~censored & (y < tau)
    at = G(y)
    if (at[used] <= 0.0).any():
        raise InputError(
            f"{int((at[used] <= 0.0).sum())} events lie where no one was left to be censored; "
            "choose tau before the last censoring time."
        )
    weights = np.divide(1.0, at, out=np.zeros(len(y)), where=used) ** 2
    return _concordance(risk, y, censored, weights)


@checks_names
def brier_score(
    survival: Data, times: Data, y: Data, censored: Data, train: Train | None = None
) -> Array:
    """Brier score at each time, (k,), with inverse probability of censoring weights (Graf 1999).

        BS(t) = mean_i S_i(t)² [y_i ≤ t, seen]/G(y_i) + (1 − S_i(t))² [y_i > t]/G(t)

    For a predictive whose rows have an entry e_i, S_i(t) is given T > e_i, and the weights are
    multiplied by G(e_i).

    Parameters
    ----------
    survival : S_i(t), (n, k), or a predictive of a survival likelihood.
    times : (k,), ascending.
    y, censored : (n,).
    train : (y, censored), or (y, censored, entry), for the Kaplan–Meier estimate G of the
        censoring; None takes the rows.
    """
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if times.ndim != 1 or not (np.diff(times) > 0.0).all():
        raise InputError("times must be (k,), ascending.")
    check_same_rows({_called(survival, "survival"): survival, "y": y, "censored": censored})
    entry = None
    if isinstance(survival, Predictive):
        survival._check_survival("brier_score")
        warn_of_unsaid(unsaid(survival.unsaid, ("censored",)))
        law, censored = ObservedLaw(survival), codes_of(survival, censored)
        entry, survival = law.entry if law.entered.any() else None, 1.0 - law.cdf(times)
    y, censored = events_and_times(y, censored)
    S = np.asarray(survival, dtype=float)
    if S.shape != (len(y), len(times)):
        raise InputError(
            f"survival must be ({len(y)}, {len(times)}), rows and times; got {S.shape}."
        )
    G = Censoring(*((y, censored, entry) if train is None else train))
    at_y, at_t = G(y), G(times)
    if (at_t == 0.0).any():
        last = times[at_t > 0.0][-1:]
        raise InputError(
            f"no row was followed up to t = {times[at_t == 0.0][0]:g}: all of them were censored "
            f"or had their event before. Give times up to {last[0] if last.size else y.max():g}."
        )
    at_y[at_y == 0.0] = at_t[at_t == 0.0] = np.inf  # Where G is 0 nothing is known: no weight.
    died = (y[:, None] <= times) & ~censored[:, None]
    alive = y[:, None] > times
    score = died * S**2 / at_y[:, None] + alive * (1.0 - S) ** 2 / at_t
    return np.mean(score if entry is None else G(entry)[:, None] * score, axis=0)


@checks_names
def integrated_brier_score(
    survival: Data, times: Data, y: Data, censored: Data, train: Train | None = None
) -> float:
    """Integrated Brier score ∫ BS(t) dt / (t_k − t_1) by the trapezium rule; see `brier_score`."""
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if times.size < 2:
        raise InputError("times must hold at least two.")
    score = brier_score(survival, times, y, censored, train)
    return float(np.trapezoid(score, times) / (times[-1] - times[0]))


class DCalibration(NamedTuple):
    """D-calibration: χ² statistic, p-value, and the (weighted) number of rows in each bin of S."""

    statistic: float
    p_value: float
    counts: Array


@checks_names
def d_calibration(
    survival: Data, y: Data, censored: Data | None = None, bins: int = 10
) -> DCalibration:
    """D-calibration (Haider et al. 2020): S_i(y_i) is uniform on (0, 1) if the model is right.

    A seen row adds 1 to the bin of s = S_i(y_i). A right-censored one, whose S_i(T_i) is uniform
    on (0, s), adds to each bin the part of (0, s) that lies in it; so do a left-censored one with
    (s, 1) and an interval with its own ends. Where a row has an entry, S_i is given T_i > entry.
    The statistic Σ (O − n/B)²/(n/B) is compared with χ² of B − 1 degrees of freedom: a small
    p-value says that the model is not calibrated.

    Parameters
    ----------
    survival : S_i(y_i), (n,) or (n, 1), or a predictive of a survival likelihood.
    y : (n,).
    censored : (n,), 0 seen, 1 right- or −1 left-censored, of a predictive also 2, an interval;
        None takes what a predictive was told.
    bins : number B of bins.
    """
    check_same_rows({_called(survival, "survival"): survival, "y": y, "censored": censored})
    if isinstance(survival, Predictive):
        survival._check_survival("d_calibration")
        codes = codes_of(survival, censored)
        beside = () if censored is None else ("censored",)
        first, last = pit_ends(survival, _targets(survival, y, beside), codes)
        ends = 1.0 - last, 1.0 - first
    else:
        ends = _ends_of_survival(survival, y, censored)
    low, high = (np.clip(s, 0.0, 1.0) for s in ends)
    width, edges = high - low, np.arange(bins) / bins
    point = width < np.finfo(float).tiny
    own = np.minimum((high[point] * bins).astype(int), bins - 1)
    counts = np.bincount(own, minlength=bins).astype(float)
    low, high, width = (a[~point, None] for a in (low, high, width))
    covered = np.clip(high, edges, edges + 1.0 / bins) - np.clip(low, edges, edges + 1.0 / bins)
    counts += (covered / width).sum(axis=0)
    expected = len(point) / bins
    statistic = float(((counts - expected) ** 2).sum() / expected)
    return DCalibration(statistic, float(chdtrc(bins - 1, statistic)), counts)


def _ends_of_survival(survival: Data, y: Data, censored: Data | None) -> tuple[Array, Array]:
    """D-calibration: ends (n,) between which S_i(T_i) lies, from S_i(y_i) and the censoring."""
    rows = np.size(y)
    s = _one_per_row(
        survival, rows, "survival", "a Predictive, or S_i(y_i) of each row at its own time"
    )
    code = as_targets(censored, rows, "censored")
    if not np.isin(code, (EXACT, RIGHT, LEFT)).all():
        raise InputError(
            "censored must be 0 (event seen), 1 (right-censored) or -1 (left-censored) here; for "
            "intervals give a Predictive."
        )
    if not ((s >= 0.0) & (s <= 1.0)).all():
        raise InputError("survival must lie between 0 and 1.")
    return np.where(code == RIGHT, 0.0, s), np.where(code == LEFT, 1.0, s)


def _concordance(risk: Array, y: Array, censored: np.ndarray, weights: Array) -> float:
    """Concordance: Σ w_i (concordant_i + ½ tied_i) / Σ w_i comparable_i over rows with events."""
    events = np.flatnonzero(~censored & (weights > 0.0))
    step = max(1, PAIRS // len(y))
    right = total = 0.0
    for start in range(0, len(events), step):
        i = events[start : start + step]
        comparable = (y > y[i, None]) | ((y == y[i, None]) & censored)  # (rows, n)
        ahead = risk[i, None] - risk
        tied = np.abs(ahead) <= TIED * np.maximum(np.abs(risk[i, None]), np.abs(risk))
        score = np.where(tied, 0.5, ahead > 0.0)
        right += float(weights[i] @ (score * comparable).sum(axis=1))
        total += float(weights[i] @ comparable.sum(axis=1))
    if total == 0.0:
        raise InputError("no pair of rows is comparable: no event lies before another row's time.")
    return right / total


# ---- arguments -----------------------------------------------------------------------------------


def _targets(predictive: Predictive, y: Data, given: Sequence[str] = ()) -> Array:
    """Check the targets (n,) of a metric; given : metadata that come beside `predictive`."""
    if not isinstance(predictive, Predictive):
        raise InputError(
            f"predictive must be a Predictive, as m.predictive(Xnew) gives; got "
            f"{type(predictive).__name__}."
        )
    check_same_rows({PREDICTIVE: predictive, "y": y})
    warn_of_unsaid(unsaid(predictive.unsaid, given))
    return as_targets(coded(y, predictive.class_names, "y"), len(predictive), "y")


def _called(value: object, name: str) -> str:
    """What messages call an argument that may be a predictive."""
    return PREDICTIVE if isinstance(value, Predictive) else name


def _errors(prediction: Data, y: Data) -> Array:
    check_same_rows({"prediction": prediction, "y": y})
    y = np.asarray(y, dtype=float)
    prediction = np.asarray(prediction, dtype=float)
    if prediction.size != y.size or not y.size:
        raise InputError(
            f"prediction and y must have the same number of rows; got {prediction.shape} and "
            f"{y.shape}."
        )
    return prediction.ravel() - y.ravel()


def _one_per_row(value: Data | Predictive, rows: int, name: str, expected: str) -> Array:
    """Check an argument of a metric, numbers (n,) or (n, 1); the error says what was expected."""
    shape = () if isinstance(value, Predictive) else np.shape(value)
    if isinstance(value, Predictive) or shape not in ((rows,), (rows, 1)):
        got = f"shape {shape}" if shape else f"a {type(value).__name__}"
        raise InputError(f"{name} must be {expected}, ({rows},); got {got}.")
    return as_targets(value, rows, name)


def __dir__() -> list[str]:
    return __all__
