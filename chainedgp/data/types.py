"""Types of the data that users hand over and get back, each defined once.

`Array`, the float64 array of all calculations, is in `linalg`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..linalg import Array

if TYPE_CHECKING:
    import pandas
    import polars
    from scipy.stats import rv_continuous, rv_discrete

Data: TypeAlias = ArrayLike
"""What numpy reads: arrays, memmaps, lists, numbers, data frames, series and Dask arrays."""
Metadata: TypeAlias = Mapping[str, Data] | None
"""Values that belong to rows, such as exposure: name -> one for each row, or one for all rows."""
Value: TypeAlias = float | Array
"""A likelihood's parameter or metadata beside y: one number, or one for each row."""
Keywords: TypeAlias = dict[str, Value]
"""Keywords of a likelihood's methods: its parameters, and the metadata of some rows."""
Seed: TypeAlias = int | np.integer | np.random.Generator | None
"""The source of random numbers: a seed or a generator; None is fresh entropy."""
ScipyFamily: TypeAlias = "rv_continuous | rv_discrete"
"""A distribution of scipy.stats, such as norm."""
FilePath: TypeAlias = str | os.PathLike[str]
"""The place of a file."""
Frame: TypeAlias = "pandas.DataFrame | polars.DataFrame"
"""A data frame as users get it: of the library of the frame that they gave, else of pandas."""
