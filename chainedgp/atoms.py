"""Mixtures of a distribution and point masses ("atoms"): moments, cdf and quantiles.

F(y) = r G(y) + Σ_k w_k [y ≥ a_k], r + Σ w_k = 1, G the cdf of the rest. Weights r and w_k are
arrays that broadcast, atoms a_k are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import quadrature, special

__all__ = ["Bound", "WithAtoms", "expected_log_z"]

Array = np.ndarray


class Bound:
    """The distribution of a likelihood given its latents, as `numeric.Table` has it."""

    def __init__(self, likelihood: Any, latents: Sequence[Array], kw: dict[str, Any]) -> None:
        self.likelihood, self.latents, self.kw = likelihood, latents, kw

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance."""
        given = self.likelihood
        mean = given.conditional_mean(*self.latents, **self.kw)
        return mean, given.conditional_variance(*self.latents, **self.kw)

    def cdf(self, y: Array) -> Array:
        """P(Y ≤ y)."""
        return self.likelihood.cdf(y, *self.latents, **self.kw)

    def ppf(self, q: Array) -> Array:
        """Quantiles."""
        return self.likelihood.ppf(q, *self.latents, **self.kw)


class WithAtoms:
    """A distribution `rest` of the given share, and atoms with weights; all sum to one.

    rest: has moments, cdf and ppf, like `Bound` or `numeric.Table`.
    step: distance to the next lower value of the rest: 1 for counts, 0 beside a density.
    """

    total: Array

    def __init__(
        self,
        rest: Any,
        share: Array,
        atoms: Sequence[float],
        weights: Sequence[Array],
        step: float = 0.0,
    ) -> None:
        self.rest, self.share, self.step = rest, share, step
        order = np.argsort(atoms)
        self.atoms, self.weights = [atoms[k] for k in order], [weights[k] for k in order]

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance; inf where the rest has none."""
        mean, variance = self.rest.moments()
        pairs = list(zip(self.atoms, self.weights, strict=True))
        with np.errstate(invalid="ignore", over="ignore"):
            total = self.share * mean + sum(w * a for a, w in pairs)
            spread = self.share * (variance + (mean - total) ** 2)
            spread = spread + sum(w * (a - total) ** 2 for a, w in pairs)
        no_mean = np.isinf(mean)
        return np.where(no_mean, mean, total), np.where(
            no_mean | np.isinf(variance), np.inf, spread
        )

    def mean(self) -> Array:
        """The mean."""
        return self.moments()[0]

    def var(self) -> Array:
        """The variance."""
        return self.moments()[1]

    def cdf(self, y: Array) -> Array:
        """P(Y ≤ y)."""
        below = sum(
            w * np.greater_equal(y, a) for a, w in zip(self.atoms, self.weights, strict=True)
        )
        return self.share * self.rest.cdf(y) + below

    def ppf(self, q: Array) -> Array:
        """The smallest y with cdf ≥ q."""
        passed = np.cumsum(np.stack([np.zeros_like(self.weights[0]), *self.weights]), axis=0)

        def inverse(mass: Array) -> Array:  # of q among the rest, with this mass of atoms below
            with np.errstate(divide="ignore", invalid="ignore"):
                return self.rest.ppf(np.clip(np.nan_to_num((q - mass) / self.share), 0.0, 1.0))

        result = inverse(passed[-1])
        for a, w, mass in zip(self.atoms[::-1], self.weights[::-1], passed[-2::-1], strict=True):
            start = mass + self.share * self.rest.cdf(np.asarray(a - self.step))
            result = np.where(q <= start + w, a, result)
            result = np.where(q <= start, inverse(mass), result)
        return result


def expected_log_z(means: Array, variances: Array, nodes: int) -> tuple[Array, ...]:
    """−E log(1 + Σ e^{h_k}): value (n,), d/dmeans and d/dvariances (K, n). Exact for one atom."""
    if means.shape[1] == 1:
        parts = special.expected_softplus(means[:, 0], variances[:, 0])
        return -parts[0], -parts[1][None], -parts[2][None]

    def log_z(_: slice, *odds: Array) -> Array:
        total: Any = 0.0
        for h in odds:
            total = np.logaddexp(total, h)
        return -total

    def slopes(rows: slice, *odds: Array) -> tuple[Array, ...]:
        total = log_z(rows, *odds)
        return tuple(-np.exp(h + total) for h in odds)

    rule = quadrature.rule_for(means.shape[1], nodes)
    value, dmeans, dvariances, _ = quadrature.expectation(log_z, slopes, means, variances, rule)
    return value, dmeans.T, dvariances.T
