"""Rows with the same inputs (replicates): they share projections, so that passes cost less.

Kuf, A and the marginals of a row depend on its inputs alone, and everything that is summed over
rows is linear in what the likelihood says of each. So a chunk projects its distinct inputs,
marginals are spread over the rows, and slopes and sites are added up by inputs before the products.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array, Indices

WORTH = 0.75
"""Rows share projections where distinct inputs are at most this share of them."""
PRIME = np.uint64(0x9E3779B97F4A7C15)  # Products with it spread the bits of a hash of inputs.

T = TypeVar("T", np.float64, np.bool_)


def input_numbers(X: Array) -> Indices | None:
    """A number (n,) for each row, the same for rows with the same inputs; None if few have them."""
    X = np.ascontiguousarray(X, dtype=float)
    bits, key = X.view(np.uint64), np.zeros(len(X), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            key = (key ^ column) * PRIME
            key ^= key >> np.uint64(29)
    ordered = np.sort(key)
    if np.count_nonzero(ordered[1:] != ordered[:-1]) + 1 > WORTH * len(X):
        return None
    _, first, numbers = np.unique(key, return_index=True, return_inverse=True)
    same = np.array_equal(bits, bits[first[numbers]])  # Different inputs may have one key.
    return numbers.ravel() if same else None


class Replicates(NamedTuple):
    """The rows of a chunk by their inputs, which several of them share.

    first : (d,) a row of each of the distinct inputs.
    of : (n,) which of these each row has.
    order, starts : the rows sorted by `of`, and where in these each of the d begins.
    """

    first: Indices
    of: Indices
    order: Indices
    starts: Indices

    @staticmethod
    def among(numbers: Indices) -> Replicates | None:
        """Replicates among rows (n,) with these `input_numbers`; None where they are few."""
        _, first, of, counts = np.unique(
            numbers, return_index=True, return_inverse=True, return_counts=True
        )
        if len(first) > WORTH * len(numbers):
            return None
        starts = np.cumsum(counts) - counts
        return Replicates(first, of.ravel(), np.argsort(of.ravel(), kind="stable"), starts)

    def spread(self, of_inputs: NDArray[T]) -> NDArray[T]:
        """Give each row what its inputs have: (…, n) from (…, d)."""
        return of_inputs[..., self.of]

    def gather(self, of_rows: Array) -> Array:
        """Sums over the rows that have the same inputs: (…, d) from (…, n)."""
        return np.add.reduceat(of_rows[..., self.order], self.starts, axis=-1)
