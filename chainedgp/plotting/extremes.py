"""Figures that check extremes: return levels against the data, and mean excesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from ..data.arguments import positive_float
from ..data.rows import as_targets
from ..data.types import Data, Metadata
from ..errors import InputError
from ..likelihoods.observation import OBSERVATION, of_event
from ..linalg import Array
from ..predictive.fitted import FittedModel
from ..sampling.averaged import Averaged
from . import grids, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHORTEST = 1.05  # A curve of return levels begins at so many mean times between two targets.
LONGEST = 3.0  # Without given periods the curve ends at so many times what the data span.
POINTS = 60  # A curve of return levels has so many points.
FEWEST = 5  # A mean excess is a mean over at least so many targets.
THRESHOLDS = 80  # Mean excesses are drawn over so many thresholds.


def plot_return_levels(
    model: FittedModel,
    at: grids.Place = None,
    *,
    periods: Data | None = None,
    level: float = 90.0,
    rate: float = 1.0,
    average: Averaged | None = None,
    Y_metadata: Metadata = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot return levels at one place against their periods, with a band, and the data.

    The curve is the median of `predictive(X).return_level`. The points are all targets, transformed
    to the place: a target that is the quantile of level u in its own row becomes the quantile of
    level u at the place, both at the posterior means of the latents. The i-th smallest of n is
    drawn at the period (n + 1)/((n + 1 − i) rate). Points that leave the band to one side show a
    tail that is wrong.

    Parameters
    ----------
    at : values of the inputs, as in `plot_slice`; None takes their medians.
    periods : the two ends of the axis; None goes from about 1/rate to three times what the data
        span, and to 100 at least.
    level : probability of the band in percent.
    rate : targets per unit of time: 1 for yearly maxima, the mean number of exceedances a year.
    average : `m.over_hyperparameters()`, to draw its return levels instead of those of the fit.
    """
    rate = positive_float(rate, "rate")
    place, metadata = grids.resting_point(model, at), grids.metadata_at_rest(model, Y_metadata)
    observed = _moved(model, place, metadata)
    n = len(observed)
    T = (n + 1.0) / (n + 1.0 - np.arange(1, n + 1)) / rate
    ends = _ends(periods, n, rate)
    curve = np.geomspace(*ends, POINTS)
    share = float(style.as_levels([level])[0]) / 100.0
    rows = (model if average is None else average).predictive(place[None], metadata)
    found = rows.return_level(curve, level=share, rate=rate)
    ax, blue = style.one_axes(ax), style.COLOURS["blue"]
    band = [(found.lower[0], found.upper[0])]
    style.draw_bands(ax, curve, band, np.array([level]), blue)
    ax.plot(curve, found.level[0], color=blue, lw=1.6, label="return level")
    ax.plot(T, observed, ".", ms=4.0, color=style.POINTS, label="data", zorder=3)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlim(*ends)
    style.legend_above(ax)
    return style.tidy(ax, "return period", grids.target_name(model))


def plot_mean_excess(
    source: FittedModel | Data,
    *,
    thresholds: Sequence[float] | None = None,
    level: float = 95.0,
    ax: Axes | None = None,
) -> Axes:
    """Plot the mean excess, of y − u over the targets above u, against the threshold u.

    Of a generalised Pareto distribution it is a straight line in u, of slope ξ/(1 − ξ): a threshold
    is high enough where the curve becomes straight. The band is mean ± z sd/√k of k excesses.

    Parameters
    ----------
    source : targets (n,), or a model with them.
    thresholds : values of u; None takes an even grid from the least target to the sixth largest.
    level : probability of the band in percent.
    """
    if hasattr(source, "likelihood"):
        _check_numbers(cast("FittedModel", source))
    values: Array = np.asarray(getattr(source, "Y", source))
    y = np.sort(as_targets(values, int(np.size(values))))
    if len(y) < 2 * FEWEST:
        raise InputError(f"a mean excess plot needs {2 * FEWEST} targets or more; got {len(y)}.")
    u = _thresholds(y, thresholds)
    from scipy.special import ndtri  # This is imported only when it is needed.

    z = float(ndtri(0.5 + 0.005 * float(style.as_levels([level])[0])))
    mean, half = np.empty(len(u)), np.empty(len(u))
    for k, low in enumerate(u):
        excess = y[y > low] - low  # At least FEWEST targets, unless some are equal.
        mean[k], half[k] = excess.mean(), z * excess.std(ddof=1) / np.sqrt(excess.size)
    ax, blue = style.one_axes(ax), style.COLOURS["blue"]
    style.draw_bands(ax, u, [(np.maximum(mean - half, 0.0), mean + half)], np.array([level]), blue)
    ax.plot(u, mean, color=blue, lw=1.6, label="mean excess")
    style.legend_above(ax)
    return style.tidy(ax, "threshold", "mean excess")


def _check_numbers(model: FittedModel) -> None:
    """Raise InputError where a figure of mean excess has no targets, or classes."""
    if model.likelihood.target_support.num_classes is not None:
        raise InputError(
            f"a mean excess is of numbers; the targets of {type(model.likelihood).__name__} are "
            "classes. plot_slice draws their probabilities."
        )
    grids.need_rows(model, "targets to chainedgp.plotting.plot_mean_excess")


def _thresholds(y: Array, given: Sequence[float] | None) -> Array:
    """Thresholds (k,) of a mean excess figure, in order; y is sorted, FEWEST of it above each."""
    highest = y[-FEWEST - 1]
    if given is None:
        return np.unique(np.linspace(y[0], highest, THRESHOLDS))
    u = np.unique(np.asarray(given, dtype=float))
    if not (u.size and np.isfinite(u).all() and (u <= highest).all()):
        raise InputError(
            f"thresholds must be numbers with {FEWEST} targets or more above each, at most "
            f"{highest:g}; got {given!r}."
        )
    return u


def _moved(model: FittedModel, place: Array, metadata: dict[str, Data]) -> Array:
    """The targets that were seen exactly, moved to the place of a return level figure, in order."""
    lik, y, given = model.likelihood, np.array(model.Y)[:, 0], dict(model.Y_metadata)
    exact = np.asarray(given.get("censored", np.zeros(len(y)))) == 0.0
    own = {k: np.asarray(v)[exact] for k, v in given.items() if k not in (*OBSERVATION, "weights")}
    there = {k: np.asarray(v, dtype=float) for k, v in metadata.items() if k not in OBSERVATION}
    kw = lik.parameter_values()
    latents = model.predict_latents(np.asarray(model.X)[exact])[0].T
    with np.errstate(all="ignore"):
        u = lik.cdf(y[exact], *latents, **of_event({**kw, **own}))
        at = model.predict_latents(place[None])[0][0]
        moved = lik.ppf(u, *(np.full(u.shape, f) for f in at), **of_event({**kw, **there}))
    return np.sort(moved[np.isfinite(moved)])


def _ends(periods: Data | None, n: int, rate: float) -> tuple[float, float]:
    """Both ends of the axis of periods in a figure of return levels."""
    if periods is None:
        return SHORTEST / rate, max(LONGEST * n / rate, 100.0)
    ends = np.ravel(np.asarray(periods, dtype=float))
    if ends.size != 2 or not (np.isfinite(ends).all() and 1.0 / rate < ends[0] < ends[1]):
        raise InputError(
            f"periods must be two numbers, the second larger and both above 1/rate; got "
            f"{periods!r}."
        )
    return float(ends[0]), float(ends[1])
