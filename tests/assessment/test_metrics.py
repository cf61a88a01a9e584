"""Scores against closed forms, sampling, naive loops and scikit-survival."""

import inspect
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from paths import ROOT
from scipy import stats
from scipy.integrate import quad

from chainedgp import likelihoods, metrics
from chainedgp.errors import InputError, MomentWarning
from chainedgp.predictive import Predictive


def gaussian(n=40, latent_variance=0.0, seed=0):
    """A predictive N(m, s²) for each row, its m and s, and targets, some of them far out."""
    rng = np.random.default_rng(seed)
    m, g = rng.standard_normal(n), rng.standard_normal(n)
    variances = np.stack([np.full(n, latent_variance), np.zeros(n)], axis=1)
    predictive = Predictive(likelihoods.HetGaussian(), np.stack([m, g], axis=1), variances)
    s = np.sqrt(np.exp(g) + latent_variance)
    return predictive, m, s, m + s * rng.standard_t(2, n)


def point(likelihood, latents, v=0.0, metadata=None):
    """A predictive of one row for each of the latents' values."""
    latents = np.atleast_2d(np.array(latents, dtype=float))
    return Predictive(likelihood, latents, np.full(latents.shape, v), metadata)


# ---- distributions -------------------------------------------------------------------------------


def test_nlpd_of_a_gaussian():
    predictive, m, s, y = gaussian(latent_variance=0.7)
    assert metrics.nlpd(predictive, y[:, None]) == pytest.approx(-stats.norm.logpdf(y, m, s).mean())
    censored = Predictive(
        likelihoods.LogLogisticSurvival(),
        np.zeros((2, 2)),
        np.zeros((2, 2)),
        {"censored": np.array([0.0, 1.0])},
    )
    log_p = [stats.fisk.logpdf(2.0, 1.0), stats.fisk.logsf(3.0, 1.0)]
    assert metrics.nlpd(censored, [2.0, 3.0]) == pytest.approx(-np.mean(log_p))


@pytest.mark.parametrize("latent_variance", [0.0, 2.0])
def test_crps_of_a_gaussian(latent_variance):
    predictive, m, s, y = gaussian(100, latent_variance)
    y[:2] = m[:2] + s[:2] * np.array([-30.0, 30.0])
    z = (y - m) / s
    exact = s * (z * (2.0 * stats.norm.cdf(z) - 1.0) + 2.0 * stats.norm.pdf(z) - np.pi**-0.5)
    got = metrics.crps(predictive, y)
    assert got.shape == (100,)
    np.testing.assert_allclose(got, exact, rtol=1e-7)


@pytest.mark.parametrize(
    ("likelihood", "law"),
    [
        (likelihoods.HetStudentT(nu=3.0), stats.t(3.0)),
        (likelihoods.LogLogisticSurvival(), stats.fisk(1.0)),
        (likelihoods.Beta(), stats.beta(1.0, 1.0)),
    ],
)
def test_crps_is_the_integral(likelihood, law):
    y = np.array([0.03, 0.4, 0.97])
    got = metrics.crps(point(likelihood, np.zeros((3, 2))), y)
    low, high = law.support()
    for value, target in zip(got, y, strict=True):
        below = quad(lambda z: law.cdf(z) ** 2, max(low, -np.inf), target, epsabs=1e-11)[0]
        above = quad(lambda z: law.sf(z) ** 2, target, high, epsabs=1e-11)[0]
        assert value == pytest.approx(below + above, abs=2e-6)


def test_crps_of_a_mixture_is_that_of_samples():
    predictive = point(likelihoods.HetStudentT(nu=5.0), [[0.3, -0.5], [1.0, 0.4]], 0.3)
    y = np.array([0.0, 2.5])
    draws = predictive.sample(400_000, 1)
    spread = np.abs(draws[:, ::2] - draws[:, 1::2]).mean(axis=1)
    expected = np.abs(draws - y[:, None]).mean(axis=1) - 0.5 * spread
    np.testing.assert_allclose(metrics.crps(predictive, y), expected, atol=0.008)


