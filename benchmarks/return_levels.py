"""Are bands of return levels right when the climate changes?

    python benchmarks/return_levels.py [--sets 50] [--rows 150] [--output FILE.md]

Each set is the largest daily rain of every year, in millimetres, at one place. It comes from a
generalised extreme value distribution whose location rises along a smooth curve, whose scale grows
with it, and whose shape is constant and differs from set to set. A default fit of `GEV` gives the
50-year return level at the first year, in the middle and in the last year. The share of true levels
inside the 90 % bands is reported for three kinds of bands: those that take hyperparameters and
shape as known, the default ones, in which both are uncertain, and those that average over them
(`m.over_hyperparameters()`). The bar is for the default ones, over all sets and years: **85 to
95 %**. Exits with 1 if it is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning

PERIOD, LEVEL = 50.0, 0.9
KINDS = ("known", "default", "averaged")
BAR = (0.85, 0.95)


def simulate(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Years (n, 1), maxima (n,), and the true 50-year levels at three years (3,)."""
    rng = np.random.default_rng(seed)
    year = np.arange(rows, dtype=float)
    shape = rng.uniform(-0.1, 0.2)
    rise, start = rng.uniform(5.0, 20.0), rng.uniform(0.3, 0.7)
    curve = 1.0 / (1.0 + np.exp(-(year / rows - start) / 0.12))
    location = 40.0 + rise * curve + 3.0 * np.sin(2.0 * np.pi * (year / rows + rng.uniform()))
    log_scale = np.log(8.0) + rng.uniform(0.0, 0.5) * curve
    law = cgp.likelihoods.GEV()
    y = law.sample(rng, location, log_scale, shape=shape)
    true = law.ppf(np.array(1.0 - 1.0 / PERIOD), location, log_scale, shape=shape)
    return year[:, None], y, true[[0, rows // 2, rows - 1]]


def run(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Which true levels (3,) each kind of band covers, and how wide the bands are."""
    X, y, true = simulate(rows, seed)
    model = cgp.ChainedGP(X, y, cgp.likelihoods.GEV(), num_threads=1)
    model.optimize(messages=False)
    at = X[[0, rows // 2, rows - 1]]
    found = {}
    sources = {"known": model.copy(), "default": model}
    sources["known"].hyperparameters = "fixed"
    sources["averaged"] = model.over_hyperparameters(rng=seed)
    for name, source in sources.items():
        bands = source.predictive(at).return_level(PERIOD, level=LEVEL)
        inside = (bands.lower[:, 0] <= true) & (true <= bands.upper[:, 0])
        found[name] = inside
        found[f"{name} width"] = (bands.upper - bands.lower)[:, 0]
        found[f"{name} bias"] = bands.level[:, 0] - true
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ChainedGPWarning)
    results, start = [], time.perf_counter()
    for seed in range(options.sets):
        results.append(run(options.rows, seed))
        shares = ", ".join(f"{k} {np.mean([r[k] for r in results]):.3f}" for k in KINDS)
        print(
            f"[{seed + 1}/{options.sets}] {shares}, {time.perf_counter() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    lines = [
        "| bands | first year | middle | last year | all | mean width | mean error of the median |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in KINDS:
        table = {key: np.array([r[key] for r in results]) for key in results[0]}
        by_year = ", ".join(f"{c:.0%}" for c in table[name].mean(axis=0)).replace(", ", " | ")
        lines.append(
            f"| {name} | {by_year} | {table[name].mean():.1%} "
            f"| {table[f'{name} width'].mean():.1f} | {table[f'{name} bias'].mean():+.2f} |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    covered = np.mean([r["default"] for r in results])
    return int(not BAR[0] <= covered <= BAR[1])


if __name__ == "__main__":
    raise SystemExit(main())
