"""How much wider than q the default bands are: uncertain hyperparameters, and the response of q.

At fitted hyperparameters x̂ the latents at the rows have means m(x̂) under q. Around the fit x is
about N(x̂, C Cᵀ), with the curvature of bound and priors, and q is found anew at other x, so that
the means move by J = ∂m/∂x. To first order the hyperparameters add J C Cᵀ Jᵀ to the covariance of
the latents, and a Gaussian of the whitened inducing values takes that in:

    q̃(v) = N(μ, S + D Dᵀ),    D_j = argmin |A_jᵀ D − J_j C|² + ε |D|²,

where A_jᵀ v_j are the latents at the rows, and squares of rows are summed with their weights. An
evaluation at a little step along each hyperparameter gives its column of J and, by the difference
of gradients, of the curvature. At given hyperparameters q itself is too narrow, and columns of
`response` are appended to D. Predictions use q̃ in the place of q; the bound, its gradients, leave-
one-out and the next fit see q alone.

Where the posterior is a bent ridge, as that of two rates with a known sum, a Gaussian as wide as it
is holds much that the data exclude: e^f + e^g is far too large when f and g are wide. Bands of
latents are then those of q̃, but targets are predicted by q. `suits_targets` tells when.

Some of x are constants of the likelihood: t = t̂ + B w with the same w ~ N(0, I) by which v moves
by D w. With B = L Q, Q of orthonormal rows, t = t̂ + L z and cov(v, z) = D Qᵀ: see
`predictive.constants`, which makes bands of what depends on constants and latents together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from paramz.transformations import Logistic

from ..errors import NumericalError
from ..inference.free_vector import FARTHEST
from ..inference.monitor import Monitor
from ..inference.problem import Problem
from ..inference.theta_and_q import Parts
from ..likelihoods import Likelihood
from ..linalg import Array, one_blas_thread
from ..parameters.domains import DOMAINS
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import project
from ..predictive.constants import Constants, normal_draws
from .density import LogJoint
from .profiled import LogPosterior, curvature_root
from .response import response

# Means and gradients are differences over this share of the reach of a hyperparameter, which is a
# factor of e² for a positive one: the step is a fifth of its logarithm, large beside the error of q
# and small beside what the data leave open.
STEP = 0.1
# ε: directions of v that the rows hardly see get no widening. It is in units of the squared scale
# on which a latent varies.
RIDGE = 1e-3
# At each step q is found to within so many nats: bands are then right to about 1 % of their width.
TOLERANCE = 1e-4
# Targets are predicted by q̃ if the rows' expected log-densities fall by at most so many times what
# they do to first order. On simulated sets it is up to 1.1 for noise models, event times, counts
# and `Beta`, 2 to 6 for `AdditivePoisson`, and above 4 for `SignalNoiseGaussian` and `HetProbit`.
DEEPEST = 1.5
ROUNDING = 0.01  # Falls of so many nats are nothing.
# They are predicted by q if known constants of the likelihood would leave less than this share of
# what uncertain hyperparameters add: then latents and constants are uncertain together only, as the
# level of a latent and the cut-points of `Ordinal`, and targets are not.
OWN_SHARE = 0.5


@dataclass(frozen=True)
class Widening:
    """What bands add to q at some fitted hyperparameters.

    roots : D (M, k) of each group of latents.
    theta : the values of all hyperparameters and inducing inputs, for which alone it holds.
    of_targets : whether targets, too, are predicted by the wider q̃, and not by q.
    constants : what is known of the likelihood's own constants; None where none is free.
    """

    roots: tuple[Array, ...]
    theta: Array
    of_targets: bool = True
    constants: Constants | None = None

    @classmethod
    def at(
        cls,
        parts: Parts,
        roots: Sequence[Array],
        of_targets: bool = True,
        constants: Constants | None = None,
    ) -> Widening:
        """A widening at the current hyperparameters."""
        return cls(tuple(roots), theta_of(parts), of_targets, constants)

    def holds_for(self, parts: Parts) -> bool:
        """Whether the hyperparameters are still those at which the widening was found."""
        return np.array_equal(self.theta, theta_of(parts))

    def widened(self, q: Sequence[Gaussian]) -> tuple[Gaussian, ...]:
        """The widened q̃ with covariances S + D Dᵀ, of each group."""
        return wider(q, self.roots)


def wider(q: Sequence[Gaussian], roots: Sequence[Array]) -> tuple[Gaussian, ...]:
    """The widened Gaussians N(μ, S + D Dᵀ) of all groups."""
    return tuple(_wider(part, root) for part, root in zip(q, roots, strict=True))


def theta_of(parts: Parts) -> Array:
    """All hyperparameters and inducing inputs, for which alone a widening holds, in one vector."""
    return np.concatenate([np.ravel(leaf.values) for leaf in (*parts.others, *parts.Z)])


def _wider(q: Gaussian, root: Array) -> Gaussian:
    """The widened Gaussian N(μ, S + D Dᵀ) of one group."""
    S = q.S + root @ root.T
    return Gaussian(q.mu, S, float(np.linalg.slogdet(S)[1]))


def widening_of(problem: Problem) -> Widening | None:
    """What bands add to q at the current hyperparameters; None where that could not be found."""
    by_hyperparameters, constants = widened_by_hyperparameters(problem)
    found = [by_hyperparameters, response(problem)]
    groups = zip(*(roots for roots in found if roots is not None), strict=True)
    roots = tuple(np.hstack(group) for group in groups)
    if not roots:
        return None
    return Widening.at(problem.parts, roots, suits_targets(problem, roots, constants), constants)


def suits_targets(
    problem: Problem, roots: Sequence[Array], constants: Constants | None = None
) -> bool:
    """Whether q̃ explains the rows about as well as a Gaussian posterior of its width would.

    To first order the expected log-density falls by −Σ tr(G_i (Ṽ_i − V_i)) from q to q̃, G = ∂E/∂V.
    That is what a wide posterior costs. Where the fall is much deeper, q̃ is wide where rows are
    impossible. Where most of the cost would be gone if the constants of the likelihood were known,
    q̃ does not suit either, because targets are predicted with constants that are.
    """
    parts = problem.parts
    density, q = LogJoint(problem), parts.q()
    wide = wider(q, roots)
    with np.errstate(all="ignore"):
        moments = [parts.family.marginals(density.chunks, p) for p in (q, wide)]
        before, after = (density.slopes(p.m.T, np.moveaxis(p.V, -1, 0)) for p in moments)
    fall = float(np.sum(before.value - after.value))
    added = np.moveaxis(moments[1].V - moments[0].V, -1, 0)
    cost = max(-float(np.sum(before.dV * added)), 0.0)
    if constants is not None:
        own = parts.family.marginals(density.chunks, _without(constants, parts, wide)).V
        left = -float(np.sum(before.dV * np.moveaxis(own - moments[0].V, -1, 0)))
        if left < OWN_SHARE * cost - ROUNDING:
            return False
    return fall <= DEEPEST * cost + ROUNDING


def _without(constants: Constants, parts: Parts, wide: Sequence[Gaussian]) -> tuple[Gaussian, ...]:
    """The widened Gaussians if the constants of the likelihood were known: S + D Dᵀ − R Rᵀ."""
    links = [np.concatenate(group) for group in parts.family.grouped(constants.links)]
    known = [part.S - link @ link.T for part, link in zip(wide, links, strict=True)]
    return tuple(Gaussian(part.mu, S, part.log_det_S) for part, S in zip(wide, known, strict=True))


def widened_by_hyperparameters(
    problem: Problem,
) -> tuple[tuple[Array, ...] | None, Constants | None]:
    """What uncertain hyperparameters add at the current ones, found on a copy of the problem.

    D (M, p) of each group of latents, and what is known of the likelihood's own constants.

    None where no hyperparameter is free, or where the bound cannot be evaluated around the fit.
    """
    own = problem.copy()
    with Monitor("hyperparameters") as monitor, np.errstate(all="ignore"), one_blas_thread():
        density = LogPosterior(own, monitor)
        x = density.start[density.chosen]
        if not x.size or not np.isfinite(density.value(x)):
            return None, None
        density.commit()
        density.objective.tolerance = TOLERANCE
        try:
            roots, C = _responses(own, density, x)
        except NumericalError:
            return None, None
    return roots, _constants(own, density, x, roots, C)


def _means(own: Problem, q: Sequence[Gaussian], X: Array) -> Array:
    """Means m + Kfu L⁻ᵀ μ of all latents at the rows X, (n, b): what hyperparameters move."""
    priors = own.evaluator.priors
    mus = own.parts.family.split([part.mu for part in q], [len(prior.Z) for prior in priors])
    return np.stack(
        [
            prior.mean.evaluate(X)[0] + (mu @ prior.L_inv) @ prior.covariance(X)[0]
            for prior, mu in zip(priors, mus, strict=True)
        ],
        axis=1,
    )


def _responses(own: Problem, density: LogPosterior, x: Array) -> tuple[tuple[Array, ...], Array]:
    """D of each group, and C, from differences of means and gradients along each hyperparameter."""
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
    C = curvature_root(H, density.reach)
    change = np.tensordot(J, C, ([0], [0]))  # (n, b, p)
    ridges = RIDGE * np.square(own.starts.scales)  # A has the unit of its latent.
    D, weights = [], 1.0 if own.rows.weights is None else own.rows.weights
    for j, A_j in enumerate(A):
        seen = weights * A_j  # A row of weight two is two rows.
        squares = seen @ A_j.T + ridges[j] * np.eye(len(A_j))
        D.append(np.linalg.solve(squares, seen @ change[:, j]))
    return tuple(np.concatenate(group) for group in own.parts.family.grouped(D)), C


def _constants(
    own: Problem, density: LogPosterior, x: Array, roots: Sequence[Array], C: Array
) -> Constants | None:
    """The free constants of the likelihood: their values at draws, and cov(v, z)."""
    likelihood, vector = own.parts.likelihood, density.vector
    places = {key: vector.places_of(getattr(likelihood, key)) for key in likelihood.parameter_keys}
    free = {key: int(place.min()) for key, place in places.items() if place.size}
    if not free:
        return None
    rows = np.searchsorted(density.chosen, list(free.values()))
    Q, R = np.linalg.qr(C[rows].T)  # B = Rᵀ Qᵀ
    steps = R.T @ normal_draws(len(free))  # (c, DRAWS)
    draws = {}
    for key, row, step in zip(free, rows, steps, strict=True):
        at = density.start.copy()
        values = []
        for t in (*(x[row] + step), x[row] - STEP, x[row] + STEP):
            at[density.chosen[row]] = t
            vector.write(at)
            values.append(likelihood.parameter_values()[key])
        vector.write(density.start)
        draws[key] = _draws_of(likelihood, key, np.array(values), step)
    links = own.parts.family.split([D @ Q for D in roots], own.parts.sizes)
    return Constants(draws, tuple(links))


def _draws_of(likelihood: Likelihood, key: str, values: Array, steps: Array) -> Array:
    """Draws of a constant whose coordinate moves by these steps.

    values : there, and at STEP below and above the fit. With a lower bound alone they are of a
        log-normal distribution: the coordinate of ν > 1 is nearly ν itself, and a normal one, as
        wide as ν is uncertain, would have some draws at the bound, where tails are extreme.
    """
    domain, leaf = DOMAINS[likelihood._domain(key)], getattr(likelihood, key)
    twice = any(isinstance(constraint, Logistic) for constraint, _ in leaf.constraints.items())
    if twice or not np.isfinite(domain.lower) or np.isfinite(domain.upper):
        return values[:-2]
    above = likelihood.parameter_values()[key] - domain.lower
    slope = (values[-1] - values[-2]) / (2.0 * STEP * above)
    return domain.lower + above * np.exp(np.clip(slope * steps, -FARTHEST, FARTHEST))
