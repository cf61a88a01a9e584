"""Parts of a model: likelihoods, kernels and means, and the lists of them by latent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from paramz import Param, Parameterized

from ..errors import InputError
from .leaves import Linked, Searchable
from .roles import Role

Copied = TypeVar("Copied", bound=Parameterized)


def copy_of(part: Copied) -> Copied:
    """A copy of a likelihood, kernel, mean or model, without warnings of paramz's overflows.

    paramz overflows on the way for values above 709.
    """
    with np.errstate(over="ignore"):
        return part.copy()


class Part(Linked):
    """A likelihood, kernel or mean: its `repr` is one line, its `str` the table of parameters."""

    #: The roles of its own leaves, by the leaves' names; leaves without a role are left out.
    roles: Mapping[str, Role] = {}

    def initialize_parameter(self) -> None:
        """Check, when paramz calls this after `__init__`, that the part has its parameters."""
        if "parameters" not in self.__dict__:
            raise InputError(
                f"{type(self).__name__}.__init__ must call super().__init__(), which makes its "
                "parameters; values of your own may be set before or after that."
            )
        super().initialize_parameter()

    def leaves_with(self, role: Role) -> list[Param]:
        """The parameters of a part that have a role, those of the parts inside included."""
        found = []
        for child in self.parameters:
            if isinstance(child, Part):
                found += child.leaves_with(role)
            elif self.roles.get(child.name) is role:
                found.append(child)
        return found

    def __copy__(self) -> Self:
        return copy_of(self)  # a shallow copy would take the parameters away from this one

    def _given(self) -> tuple[str, ...]:
        """What stands before the parameters in the `repr` of a likelihood, kernel or mean."""
        return ()

    def __repr__(self) -> str:
        return _one_line(self)

    def __str__(self, header: bool = True, VT100: bool = False) -> str:
        # The terminal's codes for bold are left out, which a printed data frame would show.
        return str(super().__str__(header, VT100))


def _one_line(part: Parameterized) -> str:
    """The `repr` of a likelihood, kernel or mean, such as RBF(1, variance=1, lengthscale=2)."""
    words = list(part._given()) if isinstance(part, Part) else []
    for child in part.parameters:
        if isinstance(child, Param):
            values = ", ".join(f"{value:.4g}" for value in child.values.ravel())
            words.append(f"{child.name}={values if child.size == 1 else f'[{values}]'}")
        else:
            words.append(_one_line(child))
    return f"{type(part).__name__}({', '.join(words)})"


def name_after(part: Parameterized | Param, latent: str) -> None:
    """Name a part after its latent; a kernel's own name still finds it: `kernels.mean.rbf`."""
    own = getattr(part, "own_name", part.name)
    part.name = latent
    if isinstance(part, Parameterized):
        part.own_name = own
        if not hasattr(part, own):
            part.__dict__[own] = part


def latent_index(latent: int | str, names: Sequence[str]) -> int:
    """Index of a latent that a user gave by index or name; the error lists the names."""
    if isinstance(latent, str):
        if latent in names:
            return list(names).index(latent)
    elif isinstance(latent, int | np.integer) and -len(names) <= latent < len(names):
        return int(latent) % len(names)
    raise InputError(
        f"latent must be an index below {len(names)} or one of {', '.join(names)}; got {latent!r}."
    )


class LatentList(Searchable):
    """Parts of a model, one for each latent, that carry the latents' names.

    `parts["mean"]`, `parts[0]` and `parts.mean` are the same object; `len` and iteration work.
    Any other string is a regular expression over parameter names, as everywhere in paramz.
    """

    def __init__(
        self, parts: Sequence[Parameterized | Param], latents: Sequence[str], name: str
    ) -> None:
        super().__init__(name=name)
        self._latents = tuple(latents)
        for part, latent in zip(parts, latents, strict=True):
            name_after(part, latent)
            self.link_parameter(part)

    def __copy__(self) -> Self:
        return copy_of(self)  # a shallow copy would take the parts away from this one

    def __getitem__(self, key: Any, paramlist: Any = None) -> Any:
        if isinstance(key, str) and key not in self._latents:
            return super().__getitem__(key, paramlist)
        return self.parameters[latent_index(key, self._latents)]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str) and key not in self._latents:
            super().__setitem__(key, value)
            return
        raise InputError(
            f"parts of {self.name!r} cannot be replaced: set their parameters, or build a model."
        )

    def __len__(self) -> int:
        return len(self._latents)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parameters)
