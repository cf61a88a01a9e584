"""Uncertain hyperparameters at the price of some fits of q: a Gaussian around the fit, corrected.

    p(θ | y) ∝ e^{L*(x)} p(θ) |∂θ/∂x|,    L*(x) = max_q L(θ(x), q),

with the profiled bound in the place of log p(y | θ). Its logarithm has a gradient for the price of
one q (at fixed sites), so that differences of gradients at the fit give its Hessian. Points are
drawn from a Student-t with the Gaussian's curvature, q is found at each, and weights correct what
it has wrong (importance sampling; the largest weights are smoothed).

At given hyperparameters q itself is too narrow. As in the bands of a fit, each q is widened by its
linear response (`response`), and where the posterior is bent, only for latents (`widening`).
"""

from __future__ import annotations

import numpy as np

from ..data.arguments import as_generator, positive_int
from ..data.types import Seed
from ..errors import ChainedGPWarning, InputError, warn
from ..inference.monitor import Monitor
from ..inference.problem import Problem
from ..linalg import Array, unpack_lower
from ..posterior.gaussian import Gaussian, root_of
from .averaged import Averaged, Columns, Point
from .pareto import smoothed_weights
from .profiled import LogPosterior, curvature_root
from .response import response
from .widening import suits_targets, wider

STEP = 0.01  # Second derivatives are differences of gradients over this share of a reach in x.
FREEDOM = 5.0  # Points are drawn from a Student-t of so many degrees of freedom, to reach tails.
MOST_MOVES = 5  # The centre is moved to the mode by at most so many steps of Newton's method.
# Importance weights are not to be trusted if their Pareto k is above HIGH_K and they are also worth
# less than the share WORTH of the points: of few points k alone says little.
HIGH_K, WORTH = 0.7, 0.3
# Points of less than this share of the largest weight are left out: so far from the fit something
# may be infinite, and then an average would be, too.
LEAST = 1e-6


class Around(Averaged):
    """Predictions that average over hyperparameters around a fit.

    Attributes
    ----------
    points, weights : hyperparameters, each with its q, and their weights, which sum to 1. Points
        whose weight is next to nothing are left out.
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


class _Points:
    """Points of an average, each with the q that was found last, widened by its linear response.

    Where the posterior is bent, the response is found anew at every point, and targets are
    predicted by q; whether it is, is decided at the fit. Elsewhere the response is small, and that
    of the fit is taken along: of q with S = R Rᵀ it is the same share of R everywhere.
    """

    def __init__(self, density: LogPosterior, widened: bool) -> None:
        self.density = density
        roots = self._response() if widened else None
        self.bent = roots is not None and not suits_targets(density.objective.problem, roots)
        pairs = zip(density.q(), roots or (), strict=False)
        self.shares = [np.linalg.solve(_root(q), root) for q, root in pairs]

    def point(self, x: Array | None) -> Point:
        """The point at hyperparameters x, the last given to the log-posterior."""
        q = self.density.q()
        if self.bent:
            roots = self._response()
            return Point(x, q if roots is None else wider(q, roots), q)
        if not self.shares:
            return Point(x, q)
        pairs = zip(q, self.shares, strict=True)
        return Point(x, wider(q, [_root(part) @ share for part, share in pairs]))

    def _response(self) -> tuple[Array, ...] | None:
        problem = self.density.objective.problem
        problem.parts.write_q(self.density.q())
        return response(problem)


def _root(q: Gaussian) -> Array:
    """The lower triangular R (M, M) of S = R Rᵀ."""
    return unpack_lower(root_of(q), q.mu.size)


def around_the_fit(
    problem: Problem, columns: Columns, size: int, rng: Seed, widened: bool
) -> Around:
    """Average over hyperparameters around the fit; see `ChainedGP.over_hyperparameters`.

    widened : whether each q is widened by its linear response.
    """
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
        made = _Points(density, widened)
        if not x.size:
            points, weights, k = [made.point(None)], np.ones(1), -np.inf
        else:
            centre, C = _gaussian(density, x, top)
            points, weights, k = _drawn(made, centre, C, size, generator)
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
    made: _Points, centre: Array, C: Array, size: int, rng: np.random.Generator
) -> tuple[list[Point], Array, float]:
    """Draw hyperparameters in pairs to either side of the centre, with weights and Pareto k."""
    pairs, p = -(-size // 2), centre.size
    half = rng.standard_normal((pairs, p))
    half *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (pairs, 1)))
    z = np.concatenate([half, -half])[:size]
    points, log_ratios = [], []
    for row in z:
        x = centre + C @ row
        value = made.density.value(x)
        if np.isfinite(value):
            points.append(made.point(x))
            log_ratios.append(value + 0.5 * (FREEDOM + p) * np.log1p(float(row @ row) / FREEDOM))
    if len(points) < 2:
        raise InputError("the bound is not finite around the fit: fit by m.optimize() first.")
    weights, k = smoothed_weights(np.array(log_ratios))
    kept = np.flatnonzero(weights > LEAST * weights.max())
    return [points[i] for i in kept], weights[kept] / weights[kept].sum(), k
