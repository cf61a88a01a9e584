"""A stand-in for kernels of GPy, which need not be installed."""

import numpy as np
import paramz
from paramz.core.index_operations import ParameterIndexOperations
from paramz.transformations import Logexp


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
