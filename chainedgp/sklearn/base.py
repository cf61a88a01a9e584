"""What all scikit-learn estimators share: rows, weights, units, the fit, predictions in units of y.

Where `standardize` says so the model works in units of its own, (x − centre)/spread and
z = (y − shift)/scale with p(y) = p(z)/scale. What leaves an estimator is in the user's units.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .. import likelihoods
from ..data.arguments import one_of
from ..data.columns import Boolean, Category, Columns, Number
from ..data.frames import check_numbers, frame_like, in_order
from ..data.kinds import SET_UNSEEN
from ..data.rows import WEIGHTS
from ..data.types import Data
from ..errors import CensoringWarning, ConvergenceWarning, InputError, warn
from ..inference.starts import input_spread
from ..likelihoods import Likelihood
from ..linalg import Array
from ..model import ChainedGP
from ..model.arguments import Kernels, Means, kinds_of_inputs
from ..posterior.choice import PosteriorName
from ..predictive.distribution import Predictive
from .gaps import ADVICE, without_gaps

Estimator = TypeVar("Estimator", bound="ChainedGPEstimator")


class EstimatorConvergenceWarning(ConvergenceWarning, SklearnConvergenceWarning):
    """The convergence warning of this package and of scikit-learn: filters of either know it."""


IN_UNITS_OF_Y = ("y_upper", "entry", "rounding")  # These metadata are in the unit of y.
# Shipped likelihoods take these metadata; scikit-learn can be told to hand them to the methods.
BESIDE = dict.fromkeys(("censored", "entry", "exposure", "rounding", "trials", "y_upper"))
UNSCALED = (Category, Boolean)  # Columns of these kinds `standardize` leaves as they are.
STANDARDISED = " (standardised)"  # Names of columns in units other than the user's end so.
ROUTING = (
    " In searches and cross-validation scikit-learn hands it to score only with metadata routing: "
    "sklearn.set_config(enable_metadata_routing=True) and "
    "estimator.set_fit_request({0}).set_score_request({0})."
)
# The classes of ABSTRACT are no likelihoods by themselves; others of NOT_BY_NAME need arguments.
ABSTRACT = ("Likelihood", "Survival")
NOT_BY_NAME = (*ABSTRACT, "ConstantLatent", "Hurdle", "Inflated", "ScipyLikelihood")


def named_likelihood(likelihood: str | Likelihood, num_classes: int | None = None) -> Likelihood:
    """An estimator's likelihood as given, or a shipped one by its name, "het_student_t"."""
    if not isinstance(likelihood, str):
        return likelihood
    plain = likelihood.replace("_", "").lower()
    classes = {name.lower(): name for name in likelihoods.__all__}
    if plain not in classes or classes[plain] in ABSTRACT:
        names = {key: _snake(name) for key, name in classes.items() if name not in NOT_BY_NAME}
        close = [repr(names[key]) for key in get_close_matches(plain, names)]
        raise InputError(
            f"likelihood must be a Likelihood or the name of one; got {likelihood!r}. "
            + (f"Did you mean {' or '.join(close)}? " if close else "")
            + f"Names: {', '.join(names.values())}."
        )
    name = classes[plain]
    cls = getattr(likelihoods, name)
    with_classes = num_classes is not None and cls in (likelihoods.Softmax, likelihoods.Ordinal)
    try:
        made: Likelihood = cls(num_classes) if with_classes else cls()
    except (TypeError, InputError) as error:
        raise InputError(
            f"likelihood {likelihood!r} needs arguments ({error}): give an object, {name}(…)."
        ) from None
    return made


