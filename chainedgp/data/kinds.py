"""Kinds of columns in a data frame: numbers, truth values, categories; dates are in `times`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from ..errors import MOST_NAMED, InputError
from ..linalg import Array
from .labels import labels_of
from .reading import floats_in, holds_nothing, is_missing, kind_of, label_of
from .types import Data

WHOLE, NUMBER = r"[-+]?\d+", r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"
"""Patterns of levels, as text, that are whole numbers and numbers."""
SET_UNSEEN = 'set m.unseen = "prior"'  # Error messages say this; estimators replace it by theirs.


def readable(value: float, digits: int = 3) -> str:
    """A number in words: to some digits, but with all digits before the point, 2018 and 125000."""
    if not 10.0**digits - 0.5 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    return f"{value:.{1 if abs(value) < 1e4 else 0}f}".removesuffix(".0")


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
        return readable(value)

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


@dataclass(frozen=True)
class Number(Column):
    """How a column of numbers is read from a data frame: as it is."""

    kind: ClassVar[str] = "number"

    def _read(self, column: Data, owner: str) -> Array:
        """Read a data column of numbers, (n,)."""
        what = kind_of(column)
        if what not in ("number", "boolean"):
            known = what in ("text", "category", "date", "duration")
            raise InputError(
                f"column {self.name!r} of {owner} is a {what}; the model was built with numbers "
                f"there. Give numbers{', or build the model with such a column' if known else ''}."
            )
        return floats_in(column)


@dataclass(frozen=True)
class Boolean(Column):
    """How a column of truth values is read from a data frame: 0 for False and 1 for True."""

    kind: ClassVar[str] = "boolean"

    @property
    def words(self) -> str:
        """Say in words how the column of truth values is read."""
        return "boolean: 0 is False, 1 is True"

    @property
    def level_names(self) -> tuple[str, ...]:
        """Both truth values."""
        return ("False", "True")

    def _read(self, column: Data, owner: str) -> Array:
        """Read a column of truth values, or of numbers 0 and 1, as 0 and 1, (n,)."""
        if kind_of(column) not in ("number", "boolean"):
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind_of(column)}; the model was built with "
                "truth values there. Give True and False, or 0 and 1."
            )
        values = floats_in(column)
        self.check(values, owner)
        return values

    def check(self, values: Array, owner: str) -> None:
        """Raise InputError if a column of truth values has numbers other than 0 and 1."""
        bad = values[~(np.isnan(values) | np.isin(values, (0.0, 1.0)))]
        if bad.size:
            raise InputError(
                f"column {self.name!r} of {owner} has {bad[0]:g}; expected True and False, or 0 "
                "and 1."
            )

    def shown(self, value: float) -> str:
        """Print the numbers of a column of truth values, 0 as False and 1 as True."""
        return {0.0: "False", 1.0: "True"}.get(float(value), readable(value))

    def back(self, values: Array) -> np.ndarray:
        """Turn numbers of the model back into truth values, if all are 0 or 1."""
        return values.astype(bool) if np.isin(values, (0.0, 1.0)).all() else values

    def period(self, value: object) -> float:
        """Raise InputError: a column of truth values has no seasons."""
        raise _no_seasons(self, "has truth values")


@dataclass(frozen=True)
class Category(Column):
    """How a column of text or categories is read: as codes 0, 1, 2, … of its levels.

    levels : the levels, the k-th with code k. ordered : whether that order has a meaning.
    unseen : what to do with levels that the model has not seen. "raise" makes them an error, with
        a hint at "prior", which gives them codes of their own; "never" makes them an error where
        the rows of a fit are read, because a fit knows only its own levels.
    """

    levels: tuple[str, ...]
    ordered: bool = False
    unseen: str = "raise"
    kind: ClassVar[str] = "category"

    @property
    def words(self) -> str:
        """Say in words how the column of categories is read."""
        if self.ordered:
            return f"ordered category: {' < '.join(_short(self.levels))}"
        known = f"category of {len(self.levels)} levels: {', '.join(_short(self.levels))}"
        if self.unseen != "prior":
            return known
        return f"{known}; others, in an array codes from {len(self.levels)} on, are new levels"

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels."""
        return self.levels

    def _read(self, column: Data, owner: str) -> Array:
        """Read the labels in a column of categories as codes (n,), NaN where one is missing."""
        found = labels_of(column)
        values = self._labels(column, owner) if found is None else found.values
        codes: dict[str | None, float] = {None: np.nan}
        codes.update((_short_number(level), code) for level, code in self._codes)
        codes.update(self._codes)
        short = {v: _short_number(v) for v in values if v is not None and v not in codes}
        codes |= {v: codes[own] for v, own in short.items() if own in codes}
        unknown = list(dict.fromkeys(value for value in values if value not in codes))
        if unknown and (self.ordered or self.unseen != "prior"):
            self._refuse(values, unknown, owner)
        codes |= {label: float(len(self.levels) + k) for k, label in enumerate(unknown)}
        return np.array([codes[value] for value in values], dtype=float)

    @property
    def _codes(self) -> list[tuple[str, float]]:
        """The levels of the category and their codes."""
        return [(level, float(k)) for k, level in enumerate(self.levels)]

    def _labels(self, column: Data, owner: str) -> list[str | None]:
        """Read levels of a category that were given as numbers or truth values.

        Other numbers are levels that the model has not seen only where its levels are numbers too.
        """
        values, kind = np.asarray(column), kind_of(column)
        labels = [str(v) if str(v) in self.levels else label_of(v) for v in values]
        known = {*self.levels, *map(_short_number, self.levels), None}
        new = [label for label in labels if label not in known]
        like = WHOLE if all(re.fullmatch(WHOLE, level) for level in self.levels) else NUMBER
        numbers = any(re.fullmatch(NUMBER, level) for level in self.levels)
        fits = kind == "number" and numbers and all(re.fullmatch(like, str(v)) for v in new)
        if new and not fits:
            raise InputError(
                f"column {self.name!r} of {owner} is a {kind} and has {new[0]}, which cannot be a "
                "level beside those that the model knows: "
                f"{', '.join(_short(self.levels))}. Give levels as they were in the data."
            )
        return labels

    def _refuse(self, values: Sequence[str | None], unknown: Sequence[Any], owner: str) -> None:
        """Raise InputError for levels of a category that the model does not know."""
        first = list(values).index(unknown[0])
        ways = "Give one of these"
        if self.unseen == "never":
            ways = (
                "Rows of a fit with other levels need a new model: build it with all rows, or with "
                "these levels among the categories of the column"
            )
        elif not self.ordered:
            ways += (
                f", or {SET_UNSEEN}: a level without data is then predicted from what the others "
                "have in common"
            )
        raise InputError(
            f"column {self.name!r} of {owner} has {'levels' if len(unknown) > 1 else 'a level'} "
            f"that the model does not know: {', '.join(_short(unknown))}, first in row {first}. It "
            f"knows {', '.join(_short(self.levels))}. {ways}.",
            rows=[first],
        )

    def check(self, values: Array, owner: str) -> None:
        """Raise InputError if an array has numbers that are not codes of this category's levels."""
        bad = ((values != np.rint(values)) & ~np.isnan(values)) | np.isinf(values) | (values < 0)
        if self.unseen != "prior" or self.ordered:
            bad |= values >= len(self.levels)
        if bad.any() and values[bad][0] == -1.0:
            raise InputError(
                f"{owner} has -1 in column {self.name!r}, which pandas writes for a level that is "
                "missing. Leave those rows out, or give missing levels a level of their own."
            )
        if bad.any():
            raise InputError(
                f"{owner} has {values[bad][0]:g} in column {self.name!r}; expected the codes of "
                f"its levels, from 0 for {self.levels[0]} to {len(self.levels) - 1} for "
                f"{self.levels[-1]}, or a data frame with the levels themselves."
            )

    def _number(self, value: Any) -> float:
        """The code of one level; a number that is no level is taken for a code itself."""
        levels = {*self.levels, *map(_short_number, self.levels)}
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if number and str(value) not in levels and label_of(value) not in levels:
            code = np.array([float(value)])
            self.check(code, "the value")
            return float(code[0])
        return super()._number(value)

    def shown(self, value: float) -> str:
        """Print a code as the category's level that it stands for."""
        code = int(np.rint(value))
        return self.levels[code] if 0 <= code < len(self.levels) else f"code {code}"

    def back(self, values: Array) -> np.ndarray:
        """Turn codes of the model back into levels of the category."""
        return np.array([self.shown(value) for value in values], dtype=object)

    def period(self, value: object) -> float:
        """Raise InputError: a column of categories has no seasons."""
        raise _no_seasons(self, "is a category")


def _no_seasons(column: Column, what: str) -> InputError:
    """The error for a season of a data column that has no order in time."""
    return InputError(
        f"periodic names {column.name!r}, which {what}; expected a column of numbers or dates."
    )


def _short_number(level: str) -> str:
    """Write a level that is a whole number with a decimal, 1.0, as 1: both are the same level."""
    return level[:-2] if level.endswith(".0") and re.fullmatch(WHOLE, level[:-2]) else level


def _short(names: Sequence[Any]) -> list[str]:
    """The first few names of levels for an error message, and how many more there are."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    return [*shown, f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else shown
