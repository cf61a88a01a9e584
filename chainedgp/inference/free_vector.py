"""The free vector: free hyperparameters as one unconstrained, well-scaled vector for optimisers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from paramz import Param
from paramz.transformations import Exponent, Logexp, Transformation, __fixed__

from ..kernels import Kernel
from ..linalg import Array
from ..parameters.roles import Role
from .starts import input_spread
from .theta_and_q import Parts, leaves_below

# Logarithms stay within ±300: e^300 is as good as infinite, and still a number.
FARTHEST = 300.0
STEP = 1e-4  # Slopes of log-volumes are central differences over steps of this size.


@dataclass(frozen=True)
class _FreeEntries:
    """Free entries of one leaf and their coordinates in the free vector, in units of `scale`.

    entries : flat indices into the leaf. scale : the unit of each entry, or of its logarithm.
    """

    leaf: Param
    entries: np.ndarray
    scale: Array

    def coordinates(self, values: Array) -> Array:
        """Coordinates x in the free vector from the values of the entries."""
        return values / self.scale

    def values(self, x: Array) -> Array:
        """Values of the entries from their coordinates x in the free vector."""
        return x * self.scale

    def slopes(self, values: Array, gradient: Array) -> Array:
        """Gradient ∂L/∂x in the free vector's coordinates from the gradient in the values."""
        return gradient * self.scale

    def log_volume(self, values: Array) -> tuple[Array | float, Array | float]:
        """log |∂θ/∂x| of the entries, up to a constant, and its slopes in x."""
        return 0.0, 0.0

    def units(self) -> Array | float:
        """The step in x for a factor of e, or 1 under other constraints; 0 for either sign."""
        return 0.0


class _FreeLogarithms(_FreeEntries):
    """Positive entries in the free vector: x is the logarithm, in units of `scale`."""

    def coordinates(self, values: Array) -> Array:
        return np.log(values) / self.scale

    def values(self, x: Array) -> Array:
        return np.exp(np.clip(x * self.scale, -FARTHEST, FARTHEST))

    def slopes(self, values: Array, gradient: Array) -> Array:
        return gradient * values * self.scale

    def log_volume(self, values: Array) -> tuple[Array | float, Array | float]:
        return np.log(values), self.scale

    def units(self) -> Array | float:
        return 1.0 / self.scale


@dataclass(frozen=True)
class _FreeConstrained(_FreeEntries):
    """Entries in the free vector under any other constraint, by paramz's own transformation."""

    constraint: Transformation

    def coordinates(self, values: Array) -> Array:
        return np.asarray(self.constraint.finv(values))

    def values(self, x: Array) -> Array:
        return np.asarray(self.constraint.f(x))

    def slopes(self, values: Array, gradient: Array) -> Array:
        return np.asarray(self.constraint.gradfactor(values, gradient))

    def log_volume(self, values: Array) -> tuple[Array | float, Array | float]:
        def at(x: Array) -> Array:
            moved = self.values(x)
            return np.log(np.abs(self.slopes(moved, np.ones(moved.shape))))

        x = self.coordinates(values)
        return at(x), (at(x + STEP) - at(x - STEP)) / (2.0 * STEP)

    def units(self) -> Array | float:
        return 1.0


