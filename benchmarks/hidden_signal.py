"""One input of several matters, with short waves: does a default fit find it?

    python benchmarks/hidden_signal.py [LIKELIHOOD …] [--seeds 8] [--first 3000] [--inducing 50]

y = sin(ω x_j) + 0.1 ε, X uniform in (−2, 2)^D, the other inputs irrelevant, for five triples of D,
rows and ω. A set is missed where the mean prediction at 500 fresh rows is off by more than half of
what a constant would be (root mean square). The table has, for each triple, the sets missed, the
start that won how often, and the median processor time of a fit in seconds. Exits with 1 where
more than one set in 40 is missed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter

import numpy as np

from chainedgp import ChainedGP, likelihoods
from chainedgp.errors import ChainedGPWarning

PROBLEMS = ((2, 100, 5.0), (3, 100, 5.0), (4, 100, 5.0), (5, 100, 4.0), (8, 300, 4.0))
FRESH = 500


def run(name: str, problem: tuple[int, int, float], seed: int, M: int) -> tuple[bool, str, float]:
    """Whether one set is missed, the start that won, and the processor time."""
    D, n, omega = problem
    rng = np.random.default_rng([seed, D])
    X, which = rng.uniform(-2.0, 2.0, (n + FRESH, D)), seed % D
    f = np.sin(omega * X[:, which])
    y = f[:n] + 0.1 * rng.standard_normal(n)
    begin = time.process_time()
    model = ChainedGP(X[:n], y, getattr(likelihoods, name)(), num_inducing=M or None, num_threads=1)
    result = model.optimize(messages=False)
    seconds = time.process_time() - begin
    error = model.predict(X[n:])[0][:, 0] - f[n:]
    missed = bool(np.sqrt(np.mean(error**2)) > 0.5 * np.std(f[n:]))
    return missed, result.start, seconds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", default=["Gaussian", "HetGaussian"])
    parser.add_argument("--seeds", type=int, default=8, help="sets of each triple")
    parser.add_argument("--first", type=int, default=3000, help="the first seed")
    parser.add_argument("--inducing", type=int, default=50, help="0 has the fit choose")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ChainedGPWarning)
    print("| likelihood | D, rows, ω | missed | starts that won | seconds |\n|---|---|---|---|---|")
    worst = 0.0
    for name in options.likelihoods:
        total = 0
        for problem in PROBLEMS:
            seeds = range(options.first, options.first + options.seeds)
            ends = [run(name, problem, seed, options.inducing) for seed in seeds]
            missed, starts, seconds = zip(*ends, strict=True)
            total += sum(missed)
            won = ", ".join(f"{start} {count}" for start, count in Counter(starts).most_common())
            D, n, omega = problem
            print(
                f"| {name} | {D}, {n}, {omega:g} | {sum(missed)} of {len(ends)} | {won} "
                f"| {np.median(seconds):.2f} |",
                flush=True,
            )
        worst = max(worst, total / (options.seeds * len(PROBLEMS)))
    return int(worst > 1 / 40)


if __name__ == "__main__":
    raise SystemExit(main())
