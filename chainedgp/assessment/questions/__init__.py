"""What a careful statistician asks of a fit: one function for each question, one finding each."""

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