def test_crps_of_counts_and_of_atoms():
    y = np.array([0.0, 3.0, 700.0])
    got = metrics.crps(point(likelihoods.Poisson(), [[1.0]] * 3), y)
    k = np.arange(1500.0)
    gap = stats.poisson.cdf(k, np.e) - (k >= y[:, None])
    np.testing.assert_allclose(got, (gap**2).sum(axis=1), rtol=1e-8)
    # an atom at 0 within a Gaussian: F jumps where no panel of quantiles may end
    likelihood = likelihoods.Inflated(likelihoods.HetGaussian(), at=(0.0,))
    predictive = point(likelihood, [[0.4, 0.2, -2.5]] * 3)
    atom = float(predictive.cdf([0.0])[0, 0] - predictive.cdf([-1e-12])[0, 0])
    assert 0.02 < atom < 0.2

    def cdf(z):
        return (1.0 - atom) * stats.norm.cdf(z, 0.4, np.exp(0.1)) + atom * (z >= 0.0)

    for value, target in zip(
        metrics.crps(predictive, [0.0, -0.7, 1.1]), [0.0, -0.7, 1.1], strict=True
    ):
        integral = quad(
            lambda z, t=target: (cdf(z) - (z >= t)) ** 2, -9.0, 9.0, points=[0.0, target], limit=200
        )[0]
        assert value == pytest.approx(integral, abs=1e-5)


def test_coverage_and_width():
    predictive, m, s, y = gaussian(200, 0.5)
    z = stats.norm.ppf(0.9)
    inside = [abs(y[i] - m[i]) <= z * s[i] for i in range(200)]
    assert metrics.interval_coverage(predictive, y, 0.8) == pytest.approx(np.mean(inside))
    assert metrics.interval_width(predictive, 0.8) == pytest.approx(2.0 * z * s.mean(), rel=1e-6)
    assert metrics.interval_coverage(predictive, m) == 1.0


def test_pit_is_the_cdf_or_randomised_over_its_jump():
    predictive, m, s, y = gaussian(50, 0.5)
    np.testing.assert_allclose(metrics.pit(predictive, y), stats.norm.cdf(y, m, s), atol=1e-7)
    rng = np.random.default_rng(2)
    n = 4000
    counts = rng.poisson(1.5, n).astype(float)
    predictive = point(likelihoods.Poisson(), np.full((n, 1), np.log(1.5)))
    u = metrics.pit(predictive, counts)
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert (stats.poisson.cdf(counts - 1, 1.5) <= u + 1e-9).all()
    assert (u <= stats.poisson.cdf(counts, 1.5) + 1e-9).all()
    assert stats.kstest(predictive.cdf(counts[:, None])[:, 0], "uniform").pvalue < 1e-6
    np.testing.assert_array_equal(u, metrics.pit(predictive, counts, 0))
    assert (u != metrics.pit(predictive, counts, 1)).all()
    # atoms at 0 and 1
    predictive = point(likelihoods.ZeroOneInflatedBeta(), np.zeros((3, 4)))
    ends = predictive.cdf(np.array([0.0, 0.5, 1.0 - 1e-9]))[0]
    u = metrics.pit(predictive, [0.0, 0.5, 1.0])
    assert 0.0 < u[0] < ends[0] and u[1] == pytest.approx(ends[1]) and ends[2] < u[2] < 1.0


def test_pit_of_censored_times_is_uniform():
    rng = np.random.default_rng(3)
    n = 4000
    times, ends = rng.weibull(1.5, n), rng.exponential(0.8, n)
    censored = 1.0 * (times > ends)
    latents = np.tile([0.0, np.log(1.5)], (n, 1))
    seen = np.minimum(times, ends)
    told = point(likelihoods.WeibullSurvival(), latents, metadata={"censored": censored})
    assert 0.2 < censored.mean() < 0.8
    assert stats.kstest(metrics.pit(told, seen), "uniform").pvalue > 0.01
    untold = point(likelihoods.WeibullSurvival(), latents)
    assert stats.kstest(metrics.pit(untold, seen), "uniform").pvalue < 1e-6


