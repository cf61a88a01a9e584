"""Flat quantities: they vary so little over the rows that shares of their variation mean nothing.

A latent whose kernel explains nothing still varies in the ninth digit, and shares of that would
look like effects. A quantity is flat if its standard deviation over the rows is below a thousandth
of its change when a latent changes by its unit: one standard deviation of the noise for a
location, 1 for others, which are logarithms or log-odds.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from ...data.types import Data
from ...errors import MomentWarning
from ...inference.starts import is_location
from ...linalg import Array
from ...predictive.distribution import Predictive
from ...predictive.predictor import Predictor
from .population import Population
from .quantities import Quantity, keywords_of

FLAT = 1e-3
PROBED = (0.1, 0.5, 0.9)  # A latent is a location if the density moves with it at these quantiles.


def latent_units(predictor: Predictor, x: Array, metadata: Mapping[str, Data]) -> Array:
    """Units (b,) of the latents: for a location the spread of targets at a row x (1, D), or 1."""
    likelihood = predictor.likelihood
    means, units = predictor.latents(x)[0][0], np.ones(len(likelihood.latents))
    if not likelihood.target_support.whole_line:
        return units
    y = predictor.distribution(x, metadata).ppf(np.array(PROBED))[0]
    locations = is_location(likelihood, y, means, keywords_of(likelihood, metadata))
    return np.where(locations, y.std(), units)


def least_sds(wanted: Sequence[Quantity], population: Population) -> Array:
    """Standard deviations (k,) over the rows below which quantities are flat."""
    predictor, metadata = population.predictor, population.metadata
    x = population.X[len(population.X) // 2][None]
    units = latent_units(predictor, x, metadata)
    means, variances = predictor.latents(x)
    moved = np.vstack([means, means + np.diag(units)])  # (1 + b, b)
    rows = {key: np.broadcast_to(value, len(moved)) for key, value in metadata.items()}
    at = Predictive(predictor.likelihood, moved, np.repeat(variances, len(moved), axis=0), rows)
    least = np.empty(len(wanted))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", MomentWarning)
        for k, quantity in enumerate(wanted):
            h = moved[:, quantity.latent] if quantity.predict is None else quantity.predict(at)
            least[k] = FLAT * np.max(np.abs(h[1:] - h[0]))
    return np.where(np.isfinite(least), least, 0.0)
