"""Contrasts of groups: differences and ratios of restricted means, or of survival at a time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ..assessment.effects.frames import as_frame
from ..data.arguments import as_band, as_generator, positive_int
from ..data.tables import Table
from ..data.types import Data, Frame, Metadata, Seed
from ..errors import InputError
from ..expectations.quadrature import row_blocks
from ..linalg import Array
from ..model import ChainedGP
from ..predictive.law import sf_given
from ..predictive.mixtures import GaussianLatents
from ..predictive.survival import restricted_mean_given, warn_if_far
from .competing_risks import CompetingRisks

DRAWS = 1000
"""Bands of contrasts come from this many joint draws."""


def contrasts(
    model: ChainedGP,
    groups: Mapping[str, Data],
    *,
    horizon: float | None = None,
    time: float | None = None,
    bands: tuple[float, float] = (2.5, 97.5),
    Y_metadata: Mapping[str, Metadata] | None = None,
    draws: int = DRAWS,
    rng: Seed = 0,
) -> Frame | Table:
    """Compare groups of rows: by how much, and by what factor, do they differ from the first?

        table = contrasts(m, {"standard": both[:1], "new": both[1:]}, horizon=5.0)
        everybody = contrasts(m, {a: X.assign(arm=a) for a in ("standard", "new")}, horizon=5.0)

    A group is one row of inputs, or many rows, over which the function averages. In the second line
    every patient is in both groups, once with each treatment. The bands are percentiles over joint
    draws of the latent functions at the rows of all groups, so that what the groups share cancels
    in a difference. Uncertain constants of the likelihood, such as a constant shape, are drawn
    with the latents.

    Parameters
    ----------
    model : a fitted model of event times.
    groups : {name: rows}, two or more. The first is what the others are compared with.
    horizon : compare restricted means, the mean times without the event up to this time.
    time : compare probabilities of survival to this time. Give either `time` or `horizon`.
    bands : percentages.
    Y_metadata : {name: metadata} of the groups' rows, where the likelihood needs some.
    draws, rng : number of joint draws, and their seed or Generator.

    Returns
    -------
    A pandas DataFrame (a `Table` without pandas) with the columns estimate, lower and upper. It has
    a row for each group, and one for the difference and the ratio of each group but the first.
    """
    if isinstance(model, CompetingRisks):
        cause = next(iter(model.models))
        raise InputError(
            "contrasts are of one model of event times; these are competing risks. Compare the "
            "incidences of groups by risks.cumulative_incidence(rows, times, bands=…) of each, or "
            f"one cause as if there were no others by contrasts(risks.models[{cause!r}], …)."
        )
    if not isinstance(groups, Mapping) or len(groups) < 2:
        raise InputError(
            "groups must be a dict of two or more, name -> rows of inputs, such as "
            f"{{'old': X.assign(arm='old'), 'new': X.assign(arm='new')}}; got {groups!r}."
        )
    if (horizon is None) == (time is None):
        raise InputError(
            "give horizon= to compare restricted means, or time= to compare survival to a time; "
            f"got horizon={horizon!r}, time={time!r}."
        )
    names, levels, generator = list(map(str, groups)), as_band(bands), as_generator(rng)
    metadata = Y_metadata or {}
    laws = [model.predictive(rows, metadata.get(name)) for name, rows in groups.items()]
    if horizon is not None:
        # One warning for all groups is enough.
        found = [law._restricted_mean(horizon) for law in laws]
        warn_if_far(laws[0].last_time, float(horizon))
        given = partial(restricted_mean_given, horizon)
    elif time is not None:
        found = [law.sf([time]) for law in laws]
        given = partial(_survival_given, time)
    means = np.array([np.mean(each) for each in found])
    predictor = model._predictor()
    X = np.concatenate([predictor.inputs(rows, name) for name, rows in groups.items()])
    ends = np.cumsum([0, *map(len, laws)])
    drawn: list[list[Array]] = [[] for _ in laws]
    for f, constants in predictor.draws_with_constants(X, positive_int(draws, "draws"), generator):
        for law, own, start, end in zip(laws, drawn, ends[:-1], ends[1:], strict=True):
            event = law._event.moved(np.zeros((f.shape[1], len(law))), constants)
            own.append(_averages(given, event, f[start:end]))
    by_group = np.stack([np.concatenate(own) for own in drawn])  # (groups, draws)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [means, means[1:] - means[0], means[1:] / means[0]]
        each = [by_group, by_group[1:] - by_group[0], by_group[1:] / by_group[0]]
    lower, upper = np.quantile(np.concatenate(each), levels, axis=1)
    index = names + [f"{name} − {names[0]}" for name in names[1:]]
    index += [f"{name} / {names[0]}" for name in names[1:]]
    return as_frame({"estimate": np.concatenate(values), "lower": lower, "upper": upper}, index)


def _survival_given(
    time: float, event: GaussianLatents, rows: np.ndarray, latents: tuple[Array, ...]
) -> Array:
    """Survival to a time, given the latents (K, N) of some rows."""
    return sf_given(event, np.full(len(rows), time), rows, latents)


def _averages(given: partial[Array], event: GaussianLatents, f: Array) -> Array:
    """Averages (draws,) over a group's rows of what is given by their latents (n, b, draws)."""
    total = np.zeros(f.shape[2])
    for part in row_blocks(len(f), f.shape[2]):
        rows = np.arange(len(f))[part]
        latents = tuple(np.ascontiguousarray(each.T) for each in f[part].transpose(1, 0, 2))
        with np.errstate(all="ignore"):
            total += given(event, rows, latents).sum(axis=1)
    return total / len(f)
