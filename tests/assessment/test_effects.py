"""Effects: importance against permutations and Sobol, dependence and bands against brute force."""

import sys
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from cases import ALL, problem
from scipy import integrate, stats

import chainedgp as cgp
from chainedgp.assessment.effects.importance import redraws
from chainedgp.data.tables import Table
from chainedgp.errors import ChainedGPWarning, ConvergenceWarning, InputError, MomentWarning
from chainedgp.kernels.scales import shortest_scale
from chainedgp.predictive.distribution import Predictive

L, K = cgp.likelihoods, cgp.kernels
NAMES = ["level", "dose", "sex", "a", "b", "c"]


def table(n=60, seed=0):
    """Inputs: normal, skewed, two values, and three columns of one category."""
    rng = np.random.default_rng(seed)
    kind = np.eye(3)[rng.integers(3, size=n)]
    return np.column_stack(
        [rng.normal(size=n), np.exp(rng.normal(size=n)), rng.uniform(size=n) < 0.3, kind]
    ).astype(float)


@cache
def model(kind, posterior="mean_field"):
    """A small model at the best q of its starting parameters; tests do not change it."""
    X, rng = table(), np.random.default_rng(1)
    n, f = len(X), 0.5 * X[:, 0] + X[:, 5]
    noisy = f + np.exp(X[:, 2] - 1.5) * rng.normal(size=n)
    times = np.exp(f + 0.4 * rng.logistic(size=n))
    cases = {
        "gauss": (L.HetGaussian(), noisy, {}),
        "weights": (L.HetGaussian(), noisy, {"weights": rng.integers(0, 4, n).astype(float)}),
        "count": (L.NegativeBinomial(), rng.poisson(np.exp(f)), {"exposure": 2.0 + X[:, 2]}),
        "binary": (L.Bernoulli(), rng.uniform(size=n) < 0.3 + 0.4 * X[:, 5], {}),
        "class": (L.Softmax(3), rng.integers(0, 3, n), {}),
        "time": (L.LogLogisticSurvival(), times, {"censored": rng.integers(0, 2, n) * 1.0}),
        "beta": (L.Beta(), rng.beta(2.0 * np.exp(f), 2.0), {}),
    }
    likelihood, y, metadata = cases[kind]
    m = cgp.ChainedGP(
        pd.DataFrame(X, columns=NAMES),
        y,
        likelihood,
        Y_metadata=metadata,
        num_inducing=12,
        num_threads=1,
        posterior=posterior,
    )
    m.optimize(only="variational")
    return m


def nearly_fitted(m):
    """A model after some iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        m.optimize(max_iters=30, messages=False)
    return m


def rows_with(m, column, value):
    X = np.array(m.X)
    X[:, column] = value
    return X


def brute_force(m, column, values, predict):
    """The average over all rows of what the model itself predicts, with the rows' weights."""
    weights = m.Y_metadata.get("weights", np.ones(len(m.X)))
    return [np.average(predict(rows_with(m, column, v)), weights=weights) for v in values]


def own_means(m, X):
    return m.predictive(X).parameter_means()


# ---- partial dependence -------------------------------------------------------------------------

PREDICTIONS = [
    ("gauss", "mean_field", "mean", lambda m, X: m.predict(X)[0]),
    ("gauss", "joint", "log_variance", lambda m, X: m.predict_latents(X)[0][:, 1]),
    ("gauss", "joint", "noise", lambda m, X: m.predictive(X).noise_variance),
    ("gauss", "joint", "ignorance", lambda m, X: m.predictive(X).latent_variance),
    ("weights", "mean_field", "mean", lambda m, X: m.predict(X)[0]),
    ("weights", "mean_field", "variance", lambda m, X: own_means(m, X)["variance"]),
    ("count", "mean_field", "mean", lambda m, X: m.predict(X, {"exposure": 2.0})[0]),
    ("binary", "mean_field", "P(1)", lambda m, X: m.predict_proba(X)[:, 1]),
    ("class", "joint", "P(2)", lambda m, X: m.predict_proba(X)[:, 2]),
    ("time", "mean_field", "median", lambda m, X: m.predict_quantiles(X, (50.0,))[0]),
    ("time", "mean_field", "log_shape", lambda m, X: m.predict_latents(X)[0][:, 1]),
    ("beta", "joint", "mean", lambda m, X: m.predict(X)[0]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "posterior", "of", "predict"), PREDICTIONS)
