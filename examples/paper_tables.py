"""Tables 1 and 2 of Saul et al. (2016): chained models against their one-latent baselines.

    G       Gaussian noise                CHG     chained: mean and log-variance
    Lt, Vt  Student-t, by Laplace's       CHt     chained: location and log squared scale
            method, and variational
    LSurv,  log-logistic survival,        CHSurv  chained: log-median and log-shape
    VSurv   Laplace and variational

Each is scored on held-out rows, 5 folds for each of 10 seeds: NLPD, the mean of −log p(y*) by
quadrature, and the mean absolute error of the median. The text of the paper and the script that
was released with it differ in what they do to the data, so there are two protocols; docs/
paper_tables.md says what each does and what came out.

    python examples/paper_tables.py                  one fold of each data set, about a minute
    python examples/paper_tables.py --quick          one seed, 5 folds: minutes
    python examples/paper_tables.py --full           10 seeds: hours; it can be stopped and resumed
    python examples/paper_tables.py --render         the table of what is done

Every finished fit is a line of results/paper_tables_<protocol>.csv and is not run again. boston,
elevators and leukemia are read from the folder named by CHAINEDGP_DATA and left out if it has none;
the motorcycle data come with the package, and the synthetic survival times are made here.
"""

import argparse
import csv
import os
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import chainedgp as cgp
from chainedgp import datasets, kernels, likelihoods, means, priors
from chainedgp.baselines import LaplaceGP

FIELDS = ("data", "model", "seed", "fold", "nlpd", "mae", "bound", "converged", "seconds")
FOLDS, INDUCING = 5, 100

# The figures of the paper: mean and standard error of 50 runs.
PAPER = {
    "elevators1000": {"G": (0.39, 0.13), "CHG": (0.10, 0.01)},
    "elevators10000": {"G": (0.07, 0.01), "CHG": (0.03, 0.02)},
    "motorCorrupt": {
        "G": (2.04, 0.06),
        "CHG": (1.79, 0.05),
        "Lt": (1.73, 0.05),
        "Vt": (2.52, 0.09),
        "CHt": (1.70, 0.05),
    },
    "boston": {
        "G": (0.27, 0.02),
        "CHG": (0.09, 0.01),
        "Lt": (0.23, 0.02),
        "Vt": (0.19, 0.02),
        "CHt": (0.09, 0.02),
    },
    "leukemia": {
        "G": (4.03, 0.08),
        "LSurv": (1.57, 0.01),
        "VSurv": (1.57, 0.01),
        "CHSurv": (1.56, 0.01),
    },
    "synthetic": {
        "G": (5.45, 0.06),
        "LSurv": (2.52, 0.02),
        "VSurv": (2.52, 0.02),
        "CHSurv": (2.16, 0.02),
        "truth": None,  # the true functions, on the same rows: nothing can do better on average
    },
}
LIKELIHOODS = {
    "G": likelihoods.Gaussian,
    "CHG": likelihoods.HetGaussian,
    "Lt": likelihoods.StudentT,
    "Vt": likelihoods.StudentT,
    "CHt": likelihoods.HetStudentT,
    "LSurv": likelihoods.LogLogistic,
    "VSurv": likelihoods.LogLogistic,
    "CHSurv": likelihoods.LogLogisticSurvival,
}


# ---- data: X, y, whether each row is censored (or None), the truth (or None) --------------------
#
# In the code protocol the targets without censoring become |y| + 0.01 after standardising, and all
# that is random is drawn in the script's order by the generator it used, numpy's old one. X and y
# are standardised over all rows before they are split, in both protocols.


def motor_corrupt(protocol, seed):
    if protocol == "text":
        X, y, _ = datasets.corrupted_motorcycle("text", seed)
        return X, y, None, None
    X, y = (standardised(values) for values in datasets.motorcycle())
    rng = np.random.RandomState(seed)
    order = rng.permutation(y.size)
    X, y = X[order], y[order]
    corrupted = rng.permutation(y.size)[:45]
    y[corrupted] = 4.0 * rng.standard_normal(45)
    return X, positive(y), None, None


def boston(protocol, seed):
    columns = standardised(table("boston"))
    y = columns[:, -1]
    return columns[:, :-1], y if protocol == "text" else positive(y), None, None


