"""Equation numbers in docstrings stand in the table of docs/notation.md."""

import re

import pytest
from paths import ROOT

PAGE = ROOT / "docs" / "notation.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the docs are not here")


def referred():
    """Numbers of all `eq. n`, `eqs. n and m`, `eqs. n to m` in the package."""
    numbers = set()
    for path in (ROOT / "chainedgp").rglob("*.py"):
        for first, word, last in re.findall(
            r"eqs?\. (\d+)(?: (and|to) (\d+))?", path.read_text("utf-8")
        ):
            numbers |= {int(first)}
            if word:
                numbers |= set(range(int(first), int(last) + 1))
    return numbers


def test_equations_in_docstrings_are_in_the_table():
    table = {int(n) for n in re.findall(r"^\| eq\. (\d+) \|", PAGE.read_text("utf-8"), re.M)}
    assert table == set(range(1, 11))
    assert {4, 5, 7} <= referred() <= table
