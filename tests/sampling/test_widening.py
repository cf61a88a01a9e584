"""Bands that include the uncertainty of hyperparameters: an exact GP, and what they meet."""

import pickle

import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp.errors import InputError, UnfittedWarning
from chainedgp.sampling import widening
from chainedgp.sampling.response import response

K, L, P = cgp.kernels, cgp.likelihoods, cgp.priors
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 4.0, 40))[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(40)
NEW = np.linspace(0.2, 3.8, 9)[:, None]


@pytest.fixture(scope="module")
def fitted():
    """A default fit of two latents; tests that change it take a copy."""
    m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_threads=1)
    m.optimize(messages=False)
    return m


@pytest.fixture(scope="module")
def joint():
    """A default fit whose posterior has correlations between the latents."""
    p = 1.0 / (1.0 + np.exp(-Y))
    m = cgp.ChainedGP(X, p, L.Beta(), num_threads=1)
    m.optimize(messages=False)
    assert m.posterior == "joint"
    return m


def log_posterior(u, mean):
    """The logarithm of the marginal likelihood times the priors of the logarithms u, exactly."""
    v, s, noise = np.exp(u)
    C = v * np.exp(-0.5 * ((X - X.T) / s) ** 2) + noise * np.eye(40)
    r = Y - mean
    return -0.5 * (r @ np.linalg.solve(C, r) + np.linalg.slogdet(C)[1]) - 0.5 * (u @ u)


def posterior_mean(u, mean):
    """The posterior mean of the function at X."""
    v, s, noise = np.exp(u)
    G = v * np.exp(-0.5 * ((X - X.T) / s) ** 2)
    return mean + G @ np.linalg.solve(G + noise * np.eye(40), Y - mean)


def test_it_is_the_delta_method_of_an_exact_gaussian_process(monkeypatch):
    """J C Cᵀ Jᵀ at the rows, from differences of closed forms that know nothing of inducing inputs.

    The steps and tolerances of the library are made small, so that both take the same limit.
    """
    m = cgp.ChainedGP(
        X, Y, L.Gaussian(variance=0.1), kernels=K.RBF(1), Z=X, num_threads=1,
        mean_functions=cgp.means.Constant(0.3), hyperparameters="uncertain",
    )  # fmt: skip
    m.mean_functions.fix()
    m.Z.fix()
    for name in ("kernels.*variance", "kernels.*lengthscale", "likelihood.*variance"):
        m.set_prior(name, P.LogNormal(0.0, 1.0))
    for name, value in {"STEP": 1e-3, "TOLERANCE": 1e-10, "RIDGE": 1e-9}.items():
        monkeypatch.setattr(widening, name, value)
    m.optimize(messages=False, tolerance=1e-7)
    kernel = m.kernels[0]
    u = np.log(
        [float(kernel.variance[0]), float(kernel.lengthscale[0]), float(m.likelihood.variance[0])]
    )
    eye, h = np.eye(3), 1e-3
    J = np.stack(
        [(posterior_mean(u + h * e, 0.3) - posterior_mean(u - h * e, 0.3)) / (2 * h) for e in eye]
    )
    H = np.empty((3, 3))
    for i, a in enumerate(eye):
        for j, b in enumerate(eye):
            corners = [
                s * t * log_posterior(u + h * (s * a + t * b), 0.3)
                for s in (1, -1)
                for t in (1, -1)
            ]
            H[i, j] = sum(corners) / (4 * h * h)
    expected = np.einsum("in,ij,jn->n", J, np.linalg.inv(-H), J)
    wide = m.predict_latents(X)[1][:, 0]
    m.hyperparameters = "fixed"
    found = wide - m.predict_latents(X)[1][:, 0]
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=1e-3 * expected.max())


def test_default_bands_are_wider_than_at_fixed_hyperparameters(fitted):
    m = fitted.copy()
    mean, wide = m.predict_latents(NEW)
    m.hyperparameters = "fixed"
    same, narrow = m.predict_latents(NEW)
    np.testing.assert_array_equal(mean, same)
    assert (wide >= narrow).all() and (wide > 1.01 * narrow).any(0).all()
    assert "Bands" not in m.summary().title
    m.hyperparameters = "auto"
    assert "include the uncertainty of the hyperparameters" in m.summary().title["Bands"]
    np.testing.assert_array_equal(m.predict_latents(NEW)[1], wide)


