"""The predictive law of a target given how its row was observed: after an entry, or censored."""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from ..errors import InputError
from ..expectations.special import log1mexp, minus
from ..likelihoods import Rounded
from ..likelihoods.observation import EXACT, INTERVAL, LEFT, RIGHT, codes
from ..likelihoods.support import POSITIVE
from ..linalg import Array
from .distribution import Predictive
from .nodes import log_expectation
from .quantiles import _solve

LOGIT_TOLERANCE = 1e-8
"""The search for a quantile after an entry ends at this error of logit F."""
NOTHING = 1e-9
"""Where E[F (1 − F)] is less than this, F is all but 0 or 1 wherever q is, so that no nodes are
added."""
ROUGH = np.linspace(-18.0, 18.0, 31)
"""Logarithms of y − entry, in a typical unit of the row, between which quantiles are guessed."""


class ObservedLaw:
    """The predictive law of Y given Y > entry where a row has an entry, else of Y itself.

        F(y) = E_q[(F(y | f) − F(e | f))/S(e | f)] = E_q[1 − S(y | f)/S(e | f)],   y > e.

    It is the law whose density `predictive.logpdf` has: a row that was seen only because its event
    came after e says nothing of the latents by that alone, so that q(f) is not changed by it.
    Rows without an entry, or with one that is not positive, have the predictive's own cdf.
    """

    def __init__(self, predictive: Predictive) -> None:
        self.predictive = predictive
        entry = predictive._seen.kw.get("entry")
        self.entry = np.zeros(len(predictive)) if entry is None else np.maximum(entry, 0.0)
        self.entered = self.entry > 0.0

    def cdf(self, y: Array) -> Array:
        """The predictive cdf after an entry, P(Y ≤ y | Y > entry), (n, k), y (k,) or (n, k)."""
        if not self.entered.any():
            return self.predictive.cdf(y)
        y = self.predictive._as_targets(y)
        result = np.where(self.entered[:, None], 1.0 * (y == np.inf), 0.0)
        if not self.entered.all():
            result = np.where(self.entered[:, None], result, self.predictive.cdf(y))
        rows, columns = np.nonzero((y > self.entry[:, None]) & (y < np.inf) & self.entered[:, None])
        result[rows, columns] = self._after_entry(y[rows, columns], rows)
        return result

    def _after_entry(self, y: Array, rows: np.ndarray) -> Array:
        """The cdf after an entry, E_q[1 − S(y | f)/S(e | f)], (N,), of targets y > e."""
        event = self.predictive._event

        def log_cdf(y: Array, rows: np.ndarray, latents: tuple) -> Array:
            start = event.log_survival(self.entry[rows], rows, latents)
            return log1mexp(np.minimum(minus(event.log_survival(y, rows, latents), start), 0.0))

        value = log_expectation(
            event, log_cdf, y, rows, probe=event.log_density, follow=False, nothing=NOTHING
        )
        return np.minimum(np.exp(value), 1.0)

    def ppf(self, q: Array) -> Array:
        """Predictive quantiles given the entry of each row, the y with cdf(y) = q, (n, k)."""
        result = self.predictive.ppf(q)
        rows = np.repeat(np.flatnonzero(self.entered), len(q))
        if len(rows):
            start = self.entry[rows]
            with np.errstate(all="ignore"):  # steps across an atom divide by zero
                t = _solve(  # y = entry + e^t
                    lambda t, i: self._after_entry(start[i] + np.exp(t), rows[i]),
                    np.tile(q, len(rows) // len(q)),
                    np.log(start),
                    np.ones(len(rows)),
                    LOGIT_TOLERANCE,
                    POSITIVE.low,
                    POSITIVE.high,
                )
            found = start + np.exp(t)
            for atom in self.predictive._likelihood.atoms:
                found = np.where(np.isclose(found, atom, rtol=1e-12, atol=0.0), atom, found)
            result[self.entered] = found.reshape(-1, len(q))
        return result

    def rough_ppf(self, q: Array) -> Array:
        """Rough predictive quantiles given the entry, (n, k): enough to divide an integral over y.

        Where there is an entry e, logit F is interpolated in log(y − e) between few values.
        """
        result = self.predictive.ppf(q)
        rows = np.flatnonzero(self.entered)
        if len(rows):
            scale = self.entry[rows] + self.predictive.ppf(0.5)[rows, 0]
            steps = np.log(scale)[:, None] + ROUGH  # (rows, values)
            y = self.entry[rows, None] + np.exp(steps)
            F = self._after_entry(y.ravel(), np.repeat(rows, len(ROUGH))).reshape(y.shape)
            F = logit(np.clip(np.maximum.accumulate(F, axis=1), 1e-15, 1.0 - 1e-15))
            t = [np.interp(logit(q), *pair) for pair in zip(F, steps, strict=True)]
            result[rows] = self.entry[rows, None] + np.exp(t)
        return result


def pit_ends(
    predictive: Predictive, y: Array, censored: Array | None = None
) -> tuple[Array, Array]:
    """Ends, (n,) each, between which the probability integral transform F(y) of each row lies.

    Both are F(y) for a continuous target that was seen; F(y ± w/2) for one that was rounded to a
    width w; F(y⁻) and F(y) at a jump; F(y) and 1 for a
    right-censored one, 0 and F(y) for a left-censored one, F(y) and F(y_upper) for an interval. F
    is the law of `ObservedLaw`, given Y > entry where the row has an entry.

    censored : codes (n,) where the predictive distribution was not told of them.
    """
    law, told = ObservedLaw(predictive), predictive._seen.kw
    code = codes(told.get("censored") if censored is None else censored) + np.zeros(len(y))
    likelihood = predictive._likelihood
    low = high = y
    if isinstance(likelihood, Rounded):
        low, high, _ = likelihood.ends(y, told)
        low, high = (np.where(code == EXACT, end, y) for end in (low, high))
    upper = law.cdf(high[:, None])[:, 0]
    lower = upper if low is high else law.cdf(low[:, None])[:, 0]
    jump = np.isin(y, likelihood.atoms) | (not likelihood.target_support.continuous)
    if jump.any():
        before = np.where(jump, np.nextafter(y, -np.inf), -np.inf)  # F(−∞) = 0 costs nothing.
        below = np.where(jump, law.cdf(before[:, None])[:, 0], lower)
        lower = np.where((code == RIGHT) | (code == INTERVAL), upper, below)
    if (code == INTERVAL).any():
        if "y_upper" not in told:
            raise InputError(
                "Rows with censored = 2 need the ends of their intervals: give y_upper to "
                "m.predictive(Xnew, Y_metadata)."
            )
        end = law.cdf(np.where(code == INTERVAL, told["y_upper"], y)[:, None])[:, 0]
        upper = np.where(code == INTERVAL, end, upper)
    upper = np.where(code == RIGHT, 1.0, upper)
    return np.where(code == LEFT, 0.0, lower), np.maximum(upper, lower)
