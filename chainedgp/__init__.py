"""Chained Gaussian processes: likelihoods with several parameters, each driven by its own GP."""

from importlib import import_module
from types import ModuleType

from . import datasets, errors, kernels, likelihoods, means, priors
from ._version import __version__
from .likelihoods import Likelihood
from .loo import compare
from .model import ChainedGP
from .persistence import load
from .validation import cross_validate

_LAZY = ("baselines", "metrics", "plotting", "testing")  # submodules that most programs never need

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


def __getattr__(name: str) -> ModuleType:
    """Import a submodule when it is first asked for: they are slow to load."""
    if name in _LAZY:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
