"""Posteriors of the latents by long MCMC, and the best Gaussian mean field: tests/stored/mcmc.json.

    python benchmarks/mcmc_reference.py [LIKELIHOOD …] [--draws 1000] [--seed 0] [--output FILE]

For every likelihood with two or three latents, 80 rows are simulated at given hyperparameters. At
these hyperparameters

- Hamiltonian Monte Carlo draws from the exact posterior of the latents: 64 chains side by side, in
  whitened coordinates, from starts drawn from the prior or, for three likelihoods, twice as wide
  as a Laplace approximation, its mass matrix learnt in the warm-up;
- for the five of the paper, L-BFGS maximises the bound E_q[log p(y | f, g)] − KL over all q(f) q(g)
  that are Gaussian, mean and Cholesky factor free, the expectation by a fine trapezoidal grid in
  both latents; from the prior, and from the means and standard deviations of the chains.

Nothing of the package is used. The file holds data, hyperparameters, and mean and standard
deviation of all latents at every row; `tests/oracles/test_inference_truth.py` holds fits of the
package against it. Prints the table of docs/inference_truth.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, expit, gammaln, log_ndtr, logsumexp

Array = np.ndarray
Terms = tuple[Array, ...]  # log p and its slopes in the latents

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "tests" / "stored" / "mcmc.json"
N, CHAINS, NU = 80, 64, 4.0
JITTER = 1e-8
GRID = np.linspace(-7.0, 7.0, 71)


class Case(NamedTuple):
    """(mean, sd, lengthscale) of the latents, the log-density with slopes, and a sampler.

    censoring: mean and sd of the logarithm of censoring times, independent of the targets;
    longer: times as many draws; search: whether the best mean field is searched for; near: starts
    are drawn around the mode, as chains do not come back from tails of the prior that are all but
    impossible.
    """

    latents: tuple[tuple[float, float, float], ...]
    log_density: Callable[..., Terms]
    sample: Callable[..., Array]
    censoring: tuple[float, float] | None = None
    longer: int = 1
    search: bool = False
    near: bool = False


def gaussian(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    precision, r = np.exp(-g), y - f
    square = r * r * precision
    return -0.5 * (np.log(2 * np.pi) + g + square), r * precision, 0.5 * (square - 1.0)


def student_t(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    scale2, r = NU * np.exp(g), y - f
    constant = gammaln(0.5 * NU + 0.5) - gammaln(0.5 * NU) - 0.5 * np.log(NU * np.pi)
    total = scale2 + r * r
    value = constant - 0.5 * g - 0.5 * (NU + 1) * np.log(total / scale2)
    return value, (NU + 1) * r / total, 0.5 * (NU + 1) * r * r / total - 0.5


def log_logistic(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    shape = np.exp(g)
    a = shape * (np.log(y) - f)
    survival, p, exact = -np.logaddexp(0.0, a), expit(a), 1.0 - censored
    value = survival + exact * (g - np.log(y) + a + survival)
    slope = -p + exact * (1.0 - p)
    return value, -shape * slope, a * slope + exact


def beta(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    a, b = np.exp(f), np.exp(g)
    value = gammaln(a + b) - gammaln(a) - gammaln(b)
    value = value + (a - 1) * np.log(y) + (b - 1) * np.log1p(-y)
    both = digamma(a + b)
    df = a * (both - digamma(a) + np.log(y))
    return value, df, b * (both - digamma(b) + np.log1p(-y))


def poisson(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    one, two = np.exp(f), np.exp(g)
    rate = one + two
    slope = y / rate - 1.0
    return y * np.log(rate) - rate - gammaln(y + 1), one * slope, two * slope


def laplace(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    inverse = np.exp(-g)
    size = np.abs(y - f) * inverse
    return -np.log(2.0) - g - size, np.sign(y - f) * inverse, size - 1.0


def gamma(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    shape, ratio = np.exp(g), y * np.exp(-f)
    value = shape * (g + np.log(ratio) - ratio) - gammaln(shape) - np.log(y)
    dg = shape * (1.0 + g + np.log(ratio) - ratio - digamma(shape))
    return value, shape * (ratio - 1.0), dg


def beta_mean(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    mean = expit(f)
    value, da, db = beta(y, g + np.log(mean), g + np.log1p(-mean), censored)
    return value, (1.0 - mean) * da - mean * db, da + db


def negative_binomial(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    r = np.exp(-g)
    p, softplus = expit(f + g), np.logaddexp(0.0, f + g)
    value = gammaln(y + r) - gammaln(r) - gammaln(y + 1) + y * (f + g) - (r + y) * softplus
    slope = y - (r + y) * p
    return value, slope, slope + r * (softplus - digamma(y + r) + digamma(r))


def probit(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    scale = (2.0 * y - 1.0) * np.exp(-0.5 * g)
    z = scale * f
    value = log_ndtr(z)
    ratio = np.exp(-0.5 * (z * z + np.log(2 * np.pi)) - value)
    return value, scale * ratio, -0.5 * z * ratio


def weibull(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    k, exact = np.exp(g), 1.0 - censored
    z = k * (np.log(y) - f)
    slope = exact - np.exp(z)
    return exact * (g - np.log(y) + z) - np.exp(z), -k * slope, z * slope + exact


def log_normal(y: Array, f: Array, g: Array, censored: Array) -> Terms:
    k, exact = np.exp(-g), 1.0 - censored
    z = k * (np.log(y) - f)
    log_s, log_p = log_ndtr(-z), -0.5 * (z * z + np.log(2 * np.pi))
    value = np.where(exact > 0.0, log_p - g - np.log(y), log_s)
    slope = np.where(exact > 0.0, -z, -np.exp(log_p - log_s))
    return value, -k * slope, -z * slope - exact


def inflated_poisson(y: Array, f: Array, h: Array, censored: Array) -> Terms:
    log_p = y * f - np.exp(f) - gammaln(y + 1)
    total = np.where(y == 0, np.logaddexp(log_p, h), log_p)
    share = np.where(y == 0, np.exp(log_p - total), 1.0)
    return total - np.logaddexp(0.0, h), share * (y - np.exp(f)), 1.0 - share - expit(h)


def signal_noise(y: Array, f: Array, s: Array, g: Array, censored: Array) -> Terms:
    value, slope, dg = gaussian(y, np.exp(s) * f, g, censored)
    return value, np.exp(s) * slope, np.exp(s) * f * slope, dg


def student_t_nu(y: Array, f: Array, g: Array, h: Array, censored: Array) -> Terms:
    nu, r = np.exp(h), y - f
    scale2 = nu * np.exp(g)
    total = scale2 + r * r
    tail, share = np.log(total / scale2), r * r / total
    value = gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * (np.log(nu * np.pi) + g)
    value = value - 0.5 * (nu + 1) * tail
    dh = 0.5 * nu * (digamma(0.5 * nu + 0.5) - digamma(0.5 * nu) - tail) - 0.5
    dg = 0.5 * (nu + 1) * share
    return value, (nu + 1) * r / total, dg - 0.5, dh + dg


def softmax(y: Array, *latents: Array) -> Terms:
    F = np.stack(latents[:-1])
    shares = np.exp(F - logsumexp(F, axis=0))
    seen = [y == k for k in range(len(F))]
    value = sum(np.where(s, f, 0.0) for s, f in zip(seen, F, strict=True)) - logsumexp(F, axis=0)
    return value, *(s - p for s, p in zip(seen, shares, strict=True))


def draw_class(rng: np.random.Generator, *latents: Array) -> Array:
    noise = rng.gumbel(size=(len(latents), latents[0].size))
    return np.argmax(np.stack(latents) + noise, axis=0).astype(float)


def draw_inflated(rng: np.random.Generator, f: Array, h: Array) -> Array:
    return np.where(rng.uniform(size=f.size) < expit(h), 0.0, rng.poisson(np.exp(f)))


def draw_negative_binomial(rng: np.random.Generator, f: Array, g: Array) -> Array:
    return rng.poisson(np.exp(f + g) * rng.gamma(np.exp(-g))).astype(float)


def fisk(rng: np.random.Generator, f: Array, g: Array) -> Array:
    u = rng.uniform(size=f.size)
    return np.exp(f + np.log(u / (1 - u)) * np.exp(-g))


CASES = {  # latents as in simulated_sets.py
    "HetGaussian": Case(
        ((0.0, 1.0, 0.2), (-2.0, 1.0, 0.3)),
        gaussian,
        lambda rng, f, g: f + np.exp(0.5 * g) * rng.standard_normal(f.size),
        search=True,
    ),
    "HetStudentT": Case(
        ((0.0, 1.0, 0.2), (-3.0, 1.0, 0.3)),
        student_t,
        lambda rng, f, g: f + np.exp(0.5 * g) * rng.standard_t(NU, f.size),
        search=True,
    ),
    "LogLogisticSurvival": Case(
        ((0.0, 1.0, 0.2), (0.7, 0.7, 0.3)), log_logistic, fisk, (1.0, 1.2), search=True
    ),
    "Beta": Case(
        ((1.0, 1.0, 0.2), (1.0, 1.0, 0.2)),
        beta,
        lambda rng, f, g: np.clip(rng.beta(np.exp(f), np.exp(g)), 1e-9, 1 - 1e-9),
        search=True,
    ),
    "AdditivePoisson": Case(
        ((2.5, 0.7, 0.4), (1.5, 1.0, 0.1)),
        poisson,
        lambda rng, f, g: rng.poisson(np.exp(f) + np.exp(g)).astype(float),
        longer=5,
        search=True,
    ),
    "HetLaplace": Case(
        ((0.0, 1.0, 0.2), (-1.5, 0.7, 0.3)),
        laplace,
        lambda rng, f, g: f + np.exp(g) * rng.laplace(size=f.size),
    ),
    "HetGamma": Case(
        ((0.5, 1.0, 0.2), (1.0, 0.7, 0.3)),
        gamma,
        lambda rng, f, g: np.exp(f - g) * rng.gamma(np.exp(g)),
        near=True,
    ),
    "BetaMeanPrecision": Case(
        ((0.0, 1.0, 0.2), (2.0, 0.7, 0.3)),
        beta_mean,
        lambda rng, f, g: np.clip(
            rng.beta(np.exp(g) * expit(f), np.exp(g) * expit(-f)), 1e-9, 1 - 1e-9
        ),
    ),
    "NegativeBinomial": Case(
        ((2.0, 1.0, 0.2), (-1.0, 0.7, 0.3)), negative_binomial, draw_negative_binomial
    ),
    "ZeroInflatedPoisson": Case(
        ((1.5, 0.7, 0.2), (-0.5, 1.0, 0.3)), inflated_poisson, draw_inflated
    ),
    "HetProbit": Case(
        ((0.0, 2.0, 0.2), (0.0, 1.0, 0.3)),
        probit,
        lambda rng, f, g: 1.0 * (f + np.exp(0.5 * g) * rng.standard_normal(f.size) > 0.0),
    ),
    "WeibullSurvival": Case(
        ((0.0, 1.0, 0.2), (0.7, 0.5, 0.3)),
        weibull,
        lambda rng, f, g: np.exp(f) * rng.weibull(np.exp(g)),
        (1.0, 1.2),
        near=True,
    ),
    "LogNormalSurvival": Case(
        ((0.0, 1.0, 0.2), (-0.7, 0.5, 0.3)),
        log_normal,
        lambda rng, f, g: np.exp(f + np.exp(g) * rng.standard_normal(f.size)),
        (1.0, 1.2),
        longer=2,
    ),
    "SignalNoiseGaussian": Case(
        ((0.0, 1.0, 0.14), (0.0, 0.7, 0.4), (-3.0, 1.0, 0.4)),
        signal_noise,
        lambda rng, f, s, g: np.exp(s) * f + np.exp(0.5 * g) * rng.standard_normal(f.size),
        longer=5,
        near=True,
    ),
    "HetStudentTNu": Case(
        ((0.0, 1.0, 0.2), (-3.0, 1.0, 0.3), (1.2, 0.5, 0.4)),
        student_t_nu,
        lambda rng, f, g, h: f + np.exp(0.5 * g) * rng.standard_t(np.exp(h)),
    ),
    "Softmax": Case(3 * ((0.0, 1.5, 0.2),), softmax, draw_class),
}


class Problem:
    """Simulated rows, and the log-posterior of the whitened latents, f_j = mean_j + L_j v_j."""

    def __init__(self, case: Case, seed: int, n: int = N) -> None:
        rng = np.random.default_rng(seed)
        self.case, self.n = case, n
        self.x = np.sort(np.round(rng.uniform(size=n), 6))
        self.means = np.array([mean for mean, _, _ in case.latents])
        self.roots = [self.root(sd, length) for _, sd, length in case.latents]
        pairs = zip(self.means, self.roots, strict=True)
        draws = [mean + L @ rng.standard_normal(n) for mean, L in pairs]
        self.truth = np.stack(draws)  # (b, n)
        self.y = case.sample(rng, *draws)
        self.censored = np.zeros(n)
        if case.censoring:
            end = np.exp(rng.normal(*case.censoring, size=n))
            self.censored = (end < self.y).astype(float)
            self.y = np.minimum(self.y, end)
        self.y = np.array([float(f"{t:.9g}") for t in self.y])

    def root(self, sd: float, length: float) -> Array:
        """Cholesky factor of an RBF covariance at the rows, (n, n)."""
        r = (self.x[:, None] - self.x) / length
        K = np.exp(-0.5 * r * r) + JITTER * np.eye(self.n)
        return sd * np.linalg.cholesky(K)

    def latents(self, V: Array) -> list[Array]:
        """The latents at the rows, (n, C) each, of V (b n, C)."""
        parts = V.reshape(len(self.roots), self.n, -1)
        return [m + L @ v for m, L, v in zip(self.means, self.roots, parts, strict=True)]

    def log_posterior(self, V: Array) -> tuple[Array, Array]:
        """Up to a constant, (C,), and its slopes (b n, C)."""
        y, hidden = self.y[:, None], self.censored[:, None]
        value, *slopes = self.case.log_density(y, *self.latents(V), hidden)
        pulled = np.concatenate([L.T @ d for L, d in zip(self.roots, slopes, strict=True)])
        return value.sum(axis=0) - 0.5 * np.sum(V * V, axis=0), pulled - V

    def laplace(self) -> tuple[Array, Array]:
        """The mode of V, and a root of the inverse of minus the Hessian there, by differences."""
        size = len(self.roots) * self.n

        def cost(v: Array) -> tuple[float, Array]:
            value, slope = self.log_posterior(v[:, None])
            return -float(value[0]), -slope[:, 0]

        mode = minimize(cost, np.zeros(size), jac=True, method="L-BFGS-B").x
        steps = 1e-4 * np.eye(size)
        ends = (self.log_posterior(mode[:, None] + s * steps)[1] for s in (1.0, -1.0))
        H = np.subtract(*ends) / -2e-4
        values, vectors = np.linalg.eigh(0.5 * (H + H.T))
        return mode, vectors / np.sqrt(np.maximum(values, 1.0))  # the prior alone gives 1


class Chains:
    """Hamiltonian Monte Carlo, all chains at once; V = root @ W makes the mass matrix one."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.rng = problem, np.random.default_rng(seed)
        self.size = len(problem.roots) * problem.n
        self.V = self.rng.standard_normal((self.size, CHAINS))
        self.root = np.eye(self.size)
        self.log_step, self.accepted = np.log(0.05), 0.0
        if problem.case.near:
            mode, self.root = problem.laplace()
            self.V = mode[:, None] + 2.0 * self.root @ self.V

    def step(self, length: float) -> None:
        """One trajectory; step and length vary by a half, so that no period is met."""
        size = np.exp(self.log_step) * self.rng.uniform(0.75, 1.25)
        count = max(1, min(64, round(length * self.rng.uniform(0.75, 1.25) / size)))
        old, slope = self.problem.log_posterior(self.V)
        V, p = self.V, self.rng.standard_normal(self.V.shape)
        start = old - 0.5 * np.sum(p * p, axis=0)
        with np.errstate(all="ignore"):
            for _ in range(count):
                p = p + 0.5 * size * (self.root.T @ slope)
                V = V + size * (self.root @ p)
                value, slope = self.problem.log_posterior(V)
                p = p + 0.5 * size * (self.root.T @ slope)
            gain = value - 0.5 * np.sum(p * p, axis=0) - start
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        moved = np.log(self.rng.uniform(size=CHAINS)) < gain
        self.V = np.where(moved, V, self.V)
        self.accepted = float(np.exp(np.minimum(gain, 0.0)).mean())

    def warm_up(self, rounds: tuple[int, ...] = (300, 300, 300)) -> None:
        """Learn step size (for 85 % accepted) and the covariance, pooled over the chains."""
        for count in rounds:
            kept = []
            for i in range(count):
                self.step(1.5)
                self.log_step += 2.0 * (self.accepted - 0.85) / np.sqrt(1.0 + i)
                if i >= count // 2:
                    kept.append(self.V)
            self.root = np.linalg.cholesky(np.cov(np.hstack(kept)) + 1e-6 * np.eye(len(self.V)))

    def draw(self, count: int) -> Array:
        """Latents at the rows, (b, n, chains, count), single precision."""
        shape = len(self.problem.roots), self.problem.n, CHAINS, count
        found = np.empty(shape, dtype=np.float32)
        for i in range(count):
            self.step(1.5)
            found[..., i] = self.problem.latents(self.V)
        return found


