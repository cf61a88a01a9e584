"""The questions that `m.check()` asks of a fit: each is a function that returns one `Finding`."""

from .data import scaling
from .fit import convergence, negative_sites, quadrature
from .parameters import hyperparameters, inducing_inputs
from .posterior import posterior
from .rows import calibration, noise, outliers, pareto_k

__all__ = [
    "calibration",
    "convergence",
    "hyperparameters",
    "inducing_inputs",
    "negative_sites",
    "noise",
    "outliers",
    "pareto_k",
    "posterior",
    "quadrature",
    "scaling",
]
