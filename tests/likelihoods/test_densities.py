"""Densities, cdfs, quantiles and moments against scipy.stats and mpmath."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from chainedgp import likelihoods
from chainedgp.errors import InputError
from chainedgp.likelihoods import AdditivePoisson, Beta, HetStudentT, LogLogisticSurvival, Survival

RNG = np.random.default_rng(11)
F, G = RNG.normal(size=40), RNG.normal(size=40)


def frozen(name, f, g):
    if name == "HetStudentT":
        return stats.t(3.5, loc=f, scale=np.exp(0.5 * g))
    if name == "Beta":
        return stats.beta(np.exp(f), np.exp(g))
    if name == "LogLogisticSurvival":
        return stats.fisk(np.exp(g), scale=np.exp(f))
    return stats.poisson(np.exp(f) + np.exp(g))


LIKELIHOODS = {
    "HetStudentT": (HetStudentT(), {"nu": 3.5}),
    "Beta": (Beta(), {}),
    "LogLogisticSurvival": (LogLogisticSurvival(), {}),
    "AdditivePoisson": (AdditivePoisson(), {}),
}


@pytest.fixture(params=LIKELIHOODS)
def case(request):
    lik, kw = LIKELIHOODS[request.param]
    return request.param, lik, kw, frozen(request.param, F, G)


def test_bulk(case):
    name, lik, kw, want = case
    for q in (0.02, 0.3, 0.5, 0.9, 0.99):
        y = want.ppf(q)
        y = np.clip(y, 1e-12, 1 - 1e-12) if name == "Beta" else y
        log_p = want.logpmf(y) if name == "AdditivePoisson" else want.logpdf(y)
        np.testing.assert_allclose(lik.log_density(y, F, G, **kw), log_p, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(lik.cdf(y, F, G, **kw), want.cdf(y), rtol=1e-10)
        np.testing.assert_allclose(lik.ppf(q, F, G, **kw), want.ppf(q), rtol=1e-8)


def test_moments_and_draws(case):
    _, lik, kw, want = case
    mean, variance = want.stats(moments="mv")
    got = lik.conditional_mean(F, G, **kw), lik.conditional_variance(F, G, **kw)
    finite = np.isfinite(mean) & np.isfinite(variance)
    assert finite.sum() > 4
    np.testing.assert_allclose(got[0][finite], mean[finite], rtol=1e-9)
    np.testing.assert_allclose(got[1][finite], variance[finite], rtol=1e-8)
    draws = lik.sample(np.random.default_rng(0), F, G, size=4000, **kw)
    assert draws.shape == (4000, 40)
    # the share of draws below the quartiles: 5 standard errors
    for q in (0.25, 0.5, 0.75):
        y = want.ppf(q)
        share = want.cdf(y)
        assert np.all(
            np.abs((draws <= y).mean(0) - share) < 5 * np.sqrt(share * (1 - share) / 4000)
        )


def test_student_t_far_out():
    f, g, nu = 0.3, -1.2, 4.0
    y = f + np.array([-30.0, 30.0]) * np.exp(0.5 * g)
    want = stats.t(nu, loc=f, scale=np.exp(0.5 * g))
    np.testing.assert_allclose(HetStudentT().log_density(y, f, g, nu=nu), want.logpdf(y), rtol=1e-8)
    np.testing.assert_allclose(HetStudentT().cdf(y, f, g, nu=nu), want.cdf(y), rtol=1e-8)
    huge = HetStudentT().log_density(1.3, 0.2, 0.1, nu=1e9)  # the Gaussian limit
    assert huge == pytest.approx(stats.norm(0.2, np.exp(0.05)).logpdf(1.3), rel=1e-8)


def test_log_logistic_far_out():
    f, g = 0.3, 0.7
    a = np.array([-30.0, 30.0])
    y = np.exp(f + a * np.exp(-g))
    want = g - np.log(y) - 2 * np.logaddexp(0, a) + a
    np.testing.assert_allclose(LogLogisticSurvival().log_density(y, f, g), want, rtol=1e-12)
    got = LogLogisticSurvival().log_survival(y, f, g)
    np.testing.assert_allclose(got, -np.logaddexp(0, a), rtol=1e-12)


@pytest.mark.parametrize(("f", "g"), [(18.0, 17.0), (-20.0, 2.0), (25.0, -3.0), (0.0, 0.0)])
def test_beta_shapes_large_and_tiny(f, g):
    share = 1 / (1 + np.exp(g - f))
    sd = np.sqrt(share * (1 - share) / (np.exp(f) + np.exp(g) + 1))
    for y in np.clip(share + sd * np.array([-2.0, 0.0, 30.0]), 1e-9, 1 - 1e-9):
        with mp.workdps(60):
            a, b, t = mp.exp(mp.mpf(f)), mp.exp(mp.mpf(g)), mp.mpf(float(y))
            want = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
            want = float(want + (a - 1) * mp.log(t) + (b - 1) * mp.log(1 - t))
        # log y itself is known to half an ulp, which the shape multiplies
        got = float(Beta().log_density(y, np.float64(f), np.float64(g)))
        assert got == pytest.approx(want, rel=1e-8, abs=1e-10 + 4e-16 * (np.exp(f) + np.exp(g)))


def test_additive_poisson_far_out():
    f, g = np.log(40.0), np.log(60.0)
    for y in (0.0, 100.0, 400.0):
        want = y * logsumexp([f, g]) - 100.0 - gammaln(y + 1)
        assert AdditivePoisson().log_density(y, f, g) == pytest.approx(want, rel=1e-12)
    assert AdditivePoisson().log_density(3.0, f, g, exposure=0.1) == pytest.approx(
        stats.poisson(10.0).logpmf(3), rel=1e-12
    )


EXTREME = np.array([-300.0, -40.0, -1.0, 0.0, 2.0, 40.0, 300.0])


def test_extreme_latents(case):
    """Never NaN, never +inf, for |f|, |g| ≤ 300; derivatives never NaN."""
    _, lik, kw, _ = case
    f, g = EXTREME[:, None, None], EXTREME[None, :, None]
    y = {
        "unit": [1e-300, 0.3, 1 - 1e-16],
        "counts": [0.0, 3.0, 1e6],
        "positive": [1e-300, 1.0, 1e300],
    }
    y = np.array(y.get(lik.support, [-1e10, 0.0, 300.0]))
    with np.errstate(over="ignore"):
        value = lik.log_density(y, f, g, **kw)
        slopes = (*lik.dlog_density(y, f, g, **kw), *lik.d2log_density(y, f, g, **kw))
    assert value.shape == (7, 7, 3)
    assert not np.isnan(value).any()
    assert not np.isposinf(value).any()
    assert not any(np.isnan(s).any() for s in slopes)
    moderate = (slice(2, 5), slice(2, 5), 1)
    assert np.isfinite(value[moderate]).all()


# -- survival ----------------------------------------------------------------------------------


class Generic(Survival):
    """The log-logistic by hazard and survival function alone."""

    latents = ("log_median", "log_shape")

    def log_hazard(self, t, f, g):
        return LogLogisticSurvival().log_hazard(t, f, g)

    def log_survival(self, t, f, g):
        return LogLogisticSurvival().log_survival(t, f, g)


class Weibull(Survival):
    """Given by hazard and cdf: log S follows."""

    latents = ("log_scale", "log_shape")

    def log_hazard(self, t, f, g):
        return g - f + np.expm1(g) * (np.log(t) - f)

    def cdf(self, y, f, g, **metadata):
        return -np.expm1(-np.exp(np.exp(g) * (np.log(y) - f)))


def survival_data(n=200):
    rng = np.random.default_rng(5)
    y = np.exp(rng.normal(size=n))
    metadata = {
        "censored": rng.choice([0.0, 1.0, -1.0, 2.0], size=n),
        "y_upper": y * (1 + rng.uniform(0.1, 2.0, size=n)),
        "entry": np.where(rng.uniform(size=n) < 0.5, 0.0, 0.5 * y),
    }
    return y, rng.normal(size=n), 0.5 * rng.normal(size=n), metadata


def test_censoring_from_hazard_and_survival():
    y, f, g, metadata = survival_data()
    want = Survival.log_density(LogLogisticSurvival(), y, f, g, **metadata)
    np.testing.assert_allclose(
        LogLogisticSurvival().log_density(y, f, g, **metadata), want, rtol=1e-11
    )
    np.testing.assert_allclose(Generic().log_density(y, f, g, **metadata), want, rtol=1e-11)


def test_censoring_against_differences_of_the_cdf():
    y, f, g, metadata = survival_data()
    lik = LogLogisticSurvival()
    dist = stats.fisk(np.exp(g), scale=np.exp(f))
    code, entry = metadata["censored"], metadata["entry"]
    want = np.select(
        [code == 0, code == 1, code == -1],
        [dist.pdf(y), dist.sf(y), dist.cdf(y) - dist.cdf(entry)],
        dist.cdf(metadata["y_upper"]) - dist.cdf(y),
    ) / dist.sf(entry)
    np.testing.assert_allclose(np.exp(lik.log_density(y, f, g, **metadata)), want, rtol=1e-9)


def test_another_family():
    y, f, g, metadata = survival_data()
    dist = stats.weibull_min(np.exp(g), scale=np.exp(f))
    want = np.select(
        [metadata["censored"] == 0, metadata["censored"] == 1, metadata["censored"] == -1],
        [dist.pdf(y), dist.sf(y), dist.cdf(y) - dist.cdf(metadata["entry"])],
        dist.cdf(metadata["y_upper"]) - dist.cdf(y),
    ) / dist.sf(metadata["entry"])
    keep = want > 1e-6  # a cdf in double precision knows no far tail
    got = np.exp(Weibull().log_density(y, f, g, **metadata))
    np.testing.assert_allclose(got[keep], want[keep], rtol=1e-8)


@pytest.mark.parametrize("lik", [LogLogisticSurvival(), Generic()], ids=["closed", "generic"])
@pytest.mark.parametrize("a", [-500.0, -40.0, -1.0, 0.0, 3.0, 40.0, 500.0])
def test_intervals_in_the_far_tails(lik, a):
    g = 0.4
    y, upper = (np.exp(t * np.exp(-g)) for t in (a, a + 0.01))
    with mp.workdps(500):
        low, high = (mp.exp(mp.mpf(g)) * mp.log(mp.mpf(float(t))) for t in (y, upper))
        want = float(mp.log(1 / (1 + mp.exp(low)) - 1 / (1 + mp.exp(high))))
    got = lik.log_density(
        np.array([y]), 0.0, g, censored=np.array([2.0]), y_upper=np.array([upper])
    )
    # the ends of the interval are known to an ulp: 1e-16 of |a| against a width of 0.01
    assert got[0] == pytest.approx(want, abs=1e-12 * max(1.0, abs(want)) + 1e-13 * abs(a))


def test_derivatives_of_censored_rows():
    y, f, g, metadata = survival_data(80)
    lik, step = LogLogisticSurvival(), 1e-4
    first, second = lik.dlog_density(y, f, g, **metadata), lik.d2log_density(y, f, g, **metadata)
    for j, (df, dg) in enumerate([(step, 0.0), (0.0, step)]):
        up, down = (lik.log_density(y, f + s * df, g + s * dg, **metadata) for s in (1, -1))
        np.testing.assert_allclose(first[j], (up - down) / (2 * step), rtol=1e-6, atol=1e-7)
        up, down = (lik.dlog_density(y, f + s * df, g + s * dg, **metadata)[j] for s in (1, -1))
        np.testing.assert_allclose(second[j], (up - down) / (2 * step), rtol=1e-6, atol=1e-6)


def test_survival_asks_for_what_it_needs():
    class Empty(Survival):
        latents = ("f",)

    with pytest.raises(NotImplementedError, match="log_survival or cdf"):
        Empty().log_density(np.ones(2), np.zeros(2))
    for lik in (LogLogisticSurvival(), Generic()):
        with pytest.raises(InputError, match="y_upper"):
            lik.log_density(np.ones(2), np.zeros(2), np.zeros(2), censored=np.array([0.0, 2.0]))


def test_starts_are_near_the_truth(case):
    name, lik, kw, _ = case
    truth = {"HetStudentT": (3.0, -2.0), "Beta": (1.0, 2.0), "LogLogisticSurvival": (1.0, 0.7)}
    f, g = truth.get(name, (0.5, 0.5))
    y = lik.sample(np.random.default_rng(2), np.float64(f), np.float64(g), size=2000, **kw)
    np.testing.assert_allclose(lik.initial_latents(y, **kw), (f, g), atol=0.2)


def test_odd_intervals():
    f, g = np.zeros(3), np.zeros(3)
    y, upper = np.array([1.0, 1.0, 2.0]), np.array([np.inf, 1.0, 1.0])
    for lik in (LogLogisticSurvival(), Generic()):
        got = lik.log_density(y, f, g, censored=np.full(3, 2.0), y_upper=upper)
        np.testing.assert_allclose(got, [np.log(0.5), -np.inf, -np.inf])
        with pytest.raises(InputError, match="censored must be 0"):
            lik.log_density(y, f, g, censored=np.array([0.0, 3.0, 1.0]))


@pytest.mark.parametrize("name", ["WeibullSurvival", "LogNormalSurvival", "LogLogisticSurvival"])
def test_intervals_too_narrow_for_differences_have_the_density_times_their_width(name):
    lik = getattr(likelihoods, name)()
    y, f = np.array([2.0]), 0.3
    for width in (0.9e-9, 1e-12, 1e-18):  # on the scale of z: probabilities differ by rounding only
        g = lik._sign * np.log(width / 1e-3)
        kw = {"censored": np.array([2.0]), "y_upper": y * np.exp(1e-3)}
        middle = y * np.exp(5e-4)
        exact = lik.log_density(middle, f, g) + np.log(1e-3 * middle)
        np.testing.assert_allclose(lik.log_density(y, f, g, **kw), exact, rtol=1e-12)
        found, wanted = lik.dlog_density(y, f, g, **kw), lik.dlog_density(middle, f, g)
        np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-15)
    # and at the border both ways of taking it agree
    above, below = (
        lik.log_density(y, f, lik._sign * np.log(w / 1e-3), **kw) - np.log(w)
        for w in (1.01e-9, 0.99e-9)
    )
    np.testing.assert_allclose(above, below, atol=2e-6)


@pytest.mark.parametrize("name", ["WeibullSurvival", "LogNormalSurvival", "LogLogisticSurvival"])
def test_left_censored_rows_of_a_small_shape_have_the_cdf(name):
    lik = getattr(likelihoods, name)()
    y, left = np.array([2.0]), {"censored": np.array([-1.0])}
    for g in (-6.0, -5.0, 0.0):
        g *= lik._sign
        found = lik.log_density(y, 0.0, g, **left)
        np.testing.assert_allclose(found, lik.log_cdf(y, 0.0, g), rtol=1e-12)
        slope = (
            lik.log_density(y, 0.0, g + 1e-5, **left) - lik.log_density(y, 0.0, g - 1e-5, **left)
        ) / 2e-5
        np.testing.assert_allclose(lik.dlog_density(y, 0.0, g, **left)[1], slope, rtol=1e-6)
