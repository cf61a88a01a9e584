"""Uncertain hyperparameters at the price of some fits of q: a Gaussian around the fit, corrected.

    p(θ | y) ∝ e^{L*(x)} p(θ) |∂θ/∂x|,    L*(x) = max_q L(θ(x), q),

with the profiled bound in the place of log p(y | θ). Its logarithm has a gradient for the price of
one q (at fixed sites), so that differences of gradients at the fit give its Hessian. Points are
drawn from a Student-t with the Gaussian's curvature, q is found at each, and weights correct what
it has wrong (importance sampling; the largest weights are smoothed).
"""

from __future__ import annotations

import numpy as np

from ..data.arguments import as_generator, positive_int
from ..data.types import Seed
from ..errors import ChainedGPWarning, InputError, warn
from ..inference.monitor import Monitor
from ..inference.problem import Problem
from ..inference.profile import ProfiledBound, start_sites
from ..linalg import Array
from ..posterior.gaussian import Gaussian
from .averaged import Averaged, Columns, Point
from .hyper import jacobian_leaves
from .pareto import smoothed_weights

STEP = 0.01  # Second derivatives are differences of gradients over this share of a reach in x.
TOLERANCE = 1e-6  # At every point q is found to within so many nats of the best bound.
FREEDOM = 5.0  # Points are drawn from a Student-t of so many degrees of freedom, to reach tails.
MOST_MOVES = 5  # The centre is moved to the mode by at most so many steps of Newton's method.
# Importance weights are not to be trusted if their Pareto k is above HIGH_K and they are also worth
# less than the share WORTH of the points: of few points k alone says little.
HIGH_K, WORTH = 0.7, 0.3


class Around(Averaged):
    """Predictions that average over hyperparameters around a fit.

    Attributes
    ----------
    points, weights : hyperparameters, each with its q, and their weights, which sum to 1.
    ess : about how many points with equal weights these are worth, 1/Σ w².
    pareto_k : how heavy the tail of the weights is; above 0.7, and with a small `ess`, they are not
        to be trusted.
    """

    ess: float
    pareto_k: float

    def __repr__(self) -> str:
        return (
            f"<Predictions averaged over {len(self.points)} points around the fit, worth "
            f"{self.ess:.0f} of equal weight; Pareto k {self.pareto_k:.2f}>"
        )


class LogPosterior:
    """Log-posterior L*(x) + log p(θ) + log |∂θ/∂x| of free hyperparameters x (p,), with slopes."""

    def __init__(self, problem: Problem, monitor: Monitor) -> None:
        start_sites(problem)
        self.objective = ProfiledBound(problem, monitor)
        self.objective.tolerance = TOLERANCE
        self.vector = self.objective.vector
        self.start, self.chosen = self.vector.read(), self.vector.groups[0]
        self.leaves = jacobian_leaves(problem)
        self.reach = self.vector.reach()[self.chosen]

    def value(self, x: Array) -> float:
        """The log-posterior of hyperparameters x, up to a constant; −inf where there is none."""
        full = self.start.copy()
        full[self.chosen] = x
        value = -self.objective.value(full)
        return value + self.vector.log_jacobian(self.leaves)[0] if np.isfinite(value) else -np.inf

    def gradient(self) -> Array:
        """The gradient (p,) of the hyperparameters' log-posterior at the last x of `value`."""
        slopes = -self.objective.gradient() + self.vector.log_jacobian(self.leaves)[1]
        return slopes[self.chosen]

    def q(self) -> tuple[Gaussian, ...]:
        """The q that was found at the last hyperparameters x given to `value`."""
        if self.objective.inner is None:
            raise RuntimeError("value comes first")
        return self.objective.inner.state.q

    def commit(self) -> None:
        """Start the search for q at other hyperparameters from the q at the last ones."""
        self.objective.evaluator.commit()


