"""What a file holds of a model, between the model and the format: plain values and parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from paramz import Parameterized
from paramz.transformations import Transformation

from ...data.columns import Columns
from ...inference.result import OptimizationResult
from ...kernels import Kernel
from ...likelihoods import Likelihood
from ...linalg import Array, Indices
from ...means import MeanFunction
from ...parameters.leaves import named_leaves
from ...parameters.priors import Prior
from ...posterior.choice import PosteriorName
from ...predictive.constants import Constants
from .archive import FileFormatError


class StoredLeaf(NamedTuple):
    """One stored parameter array: its name below the root, its values, and its constraints.

    A constraint comes with the entries that it holds for, None where it holds for all; paramz's
    `__fixed__` among them marks what is fixed.
    """

    name: str
    values: Array
    constraints: list[tuple[Transformation, np.ndarray | None]]


class StoredRows(NamedTuple):
    """The stored rows of a model, as `ChainedGP.set_data` takes them.

    kept, num_given : their numbers in a table from which rows were left out, and its length.
    """

    X: Array
    Y: Array
    Y_metadata: Mapping[str, Array]
    kept: Indices | None = None
    num_given: int = 0


@dataclass(frozen=True)
class Contents:
    """All that a file stores of a model: arguments of its constructor, then what has changed since.

    Parameters
    ----------
    input_names, column_names, target_name : for prints and plots, and those of frames.
    columns : how the columns of frames are read, where some are no numbers.
    class_names : labels of the classes, where targets were given by these.
    Z : (M, D) inducing inputs of all latents, or an array for each.
    leaves : values and constraints of all parameters, q included.
    hyperpriors : by name of the leaf.
    posterior : the family of q.
    ties : whether targets that several rows share are spread over an interval.
    hyperparameters : whether predictions count the hyperparameters as uncertain.
    widening : roots of the covariance that bands add to q of each group, where it was found; see
        `sampling.widening`.
    of_targets : whether targets, too, are predicted by the wider q.
    constants : how the likelihood's own constants are uncertain, where that was found.
    open_inducing : whether a fit may add inducing inputs, since nobody said how many there are.
    told : names of the metadata that the rows had, where these are not stored.
    rows, sites : None where the model was stored without its data; the last axis of sites are rows.
    result : how the last optimisation ended, if there was one.
    """

    name: str
    input_names: list[str] | None
    column_names: tuple[str, ...] | None
    columns: Columns | None
    target_name: str | None
    class_names: tuple[str, ...] | None
    jitter: float
    num_nodes: int | None
    posterior: PosteriorName
    ties: bool
    hyperparameters: str
    widening: Sequence[Array] | None
    of_targets: bool
    constants: Constants | None
    open_inducing: bool
    likelihood: Likelihood
    kernels: Sequence[Kernel]
    means: Sequence[MeanFunction]
    Z: Array | list[Array]
    leaves: list[StoredLeaf]
    hyperpriors: Mapping[str, Prior]
    told: tuple[str, ...]
    rows: StoredRows | None
    sites: Array | None
    result: OptimizationResult | None

    @property
    def parts(self) -> list[Likelihood | Kernel | MeanFunction]:
        """Likelihood, kernels and means of a stored model, in the order of the file."""
        return [self.likelihood, *self.kernels, *self.means]

    @property
    def num_columns(self) -> int:
        """Number D of inputs of a stored model."""
        return int((self.Z[0] if isinstance(self.Z, list) else self.Z).shape[1])


def leaves_of(root: Parameterized) -> list[StoredLeaf]:
    """Values, constraints and fixes of all leaves of a part or model, to be stored."""
    return [
        StoredLeaf(
            name,
            leaf.values.copy(),
            [
                (what, None if index.size == leaf.size else index)
                for what, index in leaf.constraints.items()
            ],
        )
        for name, leaf in named_leaves(root).items()
    ]


def restore_leaves(root: Parameterized, stored: Sequence[StoredLeaf]) -> None:
    """Write stored constraints, fixes and values into the leaves, which must be those stored."""
    leaves = named_leaves(root)
    if list(leaves) != [record.name for record in stored]:
        raise FileFormatError("its parameters are not those of its parts.")
    for leaf, record in zip(leaves.values(), stored, strict=True):
        if record.values.shape != leaf.shape or record.values.dtype != np.dtype("<f8"):
            raise FileFormatError(
                f"an array {record.values.shape} stands where one of {leaf.shape} belongs."
            )
        leaf.constraints.clear()
        for what, index in record.constraints:
            rows = np.arange(leaf.size) if index is None else index
            inside = rows.dtype.kind == "i" and rows.ndim == 1 and (rows >= 0).all()
            if not inside or not (rows < leaf.size).all():
                raise FileFormatError(f"a constraint of {record.name} is out of range.")
            leaf.constraints.add(what, rows)
    root._connect_fixes()
    # values come last, since constraining changes them
    for leaf, record in zip(leaves.values(), stored, strict=True):
        leaf[...] = record.values
