"""Competing risks: one model of event times for each cause, the other causes censored."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..assessment.kaplan_meier import cause_codes
from ..data.arguments import as_band
from ..data.frames import check_same_rows
from ..data.rows import as_targets
from ..data.types import Data, FilePath, Metadata
from ..errors import InputError
from ..expectations import quadrature
from ..inference.result import OptimizationResult
from ..likelihoods import Likelihood
from ..likelihoods.observation import OBSERVATION
from ..linalg import Array
from ..model import ChainedGP
from ..model.arguments import Kernels
from ..model.persistence import load
from ..plotting.incidence import draw_incidences
from ..posterior.choice import PosteriorName
from ..predictive.distribution import Predictive
from ..predictive.mixtures import GaussianLatents
from .incidence import Incidences, TimePanels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWS = 512
"""The percentiles of an incidence's band are those of so many Sobol points of the latents."""
NODES, MANY, WIDE = {1: 40, 2: 14}, 7, 0.5
"""Quadrature nodes for each latent in averages over q: for one or two latents of a model, and MANY
for more.

One or two latents get three times as many where a standard deviation is above WIDE.
"""
BLOCK = 2**22
"""Arrays of draws × rows × times have about so many numbers at a time."""

NAMES = "causes.json"
"""In a folder of saved models this file has the names of the causes, in order."""

Bands: TypeAlias = tuple[float, float]
Estimate: TypeAlias = Array | tuple[Array, Array, Array]
Models: TypeAlias = Mapping[str, ChainedGP] | Mapping[int, ChainedGP] | Mapping[Hashable, ChainedGP]
Curves: TypeAlias = Mapping[str, Array] | Mapping[int, Array] | Mapping[Hashable, Array]
Likelihoods: TypeAlias = (
    Mapping[str, Likelihood] | Mapping[int, Likelihood] | Mapping[Hashable, Likelihood]
)


