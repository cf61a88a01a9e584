"""What lives on a worker: some rows of the data as a shard, which answers messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.rows import Rows
from ..errors import InputError
from ..likelihoods.faults import check_density
from ..linalg import Array, one_blas_thread
from ..posterior.shards import Shard
from ..posterior.sparse import Prior
from ..posterior.sums import Task
from .ledger import MADE_IN, Origin

__all__ = ["ShardActor", "pickled"]


Step = tuple[Callable[..., Any], tuple[Any, ...]]  # a method of `ShardActor`, and its arguments


def pickled(message: object) -> bytes:
    """A message between head and actors, which may hold functions and a user's own classes."""
    import cloudpickle

    return bytes(cloudpickle.dumps(message))


class ShardActor:
    """An actor: some rows of the data as a `Shard`. Messages are pickled here, once for all."""

    def __init__(
        self, X: Any, Y: Any, metadata: dict[str, Any], first: int, nodes: int | None, how: Any
    ) -> None:
        self.likelihood, missing, columns = how
        try:
            given = X, Y, metadata, self.likelihood
            rows = Rows.read(*given, missing=missing, columns=columns)
            check_density(self.likelihood, rows)
        except InputError as error:
            last = first + len(X) - 1
            raise InputError(f"In rows {first} to {last}, counted from 0 there: {error}") from None
        self.shard = Shard(rows, nodes=nodes)
        self.parts: Any = None  # kernels and means
        self.priors: tuple[Prior, ...] = ()  # of the last task that had any

    def run(self, message: bytes) -> bytes:
        """Queued steps on the sites, then a pass; (True, its result) or (False, its error)."""
        try:
            answer = True, self._run(*pickle.loads(message))
        except Exception as error:  # the head raises it: it is not the actor that failed
            answer = False, error
        return pickled(answer)

    def _run(self, steps: list[Step], method: Callable[..., Any], *args: Any) -> Any:
        with one_blas_thread():
            for step, given in steps:
                step(self, *given)
            return method(self, *args)

    def take_step(self, step: Callable[..., Any], *args: Any) -> Any:
        """A step of the shard on its sites, or a pass over its rows."""
        return step(self.shard, *map(self._whole, args))

    def _whole(self, given: Any) -> Any:
        """A task with what its message left out: likelihood, kernels, means, perhaps all priors."""
        if not isinstance(given, Task):
            return given
        if given.priors:
            for part, prior in zip(self.parts, given.priors, strict=True):
                for own, values in zip(part, (prior.kernel, prior.mean), strict=True):
                    for leaf, value in zip(own.flattened_parameters, values, strict=True):
                        leaf[:] = value
            self.priors = tuple(
                replace(prior, kernel=kernel, mean=mean)
                for prior, (kernel, mean) in zip(given.priors, self.parts, strict=True)
            )
        return replace(given, priors=self.priors, likelihood=self.likelihood)

    def take_parts(self, parts: Any) -> None:
        """(kernel, mean) of every latent; later messages have the values of their parameters."""
        self.parts = parts

    def num_rows(self) -> int:
        """Number of rows, without those that were dropped."""
        return self.shard.num_rows

    def sample(self, start: int, step: int) -> Rows:
        """Every `step`-th row from `start`."""
        return self.shard.rows[start::step]

    def rebuild(self, origin: Origin) -> None:
        """Make all sets of sites again from where they came from."""
        shard, b = self.shard, len(self.likelihood.latents)
        made: dict[int, Array] = {}
        wanted: dict[int, Array] = {}
        shard.start_sites(b)

        def mixed(weights: dict[int, float]) -> Any:
            return sum(weight * made[slot] for slot, weight in weights.items())

        def use_levels(nodes: tuple[int, ...]) -> None:
            shard.freeze_nodes(bool(nodes))
            if nodes:
                shard.levels = np.maximum.reduce([wanted[slot] for slot in nodes])

        for slot, recipe in origin.recipes:
            name = MADE_IN[recipe.method]
            shard.sites(name)[:] = mixed(recipe.before)
            use_levels(recipe.nodes)
            task = [] if recipe.task is None else [self._whole(recipe.task)]
            recipe.method(shard, *task)
            made[slot] = shard.sites(name).copy()
            if recipe.method is Shard.evaluate:
                wanted[slot] = shard.wanted.copy()
        for name, weights in origin.sets.items():
            shard.sites(name)[:] = mixed(weights)
        shard.forget()
        for weights in origin.history:
            shard._history.append(np.zeros_like(shard.sites()) + mixed(weights))
        use_levels(origin.nodes)
