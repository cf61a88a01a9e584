"""No bad data, kernel, start or method ends in NaN, a foreign error or a fit worse than none."""

import os
from pathlib import Path

import numpy as np
import pytest
import torture
import torture_cases
from scipy import stats

import chainedgp as cgp
from chainedgp.errors import InputError, MomentWarning, NumericalError
from chainedgp.inference.lbfgs import minimise

L, K = cgp.likelihoods, cgp.kernels
ABSTRACT = {"Likelihood", "Survival"}


def assert_trusted(outcomes):
    """None failed, and the rules refuse at most 15 %."""
    assert not [o for o in outcomes if o.failed], torture.report(outcomes)
    refused = sum(o.name.startswith("refused") for o in outcomes)
    assert refused <= 0.15 * len(outcomes)


SMALL = (0, 3, 7, 9, 19, 22, 24, 25, 30, 34, 35, 37, 40, 41, 44, 50, 51, 57,
         59)  # fmt: skip  # those of less than a second


@pytest.mark.parametrize("seeds", [SMALL[::6], pytest.param(SMALL, marks=pytest.mark.long)])
def test_small_cases(seeds):
    outcomes = [torture.run_case(torture.make_case(seed, 30)) for seed in seeds]
    assert not [o for o in outcomes if o.failed], torture.report(outcomes)


@pytest.mark.slow
def test_two_thousand_cases():
    record = os.environ.get("CHAINEDGP_TORTURE")
    assert_trusted(torture.run_many(range(2000), None if record is None else Path(record)))


def test_cases_are_drawn_by_their_seed_and_of_every_sort():
    a, b = torture.make_case(7), torture.make_case(7)
    assert np.array_equal(a.X, b.X) and np.array_equal(a.Y, b.Y) and a.options == b.options
    cases = [torture.make_case(seed, 40) for seed in range(500)]
    assert {c.likelihood for c in cases} == set(torture_cases.FAMILIES) == set(L.__all__) - ABSTRACT
    assert {c.method for c in cases} == set(torture_cases.METHODS)
    faults = {"outside the support", "not a number", "unknown code", None}
    assert {c.fault for c in cases} == faults
    names = {type(part).__name__ for c in cases for k in c.kernels or [] for part in _parts(k)}
    of_codes = {"Categorical", "Mixed", "RandomEffects", "Sphere"}  # Cases have any numbers in X.
    assert set(K.__all__) - names == {"GPyKernel", "Kernel", "Stationary", "as_kernel", *of_codes}


def _parts(kernel):
    inside = [p for part in getattr(kernel, "parts", []) for p in _parts(part)]
    return [kernel, *inside]


def good_case():
    """A case of few rows without a fault, by the default method."""
    cases = (torture.make_case(seed, 10) for seed in range(200))
    return next(
        c for c in cases if (c.likelihood, c.method, c.fault) == ("Poisson", "profile", None)
    )


def broken(monkeypatch, target, name, value):
    """The outcome of a good case with one part of the library replaced."""
    with monkeypatch.context() as patch:
        patch.setattr(target, name, value)
        return torture.run_case(good_case()).name


@pytest.mark.long
def test_every_broken_promise_is_seen(monkeypatch):
    model = cgp.ChainedGP
    latents, predict, load = model.predict_latents, model.predict, cgp.load

    def of(change):
        return lambda self, X, *rest: change(*latents(self, X, *rest))

    def other(path):
        m = load(path)
        leaf = m.mean_functions[0].flattened_parameters[0]
        leaf[:] = leaf.values + 1e-9
        return m

    def crash(self, *args, **kw):
        raise np.linalg.LinAlgError("singular")

    def spoil(self, X, *rest):
        self.X[:] += 1.0
        return predict(self, X, *rest)

    for name, value, seen in (
        ("predict_latents", of(lambda f, v: (f, v - 1e9)), "negative variance"),
        ("predict_latents", of(lambda f, v: (f * np.nan, v)), "latents not finite"),
        ("log_likelihood", lambda self: -np.inf, "bound not finite"),
        ("optimize", crash, "LinAlgError not allowed"),
        ("predict", spoil, "data changed"),
        ("save", lambda self, path: (_ for _ in ()).throw(InputError("no")), "InputError"),
    ):
        assert seen in broken(monkeypatch, model, name, value)
    assert "other bits" in broken(monkeypatch, cgp, "load", other)
    case = good_case()
    assert not torture.run_case(case).failed
    case.fault = "not a number"
    assert "no error" in torture.run_case(case).name


