"""Do 90 % bands of every latent hold the function that generated the data?

    python benchmarks/bands.py [LIKELIHOOD …] [--sets 50] [--rows 150 500] [--priors auto|none]
        [--record FILE.jsonl]

Sets are those of simulated_sets.py, with one or two inputs in turn. A fit is `optimize()` with no
arguments, and its band of a latent is its mean ± 1.645 standard deviations under q. Printed are,
for each latent, the share of rows at which the band holds the truth, averaged over the sets; the
share of sets in which it holds it at less than half of the rows (a function taken for a constant,
say); and the median ratio of the error to the band's half width. Bar: the mean within 85 to 95 %.
Exits with 1 on a miss. With `--record` each finished set is a line of a file, and sets that are
there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from simulated_sets import CASES, simulate

from chainedgp import ChainedGP
from chainedgp.errors import ChainedGPWarning

LIKELIHOODS = ("HetGaussian", "HetStudentT", "LogLogisticSurvival")
WIDTH = 1.6448536269514722  # of a central 90 % interval, in standard deviations
BAR = (0.85, 0.95)


def one_set(name: str, seed: int, rows: int, priors: str | None) -> dict[str, list[float]]:
    """Coverage of each latent in one set, and the median of |error| over the half width."""
    data = simulate(CASES[name], seed, n=rows)
    model = ChainedGP(
        data.X,
        data.y,
        CASES[name].make(),
        Y_metadata=data.metadata,
        num_threads=1,
        priors=priors,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        model.optimize(messages=False)
    mean, variance = model.predict_latents(data.X)
    error = np.abs(mean - data.latents.T) / (WIDTH * np.sqrt(variance))
    return {
        "coverage": (error < 1.0).mean(0).tolist(),
        "error": np.median(error, axis=0).tolist(),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", default=LIKELIHOODS)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--rows", type=int, nargs="+", default=[150, 500])
    parser.add_argument("--priors", choices=("auto", "none"), default="auto")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args(arguments)
    priors = None if options.priors == "none" else options.priors
    known = {}
    if options.record is not None and options.record.exists():
        lines = map(json.loads, options.record.read_text().splitlines())
        known = {tuple(line["key"]): line for line in lines}
    met = True
    for name in options.likelihoods:
        for rows in options.rows:
            found = []
            for seed in range(options.sets):
                key = (name, rows, options.priors, seed)
                if key not in known:
                    known[key] = {"key": key, **one_set(name, seed, rows, priors)}
                    if options.record is not None:
                        with options.record.open("a") as file:
                            file.write(json.dumps(known[key]) + "\n")
                found.append(known[key])
            coverage = np.array([one["coverage"] for one in found])
            error = np.median([one["error"] for one in found], axis=0)
            for j, latent in enumerate(CASES[name].make().latents):
                mean = coverage[:, j].mean()
                held = BAR[0] <= mean <= BAR[1]
                met &= held
                print(
                    f"{name} {latent}, {rows} rows: {mean:.1%} of rows, standard error "
                    f"{coverage[:, j].std(ddof=1) / np.sqrt(len(found)):.1%}; below half in "
                    f"{(coverage[:, j] < 0.5).mean():.0%} of sets; error {error[j]:.2f} half "
                    f"widths   {'met' if held else 'MISSED'}",
                    flush=True,
                )
    return int(not met)


if __name__ == "__main__":
    raise SystemExit(main())
