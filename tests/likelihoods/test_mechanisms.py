"""The mechanisms: distributions of scipy.stats, inflation, hurdles, event times, checked densities.

Oracles: scipy.stats, mpmath, enumeration, the quadrature engine.
"""

import warnings

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

import chainedgp as cgp
import chainedgp.likelihoods as liks
from chainedgp.data.rows import Rows
from chainedgp.errors import InputError, MomentWarning
from chainedgp.likelihoods import HetGaussian, Likelihood, from_density
from chainedgp.likelihoods.density_check import check_density
from chainedgp.testing.likelihood import check_likelihood
from chainedgp.testing.report import ContractError

RNG = np.random.default_rng


class GammaNoise(Likelihood):
    """Its distribution and nothing else but the density."""

    latents = ("log_mean",)
    support = "positive"

    def distribution(self, f):
        return stats.gamma(3.0, scale=np.exp(f) / 3.0)

    def log_density(self, y, f):
        return self.distribution(f).logpdf(y)


def test_everything_follows_from_a_distribution():
    lik, f, q = GammaNoise(), np.linspace(-1.0, 2.0, 5), np.array([[0.1], [0.9]])
    check_likelihood(lik)
    table = from_density.tabulate(lik, (f,), {})  # by integration of the density
    for got, slow in (
        (lik.cdf(1.2, f), table.cdf(np.array(1.2))),
        (lik.ppf(q, f), table.ppf(q)),
        (lik.conditional_variance(f), table.moments()[1]),
    ):
        np.testing.assert_allclose(got, slow, rtol=1e-8)
    law = stats.gamma(3.0, scale=np.exp(f) / 3.0)
    assert np.array_equal(lik.cdf(1.2, f), law.cdf(1.2))  # and not by integration
    draws = law.rvs((7, 5), random_state=RNG(0))
    assert np.array_equal(lik.sample(RNG(0), f, size=7), draws)
    assert lik.has_distribution and lik.has_cdf and lik.has_moments and lik.has_draws

    class OwnMean(GammaNoise):
        def distribution(self, f):
            return stats.cauchy(f)

        def conditional_mean(self, f):
            return f

    assert np.all(OwnMean().conditional_mean(f) == f)
    assert np.all(np.isinf(OwnMean().conditional_variance(f)))  # scipy says NaN


class ScipySurvival(liks.Survival):
    latents = ("log_scale",)

    def distribution(self, f, **kw):
        return stats.gamma(2.0, scale=np.exp(f))


def test_a_survival_likelihood_from_a_distribution():
    y, f, upper = np.array([0.3, 2.0, 40.0]), np.zeros(3), np.array([0.4, 3.0, 41.0])
    codes = np.full(3, 2.0)
    got = ScipySurvival().log_density(y, f, censored=codes, y_upper=upper)
    dist = stats.gamma(2.0)
    want = np.log(dist.sf(y) - dist.sf(upper))
    np.testing.assert_allclose(got, want, rtol=1e-10)
    check_likelihood(ScipySurvival(), metadata={"censored": np.arange(8) % 2.0})


# ---- from_scipy ---------------------------------------------------------------------------------


