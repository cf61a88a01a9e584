"""The bound and its gradients at given hyperparameters: what the model and every optimiser call.

L(θ, q) = Σ_i E_q[log p(y_i | f_1(x_i), …, f_b(x_i))] − Σ_j KL(q(u_j) ‖ p(u_j))
(Saul et al. 2016, eq. 7)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..linalg import Array, one_blas_thread
from .gaussian import Gaussian, from_natural
from .shards import Shard
from .sparse import KernelGradient, make_prior, reverse_prior
from .sums import Evaluation, Gram, LeftFactors, Task

__all__ = ["Evaluator", "Gradient", "Hyperparameters", "State", "q_from_gram"]

_keys = itertools.count()  # names of hyperparameter settings, for the shards' caches


@dataclass(frozen=True)
class Hyperparameters:
    """θ as the core sees it: kernels, means, Z per latent, the likelihood and its parameters."""

    kernels: Sequence[Any]
    means: Sequence[Any]
    Z: Sequence[Array]
    likelihood: Any
    parameters: dict[str, float]
    jitter: float


@dataclass
class State:
    """An evaluated point (θ, q): the bound and the sums that every next step is made of."""

    q: tuple[Gaussian, ...]
    evaluation: Evaluation
    gram: Gram | None  # of the sites that define q; None where q was given directly

    @property
    def bound(self) -> float:
        """L(θ, q)."""
        return self.evaluation.E - sum(q.kl for q in self.q)

    def proposal(self) -> Gram:
        """Natural parameters of the full (ρ = 1) natural-gradient step, without another pass.

        Λ⁺ = A diag(λ2⁺) Aᵀ = −2 G and b⁺ = A (λ1⁺ − λ2⁺ mean) = A g_m − 2 G μ.
        """
        ev = self.evaluation
        Lam = [-2.0 * G for G in ev.G]
        return Gram(Lam, [a + Lm @ q.mu for a, Lm, q in zip(ev.A_gm, Lam, self.q, strict=True)])


@dataclass
class Gradient:
    """Gradient of the bound: per latent kernel, Z, mean; likelihood parameters; q where asked."""

    latents: list[KernelGradient]
    parameters: Array
    mu: list[Array]  # ∂L/∂μ = A g_m − μ
    S_bar: list[Array]  # ∂E/∂S = G


class Evaluator:
    """Evaluates the bound over shards of rows. Holds rows and sites, never hyperparameters."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.num_likelihood = 0  # passes that evaluated the likelihood
        self.num_theta = 0  # hyperparameter settings
        self._task: Task | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_task": None}  # holds closures; made anew when needed

    @property
    def num_rows(self) -> int:
        """Number of rows over all shards."""
        return sum(shard.num_rows for shard in self.shards)

    def set_hyperparameters(self, theta: Hyperparameters, scale: float = 1.0) -> None:
        """Factorise the priors at θ; every later call is at this θ."""
        with one_blas_thread():
            priors = tuple(
                make_prior(k, m, Z, theta.jitter)
                for k, m, Z in zip(theta.kernels, theta.means, theta.Z, strict=True)
            )
        self.num_theta += 1
        self._task = Task(
            priors, theta.likelihood, dict(theta.parameters), next(_keys), scale=scale
        )

    @property
    def task(self) -> Task:
        """The current θ as it is sent to shards."""
        if self._task is None:
            raise RuntimeError("set_hyperparameters comes first")
        return self._task

    def each(self, method: str, *args: Any) -> None:
        """Call a method of every shard, for example `commit` or `restore`."""
        for shard in self.shards:
            getattr(shard, method)(*args)

    def gram(self) -> Gram:
        """Λ and b of the current sites."""
        return self._sum("gram", self.task)

    def positive_proposal(self, q: Sequence[Gaussian]) -> Gram:
        """Natural parameters of a full step without the sites of negative precision."""
        return self._sum("positive_proposal", replace(self.task, q=tuple(q)))

    def evaluate(
        self, q: Sequence[Gaussian], gram: Gram | None = None, *, gradient: bool = False
    ) -> State:
        """The bound at (θ, q); rows keep the proposed sites as `trial`.

        gradient : whether `gradient` with q fixed will follow; its pass is then made in this one.
        """
        task = replace(self.task, q=tuple(q), left=self._left(q) if gradient else ())
        self.num_likelihood += 1
        return State(tuple(q), self._sum("evaluate", task), gram)

    def marginals(self, q: Sequence[Gaussian]) -> tuple[Array, Array]:
        """Means and variances of q(f_j(x_i)) over all rows, each (n, b)."""
        task = replace(self.task, q=tuple(q))
        with one_blas_thread():
            parts = [shard.marginals(task) for shard in self.shards]
        return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])

    def gradient(self, state: State, *, sites_fixed: bool) -> Gradient:
        """Gradient at an accepted state: with q fixed, or with q = q(θ, sites) and sites fixed.

        With μ̄ = A g_m − μ, S̄ = G − ½(I − S⁻¹), Π = −S(S̄ + ½(μ̄bᵀ + bμ̄ᵀ))S the second adds
        (Sμ̄) rᵀ + 2 Π A diag(λ2) to ∂/∂A: exact for L(θ, q(θ, λ)) however far q is from optimal.
        """
        ev = state.evaluation
        mu_bar = [a - q.mu for a, q in zip(ev.A_gm, state.q, strict=True)]
        with one_blas_thread():
            H = [
                np.outer(q.mu, A_gm) + 2.0 * q.S_minus_I @ G
                for q, A_gm, G in zip(state.q, ev.A_gm, ev.G, strict=True)
            ]
            sums = None if sites_fixed else ev.gradients
            if sums is None:
                left = self._left(state.q)
                if sites_fixed:
                    left = self._add_site_factors(left, H, state, mu_bar)
                task = replace(self.task, q=state.q, left=left)
                sums = self._sum("gradient", task)
            latents = []
            for prior, part, Hj in zip(self.task.priors, sums.parts, H, strict=True):
                d_theta, d_Z = reverse_prior(prior, Hj)
                latents.append(KernelGradient(part.kernel + d_theta, part.Z + d_Z, part.mean))
        return Gradient(latents, ev.d_parameters, mu_bar, ev.G)

    def _left(self, q: Sequence[Gaussian]) -> tuple[LeftFactors, ...]:
        """[L⁻ᵀ(S − I), L⁻ᵀμ] of every latent: the gradient in Kuf at fixed q."""
        pairs = zip(self.task.priors, q, strict=True)
        with one_blas_thread():
            return tuple(
                LeftFactors(prior.L_inv.T @ np.column_stack([part.S_minus_I, part.mu]))
                for prior, part in pairs
            )

    def _add_site_factors(
        self, left: Sequence[LeftFactors], H: list[Array], state: State, mu_bar: list[Array]
    ) -> tuple[LeftFactors, ...]:
        """Left factors with those of fixed sites; adds their part to H, in place."""
        if state.gram is None:
            raise RuntimeError("this q was not made from sites")
        longer = []
        for j, (prior, q) in enumerate(zip(self.task.priors, state.q, strict=True)):
            S_mu_bar, Pi = _site_factors(q, mu_bar[j], state.evaluation.G[j])
            H[j] += np.outer(S_mu_bar, state.gram.b[j])
            H[j] += 2.0 * Pi @ state.gram.Lam[j]
            more = prior.L_inv.T @ np.column_stack([Pi, S_mu_bar])
            longer.append(LeftFactors(np.hstack([left[j].left, more]), S_mu_bar))
        return tuple(longer)

    def _sum(self, method: str, task: Task) -> Any:
        """A pass of every shard, named by its method; the sums are added in the shards' order."""
        with one_blas_thread():
            total = getattr(self.shards[0], method)(task)
            for shard in self.shards[1:]:
                total.add(getattr(shard, method)(task))
        return total


def _site_factors(q: Gaussian, mu_bar: Array, G: Array) -> tuple[Array, Array]:
    """Sμ̄ (M,) and Π (M, M) of one latent; b = S⁻¹μ."""
    if q.precision is None:
        raise RuntimeError("this q was not made from sites")
    S_bar = G + 0.5 * q.precision
    S_bar.flat[:: S_bar.shape[0] + 1] -= 0.5
    outer = 0.5 * np.outer(mu_bar, q.precision @ q.mu)
    Pi = -(q.S @ (S_bar + outer + outer.T) @ q.S)
    return q.S @ mu_bar, Pi


def q_from_gram(gram: Gram) -> tuple[Gaussian, ...]:
    """q of every latent from its natural parameters."""
    with one_blas_thread():
        return tuple(from_natural(b, Lam) for b, Lam in zip(gram.b, gram.Lam, strict=True))
