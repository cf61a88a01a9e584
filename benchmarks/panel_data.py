"""The tables of the panel: where they lie, their kinds, their folds, and the scores of predictions.

The folder is `panel` in the folder that CHAINEDGP_DATA names, else in `../shared/data` beside the
checkout; its README describes the tables. Inputs are numbers as they are in the table; a column of
words becomes 0 and 1, one column for each word (a single column if there are two words).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chainedgp import metrics

ROOT = Path(__file__).resolve().parents[1]
MANY = 3000  # From so many rows on there are 5 folds, below 10.
HORIZON = 0.8  # Brier scores are integrated up to this quantile of the test rows' times.
GRID = 200  # At most so many times are used for the integral.
LEVEL = 0.9  # of the intervals whose coverage and width are scored


@dataclass(frozen=True)
class Table:
    """A set of the panel: its file, kind, number of rows and, on a lattice, the target's step."""

    file: str
    kind: str
    rows: int
    target: str = "y"
    step: float = 0.0
    tuned: bool = True  # whether defaults were chosen with an eye on it


# In the order of their size. A step is the least difference of the targets where these are
# multiples of one number; machine, forest, stock, pendulum and skillcraft are not.
TABLES = {
    "concreteslump": Table("concreteslump.csv.gz", "regression", 103, step=0.1),
    "servo": Table("servo.csv.gz", "regression", 167, step=0.005),
    "mgus": Table("mgus.csv", "survival", 176, "time"),
    "machine": Table("machine.csv.gz", "regression", 209),
    "autompg": Table("autompg.csv.gz", "regression", 392, step=0.1),
    "whas": Table("whas.csv", "survival", 481, "time"),
    "forest": Table("forest.csv.gz", "regression", 517),
    "stock": Table("stock.csv.gz", "regression", 536),
    "uis": Table("uis.csv", "survival", 575, "time"),
    "pendulum": Table("pendulum.csv.gz", "regression", 630),
    "biochemists": Table("biochemists.csv", "counts", 915, "art", tuned=False),
    "concrete": Table("concrete.csv.gz", "regression", 1030, step=0.01),
    "airfoil": Table("airfoil.csv.gz", "regression", 1503, step=0.001),
    "metabric": Table("metabric.csv", "survival", 1903, "time", tuned=False),
    "skillcraft": Table("skillcraft.csv.gz", "regression", 3338, tuned=False),
    "nmes1988": Table("nmes1988.csv.gz", "counts", 4406, "visits", tuned=False),
}


def find_folder() -> Path:
    """The folder of the panel, or an end with a word on what to do."""
    places = [Path(value) for value in [os.environ.get("CHAINEDGP_DATA")] if value]
    places.append(ROOT.parent / "shared" / "data")
    for place in places:
        if (place / "panel").is_dir():
            return place / "panel"
    raise SystemExit(
        "The tables of the panel are not part of this package. Set CHAINEDGP_DATA to a folder that "
        f"has them in panel/; looked in {', '.join(map(str, places))}."
    )


def read(name: str, folder: Path) -> dict[str, np.ndarray]:
    """X (n, D), y (n,) and, for survival, censored (n,) of a set."""
    import pandas

    table, rows = TABLES[name], pandas.read_csv(folder / TABLES[name].file)
    seen = rows.pop("status") if table.kind == "survival" else None
    y = rows.pop(table.target).to_numpy(float)
    columns = []
    for column in rows:
        values = rows[column]
        if pandas.api.types.is_numeric_dtype(values):
            columns.append(values.to_numpy(float))
        else:
            words = sorted(values.unique())
            columns += [(values == word).to_numpy(float) for word in words[len(words) == 2 :]]
    arrays = {"X": np.stack(columns, axis=1), "y": y}
    if seen is not None:
        arrays["censored"] = 1.0 - seen.to_numpy(float)
    return arrays


def held_out(name: str, folder: Path) -> list[np.ndarray]:
    """The test rows of every fold; the benchmark's own for survival."""
    table = TABLES[name]
    if table.kind == "survival":
        import pandas

        folds = pandas.read_csv(folder / "survival_folds.csv.gz")
        own = folds[folds["set"] == name].groupby("iteration")["row"]
        return [rows.to_numpy() for _, rows in own]
    order = np.random.default_rng(0).permutation(table.rows)
    return np.array_split(order, 5 if table.rows >= MANY else 10)


def task_of(name: str, fold: int, folder: Path) -> dict[str, np.ndarray]:
    """What a method is given: training rows, the inputs of test rows, and where to evaluate."""
    arrays, rows = read(name, folder), held_out(name, folder)[fold]
    held = np.zeros(len(arrays["y"]), dtype=bool)
    held[rows] = True
    task = {key: value[~held] for key, value in arrays.items()}
    task |= {f"{key}_new": value[held] for key, value in arrays.items()}
    task["kind"] = np.array(TABLES[name].kind)
    task["step"] = np.array(TABLES[name].step)
    task["levels"] = np.array([0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2])
    if "censored" in arrays:
        times = np.unique(arrays["y"][held])
        times = times[times <= np.quantile(arrays["y"][held], HORIZON)]
        task["times"] = times[np.unique(np.linspace(0, len(times) - 1, GRID).astype(int))]
    return task


def scores(task: dict[str, np.ndarray], answer: dict[str, np.ndarray]) -> dict[str, Any]:
    """The scores of an answer, whose arrays are explained in peers/panel_answer.py.

    nlpd: −mean log p(y); interval_nlpd: −mean log(P(y ± step/2)/step) where there is a step;
    coverage: share of rows inside the central interval of LEVEL, where a censored row or a count
    has the share of [F(y⁻), F(y)] that is inside; width: of that interval, mean; rmse of the mean;
    harrell: Harrell's C of −median; brier: Graf's score, integrated up to the HORIZON.
    """
    y = task["y_new"]
    result: dict[str, Any] = {"rows": len(y)}
    if "log_density" in answer:
        result["nlpd"] = -float(np.mean(answer["log_density"]))
        result["worst"] = -float(np.min(answer["log_density"]))
    if "log_interval" in answer:
        result["interval_nlpd"] = -float(np.mean(answer["log_interval"]))
    result["coverage"] = float(np.mean(inside(answer["below"], answer["upto"])))
    lower, _, upper = answer["quantiles"].T
    with np.errstate(invalid="ignore"):  # Both may be ∞ where a curve never falls to a level.
        result["width"] = float(np.mean(upper - lower))
    if "mean" in answer:
        result["rmse"] = metrics.rmse(answer["mean"], y)
    if "censored" in task:
        seen = y, task["censored_new"]
        train = task["y"], task["censored"]
        result["harrell"] = metrics.concordance_harrell(answer["risk"], *seen)
        curves = answer["survival"], task["times"]
        result["brier"] = metrics.integrated_brier_score(*curves, *seen, train=train)
    return {key: value if np.isfinite(value) else None for key, value in result.items()}


def inside(below: np.ndarray, upto: np.ndarray) -> np.ndarray:
    """The share of [F(y⁻), F(y)] between the ends of the central interval; 0 or 1 for a point."""
    low, high = 0.5 - LEVEL / 2, 0.5 + LEVEL / 2
    point = ((upto >= low) & (upto <= high)).astype(float)
    shared = np.clip(upto, low, high) - np.clip(below, low, high)
    return np.divide(shared, upto - below, out=point, where=upto > below)
