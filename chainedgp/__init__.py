"""Chained Gaussian processes: likelihoods with several parameters, each driven by its own GP."""

import sys
from typing import TYPE_CHECKING

from . import datasets, errors, kernels, likelihoods, means, plotting, survival, testing
from ._version import __version__
from .assessment import metrics
from .assessment.cross_validation import cross_validate
from .assessment.loo import compare
from .data.names import OF_PACKAGE, unknown_in
from .likelihoods import Likelihood
from .model import ChainedGP, baselines, persistence
from .model.persistence import load
from .parameters import priors

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
    "survival",
    "testing",
]

# These modules live in the folders of their subjects. Users import them from here, also as
# `from chainedgp.metrics import nlpd`, which needs an entry in sys.modules, as `os` makes one for
# `os.path`.
sys.modules[f"{__name__}.baselines"] = baselines
sys.modules[f"{__name__}.metrics"] = metrics
sys.modules[f"{__name__}.priors"] = priors
sys.modules[f"{__name__}.persistence"] = persistence


if not TYPE_CHECKING:  # A checker of types would take any name for one that it has.

    def __getattr__(name: str) -> object:
        """Names of other libraries are an error with ours."""
        raise AttributeError(unknown_in(__name__, name, OF_PACKAGE, __all__))


def __dir__() -> list[str]:
    """The public names: folders that only the package itself imports are not among them."""
    return sorted(__all__)
