"""Moments given the latents that are integrals over y, by polynomials: closed forms are oracles."""

import numpy as np
import pytest
from scipy.special import gammainc, gammaln, polygamma, psi

from chainedgp.likelihoods import Likelihood
from chainedgp.predictive.conditional import conditional_moments
from chainedgp.predictive.distribution import Predictive


class Logistic(Likelihood):
    latents = ("location", "log_scale")
    values = 0

    def log_density(self, y, f, g):
        type(self).values += np.broadcast(y, f, g).size
        z = np.abs(y - f) * np.exp(-g)
        return -z - g - 2.0 * np.log1p(np.exp(-z))


class LogisticWithMean(Logistic):
    def conditional_mean(self, f, g):
        return f + 0.0 * g


class LogisticWithVariance(Logistic):
    def conditional_variance(self, f, g):
        return np.exp(2.0 * g) * np.pi**2 / 3.0 + 0.0 * f


class Kinked(Likelihood):
    """Gaussian noise with the standard deviation e^|g|."""

    latents = ("mean", "log_sd")

    def log_density(self, y, f, g):
        return -0.5 * ((y - f) * np.exp(-np.abs(g))) ** 2 - np.abs(g) - 0.5 * np.log(2.0 * np.pi)


class Waiting(Likelihood):
    """Gamma distributed, with the mean e^f and the shape e^g."""

    latents = ("log_mean", "log_shape")
    support = "positive"

    def log_density(self, y, f, g):
        k = np.exp(g)
        return k * (g - f) + (k - 1.0) * np.log(y) - k * y * np.exp(-f) - gammaln(k)


class Skewed(Likelihood):
    latents = ("location", "log_scale", "log_skew")

    def log_density(self, y, f, g, h):
        z = (y - f) * np.exp(-g)
        return h - z - g - (np.exp(h) + 1.0) * np.logaddexp(0.0, -z)


class Measured(Likelihood):
    """Laplace noise whose scale is e^g times a known error."""

    latents = ("location", "log_scale")

    def log_density(self, y, f, g, *, error):
        scale = error * np.exp(g)
        return -np.abs(y - f) / scale - np.log(2.0 * scale)


def closed(lik, f, g, *rest, error=1.0):
    if isinstance(lik, Logistic):
        return f, np.exp(2.0 * g) * np.pi**2 / 3.0
    if isinstance(lik, Kinked):
        return f, np.exp(2.0 * np.abs(g))
    if isinstance(lik, Waiting):
        return np.exp(f), np.exp(2.0 * f - g)
    if isinstance(lik, Measured):
        return f, 2.0 * (error * np.exp(g)) ** 2
    a = np.exp(rest[0])
    return f + np.exp(g) * (psi(a) - psi(1.0)), np.exp(2.0 * g) * (polygamma(1, a) + np.pi**2 / 6.0)


CASES = [Logistic, LogisticWithMean, LogisticWithVariance, Kinked, Waiting, Skewed, Measured]


@pytest.mark.parametrize("cls", CASES)
def test_moments_at_many_latents_are_those_of_closed_forms(cls):
    rng, lik = np.random.default_rng(3), cls()
    latents = rng.normal(
        [[[0.5]], [[-0.4]], [[0.2]]][: len(lik.latents)], 1.0, (len(lik.latents), 500, 3)
    )
    kw = {"error": np.array([0.5, 2.0, 0.5])} if cls is Measured else {}
    mean, variance = conditional_moments(lik, tuple(latents), kw)
    want_mean, want_variance = closed(lik, *latents, **kw)
    assert np.abs(mean - want_mean).max() < 1e-6 * np.sqrt(want_variance.max())
    assert np.all(np.abs(mean - want_mean) < 5e-6 * np.sqrt(want_variance))
    np.testing.assert_allclose(variance, want_variance, rtol=5e-6)


@pytest.mark.parametrize("cls", [Logistic, LogisticWithMean, LogisticWithVariance])
def test_moments_of_many_rows_take_few_values_of_the_density(cls):
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(500, 2)), np.full((500, 2), 0.2)
    cls.values, predictive = 0, Predictive(cls(), means, variances)
    noise = np.pi**2 / 3.0 * np.exp(2.0 * means[:, 1] + 0.4)
    np.testing.assert_allclose(predictive.noise_variance[:, 0], noise, rtol=1e-5)
    np.testing.assert_allclose(predictive.mean[:, 0], means[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(predictive.latent_variance, 0.2, rtol=1e-9)
    # Integrals at 100 latents of each row would take above 500 · 100 · 500 values.
    assert cls.values < 1_000_000


def test_quantiles_of_a_light_tail_come_without_warnings():
    """Far out, where such a density is 0 but for rounding, nothing has to be resolved."""

    class GeneralisedGamma(Likelihood):
        latents = ("log_scale", "log_shape", "log_power")
        support = "positive"

        def log_density(self, y, f, g, h):
            d, p, z = np.exp(g), np.exp(h), np.log(y) - f
            return h - f - gammaln(d / p) + (d - 1.0) * z - np.exp(p * z)

    class WithCdf(GeneralisedGamma):
        def cdf(self, y, f, g, h):
            z = np.exp(h) * (np.log(y) - f)
            return gammainc(np.exp(g - h), np.exp(np.minimum(z, 700.0)))

    means, V = np.array([[1.9, 0.7, 0.35]]), np.array([[0.13, 0.03, 0.05]])
    levels = np.array([0.025, 0.5, 0.975])
    found = Predictive(GeneralisedGamma(), means, V).ppf(levels)
    np.testing.assert_allclose(Predictive(WithCdf(), means, V).cdf(found), levels[None], atol=3e-7)


def test_a_latent_that_does_not_vary_and_endless_moments():
    class StudentT(Likelihood):
        latents = ("location", "log_nu")

        def log_density(self, y, f, g):
            nu = np.exp(g)
            constant = gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
            return constant - 0.5 * (nu + 1.0) * np.log1p((y - f) ** 2 / nu)

    f, fixed = np.linspace(-1.0, 1.0, 200)[:, None], np.full((200, 1), np.log(5.0))
    mean, variance = conditional_moments(StudentT(), (f, fixed), {})
    np.testing.assert_allclose(mean, f, atol=1e-6)
    np.testing.assert_allclose(variance, 5.0 / 3.0, rtol=1e-5)
    mean, variance = conditional_moments(StudentT(), (f, fixed - np.log(4.0)), {})
    np.testing.assert_allclose(mean, f, atol=1e-3)
    assert np.isinf(variance).all()
