"""Classes that declare latents, parameters and metadata by name; parameters are paramz leaves."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, ClassVar

from paramz import Parameterized

from ..errors import InputError
from ..parameters.domains import make_parameter
from ..parameters.parts import Part

__all__ = ["Declared"]

_RESERVED = frozenset(dir(Parameterized("reserved"))) | {"weights", "nodes", "y", "means"}


class Declared(Part):
    """Latents, parameters θ and metadata, declared by a subclass.

    latents: names of the latent functions. parameters: start values, {"nu": 4.0}. domains:
    {"nu": "above_one"}; "positive" where nothing is said, "real" for any number. Metadata are
    keyword-only arguments of `log_density` that are not parameters, optional with a default.
    """

    latents: tuple[str, ...] = ()
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
            if name in _RESERVED or (name in declared and hasattr(type(self), name)):
                raise InputError(f"The name {name!r} is taken by the library: choose another.")
        if len(set(names)) < len(names):
            raise InputError(
                f"Latents, parameters and metadata share a name: {names}. Make them distinct."
            )

    def _metadata(self) -> dict[str, bool]:
        """Metadata names, and whether each is required."""
        signature = inspect.signature(self.log_density)
        return {
            name: p.default is p.empty
            for name, p in signature.parameters.items()
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
        """Names of the own parameters, in the order of `param_array`."""
        return tuple(self._declarations()[0])

    def parameter_values(self) -> dict[str, float]:
        """Current values of the parameters as plain floats, the keywords of every method."""
        return {key: float(getattr(self, key).values[0]) for key in self.parameter_keys}

    def _domain(self, key: str) -> str:
        return self._declarations()[1].get(key, "positive")
