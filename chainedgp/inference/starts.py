"""Starting values of a fit from the data, for all that the user left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..data.rows import Rows
from ..data.types import Keywords, Value
from ..errors import ScalingWarning, TargetWarning, warn
from ..kernels import RBF, Kernel, Linear, Mixed, Periodic, RandomEffects
from ..kernels.base import LEVEL_SPREAD
from ..likelihoods import Likelihood
from ..likelihoods.observation import EXACT, LEFT, RIGHT, codes
from ..likelihoods.ties import Ties, log_density
from ..linalg import Array, Booleans
from ..means import Constant, MeanFunction

# Starting values are made from about this many rows, evenly taken from larger data.
SPREAD_ROWS = 10_000
# Values of a column farther than this many interquartile ranges from its quartiles are cut there
# before its spread is taken: one slip of the decimal point would hide what all other rows tell.
REACH = 10.0
# Numbers that vary by less than this share of their size have too few digits left: a float has 16.
FEW_DIGITS = 1e-10
# The linear part of a default kernel begins with a prior standard deviation of this share of the
# scale on which its latent varies.
TREND = 0.5


@dataclass(frozen=True)
class Starts:
    """Starting values of the latents that the targets alone suggest.

    constants : (b,) the best constant latents, by moments.
    scales : (b,) the scales on which the latents vary.
    score : mean over rows of w_i log p(y_i | constants), inf if it is not finite. A fit whose bound
        per row is below it has gone astray. A bound far above it means that some noise vanishes,
        which only a continuous density allows.
    mean_weight : mean of the weights w_i of the rows.
    """

    constants: Array
    scales: Array
    score: float
    mean_weight: float


@dataclass(frozen=True)
class Inputs:
    """What starting values need to know of the columns of X beside their numbers.

    unordered, ordered : columns that are categories, without and with an order of their levels,
        read as codes.
    num_levels : number of levels of each of the unordered ones.
    seasons : pairs of a column and the length of a season in its unit.
    """

    unordered: tuple[int, ...] = ()
    num_levels: tuple[int, ...] = ()
    ordered: tuple[int, ...] = ()
    seasons: tuple[tuple[int, float], ...] = ()


NUMBERS = Inputs()


def input_spread(X: Array, unordered: Sequence[int] | np.ndarray = ()) -> Array:
    """Standard deviation of each column of X (D,), by which starts are scaled; 1 if it is constant.

    Values far outside are cut, unless half of the rows or more have the same value.

    unordered : columns of codes, whose size says nothing; they count as 0 and 1 in equal shares.
    """
    rows = np.asarray(X[:: max(1, X.shape[0] // SPREAD_ROWS)], dtype=float)
    lower, upper = np.quantile(rows, [0.25, 0.75], axis=0)
    reach = np.where(upper > lower, REACH * (upper - lower), np.inf)
    spread = np.clip(rows, lower - reach, upper + reach).std(0)
    constant = spread <= 1e-12 * np.abs(rows).max(0)
    spread = np.where(constant, 1.0, spread)
    spread[list(unordered)] = LEVEL_SPREAD
    return spread


def inputs_that_count(rows: Rows) -> Array:
    """Inputs (n, D) by which starts are scaled: a row of weight 2 is there twice, of 0 not at all.

    Without weights these are all inputs.
    """
    return rows.X if rows.weights is None else rows.counted(SPREAD_ROWS).X


def farthest(
    X: Array, M: int, chosen: Sequence[int], unordered: Sequence[int] | np.ndarray
) -> list[int]:
    """Pick M rows for inducing inputs: given or first ones, then each the farthest from all before.

    Returns row numbers. unordered : columns of codes; two different codes are 1/LEVEL_SPREAD apart.
    """
    found = list(chosen) or [0]
    codes = X[:, list(unordered)]
    X = np.delete(X, list(unordered), axis=1)
    nearest = np.full(X.shape[0], np.inf)  # squared distances to the nearest row that was found
    for k in range(min(M, X.shape[0])):
        if k == len(found):
            found.append(int(np.argmax(nearest)))
        distance = ((X - X[found[k]]) ** 2).sum(1)
        if codes.shape[1]:
            distance += (codes != codes[found[k]]).sum(1) / LEVEL_SPREAD**2
        np.minimum(nearest, distance, out=nearest)
    return found[:M]


def default_kernels(
    X: Array,
    scales: Sequence[float] | Array,
    symmetric: bool,
    trends: bool = False,
    inputs: Inputs = NUMBERS,
) -> list[Kernel]:
    """The default kernels: one ARD RBF per latent, variance its scale², lengthscale √D input sds.

    With categories it is a `Mixed`: each level has a function of its own, and these are alike. With
    two or more inputs the first latent has a linear part too, and constants of levels
    (`RandomEffects`), or each latent if they are symmetric or all have `trends`: an RBF alone takes
    a trend for a long lengthscale, which hides the rest. Seasons add a `Periodic` to every latent.

    In D dimensions typical distances grow with √D. In fewer than four the start is shorter: a long
    one takes what is rough for noise, and may stay with that; in more, rows would be too far apart
    to tell of each other. Latents that play the same role start with different lengthscales, or
    they would stay equal for ever.
    """
    D = X.shape[1]
    base = np.sqrt(D) * input_spread(X, inputs.unordered)
    few = np.full(len(scales), min(1.0, D / 4.0))
    factors = np.geomspace(2.0, 0.5, len(scales)) if symmetric else few
    kernels: list[Kernel] = []
    for j, (s, f) in enumerate(zip(scales, factors, strict=True)):
        kernel = _smooth(float(s), base * f, inputs)
        if D > 1 and (j == 0 or symmetric or trends):
            for part in _trends(X, float(s), inputs):
                kernel = kernel + part
        for column, period in inputs.seasons:
            season = Periodic(1, (TREND * s) ** 2, period, active_dims=[column])
            season.period.fix(warning=False)
            kernel = kernel + season
        kernels.append(kernel)
    return kernels


def _dims(columns: Sequence[int], D: int) -> list[int] | None:
    """The active_dims of a default kernel on some of D columns; None if it reads all."""
    return None if len(columns) == D else list(columns)


def _smooth(scale: float, lengthscales: Array, inputs: Inputs) -> Kernel:
    """The smooth part of a default kernel: an RBF of numbers and, if there are any, categories."""
    given = len(lengthscales), scale**2, lengthscales, True
    if not (inputs.unordered or inputs.ordered):
        return RBF(*given)
    return Mixed(*given, levels=inputs.unordered, ranks=inputs.ordered)


def _trends(X: Array, scale: float, inputs: Inputs) -> list[Kernel]:
    """The trends of a default kernel: linear functions of numbers and ranks, constants of levels.

    Together they have half of the latent's scale, in equal shares of all inputs. Linear functions
    are 0 at the centre of X.
    """
    D, rows = X.shape[1], np.asarray(X[:: max(1, X.shape[0] // SPREAD_ROWS)], dtype=float)
    numbers = [d for d in range(D) if d not in inputs.unordered]
    parts: list[Kernel] = []
    share = (TREND * scale) ** 2 / D
    if numbers:
        variances = share / np.square(input_spread(X)[numbers])
        centre = rows.mean(0)[numbers]
        dims = _dims(numbers, D)
        parts.append(Linear(len(numbers), variances, ARD=True, active_dims=dims, centre=centre))
    if inputs.unordered:
        C, dims = len(inputs.unordered), _dims(inputs.unordered, D)
        # Effects of K levels that sum to 0 have variances of 1 − 1/K of those of free ones.
        left = 1.0 - 1.0 / np.maximum(2.0, inputs.num_levels)
        levels = inputs.num_levels
        parts.append(RandomEffects(C, share / left, True, active_dims=dims, num_levels=levels))
    return parts


def default_means(values: Sequence[float] | Array) -> list[MeanFunction]:
    """The default mean functions: a constant per latent, at these starting values."""
    return [Constant(float(value)) for value in values]


def start_parameters(likelihood: Likelihood, rows: Rows) -> None:
    """Set starting values of the likelihood's parameters that its author or user left open."""
    now = likelihood.parameter_values()
    for key, value in start_values(likelihood, rows).items():
        if value != now[key]:
            getattr(likelihood, key)[:] = value


