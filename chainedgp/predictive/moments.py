"""Mean and variance of a predictive mixture: E[m], E[s], var[m] of m = E[y | f], s = var[y | f].

Few Gauss–Hermite nodes are tried first where more are costly. Rows that they do not serve have
wide latents: where m and s grow like exponentials of these, most of a second moment lies standard
deviations out in q. Up to three latents a lattice is widened until what lies outermost adds
nothing. From four on nodes are scattered around several centres, 0 and those that second moments
come from, and weighted as draws from the mixture of all (importance sampling by the balance
heuristic, Veach & Guibas 1995); two halves of them tell the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from scipy.special import factorial

from ..expectations import quadrature
from ..linalg import Array, Indices
from .conditional import conditional_moments
from .mixtures import GaussianLatents
from .nodes import lattice

TOLERANCE = 0.01
"""A warning tells of moments whose relative error may be above this."""
REACH = (7.5, 12.0, 24.0)
"""A lattice of latents has these radii, in standard deviations of q, one after the other until its
outer shell adds nothing to a moment."""
SHELL, NOTHING = 0.8, 1e-7
"""The outer shell begins at this share of the radius; NOTHING is the share of a variance that
counts as nothing."""
FEW = {1: 10, 2: 10, 3: 12, 4: 8}
"""By the number of latents, so many nodes per latent are tried first, if there are three latents or
more or if moments given the latents are integrals over y."""
SMOOTH = {1: 0.01, 2: 0.01, 3: 0.01, 4: 0.05}
"""FEW nodes suffice if the last two Hermite polynomials on them hold at most this share of a
variance. The rule is exact to twice their degree: with up to three latents its error is then far
below TOLERANCE, and with four below it, as that of scattered nodes is."""
NEAR, HALVES = 0.5, 1e-3
"""Nodes around 0 suffice if no second moment is centred beyond NEAR sds, and if two halves of the
nodes agree to the relative difference HALVES."""
SCATTERED, SCATTERED_NUMERIC = 1024, 256
"""Each centre has so many nodes: more if moments given the latents are formulas, not integrals."""
SCAN, MIDDLE = np.linspace(-REACH[-1], REACH[-1], 65), 32
"""Along one latent, in its standard deviations, the second moment is searched for its centre at
these points; SCAN[MIDDLE] = 0 parts the two sides, which may have a centre each."""
LARGER = 32
"""Blocks of rows are so many times larger if moments given the latents are interpolated."""
SWEEPS = 2
"""Every latent is searched for a centre of second moments so many times."""


def node_moments(event: GaussianLatents, numeric: bool) -> tuple[Array, Array]:
    """Predictive mean, noise, latent variance (3, n), and rows (n,) that may be off by TOLERANCE.

    numeric: the moments given the latents are integrals over y, hundreds of values for each node.
    """
    n = event.means.shape[1]
    moments, rough = np.empty((3, n)), np.zeros(n, dtype=bool)
    todo: Indices = np.arange(n)
    if numeric or event.dim > 2:
        todo = _first(event, numeric, moments)
    if event.dim > 3 or (numeric and event.dim == 3):
        size = SCATTERED_NUMERIC if numeric else SCATTERED
        for rows in _blocks(todo, size * (6 * event.dim + 1), numeric):
            moments[:, rows], rough[rows] = _around_centres(event, rows, size)
        return moments, rough
    for reach in REACH:
        grid = lattice(event.dim, int(event.dim == 1), reach)
        log_phi = -0.5 * np.sum(grid.x**2, axis=0) + grid.log_volume
        weights = np.exp(log_phi - np.max(log_phi))
        weights /= weights.sum()
        wide = np.zeros(n, dtype=bool)
        for rows in _blocks(todo, grid.size, numeric):
            moments[:, rows], parts = _sums(event, rows, grid.x[:, :, None], weights[:, None])
            wide[rows] = _outer(grid.x, weights, moments[:, rows], parts)
        todo = todo[wide[todo]]
        if not len(todo):
            return moments, rough
    moments[:, todo] = np.inf  # The shell still matters at 24 sd.
    return moments, rough


def _blocks(rows: Indices, nodes: int, numeric: bool) -> list[Indices]:
    """Pieces of rows such that nodes × rows is bounded; larger if few nodes get integrals."""
    nodes = nodes // LARGER + 1 if numeric else nodes
    return [rows[part] for part in quadrature.row_blocks(len(rows), nodes)]


def _sums(event: GaussianLatents, rows: Indices, z: Array, weights: Array) -> tuple[Array, Any]:
    """Predictive moments (3, N) summed over nodes, and what is summed, (K, N) each.

    These are mean, noise and squared deviation of the mean at the nodes.

    z: (dim, K, 1 or N); weights: (K, 1 or N), of sum 1.
    """
    mean_at, noise = _conditional(event, rows, z)
    with np.errstate(all="ignore"):
        mean = np.sum(weights * mean_at, axis=0)
        centred = (mean_at - mean) ** 2
        moments = np.stack(
            [mean, np.sum(weights * noise, axis=0), np.sum(weights * centred, axis=0)]
        )
    moments[:, ~np.isfinite(mean)] = np.inf  # NaN is an infinite mean times 0.
    moments[1, np.isnan(moments[1])] = np.inf
    return moments, (mean_at, noise, centred)


def _conditional(event: GaussianLatents, rows: Indices, z: Array) -> tuple[Array, Array]:
    """Moments E[y | f] and var[y | f] at nodes of the latents, (K, N) each."""
    _, latents = event.nodes(rows, z)
    with np.errstate(all="ignore"):
        return conditional_moments(event.likelihood, latents, event.keywords(rows))


def _outer(x: Array, weights: Array, moments: Array, parts: Any) -> Array:
    """Whether nodes far out matter for a predictive moment (N,); not where moments are infinite."""
    radius = np.sqrt(np.sum(x * x, axis=0))
    outer = np.where(radius > SHELL * radius.max(), weights, 0.0)
    with np.errstate(all="ignore"):
        noise, centred = (np.einsum("k,kn->n", outer, part) for part in parts[1:])
        wide = (noise > NOTHING * moments[1]) | (centred > NOTHING * moments[2])
    return wide & np.isfinite(moments[0]) & np.isfinite(moments[1])


def _first(event: GaussianLatents, numeric: bool, moments: Array) -> Indices:
    """Predictive moments on a few nodes around 0, written to (3, n), and rows that need more."""
    every, dim = np.arange(moments.shape[1]), event.dim
    if dim in FEW:
        rule = quadrature.product_rule(dim, FEW[dim])
    else:
        rule = quadrature.sobol_rule(dim, 1000 if numeric else 2**12)
    x = np.stack([np.broadcast_to(c, rule.weights.shape).ravel() for c in rule.x])
    weights, more = rule.weights.ravel(), np.zeros(len(every), dtype=bool)
    for rows in _blocks(every, rule.size, numeric):
        moments[:, rows], parts = _sums(event, rows, x[:, :, None], weights[:, None])
        if dim in FEW:
            more[rows] = _last_polynomials(x, weights, FEW[dim], parts[1:]) > SMOOTH[dim]
        else:
            far = np.abs(_starts(event, rows)).max(axis=(0, 1)) > NEAR
            more[rows] = far | (_halves([parts[1] + parts[2]], weights[:, None]) > HALVES)
    return every[more & np.isfinite(moments[0]) & np.isfinite(moments[1])]


def _last_polynomials(x: Array, weights: Array, few: int, parts: Any) -> Array:
    """Share of a predictive variance in the last two Hermite polynomials of any latent, (N,).

    few : the number of nodes per latent.
    """
    degrees = [few - 2, few - 1]
    largest = np.zeros(parts[0].shape[1])
    with np.errstate(all="ignore"):
        whole = weights @ (parts[0] + parts[1])
        for column in x:
            last = hermevander(column, few - 1)[:, degrees] / np.sqrt(factorial(degrees))
            for part in parts:
                share = np.abs((last * weights[:, None]).T @ part) / whole
                largest = np.fmax(largest, share.max(axis=0))
    return largest


def _halves(sizes: Sequence[Array], weights: Array) -> Array:
    """The largest relative difference between two halves of the nodes in a moment's sum, (N,).

    sizes: what is summed over the nodes, (K, N) each and none negative; weights: (K, 1 or N).
    """
    largest = np.zeros(sizes[0].shape[1])
    with np.errstate(all="ignore"):
        for size in sizes:
            one, two = (np.sum((weights * size)[k::2], axis=0) for k in (0, 1))
            largest = np.fmax(largest, np.abs(one - two) / (one + two))
    return largest


def _peaks(event: GaussianLatents, rows: Indices, z: Array, j: int) -> Array:
    """Where a predictive second moment comes from along latent j through z, below 0 and above.

    z is (dim, N).

    Returns (3, N): both points and the higher of them; inf where it is beyond the scan.
    """
    moved = np.repeat(z[:, None], SCAN.size, axis=1)  # (dim, K, N)
    moved[j] = SCAN[:, None]
    mean, noise = _conditional(event, rows, moved)
    at_0 = _conditional(event, rows, np.zeros((event.dim, 1, 1)))[0]
    with np.errstate(all="ignore"):
        size = np.log(noise + (mean - at_0) ** 2) - 0.5 * SCAN[:, None] ** 2
    size = np.where(np.isnan(size), -np.inf, size)
    parts = (slice(0, MIDDLE + 1), slice(MIDDLE, None), slice(0, None))
    best = np.stack([part.start + np.argmax(size[part], axis=0) for part in parts])
    highest = np.take_along_axis(size, best, 0)
    endless = np.isin(best, (0, SCAN.size - 1)) | np.isposinf(highest)
    return np.where(np.isneginf(highest), 0.0, np.where(endless, np.inf, SCAN[best]))


def _starts(event: GaussianLatents, rows: Indices) -> Array:
    """Where second moments come from along every latent through 0, (dim, 2, N)."""
    zero = np.zeros((event.dim, len(rows)))
    return np.stack([_peaks(event, rows, zero, j)[:2] for j in range(event.dim)])


def _centres(event: GaussianLatents, rows: Indices) -> Array:
    """Points that predictive second moments come from, along latents and uphill: (dim, k, N)."""
    along, dim, n = _starts(event, rows), event.dim, len(rows)
    first = np.zeros((dim, 2 * dim, n))
    for j in range(dim):
        first[j, 2 * j : 2 * j + 2] = along[j]
    z = first.reshape(dim, -1).copy()
    every = np.tile(rows, 2 * dim)
    for j in [*range(dim)] * SWEEPS:
        z[j] = _peaks(event, every, np.where(np.isinf(z), 0.0, z), j)[2]
    return np.concatenate([first, z.reshape(first.shape)], axis=1)


def _around_centres(event: GaussianLatents, rows: Indices, size: int) -> tuple[Array, Array]:
    """Predictive moments (3, N) from nodes around 0, around the centres, and halfway.

    Means come from halfway. Returned too are rows (N,) whose error may be over TOLERANCE.
    """
    peaks, dim = _centres(event, rows), event.dim
    endless = np.isinf(peaks).any(axis=(0, 1))
    peaks = np.where(np.isinf(peaks), 0.0, peaks)
    halfway = 0.5 * peaks[:, 2 * dim :]
    centres = np.concatenate([peaks, halfway, np.zeros((dim, 1, len(rows)))], axis=1)
    x = np.stack([column[:, 0] for column in quadrature.sobol_rule(dim, size).x])
    z = x[:, :, None, None] + centres[:, None]  # (dim, size, centres, N)
    half = np.broadcast_to(np.arange(x.shape[1])[:, None] % 2, z.shape[1:3]).ravel()
    order = np.argsort(half, kind="stable").reshape(2, -1).T.ravel()  # Halves take turns.
    z = z.reshape(dim, -1, len(rows))[:, order]
    log_q = np.full(z.shape[1:], -np.inf)
    for c in centres.transpose(1, 0, 2):
        np.logaddexp(log_q, -0.5 * np.sum((z - c[:, None]) ** 2, axis=0), out=log_q)
    weights = np.exp(-0.5 * np.sum(z * z, axis=0) - log_q)
    weights /= weights.sum(axis=0)
    moments, (mean_at, noise, centred) = _sums(event, rows, z, weights)
    moments[:, endless] = np.inf
    rough = _halves([np.abs(mean_at), noise + centred], weights) > TOLERANCE
    return moments, rough & np.isfinite(moments[1])
