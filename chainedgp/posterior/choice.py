"""The families of q by their names, and which of them suits a likelihood."""

from __future__ import annotations

from typing import Literal, get_args

from ..likelihoods import Likelihood
from .family import PosteriorFamily
from .joint import JOINT
from .mean_field import MEAN_FIELD

PosteriorName = Literal["auto", "mean_field", "joint"]
# A likelihood that does not say whether its latents are coupled gets a joint q if it has at most so
# many latents: with more, the matrices of q are large, and so are the grids of quadrature nodes.
MOST_LATENTS = 3
POSTERIORS: tuple[PosteriorName, ...] = get_args(PosteriorName)


def family_of(posterior: PosteriorName, likelihood: Likelihood) -> PosteriorFamily:
    """The family of q that the argument `posterior` names; for one latent all are the same."""
    b = len(likelihood.latents)
    if posterior == "mean_field" or b == 1:
        return MEAN_FIELD
    if posterior == "joint":
        return JOINT
    return JOINT if needs_joint(likelihood) else MEAN_FIELD


def needs_joint(likelihood: Likelihood) -> bool:
    """Whether q should have correlations between the latents of a likelihood.

    That is what `coupled` declares. Where it declares nothing, few latents are taken for coupled,
    unless the likelihood has formulas for independent latents alone. With many latents, too, such
    formulas count for more.
    """
    few = len(likelihood.latents) <= MOST_LATENTS
    independent = likelihood.own_expectation and not likelihood.own_joint_expectation
    if likelihood.coupled is None:
        return few and not independent
    return likelihood.coupled and (few or not independent)
