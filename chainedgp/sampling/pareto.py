"""Pareto k: how heavy the tail of importance ratios is, by a generalised Pareto fit."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from ..linalg import Array

PRIOR_SCALE = 3.0  # The grid of Zhang & Stephens for θ spans so many quartiles of the draws.
PRIOR_ROWS, PRIOR_SHAPE = 10.0, 0.5  # k is shrunk to ½ as if ten more tail draws had said so.


def _tail_length(S: int) -> int:
    """How many of S importance ratios are their tail: M = ceil(min(S/5, 3 sqrt(S)))."""
    return int(np.ceil(min(S / 5.0, 3.0 * np.sqrt(S))))


def tail_shape(log_ratios: Array) -> Array:
    """Pareto k (n,), the tail's shape, of each row's importance ratios; their logs are (n, S).

    The largest ratios, less the next smaller one, are taken as draws of a generalised Pareto
    distribution. −inf where they are all the same.
    """
    n, S = log_ratios.shape
    M = _tail_length(S)
    top = np.sort(log_ratios - log_ratios.max(axis=1, keepdims=True), axis=1)[:, -M - 1 :]
    tail = np.exp(top[:, 1:]) - np.exp(np.maximum(top[:, :1], np.log(np.finfo(float).tiny)))
    k = np.full(n, -np.inf)
    varied = tail[:, (M + 2) // 4 - 1] > 0.0  # If not, too many are tied for a fit.
    if varied.any():
        k[varied] = fit_pareto(tail[varied])[0]
    return k


def smoothed_weights(log_ratios: Array) -> tuple[Array, float]:
    """Pareto-smoothed importance weights (S,) from log-ratios (S,), and the shape k of their tail.

    They sum to 1.

    The largest M ratios are replaced by the quantiles (z − ½)/M, z = 1 … M, of the generalised
    Pareto distribution fitted to them, in their order, but for none above the largest (Vehtari et
    al. 2024): a few draws then do not decide alone.
    """
    ratios = np.exp(log_ratios - log_ratios.max())
    k = float(tail_shape(log_ratios[None])[0])
    M = _tail_length(len(ratios))
    order = np.argsort(ratios, kind="stable")
    least, top = ratios[order[-M - 1]], order[-M:]
    if np.isfinite(k):
        shape, scale = (float(part[0]) for part in fit_pareto((ratios[top] - least)[None]))
        survival = 1.0 - (np.arange(1, M + 1) - 0.5) / M
        ratios[top] = np.minimum(least + scale * np.expm1(-shape * np.log(survival)) / shape, 1.0)
    return ratios / ratios.sum(), k


def fit_pareto(x: Array) -> tuple[Array, Array]:
    """Shape k and scale of generalised Pareto tails of importance ratios.

    (Zhang & Stephens 2009)

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