def _snake(name: str) -> str:
    """HetStudentT as het_student_t, GEVShape as gev_shape."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(eq=False, repr=False)
class ChainedGPEstimator(BaseEstimator):
    """The base of all scikit-learn estimators here: what they take and have.

    Parameters
    ----------
    likelihood : a `Likelihood`, or the name of a shipped one, "het_student_t".
    kernels, mean_functions : as for `ChainedGP`: None, one, or one per latent function.
    num_inducing : number of inducing inputs, at most; None has the fit choose it, as for
        `ChainedGP`.
    priors : "auto", "default" or None, as for `ChainedGP`: priors of kernels that are not given, of
        all, or none.
    ties : "auto", "spread" or None, as for `ChainedGP`: how repeated targets are taken.
    posterior : "auto", "mean_field" or "joint", as for `ChainedGP`.
    standardize : fit in standardised units. X is centred and scaled by column; y too if it is
        real-valued, while positive y is only scaled; counts, classes and values in (0, 1) stay.
        Kernels, and values given to the likelihood, are then in these units.
    max_iter : most iterations of the fit, as many as `ChainedGP.optimize` has by default; a fit
        that needs more warns, with scikit-learn's ConvergenceWarning too.
    batch_size, epochs : rows in a minibatch and passes over the data, for many rows; None uses all
        rows at once.
    num_threads : threads of the fit; None uses all cores.
    random_state : int, RandomState or None: shuffles minibatches, nothing else.
    unseen, periodic : as for `ChainedGP`: what to do with levels of categories that were not in the
        fit, and seasons of columns, by their names.
    missing : "raise", or "drop" to fit without the rows whose target or an input is missing.
        Predictions need all inputs of a row in any case.

    X may be a data frame with text, categories, truth values and dates, which are read as
    `ChainedGP` does. With `standardize` categories and truth values stay as they are.

    Attributes
    ----------
    model_ : the fitted `ChainedGP`; if `standardize`, in standardised units, and the columns of a
        frame are then called so: predict and plot with data in these units alone.
    result_ : how the fit ended.
    n_iter_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    """

    likelihood: Any
    kernels: Kernels = None
    mean_functions: Means = None
    num_inducing: int | None = None
    priors: str | None = "auto"
    ties: str | None = "auto"
    standardize: bool = False
    max_iter: int = 1000
    batch_size: int | None = None
    epochs: float | None = None
    num_threads: int | None = None
    random_state: Any = None
    posterior: PosteriorName = "auto"
    unseen: str = "raise"
    periodic: Any = None
    missing: str = "raise"

    # ---- fit ------------------------------------------------------------------------------------

    def _given(
        self, X: Data, y: Data, sample_weight: Data | None, metadata: Mapping[str, Data]
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """What a fit was given; with missing="drop" that of the rows without gaps."""
        if one_of(self.missing, ("raise", "drop"), "missing") == "raise":
            return X, y, sample_weight, dict(metadata)
        return without_gaps(X, y, sample_weight, metadata)

    def _checked(self, X: Data, *y: Data, reset: bool = True, **options: Any) -> Any:
        """X, or X and y, as scikit-learn checks them; what is no number is read as one first."""
        if reset:
            self._columns = Columns.of(X, "X", self.unseen)
        columns: Columns | None = getattr(self, "_columns", None)
        if hasattr(X, "collect"):
            check_numbers(X, "X", "")  # It is a lazy frame, which has an error of its own.
        if columns is not None and hasattr(X, "columns"):
            try:
                values = columns.read(in_order(X, columns.names, "X"), "X")
            except InputError as error:
                words = str(error).replace(SET_UNSEEN, 'fit with unseen="prior"')
                raise InputError(words) from None
            X = frame_like(X, dict(zip(columns.names, values.T, strict=True)))
        try:
            return validate_data(self, X, *y, reset=reset, dtype=np.float64, **options)
        except ValueError as error:
            which = re.match(r"Input (X|y) contains NaN", str(error))
            if which is None:
                raise
            parts = [f"{which[1]} has missing values (NaN): a row needs all of its values."]
            if reset:
                parts.append('To leave out such rows, create the estimator with missing="drop".')
            parts += [ADVICE] if which[1] == "X" else []
            raise InputError(" ".join(parts)) from None

    def _names(self) -> list[str] | Columns | None:
        """Names of the estimator's inputs for its model, or how they were read, in its units."""
        if self._columns is None:
            names = getattr(self, "feature_names_in_", None)
            return None if names is None else list(names)
        if not self.standardize:
            return self._columns
        # What was scaled is a plain number; levels and truth values stay.
        each = self._columns.each
        return Columns(tuple(c if isinstance(c, UNSCALED) else Number(c.name) for c in each))

    def _model_names(self, names: Sequence[str]) -> list[str]:
        """Names of the estimator's inputs that say which are in units other than the user's."""
        each = [None] * len(names) if self._columns is None else self._columns.each
        return [
            name if isinstance(column, UNSCALED) else f"{name}{STANDARDISED}"
            for name, column in zip(names, each, strict=True)
        ]

    def _periods(self) -> Any:
        """Seasons as the user gave them or, of scaled columns, by number in the model's units."""
        if self.periodic is None or not self.standardize:
            return self.periodic
        names = getattr(self, "feature_names_in_", None)
        known = None if names is None else [str(name) for name in names]
        found: dict[int, list[float]] = {}
        inputs = kinds_of_inputs(self._columns, known, self._spread.size, self.periodic)
        for column, period in inputs.seasons:
            found.setdefault(column, []).append(period / float(self._spread[column]))
        return found

    def _fit(
        self,
        X: Array,
        y: Array,
        likelihood: Likelihood,
        weights: Array,
        metadata: Mapping[str, Data],
    ) -> None:
        """Build and fit the estimator's model on rows of positive weight."""
        self._fit_metadata = sorted(metadata)
        X, y, weights, metadata = _merged(X, y, weights, metadata)
        self._set_units(X, y, weights, likelihood)
        given = self._scaled_metadata(metadata)
        if not (weights == 1.0).all():
            given[WEIGHTS] = weights
        self.model_ = ChainedGP(
            self._scaled_X(X),
            (y - self._shift) / self._scale,
            likelihood,
            kernels=self.kernels,
            mean_functions=self.mean_functions,
            Y_metadata=given,
            num_inducing=self.num_inducing,
            priors=self.priors,
            ties=self.ties,
            num_threads=self.num_threads,
            input_names=self._names(),
            posterior=self.posterior,
            unseen=self.unseen,
            periodic=self._periods(),
        )
        names = self.model_.input_names
        if self.standardize and names is not None:  # The model then refuses frames in other units.
            self.model_.rename_inputs(self._model_names(names))
        options: dict[str, Any] = {}
        if self.batch_size is not None:
            seed = self.random_state
            if hasattr(seed, "randint"):
                seed = int(seed.randint(2**31))
            options = {"batch_size": self.batch_size, "epochs": self.epochs, "rng": seed}
        with warnings.catch_warnings():  # An estimator has warnings of its own, below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", CensoringWarning)
            self.result_ = self.model_.optimize(messages=False, max_iters=self.max_iter, **options)
        own = self.model_.likelihood
        if own.event_times and "censored" in own.metadata_names and "censored" not in given:
            warn(
                f"{type(own).__name__} takes all times as times of events. If some are censored, "
                "write fit(X, y, censored=c), where c is 1 for a row that ended without its event "
                "and 0 for an event. censored=0 says that all events were seen. ChainedGPSurvival "
                "takes events and times together.",
                CensoringWarning,
            )
        if self.result_.status == "stopped":
            scaling = ", or with standardize=True if inputs differ much in scale"
            scaling = "" if self.standardize else scaling
            warn(
                f"{type(self).__name__} stopped before convergence: {self.result_.reason}. It "
                "predicts with the best parameters seen. To go further, fit again with a larger "
                f"max_iter={10 * self.max_iter}{scaling}.",
                EstimatorConvergenceWarning,
            )
        self.n_iter_ = max(1, self.result_.iterations)

    def _set_units(self, X: Array, y: Array, weights: Array, likelihood: Likelihood) -> None:
        """Set the estimator's units: centre and spread of X, (D,), shift and scale of y."""
        self._centre, self._spread = np.zeros(X.shape[1]), np.ones(X.shape[1])
        self._shift, self._scale = 0.0, 1.0
        if not self.standardize:
            return
        self._centre = np.average(X, axis=0, weights=weights)
        self._spread = input_spread(X)
        each = () if self._columns is None else self._columns.each
        kept = [d for d, column in enumerate(each) if isinstance(column, UNSCALED)]
        self._centre[kept], self._spread[kept] = 0.0, 1.0
        if not isinstance(likelihood, Likelihood) or likelihood.atoms:
            return  # To scale y would move an atom, such as 0.
        support, mean = likelihood.target_support, float(np.average(y, weights=weights))
        if support.whole_line:
            deviation = float(np.sqrt(np.average((y - mean) ** 2, weights=weights)))
            self._shift, self._scale = mean, deviation or 1.0
        elif support.continuous and not support.bounded:
            self._scale = abs(mean) or 1.0

    def _scaled_X(self, X: Array) -> Array:
        return (X - self._centre) / self._spread

    def _scaled_metadata(self, metadata: Mapping[str, Data]) -> dict[str, Data]:
        return {
            key: np.asarray(value) / self._scale if key in IN_UNITS_OF_Y else value
            for key, value in metadata.items()
        }

    # ---- predictions ----------------------------------------------------------------------------

    def _predictive(self, X: Data, metadata: Mapping[str, Data]) -> Predictive:
        """The estimator's predictive distribution at X, of y in the model's units."""
        check_is_fitted(self)
        inputs = self._checked(X, reset=False)
        return self.model_.predictive(self._scaled_X(inputs), self._scaled_metadata(metadata))

    def _log_density(self, X: Data, y: Array, metadata: Mapping[str, Data]) -> Array:
        """The estimator's log p(y) of rows (n,), of what was seen where they are censored."""
        missing = [key for key in self._fit_metadata if key not in metadata]
        if missing:
            routed = ", ".join(f"{key}=True" for key in missing if key in BESIDE)
            advice = ROUTING.format(routed) if routed else ""
            raise InputError(
                f"score needs {', '.join(missing)}, which fit was given, one value per row.{advice}"
            )
        z = (y - self._shift) / self._scale
        value = self._predictive(X, metadata).logpdf(z[:, None])[:, 0]
        # Censored rows have probabilities, which have no unit, instead of densities.
        exact = np.asarray(metadata.get("censored", 0)) == 0
        return value - np.where(exact, np.log(self._scale), 0.0)

    def _mean_log_density(
        self, X: Data, y: Array, sample_weight: Data | None, metadata: Mapping[str, Data]
    ) -> float:
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(self._log_density(X, y, metadata), weights=weights))


