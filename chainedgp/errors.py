"""Named errors and warnings; their messages say what was wrong, what was expected, what to do."""

import inspect
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.linalg import LinAlgError

__all__ = [
    "ArgumentError",
    "CensoringWarning",
    "ChainedGPWarning",
    "ClusterError",
    "ConvergenceWarning",
    "ExtrapolationWarning",
    "InputError",
    "MetadataWarning",
    "MomentWarning",
    "NoiseWarning",
    "NumericalError",
    "QuadratureWarning",
    "ScalingWarning",
    "TargetWarning",
    "UnfittedWarning",
]


NOT_FINITE = (
    "the bound is not finite at these hyperparameters and this q: a variance or a mean is so large "
    "that the density overflows. Standardise the data, start from smaller variances, or let the "
    "default method find q: m.optimize()."
)


class InputError(ValueError):
    """An argument cannot be used: the message says what was expected, what came, and what to do.

    rows : numbers of the rows that it names.
    """

    def __init__(self, *words: object, rows: Sequence[int] | np.ndarray = ()) -> None:
        super().__init__(*words)
        self.rows = rows


class ArgumentError(InputError, TypeError):
    """An argument has an unknown name; the message suggests the name that was probably meant."""


class NumericalError(LinAlgError):
    """A matrix could not be factorised, or the bound is not finite, at the given parameters."""


class ClusterError(Exception):
    """A Dask cluster has no workers left to hold the rows."""


class ChainedGPWarning(UserWarning):
    """Base of all warnings of this package."""


class ConvergenceWarning(ChainedGPWarning):
    """An optimisation stopped before it converged; the model holds the best parameters seen."""


class QuadratureWarning(ChainedGPWarning):
    """The number of quadrature nodes cannot meet the error tolerance at the current posterior."""


class ScalingWarning(ChainedGPWarning):
    """The data are scaled so badly that default starting values are of little use."""


class TargetWarning(ChainedGPWarning):
    """Many rows have the same target, or all rows are censored."""


class NoiseWarning(ChainedGPWarning):
    """Some noise has vanished in the fit: predictions are far more certain than they should be."""


class UnfittedWarning(ChainedGPWarning):
    """A model that was never fitted makes predictions; they are its prior, centred on the data."""


class CensoringWarning(ChainedGPWarning):
    """A fit of event times has no metadata `censored`, so all times count as events."""


class MetadataWarning(ChainedGPWarning):
    """Rows are scored without metadata that the fit had, such as which of them are censored."""


class ExtrapolationWarning(ChainedGPWarning):
    """A prediction depends on times far beyond those of the data."""


class MomentWarning(ChainedGPWarning):
    """A predictive moment does not exist (is infinite); quantiles do exist."""


MOST_NAMED = 8  # Messages list at most so many names.


def quoted(names: Sequence[object]) -> str:
    """Names in quotes, for a message: the first few of them, and how many more there are."""
    shown = ", ".join(map(repr, names[:MOST_NAMED]))
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


# These modules call this one for a user, whose own line lies farther out.
PACKAGE = __name__.partition(".")[0]
BETWEEN = frozenset({PACKAGE, "concurrent", "functools", "joblib", "paramz", "sklearn"})


def warn(text: str, category: type[Warning] = ChainedGPWarning) -> None:
    """Warn at the user's line: that of the first caller outside this package and its helpers.

    A number of levels cannot say so, because a warning is reached on ways of different lengths.
    """
    frame, level = inspect.currentframe(), 1
    caller = frame.f_back if frame is not None else None
    while caller is not None:
        if str(caller.f_globals.get("__name__", "")).partition(".")[0] not in BETWEEN:
            break
        caller, level = caller.f_back, level + 1
    warnings.warn(text, category, stacklevel=level + 1 if caller is not None else 2)
