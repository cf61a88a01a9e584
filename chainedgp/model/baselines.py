"""Baselines that chained GPs are compared with: the Laplace approximation, a collapsed bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from paramz import Parameterized
from scipy.linalg import cho_factor, cho_solve

from ..data.arguments import as_name, positive_float, positive_int
from ..data.frames import column_names
from ..data.rows import Rows
from ..data.types import Data, Keywords, Metadata
from ..errors import InputError, NumericalError
from ..inference.free_vector import FreeVector
from ..inference.lbfgs import minimise
from ..inference.monitor import Monitor
from ..inference.result import OptimizationResult
from ..inference.starts import default_kernels, default_means, start_latents, start_parameters
from ..inference.theta_and_q import Parts
from ..kernels import as_kernel
from ..likelihoods import HetGaussian, Likelihood
from ..likelihoods.density_check import check_density
from ..likelihoods.differences import difference
from ..linalg import Array, cholesky, invert_lower, one_blas_thread
from ..means import MeanFunction
from ..parameters.paramz_model import ParamzModel, add_prior_gradients
from ..parameters.parts import LatentList
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import InducingPrior, make_prior
from ..predictive.predictions import Predictions
from ..predictive.predictor import Predictor
from .arguments import (
    as_mean,
    checked_jitter,
    checked_likelihood,
    one_per_latent,
)
from .chained_gp import JITTER, ChainedGP

__all__ = ["LaplaceGP", "collapsed_bound"]

NEWTON_STEPS = 200  # A dozen steps find a mode; after this many there is none to be found.
# Newton's method stops after a step that gained less than this share of the objective: that step
# has squared the error once more.
DECREMENT = 1e-9


class LaplaceGP(ParamzModel, Predictions):
    """A full GP with one latent whose posterior is approximated by a Gaussian at its mode.

        log q(y) = log p(y | f̂) − ½ (f̂ − m)ᵀ K⁻¹ (f̂ − m) − ½ log |I + K W|,    W = −∇∇ log p(y | f̂)

    (Rasmussen and Williams 2006, section 3.4). W may have negative entries, as for a Student-t.
    Costs O(N³); N of a few thousand is the limit. All prediction methods are those of `ChainedGP`.

    Parameters
    ----------
    X, Y, likelihood, Y_metadata, name, jitter : as for `ChainedGP`; one latent, no weights.
    kernel : None (that of `ChainedGP`) or a kernel.
    mean_function : None (a constant, started from the data) or a mean function.
    """

    def __init__(
        self,
        X: Data,
        Y: Data,
        likelihood: Likelihood,
        kernel: Parameterized | None = None,
        mean_function: MeanFunction | None = None,
        Y_metadata: Metadata = None,
        name: str = "laplace_gp",
        *,
        jitter: float = JITTER,
    ) -> None:
        super().__init__(as_name(name))
        self.likelihood = checked_likelihood(likelihood)
        if len(self.likelihood.latents) != 1:
            raise InputError(
                f"LaplaceGP needs a likelihood with one latent; {type(self.likelihood).__name__} "
                f"has {len(self.likelihood.latents)}. Use ChainedGP."
            )
        self._column_names = column_names(X)
        rows = Rows.read(X, Y, Y_metadata, self.likelihood)
        check_density(self.likelihood, rows)
        if rows.weights is not None:
            raise InputError("LaplaceGP has no row weights: leave 'weights' out of Y_metadata.")
        self._data, self.X = rows, rows.X
        self.jitter = checked_jitter(jitter)
        self._a = np.zeros(rows.num_rows)  # K⁻¹(f̂ − m) at the last accepted parameters
        start_parameters(self.likelihood, rows)
        values, scales = start_latents(self.likelihood, rows)
        kernels = one_per_latent(kernel, 1, "kernel", "a kernel", as_kernel)
        means = one_per_latent(mean_function, 1, "mean_function", "a mean function", as_mean)
        kernels = kernels or default_kernels(self.X, scales, False)
        means = means or default_means(values)
        kernels[0].name_columns(self._column_names)
        for part in (*kernels, *means):
            part.check_columns(self.X.shape[1])
        self._mark_stale()
        self.likelihood.name = "likelihood"
        latents = self.likelihood.latents
        self.kernels = LatentList(kernels, latents, "kernels")
        self.mean_functions = LatentList(means, latents, "mean_functions")
        self.link_parameters(self.kernels, self.mean_functions, self.likelihood)

    # ---- the approximation ----------------------------------------------------------------------

    def _mark_stale(self) -> None:
        self.__dict__["_state"] = None

    def _mode(self) -> _Mode:
        """The Laplace approximation at the current parameters, computed once."""
        if self._state is None:
            y = self._data.targets()
            kw = self._data.keywords(**self.likelihood.parameter_values())
            with one_blas_thread(), np.errstate(over="ignore"):
                prior = make_prior(self.kernels[0], self.mean_functions[0], self.X, self.jitter)
                mode = _find_mode(_Rows(self.likelihood, y, kw), prior, self._a)
            self.__dict__["_state"] = mode
        return self._state

    def log_likelihood(self) -> float:
        """The Laplace approximation log q(y) of the log marginal likelihood, without priors."""
        return self._mode().log_marginal

    def objective_function(self) -> float:
        """The objective of the Laplace approximation, −(log q(y) + log-priors)."""
        return -(self.log_likelihood() + self.log_prior())

    def objective_function_gradients(self) -> Array:
        """Gradient of the Laplace objective in all parameters, untransformed; a new array."""
        mode = self._mode()
        with one_blas_thread(), np.errstate(over="ignore"):
            d_kernel, d_mean, d_parameters = mode.gradient()
        self.kernels[0].gradient[:] = d_kernel
        self.mean_functions[0].gradient[:] = d_mean
        self.likelihood.gradient[:] = d_parameters
        add_prior_gradients(self)
        return -np.array(self.gradient)

    # ---- predictions ----------------------------------------------------------------------------

    def _predictor(self) -> Predictor:
        """The Laplace approximation as a whitened q(v) at inducing inputs X, for predictions."""
        mode = self._mode()
        q = Gaussian(mode.v, mode.S, -mode.log_det)
        columns = self._column_names or self.X.shape[1]
        told = self._data.telling
        return Predictor(self.likelihood, (mode.prior,), (q,), columns, told=told)

    predict_latents = ChainedGP.predict_latents
    predictive = ChainedGP.predictive
    posterior_samples_f = ChainedGP.posterior_samples_f

    def _use_threads(self, num_threads: int) -> None:
        """Do nothing: the Laplace model has one thread, but `cross_validate` sets it on any."""

    # ---- fit ------------------------------------------------------------------------------------

    def optimize(
        self, messages: bool | None = None, max_iters: int = 1000, *, tolerance: float = 1e-3
    ) -> OptimizationResult:
        """Maximise Laplace's log q(y) by L-BFGS; arguments as in `ChainedGP`."""
        max_iters = positive_int(max_iters, "max_iters")
        tolerance = positive_float(tolerance, "tolerance")
        with Monitor("laplace", messages) as monitor:
            objective = _Objective(self, monitor)
            x = objective.vector.read()
            # where the mode of the latents jumps, log q(y) has steps, whose slopes mean nothing
            outcome = minimise(objective, x, max_iters=max_iters, tolerance=tolerance, steep=np.inf)
            objective.vector.write(outcome.x)
        counts = objective.evaluations, objective.evaluations
        self.last_result = monitor.result(outcome, self.log_likelihood(), counts)
        return self.last_result


