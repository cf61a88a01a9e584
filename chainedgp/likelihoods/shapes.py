"""Likelihoods whose shape is learnt: location, scale, and a skewness and tails that may vary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from scipy.special import expit, kve, log_ndtr, ndtr, ndtri

from ..data.names import checks_names
from ..data.types import Keywords, Value
from ..errors import ArgumentError, InputError
from ..expectations import quadrature
from ..expectations.special import HALF_LOG_2PI, scaled
from ..parameters.priors import LogNormal, Normal
from .contract import Array, Arrays, Averages, Likelihood

Function = TypeVar("Function", bound=Callable[..., None])

LATENT = "latent"
"""A shape given as this word is a latent function; given as a number it is a learnt constant."""
MOST_SKEW = 150.0  # With a larger skewness |κ| one tail has no length at all, to rounding.
FARTHEST = 230.0  # Where |asinh z| is larger, p underflows however it is written.
LARGEST = 1e150  # A larger standardised residual is taken for this one: squares stay finite.


class Constant(NamedTuple):
    """How a shape of a likelihood is written as a constant: its name, its domain, its start.

    A positive constant is the exponential of the latent whose place it takes.
    """

    name: str
    domain: str
    start: float


def is_number(value: object) -> bool:
    """Whether a start of a shape is one real number of Python or numpy, not True or False."""
    if not isinstance(value, int | float | np.generic | np.ndarray):
        return False
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"


def _by_keyword(owner: str, shapes: Iterable[str]) -> str:
    """What a user should write in the place of shapes that were given by their position."""
    words = ", ".join(f"{key}=…" for key in shapes)
    return f"{owner} takes its shapes by keyword, {owner}({words}); the first argument is its name."


def checks_shapes(init: Function) -> Function:
    """Decorate a constructor of a likelihood: each of its shapes must be given by name."""
    given = inspect.signature(init).parameters.values()
    shapes = [p.name for p in given if p.kind is p.KEYWORD_ONLY]
    named = checks_names(init)

    @wraps(init)
    def checked(*args: object, **kw: object) -> None:
        if len(args) > 2:  # The object itself and its name.
            raise ArgumentError(_by_keyword(type(args[0]).__name__, shapes))
        named(*args, **kw)

    return checked  # type: ignore[return-value]


class _Shaped(Likelihood):
    """A likelihood of several quantities; each of its shapes is a constant or a latent.

    The shapes are the last quantities.

    A subclass gives `quantities`, the names of all latents that there may be, and `constants`, how
    each of the last is written as a constant. Its `_log_density` and `_slopes` take all quantities
    as latents, whatever they are.
    """

    quantities: ClassVar[tuple[str, ...]]
    constants: ClassVar[Mapping[str, Constant]]

    def __init__(self, name: str | None, shapes: Mapping[str, float | str]) -> None:
        if name == LATENT:
            raise ArgumentError(_by_keyword(type(self).__name__, shapes))
        for key, value in shapes.items():
            if not (is_number(value) or (isinstance(value, str) and value == LATENT)):
                raise InputError(
                    f"{type(self).__name__}: {key} must be a number, from which a learnt constant "
                    f"starts, or {LATENT!r} for a function of the inputs; got {value!r}."
                )
        self._shapes = {key: v if v == LATENT else float(v) for key, v in shapes.items()}
        fixed = {
            latent: own for latent, own in self.constants.items() if shapes[own.name] != LATENT
        }
        self._fixed = {latent: self.quantities.index(latent) for latent in fixed}
        self.latents = tuple(latent for latent in self.quantities if latent not in fixed)
        own = type(self).default_priors.items()
        if len(self.latents) > 2:  # How many nodes rows need is then found by trying.
            self.node_limits = ()
        self.default_priors = {key: prior for key, prior in own if shapes[key] != LATENT}
        super().__init__(name)

    def constructor_arguments(self) -> dict[str, float | str]:
        """The arguments that build a likelihood with shapes again."""
        return dict(self._shapes)

    def _given(self) -> tuple[str, ...]:
        return tuple(f"{key}={v!r}" for key, v in self._shapes.items() if v == LATENT)

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        own = [self.constants[latent] for latent in self._fixed]
        starts = {c.name: float(self._shapes[c.name]) for c in own}
        return starts, {c.name: c.domain for c in own}

    def _all(self, latents: Arrays, kw: Keywords) -> list[Array]:
        """All quantities of a likelihood: the latents, with constants in place, on their scale."""
        found: list[Array] = list(latents)
        for latent, place in self._fixed.items():
            constant = self.constants[latent]
            value = np.asarray(kw[constant.name], dtype=float)
            found.insert(place, value if constant.domain == "real" else np.log(value))
        return found

    def _log_density(self, y: Array, *quantities: Array) -> Array:
        raise NotImplementedError

    def _slopes(self, y: Array, *quantities: Array) -> Arrays:
        raise NotImplementedError

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The log-density of a likelihood with shapes, as in the class docstring."""
        with np.errstate(all="ignore"):
            return self._log_density(y, *self._all(latents, kw))

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes in the latents of a likelihood with shapes, ∂ log p / ∂f_j of each."""
        with np.errstate(all="ignore"):
            return self._of_latents(self._slopes(y, *self._all(latents, kw)))

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes in constant shapes; of a positive one the latent's slope divided by it."""
        with np.errstate(all="ignore"):
            return self._of_constants(self._slopes(y, *self._all(latents, kw)), kw)

    def _of_latents(self, slopes: Arrays) -> Arrays:
        return tuple(d for j, d in enumerate(slopes) if j not in self._fixed.values())

    def _of_constants(self, slopes: Arrays, kw: Keywords) -> Arrays:
        found = []
        for latent, place in self._fixed.items():
            constant = self.constants[latent]
            factor = 1.0 if constant.domain == "real" else 1.0 / kw[constant.name]
            found.append(slopes[place] * factor)
        return tuple(found)

    def _quadrature(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] by quadrature, with slopes in latents and constant shapes computed together."""
        return self._integral(y, means, variances, nodes, kw, (self._log_density, self._slopes))

    def _integral(
        self,
        y: Array,
        means: Array,
        variances: Array,
        nodes: int,
        kw: Keywords,
        functions: tuple[Callable[..., Array], Callable[..., Arrays]],
    ) -> Averages:
        """The expectation by quadrature of a function of all quantities, with its slopes."""
        value, slopes = functions

        def log_p(rows: slice, *latents: Array) -> Array:
            with np.errstate(all="ignore"):
                return value(y[rows], *self._all(latents, kw))

        def dlog_p(rows: slice, *latents: Array) -> Arrays:
            with np.errstate(all="ignore"):
                found = slopes(y[rows], *self._all(latents, kw))
            return (*self._of_latents(found), *self._of_constants(found, kw))

        rule = quadrature.rule_for(means.shape[1], nodes)
        return quadrature.expectation(log_p, dlog_p, means, variances, rule, len(self._fixed))

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """Location, scale and shapes, constants included, without logarithms."""
        shape = np.broadcast_shapes(*(np.shape(f) for f in latents))
        named = {}
        for key, value in zip(self.quantities, self._all(latents, kw), strict=True):
            value = np.exp(value) if key.startswith("log_") else np.asarray(value)
            named[key.removeprefix("log_")] = np.broadcast_to(value, shape)
        return named


class SHASH(_Shaped):
    """Sinh-arcsinh noise (Jones and Pewsey 2009): y = f + e^g δ (sinh u + s (cosh u − 1)).

    Here u = asinh(Z)/δ with Z ~ N(0, 1), s = tanh κ and δ = 1/τ. The location f is the **median**
    and e^g the scale at the median, where the density is that of N(f, e^{2g}), whatever the shape
    is. The **skewness** κ is half the logarithm of how many times further the upper tail reaches
    than the lower; 0 is symmetric. The **tail weight** τ = e^h is 1 for the normal distribution and
    more for heavier tails. Jones and Pewsey have ε = κ/τ and δ = 1/τ. With z = sinh(δ u),

        log p = −½ log 2π − g − ½ z² + ½ log(1 + z²) − log(cosh u + s sinh u).

    Skewness and tail weight are learnt constants, or latents where they are given as "latent".
    All moments exist given the latents.

    Parameters
    ----------
    skewness : start of the constant κ, or "latent": the latent skewness.
    tail : start of the constant τ > 0, or "latent": the latent log_tail.
    """

    quantities = ("location", "log_scale", "skewness", "log_tail")
    constants = {
        "skewness": Constant("skewness", "real", 0.0),
        "log_tail": Constant("tail", "positive", 1.0),
    }
    coupled = True  # Some standard deviations of a mean-field q are 0.8 of the posterior's.
    node_limits = (0.016, 0.045, 0.09, 0.165)
    default_priors = {"skewness": Normal(0.0, 1.0), "tail": LogNormal(0.0, 0.5)}

    @checks_shapes
    def __init__(
        self,
        name: str | None = None,
        *,
        skewness: float | str = 0.0,
        tail: float | str = 1.0,
    ) -> None:
        super().__init__(name, {"skewness": skewness, "tail": tail})
        self.infinite_mean = "log_tail" in self.latents  # E e^{e^h} is infinite for Gaussian h.

    def _log_density(self, y: Array, *quantities: Array) -> Array:
        _, a, _, D, *_ = _standard(y, *quantities)
        z2 = np.sinh(a) ** 2
        return 0.5 * (np.log1p(z2) - z2) - np.log(D) - quantities[1] - HALF_LOG_2PI

    def _slopes(self, y: Array, *quantities: Array) -> Arrays:
        """Slopes of the sinh-arcsinh log-density in location, log-scale, skewness and log-tail.

        With r = τ (y − f) e^{−g}, D = cosh u + s sinh u and A = −z³/cosh(δu) = ∂ log
        p/∂(δu),

        ∂u/∂r = 1/D and ∂u/∂s = −(cosh u − 1)/D, so that L_r = A δ/D − (r + s)/D².
        """
        g = quantities[1]
        r, a, u, D, edge, sech2, delta = _standard(y, *quantities)
        z = np.sinh(a)
        A = -z * z * z / np.sqrt(1.0 + z * z)
        slope = A * delta - edge / D  # D L_r
        share = r / D
        df = np.exp(np.minimum(-np.asarray(g), 600.0)) / (-delta * D) * slope
        rise = 2.0 * np.sinh(0.5 * np.clip(u, -600.0, 600.0)) ** 2  # cosh u − 1
        dk = -sech2 * (A * delta * rise + share) / D
        return df, -1.0 - share * slope, dk, share * slope - A * a

    def node_score(self, y: Array, means: Array, variances: Array, **kw: Value) -> Array:
        """The spread for nodes of sinh-arcsinh noise: the larger of v_g and v_f in widths e^g.

        v_f counts in squares of the width, and both more for a shape far from 0.

        Where y is far from the median the errors grow as z².
        """
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        bent = (np.cosh(kw["skewness"]) * max(kw["tail"], 1.0 / kw["tail"])) ** 2
        with np.errstate(over="ignore"):
            spread = bent * np.maximum(v_f * np.exp(2.0 * (v_g - m_g)), v_g)
            z = np.minimum(np.abs(self._z(y, (m_f, m_g), kw)), 1e100)
        return spread * (1.0 + 0.05 * z * z) ** 0.25

    def cdf(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The sinh-arcsinh cdf, Φ(z)."""
        return ndtr(self._z(y, latents, kw))

    def log_tails(self, y: Array, *latents: Array, **kw: Value) -> tuple[Array, Array]:
        """Log-tails of sinh-arcsinh noise, log Φ(z) and log Φ(−z)."""
        z = self._z(y, latents, kw)
        return log_ndtr(z), log_ndtr(-z)

    def _z(self, y: Array, latents: Arrays, kw: Keywords) -> Array:
        with np.errstate(all="ignore"):
            quantities = self._all(latents, kw)
            return np.sinh(_standard(y, *quantities)[1])

    def ppf(self, q: Array, *latents: Array, **kw: Value) -> Array:
        """Sinh-arcsinh quantiles, f + e^g δ (sinh u + s (cosh u − 1)), u = asinh(normal z)/δ."""
        f, g, k, h = self._all(latents, kw)
        k, h = np.clip(k, -MOST_SKEW, MOST_SKEW), np.clip(h, -20.0, 20.0)
        with np.errstate(over="ignore"):
            u = np.exp(h) * np.arcsinh(ndtri(q))
            up, down = expit(2.0 * k) * np.expm1(u), expit(-2.0 * k) * np.expm1(-u)
            return f + scaled(g - h, up - down)

    def quantile_slopes(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """How a sinh-arcsinh quantile y moves with each latent.

        By 1 with f, y − f with g, e^g δ (1−s²)(cosh u − 1) with κ, and with h by u.
        """
        quantities = self._all(latents, kw)
        f, g = quantities[:2]
        with np.errstate(all="ignore"):
            _, _, u, D, _, sech2, delta = _standard(y, *quantities)
            scale = np.exp(g) * delta
            slopes = (
                np.ones(()),
                y - f,
                scale * sech2 * 2.0 * np.sinh(0.5 * u) ** 2,
                scale * D * u - (y - f),
            )
            # Where a factor is 0 and another infinite, y is not on the scale of floats.
            finite = tuple(np.where(np.isnan(slope), 0.0, slope) for slope in slopes)
        return self._of_latents(finite)

    def conditional_mean(self, *latents: Array, **kw: Value) -> Array:
        """The sinh-arcsinh mean, f + e^g δ s (P(τ) − 1), where P(τ) = E[cosh u]."""
        f, g, k, h = self._all(latents, kw)
        with np.errstate(over="ignore", invalid="ignore"):
            s = np.tanh(k)  # Without skewness the mean is f, also where E[cosh u] is infinite.
            gap = np.where(s == 0.0, 0.0, s * (_expected_cosh(h) - 1.0))
            whole = (gap == 0.0) | np.isinf(gap)  # The factor may be 0 or infinite itself.
            return f + np.where(whole, gap, np.exp(g - h) * gap)

    def conditional_variance(self, *latents: Array, **kw: Value) -> Array:
        """The sinh-arcsinh variance.

        e^{2g} δ² ((P(2τ) − 1)/2 + s² ((P(2τ) + 1)/2 − P(τ)²)), P(τ) = E[cosh u].
        """
        f, g, k, h = self._all(latents, kw)
        with np.errstate(over="ignore", invalid="ignore"):
            one, two, s2 = _expected_cosh(h), _expected_cosh(h + np.log(2.0)), np.tanh(k) ** 2
            rest = np.where(np.isinf(two), 0.0, s2 * (0.5 * (two + 1.0) - one * one))
            size = 0.5 * (two - 1.0) + rest
            return np.where(np.isinf(size), size, np.exp(2.0 * (g - h)) * size) + 0.0 * f

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """Start of a sinh-arcsinh fit: median, scale by quartiles, κ = 0 and τ = 1."""
        start = {"skewness": 0.0, "log_tail": 0.0}
        here = np.array([0.0, 0.0, *(start[n] for n in self.latents[2:])])
        tau = float(np.exp(self._all(tuple(here), kw)[3]))
        low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
        width = 2.0 * np.sinh(tau * np.arcsinh(ndtri(0.75))) / tau
        scale = (high - low) / width or float(np.std(y)) or 1.0  # Quartiles may be equal.
        return np.array([middle, np.log(scale), *here[2:]])


def _standard(y: Array, f: Array, g: Array, k: Array, h: Array) -> Arrays:
    """The parts of a sinh-arcsinh log-density: r, δu, u, D, r + s, 1 − s² and δ.

    r = τ (y − f) e^{−g} and D = cosh u + s sinh u.

    u solves sinh u + s (cosh u − 1) = r: it is asinh((r + s) cosh κ) − κ, and D² is
    (r + s)² + 1 − s².
    """
    k, tau = np.clip(k, -MOST_SKEW, MOST_SKEW), np.exp(np.clip(h, -20.0, 20.0))
    r = np.clip((y - f) * (np.exp(np.minimum(-np.asarray(g), 600.0)) * tau), -LARGEST, LARGEST)
    sech2, edge = 4.0 * expit(2.0 * k) * expit(-2.0 * k), r + np.tanh(k)
    u = np.arcsinh(edge * np.cosh(k)) - k
    D = np.sqrt(edge * edge + sech2)
    return r, np.clip(u / tau, -FARTHEST, FARTHEST), u, D, edge, sech2, 1.0 / tau


def _expected_cosh(h: Array) -> Array:
    """E cosh(τ asinh Z), of sinh-arcsinh moments, for Z ~ N(0, 1) and τ = e^h.

    It is e^{1/4} (K_{(τ+1)/2}(¼) + K_{(τ−1)/2}(¼))/√(8π).
    """
    tau = np.exp(np.minimum(h, 20.0))
    total = kve(0.5 * (tau + 1.0), 0.25) + kve(0.5 * (tau - 1.0), 0.25)
    return np.where(np.isnan(total), np.inf, total) / np.sqrt(8.0 * np.pi)
