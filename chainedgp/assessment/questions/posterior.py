"""The question of `m.check()` about q: how far is it from the exact posterior?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...linalg import Array, variances_in
from ...sampling.density import LogJoint, whitened_q
from ...sampling.pareto import smoothed_weights
from ...sampling.response import response
from ...sampling.tempering import tempered_draws
from ...sampling.widening import wider
from .evidence import Evidence, Finding, graded, worst

# Importance weights of draws from q give posterior standard deviations to some percent if their
# Pareto k is at most GOOD_K; above HIGH_K they say nothing about the posterior.
GOOD_K, HIGH_K = 0.5, 0.7
# At most MOST_DRAWS draws of q are weighted. The number of draws times the number of rows is at
# most PAIRS, because log p is evaluated once for each pair: some seconds at most. Fewer than FEWEST
# draws would say too little: with so many rows the question is not asked.
MOST_DRAWS, FEWEST, PAIRS = 4000, 100, 2_000_000
# If the weights fail, TEMPERED draws, and no fewer than TEMPERED_FEWEST, are led from the prior to
# the posterior, which takes about MOVES evaluations of each. It is done if that needs at most
# TEMPERED_PAIRS evaluations of log p at a row, and q has at most this many dimensions.
TEMPERED, TEMPERED_FEWEST, MOVES, TEMPERED_PAIRS, DIMENSIONS = 300, 60, 250, 10_000_000, 600
STORED = 10_000_000  # The question is not asked if rows times all inducing inputs exceed this.
RESPONDING = (
    3000  # With more rows the response of q is not found: it would take over a second or two.
)
SOME_ROWS = 200  # q is compared with the posterior at this many rows at most.


def posterior(e: Evidence) -> Finding:
    """Compare the latents under q with draws from the exact posterior at the same hyperparameters.

    The posterior is p̂(v) of `sampling.density`. Draws of q are weighted by p̂/q, with the largest
    weights smoothed (PSIS). The shape k of their tail says whether that is enough; if not, the
    draws are those of `sampling.tempering`.
    """
    draws = min(MOST_DRAWS, PAIRS // e.N)
    if draws < FEWEST or e.N * sum(e.problem.parts.sizes) > STORED:
        e.capped.append(f"posterior: not computed, because {e.N} rows are too many to draw from it")
        return Finding("posterior", "ok", "Not computed: too many rows.")
    density, (mean, root) = LogJoint(e.problem), whitened_q(e.problem)
    z = e.rng.standard_normal((len(mean), draws))
    V = mean[:, None] + root @ z
    weights, k = smoothed_weights(density(V)[0] + 0.5 * np.sum(z * z, axis=0))
    rows = e.rows[:: -(-len(e.rows) // SOME_ROWS)]
    how = "weighted draws of q"
    if not k <= GOOD_K:
        found = _tempered(e, density, root @ root.T)
        if found is None and not k <= HIGH_K:
            return _unknown(e, k, _responding(e, density, rows))
        if found is not None:
            how = "draws that were moved step by step from the prior to the posterior"
            V, weights = found, np.full(found.shape[1], 1.0 / found.shape[1])
    moments = _moments(density, V, weights, rows)
    return _compared(e, rows, moments, how, k, _responding(e, density, rows))


def _responding(e: Evidence, density: LogJoint, rows: np.ndarray) -> Array | None:
    """Standard deviations (b, n) of the latents at some rows by the linear response of q."""
    problem = e.problem
    roots = response(problem) if e.N <= RESPONDING else None
    if roots is None:
        return None
    V = problem.parts.family.marginals(density.chunks, wider(problem.parts.q(), roots)).V
    return np.sqrt(variances_in(V.T)[rows].T)


def _tempered(e: Evidence, density: LogJoint, S: Array) -> Array | None:
    """Draw from the exact posterior by tempering, not starting from q; None if too costly."""
    size = min(TEMPERED, TEMPERED_PAIRS // (MOVES * e.N))
    if size < TEMPERED_FEWEST or len(S) > DIMENSIONS:
        return None
    return tempered_draws(density, S, size, e.rng, TEMPERED_PAIRS // e.N)


def _moments(density: LogJoint, V: Array, weights: Array, rows: np.ndarray) -> tuple[Array, Array]:
    """Posterior means and sds (b, n) of latents at some rows, from weighted draws V (D, S) of v."""
    f = density.latents(V, rows)
    mean = f @ weights
    between = ((f - mean[..., None]) ** 2) @ weights
    return mean, np.sqrt(between + density.variances[rows].T)


def _compared(
    e: Evidence,
    rows: np.ndarray,
    moments: tuple[Array, Array],
    how: str,
    k: float,
    responding: Array | None,
) -> Finding:
    """Compare means and sds (b, n) of the exact posterior with those of q, and say it in words."""
    mean, sd = moments
    q_mean, q_sd = e.left.means[rows].T, np.sqrt(variances_in(e.left.variances[rows]).T)
    ratios, errors = np.median(q_sd / sd, axis=1), np.abs(q_mean - mean) / sd
    j = int(np.argmax(np.abs(np.log(ratios))))
    name = e.likelihood.latents[j]
    error = float(np.median(errors, axis=1).max())
    least = float((q_sd / sd)[j].min())
    values = {"pareto_k": k, "rows": rows, "mean": mean.T, "sd": sd.T, "q_mean": q_mean.T}
    values |= {"q_sd": q_sd.T, "sd_ratio": ratios}
    message = (
        f"The approximation q was compared with the exact posterior at {len(rows)} rows, at the "
        f"fitted hyperparameters. The standard deviation of {name} under q is {ratios[j]:.2f} "
        f"times that of the posterior in the median (least {least:.2f}). Means differ by "
        f"{error:.2f} standard deviations in the median (at most {errors.max():.2f}). The "
        f"comparison used {how}; the weights that correct q have a Pareto k of {k:.2f}"
        f"{', too high to be used' if k > HIGH_K else ''}."
    )
    if responding is not None:
        values["response_sd"] = responding.T
        wide = responding[j] / sd[j]
        message += (
            f" By the linear response of q, which default bands include, the ratio is "
            f"{np.median(wide):.2f} (least {wide.min():.2f})."
        )
    off = abs(float(np.log(ratios[j])))
    level = worst([graded(off, np.log(1.3), np.log(2.0)), graded(error, 0.3, 1.0)])
    sure = "Bands of latents are too narrow" if ratios[j] < 1.0 else "Bands of latents are too wide"
    return Finding("posterior", level, message, f"{sure}. {_cause(e)}", _remedy(e), values)


def _unknown(e: Evidence, k: float, responding: Array | None) -> Finding:
    """Report that q is not the posterior where finding out how far it is would cost too much."""
    e.capped.append(
        f"posterior: {e.N} rows are too many to find the standard deviations that q should have"
    )
    values: dict[str, Any] = {"pareto_k": k}
    words = ""
    if responding is not None:
        values["response_sd"] = responding.T
        V = variances_in(e.left.variances[e.rows[:: -(-len(e.rows) // SOME_ROWS)]])
        ratios = np.median(np.sqrt(V.T) / responding, axis=1)
        name = e.likelihood.latents[int(np.argmin(ratios))]
        words = (
            f" By the linear response of q, which default bands include, the median standard "
            f"deviation of {name} under q is {ratios.min():.2f} times what it should be."
        )
    return Finding(
        "posterior",
        "look",
        f"The approximation q differs from the exact posterior: the weights that would correct it "
        f"have a Pareto k of {k:.2f}. With many rows that may be harmless, because many small "
        f"differences add up.{words}",
        _cause(e),
        _remedy(e),
        values,
    )


def _cause(e: Evidence) -> str:
    family, b = e.problem.parts.family, len(e.likelihood.latents)
    if len(family.groups(b)) > 1:
        return (
            "q is Gaussian without correlations between latents, but in the posterior the latents "
            "are correlated."
        )
    return "q is Gaussian, and the posterior is skewed or bent."


def _remedy(e: Evidence) -> str:
    family, b = e.problem.parts.family, len(e.likelihood.latents)
    joint = (
        'Build the model with posterior="joint", or draw' if len(family.groups(b)) > 1 else "Draw"
    )
    return (
        f"{joint} from the posterior: m.sample(hyperparameters=False). Models with "
        'hyperparameters="uncertain", as by default, have wider bands. The values of this finding '
        "have corrected means and standard deviations, where they could be computed. Predictions "
        "of targets are affected less than bands of single latents."
    )
