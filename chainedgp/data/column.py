"""How one column of a data frame is read: the base class of all kinds of columns."""

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
    """How one column of a data frame is read, as the float64 array that a model sees.

    name : the name of the column in the frame.
    """

    name: str
    kind: ClassVar[str] = ""

    @property
    def words(self) -> str:
        """Say in words how the column is read."""
        return self.kind

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the only values that it has, 0, 1, 2, …; none where it may have others."""
        return ()

    def read(self, column: Data, owner: str) -> Array:
        """Read a column of a data frame as numbers (n,), NaN where a value is missing.

        owner : the name of the frame in error messages.
        """
        if holds_nothing(column):
            return np.full(len(np.asarray(column)), np.nan)
        return self._read(column, owner)

    def _read(self, column: Data, owner: str) -> Array:
        """Read a column of a data frame that has at least one value, as numbers (n,)."""
        raise NotImplementedError

    def check(self, values: Array, owner: str) -> None:
        """Raise InputError if numbers (n,) of an array cannot be values of this column."""

    def number(self, value: object) -> float:
        """Read one value of a column, as a user gives it, as the number that a model sees."""
        if is_missing(value):
            raise InputError(f"the value of column {self.name!r} is missing; got {value!r}.")
        return self._number(value)

    def _number(self, value: Any) -> float:
        """Read one value of a column that is not missing as a number."""
        column = np.empty(1, dtype=object)
        column[0] = value
        return float(self.read(column, "the value")[0])

    def is_new(self, value: float, given: object) -> bool:
        """Whether a number stands for a name that the data do not have."""
        return isinstance(given, str) and bool(self.level_names) and value >= len(self.level_names)

    def shown(self, value: float) -> str:
        """Print a number that a model sees as the data frame shows that value."""
        return f"{value:.3g}"

    def back(self, values: Array) -> np.ndarray:
        """Turn numbers (n,) that a model sees back into the values of the data frame."""
        return values

    def period(self, value: object) -> float:
        """Read the length of a season in the unit of the column."""
        number = value if isinstance(value, int | float | np.number) else np.nan
        if isinstance(value, bool) or not 0.0 < float(number) < np.inf:
            raise InputError(
                f"periodic[{self.name!r}] must be a positive number, the season in the unit of the "
                f"column; got {value!r}."
            )
        return float(number)

    def stored(self) -> dict[str, object]:
        """The fields that a file keeps of how the column is read; `column_from` reads them."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **own}


def no_seasons(column: Column, what: str) -> InputError:
    """The error for a season of a data column that has no order in time."""
    return InputError(
        f"periodic names {column.name!r}, which {what}; expected a column of numbers or dates."
    )
