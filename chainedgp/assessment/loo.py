"""Leave-one-out predictive densities from the sites of q; for the hardest rows q is found anew.

q(v) is the prior times one Gaussian site per row and latent. Without the site of row i the marginal
N(m, v) of a latent at x_i, of which s = aᵀSa comes from q(v), becomes

    s₋ = s/(1 − λ2 s),    v₋ = v − s + s₋,    m₋ = m − s₋ g_m,

and log p(y_i | y_−i) is the predictive density of y_i under this marginal, without draws and
without another fit. The formula ignores that the sites of other rows depend on row i. For the rows
with the largest influence q is therefore found anew without them. The hyperparameters stay those of
the fit.

Influence is measured by the Pareto k of the ratios 1/p(y_i | f), f ~ q, the weights with which
importance sampling would estimate the same density (PSIS-LOO: Vehtari, Gelman & Gabry 2017; Vehtari
et al. 2024). For heteroscedastic noise and a Gaussian q the mean of these weights is infinite, so
they are used for the diagnosis only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypedDict, Unpack

import numpy as np

from ..data.arguments import as_generator, positive_int
from ..data.names import checks_names
from ..data.tables import Table
from ..data.types import Seed
from ..errors import ChainedGPWarning, ConvergenceWarning, InputError, NumericalError, warn
from ..inference.natural_gradients import (
    anderson_weights,
    find_q,
    predicted_gap,
    start_from_q,
)
from ..inference.problem import Problem
from ..likelihoods.observation import INTERVAL, OBSERVATION
from ..linalg import Array, Booleans, one_blas_thread
from ..posterior.evaluator import Evaluator
from ..posterior.gaussian import Gaussian, symmetric_kl
from ..posterior.shards import Shard
from ..posterior.sparse import Projection, project
from ..posterior.sums import Gram
from ..predictive.distribution import Predictive
from ..predictive.fitted import FittedModel
from ..predictive.mixtures import GaussianLatents
from ..sampling.pareto import tail_shape

BLOCK = 128  # The Pareto k of so many rows are found at once, by (BLOCK, size) draws a latent.
REFIT = 200  # By default q is found anew without each of at most so many rows.
# First by at most so many accelerated steps. The first may be of so many nats; later ones may be at
# most GROWTH times the smallest before.
FEW_PASSES, FIRST_STEP, GROWTH = 10, 1.0, 10.0
# Where a full step overshot for one row, others begin with a step of this length.
DAMPED = 0.5
# A step of so few nats is the last. Where a pass takes many nodes it may be larger: log-densities
# are then right to about 1e-4, of rows far out to 1e-4 of themselves. Where steps overshoot and are
# many it may be a little larger: log-densities are right to about 1e-5.
CLOSE, CLOSE_BY_NODES, CLOSE_DAMPED = 1e-9, 1e-5, 1e-7
# Where steps do not shrink, a search finds q to within so many nats.
TOLERANCE = 1e-9
# A q whose bound is more than FAR + FAR_PER_ROW N nats below its best does not count as fitted.
FAR, FAR_PER_ROW = 1.0, 1e-3


@dataclass(frozen=True, repr=False, eq=False)
class LOO:
    """Leave-one-out log-densities log p(y_i | y_−i) of the N rows of a model.

    Attributes
    ----------
    pointwise : (N,) log p(y_i | y_−i).
    pareto_k : (N,) influence of each row on q. Above `threshold` the density of a row that is not
        in `refitted` is not to be trusted.
    refitted : (N,) whether q was found anew without the row.
    p_loo : effective number of parameters, Σ_i w_i (log p(y_i | y) − log p(y_i | y_−i)).
    threshold : min(1 − 1/log10(size), 0.7).
    weights : (N,) row weights w_i, or None.
    observed : the targets "Y" and the metadata of the rows, name -> (N,); None if not known.
    """

    pointwise: Array
    pareto_k: Array
    refitted: np.ndarray
    p_loo: float
    threshold: float
    weights: Array | None = None
    observed: Mapping[str, Array] | None = None

    @property
    def contributions(self) -> Array:
        """Each row's part of the leave-one-out sum `elpd`, (N,): pointwise times row weight."""
        return self.pointwise if self.weights is None else self.weights * self.pointwise

    @property
    def elpd(self) -> float:
        """Leave-one-out Σ_i log p(y_i | y_−i): expected log predictive density of N new rows."""
        return float(self.contributions.sum())

    @property
    def se(self) -> float:
        """Standard error of the leave-one-out sum `elpd`: sqrt(N var_i)."""
        return _standard_error(self.contributions)

    @property
    def num_bad(self) -> int:
        """Number of rows with a Pareto k above the threshold whose q was not found anew."""
        return int(((self.pareto_k > self.threshold) & ~self.refitted).sum())

    def __str__(self) -> str:
        return (
            f"Leave-one-out of {len(self.pointwise)} rows: elpd {self.elpd:.2f} (se {self.se:.2f}),"
            f" p_loo {self.p_loo:.2f}; q found anew for {int(self.refitted.sum())} rows, Pareto k "
            f"> {self.threshold:.2f} in {self.num_bad} of the others"
        )

    __repr__ = __str__


