"""A model with a joint q, with all that a model can do: rows, threads, files, methods, wrappers."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from cases import L, inputs, problem, randomise_q, small_model

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning, ConvergenceWarning, InputError
from chainedgp.model import chained_gp as model_module
from chainedgp.posterior.shards import Shard


def state_of(m):
    """Bound, gradient, and q after a few steps."""
    bound, gradient = m.log_likelihood(), m.objective_function_gradients()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        m.optimize(max_iters=2)
    return [np.array(bound), gradient, m.param_array.copy()]


def joint(name="Beta", **options):
    return small_model(name, posterior="joint", **options)


def test_the_model_says_which_posterior_it_has():
    m = joint()
    assert m.posterior == "joint"
    assert "Posterior  : joint" in str(m) and "joint" in m._repr_html_()
    assert m.summary().title["Posterior"] == "joint"
    assert "mean field" in str(small_model("Beta", posterior="mean_field"))
    assert small_model("Poisson", posterior="joint").posterior == "mean_field"  # one latent
    with pytest.raises(InputError, match="constructor"):
        m.posterior = "mean_field"


def test_leaves_of_a_joint_q():
    m = cgp.ChainedGP(inputs(9), np.ones(9), L.HetGaussian(), num_inducing=4, posterior="joint")
    assert m.q_mu.shape == (4, 2) and m.q_sqrt.shape == (8 * 9 // 2, 1)
    assert m.problem.parts.q_is_prior()
    separate = joint(separate_Z=True)
    assert [leaf.size for leaf in separate.problem.parts.q_mu] == [3, 4]
    assert [leaf.size for leaf in separate.problem.parts.q_root] == [7 * 8 // 2]
    assert len({leaf.hierarchy_name() for leaf in separate.flattened_parameters}) == len(
        separate.flattened_parameters
    )


def test_chunks_shards_and_threads_change_nothing(monkeypatch):
    reference = state_of(joint(n=40))
    m = joint(n=40)
    parts = [slice(0, 11), slice(11, 12), slice(12, 40)]
    m.problem.evaluator.shards = [Shard(m._data[p]) for p in parts]
    m._mark_stale()
    for a, b in zip(state_of(m), reference, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)

    class Chunked(Shard):
        def __init__(self, *args, **kw):
            super().__init__(*args, **{**kw, "chunk_rows": 7})

    monkeypatch.setattr(model_module, "Shard", Chunked)
    one, three = (state_of(joint(n=40, num_threads=k)) for k in (1, 3))
    for a, b, c in zip(one, three, reference, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-6, atol=1e-8)


def test_copies_are_the_same():
    m = joint()
    m.optimize(only="variational")
    for other in (m.copy(), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other.posterior == "joint"
        np.testing.assert_array_equal(other.param_array, m.param_array)
        assert other.log_likelihood() == m.log_likelihood()
        other.q_mu[:] = 0.0
    assert m.q_mu.values.any()


def test_new_data_keep_the_posterior():
    m = joint()
    X = inputs(20, seed=7)
    m.set_data(X, problem("Beta", X)[1])
    assert m.posterior == "joint" and np.isfinite(m.log_likelihood())
    assert m.problem.evaluator.marginals(m.problem.parts.q())[1].shape == (20, 2, 2)


def test_weights_are_repeated_rows():
    m = joint(n=10)
    weights = np.arange(10) % 3
    again = joint(n=10)
    again.set_data(m.X, m.Y, {"weights": weights})
    m.set_data(np.repeat(m.X, weights, axis=0), np.repeat(m.Y, weights, axis=0))
    assert again.log_likelihood() == pytest.approx(m.log_likelihood(), rel=1e-11)
    a, b = again.objective_function_gradients(), m.objective_function_gradients()
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def correlated(n=120):
    """Counts of two rates, as AdditivePoisson has them."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 6.0, (n, 1)), axis=0)
    return X, rng.poisson(np.exp(1.0 + np.sin(X[:, 0])) + 2.0).astype(float)


@pytest.mark.parametrize(
    "method", ["natgrad", *(pytest.param(x, marks=pytest.mark.long) for x in ("lbfgsb", "adam"))]
)
def test_every_method_climbs_towards_the_profiled_optimum(method):
    X, y = correlated()
    make = {"num_inducing": 6, "num_threads": 1, "posterior": "joint", "num_nodes": 12}
    options = {"lbfgsb": {"max_iters": 300}, "adam": {"epochs": 60, "learning_rate": 0.03}}
    m, other = (cgp.ChainedGP(X, y, L.AdditivePoisson(), **make) for _ in "12")
    start = m.log_likelihood()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = m.optimize(max_iters=60).bound
        given = {"rng": 0, "batch_size": 40} if method != "lbfgsb" else {}
        found = other.optimize(method, **given, **options.get(method, {})).bound
    assert best > start + 1.0
    assert best - found < 0.1 * (best - start)
    assert np.isfinite(other.param_array).all()


