"""The package as a whole: README, packaging, documentation of public names, import graph."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import warnings
from functools import cache

import pytest
from paths import ROOT

import chainedgp
from chainedgp.errors import ConvergenceWarning

PACKAGE = ROOT / "chainedgp"

# A module may import modules of its own layer or of lower ones. Layers from below:
LAYERS = [
    {"_version", "errors"},
    {"linalg"},
    {"data", "parameters", "expectations"},
    {"kernels", "likelihoods", "means"},
    {"posterior"},
    {"distributed"},
    {"predictive"},
    {"inference"},
    {"sampling"},
    {"assessment"},
    {"plotting"},
    {"model"},
    {"datasets", "survival", "testing"},
    {"sklearn"},
    {""},  # the package's own __init__
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# Imports inside functions are for heavy or optional things, which most users never load.
HEAVY = {
    "arviz",
    "cloudpickle",
    "dask",
    "distributed",
    "matplotlib",
    "nutpie",
    "pandas",
    "scipy",
    "sklearn",
    "threadpoolctl",
    "tqdm",
}


# ---- README and commands ------------------------------------------------------------------------


def readme():
    return (ROOT / "README.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", readme(), flags=re.M | re.S)


def test_readme_python_runs():
    code = "\n".join(blocks("python"))
    assert code.count("m.optimize()") == 2 and "class HetLogistic" in code
    # the fit of the second model, by quadrature, is cut short
    head, tail = code.rsplit("m.optimize()", 1)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exec(head + "m.optimize(max_iters=2)" + tail, names)
    n = names["X"].shape[0]
    assert names["lower"].shape == names["upper"].shape == (n, 1)
    assert (names["lower"] < names["median"]).all() and (names["median"] < names["upper"]).all()
    assert names["f_mean"].shape == names["f_variance"].shape == (n, 2)
    assert names["nlpd"] < 1.5  # a Gaussian has 1.9 on these rows
    assert names["m"].likelihood.latents == ("location", "log_scale")


def test_readme_has_two_one_line_commands():
    commands = [block.strip() for block in blocks("sh")]
    assert len(commands) == 2
    for command in commands:
        assert "\n" not in command and command.startswith("python3 -m venv .venv")
        folder = command.split()[3]
        assert f"{folder}/bin/pip install" in command and f"&& {folder}/bin/python " in command
    assert "examples/corrupted_motorcycle.py" in commands[0] and "pytest" in commands[1]
    assert commands[0].split()[3] != commands[1].split()[3]  # each its own environment
    # .ci/run finds its commands in the README by this pattern, and runs the second
    assert re.findall(r"^python3 -m venv .*", readme(), flags=re.M) == commands
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "grep '^python3 -m venv ' README.md" in script
    assert "test_command=${commands[1]}" in script and '-c "$test_command"' in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    # pytest gathers nothing at all if a single one of the paths it is given does not exist
    paths = re.findall(r"(?<=\s)tests/[\w./]+", script)
    assert len(paths) >= 3
    for path in paths:
        assert (ROOT / path).exists(), path


def test_readme_names_and_files_exist():
    text = readme()
    for path in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (ROOT / path).is_file(), path
    listed = text[text.index("\n## What it has") : text.index("\n## Documentation")]
    names = set(re.findall(r"`([A-Z]\w+)`", listed))
    assert len(names) >= 40
    known = {*chainedgp.likelihoods.__all__, *chainedgp.kernels.__all__}
    assert names <= known, names - known


def environment():
    """This process's environment, with the checkout importable."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_version_and_packaging_files():
    assert re.fullmatch(r"\d+\.\d+\.\d+", chainedgp.__version__)
    assert f"## {chainedgp.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert (PACKAGE / "py.typed").is_file()
    assert (PACKAGE / "datasets" / "motorcycle.csv").is_file()
    assert "BSD 3-Clause" in (ROOT / "LICENSE").read_text("utf-8")
    setup = (ROOT / "setup.py").read_text("utf-8")
    assert "_version.py" in setup and chainedgp.__version__ not in setup
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {chainedgp.__version__}\n" in citation


def test_the_table_of_versions_is_that_of_the_packaging():
    page = ROOT / "docs" / "versions.md"
    if not page.exists():
        pytest.skip("the docs are not here")
    rows = dict(re.findall(r"^\| ([\w, -]+) \| ([\d.]+) \|", page.read_text("utf-8"), flags=re.M))
    setup = (ROOT / "setup.py").read_text("utf-8")
    bounds = dict(re.findall(r'"([\w-]+)>=([\d.]+)', setup[setup.index("install_requires") :]))
    bounds["Python"] = re.search(r'python_requires=">=([\d.]+)"', setup)[1]
    assert len(rows) >= 10
    assert rows == {name: bounds.get(name) for name in rows}


