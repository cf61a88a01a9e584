"""The chained Gaussian process: joins kernels, means, inducing inputs and a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from paramz import Model

from .. import plotting
from ..assessment.check import ROWS, Check, check
from ..assessment.components import component
from ..assessment.loo import LOO, REFIT, loo
from ..assessment.summary import summary
from ..data.arguments import as_name, one_of, positive_int, thread_count
from ..data.frames import as_column_names, column_names
from ..data.rows import Rows, is_dask
from ..data.tables import Table
from ..errors import NOT_FINITE, InputError, NumericalError
from ..inference.inducing import select_inducing
from ..inference.optimize import Fitting
from ..inference.starts import (
    default_kernels,
    default_means,
    flat_score,
    start_latents,
    start_parameters,
    warn_of_scaling,
)
from ..kernels import Kernel, as_kernel
from ..likelihoods import Likelihood
from ..likelihoods.faults import check_density
from ..linalg import Array, one_blas_thread, pack_lower
from ..means import MeanFunction
from ..parameters.leaves import LargeParam
from ..parameters.paramz_model import ParamzModel
from ..parameters.parts import LatentList
from ..posterior.evaluator import Evaluator, Gradient, Hyperparameters, State
from ..posterior.gaussian import Gaussian, from_root, root_gradient, root_of
from ..posterior.shards import Shard
from ..posterior.sparse import make_prior
from ..predictive.distribution import Predictive
from ..predictive.predictor import Predictor
from .construction import (
    as_mean,
    checked_inducing,
    checked_jitter,
    checked_likelihood,
    list_of,
    one_per_latent,
    stacked,
)
from .files import write_model
from .files.contents import Contents, StoredRows, leaves_of, restore_leaves
from .without_rows import WithoutRows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ChainedGP"]

JITTER = 1e-8


class ChainedGP(Fitting, ParamzModel):
    """A likelihood whose b parameters are driven by b Gaussian processes, fitted variationally.

        y_i ~ p(y | f_1(x_i), …, f_b(x_i); θ),    f_j ~ GP(mean_j, k_j)

    Sparse inducing-point posterior q(u_1) … q(u_b), whitened (Saul et al. 2016, eqs. 1 and 2).

    Parameters
    ----------
    X : (N, D) inputs; numpy, lists, data frames; (N,) becomes one column. Copied, but a memmap is
        referenced. A Dask array stays on its cluster; see `chainedgp.distributed`.
    Y : (N,) or (N, 1) targets.
    likelihood : a `Likelihood`; copied.
    kernels : None (ARD RBF per latent), one kernel (copied for each latent) or one per latent.
    Z : None (chosen from X), (M, D) inducing inputs shared by all latents, or one array per latent.
    mean_functions : None (a constant per latent, started from the data), one, or one per latent.
    Y_metadata : dict of per-row values (N,), (N, 1) or scalar: what the likelihood's
        `log_density` takes by keyword, and `weights`.
    num_inducing : number M of inducing inputs where Z is None.
    name : name of the model.
    jitter : added to the diagonal of Kuu, relative to its mean; a constant of the model.
    num_nodes : quadrature nodes per latent dimension; None chooses them for every row.
    num_threads : threads for passes over the data; None reads CHAINEDGP_NUM_THREADS, else uses all
        cores available to the process.
    missing : "raise", or "drop" to leave out the rows whose target is NaN.
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
    _column_names: tuple[str, ...] | None  # those that frames to predict at must have

    def __init__(
        self,
        X: Any,
        Y: Any,
        likelihood: Likelihood,
        kernels: Any = None,
        Z: Any = None,
        mean_functions: Any = None,
        Y_metadata: Any = None,
        num_inducing: int = 100,
        name: str = "chained_gp",
        *,
        jitter: float = JITTER,
        num_nodes: int | None = None,
        num_threads: int | None = None,
        missing: str = "raise",
        input_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(as_name(name))
        self._set_options(num_nodes, num_threads, jitter)
        self.likelihood = checked_likelihood(likelihood)
        self._read_data(X, Y, Y_metadata, one_of(missing, ("raise", "drop"), "missing"))
        if input_names is not None:
            self.input_names = as_column_names(input_names, self.X.shape[1])
            self._column_names = self._column_names or tuple(self.input_names)
        parts = self._make_parts(kernels, mean_functions)
        inducing = self._make_inducing(Z, positive_int(num_inducing, "num_inducing"), parts)
        self._link(parts[0], parts[1], inducing)

    # ---- construction ---------------------------------------------------------------------------

    def _set_options(self, num_nodes: int | None, num_threads: int | None, jitter: float) -> None:
        self.num_nodes = None if num_nodes is None else positive_int(num_nodes, "num_nodes")
        self.num_threads = thread_count(num_threads)
        self._jitter = checked_jitter(jitter)

    def _read_data(self, X: Any, Y: Any, Y_metadata: Any, missing: str) -> None:
        self._column_names = column_names(X)
        self.input_names = list(self._column_names) if self._column_names else None
        self.target_name = (column_names(Y) or [None])[0]
        self._take_rows(X, Y, Y_metadata, missing)
        warn_of_scaling(self._sample.X)

    def _take_rows(
        self, X: Any, Y: Any, Y_metadata: Any, missing: str = "raise", columns: Any = None
    ) -> None:
        """Check the rows and give them to an evaluator; starts are made from `_sample`."""
        given = X, Y, Y_metadata, self.likelihood
        self._evaluator: Evaluator
        if is_dask(X):
            from ..distributed import distribute  # it builds on this module

            self._data, self._sample, self._evaluator = distribute(
                *given, missing, columns, nodes=self.num_nodes
            )
        else:
            rows = Rows.read(*given, missing=missing, columns=columns)
            check_density(self.likelihood, rows)
            self._data = self._sample = rows
            shard = Shard(rows, nodes=self.num_nodes, num_threads=self.num_threads)
            self._evaluator = Evaluator([shard])
        self._mark_stale()

    def _take_constants(self) -> None:
        """Constant latents from the targets, what they score, and the scales of the latents."""
        rows, weights = self._sample, self._sample.weights
        self._flat_latents, self._latent_scales = start_latents(self.likelihood, rows)
        self._flat_score = flat_score(self.likelihood, rows, self._flat_latents)
        mean_weight = 1.0 if weights is None else float(np.mean(weights))
        self._total_weight = mean_weight * self._evaluator.num_rows

    def _make_parts(self, kernels: Any, means: Any) -> tuple[list[Kernel], list[MeanFunction]]:
        b, X = len(self.latents), self._sample.X
        parts = [
            one_per_latent(kernels, b, "kernels", "a kernel", as_kernel),
            one_per_latent(means, b, "mean_functions", "a mean function", as_mean),
        ]
        start_parameters(self.likelihood, self._sample)
        self._take_constants()
        if parts[0] is None:
            parts[0] = default_kernels(X, self._latent_scales, self.likelihood.symmetric)
        if parts[1] is None:
            parts[1] = default_means(self._flat_latents)
        for kernel in parts[0]:
            kernel.name_columns(self.input_names)
            kernel.check_columns(X.shape[1])
        for mean in parts[1]:
            mean.check_columns(X.shape[1])
        return parts[0], parts[1]

    def _make_inducing(self, Z: Any, num_inducing: int, parts: Any) -> Array | list[Array]:
        if Z is None:
            return select_inducing(
                parts[0][0], self._sample.X, num_inducing, np.random.default_rng(0)
            )
        return checked_inducing(Z, len(self.latents), self.X.shape[1])

    def _link(self, kernels: Any, means: Any, Z: Array | list[Array]) -> None:
        names, b = self.latents, len(self.latents)
        self._shared_Z = not isinstance(Z, list)
        sizes = [z.shape[0] for z in (Z if isinstance(Z, list) else [Z] * b)]
        self._sizes = tuple(sizes)
        self._same_size = len(set(sizes)) == 1
        mu = [np.zeros(M) for M in sizes]
        root = [pack_lower(np.eye(M)) for M in sizes]
        children = {
            "kernels": LatentList(kernels, names, "kernels"),
            "mean_functions": LatentList(means, names, "mean_functions"),
            "likelihood": self.likelihood,
            "Z": LargeParam("Z", Z) if not isinstance(Z, list) else list_of("Z", Z, names),
            "q_mu": stacked("q_mu", mu, names, self._same_size),
            "q_sqrt": stacked("q_sqrt", root, names, self._same_size),
        }
        self.likelihood.name = "likelihood"
        for attribute, child in children.items():
            object.__setattr__(self, attribute, child)
            self.link_parameter(child)

    def __setattr__(self, attribute: str, value: Any) -> None:
        if attribute in ("kernels", "mean_functions", "likelihood") and attribute in self.__dict__:
            raise InputError(
                f"m.{attribute} cannot be replaced: set its parameters, or build a new model."
            )
        super().__setattr__(attribute, value)

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
    def jitter(self) -> float:
        """Added to the diagonal of Kuu, relative to its mean."""
        return self._jitter

    @jitter.setter
    def jitter(self, value: float) -> None:
        self._jitter = checked_jitter(value)
        self._mark_stale()

    def save(self, path: Any, data: bool = True) -> None:
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
        data = data and len(self._data) > 0
        shards = self._evaluator.shards if data else []
        return Contents(
            name=self.name,
            input_names=self.input_names,
            column_names=self._column_names,
            target_name=self.target_name,
            jitter=self._jitter,
            num_nodes=self.num_nodes,
            likelihood=self.likelihood,
            kernels=list(self.kernels),
            means=list(self.mean_functions),
            Z=self.Z.values if self._shared_Z else [z.values for z in self.Z],
            leaves=leaves_of(self),
            hyperpriors=self.hyperpriors,
            rows=StoredRows(self.X, self._data.y, self.Y_metadata) if data else None,
            sites=np.concatenate([shard.sites() for shard in shards], 2)
            if data and all(shard.has_sites() for shard in shards)
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
                (shard,) = model._evaluator.shards
                shard.load_sites(stored.sites)
        if stored.result is not None:
            model.last_result = stored.result
        return model

    def _assemble(self, stored: Contents) -> None:
        """Join the parts of a stored model, without rows."""
        super().__init__(as_name(stored.name))
        D = stored.num_columns
        self._set_options(stored.num_nodes, None, stored.jitter)
        self.likelihood = stored.likelihood
        self.input_names, self._column_names = stored.input_names, stored.column_names
        self.target_name = stored.target_name
        self._data = self._sample = Rows(np.empty((0, D)), np.empty(0))
        self._evaluator = WithoutRows()
        self._mark_stale()
        names = [part.name for part in stored.parts]
        for part in (*stored.kernels, *stored.means):
            part.check_columns(D)
        self._link(stored.kernels, stored.means, checked_inducing(stored.Z, len(self.latents), D))
        for part, name in zip(stored.parts, names, strict=True):
            part.name = name  # which `_link` has changed to that of the latent

    def rename_inputs(self, names: Sequence[str]) -> None:
        """Other names for the columns of X, which frames to predict at must have from now on."""
        self.input_names = as_column_names(names, self.X.shape[1])
        self._column_names = tuple(self.input_names)

    def set_data(self, X: Any, Y: Any, Y_metadata: Any = None, missing: str = "raise") -> None:
        """New rows for the same model; parameters and q stay, as a warm start."""
        columns = self._column_names or self.X.shape[1]
        missing = one_of(missing, ("raise", "drop"), "missing")
        self._take_rows(X, Y, Y_metadata, missing, columns)
        self._take_constants()

    # ---- θ and q as the core sees them ----------------------------------------------------------

    def _inducing(self) -> list[Array]:
        # copies: a leaf's values change in place, and priors outlive a change of parameters
        if self._shared_Z:
            return [np.array(self.Z.values)] * len(self.latents)
        return [np.array(z.values) for z in self.Z]

    def _theta(self) -> Hyperparameters:
        return Hyperparameters(
            list(self.kernels),
            list(self.mean_functions),
            self._inducing(),
            self.likelihood,
            self.likelihood.parameter_values(),
            self._jitter,
        )

    def _columns(self, param: Any) -> list[Array]:
        """The values of q_mu or q_sqrt, one array per latent."""
        if self._same_size:
            return list(param.values.T)
        return [part.values for part in param]

    def _q(self) -> tuple[Gaussian, ...]:
        q = zip(self._columns(self.q_mu), self._columns(self.q_sqrt), strict=True)
        return tuple(from_root(mu, root) for mu, root in q)

    def _q_is_prior(self) -> bool:
        """Whether q is N(0, I), as in a new model."""
        q = self._q()
        return all((part.mu == 0).all() and (part.S_minus_I == 0).all() for part in q)

    def _reset_q(self) -> None:
        """Put q back to the prior N(0, I)."""
        self._write_q([Gaussian(np.zeros(M), np.eye(M), 0.0) for M in self._sizes])

    def _use_threads(self, num_threads: int) -> None:
        self.num_threads = num_threads
        for shard in self._evaluator.shards:
            shard.num_threads = num_threads

    def _write_q(self, q: Sequence[Gaussian]) -> None:
        mu = [part.mu for part in q]
        root = [root_of(part) for part in q]
        for param, values in ((self.q_mu, mu), (self.q_sqrt, root)):
            if self._same_size:
                param[:] = np.stack(values, axis=1)
            else:
                for part, value in zip(param, values, strict=True):
                    part[:] = value

    # ---- the bound ------------------------------------------------------------------------------

    def _mark_stale(self) -> None:
        self.__dict__["_state"] = None
        self.__dict__["_gradient_is_current"] = False

    def parameters_changed(self) -> None:
        """Called by paramz after every change: nothing is computed before it is asked for."""
        self._mark_stale()

    def _evaluated(self, gradient: bool = False) -> State:
        """The state at the current parameters and q, evaluated once; faster if told of `gradient`.

        gradient : whether the gradient at this state will be asked for.
        """
        if self._state is None:
            self._evaluator.set_hyperparameters(self._theta())
            columns = self._columns(self.q_mu), self._columns(self.q_sqrt)
            q = self._evaluator.over_latents(from_root, *columns)
            state = self._evaluator.evaluate(q, gradient=gradient)
            self._evaluator.accept(0.0)
            self.__dict__["_state"] = state
            self.__dict__["_last_bound"] = state.bound
        return self._state

    def log_likelihood(self) -> float:
        """The bound on log p(Y) at the current q, without priors (Saul et al. 2016, eq. 7)."""
        bound = float(self._evaluated().bound)
        if not np.isfinite(bound):
            raise NumericalError(NOT_FINITE)
        return bound

    def objective_function(self) -> float:
        """−(bound + log-priors): what an optimiser minimises."""
        return -(self.log_likelihood() + self.log_prior())

    def objective_function_gradients(self) -> Array:
        """Gradient of the objective in all parameters, untransformed; a new array."""
        if not self._gradient_is_current:
            with one_blas_thread():
                state = self._evaluated(gradient=True)
                self._write_gradients(self._evaluator.gradient(state, sites_fixed=False), state)
            self._add_prior_gradients()
            self.__dict__["_gradient_is_current"] = True
        return -np.array(self.gradient)

    def _write_gradients(self, gradient: Gradient, state: State | None = None) -> None:
        """Put ∂L into the leaves' gradients; those of q only where a state is given."""
        for kernel, mean, part in zip(
            self.kernels, self.mean_functions, gradient.latents, strict=True
        ):
            kernel.gradient[:] = part.kernel
            mean.gradient[:] = part.mean
        self.likelihood.gradient[:] = gradient.parameters
        if self._shared_Z:
            self.Z.gradient[:] = sum(part.Z for part in gradient.latents)
        else:
            for Z, part in zip(self.Z, gradient.latents, strict=True):
                Z.gradient[:] = part.Z
        if state is None:
            return
        d_root = self._evaluator.over_latents(root_gradient, state.q, gradient.S_bar)
        for param, values in ((self.q_mu, gradient.mu), (self.q_sqrt, d_root)):
            if self._same_size:
                param.gradient[:] = np.stack(values, axis=1)
            else:
                for part, value in zip(param, values, strict=True):
                    part.gradient[:] = value

    # ---- predictions --------------------------------------------------------------------------

    def predict_latents(self, Xnew: Any, full_cov: bool = False) -> tuple[Array, Array]:
        """q(f*) of every latent at Xnew (Saul et al. 2016, eqs. 4 and 5).

        Returns mean (n, b) and variance (n, b), or with `full_cov` the covariance (b, n, n).
        """
        return self._predictor().latents(Xnew, full_cov)

    def predictive(self, Xnew: Any, Y_metadata: Any = None) -> Predictive:
        """The predictive distribution of the targets at Xnew: p(y* | x*) under q (one per row)."""
        return self._predictor().distribution(Xnew, Y_metadata)

    def predict(self, Xnew: Any, Y_metadata: Any = None) -> tuple[Array, Array]:
        """Mean and variance of the targets at Xnew, each (n, 1)."""
        return self._predictor().moments(Xnew, Y_metadata)

    def predict_frame(
        self,
        Xnew: Any,
        quantiles: Sequence[float] = (2.5, 50.0, 97.5),
        Y_metadata: Any = None,
    ) -> Any:
        """Predictions as a pandas DataFrame with the index of Xnew, where it has one.

        A frame of another library, such as polars, gives a frame of that library. Columns: mean,
        variance, and the quantiles, in percent: "2.5%", "50%", "97.5%".
        """
        return self._predictor().frame(Xnew, quantiles, Y_metadata)

    def predict_quantiles(
        self, Xnew: Any, quantiles: Sequence[float] = (2.5, 97.5), Y_metadata: Any = None
    ) -> list[Array]:
        """Quantiles of the targets, in percent as in GPy: a list of (n, 1)."""
        return self._predictor().quantiles(Xnew, quantiles, Y_metadata)

    def predict_density(self, Xnew: Any, y: Any, Y_metadata: Any = None) -> Array:
        """Predictive density (or mass) at y: a 1-D grid gives (n, k), (n, 1) is per row."""
        return self._predictor().density(Xnew, y, Y_metadata)

    def predict_cdf(self, Xnew: Any, y: Any, Y_metadata: Any = None) -> Array:
        """Predictive probability of a target of at most y; shapes as in `predict_density`."""
        return self._predictor().cdf(Xnew, y, Y_metadata)

    def log_predictive_density(self, Xnew: Any, Ynew: Any, Y_metadata: Any = None) -> Array:
        """log p(y* | x*) of new rows, (n, 1); the mean of its negative is the NLPD."""
        return self._predictor().log_density(Xnew, Ynew, Y_metadata)

    def posterior_samples(
        self, Xnew: Any, size: int = 10, rng: Any = None, Y_metadata: Any = None
    ) -> Array:
        """Draws of the targets at Xnew, independent over rows: (n, 1, size)."""
        return self._predictor().draws(Xnew, size, rng, Y_metadata)

    def posterior_samples_f(self, Xnew: Any, size: int = 10, rng: Any = None) -> Array:
        """Joint draws of the latent functions at Xnew from q: (n, b, size).

        f = mean(x) + Aᵀv + r with v ~ q(v), and r ~ N(0, K** − AᵀA), what the inducing values leave
        open. For more than 2,048 rows r is drawn in blocks of as many, independent of each other;
        v, and with it nearly all correlation, is common to all.
        """
        return self._predictor().latent_draws(Xnew, size, rng)

    def _predictor(self) -> Predictor:
        """What predictions are made of, at the current parameters and q."""
        theta = self._theta()
        with one_blas_thread():
            priors = [
                make_prior(kernel, mean, Z, theta.jitter)
                for kernel, mean, Z in zip(theta.kernels, theta.means, theta.Z, strict=True)
            ]
        columns = self._column_names or self.X.shape[1]
        return Predictor(self.likelihood, tuple(priors), self._q(), columns)

    # ---- assessment ---------------------------------------------------------------------------

    def loo(self, refit: int | bool = REFIT, rng: Any = 0, size: int = 4000) -> LOO:
        """Log-densities of each row when it is left out, at the same hyperparameters.

        From the sites of q, and for the `refit` rows of the greatest influence (largest Pareto k)
        by finding q anew: exact for up to 200 rows by default. True refits all, False none.

        rng, size : seed and number of draws from q for the Pareto k; see `assessment.loo`.
        """
        return loo(self, refit, rng, size)

    def check(self, rows: int = ROWS, rng: Any = 0) -> Check:
        """What to look at before trusting the fit, in words, each with its cause and remedy.

        Asks whether the fit converged, whether quadrature nodes suffice, how many rows widen q
        (negative sites), how influential single rows are (Pareto k), whether predictions of rows
        left out are calibrated, which rows are outliers, whether more inducing inputs would help,
        which parameters are at a bound or run away, whether data are badly scaled, and whether the
        noise vanishes. A few passes over the data; the model is not changed.

        rows : most rows for what is done row by row. rng : seed or Generator that chooses them.
        """
        return check(self, rows, rng)

    def summary(self) -> Table:
        """The parameters in a table: value, constraint, whether fixed, prior; a row for each entry.

        Above it likelihood, data, bound and the last fit. `summary()["value"]` is an array, and
        `summary().frame()` a pandas DataFrame. Z and q are left out.
        """
        return summary(self)

    def predict_component(
        self,
        Xnew: Any,
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

    def plot(self, **options: Any) -> Axes:
        """The fit: `plot_fit` for one input, `plot_map` for two, else `plot_slice`."""
        if self.X.shape[1] == 1:
            return plotting.plot_fit(self, **options)
        if self.X.shape[1] == 2:
            return plotting.plot_map(self, **options)
        return plotting.plot_slice(self, **options)

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
        bound = self.__dict__.get("_last_bound")
        stale = "" if self._state is not None else " (before the last change)"
        M = " + ".join(str(M) for M in dict.fromkeys(self._sizes))
        return [
            ("Chained GP", self.name),
            ("Likelihood", f"{type(self.likelihood).__name__}({', '.join(self.latents)})"),
            ("Data", f"{self.X.shape[0]} rows, {self.X.shape[1]} inputs, {M} inducing inputs"),
            ("Bound", "not evaluated yet" if bound is None else f"{bound:.6g}{stale}"),
        ]

    def __str__(self, VT100: bool = False) -> str:
        lines = [f"{key:<10} : {value}" for key, value in self._header()]
        return "\n".join([*lines, super(Model, self).__str__(VT100=False)])

    def _repr_html_(self) -> str:
        lines = [f"<b>{key}</b>: {value}<br>" for key, value in self._header()]
        return "\n".join(["<p>", *lines, "</p>", super(Model, self)._repr_html_()])
