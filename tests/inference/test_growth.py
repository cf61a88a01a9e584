"""How many inducing inputs a fit uses where nobody said: what is added, when, and what stays."""

import os
import pickle
import signal

import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.errors import NumericalError
from chainedgp.inference import growth
from chainedgp.inference.inducing import rows_to_add
from chainedgp.inference.interrupts import interrupts_wait


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, (n, 1)), axis=0)
    return X, np.sin(8 * X[:, 0]) + 0.1 * np.exp(0.3 * X[:, 0]) * rng.standard_normal(n)


def small(M=12, **options):
    """A model that begins with M inducing inputs, too few, and may grow."""
    m = cgp.ChainedGP(*rows(), L.HetGaussian(), num_inducing=M, **options)
    m._parts.open_inducing = True
    return m


@pytest.fixture(scope="module")
def grown():
    m = small()
    m.optimize()
    return m


def test_rows_are_added_until_they_cost_little(grown, monkeypatch):
    given = cgp.ChainedGP(*rows(), L.HetGaussian(), num_inducing=12)
    given.optimize()
    assert given.Z.shape == (12, 1)
    M = len(grown.Z)
    assert 12 < M <= 60
    assert grown.last_result.converged and grown.last_result.bound > given.last_result.bound + 1.0
    full = cgp.ChainedGP(*rows(), L.HetGaussian(), num_inducing=60)
    assert full.optimize().bound < grown.last_result.bound + 0.5
    # What is added are rows, none twice; they are moved only if there are few at the end.
    monkeypatch.setattr(growth, "FEW", 0)
    m = small()
    m.optimize()
    added = m.Z.values[12:, 0]
    assert len(added) and np.isin(added, rows()[0]).all() and len(set(added)) == len(added)


def test_a_number_or_inputs_that_were_given_stay():
    X, y = rows(140)
    assert cgp.ChainedGP(X, y, L.Gaussian()).problem.has_open_inducing
    assert not cgp.ChainedGP(X, y, L.Gaussian(), num_inducing=7).problem.has_open_inducing
    assert not cgp.ChainedGP(X, y, L.Gaussian(), Z=X[:9]).problem.has_open_inducing
    assert not cgp.ChainedGP(X, y, L.Gaussian(), Z=X[:9], num_inducing=None)._parts.open_inducing


def test_a_default_model_grows_beyond_its_first_inducing_inputs():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 1, 240)[:, None]
    y = np.sin(150 * X[:, 0] + 30 * X[:, 0] ** 2) + 0.05 * rng.standard_normal(240)
    kernels = cgp.kernels.RBF(1, lengthscale=0.01)
    m = cgp.ChainedGP(X, y, L.Gaussian(), kernels)
    assert m.Z.shape == (100, 1)
    seen = []
    m.optimize(callback=lambda point: seen.append((len(m.Z), point.bound, m.log_likelihood())))
    sizes = [M for M, _, _ in seen]
    assert sizes[0] == 100 < sizes[-1] == len(m.Z) <= 240
    for _, told, bound in seen:  # A callback sees θ and q of its point, before and after.
        assert bound == pytest.approx(told, abs=1e-6 * 240)
    header = dict(m._header())
    assert f"{len(m.Z)} inducing inputs" in header["Data"]


@pytest.mark.parametrize(
    ("n", "posterior", "most"),
    [(50, "mean_field", 100), (150, "mean_field", 150), (1000, "mean_field", 400),
     (10_000, "mean_field", 200), (10**6, "mean_field", 100), (10_000, "joint", 100),
     (1000, "joint", 316)],
)  # fmt: skip
def test_the_budget(n, posterior, most):
    X, y = np.linspace(0, 1, n)[:, None], np.zeros(n)
    y[::2] = 1.0
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=2, posterior=posterior, ties=None)
    assert growth.most_inducing(m.problem) == most


def test_the_costliest_rows_are_chosen_one_after_another(grown):
    """Against dense algebra: every choice is the row of the largest ½ Σ_j λ_ij × what is left."""
    m = small()
    m.optimize(only="variational")
    X, (Z,) = m.X, m._parts.Z
    sites = m.problem.evaluator.shards[0].sites.current
    weights = 0.5 * np.maximum(m._family.precisions(sites), 0.0)
    chosen = rows_to_add(m.problem, 6, 4, np.inf)
    assert len(chosen) == 4
    points = Z.values
    for row in chosen:
        costs = 0.0
        for kernel, weight in zip(m.kernels, weights, strict=True):
            K = kernel.K(points, points)
            K += 1e-8 * np.trace(K) / len(K) * np.eye(len(K))
            Kuf = kernel.K(points, X)
            costs += weight * (kernel.Kdiag(X) - (Kuf * np.linalg.solve(K, Kuf)).sum(0))
        assert X[np.argmax(costs)] == row
        points = np.vstack([points, row])
    all_of_them = rows_to_add(m.problem, 1000, 0, 0.0)
    assert len(np.unique(all_of_them)) == len(all_of_them) <= 60


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_new_leaves_are_those_of_a_model_with_as_many_inducing_inputs():
    m = small()
    m.optimize(max_iters=3)
    Z = np.vstack([m.Z.values, rows()[0][::5]])
    other = cgp.ChainedGP(*rows(), L.HetGaussian(), Z=Z)
    for mine, theirs in zip(m._parts.others, other._parts.others, strict=True):
        theirs[:] = mine.values
    other.optimize(only="variational")
    old = m.Z
    m.problem.use_inducing(Z, other._parts.q())
    assert m.Z is not old and m.Z is m._parts.Z[0] and m.size == other.size
    assert m.parameter_names() == other.parameter_names()
    np.testing.assert_array_equal(m.param_array, other.param_array)
    assert m.log_likelihood() == pytest.approx(other.log_likelihood(), rel=1e-12)
    np.testing.assert_allclose(m.predict(Z)[0], other.predict(Z)[0], rtol=1e-12)
    slopes = [each.objective_function_gradients() for each in (m, other)]
    np.testing.assert_allclose(*slopes, rtol=1e-7, atol=1e-7)
    m.Z.fix()  # paramz knows the new leaves
    assert m.optimizer_array.size == m.size - m.Z.size
    m["Z"] = Z + 0.01
    np.testing.assert_array_equal(m._parts.Z[0].values, Z + 0.01)