def weibull_rows(n=1000, seed=4, v=(0.8, 0.3)):
    """Latents drawn from a wide q, times above an entry, and the predictive that is told of it."""
    rng = np.random.default_rng(seed)
    f, g = (np.sqrt(v[j]) * rng.standard_normal(n) + (0.3, 0.2)[j] for j in range(2))
    entry = rng.exponential(1.0, n)
    # T given T > e: (T/e^f)^{e^g} − (e/e^f)^{e^g} is a standard exponential
    times = np.exp(f) * ((entry / np.exp(f)) ** np.exp(g) + rng.exponential(size=n)) ** np.exp(-g)
    means, variances = np.tile([0.3, 0.2], (n, 1)), np.tile(v, (n, 1))
    given = likelihoods.WeibullSurvival(), means, variances
    return entry, times, lambda **told: Predictive(*given, {"entry": entry, **told})


def after_entry(y, entry, v=(0.8, 0.3)):
    """E[1 − S(y)/S(e)] of `weibull_rows` by the trapezium rule on 301² nodes."""
    x = np.linspace(-9.0, 9.0, 301)
    w = np.exp(-0.5 * x * x) / np.exp(-0.5 * x * x).sum()
    f, k = 0.3 + np.sqrt(v[0]) * x[:, None], np.exp(0.2 + np.sqrt(v[1]) * x)
    hazard = [np.exp(np.minimum(k * (np.log(t) - f), 700.0)) for t in (entry, y)]
    return w @ -np.expm1(hazard[0] - hazard[1]) @ w


def test_pit_belongs_to_the_density_given_an_entry():
    entry, times, told = weibull_rows()
    u = metrics.pit(told(), times)
    assert stats.kstest(u, "uniform").pvalue > 0.01
    for i in range(5):
        assert u[i] == pytest.approx(after_entry(times[i], entry[i]), abs=1e-7)
    # the law of T conditioned as a whole, which moves q, is another
    free = told()
    F, F_entry = free.cdf(times[:, None])[:, 0], free.cdf(entry[:, None])[:, 0]
    assert stats.kstest((F - F_entry) / (1.0 - F_entry), "uniform").pvalue < 1e-6
    # and its density is the predictive's, between two times after the entry
    first = Predictive(free._likelihood, free._means[:1], free._variances[:1], {"entry": entry[:1]})
    start, end = entry[0] + np.array([0.3, 1.0]) * (times[0] - entry[0])
    x, w = np.polynomial.legendre.leggauss(40)
    density = first.pdf(start + 0.5 * (end - start) * (1.0 + x))[0]
    between = u[0] - metrics.pit(first, [start])[0]
    assert 0.5 * (end - start) * w @ density == pytest.approx(between, abs=1e-6)


def test_crps_is_the_integral_after_an_entry():
    entry, times, told = weibull_rows(3)
    got, (x, w) = metrics.crps(told(), times), np.polynomial.legendre.leggauss(20)
    for i in range(3):
        span, total = times[i] - entry[i], 0.0
        for reach, seen in ((np.linspace(-18.0, 0.0, 30), 0.0), (np.linspace(0.0, 20.0, 40), 1.0)):
            edges = entry[i] + span * np.exp(reach)
            half = 0.5 * np.diff(edges)[:, None]
            z = edges[:-1, None] + half * (1.0 + x)
            F = metrics.pit(row_of(told(), z.size, entry[i]), z.ravel()).reshape(z.shape)
            total += (half * w * (F - seen) ** 2).sum()
        assert got[i] == pytest.approx(total, rel=1e-5)


def row_of(predictive, n, entry):
    """The first row of a predictive distribution n times."""
    arrays = (np.tile(part[:1], (n, 1)) for part in (predictive._means, predictive._variances))
    return Predictive(predictive._likelihood, *arrays, {"entry": np.full(n, entry)})


