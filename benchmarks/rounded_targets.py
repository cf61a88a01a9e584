"""Default fits on targets that are rounded or repeated: does a noise vanish, do intervals hold?

    python benchmarks/rounded_targets.py [--seeds 2] [--first 0] [--json FILE]

Targets are a signal with noise that varies, written down to one to six decimals, as multiples of
0.05 or 1/16, as integers, or with a share of 5 to 97 % at one value: at random rows, in a part of
the inputs, or everything below a limit. Each is fitted by the defaults of several likelihoods. A
noise has vanished where the fit says so, or where a 90 % interval is narrower than a thousandth of
the spread of the targets. The interval score of new rows is compared with that of constant latents:
of a normal distribution with the mean and standard deviation of the targets that were fitted, or of
their logarithms where they are positive.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from scipy.special import ndtri

import chainedgp as cgp
from chainedgp import likelihoods as L

N, NEW, LEVEL = 150, 400, 0.9
SHARES = (0.05, 0.2, 0.5, 0.8, 0.97)
LIKELIHOODS = {
    "Gaussian": L.Gaussian,
    "HetGaussian": L.HetGaussian,
    "StudentT": L.StudentT,
    "HetStudentT": L.HetStudentT,
    "HetLaplace": L.HetLaplace,
    "HetGamma": L.HetGamma,
}


def rows(rng, n):
    """Inputs (n, 2), and targets (n,) of about unit spread."""
    X = rng.uniform(-2.0, 2.0, (n, 2))
    f, sd = 1.2 * np.sin(2.0 * X[:, 0]), 0.2 * np.exp(0.5 * X[:, 1])
    return X, f + sd * rng.standard_normal(n)


def to_multiple(step):
    return lambda X, y, rng: step * np.round(y / step)


def at_random(share):
    return lambda X, y, rng: np.where(rng.uniform(size=len(y)) < share, 0.0, y)


def in_a_part(share):
    return lambda X, y, rng: np.where(X[:, 1] < -2.0 + 4.0 * share, 0.0, y)


def above_a_limit(share):
    return lambda X, y, rng: np.maximum(y, np.quantile(y, share))


KINDS = {
    "not rounded": lambda X, y, rng: y,
    **{f"{k} decimals": to_multiple(10.0**-k) for k in range(1, 7)},
    "multiples of 0.05": to_multiple(0.05),
    "multiples of 1/16": to_multiple(1.0 / 16.0),
    "halves": to_multiple(0.5),
    "integers": to_multiple(1.0),
    "few integers": to_multiple(1.7),
    **{f"{share:.0%} at random": at_random(share) for share in SHARES},
    **{f"{share:.0%} in a part": in_a_part(share) for share in SHARES},
    **{f"{share:.0%} at a limit": above_a_limit(share) for share in SHARES},
}


def interval_score(low, high, y):
    """Width and 2/(1 − level) times the distance to what lies outside; the mean over rows."""
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.mean(high - low + 2.0 / (1.0 - LEVEL) * outside))


def measure(kind, name, seed):
    """One default fit: what became of the noise, coverage and scores at new rows."""
    rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
    X, y = rows(rng, N + NEW)
    y = KINDS[kind](X, y, rng)
    if name == "HetGamma":  # Positive, and as many ties as before.
        y = np.exp(y)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = cgp.ChainedGP(X[:N], y[:N], LIKELIHOODS[name](), num_inducing=30, num_threads=1)
        result = m.optimize(max_iters=300)
        seconds = time.process_time() - start
        low, high = (end[:, 0] for end in m.predictive(X[N:]).interval(LEVEL))
    new = y[N:]
    u = np.log(y[:N]) if name == "HetGamma" else y[:N]
    constant = u.mean() + u.std() * ndtri([0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL])
    constant = np.exp(constant) if name == "HetGamma" else constant
    return {
        "kind": kind,
        "likelihood": name,
        "seed": seed,
        "vanished": "vanish" in str(result) or bool(np.min(high - low) < 1e-3 * np.std(y)),
        "coverage": float(np.mean((low <= new) & (new <= high))),
        "score": interval_score(low, high, new),
        "constant": interval_score(*constant, new),
        "nlpd": -float(np.mean(m.log_predictive_density(X[N:], new))),
        "seconds": seconds,
    }


def report(found):
    """Lines of a table by kind, and the totals."""
    print(f"{'targets':22s} vanished  coverage  score/constant: mean  worst")
    for kind in dict.fromkeys(one["kind"] for one in found):
        some = [one for one in found if one["kind"] == kind]
        ratio = [one["score"] / max(one["constant"], 1e-12) for one in some]
        print(
            f"{kind:22s} {sum(one['vanished'] for one in some):3d} of {len(some):2d} "
            f"{np.mean([one['coverage'] for one in some]):9.3f} "
            f"{np.mean(ratio):21.3f} {max(ratio):6.2f}"
        )
    ratio = np.array([one["score"] / max(one["constant"], 1e-12) for one in found])
    print(
        f"{len(found)} fits: a noise vanished in {sum(one['vanished'] for one in found)}, score "
        f"above the constant's in {int(np.sum(ratio > 1.0))} (by over 5 % in "
        f"{int(np.sum(ratio > 1.05))}), mean of the ratio {ratio.mean():.3f}, median NLPD "
        f"{np.median([one['nlpd'] for one in found]):.3f}, processor time "
        f"{sum(one['seconds'] for one in found):.0f} s"
    )


def main():
    """Fit, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="sets of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", help="a file for all numbers")
    parser.add_argument("--kinds", nargs="*", help="of targets; all without")
    parser.add_argument("--likelihoods", nargs="*", help="names; all without")
    given = parser.parse_args()
    found = [
        measure(kind, name, seed)
        for kind in given.kinds or KINDS
        for name in given.likelihoods or LIKELIHOODS
        for seed in range(given.first, given.first + given.seeds)
    ]
    report(found)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
