"""Chained Gaussian processes: likelihoods with several parameters, each driven by its own GP."""

from . import datasets, errors, kernels, likelihoods, means, priors
from ._version import __version__
from .likelihoods import Likelihood
from .model import ChainedGP
from .persistence import load

__all__ = [
    "ChainedGP",
    "Likelihood",
    "__version__",
    "datasets",
    "errors",
    "kernels",
    "likelihoods",
    "load",
    "means",
    "priors",
]
