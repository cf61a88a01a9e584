"""Chained Gaussian processes: likelihoods with several parameters, each driven by its own GP."""

from . import (
    baselines,
    datasets,
    errors,
    kernels,
    likelihoods,
    means,
    metrics,
    plotting,
    priors,
    testing,
)
from ._version import __version__
from .likelihoods import Likelihood
from .loo import compare
from .model import ChainedGP
from .persistence import load
from .validation import cross_validate

__all__ = [
    "ChainedGP",
    "Likelihood",
    "__version__",
    "baselines",
    "compare",
    "cross_validate",
    "datasets",
    "errors",
    "kernels",
    "likelihoods",
    "load",
    "means",
    "metrics",
    "plotting",
    "priors",
    "testing",
]
