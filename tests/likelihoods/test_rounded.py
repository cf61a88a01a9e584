"""Rounded targets: the probability of an interval against mpmath, and what is asked of it."""

import mpmath
import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.assessment import metrics
from chainedgp.errors import InputError
from chainedgp.expectations.special import log_normal_between
from chainedgp.likelihoods import Likelihood
from chainedgp.predictive.distribution import Predictive
from chainedgp.predictive.observed import pit_ends


def tail_normal(t):
    return mpmath.erfc(t / mpmath.sqrt(2)) / 2


def tail_t(t, nu=4):
    x = nu / (nu + t * t)
    half = mpmath.betainc(mpmath.mpf(nu) / 2, mpmath.mpf(1) / 2, 0, x, regularized=True) / 2
    return half if t > 0 else 1 - half


def tail_laplace(t):
    return mpmath.exp(-t) / 2 if t > 0 else 1 - mpmath.exp(t) / 2


FAMILIES = {
    "HetGaussian": (L.HetGaussian(), tail_normal, 0.5, {}),
    "HetStudentT": (L.HetStudentT(), tail_t, 0.5, {"nu": 4.0}),
    "HetLaplace": (L.HetLaplace(), tail_laplace, 1.0, {}),
}
# y, f, g, w: near, in both tails, noise far below and far above the width
POINTS = [
    (0.1, 0.0, 0.0, 0.5),
    (3.0, 0.0, -2.0, 0.5),
    (-30.0, 1.0, 0.0, 1.0),
    (40.0, 0.0, 0.0, 0.25),
    (0.5, 0.1, -12.0, 1.0),
    (2.0, 0.1, -12.0, 1.0),
    (1.0, 0.3, 2.0, 1e-4),
    (1.0, 0.3, 2.0, 1e-9),
    (-1.0, 0.3, 25.0, 1.0),
]


def true_log_probability(tail, power, y, f, g, w):
    """log(P/w) with 150 digits, in the tail on the side of y."""
    with mpmath.workdps(150):
        y, f, g, w = map(mpmath.mpf, (y, f, g, w))
        scale = mpmath.exp(power * g)
        near, far = (abs(y - f) - w / 2) / scale, (abs(y - f) + w / 2) / scale
        return mpmath.log((tail(near) - tail(far)) / w)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("y, f, g, w", POINTS)
def test_probability_of_an_interval_to_ten_digits(family, y, f, g, w):
    base, tail, power, kw = FAMILIES[family]
    lik, latents = L.Rounded(base, w), (np.array([f]), np.array([g]))
    true = float(true_log_probability(tail, power, y, f, g, w))
    got = lik.log_density(np.array([y]), *latents, **kw)[0]
    np.testing.assert_allclose(got, true, rtol=1e-10, atol=1e-9)
    with mpmath.workdps(20):
        slopes = [
            mpmath.diff(lambda t: true_log_probability(tail, power, y, t, g, w), f),
            mpmath.diff(lambda t: true_log_probability(tail, power, y, f, t, w), g),
        ]
    if family == "HetLaplace" and abs(y - f) < w / 2:
        return  # The tail on the side of y begins beyond the kink.
    for part, slope in zip(lik.dlog_density(np.array([y]), *latents, **kw), slopes, strict=True):
        np.testing.assert_allclose(part[0], float(slope), rtol=1e-8, atol=1e-8)


def test_normal_interval_in_log_space():
    a = np.array([-40.0, -40.0, 3.0, -1e-7, 8.0, -0.5])
    b = np.array([-39.0, 40.0, 3.1, 1e-7, 8.0 + 1e-9, 0.5])
    with mpmath.workdps(60):
        exact = [
            mpmath.log(tail_normal(-mpmath.mpf(y)) - tail_normal(-mpmath.mpf(x)))
            if y < 0
            else mpmath.log(tail_normal(mpmath.mpf(x)) - tail_normal(mpmath.mpf(y)))
            for x, y in zip(a, b, strict=True)
        ]
    np.testing.assert_allclose(
        log_normal_between(a, b), [float(x) for x in exact], rtol=1e-8, atol=1e-300
    )


def test_a_fine_rounding_is_none():
    rng = np.random.default_rng(0)
    y, f, g = rng.normal(size=(3, 50))
    for base in (L.HetGaussian(), L.HetLaplace(), L.SignalNoiseGaussian()):
        latents = (f, g, -g)[: len(base.latents)]
        fine = L.Rounded(base, 1e-7)
        np.testing.assert_allclose(
            fine.log_density(y, *latents), base.log_density(y, *latents), atol=1e-6
        )


@pytest.mark.parametrize("base", [L.HetGamma(), L.Beta(), L.WeibullSurvival()], ids=str)
def test_probabilities_of_all_multiples_add_to_one(base):
    """Also of those at the ends of the support, where half of an interval is outside."""
    width, most = 0.125, base.target_support.ends[1]
    y = width * np.arange(2000.0)
    y = y[y <= most]
    latents = np.array([[0.2], [0.4]]) + np.zeros(len(y))
    lik = L.Rounded(base, width)
    lik.check_rows(y)
    assert np.sum(np.exp(lik.log_density(y, *latents)) * width) == pytest.approx(1.0, abs=1e-9)


