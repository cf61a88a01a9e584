"""Averages of predictive distributions answer all that a single one does: against its parts."""

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.errors import InputError
from chainedgp.predictive import Predictive
from chainedgp.predictive.averages import AveragedPredictive

TIMES, WEIGHTS = np.array([0.3, 1.0, 2.5]), np.array([0.3, 0.7])
MEANS = [np.array([[0.1, 0.8], [0.6, 0.4]]), np.array([[-0.2, 0.5], [0.9, 0.7]])]
V = np.array([[0.09, 0.03], [0.03, 0.05]])
BANDS = (5, 95)


def parts(metadata=None):
    return [Predictive(L.WeibullSurvival(), m, np.stack([V, V]), metadata) for m in MEANS]


def average(metadata=None):
    return AveragedPredictive(L.WeibullSurvival(), parts(metadata), WEIGHTS)


def draws(size=40_000):
    """Scale and shape of Weibull times (n, size) of both rows, pooled with their weights."""
    rng = np.random.default_rng(0)
    one = rng.uniform(size=size) < WEIGHTS[0]
    f = rng.multivariate_normal(np.zeros(2), V, size=(2, size))
    f += np.where(one[:, None], MEANS[0][:, None], MEANS[1][:, None])
    return np.exp(f[..., 0]), np.exp(f[..., 1])


def test_survival_curves_are_those_of_the_average():
    both, (one, two) = average(), parts()
    S = 0.3 * one.sf(TIMES) + 0.7 * two.sf(TIMES)
    p = 0.3 * one.pdf(TIMES) + 0.7 * two.pdf(TIMES)
    np.testing.assert_allclose(both.sf(TIMES), S)
    np.testing.assert_allclose(both.cumulative_hazard(TIMES), -np.log(S))
    np.testing.assert_allclose(both.hazard(TIMES), p / S)
    np.testing.assert_allclose(both.sf(both.median()[:, 0])[[0, 1], [0, 1]], 0.5, atol=1e-6)
    means = [part.restricted_mean(2.0) for part in (one, two)]
    np.testing.assert_allclose(both.restricted_mean(2.0), 0.3 * means[0] + 0.7 * means[1])
    censored = average({"censored": np.ones(2)})
    np.testing.assert_allclose(censored.hazard(TIMES), p / S)  # Of events, whatever was seen.


def test_bands_of_survival_curves_pool_the_draws_of_all_parts():
    both, (scale, shape) = average(), draws()
    z = TIMES[:, None, None] / scale
    found = {
        "sf": np.exp(-(z**shape)),
        "cumulative_hazard": z**shape,
        "hazard": shape / scale * z ** (shape - 1.0),
    }
    for name, values in found.items():
        _, lower, upper = getattr(both, name)(TIMES, bands=BANDS)
        ends = np.quantile(values, [0.05, 0.95], axis=-1)  # (2, k, n)
        np.testing.assert_allclose(lower.T, ends[0], rtol=0.03, atol=0.002, err_msg=name)
        np.testing.assert_allclose(upper.T, ends[1], rtol=0.03, atol=0.002, err_msg=name)
    _, *ends = both.median(bands=BANDS)
    values = scale * np.log(2.0) ** (1.0 / shape)
    np.testing.assert_allclose(np.hstack(ends).T, np.quantile(values, [0.05, 0.95], 1), rtol=0.03)
    t = np.linspace(0.0, 2.0, 401)[:, None]
    some = np.trapezoid(
        np.exp(-((t[..., None] / scale[:, :4000]) ** shape[:, :4000])), t[:, :, None], axis=0
    )
    _, *ends = both.restricted_mean(2.0, bands=BANDS)
    np.testing.assert_allclose(np.hstack(ends).T, np.quantile(some, [0.05, 0.95], 1), rtol=0.03)


def test_natural_parameters_and_functions_of_the_latents():
    both, (one, two) = average(), parts()
    functions = {"ratio": lambda f, g: np.exp(f - g)}
    means = [part.parameter_means(functions)["ratio"] for part in (one, two)]
    np.testing.assert_allclose(
        both.parameter_means(functions)["ratio"], 0.3 * means[0] + 0.7 * means[1]
    )
    scale, shape = draws()
    got = both.parameters(BANDS, functions)["ratio"]
    np.testing.assert_allclose(got, np.quantile(scale / shape, [0.05, 0.95], axis=1).T, rtol=0.03)
    assert both.num_classes is None and both.class_names is None
    with pytest.raises(AttributeError, match="it is ppf"):
        both.quantile  # noqa: B018


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0.0, 4.0, 30))[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(30)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=6, num_threads=1, posterior="joint")
    m.optimize(messages=False)
    return m, m.over_hyperparameters(10)


def test_covariances_of_latents_are_within_points_and_between(fitted):
    _, found = fitted
    X = np.array([[0.5], [2.0], [3.5]])
    mean, C = found.predict_latents(X, full_cov=True, cross_cov=True)  # (b, b, n, n)
    moments = [part.latents(X, True, True) for part in found.predictors()]
    second = sum(
        w * (own + np.einsum("ib,jc->bcij", m, m))
        for w, (m, own) in zip(found.weights, moments, strict=True)
    )
    np.testing.assert_allclose(C, second - np.einsum("ib,jc->bcij", mean, mean), atol=1e-12)
    every = np.arange(2)
    np.testing.assert_allclose(found.predict_latents(X, full_cov=True)[1], C[every, every])
    across = np.einsum("bcii->ibc", C)
    np.testing.assert_allclose(found.predict_latents(X, cross_cov=True)[1], across)
    np.testing.assert_allclose(found.predict_latents(X)[1], across[:, every, every])
    f = found.posterior_samples_f(X, 20_000, rng=0)
    drawn = np.cov(f.transpose(1, 0, 2).reshape(6, -1)).reshape(2, 3, 2, 3).transpose(0, 2, 1, 3)
    scale = np.sqrt(np.einsum("bbii->bi", C))
    unit = np.einsum("bi,cj->bcij", scale, scale)
    np.testing.assert_allclose(drawn / unit, C / unit, atol=0.05)


def test_quantiles_of_latents(fitted):
    m, found = fitted
    X = np.array([[0.5], [2.0]])
    mean, variance = m.predict_latents(X)
    lower, upper = m.predict_latent_quantiles(X, (5, 95))
    np.testing.assert_allclose(
        [lower, upper], mean + np.outer([-1, 1], 1.6448536 * np.sqrt(variance)).reshape(2, 2, 2)
    )
    f = found.posterior_samples_f(X, 20_000, rng=0)
    got = np.array(found.predict_latent_quantiles(X, (5, 95)))
    sd = np.sqrt(found.predict_latents(X)[1])
    np.testing.assert_allclose(got / sd, np.quantile(f, [0.05, 0.95], axis=2) / sd, atol=0.05)


def test_averages_refuse_dask_arrays(fitted):
    da = pytest.importorskip("dask.array")
    X = da.from_array(np.ones((4, 1)), chunks=2)
    for predict in (fitted[1].predict, fitted[1].predict_latents):
        with pytest.raises(InputError, match="averages over draws take rows that fit into memory"):
            predict(X)
