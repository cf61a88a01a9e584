"""Packaging of chainedgp; the version lives in chainedgp/_version.py."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "chainedgp/_version.py").read_text("utf-8"))

setup(
    name="chainedgp",
    version=VERSION[1],
    description="Likelihoods whose parameters are functions, each with its own Gaussian process",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    author="chainedgp contributors",
    license="BSD-3-Clause",
    license_files=["LICENSE"],
    packages=find_packages(include=["chainedgp", "chainedgp.*"]),
    package_data={"chainedgp": ["py.typed"], "chainedgp.datasets": ["*.csv"]},
    python_requires=">=3.11",
    install_requires=[
        # the oldest versions that the tests pass with: .ci/oldest reads them here
        "numpy>=2.0",
        "scipy>=1.15",
        "paramz>=0.10",
        "matplotlib>=3.9",
        "tqdm>=4.62",
        "threadpoolctl>=3.5",
    ],
    extras_require={
        "test": [
            "pytest>=8",
            "pytest-xdist",
            "hypothesis",
            "mpmath",
            "pandas>=2.2.2",
            "polars",
            "scikit-learn>=1.6",
            "dask[array,distributed]",
            "ruff>=0.17,<0.18",  # the formatter's style may change with a minor version
            "mypy>=2",
        ],
        "docs": [
            "sphinx>=8",
            "myst-nb>=1.3",
            "furo",
            "sphinx-mathjax-offline",  # formulas without a network: it carries MathJax's files
            "scikit-learn>=1.6",
        ],
        "sklearn": ["scikit-learn>=1.6"],
        "distributed": ["dask[array,distributed]"],
        "mcmc": ["nutpie>=0.16", "arviz>=0.21,<1"],  # m.sample: draws from the posterior
        "bench": ["scikit-learn>=1.6", "pandas>=2.2.2"],
    },
    keywords=["Gaussian process", "variational inference", "heteroscedastic regression"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering",
        "Typing :: Typed",
    ],
    project_urls={"Paper": "https://arxiv.org/abs/1604.05263"},
)
