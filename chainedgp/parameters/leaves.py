"""What the model adds to paramz: named lists of latents, and leaves that print as a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from paramz import Model, Param, Parameterized
from paramz.param import ParamConcatenation

from ..errors import InputError
from ..linalg import Array
from .priors import Prior
from .roles import Role

__all__ = [
    "InputParam",
    "LargeParam",
    "LatentList",
    "ParamzModel",
    "Part",
    "Searchable",
    "Selection",
    "copy_of",
    "latent_index",
]


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


class Part(Parameterized):
    """A likelihood, kernel or mean: its `repr` is one line, its `str` the table of parameters."""

    #: what its own leaves are, by their names; leaves that are nothing special are left out
    roles: Mapping[str, Role] = {}

    def leaves_with(self, role: Role) -> list[Param]:
        """The leaves that have a role, those of the parts inside included."""
        found = []
        for child in self.parameters:
            if isinstance(child, Part):
                found += child.leaves_with(role)
            elif self.roles.get(child.name) is role:
                found.append(child)
        return found

    def __copy__(self) -> Any:
        return copy_of(self)  # a shallow copy would take the parameters away from this one

    def _given(self) -> tuple[str, ...]:
        """What stands before the parameters in the `repr`."""
        return ()

    def __repr__(self) -> str:
        return _one_line(self)

    def __str__(self, header: bool = True, VT100: bool = False) -> str:
        # without the terminal's codes for bold, which a printed data frame would show as they are
        return str(super().__str__(header, VT100))


def _one_line(part: Any) -> str:
    """RBF(1, variance=1, lengthscale=2)."""
    words = list(part._given()) if isinstance(part, Part) else []
    for child in part.parameters:
        if isinstance(child, Param):
            values = ", ".join(f"{value:.4g}" for value in child.values.ravel())
            words.append(f"{child.name}={values if child.size == 1 else f'[{values}]'}")
        else:
            words.append(_one_line(child))
    return f"{type(part).__name__}({', '.join(words)})"


def name_after(part: Any, latent: str) -> None:
    """Name a part after its latent; a kernel's own name still finds it: `kernels.mean.rbf`."""
    own = getattr(part, "own_name", part.name)
    part.name = latent
    if isinstance(part, Parameterized):
        part.own_name = own
        if not hasattr(part, own):
            part.__dict__[own] = part


