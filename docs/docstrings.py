"""The package's docstrings, which are plain text with equations, as reStructuredText.

Paragraphs stay, `names` become literals, indented text becomes a block as it is written, and
sections ("Parameters" over a line of dashes) become definition lists. Nothing in a docstring can
break the build.
"""

import inspect
import re

from sphinx.util.inspect import stringify_signature

SPECIAL = re.compile(r"([\\*|_])")
SUPERSCRIPT = re.compile(r"\^(?:\{([^{}]+)\}|(\w+))")
ENTRY = re.compile(r"(?P<term>[\w*`., ]+?)\s*:(?:\s+(?P<rest>.*))?$")


def inline(text):
    """One line: `name` and **word** keep their meaning, e^x is raised, all else is literal text."""
    parts = re.split(r"(``?[^`]+``?|\*\*\w[^*]*\*\*)", text)
    for k, part in enumerate(parts):
        if k % 2 == 0:
            text = SPECIAL.sub(r"\\\1", part.replace("`", "'"))
            parts[k] = SUPERSCRIPT.sub(lambda m: f"\\ :sup:`{m[1] or m[2]}`\\ ", text)
        elif part.startswith("`"):
            parts[k] = f"``{part.strip('`')}``"
    # markup begins and ends at a blank or punctuation: an escaped blank counts, and is not printed
    return "\\ ".join(part for part in parts if part).replace("::", ":")


def blocks(lines):
    """Runs of lines between blank ones."""
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def verbatim(lines):
    """A block as it is written."""
    return ["::", "", *(f"    {line}" for line in lines), ""]


def entries(lines):
    """The entries of a section: `name : what it is`, continued on indented lines."""
    out = []
    for line in lines:
        match = ENTRY.match(line) if not line.startswith(" ") else None
        if match:
            out += ["", f"``{match['term'].replace('`', '')}``"]
            out += [f"    {inline(match['rest'])}"] if match["rest"] else []
        elif not line.startswith(" "):
            out += ["", inline(line)]
        elif line.strip():
            out.append(f"    {inline(line.strip())}")
    return [*out, ""]


def kind(line, before):
    """Whether a line is of a paragraph, of a list or verbatim, given the kind of the one before."""
    if line.startswith("- "):
        return "list"
    if line.startswith(" "):
        return "list" if before == "list" else "verbatim"
    return "text"


def body(lines):
    """Paragraphs, lists and equations."""
    out, before, last = [], "", ""
    for block in blocks(lines):
        runs = []
        for line in block:
            now = kind(line, before)
            if now != before or not runs:
                runs.append((now, []))
            runs[-1][1].append(line)
            before = now
        for now, run in runs:
            if now == "verbatim":
                written = verbatim(line.removeprefix("    ") for line in run)
                out += written[2:] if last == "verbatim" else written  # a blank line inside
            elif now == "list":
                out += [line[:2] + inline(line[2:].strip()) for line in run] + [""]
            else:
                out += [*map(inline, run), ""]
            last = now
        before = before if before == "list" else ""
    return out


def sections(lines):
    """(title, lines) pairs; the first has no title."""
    found = [("", [])]
    for line in lines:
        if re.fullmatch(r"-{3,}", line.strip()) and found[-1][1]:
            found.append((found[-1][1].pop().strip(), []))
        else:
            found[-1][1].append(line)
    return found


def convert(lines):
    """A docstring's lines as lines of reStructuredText."""
    out = []
    for title, content in sections(lines):
        out += [f".. rubric:: {title}", "", *entries(content)] if title else body(content)
    return out


def as_rst(app, what, name, obj, options, lines):
    """Handler of Sphinx's autodoc-process-docstring: rewrites the lines in place."""
    if lines and lines[0].startswith("Alias for field number"):  # of a named tuple
        lines.clear()
    foreign = not str(getattr(obj, "__module__", None) or name).startswith("chainedgp")
    lines[:] = verbatim(lines) if foreign and lines else convert(lines)


def signature(app, what, name, obj, options, signature, returns):
    """Handler of autodoc-process-signature: types have the names that the code gives them.

    autodoc would write out what they stand for: six lines for numpy's ArrayLike. paramz hides the
    arguments of classes.
    """
    function = inspect.unwrap(getattr(obj, "__func__", obj))
    if what in ("function", "method") and signature and inspect.isfunction(function):
        own = inspect.signature(obj)
        # A function of a model that is its method, too, calls itself `model`: plot_fit and others.
        owner = ("self", "cls", "model") if what == "method" else ()
        rest = [p for p in own.parameters.values() if p.name not in owner]
        result = own.return_annotation
        shown = inspect.Signature(rest)
        return stringify_signature(shown), None if result is own.empty else str(result)
    if what != "class" or obj.__init__ is object.__init__:
        return None
    _, *rest = inspect.signature(obj.__init__).parameters.values()
    shown = inspect.Signature([p.replace(annotation=p.empty) for p in rest])
    return stringify_signature(shown), None


def foreign(app, what, name, obj, skip, options):
    """Handler of autodoc-skip-member: what a class inherits from another package is left out."""
    function = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    if not inspect.isroutine(function):  # a field has no module of its own
        return None
    module = str(getattr(function, "__module__", ""))
    return None if module.startswith("chainedgp") else True
