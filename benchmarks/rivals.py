"""Beside today's rivals: heteroscedastic fits of six libraries, and survival on published folds.

    python benchmarks/make_environments.py --only gpboost gpflow gpytorch hetgpy ngboost lifelines
    python benchmarks/rivals.py RECORD.jsonl [--folds 3] [--sets motorcycle,servo] [--limit 60]
    python benchmarks/rivals.py RECORD.jsonl --page

The first call of the script fits and scores; each (set, method, fold) is a process of its own with
one thread, and a line of RECORD.jsonl. What is there already is not run again, so that the command
may be stopped and given again. The methods of a fold run one after the other, so that their times
compare. A method that needs more seconds of the processor than the limit is not tried on later
folds of that set. The second call writes the tables and the figure of docs/rivals.md from the
record.

The tables are those of the panel (see panel_data.py), and the motorcycle data of this package.
Every library gets the same training rows and is scored on the same test rows. peers/panel_rivals.py
has each rival's model as its users write it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from make_environments import find_python
from panel import TREE, Key, Record, fitted, load
from panel_data import LEVEL, TABLES, find_folder, held_out, task_of
from panel_page import number, table, write

from chainedgp import datasets

ROOT = Path(__file__).resolve().parents[1]
MOTORCYCLE = "motorcycle"  # the one set that is not of the panel
SETS = (MOTORCYCLE, "concreteslump", "servo", "machine", "autompg", "forest", "stock", "concrete")
STUDIES = ("mgus", "whas", "uis", "metabric")
OURS = {"regression": "HetGaussian", "survival": "LogLogisticSurvival"}
RIVALS = {
    "regression": {
        "GPBoost": "gpboost",
        "GPflow": "gpflow",
        "GPyTorch": "gpytorch",
        "hetGPy": "hetgpy",
        "NGBoost": "ngboost",
    },
    "survival": {"Kaplan-Meier": "lifelines", "Cox": "lifelines"},
}
LONG = "longer than"  # how the error of a fit begins that was stopped at the limit
WORST = -0.1  # The figure leaves out learners that explain so much less than a Cox model.
CLOSE = 0.02  # nats a row: a smaller difference of two NLPDs is called a draw


def kind_of(name: str) -> str:
    return "regression" if name in SETS else "survival"


def task_for(name: str, fold: int, folder: Path) -> dict[str, np.ndarray]:
    """The task of a set of the panel, or of a tenth of the motorcycle rows."""
    if name != MOTORCYCLE:
        return task_of(name, fold, folder)
    X, y = (np.asarray(a, dtype=float) for a in datasets.motorcycle()[:2])
    rows = np.array_split(np.random.default_rng(0).permutation(len(y)), 10)[fold]
    held = np.isin(np.arange(len(y)), rows)
    return {
        "X": X[~held],
        "y": y[~held].ravel(),
        "X_new": X[held],
        "y_new": y[held].ravel(),
        "kind": np.array("regression"),
        "step": np.array(0.0),
        "levels": np.array([0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2]),
    }


def keys(names: list[str], folds: int, folder: Path) -> Iterator[Key]:
    """Sets, then folds, then methods; ten folds of regressions at most, all of the benchmark's.

    Rivals without an environment are left out.
    """
    for name in names:
        kind = kind_of(name)
        most = 10 if kind == "regression" else len(held_out(name, folder))
        for fold in range(min(folds, most)):
            for method in (OURS[kind], *RIVALS[kind]):
                peer = RIVALS[kind].get(method)
                if peer is None or find_python(peer):
                    yield name, method, fold


def waits(key: Key, record: Record) -> bool:
    """Whether a fit is still to be run: neither there, nor stopped at the limit before."""
    name, method, _ = key
    entries = [e for (n, m, _), e in record.items() if (n, m) == (name, method)]
    if any(e.get("error", "").startswith(LONG) for e in entries):
        return False
    return "error" in record.get(key, {"error": ""})


# ---- the page ------------------------------------------------------------------------------------


class Results:
    """The scores of a record, on the folds of a set that every finished method has."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def folds(self, name: str) -> list[int]:
        """The folds of our fit that all methods have, but those which have none."""
        has = [self.has(name, m) for m in (OURS[kind_of(name)], *RIVALS[kind_of(name)])]
        return sorted(set.intersection(*[folds for folds in has if folds])) if has[0] else []

    def has(self, name: str, method: str) -> set[int]:
        """The folds of a set that a method has finished."""
        return {
            fold
            for (n, m, fold), entry in self.record.items()
            if (n, m) == (name, method) and "error" not in entry
        }

    def each(self, name: str, method: str, score: str) -> np.ndarray:
        """A score in each of the set's folds; nan where the method has none."""
        entries = [self.record.get((name, method, fold), {}) for fold in self.folds(name)]
        return np.array([e[score] if e.get(score) is not None else np.nan for e in entries])

    def mean(self, name: str, method: str, score: str) -> float:
        """The mean over folds, each with its number of rows; survival scores and times plainly."""
        values = self.each(name, method, score)
        plain = kind_of(name) == "survival" or score == "processor"
        rows = None if plain else self.each(name, method, "rows")
        return float(np.average(values, weights=rows)) if len(values) else np.nan

    def stopped(self, name: str, method: str) -> bool:
        """Whether the method was stopped at the limit."""
        entries = [e for (n, m, _), e in self.record.items() if (n, m) == (name, method)]
        return any(e.get("error", "").startswith(LONG) for e in entries)

    def sets(self, kind: str) -> list[str]:
        """The sets of a kind that have results."""
        return [n for n in (SETS if kind == "regression" else STUDIES) if self.folds(n)]

    def rows(self, name: str) -> int:
        """The rows of a set."""
        return len(datasets.motorcycle()[1]) if name == MOTORCYCLE else TABLES[name].rows


