"""chainedgp against GPflow, GPyTorch and GPy: time, memory and growth on the same workloads.

    python benchmarks/run_peers.py [--threads 2] [--rounds 5] [--quick] [--fit 60] [--output FOLDER]

Makes the peers' environments where there are none (see make_environments.py; --folder says where,
CHAINEDGP_<PEER>_PYTHON names an interpreter that is ready). Every library runs in a process of its
own with the same number of threads; rounds of all libraries alternate, and the least time counts.
Writes peers.csv, peers.md and peers.png; exits with 1 if a bar below is missed or bounds disagree.
GPflow's HetGaussian is timed with its own 20 × 20 grid and, as "gpflow closed", with the closed
form written for it; GPyTorch has the closed form. HetStudentT: theirs on a 20 × 20 grid, ours exact
in f. --fit races to a bound (problem P), with so many seconds for each of their optimisers.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from make_environments import DEFAULT, HERE, find_python, make
from workloads import NU, make_model

SECONDS = 0.5  # of evaluations in each round, for every library
AGREE = 1e-6  # relative difference of bounds of the same model
BARS = {  # (likelihood, n, M) -> times faster than GPflow and GPyTorch
    ("HetGaussian", 1000, 100): (5, 3),
    ("HetGaussian", 10_000, 100): (5, 3),
    ("HetGaussian", 1000, 500): (2, 2),
    ("HetStudentT", 1000, 100): (10, 8),
    ("HetStudentT", 10_000, 100): (10, 8),
    ("HetStudentT", 1000, 500): (2, 2),
}
LOOKS = {  # in figures: name and colour
    "ours": ("chainedgp", "C0"),
    "gpflow": ("GPflow", "C1"),
    "gpflow closed": ("GPflow, closed form", "C2"),
    "gpytorch": ("GPyTorch", "C3"),
}
MODULES = {"ours": "chainedgp", "gpflow": "gpflow", "gpytorch": "gpytorch", "gpy": "GPy"}


Row = dict[str, Any]


class Case(NamedTuple):
    """One workload; nodes of the peers' grid, and ours (0: chosen for every row)."""

    likelihood: str
    n: int
    M: int
    D: int = 18
    nodes: int = 20
    our_nodes: int = 0


GROWTH = {
    "N": [Case("HetGaussian", n, 100) for n in (1000, 10_000, 100_000)],
    "M": [Case("HetGaussian", 2000, M) for M in (50, 100, 200, 400)],
    "D": [Case("HetGaussian", 2000, 100, D) for D in (2, 8, 18, 32)],
    "nodes": [Case("HetStudentT", 1000, 100, 18, h, h) for h in (8, 20, 32)],
}
ONE_LATENT = [Case("Gaussian", n, 100) for n in (1000, 10_000)]


