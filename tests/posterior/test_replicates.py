"""Rows with the same inputs share their projections, and nothing else changes."""

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.posterior import shards
from chainedgp.posterior.replicates import Replicates, input_numbers
from chainedgp.posterior.shards import Shard


def rows(distinct=12, copies=6, seed=0, scattered=True):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.uniform(-2.0, 2.0, (distinct, 2)), copies, axis=0)
    X = X[rng.permutation(len(X))] if scattered else X
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))


def test_numbers_of_inputs():
    X = rows()[0]
    numbers = input_numbers(X)
    for number in np.unique(numbers):
        assert np.ptp(X[numbers == number], axis=0).max() == 0.0
    assert len(np.unique(numbers)) == 12
    assert input_numbers(np.random.default_rng(0).normal(size=(50, 2))) is None
    assert input_numbers(np.arange(20.0)[:, None] // 1.2) is None  # Few rows are alike.
    assert input_numbers(np.zeros((5, 3))) is not None
    swapped = np.array([[1.0, 2.0], [2.0, 1.0]] * 4)
    assert len(np.unique(input_numbers(swapped))) == 2


def test_sums_and_spreads():
    numbers = np.array([3, 1, 3, 3, 1, 7, 7, 7])
    same = Replicates.among(numbers)
    a = np.random.default_rng(1).normal(size=(2, 3, 8))
    want = np.stack([a[..., numbers == k].sum(-1) for k in (1, 3, 7)], axis=-1)
    np.testing.assert_allclose(same.gather(a), want, rtol=1e-14)
    np.testing.assert_array_equal(same.spread(want), want[..., [1, 0, 1, 1, 0, 2, 2, 2]])
    np.testing.assert_array_equal(numbers[same.first], [1, 3, 7])
    assert Replicates.among(np.arange(8)) is None


def model(share, monkeypatch, X, y, likelihood, posterior, weights=None, **keywords):
    if not share:
        monkeypatch.setattr(shards, "input_numbers", lambda X: None)
    given = {} if weights is None else {"weights": weights}
    m = cgp.ChainedGP(
        X,
        y,
        likelihood,
        kernels=cgp.kernels.RBF(2, ARD=True) + cgp.kernels.White(2, 0.1),
        mean_functions=cgp.means.Linear(2),
        num_inducing=6,
        posterior=posterior,
        Y_metadata=given,
        **keywords,
    )
    monkeypatch.undo()
    return m


@pytest.mark.filterwarnings("ignore:The Pareto k")
@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scattered", [False, True])
def test_every_pass_gives_the_same(monkeypatch, posterior, weighted, scattered):
    X, y = rows(scattered=scattered)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(y)) if weighted else None
    given = monkeypatch, X, y, L.HetStudentT(), posterior, weights
    two = [model(share, *given) for share in (True, False)]
    assert [m.problem.evaluator.shards[0]._numbers is None for m in two] == [False, True]
    found = []
    for m in two:
        bound, gradient = m.log_likelihood(), m.objective_function_gradients()
        assert m.checkgrad()
        m.optimize(only="variational")
        left = m.loo(refit=False)
        evaluator, q = m.problem.evaluator, m.problem.parts.q()
        evaluator.set_hyperparameters(m.problem.parts.theta())
        state = evaluator.evaluate(q, evaluator.gram())
        evaluator.take_proposal()
        state = evaluator.evaluate(evaluator.gaussians(evaluator.gram()), evaluator.gram())
        slopes = evaluator.gradient(state, sites_fixed=True)
        positive = evaluator.positive_proposal(state.q)
        sites = evaluator.shards[0].sites.proposal.copy()
        marginals = evaluator.marginals(state.q)
        evaluator.narrow()
        narrow = evaluator.shards[0].sites.current.copy()
        found.append([
            np.array(bound), gradient, np.array(m.log_likelihood()), *marginals, sites, narrow,
            *positive.Lam, *positive.b, *(part.kernel for part in slopes.latents),
            *(part.Z for part in slopes.latents), *(part.mean for part in slopes.latents),
            slopes.parameters, left.pointwise,
        ])  # fmt: skip
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())


def test_fits_threads_and_chunks_agree(monkeypatch):
    X, y = rows(distinct=40, copies=30)
    made = [
        model(share, monkeypatch, X, y, L.HetGaussian(), "mean_field", num_threads=threads)
        for share, threads in ((True, 1), (True, 2), (False, 1))
    ]
    bounds = [m.optimize(only="variational").bound for m in made]
    assert bounds[0] == bounds[1]
    assert bounds[0] == pytest.approx(bounds[2], rel=1e-9)
    values = made[0].log_likelihood()
    shard = made[0].problem.evaluator.shards[0]
    small = Shard(shard.rows, chunk_rows=100)
    assert len(small._slices(6)) > 1
    made[0].problem.evaluator.shards[:] = [small]
    made[0].parameters_changed()
    assert made[0].log_likelihood() == pytest.approx(values, rel=1e-11)


def test_work_goes_by_distinct_inputs(monkeypatch):
    X, y = rows(distinct=20, copies=50)
    m = model(True, monkeypatch, X, y, L.HetGaussian(), "mean_field")
    widths = []
    project = shards.project
    monkeypatch.setattr(
        shards, "project", lambda p, X, *a, **k: widths.append(len(X)) or project(p, X, *a, **k)
    )
    m.parameters_changed()
    m.log_likelihood()
    assert max(widths) == 20


def test_a_wrong_sum_is_noticed(monkeypatch):
    """The mutant that takes the first row of each input for all of them."""
    X, y = rows()
    m = model(True, monkeypatch, X, y, L.HetGaussian(), "mean_field")
    monkeypatch.setattr(Replicates, "gather", lambda self, a: a[..., self.first])
    assert not m.checkgrad()