def test_calibration_respects_an_entry():
    _, times, told = weibull_rows()
    seen = np.zeros(len(times))
    assert metrics.d_calibration(told(), times, seen).p_value > 0.01
    assert metrics.interval_coverage(told(), times, 0.8) == pytest.approx(0.8, abs=0.03)
    few, y, told_few = weibull_rows(40)
    conditional = [1.0 - after_entry(t, e) for t, e in zip(y, few, strict=True)]
    by_hand = metrics.d_calibration(conditional, y, np.zeros(40))
    np.testing.assert_array_equal(metrics.d_calibration(told_few(), y).counts, by_hand.counts)
    untold = Predictive(likelihoods.WeibullSurvival(), told()._means, told()._variances)
    assert metrics.d_calibration(untold, times, seen).p_value < 1e-6
    with pytest.raises(InputError, match=r"censored differs .* in 1000 of 1000 rows"):
        metrics.d_calibration(told(censored=seen), times, seen + 1.0)


def right_censored(n=400, seed=5, rate=0.5):
    """Exponential times of mean 3 e^x, censored by others; truth, times, codes."""
    rng = np.random.default_rng(seed)
    f = np.log(3.0) + 0.5 * rng.standard_normal(n)
    times, ends = np.exp(f) * rng.exponential(size=n), rng.exponential(1.0 / rate, n)
    censored = 1.0 * (ends < times)

    def told(shift=0.0, **metadata):
        likelihood = likelihoods.WeibullSurvival().with_constant("log_shape", 0.0)
        metadata = metadata or {"censored": censored}
        return point(likelihood, f[:, None] + shift, metadata=metadata)

    return told, np.minimum(times, ends), censored, times


def naive_weights(y, censored, tau):
    """[known]/G(min(y, τ)−), divided by their mean."""
    weights = [
        1.0 / kaplan_meier_censoring(y, censored, np.nextafter(min(t, tau), 0.0))
        if not c or t >= tau
        else 0.0
        for t, c in zip(y, censored, strict=True)
    ]
    return np.array(weights) / np.mean(weights)


def test_scores_of_censored_rows_are_those_of_a_naive_loop():
    told, y, censored, _ = right_censored(60)
    tau, scale = 2.0, np.exp(told()._means[:, 0])
    weights = naive_weights(y, censored, tau)
    assert (weights == 0.0).sum() > 10 and weights.max() > 1.5
    scores, absolute, square = [], [], []
    for t, s in zip(np.minimum(y, tau), scale, strict=True):
        known = t if t < tau else np.inf
        scores.append(
            quad(
                lambda z, s=s, t=known: (-np.expm1(-z / s) - (z >= t)) ** 2,
                0.0,
                tau,
                points=[min(known, tau)],
                epsabs=1e-11,
            )[0]
        )
        absolute.append(abs(min(s * np.log(2.0), tau) - t))
        square.append((s * -np.expm1(-tau / s) - t) ** 2)  # E[min(T, τ)] of an exponential
    np.testing.assert_allclose(metrics.crps(told(), y, tau=tau), weights * scores, atol=2e-6)
    assert metrics.mae(told(), y, tau=tau) == pytest.approx(np.mean(weights * absolute))
    assert metrics.rmse(told(), y, tau=tau) == pytest.approx(
        np.mean(weights * square) ** 0.5, rel=1e-5
    )
    # rows from elsewhere for the censoring; the last time with a tenth of them left is the horizon
    train = right_censored(300, 6)[1:3]
    left = [kaplan_meier_censoring(*train, np.nextafter(t, 0.0)) for t in np.sort(train[0])]
    horizon = np.sort(train[0])[np.array(left) >= 0.1][-1]
    given, whole = metrics.crps(told(), y, train), metrics.crps(told(), y, train, horizon)
    np.testing.assert_array_equal(given, whole)
    # nobody is censored: the plain scores
    plain = told(entry=np.zeros(60))
    assert metrics.mae(plain, y) == pytest.approx(np.abs(plain.ppf(0.5)[:, 0] - y).mean())


@pytest.mark.long
def test_the_true_model_scores_best_under_heavy_censoring():
    """With 77 % censored: a sixth of the true median must not score better."""
    told, y, censored, _ = right_censored(1000, rate=1.2)
    assert 0.7 < censored.mean() < 0.85
    assert metrics.interval_coverage(told(), y) == pytest.approx(0.95, abs=0.02)
    for score in (metrics.mae, metrics.rmse, lambda p, y: metrics.crps(p, y).mean()):
        best = score(told(), y)
        for shift in (-np.log(6.0), -0.7, 0.7, np.log(6.0)):
            assert score(told(shift), y) > best
    assert metrics.interval_coverage(told(-np.log(6.0)), y) < 0.87


