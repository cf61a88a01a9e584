"""What travels between evaluator and shards of rows: a small task out, small sums back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from ..likelihoods import Likelihood
from ..likelihoods.ties import Ties
from ..linalg import Array
from .gaussian import Gaussian
from .sparse import KernelGradient, Projector

if TYPE_CHECKING:
    from .family import PosteriorFamily


@dataclass(frozen=True)
class Setting:
    """The hyperparameters θ as shards of rows use them; the same for many tasks."""

    family: PosteriorFamily
    projectors: tuple[Projector, ...]  # There is one for each latent.
    likelihood: Likelihood
    parameters: Mapping[str, float]  # These are the likelihood's.
    key: int  # Caches know the setting by this number.
    scale: float = 1.0  # This multiplies the sums over rows: N / B for a minibatch.
    ties: Ties | None = None  # These stand for targets that several rows share.


@dataclass(frozen=True)
class Request:
    """What a pass over a shard's rows is to compute with; tuples have an entry for each group."""

    q: tuple[Gaussian, ...] = ()
    # `left` turns slopes into gradients in Kuf: at fixed q, or with Sμ̄ at fixed sites.
    left: tuple[Array, ...] = ()
    S_mu_bar: tuple[Array, ...] = ()
    whitened: bool = True  # If False, Kuf takes the place of A in `left` and in the sums.
    count_unmet: bool = False  # Whether to count rows that no number of nodes serves, by trials.


class Task(NamedTuple):
    """What an evaluation of the bound sends to every shard; nothing has the size of the data."""

    setting: Setting
    request: Request


class Sum(Protocol):
    """What a pass over a shard's rows returns: sums, to which those of other rows are added."""

    def add(self, other: Self) -> None:
        """Add the sums of another shard or chunk of rows to these sums, in place."""


S = TypeVar("S", bound=Sum)


@dataclass
class Evaluation:
    """Sums over rows of an evaluated bound: E = Σ E_q[log p], G = ∂E/∂S and A g_m = ∂E/∂μ.

    E = Σ_i E_q[log p(y_i | f)] (Saul et al. 2016, eq. 6) is computed by `shards`; G and A g_m have
    an entry for each group. In the mean field G = A diag(g_v) Aᵀ.
    """

    E: float
    abs_E: float
    d_parameters: Array  # (p,)
    G: list[Array] = field(default_factory=list)
    A_gm: list[Array] = field(default_factory=list)
    unmet: int = 0  # The number of rows that no number of nodes serves, if asked for.
    raised: int = 0  # The number of rows that want more nodes than their frozen level gives.
    gradients: Gradients | None = None  # Gradients at fixed q, if the task asked for them.

    def add(self, other: Evaluation) -> None:
        """Add the expected log-likelihood and slopes of another shard or chunk, in place."""
        self.E += other.E
        self.abs_E += other.abs_E
        self.d_parameters = self.d_parameters + other.d_parameters
        self.unmet += other.unmet
        self.raised += other.raised
        if self.gradients is not None and other.gradients is not None:
            self.gradients.add(other.gradients)
        for mine, yours in ((self.G, other.G), (self.A_gm, other.A_gm)):
            for a, b in zip(mine, yours, strict=True):
                a += b


@dataclass
class Gram:
    """Natural parameters that sites add to the prior's, of each group: S⁻¹ = I + Λ, S⁻¹μ = b.

    In the mean field Λ = A diag(λ2) Aᵀ (M, M) and b = A (λ1 − λ2 mean) (M,).
    """

    Lam: list[Array]
    b: list[Array]

    def add(self, other: Gram) -> None:
        """Add the natural parameters that the sites of other rows sum up to, in place."""
        for mine, yours in ((self.Lam, other.Lam), (self.b, other.b)):
            for a, c in zip(mine, yours, strict=True):
                a += c

    @classmethod
    def of(cls, q: Sequence[Gaussian]) -> Gram:
        """The natural parameters of a given q less the prior's: Λ = S⁻¹ − I, b = S⁻¹μ."""
        Lam, b = [], []
        for part in q:
            precision = np.linalg.inv(part.S) if part.precision is None else part.precision
            Lam.append(0.5 * (precision + precision.T) - np.eye(part.mu.size))
            b.append(precision @ part.mu)
        return cls(Lam, b)

    @classmethod
    def mixed(cls, weights: Sequence[float] | Array, grams: Sequence[Gram]) -> Gram:
        """Natural parameters Σ_k c_k (Λ_k, b_k) of sites that are mixed by these weights."""

        def mix(parts: Sequence[Array]) -> Array:
            return sum(c * part for c, part in zip(weights, parts, strict=True))

        by_group = zip(*(gram.Lam for gram in grams), strict=True)
        Lam = [mix(parts) for parts in by_group]
        return cls(Lam, [mix(parts) for parts in zip(*(gram.b for gram in grams), strict=True)])


@dataclass
class Gradients:
    """Gradients in each latent's kernel, Z and mean parameters, summed over rows."""

    parts: list[KernelGradient]

    def add(self, other: Gradients) -> None:
        """Add the gradients in kernels, Z and means of other rows, in place."""
        self.parts = [a.plus(c) for a, c in zip(self.parts, other.parts, strict=True)]
