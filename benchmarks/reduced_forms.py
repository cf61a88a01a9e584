"""Speed and error of the reduced expectations against the plain 20 × 20 engine.

    python benchmarks/reduced_forms.py [rows]

For each likelihood: milliseconds for value and gradients of `rows` rows (10,000), the ratio to the
plain engine, and the largest error of each over 40 of the rows against adaptive integration.
Latents have means N(0, 1) (Beta: N(2, 1)) and posterior variances of 0.01 to 2.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from quadrature_error import adaptive
from scipy.special import gammaln, psi

from chainedgp.likelihoods import (
    AdditivePoisson,
    Beta,
    HetStudentT,
    Likelihood,
    LogLogisticSurvival,
)


class TextbookBeta(Beta):
    """The density by gammaln and psi, as one would write it: a fair plain engine for Beta."""

    def log_density(self, y: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        """As `Beta.log_density`."""
        a, b = np.exp(f), np.exp(g)
        main = (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y) - gammaln(a) - gammaln(b)
        return main + gammaln(a + b)

    def dlog_density(self, y: np.ndarray, f: np.ndarray, g: np.ndarray) -> tuple:
        """As `Beta.dlog_density`."""
        a, b = np.exp(f), np.exp(g)
        both = psi(a + b)
        return a * (both + (np.log(y) - psi(a))), b * (both + (np.log1p(-y) - psi(b)))


BLOCK = 1000  # rows at a time, as in the bound
CASES = (HetStudentT, AdditivePoisson, Beta, LogLogisticSurvival)


def data(likelihood: Likelihood, n: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    means = rng.normal(2.0 * (likelihood.support == "unit"), size=(2, n)).T
    variances = np.exp(rng.uniform(np.log(0.01), np.log(2.0), size=(2, n))).T
    latents = means + np.sqrt(variances) * rng.normal(size=(n, 2))
    y = likelihood.sample(rng, *latents.T, **likelihood.parameter_values())
    y = np.clip(y, 1e-12, 1.0 - 1e-12) if likelihood.support == "unit" else y
    return y, means, variances


def in_blocks(
    call: Callable, y: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    parts = [slice(k, k + BLOCK) for k in range(0, len(y), BLOCK)]
    return np.concatenate([call(y[p], means[p], variances[p])[0] for p in parts])


def seconds(call: Callable, *arguments: np.ndarray, repeats: int = 5) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        in_blocks(call, *arguments)
        best = min(best, time.process_time() - start)
    return best


def compare(likelihood: Likelihood, n: int, repeats: int = 5) -> dict[str, float]:
    """Seconds and largest errors: plain 20 × 20, reduced with 20 nodes, reduced as required."""
    kw = likelihood.parameter_values()
    textbook = TextbookBeta() if isinstance(likelihood, Beta) else likelihood
    arrays = data(likelihood, n)
    few = tuple(a[:40] for a in arrays)

    def plain(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> tuple:
        return Likelihood._quadrature(textbook, y, means, variances, nodes=20, **kw)

    def reduced(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> tuple:
        return likelihood.expected_log_density(y, means, variances, nodes=20, **kw)

    def required(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> tuple:
        nodes = likelihood.required_nodes(y, means, variances, **kw)
        return likelihood.expectation(y, means, variances, nodes, **kw)

    exact = [
        adaptive(
            lambda f, g, t=t: likelihood.log_density(np.float64(t), f, g, **kw),
            m,
            v,
            np.log(t) if likelihood.support == "positive" else t,
        )
        for t, m, v in zip(*few, strict=True)
    ]
    result = {}
    for name, call in (("plain", plain), ("reduced", reduced), ("required", required)):
        result[f"{name} seconds"] = seconds(call, *arrays, repeats=repeats)
        result[f"{name} error"] = float(np.max(np.abs(call(*few)[0] - exact)))
    return result


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"n = {n}; value and gradients; ratio = plain 20 × 20 over the column's time")
    print(
        "| likelihood | plain ms | 20 nodes ms | ratio | required nodes ms | ratio "
        "| error plain | error 20 nodes | error required |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        r = compare(case(), n)
        base = r["plain seconds"]
        cells = [f"{1e3 * base:.0f}"]
        for name in ("reduced", "required"):
            cells += [f"{1e3 * r[f'{name} seconds']:.1f}", f"{base / r[f'{name} seconds']:.1f}"]
        cells += [f"{r[f'{name} error']:.1e}" for name in ("plain", "reduced", "required")]
        print(f"| {case.__name__} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
