"""The bound and its gradients at given hyperparameters: what the model and every optimiser call.

L(θ, q) = Σ_i E_q[log p(y_i | f_1(x_i), …, f_b(x_i))] − Σ_j KL(q(u_j) ‖ p(u_j))
(Saul et al. 2016, eqs. 3 and 7)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import numpy as np

from ..linalg import (
    Array,
    Workspace,
    lower_product,
    lower_triangle_product,
    one_blas_thread,
    upper_product,
)
from .gaussian import Gaussian, from_natural
from .shards import Shard
from .sparse import KernelGradient, Prior, make_prior, reverse_prior
from .sums import Evaluation, Gram, Task

__all__ = ["Evaluator", "Gradient", "Hyperparameters", "State"]

WELL_CONDITIONED = 1e5  # tr(Kuu⁻¹) diag(Kuu) below which rounding by it stays near 1e-12
MANY_ROWS = 8  # times M, from which a product less for each row outweighs three more of (M, M)
LARGE = 200  # inducing inputs from which the (M, M) work of latents is worth a thread each

P = ParamSpec("P")

_keys = itertools.count()  # names of hyperparameter settings, for the shards' caches

_work = Workspace()


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
        """L(θ, q) = Σ E − Σ KL (Saul et al. 2016, eq. 7)."""
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


class Sum(Protocol):
    """What a pass over rows returns: something to which the same of other rows is added."""

    def add(self, other: Self) -> None:
        """Add another part of the rows, in place."""


S = TypeVar("S", bound=Sum)


class Evaluator:
    """Evaluates the bound over shards of rows. Holds rows and sites, never hyperparameters."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.num_likelihood: float = 0  # passes over all rows that evaluated the likelihood
        self.num_theta = 0  # hyperparameter settings
        self._task: Task | None = None
        self._large = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_task": None}  # holds closures; made anew when needed

    @property
    def num_rows(self) -> int:
        """Number of rows over all shards."""
        return sum(shard.num_rows for shard in self.shards)

    def set_hyperparameters(self, theta: Hyperparameters, scale: float = 1.0) -> None:
        """Factorise the priors at θ; every later call is at this θ."""
        make = partial(make_prior, jitter=theta.jitter)
        self._large = max(len(Z) for Z in theta.Z) >= LARGE
        priors = self.over_latents(make, theta.kernels, theta.means, theta.Z)
        self.num_theta += 1
        self._task = Task(
            tuple(priors), theta.likelihood, dict(theta.parameters), next(_keys), scale=scale
        )

    def take(self, shard: Shard, scale: float) -> None:
        """Other rows from now on, at the same θ; `scale` multiplies their sums."""
        self.shards = [shard]
        self._task = replace(self.task, scale=scale, key=next(_keys))

    @property
    def task(self) -> Task:
        """The current θ as it is sent to shards."""
        if self._task is None:
            raise RuntimeError("set_hyperparameters comes first")
        return self._task

    # ---- steps on the sites and the quadrature nodes of all rows --------------------------------

    def start_sites(self, b: int) -> None:
        """All sites of b latents are 0: q is the prior."""
        self._each(Shard.start_sites, b)

    def accept(self, rho: float) -> None:
        """λ ← (1 − ρ) λ + ρ λ_proposal; the last evaluation's sites become the proposal."""
        self._each(Shard.accept, rho)

    def accept_combination(self, weights: Array) -> None:
        """λ ← Σ_k c_k λ_proposal^(k) over the remembered proposals (Anderson acceleration)."""
        self._each(Shard.accept_combination, weights)

    def take_proposal(self) -> None:
        """The proposal becomes the current sites: rebuilds them after one evaluation at any q."""
        self._each(Shard.take_proposal)

    def remember(self) -> None:
        """Keep a copy of the proposal for a later combination."""
        self._each(Shard.remember)

    def forget(self, keep: int = 0) -> None:
        """Drop all but the last `keep` remembered proposals."""
        self._each(Shard.forget, keep)

    def commit(self) -> None:
        """The hyperparameters were accepted: later trials start from the current sites."""
        self._each(Shard.commit)

    def restore(self) -> None:
        """Start a trial from the sites of the last accepted hyperparameters."""
        self._each(Shard.restore)

    def clip(self) -> None:
        """Drop the sites of negative precision: a start from which q always exists."""
        self._each(Shard.clip)

    def clear(self) -> None:
        """Current sites are 0 and q is the prior; the committed ones stay."""
        self._each(Shard.clear)

    def narrow(self) -> None:
        """Current sites that hold every latent close to its mean function: a last resort."""
        self._each(Shard.narrow, self.task)

    def fix_nodes(self, nodes: int | None) -> None:
        """Other quadrature nodes per dimension from now on, or None to choose them row by row."""
        self._each(Shard.fix_nodes, nodes)

    def freeze_nodes(self, frozen: bool) -> None:
        """Keep the numbers of quadrature nodes (within a line search), or choose them afresh."""
        self._each(Shard.freeze_nodes, frozen)

    def raise_nodes(self) -> None:
        """Give every row at least the nodes that it wanted in the last evaluation."""
        self._each(Shard.raise_nodes)

    def drop_cache(self) -> None:
        """Free the projections that are kept between passes."""
        self._each(Shard.drop_cache)

    def _each(
        self, step: Callable[Concatenate[Shard, P], None], *args: P.args, **kw: P.kwargs
    ) -> None:
        """Take a step with every shard."""
        for shard in self.shards:
            step(shard, *args, **kw)

    # ---- passes over all rows -------------------------------------------------------------------

    def gram(self) -> Gram:
        """Λ and b of the current sites."""
        return self._sum(Shard.gram, self.task)

    def positive_proposal(self, q: Sequence[Gaussian]) -> Gram:
        """Natural parameters of a full step without the sites of negative precision."""
        return self._sum(Shard.positive_proposal, replace(self.task, q=tuple(q)))

    def gaussians(self, gram: Gram) -> tuple[Gaussian, ...]:
        """q of every latent from its natural parameters."""
        return tuple(self.over_latents(from_natural, gram.b, gram.Lam))

    def evaluate(
        self,
        q: Sequence[Gaussian],
        gram: Gram | None = None,
        *,
        gradient: bool = False,
        count_unmet: bool = False,
    ) -> State:
        """The bound at (θ, q); rows keep the proposed sites as `trial`.

        gradient : whether `gradient` with q fixed will follow; its pass is then made in this one.
        count_unmet : count the rows whose integral no number of nodes serves.
        """
        self.num_likelihood += 1
        task = replace(self.task, q=tuple(q), count_unmet=count_unmet)
        if not gradient:
            return State(tuple(q), self._sum(Shard.evaluate, task), gram)
        whitened = not self._needs_no_whitening()
        task = replace(task, left=self._left(q, whitened), whitened=whitened)
        sums = self._sum(Shard.evaluate, task)
        if not whitened:
            pairs = self.over_latents(_whiten, task.priors, sums.G, sums.A_gm)
            sums.G, sums.A_gm = (list(part) for part in zip(*pairs, strict=True))
        return State(tuple(q), sums, gram)

    def _needs_no_whitening(self) -> bool:
        """Whether products with Kuu⁻¹ are exact enough, and rows enough to be worth them."""
        priors = self.task.priors
        if self.num_rows < MANY_ROWS * max(len(prior.Z) for prior in priors):
            return False
        # tr(Kuu⁻¹) times the mean of diag(Kuu)
        size = [np.vdot(p.L_inv, p.L_inv) * np.vdot(p.L, p.L) / len(p.Z) for p in priors]
        return bool(max(size) < WELL_CONDITIONED)

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
        priors = self.task.priors
        with one_blas_thread():
            if sites_fixed:
                H = self.over_latents(_through_A, state.q, ev.A_gm, ev.G)
                left, S_mu_bar = self._site_factors(H, state, mu_bar)
                task = replace(self.task, q=state.q, left=left, S_mu_bar=S_mu_bar)
                sums = self._sum(Shard.gradient, task)
                through_L = self.over_latents(reverse_prior, priors, H)
            else:
                sums = ev.gradients or self._sum(
                    Shard.gradient, replace(self.task, q=state.q, left=self._left(state.q))
                )
                through_L = self.over_latents(_through_L, priors, state.q, ev.A_gm, ev.G)
        latents = [
            KernelGradient(part.kernel + d_theta, part.Z + d_Z, part.mean)
            for part, (d_theta, d_Z) in zip(sums.parts, through_L, strict=True)
        ]
        return Gradient(latents, ev.d_parameters, mu_bar, ev.G)

    def over_latents(self, work: Callable[..., Any], *parts: Sequence[Any]) -> list[Any]:
        """work(…) of every latent's parts, on the threads of the rows where it is long enough."""
        jobs = list(zip(*parts, strict=True))
        with one_blas_thread():
            if self._large and len(self.shards) == 1:
                return list(self.shards[0].in_threads(work, jobs))
            return [work(*job) for job in jobs]

    def _left(self, q: Sequence[Gaussian], whitened: bool = True) -> tuple[Array, ...]:
        """[P, L⁻ᵀμ] of every latent: the gradient in Kuf at fixed q."""
        return tuple(self.over_latents(partial(_fixed_left, whitened), self.task.priors, q))

    def _site_factors(
        self, H: list[Array], state: State, mu_bar: list[Array]
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Left factors and Sμ̄ of the gradient at fixed sites; adds their part to H, in place."""
        if state.gram is None:
            raise RuntimeError("this q was not made from sites")
        grams = state.evaluation.G, state.gram.b, state.gram.Lam
        factors = self.over_latents(_add_site_factors, self.task.priors, H, state.q, mu_bar, *grams)
        left, S_mu_bar = zip(*factors, strict=True)
        return left, S_mu_bar

    def _sum(self, work: Callable[[Shard, Task], S], task: Task) -> S:
        """A pass of every shard over its rows; the sums are added in the shards' order."""
        with one_blas_thread():
            total = work(self.shards[0], task)
            for shard in self.shards[1:]:
                total.add(work(shard, task))
        return total


def _fixed_left(whitened: bool, prior: Prior, q: Gaussian) -> Array:
    """[P, L⁻ᵀμ] (M, M + 1), with P = L⁻ᵀ(S − I), or L⁻ᵀ(S − I) L⁻¹ where A is not whitened."""
    upper = prior.L_inv.T
    left = np.empty((len(upper), len(upper) + 1))
    upper_product(upper, q.S_minus_I, left[:, :-1])
    if not whitened:
        left[:, :-1] = upper_product(upper, left[:, :-1].T)
    np.matmul(upper, q.mu, out=left[:, -1])
    return left


def _whiten(prior: Prior, G: Array, A_gm: Array) -> tuple[Array, Array]:
    """L⁻¹ G L⁻ᵀ and L⁻¹ A_gm: sums with Kuf in the place of A become those with A."""
    G = lower_product(prior.L_inv, lower_product(prior.L_inv, G).T)
    return G, prior.L_inv @ A_gm


def _through_A(q: Gaussian, A_gm: Array, G: Array, out: Array | None = None) -> Array:
    """H = (∂/∂A) Aᵀ = μ (A g_m)ᵀ + 2 (S − I) G of one latent at fixed q, its lower triangle."""
    H = lower_triangle_product(q.S_minus_I, G, out)
    H *= 2.0
    H += np.multiply(q.mu[:, None], A_gm, out=_work.array("work", *G.shape))
    return H


def _through_L(prior: Prior, q: Gaussian, A_gm: Array, G: Array) -> tuple[Array, Array]:
    """Gradients through L of one latent at fixed q."""
    return reverse_prior(prior, _through_A(q, A_gm, G, _work.array("H", *G.shape)))


def _add_site_factors(
    prior: Prior, H: Array, q: Gaussian, mu_bar: Array, G: Array, b: Array, Lam: Array
) -> tuple[Array, Array]:
    """Left factors (M, 2M + 2) and Sμ̄ (M,) of one latent; adds to H, in place. b = S⁻¹μ."""
    if q.precision is None:
        raise RuntimeError("this q was not made from sites")
    S_bar = G + 0.5 * q.precision
    S_bar.flat[:: S_bar.shape[0] + 1] -= 0.5
    outer = 0.5 * np.outer(mu_bar, q.precision @ q.mu)
    Pi = -(q.S @ (S_bar + outer + outer.T) @ q.S)
    S_mu_bar = q.S @ mu_bar
    H += np.outer(S_mu_bar, b)
    H += lower_triangle_product(2.0 * Pi, Lam)
    factors = np.column_stack([q.S_minus_I, q.mu, Pi, S_mu_bar])
    return upper_product(prior.L_inv.T, factors), S_mu_bar
