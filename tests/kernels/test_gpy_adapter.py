"""Kernels of GPy behind the adapter: a stand-in with GPy's habits, and GPy itself if installed."""

import os
import pickle
import subprocess
import sys
import threading

import cases
import numpy as np
import pytest
from fake_gpy import FakeGPyRBF
from paths import ROOT

import chainedgp as cgp
from chainedgp.errors import InputError
from chainedgp.kernels import RBF, Bias, GPyKernel, Linear, Matern32, Sum, as_kernel
from chainedgp.likelihoods import HetGaussian
from chainedgp.parameters import Role
from chainedgp.testing.kernel import check_kernel
from chainedgp.testing.report import ContractError

X = np.random.default_rng(1).normal(size=(5, 2))
Z = np.random.default_rng(2).normal(size=(4, 2))


class WrongFake(FakeGPyRBF):
    def gradients_X(self, dL_dK, X, X2=None):
        return -super().gradients_X(dL_dK, X, X2)


def test_contract():
    check_kernel(as_kernel(FakeGPyRBF(2, 1.3, 0.7)))
    check_kernel(as_kernel(FakeGPyRBF(2, 1.3, 0.7, active_dims=[3, 1])))
    check_kernel(RBF(2) * FakeGPyRBF(1, 1.3, 0.7, active_dims=[1]) + FakeGPyRBF(2))


def test_contract_rejects_a_wrong_one():
    with pytest.raises(ContractError, match="dL_dX"):
        check_kernel(as_kernel(WrongFake(2)))


