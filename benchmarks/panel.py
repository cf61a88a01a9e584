"""The panel: default fits and rivals on sixteen real tables, fold by fold.

    python benchmarks/panel.py RECORD.jsonl [--sets concreteslump,servo] [--methods HetGaussian]
        [--folds 3] [--tree PATH] [--options '{"num_inducing": 50}'] [--show] [--against OLD.jsonl]

Each (set, method, fold) is a fit in a process of its own, with one thread, and a line of
RECORD.jsonl; what is there already is not run again, so that the command may be stopped and given
again, with more folds, or twice at the same time. A fit that failed is a line with "error" and is
run again. Sets go in the order of their size.

Methods: the name of any likelihood of this package is its default fit, `ChainedGP(X, y,
likelihood).optimize()`, from the source tree `--tree`, so that two trees can be compared in two
records; by default from where `import chainedgp` finds it (in a checkout set PYTHONPATH=. first).
"ours" is the default list for each kind of target; "rivals" and the names of rivals (`--methods
list` prints all) run in the environments that make_environments.py makes.

    python benchmarks/panel.py NEW.jsonl --show --against OLD.jsonl

runs nothing and prints the mean scores by set and method, and the differences from OLD on the
folds that both have: of NLPD, coverage in percent, ratios of RMSE and of processor seconds.
Scores and folds are explained in panel_data.py. Inputs and targets of our fits are as they are in
the table; rivals that need standardised inputs standardise them on the training rows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from make_environments import find_python
from panel_data import TABLES, find_folder, held_out, scores, task_of

import chainedgp

HERE = Path(__file__).resolve().parent
TREE = Path(chainedgp.__file__).resolve().parents[1]
OURS = {
    "regression": ("Gaussian", "HetGaussian", "HetStudentT"),
    "survival": ("LogLogisticSurvival",),
    "counts": ("NegativeBinomial",),
}
# Rivals by kind of target, with the environment that each runs in; peers/panel_rivals.py has them.
RIVALS = {
    "regression": {
        "NGBoost": "ngboost",
        "sklearn-GP": "sklearn",
        "boosted-mean": "sklearn",
        "GPBoost": "gpboost",
    },
    "survival": {
        "Kaplan-Meier": "lifelines",
        "Cox": "lifelines",
        "Weibull-AFT": "lifelines",
        "log-logistic-AFT": "lifelines",
        "NGBoost": "ngboost",
    },
    "counts": {"NB-GLM": "statsmodels", "NGBoost": "ngboost", "GPBoost": "gpboost"},
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Key = tuple[str, str, int]
Record = dict[Key, dict[str, Any]]


def load(path: Path) -> Record:
    """The lines of a record by (set, method, fold); of several the last one without an error."""
    record: Record = {}
    if path.exists():
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            key = entry["set"], entry["method"], entry["fold"]
            if "error" not in entry or "error" in record.get(key, entry):
                record[key] = entry
    return record


def methods_of(kind: str, asked: Iterable[str]) -> list[str]:
    """The methods for a kind of target among the names asked for."""
    names: list[str] = []
    for name in asked:
        if name == "ours":
            names += OURS[kind]
        elif name == "rivals":
            names += RIVALS[kind]
        elif name in RIVALS[kind] or likelihood_of(kind, name):
            names.append(name)
    return list(dict.fromkeys(names))


def likelihood_of(kind: str, name: str) -> bool:
    """Whether it names a likelihood of this package (of any tree) for such targets."""
    rival = any(name in known for known in RIVALS.values())
    elsewhere = any(name in known for other, known in OURS.items() if other != kind)
    survival = name.endswith("Survival") or name == "LogLogistic"
    return not rival and not elsewhere and name[:1].isupper() and survival == (kind == "survival")


def run(key: Key, folder: Path, tree: Path, options: str, limit: float) -> dict[str, Any]:
    """One fit of a set of the panel, scored."""
    name, method, fold = key
    peer = RIVALS[TABLES[name].kind].get(method)
    entry = {"set": name, "method": method, "fold": fold}
    return entry | fitted(task_of(name, fold, folder), method, peer, tree, options, limit)


def fitted(
    task: dict[str, np.ndarray],
    method: str,
    peer: str | None,
    tree: Path,
    options: str = "{}",
    limit: float = 3600.0,
    processor: int | None = None,
) -> dict[str, Any]:
    """The scores of a method on a task, fitted in a process of its own, or the error it ended in.

    peer : the environment of a rival's method; None for a likelihood of this package.
    limit, processor : seconds of the clock, and of the processor (on Unix), after which it is
    stopped.
    """
    environment = os.environ | dict.fromkeys(THREADS, "1")
    if peer is None:
        python, worker = sys.executable, "panel_ours.py"
        environment["PYTHONPATH"] = str(tree)
    else:
        python, worker, options = find_python(peer) or "", "panel_rivals.py", "{}"
        if not python:
            raise SystemExit(f"{method} needs the environment {peer}: see make_environments.py.")
    with tempfile.TemporaryDirectory() as place:
        files = [str(Path(place) / file) for file in ("task.npz", "answer.npz")]
        np.savez(files[0], **task)  # type: ignore[arg-type]
        command = [python, str(HERE / "peers" / worker), *files, method, options]
        try:
            subprocess.run(
                command,
                env=environment,
                check=True,
                capture_output=True,
                text=True,
                timeout=limit,
                preexec_fn=None if processor is None else partial(allow, processor),
            )
        except subprocess.TimeoutExpired:
            return {"error": f"longer than {limit:g} seconds"}
        except subprocess.CalledProcessError as failure:
            if processor and failure.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                return {"error": f"longer than {processor} seconds of the processor"}
            return {"error": failure.stderr.strip()[-600:]}
        with np.load(files[1]) as arrays:
            answer = dict(arrays)
    try:
        return scores(task, answer) | json.loads(str(answer["facts"]))
    except ValueError as failure:  # The answer has NaN.
        return {"error": str(failure)}


def allow(seconds: int) -> None:
    """Let this process have so many seconds of the processor."""
    import resource  # Windows does not have it.

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def compare(new: Record, old: Record | None) -> list[str]:
    """Mean scores by set and method, and beside them the differences on folds of both records."""
    groups = defaultdict(list)
    for key, entry in new.items():
        if "error" not in entry and (old is None or "error" not in old.get(key, {"error": ""})):
            groups[key[:2]].append(key)
    lines = [f"{'set':14}{'method':22}{'folds':>5}{'nlpd':>9}{'interval':>9}{'cover':>7}"]
    lines[0] += f"{'rmse':>9}{'C':>7}{'brier':>7}{'cpu s':>7}{'stopped':>8}"
    if old is not None:
        lines[0] += " |" + "".join(f"{word:>9}" for word in ("Δnlpd", "Δinterv", "Δcover"))
        lines[0] += "".join(f"{word:>8}" for word in ("rmse÷", "ΔC", "Δbrier", "cpu÷"))
    for (name, method), keys in sorted(groups.items(), key=lambda item: order_of(item[0])):

        def mean(record: Record, score: str, keys: list[Key] = keys) -> float:
            values = [record[key].get(score) for key in keys]
            return float(np.mean([np.nan if value is None else value for value in values]))

        line = f"{name:14}{method:22}{len(keys):5}{mean(new, 'nlpd'):9.3f}"
        line += f"{mean(new, 'interval_nlpd'):9.3f}{100 * mean(new, 'coverage'):7.1f}"
        line += f"{mean(new, 'rmse'):9.4g}{mean(new, 'harrell'):7.3f}{mean(new, 'brier'):7.3f}"
        stopped = sum(not new[key].get("converged", True) for key in keys)
        line += f"{mean(new, 'processor'):7.1f}{stopped:8}"
        if old is not None:
            shift = {
                score: mean(new, score) - mean(old, score)
                for score in ("nlpd", "interval_nlpd", "coverage", "harrell", "brier")
            }
            ratio = {score: mean(new, score) / mean(old, score) for score in ("rmse", "processor")}
            line += f" |{shift['nlpd']:+9.3f}{shift['interval_nlpd']:+9.3f}"
            line += f"{100 * shift['coverage']:+9.1f}{ratio['rmse']:8.3f}{shift['harrell']:+8.3f}"
            line += f"{shift['brier']:+8.3f}{ratio['processor']:8.2f}"
        lines.append(line.replace("+nan", " nan").replace("nan", "  –"))
    return lines


def order_of(group: tuple[str, str]) -> tuple[int, str]:
    return list(TABLES).index(group[0]), group[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record", type=Path, help="a file of JSON lines, made or continued")
    parser.add_argument("--sets", default=",".join(TABLES), help="names by commas; default: all")
    parser.add_argument("--methods", default="ours", help="names by commas, ours, rivals, list")
    parser.add_argument("--folds", type=int, default=3, help="the first so many folds of each set")
    parser.add_argument("--tree", type=Path, default=TREE, help="a source tree of this package")
    parser.add_argument("--options", default="{}", help="keyword arguments of ChainedGP as JSON")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one fit")
    parser.add_argument("--show", action="store_true", help="run nothing, print the record's means")
    parser.add_argument("--against", type=Path, help="with --show: another record to compare with")
    given = parser.parse_args()
    if given.methods == "list":
        print(json.dumps({"ours": OURS, "rivals": RIVALS}, indent=1))
        return
    if given.show:
        print("\n".join(compare(load(given.record), given.against and load(given.against))))
        return
    names = given.sets.split(",")
    if unknown := set(names) - set(TABLES):
        parser.error(f"--sets: {', '.join(sorted(unknown))} not among {', '.join(TABLES)}")
    if not (given.tree / "chainedgp").is_dir():
        parser.error(f"--tree: {given.tree} has no folder chainedgp")
    json.loads(given.options)
    folder = find_folder()
    given.record.parent.mkdir(parents=True, exist_ok=True)
    for name in sorted(names, key=list(TABLES).index):
        kind = TABLES[name].kind
        for fold in range(min(given.folds, len(held_out(name, folder)))):
            for method in methods_of(kind, given.methods.split(",")):
                key = name, method, fold
                if "error" in load(given.record).get(key, {"error": ""}):
                    tree = given.tree.resolve()
                    entry = run(key, folder, tree, given.options, given.limit)
                    with given.record.open("a") as lines:
                        lines.write(json.dumps(entry) + "\n")
                    shown = ("nlpd", "coverage", "rmse", "harrell", "brier", "processor", "error")
                    print(*key, *[f"{s} {entry[s]}" for s in shown if s in entry], flush=True)


if __name__ == "__main__":
    main()
