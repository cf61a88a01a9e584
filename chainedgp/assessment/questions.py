"""What a careful statistician asks of a fit: one function for each question, one finding each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, logit

from ..inference.free_vector import FreeVector
from ..inference.inducing import more_inducing
from ..inference.natural_gradients import find_q, predicted_gap, start_from_q
from ..inference.starts import input_spread, latent_scales
from ..linalg import one_blas_thread
from ..parameters.domains import CONTINUOUS, AboveOne
from ..posterior.evaluator import Evaluator
from ..posterior.shards import Shard
from ..predictive.distribution import Predictive
from .evidence import Evidence, Finding, graded, listed, worst
from .loo import influence

__all__ = [
    "calibration",
    "convergence",
    "hyperparameters",
    "inducing_inputs",
    "negative_sites",
    "noise",
    "outliers",
    "pareto_k",
    "quadrature",
    "scaling",
]

DRAWS = 2000  # of q, for the Pareto k of a row
HIGH_K = 0.7
DOUBLING_ROWS, MOST_ADDED = 4000, 200  # work on whether M is enough
BINS, PIT_ROWS = 10, 200  # a cdf may take many milliseconds
MOST_OUTLIERS = 20
PAIRS = (200, 2000)  # rows whose prior correlations are looked at
OUTLIER = 1e-3  # expected number of rows as far out, over all rows
SHARP = np.log(1e3)  # of a density times the spread of the targets: 0.5 sd(y)/sd(noise)


def convergence(e: Evidence) -> Finding:
    """Gradient of the bound in the free hyperparameters, distance of q from its optimum."""
    model = e.model
    model.objective_function_gradients()
    slopes = np.abs(FreeVector(model).slopes())
    steepest = float(slopes.max()) if slopes.size else 0.0
    q = tuple(replace(part, precision=np.linalg.inv(part.S)) for part in e.left.q)
    gap = predicted_gap(model._evaluator, replace(e.left.state, q=q))
    result = getattr(model, "last_result", None)
    values = {"gradient": steepest, "gap": gap}
    told = (
        "it was never optimised" if result is None else f"its last fit ended as {result.status!r}"
    )
    message = (
        f"The largest slope of the bound is {steepest:.2g} nats (per unit of a logarithm or of a "
        f"standard deviation), q is {gap:.2g} nats from its optimum; {told}."
    )
    levels = [graded(steepest, 1.0 + 1e-3 * e.N, 10.0 + 0.05 * e.N), graded(gap, 0.05, 1.0)]
    if result is not None and result.status in ("stopped", "interrupted"):
        levels.append("look")
    level = worst(levels)
    if levels[0] == "ok" and levels[1] != "ok":
        cause = "Parameters were changed after q was found."
        remedy = 'Find q for them: m.optimize(only="variational").'
    else:
        cause = "The hyperparameters have not been optimised, or not to the end."
        remedy = "Call m.optimize(), again if need be: it goes on from where it is."
    return Finding("convergence", level, message, cause, remedy, values)


def quadrature(e: Evidence) -> Finding:
    """Rows whose integral over q changes by more than 1e-6 with twice the nodes that it has."""
    lik, left, nodes = e.model.likelihood, e.left, e.model.num_nodes
    kw = {**lik.parameter_values(), **e.metadata(e.rows)}
    arguments = (e.y[e.rows], left.means[e.rows], left.variances[e.rows])
    own = lik.required_nodes(*arguments, **kw) if nodes is None else nodes
    value, finer = (lik.expectation(*arguments, k * own, **kw)[0] for k in (1, 2))
    rows = e.rows[~(np.abs(value - finer) <= 1e-6 + 1e-12 * np.abs(value))]
    share = len(rows) / len(e.rows)
    values = {"rows": rows, "share": share}
    if not len(rows):
        return Finding("quadrature", "ok", "Every row's integral is good to 1e-6.", values=values)
    return Finding(
        "quadrature",
        graded(share, 0.0, 0.1),
        f"The integrals of {len(rows)} of {len(e.rows)} rows ({listed(rows)}) are off by more than "
        f"1e-6 with {'the nodes they have' if nodes is None else f'{nodes} nodes'}.",
        "The posterior is wide there against the scale of the noise.",
        "Leave num_nodes out, to have them chosen for each row."
        if nodes is not None
        else "Add inducing inputs or data near these rows, or bound the latent's variance by a "
        "prior; a rougher bound does little harm if the rows are few.",
        values,
    )


def negative_sites(e: Evidence) -> Finding:
    """Share of rows whose site has a negative precision: rows that make q wider."""
    shares = (e.left.sites[1] < 0.0).mean(axis=1)  # (b,)
    values = dict(zip(e.model.latents, map(float, shares), strict=True))
    j = int(shares.argmax())
    level = graded(shares[j], 0.5, 0.8)
    message = f"{shares[j]:.0%} of the rows widen q of {e.model.latents[j]} (negative sites)."
    return Finding(
        "negative_sites",
        level,
        message,
        "The log-density is not concave at these rows: they contradict the rest, as outliers of a "
        "Student-t do. With many of them the posterior may have several modes.",
        "Compare several starts, m.optimize_restarts(5); look at the rows; see whether the "
        "likelihood is the right one.",
        values,
    )


def pareto_k(e: Evidence) -> Finding:
    """Rows of so much influence that leaving them out changes the posterior much."""
    k = influence(e.model, e.left, e.rows, e.rng, DRAWS)
    high = np.flatnonzero(k > HIGH_K)
    high = high[np.argsort(-k[high], kind="stable")]
    share = len(high) / len(k)
    values = {"pareto_k": k, "rows": e.rows[high], "share": share}
    message = (
        f"The importance weights that leave a row out of q (PSIS) have a Pareto k above {HIGH_K} "
        f"in {len(high)} of {len(k)} rows; the largest is {k.max():.2f}."
    )
    level = graded(share, 0.05, 0.2)
    if level == "ok":
        few = " These are few, and m.loo() finds q anew without each." if len(high) else ""
        return Finding("pareto_k", level, message + few, values=values)
    return Finding(
        "pareto_k",
        level,
        f"{message} Highest in rows {listed(e.rows[high])}.",
        "Single rows decide what the latents are there: outliers, few rows for the flexibility "
        "of the kernels, or a noise latent that follows single rows.",
        "Look at these rows; a likelihood of heavier tails, longer lengthscales by "
        "m.set_prior, or a constant noise. For leave-one-out densities use "
        f"m.loo(refit={int(np.ceil(share * e.N))}).",
        values,
    )


def calibration(e: Evidence) -> Finding:
    """Whether the leave-one-out PIT is uniform, by χ² over ten bins."""
    if e.model.likelihood.support == "categories":
        return Finding("calibration", "ok", "Not asked: classes have no order.")
    rows = e.rows
    if len(rows) > PIT_ROWS:
        rows = np.sort(e.rng.choice(rows, PIT_ROWS, replace=False))
        e.capped.append(f"calibration: {PIT_ROWS} of {e.N} rows, drawn at random")
    lower, upper = e.pit(rows)
    u = np.clip(lower + e.rng.uniform(size=len(lower)) * (upper - lower), 0.0, 1.0 - 1e-12)
    counts = np.bincount((u * BINS).astype(int), minlength=BINS)
    expected = len(u) / BINS
    statistic = float(((counts - expected) ** 2).sum() / expected)
    p_value = float(chdtrc(BINS - 1, statistic))
    values = {"pit": u, "counts": counts, "p_value": p_value}
    level = graded(-np.log10(max(p_value, 1e-300)), 3.0, 6.0)
    if level == "ok":
        message = f"The PIT of rows left out is uniform (p = {p_value:.2g})."
        return Finding("calibration", level, message, values=values)
    ends, middle = counts[[0, -1]].sum() / (2 * expected), counts[3:7].sum() / (4 * expected)
    shape, cause = "uneven", "The likelihood is not that of the data."
    if ends > 1.25 and ends > middle:
        shape = "too often near 0 and 1"
        cause = "Predictive distributions are too narrow: heavier tails, or noise that varies."
    elif middle > 1.15:
        shape = "too often near ½"
        cause = "Predictive distributions are too wide: lighter tails, or noise that varies."
    return Finding(
        "calibration",
        level,
        f"The PIT of rows left out is not uniform, {shape} (p = {p_value:.1g}).",
        cause,
        "Draw m.plot_pit(); try another likelihood and compare by chainedgp.compare.",
        values,
    )


def outliers(e: Evidence) -> Finding:
    """Rows that the model, fitted without them, holds for all but impossible."""
    if e.model.likelihood.support == "categories":
        return Finding("outliers", "ok", "Not asked: classes have no order.")
    log_p = e.left_out(e.rows).logpdf(e.y[e.rows][:, None])[:, 0]
    rows = e.rows[np.argsort(log_p, kind="stable")[:MOST_OUTLIERS]]  # the others are likelier
    lower, upper = e.pit(rows)
    expected = 2.0 * np.minimum(upper, 1.0 - lower) * e.N  # rows as far out
    far = rows[expected < OUTLIER]
    values = {"rows": far}
    if not len(far):
        return Finding("outliers", "ok", "No row is farther out than chance allows.", values=values)
    return Finding(
        "outliers",
        "look",
        f"{'At least ' * (len(far) == MOST_OUTLIERS)}{len(far)} rows lie farther out than the "
        f"model allows: {listed(far)}.",
        "Errors in the data, or noise of heavier tails than the likelihood has.",
        "Look at these rows; use a likelihood of heavier tails such as HetStudentT.",
        values,
    )


def inducing_inputs(e: Evidence) -> Finding:
    """How much the bound gains when inducing inputs are doubled, hyperparameters as they are."""
    model, rows = e.model, e.some(DOUBLING_ROWS)
    theta, shard = model._theta(), e.left.shard
    part = Shard(
        np.asarray(shard.X[rows], dtype=float),
        e.y[rows],
        e.metadata(rows),
        e.left.weights[rows],
        nodes=model.num_nodes,
        num_threads=model.num_threads,
    )
    evaluator, scale = Evaluator([part]), e.N / len(rows)
    tolerance = max(1e-3, 1e-6 * e.N)
    with one_blas_thread(), np.errstate(all="ignore"):
        evaluator.set_hyperparameters(theta, scale)
        start_from_q(evaluator, e.left.q)
        before = find_q(evaluator, tolerance, 50).state.bound
        some = part.X[e.rng.permutation(len(rows))[: PAIRS[1]]]
        added = [
            more_inducing(prior, some, min(len(prior.Z), MOST_ADDED))
            for prior in evaluator.task.priors
        ]
        Z = [np.vstack(pair) for pair in zip(theta.Z, added, strict=True)]
        evaluator.set_hyperparameters(replace(theta, Z=Z), scale)
        gain = find_q(evaluator, tolerance, 50).state.bound - before
    if len(rows) < e.N:
        e.capped.append(f"inducing inputs: {len(rows)} of {e.N} rows, drawn at random")
    if max(map(len, theta.Z)) > MOST_ADDED:
        e.capped.append(f"inducing inputs: {MOST_ADDED} more instead of twice as many")
    sizes, more = max(map(len, theta.Z)), max(map(len, added))
    gain = gain if more else 0.0
    values = {"gain": gain, "gain_per_row": gain / e.N, "num_inducing": sizes, "added": more}
    message = (
        f"{more} more than the {sizes} inducing inputs raise the bound by {max(gain, 0.0):.2g} "
        f"nats, {max(gain, 0.0) / e.N:.1g} a row."
        if more
        else f"The {sizes} inducing inputs determine the functions at every row."
    )
    level = "ok" if gain < 1.0 else graded(gain / e.N, 0.01, 0.1)
    return Finding(
        "inducing_inputs",
        level,
        message,
        "The functions vary faster than the inducing inputs can follow.",
        f"Build the model with num_inducing={2 * sizes} or more, and fit it again.",
        values,
    )


def hyperparameters(e: Evidence) -> Finding:
    """Parameters at a bound or running away: latents without effect, or that follow single rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        notes = [*_at_bounds(e.model), *_latent_notes(e)]
    values = {"notes": tuple(message for message, _, _ in notes)}
    if not notes:
        message = "No parameter is at a bound or runs away."
        return Finding("hyperparameters", "ok", message, values=values)
    messages, causes, remedies = (
        " ".join(dict.fromkeys(part)) for part in zip(*notes, strict=True)
    )
    return Finding("hyperparameters", "look", messages, causes, remedies, values)


