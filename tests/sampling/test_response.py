"""The linear response of q: against q found anew under a force, and against long MCMC."""

import json

import numpy as np
import pytest
from mcmc import TRUTH
from paths import STORED

import chainedgp as cgp
from chainedgp.errors import NumericalError
from chainedgp.sampling import response as module
from chainedgp.sampling.density import whitened_q
from chainedgp.sampling.response import response
from chainedgp.sampling.widening import Widening

K, L = cgp.kernels, cgp.likelihoods
ROWS, FORCE = 12, 0.01
X = np.linspace(0.0, 3.0, ROWS)[:, None]


class Pulled:
    """A likelihood with a force on one latent of one row: log p + force · f_j, in every form."""

    force = (0, 0, 0.0)  # row, latent, force

    def expectation(self, y, means, V, nodes, **kw):
        value, dmeans, dV, dtheta = super().expectation(y, means, V, nodes, **kw)
        row, j, size = Pulled.force
        own = size * (np.arange(len(y)) == row)
        return value + own * means[:, j], dmeans + np.outer(own, np.arange(2) == j), dV, dtheta


def model(name, posterior, weights=None, **options):
    """Twelve rows, inducing inputs at the rows, everything but q held."""
    base = getattr(L, name)
    likelihood = type(name, (Pulled, base), {})()
    latents = [0.5 * np.sin((1.0 + j) * X[:, 0]) for j in range(2)]
    y = likelihood.sample(np.random.default_rng(2), *latents, **likelihood.parameter_values())
    m = cgp.ChainedGP(
        X, y, likelihood, kernels=[K.RBF(1, 1.0, 0.8) for _ in "fg"], Z=X, num_threads=1,
        Y_metadata=None if weights is None else {"weights": weights}, posterior=posterior,
        mean_functions=[cgp.means.Constant(0.2) for _ in "fg"], **options,
    )  # fmt: skip
    find_q(m)
    return m


def find_q(m):
    m._mark_stale()
    m.optimize(only="variational", messages=False, tolerance=1e-12, max_iters=500)


def by_force(m, row, j):
    """How the means (b, n) of all latents move with a force on one of them, by finding q anew."""
    means = []
    for size in (FORCE, -FORCE):
        Pulled.force = (row, j, size)
        find_q(m)
        means.append(m.predict_latents(X)[0].T)
    Pulled.force = (0, 0, 0.0)
    find_q(m)
    return (means[0] - means[1]) / (2.0 * FORCE)


def widened(m, roots):
    """Covariances (b, b, n, n) of the latents with these roots added to q."""
    m._hyperparameters, m._widening = "uncertain", Widening.at(m._parts, roots)
    found = m.predict_latents(X, full_cov=True, cross_cov=True)[1]
    m._hyperparameters = "fixed"
    return found


@pytest.fixture
def exact(monkeypatch):
    """Finer differences and searches, every pair, no cap: for the limit that refits approach."""
    for name, value in {"STEP": 0.02, "SEEN": 1e-12, "LARGEST": np.inf, "LEAST": 0.0}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr("chainedgp.inference.profile.FINAL_TOLERANCE", 1e-13)