def elevators(protocol, seed):
    columns = table("elevators")
    columns = standardised(columns[np.random.RandomState(seed).permutation(len(columns))])
    y = columns[:, -1]
    return columns[:, :-1], y if protocol == "text" else positive(y), None, None


def leukemia(protocol, seed):
    columns = datasets.load_csv("leukemia")
    scaled = [columns["age"], np.log10(columns["wbc"] + 0.3), columns["tpi"]]
    X = np.column_stack([standardised(np.column_stack(scaled)), columns["sex"]])
    days = columns["time"]
    return X, days / np.exp(np.log(days).mean()), 1.0 - columns["event"], None


def synthetic(protocol, seed, n=1000):
    if protocol == "text":
        data = datasets.synthetic_survival("text", seed)
        return data.X, data.Y, data.censored, np.stack([data.log_median, data.log_shape])
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 2))
    f = 2.0 * (np.exp(-30.0 * (X[:, 0] - 0.25) ** 2) + np.sin(np.pi * X[:, 1] ** 2)) - 2.0
    g = np.sin(2.0 * np.pi * X[:, 0]) + np.cos(2.0 * np.pi * X[:, 1])
    y = likelihoods.LogLogisticSurvival().ppf(rng.uniform(size=n), f, g)
    early = rng.permutation(n)[: n // 5]
    y[early] *= rng.uniform(size=early.size)
    censored = y > 300.1
    y[censored], censored[early] = 300.1, True
    log_unit = np.log(y).mean()
    truth = np.stack([f - log_unit, g])  # but for the shift by 0.01
    return standardised(X), (y + 0.01) / np.exp(log_unit), censored.astype(float), truth


DATA = {
    "elevators1000": elevators,
    "elevators10000": elevators,
    "motorCorrupt": motor_corrupt,
    "boston": boston,
    "leukemia": leukemia,
    "synthetic": synthetic,
}
FILES = {"elevators1000": "elevators", "elevators10000": "elevators", "boston": "boston"}
FILES["leukemia"] = "leukemia"


def table(name):
    return np.column_stack(list(datasets.load_csv(name).values()))


def standardised(values):
    return (values - values.mean(0)) / values.std(0)


def positive(y):
    return np.abs(y) + 0.01


def split(name, n, seed, fold):
    """Rows to fit and to score: shuffled folds, as scikit-learn's KFold makes them."""
    order = np.arange(n)
    np.random.RandomState(seed).shuffle(order)
    test = np.sort(np.array_split(order, FOLDS)[fold])
    train = np.setdiff1d(np.arange(n), test)
    if name.startswith("elevators"):
        return train[: int(name.removeprefix("elevators"))], test[-1500:]
    return train, test


# ---- models -------------------------------------------------------------------------------------
#
# text: kernels RBF + bias, means 0, inducing inputs free. code: RBF and a constant mean, inducing
# inputs fixed (on the motorcycle data all training inputs). Every other number starts where the
# library starts it, and is learnt; so is ν. --start default: nothing is said to the library at all,
# as in ChainedGP(X, y, likelihood).optimize(). --start script: kernels, means and starts are the
# script's, which draws lengthscales at random, very short ones for the motorcycle data.

SCRIPT_LENGTHSCALES = {
    "motorCorrupt": (0.001, 0.077),
    "boston": (0.5, 3.0),
    "leukemia": (0.5, 3.0),
    "synthetic": (0.5, 1.0),
}
SCRIPT_LEVELS = {"motorCorrupt": 0.25, "leukemia": 0.5, "synthetic": 1.2}


def script_parts(name, data, X, rng):
    """Kernels RBF + white noise, a constant mean for the second latent only."""
    D = X.shape[1]
    low, high = SCRIPT_LENGTHSCALES.get(data, (0.2, 0.2 + 0.4 * np.ptp(X, axis=0)))
    latents = 2 if name.startswith("CH") else 1
    parts = [
        kernels.RBF(D, 0.5, rng.uniform(low, high, D), ARD=True) + kernels.White(D, 0.001)
        for _ in range(latents)
    ]
    for kernel in parts:
        kernel.parts[1].variance.fix()
    level = means.Constant(np.log(SCRIPT_LEVELS.get(data, 0.1)))
    return parts, [means.Zero(), level][:latents]


def make_model(name, data, protocol, free, start, rng, X, y, metadata):
    likelihood = LIKELIHOODS[name]()
    if start == "default" and name not in ("Lt", "LSurv"):
        return cgp.ChainedGP(X, y, likelihood, Y_metadata=metadata)
    D = X.shape[1]
    kernel = mean = None
    if rng is not None:
        kernel, mean = script_parts(name, data, X, rng)
    if protocol == "text":
        rbf = kernels.RBF(D, 1.0, np.full(D, np.sqrt(D)), ARD=True)
        kernel, mean = rbf + kernels.Bias(D, 1.0), means.Zero()
    if name in ("Lt", "LSurv"):
        return LaplaceGP(X, y, likelihood, kernel, mean, metadata)
    Z = X if data == "motorCorrupt" and protocol == "code" else None
    model = cgp.ChainedGP(X, y, likelihood, kernel, Z, mean, metadata, num_inducing=INDUCING)
    if protocol == "code" and not free:
        model.Z.fix()
    return model


def run(protocol, prior, free, start, data, name, seed, fold):
    """One fit and its scores: a line of the file."""
    X, y, censored, truth = DATA[data](protocol, seed)
    train, test = split(data, y.size, seed, fold)
    if data == "synthetic" and protocol == "code":
        test = test[censored[test] == 0.0]
    if name == "G" and censored is not None:  # knows nothing of censoring: scored as deaths
        train, censored = train[censored[train] == 0.0], None
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cgp.errors.ChainedGPWarning)  # the table says it
        if name == "truth":
            kw = {"censored": censored[test]}
            likelihood = likelihoods.LogLogisticSurvival()
            log_density = likelihood.log_density(y[test], *truth[:, test], **kw)
            median, bound, converged = np.exp(truth[0, test]), np.nan, True
        else:
            given = (None, None)
            if censored is not None:
                given = ({"censored": censored[train]}, {"censored": censored[test]})
            rng = np.random.default_rng((seed, fold)) if start == "script" else None
            rows = X[train], y[train], given[0]
            model = make_model(name, data, protocol, free, start, rng, *rows)
            if prior:
                typical = np.log(X.shape[1]) / 2.0  # √D standard deviations, as distances grow
                model.set_prior(".*lengthscale", priors.LogNormal(typical, 1.0))
            # 1e-3 nats, but 1e-4 a row where there are many
            tolerance = max(1e-3, 1e-4 * train.size * (train.size > 5000))
            tolerance = None if start == "default" else tolerance
            result = model.optimize(messages=False, tolerance=tolerance)
            bound, converged = result.bound, result.converged
            distribution = model.predictive(X[test], given[1])
            log_density = distribution.logpdf(y[test][:, None])[:, 0]
            median = distribution.ppf(0.5)[:, 0]
    scores = (-log_density.mean(), np.abs(median - y[test]).mean(), bound)
    seconds = f"{time.perf_counter() - began:.1f}"
    return (data, name, seed, fold, *(f"{s:.5f}" for s in scores), int(converged), seconds)


