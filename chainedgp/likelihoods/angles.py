"""The likelihood of angles: von Mises noise, whose direction and concentration vary."""

from __future__ import annotations

import numpy as np

from ..expectations import circular, reduced
from ..expectations.forms import Form, Latents, OneForm
from ..expectations.special import LOG_2PI
from .contract import Array, Arrays, Likelihood
from .support import Interval
from .winding import winding_direction

ANGLES = Interval(
    "angles in radians, from −π to π",
    (-np.pi, np.pi),
    "Turn degrees into radians by numpy.deg2rad, and other turns into this one by "
    "(y + numpy.pi) % (2 * numpy.pi) - numpy.pi.",
    periodic=True,
)


class VonMises(OneForm, Likelihood):
    """y ~ von Mises: an angle around the direction f, with concentration κ = e^g.

    log p = κ cos(y − f) − log 2π I₀(κ), for y from −π to π, two ends that are the same place. The
    direction may be any number: f and f + 2π mean the same, so that a direction that turns further
    and further has no jump. For large κ the spread is 1/√κ, for κ = 0 all angles are alike.

    The expectation is closed but for log I₀, which is summed over g:

        E[κ cos(y − f)] = exp(m_g + v_g/2 − v_f/2) cos(y − m_f − c),    c = cov(f, g).

    A direction may turn several times over the range of the inputs. An angle tells it up to whole
    turns, so that the bound has local optima, in which the direction turns back where it should go
    on. A fit therefore begins with the better of two starts: a constant direction, and one that
    follows the angles from row to row (`initial_functions`).

    Mean and variance of predictions are those of the number y, of little use for angles that pass
    ±π: look at `predictive(X).parameters()`, which has the direction, the concentration and the
    resultant length E cos(y − f) = I₁(κ)/I₀(κ). The cdf and quantiles count from −π on.
    """

    latents = ("direction", "log_concentration")
    support = ANGLES
    coupled = False  # The Fisher information is diagonal: correlations add 0.01 nats to the bound.
    node_limits = (0.09, 0.22, 0.42, 0.85, 1.5, 2.4, 3.2)

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The von Mises log-density −2κ sin²((y − f)/2) − log(2π e^{−κ} I₀(κ))."""
        k = np.exp(np.minimum(g, 700.0))
        return -2.0 * k * np.sin(0.5 * (y - f)) ** 2 - LOG_2PI - circular.log_i0e(k)[0]

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of the von Mises log-density: κ sin(y − f), κ (cos(y − f) − I₁(κ)/I₀(κ))."""
        k = np.exp(np.minimum(g, 700.0))
        off = np.subtract(y, f)
        return k * np.sin(off), -2.0 * k * np.sin(0.5 * off) ** 2 - circular.log_i0e(k)[1]

    def _form(self, y: Array, q: Latents, nodes: int) -> Form:
        """E[log p] of an angle, closed but for `nodes` Gauss–Hermite nodes of g in E log I₀."""
        (m_f, m_g), (v_f, v_g) = q.means, q.variances
        rest, drest, dv_rest = reduced.expected_of_exp(circular.log_i0e, m_g, v_g, nodes)
        with np.errstate(over="ignore"):
            k = np.exp(np.minimum(m_g + 0.5 * v_g, 700.0))
        off = y - m_f - q.covariance(0, 1)
        r = np.exp(-0.5 * v_f)
        # κ (r cos − 1), in which nothing cancels: r − 1 by expm1, cos − 1 by the half angle.
        main = k * (np.expm1(-0.5 * v_f) - 2.0 * r * np.sin(0.5 * off) ** 2)
        sine, cosine = k * r * np.sin(off), k * r * np.cos(off)
        value = main - LOG_2PI - rest
        return Form(value, (sine, main - drest), (-0.5 * cosine, 0.5 * main - dv_rest), (sine,))

    def node_score(self, y: Array, means: Array, variances: Array) -> Array:
        """The spread of an angle's log κ, v_g, decides on nodes: f is integrated exactly."""
        return variances[:, 1]

    def joint_node_score(self, y: Array, means: Array, covariances: Array) -> Array:
        """The spread v_g of an angle's log κ, of which alone the part with nodes is a function."""
        return covariances[:, 1, 1]

    def cdf(self, y: Array, f: Array, g: Array) -> Array:
        """The cdf of an angle counted from −π on, P(−π ≤ Y ≤ y)."""
        k, centre = np.exp(np.minimum(g, 700.0)), circular.wrapped(f)
        return np.clip(_turns(y - centre, k) - _turns(-np.pi - centre, k), 0.0, 1.0)

    def quantile_slopes(self, y: Array, f: Array, g: Array) -> Arrays:
        """How an angle y at a fixed cdf moves: 1 − p(−π)/p(y) with f, for the end −π stays.

        With g it moves by −(∂F(y) − ∂F(−π))/p(y), where ∂ are derivatives in g of the cdf
        that is centred on the direction.
        """
        k, centre = np.exp(np.minimum(g, 700.0)), circular.wrapped(f)
        log_p, end = self.log_density(y, f, g), self.log_density(np.asarray(-np.pi), f, g)
        with np.errstate(over="ignore"):
            moved = _turned(y - centre, k)[1] - _turned(-np.pi - centre, k)[1]
            return -np.expm1(end - log_p), -moved * np.exp(np.minimum(-log_p, 700.0))

    def ppf(self, q: Array, f: Array, g: Array) -> Array:
        """The quantile of an angle counted from −π on: the y with P(−π ≤ Y ≤ y) = q."""
        k, centre = np.exp(np.minimum(g, 700.0)), circular.wrapped(f)
        turns = np.asarray(q, dtype=float) + _turns(-np.pi - centre, k)
        whole = np.floor(turns)
        y = centre + circular.centred_quantile(turns - whole, k) + 2.0 * np.pi * whole
        y = np.where(np.less_equal(q, 0.0), -np.pi, np.where(np.greater_equal(q, 1.0), np.pi, y))
        return np.clip(y, -np.pi, np.pi)

    def sample(
        self, rng: np.random.Generator, f: Array, g: Array, size: int | None = None
    ) -> Array:
        """Draws of von Mises angles, by numpy's generator."""
        shape = self._draw_shape(size, (f, g), {})
        k = np.exp(np.clip(g, -700.0, 700.0))
        drawn = rng.vonmises(np.zeros(()), np.minimum(k, 1e15), size=shape)
        return np.clip(circular.wrapped(circular.wrapped(f) + drawn), -np.pi, np.pi)

    def conditional_mean(self, f: Array, g: Array) -> Array:
        """The mean of an angle as a number y from −π to π: not the direction."""
        return circular.linear_moments(circular.wrapped(f), np.exp(np.minimum(g, 700.0)))[0]

    def conditional_variance(self, f: Array, g: Array) -> Array:
        """The variance of an angle as a number y from −π to π."""
        return circular.linear_moments(circular.wrapped(f), np.exp(np.minimum(g, 700.0)))[1]

    def natural_parameters(self, f: Array, g: Array) -> dict[str, Array]:
        """An angle's direction f, concentration κ and resultant length I₁(κ)/I₀(κ)."""
        k = np.exp(np.minimum(g, 700.0))
        return {
            "direction": np.asarray(f),
            "concentration": k,
            "resultant_length": circular.resultant_length(k),
        }

    def initial_latents(self, y: Array) -> Array:
        """Start of an angle's fit: the direction of the mean vector, and κ from its length."""
        mean = np.mean(np.exp(1j * y))
        return np.array([float(np.angle(mean)), _log_concentration(float(np.abs(mean)))])

    def initial_functions(self, X: Array, y: Array) -> Array | None:
        """Start of an angle's fit: a direction that follows the angles, and a constant κ.

        None where the direction stays within half a turn, for which constants are a good start.
        """
        found = winding_direction(X, y)
        if found is None or np.ptp(found[0]) < np.pi:
            return None
        direction = found[0] - 2.0 * np.pi * np.round(found[0].mean() / (2.0 * np.pi))
        return np.stack([direction, np.full(len(y), _log_concentration(found[1]))])


def _log_concentration(length: float) -> float:
    """von Mises log κ from the resultant length (Banerjee et al. 2005), at least log 0.1."""
    length = min(length, 1.0 - 1e-6)
    k = length * (2.0 - length**2) / (1.0 - length**2)
    return float(np.log(max(k, 0.1)))


def _turns(angle: Array, k: Array) -> Array:
    """The cdf of an angle about its direction, for any number: it is 1 more with each turn."""
    return _turned(angle, k)[0]


def _turned(angle: Array, k: Array) -> tuple[Array, Array]:
    """The von Mises cdf about its direction, 1 more with each turn, and k times its slope in k."""
    whole = np.round(np.asarray(angle) / (2.0 * np.pi))
    value, slope = circular.centred_cdf_and_slope(angle - 2.0 * np.pi * whole, k)
    return whole + value, slope