# ---- public names -------------------------------------------------------------------------------


@cache
def modules():
    """Names of all modules without the leading `chainedgp.`; "" is the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


def full_name(module):
    return f"chainedgp.{module}" if module else "chainedgp"


def public_objects():
    """What users see, and what modules have for each other: names without an underscore."""
    for module in modules():
        loaded = importlib.import_module(full_name(module))
        for name, thing in vars(loaded).items():
            if not name.startswith("_") and getattr(thing, "__module__", "") == loaded.__name__:
                yield f"{full_name(module)}.{name}", thing


def complaints(name, thing):
    """What a reader misses at a public function or class, in words."""
    if inspect.isclass(thing):
        if not thing.__doc__:
            yield f"{name} has no docstring"
        for key, member in vars(thing).items():
            if key.startswith("_"):
                continue
            function = member.fget if isinstance(member, property) else member
            function = getattr(function, "__func__", function)  # class and static methods
            if inspect.isfunction(function):
                yield from complaints(f"{name}.{key}", function)
    elif inspect.isfunction(thing):
        if not thing.__doc__:
            yield f"{name} has no docstring"
        signature = inspect.signature(thing)
        for parameter in signature.parameters.values():
            if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls"):
                yield f"{name}: {parameter.name} has no annotation"
        if signature.return_annotation is signature.empty:
            yield f"{name} has no return annotation"


def test_public_names_are_documented_and_annotated():
    found = {complaint for name, thing in public_objects() for complaint in complaints(name, thing)}
    assert not found, "\n".join(sorted(found))


def test_every_module_has_a_docstring():
    bare = [name for name, path in modules().items() if path.stat().st_size and not docstring(path)]
    assert not bare


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def docstring(path):
    return ast.get_docstring(parsed(path))


def test_complaints_see_what_is_missing():
    class Bare:
        def method(self, x) -> None:
            """Documented, but x is not annotated."""

        @property
        def value(self) -> int:
            return 1

    assert set(complaints("Bare", Bare)) == {
        "Bare has no docstring",
        "Bare.method: x has no annotation",
        "Bare.value has no docstring",
    }


# ---- imports ------------------------------------------------------------------------------------


def resolve(module, is_package, node):
    """Our modules (without `chainedgp.`) and top-level names of others that a statement imports."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
        return {
            ("ours", name.partition(".")[2])
            if component(name) == "chainedgp"
            else ("other", component(name))
            for name in names
        }
    if node.level == 0:
        head, _, tail = node.module.partition(".")
        if head != "chainedgp":
            return {("other", head)}
        base = tail.split(".") if tail else []
    else:
        parts = module.split(".") if module else []
        keep = len(parts) - node.level + (1 if is_package else 0)
        base = parts[:keep] + (node.module.split(".") if node.module else [])
    found = set()
    for alias in node.names:
        target = ".".join([*base, alias.name])
        found.add(("ours", target if target in modules() else ".".join(base)))
    return found


def import_graph(module, path):
    """(imported, where) pairs; where is "top", "typing" or "local"."""
    tree = ast.parse(path.read_text("utf-8"))
    is_package = path.name == "__init__.py"

    def walk(node, where):
        for child in ast.iter_child_nodes(node):
            inner = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inner = "local"
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                inner = "typing"
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield from (
                    (kind, name, where) for kind, name in resolve(module, is_package, child)
                )
            yield from walk(child, inner)

    return list(walk(tree, "top"))


@cache
def imports_of(module):
    return import_graph(module, modules()[module])


def test_import_graph_sees_every_import(tmp_path):
    path = tmp_path / "linalg.py"
    path.write_text(
        "import numpy as np\n"
        "from .model import ChainedGP\n"
        "from .data import rows\n"
        "if TYPE_CHECKING:\n    from .likelihoods.contract import Likelihood\n"
        "def f():\n    import chainedgp.means\n    from scipy import stats\n"
    )
    assert set(import_graph("linalg", path)) == {
        ("other", "numpy", "top"),
        ("ours", "model", "top"),
        ("ours", "data.rows", "top"),
        ("ours", "likelihoods.contract", "typing"),
        ("ours", "means", "local"),
        ("other", "scipy", "local"),
    }
    path.write_text("from ..errors import InputError\nfrom .base import Kernel\n")
    assert set(import_graph("kernels.linear", path)) == {
        ("ours", "errors", "top"),
        ("ours", "kernels.base", "top"),
    }
    assert (
        RANK["linalg"] < RANK["likelihoods"] < RANK["posterior"] < RANK["inference"] < RANK["model"]
    )


def component(module):
    return module.split(".")[0]


