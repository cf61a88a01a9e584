"""Signals that a fit overlooks because a given kernel is blind: found, told, begun again."""

import numpy as np
import pandas as pd
import pytest
from paramz import Param
from paramz.transformations import Logexp

import chainedgp as cgp
from chainedgp import kernels, likelihoods
from chainedgp.inference.overlooked import confirmed, find_overlooked
from chainedgp.parameters import Role

K, L = kernels, likelihoods
UNITS = (1e-5, 1e5)
n = 60
rng = np.random.default_rng(3)
U = rng.uniform(-2.0, 2.0, (n, 2))
F = np.sin(2.5 * U[:, 0]) + 0.5 * U[:, 1]
TARGETS = {
    "Gaussian": F + 0.3 * rng.standard_normal(n),
    "Poisson": rng.poisson(np.exp(1.0 + F)).astype(float),
    "Bernoulli": (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-4.0 * F))).astype(float),
    "HetGamma": rng.gamma(5.0, np.exp(F)),
}


class Rate(K.Kernel):
    """amp · exp(−½ rate² |x − z|²), whose parameters may say what they are or not."""

    def __init__(self, input_dim=1, amp=1.0, rate=1.0, active_dims=None, name="rate"):
        super().__init__(input_dim, name, active_dims)
        self.amp, self.rate = Param("amp", amp, Logexp()), Param("rate", rate, Logexp())
        self.link_parameters(self.amp, self.rate)

    def _evaluate(self, X, Z):
        amp, rate = float(self.amp[0]), float(self.rate[0])
        d = X[:, None] - (X if Z is None else Z)[None]
        square = np.square(d).sum(-1)
        shape = np.exp(-0.5 * rate**2 * square)
        k = amp * shape

        def pullback(dL_dK, wrt_second=True):
            G = dL_dK * k
            theta = np.array([np.sum(dL_dK * shape), -rate * np.sum(G * square)])
            dX, dZ = -(rate**2) * (G[..., None] * d).sum(1), rate**2 * (G[..., None] * d).sum(0)
            if Z is None:
                return theta, dX + dZ, None
            return theta, dX, dZ if wrt_second else None

        return k, pullback

    def _evaluate_diag(self, X):
        amp = float(self.amp[0])
        return np.full(len(X), amp), lambda d: (np.array([d.sum(), 0.0]), None)


class RateWithARole(Rate):
    roles = {"amp": Role.VARIANCE}


def fitted(unit, likelihood, kernel, columns=2, target="Gaussian", **keywords):
    X = unit * U[:, :columns]
    m = cgp.ChainedGP(X, TARGETS[target], likelihood, kernel, num_inducing=15, **keywords)
    return m, m.optimize()


# Each in units in which a lengthscale of 1 sees nothing, against the same in units of the data.
KERNELS = {
    "RBF": lambda: K.RBF(2),
    "ARD": lambda: K.Matern52(2, ARD=True),
    "sum": lambda: K.RBF(1, active_dims=[0]) + K.Matern32(1, active_dims=[1]),
    "product": lambda: K.RBF(1, active_dims=[0]) * K.RBF(1, active_dims=[1]),
    "beside a trend": lambda: K.Linear(2) + K.RBF(2),
    "no roles": lambda: Rate(2),
    "one role": lambda: K.Bias(2) + RateWithARole(2),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_in_other_units_finds_what_one_in_units_of_the_data_finds(name, unit):
    best = fitted(1.0, L.Gaussian(), KERNELS[name]())[1].bound
    m, result = fitted(unit, L.Gaussian(), KERNELS[name]())
    assert result.bound > best - 2.5
    assert result.start == "inputs screened" and set(result.starts) == {"as given", result.start}
    assert result.starts["inputs screened"] > result.starts["as given"]
    (note,) = [note for note in result.warnings if "overlooked" in note]
    assert "in place of 1" in note
    assert np.std(m.predict_latents(m.X)[0]) > 0.5
    assert not find_overlooked(m.problem)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ["Poisson", "Bernoulli", "HetGamma"])
