"""The problem: what optimisers see of a model, and what of it is shared, copied or put back."""

import numpy as np
import pytest
from cases import small_model

import chainedgp as cgp
from chainedgp import priors
from chainedgp.errors import InputError
from chainedgp.inference.optimize import optimize
from chainedgp.inference.problem import Best


@pytest.fixture
def model():
    m = small_model("HetStudentT", n=40)
    m.optimize(only="variational")
    return m


def gradient(problem):
    problem.take_gradient()
    return np.concatenate([np.ravel(leaf.gradient) for leaf in problem.parts.leaves])


def kl(m):
    return sum(part.kl for part in m.problem.state().q)


def test_problems_of_parts_of_the_rows_add_up(model):
    whole = model.problem
    parts = [whole.on(rows) for rows in (slice(13), np.arange(13, 40))]
    assert [part.num_rows for part in parts] == [13, 27]
    total = sum(part.bound() for part in parts)
    assert total == pytest.approx(whole.bound() - kl(model), rel=1e-10)


def test_problems_of_other_rows_share_parameters_but_no_state(model):
    whole, part = model.problem, model.problem.on(slice(10))
    before, sites = part.bound(), whole.evaluator.shards[0].sites.current.copy()
    model.kernels[0].variance[:] = 2.0 * model.kernels[0].variance.values
    assert not whole.is_current and not part.is_current
    assert part.bound() != before
    np.testing.assert_array_equal(whole.evaluator.shards[0].sites.current, sites)


def test_leaves_hold_the_gradient_of_the_problem_that_was_asked_last(model):
    whole, part = model.problem, model.problem.on(slice(10))
    first, other = gradient(whole), gradient(part)
    assert np.abs(first - other).max() > 1e-3
    before = whole.counts
    np.testing.assert_allclose(gradient(whole), first, rtol=1e-12)
    assert whole.counts == before  # the bound was not evaluated again


def test_a_snapshot_puts_parameters_and_q_back(model):
    problem = model.problem
    snapshot, bound = problem.snapshot(), problem.bound()
    model.randomize()
    model.q_mu[:] = 1.0
    assert problem.bound() != bound
    problem.restore(snapshot)
    assert problem.bound() == bound


def test_the_best_parameters_are_those_of_the_least_score(model):
    best, bounds = Best(model.problem), []
    for score, variance in ((np.nan, 1.0), (2.0, 3.0), (1.0, 4.0), (1.0, 5.0), (1.5, 6.0)):
        model.kernels[0].variance[:] = variance
        bounds.append(model.log_likelihood())
        assert best.offer(score) == (variance in (3.0, 4.0))
    best.restore()
    assert best.score == 1.0 and model.log_likelihood() == bounds[2]


def test_a_copy_is_a_problem_of_its_own(model):
    model.set_prior(".*lengthscale", priors.LogNormal(0.0, 1.0))
    problem = model.problem
    again, bound, prior = problem.copy(), problem.bound(), problem.log_prior()
    assert again.parameters is not problem.parameters and prior != 0.0
    assert (again.bound(), again.log_prior()) == (bound, prior)
    with np.errstate(all="ignore"):
        optimize(again, messages=False, max_iters=1000)
    assert again.objective() < problem.objective() == -(bound + prior)
    problem.restore(again.snapshot())
    assert model.log_likelihood() == pytest.approx(again.bound(), rel=1e-10)


def test_a_state_is_evaluated_once_and_until_something_changes(model):
    problem = model.problem
    problem.bound()
    before = problem.counts
    assert problem.state() is problem.state() and problem.counts == before
    model.jitter = 2.0 * model.jitter
    problem.bound()
    assert problem.counts[0] == before[0] + 1


def test_a_model_without_rows_has_no_problem(model, tmp_path):
    model.save(tmp_path / "m.npz", data=False)
    again = cgp.load(tmp_path / "m.npz")
    assert again.predict(model.X)[0].shape == (40, 1)
    with pytest.raises(InputError, match="set_data"):
        _ = again.problem