def test_from_scipy_names_latents_and_finds_the_support():
    make = Likelihood.from_scipy
    for dist, links, latents, support in (
        (stats.norm, {"loc": "identity", "scale": "exp"}, ("loc", "log_scale"), "real"),
        (stats.beta, {"a": "exp", "b": "softplus"}, ("log_a", "raw_b"), "unit"),
        (stats.beta, {"a": "exp", "b": 2, "loc": "identity"}, ("log_a", "loc"), "real"),
        ("lognorm", {"s": "exp", "scale": "exp"}, ("log_s", "log_scale"), "positive"),
        ("nbinom", {"n": "exp", "p": "unit"}, ("log_n", "logit_p"), "counts"),
        ("bernoulli", {"p": "logistic"}, ("logit_p",), "binary"),
        ("pareto", {"b": "exp"}, ("log_b",), "positive"),
    ):
        lik = make(dist, **links)
        assert (lik.latents, lik.support) == (latents, support)
    with pytest.raises(InputError, match=r"pareto needs targets in \[1, inf\]; 1 of 2"):
        make("pareto", b="exp").check_targets(np.array([2.0, 0.5]))
    # ends that move with a latent limit nothing
    make("expon", loc="identity").check_targets(np.array([-50.0, 3.0]))
    make("uniform", scale="exp").check_targets(np.array([0.5, 50.0]))
    make("pareto", b=3.0, scale="exp").check_targets(np.array([1e-3, 9.0]))
    make("truncnorm", a=0.5, b="identity").check_targets(np.array([2.0]))
    with pytest.raises(InputError, match="positive"):
        make("uniform", scale="exp").check_targets(np.array([-0.5]))
    with pytest.raises(InputError, match="gamma has no support"):
        make("gamma", a=-1.0, scale="exp")


def test_from_scipy_is_scipy():
    lik = Likelihood.from_scipy(stats.t, df=5.0, loc="identity", scale="exp")
    y, f, g = RNG(0).normal(size=(3, 50))
    dist = stats.t(5.0, f, np.exp(g))
    np.testing.assert_allclose(lik.log_density(y, f, g), dist.logpdf(y), rtol=1e-13)
    np.testing.assert_allclose(lik.ppf(0.3, f, g), dist.ppf(0.3), rtol=1e-13)
    np.testing.assert_allclose(lik.conditional_variance(f, g), dist.var(), rtol=1e-13)
    assert lik.sample(RNG(0), f, g, size=7).shape == (7, 50)
    np.testing.assert_allclose(lik.natural_parameters(f, g)["scale"], np.exp(g))
    het = liks.HetStudentT(nu=5.0)
    np.testing.assert_allclose(
        lik.log_density(y, f, g), het.log_density(y, f, 2 * g, nu=5.0), rtol=1e-12
    )
    for far in (-300.0, 300.0):
        assert not np.any(np.isnan(lik.log_density(y, f + far, g - far)))


class Homemade(stats.rv_continuous):
    def _pdf(self, x):
        return np.exp(-x)


@pytest.mark.parametrize(
    "dist, links, words",
    [
        (stats.norm(0, 1), {"loc": "identity"}, "not a frozen one"),
        (Homemade(name="homemade"), {"loc": "identity"}, "scipy.stats has by name"),
        ("os", {"loc": "identity"}, "scipy.stats has by name"),
        ("gamma", {"scale": "exp"}, r"missing: \['a'\]"),
        ("poisson", {"mu": "exp", "scale": "exp"}, r"unknown: \['scale'\]"),
        ("norm", {"loc": "cube"}, "link of loc must be"),
        ("norm", {"loc": np.inf}, "link of loc must be"),
        ("skellam", {"mu1": "exp", "mu2": "exp"}, "values below 0"),
        ("norm", {"loc": 0.0}, "non-empty tuple"),
    ],
)
def test_from_scipy_refuses(dist, links, words):
    with pytest.raises(InputError, match=words):
        Likelihood.from_scipy(dist, **links)


# ---- inflation and hurdles ----------------------------------------------------------------------


def test_zero_inflated_poisson_is_the_mixture():
    lik, y = liks.ZeroInflatedPoisson(), np.arange(40.0)
    f, h, exposure = 0.7, -0.4, 1.7
    kw, w = {"exposure": exposure}, expit(-0.4)
    pmf = (1 - w) * stats.poisson.pmf(y, exposure * np.exp(f)) + w * (y == 0)
    latents = (np.full(40, f), np.full(40, h))
    np.testing.assert_allclose(np.exp(lik.log_density(y, *latents, **kw)), pmf, rtol=1e-12)
    np.testing.assert_allclose(lik.cdf(y, *latents, **kw), np.cumsum(pmf), rtol=1e-12)
    mean = pmf @ y
    np.testing.assert_allclose(lik.conditional_mean(f, h, **kw), mean, rtol=1e-12)
    np.testing.assert_allclose(
        lik.conditional_variance(f, h, **kw), pmf @ (y - mean) ** 2, rtol=1e-12
    )
    q = np.linspace(0.01, 0.99, 40)
    want = np.searchsorted(np.cumsum(pmf), q)
    np.testing.assert_array_equal(lik.ppf(q, *latents, **kw), want)
    assert lik.latents == ("log_rate", "log_odds_0")
    assert lik.metadata_names == ("exposure",)


