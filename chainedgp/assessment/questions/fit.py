"""Questions of `m.check()` about the fit: convergence, quadrature, and sites that widen q."""

from __future__ import annotations

import numpy as np

from .evidence import Evidence, Finding, graded, worst


def convergence(e: Evidence) -> Finding:
    """Whether the fit converged: slopes in the hyperparameters, distance of q from its optimum."""
    e.problem.take_gradient()
    slopes = np.abs(e.problem.free_vector().slopes())
    steepest = float(slopes.max()) if slopes.size else 0.0
    gap, result = e.left.gap, e.result
    values = {"gradient": steepest, "gap": gap}
    told = (
        "The model was never fitted"
        if result is None
        else f"The last fit ended with the status {result.status!r}"
    )
    message = (
        f"{told}. The posterior approximation q is {gap:.2g} nats from its optimum, and the "
        f"steepest slope of the bound is {steepest:.2g} nats (per unit of a log-parameter or of a "
        "standard deviation)."
    )
    levels = [graded(steepest, 1.0 + 1e-3 * e.N, 10.0 + 0.05 * e.N), graded(gap, 0.05, 1.0)]
    if result is not None and result.status in ("stopped", "interrupted"):
        levels.append("look")
    level = worst(levels)
    if levels[0] == "ok" and levels[1] != "ok":
        cause = "Parameters were changed after q had been fitted."
        remedy = 'Fit q to the new parameters: m.optimize(only="variational").'
    else:
        cause = "The hyperparameters were not optimised, or the optimisation was stopped early."
        remedy = "Call m.optimize(). A second call goes on from where the first ended."
    return Finding("convergence", level, message, cause, remedy, values)


def quadrature(e: Evidence) -> Finding:
    """Find rows whose E[log p] by quadrature changes by more than 1e-6 with twice the nodes."""
    lik, left, nodes = e.likelihood, e.left, e.problem.num_nodes
    kw = left.rows.keywords(e.rows, **lik.parameter_values())
    y, means, variances = e.y[e.rows], left.means[e.rows], left.variances[e.rows]
    own = lik.required_nodes(y, means, variances, **kw) if nodes is None else nodes
    value, finer = (lik.expectation(y, means, variances, k * own, **kw)[0] for k in (1, 2))
    rows = e.rows[~(np.abs(value - finer) <= 1e-6 + 1e-12 * np.abs(value))]
    share = len(rows) / len(e.rows)
    values = {"rows": rows, "share": share}
    if not len(rows):
        return Finding(
            "quadrature", "ok", "The integral of every row is accurate to 1e-6.", values=values
        )
    return Finding(
        "quadrature",
        graded(share, 0.0, 0.1),
        f"The integrals of {len(rows)} of {len(e.rows)} rows ({e.listed(rows)}) change by more "
        f"than 1e-6 when {'their nodes' if nodes is None else f'the {nodes} nodes'} are doubled.",
        "At these rows the posterior is wide compared with the scale of the noise.",
        "Leave num_nodes out: the number of nodes is then chosen for each row."
        if nodes is not None
        else "Add inducing inputs or data near these rows, or limit the latent's variance by a "
        "prior. If such rows are few, the error does little harm.",
        values,
    )


def negative_sites(e: Evidence) -> Finding:
    """Share of rows whose Gaussian site has a negative precision, which makes q wider."""
    precisions = e.problem.evaluator.family.precisions(e.left.sites)  # (b, N)
    shares = (precisions < 0.0).mean(axis=1)
    values = dict(zip(e.likelihood.latents, map(float, shares), strict=True))
    j = int(shares.argmax())
    level = graded(shares[j], 0.5, 0.8)
    message = (
        f"{shares[j]:.0%} of the rows make q of {e.likelihood.latents[j]} wider and not narrower "
        "(negative sites)."
        if shares[j] > 0.0
        else "Every row makes q narrower (there are no negative sites)."
    )
    return Finding(
        "negative_sites",
        level,
        message,
        "The log-density is not concave at these rows: they contradict the others, as outliers "
        "under a Student-t do. With many such rows the posterior may have several modes.",
        "Compare several starts with m.optimize_restarts(5), look at the rows, and ask whether the "
        "likelihood is the right one.",
        values,
    )