def test_partial_dependence_is_the_average_of_predictions(kind, posterior, of, predict):
    m, values = model(kind, posterior), [0.2, 1.0, 3.0]
    found = m.effects("dose", of, values=values, draws=20, rows=60)
    expected = brute_force(m, 1, values, lambda X: np.ravel(predict(m, X)))
    np.testing.assert_allclose(found[of], expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found["value"], values)
    if "low" in found:
        assert (found["low"] < found[of]).all() and (found[of] < found["high"]).all()
    else:
        assert of in ("median", "ignorance")


def test_width_is_that_of_the_central_interval():
    m = model("gauss")

    def width(X):
        low, high = m.predictive(X).interval(0.8)
        return (high - low)[:, 0]

    found = m.effects("dose", "width", values=[0.5, 2.0], level=0.8)
    expected = brute_force(m, 1, [0.5, 2.0], width)
    np.testing.assert_allclose(found["width"], expected, rtol=1e-10)
    assert list(found) == ["value", "width"]


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_the_band_of_a_latent_is_exact(posterior):
    m = model("gauss", posterior)
    for j, of in enumerate(("mean", "log_variance")):
        found = m.effects("dose", of, values=[1.0], level=0.9)
        mean, C = m.predict_latents(rows_with(m, 1, 1.0), full_cov=True)
        n = len(mean)
        sd = np.sqrt(np.ones(n) @ C[j] @ np.ones(n)) / n
        ends = stats.norm(mean[:, j].mean(), sd).ppf([0.05, 0.95])
        np.testing.assert_allclose(found[["low", "high"]].to_numpy()[0], ends, rtol=1e-9)


@pytest.mark.parametrize(("kind", "of"), [("gauss", "variance"), ("beta", "mean")])
def test_other_bands_hold_draws_of_the_average(kind, of):
    m = model(kind, "joint")
    found = m.effects("dose", of, values=[1.0], level=0.8, draws=4000)
    mean, C = m.predict_latents(rows_with(m, 1, 1.0), full_cov=True, cross_cov=True)
    n, b = mean.shape
    joint = C.transpose(0, 2, 1, 3).reshape(b * n, b * n)
    rng = np.random.default_rng(5)
    f, g = (
        rng.multivariate_normal(mean.T.ravel(), joint, 4000, method="eigh")
        .reshape(-1, b, n)
        .transpose(1, 0, 2)
    )
    values = np.exp(g) if kind == "gauss" else 1.0 / (1.0 + np.exp(g - f))
    averages = values.mean(axis=1)
    expected = np.quantile(averages, [0.1, 0.9])
    error = 0.15 * averages.std()  # five standard errors of the difference of two such quantiles
    np.testing.assert_allclose(found[["low", "high"]].to_numpy()[0], expected, atol=error)


def test_curves_of_single_rows_average_to_the_dependence():
    m = model("weights")
    values, weights = [0.5, 2.0], m.Y_metadata["weights"]
    found = m.effects("dose", "mean", kind="individual", values=values)
    assert list(found) == ["row", "value", "mean"] and len(found) == 2 * len(m.X)
    first = found[found["row"] == 0]["mean"].to_numpy()
    np.testing.assert_allclose(
        first, m.predict([np.r_[m.X[0, 0], v, m.X[0, 2:]] for v in values])[0][:, 0]
    )
    for value, part in found.groupby("value"):
        average = np.average(part["mean"], weights=weights)
        whole = m.effects("dose", "mean", values=[value])["mean"][0]
        assert average == pytest.approx(whole, rel=1e-12)


def test_categories_have_their_own_values():
    m, groups = model("gauss"), {"kind": ["a", "b", "c"]}
    np.testing.assert_array_equal(m.effects("sex")["value"], [0.0, 1.0])
    found = m.effects("kind", groups=groups)
    assert list(found["value"]) == ["a", "b", "c"]
    for k, value in enumerate(np.eye(3)):
        X = np.array(m.X)
        X[:, 3:] = value
        assert found["mean"][k] == pytest.approx(m.predict(X)[0].mean(), rel=1e-12)
    found = m.effects("pair", groups={"pair": ["sex", "a"]})
    assert list(found["value"]) == ["sex = 1, a = 1", "sex", "a", "no sex, a"]
    low, high = m.effects("level", num=5)["value"].iloc[[0, -1]]
    np.testing.assert_allclose([low, high], np.quantile(m.X[:, 0], [0.01, 0.99]))


