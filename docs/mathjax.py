"""MathJax inside the built site, so that formulas are set without a network.

The files come from the package sphinx-mathjax-offline, which is one of the docs extras. Of its
24 MB the site needs one script and the fonts. Where the package is not installed the pages load
MathJax from the address that Sphinx knows.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

SCRIPT = "tex-chtml-full.js"  # TeX in, HTML and CSS out, all of TeX's packages included
FONTS = Path("output/chtml/fonts")


def source():
    """The folder of the package that has the files, or None."""
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "static" / "mathjax"
    return folder if (folder / SCRIPT).exists() else None


def bundle(app):
    """Handler of Sphinx's builder-inited: copies script and fonts into the site."""
    folder = source()
    if folder is None or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "mathjax"
    (target / FONTS).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / SCRIPT, target / SCRIPT)
    shutil.copytree(folder / FONTS, target / FONTS, dirs_exist_ok=True)
    app.config.mathjax_path = f"mathjax/{SCRIPT}"
