"""How good predictions are: scores of distributions, calibration, and measures for survival.

`predictive` is a `Predictive` of n rows (`m.predictive(Xnew, Y_metadata)`) and y their targets,
(n,) or (n, 1). Survival functions take times and `censored` (0 seen, 1 right-censored).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from ..data.arguments import as_generator
from ..data.rows import as_targets
from ..errors import InputError
from ..linalg import Array
from ..predictive.distribution import Predictive
from ..predictive.quantiles import DISCRETE
from ..predictive.survival import pit_ends

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
    "rmse",
]

LOWER = (1e-6, 1e-3, 0.05, 0.25)
LEVELS = (*LOWER, 0.5, *(1.0 - level for level in reversed(LOWER)))
"""Quantile levels between which the integral of the CRPS is taken by Gauss–Legendre nodes."""
NODES = 8  # Gauss–Legendre nodes between two neighbouring levels
COUNTS = 512  # counts whose terms of the CRPS are added up at once
PAIRS = 4_000_000  # pairs of rows that are compared at once, so that memory stays bounded
TIED = 1e-8  # risks that differ by less than this count as equal
RISKS = "a number for each row, higher for earlier events, such as -predictive.ppf(0.5)"


# ---- distributions -------------------------------------------------------------------------------


def nlpd(predictive: Predictive, y: Any) -> float:
    """Negative log predictive density, −mean_i log p(y_i): lower is better.

    A censored row (by the predictive's metadata) counts with the probability of what was seen.
    """
    y = _targets(predictive, y)
    return float(-np.mean(predictive.logpdf(y[:, None])))


def crps(predictive: Predictive, y: Any) -> Array:
    """Continuous ranked probability score of each row, (n,): lower is better, in units of y.

        CRPS = ∫ (F(z) − [y ≤ z])² dz = ∫_{−∞}^y F² dz + ∫_y^∞ (1 − F)² dz,

    for counts the sum over k of (F(k) − [y ≤ k])². The integral runs between quantiles of 1e-6 and
    1 − 1e-6, in panels that end at quantiles, at atoms and at y, over log z for positive targets.
    For a point forecast it is the absolute error. It exists where E[min(y, y')] does: for a
    log-logistic with a shape over ½, without a mean.
    """
    y = _targets(predictive, y)
    if predictive._likelihood.support in DISCRETE:
        return _crps_counts(predictive, y)
    quantiles = predictive.ppf(np.array(LEVELS))
    fixed = np.array([a for a in predictive._likelihood.atoms if np.isfinite(a)])
    fixed = np.clip(fixed, quantiles[:, :1], quantiles[:, -1:])  # (n, atoms)
    edges = np.sort(np.concatenate([quantiles, fixed, y[:, None]], axis=1), axis=1)
    x, w = np.polynomial.legendre.leggauss(NODES)
    # a positive target's upper tail may be as heavy as that of a log-logistic: decades of z
    decades = predictive._likelihood.support == "positive" and edges.min() > 0.0
    edges = np.log(edges) if decades else edges
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]  # (n, panels, 1)
    z = (edges[:, :-1, None] + half * (1.0 + x)).reshape(len(y), -1)
    dz = (half * w).reshape(len(y), -1)
    if decades:
        z = np.exp(z)
        dz = dz * z
    gap = predictive.cdf(z) - (z >= y[:, None])
    return np.einsum("ij,ij->i", gap * gap, dz)


def _crps_counts(predictive: Predictive, y: Array) -> Array:
    """Σ_k (F(k) − [y ≤ k])² from the smaller to the larger of y and the extreme quantiles."""
    ends = predictive.ppf(np.array([LEVELS[0], LEVELS[-1]]))
    low, high = np.minimum(ends[:, 0], y), np.maximum(ends[:, 1], y)
    total = np.zeros(len(y))
    for start in range(0, int((high - low).max()) + 1, COUNTS):
        span = min(COUNTS, int((high - low).max()) + 1 - start)
        k = low[:, None] + start + np.arange(span)
        gap = predictive.cdf(k) - (k >= y[:, None])
        total += np.where(k <= high[:, None], gap * gap, 0.0).sum(axis=1)
    return total


def interval_coverage(predictive: Predictive, y: Any, level: float = 0.95) -> float:
    """Fraction of targets inside the central interval: mean_i [l_i ≤ y_i ≤ u_i], nominally `level`.

    For counts, whose intervals hold more than `level`, it is above it even for the true model.
    """
    y = _targets(predictive, y)
    lower, upper = predictive.interval(level)
    return float(np.mean((lower[:, 0] <= y) & (y <= upper[:, 0])))


def interval_width(predictive: Predictive, level: float = 0.95) -> float:
    """Mean width of the central interval, mean_i (u_i − l_i)."""
    lower, upper = predictive.interval(level)
    return float(np.mean(upper - lower))


def pit(predictive: Predictive, y: Any, rng: Any = 0) -> Array:
    """Probability integral transform, (n,): uniform on (0, 1) if the model is right.

        u_i = F(y_i⁻) + V_i (F(y_i) − F(y_i⁻)),   V_i ~ U(0, 1) from `rng`,

    which is F(y_i) where y is continuous and randomised over the jump for counts and atoms. A
    censored time is randomised over all that it may have been: F(y_i) to 1 if it is right-censored.
    """
    y = _targets(predictive, y)
    lower, upper = pit_ends(predictive, y)
    return lower + as_generator(rng).uniform(size=len(y)) * np.maximum(upper - lower, 0.0)


def mae(prediction: Any, y: Any) -> float:
    """Mean absolute error, mean_i |ŷ_i − y_i|; ŷ (n,) or (n, 1), or a predictive's median."""
    if isinstance(prediction, Predictive):
        prediction = prediction.ppf(0.5)
    return float(np.mean(np.abs(_errors(prediction, y))))


def rmse(prediction: Any, y: Any) -> float:
    """Root mean squared error, sqrt(mean_i (ŷ_i − y_i)²); ŷ (n,), (n, 1) or a predictive's mean."""
    if isinstance(prediction, Predictive):
        prediction = prediction.mean
    return float(np.sqrt(np.mean(_errors(prediction, y) ** 2)))


# ---- survival ------------------------------------------------------------------------------------


def concordance_harrell(risk: Any, y: Any, censored: Any) -> float:
    """Harrell's concordance: the fraction of comparable pairs that the risk puts in order.

    (i, j) is comparable if i had its event and y_i < y_j, or y_i = y_j and j is censored. It counts
    1 if risk_i > risk_j and ½ if they are tied.

    Parameters
    ----------
    risk : (n,) or (n, 1), higher for earlier events, such as −median of a predictive.
    y, censored : (n,) times, and 1 where the event comes after y.
    """
    y, censored = _survival(y, censored)
    risk = _one_per_row(risk, len(y), "risk", RISKS)
    return _concordance(risk, y, censored, np.ones(len(y)))


def concordance_uno(
    risk: Any, y: Any, censored: Any, train: tuple[Any, Any] | None = None, tau: float | None = None
) -> float:
    """Uno's concordance: pairs as Harrell's, weighted 1/G(y_i)², so that censoring does not matter.

    G is the Kaplan–Meier estimate of the survival function of the censoring times.

    Parameters
    ----------
    risk, y, censored : as in `concordance_harrell`.
    train : (y, censored) of the rows from which G is estimated; None takes the given rows.
    tau : pairs whose first event is at tau or later are left out.
    """
    y, censored = _survival(y, censored)
    risk = _one_per_row(risk, len(y), "risk", RISKS)
    G = _Censoring(*((y, censored) if train is None else train))
    used = ~censored if tau is None else ~censored & (y < tau)
    at = G(y)
    if (at[used] <= 0.0).any():
        raise InputError(
            f"{int((at[used] <= 0.0).sum())} events lie where no one was left to be censored; "
            "choose tau before the last censoring time."
        )
    weights = np.divide(1.0, at, out=np.zeros(len(y)), where=used) ** 2
    return _concordance(risk, y, censored, weights)


def brier_score(
    survival: Any, times: Any, y: Any, censored: Any, train: tuple[Any, Any] | None = None
) -> Array:
    """Brier score at each time, (k,), with inverse probability of censoring weights (Graf 1999).

        BS(t) = mean_i S_i(t)² [y_i ≤ t, seen]/G(y_i) + (1 − S_i(t))² [y_i > t]/G(t)

    Parameters
    ----------
    survival : S_i(t), (n, k), or a predictive of a survival likelihood.
    times : (k,), ascending.
    y, censored : (n,).
    train : (y, censored) for the Kaplan–Meier estimate G of the censoring; None takes the rows.
    """
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if times.ndim != 1 or not (np.diff(times) > 0.0).all():
        raise InputError("times must be (k,), ascending.")
    S = np.asarray(survival.sf(times) if isinstance(survival, Predictive) else survival, float)
    y, censored = _survival(y, censored)
    if S.shape != (len(y), len(times)):
        raise InputError(
            f"survival must be ({len(y)}, {len(times)}), rows and times; got {S.shape}."
        )
    G = _Censoring(*((y, censored) if train is None else train))
    at_y, at_t = G(y), G(times)
    at_y[at_y == 0.0] = at_t[at_t == 0.0] = np.inf  # no weight where nothing can be known
    died = (y[:, None] <= times) & ~censored[:, None]
    alive = y[:, None] > times
    return np.mean(died * S**2 / at_y[:, None] + alive * (1.0 - S) ** 2 / at_t, axis=0)


def integrated_brier_score(
    survival: Any, times: Any, y: Any, censored: Any, train: tuple[Any, Any] | None = None
) -> float:
    """∫ BS(t) dt / (t_k − t_1) over the times, by the trapezium rule; see `brier_score`."""
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if times.size < 2:
        raise InputError("times must hold at least two.")
    score = brier_score(survival, times, y, censored, train)
    return float(np.trapezoid(score, times) / (times[-1] - times[0]))


class DCalibration(NamedTuple):
    """χ² statistic, its p-value, and the (weighted) number of rows in each bin of S."""

    statistic: float
    p_value: float
    counts: Array


def d_calibration(survival: Any, y: Any, censored: Any, bins: int = 10) -> DCalibration:
    """D-calibration (Haider et al. 2020): S_i(y_i) is uniform on (0, 1) if the model is right.

    A seen row adds 1 to the bin of s = S_i(y_i). A censored one, whose S_i(T_i) is uniform on
    (0, s), adds to each bin the part of (0, s) that lies in it. The statistic Σ (O − n/B)²/(n/B)
    is compared with χ² of B − 1 degrees of freedom: a small p-value says not calibrated.

    Parameters
    ----------
    survival : S_i(y_i), (n,) or (n, 1), or a predictive of a survival likelihood.
    y, censored : (n,).
    bins : number B of bins.
    """
    if isinstance(survival, Predictive):
        survival = survival.sf(_targets(survival, y)[:, None])
    y, censored = _survival(y, censored)
    s = _one_per_row(
        survival, len(y), "survival", "a Predictive, or S_i(y_i) of each row at its own time"
    )
    if not ((s >= 0.0) & (s <= 1.0)).all():
        raise InputError("survival must lie between 0 and 1.")
    own = np.minimum((s * bins).astype(int), bins - 1)
    counts = np.bincount(own[~censored], minlength=bins).astype(float)
    s, edges = np.maximum(s[censored], np.finfo(float).tiny), np.arange(bins) / bins
    covered = np.clip(s[:, None] - edges, 0.0, 1.0 / bins)  # (rows, B)
    counts += (covered / s[:, None]).sum(axis=0)
    expected = len(own) / bins
    statistic = float(((counts - expected) ** 2).sum() / expected)
    return DCalibration(statistic, float(chdtrc(bins - 1, statistic)), counts)


class _Censoring:
    """Kaplan–Meier G(t) = Π_{s ≤ t} (1 − c_s/(r_s − d_s)), c, d, r censored, died, at risk at s."""

    def __init__(self, y: Any, censored: Any) -> None:
        y, censored = _survival(y, censored)
        self.times, which = np.unique(y, return_inverse=True)
        lost = np.bincount(which, weights=censored)
        total = np.bincount(which)
        at_risk = len(y) - np.cumsum(total) + lost  # without those that died at s
        steps = 1.0 - np.divide(lost, at_risk, out=np.zeros(len(lost)), where=at_risk > 0)
        self.values = np.concatenate([[1.0], np.cumprod(steps)])

    def __call__(self, t: Array) -> Array:
        return self.values[np.searchsorted(self.times, t, side="right")]


def _concordance(risk: Array, y: Array, censored: np.ndarray, weights: Array) -> float:
    """Σ weight_i (concordant_i + ½ tied_i) / Σ weight_i comparable_i over rows i with events."""
    events = np.flatnonzero(~censored & (weights > 0.0))
    step = max(1, PAIRS // len(y))
    right = total = 0.0
    for start in range(0, len(events), step):
        i = events[start : start + step]
        comparable = (y > y[i, None]) | ((y == y[i, None]) & censored)  # (rows, n)
        ahead = risk[i, None] - risk
        tied = np.abs(ahead) <= TIED
        score = np.where(tied, 0.5, ahead > 0.0)
        right += float(weights[i] @ (score * comparable).sum(axis=1))
        total += float(weights[i] @ comparable.sum(axis=1))
    if total == 0.0:
        raise InputError("no pair of rows is comparable: no event lies before another row's time.")
    return right / total


# ---- arguments -----------------------------------------------------------------------------------


def _targets(predictive: Predictive, y: Any) -> Array:
    if not isinstance(predictive, Predictive):
        raise InputError(
            f"predictive must be a Predictive, as m.predictive(Xnew) gives; got "
            f"{type(predictive).__name__}."
        )
    return as_targets(y, len(predictive), "y")


def _errors(prediction: Any, y: Any) -> Array:
    y = np.asarray(y, dtype=float)
    prediction = np.asarray(prediction, dtype=float)
    if prediction.size != y.size or not y.size:
        raise InputError(
            f"prediction and y must have the same number of rows; got {prediction.shape} and "
            f"{y.shape}."
        )
    return prediction.ravel() - y.ravel()


def _survival(y: Any, censored: Any) -> tuple[Array, np.ndarray]:
    """Times (n,), and whether they are censored (n,) bool."""
    y = np.asarray(y, dtype=float)
    y = as_targets(y, y.size, "y")
    codes = as_targets(censored, len(y), "censored")
    if not np.isin(codes, (0.0, 1.0)).all():
        raise InputError("censored must be 0 (event seen) or 1 (right-censored) here.")
    return y, codes == 1.0


def _one_per_row(value: Any, rows: int, name: str, expected: str) -> Array:
    """Numbers (n,) or (n, 1); an error that says what was expected."""
    shape = () if isinstance(value, Predictive) else np.shape(value)
    if shape not in ((rows,), (rows, 1)):
        got = f"shape {shape}" if shape else f"a {type(value).__name__}"
        raise InputError(f"{name} must be {expected}, ({rows},); got {got}.")
    return as_targets(value, rows, name)


def __dir__() -> list[str]:
    return __all__
