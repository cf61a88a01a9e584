"""Cumulative incidences of competing causes by quadrature over time.

    F_k(t) = ∫₀ᵗ p_k(u) Π_{j≠k} S_j(u) du

over panels of log u with Gauss–Legendre nodes, so that hazards without a limit at 0 are smooth. The
shares of a panel [a, b] are then scaled to add up to S(a) − S(b), which is known. So incidences and
survival add up to 1 whatever the error of the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..linalg import Array
from ..predictive.distribution import Predictive

NODES = 8  # Each panel of time has so many nodes of Gauss–Legendre.
WIDEST, NARROW, UPPER = 2.0, 0.5, 4.0
"""Widths of panels in log u are at most NARROW up to a distance UPPER from the last time, and
WIDEST before."""
LEAST = 1e-9
"""Panels begin where every row has had an event with less than this probability, or at e^{−DEEPEST}
of the first time."""
DEEPEST = 80.0


class Incidences(NamedTuple):
    """Overall survival, and the incidence of every cause, at some times; or their bands."""

    survival: Any
    causes: list[Any]


@dataclass(frozen=True)
class TimePanels:
    """Panels of time for incidences, edges (p + 1,), 0 the first, nodes (p·q,), weights (p, q).

    times : (k,) at which results are wanted; `at` says which edges these are.
    """

    times: Array
    edges: Array
    nodes: Array
    weights: Array
    at: np.ndarray

    @classmethod
    def upto(cls, times: Array, laws: list[Predictive]) -> TimePanels:
        """Panels of time for incidences from 0 to the last of the times, all of which are edges."""
        positive = times[times > 0.0]
        if not positive.size:
            empty = np.zeros(0)
            return cls(times, np.zeros(1), empty, np.zeros((0, NODES)), np.zeros(len(times), int))
        top = np.log(positive[-1])
        low = np.log(positive[0])
        first = low
        while first > low - DEEPEST:
            first -= 4.0
            if all(np.min(law.sf(np.exp([first]))) > 1.0 - LEAST for law in laws):
                break
        even = np.arange(top, top - UPPER, -NARROW)
        below = np.arange(top - UPPER, first, -WIDEST)
        logs = np.unique(np.concatenate([even, below[below > first], [first], np.log(positive)]))
        logs = logs[logs >= first]
        close = np.append(np.diff(logs) > 1e-9, True) | np.isin(logs, np.log(positive))
        logs = logs[close]
        x, w = np.polynomial.legendre.leggauss(NODES)
        half = 0.5 * np.diff(logs)[:, None]
        s = logs[:-1, None] + half * (1.0 + x)
        edges = np.concatenate([[0.0], np.exp(logs)])
        at = np.searchsorted(logs, np.log(positive)) + 1
        at = np.concatenate([np.zeros(len(times) - len(positive), dtype=int), at])
        return cls(times, edges, np.exp(s).ravel(), half * w * np.exp(s), at)

    def incidences(
        self, pdf: Sequence[Array], sf: Sequence[Array], at_edges: Sequence[Array]
    ) -> Incidences:
        """Overall survival S and incidences F_k at the times, (d, n, k), of d draws.

        pdf, sf : of every cause at the nodes, (d, n, p·q). at_edges : sf at the edges.
        """
        S = np.prod(at_edges, axis=0)
        lost = np.maximum(S[..., :-1] - S[..., 1:], 0.0)  # (d, n, panels), [0, first edge] too
        shares = []
        for k, p in enumerate(pdf):
            others = [s for j, s in enumerate(sf) if j != k]
            flow = p * np.prod(others, axis=0) if others else p
            flow = flow.reshape(*flow.shape[:-1], *self.weights.shape)
            inner = np.einsum("...pq,pq->...p", flow, self.weights)
            # Nothing is integrated up to the first edge: what little there is, is shared out as in
            # the panel that follows.
            shares.append(np.concatenate([inner[..., :1], inner], axis=-1))
        total = np.sum(shares, axis=0)
        causes = []
        for share in shares:
            part = np.divide(share, total, out=np.full_like(share, 1 / len(pdf)), where=total > 0)
            F = np.concatenate([np.zeros((*S.shape[:-1], 1)), np.cumsum(part * lost, axis=-1)], -1)
            causes.append(F[..., self.at])
        return Incidences(S[..., self.at], causes)
