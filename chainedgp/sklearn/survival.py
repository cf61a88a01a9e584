"""The estimator of times to an event, in the manner of scikit-survival (which is not needed)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..data.types import Data, Frame
from ..errors import InputError
from ..likelihoods import Likelihood
from ..linalg import Array
from ..predictive.distribution import Predictive
from .base import WithQuantiles, estimator, named_likelihood, rows_of_weight

Survivals: TypeAlias = "np.ndarray | Frame"  # events and times: structured, or two columns
CurveOf = Callable[[Predictive, Array], Any]  # values (n, k) of n distributions at k times


@estimator
class ChainedGPSurvival(WithQuantiles):
    """A survival estimator for scikit-learn; all parameters may depend on x; right censoring.

    y is scikit-survival's structured array: a boolean field, True where the event was seen and
    False where the row is censored, and a field of times; or a data frame of two such columns.

    Parameters
    ----------
    likelihood : "log_logistic_survival", "weibull_survival", "log_normal_survival",
        "log_logistic", or a `Likelihood` with metadata `censored`.

    Other parameters and attributes: those of `chainedgp.sklearn.base.ChainedGPEstimator`, also
    under `__init__`; `unique_times_` are the times of events, sorted.
    """

    likelihood: str | Likelihood = "log_logistic_survival"

    def fit(self, X: Data, y: Survivals, sample_weight: Data | None = None) -> ChainedGPSurvival:
        """Fit the survival estimator to X (n, D), y (n,), events and times, and weights (n,)."""
        X, y, sample_weight, _ = self._given(X, y, sample_weight, {})
        inputs = self._checked(X)
        event, time = events_and_times(y)
        check_consistent_length(inputs, time)
        kept, weights = rows_of_weight(inputs, sample_weight)
        self.unique_times_ = np.unique(time[kept & event])
        likelihood = named_likelihood(self.likelihood)
        censored = {"censored": (~event[kept]).astype(float)}
        self._fit(inputs[kept], time[kept], likelihood, weights, censored)
        return self

    def predict(self, X: Data) -> Array:
        """Risk scores (n,) of the survival estimator, −log median: higher for earlier events."""
        return -np.log(self.predict_quantiles(X, 0.5)[:, 0])

    def predict_survival_function(self, X: Data, return_array: bool = False) -> Array:
        """The survival estimator's S(t | x): n functions of t, or (n, k) at `unique_times_`."""
        return self._curves(X, Predictive.sf, return_array)

    def predict_cumulative_hazard_function(self, X: Data, return_array: bool = False) -> Array:
        """The survival estimator's H(t | x): n functions of t, or (n, k) at `unique_times_`."""
        return self._curves(X, Predictive.cumulative_hazard, return_array)

    def _curves(self, X: Data, what: CurveOf, return_array: bool) -> Array:
        curves = _Curves(self._predictive(X, {}), what, self._scale)
        if return_array:
            return curves(self.unique_times_)
        functions = np.empty(len(curves.predictive), dtype=object)
        functions[:] = [Curve(curves, row, self.unique_times_) for row in range(len(functions))]
        return functions

    def score(self, X: Data, y: Survivals, sample_weight: Data | None = None) -> float:
        """Mean log-density of events and log-probability of censored rows; higher is better."""
        check_is_fitted(self)
        event, time = events_and_times(y)
        return self._mean_log_density(X, time, sample_weight, {"censored": ~event})


class _Curves:
    """Survival curves of all rows at once; the last times are kept, since scorers go row by row."""

    def __init__(self, predictive: Predictive, what: CurveOf, scale: float) -> None:
        self.predictive, self.what, self.scale = predictive, what, scale
        self.last: tuple[Array, Array] | None = None

    def __call__(self, t: Array) -> Array:
        """Values (n, k) of survival curves at times t (k,)."""
        if self.last is None or not np.array_equal(self.last[0], t):
            self.last = t.copy(), self.what(self.predictive, t / self.scale)
        return self.last[1]


class Curve:
    """A survival curve of one row, a function as scikit-survival's `StepFunction` is, but smooth.

    x, y : the times of events in the fit, (k,), and the curve at them.
    domain : where it may be evaluated, (0, inf).
    """

    domain = (0.0, np.inf)

    def __init__(self, curves: _Curves, row: int, x: Array) -> None:
        self._curves, self._row, self.x = curves, row, x

    @property
    def y(self) -> Array:
        """The survival curve at its times `x`, (k,)."""
        return self(self.x)

    def __call__(self, x: Data) -> Array:
        """The survival curve at times x: a number for one time, (k,) for more."""
        t = np.atleast_1d(np.asarray(x, dtype=float))
        if t.ndim != 1 or not (np.isfinite(t).all() and (t >= 0.0).all()):
            raise InputError(f"x must be finite times from 0 on; got {x!r}.")
        values = self._curves(t)[self._row].copy()
        return values[0] if values.size == 1 else values


def events_and_times(y: Survivals) -> tuple[np.ndarray, Array]:
    """Events (n,), booleans, and times (n,) of a survival estimator's structured array or frame."""
    if hasattr(y, "columns"):
        return _of_frame(y)
    names = getattr(getattr(y, "dtype", None), "names", None) or ()
    kinds = [y.dtype[name].kind for name in names]
    if sorted(kinds) not in (["b", "f"], ["b", "i"], ["b", "u"]):
        raise InputError(
            "y must be a structured array of a boolean field (the event was seen) and a field of "
            "times, as made by sksurv.util.Surv, or by numpy.array(list(zip(event, time)), "
            "dtype=[('event', bool), ('time', float)]), or a frame of these two columns; got "
            f"{getattr(y, 'dtype', type(y))}."
        )
    event = names[kinds.index("b")]
    (time,) = (name for name in names if name != event)
    return np.asarray(y[event]), np.asarray(y[time], dtype=float)


def _of_frame(y: Frame) -> tuple[np.ndarray, Array]:
    """Events and times of a data frame: events are the column of booleans, else of 0 and 1."""
    columns = [np.asarray(y[name]) for name in y.columns]
    events = [column for column in columns if column.dtype == bool]
    events = events or [column for column in columns if np.isin(column, (0, 1)).all()]
    if len(columns) != 2 or len(events) != 1:
        raise InputError(
            "y must be a frame of two columns, one of booleans, or of 0 and 1 (the event was "
            f"seen), and one of times; got columns {', '.join(map(repr, y.columns))}, of which "
            f"{len(events)} could be the events."
        )
    (time,) = (column for column in columns if column is not events[0])
    return events[0].astype(bool), time.astype(float)
