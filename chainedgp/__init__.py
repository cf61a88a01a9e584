"""Chained Gaussian processes: likelihoods with several parameters, each driven by its own GP."""

from . import kernels, likelihoods, means
from ._version import __version__
from .likelihoods import Likelihood
from .model import ChainedGP

__all__ = ["ChainedGP", "Likelihood", "__version__", "kernels", "likelihoods", "means"]