def scores_table(results: Results) -> str:
    """NLPD of ours, and by how much that of each rival is above it, with its standard error."""
    lines = []
    for name in results.sets("regression"):
        ours = OURS["regression"]
        line = [name, str(results.rows(name)), str(len(results.folds(name)))]
        line.append(number(results.mean(name, ours, "nlpd"), 2))
        for rival in RIVALS["regression"]:
            gap = results.mean(name, rival, "nlpd") - results.mean(name, ours, "nlpd")
            each = results.each(name, rival, "nlpd") - results.each(name, ours, "nlpd")
            error = np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
            word = signed(gap, 2) + (f" ± {number(float(error), 2)}" if len(each) > 1 else "")
            word = f"**{word}**" if gap < -CLOSE else word
            line.append(absent(results, name, rival) or word)
        lines.append(line)
    return table(["set", "rows", "folds", "our NLPD", *RIVALS["regression"]], lines)


def absent(results: Results, name: str, rival: str) -> str:
    """What the tables say of a method without results; an empty word if it has them."""
    if results.stopped(name, rival):
        return "stopped"
    return "" if results.has(name, rival) else "failed"


def times_table(results: Results) -> str:
    """The processor time of each rival's fit over that of ours."""
    lines = []
    for name in results.sets("regression"):
        ours = results.mean(name, OURS["regression"], "processor")
        line = [name, str(results.rows(name))]
        for rival in RIVALS["regression"]:
            ratio = results.mean(name, rival, "processor") / ours
            line.append(absent(results, name, rival) or number(ratio, 1 if ratio < 10 else 0))
        lines.append(line)
    return table(["set", "rows", *RIVALS["regression"]], lines)


def coverage_table(results: Results) -> str:
    """The share of test rows inside the central 90 % interval, in percent."""
    lines = []
    for name in results.sets("regression"):
        line = [name]
        for method in (OURS["regression"], *RIVALS["regression"]):
            share = 100 * results.mean(name, method, "coverage")
            line.append(absent(results, name, method) or number(share, 0))
        lines.append(line)
    return table(["set", "ours", *RIVALS["regression"]], lines)


def tally(results: Results) -> str:
    """On how many sets ours is better, equal or worse than each rival."""
    lines = []
    for rival in RIVALS["regression"]:
        gaps, ratios = [], []
        for name in results.sets("regression"):
            if results.has(name, rival):
                ours = OURS["regression"]
                gaps.append(results.mean(name, rival, "nlpd") - results.mean(name, ours, "nlpd"))
                times = [results.mean(name, m, "processor") for m in (rival, ours)]
                ratios.append(times[0] / times[1])
        counts = [sum(g > CLOSE for g in gaps), sum(abs(g) <= CLOSE for g in gaps)]
        if gaps:
            worse, ratio = len(gaps) - sum(counts), number(float(np.median(ratios)), 1)
            lines.append([rival, *map(str, counts), str(worse), ratio])
    head = ["rival", "ours better", "draw", "rival better", "median time, times ours"]
    return table(head, lines)


