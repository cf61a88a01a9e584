"""How much wider than q the default bands are: uncertain hyperparameters, and the response of q.

At fitted hyperparameters x̂ the latents at the rows have means m(x̂) under q. Around the fit x is
about N(x̂, C Cᵀ), with the curvature of bound and priors, and q is found anew at other x, so that
the means move by J = ∂m/∂x. To first order the hyperparameters add J C Cᵀ Jᵀ to the covariance of
the latents, and a Gaussian of the whitened inducing values takes that in:

    q̃(v) = N(μ, S + D Dᵀ),    D_j = argmin |A_jᵀ D − J_j C|² + ε |D|²,

where A_jᵀ v_j are the latents at the rows. An evaluation at a little step along each hyperparameter
gives its column of J and, by the difference of gradients, of the curvature. At given
hyperparameters q itself is too narrow, and columns of `response` are appended to D. Predictions use
q̃ in the place of q; the bound, its gradients, leave-one-out and the next fit see q alone.

Where the posterior is a bent ridge, as that of two rates with a known sum, a Gaussian as wide as it
is holds much that the data exclude: e^f + e^g is far too large when f and g are wide. Bands of
latents are then those of q̃, but targets are predicted by q. `suits_targets` tells when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import NumericalError
from ..inference.monitor import Monitor
from ..inference.problem import Problem
from ..inference.theta_and_q import Parts
from ..linalg import Array, one_blas_thread
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import project
from .around import LogPosterior, curvature_root
from .density import LogJoint
from .response import response

# Means and gradients are differences over this share of the reach of a hyperparameter, which is a
# factor of e² for a positive one: the step is a fifth of its logarithm, large beside the error of q
# and small beside what the data leave open.
STEP = 0.1
# ε: directions of v that the rows hardly see get no widening. It is relative to the prior, whose
# covariance is 1.
RIDGE = 1e-3
# At each step q is found to within so many nats: bands are then right to about 1 % of their width.
TOLERANCE = 1e-4
# Targets are predicted by q̃ if the rows' expected log-densities fall by at most so many times what
# they do to first order. On simulated sets it is up to 1.1 for noise models, event times, counts
# and `Beta`, 2 to 6 for `AdditivePoisson`, and above 4 for `SignalNoiseGaussian` and `HetProbit`.
DEEPEST = 1.5
ROUNDING = 0.01  # Falls of so many nats are nothing.


@dataclass(frozen=True)
class Widening:
    """What bands add to q at some fitted hyperparameters.

    roots : D (M, k) of each group of latents.
    theta : the values of all hyperparameters and inducing inputs, for which alone it holds.
    of_targets : whether targets, too, are predicted by the wider q̃, and not by q.
    """

    roots: tuple[Array, ...]
    theta: Array
    of_targets: bool = True

    @classmethod
    def at(cls, parts: Parts, roots: Sequence[Array], of_targets: bool = True) -> Widening:
        """A widening at the current hyperparameters."""
        return cls(tuple(roots), _theta(parts), of_targets)

    def holds_for(self, parts: Parts) -> bool:
        """Whether the hyperparameters are still those that it was found at."""
        return np.array_equal(self.theta, _theta(parts))

    def widened(self, q: Sequence[Gaussian]) -> tuple[Gaussian, ...]:
        """q̃ with covariances S + D Dᵀ, of each group."""
        return wider(q, self.roots)


def wider(q: Sequence[Gaussian], roots: Sequence[Array]) -> tuple[Gaussian, ...]:
    """N(μ, S + D Dᵀ) of each group."""
    return tuple(_wider(part, root) for part, root in zip(q, roots, strict=True))


def _theta(parts: Parts) -> Array:
    """The values of all hyperparameters and inducing inputs, in one vector."""
    return np.concatenate([np.ravel(leaf.values) for leaf in (*parts.others, *parts.Z)])


def _wider(q: Gaussian, root: Array) -> Gaussian:
    """N(μ, S + D Dᵀ) of one group."""
    S = q.S + root @ root.T
    return Gaussian(q.mu, S, float(np.linalg.slogdet(S)[1]))


def widening_of(problem: Problem) -> Widening | None:
    """What bands add to q at the current hyperparameters; None where that could not be found."""
    found = [widened_by_hyperparameters(problem), response(problem)]
    groups = zip(*(roots for roots in found if roots is not None), strict=True)
    roots = tuple(np.hstack(group) for group in groups)
    if not roots:
        return None
    return Widening.at(problem.parts, roots, suits_targets(problem, roots))


def suits_targets(problem: Problem, roots: Sequence[Array]) -> bool:
    """Whether q̃ explains the rows about as well as a Gaussian posterior of its width would.

    To first order the expected log-density falls by −Σ tr(G_i (Ṽ_i − V_i)) from q to q̃, G = ∂E/∂V.
    That is what a wide posterior costs. Where the fall is much deeper, q̃ is wide where rows are
    impossible.
    """
    parts = problem.parts
    density, q = LogJoint(problem), parts.q()
    wide = wider(q, roots)
    with np.errstate(all="ignore"):
        moments = [parts.family.marginals(density.chunks, p) for p in (q, wide)]
        before, after = (density.slopes(p.m.T, np.moveaxis(p.V, -1, 0)) for p in moments)
    fall = float(np.sum(before.value - after.value))
    added = np.moveaxis(moments[1].V - moments[0].V, -1, 0)
    return fall <= DEEPEST * max(-float(np.sum(before.dV * added)), 0.0) + ROUNDING


def widened_by_hyperparameters(problem: Problem) -> tuple[Array, ...] | None:
    """D (M, p) of each group of latents at the current hyperparameters, on a copy of the problem.

    None where no hyperparameter is free, or where the bound cannot be evaluated around the fit.
    """
    own = problem.copy()
    with Monitor("hyperparameters") as monitor, np.errstate(all="ignore"), one_blas_thread():
        density = LogPosterior(own, monitor)
        x = density.start[density.chosen]
        if not x.size or not np.isfinite(density.value(x)):
            return None
        density.commit()
        density.objective.tolerance = TOLERANCE
        try:
            return _responses(own, density, x)
        except NumericalError:
            return None


def _means(own: Problem, q: Sequence[Gaussian], X: Array) -> Array:
    """The means m + Kfu L⁻ᵀ μ of all latents at the rows X, (n, b), without their variances."""
    priors = own.evaluator.priors
    mus = own.parts.family.split([part.mu for part in q], [len(prior.Z) for prior in priors])
    return np.stack(
        [
            prior.mean.evaluate(X)[0] + (mu @ prior.L_inv) @ prior.covariance(X)[0]
            for prior, mu in zip(priors, mus, strict=True)
        ],
        axis=1,
    )


def _responses(own: Problem, density: LogPosterior, x: Array) -> tuple[Array, ...]:
    """D of each group, from differences of means and gradients along every hyperparameter."""
    evaluator, X = own.evaluator, own.rows.inputs()
    means, gradient = _means(own, density.q(), X), density.gradient()  # (n, b) and (p,)
    A = [project(prior, X).A for prior in evaluator.priors]
    H, J = np.zeros((x.size, x.size)), np.zeros((x.size, *means.shape))
    for k, step in enumerate(STEP * density.reach):
        moved = x.copy()
        moved[k] += step
        if np.isfinite(density.value(moved)):
            H[:, k] = (density.gradient() - gradient) / step
            J[k] = (_means(own, density.q(), X) - means) / step
    H, J = np.nan_to_num(H, posinf=0.0, neginf=0.0), np.nan_to_num(J, posinf=0.0, neginf=0.0)
    change = np.tensordot(J, curvature_root(H, density.reach), ([0], [0]))  # (n, b, p)
    D = [
        np.linalg.solve(A_j @ A_j.T + RIDGE * np.eye(len(A_j)), A_j @ change[:, j])
        for j, A_j in enumerate(A)
    ]
    return tuple(np.concatenate(group) for group in own.parts.family.grouped(D))
