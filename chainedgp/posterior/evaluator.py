"""The bound and its gradients at given hyperparameters: what the model and every optimiser call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..kernels.base import Kernel
from ..likelihoods import Likelihood
from ..likelihoods.ties import Ties
from ..linalg import Array, one_blas_thread
from ..means import MeanFunction
from .blocks import SiteFactors, fixed_q_factors, site_factors, through_L, whiten
from .family import PosteriorFamily
from .gaussian import Gaussian, from_natural
from .mean_field import MEAN_FIELD
from .shards import Shard
from .sites import Sites
from .sparse import InducingPrior, KernelGradient, make_prior, reverse_prior
from .sums import Evaluation, Gradients, Gram, Request, S, Setting, Task

# Where tr(Kuu⁻¹) times the mean of diag(Kuu) is below this, products with Kuu⁻¹ have rounding
# errors of about 1e-12, and rows need no whitening by L⁻¹.
WELL_CONDITIONED = 1e5
# With at least this many times M rows, to do without A = L⁻¹ Kuf saves more than it costs, which is
# three products of (M, M) matrices.
MANY_ROWS = 8
# With at least so many inducing inputs the (M, M) work of each latent has a thread of its own.
LARGE = 200

P = ParamSpec("P")
R = TypeVar("R")

_keys = itertools.count()  # Each setting has a number, by which shards know if a cache is of it.


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters θ at which the bound is evaluated: kernels, means, Z, likelihood.

    ties : what stands for targets that several rows share, if not these themselves.
    """

    kernels: Sequence[Kernel]
    means: Sequence[MeanFunction]
    Z: Sequence[Array]
    likelihood: Likelihood
    parameters: dict[str, float]
    jitter: float
    ties: Ties | None = None

    def priors(self) -> tuple[InducingPrior, ...]:
        """The priors of all latents at their inducing inputs."""
        with one_blas_thread():
            parts = zip(self.kernels, self.means, self.Z, strict=True)
            return tuple(make_prior(*part, self.jitter) for part in parts)


def bound(evaluation: Evaluation, q: Sequence[Gaussian]) -> float:
    """L(θ, q) = Σ_i E_q[log p(y_i | f(x_i))] − Σ_j KL(q(u_j) ‖ p(u_j)) (Saul et al. 2016, eq. 7).

    A lower bound on log p(y) (Saul et al. 2016, eq. 3), with the integral over f done row by row.
    j runs over the latents or, where q has correlations between latents, over their groups.
    """
    expected_log_likelihood = evaluation.E
    divergence = sum(q_j.kl for q_j in q)
    return expected_log_likelihood - divergence


@dataclass
class State:
    """An evaluated point (θ, q): the bound and the sums that every next step is made of."""

    q: tuple[Gaussian, ...]
    evaluation: Evaluation
    gram: Gram | None  # It sums the sites that define q; None where q was given directly.

    @property
    def bound(self) -> float:
        """The bound L(θ, q) at an evaluated point."""
        return bound(self.evaluation, self.q)

    def proposal(self) -> Gram:
        """Natural parameters of the full (ρ = 1) natural-gradient step, without another pass.

        Λ⁺ = −2 G and b⁺ = A g_m − 2 G μ, which in the mean field are A diag(λ2⁺) Aᵀ and
        A (λ1⁺ − λ2⁺ mean).
        """
        ev = self.evaluation
        Lam = [-2.0 * G for G in ev.G]
        return Gram(Lam, [a + Lm @ q.mu for a, Lm, q in zip(ev.A_gm, Lam, self.q, strict=True)])


@dataclass
class Gradient:
    """Gradient of the bound: kernel, Z, mean of each latent; likelihood parameters; q's groups."""

    latents: list[KernelGradient]
    parameters: Array
    mu: list[Array]  # ∂L/∂μ = A g_m − μ
    S_bar: list[Array]  # ∂E/∂S = G


