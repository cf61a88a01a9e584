"""The support of a likelihood: what a target may be, in one object for checks and figures.

A likelihood declares its `support` by a name ("positive"), by two ends (-np.pi, np.pi), or by an
object of its own class; `Likelihood.target_support` is the object, which all other modules ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit

from ..errors import InputError
from ..linalg import Array, Booleans


@dataclass(frozen=True)
class Support:
    """The support of a likelihood, a set of targets: a `Continuum` with a density, or `Integers`.

    words: what targets are, to follow "needs targets that are". remedy: what to do with others.
    ends: the least and the greatest target, infinite where there is none.
    ordered: whether targets are more and less than each other, as numbers are and classes are not.
    """

    words: str
    ends: tuple[float, float]
    remedy: str = ""
    ordered: bool = True

    step: ClassVar[float]
    """Distance from a target to the one below it; 0 where there is a density."""
    logarithmic: ClassVar[bool] = False
    """Whether targets lie on many scales, so that integrals are taken over log y."""
    tolerance: ClassVar[float] = 1e-6
    """Error of integrals over the support that is no fault of the density."""

    @staticmethod
    def interval(low: float, high: float) -> Interval:
        """The support of numbers from `low` to `high`, both included: angles from −π to π."""
        if not -np.inf < low < high < np.inf:
            raise InputError(f"An interval has two finite ends, low < high; got {(low, high)}.")
        return Interval(f"between {low:g} and {high:g}", (float(low), float(high)))

    @property
    def continuous(self) -> bool:
        """Whether targets of a support have a density; else each has a probability."""
        return self.step == 0.0

    @property
    def bounded(self) -> bool:
        """Whether both ends of a support are finite."""
        return bool(np.isfinite(self.ends).all())

    @property
    def whole_line(self) -> bool:
        """Whether neither end of a support is finite: a target plus any number is then a target."""
        return bool(np.isinf(self.ends).all())

    @property
    def size(self) -> int | None:
        """The number of targets in a support; None where it is infinite."""
        return None if self.continuous or not self.bounded else int(self.ends[1]) + 1

    @property
    def num_classes(self) -> int | None:
        """The number of classes of a support; None where targets are numbers with an order."""
        return self.size if self.size == 2 or not self.ordered else None

    @property
    def interior(self) -> float:
        """A target of a support that is no end of a continuum."""
        return 0.5 * (self.ends[0] + self.ends[1]) if self.continuous and self.bounded else 1.0

    def holds(self, y: Array) -> Booleans:
        """Where finite numbers y are targets of a support, booleans in the shape of y."""
        raise NotImplementedError

    def examples(self, normal: Array) -> Array:
        """Some targets (n,) of a support, made of standard normal numbers (n,)."""
        raise NotImplementedError

    def check(self, y: Array, owner: str, remedy: str | None = None) -> None:
        """Raise InputError, with count and first index, unless all of y (n,) are in the support.

        owner: the likelihood's name. remedy: in the place of the support's own.
        """
        bad = np.flatnonzero(~(np.isfinite(y) & self.holds(y)))
        if len(bad):
            raise InputError(
                f"{owner} needs targets that are {self.words}; {len(bad)} of {len(y)} are not, "
                f"the first is Y[{bad[0]}] = {y[bad[0]]}. {remedy or self.remedy}".rstrip(),
                rows=bad[:1],
            )

    def outside(self, y: Array, atoms: Sequence[float] = ()) -> tuple[Booleans, Booleans]:
        """Where y is below and above a support and all atoms; the ends of both are neither."""
        low, high = min(self.ends[0], *atoms, np.inf), max(self.ends[1], *atoms, -np.inf)
        return (y < low) | (y == -np.inf), (y > high) | (y == np.inf)


@dataclass(frozen=True)
class Continuum(Support):
    """A support with a density: targets y = T(u), u on the line; T is the identity here.

    low, high: ends of the u whose y is representable and no end of the support.
    evaluated: ends of the u at which densities are integrated. reach: where |u| of a mode may be.
    """

    low: float = -1e300
    high: float = 1e300
    evaluated: tuple[float, float] = (-np.inf, np.inf)
    reach: float = 1e12

    step: ClassVar[float] = 0.0
    tail: ClassVar[float] = np.inf
    """A moment is infinite if |u| above this contributes to it."""

    def holds(self, y: Array) -> Booleans:
        """Where numbers are targets of the whole line: all finite ones are."""
        return np.isfinite(y)

    def to_y(self, u: Array) -> Array:
        """The target y = T(u) of a support's coordinate u."""
        return u

    def from_y(self, y: Array) -> Array:
        """A support's coordinate u = T⁻¹(y) of a target y, infinite at the ends."""
        return y

    def log_slope(self, u: Array) -> Array:
        """The logarithm of dy/du in a support's map y = T(u)."""
        return np.zeros_like(u)

    def clip(self, u: Array) -> Array:
        """A support's coordinate u, kept between `low` and `high`."""
        return np.clip(u, self.low, self.high)

    def log_density_of_u(self, log_p: Callable[[Array], Array], u: Array) -> Array:
        """The log-density of u if that of y = T(u) is log_p; −inf where y is not representable."""
        return log_p(u)

    def in_tail(self, u: Array) -> Booleans:
        """Where a target's u lies so far out that a moment to which it contributes is infinite."""
        return np.abs(u) > self.tail

    def examples(self, normal: Array) -> Array:
        """Targets of the whole line: normal numbers, a little wider."""
        return 1.2 * normal


