"""Default fits to data simulated from every likelihood: do they end where they should?

    python benchmarks/simulated_sets.py [LIKELIHOOD …] [--sets 20] [--first 0] [--jobs 2]
        [--restarts 10] [--record FILE.jsonl] [--output FILE.md]

Each set has 500 rows to fit and 2,000 fresh rows, with one or two inputs in turn; every latent is
a draw from its GP prior that spans at least 2 prior standard deviations. A fit is `optimize()` with
no arguments. The columns of the table, with the bars they are held to:

- converged: sets in which the fit says so; **all**;
- gain: the largest gain in nats of going on with 10 times the iterations and a far smaller
  tolerance; **< 0.1**;
- fall: the largest fall of the bound from one accepted point to the next; **0 but for rounding**
  (bounds are compared with the log-priors added, here and in the other columns);
- near best: sets within 0.5 nat of the best of `--restarts` restarts and of the fit that went on;
  **95 %** (AdditivePoisson: 2 nats). A restart begins at the values of a new model, all multiplied
  by e^N(0, 1), with the inducing inputs that the fit has chosen. It is given up if after 40
  iterations it is more than 3 nats below the fit;
- NLPD: mean and largest excess over the generating functions' on the fresh rows; **≤ 0.05**;
- coverage: of central 50, 90 and 99 % intervals on the fresh rows, mean over sets (for counts by
  the randomised probability transform); **within 3 points**;
- seconds: median processor time of a fit on one thread.

Misses are listed by set. Exits with 1 if a bar is missed. With `--record` each finished set is a
line of a file, and sets that are there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from chainedgp import ChainedGP, Likelihood, likelihoods, metrics
from chainedgp.errors import ChainedGPWarning, NumericalError
from chainedgp.inference.monitor import Monitor
from chainedgp.inference.profile import fit_profile
from chainedgp.inference.restarts import perturb

N, FRESH = 500, 2000
LENGTHSCALE = {1: 0.2, 2: 0.45}  # by number of inputs, in widths of the unit cube
LEAST_SPAN = 2.0  # of a latent at the rows, in prior standard deviations
GAIN, NEAR_SHARE, EXCESS, CALIBRATION = 0.1, 0.95, 0.05, 0.03
# A restart is given up if it is HOPELESS nats below the fit after BRIEF iterations.
BRIEF, HOPELESS = 40, 3.0
LEVELS = (0.5, 0.9, 0.99)
ROUNDING = 1e-6  # nats


class HetLogistic(Likelihood):
    """A user's likelihood: nothing but its density. y ~ Logistic(f, e^g)."""

    latents = ("location", "log_scale")

    def log_density(self, y: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        """The log-density of the logistic distribution."""
        z = np.abs(y - f) * np.exp(-g)
        return -z - g - 2.0 * np.log1p(np.exp(-z))


@dataclass(frozen=True)
class Case:
    """A likelihood, its true parameters, and (mean, sd, relative lengthscale) of its latents."""

    make: Callable[..., Likelihood]
    latents: tuple[tuple[float, float, float], ...]
    parameters: dict[str, float] = field(default_factory=dict)
    censored: float = 0.0  # share of the rows that is right-censored
    near: float = 0.5  # nats from the best of the restarts
    cdf: Callable[..., np.ndarray] | None = None  # where the likelihood has none of its own
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)  # whole metadata, drawn between