def test_the_bound_its_gradient_and_leave_one_out_see_q_alone(fitted):
    m = fitted.copy()
    seen = m.log_likelihood(), m.objective_function_gradients(), m.loo().elpd
    m.hyperparameters = "fixed"
    assert seen[0] == m.log_likelihood() and seen[2] == m.loo().elpd
    np.testing.assert_array_equal(seen[1], m.objective_function_gradients())


@pytest.mark.parametrize("unit", [1e-7, 1e7])
def test_the_unit_of_targets_is_nothing(fitted, unit):
    m = cgp.ChainedGP(X, unit * Y, L.HetGaussian(), num_threads=1)
    m.optimize(messages=False)
    found = np.sqrt(m.predict_latents(NEW)[1]) / [unit, 1.0]
    np.testing.assert_allclose(found, np.sqrt(fitted.predict_latents(NEW)[1]), rtol=0.01)


@pytest.mark.parametrize("options", [{"priors": None}, {"kernels": K.RBF(1)}], ids=str)
def test_models_without_default_priors_are_left_as_they_are(options):
    m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_threads=1, num_inducing=10, **options)
    m.optimize(messages=False)
    assert m.hyperparameters == "fixed" and m._widening is None
    m.hyperparameters = "auto"
    assert m.hyperparameters == "fixed"


def test_many_rows_are_taken_as_telling(monkeypatch):
    monkeypatch.setattr("chainedgp.model.chained_gp.FEW_ROWS", 39)
    m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_threads=1, num_inducing=10)
    m.optimize(messages=False)
    assert m._widening is None
    m.hyperparameters = "uncertain"
    m.optimize(messages=False)
    assert m._widening is not None


def test_a_change_of_hyperparameters_takes_it_back(fitted):
    m = fitted.copy()
    m.kernels[0].lengthscale[:] = 2.0 * m.kernels[0].lengthscale
    with pytest.warns(UnfittedWarning, match="parameters were set after the fit"):
        found = m.predict_latents(NEW)[1]
    m.hyperparameters = "fixed"
    np.testing.assert_array_equal(found, m.predict_latents(NEW)[1])


def test_another_choice_is_refused():
    with pytest.raises(InputError, match="hyperparameters"):
        cgp.ChainedGP(X, Y, L.Gaussian(), hyperparameters="averaged")


@pytest.mark.parametrize("which", ["fitted", "joint"])
@pytest.mark.parametrize("data", [True, False])
def test_files_copies_and_pickles_keep_it(which, data, tmp_path, request):
    m = request.getfixturevalue(which)
    m.save(tmp_path / "model.cgp", data=data)
    wanted = m.predict_latents(NEW, cross_cov=True)
    for other in (cgp.load(tmp_path / "model.cgp"), m.copy(), pickle.loads(pickle.dumps(m))):
        for a, b in zip(wanted, other.predict_latents(NEW, cross_cov=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_new_rows_keep_it(fitted):
    m = fitted.copy()
    m.update(NEW[:2], np.sin(2.0 * NEW[:2, 0]))
    wide = m.predict_latents(NEW)[1]
    m.hyperparameters = "fixed"
    assert (wide > m.predict_latents(NEW)[1]).any()


@pytest.mark.parametrize("which", ["fitted", "joint"])
def test_every_kind_of_covariance_and_draws_agree(which, request):
    m = request.getfixturevalue(which)
    variance = m.predict_latents(NEW)[1]
    full = m.predict_latents(NEW, full_cov=True)[1]
    np.testing.assert_allclose(np.einsum("bnn->nb", full), variance, rtol=1e-9)
    both = m.predict_latents(NEW, full_cov=True, cross_cov=True)[1]
    cross = m.predict_latents(NEW, cross_cov=True)[1]
    np.testing.assert_allclose(np.einsum("ijnn->nij", both), cross, rtol=1e-9, atol=1e-12)
    draws = m.posterior_samples_f(NEW, 4000, 0)
    np.testing.assert_allclose(draws.var(2), variance, rtol=0.15)
    C = np.cov(draws[4])
    np.testing.assert_allclose(C[0, 1], cross[4, 0, 1], atol=0.1 * np.sqrt(C[0, 0] * C[1, 1]))


def test_ctrl_c_after_the_fit_keeps_the_fit(monkeypatch):
    def interrupted(problem):
        raise KeyboardInterrupt

    monkeypatch.setattr("chainedgp.model.chained_gp.widening_of", interrupted)
    m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_threads=1, num_inducing=10)
    result = m.optimize(messages=False)
    assert result.converged and any("bands" in text for text in result.warnings)
    assert m._widening is None


def test_a_bound_that_cannot_be_evaluated_around_the_fit_leaves_the_response_of_q(
    fitted, monkeypatch
):
    m = fitted.copy()
    monkeypatch.setattr(widening.LogPosterior, "value", lambda self, x: -np.inf)
    m._widen()
    for found, alone in zip(m._widening.roots, response(m.problem), strict=True):
        np.testing.assert_array_equal(found, alone)
    assert np.isfinite(m.predict_latents(NEW)[1]).all()
    monkeypatch.setattr(widening, "response", lambda problem: None)
    m._widen()
    assert m._widening is None


def test_the_bound_is_known_after_a_fit():
    """Copies that the widening takes must not make a model say that it was changed."""
    m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_threads=1, num_inducing=10)
    m.optimize(messages=False)
    assert m._widening is not None and "before the last change" not in str(m)


