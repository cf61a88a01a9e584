"""Which inputs a latent follows, and how fast: one-dimensional GPs, input by input.

At constant latents c a row pulls its latent f_j by the score s_ij = ∂ log p(y_i | c)/∂f_j, of
information I_j = mean of s_ij². One step of scoring from c would take the latent to c_j + z_ij with
z_ij = s_ij / I_j: whatever the likelihood, z_j is a target with noise, which a GP can be tried on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..data.rows import Rows
from ..kernels.base import LEVEL_SPREAD
from ..likelihoods import Likelihood
from ..linalg import Array
from .starts import input_spread

__all__ = ["Screen", "one_input", "screen_inputs", "working_targets"]

# At most about so many rows are screened, evenly taken from larger data.
SCREEN_ROWS = 1000
# A one-dimensional GP has at most so many inducing inputs, quantiles of its column.
INDUCING = 40
# Its lengthscales, in standard deviations of the input, and the share of noise in the variance.
LENGTHSCALES = (0.1, 0.22, 0.5, 1.1, 2.5)
NOISE_SHARES = (0.03, 0.15, 0.4, 0.7, 0.9)
# An input matters where its GP is better than noise alone by so many nats, and by this share of
# what the best input gains: beside a strong signal, noise that happens to look like a short wave
# would begin with a lengthscale that hides it.
LEAST_GAIN, LEAST_SHARE = 3.0, 0.1
# No pull counts for more than so many robust standard deviations.
FARTHEST = 5.0


@dataclass(frozen=True)
class Screen:
    """What one-dimensional GPs tell: for every latent and input, arrays (b, D).

    gains : nats by which the best GP of that input alone is better than noise.
    lengthscales : of that GP, in units of the input.
    """

    gains: Array
    lengthscales: Array

    @property
    def relevant(self) -> np.ndarray:
        """Which inputs tell of a latent, (b, D) of bool."""
        best = self.gains.max(axis=1, keepdims=True)
        return self.gains > np.maximum(LEAST_GAIN, LEAST_SHARE * best)


def screen_inputs(
    likelihood: Likelihood, rows: Rows, constants: Array, unordered: Sequence[int] | np.ndarray = ()
) -> Screen:
    """Try one-dimensional GPs of every input on the working targets of every latent.

    unordered : columns of codes of levels, any two of which are as far from each other.
    """
    rows = rows.thinned(SCREEN_ROWS)
    X, spread = rows.inputs(), input_spread(rows.X, unordered)
    weights = np.ones(len(X)) if rows.weights is None else np.asarray(rows.weights, dtype=float)
    targets = working_targets(likelihood, rows, constants, weights)
    columns = [
        one_input(column, targets, weights, levels=d in unordered)
        for d, column in enumerate((X / spread).T)
    ]
    gains, lengthscales = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    return Screen(gains, lengthscales * spread)


def working_targets(likelihood: Likelihood, rows: Rows, constants: Array, weights: Array) -> Array:
    """z (b, n) of the rows at constant latents, centred; 0 where a slope is not finite."""
    y, kw = rows.targets(), rows.keywords(**likelihood.parameter_values())
    with np.errstate(all="ignore"):
        slopes = likelihood.dlog_density(y, *(np.full(y.size, c) for c in constants), **kw)
    targets = []
    for slope in slopes:
        z = np.where(np.isfinite(slope), slope, 0.0)
        middle = np.median(z)
        spread = 1.4826 * np.median(np.abs(z - middle))
        if spread > 0.0:
            z = np.clip(z, middle - FARTHEST * spread, middle + FARTHEST * spread)
        information = np.average(z**2, weights=weights)
        z = z / information if information > 0.0 else z
        targets.append(z - np.average(z, weights=weights))
    return np.stack(targets)


def one_input(
    column: Array, targets: Array, weights: Array, levels: bool = False
) -> tuple[Array, Array]:
    """The best gain (b,) and lengthscale (b,) of GPs of one column, for targets (b, n).

    z ~ N(0, a K + s/w), a + s the variance of z, against a = 0. K is the sparse one of M inducing
    inputs, K = AᵀA, and the bound that of sparse GP regression: one eigendecomposition of A diag(w)
    Aᵀ serves all targets and shares of noise,

        gain = −½ Σ_k log(1 + a λ_k/s) − ½ Σw log(s/v) − ½ (zᵀWz − Σ_k a p_k²/(s + a λ_k))/s
               − ½ (a/s) tr(W (1 − AᵀA)) + ½ zᵀWz/v,   p = Vᵀ A W z,  v = a + s.

    levels : whether the column has levels of a category, any two of which are two standard
        deviations apart, as 0 and 1 are. The most frequent levels are then the inducing inputs.
    """
    if levels:
        found, counts = np.unique(column, return_counts=True)
        inducing = found[np.argsort(-counts, kind="stable")[:INDUCING]]
    else:
        inducing = np.unique(np.quantile(column, np.linspace(0.0, 1.0, INDUCING)))
    apart, away = inducing[:, None] - inducing, inducing[:, None] - column
    if levels:
        apart, away = ((d != 0.0) / LEVEL_SPREAD for d in (apart, away))
    total = float(weights.sum())
    square = np.einsum("bn,n,bn->b", targets, weights, targets)  # zᵀWz
    v = np.maximum(square / total, 1e-300)[:, None]
    share = np.asarray(NOISE_SHARES)
    s, a = v * share, v * (1.0 - share)  # (b, shares)
    best, lengthscale = np.full(len(targets), -np.inf), np.ones(len(targets))
    for length in LENGTHSCALES:
        Kuu = np.exp(-0.5 * np.square(apart / length))
        Kuf = np.exp(-0.5 * np.square(away / length))
        L = np.linalg.cholesky(Kuu + 1e-6 * np.eye(len(inducing)))
        A = solve_triangular(L, Kuf, lower=True)
        lam, V = np.linalg.eigh((A * weights) @ A.T)
        lam = np.maximum(lam, 0.0)
        p2 = np.square((targets * weights) @ A.T @ V)  # (b, M)
        left = float(weights @ np.maximum(1.0 - np.einsum("mn,mn->n", A, A), 0.0))
        ratio = a / s
        explained = np.einsum("bm,bsm->bs", p2, a[..., None] / (s[..., None] + a[..., None] * lam))
        gain = -0.5 * (
            np.log1p(ratio[..., None] * lam).sum(-1)
            + total * np.log(share)
            + (square[:, None] - explained) / s
            + ratio * left
            - square[:, None] / v
        )
        found = gain.max(axis=1)
        lengthscale = np.where(found > best, length, lengthscale)
        best = np.maximum(best, found)
    return np.where(square > 0.0, best, 0.0), lengthscale
