"""The result of an optimisation, which its caller gets at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..linalg import Array

# A stochastic method cannot tell whether it converged; it ends for one of these reasons.
FINISHED = "all epochs are done"
OUT_OF_PATIENCE = "no better held-out score"
# A fit that the user ended by Ctrl-C has this reason.
INTERRUPTED = "interrupted"


class TracePoint(NamedTuple):
    """A point in the trace of an optimisation: the bound, and the work and time it took so far."""

    bound: float
    likelihood_evaluations: float  # It counts passes over all rows; a batch is a part of one.
    theta_evaluations: int
    seconds: float


@dataclass(repr=False)
class OptimizationResult:
    """The result of an optimisation; the model holds the best parameters seen."""

    method: str
    converged: bool
    #: It is "converged", "stopped", "interrupted" or "finished". The last means that a stochastic
    #: method has done all its epochs, or found no better held-out score for too long.
    status: str
    reason: str
    bound: float
    iterations: int
    likelihood_evaluations: float  # It counts passes over all rows; a batch is a part of one.
    theta_evaluations: int
    seconds: float
    trace: list[TracePoint] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)  # This is the NLPD after each epoch.
    #: The bound after each epoch as its batches estimate it, with the standard error.
    estimates: list[tuple[float, float]] = field(default_factory=list)
    #: The log-density of the hyperpriors at the end. The fit maximises its sum with the bound.
    log_prior: float = 0.0
    #: The name of the start that was chosen, "" if there was only one; and for every start the
    #: bound plus log-prior after a rough fit from it.
    start: str = ""
    starts: dict[str, float] = field(default_factory=dict)

    def trace_array(self) -> Array:
        """The trace of the optimisation as (k, 4): bound, likelihood and θ evaluations, seconds."""
        return np.array(self.trace, dtype=float).reshape(-1, 4)

    def __str__(self) -> str:
        prior = f" and log-prior {self.log_prior:.4g}" if self.log_prior else ""
        return (
            f"{self.status}: {self.reason}. bound {self.bound:.6g}{prior} after {self.iterations} "
            f"iterations, {self.likelihood_evaluations:.5g} likelihood evaluations, "
            f"{self.seconds:.1f} s ({self.method})"
        )

    __repr__ = __str__
