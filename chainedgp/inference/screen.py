"""A screen of the inputs for starts: which of them a latent follows, and how fast, by simple GPs.

At constant latents c a row pulls its latent f_j by the score s_ij = ∂ log p(y_i | c)/∂f_j, of
information I_j = mean of s_ij². One step of scoring from c would take the latent to c_j + z_ij with
z_ij = s_ij / I_j: whatever the likelihood, z_j is a target with noise, which a GP can be tried on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..data.rows import Rows
from ..kernels.base import LEVEL_SPREAD
from ..likelihoods import Likelihood
from ..linalg import Array
from .starts import input_spread, inputs_that_count

# About this many rows are screened at most, evenly taken from larger data.
SCREEN_ROWS = 1000
# A one-dimensional GP has at most this many inducing inputs, quantiles of its column.
INDUCING = 40
# A GP of all inputs together has at most this many inducing inputs.
TOGETHER = 300
# These lengthscales, in standard deviations of the input, and these shares of noise in the variance
# of the targets are tried.
LENGTHSCALES = (0.1, 0.22, 0.5, 1.1, 2.5)
NOISE_SHARES = (0.03, 0.15, 0.4, 0.7, 0.9)
# An input matters if its GP is better than noise alone by LEAST_GAIN nats, and by LEAST_SHARE of
# what the best input gains. Without the second, noise beside a strong signal that happens to look
# like a short wave would begin with a lengthscale that hides the signal.
LEAST_GAIN, LEAST_SHARE = 3.0, 0.1
# An input that does not matter for a latent begins with a lengthscale of this many of its sds.
LONG = 10.0
# The inputs are tried again this many times on what those found before leave unexplained.
ROUNDS = 6
# Working targets farther than this many robust standard deviations from their median are cut there.
FARTHEST = 5.0


@dataclass(frozen=True)
class Screen:
    """The result of screening the inputs by one-dimensional GPs: arrays (b, D), latent by input.

    gains : nats by which the best GP of that input alone is better than noise.
    lengthscales : lengthscales of that GP, in units of the input.
    together : lengthscales of the best GP of all inputs together, NaN for a latent that it explains
        no better than the best input alone does.
    gain_together : (b,) nats by which that GP is better than noise, −inf where it was not tried.
    """

    gains: Array
    lengthscales: Array
    together: Array
    gain_together: Array

    @property
    def relevant(self) -> np.ndarray:
        """Which inputs matter for a latent, (b, D) of bool."""
        best = self.gains.max(axis=1, keepdims=True)
        return self.gains > np.maximum(LEAST_GAIN, LEAST_SHARE * best)

    def starts(self, spread: Array) -> list[Array | None]:
        """Lengthscales (D,) for each latent to begin with; None where no input matters.

        Those of k inputs that matter are √k times those found for each alone, because distances
        grow with √k. spread : (D,) the units of the inputs.
        """
        found = zip(self.relevant, self.lengthscales, strict=True)
        return [
            np.where(relevant, np.sqrt(relevant.sum()) * lengths, LONG * spread)
            if relevant.any()
            else None
            for relevant, lengths in found
        ]


def screen_inputs(
    likelihood: Likelihood, rows: Rows, constants: Array, unordered: Sequence[int] | np.ndarray = ()
) -> Screen:
    """Screen the inputs: try one-dimensional GPs of every input on every latent's working targets.

    The input that gains most is taken first, and the others are tried again on what it leaves
    unexplained: beside a strong input a weaker one shows only then.

    unordered : columns of codes of levels without an order, any two of which are as far apart.
    """
    rows = rows.thinned(SCREEN_ROWS)
    spread = input_spread(inputs_that_count(rows), unordered)
    weights = np.ones(len(rows.X)) if rows.weights is None else np.asarray(rows.weights, float)
    targets = working_targets(likelihood, rows, constants, weights)
    return screen_targets(rows.inputs(), targets, weights, spread, unordered)


def screen_targets(
    X: Array,
    targets: Array,
    weights: Array,
    spread: Array,
    unordered: Sequence[int] | np.ndarray,
    together: bool = True,
) -> Screen:
    """Screen the inputs X (n, D), with row weights (n,), on targets (b, n) of mean 0.

    As `screen_inputs` otherwise. spread : (D,) the units of the inputs. together : whether a GP of
    all inputs is tried too.
    """
    inputs = [
        one_input(column, weights, levels=d in unordered) for d, column in enumerate((X / spread).T)
    ]
    gains, lengthscales, means = _tried(inputs, targets)
    common, gain = np.full(gains.shape, np.nan), np.full(len(gains), -np.inf)
    if together and X.shape[1] > 1:
        gain, length, _ = all_inputs(X / spread, weights, unordered).fit(targets)
        more = gain > gains.max(axis=1) + LEAST_GAIN
        common = np.where(more, length, np.nan)[:, None] * spread
    every = np.arange(len(targets))
    left, taken = targets.copy(), np.zeros(gains.shape, dtype=bool)
    now, now_means = gains, means
    for _ in range(min(ROUNDS, len(inputs) - 1)):
        best = np.argmax(np.where(taken, -np.inf, now), axis=1)
        going = now[every, best] > LEAST_GAIN
        if not going.any():
            break
        taken[every[going], best[going]] = True
        left[going] -= now_means[every, best][going]
        now, lengths, now_means = _tried(inputs, left)
        better = ~taken & (now > gains) & going[:, None]
        gains, lengthscales = np.where(better, now, gains), np.where(better, lengths, lengthscales)
    return Screen(gains, lengthscales * spread, common, gain)


def _tried(inputs: list[Trial], targets: Array) -> tuple[Array, Array, Array]:
    """Screen every input: gains and lengthscales (b, D), and what each input explains (b, D, n)."""
    found = [one.fit(targets) for one in inputs]
    gains, lengthscales, means = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return gains, lengthscales, means


def working_targets(likelihood: Likelihood, rows: Rows, latents: Array, weights: Array) -> Array:
    """Working targets z (b, n) of every latent at given latents, centred, to screen inputs on.

    They are 0 where a slope is not finite.

    latents : (b,) constants, or (b, n) values at the rows.
    """
    y, kw = rows.targets(), rows.keywords(**likelihood.parameter_values())
    with np.errstate(all="ignore"):
        slopes = likelihood.dlog_density(y, *(np.full(y.size, f) for f in latents), **kw)
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


class Trial:
    """Sparse GPs of one or all inputs with given lengthscales, to screen inputs on any targets.

    The model z ~ N(0, a K + s/w), a + s the variance of z, is compared with a = 0. K = AᵀA is the
    sparse kernel matrix of M inducing inputs, and the bound that of sparse GP regression: one
    eigendecomposition of A diag(w) Aᵀ = V diag(λ) Vᵀ serves all targets and shares of noise,

        gain = −½ Σ_k log(1 + a λ_k/s) − ½ Σw log(s/v) − ½ (zᵀWz − Σ_k a p_k²/(s + a λ_k))/s
               − ½ (a/s) tr(W (1 − AᵀA)) + ½ zᵀWz/v,   p = Vᵀ A W z,  v = a + s,

    and the mean of the GP at the rows is Aᵀ V diag(a/(s + a λ)) p.

    tried : by a number that names it, such as its lengthscale, each covariance that is tried: that
        of inducing inputs (M, M), that of these with the rows (M, n), and the rows' variances (n,).
    """

    def __init__(
        self, tried: Mapping[float, tuple[Array, Array, Array | float]], weights: Array
    ) -> None:
        self.weights, self.total = weights, float(weights.sum())
        # By name: λ (M,), VᵀA (M, n), tr(W (diag K − AᵀA)).
        self.bases: dict[float, tuple[Array, Array, float]] = {}
        for name, (Kuu, Kuf, kff) in tried.items():
            L = np.linalg.cholesky(Kuu + 1e-6 * np.eye(len(Kuu)))
            A = solve_triangular(L, Kuf, lower=True)
            lam, V = np.linalg.eigh((A * weights) @ A.T)
            left = float(weights @ np.maximum(kff - np.einsum("mn,mn->n", A, A), 0.0))
            self.bases[name] = np.maximum(lam, 0.0), V.T @ A, left

    @staticmethod
    def of_lengthscales(apart: Array, away: Array, weights: Array) -> Trial:
        """Trial GPs with an RBF of each of the lengthscales that a screen tries.

        apart, away : squared distances (M, M) between inducing inputs and (M, n) to the rows.
        """
        tried: dict[float, tuple[Array, Array, Array | float]] = {
            length: (np.exp(-0.5 * apart / length**2), np.exp(-0.5 * away / length**2), 1.0)
            for length in LENGTHSCALES
        }
        return Trial(tried, weights)

    def fit(self, targets: Array) -> tuple[Array, Array, Array]:
        """The best gain (b,) of a GP on targets (b, n), its lengthscale (b,) and mean (b, n)."""
        square = np.einsum("bn,n,bn->b", targets, self.weights, targets)  # zᵀWz
        v = np.maximum(square / self.total, 1e-300)[:, None]
        share = np.asarray(NOISE_SHARES)
        s, a = v * share, v * (1.0 - share)  # (b, shares)
        best, lengthscale = np.full(len(targets), -np.inf), np.ones(len(targets))
        mean = np.zeros_like(targets)
        for length, (lam, VA, left) in self.bases.items():
            p = (targets * self.weights) @ VA.T  # (b, M)
            shrunk = a[..., None] / (s[..., None] + a[..., None] * lam)  # (b, shares, M)
            gain = -0.5 * (
                np.log1p((a / s)[..., None] * lam).sum(-1)
                + self.total * np.log(share)
                + (square[:, None] - np.einsum("bm,bsm->bs", p * p, shrunk)) / s
                + (a / s) * left
                - square[:, None] / v
            )
            k = gain.argmax(axis=1)
            found = np.take_along_axis(gain, k[:, None], axis=1)[:, 0]
            for b in np.flatnonzero(found > best):
                best[b], lengthscale[b], mean[b] = found[b], length, (p[b] * shrunk[b, k[b]]) @ VA
        none = square <= 0.0
        return np.where(none, 0.0, best), lengthscale, np.where(none[:, None], 0.0, mean)


def one_input(column: Array, weights: Array, levels: bool = False) -> Trial:
    """Sparse GPs of one input, a column (n,) in standard deviations, for the screen.

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
    return Trial.of_lengthscales(apart**2, away**2, weights)


def all_inputs(X: Array, weights: Array, unordered: Sequence[int] | np.ndarray = ()) -> Trial:
    """Sparse GPs of all inputs (n, D), in sds, with one lengthscale for all inputs, for a screen.

    They see what no input alone shows, such as sin(x_1) cos(x_2). The inducing inputs are rows.
    """
    rows = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), TOGETHER)).astype(int))]
    rows = np.unique(rows, axis=0)
    ordered = np.setdiff1d(np.arange(X.shape[1]), np.asarray(unordered, dtype=int))

    def distances(others: Array) -> Array:
        d2 = np.zeros((len(rows), len(others)))
        for d in range(X.shape[1]):
            step = rows[:, d, None] - others[:, d]
            d2 += step**2 if d in ordered else (step != 0.0) / LEVEL_SPREAD**2
        return d2

    return Trial.of_lengthscales(distances(rows), distances(X), weights)
