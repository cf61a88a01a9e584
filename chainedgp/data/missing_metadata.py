"""Metadata such as `censored` that the rows of a fit had and that rows to be scored lack.

Metadata that are left out have a default: the target was observed exactly, the row was followed
from the beginning, its exposure is 1. If that is not true, the score is wrong and looks like any
other, so that nobody would notice: therefore there is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..errors import MetadataWarning, warn
from ..linalg import Array


class _Default(NamedTuple):
    """The value that stands for metadata left out of a score, and in words what that means."""

    value: float
    words: str


DEFAULTS = {
    "censored": _Default(0.0, "every target counts as observed exactly"),
    "entry": _Default(0.0, "every row counts as followed from time 0 on"),
    "exposure": _Default(1.0, "every row counts with an exposure of 1"),
}
OTHER = "the likelihood's own default stands for it"
# The upper ends of intervals are used only in rows whose `censored` says that they are intervals,
# so that a warning about `censored` is enough.
BESIDE_OTHERS = ("y_upper",)


def telling(metadata: Mapping[str, Array]) -> tuple[str, ...]:
    """Names of the metadata that tell something: those that differ from their default in some row.

    Values that are not in memory are not read: their name is taken to tell something.
    """
    return tuple(
        name
        for name, values in metadata.items()
        if name not in BESIDE_OTHERS and not _says_nothing(name, values)
    )


def _says_nothing(name: str, values: Array) -> bool:
    """Whether metadata have in every row the default value, and so tell nothing."""
    here = isinstance(values, np.ndarray) and not isinstance(values, np.memmap)
    return here and name in DEFAULTS and bool(np.all(values == DEFAULTS[name].value))


def unsaid(told: Iterable[str], given: Iterable[str]) -> tuple[str, ...]:
    """Names of metadata that the fit was told and that are not given for the rows to be scored."""
    known = set(given)
    return tuple(name for name in told if name not in known)


def warn_of_unsaid(names: Iterable[str]) -> None:
    """Warn, at the user's line, that rows are scored without these metadata of the fit."""
    listed = list(names)
    if not listed:
        return
    means = "; ".join(DEFAULTS[n].words if n in DEFAULTS else f"{n!r}: {OTHER}" for n in listed)
    quoted = ", ".join(repr(name) for name in listed)
    entries = ", ".join(f"{name!r}: …" for name in listed)
    known = {name: DEFAULTS[name].value for name in listed if name in DEFAULTS}
    meant = ", ".join(f"{name!r}: {value:g}" for name, value in known.items())
    sure = f" If that is right, give {{{meant}}} to avoid this warning."
    warn(
        f"these rows are scored without Y_metadata {quoted}, which the rows of the fit had: {means}"
        f". Give Y_metadata={{{entries}}} with one value for each row, to "
        "m.log_predictive_density(Xnew, Ynew, Y_metadata) or m.predictive(Xnew, Y_metadata)."
        f"{sure if meant else ''}",
        MetadataWarning,
    )
