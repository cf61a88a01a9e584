"""Where the sites of all shards came from: what a lost shard needs to make its own again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.rows import Rows
from ..linalg import Array
from ..posterior.shards import Shard
from ..posterior.sums import Task

__all__ = ["MADE_IN", "Ledger", "Origin", "Recipe"]

SLOTS = 64  # sets of sites whose origin is remembered
MOST_NODES = 8  # evaluations that frozen node levels are remembered by

# the set of sites that a pass writes to; all other steps mix and copy sets
MADE_IN: dict[Callable[..., Any], str] = {
    Shard.evaluate: "trial",
    Shard.narrow: "current",
    Shard.clip: "current",
    Shard.positive_proposal: "proposal",
}
FROM_ITSELF = (Shard.clip, Shard.positive_proposal)  # which read what the set held before


@dataclass(frozen=True)
class Recipe:
    """How a pass makes a set of sites: its task, what the set held before, the nodes in force."""

    method: Callable[..., Any]
    task: Task | None
    before: dict[int, float]
    nodes: tuple[int, ...]  # evaluations whose wanted levels were kept; none: levels are free


@dataclass(frozen=True)
class Origin:
    """All that a shard needs to make its sites again."""

    recipes: list[tuple[int, Recipe]]  # in the order in which they are made
    sets: dict[str, dict[int, float]]
    history: list[dict[int, float]]
    nodes: tuple[int, ...]


class Ledger(Shard):
    """A shard's steps on weights instead of sites: every set is Σ_k w_k (what pass k made).

    Row k of this shard is not a row of data: it is the weight of slot k, whose recipe is known.
    Mixing, swapping and remembering are then the shard's own code.
    """

    def __init__(self) -> None:
        super().__init__(Rows(np.empty((SLOTS, 0)), np.empty(SLOTS)))
        self.recipes: dict[int, Recipe] = {}  # insertion is the order in which they are made
        self.nodes: tuple[int, ...] = ()
        self.last: tuple[int, ...] = ()  # the last evaluation
        self.start_sites()

    def start_sites(self, b: int = 1) -> None:
        """All weights 0."""
        super().start_sites(1)

    def note(self, step: Callable[..., Any], *args: Any) -> None:
        """What a step that every shard takes does to its sets of sites and to its nodes."""
        if step in MADE_IN:
            before = self._weights(MADE_IN[step]) if step in FROM_ITSELF else {}
            task: Any = args[0] if args else None
            if step is Shard.evaluate:
                self.last = (self._make(step, replace(task, left=(), whitened=True)),)
            else:
                self._make(step, task, before)
        elif step is Shard.freeze_nodes:
            self.freeze_nodes(*args)
        elif step is Shard.raise_nodes:
            self.raise_nodes()
        elif step is Shard.start_sites:
            self.start_sites()
        elif step not in (Shard.gram, Shard.gradient):
            step(self, *args)

    def freeze_nodes(self, frozen: bool) -> None:
        """Levels stay at those of the last evaluation, unless they are frozen already."""
        self.nodes = () if not frozen else self.nodes or self.last

    def raise_nodes(self) -> None:
        """Levels are at least those that the last evaluation wanted."""
        if self.nodes:
            self.nodes = tuple(dict.fromkeys([*self.nodes, *self.last]))[-MOST_NODES:]

    def origin(self) -> Origin:
        """Where the shards' sites came from."""
        self._sweep()
        names = ("committed", "current", "proposal", "trial")
        return Origin(
            list(self.recipes.items()),
            {name: self._weights(name) for name in names},
            [_nonzero(old) for old in self._history],
            self.nodes,
        )

    def _weights(self, name: str) -> dict[int, float]:
        return _nonzero(self.sites(name))

    def _make(
        self,
        method: Callable[..., Any],
        task: Task | None,
        before: dict[int, float] | None = None,
    ) -> int:
        before = before or {}
        self._sites[MADE_IN[method]][:] = 0.0
        self._sweep(before)
        if len(self.recipes) == SLOTS:
            self._merge_oldest()
        slot = next(k for k in range(SLOTS) if k not in self.recipes)
        self.recipes[slot] = Recipe(method, task, before, self.nodes)
        self._sites[MADE_IN[method]][0, 0, slot] = 1.0
        return slot

    def _sweep(self, keep: Iterable[int] = ()) -> None:
        """Forget the recipes that nothing is made of."""
        todo = [*keep, *self.last, *self.nodes]
        for array in (*self._sites.values(), *self._history):
            todo += _nonzero(array)
        needed: set[int] = set()
        while todo:
            slot = todo.pop()
            if slot not in needed:
                needed.add(slot)
                todo += [*self.recipes[slot].before, *self.recipes[slot].nodes]
        self.recipes = {slot: made for slot, made in self.recipes.items() if slot in needed}

    def _merge_oldest(self) -> None:
        """Free a slot: the weight of the oldest goes to the next. Close, where steps are short."""
        oldest, following = [k for k in self.recipes if not self._is_ingredient(k)][:2]
        for array in (*self._sites.values(), *self._history):
            array[..., following] += array[..., oldest]
            array[..., oldest] = 0.0
        del self.recipes[oldest]

    def _is_ingredient(self, slot: int) -> bool:
        kept = slot in self.last or slot in self.nodes
        return kept or any(slot in (*r.before, *r.nodes) for r in self.recipes.values())


def _nonzero(array: Array) -> dict[int, float]:
    weights = array[0, 0]
    return {int(k): float(weights[k]) for k in np.flatnonzero(weights)}
