"""Point masses mixed with any likelihood: inflation and hurdles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.rows import rows_of
from ...errors import InputError
from ...expectations import quadrature, reduced, special
from ...parameters.domains import CONTINUOUS
from ..beta import Beta
from ..contract import Array, Arrays, Averages, Likelihood
from ..counts import Poisson
from .atoms import Bound, WithAtoms, ZeroTruncated, expected_log_z, expected_share
from .constant import Wrapper

__all__ = ["Hurdle", "Inflated", "ZeroInflatedPoisson", "ZeroOneInflatedBeta"]


class Inflated(Wrapper):
    """p(y) = (p_base(y) + Σ_k e^{h_k} [y = a_k]) / Z, Z = 1 + Σ_k e^{h_k}: point masses at a_k.

    Latents are those of the base, then h_k = `log_odds_<a_k>`, the log-odds of atom k against the
    base. Counts at an atom may come from the base as well; beside a density every y = a_k is of
    the atom. But for such counts the expectation is a sum of the base's own and one over h.

    Parameters
    ----------
    base: any likelihood; its parameter values become the start here, its metadata are ours.
    at: the atoms a_k.
    """

    def __init__(
        self, base: Likelihood, at: Sequence[float] = (0.0,), name: str | None = None
    ) -> None:
        self._wrap(base)
        self.at = tuple(float(a) for a in at)
        if not self.at or len(set(self.at)) < len(self.at) or not np.all(np.isfinite(self.at)):
            raise InputError(f"at must be distinct finite numbers, one or more; got {at!r}.")
        self._part = self._rest(base)
        self._shared = np.array([self._holds(a) for a in self.at])
        self._tags = [f"{a:g}".replace("-", "minus_").replace(".", "_") for a in self.at]
        self.latents = (*base.latents, *(f"log_odds_{tag}" for tag in self._tags))
        if base.support in CONTINUOUS:
            self.atoms = (*base.atoms, *self.at)
        super().__init__(name)

    def _rest(self, base: Likelihood) -> Likelihood:
        """What the atoms are mixed with."""
        return base

    def _holds(self, atom: float) -> bool:
        """Whether the base itself gives the atom a probability."""
        try:
            self._part.check_targets(np.array([atom]))
        except InputError:
            return False
        return self.support not in CONTINUOUS

    def _split(self, latents: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Array], Array]:
        """Latents of the base, h, and log Z."""
        c = len(self.base.latents)
        log_z: Any = 0.0
        for h in latents[c:]:
            log_z = np.logaddexp(log_z, h)
        return latents[:c], latents[c:], log_z

    def _weights(self, latents: Sequence[Array]) -> tuple[Array, list[Array]]:
        """Probabilities of the base and of each atom."""
        _, odds, log_z = self._split(latents)
        return np.exp(-log_z), [np.exp(h - log_z) for h in odds]

    def _hits(self, y: Array) -> tuple[Array, Array]:
        """Where y is each of the atoms (K, *shape of y), and y with targets the base can take."""
        hit = np.stack([np.equal(y, a) for a in self.at])
        inside = 0.5 if self.support == "unit" else 1.0
        return hit, np.where(hit[~self._shared].any(axis=0), inside, y)

    def _joint(self, y: Array, latents: Arrays, kw: dict[str, Any]) -> tuple[Array, Array, Array]:
        """log p_base(y), −inf at atoms that it does not hold; log(p Z); hits."""
        base, odds, _ = self._split(latents)
        hit, safe = self._hits(y)
        rest = self._part.log_density(safe, *base, **kw)
        rest = np.where(hit[~self._shared].any(axis=0), -np.inf, rest)
        total = rest
        for one, h in zip(hit, odds, strict=True):
            total = np.where(one, np.logaddexp(total, h), total)
        return rest, total, hit

    def log_density(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """The log-density, or at an atom the log-probability; broadcast shape."""
        return self._joint(y, latents, kw)[1] - self._split(latents)[2]

    def _of_base(self, method: str, y: Array, latents: Arrays, kw: dict[str, Any]) -> Any:
        """The base's derivatives times its posterior probability; log(p Z); hits."""
        rest, total, hit = self._joint(y, latents, kw)
        slopes = getattr(self._part, method)(self._hits(y)[1], *self._split(latents)[0], **kw)
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.exp(rest - total)
            return [np.where(share > 0.0, share * d, 0.0) for d in slopes], total, hit

    def dlog_density(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """The base's derivatives times its posterior probability; those in h."""
        first, total, hit = self._of_base("dlog_density", y, latents, kw)
        odds = self._split(latents)[1]
        own = [np.exp(np.where(one, h - total, -np.inf)) for one, h in zip(hit, odds, strict=True)]
        return (*first, *(r - w for r, w in zip(own, self._weights(latents)[1], strict=True)))

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """The base's derivatives times its posterior probability."""
        return tuple(self._of_base("dlog_density_dtheta", y, latents, kw)[0])

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Any
    ) -> Averages:
        """A sum of expectations, one more where an atom and the base share y."""
        hit, _ = self._hits(y)  # (K, n)
        c, (n, b) = len(self.base.latents), means.shape
        value, dmeans, dvariances = np.empty(n), np.zeros((b, n)), np.zeros((b, n))
        dtheta = np.zeros((len(self.parameter_keys), n))
        value[:], dmeans[c:], dvariances[c:] = expected_log_z(means[:, c:], variances[:, c:], nodes)
        value += (hit * means[:, c:].T).sum(axis=0)
        dmeans[c:] += hit
        whole = (value, dmeans, dvariances, dtheta)
        plain = np.flatnonzero(~hit.any(axis=0))
        if plain.size:
            parts = self._part.expected_log_density(
                y[plain], means[plain, :c], variances[plain, :c], nodes=nodes, **rows_of(kw, plain)
            )
            value[plain] += parts[0]
            for array, part in zip(whole[1:], parts[1:], strict=True):
                array[: part.shape[1], plain] = part.T
        mixed = np.flatnonzero(hit[self._shared].any(axis=0))
        if mixed.size:
            arrays = (y[mixed], hit[:, mixed], means[mixed], variances[mixed])
            shares = expected_share(self._part, *arrays, nodes, rows_of(kw, mixed))
            for target, share in zip(whole, shares, strict=True):
                target[..., mixed] += share
        return value, dmeans.T, dvariances.T, dtheta.T

    def _levels(self, y: Array, means: Array, variances: Array, kw: Any) -> tuple[Array, Array]:
        """As the base has it and the sum over atoms; else, or where both share y, by trying."""
        hit, safe = self._hits(y)
        c = len(self.base.latents)
        nodes, unmet = self._part._levels(safe, means[:, :c], variances[:, :c], kw)
        if len(self.at) > 1:
            widest = variances[:, c:].max(axis=1)
            least, beyond = quadrature.choose(widest, reduced.LOG_SUM_LIMITS)
            nodes, unmet = np.maximum(nodes, least), unmet | beyond
        tried = np.flatnonzero(unmet | hit[self._shared].any(axis=0))
        if tried.size:
            nodes[tried] = quadrature.tried(self._trial(y, means, variances, kw), tried)
            unmet[tried] = nodes[tried] == quadrature.LEVELS[-1]
        return nodes, unmet

    @property
    def tries_nodes(self) -> bool:
        """Where an atom shares its mass with the base, and beyond the limits of both."""
        return True

    def distribution(self, *latents: Array, **kw: Any) -> Any:
        """The mixture: mean, var, cdf and ppf, as scipy.stats has them."""
        rest, weights = self._weights(latents)
        step = 0.0 if self.support in CONTINUOUS else 1.0
        bound = Bound(self._part, self._split(latents)[0], kw)
        return WithAtoms(bound, rest, self.at, weights, step)

    def sample(
        self, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Any
    ) -> Array:
        """Draws: the broadcast shape, preceded by `size`."""
        shape = self._draw_shape(size, latents, kw)
        full = [np.broadcast_to(f, shape) for f in latents]
        draws = self._part.sample(rng, *self._split(full)[0], **kw)
        left = rng.uniform(size=shape)
        for a, w in zip(self.at, self._weights(full)[1], strict=True):
            draws = np.where((left >= 0.0) & (left < w), a, draws)
            left = left - w
        return draws

    def natural_parameters(self, *latents: Array, **kw: Any) -> dict[str, Array]:
        """Those of the base, and the probability of each atom."""
        names = [f"probability_{tag}" for tag in self._tags]
        atoms = dict(zip(names, self._weights(latents)[1], strict=True))
        return {**self.base.natural_parameters(*self._split(latents)[0], **kw), **atoms}

    def initial_latents(self, y: Array, **kw: Any) -> Array:
        """The base's start from the rows off the atoms; log-odds from what it leaves over."""
        rows, targets = self._off_atoms(y)
        base = self._part.initial_latents(targets, **rows_of(kw, rows))
        hit, safe = self._hits(y)
        expected = np.exp(self._part.log_density(safe, *base, **kw))
        excess = np.mean(hit - self._shared[:, None] * expected, axis=1)
        share = np.clip(excess, 0.02, 0.9)
        return np.concatenate([base, np.log(share) - np.log(max(1.0 - share.sum(), 0.05))])

    def initial_parameters(self, y: Array, **kw: Any) -> dict[str, float]:
        """The base's, from the rows off the atoms."""
        rows, targets = self._off_atoms(y)
        return self._part.initial_parameters(targets, **rows_of(kw, rows))

    def _off_atoms(self, y: Array) -> tuple[Array, Array]:
        """Rows off the atoms (all, if there are none) and their targets."""
        hit, safe = self._hits(y)
        rows = np.flatnonzero(~hit.any(axis=0))
        rows = rows if rows.size else np.arange(len(y))
        return rows, safe[rows]

    def check_targets(self, y: Array) -> None:
        """Atoms are allowed, all else as the base has it."""
        self._part.check_targets(self._hits(y)[1])

    def impossible(self, y: Array, **metadata: Array) -> tuple[Array, str]:
        """As the base says of the rows off the atoms."""
        off, wrong = np.flatnonzero(~self._hits(y)[0].any(axis=0)), np.zeros(len(y), dtype=bool)
        wrong[off], how = self._part.impossible(y[off], **rows_of(metadata, off))
        return wrong, how


