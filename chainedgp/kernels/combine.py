"""Combinations of kernels: sums and products, of any depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from paramz import Param, Parameterized

from ..errors import InputError
from ..linalg import Array
from ..parameters.parts import copy_of
from .adapter import as_kernel
from .base import Evaluate, Indices, Kernel, Pullback, PullbackDiag


class Combination(Kernel):
    """Several kernels combined on the same inputs, each with its own active_dims.

    Parameters
    ----------
    parts : kernels (of this package or of GPy). They are copied, so fixes and constraints survive
        and the originals stay as they are. A part of the same class is replaced by its own parts:
        (k1 + k2) + k3 is one sum of three.
    name : ASCII identifier.

    Parts keep their names; a name that is taken gets a number: rbf, rbf_1, rbf_2. A parameter that
    only one part has is found by its own name too: in RBF + Linear `k.lengthscale` is
    `k.rbf.lengthscale`.
    """

    def __init__(self, parts: Sequence[Parameterized], name: str) -> None:
        flat: list[Kernel] = []
        for part in parts:
            kernel = as_kernel(part)
            flat.extend(kernel.parts if type(kernel) is type(self) else [kernel])
        if not flat:
            raise InputError(
                f"{type(self).__name__}: parts must hold at least one kernel, got none"
            )
        placed = [part for part in flat if not part.unplaced]
        columns = max((int(part.columns[-1]) + 1 for part in placed), default=1)
        for part in placed:
            try:
                part.check_columns(columns)
            except InputError as error:
                raise InputError(
                    f"{type(self).__name__}: the parts do not act on the same inputs. {error}"
                ) from None
        super().__init__(columns, name)
        copies, taken = [copy_of(part) for part in flat], set(dir(self))
        for copy in copies:
            copy.name = unique(copy.name, taken)
            taken.add(copy.name)
        self.link_parameters(*copies)

    def _only(self, name: str) -> Param | None:
        """The parameter of this name, if only one part of the combination has such a parameter."""
        found: list[Param] = []
        for part in self.__dict__.get("parameters", ()):
            leaf = part._only(name) if isinstance(part, Combination) else vars(part).get(name)
            found += [leaf] if isinstance(leaf, Param) else []
        return found[0] if len(found) == 1 else None

    def __getattr__(self, name: str) -> Param:
        leaf = self._only(name)
        if leaf is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return leaf

    def __setattr__(self, name: str, value: Any) -> None:
        leaf = None if name in self.__dict__ or hasattr(type(self), name) else self._only(name)
        if leaf is None:
            super().__setattr__(name, value)
        else:
            leaf[:] = value

    def _given(self) -> tuple[str, ...]:
        return ()

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that are combined, in order."""
        return tuple(self.parameters)

    @property
    def simple_parts(self) -> tuple[Kernel, ...]:
        """The kernels inside the combination, at any depth, that combine no others."""
        return tuple(simple for part in self.parts for simple in part.simple_parts)

    @property
    def has_white(self) -> bool:
        """Whether any part of the combination has independent noise on the diagonal of K(X)."""
        return any(part.has_white for part in self.parts)

    @property
    def columns(self) -> Indices:
        """The columns of X that some part of the combination reads, ascending."""
        return np.unique(np.concatenate([part.columns for part in self.parts]))

    @property
    def level_columns(self) -> Indices:
        """The columns that some part reads as codes of levels, ascending."""
        return np.unique(np.concatenate([part.level_columns for part in self.parts]))

    @property
    def unordered_columns(self) -> Indices:
        """The columns that some part reads as codes of levels without an order, ascending."""
        return np.unique(np.concatenate([part.unordered_columns for part in self.parts]))

    @property
    def unplaced(self) -> bool:
        """Whether a part of the combination has names for columns, not numbers yet."""
        return any(part.unplaced for part in self.parts)

    def name_columns(self, names: Sequence[str] | None) -> None:
        """Replace names by numbers in the active_dims of the combined kernels."""
        for part in self.parts:
            part.name_columns(names)
        if not self.unplaced:
            self.input_dim = int(self.columns[-1]) + 1

    def check_inputs(self, X: Array, name: str) -> None:
        """Raise InputError if one of the combined kernels is not for some rows (n, D)."""
        for part in self.parts:
            part.check_inputs(X, name)

    def check_columns(self, num_columns: int) -> None:
        """Raise InputError if a combined kernel cannot act on inputs with so many columns."""
        for part in self.parts:
            part.check_columns(num_columns)

    def _prepare(self, X: Array) -> Evaluate:
        parts = [part.prepare(X) for part in self.parts]

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """The parts' kernel matrices joined, and the pullback through all of them."""
            values, pulls = zip(*(part(Z) for part in parts), strict=True)

            def pullback(dL_dK: Array, wrt_second: bool = True) -> tuple[Array, Any, Any]:
                seeds = self._seeds(dL_dK, values)
                thetas, dXs, dZs = zip(
                    *(p(s, wrt_second) for p, s in zip(pulls, seeds, strict=True)), strict=True
                )
                return np.concatenate(thetas), add_up(dXs), add_up(dZs)

            return self._join(values), pullback

        return evaluate

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        values, pulls = zip(*(part.evaluate_diag(X) for part in self.parts), strict=True)

        def pullback(dL_dk: Array) -> tuple[Array, Array | None]:
            seeds = self._seeds(dL_dk, values)
            thetas, dXs = zip(*(p(s) for p, s in zip(pulls, seeds, strict=True)), strict=True)
            return np.concatenate(thetas), add_up(dXs)

        return self._join(values), pullback

    def _join(self, values: Sequence[Array]) -> Array:
        """Combine the parts' kernel matrices into a new array of the same shape."""
        raise NotImplementedError(f"{type(self).__name__} must implement _join")

    def _seeds(self, dL_dK: Array, values: Sequence[Array]) -> list[Array]:
        """dL/dK_p of each part p of the combination, given all parts' kernel matrices."""
        raise NotImplementedError(f"{type(self).__name__} must implement _seeds")


