"""Likelihoods around a base likelihood; above all with a constant in place of a latent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.types import Keywords, Value
from ...errors import InputError
from ...expectations.forms import OneForm
from ...linalg import Booleans, Indices
from ..contract import Array, Arrays, Averages, Likelihood, makers


def _of_base(
    pick: Callable[[Any], Callable[..., Any]], leading: int = 0, per_latent: bool = False
) -> Any:
    """The method of a `ConstantLatent` that `pick` takes from the base likelihood.

    `leading` arguments come before the latents.

    per_latent: it returns one array per latent, of which that of the constant is dropped.
    """

    def method(self: ConstantLatent, *args: Any, **kw: Value) -> Any:
        latents, kw = self._full(args[leading:], kw)
        result = pick(self.base)(*args[:leading], *latents, **kw)
        return self._without(tuple(result)) if per_latent else result

    method.__name__, method.__doc__ = pick(Likelihood).__name__, pick(Likelihood).__doc__
    return method


class Wrapper(Likelihood):
    """A likelihood around a `base`: its parameters, at their present values, and its metadata."""

    base: Likelihood

    def _wrap(self, base: Likelihood) -> None:
        if not isinstance(base, Likelihood):
            raise InputError(
                f"{type(self).__name__} needs a likelihood object; got {type(base).__name__}."
            )
        self.base, self.support, self.atoms = base, base.support, base.atoms
        self.num_categories, self.coupled = base.num_categories, base.coupled
        self.ordered_classes = base.ordered_classes
        self.default_priors = base.default_priors
        self.positive_metadata = base.positive_metadata
        self.unbounded_metadata = base.unbounded_metadata

    def _given(self) -> tuple[str, ...]:
        # The names of other classes tell what their base is.
        told = "base" in inspect.signature(type(self).__init__).parameters
        return (f"{type(self.base).__name__}()",) if told else ()

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        declared, domains = self.base._declarations()
        return {**declared, **self.base.parameter_values()}, domains

    def _metadata(self) -> dict[str, bool]:
        return self.base._metadata()

    @property
    def has_moments(self) -> bool:
        """Whether the likelihood that is wrapped gives moments."""
        return self.base.has_moments

    @property
    def has_cdf(self) -> bool:
        """Whether the likelihood that is wrapped gives a cdf."""
        return self.base.has_cdf

    @property
    def has_draws(self) -> bool:
        """Whether the likelihood that is wrapped gives draws or quantiles."""
        return self.base.has_draws

    @property
    def event_times(self) -> bool:
        """Whether targets of the likelihood that is wrapped are times of an event."""
        return self.base.event_times

    def check_targets(self, y: Array) -> None:
        """Refuse the targets that the likelihood which is wrapped refuses."""
        self.base.check_targets(y)

    def impossible(self, y: Array, **metadata: Array) -> tuple[Booleans, str]:
        """The rows that the likelihood which is wrapped finds impossible, and how."""
        return self.base.impossible(y, **metadata)


class ConstantLatent(OneForm, Wrapper):
    """p(y | f; θ) = p_base(y | f, g = c; θ): latent g of the base is a constant parameter.

    The parameter is c itself (real, named as the latent was), or, with `positive="scale"`, e^c
    under that name, for latents that are logarithms. Everything else is the base's, closed-form
    expectations included: they are called with zero variance for the constant, and their
    derivative in its mean is the derivative in the parameter.

    Parameters
    ----------
    base: a likelihood with two or more latents; its parameter values become the start here.
    latent: name or index of the latent.
    value: start of the parameter; None: 0 (or 1), or from the data through `initial_parameters`.
    positive: name of the positive parameter e^c.
    """

    def __init__(
        self,
        base: Likelihood,
        latent: str | int,
        value: float | None = None,
        *,
        positive: str | None = None,
        name: str | None = None,
        **parameters: float,
    ) -> None:
        index = _latent_index(base, latent)
        self._wrap(base)
        self._index, self._open = index, value is None
        self._positive, self.trends = positive is not None, base.trends
        self._key = positive or base.latents[index]
        self._start = float(self._positive) if value is None else value
        self.latents = base.latents[:index] + base.latents[index + 1 :]
        in_constant = base.quadrature_latent == base.latents[index]
        self.exact_expectation = base.exact_expectation or in_constant
        super().__init__(name, **parameters)

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        declared, domains = super()._declarations()
        domain = "positive" if self._positive else "real"
        return {**declared, self._key: self._start}, {**domains, self._key: domain}

    def _full(self, latents: Arrays, kw: Keywords) -> tuple[Arrays, dict[str, Any]]:
        """Latents and keywords as the base wants them, the constant among the latents."""
        kw = dict(kw)
        constant: Any = np.float64(kw.pop(self._key))
        constant = np.log(constant) if self._positive else constant
        return (*latents[: self._index], constant, *latents[self._index :]), kw

    def _slope(self, kw: Keywords) -> Value:
        """The derivative of the constant latent in its parameter, which may be e^c."""
        return 1.0 / kw[self._key] if self._positive else 1.0

    def _without(self, arrays: Arrays) -> Arrays:
        return arrays[: self._index] + arrays[self._index + 1 :]

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes in the parameters of the base, then the one in the constant latent."""
        full, base_kw = self._full(latents, kw)
        slope = self.base.dlog_density(y, *full, **base_kw)[self._index] * self._slope(kw)
        return (*self.base.dlog_density_dtheta(y, *full, **base_kw), slope)

    def _averages(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] with a constant latent: the base's, at zero variance of the constant."""
        if not self.base.has_form(variances):
            # Quadrature here has one dimension fewer than the base's.
            return self._quadrature(y, means, variances, nodes=nodes, **kw)
        if self.exact_expectation:
            nodes = 1
        means, variances, base_kw = self._moments(means, variances, kw)
        value, dmeans, dvariances, dtheta = self.base.expectation(
            y, means, variances, nodes, **base_kw
        )
        slope = dmeans[:, self._index] * self._slope(kw)
        dtheta = np.concatenate([dtheta.T, slope[None]]).T
        keep = [j for j in range(dmeans.shape[1]) if j != self._index]
        dvariances = dvariances.T[keep] if dvariances.ndim == 2 else dvariances.T[keep][:, keep]
        return value, dmeans.T[keep].T, dvariances.T, dtheta

    def is_exact(self, variances: Array) -> bool:
        """Whether E[log p] has no nodes: the base has a form, with nodes in the constant alone."""
        form = variances.shape[-1] == 1 or self.base.has_form(variances)
        return self.exact_expectation and form

    def _levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """Quadrature nodes that the base needs where one latent is constant, without variance."""
        return self.base._levels_of(variances)(y, *self._moments(means, variances, kw))

    _joint_levels = _levels

    @property
    def tries_nodes(self) -> bool:
        """Whether the base of a constant latent tries several numbers of nodes."""
        return self.base.tries_nodes

    def _moments(
        self, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Array, Array, dict[str, Any]]:
        """Means and variances of the base's latents; the constant has no variance."""
        full, base_kw = self._full(tuple(means.T), kw)
        means = np.stack(np.broadcast_arrays(*full))  # (b, n)
        for axis in range(variances.ndim - 1):
            variances = np.insert(variances.T, self._index, 0.0, axis=axis).T
        return means.T, variances, base_kw

    log_density = _of_base(lambda base: base.log_density, 1)
    dlog_density = _of_base(lambda base: base.dlog_density, 1, per_latent=True)
    d2log_density = _of_base(lambda base: base.d2log_density, 1, per_latent=True)
    conditional_mean = _of_base(lambda base: base.conditional_mean)
    conditional_variance = _of_base(lambda base: base.conditional_variance)
    cdf = _of_base(lambda base: base.cdf, 1)
    ppf = _of_base(lambda base: base.ppf, 1)
    sample = _of_base(lambda base: base.sample, 1)
    log_survival = _of_base(lambda base: base.log_survival, 1)
    log_cdf = _of_base(lambda base: base.log_cdf, 1)
    log_hazard = _of_base(lambda base: base.log_hazard, 1)
    log_tails = _of_base(lambda base: base.log_tails, 1)

    def quantile_slopes(self, y: Array, *latents: Array, **kw: Value) -> Arrays | None:
        """How a quantile moves with the latents of the base, without the constant one."""
        full, base_kw = self._full(latents, kw)
        slopes = self.base.quantile_slopes(y, *full, **base_kw)
        return None if slopes is None else self._without(tuple(slopes))

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """The base's natural parameters, the constant among them, of one common shape."""
        latents, kw = self._full(latents, kw)
        named = self.base.natural_parameters(*latents, **kw)
        return dict(zip(named, np.broadcast_arrays(*named.values()), strict=True))

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """The start that the base gives its latents, without the constant one."""
        return np.delete(self.base.initial_latents(y, **self._full((), kw)[1]), self._index)

    def initial_functions(self, X: Array, y: Array, **kw: Value) -> Array | None:
        """Functions from which the base starts its latents, without the constant one."""
        found = self.base.initial_functions(X, y, **self._full((), kw)[1])
        return None if found is None else np.delete(found, self._index, axis=0)

    def initial_parameters(self, y: Array, **kw: Value) -> dict[str, float]:
        """Start of a constant latent from the base's `initial_latents`, if no value was given."""
        if not self._open:
            return {}
        start = float(self.base.initial_latents(y, **self._full((), kw)[1])[self._index])
        return {self._key: float(np.exp(start)) if self._positive else start}


makers.constant = ConstantLatent


def _latent_index(base: Likelihood, latent: str | int) -> int:
    names = base.latents
    if len(names) < 2:
        raise InputError(f"{type(base).__name__} has one latent only: it cannot become a constant.")
    if latent in names:
        return names.index(latent)
    if isinstance(latent, int | np.integer) and 0 <= latent < len(names):
        return int(latent)
    raise InputError(f"{latent!r} is no latent of {type(base).__name__}, which has {names}.")
