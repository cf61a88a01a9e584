"""Posteriors of latents at given hyperparameters: against long MCMC and the best Gaussians."""

import importlib.util
import json

import numpy as np
import pytest
from mcmc import TRUTH, fitted, model_of
from paths import ROOT, STORED

import chainedgp as cgp

FAMILIES = json.loads((STORED / "families.json").read_text("utf-8"))
SEARCHED = [name for name, case in TRUTH.items() if "q_mean" in case]
CLOSE = ("HetGaussian", "HetStudentT", "LogLogisticSurvival")  # where the mean field is near
BARS = {name: (0.05, 0.93) for name in TRUTH} | {
    "AdditivePoisson": (0.4, 0.44),  # 0.447: one rate takes what the other gives, a bent ridge
    "HetProbit": (0.12, 0.68),  # a row says no more than a sign: the posterior is skew
    "LogNormalSurvival": (0.05, 0.91),  # skew where rows are censored
    "WeibullSurvival": (0.05, 0.89),
    "SignalNoiseGaussian": (0.25, 0.4),  # signal and scale are known by their product
    "HetStudentTNu": (0.08, 0.9),
}
"""The largest error of a mean, in sd, and the least ratio of sds that the joint q may have."""
SLOW = [name for name in TRUTH if name not in ("HetGaussian", "Beta", "AdditivePoisson", "Softmax")]


def load(name):
    path = ROOT / f"benchmarks/{name}.py"
    if not path.exists():
        pytest.skip("the script is in the source checkout only")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return load("mcmc_reference")


@pytest.fixture(scope="module")
def families():
    return load("families_against_mcmc")


def test_the_page_shows_the_files(script, families):
    page = ROOT / "docs/inference_truth.md"
    if not page.exists():
        pytest.skip("the page is in the source checkout only")
    text = page.read_text("utf-8")
    assert script.table(TRUTH) in text
    assert families.table(FAMILIES) in text


def test_coupled_is_what_was_measured(families):
    """The declaration of each likelihood, and the family that a model takes by itself."""
    assert set(FAMILIES) == set(TRUTH)
    for name, found in FAMILIES.items():
        lik = families.make(name)
        assert lik.coupled is families.coupled(found), name
        b = len(lik.latents)
        X, y = np.linspace(0, 1, 8)[:, None], lik.target_support.examples(np.linspace(-1, 1, 8))
        model = cgp.ChainedGP(X, y, lik, num_inducing=4, num_threads=1)
        assert model.posterior == ("joint" if lik.coupled and b > 1 else "mean_field"), name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TRUTH]
)
def test_the_joint_q_is_near_the_posterior(families, name):
    largest, least = BARS[name]
    found = families.distance(name, TRUTH[name], "joint")
    assert max(found["error"]) <= largest
    assert min(found["least"]) >= least
    assert found["bound"] == pytest.approx(FAMILIES[name]["joint"]["bound"], abs=2e-3)
    assert found["bound"] >= FAMILIES[name]["mean_field"]["bound"]  # the family is larger
    wide = families.distance(name, TRUTH[name], "widened")
    for key in ("least", "median"):
        np.testing.assert_allclose(wide[key], FAMILIES[name]["widened"][key], atol=0.01)


def moments(m):
    """Means and standard deviations (2, n) at the rows."""
    mean, variance = m.predict_latents(m.X)
    return mean.T, np.sqrt(variance.T)


def distances(name, likelihood=None):
    """Of each latent: median and largest error of means in posterior sds, least ratio of sds."""
    mean, sd = moments(model_of(name, likelihood))
    true_mean, true_sd = np.array(TRUTH[name]["mean"]), np.array(TRUTH[name]["sd"])
    error = np.abs(mean - true_mean) / true_sd
    return np.median(error, axis=1), error.max(axis=1), (sd / true_sd).min(axis=1)


@pytest.mark.parametrize("name", CLOSE)
def test_near_the_posterior(name):
    median, largest, ratio = distances(name)
    assert (median <= 0.15).all()
    assert (largest <= 0.3).all()
    assert (ratio >= 0.85).all()


def test_another_noise_model_is_rejected():
    median, largest, _ = distances("HetStudentT", "HetGaussian")
    assert (median > 0.15).any() and (largest > 0.3).all()


