"""Problems and finite differences that several test files share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

import chainedgp as cgp
from chainedgp.likelihoods import Likelihood

L, K, M = cgp.likelihoods, cgp.kernels, cgp.means


class OffsetLogistic(Likelihood):
    """Known by its density alone: y ~ Logistic(f + offset, τ e^g), parameter τ, metadata offset."""

    latents = ("location", "log_scale")
    parameters = {"tau": 0.8}

    def log_density(self, y, f, g, *, tau, offset):
        z = np.abs(y - f - offset) * np.exp(-g) / tau
        return -z - g - np.log(tau) - 2.0 * np.log1p(np.exp(-z))


class TwoMeans(Likelihood):
    """Three latents: y ~ N(f + h, e^g)."""

    latents = ("first", "log_variance", "second")

    def log_density(self, y, f, g, h):
        return -0.5 * (np.log(2 * np.pi) + g + (y - f - h) ** 2 * np.exp(-g))


def inputs(n: int, D: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (n, D))


def problem(name: str, X: np.ndarray, seed: int = 1) -> tuple[Likelihood, np.ndarray, dict]:
    """A likelihood, targets that suit it and metadata, at the rows of X."""
    rng = np.random.default_rng(seed)
    n, x = len(X), X[:, 0]
    f, g = np.sin(2.0 * x), 0.5 * np.cos(2.0 * x)
    u = rng.uniform(size=n)
    times = np.exp(f) * (u / (1 - u)) ** np.exp(-g)
    noisy = f + np.exp(g - 1.0) * rng.standard_t(2.0, size=n)
    censored = (rng.uniform(size=n) < 0.4).astype(float)
    offset = 0.3 * rng.normal(size=n)
    rates = np.exp(f) + np.exp(g)
    table: dict[str, Any] = {
        "HetGaussian": (L.HetGaussian(), noisy, {}),
        "HetStudentT": (L.HetStudentT(nu=3.0), noisy, {}),
        "Beta": (L.Beta(), rng.beta(2.0 * np.exp(f), 2.0 * np.exp(g)), {}),
        "LogLogisticSurvival": (L.LogLogisticSurvival(), times, {"censored": censored}),
        "AdditivePoisson": (L.AdditivePoisson(), rng.poisson(2.0 * rates).astype(float), {}),
        "Gaussian": (L.Gaussian(variance=0.3), noisy, {}),
        "StudentT": (L.StudentT(), noisy, {}),
        "Poisson": (L.Poisson(), rng.poisson(rates).astype(float), {"exposure": 0.5 + u}),
        "Bernoulli": (L.Bernoulli(), (u < expit(2.0 * f)).astype(float), {}),
        "LogLogistic": (L.LogLogistic(), times, {"censored": censored}),
        "OffsetLogistic": (OffsetLogistic(), noisy + offset, {"offset": offset}),
        "TwoMeans": (TwoMeans(), noisy, {}),
    }
    return table[name]


POSTERIORS = ("mean_field", "joint")
PAPER = ("HetGaussian", "HetStudentT", "Beta", "LogLogisticSurvival", "AdditivePoisson")
ONE_LATENT = ("Gaussian", "StudentT", "Poisson", "Bernoulli", "LogLogistic")
ALL = (*PAPER, *ONE_LATENT, "OffsetLogistic", "TwoMeans")


def kernel(name: str) -> K.Kernel:
    """Kernels on two columns, none of whose parameters is 1."""
    if name == "rbf_ard":
        return K.RBF(2, variance=0.8, lengthscale=[1.1, 1.7], ARD=True)
    if name == "matern_linear_bias":
        return K.Matern32(2, variance=0.7, lengthscale=1.3) * K.Linear(2, 0.4) + K.Bias(2, 0.3)
    return K.Periodic(1, variance=0.6, lengthscale=1.2, period=2.3, active_dims=[1])


def mean_function(name: str) -> M.MeanFunction:
    return {
        "zero": M.Zero(),
        "constant": M.Constant(0.2),
        "linear": M.Linear(2, weights=[0.3, -0.2], bias=0.1),
    }[name]


def randomise_q(m: cgp.ChainedGP, seed: int = 2) -> cgp.ChainedGP:
    """A q that is neither the prior nor optimal."""
    rng = np.random.default_rng(seed)
    for leaf in leaves(m.q_mu):
        leaf[:] = 0.3 * rng.normal(size=leaf.shape)
    spread = 0.05 if m.posterior == "mean_field" else 0.3  # correlations that matter
    for leaf in leaves(m.q_sqrt):
        leaf[:] = 0.6 * leaf.values + spread * rng.normal(size=leaf.shape)
    return m


def small_model(
    likelihood: str,
    *,
    n: int = 14,
    kernels: str = "rbf_ard",
    means: str = "constant",
    separate_Z: bool = False,
    **keywords: Any,
) -> cgp.ChainedGP:
    """A small model at a random q, away from every special value."""
    X = inputs(n)
    lik, y, metadata = problem(likelihood, X)
    rng = np.random.default_rng(3)
    # off the rows: kernels such as Matern have a kink at distance 0
    Z: Any = rng.uniform(-2.0, 2.0, (4, 2))
    if separate_Z:
        Z = [rng.uniform(-2.0, 2.0, (3 + j, 2)) for j in range(len(lik.latents))]
    m = cgp.ChainedGP(
        X,
        y,
        lik,
        kernels=kernel(kernels),
        Z=Z,
        mean_functions=mean_function(means),
        Y_metadata=metadata,
        **{"num_threads": 1, "jitter": 1e-3, "posterior": "mean_field", **keywords},
    )
    return randomise_q(m)


def leaves(part: Any) -> list[Any]:
    return list(part.flattened_parameters) if hasattr(part, "flattened_parameters") else [part]


def is_q(m: cgp.ChainedGP, leaf: Any) -> bool:
    return any(leaf is other for other in [*leaves(m.q_mu), *leaves(m.q_sqrt)])


def gradient_errors(value: Any, leaf_list: list[Any], seed: int = 4) -> dict[str, float]:
    """Error of the gradients that leaves hold against central differences of value(), leaf by leaf.

    In units of the tolerance 1e-6 |derivative| + 2e-8. Every entry of a leaf of up to two, else a
    random direction, in which an error of any entry shows.
    """
    rng = np.random.default_rng(seed)
    held = [np.array(leaf.gradient, dtype=float) for leaf in leaf_list]
    errors = {}
    for leaf, gradient in zip(leaf_list, held, strict=True):
        start, worst = np.array(leaf.values), 0.0
        if leaf.size <= 2:
            directions = list(np.eye(leaf.size))
        else:
            directions = [rng.normal(size=leaf.size)]
        for d in directions:
            d = d.reshape(leaf.shape)
            h = 1e-5 * max(0.3, float(np.abs(start).max())) / float(np.abs(d).max())
            ends = []
            for sign in (1.0, -1.0):
                leaf[:] = start + sign * h * d
                ends.append(value())
            leaf[:] = start
            numeric = (ends[0] - ends[1]) / (2.0 * h)
            error = abs(numeric - float(np.vdot(gradient, d)))
            worst = max(worst, error / (1e-6 * abs(numeric) + 2e-8))
        errors[leaf.hierarchy_name()] = worst
    return errors


def bound_gradient_errors(m: cgp.ChainedGP) -> dict[str, float]:
    """`gradient_errors` of the bound at the model's q, over all its leaves."""
    m.log_likelihood()
    m.problem.evaluator.freeze_nodes(True)  # differences must compare the same sums
    m.parameters_changed()  # bound and gradients in one pass, as when an optimiser asks
    m.objective_function_gradients()
    return gradient_errors(m.log_likelihood, list(m.flattened_parameters))


def wrong_leaves(errors: dict[str, float]) -> dict[str, float]:
    return {name: error for name, error in errors.items() if not error <= 1.0}
