"""The population of rows that effects are averaged over, and the values its inputs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...data.arguments import positive_int
from ...data.columns import Boolean, Category, Column, Date, Duration, Number
from ...data.rows import WEIGHTS
from ...data.types import Data, Metadata
from ...errors import ChainedGPWarning, InputError, warn
from ...linalg import Array, Indices
from ...parameters.roles import Role
from ...predictive.fitted import FittedModel
from ...predictive.inputs import (
    column_index,
    column_of,
    grouped,
    input_names,
    metadata_at_rest,
    need_rows,
)
from ...predictive.predictor import Predictor

ROWS, CURVE_ROWS = (200, 100, 25), (1000, 400, 50)
"""Importance averages over at most ROWS rows, and curves over CURVE_ROWS, by default, for a
likelihood with one, two, or three and more latents: an integral over more latents takes longer."""
FEW_VALUES = 8  # A column with at most this many different values is shown as a category.
POINTS_A_PERIOD = 4  # A curve with fewer points in a season would show another, slower season.
ENDS = (0.01, 0.99)  # A curve runs between these quantiles of the column that it varies.
Groups = Mapping[str, Sequence[int | str]] | None


@dataclass(frozen=True)
class Population:
    """The rows that effects are averaged over, and the model's predictor at its current parameters.

    Parameters
    ----------
    predictor : predicts at any rows, by the model's current parameters.
    names : the names of the inputs, or groups of inputs, whose effects can be asked for.
    columns : for each of these, the indices of its columns.
    input_names, read : names of all D columns, and how each was read from the data.
    X, weights : the rows (n, D) of an average, and their shares (n,), which sum to 1.
    numbers : (n,) the indices of these rows among all rows.
    every, shares : all rows (N, D), from which values of an input are redrawn, and their shares.
    metadata : values that all rows share, one each, such as a typical exposure.
    """

    predictor: Predictor
    names: list[str]
    columns: list[list[int]]
    input_names: list[str]
    read: list[Column]
    X: Array
    weights: Array
    numbers: Indices
    every: Array
    shares: Array
    metadata: dict[str, Data]

    @classmethod
    def of(
        cls,
        model: FittedModel,
        groups: Groups = None,
        X: Data | None = None,
        rows: int | None = None,
        Y_metadata: Metadata = None,
        curve: bool = False,
    ) -> Population:
        """Choose the rows for effects, of a model or of X; if many, at random with a fixed seed.

        rows : the largest number of rows; None takes ROWS, or CURVE_ROWS if they are for a curve.
        The rows count by their weights, if the model has any.
        """
        predictor, (names, columns) = model._predictor(), grouped(model, groups)
        metadata = metadata_at_rest(model, Y_metadata)
        if any(np.ndim(value) for value in metadata.values()):
            raise InputError("Y_metadata of effects must be one value each, the same in all rows.")
        weights = model.Y_metadata.get(WEIGHTS) if X is None else None
        if X is None:
            need_rows(model, "rows to average effects over, X=…")
        every = np.asarray(model.X) if X is None else predictor.inputs(X, "X")
        shares = np.ones(len(every)) if weights is None else np.asarray(weights, dtype=float)
        shares = shares / shares.sum()
        chosen = np.arange(len(every))
        default = (CURVE_ROWS if curve else ROWS)[min(len(model.latents), 3) - 1]
        rows = default if rows is None else positive_int(rows, "rows")
        if rows < len(every):
            chosen = np.sort(np.random.default_rng(0).choice(len(every), rows, replace=False))
        kept = shares[chosen]
        if not kept.sum() > 0.0:  # All weight lies in rows that were not chosen.
            chosen, kept = np.arange(len(every)), shares
        return cls(
            predictor,
            names,
            columns,
            input_names(model),
            [column_of(model, d) for d in range(every.shape[1])],
            every[chosen],
            kept / kept.sum(),
            chosen,
            every,
            shares,
            metadata,
        )

    def place(self, model: FittedModel, input: int | str) -> int:
        """Index among `names` of an input, or a named group of inputs, whose effect is wanted."""
        if isinstance(input, str) and input in self.names:
            return self.names.index(input)
        column = column_index(model, input)
        for place, columns in enumerate(self.columns):
            if columns == [column]:
                return place
        raise InputError(
            f"input {self.input_names[column]!r} is part of a group: give the name of that, one of "
            f"{', '.join(self.names)}."
        )

    def with_values(self, columns: Sequence[int], values: Array) -> Array:
        """The population's rows X with these values (c,) in some columns."""
        rows = self.X.copy()
        rows[:, list(columns)] = values
        return rows

    def shown_values(self, columns: Sequence[int], num: int) -> Array:
        """Values (k, c) at which to show an effect: those of a category, or a grid of `num`."""
        if self.is_category(columns):
            seen = np.unique(self.every[:, list(columns)], axis=0)
            if len(columns) > 1 and self._coded(columns):
                return seen[::-1]  # The order is (1, 0, 0), (0, 1, 0), …
            return seen
        if len(columns) > 1:
            raise InputError(
                f"the group of {', '.join(self.input_names[d] for d in columns)} has more than "
                f"{FEW_VALUES} combinations of values: give some of them, values=[[…], …]."
            )
        low, high = np.quantile(self.every[:, columns[0]], ENDS)
        grid = np.linspace(low, high, positive_int(num, "num"))
        self._warn_of_seasons(columns[0], float(high - low), len(grid))
        return grid[:, None]

    def _warn_of_seasons(self, column: int, width: float, num: int) -> None:
        """Warn if a grid has too few points for a season: its curve would show a slower one."""
        parts = [part for prior in self.predictor.priors for part in prior.kernel.simple_parts]
        leaves = [p.leaves_with(Role.PERIOD) for p in parts if column in p.columns]
        periods = [float(leaf.values.min()) for found in leaves for leaf in found]
        needed = int(np.ceil(POINTS_A_PERIOD * width / min(periods))) + 1 if periods else 0
        if num < needed:
            warn(
                f"{num} points along {self.input_names[column]!r} are too few to show its season, "
                f"and would suggest a slower one: give num={needed}, or values= of one season.",
                ChainedGPWarning,
            )

    def is_category(self, columns: Sequence[int]) -> bool:
        """Whether effects of an input are shown by value: it has levels, or few values."""
        if len(columns) == 1 and isinstance(self.read[columns[0]], Category | Date | Duration):
            return isinstance(self.read[columns[0]], Category)
        return len(np.unique(self.every[:, list(columns)], axis=0)) <= FEW_VALUES

    def labels(self, columns: Sequence[int], values: Array) -> np.ndarray:
        """Values (k, c) of an input as labels (k,) of its effects: numbers, dates or levels.

        A group of columns is labelled by all its values in words. If its columns are 0 or 1, and
        at most one is 1, they code a category: the label is the name of the column that is 1.
        """
        if len(columns) == 1:
            return self.read[columns[0]].back(values[:, 0])
        return np.array([self._words(columns, row) for row in values])

    def _words(self, columns: Sequence[int], row: Array) -> str:
        """The values (c,) of a group of inputs, in words."""
        own = [self.input_names[d] for d in columns]
        if self._coded(columns) and np.isin(row, (0.0, 1.0)).all() and row.sum() <= 1.0:
            return own[int(np.argmax(row))] if row.any() else f"no {', '.join(own)}"
        shown = [self.read[d].shown(value) for d, value in zip(columns, row, strict=True)]
        return ", ".join(f"{name} = {value}" for name, value in zip(own, shown, strict=True))

    def _coded(self, columns: Sequence[int]) -> bool:
        """Whether 0 may mean "no" in all these columns: it is also the code of a first level."""
        return all(isinstance(self.read[d], Number | Boolean) for d in columns)