# ---- what it meets ----

BASE = 1.0 + Y - Y.min()  # positive targets
AT_RISK = {"entry": 0.3 * BASE, "censored": (np.arange(40) % 4 == 0).astype(float)}
FRAME = pd.DataFrame({"time": X[:, 0], "site": np.array(["a", "b"])[np.arange(40) % 2]})
MEETINGS = {
    "weights": (X, Y, L.HetGaussian, {"weights": 1.0 + np.arange(40) % 2}),
    "censoring and truncation": (X, BASE, L.LogLogisticSurvival, AT_RISK),
    "a constant latent": (X, Y, lambda: L.HetGaussian().with_constant("log_variance"), None),
    "point masses": (X, np.round(BASE), lambda: L.Inflated(L.Poisson(), 0.0), None),
    "rounding": (X, np.round(Y, 1), lambda: L.Rounded(L.HetGaussian(), 0.1), None),
    "exposure": (X, np.round(BASE), L.Poisson, {"exposure": 1.0 + np.arange(40) % 3}),
    "a frame with levels": (FRAME, Y, L.HetGaussian, None),
}


@pytest.mark.parametrize("meeting", MEETINGS)
def test_it_widens_whatever_the_model_is_made_of(meeting, tmp_path):
    inputs, y, make, metadata = MEETINGS[meeting]
    m = cgp.ChainedGP(inputs, y, make(), Y_metadata=metadata, num_inducing=6, num_threads=1)
    m.optimize(messages=False)
    wide = m.predict_latents(inputs)[1]
    m.save(tmp_path / "model.cgp")
    np.testing.assert_allclose(cgp.load(tmp_path / "model.cgp").predict_latents(inputs)[1], wide)
    m.hyperparameters = "fixed"
    narrow = m.predict_latents(inputs)[1]
    assert np.isfinite(wide).all() and (wide >= narrow).all() and (wide > 1.001 * narrow).any()


@pytest.mark.parametrize("how", [{"method": "lbfgsb"}, {"batch_size": 10, "epochs": 20}], ids=str)
def test_every_method_widens_as_the_default_one_does(how, fitted):
    m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_threads=1)
    m.optimize(messages=False, **how)
    added = []
    for model in (m, fitted.copy()):
        wide = model.predict_latents(NEW)[1]
        model.hyperparameters = "fixed"
        added.append(wide / model.predict_latents(NEW)[1])
    np.testing.assert_allclose(*added, rtol=0.05)
    m.kernels[0].variance[:] *= 2.0
    with pytest.warns(UnfittedWarning, match="parameters were set after the fit"):
        m.predict_latents(NEW)


def test_a_row_of_weight_two_is_two_rows():
    twice = np.repeat(np.arange(40), 1 + np.arange(40) % 2)
    weighted = {"weights": 1.0 + np.arange(40) % 2}
    found = []
    for rows, metadata in ((np.arange(40), weighted), (twice, None)):
        m = cgp.ChainedGP(
            X[rows], Y[rows], L.HetGaussian(), Y_metadata=metadata, Z=X[::5], ties=None,
            num_threads=1,
        )  # fmt: skip
        m.Z.fix()
        m.optimize(messages=False, tolerance=1e-8)
        found.append(m.predict_latents(NEW)[1])
    np.testing.assert_allclose(*found, rtol=0.02)


def test_blocks_of_a_dask_array_are_predicted_alike(fitted):
    da = pytest.importorskip("dask.array")
    found = fitted.predict_latents(da.from_array(NEW, chunks=(4, 1)))[1]
    np.testing.assert_allclose(np.asarray(found), fitted.predict_latents(NEW)[1], rtol=1e-10)


def test_rows_on_a_cluster_are_refused_before_any_work():
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(10, 1)), da.from_array(Y, chunks=10)
    with pytest.raises(InputError, match="cluster"):
        cgp.ChainedGP(*rows, L.HetGaussian(), hyperparameters="uncertain")


