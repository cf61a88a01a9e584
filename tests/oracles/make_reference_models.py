"""Writes reference_models.json: what a collection of small models computes, number by number.

The file pins the numbers of release 0.1. Every model has fixed data, explicit inducing inputs and
a q that is neither the prior nor optimal; nothing is optimised, because a fit amplifies rounding.
`STARTS` holds what a model begins with when it is given data alone, `FITS` short whole fits. Run

    python tests/oracles/make_reference_models.py

from the root of the repository to add models that the file does not have yet; what it has stays.
Where a change of the numbers is meant, take the entry out of the file first.
`tests/oracles/test_reference_models.py` compares. Only public names are used here, so that the
file stays valid wherever things live inside the package. Random numbers for data and q are uniform
draws, whose stream no version of numpy changes.
"""

import json
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import paramz
import scipy.stats
from paramz.transformations import Logexp
from scipy.special import expit, ndtri

import chainedgp as cgp

L, K, M, P = cgp.likelihoods, cgp.kernels, cgp.means, cgp.priors
DATA = Path(__file__).resolve().parents[1] / "stored"
PATH = DATA / "reference_models.json"
NEW = 3  # rows to predict at


# ---- what a user adds -------------------------------------------------------------------------


class Logistic(cgp.Likelihood):
    """One latent, known by its density alone: y ~ Logistic(f, scale)."""

    latents = ("location",)
    parameters = {"scale": 0.4}

    def log_density(self, y, f, *, scale):
        z = np.abs(y - f) / scale
        return -z - np.log(scale) - 2.0 * np.log1p(np.exp(-z))


class OffsetLogistic(cgp.Likelihood):
    """Two latents, a parameter and metadata: y ~ Logistic(f + offset, tau e^g)."""

    latents = ("location", "log_scale")
    parameters = {"tau": 0.8}

    def log_density(self, y, f, g, *, tau, offset):
        z = np.abs(y - f - offset) * np.exp(-g) / tau
        return -z - g - np.log(tau) - 2.0 * np.log1p(np.exp(-z))


class TwoMeans(cgp.Likelihood):
    """Three latents: y ~ N(f + h, e^g)."""

    latents = ("first", "log_variance", "second")

    def log_density(self, y, f, g, h):
        return -0.5 * (np.log(2 * np.pi) + g + (y - f - h) ** 2 * np.exp(-g))


class Geometric(cgp.Likelihood):
    """Counts by their density alone: P(y) = p (1 - p)^y, logit p = f."""

    latents = ("logit",)
    support = "counts"

    def log_density(self, y, f):
        return -np.log1p(np.exp(-f)) - y * np.log1p(np.exp(f))


class Exponential(L.Survival):
    """A lifetime by its hazard: h(t) = e^{-f}."""

    latents = ("log_mean",)

    def log_hazard(self, t, f):
        return -f + 0.0 * np.asarray(t)

    def log_survival(self, t, f):
        return -t * np.exp(-f)


class Cauchy(K.Stationary):
    """k = variance / (1 + r^2)."""

    def correlation(self, r2):
        rho = 1.0 / (1.0 + r2)
        return rho, rho

    def slope(self, memo, K):
        return K * memo, -1.0


class Reach(K.Kernel):
    """k(x, z) = variance reach / (reach + |x - z|), one input."""

    def __init__(self, variance=1.0, reach=1.0, active_dims=None, name="reach"):
        super().__init__(1, name, active_dims)
        self.variance = paramz.Param("variance", float(variance), Logexp())
        self.reach = paramz.Param("reach", float(reach), Logexp())
        self.link_parameters(self.variance, self.reach)

    def _evaluate(self, X, Z):
        variance, reach = float(self.variance[0]), float(self.reach[0])
        difference = X - (X if Z is None else Z).T
        r = np.abs(difference)
        K = variance * reach / (reach + r)

        def pullback(dL_dK, wrt_second=True):
            slope = -dL_dK * K / (reach + r) * np.sign(difference)
            dL_dX, dL_dZ = slope.sum(1)[:, None], -slope.sum(0)[:, None]
            d_reach = np.sum(dL_dK * variance * r / (reach + r) ** 2)
            dL_dtheta = np.array([np.sum(dL_dK * K) / variance, d_reach])
            if Z is None:
                return dL_dtheta, dL_dX + dL_dZ, None
            return dL_dtheta, dL_dX, dL_dZ if wrt_second else None

        return K, pullback

    def _evaluate_diag(self, X):
        def pullback(dL_dk):
            return np.array([np.sum(dL_dk), 0.0]), None

        return np.full(len(X), float(self.variance[0])), pullback


