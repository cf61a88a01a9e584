"""Every script in examples/ runs in its quickest form and writes what it says.

The convention: `--quick` is a smoke test of seconds, `--output DIR` is where files go, and each
file is told by its path, as in `figure: DIR/fit.png`. A script that needs data which are not there,
or results of another script, ends with one line that says so.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
QUICK = {"collapsed_bound"}  # a few seconds
LESS = {"paper_tables": ["--data", "motorCorrupt", "--models", "G", "CHG"]}  # minutes otherwise
LOCAL = {script.stem for script in SCRIPTS}  # they import each other
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".npz": b"PK"}


def run(script, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    command = [sys.executable, "-W", "error", script, "--quick", "--output", folder / "figures"]
    return subprocess.run(
        [*(str(part) for part in command), *LESS.get(Path(script).stem, [])],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def check_files(done, folder):
    """The script ended well, and wrote the files it names: to its folder, and nowhere else."""
    assert done.returncode == 0, done.stderr
    told = {Path(path) for path in re.findall(r"[^\s,:]+\.(?:png|npz|pdf|csv)\b", done.stdout)}
    assert told, done.stdout
    written = {path for path in folder.rglob("*") if path.is_file()}
    assert told <= written, told - written
    assert all(path.is_relative_to(folder / "figures") for path in written), written
    for path in written:
        assert path.read_bytes().startswith(SIGNATURES.get(path.suffix, b"")), path


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(s, marks=[] if s.stem in QUICK else [pytest.mark.slow], id=s.stem)
        for s in SCRIPTS
    ],
)
def test_example(script, tmp_path):
    done = run(script, tmp_path)
    said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    if len(said) == 1 and re.search("CHAINEDGP_DATA|paper_tables", said[0]):
        pytest.skip(said[0])  # data that are not here
    check_files(done, tmp_path)
    if script.stem == "corrupted_motorcycle":
        table = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
        assert [table[key][3] for key in ("G", "CHG", "CHt")] == ["yes"] * 3
        # robust: on held-out rows that were not corrupted the Student-t is far ahead
        assert float(table["CHt"][5]) < float(table["G"][5]) - 0.3
    for correlation in re.findall(r"correlation with the truth ([-.\d]+)", done.stdout):
        assert float(correlation) > 0.9, done.stdout


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the docs are not here")
def test_every_example_is_on_the_page():
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    assert not [script.name for script in SCRIPTS if script.name not in page]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.stem)
def test_an_example_says_what_to_install(script):
    """What the package itself does not install is named in the first lines of the script."""
    tree = ast.parse(script.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        name.split(".")[0]
        for node in imports
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    known = sys.stdlib_module_names | {"chainedgp", "matplotlib", "numpy", "scipy", *LOCAL}
    told = " ".join(ast.get_docstring(tree).split())
    for module in modules - known:
        package = {"sklearn": "chainedgp[sklearn]"}.get(module, module)
        assert re.search(rf'pip install "?{re.escape(package)}', told), f"{script.name}: {module}"


GOOD = "open(path, 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\nprint('figure:', path)\n"


@pytest.mark.parametrize(
    "body, fine",
    [
        (GOOD, True),
        (GOOD + "raise OSError", False),
        (GOOD + "print('figure: elsewhere.png')", False),
        (GOOD + "open('more', 'w').close()", False),
        (GOOD.replace("PNG", "GIF"), False),
        ("pass", False),
    ],
)
def test_a_wrong_example_fails(body, fine, tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "run"
    folder.mkdir()
    script.write_text(
        "import os, sys\nos.mkdir(sys.argv[-1])\npath = sys.argv[-1] + '/a.png'\n" + body
    )
    done = run(script, folder)
    if fine:
        return check_files(done, folder)
    with pytest.raises(AssertionError):
        check_files(done, folder)
