"""Inflation and hurdles: a likelihood mixed with point masses (atoms)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...data.rows import rows_of
from ...data.types import Keywords, Value
from ...errors import InputError
from ...expectations import levels, reduced, special
from ...expectations.forms import OneForm
from ...linalg import Booleans, Indices
from .. import observation
from ..beta import Beta
from ..contract import Array, Arrays, Averages, Likelihood
from ..counts import NegativeBinomial, Poisson
from ..from_density import constant_fit
from ..observation import TINY, Event, of_event
from .atoms import (
    GivenLatents,
    WithAtoms,
    ZeroTruncated,
    alike,
    expected_log_with_atoms,
    expected_total,
)
from .constant import Wrapper


class Inflated(OneForm, Wrapper):
    """p(y) = (p_base(y) + Σ_k e^{h_k} [y = a_k]) / Z, Z = 1 + Σ_k e^{h_k}: point masses at a_k.

    Latents are those of the base, then h_k = `log_odds_<a_k>`, the log-odds of atom k against the
    base. A count at an atom may come from the base as well; if the base has a density, every
    y = a_k comes from the atom. Except at such counts the expected log-density is that of the base
    plus an expectation over h.

    Around a `Survival` likelihood the probability of a censored row is that of its event: y at
    most 1 holds an atom at 0, and y above 1 does not. An `entry` of 0 leaves nothing out, not even
    an atom at 0. Where an event holds both atoms and times of the base, its expectation has nodes
    in the base's latents, as many as agree with the next larger set.

    Parameters
    ----------
    base: any likelihood; its parameter values become the start here, its metadata are ours.
    at: the atoms a_k, or one alone.
    """

    def __init__(
        self, base: Likelihood, at: float | Sequence[float] = (0.0,), name: str | None = None
    ) -> None:
        self._wrap(base)
        self.at = tuple(float(a) for a in np.atleast_1d(at))
        if not self.at or len(set(self.at)) < len(self.at) or not np.all(np.isfinite(self.at)):
            raise InputError(f"at must be distinct finite numbers, one or more; got {at!r}.")
        self._check_atoms()
        self._part, support = self._rest(base), base.target_support
        self._interior = support.interior
        above = support.continuous and support.ends[0] >= 0.0 and not support.holds(np.zeros(1))
        self._above_zero = above and all(atom > 0.0 for atom in base.atoms)
        self._shared = np.array([self._holds(a) for a in self.at])
        self._tags = [f"{a:g}".replace("-", "minus_").replace(".", "_") for a in self.at]
        self.latents = (*base.latents, *(f"log_odds_{tag}" for tag in self._tags))
        if support.continuous:
            self.atoms = tuple(dict.fromkeys((*base.atoms, *self.at)))
        self.coupled = self._is_coupled()
        super().__init__(name)

    def _is_coupled(self) -> bool | None:
        """Whether an inflated likelihood needs a joint q: as the base, if rows tell of their atom.

        That is so where every row tells of one atom whether it comes from that; else it is
        not known. log p is then a sum of one term in the base's latents and one in the
        log-odds.
        """
        own = self.base.coupled if len(self.base.latents) > 1 else False
        censored = "censored" in self.base.metadata_names
        told = len(self.at) == 1 and not self._shared.any() and not censored
        return own if own or told else None

    def _rest(self, base: Likelihood) -> Likelihood:
        """The likelihood that atoms are mixed with."""
        return base

    def _check_atoms(self) -> None:
        """Refuse atoms that counts and classes do not have, and those below 0 of event times."""
        name = type(self.base).__name__
        if "censored" in self.base.metadata_names and min(self.at) < 0.0:
            raise InputError(
                f"at must not be negative for the event times of {name}; got {self.at}."
            )
        if self.target_support.continuous:
            return
        for atom in self.at:
            try:
                self.base.check_targets(np.array([atom]))
            except InputError as error:
                raise InputError(
                    f"at must be values that {name} can take, as its targets are {self.support}; "
                    f"got {atom:g}."
                ) from error

    def _holds(self, atom: float) -> bool:
        """Whether the base of an inflated likelihood itself gives the atom a probability."""
        try:
            self._part.check_targets(np.array([atom]))
        except InputError:
            return False
        return not self.target_support.continuous or atom in self.base.atoms

    def _split(self, latents: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Array], Array]:
        """Latents of the base, the log-odds h of atoms, and log Z of the mixture."""
        c = len(self.base.latents)
        log_z: Any = 0.0
        for h in latents[c:]:
            log_z = np.logaddexp(log_z, h)
        return latents[:c], latents[c:], log_z

    def _weights(self, latents: Sequence[Array]) -> tuple[Array, list[Array]]:
        """Probabilities of the base and of each atom of an inflated likelihood."""
        _, odds, log_z = self._split(latents)
        return np.exp(-log_z), [np.exp(h - log_z) for h in odds]

    def _hits(self, y: Array) -> tuple[Booleans, Array]:
        """Where y is each of the atoms (K, *shape of y), and y with targets the base can take."""
        hit, _, safe = self._asked(Event(y, y, y, {}))
        return hit, safe

    def _asked(self, event: Event) -> tuple[Booleans, Booleans, Array]:
        """Atoms in an event (K, *shape); where the base has none of it; what to ask of the base.

        An atom that the base does not hold is no exact target of the base, and neither is 0 of a
        positive one: its limit takes the place of an end of an interval.
        """
        hit = event.holds(self.at)
        none = event.exact & hit[~self._shared].any(axis=0)
        if self._above_zero:
            none = none | (~event.exact & (event.high <= 0.0))
        y = np.where(none, self._interior, event.y)
        return hit, none, np.where(event.exact, y, np.maximum(y, TINY)) if self._above_zero else y

    def _joint(self, event: Event, latents: Arrays) -> tuple[Array, Array, Booleans]:
        """log P_base(event), log(P(event) Z) of the mixture with atoms, and the event's atoms."""
        base, odds, _ = self._split(latents)
        hit, none, y = self._asked(event)
        rest = np.where(none, -np.inf, self._part.log_density(y, *base, **event.kw))
        total = rest = np.where(event.certain, 0.0, rest)
        for one, h in zip(hit, odds, strict=True):
            total = np.where(one, np.logaddexp(total, h), total)
        return rest, total, hit

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The log-density of an inflated likelihood, or at an atom the log-probability.

        Broadcast shape. Of a censored row it is the log-probability of what was seen, the
        atoms in it included.
        """
        before = observation.entered(y, kw)
        total = self._split(latents)[2] if before is None else self._joint(before, latents)[1]
        return special.minus(self._joint(observation.seen(y, kw), latents)[1], total)

    def _slopes(
        self, of_part: Callable[..., Arrays], event: Event, latents: Arrays
    ) -> tuple[list[Array], ...]:
        """Slopes of log(P(event) Z) with atoms: the base's, by `of_part`, and those in h."""
        base, odds, _ = self._split(latents)
        rest, total, hit = self._joint(event, latents)
        slopes = of_part(self._asked(event)[2], *base, **event.kw)
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.where(event.certain, 0.0, np.exp(special.minus(rest, total)))
            first = [np.where(share > 0.0, share * d, 0.0) for d in slopes]
            own = [
                np.exp(np.where(one, special.minus(h, total), -np.inf))
                for one, h in zip(hit, odds, strict=True)
            ]
        return first, own

    def _all_slopes(
        self, of_part: Callable[..., Arrays], y: Array, latents: Arrays, kw: Keywords
    ) -> tuple[list[Array], ...]:
        """Slopes of a mixture with atoms, of what was seen less those of what was known before."""
        first, own = self._slopes(of_part, observation.seen(y, kw), latents)
        before = observation.entered(y, kw)
        if before is None:
            return first, [r - w for r, w in zip(own, self._weights(latents)[1], strict=True)]
        return tuple(
            [a - b for a, b in zip(*pair, strict=True)]
            for pair in zip((first, own), self._slopes(of_part, before, latents), strict=True)
        )

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of an inflated likelihood: the base's times its posterior share; those in h."""
        first, own = self._all_slopes(self._part.dlog_density, y, latents, kw)
        return (*first, *own)

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """The base's slopes in parameters times the posterior probability of the base."""
        return tuple(self._all_slopes(self._part.dlog_density_dtheta, y, latents, kw)[0])

    def _averages(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """Inflated E[log p]: a sum, one term more where atoms and the base share the event."""
        n, b = means.shape
        whole = (
            np.zeros(n),
            np.zeros((b, n)),
            np.zeros((*variances.shape[1:], n)),
            np.zeros((len(self.parameter_keys), n)),
        )
        self._add(whole, 1.0, observation.seen(y, kw), means, variances, nodes)
        before = observation.entered(y, kw)
        if before is None:
            ends = np.full(n, np.inf)
            before = Event(-ends, ends, y, {})
        self._add(whole, -1.0, before, means, variances, nodes)
        value, dmeans, dvariances, dtheta = (np.moveaxis(part, -1, 0) for part in whole)
        return value, dmeans, dvariances, dtheta

    def _add(
        self,
        whole: tuple[Array, ...],
        sign: float,
        event: Event,
        means: Array,
        variances: Array,
        nodes: int,
    ) -> None:
        """Add sign · E log(P(event) Z) of a mixture with atoms, its slopes in means, variances, θ.

        Those in means are (b, n), those in θ (p, n).

        variances (n, b) or covariances (n, b, b), their derivatives with rows last.
        """
        c = len(self.base.latents)
        hit, none, y = self._asked(event)
        for rows in alike(np.vstack([hit, none, event.certain])):
            i = rows[0]
            atoms, kw = c + np.flatnonzero(hit[:, i]), rows_of(event.kw, rows)
            columns = atoms if none[i] or event.certain[i] else np.r_[:c, atoms]
            block = (columns,) * (variances.ndim - 1)
            m, v = means[np.ix_(rows, columns)], variances[np.ix_(rows, *block)]
            if event.certain[i] or none[i]:
                parts = [*expected_total(m, v, nodes, one=bool(event.certain[i]))]
            elif atoms.size:
                parts = [*expected_log_with_atoms(self._part, y[rows], m, v, nodes, kw)]
            else:
                averages = self._part.expectation(y[rows], m, v, nodes, **kw)
                parts = [np.moveaxis(part, 0, -1) for part in averages]
            whole[0][rows] += sign * parts[0]
            whole[1][np.ix_(columns, rows)] += sign * parts[1]
            whole[2][np.ix_(*block, rows)] += sign * parts[2]
            if len(parts) == 4:
                whole[3][:, rows] += sign * parts[3]

    def _levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """The nodes of an inflated row: the more that base or sum over atoms need.

        They are found by trying beyond limits or in a shared event.

        Where rows have an entry, all of them are tried: two expectations are subtracted.
        """
        event, before = observation.seen(y, kw), observation.entered(y, kw)
        hit, none, safe = self._asked(event)
        c = len(self.base.latents)
        own = variances[:, :c] if variances.ndim == 2 else variances[:, :c, :c]
        nodes, unmet = self._part._levels_of(own)(safe, means[:, :c], own, event.kw)
        if len(self.at) > 1:
            single = variances.ndim == 2
            widest = (
                variances[:, c:].max(axis=1)
                if single
                else reduced.widest_of_sum(variances[:, c:, c:])
            )
            least, beyond = levels.choose(widest, reduced.LOG_SUM_LIMITS)
            nodes, unmet = np.maximum(nodes, least), unmet | beyond
        mixed = hit.any(axis=0) & ~none
        if before is not None:
            mixed = mixed | ~before.certain
        tried = np.flatnonzero(unmet | mixed)
        if tried.size:
            nodes[tried] = levels.tried(self._trial(y, means, variances, kw), tried)
            unmet[tried] = nodes[tried] == levels.LEVELS[-1]
        return nodes, unmet

    _joint_levels = _levels

    @property
    def tries_nodes(self) -> bool:
        """True: inflated rows where atoms and base share an event, or beyond limits, are tried."""
        return True

    def distribution(self, *latents: Array, **kw: Value) -> WithAtoms:
        """The mixture with atoms: mean, var, cdf and ppf, as scipy.stats has them."""
        rest, weights = self._weights(latents)
        bound = GivenLatents(self._part, self._split(latents)[0], kw)
        return WithAtoms(bound, rest, self.at, weights, self.target_support.step)

    def sample(
        self, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Value
    ) -> Array:
        """Draws of an inflated likelihood: the broadcast shape, preceded by `size`."""
        shape = self._draw_shape(size, latents, kw)
        full = [np.broadcast_to(f, shape) for f in latents]
        draws = self._part.sample(rng, *self._split(full)[0], size=None, **kw)
        left = rng.uniform(size=shape)
        for a, w in zip(self.at, self._weights(full)[1], strict=True):
            draws = np.where((left >= 0.0) & (left < w), a, draws)
            left = left - w
        return draws

    def natural_parameters(self, *latents: Array, **kw: Value) -> dict[str, Array]:
        """Natural parameters of the base of a mixture, and the probability of each atom."""
        names = [f"probability_{tag}" for tag in self._tags]
        atoms = dict(zip(names, self._weights(latents)[1], strict=True))
        return {**self.base.natural_parameters(*self._split(latents)[0], **kw), **atoms}

    def log_survival(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """log P(T > t) of an inflated event time: the probability of a right-censored row."""
        if not self.event_times:
            return super().log_survival(t, *latents, **kw)
        right = np.asarray(observation.RIGHT)
        return self.log_density(t, *latents, censored=right, **of_event(kw))

    def log_cdf(self, t: Array, *latents: Array, **kw: Value) -> Array:
        """log P(T ≤ t) of an inflated event time: the probability of a left-censored row."""
        if not self.event_times:
            return super().log_cdf(t, *latents, **kw)
        left = np.asarray(observation.LEFT)
        return self.log_density(t, *latents, censored=left, **of_event(kw))

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """Start of an inflated fit: the base's from rows off the atoms, and log-odds of atoms.

        With the share P_k of an atom among the targets and the base's own probability p_k of it,
        the weights w solve P_k = w_k + (1 − Σw) p_k. Where atoms and the base share a censored row,
        or rows are truncated, that is improved towards the maximum likelihood of constants.
        """
        rows, targets = self._off_atoms(y, kw)
        base = self._part.initial_latents(targets, **rows_of(kw, rows))
        event = observation.seen(y, kw)
        hit, none, _ = self._asked(event)
        mixed = ~event.exact & ~none & hit.any(axis=0)
        seen = np.mean(np.where(mixed, 0.5 * hit, hit), axis=1)  # These are the shares P.
        own = np.zeros(len(self.at))  # These are the base's probabilities p.
        for k in np.flatnonzero(self._shared):
            log_p = self._part.log_density(np.full(len(y), self.at[k]), *base, **of_event(kw))
            own[k] = np.mean(np.exp(log_p))
        rest = (1.0 - seen.sum()) / max(1.0 - own.sum(), 1e-3)
        share = np.clip(seen - rest * own, 0.02, 0.9)
        start = np.concatenate([base, np.log(share) - np.log(max(1.0 - share.sum(), 0.05))])
        if mixed.any() or observation.entered(y, kw) is not None:
            return constant_fit(self, y, kw, start)
        return start

    def initial_parameters(self, y: Array, **kw: Value) -> dict[str, float]:
        """Starts of parameters that the base of a mixture gives, from the rows off the atoms."""
        rows, targets = self._off_atoms(y, kw)
        return self._part.initial_parameters(targets, **rows_of(kw, rows))

    def _off_atoms(self, y: Array, kw: Keywords) -> tuple[Indices, Array]:
        """Rows off the atoms of a mixture (all, if there are none) and their targets."""
        hit, _, safe = self._asked(observation.seen(y, kw))
        rows = np.flatnonzero(~hit.any(axis=0))
        rows = rows if rows.size else np.arange(len(y))
        return rows, safe[rows]

    def check_targets(self, y: Array) -> None:
        """Allow atoms as targets, and check all others as the base does."""
        self._part.check_targets(self._hits(y)[1])

    def impossible(self, y: Array, **metadata: Array) -> tuple[Booleans, str]:
        """Rows that the base of a mixture with atoms refuses, and atoms not after the entry."""
        event = observation.seen(y, metadata)
        exact = event.exact & event.holds(self.at).any(axis=0)
        wrong, off = np.zeros(len(y), dtype=bool), np.flatnonzero(~exact)
        wrong[off], how = self._part.impossible(y[off], **rows_of(metadata, off))
        before = observation.entered(y, metadata)
        if before is None or wrong.any():
            return wrong, how
        return exact & (before.low >= y), "have an exact time that is not after their entry"


class Hurdle(Inflated):
    """P(y = 0) = 1/(1 + e^{−h}), else the base given y ≠ 0: latents of the base, `log_odds_0` h.

    Zeros come from the hurdle alone: for counts the base is truncated, log p(y) = log p_base(y) −
    log(1 − p_base(0)) − log(1 + e^h), y > 0. A base with a density has no zeros anyway.
    """

    def __init__(self, base: Likelihood, name: str | None = None) -> None:
        super().__init__(base, (0.0,), name)

    def _rest(self, base: Likelihood) -> Likelihood:
        if base.target_support.continuous:
            return base
        if "censored" in base.metadata_names:
            raise InputError(
                f"Hurdle cannot take the zeros out of {type(base).__name__}, whose rows may be "
                "censored: use Inflated, whose zeros may come from both."
            )
        return _ZeroTruncated(base)


class ZeroInflatedPoisson(Inflated):
    """y = 0 with log-odds h = `log_odds_0`, else Poisson(exposure e^f), f = `log_rate`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(Poisson(), (0.0,), name)

    def _is_coupled(self) -> bool:
        """Zero-inflated Poisson counts need no joint q.

        Standard deviations of a mean-field q are at least 0.99 of the posterior's.
        """
        return False


class ZeroInflatedNegativeBinomial(Inflated):
    """y = 0 with log-odds h = `log_odds_0`, else `NegativeBinomial` with mean exposure e^f."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(NegativeBinomial(), (0.0,), name)


class ZeroOneInflatedBeta(Inflated):
    """Beta(e^f, e^g), y = 0 and y = 1 with the log-odds `log_odds_0`, `log_odds_1` against it."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(Beta(), (0.0, 1.0), name)


class _ZeroTruncated(Wrapper):
    """The likelihood of zero-truncated counts y > 0: p_base(y)/(1 − p₀), p₀ = p_base(0)."""

    node_limits = (0.0, 0.2)

    def __init__(self, base: Likelihood) -> None:
        self._wrap(base)
        self.latents = base.latents
        super().__init__()

    def _zero(self, latents: Sequence[Array], kw: Keywords) -> tuple[Array, Array]:
        """log(1 − p₀) and p₀/(1 − p₀) of zero-truncated counts."""
        log_p = np.minimum(self.base.log_density(np.zeros(()), *latents, **kw), 0.0)
        log_rest = np.maximum(special.log1mexp(log_p), -690.0)  # The inverse of 1 − p₀ is finite.
        return log_rest, np.exp(log_p - log_rest)

    def log_density(self, y: Array, *latents: Array, **kw: Value) -> Array:
        """The log-probability of a zero-truncated count: the base's, renormalised."""
        return self.base.log_density(y, *latents, **kw) - self._zero(latents, kw)[0]

    def _slopes(
        self, slopes: Callable[..., Arrays], y: Array, latents: Arrays, kw: Keywords
    ) -> Arrays:
        """Slopes of a zero-truncated log-probability, ∂ log p_base(y) + p₀/(1 − p₀) ∂ log p₀."""
        odds = self._zero(latents, kw)[1]
        pairs = zip(slopes(y, *latents, **kw), slopes(np.zeros(()), *latents, **kw), strict=True)
        return tuple(d + odds * d0 for d, d0 in pairs)

    def dlog_density(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of a zero-truncated log-probability in the latents."""
        return self._slopes(self.base.dlog_density, y, latents, kw)

    def dlog_density_dtheta(self, y: Array, *latents: Array, **kw: Value) -> Arrays:
        """Slopes of a zero-truncated log-probability in the parameters."""
        return self._slopes(self.base.dlog_density_dtheta, y, latents, kw)

    def distribution(self, *latents: Array, **kw: Value) -> ZeroTruncated:
        """The distribution of zero-truncated counts: mean, var, cdf and ppf, as scipy's."""
        return ZeroTruncated(GivenLatents(self.base, latents, kw), *self._zero(latents, kw))

    sample = Likelihood._quantiles_at_random

    def initial_latents(self, y: Array, **kw: Value) -> Array:
        """Start of zero-truncated counts: that of the base."""
        return self.base.initial_latents(y, **kw)

    def check_targets(self, y: Array) -> None:
        """Refuse the counts that the base refuses, and 0."""
        self.base.check_targets(y)
        if not np.all(y):
            raise InputError("A zero-truncated likelihood needs targets that are not 0.")