def start_values(likelihood: Likelihood, rows: Rows) -> dict[str, float]:
    """Starting values of the likelihood's parameters; those left open are made to suit targets."""
    kw = _started(likelihood, rows.counted(SPREAD_ROWS))[1]
    return {key: float(np.asarray(kw[key])) for key in likelihood.parameter_values()}


def start_latents(likelihood: Likelihood, rows: Rows) -> tuple[Array, Array]:
    """Starting values (b,) of the latents, as constants, and the scales (b,) on which they vary."""
    y, kw = _started(likelihood, rows.counted(SPREAD_ROWS))
    values = np.asarray(likelihood.initial_latents(y, **kw), dtype=float)
    values = np.where(np.isfinite(values), values, 0.0)
    return values, latent_scales(likelihood, y, values, kw)


def _started(likelihood: Likelihood, rows: Rows) -> tuple[Array, Keywords]:
    """Targets of the rows, and keywords of the likelihood's methods with starting values in them.

    Parameters that its author or user left open are made to suit the targets.
    """
    y, kw = rows.targets(), rows.keywords(**likelihood.parameter_values())
    for key, value in likelihood.initial_parameters(y, **kw).items():
        if not getattr(likelihood, key).is_fixed:
            kw[key] = float(value)
    return y, kw


def starts_from(likelihood: Likelihood, rows: Rows, ties: Ties | None = None) -> Starts:
    """The starting values of the latents that at most 10,000 of the targets suggest.

    ties : the model's treatment of targets that several rows share, or None.
    """
    values, scales = start_latents(likelihood, rows)
    mean_weight = 1.0 if rows.weights is None else float(np.mean(rows.weights))
    parameters = start_values(likelihood, rows)
    rows = rows.thinned(SPREAD_ROWS)
    y, kw = rows.targets(), rows.keywords(**parameters)
    with np.errstate(all="ignore"):
        score = log_density(ties, likelihood, y, [np.full(y.size, c) for c in values], kw)
        score = score if rows.weights is None else score * rows.weights
    mean = float(np.mean(score))
    return Starts(values, scales, mean if np.isfinite(mean) else np.inf, mean_weight)