@dataclass(frozen=True)
class _Mapped(Continuum):
    """A support that is a part of the line: its map y = T(u) is not the identity."""

    def log_density_of_u(self, log_p: Callable[[Array], Array], u: Array) -> Array:
        """The log-density of a support's coordinate u, log p(T(u)) + log dy/du."""
        low, high = self.evaluated
        value = log_p(self.to_y(np.clip(u, low, high))) + self.log_slope(u)
        return np.where((u > low) & (u < high), value, -np.inf)


@dataclass(frozen=True)
class Positive(_Mapped):
    """The support of positive numbers y = e^u."""

    tail: ClassVar[float] = 600.0
    logarithmic: ClassVar[bool] = True

    def holds(self, y: Array) -> Booleans:
        """Where numbers are positive targets, above 0."""
        return y > 0

    def to_y(self, u: Array) -> Array:
        """The positive target y = e^u."""
        return np.exp(u)

    def from_y(self, y: Array) -> Array:
        """The coordinate u = log y of a positive target."""
        return np.log(y)

    def log_slope(self, u: Array) -> Array:
        """The logarithm of dy/du = e^u for positive targets, u."""
        return u

    def examples(self, normal: Array) -> Array:
        """Positive targets: log-normal numbers."""
        return np.exp(0.7 * normal)


@dataclass(frozen=True)
class Above(Positive):
    """The support of numbers above a threshold a, y = a + e^u. Made by `Above.threshold`."""

    @staticmethod
    def threshold(a: float) -> Above:
        """The support of numbers above `a`, which is not 0: for that there is "positive"."""
        if not np.isfinite(a):
            raise InputError(f"A threshold is a finite number; got {a!r}.")
        least = float(np.log(np.spacing(abs(a))))
        words = f"numbers above the threshold {a:g}"
        remedy = "Leave out the rows at or below it, or lower the threshold."
        return Above(
            words, (float(a), np.inf), remedy, low=least, high=709.0, evaluated=(least, 700.0),
            reach=600.0,
        )  # fmt: skip

    @property
    def interior(self) -> float:
        """A target above a threshold, not the threshold itself."""
        return self.ends[0] + 1.0

    def holds(self, y: Array) -> Booleans:
        """Where numbers are targets above the threshold."""
        return y > self.ends[0]

    def to_y(self, u: Array) -> Array:
        """The target threshold + e^u, never the threshold itself."""
        a = self.ends[0]
        return np.maximum(a + np.exp(u), np.nextafter(a, np.inf))

    def from_y(self, y: Array) -> Array:
        """The coordinate u of a target above a threshold, the logarithm of the excess."""
        return np.log(y - self.ends[0])

    def examples(self, normal: Array) -> Array:
        """Targets above a threshold: the threshold plus log-normal numbers."""
        return self.ends[0] + super().examples(normal)


