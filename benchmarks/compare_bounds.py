"""The bound of this package against GPy's and GPflow's, for the same model and the same q.

    python benchmarks/compare_bounds.py [--gpy PYTHON] [--gpflow PYTHON]

Data, kernels, inducing inputs, means, jitter and the whitened q are the same on both sides. The
interpreters come from the command line, from CHAINEDGP_GPY_PYTHON and CHAINEDGP_GPFLOW_PYTHON, or
from `make_environments.py`. Exits with 1 if a bound differs by more than 1e-6 relative.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from make_environments import find_python, run_worker

from chainedgp import ChainedGP, kernels, likelihoods, means

TOLERANCE = 1e-6
VARIANCE = 1.5  # prior variance of every latent, so that one absolute jitter serves GPflow
NU = 3.5


class Case(NamedTuple):
    """One comparison: peer, likelihood, kind of q, our jitter, and the peer's nodes."""

    peer: str
    likelihood: str
    q: str
    jitter: float
    nodes: int = 20


CASES = (
    Case("gpy", "Gaussian", "random", 1e-8),
    Case("gpy", "Gaussian", "fitted", 1e-4),
    Case("gpy", "StudentT", "random", 1e-8, nodes=200),
    Case("gpy", "StudentT", "fitted", 1e-4, nodes=200),
    Case("gpflow", "HetGaussian", "prior", 1e-6),
    Case("gpflow", "HetGaussian", "random", 1e-8, nodes=60),
    Case("gpflow", "HetGaussian", "fitted", 1e-4, nodes=60),
    Case("gpflow", "HetStudentT", "random", 1e-8, nodes=150),
    Case("gpflow", "HetStudentT", "fitted", 1e-4, nodes=150),
)
LIKELIHOODS: dict[str, Callable[[], likelihoods.Likelihood]] = {
    "Gaussian": lambda: likelihoods.Gaussian(variance=0.3),
    "StudentT": lambda: likelihoods.StudentT(nu=NU, log_scale2=np.log(0.3)),
    "HetGaussian": likelihoods.HetGaussian,
    "HetStudentT": lambda: likelihoods.HetStudentT(nu=NU),
}


def make_ours(case: Case) -> ChainedGP:
    """150 rows, 3 inputs, 20 inducing inputs; unequal kernels, means that are not 0."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (150, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + np.exp(0.8 * X[:, 0] - 1.5) * rng.normal(size=150)
    likelihood = LIKELIHOODS[case.likelihood]()
    b = len(likelihood.latents)
    parts = zip((0.2, 0.7), ([1.0, 1.4, 2.0], [2.0, 1.1, 0.9]), strict=True)
    kernel = [
        kernels.RBF(3, VARIANCE - bias, lengthscale, ARD=True) + kernels.Bias(3, bias)
        for bias, lengthscale in parts
    ]
    mean = [means.Constant(0.1), means.Constant(-0.8)]
    model = ChainedGP(X, y, likelihood, kernel[:b], X[:20], mean[:b], jitter=case.jitter)
    if case.q == "fitted":
        model.optimize(only="variational")
    elif case.q == "random":
        model.q_mu[:] = 0.5 * rng.normal(size=model.q_mu.shape)
        model.q_sqrt[:] = 0.5 * model.q_sqrt.values + 0.03 * rng.normal(size=model.q_sqrt.shape)
    return model


def describe(model: ChainedGP, case: Case) -> dict[str, object]:
    """The model as plain arrays: what a peer needs to build the same."""
    M = model.Z.shape[0]
    q_sqrt = np.zeros((len(model.latents), M, M))
    rows, columns = np.tril_indices(M)
    q_sqrt[:, rows, columns] = model.q_sqrt.values.T
    arrays: dict[str, object] = {
        "X": model.X,
        "y": model.Y[:, 0],
        "Z": model.Z.values,
        "q_mu": model.q_mu.values,
        "q_sqrt": q_sqrt,
        "variance": np.array([float(k.rbf.variance[0]) for k in model.kernels]),
        "lengthscale": np.array([k.rbf.lengthscale.values for k in model.kernels]),
        "bias": np.array([float(k.bias.variance[0]) for k in model.kernels]),
        "mean": np.array([float(m.param_array[0]) for m in model.mean_functions]),
        "likelihood": case.likelihood,
        "jitter": case.jitter * VARIANCE,
        "nodes": case.nodes,
    }
    values = model.likelihood.parameter_values()
    if "nu" in values:
        arrays["nu"] = values["nu"]
    if "variance" in values:
        arrays["scale2"] = values["variance"]
    if "log_scale2" in values:
        arrays["scale2"] = np.exp(values["log_scale2"])
    return arrays


def peer_bounds(peer: str, python: str, models: list[dict[str, object]]) -> list[float]:
    """The peer's bounds of the models, in one process: importing TensorFlow takes its time."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = []
        for i, arrays in enumerate(models):
            pairs.append((Path(folder, f"model{i}.npz"), Path(folder, f"result{i}.npz")))
            np.savez(pairs[-1][0], **arrays)
        run_worker(python, f"{peer}_bound.py", *(path for pair in pairs for path in pair))
        return [float(np.load(target)["bound"]) for _, target in pairs]


def compare(peer: str, python: str) -> float:
    """Print the rows of one peer; returns the worst relative difference."""
    cases = [case for case in CASES if case.peer == peer]
    models = [make_ours(case) for case in cases]
    described = [describe(*pair) for pair in zip(models, cases, strict=True)]
    worst = 0.0
    for case, model, theirs in zip(
        cases, models, peer_bounds(peer, python, described), strict=True
    ):
        ours = model.log_likelihood()
        difference = abs(ours - theirs) / abs(theirs)
        worst = max(worst, difference if np.isfinite(difference) else np.inf)
        print(
            f"| {peer} | {case.likelihood} | {case.q} | {case.jitter:.0e} | {case.nodes} "
            f"| {ours:.9f} | {theirs:.9f} | {difference:.1e} |",
            flush=True,
        )
    return worst


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpy", metavar="PYTHON", help="an interpreter that has GPy")
    parser.add_argument("--gpflow", metavar="PYTHON", help="an interpreter that has GPflow")
    options = parser.parse_args(arguments)
    pythons = {peer: find_python(peer, getattr(options, peer)) for peer in ("gpy", "gpflow")}
    if not any(pythons.values()):
        parser.error("no peer found: run make_environments.py, or give --gpy or --gpflow")
    print("| peer | likelihood | q | jitter | peer's nodes | ours | theirs | relative |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for peer, python in pythons.items():
        if python is not None:
            worst = max(worst, compare(peer, python))
    for peer in (peer for peer, python in pythons.items() if python is None):
        print(f"not compared: no interpreter for {peer}")
    print(f"worst relative difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())
