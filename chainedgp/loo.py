"""Leave-one-out predictive densities from q by Pareto-smoothed importance sampling (PSIS-LOO).

    p(y_i | y_−i) = 1 / E[1/p(y_i | f_i)] ≈ Σ_s w_s p(y_i | f_s) / Σ_s w_s,   f_s ~ q(f_i),

with w_s the ratios 1/p(y_i | f_s), the largest of which are replaced by the expected order
statistics of a generalised Pareto distribution (Vehtari, Gelman & Gabry 2017; Vehtari et al. 2024).
It needs the marginals of q at the data alone, no refit, and keeps the hyperparameters. Right where
q is the posterior and no Pareto k is large. For heteroscedastic noise and a Gaussian q(f)q(g) the
mean of 1/p is infinite in principle, because e^g may be below the variance of f: rows where the
posterior is wide against the noise have a large k and too low a density. `refit=True` mends them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from .checks import as_generator, positive_int
from .errors import ChainedGPWarning, InputError
from .linalg import Array
from .tables import Table

__all__ = ["LOO", "compare", "fit_pareto", "loo", "smooth"]

BLOCK = 128  # rows at once: (BLOCK, size) draws, and BLOCK fits of about 45 × 190 terms
PRIOR_SCALE = 3.0  # of the grid of Zhang & Stephens, in quartiles
PRIOR_ROWS, PRIOR_SHAPE = 10.0, 0.5  # k is shrunk to ½ as if by ten more tail draws


@dataclass(frozen=True)
class LOO:
    """Leave-one-out log-densities of N rows.

    Attributes
    ----------
    pointwise : (N,) log p(y_i | y_−i).
    pareto_k : (N,) shape of the tail of each row's importance ratios; above `threshold` the row's
        estimate is not to be trusted: use `refit=True` or `cross_validate`.
    p_loo : effective number of parameters, Σ_i log p(y_i | y) − log p(y_i | y_−i).
    threshold : min(1 − 1/log10(size), 0.7).
    weights : (N,) row weights, or None.
    """

    pointwise: Array
    pareto_k: Array
    p_loo: float
    threshold: float
    weights: Array | None = None

    @property
    def contributions(self) -> Array:
        """Each row's part of `elpd`, (N,): pointwise, times the row's weight."""
        return self.pointwise if self.weights is None else self.weights * self.pointwise

    @property
    def elpd(self) -> float:
        """Σ_i log p(y_i | y_−i), the expected log predictive density of N new rows."""
        return float(self.contributions.sum())

    @property
    def se(self) -> float:
        """Standard error of `elpd`: sqrt(N var_i)."""
        return _standard_error(self.contributions)

    @property
    def num_bad(self) -> int:
        """Rows whose Pareto k is above the threshold."""
        return int((self.pareto_k > self.threshold).sum())

    def __str__(self) -> str:
        return (
            f"PSIS-LOO of {len(self.pointwise)} rows: elpd {self.elpd:.2f} (se {self.se:.2f}), "
            f"p_loo {self.p_loo:.2f}, Pareto k > {self.threshold:.2f} in {self.num_bad} rows "
            f"(largest {self.pareto_k.max():.2f})"
        )


def loo(model: Any, rng: Any = 0, size: int = 4000, refit: bool = False) -> LOO:
    """PSIS-LOO of a fitted model at its own rows; see the module's docstring.

    A row of weight w enters the posterior as p(y | f)^w: its ratios are p(y_i | f)^−w and its
    contribution to the sum is w log p(y_i | y_−i).

    Parameters
    ----------
    model : a fitted `ChainedGP`.
    rng : int, Generator or None: seed of the draws from q.
    size : number S of draws for each row, at least 100.
    refit : find q anew without the row, at the same hyperparameters, for each row whose Pareto k is
        above the threshold; these rows' k is then −inf.

    Returns
    -------
    LOO : with one warning where a Pareto k is above its threshold.
    """
    generator = as_generator(rng)
    if positive_int(size, "size") < 100:
        raise InputError(f"size must be at least 100 draws to fit the tail; got {size}.")
    means, variances = model.predict_latents(model.X)  # (N, b)
    parameters = model.likelihood.parameter_values()
    metadata = dict(model.Y_metadata)
    weights = metadata.pop("weights", None)
    y, N = model.Y[:, 0], len(means)
    pointwise, pareto_k, full = np.empty(N), np.empty(N), np.empty(N)
    for start in range(0, N, BLOCK):
        rows = slice(start, start + BLOCK)
        n, b = means[rows].shape
        z = generator.standard_normal((b, size, n))
        latents = means[rows].T[:, None] + np.sqrt(variances[rows].T)[:, None] * z  # (b, S, n)
        kw = {**parameters, **{name: value[rows] for name, value in metadata.items()}}
        log_p = model.likelihood.log_density(np.asarray(y[rows], dtype=float), *latents, **kw)
        log_p = np.ascontiguousarray(np.broadcast_to(log_p, (size, n)).T)  # (n, S)
        log_ratios = -log_p if weights is None else -weights[rows, None] * log_p
        log_w, pareto_k[rows] = smooth(log_ratios)
        pointwise[rows] = logsumexp(log_w + log_p, axis=1)
        full[rows] = logsumexp(log_p, axis=1) - np.log(size)
    threshold = min(1.0 - 1.0 / np.log10(size), 0.7)
    for i in np.flatnonzero(pareto_k > threshold) if refit else ():
        pointwise[i], pareto_k[i] = _left_out(model, int(i)), -np.inf
    result = LOO(pointwise, pareto_k, float((full - pointwise).sum()), threshold, weights)
    if result.num_bad:
        warnings.warn(
            f"The Pareto k of {result.num_bad} of {N} rows is above {threshold:.2f}: their "
            "leave-one-out densities may be far off. Use loo(refit=True) or cross_validate.",
            ChainedGPWarning,
            stacklevel=3,
        )
    return result


def _left_out(model: Any, i: int) -> float:
    """log p(y_i | y_−i) with q found anew from the other rows."""
    others = np.arange(model.X.shape[0]) != i
    copy = model.copy()
    metadata = model.Y_metadata
    copy.set_data(model.X[others], model.Y[others], {k: v[others] for k, v in metadata.items()})
    copy.optimize(only="variational", messages=False)
    row = {key: value[i : i + 1] for key, value in metadata.items()}
    return float(copy.log_predictive_density(model.X[i : i + 1], model.Y[i : i + 1], row)[0, 0])


def smooth(log_ratios: Array) -> tuple[Array, Array]:
    """Normalised log-weights from log importance ratios, the tail of each row Pareto-smoothed.

    The M = ceil(min(S/5, 3 sqrt(S))) largest of S ratios, less the next smaller one u, are taken
    as draws of a generalised Pareto distribution with shape k and scale σ, and replaced by its
    quantiles u + σ ((1 − p_m)^{−k} − 1)/k at p_m = (m − ½)/M, at most the largest ratio.

    Parameters
    ----------
    log_ratios : (n, S).

    Returns
    -------
    log_weights : (n, S), logsumexp of each row 0.
    k : (n,), −inf where the ratios are all the same.
    """
    n, S = log_ratios.shape
    M = int(np.ceil(min(S / 5.0, 3.0 * np.sqrt(S))))
    log_w = log_ratios - log_ratios.max(axis=1, keepdims=True)
    order = np.argsort(log_w, axis=1)[:, -M - 1 :]
    top = np.take_along_axis(log_w, order, axis=1)  # (n, M + 1), ascending
    cutoff = np.exp(np.maximum(top[:, :1], np.log(np.finfo(float).tiny)))
    tail = np.exp(top[:, 1:]) - cutoff
    k = np.full(n, -np.inf)
    varied = np.flatnonzero(tail[:, (M + 2) // 4 - 1] > 0.0)  # else too many ties to fit
    if varied.size:
        k[varied], scale = fit_pareto(tail[varied])
        p = (np.arange(M) + 0.5) / M
        shape = np.where(k[varied] == 0.0, np.finfo(float).tiny, k[varied])[:, None]
        quantile = scale[:, None] * np.expm1(-shape * np.log1p(-p)) / shape
        smoothed = np.minimum(np.log(quantile + cutoff[varied]), 0.0)
        log_w[varied[:, None], order[varied, 1:]] = smoothed
    return log_w - logsumexp(log_w, axis=1, keepdims=True), k


def fit_pareto(x: Array) -> tuple[Array, Array]:
    """Shape and scale of generalised Pareto distributions (Zhang & Stephens 2009).

    With θ = −k/σ the profile likelihood is l(θ) = n (log(−θ/k(θ)) − k(θ) − 1) where
    k(θ) = mean_i log(1 − θ x_i); θ is its mean over a grid of 30 + sqrt(n) points with weights
    ∝ e^l, σ = −k/θ, and k is shrunk to (n k + 10 · ½)/(n + 10).

    Parameters
    ----------
    x : (rows, n) positive draws, ascending in each row.

    Returns
    -------
    k, sigma : (rows,) each; the survival function is (1 + k x/σ)^{−1/k}.
    """
    n = x.shape[1]
    m = 30 + int(np.sqrt(n))
    grid = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    quartile = x[:, int(n / 4 + 0.5) - 1, None]
    theta = 1.0 / x[:, -1:] + grid / (PRIOR_SCALE * quartile)  # (rows, m)
    k = np.log1p(-theta[:, :, None] * x[:, None, :]).mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = n * (np.log(-theta / k) - k - 1.0)
    weights = np.exp(profile - logsumexp(profile, axis=1, keepdims=True))
    theta_hat = (theta * weights).sum(axis=1)
    k_hat = np.log1p(-theta_hat[:, None] * x).mean(axis=1)
    return (n * k_hat + PRIOR_ROWS * PRIOR_SHAPE) / (n + PRIOR_ROWS), -k_hat / theta_hat


def compare(models: Mapping[str, Any], rng: Any = 0, size: int = 4000) -> Table:
    """Models of the same rows, the best first, by their leave-one-out densities.

    Columns: elpd; se; difference from the best, elpd_m − elpd_best = Σ_i d_i; se_difference
    = sqrt(N var_i d_i); p_loo; bad_k, the rows whose Pareto k is too large. A difference of a few
    of its standard errors says something, one of less does not.

    Parameters
    ----------
    models : dict name -> fitted model, or a `LOO` of one.
    rng, size : as in `loo`, for those that are models.
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(f"models must be a dict of named models; got {models!r}.")
    targets = [np.asarray(m.Y) for m in models.values() if not isinstance(m, LOO)]
    if any(not np.array_equal(y, targets[0]) for y in targets[1:]):
        raise InputError("models must be of the same targets in the same order; they differ.")
    results = {k: m if isinstance(m, LOO) else loo(m, rng, size) for k, m in models.items()}
    lengths = {len(result.pointwise) for result in results.values()}
    if len(lengths) > 1:
        raise InputError(f"models must be of the same rows; their numbers are {sorted(lengths)}.")
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


def _standard_error(contributions: Array) -> float:
    return float(np.sqrt(len(contributions) * np.var(contributions)))
