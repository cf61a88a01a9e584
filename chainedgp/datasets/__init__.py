"""Datasets for the examples: the motorcycle measurements, synthetic generators, a data folder.

Only the 133 motorcycle measurements ship with the package. The text of the paper (Saul et al. 2016)
and the script released with it differ in places; `protocol` says which one is followed.
"""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from ..data.arguments import as_generator, one_of, positive_int
from ..data.types import Seed
from ..errors import InputError
from ..linalg import Array, one_blas_thread

__all__ = [
    "Corrupted",
    "Counts",
    "Regression",
    "SurvivalTimes",
    "additive_poisson_toy",
    "corrupted_motorcycle",
    "data_folder",
    "load_csv",
    "motorcycle",
    "synthetic_survival",
]

FOLDER_VARIABLE = "CHAINEDGP_DATA"
CENSORED_SHARE = 0.2  # This share of the survival times is censored at random, as in the paper.
LAST_TIME = 300.1  # The study ends at this time in the paper's script: later ones are censored.

# For each protocol: the number of corrupted rows, the sd of their noise, whether the noise replaces
# y, and whether all targets then become |y| + 0.01.
_CORRUPTION = {
    "figure": (25, 3.5, True, False),
    "text": (25, 3.0**0.5, False, False),
    "code": (45, 4.0, True, True),
}


class Regression(NamedTuple):
    """A regression data set: inputs X (n, D) and real targets Y (n,)."""

    X: Array
    Y: Array


class Corrupted(NamedTuple):
    """A data set with outliers: inputs X (n, D), targets Y (n,), corrupted rows (n,) of bool."""

    X: Array
    Y: Array
    corrupted: Array


class SurvivalTimes(NamedTuple):
    """A survival data set: inputs X (n, D), times Y (n,), censored (n,) 0 or 1, true latents."""

    X: Array
    Y: Array
    censored: Array
    log_median: Array
    log_shape: Array


class Counts(NamedTuple):
    """A data set of counts: inputs X (n, D), counts Y (n,) and the true latents, (n,) each."""

    X: Array
    Y: Array
    log_rate_1: Array
    log_rate_2: Array


def motorcycle() -> Regression:
    """Head acceleration (g) against time after impact (ms) in a simulated motorcycle accident.

    133 rows, X (133, 1) and Y (133,), as measured. From B. W. Silverman (1985), Some aspects of the
    spline smoothing approach to non-parametric regression curve fitting, Journal of the Royal
    Statistical Society B 47, 1–52; the values of `mcycle` in the R package MASS.
    """
    columns = _read(Path(__file__).with_name("motorcycle.csv"))
    return Regression(columns["times"][:, None], columns["accel"])


def corrupted_motorcycle(protocol: str = "figure", seed: Seed = 0) -> Corrupted:
    """The motorcycle data, standardised, with some targets spoilt by Gaussian noise.

    X and Y are first standardised over all rows (standard deviation with divisor n). Then

    - "figure": 25 targets are replaced by 3.5 ε, as in the paper's figure;
    - "text": √3 ε is added to 25 targets: the paper writes N(0, 3), elsewhere mean and variance;
    - "code": 45 targets are replaced by 4 ε and then every target by |y| + 0.01, as in the script
      behind the paper's table;

    with ε ~ N(0, 1) and rows drawn at random. `seed` is an int or a numpy Generator.
    Returns X (133, 1), Y (133,) and the mask of corrupted rows (133,).
    """
    number, scale, replaced, absolute = _CORRUPTION[
        one_of(protocol, tuple(_CORRUPTION), "protocol")
    ]
    rng = as_generator(seed)
    X, Y = motorcycle()
    X, Y = _standardised(X), _standardised(Y)
    corrupted = np.zeros(Y.size, dtype=bool)
    corrupted[rng.choice(Y.size, number, replace=False)] = True
    noise = scale * rng.standard_normal(number)
    Y[corrupted] = noise if replaced else Y[corrupted] + noise
    return Corrupted(X, np.abs(Y) + 0.01 if absolute else Y, corrupted)


