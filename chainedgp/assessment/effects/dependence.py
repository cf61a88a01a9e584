"""Partial dependence: a prediction averaged over rows as one input takes one value after another.

With weights w_i of the rows and x_i(v) the row i with the value v in the input,

    h̄(v) = Σ_i w_i h(x_i(v)),    h(x) = E_q[t(f(x))],

is the mean under q of the random average Σ_i w_i t(f(x_i(v))). The band holds that average, with
all correlations between rows. Where t is a latent the average is Gaussian, of variance

    Σ_ij w_i w_j k(x_i, x_j) + aᵀ(S − I)a,    a = L⁻¹ Σ_i w_i k(Z, x_i);

else the band is from joint draws of the latents, the same for all values v.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from ...data.arguments import as_generator, positive_int
from ...data.types import Seed
from ...errors import InputError
from ...linalg import Array, one_blas_thread
from ...posterior.sparse import project
from ...predictive.averages import normal_mixture_quantiles
from ...sampling.averaged import Averaged
from .population import Population
from .quantities import Quantity, at_latents, keywords_of, predicted

DRAWS = 400  # Bands come from this many joint draws of the latents.


@dataclass(frozen=True)
class Dependence:
    """Partial dependence: a predicted quantity averaged over rows along one input, with its band.

    Parameters
    ----------
    values : (k, c) values of the input's c columns.
    mean : (k,) averages of the quantity at these values.
    low, high : (k,) ends of the credible band, or None where the quantity has no band: the width
        of an interval and the median already contain the uncertainty of the latents.
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
    """Partial dependence h̄ at values (k, c) of some columns; its band has probability `level`."""
    curves = individual_curves(population, columns, values, quantity)
    mean = curves @ population.weights
    if quantity.given_latents is None:
        return Dependence(values, mean, None, None)
    ends = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    if quantity.latent is not None:
        sd = _sds(population, columns, values, quantity.latent)
        low, high = mean + ndtri(ends)[:, None] * sd
    else:
        size, seed = positive_int(draws, "draws"), int(as_generator(rng).integers(2**31))
        drawn = _drawn(population, columns, values, quantity, size, seed)
        low, high = _bands_of_draws(drawn, ends, mean)
    return Dependence(values, mean, low, high)


def averaged_dependence(
    population: Population,
    over: Averaged,
    columns: list[int],
    values: Array,
    quantity: Quantity,
    level: float,
    draws: int = DRAWS,
    rng: Seed = 0,
) -> Dependence:
    """Partial dependence averaged over hyperparameters θ_k, of weights π_k, each with its own q.

    As in `partial_dependence`, but h̄ = Σ_k π_k h̄_k; the band is that of the mixture of the
    posteriors of the average.
    """
    if quantity.given_latents is None:
        raise InputError(f"over=… is for quantities with a band, which {quantity.name!r} has not.")
    generator, ends = as_generator(rng), np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    size, seed = positive_int(draws, "draws"), int(generator.integers(2**31))
    counts = generator.multinomial(size, over.weights)
    means, spread = np.zeros((len(counts), len(values))), []
    for k, predictor in enumerate(over.predictors()):
        own = replace(population, predictor=predictor)
        means[k] = individual_curves(own, columns, values, quantity) @ own.weights
        if quantity.latent is not None:
            spread.append(_sds(own, columns, values, quantity.latent))
        elif counts[k]:
            spread.append(_drawn(own, columns, values, quantity, int(counts[k]), seed + k))
    mean = over.weights @ means
    if quantity.latent is not None:
        low, high = normal_mixture_quantiles(means, np.stack(spread), over.weights, ends).T
    else:
        low, high = _bands_of_draws(np.concatenate(spread, axis=1), ends, mean)
    return Dependence(values, mean, low, high)


def individual_curves(
    population: Population, columns: list[int], values: Array, quantity: Quantity
) -> Array:
    """Individual effect curves: h(x_i(v)) for each value v and row i, (k, n)."""
    return np.stack([
        predicted(
            [quantity],
            population.predictor,
            population.with_values(columns, value),
            population.metadata,
        )[0]
        for value in values
    ])  # fmt: skip


def _sds(population: Population, columns: list[int], values: Array, j: int) -> Array:
    """Posterior sd (k,) of the average of latent j over the rows, at each value of the input."""
    predictor, w = population.predictor, population.weights
    prior = predictor.priors[j]
    q = predictor.family.by_latent(predictor.q, [len(p.Z) for p in predictor.priors])[j]
    variances = []
    with one_blas_thread():
        for value in values:
            X = population.with_values(columns, value)
            a = project(prior, X).A @ w
            variances.append(w @ prior.kernel.K(X) @ w + a @ q.S_minus_I @ a)
    return np.sqrt(np.maximum(variances, 0.0))


def _drawn(
    population: Population,
    columns: list[int],
    values: Array,
    quantity: Quantity,
    size: int,
    seed: int,
) -> Array:
    """Draws (k, size) of the average of t(f) over the rows, at each value; all from the same v."""
    predictor = population.predictor
    keywords = keywords_of(predictor.likelihood, population.metadata)
    result = np.empty((len(values), size))
    for k, value in enumerate(values):
        X = population.with_values(columns, value)
        f = predictor.latent_draws(X, size, np.random.default_rng(seed))  # (n, b, size)
        t = at_latents(quantity, list(f.transpose(1, 0, 2)), keywords)
        result[k] = population.weights @ t
    return result


def _bands_of_draws(drawn: Array, ends: Array, mean: Array) -> tuple[Array, Array]:
    """Ends (k,) of effect bands: quantiles of draws (k, size) of averages whose mean is (k,).

    The band of a mean that is infinite is so at its upper end, however few draws are.
    """
    with np.errstate(invalid="ignore"):  # An average may be infinite.
        low, high = np.quantile(drawn, ends, axis=1)
    return np.where(np.isnan(mean), mean, low), np.where(np.isfinite(mean), high, mean)
