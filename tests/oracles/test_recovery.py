"""Fits find the latents that the data were simulated from, and are calibrated on fresh data."""

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
import chainedgp.likelihoods as L

# the distribution of T at latents f and g, and the latent g(x), for every class of event times
TIMES = {
    "LogLogisticSurvival": (lambda f, g: stats.fisk(np.exp(g), scale=np.exp(f)), 0.8),
    "WeibullSurvival": (lambda f, g: stats.weibull_min(np.exp(g), scale=np.exp(f)), 0.5),
    "LogNormalSurvival": (lambda f, g: stats.lognorm(np.exp(g), scale=np.exp(f)), -0.7),
}


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


def truth(x, level):
    return 1.0 + np.sin(1.5 * x), level + 0.7 * np.cos(1.2 * x)


def censor(T, entry, scale, rng):
    """What is seen of T > entry, a quarter of the rows each: T itself, or T and a time of its own
    after which, or before which, nothing is seen, or inspections at times of their own."""
    n, kind = len(T), rng.integers(0, 4, len(T))
    visits = entry[:, None] + np.cumsum(scale[:, None] * rng.exponential(0.5, (n, 6)), axis=1)
    first = visits[:, 1]
    edges = np.concatenate([entry[:, None], visits, np.full((n, 1), np.inf)], axis=1)
    k = (edges < T[:, None]).sum(axis=1) - 1
    low, high = edges[np.arange(n), k], edges[np.arange(n), k + 1]
    rules = [
        (kind == 1) & (T > first),  # right
        (kind == 2) & (T < first),  # left
        (kind == 3) & (k == 0),  # left, at the first inspection
        (kind == 3) & (k == 6),  # right, at the last
        kind == 3,
    ]
    codes = np.select(rules, [1.0, -1.0, -1.0, 1.0, 2.0], 0.0)
    y = np.select(rules, [first, first, high, low, low], T)
    return y, {"censored": codes, "y_upper": np.where(codes == 2, high, y), "entry": entry}


def censored_data(name, n, rng):
    """n rows that were seen at all: a time before its entry leaves no trace."""
    make, level = TIMES[name]
    x = rng.uniform(-2.0, 2.0, 3 * n)
    f, g = truth(x, level)
    T = make(f, g).rvs(random_state=rng)
    entry = np.exp(f) * rng.uniform(0.0, 0.8, 3 * n)
    seen = np.flatnonzero(T > entry)[:n]
    x, T, entry, scale = x[seen], T[seen], entry[seen], np.exp(f[seen])
    return x, *censor(T, entry, scale, rng)


def test_every_class_of_event_times_is_here():
    classes = {n for n in L.__all__ if issubclass(getattr(L, n), L.Survival) and n != "Survival"}
    assert classes == set(TIMES)


@pytest.mark.parametrize(
    "name",
    [
        "LogLogisticSurvival",
        pytest.param("WeibullSurvival", marks=pytest.mark.slow),
        pytest.param("LogNormalSurvival", marks=pytest.mark.slow),
    ],
)
def test_event_times_censored_three_ways_and_truncated(name):
    rng = np.random.default_rng(103)
    x, y, metadata = censored_data(name, 400, rng)
    for code in (0, 1, -1, 2):
        assert np.mean(metadata["censored"] == code) > 0.08
    m = cgp.ChainedGP(x, y, getattr(L, name)(), Y_metadata=metadata, num_inducing=10, num_threads=1)
    assert m.optimize().converged
    grid = np.linspace(-1.9, 1.9, 60)
    for mean, want in zip(m.predict_latents(grid)[0].T, truth(grid, TIMES[name][1]), strict=True):
        assert correlation(mean, want) > 0.9
        assert abs(np.mean(mean - want)) < 0.2
    # fresh times, none of them censored or left out
    fresh = rng.uniform(-2.0, 2.0, 2000)
    T = TIMES[name][0](*truth(fresh, TIMES[name][1])).rvs(random_state=rng)
    for level in (0.5, 0.9):
        low, high = m.predictive(fresh).interval(level)
        inside = np.mean((T >= low[:, 0]) & (T <= high[:, 0]))
        assert abs(inside - level) < 0.06, (level, inside)


def test_truncation_that_is_ignored_is_noticed():
    rng = np.random.default_rng(103)
    x, y, metadata = censored_data("LogLogisticSurvival", 500, rng)
    del metadata["entry"]
    m = cgp.ChainedGP(
        x, y, L.LogLogisticSurvival(), Y_metadata=metadata, num_inducing=10, num_threads=1
    )
    m.optimize()
    f, _ = truth(x, 0.8)
    assert np.mean(m.predict_latents(x)[0][:, 0] - f) > 0.1  # short times are missing


def test_three_latents():
    rng = np.random.default_rng(11)
    x = np.sort(rng.uniform(-3.0, 3.0, 500))
    f, s, g = np.sin(5.0 * x), 1.2 * np.cos(x), -3.0 + np.sin(1.3 * x)
    y = np.exp(s) * f + np.exp(0.5 * g) * rng.normal(size=500)
    signal = cgp.kernels.RBF(1, variance=1.0, lengthscale=0.5)
    signal.variance.fix(warning=False)  # its size is that of e^s
    slow = cgp.kernels.RBF(1, variance=1.0, lengthscale=1.5)
    m = cgp.ChainedGP(
        x, y, L.SignalNoiseGaussian(), [signal, slow, slow], num_inducing=30, num_threads=1
    )
    assert m.optimize().converged
    means = m.predict_latents(x)[0]
    for mean, want in zip(means.T, (f, s, g), strict=True):
        assert correlation(mean, want) > 0.9
    assert correlation(np.exp(means[:, 1]) * means[:, 0], np.exp(s) * f) > 0.98


class Gumbel(cgp.Likelihood):
    latents = ("location", "log_scale")

    def log_density(self, y, f, g):
        z = (y - f) * np.exp(-g)
        return -z - np.exp(-z) - g


@pytest.mark.long
def test_a_density_that_overflows_at_far_nodes_is_fitted():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 150)
    f, g = 10.0 + 3.0 * np.sin(x), 0.7 * np.cos(x)
    m = cgp.ChainedGP(x, rng.gumbel(f, np.exp(g)), Gumbel(), num_inducing=15, num_threads=1)
    with pytest.raises(cgp.errors.NumericalError, match="not finite"):
        m.log_likelihood()  # q is the prior
    assert m.optimize().converged
    for mean, want in zip(m.predict_latents(x)[0].T, (f, g), strict=True):
        assert correlation(mean, want) > 0.9


@pytest.mark.slow
def test_five_latents():
    rng = np.random.default_rng(12)
    x = rng.uniform(-3.0, 3.0, 500)
    F = 2.0 * np.sin(1.2 * x[:, None] + 2.0 * np.pi * np.arange(5) / 5)  # (n, 5)
    y = np.argmax(F + rng.gumbel(size=F.shape), axis=1).astype(float)
    m = cgp.ChainedGP(x, y, L.Softmax(5), num_inducing=8, num_threads=1)
    assert m.optimize().converged
    means = m.predict_latents(x)[0]
    means = means - means.mean(axis=1, keepdims=True)  # only differences matter
    for mean, want in zip(means.T, F.T, strict=True):
        assert correlation(mean, want) > 0.9
    p = m.predictive(x[:200]).pdf(np.arange(5.0))
    assert np.abs(p - np.exp(F[:200]) / np.exp(F[:200]).sum(1, keepdims=True)).mean() < 0.06
