"""Predictions of models with a joint q, from a fit to files, frames, figures and estimators."""

import numpy as np
import pytest
from cases import inputs, small_model
from scipy.linalg import solve_triangular

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.linalg import unpack_lower

XNEW = np.linspace([-1.5, 0.7], [1.5, -0.4], 6)


def fitted(name, **options):
    """A small model whose q is the best at its hyperparameters: correlated where that is better."""
    m = small_model(name, n=40, posterior="joint", **options)
    m.optimize(only="variational", messages=False)
    return m


@pytest.fixture(scope="module")
def beta():
    return fitted("Beta", separate_Z=True)


def correlation(V):
    return V[:, 0, 1] / np.sqrt(V[:, 0, 0] * V[:, 1, 1])


def test_latents_have_the_covariances_of_q(beta):
    """By hand: K** − AᵀA + AᵀSA of the stacked inducing values, A = L⁻¹ K(Z, X)."""
    sizes = [len(Z) for Z in beta.problem.parts.Z]
    root = unpack_lower(np.ravel(beta.problem.parts.q_root[0].values), sum(sizes))
    S, A, K = root @ root.T, [], []
    for kernel, Z in zip(beta.kernels, beta.problem.parts.Z, strict=True):
        Kuu = kernel.K(Z.values)
        Kuu.flat[:: len(Kuu) + 1] += beta.jitter * np.mean(np.diag(Kuu))
        A.append(solve_triangular(np.linalg.cholesky(Kuu), kernel.K(Z.values, XNEW), lower=True))
        K.append(kernel.K(XNEW) - A[-1].T @ A[-1])
    first, second = slice(0, sizes[0]), slice(sizes[0], None)
    mean, C = beta.predict_latents(XNEW, full_cov=True, cross_cov=True)
    np.testing.assert_allclose(C[0, 1], A[0].T @ S[first, second] @ A[1], atol=1e-9)
    np.testing.assert_allclose(C[1, 0], C[0, 1].T)
    np.testing.assert_allclose(C[1, 1], K[1] + A[1].T @ S[second, second] @ A[1], atol=1e-9)
    assert np.abs(C[0, 1]).max() > 0.1 * np.abs(C[0, 0]).max()
    np.testing.assert_array_equal(beta.predict_latents(XNEW, full_cov=True)[1], C[[0, 1], [0, 1]])
    own = beta.predict_latents(XNEW, cross_cov=True)
    np.testing.assert_allclose(own[1], np.einsum("jkii->ijk", C), atol=1e-12)
    np.testing.assert_allclose(own[0], mean, atol=1e-12)
    np.testing.assert_array_equal(
        beta.predict_latents(XNEW)[1], np.diagonal(own[1], axis1=1, axis2=2)
    )


def test_joint_draws_have_the_covariances(beta):
    """200,000 draws: an error of 0.003 of a covariance."""
    C = beta.predict_latents(XNEW, full_cov=True, cross_cov=True)[1]
    C = C.transpose(0, 2, 1, 3).reshape(12, 12)
    draws = beta.posterior_samples_f(XNEW, 200_000, rng=0)
    found = np.cov(draws.transpose(1, 0, 2).reshape(12, -1))
    sds = np.sqrt(np.diag(C))
    assert np.abs((found - C) / np.outer(sds, sds)).max() < 0.015


@pytest.mark.parametrize("name", ["Beta", "HetGaussian", "AdditivePoisson", "HetStudentT"])
def test_predictions_are_those_of_draws_from_q(name):
    """Latents drawn jointly, targets given them: 40,000 draws, five standard errors."""
    m, size = fitted(name), 40_000
    f = m.posterior_samples_f(XNEW, size, rng=1)
    rng, kw = np.random.default_rng(2), m.likelihood.parameter_values()
    y = m.likelihood.sample(rng, *f.transpose(1, 0, 2), **kw)
    low, high = m.predict_quantiles(XNEW, (10.0, 80.0))
    for end in (low, high):
        share = m.predict_cdf(XNEW, end)
        below = (y <= end).mean(axis=1, keepdims=True)
        assert np.abs(below - share).max() < 5.0 * np.sqrt(0.25 / size)
    other = m.posterior_samples(XNEW, size, rng=3)[:, 0]
    share = m.predict_cdf(XNEW, high)
    assert np.abs((other <= high).mean(axis=1, keepdims=True) - share).max() < 0.0125
    assert np.abs(correlation(m.predict_latents(XNEW, cross_cov=True)[1])).max() > 0.01


