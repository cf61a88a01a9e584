"""What a user calls the rows of a table, for messages: the labels of its index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError

MOST_ROWS = 5  # Messages name so many rows at most.
BY_INDEX, WITH_GAPS = "in the index", "counted with the rows that were left out"


@dataclass(frozen=True, eq=False)
class RowNames:
    """Names of n rows that differ from their numbers 0, 1, 2, …

    values : (n,). by : how one finds them in the table.
    """

    values: np.ndarray
    by: str = BY_INDEX

    @classmethod
    def of(cls, *given: object) -> RowNames | None:
        """The index of the first frame or series that has one of its own; None without."""
        for one in given:
            index: Any = getattr(one, "index", None)
            if not hasattr(index, "equals") or hasattr(one, "__dask_graph__"):
                continue
            values = np.asarray(index)
            if values.dtype.kind not in "iu" or not np.array_equal(values, np.arange(len(values))):
                return cls(values)
        return None

    @classmethod
    def joined(cls, parts: Sequence[RowNames | None]) -> RowNames | None:
        """The names of several parts in one; None unless all have names of one kind."""
        found = [part for part in parts if part is not None]
        if len(found) < len(parts) or len({part.by for part in found}) > 1:
            return None
        return cls(np.concatenate([part.values for part in found]), found[0].by)

    def __getitem__(self, rows: slice | np.ndarray) -> RowNames:
        return RowNames(self.values[rows], self.by)

    def listed(self, rows: Sequence[int] | np.ndarray) -> str:
        """Some rows in words, the first few of them."""
        shown = [_word(self.values[row]) for row in rows[:MOST_ROWS]]
        return ", ".join(shown + ["…"] * (len(rows) > MOST_ROWS))


def numbers_of_rows(rows: Sequence[int] | np.ndarray) -> str:
    """Numbers of rows in words, the first few of them."""
    shown = [str(int(row)) for row in rows[:MOST_ROWS]]
    return ", ".join(shown + ["…"] * (len(rows) > MOST_ROWS))


def where(rows: Sequence[int] | np.ndarray, names: RowNames | None) -> str:
    """Some rows by the names that they have, else by their numbers."""
    return numbers_of_rows(rows) if names is None else f"{names.listed(rows)} {names.by}"


@contextmanager
def named_rows(names: RowNames | None) -> Iterator[None]:
    """Errors about rows say what these are called, too."""
    try:
        yield
    except InputError as error:
        if names is None or not len(error.rows):
            raise
        word, are = ("Row", "is") if len(error.rows) == 1 else ("Rows", "are")
        told = f"{word} {numbers_of_rows(error.rows)} {are} {names.listed(error.rows)} {names.by}."
        raise type(error)(f"{error} {told}") from None


def _word(name: object) -> str:
    """A name of a row, texts in quotes."""
    return repr(str(name)) if isinstance(name, str) else str(name)
