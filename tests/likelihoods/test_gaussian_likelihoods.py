"""HetGaussian, Gaussian, Poisson, Bernoulli against scipy and adaptive integration."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from chainedgp.errors import InputError
from chainedgp.likelihoods import Bernoulli, Gaussian, HetGaussian, Likelihood, Poisson

RNG = np.random.default_rng(5)
N = 40
Y = RNG.normal(size=N)
MEANS = RNG.normal(size=(2, N)).T
# κ = v_f e^{−m_g} ≤ 0.1
VARIANCES = np.stack(
    [0.1 * np.exp(MEANS[:, 1]) * RNG.uniform(0.1, 1, N), RNG.uniform(0.01, 0.3, N)]
)
VARIANCES = VARIANCES.T


def test_het_gaussian_closed_form_equals_two_dimensional_quadrature():
    lik = HetGaussian()
    closed = lik.expected_log_density(Y, MEANS, VARIANCES)
    engine = Likelihood._quadrature(lik, Y, MEANS, VARIANCES, nodes=60)
    for a, b in zip(closed[:3], engine[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert closed[3].shape == (N, 0)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_het_gaussian_closed_form_equals_dblquad(row):
    (m, k), (v, w) = MEANS[row], VARIANCES[row]
    sd, se = np.sqrt(v), np.sqrt(w)

    def integrand(g, f):
        weight = stats_pdf((f - m) / sd) / sd * stats_pdf((g - k) / se) / se
        return weight * (-0.5 * np.log(2 * np.pi) - 0.5 * g - 0.5 * (Y[row] - f) ** 2 / np.exp(g))

    truth, _ = integrate.dblquad(
        integrand, m - 9 * sd, m + 9 * sd, k - 9 * se, k + 9 * se, epsabs=1e-9, epsrel=1e-9
    )
    value = HetGaussian().expected_log_density(Y[[row]], MEANS[[row]], VARIANCES[[row]])[0][0]
    assert value == pytest.approx(truth, abs=1e-8)


def stats_pdf(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def test_het_gaussian_equals_scipy_and_e_to_the_g_is_the_variance():
    lik, f, g = HetGaussian(), MEANS[:, 0], MEANS[:, 1]
    dist = stats.norm(f, np.sqrt(np.exp(g)))
    np.testing.assert_allclose(lik.log_density(Y, f, g), dist.logpdf(Y), rtol=1e-12)
    np.testing.assert_allclose(lik.cdf(Y, f, g), dist.cdf(Y), rtol=1e-12)
    np.testing.assert_allclose(lik.ppf(0.1, f, g), dist.ppf(0.1), rtol=1e-12)
    np.testing.assert_allclose(lik.conditional_variance(f, g), dist.var(), rtol=1e-12)
    np.testing.assert_allclose(lik.natural_parameters(f, g)["variance"], np.exp(g))


def test_het_gaussian_far_out_is_finite_or_minus_infinity():
    far = np.array([-300.0, 300.0])
    f, g = np.meshgrid(far, far)
    value = HetGaussian().log_density(0.0, f, g)
    np.testing.assert_allclose(value, stats.norm.logpdf(0.0, f, np.exp(0.5 * g)), rtol=1e-12)
    means, variances = np.array([[0.0, -800.0]]), np.array([[1.0, 1.0]])
    assert HetGaussian().expected_log_density(np.ones(1), means, variances)[0][0] == -np.inf


def test_het_gaussian_start_is_the_sample():
    y = 3.0 + 2.0 * np.random.default_rng(0).normal(size=500)
    np.testing.assert_allclose(HetGaussian().initial_latents(y), [y.mean(), np.log(y.var())])
    assert np.all(np.isfinite(HetGaussian().initial_latents(np.ones(3))))
    default = Likelihood.initial_latents(HetGaussian(), y)
    np.testing.assert_allclose(default, [y.mean(), np.log(y.var())], atol=0.02)


def test_gaussian_has_a_positive_variance():
    lik = Gaussian(variance=0.3)
    assert lik.latents == ("mean",)
    assert lik.parameter_values() == {"variance": 0.3}
    lik.variance = 0.5
    assert lik.parameter_values() == {"variance": 0.5}
    assert "+ve" in str(lik)
    with pytest.raises(InputError, match="variance"):
        Gaussian(variance=-1.0)


def test_gaussian_expectation_and_its_derivative_in_the_variance():
    m, v, s2 = MEANS[:, :1], VARIANCES[:, :1], 0.4
    value, dm, dv, dtheta = Gaussian().expected_log_density(Y, m, v, variance=s2)
    square = (Y - m[:, 0]) ** 2 + v[:, 0]
    np.testing.assert_allclose(value, -0.5 * np.log(2 * np.pi * s2) - 0.5 * square / s2, rtol=1e-12)
    np.testing.assert_allclose(dm[:, 0], (Y - m[:, 0]) / s2, rtol=1e-12)
    np.testing.assert_allclose(dv, -0.5 / s2, rtol=1e-12)
    np.testing.assert_allclose(dtheta[:, 0], 0.5 * square / s2**2 - 0.5 / s2, rtol=1e-11)


def test_gaussian_start_of_the_variance_comes_from_the_data_only_if_left_open():
    y = 2.0 * np.random.default_rng(0).normal(size=300)
    open_start = Gaussian().initial_parameters(y, variance=1.0)
    assert open_start == {"variance": pytest.approx(y.var())}
    assert Gaussian(variance=0.1).initial_parameters(y, variance=0.1) == {}


def test_poisson_equals_scipy_with_exposure():
    y, f = RNG.poisson(4.0, N).astype(float), RNG.normal(1.0, 1.0, N)
    exposure = RNG.uniform(0.2, 5.0, N)
    lik, dist = Poisson(), stats.poisson(exposure * np.exp(f))
    np.testing.assert_allclose(lik.log_density(y, f, exposure=exposure), dist.logpmf(y), rtol=1e-10)
    np.testing.assert_allclose(lik.cdf(y, f, exposure=exposure), dist.cdf(y), rtol=1e-10)
    for q in (1e-6, 0.025, 0.5, 0.975, 1 - 1e-9):
        np.testing.assert_array_equal(lik.ppf(q, f, exposure=exposure), dist.ppf(q))
    assert lik.metadata_names == ("exposure",)
    lik.check_metadata([])
    np.testing.assert_allclose(
        lik.log_density(y, f, exposure=np.ones(N)), lik.log_density(y, f), rtol=1e-13
    )


@pytest.mark.parametrize("lik, y", [(Poisson(), 3.0), (Bernoulli(), 1.0), (Bernoulli(), 0.0)])
@pytest.mark.parametrize("m, v", [(0.3, 0.5), (-1.0, 4.0), (2.0, 0.01)])
def test_one_latent_expectations_equal_adaptive_integration(lik, y, m, v):
    sd = np.sqrt(v)
    truth, _ = integrate.quad(
        lambda x: lik.log_density(y, m + sd * x) * stats_pdf(x), -11, 11, epsabs=1e-11, limit=200
    )
    value = lik.expected_log_density(np.array([y]), np.array([[m]]), np.array([[v]]))[0][0]
    assert value == pytest.approx(truth, abs=1e-9)


def test_bernoulli_equals_scipy_and_is_stable():
    f, y = np.linspace(-40, 40, 21), np.arange(21) % 2.0
    p = special.expit(f)
    np.testing.assert_allclose(
        Bernoulli().log_density(y, f), np.where(y == 1, special.log_expit(f), special.log_expit(-f))
    )
    np.testing.assert_allclose(Bernoulli().conditional_variance(f), p * special.expit(-f))
    assert Bernoulli().log_density(np.zeros(1), np.array([300.0]))[0] == -300.0
    assert np.isfinite(Bernoulli().initial_latents(np.ones(10))[0])


@pytest.mark.parametrize(
    "lik, y, words",
    [
        (Poisson(), [1.0, -1.0, 2.5], "2 of 3 are not, the first is Y\\[1\\]"),
        (Bernoulli(), [0.0, 1.0, 0.5], "1 of 3 are not, the first is Y\\[2\\] = 0.5"),
        (HetGaussian(), [0.0, np.nan, np.inf], "2 of 3 are not, the first is Y\\[1\\] = nan"),
    ],
)
def test_targets_outside_the_support_are_refused(lik, y, words):
    with pytest.raises(InputError, match=words):
        lik.check_targets(np.array(y))
