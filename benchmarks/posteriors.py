"""What correlations between latents cost: the joint posterior against the mean field.

    python benchmarks/posteriors.py [threads] [repetitions] [sets]

One evaluation (value and all gradients) at n = 10,000, M = 100, D = 18, b = 2; then whole default
fits of simulated sets, n = 500 and M = 30, one input. Both families in turn, processor time; of an
evaluation the least, of fits the sum over sets. Exits with 1 where a ratio exceeds its bar.
"""

import sys
import warnings

import numpy as np
from workloads import LIKELIHOODS, clock, evaluate, make_model

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning

FAMILIES = ("mean_field", "joint")
ROWS, M, D = 10_000, 100, 18
EVALUATION = 2.2  # An evaluation of a joint posterior takes at most so many times as long.
FITS = {"Beta": 1.0, "AdditivePoisson": 1.0, "HetGaussian": 2.5}  # And so long a whole fit.


def evaluations(threads, repetitions):
    """Likelihood and ratio of the times of one evaluation."""
    for name in LIKELIHOODS:
        models = [make_model(name, ROWS, M, D, threads, posterior=family) for family in FAMILIES]
        times = [[clock(lambda m=m: evaluate(m))[1] for m in models] for _ in range(repetitions)]
        least = 1e3 * np.min(times, axis=0)
        print(f"{name}, one evaluation: {least.round(1)} ms, {least[1] / least[0]:.2f} ×")
        yield least[1] / least[0] <= EVALUATION


def simulated(name, seed, n=500):
    """X (n, 1) and targets.

    Latents are sines; two rates are draws of GPs, a slow and a fast one, since of two that are
    alike a fit makes one, with the other 0, and nothing is coupled.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    if name == "AdditivePoisson":
        f, g = (draw(x, lengthscale, rng) for lengthscale in (3.0, 0.5))
        return x[:, None], rng.poisson(np.exp(2.0 + 0.7 * f) + np.exp(1.5 + 1.2 * g)).astype(float)
    f, g = (np.sin(w * x + rng.uniform(0.0, 6.0)) for w in rng.uniform(0.4, 1.4, 2))
    if name == "Beta":
        return x[:, None], rng.beta(np.exp(1.0 + f), np.exp(1.0 + g))
    return x[:, None], f + np.exp(0.5 * g - 1.0) * rng.normal(size=n)


def draw(x, lengthscale, rng):
    """A function of variance 1 at x (n,)."""
    K = np.exp(-0.5 * np.square((x[:, None] - x) / lengthscale)) + 1e-8 * np.eye(len(x))
    return np.linalg.cholesky(K) @ rng.normal(size=len(x))


def fits(threads, sets):
    """Likelihood and ratio of the times of whole default fits."""
    for name, bar in FITS.items():
        seconds, passes, bounds = np.zeros(2), np.zeros(2), np.zeros(2)
        for seed in range(sets):
            X, y = simulated(name, seed)
            for k, family in enumerate(FAMILIES):
                m = cgp.ChainedGP(
                    X,
                    y,
                    getattr(cgp.likelihoods, name)(),
                    num_inducing=30,
                    num_threads=threads,
                    posterior=family,
                )
                seconds[k] += clock(m.optimize)[1]
                passes[k] += m.last_result.likelihood_evaluations
                bounds[k] += m.log_likelihood()
        print(
            f"{name}, {sets} whole fits: {seconds.round(1)} s, {seconds[1] / seconds[0]:.2f} × (at "
            f"most {bar}); {passes.round()} evaluations, bounds {(bounds / sets).round(2)}",
            flush=True,
        )
        yield seconds[1] / seconds[0] <= bar


def main(threads=1, repetitions=10, sets=5):
    warnings.simplefilter("ignore", ChainedGPWarning)
    return int(not all([*evaluations(threads, repetitions), *fits(threads, sets)]))


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