def diagnose(draws: Array) -> tuple[float, float]:
    """Split R-hat and effective sample size of one quantity, draws (chains, count)."""
    halves = np.concatenate(np.split(draws[:, : draws.shape[1] // 2 * 2], 2, axis=1)).astype(float)
    count = halves.shape[1]
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    total = within * (count - 1) / count + between
    spectrum = np.fft.rfft(halves - halves.mean(axis=1, keepdims=True), 2 * count)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2)[:, :count].mean(axis=0) / count
    rho = 1.0 - (within - covariance) / total
    pairs = rho[: count // 2 * 2].reshape(-1, 2).sum(axis=1)  # Geyer: until the first negative
    last = int(np.argmax(pairs < 0.0)) if (pairs < 0.0).any() else len(pairs)
    time = max(2.0 * pairs[:last].sum() - 1.0, 1.0 / np.log10(halves.size))
    return float(np.sqrt(total / within)), halves.size / time


class MeanField:
    """−bound over q(v_j) = N(m_j, R_j R_jᵀ), as a function of all entries of m_j and R_j."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.lower = np.tril_indices(problem.n)
        w = np.exp(-0.5 * GRID**2)
        self.w = w / w.sum()

    def split(self, p: Array) -> tuple[list[Array], list[Array]]:
        """Means m_j (n,) and factors R_j (n, n) from the vector of all."""
        n, count = self.problem.n, len(self.lower[0])
        means, roots = [], []
        for part in np.split(p, 2):
            R = np.zeros((n, n))
            R[self.lower] = part[n : n + count]
            means.append(part[:n])
            roots.append(R)
        return means, roots

    def marginals(self, p: Array) -> tuple[Array, Array]:
        """Means and standard deviations of both latents at the rows, (2, n) each."""
        mu, roots = self.split(p)
        L = self.problem.roots
        m = np.stack([self.problem.means[j] + L[j] @ mu[j] for j in range(2)])
        return m, np.stack([np.sqrt(np.sum((L[j] @ roots[j]) ** 2, axis=1)) for j in range(2)])

    def expected(self, m: Array, sd: Array) -> tuple[float, Array, Array]:
        """E log p summed over the rows, its slopes in means and standard deviations (2, n)."""
        f = m[0] + sd[0] * GRID[:, None, None]
        g = m[1] + sd[1] * GRID[:, None]
        problem, shape = self.problem, (GRID.size, GRID.size, m.shape[1])
        terms = problem.case.log_density(problem.y, f, g, problem.censored)
        value, df, dg = (np.broadcast_to(term, shape) for term in terms)
        wx = self.w * GRID
        dm = np.stack([np.einsum("a,b,abn->n", self.w, self.w, d, optimize=True) for d in (df, dg)])
        dsd = np.stack([
            np.einsum("a,b,abn->n", wx, self.w, df, optimize=True),
            np.einsum("a,b,abn->n", self.w, wx, dg, optimize=True),
        ])  # fmt: skip
        total = np.einsum("a,b,abn->", self.w, self.w, value, optimize=True)
        return float(total), dm, dsd

    def __call__(self, p: Array) -> tuple[float, Array]:
        """−bound and its slopes."""
        mu, roots = self.split(p)
        m, sd = self.marginals(p)
        value, dm, dsd = self.expected(m, sd)
        parts = []
        for j, L in enumerate(self.problem.roots):
            R, diagonal = roots[j], np.diag(roots[j])
            value -= 0.5 * (np.sum(R * R) + mu[j] @ mu[j] - len(R)) - np.log(np.abs(diagonal)).sum()
            dR = L.T @ ((dsd[j] / sd[j])[:, None] * (L @ R)) - R
            dR[np.diag_indices_from(dR)] += 1.0 / diagonal
            parts += [L.T @ dm[j] - mu[j], dR[self.lower]]
        return -value, -np.concatenate(parts)

    def optimum(self, mean: Array, sd: Array) -> tuple[float, Array, Array]:
        """The bound, means and standard deviations, from a start with about the given marginals."""
        parts = []
        for j, L in enumerate(self.problem.roots):
            precision = np.maximum(1.0 / sd[j] ** 2 - 1.0 / np.sum(L * L, axis=1), 0.0)
            S = np.linalg.inv(np.eye(self.problem.n) + L.T @ (precision[:, None] * L))
            mu = S @ (L.T @ (precision * (mean[j] - self.problem.means[j])))
            parts += [mu, np.linalg.cholesky(S)[self.lower]]
        options = {"maxiter": 5000, "maxfun": 6000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-6}
        found = minimize(self, np.concatenate(parts), jac=True, method="L-BFGS-B", options=options)
        return (-found.fun, *self.marginals(found.x))


class JointGaussian:
    """−bound over q(v_1, v_2) = N(m, C Cᵀ), as a function of all entries of m and the lower C.

    dE/dV of a row is ½ E[log p (V⁻¹ z zᵀ V⁻¹ − V⁻¹)], z = f − m: no derivatives of the density.
    """

    def __init__(self, problem: Problem) -> None:
        n = problem.n
        self.problem = problem
        self.L = np.zeros((2 * n, 2 * n))
        for j, L in enumerate(problem.roots):
            self.L[j * n : (j + 1) * n, j * n : (j + 1) * n] = L
        self.prior = np.repeat(problem.means, n)
        self.lower = np.tril_indices(2 * n)
        w = np.exp(-0.5 * GRID**2)
        self.w = np.outer(w, w)[:, :, None] / w.sum() ** 2

    def split(self, p: Array) -> tuple[Array, Array]:
        """Mean m (2n,) and factor C (2n, 2n) from the vector of both."""
        size = 2 * self.problem.n
        C = np.zeros((size, size))
        C[self.lower] = p[size:]
        return p[:size], C

    def marginals(self, p: Array) -> tuple[Array, Array]:
        """Means (2, n) of both latents and their covariances (2, 2, n) at the rows."""
        m, C = self.split(p)
        A = (self.L @ C).reshape(2, self.problem.n, -1)
        return (self.prior + self.L @ m).reshape(2, -1), np.einsum("jni,kni->jkn", A, A)

    def expected(self, m: Array, V: Array) -> tuple[float, Array, Array]:
        """E log p summed over the rows, its slopes in means (2, n) and covariances (2, 2, n)."""
        one = np.sqrt(V[0, 0])
        lean = V[1, 0] / one
        rest = np.sqrt(V[1, 1] - lean**2)
        x, z = GRID[:, None, None], GRID[:, None]
        f, g = m[0] + one * x + 0.0 * z, m[1] + lean * x + rest * z
        problem = self.problem
        value, df, dg = problem.case.log_density(problem.y, f, g, problem.censored)
        inverse = np.linalg.inv(V.transpose(2, 0, 1)).transpose(1, 2, 0)
        pull = np.einsum("jkn,kabn->jabn", inverse, np.stack([f - m[0], g - m[1]]))
        weighted = self.w * value
        G = 0.5 * np.einsum("abn,jabn,kabn->jkn", weighted, pull, pull, optimize=True)
        G -= 0.5 * inverse * weighted.sum(axis=(0, 1))
        dm = np.stack([(self.w * d).sum(axis=(0, 1)) for d in (df, dg)])
        return float(weighted.sum()), dm, G

    def __call__(self, p: Array) -> tuple[float, Array]:
        """−bound and its slopes."""
        (m, C), n = self.split(p), self.problem.n
        value, dm, G = self.expected(*self.marginals(p))
        A, diagonal = (self.L @ C).reshape(2, n, -1), np.diag(C)
        dC = self.L.T @ (2.0 * np.einsum("jkn,kni->jni", G, A)).reshape(2 * n, -1) - C
        dC[np.diag_indices_from(dC)] += 1.0 / diagonal
        value -= 0.5 * (np.sum(C * C) + m @ m - len(C)) - np.log(np.abs(diagonal)).sum()
        return -value, -np.concatenate([self.L.T @ dm.ravel() - m, dC[self.lower]])

    def optimum(self) -> tuple[float, Array, Array]:
        """The bound, means (2, n) and covariances (2, 2, n), from half the width of the prior."""
        size = 2 * self.problem.n
        start = np.concatenate([np.zeros(size), 0.5 * np.eye(size)[self.lower]])
        options = {"maxiter": 5000, "maxfun": 6000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-6}
        found = minimize(self, start, jac=True, method="L-BFGS-B", options=options)
        return (-found.fun, *self.marginals(found.x))


def rounded(array: Array, digits: int = 5) -> Any:
    return np.round(np.asarray(array, dtype=float), digits).tolist()


def reference(name: str, seed: int, count: int) -> dict[str, Any]:
    """All that is stored of one case."""
    case = CASES[name]
    problem = Problem(case, seed)
    chains = Chains(problem, seed + 1)
    chains.warm_up()
    draws = chains.draw(case.longer * count)
    pairs = np.array([[diagnose(row) for row in latent] for latent in draws])  # (b, n, 2)
    flat = draws.reshape(*draws.shape[:2], -1)
    mean, sd = flat.mean(axis=2, dtype=float), flat.std(axis=2, dtype=float)
    found = {
        "latents": case.latents,
        "x": rounded(problem.x, 6),
        "y": problem.y.tolist(),
        "censored": problem.censored.astype(int).tolist(),
        "mean": rounded(mean),
        "sd": rounded(sd),
        "rhat": round(float(pairs[..., 0].max()), 5),
        "ess": round(float(pairs[..., 1].min())),
        "draws": int(flat.shape[2]),
        "coupling": round(max(coupling(*two) for two in combinations(flat, 2)), 3),
    }
    return found | best_mean_field(problem, mean, sd) if case.search else found


def coupling(one: Array, two: Array) -> float:
    """|Correlation| of two latents at the same row, draws (n, S) each: median over the rows."""
    rows = [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(one, two, strict=True)]
    return float(np.median(np.abs(rows)))


def best_mean_field(problem: Problem, mean: Array, sd: Array) -> dict[str, Any]:
    """Its means, standard deviations and bounds, from the prior and from the chains' (2, n)."""
    field = MeanField(problem)
    prior_sd = np.stack([np.sqrt(np.sum(L * L, axis=1)) for L in problem.roots])
    prior = np.broadcast_to(problem.means[:, None], mean.shape)
    starts = [field.optimum(prior, prior_sd), field.optimum(mean, sd)]
    bounds = [start[0] for start in starts]
    _, q_mean, q_sd = starts[int(np.argmax(bounds))]
    return {"q_mean": rounded(q_mean), "q_sd": rounded(q_sd), "bounds": rounded(np.array(bounds))}


def distance(case: dict[str, Any]) -> list[dict[str, float]]:
    """Of the mean field from the posterior, by latent: errors of means in sd, ratios of sd."""
    keys = ("mean", "sd", "q_mean", "q_sd")
    mean, sd, q_mean, q_sd = (np.array(case[key]) for key in keys)
    error, ratio = np.abs(q_mean - mean) / sd, q_sd / sd
    return [
        {
            "median": float(np.median(error[j])),
            "largest": float(error[j].max()),
            "least": float(ratio[j].min()),
            "middle": float(np.median(ratio[j])),
        }
        for j in range(2)
    ]


def table(whole: dict[str, Any]) -> str:
    """Markdown: distances of the best mean field from the posterior, how good the chains are."""
    lines = [
        "| likelihood | latent | mean: median error | largest | sd: least ratio | median ratio "
        "| coupling | R-hat | ESS |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, case in whole.items():
        if "q_mean" not in case:
            continue
        chains = f"{case['coupling']:.2f} | {case['rhat']:.3f} | {case['ess']:,}"
        for latent, d in zip("fg", distance(case), strict=True):
            cells = [f"{d[key]:.2f}" for key in ("median", "largest", "least", "middle")]
            lines.append(f"| {name} | {latent} | {' | '.join(cells)} | {chains} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", metavar="likelihood", help=", ".join(CASES))
    parser.add_argument("--draws", type=int, default=1000, help="of each of the 64 chains")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=PATH)
    options = parser.parse_args()
    whole = json.loads(options.output.read_text("utf-8")) if options.output.exists() else {}
    for name in options.likelihoods or CASES:
        whole[name] = reference(name, options.seed, options.draws)
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in whole.items())
        options.output.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(table(whole))


if __name__ == "__main__":
    main()
