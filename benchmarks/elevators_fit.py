"""A whole fit of one fold of elevators10000 against 100 of GPflow's steps on the same rows.

    python benchmarks/elevators_fit.py [--gpflow PYTHON] [--steps 100] [--nodes 20]

HetGaussian, 10,000 rows, 18 inputs, 100 inducing inputs that are free, ARD RBF and constant means.
Ours runs until 10 iterations gain less than 1e-4 nat a row; GPflow's Adam runs for `steps` steps
from the same start, all rows in each, and its time is scaled to 100 steps. Exits with 1 if ours
takes longer, in seconds of the processor, which other work disturbs least. The data come from
CHAINEDGP_DATA.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from make_environments import HERE, find_python, run_worker

from chainedgp import ChainedGP, likelihoods

sys.path.insert(0, str(HERE.parent / "examples"))
from paper_tables import elevators, split


def describe(model: ChainedGP, nodes: int) -> dict[str, object]:
    """The start of the fit as plain arrays."""
    M = model.Z.shape[0]
    return {
        "X": model.X,
        "y": model.Y[:, 0],
        "Z": model.Z.values,
        "variance": np.array([float(kernel.variance[0]) for kernel in model.kernels]),
        "lengthscale": np.array([kernel.lengthscale.values for kernel in model.kernels]),
        "bias": np.full(2, 1e-6),
        "mean": np.array([float(mean.param_array[0]) for mean in model.mean_functions]),
        "likelihood": "HetGaussian",
        "nodes": nodes,
        "q_mu": np.zeros((M, 2)),
        "q_sqrt": np.stack([np.eye(M)] * 2),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpflow", metavar="PYTHON", help="an interpreter that has GPflow")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=20, help="GPflow's Gauss-Hermite nodes")
    options = parser.parse_args(arguments)
    python = find_python("gpflow", options.gpflow)
    if python is None:
        parser.error("no GPflow found: run make_environments.py, or give its Python")
    X, y, _, _ = elevators("code", 1)
    train, test = split("elevators10000", y.size, 1, 0)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    start, processor = time.perf_counter(), time.process_time()
    model = ChainedGP(X[train], y[train], likelihoods.HetGaussian())
    arrays, before = describe(model, options.nodes), model.log_likelihood()
    result = model.optimize(messages=False, tolerance=1e-4 * len(train))
    ours = time.perf_counter() - start, time.process_time() - processor
    nlpd = -model.log_predictive_density(X[test], y[test]).mean()
    print(f"ours    {before:10.1f} -> {result}", flush=True)
    print(f"        {ours[0]:.0f} s, {ours[1]:.0f} processor s; NLPD {nlpd:.3f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.npz"), Path(folder, "result.npz")
        np.savez(source, **arrays)
        run_worker(python, "gpflow_steps.py", source, target, str(options.steps))
        found = dict(np.load(target))
    theirs = [float(found[key]) * 100 / options.steps for key in ("seconds", "processor")]
    print(
        f"GPflow  {found['bounds'][0]:10.1f} -> {found['bounds'][-1]:.1f} in {options.steps} steps"
    )
    print(f"        {theirs[0]:.0f} s, {theirs[1]:.0f} processor s for 100 steps")
    print(
        f"load {os.getloadavg()[0]:.1f}; ours took {ours[1] / theirs[1]:.2f} of the processor time"
    )
    return int(ours[1] > theirs[1])


if __name__ == "__main__":
    raise SystemExit(main())
