"""Parts of a model as inference sees them: θ and q are read, written and given gradients.

Every number that a fit may move is an entry of a leaf, a paramz parameter. θ are the leaves of
kernels, mean functions and likelihood and the inducing inputs Z; q(u_j) has a mean and the root of
a covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from paramz import Param, Parameterized

from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..likelihoods.ties import Ties
from ..linalg import Array
from ..means import MeanFunction
from ..posterior.evaluator import Gradient, Hyperparameters
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian, from_root
from ..posterior.mean_field import MEAN_FIELD


def leaves_below(part: Parameterized | Param) -> list[Param]:
    """The leaves of a part of the model, which a fit may move; of a leaf, the leaf itself."""
    return list(part.flattened_parameters) if isinstance(part, Parameterized) else [part]


@dataclass
class Parts:
    """Kernels, means, likelihood, inducing inputs and q of a model; latents j = 0..b-1.

    kernels, means : one for each latent.
    Z : one leaf (M, D) for all latents, or one for each.
    q_mu, q_root : one leaf with a column for each latent, or a leaf (M_j,) for each where their
        numbers of inducing inputs differ. Roots of covariances are packed, as `pack_lower` does;
        one for each group of latents that q correlates.
    jitter : added to the diagonal of Kuu, relative to its mean.
    family : the family of distributions from which q is taken.
    ties : the treatment of targets that several rows share, or None.
    given_kernels : whether a user chose the kernels, whose values are then a start to respect.
    given_inducing : whether a user chose the inducing inputs.
    open_inducing : whether nobody said how many inducing inputs there are: a fit may add some.
    """

    kernels: Sequence[Kernel]
    means: Sequence[MeanFunction]
    likelihood: Likelihood
    jitter: float
    Z: Sequence[Param] = field(default=())
    q_mu: Sequence[Param] = field(default=())
    q_root: Sequence[Param] = field(default=())
    family: PosteriorFamily = field(default=MEAN_FIELD, kw_only=True)
    ties: Ties | None = field(default=None, kw_only=True)
    given_kernels: bool = field(default=False, kw_only=True)
    given_inducing: bool = field(default=False, kw_only=True)
    open_inducing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.num_gradients = 0  # It counts how often leaves were given gradients, by any problem.

    def with_inducing(self, Z: Sequence[Array]) -> Parts:
        """The same hyperparameters at other inducing inputs, with a q of its own, the prior."""
        sizes = [len(z) for z in Z] * (len(self.kernels) // len(Z))
        means, roots = self.family.packed(self.family.prior(sizes), sizes)
        own = [[Param("own", value) for value in values] for values in (Z, means, roots)]
        return replace(self, Z=own[0], q_mu=own[1], q_root=own[2])

    @property
    def leaves(self) -> list[Param]:
        """All leaves of θ and q, those of q last."""
        return [*self.others, *self.Z, *self.q_mu, *self.q_root]

    @property
    def others(self) -> list[Param]:
        """The leaves of kernels, means and likelihood: all but those of inducing inputs and q."""
        parts = (*self.kernels, *self.means, self.likelihood)
        return [leaf for part in parts for leaf in leaves_below(part)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of inducing inputs M_j of each latent."""
        return tuple(mu.size for mu in _columns(self.q_mu))

    def level_entries(self, Z: Param | Array) -> np.ndarray:
        """Entries of inducing inputs that kernels read as codes of levels, as flat indices (k,).

        They are fixed: between two codes there is nothing, so that no gradient may move them.
        """
        columns = np.unique(np.concatenate([kernel.level_columns for kernel in self.kernels]))
        return np.arange(Z.size).reshape(Z.shape)[:, columns.astype(int)].ravel()

    @property
    def unordered_columns(self) -> np.ndarray:
        """Columns of X that some kernel reads as codes of levels without an order."""
        return np.unique(np.concatenate([kernel.unordered_columns for kernel in self.kernels]))

    def theta(self) -> Hyperparameters:
        """The current hyperparameters θ, with copies of Z, because priors outlive its changes."""
        Z = [np.array(leaf.values) for leaf in self.Z]
        return Hyperparameters(
            list(self.kernels),
            list(self.means),
            Z if len(Z) == len(self.kernels) else Z * len(self.kernels),
            self.likelihood,
            self.likelihood.parameter_values(),
            self.jitter,
            self.ties,
        )

    def roots(self) -> tuple[list[Array], list[Array]]:
        """Mean and packed covariance root of q of each group of latents."""
        return self.family.stacked(_columns(self.q_mu)), _columns(self.q_root)

    def q(self) -> tuple[Gaussian, ...]:
        """The current q of each group of latents."""
        return tuple(from_root(mu, root) for mu, root in zip(*self.roots(), strict=True))

    def q_is_prior(self) -> bool:
        """Whether q is N(0, I), as in a new model."""
        return all((part.mu == 0).all() and (part.S_minus_I == 0).all() for part in self.q())

    def write_q(self, q: Sequence[Gaussian]) -> None:
        """Write q into its leaves."""
        for leaf, value in self._of_q(*self.family.packed(q, self.sizes)):
            leaf[:] = value

    def reset_q(self) -> None:
        """Write the prior N(0, I) into the leaves of q."""
        self.write_q(self.family.prior(self.sizes))

    def write_gradient(self, gradient: Gradient) -> None:
        """Write the gradient in θ into the leaves."""
        self.num_gradients += 1
        for kernel, mean, part in zip(self.kernels, self.means, gradient.latents, strict=True):
            kernel.gradient[:] = part.kernel
            mean.gradient[:] = part.mean
        self.likelihood.gradient[:] = gradient.parameters
        if len(self.Z) == len(self.kernels):
            for Z, part in zip(self.Z, gradient.latents, strict=True):
                Z.gradient[:] = part.Z
        else:
            self.Z[0].gradient[:] = sum(part.Z for part in gradient.latents)

    def write_gradient_in_q(self, mu: Sequence[Array], root: Sequence[Array]) -> None:
        """Write the gradients in means and packed roots of q, by group, into the leaves."""
        for leaf, value in self._of_q(self.family.split(mu, self.sizes), root):
            leaf.gradient[:] = value

    def _of_q(self, mu: Sequence[Array], root: Sequence[Array]) -> list[tuple[Param, Array]]:
        """The leaves of q, each paired with the value that belongs into it."""
        pairs = []
        for leaves, values in ((self.q_mu, mu), (self.q_root, root)):
            shaped = [np.stack(values, axis=1)] if leaves[0].ndim == 2 else values
            pairs += list(zip(leaves, shaped, strict=True))
        return pairs


def _columns(leaves: Sequence[Param]) -> list[Array]:
    """The values of the leaves q_mu or q_root, one array for each latent or group of latents."""
    return list(leaves[0].values.T) if leaves[0].ndim == 2 else [leaf.values for leaf in leaves]
