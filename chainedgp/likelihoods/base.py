"""The likelihood contract p(y | f_1, …, f_b; θ) and the defaults that follow from its density."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from paramz import Parameterized

from .. import numeric, quadrature
from ..domains import AboveOne, make_parameter
from ..errors import InputError

__all__ = ["AboveOne", "Likelihood"]

Array = np.ndarray
Arrays = tuple[Array, ...]
FourArrays = tuple[Array, Array, Array, Array]


class Likelihood(Parameterized):
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
    support: "real", "positive", "unit", "counts", "binary" or "categories".
    parameters: start values of own constants, {"nu": 4.0}; they become leaves `lik.nu` and reach
        every method as keyword floats.
    exact_expectation: True if `expected_log_density` is closed and needs no nodes.
    quadrature_latent: the latent it has nodes in, if it is exact in all others.
    atoms: values with a probability of their own, beside the density of a continuous support; at
        them `log_density` is the logarithm of that probability.
    domains: {"nu": "above_one"}; "positive" where nothing is said, "real" for any number.

    symmetric: the latents play the same role, so they must start differently.
    late_parameters: parameters that a fit sets free after a first convergence without them.

    Keyword-only arguments of `log_density` that are not parameters are metadata: one value per row,
    (n,); those with a default are optional. In every signature below, kw = parameters and metadata.
    """

    latents: tuple[str, ...] = ()
    support: str = "real"
    symmetric: bool = False
    late_parameters: tuple[str, ...] = ()
    atoms: tuple[float, ...] = ()
    exact_expectation: ClassVar[bool] = False
    quadrature_latent: ClassVar[str | None] = None
    domains: ClassVar[dict[str, str]] = {}
    _declared: ClassVar[dict[str, float]] = {}
    _domains: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # paramz keeps the linked leaves under the name `parameters`: take the declaration away
        own = cls.__dict__.get("parameters", {})
        if "parameters" in cls.__dict__:
            del cls.parameters
        cls._declared = {**cls._declared, **own}
        cls._domains = {**cls._domains, **cls.__dict__.get("domains", {})}
        if "distribution" in cls.__dict__:
            for name, method in _FROM_DISTRIBUTION.items():
                if name not in cls.__dict__ and hasattr(cls, name):
                    setattr(cls, name, method)

    def __init__(self, name: str | None = None, **parameters: float) -> None:
        super().__init__(name=name or type(self).__name__)
        declared, domains = self._declarations()
        unknown = sorted(set(parameters) - set(declared))
        if unknown:
            raise InputError(
                f"{type(self).__name__} has no parameter {', '.join(unknown)}; "
                f"it has {', '.join(declared) or 'none'}."
            )
        self._check_names(declared)
        for key, start in {**declared, **parameters}.items():
            self.link_parameter(make_parameter(key, start, domains.get(key, "positive")))

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        """Start values and domains of the parameters; a wrapper gives its own."""
        return self._declared, self._domains

    def _check_names(self, declared: Iterable[str]) -> None:
        if isinstance(self.latents, str) or not self.latents:
            raise InputError(
                f"{type(self).__name__}.latents must be a non-empty tuple of names, for example "
                f"latents = ('location', 'log_scale'); got {self.latents!r}."
            )
        self.latents = tuple(self.latents)
        names = [*self.latents, *declared, *self._metadata()]
        for name in names:
            if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
                raise InputError(f"{name!r} is not a name: use an ASCII identifier.")
            if name in _RESERVED or (name in declared and hasattr(Likelihood, name)):
                raise InputError(f"The name {name!r} is taken by the library: choose another.")
        if len(set(names)) < len(names):
            raise InputError(f"Latents, parameters and metadata share a name: {names}.")

    # ---- what an author gives ------------------------------------------------------------------

    def log_density(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """The log-density log p(y | f_1, …, f_b; θ), broadcast shape of y and the latents."""
        raise NotImplementedError(f"{type(self).__name__} must define log_density(y, *latents).")

    def dlog_density(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """∂ log p / ∂f_j, b arrays of the shape of `log_density`. Default: differences."""
        return tuple(
            numeric.difference(
                lambda f, j=j: self.log_density(y, *_swap(latents, j, f), **kw), latents[j], 1e-4
            )
            for j in range(len(latents))
        )

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """∂ log p / ∂θ_k, p arrays in the order of the parameters. Default: differences."""
        return tuple(
            numeric.difference(
                lambda t, key=key: self.log_density(y, *latents, **{**kw, key: t}),
                kw[key],
                1e-4 * (abs(kw[key]) if self._domain(key) == "positive" else 1.0),
            )
            for key in self.parameter_keys
        )

    def d2log_density(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """∂² log p / ∂f_j², b arrays. Default: differences of `dlog_density`."""
        return tuple(
            numeric.difference(
                lambda f, j=j: self.dlog_density(y, *_swap(latents, j, f), **kw)[j],
                latents[j],
                1e-3,
            )
            for j in range(len(latents))
        )

    # ---- expectations under q ------------------------------------------------------------------

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Any
    ) -> FourArrays:
        """E[log p(y | f)], f_j ~ N(m_j, v_j), with its gradients. Default: quadrature.

        Parameters: y (n,), means and variances (n, b), nodes per dimension.
        Returns: value (n,), d/dmeans (n, b), d/dvariances (n, b), d/dθ (n, p).
        """
        return self._quadrature(y, means, variances, nodes=nodes, **kw)

    def _quadrature(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Any
    ) -> FourArrays:
        """The quadrature engine: `expected_log_density` from the density and its derivatives."""

        def log_p(rows: slice, *latents: Array) -> Array:
            return self.log_density(y[rows], *latents, **_rows(kw, rows))

        def dlog_p(rows: slice, *latents: Array) -> Arrays:
            kw_rows = _rows(kw, rows)
            first = self.dlog_density(y[rows], *latents, **kw_rows)
            if not num_parameters:
                return first
            return (*first, *self.dlog_density_dtheta(y[rows], *latents, **kw_rows))

        num_parameters = len(self.parameter_keys)
        rule = quadrature.rule_for(means.shape[1], nodes)
        return quadrature.expectation(log_p, dlog_p, means, variances, rule, num_parameters)

    def expectation(
        self, y: Array, means: Array, variances: Array, nodes: int | Array, **kw: Any
    ) -> FourArrays:
        """`expected_log_density` with `nodes` an int or one number per row (n,).

        Rows with the same number are evaluated together.
        """
        levels = np.unique(nodes)
        if len(levels) == 1:
            return self.expected_log_density(y, means, variances, nodes=int(levels[0]), **kw)
        n, b = means.shape
        shapes = ((n,), (b, n), (b, n), (len(self.parameter_keys), n))
        result = tuple(np.empty(shape) for shape in shapes)
        for level in levels:
            rows = np.flatnonzero(nodes == level)
            parts = self.expected_log_density(
                y[rows], means[rows], variances[rows], nodes=int(level), **_rows(kw, rows)
            )
            for whole, part in zip(result, parts, strict=True):
                whole[..., rows] = part.T
        value, dmeans, dvariances, dtheta = (whole.T for whole in result)
        return value, dmeans, dvariances, dtheta

    def required_nodes(self, y: Array, means: Array, variances: Array, **kw: Any) -> Array:
        """Nodes per dimension and row (n,), from `quadrature.LEVELS`, for an error of about 1e-6.

        Default, for a density of which nothing is known: 20, but 12 on the grid of three latents;
        the fewest where the expectation is exact.
        """
        if self.exact_expectation:
            return np.full(len(means), quadrature.LEVELS[0])
        return np.full(len(means), 12 if means.shape[1] == 3 else 20)

    def unmet(self, y: Array, means: Array, variances: Array, **kw: Any) -> Array:
        """Rows (n,) of booleans whose tolerance no level of `required_nodes` can meet."""
        return np.zeros(len(means), dtype=bool)

    # ---- the conditional distribution p(y | latents) -------------------------------------------

    def distribution(self, *latents: Array, **kw: Any) -> Any:
        """p(y | latents) as a frozen distribution of scipy.stats. Optional.

        A class that defines it has mean, variance, cdf, ppf and sample (a `Survival` log_survival
        and log_cdf too) from it, but for those that it defines itself.
        """
        raise NotImplementedError(f"{type(self).__name__} has no distribution of scipy.stats.")

    def conditional_mean(self, *latents: Array, **kw: Any) -> Array:
        """E[y | latents], broadcast shape; inf where it does not exist. Default: numeric."""
        return numeric.tabulate(self, latents, kw).moments()[0]

    def conditional_variance(self, *latents: Array, **kw: Any) -> Array:
        """var[y | latents], broadcast shape; inf where it does not exist. Default: numeric."""
        return numeric.tabulate(self, latents, kw).moments()[1]

    def cdf(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """P(Y ≤ y | latents), broadcast shape. Default: integral or sum of the density."""
        return numeric.tabulate(self, latents, kw).cdf(y)

    def ppf(self, q: Array, *latents: Array, **kw: Any) -> Array:
        """The smallest y with cdf(y) ≥ q, broadcast shape. Default: inverts the numeric cdf."""
        return numeric.tabulate(self, latents, kw).ppf(q)

    def sample(
        self, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Any
    ) -> Array:
        """Draws from p(y | latents): the broadcast shape, or (size, *shape). Default: `ppf`."""
        shape = self._draw_shape(size, latents, kw)
        return self.ppf(rng.uniform(size=shape), *latents, **kw)

    @staticmethod
    def _draw_shape(
        size: int | None, latents: Iterable[Array], kw: dict[str, Any]
    ) -> tuple[int, ...]:
        """Shape of `sample`: that of latents and metadata together, preceded by `size`."""
        arrays = [*latents, *(value for value in kw.values() if value is not None)]
        shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
        return shape if size is None else (size, *shape)

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """The latents mapped to quantities a user knows (rate, scale, …). Default: the latents."""
        return dict(zip(self.latents, (np.asarray(f) for f in latents), strict=True))

    # ---- starts, checks, parameters ------------------------------------------------------------

    def initial_latents(self, y: Array, **kw: Any) -> Array:
        """Constants (b,) to start the latents from. Default: maximum likelihood of constants."""
        return numeric.constant_fit(self, y, kw)

    def initial_parameters(self, y: Array, **kw: Any) -> dict[str, float]:
        """Data-driven starts of parameters the user left open. Default: none."""
        return {}

    @property
    def num_categories(self) -> int:
        """Number of classes of a "categories" likelihood. Default: one per latent."""
        return len(self.latents)

    def check_targets(self, y: Array) -> None:
        """Raise InputError, with the count and the first index, where y is outside the support."""
        numeric.check_support(y, self.support, self.num_categories, type(self).__name__)

    def _metadata(self) -> dict[str, bool]:
        """Metadata names, and whether each is required."""
        return {
            name: p.default is p.empty
            for name, p in inspect.signature(self.log_density).parameters.items()
            if p.kind is p.KEYWORD_ONLY and name not in self._declared
        }

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Names of the per-row values `log_density` takes beside y, latents and parameters."""
        return tuple(self._metadata())

    def check_metadata(self, names: Iterable[str]) -> None:
        """Raise InputError if a name is unknown, or a required one is missing."""
        known, names = self._metadata(), list(names)
        for name in names:
            if name not in known:
                raise InputError(
                    f"Y_metadata has {name!r}, which {type(self).__name__} does not use; "
                    f"it takes {', '.join(known) or 'no metadata'} (and weights)."
                )
        missing = [name for name, required in known.items() if required and name not in names]
        if missing:
            raise InputError(
                f"{type(self).__name__} needs Y_metadata with {', '.join(missing)}, one per row."
            )

    @property
    def parameter_keys(self) -> tuple[str, ...]:
        """Names of the likelihood's own parameters, in the order of `param_array`."""
        return tuple(self._declarations()[0])

    def parameter_values(self) -> dict[str, float]:
        """Current values of the parameters as plain floats, the keywords of every method."""
        return {key: float(getattr(self, key).values[0]) for key in self.parameter_keys}

    def _domain(self, key: str) -> str:
        return self._declarations()[1].get(key, "positive")

    def with_constant(self, latent: str | int, value: float | None = None) -> Likelihood:
        """A likelihood in which one latent function is a constant parameter (real) instead.

        `HetGaussian().with_constant("log_variance")` has the latent `mean` and the parameter
        `log_variance`. value: where it starts; None lets the model choose from the data.
        """
        from .wrappers import ConstantLatent  # wrappers build on this module

        return ConstantLatent(self, latent, value)

    @staticmethod
    def from_scipy(dist: Any, name: str | None = None, **links: str | float) -> Likelihood:
        """The likelihood of a `scipy.stats` distribution, its parameters by links of latents.

        `Likelihood.from_scipy(scipy.stats.norm, loc="identity", scale="exp")` has the latents `loc`
        and `log_scale`. A link is "identity", "exp", "logistic" or "softplus"; a number fixes the
        parameter. See `ScipyLikelihood`.
        """
        from .scipy_wrapper import ScipyLikelihood  # which builds on this module

        return ScipyLikelihood(dist, links, name)


def _of_distribution(method: str, leading: int) -> Any:
    """A method of the frozen distribution; `leading` arguments come before the latents."""

    def call(self: Likelihood, *args: Any, **kw: Any) -> Array:
        with np.errstate(all="ignore"):
            frozen = self.distribution(*args[leading:], **kw)
            value = np.asarray(getattr(frozen, method)(*args[:leading]), dtype=float)
        return value if leading else np.where(np.isnan(value), np.inf, value)  # no such moment

    call.__doc__ = f"`{method}` of the distribution."
    return call


def _draw(
    self: Likelihood, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Any
) -> Array:
    """Draws from the distribution: the broadcast shape, or (size, *shape)."""
    shape = self._draw_shape(size, latents, kw)
    draws = self.distribution(*latents, **kw).rvs(shape, random_state=rng)
    return np.asarray(draws, dtype=float)


_FROM_DISTRIBUTION = {
    "conditional_mean": _of_distribution("mean", 0),
    "conditional_variance": _of_distribution("var", 0),
    "cdf": _of_distribution("cdf", 1),
    "ppf": _of_distribution("ppf", 1),
    "log_survival": _of_distribution("logsf", 1),
    "log_cdf": _of_distribution("logcdf", 1),
    "sample": _draw,
}
_RESERVED = frozenset(dir(Parameterized("reserved"))) | {"weights", "nodes", "y", "means"}


def _swap(latents: Arrays, j: int, value: Array) -> Arrays:
    return (*latents[:j], value, *latents[j + 1 :])


def _rows(kw: dict[str, Any], rows: slice | Array) -> dict[str, Any]:
    """Keywords with the per-row arrays among them restricted to `rows`."""
    return {key: value[rows] if np.ndim(value) else value for key, value in kw.items()}
