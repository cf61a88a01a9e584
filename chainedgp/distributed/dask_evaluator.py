"""The head of a Dask cluster: sends tasks to shards on workers, adds up sums, replaces the lost."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn

import numpy as np

from ..data.rows import Expected, Rows
from ..data.types import Data, Metadata
from ..errors import ClusterError, InputError
from ..likelihoods import Likelihood
from ..parameters.parts import copy_of
from ..posterior.evaluator import Evaluator, Hyperparameters, P, R
from ..posterior.family import PosteriorFamily
from ..posterior.gaussian import Gaussian
from ..posterior.shards import Shard
from ..posterior.sites import Sites
from ..posterior.sums import Request, Task
from .actor import Reading, ShardActor
from .blocks import as_dask, blocks_of, row_values, split_rows, with_checked_blocks
from .ledger import Ledger
from .messages import Call, Parts, SettingMessage, TaskMessage, pickled, small

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client

# About this many rows come to the head, which makes starting values and inducing inputs from them.
SAMPLE_ROWS = 10_000
ATTEMPTS = 5  # In one pass the rows of a lost worker are given to others this many times at most.
# The head waits this long for a replacement of a lost worker; then another one takes its rows too.
RESTART_SECONDS = 10.0
LOOK_SECONDS = 1.0  # The head looks this often whether the worker of a running call is alive.
IDLE_LOOKS = 5  # If no worker is busy at this many looks in a row, what is awaited is lost.
# If the cluster has no worker at all, the head waits this many seconds for one.
ABSENT_SECONDS = 300.0


class DaskEvaluator(Evaluator):
    """The evaluator of the bound whose shards are actors on the workers of a Dask cluster.

    bytes_sent, bytes_received : bytes of all messages so far; a message that goes to k shards
    counts k times. num_rebuilt : number of shards made again because their worker was lost.

    Parameters
    ----------
    client : the client of the cluster.
    parts : for each shard, the arguments of its `ShardActor`; inputs, targets and metadata are
        lazy.
    family : the family of distributions from which q is taken.
    """

    def __init__(
        self,
        client: Client,
        parts: Sequence[tuple[tuple[Delayed, Delayed, Delayed], int, Reading]],
        family: PosteriorFamily,
    ) -> None:
        super().__init__([], family)
        self.client, self._parts = client, list(parts)
        self._ledger, self._steps = Ledger(), list[Call]()
        self._sent: list[int] = []  # The workers have copies of the kernels with these identities.
        self._copies: Parts = []
        self._message: SettingMessage | None = None  # This message tells workers the setting.
        self._sent_key: int | None = None
        self._homes: list[str | None] = [None] * len(self._parts)
        self.bytes_sent = self.bytes_received = self.num_rebuilt = 0
        self._futures = [self._place(k) for k in range(len(self._parts))]
        self._actors = [self._made(k, ATTEMPTS) for k in range(len(self._parts))]
        self._sizes: list[int] = self._ask((ShardActor.num_rows, ()))

    def __getstate__(self) -> dict[str, Any]:
        raise InputError(
            "a model on Dask arrays cannot be copied, pickled or fitted from several restarts: its "
            "rows are on the cluster. Save it by m.save(path, data=False), or build another model."
        )

    @property
    def num_rows(self) -> int:
        """Number of rows over all shards of the cluster."""
        return sum(self._sizes)

    def set_hyperparameters(self, theta: Hyperparameters, scale: float = 1.0) -> None:
        """Factorise the priors at θ; every later pass of the workers is at this θ."""
        super().set_hyperparameters(theta, scale)
        if (sent := [id(kernel) for kernel in theta.kernels]) != self._sent:
            self._sent = sent
            parts = zip(theta.kernels, theta.means, strict=True)
            self._copies = [(copy_of(kernel), copy_of(mean)) for kernel, mean in parts]
            self._steps.append((ShardActor.take_parts, (self._copies,)))
        self._message = SettingMessage.of(self.setting)

    def start_sites(self, b: int) -> None:
        """Set all sites of b latents to 0 on every worker, so that q is the prior."""
        super().start_sites(b)
        self._ledger.start()

    def fix_nodes(self, nodes: int | None) -> None:
        """Use another number of quadrature nodes from now on, in shards made again too."""
        self._parts = [(*rows, how._replace(nodes=nodes)) for *rows, how in self._parts]
        super().fix_nodes(nodes)

    def freeze_nodes(self, frozen: bool) -> None:
        """Keep the numbers of nodes on all workers (in a line search), or choose them afresh."""
        super().freeze_nodes(frozen)
        self._ledger.freeze_nodes(frozen)

    def raise_nodes(self) -> None:
        """Give every row on the workers at least the nodes it wanted in the last evaluation."""
        super().raise_nodes()
        self._ledger.raise_nodes()

    def marginals(self, q: Sequence[Gaussian]) -> NoReturn:
        """Refuse to gather the marginals of all rows from the cluster: they are too large."""
        raise InputError("marginals of all rows stay on the cluster: use m.predict_latents(X).")

    def sample(self, most: int) -> Rows:
        """About `most` rows from all workers, taken evenly and in their order."""
        step = max(1, self.num_rows // most)
        starts = -np.cumsum([0, *self._sizes[:-1]]) % step
        calls = [(ShardActor.sample, (int(start), step)) for start in starts]
        return Rows.joined(self._ask(*calls))

    def _each(
        self, step: Callable[Concatenate[Shard, P], None], *args: P.args, **kw: P.kwargs
    ) -> None:
        """Queue a step of every shard on the workers; it travels with the next pass."""
        self._steps.append((ShardActor.step, (step, args, kw)))

    def _each_sites(
        self, step: Callable[Concatenate[Sites, P], None], *args: P.args, **kw: P.kwargs
    ) -> None:
        """Queue a step of the sites of every shard; it travels with the next pass."""
        self._steps.append((ShardActor.step_sites, (step, args, kw)))
        step(self._ledger.weights, *args, **kw)

    def _passes(self, work: Callable[[Shard, Task], R], request: Request) -> Iterable[R]:
        """Ask the workers for a pass over their rows; θ travels with its first pass only."""
        task = TaskMessage(self._message, small(request))
        known = self.setting.key == self._sent_key
        short = task._replace(setting=None) if known else task
        parts = self._ask(
            (ShardActor.make_pass, (work, short)), again=(ShardActor.make_pass, (work, task))
        )
        self._sent_key = self.setting.key
        self._ledger.note(work, task)
        return parts

    # ---- messages -------------------------------------------------------------------------------

    def _ask(self, *calls: Call, again: Call | None = None) -> list[Any]:
        """Send a call to all shards on the workers; their answers in the order of the rows.

        calls : one call for all shards, or one for each. again : the call for a shard that had to
            be made again; by default the same one.
        """
        steps, self._steps = self._steps, []
        messages = [pickled([*steps, call]) for call in calls]
        count, each = range(len(self._parts)), len(calls)
        waiting = [self._call(k, messages[k % each]) for k in count]
        answers = [self._answer(k, waiting[k], again or calls[k % each]) for k in count]
        for fine, answer in answers:
            if not fine:
                raise answer
        return [answer for _, answer in answers]

    def _call(self, k: int, message: bytes) -> Callable[[], bytes]:
        """Send a message to the actor of shard k; returns a function that waits for its answer."""
        self.bytes_sent += len(message)
        try:
            call = self._actors[k].run(message)
        except _lost():
            return _fail
        return lambda: self._wait(k, call)

    def _wait(self, k: int, call: Any) -> bytes:
        """Wait for the answer of an actor, and look regularly whether its worker is alive."""
        while True:
            try:
                return call.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if self._futures[k].status != "finished":
                    raise OSError("the worker is lost") from None

    def _answer(self, k: int, call: Callable[[], bytes], again: Call) -> tuple[bool, Any]:
        """The answer of shard k to a call; a lost shard is made again and asked again."""
        for _ in range(ATTEMPTS):
            try:
                answer = call()
                self.bytes_received += len(answer)
                return pickle.loads(answer)
            except _lost():
                call = self._call_rebuilt(k, again)
        raise RuntimeError(
            f"shard {k} of {len(self._parts)} was lost {ATTEMPTS} times in one pass: its workers "
            "die, perhaps for want of memory. Look at their logs."
        )

    def _call_rebuilt(self, k: int, again: Call) -> Callable[[], bytes]:
        """Have another worker read the rows of shard k and make its sites again; then call it."""
        self.num_rebuilt += 1
        self._wait_for_workers(self._homes[k])
        self._futures[k] = self._place(k, self._homes[k])
        parts: Call = (ShardActor.take_parts, (self._copies,))
        rebuild: Call = (ShardActor.rebuild, (self._ledger.origin(), self.family))
        try:
            self._actors[k] = self._made(k)
            fine, error = pickle.loads(self._call(k, pickled([parts, rebuild]))())
        except _lost():
            return _fail
        if not fine:
            raise error
        return self._call(k, pickled([again]))

    def _made(self, k: int, attempts: int = 1) -> Any:
        """The actor of part k, once its worker has read the rows.

        If that worker is lost meanwhile, others are tried; OSError if all of them were lost.
        """
        for attempt in range(attempts):
            if attempt:
                self._wait_for_workers(self._homes[k])
                self._futures[k] = self._place(k, self._homes[k])
            try:
                return self._read(k)
            except _lost():
                self._futures[k].cancel()
                if attempt == attempts - 1:
                    raise
        raise ValueError("at least one attempt is needed")

    def _read(self, k: int) -> Any:
        """Wait until a worker has read part k; OSError if it is lost, InputError for bad blocks.

        A worker may come back under its old address and have forgotten what it was asked for: then
        nobody works, and nothing will ever arrive.
        """
        idle = 0
        while True:
            try:
                return self._futures[k].result(timeout=LOOK_SECONDS)
            except TimeoutError:
                idle = 0 if any(self.client.processing().values()) else idle + 1
                if self._homes[k] not in self.client.nthreads() or idle == IDLE_LOOKS:
                    raise OSError("the worker is lost") from None
            except (InputError, *_lost()):
                raise
            except Exception as error:
                first = self._parts[k][1]
                raise InputError(
                    f"the block of X, Y or Y_metadata that begins with row {first} could not be "
                    f"read on its worker: {type(error).__name__}: {error}. Every block must be an "
                    "array with the shape that its Dask array says; look at a block by "
                    "X.blocks[0].compute()."
                ) from error

    def _wait_for_workers(self, lost: str | None) -> None:
        """Wait for a replacement of a lost worker; longer if the cluster has no worker left."""
        start = time.monotonic()
        while (passed := time.monotonic() - start) < ABSENT_SECONDS:
            found = len(self._workers(lost))
            if found >= len(self._parts) or (found and passed > RESTART_SECONDS):
                return
            time.sleep(0.1)
        if not self._workers(lost):
            raise ClusterError(
                f"the cluster has had no workers for {ABSENT_SECONDS:g} seconds. The model holds "
                "the best parameters seen: start workers, then call optimize() again."
            )

    def _workers(self, lost: str | None) -> list[str]:
        return [address for address in self.client.nthreads() if address != lost]

    def _place(self, k: int, lost: str | None = None) -> Any:
        """Have the worker with the fewest shards read part k; returns the future of the actor."""
        self._homes[k] = None
        found = self._workers(lost)
        if not found:
            raise ClusterError("the cluster has no workers: start some.")
        home = self._homes[k] = min(found, key=self._homes.count)
        where = {"workers": [home], "allow_other_workers": True}
        lazy, *rest = self._parts[k]
        X, Y, metadata = self.client.compute([*lazy], **where)
        return self.client.submit(
            ShardActor, X, Y, metadata, *rest, actor=True, pure=False, **where
        )


def _lost() -> tuple[type[BaseException], ...]:
    """Exceptions that a call to an actor on a lost Dask worker raises."""
    from distributed import KilledWorker

    return OSError, RuntimeError, KeyError, CancelledError, KilledWorker


def _fail() -> bytes:
    raise OSError("the worker is lost")


def distribute(
    X: Data,
    Y: Data,
    Y_metadata: Metadata,
    likelihood: Likelihood,
    missing: str,
    columns: Expected,
    *,
    nodes: int | None,
    family: PosteriorFamily,
) -> tuple[Rows, Rows, DaskEvaluator]:
    """Divide the rows of Dask arrays among the workers of the cluster and check them there.

    X, Y : Dask arrays (N, D) or (N,), and (N,) or (N, 1); Y and per-row values may be numpy arrays.

    Returns
    -------
    The rows as Dask arrays, a sample of them as numpy arrays, the evaluator.
    """
    from dask import delayed

    client, likelihood = _client(), copy_of(likelihood)  # A copy has not the model as parent.
    inputs: Any = with_checked_blocks(as_dask(X, "X"), "X")
    if inputs.ndim == 1:
        inputs = inputs[:, None]
    N = inputs.shape[0]
    targets: Any = with_checked_blocks(as_dask(Y, "Y", N), "Y")
    values: dict[str, Any] = row_values(Y_metadata, N)
    size = -(-N // max(1, len(client.nthreads())))
    inputs = inputs.rechunk((size, -1))
    first = np.cumsum([0, *inputs.chunks[0]])[:-1].tolist()
    by_block = blocks_of(inputs), blocks_of(targets, inputs), split_rows(values, inputs)
    blocks = zip(*by_block, first, strict=True)
    how = Reading(likelihood, missing, inputs.shape[1] if columns is None else columns, nodes)
    parts = [((x, y, delayed(kw)), start, how) for x, y, kw, start in blocks]
    evaluator = DaskEvaluator(client, parts, family)
    weights = values.pop("weights", None)
    y = targets[:, 0] if targets.ndim == 2 else targets
    return Rows(inputs, y, values, weights), evaluator.sample(SAMPLE_ROWS), evaluator


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
