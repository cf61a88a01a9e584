"""Special functions against mpmath."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
import scipy
from scipy import stats

from chainedgp import likelihoods
from chainedgp.expectations import special
from chainedgp.expectations.closed import expected_log1p_square, expected_softplus


@cache
def gaussian_mean(function, mean, variance):
    """E f(x), x ~ N(mean, variance), by mpmath's adaptive quadrature."""
    mean, sd = mp.mpf(mean), mp.sqrt(mp.mpf(variance))
    low, high = mean - 11 * sd, mean + 11 * sd
    inner = [x for x in (-30, -5, -1, 0, 1, 5, 30) if low < x < high]
    points = sorted({low, mean - 3 * sd, mean, mean + 3 * sd, high, *map(mp.mpf, inner)})
    return mp.quad(lambda x: function(x) * mp.npdf(x, mean, sd), points)


def logistic(x):
    return 1 / (1 + mp.exp(-x))


STUDENT = (
    lambda x: mp.log1p(x * x),
    lambda x: 2 * x / (1 + x * x),
    lambda x: (1 - x * x) / (1 + x * x) ** 2,
)
SOFTPLUS = (
    lambda x: mp.log1p(mp.exp(x)),
    logistic,
    lambda x: logistic(x) * (1 - logistic(x)) / 2,
)


@pytest.mark.parametrize("mean", [0.0, -0.3, 5.0, 1e4])
@pytest.mark.parametrize("variance", [1e-12, 1e-3, 1.0, 10.0, 1e5])
def test_expected_log1p_square(mean, variance):
    got = expected_log1p_square(np.array([mean]), np.array([variance]))
    want = [float(gaussian_mean(f, mean, variance)) for f in STUDENT]
    np.testing.assert_allclose([g[0] for g in got], want, rtol=5e-12, atol=3e-12)


@pytest.mark.parametrize("mean", [0.0, -4.0, 1.5, 60.0])
@pytest.mark.parametrize("variance", [1e-10, 0.2, 9.0, 1e4])
@pytest.mark.parametrize(("terms", "tolerance"), [(16, 1e-11), (12, 1.5e-9)])
def test_expected_softplus(mean, variance, terms, tolerance):
    got = expected_softplus(np.array([mean]), np.array([variance]), terms)
    want = [float(gaussian_mean(f, mean, variance)) for f in SOFTPLUS]
    np.testing.assert_allclose([g[0] for g in got], want, rtol=1e-14, atol=tolerance)


@pytest.mark.parametrize("function", [expected_log1p_square, expected_softplus])
def test_no_width_is_the_function_itself(function):
    x = np.linspace(-40, 40, 101)
    want = np.log1p(x**2) if function is expected_log1p_square else np.logaddexp(0, x)
    np.testing.assert_allclose(function(x, np.zeros(()))[0], want, rtol=1e-13, atol=1e-11)


@pytest.mark.parametrize("function", [expected_log1p_square, expected_softplus])
def test_derivatives_are_those_of_the_value(function):
    rng = np.random.default_rng(0)
    mean, variance = 3 * rng.normal(size=200), np.exp(2 * rng.normal(size=200))
    value, dmean, dvariance = function(mean, variance)
    for got, shift in ((dmean, (1e-3, 0.0)), (dvariance, (0.0, 1e-3))):

        def at(k, shift=shift):
            return function(mean + k * shift[0], variance * (1 + k * shift[1]))[0]

        step = shift[0] + shift[1] * variance
        want = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
        rounding = 4 * np.finfo(float).eps * (1.0 + np.abs(value)) / step
        assert (np.abs(got - want) <= 1e-10 + 1e-8 * np.abs(want) + rounding).all()


def test_shapes_and_pieces_do_not_matter(monkeypatch):
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(size=(3, 1, 5)), np.exp(rng.normal(size=(7, 5)))
    for function in (expected_log1p_square, expected_softplus):
        whole = function(mean, variance)
        assert whole[0].shape == (3, 7, 5)
        one = [function(mean[i, 0], variance[j])[0] for i in range(3) for j in range(7)]
        np.testing.assert_allclose(whole[0].reshape(21, 5), one, rtol=1e-14)
        long = function(np.tile(mean.ravel(), 2000), 1.0)[0]
        np.testing.assert_allclose(long[-15:], function(mean.ravel(), 1.0)[0], rtol=1e-13)


