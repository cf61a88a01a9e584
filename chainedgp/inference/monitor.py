"""The monitor of an optimisation as it runs: trace, progress bar, callback, best point so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..data.arguments import shows_progress
from ..errors import ConvergenceWarning, warn
from .lbfgs import Outcome
from .result import FINISHED, INTERRUPTED, OUT_OF_PATIENCE, OptimizationResult, TracePoint


class Monitor:
    """Monitors one optimisation inside a `with`: trace, progress bar, callback and time.

    The bar shows when `messages` is true, or is None and a person is watching.
    """

    def __init__(
        self,
        method: str,
        messages: bool | None = False,
        callback: Callable[[TracePoint], object] | None = None,
        checkpoint: Callable[[], None] | None = None,
        every: int = 10,
    ) -> None:
        self.method, self.callback = method, callback
        self.checkpoint, self.every = checkpoint, every
        self.trace: list[TracePoint] = []
        self.notes: list[str] = []
        self.stop_reason: str | None = None
        self._by_callback = False
        self.held_out: list[float] = []  # This is the NLPD after each epoch.
        self.estimates: list[tuple[float, float]] = []  # The bound has a standard error each.
        self.scale = 1.0  # A row of this fit stands for this many rows of the data.
        self.start = ""  # This is the name of the start that was chosen.
        self.starts: dict[str, float] = {}  # Each has bound + log prior after its rough fit.
        self.best_value = np.inf  # This is −(bound + log prior) of the point that is kept.
        self._owner: object = None
        self._put_back: Callable[[], None] | None = None
        self._start = time.perf_counter()
        self._bar = _progress_bar(method, messages)

    @property
    def seconds(self) -> float:
        """Seconds since the start of the optimisation."""
        return time.perf_counter() - self._start

    def point(self, bound: float, likelihood: float, theta: int) -> None:
        """Record an accepted point of the optimisation, and tell the bar and the callback."""
        self.record(bound, likelihood, theta)
        self.tell(self.trace[-1])
        if self.checkpoint is not None and len(self.trace) % self.every == 0:
            self.checkpoint()

    def record(self, bound: float, likelihood: float, theta: int) -> None:
        """Put an accepted point into the trace and on the progress bar."""
        self.trace.append(TracePoint(bound, likelihood, theta, self.seconds))
        if self._bar is not None:
            self._bar.set_postfix_str(f"bound {bound:.6g}", refresh=False)
            self._bar.update()

    def tell(self, point: TracePoint) -> None:
        """Show an accepted point to the user's callback, which may stop the fit."""
        if self.callback is not None and self.callback(point):
            self.stop("stopped by the callback")
            self._by_callback = True

    def keep(self, owner: object, value: float, put_back: Callable[[], None]) -> None:
        """Remember the best point, to which the model returns after an error or an interrupt.

        A point of the same owner, such as one descent, replaces its last one, as a descent only
        improves; a point of another owner must be better.

        value : −(bound + log prior). put_back : writes θ and q of the point into their leaves.
        """
        if owner is self._owner or value <= self.best_value:
            self._owner, self.best_value, self._put_back = owner, value, put_back

    def choose(self, start: str, starts: dict[str, float], passes: float) -> None:
        """Remember which start of the fit was chosen, how good each was, and the passes it took."""
        self.start, self.starts = start, starts

    def say(self, doing: str) -> None:
        """Show on the progress bar what the optimisation is doing now."""
        if self._bar is not None:
            self._bar.set_description(doing)

    def put_back_best(self) -> None:
        """Put θ and q of the best point that was kept into the leaves."""
        if self._put_back is not None:
            self._put_back()

    def is_watched(self) -> bool:
        """Whether callback or checkpoint will look at the next point, so that q must be current."""
        due = self.checkpoint is not None and (len(self.trace) + 1) % self.every == 0
        return due or self.callback is not None

    def estimate(self, bound: float, error: float, passes: float, steps: int) -> None:
        """Record the bound that the batches of an epoch estimate, with its standard error."""
        self.estimates.append((bound, error))
        self.point(bound, passes, steps)

    def stop(self, reason: str) -> None:
        """Ask the optimisation to stop at its next step."""
        self.stop_reason = reason

    def note(self, message: str) -> None:
        """Add a note to the optimisation's result, once."""
        if message not in self.notes:
            self.notes.append(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.refresh()  # A short fit ends before the bar first looks.
            self._bar.close()

    def result(
        self, outcome: Outcome, bound: float, counts: tuple[float, int], log_prior: float = 0.0
    ) -> OptimizationResult:
        """The result of the optimisation; warns if it did not converge."""
        converged, reason = outcome.converged, outcome.reason
        status = "interrupted" if reason == INTERRUPTED else "stopped"
        status = "finished" if reason.startswith((FINISHED, OUT_OF_PATIENCE)) else status
        status = "converged" if converged else status
        if status == "stopped" and not self._by_callback:
            text = (
                f"{self.method} stopped before convergence: {reason}. The model holds the best "
                "parameters seen; call optimize() again to go on."
            )
            self.note(text)
            warn(text, ConvergenceWarning)
        return OptimizationResult(
            self.method,
            converged,
            status,
            reason,
            bound,
            outcome.iterations,
            *counts,
            self.seconds,
            self.trace,
            self.notes,
            self.held_out,
            self.estimates,
            log_prior,
            self.start,
            self.starts,
        )


class Stage(Monitor):
    """The monitor of a first stage of a fit; what stops the stage from outside stops the whole fit.

    The callback sees the points of the stage, with the bound and the passes scaled to all rows;
    they are not in the trace.

    whole : the monitor of the whole fit. scale : how many rows a row of the stage stands for.
    most : number of passes over the rows of the stage after which it ends.
    """

    def __init__(self, whole: Monitor, scale: float, most: float = np.inf) -> None:
        super().__init__("subset")
        self.whole, self.most = whole, most
        self.factor, self.scale = scale, scale * whole.scale

    def tell(self, point: TracePoint) -> None:
        """Show a point of the stage, scaled to all rows, to the callback of the whole fit."""
        bound, likelihood, theta, _ = point
        seconds = self.whole.seconds
        self.whole.tell(TracePoint(bound * self.factor, likelihood / self.factor, theta, seconds))
        if self.whole.stop_reason is not None:
            self.stop(self.whole.stop_reason)
        elif likelihood >= self.most:
            self.stop("this is enough for a start")

    def is_watched(self) -> bool:
        """Whether the callback of the whole fit looks at the points of the stage."""
        return self.whole.callback is not None

    def keep(self, owner: object, value: float, put_back: Callable[[], None]) -> None:
        """Remember a point of the stage as the best one of the whole fit."""
        self.whole.keep(owner, value, put_back)

    def choose(self, start: str, starts: dict[str, float], passes: float) -> None:
        """Tell the whole fit which start was chosen; the limit of passes is on what comes after."""
        self.whole.choose(start, starts, passes / self.factor)
        self.most += passes

    def say(self, doing: str) -> None:
        """Show on the progress bar of the whole fit what the stage is doing now."""
        self.whole.say(doing)


def _progress_bar(method: str, messages: bool | None) -> Any:
    if not shows_progress(messages):
        return None
    from tqdm.auto import tqdm

    return tqdm(desc=method, unit="it", leave=False)
