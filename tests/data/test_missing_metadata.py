"""Rows that are scored without the metadata that the fit had: one warning, with the way out."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import metrics
from chainedgp.data.missing_metadata import telling
from chainedgp.errors import InputError, MetadataWarning

L = cgp.likelihoods
pytestmark = pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")


def counts(exposure=None, fitted=True):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, 40)
    e = rng.uniform(1, 9, 40) if exposure is None else np.full(40, float(exposure))
    y = rng.poisson(e * np.exp(0.1 * X))
    m = cgp.ChainedGP(X, y, L.Poisson(), Y_metadata={"exposure": e}, num_inducing=5)
    if fitted:
        m.optimize(messages=False, max_iters=5)
    return m, X, y, e


def times(censored):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 5, 40)
    y = rng.weibull(1.5, 40) * np.exp(0.1 * X)
    c = rng.integers(0, 2, 40) if censored is None else np.full(40, censored)
    m = cgp.ChainedGP(X, y, L.WeibullSurvival(), Y_metadata={"censored": c}, num_inducing=5)
    m.optimize(messages=False, max_iters=5)
    return m, X, y, c


SCORES = {
    "log density": lambda m, X, y: m.log_predictive_density(X, y),
    "nlpd": lambda m, X, y: metrics.nlpd(m.predictive(X), y),
    "crps": lambda m, X, y: metrics.crps(m.predictive(X), y),
    "coverage": lambda m, X, y: metrics.interval_coverage(m.predictive(X), y),
    "pit": lambda m, X, y: metrics.pit(m.predictive(X), y),
    "mae": lambda m, X, y: metrics.mae(m.predictive(X), y),
    "rmse": lambda m, X, y: metrics.rmse(m.predictive(X), y),
    "z-scores": lambda m, X, y: m.z_scores(X, y),
    "averaged": lambda m, X, y: m.over_hyperparameters(10).log_predictive_density(X, y),
    "file": lambda m, X, y: without_rows(m).log_predictive_density(X, y),
}
SURVIVAL = {
    "log density": SCORES["log density"],
    "d-calibration": lambda m, X, y: metrics.d_calibration(m.predictive(X), y),
    "kaplan-meier": lambda m, X, y: m.plot_survival_check(X=X, Y=y),
    "pit figure": lambda m, X, y: m.plot_pit(X=X, Y=y),
}


def without_rows(m):

    with tempfile.TemporaryDirectory() as folder:
        m.save(Path(folder) / "m.cgp", data=False)
        return cgp.load(Path(folder) / "m.cgp")


@pytest.fixture(scope="module")
def of_counts():
    return counts()


@pytest.fixture(scope="module")
def of_times():
    return times(None)


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_a_score_without_the_exposure_of_the_fit_warns_once(score, of_counts):
    m, X, y, _ = of_counts
    with pytest.warns(MetadataWarning, match="'exposure'.*an exposure of 1") as found:
        score(m, X, y)
    assert [one.filename for one in found] == [__file__]


@pytest.mark.parametrize("score", SURVIVAL.values(), ids=SURVIVAL)
def test_a_score_without_the_censoring_of_the_fit_warns_once(score, of_times):
    m, X, y, _ = of_times
    with pytest.warns(MetadataWarning, match="'censored'.*observed exactly") as found:
        score(m, X, y)
    assert len(found) == 1


def test_what_is_said_needs_no_warning(of_counts, of_times):
    m, X, y, e = of_counts
    t, Xt, yt, c = of_times
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.log_predictive_density(X, y, {"exposure": e})
        m.log_predictive_density(X, y, {"exposure": 1.0})  # Said, be it the default.
        metrics.nlpd(m.predictive(X, {"exposure": e}), y)
        m.predict(X)  # A prediction is for a unit of exposure: nothing is scored.
        metrics.d_calibration(t.predictive(Xt), yt, c)
        metrics.brier_score(t.predictive(Xt), [0.5], yt, c)
        metrics.nlpd(t.predictive(Xt, {"censored": c}), yt)
        t.plot_survival_check()


@pytest.mark.parametrize(("make", "value"), [(counts, 1.0), (times, 0.0)])
def test_metadata_that_say_nothing_are_not_missed(make, value):
    m, X, y, _ = make(value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.log_predictive_density(X, y)


def test_which_metadata_say_something():
    zero, one, some = np.zeros(3), np.ones(3), np.array([0.0, 1.0, 0.0])
    assert telling({"censored": zero, "entry": zero, "exposure": one}) == ()
    assert telling({"censored": one, "entry": some, "exposure": zero + 2}) == (
        "censored",
        "entry",
        "exposure",
    )
    assert telling({"own": zero}) == ("own",)  # Nobody knows what stands for it.
    assert telling({"y_upper": some}) == ()  # It belongs to rows that `censored` tells of.


def test_folds_whose_models_know_more_than_their_scores(of_counts):
    _, X, y, _ = of_counts

    def make(X, Y):
        return cgp.ChainedGP(X, Y, L.Poisson(), Y_metadata={"exposure": 3.0}, num_inducing=5)

    with pytest.warns(MetadataWarning, match="exposure"):
        cgp.cross_validate(make, X, y, 2, num_threads=1, fit=lambda m: m.optimize(max_iters=2))


def test_a_likelihood_that_cannot_do_without_refuses():
    m = cgp.ChainedGP(np.arange(6.0), np.arange(6), L.Binomial(), Y_metadata={"trials": 9})
    with pytest.raises(InputError, match="needs Y_metadata with trials"):
        m.log_predictive_density([[1.0]], [2.0])
