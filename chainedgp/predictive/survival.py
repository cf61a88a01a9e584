"""Survival curves of an event time under the predictive mixture, with credible bands over q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data.arguments import as_band
from ..data.types import Data
from ..errors import InputError
from ..expectations import quadrature
from .centiles import Bands
from .constants import rows_by
from .law import BAND_NODES, PredictiveLaw
from .mixtures import GaussianLatents
from .nodes import log_expectation

PANELS = 14
"""An integral of a survival curve has so many panels, which halve towards 0: [0, h/2¹³], …,
[h/4, h/2], [h/2, h]."""

Estimate = np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]
Curve = Callable[..., np.ndarray]


class SurvivalCurves(PredictiveLaw):
    """Predictive survival S(t) = E_q[S(t | f)] and what follows, if there is a `log_survival`.

    Estimates belong to the predictive distribution itself: hazard(t) = −d log S/dt = p(t)/S(t).
    With bands=(5, 95) a method returns (estimate, lower, upper), where lower and upper are the
    percentiles, over q(f), of the curve S(t | f), h(t | f), … of one subject with latents f. They
    are over uncertain constants of the likelihood as well, where the model counts these as such.
    """

    _event: GaussianLatents
    _draws: Any
    _mixture: Any
    _law: Any
    _logpdf: Any
    _over_entries: Any

    def sf(self, t: Data, bands: Bands = None) -> Estimate:
        """P(Y > y), (n, k) for a grid (k,): of event times the survival function S(t).

        With bands=(5, 95) the result is (probability, lower, upper); see `cdf`.
        """
        if not self._likelihood.event_times:
            return super().sf(t, bands)
        return self._with_bands(np.exp(self._log_sf(t)), _conditional_sf, t, bands)

    def cumulative_hazard(self, t: np.ndarray, bands: Bands = None) -> Estimate:
        """H(t) = −log S(t), (n, k)."""
        self._check_survival("cumulative_hazard")
        return self._with_bands(
            -self._log_sf(t) + 0.0,
            lambda event, t, rows, latents: -event.log_survival(t, rows, latents),
            t,
            bands,
        )

    def hazard(self, t: np.ndarray, bands: Bands = None) -> Estimate:
        """h(t) = p(t)/S(t) = −d log S(t)/dt, (n, k)."""
        self._check_survival("hazard")

        def conditional(
            event: GaussianLatents, t: np.ndarray, rows: np.ndarray, latents: tuple
        ) -> np.ndarray:
            log_density = event.log_density(t, rows, latents)
            return np.exp(log_density - event.log_survival(t, rows, latents))

        estimate = np.exp(self._logpdf(t, self._law) - self._log_sf(t))
        return self._with_bands(estimate, conditional, t, bands)

    def median(self, bands: Bands = None) -> Estimate:
        """The time with S(t) = ½, (n, 1)."""
        self._check_survival("median")

        def conditional(
            event: GaussianLatents, _: np.ndarray, rows: np.ndarray, latents: tuple
        ) -> np.ndarray:
            return self._likelihood.ppf(np.asarray(0.5), *latents, **event.keywords(rows))

        return self._with_bands(self.ppf(0.5), conditional, np.ones(1), bands)

    def restricted_mean(self, horizon: float, bands: Bands = None) -> Estimate:
        """E[min(T, h)] = ∫₀ʰ S(t) dt, (n, 1), for a horizon h > 0."""
        self._check_survival("restricted_mean")
        if not (np.ndim(horizon) == 0 and 0.0 < float(horizon) < np.inf):
            raise InputError(f"horizon must be a positive number; got {horizon!r}.")
        nodes, weights = _panels(float(horizon), self._likelihood.atoms)

        def conditional(
            event: GaussianLatents, _: np.ndarray, rows: np.ndarray, latents: tuple
        ) -> np.ndarray:
            return sum(  # One time after another takes little memory.
                weight * _conditional_sf(event, np.full(len(rows), t), rows, latents)
                for t, weight in zip(nodes, weights, strict=True)
            )

        estimate = np.exp(self._log_sf(nodes)) @ weights[:, None]
        return self._with_bands(estimate, conditional, np.ones(1), bands)

    # ---- parts -----------------------------------------------------------------------------------

    def _check_survival(self, method: str) -> None:
        if not self._likelihood.event_times:
            raise InputError(
                f"{method} is for survival likelihoods; {type(self._likelihood).__name__} has no "
                "log_survival. Use cdf, ppf or interval, or derive the likelihood from Survival."
            )

    def _log_sf(self, t: Data) -> np.ndarray:
        """log E[S(t | f)], (n, k); 0 below 0, and at 0 unless some events are at 0."""
        t = self._as_targets(t, "t")

        def log_sf(t: np.ndarray, rows: np.ndarray) -> np.ndarray:
            mixture = self._mixture
            return log_expectation(
                mixture, mixture.log_survival, t, rows, probe=mixture.log_density
            )

        lik = self._likelihood
        at_0 = 0.0 in lik.atoms or not lik.target_support.continuous  # Events may be at 0.
        sure = t < 0.0 if at_0 else t <= 0.0
        return np.minimum(self._over_entries(np.where(sure, -1.0, t), 0.0, -np.inf, log_sf), 0.0)

    def _with_bands(
        self, estimate: np.ndarray, conditional: Curve, t: Data, bands: Bands
    ) -> Estimate:
        """A survival curve (n, k), or with it percentiles of `conditional` over the draws."""
        if bands is None:
            return estimate
        levels = as_band(bands)
        t = self._as_targets(t, "t")
        draws = self._draws(BAND_NODES)
        rows, columns = np.nonzero(np.ones(t.shape, dtype=bool))
        ends = np.empty((2, *t.shape))
        with np.errstate(all="ignore"):
            for part in quadrature.row_blocks(len(rows), rows_by(draws)):
                entry = rows[part], columns[part]
                at = np.maximum(t[entry], np.finfo(float).tiny)  # S(0) = 1, h(0) its limit
                values = [
                    conditional(event, at, rows[part], event.nodes(rows[part], z)[1])
                    for event, z in draws
                ]
                found = np.quantile(np.concatenate(values), levels, axis=0)
                ends[:, rows[part], columns[part]] = found
        return estimate, ends[0], ends[1]


def _conditional_sf(
    event: GaussianLatents, t: np.ndarray, rows: np.ndarray, latents: tuple
) -> np.ndarray:
    """S(t | f), (K, N)."""
    return np.exp(event.log_survival(t, rows, latents))


def _panels(horizon: float, jumps: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the restricted mean ∫₀ʰ S dt on panels that halve towards 0.

    They are parted at jumps.
    """
    x, w = np.polynomial.legendre.leggauss(8)
    edges = horizon * np.concatenate([[0.0], 2.0 ** np.arange(1 - PANELS, 1.0)])
    edges = np.union1d(edges, [t for t in jumps if 0.0 < t < horizon])
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel()
