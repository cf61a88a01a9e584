"""What an optimisation tells its caller at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..linalg import Array

# A stochastic method cannot tell whether it converged: these are its reasons to end.
FINISHED = "all epochs are done"
OUT_OF_PATIENCE = "no better held-out score"
# The reason of a fit that the user ended by Ctrl-C.
INTERRUPTED = "interrupted"


class TracePoint(NamedTuple):
    """One accepted point: the bound, and the work and time it took to get there."""

    bound: float
    likelihood_evaluations: float  # passes over all rows; a batch is a part of one
    theta_evaluations: int
    seconds: float


@dataclass(repr=False)
class OptimizationResult:
    """How an optimisation ended. The model holds the best parameters seen."""

    method: str
    converged: bool
    #: It is "converged", "stopped", "interrupted" or "finished": a method by batches ended because
    #: all epochs were done, or because its patience with the held-out score was at an end.
    status: str
    reason: str
    bound: float
    iterations: int
    likelihood_evaluations: float  # passes over all rows; a batch is a part of one
    theta_evaluations: int
    seconds: float
    trace: list[TracePoint] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)  # NLPD after each epoch
    estimates: list[tuple[float, float]] = field(default_factory=list)
    #: The log-density of the priors at the end. The fit has raised the sum of it and the bound.
    log_prior: float = 0.0
    #: The start that the fit went on from, "" where there was one only, and the bound plus
    #: log-priors after a rough fit from each.
    start: str = ""
    starts: dict[str, float] = field(default_factory=dict)

    def trace_array(self) -> Array:
        """The trace as (k, 4): bound, likelihood evaluations, θ evaluations, seconds."""
        return np.array(self.trace, dtype=float).reshape(-1, 4)

    def __str__(self) -> str:
        prior = f" and log-prior {self.log_prior:.4g}" if self.log_prior else ""
        return (
            f"{self.status}: {self.reason}. bound {self.bound:.6g}{prior} after {self.iterations} "
            f"iterations, {self.likelihood_evaluations:.5g} likelihood evaluations, "
            f"{self.seconds:.1f} s ({self.method})"
        )

    __repr__ = __str__
