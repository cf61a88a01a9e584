"""The report of a broken contract: all faults of a tested object at once, each in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class ContractError(AssertionError):
    """A kernel or likelihood breaks its contract; the message lists every fault in words."""


class Report:
    """Collects faults while the contract of a kernel or likelihood is tested.

    Attributes
    ----------
    faults : list of "method: what is wrong and by how much".
    """

    def __init__(self) -> None:
        self.faults: list[str] = []

    def fault(self, method: str, message: str) -> None:
        """Note one fault of one tested method."""
        self.faults.append(f"{method}: {message}")

    @contextmanager
    def guard(self, method: str) -> Iterator[None]:
        """Turn an exception inside the block into a fault of the tested method."""
        try:
            yield
        except Exception as error:
            self.fault(method, f"raised {type(error).__name__}: {error}")

    def close(
        self,
        method: str,
        message: str,
        got: np.ndarray,
        expected: np.ndarray,
        rtol: float,
        atol: float,
    ) -> bool:
        """Note a fault of a tested method unless |got − expected| ≤ atol + rtol |expected|."""
        got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
        if got.shape != expected.shape:
            self.fault(method, f"{message}: shape {got.shape} instead of {expected.shape}")
            return False
        with np.errstate(invalid="ignore"):
            excess = np.abs(got - expected) - (atol + rtol * np.abs(expected))
        wrong = ~((excess <= 0) | (got == expected))  # NaN is wrong, equal infinities are not
        if not wrong.any():
            return True
        worst = np.unravel_index(
            np.argmax(np.where(wrong, np.nan_to_num(excess, nan=np.inf), -1)), got.shape
        )
        where = f"at {tuple(int(i) for i in worst)} " if worst else ""
        self.fault(
            method,
            f"{message}: {where}got {got[worst]:.9g}, expected {expected[worst]:.9g}, off by "
            f"{abs(got[worst] - expected[worst]):.3g} ({int(wrong.sum())} of {got.size} values "
            "disagree)",
        )
        return False

    def raise_if_any(self, subject: str) -> None:
        """Raise ContractError that lists the faults of the tested object, if there are any."""
        if self.faults:
            lines = "\n".join(f"  - {fault}" for fault in self.faults)
            ways = "1 way" if len(self.faults) == 1 else f"{len(self.faults)} ways"
            raise ContractError(f"{subject} breaks its contract in {ways}:\n{lines}")
