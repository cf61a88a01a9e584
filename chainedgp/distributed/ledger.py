"""The ledger of where all sites came from, so that a Dask worker can make lost sites again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..linalg import Array
from ..posterior.shards import Shard
from ..posterior.sites import SetName, Sites
from ..posterior.sums import Task
from .messages import TaskMessage

SLOTS = 64  # The head remembers this many passes that made sites; older ones are merged.
MOST_NODES = 8  # Frozen numbers of nodes are found again from at most this many evaluations.

Pass = Callable[[Shard, Task], Any]  # A pass goes over the rows of a shard.
Weights = dict[int, float]  # Slot -> the weight with which the sites of its pass are added up.

#: These passes make sites, each in the set it is given with; all other steps mix and copy sets.
MADE_IN: dict[Pass, SetName] = {
    Shard.evaluate: "trial",
    Shard.narrow: "current",
    Shard.clip: "current",
    Shard.positive_proposal: "proposal",
}
FROM_ITSELF = (Shard.clip, Shard.positive_proposal)  # These change what their set held before.


@dataclass(frozen=True)
class Recipe:
    """How a pass on Dask workers made a set of sites: its task, the set before, and the nodes."""

    work: Pass
    task: TaskMessage
    before: Weights
    nodes: tuple[int, ...]  # The evaluations in these slots fix the nodes; none leaves them free.


@dataclass(frozen=True)
class Origin:
    """All that a Dask worker needs to make the sites of a lost shard again."""

    recipes: list[tuple[int, Recipe]]  # They are followed in this order.
    sets: dict[SetName, Weights]
    history: list[Weights]
    nodes: tuple[int, ...]


class Ledger:
    """Remembers of every set of sites the passes that made it, with weights: Σ_k w_k (pass k).

    Steps from one set of sites to another are linear, so that the steps of `Sites` act on the
    weights as they act on the sites of a shard.
    """

    def __init__(self) -> None:
        self.recipes: dict[int, Recipe] = {}  # They are followed in order of insertion.
        self.nodes: tuple[int, ...] = ()
        self.last: tuple[int, ...] = ()  # It has the slot of the last evaluation, if any.
        self.start()

    def start(self) -> None:
        """Note that all sites are 0."""
        self.weights = Sites((SLOTS,))

    def note(self, work: Pass, task: TaskMessage) -> None:
        """Note that a pass was made over the rows of every shard."""
        if work in MADE_IN:
            slot = self._make(work, task)
            self.last = (slot,) if work is Shard.evaluate else self.last

    def freeze_nodes(self, frozen: bool) -> None:
        """Note that nodes are frozen at those of the last evaluation (or before), or free again."""
        self.nodes = () if not frozen else self.nodes or self.last

    def raise_nodes(self) -> None:
        """Note that numbers of nodes are at least those that the last evaluation wanted."""
        if self.nodes:
            self.nodes = tuple(dict.fromkeys([*self.nodes, *self.last]))[-MOST_NODES:]

    def origin(self) -> Origin:
        """All passes from which a lost shard's sites can be made again."""
        self._sweep()
        return Origin(
            list(self.recipes.items()),
            {name: _nonzero(weights) for name, weights in self.weights.sets.items()},
            [_nonzero(old) for old in self.weights.history],
            self.nodes,
        )

    def _arrays(self) -> list[Array]:
        return [*self.weights.sets.values(), *self.weights.history]

    def _make(self, work: Pass, task: TaskMessage) -> int:
        """Remember a pass that makes sites, and return the slot that it has from now on."""
        made = self.weights.sets[MADE_IN[work]]
        before = _nonzero(made) if work in FROM_ITSELF else {}
        made[:] = 0.0
        self._sweep(before)
        if len(self.recipes) == SLOTS:
            self._merge_oldest()
        slot = next(k for k in range(SLOTS) if k not in self.recipes)
        # The gradients of a pass are dropped: only its sites are ever made again.
        request = replace(task.request, left=(), whitened=True)
        self.recipes[slot] = Recipe(work, task._replace(request=request), before, self.nodes)
        made[slot] = 1.0
        return slot

    def _sweep(self, keep: Iterable[int] = ()) -> None:
        """Forget the passes that no set of sites is made of any more."""
        todo = [*keep, *self.last, *self.nodes]
        for array in self._arrays():
            todo += _nonzero(array)
        needed: set[int] = set()
        while todo:
            slot = todo.pop()
            if slot not in needed:
                needed.add(slot)
                todo += [*self.recipes[slot].before, *self.recipes[slot].nodes]
        self.recipes = {slot: made for slot, made in self.recipes.items() if slot in needed}

    def _merge_oldest(self) -> None:
        """Free a slot of the ledger: the weight of the oldest pass goes to the next one.

        The sites are then nearly the same if the steps between the two passes were short.
        """
        oldest, following = [k for k in self.recipes if not self._is_ingredient(k)][:2]
        for array in self._arrays():
            array[following] += array[oldest]
            array[oldest] = 0.0
        del self.recipes[oldest]

    def _is_ingredient(self, slot: int) -> bool:
        kept = slot in self.last or slot in self.nodes
        return kept or any(slot in (*r.before, *r.nodes) for r in self.recipes.values())


def _nonzero(weights: Array) -> Weights:
    return {int(k): float(weights[k]) for k in np.flatnonzero(weights)}
