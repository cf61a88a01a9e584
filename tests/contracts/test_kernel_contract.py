"""check_kernel itself: it passes a right kernel and names the fault of every wrong one."""

import numpy as np
import pytest
from paramz import Param
from paramz.transformations import Logexp

from chainedgp.kernels import RBF, Stationary
from chainedgp.parameters import Role
from chainedgp.testing.kernel import check_kernel
from chainedgp.testing.report import ContractError

LS = [0.6, 1.7]


# ---- a new stationary kernel in a few lines, and mutants that the contract must reject


class Cauchy(Stationary):
    def correlation(self, r2):
        return 1 / (1 + r2), r2

    def slope(self, memo, K):
        return K / (1 + memo), -1.0


def test_a_new_stationary_kernel_is_two_functions():
    check_kernel(Cauchy(2, 1.3, LS, ARD=True, active_dims=[2, 0], name="cauchy"))


def wrap_pullback(change):
    """RBF whose pullback goes through `change(dL_dtheta, dL_dX, dL_dZ)`."""

    class Mutant(RBF):
        def evaluate(self, X, Z=None):
            K, pullback = super().evaluate(X, Z)
            return K, lambda W, wrt_second=True: change(*pullback(W, wrt_second))

    return Mutant


def flip_lengthscale(theta, dX, dZ):
    return theta * [1, -1, -1], dX, dZ


def double_dX(theta, dX, dZ):
    return theta, 2 * dX, dZ


def lose_second_side(theta, dX, dZ):
    return theta, dX / 2 if dZ is None else dX, dZ


def half_dZ(theta, dX, dZ):
    return theta, dX, None if dZ is None else dZ / 2


def forget_dims(theta, dX, dZ):
    return theta, dX[:, [0, 2]], None if dZ is None else dZ[:, [0, 2]]


def permute_dims(theta, dX, dZ):
    return theta, np.roll(dX, 1, 1), None if dZ is None else np.roll(dZ, 1, 1)


def swap_lengthscales(theta, dX, dZ):
    return theta[[0, 2, 1]], dX, dZ


class WrongDiagonal(RBF):
    def evaluate_diag(self, X):
        k, pullback = super().evaluate_diag(X)
        return 1.01 * k, pullback


class WrongDiagonalGradient(RBF):
    def evaluate_diag(self, X):
        k, pullback = super().evaluate_diag(X)
        return k, lambda w: (-pullback(w)[0], None)


class NotSymmetric(RBF):
    def evaluate(self, X, Z=None):
        K, pullback = super().evaluate(X, Z)
        return K * (1 + 1e-6 * np.arange(K.shape[0])[:, None]), pullback


class NotPositive(RBF):
    def evaluate(self, X, Z=None):
        K, pullback = super().evaluate(X, Z)
        theta = self.variance.values[0]
        return K - 0.9 * theta, pullback


class MutatesInput(RBF):
    def evaluate(self, X, Z=None):
        result = super().evaluate(X, Z)
        if Z is not None:
            Z += 1e-9
        return result


class MutatesGradient(RBF):
    def evaluate(self, X, Z=None):
        self.gradient[:] = 0.0
        return super().evaluate(X, Z)


class MutatesParameter(RBF):
    def evaluate(self, X, Z=None):
        result = super().evaluate(X, Z)
        self.variance[0] *= 1 + 1e-12
        return result


class IgnoresDims(RBF):
    def evaluate(self, X, Z=None):
        shifted = X.copy()
        shifted[:, 0] += X[:, 1]
        return super().evaluate(shifted, Z)


class ReadsParametersLate(RBF):
    def evaluate(self, X, Z=None):
        K, _ = super().evaluate(X, Z)
        late = super().evaluate
        return K, lambda W, wrt_second=True: late(X, Z)[1](W, wrt_second)


class NotFinite(RBF):
    def evaluate(self, X, Z=None):
        K, pullback = super().evaluate(X, Z)
        return np.where(K > 0.9 * K.max(), np.nan, K), pullback


