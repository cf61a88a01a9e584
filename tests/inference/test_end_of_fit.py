"""When a fit ends by itself, and what it says of its inducing inputs."""

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.inference.inducing import left_open
from chainedgp.inference.optimize import MUCH_OPEN, PER_ROW


def rows(n=200, seed=0, waves=1.0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-3.0, 3.0, (n, 1)), axis=0)
    return X, np.sin(2.0 * waves * X[:, 0]) + 0.2 * rng.standard_normal(n)


def test_more_rows_end_a_fit_at_a_larger_gain_and_predictions_stay():
    X, y = rows()
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=15)
    result = m.optimize()
    assert result.converged and f"less than {200 * PER_ROW:g}" in result.reason
    early, spread = m.predictive(X).mean, np.sqrt(m.predictive(X).variance)
    longer = m.optimize(tolerance=1e-6)
    assert longer.converged and "less than 1e-06" in longer.reason
    change = np.abs(m.predictive(X).mean - early) / spread
    assert np.sqrt(np.mean(change**2)) < 0.01


@pytest.mark.parametrize(
    ("weight", "method", "expected"),
    [(1.0, None, 0.01), (40.0, None, 0.4), (0.01, None, 0.001), (1.0, "lbfgsb", 0.001)],
)
def test_the_gain_that_ends_a_fit_is_by_row_and_weight(weight, method, expected, monkeypatch):
    X, y = rows()
    m = cgp.ChainedGP(X, y, L.Gaussian(), num_inducing=5, Y_metadata={"weights": weight})
    asked = []

    def fit(problem, monitor, method, max_iters, tolerance, settings=None):
        asked.append(tolerance)
        raise KeyboardInterrupt

    monkeypatch.setattr("chainedgp.inference.optimize._fit", fit)
    m.optimize(method)
    m.optimize(method, tolerance=0.5)
    assert asked == pytest.approx([expected, 0.5])


def test_what_inducing_inputs_leave_open_is_the_trace_term_of_a_gaussian():
    X, y = rows(60)
    m = cgp.ChainedGP(X, y, L.Gaussian(), Z=X[::12], num_threads=1)
    m.Z.fix()
    m.optimize()
    K, Kuf, Kuu = (m.kernels[0].K(*pair) for pair in ((X,), (m.Z.values, X), (m.Z.values,)))
    Kuu = Kuu + m.jitter * np.mean(np.diag(Kuu)) * np.eye(len(Kuu))
    trace = np.trace(K) - np.trace(np.linalg.solve(Kuu, Kuf @ Kuf.T))
    expected = 0.5 * trace / float(m.likelihood.variance[0]) / len(X)
    assert expected > 1e-3 and left_open(m.problem) == pytest.approx(expected, rel=1e-4)


def test_a_fit_tells_of_inducing_inputs_that_cost_much():
    X, y = rows(200, waves=4.0)
    told = []
    for M in (8, 40):
        m = cgp.ChainedGP(X, y, L.Gaussian(variance=0.04), num_inducing=M)
        m.kernels[0].lengthscale = 0.2
        result = m.optimize(only="variational")
        said = [note for note in result.warnings if "inducing" in note]
        assert bool(said) == (left_open(m.problem) > MUCH_OPEN)
        told.append(bool(said))
    assert told == [True, False]
    assert left_open(cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=5).problem) == 0.0
