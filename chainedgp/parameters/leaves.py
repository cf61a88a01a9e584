"""Leaves of paramz, the arrays of parameters: what they refuse, how they print and are found."""

from __future__ import annotations

from typing import Any

import numpy as np
from paramz import Param, Parameterized
from paramz.param import ParamConcatenation
from paramz.transformations import Exponent, Logexp, Logistic

from ..errors import InputError

PRIORS_ARE = "priors belong to the model: m.set_prior({pattern}, prior)."


class Leaf(Param):
    """A parameter that refuses what its constraint forbids, where paramz takes any number.

    It looks at constraints with a lower end, and only where they hold for all of its entries. The
    end itself is let through: a variance that is fixed at 0 switches a part of a kernel off.
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        own, numbers = self._default_constraint_, np.asarray(value, dtype=float)
        lower, upper = getattr(own, "lower", 0.0), getattr(own, "upper", np.inf)
        if np.min(numbers, initial=np.inf) < lower or np.max(numbers, initial=-np.inf) > upper:
            self._refuse(value, lower, upper)
        super().__setitem__(key, value)

    def set_prior(self, *args: object, **kw: object) -> None:
        """As in GPy, which has priors at its parameters: here the model has them."""
        raise InputError(PRIORS_ARE.format(pattern=repr(f".*{self.name}")))

    def _refuse(self, value: Any, lower: float, upper: float) -> None:
        """Raise InputError for a value of a parameter outside the ends of its constraint.

        It does so only if all entries are constrained to be between `lower` and `upper`.
        """
        words = "positive" if lower == 0.0 else f"above {lower:g}"
        words = f"between {lower:g} and {upper:g}" if upper < np.inf else words
        for constraint, entries in self.constraints.items():
            bounded = isinstance(constraint, Logistic) and constraint.upper == upper
            if isinstance(constraint, Logexp | Exponent) or bounded:
                if entries.size == self._realsize_:
                    raise InputError(f"{self.hierarchy_name()} must be {words}; got {value!r}.")


class InputParam(Leaf):
    """A parameter of a kernel or mean with one entry per input: the inputs' names are its index.

    In a model with `input_names` it prints them, and `lengthscale["age"]` is the entry of age.
    """

    def entry_names(self) -> list[str] | None:
        """Names of the inputs to which the entries of a parameter belong, or None without names."""
        names = getattr(self._highest_parent_, "input_names", None)
        if names is None or self._parent_ is None:
            return None
        dims = getattr(self._parent_, "active_dims", None)
        return [str(name) for name in (names if dims is None else np.asarray(names)[dims])]

    def _place(self, key: Any) -> Any:
        if not isinstance(key, str):
            return key
        names = self.entry_names() or []
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
        """The names of inputs in the place of numbers of a parameter's entries."""
        names = self.entry_names()
        if indices is None:
            indices = self._indices(self._current_slice_)
        return indices if names is None else [names[int(i[0])] for i in indices]

    def __str__(self, indices: Any = None, *args: Any, **kwargs: Any) -> str:
        return str(super().__str__(self._named(indices), *args, **kwargs))

    def _repr_html_(self, indices: Any = None, *args: Any, **kwargs: Any) -> str:
        return str(super()._repr_html_(self._named(indices), *args, **kwargs))


class LargeParam(Param):
    """A parameter array that prints as its shape and range when it has many entries."""

    _PRINTED = 100  # An array of more entries prints as its shape.

    @property
    def is_large(self) -> bool:
        """Whether a parameter array is so large that it prints as its shape."""
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


def named_leaves(root: Parameterized) -> dict[str, Param]:
    """All parameters (leaves) of a model or part by their names, without the name of the root."""
    return {leaf.hierarchy_name().partition(".")[2]: leaf for leaf in root.flattened_parameters}


class Selection(ParamConcatenation):
    """Several parameters found by a regular expression; large ones print as their shape."""

    def __str__(self, **kwargs: Any) -> str:
        large = [p for p in self.params if isinstance(p, LargeParam) and p.is_large]
        small = [p for p in self.params if not any(p is q for q in large)]
        parts = [ParamConcatenation(small).__str__(**kwargs)] if small else []
        return "\n".join([*parts, *(str(p) for p in large)])

    def __repr__(self) -> str:
        return str(self)

    def set_prior(self, *args: object, **kw: object) -> None:
        """As in GPy, which has priors at its parameters: here the model has them."""
        raise InputError(PRIORS_ARE.format(pattern="pattern"))


class Linked(Parameterized):
    """A parameterised object that is pickled, or deep-copied, without what it is linked to.

    paramz keeps a reference to the parent, and would thus pickle a whole model with each of its
    parts, in an order that cannot be read back. A parent links its children again as it is read.
    """

    def __getstate__(self) -> Any:
        left_out = ("_parent_", "_parent_index_")
        return {key: value for key, value in super().__getstate__().items() if key not in left_out}

    def __setstate__(self, state: Any) -> Any:
        children = state.get("parameters", ())
        unlinked = [child for child in children if not child.has_parent()]
        super().__setstate__(state)  # This sets the parents of the children.
        for child in unlinked:
            child.add_observer(self, self._pass_through_notify_observers, -np.inf)
        return self


class Searchable(Linked):
    """A parameterised object that gives a `Selection` where a search finds several parameters."""

    def __getitem__(self, key: Any, paramlist: Any = None) -> Any:
        found = super().__getitem__(key, paramlist)
        return Selection(found.params) if type(found) is ParamConcatenation else found
