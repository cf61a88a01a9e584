"""Starts that hurt others: is a default fit no worse than constant latents, and never NaN?

    python benchmarks/hard_starts.py [LIKELIHOOD …] [--jobs 2] [--output FILE.md]

120 rows with two inputs, spoilt in one way each: inputs scaled by 1e6, targets by 1e-6 and 1e6,
every row three times, constant targets, one row, more inducing inputs than rows, a constant input
column, outliers of 1e4 standard deviations. An entry is the mean log predictive density of the
fit minus that of constant latents (maximum likelihood), on the rows fitted and, after the slash, on
100 fresh rows spoilt in the same way but without outliers. The bar is on the rows fitted:
≥ −0.01 per row. For one row and for constant targets of a continuous density, whose maximum
likelihood is infinite, it is that all figures are finite. Exits with 1 on a miss.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from simulated_sets import CASES, gp_draw

from chainedgp import ChainedGP
from chainedgp.errors import ChainedGPWarning, InputError

N, FRESH = 120, 100
SLACK = 0.01
DISCRETE = ("counts", "binary", "categories")
STARTS = (
    "as it is",
    "X × 1e6",
    "y × 1e-6",
    "y × 1e6",
    "duplicates",
    "constant y",
    "N = 1",
    "M > N",
    "constant column",
    "outliers",
)


def spoil(start: str, support: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Rows spoilt in one way, or None where that is outside the support."""
    scales = {"y × 1e-6": 1e-6, "y × 1e6": 1e6}
    if start == "X × 1e6":
        return X * 1e6, y
    if start in scales:
        whole = support == "counts" and scales[start] > 1.0
        return (X, y * scales[start]) if support in ("real", "positive") or whole else None
    if start == "duplicates":
        rows = np.arange(len(y)) // 3 * 3
        return X[rows], y[rows]
    if start == "constant y":
        return X, np.full_like(y, y[0])
    if start == "constant column":
        return np.column_stack([X[:, 0], np.full(len(y), 3.0)]), y
    return X, y


def add_outliers(support: str, y: np.ndarray) -> np.ndarray | None:
    """Every 40th target far out: 1e4 standard deviations."""
    if support not in ("real", "positive", "counts"):
        return None
    y, far = y.copy(), 1e4 * y.std()
    y[::40] += np.round(far) if support == "counts" else far
    return y


def run(name: str, start: str) -> dict[str, Any] | None:
    """Scores of one fit; None where the start does not apply."""
    warnings.simplefilter("ignore", ChainedGPWarning)
    case, rng = CASES[name], np.random.default_rng(7)
    truth = case.make(**case.parameters)
    X = rng.uniform(size=(N + FRESH, 2))
    latents = [mean + sd * gp_draw(X, 0.4 * f, rng) for mean, sd, f in case.latents]
    y = np.asarray(truth.sample(rng, *latents, **truth.parameter_values()), dtype=float)
    spoilt = spoil(start, truth.support, X, y)
    if spoilt is None:
        return None
    (X, y), rows = spoilt, slice(0, 1 if start == "N = 1" else N)
    fitted = y[rows]
    if start == "outliers":
        fitted = add_outliers(truth.support, fitted)
        if fitted is None:
            return None
    arguments = {"Z": rng.uniform(size=(200, 2))} if start == "M > N" else {}
    row: dict[str, Any] = {"name": name, "start": start, "note": ""}
    try:
        model = ChainedGP(X[rows], fitted, case.make(), num_threads=1, **arguments)
        result = model.optimize(messages=False)
        row["note"] = "" if result.converged else result.reason
        parameters = case.make()
        first = parameters.initial_parameters(fitted, **parameters.parameter_values())
        kw = {**parameters.parameter_values(), **first}
        constants = parameters.initial_latents(fitted, **kw)
        # after one row the density of others is one of 1e18 standard deviations: slow
        fresh = slice(N, N + 2 if start == "N = 1" else None)
        for key, at, target in (("fitted", X[rows], fitted), ("fresh", X[fresh], y[fresh])):
            score = model.log_predictive_density(at, target).mean()
            flat = [np.full(len(target), value) for value in constants]
            row[key] = float(score), float(parameters.log_density(target, *flat, **kw).mean())
    except InputError as error:
        row["note"] = f"InputError: {error}"
    except Exception as error:  # a benchmark of failures: every one is a row of the table
        row["note"] = f"{type(error).__name__}: {error}"
    degenerate = start == "N = 1" or (start == "constant y" and truth.support not in DISCRETE)
    scores = np.array([row.get("fitted", (np.nan, np.nan)), row.get("fresh", (np.nan, np.nan))])
    row["met"] = bool(np.isfinite(scores[:, 0]).all()) and (
        degenerate or bool(scores[0, 0] >= scores[0, 1] - SLACK)
    )
    row["entry"] = (
        "error"
        if np.isnan(scores).any()
        else " / ".join(f"{fit - flat:+.2f}" for fit, flat in scores)
    )
    return row


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", metavar="likelihood", help=", ".join(CASES))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--output", type=Path, help="write the table there")
    options = parser.parse_args(arguments)
    names = [
        name for name in CASES if not options.likelihoods or name.split()[0] in options.likelihoods
    ]
    tasks = [(name, start) for name in names for start in STARTS]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = []
        for row in pool.map(run, *zip(*tasks, strict=True)):
            rows.append(row)
            if row is not None:
                print(f"{row['name']}, {row['start']}: {row['entry']}", file=sys.stderr, flush=True)
    entries = {task: row for task, row in zip(tasks, rows, strict=True)}
    lines = ["| likelihood | " + " | ".join(STARTS) + " |", "|---" * (len(STARTS) + 1) + "|"]
    for name in names:
        shown = [entries[name, start] for start in STARTS]
        cells = [
            "–" if r is None else r["entry"] + ("" if r["met"] else " **miss**") for r in shown
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    noted = [
        f"- {r['name']}, {r['start']}: {r['note'] or 'worse than constant latents'}"
        for r in rows
        if r is not None and (r["note"] or not r["met"])
    ]
    text = "\n".join(lines) + "\n\nMisses and notes:\n\n" + ("\n".join(noted) or "none") + "\n"
    print(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return int(not all(row is None or row["met"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