@pytest.mark.parametrize("name", SEARCHED)
def test_q_is_the_best_mean_field(name):
    """Found by L-BFGS over means and Cholesky factors, with the expectation by a dense grid."""
    m = model_of(name)
    mean, sd = moments(m)
    q_mean, q_sd = np.array(TRUTH[name]["q_mean"]), np.array(TRUTH[name]["q_sd"])
    np.testing.assert_allclose((mean - q_mean) / q_sd, 0.0, atol=2e-3)
    np.testing.assert_allclose(sd, q_sd, rtol=2e-3)
    assert m.log_likelihood() == pytest.approx(max(TRUTH[name]["bounds"]), abs=1e-4)


@pytest.mark.parametrize("name", ["Beta", "AdditivePoisson"])
def test_the_best_mean_field_of_other_data(script, name):
    """The search of the script here and now, on few rows."""
    case = script.CASES[name]
    problem = script.Problem(case, seed=5, n=10)
    field = script.MeanField(problem)
    prior_sd = np.tile([[sd] for _, sd, _ in case.latents], (1, 10))
    prior_mean = np.tile(problem.means[:, None], (1, 10))
    bound, q_mean, q_sd = field.optimum(prior_mean, prior_sd)
    m = fitted(name, case.latents, problem.x, problem.y, problem.censored)
    mean, sd = moments(m)
    np.testing.assert_allclose((mean - q_mean) / q_sd, 0.0, atol=1e-3)
    np.testing.assert_allclose(sd, q_sd, rtol=1e-3)
    assert m.log_likelihood() == pytest.approx(bound, abs=1e-5)


@pytest.mark.parametrize("name", ["Beta", "AdditivePoisson"])
def test_the_best_joint_gaussian(script, name):
    """All means and a whole Cholesky factor by L-BFGS, the expectation by a dense grid."""
    case = script.CASES[name]
    problem = script.Problem(case, seed=5, n=8)
    bound, q_mean, V = script.JointGaussian(problem).optimum()
    q_sd = np.sqrt(np.einsum("jjn->jn", V))
    args = name, case.latents, problem.x, problem.y, problem.censored
    m = fitted(*args, posterior="joint")
    mean, sd = moments(m)
    np.testing.assert_allclose((mean - q_mean) / q_sd, 0.0, atol=1e-3)
    np.testing.assert_allclose(sd, q_sd, rtol=1e-3)
    assert m.log_likelihood() == pytest.approx(bound, abs=1e-5)
    factorised = fitted(*args)
    assert factorised.log_likelihood() < bound - 1e-3
    assert (np.abs(moments(factorised)[1] / q_sd - 1.0) > 0.01).any()


def test_the_file_is_that_of_the_script(script):
    assert set(TRUTH) == set(script.CASES)
    for name, case in TRUTH.items():
        problem = script.Problem(script.CASES[name], seed=0)
        # a draw through a Cholesky factor: processors round it differently
        np.testing.assert_allclose(problem.y, case["y"], rtol=1e-6)
        assert len(case["y"]) == 80
        if name != "SignalNoiseGaussian":  # whose signal and scale trade too slowly
            assert case["rhat"] < 1.01 and case["ess"] > 5000, name  # the chains have met


def test_the_chains_find_a_known_posterior(script):
    """Gaussian noise of constant variance: the posterior of f is Gaussian, in closed form."""
    case = script.Case(
        ((0.2, 1.0, 0.3), (-1.0, 1e-6, 1.0)),
        script.gaussian,
        lambda rng, f, g: f + np.exp(0.5 * g) * rng.standard_normal(f.size),
    )
    problem = script.Problem(case, seed=3, n=12)
    chains = script.Chains(problem, seed=4)
    chains.warm_up((60, 60))
    f = chains.draw(150)[0].reshape(12, -1).astype(float)
    K = problem.roots[0] @ problem.roots[0].T
    gain = K @ np.linalg.inv(K + np.exp(-1.0) * np.eye(12))
    cov = K - gain @ K
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(f.mean(axis=1), 0.2 + gain @ (problem.y - 0.2), atol=0.08 * sd.max())
    np.testing.assert_allclose(f.std(axis=1), sd, rtol=0.06)


@pytest.mark.slow
def test_calibration_on_simulated_sets(script, monkeypatch):
    """Ranks of true latents among draws of q are uniform, but for standard deviations too small."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import simulation_based_calibration as sbc

    for name in sbc.NAMES:
        found = [sbc.one_set(name, seed, chains=False) for seed in range(100)]
        for j in range(2):
            columns = sbc.summary(found, j)
            assert 0.88 < columns["z"] < 1.2
            assert columns["scaled"] > 1e-3
        wrong = [row | {"z": (np.array(row["z"]) + 0.5).tolist()} for row in found]
        assert sbc.summary(wrong, 0)["scaled"] < 1e-3  # a shift of half a sd would be seen