CASES = {
    "HetGaussian": ("joint", None, 1e-4),
    "AdditivePoisson": ("joint", None, 1e-3),
    "HetStudentT": ("mean_field", np.linspace(0.5, 2.0, ROWS), 1e-4),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_how_means_move_under_a_force(name, exact):
    """Covariances of one latent at one row with those of its group, of which q has another part."""
    posterior, weights, tol = CASES[name]
    m = model(name, posterior, weights)
    group = [0, 1] if posterior == "joint" else [1]
    plain = m.predict_latents(X, full_cov=True, cross_cov=True)[1][group, 1][:, :, 4]
    found = widened(m, response(m.problem))[group, 1][:, :, 4]
    force = 1.0 if weights is None else weights[4]  # A weight multiplies all that its row adds.
    want = by_force(m, 4, 1)[group] / force
    np.testing.assert_allclose(found, want, atol=tol * np.abs(want).max())
    assert np.abs(plain - want).max() > 0.02 * np.abs(want).max()  # There is something to find.


def test_a_mean_field_takes_what_latents_do_to_each_other(exact):
    """With coupled latents most of the response is that: the posterior is near a joint Gaussian."""
    m = model("Beta", "mean_field")
    want = by_force(m, 4, 1)[1]
    found = widened(m, response(m.problem))[1, 1][:, 4]
    np.testing.assert_allclose(found, want, atol=1e-3 * want.max())
    assert want[4] > 1.3 * m.predict_latents(X)[1][4, 1]


MUTANTS = {
    "no bend of the spread": lambda rows: rows._replace(H_VV=0.0 * rows.H_VV),
    "half of the slopes": lambda rows: rows._replace(H_mV=0.5 * rows.H_mV),
    "the mean field's": lambda rows: rows._replace(H_mm=0.2 + rows.H_mm),
    "rows in another order": lambda rows: rows._replace(H_mV=rows.H_mV[::-1]),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_derivatives_would_be_seen(mutant, monkeypatch):
    m = model("AdditivePoisson", "joint")
    right = widened(m, response(m.problem))
    real = module._second_derivatives
    monkeypatch.setattr(module, "_second_derivatives", lambda *a: MUTANTS[mutant](real(*a)))
    wrong = widened(m, response(m.problem))
    assert np.abs(wrong - right).max() > 0.01 * np.abs(right).max()


def test_a_gaussian_posterior_is_left_as_it_is():
    m = cgp.ChainedGP(X, np.sin(X), L.Gaussian(variance=0.1), Z=X, num_threads=1)
    find_q(m)
    assert [root.shape for root in response(m.problem)] == [(ROWS, 0)]


def test_blocks_of_rows_add_up(monkeypatch):
    m = model("AdditivePoisson", "joint")
    whole = widened(m, response(m.problem))
    monkeypatch.setattr(module, "ENTRIES", 1)
    np.testing.assert_allclose(widened(m, response(m.problem)), whole, rtol=1e-9, atol=1e-12)


def test_it_adds_no_more_than_the_cap(monkeypatch):
    m = model("AdditivePoisson", "joint")
    monkeypatch.setattr(module, "LARGEST", 1.5)
    R = whitened_q(m.problem)[1]
    within = np.linalg.solve(R, response(m.problem)[0])
    assert np.linalg.eigvalsh(within @ within.T)[-1] == pytest.approx(0.5)


def test_where_q_is_not_at_an_optimum_nothing_is_said(monkeypatch):
    m = model("AdditivePoisson", "joint")
    real = module._second_derivatives
    for factor in (100.0, np.nan):
        monkeypatch.setattr(
            module,
            "_second_derivatives",
            lambda *a, factor=factor: real(*a)._replace(H_VV=factor * np.abs(real(*a).H_VV)),
        )
        assert response(m.problem) is None

    def fails(*args):
        raise NumericalError("no Cholesky factor")

    monkeypatch.setattr(module, "_second_derivatives", fails)
    assert response(m.problem) is None
    m.hyperparameters = "uncertain"
    for part in (m.kernels, m.mean_functions, m.Z):
        part.fix()
    m.optimize(messages=False)
    assert m._widening is None and np.isfinite(m.predict_latents(X)[1]).all()


LEAST = {"AdditivePoisson": 0.7, "HetProbit": 0.9, "SignalNoiseGaussian": 0.8}
"""Where the posterior is bent, or skew as that of signs, the widest row falls short of 0.95."""


def test_standard_deviations_are_those_of_mcmc():
    """Of the joint q in `families.json`, which `benchmarks/families_against_mcmc.py` writes."""
    found = json.loads((STORED / "families.json").read_text("utf-8"))
    assert set(found) == set(TRUTH)
    for name, families in found.items():
        wide, plain = families["widened"], families["joint"]
        assert min(wide["least"]) >= LEAST.get(name, 0.95), name
        assert max(wide["median"]) <= 1.04, name
        assert min(wide["median"]) >= (0.98 if name not in LEAST else 0.83), name
        assert wide["bound"] == plain["bound"] and wide["error"] == plain["error"], name
        assert np.all(np.array(wide["least"]) >= np.array(plain["least"])), name
