"""What travels between the head and the shards: a small task out, small sums back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..linalg import Array
from .gaussian import Gaussian
from .sparse import KernelGradient, Prior

__all__ = ["Evaluation", "Gradients", "Gram", "Task"]


@dataclass(frozen=True)
class Task:
    """What an evaluation sends to every shard. `key` names the hyperparameters, for the cache."""

    priors: tuple[Prior, ...]
    likelihood: Any
    parameters: Mapping[str, float]
    key: int
    q: tuple[Gaussian, ...] = ()
    # what turns gradients in m and v into gradients in Kuf: [P, L⁻ᵀμ] at fixed q, P = L⁻ᵀ(S − I),
    # and [P, L⁻ᵀμ, L⁻ᵀΠ, L⁻ᵀSμ̄] with Sμ̄ where q follows the hyperparameters at fixed sites
    left: tuple[Array, ...] = ()
    whitened: bool = True  # else P = L⁻ᵀ(S − I) L⁻¹, and sums come back with Kuf in the place of A
    S_mu_bar: tuple[Array, ...] = ()
    scale: float = 1.0  # N / B for a minibatch
    count_unmet: bool = False  # takes trials with more nodes


@dataclass
class Evaluation:
    """Sums over rows at one (θ, q): E = Σ E_q[log p], and per latent G = A diag(g_v) Aᵀ, A g_m."""

    E: float
    abs_E: float
    d_parameters: Array  # (p,)
    G: list[Array] = field(default_factory=list)
    A_gm: list[Array] = field(default_factory=list)
    unmet: int = 0  # rows whose integral no number of nodes serves, where the task asked
    raised: int = 0  # rows that want more nodes than they were given (frozen levels)
    gradients: Gradients | None = None  # at fixed q, where the task asked for them

    def add(self, other: Evaluation) -> None:
        """Add another part of the rows, in place."""
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
    """Per latent Λ = A diag(λ2) Aᵀ (M, M) and b = A (λ1 − λ2 mean) (M,) of a set of sites."""

    Lam: list[Array]
    b: list[Array]

    def add(self, other: Gram) -> None:
        """Add another part of the rows, in place."""
        for mine, yours in ((self.Lam, other.Lam), (self.b, other.b)):
            for a, c in zip(mine, yours, strict=True):
                a += c


@dataclass
class Gradients:
    """Per latent the gradients in kernel, Z and mean parameters, summed over rows."""

    parts: list[KernelGradient]

    def add(self, other: Gradients) -> None:
        """Add another part of the rows, in place."""
        self.parts = [a.plus(c) for a, c in zip(self.parts, other.parts, strict=True)]
