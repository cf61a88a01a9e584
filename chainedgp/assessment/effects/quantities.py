"""The quantities that effects are about: latents, parameters, the mean, widths and probabilities.

A quantity has a prediction for each row. If that is an expectation E_q[t(f)] over the latents f, it
also has the function t: the band of an average over rows is then that of the average of t.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...data.types import Data, Keywords, Value
from ...errors import InputError, MomentWarning
from ...expectations.quadrature import row_blocks
from ...likelihoods import Likelihood
from ...linalg import Array
from ...predictive.classes import class_names, class_probabilities
from ...predictive.distribution import Predictive
from ...predictive.predictor import Predictor

OfLatents = Callable[..., Array]
# Where all quantities are shown, these are not, unless one of them stands for the target itself.
ON_REQUEST = ("median", "noise", "ignorance")
NUMERIC = 500  # A moment by an integral over y evaluates about this many values of the density.


@dataclass(frozen=True)
class Quantity:
    """A quantity that inputs may have an effect on: one predicted number for each row, by name.

    Parameters
    ----------
    name : as users call it.
    predict : function of a predictive distribution of n rows that gives (n,); None for a latent.
    given_latents : the function t of the latents, arrays of any shape, and of keywords, if the
        prediction is E_q[t(f)]; None if it is no expectation, such as the width of an interval.
    latent : index of the latent that t is, if it is one.
    cost : about how many numbers t computes for each number that it returns.
    """

    name: str
    predict: Callable[[Predictive], Array] | None
    given_latents: OfLatents | None = None
    latent: int | None = None
    cost: int = 4


def quantities(
    likelihood: Likelihood, level: float, metadata: Mapping[str, Data]
) -> dict[str, Quantity]:
    """All quantities, by name, whose effects a likelihood can show; equal ones are listed once.

    level : probability of the central interval whose width is "width". metadata : one value each.
    """
    keywords = keywords_of(likelihood, metadata)
    if likelihood.target_support.num_classes:
        found = _of_classes(likelihood)
    else:
        found = _of_numbers(likelihood, level, keywords)
    named = {quantity.name: quantity for quantity in found}
    for latent in latent_quantities(likelihood):
        if not (latent.name in named and named[latent.name].latent == latent.latent):
            _add(named, latent, "latent")
    for name in likelihood.natural_parameters(*_probe(likelihood), **keywords):
        parameter = _parameter(likelihood, name, keywords)
        others = [other for key, other in named.items() if key not in ON_REQUEST]
        if not any(_same(likelihood, parameter, other, keywords) for other in others):
            _add(named, parameter, "parameter")
    return named


def is_constant(quantity: Quantity, likelihood: Likelihood, metadata: Mapping[str, Data]) -> bool:
    """Whether a quantity is a constant of the likelihood, the same at all latents."""
    if quantity.given_latents is None or quantity.latent is not None:
        return False
    with np.errstate(all="ignore"):
        values = quantity.given_latents(*_probe(likelihood), **keywords_of(likelihood, metadata))
    return bool(np.ptp(values) == 0.0)


def keywords_of(likelihood: Likelihood, metadata: Mapping[str, Data]) -> Keywords:
    """Keywords of a likelihood's methods, for effects: its parameters, and metadata of all rows."""
    given = {key: float(np.asarray(value)) for key, value in metadata.items()}
    return {**likelihood.parameter_values(), **given}


def latent_quantities(likelihood: Likelihood) -> list[Quantity]:
    """The latents of a likelihood as quantities that inputs have effects on."""
    return [
        Quantity(name, None, partial(_latent, j), j) for j, name in enumerate(likelihood.latents)
    ]


def chosen(known: dict[str, Quantity], of: str | Sequence[str]) -> list[Quantity]:
    """Pick quantities for effects by name; the error for an unknown name lists them."""
    names = [of] if isinstance(of, str) else list(of) if isinstance(of, Sequence) else []
    if not names or any(name not in known for name in names):
        raise InputError(f"of must be one of {', '.join(known)}; got {of!r}.")
    return [known[name] for name in names]


def central(known: dict[str, Quantity], predictive: Predictive) -> list[str]:
    """Names of quantities to judge effects by: class probabilities, the mean or else the median."""
    classes = [name for name in known if name.startswith("P(")]
    if classes:
        return classes[1:] if len(classes) == 2 else classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MomentWarning)
        exists = bool(np.isfinite(predictive.mean).all())
    return ["mean" if exists else "median"]