def test_groups_with_levels_are_named_by_all_their_values():
    rng, n = np.random.default_rng(5), 30
    X = pd.DataFrame(
        {"c": rng.choice(["a", "b"], n), "flag": rng.random(n) < 0.5, "one": 0.0, "two": 1.0}
    )
    X.loc[::2, ["one", "two"]] = [1.0, 0.0]
    m = cgp.ChainedGP(X, rng.normal(size=n), L.HetGaussian(), num_inducing=4)
    m.optimize(only="variational")
    groups = {"g": ["c", "flag"], "h": ["one", "two"]}
    found = m.effects("g", groups=groups, rows=5)
    assert list(found["value"]) == [f"c = {c}, flag = {f}" for c in "ab" for f in (False, True)]
    # Columns of 0 and 1 that code one category keep their short names.
    assert list(m.effects("h", groups=groups, rows=5)["value"]) == ["one", "two"]


def test_dependence_over_hyperparameters():
    """Two points with weights: the average of means, and quantiles of the mixture."""
    X, rng = table(40), np.random.default_rng(3)
    y = X[:, 0] + np.exp(X[:, 2] - 1.0) * rng.normal(size=40)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=10, num_threads=1)
    nearly_fitted(m)
    over = m.over_hyperparameters(10)
    over.points, over.weights = over.points[:2], np.array([0.3, 0.7])
    means, sds, n = [], [], 40
    for predictor in over.predictors():
        mean, C = predictor.latents(rows_with(m, 1, 1.0), full_cov=True)
        means.append(mean[:, 1].mean())
        sds.append(np.sqrt(C[1].sum()) / n)
    found = m.effects(1, "log_variance", values=[1.0], level=0.9, over=over).iloc[0]
    assert found["log_variance"] == pytest.approx(0.3 * means[0] + 0.7 * means[1], rel=1e-9)
    for end, share in (("low", 0.05), ("high", 0.95)):
        cdf = stats.norm.cdf(found[end], means, sds) @ [0.3, 0.7]
        assert cdf == pytest.approx(share, abs=1e-4)
    drawn = m.effects(1, "variance", values=[1.0], level=0.9, over=over, draws=4000).iloc[0]
    exact = m.predictive(rows_with(m, 1, 1.0)).parameter_means()["variance"].mean()
    assert drawn["low"] < drawn["variance"] < drawn["high"]
    assert drawn["variance"] == pytest.approx(exact, rel=0.5)
    with pytest.raises(InputError, match="has not"):
        m.effects(1, "width", over=over)
    with pytest.raises(InputError, match="kind='average' alone"):
        m.effects(over=over)


# ---- importance ---------------------------------------------------------------------------------