def test_scores_refuse_what_they_cannot_know():
    told, y, censored, _ = right_censored(30)
    end = {"y_upper": y + 1.0}
    for codes in (-censored, 2.0 * censored):
        p = told(censored=codes, **end)
        for score in (metrics.crps, metrics.mae, metrics.rmse):
            words = f"{score.__name__} needs times.*{int(censored.sum())} of 30 rows.*nlpd"
            with pytest.raises(InputError, match=words):
                score(p, y)
        assert np.isfinite(metrics.nlpd(p, y)) and metrics.pit(p, y).shape == (30,)
        assert metrics.d_calibration(p, y).counts.sum() == pytest.approx(30.0)
    with pytest.raises(InputError, match="y_upper"):
        metrics.d_calibration(told(entry=0 * y), y, 2.0 * censored)
    endless = told(censored=2.0 * censored, y_upper=np.full(30, np.inf))  # right-censored
    np.testing.assert_allclose(metrics.crps(endless, y), metrics.crps(told(), y))
    for tau in (0.0, -1.0, [1.0, 2.0]):
        with pytest.raises(InputError, match="tau"):
            metrics.crps(told(), y, tau=tau)
    with pytest.raises(InputError, match="train and tau"):
        metrics.mae(y, y, tau=1.0)
    with pytest.raises(InputError, match="every row is censored before"):
        metrics.crps(told(censored=np.ones(30)), y, (np.full(30, 99.0), np.ones(30)), tau=50.0)


def test_crps_of_counts_of_any_size():
    """Against the sum over every count; the law may have gaps, atoms far out and no smoothness."""

    class Even(likelihoods.Likelihood):
        latents, support = ("log_rate",), "counts"

        def log_density(self, y, f):
            return np.where(y % 2 == 0, stats.poisson.logpmf(y / 2, np.exp(f)), -np.inf)

        def cdf(self, y, f):
            return stats.poisson.cdf(np.floor(y / 2), np.exp(f))

        def ppf(self, q, f):
            return 2.0 * stats.poisson.ppf(q, np.exp(f))

    atom = likelihoods.Inflated(likelihoods.Poisson(), at=(700.0,))
    cases = (
        (likelihoods.Poisson(), [np.log(665.0)], 0.0),
        (likelihoods.Poisson(), [np.log(665.0)], 0.02),
        (likelihoods.NegativeBinomial().with_constant(1, 1.0), [np.log(400.0)], 0.0),
        (Even(), [np.log(300.0)], 0.0),
        (atom, [np.log(500.0), -1.0], 0.0),
    )
    for likelihood, latents, v in cases:
        predictive = point(likelihood, [latents] * 4, v)
        y = np.array([0.0, 480.0, 701.0, 3000.0])
        k = np.arange(float(max(3000, predictive.ppf(1.0 - 1e-6).max())) + 1.0)
        F = point(likelihood, latents, v).cdf(k)[0]
        expected = ((F - (k >= y[:, None])) ** 2).sum(axis=1)
        np.testing.assert_allclose(metrics.crps(predictive, y), expected, rtol=1e-6)


def test_crps_of_counts_evaluates_few_of_them(monkeypatch):
    predictive, seen = point(likelihoods.Poisson(), [[np.log(1e5)]] * 3, 0.3), []
    cdf = Predictive.cdf
    monkeypatch.setattr(Predictive, "cdf", lambda self, y: seen.append(y) or cdf(self, y))
    y = np.array([3e4, 1e5, 4e5])
    got = metrics.crps(predictive, y)
    assert sum((table >= 0).sum(axis=1).max() for table in seen) < 400
    # a log-normal, from which such a Poisson hardly differs
    m, s = np.log(1e5), 0.3**0.5
    z = (np.log(y) - m) / s
    mean = np.exp(m + 0.5 * s * s)
    exact = y * (2 * stats.norm.cdf(z) - 1) - 2 * mean * (
        stats.norm.cdf(z - s) + stats.norm.cdf(s / 2**0.5) - 1.0
    )
    np.testing.assert_allclose(got, exact, rtol=1e-4)


