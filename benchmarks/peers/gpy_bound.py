"""GPy's SVGP bound of the models in npz files; run by GPy's own interpreter.

    python gpy_bound.py model.npz result.npz [model.npz result.npz …]

GPy's q(u) = N(m, C Cᵀ) is not whitened: u = L v + mean(Z) gives m = L μ + mean(Z), C = L R.
Its `jitchol` adds nothing when Kuu factorises, and 1e-6 to 1e-1 of the mean diagonal when it does
not. So the jitter is put into the kernel, on K(Z) only, and Kuu must factorise with it.
"""

import sys

import GPy
import numpy as np


class Jittered(GPy.kern.Add):
    """A sum of kernels with `jitter` on the diagonal of K(Z, Z), and not on Kdiag(X)."""

    jitter = 0.0

    def K(self, X, X2=None, which_parts=None):
        """The covariance, with the jitter where X2 is left out: so GPy asks for Kuu."""
        K = super().K(X, X2, which_parts)
        return K + self.jitter * np.eye(X.shape[0]) if X2 is None else K


def make_likelihood(model):
    if str(model["likelihood"]) == "Gaussian":
        return GPy.likelihoods.Gaussian(variance=float(model["scale2"]))
    likelihood = GPy.likelihoods.StudentT(
        deg_free=float(model["nu"]), sigma2=float(model["scale2"])
    )
    # the nodes are made once and kept: asking for them first sets their number for the bound
    if likelihood._gh_points(int(model["nodes"]))[0].size != int(model["nodes"]):
        raise RuntimeError("GPy did not take the number of quadrature nodes")
    return likelihood


def make_svgp(model):
    """SVGP from the arrays of an npz file; whitened q is turned into GPy's."""
    D = model["X"].shape[1]
    parts = [GPy.kern.RBF(D, float(model["variance"][0]), model["lengthscale"][0], ARD=True)]
    if model["bias"][0]:
        parts.append(GPy.kern.Bias(D, float(model["bias"][0])))
    kernel = Jittered(parts)
    kernel.jitter = float(model["jitter"])
    mean = GPy.mappings.Constant(D, 1, float(model["mean"][0]))
    svgp = GPy.core.SVGP(
        model["X"], model["y"][:, None], model["Z"], kernel, make_likelihood(model), mean
    )
    Kuu = kernel.K(model["Z"])
    if GPy.util.linalg.lapack.dpotrf(Kuu, lower=1)[1] != 0:
        raise RuntimeError("Kuu does not factorise: GPy would add a jitter of its own")
    L = np.linalg.cholesky(Kuu)
    svgp.q_u_mean[:] = L @ model["q_mu"] + float(model["mean"][0])
    svgp.q_u_chol[:] = GPy.util.choleskies.triang_to_flat((L @ model["q_sqrt"][0])[None])
    return svgp


def main(source, target):
    np.savez(target, bound=float(make_svgp(np.load(source)).log_likelihood()))


if __name__ == "__main__":
    for pair in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(*pair)
