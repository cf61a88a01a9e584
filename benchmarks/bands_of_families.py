"""Do 90 % bands of coupled latents hold their true functions, with the mean field and the joint q?

    python benchmarks/bands_of_families.py [Beta] [AdditivePoisson] [--rows 150 500] [--sets 10]
        [--families mean_field joint averaged known] [--record FILE.jsonl]

Sets are those of `simulated_sets.py`, with one or two inputs in turn. A fit is `optimize()` with no
arguments. At 2,000 fresh rows, the share of true values within central 90 % bands of both latents
and of what a reader looks at: mean and precision of `Beta`, the total rate of `AdditivePoisson`,
whose two latents are matched to the true ones in the order that fits better. NLPD of the fresh
targets. "averaged" is the joint q averaged over hyperparameters (`over_hyperparameters()`), and
"known" the joint q at the true kernels and levels. With `--record` each finished fit is a line of a
file, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from simulated_sets import CASES, FRESH, LENGTHSCALE, simulate

from chainedgp import ChainedGP
from chainedgp.errors import ChainedGPWarning

DRAWS, SOME = 400, slice(None, None, 4)  # of q at every fourth fresh row
LEVEL = 0.9


def natural(name: str, f: np.ndarray, g: np.ndarray) -> dict[str, np.ndarray]:
    """Both latents and functions of them, by name."""
    found = {"f": f, "g": g}
    if name == "Beta":
        return found | {"mean": 1.0 / (1.0 + np.exp(g - f)), "precision": np.logaddexp(f, g)}
    return found | {"total": np.logaddexp(f, g)}


def one_fit(name: str, rows: int, seed: int, family: Any) -> dict[str, Any]:
    """Coverage of each band, and NLPD."""
    warnings.simplefilter("ignore", ChainedGPWarning)
    case = CASES[name]
    data = simulate(case, seed, rows)
    posterior = family if family in ("mean_field", "joint") else "joint"
    told = "uncertain" if family == "known" else "auto"
    options = {"num_threads": 1, "posterior": posterior, "hyperparameters": told}
    model = ChainedGP(data.X, data.y, case.make(), **options)
    if family == "known":
        parts = zip(model.kernels, model.mean_functions, case.latents, strict=True)
        for kernel, level, (mean, sd, factor) in parts:
            kernel.variance[:], level.value[:] = sd * sd, mean
            kernel.lengthscale[:] = factor * LENGTHSCALE[data.X.shape[1]]
        for part in (model.kernels, model.mean_functions, model.Z):
            part.fix()
    result = model.optimize(messages=False)
    source = model.over_hyperparameters(rng=seed) if family == "averaged" else model
    X, truth = data.X_new[SOME], data.latents_new[:, SOME]
    draws = source.posterior_samples_f(X, DRAWS, np.random.default_rng(seed))  # (rows, 2, draws)
    f, g = np.moveaxis(draws, 1, 0)
    if name == "AdditivePoisson" and family != "known":
        gaps = [np.abs(f.mean(1) - a).mean() + np.abs(g.mean(1) - b).mean()
                for a, b in (truth, truth[::-1])]  # fmt: skip
        truth = truth if gaps[0] <= gaps[1] else truth[::-1]
    low, high = 0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL
    shares, wanted = {}, natural(name, *truth)
    for key, values in natural(name, f, g).items():
        ends = np.quantile(values, (low, high), axis=1)
        shares[key] = round(float(np.mean((ends[0] <= wanted[key]) & (wanted[key] <= ends[1]))), 4)
    nlpd = -float(np.mean(source.log_predictive_density(data.X_new, data.y_new)))
    return {
        "name": name, "rows": rows, "seed": seed, "family": family, **shares,
        "nlpd": round(nlpd, 5), "bound": round(float(model.log_likelihood()), 3),
        "converged": bool(result.converged),
    }  # fmt: skip


def table(found: list[dict[str, Any]]) -> str:
    """Markdown: means over sets, and the least of them."""
    lines = ["| likelihood | rows | q | sets | coverage of 90 % bands, mean (least) | NLPD |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    groups = dict.fromkeys((row["name"], row["rows"], row["family"]) for row in found)
    for name, rows, family in groups:
        own = [r for r in found if (r["name"], r["rows"], r["family"]) == (name, rows, family)]
        keys = [key for key in ("f", "g", "mean", "precision", "total") if key in own[0]]
        cells = []
        for key in keys:
            shares = [100 * r[key] for r in own]
            cells.append(f"{key} {np.mean(shares):.0f} ({min(shares):.0f})")
        nlpd = np.mean([r["nlpd"] for r in own])
        words = family.replace("_", " ")
        lines.append(
            f"| {name} | {rows} | {words} | {len(own)} | {', '.join(cells)} | {nlpd:.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", default=["Beta", "AdditivePoisson"])
    parser.add_argument("--rows", nargs="*", type=int, default=[150, 500])
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--families", nargs="*", default=["mean_field", "joint"])
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    found = []
    if options.record is not None and options.record.exists():
        found = [json.loads(line) for line in options.record.read_text("utf-8").splitlines()]
    done = {(r["name"], r["rows"], r["seed"], r["family"]) for r in found}
    for rows in options.rows:
        for seed in range(options.sets):
            for name in options.likelihoods:
                for family in options.families:
                    if (name, rows, seed, family) in done:
                        continue
                    found.append(one_fit(name, rows, seed, family))
                    if options.record is not None:
                        with options.record.open("a", encoding="utf-8") as record:
                            record.write(json.dumps(found[-1]) + "\n")
    print(f"{FRESH // 4} fresh rows for bands, {FRESH} for NLPD.")
    print(table(found))


if __name__ == "__main__":
    main()
