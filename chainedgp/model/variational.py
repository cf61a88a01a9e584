"""Leaves of a model that its posterior is made of: inducing inputs, mean and root of q(v)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..linalg import Array, pack_lower
from ..parameters.leaves import LargeParam
from ..parameters.parts import LatentList

__all__ = ["variational_leaves"]

Leaves = LargeParam | LatentList


def variational_leaves(
    Z: Array | list[Array], latents: Sequence[str]
) -> tuple[Leaves, Leaves, Leaves]:
    """Z, q_mu and q_sqrt, with q at the prior N(0, I) of the whitened inducing values.

    Z is one leaf where all latents share it, else a list of one for each latent. q_mu and q_sqrt
    are one leaf each with a column for each latent where all have as many inducing inputs.
    """
    if isinstance(Z, list):
        Z_leaves: Leaves = _listed("Z", Z, latents)
        sizes = [len(z) for z in Z]
    else:
        Z_leaves, sizes = LargeParam("Z", Z), [len(Z)] * len(latents)
    means, roots = [np.zeros(M) for M in sizes], [pack_lower(np.eye(M)) for M in sizes]
    if len(set(sizes)) == 1:
        q_mu: Leaves = LargeParam("q_mu", np.stack(means, axis=1))
        q_sqrt: Leaves = LargeParam("q_sqrt", np.stack(roots, axis=1))
    else:
        q_mu, q_sqrt = _listed("q_mu", means, latents), _listed("q_sqrt", roots, latents)
    return Z_leaves, q_mu, q_sqrt


def _listed(name: str, values: Sequence[Array], latents: Sequence[str]) -> LatentList:
    parts = [LargeParam(latent, value) for latent, value in zip(latents, values, strict=True)]
    return LatentList(parts, latents, name)
