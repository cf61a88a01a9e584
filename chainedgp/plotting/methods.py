"""The model's `plot` methods; each hands over to a function of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .density import plot_density
from .diagnostics import plot_calibration, plot_pit, plot_relevance, plot_trace
from .fit import plot_fit, plot_latents, plot_slice
from .maps import plot_map
from .survival import plot_hazard, plot_survival

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Plotting"]


class Plotting:
    """Figures of the model. All take `ax`, and the options of the function they name.

    `input_names` and `target_name` label the axes; without them they are x0, x1, … and y.
    """

    input_names: Sequence[str] | None = None
    target_name: str | None = None

    def plot(self, **options: Any) -> Axes:
        """The fit: `plot_fit` for one input, `plot_map` for two, else `plot_slice`."""
        columns = self.X.shape[1]  # type: ignore[attr-defined]
        draw: Any = {1: plot_fit, 2: plot_map}.get(columns, plot_slice)
        return draw(self, **options)

    def plot_fit(self, **options: Any) -> Axes:
        """Median and quantile bands with the data: see `chainedgp.plotting.plot_fit`."""
        return plot_fit(self, **options)

    def plot_latents(self, input: int | str | None = None, **options: Any) -> np.ndarray:
        """Latent functions along an input with bands: see `chainedgp.plotting.plot_latents`."""
        return plot_latents(self, input, **options)

    def plot_density(self, input: int | str | None = None, **options: Any) -> Axes:
        """Heat map of the predictive density: see `chainedgp.plotting.plot_density`."""
        return plot_density(self, input, **options)

    def plot_slice(self, input: int | str | None = None, **options: Any) -> Axes:
        """Quantile bands along one of several inputs: see `chainedgp.plotting.plot_slice`."""
        return plot_slice(self, input, **options)

    def plot_map(self, what: str | float | None = None, **options: Any) -> Axes:
        """A quantity over two inputs: see `chainedgp.plotting.plot_map`."""
        return plot_map(self, what, **options)

    def plot_survival(self, X: Any = None, **options: Any) -> Axes:
        """Survival curves of rows: see `chainedgp.plotting.plot_survival`."""
        return plot_survival(self, X, **options)

    def plot_hazard(self, X: Any = None, **options: Any) -> Axes:
        """Hazard curves of rows: see `chainedgp.plotting.plot_hazard`."""
        return plot_hazard(self, X, **options)

    def plot_pit(self, X: Any = None, Y: Any = None, **options: Any) -> Axes:
        """Histogram of F(y | x), flat if calibrated: see `chainedgp.plotting.plot_pit`."""
        return plot_pit(self, X, Y, **options)

    def plot_calibration(self, X: Any = None, Y: Any = None, **options: Any) -> Axes:
        """Coverage of central intervals: see `chainedgp.plotting.plot_calibration`."""
        return plot_calibration(self, X, Y, **options)

    def plot_trace(self, against: str = "iterations", **options: Any) -> Axes:
        """The bound over the last optimisation: see `chainedgp.plotting.plot_trace`."""
        return plot_trace(self, against, **options)

    def plot_relevance(self, **options: Any) -> Axes:
        """ARD relevances of the inputs: see `chainedgp.plotting.plot_relevance`."""
        return plot_relevance(self, **options)
