"""scikit-learn estimators for regression and classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..data.rows import rows_of
from ..data.types import Data
from ..errors import InputError
from ..likelihoods import Likelihood, Softmax
from ..linalg import Array
from ..predictive.classes import class_probabilities
from .base import (
    BESIDE,
    ChainedGPEstimator,
    WithQuantiles,
    estimator,
    named_likelihood,
    rows_of_weight,
)


@estimator
class ChainedGPRegressor(RegressorMixin, WithQuantiles):
    """A regressor for scikit-learn: every parameter of the distribution may depend on x.

    y_i ~ p(y | f_1(x_i), …, f_b(x_i)), as in `ChainedGP`; `likelihood` says which p. Any shipped
    or own likelihood of numbers will do: counts, shares and positive values too. What it needs
    beside y is given by keyword, one value per row: `fit(X, y, exposure=e)`.

    Parameters and attributes: those of `chainedgp.sklearn.base.ChainedGPEstimator`, also under
    `__init__`.
    """

    likelihood: str | Likelihood = "het_gaussian"
    # scikit-learn can be told to hand over these names; it does not see those behind **metadata.
    __metadata_request__fit = __metadata_request__predict = __metadata_request__score = BESIDE

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # `score` is no R²; scikit-learn tests for 0.5.
        return tags

    def fit(
        self, X: Data, y: Data, sample_weight: Data | None = None, **metadata: Data
    ) -> ChainedGPRegressor:
        """Fit the regressor to X (n, D), y (n,), row weights (n,), the likelihood's metadata."""
        X, y, sample_weight, metadata = self._given(X, y, sample_weight, metadata)
        inputs, targets = self._checked(X, y, y_numeric=True)
        kept, weights = rows_of_weight(inputs, sample_weight)
        given = rows_of({key: np.asarray(value) for key, value in metadata.items()}, kept)
        likelihood = named_likelihood(self.likelihood)
        self._fit(inputs[kept], targets[kept].astype(float), likelihood, weights, given)
        return self

    def predict(
        self, X: Data, return_std: bool = False, **metadata: Data
    ) -> Array | tuple[Array, Array]:
        """The regressor's mean of new targets at X, (n,); with `return_std` also their sd.

        Where a mean does not exist it is inf, with a warning: `predict_quantiles` always works.
        """
        predictive = self._predictive(X, metadata)
        mean = self._shift + self._scale * predictive.mean[:, 0]
        if not return_std:
            return mean
        return mean, self._scale * np.sqrt(predictive.variance[:, 0])

    def score(self, X: Data, y: Data, sample_weight: Data | None = None, **metadata: Data) -> float:
        """Mean log predictive density of the regressor's rows, in units of y; higher is better."""
        return self._mean_log_density(X, column_or_1d(y).astype(float), sample_weight, metadata)


@estimator
class ChainedGPClassifier(ClassifierMixin, ChainedGPEstimator):
    """A classifier for scikit-learn, with Gaussian processes.

    Parameters
    ----------
    likelihood : None takes `Bernoulli` for two classes, and for more `Softmax` with the logit of
        the last class held at 0: logits are relative, and one latent less is faster.
        "softmax" has a latent for each class, "het_probit" is for two classes whose overlap
        depends on x, "ordinal" for classes in their sorted order; or a `Likelihood` of classes.

    Other parameters and attributes: those of `chainedgp.sklearn.base.ChainedGPEstimator`, also
    under `__init__`; `classes_` are the classes, sorted.
    """

    likelihood: str | Likelihood | None = None

    def fit(self, X: Data, y: Data, sample_weight: Data | None = None) -> ChainedGPClassifier:
        """Fit the classifier to X (n, D) and labels y (n,), with row weights (n,)."""
        X, y, sample_weight, _ = self._given(X, y, sample_weight, {})
        inputs, labels = self._checked(X, y)
        check_classification_targets(labels)
        kept, weights = rows_of_weight(inputs, sample_weight)
        self.classes_, codes = np.unique(labels[kept], return_inverse=True)
        K = len(self.classes_)
        if K < 2:
            one = labels[kept][0]
            raise InputError(f"y must have at least two classes; it has one class: {one!r}.")
        likelihood = self.likelihood
        if likelihood is None:
            likelihood = "bernoulli" if K == 2 else _softmax(K)
        likelihood = named_likelihood(likelihood, K)
        if not isinstance(likelihood, Likelihood) or likelihood.target_support.size != K:
            raise InputError(
                f"likelihood must be one of {K} classes, as y has {K}; got "
                f"{type(likelihood).__name__}. Leave it None to have one that suits y."
            )
        self._fit(inputs[kept], codes.astype(float), likelihood, weights, {})
        # Figures and frames of the model behind the estimator have the user's labels.
        self.model_.likelihood.class_names = tuple(map(str, self.classes_.tolist()))
        return self

    def predict_proba(self, X: Data) -> Array:
        """The classifier's class probabilities at X, (n, K), in the order of `classes_`."""
        return class_probabilities(self._predictive(X, {}), self.model_.likelihood)

    def predict_log_proba(self, X: Data) -> Array:
        """Logarithms of the classifier's `predict_proba`, (n, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Data) -> Array:
        """The class that the classifier finds most probable at X, (n,)."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def score(self, X: Data, y: Data, sample_weight: Data | None = None) -> float:
        """The classifier's mean log-probability of labels; −inf for one not in the fit."""
        check_is_fitted(self)
        codes = np.searchsorted(self.classes_, y)
        codes = np.where(np.isin(y, self.classes_), codes, len(self.classes_))
        padded = np.pad(self.predict_log_proba(X), ((0, 0), (0, 1)), constant_values=-np.inf)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(padded[np.arange(len(codes)), codes], weights=weights))


def _softmax(K: int) -> Likelihood:
    """The classifier's default for K > 2 classes, a softmax with the last logit at 0."""
    likelihood = Softmax(K).with_constant(f"logit_{K}", 0.0)
    likelihood.fix(warning=False)
    return likelihood
