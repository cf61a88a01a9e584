"""The chained Gaussian process: joins kernels, means, inducing inputs and a likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from paramz import Model, Param, Parameterized

from .. import plotting
from ..assessment.check import ROWS, Check, check
from ..assessment.components import predict_component
from ..assessment.effects import effects
from ..assessment.loo import LOO, REFIT, loo
from ..assessment.residuals import z_scores
from ..assessment.summary import summary
from ..data.arguments import as_name, one_of, positive_float, positive_int, thread_count
from ..data.columns import Category, Columns
from ..data.frames import as_column_names, column_names
from ..data.labels import class_names_of
from ..data.names import checks_names
from ..data.rows import Expected, Rows, is_dask
from ..data.tables import Table
from ..data.types import Data, FilePath, Metadata, Seed
from ..distributed import distribute
from ..errors import (
    CensoringWarning,
    InputError,
    NoiseWarning,
    TargetWarning,
    UnfittedWarning,
    warn,
)
from ..inference.default_priors import default_priors
from ..inference.growth import FIRST
from ..inference.inducing import select_inducing
from ..inference.optimize import optimize, optimize_restarts
from ..inference.problem import Problem
from ..inference.rescue import NO_LIMIT, rows_without_noise
from ..inference.result import OptimizationResult, TracePoint
from ..inference.starts import (
    Inputs,
    default_kernels,
    default_means,
    inputs_that_count,
    start_parameters,
    starts_from,
    warn_of_scaling,
    warn_of_targets,
)
from ..inference.stochastic import BatchArguments
from ..inference.theta_and_q import Parts, leaves_below
from ..inference.update import Update, add_rows
from ..kernels import Kernel, as_kernel
from ..likelihoods import Likelihood
from ..likelihoods.density_check import check_density
from ..likelihoods.ties import Ties, same_ties
from ..linalg import Array, Indices
from ..means import MeanFunction
from ..parameters.paramz_model import ParamzModel
from ..parameters.parts import LatentList
from ..plotting.overview import plot
from ..posterior.choice import POSTERIORS, PosteriorName, family_of
from ..posterior.evaluator import Evaluator
from ..posterior.family import PosteriorFamily
from ..posterior.shards import Shard
from ..predictive.distribution import Predictive
from ..predictive.predictions import Predictions
from ..predictive.predictor import Predictor
from ..sampling.around import Around, around_the_fit
from ..sampling.nuts import Sampled, sample
from ..sampling.widening import Widening, theta_of, widening_of
from .arguments import (
    Kernels,
    Means,
    Periods,
    as_mean,
    check_levels,
    check_own_kernels,
    checked_inducing,
    checked_jitter,
    checked_likelihood,
    kinds_of_inputs,
    one_per_latent,
)
from .attributes import not_there, not_to_be_set
from .files import write_model
from .files.contents import Contents, StoredRows, leaves_of, restore_leaves
from .variational import fix_levels, variational_leaves

PRIORS = ("auto", "default")  # The argument `priors` is None or one of these.
TIES = ("auto", "spread")  # The argument `ties`, for repeated targets, is None or one of these.
UNCERTAIN = ("auto", "uncertain", "fixed")  # The choices of the argument `hyperparameters`.
# hyperparameters="auto" takes the hyperparameters of a model with more rows than this as fixed: so
# many rows tell them well enough.
FEW_ROWS = 1000
# A fit that may take fewer iterations than this, and has not converged, is only a try: its bands
# are not widened by the uncertainty of the hyperparameters.
A_WHOLE_FIT = 50
# These attributes may be set on a model later: paramz sets the first on a copy, a fit the last.
BY_PARAMZ = ("observers", "cache", "logger", "optimization_runs", "preferred_optimizer")
SET_LATER = (*BY_PARAMZ, "last_result")
UNSEEN = ("raise", "prior")  # The choices of the argument `unseen`, for levels not in the data.
LISTED = 20  # `checkgrad(verbose=True)` lists so many entries of a parameter at most.
JITTER = 1e-8  # By default this share of its mean is added to the diagonal of Kuu.


class ChainedGP(ParamzModel, Predictions):
    """A regression model in which each parameter of the likelihood has its own Gaussian process.

        y_i ~ p(y | f_1(x_i), …, f_b(x_i); θ),    f_j ~ GP(mean_j, k_j)

    Inference is variational, with inducing inputs. The posterior of their values is approximated by
    Gaussians q(u_1) … q(u_b), one for each latent (Saul et al. 2016, eqs. 1 and 2), or by one
    Gaussian q(u_1, …, u_b) with correlations between latents.

    Parameters
    ----------
    X : (N, D) inputs: a numpy array, a list or a data frame; (N,) becomes one column. They are
        copied, except that a memmap is referenced and a Dask array stays on its cluster (see
        `chainedgp.distributed`). In a data frame of pandas or polars, text and categories become
        codes of levels, truth values 0 and 1, and dates the time since the first one;
        `m.summary()` tells how each column was read.
    Y : (N,) or (N, 1) targets. Likelihoods of classes take codes 0, 1, 2, …, text (classes are
        sorted) or categories (in their order); `m.class_names` keeps the labels.
    likelihood : a `Likelihood`; copied.
    kernels : one kernel, of which each latent gets a copy, or a list with one for each latent. None
        gives each latent an `RBF` with a lengthscale for each input, or a `Mixed` kernel if there
        are categories. With two or more inputs the kernel of the first latent also has a `Linear`
        part, and `RandomEffects` of the categories.
    Z : inducing inputs, an array (M, D) for all latents, or one array for each. None chooses rows
        of X, one by one, where the model is still most uncertain.
    mean_functions : one mean function for all latents, or one for each. None gives each latent a
        constant, which starts from the data.
    Y_metadata : dict of per-row values (N,), (N, 1) or scalar: what the likelihood's
        `log_density` takes by keyword, and `weights`.
    num_inducing : number M of inducing inputs if Z is None. With None the model begins with 100, or
        with all distinct rows if there are fewer, and the default method of `optimize` adds rows
        while the gain is worth the time: up to 400, or fewer if N M² would exceed 4e8.
    name : name of the model.
    jitter : added to the diagonal of Kuu, relative to its mean; a constant of the model.
    num_nodes : quadrature nodes per latent dimension; None chooses the number for every row.
    num_threads : threads for passes over the data; None reads CHAINEDGP_NUM_THREADS, else uses all
        cores available to the process.
    posterior : "mean_field" is q(u_1) … q(u_b), as in the paper; "joint" is q(u_1, …, u_b), at
        about twice the cost of an evaluation. "auto" chooses "joint" for likelihoods whose latents
        are coupled, because the bands of a mean field are too narrow for these.
    missing : "raise", or "drop" to leave out the rows whose target or an input is missing;
        `m.kept_rows` has the numbers of the others.
    unseen : "raise", or "prior": levels of a category that were not in the frame are predicted
        from what the others have in common. `m.unseen = "prior"` does so later.
    periodic : seasons, each of which adds a part to the default kernel of every latent. For a
        table with one column of dates "year", or a list such as ["week", "year"], is enough.
        Otherwise {column: period} names the column, such as {"month": 12}. A period is a number in
        the unit of the column or, for dates, "hour", "day", "week", "month", "year" or a duration.
        A column may have a list of periods.
    priors : "auto" puts weakly informative priors on the parameters of default kernels, and then
        also on some parameters of the likelihood, such as ν of a Student-t. A model whose kernels
        are given gets no priors. "default" puts the same priors on given kernels too, and None puts
        none on any. `m.summary()` shows the priors, and `m.set_prior` changes single ones.
    ties : what to do about targets that several rows share, for example because they were rounded.
        If they were taken as exact, the estimated noise could vanish. In models with default
        kernels "auto" therefore treats a repeated target as known only to a quarter of its distance
        to the next value (`likelihoods.ties.Ties`). "spread" does so with any kernels, and None
        takes all targets as exact. `m.summary()` says what was found.
    hyperparameters : whether predictions take the fitted hyperparameters as known ("fixed") or as
        uncertain ("uncertain"). "uncertain" widens the bands of latents and targets by the
        uncertainty of the hyperparameters, and by the spread of the posterior that the best
        Gaussian q leaves out (`sampling.response`). Bands of return levels, centiles, natural
        parameters and survival curves then also include the uncertainty of the likelihood's own
        constants, such as a constant shape. "auto" is "uncertain" in models with default priors
        and at most 1,000 rows in memory; a fit then takes a tenth to a half longer. "fixed"
        predicts from q itself, as the paper does.
    input_names : D names of the columns of X, for prints, plots and the `active_dims` of kernels;
        None takes those of a data frame. Frames to predict at must have the columns of the frame
        that the model was built with or, if that was an array, of these names.

    Raises
    ------
    InputError : if an argument cannot be used; it is raised before any work is done.
    """

    likelihood: Likelihood
    input_names: list[str] | None
    target_name: str | None
    _column_names: tuple[str, ...] | None  # Frames to predict at must have these columns.
    columns: Columns | None = None  # How columns of X are read, where some are no numbers.
    _problem: Problem | None = None  # A model that was stored without its rows has none.
    _family: PosteriorFamily  # This says what q may be.
    _given_kernels: bool = False  # The values of given kernels are where a fit begins.
    _ties: Ties | None  # Targets that several rows share, and what stands for them.
    _hyperparameters: str = "fixed"  # "auto" and "uncertain" widen q for predictions.
    _widening: Widening | None = None  # What they add to q, at hyperparameters of the last fit.
    _told_once: tuple[str, ...] = ()  # Metadata of the rows, where a file has none of these.
    _fitted_at: tuple[Array, Array] | None = None  # Hyperparameters, and means of q, after a fit.
    _lists_few: bool = False  # While a table of single gradients is made.
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
        input_names: Sequence[str] | Columns | None = None,
        posterior: PosteriorName = "auto",
        unseen: str = "raise",
        periodic: Periods = None,
        hyperparameters: str = "auto",
    ) -> None:
        super().__init__(as_name(name))
        with_priors = priors is not None and one_of(priors, PRIORS, "priors") == "default"
        with_priors |= priors == "auto" and kernels is None
        self._spreads_ties = ties is not None and one_of(ties, TIES, "ties") == "spread"
        self._spreads_ties |= ties == "auto" and kernels is None
        chosen = one_of(hyperparameters, UNCERTAIN, "hyperparameters")
        self._hyperparameters = "fixed" if chosen == "auto" and not with_priors else chosen
        _check_at_hand(X, chosen)
        self._given_kernels = kernels is not None
        self._set_options(num_nodes, num_threads)
        jitter = checked_jitter(jitter)
        self.likelihood = checked_likelihood(likelihood)
        self._family = family_of(one_of(posterior, POSTERIORS, "posterior"), self.likelihood)
        missing = one_of(missing, ("raise", "drop"), "missing")
        unseen = one_of(unseen, UNSEEN, "unseen")
        self.columns = Columns.of(X, "X", unseen)
        if isinstance(input_names, Columns):
            self.columns, input_names = input_names, list(input_names.names)
        evaluator = self._read_data(X, Y, Y_metadata, missing)
        if input_names is not None:
            self.input_names = as_column_names(input_names, self.X.shape[1])
            self._column_names = self._column_names or tuple(self.input_names)
        warn_of_scaling(self._sample.X, self.input_names)
        warn_of_targets(self.likelihood, self._sample)
        inputs = kinds_of_inputs(self.columns, self.input_names, self.X.shape[1], periodic)
        if inputs.seasons and kernels is not None:
            raise InputError(
                "periodic adds a part to the default kernels, but kernels are given: add "
                "kernels.Periodic(1, period=…, active_dims=[…]) to these."
            )
        own_kernels, own_means = self._make_parts(kernels, mean_functions, inputs)
        M = FIRST if num_inducing is None else positive_int(num_inducing, "num_inducing")
        inducing = (
            select_inducing(own_kernels[0], self._sample.counting().X, M, np.random.default_rng(0))
            if Z is None
            else checked_inducing(Z, len(self.latents), self._expected)
        )
        for given in inducing if isinstance(inducing, list) else [inducing]:
            check_levels(own_kernels, given, self.input_names, "Z")
        self._link(own_kernels, own_means, inducing, jitter)
        self._parts.given_inducing = Z is not None
        self._parts.open_inducing = Z is None and num_inducing is None
        if with_priors:
            X = inputs_that_count(self._sample)
            for leaf, prior in default_priors(self._parts, X, self._starts.scales):
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
        if self.target_name in (self._column_names or ()):
            self.target_name = None  # A series computed from a column still has its name.
        likelihood = self.likelihood
        likelihood.class_names = class_names_of(
            Y,
            likelihood.target_support.num_classes,
            likelihood.ordered_classes,
            type(likelihood).__name__,
        )
        return self._take_rows(X, Y, Y_metadata, missing, self.columns)

    def _take_rows(
        self,
        X: Data,
        Y: Data,
        Y_metadata: Metadata,
        missing: str,
        columns: Expected,
        kept: tuple[Indices, int] | None = None,
    ) -> Evaluator:
        """Check the model's rows and give them to an evaluator; starts are made from `_sample`."""
        given = X, Y, Y_metadata, self.likelihood
        if is_dask(X):
            self._data, self._sample, evaluator = distribute(
                *given, missing, columns, nodes=self.num_nodes, family=self._family
            )
            self._data.check_weights()
            return evaluator
        rows = Rows.read(*given, missing=missing, columns=columns).known_as(kept)
        rows.check_weights()
        check_density(self.likelihood, rows)
        if "_parts" in vars(self):  # A new model checks its kernels when it has made them.
            check_levels(self._parts.kernels, rows.X, self.input_names)
        self._data = self._sample = rows
        shard = Shard(rows, nodes=self.num_nodes, num_threads=self.num_threads)
        return Evaluator([shard], self._family)

    def _make_problem(self, evaluator: Evaluator) -> Problem:
        data = self._data, self._sample, self._starts
        return Problem(self, self._parts, *data, evaluator, self.num_nodes)

    def _make_parts(
        self, kernels: Kernels, means: Means, inputs: Inputs
    ) -> tuple[list[Kernel], list[MeanFunction]]:
        """Kernels and means of a model as given, or started from rows; likelihood parameters."""
        b, X = len(self.latents), inputs_that_count(self._sample)
        given_kernels = one_per_latent(kernels, b, "kernels", "a kernel", as_kernel)
        given_means = one_per_latent(means, b, "mean_functions", "a mean function", as_mean)
        start_parameters(self.likelihood, self._sample)
        self._start()
        if self._ties is not None and self._ties.advice is not None:
            warn(
                f"In {self._sample.num_rows} rows, {self._ties.advice}. The model now treats them "
                "as rounded, so that its noise does not become 0; ties=None treats them as exact.",
                TargetWarning,
            )
        alike = self.likelihood.symmetric, self.likelihood.trends
        own_kernels = given_kernels or default_kernels(X, self._starts.scales, *alike, inputs)
        own_means = given_means or default_means(self._starts.constants)
        for kernel in own_kernels:
            kernel.name_columns(self.input_names)
        for part in (*own_kernels, *own_means):
            part.check_columns(X.shape[1])
        check_levels(own_kernels, self._sample.X, self.input_names, read=self.columns)
        check_own_kernels(own_kernels, np.asarray(self._sample.X[:3], dtype=float))
        return own_kernels, own_means

    def _start(self) -> None:
        """What the targets alone tell a new model: those that are tied, starts of the latents."""
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
        """Make kernels, means, likelihood, Z and q leaves of this model, with q at the prior."""
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
        fix_levels(Z_leaves, kernels)
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
            raise InputError(not_to_be_set(self, attribute))
        super().__setattr__(attribute, value)

    if not TYPE_CHECKING:  # With it a type checker would accept any attribute.

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(not_there(self, name))

    def _may_be_set(self, attribute: str) -> bool:
        """Whether a model has an attribute, or it is private; all may be set while it is built."""
        building = self.__dict__.get("_in_init_", True)
        own = getattr(type(self), attribute, None)
        if isinstance(own, property) and own.fset is None:
            return False
        known = attribute in self.__dict__ or own is not None
        return building or known or attribute.startswith("_") or attribute in SET_LATER

    # ---- data and parts -------------------------------------------------------------------------

    @property
    def X(self) -> Array:
        """The inputs (N, D) of the model's rows."""
        return self._data.X

    @property
    def Y(self) -> Array:
        """The targets (N, 1) of the model's rows."""
        return self._data.y[:, None]

    @property
    def Y_metadata(self) -> dict[str, Array]:
        """Per-row values of the model, (N,) each, weights included."""
        return self._data.Y_metadata

    @property
    def kept_rows(self) -> Indices:
        """Numbers (N,) of the model's rows in the table that it was given, counted from 0.

        Rows that `missing="drop"` left out are counted: `table.iloc[m.kept_rows]` are the rows of
        `m.X`, `m.z_scores()` and `m.loo().pointwise`. Rows that `update` added are counted on from
        the last row of the table before.
        """
        if is_dask(self.X):
            raise InputError("the rows are on a cluster, where they are not counted.")
        return self._data.numbers.copy()

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the model's latent functions."""
        return tuple(self.likelihood.latents)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Labels of the model's classes in the order of their codes; None where Y had numbers."""
        return self.likelihood.class_names

    @property
    def unseen(self) -> str:
        """What is done with levels of categories that were not in the data: "raise" or "prior"."""
        found = [] if self.columns is None else self.columns.each
        return next((c.unseen for c in found if isinstance(c, Category)), "raise")

    @unseen.setter
    def unseen(self, unseen: str) -> None:
        one_of(unseen, UNSEEN, "unseen")
        if self.columns is not None:
            self.columns = self.columns.with_unseen(unseen)

    @property
    def _expected(self) -> Expected:
        """What new inputs of the model must be: the columns as read, their names, or number."""
        return self.columns or self._column_names or self.X.shape[1]

    @property
    def _expected_of_rows(self) -> Expected:
        """New rows of a fit must be as new inputs, of known levels: others would share codes."""
        known = self.columns and self.columns.with_unseen("never")
        return known or self._expected

    @property
    def _told(self) -> tuple[str, ...]:
        """Names of the metadata that say something of the model's rows, even if not in a file."""
        return self._data.telling if self._data.num_rows else self._told_once

    @property
    def posterior(self) -> PosteriorName:
        """The family of the model's q: "mean_field" or "joint"."""
        return self._family.name

    @property
    def hyperparameters(self) -> str:
        """Whether predictions count the hyperparameters as "fixed" or "uncertain", or by "auto".

        Setting it to "fixed" and back works at once; "uncertain" needs a fit that was not "fixed".
        "auto" is "fixed" in a model without priors.
        """
        return self._hyperparameters

    @hyperparameters.setter
    def hyperparameters(self, value: str) -> None:
        chosen = one_of(value, UNCERTAIN, "hyperparameters")
        self._hyperparameters = "fixed" if chosen == "auto" and not self.hyperpriors else chosen

    @property
    def jitter(self) -> float:
        """What is added to the diagonal of Kuu, as a share of the mean of the diagonal."""
        return self._parts.jitter

    @jitter.setter
    def jitter(self, value: float) -> None:
        self._parts.jitter = checked_jitter(value)
        self._mark_stale()

    @checks_names
    def save(self, path: FilePath, data: bool = True) -> None:
        """Write the model to one file (npz with a JSON header, no pickle); see `chainedgp.load`.

        data : False leaves the rows out. The loaded model can predict, and can be fitted again
            after `set_data`.
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
            columns=self.columns,
            target_name=self.target_name,
            class_names=self.class_names,
            jitter=self.jitter,
            num_nodes=self.num_nodes,
            posterior=self.posterior,
            ties=self._spreads_ties,
            hyperparameters=self._hyperparameters,
            widening=None if (found := self._valid_widening()) is None else found.roots,
            of_targets=found is None or found.of_targets,
            constants=None if found is None else found.constants,
            open_inducing=self._parts.open_inducing,
            likelihood=self.likelihood,
            kernels=list(self.kernels),
            means=list(self.mean_functions),
            Z=[z.values for z in self.Z] if isinstance(self.Z, LatentList) else self.Z.values,
            leaves=leaves_of(self),
            hyperpriors=self.hyperpriors,
            rows=StoredRows(self.X, self._data.y, self.Y_metadata, *(self._data.kept or ()))
            if data
            else None,
            told=() if data else self._told,
            sites=np.concatenate([shard.sites.current for shard in shards], axis=-1)
            if data and all(shard.has_sites for shard in shards)
            else None,
            result=getattr(self, "last_result", None),
        )

    @classmethod
    def _from_contents(cls, stored: Contents) -> ChainedGP:
        """Make the model that a file describes, of its parts as they are: nothing is started."""
        model = cls._built(lambda model: model._assemble(stored))
        restore_leaves(model, stored.leaves)
        model.hyperpriors.update(stored.hyperpriors)
        if stored.rows is not None:
            X, Y, Y_metadata, kept, num_given = stored.rows
            model._set_data(X, Y, Y_metadata, "raise", None if kept is None else (kept, num_given))
            if stored.sites is not None:
                (shard,) = model.problem.evaluator.shards
                shard.load_sites(stored.sites)
        if stored.result is not None:
            model.last_result, model._fitted_at = stored.result, model._where()
        if stored.widening is not None:
            own = stored.widening, stored.of_targets, stored.constants
            model._widening = Widening.at(model._parts, *own)
        return model

    def _assemble(self, stored: Contents) -> None:
        """Join the parts of a model that was read from a file, without rows."""
        super().__init__(as_name(stored.name))
        D = stored.num_columns
        self._set_options(stored.num_nodes, None)
        self.likelihood = stored.likelihood
        self.likelihood.class_names = stored.class_names
        self._family = family_of(stored.posterior, self.likelihood)
        self._spreads_ties, self._ties = stored.ties, None
        self._hyperparameters = stored.hyperparameters
        self.input_names, self._column_names = stored.input_names, stored.column_names
        self.columns = stored.columns
        self.target_name = stored.target_name
        self._data = self._sample = Rows(np.empty((0, D)), np.empty(0))
        self._told_once = stored.told
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
        """Rename the columns of X; data frames to predict at must have these names from now on."""
        self.input_names = as_column_names(names, self.X.shape[1])
        self._column_names = tuple(self.input_names)
        if self.columns is not None:
            self.columns = self.columns.renamed(self.input_names)

    @checks_names
    def set_data(
        self, X: Data, Y: Data, Y_metadata: Metadata = None, missing: str = "raise"
    ) -> None:
        """Give the model new rows; parameters and posterior stay, and the next fit starts there."""
        self._set_data(X, Y, Y_metadata, one_of(missing, ("raise", "drop"), "missing"))

    def _set_data(
        self,
        X: Data,
        Y: Data,
        Y_metadata: Metadata,
        missing: str,
        kept: tuple[Indices, int] | None = None,
    ) -> None:
        """Give the model new rows; kept: which rows of a table they are, as `Rows` has it."""
        evaluator = self._take_rows(X, Y, Y_metadata, missing, self._expected_of_rows, kept)
        self._start()
        self._parts.ties = self._ties
        self._problem = self._make_problem(evaluator)

    @checks_names
    def update(
        self,
        Xnew: Data,
        Ynew: Data,
        Y_metadata: Metadata = None,
        *,
        missing: str = "raise",
        tolerance: float = 1e-3,
    ) -> Update:
        """Add rows to a fitted model without a fit: q takes them in, hyperparameters and Z stay.

        Steps over the new rows alone find their sites, which are what the rows contribute to q; the
        old rows keep their sites. A sample of the old rows then tells how far the bound is below
        its maximum over q. If that is more than the tolerance, because the new rows are many or
        contradict the old ones, steps over all rows follow. The result is that of
        `optimize(only="variational")` on all rows, but usually it takes the time of the new rows
        only. Errors that q had before the update remain.

        `optimize()` afterwards goes on from here with all rows, hyperparameters included.

        Parameters
        ----------
        Xnew, Ynew, Y_metadata : the new rows, with the columns, classes and metadata of the old.
        missing : "raise", or "drop" to leave out the rows whose target is NaN.
        tolerance : nats by which the bound may be below its maximum over q.

        Returns
        -------
        Update : how many rows were added, the steps that it took, and the distance to the maximum.

        Raises
        ------
        InputError : also for rows in a memmap or on a Dask cluster, which are not copied.
        """
        rows = self._rows_to_add(Xnew, Ynew, Y_metadata, missing)
        old, before = self.problem, self._ties
        (shard,) = old.evaluator.shards
        sites = shard.sites.current if shard.has_sites else None
        if sites is not None and not sites.any():  # Sites of 0 are of a fit without sites.
            sites = None
        count, tolerance = old.num_rows, positive_float(tolerance, "tolerance")
        values = old.snapshot()  # The search for q writes into the leaves before it has ended.
        try:
            self._data = self._sample = old.rows.followed_by(rows)
            shard = Shard(self._data, nodes=self.num_nodes, num_threads=self.num_threads)
            self._start()
            self._parts.ties = self._ties
            self._problem = self._make_problem(Evaluator([shard], self._family))
            told = add_rows(
                self._problem, count, sites, tolerance, not same_ties(before, self._ties)
            )
        except BaseException:
            self._data = self._sample = old.rows
            self._problem, self._ties, self._parts.ties = old, before, before
            self._starts = old.starts
            old.restore(values)
            raise
        self._fitted_at = self._where()
        return told

    def _rows_to_add(self, Xnew: Data, Ynew: Data, Y_metadata: Metadata, missing: str) -> Rows:
        """New rows of `update`, checked; an error where rows would be copied into memory.

        So it would be for old or new rows on disk or on a cluster.
        """
        missing = one_of(missing, ("raise", "drop"), "missing")
        for inputs, whose in ((self.problem.rows.X, "the model's rows are"), (Xnew, "Xnew is")):
            if is_dask(inputs) or isinstance(inputs, np.memmap):
                kind = "on a Dask cluster" if is_dask(inputs) else "in a memmap"
                raise InputError(
                    f"{whose} {kind}, and update holds all rows in memory. Put the new rows "
                    "into the same store, then m.set_data(X, Y, Y_metadata) with all of them and "
                    'm.optimize(only="variational").'
                )
        given, names = (Xnew, Ynew, Y_metadata, self.likelihood), ("Xnew", "Ynew")
        expected = self._expected_of_rows
        rows = Rows.read(*given, missing=missing, columns=expected, names=names)
        check_density(self.likelihood, rows)
        check_levels(self._parts.kernels, rows.X, self.input_names, "Xnew")
        return rows

    # ---- the bound ------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The problem that optimisers see: the bound of the model's rows."""
        if self._problem is None:
            raise InputError(
                "this model was saved without its data, so it can only predict; give it rows by "
                "m.set_data(X, Y, Y_metadata) first."
            )
        return self._problem

    @property
    def num_nodes(self) -> int | None:
        """Quadrature nodes per latent dimension of the model; None chooses them for every row."""
        return self._num_nodes

    @num_nodes.setter
    def num_nodes(self, num_nodes: int | None) -> None:
        self._num_nodes = None if num_nodes is None else positive_int(num_nodes, "num_nodes")
        if self._problem is not None:
            self._problem.use_nodes(self._num_nodes)

    @property
    def num_threads(self) -> int:
        """Threads on which the model passes over its data."""
        return self._num_threads

    @num_threads.setter
    def num_threads(self, num_threads: int | None) -> None:
        self._num_threads = thread_count(num_threads)
        if self._problem is not None:
            self._problem.use_threads(self._num_threads)

    def _use_threads(self, num_threads: int) -> None:
        self.num_threads = num_threads

    def _checkgrad(
        self, target_param: Any = None, verbose: bool = False, *args: Any, **kw: Any
    ) -> bool:
        """Check gradients as paramz does, at the nodes rows have now: sums then compare equal.

        The table of single gradients has at most `LISTED` entries of each parameter.
        """
        self._lists_few = bool(verbose)
        try:
            with self.problem.same_nodes():
                return super()._checkgrad(target_param, verbose, *args, **kw)
        finally:
            self._lists_few = False

    def _raveled_index_for_transformed(self, param: Any) -> Array:
        """Where the free entries of a parameter are, or where those are that a table lists."""
        index = super()._raveled_index_for_transformed(param)
        if not self._lists_few:
            return index
        owners = np.array([name.partition("[")[0] for name in self.parameter_names_flat()])[index]
        own = [index[owners == owner] for owner in dict.fromkeys(owners)]
        return np.concatenate([index[:0], *(i[:: -(-len(i) // LISTED)] for i in own)])

    def log_likelihood(self) -> float:
        """The bound on log p(Y) at the current q, without priors (Saul et al. 2016, eq. 7)."""
        return self.problem.bound()

    def objective_function(self) -> float:
        """The model's objective −(bound + log-priors): what an optimiser minimises."""
        return self.problem.objective()

    def objective_function_gradients(self) -> Array:
        """Gradient of the model's objective in all parameters, untransformed; a new array."""
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
        """Fit the model to its data; afterwards it holds the best parameters that were seen.

        `m.optimize()` without arguments is the right call for most data.

        Parameters
        ----------
        method : None or "profile" uses natural gradients for q inside L-BFGS on all other
            parameters. "lbfgsb" uses L-BFGS on the gradients of all parameters together, those of q
            included, as in the paper. For large N there are the stochastic methods "natgrad" (the
            default where batch_size is given), "adam", "rmsprop" and "adagrad". GPy's names "lbfgs"
            and "bfgs" mean "lbfgsb", and GPy's keyword `optimizer` is understood.
        messages : whether to show progress; None shows it in a terminal or notebook.
        max_iters : the largest number of iterations. If it is 50 or more, the first fit of a new
            model tries several starts; `result.start` and `result.starts` tell which. If neither Z
            nor the number of inducing inputs was given, the default method also adds inducing
            inputs while the gain is worth the time.
        tolerance : the fit has converged when the last 10 iterations together gained less than this
            many nats. None is 0.001 or, for the default method, 5e-5 times the number of rows if
            that is more. For comparison, a prediction that is off by a hundredth of its standard
            deviation costs 5e-5 nats.
        only : "variational" fits q alone and keeps the hyperparameters.
        batch_size, epochs, rng : for stochastic methods: rows in a batch (1,000), passes over the
            data (None goes on until a pass gains little), and seed or Generator of the shuffling.
        holdout, patience : for stochastic methods: the fraction of rows that is held out and scored
            after every epoch; the best epoch is kept, and the fit stops after `patience` epochs
            without a better one. "natgrad" ends with a fit of q to all rows.
        learning_rate : of the stochastic method; None takes the method's own.
        callback : called with every accepted `TracePoint`; a true return value stops the fit.
        checkpoint, checkpoint_every : path of a file to which the model is saved, and the number of
            iterations (or epochs) from one save to the next; `chainedgp.load(path).optimize()` goes
            on from there.

        Returns
        -------
        OptimizationResult : whether the fit converged, why it stopped, counts, and the bound over
            the iterations.
        """
        self._warn_of_censoring()
        _check_at_hand(self.X, self._hyperparameters)
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
        if only is None and (self.last_result.converged or max_iters >= A_WHOLE_FIT):
            self._widen()
        self._fitted_at = self._where()
        return self.last_result

    def _where(self) -> tuple[Array, Array]:
        """All hyperparameters and inducing inputs in one vector, and the means of q in another."""
        means = np.concatenate([mu.values.ravel() for mu in self._parts.q_mu])
        return theta_of(self._parts), means

    def _widen(self) -> None:
        """Find by how much bands are wider than those of q, after a fit.

        Ctrl-C leaves it out: the fit has ended by then, and its result says so.
        """
        self._widening = None
        few = self._data.num_rows <= FEW_ROWS and not is_dask(self.X)
        wanted = self._hyperparameters == "uncertain" or (self._hyperparameters == "auto" and few)
        if not wanted or self.last_result.status == "interrupted":
            return
        try:
            self._widening = widening_of(self.problem)
        except KeyboardInterrupt:
            self.last_result.warnings.append(
                "interrupted after the fit: bands are those of q, and do not include the "
                "uncertainty of the hyperparameters"
            )
            return
        self.problem.bound()  # Copying the model has made it forget its bound.

    def _warn_of_censoring(self) -> None:
        """Warn once where a model fits event times and was not told of censoring."""
        if self._warned_censoring or not self.likelihood.event_times:
            return
        told = "censored" in self._data.metadata
        if told or "censored" not in self.likelihood.metadata_names:
            return
        self._warned_censoring = True
        warn(
            f"{type(self.likelihood).__name__} takes all times for events that were observed, "
            'because Y_metadata has no "censored". If some are censored, build the model with '
            'Y_metadata={"censored": c}, where c is 1 for a row that ended without its event and 0 '
            'for an event. {"censored": 0} says that all events were observed.',
            CensoringWarning,
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
        """Fit from several perturbed starts and keep the best. The first is the model as it is.

        Restarts run in parallel on threads. A restart that fails is reported in `result.warnings`
        and never kept. rng : seed or Generator of the perturbations.
        """
        self._warn_of_censoring()
        _check_at_hand(self.X, self._hyperparameters)
        self.last_result = optimize_restarts(
            self.problem, num_restarts, messages=messages, max_iters=max_iters, rng=rng
        )
        self._widen()
        self._fitted_at = self._where()
        return self.last_result

    # ---- predictions --------------------------------------------------------------------------

    @checks_names
    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """The predictive distributions p(y* | x*) of the targets at Xnew, one for each row."""
        return self._predictor().distribution(Xnew, Y_metadata)

    def _predictor(self) -> Predictor:
        """What predictions of the model are made of, at the current parameters and q.

        Warns of a lost noise, and once for a model that was neither fitted nor set by hand.
        """
        result = getattr(self, "last_result", None)
        if result is None and not self._warned_unfitted and self._problem and self._problem.is_new:
            self._warned_unfitted = True
            warn(
                "this model was never fitted: its predictions are those of the prior, around a "
                "constant chosen from the data. Call m.optimize() first.",
                UnfittedWarning,
            )
        if self._fitted_at is not None:
            now = self._where()
            same_theta, same_q = map(np.array_equal, self._fitted_at, now)
            if same_q and not same_theta:
                self._fitted_at = None  # One warning is enough.
                warn(
                    "parameters were set after the fit, and the posterior q is still that of the "
                    'earlier ones. Call m.optimize(only="variational") to find q anew.',
                    UnfittedWarning,
                )
        if (
            result is not None
            and self._problem
            and (result.reason == NO_LIMIT or rows_without_noise(self._problem).size)
        ):
            warn(
                "the fitted noise is 0 in some rows, where targets are repeated or the curve "
                "passes through them exactly, so that predictions there are far too certain. "
                'Spread repeated targets (ties="spread"), say how they were rounded (Rounded), or '
                "put a prior on the noise.",
                NoiseWarning,
            )
        q, q_targets, constants = self._parts.q(), None, None
        if (widening := self._valid_widening()) is not None:
            q_targets = None if widening.of_targets else q
            q, constants = widening.widened(q), widening.constants
        last = self._data.last_time if self.likelihood.event_times else None
        own = self._expected, self._family, self._told, q_targets, constants, last
        return Predictor(self.likelihood, self._parts.theta().priors(), q, *own)

    def _valid_widening(self) -> Widening | None:
        """What uncertain hyperparameters add to q, unless these were changed since the fit."""
        found = None if self._hyperparameters == "fixed" else self._widening
        return found if found is not None and found.holds_for(self._parts) else None

    # ---- the posterior itself -------------------------------------------------------------------

    @checks_names
    def over_hyperparameters(self, size: int = 50, rng: Seed = 0) -> Around:
        """Predictions that average over plausible hyperparameters.

        With few rows the hyperparameters are uncertain, and bands at the best values alone are too
        narrow. This method draws hyperparameters from a Gaussian around the fit, whose curvature is
        that of bound and priors (in logarithms of positive parameters). It fits q for each draw,
        and importance weights correct for the shape of the Gaussian. Inducing inputs stay where
        they are. Up to 1,000 rows, or with hyperparameters="uncertain", each q is widened by the
        spread that it leaves out, as in default bands. It takes seconds for some hundreds of rows.
        `sample` needs none of these approximations, and takes minutes.

            m.over_hyperparameters().predict_quantiles(Xnew)

        size : number of points. rng : seed or Generator that draws them.

        Returns
        -------
        Around : predictions by methods of the same names as here. The model is not changed.
        """
        few = self._data.num_rows <= FEW_ROWS
        return around_the_fit(
            self.problem, self._expected, size, rng, few or self._hyperparameters == "uncertain"
        )

    @checks_names
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
        """Draw from the exact posterior with the no-U-turn sampler.

        The draws are of the whitened inducing values v, whose posterior q approximates, and of the
        free hyperparameters with their priors. They assume neither that the posterior is Gaussian
        nor that hyperparameters are known. Inducing inputs stay where they are. For some hundreds
        of rows it takes minutes. It needs nutpie and arviz: pip install 'chainedgp[mcmc]'.

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
        return sample(
            self.problem,
            self._expected,
            draws,
            chains,
            hyperparameters=hyperparameters,
            tune=tune,
            target_accept=target_accept,
            rng=rng,
            messages=messages,
        )

    # ---- assessment ---------------------------------------------------------------------------

    z_scores = z_scores  # The first argument of the function is the model.

    @checks_names
    def loo(self, refit: int | bool = REFIT, rng: Seed = 0, size: int = 4000) -> LOO:
        """Leave-one-out log-density of each row, at the hyperparameters of the fit.

        It is computed from the sites of q. For the `refit` rows of greatest influence (largest
        Pareto k) q is fitted again without the row, so that the result is exact for up to 200 rows
        by default. True does so for all rows, False for none.

        rng, size : seed and number of draws from q for the Pareto k; see `assessment.loo`.
        The rows are those of `m.X`; `kept_rows` has their numbers in the table.
        """
        return loo(self.problem, refit, rng, size)

    @checks_names
    def check(self, rows: int = ROWS, rng: Seed = 0) -> Check:
        """Say in words whether the fit can be trusted; each finding has a cause and a remedy.

        The questions are: has the fit converged, are there enough quadrature nodes, how many rows
        make q wider (negative sites), how far is q from the exact posterior, how influential are
        single rows (Pareto k), are predictions of left-out rows calibrated, which rows are
        outliers, would more inducing inputs help, do parameters have extreme values, are the data
        badly scaled, and does the noise vanish. It takes a few passes over the data, and
        the model is not changed.

        rows : the largest number of rows that are looked at one by one. rng : seed or Generator
        that chooses them. The "rows" among the values of a finding are counted as in the table that
        the model was given; see `kept_rows`.
        """
        result = getattr(self, "last_result", None)
        return check(self.problem, result, self.input_names, rows, rng)

    def summary(self) -> Table:
        """Summary table of parameters: value, constraint, whether fixed, prior; a row per entry.

        Above it likelihood, data, bound and the last fit. `summary()["value"]` is an array, and
        `summary().frame()` a pandas DataFrame. Z and q are left out.
        """
        self.log_likelihood()
        title = dict(self._header())
        if self.input_names is not None:
            title["Inputs"] = ", ".join(map(str, self.input_names))
        if self.columns is not None:
            for name, column in zip(self.input_names or (), self.columns.each, strict=True):
                title[f"  {name}"] = column.words
        if self.class_names is not None:
            title["Classes"] = ", ".join(self.class_names)
        if self.hyperpriors:
            title["Priors"] = f"log-density {self.log_prior():.6g}, not part of the bound"
        if self._ties is not None:
            title["Ties"] = self._ties.words
        if (widening := self._valid_widening()) is not None:
            title["Bands"] = (
                "include the uncertainty of the hyperparameters and the spread that q leaves out "
                '(hyperparameters="fixed" shows q alone)'
            )
            if not widening.of_targets:
                title["Targets"] = (
                    "are predicted by q alone: latents are uncertain together, with each other or "
                    "with constants, and less so what they say of targets"
                )
        title["Last fit"] = str(getattr(self, "last_result", "none"))
        return summary(self, (*self._parts.Z, *self._parts.q_mu, *self._parts.q_root), title)

    predict_component = predict_component  # In these functions the model comes first.
    effects = effects
    # ---- figures: the functions of `chainedgp.plotting`, with the model as first argument --------

    plot = plot
    plot_fit = plotting.plot_fit
    plot_latents = plotting.plot_latents
    plot_density = plotting.plot_density
    plot_slice = plotting.plot_slice
    plot_map = plotting.plot_map
    plot_survival = plotting.plot_survival
    plot_hazard = plotting.plot_hazard
    plot_survival_check = plotting.plot_survival_check
    plot_survival_calibration = plotting.plot_survival_calibration
    plot_survival_along = plotting.plot_survival_along
    plot_restricted_mean = plotting.plot_restricted_mean
    plot_pit = plotting.plot_pit
    plot_calibration = plotting.plot_calibration
    plot_trace = plotting.plot_trace
    plot_relevance = plotting.plot_relevance
    plot_centiles = plotting.plot_centiles
    plot_worm = plotting.plot_worm
    plot_effects = plotting.plot_effects
    plot_components = plotting.plot_components
    plot_variance = plotting.plot_variance
    plot_return_levels = plotting.plot_return_levels
    plot_mean_excess = plotting.plot_mean_excess

    # ---- printing -------------------------------------------------------------------------------

    def _header(self) -> list[tuple[str, str]]:
        bound = None if self._problem is None else self._problem.last_bound
        stale = "" if bound is None or self.problem.is_current else " (before the last change)"
        M = " + ".join(str(M) for M in dict.fromkeys(self._parts.sizes))
        left_out = self._data.num_given - self._data.num_rows
        gaps = f" ({left_out} more had gaps)" if left_out else ""
        D = self.X.shape[1]
        return [
            ("Chained GP", self.name),
            ("Likelihood", f"{type(self.likelihood).__name__}({', '.join(self.latents)})"),
            (
                "Data",
                f"{self.X.shape[0]} rows{gaps}, {D} input{'s' * (D > 1)}, {M} inducing inputs",
            ),
            ("Posterior", self.posterior.replace("_", " ")),
            ("Bound", "not evaluated yet" if bound is None else f"{bound:.6g}{stale}"),
        ]

    def __str__(self, VT100: bool = False) -> str:
        lines = [f"{key:<10} : {value}" for key, value in self._header()]
        return "\n".join([*lines, super(Model, self).__str__(VT100=False)])

    def _repr_html_(self) -> str:
        lines = [f"<b>{key}</b>: {value}<br>" for key, value in self._header()]
        return "\n".join(["<p>", *lines, "</p>", super(Model, self)._repr_html_()])


def _check_at_hand(X: Data, hyperparameters: str) -> None:
    """Refuse uncertain hyperparameters for rows on a cluster: they need many passes."""
    if hyperparameters == "uncertain" and is_dask(X):
        raise InputError(
            'hyperparameters="uncertain" needs the rows in memory, but they are on a cluster: '
            'use "fixed", or build a model of some of the rows, such as X[:1000].compute().'
        )