def test_hurdle_is_the_truncated_mixture():
    lik, y = liks.Hurdle(liks.Poisson()), np.arange(60.0)
    for f in (-12.0, -1.0, 2.0):
        rate, w = np.exp(f), expit(0.3)
        pmf = np.where(y == 0, w, (1 - w) * stats.poisson.pmf(y, rate) / -np.expm1(-rate))
        args = (np.full(60, f), np.full(60, 0.3))
        np.testing.assert_allclose(np.exp(lik.log_density(y, *args)), pmf, rtol=1e-9, atol=1e-300)
        mean = pmf @ y
        np.testing.assert_allclose(lik.conditional_mean(f, 0.3), mean, rtol=1e-9)
        np.testing.assert_allclose(
            lik.conditional_variance(f, 0.3), pmf @ (y - mean) ** 2, rtol=1e-9
        )
        np.testing.assert_allclose(lik.cdf(y, *args), np.cumsum(pmf), rtol=1e-9)


def test_zero_one_inflated_beta_is_the_mixture():
    lik = liks.ZeroOneInflatedBeta()
    f, g, h0, h1 = 0.5, 1.0, -1.0, 0.2
    z = logsumexp([0.0, h0, h1])
    y = np.array([0.0, 0.2, 0.9, 1.0])
    want = [h0 - z, *(stats.beta.logpdf(y[1:3], np.exp(f), np.exp(g)) - z), h1 - z]
    args = [np.full(4, c) for c in (f, g, h0, h1)]
    np.testing.assert_allclose(lik.log_density(y, *args), want, rtol=1e-12)
    rest, w0, w1 = np.exp([-z, h0 - z, h1 - z])
    base = stats.beta(np.exp(f), np.exp(g))
    np.testing.assert_allclose(
        lik.cdf(y, *args), [w0, w0 + rest * base.cdf(0.2), w0 + rest * base.cdf(0.9), 1.0]
    )
    q = np.array([0.5 * w0, w0 + 0.3 * rest, w0 + rest + 0.5 * w1, 1.0])
    np.testing.assert_allclose(lik.ppf(q, *args), [0.0, base.ppf(0.3), 1.0, 1.0], rtol=1e-9)
    draws = lik.sample(RNG(0), f, g, h0, h1, size=20000)
    np.testing.assert_allclose([np.mean(draws == 0), np.mean(draws == 1)], [w0, w1], atol=0.01)
    np.testing.assert_allclose(np.mean(draws), lik.conditional_mean(f, g, h0, h1), atol=0.01)


def test_inflation_is_stable_in_log_space():
    for lik, y in (
        (liks.ZeroInflatedPoisson(), [0.0, 3.0]),
        (liks.ZeroOneInflatedBeta(), [0, 0.3]),
    ):
        for signs in np.ndindex(*(3,) * len(lik.latents)):
            latents = [np.full(2, 300.0 * (s - 1)) for s in signs]
            with np.errstate(all="ignore"):
                value = lik.log_density(np.array(y), *latents)
                slopes = lik.dlog_density(np.array(y), *latents)
            assert not np.any(np.isnan(value)), (lik.name, signs)
            assert not any(np.any(np.isnan(s)) for s in slopes), (lik.name, signs)
    with mpmath.workdps(40):  # zero from e^{−300} odds or from a rate of e⁵
        want = mpmath.log(mpmath.e**-300 + mpmath.e ** (-(mpmath.e**5)))
    got = liks.ZeroInflatedPoisson().log_density(np.zeros(1), np.full(1, 5.0), np.full(1, -300.0))
    np.testing.assert_allclose(got, float(want), rtol=1e-12)


