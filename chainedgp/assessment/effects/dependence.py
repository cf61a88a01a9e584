"""Partial dependence: a prediction averaged over rows as one input takes one value after another.

With weights w_i of the rows and x_i(v) the row i with the value v in the input,

    h̄(v) = Σ_i w_i h(x_i(v)),    h(x) = E_q[t(f(x))],

is the mean under q of the random average Σ_i w_i t(f(x_i(v))). The band holds that average, with
all correlations between rows. Where t is a latent the average is Gaussian, of variance

    Σ_ij w_i w_j k(x_i, x_j) + aᵀ(S − I)a,    a = L⁻¹ Σ_i w_i k(Z, x_i);

else the band is from joint draws of the latents, the same for all values v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ...data.arguments import as_generator, positive_int
from ...data.types import Seed
from ...linalg import Array, one_blas_thread
from ...posterior.sparse import project
from .population import Population
from .quantities import Quantity, at_latents, keywords_of, predicted

__all__ = ["Dependence", "individual_curves", "partial_dependence"]

DRAWS = 400  # Bands come from so many joint draws of the latents.


@dataclass(frozen=True)
class Dependence:
    """A quantity averaged over rows along one input.

    Parameters
    ----------
    values : (k, c) of the input's c columns.
    mean : (k,).
    low, high : (k,) ends of the credible band, or None where the quantity has no band: the width
        of an interval and the median already include what is not known.
    """

    values: Array
    mean: Array
    low: Array | None
    high: Array | None


def partial_dependence(
    population: Population,
    columns: list[int],
    values: Array,
    quantity: Quantity,
    level: float,
    draws: int = DRAWS,
    rng: Seed = 0,
) -> Dependence:
    """h̄ at values (k, c) of some columns, with a band of probability `level`."""
    curves = individual_curves(population, columns, values, quantity)
    mean = curves @ population.weights
    if quantity.given_latents is None:
        return Dependence(values, mean, None, None)
    ends = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    sets = [population.with_values(columns, value) for value in values]
    if quantity.latent is not None:
        sd = np.array([_sd_of_average(population, X, quantity.latent) for X in sets])
        low, high = mean + ndtri(ends)[:, None] * sd
    else:
        size, seed = positive_int(draws, "draws"), int(as_generator(rng).integers(2**31))
        drawn = [_drawn_averages(population, X, quantity, size, seed) for X in sets]
        with np.errstate(invalid="ignore"):  # An average may be infinite.
            low, high = np.quantile(drawn, ends, axis=1)
    return Dependence(values, mean, low, high)


def individual_curves(
    population: Population, columns: list[int], values: Array, quantity: Quantity
) -> Array:
    """h(x_i(v)) for each value and row, (k, n)."""
    return np.stack([
        predicted(
            [quantity],
            population.predictor,
            population.with_values(columns, value),
            population.metadata,
        )[0]
        for value in values
    ])  # fmt: skip


def _sd_of_average(population: Population, X: Array, j: int) -> float:
    """Standard deviation under q of the average of latent j over the rows of X."""
    predictor, w = population.predictor, population.weights
    prior = predictor.priors[j]
    q = predictor.family.by_latent(predictor.q, [len(p.Z) for p in predictor.priors])[j]
    with one_blas_thread():
        a = project(prior, X).A @ w
        variance = float(w @ prior.kernel.K(X) @ w + a @ q.S_minus_I @ a)
    return float(np.sqrt(max(variance, 0.0)))


def _drawn_averages(
    population: Population, X: Array, quantity: Quantity, size: int, seed: int
) -> Array:
    """Draws (size,) of the average of t(f) over the rows of X."""
    predictor = population.predictor
    f = predictor.latent_draws(X, size, seed)  # (n, b, size)
    keywords = keywords_of(predictor.likelihood, population.metadata)
    return population.weights @ at_latents(quantity, list(f.transpose(1, 0, 2)), keywords)
