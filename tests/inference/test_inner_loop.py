"""Natural gradients for q: their fixed point, their steps and hostile starts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cases import PAPER, POSTERIORS, K, L, M, inputs, leaves, problem
from scipy.optimize import minimize
from scipy.special import gammaln

import chainedgp as cgp
from chainedgp.errors import ConvergenceWarning
from chainedgp.inference import natural_gradients

N, INDUCING = 60, 7
NEGATIVE = ("HetStudentT", "Beta", "AdditivePoisson", "LogLogisticSurvival")


def model(name, n=N, num_nodes=16, **keywords):
    """A model at its start, q the prior, with the same quadrature sum wherever q is."""
    X = inputs(n, D=1)
    lik, y, metadata = problem(name, X)
    if name == "HetStudentT":
        y = y.copy()
        y[::9] += 6.0  # outliers
    if name == "Beta":
        x = X[:, 0]
        rng = np.random.default_rng(1)
        y = rng.beta(np.exp(1.5 * np.sin(3 * x)), np.exp(0.5 + np.cos(2 * x)))
    kernels = [K.RBF(1, 0.9, 0.4 * (1 + j)) for j in range(len(lik.latents))]
    return cgp.ChainedGP(
        X,
        y,
        lik,
        kernels=kernels,
        Z=np.linspace(-2, 2, INDUCING)[:, None],
        Y_metadata=metadata,
        num_nodes=num_nodes,
        num_threads=1,
        **{"posterior": "mean_field", **keywords},
    )


def optimum_by_plain_gradients(m):
    """The bound after L-BFGS (scipy's) over μ and the root of S alone; the model holds that q."""
    parts = [*leaves(m.q_mu), *leaves(m.q_sqrt)]
    ends = np.cumsum([0, *(leaf.size for leaf in parts)])

    def objective(x):
        for leaf, i, j in zip(parts, ends[:-1], ends[1:], strict=True):
            leaf[:] = x[i:j].reshape(leaf.shape)
        value = m.objective_function()
        m.objective_function_gradients()
        return value, -np.concatenate([np.array(leaf.gradient).ravel() for leaf in parts])

    start = np.concatenate([np.array(leaf.values).ravel() for leaf in parts])
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 0.0, "gtol": 1e-6, "maxcor": 50}
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    objective(best.x)
    return -best.fun


@pytest.mark.parametrize(
    ("name", "posterior"),
    [
        *((name, "mean_field") for name in (*PAPER, "Poisson", "OffsetLogistic")),
        *((name, "joint") for name in ("HetGaussian", "Beta", "OffsetLogistic")),
    ],
)
def test_fixed_point_is_the_optimum_of_plain_gradients(name, posterior):
    natural, plain = model(name, posterior=posterior), model(name, posterior=posterior)
    start = natural.log_likelihood()
    result = natural.optimize(only="variational")
    assert result.converged
    bound = optimum_by_plain_gradients(plain)
    assert bound - start > 1.0  # there was something to find
    assert natural.log_likelihood() == pytest.approx(bound, rel=0, abs=1e-6)
    np.testing.assert_allclose(
        natural.predict_latents(natural.X)[0], plain.predict_latents(natural.X)[0], atol=2e-3
    )


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", PAPER)
def test_plain_gradients_gain_nothing_at_the_fixed_point(name, posterior):
    m = model(name, posterior=posterior)
    m.optimize(only="variational")
    before = m.log_likelihood()
    assert optimum_by_plain_gradients(m) - before < 1e-6


@pytest.mark.parametrize("name", NEGATIVE)
def test_sites_are_negative_where_theory_says_so(name):
    m = model(name)
    m.optimize(only="variational")
    lam2 = m.problem.evaluator.shards[0].sites.current[1]
    assert (lam2 < -1e-3).any()


@pytest.mark.parametrize("name", ["HetGaussian", "Uncensored"])
def test_sites_are_never_negative_where_theory_says_so(name):
    m = model("HetGaussian" if name == "HetGaussian" else "LogLogisticSurvival")
    if name == "Uncensored":
        m.set_data(m.X, m.Y)
    m.optimize(only="variational")
    assert (m.problem.evaluator.shards[0].sites.current[1] > 0).all()


class ClippedStudentT(L.HetStudentT):
    """∂E/∂v clipped at 0, so that no site is negative."""

    def expected_log_density(self, *args, **kw):
        value, dm, dv, dt = super().expected_log_density(*args, **kw)
        return value, dm, np.minimum(dv, 0.0), dt


