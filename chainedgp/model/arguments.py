"""Arguments of a model's constructor, checked: the likelihood, one part per latent, Z, jitter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from paramz import Parameterized

from ..data.columns import Columns, Date, Number
from ..data.rows import Expected, as_inputs
from ..data.types import Data
from ..errors import PACKAGE, InputError
from ..inference.starts import Inputs
from ..kernels import Kernel, Linear, Mixed, Periodic, Stationary
from ..likelihoods import Likelihood
from ..linalg import Array
from ..means import MeanFunction
from ..parameters.parts import copy_of

Kernels: TypeAlias = Parameterized | Sequence[Parameterized] | None
Means: TypeAlias = MeanFunction | Sequence[MeanFunction] | None
"""What users give for kernels and means: one for all latents, one for each, or None; kernels may be
of GPy."""
Periods: TypeAlias = Mapping[str, object] | Mapping[int, object] | str | Sequence[object] | None
"""What users give for `periodic`: seasons by the columns that have them, or those of the only
column of dates."""
OF_NUMBERS = (Stationary, Linear, Periodic, Mixed)
"""Kernels to which columns are quantities, apart from those that they read as levels."""
Part = TypeVar("Part", Kernel, MeanFunction)


def one_per_latent(
    value: object, b: int, name: str, what: str, convert: Callable[[object], Part]
) -> list[Part] | None:
    """The argument of a model for kernels or means as b copies, one per latent, or None.

    None is where the user left it open.

    name, what : what the argument and one entry of it are called, for the error message.
    convert : makes a part of what the user gave, or raises.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        raise InputError(
            f"{name} is {what} for all latents, or a list with one for each, in the order of the "
            f"likelihood's latents; got a {type(value).__name__}."
        )
    parts = list(value) if isinstance(value, list | tuple) else [value] * b
    if len(parts) != b:
        raise InputError(
            f"{name} lists {len(parts)}, but the likelihood has {b} latents; give {what} for "
            "each latent, or one for all."
        )
    return [copy_of(convert(part)) for part in parts]


def as_mean(value: object) -> MeanFunction:
    """Check an entry of the argument `mean_functions` of a model; only mean functions pass."""
    if isinstance(value, MeanFunction):
        return value
    raise InputError(
        "mean_functions must be chainedgp.means.MeanFunction objects, for example "
        f"means.Constant(); got {type(value).__name__}."
    )


def checked_likelihood(likelihood: object) -> Likelihood:
    """Check the argument `likelihood` of a model: a copy of it; a class is an error."""
    if isinstance(likelihood, type) and issubclass(likelihood, Likelihood):
        raise InputError(f"likelihood must be an object: write {likelihood.__name__}().")
    if not isinstance(likelihood, Likelihood):
        got = repr(likelihood) if isinstance(likelihood, str) else type(likelihood).__name__
        raise InputError(
            "likelihood must be an object of one of the classes of chainedgp.likelihoods, for "
            f"example likelihoods.HetGaussian(); got {got}."
        )
    return copy_of(likelihood)


def checked_inducing(Z: Data, b: int, columns: Expected) -> Array | list[Array]:
    """Check the argument Z of a model: one array (M, D) for all latents, or a list of b."""
    if isinstance(Z, list | tuple) and len(Z) and all(np.ndim(z) == 2 for z in Z):
        if len(Z) != b:
            raise InputError(
                f"Z has {len(Z)} arrays but the likelihood has {b} latents; give an array for each "
                "latent, or one for all."
            )
        return [as_inputs(z, f"Z[{j}]", columns) for j, z in enumerate(Z)]
    return as_inputs(Z, "Z", columns)


def checked_jitter(value: object) -> float:
    """Check the argument `jitter` of a model: a share of diag(Kuu) between 0 and 1."""
    if not (isinstance(value, int | float | np.floating) and 0.0 < value < 1.0):
        raise InputError(f"jitter must be a number between 0 and 1; got {value!r}.")
    return float(value)