def loo(problem: Problem, refit: int | bool = REFIT, rng: Seed = 0, size: int = 4000) -> LOO:
    """Leave-one-out log-densities of a fitted model at its own rows; see the module's docstring.

    A row of weight w enters the posterior as p(y | f)^w: all of that is taken out, and its
    contribution to the sum is w log p(y_i | y_−i).

    Parameters
    ----------
    problem : the bound of a fitted model, `ChainedGP.problem`.
    refit : number of rows for which q is found anew without the row, those of the largest Pareto k
        first: a few passes over the data each. True is all rows, False or 0 none.
    rng, size : seed, and number of draws from q (at least 100) for the Pareto k of each row.

    Returns
    -------
    LOO : with one warning where a Pareto k is above its threshold and the row was not refitted.
    """
    generator, N = as_generator(rng), problem.num_rows
    if positive_int(size, "size") < 100:
        raise InputError(f"size must be at least 100 draws to fit the tail; got {size}.")
    if not isinstance(refit, int | np.integer) or refit < 0:
        raise InputError(f"refit must be a number of rows, True or False; got {refit!r}.")
    left = LeftOut(problem)
    gap = left.gap
    if not gap <= FAR + FAR_PER_ROW * N:
        warn(
            f"q is {gap:.2g} nats from the best one at these hyperparameters: the model was not "
            "fitted, or was changed since, and the leave-one-out densities are not those of a fit. "
            'Call m.optimize(), or m.optimize(only="variational") to keep the hyperparameters.',
            ConvergenceWarning,
        )
    k = influence(left, np.arange(N), generator, size)
    means, variances, proper = left.without_sites()
    order = np.argsort(np.where(proper, -k, -np.inf), kind="stable")
    chosen = order[: N if refit is True else max(int(refit), int((~proper).sum()))]
    with one_blas_thread():
        for i in chosen:
            means[i], variances[i] = left.found_anew(int(i))
    y, metadata = left.rows.targets()[:, None], left.rows.metadata
    pointwise = Predictive(left.likelihood, means, variances, metadata).logpdf(y)[:, 0]
    within = Predictive(left.likelihood, left.means, left.variances, metadata).logpdf(y)[:, 0]
    threshold = min(1.0 - 1.0 / np.log10(size), 0.7)
    refitted = np.isin(np.arange(N), chosen)
    p_loo = float(left.weights @ (within - pointwise))
    weights, observed = problem.rows.weights, {"Y": y[:, 0], **metadata}
    result = LOO(pointwise, k, refitted, p_loo, threshold, weights, observed)
    if result.num_bad:
        warn(
            f"The Pareto k of {result.num_bad} of {N} rows is above {threshold:.2f}: their "
            f"leave-one-out densities may be off. Use loo(refit={len(chosen) + result.num_bad}).",
            ChainedGPWarning,
        )
    return result


class Options(TypedDict, total=False):
    """Keyword arguments of `loo`, which `compare` passes on to it."""

    refit: int | bool
    rng: Seed
    size: int


class Compared(FittedModel, Protocol):
    """A fitted model as `compare` takes it to rank models by leave-one-out: a `ChainedGP`."""

    def loo(self, refit: int | bool = REFIT, rng: Seed = 0, size: int = 4000) -> LOO:
        """Leave-one-out log-densities of the fitted rows."""


