"""Counts with a spread or of a number of trials; classes, overlapping, unordered and ordered."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaln, erfcx, expit, gammaln, log_expit, log_ndtr, logit, ndtr, ndtri

from .. import special
from ..errors import InputError
from . import levels
from .base import Array, Arrays, FourArrays, Likelihood
from .noise import _Named, packed

__all__ = ["Binomial", "HetProbit", "NegativeBinomial", "Ordinal", "Softmax"]

FAR = 1e9  # stands for the infinite ends of the first and the last ordered class


class NegativeBinomial(_Named):
    """y ~ NB with mean μ = exposure · e^f and variance μ + e^g μ²: log_mean, log_dispersion.

    With r = e^{−g}, a = f + log exposure and Binet's function ρ, so that nothing cancels as r → ∞
    (Poisson): log p = y a − (r + y) softplus(a + g) + (r + y − ½) log(1 + y/r) − y + ρ(r + y)
    − ρ(r) − log y!.
    """

    latents = ("log_mean", "log_dispersion")
    support = "counts"
    scipy_name = "nbinom"
    node_limits = (0.75, 1.5, 3.0, 5.5, 9.0, 13.0)

    def _arguments(self, f: Array, g: Array, *, exposure: Any = 1.0) -> Arrays:
        g = np.maximum(g, -18.0)  # Poisson, but p = r/(r + μ) keeps its digits
        return np.exp(-g), expit(-(f + np.log(exposure) + g))

    def log_density(self, y: Array, f: Array, g: Array, *, exposure: Any = 1.0) -> Array:
        """As in the class docstring."""
        r, a = np.exp(-g), f + np.log(exposure)
        rho = special.stirling_remainder(r + y)[0] - special.stirling_remainder(r)[0]
        alone = (r + y - 0.5) * np.log1p(y * np.exp(g)) + rho - (y + gammaln(y + 1.0))
        return y * a - (r + y) * special.softplus(a + g) + alone

    def dlog_density(self, y: Array, f: Array, g: Array, *, exposure: Any = 1.0) -> Arrays:
        """y − (r + y) logistic(a + g), and the derivative in g."""
        r, t = np.exp(-g), f + np.log(exposure) + g
        slope = y * expit(-t) - r * expit(t)
        near, far = special.stirling_remainder(r)[1], special.stirling_remainder(r + y)[1]
        alone = near - (0.5 * y + r * far) / (r + y) - r * np.log1p(y * np.exp(g))
        return slope, slope + r * special.softplus(t) + alone


class Binomial(_Named):
    """y ~ Binomial(trials, 1/(1 + e^{−f})): latent logit f, metadata trials (required).

    log p = log C(trials, y) − y softplus(−f) − (trials − y) softplus(f); closed expectation.
    """

    latents = ("logit",)
    support = "counts"
    exact_expectation = True
    scipy_name = "binom"

    def _arguments(self, f: Array, *, trials: Any) -> Arrays:
        return np.asarray(trials, dtype=int), expit(f)

    def log_density(self, y: Array, f: Array, *, trials: Any) -> Array:
        """As in the class docstring; −inf for y > trials."""
        value = y * log_expit(f) + (trials - y) * log_expit(np.negative(f))
        choose = -np.log1p(trials) - betaln(trials - y + 1.0, y + 1.0)
        return np.where(y <= trials, value + choose, -np.inf)

    def dlog_density(self, y: Array, f: Array, *, trials: Any) -> Arrays:
        """Slope y − trials · p."""
        return (y * expit(np.negative(f)) - (trials - y) * expit(f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, trials: Any
    ) -> FourArrays:
        """E[log p] = y m − trials E softplus(f) + log C: closed, `nodes` unused."""
        value, slope, bend = special.expected_softplus(means[:, 0], variances[:, 0])
        value = self.log_density(y, np.zeros(1), trials=trials) + trials * (np.log(2.0) - value)
        value += y * means[:, 0]
        return packed(value, (y - trials * slope,), (-trials * bend,))

    def initial_latents(self, y: Array, *, trials: Any) -> Array:
        """The logit of the share of successes; InputError where y > trials."""
        wrong = np.flatnonzero(y > trials)
        if wrong.size:
            raise InputError(
                f"Y[{wrong[0]}] = {y[wrong[0]]:g} and {wrong.size - 1} others exceed their trials."
            )
        return logit([(np.sum(y) + 0.5) / (np.sum(trials + np.zeros(len(y))) + 1.0)])


class HetProbit(_Named):
    """P(y = 1) = Φ(f e^{−g/2}): the sign of a HetGaussian, latents mean f and log_variance g.

    log p = log Φ(z), z = ± f e^{−g/2}. Targets 0 or 1; where g is large the classes overlap.
    """

    latents = ("mean", "log_variance")
    support = "binary"
    scipy_name = "bernoulli"
    node_limits = (0.35, 0.8, 1.6, 3.5, 6.5, 10.0)

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return (ndtr(f * np.exp(-0.5 * np.asarray(g))),)

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The logarithm of Φ(z)."""
        return log_ndtr((2.0 * y - 1.0) * f * np.exp(-0.5 * np.asarray(g)))

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """(φ/Φ)(z) dz/df and −½ z (φ/Φ)(z)."""
        scale = (2.0 * y - 1.0) * np.exp(-0.5 * np.asarray(g))
        z = scale * f
        ratio = np.sqrt(2.0 / np.pi) / erfcx(z * -np.sqrt(0.5))
        return scale * ratio, -0.5 * z * ratio

    def _score(self, means: Array, variances: Array) -> Array:
        """κ, the variance of f over that of the noise, or v_g."""
        kappa = variances[:, 0] * np.exp(variances[:, 1] - means[:, 1])
        return np.maximum(kappa, variances[:, 1])

    def initial_latents(self, y: Array) -> Array:
        """The share of ones, at variance 1."""
        return np.array([ndtri((np.sum(y) + 0.5) / (len(y) + 1.0)), 0.0])