def test_a_grown_model_is_copied_stored_and_fitted_again(grown, tmp_path):
    bound = grown.log_likelihood()
    grown.save(tmp_path / "m.cgp")
    stored = cgp.load(tmp_path / "m.cgp")
    for other in (grown.copy(), pickle.loads(pickle.dumps(grown)), stored):
        assert other.Z.shape == grown.Z.shape
        assert other.log_likelihood() == pytest.approx(bound, rel=1e-9)
        assert other.problem.has_open_inducing
    assert stored.optimize().bound >= bound - 1e-5
    stored.set_data(*rows(80, seed=1))
    assert stored.optimize().converged
    fixed = cgp.ChainedGP(*rows(), L.HetGaussian(), num_inducing=5)
    fixed.save(tmp_path / "m.cgp")
    assert not cgp.load(tmp_path / "m.cgp").problem.has_open_inducing


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_what_a_user_says_of_the_inducing_inputs_is_kept():
    m = small()
    m.Z.fix()
    Z = m.Z.values.copy()
    m.optimize()
    np.testing.assert_array_equal(m.Z.values, Z)
    m = small()
    m.set_prior("Z", cgp.priors.Normal(0, 5))
    m.optimize(max_iters=60)
    assert len(m.Z) == 12
    m = small()
    m.optimize(max_iters=20)  # too few iterations to begin with more
    m.optimize(batch_size=20, epochs=1, rng=0)
    assert len(m.Z) == 12


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_restarts_grow_at_the_end(posterior):
    m = small(posterior=posterior)
    result = m.optimize_restarts(2)
    assert len(m.Z) > 12 and result.bound == pytest.approx(m.log_likelihood())


def test_a_stage_that_fails_leaves_what_was_found(monkeypatch):
    fit, calls = growth.fit_profile, []

    def fails_later(problem, *args, **options):
        calls.append(problem.parts.sizes[0])
        if len(calls) > 1:
            problem.parts.kernels[0].lengthscale[:] = 1e-3
            raise NumericalError("here")
        return fit(problem, *args, **options)

    monkeypatch.setattr(growth, "fit_profile", fails_later)
    m = small()
    result = m.optimize()
    assert len(calls) == 2 and len(m.Z) == calls[1] > 12
    assert m.kernels[0].lengthscale[0] > 0.01 and result.bound >= max(p.bound for p in result.trace)


def test_rows_with_small_weights_ask_for_as_many_inducing_inputs(grown):
    """Weights of a millionth are no reason to stop: costs are measured by the mean weight."""
    X, y = rows()
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=12, Y_metadata={"weights": 0.5})
    m._parts.open_inducing = True
    m.optimize()
    assert len(m.Z) >= len(grown.Z) / 2


def test_an_interrupt_waits_for_the_end():
    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("first")
            done.append("second")
        assert done == ["first", "second"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_callback_that_stops_at_the_end_of_a_stage_stops_the_fit(monkeypatch):
    fit, ends, points = growth.fit_profile, [], []

    def tells(*args, **options):
        outcome = fit(*args, **options)
        ends.append(len(points))
        return outcome

    monkeypatch.setattr(growth, "fit_profile", tells)
    small().optimize(callback=points.append)
    first = ends[0]
    points.clear()
    result = small().optimize(callback=lambda point: points.append(point) or len(points) == first)
    assert len(points) == first and result.status == "stopped"


def test_a_model_of_a_table_with_words_grows_and_keeps_its_codes(tmp_path):
    """Codes of levels among the inducing inputs are fixed by the model: no word of a user's."""
    X, y = rows()
    town = np.arange(60) % 3
    table = pd.DataFrame({"x": X[:, 0], "town": np.array(["Ely", "Ayr", "Wem"])[town]})
    m = cgp.ChainedGP(table, y + town, L.HetGaussian(), num_inducing=12)
    m._parts.open_inducing = True
    assert growth.grows(m.problem, 100)
    m.optimize(messages=False, only="variational")
    before, more = m.log_likelihood(), np.unique(m.X, axis=0)[::2]
    m.problem.use_inducing(more, growth._find_q(m.problem, more).q)
    assert m.Z.shape == (30, 2) and m.log_likelihood() > before
    assert growth.grows(m.problem, 100)
    assert np.isin(m.Z.values[:, 1], (0.0, 1.0, 2.0)).all()
    fixed = np.arange(m.Z.size).reshape(m.Z.shape)[:, 1]
    ((_, entries),) = m.Z.constraints.items()
    np.testing.assert_array_equal(np.sort(entries), fixed)
    m.save(tmp_path / "m.cgp")
    again = cgp.load(tmp_path / "m.cgp")
    np.testing.assert_allclose(again.predict(table)[0], m.predict(table)[0], rtol=1e-10)
    assert m.checkgrad()
    m.Z[:, 0].fix()
    assert not growth.grows(m.problem, 100)  # That is a word of the user's.
