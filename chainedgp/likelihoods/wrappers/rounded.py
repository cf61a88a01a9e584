"""Rounded targets: the probability of an interval in the place of a density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.arguments import positive_float
from ...data.types import Keywords, Value
from ...errors import InputError
from ...expectations import special
from ...linalg import Booleans, Indices
from .. import observation
from ..contract import Array, Arrays, Averages, Likelihood
from ..observation import EXACT, INTERVAL, LEFT
from ..support import Interval
from .constant import Wrapper

ROUNDING = "rounding"
"""Name of the metadata that hold the width to which each row's target was rounded."""
DIGITS = 1e-11
"""A target rounded to a width of less than this share of y counts as exact."""
NARROW = -11.5
"""Where the interval of a rounded target has less than e^NARROW = 1e-5 of the smaller tail, the
density does not vary in it beyond 1e-11 of itself, and takes the place of a difference of tails,
which would lose its digits."""

POINTS = 12
"""Number of Gauss–Legendre points for an interval of angles: relative errors are below 1e-8 for
intervals up to 6 standard deviations wide."""


def _of_base(pick: Callable[[Any], Callable[..., Any]]) -> Any:
    """A method of the base of a rounded likelihood: that of y itself, before it was rounded."""

    def method(self: Rounded, *args: Any, **kw: Value) -> Any:
        return pick(self.base)(*args, **self.of_target(kw))

    method.__name__, method.__doc__ = pick(Likelihood).__name__, pick(Likelihood).__doc__
    return method


