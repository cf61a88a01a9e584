"""Likelihoods of classes: two, two with a noise that varies, unordered and ordered ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr, logit, ndtr, ndtri

from ..data.types import Keywords, Value
from ..errors import InputError
from ..expectations import reduced, special
from ..expectations.closed import expected_softplus
from ..expectations.forms import OneForm
from .contract import Array, Arrays, Averages, Likelihood, packed
from .family import Family

FAR = 1e9  # This cutpoint stands for the infinite ends of the first and the last ordered class.


class Bernoulli(Family):
    """P(y = 1) = 1 / (1 + e^{−f}): latent logit f, targets 0 or 1.

    log p = −log(1 + e^{−sf}), s = 2y − 1; its expectation has a closed form.
    """

    latents = ("logit",)
    support = "binary"
    exact_expectation = True
    scipy_name = "bernoulli"

    def _arguments(self, f: Array) -> Arrays:
        return (expit(f),)

    def log_density(self, y: Array, f: Array) -> Array:
        """The log-probability of a binary target, −log(1 + e^{−sf})."""
        return log_expit((2.0 * y - 1.0) * f)

    def dlog_density(self, y: Array, f: Array) -> Arrays:
        """The slope of a Bernoulli log-probability, s logistic(−sf)."""
        sign = 2.0 * y - 1.0
        return (sign * expit(-sign * f),)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, **kw: Value
    ) -> Averages:
        """E[log p] of a binary target, −E log(1 + e^{−sf}), exact for every variance."""
        sign = 2.0 * y - 1.0
        value, slope, bend = expected_softplus(-sign * means[:, 0], variances[:, 0])
        return packed(-value, (sign * slope,), (-bend,))

    def conditional_variance(self, f: Array) -> Array:
        """The variance p (1 − p) of a binary target, exact to rounding where it is small too."""
        return expit(f) * expit(np.negative(f))

    def initial_latents(self, y: Array) -> Array:
        """Start of a Bernoulli fit: the logit of the share of ones, finite if all are alike."""
        return np.array([logit((np.sum(y) + 0.5) / (len(y) + 1.0))])


class HetProbit(Family):
    """P(y = 1) = Φ(f e^{−g/2}): the sign of a HetGaussian, latents mean f and log_variance g.

    log p = log Φ(z), z = ± f e^{−g/2}. Targets 0 or 1; where g is large the classes overlap.
    """

    latents = ("mean", "log_variance")
    support = "binary"
    scipy_name = "bernoulli"
    node_limits = (0.0, 0.2)
    coupled = True  # Means of a mean-field q are off by up to 0.3 sd, those of a joint q by 0.1.

    def _arguments(self, f: Array, g: Array) -> Arrays:
        return (ndtr(f * np.exp(-0.5 * np.asarray(g))),)

    def log_density(self, y: Array, f: Array, g: Array) -> Array:
        """The log-probability of a class under `HetProbit`, log Φ(z)."""
        return log_ndtr((2.0 * y - 1.0) * f * np.exp(-0.5 * np.asarray(g)))

    def dlog_density(self, y: Array, f: Array, g: Array) -> Arrays:
        """Slopes of a probit log-probability, (φ/Φ)(z) dz/df and −½ z (φ/Φ)(z)."""
        scale = (2.0 * y - 1.0) * np.exp(-0.5 * np.asarray(g))
        z = scale * f
        ratio = np.sqrt(2.0 / np.pi) / erfcx(z * -np.sqrt(0.5))
        return scale * ratio, -0.5 * z * ratio

    def node_score(self, y: Array, means: Array, variances: Array) -> Array:
        """The spread that decides on the nodes of a probit class.

        It is the variance of f over that of the noise, plus v_g, which counts more at large
        z.
        """
        (m_f, m_g), (v_f, v_g) = means.T, variances.T
        precision = np.exp(np.minimum(v_g - m_g, 700.0))
        return v_f * precision + v_g * (1.0 + 0.1 * m_f**2 * precision)

    def initial_latents(self, y: Array) -> Array:
        """Start of a probit fit: the share of ones, at variance 1."""
        return np.array([ndtri((np.sum(y) + 0.5) / (len(y) + 1.0)), 0.0])


class _Classes(Likelihood):
    """A likelihood of classes 0 … K − 1, given by K class probabilities."""

    support = "categories"
    num_categories = 0

    def _init(self, count: int, name: str) -> None:
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
            raise InputError(f"{name} must be a whole number, at least 2; got {count!r}.")
        self.num_categories = int(count)

    def _given(self) -> tuple[str, ...]:
        return (str(self.num_categories),)

    def _probabilities(self, latents: Arrays, kw: Keywords) -> Array:
        """Probabilities of the K classes given the latents, (K, *shape)."""
        each: Any = np.arange(float(self.num_categories))
        return np.exp(np.stack([self.log_density(k, *latents, **kw) for k in each]))

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """The probabilities of the classes: probability_1 is that of y = 0."""
        p = self._probabilities(latents, kw)
        return {f"probability_{k}": pk for k, pk in enumerate(p, 1)}

    def _shares(self, y: Array) -> Array:
        """Shares (K,) of the classes among targets y, none of them 0, to start a fit from."""
        counts = np.bincount(np.asarray(y, dtype=int), minlength=self.num_categories) + 0.5
        return counts / counts.sum()


class Softmax(OneForm, _Classes):
    """P(y = k) = e^{f_{k+1}} / Σ_j e^{f_j}, k = 0 … K − 1: latents logit_1 … logit_K.

    log p = f_{y+1} − log Σ_j e^{f_j}; the expectation of the last term is a one-dimensional
    integral for any K (`reduced.expected_log_sum_exp`), as accurate as a product grid. That needs
    independent logits; of correlated ones the last difference to one of them is integrated exactly
    given the others, which have nodes: in one dimension for three classes. Logits are relative to
    each other: `Softmax(3).with_constant("logit_3", 0.0)` spares one latent.
    """

    node_limits = reduced.LOG_SUM_LIMITS
    trends = True

    def __init__(self, num_classes: int, name: str | None = None) -> None:
        self._init(num_classes, "num_classes")
        self.num_classes = self.num_categories
        self.latents = tuple(f"logit_{k + 1}" for k in range(self.num_classes))
        # Standard deviations of a mean-field q are 0.6 of the posterior's, some 0.48. From four
        # classes on, the grid of correlated logits takes longer than the fast sum of independent
        # ones.
        self.coupled = self.num_classes <= 3
        super().__init__(name)

    def log_density(self, y: Array, *latents: Array) -> Array:
        """The log-probability of a class, f_{y+1} − log Σ e^{f_j}; −inf for an unknown class."""
        log_total = special.log_total(latents)[0]
        known = np.isin(y, np.arange(self.num_classes))
        seen = sum(np.where(y == k, f, 0.0) for k, f in enumerate(latents))
        return seen - np.where(known, log_total, np.inf)

    def dlog_density(self, y: Array, *latents: Array) -> Arrays:
        """Slopes of a softmax log-probability: 1 − p_k for the class seen, −p_k for the others."""
        return tuple((y == k) - p for k, p in enumerate(special.log_total(latents)[1]))

    def _averages(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] of a softmax class, m_{y+1} − E log Σ e^{f_j}, with `nodes` per dimension."""
        seen = np.equal.outer(np.arange(self.num_classes), y)  # (K, n)
        value, dmeans, dvariances = reduced.expected_log_sum_exp(means, variances, nodes)
        value, none = (seen * means.T).sum(axis=0) - value, np.empty((len(y), 0))
        return value, (seen - dmeans).T, np.moveaxis(-dvariances, -1, 0), none

    def joint_node_score(self, y: Array, means: Array, covariances: Array) -> Array:
        """The variance that decides on nodes of log Σ e^{f_j}, for correlated softmax logits."""
        return reduced.log_sum_score(covariances)

    def initial_latents(self, y: Array) -> Array:
        """Start of softmax logits: logarithms of the shares of the classes."""
        return np.log(self._shares(y))


