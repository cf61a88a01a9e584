"""New rows for a fitted model, at the price of these rows: q moves by their sites alone.

The posterior of the old rows is their sites times the prior. With Λ = S⁻¹ − I and b = S⁻¹μ of the q
at hand it needs no pass over old rows, and takes the place of the prior in the bound of the new:

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

# So many old rows are sampled, in as many parts, to tell how far their sites are out of date; more
# rows where the first had it too far. A sample is at most a quarter of the old rows: a step over
# all of them costs hardly more.
SAMPLES, PARTS = (1000, 4000), 4
# An estimate from a sample must be below this share of the tolerance, since it may be too low.
SAFE = 0.7
# The sites of new rows are found to this share of the tolerance.
SHARE = 0.01
# Sites are searched for in at most so many steps.
MOST_STEPS = 500


@dataclass(frozen=True)
class Update:
    """What `ChainedGP.update` did.

    num_rows : rows that were added. steps : natural-gradient steps over these.
    sweeps : steps over all rows that followed.
    gap : nats by which the bound is about below its maximum over q at the same hyperparameters:
        as the last step tells, or, where old rows were sampled, by an estimate from these.
    sampled : old rows from which the gap was estimated; 0 where all rows were seen.
    converged : whether the gap is within the tolerance.
    """

    num_rows: int
    steps: int
    sweeps: int
    gap: float
    sampled: int
    converged: bool

    def __str__(self) -> str:
        """In a sentence."""
        told = f", as {self.sampled:,} of the old rows tell" if self.sampled else ""
        rows = "1 row was" if self.num_rows == 1 else f"{self.num_rows:,} rows were"
        return (
            f"{rows} added, with {self.steps} natural-gradient steps over the new rows and "
            f"{self.sweeps} over all: the bound is about {self.gap:.1e} nats below its maximum "
            f"over q{told}"
        )


class _BesideSites(Evaluator):
    """The bound of some rows beside others that stand by the sums of their sites.

    Gram sums are those of the own rows; q has both.
    """

    def __init__(self, problem: Problem, old: int, others: Gram) -> None:
        new = problem.shard(slice(old, None))
        super().__init__([new], problem.evaluator.family)
        self.others = others
        self.set_hyperparameters(problem.parts.theta())

    def gaussians(self, gram: Gram) -> tuple[Gaussian, ...]:
        """q of every group: the prior times the sites of all rows."""
        return super().gaussians(Gram.mixed((1.0, 1.0), (gram, self.others)))

    def evaluate(
        self,
        q: Sequence[Gaussian],
        gram: Gram | None = None,
        *,
        gradient: bool = False,
        count_unmet: bool = False,
    ) -> State:
        """As for rows alone; E has also E_q[bᵀv − ½ vᵀΛv], the log of the others' sites."""
        state = super().evaluate(q, gram, gradient=gradient, count_unmet=count_unmet)
        groups = zip(self.others.Lam, self.others.b, q, strict=True)
        beside = sum(_log_sites(Lam, b, part) for Lam, b, part in groups)
        state.evaluation.E += beside
        state.evaluation.abs_E += abs(beside)
        return state


def _log_sites(Lam: Array, b: Array, q: Gaussian) -> float:
    """E_q[bᵀv − ½ vᵀΛv] = bᵀμ − ½ (tr(ΛS) + μᵀΛμ)."""
    return float(b @ q.mu - 0.5 * (np.vdot(Lam, q.S) + q.mu @ Lam @ q.mu))


@one_blas_thread()
def add_rows(
    problem: Problem,
    old: int,
    sites: Array | None,
    tolerance: float,
    all_rows: bool = False,
) -> Update:
    """Have q and the sites of a problem take in all rows but the first `old`, of which q is.

    The hyperparameters stay. Afterwards q is in the leaves and the sites are in the shard.

    sites : of the old rows, (*site_shape, old); None where they have none.
    tolerance : nats by which the bound may be below its maximum over q.
    all_rows : whether old rows must be seen again, however little the new ones move q.
    """
    num_rows, parts = problem.num_rows - old, problem.parts
    with np.errstate(all="ignore"):
        if parts.q_is_prior():  # Nothing was found yet, for no row.
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
    """Steps over all rows, from the q in the leaves.

    The first is one pass over the rows. Where the bound at its start is within the tolerance of the
    maximum, the step is taken unseen: it is so short that it cannot miss.
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
    """About how many nats the old rows' sites cost at a q that they do not belong to.

    Sites of old rows at q less those at the q before are a step Δ = Σ_i δ_i of the natural
    parameters. With the Fisher metric F of q the step is worth ½ ΔᵀFΔ, of which in the mean

        ½ ΔᵀFΔ = ½ N² δ̄ᵀFδ̄ + ½ N tr(F cov δ).

    Parts of a sample estimate Δ without sharing noise. So products of two of them are right for the
    first term, in the mean; products of parts with themselves are higher by what the second term
    says. Of the first term counts what is above its standard error: the noise of a sample is no
    reason for steps over all rows.

    evaluator : at the hyperparameters of the problem; it gets other rows. size : of the sample.
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
    """The same q = N(μ, R Rᵀ) with its precision R⁻ᵀR⁻¹."""
    if q.root is None:
        return q
    R_inv = invert_lower(q.root)
    return replace(q, precision=R_inv.T @ R_inv)
