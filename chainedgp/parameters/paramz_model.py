"""The paramz model that every model here is: hyperpriors, names of leaves, traps mended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from paramz import Model, Param
from paramz.transformations import __fixed__

from ..errors import InputError
from ..linalg import Array
from .leaves import Searchable, named_leaves
from .parts import copy_of
from .priors import Prior


class ParamzModel(Searchable, Model):
    """A paramz model with hyperpriors and named leaves, and with paramz's traps mended."""

    num_changes = 0  # The number of changes of parameters: results of an earlier count are stale.

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # Keys are names of leaves. It must not be called `priors`: GPy gives paramz that name.
        self.hyperpriors: dict[str, Prior] = {}

    @classmethod
    def _built(cls, build: Callable[[Self], None]) -> Self:
        """A paramz model that `build` puts together in the place of `__init__`.

        As after `__init__`, paramz then connects the parts that were linked.
        """
        model = cls.__new__(cls)
        model._in_init_ = True
        build(model)
        model._in_init_ = model._model_initialized_ = False
        model.initialize_parameter()
        return model

    def _mark_stale(self) -> None:
        """Note that parameters of the model changed: it must evaluate its bound again."""
        self.__dict__["num_changes"] = self.num_changes + 1

    def parameters_changed(self) -> None:
        """Note a change of parameters, of which paramz tells; the bound is computed later."""
        self._mark_stale()

    def __getstate__(self) -> Any:
        self._mark_stale()  # evaluated results hold closures, which cannot be pickled
        return super().__getstate__()

    def replace_leaves(
        self, old: Sequence[Param], values: Sequence[Array], fixed: Sequence[np.ndarray]
    ) -> list[Param]:
        """Replace leaves of a model by others of the same names and kinds, of any shape.

        old : leaves that are children of the model itself; their constraints are lost.
        fixed : entries of each new leaf that are fixed.
        """
        new = []
        for leaf, value in zip(old, values, strict=True):
            name, place = leaf.name, leaf._parent_index_
            leaf.constraints.clear()
            self.unlink_parameter(leaf)
            new.append(type(leaf)(name, np.array(value)))  # Without a copy it would share memory.
            self.link_parameter(new[-1], place)
            object.__setattr__(self, name, new[-1])
        for leaf, entries in zip(new, fixed, strict=True):
            if entries.size:
                leaf.constraints.add(__fixed__, entries)
        self._connect_fixes()
        self._mark_stale()
        return new

    # ---- hyperpriors ---------------------------------------------------------------------------

    def set_prior(self, leaf: Param | str, prior: Prior | None) -> None:
        """Put a hyperprior on a parameter, or take it off with None; it enters the objective.

        leaf : a parameter such as `m.kernels[0].lengthscale`, or a regular expression over names,
            as in `m.set_prior(".*lengthscale", priors.LogNormal(0, 1))`.
        """
        if prior is not None and not isinstance(prior, Prior):
            raise InputError(f"prior must be a chainedgp.priors.Prior; got {type(prior).__name__}.")
        leaves = [leaf] if isinstance(leaf, Param) else self.grep_param_names(str(leaf))
        known = {id(part): name for name, part in named_leaves(self).items()}
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
            values = named_leaves(self)[name].values
            with np.errstate(all="ignore"):
                possible = np.isfinite(prior.log_density(values)).all()
            if not possible:
                raise InputError(
                    f"{prior!r} has no density at {name} = {values.ravel()[:3]}: choose a prior "
                    "whose support contains this value, such as Normal for any real number."
                )

    def _with_priors(self) -> list[tuple[Param, Prior]]:
        if not self.hyperpriors:
            return []
        leaves = named_leaves(self)
        return [(leaves[name], prior) for name, prior in self.hyperpriors.items()]

    def log_prior(self) -> float:
        """Log-density of the hyperpriors at the current parameters; 0 where there are none."""
        return float(
            sum(prior.log_density(leaf.values).sum() for leaf, prior in self._with_priors())
        )

    # ---- traps of paramz ------------------------------------------------------------------------

    def __copy__(self) -> Self:
        return copy_of(self)  # a shallow copy would take the parts away from this model

    @property
    def optimizer_array(self) -> Array:
        """The free parameters as paramz transforms them: a copy, not its buffer."""
        # An unused branch of paramz's overflows for values above 709.
        with np.errstate(over="ignore"):
            array = np.array(Model.optimizer_array.fget(self))
        # paramz remembers the array's id while it copies a model, so the array is kept alive.
        self.__dict__["_handed_out"] = array
        return array

    @optimizer_array.setter
    def optimizer_array(self, x: Array) -> None:
        Model.optimizer_array.fset(self, x)

    def randomize(
        self, rand_gen: Callable[..., Array] | None = None, *args: object, **kwargs: object
    ) -> None:
        """Draw all free parameters, as paramz transforms them, from `rand_gen(size=…)`; N(0, 1)."""
        draw: Any = np.random.default_rng().normal if rand_gen is None else rand_gen
        self.optimizer_array = draw(*args, size=self.optimizer_array.size, **kwargs)

    def __setitem__(self, key: Any, value: Any, paramlist: Any = None) -> None:
        super().__setitem__(key, value, paramlist)
        self._sync_leaves(to_leaves=True)  # paramz itself does not update fixed leaves

    def update_model(self, updates: bool | None = None) -> bool | None:
        """Get or set whether paramz follows changes of parameters at once; nothing is lost."""
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


def add_prior_gradients(model: ParamzModel) -> None:
    """Add the gradients of the log-priors to those that the leaves of a model hold."""
    for leaf, prior in model._with_priors():
        leaf.gradient[:] += prior.gradient(leaf.values)