class _Objective:
    """The Laplace objective −(log q(y) + log prior) of the free parameters, for `minimise`."""

    def __init__(self, model: LaplaceGP, monitor: Monitor) -> None:
        self.model, self.monitor = model, monitor
        parts = Parts(model.kernels, model.mean_functions, model.likelihood, model.jitter)
        self.vector = FreeVector(parts, model.X)
        self.evaluations = 0

    def value(self, x: Array) -> float:
        self.vector.write(x)
        self.evaluations += 1
        try:
            return self.model.objective_function()
        except NumericalError:
            return np.inf

    def gradient(self) -> Array:
        self.model.objective_function_gradients()
        return -self.vector.gradient()

    def accept(self, x: Array, value: float) -> float:
        # A posterior may have several modes: all trials of a line search start from the same one.
        self.model._a = self.model._mode().a
        self.monitor.point(-value - self.model.log_prior(), self.evaluations, self.evaluations)
        return value


@dataclass(frozen=True)
class _Rows:
    """Log-densities log p(y | f) of the rows of a Laplace model, and slopes in f and θ, (N,)."""

    likelihood: Likelihood
    y: Array
    kw: Keywords

    def value(self, f: Array) -> float:
        """Σ log p(y_i | f_i) of a Laplace model, −inf where it is not a number."""
        total = float(np.sum(self.likelihood.log_density(self.y, f, **self.kw)))
        return total if np.isfinite(total) else -np.inf

    def slope(self, f: Array, **other: float) -> Array:
        return self.likelihood.dlog_density(self.y, f, **{**self.kw, **other})[0]

    def curvature(self, f: Array, **other: float) -> Array:
        """The curvature W = −∂² log p / ∂f² of the Laplace approximation."""
        return -self.likelihood.d2log_density(self.y, f, **{**self.kw, **other})[0]

    def in_parameter(self, function: Callable[..., Array], f: Array, key: str) -> Array:
        """The derivative of a Laplace model's function in a parameter θ_key, by differences."""
        at = float(self.kw[key])
        step = 1e-3 * max(abs(at), 1e-2)
        return difference(lambda value: function(f, **{key: value}), at, step)


