"""The log-posterior of hyperparameters and inducing values together, at a point, with gradients.

    log p̂(v, x) = Σ_i w_i E[log p(y_i | f_i) | v, θ] − ½ |v|² + log p(θ) + log |∂θ/∂x|,  θ = θ(x):

the density of `density`, times the priors, in the coordinates x of the free vector, in which the
logarithms of positive parameters may be any number (Hensman et al. 2015). Inducing inputs are no
parameters of the model but of its approximation: they stay where they are.

What the data say about v changes much with θ: for a sampler v has coordinates z in which it changes
little. Sites, which are Gaussian observations of the latents at the rows that stand for the
targets, are taken from the fit and kept. With them v would be N(P⁻¹b, P⁻¹) a posteriori, and is

    v = P⁻¹ b + C⁻ᵀ z,    P = I + A diag(λ2) Aᵀ = C Cᵀ,    b = A (λ1 − λ2 mean),

of each latent, so that z is about N(0, I) whatever θ is.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError, NumericalError
from ..inference.natural_gradients import start_from_q
from ..inference.problem import Problem
from ..linalg import Array, cholesky, invert_lower, one_blas_thread
from ..parameters.leaves import named_leaves
from ..posterior.evaluator import Evaluator
from ..posterior.mean_field import MEAN_FIELD
from ..posterior.sparse import (
    InducingPrior,
    KernelGradient,
    Projection,
    project,
    pull,
    reverse_prior,
)
from .density import point

STEP = 1e-3  # Second derivatives are differences of gradients over twice this step in x.
# Where the data tell less than this about a direction of x, its standard deviation counts as 1.
LEAST_CURVATURE = 1.0


def check_proper(problem: Problem) -> None:
    """Refuse to sample positive or bounded hyperparameters without a prior, which are improper."""
    known = {id(leaf): name for name, leaf in named_leaves(problem.parameters).items()}
    of_Z = {id(leaf) for leaf in problem.parts.Z}
    names = [
        known[id(leaf)]
        for leaf in problem.free_vector().constrained_leaves()
        if id(leaf) not in of_Z and known[id(leaf)] not in problem.parameters.hyperpriors
    ]
    if names:
        raise InputError(
            f"{', '.join(names)} have no prior. A flat one is improper: the likelihood does not "
            "fall to 0 where a lengthscale goes to infinity or a variance to 0, so that there is "
            'no posterior to draw from. Build the model with priors="default", give them priors '
            "by m.set_prior(name, prior), fix them, or keep all hyperparameters as they are, by "
            "hyperparameters=False."
        )


def jacobian_leaves(problem: Problem) -> set[int]:
    """Ids of leaves with a prior on their own scale: to draw in x it needs |∂θ/∂x|.

    x is the free vector.

    Leaves without a prior are flat in x, and priors of logarithms are densities in x already.
    """
    names, priors = named_leaves(problem.parameters), problem.parameters.hyperpriors
    return {id(names[name]) for name, prior in priors.items() if not prior.of_logarithms}


class _Whitened:
    """Coordinates z for draws of one latent's v at some θ: from z to v, and slopes back."""

    def __init__(self, prior: InducingPrior, chunk: Projection, sites: Array) -> None:
        self.prior, self.chunk = prior, chunk
        self.lam1, self.lam2 = sites  # (n,) each
        P = (chunk.A * self.lam2) @ chunk.A.T
        P.flat[:: len(P) + 1] += 1.0
        self.C = cholesky(P, "the precision of v given the sites")
        self.C_inv = invert_lower(self.C)
        self.b = self.C_inv @ (chunk.A @ (self.lam1 - self.lam2 * chunk.mean))  # C⁻¹ b
        self.log_volume = -float(np.log(np.diag(self.C)).sum())  # log |∂v/∂z|

    def v(self, z: Array) -> Array:
        """The inducing values v = C⁻ᵀ (C⁻¹ b + z) at a sampler's coordinates z."""
        return self.C_inv.T @ (self.b + z)

    def back(self, v: Array, v_bar: Array) -> tuple[Array, KernelGradient]:
        """Slopes of log p̂ + log |∂v/∂z| in z, and in kernel, Z and mean, from those in v.

        v_bar : (M,) slopes in v. The reverse of the factorisation P = C Cᵀ gives those in P.
        """
        chunk = self.chunk
        z_bar = self.C_inv @ v_bar
        b_bar = self.C_inv.T @ z_bar
        C_bar = -np.outer(v, z_bar) - np.outer(b_bar, self.b)
        inner = np.tril(self.C.T @ C_bar)
        inner.flat[:: len(inner) + 1] = 0.5 * (np.diag(inner) - 1.0)  # The 1 is of the log-volume.
        P_bar = self.C_inv.T @ inner @ self.C_inv
        A_bar = (P_bar + P_bar.T) @ (chunk.A * self.lam2)
        A_bar += np.outer(b_bar, self.lam1 - self.lam2 * chunk.mean)
        H = A_bar @ chunk.A.T
        mean_bar = -self.lam2 * (chunk.A.T @ b_bar)
        own = pull(chunk, self.prior.L_inv.T @ A_bar, np.zeros(chunk.kff.size), mean_bar)
        d_theta, d_Z = reverse_prior(self.prior, H)
        return z_bar, KernelGradient(own.kernel + d_theta, own.Z + d_Z, own.mean)