class InputParam(Param):
    """A parameter of a kernel or mean with one entry per input: the inputs' names are its index.

    In a model with `input_names` it prints them, and `lengthscale["age"]` is the entry of age.
    """

    def _names(self) -> list[str] | None:
        names = getattr(self._highest_parent_, "input_names", None)
        if names is None or self._parent_ is None:
            return None
        dims = getattr(self._parent_, "active_dims", None)
        return [str(name) for name in (names if dims is None else np.asarray(names)[dims])]

    def _place(self, key: Any) -> Any:
        if not isinstance(key, str):
            return key
        names = self._names() or []
        if key not in names:
            raise InputError(
                f"{self.hierarchy_name()} has no entry {key!r}; it has "
                f"{', '.join(map(repr, names)) or 'no names: build the model with a data frame'}."
            )
        return slice(names.index(key), names.index(key) + 1)

    def __getitem__(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        return super().__getitem__(self._place(key), *args, **kwargs)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(self._place(key), value)

    def _named(self, indices: Any) -> Any:
        """The names in place of numbers, where there are some."""
        names = self._names()
        if indices is None:
            indices = self._indices(self._current_slice_)
        return indices if names is None else [names[int(i[0])] for i in indices]

    def __str__(self, indices: Any = None, *args: Any, **kwargs: Any) -> str:
        return str(super().__str__(self._named(indices), *args, **kwargs))

    def _repr_html_(self, indices: Any = None, *args: Any, **kwargs: Any) -> str:
        return str(super()._repr_html_(self._named(indices), *args, **kwargs))


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
            name_after(part, latent)
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
            f"parts of {self.name!r} cannot be replaced: set their parameters, or build a model."
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


class ParamzModel(Searchable, Model):
    """A paramz model with hyperpriors and named leaves, and with paramz's traps mended."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # by name of the leaf; never call it `priors`: GPy gives that name to all of paramz
        self.hyperpriors: dict[str, Prior] = {}

    @classmethod
    def _built(cls, build: Callable[[Self], None]) -> Self:
        """A model that `build` puts together in the place of `__init__`.

        As after `__init__`, paramz then connects the parts that were linked.
        """
        model = cls.__new__(cls)
        model._in_init_ = True
        build(model)
        model._in_init_ = model._model_initialized_ = False
        model.initialize_parameter()
        return model

    def _mark_stale(self) -> None:
        """Something changed: the model must evaluate its bound again."""
        raise NotImplementedError

    def __getstate__(self) -> Any:
        self._mark_stale()  # what was evaluated holds closures
        return super().__getstate__()

    def _snapshot(self) -> dict[str, Array]:
        """Values of all leaves by name, to be put back by `_restore`."""
        return {name: np.array(leaf.values) for name, leaf in self._named_leaves().items()}

    def _restore(self, snapshot: dict[str, Array]) -> None:
        for name, leaf in self._named_leaves().items():
            leaf[:] = snapshot[name]

    # ---- hyperpriors ---------------------------------------------------------------------------

    def set_prior(self, leaf: Any, prior: Prior | None) -> None:
        """Put a hyperprior on a parameter, or take it off with None; it enters the objective.

        leaf : a parameter such as `m.kernels[0].lengthscale`, or a regular expression over names,
            as in `m.set_prior(".*lengthscale", priors.LogNormal(0, 1))`.
        """
        if prior is not None and not isinstance(prior, Prior):
            raise InputError(f"prior must be a chainedgp.priors.Prior; got {type(prior).__name__}.")
        leaves = [leaf] if isinstance(leaf, Param) else self.grep_param_names(str(leaf))
        known = {id(part): name for name, part in self._named_leaves().items()}
        names = [known[id(part)] for part in leaves if id(part) in known]
        if not names:
            raise InputError(f"no parameter of this model matches {leaf!r}.")
        if prior is not None:
            self._check_prior(prior, names)
        for name in names:
            self.hyperpriors.pop(name, None)
            if prior is not None:
                self.hyperpriors[name] = prior
        self._mark_stale()

    def _check_prior(self, prior: Prior, names: list[str]) -> None:
        for name in names:
            values = self._named_leaves()[name].values
            with np.errstate(all="ignore"):
                possible = np.isfinite(prior.log_density(values)).all()
            if not possible:
                raise InputError(
                    f"{prior!r} has no density at {name} = {values.ravel()[:3]}: choose a prior "
                    "whose support holds it, such as Normal for a parameter of either sign."
                )

    def _named_leaves(self) -> dict[str, Any]:
        """All leaves by name, without the name of the model."""
        return {leaf.hierarchy_name().partition(".")[2]: leaf for leaf in self.flattened_parameters}

    def _with_priors(self) -> list[tuple[Any, Prior]]:
        if not self.hyperpriors:
            return []
        leaves = self._named_leaves()
        return [(leaves[name], prior) for name, prior in self.hyperpriors.items()]

    def log_prior(self) -> float:
        """Log-density of the hyperpriors at the current parameters; 0 where there are none."""
        return float(
            sum(prior.log_density(leaf.values).sum() for leaf, prior in self._with_priors())
        )

    def _add_prior_gradients(self) -> None:
        """Add the gradients of the log-priors to the leaves'."""
        for leaf, prior in self._with_priors():
            leaf.gradient[:] += prior.gradient(leaf.values)

    # ---- traps of paramz ------------------------------------------------------------------------

    def __copy__(self) -> Any:
        return copy_of(self)  # a shallow copy would take the parts away from this model

    @property
    def optimizer_array(self) -> Array:
        """The free parameters as paramz transforms them: a copy, not its buffer."""
        with np.errstate(over="ignore"):  # of the unused branch, for values above 709
            array = np.array(Model.optimizer_array.fget(self))
        # paramz remembers the array's id while it copies a model: keep the array alive
        self.__dict__["_handed_out"] = array
        return array

    @optimizer_array.setter
    def optimizer_array(self, x: Array) -> None:
        Model.optimizer_array.fset(self, x)

    def randomize(self, rand_gen: Any = None, *args: Any, **kwargs: Any) -> None:
        """Draw all free parameters, as paramz transforms them, from `rand_gen(size=…)`; N(0, 1)."""
        draw: Any = np.random.default_rng().normal if rand_gen is None else rand_gen
        self.optimizer_array = draw(*args, size=self.optimizer_array.size, **kwargs)

    def __setitem__(self, key: Any, value: Any, paramlist: Any = None) -> None:
        super().__setitem__(key, value, paramlist)
        self._sync_leaves(to_leaves=True)  # paramz leaves out what is fixed

    def update_model(self, updates: bool | None = None) -> Any:
        """Get or set whether changes are followed at once; nothing set meanwhile is lost."""
        if updates:
            self._sync_leaves(to_leaves=False)
        return super().update_model(updates)

    def _sync_leaves(self, *, to_leaves: bool) -> None:
        """Copy paramz's flat array of all parameters into the leaves, or back."""
        start = 0
        for leaf in self.flattened_parameters:
            part = self.param_array[start : start + leaf.size]
            if to_leaves:
                np.ndarray.__setitem__(leaf, Ellipsis, part.reshape(leaf.shape))
            else:
                part[:] = leaf.values.ravel()
            start += leaf.size
        self._mark_stale()
