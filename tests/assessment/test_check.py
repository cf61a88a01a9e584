"""`m.check()`: a model made to trip each finding, a healthy one that trips none; `m.summary()`."""

import numpy as np
import pytest
from scipy.special import expit

import chainedgp as cgp
from chainedgp.assessment import questions
from chainedgp.assessment.questions import parameters, rows
from chainedgp.assessment.questions.evidence import Evidence
from chainedgp.errors import ConvergenceWarning, InputError

K, L, P = cgp.kernels, cgp.likelihoods, cgp.priors
NAMES = {"convergence", "scaling", "quadrature", "negative_sites", "pareto_k", "calibration"}
NAMES |= {"outliers", "inducing_inputs", "hyperparameters", "noise", "posterior"}


def wave(n=80, seed=0):
    """Rows of a sine, noise sd from 0.1 to 0.6."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 6.0, n))
    return x[:, None], np.sin(x) + (0.1 + 0.08 * x) * rng.standard_normal(n)


def build(X, y, likelihood=None, **keywords):
    keywords = {"num_inducing": 15, "num_threads": 1, **keywords}
    return cgp.ChainedGP(X, y, L.HetGaussian() if likelihood is None else likelihood, **keywords)


def with_q(*args, **keywords):
    """A model at given hyperparameters, with the q that belongs to them."""
    m = build(*args, **keywords)
    m.optimize(only="variational", messages=False)
    return m


@pytest.fixture(scope="module")
def healthy():
    m = build(*wave())
    m.optimize(messages=False)
    return m


def finding(m, name):
    """One finding, without asking for the others."""
    result, rng = getattr(m, "last_result", None), np.random.default_rng(0)
    return getattr(questions, name)(Evidence(m.problem, result, m.input_names, 1000, rng))


def assert_tripped(found, *words):
    assert found.level in ("look", "problem")
    assert found.cause and found.remedy
    for word in words:
        assert word in f"{found.message} {found.cause} {found.remedy}"


# ---- the whole ----


def test_a_healthy_model_trips_nothing(healthy):
    before = np.array(healthy.param_array), healthy.log_likelihood()
    check = healthy.check()
    assert check.ok and not check.capped
    assert {found.name for found in check.findings} == NAMES == set(questions.__all__)
    assert all(not found.cause and not found.remedy for found in check.findings)
    np.testing.assert_array_equal(healthy.param_array, before[0])
    assert healthy.log_likelihood() == before[1]
    text = str(check)
    assert repr(check) == text and "0 PROBLEM, 0 look, 11 ok" in text
    assert all(name in text for name in NAMES)
    assert max(map(len, text.splitlines())) <= 100


def test_findings_are_gone_through_in_their_order(healthy):
    check = healthy.check()
    assert list(check) == list(check.findings) and len(check) == len(check.findings) > 5


def test_a_model_that_was_not_fitted_is_told_so():
    check = build(*wave()).check()
    assert [found.name for found in check.findings] == ["convergence", "scaling"]
    assert check["convergence"].level == "problem" and not check.ok
    assert_tripped(check["convergence"], "never fitted", "m.optimize()")
    assert "fitted" in check.capped[0] and "PROBLEM" in str(check)
    assert check.of_level("problem") == (check["convergence"],)


def test_work_is_capped_and_said(healthy, monkeypatch):
    monkeypatch.setattr(rows, "PIT_ROWS", 20)
    monkeypatch.setattr(parameters, "DOUBLING_ROWS", 50)
    monkeypatch.setattr(parameters, "MOST_ADDED", 3)
    m = healthy.copy()
    check = m.check(rows=30, rng=1)
    assert len(check["pareto_k"].values["pareto_k"]) == 30
    assert len(check["calibration"].values["pit"]) == 20
    assert check["inducing_inputs"].values["added"] <= 3
    said = " ".join(check.capped)
    for words in ("30 of 80", "20 of 80", "50 of 80", "3 more"):
        assert words in said and words in str(check)
    again = m.check(rows=30, rng=1)
    np.testing.assert_array_equal(
        again["pareto_k"].values["pareto_k"], check["pareto_k"].values["pareto_k"]
    )
    for few in (0, 2.5):
        with pytest.raises(InputError, match="rows"):
            m.check(rows=few)


# ---- each question ----


def test_convergence(healthy):
    m = build(*wave())
    with pytest.warns(ConvergenceWarning):
        m.optimize(max_iters=1, messages=False)
    assert_tripped(finding(m, "convergence"), "stopped", "m.optimize()")
    m = healthy.copy()
    m.q_mu[:] = m.q_mu.values + 0.3
    found = finding(m, "convergence")
    true_gap = healthy.log_likelihood() - m.log_likelihood()
    assert_tripped(found, "nats from its optimum")
    assert 0.2 * true_gap < found.values["gap"] < 5.0 * true_gap
    # the slope is the derivative of bound and priors in the logarithm of a parameter
    m = healthy.copy()
    for leaf in m.flattened_parameters:
        leaf.fix()
    variance = m.kernels[0].variance
    variance.constrain_positive(warning=False)
    variance[:] = 3.0 * variance.values
    ends = []
    for factor in (np.exp(1e-4), np.exp(-2e-4)):
        variance[:] = variance.values * factor
        ends.append(m.objective_function())
    slope = abs(ends[0] - ends[1]) / 2e-4
    variance[:] = variance.values * np.exp(1e-4)
    assert finding(m, "convergence").values["gradient"] == pytest.approx(slope, rel=1e-4)


def test_quadrature(healthy):
    X, y = wave(30)
    m = build(X, np.exp(y), L.WeibullSurvival(), kernels=K.RBF(1, 4.0, 0.5), num_nodes=3)
    found = finding(m, "quadrature")
    assert_tripped(found, "3 nodes", "num_nodes")
    lik = m.likelihood
    means, variances = m.predict_latents(X)
    wanted = lik.required_nodes(m.Y[:, 0], means, variances, **lik.parameter_values())
    np.testing.assert_array_equal(found.values["rows"], np.flatnonzero(wanted > 3))
    assert len(finding(healthy, "quadrature").values["rows"]) == 0


def test_negative_sites(healthy):
    X, _ = wave(40)
    y = np.where(np.arange(40) % 3 == 0, 0.0, 50.0 * (-1.0) ** np.arange(40))
    lik = L.HetStudentT(nu=2.0)
    m = with_q(X, y, lik, kernels=K.RBF(1, 0.01, 50.0), mean_functions=cgp.means.Constant(0.0))
    found = finding(m, "negative_sites")
    # by hand: the log-density of a Student-t is convex in f where (y − f)² > ν e^g
    assert found.values["location"] == pytest.approx(26 / 40)
    assert_tripped(found, "65% of the rows make q of location wider")
    assert finding(healthy, "negative_sites").values["mean"] == 0.0


def test_pareto_k(healthy):
    X, y = wave(40)
    m = with_q(X, y, kernels=K.RBF(1, 1.0, 0.1), Z=X)
    found = finding(m, "pareto_k")
    assert_tripped(found, "loo(refit=")
    k, rows = found.values["pareto_k"], found.values["rows"]
    assert k[rows[0]] == k.max() and set(rows) == set(np.flatnonzero(k > 0.7))
    # the same as those of loo, but for other draws
    with pytest.warns(cgp.errors.ChainedGPWarning, match="Pareto"):
        other = m.loo(refit=False).pareto_k
    assert np.corrcoef(k, other)[0, 1] > 0.6
    assert finding(healthy, "pareto_k").values["share"] < 0.05


@pytest.mark.parametrize(
    ("likelihood", "said", "not_said"),
    [
        (L.HetGaussian(), "a constant noise", "rare targets"),
        (L.Poisson(), "heavier tails or longer", "noise"),
        (L.Bernoulli(), "rare targets", "tails"),
        (L.Softmax(3), "fewer inputs", "noise"),
        (L.Ordinal(4), "fewer inputs", "tails"),
    ],
)
def test_advice_on_influential_rows_suits_the_targets(likelihood, said, not_said, monkeypatch):
    X = np.linspace(0.0, 1.0, 12)
    m = build(X, np.arange(12.0) % 2, likelihood, num_inducing=4, ties=None)
    monkeypatch.setattr("chainedgp.assessment.questions.rows.influence", lambda *_: np.eye(12)[3])
    found = finding(m, "pareto_k")
    assert "1 of 12 rows has a large influence" in found.message
    advice = f"{found.cause} {found.remedy}"
    assert said in advice and not_said not in advice


def test_a_few_influential_rows_are_no_fault(healthy, monkeypatch):
    for largest, few in ((1.11, True), (0.4, False)):
        k = np.append(np.full(healthy.X.shape[0] - 1, 0.1), largest)
        monkeypatch.setattr("chainedgp.assessment.questions.rows.influence", lambda *args, k=k: k)
        found = finding(healthy, "pareto_k")
        assert found.level == "ok" and f"largest is {largest:.2f}" in found.message
        assert ("fits q again" in found.message) == few


@pytest.mark.parametrize(("variance", "words"), [(0.002, "too narrow"), (3.0, "too wide")])
def test_calibration(variance, words):
    X, y = wave(100)
    m = build(X, y, L.Gaussian(variance=variance), kernels=K.RBF(1, 1.0, 3.0))
    m.optimize(only="variational", messages=False)
    found = finding(m, "calibration")
    assert_tripped(found, words)
    assert found.level == "problem" and found.values["counts"].sum() == 100


def test_calibration_of_counts_and_censored_times():
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 3.0, 90)[:, None]
    f = np.sin(X[:, 0])
    m = with_q(X, rng.poisson(np.exp(f)), L.Poisson(), kernels=K.RBF(1, 1.0, 1.0))
    assert finding(m, "calibration").level == "ok" and finding(m, "noise").level == "ok"
    time, end = np.exp(f + rng.logistic(size=90)), rng.uniform(0.2, 4.0, 90)
    metadata = {"censored": (time > end).astype(float)}
    lik = L.LogLogistic(log_shape=0.0)
    m = with_q(X, np.minimum(time, end), lik, Y_metadata=metadata, kernels=K.RBF(1, 1.0, 1.0))
    assert finding(m, "calibration").level == "ok"
    m.set_data(X, np.minimum(time, end))  # as if all were events
    m.optimize(only="variational", messages=False)
    assert finding(m, "calibration").values["p_value"] < 0.05
    classes = with_q(X, np.arange(90) % 3, L.Softmax(3))
    assert "order" in finding(classes, "calibration").message
    assert "order" in finding(classes, "outliers").message


def test_outliers(healthy):
    X, y = wave()
    y[[10, 40]] = 8.0, -9.0
    m = with_q(X, y, L.Gaussian(variance=0.1), kernels=K.RBF(1, 0.5, 1.0))
    found = finding(m, "outliers")
    assert_tripped(found, "HetStudentT")
    assert {10, 40} <= set(found.values["rows"])
    assert len(finding(healthy, "outliers").values["rows"]) == 0


def test_inducing_inputs(healthy):
    x = np.linspace(0.0, 20.0, 120)
    y = np.sin(3.0 * x) + 0.1 * np.random.default_rng(0).standard_normal(120)
    options = {"kernels": K.RBF(1, 1.0, 0.5), "mean_functions": cgp.means.Zero()}
    few = with_q(x[:, None], y, L.Gaussian(variance=0.01), num_inducing=12, **options)
    found = finding(few, "inducing_inputs")
    assert_tripped(found, "num_inducing=24")
    assert found.level == "problem" and found.values["added"] == 12
    # never more than what an exact posterior gains
    full = with_q(x[:, None], y, L.Gaussian(variance=0.01), Z=x[:, None], **options)
    gain = full.log_likelihood() - few.log_likelihood()
    assert 0.0 < found.values["gain"] < gain
    enough = finding(full, "inducing_inputs")
    assert enough.level == "ok" and enough.values["gain"] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_a_latent_that_varies_by_less_than_its_uncertainty(posterior):
    """It is named where the noise is constant, and not where it doubles several times."""
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 1.0, 100)[:, None]
    noise = rng.standard_normal(100)
    kernels = [K.RBF(1, 1.0, 0.3), K.RBF(1, 0.2, 0.1)]
    same = with_q(X, np.sin(6.0 * X[:, 0]) + 0.3 * noise, kernels=kernels, posterior=posterior)
    found = finding(same, "hyperparameters")
    assert_tripped(found, "log_variance varies by less than", 'with_constant("log_variance")')
    assert "latent mean" not in found.message
    some = same.predict_latents(X)
    low, high = (some[0][:, 1] + k * np.sqrt(some[1][:, 1]) for k in (-1.0, 1.0))
    assert np.ptp(some[0][:, 1]) > 0.1 and low.max() <= high.min()
    kernels = [K.RBF(1, 1.0, 0.3), K.RBF(1, 2.0, 0.3)]
    y = np.sin(6.0 * X[:, 0]) + np.exp(-2.5 + 2.0 * X[:, 0]) * noise
    varies = with_q(X, y, kernels=kernels, posterior=posterior)
    assert finding(varies, "hyperparameters").level == "ok"


def test_hyperparameters():
    rng = np.random.default_rng(1)
    X, y = wave(60)
    # a latent that does not vary, and parameters at the ends of their intervals
    m = with_q(X, y, kernels=[K.RBF(1, 1.0, 1.5), K.RBF(1, 1.0, 1e4)])
    assert_tripped(finding(m, "hyperparameters"), 'with_constant("log_variance")')
    m.kernels[1].lengthscale.constrain_bounded(1.0, 5.0, warning=False)
    m.kernels[1].lengthscale = 5.0 - 1e-6
    found = finding(m, "hyperparameters")
    assert_tripped(found, "kernels.log_variance.lengthscale", "interval")
    m.kernels[1].lengthscale = 3.0
    assert "interval" not in finding(m, "hyperparameters").message
    t = with_q(X, y, L.HetStudentT(nu=1.0005), kernels=K.RBF(1, 1.0, 1.5))
    assert_tripped(finding(t, "hyperparameters"), "likelihood.nu", ">1")
    t.likelihood.nu.fix()
    assert "likelihood.nu" not in finding(t, "hyperparameters").message
    # a latent that follows single rows, one whose variance has no limit
    m = with_q(X, y, kernels=[K.RBF(1, 1.0, 1e-4), K.RBF(1, 0.5, 3.0)], Z=X)
    assert_tripped(finding(m, "hyperparameters"), "mean follows single rows", "Set lengthscales")
    m = with_q(X, (rng.uniform(size=60) < 0.5) * 1.0, L.Bernoulli(), kernels=K.RBF(1, 1e6, 0.7))
    assert_tripped(finding(m, "hyperparameters"), "logit has a prior standard deviation of 1e+03")


@pytest.mark.parametrize(
    "likelihood",
    [
        L.HetGaussian,
        *(pytest.param(x, marks=pytest.mark.long) for x in (L.Gaussian, L.StudentT, L.HetLaplace)),
    ],
)
def test_the_unit_of_y_raises_no_alarm(likelihood):
    X, y = wave(60)
    levels = {}
    for unit in (1e-4, 1.0, 1e4):
        m = build(X, unit * y, likelihood())
        m.optimize(messages=False)
        levels[unit] = {found.name: found.level for found in m.check().findings}
        assert "prior standard deviation" not in finding(m, "hyperparameters").message
        # a variance without a limit is one in every unit
        kernel = m.kernels[0]
        kernel.variance[:] = 1e6 * (unit * y.std()) ** 2
        assert_tripped(finding(m, "hyperparameters"), "has a prior standard deviation of")
        kernel.variance[:] = 1e2 * (unit * y.std()) ** 2
        assert "prior standard deviation" not in finding(m, "hyperparameters").message
    assert levels[1e-4] == levels[1.0] == levels[1e4]


def test_scaling():
    X, y = wave(40)
    ones, few = np.ones(40), np.zeros(40)
    few[3] = 1e9
    noisy = np.random.default_rng(0).normal(size=40)
    with pytest.warns(cgp.errors.ScalingWarning):
        m = build(np.c_[X, 1e11 + noisy, noisy, ones, -2.0 * X], y)
    found = finding(m, "scaling")
    assert_tripped(found, "Column 1", "Subtract", "Column 3 of X is constant", "0 and 4")
    assert found.level == "problem" and "Column 2" not in found.message
    long = np.r_[np.zeros(2000), 1.0][:, None]
    assert_tripped(
        finding(build(long, np.arange(2001.0) % 7, ties=None), "scaling"),
        "from its median",
        "logarithm",
    )
    for value, advice in ((-999.0, "row 7. It may be a code for"), (-998.0, "Take logarithms")):
        coded = np.where(np.arange(40) == 7, value, X[:, 0])
        found = finding(build(np.c_[coded, noisy], y), "scaling")
        assert "same information" not in found.message
        assert advice in f"{found.message} {found.remedy}"
    assert_tripped(finding(build(X, 7.0 + 0.0 * y), "scaling"), "All targets are the same")
    assert_tripped(finding(build(X, 1e9 + y), "scaling"), "Y varies little")
    assert finding(build(X, 1e6 * y), "scaling").level == "ok"


@pytest.mark.parametrize("likelihood", ["HetGaussian", "LogLogisticSurvival", "Beta"])
@pytest.mark.parametrize("sharp", [True, False])
def test_noise(likelihood, sharp):
    X, y = wave(40)
    level = {"HetGaussian": -24.0, "LogLogisticSurvival": 12.0, "Beta": 20.0}[likelihood] * sharp
    means = [cgp.means.Constant(level if likelihood == "Beta" else 0.0), cgp.means.Constant(level)]
    kernels = [K.RBF(1, 1.0, 1.5), K.RBF(1, 1e-6, 1.5)]
    targets = {"HetGaussian": y, "LogLogisticSurvival": np.exp(y), "Beta": 1.0 / (1.0 + np.exp(y))}
    options = {"kernels": kernels, "mean_functions": means, "Z": X[::3]}
    m = build(X, targets[likelihood], getattr(L, likelihood)(), **options)
    m.q_mu[:] = np.random.default_rng(0).normal(size=m.q_mu.shape)
    m.q_sqrt[:] = 1e-6 * m.q_sqrt.values
    f, g = m.predict_latents(X)[0].T
    if sharp:  # targets where the density is largest
        targets = {"HetGaussian": f, "LogLogisticSurvival": np.exp(f), "Beta": expit(f - g)}
        m.set_data(X, targets[likelihood])
    found = finding(m, "noise")
    if sharp:
        assert_tripped(found, "prior on the noise")
    assert found.level == ("problem" if sharp else "ok")


# ---- summary ----


def test_summary(healthy):
    pd = pytest.importorskip("pandas")
    X, y = wave(30)
    frame = pd.DataFrame({"age": X[:, 0], "dose": X[:, 0] ** 2})
    m = build(frame, y, L.HetStudentT(nu=3.5))
    m.kernels.location.lengthscale[1:].fix(2.5)
    m.set_prior("kernels.location.rbf.variance", P.LogNormal(0.0, 1.0))
    table = m.summary()
    names = [f"kernels.location.rbf.lengthscale[{name}]" for name in ("age", "dose")]
    assert [name for name in table.index if "location.rbf.length" in name] == names
    at = {name: i for i, name in enumerate(table.index)}
    assert table["value"][at[names[1]]] == 2.5
    assert list(table["fixed"][[at[names[0]], at[names[1]]]]) == [False, True]
    assert table["value"][at["likelihood.nu"]] == pytest.approx(3.5)
    assert table["constraint"][at["likelihood.nu"]] == ">1"
    assert "LogNormal" in table["prior"][at["kernels.location.rbf.variance"]]
    assert len(table) == 5 + 3 + 2 + 1  # no Z, no q
    text = str(table)
    for words in (
        "HetStudentT(location, log_scale2)",
        "30 rows, 2 inputs, 15 inducing",
        "age, dose",
    ):
        assert words in text
    assert f"{m.log_likelihood():.6g}" in text and "none" in text
    assert table.frame().loc["likelihood.nu", "value"] == pytest.approx(3.5)
    assert "converged" in str(healthy.summary())
    assert healthy.summary().index[1] == "kernels.mean.lengthscale"
    plain = build(frame.to_numpy(), y).summary()
    assert "kernels.mean.rbf.lengthscale[1]" in plain.index and "Inputs" not in str(plain)


HEAVIER = {
    "HetGaussian": "HetStudentT has heavier tails.",
    "HetGamma": "BoxCoxT has heavier tails.",
    "WeibullSurvival": "LogLogisticSurvival has heavier tails.",
    "LogLogisticSurvival": "see `censored` and `entry`.",
    "Poisson": "NegativeBinomial has heavier tails.",
    "NegativeBinomial": "",
    "HetStudentT": "",
    "BetaMeanPrecision": "",
}


@pytest.mark.parametrize("name", HEAVIER)
def test_outliers_are_answered_with_a_likelihood_of_the_same_targets(name):
    from chainedgp import likelihoods
    from chainedgp.assessment.questions.rows import _heavier

    words = _heavier(getattr(likelihoods, name)())
    assert words.endswith(HEAVIER[name]) and bool(words) == bool(HEAVIER[name])
    assert ("HetStudentT" in words) == (name == "HetGaussian")