lik = likelihoods
CASES = {
    # the paper's, and their versions with one latent
    "HetGaussian": Case(lik.HetGaussian, ((0.0, 1.0, 1.0), (-2.0, 1.0, 1.5))),
    "HetStudentT": Case(lik.HetStudentT, ((0.0, 1.0, 1.0), (-3.0, 1.0, 1.5)), {"nu": 4.0}),
    "Beta": Case(lik.Beta, ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))),
    "LogLogisticSurvival": Case(
        lik.LogLogisticSurvival, ((0.0, 1.0, 1.0), (0.7, 0.7, 1.5)), censored=0.2
    ),
    "AdditivePoisson": Case(lik.AdditivePoisson, ((2.5, 0.7, 2.0), (1.5, 1.0, 0.5)), near=2.0),
    "Gaussian": Case(lik.Gaussian, ((0.0, 1.0, 1.0),), {"variance": 0.1}),
    "StudentT": Case(lik.StudentT, ((0.0, 1.0, 1.0),), {"log_scale2": -3.0, "nu": 4.0}),
    "LogLogistic": Case(lik.LogLogistic, ((0.0, 1.0, 1.0),), {"log_shape": 1.0}, censored=0.2),
    "Poisson": Case(lik.Poisson, ((1.0, 1.0, 1.0),)),
    "Bernoulli": Case(lik.Bernoulli, ((0.0, 2.0, 1.0),)),
    # noise
    "HetLaplace": Case(lik.HetLaplace, ((0.0, 1.0, 1.0), (-1.5, 0.7, 1.5))),
    "AsymmetricLaplace": Case(
        partial(lik.AsymmetricLaplace, 0.75), ((0.0, 1.0, 1.0), (-1.5, 0.7, 1.5))
    ),
    "SHASH": Case(lik.SHASH, ((0.0, 1.0, 1.0), (-1.5, 0.7, 1.5)), {"skewness": 0.5, "tail": 1.3}),
    "BoxCoxNormal": Case(lik.BoxCoxNormal, ((2.0, 0.5, 1.0), (-2.0, 0.5, 1.5)), {"power": -0.7}),
    "BoxCoxT": Case(lik.BoxCoxT, ((2.0, 0.5, 1.0), (-2.0, 0.5, 1.5)), {"power": 0.5, "nu": 6.0}),
    "Tweedie": Case(lik.Tweedie, ((0.5, 0.7, 1.0), (0.3, 0.5, 1.5)), {"power": 1.5}),
    "SignalNoiseGaussian": Case(
        lik.SignalNoiseGaussian, ((0.0, 1.0, 0.7), (0.0, 0.7, 2.0), (-3.0, 1.0, 2.0))
    ),
    "HetStudentTNu": Case(lik.HetStudentTNu, ((0.0, 1.0, 1.0), (-3.0, 1.0, 1.5), (1.2, 0.5, 2.0))),
    "HetGamma": Case(lik.HetGamma, ((0.5, 1.0, 1.0), (1.0, 0.7, 1.5))),
    "BetaMeanPrecision": Case(lik.BetaMeanPrecision, ((0.0, 1.0, 1.0), (2.0, 0.7, 1.5))),
    # extremes and angles
    "GEV": Case(lik.GEV, ((0.0, 1.0, 1.0), (-1.5, 0.7, 1.5)), {"shape": 0.1}),
    "GEVShape": Case(lik.GEVShape, ((0.0, 1.0, 1.0), (-1.5, 0.7, 1.5), (0.2, 0.5, 2.0))),
    "GeneralisedPareto": Case(lik.GeneralisedPareto, ((0.0, 1.0, 1.0),), {"shape": 0.2}),
    "GeneralisedParetoShape": Case(lik.GeneralisedParetoShape, ((0.0, 1.0, 1.0), (0.2, 0.5, 2.0))),
    "VonMises": Case(lik.VonMises, ((0.0, 1.0, 1.0), (1.0, 0.7, 1.5))),
    # counts and classes
    "NegativeBinomial": Case(lik.NegativeBinomial, ((2.0, 1.0, 1.0), (-1.0, 0.7, 1.5))),
    "Binomial": Case(lik.Binomial, ((0.0, 1.5, 1.0),), rows={"trials": (1, 20)}),
    "BetaBinomial": Case(
        lik.BetaBinomial, ((0.0, 1.0, 1.0), (1.5, 0.7, 1.5)), rows={"trials": (5, 20)}
    ),
    "ZeroInflatedNegativeBinomial": Case(
        lik.ZeroInflatedNegativeBinomial, ((1.5, 0.7, 1.0), (-1.5, 0.5, 2.0), (-1.0, 1.0, 1.5))
    ),
    "ZeroInflatedPoisson": Case(lik.ZeroInflatedPoisson, ((1.5, 0.7, 1.0), (-0.5, 1.0, 1.5))),
    "ZeroOneInflatedBeta": Case(
        lik.ZeroOneInflatedBeta,
        ((1.0, 0.7, 1.0), (1.0, 0.7, 1.0), (-1.5, 1.0, 1.5), (-1.5, 1.0, 1.5)),
    ),
    "HetProbit": Case(lik.HetProbit, ((0.0, 2.0, 1.0), (0.0, 1.0, 1.5))),
    "Softmax": Case(partial(lik.Softmax, 3), 3 * ((0.0, 1.5, 1.0),)),
    "Ordinal": Case(
        partial(lik.Ordinal, 4), ((0.0, 2.0, 1.0),), {"cutpoint": -1.5, "gap_1": 1.5, "gap_2": 1.5}
    ),
    # survival
    "WeibullSurvival": Case(lik.WeibullSurvival, ((0.0, 1.0, 1.0), (0.7, 0.5, 1.5)), censored=0.2),
    "LogNormalSurvival": Case(
        lik.LogNormalSurvival, ((0.0, 1.0, 1.0), (-0.7, 0.5, 1.5)), censored=0.2
    ),
    # a user's
    "HetLogistic (density only)": Case(
        HetLogistic,
        ((0.0, 1.0, 1.0), (-2.0, 0.7, 1.5)),
        cdf=lambda y, f, g: expit((y - f) * np.exp(-g)),
    ),
}