class LikeGPy(paramz.Parameterized):
    """The methods of a kernel of GPy: a constant plus a line, in the first column."""

    def __init__(self, level=0.7, slope=0.5):
        super().__init__(name="like_gpy")
        self.input_dim, self.active_dims = 1, np.array([0])
        self.level = paramz.Param("level", np.array([level]), Logexp())
        self.slope = paramz.Param("slope", np.array([slope]), Logexp())
        self.link_parameters(self.level, self.slope)

    def K(self, X, X2=None):
        other = X if X2 is None else X2
        return self.level.values[0] + self.slope.values[0] * X[:, :1] @ other[:, :1].T

    def Kdiag(self, X):
        return self.level.values[0] + self.slope.values[0] * X[:, 0] ** 2

    def update_gradients_full(self, dL_dK, X, X2=None):
        other = X if X2 is None else X2
        self.level.gradient = np.sum(dL_dK)
        self.slope.gradient = X[:, 0] @ dL_dK @ other[:, 0]

    def update_gradients_diag(self, dL_dKdiag, X):
        self.level.gradient = np.sum(dL_dKdiag)
        self.slope.gradient = dL_dKdiag @ X[:, 0] ** 2

    def gradients_X(self, dL_dK, X, X2=None):
        W = dL_dK + dL_dK.T if X2 is None else dL_dK
        gradient = np.zeros(X.shape)
        gradient[:, 0] = self.slope.values[0] * W @ (X if X2 is None else X2)[:, 0]
        return gradient


class Step(M.MeanFunction):
    """m(x) = height [x > place], in the first column."""

    def __init__(self, place=0.0, height=0.0, name="step"):
        super().__init__(name)
        self.place = float(place)
        self.height = paramz.Param("height", float(height))
        self.link_parameter(self.height)

    def evaluate(self, X):
        after = (X[:, 0] > self.place).astype(float)

        def pullback(dL_dm):
            return np.array([dL_dm @ after])

        return after * float(self.height[0]), pullback


# ---- rows -------------------------------------------------------------------------------------


@dataclass
class Rows:
    """Inputs, and columns of uniform numbers from which targets and metadata are made."""

    X: np.ndarray
    u: np.ndarray

    @property
    def f(self) -> np.ndarray:
        return np.sin(2.0 * self.X[:, 0])

    @property
    def real(self) -> np.ndarray:
        return self.f + np.exp(0.5 * np.cos(2.0 * self.X[:, 0]) - 1.0) * ndtri(self.u[:, 0])

    @property
    def times(self) -> np.ndarray:
        return np.exp(0.7 * self.f + 0.6 * ndtri(self.u[:, 0]))

    @property
    def unit(self) -> np.ndarray:
        return expit(self.f + 0.7 * ndtri(self.u[:, 0]))

    @property
    def counts(self) -> np.ndarray:
        # over-dispersed: else a dispersion starts at 0, where the likelihood is flat in it
        return np.floor(9.0 * np.exp(self.f) * self.u[:, 0] ** 3)

    @property
    def binary(self) -> np.ndarray:
        return (self.u[:, 0] < expit(2.0 * self.f)).astype(float)

    @property
    def classes(self) -> np.ndarray:
        return np.clip(np.floor(1.5 + self.f + ndtri(self.u[:, 0])), 0.0, 2.0)

    @property
    def exposure(self) -> dict[str, np.ndarray]:
        return {"exposure": 0.5 + self.u[:, 1]}

    @property
    def right(self) -> dict[str, np.ndarray]:
        return {"censored": (self.u[:, 1] < 0.35).astype(float)}

    @property
    def every_censoring(self) -> dict[str, np.ndarray]:
        """Exact, right, left and interval by turns, the last one with and without an end."""
        censored = np.resize([0.0, 1.0, -1.0, 2.0, 0.0, 2.0, 1.0], len(self.u))
        upper = self.times * (1.2 + self.u[:, 2])
        upper[5::7] = np.inf
        return {"censored": censored, "y_upper": upper}

    @property
    def entry(self) -> dict[str, np.ndarray]:
        return {"entry": np.where(self.u[:, 2] < 0.6, 0.5 * self.times * self.u[:, 1], 0.0)}

    def hits(self, y: np.ndarray, *atoms: float) -> np.ndarray:
        """Targets y of which some are atoms."""
        y = np.array(y)
        for k, atom in enumerate(atoms):
            y[k :: 2 + 2 * len(atoms)] = atom
        return y


def make_rows(n: int = 28, D: int = 1, seed: int = 0) -> Rows:
    draws = 0.02 + 0.96 * np.random.default_rng(seed).random((n + NEW, D + 3))
    return Rows(4.0 * draws[:, :D] - 2.0, draws[:, D:])


def line(count: int = 5, shift: float = 0.0) -> np.ndarray:
    """Inducing inputs (count, 1) well apart, so that Kuu is well conditioned."""
    return np.linspace(-1.9, 1.8, count)[:, None] + shift