def test_separate_expectations_equal_the_engine():
    rng = RNG(1)
    for lik, y, nodes, tol in (
        (liks.ZeroInflatedPoisson(), [0.0, 0.0, 1.0, 5.0], 64, 1e-8),
        (liks.Hurdle(liks.Poisson()), [0.0, 0.0, 1.0, 5.0], 64, 1e-8),
        (liks.Inflated(liks.HetGaussian()), [0.0, -1.0, 0.5, 2.0], 32, 1e-8),
        (liks.ZeroOneInflatedBeta(), [0.0, 1.0, 0.4, 0.9], 40, 2e-3),  # four latents: Sobol nodes
    ):
        b = len(lik.latents)
        means, variances = rng.normal(size=(4, b)), rng.uniform(0.05, 0.4, (4, b))
        args = (np.array(y), means, variances)
        engine = Likelihood._quadrature(lik, *args, nodes=nodes)
        for one, want in zip(lik.expected_log_density(*args, nodes=32), engine, strict=True):
            np.testing.assert_allclose(one, want, rtol=tol, atol=tol, err_msg=lik.name)


@pytest.mark.parametrize("at", [(0.0,), (0.0, 3.0)])
def test_an_inflated_count_starts_with_the_shares_of_its_atoms(at):
    """The start gives every atom, with what the base has of it, its share among the targets."""
    rng = np.random.default_rng(0)
    y = rng.poisson(2.0, 4000).astype(float)
    for a in at:
        y = np.where(rng.uniform(size=4000) < 0.25, a, y)
    lik = liks.Inflated(liks.Poisson(), at=at)
    start = lik.initial_latents(y)
    found = np.exp(lik.log_density(np.array(at), *start))
    np.testing.assert_allclose(found, [np.mean(y == a) for a in at], rtol=1e-9)


class ForgetsZ(liks.ZeroOneInflatedBeta):
    def log_density(self, y, *latents, **kw):
        return super().log_density(y, *latents, **kw) + self._split(latents)[2]


class JumpsLate(liks.ZeroOneInflatedBeta):
    def ppf(self, q, *latents, **kw):
        return np.maximum(super().ppf(q, *latents, **kw), 1e-3)


@pytest.mark.parametrize(
    "mutant, words",
    [(ForgetsZ, "the density integrates to"), (JumpsLate, "ppf: is not the smallest y")],
)
def test_the_contract_understands_atoms(mutant, words):
    with pytest.raises(ContractError, match=words):
        check_likelihood(mutant())


def test_bad_atoms_are_refused():
    for at in ((), (0.0, 0.0), (np.nan,)):
        with pytest.raises(InputError, match="distinct finite numbers"):
            liks.Inflated(liks.Poisson(), at=at)
    with pytest.raises(InputError, match="needs a likelihood object"):
        liks.Inflated(liks.Poisson)
    with pytest.raises(InputError, match="1 of 3"):
        liks.ZeroOneInflatedBeta().check_targets(np.array([0.0, 1.0, 1.5]))


# ---- event times --------------------------------------------------------------------------------


def reference(name, t, f, g):
    """P(T > t) and P(T ≤ t) by mpmath."""
    t, f, g = map(mpmath.mpf, (t, f, g))
    if name == "WeibullSurvival":
        h = (t * mpmath.exp(-f)) ** mpmath.exp(g)
        return mpmath.exp(-h), -mpmath.expm1(-h)
    if name == "LogNormalSurvival":
        z = (mpmath.log(t) - f) * mpmath.exp(-g) / mpmath.sqrt(2)
        return mpmath.erfc(z) / 2, mpmath.erfc(-z) / 2
    a = mpmath.exp(g) * (mpmath.log(t) - f)
    return 1 / (1 + mpmath.exp(a)), 1 / (1 + mpmath.exp(-a))


