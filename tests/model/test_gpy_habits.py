"""What a user of GPy tries first."""

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import kernels as kern
from chainedgp.errors import InputError


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (15, 2))
    y = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(15, 1))
    m = cgp.ChainedGP(
        X,
        y,
        cgp.likelihoods.HetStudentT(),
        kernels=[kern.RBF(2, ARD=True), kern.RBF(2) + kern.Bias(2)],
        num_inducing=4,
        num_threads=1,
    )
    m.q_mu[:] = 0.3 * rng.normal(size=m.q_mu.shape)
    return m


def test_a_kernel_is_found_by_its_name_alone_or_in_a_sum(model):
    alone, part = model.kernels.location, model.kernels.log_scale2
    assert alone.rbf is alone is model.kernels["location"] is model.kernels[0]
    assert part.sum is part and part.rbf is part.parts[0]
    for kernel in (alone, part):
        kernel.rbf.lengthscale.fix(warning=False)
        assert kernel.rbf.lengthscale.is_fixed
    assert model.kernels.location.lengthscale.is_fixed
    model.kernels.location.rbf.variance = 2.5
    assert model.kernels.location.variance.values[0] == 2.5
    assert not hasattr(alone, "matern32")


def test_names_stay_with_a_kernel_that_is_used_again(model):
    again = cgp.ChainedGP(
        model.X, model.Y, cgp.likelihoods.Gaussian(), model.kernels.location, num_inducing=4
    )
    assert again.kernels.mean.rbf is again.kernels.mean is not model.kernels.location
    total = model.kernels.location + kern.White(2)
    assert [part.name for part in total.parts] == ["location", "white"]
    own = cgp.ChainedGP(
        model.X, model.Y, cgp.likelihoods.Gaussian(), kern.RBF(2, name="slow"), num_inducing=4
    )
    assert own.kernels.mean.slow.lengthscale is own.kernels.mean.lengthscale


def test_regular_expressions(model):
    found = model[".*lengthscale"]
    assert [p.hierarchy_name() for p in found.params] == [
        "chained_gp.kernels.location.lengthscale",
        "chained_gp.kernels.log_scale2.rbf.lengthscale",
    ]
    model[".*lengthscale"] = 1.7
    assert model.kernels.location.lengthscale.values.tolist() == [1.7, 1.7]
    model[".*variance"].constrain_bounded(0.1, 10, warning=False)
    model["likelihood.nu"].fix(warning=False)
    assert model.likelihood.nu.is_fixed


def test_checkgrad(model, capsys):
    assert model.checkgrad()
    assert model.checkgrad(verbose=1)
    table = capsys.readouterr().out
    assert "likelihood.nu" in table and "kernels.location.lengthscale" in table


def test_checkgrad_lists_a_few_entries_of_every_parameter(model, monkeypatch, capsys):
    monkeypatch.setattr("chainedgp.model.chained_gp.LISTED", 4)
    assert model.checkgrad(verbose=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "chained_gp." in line]
    count = {leaf: sum(f".{leaf}[[" in line for line in lines) for leaf in ("Z", "q_mu", "q_sqrt")}
    assert max(count.values()) <= 4 and min(count.values()) >= 3
    free = [name.partition("[")[0] for name in model.parameter_names_flat()]
    assert {line.split()[1].partition("[")[0] for line in lines} == set(free)
    assert len(free) > 2 * len(lines)


def test_priors_at_parameters_are_answered(model):
    with pytest.raises(InputError, match=r"m\.set_prior\('\.\*lengthscale', prior\)"):
        model.kernels.location.lengthscale.set_prior(cgp.priors.Gamma(2.0, 1.0))
    with pytest.raises(AttributeError, match=r"it is plot\(\)"):
        model.plot_confidence()


def test_checkgrad_sees_a_wrong_gradient(model, monkeypatch, capsys):
    def wrong(gradient, state=None, right=model.problem.write_gradient):
        right(gradient, state)
        model.kernels.location.gradient[:] *= -1.0

    monkeypatch.setattr(model.problem, "write_gradient", wrong)
    assert not model.checkgrad(verbose=1)
    capsys.readouterr()


def test_plot_print_and_optimizer_names(model, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    model.plot()
    matplotlib.pyplot.close("all")
    print(model)
    assert "kernels.location.lengthscale" in capsys.readouterr().out
    with pytest.warns(cgp.errors.ConvergenceWarning):
        result = model.optimize("bfgs", messages=False, max_iters=2)
    assert result.method == "lbfgsb"


def test_randomize(model):
    before, bound = model.param_array.copy(), model.log_likelihood()
    model.likelihood.nu.fix(warning=False)
    model.randomize(np.random.default_rng(0).normal, 0.0, 0.1)
    changed = model.param_array != before
    assert changed.sum() == changed.size - 1 and model.log_likelihood() != bound
    again = model.optimizer_array
    model.randomize(np.random.default_rng(0).normal, 0.0, 0.1)
    np.testing.assert_array_equal(model.optimizer_array, again)
    model.randomize()


NAMES = {
    "a function of GPy": (
        lambda m: cgp.GPRegression,
        r"Y, likelihoods\.Gaussian\(\)\)",
    ),
    "a module of GPy": (lambda m: cgp.kern, "here it is kernels"),
    "a kernel of GPy": (lambda m: cgp.kernels.Exponential, "here it is Matern12"),
    "a kernel of GPflow": (lambda m: cgp.kernels.SquaredExponential, "here it is RBF"),
    "a slip": (
        lambda m: cgp.kernels.Matern25,
        "here it is Matern.2",
    ),
    "nothing like it": (lambda m: cgp.kernels.Zebra, "no attribute 'Zebra'$"),
    "sensitivity": (lambda m: m.input_sensitivity, r"effects\(\)"),
    "new rows": (lambda m: m.set_XY, r"set_data\(X, Y\)"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_other_libraries_are_answered(name):
    ask, words = NAMES[name]
    m = cgp.ChainedGP(np.arange(6.0), np.arange(6.0), cgp.likelihoods.HetGaussian(), num_inducing=3)
    with pytest.raises(AttributeError, match=words):
        ask(m)
    with pytest.raises(cgp.errors.InputError, match=r"m\.set_prior\(pattern, prior\)"):
        m[".*lengthscale"].set_prior(cgp.priors.Gamma(2.0, 1.0))
    with pytest.raises(cgp.errors.ArgumentError, match="write at="):
        m.plot(fixed_inputs=[(0, 1.0)])
    assert not hasattr(cgp, "kern") and not hasattr(cgp.kernels, "__wrapped__")
