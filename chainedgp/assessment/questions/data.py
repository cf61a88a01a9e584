"""The question of `m.check()` about the data: are the numbers in X and Y badly scaled?"""

from __future__ import annotations

import numpy as np

from ...inference.starts import FEW_DIGITS, input_spread
from .evidence import Evidence, Finding, worst

FAR = 30.0  # A value is far from the others if it is so many standard deviations from the median.
# Tables have these numbers, or their negatives, where a value is missing.
MISSING_CODES = (99.0, 999.0, 9999.0, 99999.0, 999999.0)


def scaling(e: Evidence) -> Finding:
    """Find columns of X, and targets, whose numbers are badly scaled for the computation."""
    rows = e.some(10_000)
    X = e.problem.rows.inputs(rows)
    names = e.input_names or range(X.shape[1])
    spread, size = X.std(axis=0), np.abs(X).max(axis=0)
    away = np.abs(X - np.median(X, axis=0)) / input_spread(X)
    z = away.max(axis=0)
    notes, levels = [], ["ok"]
    codes = {int(d) for kernel in e.problem.parts.kernels for d in kernel.level_columns}
    for d, name in enumerate(names):
        if spread[d] <= 1e-12 * size[d]:
            notes.append((f"Column {name} of X is constant.", "Leave the column out."))
        elif spread[d] < 100.0 * FEW_DIGITS * size[d]:
            notes.append((
                f"Column {name} of X varies by only {spread[d]:.1g} around {size[d]:.1g}, so that "
                "distances are inaccurate.", "Subtract the mean of the column."))  # fmt: skip
            levels.append("problem" if spread[d] < FEW_DIGITS * size[d] else "look")
        elif z[d] > FAR and d not in codes:
            far = away[:, d] > FAR
            if len(value := np.unique(X[far, d])) == 1 and abs(value[0]) in MISSING_CODES:
                notes.append((
                    f"Column {name} of X has the value {value[0]:g}, far from all others, in "
                    f"{'row' if far.sum() == 1 else f'{far.sum()} rows,'} {e.listed(rows[far])}.",
                    "It may be a code for a missing value: replace it by NaN, and give "
                    'missing="drop".'))  # fmt: skip
                continue
            notes.append((
                f"Column {name} of X has values {z[d]:.0f} standard deviations from its median.",
                "Take logarithms or ranks of the column."))  # fmt: skip
    standard = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    R = np.triu(np.abs(standard.T @ standard) / len(X), 1)
    for c, d in np.argwhere(R > 1.0 - 1e-6)[:3]:
        notes.append(
            (
                f"Columns {names[c]} and {names[d]} of X carry the same information.",
                "Leave one out.",
            )
        )
    support = e.likelihood.target_support
    if support.continuous and not support.bounded:
        if e.y.std() <= 1e-12 * np.abs(e.y).max():
            notes.append(("All targets are the same.", "There is nothing to model."))
            levels.append("problem")
        elif e.y.std() < 100.0 * FEW_DIGITS * np.abs(e.y).max():
            notes.append(("Y varies little around a large value.", "Subtract the mean of Y."))
    if not notes:
        return Finding("scaling", "ok", "X and Y are well scaled.")
    messages, remedies = (" ".join(dict.fromkeys(part)) for part in zip(*notes, strict=True))
    cause = "The units or the origin of the columns do not suit the computation."
    return Finding("scaling", worst([*levels, "look"]), messages, cause, remedies)