def test_importance_is_what_redrawing_a_column_changes():
    """Loops over all rows and observed values of a table with two interacting columns."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (40, 2)) * 1.0
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=40)
    m = cgp.ChainedGP(X, y, L.Gaussian(), num_inducing=9)
    m.optimize(only="variational")
    for d in (0, 1):
        h = np.array([m.predict(rows_with(m, d, v))[0][:, 0] for v in X[:, d]]).T  # (rows, values)
        found = m.effects(of="mean").loc[f"x{d}"]
        assert found["sd"] ** 2 == pytest.approx(h.var(axis=1).mean(), rel=1e-9)
        assert found["total"] == pytest.approx(h.var(axis=1).mean() / h.var(), rel=1e-9)
        assert found["alone"] == pytest.approx(h.mean(axis=0).var() / h.var(), rel=1e-9)
        assert found["alone"] < found["total"] - 0.05


def test_a_linear_function_has_the_importance_of_its_slopes():
    X = table(400)[:, :3]
    y = 2.0 * X[:, 0] - 0.7 * X[:, 1] + 3.0 * X[:, 2]
    kernel = K.Linear(3, 9.0, ARD=True) + K.Bias(3, 9.0)
    m = cgp.ChainedGP(X, y, L.Gaussian(variance=1e-4), kernel, num_inducing=20)
    m.optimize(only="variational")
    found = m.effects(of="mean")
    sd = np.array([2.0, 0.7, 3.0]) * X.std(axis=0)
    np.testing.assert_allclose(found["sd"].loc[["x0", "x1", "x2"]], sd, rtol=0.03)
    np.testing.assert_allclose(found["alone"], found["total"], atol=1e-9)
    assert list(found.index) == [f"x{d}" for d in np.argsort(-sd)]


def permuted(m, columns, predict, times=20):
    """Mean squared change of predictions when columns are permuted together."""
    rng, X, h = np.random.default_rng(9), np.array(m.X), predict(m.X)
    changes = []
    for _ in range(times):
        other = X.copy()
        other[:, columns] = X[rng.permutation(len(X))][:, columns]
        changes.append(np.mean((predict(other) - h) ** 2))
    return np.mean(changes)


@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_those_of_permutation_importance(seed):
    rng, X = np.random.default_rng(seed), table(200, seed)
    X[:, 0] = 0.7 * np.log(X[:, 1]) + 0.7 * X[:, 0]  # correlated with the skewed column
    slopes = rng.permutation([0.2, 0.5, 1.2, 3.0])
    kind = np.array([0.0, 1.0, -1.0])[np.argmax(X[:, 3:], axis=1)]
    y = slopes[0] * np.sin(X[:, 0]) + slopes[1] * np.log(X[:, 1]) + 2.0 * slopes[2] * X[:, 2]
    y = y + slopes[3] * kind + 0.3 * rng.normal(size=200)
    m = cgp.ChainedGP(pd.DataFrame(X, columns=NAMES), y, L.Gaussian(), num_inducing=40)
    nearly_fitted(m)
    groups = {"kind": ["a", "b", "c"]}
    ours = m.effects(of="mean", groups=groups)["sd"]
    columns = {"level": [0], "dose": [1], "sex": [2], "kind": [3, 4, 5]}
    theirs = {k: permuted(m, c, lambda X: m.predict(X)[0][:, 0]) for k, c in columns.items()}
    assert list(ours.index) == sorted(theirs, key=lambda k: -theirs[k])
    for name, value in theirs.items():
        assert 2.0 * ours[name] ** 2 == pytest.approx(value, rel=0.4)


def test_a_category_that_explains_nearly_all_is_first():
    rng, X = np.random.default_rng(0), table(150)
    y = 5.0 * X[:, 3] - 5.0 * X[:, 4] + 0.3 * X[:, 0] + np.exp(X[:, 2] - 2.0) * rng.normal(size=150)
    m = cgp.ChainedGP(pd.DataFrame(X, columns=NAMES), y, L.HetGaussian(), num_inducing=40)
    nearly_fitted(m)
    found = m.effects(of="mean", groups={"kind": ["a", "b", "c"]})
    assert found.index[0] == "kind" and found["total"].iloc[0] > 0.9
    noise = m.effects(of=["width", "log_variance"], groups={"kind": ["a", "b", "c"]})
    assert (noise.idxmax() == "sex").all() and (noise.loc["sex"] > 0.7).all()


def test_redraws_keep_mean_and_spread_of_any_column():
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=500), np.exp(1.5 * rng.normal(size=500)), rng.uniform(size=500)):
        values, p = redraws(x[:, None], np.full(500, 1.0 / 500))
        assert np.isin(values, x).all() and p.sum() == pytest.approx(1.0)
        mean = p @ values[:, 0]
        assert mean == pytest.approx(x.mean(), abs=0.02 * x.std())
        assert np.sqrt(p @ (values[:, 0] - mean) ** 2) == pytest.approx(x.std(), rel=0.02)
    values, p = redraws(np.array([[0.0], [1.0], [1.0], [0.0]]), np.array([0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_allclose(np.c_[values, p], [[0.0, 0.5], [1.0, 0.5]])
    assert len(redraws(rng.normal(size=(500, 2)), np.full(500, 0.002))[0]) == 48


def test_rows_count_by_their_weights():
    X, rng = table(30), np.random.default_rng(2)
    weights = rng.integers(0, 3, 30).astype(float)
    y = X[:, 0] + rng.normal(size=30)
    common = {"kernels": K.RBF(6, lengthscale=2.0), "Z": X[:10]}
    one = cgp.ChainedGP(X, y, L.HetGaussian(), Y_metadata={"weights": weights}, **common)
    each = np.repeat(np.arange(30), weights.astype(int))
    two = cgp.ChainedGP(X[each], y[each], L.HetGaussian(), **common)
    for m in (one, two):
        m.optimize(only="variational")
    pd.testing.assert_frame_equal(one.effects(), two.effects(), rtol=1e-3, atol=1e-5)


# q of six inducing inputs is wide: the integrals of a density alone may then be rough.
@pytest.mark.filterwarnings("ignore::chainedgp.errors.QuadratureWarning")
@pytest.mark.parametrize("name", ALL)
def test_every_likelihood_has_effects(name):
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 2))
    likelihood, y, metadata = problem(name, X)
    m = cgp.ChainedGP(X, y, likelihood, Y_metadata=metadata, num_inducing=6, num_threads=1)
    m.optimize(only="variational")
    found = m.effects(rows=4)
    assert list(found.index) == ["x0", "x1"]
    assert ((found >= 0.0) & (found <= 1.0 + 1e-9)).all(axis=None)
    assert set(likelihood.latents) - {"mean", "location"} <= set(found.columns)
    curve = m.effects("x0", of=found.columns[-1], num=2, rows=4, draws=10)
    assert np.isfinite(curve.to_numpy()).all()


WRAPPED = [
    L.HetGaussian().with_constant("log_variance", -1.0),
    L.Inflated(L.Poisson()),
    L.Rounded(L.HetGaussian(), 1.0),
    cgp.Likelihood.from_scipy(stats.logistic, loc="identity", scale="exp"),
]


@pytest.mark.parametrize("likelihood", WRAPPED, ids=lambda each: type(each).__name__)
def test_wrapped_likelihoods_have_effects(likelihood):
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 2))
    y = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0])).astype(float)
    kernel = K.RBF(2, variance=0.3, lengthscale=2.0)
    m = cgp.ChainedGP(X, y, likelihood, kernel, num_inducing=6, num_threads=1)
    m.optimize(only="variational")
    found = m.effects(rows=4)
    assert ((found >= 0.0) & (found <= 1.0 + 1e-9)).all(axis=None)
    values = m.effects("x0", "mean", values=[0.5], draws=10)
    assert values["mean"][0] == pytest.approx(m.predict(rows_with(m, 0, 0.5))[0].mean(), rel=1e-10)


def test_names_of_quantities():
    assert list(model("gauss").effects(rows=2)) == ["mean", "width", "log_variance", "variance"]
    assert list(model("class").effects(rows=2).columns[:3]) == ["P(0)", "P(1)", "P(2)"]
    found = list(model("time").effects(rows=2))
    assert found == ["median", "width", "log_median", "log_shape", "median (parameter)", "shape"]
    assert list(model("count").effects(rows=2)) == [
        "mean", "width", "log_mean", "log_dispersion", "dispersion",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::chainedgp.errors.QuadratureWarning")
@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_growth_charts_have_median_and_width_and_no_constants():
    m = problem_model(L.BoxCoxT())
    shown = ["median", "width", "log_median", "log_cv", "median (parameter)", "cv"]
    assert list(m.effects(rows=2)) == shown
    assert list(m.effects("x0", num=2, rows=2)) == ["value", "median"]
    slow = problem_model(L.BoxCoxT(power="latent")).effects(rows=2)
    assert list(slow) == ["log_median", "log_cv", "power", "median (parameter)", "cv"]
    assert m.effects("x0", of="nu", values=[0.0], rows=2)["nu"][0] == pytest.approx(10.0)
    assert list(problem_model(L.HetStudentT()).effects(rows=2)) == [
        "mean", "width", "log_scale2", "scale",
    ]  # fmt: skip


def problem_model(likelihood):
    """A small model of positive targets, hardly fitted."""
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (8, 2))
    m = cgp.ChainedGP(X, np.exp(0.3 * X[:, 0]), likelihood, K.RBF(2), Z=X[:3], num_threads=1)
    m.optimize(only="variational", max_iters=2)
    return m


def test_frames_keep_the_metadata_of_their_rows():
    m = model("count")
    for found in (m.effects(rows=2), m.effects(of="mean", rows=2), m.effects("dose", num=2)):
        assert found.attrs == {"Y_metadata": {"exposure": 2.0}}
    given = m.effects("dose", kind="individual", num=2, Y_metadata={"exposure": 1})
    assert given.attrs == {"Y_metadata": {"exposure": 1.0}}
    assert model("gauss").effects(rows=2).attrs == {}


def test_a_mean_that_does_not_exist_is_told_only_if_asked_for():
    m = model("time")
    assert "median" in m.effects(rows=2)
    assert list(m.effects("dose", values=[1.0], rows=2)) == ["value", "median"]
    with pytest.warns(MomentWarning):
        found = m.effects("dose", "mean", values=[1.0], rows=2, draws=5)
    # The means of these few draws exist; their band has to hold a mean that is infinite.
    assert np.isinf(found[["mean", "high"]].to_numpy()).all() and np.isfinite(found["low"][0])


# ---- the parts of a variance --------------------------------------------------------------------

PARTS = [
    (L.HetGaussian(), {}),
    (L.NegativeBinomial(), {"exposure": np.array([2.0])}),
    (L.Beta(), {}),
    (L.HetStudentT(nu=5.0), {}),
]


@pytest.mark.parametrize(("likelihood", "metadata"), PARTS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_noise_and_ignorance_add_up_to_the_variance(likelihood, metadata, correlation):
    mean, V = np.array([[0.4, -0.3]]), np.array([[[0.09, 0.06 * correlation], [0.0, 0.04]]])
    V[0, 1, 0] = V[0, 0, 1]
    predictive = Predictive(likelihood, mean, V, metadata)
    parts = predictive.variance_parts()
    assert list(parts) == ["noise", "ignorance"]
    np.testing.assert_array_equal(parts["noise"] + parts["ignorance"], predictive.variance)
    rng, n = np.random.default_rng(0), 200_000
    f, g = rng.multivariate_normal(mean[0], V[0], n).T
    kw = {**likelihood.parameter_values(), **{k: v[0] for k, v in metadata.items()}}
    # Two targets for the same latents: half their squared difference is noise alone.
    one, two = (likelihood.sample(rng, f, g, **kw) for _ in range(2))
    noise, shared = 0.5 * (one - two) ** 2, (one - one.mean()) * (two - two.mean())
    for draws, part in ((noise, parts["noise"]), (shared, parts["ignorance"])):
        assert part[0, 0] == pytest.approx(draws.mean(), abs=5.0 * draws.std() / np.sqrt(n))


def test_parts_of_the_variance_over_hyperparameters():
    X = np.linspace(0.0, 1.0, 15)[:, None]
    m = cgp.ChainedGP(X, np.sin(6.0 * X) + 0.2 * np.cos(60.0 * X), L.HetGaussian(), num_inducing=5)
    nearly_fitted(m)
    found = m.over_hyperparameters(10).predictive(X[:2])
    parts = found.variance_parts()
    np.testing.assert_allclose(parts["noise"] + parts["ignorance"], found.variance, rtol=1e-14)


def test_means_of_parameters():
    V = np.array([[[0.5, 0.2], [0.2, 0.4]]])
    found = Predictive(L.AdditivePoisson(), np.array([[0.3, -0.2]]), V).parameter_means()
    one, two = np.exp(0.3 + 0.25), np.exp(-0.2 + 0.2)
    np.testing.assert_allclose([v[0, 0] for v in found.values()], [one, two, one + two], rtol=1e-12)
    own = Predictive(L.Bernoulli(), np.array([[0.3]]), np.array([[4.0]])).parameter_means()

    def integrand(f):
        return stats.norm.pdf(f, 0.3, 2.0) / (1.0 + np.exp(-f))

    expected = integrate.quad(integrand, -20.0, 20.0, epsabs=1e-12)[0]
    assert own["probability"][0, 0] == pytest.approx(expected, abs=1e-8)
    product = Predictive(L.AdditivePoisson(), np.array([[0.3, -0.2]]), V).parameter_means(
        {"product": lambda f, g: np.exp(f + g)}
    )
    assert product["product"][0, 0] == pytest.approx(np.exp(0.1 + 0.5 * (0.9 + 0.4)), rel=1e-9)


# ---- parts of kernels ---------------------------------------------------------------------------


def seasonal(n=80):
    """A trend and a season, with the kernel that made them."""
    x = np.linspace(0.0, 10.0, n)[:, None]
    y = 0.3 * x + np.sin(2.0 * np.pi * x) + 0.1 * np.random.default_rng(0).normal(size=(n, 1))
    season = K.Periodic(1, period=1.0, name="season") * K.RBF(1, lengthscale=20.0)
    season.name = "season"
    kernels = [K.RBF(1, lengthscale=6.0, name="trend") + season, K.RBF(1, lengthscale=8.0)]
    m = cgp.ChainedGP(x, y, L.HetGaussian(), kernels, num_inducing=40)
    m.optimize(only="variational")
    return m


def test_shares_of_kernel_parts():
    m = seasonal()
    found = m.effects(kind="parts")
    assert list(found) == ["latent", "part", "sd", "share"]
    own = found[found["latent"] == "mean"].set_index("part")
    f = m.predict_latents(m.X)[0][:, 0]
    for part in ("trend", "season"):
        h = m.predict_component(m.X, "mean", part)[0][:, 0]
        assert own["sd"][part] == pytest.approx(h.std(), rel=1e-9)
        assert own["share"][part] == pytest.approx(np.cov(h, f, ddof=0)[0, 1] / f.var(), rel=1e-7)
    np.testing.assert_allclose(found.groupby("latent")["share"].sum(), 1.0, rtol=1e-9)


def test_the_shortest_scale_along_a_column():
    season = K.Periodic(1, period=0.5, lengthscale=0.4, active_dims=[1])
    space = K.RBF(2, lengthscale=[3.0, 0.7], ARD=True, active_dims=[2, 0])
    kernel = (
        space + season * K.RBF(1, lengthscale=9.0, active_dims=[1]) + K.Linear(1, active_dims=[3])
    )
    found = [shortest_scale(kernel, column) for column in range(4)]
    np.testing.assert_allclose(found, [0.7, 0.2, 3.0, np.inf])
    assert shortest_scale(K.Periodic(2, period=2.0), 1) == 2.0


# ---- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "sd"}, "mean, median, width, noise, ignorance, log_variance, variance; got 'sd'"),
        ({"input": "age"}, "input must be"),
        ({"input": ["level", "dose"]}, "are a group: groups="),
        ({"input": "a", "groups": {"kind": ["a", "b", "c"]}}, "part of a group"),
        ({"input": "dose", "of": ["mean", "width"]}, "name of one quantity"),
        ({"of": 3}, "of must be one of"),
        ({"of": []}, "of must be one of"),
        ({"input": "dose", "values": "high"}, "values must be finite"),
        ({"kind": "average"}, "needs an input"),
        ({"input": "dose", "kind": "parts"}, "all inputs at once"),
        ({"input": "dose", "kind": "median"}, "kind must be one of"),
        ({"input": "dose", "values": [np.nan]}, "values must be finite"),
        ({"input": "g", "groups": {"g": ["level", "dose"]}}, "combinations of values"),
        ({"groups": {"g": []}}, "groups must be"),
        ({"rows": 0}, "rows must be"),
        ({"level": 95}, "level must be"),
        ({"Y_metadata": {"exposure": np.ones(60)}}, "one value each"),
        ({"inputs": "dose"}, "write input="),
    ],
)
def test_bad_arguments_of_effects(arguments, message):
    with pytest.raises(Exception, match=message) as error:
        model("gauss").effects(**arguments)
    assert isinstance(error.value, InputError)


def test_which_probability_must_be_said():
    assert list(model("binary").effects("dose", values=[1.0], draws=5)["value"]) == [1.0]
    with pytest.raises(InputError, match=r"P\(0\), P\(1\), P\(2\)"):
        model("class").effects("dose")


def test_rows_that_are_given(tmp_path):
    m = model("gauss")
    m.save(tmp_path / "m.cgp", data=False)
    bare = cgp.load(tmp_path / "m.cgp")
    with pytest.raises(InputError, match="rows to average effects over, X="):
        bare.effects()
    X = pd.DataFrame(m.X, columns=NAMES)
    pd.testing.assert_frame_equal(bare.effects(X=X), m.effects())
    single = m.effects("dose", "mean", kind="individual", values=[1.0], rows=10)
    expected = m.predict(rows_with(m, 1, 1.0)[single["row"]])[0][:, 0]
    np.testing.assert_allclose(single["mean"], expected, rtol=1e-12)
    few = m.effects("dose", values=[1.0], rows=10)["mean"][0]
    assert few != m.effects("dose", values=[1.0])["mean"][0]


def test_without_pandas_there_is_a_table(monkeypatch):
    m = model("gauss")
    expected = m.effects(rows=5)
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = m.effects(rows=5)
    assert isinstance(found, Table) and found.index == tuple(NAMES)
    np.testing.assert_array_equal(found["mean"], expected["mean"])
    assert len(m.effects("sex")) == 2


# ---- coverage -----------------------------------------------------------------------------------

AT = [(d, v) for d in range(2) for v in (-1.2, -0.6, 0.0, 0.6, 1.2)] + [(2, 0.0), (2, 1.0)]


def covered(m, truth, inside, over=None):
    """Whether 90 % bands hold the true averages (12,) at all of AT, by quantity."""
    for of, real in truth.items():
        for d in range(3):
            here = [k for k, (column, _) in enumerate(AT) if column == d]
            values = [AT[k][1] for k in here]
            found = m.effects(d, of, values=values, level=0.9, rows=len(m.X), over=over)
            hits = (found["low"] < real[here]) & (real[here] < found["high"])
            inside.setdefault(of, []).extend(hits)


def three_inputs(rng, n):
    return np.column_stack([rng.normal(size=(n, 2)), rng.uniform(size=n) < 0.4]).astype(float)


def moved(X):
    """The rows with the values of AT, one set after another."""
    return np.concatenate([np.where(np.arange(3) == d, v, X) for d, v in AT])


@pytest.mark.slow
def test_bands_cover_functions_drawn_from_the_prior():
    """At known hyperparameters, over 60 sets, 90 % bands hold about 90 % of the true averages."""
    n, inside = 60, {}
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        X = three_inputs(rng, n)
        kernels = [
            K.RBF(3, lengthscale=[1.5, 3.0, 1.0], ARD=True),
            K.RBF(3, variance=0.6, lengthscale=[4.0, 1.5, 2.0], ARD=True),
        ]
        everywhere = np.concatenate([X, moved(X)])
        f, g = (
            rng.multivariate_normal(np.zeros(len(everywhere)), k.K(everywhere), method="eigh")
            for k in kernels
        )
        g = g - 1.5
        y = f[:n] + np.exp(0.5 * g[:n]) * rng.normal(size=n)
        means = [cgp.means.Zero(), cgp.means.Constant(-1.5)]
        m = cgp.ChainedGP(X, y, L.HetGaussian(), kernels, X, means, posterior="joint")
        m.optimize(only="variational", messages=False)
        f, g = f[n:].reshape(-1, n), g[n:].reshape(-1, n)
        truth = {"mean": f.mean(axis=1), "log_variance": g.mean(axis=1)}
        covered(m, {**truth, "variance": np.exp(g).mean(axis=1)}, inside)
    shares = {of: np.mean(hits) for of, hits in inside.items()}
    print(shares)
    assert all(0.82 < share < 0.97 for share in shares.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the posterior of the hyperparameters")
def test_bands_cover_effects_of_fitted_models():
    """Hyperparameters that count as known make bands a little narrow: 20 sets, with and without."""
    inside, averaged = {}, {}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = three_inputs(rng, 200)

        def functions(X):
            mean = np.sin(1.5 * X[:, 0]) + 0.4 * X[:, 1] + 0.7 * X[:, 2]
            return mean, 0.8 * X[:, 1] - 2.0 + 0.5 * X[:, 2]

        f, g = functions(X)
        y = f + np.exp(0.5 * g) * rng.normal(size=200)
        m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=50, num_threads=1)
        m.optimize(messages=False)
        f, g = (each.reshape(-1, 200).mean(axis=1) for each in functions(moved(X)))
        covered(m, {"mean": f, "log_variance": g}, inside)
        covered(m, {"mean": f, "log_variance": g}, averaged, m.over_hyperparameters(100))
    shares, more = ({of: np.mean(h) for of, h in hits.items()} for hits in (inside, averaged))
    print(shares, more)
    assert all(0.75 < share < 0.97 for share in shares.values())
    assert all(0.8 < share < 0.97 for share in more.values())


def test_a_grid_too_coarse_for_a_season_is_told():
    """Forty points over 30 periods would show a season that is not there."""
    t = np.linspace(0.0, 30.0, 90)[:, None]
    kernel = cgp.kernels.RBF(1, lengthscale=20.0) + cgp.kernels.Periodic(1, period=1.0)
    m = cgp.ChainedGP(
        t, np.sin(2.0 * np.pi * t[:, 0]), L.Gaussian(), kernels=kernel, num_inducing=9
    )
    m.optimize(only="variational")
    with pytest.warns(ChainedGPWarning, match="give num=119"):
        m.effects(0, rows=3, draws=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.effects(0, rows=3, draws=5, num=119)
