"""The figure of a fit that suits the number of its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..data.names import checks_names
from ..data.types import Metadata
from ..errors import ArgumentError
from ..predictive.fitted import FittedModel
from .fit import plot_fit, plot_slice
from .grids import Limit, Place
from .maps import plot_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checks_names
def plot(
    model: FittedModel,
    *,
    levels: Sequence[float] | None = None,
    input: int | str | None = None,
    latent: int | str | None = None,
    what: str | float | None = None,
    inputs: tuple[int | str, int | str] | None = None,
    at: Place = None,
    limits: Sequence[Limit | tuple[Limit, Limit] | None] | None = None,
    num: int | None = None,
    data: bool | None = None,
    legend: bool | None = None,
    colorbar: bool | None = None,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the fit of the model: `plot_fit` for one input, `plot_map` for two, or `plot_slice`.

    For classes it draws their probabilities. The arguments are those of the chosen function,
    and None is its default; an argument that it does not take is an error.

    levels, legend : with one input, or more than two. input, latent : with more than two.
    what, inputs, colorbar : with two. at : with two or more. limits, num, data, Y_metadata,
    ax : always; with two inputs limits are a pair for each.
    """
    chosen: dict[int, Callable[..., Axes]]
    chosen = {1: plot_fit, 2: plot_map}
    function: Any = chosen.get(model.X.shape[1], plot_slice)
    options = {
        "levels": levels, "input": input, "latent": latent, "what": what, "inputs": inputs,
        "at": at, "limits": limits, "num": num, "data": data, "legend": legend,
        "colorbar": colorbar, "Y_metadata": Y_metadata, "ax": ax,
    }  # fmt: skip
    given = {key: value for key, value in options.items() if value is not None}
    known = inspect.signature(function).parameters
    for key in given:
        if key not in known:
            takes = ", ".join(name for name in known if name != "model")
            D = model.X.shape[1]
            raise ArgumentError(
                f"plot of a model of {D} input{'s' * (D > 1)} is {function.__name__}, which has no "
                f"argument {key!r}: it has {takes}."
            )
    return function(model, **given)
