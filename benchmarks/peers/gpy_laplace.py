"""GPy's Laplace approximation of the models in npz files; run by GPy's own interpreter.

    python gpy_laplace.py model.npz result.npz [model.npz result.npz …]

GPy's Laplace takes no mean function, so the mean is 0. Its search for the mode stops when a step
gains less than 1e-4; here it goes on to 1e-13.
"""

import sys

import GPy
import numpy as np


def main(source, target):
    model = np.load(source)
    D = model["X"].shape[1]
    kernel = GPy.kern.RBF(D, float(model["variance"]), model["lengthscale"], ARD=True)
    kernel += GPy.kern.Bias(D, float(model["bias"]))
    metadata = {"censored": model["censored"][:, None]}
    if str(model["likelihood"]) == "StudentT":
        likelihood = GPy.likelihoods.StudentT(
            deg_free=float(model["nu"]), sigma2=float(model["scale2"])
        )
    else:
        likelihood = GPy.likelihoods.LogLogistic(r=float(model["shape"]))
    method = GPy.inference.latent_function_inference.Laplace()
    method._mode_finding_tolerance, method._mode_finding_max_iter = 1e-13, 5000
    gp = GPy.core.GP(
        model["X"], model["y"][:, None], kernel, likelihood, None, method, Y_metadata=metadata
    )
    np.savez(target, log_marginal=float(gp.log_likelihood()), mode=method.f_hat[:, 0])


if __name__ == "__main__":
    for pair in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(*pair)
