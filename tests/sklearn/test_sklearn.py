"""Estimators: scikit-learn's own checks, and predictions against the model behind them."""

import os
import pickle
import pydoc
import re
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from paths import ROOT

pytest.importorskip("sklearn")

import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.estimator_checks import parametrize_with_checks

import chainedgp as cgp
from chainedgp import likelihoods as lik
from chainedgp.errors import CensoringWarning, ConvergenceWarning, InputError
from chainedgp.kernels import RBF
from chainedgp.sklearn import ChainedGPClassifier, ChainedGPRegressor, ChainedGPSurvival
from chainedgp.sklearn.base import named_likelihood
from chainedgp.sklearn.survival import events_and_times

QUICK = {"max_iter": 8, "num_inducing": 8, "num_threads": 1}
pytestmark = pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore")  # checks fit noise, and targets without noise
@parametrize_with_checks([ChainedGPRegressor(max_iter=4), ChainedGPClassifier(max_iter=4)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([ChainedGPRegressor(), ChainedGPClassifier()])
def test_scikit_learn_checks_at_defaults(estimator, check):
    check(estimator)


def noisy(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, (n, 1)), axis=0)
    return X, np.sin(2 * X[:, 0]) + 0.2 * np.exp(0.5 * X[:, 0]) * rng.normal(size=n)


# ---- regression ---------------------------------------------------------------------------------


def test_it_is_the_model():
    X, y = noisy()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    estimator = ChainedGPRegressor("het_student_t", **QUICK).fit(X, y, weights)
    m = cgp.ChainedGP(
        X, y, lik.HetStudentT(), Y_metadata={"weights": weights}, num_inducing=8, num_threads=1
    )
    m.optimize(max_iters=8)
    at = np.linspace(-2, 2, 5)[:, None]
    mean, std = estimator.predict(at, return_std=True)
    np.testing.assert_array_equal(mean, m.predict(at)[0][:, 0])
    np.testing.assert_array_equal(std, np.sqrt(m.predict(at)[1][:, 0]))
    np.testing.assert_array_equal(
        estimator.predict_quantiles(at, (0.1, 0.5)), np.hstack(m.predict_quantiles(at, (10, 50)))
    )
    density = m.log_predictive_density(X, y)[:, 0]
    assert estimator.score(X, y) == pytest.approx(density.mean(), rel=1e-12)
    assert estimator.score(X, y, weights) == pytest.approx(np.average(density, weights=weights))
    assert estimator.n_iter_ == m.last_result.iterations


@pytest.mark.parametrize("name, positive", [("het_gaussian", False), ("het_gamma", True)])
def test_standardising_is_undone(name, positive):
    """In other units of x and y every prediction is the same, in those units."""
    X, y = noisy()
    y = np.exp(y) if positive else y
    shift, scale = (0.0, 512.0) if positive else (3.0, 512.0)
    at = np.linspace(-2, 2, 5)[:, None]
    one, other = (ChainedGPRegressor(name, standardize=True, **QUICK) for _ in range(2))
    one.fit(X, y)
    other.fit(100.0 + 64.0 * X, shift + scale * y)
    far = 100.0 + 64.0 * at
    mean, std = one.predict(at, return_std=True)
    there, spread = other.predict(far, return_std=True)
    np.testing.assert_allclose(there, shift + scale * mean, rtol=1e-5)
    np.testing.assert_allclose(spread, scale * std, rtol=1e-5)
    quantiles = one.predict_quantiles(at, (0.05, 0.95))
    np.testing.assert_allclose(
        other.predict_quantiles(far, (0.05, 0.95)), shift + scale * quantiles, rtol=1e-5
    )
    moved = other.score(100.0 + 64.0 * X, shift + scale * y)
    assert moved == pytest.approx(one.score(X, y) - np.log(scale), abs=1e-5)
    # and close to the fit in the user's own units
    plain = ChainedGPRegressor(name, **{**QUICK, "max_iter": 100}).fit(X, y)
    full = ChainedGPRegressor(name, standardize=True, **{**QUICK, "max_iter": 100}).fit(X, y)
    assert full.score(X, y) == pytest.approx(plain.score(X, y), abs=0.02)


def test_atoms_and_counts_keep_their_place():
    X, y = noisy()
    counts = np.round(np.exp(y))
    estimator = ChainedGPRegressor("poisson", standardize=True, **QUICK).fit(X, counts)
    assert set(estimator.model_.Y[:, 0]) == set(counts)
    assert abs(estimator.model_.X.mean()) < 1e-12


def test_equal_rows_are_weights():
    X, y = noisy(20)
    weights = np.arange(20) % 3
    one = ChainedGPRegressor(**QUICK).fit(X, y, weights)
    order = np.random.default_rng(3).permutation(int(weights.sum()))
    other = ChainedGPRegressor(**QUICK).fit(
        X.repeat(weights, axis=0)[order], y.repeat(weights)[order]
    )
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.model_.X.shape[0] == np.count_nonzero(weights)


def test_metadata_by_keyword():
    X, y = noisy()
    exposure = np.random.default_rng(1).uniform(0.5, 5, len(y))
    counts = np.random.default_rng(2).poisson(exposure * np.exp(y))
    estimator = ChainedGPRegressor("poisson", **QUICK).fit(X, counts, exposure=exposure)
    np.testing.assert_allclose(
        estimator.predict(X, exposure=3.0), 3.0 * estimator.predict(X, exposure=1.0)
    )
    ones = np.ones(len(y))
    assert estimator.score(X, counts, exposure=exposure) > estimator.score(X, counts, exposure=ones)
    with pytest.raises(InputError, match="trials"):
        ChainedGPRegressor("poisson", **QUICK).fit(X, counts, trials=exposure)


def test_pipeline_search_and_clone():
    X, y = noisy(30)
    frame = pd.DataFrame({"time": X[:, 0], "other": np.cos(5 * X[:, 0])})
    pipe = make_pipeline(StandardScaler(), ChainedGPRegressor(**QUICK))
    pipe.set_output(transform="pandas").fit(frame, y)
    assert tuple(pipe[-1].model_.input_names) == ("time", "other")
    scores = cross_val_score(pipe, frame, y, cv=3)
    assert scores.shape == (3,) and np.isfinite(scores).all()
    grid = {"likelihood": ["het_gaussian", lik.StudentT(nu=6.0)]}
    search = GridSearchCV(ChainedGPRegressor(**QUICK), grid, cv=2).fit(X, y)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    copy = clone(ChainedGPRegressor(lik.HetStudentT(nu=7.0), kernels=[cgp.kernels.RBF(1)] * 2))
    assert copy.likelihood.nu.values[0] == 7.0 and len(copy.kernels) == 2
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_minibatches():
    X, y = noisy(60)
    options = {**QUICK, "batch_size": 20, "epochs": 2}
    one, two = (
        ChainedGPRegressor(**options, random_state=seed).fit(X, y)
        for seed in (0, np.random.RandomState(0))
    )
    assert one.result_.method == two.result_.method == "natgrad"
    assert np.isfinite(one.predict(X)).all()


def test_names_of_likelihoods():
    X, y = noisy(10)
    for bad, message in (
        ("het_gausian", "mean 'het_gaussian'.*Names: .*, het_gaussian, .*het_student_t_nu, "),
        ("weibull", "mean 'weibull_survival'"),
        ("likelihood", "Names: "),
        ("inverse_wishart", r"got 'inverse_wishart'\. Names"),
        ("softmax", "give an object"),
        ("hurdle", "give an object"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            ChainedGPRegressor(bad).fit(X, y)
        assert " survival" not in str(caught.value) and "inflated," not in str(caught.value)
    for name in ("HetGamma", "hetgamma", "het_gamma", "Het_gamma", "HETGAMMA"):
        assert type(named_likelihood(name)) is lik.HetGamma
    with pytest.raises(InputError, match=r"quantiles must be fractions .* got \(2.5, 50\)"):
        ChainedGPRegressor(**QUICK).fit(X, y).predict_quantiles(X, (2.5, 50))
    with pytest.raises(NotFittedError):
        ChainedGPRegressor().predict(X)


@pytest.mark.parametrize("cls", [ChainedGPRegressor, ChainedGPClassifier, ChainedGPSurvival])
def test_help_lists_the_parameters(cls):
    text = pydoc.render_doc(cls, renderer=pydoc.plaintext)
    for name in cls().get_params():
        assert re.search(rf"\b{name}\b.* : ", text)


# ---- classification -----------------------------------------------------------------------------


def classes(K, n=60):
    X, y = noisy(n)
    return X, np.array(["low", "middle", "top"])[:K][np.digitize(y, [0.0, 0.6][: K - 1])]


@pytest.mark.filterwarnings("ignore::chainedgp.errors.QuadratureWarning")  # far from converged
@pytest.mark.parametrize(
    "likelihood, K", [(None, 2), ("het_probit", 2), (None, 3), ("ordinal", 3), (lik.Softmax(3), 3)]
)
def test_classifier(likelihood, K):
    X, y = classes(K, 24 if isinstance(likelihood, lik.Softmax) else 60)
    estimator = ChainedGPClassifier(likelihood, **QUICK).fit(X, y)
    assert list(estimator.classes_) == ["low", "middle", "top"][:K]
    p = estimator.predict_proba(X)
    codes = np.searchsorted(estimator.classes_, y)
    direct = estimator.model_.log_predictive_density(X, codes)[:, 0]
    np.testing.assert_allclose(np.log(p[np.arange(len(y)), codes]), direct, atol=1e-4)
    assert estimator.score(X, y) == pytest.approx(direct.mean(), abs=1e-4)
    assert (estimator.predict(X) == y).mean() > 0.55
    np.testing.assert_allclose(p.sum(1), 1.0)


def test_classifier_refusals():
    X, y = classes(3)
    for bad in ("bernoulli", lik.Softmax(4), "het_gaussian"):
        with pytest.raises(InputError, match="one of 3 classes"):
            ChainedGPClassifier(bad).fit(X, y)
    with pytest.raises(InputError, match="one class"):
        ChainedGPClassifier().fit(X, np.zeros(len(X)))
    estimator = ChainedGPClassifier(**QUICK).fit(X, y)
    assert estimator.score(X[:2], ["low", "never seen"]) == -np.inf
    assert not hasattr(estimator, "predict_quantiles")


# ---- survival -----------------------------------------------------------------------------------


def lifetimes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    time = 300.0 * np.exp(X[:, 0]) * rng.weibull(2.0, n)
    end = 1500.0 * rng.uniform(size=n)
    y = np.empty(n, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = time <= end, np.minimum(time, end)
    return X, y


@pytest.mark.filterwarnings("ignore::chainedgp.errors.QuadratureWarning")
@pytest.mark.parametrize("standardize", [False, True])
def test_survival_estimator(standardize):
    X, y = lifetimes()
    estimator = ChainedGPSurvival("log_logistic_survival", standardize=standardize, **QUICK)
    estimator.fit(X, y)
    at = np.array([[-1.5], [0.0], [1.5]])
    risk = estimator.predict(at)
    assert risk[0] > risk[1] > risk[2]
    curves = estimator.predict_survival_function(at)
    medians = np.exp(-risk)
    np.testing.assert_allclose([c(t) for c, t in zip(curves, medians, strict=True)], 0.5, atol=1e-6)
    table = estimator.predict_survival_function(at, return_array=True)
    assert table.shape == (3, y["event"].sum()) and (np.diff(table, axis=1) <= 1e-12).all()
    np.testing.assert_array_equal(curves[1].y, table[1])
    assert curves[1](0.0) == 1.0 and curves[1].x is estimator.unique_times_
    hazard = estimator.predict_cumulative_hazard_function(at, return_array=True)
    np.testing.assert_allclose(hazard, -np.log(table), atol=1e-9)
    # the score, from the curves alone: log S for a censored row, log(−dS/dt) for an event
    rows = estimator.predict_survival_function(X)
    direct = []
    for (event, t), curve in zip(y, rows, strict=True):
        h = 1e-4 * t
        direct.append(np.log((curve(t - h) - curve(t + h)) / (2 * h) if event else curve(t)))
    assert estimator.score(X, y) == pytest.approx(np.mean(direct), abs=1e-4)
    with pytest.raises(InputError, match="from 0 on"):
        curves[0](-1.0)


def test_survival_targets():
    X, y = lifetimes(20)
    swapped = np.array(list(zip(y["time"], y["event"], strict=True)), [("t", float), ("d", bool)])
    one, two = (ChainedGPSurvival(**QUICK).fit(X, target) for target in (y, swapped))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    frame = pd.DataFrame(y)
    frames = frame[["time", "event"]], frame.astype(float), frame.astype({"event": "boolean"})
    for target in frames:
        for got, expected in zip(events_and_times(target), events_and_times(y), strict=True):
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == expected.dtype
    for bad, number in (
        (frame[["time"]], 0),
        (frame.assign(event="dead"), 0),
        (frame.assign(more=y["event"]), 2),
        (frame.assign(time=1.0, event=1.0), 2),
    ):
        with pytest.raises(InputError, match=f"two columns.*{number} could be the events"):
            ChainedGPSurvival(**QUICK).fit(X, bad)
    for bad in (y["time"], y[["time"]], list(y["time"])):
        with pytest.raises(InputError, match="structured array"):
            ChainedGPSurvival(**QUICK).fit(X, bad)
    with pytest.raises(ValueError, match="inconsistent"):
        ChainedGPSurvival(**QUICK).fit(X[1:], y)
    scores = cross_val_score(ChainedGPSurvival(**QUICK), X, y, cv=2)
    assert np.isfinite(scores).all()


@pytest.mark.peer
def test_scorers_of_scikit_survival():
    metrics = pytest.importorskip("sksurv.metrics")
    X, y = lifetimes(90)
    times = np.quantile(y["time"], [0.2, 0.4, 0.6])
    estimator = ChainedGPSurvival("weibull_survival", **QUICK)
    train, test = slice(0, 60), slice(60, 90)
    ranked = metrics.as_concordance_index_ipcw_scorer(estimator, tau=times[-1])
    assert ranked.fit(X[train], y[train]).score(X[test], y[test]) > 0.7
    area = metrics.as_cumulative_dynamic_auc_scorer(estimator, times=times)
    assert area.fit(X[train], y[train]).score(X[test], y[test]) > 0.7
    brier = metrics.as_integrated_brier_score_scorer(estimator, times=times)
    grid = {"estimator__likelihood": ["log_logistic_survival", "weibull_survival"]}
    search = GridSearchCV(brier, grid, cv=2, error_score="raise").fit(X[train], y[train])
    assert -0.2 < search.score(X[test], y[test]) < 0.0  # 0.25 for a coin
    # a risk of the wrong sign would rank the wrong way
    risk = ranked.predict(X[test])
    wrong = metrics.concordance_index_ipcw(y[train], y[test], -risk, tau=times[-1])[0]
    assert wrong < 0.3


@pytest.mark.peer
def test_in_the_environment_of_scikit_survival():
    python = os.environ.get("CHAINEDGP_SURV_PYTHON")
    if python is None:
        pytest.skip("no interpreter: set CHAINEDGP_SURV_PYTHON")
    command = [python, "-m", "pytest", "-q", "-m", "peer", "-k", "scorers", __file__]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout[-4000:]


def test_metadata_reach_score_by_routing_and_are_missed_without_it():
    rng = np.random.default_rng(0)
    X, exposure = rng.uniform(0.0, 10.0, (60, 1)), rng.choice([1.0, 20.0], 60)
    y = rng.poisson(exposure * np.exp(np.sin(X[:, 0])))
    estimator, folds = ChainedGPRegressor("poisson", **QUICK), KFold(3)
    with pytest.raises(InputError, match=r"score needs exposure.*set_score_request\(exposure=True"):
        cross_val_score(
            estimator, X, y, cv=folds, params={"exposure": exposure}, error_score="raise"
        )
    by_hand = [
        estimator.fit(X[a], y[a], exposure=exposure[a]).score(X[b], y[b], exposure=exposure[b])
        for a, b in folds.split(X)
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        told = ChainedGPRegressor("poisson", **QUICK)
        told = told.set_fit_request(exposure=True).set_score_request(exposure=True)
        routed = cross_val_score(told, X, y, cv=folds, params={"exposure": exposure})
    np.testing.assert_allclose(routed, by_hand)


def test_widths_of_rounding_are_in_the_units_of_y():
    """Standardised units divide them as they divide y: the answer is that of the units of y."""
    X, y = noisy(30)
    y, scores = np.round(50.0 + 30.0 * y, -1), []
    for standardize in (False, True):
        estimator = ChainedGPRegressor(lik.Rounded(lik.Gaussian()), standardize=standardize)
        estimator.fit(X, y, rounding=np.full(30, 10.0))
        scores.append(estimator.score(X, y, rounding=np.full(30, 10.0)))
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)


def test_the_model_of_a_standardised_fit_refuses_frames_in_other_units():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"depth": rng.uniform(0.0, 50.0, 40), "hour": rng.uniform(0.0, 24.0, 40)})
    y = np.sin(frame.depth / 8.0) + 0.1 * rng.normal(size=40)
    kernels = [RBF(1, active_dims=["depth"]), RBF(1, active_dims=["hour"])]
    estimator = ChainedGPRegressor(kernels=kernels, standardize=True, **QUICK).fit(frame, y)
    assert estimator.predict(frame).shape == (40,)
    assert kernels[0].active_dims.tolist() == ["depth"]  # parameters of an estimator stay
    with pytest.raises(InputError, match=r"depth \(standardised\)"):
        estimator.model_.predict_frame(frame)


def test_a_fit_that_stops_early_tells_what_an_estimator_can_do():
    X, y = np.linspace(0, 6, 40)[:, None], np.sin(np.linspace(0, 6, 40))
    with pytest.warns(ConvergenceWarning, match="ChainedGPRegressor stopped .* max_iter") as found:
        ChainedGPRegressor(max_iter=1, num_inducing=5).fit(X, y)
    assert not any("optimize()" in str(one.message) for one in found)
    assert any("standardize=True" in str(one.message) for one in found)
    with pytest.warns(ConvergenceWarning, match="max_iter=10.$"):
        ChainedGPRegressor(max_iter=1, num_inducing=5, standardize=True).fit(X, y)


def test_times_without_a_word_of_censoring_warn_in_the_words_of_an_estimator():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 1)), rng.weibull(1.5, 25)
    regressor = ChainedGPRegressor("weibull_survival", num_inducing=4, max_iter=2)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        regressor.fit(X, y)
    told = [w for w in found if w.category is CensoringWarning]
    assert len(told) == 1 and "fit(X, y, censored=c)" in str(told[0].message)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", CensoringWarning)
        regressor.fit(X, y, censored=0)
        both = np.array(list(zip(y > 0.1, y, strict=True)), dtype=[("event", bool), ("t", float)])
        ChainedGPSurvival("weibull_survival", num_inducing=4, max_iter=2).fit(X, both)


