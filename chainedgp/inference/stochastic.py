"""Minibatch methods for large N: natural gradients on q with Adam on θ, and plain step rules.

A batch of B rows stands for all N: its sums are scaled by N/B, which is unbiased.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arguments import as_generator, positive_float, positive_int
from ..errors import InputError, NumericalError
from ..linalg import Array
from ..posterior.evaluator import Evaluator
from ..posterior.gaussian import Gaussian
from ..posterior.shards import Shard
from ..posterior.sums import Gram
from .free_vector import FreeVector
from .lbfgs import Outcome
from .natural_gradients import find_q
from .profile import fit_profile, start_sites
from .result import FINISHED, OUT_OF_PATIENCE, Monitor
from .step_rules import RULES, Adam

__all__ = ["Settings", "fit_natgrad", "fit_step_rule", "read_settings"]

NATURAL_STEP = 0.05
THETA_RATE = 0.005
FINAL_STEPS = 12  # most full passes for q at the end
FINAL_GAP = 1e-5  # nats a row that they may leave
BATCH_NODES = 20  # of a batch where trials would choose them: its noise is larger than their error
SUBSET_SHARE = 0.5  # most of the work that the fit to a subset may take


@dataclass
class Settings:
    """How batches are drawn and when to stop. `holdout` is a fraction of the rows, or None."""

    batch_size: int
    epochs: float
    rng: np.random.Generator
    holdout: float | None = None
    patience: int | None = None
    learning_rate: float | None = None


class Batches:
    """Seeded shuffled batches of the model's rows, held-out rows left out.

    Rows of a memmap are drawn in contiguous blocks: reading single rows from disk would be slow.
    """

    def __init__(self, model: Any, settings: Settings) -> None:
        self.model, self.settings = model, settings
        N = model.X.shape[0]
        order = settings.rng.permutation(N) if settings.holdout else np.arange(N)
        held = round(N * (settings.holdout or 0.0))
        self.held, self.rows = np.sort(order[:held]), np.sort(order[held:])
        self.size = min(settings.batch_size, self.rows.size)
        self._last: Shard | None = None

    def epochs(self) -> Iterator[Array]:
        """Row numbers of one batch after another, without end; each epoch a new order."""
        while True:
            if self.model._data.on_disk:
                starts = np.arange(0, self.rows.size, self.size)
                for start in self.settings.rng.permutation(starts):
                    yield self.rows[start : start + self.size]
            else:
                order = self.settings.rng.permutation(self.rows)
                for start in range(0, order.size, self.size):
                    yield np.sort(order[start : start + self.size])

    def shard(self, rows: Array, *, trials: bool = False) -> Shard:
        """Some rows, metadata and weights with them, on the threads of the last ones.

        trials : whether nodes are chosen by trials, where a likelihood needs these.
        """
        m = self.model
        few = BATCH_NODES if m.likelihood.tries_nodes and not trials else None
        self._last = Shard(
            m._data.take(rows),
            nodes=m.num_nodes or few,
            num_threads=m.num_threads,
            threads_of=self._last,
        )
        return self._last

    def scale(self, rows: Array) -> float:
        """N/B: what a batch stands for."""
        return self.rows.size / rows.size

    def held_out_score(self) -> float:
        """NLPD of the held-out rows."""
        held = self.model._data[self.held]
        return -float(self.model.log_predictive_density(held.X, held.y, held.metadata).mean())


class Run:
    """The loop over batches: counts, the running bound, held-out score, best parameters."""

    def __init__(
        self,
        model: Any,
        monitor: Monitor,
        settings: Settings,
        batches: Batches,
        spent: float = 0.0,
    ) -> None:
        self.model, self.monitor, self.settings = model, monitor, settings
        self.batches = batches
        per_epoch = self.batches.rows.size / self.batches.size
        self.per_epoch = max(1, int(np.ceil(per_epoch)))
        self.total = max(self.per_epoch, round((settings.epochs - spent) * per_epoch))
        self.recent: deque[float] = deque(maxlen=self.per_epoch)
        self.before = model._evaluator.num_likelihood
        self.best: tuple[float, Any] | None = None
        self.waited = self.done = 0  # epochs without a better score, and steps made

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        for step, rows in enumerate(self.batches.epochs()):
            if step >= self.total or self.monitor.stop_reason or self._out_of_patience():
                return
            yield step, rows
            self.done = step + 1

    def outcome(self, interrupted: bool) -> Outcome:
        """How many steps were made, and why no more."""
        reason = self.monitor.stop_reason or FINISHED
        if interrupted:
            reason = "interrupted"
        elif self._out_of_patience():
            reason = f"{OUT_OF_PATIENCE} for {self.waited} epochs"
        return Outcome(np.empty(0), np.nan, self.done, False, reason)

    def decay(self, step: int) -> float:
        """1 over the first half, then linearly to 0."""
        return min(1.0, 2.0 * (1.0 - step / self.total))

    def ends_epoch(self, step: int) -> bool:
        """Whether a step is the last of an epoch, or the last of all."""
        return (step + 1) % self.per_epoch == 0 or step + 1 == self.total

    def record(self, step: int, bound: float) -> None:
        """Note the bound that a batch estimates; at the end of an epoch tell the monitor."""
        if np.isfinite(bound):
            self.recent.append(bound)
        if not (self.recent and self.ends_epoch(step)):
            return
        values = np.array(self.recent)
        error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else np.nan
        passes = self.model._evaluator.num_likelihood - self.before
        self.monitor.estimate(float(values.mean()), error, passes, step + 1)
        if self.settings.holdout:
            score = self.batches.held_out_score()
            self.monitor.held_out.append(score)
            if self.best is None or score < self.best[0]:
                self.best, self.waited = (score, self.model._snapshot()), 0
            else:
                self.waited += 1

    def _out_of_patience(self) -> bool:
        return self.settings.patience is not None and self.waited >= self.settings.patience

    def restore_best(self) -> None:
        """Put the best held-out parameters back."""
        if self.best is not None:
            self.model._restore(self.best[1])


def fit_natgrad(model: Any, monitor: Monitor, settings: Settings) -> Outcome:
    """A profiled fit to a random subset, then natural gradients on batches with Adam on θ.

    The subset's sites, scaled by N/n₀, start q for all rows; steps decay linearly to 0 over the
    second half; full passes settle q at the end.
    """
    batches = Batches(model, settings)
    spent, q = _subset_start(model, monitor, settings, batches)
    run = Run(model, monitor, settings, batches, spent)
    vector, rule = FreeVector(model), Adam()
    rate, interrupted = settings.learning_rate or THETA_RATE, False
    gram = _natural(q)
    evaluator = Evaluator([])
    evaluator.set_hyperparameters(model._theta())
    try:
        for step, rows in run:
            evaluator.take(run.batches.shard(rows), run.batches.scale(rows))
            state = evaluator.evaluate(q, gram, gradient=True)
            model._evaluator.num_likelihood += rows.size / model.X.shape[0]
            model._write_gradients(evaluator.gradient(state, sites_fixed=False))
            model._add_prior_gradients()
            slopes, decay = vector.gradient(), run.decay(step)
            if np.isfinite([state.bound, *slopes]).all():  # else this batch tells nothing
                gram, q = _natural_step(evaluator, gram, state.proposal(), q, NATURAL_STEP * decay)
                _theta_step(vector, rate * decay * rule.step(slopes), model, evaluator)
            if run.ends_epoch(step):
                model._write_q(q)  # for the held-out score and a checkpoint
            run.record(step, state.bound)
    except KeyboardInterrupt:
        interrupted = True
    model._write_q(q)
    run.restore_best()
    _settle(model)
    return run.outcome(interrupted)


def _theta_step(vector: FreeVector, step: Array, model: Any, evaluator: Evaluator) -> None:
    """Move θ by a step, q(v) as it is; stay where that fails."""
    x = vector.read()
    vector.write(x + step)
    try:
        evaluator.set_hyperparameters(model._theta())
    except NumericalError:
        vector.write(x)
        evaluator.set_hyperparameters(model._theta())


def _natural_step(
    evaluator: Evaluator, gram: Gram, ahead: Gram, q: tuple[Gaussian, ...], rho: float
) -> tuple[Gram, tuple[Gaussian, ...]]:
    """(1 − ρ) λ + ρ λ⁺ on the sums, halved while q does not exist."""
    for _ in range(10):
        mixed = Gram(
            [(1.0 - rho) * a + rho * c for a, c in zip(gram.Lam, ahead.Lam, strict=True)],
            [(1.0 - rho) * a + rho * c for a, c in zip(gram.b, ahead.b, strict=True)],
        )
        try:
            return mixed, evaluator.gaussians(mixed)
        except NumericalError:
            rho *= 0.5
    return gram, q


def _natural(q: tuple[Gaussian, ...]) -> Gram:
    """Sums of the sites of a q: Λ = S⁻¹ − I, b = S⁻¹μ."""
    Lam, b = [], []
    for part in q:
        precision = np.linalg.inv(part.S) if part.precision is None else part.precision
        Lam.append(0.5 * (precision + precision.T) - np.eye(part.mu.size))
        b.append(precision @ part.mu)
    return Gram(Lam, b)


def _subset_start(
    model: Any, monitor: Monitor, settings: Settings, batches: Batches
) -> tuple[float, tuple[Gaussian, ...]]:
    """Fit the hyperparameters to a random subset; q for all rows from its scaled sites.

    Returns the share of the work, in epochs, and q. A model that was fitted before goes on from
    its own q.
    """
    N, M = batches.rows.size, max(model._sizes)
    n0 = min(N, max(2000, 20 * M))
    if not model._q_is_prior():
        evaluations = start_sites(model)
        return float(evaluations), model._evaluator.gaussians(model._evaluator.gram())
    rows = np.sort(settings.rng.choice(batches.rows, n0, replace=False))
    subset = Evaluator([batches.shard(rows, trials=True)])
    whole, model.__dict__["_evaluator"] = model._evaluator, subset
    most = max(20 if n0 < N else 100, int(SUBSET_SHARE * settings.epochs * N / n0))
    watch = Monitor("subset", False, lambda point: point.likelihood_evaluations >= most)
    try:
        fit_profile(model, watch, 1000, tolerance=0.1)
        q = subset.gaussians(_scaled(subset.gram(), N / n0))
    finally:
        model.__dict__["_evaluator"] = whole
        model._mark_stale()
    monitor.note(f"started from a fit to {n0} rows: {subset.num_likelihood} evaluations")
    return subset.num_likelihood * n0 / N, q


def _scaled(gram: Gram, factor: float) -> Gram:
    return Gram([factor * Lm for Lm in gram.Lam], [factor * b for b in gram.b])


def _settle(model: Any) -> None:
    """Full natural-gradient passes for q at the final θ."""
    evaluator: Evaluator = model._evaluator
    start_sites(model)
    try:
        inner = find_q(evaluator, max(1e-3, FINAL_GAP * evaluator.num_rows), FINAL_STEPS)
    except NumericalError:
        return
    evaluator.commit()
    model._write_q(inner.state.q)


def fit_step_rule(model: Any, monitor: Monitor, method: str, settings: Settings) -> Outcome:
    """A plain step rule on hyperparameters and q together, as in the paper."""
    run = Run(model, monitor, settings, Batches(model, settings))
    vector, rule = FreeVector(model, with_q=True), RULES[method]()
    rate, interrupted = settings.learning_rate or rule.learning_rate, False
    evaluator = Evaluator([])
    try:
        for step, rows in run:
            evaluator.set_hyperparameters(model._theta())
            evaluator.take(run.batches.shard(rows), run.batches.scale(rows))
            state = evaluator.evaluate(model._q(), gradient=True)
            model._evaluator.num_likelihood += rows.size / model.X.shape[0]
            evaluator.accept(0.0)
            gradient = evaluator.gradient(state, sites_fixed=False)
            model._write_gradients(gradient, state)
            model._add_prior_gradients()
            x = vector.read()
            vector.write(x + rate * run.decay(step) * rule.step(vector.gradient()))
            if not np.isfinite(state.bound):
                raise NumericalError(
                    f"{method}: the bound of a batch is not finite; use a smaller learning_rate."
                )
            run.record(step, state.bound)
    except KeyboardInterrupt:
        interrupted = True
    run.restore_best()
    return run.outcome(interrupted)


def read_settings(
    N: int,
    batch_size: int | None,
    epochs: float | None,
    rng: Any,
    holdout: float | None,
    patience: int | None,
    learning_rate: float | None,
) -> Settings:
    """Check the arguments of a stochastic method."""
    batch = min(1000, N) if batch_size is None else positive_int(batch_size, "batch_size")
    epochs = 10.0 if epochs is None else positive_float(epochs, "epochs")
    if holdout is not None:
        held = round(N * holdout) if isinstance(holdout, float) and 0.0 < holdout < 1.0 else 0
        if not 0 < held < N:
            raise InputError(
                f"holdout must be a fraction of the rows in (0, 1), and leave one or more of the "
                f"{N} rows on either side; got {holdout!r}."
            )
    if patience is not None:
        positive_int(patience, "patience")
        if holdout is None:
            raise InputError(
                "patience counts epochs without a better held-out score: give holdout."
            )
    if learning_rate is not None:
        positive_float(learning_rate, "learning_rate")
    return Settings(
        min(batch, N), float(epochs), as_generator(rng), holdout, patience, learning_rate
    )
