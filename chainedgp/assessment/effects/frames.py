"""`m.effects(…)`: effects as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...data.arguments import fraction, one_of, positive_int
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
from .importance import importance
from .population import Groups, Population
from .quantities import ON_REQUEST, Quantity, central, chosen, quantities

KINDS = ("importance", "average", "individual", "parts")
LEVEL = 0.95  # Bands, and the interval whose width is judged, have this probability.
NUM = 40  # A curve has so many points.


class Scene:
    """What all effects of one call share: the rows to average over, and the quantities.

    Parameters are those of `ChainedGP.effects`, and whether rows are for a curve.
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
        """Names of what stands for the target itself: its mean, median or probabilities.

        Of a likelihood that is known by its density alone the first latent, since moments are
        integrals over y for each row.
        """
        if self._by_density:
            return [self.model.likelihood.latents[0]]
        predictor, metadata = self.population.predictor, self.population.metadata
        return central(self.known, predictor.distribution(self.population.X, metadata))

    @property
    def _by_density(self) -> bool:
        likelihood = self.model.likelihood
        known = likelihood.has_moments and likelihood.has_cdf
        return not known and likelihood.target_support.num_classes is None

    def listed(self, of: str | Sequence[str] | None) -> list[Quantity]:
        """The quantities asked for; None is all that are always defined, the central one first."""
        if of is not None:
            return chosen(self.known, of)
        first = self.central()
        left_out = [*first, *ON_REQUEST, *(["mean"] if first == ["median"] else [])]
        left_out += ["mean", "width"] if self._by_density else []
        several = [name for name in self.known if name.startswith("P(")] or first
        drawn = {self.known[name].latent for name in several} - {None}  # A mean may be a latent.
        rest = [
            name
            for name, quantity in self.known.items()
            if name not in (*several, *left_out) and quantity.latent not in drawn
        ]
        return chosen(self.known, [*several, *rest])

    def one(self, of: str | None) -> Quantity:
        """The one quantity of a curve; None is the central one."""
        names = self.central() if of is None else [of]
        if len(names) > 1:
            raise InputError(f"say which probability: of must be one of {', '.join(names)}.")
        return chosen(self.known, names)[0]

    def values(self, columns: list[int], values: Data | None, num: int) -> Array:
        """Values (k, c) of some columns: as given, or those to show."""
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
        """Partial dependence with its band, at fitted hyperparameters or averaged over some."""
        rest = columns, at, quantity, self.level, draws, rng
        if over is None:
            return partial_dependence(self.population, *rest)
        return averaged_dependence(self.population, over, *rest)


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
    """Effects as a data frame; see `ChainedGP.effects`."""
    kind = one_of(kind or ("importance" if input is None else "average"), KINDS, "kind")
    if (input is None) != (kind in ("importance", "parts")):
        raise InputError(
            f"kind={kind!r} {'needs an input' if input is None else 'is of all inputs at once'}."
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
        return as_frame(
            {
                "row": np.repeat(scene.population.numbers, k),
                "value": np.tile(labels, n),
                "mean": curves.T.ravel(),
            }
        )
    found = scene.dependence(columns, at, quantity, draws, rng, over)
    table = {"value": labels, "mean": found.mean}
    if found.low is not None and found.high is not None:
        table.update(low=found.low, high=found.high)
    return as_frame(table)


def one_name(of: str | Sequence[str] | None) -> str | None:
    """The name of the one quantity that a curve is of, or None."""
    if of is not None and not isinstance(of, str):
        raise InputError(f"of must be the name of one quantity for a curve; got {of!r}.")
    return of


def _importance(scene: Scene, of: str | Sequence[str] | None) -> Frame | Table:
    """Shares of all inputs for several quantities, or all that is known of one, largest first."""
    found = importance(scene.population, scene.listed(of))
    if not isinstance(of, str):
        shares = dict(zip(found.quantities, found.total.T, strict=True))
        return as_frame(shares, found.inputs)
    order = np.argsort(-found.sd[:, 0], kind="stable")
    total, alone, sd = (part[order, 0] for part in (found.total, found.alone, found.sd))
    index = [found.inputs[i] for i in order]
    return as_frame({"total": total, "alone": alone, "sd": sd}, index)


def _parts(scene: Scene) -> Frame | Table:
    """What each part of each latent's kernel contributes, over the rows."""
    population = scene.population
    table = contributions(population.predictor, population.X, population.weights)
    return as_frame(table)


def as_frame(
    columns: Mapping[str, np.ndarray], index: Sequence[str] | None = None
) -> Frame | Table:
    """Columns as a pandas DataFrame; where pandas is not installed as a `Table`."""
    try:
        import pandas
    except ImportError:
        size = len(next(iter(columns.values())))
        return Table(tuple(index or map(str, range(size))), dict(columns), {})
    return pandas.DataFrame(dict(columns), index=None if index is None else list(index))