# ---- tables with words and dates -----------------------------------------------------------------


def words_and_dates(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "depth": rng.uniform(0.0, 50.0, n),
        "town": np.resize(["York", "Bath", "Ely"], n),
        "open": np.resize([True, False], n),
        "when": pd.Timestamp("2022-01-01") + pd.to_timedelta(7 * np.arange(n), unit="D"),
    })  # fmt: skip
    effects = frame["town"].map({"York": 2.0, "Bath": 0.0, "Ely": -1.0}).to_numpy()
    return frame, effects + np.sin(frame["depth"] / 8.0) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("standardize", [False, True])
def test_estimators_read_tables(standardize):
    frame, y = words_and_dates()
    options = {**QUICK, "standardize": standardize, "periodic": {"when": "year"}}
    estimator = ChainedGPRegressor(**options).fit(frame, y)
    assert list(estimator.feature_names_in_) == list(frame.columns)
    model = estimator.model_
    assert model.columns[1].levels == ("Bath", "Ely", "York")
    assert set(model.X[:, 1]) == {0.0, 1.0, 2.0}
    season = model.kernels.mean.periodic
    days = 365.25 / (7 * np.arange(60)).std() if standardize else 365.25
    assert season.active_dims.tolist() == [3] and season.period.values == pytest.approx(days)
    mean = estimator.predict(frame)
    assert np.corrcoef(mean, y)[0, 1] > 0.8
    categories = frame.assign(town=pd.Categorical(frame["town"], ["York", "Ely", "Bath"]))
    np.testing.assert_allclose(estimator.predict(categories), mean, rtol=1e-10)
    if standardize:
        named = ["depth (standardised)", "town", "open", "when (standardised)"]
        assert model.input_names == named
        assert [c.kind for c in model.columns.each] == ["number", "category", "boolean", "number"]
        assert set(model.X[:, 2]) == {0.0, 1.0}
        assert list(model.effects("town")["value"]) == ["Bath", "Ely", "York"]
    else:
        assert model.columns[3].kind == "date"
        np.testing.assert_allclose(model.predict(frame)[0][:, 0], mean, rtol=1e-10)
    with pytest.raises(ValueError, match="column 'town' of X has a level") as told:
        estimator.predict(frame.assign(town="Rome"))
    assert 'fit with unseen="prior"' in str(told.value) and "m.unseen" not in str(told.value)
    with pytest.raises(ValueError, match="lacks the column 'town'"):
        estimator.predict(frame.drop(columns="town"))
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(frame.assign(town=[None, *frame["town"][1:]]), y)