# ---- all of them --------------------------------------------------------------------------------


def available(names):
    """The data sets that can be had; a line for each that cannot."""
    found = []
    for name in names:
        try:
            if name in FILES:
                datasets.load_csv(FILES[name])
            found.append(name)
        except (FileNotFoundError, cgp.errors.InputError) as error:
            print(f"{name} is left out: {error}")
    return found


def done(path):
    """The lines of the file by (data, model, seed, fold)."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["seconds"]]
    return {(r["data"], r["model"], int(r["seed"]), int(r["fold"])): r for r in rows}


def run_all(arguments, path):
    finished = done(path)
    wanted = [
        (data, model, seed, fold)
        for seed in range(1, arguments.seeds + 1)
        for data in available(arguments.data)
        for fold in range(arguments.folds)
        for model in PAPER[data]
        if arguments.models is None or model in arguments.models
    ]
    tasks = [task for task in wanted if task not in finished]
    print(f"{len(wanted)} fits, {len(wanted) - len(tasks)} of them done before: {path}")
    if not tasks:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("CHAINEDGP_NUM_THREADS", "1")
    start, new = time.perf_counter(), not path.exists()
    pool = ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn"))
    with path.open("a", newline="", encoding="utf-8") as file, pool:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        settings = (arguments.protocol, arguments.prior, arguments.free, arguments.start)
        jobs = {pool.submit(run, *settings, *task): task for task in tasks}
        for number, job in enumerate(as_completed(jobs), 1):
            if job.exception() is not None:
                print(f"{jobs[job]} failed: {job.exception()!r}", flush=True)
                continue
            row = job.result()
            writer.writerow(row)
            file.flush()
            left = (time.perf_counter() - start) / number * (len(tasks) - number)
            print(
                f"{number}/{len(tasks)}  {row[0]} {row[1]} seed {row[2]} fold {row[3]}: "
                f"NLPD {float(row[4]):.3f}, {float(row[-1]):.0f} s; about {left / 60:.0f} min left",
                flush=True,
            )


# ---- the tables ---------------------------------------------------------------------------------


def plus_minus(values):
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    form = ".2f" if abs(values.mean()) < 1e5 else ".1e"
    return f"{values.mean():{form}} ± {error:{form}}"


def render(path):
    """Markdown: each cell is ours, with the paper's figure below it."""
    scores = defaultdict(lambda: defaultdict(list))
    for row in done(path).values():
        scores[row["data"]][row["model"]].append(row)
    lines = []
    for models in (("G", "CHG", "Lt", "Vt", "CHt"), ("G", "LSurv", "VSurv", "CHSurv", "truth")):
        for score in ("nlpd", "mae"):
            rows = []
            for data in PAPER:
                if not set(PAPER[data]) <= set(models) or data not in scores:
                    continue
                found = scores[data]
                runs = max(map(len, found.values()))
                cells = [
                    cell(score, found.get(model, []), PAPER[data].get(model)) for model in models
                ]
                rows.append(f"| {data} | {runs} | " + " | ".join(cells) + " |")
            if rows:
                lines += ["", f"| {score.upper()} | runs | " + " | ".join(models) + " |"]
                lines += ["|---|---|" + "---|" * len(models), *rows]
    return "\n".join(lines[1:]) + "\n"


