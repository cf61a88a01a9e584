"""Kernels: covariance functions, with GPy's names and arguments."""

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
