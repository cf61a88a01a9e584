"""Sphinx settings. Build from the project's folder: python -m sphinx -W docs docs/_build/html."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import make_likelihoods
import mathjax
from docstrings import as_rst, foreign, signature
from docutils import nodes
from sphinx.util.inspect import TypeAliasForwardRef

import chainedgp

project = "chainedgp"
author = "chainedgp contributors"
copyright = author
version = release = chainedgp.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

html_theme = "furo"
html_title = f"chainedgp {release}"
html_static_path = ["_static"]
html_css_files = ["extra.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "ndarray"}
TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # inside other types, such as dict, too
python_maximum_signature_line_length = 110
add_module_names = False
toc_object_entries_show_parents = "hide"


def keep_percentages(app, doctree):
    """A number and its percent sign stay on one line."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.math)):
            text.parent.replace(text, nodes.Text(re.sub(r"(\d) %", "\\1\N{NO-BREAK SPACE}%", text)))


def setup(app):
    """Docstrings are plain text with equations; pages of likelihoods come from a table."""
    app.connect("doctree-read", keep_percentages)
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", foreign)
    app.connect("builder-inited", mathjax.bundle)
    app.connect("builder-inited", lambda app: make_likelihoods.write(HERE / "likelihoods"))
