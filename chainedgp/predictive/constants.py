"""Constants of a likelihood that are uncertain, such as the shape of an extreme value.

Under the posterior of the hyperparameters the constants, each in a coordinate in which it may be
any number, are about normal, and correlated with the latents: where a scale is larger, a shape may
be smaller. So with z_t ~ N(0, I) of the constants

    constants = t(z_t),    f = m + R z_t + r,    r ~ N(0, V − R Rᵀ).

A band over what is unknown is made of draws: a few of z_t, each with some of r. Every method of a
likelihood takes its constants as numbers, so that each z_t is asked for on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..expectations import quadrature
from ..linalg import Array
from .mixtures import GaussianLatents

Draws = list[tuple[GaussianLatents, Array]]
"""Latents, each with nodes (b, K, 1) of them, which together stand for what is unknown."""
DRAWS = 64
"""Draws of the constants in the band of whatever depends on them."""

SHARE = 8
"""Draws of constants are asked for one by one, so that blocks of rows may be so many times larger
at the same memory: small arrays take longer than their numbers."""


def normal_draws(count: int) -> Array:
    """The draws (count, DRAWS) of z_t of so many constants: Sobol nodes."""
    return np.stack([x.ravel() for x in quadrature.sobol_rule(count, DRAWS).x])


def rows_by(draws: Draws) -> int:
    """Nodes by which rows are parted into blocks where a function is asked for at all draws."""
    total = sum(z.shape[1] for _, z in draws)
    return total if len(draws) == 1 else max(1, total // SHARE)


@dataclass(frozen=True)
class Constants:
    """What is known of the uncertain constants of a likelihood.

    values : (c, DRAWS) of each constant at `normal_draws(c)`, by its name.
    links : cov(v_j, z_t), (M_j, c), with the whitened inducing values of each latent.
    """

    values: dict[str, Array]
    links: tuple[Array, ...]


@dataclass(frozen=True)
class ConstantsAt:
    """Constants, and how the latents of rows go with them.

    values : (DRAWS,) of each constant. loads : R (n, b, c).
    """

    values: dict[str, Array]
    loads: Array

    def apart(self) -> ConstantsAt:
        """The same constants for latents that do not go with them."""
        return ConstantsAt(self.values, np.zeros_like(self.loads))

    def each(self) -> Iterator[tuple[Array, dict[str, float]]]:
        """z_t (c,) of every draw, and the constants there."""
        draws = normal_draws(len(self.values)).T
        for z, constants in zip(draws, zip(*self.values.values(), strict=True), strict=True):
            yield z, dict(zip(self.values, map(float, constants), strict=True))

    def events(self, event: GaussianLatents, V: Array) -> list[GaussianLatents]:
        """The latents of all rows at every draw of the constants, with the V that is left."""
        R = self.loads
        if V.ndim == 3:
            left = V - R @ R.swapaxes(1, 2)
        else:  # Latents without correlations have those alone that the constants make.
            left = np.maximum(V - np.sum(R * R, axis=2), 0.0)
        rest = GaussianLatents(event.likelihood, event.means.T, left, event.kw)
        return [rest.moved((R @ z).T, constants) for z, constants in self.each()]
