"""Mixtures of a distribution and point masses ("atoms"): moments, cdf and quantiles.

F(y) = r G(y) + Σ_k w_k [y ≥ a_k], r + Σ w_k = 1, G the cdf of the rest. Weights r and w_k are
arrays that broadcast, atoms a_k are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import quadrature, special

__all__ = ["WithAtoms", "atom_cdf", "atom_moments", "atom_ppf", "expected_log_z"]

Array = np.ndarray


def atom_moments(
    mean: Array, variance: Array, rest: Array, atoms: Sequence[float], weights: Sequence[Array]
) -> tuple[Array, Array]:
    """Mean and variance of the mixture from those of the rest; inf where the rest has none."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = rest * mean + sum(w * a for a, w in zip(atoms, weights, strict=True))
        spread = rest * (variance + (mean - total) ** 2)
        spread = spread + sum(w * (a - total) ** 2 for a, w in zip(atoms, weights, strict=True))
    endless = np.isinf(mean)
    return np.where(endless, mean, total), np.where(endless | np.isinf(variance), np.inf, spread)


def atom_cdf(
    y: Array, cdf: Array, rest: Array, atoms: Sequence[float], weights: Sequence[Array]
) -> Array:
    """F(y) from cdf = G(y)."""
    return rest * cdf + sum(w * np.greater_equal(y, a) for a, w in zip(atoms, weights, strict=True))


def atom_ppf(
    q: Array,
    ppf: Callable[[Array], Array],
    below: Callable[[Any], Array],
    rest: Array,
    atoms: Sequence[float],
    weights: Sequence[Array],
) -> Array:
    """The smallest y with F(y) ≥ q; ppf = G⁻¹, below(a) = P(Y < a) under G."""
    order = np.argsort(atoms)

    def inverse(passed: Any) -> Array:  # of q among the rest, with mass `passed` of atoms below
        with np.errstate(divide="ignore", invalid="ignore"):
            return ppf(np.clip(np.nan_to_num((q - passed) / rest), 0.0, 1.0))

    passed = sum(weights[k] for k in order)
    result = inverse(passed)
    for k in order[::-1]:
        passed = sum((weights[j] for j in order[: list(order).index(k)]), np.float64(0.0))
        start = passed + rest * below(atoms[k])
        result = np.where(q <= start + weights[k], atoms[k], result)
        result = np.where(q <= start, inverse(passed), result)
    return result


class WithAtoms:
    """A table of a distribution (`numeric.Table`), not normalised, and masses at atoms."""

    def __init__(self, rest: Any, atoms: Sequence[float], masses: Sequence[Array]) -> None:
        self.rest, self.atoms = rest, atoms
        self.total = rest.total + sum(masses)
        self.share = rest.total / self.total
        self.weights = [mass / self.total for mass in masses]

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance."""
        mean, variance = self.rest.moments()
        return atom_moments(mean, variance, self.share, self.atoms, self.weights)

    def cdf(self, y: Array) -> Array:
        """P(Y ≤ y)."""
        return atom_cdf(y, self.rest.cdf(y), self.share, self.atoms, self.weights)

    def ppf(self, q: Array) -> Array:
        """The smallest y with cdf ≥ q."""
        return atom_ppf(q, self.rest.ppf, self.rest.cdf, self.share, self.atoms, self.weights)


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
