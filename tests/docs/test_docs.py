"""Every ```python block of README.md and docs/*.md runs: blocks of a page in order, one namespace.

A block that opens with ```python no-run is left out. A ```text block right after a block that runs
is what that one prints.
"""

import ast
import contextlib
import io
import re
import sys
from types import ModuleType

import matplotlib
import pytest
from paths import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(.*?)\n(.*?)^```\s*?$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"\s*^```text\n(.*?)^```\s*?$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def blocks(text):
    """(line of the first statement, source, what it prints) of the blocks that run."""
    for fence in FENCE.finditer(text):
        if fence.group(1).split() == ["python"]:
            printed = PRINTED.match(text, fence.end())
            line = text[: fence.start(2)].count("\n") + 1
            yield line, fence.group(2), printed and printed.group(1).strip()


def check_printed(printed, told):
    """Words must be the same, and numbers to 2 %: other versions of numpy round differently."""
    assert NUMBER.split(printed) == NUMBER.split(told)
    numbers, expected = ([float(x) for x in NUMBER.findall(text)] for text in (printed, told))
    assert numbers == pytest.approx(expected, rel=0.02)


def run(path, monkeypatch):
    """Run a page as a module, so that its classes can be pickled; errors have the page's lines."""
    module = ModuleType(f"page_{path.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for line, source, told in blocks(path.read_text(encoding="utf-8")):
        tree = ast.increment_lineno(ast.parse(source, str(path)), line - 1)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(tree, str(path), "exec"), vars(module))
        if told is not None:
            check_printed(output.getvalue().strip(), told)
    return vars(module)


# README.md is run in test_package.py too, with its longest fit cut short. The other pages take half
# a second or more each.
SLOW = {
    "README.md",
    "choosing.md",
    "classification.md",
    "coming_from.md",
    "distributed.md",
    "effects.md",
    "extremes.md",
    "growth_curves.md",
    "inference_truth.md",
    "posteriors.md",
    "quickstart.md",
    "recipes.md",
    "scikit_learn.md",
    "starts.md",
    "survival.md",
    "tables.md",
    "time_series.md",
    "troubleshooting.md",
    "writing_a_likelihood.md",
}


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] if p.name in SLOW else [], id=p.name) for p in PAGES],
)
def test_page(page, tmp_path, monkeypatch):
    if page.stem == "distributed":
        pytest.importorskip("distributed")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    try:
        run(page, monkeypatch)
    finally:
        plt.close("all")


def test_a_wrong_page_fails(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```python\na = 1\n```\n\n```sh\nexit 1\n```\n\n"
        "```python no-run\nraise OSError\n```\n\n```python\nassert a == 2\n```\n"
    )
    with pytest.raises(AssertionError) as error:
        run(page, monkeypatch)
    assert error.traceback[-1].lineno + 1 == 16
    page.write_text(page.read_text().replace("a == 2", "a == 1"))
    assert run(page, monkeypatch)["a"] == 1


@pytest.mark.parametrize(
    ("told", "right"), [("rate 2.5", True), ("rate 2.51", True), ("rate 2.7", False), ("b", False)]
)
def test_what_a_page_says_it_prints_is_compared(told, right, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f'```python\nprint("rate", 2.5)\n```\n\n```text\n{told}\n```\n')
    with contextlib.nullcontext() if right else pytest.raises(AssertionError):
        run(page, monkeypatch)
