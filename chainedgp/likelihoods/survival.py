"""The base of likelihoods of event times, censored and truncated in every way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.types import Keywords, Value
from ..expectations import special
from ..linalg import Booleans
from . import observation
from .contract import Array, Distribution, Likelihood
from .observation import EXACT, INTERVAL, LEFT, TINY, of_event
from .support import SupportLike

NOT_POSITIVE = (
    "A censored row has the time until which it was seen, and Y_metadata['censored'] = 1; for "
    "zeros use Inflated(…)."
)
"""Advice for times that are 0 or negative, in the place of that for numbers which are no times."""


class Survival(Likelihood):
    """A positive time T given by its log-hazard log h and log-survival log S; any censoring.

    An author writes `log_survival` (or `cdf`) and `log_hazard`, or `distribution`. With the
    metadata `censored` (0 exact, 1 right, −1 left, 2 interval (y, y_upper]) and `entry` (left
    truncation: the row is known only because T > entry) the density of a row is

        exact     h(y) S(y) / S(entry)
        right     S(y) / S(entry)
        left      (S(entry) − S(y)) / S(entry)
        interval  (S(y) − S(y_upper)) / S(entry)

    all in log space, differences taken in the smaller of the two tails. Moments, cdf, ppf and
    samples are those of T itself: metadata do not enter them.
    """

    support: SupportLike = "positive"
    unbounded_metadata = ("y_upper",)

    def check_targets(self, y: Array) -> None:
        """Refuse event times that are not positive."""
        self.target_support.check(y, type(self).__name__, NOT_POSITIVE)

    def impossible(
        self,
        y: Array,
        *,
        censored: Value | None = None,
        y_upper: Value | None = None,
        entry: Value | None = None,
        **kw: Value,
    ) -> tuple[Booleans, str]:
        """Event times in intervals that end before they begin, and times before the entry."""
        code = observation.codes(censored)
        if np.any(code == INTERVAL):
            wrong = (code == INTERVAL) & ~(observation.upper_ends(y_upper) > y)
            if wrong.any():
                return wrong, "are censored to an interval whose end y_upper is not above Y"
        if entry is None:
            return np.zeros(len(y), dtype=bool), ""
        nothing_left = (code == LEFT) & (entry == y)
        return (entry > y) | nothing_left, "end before their entry"

    def _law(self, latents: Sequence[Array], kw: Keywords) -> Distribution | None:
        """The distribution of an event time T, which metadata of censoring do not change."""
        return self.distribution(*latents, **of_event(kw))

    def log_hazard(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """An event time's log-hazard, log p(t) − log S(t). Default: by `distribution`."""
        if (law := self._law(latents, kw)) is None:
            raise NotImplementedError(f"{type(self).__name__} must define log_hazard(t, *latents).")
        return special.minus(law.logpdf(t), law.logsf(t))

    def log_survival(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """The log-survival of an event time, log S(t) = log P(T > t), broadcast shape.

        Default: that of `distribution`, else log(1 − cdf).
        """
        with np.errstate(all="ignore"):
            if (law := self._law(latents, kw)) is not None:
                return np.asarray(law.logsf(t), dtype=float)
        if type(self).cdf is Survival.cdf:
            raise NotImplementedError(f"{type(self).__name__} must define log_survival or cdf.")
        return super().log_survival(t, *latents, **kw)

    def log_cdf(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """The log-cdf of an event time, log P(T ≤ t), broadcast shape.

        Default: that of `distribution`, else log(1 − S), stable at both ends.
        """
        with np.errstate(all="ignore"):
            if (law := self._law(latents, kw)) is not None:
                return np.asarray(law.logcdf(t), dtype=float)
        return special.log1mexp(np.minimum(self.log_survival(t, *latents, **kw), 0.0))

    def cdf(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The cdf P(T ≤ y | latents) of an event time, whatever the censoring.

        Default: that of `distribution`, else 1 − S.
        """
        with np.errstate(all="ignore"):
            if (law := self._law(latents, kw)) is not None:
                return np.asarray(law.cdf(y), dtype=float)
        return -np.expm1(self.log_survival(y, *latents, **of_event(kw)))

    def log_density(
        self,
        y: Array,
        *latents: Array,
        censored: Value | None = None,
        y_upper: Value | None = None,
        entry: Value | None = None,
        **kw: Value,
    ) -> Array:
        """The log-density of an exact event time, the log-probability of a censored one."""
        code = observation.codes(censored)
        value: Any = 0.0
        if np.any(code == EXACT):
            value = self._log_event(y, *latents, **kw)
        if np.any(code != EXACT):
            value = np.where(code == EXACT, value, self.log_survival(y, *latents, **kw))
        start = np.maximum(0.0 if entry is None else entry, TINY)
        if np.any(code == LEFT):
            value = np.where(code == LEFT, self._log_between(start, y, *latents, **kw), value)
        if np.any(code == INTERVAL):
            upper = np.where(code == INTERVAL, observation.upper_ends(y_upper), np.inf)
            value = np.where(code == INTERVAL, self._log_between(y, upper, *latents, **kw), value)
        if entry is None:
            return value
        return special.minus(value, self.log_survival(start, *latents, **kw))

    def _log_event(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """The log-density of an event time T, log h + log S."""
        low = self.log_survival(t, *latents, **kw)
        return special.minus(low, -self.log_hazard(t, *latents, **kw))

    def _log_between(self, low: Array, high: Array, *latents: Array, **kw: Value) -> Array:
        """The log-probability that an event time is in (low, high], by the smaller of its tails."""
        survival = self.log_survival(low, *latents, **kw)
        upper = special.log_diff_exp(survival, self.log_survival(high, *latents, **kw))
        lower = special.log_diff_exp(
            self.log_cdf(high, *latents, **kw), self.log_cdf(low, *latents, **kw)
        )
        return np.where(survival < -np.log(2.0), upper, lower)
