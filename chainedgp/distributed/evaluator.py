"""The head: sends tasks to the shards on workers, adds up sums, replaces what is lost."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate

import numpy as np

from ..data.rows import Rows
from ..errors import InputError
from ..linalg import Array
from ..parameters.parts import copy_of
from ..posterior.evaluator import Evaluator, Hyperparameters, P, S
from ..posterior.shards import Shard
from ..posterior.sparse import Prior
from ..posterior.sums import Task
from .actor import ShardActor, Step, pickled
from .blocks import as_dask, blocks_of, row_values, split_rows
from .ledger import Ledger

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["DaskEvaluator", "distribute"]

SAMPLE_ROWS = 10_000  # that come to the head, for starting values and inducing inputs
ATTEMPTS = 5  # to find a worker for rows whose worker died
RESTART_SECONDS = 10.0  # how long to wait for a replacement before workers share
LOOK_SECONDS = 1.0  # how often to look whether the worker of a running call is alive


class DaskEvaluator(Evaluator):
    """The evaluator whose shards are actors on a cluster.

    bytes_sent, bytes_received : of all messages so far; a message that goes to k shards counts k
    times. num_rebuilt : shards that were made again because their worker was lost.
    """

    def __init__(self, client: Client, parts: Sequence[tuple[Any, ...]]) -> None:
        from distributed import KilledWorker

        super().__init__([])
        # what a call to an actor raises when its worker is lost
        self._lost = (OSError, RuntimeError, KeyError, CancelledError, KilledWorker)
        self.client, self._parts = client, list(parts)
        self._ledger, self._steps = Ledger(), list[Step]()
        self._sent: list[int] = []  # kernels of which the workers have copies, by identity
        self._copies: list[Any] = []
        self._priors: tuple[Prior, ...] = ()  # as they are sent
        self._sent_key: int | None = None
        self._homes: list[str | None] = [None] * len(self._parts)
        self.bytes_sent = self.bytes_received = self.num_rebuilt = 0
        self._futures = [self._place(k) for k in range(len(self._parts))]
        self._actors = [future.result() for future in self._futures]
        self._sizes: list[int] = self._ask(ShardActor.num_rows)

    def __getstate__(self) -> dict[str, Any]:
        raise InputError(
            "a model on Dask arrays cannot be copied, pickled or fitted from several restarts: its "
            "rows are on the cluster. Save it by m.save(path, data=False), or build another model."
        )

    def fix_nodes(self, nodes: int | None) -> None:
        """Other quadrature nodes from now on, in shards that are made again too."""
        self._parts = [(rows, start, nodes, how) for rows, start, _, how in self._parts]
        super().fix_nodes(nodes)

    @property
    def num_rows(self) -> int:
        """Number of rows over all shards."""
        return sum(self._sizes)

    def set_hyperparameters(self, theta: Hyperparameters, scale: float = 1.0) -> None:
        """Factorise the priors at θ; every later call is at this θ."""
        super().set_hyperparameters(theta, scale)
        if (sent := [id(kernel) for kernel in theta.kernels]) != self._sent:
            self._sent = sent
            parts = zip(theta.kernels, theta.means, strict=True)
            self._copies = [(copy_of(kernel), copy_of(mean)) for kernel, mean in parts]
            self._steps.append((ShardActor.take_parts, (self._copies,)))
        self._priors = tuple(
            replace(p, kernel=_values(p.kernel), mean=_values(p.mean), L=p.L[:0], pull_Kuu=len)
            for p in self.task.priors
        )

    def _each(
        self, step: Callable[Concatenate[Shard, P], None], *args: P.args, **kw: P.kwargs
    ) -> None:
        """Queue a step of every shard on its sites; it travels with the next pass."""
        given = tuple(self._small(a) if isinstance(a, Task) else a for a in args)
        self._steps.append((ShardActor.take_step, (step, *given)))
        self._ledger.note(step, *given)

    def marginals(self, q: Any) -> tuple[Array, Array]:
        """Not here: they have the size of the data."""
        raise InputError("marginals of all rows stay on the cluster: use m.predict_latents(X).")

    def sample(self, most: int) -> Rows:
        """About `most` rows, evenly over all, in their order."""
        step = max(1, self.num_rows // most)
        starts = -np.cumsum([0, *self._sizes[:-1]]) % step
        return Rows.joined(self._ask(ShardActor.sample, *((int(start), step) for start in starts)))

    def _small(self, task: Task, with_S: bool = True) -> Task:
        """A task without what shards do not read or have: L, S⁻¹, likelihood, kernels, means."""
        q = tuple(
            replace(p, precision=None, root=None, S=p.S if with_S else p.S[:0]) for p in task.q
        )
        return replace(task, priors=self._priors, q=q, likelihood=None)

    def _sum(self, work: Callable[[Shard, Task], S], task: Task) -> S:
        task = self._small(task, with_S=not task.S_mu_bar)
        known = task.key == self._sent_key
        short = replace(task, priors=()) if known else task
        parts = self._ask(ShardActor.take_step, (work, short), again=(work, task))
        self._sent_key = task.key
        self._ledger.note(work, task)
        total = parts[0]
        for part in parts[1:]:
            total.add(part)
        return total

    # ---- messages -------------------------------------------------------------------------------

    def _ask(
        self, method: Callable[..., Any], *args: tuple[Any, ...], again: Any = None
    ) -> list[Any]:
        """Answers of all shards in the order of the rows.

        args : one tuple for all, or one for each. again : for a shard that was made again.
        """
        args, steps, self._steps = args or ((),), self._steps, []
        messages = [pickled((steps, method, *given)) for given in args]
        count = range(len(self._parts))
        calls = [self._call(k, messages[k % len(args)]) for k in count]
        answers = [
            self._answer(k, calls[k], ([], method, *(again or args[k % len(args)]))) for k in count
        ]
        for fine, answer in answers:
            if not fine:
                raise answer
        return [answer for _, answer in answers]

    def _call(self, k: int, message: bytes) -> Callable[[], Any]:
        """Send a message; a function that waits for the answer, or fails."""
        self.bytes_sent += len(message)
        try:
            call = self._actors[k].run(message)
        except self._lost:
            return _fail
        return lambda: self._wait(k, call)

    def _wait(self, k: int, call: Any) -> bytes:
        """The answer to a call; the scheduler hears of a lost worker long before it gives up."""
        while True:
            try:
                return call.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if self._futures[k].status != "finished":
                    raise OSError("the worker is lost") from None

    def _answer(self, k: int, call: Callable[[], Any], again: Any) -> tuple[bool, Any]:
        """The answer to a call; a lost shard is made again and asked again."""
        for _ in range(ATTEMPTS):
            try:
                answer = call()
                self.bytes_received += len(answer)
                return pickle.loads(answer)
            except self._lost:
                call = self._call_rebuilt(k, again)
        raise RuntimeError(
            f"shard {k} of {len(self._parts)} was lost {ATTEMPTS} times in one pass: its workers "
            "die, perhaps for want of memory. Look at their logs."
        )

    def _call_rebuilt(self, k: int, again: Any) -> Callable[[], Any]:
        self.num_rebuilt += 1
        self._wait_for_workers(self._homes[k])
        self._futures[k] = self._place(k, self._homes[k])
        parts = (ShardActor.take_parts, (self._copies,))
        rebuild = pickled(([parts], ShardActor.rebuild, self._ledger.origin()))
        try:
            self._actors[k] = self._futures[k].result()
            fine, error = pickle.loads(self._call(k, rebuild)())
        except self._lost:
            return _fail
        if not fine:
            raise error
        return self._call(k, pickled(again))

    def _wait_for_workers(self, lost: str | None) -> None:
        """Give a replacement for a lost worker the time to start."""
        end = time.monotonic() + RESTART_SECONDS
        while time.monotonic() < end and len(self._workers(lost)) < len(self._parts):
            time.sleep(0.1)

    def _workers(self, lost: str | None = None) -> list[str]:
        return [address for address in self.client.nthreads() if address != lost]

    def _place(self, k: int, lost: str | None = None) -> Any:
        """Have a worker, the one with the fewest shards, read part k; the actor's future."""
        self._homes[k] = None
        found = self._workers(lost)
        self._homes[k] = min(found, key=self._homes.count) if found else None
        where = {} if not found else {"workers": [self._homes[k]], "allow_other_workers": True}
        lazy, *rest = self._parts[k]
        X, Y, metadata = self.client.compute([*lazy], **where)
        return self.client.submit(
            ShardActor, X, Y, metadata, *rest, actor=True, pure=False, **where
        )


