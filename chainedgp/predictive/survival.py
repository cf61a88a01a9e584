"""Survival curves of an event time under the predictive mixture, with credible bands over q."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.arguments import as_band
from ..data.types import Data
from ..errors import ExtrapolationWarning, InputError, warn
from ..linalg import Array, Indices
from .centiles import Bands
from .law import Curve, Latents, PredictiveLaw, quantile_given, sf_given
from .mixtures import GaussianLatents

PANELS = 14
"""An integral of a survival curve has so many panels, which halve towards 0: [0, h/2¹³], …,
[h/4, h/2], [h/2, h]."""

FAR = 1.5  # A horizon is far if it is beyond so many times the last time of the data.

Estimate = Array | tuple[Array, Array, Array]


class SurvivalCurves(PredictiveLaw):
    """Predictive survival S(t) = E[S(t | f)] and what follows, if there is a `log_survival`.

    Estimates belong to the predictive distribution itself: hazard(t) = −d log S/dt = p(t)/S(t).
    With bands=(5, 95) a method returns (estimate, lower, upper), where lower and upper are the
    percentiles, over q(f), of the curve S(t | f), h(t | f), … of one subject with latents f. They
    are over uncertain constants of the likelihood as well, where the model counts these as such.
    """

    last_time: float | None = None
    """The largest event time or end of a follow-up in the data of the fit; None if not known."""

    def sf(self, t: Data, bands: Bands = None) -> Estimate:
        """P(Y > y), (n, k) for a grid (k,): of event times the survival function S(t).

        With bands=(5, 95) the result is (probability, lower, upper); see `cdf`.
        """
        if not self._likelihood.event_times:
            return super().sf(t, bands)
        return self._with_bands(np.exp(self.logsf(t)), sf_given, t, bands)

    def cumulative_hazard(self, t: Data, bands: Bands = None) -> Estimate:
        """H(t) = −log S(t), (n, k)."""
        self._check_survival("cumulative_hazard")

        def curve(event: GaussianLatents, t: Array, rows: Indices, latents: Latents) -> Array:
            return -event.log_survival(t, rows, latents)

        return self._with_bands(-self.logsf(t) + 0.0, curve, t, bands)

    def hazard(self, t: Data, bands: Bands = None) -> Estimate:
        """h(t) = p(t)/S(t) = −d log S(t)/dt, (n, k)."""
        self._check_survival("hazard")

        def curve(event: GaussianLatents, t: Array, rows: Indices, latents: Latents) -> Array:
            log_density = event.log_density(t, rows, latents)
            return np.exp(log_density - event.log_survival(t, rows, latents))

        estimate = np.exp(self._log_event_density(t) - self.logsf(t))
        return self._with_bands(estimate, curve, t, bands)

    def median(self, bands: Bands = None) -> Estimate:
        """The median, (n, 1): of an event time the t with S(t) = ½. All numbers have one."""
        if not self._likelihood.target_support.ordered:
            raise InputError("classes have no order, so that they have no median: use pdf.")
        return self._with_bands(self.ppf(0.5), quantile_given, [0.5], bands)

    def restricted_mean(self, horizon: float, bands: Bands = None) -> Estimate:
        """E[min(T, h)] = ∫₀ʰ S(t) dt, (n, 1), for a horizon h > 0.

        It warns of a horizon far beyond the times of the data, from which the model has learnt.
        """
        found = self._restricted_mean(horizon, bands)
        warn_if_far(self.last_time, float(horizon))
        return found

    def _restricted_mean(self, horizon: float, bands: Bands = None) -> Estimate:
        """The restricted mean up to any horizon, however far."""
        self._check_survival("restricted_mean")
        if not (np.ndim(horizon) == 0 and 0.0 < float(horizon) < np.inf):
            raise InputError(f"horizon must be a positive number; got {horizon!r}.")
        nodes, weights = _panels(float(horizon), self._likelihood.atoms)

        def curve(event: GaussianLatents, _: Array, rows: Indices, latents: Latents) -> Array:
            return restricted_mean_given(float(horizon), event, rows, latents)

        estimate = np.exp(self.logsf(nodes)) @ weights[:, None]
        return self._with_bands(estimate, curve, [float(horizon)], bands)

    # ---- parts -----------------------------------------------------------------------------------

    def _check_survival(self, method: str) -> None:
        if not self._likelihood.event_times:
            raise InputError(
                f"{method} is for survival likelihoods; {type(self._likelihood).__name__} has no "
                "log_survival. Use cdf, ppf or interval, or derive the likelihood from Survival."
            )

    def _log_event_density(self, t: Data) -> Array:
        """log p(t) of events, (n, k), whatever was seen of the rows."""
        raise NotImplementedError

    def _with_bands(self, estimate: Array, curve: Curve, t: Data, bands: Bands) -> Estimate:
        """A survival curve (n, k), or with it percentiles of what it is given the latents."""
        if bands is None:
            return estimate
        at = np.maximum(self._as_targets(t, "t"), np.finfo(float).tiny)  # S(0) = 1, h(0) its limit
        return (estimate, *self._band(at, curve, as_band(bands)))


def warn_if_far(last_time: float | None, horizon: float) -> None:
    """Warn of a horizon so far beyond the last time of the data that they say little about it."""
    if last_time is not None and horizon > FAR * last_time:
        warn(
            f"the horizon {horizon:g} is far beyond the last time of the data, {last_time:g}. "
            "Survival after that time follows from the form of the likelihood, which the data "
            f"cannot check there. Give a horizon up to about {last_time:.3g}, or take the result "
            "for an extrapolation.",
            ExtrapolationWarning,
        )


def restricted_mean_given(
    horizon: float, event: GaussianLatents, rows: Indices, latents: Latents
) -> Array:
    """Restricted means ∫₀ʰ S(t | f) dt given the latents of some rows, (K, N)."""
    total = np.zeros(latents[0].shape)
    for t, weight in zip(*_panels(horizon, event.likelihood.atoms), strict=True):
        # One time after another takes little memory.
        total += weight * sf_given(event, np.full(len(rows), t), rows, latents)
    return total


def _panels(horizon: float, jumps: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the restricted mean ∫₀ʰ S dt on panels that halve towards 0.

    They are parted at jumps.
    """
    x, w = np.polynomial.legendre.leggauss(8)
    edges = horizon * np.concatenate([[0.0], 2.0 ** np.arange(1 - PANELS, 1.0)])
    edges = np.union1d(edges, [t for t in jumps if 0.0 < t < horizon])
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel()
