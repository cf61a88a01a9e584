"""Questions of `m.check()` about rows: influence, calibration, outliers, noise that vanishes."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from ...likelihoods import Likelihood
from ...likelihoods.support import Continuum
from ...predictive.distribution import Predictive
from ..loo import influence
from .evidence import Evidence, Finding, graded

DRAWS = 2000  # The Pareto k of a row is found from this many draws from q.
HIGH_K = 0.7  # Importance weights are not to be trusted where Pareto k is above this.
# The PIT is counted in BINS bins over at most PIT_ROWS rows: a cdf may take many milliseconds.
BINS, PIT_ROWS = 10, 200
MOST_OUTLIERS = 20  # Only this many rows, the least likely ones, are examined as outliers.
# A row is an outlier if fewer rows than this, of all rows of the data, are expected as far out.
OUTLIER = 1e-3
# A row has no noise if its density times the spread of the targets is above the exponential of
# this: about where the standard deviation of the noise is 1/2000 of that of the targets.
SHARP = np.log(1e3)


def pareto_k(e: Evidence) -> Finding:
    """Find rows of large influence on the fit, by the Pareto k of leaving each of them out."""
    k = influence(e.left, e.rows, e.rng, DRAWS)
    high = np.flatnonzero(k > HIGH_K)
    high = high[np.argsort(-k[high], kind="stable")]
    share = len(high) / len(k)
    values = {"pareto_k": k, "rows": e.rows[high], "share": share}
    message = (
        f"{len(high)} of {len(k)} rows {'has' if len(high) == 1 else 'have'} a large influence on "
        f"the fit: a Pareto k above {HIGH_K}. The largest is {k.max():.2f}."
    )
    level = graded(share, 0.05, 0.2)
    if level == "ok":
        few = (
            " Such rows are few, and m.loo() fits q again without each of them."
            if len(high)
            else ""
        )
        return Finding("pareto_k", level, message + few, values=values)
    return Finding(
        "pareto_k",
        level,
        f"{message} It is highest in rows {e.listed(e.rows[high])}.",
        *_why_and_what(e.likelihood, int(np.ceil(share * e.N))),
        values,
    )


def _why_and_what(likelihood: Likelihood, refit: int) -> tuple[str, str]:
    """Why single rows have a large influence on a fit, and what to do, in words."""
    few = "there are too few rows for such flexible kernels"
    then = f"For leave-one-out densities use m.loo(refit={refit})."
    if likelihood.target_support.size is not None:  # Their targets have no tails.
        cause = (
            f"Single rows decide what the latents are near them: they have rare targets, or {few}."
        )
        return cause, (
            "Look at these rows: their targets may be wrong. Then try longer lengthscales or "
            f"smaller variances by m.set_prior, or fewer inputs. {then}"
        )
    varies = len(likelihood.latents) > 1
    cause = (
        f"Single rows decide what the latents are near them: they are outliers, or {few}"
        f"{', or a noise latent follows single rows' if varies else ''}."
    )
    ways = "a likelihood with heavier tails, " if varies else "a likelihood with heavier tails or "
    ways += "longer lengthscales by m.set_prior" + (", or a constant noise" if varies else "")
    return cause, f"Look at these rows. Then try {ways}. {then}"


def calibration(e: Evidence) -> Finding:
    """Whether the leave-one-out PIT is uniform, by a χ² test over ten bins."""
    if not e.likelihood.target_support.ordered:
        return Finding("calibration", "ok", "Not computed: classes have no order.")
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
        message = f"Predictions of left-out rows are calibrated (PIT uniform, p = {p_value:.2g})."
        return Finding("calibration", level, message, values=values)
    ends, middle = counts[[0, -1]].sum() / (2 * expected), counts[3:7].sum() / (4 * expected)
    shape, cause = "uneven", "The likelihood does not describe the data."
    if ends > 1.25 and ends > middle:
        shape = "too often near 0 and 1"
        cause = "Predictions are too narrow: the data have heavier tails, or noise that varies."
    elif middle > 1.15:
        shape = "too often near ½"
        cause = "Predictions are too wide: the data have lighter tails, or noise that varies."
    return Finding(
        "calibration",
        level,
        f"Predictions of left-out rows are not calibrated: their PIT is {shape} "
        f"(p = {p_value:.1g}).",
        cause,
        "Look at m.plot_pit(), try another likelihood, and compare the two with chainedgp.compare.",
        values,
    )


def outliers(e: Evidence) -> Finding:
    """Find outliers: rows that the model, fitted without them, holds for all but impossible."""
    if not e.likelihood.target_support.ordered:
        return Finding("outliers", "ok", "Not computed: classes have no order.")
    log_p = e.left_out(e.rows).logpdf(e.y[e.rows][:, None])[:, 0]
    rows = e.rows[np.argsort(log_p, kind="stable")[:MOST_OUTLIERS]]  # All other rows are likelier.
    lower, upper = e.pit(rows)
    expected = 2.0 * np.minimum(upper, 1.0 - lower) * e.N  # number of rows expected as far out
    far = rows[expected < OUTLIER]
    values = {"rows": far}
    if not len(far):
        return Finding(
            "outliers",
            "ok",
            "No row is an outlier: none is farther out than chance explains.",
            values=values,
        )
    return Finding(
        "outliers",
        "look",
        f"{'At least ' * (len(far) == MOST_OUTLIERS)}{len(far)} "
        f"{'row lies' if len(far) == 1 else 'rows lie'} farther out than the model allows: "
        f"{e.listed(far)}.",
        "The data have errors, or their noise has heavier tails than the likelihood.",
        f"Look at these rows. {_heavier(e.likelihood)}".rstrip(),
        values,
    )


def _heavier(likelihood: Likelihood) -> str:
    """Which likelihood of such targets has heavier tails, in a sentence; nothing where none has."""
    name, support = type(likelihood).__name__, likelihood.target_support
    if likelihood.event_times:
        ways = "times may be wrongly coded: see `censored` and `entry`"
        heavier = "LogLogisticSurvival" * (name != "LogLogisticSurvival")
    elif not support.continuous:
        ways, heavier = "", "NegativeBinomial" * (name in ("Poisson", "ZeroInflatedPoisson"))
    else:
        ends = (float(support.ends[0]), float(support.ends[1]))
        known = {(-np.inf, np.inf): "HetStudentT", (0.0, np.inf): "BoxCoxT"}
        ways, heavier = "", known.get(ends, "")
    heavier = f"{heavier} has heavier tails" * (heavier not in ("", name))
    words = "; ".join(part for part in (ways, heavier) if part)
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def noise(e: Evidence) -> Finding:
    """Find rows of a continuous target where the density is so sharp that the noise vanishes."""
    lik, y = e.likelihood, e.y[e.rows]
    metadata = e.metadata(e.rows)
    seen = ~np.isin(y, lik.atoms) & (metadata.get("censored", np.zeros(len(y))) == 0)
    support = lik.target_support
    if not isinstance(support, Continuum) or not seen.any():
        return Finding("noise", "ok", "Not computed: the targets are not continuous.")
    left = e.left
    q = Predictive(lik, left.means[e.rows], left.variances[e.rows], metadata)
    log_p = q.logpdf(y[:, None])[seen, 0]
    u = support.clip(support.from_y(y[seen]))  # On this scale targets are spread evenly.
    spread = np.subtract(*np.quantile(u, [0.75, 0.25])) or u.std() or 1.0
    sharp = log_p + support.log_slope(u) + np.log(spread)
    rows = e.rows[seen][sharp > SHARP]
    values = {"rows": rows, "sharpest": float(sharp.max())}
    if not len(rows):
        return Finding("noise", "ok", "The estimated noise is above 0 at every row.", values=values)
    return Finding(
        "noise",
        "problem" if len(rows) > 0.2 * len(sharp) else "look",
        f"The estimated noise vanishes at {len(rows)} of {len(sharp)} rows ({e.listed(rows)}).",
        "The targets follow X without noise, or they are repeated or rounded, or the noise latent "
        "follows single rows.",
        'Put a prior on the noise, m.set_prior("kernels.*variance", …), make it constant, or fix '
        "it at the precision of the measurements.",
        values,
    )
