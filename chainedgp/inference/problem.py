"""The problem: all that an optimiser sees of a model, the bound as a function of θ and q.

An optimiser maximises L(θ, q) + log p(θ) over the hyperparameters θ and q: the bound of the rows
and the hyperpriors. θ and q live in the leaves of the parts; the evaluator holds rows and sites.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from paramz import Param
from paramz.transformations import __fixed__

from ..data.rows import Rows, Selection, is_dask
from ..errors import NOT_FINITE, NumericalError
from ..linalg import Array, one_blas_thread
from ..parameters.paramz_model import ParamzModel, add_prior_gradients
from ..posterior.evaluator import Evaluator, Gradient, State
from ..posterior.gaussian import Gaussian, from_root, root_gradient
from ..posterior.shards import Shard
from .free_vector import FreeVector
from .interrupts import interrupts_wait
from .starts import Starts, farthest, input_spread, inputs_that_count
from .theta_and_q import Parts


class Problem:
    """The problem of inference: the bound of some rows as a function of a model's parameters.

    Parameters
    ----------
    parameters : the tree of all leaves; it knows their hyperpriors and counts their changes.
    parts : the same leaves as kernels, means, likelihood, inducing inputs and q.
    rows : the rows; those of a Dask array stay on its cluster.
    sample : rows in memory, all of them or some of a Dask array's, by which inputs are scaled.
    starts : starting values of the latents from the targets alone.
    evaluator : evaluates the bound of the rows and holds their sites.
    num_nodes : quadrature nodes per latent dimension; None has them chosen for every row.
    begun : the values of all leaves with which a new model began; None for a model that was loaded
        or given other rows, whose hyperparameters are to be kept.
    """

    def __init__(
        self,
        parameters: ParamzModel,
        parts: Parts,
        rows: Rows,
        sample: Rows,
        starts: Starts,
        evaluator: Evaluator,
        num_nodes: int | None,
        begun: list[Array] | None = None,
    ) -> None:
        self.parameters, self.parts, self.begun = parameters, parts, begun
        self.rows, self.sample, self.starts = rows, sample, starts
        self.evaluator, self.num_nodes = evaluator, num_nodes
        self.last_bound: float | None = None  # Parameters may have changed since.
        self.forget()

    def forget(self) -> None:
        """Forget the bound and gradient, so that they are evaluated anew when next asked for."""
        self._state: State | None = None
        # The bound is known at this count of changes of the parameters; the gradient, at this one
        # and at this count of gradients written to the leaves.
        self._state_at, self._gradient_at = -1, (-1, -1)

    def __getstate__(self) -> dict[str, object]:
        # A state holds closures, which cannot be copied; the leaves of a copy have no gradients.
        return {**self.__dict__, "_state": None, "_gradient_at": (-1, -1)}

    def copy(self) -> Problem:
        """An independent problem with copies of the parameters, sites and rows."""
        memo: dict[int, object] = {}
        with np.errstate(over="ignore"):  # For values above 709 paramz overflows on the way.
            self.parameters.copy(memo)
        return copy.deepcopy(self, memo)  # Its leaves are those that paramz has copied.

    def on(self, rows: Selection) -> Problem:
        """The same problem, with the same parameters, on some of its rows."""
        return self._of(self.shard(rows), self.parts)

    def smaller(self, rows: Selection, inducing: int) -> Problem:
        """A similar problem with few rows and inducing inputs, evenly taken, for rough fits.

        It has the same hyperparameters, but Z and q of its own.

        rows : indices of the rows in memory that it has. inducing : number of inducing inputs.
        """
        few = self.rows_at_hand.take(rows)
        spread = input_spread(self.sample.X)
        unordered = self.parts.unordered_columns
        Z = [
            leaf.values[farthest(leaf.values / spread, inducing, (), unordered)]
            for leaf in self.parts.Z
        ]
        shard = Shard(few, nodes=self.num_nodes, num_threads=1)
        return self._of(shard, self.parts.with_inducing(Z))

    def _of(self, shard: Shard, parts: Parts) -> Problem:
        given = self.parameters, parts, shard.rows, self.sample, self.starts
        evaluator = Evaluator([shard], self.evaluator.family)
        return Problem(*given, evaluator, self.num_nodes, self.begun)

    @property
    def is_new(self) -> bool:
        """Whether the model is new: nobody has fitted it, loaded it or set its parameters."""
        now = self.snapshot()
        return self.begun is not None and all(map(np.array_equal, now, self.begun))

    # ---- inducing inputs ------------------------------------------------------------------------

    @property
    def has_open_inducing(self) -> bool:
        """Whether a fit may choose the inducing inputs: nobody set their number or constrained any.

        Codes of levels among them are fixed in every model, and do not count.
        """
        leaves = [*self.parts.Z, *self.parts.q_mu, *self.parts.q_root]
        codes = {id(leaf): self.parts.level_entries(leaf) for leaf in self.parts.Z}
        touched = any(
            np.setdiff1d(entries, codes.get(id(leaf), ()) if what == __fixed__ else ()).size
            for leaf in leaves
            for what, entries in leaf.constraints.items()
        )
        priors = any(leaf.name in self.parameters.hyperpriors for leaf in leaves)
        return self.parts.open_inducing and len(leaves) == 3 and not (touched or priors)

    def use_inducing(self, Z: Array, q: Sequence[Gaussian]) -> None:
        """Replace the inducing inputs by Z (M, D), the same for all latents, and q by one at these.

        The number may change. The model then has new leaves Z, q_mu and q_sqrt: earlier snapshots
        are of no more use.
        """
        parts, sizes = self.parts, [len(Z)] * len(self.parts.kernels)
        means, roots = (np.stack(part, axis=1) for part in parts.family.packed(q, sizes))
        old = [*parts.Z, *parts.q_mu, *parts.q_root]
        with interrupts_wait():
            fixed = [parts.level_entries(Z), *([np.empty(0, dtype=int)] * (len(old) - 1))]
            new = self.parameters.replace_leaves(old, [Z, means, roots], fixed)
            parts.Z, parts.q_mu, parts.q_root = ([leaf] for leaf in new)
        self.forget()

    # ---- rows -----------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        """Number N of rows of the problem."""
        return self.rows.num_rows

    @property
    def is_local(self) -> bool:
        """Whether the problem's rows are in this process, not on a cluster."""
        return not is_dask(self.rows.X)

    @property
    def rows_at_hand(self) -> Rows:
        """The problem's rows, or some of them in memory if they are on a cluster."""
        return self.rows if self.is_local else self.sample

    @property
    def num_threads(self) -> int:
        """Number of threads for passes over the rows, if these are in this process."""
        return self.evaluator.shards[0].num_threads

    def use_threads(self, num_threads: int) -> None:
        """Set the number of threads for passes over the problem's rows."""
        for shard in self.evaluator.shards:
            shard.num_threads = num_threads

    def use_nodes(self, num_nodes: int | None) -> None:
        """Set the problem's quadrature nodes per latent dimension; None chooses them by row."""
        self.num_nodes = num_nodes
        self.evaluator.fix_nodes(num_nodes)
        self.forget()

    @contextmanager
    def same_nodes(self) -> Iterator[None]:
        """Keep every row's quadrature nodes inside the block as at the current parameters and q."""
        self.bound()
        self.evaluator.freeze_nodes(True)
        try:
            yield
        finally:
            self.evaluator.freeze_nodes(False)
            self.forget()

    def shard(
        self, rows: Selection, *, nodes: int | None = None, threads_of: Shard | None = None
    ) -> Shard:
        """Some of the problem's rows as a shard in memory.

        nodes : quadrature nodes if the model leaves them open; None has them chosen.
        threads_of : a shard whose threads it takes over.
        """
        return Shard(
            self.rows.take(rows),
            nodes=self.num_nodes or nodes,
            num_threads=self.num_threads,
            threads_of=threads_of,
        )

    @property
    def is_exact(self) -> bool:
        """Whether E[log p] of the likelihood needs no quadrature under this family of q."""
        shape = self.parts.family.marginal_shape(len(self.parts.kernels))
        return self.parts.likelihood.is_exact(np.empty((0, *shape)))

    # ---- the bound and its gradient -------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether the problem's bound at the current parameters and q is known."""
        return self._state is not None and self._state_at == self.parameters.num_changes

    def state(self, gradient: bool = False) -> State:
        """The evaluated state of the bound at the current parameters and q, computed once.

        gradient : whether the gradient at this state will be asked for: then one pass serves both.
        """
        if self._state is None or not self.is_current:
            self.set_hyperparameters()
            q = self.evaluator.over_latents(from_root, *self.parts.roots())
            self._state = self.evaluator.evaluate(q, gradient=gradient)
            self.evaluator.accept(0.0)
            self._state_at, self.last_bound = self.parameters.num_changes, self._state.bound
        return self._state

    def set_hyperparameters(self) -> None:
        """Set the evaluator to the current hyperparameters θ."""
        self.evaluator.set_hyperparameters(self.parts.theta())

    def bound(self) -> float:
        """The bound L(θ, q) at the current parameters and q, without hyperpriors."""
        bound = float(self.state().bound)
        if not np.isfinite(bound):
            raise NumericalError(NOT_FINITE)
        return bound

    def log_prior(self) -> float:
        """Log-density of the hyperpriors at the current parameters; 0 without hyperpriors."""
        return self.parameters.log_prior()

    def objective(self) -> float:
        """−(bound + log-priors), which an optimiser minimises."""
        return -(self.bound() + self.log_prior())

    def take_gradient(self) -> None:
        """Compute the gradient ∂(L + log prior) at the current parameters and q into the leaves."""
        if self._gradient_at != (self.parameters.num_changes, self.parts.num_gradients):
            with one_blas_thread():
                state = self.state(gradient=True)
                self.write_gradient(self.evaluator.gradient(state, sites_fixed=False), state)
            self._gradient_at = self.parameters.num_changes, self.parts.num_gradients

    def write_gradient(self, gradient: Gradient, state: State | None = None) -> None:
        """Put ∂(L + log prior) into the leaves; into those of q only if a state is given."""
        self.parts.write_gradient(gradient)
        if state is not None:
            root = self.evaluator.over_latents(root_gradient, state.q, gradient.S_bar)
            self.parts.write_gradient_in_q(gradient.mu, root)
        add_prior_gradients(self.parameters)

    @property
    def counts(self) -> tuple[float, int]:
        """How often the problem evaluated the likelihood of all rows so far, and at how many θ."""
        return self.evaluator.num_likelihood, self.evaluator.num_theta

    # ---- parameters -----------------------------------------------------------------------------

    def free_vector(self, *, with_q: bool = False, held: Collection[Param] = ()) -> FreeVector:
        """The free hyperparameters of the problem, and q if asked, as one unconstrained vector.

        held : leaves that stay as they are, as if they were fixed.
        """
        given = self.parts, inputs_that_count(self.sample), self.starts.scales
        return FreeVector(*given, with_q=with_q, held=held)

    def snapshot(self) -> list[Array]:
        """Values of all leaves, which `restore` puts back, here or in a copy of the problem."""
        return [np.array(leaf.values) for leaf in self.parts.leaves]

    def restore(self, snapshot: list[Array]) -> None:
        """Put the values of a snapshot back into the leaves: parameters and q."""
        for leaf, values in zip(self.parts.leaves, snapshot, strict=True):
            leaf[:] = values


class Best:
    """The best parameters and q of a problem so far, that is, those of the least score."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.score = problem, np.inf
        self._snapshot: list[Array] | None = None

    def offer(self, score: float) -> bool:
        """Keep the problem's parameters and q if their score is the least so far; whether it is."""
        if not score < self.score:
            return False
        self.score, self._snapshot = score, self.problem.snapshot()
        return True

    def restore(self) -> None:
        """Put the best parameters and q back into the problem, if any were kept."""
        if self._snapshot is not None:
            self.problem.restore(self._snapshot)
