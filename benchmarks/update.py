"""Cost and error of `m.update` with 1 % new rows, against the search for q with all rows.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/update.py [--rows 20000]

A model is fitted to 99 % of the rows. `update` then adds the rest, while a copy is given all rows
by `set_data` and `optimize(only="variational")`. Printed are the processor seconds of both, and by
how many nats the bound after `update` is below the other.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings

import numpy as np

import chainedgp as cgp
from chainedgp import likelihoods as L

LIKELIHOODS = {"HetGaussian": L.HetGaussian, "HetStudentT": L.HetStudentT, "Beta": L.Beta}


def rows(kind, n, rng):
    X = rng.uniform(-3.0, 3.0, (n, 2))
    f, g = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1], -1.0 + 0.7 * np.cos(1.5 * X[:, 1])
    if kind == "Beta":
        y = rng.beta(np.exp(0.7 * f + 1.0), np.exp(0.5 * g + 1.0))
        return X, np.clip(y, 1e-6, 1.0 - 1e-6)
    noise = rng.standard_t(4, n) if kind == "HetStudentT" else rng.standard_normal(n)
    return X, f + np.exp(0.5 * g) * noise


def processor_seconds(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def compare(kind, n, inducing, path, seed):
    rng = np.random.default_rng(seed)
    X, y = rows(kind, n, rng)
    old = n - n // 100
    model = cgp.ChainedGP(X[:2000], y[:2000], LIKELIHOODS[kind](), num_inducing=inducing)
    model.optimize(max_iters=20)
    model.set_data(X[:old], y[:old])
    model.optimize(only="variational")
    model.save(path)
    told, quick = processor_seconds(lambda: model.update(X[old:], y[old:]))
    other = cgp.load(path)
    other.num_threads = model.num_threads
    other.set_data(X, y)
    _, slow = processor_seconds(lambda: other.optimize(only="variational"))
    gap = other.log_likelihood() - model.log_likelihood()
    print(
        f"{kind:12} seed {seed}: update {quick:.3f} s, all rows {slow:.3f} s, share "
        f"{quick / slow:.3f}, {gap:.1e} nats below; {told}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--inducing", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.cgp")
        for kind in LIKELIHOODS:
            for seed in range(arguments.repeats):
                compare(kind, arguments.rows, arguments.inducing, path, seed)


if __name__ == "__main__":
    main()
