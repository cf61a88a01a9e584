"""Any distribution of scipy.stats as a likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from ..errors import InputError
from ..special import softplus
from .base import Array, Likelihood

__all__ = ["ScipyLikelihood"]

LINKS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "identity": ("{}", np.asarray),
    "exp": ("log_{}", np.exp),
    "logistic": ("logit_{}", expit),
    "unit": ("logit_{}", expit),
    "softplus": ("raw_{}", softplus),
}
"""By name: how the latent is called, and the parameter from the latent."""


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

    def __init__(self, dist: Any, links: dict[str, str | float], name: str | None = None) -> None:
        self.dist = dist if isinstance(dist, str) else getattr(dist, "name", "")
        family = self._family(dist)
        shapes = [p.strip() for p in (family.shapes or "").split(",") if p.strip()]
        self._discrete = hasattr(family, "pmf")
        known = [*shapes, "loc", *([] if self._discrete else ["scale"])]
        wrong = [key for key in links if key not in known]
        missing = [key for key in shapes if key not in links]
        if wrong or missing:
            raise InputError(
                f"{self.dist} has the parameters {', '.join(known)}: give a link for each (loc and "
                f"scale are optional); unknown: {wrong}, missing: {missing}."
            )
        self.links = {key: _checked(key, link) for key, link in links.items()}
        free = {key: link for key, link in self.links.items() if isinstance(link, str)}
        self.latents = tuple(LINKS[link][0].format(key) for key, link in free.items())
        self._ends, self.support = self._find_support()
        super().__init__(name or f"scipy_{self.dist}")

    def _family(self, given: Any = None) -> Any:
        """The distribution in scipy.stats."""
        from scipy import stats  # slow to import

        found = getattr(stats, self.dist, None)
        known = isinstance(found, stats.rv_continuous | stats.rv_discrete)
        if known and (given is None or isinstance(given, str) or type(given) is type(found)):
            return found
        raise InputError(
            f"{given!r} is not a distribution that scipy.stats has by name: give, for example, "
            "scipy.stats.norm or 'norm', not a frozen one such as scipy.stats.norm(0, 1)."
        )

    def _find_support(self) -> tuple[tuple[float, float], str]:
        """Ends that hold for all latents tried, and the kind of support that contains them."""
        tries = [np.full(len(self.latents), c) for c in (-1.0, 0.0, 1.0)]
        with np.errstate(all="ignore"):
            ends = np.array([self.distribution(*latents).support() for latents in tries])
        low, high = float(np.nanmin(ends[:, 0])), float(np.nanmax(ends[:, 1]))
        if self._discrete:
            if not low >= 0.0:
                raise InputError(
                    f"{self.dist} has values below 0: only counts 0, 1, … can be used."
                )
            return (low, high), "binary" if (low, high) == (0.0, 1.0) else "counts"
        kind = "unit" if (low, high) == (0.0, 1.0) else "positive" if low >= 0.0 else "real"
        return (low, high), kind

    def _values(self, latents: tuple[Array, ...]) -> dict[str, Any]:
        """Every parameter of the distribution."""
        rest = iter(latents)
        return {
            key: LINKS[link][1](next(rest)) if isinstance(link, str) else link
            for key, link in self.links.items()
        }

    def distribution(self, *latents: Array, **kw: Any) -> Any:
        """The frozen distribution at the latents."""
        return self._family()(**self._values(latents))

    def log_density(self, y: Array, *latents: Array) -> Array:
        """logpdf or logpmf; −inf where scipy has none."""
        frozen = self.distribution(*latents)
        with np.errstate(all="ignore"):
            value = frozen.logpmf(y) if self._discrete else frozen.logpdf(y)
        return np.where(np.isnan(value), -np.inf, value)

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """The parameters of the distribution that are not fixed."""
        free = self._values(latents).items()
        return {key: np.asarray(v) for key, v in free if isinstance(self.links[key], str)}

    def check_targets(self, y: Array) -> None:
        """Inside the support, and between the distribution's ends where they do not move."""
        super().check_targets(y)
        low, high = self._ends
        bad = np.flatnonzero((y < low) | (y > high))
        if len(bad):
            raise InputError(
                f"{self.dist} needs targets in [{low:g}, {high:g}]; {len(bad)} of {len(y)} are "
                f"not, the first is Y[{bad[0]}] = {y[bad[0]]}."
            )


def _checked(key: str, link: Any) -> str | float:
    """A link's name, or a finite number."""
    if isinstance(link, str) and link in LINKS:
        return link
    if isinstance(link, int | float | np.number) and np.isfinite(link):
        return float(link)
    raise InputError(
        f"The link of {key} must be a number or one of {', '.join(LINKS)}; got {link!r}."
    )
