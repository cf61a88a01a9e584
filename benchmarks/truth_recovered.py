"""Do default fits find the functions that generated the data?

    python benchmarks/truth_recovered.py [--seeds 3]

The paper's synthetic survival data (n = 1,000), Beta (n = 1,500), and the additive-Poisson toy
(n = 350): correlation of the posterior mean of each latent with its truth at the rows; bar 0.9.
The additive processes may come out in either order. Exits with 1 on a miss.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from simulated_sets import CASES, simulate

from chainedgp import ChainedGP, datasets, likelihoods

BAR = 0.9


def survival(seed: int) -> tuple[ChainedGP, np.ndarray]:
    d = datasets.synthetic_survival(seed=seed)
    model = ChainedGP(
        d.X, d.Y, likelihoods.LogLogisticSurvival(), Y_metadata={"censored": d.censored}
    )
    return model, np.stack([d.log_median, d.log_shape])


def beta(seed: int) -> tuple[ChainedGP, np.ndarray]:
    d = simulate(CASES["Beta"], seed, n=1500)
    return ChainedGP(d.X, d.y, likelihoods.Beta()), d.latents


def toy(seed: int) -> tuple[ChainedGP, np.ndarray]:
    d = datasets.additive_poisson_toy(seed=seed)
    model = ChainedGP(d.X, d.Y, likelihoods.AdditivePoisson())
    return model, np.stack([d.log_rate_1, d.log_rate_2])


def correlations(model: ChainedGP, truth: np.ndarray) -> np.ndarray:
    """Of each latent with its own truth; of a symmetric likelihood in the better order."""
    means = model.predict_latents(model.X)[0].T
    table = np.corrcoef(means, truth)[: len(means), len(means) :]
    orders = [np.diag(table)]
    if model.likelihood.symmetric:
        orders.append(np.diag(table[::-1])[::-1])
    return max(orders, key=np.min)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    met = True
    for make in (survival, beta, toy):
        for seed in range(options.seeds):
            model, truth = make(seed)
            start = time.perf_counter()
            result = model.optimize(messages=False)
            seconds = time.perf_counter() - start
            found = correlations(model, truth)
            held = bool((found > BAR).all())
            met &= held
            print(
                f"{make.__name__} {seed}: {', '.join(f'{c:.3f}' for c in found)}   "
                f"{'met' if held else 'MISSED'}   bound {result.bound:.2f}, M {len(model.Z)}, "
                f"{seconds:.1f} s, {result.reason}",
                flush=True,
            )
    return int(not met)


if __name__ == "__main__":
    raise SystemExit(main())