def test_errors_of_a_point():
    predictive, m, _, y = gaussian(30)
    assert metrics.mae(predictive, y) == pytest.approx(np.abs(y - m).mean(), abs=1e-7)
    assert metrics.rmse(predictive, y) == pytest.approx(((y - m) ** 2).mean() ** 0.5)
    assert metrics.mae([1.0, 2.0], [[0.0], [4.0]]) == 1.5
    assert metrics.rmse([[1.0], [2.0]], [0.0, 4.0]) == pytest.approx(2.5**0.5)
    with pytest.warns(MomentWarning):
        assert metrics.rmse(point(likelihoods.LogLogisticSurvival(), [[0, 0]]), [1.0]) == np.inf


def test_arguments_that_cannot_be_used():
    predictive, m, s, y = gaussian(5)
    for call in (
        lambda: metrics.nlpd(m, y),
        lambda: metrics.crps(predictive, y[:4]),
        lambda: metrics.pit(predictive, [*y[:4], np.nan]),
        lambda: metrics.mae(m, y[:4]),
        lambda: metrics.concordance_harrell(m, np.abs(y), [0, 1, 2, 0, 0]),
        lambda: metrics.concordance_harrell(m, np.abs(y), np.ones(5)),
        lambda: metrics.brier_score(np.ones((5, 2)), [2.0, 1.0], np.abs(y), np.zeros(5)),
        lambda: metrics.brier_score(np.ones((5, 3)), [1.0, 2.0], np.abs(y), np.zeros(5)),
        lambda: metrics.integrated_brier_score(np.ones((5, 1)), [1.0], np.abs(y), np.zeros(5)),
        lambda: metrics.d_calibration(s + 1.0, np.abs(y), np.zeros(5)),
    ):
        with pytest.raises(InputError):
            call()


def test_messages_say_what_was_expected():
    predictive, _, _, y = gaussian(5)
    y, seen = np.abs(y), np.zeros(5)
    for measure in (metrics.concordance_harrell, metrics.concordance_uno):
        with pytest.raises(InputError, match=r"risk must be a number for each row.*a Predictive"):
            measure(predictive, y, seen)
    with pytest.raises(InputError, match=r"survival must be a Predictive, or .*got shape \(5, 5\)"):
        metrics.d_calibration(np.full((5, 5), 0.5), y, seen)


def test_the_page_has_every_call():
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    assert dir(metrics) == sorted(metrics.__all__)
    for name in dir(metrics):
        if name != "DCalibration":  # what d_calibration returns
            parameters = inspect.signature(getattr(metrics, name)).parameters.values()
            words = [
                p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters
            ]
            assert f"`{name}({', '.join(words)})`" in page


# ---- survival ------------------------------------------------------------------------------------


def lifetimes(n=80, seed=0, ties=False):
    """Times, censored or not, and risks that say something of them."""
    rng = np.random.default_rng(seed)
    event, censoring = 3.0 * rng.weibull(1.3, n), rng.exponential(4.0, n)
    y, risk = np.minimum(event, censoring), rng.standard_normal(n) - np.log(event)
    if ties:
        y, risk = np.ceil(4.0 * y) / 4.0, np.round(risk, 1)
    return y, (censoring < event).astype(float), risk


def kaplan_meier_censoring(y, censored, t):
    """G(t) by its definition; an event at the same time comes before a censoring."""
    value = 1.0
    for s in sorted(set(y)):
        if s <= t:
            lost = sum(1 for a, c in zip(y, censored, strict=True) if a == s and c)
            risk = sum(1 for a, c in zip(y, censored, strict=True) if a > s or (a == s and c))
            value *= 1.0 - lost / risk if risk else 1.0
    return value


def naive_concordance(y, censored, risk, weight):
    right = total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if censored[i] or i == j or not (y[i] < y[j] or (y[i] == y[j] and censored[j])):
                continue
            total += weight(i)
            right += weight(i) * (1.0 if risk[i] > risk[j] else 0.5 * (risk[i] == risk[j]))
    return right / total