TIMES = (liks.WeibullSurvival(), liks.LogNormalSurvival(), liks.LogLogisticSurvival())


@pytest.mark.parametrize("lik", TIMES, ids=lambda lik: lik.name)
def test_interval_censoring_is_a_difference_of_cdfs(lik):
    rng = RNG(0)
    n = 60
    f, g = rng.normal(size=(2, n))
    low = np.exp(rng.uniform(-12.0, 6.0, n))
    high = low * (1.0 + np.exp(rng.uniform(-4.0, 2.0, n)))
    entry = low * rng.uniform(0.1, 0.9, n)
    want = np.empty((3, n))
    with mpmath.workdps(60):
        for i in range(n):
            ends = [reference(lik.name, t, f[i], g[i]) for t in (low[i], high[i], entry[i])]
            (s0, f0), (s1, f1), (s2, f2) = ends
            between = s0 - s1 if s0 < f1 else f1 - f0
            left = s2 - s0 if s2 < f0 else f0 - f2
            terms = (between, between / s2 if s2 else 0, left / s2 if s2 else 0)
            want[:, i] = [float(mpmath.log(p)) if p > 0 else -np.inf for p in terms]
    kw = {"censored": np.full(n, 2.0), "y_upper": high}
    got = [
        lik.log_density(low, f, g, **kw),
        lik.log_density(low, f, g, **kw, entry=entry),
        lik.log_density(low, f, g, censored=np.full(n, -1.0), entry=entry),
    ]
    for one, two in zip(got, want, strict=True):
        seen = two > -700.0
        assert seen.sum() > 0.5 * n
        np.testing.assert_allclose(one[seen], two[seen], rtol=1e-12, atol=1e-12)


def test_event_times_equal_scipy():
    rng = RNG(0)
    f, g = rng.normal(size=(2, 40))
    y = np.exp(rng.normal(size=40))
    pairs = (
        (liks.WeibullSurvival(), stats.weibull_min(np.exp(g), scale=np.exp(f))),
        (liks.LogNormalSurvival(), stats.lognorm(np.exp(g), scale=np.exp(f))),
    )
    for lik, dist in pairs:
        np.testing.assert_allclose(lik.log_density(y, f, g), dist.logpdf(y), rtol=1e-10)
        np.testing.assert_allclose(lik.log_survival(y, f, g), dist.logsf(y), rtol=1e-10)
        np.testing.assert_allclose(lik.cdf(y, f, g), dist.cdf(y), rtol=1e-10)
        np.testing.assert_allclose(lik.ppf(0.3, f, g), dist.ppf(0.3), rtol=1e-10)
        np.testing.assert_allclose(lik.conditional_mean(f, g), dist.mean(), rtol=1e-10)
        np.testing.assert_allclose(lik.conditional_variance(f, g), dist.var(), rtol=1e-8)
        assert np.all(lik.cdf(np.array([[-1.0], [0.0]]), f, g) == 0.0)
        hazard = lik.log_hazard(y, f, g)
        np.testing.assert_allclose(hazard, dist.logpdf(y) - dist.logsf(y), rtol=1e-8, atol=1e-8)


def test_infinite_means_are_told():
    X = np.linspace(0.0, 1.0, 30)[:, None]
    y = np.exp(RNG(0).normal(size=30))
    for lik in (liks.WeibullSurvival(), liks.LogNormalSurvival()):
        m = cgp.ChainedGP(X, y, lik, num_inducing=5, num_threads=1)
        with pytest.warns(MomentWarning, match="median"):
            assert np.all(np.isinf(m.predict(X[:2])[0]))


# ---- together, in a model -----------------------------------------------------------------------


