"""Fitting: methods, results, hyperpriors, restarts, batches, checkpoints, interruption."""

import contextlib
import copy
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from collections import deque
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from paramz import Param
from paramz.transformations import Logexp
from scipy import stats

import chainedgp as cgp
from chainedgp import kernels, likelihoods, means, priors
from chainedgp.errors import ConvergenceWarning, InputError, NumericalError, TargetWarning
from chainedgp.inference import lbfgs, steps
from chainedgp.inference.problem import Problem
from chainedgp.inference.rescue import (
    grows_without_limit,
    rows_without_noise,
    set_nearly_constant,
    shrink_variances,
    worse_than_constants,
)
from chainedgp.inference.restarts import perturb
from chainedgp.inference.stochastic import Batches, Settings
from chainedgp.parameters import Role
from chainedgp.posterior import sites as sites_module
from chainedgp.posterior.evaluator import Evaluator
from chainedgp.posterior.shards import Shard


def data(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + np.exp(0.5 * X[:, 1] - 1) * rng.normal(size=n)
    return X, y


def model(n=150, likelihood=None, **kwargs):
    """Without default priors: what fits say of the bound is then all that they raise."""
    X, y = data(n)
    kwargs = {"num_inducing": 12, "priors": None, **kwargs}
    return cgp.ChainedGP(X, y, likelihood or likelihoods.HetGaussian(), **kwargs)


# ---- the default ----


def test_default_fit_converges_and_its_trace_never_falls():
    m = model()
    result = m.optimize()
    assert result.converged and result.status == "converged"
    trace = result.trace_array()
    assert (np.diff(trace[:, 0]) > -1e-6).all()
    assert (np.diff(trace[:, 1:]) >= 0).all() or (np.diff(trace[:, 1:], axis=0) >= 0).all()
    assert result.bound == m.log_likelihood() >= trace[-1, 0] - 1e-6
    assert m.last_result is result
    gain = m.copy().optimize(max_iters=3000).bound - result.bound
    assert abs(gain) < 0.1


def test_the_gradient_vanishes_at_the_fitted_point():
    m = model()
    m.optimize()
    m.objective_function_gradients()
    assert np.abs(m.problem.free_vector().gradient()).max() < 0.1
    before = model()
    before.optimize(only="variational")
    before.objective_function_gradients()
    assert np.abs(before.problem.free_vector().gradient()).max() > 1.0  # the check can fail


@pytest.mark.parametrize("method", ["lbfgsb", "lbfgs", "bfgs"])
def test_plain_methods_climb_to_near_the_profiled_optimum(method):
    m, reference = model(60), model(60)
    best = reference.optimize().bound
    start = m.log_likelihood()
    with pytest.warns(ConvergenceWarning):
        result = m.optimize(method, max_iters=60)
    assert start < result.bound <= best + 0.5
    assert (np.diff(result.trace_array()[:, 0]) > -1e-9).all()


def test_gpy_keyword():
    m = model(40)
    assert m.optimize(optimizer="bfgs", max_iters=1000).method == "lbfgsb"
    with pytest.raises(InputError, match="not both"):
        m.optimize("lbfgsb", optimizer="lbfgsb")
    with pytest.raises(InputError, match="natgrad"):
        m.optimize("sgd")


def test_fixed_and_constrained_leaves_are_respected():
    m = model()
    m.kernels.mean.lengthscale.fix()
    m.Z.fix()
    m.kernels.log_variance.variance.constrain_bounded(0.5, 0.7, warning=False)
    kept, Z = m.kernels.mean.lengthscale.values.copy(), m.Z.values.copy()
    m.optimize()
    np.testing.assert_array_equal(m.kernels.mean.lengthscale.values, kept)
    np.testing.assert_array_equal(m.Z.values, Z)
    assert 0.5 <= m.kernels.log_variance.variance.values[0] <= 0.7


def test_everything_fixed_still_finds_q():
    m, reference = model(), model()
    for part in (m.kernels, m.mean_functions, m.Z):
        part.fix()
    m.optimize()
    reference.optimize(only="variational")
    assert m.log_likelihood() == pytest.approx(reference.log_likelihood(), abs=1e-6)


@pytest.mark.long
def test_heavy_tails_are_found_before_a_rough_noise_process():
    """Held at 4 at first, ν leaves the outliers to a scale of lengthscale 0.003, 10 nats worse."""
    X, y = cgp.datasets.corrupted_motorcycle(seed=0)[:2]
    m = cgp.ChainedGP(X, y, likelihoods.HetStudentT())
    assert m.optimize().bound > -186.0
    assert m.kernels.log_scale2.lengthscale.values[0] > 0.2


# ---- vectors, step rules, the minimiser ----


def test_the_free_vector_reads_what_it_wrote():
    m = model(likelihood=likelihoods.HetStudentT())
    m.kernels.location.lengthscale[0:1].fix()
    m.kernels.log_scale2.variance.constrain_bounded(0.1, 5.0, warning=False)
    vector = m.problem.free_vector()
    x = vector.read() + 0.1
    vector.write(x)
    np.testing.assert_allclose(vector.read(), x, atol=1e-12)
    sizes = sum(leaf.size for leaf in m.flattened_parameters) - m.q_mu.size - m.q_sqrt.size
    assert vector.size == sizes - 1
    assert m.problem.free_vector(with_q=True).size == vector.size + m.q_mu.size + m.q_sqrt.size


def test_a_step_too_far_stays_finite():
    m = model()
    vector = m.problem.free_vector()
    for sign in (1.0, -1.0):
        vector.write(np.full(vector.size, sign * 1e4))
        values = m.kernels.mean.lengthscale.values
        assert np.isfinite(values).all() and (values > 0.0).all()


def test_the_gradient_of_the_free_vector():
    m = model(40, likelihood=likelihoods.HetStudentT())
    m.kernels.log_scale2.variance.constrain_bounded(0.1, 5.0, warning=False)
    m.set_prior(".*lengthscale", priors.LogNormal(0.3, 0.5))
    vector = m.problem.free_vector()
    x = vector.read()
    m.objective_function_gradients()
    gradient = vector.gradient()
    for i in np.r_[:8, -3:0]:
        values = []
        for h in (1e-5, -1e-5):
            vector.write(x + h * np.eye(x.size)[i])
            values.append(-m.objective_function())
        assert gradient[i] == pytest.approx((values[0] - values[1]) / 2e-5, rel=2e-5, abs=1e-6)


class Rosenbrock:
    """Has a region without a value, as a bound has where a factorisation fails."""

    def value(self, x):
        self.x = x
        if x[0] > 3.0:
            return np.inf
        return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

    def gradient(self):
        x = self.x
        return np.array(
            [-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)]
        )

    def accept(self, x, value):
        return value


