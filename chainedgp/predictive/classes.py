"""Predictions of classes: their probabilities, the class that is decided for, their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.frames import column_names, frame_like
from ..data.types import Frame
from ..errors import InputError
from ..likelihoods import Likelihood
from ..linalg import Array
from .law import PredictiveLaw


def num_classes(likelihood: Likelihood) -> int:
    """Number K of classes that predictions are about; InputError where targets are numbers."""
    number = likelihood.target_support.num_classes
    if number is None:
        raise InputError(
            f"predict_proba is for classes; {type(likelihood).__name__} is one of numbers. "
            "Use predict_density, predict_cdf or predict_quantiles, or a likelihood of classes: "
            "Bernoulli, HetProbit, Softmax, Ordinal."
        )
    return number


def check_mean(likelihood: Likelihood) -> None:
    """Raise InputError where predicted targets are one of several classes: codes have no mean.

    Of two classes, 0 and 1, the mean is the probability of the second.
    """
    number = likelihood.target_support.num_classes
    if number is not None and number > 2:
        raise InputError(
            f"predict gives mean and variance, and targets of {type(likelihood).__name__} are one "
            f"of {number} classes, whose codes have no mean. Use predict_proba for probabilities, "
            "predict_frame for these and the most probable class."
        )


def class_names(likelihood: Likelihood) -> tuple[str, ...]:
    """Names of the K classes in predictions: labels that targets had, else "0", "1", …"""
    return likelihood.class_names or tuple(map(str, range(num_classes(likelihood))))


def class_probabilities(distribution: PredictiveLaw, likelihood: Likelihood) -> Array:
    """Predicted P(y = k | x) = ∫ P(y = k | f) q(f) df, k = 0 … K − 1: (n, K), rows sum to 1."""
    p = distribution.pdf(np.arange(float(num_classes(likelihood))))
    return p / p.sum(axis=1, keepdims=True)  # The sum is 1 but for errors of the integrals.


def proba_like(Xnew: object, p: Array, likelihood: Likelihood) -> Array | Frame:
    """Class probabilities (n, K) as they are, or as a data frame where Xnew is one."""
    if column_names(Xnew) is None and not hasattr(Xnew, "columns"):
        return p
    return frame_like(Xnew, dict(zip(class_names(likelihood), p.T, strict=True)))


def class_columns(p: Array, likelihood: Likelihood) -> dict[str, np.ndarray]:
    """Columns for a frame: "class", the most probable one, and "P(…)" of each, from (n, K)."""
    names, best = class_names(likelihood), np.argmax(p, axis=1)
    labels: Any = np.array(names, dtype=object) if likelihood.class_names else np.arange(len(names))
    return {
        "class": labels[best],
        **{f"P({label})": column for label, column in zip(names, p.T, strict=True)},
    }
