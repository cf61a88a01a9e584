"""Questions about the fit: has it converged, are its integrals right, do rows widen q?"""

from __future__ import annotations

import numpy as np

from .evidence import Evidence, Finding, graded, listed, worst

__all__ = ["convergence", "negative_sites", "quadrature"]


def convergence(e: Evidence) -> Finding:
    """Gradient of the bound in the free hyperparameters, distance of q from its optimum."""
    e.problem.take_gradient()
    slopes = np.abs(e.problem.free_vector().slopes())
    steepest = float(slopes.max()) if slopes.size else 0.0
    gap, result = e.left.gap, e.result
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
    lik, left, nodes = e.likelihood, e.left, e.problem.num_nodes
    kw = left.rows.keywords(e.rows, **lik.parameter_values())
    y, means, variances = e.y[e.rows], left.means[e.rows], left.variances[e.rows]
    own = lik.required_nodes(y, means, variances, **kw) if nodes is None else nodes
    value, finer = (lik.expectation(y, means, variances, k * own, **kw)[0] for k in (1, 2))
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
    precisions = e.problem.evaluator.family.precisions(e.left.sites)  # (b, N)
    shares = (precisions < 0.0).mean(axis=1)
    values = dict(zip(e.likelihood.latents, map(float, shares), strict=True))
    j = int(shares.argmax())
    level = graded(shares[j], 0.5, 0.8)
    message = f"{shares[j]:.0%} of the rows widen q of {e.likelihood.latents[j]} (negative sites)."
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