@pytest.mark.parametrize("ties", [False, True])
def test_concordance_is_that_of_a_naive_loop(ties):
    y, censored, risk = lifetimes(ties=ties)
    harrell = metrics.concordance_harrell(risk[:, None], y, censored)
    assert harrell == pytest.approx(naive_concordance(y, censored, risk, lambda i: 1.0))
    assert 0.6 < harrell < 0.95
    assert metrics.concordance_harrell(-risk, y, censored) == pytest.approx(1.0 - harrell)
    train = lifetimes(120, 1, ties)[:2]
    tau = np.quantile(y, 0.8)
    for given, G in ((None, (y, censored)), (train, train)):
        inverse = {
            i: kaplan_meier_censoring(*G, y[i]) ** -2.0 if y[i] < tau else 0.0
            for i in range(len(y))
        }
        uno = metrics.concordance_uno(risk, y, censored, given, tau)
        assert uno == pytest.approx(naive_concordance(y, censored, risk, inverse.get), rel=1e-10)
        assert uno != pytest.approx(harrell, abs=1e-4)


def test_ties_of_risks_are_relative():
    y, censored, risk = lifetimes(ties=True)
    whole = metrics.concordance_harrell(risk, y, censored)
    for unit in (1e-9, 1e-300, 1e9):
        assert metrics.concordance_harrell(unit * risk, y, censored) == whole
        noisy = unit * risk * (1.0 + 1e-15 * np.arange(len(risk)))  # rounding makes no order
        assert metrics.concordance_harrell(noisy, y, censored) == whole
    assert metrics.concordance_uno(1e-9 * risk, y, censored) == metrics.concordance_uno(
        risk, y, censored
    )


def test_pairs_are_compared_in_blocks(monkeypatch):
    y, censored, risk = lifetimes()
    whole = metrics.concordance_harrell(risk, y, censored)
    monkeypatch.setattr(metrics, "PAIRS", 300)
    assert metrics.concordance_harrell(risk, y, censored) == pytest.approx(whole, rel=1e-14)


@pytest.mark.parametrize("ties", [False, True])
def test_brier_score_is_that_of_a_naive_loop(ties):
    y, censored, risk = lifetimes(50, ties=ties)
    times = np.linspace(0.3, 3.0, 7)
    S = np.exp(-np.outer(np.exp(0.3 * risk) / 4.0, times))
    expected = []
    for k, t in enumerate(times):
        total = 0.0
        for i in range(50):
            if y[i] <= t and not censored[i]:
                total += S[i, k] ** 2 / kaplan_meier_censoring(y, censored, y[i])
            elif y[i] > t:
                total += (1.0 - S[i, k]) ** 2 / kaplan_meier_censoring(y, censored, t)
        expected.append(total / 50)
    np.testing.assert_allclose(metrics.brier_score(S, times, y, censored), expected, rtol=1e-12)
    area = sum(0.45 * 0.5 * (a + b) for a, b in pairwise(expected))
    got = metrics.integrated_brier_score(S, times, y, censored)
    assert got == pytest.approx(area / 2.7)


def test_predictives_can_be_given_for_curves():
    y, censored, _ = lifetimes(30)
    predictive = point(likelihoods.LogLogisticSurvival(), np.zeros((30, 2)))
    times = np.array([0.5, 1.0, 2.0])
    S = np.tile(stats.fisk.sf(times, 1.0), (30, 1))
    np.testing.assert_allclose(
        metrics.brier_score(predictive, times, y, censored),
        metrics.brier_score(S, times, y, censored),
        rtol=1e-6,
    )
    by_hand = metrics.d_calibration(stats.fisk.sf(y, 1.0), y, censored)
    np.testing.assert_allclose(
        metrics.d_calibration(predictive, y, censored).counts, by_hand.counts, atol=1e-5
    )