def cell(score, rows, paper):
    ours = plus_minus([row[score] for row in rows]) if rows else ""
    return ours if paper is None or score != "nlpd" else f"{ours} ({paper[0]:.2f} ± {paper[1]:.2f})"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Figures in brackets are the paper's."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one seed, 5 folds")
    size.add_argument("--full", action="store_true", help="10 seeds, 5 folds")
    size.add_argument("--render", action="store_true", help="only the table of what is done")
    parser.add_argument("--protocol", choices=("code", "text"), default="code")
    parser.add_argument(
        "--prior", action="store_true", help="a log-normal prior on the lengthscales, sd 1"
    )
    parser.add_argument("--free", action="store_true", help="code protocol: Z free as well")
    parser.add_argument(
        "--start",
        choices=("library", "script", "default"),
        default="library",
        help="code protocol: whose start; default: the library's own choice of everything",
    )
    parser.add_argument("--seeds", type=int, help="seeds 1, 2, …; 1, or 10 with --full")
    parser.add_argument("--data", nargs="+", choices=tuple(PAPER), metavar="NAME")
    parser.add_argument("--models", nargs="+", choices=(*LIKELIHOODS, "truth"), metavar="MODEL")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="fits at the same time")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    arguments = parser.parse_args()
    arguments.seeds = arguments.seeds or (10 if arguments.full else 1)
    arguments.folds = FOLDS if arguments.full or arguments.quick else 1
    small = [name for name in PAPER if name != "elevators10000"]
    arguments.data = arguments.data or (list(PAPER) if arguments.folds == FOLDS else small)
    if arguments.start != "library" and arguments.protocol == "text":
        parser.error(f"--start {arguments.start} belongs to --protocol code")
    suffix = "_prior" * arguments.prior + "_free" * arguments.free
    suffix += f"_{arguments.start}" * (arguments.start != "library")
    path = arguments.output / f"paper_tables_{arguments.protocol}{suffix}.csv"
    if not arguments.render:
        run_all(arguments, path)
    text = render(path)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(f"\n{text}\nIn brackets the paper's figures; ± is the standard error over the runs.")


if __name__ == "__main__":
    main()
