"""z-scores of rows under a fitted model: quantile residuals Φ⁻¹(F(y | x)), for every likelihood."""

from __future__ import annotations

from ..data.frames import check_order
from ..data.names import checks_names
from ..data.rows import as_metadata, as_targets
from ..data.types import Data, Metadata, Seed
from ..errors import InputError
from ..linalg import Array
from ..predictive.fitted import FittedModel
from ..predictive.inputs import need_rows
from .metrics import quantile_residuals


@checks_names
def z_scores(
    model: FittedModel,
    Xnew: Data | None = None,
    Ynew: Data | None = None,
    Y_metadata: Metadata = None,
    rng: Seed = 0,
) -> Array:
    """z-scores of new subjects, Φ⁻¹(F(y | x)), (n,): standard normal if the model is right.

    A z-score of −2 means that 2.3 % of subjects with the same inputs have a lower value. None
    takes the data of the fit; their z-scores are the quantile residuals. For counts, atoms and
    censored rows F(y) is drawn at random from the values that it may have, by `rng`; see
    `metrics.quantile_residuals`.
    """
    X, Y = Xnew, Ynew
    if (X is None) != (Y is None):
        raise InputError("give both inputs and targets, or neither for the data of the fit.")
    if not model.likelihood.target_support.ordered:
        raise InputError("classes have no order: z-scores are of numbers.")
    if X is None or Y is None:
        need_rows(model, "X and Y")
        X, Y, Y_metadata = model.X, model.Y, model.Y_metadata
    check_order(X, Y, Y_metadata)
    X = model._predictor().inputs(X, "Xnew")
    y = as_targets(Y, len(X), "Ynew")
    given, _ = as_metadata(Y_metadata, model.likelihood, len(X))
    model.likelihood.check_rows(y, **given)
    return quantile_residuals(model.predictive(X, given), y, rng)
