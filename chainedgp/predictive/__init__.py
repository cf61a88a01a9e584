"""The distribution of new targets."""

from .distribution import Predictive

__all__ = ["Predictive"]
