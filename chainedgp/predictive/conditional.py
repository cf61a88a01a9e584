"""Moments of y given the latents at many points f, where they are integrals over y.

Without formulas each of E[y | f] and var[y | f] takes hundreds of values of the density. They are
smooth functions of the latents: in a box of latents polynomials through the integrals at Chebyshev
nodes give them at all other points. Where some points show that a polynomial is off the box is cut
in two, and a box with few points, or without a smooth function, gets its integrals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from ..data.rows import rows_of
from ..data.types import Keywords
from ..expectations.quadrature import row_blocks
from ..likelihoods import Likelihood, from_density
from ..linalg import Array, Indices

Moments = Callable[[Array], tuple[Array, Array]]

FEWEST, MOST = 5, 17
"""Polynomials have so many Chebyshev nodes in each latent: more where they are rough."""
ROUGH = 0.1
"""They are in latents whose last coefficients are above this share of the largest such."""
WORTH = 8
"""A box has so many times more points than nodes, or its points get integrals."""
PROBES = 24
"""So many points of a box tell whether its polynomial is right."""
ERROR = 1e-6
"""Relative error of a conditional variance, and that of a mean in standard deviations of y."""
TOGETHER = 20
"""Polynomials are evaluated at so many times fewer points than a sum over latents has nodes."""
TABLE = 100
"""Integrals over y are taken of so many times fewer points than a sum over latents has nodes."""


def conditional_moments(
    likelihood: Likelihood, latents: tuple[Array, ...], kw: Keywords
) -> tuple[Array, Array]:
    """E[y | f] and var[y | f] at latents (K, N) each, (K, N), metadata being numbers or (N,)."""
    shape = np.broadcast_shapes(*(np.shape(f) for f in latents))
    if likelihood.has_moments:
        return _direct(likelihood, shape, latents, kw)
    points = np.stack([np.broadcast_to(f, shape).ravel() for f in latents])  # (b, K N)
    mean, variance = np.empty((2, points.shape[1]))
    for rows, own in _of_equal_metadata(shape[-1], kw):
        # The points of row i are i, i + N, …
        part = (rows + shape[-1] * np.arange(points.shape[1] // shape[-1])[:, None]).ravel()

        def moments(f: Array, own: Keywords = own) -> tuple[Array, Array]:
            return _integrals(likelihood, f, own)

        mean[part], variance[part] = _filled(moments, points[:, part])
    if type(likelihood).conditional_mean is not Likelihood.conditional_mean:
        mean = np.broadcast_to(likelihood.conditional_mean(*latents, **kw), shape)
    return mean.reshape(shape), variance.reshape(shape)


def _direct(
    likelihood: Likelihood, shape: tuple[int, ...], latents: tuple[Array, ...], kw: Keywords
) -> tuple[Array, Array]:
    """Both moments at each of the latents, as the likelihood has them."""
    mean = likelihood.conditional_mean(*latents, **kw)
    variance = likelihood.conditional_variance(*latents, **kw)
    return np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)


def _of_equal_metadata(n: int, kw: Keywords) -> list[tuple[Indices, Keywords]]:
    """Rows with the same metadata: their indices, and the metadata of one of them."""
    arrays = [np.broadcast_to(value, n) for value in kw.values() if np.ndim(value)]
    _, first, group = np.unique(
        np.stack([np.zeros(n), *arrays]), axis=1, return_index=True, return_inverse=True
    )
    order = np.argsort(group.ravel(), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])
    return [(rows, rows_of(kw, slice(i, i + 1))) for rows, i in zip(parts, first, strict=True)]


def _integrals(likelihood: Likelihood, points: Array, kw: Keywords) -> tuple[Array, Array]:
    """Both moments at points (b, P), (P,) each: integrals of the density over y."""
    mean, variance = np.empty((2, points.shape[1]))
    kinds = type(likelihood).conditional_mean, type(likelihood).conditional_variance
    alone = kinds == (Likelihood.conditional_mean, Likelihood.conditional_variance)
    for part in row_blocks(points.shape[1], TABLE):
        f = tuple(points[:, part])
        if alone:  # One table has both.
            mean[part], variance[part] = from_density.tabulate(likelihood, f, kw).moments()
        else:
            mean[part], variance[part] = _direct(likelihood, f[0].shape, f, kw)
    return mean, variance


def _filled(moments: Moments, points: Array) -> tuple[Array, Array]:
    """Both moments at points (b, P), (P,) each, by polynomials where these are right."""
    mean, variance = np.empty((2, points.shape[1]))
    todo = [(np.arange(points.shape[1]), np.full(len(points), FEWEST))]
    while todo:
        some, counts = todo.pop()
        own = points[:, some]
        box = _Box(own, counts)
        if len(some) < WORTH * box.size:
            mean[some], variance[some] = moments(own)
            continue
        at_nodes = moments(box.nodes)
        probes = own[:, _spread(own)]
        with np.errstate(all="ignore"):
            fitted = _Polynomials(box, *at_nodes)
            if fitted.agree(probes, *moments(probes)):
                mean[some], variance[some] = fitted(own)
                continue
            roughness = np.where(box.counts > 1, np.nan_to_num(fitted.roughness, nan=1.0), -1.0)
        more = np.where(roughness > ROUGH * roughness.max(), 2 * box.counts - 1, box.counts)
        if more.max() <= MOST and WORTH * np.prod(more) <= len(some):
            todo.append((some, more))
        else:
            order = np.argsort(own[np.argmax(roughness)], kind="stable")
            todo += [(some[half], box.counts) for half in np.array_split(order, 2)]
    return mean, variance


def _spread(points: Array) -> Indices:
    """Indices of some of the points (b, P): the outermost in each latent, and others."""
    among = np.linspace(0, points.shape[1] - 1, PROBES).astype(int)
    return np.concatenate([points.argmin(axis=1), points.argmax(axis=1), among])


class _Box:
    """The box around points (b, P), with Chebyshev nodes; one node in latents that do not vary."""

    def __init__(self, points: Array, counts: Indices) -> None:
        low, high = points.min(axis=1), points.max(axis=1)
        self.middle, half = 0.5 * (low + high), 0.5 * (high - low)
        flat = half <= 1e-12 * np.abs(self.middle)
        self.counts, self.half = np.where(flat, 1, counts), np.where(flat, 1.0, half)
        grid = np.meshgrid(*map(_chebyshev, self.counts), indexing="ij")
        unit = np.reshape(grid, (len(points), -1))
        self.nodes = self.middle[:, None] + self.half[:, None] * unit

    @property
    def size(self) -> int:
        """Number of nodes in a box of latents."""
        return self.nodes.shape[1]

    def bases(self, points: Array) -> list[Array]:
        """Chebyshev polynomials of each latent at points (b, P) of a box: (P, nodes) each."""
        x = np.clip((points - self.middle[:, None]) / self.half[:, None], -1.0, 1.0)
        return [chebvander(own, k - 1) for own, k in zip(x, self.counts, strict=True)]


def _chebyshev(count: int) -> Array:
    """The zeros of a Chebyshev polynomial, in (−1, 1)."""
    return np.cos(np.pi * (np.arange(count) + 0.5) / count)


class _Polynomials:
    """Polynomials for the mean, or its logarithm, and the logarithm of the variance in a box."""

    def __init__(self, box: _Box, mean: Array, variance: Array) -> None:
        self.box, self.by_log = box, bool((mean > 0.0).all())
        values = np.stack([np.log(mean) if self.by_log else mean, np.log(variance)])
        self.coefficients = values.reshape(2, *box.counts)
        for axis, k in enumerate(box.counts, start=1):
            transform = chebvander(_chebyshev(k), k - 1).T * (2.0 / k)
            transform[0] *= 0.5
            moved = np.tensordot(transform, self.coefficients, axes=(1, axis))
            self.coefficients = np.moveaxis(moved, 0, axis)

    @property
    def roughness(self) -> Array:
        """Size of the last two coefficients in each latent, (b,); they are nan with the moments."""
        sizes = np.abs(self.coefficients).max(axis=0)
        return np.array([np.moveaxis(sizes, j, 0)[-2:].max() for j in range(sizes.ndim)])

    def __call__(self, points: Array) -> tuple[Array, Array]:
        """Both moments at points (b, P), (P,) each."""
        values = np.empty((2, points.shape[1]))
        for part in row_blocks(points.shape[1], TOGETHER):
            first, *others = self.box.bases(points[:, part])
            moved = np.tensordot(first, self.coefficients, axes=(1, 1))  # (P, 2, …)
            for basis in others:
                moved = np.einsum("pck...,pk->pc...", moved, basis)
            values[:, part] = moved.T
        return np.exp(values[0]) if self.by_log else values[0], np.exp(values[1])

    def agree(self, points: Array, mean: Array, variance: Array) -> bool:
        """Whether both moments at points (b, P) are right."""
        own_mean, own_variance = self(points)
        close = np.abs(own_mean - mean) <= ERROR * np.sqrt(variance) + 1e-12 * np.abs(mean)
        return bool((close & (np.abs(own_variance - variance) <= ERROR * variance)).all())
