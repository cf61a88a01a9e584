"""Quadrature from values of a density alone: gradients of E[log p] need no derivative of log p."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .quadrature import Rule, row_blocks, scales


def expectation_by_values(
    log_p: Callable[..., np.ndarray],
    dtheta: Callable[..., tuple[np.ndarray, ...]],
    means: np.ndarray,
    variances: np.ndarray,
    rule: Rule,
    num_extra: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Quadrature without derivatives of log p in the latents, where the nodes resolve log p.

    With a(x) = log p(m + R x), V = R Rᵀ, integrals by parts give

        dE/dm = R⁻ᵀ E[x a],    dE/dV = ½ R⁻ᵀ E[(x xᵀ − I) a] R⁻¹

    (Bonnet's and Price's theorems). On h nodes these are right where a is a polynomial of degree
    2h − 2 and 2h − 3 in each x_j, the sum itself up to 2h − 1. They are derivatives of the
    integral, and so of the sum as far as it is the integral.

    dtheta : (rows, *latents) -> `num_extra` derivatives in parameters.
    """
    n, b = means.shape
    R, sums, extra = _hermite_sums(log_p, means, variances, rule, dtheta, num_extra)
    value, first, second = sums[0], sums[1 : 1 + b], sums[1 + b : 1 + 2 * b]
    if R.ndim == 2:
        return value, (first / R).T, (0.5 * second / (R * R)).T, extra.T
    C = np.empty((n, b, b))
    for j in range(b):
        C[:, j, j] = second[j]
        for k in range(j):
            C[:, j, k] = C[:, k, j] = sums[1 + 2 * b + j * (j - 1) // 2 + k]
    R_inv = np.linalg.inv(R.transpose(2, 0, 1))
    dV = 0.5 * (R_inv.swapaxes(1, 2) @ C @ R_inv)
    return value, np.einsum("njk,jn->nk", R_inv, first)[:, ::-1], dV[:, ::-1, ::-1], extra.T


def trial_sums(
    log_p: Callable[..., np.ndarray],
    means: np.ndarray,
    variances: np.ndarray,
    rule: Rule,
    reverse: bool = True,
) -> np.ndarray:
    """Quadrature sums (n, k), of `expectation_by_values`, by which numbers of nodes are compared.

    Sums of degree 2 are divided by five, because the value of the integral does not contain them.

    reverse : False for the nodes of `expectation`, where correlated latents are in their own order.
    """
    sums = _hermite_sums(log_p, means, variances, rule, reverse=reverse)[1]
    sums[1 + means.shape[1] :] *= 0.2
    return sums.T


def _hermite_sums(
    log_p: Callable[..., np.ndarray],
    means: np.ndarray,
    variances: np.ndarray,
    rule: Rule,
    others: Callable[..., tuple[np.ndarray, ...]] | None = None,
    num_extra: int = 0,
    reverse: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scales R, `Rule.hermite_sums` at m + R x (k, n), and averages of `others` (num_extra, n).

    The order of correlated latents is reversed in R and in the sums: the first latent, mostly a
    location, then moves with all axes of the grid, and scales and shapes, whose exponentials cost
    more, only with some.
    """
    n, b = means.shape
    pairs = variances.ndim == 3
    order = slice(None, None, -1 if pairs and reverse else 1)
    R = scales(variances[:, order, order] if pairs else variances)
    sums, extra = np.empty((1 + 2 * b + pairs * b * (b - 1) // 2, n)), np.empty((num_extra, n))
    with np.errstate(all="ignore"):  # −inf is a legitimate log-density; the caller judges it
        for rows in row_blocks(n, rule.size):
            latents = rule.rotate(means[rows, order], R[..., rows])[order]
            sums[:, rows] = rule.hermite_sums(log_p(rows, *latents), pairs)
            if others is not None and num_extra:
                for k, part in enumerate(others(rows, *latents)):
                    extra[k, rows] = rule.sums(part)[0]
    return R, sums, extra
