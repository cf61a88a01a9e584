"""The variational parameters of a model: inducing inputs, mean and root of the whitened q(v)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from paramz.transformations import __fixed__

from ..kernels import Kernel
from ..linalg import Array
from ..parameters.leaves import LargeParam
from ..parameters.parts import LatentList
from ..posterior.family import PosteriorFamily

Leaves = LargeParam | LatentList


def variational_leaves(
    Z: Array | list[Array], latents: Sequence[str], family: PosteriorFamily
) -> tuple[Leaves, Leaves, Leaves]:
    """The leaves Z, q_mu and q_sqrt, with q at the prior N(0, I) of the inducing values.

    Z is one leaf where all latents share it, else a list of one for each latent. q_mu and q_sqrt
    are one leaf each with a column for each latent where all have as many inducing inputs.
    """
    if isinstance(Z, list):
        Z_leaves: Leaves = _listed("Z", Z, latents)
        sizes = [len(z) for z in Z]
    else:
        Z_leaves, sizes = LargeParam("Z", Z), [len(Z)] * len(latents)
    means, roots = family.packed(family.prior(sizes), sizes)
    return Z_leaves, _columns("q_mu", means, latents), _columns("q_sqrt", roots, latents)


def _columns(name: str, values: Sequence[Array], latents: Sequence[str]) -> Leaves:
    if len({len(value) for value in values}) == 1:
        return LargeParam(name, np.stack(values, axis=1))
    return _listed(name, values, latents)


def _listed(name: str, values: Sequence[Array], latents: Sequence[str]) -> LatentList:
    parts = [LargeParam(latent, value) for latent, value in zip(latents, values, strict=True)]
    return LatentList(parts, latents, name)


def fix_levels(Z: Leaves, kernels: Sequence[Kernel]) -> None:
    """Fix the columns of inducing inputs that kernels read as codes of levels.

    Between two codes there is nothing, so that no gradient may move them.
    """
    leaves = list(Z) if isinstance(Z, LatentList) else [Z]
    own = [[kernel] for kernel in kernels] if len(leaves) == len(kernels) else [list(kernels)]
    for leaf, readers in zip(leaves, own, strict=True):
        columns = np.unique(np.concatenate([kernel.level_columns for kernel in readers]))
        if columns.size:
            entries = np.arange(leaf.size).reshape(leaf.shape)[:, columns].ravel()
            leaf.constraints.add(__fixed__, entries)
    root = Z._highest_parent_
    if root is not None:
        root._connect_fixes()