def test_groups_of_coordinates_have_scales_of_their_own():
    """The steps of a scaled start are those of the two-loop recursion on scaled coordinates."""
    s, y, g = np.random.default_rng(1).normal(size=(3, 6))
    s[:3], y[:3] = np.abs(s[:3]), 10.0 * np.abs(y[:3])
    s[3:], y[3:] = np.abs(s[3:]), 0.1 * np.abs(y[3:])
    groups, pairs = [np.arange(3), np.arange(3, 6)], deque([(s, y)])
    direction = lbfgs._direction(g, pairs, groups)
    scales = np.repeat([(s[i] @ y[i]) / (y[i] @ y[i]) for i in groups], 3)
    V = np.eye(6) - np.outer(y, s) / (s @ y)
    H = V.T @ np.diag(scales) @ V + np.outer(s, s) / (s @ y)  # BFGS's formula
    expected = -H @ g
    expected *= min(1.0, lbfgs.LONGEST_STEP / np.abs(expected).max())
    np.testing.assert_allclose(direction, expected, rtol=1e-10)
    assert np.abs(lbfgs._direction(g, pairs, ()) - expected).max() > 1e-3
    backwards = deque([(np.concatenate([-s[:3], 5e3 * s[3:]]), y)])  # sᵀy < 0 in the first group
    assert lbfgs._direction(g, backwards, groups) @ g < 0.0


def test_groups_of_the_vector_are_its_kinds():
    m = model(60)
    others, inducing, q = m.problem.free_vector(with_q=True).groups
    assert inducing.size == m.Z.size and q.size == m.q_mu.size + m.q_sqrt.size
    np.testing.assert_array_equal(np.sort(np.concatenate([others, inducing, q])), np.arange(m.size))


def test_a_looser_tolerance_stops_earlier():
    end, early = model().optimize(), model().optimize(tolerance=5.0)
    assert end.converged and early.converged and "5" in early.reason
    assert early.iterations < end.iterations and early.bound < end.bound


def test_the_minimiser_finds_the_minimum_beside_a_cliff():
    for start in ((-1.2, 1.0), (2.99, -3.0), (0.0, 5.0)):
        end = lbfgs.minimise(Rosenbrock(), np.array(start), max_iters=500, tolerance=1e-14)
        np.testing.assert_allclose(end.x, 1.0, atol=1e-4)
        assert end.converged
    with pytest.raises(NumericalError):
        lbfgs.minimise(Rosenbrock(), np.array([4.0, 0.0]), max_iters=5)
    short = lbfgs.minimise(Rosenbrock(), np.array([-1.2, 1.0]), max_iters=3)
    assert not short.converged and "3 iterations" in short.reason


@pytest.mark.parametrize("name", steps.RULES)
def test_step_rules_climb_a_parabola(name):
    rule, x = steps.RULES[name](), np.array([1.0, -2.0])
    for _ in range(3000):
        x = x + rule.learning_rate * rule.step(-x * np.array([1.0, 10.0]))
    assert np.abs(x).max() < 0.2


def test_adam_by_hand():
    rule = steps.Adam()
    g1, g2 = 2.0, -1.0
    rule.step(np.array([g1]))
    m = (0.9 * 0.1 * g1 + 0.1 * g2) / (1 - 0.9**2)
    v = (0.99 * 0.01 * g1**2 + 0.01 * g2**2) / (1 - 0.99**2)
    np.testing.assert_allclose(rule.step(np.array([g2])), m / np.sqrt(v), rtol=1e-6)


# ---- hyperpriors ----


