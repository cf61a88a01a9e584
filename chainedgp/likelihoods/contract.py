"""The likelihood contract p(y | f_1, …, f_b; θ) and the defaults that follow from its density."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from ..errors import InputError
from ..expectations.defaults import Array, Arrays, Averages, Expected, merged, packed
from . import from_density
from .conditional import Conditional
from .declared import Declared
from .support import Support, SupportLike, as_support

__all__ = ["Array", "Arrays", "Averages", "Family", "Likelihood", "merged", "packed"]


class Likelihood(Declared, Expected, Conditional):
    """A noise model p(y | f_1, …, f_b; θ) that factorises over rows. Only `log_density` is needed.

    Latents arrive as separate arrays that broadcast against y (n,): on a quadrature grid f has
    shape (h, 1, n) and g (1, h, n). Parameters θ and metadata arrive by keyword, so methods are
    pure: they read nothing from `self` that an optimiser changes. ::

        class HetLogistic(Likelihood):
            latents = ("location", "log_scale")

            def log_density(self, y, f, g):
                z = np.abs(y - f) * np.exp(-g)
                return -z - g - 2 * np.log1p(np.exp(-z))

    Class attributes
    ----------------
    latents: names of the b latent functions (may be set on the instance before `super().__init__`).
    support: what a target may be: "real", "positive", "unit", "counts", "binary" or "categories";
        the two ends of an interval, such as (-np.pi, np.pi), which are targets too; or a `Support`.
    parameters: start values of own constants, {"nu": 4.0}; they become leaves `lik.nu` and reach
        every method as keyword floats.
    atoms: values with a probability of their own, beside the density of a continuous support; at
        them `log_density` is the logarithm of that probability.
    domains: {"nu": "above_one"}; "positive" where nothing is said, "real" for any number.
    exact_expectation, quadrature_latent, node_limits: about nodes, see `expectations.Expected`.
    symmetric: the latents play the same role, so they must start differently.
    positive_metadata, unbounded_metadata: names of metadata that must be positive; that may be
        infinite.

    Keyword-only arguments of `log_density` that are not parameters are metadata: one value per row,
    (n,); those with a default are optional. In every signature, kw = parameters and metadata.

    Everything else has a default: derivatives here, expectations in `expectations.Expected`,
    moments, cdf, quantiles and draws in `conditional.Conditional`.
    """

    support: SupportLike = "real"
    symmetric: bool = False
    atoms: tuple[float, ...] = ()
    positive_metadata: tuple[str, ...] = ()
    unbounded_metadata: tuple[str, ...] = ()

    def log_density(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """The log-density log p(y | f_1, …, f_b; θ), broadcast shape of y and the latents."""
        raise NotImplementedError(f"{type(self).__name__} must define log_density(y, *latents).")

    def dlog_density(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """∂ log p / ∂f_j, b arrays of the shape of `log_density`. Default: differences."""
        return from_density.differences(lambda *f: self.log_density(y, *f, **kw), latents, 1e-4)

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """∂ log p / ∂θ_k, p arrays in the order of the parameters. Default: differences."""
        return tuple(
            from_density.difference(
                lambda t, key=key: self.log_density(y, *latents, **{**kw, key: t}),
                kw[key],
                1e-4 * (abs(kw[key]) if self._domain(key) == "positive" else 1.0),
            )
            for key in self.parameter_keys
        )

    def d2log_density(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """∂² log p / ∂f_j², b arrays. Default: differences of `dlog_density`."""
        return from_density.differences(
            lambda *f: self.dlog_density(y, *f, **kw), latents, 1e-3, True
        )

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """The latents mapped to quantities a user knows (rate, scale, …). Default: the latents."""
        return dict(zip(self.latents, (np.asarray(f) for f in latents), strict=True))

    def initial_latents(self, y: Array, **kw: Any) -> Array:
        """Constants (b,) to start the latents from. Default: maximum likelihood of constants."""
        return from_density.constant_fit(self, y, kw)

    def initial_parameters(self, y: Array, **kw: Any) -> dict[str, float]:
        """Data-driven starts of parameters the user left open. Default: none."""
        return {}

    @cached_property
    def num_categories(self) -> int:
        """Number of classes of a "categories" likelihood. Default: one per latent."""
        return len(self.latents)

    @property
    def target_support(self) -> Support:
        """What a target may be, as an object: that which `support` declares."""
        return as_support(self.support, self.num_categories, type(self).__name__)

    def check_targets(self, y: Array) -> None:
        """Raise InputError, with the count and the first index, where y is outside the support."""
        self.target_support.check(y, type(self).__name__)

    def impossible(self, y: Array, **metadata: Array) -> tuple[Array, str]:
        """Rows (n,) of booleans that contradict their metadata, and how; default: none.

        The words go on from "3 of 20 rows …": "have more successes than trials".
        """
        return np.zeros(len(y), dtype=bool), ""

    def check_rows(self, y: Array, **metadata: Array) -> None:
        """Raise InputError where targets (n,) are outside the support or contradict metadata."""
        self.check_targets(y)
        wrong, how = self.impossible(y, **metadata)
        found = np.flatnonzero(wrong)
        if found.size:
            i, values = found[0], {"Y": y, **metadata}
            row = ", ".join(f"{key} = {value[i]:g}" for key, value in values.items())
            raise InputError(f"{found.size} of {len(y)} rows {how}; the first is row {i}: {row}.")

    def with_constant(self, latent: str | int, value: float | None = None) -> Likelihood:
        """A likelihood in which one latent function is a constant parameter (real) instead.

        `HetGaussian().with_constant("log_variance")` has the latent `mean` and the parameter
        `log_variance`. value: where it starts; None lets the model choose from the data.
        """
        from .wrappers.constant import ConstantLatent  # wrappers build on this module

        return ConstantLatent(self, latent, value)

    @staticmethod
    def from_scipy(dist: Any, name: str | None = None, **links: str | float) -> Likelihood:
        """The likelihood of a `scipy.stats` distribution, its parameters by links of latents.

        `Likelihood.from_scipy(scipy.stats.norm, loc="identity", scale="exp")` has the latents `loc`
        and `log_scale`. A link is "identity", "exp", "logistic" or "softplus"; a number fixes the
        parameter. See `ScipyLikelihood`.
        """
        from .wrappers.scipy import ScipyLikelihood  # which builds on this module

        return ScipyLikelihood(dist, links, name)


LINKS = (("logit_", expit), ("logit", expit), ("log_", np.exp))


class Family(Likelihood):
    """A likelihood that is a distribution of scipy.stats, its parameters links of the latents.

    A subclass gives `scipy_name` and `_arguments(*latents, **kw)`, those of the distribution.
    """

    scipy_name: ClassVar[str]
    _arguments: ClassVar[Callable[..., tuple[Any, ...]]]

    def distribution(self, *latents: Array, **kw: Any) -> Any:
        """The distribution of scipy.stats."""
        from scipy import stats  # slow to import

        return getattr(stats, self.scipy_name)(*self._arguments(*latents, **kw))

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """The latents without their links: log_scale g is scale e^g, logit_mean is mean."""
        named = {}
        for name, f in zip(self.latents, latents, strict=True):
            match = ((p, link) for p, link in LINKS if name.startswith(p))
            prefix, link = next(match, ("", np.asarray))
            named[name.removeprefix(prefix) or "probability"] = link(f)
        return named
