"""The evaluator of a model that was stored without its data."""

from __future__ import annotations

from typing import NoReturn

from ..errors import InputError
from ..posterior.evaluator import Evaluator, Hyperparameters

__all__ = ["WithoutRows"]


class WithoutRows(Evaluator):
    """Has no rows to evaluate a bound on: whoever asks for one is told what to do."""

    def __init__(self) -> None:
        super().__init__([])

    def set_hyperparameters(self, theta: Hyperparameters, scale: float = 1.0) -> NoReturn:
        """Say that rows are needed: a bound is asked for at these hyperparameters."""
        raise InputError(
            "this model was saved without its data, so it can only predict; give it rows by "
            "m.set_data(X, Y, Y_metadata) first."
        )