@dataclass(frozen=True)
class _Mode:
    """The Laplace approximation, whitened: f = m + L v, v ~ N(v̂, B⁻¹), B = I + Lᵀ W L."""

    rows: _Rows
    prior: InducingPrior
    v: Array  # (N,)
    f: Array  # (N,)
    W: Array  # (N,)
    B_root: Array  # (N, N)
    objective: float  # log p(y | f̂) − ½ v̂ᵀv̂

    @property
    def a(self) -> Array:
        """K⁻¹(f̂ − m) at the mode of the Laplace approximation, (N,)."""
        return self.prior.L_inv.T @ self.v

    @property
    def log_det(self) -> float:
        """log |B| of the Laplace approximation."""
        return 2.0 * float(np.log(np.diag(self.B_root)).sum())

    @property
    def log_marginal(self) -> float:
        """log q(y), the Laplace approximation of the log marginal likelihood."""
        return self.objective - 0.5 * self.log_det

    @cached_property
    def _B_root_inv(self) -> Array:
        return invert_lower(self.B_root)

    @cached_property
    def S(self) -> Array:
        """Covariance B⁻¹ of the whitened v in the Laplace approximation."""
        return self._B_root_inv.T @ self._B_root_inv

    def gradient(self) -> tuple[Array, Array, Array]:
        """Gradients of the Laplace log q(y) in the parameters of kernel, mean and likelihood.

        Σ = (K⁻¹ + W)⁻¹ is the posterior covariance, R = (K + W⁻¹)⁻¹ = W − WΣW. The mode moves with
        the parameters, and log |B| with the mode: s = ∂(−½ log |B|)/∂f̂ enters through
        u = (I + W K)⁻¹ s = s − WΣs. Then

            ∂/∂K = ½ a aᵀ − ½ R + ½ (u aᵀ + a uᵀ),    ∂/∂m = a + u,
            ∂/∂θ = Σ_i [∂ log p − ½ Σ_ii ∂W_ii] + sᵀ Σ ∂∇ log p.
        """
        rows, f, W, a = self.rows, self.f, self.W, self.a
        root = self._B_root_inv @ self.prior.L.T
        Sigma = root.T @ root
        spread = np.diag(Sigma)
        s = -0.5 * spread * difference(rows.curvature, f, 1e-3)
        Sigma_s = Sigma @ s
        u = s - W * Sigma_s
        dL_dK = 0.5 * W[:, None] * Sigma * W + np.outer(a, 0.5 * a + u)
        dL_dK = 0.5 * (dL_dK + dL_dK.T)
        dL_dK.flat[:: W.size + 1] -= 0.5 * W
        # The jitter is a multiple of the mean of diag(K), so it has a derivative of its own.
        dL_dK.flat[:: W.size + 1] += self.prior.jitter * np.trace(dL_dK) / W.size
        d_kernel = self.prior.pull_Kuu(dL_dK)[0]
        d_mean = self.prior.mean.evaluate(self.prior.Z)[1](a + u)
        direct = rows.likelihood.dlog_density_dtheta(rows.y, f, **rows.kw)
        d_parameters = [
            np.sum(first)
            - 0.5 * spread @ rows.in_parameter(rows.curvature, f, key)
            + Sigma_s @ rows.in_parameter(rows.slope, f, key)
            for key, first in zip(rows.likelihood.parameter_keys, direct, strict=True)
        ]
        return d_kernel, d_mean, np.array(d_parameters)