class Worker:
    """A library in a process of its own."""

    def __init__(self, name: str, python: str, threads: int) -> None:
        self.name = name
        count = str(threads)
        limits = {f"{kind}_NUM_THREADS": count for kind in ("OMP", "OPENBLAS", "MKL")}
        script = HERE / "peers" / f"{name.split()[0]}_worker.py"
        self.process = subprocess.Popen(
            [python, str(script), count],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **limits, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def ask(self, path: Path, seconds: float = SECONDS) -> dict[str, float]:
        """Least times of so many seconds' evaluations; bound and memory too of a new model."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker talks through pipes")
        self.process.stdin.write(json.dumps({"model": str(path), "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended unexpectedly on {path.name}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def write_model(case: Case, path: Path) -> dict[str, object]:
    """The workload as plain arrays in an npz file."""
    one = case.likelihood == "Gaussian"
    model = make_model("HetGaussian" if one else case.likelihood, *case[1:4])
    b = slice(0, 1) if one else slice(None)
    q_sqrt = np.zeros((2, case.M, case.M))
    q_sqrt[:, *np.tril_indices(case.M)] = model.q_sqrt.values.T
    arrays: dict[str, object] = {
        "X": model.X,
        "y": model.Y[:, 0],
        "Z": model.Z.values,
        "q_mu": model.q_mu.values[:, b],
        "q_sqrt": q_sqrt[b],
        "variance": np.array([float(k.variance[0]) for k in model.kernels])[b],
        "lengthscale": np.array([k.lengthscale.values for k in model.kernels])[b],
        "bias": np.zeros(2)[b],
        "mean": np.array([float(mean.value[0]) for mean in model.mean_functions])[b],
        "likelihood": case.likelihood,
        "jitter": model.jitter,
        "nodes": case.nodes,
        "our_nodes": case.our_nodes,
    }
    if case.likelihood == "HetStudentT":
        arrays["nu"] = NU
    if one:
        arrays["scale2"] = 0.3
    np.savez(path, **arrays)
    return arrays


def measure(case: Case, workers: list[Worker], rounds: int, folder: Path) -> list[Row]:
    """One row per library: bound, least times over alternating rounds, memory."""
    files = {kind: Path(folder, f"{kind} {case}.npz") for kind in ("plain", "closed", "exact")}
    arrays = write_model(case, files["plain"])
    np.savez(files["closed"], **{**arrays, "nodes": 0})
    np.savez(files["exact"], **{**arrays, "our_nodes": 64})
    reference = workers[0].ask(files["exact"], 0.0)["bound"]
    rows: dict[str, Row] = {}
    for turn in range(rounds):
        for worker in workers:
            file = files["closed" if worker.name.endswith("closed") else "plain"]
            answer = worker.ask(file)
            if turn == 0:
                error = abs(answer["bound"] / reference - 1.0)
                rows[worker.name] = {**case._asdict(), "library": worker.name, **answer}
                rows[worker.name]["relative error"] = error
            for key in ("wall", "processor"):
                rows[worker.name][key] = min(rows[worker.name][key], answer[key])
    for file in files.values():
        file.unlink()
    for row in rows.values():
        print(
            "  "
            + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()),
            flush=True,
        )
    return list(rows.values())


def import_seconds(python: str, module: str, repeat: int = 5) -> float:
    """Least seconds to import a module in a new process, that of an empty one taken off."""
    code = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"
    command = [python, "-c", code.format(module)]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
        for _ in range(repeat)
    ]
    return min(float(run.stdout.split()[-1]) for run in runs)


def judge(rows: list[Row], kind: str) -> tuple[list[str], bool]:
    """Ratios at the workloads that have bars, as lines of a table, and whether all are met."""
    lines = [
        "| likelihood | n | M | peer | ours ms | peer's ms | times faster | bar | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    met = True
    for (likelihood, n, M), bars in BARS.items():
        found = {
            r["library"]: r
            for r in rows
            if (r["likelihood"], r["n"], r["M"], r["D"]) == (likelihood, n, M, 18)
            and not r["our_nodes"]
        }
        for peer, bar in zip(("gpflow", "gpytorch"), bars, strict=True):
            for name in (name for name in found if name.split()[0] == peer):
                ours, theirs = 1e3 * found["ours"][kind], 1e3 * found[name][kind]
                ok = theirs >= bar * ours or name.endswith("closed")  # shown, without a bar
                met &= ok
                verdict = "" if name.endswith("closed") else ("met" if ok else "MISSED")
                shown = "" if name.endswith("closed") else bar
                lines.append(
                    f"| {likelihood} | {n} | {M} | {name} | {ours:.1f} | {theirs:.1f} | "
                    f"{theirs / ours:.1f} | {shown} | {verdict} |"
                )
    return lines, met


def disagreements(rows: list[Row]) -> list[str]:
    """Rows of the same model (a closed expectation on both sides) whose bounds differ."""
    return [
        f"{r['library']}: {r['likelihood']} n = {r['n']}, M = {r['M']}, D = {r['D']}: bound "
        f"{r['bound']} is off by {r['relative error']:.1e}"
        for r in rows
        if r["likelihood"] != "HetStudentT" and not r["relative error"] < AGREE
    ]


def draw(rows: list[Row], kind: str, path: Path) -> None:
    """Time against N, M, D and nodes, and memory against N, one line for each library."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    panels = [  # key, group, value, and what the others are there
        ("n", "N", kind, "M = 100, D = 18"),
        ("M", "M", kind, "N = 2,000, D = 18"),
        ("D", "D", kind, "N = 2,000, M = 100"),
        ("nodes", "nodes", kind, "HetStudentT, N = 1,000"),
        ("n", "N", "memory", "M = 100, D = 18"),
    ]
    labels = {
        "n": "rows N",
        "M": "inducing inputs M",
        "D": "inputs D",
        "nodes": "nodes a dimension",
    }
    figure, grid = plt.subplots(2, 3, figsize=(9.5, 5.4), layout="constrained")
    axes = grid.ravel()
    for axis, (key, group, value, title) in zip(axes[:5], panels, strict=True):
        wanted = {tuple(case) for case in GROWTH[group]}
        chosen = [r for r in rows if tuple(r[field] for field in Case._fields) in wanted]
        for name, (label, color) in LOOKS.items():
            points = sorted((r[key], r[value]) for r in chosen if r["library"] == name)
            if points:
                x, y = np.transpose(points)
                scale = 1.0 if value == "memory" else 1e3
                axis.loglog(x, scale * y, "o-", label=label, color=color, markersize=4)
        ticks = sorted({r[key] for r in chosen})
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0), numticks=20))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
        axis.set_xlabel(labels[key])
        axis.set_ylabel("memory added, MB" if value == "memory" else f"{kind} time, ms")
        axis.set_title(title, fontsize="medium")
        axis.spines[["top", "right"]].set_visible(False)
    axes[5].axis("off")
    axes[5].legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.savefig(path, dpi=150)


