"""The contract of a likelihood p(y | f_1, …, f_b; θ): all that it may declare, with defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from paramz import Parameterized

from ..data.names import meant
from ..data.types import Keywords, ScipyFamily, Value
from ..errors import ArgumentError, InputError
from ..expectations import special
from ..expectations.defaults import Array, Arrays, Averages, Expected, merged, packed
from ..linalg import Booleans
from ..parameters.domains import make_parameter
from ..parameters.parts import Part
from ..parameters.priors import Prior
from . import from_density
from .declarations import check_declarations, check_parameter_names, no_density
from .differences import difference, differences
from .observation import of_event
from .support import Support, SupportLike, as_support

__all__ = [
    "Array",
    "Arrays",
    "Averages",
    "Distribution",
    "Likelihood",
    "makers",
    "merged",
    "packed",
]

_RESERVED = frozenset(dir(Parameterized("reserved"))) | {"weights", "nodes", "y", "means"}


class Distribution(Protocol):
    """What the library uses of a frozen distribution of scipy.stats."""

    mean: Callable[[], Array]
    var: Callable[[], Array]
    support: Callable[[], tuple[float, float]]
    cdf: Callable[[Array], Array]
    ppf: Callable[[Array], Array]
    logpdf: Callable[[Array], Array]
    logsf: Callable[[Array], Array]
    logcdf: Callable[[Array], Array]
    rvs: Callable[..., Array]


class Likelihood(Part, Expected):
    """A noise model p(y | f_1, …, f_b; θ) that factorises over rows. Only `log_density` is needed.

    Latents arrive as separate arrays that broadcast against y (n,): on a quadrature grid f has
    shape (h, 1, n) and g (1, h, n). Parameters θ and metadata arrive by keyword, so methods are
    pure: they read nothing from `self` that an optimiser changes. In every signature, kw =
    parameters and metadata. ::

        class HetLogistic(Likelihood):
            latents = ("location", "log_scale")

            def log_density(self, y, f, g):
                z = np.abs(y - f) * np.exp(-g)
                return -z - g - 2 * np.log1p(np.exp(-z))

    The sections below list all that a likelihood may declare. What a class inherits from another
    likelihood must agree with its density; `testing.check_likelihood` finds where it does not.

    Required
    --------
    latents: names of the b latent functions (may be set on the instance before `super().__init__`).
    log_density: log p(y | f_1, …, f_b; θ).

    Beside the latents
    ------------------
    parameters: start values of own constants, {"nu": 4.0}; they become leaves `lik.nu` and reach
        every method as keyword floats.
    domains: {"nu": "above_one"}; "positive" where nothing is said, "real" for any number.
    keyword-only arguments of `log_density` that are not parameters are metadata: one value per
        row, (n,); those with a default are optional.
    positive_metadata, unbounded_metadata: names of metadata that must be positive; that may be
        infinite.

    What makes a fit faster or more exact
    -------------------------------------
    dlog_density, dlog_density_dtheta, d2log_density: derivatives; else differences.
    expected_log_density: E[log p] under q with its gradients; else quadrature.
    exact_expectation: True if it needs no nodes. quadrature_latent: the one latent it has nodes in.
    joint_expected_log_density: the same where q has correlations between latents; else quadrature.
    node_limits, node_score, joint_node_score: how many nodes a row needs; else trials, or 20.
    coupled: False if q needs no correlations between latents, True if it does.

    What makes predictions faster or more exact
    -------------------------------------------
    distribution: p(y | latents) as scipy.stats has it, from which follow those of the next line.
    conditional_mean, conditional_variance, cdf, ppf, sample: else integrals of the density.
    log_survival, log_hazard, log_cdf: of event times; with `log_survival`, y is one (`Survival`).
    normal_scale_mixture, normal_in_first: y is normal in the first latent, which is then
        integrated exactly.
    log_tails, quantile_slopes: logarithms of cdf and 1 − cdf, and how y moves with the latents at
        a fixed probability, for targets that are rounded; else from the cdf, and differences.
    infinite_mean: True if E[y] is infinite for every Gaussian q.
    slow_ppf: True if `ppf` searches for each quantile: bands of centiles then have fewer nodes.

    What it tells about its targets
    -------------------------------
    support: "real", "positive", "unit", "counts", "binary" or "categories"; the two ends of an
        interval, such as (-np.pi, np.pi), both of which are targets; or a `Support`.
    num_categories: the number of classes of "categories".
    ordered_classes: True if the classes are in an order, which labels must then tell.
    atoms: values with a probability of their own, beside the density of a continuous support; at
        them `log_density` is the logarithm of that probability.
    check_targets, impossible: which targets are refused, alone and with their metadata.
    natural_parameters: the latents as quantities that a user knows.

    Where a fit starts
    ------------------
    initial_latents, initial_parameters: from the data.
    initial_functions: values of the latents at the rows, where no constants are a good start.
    symmetric: True if the latents play the same role, so that they must start differently.
    trends: True if every latent may follow a linear trend by default, as logits of classes do; else
        only the first does, and others, which often tell how widely targets scatter, do not.
    default_priors: {"nu": priors.Gamma(2.0, 0.1)}, priors of own constants in models with default
        priors.
    """

    latents: tuple[str, ...] = ()
    domains: ClassVar[dict[str, str]] = {}
    positive_metadata: tuple[str, ...] = ()
    unbounded_metadata: tuple[str, ...] = ()
    infinite_mean: bool = False
    slow_ppf: bool = False
    support: SupportLike = "real"
    atoms: tuple[float, ...] = ()
    symmetric: bool = False
    coupled: bool | None = None
    trends: bool = False
    ordered_classes: bool = False
    class_names: tuple[str, ...] | None = None
    """Labels of the classes by code. A model sets them on its copy where Y has labels."""
    default_priors: Mapping[str, Prior] = {}
    _declared: ClassVar[dict[str, float]] = {}
    _domains: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        body = dict(cls.__dict__)
        check_declarations(cls, body)
        # paramz keeps the linked leaves under the name `parameters`: the declaration is taken away.
        own = cls.__dict__.get("parameters", {})
        if "parameters" in cls.__dict__:
            del cls.parameters
        cls._declared = {**cls._declared, **own}
        cls._domains = {**cls._domains, **cls.__dict__.get("domains", {})}

    def __init__(self, name: str | None = None, **parameters: float) -> None:
        if name is not None and not isinstance(name, str):
            raise InputError(
                f"{type(self).__name__}: the first argument is its name, a string; got {name!r}. "
                "Give parameters by keyword."
            )
        super().__init__(name=name or type(self).__name__)
        declared, domains = self._declarations()
        unknown = sorted(set(parameters) - set(declared))
        if unknown:
            own = type(self).__name__
            hints = [(name, meant(name, declared)) for name in unknown]
            near = "".join(f" For {name} write {found}=." for name, found in hints if found)
            raise ArgumentError(
                f"{own} has no parameter {', '.join(unknown)}; "
                f"it has {', '.join(declared) or 'none'}.{near}"
            )
        self._check_names(declared)
        owner = type(self).__name__
        check_parameter_names(owner, "domains", domains, declared)
        for key, start in {**declared, **parameters}.items():
            self.link_parameter(make_parameter(key, start, domains.get(key, "positive")))

    # ---- the density and its derivatives ---------------------------------------------------------

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The log-density log p(y | f_1, …, f_b; θ), broadcast shape of y and the latents."""
        raise NotImplementedError(f"{type(self).__name__} must define log_density(y, *latents).")

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of the log-density in each latent, ∂ log p / ∂f_j.

        They are b arrays of the shape of `log_density`. Default: finite differences.
        """
        return differences(lambda *f: self.log_density(y, *f, **kw), latents, 1e-4)

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of the log-density in each parameter, ∂ log p / ∂θ_k.

        They are p arrays in the order of the parameters. Default: finite differences.
        """
        return tuple(
            difference(
                lambda t, key=key: self.log_density(y, *latents, **{**kw, key: t}),
                kw[key],
                1e-4 * (np.abs(kw[key]) if self._domain(key) == "positive" else 1.0),
            )
            for key in self.parameter_keys
        )

    def d2log_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Second slopes ∂² log p / ∂f_j², b arrays. Default: differences of `dlog_density`."""
        return differences(lambda *f: self.dlog_density(y, *f, **kw), latents, 1e-3, True)

    # ---- the distribution of y given the latents -------------------------------------------------

    def distribution(self, *latents: Array, **kw: Value) -> Distribution | None:
        """The distribution p(y | latents) as scipy.stats has it, frozen. Default: None.

        The defaults of mean, variance, cdf, ppf and sample (for a `Survival` also those of
        log_survival, log_hazard and log_cdf) are its own.
        """
        return None

    def conditional_mean(self, *latents: Array, **kw: Value) -> Array:
        """The mean of a target given the latents, E[y | latents]; inf where it does not exist.

        Broadcast shape.

        Default: that of `distribution`, else an integral of the density.
        """
        with np.errstate(all="ignore"):
            if (law := self.distribution(*latents, **kw)) is not None:
                return _where_it_exists(law.mean())
        return from_density.tabulate(self, latents, kw).moments()[0]

    def conditional_variance(self, *latents: Array, **kw: Value) -> Array:
        """The variance of a target given the latents; inf where it does not exist.

        Broadcast shape.

        Default: that of `distribution`, else an integral of the density.
        """
        with np.errstate(all="ignore"):
            if (law := self.distribution(*latents, **kw)) is not None:
                return _where_it_exists(law.var())
        return from_density.tabulate(self, latents, kw).moments()[1]

    def cdf(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The cdf of a target given the latents, P(Y ≤ y | latents), broadcast shape.

        Default: that of `distribution`, else an integral or sum of the density.
        """
        with np.errstate(all="ignore"):
            if (law := self.distribution(*latents, **kw)) is not None:
                return np.asarray(law.cdf(y), dtype=float)
        return from_density.tabulate(self, latents, kw).cdf(y)

    def ppf(self, q: Array, *latents: Array, **kw: Value) -> Array:
        """The quantile of a target given the latents: the smallest y with cdf(y) ≥ q.

        Broadcast shape.

        Default: that of `distribution`, else the inverse of the numeric cdf.
        """
        with np.errstate(all="ignore"):
            if (law := self.distribution(*latents, **kw)) is not None:
                return np.asarray(law.ppf(q), dtype=float)
        return from_density.tabulate(self, latents, kw).ppf(q)

    def sample(
        self, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Value
    ) -> Array:
        """Draws of targets given the latents, from p(y | latents).

        They have the broadcast shape, or (size, *shape).

        Default: those of `distribution`, else quantiles of uniform numbers.
        """
        shape = self._draw_shape(size, latents, kw)
        with np.errstate(all="ignore"):  # a draw that overflows is infinite
            if (law := self.distribution(*latents, **kw)) is None:
                return self._quantiles_at_random(rng, *latents, size=size, **kw)
            try:
                draws = law.rvs(shape, random_state=rng)
            except ValueError:  # numpy draws no counts that a 64-bit integer cannot hold
                draws = self.ppf(rng.uniform(size=shape), *latents, **kw)
        return self._inside(_where_it_exists(draws))

    def _quantiles_at_random(
        self, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Value
    ) -> Array:
        """Draws of targets as quantiles (`ppf`) of uniform random numbers."""
        shape = self._draw_shape(size, latents, kw)
        return self._inside(self.ppf(rng.uniform(size=shape), *latents, **kw))

    def _inside(self, draws: Array) -> Array:
        """Draws of targets; those rounded to an end that is no target become the next number."""
        support = self.target_support
        for end, inwards in zip(support.ends, (np.inf, -np.inf), strict=True):
            if support.continuous and np.isfinite(end) and not support.holds(np.array(end)):
                draws = np.where(draws == end, np.nextafter(end, inwards), draws)
        return draws

    @staticmethod
    def _draw_shape(size: int | None, latents: Iterable[Array], kw: Keywords) -> tuple[int, ...]:
        """Shape of draws of targets: that of latents and metadata together, preceded by `size`."""
        arrays = [*latents, *(value for value in kw.values() if value is not None)]
        shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
        return shape if size is None else (size, *shape)

    def log_survival(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """log P(Y > t | latents), broadcast shape. A likelihood that has it has event times."""
        with np.errstate(divide="ignore"):
            return np.log1p(-self.cdf(t, *latents, **kw))

    def log_cdf(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """The logarithm of a likelihood's cdf, log P(Y ≤ t | latents), broadcast shape."""
        with np.errstate(divide="ignore"):
            return np.log(self.cdf(t, *latents, **kw))

    def log_hazard(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """A likelihood's log-hazard, log p(t | latents) − log P(Y > t | latents)."""
        log_p = self.log_density(t, *latents, **of_event(kw))
        return special.minus(log_p, self.log_survival(t, *latents, **kw))

    def log_tails(self, y: Array, *latents: Array, **kw: Value) -> tuple[Array, Array]:
        """Both log-tails of a target given the latents: log P(Y ≤ y) and log P(Y > y).

        Each is right in its own tail, where the other rounds to 0.

        Default: those of `distribution` or of an event time, else logarithms of cdf and 1 − cdf.
        """
        with np.errstate(all="ignore"):
            if not self.event_times and (law := self.distribution(*latents, **kw)) is not None:
                return np.asarray(law.logcdf(y)), np.asarray(law.logsf(y))
        return self.log_cdf(y, *latents, **kw), self.log_survival(y, *latents, **kw)

    def quantile_slopes(self, y: Array, *latents: Array, **kw: Value) -> Arrays | None:
        """How a quantile y moves with each latent, ∂y/∂f_j at a fixed F(y | latents).

        They are −(∂F/∂f_j)/p(y): b arrays that broadcast.

        Default: None, they are not known.
        """
        return None

    def normal_scale_mixture(self, **kw: Value) -> float | None:
        """The number a if y | f, g ~ N(f, e^g/λ), λ ~ Gamma(a, a); infinity for a normal y.

        Default: None, which means that y has no such form. Latents are f and g; f is then
        integrated exactly.
        """
        return None

    def normal_in_first(self, *rest: Array, **kw: Value) -> tuple[Array, Array] | None:
        """(a, s) if y is normal in the first latent: y | f, rest ~ N(a f, s), f the first.

        a and s have the shape of the rest.

        Default: None, which means that y has no such form. Otherwise predictions integrate f
        exactly.
        """
        return None

    # ---- what is given, for those who ask --------------------------------------------------------

    @property
    def has_distribution(self) -> bool:
        """Whether a likelihood gives `distribution`, its distribution of scipy.stats."""
        return type(self).distribution is not Likelihood.distribution

    @property
    def has_moments(self) -> bool:
        """Whether a likelihood gives both moments; else they are integrals over many targets."""
        mean = type(self).conditional_mean is not Likelihood.conditional_mean
        variance = type(self).conditional_variance is not Likelihood.conditional_variance
        return (mean and variance) or self.has_distribution

    @property
    def has_cdf(self) -> bool:
        """Whether a likelihood gives its cdf; else each value is an integral over many targets."""
        return type(self).cdf is not Likelihood.cdf or self.has_distribution

    @property
    def has_draws(self) -> bool:
        """Whether a likelihood gives draws or quantiles; else each is the root of an integral."""
        given = type(self).sample is not Likelihood.sample or type(self).ppf is not Likelihood.ppf
        return given or self.has_distribution

    @property
    def event_times(self) -> bool:
        """Whether targets of a likelihood are times of an event: it gives `log_survival`."""
        return type(self).log_survival is not Likelihood.log_survival

    # ---- targets ---------------------------------------------------------------------------------

    @property
    def target_support(self) -> Support:
        """The support of a likelihood as an object: what its targets may be."""
        return as_support(self.support, self.num_categories, type(self).__name__)

    @cached_property
    def num_categories(self) -> int:
        """Number of classes of a "categories" likelihood. Default: one per latent."""
        return len(self.latents)

    def check_targets(self, y: Array) -> None:
        """Raise InputError, with count and first index, where y is outside the support."""
        self.target_support.check(y, type(self).__name__)

    def impossible(self, y: Array, **metadata: Array) -> tuple[Booleans, str]:
        """Rows (n,) of booleans whose targets contradict their metadata, and how; default: none.

        The words continue a message that begins "3 of 20 rows": "have more successes than trials".
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
            text = f"{found.size} of {len(y)} rows {how}; the first is row {i}: {row}."
            raise InputError(text, rows=found[:1])

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """The latents mapped to quantities a user knows (rate, scale, …). Default: the latents."""
        return dict(zip(self.latents, (np.asarray(f) for f in latents), strict=True))

    # ---- starts ----------------------------------------------------------------------------------

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """Constants (b,) to start latents from. Default: maximum likelihood of constants."""
        return from_density.constant_fit(self, y, kw)

    def initial_parameters(self, y: Array, **kw: Value) -> dict[str, float]:
        """Starts from the data of parameters that the user left open. Default: none."""
        return {}

    def initial_functions(self, X: Array, y: Array, **kw: Value) -> Array | None:
        """Values (b, n) of the latents at the rows, from which a fit is tried too. Default: None.

        This is for likelihoods whose bound has local optima that a start from constants does not
        avoid.

        X : (n, D) inputs that are numbers, centred and in standard deviations; D may be 0.
        """
        return None

    # ---- likelihoods made from this one, and from scipy.stats ------------------------------------

    def with_constant(self, latent: str | int, value: float | None = None) -> Likelihood:
        """A likelihood in which one latent function is a constant parameter (real) instead.

        `HetGaussian().with_constant("log_variance")` has the latent `mean` and the parameter
        `log_variance`. value: where it starts; None lets the model choose from the data.
        """
        return makers.constant(self, latent, value)

    @staticmethod
    def from_scipy(
        dist: ScipyFamily | str, name: str | None = None, **links: str | float
    ) -> Likelihood:
        """The likelihood of a `scipy.stats` distribution, its parameters by links of latents.

        `Likelihood.from_scipy(scipy.stats.norm, loc="identity", scale="exp")` has the latents `loc`
        and `log_scale`. A link is "identity", "exp", "logistic" or "softplus"; a number fixes the
        parameter. See `ScipyLikelihood`.
        """
        if isinstance(name, dict):
            given = ", ".join(f"{key}={value!r}" for key, value in name.items())
            raise InputError(
                f"links are given by keyword: from_scipy(dist, {given}), where a link is "
                "'identity', 'exp', 'logistic' or 'softplus', or a number that fixes the parameter."
            )
        return makers.scipy(dist, links, name)

    # ---- names of latents, parameters and metadata -----------------------------------------------

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        """Start values and domains of a likelihood's parameters; a wrapper gives its own."""
        return self._declared, self._domains

    def _check_names(self, declared: Iterable[str]) -> None:
        if type(self).log_density is Likelihood.log_density:
            raise no_density(type(self))
        if isinstance(self.latents, str) or not self.latents:
            raise InputError(
                f"{type(self).__name__}.latents must be a non-empty tuple of names, for example "
                f"latents = ('location', 'log_scale'); got {self.latents!r}."
            )
        self.latents = tuple(self.latents)
        names = [*self.latents, *declared, *self._metadata()]
        for name in names:
            if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
                raise InputError(
                    f"{name!r} cannot be a name: use letters from a to z, digits and underscores."
                )
            if name in _RESERVED or (name in declared and hasattr(type(self), name)):
                raise InputError(f"The name {name!r} is taken by the library: choose another.")
        if len(set(names)) < len(names):
            raise InputError(
                f"Latents, parameters and metadata share a name: {names}. Make them distinct."
            )

    def _metadata(self) -> dict[str, bool]:
        """Names of the metadata that a likelihood takes, and whether each is required."""
        signature = inspect.signature(self.log_density)
        return {
            name: p.default is p.empty
            for name, p in signature.parameters.items()
            if p.kind is p.KEYWORD_ONLY and name not in self._declared
        }

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Names of the per-row values that a likelihood takes beside y, latents, parameters."""
        return tuple(self._metadata())

    def check_metadata(self, names: Iterable[str]) -> None:
        """Raise InputError if a name of Y_metadata is unknown, or a required one is missing."""
        known, names = self._metadata(), list(names)
        for name in names:
            if name not in known:
                raise InputError(
                    f"Y_metadata has {name!r}, which {type(self).__name__} does not use; "
                    f"it takes {', '.join([*known, 'weights'])}.{_meant_by(name, known)}"
                )
        missing = [name for name, required in known.items() if required and name not in names]
        if missing:
            raise InputError(
                f"{type(self).__name__} needs Y_metadata with {', '.join(missing)}, one per row."
            )

    @property
    def parameter_keys(self) -> tuple[str, ...]:
        """Names of a likelihood's own parameters, in the order of `param_array`."""
        return tuple(self._declarations()[0])

    def parameter_values(self) -> dict[str, float]:
        """Current values of a likelihood's parameters as plain floats, keywords of its methods."""
        return {key: float(getattr(self, key).values[0]) for key in self.parameter_keys}

    def _domain(self, key: str) -> str:
        return self._declarations()[1].get(key, "positive")


def _meant_by(name: str, known: Iterable[str]) -> str:
    """Advice on Y_metadata that other libraries have; no words where the name is not known."""
    for own, (others, words) in OTHER_METADATA.items():
        if own in known and name.lower() in others:
            return f" {words.format(name=name)}"
    return ""


OTHER_METADATA = {
    "censored": (
        ("event", "events", "event_observed", "observed", "status", "dead", "died", "death"),
        "Here 1 is a row without its event: {{'censored': 1 - {name}}} where {name} is 1 for one "
        "that had it.",
    ),
    "exposure": (("offset", "log_exposure"), "Of a log-offset give {{'exposure': exp({name})}}."),
    "trials": (("n", "size", "count", "num_trials"), "Give {{'trials': {name}}}."),
}
"""By our name of metadata: the names that other libraries give them, and what a user should do."""


def _where_it_exists(value: Array) -> Array:
    """A moment or draws as floats, infinite where scipy.stats gives NaN: they do not exist."""
    value = np.asarray(value, dtype=float)
    return np.where(np.isnan(value), np.inf, value)


class Makers:
    """The wrappers that `Likelihood` calls, though they build on it: each enters itself here."""

    constant: Callable[[Likelihood, str | int, float | None], Likelihood]
    scipy: Callable[[ScipyFamily | str, dict[str, str | float], str | None], Likelihood]


makers = Makers()
