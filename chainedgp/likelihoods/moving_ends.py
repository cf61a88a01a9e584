"""Densities whose support has ends that move with the latents, found from the density alone.

A density that drops to 0 at a number of its own (a uniform one, a generalised extreme value) is not
smooth on the declared support. Between its ends it is: integrals are taken there, over v with
u = a + e^v from an end a on, u = b − e^{−v} up to an end b, u = a + (b − a)/(1 + e^{−v}) between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..linalg import Array, Booleans
from .support import Continuum

NEGLIGIBLE = 600.0
"""Where a density has fallen this far below its maximum, in logarithms, an end of it does not
matter: exp rounds what is left to 0."""
FARTHEST = 700.0
"""Coordinates v of a target y between its ends go no farther: e^700 is still a floating number."""


def ends_of(
    log_q: Callable[[Array], Array], centre: Array, support: Continuum
) -> tuple[Array, Array] | None:
    """Ends of a density in u, between which log_q is finite around the centre (S).

    They are infinite where there is none.

    None where no element has an end of its own. log_q: the log-density of u.
    """
    steps = np.geomspace(1e-9, support.reach, 161).reshape((-1,) + (1,) * centre.ndim)
    peak = log_q(centre)
    peak = np.where(np.isposinf(peak), 0.0, peak)  # The density may be infinite at an end.
    sides = [_end(log_q, centre, sign * steps, peak, support) for sign in (-1.0, 1.0)]
    return None if np.isinf(sides).all() else (sides[0], sides[1])


def _end(
    log_q: Callable[[Array], Array], centre: Array, steps: Array, peak: Array, support: Continuum
) -> Array:
    """The end of a density on one side, S; infinite where log_q has none or is negligible."""
    points = np.concatenate([centre[None], centre + steps])
    gone = np.isneginf(np.broadcast_to(log_q(points), points.shape))
    first = np.argmax(gone, axis=0)
    if not first.any():
        return np.full(first.shape, np.sign(steps.flat[0]) * np.inf)
    outside = np.take_along_axis(points, first[None], axis=0)[0]
    inside = np.take_along_axis(points, np.maximum(first - 1, 0)[None], axis=0)[0]
    for _ in range(100):
        middle = 0.5 * (inside + outside)
        beyond = np.isneginf(np.broadcast_to(log_q(middle), middle.shape))
        inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
    low, high = support.evaluated
    found = (first > 0) & (log_q(inside) > peak - NEGLIGIBLE)
    found &= (inside > low + 1e-3) & (inside < high - 1e-3)
    return np.where(found, inside, np.sign(steps.flat[0]) * np.inf)


class MovingEnds(Continuum):
    """The part of a continuum between a density's own ends in u, arrays S, infinite for none."""

    def __init__(self, whole: Continuum, first: Array, last: Array) -> None:
        both = np.isfinite(first) & np.isfinite(last)
        ends: Any = _y_of(whole, first), _y_of(whole, last)  # these are arrays, not numbers
        super().__init__(
            whole.words,
            ends,
            reach=30.0 if both.all() else FARTHEST if not _none(first, last).any() else whole.reach,
            evaluated=(-36.0, 36.0) if both.all() else (-np.inf, np.inf),
        )
        set_once: Any = object.__setattr__  # the dataclass is frozen
        for name, value in (("whole", whole), ("first", first), ("last", last), ("both", both)):
            set_once(self, name, value)

    whole: Continuum
    first: Array
    last: Array
    both: Array
    tolerance = 1e-4  # y close to an end is rounded to it, where p may be infinite: digits are lost

    def to_u(self, v: Array) -> Array:
        """The u of the whole continuum at a coordinate v between a density's own ends."""
        w = np.clip(v, -FARTHEST, FARTHEST)
        with np.errstate(all="ignore"):
            between = self.first + (self.last - self.first) * expit(w)
            from_first, to_last = self.first + np.exp(w), self.last - np.exp(-w)
            u = self._choose(v, from_first, to_last, between)
            return np.clip(u, np.nextafter(self.first, np.inf), np.nextafter(self.last, -np.inf))

    def from_u(self, u: Array) -> Array:
        """The coordinate v between a density's own ends, infinite at the ends and beyond."""
        with np.errstate(all="ignore"):
            above, below = np.maximum(u - self.first, 0.0), np.maximum(self.last - u, 0.0)
            between = logit(np.clip(above / (self.last - self.first), 0.0, 1.0))
            return self._choose(u, np.log(above), -np.log(below), between)

    def _choose(self, plain: Array, from_first: Array, to_last: Array, between: Array) -> Array:
        one_sided = np.where(np.isfinite(self.first), from_first, to_last)
        ended = np.where(self.both, between, one_sided)
        return np.where(_none(self.first, self.last), plain, ended)

    def to_y(self, u: Array) -> Array:
        """The target y at a coordinate v between a density's own ends."""
        return _y_of(self.whole, self.to_u(u))

    def from_y(self, y: Array) -> Array:
        """The coordinate v of a target y between a density's own ends."""
        return self.from_u(self.whole.from_y(y))

    def log_density_of_u(self, log_p: Callable[[Array], Array], u: Array) -> Array:
        """The log-density of the coordinate v between a density's own ends."""
        inner = self.whole.log_density_of_u(log_p, self.to_u(u))
        inner = np.where(np.isposinf(inner), -np.inf, inner)  # y was rounded to an end
        size = np.abs(u)
        with np.errstate(all="ignore"):
            between = np.log(self.last - self.first) - size - 2.0 * np.log1p(np.exp(-size))
            value = inner + self._choose(np.zeros_like(u), u, -u, between)
        near = (size < FARTHEST) | _none(self.first, self.last)
        return np.where(near, value, -np.inf)

    def in_tail(self, u: Array) -> Booleans:
        """Where u of the whole continuum is in its tail, or v is far from a density's only end."""
        far = self._choose(np.zeros_like(u), u, -u, np.zeros_like(u)) > 600.0
        return far | self.whole.in_tail(self.to_u(u))


def _none(first: Array, last: Array) -> Booleans:
    return np.isinf(first) & np.isinf(last)


def _y_of(whole: Continuum, u: Array) -> Array:
    return whole.to_y(np.clip(u, *whole.evaluated))