class Sum(Combination):
    """Sum of kernels, k(x, z) = Σ_p k_p(x, z): a sum of independent functions. `k1 + k2` makes one.

    Parameters: parts, name; see `Combination`.
    """

    def __init__(self, parts: Sequence[Parameterized], name: str = "sum") -> None:
        super().__init__(parts, name)

    @property
    def additive_parts(self) -> tuple[Kernel, ...]:
        """The terms of the sum, those of sums inside it included."""
        return tuple(term for part in self.parts for term in part.additive_parts)

    def _join(self, values: Sequence[Array]) -> Array:
        total = values[0].copy() if len(values) == 1 else values[0] + values[1]
        for value in values[2:]:
            total += value
        return total

    def _seeds(self, dL_dK: Array, values: Sequence[Array]) -> list[Array]:
        return [dL_dK] * len(values)


class Product(Combination):
    """Product of kernels, k(x, z) = Π_p k_p(x, z). `k1 * k2` makes one.

    Parameters: parts, name; see `Combination`.
    """

    def __init__(self, parts: Sequence[Parameterized], name: str = "product") -> None:
        super().__init__(parts, name)

    def _join(self, values: Sequence[Array]) -> Array:
        total = values[0].copy() if len(values) == 1 else values[0] * values[1]
        for value in values[2:]:
            total *= value
        return total

    def _seeds(self, dL_dK: Array, values: Sequence[Array]) -> list[Array]:
        # dL/dK_p is dL_dK · Π_{q≠p} K_q, multiplied up: K_p may be zero, so it is not divided out.
        if len(values) == 1:
            return [dL_dK]
        return [
            dL_dK * self._join([v for q, v in enumerate(values) if q != p])
            for p in range(len(values))
        ]


def unique(name: str, taken: set[str]) -> str:
    """A name for a part of a combined kernel: the given one, or with the first free number."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def add_up(gradients: Sequence[Array | None]) -> Array | None:
    """Sum of the gradients of a combined kernel's parts that are not None; None if all are."""
    present = [g for g in gradients if g is not None]
    return sum(present[1:], start=present[0]) if present else None


Kernel._combinations.update(sum=Sum, product=Product)
