"""What the model adds to paramz: named lists of latents, and leaves that print as a shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from paramz import Param, Parameterized
from paramz.param import ParamConcatenation

from .errors import InputError

__all__ = ["LargeParam", "LatentList", "Searchable", "Selection", "copy_of", "latent_index"]


def latent_index(latent: int | str, names: Sequence[str]) -> int:
    """Index of a latent given by index or name; an error that lists the names."""
    if isinstance(latent, str):
        if latent in names:
            return list(names).index(latent)
    elif isinstance(latent, int | np.integer) and -len(names) <= latent < len(names):
        return int(latent) % len(names)
    raise InputError(
        f"latent must be an index below {len(names)} or one of {', '.join(names)}; got {latent!r}."
    )


def copy_of(part: Any) -> Any:
    """A copy of a parameterised object; paramz overflows on the way for values above 709."""
    with np.errstate(over="ignore"):
        return part.copy()


class Selection(ParamConcatenation):
    """Several parameters found by a regular expression; large ones print as their shape."""

    def __str__(self, **kwargs: Any) -> str:
        large = [p for p in self.params if isinstance(p, LargeParam) and p.is_large]
        small = [p for p in self.params if not any(p is q for q in large)]
        parts = [ParamConcatenation(small).__str__(**kwargs)] if small else []
        return "\n".join([*parts, *(str(p) for p in large)])

    def __repr__(self) -> str:
        return str(self)


class Searchable(Parameterized):
    """Gives a `Selection` where a regular expression finds several parameters."""

    def __getitem__(self, key: Any, paramlist: Any = None) -> Any:
        found = super().__getitem__(key, paramlist)
        return Selection(found.params) if type(found) is ParamConcatenation else found


class LatentList(Searchable):
    """Parts of a model, one for each latent, that carry the latents' names.

    `parts["mean"]`, `parts[0]` and `parts.mean` are the same object; `len` and iteration work.
    Any other string is a regular expression over parameter names, as everywhere in paramz.
    """

    def __init__(self, parts: Sequence[Any], latents: Sequence[str], name: str) -> None:
        super().__init__(name=name)
        self._latents = tuple(latents)
        for part, latent in zip(parts, latents, strict=True):
            part.name = latent
            self.link_parameter(part)

    def __getitem__(self, key: Any, paramlist: Any = None) -> Any:
        if isinstance(key, str) and key not in self._latents:
            return super().__getitem__(key, paramlist)
        return self.parameters[latent_index(key, self._latents)]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str) and key not in self._latents:
            super().__setitem__(key, value)
            return
        raise InputError(
            f"parts of {self.name!r} cannot be replaced: set their parameters, or build a new model."
        )

    def __len__(self) -> int:
        return len(self._latents)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parameters)


class LargeParam(Param):
    """A parameter array that prints as its shape and range when it has many entries."""

    _PRINTED = 100

    @property
    def is_large(self) -> bool:
        """Whether it prints as its shape."""
        return self.size > self._PRINTED

    def _summary(self) -> str:
        values = self.values
        return (
            f"{self.hierarchy_name()}: array {values.shape}, "
            f"from {values.min():.4g} to {values.max():.4g}"
        )

    def __str__(self, *args: Any, **kwargs: Any) -> str:
        if not self.is_large:
            return str(super().__str__(*args, **kwargs))
        return self._summary()

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        if not self.is_large:
            return str(super().__repr__(*args, **kwargs))
        return self._summary()

    def _repr_html_(self, *args: Any, **kwargs: Any) -> str:
        if not self.is_large:
            return str(super()._repr_html_(*args, **kwargs))
        return f"<pre>{self._summary()}</pre>"
