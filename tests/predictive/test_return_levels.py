"""Return levels: against draws of the latents and scipy's quantiles, in both kinds of averages."""

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp import likelihoods as liks
from chainedgp.errors import InputError
from chainedgp.predictive import Predictive
from chainedgp.predictive.averages import AveragedPredictive

PERIODS = np.array([10.0, 50.0, 100.0])
MEANS, SDS = np.array([[10.0, 0.3], [12.0, 0.5]]), np.array([0.5, 0.2])


def covariances(rho):
    V = np.outer(SDS, SDS) * np.array([[1.0, rho], [rho, 1.0]])
    return np.broadcast_to(V, (2, 2, 2))


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_bands_are_those_of_draws(rho):
    p = Predictive(liks.GEV(shape=0.15), MEANS, covariances(rho))
    found = p.return_level(PERIODS, level=0.8)
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(2), covariances(rho)[0], 200_000)
    for i, mean in enumerate(MEANS):
        f, g = (mean + draws).T
        for k, T in enumerate(PERIODS):
            levels = stats.genextreme.ppf(1.0 - 1.0 / T, -0.15, f, np.exp(g))
            want = np.quantile(levels, [0.5, 0.1, 0.9])
            got = [part[i, k] for part in found]
            np.testing.assert_allclose(got, want, atol=0.02 * levels.std())


def test_one_latent_is_exact_and_rates_count():
    lik, mean, sd = liks.GeneralisedPareto(30.0, shape=0.1), 1.2, 0.3
    p = Predictive(lik, np.full((2, 1), mean), np.full((2, 1), sd**2))
    found = p.return_level([1.0, 100.0], level=0.9, rate=[5.0, 2.0])
    for i, rate in enumerate((5.0, 2.0)):
        for k, T in enumerate((1.0, 100.0)):
            g = mean + sd * stats.norm.ppf([0.5, 0.05, 0.95])
            want = stats.genpareto.isf(1.0 / (rate * T), 0.1, 30.0, np.exp(g))
            np.testing.assert_allclose([part[i, k] for part in found], want, rtol=1e-10)


def test_an_average_of_one_is_itself_and_of_two_is_between():
    lik = liks.GEV(shape=0.15)
    one, two = (Predictive(lik, MEANS + shift, covariances(0.4)) for shift in (0.0, [3.0, 0.0]))
    alone = AveragedPredictive(lik, [one], np.ones(1)).return_level(PERIODS)
    for got, want in zip(alone, one.return_level(PERIODS), strict=True):
        np.testing.assert_allclose(got, want, atol=0.08)  # It is represented by 32 quantiles.
    both = AveragedPredictive(lik, [one, two], np.full(2, 0.5)).return_level(PERIODS)
    first, second = one.return_level(PERIODS), two.return_level(PERIODS)
    assert (both.level > first.level).all() and (both.level < second.level).all()
    assert (both.upper - both.lower > first.upper - first.lower).all()


def test_a_shape_that_is_not_known_widens_the_band():
    rng = np.random.default_rng(2)
    y = liks.GEV().sample(rng, np.full(80, 10.0), np.full(80, 1.0), shape=0.1)
    m = cgp.ChainedGP(np.arange(80.0), y, liks.GEV(), num_inducing=6, num_threads=1)
    m.optimize(messages=False)
    at = np.array([[40.0]])
    plain = m.predictive(at).return_level(100)
    m.hyperparameters = "fixed"
    known = m.predictive(at).return_level(100)
    m.hyperparameters = "auto"
    average = m.over_hyperparameters(20)
    wide = average.predictive(at).return_level(100)
    width = [float((each.upper - each.lower)[0, 0]) for each in (known, plain, wide)]
    assert width[1] > 1.2 * width[0] and width[2] > 1.2 * width[0]
    np.testing.assert_allclose(width[1], width[2], rtol=0.3)  # An average takes no derivative.
    true = stats.genextreme.ppf(0.99, -0.1, 10.0, np.e)
    assert wide.lower[0, 0] < true < wide.upper[0, 0]
    tables = (part.predict_centiles(at, [99.0]) for part in (m, average))
    width = [float(t["99% upper"][0] - t["99% lower"][0]) for t in tables]
    np.testing.assert_allclose(*width, rtol=0.3)
    # Its maximum-likelihood sd is about 0.09 with 80 rows; the prior makes it a little less.
    shape, drawn = m.likelihood.parameter_values()["shape"], []
    for _ in average.predictors():
        drawn.append(average.problem.parts.likelihood.parameter_values()["shape"])
    sd = np.sqrt(np.cov(drawn, aweights=average.weights))
    assert 0.04 < sd < 0.15 and abs(np.average(drawn, weights=average.weights) - shape) < 0.1


def test_constants_that_differ_between_points_make_the_band():
    """Latents that are known, and three values of each constant: the band is that of the values."""
    cases = [
        (liks.SHASH, "tail", (0.8, 1.0, 1.5), (1.0, 0.2)),
        (liks.BoxCoxT, "nu", (3.0, 6.0, 40.0), (1.0, -1.0)),
        (liks.GEV, "shape", (-0.2, 0.1, 0.4), (1.0, 0.2)),
    ]
    weights = np.array([0.3, 0.4, 0.3])
    for make, name, values, latents in cases:
        means = np.array([latents])
        parts = [Predictive(make(**{name: v}), means, np.full((1, 2), 1e-16)) for v in values]
        average = AveragedPredictive(parts[0]._likelihood, parts, weights)
        each = np.sort([float(part.centiles([99.0])[0, 0]) for part in parts])
        middle, lower, upper = average.centiles([99.0], (5.0, 95.0))
        np.testing.assert_allclose([lower[0, 0], middle[0, 0], upper[0, 0]], each, rtol=1e-6)


def test_arguments_are_checked():
    p = Predictive(liks.GEV(), MEANS, covariances(0.0))
    for wrong in (0.0, [10.0, -1.0], [], "ten", np.nan):
        with pytest.raises(InputError, match="periods must be a positive number"):
            p.return_level(wrong)
    with pytest.raises(InputError, match="periods must be longer"):
        p.return_level(1.0)
    with pytest.raises(InputError, match="one for each of 2 rows; got 3"):
        p.return_level(10.0, rate=[1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="level"):
        p.return_level(10.0, level=90)
    with pytest.raises(InputError, match="targets of Poisson are counts"):
        Predictive(liks.Poisson(), np.zeros((1, 1)), np.ones((1, 1))).return_level(10.0)
    with pytest.raises(InputError, match="VonMises"):
        Predictive(liks.VonMises(), np.zeros((1, 2)), np.ones((1, 2))).return_level(10.0)
