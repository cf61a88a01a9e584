"""The pages of the likelihoods: every shipped class has one, its code runs, its claims hold."""

import importlib.util

import numpy as np
import pytest
from paths import ROOT

import chainedgp as cgp

SCRIPT = ROOT / "docs" / "make_likelihoods.py"
SPEC = importlib.util.spec_from_file_location("make_likelihoods", SCRIPT)
pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pages)
NAMES = sorted(pages.table())


def test_every_likelihood_has_a_page_and_a_picture():
    assert {*NAMES, "Likelihood", "Survival"} == set(cgp.likelihoods.__all__)
    assert {path.stem for path in pages.PICTURES.glob("*.png")} == set(NAMES)
    folder = SCRIPT.parent / "likelihoods"
    assert {path.stem for path in folder.glob("*.md")} == {*NAMES, "index"}
    assert (folder / "index.md").read_text("utf-8") == pages.overview()


@pytest.mark.parametrize("name", NAMES)
def test_page(name, monkeypatch):
    written = SCRIPT.parent / "likelihoods" / f"{name}.md"
    assert written.read_text("utf-8") == pages.page(name), (
        "python -m sphinx docs … writes the pages"
    )
    monkeypatch.setattr(pages, "ROWS", 25)
    pages.check_scipy(name)
    assert pages.code(name) in pages.page(name)
    if name in ("GEVShape", "ScipyLikelihood", "WeibullSurvival"):  # slow: fitted in other tests
        return
    m = pages.run(name, None, max_iters=1, messages=False)
    assert type(m.likelihood).__name__ == name and np.isfinite(m.log_likelihood())


def test_picture(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "ROWS", 25)
    monkeypatch.setattr(pages, "PICTURES", tmp_path)
    pages.draw("HetGaussian")
    assert (tmp_path / "HetGaussian.png").read_bytes()[:4] == b"\x89PNG"


def test_a_wrong_claim_is_seen(monkeypatch):
    wrong = {**pages.table()["HetGaussian"], "scipy": "stats.norm(f, np.exp(g))"}
    monkeypatch.setattr(pages, "table", lambda: {"HetGaussian": wrong})
    with pytest.raises(AssertionError, match="HetGaussian"):
        pages.check_scipy("HetGaussian")
