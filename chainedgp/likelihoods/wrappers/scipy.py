"""The likelihood that any distribution of scipy.stats gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.types import ScipyFamily, Value
from ...errors import InputError
from ..contract import Array, Distribution, Likelihood, makers
from .scipy_families import LINKS, checked_links, find_family, kind_of_support


class ScipyLikelihood(Likelihood):
    """y ~ dist(parameters), each parameter a link of its own latent, or a fixed number.

    Made by `Likelihood.from_scipy`. All but the density is `scipy.stats`' own; derivatives are
    differences. support: derived from that of the distribution at several latents.

    Parameters
    ----------
    dist: a distribution of scipy.stats, or its name.
    links: parameter → "identity", "exp", "logistic" (or "unit"), "softplus", or a number; latents
        are called loc, log_scale, logit_p, raw_scale. Shapes must be given; loc and scale need not.
    """

    def __init__(
        self,
        dist: ScipyFamily | str,
        links: dict[str, str | float] | None = None,
        name: str | None = None,
    ) -> None:
        self.dist = dist if isinstance(dist, str) else getattr(dist, "name", "")
        family = find_family(self.dist, dist)
        self._discrete = hasattr(family, "pmf")
        self.links = checked_links(family, links or {})
        if not links:
            raise InputError(
                f"ScipyLikelihood needs a link of one parameter of {self.dist!r} or more: "
                f"Likelihood.from_scipy({self.dist!r}, loc='identity', scale='exp') has two."
            )
        free = {key: link for key, link in self.links.items() if isinstance(link, str)}
        self.latents = tuple(LINKS[link][0].format(key) for key, link in free.items())
        levels = (-3.0, -1.0, 0.0, 1.0, 3.0)
        tries = [self.distribution(*np.full(len(free), c)).support() for c in levels]
        self._ends, self.support = kind_of_support(tries, self._discrete, self.dist)
        super().__init__(name or f"scipy_{self.dist}")

    def _given(self) -> tuple[str, ...]:
        return self.dist, *(f"{key}={link!r}" for key, link in self.links.items())

    def _values(self, latents: tuple[Array, ...]) -> dict[str, Any]:
        """Every parameter of the scipy.stats distribution, from latents or fixed."""
        rest = iter(latents)
        return {
            key: LINKS[link][1](next(rest)) if isinstance(link, str) else self._number(link)
            for key, link in self.links.items()
        }

    def _number(self, value: float) -> float:
        """A fixed scipy.stats parameter; a whole one of counts is an integer, as draws need."""
        return int(value) if self._discrete and value == int(value) else value

    def distribution(self, *latents: Array, **kw: Value) -> Distribution:
        """The frozen scipy.stats distribution at the latents."""
        return find_family(self.dist)(**self._values(latents))

    def log_density(self, y: Array, *latents: Array) -> Array:
        """logpdf or logpmf of scipy.stats; −inf where scipy has none."""
        family = find_family(self.dist)  # freezing it would double the time
        with np.errstate(all="ignore"):
            value = (family.logpmf if self._discrete else family.logpdf)(y, **self._values(latents))
        return np.where(np.isnan(value), -np.inf, value)

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """The parameters of the scipy.stats distribution that are not fixed."""
        free = self._values(latents).items()
        return {key: np.asarray(v) for key, v in free if isinstance(self.links[key], str)}

    def check_targets(self, y: Array) -> None:
        """Refuse targets outside the distribution's support, or beyond ends that do not move."""
        super().check_targets(y)
        low, high = self._ends
        bad = np.flatnonzero((y < low) | (y > high))
        if len(bad):
            raise InputError(
                f"{self.dist} needs targets in [{low:g}, {high:g}]; {len(bad)} of {len(y)} are "
                f"not, the first is Y[{bad[0]}] = {y[bad[0]]}.",
                rows=bad[:1],
            )


makers.scipy = ScipyLikelihood