def plane() -> np.ndarray:
    """Six inducing inputs in two columns, off every symmetric place."""
    return np.array([[-1.5, -1.2], [0.1, -1.6], [1.6, -0.9], [-1.4, 1.1], [0.2, 0.9], [1.5, 1.7]])


# ---- models -----------------------------------------------------------------------------------


@dataclass
class Case:
    """How to build a model, and what to ask it. `extra` are quantities of this case alone."""

    build: Callable[[], cgp.ChainedGP]
    new: Rows
    targets: np.ndarray
    metadata: dict[str, np.ndarray] = field(default_factory=dict)
    distribution: bool = True
    survival: bool = False
    extra: Callable[[cgp.ChainedGP, np.ndarray], dict[str, Any]] | None = None


MODELS: dict[str, Case] = {}


def set_q(m: cgp.ChainedGP, seed: int = 2) -> cgp.ChainedGP:
    """A q that is neither the prior nor optimal."""
    rng = np.random.default_rng(seed)
    for param in (m.q_mu, m.q_sqrt):
        for leaf in getattr(param, "flattened_parameters", [param]):
            noise = rng.random(leaf.shape) - 0.5
            leaf[:] = noise if param is m.q_mu else 0.6 * leaf.values + 0.15 * noise
    return m


def two_kernels(b: int) -> list[K.Kernel]:
    """Kernels on one column, another for each latent."""
    kernels = [
        K.RBF(1, variance=0.8, lengthscale=0.9),
        K.Matern32(1, variance=0.4, lengthscale=1.4),
        K.Matern52(1, variance=0.3, lengthscale=1.2),
        K.RBF(1, variance=0.2, lengthscale=1.6),
    ]
    return kernels[:b]


def add(
    name: str,
    likelihood: cgp.Likelihood,
    targets: str | Callable[[Rows], np.ndarray],
    metadata: Callable[[Rows], dict[str, np.ndarray]] = lambda rows: {},
    *,
    D: int = 1,
    n: int = 28,
    seed: int | None = None,
    kernels: Any = None,
    Z: Any = None,
    means: Any = None,
    change: Callable[[cgp.ChainedGP], Any] = lambda m: None,
    options: dict[str, Any] | None = None,
    **asked: Any,
) -> None:
    """Put a model into the collection; its parts are given as functions or as fixed objects."""
    # by its name, so that a model added here leaves the data of the others as they are
    rows = make_rows(n, D, seed=zlib.crc32(name.encode()) if seed is None else seed)
    y = getattr(rows, targets) if isinstance(targets, str) else targets(rows)
    given = metadata(rows)
    b = len(likelihood.latents)
    Z = (line() if D == 1 else plane()) if Z is None else Z

    def build() -> cgp.ChainedGP:
        m = cgp.ChainedGP(
            rows.X[:n],
            y[:n],
            likelihood,
            two_kernels(b) if kernels is None else kernels,
            Z,
            [M.Constant(0.3 - 0.25 * j) for j in range(b)] if means is None else means,
            {key: value[:n] for key, value in given.items()},
            **{"num_threads": 1, "posterior": "mean_field", **(options or {})},
        )
        change(m)
        return set_q(m)

    assert name not in MODELS
    new = {key: value[n:] for key, value in given.items() if key != "weights"}
    MODELS[name] = Case(build, Rows(rows.X[n:], rows.u[n:]), y[n:], new, **asked)


def likelihood_models() -> None:
    """Every likelihood, with the metadata that it takes."""
    censored, exposure = (lambda r: r.every_censoring), (lambda r: r.exposure)
    add("HetGaussian", L.HetGaussian(), "real")
    add("Gaussian", L.Gaussian(0.3), "real")
    add("SignalNoiseGaussian", L.SignalNoiseGaussian(), "real")
    add("HetStudentT", L.HetStudentT(nu=3.5), "real")
    add("HetStudentTNu", L.HetStudentTNu(), "real")
    add("StudentT", L.StudentT(), "real")
    add("HetLaplace", L.HetLaplace(), "real")
    add("HetGamma", L.HetGamma(), "times")
    add("Beta", L.Beta(), "unit")
    add("BetaMeanPrecision", L.BetaMeanPrecision(), "unit")
    add("Bernoulli", L.Bernoulli(), "binary")
    add("HetProbit", L.HetProbit(), "binary")
    add("Softmax", L.Softmax(3), "classes")
    add("Ordinal", L.Ordinal(3, cutpoint=-0.4, gap_1=0.9), "classes")
    add("Poisson", L.Poisson(), "counts")
    add("Poisson with exposure", L.Poisson(), "counts", exposure)
    add("AdditivePoisson", L.AdditivePoisson(), "counts")
    add("AdditivePoisson with exposure", L.AdditivePoisson(), "counts", exposure)
    add("NegativeBinomial", L.NegativeBinomial(), "counts", exposure)

    def trials(rows: Rows) -> dict[str, np.ndarray]:
        return {"trials": 3.0 + np.floor(5.0 * rows.u[:, 1])}

    def successes(rows: Rows) -> np.ndarray:
        return np.floor(trials(rows)["trials"] * rows.unit + 0.5)

    add("Binomial", L.Binomial(), successes, trials)
    add("ZeroInflatedPoisson", L.ZeroInflatedPoisson(), lambda r: r.hits(r.counts, 0.0), exposure)
    ends = lambda r: r.hits(r.unit, 0.0, 1.0)  # noqa: E731
    add("ZeroOneInflatedBeta", L.ZeroOneInflatedBeta(), ends)
    for kind in (L.LogLogisticSurvival, L.WeibullSurvival, L.LogNormalSurvival):
        name = kind.__name__
        add(name, kind(), "times", survival=True)
        add(f"{name} right", kind(), "times", lambda r: r.right)
        add(f"{name} censored", kind(), "times", censored)
        add(f"{name} entry", kind(), "times", both_censorings)
    add("LogLogistic", L.LogLogistic(log_shape=0.4), "times", both_censorings, survival=True)
    add("Exponential", Exponential(), "times", lambda r: {**r.right, **r.entry}, survival=True)