@dataclass
class Data:
    """Rows to fit, fresh rows, and what generated them."""

    X: np.ndarray
    y: np.ndarray
    metadata: dict[str, np.ndarray]
    X_new: np.ndarray
    y_new: np.ndarray
    metadata_new: dict[str, np.ndarray]
    latents: np.ndarray  # (b, n)
    latents_new: np.ndarray  # (b, FRESH)
    nlpd: float  # of the generating functions on the fresh rows


def gp_draw(X: np.ndarray, lengthscale: float, rng: np.random.Generator) -> np.ndarray:
    """A draw of a GP of variance 1 on the unit cube: an RBF, exact to about 1e-4 at a fine grid."""
    D = X.shape[1]
    axis = np.linspace(0.0, 1.0, 80 if D == 1 else 14)
    Z = np.stack(np.meshgrid(*[axis] * D, indexing="ij"), -1).reshape(-1, D)

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.sum((A[:, None] - B) ** 2, axis=-1) / lengthscale**2)

    values, vectors = np.linalg.eigh(kernel(Z, Z))
    keep = values > 1e-10 * values[-1]
    root = vectors[:, keep] / np.sqrt(values[keep])
    return kernel(X, Z) @ (root @ rng.standard_normal(int(keep.sum())))


def simulate(case: Case, seed: int, n: int = N) -> Data:
    """One set: seed decides everything, its parity the number of inputs."""
    rng = np.random.default_rng(seed)
    D = 1 + seed % 2
    X = rng.uniform(size=(n + FRESH, D))
    latents = []
    for mean, sd, factor in case.latents:
        while True:
            draw = gp_draw(X, factor * LENGTHSCALE[D], rng)
            if np.ptp(draw[:n]) >= LEAST_SPAN:
                break
        latents.append(mean + sd * draw)
    truth = case.make(**case.parameters)
    kw = truth.parameter_values()
    rows = {key: rng.integers(*ends, size=len(X)).astype(float) for key, ends in case.rows.items()}
    y = np.asarray(truth.sample(rng, *latents, **kw, **rows), dtype=float)
    if truth.support == "unit" and not truth.atoms:
        y = np.clip(y, 1e-12, 1.0 - 1e-12)
    new = slice(n, None)
    known = {key: value[new] for key, value in rows.items()}
    nlpd = -np.mean(truth.log_density(y[new], *[f[new] for f in latents], **kw, **known))
    metadata = {key: value[:n] for key, value in rows.items()}
    if case.censored:
        # Times at which rows are lost from sight know nothing of the rows' own events: they are
        # those of other rows, times a factor that censors the given share.
        lost = y[:n][rng.permutation(n)]
        lost = lost * np.quantile(y[:n] / lost, 1.0 - case.censored)
        hidden = lost < y[:n]
        y[:n] = np.minimum(y[:n], lost)
        metadata["censored"] = hidden.astype(float)
    stack = np.stack(latents)
    return Data(
        X[:n], y[:n], metadata, X[new], y[new], known, stack[:, :n], stack[:, new], float(nlpd)
    )