def _values(part: Any) -> list[Array]:
    """Values of all parameters of a kernel or mean."""
    return [np.array(leaf.values) for leaf in part.flattened_parameters]


def _fail() -> Any:
    raise OSError("the worker is lost")


def distribute(
    X: Any,
    Y: Any,
    Y_metadata: Any,
    likelihood: Any,
    missing: str,
    columns: Any,
    *,
    nodes: int | None,
) -> tuple[Rows, Rows, DaskEvaluator]:
    """Divide rows among the workers and check them there.

    X, Y : Dask arrays (N, D) or (N,), and (N,) or (N, 1); Y and per-row values may be numpy arrays.

    Returns
    -------
    The rows as Dask arrays, a sample of them as numpy arrays, the evaluator.
    """
    from dask import delayed

    client, likelihood = _client(), copy_of(likelihood)  # the model's own has the model as parent
    X = as_dask(X, "X")
    if X.ndim == 1:
        X = X[:, None]
    N = X.shape[0]
    Y = as_dask(Y, "Y", N)
    values = row_values(Y_metadata, N)
    size = -(-N // max(1, len(client.nthreads())))
    X = X.rechunk((size, -1))
    first = np.cumsum([0, *X.chunks[0]])
    blocks = zip(
        blocks_of(X), blocks_of(Y, X), split_rows(values, X), first[:-1].tolist(), strict=True
    )
    how = likelihood, missing, columns
    parts = [((x, y, delayed(kw)), start, nodes, how) for x, y, kw, start in blocks]
    evaluator = DaskEvaluator(client, parts)
    weights = values.pop("weights", None)
    y = Y[:, 0] if Y.ndim == 2 else Y
    return Rows(X, y, values, weights), evaluator.sample(SAMPLE_ROWS), evaluator


def _client() -> Client:
    from distributed import get_client

    try:
        client = get_client()
    except ValueError:
        raise InputError(
            "X is a Dask array, but no cluster is connected: first `from distributed import "
            "Client; client = Client(address)`, or Client() for the cores of this machine."
        ) from None
    if not client.nthreads():
        raise InputError("X is a Dask array, but the cluster has no workers: start some.")
    return client
