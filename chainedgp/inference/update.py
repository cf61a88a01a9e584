"""New rows for a fitted model, at the cost of these rows alone: q moves by their sites.

The posterior of the old rows is the prior times their sites, whose sums are Λ = S⁻¹ − I and
b = S⁻¹μ of the q at hand. It needs no pass over old rows, and takes the place of the prior in the
bound of the new rows:

    L_new(q) = Σ_new E_q[log p(y_i | f(x_i))] + E_q[bᵀv − ½ vᵀΛv] − KL(q ‖ N(0, I)).

Natural-gradient steps maximise it over the sites of the new rows. Old sites are then slightly out
of date, since they belong to the old q. How much that costs is estimated from some of the old rows;
where it is too much, steps over all rows follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..linalg import Array, invert_lower, one_blas_thread
from ..posterior.evaluator import Evaluator, State
from ..posterior.gaussian import Gaussian
from ..posterior.sums import Gram
from .natural_gradients import find_q, fisher_vector, predicted_gap, start_from_q
from .problem import Problem
from .profile import start_sites

# How far the sites of old rows are out of date is estimated from a sample of SAMPLES[0] of them,
# and from the next larger one while the estimate is too large, in PARTS parts. A sample is at most
# a quarter of the old rows: a step over all of them costs hardly more.
SAMPLES, PARTS = (500, 1500, 4000), 4
# An estimate from a sample must be below this share of the tolerance, because it may be too low.
SAFE = 0.7
# The sites of new rows are found to this share of the tolerance.
SHARE = 0.01
# The search for sites takes at most this many steps.
MOST_STEPS = 500


@dataclass(frozen=True)
class Update:
    """What `ChainedGP.update` did to take new rows into a fitted model.

    num_rows : number of rows that were added. steps : natural-gradient steps over these.
    sweeps : steps over all rows that followed.
    gap : about how many nats the bound is below its maximum over q at the same hyperparameters:
        predicted by the last step or, if old rows were sampled, estimated from these.
    sampled : number of old rows from which the gap was estimated; 0 if all rows were seen.
    converged : whether the gap is within the tolerance.
    """

    num_rows: int
    steps: int
    sweeps: int
    gap: float
    sampled: int
    converged: bool

    def __str__(self) -> str:
        """Say in a sentence what the update did."""
        told = f", as {self.sampled:,} of the old rows tell" if self.sampled else ""
        rows = "1 row was" if self.num_rows == 1 else f"{self.num_rows:,} rows were"
        steps = f"{self.steps} natural-gradient step{'s' * (self.steps != 1)}"
        return (
            f"{rows} added, with {steps} over the new rows and "
            f"{self.sweeps} over all: the bound is about {self.gap:.1e} nats below its maximum "
            f"over q{told}"
        )


class _BesideSites(Evaluator):
    """The bound of the new rows beside old ones, which are represented by the sums of their sites.

    Gram sums are those of the new rows; q has the sites of both.
    """

    def __init__(self, problem: Problem, old: int, others: Gram) -> None:
        new = problem.shard(slice(old, None))
        super().__init__([new], problem.evaluator.family)
        self.others = others
        self.set_hyperparameters(problem.parts.theta())

    def gaussians(self, gram: Gram) -> tuple[Gaussian, ...]:
        """q of every group of latents: the prior times the sites of new and old rows."""
        return super().gaussians(Gram.mixed((1.0, 1.0), (gram, self.others)))

    def evaluate(
        self,
        q: Sequence[Gaussian],
        gram: Gram | None = None,
        *,
        gradient: bool = False,
        count_unmet: bool = False,
    ) -> State:
        """Evaluate the new rows; E has also E_q[bᵀv − ½ vᵀΛv], the log of the old rows' sites."""
        state = super().evaluate(q, gram, gradient=gradient, count_unmet=count_unmet)
        groups = zip(self.others.Lam, self.others.b, q, strict=True)
        beside = sum(_log_sites(Lam, b, part) for Lam, b, part in groups)
        state.evaluation.E += beside
        state.evaluation.abs_E += abs(beside)
        return state


def _log_sites(Lam: Array, b: Array, q: Gaussian) -> float:
    """Log of the old rows' sites under q: E_q[bᵀv − ½ vᵀΛv] = bᵀμ − ½ (tr(ΛS) + μᵀΛμ)."""
    return float(b @ q.mu - 0.5 * (np.vdot(Lam, q.S) + q.mu @ Lam @ q.mu))


