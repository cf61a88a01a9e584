"""Simulation-based calibration: is a true latent any draw among those from its posterior?

    python benchmarks/simulation_based_calibration.py [--sets 200] [--chains 0]
        [--record FILE] [--figure FILE.png]

For each likelihood, sets of 50 rows are simulated from the model at given hyperparameters, latents
drawn from their prior. The package finds q at these hyperparameters; the rank of the true latent
among 99 draws of q, at three rows far apart, is uniform if q is the posterior. With `--chains` the
same is done with Hamiltonian Monte Carlo (`mcmc_reference.py`) on the first of these sets. What is
left of a deviation is that of a Gaussian: its standard deviations are a little too small, and
ranks a little too often at both ends.

Columns: p-value of χ² over 20 bins, for the chains and for q; the standard deviation of
z = (true − mean)/sd under q; the mean ratio of q's standard deviations to those of the chains, of
which it should be the inverse; and the p-value of z divided by its standard deviation: uniform but
for that one number.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mcmc_reference import CASES, Chains, Problem
from scipy.special import ndtr
from scipy.stats import chi2

from chainedgp import ChainedGP, kernels, likelihoods, means

NAMES = ("HetGaussian", "LogLogisticSurvival", "Beta")  # The last has the joint q by default.
N, DRAWS, BINS = 50, 99, 20
ROWS = (5, 25, 44)
FIRST_SEED = 1000


def fitted(name: str, problem: Problem) -> ChainedGP:
    """The model of the package at the hyperparameters of the simulation, its q found."""
    X, latents = problem.x[:, None], problem.case.latents
    model = ChainedGP(
        X,
        problem.y,
        getattr(likelihoods, name)(),
        kernels=[kernels.RBF(1, sd * sd, length) for _, sd, length in latents],
        mean_functions=[means.Constant(mean) for mean, _, _ in latents],
        Z=X,
        Y_metadata={"censored": problem.censored} if problem.censored.any() else None,
        num_threads=1,
    )
    model.optimize(only="variational", messages=False)
    return model


def one_set(name: str, seed: int, chains: bool = True) -> dict[str, Any]:
    """Ranks (2, rows) of the true latents under q and the chains, z under q, ratios of sds."""
    problem = Problem(CASES[name], seed, N)
    rng, rows = np.random.default_rng(seed), list(ROWS)
    truth = problem.truth[:, rows]
    model = fitted(name, problem)
    draws = model.posterior_samples_f(problem.x[rows, None], DRAWS, rng)  # (rows, 2, draws)
    mean, variance = model.predict_latents(problem.x[rows, None])
    sd = np.sqrt(variance.T)
    found = {
        "name": name,
        "seed": seed,
        "rank": (np.moveaxis(draws, 2, 0) < truth.T).sum(axis=0).T.tolist(),
        "z": np.round((truth - mean.T) / sd, 5).tolist(),
    }
    if chains:
        hmc = Chains(problem, seed)
        hmc.warm_up()
        exact = hmc.draw(60)[:, rows].reshape(2, len(rows), -1)
        some = rng.choice(exact.shape[2], DRAWS, replace=False)
        found["chain_rank"] = (exact[:, :, some] < truth[:, :, None]).sum(axis=2).tolist()
        found["ratio"] = np.round(sd / exact.std(axis=2), 4).tolist()
    return found


def p_value(ranks: np.ndarray) -> float:
    """Of χ² over the bins, ranks of any shape between 0 and DRAWS."""
    counts = np.bincount(ranks.ravel() * BINS // (DRAWS + 1), minlength=BINS)
    expected = ranks.size / BINS
    return float(chi2.sf(np.sum((counts - expected) ** 2) / expected, BINS - 1))


def summary(found: list[dict[str, Any]], latent: int) -> dict[str, float]:
    """The columns of the table for one latent."""
    z = np.array([row["z"][latent] for row in found])
    spread = float(np.sqrt(np.mean(z * z)))
    scaled = np.floor(ndtr(z / spread) * (DRAWS + 1)).astype(int)
    columns = {
        "q": p_value(np.array([row["rank"][latent] for row in found])),
        "z": spread,
        "scaled": p_value(np.clip(scaled, 0, DRAWS)),
    }
    if exact := [row for row in found if "ratio" in row]:
        columns["chains"] = p_value(np.array([row["chain_rank"][latent] for row in exact]))
        columns["ratio"] = float(np.mean([row["ratio"][latent] for row in exact]))
    return columns


def envelope(count: int, level: float = 0.95, sets: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Grid, and half-width of the simultaneous band of ECDF − u for `count` uniform ranks."""
    u = np.arange(1, DRAWS + 1) / (DRAWS + 1)
    ranks = np.random.default_rng(0).integers(0, DRAWS + 1, (sets, count))
    below = np.stack([np.bincount(r, minlength=DRAWS + 1).cumsum()[:-1] for r in ranks]) / count
    scale = np.sqrt(u * (1.0 - u) / count)
    return u, np.quantile(np.max(np.abs(below - u) / scale, axis=1), level) * scale


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """ECDF of the ranks minus the diagonal, with the band of uniform ranks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(NAMES), 2, figsize=(8, 2.75 * len(NAMES)), sharex=True, sharey=True
    )
    for axis_row, name in zip(axes, NAMES, strict=True):
        mine = [row for row in found if row["name"] == name]
        for j, axis in enumerate(axis_row):
            u, band = envelope(len(mine) * len(ROWS))
            axis.fill_between(u, -band, band, color="0.9", label="uniform, 95 %")
            for key, label, colour in (("chain_rank", "MCMC", "C1"), ("rank", "q", "C0")):
                if there := [row[key][j] for row in mine if key in row]:
                    ranks = np.array(there).ravel()
                    below = np.bincount(ranks, minlength=DRAWS + 1).cumsum()[:-1] / ranks.size
                    axis.plot(u, below - u, color=colour, label=label)
            latent = getattr(likelihoods, name)().latents[j]
            axis.set_title(f"{name}, {latent}", fontsize=10)
            axis.axhline(0.0, color="0.6", lw=0.5)
    axes[0, 0].legend(fontsize=8, loc="lower center", ncols=3)
    for axis in axes[-1]:
        axis.set_xlabel("rank / 100")
    for axis in axes[:, 0]:
        axis.set_ylabel("ECDF − uniform")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def table(found: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| likelihood | latent | sets | p, MCMC | p, q | sd of z | sd ratio | p, q rescaled |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        mine = [row for row in found if row["name"] == name]
        for j, latent in enumerate(getattr(likelihoods, name)().latents):
            c = summary(mine, j)
            chains = [f"{c[key]:.2f}" if key in c else "–" for key in ("chains", "ratio")]
            lines.append(
                f"| {name} | {latent} | {len(mine)} | {chains[0]} | {c['q']:.2g} | {c['z']:.3f} "
                f"| {chains[1]} | {c['scaled']:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--chains", type=int, default=0, help="sets that have chains too: slow")
    parser.add_argument("--record", type=Path, help="file of finished sets, read and added to")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    found = []
    if options.record is not None and options.record.exists():
        found = [json.loads(line) for line in options.record.read_text("utf-8").splitlines()]
    there = {(row["name"], row["seed"]) for row in found}
    for seed in range(FIRST_SEED, FIRST_SEED + options.sets):
        for name in NAMES:
            if (name, seed) in there:
                continue
            found.append(one_set(name, seed, seed < FIRST_SEED + options.chains))
            if options.record is not None:
                with options.record.open("a", encoding="utf-8") as record:
                    record.write(json.dumps(found[-1]) + "\n")
        if seed % 50 == 0:
            print(seed, file=sys.stderr, flush=True)
    print(table(found))
    if options.figure is not None:
        draw(found, options.figure)


if __name__ == "__main__":
    main()
