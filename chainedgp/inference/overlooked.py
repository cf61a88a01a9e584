"""Signals that a fit overlooked because a kernel began blind to them, and a second fit that sees.

A kernel is blind if its function is constant over the rows, or follows single rows because no two
are alike to it. That is so after a start at a lengthscale of 1 where the input runs from 200 to
400, or from 0 to 1e-4. There the bound has no slope that leads to a better lengthscale. Whether
something was overlooked the scores at the fitted latents tell: a fit that has found all of a
signal leaves scores that no input explains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from paramz import Param

from ..errors import NumericalError
from ..kernels import RBF, Kernel
from ..linalg import Array, one_blas_thread
from ..parameters.leaves import named_leaves
from ..parameters.roles import Role
from ..posterior.evaluator import Evaluator
from ..posterior.shards import Shard
from .candidates import FEWEST_ITERATIONS, set_spread, write_lengthscales
from .inducing import select_inducing
from .lbfgs import Outcome
from .monitor import Monitor
from .natural_gradients import find_q
from .problem import Best, Problem
from .rescue import WIDEST, shrink_variances
from .screen import SCREEN_ROWS, Trial, screen_targets, working_targets
from .starts import input_spread, inputs_that_count
from .theta_and_q import leaves_below

# A function is constant if its sd over the rows is below this share of the scale of its latent.
CONSTANT = 0.02
# No two rows are alike if the largest correlation of a row with others is below this, as a median
# over SOME rows.
ALIKE, SOME = 0.1, 20
# Parameters of kernels that have no role are multiplied by these factors, on TUNED_ROWS rows.
FACTORS = 10.0 ** np.arange(-6.0, 6.5, 0.5)
TUNED_ROWS = 150
# Among gains within this many nats of the best the value nearest to the given one is taken.
SAME = 0.1
# A signal that a simple GP explains by more than this many nats is no accident.
CLEAR_GAIN = 5.0
# A signal is confirmed if the bound gains more nats than this at the given noise. Where the noise
# stands for the signal it is too large, and a fit gains more.
CONFIRMED = 2.0
# It is confirmed with EXTRA more inducing inputs, in at most MOST_STEPS steps for q, by an RBF with
# an sd of one of these shares of the scale of its latent.
EXTRA, MOST_STEPS, SHARES_OF_SCALE = 60, 50, (1.0, 0.5)


@dataclass(frozen=True)
class Overlooked:
    """A signal in the scores of one latent that the kernel of this latent was blind to.

    Parameters
    ----------
    latent : number of the latent.
    parts : the terms of its kernel that are blind.
    constant : whether these terms are constant over the rows; if not, no two rows are alike.
    gain : nats that a simple GP of the inputs gains on the scores.
    inputs : columns of X that explain them best, each alone; none if only all together do.
    lengthscales : (D,) lengthscales in the units of X that explain them.
    targets : (n,) the working targets of that latent, at rows X (n, D) with weights (n,).
    """

    latent: int
    parts: list[Kernel]
    constant: bool
    gain: float
    inputs: list[int]
    lengthscales: Array
    targets: Array
    X: Array
    weights: Array


def find_overlooked(problem: Problem, together: bool = True) -> list[Overlooked]:
    """The signals that a fit overlooked, at the current θ and q.

    together : whether also those are looked for that only all inputs together show.
    """
    rows = problem.rows_at_hand.thinned(SCREEN_ROWS)
    X, y = rows.inputs(), rows.targets()
    if np.all(y == y[0]):  # A screen of scores that are rounding errors finds anything.
        return []
    problem.set_hyperparameters()
    with np.errstate(all="ignore"):
        latents, blind = _look(problem, X)
    if not blind:
        return []
    parts = problem.parts
    weights = np.ones(len(X)) if rows.weights is None else np.asarray(rows.weights, dtype=float)
    spread = input_spread(inputs_that_count(rows), parts.unordered_columns)
    targets = working_targets(parts.likelihood, rows, latents, weights)[list(blind)]
    given = X, targets, weights, spread, parts.unordered_columns
    screen = screen_targets(*given, together=together)
    alone, found = screen.starts(spread), []
    for k, (j, (terms, constant)) in enumerate(blind.items()):
        joined = bool(np.isfinite(screen.together[k]).all())
        lengths = screen.together[k] if joined else alone[k]
        gain = float(screen.gain_together[k] if joined else screen.gains[k].max())
        if lengths is not None and gain > CLEAR_GAIN:
            inputs = [] if joined else [int(d) for d in np.flatnonzero(screen.relevant[k])]
            rest = lengths, targets[k], X, weights
            found.append(Overlooked(j, terms, constant, gain, inputs, *rest))
    return found


def _look(problem: Problem, X: Array) -> tuple[Array, dict[int, tuple[list[Kernel], bool]]]:
    """Posterior means (b, n) of the latents at X, and the blind terms of kernels by latent."""
    parts, priors = problem.parts, problem.evaluator.priors
    q = parts.family.by_latent(parts.q(), parts.sizes)
    latents = np.empty((len(priors), len(X)))
    blind: dict[int, tuple[list[Kernel], bool]] = {}
    for j, (prior, own, scale) in enumerate(zip(priors, q, problem.starts.scales, strict=True)):
        latents[j] = prior.mean.evaluate(X)[0]
        weights, terms, constant = own.mu @ prior.L_inv, [], False
        for term in prior.kernel.additive_parts:
            h = weights @ term.evaluate(prior.Z, X)[0]
            latents[j] += h
            if not np.std(h) > CONSTANT * scale:
                terms.append(term)
                constant = True
            elif _sees_single_rows(term, X):
                terms.append(term)
        if terms:
            blind[j] = terms, constant
    return latents, blind


def _sees_single_rows(kernel: Kernel, X: Array) -> bool:
    """Whether to a kernel no two different rows of X (n, D) are alike."""
    _, first = np.unique(X[:, kernel.columns], axis=0, return_index=True)
    if len(first) < 3:
        return False
    X = X[first]
    few = np.unique(np.linspace(0, len(X) - 1, SOME).astype(int))
    sd = np.sqrt(kernel.evaluate_diag(X)[0])
    R = kernel.evaluate(X[few], X)[0] / np.outer(sd[few], sd)
    R[np.arange(len(few)), few] = -1.0
    return bool(np.median(R.max(axis=1)) < ALIKE)


def begin_where_it_sees(
    problem: Problem,
    monitor: Monitor,
    outcome: Outcome,
    max_iters: int,
    fit: Callable[[], Outcome],
) -> Outcome:
    """Fit again from kernels that see what a fit from the given values overlooked; keep the better.

    Lengthscales of blind kernels begin at those of a screen of the inputs, variances at the scale
    of the latent, parameters without a role where the kernel explains the scores best; inducing
    inputs that no user gave are chosen again. All else begins as given, with q at the prior. What
    is fixed or bounded stays.
    """
    if monitor.stop_reason or max_iters < FEWEST_ITERATIONS:
        return outcome
    found = find_overlooked(problem)
    if not found:
        return outcome
    best, trace, first = Best(problem), monitor.trace[:], problem.objective()
    best.offer(first)
    given = _begin_again(problem, found)
    if all(np.allclose(leaf.values, values) for leaf, values in given):
        best.restore()
        return outcome
    begun = [(leaf, np.array(leaf.values)) for leaf, _ in given]
    monitor.say("start: inputs screened")
    monitor.trace.clear()
    values = {"as given": -first}
    try:
        again = fit()
        values["inputs screened"] = -problem.objective()
    except NumericalError:
        again = None
    if again is not None and best.offer(problem.objective()):
        outcome, trace = again, monitor.trace[:]
        monitor.choose("inputs screened", values, 0.0)
        monitor.note(_told(problem, given, begun))
    else:
        monitor.choose("as given", values, 0.0)
    best.restore()
    monitor.trace[:] = trace
    return outcome


Leaf = tuple[Param, Array]  # A leaf with values that it had.


def _begin_again(problem: Problem, found: list[Overlooked]) -> list[Leaf]:
    """Begin as given, but with blind terms where they see; returns leaves with given values."""
    if problem.begun is None:
        return []
    problem.restore(problem.begun)
    shrink_variances(problem, WIDEST)
    changed: list[Leaf] = []
    for one in found:
        for term in one.parts:
            unseen = one.inputs and not np.isin(one.inputs, term.columns).any()
            if unseen or len(term.leaves_with(Role.VARIANCE)) == len(leaves_below(term)):
                continue  # Whatever its parameters are, it sees no more of these inputs.
            changed += [(leaf, np.array(leaf.values)) for leaf in leaves_below(term)]
            write_lengthscales(problem, term, one.lengthscales)
            _tune(problem, term, one)
            set_spread(problem, term, float(problem.starts.scales[one.latent]))
    if not problem.parts.given_inducing and not any(Z.is_fixed for Z in problem.parts.Z):
        for Z in problem.parts.Z:  # Those of a blind kernel may be the first rows of all.
            X, rng = problem.sample.counting().X, np.random.default_rng(0)
            Z[:] = select_inducing(problem.parts.kernels[0], X, len(Z), rng)
    return changed


def _tune(problem: Problem, kernel: Kernel, one: Overlooked) -> None:
    """Set parameters without a role where the kernel explains the scores of its latent best.

    They are tried one after another, each at its value times all of `FACTORS`.
    """
    known = {id(leaf) for role in Role for leaf in kernel.leaves_with(role)}
    rows = np.unique(np.linspace(0, len(one.X) - 1, TUNED_ROWS).astype(int))
    for leaf in leaves_below(kernel):
        vector = problem.free_vector()
        if id(leaf) in known or not vector.places_of(leaf).size:
            continue
        x, values = vector.read(), np.array(leaf.values)
        gains = np.empty(len(FACTORS))
        for k, factor in enumerate(FACTORS):
            vector.write(vector.with_values(x, leaf, values * factor))
            gains[k] = _gain(kernel, one.X[rows], one.targets[rows], one.weights[rows])
        best = np.flatnonzero(gains >= gains.max() - SAME)
        nearest = FACTORS[best[np.argmin(np.abs(np.log(FACTORS[best])))]]
        vector.write(vector.with_values(x, leaf, values * nearest))


def _gain(kernel: Kernel, X: Array, targets: Array, weights: Array) -> float:
    """Nats that a GP with this kernel, whatever its scale, gains on targets; −inf if it is none."""
    with np.errstate(all="ignore"):
        kff = kernel.evaluate_diag(X)[0]
        scale = float(np.mean(kff))
        K = kernel.evaluate(X)[0] / scale
        if not np.isfinite(K).all():
            return -np.inf
        try:
            trial = Trial({1.0: (K, K, kff / scale)}, weights)
        except np.linalg.LinAlgError:
            return -np.inf
        gain = float(trial.fit(targets[None])[0][0])
    return gain if np.isfinite(gain) else -np.inf


def _told(problem: Problem, given: list[Leaf], begun: list[Leaf]) -> str:
    """A note for the result: which given values of kernels the fit did not keep as its start."""
    names = {id(leaf): name for name, leaf in named_leaves(problem.parameters).items()}
    variances = {
        id(leaf) for kernel in problem.parts.kernels for leaf in kernel.leaves_with(Role.VARIANCE)
    }
    words = [
        f"{names[id(leaf)]} = {_listed(new)} in place of {_listed(old)}"
        for (leaf, old), (_, new) in zip(given, begun, strict=True)
        if id(leaf) not in variances and not np.allclose(old, new, rtol=1e-9, atol=0.0)
    ]
    return (
        "the fit overlooked a signal from the given values of kernels; a second fit, which was "
        f"better, began with {', '.join(words) or 'other variances'}"
    )


def _listed(values: Array) -> str:
    return ", ".join(f"{value:.3g}" for value in np.ravel(values))


def tell_of_overlooked(problem: Problem, monitor: Monitor) -> None:
    """Note in the result of a fit if it overlooked a clear signal.

    With default kernels, the best of several starts has tried what the note says.
    """
    if monitor.start and not problem.parts.given_kernels:
        return
    for one in confirmed(problem, find_overlooked(problem, together=False)):
        monitor.note(" ".join(in_words(problem, one)))


def confirmed(problem: Problem, found: list[Overlooked]) -> list[Overlooked]:
    """Those of the signals that the bound confirms, with the nats that it gains as their gain.

    Scores can mislead. Where few rows have any, as with classes that X separates, a step of scoring
    goes far beyond what the likelihood can gain. Here the latent is given an RBF of the inputs that
    explain its scores beside its own kernel, and q is found without and with it.
    """
    tested = [(one, _gain_of_bound(problem, one)) for one in found]
    return [replace(one, gain=gain) for one, gain in tested if gain > CONFIRMED]


def _gain_of_bound(problem: Problem, one: Overlooked) -> float:
    """Nats by which the bound rises with the RBF of `confirmed`; −inf where it has no value."""
    rows, theta = problem.rows_at_hand.thinned(SCREEN_ROWS), problem.parts.theta()
    # Inducing inputs chosen for a blind kernel may lie anywhere: some rows are added to them.
    some = one.X[np.unique(np.linspace(0, len(one.X) - 1, EXTRA).astype(int))]
    theta = replace(theta, Z=[np.vstack([Z, some]) for Z in theta.Z])
    part = Shard(rows.take(slice(None)), nodes=problem.num_nodes)
    evaluator = Evaluator([part], problem.evaluator.family)

    def best_bound(kernels: list[Kernel]) -> float:
        evaluator.set_hyperparameters(replace(theta, kernels=kernels))
        evaluator.start_sites(len(kernels))
        return find_q(evaluator, 0.1, MOST_STEPS).state.bound

    given, bounds = list(theta.kernels), []
    with one_blas_thread(), np.errstate(all="ignore"):
        try:
            before = best_bound(given)
            for share in SHARES_OF_SCALE:
                sd = share * problem.starts.scales[one.latent]
                more = RBF(one.X.shape[1], sd**2, one.lengthscales, ARD=True)
                kernels = given.copy()
                kernels[one.latent] = given[one.latent].copy() + more
                bounds.append(best_bound(kernels))
        except NumericalError:
            return -np.inf
    return max(bounds) - before


def in_words(problem: Problem, one: Overlooked) -> tuple[str, str, str]:
    """What a fit overlooked, why, and what to do, in words."""
    latent = problem.parts.likelihood.latents[one.latent]
    names = getattr(problem.parameters, "input_names", None)
    columns = [f"column {d} of X" if names is None else repr(str(names[d])) for d in one.inputs]
    inputs = " and ".join(columns) if problem.sample.X.shape[1] > 1 and columns else "X"
    latent = f"latent {latent}"
    if len(one.parts) < len(problem.parts.kernels[one.latent].additive_parts):
        parts = " and ".join(part.name for part in one.parts)
        latent = f"kernel {parts} of the {latent}"
    what = "is constant" if one.constant else "follows single rows"
    spread = input_spread(one.X, problem.parts.unordered_columns)
    several = len(problem.parts.kernels[one.latent].simple_parts) > 1
    scales = [
        f"the lengthscale{f' of {part.name}' if several else ''} is {_listed(leaf.values)}, and "
        f"the standard deviation of its input {_listed(spread[part.columns])}"
        for term in one.parts
        for part in term.simple_parts
        for leaf in part.leaves_with(Role.LENGTHSCALE)
    ]
    shared = any(
        leaf.size == 1 and len(part.columns) > 1
        for term in one.parts
        for part in term.simple_parts
        for leaf in part.leaves_with(Role.LENGTHSCALE)
    )
    found = one.lengthscales[one.inputs] if one.inputs else one.lengthscales.min(keepdims=True)
    return (
        f"The {latent} {what} in this fit, although a function of {inputs} would explain "
        f"the data better, by {one.gain:.2g} nats or more.",
        f"Its kernel cannot describe that function: {'; '.join(scales)}."
        if scales
        else "Its kernel cannot describe that function with its present values.",
        f"Set lengthscales in the unit of the inputs, here about {_listed(found)}, and fit again"
        f"{'; give each input a lengthscale of its own, ARD=True' if shared else ''}.",
    )