class Rounded(Wrapper):
    """log p(y) = log(F(y + w/2) − F(y − w/2)) − log w, F the cdf of the base, w the width.

    The target is known to ± w/2, because it was rounded to a multiple of w or read from a scale.
    A density grows without limit where rows are repeated exactly; the probability of an interval
    does not, so that noise narrower than w can be estimated. Divided by w it is comparable with
    densities: both agree where w is small. An interval that reaches beyond an end of the base's
    support ends there, so that a positive target may be recorded as 0.

    Moments, cdf, quantiles and draws are those of y before it was rounded. Around a `Survival`
    likelihood only exact rows count as rounded; censored and truncated rows do not change.

    Parameters
    ----------
    base: a likelihood with a density and a cdf of its own.
    width: w of the rows for which the metadata `rounding` have none; None: they have one for each.
    """

    def __init__(
        self, base: Likelihood, width: float | None = None, name: str | None = None
    ) -> None:
        self._wrap(base)
        self._check_base()
        self.width = None if width is None else positive_float(width, "width")
        self.latents, self.infinite_mean = base.latents, base.infinite_mean
        self.positive_metadata = (*base.positive_metadata, ROUNDING)
        self._part: Likelihood = base if "censored" in base.metadata_names else _Between(base)
        super().__init__(name)

    def _check_base(self) -> None:
        base, name = self.base, type(self.base).__name__
        if not base.target_support.continuous:
            raise InputError(
                f"Rounded needs a likelihood with a density; targets of {name} are "
                f"{base.target_support.words}, each with a probability. Use {name} alone."
            )
        if base.atoms:
            raise InputError(
                f"Rounded needs a likelihood without point masses; {name} has some at "
                f"{base.atoms}. Round what is inside: Inflated(Rounded(…), at=…)."
            )
        if ROUNDING in base.metadata_names or isinstance(base, Rounded):
            raise InputError(f"{name} is rounded already: give it the width.")
        if not base.has_cdf:
            raise InputError(
                f"Rounded needs a likelihood with a cdf; {name} has none. Define "
                "cdf(y, *latents) or distribution(*latents)."
            )

    def _metadata(self) -> dict[str, bool]:
        return {**self.base._metadata(), ROUNDING: self.width is None}

    def _given(self) -> tuple[str, ...]:
        return (*super()._given(), *(() if self.width is None else (f"{self.width:g}",)))

    def of_target(self, kw: Keywords) -> Keywords:
        """Keywords of the methods of a rounded likelihood's base: without the widths."""
        return {key: value for key, value in kw.items() if key != ROUNDING}

    def ends(self, y: Array, kw: Keywords) -> tuple[Array, Array, Array]:
        """Ends of the intervals that rounded targets y stand for, inside the support, and width.

        Both ends are y itself where the width is below the digits of y.
        """
        width = np.asarray(self.width if kw.get(ROUNDING) is None else kw[ROUNDING], dtype=float)
        # The interval of an angle that was rounded to π goes on at −π, so that it is not cut at the
        # ends of the support.
        low, high = (-np.inf, np.inf) if _is_periodic(self) else self.target_support.ends
        half = np.where(width < DIGITS * np.abs(y), 0.0, 0.5 * width)
        return np.maximum(y - half, low), np.minimum(y + half, high), width

    def _event(self, y: Array, kw: Keywords) -> tuple[Array, Keywords, Array]:
        """What is asked of the part that gives a rounded row its probability.

        These are y, its keywords, and the log-width, 0 where y is no interval.
        """
        low, high, width = self.ends(y, kw)
        log_width = np.where(low < high, np.log(width), 0.0)
        kw = self.of_target(kw)
        if self._part is not self.base:
            # Where rounding is fine, the ends are so close to y that their difference loses digits.
            whole = np.where(high - low < 0.9 * width, high - low, width)
            return low, {**kw, "y_upper": high, "y_width": whole}, log_width
        code = observation.codes(kw.get("censored")) + np.zeros(np.shape(y))
        exact = (code == EXACT) & (low < high)
        entry = np.maximum(0.0 if kw.get("entry") is None else kw["entry"], 0.0)
        first = exact & (low <= entry)  # All that is known of T is that it came before `high`.
        upper = np.inf if kw.get("y_upper") is None else kw["y_upper"]
        kw["censored"] = np.select([first, exact], [float(LEFT), float(INTERVAL)], code)
        kw["y_upper"] = np.where(exact & ~first, high, upper)
        return np.select([first, exact], [high, low], y), kw, np.where(exact, log_width, 0.0)

    # ---- the density and its expectation ---------------------------------------------------------

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """A rounded target's log(F(y + w/2) − F(y − w/2)) − log w, stable in both tails."""
        at, kw, log_width = self._event(y, kw)
        return self._part.log_density(at, *latents, **kw) - log_width

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of a rounded target's log-probability in the latents."""
        at, kw, _ = self._event(y, kw)
        return self._part.dlog_density(at, *latents, **kw)

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of a rounded target's log-probability in the parameters."""
        at, kw, _ = self._event(y, kw)
        return self._part.dlog_density_dtheta(at, *latents, **kw)

    def d2log_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Second derivatives of a rounded target's log-probability in each latent."""
        at, kw, _ = self._event(y, kw)
        return self._part.d2log_density(at, *latents, **kw)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p] of a rounded target: that of its interval less log w."""
        return self._per_width(self._part.expected_log_density, y, means, variances, nodes, kw)

    def joint_expected_log_density(
        self, y: Array, means: Array, covariances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p] of a rounded target under correlated latents: of the interval less log w."""
        joint = self._part.joint_expected_log_density
        return self._per_width(joint, y, means, covariances, nodes, kw)

    def _per_width(
        self,
        of_interval: Callable[..., Averages],
        y: Array,
        means: Array,
        V: Array,
        nodes: int,
        kw: Keywords,
    ) -> Averages:
        """The expected log-probability of a rounded target's interval, less its log-width."""
        at, kw, log_width = self._event(y, kw)
        value, *slopes = of_interval(at, means, V, nodes=nodes, **kw)
        dm, dV, dtheta = slopes
        return value - log_width, dm, dV, dtheta

    def _levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """The nodes that the intervals of rounded targets need."""
        at, kw, _ = self._event(y, kw)
        return self._part._levels(at, means, variances, kw)

    def _joint_levels(
        self, y: Array, means: Array, covariances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """The nodes that the intervals of rounded targets need under correlated latents."""
        at, kw, _ = self._event(y, kw)
        return self._part._joint_levels(at, means, covariances, kw)

    @property
    def tries_nodes(self) -> bool:
        """Whether several numbers of nodes are tried for the interval of a rounded target."""
        return self._part.tries_nodes

    # ---- y before it was rounded -----------------------------------------------------------------

    distribution = _of_base(lambda base: base.distribution)
    conditional_mean = _of_base(lambda base: base.conditional_mean)
    conditional_variance = _of_base(lambda base: base.conditional_variance)
    cdf = _of_base(lambda base: base.cdf)
    ppf = _of_base(lambda base: base.ppf)
    sample = _of_base(lambda base: base.sample)
    log_survival = _of_base(lambda base: base.log_survival)
    log_cdf = _of_base(lambda base: base.log_cdf)
    log_hazard = _of_base(lambda base: base.log_hazard)
    log_tails = _of_base(lambda base: base.log_tails)
    quantile_slopes = _of_base(lambda base: base.quantile_slopes)
    natural_parameters = _of_base(lambda base: base.natural_parameters)

    # ---- targets and starts ----------------------------------------------------------------------

    def check_targets(self, y: Array) -> None:
        """Refuse targets that the base refuses, but for ends of its support: y is rounded there."""
        self.base.check_targets(self._inside(y, 1e-6))

    def impossible(self, y: Array, **metadata: Array) -> tuple[Booleans, str]:
        """Rows of rounded targets that the base finds impossible, as intervals."""
        at, kw, _ = self._event(y, {**metadata})
        if self._part is not self.base:
            return at > kw["y_upper"], "are rounded to an interval outside the support"
        return self.base.impossible(at, **{key: np.asarray(value) for key, value in kw.items()})

    def _inside(self, y: Array, width: Value) -> Array:
        """Rounded targets inside the support, those at its ends moved by a quarter of a width."""
        low, high = self.target_support.ends
        ends = [np.where(np.isfinite(end), 0.25 * width, 0.0) for end in (low, high)]
        y = np.where(y == low, y + ends[0], y)
        return np.where(y == high, y - ends[1], y)

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """Start of a rounded likelihood: the base's, with a noise that ties do not shrink to 0.

        Ties are rows that were rounded to one number.
        """
        width, kw = self.ends(y, kw)[2], self.of_target(kw)
        return self.base.initial_latents(self._spread(y, width), **_doubled(kw, y))

    def initial_parameters(self, y: Array, **kw: Value) -> dict[str, float]:
        """Starts of the parameters of a rounded likelihood, as in `initial_latents`."""
        width, kw = self.ends(y, kw)[2], self.of_target(kw)
        return self.base.initial_parameters(self._spread(y, width), **_doubled(kw, y))

    def initial_functions(self, X: Array, y: Array, **kw: Value) -> Array | None:
        """Functions from which a rounded fit starts: the base's, at the middles of intervals."""
        width, kw = self.ends(y, kw)[2], self.of_target(kw)
        return self.base.initial_functions(X, self._inside(y, width), **kw)

    def _spread(self, y: Array, width: Array) -> Array:
        """Each rounded target twice, a standard deviation of its interval to either side, (2n,)."""
        step = np.sqrt(1.0 / 12.0) * width
        y = self._inside(y, width)
        both = np.stack([y - step, y + step])
        inside = self.target_support.holds(both).all(axis=0)
        return np.where(inside, both, y).ravel()


def _doubled(kw: Keywords, y: Array) -> Keywords:
    """Keywords of rounded rows with each per-row array twice, (2n,)."""
    return {k: np.tile(v, 2) if np.shape(v) == np.shape(y) else v for k, v in kw.items()}


class _Between(Wrapper):
    """The likelihood of an interval: log P(y < Y ≤ y_upper | latents), the base's cdf's difference.

    Where y = y_upper it is the base's log-density.

    y_width: the distance of y and y_upper with all its digits.

    Differences are taken in the smaller of the two tails (`log_tails` of the base). With
    v_j = ∂y/∂f_j at a fixed probability (`quantile_slopes`) the derivatives are

        ∂ log P / ∂f_j = (p(y) v_j(y) − p(y_upper) v_j(y_upper)) / P;

    a base that does not declare v has differences instead.
    """

    node_limits = (0.0,)  # No row has so small a score: its nodes are found by trying.

    def __init__(self, base: Likelihood) -> None:
        self._wrap(base)
        self.latents = base.latents
        super().__init__()

    def _metadata(self) -> dict[str, bool]:
        return {**self.base._metadata(), "y_upper": True, "y_width": True}

    def _parts(self, y: Array, latents: Arrays, kw: Keywords) -> tuple[Array, Booleans]:
        """log P of an interval of targets by the smaller tail, and where it has lost its digits."""
        _, _, own = self._middle(y, kw)
        upper = np.asarray(kw["y_upper"])
        with np.errstate(all="ignore"):
            below, above = self.base.log_tails(y, *latents, **own)
            below_upper, above_upper = self.base.log_tails(upper, *latents, **own)
            in_upper = above < below_upper
            near = np.where(in_upper, above, below_upper)
            value = special.log_diff_exp(near, np.where(in_upper, above_upper, below))
            # Tails of an angle have 15 digits relative to 1, not to themselves.
            if _is_periodic(self.base):
                low, high = self.base.target_support.ends
                return value, ~(value > NARROW) | (np.asarray(y) < low) | (upper > high)
            lost = ~(value - near > NARROW)  # This holds for −inf too, where both tails underflow.
        return value, lost

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The log-probability of an interval of targets, P(y < Y ≤ y_upper), broadcast shape."""
        value, lost = self._parts(y, latents, kw)
        return self._mended(value, lost, self._integral(y, latents, kw, lost)[0])

    def _integral(
        self, y: Array, latents: Arrays, kw: Keywords, lost: Booleans, slopes: bool = False
    ) -> list[Array]:
        """log ∫ p over intervals of targets where P has lost its digits, with slopes if asked for.

        There an interval is so narrow that one point is enough: its middle. An interval of angles,
        which may be wide and far from both tails, has the points of a Gauss–Legendre rule.
        """
        if not lost.any():
            return [np.empty(0)] * (1 + len(latents))
        middle, width, own = self._middle(y, kw)

        def some(value: Value) -> Array:
            value = np.asarray(value)
            return np.broadcast_to(value, lost.shape)[lost] if value.ndim else value

        at, wide, inputs = some(middle), some(width), [some(f) for f in latents]
        own = {key: some(value) for key, value in own.items() if value is not None}
        if not _is_periodic(self.base):
            log_p = self.base.log_density(at, *inputs, **own) + np.log(wide)
            return [log_p, *(self.base.dlog_density(at, *inputs, **own) if slopes else ())]
        x, w = np.polynomial.legendre.leggauss(POINTS)
        # The reach is 0 where there is no interval.
        reach = some(np.where(np.asarray(kw["y_upper"]) > y, 0.5 * width, 0.0))
        at, share = at + reach * x[:, None], np.log(0.5 * w)[:, None]
        terms = self.base.log_density(at, *inputs, **own) + share
        top = terms.max(axis=0)
        weights = np.exp(terms - top)
        total = weights.sum(axis=0)
        found = [top + np.log(total) + np.log(wide)]
        for slope in self.base.dlog_density(at, *inputs, **own) if slopes else ():
            found.append((weights * slope).sum(axis=0) / total)
        return found

    @staticmethod
    def _mended(value: Array, lost: Booleans, other: Array) -> Array:
        """The log-probability of an interval, another one where it has lost its digits."""
        if not lost.any():
            return value
        result = np.array(np.broadcast_to(value, lost.shape))
        result[lost] = np.broadcast_to(other, (int(lost.sum()),))
        return result

    def _middle(self, y: Array, kw: Keywords) -> tuple[Array, Array, Keywords]:
        """Middles and widths (1 of what is none) of intervals of targets; the base's keywords."""
        upper, width = kw["y_upper"], kw["y_width"]
        own = {key: value for key, value in kw.items() if key not in ("y_upper", "y_width")}
        return 0.5 * (y + upper), np.where(upper > y, width, 1.0), own

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of the log-probability of an interval, as in the class docstring.

        Where P has lost its digits they are those of the density.
        """
        middle, _, own = self._middle(y, kw)
        if self.base.quantile_slopes(middle, *latents, **own) is None:
            return super().dlog_density(y, *latents, **kw)
        value, lost = self._parts(y, latents, kw)
        total: list[Array] = [np.zeros(())] * len(latents)
        with np.errstate(all="ignore"):
            for end, sign in ((y, 1.0), (np.asarray(kw["y_upper"]), -1.0)):
                share = sign * np.exp(self.base.log_density(end, *latents, **own) - value)
                slopes = self.base.quantile_slopes(end, *latents, **own)
                for j, slope in enumerate(slopes or ()):
                    part = np.where(share == 0.0, 0.0, share * slope)  # An end may be infinite.
                    total[j] = total[j] + part
            plain = self._integral(y, latents, kw, lost, slopes=True)[1:]
            pairs = zip(total, plain, strict=True)
            return tuple(self._mended(own_slope, lost, other) for own_slope, other in pairs)


def _is_periodic(likelihood: Likelihood) -> bool:
    """Whether the ends of a likelihood's support are the same place, as of angles."""
    support = likelihood.target_support
    return isinstance(support, Interval) and support.periodic