@one_blas_thread()
def add_rows(
    problem: Problem,
    old: int,
    sites: Array | None,
    tolerance: float,
    all_rows: bool,
) -> Update:
    """Take the new rows, all but the first `old`, into q and the sites of a fitted problem.

    The hyperparameters stay. Afterwards q is in the leaves and the sites are in the shard.

    sites : sites of the old rows, (*site_shape, old); None if they have none.
    tolerance : nats by which the bound may be below its maximum over q.
    all_rows : whether old rows must be seen again, however little the new ones move q.
    """
    num_rows, parts = problem.num_rows - old, problem.parts
    with np.errstate(all="ignore"):
        if parts.q_is_prior():  # No q was fitted yet, not even to old rows.
            return _over_all_rows(problem, num_rows, 0, tolerance)
        before = [_with_precision(part) for part in parts.q()]
        others = Gram.of(before)
        beside = _BesideSites(problem, old, others)
        beside.start_sites(len(parts.kernels))
        found = find_q(beside, SHARE * tolerance, MOST_STEPS)
        q = found.state.q
        parts.write_q(q)
        (new,) = beside.shards
        sampled = [] if all_rows or not found.converged else [n for n in SAMPLES if 4 * n <= old]
        for size in sampled:
            gap = found.gap + _stale(problem, beside, old, size, before, q)
            if gap <= SAFE * tolerance:
                break
        else:
            return _over_all_rows(problem, num_rows, found.steps, tolerance)
    if sites is not None:
        (shard,) = problem.evaluator.shards
        shard.load_sites(np.concatenate([sites, new.sites.current], axis=-1))
    return Update(num_rows, found.steps, 0, gap, size, True)


def _over_all_rows(problem: Problem, num_rows: int, steps: int, tolerance: float) -> Update:
    """Steps over all rows, new and old, from the q in the leaves.

    The first takes one pass over the rows. If the bound at its start is within the tolerance of the
    maximum, the step is taken without a check: it is so short that it cannot go wrong.
    """
    evaluator, parts = problem.evaluator, problem.parts
    if parts.q_is_prior():
        start_sites(problem)
    else:
        problem.set_hyperparameters()
        state = start_from_q(evaluator, tuple(_with_precision(part) for part in parts.q()))
        gap = predicted_gap(evaluator, state)
        if np.isfinite(state.bound) and gap <= tolerance:
            evaluator.commit()
            parts.write_q(evaluator.gaussians(state.proposal()))
            return Update(num_rows, steps, 1, gap, 0, True)
    found = find_q(evaluator, tolerance, MOST_STEPS)
    evaluator.commit()
    parts.write_q(found.state.q)
    return Update(num_rows, steps, found.steps + 1, found.gap, 0, found.converged)


def _stale(
    problem: Problem,
    evaluator: Evaluator,
    old: int,
    size: int,
    before: Sequence[Gaussian],
    after: Sequence[Gaussian],
) -> float:
    """About how many nats the old rows' sites, which belong to the old q, cost at the new q.

    Sites of old rows at q less those at the q before are a step Δ = Σ_i δ_i of the natural
    parameters. With the Fisher metric F of q the step is worth ½ ΔᵀFΔ, of which in the mean

        ½ ΔᵀFΔ = ½ N² δ̄ᵀFδ̄ + ½ N tr(F cov δ).

    Parts of a sample estimate Δ with independent noise. So products of two different parts have the
    first term as their mean; products of parts with themselves exceed it by an estimate of the
    second. Of the first term only what is above its standard error counts: the noise of a sample is
    no reason for steps over all rows.

    evaluator : an evaluator at the problem's hyperparameters; its rows are replaced. size : number
    of rows of the sample.
    """
    rows = np.random.default_rng(0).choice(old, size, replace=False)
    steps = []
    for part in np.split(rows, PARTS):
        evaluator.take(problem.shard(np.sort(part)), scale=old / len(part))
        then, now = (evaluator.evaluate(q).proposal() for q in (before, after))
        steps.append(fisher_vector(after, then, now))
    products = 0.5 * np.stack(steps) @ np.stack(steps).T
    pairs = products[np.triu_indices(PARTS, 1)]
    common, error = float(pairs.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs)))
    single = max(0.0, float(np.trace(products)) / PARTS - common) * size / (PARTS * old)
    return single + max(0.0, common - error)


def _with_precision(q: Gaussian) -> Gaussian:
    """The same q = N(μ, R Rᵀ) with its precision R⁻ᵀR⁻¹, from which new rows start."""
    if q.root is None:
        return q
    R_inv = invert_lower(q.root)
    return replace(q, precision=R_inv.T @ R_inv)