def test_equals_our_own():
    fake, own = as_kernel(FakeGPyRBF(2, 1.3, 0.7)), RBF(2, 1.3, 0.7)
    weights = np.random.default_rng(3).normal(size=(5, 4))
    np.testing.assert_allclose(fake.K(X, Z), own.K(X, Z), rtol=1e-12)
    for a, b in zip(fake.evaluate(X, Z)[1](weights), own.evaluate(X, Z)[1](weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_own_kernels_pass_through_and_the_original_is_copied():
    own = RBF(2)
    assert as_kernel(own) is own
    fake = FakeGPyRBF(2)
    adapted = as_kernel(fake)
    adapted.rbf.variance = 5.0
    assert fake.variance.values[0] == 1.0
    assert isinstance(adapted, GPyKernel)


def test_its_parameters_have_roles_by_the_names_of_gpy():
    kernel = Linear(2) * FakeGPyRBF(2) + Bias(2)
    product, bias = kernel.parts
    linear, gpy = product.parts
    variances = [linear.variances, gpy.rbf.variance, bias.variance]
    for role, expected in (
        (Role.VARIANCE, variances),
        (Role.LENGTHSCALE, [gpy.rbf.lengthscale]),
        (Role.PERIOD, []),
    ):
        found = kernel.leaves_with(role)
        assert len(found) == len(expected)
        assert all(one is other for one, other in zip(found, expected, strict=True))
    assert kernel.simple_parts == (linear, gpy, bias)


def test_a_prior_is_refused():
    fake = FakeGPyRBF(2)
    fake.priors.add("a prior", np.array([0]))
    with pytest.raises(InputError, match="has a prior"):
        as_kernel(fake)


def test_lives_under_a_parent_without_priors_and_keeps_fixes():
    fake = FakeGPyRBF(2)
    fake.variance.fix()
    total = Sum([RBF(2), fake])
    for twin in (total, total.copy(), pickle.loads(pickle.dumps(total)), total.copy().copy()):
        assert twin.gpy.rbf.variance.is_fixed and not twin.gpy.rbf.lengthscale.is_fixed
        twin.gpy.rbf.variance = 7.0  # a fixed leaf still takes a new value
        twin.gpy.rbf.lengthscale = 0.5
        np.testing.assert_array_equal(twin.param_array, [1.0, 1.0, 7.0, 0.5])
        expected = RBF(2).K(X) + RBF(2, 7.0, 0.5).K(X)
        np.testing.assert_allclose(twin.K(X), expected, rtol=1e-12)
        gradient = twin.evaluate(X)[1](np.ones((5, 5)))[0]
        assert gradient[2] == pytest.approx(RBF(2, 1.0, 0.5).K(X).sum())  # fixed, but right
        twin.gpy.rbf.variance = 1.0


def test_threads_may_share_it():
    kernel, results = as_kernel(FakeGPyRBF(2)), {}

    def work(i):
        weights = np.full((5, 4), float(i))
        results[i] = kernel.evaluate(X, Z)[1](weights)[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        np.testing.assert_allclose(results[i], i * results[1], rtol=1e-12)


def test_too_few_columns():
    with pytest.raises(InputError, match="at least 4 columns"):
        as_kernel(FakeGPyRBF(1, active_dims=[3])).K(X)


def test_a_kernel_of_fixed_rows_is_refused():
    Fixed = type("Fixed", (FakeGPyRBF,), {})
    with pytest.raises(InputError, match="fixed rows"):
        as_kernel(Fixed(2))


def test_a_kernel_without_gradients_says_so():
    class NoGradient(FakeGPyRBF):
        def gradients_X(self, dL_dK, X, X2=None):
            raise NotImplementedError

    K, pullback = as_kernel(NoGradient(2)).evaluate(X, Z)
    with pytest.raises(InputError, match="no gradients in its inputs"):
        pullback(np.ones_like(K))


# ---- GPy itself, in an environment of its own ----------------------------------------------------

# arguments of the classes that need more than a number of columns, or do not take two
ARGUMENTS = {
    "Coregionalize": lambda kern: kern.Coregionalize(1, 3),
    "IndependentOutputs": lambda kern: kern.IndependentOutputs([kern.RBF(1), kern.RBF(1)]),
    "LinearFull": lambda kern: kern.LinearFull(2, 1),
    "MultioutputDerivativeKern": lambda kern: kern.MultioutputDerivativeKern(
        [kern.RBF(1), kern.RBF(1)]
    ),
    "MultioutputKern": lambda kern: kern.MultioutputKern([kern.RBF(1), kern.RBF(1)]),
    "Precomputed": lambda kern: kern.Precomputed(1, np.eye(10)),
    "Add": lambda kern: kern.RBF(2, ARD=True) + kern.Bias(2) + kern.White(2),
    "Prod": lambda kern: kern.RBF(1) * kern.Linear(1, active_dims=[1]),
    "Symmetric": lambda kern: kern.Symmetric(kern.RBF(2), -np.eye(2)),
    "TruncLinear": lambda kern: kern.TruncLinear(1, delta=[0.5]),
}
WITH_AN_INDEX = ("Coregionalize", "IndependentOutputs", "Multioutput", "Precomputed")
# GPy 1.15 has no gradients in the inputs for these, or fails in one of the five methods
NOT_RUNNING = {
    "BasisFuncKernel", "Brownian", "ChangePointBasisFuncKernel", "DEtime", "DiffKern",
    "DomainKernel", "EQ_ODE1", "EQ_ODE2", "Hierarchical", "Integral", "Integral_Limits", "Kern",
    "LinearSlopeBasisFuncKernel", "LogisticBasisFuncKernel", "Multidimensional_Integral_Limits",
    "ODE_UY", "ODE_UYC", "ODE_st", "ODE_t", "PeriodicExponential", "PeriodicMatern32",
    "PeriodicMatern52", "Poly", "PolynomialBasisFuncKernel", "Spline", "SplitKern",
    "TruncLinear_inf", "WienerVelocity",
}  # fmt: skip
RUNNING = (
    "Add Bias Coregionalize Cosine ExpQuad ExpQuadCosine Exponential GridRBF IndependentOutputs "
    "Linear LinearFull MLP Matern32 Matern52 MultioutputDerivativeKern MultioutputKern OU "
    "Precomputed Prod RBF RatQuad Sinc StdPeriodic Symmetric TruncLinear White"
).split()


@pytest.mark.peer
def test_every_class_of_gpy_is_listed():
    kern = pytest.importorskip("GPy").kern
    classes = [c for c in vars(kern).values() if isinstance(c, type) and issubclass(c, kern.Kern)]
    names = {c.__name__ for c in classes if not c.__name__.startswith("sde_")}
    assert names == {*RUNNING, *NOT_RUNNING, "Fixed", "WhiteHeteroscedastic"}


@pytest.mark.peer
@pytest.mark.parametrize("name", RUNNING)
def test_bound_and_gradients_of_gpy_kernels(name):
    """Every leaf's gradient of the bound against differences of it, and the bound against ours."""
    kern = pytest.importorskip("GPy").kern
    make = ARGUMENTS.get(name, lambda kern: getattr(kern, name)(2))
    indexed = name.startswith(WITH_AN_INDEX)
    D = 1 if name in ("Coregionalize", "Precomputed", "TruncLinear") else 2
    inputs, inducing = (
        np.random.default_rng(seed).uniform(0.2, 0.9, (n, D)) for seed, n in ((3, 10), (4, 4))
    )
    if indexed:
        inputs[:, -1], inducing[:, -1] = np.arange(10) % 2, np.arange(4) % 2
    y = np.sin(3.0 * inputs[:, 0]) + 0.1 * np.random.default_rng(5).normal(size=10)
    m = cgp.ChainedGP(inputs, y, HetGaussian(), make(kern), Z=inducing, jitter=1e-3, num_threads=1)
    cases.randomise_q(m)
    m.log_likelihood()
    m.problem.evaluator.freeze_nodes(True)
    m.objective_function_gradients()
    leaves = [leaf for leaf in m.flattened_parameters if not (indexed and leaf is m.Z)]
    assert not cases.wrong_leaves(cases.gradient_errors(m.log_likelihood, leaves))
    if indexed and D == 2:  # an index has no derivative, the other column has
        analytic = m.Z.gradient[:, 0].copy()
        for row in range(4):
            ends = []
            for step in (1e-5, -1e-5):
                m.Z[row, 0] = inducing[row, 0] + step
                ends.append(m.log_likelihood())
            m.Z[row, 0] = inducing[row, 0]
            assert analytic[row] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)
    twin = {"RBF": RBF, "Matern32": Matern32, "Linear": Linear}.get(name)
    if twin is not None:
        m2 = cgp.ChainedGP(
            inputs, y, HetGaussian(), twin(2), Z=inducing, jitter=1e-3, num_threads=1
        )
        cases.randomise_q(m2)
        assert m.log_likelihood() == pytest.approx(m2.log_likelihood(), rel=1e-10)


@pytest.mark.peer
def test_gpy_refusals():
    GPy = pytest.importorskip("GPy")
    kernel = GPy.kern.RBF(1)
    kernel.lengthscale.set_prior(GPy.priors.Gamma(1.0, 1.0), warning=False)
    with pytest.raises(InputError, match="has a prior"):
        as_kernel(kernel)
    with pytest.raises(InputError, match="fixed rows"):
        as_kernel(GPy.kern.RBF(1) + GPy.kern.Fixed(1, np.eye(3)))
    y = np.linspace(0.0, 1.0, 6)
    m = cgp.ChainedGP(y, y, HetGaussian(), GPy.kern.Brownian(1), num_threads=1)
    with pytest.raises(InputError, match="no gradients in its inputs"):
        m.objective_function_gradients()


@pytest.mark.peer
def test_in_the_environment_of_gpy():
    """The tests above, where GPy is: the interpreter that CHAINEDGP_GPY_PYTHON names."""
    python = os.environ.get("CHAINEDGP_GPY_PYTHON")
    if "GPy" in sys.modules or python is None:
        pytest.skip("no interpreter: set CHAINEDGP_GPY_PYTHON")
    command = [python, "-m", "pytest", "-q", "-m", "peer", "-W", "ignore", __file__]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert f"{len(RUNNING) + 2} passed" in done.stdout
