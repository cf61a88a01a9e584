"""Random cases to torture a model with: bad data, kernels, inducing inputs, starts and methods.

A seed makes a case. Errors are allowed by these rules alone, each a line of `expected_error`:

- `outside the support`: some target cannot come from the likelihood (a count of 0.5, a time of 0).
  InputError when the model is built, always.
- `not a number`: an input or a target is NaN or infinite. InputError when built, always.
- `unknown code`: a row is censored in a way that does not exist. InputError when built, always.
- `prior too wide`: a kernel was given whose prior variance at some row is above 300 on the scale of
  a logarithm, so that e^2f has a mean beyond e^600 and the bound of the prior, from which plain
  methods start, is −inf. NumericalError from the bound of the new model, from these methods and
  where q alone is asked for; the default method begins from smaller variances and must do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

import chainedgp as cgp
from chainedgp.errors import InputError, NumericalError

L, K = cgp.likelihoods, cgp.kernels
Array = np.ndarray
Rng = np.random.Generator

# name -> (maker, kind of targets, work of a row relative to HetGaussian)
FAMILIES: dict[str, tuple[Callable[[], Any], str, int]] = {
    "Gaussian": (L.Gaussian, "real", 1),
    "HetGaussian": (L.HetGaussian, "real", 1),
    "SignalNoiseGaussian": (L.SignalNoiseGaussian, "real", 6),
    "StudentT": (L.StudentT, "real", 1),
    "HetStudentT": (L.HetStudentT, "real", 1),
    "HetStudentTNu": (L.HetStudentTNu, "real", 15),
    "HetLaplace": (L.HetLaplace, "real", 1),
    "AsymmetricLaplace": (lambda: L.AsymmetricLaplace(0.75), "real", 1),
    "ConstantLatent": (lambda: L.HetGaussian().with_constant("log_variance"), "real", 1),
    "ScipyLikelihood": (
        lambda: L.Likelihood.from_scipy("logistic", loc="identity", scale="exp"), "real", 25),
    "Inflated": (lambda: L.Inflated(L.HetStudentT(nu=5.0)), "real_or_zero", 15),
    "Rounded": (lambda: L.Rounded(L.HetGaussian(), 0.25), "real", 25),
    "HetGamma": (L.HetGamma, "positive", 1),
    "LogLogistic": (L.LogLogistic, "times", 1),
    "LogLogisticSurvival": (L.LogLogisticSurvival, "times", 1),
    "WeibullSurvival": (L.WeibullSurvival, "times", 25),
    "LogNormalSurvival": (L.LogNormalSurvival, "times", 25),
    "Beta": (L.Beta, "unit", 4),
    "BetaMeanPrecision": (L.BetaMeanPrecision, "unit", 25),
    "ZeroOneInflatedBeta": (L.ZeroOneInflatedBeta, "closed_unit", 25),
    "Poisson": (L.Poisson, "counts", 1),
    "AdditivePoisson": (L.AdditivePoisson, "counts", 8),
    "NegativeBinomial": (L.NegativeBinomial, "counts", 8),
    "ZeroInflatedPoisson": (L.ZeroInflatedPoisson, "counts", 10),
    "ZeroInflatedNegativeBinomial": (L.ZeroInflatedNegativeBinomial, "counts", 25),
    "Hurdle": (lambda: L.Hurdle(L.Poisson()), "counts", 10),
    "Binomial": (L.Binomial, "trials", 1),
    "BetaBinomial": (L.BetaBinomial, "trials", 25),
    "Bernoulli": (L.Bernoulli, "binary", 1),
    "HetProbit": (L.HetProbit, "binary", 25),
    "Softmax": (lambda: L.Softmax(3), "classes", 8),
    "Ordinal": (lambda: L.Ordinal(3), "classes", 1),
    "SHASH": (L.SHASH, "real", 25),
    "BoxCoxNormal": (L.BoxCoxNormal, "positive", 4),
    "BoxCoxT": (L.BoxCoxT, "positive", 40),
    "Tweedie": (L.Tweedie, "amounts", 25),
}  # fmt: skip
# Families that came later: some seeds draw one of them, and all others keep their cases.
LATER: dict[str, tuple[Callable[[], Any], str, int]] = {
    "GEV": (L.GEV, "real", 25),
    "GEVShape": (L.GEVShape, "real", 100),
    "GeneralisedPareto": (L.GeneralisedPareto, "positive", 8),
    "GeneralisedParetoShape": (L.GeneralisedParetoShape, "positive", 25),
    "VonMises": (L.VonMises, "angles", 1),
}
ESTABLISHED = len(FAMILIES)
FAMILIES |= LATER
STEP_RULES = ("adam", "rmsprop", "adagrad")
# Two methods stand here twice, so that a seed draws the case that docs/torture.md tells of.
METHODS = ("profile", "variational", "lbfgsb", "lbfgsb", "natgrad", *STEP_RULES, "adam")
OUTSIDE = {"positive": 0.0, "times": -1.0, "unit": 1.5, "closed_unit": 1.5, "counts": 0.5,
           "trials": -1.0, "binary": 2.0, "classes": 7.0, "amounts": -1.0,
           "angles": 4.0}  # fmt: skip


@dataclass
class Case:
    """All that a model is built and fitted from, and what was made wrong on purpose."""

    seed: int
    likelihood: str
    X: Array
    Y: Array
    metadata: dict[str, Array]
    kernels: list[Any] | None
    means: Any
    Z: Any
    num_inducing: int
    method: str
    options: dict[str, Any]
    fault: str | None = None
    prior_variance: float = 0.0  # largest at a row, of a latent on the scale of a logarithm


# ---- drawing a case ------------------------------------------------------------------------------


def make_case(seed: int, largest: int = 5000) -> Case:
    """The case of a seed, with at most so many rows."""
    rng = np.random.default_rng([9, seed])
    name = list(FAMILIES)[rng.integers(ESTABLISHED)]
    later = np.random.default_rng([10, seed])
    if later.uniform() < 0.15:
        name = list(LATER)[later.integers(len(LATER))]
    make, kind, work = FAMILIES[name]
    n = int(np.exp(rng.uniform(0.0, np.log(largest / work + 1))))
    D = int(rng.choice([1, 1, 2, 3, int(rng.integers(1, 31))]))
    X, latents = _inputs(rng, n, D)
    y, metadata = _targets(kind, rng, *latents)
    if rng.uniform() < 0.1:
        metadata["weights"] = rng.integers(0, 4, n) + (np.arange(n) == 0.0)
    names = make().latents
    method = METHODS[max(0, rng.integers(-18, len(METHODS)))]
    # step rules move a logarithm by 0.01 a step: no way out of a wild start
    given = rng.uniform() < 0.5 and method not in STEP_RULES
    kernels = [_kernel(rng, D) for _ in names] if given else None
    of_logs = [k for k, latent in zip(kernels or [], names, strict=False) if latent[:4] == "log_"]
    M = int(rng.choice([1, 3, 10, 20, 100], p=[0.2, 0.2, 0.3, 0.2, 0.1]))
    options = _options(rng, method, n * min(n, M) * work * len(names), n)
    means = [None, cgp.means.Constant(), cgp.means.Linear(D)][max(0, rng.integers(-15, 3))]
    means = None if method in STEP_RULES else means
    Z = _inducing(rng, X, M)
    case = Case(seed, name, X, y, metadata, kernels, means, Z, M, method, options)
    case.prior_variance = max([0.0, *(float(kernel.Kdiag(X).max()) for kernel in of_logs)])
    if rng.uniform() < 0.06:
        _spoil(case, kind, rng)
    return case


def _options(rng: Rng, method: str, work: int, n: int) -> dict[str, Any]:
    """Arguments of `optimize`: a quarter with its own limit, the others with fewer iterations."""
    if method == "variational":
        return {"only": "variational"}
    seed, many = int(rng.integers(1000)), 1000 if rng.uniform() < 0.25 else 60
    if method in ("profile", "lbfgsb"):
        many = many if method == "profile" else 1000
        return {"method": method, "max_iters": int(np.clip(3e6 / work, 15, many))}
    batch = min(n, 200)
    steps = int(np.clip(1e7 / work, 100, 500))
    return {"method": method, "batch_size": batch, "epochs": max(1.0, steps * batch / n),
            "rng": seed}  # fmt: skip


def _inputs(rng: Rng, n: int, D: int) -> tuple[Array, tuple[Array, Array]]:
    """X (n, D) of columns of all sorts, and two smooth functions of its rows."""
    columns: list[Array] = []
    for _ in range(D):
        made: list[Array] = [
            rng.uniform(-2.0, 2.0, n), rng.normal(size=n), rng.standard_t(1.0, n),
            rng.integers(0, 4, n).astype(float), np.full(n, rng.normal())]  # fmt: skip
        if columns:
            made.append(2.0 * columns[rng.integers(len(columns))] - 1.0)
        columns.append(made[rng.integers(len(made))])
    X = np.column_stack(columns)
    if rng.uniform() < 0.3:
        X = X[rng.integers(0, max(1, n // 2), n)]
    s = X / (X.std(axis=0) + (X.std(axis=0) == 0.0))
    f, g = (np.sin(s @ rng.normal(size=D) / np.sqrt(D) + rng.normal()) for _ in range(2))
    if rng.uniform() < 0.3:
        X = X * 10.0 ** rng.uniform(-8.0, 8.0, D)
    if rng.uniform() < 0.05:
        X = X + 1e6 * X.std(axis=0)
    return X, (f, g)


def _targets(kind: str, rng: Rng, f: Array, g: Array) -> tuple[Array, dict[str, Array]]:
    """Targets (n,) of a kind, often at the edge of what there is, and their metadata."""
    n, scale = len(f), 10.0 ** (rng.uniform(-8.0, 8.0) if rng.uniform() < 0.4 else 0.0)
    noise = rng.standard_t(1.2, n) if rng.uniform() < 0.2 else rng.normal(size=n)
    y = f + np.exp(g - 1.0) * noise
    if kind in ("positive", "times", "amounts"):
        y = scale * np.exp(np.clip(y, -50.0, 50.0))
        y = np.where(noise < -0.5, 0.0, y) if kind == "amounts" else y
        return y, _censoring(rng, y) if kind == "times" else {}
    if kind in ("unit", "closed_unit"):
        s = rng.choice([0.0, 2.0, -4.0, 8.0])
        y = np.clip(rng.beta(np.exp(f + s), np.exp(g + s)), 1e-300, np.nextafter(1.0, 0.0))
        return (np.where(np.abs(noise) > 1.2, noise > 0.0, y), {}) if kind[0] == "c" else (y, {})
    if kind == "counts":
        exposure = 10.0 ** rng.uniform(-2.0, 2.0, n) if rng.uniform() < 0.3 else np.ones(n)
        y = rng.poisson(np.exp(f + g) * exposure * 10.0 ** rng.choice([-3, 0, 0, 1, 2, 5, 8]))
        return y.astype(float), {"exposure": exposure} if np.ptp(exposure) else {}
    if kind == "trials":
        trials = rng.integers(1, 1 + 10 ** rng.integers(0, 7), n).astype(float)
        p = expit(f + rng.choice([-15.0, 0.0, 15.0]))
        return rng.binomial(trials.astype(int), p).astype(float), {"trials": trials}
    if kind == "angles":
        return np.angle(np.exp(1j * y)), {}
    if kind in ("binary", "classes"):
        top = 2 if kind == "classes" else 1
        return np.clip(np.round(top * expit(f + noise) + rng.choice([-1, 0, 0, 0])), 0, top), {}
    flavour = rng.integers(6)
    if flavour == 0:
        y = np.where(rng.uniform(size=n) < 0.02, 1e4 * y, y)
    elif flavour == 1:
        y = np.round(y)
    elif flavour == 2:
        y = np.where(noise > -1.0, 1.0, y)  # most are the same
    if kind == "real_or_zero":
        y = np.where(np.abs(noise) > 1.0, 0.0, y)
    return scale * (y + (rng.uniform() < 0.1) * 1e4), {}


def _censoring(rng: Rng, y: Array) -> dict[str, Array]:
    """Codes of any share of censored rows, on the right or in every way."""
    n, share = len(y), rng.choice([0.0, 1.0, rng.uniform()])
    ways = rng.choice([1.0, -1.0, 2.0], n) if rng.uniform() < 0.5 else np.ones(n)
    metadata = {"censored": np.where(rng.uniform(size=n) < share, ways, 0.0)}
    if (metadata["censored"] == 2.0).any():
        metadata["y_upper"] = y * (1.0 + 10.0 ** rng.uniform(-6.0, 1.0, n))
    if rng.uniform() < 0.2:
        metadata["entry"] = y * rng.uniform(0.0, 0.9, n)
    return metadata


def _kernel(rng: Rng, D: int, depth: int = 2) -> Any:
    """A leaf, or a sum or product of two; half of them with hyperparameters of any size."""
    if depth and rng.uniform() < 0.3:
        pair = [_kernel(rng, D, depth - 1) for _ in range(2)]
        return pair[0] + pair[1] if rng.uniform() < 0.5 else pair[0] * pair[1]
    wild = rng.uniform() < 0.5
    name = str(rng.choice(["RBF", "Matern12", "Matern32", "Matern52", "RationalQuadratic",
                           "Periodic", "Linear", "Bias", "White"]))  # fmt: skip
    variance = 10.0 ** rng.uniform(*((-10.0, 10.0) if wild else (-1.0, 1.0)))
    active = rng.permutation(D)[: rng.integers(1, D + 1)] if rng.uniform() < 0.4 else None
    d = D if active is None else len(active)
    kw: dict[str, Any] = {"active_dims": active}
    if name == "Linear":
        return K.Linear(d, variance, **kw)
    if name in ("Bias", "White"):
        return getattr(K, name)(d, variance, **kw)
    ARD = bool(rng.integers(2))
    kw["ARD2" if name == "Periodic" else "ARD"] = ARD
    size = d if ARD else 1
    kw["lengthscale"] = 10.0 ** rng.uniform(*((-6.0, 6.0) if wild else (-0.5, 1.0)), size)
    return getattr(K, name)(d, variance=variance, **kw)


def _inducing(rng: Rng, X: Array, M: int) -> Array | None:
    """The default, rows of X (more than once where M > N), copies of one row, or far away."""
    way = rng.integers(6)
    if way < 3:
        return None
    Z = X[rng.integers(0, len(X), M)].copy()
    if way == 4:
        Z[:] = Z[0]
    return 1e3 * (Z + 1.0) if way == 5 else Z


def _spoil(case: Case, kind: str, rng: Rng) -> None:
    """Make one value wrong, and name the rule that it breaks."""
    i = int(rng.integers(len(case.Y)))
    way = rng.integers(3)
    if way == 0 and "censored" in case.metadata:
        case.metadata["censored"][i], case.fault = 3.0, "unknown code"
    elif way < 2 and kind in OUTSIDE:
        case.Y[i], case.fault = OUTSIDE[kind], "outside the support"
    else:
        target = case.Y if way == 1 else case.X[:, 0]
        target[i], case.fault = rng.choice([np.nan, np.inf]), "not a number"


def expected_error(case: Case, stage: str) -> tuple[str, type[Exception], bool] | None:
    """The rule that allows an error at a stage, its class, and whether it has to come."""
    if case.fault is not None:
        return (case.fault, InputError, True) if stage == "construct" else None
    plain = case.method not in ("profile", "natgrad")
    if case.prior_variance > 300.0 and (stage == "evaluate" or (stage == "fit" and plain)):
        return "prior too wide", NumericalError, False
    return None
