"""A small table of results with named rows and columns, printed or as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """A table of results: named rows and named columns of numbers, words or truth values.

    Parameters
    ----------
    index : names of the k rows.
    columns : name -> (k,) entries.
    footer : rows that are printed below the others, such as means: name -> one number per column.
    title : lines that are printed above, name -> words.
    """

    index: tuple[str, ...]
    columns: dict[str, np.ndarray]
    footer: Mapping[str, Sequence[float]]
    title: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    def __len__(self) -> int:
        return len(self.index)

    def frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame, without the footer."""
        import pandas as pd

        return pd.DataFrame(dict(self.columns), index=list(self.index))

    def __str__(self) -> str:
        values = zip(*self.columns.values(), strict=True)
        body = [[name, *row] for name, row in zip(self.index, values, strict=True)]
        body += [[name, *values] for name, values in self.footer.items()]
        cells = [[str(name), *map(_cell, values)] for name, *values in body]
        cells.insert(0, ["", *self.columns])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in cells
        ]
        width = max(map(len, self.title), default=0)
        return "\n".join([*(f"{key:<{width}} : {v}" for key, v in self.title.items()), *rows])

    __repr__ = __str__


def _cell(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else ""
    return value if isinstance(value, str) else f"{value:.4g}"