@dataclass_transform(eq_default=False)
def estimator(cls: type[Estimator]) -> type[Estimator]:
    """Decorate a scikit-learn estimator: give `__init__` the fields of `ChainedGPEstimator`.

    The fields of the class itself are added to them.

    scikit-learn reads an estimator's parameters and their defaults from the signature of
    `__init__`, which a dataclass writes from the fields: a class declares only the field whose
    default is another one. Comparison and printing stay scikit-learn's; `help` of the class shows
    the parameters under `__init__`.
    """
    made = dataclass(eq=False, repr=False)(cls)
    made.__init__.__doc__ = ChainedGPEstimator.__doc__
    return made


class WithQuantiles(ChainedGPEstimator):
    """A scikit-learn estimator of ordered targets, which predicts quantiles."""

    def predict_quantiles(
        self, X: Data, quantiles: float | Sequence[float] = (0.025, 0.5, 0.975), **metadata: Data
    ) -> Array:
        """The estimator's quantiles of new targets at X, (n, k), for k fractions in (0, 1)."""
        q = np.asarray(quantiles, dtype=float)
        if q.ndim > 1 or not ((q > 0.0) & (q < 1.0)).all():
            raise InputError(
                "quantiles must be fractions strictly between 0 and 1, such as 0.5 for the median; "
                f"got {quantiles!r}."
            )
        return self._shift + self._scale * self._predictive(X, metadata).ppf(q)


def rows_of_weight(X: Array, sample_weight: Data | None) -> tuple[Array, Array]:
    """Rows of an estimator's fit that count, (n,) of booleans, and the sample weights of these."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = weights > 0.0
    if not kept.any():
        raise InputError("sample_weight must have a weight that is not zero; all are zero.")
    return kept, weights[kept]


def _merged(
    X: Array, y: Array, weights: Array, metadata: Mapping[str, Data]
) -> tuple[Array, Array, Array, dict[str, Array]]:
    """Merge equal rows of an estimator's fit to one with the sum of weights: the same bound.

    Rows are sorted.

    So a weight of 2 and a row given twice are the same to the last bit, in any order of rows.
    """
    names = list(metadata)
    columns = [np.broadcast_to(np.ravel(metadata[key]), y.shape) for key in names]
    table = np.column_stack([X, y, *columns])
    unique, index = np.unique(table, axis=0, return_inverse=True)
    D = X.shape[1]
    values = {key: unique[:, D + 1 + k] for k, key in enumerate(names)}
    total: Array = np.bincount(index.ravel(), weights).astype(float)
    return unique[:, :D], unique[:, D], total, values
