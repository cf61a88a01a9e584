"""What all questions of `m.check()` share: the evidence to answer from, the form of a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...data.row_names import where
from ...data.rows import rows_of
from ...inference.problem import Problem
from ...inference.result import OptimizationResult
from ...linalg import Array
from ...predictive.distribution import Predictive
from ...predictive.observed import pit_ends
from ..loo import LeftOut


@dataclass(frozen=True)
class Finding:
    """The answer to one question of `m.check()`.

    Attributes
    ----------
    name : the name of the question, by which `Check` is indexed.
    level : "ok", "look" or "problem".
    message : what was found, in words.
    cause, remedy : where it may come from and what to do; both are empty if the level is "ok".
    values : the numbers from which the message was made.
    """

    name: str
    level: str
    message: str
    cause: str = ""
    remedy: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.level == "ok":
            object.__setattr__(self, "cause", "")
            object.__setattr__(self, "remedy", "")


class Evidence:
    """A fitted model with the quantities that several questions of `m.check()` need, computed once.

    Parameters
    ----------
    problem : the bound of the model.
    result : how its last fit ended; None if there was none.
    input_names : the names of the columns of X, or None.
    most : largest number of rows that are looked at one by one; if there are more, `rng` draws
        this many of them.
    """

    def __init__(
        self,
        problem: Problem,
        result: OptimizationResult | None,
        input_names: Sequence[str] | None,
        most: int,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.result, self.input_names, self.rng = problem, result, input_names, rng
        self.likelihood = problem.parts.likelihood
        self.N = problem.num_rows
        self.rows = self.some(most)
        self.capped: list[str] = []
        self.left = LeftOut(problem)
        self.y = problem.rows.targets()
        if len(self.rows) < self.N:
            self.capped.append(
                f"quadrature, Pareto k, outliers and noise: {len(self.rows)} of {self.N} rows, "
                "drawn at random; check(rows=…) takes more"
            )

    def some(self, most: int) -> np.ndarray:
        """Draw at most this many of the model's rows at random; their indices, ascending."""
        if self.N <= most:
            return np.arange(self.N)
        return np.sort(self.rng.choice(self.N, most, replace=False))

    def metadata(self, rows: np.ndarray) -> dict[str, Array]:
        """Metadata of some of the model's rows, such as censoring, without the row weights."""
        return rows_of(self.left.rows.metadata, rows)

    @cached_property
    def _cavities(self) -> tuple[Array, Array]:
        means, variances, proper = self.left.without_sites()
        means[~proper], variances[~proper] = self.left.means[~proper], self.left.variances[~proper]
        return means, variances

    def left_out(self, rows: np.ndarray) -> Predictive:
        """The leave-one-out predictive distribution of some rows, each without its own target."""
        means, variances = (part[rows] for part in self._cavities)
        return Predictive(self.likelihood, means, variances, self.metadata(rows))

    def listed(self, rows: np.ndarray) -> str:
        """Some rows in words, by the index of the table that the model was given."""
        return where(rows, self.problem.rows.names)

    def pit(self, rows: np.ndarray) -> tuple[Array, Array]:
        """Both ends, F(y⁻) and F(y), of the leave-one-out PIT of some rows, (n,) each."""
        return pit_ends(self.left_out(rows), self.y[rows])


def graded(value: float, look: float, problem: float) -> str:
    """A finding's level: "problem" or "look" if its number is above that threshold, or "ok"."""
    return "problem" if value > problem else "look" if value > look else "ok"


def worst(levels: list[str]) -> str:
    """The worst of the levels "ok", "look" and "problem" that a finding's parts have."""
    return max(levels, key=("ok", "look", "problem").index)
