"""The table of equations in docs/notation.md and the citations in docstrings are the same list."""

import ast
import re
from functools import cache

import pytest
from paths import ROOT

PAGE = ROOT / "docs" / "notation.md"
PACKAGE = ROOT / "chainedgp"
CITATION = re.compile(r"Saul et al\. 2016,\s+eqs?\. (\d+)(?: (and|to) (\d+))?")
LAST = 12  # of the paper and its supplement

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the docs are not here")


def numbers(text):
    """Numbers of the equations that a text cites: `eq. n`, `eqs. n and m`, `eqs. n to m`."""
    for first, word, last in CITATION.findall(text):
        first, last = int(first), int(last or first)
        yield from range(first, last + 1) if word == "to" else {first, last}


def documented(node, name):
    """(name, node) of a module, its classes and functions, and theirs, by dotted names."""
    yield name, node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from documented(child, f"{name}.{child.name}")


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def cited():
    """(equation, dotted name) of every docstring that cites one; {path: text} of what was read."""
    pairs, texts = [], {}
    for path in PACKAGE.rglob("*.py"):
        texts[path] = path.read_text("utf-8")
        for name, node in documented(ast.parse(texts[path]), module_name(path)):
            pairs += [(number, name) for number in numbers(ast.get_docstring(node) or "")]
    return pairs, texts


def listed(page):
    """(equation, dotted name) of every entry of the table."""
    rows = re.findall(r"^\| eq\. (\d+) \|[^|]*\|([^|]*)\|$", page, flags=re.M)
    return [(int(number), name) for number, names in rows for name in re.findall("`(.+?)`", names)]


def complaints(page):
    """What is in the table alone, or in the docstrings alone."""
    table, (docstrings, _) = listed(page), cited()
    for number, name in sorted({*table} - {*docstrings}):
        yield f"notation.md: {name} does not exist, or its docstring does not cite eq. {number}"
    for number, name in sorted({*docstrings} - {*table}):
        yield f"the docstring of {name} cites eq. {number}: list it in docs/notation.md"


def test_the_table_and_the_docstrings_are_the_same():
    page = PAGE.read_text("utf-8")
    assert not list(complaints(page))
    assert {number for number, _ in listed(page)} == set(range(1, LAST + 1))
    assert len(set(listed(page))) == len(listed(page))


def test_every_citation_stands_in_a_docstring():
    pairs, texts = cited()
    assert len(pairs) == sum(len(list(numbers(text))) for text in texts.values())
    loose = {  # equations of the paper are cited with its authors and year
        f"{path.name}: {line}"
        for path, text in texts.items()
        for line in text.splitlines()
        if re.search(r"\beqs?\. \d", line) and not CITATION.search(line)
    }
    assert not loose


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("`likelihoods.beta.Beta`", "`likelihoods.beta.Kumaraswamy`"),  # no such class
        ("`likelihoods.beta.Beta`", "`likelihoods.beta.BetaMeanPrecision`"),  # cites nothing
        ("| eq. 8 |", "| eq. 9 |"),
        ("`posterior.gaussian.Gaussian.kl`", "the Gaussian"),  # left out
    ],
)
def test_a_wrong_row_is_seen(right, wrong):
    page = PAGE.read_text("utf-8")
    assert right in page
    assert list(complaints(page.replace(right, wrong)))


def test_citations_are_read():
    paper = "Saul et al. 2016,"
    text = f"({paper} eq. 7), ({paper} eqs. 4 and 6), ({paper} eqs. 1 to 3), eq. 5 of another paper"
    assert sorted(numbers(text)) == [1, 2, 3, 4, 6, 7]