def around_the_fit(problem: Problem, columns: Columns, size: int, rng: Seed) -> Around:
    """Average over hyperparameters around the fit; see `ChainedGP.over_hyperparameters`."""
    size, generator = positive_int(size, "size"), as_generator(rng)
    if size < 10:
        raise InputError(f"size must be at least 10 points; got {size}.")
    if not problem.is_local:
        raise InputError(
            "averages over hyperparameters need the rows in memory, but they are on a cluster: "
            "build a model of some of the rows, such as X[:1000].compute()."
        )
    own = problem.copy()
    with Monitor("hyperparameters") as monitor, np.errstate(all="ignore"):
        density = LogPosterior(own, monitor)
        x = density.start[density.chosen]
        top = density.value(x)
        if not np.isfinite(top):
            raise InputError("the model has no finite bound: fit it by m.optimize() first.")
        if not x.size:
            points, weights, k = [Point(None, density.q())], np.ones(1), -np.inf
        else:
            centre, C = _gaussian(density, x, top)
            points, weights, k = _drawn(density, centre, C, size, generator)
        own.evaluator.freeze_nodes(False)
    found = Around(problem, points, weights, columns, problem.parts.family)
    found.ess, found.pareto_k = float(1.0 / np.sum(weights**2)), k
    if k > HIGH_K and found.ess < WORTH * size:
        warn(
            f"the posterior of the hyperparameters is not near a Gaussian: the weights that "
            f"correct it have a Pareto k of {k:.2f}, and are worth {found.ess:.0f} of {size} "
            "points. Take more points, give priors to parameters with extreme values, or draw from "
            "the posterior by m.sample().",
            ChainedGPWarning,
        )
    return found


def curvature_root(H: Array, reach: Array) -> Array:
    """Root C (p, p) of the covariance C Cᵀ = (−H)⁻¹ of hyperparameters of Hessian H.

    A direction about which nothing is known has the standard deviation of its reach (p,).
    """
    values, vectors = np.linalg.eigh(-0.5 * reach[:, None] * (H + H.T) * reach)
    return reach[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))


def _gaussian(density: LogPosterior, x: Array, top: float) -> tuple[Array, Array]:
    """The mode (p,) of the hyperparameters' log-posterior and a root C (p, p) of its covariance."""
    steps = np.diag(STEP * density.reach)
    for move in range(MOST_MOVES + 1):
        density.commit()
        gradient, H = density.gradient(), np.empty((x.size, x.size))
        for k in range(x.size):
            ends = []
            for sign in (1.0, -1.0):
                density.value(x + sign * steps[k])
                ends.append(density.gradient())
            H[:, k] = (ends[0] - ends[1]) / (2.0 * steps[k, k])
        C = curvature_root(np.where(np.isfinite(H), H, 0.0), density.reach)
        step = C @ (C.T @ gradient)
        # A Newton step gains half of this in nats.
        if gradient @ step < 0.05 or move == MOST_MOVES:
            return x, C
        for _ in range(5):
            value = density.value(x + step)
            if value > top:
                break
            step = 0.5 * step
        else:
            return x, C
        x, top = x + step, value
    return x, C


def _drawn(
    density: LogPosterior, centre: Array, C: Array, size: int, rng: np.random.Generator
) -> tuple[list[Point], Array, float]:
    """Draw hyperparameters in pairs to either side of the centre, with weights and Pareto k."""
    pairs, p = -(-size // 2), centre.size
    half = rng.standard_normal((pairs, p))
    half *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (pairs, 1)))
    z = np.concatenate([half, -half])[:size]
    points, log_ratios = [], []
    for row in z:
        x = centre + C @ row
        value = density.value(x)
        if np.isfinite(value):
            points.append(Point(x, density.q()))
            log_ratios.append(value + 0.5 * (FREEDOM + p) * np.log1p(float(row @ row) / FREEDOM))
    if len(points) < 2:
        raise InputError("the bound is not finite around the fit: fit by m.optimize() first.")
    weights, k = smoothed_weights(np.array(log_ratios))
    return points, weights, k