def test_batch_gradients_average_to_the_full_gradient():
    m = joint(n=16)
    evaluator = m.problem.evaluator

    def gradient(rows, scale):
        part = m.problem.on(rows)
        part.evaluator.set_hyperparameters(m.problem.parts.theta(), scale)
        state = part.evaluator.evaluate(m.problem.parts.q())
        part.evaluator.accept(0.0)
        m.problem.write_gradient(part.evaluator.gradient(state, sites_fixed=False), state)
        return np.array(m.gradient)

    full = gradient(np.arange(16), 1.0)
    parts = np.random.default_rng(0).permutation(16).reshape(4, 4)
    np.testing.assert_allclose(
        np.mean([gradient(np.sort(rows), 4.0) for rows in parts], 0), full, rtol=1e-9, atol=1e-9
    )
    assert evaluator.family.name == "joint"


def wrapped(name):
    """A likelihood inside another, targets that suit it, metadata."""
    rng = np.random.default_rng(5)
    X = inputs(14)
    times = rng.gamma(2.0, size=14)
    real = rng.normal(size=14)
    table = {
        "with_constant": (L.HetStudentTNu().with_constant("log_nu"), real, {}),
        "Inflated": (L.Inflated(L.NegativeBinomial()), rng.poisson(1.0, 14).astype(float), {}),
        "Hurdle": (L.Hurdle(L.HetGamma()), times * (rng.uniform(size=14) < 0.7), {}),
        "from_scipy": (cgp.Likelihood.from_scipy("norm", loc="identity", scale="exp"), real, {}),
        "censored": (
            L.WeibullSurvival(),
            times,
            {"censored": (np.arange(14) % 3 == 0) * 1.0, "entry": 0.3 * times},
        ),
    }
    return (X, *table[name])


@pytest.mark.parametrize("name", ["with_constant", "Inflated", "Hurdle", "from_scipy", "censored"])
def test_wrappers_and_observations_have_right_gradients(name):
    X, likelihood, y, metadata = wrapped(name)
    metadata = {**metadata, "weights": np.linspace(0.5, 1.5, 14)}
    m = cgp.ChainedGP(
        X, y, likelihood, Y_metadata=metadata, Z=X[:3] + 0.1, num_threads=1, posterior="joint"
    )
    randomise_q(m)
    assert m.posterior == "joint"
    m.num_nodes = 12
    assert m.checkgrad(tolerance=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = m.log_likelihood()
        assert m.optimize(only="variational", max_iters=30).bound > before


def test_a_checkpoint_goes_on(tmp_path):
    m = joint(n=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        m.optimize(max_iters=4, checkpoint=tmp_path / "fit", checkpoint_every=2)
        again = cgp.load(tmp_path / "fit")
        before = again.log_likelihood()
        assert again.posterior == "joint"
        assert again.optimize(max_iters=4).bound >= before


def test_an_estimator_takes_the_posterior():
    sklearn = pytest.importorskip("chainedgp.sklearn")
    X = inputs(25)
    given = {"num_inducing": 4, "max_iter": 3, "posterior": "joint", "num_threads": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        fitted = sklearn.ChainedGPRegressor("het_gaussian", **given).fit(X, X[:, 0])
    assert fitted.get_params()["posterior"] == "joint" and fitted.model_.posterior == "joint"


@pytest.mark.long
def test_the_default_posterior_of_coupled_latents_is_checked_and_left_out():
    X = inputs(40, D=1)
    rng = np.random.default_rng(2)
    y = rng.beta(np.exp(1.0 + np.sin(X[:, 0])), np.exp(1.0 + np.cos(X[:, 0])))
    m = cgp.ChainedGP(X, y, L.Beta(), num_inducing=6, num_threads=1)
    assert m.posterior == "joint"
    assert m.optimize().converged
    check = m.check()
    assert {finding.name for finding in check.findings} >= {"convergence", "hyperparameters"}
    assert check["convergence"].level == "ok"
    exact = m.loo()  # by finding q anew
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        quick = m.loo(refit=False)  # from sites
    fine = exact.pareto_k < 0.7
    assert fine.mean() > 0.9
    np.testing.assert_allclose(quick.pointwise[fine], exact.pointwise[fine], rtol=0, atol=0.05)
    medians = m.predict_component(X[:3], "log_alpha", natural=True)[0]
    np.testing.assert_allclose(medians[:, 0], np.exp(m.predict_latents(X[:3])[0][:, 0]), rtol=1e-9)