def _find_mode(rows: _Rows, prior: InducingPrior, a: Array) -> _Mode:
    """Newton's method for the mode of the Laplace approximation, max log p(y | m + L v) − ½ vᵀv.

    It starts from f = m + K a or m, the better.

    Every step is shortened until it gains enough; see `_newton_step` for W with negative entries.
    """
    L, m = prior.L, prior.mean.evaluate(prior.Z)[0]

    def objective(v: Array) -> float:
        return rows.value(m + L @ v) - 0.5 * float(v @ v)

    v, value = max(
        ((start, objective(start)) for start in (L.T @ a, np.zeros(m.size))), key=lambda p: p[1]
    )
    last = False
    for _ in range(NEWTON_STEPS):
        f = m + L @ v
        slope, W = L.T @ rows.slope(f) - v, rows.curvature(f)
        if not (np.isfinite(slope).all() and np.isfinite(W).all()):
            raise NumericalError("the log-density is not finite on the way to the mode.")
        step, B_root = _newton_step(L, W, slope)
        if last and B_root is not None:
            return _Mode(rows, prior, v, f, W, B_root, value)
        gain = float(slope @ step)
        last = B_root is not None and gain <= DECREMENT * (1.0 + abs(value))
        length = 1.0
        while not last and not objective(v + length * step) >= value + 1e-4 * length * gain:
            length *= 0.5
            last = length < 1e-8
        v = v + length * step
        value = objective(v)
    raise NumericalError(f"{NEWTON_STEPS} Newton steps did not find the mode of the posterior.")


def _newton_step(L: Array, W: Array, slope: Array) -> tuple[Array, Array | None]:
    """A Newton step B⁻¹ slope towards the Laplace mode, and the lower Cholesky factor of B.

    B = I + Lᵀ W L.

    W with negative entries can make B indefinite away from a mode. Then there is no factor, and the
    step has the absolute eigenvalues of B instead and leaves a saddle: it always ascends.
    """
    B = L.T @ (W[:, None] * L)
    B.flat[:: W.size + 1] += 1.0
    try:
        root = cholesky(B, "the posterior precision at the mode")
        return cho_solve((root, True), slope), root
    except NumericalError:
        values, vectors = np.linalg.eigh(B)
        along = (slope @ vectors) / np.maximum(np.abs(values), 1e-2)
        # The step leaves a saddle along its lowest eigenvector.
        along[0] += np.copysign(0.1, along[0])
        return vectors @ along, None


def collapsed_bound(model: ChainedGP) -> float:
    """The bound of Lázaro-Gredilla and Titsias (2011) for HetGaussian, q(f) integrated out.

        max_{q(g)}  log N(y; m_f, K_f + R) − ¼ Σ v_i − KL(q(g) ‖ p(g)),    R = diag e^{μ_i − v_i/2}

    with μ and v the mean and variances of q(g) = N(m_g + K_g (λ − ½), (K_g⁻¹ + Λ)⁻¹), maximised
    over λ > 0 (N,), at the kernels and means of the model; its Z and q play no part. Given q(g) the
    best q(f) is Gaussian, so this is what the model's own bound comes to for Z = X and the best q.
    """
    if type(model.likelihood) is not HetGaussian:
        raise InputError(
            f"collapsed_bound is for HetGaussian; got {type(model.likelihood).__name__}."
        )
    if model._data.weights is not None:
        raise InputError("collapsed_bound has no row weights: build the model without them.")
    K_f, K_g = (kernel.K(model.X) for kernel in model.kernels)
    m_f, m_g = (mean.evaluate(model.X)[0] for mean in model.mean_functions)
    residual = model.Y[:, 0] - m_f
    n = residual.size

    def evaluate(lam: Array) -> tuple[float, Array]:
        """The collapsed bound at λ, and the λ that its gradient points to.

        The gradient is (K_g + ½ Σ∘Σ)(½ + w − λ).
        """
        root = np.sqrt(lam)
        B = cho_factor(np.eye(n) + root[:, None] * K_g * root, lower=True)
        Sigma = K_g - (K_g * root) @ cho_solve(B, root[:, None] * K_g)
        drift, v = K_g @ (lam - 0.5), np.diag(Sigma)
        with np.errstate(over="ignore"):
            R = np.exp(m_g + drift - 0.5 * v)
        if not np.isfinite(R).all():  # the step to this λ was too long: refuse it
            return -np.inf, lam
        C = cho_factor(K_f + np.diag(R), lower=True)
        alpha = cho_solve(C, residual)
        w = 0.5 * R * (alpha**2 - np.diag(cho_solve(C, np.eye(n))))
        kl = 0.5 * ((lam - 0.5) @ drift - lam @ v) + np.log(np.diag(B[0])).sum()
        gaussian = -0.5 * (residual @ alpha + n * np.log(2.0 * np.pi)) - np.log(np.diag(C[0])).sum()
        return float(gaussian - 0.25 * v.sum() - kl), np.maximum(0.5 + w, 0.0)

    with one_blas_thread():
        lam, length = np.full(n, 0.5), 1.0
        value, target = evaluate(lam)
        while length > 1e-6 and np.abs(target - lam).max() > 1e-9:
            trial = lam + length * (target - lam)
            new, new_target = evaluate(trial)
            if new > value:
                lam, value, target, length = trial, new, new_target, min(1.0, 2.0 * length)
            else:
                length *= 0.5
    return value
