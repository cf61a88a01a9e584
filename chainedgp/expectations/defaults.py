"""E[log p(y | f)] under Gaussian marginals from a log-density alone, and the choice of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from ..data.rows import rows_of
from ..data.types import Keywords, Value
from ..linalg import Array, Booleans, Indices
from . import quadrature

__all__ = ["Expected", "merged", "packed"]

Arrays = tuple[Array, ...]
Averages = tuple[Array, Array, Array, Array]


def packed(
    value: Array, dmeans: Arrays | Array, dvariances: Arrays | Array, dtheta: Sequence[Array] = ()
) -> Averages:
    """The four arrays of `expected_log_density`, from (n,) for each latent and parameter."""
    b, n, p = len(dmeans), value.size, len(dtheta)
    rows = np.empty((2 * b + p, n))
    for row, part in zip(rows, (*dmeans, *dvariances, *dtheta), strict=True):
        row[:] = part
    return value, rows[:b].T, rows[b : 2 * b].T, rows[2 * b :].T


def merged(parts: Sequence[tuple[Indices, Averages]]) -> Averages:
    """The averages of all rows from those of disjoint sets of rows (numbers, averages)."""
    (_, (first, dmeans, _, dtheta)), n = parts[0], sum(len(rows) for rows, _ in parts)
    b, p = dmeans.shape[1], dtheta.shape[1]
    value, columns = np.empty(n, dtype=first.dtype), np.empty((2 * b + p, n))
    for rows, (own, *rest) in parts:
        value[rows] = own
        columns[:, rows] = np.hstack(rest).T
    return value, columns[:b].T, columns[b : 2 * b].T, columns[2 * b :].T


class Expected:
    """Expectations of `log_density` under q, for a class that has it and its derivatives.

    exact_expectation: True if `expected_log_density` is closed and needs no nodes.
    quadrature_latent: the one latent that needs nodes, if the expectation is exact in all others.
    node_limits: the largest `node_score` of a row that each of `quadrature.LEVELS` serves to 1e-6;
        the nodes of rows beyond the last limit are found by trying.
    """

    exact_expectation: bool = False
    quadrature_latent: ClassVar[str | None] = None
    node_limits: ClassVar[tuple[float, ...]] = ()

    parameter_keys: tuple[str, ...]
    log_density: Callable[..., Array]
    dlog_density: Callable[..., Arrays]
    dlog_density_dtheta: Callable[..., Arrays]

    @property
    def own_expectation(self) -> bool:
        """Whether `expected_log_density` is given; else it is quadrature of the density."""
        return type(self).expected_log_density is not Expected.expected_log_density

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p(y | f)], f_j ~ N(m_j, v_j) (Saul et al. 2016, eq. 6), with its gradients.

        Default: quadrature.

        Parameters: y (n,), means and variances (n, b), nodes per dimension.
        Returns: value (n,), d/dmeans (n, b), d/dvariances (n, b), d/dθ (n, p).
        """
        return self._quadrature(y, means, variances, nodes=nodes, **kw)

    def _quadrature(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """The quadrature engine: `expected_log_density` from the density and its derivatives."""

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
        """`expected_log_density` with `nodes` an int or one number per row (n,).

        Rows with the same number are evaluated together.
        """
        least = int(np.min(nodes))
        if least == np.max(nodes):
            return self.expected_log_density(y, means, variances, nodes=least, **kw)
        parts, levels = [], np.unique(nodes)
        for level in levels:
            rows = np.flatnonzero(nodes == level)
            found = self.expected_log_density(
                y[rows], means[rows], variances[rows], nodes=int(level), **rows_of(kw, rows)
            )
            parts.append((rows, found))
        return merged(parts)

    def required_nodes(self, y: Array, means: Array, variances: Array, **kw: Value) -> Indices:
        """Nodes per dimension and row (n,), from `quadrature.LEVELS`, for an error of about 1e-6.

        They follow from `node_limits`. A density without limits, of which nothing is known, gets
        20, or 12 on the grid of three latents; an exact expectation gets the fewest.
        """
        return self._levels(y, means, variances, kw)[0]

    def unmet(self, y: Array, means: Array, variances: Array, **kw: Value) -> Booleans:
        """Rows (n,) of booleans whose tolerance no level of `required_nodes` meets, by trying."""
        beyond = self._levels(y, means, variances, kw)[1]
        rows = np.flatnonzero(beyond)
        if rows.size:
            beyond[rows] = quadrature.all_fail(self._trial(y, means, variances, kw), rows)
        return beyond

    @property
    def tries_nodes(self) -> bool:
        """Whether `required_nodes` tries several levels on some rows, each at its full cost."""
        return 0 < len(self.node_limits) < len(quadrature.LEVELS)

    def _levels(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> tuple[Indices, Booleans]:
        """Nodes (n,), and rows for which the last level may not do.

        `node_limits` decide; rows beyond the last limit are tried if levels are left.
        """
        if not self.node_limits:
            usual = 12 if means.shape[1] == 3 else 20
            level = quadrature.LEVELS[0] if self.exact_expectation else usual
            return np.full(len(means), level), np.zeros(len(means), dtype=bool)
        score = self.node_score(y, means, variances, **kw)
        nodes, beyond = quadrature.choose(score, self.node_limits)
        if beyond.any() and self.tries_nodes:
            rows = np.flatnonzero(beyond)
            nodes[rows] = quadrature.tried(self._trial(y, means, variances, kw), rows)
            beyond = nodes == quadrature.LEVELS[-1]
        return nodes, beyond

    def _trial(
        self, y: Array, means: Array, variances: Array, kw: Keywords
    ) -> Callable[[Array, int], Array]:
        """The `sums` for `quadrature.tried`: what must agree between two levels of nodes."""

        def sums(rows: Array, nodes: int) -> Array:
            """Values and their slopes in the means at some rows, (len(rows), k)."""
            targets, own = y[rows], rows_of(kw, rows)
            if self.own_expectation:
                parts = self.expected_log_density(
                    targets, means[rows], variances[rows], nodes=nodes, **own
                )
                return np.column_stack([parts[0], 0.1 * parts[1]])

            def log_p(block: slice, *latents: Array) -> Array:
                return self.log_density(targets[block], *latents, **rows_of(own, block))

            rule = quadrature.rule_for(means.shape[1], nodes)
            return quadrature.weighted_sums(log_p, means[rows], variances[rows], rule)

        return sums

    def node_score(self, y: Array, means: Array, variances: Array, **kw: Value) -> Array:
        """The score (n,) that `node_limits` bound. Default: the largest variance of the row."""
        return variances.max(axis=1)
