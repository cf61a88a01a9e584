"""Kernels of GPy behind the adapter: a stand-in with GPy's habits, and GPy itself if installed."""

import pickle
import threading

import numpy as np
import paramz
import pytest
from paramz.core.index_operations import ParameterIndexOperations
from paramz.transformations import Logexp

from chainedgp.errors import InputError
from chainedgp.kernels import RBF, GPyKernel, Sum, as_kernel
from chainedgp.testing.kernel import check_kernel
from chainedgp.testing.report import ContractError

X = np.random.default_rng(1).normal(size=(5, 2))
Z = np.random.default_rng(2).normal(size=(4, 2))


class FakeGPyRBF(paramz.Parameterized):
    """GPy's five methods and habits: overwrites gradients, indexes priors, loses its parent."""

    def __init__(self, input_dim, variance=1.0, lengthscale=1.0, active_dims=None, name="rbf"):
        super().__init__(name=name)
        self.input_dim = input_dim
        self.active_dims = np.arange(input_dim) if active_dims is None else np.array(active_dims)
        self.variance = paramz.Param("variance", np.array([variance]), Logexp())
        self.lengthscale = paramz.Param("lengthscale", np.array([lengthscale]), Logexp())
        for node in (self, self.variance, self.lengthscale):
            node.add_index_operation("priors", ParameterIndexOperations())
        self.link_parameters(self.variance, self.lengthscale)

    def __getstate__(self):
        state = super().__getstate__()
        state.pop("_parent_", None)
        return state

    def _parts(self, X, X2):
        A = X[:, self.active_dims]
        B = A if X2 is None else X2[:, self.active_dims]
        difference = A[:, None] - B[None]
        ell = self.lengthscale.values[0]
        r2 = (difference**2).sum(-1) / ell**2
        return difference, r2, self.variance.values[0] * np.exp(-r2 / 2), ell

    def K(self, X, X2=None):
        return self._parts(X, X2)[2]

    def Kdiag(self, X):
        return np.full(len(X), self.variance.values[0])

    def update_gradients_full(self, dL_dK, X, X2=None):
        _, r2, K, ell = self._parts(X, X2)
        self.variance.gradient = np.sum(dL_dK * K) / self.variance.values[0]
        self.lengthscale.gradient = np.sum(dL_dK * K * r2) / ell

    def update_gradients_diag(self, dL_dKdiag, X):
        self.variance.gradient = np.sum(dL_dKdiag)  # leaves the lengthscale's as it was

    def gradients_X(self, dL_dK, X, X2=None):
        difference, _, K, ell = self._parts(X, X2)
        W = dL_dK * K
        if X2 is None:
            W = W + W.T
        gradient = np.zeros(X.shape)
        gradient[:, self.active_dims] = -(W[:, :, None] * difference).sum(1) / ell**2
        return gradient


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


def test_gpy_itself():
    kern = pytest.importorskip("GPy").kern
    for gpy in (
        kern.RBF(2, ARD=True),
        kern.Matern32(1, active_dims=[1]),
        kern.RBF(2) + kern.Bias(2) + kern.White(2),
        kern.RBF(1) * kern.Linear(1, active_dims=[1]) + kern.StdPeriodic(2),
    ):
        check_kernel(as_kernel(gpy))
    with pytest.raises(InputError, match="has a prior"):
        prior = pytest.importorskip("GPy").priors.Gamma(1.0, 1.0)
        gpy = kern.RBF(1)
        gpy.lengthscale.set_prior(prior, warning=False)
        as_kernel(gpy)