def _at_bounds(model: Any) -> list[tuple[str, str, str]]:
    """Free parameters within a thousandth of the end of their interval."""
    notes = []
    for name, leaf in model._named_leaves().items():
        fixed = np.asarray(leaf.is_fixed).all()
        for constraint, entries in leaf.constraints.items():
            low = 1.0 if isinstance(constraint, AboveOne) else getattr(constraint, "lower", None)
            if low is None or fixed:
                continue
            high = float(getattr(constraint, "upper", np.inf))
            width = high - low if np.isfinite(high) else 10.0 * max(abs(low), 1.0)
            distance = np.asarray(leaf.values).ravel()[entries] - low
            if (np.minimum(distance, high - low - distance) < 1e-3 * width).any():
                notes.append((
                    f"{name} is at the end of its interval ({constraint}).",
                    "The data ask for a value beyond it, or say nothing about it.",
                    f"Widen the constraint, or fix {name} at a value that makes sense.",
                ))  # fmt: skip
    return notes


def _latent_notes(e: Evidence) -> list[tuple[str, str, str]]:
    """What the prior correlation of rows, its variance and q say of each latent."""
    model, lik = e.model, e.model.likelihood
    notes, (few, many) = [], (e.some(PAIRS[0]), e.some(PAIRS[1]))
    kw = {**e.metadata(many), **lik.parameter_values()}
    scales = latent_scales(lik, e.y[many], e.left.means.mean(axis=0), kw)
    X = [np.asarray(model.X[rows], dtype=float) for rows in (few, many)]
    for j, (latent, kernel) in enumerate(zip(model.latents, model.kernels, strict=True)):
        sd = [np.sqrt(kernel.evaluate_diag(part)[0]) for part in X]
        if not all((part > 0.0).all() for part in sd):
            continue
        R = kernel.evaluate(*X)[0] / np.outer(*sd)
        R_near = np.where(few[:, None] == many, -1.0, R).max(axis=1)
        if R.min() > 0.999 or e.left.q[j].kl < 0.5:
            notes.append((
                f"The latent {latent} does not vary.",
                "The data do not ask for it: an infinite lengthscale or a variance of 0.",
                f'A constant does the same: likelihood.with_constant("{latent}").'
                if len(model.latents) > 1
                else "Nothing in X explains Y, or the start was a bad one: m.optimize_restarts(5).",
            ))  # fmt: skip
        elif len(many) > 2 and np.median(R_near) < 0.1:
            notes.append((
                f"The latent {latent} is uncorrelated from row to row.",
                "Its lengthscale is shorter than the distance of the rows: it follows single rows.",
                f'Put a prior on it: m.set_prior("kernels.{latent}.*lengthscale", …).',
            ))  # fmt: skip
        if sd[1].mean() > 100.0 * scales[j]:
            notes.append((
                f"The latent {latent} has a prior sd of {sd[1].mean():.2g}, {scales[j]:.2g} would "
                "be usual.",
                "Its variance runs away: the data do not bound it, as where classes separate.",
                f'Put a prior on it: m.set_prior("kernels.{latent}.*variance", …).',
            ))  # fmt: skip
    return notes