def test_event_times_that_are_rounded():
    """Exact rows become intervals, after their entry; censored ones stay what they are."""
    lik, latents = L.Rounded(L.WeibullSurvival(), 1.0), (np.full(5, 0.3), np.full(5, 0.2))
    law = stats.weibull_min(np.exp(0.2), 0.0, np.exp(0.3))
    y, entry = np.array([2.0, 2.0, 2.0, 2.0, 0.0]), np.array([0.0, 1.0, 1.8, 1.0, 0.0])
    censored = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
    got = np.exp(lik.log_density(y, *latents, censored=censored, entry=entry))
    S = law.sf
    want = [
        S(1.5) - S(2.5),
        (S(1.5) - S(2.5)) / S(1.0),
        (S(1.8) - S(2.5)) / S(1.8),
        S(2.0) / S(1.0),
        1.0 - S(0.5),
    ]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def data(width, n=120, sd=0.15):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    y = np.sin(2.0 * X[:, 0]) + sd * rng.standard_normal(n)
    return X, width * np.round(y / width), y


def test_noise_below_the_width_is_found():
    """Noise of 0.15 under a rounding to 0.5, of which a density sees the rounding alone."""
    X, y, _ = data(0.5, n=400)
    found = {}
    for lik in (L.Gaussian(), L.Rounded(L.Gaussian(), 0.5)):
        m = cgp.ChainedGP(X, y, lik, num_inducing=15, ties=None)
        assert m.optimize().converged
        found[type(lik)] = float(np.sqrt(m.likelihood.variance.values[0]))
    assert abs(found[L.Rounded] - 0.15) < 0.03
    assert found[L.Gaussian] > 0.19


def test_widths_by_row_files_loo_and_metrics(tmp_path):
    X, y, _ = data(0.25)
    widths = np.where(np.arange(len(y)) % 2, 0.25, 1e-6)
    lik = L.Rounded(L.Gaussian())
    m = cgp.ChainedGP(X, y, lik, num_inducing=8, Y_metadata={"rounding": widths})
    m.optimize()
    m.save(tmp_path / "m.cgp")
    again = cgp.load(tmp_path / "m.cgp")
    assert again.log_likelihood() == m.log_likelihood()
    given = {"rounding": 0.25}
    p = m.predictive(X[:20], given)
    fine = m.predictive(X[:20], {"rounding": 1e-6})
    np.testing.assert_allclose(p.mean, fine.mean)
    np.testing.assert_allclose(p.ppf([0.1, 0.9]), fine.ppf([0.1, 0.9]))
    wide = (p.cdf(y[:20, None] + 0.125) - p.cdf(y[:20, None] - 0.125)) / 0.25
    np.testing.assert_allclose(p.pdf(y[:20, None]), wide, rtol=1e-5)
    low, high = pit_ends(p, y[:20])
    np.testing.assert_allclose(high - low, 0.25 * wide[:, 0], rtol=1e-5)
    assert np.isfinite(metrics.crps(p, y[:20])).all()
    loo = m.loo(refit=1)
    assert np.isfinite(loo.pointwise).all()


def test_scikit_learn_estimator_takes_it():
    X, y, _ = data(0.25)
    from chainedgp.sklearn import ChainedGPRegressor

    model = ChainedGPRegressor(likelihood=L.Rounded(L.Gaussian(), 0.25), num_inducing=8)
    assert np.corrcoef(model.fit(X, y).predict(X), y)[0, 1] > 0.9


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: L.Rounded(L.Poisson(), 1.0), ["counts", "Poisson"]),
        (lambda: L.Rounded(L.Inflated(L.HetGamma()), 1.0), ["Inflated(Rounded"]),
        (lambda: L.Rounded(L.Rounded(L.Gaussian(), 1.0), 1.0), ["already"]),
        (lambda: L.Rounded(L.Gaussian(), 0.0), ["width", "positive"]),
        (lambda: L.Rounded(L.Gaussian(), np.nan), ["width"]),
        (lambda: L.Rounded("Gaussian", 1.0), ["likelihood object"]),
        (lambda: L.Rounded(OnlyDensity(), 1.0), ["cdf"]),
    ],
)
def test_what_cannot_be_rounded_is_refused(make, words):
    with pytest.raises(InputError) as error:
        make()
    assert all(word in str(error.value) for word in words)


class OnlyDensity(Likelihood):
    """No cdf."""

    latents = ("location",)

    def log_density(self, y, f):
        return -0.5 * (y - f) ** 2 - 0.5 * np.log(2.0 * np.pi)


def test_missing_and_wrong_widths_are_refused():
    X, y, _ = data(0.25)
    with pytest.raises(InputError, match="rounding"):
        cgp.ChainedGP(X, y, L.Rounded(L.Gaussian()), num_inducing=5)
    with pytest.raises(InputError, match=r"rounding.*positive"):
        cgp.ChainedGP(X, y, L.Rounded(L.Gaussian()), num_inducing=5, Y_metadata={"rounding": 0.0})


def test_wrong_slopes_and_tails_are_noticed():
    class WrongSlope(L.HetGaussian):
        def quantile_slopes(self, y, f, g):
            return np.ones(()), y - f

    class WrongTail(L.HetGaussian):
        def log_tails(self, y, f, g):
            return L.HetGaussian.log_tails(self, y, f, g)[::-1]

    for lik, words in ((WrongSlope(), "quantile_slopes"), (WrongTail(), "log_tails")):
        with pytest.raises(cgp.testing.ContractError, match=words):
            cgp.testing.check_likelihood(lik)


def test_predictive_of_wrapped_rounded_targets():
    means, variances = np.array([[0.2, 0.1, -0.4]]), np.full((1, 3), 0.2)
    p = Predictive(L.Inflated(L.Rounded(L.HetGamma(), 0.5)), means, variances)
    y = 0.5 * np.arange(1.0, 400.0)
    total = p.pdf(0.0)[0, 0] + 0.5 * p.pdf(y).sum()
    base = Predictive(L.HetGamma(), means[:, :2], variances[:, :2])
    left = (1.0 - p.pdf(0.0)[0, 0]) * base.cdf(0.25)[0, 0]  # It was rounded to the atom.
    assert total + left == pytest.approx(1.0, abs=1e-5)
