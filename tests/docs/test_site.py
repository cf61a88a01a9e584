"""What holds the site together: links lead somewhere, pages are in a menu, reference is ours."""

import importlib.util
import re

import pytest
from paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
LINK = re.compile(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)")

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the docs are not here")


def broken(path, text):
    """Links of a page, pictures included, to files that do not exist."""
    code = re.compile(r"^```.*?^```", flags=re.M | re.S)
    for target in LINK.findall(code.sub("", text)):
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
            yield target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_links(path):
    assert not list(broken(path, path.read_text("utf-8")))


def test_a_broken_link_is_seen():
    text = "[a](index.md) [b](nowhere.md#x) ![c](images/none.png) [d](https://example.org)"
    assert list(broken(DOCS / "index.md", text)) == ["nowhere.md", "images/none.png"]


def test_every_page_is_in_the_menu():
    menu = (DOCS / "index.md").read_text("utf-8")
    fences = re.findall(r"```{toctree}\n(.*?)```", menu, flags=re.S)
    entries = [line for fence in fences for line in fence.splitlines() if line and line[0] != ":"]
    named = {re.sub(r".*<(.+)>", r"\1", entry) for entry in entries}
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert pages <= named, pages - named
    captions = re.findall(r":caption: (\w+)", menu)
    assert captions == ["Use", "Understand", "Extend", "Trust", "Reference"]


def test_the_reference_leaves_out_what_other_packages_bring():
    spec = importlib.util.spec_from_file_location("docstrings", DOCS / "docstrings.py")
    pytest.importorskip("sphinx")
    docstrings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docstrings)
    import chainedgp

    def hidden(name):
        member = getattr(chainedgp.ChainedGP, name)
        return docstrings.foreign(None, "class", name, member, False, None)

    assert hidden("constrain_bounded") and hidden("add_observer")
    assert hidden("optimize") is None and hidden("posterior") is None
    raised = docstrings.inline("y ~ N(f, e^g), S = e^{−2u} and `x^2`").replace("\\ ", "")
    assert raised == "y ~ N(f, e:sup:`g`), S = e:sup:`−2u` and ``x^2``"


def ranks(page, section, row):
    """{method: mean rank} of a table of docs/panel.md, whose row begins with these cells."""
    table = re.search(rf"<!-- begin {section} -->(.*?)<!-- end", page, flags=re.S)[1]
    lines = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in table.split("\n")]
    head, *rows = [cells for cells in lines if cells]
    found = next(cells for cells in rows if cells[: len(row)] == row)
    return dict(zip(head, found, strict=True))


@pytest.mark.parametrize("path", [DOCS / "index.md", ROOT / "README.md"], ids=lambda p: p.name)
def test_the_numbers_of_the_shop_window_are_those_of_the_panel(path):
    panel, text = (DOCS / "panel.md").read_text("utf-8"), path.read_text("utf-8")
    rows = {line.split("|")[1].strip().lower(): line for line in text.split("\n") if "|" in line}
    regression = rows["ten regression tables, mean rank by log predictive density"]
    found = ranks(panel, "regression", ["mean rank"])
    for name, ours in (("exact GP", "sklearn-GP"), ("NGBoost", "NGBoost")):
        assert f"{name} {found[ours]}" in regression
    assert found["HetGaussian"] in regression
    for row, score in (
        ("four survival studies, mean rank by harrell's c", "C"),
        ("the same by integrated brier score", "Brier score"),
    ):
        found = ranks(panel, "survival", ["mean rank", score])
        assert f"**{found['LogLogisticSurvival']}**" in rows[row]
        assert f"NGBoost {found['NGBoost']}" in rows[row]