def test_so_does_every_likelihood(name, unit):
    likelihood = getattr(L, name)
    best = fitted(1.0, likelihood(), K.RBF(2), target=name)[1].bound
    _, result = fitted(unit, likelihood(), K.RBF(2), target=name)
    assert result.bound > best - 1.5 and result.start == "inputs screened"


def test_the_same_data_give_the_same_second_start():
    bounds = {fitted(1e5, L.Gaussian(), K.RBF(2))[1].bound for _ in range(2)}
    assert len(bounds) == 1


def test_fixed_and_bounded_parameters_stay():
    kernel = K.RBF(2) + K.Matern32(2)
    kernel.rbf.lengthscale.fix()
    kernel.matern32.lengthscale.constrain_bounded(0.5, 2.0)
    m, result = fitted(1e5, L.Gaussian(), kernel)
    parts = m.kernels.mean
    assert parts.rbf.lengthscale.values[0] == 1.0
    assert 0.5 <= parts.matern32.lengthscale.values[0] <= 2.0
    (text,) = [note for note in result.warnings if note.startswith("The latent mean")]
    assert "the lengthscale of rbf is 1, and the standard deviation of its input " in text


def test_a_model_that_a_user_touched_begins_where_it_is_and_is_told():
    m = cgp.ChainedGP(1e5 * U, TARGETS["Gaussian"], L.Gaussian(), K.RBF(2), num_inducing=15)
    m.kernels.mean.variance[:] = 0.5
    result = m.optimize()
    assert result.starts == {} and np.std(m.predict_latents(m.X)[0]) < 1e-3
    (note,) = result.warnings
    assert "The latent mean is constant in this fit, although a function of column 0 of X" in note
    finding = m.check()["hyperparameters"]
    assert finding.level == "problem" and "constant" in finding.message
    assert "lengthscale is 1" in finding.cause and "Set lengthscales" in finding.remedy
    assert "with_constant" not in str(finding)


def test_noise_that_no_input_explains_is_not_overlooked():
    y = np.random.default_rng(5).standard_normal(n)
    m = cgp.ChainedGP(1e5 * U, y, L.HetGaussian(), K.RBF(2), num_inducing=15)
    result = m.optimize()
    assert result.starts == {} and result.warnings == []
    assert m.check()["hyperparameters"].level == "look"


def test_classes_that_an_input_separates_are_not_overlooked():
    """One term of the kernel of logit_3 is flat, and few rows have scores of any size."""
    draw = np.random.default_rng(2)
    x, habitat = draw.uniform(0.0, 7.0, 150), draw.choice(["bog", "heath"], 150)
    first = x + 1.2 * (habitat == "bog") + 0.8 * draw.logistic(size=150) < 3.0
    labels = np.where(first, "a", np.where(x < 5.0, "b", "c"))
    m = cgp.ChainedGP(
        pd.DataFrame({"x": x, "habitat": habitat}), labels, L.Softmax(3), num_inducing=15
    )
    result = m.optimize()
    assert np.ptp(m.predict_latents(m.X)[0][:, 2]) > 5.0
    scores = find_overlooked(m.problem)
    assert scores and max(one.gain for one in scores) > 100.0  # Scores alone mislead.
    assert not confirmed(m.problem, scores)
    assert not any("although" in note for note in result.warnings)


def test_a_signal_that_is_confirmed_is_worth_no_more_than_a_fit_gains():
    m = cgp.ChainedGP(1e5 * U, TARGETS["Poisson"], L.Poisson(), K.RBF(2), num_inducing=15)
    m.kernels[0].variance[:] = 0.5
    flat_bound = m.optimize().bound
    (one,) = confirmed(m.problem, find_overlooked(m.problem))
    assert (
        5.0
        < one.gain
        < fitted(1.0, L.Poisson(), K.RBF(2), target="Poisson")[1].bound - flat_bound + 5
    )


def test_a_given_start_that_sees_is_left_alone():
    _, result = fitted(1.0, L.HetGaussian(), K.RBF(2))
    assert result.starts == {}


