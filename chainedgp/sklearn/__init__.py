"""Estimators in the manner of scikit-learn, and of scikit-survival. Needs `chainedgp[sklearn]`."""

from .estimators import ChainedGPClassifier, ChainedGPRegressor
from .survival import ChainedGPSurvival, Curve

__all__ = ["ChainedGPClassifier", "ChainedGPRegressor", "ChainedGPSurvival", "Curve"]
