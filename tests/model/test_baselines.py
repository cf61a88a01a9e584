"""The Laplace approximation and the collapsed heteroscedastic bound."""

import pickle

import numpy as np
import pandas as pd
import pytest
from paths import ROOT
from scipy import integrate, optimize, stats

import chainedgp as cgp
from chainedgp import ChainedGP, kernels, likelihoods, means
from chainedgp.baselines import LaplaceGP, collapsed_bound
from chainedgp.errors import InputError


def make(likelihood, n=40, **settings):
    """A model with outliers (real targets) or censoring (positive ones); unequal parameters."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    y, metadata = f + 0.2 * rng.standard_t(2.0, n), None
    if likelihood.support == "positive":
        y, metadata = np.exp(f + 0.5 * rng.logistic(size=n)), {"censored": np.arange(n) % 4 == 0}
    kernel = kernels.RBF(2, 1.3, [0.9, 1.4], ARD=True) + kernels.Bias(2, 0.3)
    return LaplaceGP(X, y, likelihood, kernel, means.Constant(0.2), metadata, **settings)


LIKELIHOODS = {
    "StudentT": lambda: likelihoods.StudentT(nu=3.0, log_scale2=-2.5),
    "LogLogistic": lambda: likelihoods.LogLogistic(log_shape=0.6),
    "Gaussian": lambda: likelihoods.Gaussian(0.2),
    "Poisson": likelihoods.Poisson,
}


@pytest.mark.parametrize("name", ["StudentT", "LogLogistic", "Gaussian"])
def test_gradient(name):
    """All parameters, implicit terms included, against central differences of log q(y)."""
    model = make(LIKELIHOODS[name]())
    slope = -model.objective_function_gradients()
    values = np.array(model.param_array)

    def value(k, step):
        leaf, entry = where[k]
        kept = np.array(leaf.values)
        changed = kept.ravel().copy()
        changed[entry] += step
        leaf[:] = changed.reshape(leaf.shape)
        result = model.log_likelihood()
        leaf[:] = kept
        return result

    where = [(leaf, e) for leaf in model.flattened_parameters for e in range(leaf.size)]
    numeric = [(value(k, 1e-5) - value(k, -1e-5)) / 2e-5 for k in range(values.size)]
    np.testing.assert_allclose(slope, numeric, rtol=2e-6, atol=2e-6)
    assert len(numeric) == 5 + len(model.likelihood.parameter_keys)


def test_gaussian_noise_is_exact():
    model = make(LIKELIHOODS["Gaussian"](), jitter=1e-12)
    X, y = model.X, model._data.y
    C = model.kernels[0].K(X) + 0.2 * np.eye(y.size)
    mean = np.full(y.size, 0.2)
    expected = stats.multivariate_normal(mean, C).logpdf(y)
    assert model.log_likelihood() == pytest.approx(expected, abs=1e-7)
    new = np.array([[0.3, -0.4], [5.0, 5.0]])
    cross = model.kernels[0].K(X, new)
    f, v = model.predict_latents(new)
    np.testing.assert_allclose(f[:, 0], 0.2 + cross.T @ np.linalg.solve(C, y - 0.2), atol=1e-7)
    lost = np.einsum("ij,ij->j", cross, np.linalg.solve(C, cross))
    np.testing.assert_allclose(v[:, 0], 1.6 - lost, atol=1e-7)


def test_mode_is_a_maximum_where_the_curvature_is_negative():
    """Against a general optimiser, on rows far out in the tail of a t."""
    model = make(LIKELIHOODS["StudentT"]())
    mode = model._mode()
    assert (mode.W < 0.0).any() and (mode.W > 0.0).any()
    L, y = mode.prior.L, model._data.y

    def negative(v):
        f = 0.2 + L @ v
        scale = np.exp(-1.25)
        return 0.5 * v @ v - stats.t.logpdf(y, 3.0, f, scale).sum()

    found = optimize.minimize(negative, mode.v + 0.01, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(0.2 + L @ found.x, mode.f, atol=1e-5)
    assert mode.objective == pytest.approx(-found.fun, abs=1e-9)
    B = np.eye(y.size) + L.T @ (mode.W[:, None] * L)
    assert np.linalg.eigvalsh(B).min() > 0.0
    assert mode.log_det == pytest.approx(np.linalg.slogdet(B)[1], abs=1e-9)


def test_one_row_against_the_integral():
    """For a single row and a narrow prior the approximation is the marginal likelihood."""
    kernel = kernels.RBF(1, 0.01)
    model = LaplaceGP([[0.0]], [2.0], likelihoods.Poisson(), kernel, means.Constant(0.5))
    exact, _ = integrate.quad(
        lambda f: stats.poisson.pmf(2, np.exp(f)) * stats.norm.pdf(f, 0.5, 0.1), -1.0, 2.0
    )
    assert model.log_likelihood() == pytest.approx(np.log(exact), abs=1e-4)


@pytest.mark.parametrize("name", ["StudentT", "LogLogistic"])
def test_fit_and_prediction(name):
    model = make(LIKELIHOODS[name]())
    before = model.log_likelihood()
    result = model.optimize(messages=False)
    assert result.converged and result.bound > before + 1.0
    free = -model.objective_function_gradients()
    logs = free[:4] * model.param_array[:4]  # kernel parameters are positive
    assert np.abs(logs).max() < 0.3
    # the predictive machinery: a density that integrates to 1, with the latents' moments
    distribution = model.predictive(model.X[:2])
    low = 0.0 if model.likelihood.support == "positive" else -np.inf
    for row in range(2):
        mass, _ = integrate.quad(
            lambda y, row=row: float(distribution.pdf(np.array([y]))[row, 0]),
            low,
            np.inf,
            limit=200,
        )
        assert mass == pytest.approx(1.0, abs=2e-4)
    rows = model._data
    assert np.isfinite(model.log_predictive_density(rows.X, rows.y, rows.metadata)).all()


def test_cross_validation_takes_it():
    X, y = cgp.datasets.corrupted_motorcycle("figure", 0)[:2]
    table = cgp.cross_validate(
        lambda X, Y: LaplaceGP(X, Y, likelihoods.StudentT()),
        X,
        y,
        2,
        fit=lambda model: model.optimize(messages=False),
        messages=False,
    )
    assert 1.0 < table.columns["nlpd"].mean() < 2.0


def test_refusals():
    X, y = np.arange(5.0), np.arange(5.0)
    with pytest.raises(InputError, match="one latent"):
        LaplaceGP(X, y, likelihoods.HetGaussian())
    with pytest.raises(InputError, match="weights"):
        LaplaceGP(X, y, likelihoods.Gaussian(), Y_metadata={"weights": 1.0})
    with pytest.raises(InputError, match="HetGaussian"):
        collapsed_bound(ChainedGP(X, y, likelihoods.HetStudentT()))
    weighted = ChainedGP(X, y, likelihoods.HetGaussian(), Y_metadata={"weights": 3.0})
    with pytest.raises(InputError, match="weights"):
        collapsed_bound(weighted)


def test_columns_by_name_and_pickle():
    frame = pd.DataFrame({"a": np.arange(8.0), "b": np.zeros(8)})
    m = LaplaceGP(
        frame, np.sin(frame["a"]), likelihoods.StudentT(), kernels.RBF(1, active_dims=["a"])
    )
    assert m.kernels[0].active_dims.tolist() == [0]
    value = m.log_likelihood()
    assert pickle.loads(pickle.dumps(m)).log_likelihood() == value


# ---- the collapsed bound ------------------------------------------------------------------------


def heteroscedastic(Z=None):
    """Motorcycle rows at hyperparameters that fit them roughly; q at its optimum."""
    X, Y = cgp.datasets.motorcycle()
    X, Y = (X - X.mean()) / X.std(), (Y - Y.mean()) / Y.std()
    X, Y = X[::2] + 1e-3 * np.arange(67)[:, None], Y[::2]
    model = ChainedGP(
        X,
        Y,
        likelihoods.HetGaussian(),
        [kernels.RBF(1, 1.0, 0.4), kernels.RBF(1, 1.5, 0.7)],
        X if Z is None else X[::Z],
        [means.Constant(0.1), means.Constant(-2.0)],
    )
    model.optimize(only="variational")
    return model


def test_collapsed_bound_is_not_below_ours():
    model = heteroscedastic()
    collapsed, ours = collapsed_bound(model), model.log_likelihood()
    # given q(g) the best q(f) is Gaussian, so with Z = X nothing but the jitter is lost
    assert -1e-7 < collapsed - ours < 1e-3
    sparse = heteroscedastic(Z=8)
    assert collapsed_bound(sparse) == pytest.approx(collapsed, abs=1e-6)  # Z plays no part
    assert collapsed - sparse.log_likelihood() > 0.01


def test_collapsed_bound_at_its_own_q():
    """The formula written out: near the maximum at our q(g), below it at others."""
    model = heteroscedastic()
    K_f, K_g = (kernel.K(model.X) for kernel in model.kernels)
    n = len(K_f)

    def written_out(mu, S):
        R = np.exp(mu - 0.5 * np.diag(S))
        normal = stats.multivariate_normal(np.full(n, 0.1), K_f + np.diag(R))
        P = np.linalg.inv(K_g + 1e-7 * np.eye(n))
        kl = np.trace(P @ S) + (mu + 2.0) @ P @ (mu + 2.0) - n
        kl += np.linalg.slogdet(K_g + 1e-7 * np.eye(n))[1] - np.linalg.slogdet(S)[1]
        return normal.logpdf(model.Y[:, 0]) - 0.25 * np.trace(S) - 0.5 * kl

    mean, covariance = model.predict_latents(model.X, full_cov=True)
    S = covariance[1] + 1e-7 * np.eye(n)
    best = collapsed_bound(model)
    assert written_out(mean[:, 1], S) == pytest.approx(best, abs=0.05)
    assert written_out(mean[:, 1] + 0.3, S) < best - 0.1
    assert written_out(mean[:, 1], 1.5 * S) < best - 0.1


# ---- GPy ----------------------------------------------------------------------------------------


@pytest.mark.peer
def test_laplace_agrees_with_gpy(monkeypatch):
    """GPy's Laplace approximation at fixed hyperparameters; another model is noticed."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import compare_laplace

    python = compare_laplace.find_python("gpy")
    if python is None:
        pytest.skip("no interpreter: set CHAINEDGP_GPY_PYTHON")
    differences = compare_laplace.compare(python)
    assert len(differences) == 2  # Student-t and log-logistic; GPy finds no mode with outliers
    assert np.max(differences, axis=0)[0] < 1e-5 and np.max(differences, axis=0)[1] < 1e-4
    model = compare_laplace.make("StudentT")
    arrays = compare_laplace.describe(model)
    mutants = {"nu": 1.001, "scale2": 1.001, "variance": 1.001, "bias": 1.01}
    described = [{**arrays, key: factor * arrays[key]} for key, factor in mutants.items()]
    for value, _ in compare_laplace.peer_results(python, described):
        assert abs(value - model.log_likelihood()) > 1e-5
