"""Kinds of columns in a data frame: numbers, truth values and categories; dates are in `times`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..linalg import Array
from .column import Column, no_seasons
from .labels import labels_of
from .reading import SECONDS, floats_in, kind_of, label_of
from .times import Date, Duration
from .types import Data

WHOLE, NUMBER = r"[-+]?\d+", r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"
"""Patterns of levels, as text, that are whole numbers and numbers."""
SET_UNSEEN = 'set m.unseen = "prior"'  # Error messages say this; estimators replace it by theirs.
MOST_NAMED = 8  # Error messages name at most this many levels.


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
        return {0.0: "False", 1.0: "True"}.get(float(value), f"{value:.3g}")

    def back(self, values: Array) -> np.ndarray:
        """Turn numbers of the model back into truth values, if all are 0 or 1."""
        return values.astype(bool) if np.isin(values, (0.0, 1.0)).all() else values

    def period(self, value: object) -> float:
        """Raise InputError: a column of truth values has no seasons."""
        raise no_seasons(self, "has truth values")


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
        raise no_seasons(self, "is a category")


KINDS: dict[str, type[Column]] = {
    cls.kind: cls for cls in (Number, Boolean, Category, Date, Duration)
}


def column_from(stored: Mapping[str, object]) -> Column:
    """Make the description of one column that a file holds, and check the types of its fields."""
    known: dict[str, Any] = {**stored}
    cls = KINDS[known.pop("kind")]
    if "levels" in known:
        known["levels"] = tuple(known["levels"])
        if not known["levels"] or not all(isinstance(level, str) for level in known["levels"]):
            raise ValueError("levels of a category are no texts")
    column = cls(**known)
    if getattr(column, "unit", "days") not in SECONDS:
        raise ValueError("a unit of time is unknown")
    if getattr(column, "unseen", "raise") not in ("raise", "prior"):
        raise ValueError("what to do with levels that were not seen is unknown")
    if isinstance(column, Date):
        np.datetime64(column.start, "s")
    flags = (getattr(column, "ordered", False), getattr(column, "zoned", False))
    texts = (column.name, getattr(column, "zone", "UTC"))
    if not all(isinstance(t, str) for t in texts) or not all(isinstance(f, bool) for f in flags):
        raise TypeError("a name or a flag of a column has a wrong type")
    return column


def _short_number(level: str) -> str:
    """Write a level that is a whole number with a decimal, 1.0, as 1: both are the same level."""
    return level[:-2] if level.endswith(".0") and re.fullmatch(WHOLE, level[:-2]) else level


def _short(names: Sequence[Any]) -> list[str]:
    """The first few names of levels for an error message, and how many more there are."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    return [*shown, f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else shown