@pytest.mark.parametrize("module", modules())
def test_module_imports_only_its_layer_and_below(module):
    assert component(module) in RANK, f"place {component(module)!r} in LAYERS, in this file"
    for kind, name, where in imports_of(module):
        if where == "typing":
            continue  # nothing is imported when the program runs
        if kind == "ours":
            assert where == "top", f"{module} imports {name} in a function"
            assert RANK.get(component(name), 0) <= RANK[component(module)], f"{module}: {name}"
        elif where == "local":
            assert name in HEAVY, f"{module} imports {name} in a function"


def cycle(edges):
    """A cycle in a graph {node: set of nodes}, as a list, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        path.append(node)
        for target in sorted(edges.get(node, ())):
            found = visit(target)
            if found:
                return found
        done.add(path.pop())
        return None

    return next((found for node in sorted(edges) if (found := visit(node))), None)


def test_import_graph_has_no_cycle():
    edges = {
        module: {
            name for kind, name, where in imports_of(module) if kind == "ours" and where != "typing"
        }
        for module in modules()
    }
    assert sum(map(len, edges.values())) > 50  # the graph was read
    assert cycle(edges) is None
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


# ---- seams between folders ----------------------------------------------------------------------


def private_reads(tree):
    """Underscore names that a module reads of other objects than `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr[0] == "_" and node.attr[:2] != "__":
            whose = ast.unparse(node.value)
            if whose not in ("self", "cls", "super()"):
                yield f"{whose}.{node.attr}"


def untyped_models(tree):
    """Arguments and variables called `model` that may be anything."""
    for node in ast.walk(tree):
        name = getattr(node, "arg", None) or getattr(getattr(node, "target", None), "id", None)
        annotation = getattr(node, "annotation", None)
        if name == "model" and annotation is not None and ast.unparse(annotation) == "Any":
            yield node.lineno


# Signatures that cannot say more than Any, each with its reason.
MAY_BE_ANYTHING = {
    # The answer is that of a method under test, which may return anything.
    "testing.probe: Probe.call: return",
}


def says_any(node):
    return any(getattr(part, "id", getattr(part, "attr", "")) == "Any" for part in ast.walk(node))


def untyped_signatures(tree):
    """Arguments and results of public functions and methods that may be anything, by their names.

    `__init__` and `__call__` count as public; what is inside a function does not.
    """

    def walk(body, prefix):
        for node in body:
            name = getattr(node, "name", "")
            if isinstance(node, ast.ClassDef) and not name.startswith("_"):
                yield from walk(node.body, f"{prefix}{name}.")
            public = not name.startswith("_") or name in ("__init__", "__call__")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and public:
                said = [child for child in ast.walk(node.args) if isinstance(child, ast.arg)]
                for what, annotation in [(a.arg, a.annotation) for a in said] + [
                    ("return", node.returns)
                ]:
                    if annotation is not None and says_any(annotation):
                        yield f"{prefix}{name}: {what}"

    return walk(tree.body, "")


def found_in(complaints, folder=None):
    """What a function finds in the modules of a folder, or of all, with where it was found."""
    return [
        f"{module}: {found}"
        for module, path in modules().items()
        if folder in (None, component(module))
        for found in complaints(parsed(path))
    ]


def test_inference_reads_no_private_name_of_another_object():
    assert found_in(private_reads, "inference") == []
    planted = "def f(self, model):\n    self._a = model._q()\n    return self.model._x + cls._y"
    assert list(private_reads(ast.parse(planted))) == ["model._q", "self.model._x"]


def test_no_model_may_be_anything():
    assert found_in(untyped_models) == []
    planted = "def f(model: Any):\n    model: Any = 1\ndef g(model: int, other: Any): ..."
    assert list(untyped_models(ast.parse(planted))) == [2, 1]


def test_signatures_say_what_they_take_and_give():
    assert set(found_in(untyped_signatures)) == MAY_BE_ANYTHING
    planted = (
        "def f(x: Any, *a: list[Any], **kw: typing.Any) -> dict[str, Any]: ...\n"
        "def _g(x: Any) -> Any: ...\n"
        "class C:\n"
        "    def __init__(self, x: Any, y: object = None): ...\n"
        "    def m(self, *, z: Any | None) -> int:\n        def inner(x: Any): ...\n"
        "class _D:\n    def m(self, x: Any): ...\n"
    )
    assert sorted(untyped_signatures(ast.parse(planted))) == [
        "C.__init__: x", "C.m: z", "f: a", "f: kw", "f: return", "f: x"
    ]  # fmt: skip


def test_import_is_light():
    heavy = ("scipy.stats", "matplotlib", "tqdm", "pandas", "sklearn", "dask", "IPython")
    code = f"import chainedgp, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