class Float32(RBF):
    def evaluate(self, X, Z=None):
        K, pullback = super().evaluate(X, Z)
        return K.astype(np.float32), pullback


class CrossDisagrees(RBF):
    def evaluate(self, X, Z=None):
        K, pullback = super().evaluate(X, Z)
        return (K if Z is None else 1.001 * K), pullback


class WrongWrapper(RBF):
    def update_gradients_full(self, dL_dK, X, X2=None):
        super().update_gradients_full(dL_dK, X, X2)
        self.gradient[0] *= 2


class NoCopy(RBF):
    def copy(self, memo=None):
        return self


class NoVariance(RBF):
    roles = {"lengthscale": Role.VARIANCE}


class NoLengthscale(RBF):
    roles = {"rate": Role.LENGTHSCALE}

    def __init__(self, input_dim, variance, lengthscale, **kwargs):
        super().__init__(input_dim, variance, lengthscale, **kwargs)
        self.rate = Param("rate", 1.0, Logexp())
        self.link_parameter(self.rate)

    def evaluate(self, X, Z=None):
        return super().evaluate(X * self.rate.values, None if Z is None else Z * self.rate.values)


class NoSuchLeaf(RBF):
    roles = {"sigma2": Role.VARIANCE}


class NoRole(RBF):
    roles = {"variance": "variance"}


MUTANTS = {
    "flip lengthscale": (wrap_pullback(flip_lengthscale), "dL_dtheta"),
    "swap lengthscales": (wrap_pullback(swap_lengthscales), "dL_dtheta"),
    "double dX": (wrap_pullback(double_dX), "dL_dX"),
    "one side only": (wrap_pullback(lose_second_side), "dL_dX in the symmetric case"),
    "half dZ": (wrap_pullback(half_dZ), "dL_dZ disagrees"),
    "forget dims": (wrap_pullback(forget_dims), "shape"),
    "permute dims": (wrap_pullback(permute_dims), "not active"),
    "diagonal": (WrongDiagonal, "evaluate_diag disagrees with the diagonal"),
    "diagonal gradient": (WrongDiagonalGradient, "pullback of evaluate_diag"),
    "symmetry": (NotSymmetric, "not symmetric"),
    "positive": (NotPositive, "positive semi-definite"),
    "input": (MutatesInput, "writes into its input Z"),
    "gradient": (MutatesGradient, "writes into the gradients"),
    "parameter": (MutatesParameter, "writes into the parameter values"),
    "dims": (IgnoresDims, r"depends on columns \[1, 3\]"),
    "late": (ReadsParametersLate, "set after evaluate"),
    "finite": (NotFinite, "not finite"),
    "float32": (Float32, "float64"),
    "cross": (CrossDisagrees, r"K\(X, X\) disagrees"),
    "wrapper": (WrongWrapper, "update_gradients_full"),
    "copy": (NoCopy, "copy"),
    "no variance": (NoVariance, "lengthscale is a variance, but K is not linear"),
    "no lengthscale": (NoLengthscale, "rate is a lengthscale, but correlations fall"),
    "no such leaf": (
        NoSuchLeaf,
        "sigma2: .* is no Role of one of the leaves lengthscale, variance",
    ),
    "no role": (NoRole, "variance: 'variance' is no Role"),
}


@pytest.mark.parametrize(("mutant", "words"), MUTANTS.values(), ids=MUTANTS)
def test_contract_rejects_mutants(mutant, words):
    kernel = mutant(2, 1.2, LS, ARD=True, active_dims=[0, 2])
    with pytest.raises(ContractError, match=words):
        check_kernel(kernel)


def test_the_unmutated_kernel_passes():
    check_kernel(RBF(2, 1.2, LS, ARD=True, active_dims=[0, 2]))


def test_contract_leaves_the_kernel_as_it_was():
    kernel = RBF(2)
    kernel.gradient[:] = 4.0
    kernel.variance.fix()
    check_kernel(kernel)
    np.testing.assert_array_equal(kernel.gradient, [4.0, 4.0])
    np.testing.assert_array_equal(kernel.param_array, [1.0, 1.0])
    assert kernel.variance.is_fixed
