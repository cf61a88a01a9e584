"""Starting values from the data, for whatever the user left open."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ScalingWarning
from ..kernels import RBF
from ..linalg import Array
from ..means import Constant

__all__ = ["default_kernels", "default_means", "input_spread", "start_latents"]

SPREAD_ROWS = 10_000


def input_spread(X: Array) -> Array:
    """Standard deviation of each column (D,), and 1 for a constant column."""
    rows = np.asarray(X[:: max(1, X.shape[0] // SPREAD_ROWS)], dtype=float)
    spread = rows.std(0)
    constant = spread <= 1e-12 * np.abs(rows).max(0)
    return np.where(constant, 1.0, spread)


def default_kernels(X: Array, scales: Sequence[float], symmetric: bool) -> list[Any]:
    """One ARD RBF per latent: lengthscale √D standard deviations, variance the latent's scale².

    In D dimensions typical distances grow with √D. Latents that play the same role start with
    different lengthscales, or they would stay equal for ever.
    """
    D = X.shape[1]
    base = np.sqrt(D) * input_spread(X)
    factors = np.geomspace(2.0, 0.5, len(scales)) if symmetric else np.ones(len(scales))
    return [
        RBF(D, variance=s * s, lengthscale=base * f, ARD=True)
        for s, f in zip(scales, factors, strict=True)
    ]


def default_means(values: Sequence[float]) -> list[Any]:
    """A constant mean function per latent."""
    return [Constant(float(value)) for value in values]


def start_latents(
    likelihood: Any, y: Array, metadata: Mapping[str, Array], parameters: Mapping[str, float]
) -> tuple[Array, Array]:
    """Constant starts (b,) of the latents, and the scales (b,) on which they vary."""
    rows = slice(None, None, max(1, y.size // SPREAD_ROWS))
    some = {key: value[rows] for key, value in metadata.items()}
    y = np.asarray(y[rows], dtype=float)
    values = np.asarray(likelihood.initial_latents(y, **{**parameters, **some}), dtype=float)
    hook = getattr(likelihood, "initial_scales", None)
    scales = np.ones(values.size) if hook is None else np.asarray(hook(y), dtype=float)
    return np.where(np.isfinite(values), values, 0.0), scales


def warn_of_scaling(X: Array) -> None:
    """Warn once where a column varies so little around so large a value that digits are lost."""
    rows = np.asarray(X[:: max(1, X.shape[0] // SPREAD_ROWS)], dtype=float)
    spread, size = rows.std(0), np.abs(rows).max(0)
    bad = np.flatnonzero((spread > 0) & (spread < 1e-7 * size))
    if bad.size:
        warnings.warn(
            f"column {bad[0]} of X varies by {spread[bad[0]]:.1e} around {size[bad[0]]:.1e}: "
            "distances lose their digits. Subtract its mean.",
            ScalingWarning,
            stacklevel=4,
        )