def kinds_of_inputs(
    columns: Columns | None, names: Sequence[str] | None, D: int, periodic: Periods
) -> Inputs:
    """Which of the D columns of X are categories, and which have seasons (`periodic`).

    columns : how they were read; None where all are numbers. names : of the columns, or None.
    """
    given: Mapping[Any, object]
    if periodic is None:
        given = {}
    elif isinstance(periodic, Mapping):
        given = periodic
    else:
        given = {_only_dates(columns, periodic): periodic}
    seasons = []
    for key, value in given.items():
        listed = list(names or ())
        if isinstance(key, str) and key in listed:
            d = listed.index(key)
        elif isinstance(key, int | np.integer) and 0 <= key < D:
            d = int(key)
        else:
            known = ", ".join(map(repr, listed)) or f"numbers below {D}, as X has no names"
            raise InputError(f"periodic names the column {key!r}; the columns of X are {known}.")
        column = Number(str(key)) if columns is None else columns[d]
        periods = value if isinstance(value, list | tuple) else [value]
        found = [column.period(period) for period in periods]
        if np.unique(np.round(found, 12)).size < len(found):
            raise InputError(f"periodic[{key!r}] has a season twice: {value!r}. Give each once.")
        seasons += [(d, period) for period in found]
    if columns is None:
        return Inputs(seasons=tuple(seasons))
    return Inputs(
        tuple(columns.unordered),
        tuple(len(columns.levels[d]) for d in columns.unordered),
        tuple(columns.ordered),
        tuple(seasons),
    )


def _only_dates(columns: Columns | None, periodic: object) -> str:
    """The name of the only column of dates, to which a season without a column belongs."""
    found = [] if columns is None else [c.name for c in columns.each if isinstance(c, Date)]
    if len(found) != 1:
        what = "several columns of dates, " + ", ".join(map(repr, found)) if found else "none"
        raise InputError(
            f"periodic={periodic!r} names no column, so that it is of the column of dates, but X "
            f"has {what}. Give a dict {{column: period}}, such as {{'month': 12}} for numbers from "
            "1 to 12."
        )
    return found[0]


def check_levels(
    kernels: Sequence[Kernel],
    X: Array,
    names: Sequence[str] | None,
    name: str = "X",
    read: Columns | None = None,
) -> None:
    """Raise InputError where a kernel reads a column of X that it is not for.

    Kernels of categories read codes, and kernels of numbers no codes of levels without an order.

    read : how the columns were read; None where all are numbers.
    """
    for kernel in kernels:
        kernel.check_inputs(X, name)
        _check_numbers(kernel, read)
    for d in np.unique(np.concatenate([kernel.level_columns for kernel in kernels])):
        values = np.asarray(X[:, d], dtype=float)
        bad = np.flatnonzero(values != np.rint(values))
        if bad.size:
            column = f"column {d}" if names is None else f"column {names[d]!r}"
            raise InputError(
                f"{column} of {name} has {values[bad[0]]:g} in row {bad[0]}, but a kernel of "
                "categories reads it: give codes 0, 1, 2, … of levels, or a data frame with a "
                "category there."
            )


def check_own_kernels(kernels: Sequence[Kernel], X: Array) -> None:
    """Raise InputError where a kernel that a user wrote returns arrays of wrong shapes.

    X : a few rows of the data. `testing.check_kernel` checks far more.
    """
    for kernel in kernels:
        check_own_kernels(getattr(kernel, "parts", ()), X)
        if type(kernel).__module__.partition(".")[0] == PACKAGE:
            continue
        n, D = X.shape
        try:
            K, pull = kernel.evaluate(X)
            theta, dL_dX, _ = pull(np.ones((n, n)))
            k, pull_diag = kernel.evaluate_diag(X)
            theta_diag, _ = pull_diag(np.ones(n))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"the kernel {type(kernel).__name__} raised {type(error).__name__}: {error}. "
                "testing.check_kernel tells more."
            ) from error
        size = kernel.size
        for what, value, shape in (
            ("_evaluate returns K", K, (n, n)),
            ("_evaluate_diag returns k", k, (n,)),
            ("the pullback of _evaluate returns dL_dtheta", theta, (size,)),
            ("the pullback of _evaluate returns dL_dX", dL_dX, (n, D)),
            ("the pullback of _evaluate_diag returns dL_dtheta", theta_diag, (size,)),
        ):
            if np.shape(value) != shape:
                raise InputError(
                    f"{type(kernel).__name__}: {what} of shape {np.shape(value)} instead of "
                    f"{shape}. testing.check_kernel tells more."
                )


def _check_numbers(kernel: Kernel, read: Columns | None) -> None:
    """Raise InputError where a kernel of numbers reads a category of three or more levels."""
    for part in kernel.simple_parts if read is not None else ():
        if read is None or not isinstance(part, OF_NUMBERS):
            continue
        quantities = set(part.columns.tolist()) - set(part.level_columns.tolist())
        for d in sorted(quantities & set(read.unordered)):
            if len(read.levels[d]) > 2:
                raise InputError(
                    f"{part.name}: it reads the column {read[d].name!r} as a number, but that is a "
                    "category whose levels have no order. Give the columns of numbers as "
                    "active_dims, and the category a kernel of its own, such as "
                    f"kernels.Categorical(1, active_dims=[{read[d].name!r}]), in a product or a "
                    "sum; or give no kernels, and the model chooses."
                )