class Ordinal(_Classes):
    """P(y ≤ k) = 1/(1 + e^{f − c_{k+1}}), k = 0 … K − 1: latent score f, cutpoints as parameters.

    `cutpoint` = c_1 is real, `gap_k` = c_{k+1} − c_k positive. Between the ends l < u of class y
    log p = −softplus(f − u) − softplus(l − f) + log(1 − e^{l−u}), so that the expectation is
    closed (`expectations.closed.expected_softplus`).
    """

    latents = ("score",)
    exact_expectation = True
    ordered_classes = True

    def __init__(self, num_categories: int, name: str | None = None, **parameters: float) -> None:
        self._init(num_categories, "num_categories")
        self._open = not parameters
        super().__init__(name, **parameters)

    def _declarations(self) -> tuple[dict[str, float], dict[str, str]]:
        gaps = {f"gap_{k}": 1.0 for k in range(1, self.num_categories - 1)}
        return {"cutpoint": 0.0, **gaps}, {"cutpoint": "real"}

    def _ends(self, y: Array, cuts: dict[str, float]) -> Arrays:
        """An ordered class as an index, the cutpoints l and u at its ends, and u − l."""
        steps = [cuts[key] for key in self.parameter_keys]
        edges, widths = np.array([-FAR, *np.cumsum(steps), FAR]), np.array([FAR, *steps[1:], FAR])
        k = np.clip(y, 0, self.num_categories - 1).astype(int)
        return k, edges[k], edges[k + 1], widths[k]

    def log_density(self, y: Array, f: Array, **cuts: float) -> Array:
        """An ordered class's log-probability (class docstring); −inf for an unknown class."""
        k, low, high, width = self._ends(y, cuts)
        value = log_expit(high - f) + log_expit(f - low) + special.log1mexp(-width)
        return np.where(y == k, value, -np.inf)

    def dlog_density(self, y: Array, f: Array, **cuts: float) -> Arrays:
        """The slope of an ordered class's log-probability, logistic(l − f) − logistic(f − u)."""
        _, low, high, _ = self._ends(y, cuts)
        return (expit(low - f) - expit(f - high),)

    def dlog_density_dtheta(self, y: Array, f: Array, **cuts: float) -> Arrays:
        """Slopes of an ordered class's log-probability in the first cutpoint and the gaps."""
        k, low, high, width = self._ends(y, cuts)
        return self._slopes(k, expit(f - high), expit(low - f), width)

    def _slopes(self, k: Array, above: Array, below: Array, width: Array) -> Arrays:
        """Slopes of an ordered class in θ_i, which moves cutpoints from c_i on, widens a class."""
        last = self.num_categories - 1
        own, above, below = np.exp(-width) / -np.expm1(-width), (k < last) * above, (k > 0) * below
        steps = range(1, last + 1)
        return tuple((k + 1 >= i) * above - (k >= i) * below + (k + 1 == i) * own for i in steps)

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **cuts: float
    ) -> Averages:
        """E[log p] of an ordered class: closed, `nodes` unused."""
        k, low, high, width = self._ends(y, cuts)
        one, above, bend = expected_softplus(means[:, 0] - high, variances[:, 0])
        two, below, other = expected_softplus(low - means[:, 0], variances[:, 0])
        dtheta = self._slopes(k, above, below, width)
        value = special.log1mexp(-width) - one - two
        return packed(value, (below - above,), (-(bend + other),), dtheta)

    def initial_parameters(self, y: Array, **kw: Value) -> dict[str, float]:
        """Starts of cutpoints: shares of the ordered classes at a score of 0, if none was given."""
        cuts = logit(np.cumsum(self._shares(y))[:-1])
        starts = map(float, [cuts[0], *np.diff(cuts)])
        return dict(zip(self.parameter_keys, starts, strict=True)) if self._open else {}