class CompetingRisks:
    """Competing risks: several events of which the first ends the follow-up, a model for each.

    The model of cause k has hazard h_k(t | x); events of other causes are censored times in it.
    Then, with the models independent of each other,

        S(t) = Π_k S_k(t),    F_k(t) = ∫₀ᵗ h_k(u) S(u) du,    Σ_k F_k(t) + S(t) = 1,

    where F_k is the cumulative incidence: the probability of an event of cause k by time t. The
    integrand h_k S is computed as p_k Π_{j≠k} S_j, where all factors are predictive: averaged over
    q. S_k alone is survival in a world without the other causes, which the data cannot show.

    Parameters
    ----------
    models : cause, a name or a number -> `ChainedGP` of event times. All have the same inputs.
        `CompetingRisks.from_data` builds them.

    Attributes
    ----------
    models : as given, to be fitted, checked, plotted and saved like any other.
    """

    def __init__(self, models: Models, *data: object) -> None:  # Data belong to `from_data`.
        if data or not isinstance(models, Mapping) or not models:
            raise InputError(
                "models must be a dict, name of a cause -> ChainedGP of the time to it; "
                "CompetingRisks.from_data(X, Y, cause, likelihood) builds them from data."
            )
        self.models: dict[Hashable, ChainedGP] = {
            name.item() if isinstance(name, np.generic) else name: model
            for name, model in models.items()
        }
        columns = set()
        for name, model in self.models.items():
            if not isinstance(model, ChainedGP):
                raise InputError(
                    f"models[{name!r}] must be a ChainedGP; got {type(model).__name__}."
                )
            if not isinstance(name, str | int | float):
                raise InputError(f"a cause is a name or a number; got {name!r}. Name it by a text.")
            _check_cause_has_times(model.likelihood, f"models[{name!r}]")
            columns.add(model.X.shape[1])
        if len(columns) > 1:
            raise InputError(f"all models must have the same inputs; they have {columns} columns.")

    if not TYPE_CHECKING:  # With it a type checker would accept any attribute.

        def __getattr__(self, name: str) -> object:
            """Explain an attribute that only the model of each competing cause has."""
            words = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name[0] != "_" and hasattr(ChainedGP, name):
                cause = next(iter(self.__dict__.get("models", {"cause": None})))
                words = f"every cause has a model of its own: .models[{cause!r}].{name}."
                if name in ("update", "set_data"):
                    words += " There an event of another cause is a row with censored = 1."
            raise AttributeError(words)

    @classmethod
    def from_data(
        cls,
        X: Data,
        Y: Data,
        cause: Data,
        likelihood: Likelihood | Likelihoods,
        *,
        censored: Hashable = 0,
        Y_metadata: Metadata = None,
        kernels: Kernels = None,
        num_inducing: int = 100,
        posterior: PosteriorName = "auto",
        missing: str = "raise",
    ) -> CompetingRisks:
        """Build a model of event times for each competing cause; call `optimize` next.

        Parameters
        ----------
        X, Y : inputs, and times of the first event or of the end of the follow-up.
        cause : (n,) what happened at Y: names or numbers, which `models` and predictions have too.
        likelihood : a survival likelihood for all causes, or cause -> likelihood.
        censored : the value in `cause` of rows without an event; None if their cause is missing
            (None or NaN).
        Y_metadata : `entry`, `weights` and others of the rows; not `censored`.
        kernels, num_inducing, posterior, missing : of each model, as for `ChainedGP`.
        """
        if Y_metadata is not None and {"censored", "y_upper"} & set(Y_metadata):
            raise InputError(
                "cause says which rows are censored: leave censored and y_upper out of Y_metadata."
            )
        check_same_rows({"X": X, "Y": Y, "cause": cause})
        causes, code = cause_codes(cause, np.size(Y), censored)
        likelihoods = _one_each(causes, likelihood)
        given = dict(Y_metadata or {})
        models = {}
        for k, (name, own) in enumerate(zip(causes, likelihoods, strict=True)):
            metadata = {**given, "censored": np.where(code == k + 1, 0.0, 1.0)}
            models[name] = ChainedGP(
                X,
                Y,
                own,
                kernels,
                Y_metadata=metadata,
                num_inducing=num_inducing,
                name=f"cause_{k}",
                posterior=posterior,
                missing=missing,
            )
        return cls(models)

    @property
    def causes(self) -> tuple[Hashable, ...]:
        """The competing causes: their names or numbers."""
        return tuple(self.models)

    def __repr__(self) -> str:
        kinds = ", ".join(
            f"{name}: {type(model.likelihood).__name__}" for name, model in self.models.items()
        )
        return f"<CompetingRisks of {kinds}>"

    def optimize(
        self, messages: bool | None = None, max_iters: int = 1000
    ) -> dict[Hashable, OptimizationResult]:
        """Fit the model of every competing cause by the default method; results by cause.

        For other methods fit each of `models` by itself.
        """
        return {
            name: model.optimize(messages=messages, max_iters=max_iters)
            for name, model in self.models.items()
        }

    # ---- predictions ----------------------------------------------------------------------------

    def overall_survival(
        self, Xnew: Data, t: Data, bands: Bands | None = None, Y_metadata: Metadata = None
    ) -> Estimate:
        """Overall survival S(t) = P(no event by t), (n, k); `bands` adds two percentiles over q."""
        return self._incidences(Xnew, t, bands, Y_metadata).survival

    def cumulative_incidence(
        self, Xnew: Data, t: Data, bands: Bands | None = None, Y_metadata: Metadata = None
    ) -> dict[Hashable, Estimate]:
        """Cumulative incidence F_k(t) = P(event by t, of cause k) of every cause, (n, k) each.

        With bands=(2.5, 97.5) each is (estimate, lower, upper), the percentiles of F_k(t | f) over
        the posterior of the latents f of all models.

        Parameters
        ----------
        Xnew : (n, D) inputs. t : (k,) times, ascending from 0 on.
        """
        found = self._incidences(Xnew, t, bands, Y_metadata)
        return dict(zip(self.models, found.causes, strict=True))

    def _incidences(
        self, Xnew: Data, t: Data, bands: Bands | None, Y_metadata: Metadata
    ) -> Incidences:
        """Overall survival and cumulative incidences at the times, each an array or three."""
        times = np.atleast_1d(np.asarray(t, dtype=float))
        if times.ndim != 1 or not (np.isfinite(times) & (times >= 0.0)).all():
            raise InputError(f"t must be (k,) times from 0 on; got {t!r}.")
        if not (np.diff(times) > 0.0).all():
            raise InputError("t must be ascending.")
        if Y_metadata is not None and set(OBSERVATION) & set(Y_metadata):
            raise InputError(f"{', '.join(OBSERVATION)} have no meaning in these predictions.")
        laws = [model.predictive(Xnew, Y_metadata) for model in self.models.values()]
        panels = TimePanels.upto(times, laws)
        pairs = [_averages(law._event, panels.nodes) for law in laws]
        estimate = panels.incidences(
            [pdf[None] for pdf, _ in pairs],
            [sf[None] for _, sf in pairs],
            [np.asarray(law.sf(panels.edges))[None] for law in laws],
        )
        if bands is None:
            return Incidences(estimate.survival[0], [F[0] for F in estimate.causes])
        levels = as_band(bands)
        ends = _bands(laws, panels, levels)
        return Incidences(
            (estimate.survival[0], *ends.survival),
            [(F[0], *end) for F, end in zip(estimate.causes, ends.causes, strict=True)],
        )

    def plot(
        self,
        X: Data | None = None,
        *,
        times: Data | None = None,
        Y_metadata: Metadata = None,
        observed: Curves | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot cumulative incidences of the competing causes, stacked, overall survival above.

        For several rows it draws their mean.

        X : rows (n, D); None takes up to 500 of the data. times : grid (k,); None goes up to the
        98 % quantile of the times. observed : cause -> (k,) at the same times, drawn as dashed
        lines, such as `AalenJohansen(time, cause)(times)`.
        """
        first = next(iter(self.models.values()))
        if not len(first.X) and (X is None or times is None):
            raise InputError("these models were saved without their data: give X and times.")
        if X is None:
            X = np.asarray(first.X)[:: max(1, len(first.X) // 500)][:500]
        if times is None:
            times = np.linspace(0.0, float(np.quantile(np.asarray(first.Y), 0.98)), 81)
        t = np.atleast_1d(np.asarray(times, dtype=float))
        found = self.cumulative_incidence(X, t, Y_metadata=Y_metadata)
        means = {str(name): np.mean(F, axis=0) for name, F in found.items()}
        seen = None
        if observed is not None:
            seen = {str(name): as_targets(F, len(t), "observed") for name, F in observed.items()}
            if set(means) - set(seen):
                raise InputError(
                    f"observed must have a curve for each of {', '.join(means)}; got "
                    f"{', '.join(seen)}."
                )
        return draw_incidences(t, means, seen, first.target_name or "time", ax)

    # ---- files ----------------------------------------------------------------------------------

    def save(self, folder: FilePath, data: bool = True) -> None:
        """Write the model of each competing cause to a file of a folder, which is made; see `load`.

        data : False leaves the rows out.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        for k, model in enumerate(self.models.values()):
            model.save(path / f"cause_{k}.cgp", data=data)
        (path / NAMES).write_text(json.dumps(list(self.models), ensure_ascii=False), "utf-8")

    @classmethod
    def load(cls, folder: FilePath) -> CompetingRisks:
        """Load the models of competing causes that `save` wrote to a folder."""
        path = Path(folder)
        if not (path / NAMES).is_file():
            raise InputError(f"{folder} is no folder of competing risks: it has no {NAMES}.")
        names = json.loads((path / NAMES).read_text("utf-8"))
        return cls({name: load(path / f"cause_{k}.cgp") for k, name in enumerate(names)})


def _check_cause_has_times(likelihood: Likelihood, owner: str) -> None:
    """Raise InputError where a cause's likelihood is not of event times with a density."""
    lik = likelihood
    if not lik.event_times or lik.atoms or not lik.target_support.continuous:
        raise InputError(
            f"{owner} has the likelihood {type(lik).__name__}; competing risks need times with a "
            "density, such as WeibullSurvival()."
        )


def _one_each(causes: Sequence[Hashable], likelihood: Likelihood | Likelihoods) -> list[Likelihood]:
    """A likelihood of event times for each competing cause; numbers may be given as text."""
    if isinstance(likelihood, Mapping):
        by_name = {str(name): own for name, own in likelihood.items()}
        wrong = {str(cause) for cause in causes} ^ set(by_name)
        if wrong:
            listed = ", ".join(repr(name) for name in sorted(wrong))
            raise InputError(f"likelihood must have one for each cause; look at {listed}.")
        found = [by_name[str(cause)] for cause in causes]
    else:
        found = [likelihood] * len(causes)
    for cause, own in zip(causes, found, strict=True):
        if isinstance(own, Likelihood):  # The model tells what is wrong with anything else.
            _check_cause_has_times(own, f"cause {cause!r}")
    return found


def _bands(laws: list[Predictive], panels: TimePanels, levels: Array) -> Incidences:
    """Percentiles of survival and incidences over draws of the latents of all causes' models."""
    events = [law._event for law in laws]
    n, k = len(laws[0]), len(panels.times)
    z = np.stack(quadrature.sobol_rule(sum(event.dim for event in events), DRAWS).x)
    parts = np.split(z[..., 0], np.cumsum([event.dim for event in events])[:-1])
    ends = Incidences(np.empty((2, n, k)), [np.empty((2, n, k)) for _ in laws])
    for rows in _blocks(n, z.shape[1] * panels.nodes.size):
        drawn = [_drawn(e, own, rows, panels.nodes) for e, own in zip(events, parts, strict=True)]
        edges = [_drawn(e, own, rows, panels.edges) for e, own in zip(events, parts, strict=True)]
        pdf, sf = zip(*drawn, strict=True)
        found = panels.incidences(pdf, sf, [S for _, S in edges])
        ends.survival[:, rows] = np.quantile(found.survival, levels, axis=0)
        for end, F in zip(ends.causes, found.causes, strict=True):
            end[:, rows] = np.quantile(F, levels, axis=0)
    return ends


def _averages(event: GaussianLatents, times: Array) -> tuple[Array, Array]:
    """Density and survival of one cause's event time at the times under q, (n, times) each."""
    times_as_many = 3 if event.dim <= 2 and event.scales.max() > WIDE else 1
    rule = quadrature.rule_for(event.dim, times_as_many * NODES.get(event.dim, MANY))
    z = np.stack([np.broadcast_to(x, rule.weights.shape).ravel() for x in rule.x])
    n, weights = event.means.shape[1], rule.weights.ravel()
    pdf, sf = np.empty((n, len(times))), np.empty((n, len(times)))
    for rows in _blocks(n, z.shape[1] * len(times)):
        drawn = _drawn(event, z, rows, times)
        pdf[rows], sf[rows] = (np.tensordot(weights, part, 1) for part in drawn)
    return pdf, sf


def _blocks(n: int, size: int) -> Iterator[np.ndarray]:
    """Numbers of some rows at a time, where each takes `size` numbers of memory."""
    step = max(1, BLOCK // max(1, size))
    for start in range(0, n, step):
        yield np.arange(start, min(n, start + step))


def _drawn(event: GaussianLatents, z: Array, rows: np.ndarray, times: Array) -> tuple[Array, Array]:
    """Density and survival of a cause's event time given latents m + R z: (K, rows, times)."""
    t = np.tile(np.maximum(times, np.finfo(float).tiny), len(rows))  # S(0) = 1.
    which = np.repeat(rows, len(times))
    shape = (z.shape[1], len(rows), len(times))
    _, latents = event.nodes(which, z[:, :, None])
    with np.errstate(all="ignore"):
        pdf = np.exp(event.log_density(t, which, latents)).reshape(shape)
        return pdf, np.exp(event.log_survival(t, which, latents)).reshape(shape)