def test_clipped_sites_have_another_fixed_point():
    """Negative sites matter: dropping them ends measurably below the optimum."""
    honest = model("HetStudentT")
    honest.optimize(only="variational")
    clipped = cgp.ChainedGP(
        honest.X,
        honest.Y,
        ClippedStudentT(nu=3.0),
        kernels=list(honest.kernels),
        Z=honest.Z.values,
        mean_functions=list(honest.mean_functions),
        num_nodes=16,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clipped.optimize(only="variational", max_iters=200)
    assert (clipped.problem.evaluator.shards[0].sites.current[1] >= 0).all()
    assert clipped.log_likelihood() < honest.log_likelihood() - 1e-4


class Recorder:
    """The bounds of the states that the inner loop accepts, in order."""

    def __init__(self, evaluator, monkeypatch):
        self.bounds, self.lengths, self.last = [], [], None
        evaluate = evaluator.evaluate

        def recorded_evaluate(q, gram=None, **kw):
            self.last = evaluate(q, gram, **kw)
            return self.last

        def recorded(accept, length):
            def accepted(given):
                self.bounds.append(self.last.bound)
                self.lengths.append(length or given)
                accept(given)

            return accepted

        monkeypatch.setattr(evaluator, "evaluate", recorded_evaluate)
        for name, length in (("accept", None), ("accept_combination", "anderson")):
            monkeypatch.setattr(evaluator, name, recorded(getattr(evaluator, name), length))


@pytest.mark.parametrize("name", PAPER)
def test_correlations_raise_the_bound_at_few_steps(name):
    """The mean field is a joint q too, so that the best joint q is no worse."""
    results = [model(name, posterior=p).optimize(only="variational") for p in POSTERIORS]
    mean_field, joint = results
    assert mean_field.converged and joint.converged
    assert joint.bound > mean_field.bound
    if name in ("Beta", "AdditivePoisson"):  # whose latents are coupled
        assert joint.bound > mean_field.bound + 0.5
        assert joint.iterations < 0.7 * mean_field.iterations


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", PAPER)
def test_bound_never_falls_along_the_steps(name, posterior, monkeypatch):
    m = model(name, num_nodes=None, posterior=posterior)
    recorder = Recorder(m.problem.evaluator, monkeypatch)
    result = m.optimize(only="variational")
    bounds = np.array(recorder.bounds[: result.iterations + 1])
    assert len(bounds) == result.iterations + 1 >= 4
    assert np.diff(bounds).min() >= -1e-12 * (N + 10.0 * np.abs(bounds).max())
    assert bounds[-1] - bounds[0] > 1.0


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_sites_agree_with_q_after_accelerated_steps(posterior, monkeypatch):
    """Acceleration works on the (M, M) sums and on the rows' sites: both must say the same q."""
    m = model("AdditivePoisson", posterior=posterior)
    recorder = Recorder(m.problem.evaluator, monkeypatch)
    m.optimize(only="variational")
    assert "anderson" in recorder.lengths
    monkeypatch.undo()
    m.problem.evaluator.set_hyperparameters(m.problem.parts.theta())
    from_sites = m.problem.evaluator.gaussians(m.problem.evaluator.gram())
    for a, b in zip(from_sites, m.problem.parts.q(), strict=True):
        np.testing.assert_allclose(a.mu, b.mu, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(a.S, b.S, rtol=1e-7, atol=1e-9)


def test_predicted_gap_tracks_the_true_gap():
    m = model("HetGaussian")
    evaluator = m.problem.evaluator
    evaluator.set_hyperparameters(m.problem.parts.theta())
    evaluator.start_sites(2)
    best = natural_gradients.find_q(evaluator, 1e-10).state.bound
    evaluator.start_sites(2)
    with_steps = natural_gradients.find_q(evaluator, 1e-10, max_steps=3)
    true_gap = best - with_steps.state.bound
    predicted = natural_gradients.predicted_gap(evaluator, with_steps.state)
    assert 0 < true_gap
    assert 0.2 * true_gap < predicted < 5.0 * true_gap


def test_a_second_call_has_nothing_left_to_do():
    m = model("Beta")
    m.optimize(only="variational")
    bound = m.log_likelihood()
    again = m.optimize(only="variational")
    assert again.converged and again.iterations <= 2
    assert again.bound == pytest.approx(bound, abs=1e-7)


def test_hyperparameters_are_left_alone():
    m = model("HetStudentT")
    q = {id(leaf) for leaf in [*leaves(m.q_mu), *leaves(m.q_sqrt)]}
    before = {
        leaf.hierarchy_name(): leaf.values.copy()
        for leaf in m.flattened_parameters
        if id(leaf) not in q
    }
    m.optimize(only="variational")
    for leaf in m.flattened_parameters:
        if id(leaf) not in q:
            np.testing.assert_array_equal(leaf.values, before[leaf.hierarchy_name()])


def _wild_q(m):
    rng = np.random.default_rng(0)
    m.q_mu[:] = 30.0 * rng.normal(size=m.q_mu.shape)
    m.q_sqrt[:] = 3.0 * rng.normal(size=m.q_sqrt.shape)


def _tiny_q(m):
    m.q_sqrt[:] = 1e-6 * m.q_sqrt.values


def _large_variance(m):
    for k in m.kernels:
        k.variance = 50.0


def _small_variance(m):
    for k in m.kernels:
        k.variance = 1e-8


def _far_mean(m):
    for mean in m.mean_functions:
        mean.value = mean.value.values + 6.0


def _low_mean(m):
    for mean in m.mean_functions:
        mean.value = mean.value.values - 6.0


def _nearly_equal_inputs(m):
    m.Z[:] = 1e-4 * m.Z.values


HOSTILE = (
    _wild_q,
    _tiny_q,
    _large_variance,
    _small_variance,
    _far_mean,
    _low_mean,
    _nearly_equal_inputs,
)


@pytest.mark.parametrize("start", HOSTILE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", PAPER)
def test_hostile_starts_end_finite_and_no_lower_than_the_prior(name, posterior, start):
    m = model(name, n=40, num_nodes=None, posterior=posterior)
    start(m)
    reference = m.copy()  # the same hyperparameters, q the prior
    reference.problem.parts.reset_q()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with np.errstate(over="ignore"):
            result = m.optimize(only="variational", max_iters=60)
            floor = reference.log_likelihood()
    assert np.isfinite(result.bound)
    assert result.bound == m.log_likelihood()
    assert np.isfinite(m.q_mu.values).all() and np.isfinite(m.q_sqrt.values).all()
    assert not floor > result.bound + 1e-6
    assert np.isfinite(m.objective_function_gradients()).all()


def test_extreme_outliers_end_finite():
    X = inputs(40, D=1)
    y = np.sin(X[:, 0])
    y[3], y[7] = 1e6, -1e4
    for lik in (L.HetGaussian(), L.HetStudentT(nu=1.5)):
        m = cgp.ChainedGP(X, y, lik, mean_functions=M.Constant(0.0), num_inducing=8, num_threads=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert np.isfinite(m.optimize(only="variational", max_iters=60).bound)


def test_a_bug_in_the_likelihood_is_not_swallowed():
    """paramz takes ten ValueErrors in a row for a difficult point; a bug is a bug."""

    class Broken(L.HetGaussian):
        def expected_log_density(self, *args, **kw):
            raise ValueError("a bug of the author")

    X = inputs(20, D=1)
    for method in ("profile", "lbfgsb"):
        m = cgp.ChainedGP(X, X[:, 0], Broken(), num_inducing=5)
        with pytest.raises(ValueError, match="a bug of the author"):
            m.optimize(method)


class OwnWeibull(cgp.Likelihood):
    """A density whose expectation under the prior is finite, but astronomical: e^(e^g z)."""

    latents = ("log_scale", "log_shape")
    support = "positive"

    def log_density(self, y, f, g):
        z = np.exp(g) * (np.log(y) - f)
        return g + z - np.log(y) - np.exp(z)


class GeneralisedGamma(cgp.Likelihood):
    latents = ("log_scale", "log_shape", "log_power")
    support = "positive"

    def log_density(self, y, f, g, h):
        d, p, z = np.exp(g), np.exp(h), np.log(y) - f
        return h - f - gammaln(d / p) + (d - 1.0) * z - np.exp(p * z)


@pytest.mark.parametrize("likelihood", [OwnWeibull, GeneralisedGamma])
def test_a_fit_begins_where_no_step_from_the_prior_is_possible(likelihood):
    rng = np.random.default_rng(51)
    X = rng.uniform(size=(80, 1))
    y = np.exp(1.0 + X[:, 0]) * rng.weibull(np.exp(0.2 + 0.8 * X[:, 0]))
    m = cgp.ChainedGP(X, y, likelihood(), num_inducing=6)
    result = m.optimize()
    assert result.converged and result.likelihood_evaluations < 1000
    known = cgp.ChainedGP(X, y, L.WeibullSurvival(), Y_metadata={"censored": 0}, num_inducing=6)
    known.optimize()
    assert abs(result.bound - known.log_likelihood()) < 1.5