def test_the_constant_model_is_that_of_maximum_likelihood():
    rng = np.random.default_rng(3)
    y, w = rng.gamma(3.0, 2.0, 60), rng.integers(0, 3, 60) + 0.0
    shape, _, scale = stats.gamma.fit(np.repeat(y, w.astype(int)), floc=0.0)
    want = w @ stats.gamma.logpdf(y, shape, scale=scale) / w.sum()
    got = torture.constant_score(L.HetGamma(), y, {}, w, np.zeros(2))
    assert got == pytest.approx(want, abs=1e-6)
    same = torture.constant_score(L.HetGaussian(), np.ones(5), {}, np.ones(5), np.zeros(2))
    assert same is None  # the density is unbounded


# ---- what it has found ---------------------------------------------------------------------------


def test_a_mean_moves_however_small_the_given_prior_variance():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(30, 1)), 3.0 + rng.normal(size=30)
    kernels = [K.RBF(1, variance=1e-10), K.RBF(1)]
    means = [cgp.means.Constant(0.0), cgp.means.Constant(0.0)]
    m = cgp.ChainedGP(x, y, L.HetGaussian(), kernels, num_inducing=5, mean_functions=means)
    m.optimize(messages=False)
    assert m.mean_functions[0].value[0] == pytest.approx(y.mean(), abs=0.5)


class Kink:
    """(x₀ − 3)² + 1000 |x₁|, which has no slope at x₁ = 0; the one given leads up."""

    def value(self, x):
        self.x = x
        return (x[0] - 3.0) ** 2 + 1e3 * abs(x[1])

    def gradient(self):
        return np.array([2.0 * (self.x[0] - 3.0), 1e3])

    def accept(self, x, value):
        return value


def test_hyperparameters_move_though_inducing_inputs_stand_at_a_kink():
    groups = [np.array([0]), np.array([1])]
    stuck = minimise(Kink(), np.zeros(2), max_iters=50)
    assert stuck.x[0] == 0.0 and "no step" in stuck.reason
    end = minimise(Kink(), np.zeros(2), max_iters=50, groups=groups, kinked=groups[1])
    np.testing.assert_allclose(end.x, [3.0, 0.0], atol=1e-3)


def test_a_bound_that_is_not_finite_is_an_error_with_a_remedy():
    x = np.linspace(0.0, 1.0, 9)[:, None]
    m = cgp.ChainedGP(x, x[:, 0], L.HetGaussian(), K.RBF(1, variance=1e10), num_inducing=4)
    for ask in (m.log_likelihood, lambda: m.optimize("lbfgsb")):
        with pytest.raises(NumericalError, match="smaller variances"):
            ask()
    assert np.isfinite(m.optimize(messages=False).bound)


def test_a_mean_that_does_not_exist_is_infinite_at_any_scale():
    p = cgp.predictive.Predictive(L.LogLogistic(log_shape=-1.0), [[-800.0]], [[1e4]])
    with pytest.warns(MomentWarning):
        assert p.mean == np.inf and p.variance == np.inf


def test_a_draw_beyond_all_numbers_is_infinite():
    draws = L.SignalNoiseGaussian().sample(np.random.default_rng(0), *np.full((3, 5), 2e3), size=9)
    assert np.isinf(draws).all()


def test_a_stochastic_fit_can_be_saved_and_loaded(tmp_path):
    x = np.linspace(0.0, 1.0, 30)[:, None]
    m = cgp.ChainedGP(x, np.sin(x), L.Gaussian(), num_inducing=4)
    m.optimize("adam", batch_size=7, epochs=1, rng=0, messages=False)
    m.save(tmp_path / "m.npz")
    again = cgp.load(tmp_path / "m.npz").last_result
    assert again.likelihood_evaluations == m.last_result.likelihood_evaluations


def test_draws_of_latents_where_the_rows_leave_nothing_open():
    x = np.repeat(np.linspace(0.0, 1.0, 20), 10)[:, None] * 1e-3
    m = cgp.ChainedGP(x, 1e6 * x, L.Gaussian(), K.RBF(1, variance=1e6), num_inducing=3)
    m.kernels[0].lengthscale = 1e3
    draws = m.posterior_samples_f(np.vstack([x, 1e6 * x]), 200, 0)
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws[:200, 0].std(axis=1), 1e3, rtol=0.2)
