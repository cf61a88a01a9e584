"""Arguments of a model's constructor, checked: the likelihood, one part per latent, Z, jitter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from paramz import Parameterized

from ..data.rows import as_inputs
from ..data.types import Data
from ..errors import InputError
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..linalg import Array
from ..means import MeanFunction
from ..parameters.parts import copy_of

__all__ = [
    "Kernels",
    "Means",
    "as_mean",
    "checked_inducing",
    "checked_jitter",
    "checked_likelihood",
    "one_per_latent",
]

Kernels: TypeAlias = Parameterized | Sequence[Parameterized] | None
Means: TypeAlias = MeanFunction | Sequence[MeanFunction] | None
"""What users give: one for all latents, one for each, or None; kernels may be of GPy."""
Part = TypeVar("Part", Kernel, MeanFunction)


def one_per_latent(
    value: object, b: int, name: str, what: str, convert: Callable[[object], Part]
) -> list[Part] | None:
    """A list of b copies, one per latent, or None where the user left it open.

    name, what : what the argument and one entry of it are called, for the error message.
    convert : makes a part of what the user gave, or raises.
    """
    if value is None:
        return None
    parts = list(value) if isinstance(value, list | tuple) else [value] * b
    if len(parts) != b:
        raise InputError(
            f"{name} has {len(parts)} entries but the likelihood has {b} latents; give {what} for "
            "each latent, or one for all."
        )
    return [copy_of(convert(part)) for part in parts]


def as_mean(value: object) -> MeanFunction:
    """A mean function, or an error that says what one is."""
    if isinstance(value, MeanFunction):
        return value
    raise InputError(
        "mean_functions must be chainedgp.means.MeanFunction objects, for example "
        f"means.Constant(); got {type(value).__name__}."
    )


def checked_likelihood(likelihood: object) -> Likelihood:
    """A copy of a likelihood object; a class or anything else is an error."""
    if isinstance(likelihood, type) and issubclass(likelihood, Likelihood):
        raise InputError(f"likelihood must be an object: write {likelihood.__name__}().")
    if not isinstance(likelihood, Likelihood):
        got = repr(likelihood) if isinstance(likelihood, str) else type(likelihood).__name__
        raise InputError(
            "likelihood must be an object of one of the classes of chainedgp.likelihoods, for "
            f"example likelihoods.HetGaussian(); got {got}."
        )
    return copy_of(likelihood)


def checked_inducing(Z: Data, b: int, columns: int) -> Array | list[Array]:
    """Z as one array (M, D) for all latents, or a list of b arrays."""
    if isinstance(Z, list | tuple) and len(Z) and all(np.ndim(z) == 2 for z in Z):
        if len(Z) != b:
            raise InputError(
                f"Z has {len(Z)} arrays but the likelihood has {b} latents; give an array for each "
                "latent, or one for all."
            )
        return [as_inputs(z, f"Z[{j}]", columns) for j, z in enumerate(Z)]
    return as_inputs(Z, "Z", columns)


def checked_jitter(value: object) -> float:
    """A relative jitter in (0, 1)."""
    if not (isinstance(value, int | float | np.floating) and 0.0 < value < 1.0):
        raise InputError(f"jitter must be a number between 0 and 1; got {value!r}.")
    return float(value)
