"""Fits of many rows begin on some of them, and end where they would have ended without that."""

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp.errors import NumericalError
from chainedgp.inference import profile, subsets
from chainedgp.inference.lbfgs import minimise, new_memory


def counts(n=6000):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 6.0, n)
    return x, rng.poisson(np.exp(1.0 + np.sin(2.0 * x))).astype(float)


def model(n=6000):
    return cgp.ChainedGP(*counts(n), cgp.likelihoods.Poisson(), num_inducing=12, num_threads=1)


def test_sizes_grow_to_half_of_the_rows():
    assert subsets.sizes_of_subsets(4999, 50) == []
    assert subsets.sizes_of_subsets(5000, 100) == [2000]
    assert subsets.sizes_of_subsets(100_000, 100) == [2000, 10_000, 50_000]
    assert subsets.sizes_of_subsets(10_000, 400) == []  # 8000 rows are no small part of them


def test_the_end_is_that_of_a_fit_of_all_rows(monkeypatch):
    """To 1e-3 nats a row in the bound, with fewer passes over all rows."""
    begun, whole = model(), model()
    one = begun.optimize(messages=False)
    monkeypatch.setattr(subsets, "MANY", 10**9)
    two = whole.optimize(messages=False)
    assert one.converged and two.converged
    assert abs(one.bound - two.bound) < 1e-3 * 6000
    assert len(one.trace) == one.iterations + 1 < len(two.trace)
    assert one.likelihood_evaluations < two.likelihood_evaluations
    x = np.linspace(0.5, 5.5, 9)
    np.testing.assert_allclose(begun.predict(x)[0], whole.predict(x)[0], rtol=5e-3)


@pytest.mark.parametrize("fault", [NumericalError("no bound"), KeyboardInterrupt()])
def test_a_subset_that_fails_does_no_harm(monkeypatch, fault):
    """After an error all rows are fitted from where the model was; after Ctrl-C the fit ends."""
    m, calls = model(), []

    def fails(held, problem, *args):
        calls.append(problem.num_rows)
        for kernel in problem.parts.kernels:
            kernel.variance[:] = 1e6
        raise fault

    monkeypatch.setattr(profile, "_fit_subset", fails)
    result = m.optimize(messages=False)
    assert calls == [2000] and np.isfinite(m.log_likelihood())
    assert float(m.kernels[0].variance[0]) < 1e3
    assert result.status == ("interrupted" if isinstance(fault, KeyboardInterrupt) else "converged")


def test_a_callback_can_stop_a_subset():
    """It sees the bound as all rows would have it."""
    seen = []

    def callback(point):
        seen.append(point.bound)
        return len(seen) == 2

    m = model()
    result = m.optimize(messages=False, callback=callback)
    assert result.status == "stopped" and len(seen) <= 3
    assert np.isfinite(m.log_likelihood())
    assert abs(seen[0] - m.log_likelihood()) < 0.2 * abs(m.log_likelihood())


class Bowl:
    """½ xᵀ H x with a condition number of 10⁴."""

    def __init__(self):
        self.H, self.x, self.evaluations = np.geomspace(1.0, 1e4, 12), np.zeros(12), 0

    def value(self, x):
        self.evaluations += 1
        self.x = x
        return 0.5 * float(self.H @ x**2)

    def gradient(self):
        return self.H * self.x

    def accept(self, x, value):
        return value


def test_a_known_curvature_saves_steps():
    first, again, x = Bowl(), Bowl(), np.ones(12)
    memory = new_memory()
    minimise(first, x, max_iters=200, tolerance=1e-10, memory=memory)
    assert len(memory) > 12
    half = new_memory((s, 0.5 * y) for s, y in memory)  # as from half of the rows
    scaled = new_memory((s, 2.0 * y) for s, y in half)
    end = minimise(again, x, max_iters=200, tolerance=1e-10, memory=scaled)
    assert end.converged and end.value < 1e-6
    assert again.evaluations < 0.5 * first.evaluations