@pytest.mark.parametrize(
    ("prior", "oracle"),
    [
        (priors.Normal(0.5, 2.0), stats.norm(0.5, 2.0)),
        (priors.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
        (priors.Gamma(2.5, 3.0), stats.gamma(2.5, scale=1 / 3.0)),
        (priors.HalfNormal(1.5), stats.halfnorm(scale=1.5)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_priors_are_the_densities_they_say(prior, oracle):
    x = np.array([0.1, 0.7, 3.0])
    np.testing.assert_allclose(prior.log_density(x), oracle.logpdf(x), rtol=1e-12)
    numeric = (prior.log_density(x + 1e-6) - prior.log_density(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(prior.gradient(x), numeric, rtol=1e-6)


def test_a_strong_prior_wins():
    m = model()
    m.set_prior(m.kernels.mean.lengthscale, priors.LogNormal(np.log(5.0), 1e-3))
    assert m.log_prior() != 0.0
    m.optimize()
    np.testing.assert_allclose(m.kernels.mean.lengthscale.values, 5.0, rtol=1e-2)
    assert m.objective_function() == pytest.approx(-m.log_likelihood() - m.log_prior())
    m.set_prior("kernels.mean.*lengthscale", None)
    assert m.hyperpriors == {} and m.log_prior() == 0.0


def test_bad_priors():
    m = model(20)
    with pytest.raises(InputError, match="Prior"):
        m.set_prior(".*variance", 3.0)
    with pytest.raises(InputError, match="matches"):
        m.set_prior("nothing", priors.Normal())
    with pytest.raises(InputError, match="sd must be positive"):
        priors.Normal(0.0, -1.0)


# ---- restarts ----


def test_restarts_are_seeded_and_the_best_wins():
    m, again = model(30), model(30)
    result = m.optimize_restarts(2, rng=1)
    assert again.optimize_restarts(2, rng=1).bound == result.bound
    bounds = [point.bound for point in result.trace]
    assert len(bounds) == 2
    assert result.bound == pytest.approx(max(bounds), abs=1e-5)
    assert result.bound >= model(30).optimize().bound - 1e-6


def test_a_failed_restart_is_reported_and_never_wins(monkeypatch):
    from chainedgp.inference import restarts

    fit = restarts.fit_profile

    def failing(one, monitor, max_iters, **kw):
        if monitor.method == "restart 0":
            raise NumericalError("on purpose")
        return fit(one, monitor, max_iters)

    monkeypatch.setattr(restarts, "fit_profile", failing)
    m = model(40)
    result = m.optimize_restarts(2)
    assert any("restart 0 failed: on purpose" in note for note in result.warnings)
    assert np.isfinite(result.bound)
    monkeypatch.setattr(restarts, "fit_profile", lambda *a, **kw: failing(a[0], _Zero(), a[2]))
    with pytest.raises(NumericalError, match="every restart failed"):
        m.optimize_restarts(2)


def test_a_restart_without_limit_does_not_win(monkeypatch):
    from chainedgp.inference import restarts

    fit = restarts.fit_profile

    def runaway(one, monitor, max_iters, **kw):
        outcome = fit(one, monitor, max_iters, **kw)
        if monitor.method == "restart 1":
            monitor.stop("the bound grows without limit")
            outcome.value = -1e70
        return outcome

    monkeypatch.setattr(restarts, "fit_profile", runaway)
    result = model(40).optimize_restarts(2)
    assert result.bound < 1e3 and result.converged
    assert any("restart 1 stopped: the bound grows" in note for note in result.warnings)


def test_restarts_that_all_go_astray_begin_again(monkeypatch):
    from chainedgp.inference import restarts

    fit = restarts.fit_profile

    def astray(one, monitor, max_iters, **kw):
        outcome = fit(one, monitor, 1, **kw)
        for mean in one.parts.means:
            mean.set_constant(20.0)
        outcome.value = -one.bound()
        return outcome

    monkeypatch.setattr(restarts, "fit_profile", astray)
    m = model(40)
    result = m.optimize_restarts(2)
    assert any("began again" in note for note in result.warnings)
    assert result.converged and result.bound > 40 * m.problem.starts.score


def test_restarts_keep_inside_bounds_and_tell_bounds_without_the_prior():
    m = model(40)
    m.kernels[0].lengthscale.constrain_bounded(0.5, 3.0)
    m.kernels[1].variance.fix()
    start, free = m.kernels[0].lengthscale.values.copy(), m.kernels[1].lengthscale.values.copy()
    fixed = float(m.kernels[1].variance.values[0])
    for seed in range(20):
        one = m.copy()
        perturb(one.problem, np.random.default_rng(seed))
        moved = one.kernels[0].lengthscale.values
        assert ((moved > 0.5) & (moved < 3.0)).all() and (moved != start).all()
        assert float(one.kernels[1].variance.values[0]) == fixed
        assert (one.kernels[1].lengthscale.values != free).all()
    m.set_prior(".*lengthscale", priors.LogNormal(0.0, 0.1))
    result = m.optimize_restarts(2)
    assert abs(m.log_prior()) > 1.0
    assert min(abs(point.bound - result.bound) for point in result.trace) < 1e-5
    assert result.log_prior == m.log_prior() and "log-prior" in str(result)
    assert f"{result.bound:.2f}" in result.warnings[0]


class _Zero:
    method = "restart 0"
    stop_reason = None


# ---- batches ----


def gradient_of_rows(m, rows, scale):
    evaluator = Evaluator([Shard(m._data[rows])])
    evaluator.set_hyperparameters(m.problem.parts.theta(), scale)
    state = evaluator.evaluate(m.problem.parts.q())
    evaluator.accept(0.0)
    m.problem.write_gradient(evaluator.gradient(state, sites_fixed=False), state)
    return np.array(m.gradient), state.bound


@pytest.mark.parametrize("censored", [False, True])
def test_batch_gradients_average_to_the_full_gradient(censored):
    X, y = data(60)
    metadata = {"weights": np.linspace(0.5, 1.5, 60)}
    likelihood = likelihoods.HetStudentT()
    if censored:
        likelihood, y = likelihoods.LogLogisticSurvival(), np.exp(y)
        metadata["censored"] = (np.arange(60) % 3 == 0).astype(float)
    m = cgp.ChainedGP(X, y, likelihood, num_inducing=8, Y_metadata=metadata)
    m.optimize(only="variational")
    m.q_mu[:] = m.q_mu.values + 0.1
    full, bound = gradient_of_rows(m, np.arange(60), 1.0)
    parts = np.random.default_rng(0).permutation(60).reshape(4, 15)
    gradients, bounds = zip(*(gradient_of_rows(m, rows, 4.0) for rows in parts), strict=True)
    np.testing.assert_allclose(np.mean(gradients, 0), full, rtol=1e-10, atol=1e-10)
    assert np.mean(bounds) == pytest.approx(bound, rel=1e-12)
    wrong = [gradient_of_rows(m, rows, 3.9)[0] for rows in parts]
    assert np.abs(np.mean(wrong, 0) - full).max() > 1e-3


def test_batches_cover_every_row_once_in_an_epoch(tmp_path):
    m = model(103)
    for X in (m.X, np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=m.X.shape)):
        m.problem.rows = replace(m.problem.rows, X=X)
        batches = Batches(m.problem, Settings(10, 1.0, np.random.default_rng(0), holdout=0.2))
        epoch = batches.epochs()
        rows = np.concatenate([next(epoch) for _ in range(9)])
        assert sorted([*rows, *batches.held]) == list(range(103))
        assert len(batches.held) == 21


class InOrder:
    """A generator that shuffles nothing, and whose whole numbers are all of them in turn."""

    def __init__(self):
        self.count = -1

    def permutation(self, given):
        return np.arange(given) if np.ndim(given) == 0 else given

    def integers(self, high):
        self.count += 1
        return self.count % high


@pytest.mark.parametrize("N", [10, 12, 103])
def test_every_row_of_a_memmap_has_the_same_weight_in_batches(N, tmp_path):
    """The last block of an epoch is shorter, and every row is as often in it as any other."""
    m = model(N)
    X = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=m.X.shape)
    m.problem.rows = replace(m.problem.rows, X=X)
    batches = Batches(m.problem, Settings(4, 1.0, InOrder()))
    epochs, per_epoch = batches.epochs(), -(-N // 4)
    weights = np.zeros(N)
    for _ in range(N * per_epoch):
        rows = next(epochs)
        assert np.count_nonzero(np.diff(rows) != 1) <= 1  # contiguous, but once around the end
        weights[rows] += batches.scale(rows)
    np.testing.assert_allclose(weights, weights.mean(), rtol=1e-12)


def test_a_batch_that_is_not_finite_is_passed_over(monkeypatch):
    """One such batch may not stop the step rule, whose averages would stay nan for ever."""
    evaluate, calls = Evaluator.evaluate, []

    def broken(self, *args, **kw):
        state = evaluate(self, *args, **kw)
        if kw.get("gradient"):
            calls.append(state)
            if len(calls) == 2:
                state.evaluation.gradients.parts[0].kernel[:] = np.nan
                state.evaluation.E = np.nan
        return state

    def fitted():
        m = model(400)
        m.optimize(only="variational")  # then there is no fit to a subset before the batches
        return m.optimize("natgrad", epochs=20.0, batch_size=100, rng=0)

    usual = fitted()
    monkeypatch.setattr(Evaluator, "evaluate", broken)
    result = fitted()
    assert len(calls) > 20
    assert np.isfinite(result.estimates).all()
    monkeypatch.setattr(steps, "THETA_RATE", 0.0)  # as if the rule had stopped
    gained = usual.bound - fitted().bound
    assert gained > 10.0 and abs(result.bound - usual.bound) < 0.2 * gained


@pytest.mark.long
def test_natgrad_on_batches_comes_near_the_full_fit():
    m, reference = model(600), model(600)
    best = reference.optimize().bound
    result = m.optimize(batch_size=100, epochs=15, rng=0)
    assert result.method == "natgrad" and result.status == "finished" and not result.converged
    assert best - result.bound < 6.0
    estimate, error = result.estimates[-1]
    assert abs(estimate - result.bound) < 6 * error
    again = model(600)
    assert again.optimize(batch_size=100, epochs=15, rng=0).bound == result.bound


@pytest.mark.parametrize("method", steps.RULES)
def test_step_rules_raise_the_bound(method):
    m = model(200)
    start = m.log_likelihood()
    result = m.optimize(method, batch_size=50, epochs=20, rng=0)
    assert result.bound > start + 20.0
    assert len(result.estimates) == 20


def test_held_out_score_and_patience():
    m = model(400)
    result = m.optimize(
        "adam", batch_size=50, epochs=60, rng=0, holdout=0.2, patience=2, learning_rate=0.1
    )
    scores = result.held_out
    assert 3 <= len(scores) < 50
    assert np.argmin(scores) == len(scores) - 3  # two epochs without a better one
    assert result.reason == "no better held-out score for 2 epochs"
    assert result.status == "finished" and result.iterations == 7 * len(scores)
    with pytest.raises(InputError, match="holdout"):
        m.optimize("adam", patience=2)
    with pytest.raises(InputError, match="stochastic"):
        m.optimize(epochs=2)
    with pytest.raises(InputError, match="epochs"):
        m.optimize("adam", epochs=0)


@pytest.mark.parametrize("method", ["natgrad", "adam"])
def test_a_stochastic_fit_tells_how_far_it_came(method):
    m = model(200)
    m.optimize(only="variational")  # natural gradients then need no first fit to some rows
    result = m.optimize(method, batch_size=50, epochs=30, rng=0, callback=lambda point: True)
    assert result.status == "stopped" and result.reason == "stopped by the callback"
    assert result.iterations == 4 and len(result.trace) == 1
    # one pass for the bound of the start, which the model never ends below, and one for the epoch
    assert result.trace[0].likelihood_evaluations == pytest.approx(2.0)
    assert result.trace[0].theta_evaluations == 4


def test_rows_that_are_held_out_are_not_fitted_to(monkeypatch):
    used, shard, score = [], Problem.shard, Batches.held_out_score

    def watched(self, rows, **kw):
        used.append(rows)
        return shard(self, rows, **kw)

    def scored(self):
        fitted = [rows for rows in used if not np.array_equal(rows, self.held)]
        assert len(fitted) > 3 and not np.isin(np.concatenate(fitted), self.held).any()
        return score(self)

    monkeypatch.setattr(Problem, "shard", watched)
    monkeypatch.setattr(Batches, "held_out_score", scored)
    result = model(200).optimize(batch_size=50, epochs=200, rng=0, holdout=0.25, patience=3)
    assert len(result.held_out) > 1


@pytest.mark.parametrize("room", [True, False], ids=["room", "full disk"])
def test_sites_of_rows_on_disk_are_on_disk(tmp_path, monkeypatch, room):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(sites_module, "DISK_BYTES", 0)
    if not room:
        monkeypatch.setattr(sites_module.os, "posix_fallocate", full)
    m, again = model(80), model(80)
    X = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=m.X.shape)
    X[:] = m.X
    again.set_data(X, m.Y)
    results = [one.optimize(only="variational") for one in (m, again)]
    assert results[0].bound == results[1].bound
    for one, on_disk in ((m, False), (again, room)):
        array = one.problem.evaluator.shards[0].sites.current
        assert np.abs(array).max() > 0.0 and isinstance(array.base, np.memmap) == on_disk
    assert copy.deepcopy(again).log_likelihood() == again.log_likelihood()


def test_batches_with_weights_start_from_a_part_of_the_rows():
    m = model(200)
    m.set_data(m.X, m.Y, {"weights": np.linspace(0.5, 1.5, 200)})
    result = m.optimize(batch_size=50, epochs=3, rng=0, holdout=0.2)
    assert result.status == "finished" and np.isfinite(result.bound)


# ---- converged means that going on gains nothing ----


def nearly_constant(seed):
    """Most targets are the same, or all but a millionth: a noise vanishes, or nearly so."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([30, 60, 120]))
    X, y = rng.uniform(-2, 2, (n, 1)), np.full(n, 3.0)
    if seed % 3 == 2:
        y = np.round(3 + 0.3 * rng.standard_normal(n))
    else:
        some = rng.choice(n, int(rng.integers(1, n // 4)), replace=False)
        y += (seed % 3) * 1e-6 * rng.standard_normal(n)
        y[some] += rng.standard_normal(some.size)
    likelihood = (likelihoods.HetLaplace, likelihoods.HetStudentT)[seed // 3 % 2]()
    return cgp.ChainedGP(X, y, likelihood, num_inducing=20, ties=None)


def wide_inputs(seed):
    """Two of sixty inputs matter, and there are few rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((108, 60))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * np.exp(0.5 * X[:, 2]) * rng.standard_normal(108)
    makers = (likelihoods.HetGaussian, likelihoods.HetStudentT, likelihoods.HetLaplace)
    return cgp.ChainedGP(X, y, makers[seed % 3](), num_inducing=30)


def check_that_converged_is_true(m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = m.optimize()
        again = m.optimize()
    assert not result.converged or again.bound < result.bound + 0.3, (result, again)


@pytest.mark.parametrize("seed", [0, 30, 32])
def test_converged_is_true_of_nearly_constant_targets(seed):
    check_that_converged_is_true(nearly_constant(seed))


@pytest.mark.slow
@pytest.mark.parametrize("make", [nearly_constant, wide_inputs])
@pytest.mark.parametrize("seed", range(60))
def test_converged_is_true(make, seed):
    check_that_converged_is_true(make(seed))


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_little_noise_is_no_vanishing_noise(noise):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (100, 1))
    y = np.sin(3 * X[:, 0]) + noise * np.exp(0.3 * X[:, 0]) * rng.standard_normal(100)
    assert cgp.ChainedGP(X, y, likelihoods.HetLaplace(), num_inducing=20).optimize().converged


def test_a_search_that_ends_where_it_is_steep_has_not_converged():
    class Kink:
        """1000 |x|, whose slope at 0 is taken from the right."""

        def value(self, x):
            self.x = x
            return 1e3 * float(np.abs(x).sum())

        def gradient(self):
            return np.where(self.x >= 0.0, 1e3, -1e3)

        def accept(self, x, value):
            return value

    end = lbfgs.minimise(Kink(), np.zeros(1), max_iters=100)
    assert not end.converged and "slopes of 1.0e+03" in end.reason
    assert lbfgs.minimise(Kink(), np.zeros(1), max_iters=100, steep=np.inf).converged


# ---- results, callbacks, interruption, checkpoints ----


def test_not_converged_is_said():
    m = model()
    with pytest.warns(ConvergenceWarning, match="2 iterations"):
        result = m.optimize(max_iters=2)
    assert not result.converged and result.status == "stopped" and result.warnings
    assert "stopped" in str(result)


def test_a_callback_can_stop():
    m, seen = model(), []
    result = m.optimize(callback=lambda point: seen.append(point) or len(seen) == 4)
    assert len(result.trace) == 4 and not result.converged
    assert "callback" in result.reason


@pytest.mark.parametrize("method", ["profile", "lbfgsb", "adam", "natgrad"])
def test_ctrl_c_returns_the_best_model_so_far(method):
    m, count = model(200), []

    def interrupt(point):
        count.append(point.bound)
        if len(count) == (1 if method == "natgrad" else 3):
            raise KeyboardInterrupt

    batch = {"batch_size": 50, "epochs": 20, "rng": 0} if method in ("adam", "natgrad") else {}
    result = m.optimize(method, callback=interrupt, **batch)
    assert result.status == "interrupted"
    assert np.isfinite(result.bound) and np.isfinite(m.param_array).all()
    if not batch:
        assert result.bound >= max(count) - 1e-6


def test_progress_shows_only_when_asked(capsys):
    model(40).optimize(messages=True)
    assert "bound" in capsys.readouterr().err
    model(40).optimize()
    assert capsys.readouterr().err == ""


def fixed_tails():
    """ν is not to be found from Gaussian noise: two fits may stop 0.05 nat apart."""
    m = model(likelihood=likelihoods.HetStudentT(), kernels=kernels.RBF(2, ARD=True))
    m.likelihood.nu.fix()
    return m


KILLED = """
import os, signal
from test_fitting import fixed_tails

count = []

def kill(point):
    count.append(point)
    if len(count) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

fixed_tails().optimize(
    checkpoint={path!r}, checkpoint_every=2, callback=kill
)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.long
def test_a_killed_fit_goes_on_from_its_checkpoint(tmp_path):
    path = str(tmp_path / "fit.npz")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = textwrap.dedent(KILLED).format(path=path)
    end = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert end.returncode == -signal.SIGKILL, end.stderr.decode()
    m = cgp.load(path)
    bound = fixed_tails().optimize(tolerance=1e-3).bound
    assert m.log_likelihood() < bound - 0.1  # it was killed in the middle
    assert m.optimize(tolerance=1e-3).bound == pytest.approx(bound, abs=1e-3)


# ---- truth ----


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


def test_beta_recovers_both_latents():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 1))
    f, g = 1.0 + np.sin(6 * X[:, 0]), 0.5 + np.cos(9 * X[:, 0])
    y = np.clip(rng.beta(np.exp(f), np.exp(g)), 1e-12, 1 - 1e-12)
    m = cgp.ChainedGP(X, y, likelihoods.Beta(), num_inducing=25)
    m.optimize()
    mean, _ = m.predict_latents(X)
    assert correlation(mean[:, 0], f) > 0.9 and correlation(mean[:, 1], g) > 0.9


@pytest.mark.slow
def test_additive_poisson_separates_its_processes():
    X, Y, *truth = cgp.datasets.additive_poisson_toy()
    m = cgp.ChainedGP(X, Y, likelihoods.AdditivePoisson(), num_inducing=60)
    m.optimize()
    mean, _ = m.predict_latents(X)
    table = np.array([[correlation(mean[:, i], np.ravel(t)) for t in truth] for i in range(2)])
    assert max(min(table[0, 0], table[1, 1]), min(table[0, 1], table[1, 0])) > 0.9


# ---- starts that hurt ----

HARD = {
    "X times 1e6": lambda X, y: (1e6 * X, y),
    "y times 1e-6": lambda X, y: (X, 1e-6 * y),
    "y times 1e6": lambda X, y: (X, 1e6 * y),
    "duplicate rows": lambda X, y: (np.repeat(X[:15], 3, 0), np.repeat(y[:15], 3)),
    "constant y": lambda X, y: (X, np.full(len(y), 2.0)),
    "one row": lambda X, y: (X[:1], y[:1]),
    "M > N": lambda X, y: (X[:8], y[:8]),
    "constant column": lambda X, y: (np.c_[X, np.full(len(y), 3.0)], y),
    "outliers": lambda X, y: (X, np.where(np.arange(len(y)) % 40 == 7, 1e4, y)),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize(
    "likelihood", ["HetGaussian", pytest.param("HetStudentT", marks=pytest.mark.long)]
)
def test_hard_data_fit_no_worse_than_constant_latents(name, likelihood):
    X, y = HARD[name](*data(100))
    lik = getattr(likelihoods, likelihood)()
    with warnings.catch_warnings():
        if name == "duplicate rows":
            warnings.filterwarnings("ignore", ".*different values", TargetWarning)
        m = cgp.ChainedGP(X, y, lik, num_inducing=20)
        if name in ("constant y", "one row"):  # nothing holds the noise above 0
            warnings.filterwarnings("ignore", "profile stopped.*without limit", ConvergenceWarning)
        # with outliers no lengthscale of the mean is wrong, with copies of rows the jitter alone
        # holds the noise above 0: the way there may be long
        if name in ("outliers", "duplicate rows"):
            way = "profile stopped.*(not enough|too steep)"
            warnings.filterwarnings("ignore", way, ConvergenceWarning)
        result = m.optimize(max_iters=200)
    assert np.isfinite(result.bound) and np.isfinite(m.param_array).all()
    kw = m.likelihood.parameter_values()
    constants = lik.initial_latents(y, **lik.parameter_values())
    flat = lik.log_density(y, *(np.full(len(y), c) for c in constants), **lik.parameter_values())
    assert np.isfinite(flat).all() and kw is not None
    score = m.log_predictive_density(X, y)
    assert np.isfinite(score).all()
    assert score.mean() >= flat.mean() - 0.05


def test_inputs_of_any_scale_give_the_same_fit():
    X, y = data(100)
    bounds = [
        cgp.ChainedGP(s * X, y, likelihoods.HetGaussian(), num_inducing=12).optimize().bound
        for s in (1e-4, 1.0, 1e6)
    ]
    np.testing.assert_allclose(bounds, bounds[1], atol=0.02)


def test_targets_of_any_scale_give_the_same_fit():
    X, y = data(100)
    bounds = [
        cgp.ChainedGP(X, s * y, likelihoods.HetGaussian(), num_inducing=12).optimize().bound
        + 100 * np.log(s)
        for s in (1e-6, 1.0, 1e6)
    ]
    np.testing.assert_allclose(bounds, bounds[1], atol=0.1)


def test_kernels_and_means_are_used_as_given():
    X, y = data(50)
    kernel = kernels.RBF(2, 2.0, [0.3, 0.7], ARD=True) + kernels.Bias(2, 0.1)
    m = cgp.ChainedGP(
        X, y, likelihoods.HetGaussian(), kernels=kernel, mean_functions=means.Zero(), Z=X[:5]
    )
    np.testing.assert_array_equal(m.kernels[1].rbf.lengthscale.values, [0.3, 0.7])
    np.testing.assert_array_equal(m.Z.values, X[:5])


# ---- fits that have gone astray ----


@pytest.mark.parametrize("method", ["profile", "lbfgsb"])
def test_a_fit_worse_than_constants_begins_again(method):
    """All times are censored and the prior is absurd: the bound leads to P(survival) = ½."""
    X = 1e6 * np.linspace(1.0, 2.0, 12)[:, None]
    censored = {"censored": np.ones(12)}
    m = cgp.ChainedGP(
        X, np.full(12, 2.0), likelihoods.LogLogistic(), kernels.Linear(1, 1.0), Y_metadata=censored
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = m.optimize(method)
    assert result.bound > -0.02 * 12 + m.problem.starts.score * 12
    trace = result.trace_array()[:, 0]
    assert (np.diff(trace) > -1e-6).all()


def test_a_good_fit_is_not_begun_again():
    assert not any("began again" in note for note in model().optimize().warnings)


def test_a_start_far_too_wide_is_narrowed_and_said():
    """Without it this fit ends with constant latents, 30 nats lower."""
    X, y = data(60)
    wide, usual = (
        cgp.ChainedGP(
            X, y, likelihoods.HetGaussian(), kernels.RBF(2, v, 1.0, ARD=True), num_inducing=10
        )
        for v in (1e9, 1.0)
    )
    result = wide.optimize()
    assert any("far too large" in note for note in result.warnings)
    assert result.bound > usual.optimize().bound - 1.0


class OtherNames(kernels.Kernel):
    """A kernel of this package whose leaves have other names."""

    NAMES = {"variance": "sigma2", "lengthscale": "reach", "period": "years"}

    def __init__(self, shipped, name="other"):
        super().__init__(shipped.input_dim, name)
        self.make = partial(type(shipped), shipped.input_dim)
        for leaf in shipped.parameters:
            self.link_parameter(Param(self.NAMES[leaf.name], leaf.values.copy(), Logexp()))

    def _evaluate(self, X, Z):
        return self.make(*(leaf.values for leaf in self.parameters)).evaluate(X, Z)

    def _evaluate_diag(self, X):
        return self.make(*(leaf.values for leaf in self.parameters)).evaluate_diag(X)


class OtherRBF(OtherNames):
    roles = {"sigma2": Role.VARIANCE, "reach": Role.LENGTHSCALE}


class OtherPeriodic(OtherNames):
    roles = {**OtherRBF.roles, "years": Role.PERIOD}


@pytest.mark.parametrize(
    ("likelihood", "variance"),
    [("HetGaussian", 1e9), pytest.param("AdditivePoisson", 1.0, marks=pytest.mark.long)],
)
def test_a_kernel_with_other_names_and_declared_roles_fits_as_ours_does(likelihood, variance):
    X, y = data(40)
    y = y if likelihood == "HetGaussian" else np.round(np.exp(y))
    shipped = kernels.RBF(2, variance, 1.0)
    options = {"num_inducing": 6, "posterior": "mean_field"}
    own, ours, without = (
        cgp.ChainedGP(X, y, getattr(likelihoods, likelihood)(), kernel, **options)
        for kernel in (OtherRBF(shipped), shipped, OtherNames(shipped))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = [m.optimize(max_iters=50) for m in (own, ours)]
        starts = {}
        with contextlib.suppress(NumericalError):  # the start that nothing shrinks is too wide
            starts = without.optimize(max_iters=50).starts
    notes = [[note.replace("reach", "lengthscale") for note in r.warnings] for r in results]
    assert notes[0] == notes[1]
    assert results[0].bound == pytest.approx(results[1].bound, rel=1e-10)
    for one, two in zip(own.kernels, ours.kernels, strict=True):
        np.testing.assert_allclose(one.param_array, two.param_array, rtol=1e-7)
    assert results[0].starts == pytest.approx(results[1].starts, rel=1e-10)
    assert results[1].starts != pytest.approx(starts, rel=1e-10)


def test_a_period_by_another_name_has_a_fine_scale_too():
    X = np.linspace(0.0, 1000.0, 80)[:, None]
    shipped = kernels.Periodic(1, 1.0, 1.5, 1.0)
    found = []
    for kernel in (shipped, OtherPeriodic(shipped), OtherNames(shipped)):
        model = cgp.ChainedGP(X, np.sin(X), likelihoods.Gaussian(), kernel, num_inducing=5)
        vector = model.problem.free_vector()
        period = model.kernels[0].parameters[1]
        parts = vector._by_block(vector.read())
        found += [float(part[0]) for block, part in parts if block.leaf is period]
    assert found[0] == found[1] != found[2] == np.log(1.5)


@pytest.mark.parametrize("mean", [means.Constant(5.0), means.Linear(2, bias=5.0)])
def test_models_are_compared_with_constants_and_made_nearly_constant(mean):
    X, y = data(60)
    weights = np.where(np.arange(60) % 2, 3.0, 1.0)
    lik = likelihoods.HetGaussian()
    m = cgp.ChainedGP(
        X, y, lik, kernels.RBF(2, 30.0), mean_functions=mean, Y_metadata={"weights": weights}
    )
    flat = weights @ lik.log_density(y, *(np.full(60, c) for c in lik.initial_latents(y)))
    slack = 0.02 * weights.sum()
    assert worse_than_constants(m.problem) and m.log_likelihood() < flat - slack
    set_nearly_constant(m.problem, 0.0)
    assert not worse_than_constants(m.problem)
    assert flat - slack <= m.log_likelihood() <= flat


def test_the_period_of_many_periods_has_a_fine_scale():
    X = np.linspace(0.0, 1000.0, 80)[:, None]
    y = np.sin(2.0 * np.pi * X[:, 0] / 1.5) + 0.1 * np.random.default_rng(0).normal(size=80)
    kernel = kernels.Periodic(1, 1.0, 1.5, 1.0)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), kernel, num_inducing=20)
    vector = m.problem.free_vector()
    before = vector.read()
    changed = before.copy()
    names = [block.leaf.name for block, part in vector._by_block(before) for _ in part]
    changed[names.index("period")] += 0.1
    vector.write(changed)
    moved = float(m.kernels[0].period.values[0])
    assert 0.0 < (moved - 1.5) / 1.5 * X.std() / 1.5 < 0.2  # the shift at the end, in periods
    np.testing.assert_allclose(vector.read(), changed)
    vector.write(before)
    assert m.checkgrad()


def test_a_free_variance_beside_a_wide_fixed_one_is_left():
    X, y = data(60)
    kernel = kernels.RBF(2, variance=1e4, lengthscale=30.0) + kernels.RBF(2, lengthscale=0.5)
    kernel.parts[0].variance.fix()
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), kernel, num_inducing=20)
    result = m.optimize()
    assert m.kernels[0].parts[1].variance.values[0] > 1e-6
    assert not any("far too large" in note for note in result.warnings)


def test_a_wide_free_variance_comes_down_to_a_fixed_one():
    X, y = data(60)
    kernel = kernels.RBF(2, variance=1e4) + kernels.RBF(2, variance=1e9)
    kernel.parts[0].variance.fix()
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), kernel, num_inducing=5)
    assert shrink_variances(m.problem, 10.0)
    most = (10.0 * m.problem.starts.scales[0]) ** 2
    assert 0.3 * most < m.kernels[0].parts[1].variance.values[0] <= most
    endless = kernels.Linear(2, 1e300) + kernels.RBF(2)  # its variance overflows
    with np.errstate(over="ignore"):
        m = cgp.ChainedGP(1e10 * X, y, likelihoods.Gaussian(), endless, num_inducing=5)
    assert shrink_variances(m.problem, 10.0)
    assert np.mean(m.kernels[0].Kdiag(m.X)) < 2.0 * (10.0 * m.problem.starts.scales[0]) ** 2


def test_new_data_are_compared_with_their_own_constants():
    X, y = data(60)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=10)
    m.optimize()
    variance = float(m.likelihood.variance[0])
    m.set_data(X[:40], 100.0 * y[:40])
    assert float(m.likelihood.variance[0]) == variance  # parameters stay
    result = m.optimize()
    again = cgp.ChainedGP(X[:40], 100.0 * y[:40], likelihoods.Gaussian(), num_inducing=10)
    assert m.problem.starts.scales == pytest.approx(again.problem.starts.scales)
    assert m.problem.starts.mean_weight == 1.0 and m.problem.evaluator.num_rows == 40
    assert not any("constant latents" in note for note in result.warnings)


def test_large_weights_are_no_vanishing_noise():
    X, y = data(60)
    weights = {"weights": np.full(60, 40.0)}
    result = cgp.ChainedGP(
        X, y, likelihoods.Gaussian(), num_inducing=10, Y_metadata=weights
    ).optimize()
    assert result.converged


def test_a_line_far_from_zero_is_found_from_its_level_and_slope():
    rng = np.random.default_rng(0)
    X = 1e6 + rng.uniform(-10.0, 10.0, (80, 1))
    y = 3.0 * (X[:, 0] - 1e6) + rng.standard_normal(80)
    line = cgp.means.Linear(1)
    m = cgp.ChainedGP(
        X, y, likelihoods.Gaussian(), mean_functions=line, num_inducing=5, priors=None
    )
    vector = m.problem.free_vector()
    x = vector.read() + 0.1
    vector.write(x)
    np.testing.assert_allclose(vector.read(), x, rtol=1e-8)
    ends = []
    for step in (1e-5, -1e-5):
        vector.write(x + step * np.cos(np.arange(x.size)))
        ends.append(m.log_likelihood())
    vector.write(x)
    m.objective_function_gradients()
    slope = vector.gradient() @ np.cos(np.arange(x.size))
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)
    m.optimize()
    (mean,), line = m.mean_functions, np.polyfit(X[:, 0] - 1e6, y, 1)
    assert mean.weights.values == pytest.approx(line[:1], rel=1e-2)
    assert mean.evaluate(np.array([[1e6]]))[0] == pytest.approx(line[1:], abs=0.05)


def test_rows_at_which_the_noise_vanishes_are_told_of():
    X, y = data(60)
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=20)
    bound = m.optimize().bound
    assert rows_without_noise(m.problem).size == 0 and not grows_without_limit(m.problem, bound)
    sites = m.problem.evaluator.shards[0].sites.current
    sites[1, 0, [3, 7]] = 1e27 / m.problem.starts.scales[0] ** 2
    assert rows_without_noise(m.problem).tolist() == [3, 7]
    assert grows_without_limit(m.problem, bound)
    assert not grows_without_limit(m.problem, -1e6)  # a start with far too little noise


def test_natural_gradients_leave_q_settled():
    X, y = data(3000)
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=10)
    bound = m.optimize("natgrad", epochs=2.0, batch_size=100, rng=0).bound
    assert m.optimize(only="variational").bound - bound < 2e-5 * 3000


@pytest.mark.parametrize(
    ("name", "method"),
    [("HetGaussian", "profile"), ("HetGaussian", "lbfgsb"), ("AdditivePoisson", "profile")],
)
def test_a_callback_sees_hyperparameters_and_q_of_one_point_and_changes_nothing(name, method):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (40, 1))
    y = rng.poisson(3 + 2 * np.sin(X[:, 0])).astype(float)

    def fitted(callback):
        model = cgp.ChainedGP(X, y, getattr(likelihoods, name)(), num_inducing=6, ties=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.optimize(method, max_iters=12, callback=partial(callback, model))

    def look(model, point):
        model.predict(X[:3])
        gaps.append(abs(model.log_likelihood() - point.bound))

    gaps = []
    assert fitted(look).bound == fitted(lambda model, point: None).bound
    assert len(gaps) > 5 and max(gaps) < 1e-9


@pytest.mark.parametrize("method", ["natgrad", "adam", "adagrad"])
def test_batches_never_end_below_their_start(method):
    """Steps that are far too large make every epoch worse: the model is back at the start."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    m = cgp.ChainedGP(
        X, np.sin(2.0 * X) + 0.1 * rng.standard_normal((60, 1)), likelihoods.HetGaussian()
    )
    m.optimize()
    best = m.log_likelihood() + m.log_prior()
    with pytest.warns(ConvergenceWarning, match="no epoch was better than the start"):
        m.optimize(method, batch_size=5, epochs=2, rng=0, learning_rate=2.0)
    assert m.log_likelihood() + m.log_prior() == pytest.approx(best, abs=1e-3)


def test_batches_without_a_number_of_epochs_end_by_themselves():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (600, 1))
    Y = np.sin(2.0 * X) + 0.2 * rng.standard_normal((600, 1))
    m = cgp.ChainedGP(X, Y, likelihoods.HetGaussian(), num_inducing=10)
    result = m.optimize(batch_size=100, rng=0)
    assert result.status == "finished" and "gained less than" in result.reason
    assert 3 <= len(result.trace) < 60
    whole = cgp.ChainedGP(X, Y, likelihoods.HetGaussian(), num_inducing=10)
    assert whole.optimize().bound - result.bound < 1e-2 * 600
