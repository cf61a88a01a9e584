"""The workloads that the benchmarks share: b = 2, ARD RBF kernels, constant means, free Z."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from chainedgp import ChainedGP, kernels, likelihoods, means

NU = 4.0
LIKELIHOODS = {
    "HetGaussian": likelihoods.HetGaussian,
    "HetStudentT": lambda: likelihoods.HetStudentT(nu=NU),
}


def simulate(n: int, D: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X (n, D) standard normal and y (n,): a sine, and noise whose scale depends on x."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.sin(X[:, 0]) + np.exp(0.5 * X[:, -1] - 1.0) * rng.normal(size=n)


def make_model(
    name: str,
    n: int,
    M: int,
    D: int = 18,
    threads: int | None = None,
    jitter: float = 1e-8,
    posterior: str = "mean_field",
) -> ChainedGP:
    """A model away from its start: q has a mean and a covariance that is not diagonal."""
    X, y = simulate(n, D)
    rng = np.random.default_rng(1)
    scale = np.sqrt(D)
    kernel = [kernels.RBF(D, 1.0, np.full(D, s * scale), ARD=True) for s in (1.0, 1.5)]
    mean = [means.Constant(0.1), means.Constant(-1.0)]
    Z = X[:M] if n >= M else rng.normal(size=(M, D))
    options = {"num_threads": threads, "jitter": jitter, "posterior": posterior}
    model = ChainedGP(X, y, LIKELIHOODS[name](), kernel, Z, mean, **options)
    model.q_mu[:] = 0.3 * rng.normal(size=model.q_mu.shape)
    model.q_sqrt[:] = 0.5 * model.q_sqrt.values + 0.02 * rng.normal(size=model.q_sqrt.shape)
    return model


def evaluate(model: ChainedGP) -> float:
    """The bound and all gradients, computed anew."""
    model.parameters_changed()
    model.objective_function_gradients()
    return model.log_likelihood()


def clock(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds and processor seconds (of all threads) that `work` takes."""
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor
