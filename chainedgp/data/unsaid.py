"""Metadata that the rows of a fit had, and that rows to be scored come without.

What is not said of a row has a default: its target was observed, from the beginning on, with an
exposure of 1. A score of rows for which that is not true is a number like any other, so that
nobody would notice: there is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..errors import MetadataWarning, warn
from ..linalg import Array


class _Default(NamedTuple):
    """The value that stands for metadata which are not given, and what that means in words."""

    value: float
    words: str


DEFAULTS = {
    "censored": _Default(0.0, "every target counts as observed exactly"),
    "entry": _Default(0.0, "every row counts as followed from time 0 on"),
    "exposure": _Default(1.0, "every row counts with an exposure of 1"),
}
OTHER = "the likelihood's own default stands for it"
# The ends of intervals belong to rows of which `censored` says that they are intervals.
BESIDE_OTHERS = ("y_upper",)


def telling(metadata: Mapping[str, Array]) -> tuple[str, ...]:
    """Names of the metadata that say something: not those that have the default in all rows.

    Of values that are not in memory the name alone counts.
    """
    return tuple(
        name
        for name, values in metadata.items()
        if name not in BESIDE_OTHERS and not _says_nothing(name, values)
    )


def _says_nothing(name: str, values: Array) -> bool:
    """Whether all values are what stands for them where they are not given."""
    here = isinstance(values, np.ndarray) and not isinstance(values, np.memmap)
    return here and name in DEFAULTS and bool(np.all(values == DEFAULTS[name].value))


def unsaid(told: Iterable[str], given: Iterable[str]) -> tuple[str, ...]:
    """Names that the fit was told, and that are not given now."""
    known = set(given)
    return tuple(name for name in told if name not in known)


def warn_of_unsaid(names: Iterable[str]) -> None:
    """Warn, at the user's line, where rows are scored without these metadata of the fit."""
    listed = list(names)
    if not listed:
        return
    means = "; ".join(DEFAULTS[n].words if n in DEFAULTS else f"{n!r}: {OTHER}" for n in listed)
    quoted = ", ".join(repr(name) for name in listed)
    entries = ", ".join(f"{name!r}: …" for name in listed)
    known = {name: DEFAULTS[name].value for name in listed if name in DEFAULTS}
    meant = ", ".join(f"{name!r}: {value:g}" for name, value in known.items())
    sure = f" If that is what you mean, say so and this warning stays away: {{{meant}}}."
    warn(
        f"these rows are scored without Y_metadata {quoted}, which the rows of the fit had: {means}"
        f". Give Y_metadata={{{entries}}} with one value for each row, to "
        "m.log_predictive_density(Xnew, Ynew, Y_metadata) or m.predictive(Xnew, Y_metadata)."
        f"{sure if meant else ''}",
        MetadataWarning,
    )
