"""The free hyperparameters of a model as one unconstrained, well-scaled vector for optimisers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from paramz.transformations import Exponent, Logexp, __fixed__

from ..linalg import Array
from ..parameters.roles import Role
from .starts import input_spread

__all__ = ["FreeVector"]


FARTHEST = 300.0  # of a logarithm: e^300 is as good as infinite, and still a number


@dataclass(frozen=True)
class _Block:
    """Free entries of one leaf under one transformation: None (scaled), "log", or paramz's own."""

    leaf: Any
    entries: Any  # flat indices into the leaf
    transform: Any
    scale: Array


class FreeVector:
    """θ ↔ x: logarithms of positive parameters, others in units of their natural scale.

    Optimising the logarithm makes steps relative, so data on any scale look alike; Z is measured
    in standard deviations of X and a mean in the scale on which its latent varies. The logarithm of
    a period has a scale too: over many periods a small change of one shifts the last. A bias beside
    slopes stands for the level at the centre of X: where X is far from 0, as years are, a slope
    would move all of the line. Fixed entries are left out; any other constraint goes through its
    own transformation. Leaves of q belong to the vector only with `with_q`.
    """

    def __init__(self, model: Any, *, with_q: bool = False) -> None:
        self.model = model
        scales = _scales(model)
        self.blocks: list[_Block] = []
        q_parts = [getattr(model, name, None) for name in ("q_mu", "q_sqrt")]
        q_leaves = [id(leaf) for part in q_parts for leaf in _leaves(part)]
        for leaf in model.flattened_parameters:
            if id(leaf) in q_leaves and not with_q:
                continue
            scale = np.broadcast_to(scales.get(id(leaf), 1.0), leaf.shape).ravel()
            self._add(leaf, scale)
        sizes = [block.entries.size for block in self.blocks]
        self._ends = np.cumsum([0, *sizes])
        self.size = int(self._ends[-1])
        self._levels = self._find_levels()

    def _find_levels(self) -> list[tuple[Array, Array, Array]]:
        """Of free lines: where x has bias and weights, and the centre of X in units of x."""
        indices: Any = np.arange(self.size)
        where = {
            id(block.leaf): (block, i)
            for block, i in self._parts(indices)
            if block.transform is None and block.entries.size == block.leaf.size
        }
        rows, levels = _some_rows(self.model), []
        for mean in self.model.mean_functions:
            leaves = [mean.leaves_with(role) for role in (Role.LEVEL, Role.SLOPE)]
            pair = [where[id(leaf)] for found in leaves for leaf in found if id(leaf) in where]
            if [len(found) for found in leaves] == [1, 1] and len(pair) == 2:
                (bias, i), (weights, j) = pair
                levels.append((i, j, rows.mean(0) * weights.scale / bias.scale))
        return levels

    def variances_of(self, kernels: Iterable[Any]) -> Array:
        """Which coordinates are logarithms of variances of some kernels, (size,) of bool."""
        which = np.zeros(self.size, dtype=bool)
        leaves = {id(leaf) for kernel in kernels for leaf in kernel.leaves_with(Role.VARIANCE)}
        for block, part in self._parts(which):
            part[:] = block.transform == "log" and id(block.leaf) in leaves
        return which

    def units_of(self, kernels: Iterable[Any]) -> Array:
        """A step e or 1 of every positive or bounded parameter of some kernels, (size,), else 0."""
        units = np.zeros(self.size)
        leaves = {id(leaf) for kernel in kernels for leaf in _leaves(kernel)}
        for block, part in self._parts(units):
            if id(block.leaf) in leaves and block.transform is not None:
                part[:] = 1.0 / block.scale if block.transform == "log" else 1.0
        return units

    def _add(self, leaf: Any, scale: Array) -> None:
        free = np.ones(leaf.size, dtype=bool)
        transforms = []
        for constraint, entries in leaf.constraints.items():
            if constraint == __fixed__:
                free[entries] = False
            else:
                transforms.append((constraint, entries))
        plain = free.copy()
        for constraint, entries in transforms:
            kept = entries[free[entries]]
            plain[entries] = False
            # exactly Logexp: a subclass may have another domain
            log = type(constraint) in (Logexp, Exponent)
            if kept.size:
                self.blocks.append(_Block(leaf, kept, "log" if log else constraint, scale[kept]))
        entries = np.flatnonzero(plain)
        if entries.size:
            self.blocks.append(_Block(leaf, entries, None, scale[entries]))

    def read(self) -> Array:
        """x at the model's current parameters."""
        x = np.empty(self.size)
        for block, part in self._parts(x):
            values = block.leaf.values.flat[block.entries]
            if block.transform is None:
                part[:] = values / block.scale
            elif block.transform == "log":
                part[:] = np.log(values) / block.scale
            else:
                part[:] = block.transform.finv(values)
        for bias, weights, centre in self._levels:
            x[bias] += x[weights] @ centre
        return x

    def write(self, x: Array) -> None:
        """Set the model's parameters from x, leaf by leaf (a leaf write is always consistent)."""
        new: dict[int, tuple[Any, Array]] = {}
        x = np.array(x)
        for bias, weights, centre in self._levels:
            x[bias] -= x[weights] @ centre
        for block, part in self._parts(x):
            leaf, values = new.setdefault(
                id(block.leaf), (block.leaf, np.array(block.leaf.values).ravel())
            )
            if block.transform is None:
                values[block.entries] = part * block.scale
            elif block.transform == "log":
                logs = np.clip(part * block.scale, -FARTHEST, FARTHEST)
                values[block.entries] = np.exp(logs)
            else:
                values[block.entries] = block.transform.f(part)
        for leaf, values in new.values():
            leaf[:] = values.reshape(leaf.shape)

    def gradient(self) -> Array:
        """∂L/∂x from the gradients that the model's leaves hold."""
        g = np.empty(self.size)
        for block, part in self._parts(g):
            d = np.asarray(block.leaf.gradient).ravel()[block.entries]
            values = block.leaf.values.flat[block.entries]
            if block.transform is None:
                part[:] = d * block.scale
            elif block.transform == "log":
                part[:] = d * values * block.scale
            else:
                part[:] = block.transform.gradfactor(values, d)
        for bias, weights, centre in self._levels:
            g[weights] -= g[bias] * centre
        return g

    def slopes(self) -> Array:
        """`gradient`, but per unit of a logarithm wherever x is one, whatever its scale."""
        g = self.gradient()
        for block, part in self._parts(g):
            if block.transform == "log":
                part /= block.scale
        return g

    @property
    def groups(self) -> list[Array]:
        """Indices of the coordinates of each kind: neither of these, inducing inputs, q."""
        kinds = np.zeros(self.size, dtype=int)
        for kind, names in enumerate((["Z"], ["q_mu", "q_sqrt"]), start=1):
            leaves = {
                id(leaf) for name in names for leaf in _leaves(getattr(self.model, name, None))
            }
            for block, part in self._parts(kinds):
                if id(block.leaf) in leaves:
                    part[:] = kind
        return [np.flatnonzero(kinds == kind) for kind in range(3)]

    @property
    def inducing(self) -> Array:
        """Indices of the inducing inputs."""
        return self.groups[1]

    def _parts(self, x: Array) -> Any:
        bounds = zip(self._ends[:-1], self._ends[1:], strict=True)
        return [(b, x[i:j]) for b, (i, j) in zip(self.blocks, bounds, strict=True)]