def test_a_search_and_classes_on_tables():
    frame, y = words_and_dates()
    labels = np.where(y > np.median(y), "high", "low")
    classifier = ChainedGPClassifier(**QUICK, unseen="prior")
    scores = cross_val_score(classifier, frame, labels, cv=3)
    assert np.isfinite(scores).all()
    p = classifier.fit(frame, labels).predict_proba(frame.assign(town="Rome"))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert set(classifier.predict(frame)) == {"high", "low"}
    fresh = clone(classifier)
    assert fresh.get_params()["unseen"] == "prior"


def test_lazy_frames_have_one_error():
    pl = pytest.importorskip("polars")
    frame, y = words_and_dates(12)
    with pytest.raises(InputError, match="X is a LazyFrame, not read yet"):
        ChainedGPRegressor(**QUICK).fit(pl.DataFrame({"a": y}).lazy(), y)
    estimator = ChainedGPRegressor(**QUICK).fit(frame, y)
    with pytest.raises(InputError, match="X is a LazyFrame, not read yet"):
        estimator.predict(pl.DataFrame({"a": y}).lazy())


def test_names_of_likelihoods_are_words():
    with pytest.raises(InputError, match=r"Names: .*\bgev, .*\bgev_shape\b") as told:
        ChainedGPRegressor("negbin").fit(np.arange(6.0)[:, None], np.arange(6.0))
    assert "g_e_v" not in str(told.value) and "shash" in str(told.value)
    assert "het_student_t_nu" in str(told.value) and "box_cox_t" in str(told.value)
    for name in ("gev", "GEV", "g_e_v"):
        assert type(named_likelihood(name)).__name__ == "GEV"


