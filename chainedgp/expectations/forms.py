"""Closed and reduced forms of E[log p(y | f)], each for independent and for correlated latents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np

from ..data.types import Value
from ..linalg import Array
from .defaults import Averages, Expected, packed


class Latents(NamedTuple):
    """Moments of latents for a form: means and variances (b, n), covariances (b, b, n) or None."""

    means: Array
    variances: Array
    covariances: Array | None

    def covariance(self, j: int, k: int) -> Array | float:
        """Covariance of latents j and k in a form, (n,), or 0 if latents are independent."""
        return 0.0 if self.covariances is None else self.covariances[j, k]


class Form(NamedTuple):
    """A closed or reduced form: E[log p] of n rows with its derivatives, (n,) each.

    dmeans, dvariances and dtheta have one array for each latent or parameter, dcovariances for each
    pair (0, 1), (0, 2), (1, 2), …: E[∂_j ∂_k log p], not used if latents are independent.
    """

    value: Array
    dmeans: Sequence[Array] | Array
    dvariances: Sequence[Array] | Array
    dcovariances: Sequence[Array] | Array = ()
    dtheta: Sequence[Array] = ()


class OneForm(Expected):
    """A likelihood with one form `_form` of E[log p], for independent and correlated latents."""

    _form: ClassVar[Callable[..., Form]]
    """The form (y, latents, nodes, **kw) → `Form`: E[log p] at these moments of the latents."""

    def expected_log_density(
        self, y: Array, means: Array, variances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p(y | f)], f_j ~ N(m_j, v_j), by the form of the class; see `Likelihood`."""
        return self._averages(y, means, variances, nodes=nodes, **kw)

    def joint_expected_log_density(
        self, y: Array, means: Array, covariances: Array, *, nodes: int = 20, **kw: Value
    ) -> Averages:
        """E[log p(y | f)], f ~ N(m, V), by the form of the class; see `Likelihood`."""
        if means.shape[1] == 1:
            return super().joint_expected_log_density(y, means, covariances, nodes=nodes, **kw)
        return self._averages(y, means, covariances, nodes=nodes, **kw)

    def _averages(
        self, y: Array, means: Array, variances: Array, *, nodes: int, **kw: Value
    ) -> Averages:
        """The form of E[log p] with rows first, at variances (n, b) or covariances (n, b, b)."""
        if variances.ndim == 2:
            form = self._form(y, Latents(means.T, variances.T, None), nodes, **kw)
            return packed(form.value, form.dmeans, form.dvariances, form.dtheta)
        V = variances.transpose(1, 2, 0)
        form = self._form(y, Latents(means.T, np.einsum("jjn->jn", V), V), nodes, **kw)
        value, dmeans, _, dtheta = packed(form.value, form.dmeans, form.dmeans, form.dtheta)
        G = np.empty(V.shape)
        for j, slope in enumerate(form.dvariances):
            G[j, j] = slope
        pairs = combinations(range(len(V)), 2)
        for (j, k), slope in zip(pairs, form.dcovariances, strict=True):
            G[j, k] = G[k, j] = 0.5 * slope  # V_jk and V_kj move together
        return value, dmeans, G.transpose(2, 0, 1), dtheta
