"""A shard owns rows: inputs, targets, metadata, quadrature levels and sites. All passes over data.

A pass receives a small `Task` (priors, q, likelihood parameters: nothing of the size of the data)
and returns sums of size 1, M, M² and of the kernels' gradients. Rows go through in chunks that fit
the cache; chunks run on a thread pool and their results are added in the order of the rows, so the
number of threads changes no bit.

Sites, two numbers per row and latent, are in `sites`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from ..data.rows import Rows
from ..linalg import Array, Workspace, weighted_gram
from .sites import Sites
from .sparse import (
    Projection,
    marginals,
    marginals_for_gradient,
    project,
    reverse_chunk,
    reverse_sites,
)
from .sums import Evaluation, Gradients, Gram, Task

__all__ = ["Shard"]

CHUNK_ROWS = 2560  # at most: longer ones leave the cache, in shorter ones threads wait for the GIL
CHUNK_SIZE = 2**19  # numbers in an array of a chunk, (M, n), where M is large: 4 MB
FEWEST_ROWS = 256  # of a chunk, where fewer than two chunks would leave a thread idle
NARROW = 30.0  # precision of a narrow site, relative to the prior's
CACHE_BYTES = 128 * 2**20  # projections kept between the passes at the same hyperparameters

_work = Workspace()


class Shard(Sites):
    """Rows of the data with their sites, and the passes over them.

    Parameters
    ----------
    rows : the data that the passes go over; sites are kept on disk where the inputs are.
    nodes : quadrature nodes per dimension, or None to choose them row by row.
    threads_of : a shard whose threads, with the arrays that they keep, are used on.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        nodes: int | None = None,
        num_threads: int = 1,
        chunk_rows: int = CHUNK_ROWS,
        threads_of: Shard | None = None,
    ) -> None:
        super().__init__()
        self.rows, self.fixed_nodes = rows, nodes
        self.num_threads, self.chunk_rows = num_threads, chunk_rows
        self.levels: Any = None  # (n,) node levels; fresh in every evaluation unless frozen
        self.frozen = False
        self.wanted: Any = None  # (n,) levels that the last evaluation asked for
        self._cache: dict[tuple[int, int], list[Projection]] = {}
        self._cache_key: int | None = None
        self._cache_bytes = 0
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
        if threads_of is not None:
            self._pool = threads_of._pool

    def __getstate__(self) -> dict[str, Any]:
        self.drop_cache()  # closures cannot be pickled, and a copy must not share them
        self.forget()
        return {**self.__dict__, "_pool": None}

    @property
    def num_rows(self) -> int:
        """Number of rows n."""
        return self.rows.num_rows

    def start_sites(self, b: int) -> None:
        """All sites 0: q is the prior."""
        self.make_sites(b, self.num_rows, on_disk=self.rows.on_disk)

    def narrow(self, task: Task) -> None:
        """Current sites that hold every latent close to its mean function: a last resort."""

        def chunk(task: Task, rows: slice) -> None:
            lam1, lam2 = self._sites["current"][:, :, rows]
            for j, part in enumerate(self._projections(task, rows)):
                lam2[j] = NARROW / np.maximum(part.kff, 1e-300)
                lam1[j] = lam2[j] * part.mean

        for _ in self._map(chunk, task):
            pass

    # ---- passes -------------------------------------------------------------------------------

    def gram(self, task: Task) -> Gram:
        """Λ and b of the current sites: no likelihood is evaluated."""
        return self._sum(self._gram_chunk, task)

    def positive_proposal(self, task: Task) -> Gram:
        """Replace the proposal by one without negative curvature; its Λ and b.

        λ2⁺ = max(λ2, 0) and λ1⁺ = g_m + λ2⁺ m: the same gradient, and a precision that is positive
        definite for every step length.
        """
        return self._sum(self._positive_chunk, task)

    def evaluate(self, task: Task) -> Evaluation:
        """Σ_i E_q[log p(y_i | f)] (Saul et al. 2016, eq. 6), with its gradients in m and v.

        The gradients are kept as trial sites.

        A task with left factors asks for the gradients at fixed q too: in the same pass, so that
        kernels are evaluated once and nothing needs to be kept.
        """
        if not self._sites:
            self.start_sites(len(task.priors))
        if self.levels is None:
            self.levels = np.full(self.num_rows, self.fixed_nodes or 0, dtype=np.int16)
            self.wanted = self.levels.copy()
        return self._sum(self._evaluate_chunk, task)

    def gradient(self, task: Task) -> Gradients:
        """Gradients in kernels, Z and means; the proposal holds those in m and v."""
        return self._sum(self._gradient_chunk, task)

    def fix_nodes(self, nodes: int | None) -> None:
        """Other nodes per dimension from now on, or None to choose them row by row."""
        self.fixed_nodes, self.levels = nodes, None

    def freeze_nodes(self, frozen: bool) -> None:
        """Keep the node levels as they are (within a line search), or choose them afresh."""
        self.frozen = frozen

    def raise_nodes(self) -> None:
        """Give every row at least the nodes it wanted in the last evaluation."""
        np.maximum(self.levels, self.wanted, out=self.levels)

    def marginals(self, task: Task) -> tuple[Array, Array]:
        """Means and variances of q(f_j(x_i)), each (n, b)."""
        b = len(task.priors)
        m, v = np.empty((b, self.num_rows)), np.empty((b, self.num_rows))

        def chunk(task: Task, rows: slice) -> None:
            X = self.rows.inputs(rows)
            for j, (prior, q) in enumerate(zip(task.priors, task.q, strict=True)):
                m[j, rows], v[j, rows], _ = marginals(project(prior, X), q)

        for _ in self._map(chunk, task):
            pass
        return m.T, v.T

    # ---- one chunk ----------------------------------------------------------------------------

    def _gram_chunk(self, task: Task, rows: slice) -> Gram:
        lam1, lam2 = self._sites["current"][:, :, rows]
        Lam, b = [], []
        for j, chunk in enumerate(self._projections(task, rows)):
            Lam.append(weighted_gram(chunk.A, lam2[j]))
            b.append(chunk.A @ (lam1[j] - lam2[j] * chunk.mean))
        return Gram(Lam, b)

    def _positive_chunk(self, task: Task, rows: slice) -> Gram:
        lam1, lam2 = self._sites["proposal"][:, :, rows]  # views
        Lam, b = [], []
        for j, chunk in enumerate(self._projections(task, rows)):
            negative = np.minimum(lam2[j], 0.0)
            lam1[j] -= negative * (chunk.mean + task.q[j].mu @ chunk.A)
            lam2[j] -= negative
            Lam.append(weighted_gram(chunk.A, lam2[j]))
            b.append(chunk.A @ (lam1[j] - lam2[j] * chunk.mean))
        return Gram(Lam, b)

    def _evaluate_chunk(self, task: Task, rows: slice) -> Evaluation:
        chunks = self._projections(task, rows, keep=not task.left)
        n, b = chunks[0].kff.size, len(chunks)
        m, v, floored = np.empty((b, n)), np.empty((b, n)), np.empty((b, n), dtype=bool)
        PA = []
        for j, chunk in enumerate(chunks):
            if task.left:
                PA.append(_work.array(f"PA{j}", *chunk.Kuf.shape))
                m[j], v[j], floored[j] = marginals_for_gradient(
                    chunk, task.left[j], PA[j], whitened=task.whitened
                )
            else:
                m[j], v[j], floored[j] = marginals(chunk, task.q[j])
        y = self.rows.targets(rows)
        kw = self.rows.keywords(rows, **task.parameters)
        nodes, unmet, raised = self._nodes(task, rows, y, m.T, v.T, kw)
        value, dm, dv, dtheta = task.likelihood.expectation(y, m.T, v.T, nodes, **kw)
        g_m, g_v = np.array(dm.T), np.array(dv.T)  # (b, n), our own copies
        g_v[floored] = 0.0
        weights = None if self.rows.weights is None else self.rows.weights[rows]
        if weights is not None or task.scale != 1.0:
            w = task.scale * (1.0 if weights is None else weights)
            value, g_m, g_v = value * w, g_m * w, g_v * w
            dtheta = dtheta * np.reshape(w, (-1, 1))
        trial = self._sites["trial"]
        trial[1, :, rows] = -2.0 * g_v
        trial[0, :, rows] = g_m - 2.0 * g_v * m
        gradients = None
        if task.left:
            parts = zip(chunks, g_m, g_v, task.left, PA, strict=True)
            gradients = Gradients([reverse_chunk(*part) for part in parts])
        A = [chunk.A if task.whitened else chunk.Kuf for chunk in chunks]
        return Evaluation(
            float(value.sum()),
            float(np.abs(value).sum()),
            dtheta.sum(0),
            [weighted_gram(*pair) for pair in zip(A, g_v, strict=True)],
            [a @ g for a, g in zip(A, g_m, strict=True)],
            unmet,
            raised,
            gradients,
        )

    def _gradient_chunk(self, task: Task, rows: slice) -> Gradients:
        lam1, lam2 = self._sites["current"][:, :, rows]
        new1, new2 = self._sites["proposal"][:, :, rows]
        parts = []
        for j, chunk in enumerate(self._projections(task, rows)):
            m = chunk.mean + task.q[j].mu @ chunk.A
            g_v, g_m = -0.5 * new2[j], new1[j] - new2[j] * m
            if not task.S_mu_bar:
                PA = _work.array("PA0", *chunk.A.shape)
                np.matmul(task.left[j][:, :-1], chunk.A, out=PA)
                parts.append(reverse_chunk(chunk, g_m, g_v, task.left[j], PA))
                continue
            r = lam1[j] - lam2[j] * chunk.mean
            parts.append(reverse_sites(chunk, g_m, g_v, task.left[j], lam2[j], r, task.S_mu_bar[j]))
        return Gradients(parts)

    def _nodes(
        self, task: Task, rows: slice, y: Array, m: Array, v: Array, kw: dict[str, Any]
    ) -> tuple[Any, int, int]:
        if self.fixed_nodes is not None or task.likelihood.exact_expectation:
            return self.fixed_nodes or 1, 0, 0  # an exact expectation has no use for them
        wanted = self.levels[rows]
        if not (self.frozen and task.likelihood.tries_nodes):
            wanted = task.likelihood.required_nodes(y, m, v, **kw)
        self.wanted[rows] = wanted
        if not self.frozen:
            self.levels[rows] = wanted
        unmet = 0
        if task.count_unmet:
            unmet = int(np.count_nonzero(task.likelihood.unmet(y, m, v, **kw)))
        levels = self.levels[rows]
        return levels, unmet, int(np.count_nonzero(wanted > levels))

    # ---- chunks, threads and the cache ----------------------------------------------------------

    def _projections(self, task: Task, rows: slice, keep: bool = True) -> list[Projection]:
        kept = self._cache.get((task.key, rows.start))
        if kept is not None:
            return kept
        X = self.rows.inputs(rows)
        if not keep:
            shapes = [(f"A{j}", len(prior.Z), len(X)) for j, prior in enumerate(task.priors)]
            pairs = zip(task.priors, shapes, strict=True)
            return [
                project(prior, X, _work.array(*shape), whiten=task.whitened)
                for prior, shape in pairs
            ]
        fresh = [project(prior, X) for prior in task.priors]
        size = 3 * 8 * sum(chunk.A.size for chunk in fresh)  # A, Kuf, what the pullback keeps
        if self._cache_bytes + size <= CACHE_BYTES:
            self._cache_bytes += size
            self._cache[task.key, rows.start] = fresh
        return fresh

    def _new_key(self, key: int) -> None:
        if key != self._cache_key:
            self._cache.clear()
            self._cache_key, self._cache_bytes = key, 0

    def drop_cache(self) -> None:
        """Free the projections that are kept between passes."""
        self._cache.clear()
        self._cache_key, self._cache_bytes = None, 0

    def _sum(self, work: Callable[[Task, slice], Any], task: Task) -> Any:
        total = None
        for part in self._map(work, task):
            if total is None:
                total = part
            else:
                total.add(part)
        return total

    def _map(self, work: Callable[[Task, slice], Any], task: Task) -> Iterator[Any]:
        """Results of all chunks in the order of the rows; at most a few are in flight."""
        self._new_key(task.key)
        M = max(len(prior.Z) for prior in task.priors)
        return self.in_threads(work, [(task, rows) for rows in self._slices(M)])

    def _slices(self, M: int) -> list[slice]:
        """The rows of every chunk: an even number of equal parts, for two threads or more."""
        fewest = min(FEWEST_ROWS, self.chunk_rows)
        most = min(self.chunk_rows, max(fewest, CHUNK_SIZE // M))
        pairs = -(-self.num_rows // (2 * most))
        size = max(fewest, -(-self.num_rows // (2 * pairs)))
        return self.rows.chunks(size)

    def in_threads(
        self, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """work(*job) of all jobs, in their order; at most a few are in flight."""
        if self.num_threads == 1 or len(jobs) == 1:
            for job in jobs:
                yield _quiet(work, *job)
            return
        pool, flying = self._threads(), deque[Future[Any]]()
        try:
            for job in jobs:
                flying.append(pool.submit(_quiet, work, *job))
                if len(flying) > 2 * self.num_threads:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:  # after an error nothing may go on in the background
            for future in flying:
                future.cancel()
            wait(flying)

    def _threads(self) -> ThreadPoolExecutor:
        """The pool of this process; threads do not survive a fork."""
        key = (os.getpid(), self.num_threads)
        if self._pool is None or self._pool[0] != key:
            self._pool = (key, ThreadPoolExecutor(self.num_threads))
        return self._pool[1]


def _quiet(work: Callable[..., Any], *job: Any) -> Any:
    """Without floating-point warnings: what is not finite shows in the bound, which is checked."""
    with np.errstate(all="ignore"):  # belongs to a thread, so it is set in each
        return work(*job)
