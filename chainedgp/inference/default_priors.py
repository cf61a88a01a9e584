"""Default priors: weakly informative, for a model given data alone, in the units of its data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from paramz import Param

from ..kernels import Kernel
from ..likelihoods.declarations import check_parameter_names
from ..linalg import Array
from ..parameters.leaves import InputParam
from ..parameters.priors import LogGaussian, Normal, Prior
from ..parameters.roles import Role
from .starts import input_spread
from .theta_and_q import Parts

# The median lengthscale, in units of √D standard deviations of its input: typical distances of rows
# grow with √D.
LENGTHSCALE = 1.0
# The logarithms of a latent's lengthscales have a common part of standard deviation COMMON_SD, and
# each departs from it with standard deviation OWN_SD: one in three by more than a factor of e.
COMMON_SD, OWN_SD = 1.5, 1.0
# The logarithm of a kernel's variance has this standard deviation about the logarithm of scale², of
# the scale on which its latent varies: the prior sd of the latent is mostly within a factor of e.
VARIANCE_SD = 2.0
# The level of each of several latents that play the same role has this standard deviation, in units
# of their scale. Without it one of two rates that add up may vanish at no cost: its logarithm falls
# without end, and its bands are those of a function that no data speak of.
LEVEL_SD = 1.5
# A kernel's mean variance is taken over about this many rows.
ROWS = 1000
# If a kernel has linear trends, they have TREND_SHARE of scale² together. The smooth part beside
# them, which departs from the trends, has DEPARTURE_SHARE: few rows seldom show a large departure.
TREND_SHARE, DEPARTURE_SHARE = 0.3, 0.1


def default_priors(
    parts: Parts, X: Array, scales: Sequence[float] | Array
) -> Iterator[tuple[Param, Prior]]:
    """The default priors: leaves of kernels, means and likelihood that get one, each with it.

    Lengthscales : log(ℓ_d / (√D s_d)) ~ N(0, I + 1.5² 11ᵀ) with the standard deviations s_d of
        the D inputs that a kernel reads.
    Variances : log(v / scale²) ~ N(0, 2²), where v is the variance that a part of a kernel gives
        to its latent, on average over the rows. Beside linear trends, whose slopes have
        0.3 scale² together, a smooth part has 0.1 scale² in the place of scale².
    Levels of latents that play the same role (`symmetric`) : N(start, (1.5 scale)²), where start
        is the level at which a fit begins.
    Parameters of the likelihood : as its `default_priors` say.

    X : (n, D) rows. scales : (b,) scales on which the latents vary.
    """
    spread = input_spread(X)
    rows = np.asarray(X[:: max(1, X.shape[0] // ROWS)], dtype=float)
    for kernel, scale in zip(parts.kernels, scales, strict=True):
        variances = kernel.leaves_with(Role.VARIANCE)
        trends = sum(leaf.size for leaf in variances if isinstance(leaf, InputParam))
        for part in kernel.simple_parts:
            for leaf in part.leaves_with(Role.LENGTHSCALE):
                medians = _lengthscales(part, leaf, spread)
                yield leaf, LogGaussian(medians, OWN_SD, COMMON_SD)
            for leaf in part.leaves_with(Role.VARIANCE):
                yield leaf, _variances(part, leaf, rows, float(scale), trends)
    if parts.likelihood.symmetric:
        for mean, scale in zip(parts.means, scales, strict=True):
            for leaf in mean.leaves_with(Role.LEVEL):
                yield leaf, Normal(float(leaf.values.mean()), LEVEL_SD * float(scale))
    own = parts.likelihood
    check_parameter_names(
        type(own).__name__, "default_priors", own.default_priors, own.parameter_keys
    )
    for name, prior in own.default_priors.items():
        yield getattr(own, name), prior


def _variances(part: Kernel, leaf: Param, rows: Array, scale: float, trends: int) -> LogGaussian:
    """The default prior of a simple kernel's variances, in equal shares of scale².

    A simple kernel combines no others. trends : how many trends there are: variances of slopes or
    effects, one for each input.
    """
    slopes = part.evaluate_diag(rows)[1](np.full(len(rows), 1.0 / len(rows)))[0]
    start = np.cumsum([0, *(other.size for other in part.parameters)])
    k = next(k for k, other in enumerate(part.parameters) if other is leaf)
    unit = slopes[start[k] : start[k + 1]]
    # The variance of a slope in a constant column has no unit.
    unit = np.where(unit > 1e-24 * np.square(rows).max(), unit, 1.0)
    if leaf.size == 1 and not isinstance(leaf, InputParam):
        departs = trends > 0 and part.leaves_with(Role.LENGTHSCALE) and not _is_season(part)
        share = DEPARTURE_SHARE if departs else 1.0
        return LogGaussian(float(share * scale**2 / unit[0]), VARIANCE_SD)
    medians = tuple((TREND_SHARE * scale**2 / trends / unit).tolist())
    return LogGaussian(medians, OWN_SD, VARIANCE_SD)


def _is_season(part: Kernel) -> bool:
    """Whether a kernel that combines no others is periodic, for its default priors."""
    return bool(part.leaves_with(Role.PERIOD))


def _lengthscales(part: Kernel, leaf: Param, spread: Array) -> tuple[float, ...]:
    """Medians of the default prior of the lengthscales of a kernel that combines no others."""
    if _is_season(part):
        return (1.0,) * leaf.size  # A season's is in radians of the period, not in units of X.
    own = part.distances_in(spread)
    medians = LENGTHSCALE * np.sqrt(own.size) * own
    if leaf.size != own.size:
        medians = np.full(leaf.size, np.exp(np.log(medians).mean()))
    return tuple(medians.tolist())
