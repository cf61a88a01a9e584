"""Cross-validation: one model is fitted to the rows outside each fold and scored on those in it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..data.arguments import as_generator, fraction, positive_int, shows_progress, thread_count
from ..data.columns import Columns
from ..data.frames import check_order, column_names, frame_rows
from ..data.labels import coded, labels_of
from ..data.missing_metadata import warn_of_unsaid
from ..data.rows import WEIGHTS, as_inputs, as_row_values, as_targets, rows_of
from ..data.tables import Table
from ..data.types import Data, Metadata, Seed
from ..errors import InputError, MomentWarning
from ..likelihoods.observation import EXACT, RIGHT
from ..linalg import Array, one_blas_thread
from ..predictive.distribution import Predictive
from .censoring import Censoring, Train, codes_of, known_rows
from .metrics import inside_interval, mean_of, median_of

Split = tuple[Array, Array]
# The columns of the table of scores, of numeric targets and of classes.
NUMBERS = ("rows", "nlpd", "mae", "rmse", "coverage", "width", "seconds")
CLASSES = ("rows", "nlpd", "accuracy", "brier", "seconds")


class Validated(Protocol):
    """What cross-validation fits and scores: a `ChainedGP`, or a model with the same methods."""

    def optimize(self, *, messages: bool | None = None) -> object:
        """Fit the model to the rows outside the fold."""

    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """The predictive distribution of the held-out targets at Xnew."""

    def _use_threads(self, num_threads: int) -> None:
        """Set the number of threads for passes over the rows, which is 1 in each fold."""


@dataclass(frozen=True, repr=False, eq=False)
class CrossValidation(Table):
    """Cross-validation scores of held-out rows, a row for each fold, with their mean printed below.

    Columns: rows, nlpd, mae (of the median), rmse (of the mean), coverage, width, seconds. They
    are means over the rows, by the rows' weights where there are some.

    Right-censored rows enter mae and rmse by weights, up to a horizon of all folds: see
    `metrics.crps`. With left- or interval-censored rows these two are nan; nlpd, which is the
    score to compare such models by, and coverage take every row.

    Of classes that have labels, or are more than two, the columns are rows, nlpd, accuracy (the
    share of rows whose class is the most probable one), brier (mean of Σ_k (p_k − [y = k])²) and
    seconds: codes of classes have no mean and no median.

    Attributes
    ----------
    log_density : (N,) log p(y_i) of each row when it was held out, nan for rows that never were.
        The sum of it compares models, as `elpd` of `loo` does.
    """

    log_density: Array


def cross_validate(
    make_model: Callable[..., Validated],
    X: Data,
    Y: Data,
    folds: int | Sequence[Split] = 5,
    *,
    Y_metadata: Metadata = None,
    fit: Callable[[Validated], object] | None = None,
    level: float = 0.95,
    rng: Seed = 0,
    num_threads: int | None = None,
    messages: bool | None = None,
) -> CrossValidation:
    """Fit and score a model on folds of the rows, in parallel on threads, one for each fold.

    Parameters
    ----------
    make_model : function (X, Y), or (X, Y, Y_metadata) where metadata are given, that returns a
        new model of these rows, such as `lambda X, Y: ChainedGP(X, Y, HetGaussian())`. Calls of it
        do not overlap.
    X, Y, Y_metadata : all rows (N, D), (N,) or (N, 1), and per-row values; each is sliced. Y may be
        labels of classes, as text or categories. A frame X may have columns that are no numbers;
        levels that not every fold has are best declared: `X["town"].astype("category")`.
    folds : number of folds of shuffled rows, or a list of (train, test) arrays of row numbers.
    fit : function that fits a model; None calls its `optimize(messages=False)`.
    level : of the central intervals whose coverage and mean width are reported.
    rng : int, Generator or None: the shuffling.
    num_threads : folds that run at once; None reads CHAINEDGP_NUM_THREADS, else uses all cores.
    messages : show progress; None shows it when a person is watching.

    Returns
    -------
    CrossValidation : a table; `print` it, or take `.frame()` for pandas.
    """
    Y_metadata = {} if Y_metadata is None else Y_metadata
    if not isinstance(Y_metadata, Mapping):
        raise InputError(
            f"Y_metadata must be a dict of per-row values; got {type(Y_metadata).__name__}."
        )
    check_order(X, Y, Y_metadata)
    inputs = as_inputs(X, columns=Columns.of(X))
    N = inputs.shape[0]
    X = inputs if column_names(X) is None else X  # A frame keeps the names of its columns.
    labels = labels_of(Y)
    y = as_targets(Y if labels is None else np.zeros(len(labels.values)), N)
    metadata = {
        key: as_row_values(value, f"Y_metadata[{key!r}]", N, unbounded=True)
        for key, value in Y_metadata.items()
    }
    level = fraction(level, "level")
    splits = _splits(folds, N, rng)
    followed, tau = _censoring(y, metadata)
    lock = threading.Lock()
    fit = fit or (lambda model: model.optimize(messages=False))

    def run(split: Split) -> tuple[list[float], Array]:
        """Fit to the rows outside one fold; scores and log-densities of the rows in it."""
        train, test = split
        given = (rows_of(metadata, train),) if metadata else ()
        with lock:  # paramz links parameters through shared state: models are built in turn.
            own = y[train] if labels is None else frame_rows(_column(Y), train)
            model = make_model(frame_rows(X, train), own, *given)
        model._use_threads(1)
        start = time.perf_counter()
        fit(model)
        seconds = time.perf_counter() - start
        held = rows_of(metadata, test)
        weights = held.pop(WEIGHTS, np.ones(len(test)))
        predictive = model.predictive(frame_rows(X, test), held)
        warn_of_unsaid(predictive.unsaid)
        names, number = predictive.class_names, predictive.num_classes
        if labels is not None or (number or 0) > 2:
            codes = y[test] if labels is None else coded(frame_rows(_column(Y), test), names, "Y")
            found = as_targets(codes, len(test))
            return _class_scores(predictive, found, int(number or 0), weights, seconds)
        return _scores(predictive, y[test], weights, level, seconds, followed, tau)

    log_density = np.full(N, np.nan)
    workers = min(len(splits), thread_count(num_threads))
    scores = []
    with (
        warnings.catch_warnings(),  # Filters belong to the whole process, not to a thread.
        one_blas_thread(),
        ThreadPoolExecutor(workers) as pool,
        _progress(len(splits), messages) as advance,
    ):
        warnings.simplefilter("ignore", MomentWarning)  # An infinite rmse tells it already.
        for (_, test), (row, values) in zip(splits, pool.map(run, splits), strict=True):
            scores.append(row)
            log_density[test] = values
            advance()
    names = NUMBERS if len(scores[0]) == len(NUMBERS) else CLASSES
    columns = dict(zip(names, np.array(scores).T, strict=True))
    index = tuple(f"fold {k + 1}" for k in range(len(splits)))
    footer = {"mean": [float(np.mean(column)) for column in columns.values()]}
    return CrossValidation(index, columns, footer, log_density)


def _censoring(y: Array, metadata: Mapping[str, Array]) -> tuple[Train | None, float | None]:
    """Rows and horizon for the weights of right-censored rows; None if no row is censored."""
    censored = metadata.get("censored", np.zeros(len(y)))
    if not (np.isin(censored, (EXACT, RIGHT)).all() and (censored == RIGHT).any()):
        return None, None
    train = (y, censored, metadata.get("entry"), metadata.get(WEIGHTS))
    return train, Censoring(*train).horizon


def _scores(
    predictive: Predictive,
    y: Array,
    weights: Array,
    level: float,
    seconds: float,
    train: Train | None,
    tau: float | None,
) -> tuple[list[float], Array]:
    """Scores of one fold of numeric targets, a row of the table; log p(y) of held-out rows."""
    log_density = predictive.logpdf(y[:, None])[:, 0]
    lower, upper = predictive.interval(level)
    code, absolute, square = codes_of(predictive), np.nan, np.nan
    some_known = (code == EXACT).any() or (y >= (np.inf if tau is None else tau)).any()
    if some_known and np.isin(code, (EXACT, RIGHT)).all():
        known = known_rows(predictive, y, "cross_validate", train, tau)
        total = weights * known.weights
        absolute = _mean(np.abs(median_of(predictive, known) - known.y), total)
        square = _mean((mean_of(predictive, known) - known.y) ** 2, total)
    row = [
        len(y),
        -_mean(log_density, weights),
        absolute,
        np.sqrt(square),
        _mean(inside_interval(predictive, y, level), weights),
        _mean((upper - lower)[:, 0], weights),
        seconds,
    ]
    return [float(value) for value in row], log_density


def _column(Y: Data) -> Data:
    """Class labels as folds can slice them by row: a series, an array or a one-column frame."""
    labels: Any = Y
    if hasattr(labels, "iloc") or type(labels).__name__ == "Series" or hasattr(labels, "columns"):
        return Y
    if hasattr(labels, "codes"):  # It is a pandas.Categorical.
        return Y
    return np.asarray(Y, dtype=object)


def _class_scores(
    predictive: Predictive, y: Array, number: int, weights: Array, seconds: float
) -> tuple[list[float], Array]:
    """Scores of one fold of classes, a row of the table, and log P(y) of the held-out rows."""
    log_p = predictive.logpdf(y[:, None])[:, 0]
    p = predictive.pdf(np.arange(float(number)))  # (n, K)
    truth = y[:, None] == np.arange(number)
    row = [
        len(y),
        -_mean(log_p, weights),
        _mean(1.0 * (np.argmax(p, axis=1) == y), weights),
        _mean(np.square(p - truth).sum(axis=1), weights),
        seconds,
    ]
    return [float(value) for value in row], log_p


def _mean(values: Array, weights: Array) -> float:
    """The mean of a score over held-out rows by their weights; nan if no row has a weight."""
    return float(np.average(values, weights=weights)) if weights.any() else np.nan


def _splits(folds: int | Sequence[Split], N: int, rng: Seed) -> list[Split]:
    """The folds of a cross-validation: indices of the rows to fit to and of those to score on."""
    if isinstance(folds, int | np.integer):
        number = positive_int(folds, "folds")
        if not 2 <= number <= N:
            raise InputError(f"folds must be from 2 to the number of rows, {N}; got {folds}.")
        tests = np.array_split(as_generator(rng).permutation(N), number)
        rows = np.arange(N)
        return [(np.setdiff1d(rows, test), np.sort(test)) for test in tests]
    pairs = [tuple(np.asarray(part) for part in pair) for pair in folds]
    for pair in pairs:
        if len(pair) != 2 or any(
            part.ndim != 1 or not part.size or part.dtype.kind not in "iu" for part in pair
        ):
            raise InputError("folds must be a number, or (train, test) arrays of row numbers.")
        if min(part.min() for part in pair) < 0 or max(part.max() for part in pair) >= N:
            raise InputError(f"folds has row numbers outside 0 to {N - 1}.")
        if np.intersect1d(*pair).size:
            raise InputError("folds has a fold that is scored on rows it is fitted to.")
    if not pairs:
        raise InputError("folds is empty: give a number, or (train, test) arrays of row numbers.")
    return [(train, test) for train, test in pairs]


@contextmanager
def _progress(total: int, messages: bool | None) -> Iterator[Callable[[], object]]:
    """Show a progress bar over folds if asked; gives the function to call after each fold."""
    if not shows_progress(messages):
        yield lambda: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc="folds", unit="fold", leave=False) as bar:
        yield bar.update