def make_model(case: Case, data: Data) -> ChainedGP:
    return ChainedGP(data.X, data.y, case.make(), Y_metadata=data.metadata, num_threads=1)


def coverage(case: Case, model: ChainedGP, data: Data, seed: int) -> list[float]:
    """Shares of fresh targets in their central intervals, by the probability transform.

    A likelihood without a cdf gets 400 draws from q: integrating its density row by row is slow.
    """
    if case.cdf is not None:
        rng = np.random.default_rng(seed)
        mean, variance = model.predict_latents(data.X_new)
        draws = mean + np.sqrt(variance) * rng.standard_normal((400, *mean.shape))
        p = case.cdf(data.y_new, *np.moveaxis(draws, -1, 0)).mean(0)
    else:
        p = metrics.pit(model.predictive(data.X_new, data.metadata_new), data.y_new, seed)
    return [float(np.mean(np.abs(p - 0.5) <= 0.5 * level)) for level in LEVELS]


def restart(model: ChainedGP, reached: float, rng: np.random.Generator) -> float:
    """Bound + log prior of a fit from perturbed values of a new model, at the model's Z.

    It is −∞ if the restart fails.
    """
    one = model.problem.copy()
    for leaf, begun in zip(one.parts.others, one.begun or (), strict=False):
        leaf[:] = begun
    perturb(one, rng)
    fit = partial(fit_profile, one, several_starts=False, held=one.parts.Z)
    try:
        value = -fit(Monitor("restart"), BRIEF).value
        if value > reached - HOPELESS:
            value = -fit(Monitor("restart"), 10_000).value
    except NumericalError:
        return -np.inf
    return value


def run(name: str, seed: int, restarts: int) -> dict[str, Any]:
    """All figures of one set."""
    warnings.simplefilter("ignore", ChainedGPWarning)
    case = CASES[name]
    data = simulate(case, seed)
    start = time.process_time()
    model = make_model(case, data)
    trace: list[float] = []  # what a fit raises: bound and log-priors
    result = model.optimize(
        messages=False, callback=lambda point: trace.append(point.bound + model.log_prior())
    )
    seconds = time.process_time() - start
    reached = result.bound + result.log_prior
    longer = model.problem.copy()
    monitor = Monitor("longer")
    more = -fit_profile(longer, monitor, 10 * max(result.iterations, 10), tolerance=1e-4).value
    others = [restart(model, reached, rng) for rng in np.random.default_rng(seed).spawn(restarts)]
    bounds = [more, *(value for value in others if np.isfinite(value))]
    scores = model.log_predictive_density(data.X_new, data.y_new, data.metadata_new)
    return {
        "name": name,
        "seed": seed,
        "inputs": data.X.shape[1],
        "converged": result.converged,
        "reason": result.reason,
        "start": result.start,
        "iterations": result.iterations,
        "evaluations": result.likelihood_evaluations,
        "bound": result.bound,
        "gain": more - reached,
        "fall": float(max(0.0, -np.min(np.diff(trace), initial=0.0))),
        "short": max(bounds) - reached,
        "restarts": [round(value - reached, 2) for value in others],
        "excess": float(-scores.mean()) - data.nlpd,
        "coverage": coverage(case, model, data, seed),
        "seconds": seconds,
    }


def misses(row: dict[str, Any]) -> list[str]:
    """What one set misses, in words."""
    case, found = CASES[row["name"]], []
    if not row["converged"]:
        found.append(f"not converged: {row['reason']}")
    if row["gain"] >= GAIN:
        found.append(f"going on gains {row['gain']:.2f}")
    if row["fall"] > ROUNDING:
        found.append(f"the bound falls by {row['fall']:.1e}")
    if row["short"] > case.near:
        found.append(f"{row['short']:.2f} short of the best")
    if row["excess"] > EXCESS:
        found.append(f"NLPD {row['excess']:+.3f}")
    return found


