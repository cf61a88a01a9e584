"""`m.sample`: against closed forms, long MCMC of another sampler, and its own diagnostics."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from mcmc import TRUTH, model_of
from scipy import stats

import chainedgp as cgp
from chainedgp.errors import ConvergenceWarning

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("nutpie")
    arviz = pytest.importorskip("arviz")

K, L, P = cgp.kernels, cgp.likelihoods, cgp.priors


def gaussian_model():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 4.0, 10))[:, None]
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(10)
    m = cgp.ChainedGP(
        X, y, L.Gaussian(variance=0.2), kernels=K.RBF(1, 1.0, 1.0), Z=X,
        mean_functions=cgp.means.Constant(0.3), num_threads=1,
    )  # fmt: skip
    m.likelihood.fix()
    m.mean_functions.fix()
    m.set_prior("kernels.*variance", P.LogNormal(0.0, 1.0))
    m.set_prior("kernels.*lengthscale", P.Gamma(3.0, 2.0))
    m.optimize(only="variational", messages=False)
    return m


@pytest.fixture(scope="module")
def drawn():
    m = gaussian_model()
    before = np.array(m.param_array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = m.sample(500, 2, tune=200, rng=0, messages=False)
    np.testing.assert_array_equal(m.param_array, before)
    return m, found


def test_hyperparameters_of_gaussian_noise_against_a_grid(drawn):
    """p(θ | y) is known up to a constant: summed over a grid of both logarithms."""
    m, found = drawn
    u = np.linspace(-4.0, 4.0, 61)
    log_p = np.empty((61, 61))
    for i, variance in enumerate(np.exp(u)):
        for j, length in enumerate(np.exp(u)):
            C = variance * np.exp(-0.5 * ((m.X - m.X.T) / length) ** 2) + 0.2 * np.eye(10)
            log_p[i, j] = stats.multivariate_normal(np.full(10, 0.3), C).logpdf(m.Y[:, 0])
            log_p[i, j] += stats.lognorm(1.0).logpdf(variance) + np.log(variance)
            log_p[i, j] += stats.gamma(3.0, scale=0.5).logpdf(length) + np.log(length)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    posterior = found.inference_data["posterior"]
    names = [name for name in posterior if name.startswith("kernels")]
    for name, axis in ((names[0], 0), (names[1], 1)):
        draws = np.log(np.asarray(posterior[name])).ravel()
        marginal = p.sum(axis=1 - axis)
        mean = marginal @ u
        sd = np.sqrt(marginal @ (u - mean) ** 2)
        assert draws.mean() == pytest.approx(mean, abs=5.0 * sd / np.sqrt(found.ess))
        assert draws.std() == pytest.approx(sd, rel=5.0 / np.sqrt(2.0 * found.ess))


def test_what_it_says_of_itself(drawn):
    m, found = drawn
    assert found.rhat < 1.03 and found.ess > 100 and found.divergences <= 10
    assert "2 chains of 500 draws" in repr(found)
    posterior = found.inference_data["posterior"]
    assert posterior["v"].shape == (2, 500, 10)
    X = np.array([[1.0], [9.0]])
    mean, variance = found.predict(X)
    low, high = found.predict_quantiles(X)
    assert mean.shape == variance.shape == low.shape == (2, 1) and (low < high).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # They are too short to have met.
        again, same = (m.sample(50, 2, tune=100, rng=7, messages=False) for _ in range(2))
    for one, other in zip(again.points, same.points, strict=True):
        np.testing.assert_array_equal(one.x, other.x)


def test_chains_that_have_not_met_are_told():
    with pytest.warns(ConvergenceWarning, match="have not mixed"):
        gaussian_model().sample(4, 2, tune=2, rng=0, messages=False)


@pytest.mark.parametrize("name", ["HetGaussian", "Beta"])
def test_inducing_values_against_long_mcmc_of_another_sampler(name):
    m, case = model_of(name, posterior="auto"), TRUTH[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # R-hat may be 1.02 of so few draws.
        found = m.sample(400, 2, tune=200, hyperparameters=False, rng=0, messages=False)
    assert found.rhat < 1.05
    mean, variance = found.predict_latents(m.X)
    true_mean, true_sd = np.array(case["mean"]).T, np.array(case["sd"]).T
    assert (np.abs(mean - true_mean) / true_sd).max() < 0.25
    np.testing.assert_allclose(np.sqrt(variance) / true_sd, 1.0, atol=0.2)
    assert np.median(np.sqrt(variance) / true_sd) == pytest.approx(1.0, abs=0.05)


def test_ctrl_c_ends_it():
    m = gaussian_model()
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        m.sample(100_000, 2, messages=False)
    assert time.monotonic() - start < 30.0


@pytest.mark.slow
def test_motorcycle_with_all_hyperparameters():
    X, y = cgp.datasets.motorcycle()[:2]
    m = cgp.ChainedGP(X, y, L.HetStudentT(), num_inducing=30, num_threads=1)
    m.optimize(messages=False)
    found = m.sample(rng=0, messages=False)
    assert found.rhat <= 1.01 and found.ess > 400 and found.divergences < 40