# ---- gaps ---------------------------------------------------------------------------------------


def with_gaps(kind):
    """A table of 30 rows of which 5, 8 and 9 have gaps; targets and weights."""
    rng = np.random.default_rng(0)
    town = np.resize(np.array(["Bath", "York", "Ely"], dtype=object), 30)
    size = rng.normal(size=30)
    y = size + (town == "York") + 0.1 * rng.normal(size=30)
    town[5], size[8], y[9] = None, np.nan, np.nan
    table = {"town": town.tolist(), "size": size.tolist()}
    if kind == "array":
        return size[:, None], y, [8, 9]
    if kind == "polars":
        frame = pytest.importorskip("polars").DataFrame(table, nan_to_null=True)
    else:
        frame = pytest.importorskip("pandas").DataFrame(table)
    return frame, y, [5, 8, 9]


@pytest.mark.parametrize("kind", ["array", "pandas", "polars"])
def test_rows_with_gaps_are_left_out_if_asked_for(kind):
    X, y, gaps = with_gaps(kind)
    kept = np.delete(np.arange(30), gaps)
    options = {"num_inducing": 5, "max_iter": 3}
    rows = _safe_indexing(X, kept)
    weights = np.linspace(0.5, 1.5, 30)
    found = ChainedGPRegressor(missing="drop", **options).fit(X, y, weights)
    want = ChainedGPRegressor(**options).fit(rows, y[kept], weights[kept])
    np.testing.assert_array_equal(found.predict(rows), want.predict(rows))
    with pytest.raises(InputError, match=r"X has missing values.*SimpleImputer"):
        found.predict(X)
    with pytest.raises(InputError, match=r'missing="drop".*SimpleImputer'):
        want.fit(X, y)
    with pytest.raises(InputError, match=r'y has missing values.*missing="drop"'):
        want.fit(rows, np.where(np.arange(len(kept)) == 3, np.nan, y[kept]))
    with pytest.raises(InputError, match="nothing is left"):
        found.fit(X, np.full(30, np.nan))
    with pytest.raises(InputError, match="missing must be"):
        ChainedGPRegressor(missing="impute").fit(rows, y[kept])


def test_rows_without_a_label_or_a_time_are_left_out_if_asked_for():
    X = np.linspace(0.0, 1.0, 20)[:, None]
    options = {"missing": "drop", "num_inducing": 4, "max_iter": 2}
    labels = np.resize(np.array(["no", "yes", "yes"], dtype=object), 20)
    labels[4] = None
    y = np.array(list(zip(np.resize([True, False], 20), np.linspace(1, 3, 20), strict=True)))
    y = np.array([(bool(e), t) for e, t in y], dtype=[("event", bool), ("time", float)])
    y["time"][7] = np.nan
    classifier = ChainedGPClassifier(**options).fit(X, labels)
    survival = ChainedGPSurvival(**options).fit(X, y)
    assert list(classifier.classes_) == ["no", "yes"]
    assert len(classifier.model_.X) == len(survival.model_.X) == 19