class Evaluator:
    """Evaluates the bound over shards of rows. Holds rows and sites, never hyperparameters.

    Parameters
    ----------
    shards : the rows, with their sites.
    family : what q may be.
    """

    def __init__(self, shards: Sequence[Shard], family: PosteriorFamily = MEAN_FIELD) -> None:
        self.shards, self.family = list(shards), family
        self.num_likelihood: float = 0  # The number of passes over all rows that evaluated log p.
        self.num_theta = 0  # The number of hyperparameter settings that were evaluated.
        self._setting: Setting | None = None
        self._priors: tuple[InducingPrior, ...] = ()  # There is a prior for each latent.
        self._groups: list[tuple[InducingPrior, ...]] = []  # The priors by groups of q.
        self._large = False

    def __getstate__(self) -> dict[str, Any]:
        # Closures cannot be pickled: a copy makes what holds them anew when it is needed.
        return {**self.__dict__, "_setting": None, "_priors": (), "_groups": []}

    @property
    def num_rows(self) -> int:
        """Number of rows over all shards of an evaluator."""
        return sum(shard.num_rows for shard in self.shards)

    def set_hyperparameters(self, theta: Hyperparameters, scale: float = 1.0) -> None:
        """Factorise the priors Kuu at θ; every later call of the evaluator is at this θ."""
        make = partial(make_prior, jitter=theta.jitter)
        self._large = max(len(Z) for Z in theta.Z) >= LARGE
        self._priors = tuple(self.over_latents(make, theta.kernels, theta.means, theta.Z))
        self._groups = self.family.grouped(self._priors)
        self.num_theta += 1
        given = theta.likelihood, dict(theta.parameters), next(_keys)
        self._setting = Setting(self.family, self._priors, *given, scale, theta.ties)

    @property
    def priors(self) -> tuple[InducingPrior, ...]:
        """The priors of the latents at their inducing inputs, at the evaluator's θ."""
        return self._priors

    def take(self, shard: Shard, scale: float) -> None:
        """Evaluate other rows from now on, at the same θ; `scale` multiplies their sums."""
        self.shards = [shard]
        self._setting = replace(self.setting, scale=scale, key=next(_keys))

    @property
    def setting(self) -> Setting:
        """The current hyperparameters θ as they are sent to shards."""
        if self._setting is None:
            raise RuntimeError("set_hyperparameters comes first")
        return self._setting

    # ---- steps on the sites and the quadrature nodes of all rows --------------------------------

    def start_sites(self, b: int) -> None:
        """Set all sites of b latents to 0, in every shard: q is the prior."""
        self._each(Shard.start_sites, self.family.site_shape(b))

    def accept(self, rho: float) -> None:
        """Mix all sites: λ ← (1 − ρ) λ + ρ λ_proposal; the last evaluation's are proposed."""
        self._each_sites(Sites.accept, rho)

    def accept_combination(self, weights: Array) -> None:
        """All sites λ ← Σ_k c_k λ_proposal^(k) over remembered proposals (Anderson)."""
        self._each_sites(Sites.accept_combination, weights)

    def take_proposal(self) -> None:
        """Take the proposal for the sites of all rows: this rebuilds them after one evaluation."""
        self._each_sites(Sites.take_proposal)

    def remember(self) -> None:
        """Keep a copy of all shards' proposed sites for a later combination."""
        self._each_sites(Sites.remember)

    def forget(self, keep: int = 0) -> None:
        """Drop all but the last `keep` remembered proposals of sites."""
        self._each_sites(Sites.forget, keep)

    def commit(self) -> None:
        """Keep the sites of accepted hyperparameters: later trials start from them."""
        self._each_sites(Sites.commit)

    def restore(self) -> None:
        """Start a trial of hyperparameters from the sites of the last accepted ones."""
        self._each_sites(Sites.restore)

    def clip(self) -> None:
        """Drop the sites of negative precision in all shards: a start from which q exists."""
        list(self._passes(Shard.clip, Request()))

    def clear(self) -> None:
        """Set current sites of all shards to 0, q to the prior; committed sites stay."""
        self._each_sites(Sites.clear)

    def narrow(self) -> None:
        """Set sites that hold every latent close to its mean function: a last resort."""
        list(self._passes(Shard.narrow, Request()))

    def fix_nodes(self, nodes: int | None) -> None:
        """Use `nodes` quadrature nodes per dimension, or choose them row by row with None."""
        self._each(Shard.fix_nodes, nodes)

    def freeze_nodes(self, frozen: bool) -> None:
        """Keep the numbers of quadrature nodes (within a line search), or choose them afresh."""
        self._each(Shard.freeze_nodes, frozen)

    def use_few_nodes(self, rough: bool) -> None:
        """Do without trials of quadrature nodes for as long as fits are rough, or no more."""
        self._each(Shard.use_few_nodes, rough)

    def raise_nodes(self) -> None:
        """Give every row at least the quadrature nodes that it wanted in the last evaluation."""
        self._each(Shard.raise_nodes)

    def drop_cache(self) -> None:
        """Free the projections A of rows that shards keep between passes."""
        self._each(Shard.drop_cache)

    def _each(
        self, step: Callable[Concatenate[Shard, P], None], *args: P.args, **kw: P.kwargs
    ) -> None:
        """Call a method of every shard."""
        for shard in self.shards:
            step(shard, *args, **kw)

    def _each_sites(
        self, step: Callable[Concatenate[Sites, P], None], *args: P.args, **kw: P.kwargs
    ) -> None:
        """Take a step from one set of sites to another, with the sites of every shard."""
        for shard in self.shards:
            step(shard.sites, *args, **kw)

    # ---- passes over all rows -------------------------------------------------------------------

    def gram(self) -> Gram:
        """The natural parameters Λ and b that the current sites of all rows sum up to."""
        return self._sum(Shard.gram, Request())

    def positive_proposal(self, q: Sequence[Gaussian]) -> Gram:
        """Natural parameters of a full natural-gradient step without negative sites."""
        return self._sum(Shard.positive_proposal, Request(tuple(q)))

    def gaussians(self, gram: Gram) -> tuple[Gaussian, ...]:
        """The Gaussian q of every group of latents from its natural parameters."""
        return tuple(self.over_latents(from_natural, gram.b, gram.Lam))

    def evaluate(
        self,
        q: Sequence[Gaussian],
        gram: Gram | None = None,
        *,
        gradient: bool = False,
        count_unmet: bool = False,
    ) -> State:
        """The bound at (θ, q) by a pass over all rows, which keep the proposed sites as `trial`.

        gradient : whether `gradient` with q fixed will follow; its pass is then made in this one.
        count_unmet : count the rows whose integral no number of nodes serves.
        """
        self.num_likelihood += 1
        request = Request(tuple(q), count_unmet=count_unmet)
        if not gradient:
            return State(tuple(q), self._sum(Shard.evaluate, request), gram)
        whitened = not self._needs_no_whitening()
        request = replace(request, left=self._left(q, whitened), whitened=whitened)
        sums = self._sum(Shard.evaluate, request)
        if not whitened:
            pairs = self.over_latents(whiten, self._groups, sums.G, sums.A_gm)
            sums.G, sums.A_gm = (list(part) for part in zip(*pairs, strict=True))
        return State(tuple(q), sums, gram)

    def _needs_no_whitening(self) -> bool:
        """Whether products with Kuu⁻¹ are exact enough, and rows enough, to do without A."""
        if self.num_rows < MANY_ROWS * max(len(prior.Z) for prior in self._priors):
            return False
        # The size of Kuu⁻¹ is tr(Kuu⁻¹) times the mean of diag(Kuu), which has no unit.
        size = [np.vdot(p.L_inv, p.L_inv) * np.vdot(p.L, p.L) / len(p.Z) for p in self._priors]
        return bool(max(size) < WELL_CONDITIONED)

    def marginals(self, q: Sequence[Gaussian]) -> tuple[Array, Array]:
        """Means (n, b) of q(f(x_i)) of all rows, and variances (n, b) or covariances (n, b, b)."""
        with one_blas_thread():
            parts = list(self._passes(Shard.marginals, Request(tuple(q))))
        return np.concatenate([m for m, _ in parts]), np.concatenate([V for _, V in parts])

    def gradient(self, state: State, *, sites_fixed: bool) -> Gradient:
        """Gradient of the bound at an accepted state: at fixed q, or at fixed sites.

        At fixed sites q = q(θ, sites) moves with θ.

        The second is exact for L(θ, q(θ, λ)) however far q is from optimal.
        """
        ev = state.evaluation
        with one_blas_thread():
            if sites_fixed:
                sums, pulled = self._gradient_at_sites(state)
            else:
                sums = ev.gradients or self._sum(
                    Shard.gradient, Request(state.q, self._left(state.q))
                )
                groups = self._groups, state.q, ev.A_gm, ev.G
                by_group = self.over_latents(through_L, *groups)
                pulled = [latent for group in by_group for latent in group]
        latents = [
            KernelGradient(part.kernel + d_theta, part.Z + d_Z, part.mean)
            for part, (d_theta, d_Z) in zip(sums.parts, pulled, strict=True)
        ]
        mu_bar = [a - q.mu for a, q in zip(ev.A_gm, state.q, strict=True)]
        return Gradient(latents, ev.d_parameters, mu_bar, ev.G)

    def _gradient_at_sites(self, state: State) -> tuple[Gradients, list[tuple[Array, Array]]]:
        """Gradient of the bound at fixed sites: sums over rows, and the part through L."""
        if state.gram is None:
            raise RuntimeError("this q was not made from sites")
        ev, natural = state.evaluation, (state.gram.b, state.gram.Lam)
        factors: list[SiteFactors] = self.over_latents(
            site_factors, self._groups, state.q, ev.A_gm, ev.G, *natural
        )
        left, S_mu_bar, H = zip(*factors, strict=True)
        sums = self._sum(Shard.gradient, Request(state.q, left, S_mu_bar))
        of_latents = [latent for group in H for latent in group]
        return sums, self.over_latents(reverse_prior, self._priors, of_latents)

    def over_latents(self, work: Callable[..., R], *parts: Sequence[object]) -> list[R]:
        """Call work(…) with every latent's or group's parts, on threads if M is large enough."""
        jobs = list(zip(*parts, strict=True))
        with one_blas_thread():
            if self._large and len(self.shards) == 1:
                return list(self.shards[0].threads.map(work, jobs))
            return [work(*job) for job in jobs]

    def _left(self, q: Sequence[Gaussian], whitened: bool = True) -> tuple[Array, ...]:
        """What turns slopes of rows into the gradient in Kuf at fixed q, of every group."""
        factors = partial(fixed_q_factors, whitened=whitened)
        return tuple(self.over_latents(factors, self._groups, q))

    def _sum(self, work: Callable[[Shard, Task], S], request: Request) -> S:
        """The sums of a pass over the rows of all shards, added in the shards' order."""
        with one_blas_thread():
            parts = iter(self._passes(work, request))
            total = next(parts)
            for part in parts:
                total.add(part)
        return total

    def _passes(self, work: Callable[[Shard, Task], R], request: Request) -> Iterable[R]:
        """What a pass of every shard over its rows returns, in the shards' order."""
        task = Task(self.setting, request)
        return (work(shard, task) for shard in self.shards)
