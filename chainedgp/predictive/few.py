"""Rules of few nodes for z ~ N(0, I) of one to three dimensions, all weights positive.

A rule of degree d is exact for polynomials of total degree d. A product of Gauss–Hermite rules has
more nodes than that takes: 64 for degree 7 in three dimensions, where 27 are enough. Nodes of a
symmetric rule come in orbits, points that differ by the order of their coordinates and by signs.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations, product

import numpy as np
from scipy.special import roots_genlaguerre

from ..expectations.quadrature import product_rule
from .nodes import LOG_SQRT_2PI, Lattice

# Solutions of the moment equations: weight of each node of an orbit, and one of its nodes.
_ORBITS: dict[tuple[int, int], list[tuple[float, tuple[float, ...]]]] = {
    (2, 9): [
        (0.43465600799275933**2, (0.9634330440022854, 0.0)),
        (0.1443375672974063**2, (2.4494897427831788, 0.0)),
        (0.19844901075153476**2, (1.538189001320851, 1.538189001320851)),
        (0.02072210793093118**2, (1.6410280406791393, 3.5736715832379615)),
    ],
    (3, 7): [
        (0.5589981860315382**2, (0.0, 0.0, 0.0)),
        (0.17039697812433804**2, (2.3587090382021034, 0.0, 0.0)),
        (0.2517627066838001**2, (1.119836286063801, 1.119836286063801, 1.119836286063801)),
        (0.02279357233225378**2, (3.1421303833875807, 3.1421303833875807, 0.0)),
    ],
}
# Rules of the unit sphere in three dimensions, of degree 9 and 11 (V. I. Lebedev).
_SHARE = 0.5 * (1.0 - 3.0**-0.5)
_SPHERES: dict[int, list[tuple[float, tuple[float, ...]]]] = {
    9: [
        (1 / 105, (1.0, 0.0, 0.0)),
        (9 / 280, (3.0**-0.5,) * 3),
        (1 / 35, (_SHARE**0.5, (1.0 - _SHARE) ** 0.5, 0.0)),
    ],
    11: [
        (4 / 315, (1.0, 0.0, 0.0)),
        (64 / 2835, (0.5**0.5, 0.5**0.5, 0.0)),
        (27 / 1280, (3.0**-0.5,) * 3),
        (14641 / 725760, (11.0**-0.5, 11.0**-0.5, 3.0 * 11.0**-0.5)),
    ],
}


@lru_cache(maxsize=32)
def few_nodes(dim: int, degree: int) -> Lattice:
    """A rule of the odd `degree`; its weights are written as volumes."""
    if (dim, degree) in _ORBITS:
        x, weights = _orbits(_ORBITS[dim, degree])
    elif dim == 3 and degree == 5:
        x, weights = _icosahedron()
    elif dim == 3 and degree in _SPHERES:
        x, weights = _with_radii(degree, *_orbits(_SPHERES[degree]))
    elif dim == 2 and degree % 4 == 1:  # Else a product has as many nodes.
        angle = 2.0 * np.pi / (degree + 1) * np.arange(degree + 1)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        x, weights = _with_radii(degree, circle, np.full(len(angle), 1.0 / len(angle)))
    else:
        rule = product_rule(dim, (degree + 1) // 2)
        weights = rule.weights.ravel()
        x = np.stack([np.broadcast_to(column, rule.weights.shape).ravel() for column in rule.x])
    log_phi = -0.5 * np.sum(x * x, axis=0) - dim * LOG_SQRT_2PI
    return Lattice(x, np.log(weights) - log_phi, np.zeros(1, dtype=int))


def _orbits(orbits: list[tuple[float, tuple[float, ...]]]) -> tuple[np.ndarray, np.ndarray]:
    """All nodes (dim, K) and their weights (K,)."""
    nodes, weights = [], []
    for weight, first in orbits:
        signs = product(*[(-1.0, 1.0) if c else (1.0,) for c in first])
        signed = [tuple(s * c for s, c in zip(sign, first, strict=True)) for sign in signs]
        orbit = sorted({order for point in signed for order in permutations(point)})
        nodes.extend(orbit)
        weights.extend([weight] * len(orbit))
    return np.array(nodes).T, np.array(weights)


def _icosahedron() -> tuple[np.ndarray, np.ndarray]:
    """The centre and the twelve corners of an icosahedron: degree 5."""
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    corners = [np.roll((0.0, a, b * golden), k) for k in range(3) for a in (-1, 1) for b in (-1, 1)]
    size = np.sqrt(5.0 / (1.0 + golden**2))
    return np.array([np.zeros(3), *(size * np.array(corners))]).T, np.array([0.4] + [0.05] * 12)


def _with_radii(
    degree: int, sphere: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The rule of the unit sphere (dim, S) at radii of which r²/2 has a Gauss–Laguerre rule.

    Odd powers of r vanish by symmetry, so that degree (degree − 1)/2 in r² is enough: of n nodes,
    or of n − 1 and the centre.
    """
    power, half = 0.5 * len(sphere) - 1.0, (degree - 1) // 2
    if half % 2:
        s, w = roots_genlaguerre((half + 1) // 2, power)
        w, centre = w / w.sum(), 0.0
    else:  # Nodes for s times the density; what is left of the mass lies at the centre.
        s, w = roots_genlaguerre(half // 2, power + 1.0)
        w = w / w.sum() * (power + 1.0) / s
        centre = 1.0 - w.sum()
    x = (np.sqrt(2.0 * s)[:, None] * sphere[:, None]).reshape(len(sphere), -1)
    weights = np.outer(w, shares).ravel()
    if centre:
        x, weights = np.column_stack([np.zeros(len(x)), x]), np.append(centre, weights)
    return x, weights