class HyperJoint:
    """The log-posterior log p̂ in x and z with its gradients, on copies of a model's parameters."""

    def __init__(self, problem: Problem) -> None:
        if not problem.is_local:
            raise InputError(
                "draws from the posterior need the rows in memory, and these are on a cluster: "
                "build a model of some of the rows, such as X[:1000].compute()."
            )
        self.problem = problem.copy()
        parts = self.problem.parts
        shard = self.problem.shard(slice(None))
        shard.num_threads = 1
        self.evaluator, self.X = Evaluator([shard], MEAN_FIELD), shard.rows.inputs(slice(None))
        self.vector = self.problem.free_vector()
        self.chosen, self.start = self.vector.groups[0], self.vector.read()
        self.sizes = parts.sizes
        self.evaluator.set_hyperparameters(parts.theta())
        q = parts.family.by_latent(parts.q(), self.sizes)
        start_from_q(self.evaluator, tuple(q))
        self.sites = shard.sites.current.copy()  # (2, b, n)
        m = self.evaluator.marginals(q)[0].T
        negative = np.minimum(self.sites[1], 0.0)  # Sites keep their slope, with no λ2 below 0.
        self.sites[0] -= negative * m
        self.sites[1] -= negative
        self.with_prior = jacobian_leaves(self.problem)
        names = named_leaves(self.problem.parameters)
        free = {id(block.leaf) for block in self.vector.blocks} - {id(leaf) for leaf in parts.Z}
        self.leaves = {name: leaf for name, leaf in names.items() if id(leaf) in free}

    @property
    def x(self) -> Array:
        """The free hyperparameters when this log-posterior was made, (p,)."""
        return self.start[self.chosen]

    def write(self, x: Array) -> None:
        """Set the copies of the hyperparameters to those of the free vector x (p,)."""
        full = self.start.copy()
        full[self.chosen] = x
        self.vector.write(full)

    def values(self, x: Array) -> dict[str, Array]:
        """The hyperparameters at a draw x by their names; leaves of which some entry is free."""
        self.write(x)
        return {name: np.array(leaf.values) for name, leaf in self.leaves.items()}

    def log_prior(self) -> tuple[float, Array]:
        """log p(θ) |∂θ/∂x| at the hyperparameters last written, and slopes of log |∂θ/∂x| (p,)."""
        log_volume, slopes = self.vector.log_jacobian(self.with_prior)
        return self.problem.log_prior() + log_volume, slopes[self.chosen]

    def whitened(self, x: Array) -> list[_Whitened]:
        """The sampler's coordinates of each latent's v at hyperparameters x."""
        self.write(x)
        self.evaluator.set_hyperparameters(self.problem.parts.theta())
        return [
            _Whitened(prior, project(prior, self.X), self.sites[:, j])
            for j, prior in enumerate(self.evaluator.priors)
        ]

    def v(self, x: Array, z: Array) -> Array:
        """The inducing values v (D,) at hyperparameters x and a sampler's coordinates z."""
        with one_blas_thread():
            parts = zip(self.whitened(x), self._split(z), strict=True)
            return np.concatenate([latent.v(own) for latent, own in parts])

    def _split(self, z: Array) -> list[Array]:
        return np.split(z, np.cumsum(self.sizes)[:-1])

    def __call__(self, x: Array, z: Array) -> tuple[float, Array, Array]:
        """The log-posterior log p̂ at x (p,) and z (D,), up to a constant, and gradients in both.

        −inf, with gradients of 0, where it cannot be evaluated.
        """
        nothing = -np.inf, np.zeros(x.size), np.zeros(z.size)
        try:
            with one_blas_thread(), np.errstate(all="ignore"):
                value, dx, dz = self._evaluate(x, z)
        except NumericalError:
            return nothing
        finite = np.isfinite(value) and np.isfinite(dx).all() and np.isfinite(dz).all()
        return (value, dx, dz) if finite else nothing

    def _evaluate(self, x: Array, z: Array) -> tuple[float, Array, Array]:
        latents = self.whitened(x)
        v = [latent.v(own) for latent, own in zip(latents, self._split(z), strict=True)]
        state = self.evaluator.evaluate([point(part) for part in v], gradient=True)
        gradient = self.evaluator.gradient(state, sites_fixed=False)
        value, dz = state.evaluation.E, []
        for j, (latent, v_j, v_bar) in enumerate(zip(latents, v, gradient.mu, strict=True)):
            z_bar, own = latent.back(v_j, v_bar)
            gradient.latents[j] = gradient.latents[j].plus(own)
            value += latent.log_volume - 0.5 * float(v_j @ v_j)
            dz.append(z_bar)
        self.problem.write_gradient(gradient)
        log_prior, slopes = self.log_prior()
        dx = self.vector.gradient()[self.chosen] + slopes
        return float(value + log_prior), dx, np.concatenate(dz)


def scales_near(joint: HyperJoint) -> Array:
    """Scales C (p, p) for a sampler: x = x̂ + C w has a curvature of about 1 in w.

    It is so where z is 0.
    """
    x, p, z = joint.x, joint.x.size, np.zeros(sum(joint.sizes))
    H = np.empty((p, p))
    for k in range(p):
        step = STEP * (np.arange(p) == k)
        H[:, k] = (joint(x + step, z)[1] - joint(x - step, z)[1]) / (2.0 * STEP)
    values, vectors = np.linalg.eigh(-0.5 * (H + H.T))
    return vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))