def run(pythons: dict[str, str], options: argparse.Namespace) -> list[Row]:
    """All workloads on all libraries."""
    names = ["ours", "gpflow", "gpflow closed", "gpytorch"]
    cases = [Case(*key) for key in BARS]
    if not options.quick:
        cases += [case for group in GROWTH.values() for case in group]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for group, libraries in ((cases, names), (ONE_LATENT, ["ours", "gpy"])):
            workers = [
                Worker(name, pythons[name.split()[0]], options.threads)
                for name in libraries
                if name.split()[0] in pythons
            ]
            for case in dict.fromkeys(group):
                closed = case.likelihood != "HetStudentT"
                able = [w for w in workers if closed or not w.name.endswith("closed")]
                rows += measure(case, able, options.rounds, Path(folder))
            for worker in workers:
                worker.close()
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the workloads with bars alone")
    parser.add_argument("--fit", type=float, metavar="SECONDS", help="race to a bound too")
    parser.add_argument("--folder", type=Path, default=DEFAULT, help="of the environments")
    parser.add_argument("--output", type=Path, default=HERE.parent / "results")
    parser.add_argument(
        "--kind",
        choices=("wall", "processor"),
        default="wall",
        help="the time that counts; processor where other work disturbs",
    )
    options = parser.parse_args(arguments)
    pythons = {"ours": sys.executable}
    for peer in list(MODULES)[1:]:
        pythons[peer] = find_python(peer) or str(make(peer, options.folder))
    rows = run(pythons, options)
    lines, met = judge(rows, options.kind)
    lines += ["", "| library | import, s |", "|---|---|"]
    for name, python in pythons.items():
        lines.append(f"| {name} | {import_seconds(python, MODULES[name]):.2f} |")
    wrong = disagreements(rows)
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "peers.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    (options.output / "peers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not options.quick:
        draw(rows, options.kind, options.output / "peers.png")
    print("\n".join([*lines, *wrong, f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"]))
    if options.fit:
        from problem_p import report_race

        met &= all(
            [
                report_race(name, pythons["gpflow"], options.fit, 20)
                for name in ("HetGaussian", "HetStudentT")
            ]
        )
    return int(bool(wrong) or not met)


if __name__ == "__main__":
    raise SystemExit(main())
