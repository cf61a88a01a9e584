"""The predictive distribution of rows: one mixture p(y) = ∫ p(y | f) q(f) df for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from ..data.arguments import as_fractions, as_generator, as_percent, positive_int
from ..data.types import Data, Keywords
from ..errors import InputError
from ..expectations import quadrature
from ..likelihoods.contract import Likelihood
from ..likelihoods.observation import OBSERVATION
from ..linalg import Array, variances_in
from .constants import ConstantsAt, Draws, rows_by
from .law import BAND_NODES, Curve
from .mixtures import (
    CorrelatedScale,
    GaussianLatents,
    NormalInFirst,
    ScaleMixture,
    WithRounding,
    mixture_of,
)
from .moments import node_moments
from .nodes import Mixture, log_expectation
from .quantiles import mixture_cdf, mixture_log_sf, mixture_ppf
from .survival import SurvivalCurves
from .tables import DensityTables

LatentFunction = Callable[..., np.ndarray]
_At = Callable[[GaussianLatents, np.ndarray, np.ndarray], np.ndarray]

ROUNDING = 0.01
"""Covariances may differ from their transposes, and exceed what the variances allow, by this share:
where little variance is left, rounding does that."""


class Predictive(SurvivalCurves):
    """The predictive distribution p(y) = ∫ p(y | f) q(f) df at n rows, named as in scipy.stats.

    q(f) = N(f; means, V), V diagonal for variances. Parameters of the likelihood are read once,
    here: the object does not change when the model does. A one-dimensional y (or t) is a grid, with
    results (n, k); an array (n, k), such as (n, 1), holds values for each row.

    What a likelihood declares makes predictions faster and more exact. Without a `cdf` the density
    of the mixture is integrated over y. If y is normal in the first latent, this latent is
    integrated exactly.

    Parameters
    ----------
    likelihood: a `Likelihood` with b latents.
    means: (n, b), those of q(f) at each row.
    variances: (n, b), or the covariances (n, b, b) of latents that are correlated under q.
    metadata: dict name -> (n,), as the likelihood's `log_density` takes them. `censored`,
        `y_upper` and `entry` enter `logpdf` and `pdf` alone.
    unsaid: names of metadata that the fit had and these rows lack; `metrics` warn about them.
    wider: variances, or covariances, of the latents for the quantiles of `parameters`, where those
        of targets are too narrow for them.
    constants: parameters of the likelihood that are uncertain, with their covariances with the
        latents.
        Bands include their uncertainty; the distribution of y takes them as known.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        means: np.ndarray,
        variances: np.ndarray,
        metadata: Mapping[str, np.ndarray] | None = None,
        unsaid: Sequence[str] = (),
        wider: np.ndarray | None = None,
        constants: ConstantsAt | None = None,
    ) -> None:
        self.unsaid, self._constants, self._of_latents = tuple(unsaid), constants, self
        if wider is not None:
            self._of_latents = Predictive(likelihood, means, wider, metadata, constants=constants)
            self._constants = None if constants is None else constants.apart()
        means, V = np.array(means, dtype=float), np.array(variances, dtype=float)
        _check_moments(means, V, likelihood.latents)
        if V.ndim == 3 and np.array_equal(V, np.eye(V.shape[1]) * V):
            V = np.diagonal(V, axis1=1, axis2=2).copy()
        self._likelihood, self._means, self._variances = likelihood, means, V
        self._support = likelihood.target_support
        metadata = {k: np.array(v, dtype=float) for k, v in (metadata or {}).items()}
        event = {k: v for k, v in metadata.items() if k not in OBSERVATION}
        self._parameters = likelihood.parameter_values()
        self._event = GaussianLatents(likelihood, means, V, {**self._parameters, **event})
        self._seen = GaussianLatents(likelihood, means, V, {**self._parameters, **metadata})
        self._mixture = mixture_of(likelihood, means, V, self._event.kw)
        self._law = self._mixture.law if isinstance(self._mixture, WithRounding) else self._mixture

    def __len__(self) -> int:
        return len(self._means)

    def __repr__(self) -> str:
        return f"<Predictive of {len(self)} rows, {type(self._likelihood).__name__}>"

    # ---- moments ---------------------------------------------------------------------------------

    def _found_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean, noise and latent variance (3, n), and rows (n,) that may be off."""
        nowhere = np.zeros(len(self), dtype=bool)
        if isinstance(self._law, ScaleMixture | CorrelatedScale):
            return self._scale_mixture_moments(self._law.shape), nowhere
        if self._likelihood.infinite_mean:
            return np.full((3, len(self)), np.inf), nowhere
        return node_moments(self._event, not self._likelihood.has_moments)

    def _scale_mixture_moments(self, shape: float) -> np.ndarray:
        """Predictive moments of a scale mixture of normals: closed.

        They are m_f, E[e^g] E[1/λ] with E[1/λ] = a/(a − 1), and v_f; (3, n), whatever
        cov(f, g).
        """
        (m_f, m_g), (v_f, v_g) = self._means.T, self._marginals.T
        factor = 1.0 if np.isinf(shape) else shape / (shape - 1.0) if shape > 1.0 else np.inf
        exists = np.where(shape > 0.5, 1.0, np.nan)
        with np.errstate(over="ignore"):
            noise = np.exp(np.maximum(m_g + 0.5 * v_g, -700.0))  # Above 0: ∞ times it is ∞.
        return np.stack([m_f * exists, noise * factor, v_f * exists])

    # ---- the distribution ------------------------------------------------------------------------

    def logpdf(self, y: Data) -> np.ndarray:
        """The predictive log-density log p(y), (n, k), summed in log space; −inf off the support.

        For a censored row the logarithm of the probability of what was seen; for a `Rounded` target
        that of its interval, divided by the width. All else is of y before it was rounded.
        """
        if not self._seen.kw.keys() & set(OBSERVATION):
            return self._logpdf(y, self._mixture)
        truncated = np.any(self._seen.kw.get("entry", 0.0) > 0.0)  # A ratio needs all latents.
        if truncated or self._seen.dim <= 3:
            return self._logpdf(y, self._seen)
        kw = {key: value for key, value in self._seen.kw.items() if key != "entry"}
        return self._logpdf(y, mixture_of(self._likelihood, self._means, self._variances, kw))

    def _logpdf(self, y: Data, mixture: Mixture) -> np.ndarray:
        return self._over_entries(
            y,
            -np.inf,
            -np.inf,
            lambda y, rows: log_expectation(mixture, mixture.log_density, y, rows),
        )

    def _log_event_density(self, t: Data) -> np.ndarray:
        """log p(t) of events, (n, k), whatever was seen of the rows."""
        return self._logpdf(t, self._law)

    def logsf(self, y: Data) -> np.ndarray:
        """log P(Y > y), (n, k) for a grid (k,), also where P(Y > y) is smaller than any number.

        The likelihood's own upper tail is integrated over q(f).
        """
        lik = self._likelihood
        if self._tables is not None and not lik.event_times:
            with np.errstate(divide="ignore"):
                return np.log1p(-self._cdf(y))
        y = self._as_targets(y)
        if lik.event_times:
            at_0 = 0.0 in lik.atoms or not lik.target_support.continuous  # Events may be at 0.
            y = np.where(y < 0.0 if at_0 else y <= 0.0, -1.0, y)

        def log_sf(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
            law = self._mixture if lik.event_times else self._law
            return mixture_log_sf(law, y, rows, of_cdf=not lik.event_times)

        return self._over_entries(y, 0.0, -np.inf, log_sf, step=not lik.event_times)

    def _cdf(self, y: Data) -> np.ndarray:
        """P(Y ≤ y), (n, k) for a grid (k,)."""
        if self._tables is not None:
            values = self._as_targets(y)
            low, high = self._support.outside(values, self._likelihood.atoms)
            inside = self._tables.cdf(np.where(low | high, self._support.interior, values))
            return np.where(low, 0.0, np.where(high, 1.0, inside))
        return self._over_entries(
            y, 0.0, 1.0, lambda y, rows: mixture_cdf(self._law, y, rows), step=True
        )

    def ppf(self, q: float | np.ndarray) -> np.ndarray:
        """Predictive quantiles, y with cdf(y) = q or the smallest count with cdf(y) ≥ q: (n, k)."""
        q = np.atleast_1d(as_fractions(q, "q"))
        each = np.broadcast_to(q, (len(self), len(q)))
        if self._tables is not None:
            result = self._tables.ppf(each)
        else:
            rows = np.repeat(np.arange(len(self)), len(q))
            result = np.empty(len(rows))
            for block in _blocks(np.arange(len(rows)), 4):
                part = mixture_ppf(self._law, q[block % len(q)], rows[block], self._likelihood)
                result[block] = part
            result = result.reshape(each.shape)
        order = np.argsort(q, kind="stable")  # Quantiles must not cross by rounding.
        result[:, order] = np.maximum.accumulate(result[:, order], axis=1)
        return result

    def sample(self, size: int = 1, rng: int | np.random.Generator | None = None) -> np.ndarray:
        """Independent draws from the predictive distribution, (n, size): latents from q, then y."""
        size, generator = positive_int(size, "size"), as_generator(rng)
        result = np.empty(len(self) * size)
        # A numeric default of the likelihood tabulates hundreds of values for each draw.
        cost = 4 if self._likelihood.has_draws else 600
        for entries in _blocks(np.arange(len(result)), cost):
            rows = entries // size
            z = generator.standard_normal((self._event.dim, 1, len(rows)))
            latents = [f[0] for f in self._event.nodes(rows, z)[1]]
            kw = self._event.keywords(rows)
            result[entries] = self._likelihood.sample(generator, *latents, size=None, **kw)
        return result.reshape(len(self), size)

    def parameters(
        self,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        functions: Mapping[str, LatentFunction] | None = None,
    ) -> dict[str, np.ndarray]:
        """Predictive quantiles (percent) of the likelihood's natural parameters: name -> (n, k).

        For example the noise scale e^{g/2} or a rate e^f + e^g. For counts with an exposure the
        "rate" is that of one unit. The "mean" is that of the given exposure, as in `mean`, or of
        one unit if none was given. Exact for a monotone function of one latent, else from 2,048
        Sobol nodes of q(f), with its correlations.

        functions : other functions of the latents instead, called with arrays of each latent, as
            {"mean": lambda f, g: 1 / (1 + np.exp(g - f))} of a `Beta`.
        """
        levels, own = as_percent(quantiles, "quantiles"), self._of_latents
        named = own._functions(functions)
        return {name: own._quantiles_of(function, levels) for name, function in named.items()}

    def _quantiles_at(self, y: Array, curve: Curve, levels: Array, count: int) -> Array:
        """Quantiles (n, k) under q(f), at some levels, of a curve given the latents at y (n,)."""

        def values(event: GaussianLatents, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
            _, latents = event.nodes(rows, z)
            with np.errstate(all="ignore"):
                given = curve(event, y[rows], rows, tuple(latents))
            return np.broadcast_to(given, latents[0].shape)

        return self._quantiles_of(values, levels, count)

    def _quantiles_of(
        self, function: _At, levels: np.ndarray, count: int = BAND_NODES
    ) -> np.ndarray:
        """Quantiles (n, k) under q(f) of a function of the latents, exact or by so many nodes.

        Where uncertain constants of the likelihood have a part in it, they are over these, too.
        """
        if self._depends_on_constants(function):
            return self._sobol_quantiles(function, levels, self._draws(count))
        exact = self._monotone_quantiles(function, levels)
        if exact is not None:
            return exact
        return self._sobol_quantiles(function, levels, [(self._event, _nodes(self._event, count))])

    def parameter_means(
        self, functions: Mapping[str, LatentFunction] | None = None
    ) -> dict[str, np.ndarray]:
        """Predictive means E_q[t(f)] of the likelihood's natural parameters t: name -> (n, 1).

        Constants of the likelihood are those of the fit. By 64 Gauss–Hermite nodes for a function
        of one latent, 20 for each of up to three, else from 4,096 Sobol nodes. functions : other
        functions of the latents, as in `parameters`.
        """
        return {name: self._mean_of(t)[:, None] for name, t in self._functions(functions).items()}

    def _mean_of(self, function: _At) -> np.ndarray:
        """The mean E_q[t(f)] of a function of the latents, (n,)."""
        alone, _, moving = self._moving(function)
        event = alone if len(moving) == 1 else self._event
        if len(moving) == 1:
            x, weights = quadrature.gauss_hermite(64)
            z = np.eye(event.dim)[moving[0]][:, None, None] * x[:, None]  # (b, K, 1)
        else:
            rule = quadrature.rule_for(event.dim, 20 if event.dim <= 3 else 16)
            z = np.stack([np.broadcast_to(c, rule.weights.shape).reshape(-1, 1) for c in rule.x])
            weights = rule.weights.ravel()
        result = np.empty(len(self))
        for rows in _blocks(np.arange(len(self)), len(weights)):
            result[rows] = weights @ function(event, rows, z)
        return result

    def _functions(self, functions: Mapping[str, LatentFunction] | None) -> dict[str, _At]:
        """Functions, or natural parameters, at nodes z (b, K, 1) of some latents: (K, N) each."""

        def at(function: Callable[..., np.ndarray]) -> _At:
            def values(event: GaussianLatents, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
                _, latents = event.nodes(rows, z)
                found = function(event.keywords(rows), *latents)
                return np.broadcast_to(found, latents[0].shape)

            return values

        def natural(kw: Keywords, *latents: np.ndarray) -> dict[str, np.ndarray]:
            return self._likelihood.natural_parameters(*latents, **kw)

        if functions is not None:
            if not isinstance(functions, Mapping) or not all(map(callable, functions.values())):
                raise InputError(
                    "functions must be a dict of functions of the latents "
                    f"({', '.join(self._likelihood.latents)}); got {functions!r}."
                )
            return {k: at(lambda _, *f, own=own: own(*f)) for k, own in functions.items()}
        names = natural(self._event.keywords(np.arange(1)), *np.zeros((self._event.dim, 1, 1)))
        return {k: at(lambda kw, *f, k=k: natural(kw, *f)[k]) for k in names}

    @property
    def _marginals(self) -> np.ndarray:
        """Variances (n, b) of the latents under q."""
        V = self._variances
        return variances_in(V)

    def _monotone_quantiles(self, function: _At, levels: np.ndarray) -> np.ndarray | None:
        """Quantiles (n, k) of a function that depends on one latent only and is monotone in it.

        They follow from the marginal of that latent, whatever its correlation with others.
        """
        alone, steps, moving = self._moving(function)
        moving = moving or [0]
        j = moving[0]
        if len(moving) > 1 or (steps[j].max() > 0.0 and steps[j].min() < 0.0):
            return None
        sign = -1.0 if steps[j].min() < 0.0 else 1.0
        axis = np.eye(alone.dim)[j][:, None, None]
        z = axis * (sign * ndtri(levels))[:, None]
        return function(alone, np.arange(len(self)), z).T.copy()

    def _moving(self, function: _At) -> tuple[GaussianLatents, list[np.ndarray], list[int]]:
        """Uncorrelated latents, steps of a function along each, and the latents that move it."""
        alone = GaussianLatents(self._likelihood, self._means, self._marginals, self._event.kw)
        rows, axes = np.arange(len(self)), np.eye(alone.dim)[:, :, None, None]  # (b, b, 1, 1)
        probe = axes * np.linspace(-3.0, 3.0, 13)[:, None]
        steps = [_steps(function(alone, rows[:64], z)) for z in probe]
        return alone, steps, [j for j, step in enumerate(steps) if step.any()]

    def _draws(self, count: int) -> Draws:
        """Latents with their nodes (b, K, 1), K in all: of every draw of uncertain constants."""
        z = _nodes(self._event, count)
        if self._constants is None:
            return [(self._event, z)]
        events = self._constants.events(self._event, self._variances)
        # Every so many Sobol nodes that follow each other fill the space.
        return list(zip(events, np.split(z, len(events), axis=1), strict=True))

    def _depends_on_constants(self, function: _At) -> bool:
        """Whether a function at the means of the latents moves with uncertain constants."""
        if self._constants is None:
            return False
        centre = np.zeros((self._event.dim, 1, 1))
        some = np.arange(min(len(self), 64))
        now, none = function(self._event, some, centre), np.zeros(self._event.means.shape)
        others = [constants for _, constants in self._constants.each()][::8]
        moved = (function(self._event.moved(none, other), some, centre) for other in others)
        return any(not np.array_equal(now, each, equal_nan=True) for each in moved)

    def _sobol_quantiles(self, function: _At, levels: np.ndarray, draws: Draws) -> np.ndarray:
        """Quantiles (n, k) of any function of the latents, from draws of what is unknown."""
        result = np.empty((len(self), len(levels)))
        for rows in _blocks(np.arange(len(self)), rows_by(draws)):
            found = np.concatenate([function(event, rows, z) for event, z in draws])
            result[rows] = np.quantile(found, levels, axis=0).T
        return result

    # ---- entries ---------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> DensityTables | None:
        """Tables of the predictive cdf and quantiles, for a likelihood that has no own cdf."""
        if self._likelihood.has_cdf or isinstance(self._law, ScaleMixture | NormalInFirst):
            return None
        return DensityTables(self._law, len(self), self._likelihood)

    def _over_entries(
        self,
        y: Data,
        below: float,
        above: float,
        function: Callable[[np.ndarray, np.ndarray], np.ndarray],
        step: bool = False,
    ) -> np.ndarray:
        """function(y, rows) of the predictive's targets inside the support, (n, k).

        For counts a density is 0 between integers, and a step function is that at the floor.
        """
        targets = self._as_targets(y)
        low, high = self._support.outside(targets, self._likelihood.atoms)
        result = np.where(low, below, above)
        inside = ~(low | high)
        if not self._support.continuous:
            whole = np.floor(targets)
            inside &= step | (whole == targets)
            result = np.where(inside | low | high, result, below)
            targets = whole
        rows, columns = np.nonzero(inside)
        for part in _blocks(np.arange(len(rows)), 4):
            entry = rows[part], columns[part]
            result[entry] = function(targets[entry], rows[part])
        return result


def _nodes(event: GaussianLatents, count: int) -> np.ndarray:
    """So many Sobol nodes (b, K, 1) of the latents."""
    return np.stack(quadrature.sobol_rule(event.dim, count).x)


def _blocks(rows: np.ndarray, nodes: int) -> list[np.ndarray]:
    """Pieces of prediction rows such that nodes × rows of a piece is bounded."""
    return [rows[part] for part in quadrature.row_blocks(len(rows), nodes)]


def _steps(values: np.ndarray) -> np.ndarray:
    """Differences along the first axis; between two values that are both infinite they are 0."""
    with np.errstate(invalid="ignore"):
        return np.where(values[1:] == values[:-1], 0.0, np.diff(values, axis=0))


def _check_moments(means: np.ndarray, V: np.ndarray, latents: Sequence[str]) -> None:
    """Refuse means of q(f) that are not (n, b), and what are no variances or covariances."""
    shape = (len(means), len(latents))
    if means.shape != shape or V.shape not in (shape, (*shape, shape[1])):
        raise InputError(
            f"means and variances must be (n, {shape[1]}), a column for each of "
            f"{', '.join(latents)}, or variances the covariances (n, {shape[1]}, {shape[1]}); got "
            f"{means.shape} and {V.shape}."
        )
    variances = variances_in(V)
    if not (np.isfinite(means).all() and np.isfinite(V).all() and (variances >= 0).all()):
        raise InputError("means must be finite, variances finite and not negative.")
    if V.ndim == 3:
        most = np.sqrt(variances[:, :, None] * variances[:, None, :])
        unequal = np.abs(V - V.swapaxes(1, 2)) > ROUNDING * most
        wrong = (unequal | (np.abs(V) > (1.0 + ROUNDING) * most)).any(axis=(1, 2))
        if wrong.any():
            raise InputError(
                f"covariances must be symmetric, with correlations from −1 to 1; {wrong.sum()} of "
                f"{len(V)} rows are not, the first is row {np.flatnonzero(wrong)[0]}."
            )
