"""The actor on a Dask worker: it holds some rows of the data as a shard and answers messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..data.rows import Expected, Rows
from ..data.types import Metadata
from ..errors import InputError
from ..likelihoods import Likelihood
from ..likelihoods.density_check import DensityError, check_density
from ..linalg import Array, Indices, one_blas_thread
from ..posterior.family import PosteriorFamily
from ..posterior.shards import Shard
from ..posterior.sites import Sites
from ..posterior.sums import Setting, Task
from .ledger import MADE_IN, Origin, Weights
from .messages import Call, Parts, TaskMessage, pickled

R = TypeVar("R")


class Reading(NamedTuple):
    """How a Dask worker reads its rows."""

    likelihood: Likelihood
    missing: str  # Rows without a target are an error ("raise") or left out ("drop").
    columns: Expected
    nodes: int | None


class ShardActor:
    """An actor on a Dask worker that holds some rows as a `Shard` and answers pickled messages."""

    def __init__(self, X: Array, Y: Array, metadata: Metadata, first: int, how: Reading) -> None:
        self.likelihood = how.likelihood
        try:
            given = X, Y, metadata, self.likelihood
            rows = Rows.read(*given, missing=how.missing, columns=how.columns)
            check_density(self.likelihood, rows)
        except InputError as error:
            last = "the next" if X is None else first + len(X) - 1
            raise InputError(f"In rows {first} to {last}, counted from 0 there: {error}") from None
        self.shard, self.first = Shard(rows, nodes=how.nodes), first
        self.parts: Parts = []
        self.setting: Setting | None = None  # It is the setting of the last task.

    def run(self, message: bytes) -> bytes:
        """Answer a message, queued steps and then a call: (True, its result) or (False, error)."""
        answer: tuple[bool, Any]
        try:
            answer = True, self._run(*pickle.loads(message))
        except DensityError as error:
            answer = False, DensityError(error.method, self.first + error.row, error.where)
        except Exception as error:  # The head will raise it: the actor did not fail.
            answer = False, error
        return pickled(answer)

    def _run(self, *calls: Call) -> Any:
        answer = None
        with one_blas_thread():
            for method, args in calls:
                answer = method(self, *args)
        return answer

    # ---- what messages may ask for --------------------------------------------------------------

    def take_parts(self, parts: Parts) -> None:
        """Take (kernel, mean) of every latent; later messages bring their parameters' values."""
        self.parts = parts

    def step(
        self, step: Callable[..., None], args: tuple[object, ...], kw: Mapping[str, object]
    ) -> None:
        """Take a step with the actor's shard."""
        step(self.shard, *args, **kw)

    def step_sites(
        self, step: Callable[..., None], args: tuple[object, ...], kw: Mapping[str, object]
    ) -> None:
        """Take a step with the sites of the actor's shard."""
        step(self.shard.sites, *args, **kw)

    def make_pass(self, work: Callable[[Shard, Task], R], message: TaskMessage) -> R:
        """Make a pass over the rows of the actor's shard."""
        return work(self.shard, self.task(message))

    def num_rows(self) -> int:
        """Number of rows that the actor holds, without those that were dropped."""
        return self.shard.num_rows

    def sample(self, start: int, step: int) -> Rows:
        """Every `step`-th of the actor's rows from `start` on."""
        return self.shard.rows[start::step]

    def rebuild(self, origin: Origin, family: PosteriorFamily) -> None:
        """Make all sets of sites of a lost shard again, from the passes that made them."""
        if not self.parts:  # No pass was made, so all sites are 0.
            return
        shard = self.shard
        shard.start_sites(family.site_shape(len(self.parts)))
        made: dict[int, Array] = {}
        wanted: dict[int, Indices] = {}

        def write(sites: Array, weights: Weights) -> None:
            sites[:] = sum(weight * made[slot] for slot, weight in weights.items())

        def use_levels(nodes: tuple[int, ...]) -> None:
            shard.freeze_nodes(bool(nodes))
            if nodes:
                shard.levels = np.maximum.reduce([wanted[slot] for slot in nodes])

        for slot, recipe in origin.recipes:
            sites = shard.sites.sets[MADE_IN[recipe.work]]
            write(sites, recipe.before)
            use_levels(recipe.nodes)
            self.make_pass(recipe.work, recipe.task)
            made[slot] = sites.copy()
            if recipe.work is Shard.evaluate:
                wanted[slot] = shard.wanted.copy()
        self._write_sets(shard.sites, origin, write)
        use_levels(origin.nodes)

    @staticmethod
    def _write_sets(sites: Sites, origin: Origin, write: Callable[[Array, Weights], None]) -> None:
        for name, weights in origin.sets.items():
            write(sites.sets[name], weights)
        sites.forget()
        for weights in origin.history:
            sites.history.append(np.zeros_like(sites.current))
            write(sites.history[-1], weights)

    def task(self, message: TaskMessage) -> Task:
        """The task that a message brings, completed by the setting that the actor already has."""
        if message.setting is not None:
            self.setting = message.setting.read(self.parts, self.likelihood)
        if self.setting is None:
            raise RuntimeError("the first task has a setting")
        return Task(self.setting, message.request)
