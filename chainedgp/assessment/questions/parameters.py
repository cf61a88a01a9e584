"""Questions of `m.check()` about parameters: do more inducing inputs help, does one run away?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from paramz.transformations import __fixed__

from ...inference.inducing import more_inducing
from ...inference.natural_gradients import find_q, start_from_q
from ...inference.overlooked import confirmed, find_overlooked, in_words
from ...inference.starts import is_location
from ...kernels import Kernel
from ...likelihoods import Likelihood
from ...linalg import Array, one_blas_thread, variances_in
from ...parameters.leaves import named_leaves
from ...parameters.paramz_model import ParamzModel
from ...parameters.roles import Role
from ...posterior.evaluator import Evaluator
from ...posterior.shards import Shard
from .evidence import Evidence, Finding, graded

DOUBLING_ROWS = 4000  # More inducing inputs are tried on this many rows at most.
MOST_ADDED = 200  # At most this many inducing inputs are tried beside those of the model.
PAIRS = (200, 2000)  # Prior correlations are computed between 200 rows and 2000 others at most.


def inducing_inputs(e: Evidence) -> Finding:
    """How much the bound gains when inducing inputs are doubled at the same hyperparameters."""
    rows, theta = e.some(DOUBLING_ROWS), e.problem.parts.theta()
    threads = e.problem.num_threads
    part = Shard(e.left.rows.take(rows), nodes=e.problem.num_nodes, num_threads=threads)
    evaluator, scale = Evaluator([part], e.problem.evaluator.family), e.N / len(rows)
    tolerance = max(1e-3, 1e-6 * e.N)
    with one_blas_thread(), np.errstate(all="ignore"):
        evaluator.set_hyperparameters(theta, scale)
        start_from_q(evaluator, e.left.q)
        before = find_q(evaluator, tolerance, 50).state.bound
        some = part.rows.X[e.rng.permutation(len(rows))[: PAIRS[1]]]
        added = [
            more_inducing(prior, some, min(len(prior.Z), MOST_ADDED))
            for prior in evaluator.setting.projectors
        ]
        Z = [np.vstack(pair) for pair in zip(theta.Z, added, strict=True)]
        evaluator.set_hyperparameters(replace(theta, Z=Z), scale)
        gain = find_q(evaluator, tolerance, 50).state.bound - before
    if len(rows) < e.N:
        e.capped.append(f"inducing inputs: {len(rows)} of {e.N} rows, drawn at random")
    if max(map(len, theta.Z)) > MOST_ADDED:
        e.capped.append(f"inducing inputs: {MOST_ADDED} more were tried, not twice as many")
    sizes, more = max(map(len, theta.Z)), max(map(len, added))
    gain = gain if more else 0.0
    values = {"gain": gain, "gain_per_row": gain / e.N, "num_inducing": sizes, "added": more}
    level = "ok" if gain < 1.0 else graded(gain / e.N, 0.01, 0.1)
    word = "would not help" if level == "ok" else "would help"
    message = (
        f"Adding inducing inputs {word}: with {more} more than the present {sizes} the bound rises "
        f"by {max(gain, 0.0):.2g} nats ({max(gain, 0.0) / e.N:.1g} a row)."
        if more
        else f"Adding inducing inputs would not help: the present {sizes} determine the functions "
        "at every row."
    )
    return Finding(
        "inducing_inputs",
        level,
        message,
        "The functions vary faster than the inducing inputs can follow.",
        f"Build the model with num_inducing={2 * sizes} or more, and fit it again.",
        values,
    )


def hyperparameters(e: Evidence) -> Finding:
    """Find hyperparameters at a bound, and latents that are constant or follow single rows.

    It is a problem if the inputs would explain such a latent.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = confirmed(e.problem, find_overlooked(e.problem))
        overlooked = {one.latent: in_words(e.problem, one) for one in found}
        notes = [*_at_bounds(e.problem.parameters), *overlooked.values()]
        notes += _latent_notes(e, overlooked)
    values = {"notes": tuple(message for message, _, _ in notes)}
    if not notes:
        message = "No parameter is at a bound or has an extreme value."
        return Finding("hyperparameters", "ok", message, values=values)
    messages, causes, remedies = (
        " ".join(dict.fromkeys(part)) for part in zip(*notes, strict=True)
    )
    level = "problem" if overlooked else "look"
    return Finding("hyperparameters", level, messages, causes, remedies, values)


