"""A probe for tests of a likelihood: inputs to call it at, and checks of what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from paramz.transformations import Logistic

from ..data.types import Data, Keywords
from ..likelihoods import from_density
from ..likelihoods.contract import Likelihood
from ..likelihoods.density_check import array_fault
from ..likelihoods.support import Support
from ..likelihoods.wrappers.atoms import WithAtoms
from ..likelihoods.wrappers.rounded import ROUNDING
from ..linalg import Array
from ..parameters.domains import DOMAINS
from .report import Report

ROWS = 8  # A likelihood is tested at so many rows, each with its own latents and metadata.
STEEP, MORE_PANELS = 0.01, (8 * from_density.PANELS, 64 * from_density.PANELS)
"""An integral that is off by more than this part of the tolerance is taken again, more finely: a
right density may change steeply, close to an end of its own."""
NOT_ROUNDED = 1e-300
"""A target that is rounded to this width is as good as not rounded."""


class Probe:
    """A likelihood under test, with targets, latents and keywords to call it at, and the report."""

    def __init__(
        self,
        likelihood: Likelihood,
        y: Array | None,
        metadata: Mapping[str, Data],
        rng: np.random.Generator,
        report: Report,
    ) -> None:
        self.lik, self.rng, self.report = likelihood, rng, report
        self.where = ""  # Faults end with this: at which other values of parameters they are seen.
        self.b, self.support = len(likelihood.latents), likelihood.target_support
        self.names, self.keys = likelihood.latents, likelihood.parameter_keys
        self.y = _targets(likelihood, rng) if y is None else np.array(y, dtype=np.float64).ravel()
        self.n = len(self.y)
        self.metadata = {
            key: np.broadcast_to(np.asarray(value, dtype=float).ravel(), self.n).copy()
            for key, value in metadata.items()
        }
        self.kw: Keywords = {**likelihood.parameter_values(), **self.metadata}
        centre = np.zeros(self.b)
        if y is not None:
            start = self.call("initial_latents", self.y)
            usable = isinstance(start, np.ndarray) and start.shape == (self.b,)
            centre = start if usable and np.all(np.isfinite(start)) else centre
        self.latents = tuple(centre[:, None] + 0.6 * rng.standard_normal((self.b, self.n)))
        if self.support.continuous and not report.faults:
            self._keep_inside()

    def moved(self) -> Probe | None:
        """A probe of the same likelihood at other values of its parameters that are not fixed.

        None if there are no such parameters.
        """
        values = {key: _moved(self.lik, key) for key in self.keys}
        values = {key: value for key, value in values.items() if value != self.kw[key]}
        if not values:
            return None
        other = copy(self)
        other.kw = {**self.kw, **values}
        vars(other).pop("_table", None)
        other.where = f", at {', '.join(f'{key} = {value:.4g}' for key, value in values.items())}"
        if other.support.continuous:
            other._keep_inside()
        return other

    def _keep_inside(self) -> None:
        """Move targets that lie beyond ends of the tested density which move with the latents."""
        value = self.call("log_density", self.y, *self.latents)
        if array_fault(value, (self.n,)) is not None or np.isfinite(value).all():
            return
        table = self.table()
        cdf, ends = table.cdf(self.y), self._support_of(table).ends
        outside = np.isneginf(value) & (np.minimum(cdf, 1.0 - cdf) < 1e-12)
        for end, share in zip(ends, (cdf, 1.0 - cdf), strict=True):
            if np.isfinite(end).all() and np.ptp(end) < 1e-9:  # a fixed end: `support` is wrong
                outside &= share > 0.5
        levels = np.random.default_rng(2).uniform(0.2, 0.8, self.n)
        self.y = np.where(outside, table.ppf(levels), self.y)

    def call(
        self, method: str, *args: object, kw: Mapping[str, object] | None = None, **more: object
    ) -> Any:
        """What a tested method returns on copies of the inputs; None and a fault if it raises."""
        given: dict[str, object] = {**(self.kw if kw is None else kw), **more}
        kept = [np.copy(a) for a in (*args, *given.values()) if isinstance(a, np.ndarray)]
        args = tuple(np.copy(a, order="K") if isinstance(a, np.ndarray) else a for a in args)
        given = {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
        try:
            with np.errstate(all="ignore"):
                result = getattr(self.lik, method)(*args, **given)
        except Exception as error:
            shapes = ", ".join(str(np.shape(a)) for a in args if isinstance(a, np.ndarray))
            self.fault(
                method, f"raised {type(error).__name__}: {error} (arguments of shapes {shapes})"
            )
            return None
        after = [a for a in (*args, *given.values()) if isinstance(a, np.ndarray)]
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(kept, after, strict=True)):
            self.fault(method, "changes its input arrays in place; work on new arrays")
        return result

    def fault(self, method: str, message: str) -> None:
        """Note a fault of the tested likelihood once."""
        message += self.where
        if f"{method}: {message}" not in self.report.faults:
            self.report.fault(method, message)

    def array(
        self, method: str, value: object, shape: tuple[int, ...], exact: bool = True
    ) -> Array | None:
        """What a tested method returned if float64 of the shape (or broadcast to it), else None."""
        words = array_fault(value, shape, exact)
        if words is None:
            return np.broadcast_to(np.asarray(value), shape)
        if not self._raised(method, value):
            self.fault(method, words)
        return None

    def arrays(
        self, method: str, value: object, names: tuple[str, ...], shape: tuple[int, ...]
    ) -> list[Array] | None:
        """The parts of a tested method's tuple, one for each name, broadcast to the shape."""
        if self._raised(method, value):
            return None
        if not isinstance(value, tuple | list) or len(value) != len(names):
            count = len(value) if isinstance(value, tuple | list) else type(value).__name__
            self.fault(method, f"must return {len(names)} arrays, for {names}; got {count}")
            return None
        parts = [self.array(method, part, shape, exact=False) for part in value]
        found = [part for part in parts if part is not None]
        return found if len(found) == len(parts) else None

    def _raised(self, method: str, value: object) -> bool:
        """Whether a result is missing because the tested method raised, which is told already."""
        faults = self.report.faults
        return value is None and any(f.startswith(f"{method}: raised ") for f in faults)

    def compare(
        self, method: str, message: str, got: Array, expected: Array, tol: float | Array = 1e-6
    ) -> None:
        """Note a fault unless got and expected agree to tol, relative to the expected values."""
        expected = np.asarray(expected, dtype=float)
        finite = np.abs(expected[np.isfinite(expected)])
        scale = float(np.max(finite)) if finite.size else 1.0
        atol = np.max(tol) * min(1.0, max(scale, 1e-3))
        rtol, words = float(np.max(tol)), message + self.where
        self.report.close(method, words, got, expected, rtol=rtol, atol=float(atol))

    @property
    def law(self) -> Keywords:
        """Keywords of the tested density of y itself, before it was rounded."""
        return (
            {**self.kw, ROUNDING: NOT_ROUNDED} if ROUNDING in self.lik.metadata_names else self.kw
        )

    def table(self) -> from_density.Tabulated | WithAtoms:
        """The tested distribution by integration of its density at the latents."""
        return self._table

    @cached_property
    def _table(self) -> from_density.Tabulated | WithAtoms:
        return self.table_at(self.latents, self.law)

    def table_at(
        self, latents: Sequence[Array], kw: Keywords
    ) -> from_density.Tabulated | WithAtoms:
        """The tested distribution, as `table`, at some latents (n,) with their keywords."""
        near = None
        with suppress(Exception), np.errstate(all="ignore"):  # other laws report errors
            own = type(self.lik).ppf is not Likelihood.ppf
            if own or self.lik.distribution(*latents, **kw) is not None:
                median = np.asarray(self.lik.ppf(np.full(len(latents[0]), 0.5), *latents, **kw))
                near = np.where(np.isfinite(median), median, self.support.interior)
        table = from_density.tabulate(self.lik, tuple(latents), kw, near)
        for panels in MORE_PANELS if self.support.continuous else ():
            if np.all(np.abs(table.total - 1.0) < STEEP * self.tolerance(table)):
                break
            table = from_density.tabulate(self.lik, tuple(latents), kw, near, panels)
        return table

    def tolerance(self, table: from_density.Tabulated | WithAtoms) -> float:
        """Tolerance of tests by integrals over the table: larger if the density has own ends."""
        return max(self.support.tolerance, self._support_of(table).tolerance)

    def _support_of(self, table: from_density.Tabulated | WithAtoms) -> Support:
        """The support of the tested likelihood, or its part between the ends of the density."""
        rest = table.rest if isinstance(table, WithAtoms) else table
        return rest.support if isinstance(rest, from_density.Continuous) else self.support


def _targets(likelihood: Likelihood, rng: np.random.Generator) -> Array:
    """A few targets (n,) to test a likelihood at, inside the support, its atoms among them."""
    y = likelihood.target_support.examples(rng.standard_normal(ROWS))
    y[: len(likelihood.atoms)] = likelihood.atoms[:ROWS]
    return y


def _moved(likelihood: Likelihood, key: str) -> float:
    """Another value of a likelihood's parameter, within its constraints; if fixed, its own."""
    leaf, domain = getattr(likelihood, key), DOMAINS[likelihood._domain(key)]
    value, lower, upper = float(leaf.values[0]), domain.lower, domain.upper
    if leaf.is_fixed:
        return value
    for constraint in leaf.constraints.properties():
        if isinstance(constraint, Logistic):
            lower, upper = max(lower, constraint.lower), min(upper, constraint.upper)
    if np.isfinite(lower) and np.isfinite(upper):
        farther = lower if value - lower > upper - value else upper
        return value + 0.3 * (farther - value)
    if np.isfinite(lower):
        return lower + 1.7 * (value - lower)
    return value + 0.6