class _Classes(Likelihood):
    """Classes 0 … K − 1: what follows from K probabilities."""

    support = "categories"
    num_categories = 0

    def _init(self, count: int, name: str) -> None:
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
            raise InputError(f"{name} must be a whole number, at least 2; got {count!r}.")
        self.num_categories = int(count)

    def _probabilities(self, latents: Arrays, kw: dict[str, Any]) -> Array:
        """Probabilities of the classes, (K, *shape)."""
        each: Any = np.arange(float(self.num_categories))
        return np.exp(np.stack([self.log_density(k, *latents, **kw) for k in each]))

    def conditional_mean(self, *latents: Array, **kw: Any) -> Array:
        """Σ k p_k."""
        return np.tensordot(np.arange(self.num_categories), self._probabilities(latents, kw), 1)

    def conditional_variance(self, *latents: Array, **kw: Any) -> Array:
        """Σ k² p_k − mean²."""
        k = np.arange(self.num_categories)
        first, second = np.tensordot([k, k * k], self._probabilities(latents, kw), 1)
        return second - first**2

    def cdf(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """Σ p_k over k ≤ y."""
        p = self._probabilities(latents, kw)
        return np.minimum(sum(np.where(y >= k, pk, 0.0) for k, pk in enumerate(p)), 1.0)

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """The probabilities of the classes: probability_1 is that of y = 0."""
        p = self._probabilities(latents, kw)
        return {f"probability_{k}": pk for k, pk in enumerate(p, 1)}

    def _shares(self, y: Array) -> Array:
        """Shares (K,) of the classes in y, none of them 0."""
        counts = np.bincount(np.asarray(y, dtype=int), minlength=self.num_categories) + 0.5
        return counts / counts.sum()


class Softmax(_Classes):
    """P(y = k) = e^{f_{k+1}} / Σ_j e^{f_j}, k = 0 … K − 1: latents logit_1 … logit_K.

    The expectation is summed on a grid for 2 or 3 classes, on Sobol nodes from 4 on. Logits are
    relative to each other: `Softmax(3).with_constant("logit_3", 0.0)` spares one latent.
    """

    def __init__(self, num_classes: int, name: str | None = None) -> None:
        self._init(num_classes, "num_classes")
        self.num_classes = self.num_categories
        self.latents = tuple(f"logit_{k + 1}" for k in range(self.num_classes))
        super().__init__(name)

    def log_density(self, y: Array, *latents: Array) -> Array:
        """f_{y+1} − log Σ e^{f_j}; −inf for a class that does not exist."""
        top, total, _ = _total(latents)
        value = -np.log(total) - np.where(np.isin(y, np.arange(self.num_classes)), top, np.inf)
        for k, f in enumerate(latents):
            value = value + np.where(y == k, f, 0.0)
        return value

    def dlog_density(self, y: Array, *latents: Array) -> Arrays:
        """1 − p_k for the class seen, −p_k for the others."""
        _, total, sizes = _total(latents)
        inverse = 1.0 / total
        return tuple((y == k) - size * inverse for k, size in enumerate(sizes))

    def required_nodes(self, y: Array, means: Array, variances: Array) -> Array:
        """8 to 20 a dimension on a grid, for 1e-6 at a variance of 5; else 512 or 2,048 in all.

        Sobol nodes are off by 5e-4 a row at a variance of 1, 1e-3 at 3; `num_nodes` has more.
        """
        limits = (1.5, 2.5) if self.num_classes < 4 else (0.1, np.inf)
        return levels.choose(variances.max(axis=1), limits)[0]

    def initial_latents(self, y: Array) -> Array:
        """Logarithms of the shares of the classes."""
        return np.log(self._shares(y))


def _total(latents: Arrays) -> tuple[Array, Array, list[Array]]:
    """The largest latent m of a row, Σ e^{f_j − m} and its terms, which stay small on a grid."""
    peaks = [np.max(f, axis=tuple(range(np.ndim(f) - 1))) for f in latents]
    top = np.max(np.broadcast_arrays(*peaks), axis=0)
    sizes = [np.exp(f - top) for f in latents]
    return top, sum(sizes[1:], sizes[0]), sizes


class Ordinal(_Classes):
    """P(y ≤ k) = 1/(1 + e^{f − c_{k+1}}), k = 0 … K − 1: latent score f, cutpoints as parameters.

    `cutpoint` = c_1 is real, `gap_k` = c_{k+1} − c_k positive. Between the ends l < u of class y
    log p = −softplus(f − u) − softplus(l − f) + log(1 − e^{l−u}), so that the expectation is
    closed (`special.expected_softplus`).
    """

    latents = ("score",)
    exact_expectation = True

    def __init__(self, num_categories: int, name: str | None = None, **parameters: float) -> None:
        self._init(num_categories, "num_categories")
        self._open = not parameters
        super().__init__(name, **parameters)

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        gaps = {f"gap_{k}": 1.0 for k in range(1, self.num_categories - 1)}
        return {"cutpoint": 0.0, **gaps}, {"cutpoint": "real"}

    def _ends(self, y: Array, cuts: dict[str, float]) -> Arrays:
        """The class as an index, and its ends l and u."""
        edges = np.cumsum([cuts[key] for key in self.parameter_keys])
        edges = np.concatenate([[-FAR], edges, [FAR]])
        k = np.clip(y, 0, self.num_categories - 1).astype(int)
        return k, edges[k], edges[k + 1]

    def log_density(self, y: Array, f: Array, **cuts: float) -> Array:
        """As in the class docstring; −inf for a class that does not exist."""
        k, low, high = self._ends(y, cuts)
        value = log_expit(high - f) + log_expit(f - low) + special.log1mexp(low - high)
        return np.where(y == k, value, -np.inf)

    def dlog_density(self, y: Array, f: Array, **cuts: float) -> Arrays:
        """logistic(l − f) − logistic(f − u)."""
        _, low, high = self._ends(y, cuts)
        return (expit(low - f) - expit(f - high),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **cuts: float
    ) -> FourArrays:
        """E[log p]: closed, `nodes` unused."""
        k, low, high = self._ends(y, cuts)
        one, above, bend = special.expected_softplus(means[:, 0] - high, variances[:, 0])
        two, below, other = special.expected_softplus(low - means[:, 0], variances[:, 0])
        last = self.num_categories - 1
        ratio = np.exp(low - high) / -np.expm1(low - high)
        dhigh, dlow = (k < last) * (above + ratio), (k > 0) * (below + ratio)
        # the i-th parameter moves all cutpoints from c_i on
        dtheta = np.stack([(k + 1 >= i) * dhigh - (k >= i) * dlow for i in range(1, last + 1)])
        value = special.log1mexp(low - high) - one - two
        return value, (below - above)[:, None], -(bend + other)[:, None], dtheta.T

    def initial_parameters(self, y: Array, **kw: Any) -> dict[str, float]:
        """Cutpoints with the shares of the classes at a score of 0, if none was given."""
        cuts = logit(np.cumsum(self._shares(y))[:-1])
        starts = map(float, [cuts[0], *np.diff(cuts)])
        return dict(zip(self.parameter_keys, starts, strict=True)) if self._open else {}
