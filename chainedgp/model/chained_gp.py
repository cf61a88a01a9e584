"""The chained Gaussian process: joins kernels, means, inducing inputs and a likelihood."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from paramz import Model, Param, Parameterized

from .. import plotting
from ..assessment.check import ROWS, Check, check
from ..assessment.components import component
from ..assessment.loo import LOO, REFIT, loo
from ..assessment.summary import summary
from ..data.arguments import as_name, one_of, positive_int, thread_count
from ..data.frames import as_column_names, column_names
from ..data.labels import class_names_of
from ..data.names import checks_names, meant
from ..data.rows import Rows, is_dask
from ..data.tables import Table
from ..data.types import Data, FilePath, Frame, Metadata, Seed
from ..distributed import distribute
from ..errors import (
    ArgumentError,
    CensoringWarning,
    InputError,
    NoiseWarning,
    TargetWarning,
    UnfittedWarning,
)
from ..inference.default_priors import default_priors
from ..inference.growth import FIRST
from ..inference.inducing import select_inducing
from ..inference.optimize import optimize, optimize_restarts
from ..inference.problem import Problem
from ..inference.rescue import NO_LIMIT, rows_without_noise
from ..inference.result import OptimizationResult, TracePoint
from ..inference.starts import (
    default_kernels,
    default_means,
    start_parameters,
    starts_from,
    warn_of_scaling,
)
from ..inference.stochastic import BatchArguments
from ..inference.theta_and_q import Parts, leaves_below
from ..kernels import Kernel, as_kernel
from ..likelihoods import Likelihood
from ..likelihoods.density_check import check_density
from ..likelihoods.ties import Ties
from ..linalg import Array, one_blas_thread
from ..means import MeanFunction
from ..parameters.paramz_model import ParamzModel
from ..parameters.parts import LatentList
from ..plotting.grids import Place
from ..posterior.choice import POSTERIORS, PosteriorName, family_of
from ..posterior.evaluator import Evaluator
from ..posterior.family import PosteriorFamily
from ..posterior.shards import Shard
from ..posterior.sparse import make_prior
from ..predictive.distribution import Predictive
from ..predictive.predictor import Predictor
from ..sampling.around import Around, around_the_fit
from ..sampling.nuts import Sampled, sample
from .arguments import (
    Kernels,
    Means,
    as_mean,
    checked_inducing,
    checked_jitter,
    checked_likelihood,
    one_per_latent,
)
from .files import write_model
from .files.contents import Contents, StoredRows, leaves_of, restore_leaves
from .variational import variational_leaves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ChainedGP"]

PRIORS = ("auto", "default")  # Beside None these are the choices of default priors.
TIES = ("auto", "spread")  # Beside None these are the choices for repeated targets.
# These names paramz sets on a copy, and fits bring the others.
BY_PARAMZ = ("observers", "cache", "logger", "optimization_runs", "preferred_optimizer")
SET_LATER = (*BY_PARAMZ, "last_result")
JITTER = 1e-8  # By default this share of its mean is added to the diagonal of Kuu.


class ChainedGP(ParamzModel):
    """A likelihood whose b parameters are driven by b Gaussian processes, fitted variationally.

        y_i ~ p(y | f_1(x_i), …, f_b(x_i); θ),    f_j ~ GP(mean_j, k_j)

    Sparse inducing-point posterior q(u_1) … q(u_b), whitened (Saul et al. 2016, eqs. 1 and 2), or
    q(u_1, …, u_b) with correlations between latents.

    Parameters
    ----------
    X : (N, D) inputs; numpy, lists, data frames; (N,) becomes one column. Copied, but a memmap is
        referenced. A Dask array stays on its cluster; see `chainedgp.distributed`.
    Y : (N,) or (N, 1) targets. Likelihoods of classes take codes 0, 1, 2, …, text (classes are
        sorted) or categories (in their order); `m.class_names` keeps the labels.
    likelihood : a `Likelihood`; copied.
    kernels : None (an ARD RBF per latent, with two or more inputs plus a `Linear` part for the
        first), one kernel (copied for each latent) or one per latent.
    Z : None (chosen from X), (M, D) inducing inputs shared by all latents, or one array per latent.
    mean_functions : None (a constant per latent, started from the data), one, or one per latent.
    Y_metadata : dict of per-row values (N,), (N, 1) or scalar: what the likelihood's
        `log_density` takes by keyword, and `weights`.
    num_inducing : number M of inducing inputs where Z is None. None begins with 100, or with all
        distinct rows if there are fewer, and has the default method of `optimize` add rows while
        that is worth its time: up to 400, fewer where N M² would be above 4e8.
    name : name of the model.
    jitter : added to the diagonal of Kuu, relative to its mean; a constant of the model.
    num_nodes : quadrature nodes per latent dimension; None chooses them for every row.
    num_threads : threads for passes over the data; None reads CHAINEDGP_NUM_THREADS, else uses all
        cores available to the process.
    posterior : "mean_field", q(u_1) … q(u_b), as in the paper; "joint", q(u_1, …, u_b), at about
        twice the cost of an evaluation; or "auto", which takes the joint one for likelihoods whose
        latents are coupled: for these the bands of a mean field are too narrow.
    missing : "raise", or "drop" to leave out the rows whose target is NaN.
    priors : "auto" puts weakly informative priors on the parameters of default kernels and, beside
        these, on some of the likelihood, such as ν of a Student-t; kernels that are given are left
        alone, and the likelihood with them. "default" puts the same priors on any kernels; None
        puts none. `m.summary()` shows them, `m.set_prior` changes single ones.
    ties : "auto" spreads targets that several rows share, in models with default kernels: a
        repeated target, as rounding makes it, counts as known to a quarter of the distance to
        others, so that no noise vanishes there (`likelihoods.ties.Ties`). "spread" does so with any
        kernels; None takes them for exact. `m.summary()` tells what was found.
    input_names : D names of the columns of X, for prints, plots and the `active_dims` of kernels;
        None takes those of a data frame. Frames to predict at must have the columns of the frame
        that the model was built with or, if that was an array, of these names.

    Raises
    ------
    InputError : an argument that cannot be used, before any work is done.
    """

    likelihood: Likelihood
    input_names: list[str] | None
    target_name: str | None
    _column_names: tuple[str, ...] | None  # Frames to predict at must have these columns.
    _problem: Problem | None = None  # A model that was stored without its rows has none.
    _family: PosteriorFamily  # what q may be
    _given_kernels: bool = False  # Their values are where a fit begins.
    _ties: Ties | None  # what stands for targets that several rows share
    _warned_unfitted: bool = False  # Each of these warnings comes once for a model.
    _warned_censoring: bool = False

    @checks_names
    def __init__(
        self,
        X: Data,
        Y: Data,
        likelihood: Likelihood,
        kernels: Kernels = None,
        Z: Data | None = None,
        mean_functions: Means = None,
        Y_metadata: Metadata = None,
        num_inducing: int | None = None,
        name: str = "chained_gp",
        *,
        jitter: float = JITTER,
        num_nodes: int | None = None,
        num_threads: int | None = None,
        missing: str = "raise",
        priors: str | None = "auto",
        ties: str | None = "auto",
        input_names: Sequence[str] | None = None,
        posterior: PosteriorName = "auto",
    ) -> None:
        super().__init__(as_name(name))
        with_priors = priors is not None and one_of(priors, PRIORS, "priors") == "default"
        with_priors |= priors == "auto" and kernels is None
        self._spreads_ties = ties is not None and one_of(ties, TIES, "ties") == "spread"
        self._spreads_ties |= ties == "auto" and kernels is None
        self._given_kernels = kernels is not None
        self._set_options(num_nodes, num_threads)
        jitter = checked_jitter(jitter)
        self.likelihood = checked_likelihood(likelihood)
        self._family = family_of(one_of(posterior, POSTERIORS, "posterior"), self.likelihood)
        missing = one_of(missing, ("raise", "drop"), "missing")
        evaluator = self._read_data(X, Y, Y_metadata, missing)
        if input_names is not None:
            self.input_names = as_column_names(input_names, self.X.shape[1])
            self._column_names = self._column_names or tuple(self.input_names)
        warn_of_scaling(self._sample.X, self.input_names)
        own_kernels, own_means = self._make_parts(kernels, mean_functions)
        M = FIRST if num_inducing is None else positive_int(num_inducing, "num_inducing")
        inducing = (
            select_inducing(own_kernels[0], self._sample.X, M, np.random.default_rng(0))
            if Z is None
            else checked_inducing(Z, len(self.latents), self.X.shape[1])
        )
        self._link(own_kernels, own_means, inducing, jitter)
        self._parts.open_inducing = Z is None and num_inducing is None
        if with_priors:
            for leaf, prior in default_priors(self._parts, self._sample.X, self._starts.scales):
                self.set_prior(leaf, prior)
        self._problem = self._make_problem(evaluator)
        self._problem.begun = self._problem.snapshot()

    # ---- construction ---------------------------------------------------------------------------

    def _set_options(self, num_nodes: int | None, num_threads: int | None) -> None:
        self.num_nodes, self.num_threads = num_nodes, num_threads

    def _read_data(self, X: Data, Y: Data, Y_metadata: Metadata, missing: str) -> Evaluator:
        self._column_names = column_names(X)
        self.input_names = list(self._column_names) if self._column_names else None
        self.target_name = (column_names(Y) or [None])[0]
        likelihood = self.likelihood
        likelihood.class_names = class_names_of(
            Y,
            likelihood.target_support.num_classes,
            likelihood.ordered_classes,
            type(likelihood).__name__,
        )
        evaluator = self._take_rows(X, Y, Y_metadata, missing)
        return evaluator

    def _take_rows(
        self,
        X: Data,
        Y: Data,
        Y_metadata: Metadata,
        missing: str = "raise",
        columns: int | tuple[str, ...] | None = None,
    ) -> Evaluator:
        """Check the rows and give them to an evaluator; starts are made from `_sample`."""
        given = X, Y, Y_metadata, self.likelihood
        if is_dask(X):
            self._data, self._sample, evaluator = distribute(
                *given, missing, columns, nodes=self.num_nodes, family=self._family
            )
            self._data.check_weights()
            return evaluator
        rows = Rows.read(*given, missing=missing, columns=columns)
        rows.check_weights()
        check_density(self.likelihood, rows)
        self._data = self._sample = rows
        shard = Shard(rows, nodes=self.num_nodes, num_threads=self.num_threads)
        return Evaluator([shard], self._family)

    def _make_problem(self, evaluator: Evaluator) -> Problem:
        data = self._data, self._sample, self._starts
        return Problem(self, self._parts, *data, evaluator, self.num_nodes)

    def _make_parts(
        self, kernels: Kernels, means: Means
    ) -> tuple[list[Kernel], list[MeanFunction]]:
        """Kernels and means as given, or started from the rows; and the likelihood's parameters."""
        b, X = len(self.latents), self._sample.X
        given_kernels = one_per_latent(kernels, b, "kernels", "a kernel", as_kernel)
        given_means = one_per_latent(means, b, "mean_functions", "a mean function", as_mean)
        start_parameters(self.likelihood, self._sample)
        self._start()
        if self._ties is not None and self._ties.advice is not None:
            warnings.warn(
                f"Of {self._sample.num_rows} rows {self._ties.advice}. As it is, they count as "
                "rounded, so that no noise vanishes at them; ties=None takes them for exact.",
                TargetWarning,
                stacklevel=5,
            )
        alike = self.likelihood.symmetric, self.likelihood.trends
        own_kernels = given_kernels or default_kernels(X, self._starts.scales, *alike)
        own_means = given_means or default_means(self._starts.constants)
        for kernel in own_kernels:
            kernel.name_columns(self.input_names)
        for part in (*own_kernels, *own_means):
            part.check_columns(X.shape[1])
        return own_kernels, own_means

    def _start(self) -> None:
        """What the targets alone tell: those that are repeated, and where latents start."""
        self._ties = Ties.of(self.likelihood, self._sample) if self._spreads_ties else None
        self._starts = starts_from(self.likelihood, self._sample, self._ties)
        if self._ties is not None and not np.isfinite(self._starts.score):
            # A density may end between a target and what stands for it.
            self._ties = None
            self._starts = starts_from(self.likelihood, self._sample)

    def _link(
        self,
        kernels: Sequence[Kernel],
        means: Sequence[MeanFunction],
        Z: Array | list[Array],
        jitter: float,
    ) -> None:
        """Make the parts leaves of this model, under their public names, with q at the prior."""
        Z_leaves, q_mu, q_sqrt = variational_leaves(Z, self.latents, self._family)
        self.likelihood.name = "likelihood"
        children: dict[str, Parameterized | Param] = {
            "kernels": LatentList(kernels, self.latents, "kernels"),
            "mean_functions": LatentList(means, self.latents, "mean_functions"),
            "likelihood": self.likelihood,
            "Z": Z_leaves,
            "q_mu": q_mu,
            "q_sqrt": q_sqrt,
        }
        for attribute, child in children.items():
            object.__setattr__(self, attribute, child)
            self.link_parameter(child)
        leaves = [leaves_below(part) for part in (Z_leaves, q_mu, q_sqrt)]
        given = tuple(kernels), tuple(means), self.likelihood, jitter
        self._parts = Parts(
            *given,
            *leaves,
            family=self._family,
            ties=self._ties,
            given_kernels=self._given_kernels,
        )

    def __setattr__(self, attribute: str, value: Any) -> None:
        if attribute in ("kernels", "mean_functions", "likelihood") and attribute in self.__dict__:
            raise InputError(
                f"m.{attribute} cannot be replaced: set its parameters, or build a new model."
            )
        if type(self) is ChainedGP and not self._may_be_set(attribute):
            raise InputError(self._not_to_be_set(attribute))
        super().__setattr__(attribute, value)

    def _may_be_set(self, attribute: str) -> bool:
        """Whether a name is one that a model has, or private; while it is built all may be set."""
        building = self.__dict__.get("_in_init_", True)
        known = attribute in self.__dict__ or hasattr(type(self), attribute)
        return building or known or attribute.startswith("_") or attribute in SET_LATER

    def _not_to_be_set(self, attribute: str) -> str:
        """What to do in the place of setting an attribute that a model does not have."""
        arguments = inspect.signature(ChainedGP.__init__).parameters
        public = [name for name in (*vars(self), *dir(type(self))) if name[0] != "_"]
        found = meant(attribute, [*arguments, *public])
        words = f"a model has no attribute {attribute!r} to be set"
        if attribute in arguments:
            return (
                f"{words}: it is an argument of the constructor. Build a new model, "
                f"ChainedGP(X, Y, …, {attribute}=…)."
            )
        hint = "" if found is None else f" Did you mean {found!r}?"
        return f"{words}.{hint} Names that begin with _ are free for values of your own."

    # ---- data and parts -------------------------------------------------------------------------

    @property
    def X(self) -> Array:
        """The inputs (N, D)."""
        return self._data.X

    @property
    def Y(self) -> Array:
        """The targets (N, 1)."""
        return self._data.y[:, None]

    @property
    def Y_metadata(self) -> dict[str, Array]:
        """Per-row values, (N,) each, weights included."""
        return self._data.Y_metadata

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the latent functions."""
        return tuple(self.likelihood.latents)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Labels of the classes in the order of their codes; None where Y had numbers."""
        return self.likelihood.class_names

    @property
    def posterior(self) -> PosteriorName:
        """The family of q: "mean_field" or "joint"."""
        return self._family.name

    @property
    def jitter(self) -> float:
        """Added to the diagonal of Kuu, relative to its mean."""
        return self._parts.jitter

    @jitter.setter
    def jitter(self, value: float) -> None:
        self._parts.jitter = checked_jitter(value)
        self._mark_stale()

    def save(self, path: FilePath, data: bool = True) -> None:
        """Write the model to one file (npz with a JSON header, no pickle); see `chainedgp.load`.

        data : False leaves the rows out; the loaded model then predicts, and fits after `set_data`.
        """
        if data and is_dask(self.X):
            raise InputError(
                "the rows are Dask arrays, which have files of their own: save(path, data=False)."
            )
        if type(self) is not ChainedGP:
            raise InputError(f"model must be a ChainedGP; got {type(self).__name__}.")
        write_model(path, self._contents(data))

    def _contents(self, data: bool) -> Contents:
        """What a file holds of this model; `_from_contents` makes the same model of it."""
        data = data and self._data.num_rows > 0
        shards = self.problem.evaluator.shards if data else []
        return Contents(
            name=self.name,
            input_names=self.input_names,
            column_names=self._column_names,
            target_name=self.target_name,
            class_names=self.class_names,
            jitter=self.jitter,
            num_nodes=self.num_nodes,
            posterior=self.posterior,
            ties=self._spreads_ties,
            open_inducing=self._parts.open_inducing,
            likelihood=self.likelihood,
            kernels=list(self.kernels),
            means=list(self.mean_functions),
            Z=[z.values for z in self.Z] if isinstance(self.Z, LatentList) else self.Z.values,
            leaves=leaves_of(self),
            hyperpriors=self.hyperpriors,
            rows=StoredRows(self.X, self._data.y, self.Y_metadata) if data else None,
            sites=np.concatenate([shard.sites.current for shard in shards], axis=-1)
            if data and all(shard.has_sites for shard in shards)
            else None,
            result=getattr(self, "last_result", None),
        )

    @classmethod
    def _from_contents(cls, stored: Contents) -> ChainedGP:
        """The model that a file describes. Its parts are taken as they are: nothing is started."""
        model = cls._built(lambda model: model._assemble(stored))
        restore_leaves(model, stored.leaves)
        model.hyperpriors.update(stored.hyperpriors)
        if stored.rows is not None:
            model.set_data(*stored.rows)
            if stored.sites is not None:
                (shard,) = model.problem.evaluator.shards
                shard.load_sites(stored.sites)
        if stored.result is not None:
            model.last_result = stored.result
        return model

    def _assemble(self, stored: Contents) -> None:
        """Join the parts of a stored model, without rows."""
        super().__init__(as_name(stored.name))
        D = stored.num_columns
        self._set_options(stored.num_nodes, None)
        self.likelihood = stored.likelihood
        self.likelihood.class_names = stored.class_names
        self._family = family_of(stored.posterior, self.likelihood)
        self._spreads_ties, self._ties = stored.ties, None
        self.input_names, self._column_names = stored.input_names, stored.column_names
        self.target_name = stored.target_name
        self._data = self._sample = Rows(np.empty((0, D)), np.empty(0))
        self._problem = None
        names = [part.name for part in stored.parts]
        for part in (*stored.kernels, *stored.means):
            part.check_columns(D)
        Z = checked_inducing(stored.Z, len(self.latents), D)
        self._link(stored.kernels, stored.means, Z, checked_jitter(stored.jitter))
        self._parts.open_inducing = stored.open_inducing
        for part, name in zip(stored.parts, names, strict=True):
            part.name = name  # `_link` has changed it to that of the latent.

    def rename_inputs(self, names: Sequence[str]) -> None:
        """Other names for the columns of X, which frames to predict at must have from now on."""
        self.input_names = as_column_names(names, self.X.shape[1])
        self._column_names = tuple(self.input_names)

    def set_data(
        self, X: Data, Y: Data, Y_metadata: Metadata = None, missing: str = "raise"
    ) -> None:
        """New rows for the same model; parameters and q stay, as a warm start."""
        columns = self._column_names or self.X.shape[1]
        missing = one_of(missing, ("raise", "drop"), "missing")
        evaluator = self._take_rows(X, Y, Y_metadata, missing, columns)
        self._start()
        self._parts.ties = self._ties
        self._problem = self._make_problem(evaluator)

    # ---- the bound ------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The bound of the rows as optimisers see it."""
        if self._problem is None:
            raise InputError(
                "this model was saved without its data, so it can only predict; give it rows by "
                "m.set_data(X, Y, Y_metadata) first."
            )
        return self._problem

    @property
    def num_nodes(self) -> int | None:
        """Quadrature nodes per latent dimension; None: they are chosen for every row."""
        return self._num_nodes

    @num_nodes.setter
    def num_nodes(self, num_nodes: int | None) -> None:
        self._num_nodes = None if num_nodes is None else positive_int(num_nodes, "num_nodes")
        if self._problem is not None:
            self._problem.use_nodes(self._num_nodes)

    @property
    def num_threads(self) -> int:
        """Threads for passes over the data."""
        return self._num_threads

    @num_threads.setter
    def num_threads(self, num_threads: int | None) -> None:
        self._num_threads = thread_count(num_threads)
        if self._problem is not None:
            self._problem.use_threads(self._num_threads)

    def _use_threads(self, num_threads: int) -> None:
        self.num_threads = num_threads

    def _checkgrad(self, *args: Any, **kw: Any) -> bool:
        """As paramz has it, with the nodes that rows have now: differences compare equal sums."""
        with self.problem.same_nodes():
            return super()._checkgrad(*args, **kw)

    def log_likelihood(self) -> float:
        """The bound on log p(Y) at the current q, without priors (Saul et al. 2016, eq. 7)."""
        return self.problem.bound()

    def objective_function(self) -> float:
        """−(bound + log-priors): what an optimiser minimises."""
        return self.problem.objective()

    def objective_function_gradients(self) -> Array:
        """Gradient of the objective in all parameters, untransformed; a new array."""
        self.problem.take_gradient()
        return -np.array(self.gradient)

    # ---- fits -----------------------------------------------------------------------------------

    @checks_names
    def optimize(
        self,
        method: str | None = None,
        messages: bool | None = None,
        max_iters: int = 1000,
        *,
        tolerance: float | None = None,
        only: str | None = None,
        batch_size: int | None = None,
        epochs: float | None = None,
        rng: int | np.random.Generator | None = None,
        holdout: float | None = None,
        patience: int | None = None,
        learning_rate: float | None = None,
        callback: Callable[[TracePoint], object] | None = None,
        checkpoint: FilePath | None = None,
        checkpoint_every: int = 10,
        optimizer: str | None = None,
    ) -> OptimizationResult:
        """Fit the model; afterwards it holds the best parameters seen.

        Parameters
        ----------
        method : None or "profile" (natural gradients for q inside L-BFGS on everything else), or
            "lbfgsb": this package's own L-BFGS, without bounds, on the gradients of all parameters
            together, those of q included, as in the paper; for large N "natgrad" (the default where
            batch_size is given), "adam", "rmsprop" or "adagrad". GPy's names "lbfgs" and "bfgs" for
            "lbfgsb" are understood, and its keyword `optimizer`.
        messages : show progress; None shows it when a person is watching.
        max_iters : most iterations. From 50 on, the default method tries several starts first where
            the model is new: `result.start` and `result.starts` tell which. It also adds inducing
            inputs where these are worth their time and neither Z nor their number was given.
        tolerance : nats that the last 10 iterations must have gained together, or the fit has
            converged. None is 0.001, and for the default method 5e-5 for each row where that is
            more: a prediction that is off by a hundredth of its sd costs its row as much.
        only : "variational" finds q alone, at the current hyperparameters.
        batch_size, epochs, rng : rows in a batch (1,000), passes over the data (None goes on until
            a pass gains little), seed or Generator of the shuffling; stochastic methods only.
        holdout, patience : fraction of rows held out for an NLPD after every epoch, the best of
            which is kept; stop after so many epochs without a better one. "natgrad" settles q on
            all rows at the end.
        learning_rate : of the step rule; None takes the rule's own.
        callback : called with every accepted `TracePoint`; a true return value stops.
        checkpoint, checkpoint_every : path of a file that gets the model every so many iterations
            (epochs of a stochastic method); `chainedgp.load(path).optimize()` goes on from there.

        Returns
        -------
        OptimizationResult : converged or not, why it stopped, counts, the trace of the bound.
        """
        self._warn_of_censoring()
        save = None
        if checkpoint is not None:  # Rows on a cluster have files of their own.
            save = partial(self.save, checkpoint, data=not is_dask(self.X))
        self.last_result = optimize(
            self.problem,
            method,
            messages,
            max_iters,
            tolerance=tolerance,
            only=only,
            batches=BatchArguments(batch_size, epochs, rng, holdout, patience, learning_rate),
            callback=callback,
            save=save,
            save_every=checkpoint_every,
            optimizer=optimizer,
        )
        return self.last_result

    def _warn_of_censoring(self) -> None:
        """Say once how to tell of censoring where times to events are fitted without a word."""
        if self._warned_censoring or not self.likelihood.event_times:
            return
        told = "censored" in self._data.metadata
        if told or "censored" not in self.likelihood.metadata_names:
            return
        self._warned_censoring = True
        warnings.warn(
            f"{type(self.likelihood).__name__} takes all times for events that were seen. Where "
            'some were not yet, say so: Y_metadata={"censored": c}, 1 for a row that ended without '
            'its event, 0 for an event; {"censored": 0} says that all were seen.',
            CensoringWarning,
            stacklevel=4,
        )

    @checks_names
    def optimize_restarts(
        self,
        num_restarts: int = 10,
        *,
        messages: bool | None = None,
        max_iters: int = 1000,
        rng: int | np.random.Generator | None = 0,
    ) -> OptimizationResult:
        """Fit from several perturbed starts, the first from the model as it is; the best wins.

        rng : seed or Generator of the perturbations. Restarts run in parallel on threads. One that
        fails is reported in `result.warnings` and never wins.
        """
        self._warn_of_censoring()
        self.last_result = optimize_restarts(
            self.problem, num_restarts, messages=messages, max_iters=max_iters, rng=rng
        )
        return self.last_result

    # ---- predictions --------------------------------------------------------------------------

    def predict_latents(
        self, Xnew: Data, full_cov: bool = False, cross_cov: bool = False
    ) -> tuple[Array, Array]:
        """q(f*) of every latent at Xnew (Saul et al. 2016, eqs. 4 and 5).

        full_cov : covariances between rows. cross_cov : covariances between latents, which are 0
        in the mean field.

        Returns the mean (n, b), and the variance (n, b); with `full_cov` the covariance (b, n, n)
        of each latent, with `cross_cov` (n, b, b) of each row, with both (b, b, n, n) of all.
        """
        return self._predictor().latents(Xnew, full_cov, cross_cov)

    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """The predictive distribution of the targets at Xnew: p(y* | x*) under q (one per row)."""
        return self._predictor().distribution(Xnew, Y_metadata)

    def predict(self, Xnew: Data, Y_metadata: Metadata = None) -> tuple[Array, Array]:
        """Mean and variance of the targets at Xnew, each (n, 1)."""
        return self._predictor().moments(Xnew, Y_metadata)

    def predict_frame(
        self,
        Xnew: Data,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        Y_metadata: Metadata = None,
    ) -> Frame:
        """Predictions as a pandas DataFrame with the index of Xnew, where it has one.

        A frame of another library, such as polars, gives a frame of that library. Columns: mean,
        variance, and the quantiles, in percent: "2.5%", "50%", "97.5%". For classes instead
        "class", the most probable one, and the probability of each: "P(no)", "P(yes)".
        """
        return self._predictor().frame(Xnew, quantiles, Y_metadata)

    def predict_proba(self, Xnew: Data, Y_metadata: Metadata = None) -> Array | Frame:
        """Probabilities of the classes at Xnew, P(y = k | x) = ∫ P(y = k | f) q(f) df: (n, K).

        For likelihoods of classes: `Bernoulli`, `HetProbit`, `Softmax`, `Ordinal`. Columns are in
        the order of the codes, which is that of `m.class_names`; rows sum to 1. A data frame Xnew
        gives a frame of its library, with the names of the classes as columns.
        """
        return self._predictor().probabilities(Xnew, Y_metadata)

    def predict_quantiles(
        self, Xnew: Data, quantiles: Sequence[float] = (2.5, 97.5), Y_metadata: Metadata = None
    ) -> list[Array]:
        """Quantiles of the targets, in percent as in GPy: a list of (n, 1)."""
        return self._predictor().quantiles(Xnew, quantiles, Y_metadata)

    def predict_density(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Predictive density (or mass) at y: a 1-D grid gives (n, k), (n, 1) is per row."""
        return self._predictor().density(Xnew, y, Y_metadata)

    def predict_cdf(self, Xnew: Data, y: Data, Y_metadata: Metadata = None) -> Array:
        """Predictive probability of a target of at most y; shapes as in `predict_density`."""
        return self._predictor().cdf(Xnew, y, Y_metadata)

    def log_predictive_density(self, Xnew: Data, Ynew: Data, Y_metadata: Metadata = None) -> Array:
        """log p(y* | x*) of new rows, (n, 1); the mean of its negative is the NLPD."""
        return self._predictor().log_density(Xnew, Ynew, Y_metadata)

    def posterior_samples(
        self, Xnew: Data, size: int = 10, rng: Seed = None, Y_metadata: Metadata = None
    ) -> Array:
        """Draws of the targets at Xnew, independent over rows: (n, 1, size)."""
        return self._predictor().draws(Xnew, size, rng, Y_metadata)

    def posterior_samples_f(self, Xnew: Data, size: int = 10, rng: Seed = None) -> Array:
        """Joint draws of the latent functions at Xnew from q: (n, b, size).

        f = mean(x) + Aᵀv + r with v ~ q(v), and r ~ N(0, K** − AᵀA), what the inducing values leave
        open. For more than 2,048 rows r is drawn in blocks of as many, independent of each other;
        v, and with it nearly all correlation, is common to all.
        """
        return self._predictor().latent_draws(Xnew, size, rng)

    def _predictor(self) -> Predictor:
        """What predictions are made of, at the current parameters and q.

        Warns of a lost noise, and once for a model that was neither fitted nor set by hand.
        """
        result = getattr(self, "last_result", None)
        if result is None and not self._warned_unfitted and self._problem and self._problem.is_new:
            self._warned_unfitted = True
            warnings.warn(
                "this model was never fitted: it predicts its prior, centred by the data. Call "
                "m.optimize() first.",
                UnfittedWarning,
                stacklevel=3,
            )
        if (
            result is not None
            and self._problem
            and (result.reason == NO_LIMIT or rows_without_noise(self._problem).size)
        ):
            warnings.warn(
                "some noise has vanished in the fit, so that predictions are far too certain where "
                "targets are repeated or followed exactly. Spread repeated targets (ties="
                '"spread"), say how they were rounded (Rounded), or put a prior on the noise.',
                NoiseWarning,
                stacklevel=3,
            )
        theta = self._parts.theta()
        with one_blas_thread():
            priors = [
                make_prior(kernel, mean, Z, theta.jitter)
                for kernel, mean, Z in zip(theta.kernels, theta.means, theta.Z, strict=True)
            ]
        columns = self._column_names or self.X.shape[1]
        q = self._parts.q()
        return Predictor(self.likelihood, tuple(priors), q, columns, self._family)

    # ---- the posterior itself -------------------------------------------------------------------

    def over_hyperparameters(self, size: int = 50, rng: Seed = 0) -> Around:
        """Predictions that average over the hyperparameters, too, for the price of some fits of q.

        Points are drawn from a Gaussian around the fit, in logarithms of positive parameters, of
        the curvature that the bound and the priors have there; q is found at each, and weights
        correct what the Gaussian has wrong. With few rows, bands are then wider than those at the
        best hyperparameters alone. Inducing inputs stay where they are. For up to some hundreds of
        rows it takes seconds; `sample` does without the approximations, and takes minutes.

            m.over_hyperparameters().predict_quantiles(Xnew)

        size : number of points. rng : seed or Generator that draws them.

        Returns
        -------
        Around : predictions by methods of the same names as here. The model is not changed.
        """
        columns = self._column_names or self.X.shape[1]
        return around_the_fit(self.problem, columns, size, rng)

    def sample(
        self,
        draws: int = 1000,
        chains: int = 4,
        *,
        hyperparameters: bool = True,
        tune: int = 400,
        target_accept: float = 0.8,
        rng: Seed = None,
        messages: bool | None = None,
    ) -> Sampled:
        """Draws from the posterior, by the no-U-turn sampler: exact when it matters.

        Of the whitened inducing values v, whose posterior q approximates, and of the free
        hyperparameters with their priors: without Gaussians, correlations between latents or single
        best values taken for granted. Inducing inputs stay where they are. For some hundreds of
        rows it takes minutes. Needs nutpie and arviz: pip install 'chainedgp[mcmc]'.

        Parameters
        ----------
        draws, chains : draws of each chain after its warm-up, and number of chains.
        hyperparameters : False keeps them as they are. Otherwise all that are positive or bounded
            must have priors: flat ones are improper.
        tune : draws of each chain to find step size and scales; they are not kept.
        target_accept : closer to 1 takes smaller steps, and costs more.
        rng : seed or Generator. messages : show progress; None shows it to a person.

        Returns
        -------
        Sampled : an arviz InferenceData, R-hat and effective numbers of draws, and predictions that
            average over the draws, by methods of the same names as here. The model is not changed.
        """
        columns = self._column_names or self.X.shape[1]
        return sample(
            self.problem,
            columns,
            draws,
            chains,
            hyperparameters=hyperparameters,
            tune=tune,
            target_accept=target_accept,
            rng=rng,
            messages=messages,
        )

    # ---- assessment ---------------------------------------------------------------------------

    def loo(self, refit: int | bool = REFIT, rng: Seed = 0, size: int = 4000) -> LOO:
        """Log-densities of each row when it is left out, at the same hyperparameters.

        From the sites of q, and for the `refit` rows of the greatest influence (largest Pareto k)
        by finding q anew: exact for up to 200 rows by default. True refits all, False none.

        rng, size : seed and number of draws from q for the Pareto k; see `assessment.loo`.
        """
        return loo(self.problem, refit, rng, size)

    def check(self, rows: int = ROWS, rng: Seed = 0) -> Check:
        """What to look at before trusting the fit, in words, each with its cause and remedy.

        Asks whether the fit converged, whether quadrature nodes suffice, how many rows widen q
        (negative sites), how far q is from the posterior it stands for (by draws of that), how
        influential single rows are (Pareto k), whether predictions of rows
        left out are calibrated, which rows are outliers, whether more inducing inputs would help,
        which parameters are at a bound or run away, whether data are badly scaled, and whether the
        noise vanishes. A few passes over the data; the model is not changed.

        rows : most rows for what is done row by row. rng : seed or Generator that chooses them.
        """
        result = getattr(self, "last_result", None)
        return check(self.problem, result, self.input_names, rows, rng)

    def summary(self) -> Table:
        """The parameters in a table: value, constraint, whether fixed, prior; a row for each entry.

        Above it likelihood, data, bound and the last fit. `summary()["value"]` is an array, and
        `summary().frame()` a pandas DataFrame. Z and q are left out.
        """
        self.log_likelihood()
        title = dict(self._header())
        if self.input_names is not None:
            title["Inputs"] = ", ".join(map(str, self.input_names))
        if self.class_names is not None:
            title["Classes"] = ", ".join(self.class_names)
        if self.hyperpriors:
            title["Priors"] = f"log-density {self.log_prior():.6g}, not part of the bound"
        if self._ties is not None:
            title["Ties"] = self._ties.words
        title["Last fit"] = str(getattr(self, "last_result", "none"))
        return summary(self, (*self._parts.Z, *self._parts.q_mu, *self._parts.q_root), title)

    def predict_component(
        self,
        Xnew: Data,
        latent: int | str,
        part: int | str | None = None,
        *,
        bands: tuple[float, float] | None = None,
        natural: bool = False,
    ) -> tuple[Array, ...]:
        """q of one additive part h of a latent f = mean(x) + Σ h_p(x), h_p ~ GP(0, k_p), at Xnew.

        With A = L⁻¹ k_p(Z, X*): mean = Aᵀμ, variance = k_p(x*, x*) + aᵀ(S − I)a. The mean function
        belongs to no part: it is not included, and the parts' means add up to that of
        `predict_latents` less mean(x). The parts are correlated under q: their variances do not add
        up to the latent's. For a latent that is a logarithm, a part on the natural scale is a
        factor e^h, and the whole latent is the likelihood's own parameter, such as a rate.

            m.predict_component(X, "log_rate_1", bands=(5, 95), natural=True)  # the first rate
            m.predict_component(X, 0, "space")  # of kernels RBF(2, …, name="space") + RBF(1, …)

        Parameters
        ----------
        Xnew : (n, D). A part that reads some columns only takes any values in the others.
        latent : index or name of the latent.
        part : index or name of the part in the latent's kernel, nested sums counted through. A
            kernel that is not a sum, such as a product, is its own only part. None is the whole
            latent, with its mean function.
        bands : percentages; (2.5, 97.5) if only `natural` is given.
        natural : on the scale of the likelihood's own parameter that this latent drives.

        Returns
        -------
        mean, variance : (n, 1) each; with `bands` or `natural` the median and the two percentiles.
        """
        return component(self._predictor(), Xnew, latent, part, bands=bands, natural=natural)

    # ---- figures: the functions of `chainedgp.plotting`, with the model as first argument --------

    @checks_names
    def plot(
        self,
        *,
        levels: Sequence[float] | None = None,
        input: int | str | None = None,
        latent: int | str | None = None,
        what: str | float | None = None,
        inputs: tuple[int | str, int | str] | None = None,
        at: Place = None,
        limits: Sequence[float | tuple[float, float] | None] | None = None,
        num: int | None = None,
        data: bool | None = None,
        legend: bool | None = None,
        colorbar: bool | None = None,
        Y_metadata: Metadata = None,
        ax: Axes | None = None,
    ) -> Axes:
        """The fit: `plot_fit` for one input, `plot_map` for two, else `plot_slice`.

        Of classes their probabilities. Arguments are those of these functions, None is their own
        default; one that the function does not take is an error.

        levels, legend : of one input or more than two. input, latent : of more than two.
        what, inputs, colorbar : of two. at : of two or more. limits, num, data, Y_metadata, ax : of
        all; limits of two inputs are a pair each.
        """
        chosen: dict[int, Callable[..., Axes]]
        chosen = {1: plotting.plot_fit, 2: plotting.plot_map}
        function: Any = chosen.get(self.X.shape[1], plotting.plot_slice)
        options = {
            "levels": levels, "input": input, "latent": latent, "what": what, "inputs": inputs,
            "at": at, "limits": limits, "num": num, "data": data, "legend": legend,
            "colorbar": colorbar, "Y_metadata": Y_metadata, "ax": ax,
        }  # fmt: skip
        given = {key: value for key, value in options.items() if value is not None}
        known = inspect.signature(function).parameters
        for key in given:
            if key not in known:
                takes = ", ".join(name for name in known if name != "model")
                raise ArgumentError(
                    f"plot of a model of {self.X.shape[1]} inputs is {function.__name__}, which "
                    f"has no argument {key!r}: it has {takes}."
                )
        return function(self, **given)

    plot_fit = plotting.plot_fit
    plot_latents = plotting.plot_latents
    plot_density = plotting.plot_density
    plot_slice = plotting.plot_slice
    plot_map = plotting.plot_map
    plot_survival = plotting.plot_survival
    plot_hazard = plotting.plot_hazard
    plot_pit = plotting.plot_pit
    plot_calibration = plotting.plot_calibration
    plot_trace = plotting.plot_trace
    plot_relevance = plotting.plot_relevance

    # ---- printing -------------------------------------------------------------------------------

    def _header(self) -> list[tuple[str, str]]:
        bound = None if self._problem is None else self._problem.last_bound
        stale = "" if bound is None or self.problem.is_current else " (before the last change)"
        M = " + ".join(str(M) for M in dict.fromkeys(self._parts.sizes))
        return [
            ("Chained GP", self.name),
            ("Likelihood", f"{type(self.likelihood).__name__}({', '.join(self.latents)})"),
            ("Data", f"{self.X.shape[0]} rows, {self.X.shape[1]} inputs, {M} inducing inputs"),
            ("Posterior", self.posterior.replace("_", " ")),
            ("Bound", "not evaluated yet" if bound is None else f"{bound:.6g}{stale}"),
        ]

    def __str__(self, VT100: bool = False) -> str:
        lines = [f"{key:<10} : {value}" for key, value in self._header()]
        return "\n".join([*lines, super(Model, self).__str__(VT100=False)])

    def _repr_html_(self) -> str:
        lines = [f"<b>{key}</b>: {value}<br>" for key, value in self._header()]
        return "\n".join(["<p>", *lines, "</p>", super(Model, self)._repr_html_()])
