"""What the questions about a fit are answered from, and what an answer is."""

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
    """The answer to one question.

    Attributes
    ----------
    name : of the question, a key of `Check`.
    level : "ok", "look" or "problem".
    message : what was found, in words.
    cause, remedy : where it may come from, what to do; emptied where all is well.
    values : the numbers behind the words.
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
    """A fitted model, and what several questions need of it, computed once.

    Parameters
    ----------
    problem : the bound of the model.
    result : how its last fit ended; None if there was none.
    input_names : of the columns of X, if they have names.
    most : rows, at most, that are looked at one by one; `rng` draws them where there are more.
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
        """At most so many of the rows, ascending."""
        if self.N <= most:
            return np.arange(self.N)
        return np.sort(self.rng.choice(self.N, most, replace=False))

    def metadata(self, rows: np.ndarray) -> dict[str, Array]:
        """Metadata of some rows, without weights."""
        return rows_of(self.left.rows.metadata, rows)

    @cached_property
    def _cavities(self) -> tuple[Array, Array]:
        means, variances, proper = self.left.without_sites()
        means[~proper], variances[~proper] = self.left.means[~proper], self.left.variances[~proper]
        return means, variances

    def left_out(self, rows: np.ndarray) -> Predictive:
        """The predictive distribution of some rows, each without its own target."""
        means, variances = (part[rows] for part in self._cavities)
        return Predictive(self.likelihood, means, variances, self.metadata(rows))

    def listed(self, rows: np.ndarray) -> str:
        """Some rows in words, by the index of the table that the model was given."""
        return where(rows, self.problem.rows.names)

    def pit(self, rows: np.ndarray) -> tuple[Array, Array]:
        """Ends of the leave-one-out PIT of some rows."""
        return pit_ends(self.left_out(rows), self.y[rows])


def graded(value: float, look: float, problem: float) -> str:
    """The level of a number that is the worse the larger it is."""
    return "problem" if value > problem else "look" if value > look else "ok"


def worst(levels: list[str]) -> str:
    """The worst of some levels."""
    return max(levels, key=("ok", "look", "problem").index)
