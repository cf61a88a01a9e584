"""Default E[log p(y | f)] of a log-density: quadrature, and the choice of its number of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..data.rows import rows_of
from ..data.types import Keywords, Value
from ..linalg import Array, Booleans, Indices
from . import by_values, levels, quadrature

Arrays = tuple[Array, ...]
Averages = tuple[Array, Array, Array, Array]

USUAL: dict[int, tuple[int, ...]] = {2: (4, 6, 8, 12, 20), 3: (4, 6, 8, 12), 4: (4, 6, 8)}
"""Nodes per dimension that are tried, with two to four latents, if only the density is given."""
ROUGH = 6
"""Nodes per dimension when starts are compared. An even number has none in the middle, so that a
density that is narrower than the grid seems worse than it is and not better."""
UNRESOLVED: dict[int, int] = {2: 21, 3: 13, 4: 9}
"""Nodes per dimension of rows that none of the numbers in USUAL serve. No other row has as many, so
that these rows are recognised by it."""


def packed(
    value: Array,
    dmeans: Sequence[Array] | Array,
    dvariances: Sequence[Array] | Array,
    dtheta: Sequence[Array] = (),
) -> Averages:
    """Pack the (n,) arrays of E[log p] and its derivatives into those of `expected_log_density`."""
    b, n, p = len(dmeans), value.size, len(dtheta)
    rows = np.empty((2 * b + p, n))
    for row, part in zip(rows, (*dmeans, *dvariances, *dtheta), strict=True):
        row[:] = part
    return value, rows[:b].T, rows[b : 2 * b].T, rows[2 * b :].T


def merged(parts: Sequence[tuple[Indices, Averages]]) -> Averages:
    """Merge E[log p] and derivatives of disjoint sets of rows (indices, averages) into all rows."""
    n = sum(len(rows) for rows, _ in parts)
    whole = [np.empty((*own.shape[1:], n), dtype=own.dtype) for own in parts[0][1]]
    for rows, averages in parts:
        for target, own in zip(whole, averages, strict=True):
            target[..., rows] = np.moveaxis(own, 0, -1)
    value, dmeans, dvariances, dtheta = (np.moveaxis(part, -1, 0) for part in whole)
    return value, dmeans, dvariances, dtheta


class Expected:
    """Default expectations of a likelihood's `log_density` under q, from it and its derivatives.

    exact_expectation: True if `expected_log_density` is closed and needs no nodes.
    quadrature_latent: the one latent that needs nodes, if the expectation is exact in all others.
    node_limits: for each of `levels.LEVELS` the largest `node_score` of a row for which it is
        accurate to 1e-6; the nodes of rows beyond the last limit are found by trying.
    """

    exact_expectation: bool = False
    quadrature_latent: ClassVar[str | None] = None
    node_limits: ClassVar[tuple[float, ...]] = ()
    _joint_form: ClassVar[bool] = False  # Whether the class that gave forms last gave a joint one.

    latents: tuple[str, ...]
    parameter_keys: tuple[str, ...]
    log_density: Callable[..., Array]
    dlog_density: Callable[..., Arrays]
    dlog_density_dtheta: Callable[..., Arrays]

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        given = vars(cls)
        if "joint_expected_log_density" in given or "expected_log_density" in given:
            cls._joint_form = "joint_expected_log_density" in given

    @property
    def own_expectation(self) -> bool:
        """Whether the likelihood gives its own `expected_log_density`; else it is quadrature."""
        return type(self).expected_log_density is not Expected.expected_log_density

    @property
    def own_joint_expectation(self) -> bool:
        """Whether the likelihood gives `joint_expected_log_density` together with the other form.

        It does not count if a subclass gives another `expected_log_density` alone: the expectation
        of correlated latents is then quadrature. A single latent needs no joint form.
        """
        alone = len(self.latents) == 1 and self.own_expectation
        given = type(self).joint_expected_log_density is not Expected.joint_expected_log_density
        return self._joint_form if given else alone

    def has_form(self, variances: Array) -> bool:
        """Whether E[log p] at variances (n, b), or covariances (n, b, b), is not quadrature."""
        return self.own_expectation if variances.ndim == 2 else self.own_joint_expectation

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p(y | f)], f_j ~ N(m_j, v_j) (Saul et al. 2016, eq. 6), with its gradients.

        Default: quadrature.

        Parameters: y (n,), means and variances (n, b), nodes per dimension.
        Returns: value (n,), d/dmeans (n, b), d/dvariances (n, b), d/dθ (n, p).
        """
        return self._quadrature(y, means, variances, nodes=nodes, **kw)

    def joint_expected_log_density(
        self, y: Array, means: Array, covariances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p(y | f)], f ~ N(m, V) with correlations between latents, with its gradients.

        Default: quadrature, at nodes that are rotated by the Cholesky factor of V.

        Parameters: y (n,), means (n, b), covariances V (n, b, b), nodes per dimension.
        Returns: value (n,), d/dmeans (n, b), d/dθ (n, p) last, and before it G = d/dV (n, b, b),
        symmetric, such that dE = Σ_jk G_jk dV_jk.
        """
        if means.shape[1] > 1:
            return self._quadrature(y, means, covariances, nodes=nodes, **kw)
        value, dmeans, dvariances, dtheta = self.expected_log_density(
            y, means, covariances[:, 0], nodes=nodes, **kw
        )
        return value, dmeans, dvariances[:, None], dtheta

    def _quadrature(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] by quadrature of the density and its derivatives.

        variances (n, b), or covariances (n, b, b).
        """

        def log_p(rows: slice, *latents: Array) -> Array:
            return self.log_density(y[rows], *latents, **rows_of(kw, rows))

        def dlog_p(rows: slice, *latents: Array) -> Arrays:
            kw_rows = rows_of(kw, rows)
            first = self.dlog_density(y[rows], *latents, **kw_rows)
            if not num_parameters:
                return first
            return (*first, *self.dlog_density_dtheta(y[rows], *latents, **kw_rows))

        num_parameters = len(self.parameter_keys)
        rule = quadrature.rule_for(means.shape[1], nodes)
        return quadrature.expectation(log_p, dlog_p, means, variances, rule, num_parameters)

    def expectation(
        self, y: Array, means: Array, variances: Array, nodes: int | Indices, **kw: Value
    ) -> Averages:
        """E[log p(y | f)] with `nodes` an int or one number of nodes per row (n,).

        Variances (n, b) take `expected_log_density`, covariances (n, b, b) the joint one. Rows with
        the same number of nodes are evaluated together.
        """
        usual = self._formula(variances)
        # If nodes were found by trying and are accurate, derivatives follow from density values.
        by_trial = self._nothing_known and np.ndim(nodes) > 0
        resolved = USUAL[means.shape[1]][-1] if by_trial else 0
        parts = []
        for level in np.unique(nodes):
            formula: Callable[..., Averages] = self._by_values if level <= resolved else usual
            rows = np.flatnonzero(nodes == level)
            if not np.ndim(nodes) or len(rows) == len(y):
                return formula(y, means, variances, nodes=int(level), **kw)
            own = y[rows], means[rows], variances[rows]
            parts.append((rows, formula(*own, nodes=int(level), **rows_of(kw, rows))))
        return merged(parts)

    def _by_values(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """E[log p] by quadrature of density values only, where the nodes resolve the density."""

        def log_p(rows: slice, *latents: Array) -> Array:
            return self.log_density(y[rows], *latents, **rows_of(kw, rows))

        def dtheta(rows: slice, *latents: Array) -> Arrays:
            return self.dlog_density_dtheta(y[rows], *latents, **rows_of(kw, rows))

        rule, extra = quadrature.rule_for(means.shape[1], nodes), len(self.parameter_keys)
        return by_values.expectation_by_values(log_p, dtheta, means, variances, rule, extra)

    def _formula(self, variances: Array) -> Callable[..., Averages]:
        """The function that computes E[log p] at variances (n, b), or covariances (n, b, b)."""
        if variances.ndim == 2:
            return self.expected_log_density
        return self.joint_expected_log_density if self.own_joint_expectation else self._quadrature

    def is_exact(self, variances: Array) -> bool:
        """Whether E[log p] at variances (n, b), or covariances (n, b, b), needs no nodes."""
        return self.exact_expectation and (variances.ndim == 2 or self.own_joint_expectation)

    def required_nodes(self, y: Array, means: Array, variances: Array, **kw: Value) -> Indices:
        """Number of quadrature nodes per dimension and row (n,) for an error of about 1e-6.

        They follow from `node_limits`, and are then among `levels.LEVELS`. A density without
        limits, of which nothing is known, gets the number in `USUAL` that trials show it needs; an
        exact expectation gets the fewest.
        """
        return self._levels_of(variances)(y, means, variances, kw)[0]

    def unmet(self, y: Array, means: Array, variances: Array, **kw: Value) -> Booleans:
        """Rows (n,) of booleans whose quadrature is not accurate at any number of nodes, by trying.

        The tolerance is 1e-6; for a density of which nothing is known 1e-4 on average over rows.
        """
        nodes, beyond = self._levels_of(variances)(y, means, variances, kw)
        trial, b = self._trial(y, means, variances, kw), means.shape[1]
        if self._nothing_known:
            open_: Indices = np.flatnonzero(nodes == UNRESOLVED[b])
            one, two = (trial(open_, k)[:, 0] for k in (USUAL[b][-1], UNRESOLVED[b]))
            error = np.nan_to_num(np.abs(one - two), nan=np.inf)
            if error.sum() > levels.ROUGHLY * len(y):
                beyond[open_] = error > levels.ROUGHLY
            return beyond
        rows = np.flatnonzero(beyond)
        if rows.size:
            beyond[rows] = levels.all_fail(trial, rows)
        return beyond

    @property
    def tries_nodes(self) -> bool:
        """Whether `required_nodes` tries several numbers of nodes on some rows, each in full."""
        return self._nothing_known or 0 < len(self.node_limits) < len(levels.LEVELS)

    @property
    def few_nodes(self) -> int | None:
        """Nodes per dimension of rough fits, if the right number is found by trying; else None."""
        return ROUGH if self._nothing_known else None

    @property
    def _nothing_known(self) -> bool:
        """Whether only a density of two to four latents is given: nodes are found by trying."""
        given = self.node_limits or self.exact_expectation or self.own_expectation
        return not given and len(self.latents) in USUAL

    def _levels_of(self, variances: Array) -> Callable[..., tuple[Indices, Booleans]]:
        """The choice of nodes for variances (n, b), or for covariances (n, b, b)."""
        return self._levels if variances.ndim == 2 else self._joint_levels

    def _levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """Numbers of nodes (n,) of independent latents, and rows where the last may not do.

        `node_limits` decide; nodes of rows beyond the last limit are tried if levels are left.
        """
        if not self.node_limits:
            return self._usual_levels(y, means, variances, kw)
        score = self.node_score(y, means, variances, **kw)
        return self._by_limits(score, y, means, variances, kw)

    def _joint_levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """Numbers of nodes (n,) of correlated latents, and rows where the last may not do.

        Node limits of a given `expected_log_density` do not hold for quadrature in its place.
        """
        if not self.node_limits or (self.own_expectation and not self.own_joint_expectation):
            return self._usual_levels(y, means, variances, kw)
        score = self.joint_node_score(y, means, variances, **kw)
        return self._by_limits(score, y, means, variances, kw)

    def _usual_levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """Numbers of nodes (n,) of a likelihood that has no node limits: at most the usual ones."""
        b, none = means.shape[1], np.zeros(len(means), dtype=bool)
        if self._nothing_known:
            trial = self._trial(y, means, variances, kw)
            nodes, served = levels.settled(trial, len(means), USUAL[b])
            return np.where(served, nodes, UNRESOLVED[b]), none
        usual = 12 if b == 3 else 20
        level = levels.LEVELS[0] if self.is_exact(variances) else usual
        return np.full(len(means), level), none

    def _by_limits(
        self, score: Array, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """Numbers of nodes (n,) by the scores of rows, and rows where the last may not do."""
        nodes, beyond = levels.choose(score, self.node_limits)
        if beyond.any() and self.tries_nodes:
            rows = np.flatnonzero(beyond)
            nodes[rows] = levels.tried(self._trial(y, means, variances, kw), rows)
            beyond = nodes == levels.LEVELS[-1]
        return nodes, beyond

    def _trial(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> Callable[[Indices, int], Array]:
        """The function `sums` of `levels.tried`: what two numbers of nodes must agree in."""

        def sums(rows: Indices, nodes: int) -> Array:
            """E[log p] and its slopes in the means at some rows, (len(rows), k)."""
            targets, own = y[rows], rows_of(kw, rows)
            formula = self._formula(variances)
            if self.has_form(variances):
                parts = formula(targets, means[rows], variances[rows], nodes=nodes, **own)
                return np.column_stack([parts[0], 0.1 * parts[1]])

            def log_p(block: slice, *latents: Array) -> Array:
                return self.log_density(targets[block], *latents, **rows_of(own, block))

            rule = quadrature.rule_for(means.shape[1], nodes)
            # Nodes are tried on the grid on which they will be used.
            own_grid = not self._nothing_known
            return by_values.trial_sums(
                log_p, means[rows], variances[rows], rule, reverse=not own_grid
            )

        return sums

    def node_score(self, y: Array, means: Array, variances: Array, **kw: Value) -> Array:
        """The score (n,) that decides on nodes by `node_limits`; here a row's largest variance."""
        return variances.max(axis=1)

    def joint_node_score(self, y: Array, means: Array, covariances: Array, **kw: Value) -> Array:
        """The score (n,) of covariances V (n, b, b) that decides on nodes by `node_limits`.

        Default: `node_score` of the variances v_j Σ_k |ρ_jk|, because along one axis of a rotated
        grid several latents move at once.
        """
        return self.node_score(y, means, quadrature.widened(covariances), **kw)