def predicted(
    wanted: Sequence[Quantity], predictor: Predictor, X: Array, metadata: Mapping[str, Data]
) -> Array:
    """Predictions (k, n) of k quantities at the rows of X (n, D), to compute effects from."""
    needs = [quantity.predict is not None for quantity in wanted]
    means = None if all(needs) else predictor.latents(X)[0]
    distribution = predictor.distribution(X, metadata) if any(needs) else None
    result = np.empty((len(wanted), len(X)))
    for k, quantity in enumerate(wanted):
        if quantity.predict is None and means is not None:
            result[k] = means[:, quantity.latent]
        elif quantity.predict is not None and distribution is not None:
            result[k] = quantity.predict(distribution)
    return result


def at_latents(quantity: Quantity, latents: Sequence[Array], keywords: Keywords) -> Array:
    """Evaluate a quantity t(f) at latents of any shape, in pieces, so that memory stays bounded."""
    if quantity.given_latents is None:
        raise InputError(f"{quantity.name} is no function of the latents.")
    flat = [f.ravel() for f in latents]
    result = np.empty(flat[0].shape)
    for part in row_blocks(result.size, quantity.cost):
        result[part] = quantity.given_latents(*(f[part] for f in flat), **keywords)
    return result.reshape(latents[0].shape)


# ---- each kind ----------------------------------------------------------------------------------


def _of_classes(likelihood: Likelihood) -> list[Quantity]:
    """The probabilities of all classes as quantities that inputs have effects on."""
    names = class_names(likelihood)

    def predict(k: int, predictive: Predictive) -> Array:
        return class_probabilities(predictive, likelihood)[:, k]

    def given(k: int, *latents: Array, **kw: Value) -> Array:
        return np.exp(likelihood.log_density(np.full(latents[0].shape, float(k)), *latents, **kw))

    return [
        Quantity(f"P({name})", partial(predict, k), partial(given, k))
        for k, name in enumerate(names)
    ]


def _of_numbers(likelihood: Likelihood, level: float, keywords: Keywords) -> list[Quantity]:
    """Quantities of numeric targets: mean, median, interval width and two parts of the variance."""

    def width(predictive: Predictive) -> Array:
        low, high = predictive.interval(level)
        return (high - low)[:, 0]

    mean, variance = likelihood.conditional_mean, likelihood.conditional_variance
    latent = _which_latent(likelihood, mean, keywords)
    cost = 4 if likelihood.has_moments else NUMERIC
    return [
        Quantity("mean", lambda p: p.mean[:, 0], mean, latent, cost),
        Quantity("median", lambda p: p.ppf(0.5)[:, 0]),
        Quantity("width", width),
        Quantity("noise", lambda p: p.noise_variance[:, 0], variance, cost=cost),
        Quantity("ignorance", lambda p: p.latent_variance[:, 0]),
    ]


def _parameter(likelihood: Likelihood, name: str, keywords: Keywords) -> Quantity:
    """A natural parameter of the likelihood as a quantity that inputs have effects on."""

    def given(*latents: Array, **kw: Value) -> Array:
        value = likelihood.natural_parameters(*latents, **kw)[name]
        return np.broadcast_to(value, latents[0].shape)

    latent = _which_latent(likelihood, given, keywords)
    return Quantity(name, lambda p: p.parameter_means()[name][:, 0], given, latent)


def _latent(j: int, *latents: Array, **kw: Value) -> Array:
    return latents[j]


def _add(named: dict[str, Quantity], quantity: Quantity, kind: str) -> None:
    """Add a quantity by its name; if the name is taken, the new one's name says its kind."""
    name = quantity.name if quantity.name not in named else f"{quantity.name} ({kind})"
    named[name] = replace(quantity, name=name)


# ---- which are the same -------------------------------------------------------------------------


def _probe(likelihood: Likelihood) -> Array:
    """Random values (b, 5) of the b latents at which two quantities are compared for equality."""
    return np.random.default_rng(0).uniform(-1.0, 1.0, (len(likelihood.latents), 5))


def _which_latent(likelihood: Likelihood, t: OfLatents, keywords: Keywords) -> int | None:
    """Index of the latent that the quantity t equals at random latents, or None."""
    probe = _probe(likelihood)
    with np.errstate(all="ignore"):
        values = np.asarray(t(*probe, **keywords))
    return next((j for j, f in enumerate(probe) if np.array_equal(values, f)), None)


def _same(likelihood: Likelihood, one: Quantity, two: Quantity, keywords: Keywords) -> bool:
    """Whether two quantities are the same function of the latents."""
    if one.given_latents is None or two.given_latents is None:
        return False
    probe = _probe(likelihood)
    with np.errstate(all="ignore"):
        first, second = (q.given_latents(*probe, **keywords) for q in (one, two))
    return bool(np.allclose(first, second, rtol=1e-9, atol=0.0))