class LeftOut:
    """Marginals of the latents at the rows of a model, under q of all rows and of all but that row.

    state: the evaluated q. sites (2, b, N): the sites after a full natural-gradient step from q;
    they are those of q itself if q is optimal. means (N, b) of the latents under q, and variances
    (N, b) or covariances (N, b, b).
    """

    def __init__(self, problem: Problem) -> None:
        if not problem.is_local:
            raise InputError(
                "this needs single rows in memory, but the rows are on a cluster: judge the fit by "
                "log_predictive_density of held-out rows, or by a model of some of the rows."
            )
        weights, self.likelihood = problem.rows.weights, problem.parts.likelihood
        self.weights = np.ones(problem.num_rows) if weights is None else weights
        self.rows = replace(problem.rows, weights=self.weights)
        self.shard = Shard(self.rows, nodes=problem.num_nodes, num_threads=problem.num_threads)
        self.evaluator = Evaluator([self.shard], problem.evaluator.family)
        self.evaluator.set_hyperparameters(problem.parts.theta())
        self.q = problem.parts.q()
        self.state = start_from_q(self.evaluator, self.q)
        self.sites = self.shard.sites.current.copy()  # (2, b, N)
        self.means, self.variances = self.evaluator.marginals(self.q)
        self.evaluator.freeze_nodes(True)  # Without one row q is nearly the same.
        self.first_step = 1.0

    @property
    def gap(self) -> float:
        """Nats by which the bound is about below its maximum over q; large if q was not fitted."""
        precisions = [np.linalg.inv(part.S).astype(float) for part in self.q]
        q = tuple(replace(part, precision=P) for part, P in zip(self.q, precisions, strict=True))
        return float(predicted_gap(self.evaluator, replace(self.state, q=q)))

    def without_sites(self) -> tuple[Array, Array, Booleans]:
        """Means and variances of q without each row's own sites, and whether that q exists (N,)."""
        parts = []
        for rows in self.rows.chunks(self.shard.chunk_rows):
            chunks = self._projections(rows)
            parts.append(self.evaluator.family.cavities(chunks, self.q, self.sites[..., rows]))
        marginals, proper = zip(*parts, strict=True)
        m, V = (np.concatenate([made[k] for made in marginals], axis=-1).T for k in (0, 1))
        return m, V, np.concatenate(proper)

    def _projections(self, rows: slice) -> list[Projection]:
        X = self.rows.inputs(rows)
        return [project(projector, X) for projector in self.evaluator.setting.projectors]

    def found_anew(self, i: int) -> tuple[Array, Array]:
        """Means (b,) and variances of the latents at row i under the best q of all other rows."""
        sites = self.sites.copy()
        sites[..., i] = 0.0
        self.shard.load_sites(sites)
        weights = np.where(np.arange(len(self.weights)) == i, 0.0, self.weights)
        self.shard.rows = replace(self.rows, weights=weights)
        q = self._by_few_passes() or find_q(self.evaluator, TOLERANCE).state.q
        found = self.evaluator.family.marginals(self._projections(slice(i, i + 1)), q)
        return found.m[..., 0], found.V[..., 0]

    def _by_few_passes(self) -> tuple[Gaussian, ...] | None:
        """Find the q without a row by a few accelerated steps; None if the steps do not shrink.

        Without one row q is nearly the same: two passes over the rows are mostly enough, since the
        step that the last of them proposes needs no pass itself. Where steps overshoot, as of
        classes without noise, the second is larger than the first and those after it shrink.
        """
        evaluator, least = self.evaluator, FIRST_STEP
        close = CLOSE if self.likelihood.has_form(self.variances) else CLOSE_BY_NODES
        past: list[tuple[Gram, Gram]] = []
        gram = evaluator.gram()
        try:
            for passes in range(FEW_PASSES):
                q = evaluator.gaussians(gram)
                state = evaluator.evaluate(q, gram)
                past.append((gram, state.proposal()))
                gap = sum(map(symmetric_kl, q, evaluator.gaussians(past[-1][1])))
                if not gap < least * (GROWTH if passes else 1.0):
                    return None
                if passes == 1 and gap > least:
                    self.first_step = DAMPED
                least = min(least, gap)
                if passes == 0:
                    weights = np.array([1.0 - self.first_step, self.first_step])
                    gram = Gram.mixed(weights, past[0])
                else:
                    weights = anderson_weights(state, past)
                    gram = Gram.mixed(weights, [ahead for _, ahead in past])
                if gap <= max(close, CLOSE_DAMPED if self.first_step < 1.0 else 0.0):
                    return evaluator.gaussians(gram)
        except NumericalError:
            pass
        return None


