"""Do the tests notice? Small faults are put into the numerical core, one at a time.

    python benchmarks/mutation_testing.py [--sample 200] [--seed 0] [--jobs 2] [--only PART]
        [--record FILE.jsonl] [--output FILE.md]

A mutant is the package with one operator exchanged (+ and −, * and /, < and >=, and and or), one
minus sign dropped, one number changed by 1 or one truth value turned. Messages, annotations,
docstrings and constants in capitals are left alone. The tests of the module run until the first
failure, in a copy of the package: a mutant is killed by a failure, an error or by running out of
time. Survivors are listed with their lines; some of them change nothing (the rows of a block, say).
The bar is 90 % killed. Exits with 1 below it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BAR, SECONDS = 0.9, 240
TESTS = {  # part of the package: folders and files of its tests, the fastest first
    "expectations/quadrature.py": ["expectations/test_quadrature.py", "expectations"],
    "expectations/reduced.py": ["expectations", "likelihoods/test_family.py"],
    "posterior/sparse.py": ["posterior"],
    "posterior/gaussian.py": ["posterior", "inference/test_inner_loop.py"],
    "posterior/evaluator.py": ["posterior", "inference/test_inner_loop.py"],
    "posterior/shards.py": ["posterior", "inference"],
    "inference/natural_gradients.py": ["inference"],
    "likelihoods/": ["likelihoods", "contracts", "expectations", "predictive"],
}
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.MatMult: ast.Add,
}


class Mutant(NamedTuple):
    """One fault: the k-th place of a module where one can be made."""

    module: str
    place: int
    line: int
    change: str


def skipped(node: ast.AST) -> bool:
    """Whether faults inside this node say nothing about the numbers."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id.isupper() or node.targets[0].id == "__all__"
    return False


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that can be changed, always in the same order, and what would be changed."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or skipped(node):
                continue
            if change := described(node):
                yield node, change
            yield from places(node)


def described(node: ast.AST) -> str:
    """What the fault at this node is; empty where there is none."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        return "" if text else f"{type(node.op).__name__} → {SWAPS[type(node.op)].__name__}"
    if isinstance(node, ast.AugAssign) and type(node.op) in SWAPS:
        return f"{type(node.op).__name__}= → {SWAPS[type(node.op)].__name__}="
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        return f"{type(node.ops[0]).__name__} → {SWAPS[type(node.ops[0])].__name__}"
    if isinstance(node, ast.BoolOp):
        return f"{type(node.op).__name__} → {SWAPS[type(node.op)].__name__}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return f"{type(node.op).__name__} dropped"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return f"{node.value} → {not node.value}"
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return f"{node.value} → {node.value + 1}"
    return ""


def change(node: Any) -> None:
    """Make the fault, in place."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()  # not(x) becomes +x, true where it was false
    elif isinstance(node.value, bool):
        node.value = not node.value
    else:
        node.value += 1


def sources(part: str) -> list[Path]:
    path = ROOT / "chainedgp" / part
    return [path] if path.is_file() else sorted(path.glob("*.py"))


def all_mutants(parts: list[str]) -> list[Mutant]:
    """Every fault of these parts."""
    found = []
    for part in parts:
        for path in sources(part):
            module = path.relative_to(ROOT / "chainedgp").as_posix()
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for place, (node, what) in enumerate(places(tree)):
                found.append(Mutant(module, place, node.lineno, what))
    return found


def mutated(mutant: Mutant) -> str:
    """Source of the module with its fault."""
    path = ROOT / "chainedgp" / mutant.module
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = next(n for k, (n, _) in enumerate(places(tree)) if k == mutant.place)
    change(node)
    return ast.unparse(ast.fix_missing_locations(copy.copy(tree)))


def tests_of(module: str) -> list[str]:
    part = next(part for part in TESTS if module.startswith(part))
    return [f"tests/{name}" for name in TESTS[part]]


def survives(mutant: Mutant) -> bool:
    """Whether the module's tests pass all the same."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("chainedgp", "tests", "benchmarks", "docs", "examples"):
            shutil.copytree(
                ROOT / name,
                Path(folder, name),
                ignore=shutil.ignore_patterns("__pycache__", "_build"),
            )
        for name in ("pyproject.toml", "setup.py", "README.md"):
            shutil.copy(ROOT / name, folder)
        Path(folder, "chainedgp", mutant.module).write_text(mutated(mutant), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": folder, "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                [*command, *tests_of(mutant.module)],
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def table(records: list[dict[str, Any]]) -> tuple[str, float]:
    """Killed and alive by module, the survivors, and the share killed."""
    lines = ["| module | mutants | killed |", "|---|---|---|"]
    for module in sorted({r["module"] for r in records}):
        own = [r for r in records if r["module"] == module]
        lines.append(f"| {module} | {len(own)} | {sum(not r['survives'] for r in own)} |")
    killed = sum(not r["survives"] for r in records)
    share = killed / max(1, len(records))
    lines += [f"| all | {len(records)} | {killed} ({100 * share:.0f} %) |", "", "Survivors:", ""]
    for r in sorted((r for r in records if r["survives"]), key=lambda r: (r["module"], r["line"])):
        lines.append(f"- {r['module']}, line {r['line']}: {r['change']}: `{r['text']}`")
    return "\n".join(lines), share


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=TESTS, help="one part of the package")
    parser.add_argument("--record", type=Path, help="a file that keeps what is done")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    mutants = all_mutants([options.only] if options.only else list(TESTS))
    chosen = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    records = []
    if options.record and options.record.exists():
        records = [json.loads(line) for line in options.record.read_text().splitlines()]
    done = {(r["module"], r["place"]) for r in records}
    todo = [m for m in chosen if (m.module, m.place) not in done]
    print(
        f"{len(mutants)} faults are possible, {len(chosen)} chosen, {len(todo)} to do", flush=True
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, alive in zip(todo, pool.map(survives, todo), strict=True):
            text = (ROOT / "chainedgp" / mutant.module).read_text(encoding="utf-8").splitlines()
            record = {**mutant._asdict(), "survives": alive, "text": text[mutant.line - 1].strip()}
            records.append(record)
            if options.record:
                with options.record.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            print(("ALIVE " if alive else "killed"), *mutant, flush=True)
    text, share = table(records)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    return int(share < BAR)


if __name__ == "__main__":
    raise SystemExit(main())