def synthetic_survival(protocol: str = "text", seed: Seed = 0, n: int = 1000) -> SurvivalTimes:
    """Log-logistic survival times with median e^f and shape e^g over the unit square.

        text:  f = 2 exp(−30 (x0 − ¼)²) + sin(π x1²) − 2
        code:  f = 2 (exp(−30 (x0 − ¼)²) + sin(π x1²)) − 2
        both:  g = sin(2π x0) + cos(2π x1)

    A fifth of the rows, at random, is right-censored at a time uniform on (0, y). "code" goes on as
    the script did: times above 300.1 are censored there, y becomes (y + 0.01) / geometric mean(y),
    and X is standardised; its true medians are divided by the same mean (the shift by 0.01 is left
    out, so they are the truth up to that).
    Returns X (n, 2), Y (n,), censored (n,), and f and g at the rows, in the units of Y.
    """
    one_of(protocol, ("text", "code"), "protocol")
    n, rng = positive_int(n, "n"), as_generator(seed)
    X = rng.uniform(size=(n, 2))
    bump, wave = np.exp(-30.0 * (X[:, 0] - 0.25) ** 2), np.sin(np.pi * X[:, 1] ** 2)
    f = 2.0 * bump + (2.0 if protocol == "code" else 1.0) * wave - 2.0
    g = np.sin(2.0 * np.pi * X[:, 0]) + np.cos(2.0 * np.pi * X[:, 1])
    y = np.exp(f + np.exp(-g) * rng.logistic(size=n))  # Then log y is logistic, scale 1/shape.
    censored = np.zeros(n)
    censored[rng.choice(n, round(CENSORED_SHARE * n), replace=False)] = 1.0
    y = np.where(censored == 1.0, y * rng.uniform(size=n), y)
    if protocol == "text":
        return SurvivalTimes(X, y, censored, f, g)
    late = y > LAST_TIME
    y, censored = np.where(late, LAST_TIME, y), np.where(late, 1.0, censored)
    log_unit = np.mean(np.log(y))
    return SurvivalTimes(
        _standardised(X), (y + 0.01) * np.exp(-log_unit), censored, f - log_unit, g
    )


def additive_poisson_toy(seed: Seed = 0, n: int = 350) -> Counts:
    """Counts from the sum of a slow and a fast rate, y ~ Poisson(e^f + e^g).

    f and g are draws of GPs on [0, 10] with RBF kernels, lengthscales 3 and 0.4, means 5,
    variances 1. The paper shows such data but does not give its functions: these are ours.
    Returns X (n, 1), sorted and uniform, Y (n,), and f and g at the rows.
    """
    n, rng = positive_int(n, "n"), as_generator(seed)
    x = np.sort(rng.uniform(0.0, 10.0, size=n))
    f = 5.0 + _gp_draw(x, 3.0, rng)
    g = 5.0 + _gp_draw(x, 0.4, rng)
    return Counts(x[:, None], rng.poisson(np.exp(f) + np.exp(g)).astype(float), f, g)


def data_folder() -> Path:
    """The folder of data files: from CHAINEDGP_DATA, else shared/data beside a checkout.

    Raises
    ------
    FileNotFoundError : there is no such folder; the message says in one line what to set.
    """
    setting = os.environ.get(FOLDER_VARIABLE)
    folder = Path(setting) if setting else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        where = f"{FOLDER_VARIABLE} names {setting!r}, which is not a folder" if setting else "none"
        raise FileNotFoundError(
            f"No data folder ({where}): set {FOLDER_VARIABLE} to the folder with the CSV files."
        )
    return folder


def load_csv(name: str) -> dict[str, Array]:
    """Columns of a CSV file in `data_folder`, by their header: `load_csv("boston")["medv"]`.

    `name` may leave out the ending .csv or .csv.gz. Numeric columns are float (n,), empty fields
    NaN; others are arrays of str.
    """
    folder = data_folder()
    for ending in ("", ".csv", ".csv.gz"):
        path = folder / f"{name}{ending}"
        if path.is_file():
            return _read(path)
    found = sorted(path.name.split(".csv")[0] for path in folder.glob("*.csv*"))
    raise InputError(f"name: no {name!r} in the data folder; it has {', '.join(found) or 'none'}.")


def _read(path: Path) -> dict[str, Array]:
    with _open(path) as file:
        header, *rows = csv.reader(file)
    columns = zip(*rows, strict=True)
    return {key: _column(values) for key, values in zip(header, columns, strict=True)}


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _column(values: tuple[str, ...]) -> Array:
    try:
        return np.array([float(value) if value else np.nan for value in values])
    except ValueError:
        return np.array(values)


def _standardised(values: Array) -> Array:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _gp_draw(x: Array, lengthscale: float, rng: np.random.Generator) -> Array:
    """For synthetic data, a draw of a zero-mean GP with an RBF kernel of variance 1 at x, (n,)."""
    K = np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2)
    # K is singular to rounding; its root by eigenvectors needs no jitter, a Cholesky factor would.
    with one_blas_thread():
        values, vectors = np.linalg.eigh(K)
        return vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(x.size))
