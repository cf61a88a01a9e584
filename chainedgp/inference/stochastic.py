"""Stochastic methods on batches of rows: natural gradients on q with Adam on θ, plain step rules.

They are for large N. A batch of B rows stands for all N: its sums are scaled by N/B, which is
unbiased.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..data.arguments import as_generator, positive_float, positive_int
from ..errors import ConvergenceWarning, InputError, NumericalError, warn
from ..likelihoods.density_check import row_numbers
from ..linalg import Array
from ..posterior.gaussian import Gaussian
from ..posterior.shards import Shard
from ..posterior.sums import Gram
from ..predictive.distribution import Predictive
from .lbfgs import Outcome
from .monitor import Monitor, Stage
from .natural_gradients import find_q, start_from_q
from .problem import Best, Problem
from .profile import fit_profile, start_sites
from .result import FINISHED, OUT_OF_PATIENCE
from .steps import NaturalSteps, PlainSteps

# At the end q is settled by at most FINAL_STEPS passes over all rows, to within FINAL_GAP nats a
# row of its best bound.
FINAL_STEPS, FINAL_GAP = 12, 1e-5
# If a likelihood finds its quadrature nodes by trials, a batch uses this many instead: the noise of
# a batch is larger than their error.
BATCH_NODES = 20
# A fit whose number of epochs is not given begins to take smaller steps when an epoch gains less
# than LEVEL_GAIN nats a row, and makes at most MOST_EPOCHS epochs.
LEVEL_GAIN, MOST_EPOCHS = 5e-5, 100
# It then makes as many epochs again, and at least this many, with steps that become smaller: these
# find what large steps miss.
LEAST_FALL = 12
# A fit that ends where it started says so if its last step was worse by this many nats a row.
WORTH_TELLING = 1e-3
# The fit to a subset that natural gradients start from takes at most this share of all work.
SUBSET_SHARE = 0.5
# If the user gives no number of epochs, that share is one of this many epochs.
USUAL_EPOCHS = 50.0


class BatchArguments(NamedTuple):
    """What a user says of batches for a stochastic method, unchecked; None is the default."""

    batch_size: int | None = None
    epochs: float | None = None
    rng: int | np.random.Generator | None = None
    holdout: float | None = None
    patience: int | None = None
    learning_rate: float | None = None

    @property
    def any_given(self) -> bool:
        """Whether the user said anything of batches but a seed."""
        return any(value is not None for value in self[:2] + self[3:])

    def settings(self, N: int) -> Settings:
        """Check what the user said of batches, for N rows."""
        batch_size, epochs, rng, holdout, patience, learning_rate = self
        batch = 1000 if batch_size is None else positive_int(batch_size, "batch_size")
        if epochs is not None:
            epochs = float(positive_float(epochs, "epochs"))
        if holdout is not None:
            held = round(N * holdout) if isinstance(holdout, float) and 0.0 < holdout < 1.0 else 0
            if not 0 < held < N:
                raise InputError(
                    f"holdout must be a fraction of the rows in (0, 1), and leave one or more of "
                    f"the {N} rows on either side; got {holdout!r}."
                )
        if patience is not None:
            positive_int(patience, "patience")
            if holdout is None:
                raise InputError(
                    "patience counts epochs without a better held-out score: give holdout."
                )
        if learning_rate is not None:
            positive_float(learning_rate, "learning_rate")
        generator = as_generator(rng)
        return Settings(min(batch, N), epochs, generator, holdout, patience, learning_rate)


@dataclass
class Settings:
    """How batches are drawn and when to stop; `holdout` is a fraction of the rows, or None.

    If `epochs` is None, the fit ends by itself when an epoch gains little.
    """

    batch_size: int
    epochs: float | None
    rng: np.random.Generator
    holdout: float | None = None
    patience: int | None = None
    learning_rate: float | None = None


class Batches:
    """Seeded, shuffled batches of a problem's rows, with held-out rows left out.

    Rows of a memmap are drawn in contiguous blocks: reading single rows from disk would be slow.
    The first block of an epoch begins at a random row, and the last goes on at the first row. So
    every row is equally often in the one shorter block, where rows count more.
    """

    def __init__(self, problem: Problem, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        N = problem.num_rows
        order = settings.rng.permutation(N) if settings.holdout else np.arange(N)
        held = round(N * (settings.holdout or 0.0))
        self.held, self.rows = np.sort(order[:held]), np.sort(order[held:])
        weights = problem.rows.weights
        if held and weights is not None and not np.asarray(weights[self.held]).any():
            raise InputError(
                "the rows that holdout draws all have the weight 0, so that nothing is left to "
                "score. Leave rows of weight 0 out of the data, or hold out more."
            )
        self.size = min(settings.batch_size, self.rows.size)
        self._last: Shard | None = None

    def epochs(self) -> Iterator[Array]:
        """Row numbers of one batch after another, without end; each epoch has a new order."""
        while True:
            if self.problem.rows.on_disk:
                order = np.roll(self.rows, self.settings.rng.integers(self.rows.size))
                starts = np.arange(0, self.rows.size, self.size)
                for start in self.settings.rng.permutation(starts):
                    yield np.sort(order[start : start + self.size])
            else:
                order = self.settings.rng.permutation(self.rows)
                for start in range(0, order.size, self.size):
                    yield np.sort(order[start : start + self.size])

    def shard(self, rows: Array) -> Shard:
        """A batch of rows as a shard, which uses the threads of the last batch."""
        few = BATCH_NODES if self.problem.parts.likelihood.tries_nodes else None
        self._last = self.problem.shard(rows, nodes=few, threads_of=self._last)
        return self._last

    def scale(self, rows: Array) -> float:
        """N/B, by which the sums of a batch are scaled to stand for those of all rows."""
        return self.rows.size / rows.size

    @cached_property
    def _held_out(self) -> Problem:
        return self.problem.on(self.held)

    def held_out_score(self) -> float:
        """NLPD of the held-out rows, averaged by their weights."""
        held, parts = self._held_out, self.problem.parts
        held.set_hyperparameters()
        means, variances = held.evaluator.marginals(parts.q())
        predictive = Predictive(parts.likelihood, means, variances, held.rows.metadata)
        log_p = predictive.logpdf(held.rows.y[:, None])[:, 0]
        return -float(np.average(log_p, weights=held.rows.weights))


class Run:
    """The loop over batches: counts, running bound, held-out score and the best parameters.

    spent : epochs of work that were done before; they count among those that were asked for.
    """

    def __init__(self, batches: Batches, monitor: Monitor, spent: float) -> None:
        self.batches, self.monitor, self.settings = batches, monitor, batches.settings
        self.problem = batches.problem
        per_epoch = batches.rows.size / batches.size
        self.per_epoch = max(1, int(np.ceil(per_epoch)))
        self.by_itself = self.settings.epochs is None
        epochs = MOST_EPOCHS if self.settings.epochs is None else self.settings.epochs - spent
        self.total = max(self.per_epoch, round(epochs * per_epoch))
        self.falls_from = self.total / 2  # From this step on, steps get smaller.
        self.recent: deque[float] = deque(maxlen=self.per_epoch)
        self.before = self.problem.counts[0]
        # The best point has the least held-out score or, where no rows are held out, the highest
        # estimate of bound and log-prior. Every epoch sees every row, so that its estimates differ
        # by what the steps did and not by which rows they saw.
        self.best, self.best_step = Best(self.problem), 0
        self.waited = self.done = 0  # They count epochs without a better score, and steps.
        self.last_mean = -np.inf

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        for step, rows in enumerate(self.batches.epochs()):
            if step >= self.total or self.monitor.stop_reason or self._out_of_patience():
                return
            yield step, rows
            self.done = step + 1

    def outcome(self) -> Outcome:
        """How many steps on batches were made, and why no more."""
        reason = self.monitor.stop_reason or FINISHED
        if self.by_itself and reason == FINISHED and self.total < MOST_EPOCHS * self.per_epoch:
            reason = f"{FINISHED}: an epoch gained less than {LEVEL_GAIN:g} nats a row"
        if self._out_of_patience():
            reason = f"{OUT_OF_PATIENCE} for {self.waited} epochs"
        return Outcome(np.empty(0), np.nan, self.done, False, reason)

    def decay(self, step: int) -> float:
        """The factor on steps: 1 at first, and over the last part falling linearly to 0."""
        return min(1.0, (self.total - step) / (self.total - self.falls_from))

    def ends_epoch(self, step: int) -> bool:
        """Whether a step on a batch is the last of its epoch, or the last of all."""
        return (step + 1) % self.per_epoch == 0 or step + 1 == self.total

    def record(self, step: int, bound: float) -> None:
        """Note the bound that a batch estimates; at the end of an epoch tell the monitor."""
        if np.isfinite(bound):
            self.recent.append(bound)
        if not (self.recent and self.ends_epoch(step)):
            return
        values = np.array(self.recent)
        error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else np.nan
        mean = float(values.mean())
        if self.settings.holdout:
            score = self.batches.held_out_score()
            self.monitor.held_out.append(score)
        else:
            score = -(mean + self.problem.log_prior())
        better = self.best.offer(score)
        self.waited = 0 if better else self.waited + 1
        self.best_step = step + 1 if better else self.best_step
        self._look_at_gain(step, mean)
        self.keep()
        passes = self.problem.counts[0] - self.before
        self.monitor.estimate(mean, error, passes, step + 1)

    def _look_at_gain(self, step: int, mean: float) -> None:
        """If the fit ends by itself, begin smaller steps once an epoch has gained little."""
        gain, self.last_mean = mean - self.last_mean, mean
        if not self.by_itself or step >= self.falls_from:
            return
        if gain < LEVEL_GAIN * self.batches.rows.size * self.problem.starts.mean_weight:
            self.falls_from = step + 1
            self.total = step + 1 + max(LEAST_FALL * self.per_epoch, step + 1)

    def keep(self) -> None:
        """Have the model return, after an error, to the best held-out or the current point."""
        put_back = self.best.restore
        if not self.settings.holdout:
            put_back = partial(self.problem.restore, self.problem.snapshot())
        self.monitor.keep(self, -np.inf, put_back)

    def _out_of_patience(self) -> bool:
        return self.settings.patience is not None and self.waited >= self.settings.patience


def fit_batches(problem: Problem, monitor: Monitor, method: str, settings: Settings) -> Outcome:
    """Fit by steps on batches: natural gradients on q with Adam on θ, or a plain step rule.

    Steps decay linearly to 0 over the second half, or when an epoch gains little. Natural gradients
    start from a profiled fit to a random subset, and full passes settle q at the end. The model
    keeps the best of the start, the ends of the epochs and the last step: by the held-out score or,
    without one, by the bound.
    """
    batches = Batches(problem, settings)
    spent = 0.0
    steps: PlainSteps | NaturalSteps
    if method == "natgrad":
        spent, q = _subset_start(batches, monitor)
        steps = NaturalSteps(problem, q, settings.learning_rate)
    else:
        steps = PlainSteps(problem, method, settings.learning_rate)
    run = Run(batches, monitor, spent)
    steps.put_back()
    run.keep()
    if not settings.holdout:
        run.best.offer(problem.objective())
    try:
        for step, rows in run:
            with row_numbers(rows):
                bound = steps.step(batches.shard(rows), batches.scale(rows), run.decay(step))
            problem.evaluator.num_likelihood += rows.size / problem.num_rows
            if run.ends_epoch(step):
                steps.put_back()  # The held-out score and a checkpoint read the leaves.
            run.record(step, bound)
    except KeyboardInterrupt:
        if not settings.holdout:
            monitor.keep(run, -np.inf, partial(_last_or_best, run, steps))
        raise
    steps.put_back()
    settles = method == "natgrad"
    if settings.holdout:
        run.best.restore()
        if settles:
            _settle(problem)
    else:
        lost = _keep_better(run, settles)
        total = problem.num_rows * problem.starts.mean_weight
        if run.best_step == 0 and lost > WORTH_TELLING * total:
            text = (
                f"{monitor.method}: no epoch was better than the start; the last step was "
                f"{lost:.3g} nats worse, and the model is back at the start. Use a smaller "
                "learning_rate or a larger batch_size."
            )
            monitor.note(text)
            warn(text, ConvergenceWarning)
    return run.outcome()


def _keep_better(run: Run, settles: bool) -> float:
    """Keep the last point of a fit by batches or the best before it: the better one on all rows.

    Estimates from batches only select the best epoch; the two bounds that are compared are exact.
    Returns by how many nats the last point was worse, 0 if it is kept.
    """
    problem, last = run.problem, Best(run.problem)
    if settles:
        _settle(problem)
    last.offer(problem.objective())
    if run.best_step == run.done:
        return 0.0
    run.best.restore()
    if settles:
        _settle(problem)
    lost = last.score - problem.objective()
    if lost <= 0.0:
        last.restore()
    return max(lost, 0.0)


def _last_or_best(run: Run, steps: PlainSteps | NaturalSteps) -> None:
    """After Ctrl-C keep the last whole step on a batch, or a better point before it."""
    steps.put_back()
    try:
        _keep_better(run, settles=False)
    except NumericalError:  # The last step has no bound.
        run.best.restore()


def _subset_start(batches: Batches, monitor: Monitor) -> tuple[float, tuple[Gaussian, ...]]:
    """Start of a fit by batches: hyperparameters fitted to a random subset, q from scaled sites.

    Returns the share of the work, in epochs, and q. A model that was fitted before goes on from
    its own q.
    """
    problem, settings = batches.problem, batches.settings
    N, M = batches.rows.size, max(problem.parts.sizes)
    n0 = min(N, max(2000, 20 * M))
    if not problem.parts.q_is_prior():
        return float(start_sites(problem)), problem.evaluator.gaussians(problem.evaluator.gram())
    rows = np.sort(settings.rng.choice(batches.rows, n0, replace=False))
    subset = problem.on(rows)
    most = max(
        20 if n0 < N else 100, int(SUBSET_SHARE * (settings.epochs or USUAL_EPOCHS) * N / n0)
    )
    with row_numbers(rows):
        fit_profile(subset, Stage(monitor, N / n0, most), 1000, tolerance=0.1)
    # q itself is scaled, not the sites, which may be those of a start that was not kept.
    gram = Gram.mixed((N / n0,), (Gram.of(subset.parts.q()),))
    q = subset.evaluator.gaussians(gram)
    evaluations, _ = subset.counts
    monitor.note(f"started from a fit to {n0} rows: {evaluations} evaluations")
    return evaluations * n0 / N, q


def _settle(problem: Problem) -> None:
    """Settle q at the final θ by natural gradients over all rows; q stays if they do not help."""
    evaluator = problem.evaluator
    problem.set_hyperparameters()
    given = start_from_q(evaluator, problem.parts.q())
    evaluator.commit()
    try:
        rows = evaluator.num_rows * problem.starts.mean_weight
        inner = find_q(evaluator, max(1e-3, FINAL_GAP * rows), FINAL_STEPS)
    except NumericalError:
        return
    if inner.state.bound > given.bound:
        evaluator.commit()
        problem.parts.write_q(inner.state.q)
