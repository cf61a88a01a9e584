"""The model's `plot` methods: the functions of this package, with the model as first argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import density, diagnostics, fit, maps, survival

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Plotting"]


class Plotting:
    """Figures of the model, the functions of `chainedgp.plotting`. All take `ax`.

    `input_names` and `target_name` label the axes; without them they are x0, x1, … and y.
    """

    input_names: Sequence[str] | None = None
    target_name: str | None = None

    def plot(self, **options: Any) -> Axes:
        """The fit: `plot_fit` for one input, `plot_map` for two, else `plot_slice`."""
        columns = self.X.shape[1]  # type: ignore[attr-defined]
        draw: Any = {1: fit.plot_fit, 2: maps.plot_map}.get(columns, fit.plot_slice)
        return draw(self, **options)

    plot_fit = fit.plot_fit
    plot_latents = fit.plot_latents
    plot_density = density.plot_density
    plot_slice = fit.plot_slice
    plot_map = maps.plot_map
    plot_survival = survival.plot_survival
    plot_hazard = survival.plot_hazard
    plot_pit = diagnostics.plot_pit
    plot_calibration = diagnostics.plot_calibration
    plot_trace = diagnostics.plot_trace
    plot_relevance = diagnostics.plot_relevance
