"""How one column of a table is read: what all kinds of columns have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .reading import holds_nothing, is_missing
from .types import Data


@dataclass(frozen=True)
class Column:
    """How one column is read: as the float64 array that a model sees.

    name : of the column in the frame.
    """

    name: str
    kind: ClassVar[str] = ""

    @property
    def words(self) -> str:
        """How it was read, for people."""
        return self.kind

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the only values that it has, 0, 1, 2, …; none where it may have others."""
        return ()

    def read(self, column: Data, owner: str) -> Array:
        """Values (n,) of a column, NaN where one is missing.

        owner : what a message calls the frame.
        """
        if holds_nothing(column):
            return np.full(len(np.asarray(column)), np.nan)
        return self._read(column, owner)

    def _read(self, column: Data, owner: str) -> Array:
        """Values (n,) of a column that has one or more."""
        raise NotImplementedError

    def check(self, values: Array, owner: str) -> None:
        """Raise InputError where numbers (n,) that were given by an array cannot be this column."""

    def number(self, value: object) -> float:
        """One value of a user's as the number that a model sees."""
        if is_missing(value):
            raise InputError(f"the value of column {self.name!r} is missing; got {value!r}.")
        return self._number(value)

    def _number(self, value: Any) -> float:
        """One value that is there."""
        column = np.empty(1, dtype=object)
        column[0] = value
        return float(self.read(column, "the value")[0])

    def is_new(self, value: float, given: object) -> bool:
        """Whether a number stands for a name that the data do not have."""
        return isinstance(given, str) and bool(self.level_names) and value >= len(self.level_names)

    def shown(self, value: float) -> str:
        """A number that a model sees, in the words of the table."""
        return f"{value:.3g}"

    def back(self, values: Array) -> np.ndarray:
        """Numbers (n,) that a model sees as the table had them."""
        return values

    def period(self, value: object) -> float:
        """The length of a season in the unit of the column."""
        number = value if isinstance(value, int | float | np.number) else np.nan
        if isinstance(value, bool) or not 0.0 < float(number) < np.inf:
            raise InputError(
                f"periodic[{self.name!r}] must be a positive number, the season in the unit of the "
                f"column; got {value!r}."
            )
        return float(number)

    def stored(self) -> dict[str, object]:
        """What a file keeps of it, by `from_stored` made into the same again."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **own}


def no_seasons(column: Column, what: str) -> InputError:
    """The error for a season of a column that has no order in time."""
    return InputError(
        f"periodic names {column.name!r}, which {what}; expected a column of numbers or dates."
    )
