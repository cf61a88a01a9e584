"""Likelihoods that are distributions of scipy.stats, their parameters links of the latents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from ..data.types import Value
from .contract import Array, Distribution, Likelihood

LINKS = (("logit_", expit), ("logit", expit), ("log_", np.exp))
"""How the name of a latent begins, and the link from the latent to the quantity a user knows."""


class Family(Likelihood):
    """A likelihood that is a distribution of scipy.stats, its parameters links of the latents.

    A subclass gives `scipy_name` and `_arguments(*latents, **kw)`, those of the distribution.
    """

    scipy_name: ClassVar[str]
    _arguments: ClassVar[Callable[..., tuple[Any, ...]]]

    def distribution(self, *latents: Array, **kw: Value) -> Distribution:
        """The distribution of scipy.stats that a likelihood is, at given latents."""
        from scipy import stats  # slow to import

        return getattr(stats, self.scipy_name)(*self._arguments(*latents, **kw))

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """The latents without the links in their names: log_scale g is scale e^g."""
        named = {}
        for name, f in zip(self.latents, latents, strict=True):
            match = ((p, link) for p, link in LINKS if name.startswith(p))
            prefix, link = next(match, ("", np.asarray))
            named[name.removeprefix(prefix) or "probability"] = link(f)
        return named