def influence(left: LeftOut, chosen: np.ndarray, rng: np.random.Generator, size: int) -> Array:
    """Influence of each chosen row on the fit: the Pareto k of its p(y_i | f)^−w, f ~ q."""
    k = np.empty(len(chosen))
    parameters = left.likelihood.parameter_values()
    for start in range(0, len(k), BLOCK):
        rows = chosen[start : start + BLOCK]
        y, kw = left.rows.targets(rows), left.rows.keywords(rows, **parameters)
        q = GaussianLatents(left.likelihood, left.means[rows], left.variances[rows], kw)
        every = np.arange(len(rows))
        _, latents = q.nodes(every, rng.standard_normal((q.dim, size, len(rows))))
        log_p = q.log_density(y, every, latents)
        k[start : start + BLOCK] = tail_shape(-left.weights[rows, None] * log_p.T)
    return k


@checks_names
def compare(models: Mapping[str, Compared | LOO], **options: Unpack[Options]) -> Table:
    """Rank models of the same rows, the best first, by their leave-one-out densities.

    Columns: elpd; se; difference from the best, elpd_m − elpd_best = Σ_i d_i; se_difference
    = sqrt(N var_i d_i); p_loo; bad_k, the rows whose density is not to be trusted. A
    difference counts only if it is several times its standard error.

    Parameters
    ----------
    models : dict name -> fitted model, or a `LOO` of one.
    options : of `loo`, for those that are models.
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(f"models must be a dict of named models; got {models!r}.")
    _check_same_rows({name: _observed(model) for name, model in models.items()})
    results = {k: m if isinstance(m, LOO) else m.loo(**options) for k, m in models.items()}
    names = sorted(results, key=lambda name: -results[name].elpd)
    ranked = [results[name] for name in names]
    gaps = [result.contributions - ranked[0].contributions for result in ranked]
    columns = {
        "elpd": [result.elpd for result in ranked],
        "se": [result.se for result in ranked],
        "difference": [gap.sum() for gap in gaps],
        "se_difference": [_standard_error(gap) for gap in gaps],
        "p_loo": [result.p_loo for result in ranked],
        "bad_k": [result.num_bad for result in ranked],
    }
    return Table(tuple(names), {k: np.array(v, dtype=float) for k, v in columns.items()}, {})


def _observed(model: Compared | LOO) -> dict[str, Array]:
    """The targets, metadata and weights whose leave-one-out densities a model, or a `LOO`, has.

    Metadata such as `censored`, which say how rows were seen, are filled with 0 where a model has
    none. Without targets only the weights are known.
    """
    if isinstance(model, LOO):
        rows, weights, size = dict(model.observed or {}), model.weights, len(model.pointwise)
    else:
        rows, size = {"Y": np.asarray(model.Y)[:, 0], **model.Y_metadata}, len(model.Y)
        weights = rows.pop("weights", None)
    if "Y" in rows:
        rows = {**{key: np.zeros(size) for key in OBSERVATION}, **rows}
        rows["y_upper"] = np.where(rows["censored"] == INTERVAL, rows["y_upper"], 0.0)
    return {**rows, "weights": np.ones(size) if weights is None else weights}


def _check_same_rows(observed: Mapping[str, dict[str, Array]]) -> None:
    """Refuse to compare models whose rows differ in number, targets, censoring or weight.

    Other metadata that only one of two models has, such as an exposure, are a modelling choice.
    """
    (first, one), *others = observed.items()
    for name, other in others:
        for key in (key for key in one if key in other):
            a, b = one[key], other[key]
            if len(a) != len(b):
                sizes = f"{first!r} has {len(a)} and {name!r} {len(b)}"
                raise InputError(f"models must be of the same rows; {sizes}.")
            if not np.array_equal(a, b):
                what = "targets in the same order" if key == "Y" else f"{key} in every row"
                raise InputError(
                    f"models must be of the same rows, with the same {what}; {first!r} and "
                    f"{name!r} differ in {int((a != b).sum())} of {len(a)}."
                )


def _standard_error(contributions: Array) -> float:
    return float(np.sqrt(len(contributions) * np.var(contributions)))