def scaling(e: Evidence) -> Finding:
    """Columns of X, and y, whose numbers are badly scaled."""
    X = np.asarray(e.model.X[e.some(10_000)], dtype=float)
    names = e.model.input_names or range(X.shape[1])
    spread, size = X.std(axis=0), np.abs(X).max(axis=0)
    z = np.abs(X - np.median(X, axis=0)).max(axis=0) / input_spread(X)
    notes, levels = [], ["ok"]
    for d, name in enumerate(names):
        if spread[d] <= 1e-12 * size[d]:
            notes.append((f"Column {name} of X is constant.", "Leave it out."))
        elif spread[d] < 1e-5 * size[d]:
            notes.append((
                f"Column {name} of X varies by {spread[d]:.1g} around {size[d]:.1g}, so that "
                "distances lose digits.", "Subtract its mean."))  # fmt: skip
            levels.append("problem" if spread[d] < 1e-7 * size[d] else "look")
        elif z[d] > 30.0:
            notes.append((
                f"Column {name} of X has values {z[d]:.0f} standard deviations out.",
                "Take its logarithm or ranks."))  # fmt: skip
    standard = (X - X.mean(axis=0)) / input_spread(X)
    R = np.triu(np.abs(standard.T @ standard) / len(X), 1)
    for c, d in np.argwhere(R > 1.0 - 1e-6)[:3]:
        notes.append((f"Columns {names[c]} and {names[d]} of X say the same.", "Leave one out."))
    if e.model.likelihood.support in ("real", "positive"):
        if e.y.std() <= 1e-12 * np.abs(e.y).max():
            notes.append(("All targets are the same.", "There is nothing to model."))
            levels.append("problem")
        elif e.y.std() < 1e-5 * np.abs(e.y).max():
            notes.append(("Y varies little around a large value.", "Subtract its mean."))
    if not notes:
        return Finding("scaling", "ok", "X and Y are well scaled.")
    messages, remedies = (" ".join(dict.fromkeys(part)) for part in zip(*notes, strict=True))
    cause = "The numbers come in units that do not suit them."
    return Finding("scaling", worst([*levels, "look"]), messages, cause, remedies)


