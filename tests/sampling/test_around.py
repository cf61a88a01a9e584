"""`m.over_hyperparameters`: against the exact posterior of hyperparameters, summed over a grid."""

import warnings

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning, InputError
from chainedgp.sampling import around, profiled

K, L, P = cgp.kernels, cgp.likelihoods, cgp.priors
NEW = np.array([[0.7], [2.5], [5.0]])


def gaussian_model(n=15):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 4.0, n))[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.4 * rng.standard_normal(n)
    m = cgp.ChainedGP(
        X, y, L.Gaussian(variance=0.2), kernels=K.RBF(1, 1.0, 1.0), Z=X,
        mean_functions=cgp.means.Constant(0.3), num_threads=1,
    )  # fmt: skip
    for part in (m.likelihood, m.mean_functions, m.Z):
        part.fix()
    m.set_prior("kernels.*variance", P.LogNormal(0.0, 1.0))
    m.set_prior("kernels.*lengthscale", P.Gamma(3.0, 2.0))
    m.optimize(messages=False)
    return m


def grid(m):
    """Means and sds of both logarithms, and of the latent at NEW, under the exact posterior."""
    u = np.linspace(-4.0, 4.0, 41)
    log_p, n = np.empty((41, 41)), len(m.X)
    f = np.empty((41, 41, 2, len(NEW)))
    r = m.Y[:, 0] - 0.3
    of_v, of_s = stats.lognorm(1.0).logpdf(np.exp(u)), stats.gamma(3.0, scale=0.5).logpdf(np.exp(u))
    for i, v in enumerate(np.exp(u)):
        for j, s in enumerate(np.exp(u)):
            C = v * np.exp(-0.5 * ((m.X - m.X.T) / s) ** 2) + 0.2 * np.eye(n)
            c = v * np.exp(-0.5 * ((m.X - NEW.T) / s) ** 2)
            solved = np.linalg.solve(C, np.column_stack([r, c]))
            log_p[i, j] = -0.5 * r @ solved[:, 0] - 0.5 * np.linalg.slogdet(C)[1]
            log_p[i, j] += of_v[i] + u[i] + of_s[j] + u[j]
            f[i, j] = 0.3 + c.T @ solved[:, 0], v - np.einsum("ij,ij->j", c, solved[:, 1:])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = np.array([p.sum(1) @ u, p.sum(0) @ u])
    sd = np.sqrt([p.sum(1) @ (u - mean[0]) ** 2, p.sum(0) @ (u - mean[1]) ** 2])
    f_mean = np.einsum("ij,ijn->n", p, f[:, :, 0])
    f_var = np.einsum("ij,ijn->n", p, f[:, :, 1] + (f[:, :, 0] - f_mean) ** 2)
    return mean, sd, f_mean, f_var


def test_it_is_the_exact_posterior_of_gaussian_noise():
    """160 weighted points: their moments have errors of about 1/sqrt(ess)."""
    m = gaussian_model()
    before = np.array(m.param_array), m.log_likelihood()
    found = m.over_hyperparameters(160)
    np.testing.assert_array_equal(m.param_array, before[0])
    assert m.log_likelihood() == before[1]
    assert found.ess > 60 and found.pareto_k < 0.7 and "160 points" in repr(found)
    mean, sd, f_mean, f_var = grid(m)
    x = np.array([point.x for point in found.points])
    np.testing.assert_allclose(found.weights @ x, mean, atol=0.2 * sd.min())
    spread = np.sqrt(found.weights @ (x - found.weights @ x) ** 2)
    np.testing.assert_allclose(spread, sd, rtol=0.15)
    got_mean, got_var = found.predict_latents(NEW)
    np.testing.assert_allclose(got_mean[:, 0], f_mean, atol=0.1 * np.sqrt(f_var.min()))
    np.testing.assert_allclose(got_var[:, 0], f_var, rtol=0.1)
    alone = m.predict_latents(NEW)[1][:, 0]
    assert (np.abs(alone / f_var - 1.0) > 0.12).any()  # the best hyperparameters alone would fail


def test_no_weights_or_no_jacobian_would_be_seen(monkeypatch):
    m = gaussian_model()
    mean, sd, *_ = grid(m)
    monkeypatch.setattr(profiled, "jacobian_leaves", lambda problem: set())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        found = m.over_hyperparameters(160)
    x = np.array([point.x for point in found.points])
    assert (np.abs(found.weights @ x - mean) > 0.2 * sd.min()).any()


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_wider_than_the_fit_alone_for_two_latents(posterior):
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0.0, 4.0, 30))[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(30)
    lik = L.HetStudentT()
    m = cgp.ChainedGP(X, y, lik, num_inducing=8, num_threads=1, posterior=posterior)
    m.optimize(messages=False)
    m.hyperparameters = "fixed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        found = m.over_hyperparameters(12)
        same = m.over_hyperparameters(12, rng=0)
    np.testing.assert_array_equal(found.weights, same.weights)
    assert found.weights.sum() == pytest.approx(1.0) and (found.weights >= 0).all()
    assert (found.predict_latents(X)[1].mean(0) > m.predict_latents(X)[1].mean(0)).all()
    low, high = found.predict_quantiles(X[:4])
    assert (low < high).all()


def test_nothing_free_is_the_model_itself():
    m = gaussian_model()
    m.kernels.fix()
    found = m.over_hyperparameters()
    assert len(found.points) == 1
    np.testing.assert_allclose(found.predict(NEW)[0], m.predict(NEW)[0], rtol=1e-5)
    np.testing.assert_allclose(found.predict(NEW)[1], m.predict(NEW)[1], rtol=1e-5)


@pytest.mark.parametrize("bad", [{"size": 0}, {"size": 5}, {"rng": "a"}])
def test_bad_arguments_are_named(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        gaussian_model(8).over_hyperparameters(**bad)


def test_a_posterior_far_from_a_gaussian_is_told(monkeypatch):
    monkeypatch.setattr(around, "HIGH_K", -np.inf)
    monkeypatch.setattr(around, "WORTH", 2.0)
    with pytest.warns(ChainedGPWarning, match=r"not near a Gaussian.*m\.sample"):
        gaussian_model(8).over_hyperparameters(10)


@pytest.mark.parametrize("name", ["AdditivePoisson", "HetGaussian"])
def test_each_q_is_widened_by_its_linear_response_as_in_the_bands_of_a_fit(name, monkeypatch):
    """With nothing free the average is the model. Targets of a bent posterior are left to q."""
    X = np.linspace(0.0, 4.0, 25)[:, None]
    lik, latents = getattr(L, name)(), (2.0 + np.sin(2.0 * X[:, 0]), 2.0 + np.cos(X[:, 0]))
    y = lik.sample(np.random.default_rng(0), *latents, **lik.parameter_values())
    m = cgp.ChainedGP(
        X, y, lik, kernels=[K.RBF(1, 1.0, 0.7), K.RBF(1, 1.0, 1.5)], num_inducing=10,
        num_threads=1, hyperparameters="uncertain",
    )  # fmt: skip
    for part in (m.kernels, m.mean_functions, m.likelihood, m.Z):
        part.fix()
    m.optimize(messages=False)
    found, grid = m.over_hyperparameters(), np.arange(9.0)
    wide = m.predict_latents(NEW)[1]
    np.testing.assert_allclose(found.predict_latents(NEW)[1], wide, rtol=1e-3)
    for key, band in m.predictive(NEW).parameters((5, 95)).items():
        np.testing.assert_allclose(found.predictive(NEW).parameters((5, 95))[key], band, rtol=0.05)
    density = m.predictive(NEW).pdf(grid)
    np.testing.assert_allclose(found.predictive(NEW).pdf(grid), density, rtol=1e-3)
    assert (found.points[0].q_targets is None) == (name == "HetGaussian")
    m.hyperparameters = "fixed"
    monkeypatch.setattr("chainedgp.model.chained_gp.FEW_ROWS", 24)
    narrow = m.predict_latents(NEW)[1]
    np.testing.assert_allclose(m.over_hyperparameters().predict_latents(NEW)[1], narrow, rtol=1e-3)
    assert (wide > narrow).all() and (wide > 1.01 * narrow).any()
    same = np.allclose(m.predictive(NEW).pdf(grid), density, rtol=1e-6)
    assert same == (name == "AdditivePoisson")


def test_the_response_of_the_fit_is_nearly_that_of_other_points(monkeypatch):
    """Where a posterior is not bent it is taken along; found anew at every point, it is that."""
    X = np.linspace(0.0, 4.0, 30)[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(30)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=8, num_threads=1)
    m.optimize(messages=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        taken = m.over_hyperparameters(10)
        monkeypatch.setattr(around, "suits_targets", lambda problem, roots: False)
        anew = m.over_hyperparameters(10)
        known = iter([around.response(m.problem)])  # at the fit, and at no other point
        monkeypatch.setattr(around, "response", lambda problem: next(known, None))
        narrow = m.over_hyperparameters(10)
        monkeypatch.setattr(around, "response", lambda problem: None)
        alone = m.over_hyperparameters(10).predict_latents(NEW)[1]
    added = taken.predict_latents(NEW)[1] - alone
    assert (added > 0.0).all() and (added > 0.01 * alone).any()
    np.testing.assert_allclose(added, anew.predict_latents(NEW)[1] - alone, atol=0.02 * alone.max())
    assert taken.points[0].q_targets is None and anew.points[0].q_targets is not None
    np.testing.assert_allclose(narrow.predict_latents(NEW)[1], alone, rtol=1e-6)
    for found in (anew, narrow):
        low, high = np.moveaxis(found.predictive(NEW).parameters((5, 95))["variance"], 1, 0)
        assert (low < high).all() and np.isfinite(found.predict_quantiles(NEW)).all()