def test_an_inflated_scipy_likelihood_with_a_constant_in_a_model(tmp_path):
    rng = RNG(0)
    X = np.sort(rng.uniform(-2.0, 2.0, 250))[:, None]
    scale, odds = np.exp(np.sin(X[:, 0])), -0.5 + X[:, 0]
    y = np.where(rng.uniform(size=250) < expit(odds), 0.0, rng.gamma(3.0, scale))
    gamma = Likelihood.from_scipy(stats.gamma, a="exp", scale="exp").with_constant("log_a")
    m = cgp.ChainedGP(X, y, liks.Inflated(gamma), num_inducing=10, num_threads=1)
    assert m.latents == ("log_scale", "log_odds_0")
    before = m.log_likelihood()
    m.optimize(max_iters=40)
    assert m.log_likelihood() > before
    assert abs(np.exp(float(m.likelihood.log_a[0])) - 3.0) < 1.2
    means, _ = m.predict_latents(X)
    assert np.corrcoef(means[:, 1], odds)[0, 1] > 0.9
    predictive = m.predictive(X)
    low, high = predictive.interval(0.9)
    inside = np.mean((y >= low[:, 0]) & (y <= high[:, 0]))
    assert 0.86 < inside < 0.98  # an interval that begins at the atom holds more
    share = np.exp(predictive.logpdf(np.zeros(1)))[:, 0]
    np.testing.assert_allclose(predictive.cdf(np.zeros(1))[:, 0], share, rtol=1e-6)
    assert abs(np.mean(share) - np.mean(y == 0)) < 0.05
    m.save(tmp_path / "model.npz")
    again = cgp.load(tmp_path / "model.npz")
    assert again.log_likelihood() == m.log_likelihood()
    np.testing.assert_array_equal(again.predict(X)[0], m.predict(X)[0])


@pytest.mark.long
def test_inflated_counts_and_bounded_targets_are_fitted():
    rng = RNG(1)
    X = np.linspace(-2.0, 2.0, 200)[:, None]
    zero = rng.uniform(size=200) < 0.4
    counts = np.where(zero, 0.0, rng.poisson(np.exp(1.5 + np.sin(X[:, 0]))))
    bounded = np.where(zero, (X[:, 0] > 0) * 1.0, rng.beta(4.0, 2.0, 200))
    for lik, y in (
        (liks.ZeroInflatedPoisson(), counts),
        (liks.Hurdle(liks.Poisson()), counts),
        (liks.ZeroOneInflatedBeta(), bounded),
    ):
        m = cgp.ChainedGP(X, y, lik, num_inducing=8, num_threads=1)
        before = m.log_likelihood()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cgp.errors.ConvergenceWarning)
            m.optimize(max_iters=15)
        assert m.log_likelihood() > before
        mean, _ = m.predict(X)
        assert abs(np.mean(mean) - np.mean(y)) < 0.1 * np.std(y), lik.name
        quantiles = m.predict_quantiles(X[::50], (5, 50, 95))
        assert np.all(np.diff(np.concatenate(quantiles, axis=1), axis=1) >= 0.0)


# ---- a wrong density is told before it is fitted ------------------------------------------------


class Listing(HetGaussian):
    def log_density(self, y, f, g):
        return list(super().log_density(y, f, g))


class Single(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g).astype(np.float32)


class Summed(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g).reshape(-1, len(y)).mean(axis=0)


class Scalars(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g) if y > f else -g


class Nan(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g) + np.log(-1.0 - f * 0.0)


class OneSlope(HetGaussian):
    def dlog_density(self, y, f, g):
        return super().dlog_density(y, f, g)[0]


@pytest.mark.parametrize(
    "wrong, words",
    [
        (Listing, "Listing.log_density returns a list"),
        (Single, "Single.log_density returns float32"),
        (Summed, r"Summed.log_density returns shape \(3,\) instead of \(2, 2, 3\)"),
        (Scalars, r"Scalars.log_density raised ValueError: .* y \(3,\) and latents \(2, 1, 3\)"),
        (Nan, "Nan.log_density is NaN for latents near 0"),
        (OneSlope, "OneSlope.dlog_density must return 2 arrays"),
    ],
)
def test_a_wrong_density_is_told_in_words(wrong, words):
    with pytest.raises(InputError, match=words):
        check_density(wrong(), Rows(np.zeros((9, 1)), np.linspace(-1.0, 1.0, 9)))


