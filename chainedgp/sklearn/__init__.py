"""Estimators in the manner of scikit-learn, and of scikit-survival. Needs `chainedgp[sklearn]`."""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("chainedgp.sklearn needs scikit-learn: pip install scikit-learn") from None

from .estimators import ChainedGPClassifier, ChainedGPRegressor
from .survival import ChainedGPSurvival, Curve

__all__ = ["ChainedGPClassifier", "ChainedGPRegressor", "ChainedGPSurvival", "Curve"]