def table(rows: list[dict[str, Any]]) -> tuple[str, bool]:
    """The Markdown table and whether all bars are met."""
    lines = [
        "| likelihood | sets | converged | gain | fall | near best | NLPD mean | NLPD max "
        "| coverage 50, 90, 99 % | seconds | bars |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    met = True
    for name in dict.fromkeys(row["name"] for row in rows):
        mine, case = [row for row in rows if row["name"] == name], CASES[name]
        column = {
            key: np.array([row[key] for row in mine])
            for key in ("converged", "gain", "fall", "short", "excess", "coverage", "seconds")
        }
        near = column["short"] <= case.near
        covered = column["coverage"].mean(axis=0)
        restarted = any(row["restarts"] for row in mine)
        bars = {
            "converged": column["converged"].all(),
            "gain": column["gain"].max() < GAIN,
            "fall": column["fall"].max() <= ROUNDING,
            "near best": not restarted or near.mean() >= NEAR_SHARE,
            "NLPD": column["excess"].max() <= EXCESS,
            "coverage": np.abs(covered - LEVELS).max() <= CALIBRATION,
        }
        missed = [bar for bar, held in bars.items() if not held]
        met &= not missed
        lines.append(
            f"| {name} | {len(mine)} | {column['converged'].sum()} | {column['gain'].max():.3f} "
            f"| {column['fall'].max():.0e} | {near.sum() if restarted else '–'} "
            f"| {column['excess'].mean():.3f} "
            f"| {column['excess'].max():.3f} | {', '.join(f'{100 * c:.1f}' for c in covered)} "
            f"| {np.median(column['seconds']):.2f} "
            f"| {'met' if not missed else 'missed: ' + ', '.join(missed)} |"
        )
    return "\n".join(lines), met


def show(done: int, total: int, row: dict[str, Any]) -> None:
    found = "; ".join(misses(row)) or "ok"
    print(
        f"[{done}/{total}] {row['name']} {row['seed']}: bound {row['bound']:.2f}, "
        f"{row['evaluations']} evaluations, {row['seconds']:.1f} s; {found}",
        file=sys.stderr,
        flush=True,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", metavar="likelihood", help=", ".join(CASES))
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first set")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--restarts", type=int, default=10, help="0 leaves them out")
    parser.add_argument("--record", type=Path, help="file of finished sets, read and added to")
    parser.add_argument("--output", type=Path, help="write the table and the misses there")
    options = parser.parse_args(arguments)
    names = []
    for given in options.likelihoods or CASES:
        found = [name for name in CASES if name.split()[0] == given.split()[0]]
        if not found:
            parser.error(f"unknown likelihood {given}: use {', '.join(CASES)}")
        names += found
    seeds = range(options.first, options.first + options.sets)
    tasks = [(name, seed) for name in names for seed in seeds]
    rows = []
    if options.record is not None and options.record.exists():
        lines = options.record.read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if (row["name"], row["seed"]) in tasks]
    there = {(row["name"], row["seed"]) for row in rows}
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(run, *task, options.restarts) for task in tasks if task not in there]
        for done in as_completed(waiting):
            rows.append(done.result())
            show(len(rows), len(tasks), rows[-1])
            if options.record is not None:
                with options.record.open("a", encoding="utf-8") as record:
                    record.write(json.dumps(rows[-1], default=float) + "\n")
    rows.sort(key=lambda row: (names.index(row["name"]), row["seed"]))
    text, met = table(rows)
    listed = [
        f"- {row['name']}, set {row['seed']} ({row['inputs']}-D): {'; '.join(misses(row))}"
        for row in rows
        if misses(row)
    ]
    text += f"\n\n{options.restarts} restarts. Misses:\n\n" + ("\n".join(listed) or "none") + "\n"
    print(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return int(not met)


if __name__ == "__main__":
    raise SystemExit(main())
