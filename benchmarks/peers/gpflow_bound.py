"""GPflow's SVGP bound of the models in npz files; run by GPflow's own interpreter.

    python gpflow_bound.py model.npz result.npz [model.npz result.npz …]

GPflow adds one absolute jitter to the Kuu of every latent, ours is relative to the mean diagonal:
the models compared have the same prior variance for both latents, so that one number serves.
"""

import sys

import numpy as np
from gpflow_model import gpflow, make_model


def main(source, target):
    model = np.load(source)
    gpflow.config.set_default_jitter(float(model["jitter"]))
    bound = make_model(model).elbo((model["X"], model["y"][:, None]))
    np.savez(target, bound=float(bound))


if __name__ == "__main__":
    for pair in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(*pair)