def both_censorings(rows: Rows) -> dict[str, np.ndarray]:
    """Every kind of censoring, and entry truncation."""
    return {**rows.every_censoring, **rows.entry}


def wrapper_models() -> None:
    """Likelihoods made from likelihoods, two deep where that makes sense, and users' own."""
    zeros = lambda r: r.hits(r.counts, 0.0)  # noqa: E731
    gaps = lambda r: r.hits(r.times, 0.0)  # noqa: E731
    steady = L.HetGaussian().with_constant("log_variance", -1.0)
    add("HetGaussian constant noise", steady, "real")
    steady = L.HetStudentT(nu=3.0).with_constant("location", 0.2)
    add("HetStudentT constant location", steady, "real")
    steady = L.HetStudentTNu().with_constant("log_nu", 1.2)
    add("HetStudentTNu constant nu", steady, "real")
    steady = steady.with_constant("log_scale2", -0.7)
    add("HetStudentTNu two constants", steady, "real")
    steady = L.WeibullSurvival().with_constant("log_shape", 0.3)
    add("Weibull constant shape", steady, "times", both_censorings, survival=True)
    steady = L.ConstantLatent(L.HetLaplace(), "log_scale", 0.5, positive="scale")
    add("HetLaplace positive constant", steady, "real")
    steady = L.Softmax(3).with_constant("logit_3", 0.0)
    add("Softmax constant", steady, "classes")
    add("Inflated NegativeBinomial", L.Inflated(L.NegativeBinomial()), zeros)
    inflated = L.Inflated(L.Poisson(), at=(0.0, 2.0))
    add("Inflated twice at once", inflated, lambda r: r.hits(r.counts, 0.0, 2.0))
    inflated = L.Inflated(L.ZeroInflatedPoisson(), at=(3.0,))
    add("Inflated inflated", inflated, lambda r: r.hits(r.counts, 0.0, 3.0))
    inflated = L.Inflated(L.HetGamma().with_constant("log_shape", 0.5))
    add("Inflated constant HetGamma", inflated, gaps)
    inflated = L.Inflated(L.HetStudentT(nu=4.0), at=(-0.5,)).with_constant("log_odds_minus_0_5")
    add("Constant odds of inflated", inflated, lambda r: r.hits(r.real, -0.5))
    add("Hurdle Poisson", L.Hurdle(L.Poisson()), zeros, lambda r: r.exposure)
    add("Hurdle NegativeBinomial", L.Hurdle(L.NegativeBinomial()), zeros)
    add("Hurdle HetGamma", L.Hurdle(L.HetGamma()), gaps)
    cured = L.Hurdle(L.LogLogistic(log_shape=0.4))
    alive = lambda r: {"censored": r.right["censored"] * (gaps(r) > 0.0)}  # noqa: E731
    add("Hurdle LogLogistic", cured, gaps, alive)
    scipy_likelihood = cgp.Likelihood.from_scipy
    normal = scipy_likelihood(scipy.stats.norm, loc="identity", scale="exp")
    add("scipy norm", normal, "real")
    add("scipy norm constant", normal.with_constant("log_scale", -0.8), "real")
    gamma = scipy_likelihood(scipy.stats.gamma, a=2.0, scale="softplus")
    add("scipy gamma", gamma, "times")
    add("scipy gamma inflated", L.Inflated(gamma), gaps)
    counts = scipy_likelihood(scipy.stats.nbinom, n="exp", p="logistic")
    add("scipy nbinom", counts, "counts")
    add("user, one latent", Logistic(scale=0.5), "real")
    add("user, two latents", OffsetLogistic(), "real", lambda r: {"offset": 0.3 * r.u[:, 1]})
    add("user, three latents", TwoMeans(), "real")
    add("user, counts", Geometric(), "counts")
    constant = OffsetLogistic(tau=0.6).with_constant("log_scale", -0.2)
    add("user, constant", constant, "real", lambda r: {"offset": 0.3 * r.u[:, 1]})
    add("user, inflated", L.Inflated(Geometric()), zeros)