class FreeVector:
    """The free vector θ ↔ x: logarithms of positive parameters, others in units of their scale.

    Optimising the logarithm makes steps relative, so data on any scale look alike; Z is measured
    in standard deviations of X and a mean in the scale on which its latent varies. The logarithm of
    a period has a scale too: over many periods a small change of one shifts the last. A bias beside
    slopes stands for the level at the centre of X: where X is far from 0, as years are, a slope
    would move all of the line. Fixed entries are left out; any other constraint goes through its
    own transformation. Leaves of q belong to the vector only with `with_q`.

    parts : the parts of a model whose leaves it reads and writes.
    X : (n, D) rows, by whose spread inducing inputs, slopes and periods are measured.
    latent_scales : (b,) scales on which the latents vary; None takes prior standard deviations. A
        given kernel may have any variance: the data tell how far a mean has to go.
    held : leaves that stay as they are, as if they were fixed.
    """

    def __init__(
        self,
        parts: Parts,
        X: Array,
        latent_scales: Sequence[float] | Array | None = None,
        *,
        with_q: bool = False,
        held: Collection[Param] = (),
    ) -> None:
        self.parts = parts
        # About a hundred rows are enough to measure scales.
        rows = np.asarray(X[:: max(1, X.shape[0] // 100)], dtype=float)
        scales = _scales(parts, X, rows, latent_scales)
        of_q = () if with_q else (*parts.q_mu, *parts.q_root)
        left_out = {id(leaf) for leaf in (*of_q, *held)}
        self.blocks = [
            block
            for leaf in parts.leaves
            if id(leaf) not in left_out
            for block in _blocks(
                leaf, np.broadcast_to(scales.get(id(leaf), 1.0), leaf.shape).ravel()
            )
        ]
        ends = np.cumsum([0, *(block.entries.size for block in self.blocks)])
        self.size = int(ends[-1])
        self._slices = [slice(i, j) for i, j in pairwise(ends)]
        self._levels = self._find_levels(rows.mean(0))

    def _find_levels(self, centre: Array) -> list[tuple[slice, slice, Array]]:
        """Find bias and weights of free linear means in x, and the centre of X in units of x."""
        where = {
            id(block.leaf): (block, place)
            for block, place in zip(self.blocks, self._slices, strict=True)
            if type(block) is _FreeEntries and block.entries.size == block.leaf.size
        }
        levels = []
        for mean in self.parts.means:
            leaves = [mean.leaves_with(role) for role in (Role.LEVEL, Role.SLOPE)]
            pair = [where[id(leaf)] for found in leaves for leaf in found if id(leaf) in where]
            if [len(found) for found in leaves] == [1, 1] and len(pair) == 2:
                (bias, i), (weights, j) = pair
                levels.append((i, j, centre * weights.scale / bias.scale))
        return levels

    def variances_of(self, kernels: Iterable[Kernel]) -> np.ndarray:
        """Which coordinates are logarithms of variances of some kernels, (size,) of bool."""
        which = np.zeros(self.size, dtype=bool)
        leaves = {id(leaf) for kernel in kernels for leaf in kernel.leaves_with(Role.VARIANCE)}
        for block, part in self._by_block(which):
            part[:] = isinstance(block, _FreeLogarithms) and id(block.leaf) in leaves
        return which

    def units_of(self, kernels: Iterable[Kernel]) -> Array:
        """Steps (size,) in x: for a factor e in positive kernel parameters, 1 in bounded ones."""
        units = np.zeros(self.size)
        leaves = {id(leaf) for kernel in kernels for leaf in leaves_below(kernel)}
        for block, part in self._by_block(units):
            if id(block.leaf) in leaves:
                part[:] = block.units()
        return units

    def with_values(self, x: Array, leaf: Param, values: Array | float) -> Array:
        """The vector x with other values of one leaf's free positive entries."""
        x, values = x.copy(), np.broadcast_to(values, leaf.shape).ravel()
        for block, part in self._by_block(x):
            if block.leaf is leaf and isinstance(block, _FreeLogarithms):
                part[:] = block.coordinates(values[block.entries])
        return x

    def places_of(self, leaf: Param) -> np.ndarray:
        """Indices of the coordinates of the free entries of a leaf."""
        found = [part for b, part in self._by_block(np.arange(self.size)) if b.leaf is leaf]
        return np.concatenate(found) if found else np.empty(0, dtype=int)

    def read(self) -> Array:
        """Read the free vector x from the current parameters."""
        x = np.empty(self.size)
        for block, part in self._by_block(x):
            part[:] = block.coordinates(block.leaf.values.flat[block.entries])
        for bias, weights, centre in self._levels:
            x[bias] += x[weights] @ centre
        return x

    def write(self, x: Array) -> None:
        """Set the parameters from x, leaf by leaf (a leaf write is always consistent)."""
        new: dict[int, tuple[Param, Array]] = {}
        x = np.array(x)
        for bias, weights, centre in self._levels:
            x[bias] -= x[weights] @ centre
        for block, part in self._by_block(x):
            leaf = block.leaf
            _, values = new.setdefault(id(leaf), (leaf, np.array(leaf.values).ravel()))
            values[block.entries] = block.values(part)
        for leaf, values in new.values():
            leaf[:] = values.reshape(leaf.shape)

    def gradient(self) -> Array:
        """Gradient ∂L/∂x of the free vector from the gradients that the leaves hold."""
        g = np.empty(self.size)
        for block, part in self._by_block(g):
            d = np.asarray(block.leaf.gradient).ravel()[block.entries]
            part[:] = block.slopes(block.leaf.values.flat[block.entries], d)
        for bias, weights, centre in self._levels:
            g[weights] -= g[bias] * centre
        return g

    def reach(self) -> Array:
        """How far each coordinate may go without data: a factor of e², or twice itself.

        (size,) distances from the current parameters, for coordinates that nothing holds. Under a
        constraint that is not a logarithm's, such as x > 1, a coordinate may be as large as its
        parameter.
        """
        reach = np.full(self.size, 2.0)
        for block, part in self._by_block(reach):
            if isinstance(block, _FreeLogarithms):
                part /= block.scale
            elif isinstance(block, _FreeConstrained):
                x = block.coordinates(block.leaf.values.flat[block.entries])
                part *= np.maximum(1.0, np.abs(x))
        return reach

    def constrained_leaves(self) -> list[Param]:
        """Leaves with free entries that are constrained, such as positive ones."""
        return list(
            {id(b.leaf): b.leaf for b in self.blocks if type(b) is not _FreeEntries}.values()
        )

    def log_jacobian(self, leaves: Collection[int]) -> tuple[float, Array]:
        """log |∂θ/∂x| of the leaves with these ids, up to a constant, and its slopes in x."""
        total, slopes = 0.0, np.zeros(self.size)
        for block, part in self._by_block(slopes):
            if id(block.leaf) in leaves:
                value, part[:] = block.log_volume(block.leaf.values.flat[block.entries])
                total += float(np.sum(value))
        return total, slopes

    def slopes(self) -> Array:
        """The gradient in x, but per unit of a logarithm for logarithms, whatever their scale."""
        g = self.gradient()
        for block, part in self._by_block(g):
            if isinstance(block, _FreeLogarithms):
                part /= block.scale
        return g

    @property
    def groups(self) -> list[np.ndarray]:
        """Indices of the coordinates of each kind: hyperparameters, inducing inputs, q."""
        kinds = np.zeros(self.size, dtype=int)
        of_q = (*self.parts.q_mu, *self.parts.q_root)
        for kind, some in enumerate((self.parts.Z, of_q), start=1):
            leaves = {id(leaf) for leaf in some}
            for block, part in self._by_block(kinds):
                if id(block.leaf) in leaves:
                    part[:] = kind
        return [np.flatnonzero(kinds == kind) for kind in range(3)]

    @property
    def inducing(self) -> np.ndarray:
        """Indices of the coordinates of the inducing inputs."""
        return self.groups[1]

    def _by_block(self, x: np.ndarray) -> list[tuple[_FreeEntries, np.ndarray]]:
        """Every block of the free vector with its part of a vector, as a view."""
        return [(block, x[i]) for block, i in zip(self.blocks, self._slices, strict=True)]


def _blocks(leaf: Param, scale: Array) -> list[_FreeEntries]:
    """The free entries of a leaf as blocks of the free vector, by their constraints."""
    free, plain = np.ones(leaf.size, dtype=bool), np.ones(leaf.size, dtype=bool)
    for constraint, entries in leaf.constraints.items():
        free[entries] &= constraint != __fixed__
    blocks: list[_FreeEntries] = []
    for constraint, entries in leaf.constraints.items():
        plain[entries] = False
        kept = entries[free[entries]]
        if not kept.size:
            continue
        # Only these classes themselves qualify: a subclass may have another domain.
        if type(constraint) in (Logexp, Exponent):
            blocks.append(_FreeLogarithms(leaf, kept, scale[kept]))
        else:
            blocks.append(_FreeConstrained(leaf, kept, scale[kept], constraint))
    entries = np.flatnonzero(plain)
    return [*blocks, _FreeEntries(leaf, entries, scale[entries])] if entries.size else blocks


def _scales(
    parts: Parts, X: Array, rows: Array, units: Sequence[float] | Array | None
) -> dict[int, Array | float]:
    """Natural units of leaves, or of their logarithms, for the free vector, by id; others are 1."""
    spread = input_spread(X)
    scales: dict[int, Array | float] = {id(leaf): spread for leaf in parts.Z}
    if units is None:
        units = [float(np.sqrt(np.mean(kernel.Kdiag(rows)))) for kernel in parts.kernels]
    for unit, mean in zip(units, parts.means, strict=True):
        unit = unit if np.isfinite(unit) and unit > 0 else 1.0
        slopes = {id(leaf) for leaf in mean.leaves_with(Role.SLOPE)}
        for leaf in leaves_below(mean):
            scales[id(leaf)] = unit / spread if id(leaf) in slopes else unit
    for part in (part for kernel in parts.kernels for part in kernel.simple_parts):
        for leaf in part.leaves_with(Role.PERIOD):
            scales[id(leaf)] = np.minimum(1.0, leaf.values / spread[part.columns].max())
    return scales