def test_priors_of_a_user_and_weights_are_felt_by_the_second_start():
    X, y = 1e5 * U[:, :1], TARGETS["Gaussian"]
    weights = np.where(np.arange(n) % 2, 0.0, 1.0)
    m = cgp.ChainedGP(X, y, L.Gaussian(), K.RBF(1), Y_metadata={"weights": weights}, num_inducing=9)
    assert m.optimize().start == "inputs screened"
    strong = cgp.ChainedGP(X, y, L.Gaussian(), K.RBF(1), num_inducing=9)
    strong.set_prior("kernels.mean.lengthscale", cgp.priors.LogGaussian(1.0, 0.01))
    result = strong.optimize()
    assert strong.kernels.mean.lengthscale.values[0] < 2.0 and result.start != "inputs screened"


def test_batches_and_restarts_begin_with_it():
    X, y = 1e5 * U[:, :1], TARGETS["Gaussian"]
    m = cgp.ChainedGP(X, y, L.Gaussian(), K.RBF(1), num_inducing=9)
    assert m.optimize(batch_size=30, epochs=2, rng=0).start == "inputs screened"
    m = cgp.ChainedGP(X, y, L.Gaussian(), K.RBF(1), num_inducing=9)
    m.optimize_restarts(2)
    assert np.std(m.predict_latents(m.X)[0]) > 0.3


def test_the_second_start_has_inducing_inputs_all_over_the_data():
    """By conditional variance given a blind kernel they are the first rows."""
    x = np.sort(rng.uniform(0.0, 1e5, 200))
    m = cgp.ChainedGP(x, np.sin(x / 1e4), L.Gaussian(), K.RBF(1), num_inducing=10)
    assert m.Z.values.max() < 2e4
    m.optimize(max_iters=50)
    assert np.diff(np.sort(m.Z.values[:, 0])).max() < 2.5e4
    Z = np.linspace(0.0, 5e4, 10)[:, None]
    own = cgp.ChainedGP(x, np.sin(x / 1e4), L.Gaussian(), K.RBF(1), Z=Z)
    own.Z.fix()
    assert own.optimize().start == "inputs screened"
    np.testing.assert_array_equal(own.Z.values, Z)


def test_a_wide_term_of_a_sum_does_not_shrink_the_others():
    """A linear kernel about 0 has a huge variance where X is far from 0."""
    x = np.linspace(200.0, 400.0, 80)
    y = np.sin(x / 20.0) + 0.1 * np.random.default_rng(0).standard_normal(80)
    alone, both = (
        cgp.ChainedGP(x, y, L.Gaussian(), kernel, num_inducing=20).optimize().bound
        for kernel in (K.RBF(1, lengthscale=20.0), K.Linear(1) + K.RBF(1, lengthscale=20.0))
    )
    assert both > alone - 1.0


# ---- effects of what is flat --------------------------------------------------------------------


def flat(likelihood, target="Gaussian"):
    m = cgp.ChainedGP(1e4 * U, TARGETS[target], likelihood, K.RBF(2), num_inducing=15)
    for kernel in m.kernels:
        kernel.lengthscale[:] = 1e9
    m.optimize()
    return m


@pytest.mark.parametrize("name", ["HetGaussian", "Poisson", "Bernoulli", "HetGamma"])
def test_effects_of_flat_latents_are_zero(name):
    m = flat(getattr(L, name)(), name if name in TARGETS else "Gaussian")
    assert m.predict_latents(m.X)[0].std(axis=0).max() < 1e-4
    assert not np.asarray(m.effects()).any()
    assert not np.asarray(m.effects(kind="parts")["share"], dtype=float).any()


def test_effects_are_shares_where_something_varies():
    m, _ = fitted(1.0, L.HetGaussian(), K.RBF(2))
    table = m.effects()
    assert table["mean"].max() > 0.5
    np.testing.assert_allclose(m.effects(kind="parts")["share"].astype(float).iloc[0], 1.0)
