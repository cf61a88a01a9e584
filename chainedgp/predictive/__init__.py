"""The predictive distribution of new targets: moments, densities, quantiles, survival."""

from .distribution import Predictive

__all__ = ["Predictive"]