def kernel_models() -> None:
    """Every kernel, sums, products and active columns; every mean function."""
    two, noise = [1.1, 1.7], K.RBF(2, variance=0.3, lengthscale=1.5)
    smooth = K.RBF(2, variance=0.8, lengthscale=two, ARD=True, name="smooth")
    first = K.Matern12(1, variance=0.4, lengthscale=0.9, active_dims=[0], name="rough")
    kernels = {
        "RBF ARD": smooth,
        "Matern12": K.Matern12(2, variance=0.7, lengthscale=1.3),
        "Matern12 ARD": K.Matern12(2, variance=0.7, lengthscale=two, ARD=True),
        "Matern32 ARD": K.Matern32(2, variance=0.6, lengthscale=two, ARD=True),
        "Matern52 ARD": K.Matern52(2, variance=0.5, lengthscale=two, ARD=True),
        "RationalQuadratic": K.RationalQuadratic(2, 0.9, two, power=1.4, ARD=True),
        "Periodic": K.Periodic(2, 0.6, [2.3, 3.1], [0.8, 1.2], True, True) + K.White(2, 0.05),
        "Periodic active": K.Periodic(1, 0.6, 4.3, 0.9, active_dims=[1]),
        "Linear": K.Linear(2, [0.4, 0.7], ARD=True) + K.White(2, 0.1),
        "Bias": K.Bias(2, 0.5) + K.RBF(2, 0.4, 1.2),
        "White": K.White(2, 0.2) + K.Matern32(2, 0.7, 1.4),
        "Sum": K.Sum([smooth, first, K.Bias(2, 0.2)]),
        "Product": K.Product([smooth, first]),
        "Sum of products": smooth * K.Linear(1, 0.6, active_dims=[1]) + first * noise,
        "Product of sums": (smooth + K.Bias(2, 0.3)) * (noise + first),
        "Stationary": Cauchy(2, variance=0.7, lengthscale=two, ARD=True),
        "Kernel": Reach(0.7, 1.3, active_dims=[1]) * K.RBF(2, 1.2, 2.0),
        "GPyKernel": K.as_kernel(LikeGPy()) + K.RBF(2, 0.4, 1.2),
    }
    asked = {"D": 2, "distribution": False}
    for name, kernel in kernels.items():
        add(f"kernel {name}", L.HetGaussian(), "real", kernels=[kernel, noise], **asked)
    MODELS["kernel Sum"].extra = parts_of_sum
    same = K.RBF(1, 0.5, 1.1)
    add("kernel one for all", L.HetGaussian(), "real", kernels=same, distribution=False)
    slopes = M.Linear(2, weights=[0.3, -0.2], bias=0.1)
    means = {
        "Zero": M.Zero(),
        "Constant": M.Constant(-0.4),
        "Linear": slopes,
        "Linear and Zero": [slopes, M.Zero()],
        "MeanFunction": [Step(0.2, 0.7), M.Constant(-1.0)],
    }
    for name, mean in means.items():
        add(f"mean {name}", L.HetStudentT(), "real", kernels=smooth, means=mean, **asked)