def test_d_calibration_counts_and_tests():
    s, censored = np.array([0.05, 0.95, 1.0, 0.25, 0.0]), np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    got = metrics.d_calibration(s, np.ones(5), censored)
    expected = np.zeros(10)
    expected[0] += 1.0  # 0.05
    expected[9] += 2.0  # 0.95 and 1
    expected[:3] += [0.4, 0.4, 0.2]  # uniform on (0, ¼)
    expected[0] += 1.0  # 0
    np.testing.assert_allclose(got.counts, expected, atol=1e-12)
    chi2 = stats.chisquare(expected)
    assert got.statistic == pytest.approx(chi2.statistic)
    assert got.p_value == pytest.approx(chi2.pvalue)
    # the true model passes, one that is too sure does not
    y, censored, _ = lifetimes(2000, 5)
    assert metrics.d_calibration(np.exp(-((y / 3.0) ** 1.3)), y, censored).p_value > 0.01
    assert metrics.d_calibration(np.exp(-((y / 3.0) ** 1.8)), y, censored).p_value < 1e-6


# Harrell's and Uno's concordance and the integrated Brier score by scikit-survival 0.28.0
SCIKIT_SURVIVAL = {
    False: (0.7339385474860335, 0.7202037339322398, 0.15520443591176528),
    True: (0.7333333333333333, 0.733985932249956, 0.15427256472658962),
}


@pytest.mark.parametrize("ties", [False, True])
def test_survival_measures_are_those_of_scikit_survival(ties):
    """`concordance_index_censored`, `concordance_index_ipcw`, `integrated_brier_score`."""
    train = lifetimes(300, 1, ties)
    y, censored, risk = lifetimes(80, 2, ties)
    kept = y < train[0].max()
    y, censored, risk = y[kept], censored[kept], risk[kept]
    tau, times = np.quantile(y, 0.8), np.linspace(0.3, np.quantile(y, 0.8), 9)
    S = np.exp(-np.outer(np.exp(0.3 * risk) / 4.0, times))
    ours = (
        metrics.concordance_harrell(risk, y, censored),
        metrics.concordance_uno(risk, y, censored, train[:2], tau),
        metrics.integrated_brier_score(S, times, y, censored, train[:2]),
    )
    np.testing.assert_allclose(ours, SCIKIT_SURVIVAL[ties], rtol=0, atol=1e-10)


def test_a_brier_score_after_all_rows_are_censored_is_refused():
    y, censored = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 0.0, 1.0, 1.0])
    S = np.full((4, 2), 0.5)
    assert np.isfinite(metrics.brier_score(S, [1.5, 2.5], y, censored)).all()
    with pytest.raises(InputError, match=r"no row was followed up to t = 5.*up to 2\.5"):
        metrics.brier_score(S, [2.5, 5.0], y, censored)


def test_pandas_rows_in_another_order_are_refused():
    n, rng = 8, np.random.default_rng(0)
    y = pd.Series(rng.weibull(1.5, n) + 0.1, list("abcdefgh"))
    late, other = pd.Series(np.arange(n) % 2, y.index), y[::-1]
    law = point(likelihoods.WeibullSurvival(), rng.normal(size=(n, 2)))
    plain = metrics.nlpd(law, other)  # A predictive without an index pairs by position.
    assert plain == metrics.nlpd(law, other.to_numpy())
    law.index = y.index
    scores = (metrics.nlpd, metrics.crps, metrics.interval_coverage, metrics.pit)
    for score in (*scores, metrics.quantile_residuals, metrics.mae, metrics.rmse):
        with pytest.raises(InputError, match=r"^y has the rows of predictive in another order"):
            score(law, other)
    S, t = np.full((n, 2), 0.5), [0.3, 0.6]
    calls = (
        lambda c: metrics.concordance_harrell(-y, y, c),
        lambda c: metrics.concordance_uno(-y, y, c),
        lambda c: metrics.concordance_uno(-y, y, late, train=(y, c)),
        lambda c: metrics.brier_score(S, t, y, c),
        lambda c: metrics.brier_score(S, t, y, late, train=(y, c)),
        lambda c: metrics.d_calibration(0.0 * y + 0.5, y, c),
    )
    for call in calls:
        with pytest.raises(InputError, match=r"^censored has the rows of \w+ in another order"):
            call(late[::-1])
        call(late.to_numpy()[::-1])
        call(late)
    with pytest.raises(InputError, match=r"^y has the rows of prediction in another order"):
        metrics.rmse(y, other)
    assert metrics.nlpd(law, other.reset_index(drop=True)) == plain