class Hurdle(Inflated):
    """P(y = 0) = 1/(1 + e^{−h}), else the base given y ≠ 0: latents of the base, `log_odds_0` h.

    Zeros come from the hurdle alone: for counts the base is truncated, log p(y) = log p_base(y) −
    log(1 − p_base(0)) − log(1 + e^h), y > 0. A base with a density has no zeros anyway.
    """

    def __init__(self, base: Likelihood, name: str | None = None) -> None:
        super().__init__(base, (0.0,), name)

    def _rest(self, base: Likelihood) -> Likelihood:
        return base if self.support in CONTINUOUS else _ZeroTruncated(base)


class ZeroInflatedPoisson(Inflated):
    """y = 0 with log-odds h = `log_odds_0`, else Poisson(exposure e^f), f = `log_rate`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(Poisson(), (0.0,), name)


class ZeroOneInflatedBeta(Inflated):
    """Beta(e^f, e^g), y = 0 and y = 1 with the log-odds `log_odds_0`, `log_odds_1` against it."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(Beta(), (0.0, 1.0), name)


class _ZeroTruncated(Wrapper):
    """p(y) = p_base(y)/(1 − p₀), p₀ = p_base(0), of counts y > 0."""

    node_limits = (0.0, 0.2)

    def __init__(self, base: Likelihood) -> None:
        self._wrap(base)
        self.latents = base.latents
        super().__init__()

    def _zero(self, latents: Sequence[Array], kw: dict[str, Any]) -> tuple[Array, Array]:
        """log(1 − p₀) and p₀/(1 − p₀)."""
        log_p = np.minimum(self.base.log_density(np.zeros(()), *latents, **kw), 0.0)
        log_rest = np.maximum(special.log1mexp(log_p), -745.0)
        return log_rest, np.exp(log_p - log_rest)

    def log_density(self, y: Array, *latents: Array, **kw: Any) -> Array:
        """The base's, renormalised."""
        return self.base.log_density(y, *latents, **kw) - self._zero(latents, kw)[0]

    def _slopes(self, method: str, y: Array, latents: Arrays, kw: dict[str, Any]) -> Arrays:
        """∂ log p_base(y) + p₀/(1 − p₀) ∂ log p₀."""
        odds, slopes = self._zero(latents, kw)[1], getattr(self.base, method)
        pairs = zip(slopes(y, *latents, **kw), slopes(np.zeros(()), *latents, **kw), strict=True)
        return tuple(d + odds * d0 for d, d0 in pairs)

    def dlog_density(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """In the latents."""
        return self._slopes("dlog_density", y, latents, kw)

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Any) -> Arrays:
        """In the parameters."""
        return self._slopes("dlog_density_dtheta", y, latents, kw)

    def distribution(self, *latents: Array, **kw: Any) -> Any:
        """The base's without its zeros: mean, var, cdf and ppf, as scipy.stats has them."""
        return ZeroTruncated(Bound(self.base, latents, kw), *self._zero(latents, kw))

    sample = Likelihood.sample

    def initial_latents(self, y: Array, **kw: Any) -> Array:
        """The base's."""
        return self.base.initial_latents(y, **kw)

    def check_targets(self, y: Array) -> None:
        """As the base checks, and not 0."""
        self.base.check_targets(y)
        if not np.all(y):
            raise InputError("A zero-truncated likelihood needs targets that are not 0.")