def _at_bounds(parameters: ParamzModel) -> list[tuple[str, str, str]]:
    """Find free parameters within a thousandth of an end of the interval that constrains them."""
    notes = []
    for name, leaf in named_leaves(parameters).items():
        fixed = np.asarray(leaf.is_fixed).all()
        for constraint, entries in leaf.constraints.items():
            low = getattr(constraint, "lower", None)
            if low is None or fixed or constraint == __fixed__:
                continue
            high = float(getattr(constraint, "upper", np.inf))
            width = high - low if np.isfinite(high) else 10.0 * max(abs(low), 1.0)
            distance = np.asarray(leaf.values).ravel()[entries] - low
            if (np.minimum(distance, high - low - distance) < 1e-3 * width).any():
                notes.append((
                    f"The parameter {name} is at the end of its interval ({constraint}).",
                    "The best value may lie outside the interval, or the data do not determine it.",
                    f"Widen the constraint, or fix {name} at a value that makes sense.",
                ))  # fmt: skip
    return notes


def _set_a_prior(latent: str, kernel: Kernel, role: Role) -> str:
    """Remedy of a finding: put a prior on the kernel's parameter of this role, by its name."""
    name = next((leaf.name for leaf in kernel.leaves_with(role)), role.value)
    return f'Put a prior on it: m.set_prior("kernels.{latent}.*{name}", …).'


def _latent_notes(e: Evidence, told: Collection[int]) -> list[tuple[str, str, str]]:
    """Find latents that are constant, that follow single rows, or whose prior variance ran away.

    told : numbers of the latents of which is known already that they are constant or follow rows.
    """
    rows, lik, kernels = e.problem.rows, e.likelihood, e.problem.parts.kernels
    notes, (few, many) = [], (e.some(PAIRS[0]), e.some(PAIRS[1]))
    kw = e.left.rows.keywords(many, **lik.parameter_values())
    scales = _usual_scales(lik, e.y[many], e.left.means.mean(axis=0), kw)
    X = [rows.inputs(some) for some in (few, many)]
    q = e.problem.parts.family.by_latent(e.left.q, e.problem.parts.sizes)
    means, variances = e.left.means[many], variances_in(e.left.variances[many])
    for j, (latent, kernel) in enumerate(zip(lik.latents, kernels, strict=True)):
        sd = [np.sqrt(kernel.evaluate_diag(part)[0]) for part in X]
        if not all((part > 0.0).all() for part in sd):
            continue
        R = kernel.evaluate(*X)[0] / np.outer(*sd)
        R_near = np.where(few[:, None] == many, -1.0, R).max(axis=1)
        if j in told:
            pass
        elif R.min() > 0.999 or q[j].kl < 0.5:
            notes.append((
                f"The latent {latent} does not vary.",
                "The data do not show that it varies: its lengthscale is very long, or its "
                "variance is 0.",
                f'A constant in its place is enough: likelihood.with_constant("{latent}").'
                if len(lik.latents) > 1
                else "Either nothing in X explains Y, or the fit began badly: try "
                "m.optimize_restarts(5).",
            ))  # fmt: skip
        elif len(many) > 2 and np.median(R_near) < 0.1:
            notes.append((
                f"The latent {latent} is uncorrelated between neighbouring rows.",
                "Its lengthscale is shorter than the distance between rows, so it follows "
                "single rows.",
                _set_a_prior(latent, kernel, Role.LENGTHSCALE),
            ))  # fmt: skip
        elif len(lik.latents) > 1 and _holds_a_constant(means[:, j], variances[:, j]):
            notes.append((
                f"The latent {latent} varies by less than its uncertainty: one constant lies "
                "within a standard deviation of it at every row.",
                "The data hardly show that it varies; the prior on its variance does not let it "
                "end as a constant.",
                f'If the parameter may be constant, fit likelihood.with_constant("{latent}") as '
                "well, and compare the two with chainedgp.compare.",
            ))  # fmt: skip
        if sd[1].mean() > 100.0 * scales[j]:
            notes.append((
                f"The latent {latent} has a prior standard deviation of {sd[1].mean():.2g}; about "
                f"{scales[j]:.2g} would be usual.",
                "The data do not limit its variance: perhaps they separate classes perfectly.",
                _set_a_prior(latent, kernel, Role.VARIANCE),
            ))  # fmt: skip
    return notes


def _holds_a_constant(mean: Array, variance: Array) -> bool:
    """Whether one number lies within a standard deviation of a latent at every row, all (n,)."""
    sd = np.sqrt(variance)
    return bool((mean - sd).max() <= (mean + sd).min())


def _usual_scales(lik: Likelihood, y: Array, values: Array, kw: Mapping[str, Any]) -> Array:
    """Prior standard deviations (b,) usual for latents: that of y for a location, else 1."""
    return np.where(is_location(lik, y, values, kw), y.std(), 1.0)
