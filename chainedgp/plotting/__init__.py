"""Figures of a model; each function returns matplotlib axes and takes `ax`.

matplotlib is imported when the first figure is drawn, not before.
"""

from .density import plot_density
from .diagnostics import plot_calibration, plot_pit, plot_relevance, plot_trace
from .extremes import plot_mean_excess, plot_return_levels
from .fit import plot_fit, plot_latents, plot_slice
from .maps import plot_map
from .survival import plot_hazard, plot_survival

__all__ = [
    "plot_calibration",
    "plot_density",
    "plot_fit",
    "plot_hazard",
    "plot_latents",
    "plot_map",
    "plot_mean_excess",
    "plot_pit",
    "plot_relevance",
    "plot_return_levels",
    "plot_slice",
    "plot_survival",
    "plot_trace",
]
