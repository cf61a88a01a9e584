"""Kernels: covariance functions, with GPy's names and arguments."""

from typing import TYPE_CHECKING

from ..data.names import OF_KERNELS, unknown_in
from .adapter import GPyKernel, as_kernel
from .base import Kernel
from .categorical import Categorical, Mixed, RandomEffects
from .combine import Product, Sum
from .linear import Linear
from .periodic import Periodic
from .sphere import Sphere
from .static import Bias, White
from .stationary import RBF, Matern12, Matern32, Matern52, RationalQuadratic, Stationary

__all__ = [
    "RBF",
    "Bias",
    "Categorical",
    "GPyKernel",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Mixed",
    "Periodic",
    "Product",
    "RandomEffects",
    "RationalQuadratic",
    "Sphere",
    "Stationary",
    "Sum",
    "White",
    "as_kernel",
]


if not TYPE_CHECKING:  # A checker of types would take any name for one that it has.

    def __getattr__(name: str) -> object:
        """Names of other libraries are an error with ours."""
        raise AttributeError(unknown_in(__name__, name, OF_KERNELS, __all__))