def test_bands_of_sums_and_shares_are_those_of_draws(beta):
    f = beta.posterior_samples_f(XNEW, 100_000, rng=4)
    functions = {
        "mean": lambda f, g: 1.0 / (1.0 + np.exp(g - f)),
        "precision": lambda f, g: np.exp(f) + np.exp(g),
    }
    table = beta.predictive(XNEW).parameters((5.0, 95.0), functions)
    lost = cgp.predictive.Predictive(L.Beta(), *beta.predict_latents(XNEW)).parameters(
        (5.0, 95.0), functions
    )
    for name, function in functions.items():
        values = function(*f.transpose(1, 0, 2))  # (n, size)
        share = (values[:, :, None] < table[name][:, None]).mean(axis=1)
        np.testing.assert_allclose(share, np.tile([0.05, 0.95], (6, 1)), atol=0.006)
        share = (values[:, :, None] < lost[name][:, None]).mean(axis=1)  # the mutant: variances
        assert np.abs(share - [0.05, 0.95]).max() > 0.02


def test_files_and_frames_predict_the_same(beta, tmp_path):
    beta.save(tmp_path / "m.cgp")
    again = cgp.load(tmp_path / "m.cgp")
    for method in ("predict", "predict_quantiles"):
        for a, b in zip(*(getattr(m, method)(XNEW) for m in (beta, again)), strict=True):
            np.testing.assert_array_equal(a, b)
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(inputs(30), columns=["a", "b"])
    y = pandas.Series(np.random.default_rng(0).beta(2.0, 3.0, 30), name="y")
    m = cgp.ChainedGP(X, y, L.Beta(), num_inducing=4, posterior="joint", num_threads=1)
    m.optimize(only="variational", messages=False)
    frame = m.predict_frame(X[:5], (10.0, 50.0))
    np.testing.assert_array_equal(frame["10%"], m.predict_quantiles(X[:5], (10.0,))[0][:, 0])
    np.testing.assert_array_equal(frame["mean"], m.predict(X[:5])[0][:, 0])


def test_blocks_of_a_dask_array_predict_the_same(beta):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(XNEW, chunks=(4, 2))
    for method in ("predict", "predict_latents", "predict_quantiles"):
        pairs = zip(getattr(beta, method)(lazy), getattr(beta, method)(XNEW), strict=True)
        for value, expected in pairs:
            np.testing.assert_allclose(value.compute(), expected, rtol=1e-12)
    with pytest.raises(cgp.errors.InputError, match="cross_cov needs its rows in memory"):
        beta.predict_latents(lazy, cross_cov=True)


@pytest.mark.filterwarnings("ignore:The Pareto k")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Beta", marks=pytest.mark.long),
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("HetGaussian", "TwoMeans")),
    ],
)
def test_every_question_is_asked_and_answered(name):
    m = fitted(name)
    asked = {finding.name for finding in m.check(rows=20).findings}
    assert {"calibration", "outliers", "pareto_k", "quadrature", "hyperparameters"} <= asked
    assert np.isfinite(m.loo(refit=2).pointwise).all()


@pytest.mark.filterwarnings("ignore::chainedgp.errors.MomentWarning")
def test_figures_draw_the_bands_of_q():
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 6.0, 40))
    y = rng.beta(np.exp(1.0 + np.sin(x)), np.exp(1.0 + np.cos(x)))
    m = cgp.ChainedGP(x, y, L.Beta(), num_inducing=6, posterior="joint", num_threads=1)
    m.optimize(only="variational", messages=False)
    m.plot_fit(num=7), m.plot_density(num=7), m.plot_pit(), m.plot_latents(natural=True, num=7)
    grid = np.linspace(0.5, 5.5, 7)
    axes = m.plot_latents(levels=(90,), num=7, limits=(0.5, 5.5))
    mean, variance = m.predict_latents(grid[:, None])
    ends = np.concatenate([c.get_paths()[0].vertices[:, 1] for c in axes[0].collections])
    for sign in (-1.0, 1.0):
        edge = mean[:, 0] + sign * 1.6448536 * np.sqrt(variance[:, 0])
        assert all(np.abs(ends - value).min() < 1e-6 for value in edge)
    plt.close("all")


def test_an_estimator_predicts_with_the_joint_posterior():
    sklearn = pytest.importorskip("chainedgp.sklearn")
    X, rng = inputs(40), np.random.default_rng(1)
    y = np.sin(X[:, 0]) + np.exp(0.4 * X[:, 1] - 1.0) * rng.normal(size=40)
    given = {"num_inducing": 5, "posterior": "joint", "num_threads": 1}
    fit = sklearn.ChainedGPRegressor("het_gaussian", **given).fit(X, y)
    np.testing.assert_array_equal(fit.predict(XNEW), fit.model_.predict(XNEW)[0][:, 0])
    assert np.isfinite(fit.score(X, y)) and fit.model_.posterior == "joint"