def test_estimators_widen_too():
    sklearn = pytest.importorskip("chainedgp.sklearn")
    estimator = sklearn.ChainedGPRegressor(num_inducing=8, num_threads=1).fit(X, Y)
    wide = estimator.model_.predict_latents(NEW)[1]
    estimator.model_.hyperparameters = "fixed"
    assert (wide > estimator.model_.predict_latents(NEW)[1]).any()


# ---- what targets see ----


@pytest.fixture(scope="module")
def rates():
    """Counts of two rates: one may make up for the other, and neither is known."""
    counts = RNG.poisson(np.exp(1.0 + np.sin(2.0 * X[:, 0])) + 4.0).astype(float)
    m = cgp.ChainedGP(X, counts, L.AdditivePoisson(), num_threads=1, num_inducing=12)
    m.optimize(messages=False)
    return m


def test_targets_of_a_bent_posterior_are_predicted_by_q(rates, tmp_path):
    """Bands of rates stay wide; a file, a copy and blocks of rows keep both."""
    da = pytest.importorskip("dask.array")
    m = rates.copy()
    assert not m._widening.of_targets and "predicted by q" in m.summary().title["Targets"]
    m.save(tmp_path / "model.cgp")
    variance, density = m.predict_latents(NEW)[1], m.predictive(NEW).pdf(np.arange(9.0))
    bands = m.predictive(NEW).parameters((5, 95))["rate_1"]
    for other in (cgp.load(tmp_path / "model.cgp"), m.copy(), pickle.loads(pickle.dumps(m))):
        np.testing.assert_allclose(other.predict_latents(NEW)[1], variance, rtol=1e-12)
        np.testing.assert_allclose(other.predictive(NEW).pdf(np.arange(9.0)), density, rtol=1e-9)
    blocks = m.predict(da.from_array(NEW, chunks=(4, 1)))[1]
    np.testing.assert_allclose(np.asarray(blocks), m.predict(NEW)[1], rtol=1e-9)
    m.hyperparameters = "fixed"
    assert (m.predict_latents(NEW)[1] < variance).all()
    np.testing.assert_array_equal(m.predictive(NEW).pdf(np.arange(9.0)), density)
    own = m.predictive(NEW).parameters((5, 95))["rate_1"]
    assert (bands[:, 1] - bands[:, 0] > own[:, 1] - own[:, 0]).all()


def test_wide_latents_suit_targets_where_a_gaussian_does(fitted, joint, rates):
    """Noise and shares lose by width what a Gaussian posterior would; added rates much more."""
    for m, of_targets in ((fitted, True), (joint, True), (rates, False)):
        roots = m._widening.roots
        assert widening.suits_targets(m.problem, roots) is of_targets
        assert widening.suits_targets(m.problem, [1e-3 * root for root in roots])
    exact = cgp.ChainedGP(X, Y, L.Gaussian(), num_threads=1, num_inducing=8)
    exact.optimize(messages=False)
    assert widening.suits_targets(exact.problem, [10.0 * np.eye(8)])  # E log p is linear in V


def test_targets_of_a_bent_posterior_would_be_worse_by_the_wider_one(rates):
    m = rates.copy()
    plain = m.log_predictive_density(X, m.Y).mean()
    m._widening = widening.Widening.at(m._parts, m._widening.roots)
    assert m.log_predictive_density(X, m.Y).mean() < plain - 0.005


def test_targets_are_predicted_by_q_if_constants_alone_make_latents_uncertain():
    """The level of a latent and the cut-points of classes are uncertain together, classes not."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-3.0, 3.0, (120, 1))
    y = np.digitize(2.0 * np.sin(X[:, 0]) + rng.logistic(size=120), [-1.0, 1.0]).astype(float)
    likelihood = cgp.likelihoods.Ordinal(3)
    m = cgp.ChainedGP(X, y, likelihood, num_inducing=12)
    m.optimize()
    found = widening.widening_of(m.problem)
    assert found.constants is not None and not found.of_targets
    assert widening.suits_targets(m.problem, found.roots)
    fixed = cgp.ChainedGP(X, y, likelihood.copy(), num_inducing=12, hyperparameters="fixed")
    fixed.optimize()
    np.testing.assert_allclose(m.predict_proba(X), fixed.predict_proba(X), atol=1e-3)
    share = y == np.arange(3)[:, None]
    np.testing.assert_allclose(m.predict_proba(X).mean(0), share.mean(1), atol=0.03)
