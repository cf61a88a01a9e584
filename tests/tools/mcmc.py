"""Posteriors of latents by long MCMC, and models with their rows and their hyperparameters."""

import json

import numpy as np
from paths import STORED

import chainedgp as cgp

TRUTH = json.loads((STORED / "mcmc.json").read_text("utf-8"))


def fitted(likelihood, latents, x, y, censored, posterior="mean_field"):
    """The model with Z = X and all hyperparameters as given; only q is found."""
    X = np.asarray(x)[:, None]
    m = cgp.ChainedGP(
        X,
        np.asarray(y),
        getattr(cgp.likelihoods, likelihood)(),
        kernels=[cgp.kernels.RBF(1, sd * sd, length) for _, sd, length in latents],
        mean_functions=[cgp.means.Constant(mean) for mean, _, _ in latents],
        Z=X,
        Y_metadata={"censored": np.asarray(censored, dtype=float)} if any(censored) else None,
        num_threads=1,
        posterior=posterior,
    )
    assert m.optimize(only="variational", messages=False).converged
    return m


def model_of(name, likelihood=None, posterior="mean_field"):
    """The model of one of the long runs, or with another likelihood of its rows."""
    rows = (TRUTH[name][key] for key in ("latents", "x", "y", "censored"))
    return fitted(likelihood or name, *rows, posterior)