@pytest.mark.parametrize("log_x", [-300.0, -40.0, -5.0, -1.0, 0.0, 0.7, 2.0, 5.0, 20.0, 300.0])
def test_stirling_remainder(log_x):
    value, slope = special.stirling_remainder(np.array([np.exp(log_x)]))
    with mp.workdps(300):
        x = mp.mpf(float(np.exp(log_x)))
        want = mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2
        want_slope = x * (mp.digamma(x) - mp.log(x)) + 0.5
        np.testing.assert_allclose(value, float(want), rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(slope, float(want_slope), rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(special.binet(np.array([np.exp(log_x)])), value)


@pytest.mark.parametrize("x", [1e-3, 0.8, 40.0, 1e7])
def test_values_alone_are_those_with_slopes_beside_them(x):
    """Of a rising factorial, and of the constant of Student-t densities of several ν."""
    a, k = np.array([x]), np.array([3.0])
    with mp.workdps(60):
        m = mp.mpf(x)
        want = mp.loggamma(m + 3) - mp.loggamma(m) - 3 * mp.log(m)
        constant = mp.loggamma((m + 1) / 2) - mp.loggamma(m / 2) - mp.log(m * mp.pi) / 2
    np.testing.assert_allclose(special.rising_excess_value(a, k), float(want), 1e-12, 1e-13)
    np.testing.assert_allclose(special.student_t_log_constant(a), float(constant), 1e-12, 1e-13)


@pytest.mark.parametrize("x", [1e-3, 0.25, 2.0, 50.0, 1e4, 1e12])
def test_lgamma_half_step(x):
    value, slope = special.lgamma_half_step(x)
    with mp.workdps(60):
        want = mp.loggamma(mp.mpf(x) + 0.5) - mp.loggamma(mp.mpf(x))
        want_slope = mp.digamma(mp.mpf(x) + 0.5) - mp.digamma(mp.mpf(x))
    assert float(value) == pytest.approx(float(want), rel=1e-13, abs=1e-13)
    assert float(slope) == pytest.approx(float(want_slope), rel=1e-12, abs=1e-15)


def test_log_differences():
    x = -np.array([1e-300, 1e-20, 1e-5, 0.1, np.log(2), 1.0, 30.0, 700.0])
    with mp.workdps(400):
        want = [float(mp.log(-mp.expm1(mp.mpf(float(v))))) for v in x]
    np.testing.assert_allclose(special.log1mexp(x), want, rtol=1e-14)
    assert special.log1mexp(np.array(0.0)) == -np.inf
    got = special.log_diff_exp(
        np.array([-800.0, -1.0, -np.inf, 5.0]), [-801.0, -1.0, -np.inf, -np.inf]
    )
    np.testing.assert_allclose(got, [-800 + np.log(-np.expm1(-1.0)), -np.inf, -np.inf, 5.0])
    np.testing.assert_allclose(
        special.softplus(np.array([-800.0, 0.0, 900.0])), [0.0, np.log(2), 900.0]
    )


def test_a_wrong_formula_would_be_seen():
    """The oracle tells the expectation from the two that are most easily taken for it."""
    want = float(gaussian_mean(STUDENT[0], 0.5, 1.0))
    plug_in = np.log1p(0.5**2)
    half_width = expected_log1p_square(np.array([0.5]), np.array([0.5]))[0][0]  # τ² = v
    assert min(abs(plug_in - want), abs(half_width - want)) > 0.05


@pytest.mark.parametrize("mean, variance", [(1e-6, 1e-12), (9e-3, 6e-7), (1e-8, 3e-5)])
def test_expected_log1p_square_is_right_relative_to_itself_near_zero(mean, variance):
    """A Student-t multiplies it by ν + 1: an absolute error of 1e-16 would count at ν = 1e20."""
    with mp.workdps(30):
        sd = mp.sqrt(variance)

        def expected(function):
            weight = lambda t: function(mean + sd * t) * mp.npdf(t)  # noqa: E731
            return float(mp.quad(weight, [-12, -6, -3, 0, 3, 6, 12]))

        references = [
            expected(lambda x: mp.log1p(x * x)),
            expected(lambda x: 2 * x / (1 + x * x)),
            expected(lambda x: (1 - x * x) / (1 + x * x) ** 2),
        ]
    values = expected_log1p_square(np.array([mean]), np.array([variance]))
    np.testing.assert_allclose(np.ravel(values), references, rtol=1e-11)


@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16),
    reason="the cdf of scipy.stats is itself wrong for such shapes in older versions",
)
@pytest.mark.parametrize("alpha, beta", [(2e10, 5e13), (3e11, 1.1e10), (4e16, 1e16)])
def test_the_beta_cdf_of_large_shapes(alpha, beta):
    mean, sd = alpha / (alpha + beta), np.sqrt(alpha * beta / (alpha + beta) ** 3)
    y = mean + sd * np.array([-6.0, -2.0, -0.5, 0.1, 0.4, 3.0, 7.0])
    ours, theirs = special.beta_cdf(np.r_[y, 0.0, 1.0], alpha, beta), stats.beta(alpha, beta).cdf(y)
    np.testing.assert_allclose(ours[:-2], theirs, atol=1e-10 + 1e-16 / sd)
    assert ours[-2:].tolist() == [0.0, 1.0]
    first_order = stats.norm.cdf((y - mean) / sd)  # the correction is needed
    assert (alpha + beta > 1e16) or np.abs(first_order - ours[:-2]).max() > 1e-8


def test_beta_quantiles_of_shapes_beyond_all_numbers():
    beta = likelihoods.Beta()
    assert np.array_equal(beta.ppf([0.025, 0.975], 2.0, -1e4), [1.0, 1.0])
    assert np.all(beta.ppf([0.025, 0.975], -1e4, 2.0) < 1e-300)
    assert np.isfinite(beta.ppf(0.5, -1e4, -1e4))  # where scipy's distribution raises an error
    expected = stats.beta(np.exp(1.0), np.exp(0.5)).ppf([0.1, 0.9])
    np.testing.assert_allclose(beta.ppf([0.1, 0.9], 1.0, 0.5), expected, rtol=1e-12)


def test_student_t_quantiles_far_out():
    """Closed forms at ν = 1 and 2, the normal law at ν → ∞, and the ends of the line."""
    q = np.array([1e-300, 1e-60, 1e-20, 1e-6, 0.03, 0.2499, 0.2501, 0.4, 0.75, 0.97])
    cauchy = special.student_t_quantile(1.0, q)
    np.testing.assert_allclose(cauchy, -1.0 / np.tan(np.pi * q), rtol=1e-11, atol=1e-11)
    two = special.student_t_quantile(2.0, q)
    np.testing.assert_allclose(two, (2 * q - 1) / np.sqrt(2 * q * (1 - q)), rtol=1e-11)
    normal = special.student_t_quantile(1e12, q[1:])
    np.testing.assert_allclose(normal, stats.norm.ppf(q[1:]), rtol=1e-8)
    assert special.student_t_quantile(5.0, [0.0, 1.0]).tolist() == [-np.inf, np.inf]
