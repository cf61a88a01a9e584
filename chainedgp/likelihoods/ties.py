"""Tied targets, which several rows share: a density alone would take them for free of noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.rows import Rows, rows_of
from ..data.types import Keywords
from ..linalg import Array, Indices
from .contract import Averages, Likelihood
from .observation import EXACT, codes
from .support import Continuum
from .wrappers.rounded import ROUNDING

FEWEST = 0.02
"""Tied targets are spread over their intervals where they are at least this share of the rows."""
ROWS = 10_000
"""Tied targets are sought in about so many rows, evenly taken from more."""
DIGITS = 1e-13
"""Targets that differ by less than this share of the largest count as tied: digits were lost."""
OUTER = 0.5 * float(np.sqrt(0.6))
"""Distance of the outer two of three Gauss–Legendre nodes from the middle, in widths of a tie."""
MIDDLE, OUTSIDE = 4.0 / 9.0, 5.0 / 18.0
"""Gauss–Legendre weights of the tied target itself and of each of the two beside it."""
ATOM = 0.1
"""A value that is this share of all targets, and thrice as common as any other, is an atom."""
FEW = 20
"""If there are no more different targets than this, they are taken for rounded, or for classes."""


@dataclass(frozen=True, eq=False)
class Ties:
    """Tied targets, which several rows share, and two more that stand beside each.

    The density of a noise that vanishes at a repeated target has no limit. So a target v that
    several rows share counts as known to ± w/2. Its width w is half of the distance within which
    half as many other rows lie as there are at v, or an eighth of all others: half the step of a
    scale, and at a value that is repeated far more often than those around it a part of their
    spread. A whole step would prevent no more, and intervals would be too wide
    (benchmarks/rounded_targets.py). In the place of log p(v) stands

        4/9 log p(v) + 5/18 log p(v − s) + 5/18 log p(v + s),    s = √0.6 w/2,

    the mean of log p over the interval by three Gauss–Legendre nodes, exact for a Gaussian, whose
    variance is then never fitted below w²/12. Two nodes would do for it; but a Student-t with ν
    near 1 loses nothing if its scale vanishes at one of two. By Jensen's inequality the mean is no
    more than the log-density of a target that is `Rounded` to w, so that the bound stays one.
    Distances are in u, the scale on which targets of the support are spread evenly: logarithms of
    positive ones.

    Parameters
    ----------
    values : (k,) shared targets, sorted.
    below, above : (k,) the targets that stand beside each.
    share : of the rows that share their targets.
    largest : the target that most rows share, and the share of these.
    num_values : how many different targets there are, shared or not.
    is_atom : whether the largest is repeated far more often than any other.
    step : of which all shared targets are multiples, but for a constant; 0 where there is none.
    """

    values: Array
    below: Array
    above: Array
    share: float
    largest: tuple[float, float]
    num_values: int
    is_atom: bool
    step: float

    @classmethod
    def of(cls, likelihood: Likelihood, rows: Rows) -> Ties | None:
        """The tied targets among the exact ones of the rows; None for few, or without a density."""
        support = likelihood.target_support
        if not isinstance(support, Continuum) or ROUNDING in likelihood.metadata_names:
            return None
        rows = rows.thinned(ROWS)
        y = rows.targets()
        code = codes(rows.metadata.get("censored"))
        with np.errstate(all="ignore"):
            u = support.from_y(y)
        exact = (code == EXACT) & np.isfinite(u) & ~np.isin(y, likelihood.atoms)
        order = np.argsort(u[exact], kind="stable")
        y, u = y[exact][order], u[exact][order]
        n = len(y)
        if n < 3:
            return None
        starts = np.flatnonzero(np.diff(u, prepend=-np.inf) > DIGITS * np.abs(u).max())
        counts = np.diff(starts, append=n)
        tied = np.flatnonzero(counts > 1)
        share = float(counts[tied].sum() / n)
        if share < FEWEST:
            return None
        first, count = starts[tied], counts[tied]
        widths = np.array([_width(u, a, c) for a, c in zip(first, count, strict=True)])
        step, largest = OUTER * widths, int(np.argmax(count))
        others = np.delete(counts, tied[largest])
        return cls(
            y[first],
            support.to_y(support.clip(u[first] - step)),
            support.to_y(support.clip(u[first] + step)),
            share,
            (float(y[first[largest]]), float(count[largest] / n)),
            len(counts),
            bool(count[largest] >= max(ATOM * n, 3 * others.max(initial=0))),
            _step(y[first]),
        )

    def find(self, y: Array, kw: Keywords) -> tuple[Indices, Array, Array]:
        """Rows (m,) that are exact and have a tied target, and the two targets beside it."""
        gap = DIGITS * np.abs(self.values).max()
        at = np.minimum(np.searchsorted(self.values, y - gap), len(self.values) - 1)
        hit = (np.abs(self.values[at] - y) <= gap) & (codes(kw.get("censored")) == EXACT)
        rows = np.flatnonzero(hit)
        return rows, self.below[at[rows]], self.above[at[rows]]

    @property
    def words(self) -> str:
        """What was found about tied targets, for `m.summary()`."""
        value, share = self.largest
        often = f"{value:g} is {share:.0%} of all"
        scale = f", multiples of {self.step:g}" if self.step else ""
        return f"{self.share:.0%} of the targets are repeated ({often}){scale}"

    @property
    def advice(self) -> str | None:
        """What a user should know of tied targets before a fit; None where it matters little."""
        value, share = self.largest
        if self.num_values == 1:  # A fit of equal targets says enough.
            return None
        if self.is_atom:
            return (
                f"{share:.0%} of the targets are {value:g}. If this value has a probability of its "
                f"own, use Inflated(…, at=({value:g},)) or Hurdle(…)"
            )
        if self.num_values <= FEW and self.step:
            return (
                f"the targets have only {self.num_values} different values. If they are rounded, "
                f"use Rounded(…, {self.step:g}); if they are classes or counts, use Ordinal or a "
                "likelihood of counts"
            )
        return None


def same_ties(one: Ties | None, other: Ties | None) -> bool:
    """Whether two sets of tied targets are the same."""
    if one is None or other is None:
        return one is other
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("values", "below", "above")
    )


def expectation(
    ties: Ties | None,
    likelihood: Likelihood,
    y: Array,
    means: Array,
    variances: Array,
    nodes: int | Indices,
    kw: Keywords,
) -> Averages:
    """E[log p] of each row, with the mean of three targets in the place of a tied one."""
    plain = likelihood.expectation(y, means, variances, nodes, **kw)
    if ties is None:
        return plain
    rows, *beside = ties.find(y, kw)
    if not rows.size:
        return plain
    value, dm, dv, dtheta = map(np.array, plain)
    some = nodes[rows] if isinstance(nodes, np.ndarray) else nodes
    own = rows_of(kw, rows)
    both = [likelihood.expectation(t, means[rows], variances[rows], some, **own) for t in beside]
    for part, lower, upper in zip((value, dm, dv, dtheta), *both, strict=True):
        part[rows] = MIDDLE * part[rows] + OUTSIDE * (lower + upper)
    return value, dm, dv, dtheta


def log_density(
    ties: Ties | None, likelihood: Likelihood, y: Array, latents: list[Array], kw: Keywords
) -> Array:
    """The log-density (n,) at latents (n,) each, with a mean in the place of tied targets."""
    plain = likelihood.log_density(y, *latents, **kw)
    if ties is None:
        return plain
    rows, *beside = ties.find(y, kw)
    total = MIDDLE * plain
    for targets in beside:
        end = y.copy()
        end[rows] = targets
        total = total + OUTSIDE * likelihood.log_density(end, *latents, **kw)
    return total


def _width(u: Array, first: int, count: int) -> float:
    """Width of the interval that a tied target stands for: half the distance to some other rows.

    The tie is u[first : first + count], u sorted.
    """
    last, v = first + count, u[first]
    rank = min(-(-count // 2), -(-(len(u) - count) // 8))
    if rank == 0:  # All targets are equal: a variance of 1 is as good as any.
        return float(np.sqrt(12.0))
    near = np.concatenate([v - u[max(first - rank, 0) : first], u[last : last + rank] - v])
    return 0.5 * float(np.partition(near, rank - 1)[rank - 1])


def _step(values: Array) -> float:
    """Step of the scale of tied values: all differences of sorted ones are its multiples, or 0."""
    gaps = np.diff(values)
    if not gaps.size:
        return 0.0
    least = 1e-6 * (values[-1] - values[0])
    slack = 16.0 * np.finfo(float).eps * np.abs(values).max()
    step = float(gaps.min())
    for _ in range(64):
        left = np.abs(gaps - step * np.round(gaps / step))
        off = left > slack * np.maximum(1.0, np.round(gaps / step))
        if not off.any():
            return float(np.mean(gaps / np.round(gaps / step)))
        step = float(left[off].min())
        if step < least:
            return 0.0
    return 0.0