def test_right_densities_pass():
    X = np.zeros((9, 1))
    check_density(liks.Poisson(), Rows(X, np.arange(9.0), {"exposure": np.ones(9)}))
    check_density(liks.ZeroOneInflatedBeta(), Rows(X, np.linspace(0.0, 1.0, 9)))
    check_density(liks.StudentT(), Rows(X, np.linspace(-1.0, 1.0, 9)))


def test_draws_of_counts_beyond_64_bits():
    rng = np.random.default_rng(0)
    draws = liks.NegativeBinomial().sample(rng, np.full(400, 60.0), np.zeros(400))
    assert np.isfinite(draws).all()
    assert np.log(draws.mean()) == pytest.approx(60.0, abs=0.3)


# ---- rows that contradict their metadata --------------------------------------------------------


def test_an_interval_without_an_end_is_right_censored():
    y = np.array([1.0, 2.0])
    for lik in (liks.LogLogisticSurvival(), liks.WeibullSurvival(), liks.LogNormalSurvival()):
        moments = np.array([[0.1, 0.2], [0.3, -0.1]]), np.full((2, 2), 0.2)
        interval = {"censored": np.full(2, 2.0), "y_upper": np.full(2, np.inf)}
        ends = lik.expectation(y, *moments, 20, **interval)
        right = lik.expectation(y, *moments, 20, censored=np.ones(2))
        for a, b in zip(ends, right, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
    model = cgp.ChainedGP(y, y, lik, Y_metadata=interval)
    assert np.isfinite(model.log_likelihood())


def test_wrappers_look_at_rows_as_their_base_does():
    y, trials = np.array([0.0, 3.0]), np.array([0.0, 2.0])
    wrong, _ = liks.Inflated(liks.Binomial(), (0.0,)).impossible(y, trials=trials)
    assert wrong.tolist() == [False, True]
    for lik in (liks.Inflated(liks.Binomial(), (0.0,)), liks.Hurdle(liks.Binomial())):
        with pytest.raises(InputError, match="1 of 2 rows have more successes"):
            lik.check_rows(np.array([0.0, 5.0]), trials=np.array([2.5, 3.0]))
        lik.check_rows(np.zeros(2), trials=np.array([2.5, 3.0]))
    entry = np.array([2.0, 1.0])
    lik = liks.LogLogisticSurvival().with_constant("log_shape")
    with pytest.raises(InputError, match="1 of 2 rows end before their entry; the first is row 0"):
        lik.check_rows(np.array([1.5, 1.0]), entry=entry)
    left = {"entry": np.array([1.5]), "censored": np.array([-1.0])}
    with pytest.raises(InputError, match="entry"):
        lik.check_rows(np.array([1.5]), **left)


@pytest.mark.parametrize(
    ("rate", "at", "off"), [(1.5, 0.0, 0.08), (4.0, 0.0, 0.005), (3.0, 3.0, 0.005)]
)
def test_inflated_counts_start_with_the_share_that_the_base_leaves_over(rate, at, off):
    """P(atom) = w + (1 − w) p(atom), against maximum likelihood; rows off the atom give the rate.

    Where the atom is 0 and the rate is small, these rows have a mean above it.
    """
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=4000) < 0.35, at, rng.poisson(rate, 4000)).astype(float)
    mixed = liks.Inflated(liks.Poisson(), (at,))
    start = mixed.initial_latents(y)
    values, counts = np.unique(y, return_counts=True)

    def loss(latents):
        return -counts @ mixed.log_density(values, *np.repeat(latents[:, None], values.size, 1))

    best = minimize(loss, start).x
    assert expit(start[1]) == pytest.approx(expit(best[1]), abs=off)


def test_one_point_mass_may_be_given_as_a_number():
    assert cgp.likelihoods.Inflated(cgp.likelihoods.Poisson(), 0.0).at == (0.0,)