def noise(e: Evidence) -> Finding:
    """Whether a continuous density is so sharp at its rows that the noise vanishes there."""
    lik, y = e.model.likelihood, e.y[e.rows]
    metadata = e.metadata(e.rows)
    seen = ~np.isin(y, lik.atoms) & (metadata.get("censored", np.zeros(len(y))) == 0)
    if lik.support not in CONTINUOUS or not seen.any():
        return Finding("noise", "ok", "Not asked: the targets are not continuous.")
    left = e.left
    q = Predictive(lik, left.means[e.rows], left.variances[e.rows], metadata)
    log_p = q.logpdf(y[:, None])[seen, 0]
    y = y[seen]
    if lik.support == "positive":  # on the scale where targets are spread evenly
        log_p, y = log_p + np.log(y), np.log(y)
    elif lik.support == "unit":
        log_p, y = log_p + np.log(y) + np.log1p(-y), logit(y)
    spread = np.subtract(*np.quantile(y, [0.75, 0.25])) or y.std() or 1.0
    sharp = log_p + np.log(spread)
    rows = e.rows[seen][sharp > SHARP]
    values = {"rows": rows, "sharpest": float(sharp.max())}
    if not len(rows):
        return Finding("noise", "ok", "The noise vanishes nowhere.", values=values)
    return Finding(
        "noise",
        "problem" if len(rows) > 0.2 * len(sharp) else "look",
        f"The noise vanishes at {len(rows)} of {len(sharp)} rows ({listed(rows)}).",
        "The targets follow X without noise, or are repeated or rounded; or the noise latent "
        "follows single rows.",
        'Put a prior on the noise, m.set_prior("kernels.*variance", …), make it constant, or fix '
        "it at the precision of the measurements.",
        values,
    )