def _leaves(part: Any) -> list[Any]:
    """The leaves below a parameter, or the leaf itself."""
    return list(part.flattened_parameters) if hasattr(part, "flattened_parameters") else [part]


def _some_rows(model: Any) -> Array:
    """About a hundred rows of X."""
    X = getattr(model, "_sample", model).X
    return np.asarray(X[:: max(1, X.shape[0] // 100)], dtype=float)


def _scales(model: Any) -> dict[int, Any]:
    """Natural units of leaves, or of their logarithms, by identity; of all others 1."""
    X = getattr(model, "_sample", model).X  # rows at hand: all, or some of a Dask array's
    spread = input_spread(X)
    scales: dict[int, Any] = {id(leaf): spread for leaf in _leaves(getattr(model, "Z", None))}
    rows = _some_rows(model)
    # a given kernel may have any variance: the data tell how far a mean has to go
    units = getattr(model, "_latent_scales", None)
    if units is None:
        units = [float(np.sqrt(np.mean(kernel.Kdiag(rows)))) for kernel in model.kernels]
    for unit, mean in zip(units, model.mean_functions, strict=True):
        unit = unit if np.isfinite(unit) and unit > 0 else 1.0
        for leaf in _leaves(mean):
            scales[id(leaf)] = unit / spread if leaf.size == spread.size > 1 else unit
    for part in (part for kernel in model.kernels for part in kernel.simple_parts):
        for leaf in part.leaves_with(Role.PERIOD):
            scales[id(leaf)] = np.minimum(1.0, leaf.values / spread[part.columns].max())
    return scales
