"""Time, memory and accuracy of predictions.

    python benchmarks/prediction.py [--rows 100000] [--many 1000000] [--skip speed memory accuracy]

- speed: two quantiles against `predict` of the same rows, HetStudentT, M = 100 and 20;
- memory: peak of the process for `predict` and `predict_quantiles` at a million rows;
- accuracy: the largest |cdf(ppf(p)) − p| of every continuous likelihood, p from 1e-6 to 1 − 1e-6
  (but for quantiles that are an atom, or shares so near 1 that y has no digits left), and the time
  of one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy import stats

import chainedgp as cgp
from chainedgp.predictive import Predictive

L = cgp.likelihoods
LEVELS = np.array([1e-6, 1e-3, 0.025, 0.5, 0.975, 0.999, 1.0 - 1e-6])


class HetLogistic(L.Likelihood):
    """A likelihood known by its density alone."""

    latents = ("location", "log_scale")

    def log_density(self, y, f, g):
        """As in the README."""
        z = np.abs(y - f) * np.exp(-g)
        return -z - g - 2 * np.log1p(np.exp(-z))


CONTINUOUS = {
    "Gaussian": L.Gaussian(),
    "HetGaussian": L.HetGaussian(),
    "HetStudentT": L.HetStudentT(),
    "StudentT": L.StudentT(),
    "HetLaplace": L.HetLaplace(),
    "AsymmetricLaplace": L.AsymmetricLaplace(0.75),
    "HetGamma": L.HetGamma(),
    "HetStudentTNu": L.HetStudentTNu(),
    "SignalNoiseGaussian": L.SignalNoiseGaussian(),
    "Beta": L.Beta(),
    "BetaMeanPrecision": L.BetaMeanPrecision(),
    "LogLogisticSurvival": L.LogLogisticSurvival(),
    "LogLogistic": L.LogLogistic(),
    "WeibullSurvival": L.WeibullSurvival(),
    "LogNormalSurvival": L.LogNormalSurvival(),
    "from_scipy(gumbel_r)": L.Likelihood.from_scipy(stats.gumbel_r, loc="identity", scale="exp"),
    "HetLogistic (density alone)": HetLogistic(),
}
MIXED = {
    "ZeroOneInflatedBeta": L.ZeroOneInflatedBeta(),
    "Inflated(HetGamma)": L.Inflated(L.HetGamma()),
}


def model(rows: int, inducing: int = 100) -> tuple[cgp.ChainedGP, np.ndarray]:
    """A HetStudentT model of one input whose q is found, and new inputs."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 6.0, 600)
    y = np.sin(x) + np.exp(0.3 * x - 1.0) * rng.standard_t(4.0, 600)
    m = cgp.ChainedGP(x, y, L.HetStudentT(), num_inducing=inducing, num_threads=1)
    m.optimize(only="variational", messages=False)
    return m, rng.uniform(0.0, 6.0, (rows, 1))


def speed(rows: int, inducing: int) -> float:
    """Processor seconds of two quantiles over those of `predict`."""
    m, X = model(rows, inducing)
    seconds = {"predict": np.inf, "predict_quantiles": np.inf}
    for _ in range(2):
        for method in seconds:
            start = time.process_time()
            getattr(m, method)(X)
            seconds[method] = min(seconds[method], time.process_time() - start)
    return seconds["predict_quantiles"] / seconds["predict"]


def memory(rows: int, method: str) -> None:
    """Print the peak of this process in MB before and after a call."""
    m, X = model(rows)
    m.predict_quantiles(X[:1000])  # whatever is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    getattr(m, method)(X)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{method:20s} {rows} rows: peak {after / 1e3:.0f} MB ({before / 1e3:.0f} MB before)")


def accuracy(likelihood: L.Likelihood, n: int = 24) -> tuple[float, float, int]:
    """Largest |cdf(ppf(p)) − p|, milliseconds a quantile, and number of warnings."""
    rng, b = np.random.default_rng(1), len(likelihood.latents)
    means = 0.7 * rng.standard_normal((n, b)) + 0.8
    variances = 10.0 ** rng.uniform(-3.0, 0.0, (n, b))
    p = Predictive(likelihood, means, variances)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        start = time.process_time()
        y = p.ppf(LEVELS)
        seconds = time.process_time() - start
        end = 1.0 - 1e-12 if likelihood.support == "unit" else np.inf
        inside = ~np.isin(y, likelihood.atoms) & (y < end)
        error = float(np.abs(p.cdf(y) - LEVELS)[inside].max())
    return error, 1e3 * seconds / y.size, len(seen)


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        memory(arguments.many, arguments.memory)
        return
    if "speed" not in arguments.skip:
        for inducing in (100, 20):
            ratio = speed(arguments.rows, inducing)
            print(f"quantiles / predict, {arguments.rows} rows, M = {inducing}: {ratio:.1f}")
    for method in () if "memory" in arguments.skip else ("predict", "predict_quantiles"):
        command = [sys.executable, __file__, "--many", str(arguments.many), "--memory", method]
        subprocess.run(command, check=True)  # a process of its own: the peak never falls
    cases = {} if "accuracy" in arguments.skip else {**CONTINUOUS, **MIXED}
    for name, likelihood in cases.items():
        error, milliseconds, count = accuracy(likelihood)
        print(f"{name:28s} {error:8.1e}  {milliseconds:8.3f} ms  {count} warnings", flush=True)


if __name__ == "__main__":
    main()