@dataclass(frozen=True)
class Interval(_Mapped):
    """The support of numbers between two ends a and b, y = a + (b − a)/(1 + e^{−u}).

    closed: whether a and b are targets. Both are where an interval is given by its ends.
    periodic: whether a and b are the same place, as −π and π are of an angle.
    """

    low: float = -36.7
    high: float = 36.7
    evaluated: tuple[float, float] = (-36.0, 36.0)
    reach: float = 30.0
    closed: bool = True
    periodic: bool = False

    tolerance: ClassVar[float] = 1e-4  # y is rounded to an end, where p may be infinite

    def holds(self, y: Array) -> Booleans:
        """Where y lies between the ends of an interval, or at them if they are targets."""
        a, b = self.ends
        return (y >= a) & (y <= b) if self.closed else (y > a) & (y < b)

    def to_y(self, u: Array) -> Array:
        """The target of a coordinate u, between an interval's ends and never at them."""
        a, b = self.ends
        return np.clip(a + (b - a) * expit(u), np.nextafter(a, b), np.nextafter(b, a))

    def from_y(self, y: Array) -> Array:
        """The coordinate u of a target between two ends, a logit."""
        a, b = self.ends
        return logit((y - a) / (b - a))

    def log_slope(self, u: Array) -> Array:
        """The logarithm of dy/du in an interval, (b − a) s (1 − s), s = 1/(1 + e^{−u})."""
        size = np.abs(u)
        return np.log(self.ends[1] - self.ends[0]) - size - 2.0 * np.log1p(np.exp(-size))

    def examples(self, normal: Array) -> Array:
        """Targets in an interval: images of normal numbers."""
        return self.to_y(normal)


@dataclass(frozen=True)
class Integers(Support):
    """The support of integers from 0 to the second end, perhaps infinite: counts, classes."""

    step: ClassVar[float] = 1.0

    def holds(self, y: Array) -> Booleans:
        """Where numbers are targets of this support: whole numbers between the ends."""
        return (y >= self.ends[0]) & (y <= self.ends[1]) & (y == np.floor(y))

    def examples(self, normal: Array) -> Array:
        """Every integer of a support in turn; counts spread as a Poisson variable of rate 2."""
        if self.size is None:
            return np.floor(np.exp(0.7 + 0.7 * normal))
        return np.arange(float(normal.size)) % self.size


SupportLike = str | tuple[float, float] | Support
"""How a likelihood may write its support."""

POSITIVE = Positive(
    "positive numbers",
    (0.0, np.inf),
    "For zeros use Inflated(…); for negative numbers a likelihood of real numbers, such as "
    "HetGaussian.",
    low=-744.0,
    high=709.0,
    evaluated=(-700.0, 700.0),
    reach=600.0,
)
WHOLE_LINE = Continuum("finite numbers", (-np.inf, np.inf))
NAMED: dict[str, Support] = {
    "real": WHOLE_LINE,
    "positive": POSITIVE,
    "unit": Interval(
        "strictly between 0 and 1",
        (0.0, 1.0),
        "For exact 0 and 1 use ZeroOneInflatedBeta; divide percentages by 100.",
        low=-744.0,  # floats are far denser close to 0 than close to 1
        evaluated=(-700.0, 36.0),
        closed=False,
    ),
    "counts": Integers(
        "counts 0, 1, 2, …",
        (0.0, np.inf),
        "Use a continuous likelihood for what is not a count.",
    ),
    "binary": Integers(
        "0 or 1",
        (0.0, 1.0),
        "Code the two classes as 0 and 1; for more classes use Softmax.",
    ),
}


def as_support(declared: SupportLike, num_categories: int, owner: str) -> Support:
    """The support that a likelihood's declaration means; InputError, with its name, if none.

    num_categories: how many classes "categories" has.
    """
    if isinstance(declared, Support):
        return declared
    if isinstance(declared, str) and declared in NAMED:
        return NAMED[declared]
    if isinstance(declared, str) and declared == "categories":
        words = f"classes 0 … {num_categories - 1}"
        remedy = "Code the classes from 0 on, without gaps."
        return Integers(words, (0.0, num_categories - 1.0), remedy, ordered=False)
    if isinstance(declared, tuple | list) and len(declared) == 2:
        return Support.interval(*declared)
    raise InputError(
        f"{owner}.support is {declared!r}: use one of {', '.join(NAMED)}, categories, or the two "
        "ends of an interval."
    )
