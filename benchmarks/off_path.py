"""What costs off the beaten path: quantiles, densities known by a formula alone, leave-one-out.

    python benchmarks/off_path.py [--parts quantiles two three softmax many batches] [--rows 500]

One unit is the processor time of a default HetGaussian fit of 500 rows with M = 30, taken in the
same run, so that the numbers of two machines can be compared. Prints

- for every built-in likelihood and a density alone: microseconds a row of two quantiles, at moments
  of the latents that vary smoothly with the row, and the largest |cdf(ppf(p)) − p|;
- for densities alone of two and three latents, and for Softmax(3) of 100 rows without noise in one
  dimension: units of a default fit and of `loo`, and the latter over the former;
- for Weibull and Poisson fits of 20,000 rows and an AdditivePoisson fit of 600: processor seconds,
  passes over all rows and the bound, a row;
- only if asked for by its name, for batches of 41,000 rows with M = 400: the bound, a row, after 5,
  10, 20 and 50 epochs and where a fit stops by itself. That takes some minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats

import chainedgp as cgp
from chainedgp.predictive import Predictive

L = cgp.likelihoods
LEVELS = np.array([0.025, 0.975])


class HetLogistic(L.Likelihood):
    """A density alone, of two latents."""

    latents = ("location", "log_scale")

    def log_density(self, y, f, g):
        """The logistic distribution of location f and scale e^g."""
        z = np.abs(y - f) * np.exp(-g)
        return -z - g - 2 * np.log1p(np.exp(-z))


class SkewLogistic(L.Likelihood):
    """A density alone, of three latents."""

    latents = ("location", "log_scale", "log_skew")

    def log_density(self, y, f, g, h):
        """The generalised logistic distribution of type I, with the exponent e^h."""
        z = (y - f) * np.exp(-g)
        return h - z - g - (np.exp(h) + 1) * np.logaddexp(0, -z)


BUILT_IN = {
    "Gaussian": L.Gaussian(),
    "HetGaussian": L.HetGaussian(),
    "HetStudentT": L.HetStudentT(),
    "StudentT": L.StudentT(),
    "HetLaplace": L.HetLaplace(),
    "AsymmetricLaplace": L.AsymmetricLaplace(0.75),
    "SHASH": L.SHASH(),
    "BoxCoxNormal": L.BoxCoxNormal(),
    "BoxCoxT": L.BoxCoxT(),
    "Tweedie": L.Tweedie(),
    "HetGamma": L.HetGamma(),
    "HetStudentTNu": L.HetStudentTNu(),
    "SignalNoiseGaussian": L.SignalNoiseGaussian(),
    "Beta": L.Beta(),
    "BetaMeanPrecision": L.BetaMeanPrecision(),
    "LogLogisticSurvival": L.LogLogisticSurvival(),
    "LogLogistic": L.LogLogistic(),
    "WeibullSurvival": L.WeibullSurvival(),
    "LogNormalSurvival": L.LogNormalSurvival(),
    "Poisson": L.Poisson(),
    "AdditivePoisson": L.AdditivePoisson(),
    "NegativeBinomial": L.NegativeBinomial(),
    "Binomial": L.Binomial(),
    "BetaBinomial": L.BetaBinomial(),
    "Bernoulli": L.Bernoulli(),
    "HetProbit": L.HetProbit(),
    "Softmax": L.Softmax(3),
    "Ordinal": L.Ordinal(4),
    "ZeroInflatedPoisson": L.ZeroInflatedPoisson(),
    "ZeroInflatedNegativeBinomial": L.ZeroInflatedNegativeBinomial(),
    "ZeroOneInflatedBeta": L.ZeroOneInflatedBeta(),
    "Hurdle(HetGamma)": L.Hurdle(L.HetGamma()),
    "Rounded(HetGaussian)": L.Rounded(L.HetGaussian(), 0.5),
    "from_scipy(gumbel_r)": L.Likelihood.from_scipy(stats.gumbel_r, loc="identity", scale="exp"),
}
ALONE = {"a density of 2 latents": HetLogistic(), "a density of 3 latents": SkewLogistic()}


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of `work`."""
    start = time.process_time()
    work()
    return time.process_time() - start


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x (n,), f (n,) and g (n,)."""
    x = np.sort(np.random.default_rng(seed).uniform(0.0, 6.0, n))
    return x, np.sin(1.5 * x), 0.7 * np.cos(x) - 1.0


def fitted(x: np.ndarray, y: np.ndarray, likelihood: L.Likelihood, M: int) -> cgp.ChainedGP:
    """A default fit on one thread."""
    m = cgp.ChainedGP(x, y, likelihood, num_inducing=M, num_threads=1)
    m.optimize(messages=False)
    return m


def unit() -> float:
    """Processor seconds of the fit that all others are measured by, the least of two."""
    x, f, g = data(500)
    y = f + np.exp(g) * np.random.default_rng(1).standard_normal(len(x))
    return min(seconds(lambda: fitted(x, y, L.HetGaussian(), 30)) for _ in range(2))


def moments(likelihood: L.Likelihood, n: int) -> Predictive:
    """Predictions of n rows whose latents have moments like those of a fit."""
    x, b = np.linspace(0.0, 6.0, n), len(likelihood.latents)
    means = np.stack([0.6 * np.sin(1.5 * x + j) + 0.8 for j in range(b)], axis=1)
    variances = np.stack([(0.12 + 0.1 * np.cos(2.0 * x + j)) ** 2 for j in range(b)], axis=1)
    metadata = {"trials": np.full(n, 20.0)} if "trials" in likelihood.metadata_names else {}
    return Predictive(likelihood, means, variances, metadata)


def quantiles(name: str, likelihood: L.Likelihood, rows: int) -> None:
    """Print microseconds a row of two quantiles, and how far the cdf there is from the levels."""
    moments(likelihood, 20).ppf(LEVELS)  # whatever is loaded once
    taken = seconds(lambda: moments(likelihood, rows).ppf(LEVELS))
    p = moments(likelihood, 64)
    y = p.ppf(LEVELS)
    sure = ~np.isin(y, likelihood.atoms) & np.full(len(p), p._support.continuous)[:, None]
    error = float(np.abs(p.cdf(y) - LEVELS)[sure].max(initial=0.0))
    print(f"{name:30s} {1e6 * taken / rows:8.0f} µs a row   error {error:.0e}", flush=True)


def fit(name: str, x: np.ndarray, y: np.ndarray, likelihood: L.Likelihood, one: float) -> None:
    """Print the units of a default fit and of `loo`."""
    models = []
    fit_seconds = seconds(lambda: models.append(fitted(x, y, likelihood, 30)))
    loo_seconds = seconds(lambda: models[0].loo())
    print(
        f"{name:30s} fit {fit_seconds / one:7.1f} units   loo {loo_seconds / one:7.1f} units, "
        f"{loo_seconds / fit_seconds:.1f} fits   bound {models[0].log_likelihood():.4f}",
        flush=True,
    )


def many(name: str) -> tuple[np.ndarray, np.ndarray, L.Likelihood]:
    """Inputs, targets and likelihood of a simulated set of many rows."""
    rng = np.random.default_rng(0)
    if name == "Weibull, 20,000 rows":
        X = rng.uniform(-1.0, 1.0, (20_000, 5))
        size = np.exp(np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2])
        return X, size * rng.weibull(np.exp(0.3 * X[:, 3] + 0.3)), L.WeibullSurvival()
    if name == "Poisson, 20,000 rows":
        X = rng.uniform(0.0, 10.0, (20_000, 1))
        rate = np.exp(1.0 + np.sin(2.0 * X[:, 0]) * X[:, 0] / 5.0)
        return X, rng.poisson(rate).astype(float), L.Poisson()
    X = rng.uniform(0.0, 10.0, (600, 2))
    rate = np.exp(0.5 + np.sin(X[:, 0])) + np.exp(0.5 * np.cos(X[:, 1]))
    return X, rng.poisson(rate).astype(float), L.AdditivePoisson()


def fit_many(name: str) -> None:
    """Print processor seconds, passes and the bound of a default fit."""
    X, y, likelihood = many(name)
    m = cgp.ChainedGP(X, y, likelihood, num_threads=1)
    results = []
    taken = seconds(lambda: results.append(m.optimize(messages=False)))
    (result,) = results
    print(
        f"{name:30s} {taken:7.1f} s   {result.likelihood_evaluations:6.1f} passes   "
        f"bound {result.bound / len(y):.5f} a row   {result.status}",
        flush=True,
    )


def skewed(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nine correlated inputs, most of them skewed, and targets whose noise varies."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, 9))
    Z[:, 1:] = 0.6 * Z[:, :-1] + 0.8 * Z[:, 1:]
    X = Z.copy()
    X[:, :5], X[:, 5], X[:, 6] = np.exp(0.8 * Z[:, :5]), np.round(X[:, 5], 1), Z[:, 6] ** 3
    f = np.sin(2.0 * Z[:, 0]) + 0.7 * Z[:, 1] * Z[:, 2] + 0.5 * np.tanh(3.0 * Z[:, 5])
    f += 0.3 * np.sin(4.0 * Z[:, 3])
    return X, f + np.exp(0.5 * (0.6 * Z[:, 4] - 1.5)) * rng.standard_normal(n)


def fit_batches(epochs: int | None) -> None:
    """Print processor seconds and the bound, a row, of a fit by batches."""
    X, y = skewed(41_000)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=400, num_threads=1)
    results = []
    options = {"batch_size": 1000, "epochs": epochs, "messages": False, "rng": 0}
    taken = seconds(lambda: results.append(m.optimize(**options)))
    name = f"batches, epochs={epochs}"
    print(f"{name:30s} {taken:7.1f} s   bound {results[0].bound / len(y):.5f} a row", flush=True)


def main() -> None:
    """Run the parts that were asked for."""
    usual = ("quantiles", "two", "three", "softmax", "many")
    parts = (*usual, "batches")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=usual, choices=parts)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--only", nargs="*", help="likelihoods of the part `quantiles`")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    one = unit()
    print(f"one unit: {one:.2f} processor seconds")
    if "quantiles" in options.parts:
        for name, likelihood in {**BUILT_IN, **ALONE}.items():
            if options.only is None or name in options.only:
                quantiles(name, likelihood, options.rows)
    x, f, g = data(500)
    rng = np.random.default_rng(2)
    if "two" in options.parts:
        y = rng.logistic(f, np.exp(g))
        fit("a density of 2 latents", x, y, HetLogistic(), one)
    if "three" in options.parts:
        y = f + np.exp(g) * stats.genlogistic(np.exp(np.cos(x))).rvs(random_state=rng)
        fit("a density of 3 latents", x, y, SkewLogistic(), one)
    if "softmax" in options.parts:
        x = np.linspace(0.0, 6.0, 100)
        fit("Softmax(3), no noise", x, np.floor(x / 2.001), L.Softmax(3), one)
    if "many" in options.parts:
        for name in ("Weibull, 20,000 rows", "Poisson, 20,000 rows", "AdditivePoisson, 600 rows"):
            fit_many(name)
    if "batches" in options.parts:
        for epochs in (5, 10, 20, 50, None):
            fit_batches(epochs)


if __name__ == "__main__":
    main()