def latent_scales(likelihood: Likelihood, y: Array, values: Array, kw: Keywords) -> Array:
    """Scales (b,) on which latents vary, as prior sds: 1 for latents on a log or logit scale.

    A location is in the units of y. Its scale follows from the information at constant latents, the
    mean of (∂ log p)², which is 1/scale², but is within a factor of five of the spread of y.
    """
    scales = np.ones(values.size)
    locations = is_location(likelihood, y, values, kw)
    if not locations.any():
        return scales
    lower, upper = np.quantile(y, [0.25, 0.75])
    spread = (upper - lower) / 1.35 or y.std()
    latents = [np.full(y.size, value) for value in values]
    with np.errstate(all="ignore"):
        for j, slope in enumerate(likelihood.dlog_density(y, *latents, **kw)):
            scale = float(np.mean(slope**2)) ** -0.5 if np.any(slope) else np.inf
            if locations[j]:
                scale = scale if np.isfinite(scale) else spread
                scales[j] = np.clip(scale, spread / 5.0, 5.0 * spread)
    return scales


def is_location(
    likelihood: Likelihood, y: Array, values: Array, kw: Mapping[str, Value]
) -> Booleans:
    """Which latents (b,) are locations, p(y + c | f + c) = p(y | f), at constant starting values.

    Other latents are logarithms or log-odds, in which another unit of y only adds a constant.
    """
    locations, spread = np.zeros(values.size, dtype=bool), float(y.std())
    if not likelihood.target_support.whole_line or spread == 0.0:
        return locations
    latents = [np.full(y.size, value) for value in values]
    with np.errstate(all="ignore"):
        log_p = likelihood.log_density(y, *latents, **kw)
        most = 1e-6 * (1.0 + np.max(np.abs(log_p)))
        # A density that is NaN on one side may still have a location: the other side shows it.
        for j, c in product(range(values.size), (spread, -spread)):
            moved = [f + c if k == j else f for k, f in enumerate(latents)]
            change = likelihood.log_density(y + c, *moved, **kw) - log_p
            locations[j] |= np.max(np.abs(change)) <= most
    return locations


def warn_of_scaling(X: Array, names: Sequence[str] | None) -> None:
    """Warn once if a column of X varies so little around so large a value that digits are lost."""
    rows = np.asarray(X[:: max(1, X.shape[0] // SPREAD_ROWS)], dtype=float)
    spread, size = rows.std(0), np.abs(rows).max(0)
    bad = np.flatnonzero((spread > 0) & (spread < FEW_DIGITS * size))
    if bad.size:
        column = f"column {bad[0]} of X" if names is None else f"input {names[bad[0]]!r}"
        warn(
            f"{column} varies by {spread[bad[0]]:.1e} around {size[bad[0]]:.1e}: "
            "distances are inaccurate. Subtract the mean of the column.",
            ScalingWarning,
        )


def warn_of_targets(likelihood: Likelihood, rows: Rows) -> None:
    """Warn once if the targets tell nothing, or vary so little that their digits are lost."""
    rows = rows.thinned(SPREAD_ROWS)
    y, censored = rows.targets(), codes(rows.metadata.get("censored"))
    if censored.size == y.size and np.isin(censored, (LEFT, RIGHT)).all() and y.size > 1:
        warn(
            "All rows are censored, so that no row says when an event happens: predictions rest on "
            "the prior distribution alone.",
            TargetWarning,
        )
        return
    exact = y[np.broadcast_to(censored, y.shape) == EXACT]
    support = likelihood.target_support
    if exact.size < 2 or not (support.continuous and support.whole_line):
        return
    spread, size = float(exact.std()), float(np.abs(exact).max())
    if 0.0 < spread < FEW_DIGITS * size:
        warn(
            f"The targets vary by {spread:.1e} around {size:.1e}: too few of their digits are left "
            "for a fit. Subtract their mean.",
            ScalingWarning,
        )
