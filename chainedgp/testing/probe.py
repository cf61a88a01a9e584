"""A likelihood under test: inputs to call it at, and checks of what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..likelihoods import from_density
from ..likelihoods.contract import Likelihood
from ..likelihoods.density_check import array_fault
from ..likelihoods.wrappers.atoms import WithAtoms
from ..linalg import Array
from .report import Report

__all__ = ["Probe"]

ROWS = 8


class Probe:
    """A likelihood with targets, latents and keywords to call it at, and the report."""

    def __init__(
        self,
        likelihood: Likelihood,
        y: Array | None,
        metadata: dict[str, Any],
        rng: np.random.Generator,
        report: Report,
    ) -> None:
        self.lik, self.rng, self.report = likelihood, rng, report
        self.b, self.support = len(likelihood.latents), likelihood.target_support
        self.names, self.keys = likelihood.latents, likelihood.parameter_keys
        self.y = _targets(likelihood, rng) if y is None else np.array(y, dtype=np.float64).ravel()
        self.n = len(self.y)
        self.metadata = {
            key: np.broadcast_to(np.asarray(value, dtype=float).ravel(), self.n).copy()
            for key, value in metadata.items()
        }
        self.kw: dict[str, Any] = {**likelihood.parameter_values(), **self.metadata}
        centre = np.zeros(self.b)
        if y is not None:
            start = self.call("initial_latents", self.y)
            usable = isinstance(start, np.ndarray) and start.shape == (self.b,)
            centre = start if usable and np.all(np.isfinite(start)) else centre
        self.latents = tuple(centre[:, None] + 0.6 * rng.standard_normal((self.b, self.n)))

    def call(self, method: str, *args: Any, kw: dict[str, Any] | None = None, **more: Any) -> Any:
        """The method's result on copies of the inputs; None, and a fault, if it raises."""
        kw = {**(self.kw if kw is None else kw), **more}
        kept = [np.copy(a) for a in (*args, *kw.values()) if isinstance(a, np.ndarray)]
        args = tuple(np.copy(a, order="K") if isinstance(a, np.ndarray) else a for a in args)
        kw = {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in kw.items()}
        try:
            with np.errstate(all="ignore"):
                result = getattr(self.lik, method)(*args, **kw)
        except Exception as error:
            shapes = ", ".join(str(np.shape(a)) for a in args if isinstance(a, np.ndarray))
            self.fault(
                method, f"raised {type(error).__name__}: {error} (arguments of shapes {shapes})"
            )
            return None
        after = [a for a in (*args, *kw.values()) if isinstance(a, np.ndarray)]
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(kept, after, strict=True)):
            self.fault(method, "changes its input arrays in place; work on new arrays")
        return result

    def fault(self, method: str, message: str) -> None:
        """Note a fault once."""
        if f"{method}: {message}" not in self.report.faults:
            self.report.fault(method, message)

    def array(self, method: str, value: Any, shape: tuple[int, ...], exact: bool = True) -> Any:
        """The value if it is a float64 array of the shape (or broadcasts to it), else None."""
        words = array_fault(value, shape, exact)
        if words is None:
            return np.broadcast_to(value, shape)
        if not self._raised(method, value):
            self.fault(method, words)
        return None

    def arrays(
        self, method: str, value: Any, names: tuple[str, ...], shape: tuple[int, ...]
    ) -> list[Array] | None:
        """The parts of a tuple, one for each name, each an array that broadcasts to the shape."""
        if self._raised(method, value):
            return None
        if not isinstance(value, tuple | list) or len(value) != len(names):
            count = len(value) if isinstance(value, tuple | list) else type(value).__name__
            self.fault(method, f"must return {len(names)} arrays, for {names}; got {count}")
            return None
        parts = [self.array(method, part, shape, exact=False) for part in value]
        return None if any(part is None for part in parts) else parts

    def _raised(self, method: str, value: Any) -> bool:
        """Whether the value is missing because of an exception, which is told already."""
        faults = self.report.faults
        return value is None and any(f.startswith(f"{method}: raised ") for f in faults)

    def compare(
        self, method: str, message: str, got: Array, expected: Array, tol: float | Array = 1e-6
    ) -> None:
        """A fault unless got and expected agree to tol, relative to the expected values."""
        expected = np.asarray(expected, dtype=float)
        finite = np.abs(expected[np.isfinite(expected)])
        scale = float(np.max(finite)) if finite.size else 1.0
        atol = np.max(tol) * min(1.0, max(scale, 1e-3))
        self.report.close(method, message, got, expected, rtol=float(np.max(tol)), atol=float(atol))

    def table(self) -> from_density.Tabulated | WithAtoms:
        """The conditional distribution by integration of the density at the latents."""
        return from_density.tabulate(self.lik, self.latents, self.kw)


def _targets(likelihood: Likelihood, rng: np.random.Generator) -> Array:
    """A few targets (n,) inside the support, its atoms among them."""
    y = likelihood.target_support.examples(rng.standard_normal(ROWS))
    y[: len(likelihood.atoms)] = likelihood.atoms[:ROWS]
    return y