def parts_of_sum(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
    return {
        "part": m.predict_component(X, "mean", "smooth"),
        "part bands": m.predict_component(X, 0, 1, bands=(10.0, 90.0)),
        "latent bands": m.predict_component(X, 1, bands=(5.0, 95.0), natural=True),
    }


def option_models() -> None:
    """Inducing inputs for each latent, nodes, jitter, priors, constraints, weights, threads."""
    het, student, alone = L.HetGaussian(), L.HetStudentT(nu=3.0), {"distribution": False}
    apart = [line(4), line(6, 0.05)]
    add("Z of each latent", student, "real", Z=apart, extra=other_predictions)
    alike = [line(5), line(5, 0.07)]
    add("Z of each latent, one size", student, "real", Z=alike, **alone)
    three = [line(4), line(5, 0.05), line(6, -0.05)]
    add("Z of three latents", TwoMeans(), "real", Z=three, **alone)
    add("num_nodes 7", L.Beta(), "unit", options={"num_nodes": 7}, **alone)
    add("num_nodes 12", L.Softmax(3), "classes", options={"num_nodes": 12}, **alone)
    add("jitter", student, "real", options={"jitter": 1e-3}, **alone)
    add("weights", student, "real", lambda r: {"weights": 0.5 + r.u[:, 1]}, extra=left_out)
    both = lambda r: {**r.exposure, "weights": 0.5 + r.u[:, 2]}  # noqa: E731
    add("weights and exposure", L.AdditivePoisson(), "counts", both, **alone)
    add("leave one out", het, "real", extra=left_out, **alone)
    censored = lambda r: r.right  # noqa: E731
    survival = L.LogLogisticSurvival()
    add("leave one out, censored", survival, "times", censored, extra=left_out, **alone)
    add("other predictions", het, "real", extra=other_predictions)
    add("bands", L.AdditivePoisson(), "counts", extra=rate_bands)
    add("survival bands", survival, "times", extra=survival_bands, **alone)

    def with_priors(m: cgp.ChainedGP) -> None:
        m.set_prior(m.kernels[0].lengthscale, P.LogNormal(0.1, 0.7))
        m.set_prior(m.kernels[1].variance, P.Gamma(2.0, 1.5))
        m.set_prior(m.likelihood.nu, P.HalfNormal(4.0))
        m.set_prior("mean_functions.*value", P.Normal(0.2, 1.3))

    def with_constraints(m: cgp.ChainedGP) -> None:
        m.kernels[0].lengthscale.constrain_bounded(0.2, 4.0, warning=False)
        m.kernels[1].variance.fix()
        m.kernels[1].lengthscale.unconstrain()
        m.likelihood.nu.fix()
        m.mean_functions[1].value.constrain_negative(warning=False)
        m.Z.fix()

    means = [M.Constant(0.3), M.Constant(-0.8)]
    add("priors", student, "real", change=with_priors, extra=free_parameters, **alone)
    asked = {"change": with_constraints, "extra": free_parameters, "means": means, **alone}
    add("constraints", student, "real", **asked)
    # more rows than one piece of work has, so that the second thread gets some
    for threads in (1, 2):
        options = {"num_threads": threads}
        add(f"{threads} threads", student, "real", n=5400, seed=99, options=options, **alone)


def left_out(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
    """Rows left out by their sites alone, and three by finding q anew."""
    result = {}
    for refit in (0, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cgp.errors.ChainedGPWarning)
            found = m.loo(refit=refit, rng=3, size=200)
        result[f"loo {refit}"] = [*found.pointwise, found.elpd, found.se, found.p_loo]
    return result


def other_predictions(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
    return {
        "covariance": m.predict_latents(X, full_cov=True)[1],
        "draws of latents": m.posterior_samples_f(X, 2, rng=8),
        "draws of targets": m.posterior_samples(X, 2, rng=9),
        "predict": m.predict(X),
        "density": m.predict_density(X, np.array([-0.5, 0.4])),
        "interval": m.predictive(X).interval(0.8),
        "percentiles": m.predict_quantiles(X, (5.0, 60.0)),
        "cdf of each row": m.predict_cdf(X, X[:, :1]),
    }


def rate_bands(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
    return {"rate": m.predict_component(X, "log_rate_1", bands=(5.0, 95.0), natural=True)}


def survival_bands(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
    p, t = m.predictive(X[:2]), np.array([0.3, 1.1])
    return {
        "sf bands": p.sf(t, bands=(5.0, 95.0)),
        "hazard bands": p.hazard(t, bands=(5.0, 95.0)),
        "median bands": p.median(bands=(5.0, 95.0)),
        "restricted_mean bands": p.restricted_mean(2.0, bands=(5.0, 95.0)),
    }


def free_parameters(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
    return {"optimizer_array": m.optimizer_array, "log_prior": m.log_prior()}


def other_models() -> None:
    """Data frames, missing targets, new rows for a model, copies, and a file."""
    rows = make_rows(28, 2, seed=101)
    index = [f"row {i}" for i in range(len(rows.X))]
    frame = pd.DataFrame(rows.X, columns=["age", "dose"], index=index)
    weights = pd.Series(0.5 + rows.u[:, 1], index=index, name="weights")
    target = pd.Series(rows.real, index=index, name="response")
    kernels = [K.RBF(1, 0.7, 1.1, active_dims=["dose"]) + K.Linear(2, 0.3), K.RBF(2, 0.3, 1.5)]

    def of_frame() -> cgp.ChainedGP:
        m = cgp.ChainedGP(
            frame[:28],
            target[:28],
            L.HetStudentT(nu=4.0),
            kernels,
            plane(),
            M.Constant(0.1),
            {"weights": weights[:28]},
            num_threads=1,
            posterior="mean_field",
        )
        return set_q(m)

    def predict_frame(m: cgp.ChainedGP, X: np.ndarray) -> dict[str, Any]:
        return {"frame": m.predict_frame(frame[28:], (10.0, 50.0, 90.0)).to_numpy()}

    new, y = Rows(rows.X[28:], rows.u[28:]), rows.real[28:]
    MODELS["data frame"] = Case(of_frame, new, y, distribution=False, extra=predict_frame)

    def student(missing: bool = False) -> cgp.ChainedGP:
        targets = rows.real[:28].copy()
        if missing:
            targets[4::9] = np.nan
        m = cgp.ChainedGP(
            rows.X[:28],
            targets,
            L.HetStudentT(nu=4.0),
            K.RBF(2, 0.6, 1.2),
            plane(),
            M.Constant(0.2),
            missing="drop" if missing else "raise",
            num_threads=1,
            posterior="mean_field",
        )
        return set_q(m)

    def of_new_rows() -> cgp.ChainedGP:
        m, other = student(), make_rows(22, 2, seed=102)
        m.set_data(other.X, other.real, {"weights": 0.5 + other.u[:, 1]})
        return m

    def of_copy() -> cgp.ChainedGP:
        m = student().copy()
        m.kernels[1].variance = 0.35
        return m

    builds = {
        "missing targets": lambda: student(missing=True),
        "other rows": of_new_rows,
        "copy": of_copy,
    }
    for name, build in builds.items():
        MODELS[name] = Case(build, new, y, distribution=False)
    MODELS["file of format 1"] = Case(lambda: cgp.load(DATA / "format_1.cgp"), new, y)


for collect in (likelihood_models, wrapper_models, kernel_models, option_models, other_models):
    collect()


# ---- what a model computes --------------------------------------------------------------------


def measure(case: Case, m: cgp.ChainedGP) -> dict[str, np.ndarray]:
    """Everything that is stored of a model, by name."""
    X, metadata = case.new.X, case.metadata
    mean, variance = m.predict_latents(X)
    found: dict[str, Any] = {
        "bound": m.log_likelihood(),
        "objective": m.objective_function(),
        "gradient": m.objective_function_gradients(),
        "latent mean": mean,
        "latent variance": variance,
        "log_predictive_density": m.log_predictive_density(X, case.targets, metadata),
    }
    if case.distribution:
        found.update(measure_predictive(case, m.predictive(X, metadata)))
    if case.survival:
        t, p = np.array([0.2, 0.9, 2.5]), m.predictive(X)
        found.update(
            sf=p.sf(t),
            hazard=p.hazard(t),
            cumulative_hazard=p.cumulative_hazard(t),
            restricted_mean=p.restricted_mean(3.0),
        )
    if case.extra is not None:
        found.update(case.extra(m, X))
    return {name: np.asarray(value, dtype=float) for name, value in found.items()}


def measure_predictive(case: Case, p: Any) -> dict[str, Any]:
    """Moments, density, cdf, draws and natural parameters of the new rows."""
    with warnings.catch_warnings():
        # heavy tails have infinite moments, which are stored as such
        warnings.simplefilter("ignore", cgp.errors.MomentWarning)
        moments = {
            name: getattr(p, name)
            for name in ("mean", "variance", "noise_variance", "latent_variance")
        }
    whole = case.targets == np.floor(case.targets)
    grid = np.array([0.0, 1.0, 2.0] if whole.all() else [0.15, 0.45, 0.8])
    if "censored" in case.metadata:  # between what is known of each row
        grid = case.targets[:, None] * np.array([0.7, 1.0, 1.15])
    found = {
        **moments,
        "logpdf": p.logpdf(grid),
        "cdf": p.cdf(grid),
        "quantiles": p.ppf(np.array([0.1, 0.5, 0.95])),
        "sample": p.sample(3, rng=7),
    }
    found.update((f"natural {name}", value) for name, value in p.parameters((10.0, 75.0)).items())
    return found


# ---- starts -----------------------------------------------------------------------------------


def start(likelihood: cgp.Likelihood, case: Case) -> np.ndarray:
    """Free parameters of a model that is given this likelihood and the rows of a case alone."""
    m = case.build()
    options = {"num_inducing": 3, "num_threads": 1, "posterior": "mean_field"}
    fresh = cgp.ChainedGP(m.X, m.Y, likelihood, Y_metadata=m.Y_metadata, **options)
    return fresh.optimizer_array


def make_starts() -> dict[str, Callable[[], np.ndarray]]:
    """Starts of every likelihood with its parameters left open, and of a few whole models."""
    own = {
        "Gaussian": L.Gaussian(),
        "StudentT": L.StudentT(),
        "Ordinal": L.Ordinal(3),
        "LogLogistic": L.LogLogistic(),
        "HetGaussian constant noise": L.HetGaussian().with_constant("log_variance"),
        "HetStudentTNu two constants": L.HetStudentTNu()
        .with_constant("log_nu")
        .with_constant("log_scale2"),
        "Weibull constant shape": L.WeibullSurvival().with_constant("log_shape"),
        "HetLaplace positive constant": L.ConstantLatent(
            L.HetLaplace(), "log_scale", positive="scale"
        ),
        "Inflated constant HetGamma": L.Inflated(L.HetGamma().with_constant("log_shape")),
    }
    names = [name for name in MODELS if not name.startswith(("kernel", "mean ", "num_nodes"))]
    names = names[: names.index("Z of each latent")]
    starts: dict[str, Callable[[], np.ndarray]] = {}
    for name in names:
        case = MODELS[name]
        starts[name] = lambda case=case, name=name: start(
            own.get(name) or case.build().likelihood.copy(), case
        )
    rows = make_rows(40, 2, seed=103)

    def whole(D: int, targets: np.ndarray, likelihood: cgp.Likelihood, **options: Any) -> Any:
        options = {"num_threads": 1, "posterior": "mean_field", **options}
        return lambda: cgp.ChainedGP(rows.X[:, :D], targets, likelihood, **options).param_array

    starts["two columns"] = whole(2, rows.real, L.HetGaussian(), num_inducing=6)
    starts["more inducing inputs than rows"] = whole(1, rows.real, L.Gaussian())
    starts["kernels given"] = whole(1, rows.times, L.HetGamma(), kernels=K.Matern32(1, 0.5, 0.8),
                                    num_inducing=5)  # fmt: skip
    starts["Z given"] = whole(1, rows.counts, L.AdditivePoisson(), Z=line())
    starts["means given"] = whole(1, rows.unit, L.Beta(), mean_functions=M.Linear(1),
                                  num_inducing=4)  # fmt: skip
    return starts


STARTS = make_starts()


# ---- fits -------------------------------------------------------------------------------------


def fitted(
    likelihood: cgp.Likelihood,
    targets: str,
    metadata: Callable[[Rows], dict[str, np.ndarray]] = lambda rows: {},
    n: int = 30,
    restarts: int = 0,
    **options: Any,
) -> Callable[[], float]:
    """The bound after a fit from the default start."""
    rows = make_rows(n - NEW, seed=104)

    def fit() -> float:
        m = cgp.ChainedGP(
            rows.X,
            getattr(rows, targets),
            likelihood,
            Y_metadata=metadata(rows),
            num_inducing=5,
            num_threads=1,
            posterior="mean_field",
        )
        with warnings.catch_warnings():
            # they are short on purpose
            warnings.simplefilter("ignore", cgp.errors.ConvergenceWarning)
            if restarts:
                m.optimize_restarts(restarts, messages=False, rng=1, **options)
            else:
                m.optimize(messages=False, **options)
        return m.log_likelihood()

    return fit


FITS: dict[str, Callable[[], float]] = {
    "HetGaussian": fitted(L.HetGaussian(), "real"),
    "HetStudentT": fitted(L.HetStudentT(), "real"),
    "Beta": fitted(L.Beta(), "unit"),
    "LogLogisticSurvival": fitted(L.LogLogisticSurvival(), "times", lambda r: r.right),
    "AdditivePoisson": fitted(L.AdditivePoisson(), "counts", max_iters=12),
    "plain": fitted(L.HetGaussian(), "real", method="lbfgsb", max_iters=40),
    "q alone": fitted(L.HetStudentT(), "real", only="variational"),
    "stochastic": fitted(L.HetGaussian(), "real", n=60, batch_size=20, epochs=4, rng=5),
    "adam": fitted(L.Poisson(), "counts", method="adam", batch_size=10, epochs=4, rng=5),
    "restarts": fitted(L.Gaussian(), "real", restarts=2, max_iters=20),
}


# ---- the file ---------------------------------------------------------------------------------


def reference(known: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All numbers of the collection as nested lists, floats with every digit; known ones stay."""
    computed: dict[str, dict[str, Callable[[], Any]]] = {
        "models": {
            name: lambda case=case: {
                key: value.tolist() for key, value in measure(case, case.build()).items()
            }
            for name, case in MODELS.items()
        },
        "starts": {name: lambda begin=begin: begin().tolist() for name, begin in STARTS.items()},
        "fits": dict(FITS),
    }
    return {
        part: {
            name: known[part][name] if name in known.get(part, {}) else compute()
            for name, compute in entries.items()
        }
        for part, entries in computed.items()
    }


def write(path: Path = PATH) -> None:
    """One line for each model, so that a change shows in which."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    parts = []
    for part, entries in reference(known).items():
        lines = (
            f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}"
            for name, entry in entries.items()
        )
        parts.append(f'"{part}":{{\n' + ",\n".join(lines) + "\n}")
    path.write_text("{" + ",\n".join(parts) + "}\n", "utf-8")


if __name__ == "__main__":
    write()
