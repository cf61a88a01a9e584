"""`m.effects(…)`: effects of the inputs on predictions as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...data.arguments import fraction, one_of, positive_int
from ...data.names import checks_names
from ...data.tables import Table
from ...data.types import Data, Frame, Metadata, Seed
from ...errors import InputError
from ...linalg import Array
from ...predictive.fitted import FittedModel
from ...sampling.averaged import Averaged
from ..components import contributions
from .dependence import (
    DRAWS,
    Dependence,
    averaged_dependence,
    individual_curves,
    partial_dependence,
)
from .flat import FLAT, latent_units
from .importance import importance
from .population import Groups, Population
from .quantities import ON_REQUEST, Quantity, central, chosen, is_constant, quantities

KINDS = ("importance", "average", "individual", "parts")
LEVEL = 0.95  # Bands, and the interval whose width is a quantity, have this probability.
FEW_LATENTS = 2  # Beyond, quantiles of a likelihood without closed moments take long.
NUM = 40  # An effect curve has this many points by default.


class Scene:
    """What all effects of one call share: the rows to average over, and the quantities to predict.

    The parameters are those of `ChainedGP.effects`. curve : whether the rows are for a curve, which
    takes more rows than importance.
    """

    def __init__(
        self,
        model: FittedModel,
        groups: Groups = None,
        rows: int | None = None,
        level: float = LEVEL,
        X: Data | None = None,
        Y_metadata: Metadata = None,
        curve: bool = False,
    ) -> None:
        self.model, self.level = model, fraction(level, "level")
        self.population = Population.of(model, groups, X, rows, Y_metadata, curve)
        self.known = quantities(model.likelihood, self.level, self.population.metadata)

    def central(self) -> list[str]:
        """Names of the quantities that stand for the target: its mean, median or probabilities.

        A likelihood without moments has its median, because they would be integrals over y for
        each row. It has its first latent where quantiles take long, too.
        """
        likelihood = self.model.likelihood
        if not (likelihood.has_moments or likelihood.target_support.num_classes):
            return ["median" if self._has_quantiles else likelihood.latents[0]]
        predictor, metadata = self.population.predictor, self.population.metadata
        return central(self.known, predictor.distribution(self.population.X, metadata))

    @property
    def _has_quantiles(self) -> bool:
        """Whether predictive quantiles of many rows take no more than a few seconds."""
        likelihood = self.model.likelihood
        few = len(likelihood.latents) <= FEW_LATENTS
        return likelihood.has_cdf and (few or likelihood.has_moments)

    def listed(self, of: str | Sequence[str] | None) -> list[Quantity]:
        """Quantities whose effects are asked for; None is all that vary, the central first."""
        if of is not None:
            return chosen(self.known, of)
        first = self.central()
        likelihood, left_out = self.model.likelihood, [*first, *ON_REQUEST]
        if likelihood.target_support.num_classes is None:
            left_out += ["mean"] if first == ["median"] or not likelihood.has_moments else []
            left_out += [] if self._has_quantiles else ["width"]
        several = [name for name in self.known if name.startswith("P(")] or first
        # If the mean is itself a latent, that latent is not listed again.
        drawn = {self.known[name].latent for name in several} - {None}
        rest = [
            name
            for name, quantity in self.known.items()
            if name not in (*several, *left_out) and quantity.latent not in drawn
        ]
        rest = [name for name in rest if not self._is_constant(self.known[name])]
        return chosen(self.known, [*several, *rest])

    def _is_constant(self, quantity: Quantity) -> bool:
        """Whether no latent moves a quantity, so that no input has an effect on it."""
        return is_constant(quantity, self.model.likelihood, self.population.metadata)

    def one(self, of: str | None) -> Quantity:
        """The one quantity that an effect curve shows; None is the central one."""
        names = self.central() if of is None else [of]
        if len(names) > 1:
            raise InputError(f"say which probability: of must be one of {', '.join(names)}.")
        return chosen(self.known, names)[0]

    def values(self, columns: list[int], values: Data | None, num: int) -> Array:
        """Values (k, c) of some columns at which to evaluate an effect: those given, or a grid."""
        if values is None:
            return self.population.shown_values(columns, num)
        read = self.population.read[columns[0]]
        try:
            if len(columns) == 1:
                values = [read.number(value) for value in np.asarray(values).ravel()]
            given = np.array(values, dtype=float)
        except (TypeError, ValueError):
            given = np.empty(0)
        given = given.reshape(-1, 1) if len(columns) == 1 else np.atleast_2d(given)
        if given.shape[1:] != (len(columns),) or not (given.size and np.isfinite(given).all()):
            raise InputError(
                f"values must be finite numbers, {len(columns)} for each point; got {values!r}."
            )
        return given

    def dependence(
        self,
        columns: list[int],
        at: Array,
        quantity: Quantity,
        draws: int = DRAWS,
        rng: Seed = 0,
        over: Averaged | None = None,
    ) -> Dependence:
        """Partial dependence with its band, at fitted hyperparameters or averaged over several."""
        rest = columns, at, quantity, self.level, draws, rng
        if over is None:
            return partial_dependence(self.population, *rest)
        return averaged_dependence(self.population, over, *rest)


@checks_names
def effects(
    model: FittedModel,
    input: int | str | None = None,
    of: str | Sequence[str] | None = None,
    *,
    kind: str | None = None,
    groups: Groups = None,
    values: Data | None = None,
    num: int = NUM,
    rows: int | None = None,
    level: float = LEVEL,
    draws: int = DRAWS,
    rng: Seed = 0,
    X: Data | None = None,
    Y_metadata: Metadata = None,
    over: Averaged | None = None,
) -> Frame | Table:
    """What drives the mean, and what drives the noise: effects of inputs as a data frame.

        m.effects()                               # every input, every quantity: shares
        m.effects(of="mean")                      # every input for the mean, largest first
        m.effects("temperature", of="scale")      # how the scale depends on one input
        m.effects("temperature", kind="individual")   # the same, for each row
        m.effects(kind="parts")                   # what the parts of kernels contribute

    Quantities are the mean (or the median, if there is no mean), the "width" of the central
    interval, all latents and all parameters of the distribution that are no constants; for
    classes "P(…)" of each. "median", "noise" and "ignorance" (the parts of the predictive
    variance) are computed only if `of` names them. A mean that takes an integral for each row, as
    that of `BoxCoxT`, gives way to the median. Where quantiles take long too, with three or
    more latents or if there is only a density, the table has latents and parameters alone.
    `of` names what is wanted beside that.

    For the importance of an input, its values are replaced by other observed values, while the
    other inputs of each row stay as they are. "total" is the share of the quantity's variance
    that is due to the input, "alone" the part of this share that does not depend on other
    inputs (total and first-order indices of Sobol). "sd" is the root of the variance that is
    due to the input, in the unit of the quantity.

    Partial dependence is the average prediction over the rows, with one value of the input in
    all of them. The column "value" has these values, a column with the name of the quantity the
    averages. "low" and "high" are the ends of a credible band of the average, which accounts for
    correlations between rows; it is exact for latents, else from joint draws. The width and the
    median have no band, because they already include the uncertainty.

    Parameters
    ----------
    input : index or name of an input, or the name of a group; None judges all.
    of : name of a quantity; for importance also several, and None is all of them.
    kind : "importance", "average", "individual" or "parts"; None is the first without an
        input and the second with one.
    groups : {name: inputs} that change together, such as the columns of one category.
    values : values of the input, (k,); for a group (k, columns). None takes all values of an
        input of up to 8, else `num` from the 1 % to the 99 % quantile.
    rows : the largest number of rows to average over, chosen at random with a fixed seed. None
        is 200 for the importance and 1,000 for a curve; 100 and 400 for two latents, and 25 and
        50 for more. Weights of rows count.
    level : probability of the bands, and of the interval whose width is judged.
    draws, rng : number of joint draws for bands, and their seed or Generator.
    X : rows to average over; None takes those of the model.
    Y_metadata : one value each for all rows, such as an exposure, at which the mean and other
        quantities of the target are computed; None takes medians of the data. The frame's
        `attrs["Y_metadata"]` has the values.
    over : `m.over_hyperparameters()` or `m.sample()`, to average partial dependence over their
        points. None uses the bands of the model itself.

    Returns
    -------
    A pandas DataFrame; where pandas is not installed a `Table`, which has the same columns.
    """
    kind = one_of(kind or ("importance" if input is None else "average"), KINDS, "kind")
    if (input is None) != (kind in ("importance", "parts")):
        raise InputError(
            f"kind={kind!r} {'needs an input' if input is None else 'is of all inputs at once'}."
        )
    if isinstance(input, (list, tuple)):
        raise InputError(
            f"input is one input, or the name of a group; got {input!r}. Inputs that change "
            'together are a group: groups={"name": [inputs]}, and "name" as the input.'
        )
    if over is not None and kind != "average":
        raise InputError(f"over=… is for kind='average' alone; got kind={kind!r}.")
    scene = Scene(model, groups, rows, level, X, Y_metadata, curve=input is not None)
    if kind == "parts":
        return _parts(scene)
    if input is None:
        return _importance(scene, of)
    columns = scene.population.columns[scene.population.place(model, input)]
    quantity = scene.one(one_name(of))
    at = scene.values(columns, values, positive_int(num, "num"))
    labels = scene.population.labels(columns, at)
    if kind == "individual":
        curves = individual_curves(scene.population, columns, at, quantity)  # (k, n)
        k, n = curves.shape
        numbers = scene.population.numbers
        if X is None:
            numbers = model.kept_rows[numbers]
        table = {"row": np.repeat(numbers, k), "value": np.tile(labels, n)}
        table[_own_column(quantity)] = curves.T.ravel()
        return as_frame(table, metadata=scene.population.metadata)
    found = scene.dependence(columns, at, quantity, draws, rng, over)
    table = {"value": labels, _own_column(quantity): found.mean}
    if found.low is not None and found.high is not None:
        table.update(low=found.low, high=found.high)
    return as_frame(table, metadata=scene.population.metadata)


def _own_column(quantity: Quantity) -> str:
    """Name of the column that has a quantity along an input: its own, unless that is taken."""
    return "average" if quantity.name in ("row", "value", "low", "high") else quantity.name


def one_name(of: str | Sequence[str] | None) -> str | None:
    """Check that `of` is the name of one quantity, whose effect a curve shows, or None."""
    if of is not None and not isinstance(of, str):
        raise InputError(f"of must be the name of one quantity for a curve; got {of!r}.")
    return of


def _importance(scene: Scene, of: str | Sequence[str] | None) -> Frame | Table:
    """Importance of all inputs: shares for several quantities, or all measures of one, sorted."""
    found, metadata = importance(scene.population, scene.listed(of)), scene.population.metadata
    if not isinstance(of, str):
        shares = dict(zip(found.quantities, found.total.T, strict=True))
        return as_frame(shares, found.inputs, metadata)
    order = np.argsort(-found.sd[:, 0], kind="stable")
    total, alone, sd = (part[order, 0] for part in (found.total, found.alone, found.sd))
    index = [found.inputs[i] for i in order]
    return as_frame({"total": total, "alone": alone, "sd": sd}, index, metadata)


def _parts(scene: Scene) -> Frame | Table:
    """How much each additive part of each latent's kernel contributes over the rows, as a frame."""
    population = scene.population
    x = population.X[len(population.X) // 2][None]
    least = FLAT * latent_units(population.predictor, x, population.metadata)
    table = contributions(population.predictor, population.X, population.weights, least)
    return as_frame(table)


def as_frame(
    columns: Mapping[str, np.ndarray],
    index: Sequence[str] | None = None,
    metadata: Mapping[str, Data] | None = None,
) -> Frame | Table:
    """Return columns as a pandas DataFrame, or as a `Table` where pandas is not installed.

    metadata : values that all rows of an effect share, which a DataFrame keeps in its `attrs`.
    """
    try:
        import pandas
    except ImportError:
        size = len(next(iter(columns.values())))
        return Table(tuple(index or map(str, range(size))), dict(columns), {})
    frame = pandas.DataFrame(dict(columns), index=None if index is None else list(index))
    if metadata:
        shared = {key: float(np.asarray(value)) for key, value in metadata.items()}
        frame.attrs["Y_metadata"] = shared
    return frame