def published_scores(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """{set: {score: {learner: value}}} of the benchmark, without learners that lack the score."""
    import pandas

    rows = pandas.read_csv(folder / "survival_published.csv")
    result: dict[str, dict[str, dict[str, float]]] = {}
    for name, group in rows.groupby("task_id"):
        by = group.set_index("learner_id")
        result[str(name)] = {s: by[s].dropna().to_dict() for s in ("harrell_c", "isbs_erv")}
    return result


def our_survival(results: Results, name: str, method: str) -> dict[str, float]:
    """Harrell's C, and the share of Kaplan–Meier's Brier score that a method explains."""
    base = results.mean(name, "Kaplan-Meier", "brier")
    share = 1.0 - results.mean(name, method, "brier") / base
    return {"harrell_c": results.mean(name, method, "harrell"), "isbs_erv": share}


def survival_table(results: Results, published: dict[str, dict[str, dict[str, float]]]) -> str:
    """Our gain over a Cox model on the same folds, beside the published gains over theirs."""
    lines = []
    words = {"harrell_c": "C", "isbs_erv": "explained"}
    for name in results.sets("survival"):
        ours, cox = (our_survival(results, name, m) for m in (OURS["survival"], "Cox"))
        for score, word in words.items():
            gains = published_gains(published, name, score)
            gain, best = ours[score] - cox[score], max(gains, key=gains.__getitem__)
            place = 1 + sum(value > gain for value in gains.values())
            lines.append(
                [
                    name,
                    str(len(results.folds(name))),
                    word,
                    number(ours[score]),
                    number(cox[score]),
                    signed(gain),
                    number(published[name][score]["CPH"]),
                    f"{signed(gains[best])} ({best})",
                    f"{place} of {len(gains) + 1}",
                ]
            )
    head = ["study", "folds", "score", "ours", "Cox, our folds", "our gain", "Cox, published"]
    return table([*head, "best published gain", "place"], lines)


def published_gains(
    published: dict[str, dict[str, dict[str, float]]], name: str, score: str
) -> dict[str, float]:
    """By how much the score of each published learner is above that of their Cox model."""
    scores = published[name][score]
    return {learner: value - scores["CPH"] for learner, value in scores.items()}


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign."""
    return ("+" if value > 0 else "") + number(value, digits)


def draw(results: Results, published: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    """Left: NLPD above ours against time over ours. Right: our place among published learners."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    ours = OURS["regression"]
    for place, rival in enumerate(RIVALS["regression"]):
        names = [n for n in results.sets("regression") if results.has(n, rival)]
        x = [
            results.mean(n, rival, "processor") / results.mean(n, ours, "processor") for n in names
        ]
        y = [results.mean(n, rival, "nlpd") - results.mean(n, ours, "nlpd") for n in names]
        left.plot(x, y, "os^Dv"[place], color=f"C{place}", ms=7, alpha=0.8, label=rival)
    left.axhline(0.0, color="k", lw=1)
    left.axvline(1.0, color="k", lw=1)
    left.set_xscale("log")
    left.set_yscale("symlog", linthresh=0.1)
    left.set_xlabel("processor time of the fit, times ours")
    left.set_ylabel("NLPD above ours (nats a row)")
    left.set_title("Heteroscedastic regression, one mark for each set", fontsize=10)
    left.legend(fontsize=8)
    left.margins(y=0.12)
    studies = results.sets("survival")
    for place, name in enumerate(studies):
        gains = published_gains(published, name, "isbs_erv").values()
        seen = [gain for gain in gains if gain > WORST]
        right.plot(seen, [place] * len(seen), "|", color="0.4", ms=14)
        ours, cox = (our_survival(results, name, m) for m in (OURS["survival"], "Cox"))
        right.plot(ours["isbs_erv"] - cox["isbs_erv"], place, "o", color="C0", ms=8)
    right.axvline(0.0, color="k", lw=1, label="Cox model")
    right.plot([], [], "|", color="0.4", ms=12, label="published learners")
    right.plot([], [], "o", color="C0", label="ours")
    right.set_yticks(range(len(studies)), studies)
    right.set_ylim(-0.6, len(studies) - 0.1)
    right.set_xlabel("share of the Brier score explained, above Cox (right is better)")
    right.set_title("Survival, beside a published benchmark", fontsize=10)
    right.legend(fontsize=8, loc="upper left", ncols=3, framealpha=1.0, edgecolor="none")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record", type=Path, help="a file of JSON lines, made or continued")
    parser.add_argument("--sets", default=",".join(SETS + STUDIES), help="names by commas")
    parser.add_argument("--folds", type=int, default=3, help="the first so many folds of each set")
    parser.add_argument("--limit", type=int, default=60, help="processor seconds for one fit")
    parser.add_argument("--page", action="store_true", help="run nothing, write docs/rivals.md")
    given = parser.parse_args()
    folder = find_folder()
    if given.page:
        results, published = Results(load(given.record)), published_scores(folder)
        parts = {
            "tally": tally(results),
            "scores": scores_table(results),
            "times": times_table(results),
            "coverage": coverage_table(results),
            "survival": survival_table(results, published),
        }
        write(ROOT / "docs" / "rivals.md", parts)
        draw(results, published, ROOT / "docs" / "images" / "rivals.png")
        return
    names = given.sets.split(",")
    if unknown := set(names) - set(SETS + STUDIES):
        parser.error(f"--sets: {', '.join(sorted(unknown))} not among {', '.join(SETS + STUDIES)}")
    for key in keys(names, given.folds, folder):
        if waits(key, load(given.record)):
            name, method, fold = key
            peer = RIVALS[kind_of(name)].get(method)
            task = task_for(name, fold, folder)
            entry: dict[str, Any] = {"set": name, "method": method, "fold": fold}
            entry |= fitted(task, method, peer, TREE, processor=given.limit)
            with given.record.open("a") as lines:
                lines.write(json.dumps(entry) + "\n")
            shown = ("nlpd", "coverage", "harrell", "brier", "processor", "error")
            print(*key, *[f"{s} {entry[s]}" for s in shown if s in entry], flush=True)


if __name__ == "__main__":
    main()
