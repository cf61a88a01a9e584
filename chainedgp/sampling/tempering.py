"""Draws from a posterior by sequential Monte Carlo (tempering): the data enter little by little.

Draws of the prior are weighted, drawn anew by their weights and moved by Hamiltonian Monte Carlo,
at p_β ∝ N(v; 0, I) e^{β E(v)} for temperatures β from 0 to 1 (Neal 2001; Chopin 2002). They start
wide, so that they find what a posterior that is sure of itself has left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from ..linalg import Array

KEPT = 0.7  # The next temperature leaves an effective share of the draws as large as this.
SHRUNK = 1.0  # A covariance of draws is shrunk as if by so many more of them for each dimension.
LENGTH = 1.7  # A Hamiltonian trajectory is about so long, in units of the standard deviations.
MOST_STEPS = 12  # A trajectory has at most so many steps.
ACCEPTED = 0.8  # The step size is adapted until this share of the moves is accepted.
LAST_MOVES, COUNTED = 40, 30  # At β = 1 draws make LAST_MOVES moves; the last COUNTED are kept.
MOST_TEMPERATURES = 60  # A density that takes more temperatures than this is given up.

Density = Callable[[Array], tuple[Array, Array]]  # log p̂ (S,) and gradients (D, S) of v (D, S)


class _Half:
    """One half of the tempered draws V (D, S), with what the data add to their log-density.

    Each half is measured by the other: moves whose size depends on what is moved would not leave
    the density as it is.
    """

    def __init__(self, density: Density, V: Array) -> None:
        self.density, self.V = density, V
        self.values, self.slopes = self.evidence(V)

    def evidence(self, V: Array) -> tuple[Array, Array]:
        """E(v), what the data add to the log-density of the prior of draws v, and its slopes."""
        value, slopes = self.density(V)
        return value + 0.5 * np.sum(V * V, axis=0), slopes + V

    def kept(self, rise: float) -> float:
        """The effective share of the draws that a higher temperature β leaves."""
        return float(1.0 / np.sum(softmax(rise * self.values) ** 2)) / len(self.values)

    def draw_anew(self, rise: float, rng: np.random.Generator) -> None:
        """Resample the draws by the weights that a higher temperature β gives."""
        size = len(self.values)
        places = (np.arange(size) + rng.uniform()) / size
        chosen = np.searchsorted(np.cumsum(softmax(rise * self.values)), places)
        chosen = np.minimum(chosen, size - 1)
        self.V, self.values = self.V[:, chosen], self.values[chosen]
        self.slopes = self.slopes[:, chosen]

    def root(self, sd: Array, axes: Array) -> Array:
        """Covariance root of the tempered draws, shrunk to a Gaussian with these axes and sds."""
        D, size = self.V.shape
        share = size / (size + SHRUNK * D)
        C = share * np.cov((axes.T @ self.V) / sd[:, None])
        C.flat[:: D + 1] += 1.0 - share
        return (axes * sd) @ np.linalg.cholesky(C)

    def move(
        self, beta: float, root: Array, step: float, count: int, rng: np.random.Generator
    ) -> float:
        """One Hamiltonian trajectory of `count` steps; the mean probability of accepting it."""
        V, values, slopes = self.V, self.values, self.slopes
        p = rng.standard_normal(V.shape)
        with np.errstate(all="ignore"):
            before = beta * values - 0.5 * np.sum(V * V + p * p, axis=0)
            for _ in range(count):
                p = p + 0.5 * step * (root.T @ (beta * slopes - V))
                V = V + step * (root @ p)
                values, slopes = self.evidence(V)
                p = p + 0.5 * step * (root.T @ (beta * slopes - V))
            gain = beta * values - 0.5 * np.sum(V * V + p * p, axis=0) - before
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        moved = np.log(rng.uniform(size=len(gain))) < gain
        self.V, self.slopes = np.where(moved, V, self.V), np.where(moved, slopes, self.slopes)
        self.values = np.where(moved, values, self.values)
        return float(np.exp(np.minimum(gain, 0.0)).mean())


class _Cloud:
    """Draws of the tempered density p_β, in two halves."""

    def __init__(self, density: Density, S: Array, size: int, rng: np.random.Generator) -> None:
        self.rng, self.beta, self.log_step = rng, 0.0, np.log(0.25)
        self.spread, self.axes = np.linalg.eigh(S)
        half = len(S), size // 2
        self.halves = [_Half(density, rng.standard_normal(half)) for _ in range(2)]

    def raise_temperature(self) -> None:
        """Raise β as far as enough draws keep their weight, and resample them by it."""

        def enough(beta: float) -> float:
            return min(half.kept(beta - self.beta) for half in self.halves) - KEPT

        new = 1.0 if enough(1.0) >= 0.0 else float(brentq(enough, self.beta, 1.0, xtol=1e-8))
        new = min(max(new, self.beta + 1e-8), 1.0)
        for half in self.halves:
            half.draw_anew(new - self.beta, self.rng)
        self.beta = new

    def move(self) -> None:
        """One Hamiltonian trajectory of every draw; step size and length vary, to meet no period.

        Moves are measured by q at this temperature, of precision I + β (S⁻¹ − I), and in its
        coordinates by the covariance of the other half, which has what q misses: correlations
        between latents, say.
        """
        s = np.maximum(self.spread, 1e-12)
        sd = np.sqrt(s / (s + self.beta * (1.0 - s)))
        accepted = []
        for half, other in (self.halves, self.halves[::-1]):
            step = np.exp(self.log_step) * self.rng.uniform(0.8, 1.2)
            length = LENGTH * self.rng.uniform(0.75, 1.25)
            count = int(np.clip(round(length / step), 1, MOST_STEPS))
            accepted.append(half.move(self.beta, other.root(sd, self.axes), step, count, self.rng))
        self.log_step += 0.8 * (float(np.mean(accepted)) - ACCEPTED)


def tempered_draws(
    density: Density, S: Array, size: int, rng: np.random.Generator, most: int
) -> Array | None:
    """Draws (D, k) of a density by sequential Monte Carlo, or None where they cost too much.

    Parameters
    ----------
    density : v (D, S) -> log p̂(v) (S,), of which −½|v|² is the prior's, and its gradients (D, S).
    S : (D, D) about the covariance of the density, by which moves are measured: that of q.
    size : number of draws that are moved side by side; the last moves of each are given back.
    most : about so many evaluations of a draw may be made until all the data have entered.
    """
    used = 0

    def counted(V: Array) -> tuple[Array, Array]:
        nonlocal used
        used += V.shape[1]
        return density(V)

    cloud, temperatures = _Cloud(counted, S, size, rng), 0
    while cloud.beta < 1.0:
        if used > most or temperatures == MOST_TEMPERATURES:
            return None
        cloud.raise_temperature()
        cloud.move()
        temperatures += 1
    found = []
    for count in range(LAST_MOVES):
        cloud.move()
        if count >= LAST_MOVES - COUNTED:
            found += [half.V for half in cloud.halves]
    return np.hstack(found)
