"""Figures of a model; each function draws on matplotlib axes `ax` and returns them.

matplotlib is imported when the first figure is drawn, not before.
"""

from .centiles import plot_centiles, plot_worm
from .density import plot_density
from .diagnostics import plot_calibration, plot_pit, plot_trace
from .effects import plot_components, plot_effects, plot_relevance, plot_variance
from .extremes import plot_mean_excess, plot_return_levels
from .fit import plot_fit, plot_latents, plot_slice
from .maps import plot_map
from .survival import plot_hazard, plot_survival
from .survival_study import (
    plot_restricted_mean,
    plot_survival_along,
    plot_survival_calibration,
    plot_survival_check,
)

__all__ = [
    "plot_calibration",
    "plot_centiles",
    "plot_components",
    "plot_density",
    "plot_effects",
    "plot_fit",
    "plot_hazard",
    "plot_latents",
    "plot_map",
    "plot_mean_excess",
    "plot_pit",
    "plot_relevance",
    "plot_restricted_mean",
    "plot_return_levels",
    "plot_slice",
    "plot_survival",
    "plot_survival_along",
    "plot_survival_calibration",
    "plot_survival_check",
    "plot_trace",
    "plot_variance",
    "plot_worm",
]
