"""What a latent costs that is not needed: parameters that are constant in truth, fitted as latents.

    python benchmarks/unneeded_latents.py [PAIR …] [--sets 5] [--rows 300]

Each set is simulated with one parameter constant. It is fitted by the likelihood that has it as a
constant, and by the one that has it as a latent: with default priors, and with a prior on the
variance of that latent's kernel whose density is highest at 0, `priors.Gamma(1, 0.5)`. Printed are
means over the sets: by how much the bound (without priors) of the larger model exceeds that of the
smaller one, the prior standard deviation of the latent after the fit, by how much its negative log
predictive density (NLPD) on 1,000 fresh rows exceeds that of the smaller one, and by how much bound
and priors gain when the fit begins again where the latent is a constant: 0 shows that the larger
model has not missed its special case, but prefers another to it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning

L = cgp.likelihoods
FRESH, LENGTHSCALE, HELD = 1000, 0.2, 0.01


class Pair(NamedTuple):
    """The smaller and the larger likelihood, true constants, and (mean, sd) of the other latents.

    latent : the name of the one that is not needed.
    """

    smaller: Callable[..., cgp.Likelihood]
    larger: Callable[..., cgp.Likelihood]
    latent: str
    constants: dict[str, float]
    latents: tuple[tuple[float, float], ...]


PAIRS = {
    "HetGaussian": Pair(L.Gaussian, L.HetGaussian, "log_variance", {"variance": 0.1}, ((0, 1),)),
    "GeneralisedParetoShape": Pair(
        L.GeneralisedPareto, L.GeneralisedParetoShape, "logit_shape", {"shape": 0.2}, ((0, 1),)
    ),
    "GEVShape": Pair(L.GEV, L.GEVShape, "logit_shape", {"shape": 0.1}, ((0, 1), (-1.5, 0.7))),
    "HetStudentTNu": Pair(
        L.HetStudentT, L.HetStudentTNu, "log_nu", {"nu": 5.0}, ((0, 1), (-2.0, 0.7))
    ),
    "SHASH": Pair(
        L.SHASH,
        lambda: L.SHASH(skewness="latent"),
        "skewness",
        {"skewness": 0.5, "tail": 1.3},
        ((0, 1), (-1.5, 0.7)),
    ),
}


def simulate(pair: Pair, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (rows + FRESH, 1) in no order, and targets: latents are draws from GPs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows + FRESH, 1))
    grid = np.linspace(0.0, 1.0, 200)
    K = np.exp(-0.5 * (np.subtract.outer(grid, grid) / LENGTHSCALE) ** 2) + 1e-8 * np.eye(200)
    draws = np.linalg.cholesky(K) @ rng.standard_normal((200, len(pair.latents)))
    latents = [
        mean + sd * np.interp(X[:, 0], grid, draw)
        for (mean, sd), draw in zip(pair.latents, draws.T, strict=True)
    ]
    law = pair.smaller(**pair.constants)
    return X, np.asarray(law.sample(rng, *latents, **pair.constants))


def run(pair: Pair, rows: int, seed: int) -> list[float]:
    """What is printed, of one set."""
    X, y = simulate(pair, rows, seed)

    def fitted(make: Callable[[], cgp.Likelihood], prior: cgp.priors.Prior | None = None):
        m = cgp.ChainedGP(X[:rows], y[:rows], make(), num_threads=1, hyperparameters="fixed")
        if prior is not None:
            m.set_prior(m.kernels[m.latents.index(pair.latent)].variance, prior)
        m.optimize(messages=False)
        nlpd = -np.mean(m.log_predictive_density(X[rows:], y[rows:]))
        return m, m.log_likelihood(), nlpd

    _, bound, nlpd = fitted(pair.smaller)
    found: list[float] = []
    for prior in (None, cgp.priors.Gamma(1.0, 0.5)):
        m, own, score = fitted(pair.larger, prior)
        variance = m.kernels[m.latents.index(pair.latent)].variance
        found += [own - bound, float(np.sqrt(variance[0])), score - nlpd]
        before = own + m.problem.log_prior()
        variance[:] = HELD**2
        m.optimize(messages=False)
        found.append(m.log_likelihood() + m.problem.log_prior() - before)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", metavar="pair", help=", ".join(PAIRS))
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--rows", type=int, default=300)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ChainedGPWarning)
    names = ("bound", "sd", "NLPD", "begun again")
    columns = [f"{name}{kind}" for kind in ("", ", highest at 0") for name in names]
    print(f"| likelihood | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}")
    for name in options.pairs or PAIRS:
        each = [run(PAIRS[name], options.rows, seed) for seed in range(options.sets)]
        means = " | ".join(f"{value:+.3f}" for value in np.mean(each, axis=0))
        print(f"| {name} | {means} |", flush=True)


if __name__ == "__main__":
    main()
