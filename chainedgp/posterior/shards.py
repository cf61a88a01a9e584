"""Passes over rows of data: a shard owns inputs, targets, metadata, quadrature levels and sites.

A pass receives a small `Task` (priors, q, likelihood parameters: nothing of the size of the data)
and returns sums of size 1, M, M² and of the kernels' gradients. Rows go through in chunks that fit
the cache; chunks run on a thread pool and their results are added in the order of the rows, so the
number of threads changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from ..data.rows import Rows, rows_of
from ..data.types import Keywords
from ..likelihoods.density_check import check_not_nan, row_numbers
from ..likelihoods.ties import expectation
from ..linalg import Array, Indices, Workspace
from .family import Marginals
from .replicates import Replicates, input_numbers
from .sites import Sites
from .sparse import Projection, project
from .sums import Evaluation, Gradients, Gram, S, Task
from .threads import Threads

# A chunk has at most so many rows: the arrays of longer ones leave the cache of the processor, and
# in shorter ones threads wait for the GIL.
CHUNK_ROWS = 2560
CHUNK_SIZE = 2**19  # Where M is large, an array (M, n) of a chunk has about so many numbers, 4 MB.
FEWEST_ROWS = 256  # Rows are split into two chunks, for two threads, if each has so many rows.
# A chunk has at most so many rows, however many of them share their inputs.
MOST_ROWS = 2**16
# Projections of at most this size are kept for the next pass at the same hyperparameters.
CACHE_BYTES = 128 * 2**20

R = TypeVar("R")

_work = Workspace()


class Shard:
    """A shard: rows of the data with their sites, and the passes over them.

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
        self.rows, self.chunk_rows = rows, chunk_rows
        self.threads: Threads = threads_of.threads if threads_of else Threads(num_threads)
        self.frozen = False  # whether rows keep their node levels from one evaluation to the next
        self.rough = False  # whether few nodes will do where it takes trials to know how many
        self.fix_nodes(nodes)
        self._sites: Sites | None = None
        self._cache: dict[tuple[int, int], list[Projection]] = {}
        self._cache_key: int | None = None
        self._cache_bytes = 0
        # A minibatch, which comes with the threads of another shard, is gone before a search for
        # rows with the same inputs would pay.
        searched = not (threads_of or rows.on_disk)
        self._numbers: Indices | None = input_numbers(rows.X) if searched else None
        self._replicates: dict[tuple[int, int], Replicates | None] = {}
        self._widths: dict[int, int] = {}  # how many rows a chunk may have, by its projections

    def __getstate__(self) -> dict[str, Any]:
        self.drop_cache()  # Closures cannot be pickled, and a copy must not share them.
        if self._sites is not None:
            self._sites.forget()
        return self.__dict__

    @property
    def num_rows(self) -> int:
        """Number of rows n of a shard."""
        return self.rows.num_rows

    @property
    def num_threads(self) -> int:
        """Threads on which the passes of a shard run."""
        return self.threads.count

    @num_threads.setter
    def num_threads(self, count: int) -> None:
        self.threads.count = count

    # ---- sites ----------------------------------------------------------------------------------

    @property
    def has_sites(self) -> bool:
        """Whether the sites of a shard have been started."""
        return self._sites is not None

    @property
    def sites(self) -> Sites:
        """The sites of all rows of a shard, after `start_sites` or an evaluation."""
        if self._sites is None:
            raise RuntimeError("start_sites comes first")
        return self._sites

    def start_sites(self, shape: tuple[int, ...]) -> None:
        """Set all sites of a shard to 0, of this shape for each row: q is the prior."""
        self._sites = Sites((*shape, self.num_rows), on_disk=self.rows.on_disk)

    def load_sites(self, sites: Array) -> None:
        """Set current and committed sites of a shard from an array; its last axis are the rows."""
        self.start_sites(sites.shape[:-1])
        self.sites.load(sites)

    def clip(self, task: Task) -> None:
        """Drop a shard's current sites of negative precision: a start from which q exists."""
        task.setting.family.clip(self.sites.current)

    def narrow(self, task: Task) -> None:
        """Set a shard's sites to hold every latent close to its mean function: a last resort."""

        def chunk(task: Task, rows: slice) -> None:
            chunks = self._spread(self._projections(task, rows), rows)
            task.setting.family.narrow(chunks, self.sites.current[..., rows])

        for _ in self._map(chunk, task):
            pass

    # ---- passes -------------------------------------------------------------------------------

    def gram(self, task: Task) -> Gram:
        """Sum the current sites of a shard to Λ and b of q: no likelihood is evaluated."""
        return self._sum(self._gram_chunk, task)

    def positive_proposal(self, task: Task) -> Gram:
        """Replace a shard's proposed sites by some without negative curvature; their Λ and b.

        The slope of the bound at q stays, and q exists after a step of every length.
        """
        return self._sum(self._positive_chunk, task)

    def evaluate(self, task: Task) -> Evaluation:
        """Σ_i E_q[log p(y_i | f)] (Saul et al. 2016, eq. 6), with its slopes in m and V.

        The slopes are kept as trial sites.

        A task with left factors asks for the gradients at fixed q too: in the same pass, so that
        kernels are evaluated once and nothing needs to be kept.
        """
        if not self.has_sites:
            self.start_sites(task.setting.family.site_shape(len(task.setting.projectors)))
        return self._sum(self._evaluate_chunk, task)

    def gradient(self, task: Task) -> Gradients:
        """Gradients in kernels, Z and means by a pass over a shard of rows.

        The proposal holds those in m and V.
        """
        return self._sum(self._gradient_chunk, task)

    def fix_nodes(self, nodes: int | None) -> None:
        """Use `nodes` quadrature nodes per dimension, or choose them row by row with None."""
        self.fixed_nodes = nodes
        # (n,) levels by which rows have nodes, and those that the last evaluation asked for
        self.levels: Indices = np.full(self.num_rows, nodes or 0, dtype=np.int16)
        self.wanted: Indices = self.levels.copy()

    def freeze_nodes(self, frozen: bool) -> None:
        """Keep the levels of quadrature nodes (within a line search), or choose them afresh."""
        self.frozen = frozen

    def use_few_nodes(self, rough: bool) -> None:
        """Do without trials of quadrature nodes for as long as fits are rough, or no more."""
        self.rough = rough

    def raise_nodes(self) -> None:
        """Give every row at least the quadrature nodes it wanted in the last evaluation."""
        np.maximum(self.levels, self.wanted, out=self.levels)

    def marginals(self, task: Task) -> tuple[Array, Array]:
        """A shard's means (n, b) of q(f(x_i)), variances (n, b) or covariances (n, b, b)."""

        def chunk(task: Task, rows: slice) -> Marginals:
            X = self._inputs(rows)
            chunks = [project(projector, X) for projector in task.setting.projectors]
            return self._of_rows(task.setting.family.marginals(chunks, task.request.q), rows)

        parts = list(self._map(chunk, task))
        m = np.concatenate([part.m for part in parts], axis=-1)
        return m.T, np.concatenate([part.V for part in parts], axis=-1).T

    # ---- one chunk ----------------------------------------------------------------------------

    def _gram_chunk(self, task: Task, rows: slice) -> Gram:
        chunks = self._projections(task, rows)
        return task.setting.family.gram(chunks, self._by_inputs(self.sites.current, rows))

    def _positive_chunk(self, task: Task, rows: slice) -> Gram:
        chunks, proposal = self._projections(task, rows), self.sites.proposal[..., rows]
        task.setting.family.make_positive(self._spread(chunks, rows), task.request.q, proposal)
        return task.setting.family.gram(chunks, self._by_inputs(self.sites.proposal, rows))

    def _evaluate_chunk(self, task: Task, rows: slice) -> Evaluation:
        """A chunk's part of Σ_i E_q[log p(y_i | f(x_i))], its slopes and what is made of them."""
        family, likelihood = task.setting.family, task.setting.likelihood
        left, products = task.request.left, None
        chunks = self._projections(task, rows, keep=not left)
        if left:
            marginals, products = family.marginals_for_gradient(chunks, left)
        else:
            marginals = family.marginals(chunks, task.request.q)
        marginals, same = self._of_rows(marginals, rows), self._same(rows)
        y = self.rows.targets(rows)
        kw = self.rows.keywords(rows, **task.setting.parameters)
        m, V = marginals.m.T, marginals.V.T
        nodes, unmet, raised = self._nodes(task, rows, y, m, V, kw)
        value, dm, dV, dtheta = expectation(task.setting.ties, likelihood, y, m, V, nodes, kw)
        if np.isnan(value.sum() + dm.sum() + dV.sum()):
            bad = np.flatnonzero(np.isnan(np.column_stack([value, dm])).any(1))
            with row_numbers(rows.start + bad):
                check_not_nan(likelihood, y[bad], m[bad], V[bad], rows_of(kw, bad))
        g_m, g_V = np.array(dm.T), np.array(dV.T)  # These are copies of our own, rows last.
        g_V[marginals.floored] = 0.0
        weights, scale = self.rows.weights, task.setting.scale
        if weights is not None or scale != 1.0:
            w = scale * (1.0 if weights is None else weights[rows])
            value, g_m, g_V = value * w, g_m * w, g_V * w
            dtheta = dtheta * np.reshape(w, (-1, 1))
        family.write_sites(self.sites.trial[..., rows], marginals.m, g_m, g_V)
        if same is not None:
            g_m, g_V = same.gather(g_m), same.gather(g_V)
        gradients = None
        if left:
            gradients = Gradients(family.reverse(chunks, g_m, g_V, left, products))
        return Evaluation(
            float(value.sum()),
            float(np.abs(value).sum()),
            dtheta.sum(0),
            *family.sums(chunks, g_m, g_V),
            unmet,
            raised,
            gradients,
        )

    def _gradient_chunk(self, task: Task, rows: slice) -> Gradients:
        family, request = task.setting.family, task.request
        chunks, current = self._projections(task, rows), self._by_inputs(self.sites.current, rows)
        g_m, g_V = family.slopes(chunks, request.q, self._by_inputs(self.sites.proposal, rows))
        if not request.S_mu_bar:
            return Gradients(family.reverse(chunks, g_m, g_V, request.left))
        factors = request.left, request.S_mu_bar
        return Gradients(family.reverse_sites(chunks, g_m, g_V, current, *factors))

    def _nodes(
        self, task: Task, rows: slice, y: Array, m: Array, v: Array, kw: Keywords
    ) -> tuple[int | Indices, int, int]:
        """Quadrature nodes of some rows; how many rows no number serves, and how many want more."""
        if self.fixed_nodes is not None or task.setting.likelihood.is_exact(v):
            return self.fixed_nodes or 1, 0, 0  # An exact expectation has no use for nodes.
        few = task.setting.likelihood.few_nodes if self.rough else None
        if few is not None:
            return np.full(len(y), few), 0, 0
        wanted = self.levels[rows]
        if not (self.frozen and task.setting.likelihood.tries_nodes):
            wanted = task.setting.likelihood.required_nodes(y, m, v, **kw)
        self.wanted[rows] = wanted
        if not self.frozen:
            self.levels[rows] = wanted
        unmet = 0
        if task.request.count_unmet:
            unmet = int(np.count_nonzero(task.setting.likelihood.unmet(y, m, v, **kw)))
        levels = self.levels[rows]
        return levels, unmet, int(np.count_nonzero(wanted > levels))

    # ---- rows that share their inputs -----------------------------------------------------------

    def _same(self, rows: slice) -> Replicates | None:
        """The replicates among rows of a chunk; None where (nearly) all have their own inputs."""
        if self._numbers is None:
            return None
        key = rows.start, rows.stop
        if key not in self._replicates:
            self._replicates[key] = Replicates.among(self._numbers[rows])
        return self._replicates[key]

    def _inputs(self, rows: slice) -> Array:
        """The distinct inputs (d, D) of a chunk of rows; all n where rows do not share them."""
        X, same = self.rows.inputs(rows), self._same(rows)
        return X if same is None else X[same.first]

    def _of_rows(self, marginals: Marginals, rows: slice) -> Marginals:
        """The marginals q(f) of every row, from those of distinct inputs."""
        same = self._same(rows)
        if same is None:
            return marginals
        m, V, floored = marginals
        return Marginals(same.spread(m), same.spread(V), same.spread(floored))

    def _by_inputs(self, sites: Array, rows: slice) -> Array:
        """The sites of a chunk, added up over rows that share their inputs."""
        same = self._same(rows)
        return sites[..., rows] if same is None else same.gather(sites[..., rows])

    def _spread(self, chunks: list[Projection], rows: slice) -> list[Projection]:
        """Projections with a column for every row of a chunk, for what is no sum over rows."""
        same = self._same(rows)
        if same is None:
            return chunks
        return [
            c._replace(A=same.spread(c.A), kff=same.spread(c.kff), mean=same.spread(c.mean))
            for c in chunks
        ]

    # ---- chunks and the cache -------------------------------------------------------------------

    def _projections(self, task: Task, rows: slice, keep: bool = True) -> list[Projection]:
        """Projections A of a chunk of rows for each latent; where the task asks for it, Kuf as A.

        keep : whether they will be asked for again at the same hyperparameters.
        """
        chunks = self._cache.get((task.setting.key, rows.start))
        if chunks is not None:
            return chunks if task.request.whitened else [c._replace(A=c.Kuf) for c in chunks]
        X = self._inputs(rows)
        if not keep:
            return [
                project(p, X, _work.array(f"A{j}", len(p.Z), len(X)), whiten=task.request.whitened)
                for j, p in enumerate(task.setting.projectors)
            ]
        chunks = [project(projector, X) for projector in task.setting.projectors]
        # A, Kuf and what the pullback keeps are counted.
        size = 3 * 8 * sum(chunk.A.size for chunk in chunks)
        if self._cache_bytes + size <= CACHE_BYTES:
            self._cache_bytes += size
            self._cache[task.setting.key, rows.start] = chunks
        return chunks

    def _new_key(self, key: int) -> None:
        if key != self._cache_key:
            self._cache.clear()
            self._cache_key, self._cache_bytes = key, 0

    def drop_cache(self) -> None:
        """Free the projections A of rows that are kept between passes."""
        self._cache.clear()
        self._cache_key, self._cache_bytes = None, 0

    def _sum(self, work: Callable[[Task, slice], S], task: Task) -> S:
        parts = self._map(work, task)
        total = next(parts)
        for part in parts:
            total.add(part)
        return total

    def _map(self, work: Callable[[Task, slice], R], task: Task) -> Iterator[R]:
        """Results of a pass over all chunks in the order of rows; at most a few are in flight."""
        self._new_key(task.setting.key)
        M = max(len(projector.Z) for projector in task.setting.projectors)
        return self.threads.map(work, [(task, rows) for rows in self._slices(M)])

    def _slices(self, M: int) -> list[slice]:
        """The rows of every chunk of a pass: an even number of equal parts, for threads."""
        fewest = min(FEWEST_ROWS, self.chunk_rows)
        most = min(self.chunk_rows, max(fewest, CHUNK_SIZE // M))
        if self._numbers is not None and self.num_rows > 2 * most:
            most = self._widened(most, self._numbers)
        pairs = -(-self.num_rows // (2 * most))
        size = max(fewest, -(-self.num_rows // (2 * pairs)))
        return self.rows.chunks(size)

    def _widened(self, most: int, numbers: Indices) -> int:
        """How many rows that share inputs a chunk may have, with the projections of `most`."""
        if most not in self._widths:
            size = most
            while size < min(MOST_ROWS, self.num_rows):
                if len(np.unique(numbers[: 2 * size])) > most:
                    break
                size *= 2
            self._widths[most] = size
        return self._widths[most]
