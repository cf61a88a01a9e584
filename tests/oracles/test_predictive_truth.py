"""Predictive density, cdf, quantiles, mean and variance of every likelihood, by brute force.

The mixture ∫ p(y | f) q(f) df is summed over a dense grid of all latents with the distributions of
scipy.stats; nothing of the package's integration is used. Correlated latents have their grid along
the principal axes of q, where the package takes a Cholesky factor.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, i0e, ndtr
from stacks import Logistic

from chainedgp import likelihoods as liks
from chainedgp.errors import MomentWarning
from chainedgp.predictive import Predictive

QUANTILES = np.array([0.01, 0.2, 0.5, 0.9, 0.999])


def inflated(base, atoms, *odds, shared=False, base_mass=1.0):
    """Of scipy's distribution `base` and e^h at the atoms."""
    total = base_mass + sum(np.exp(h) for h in odds)
    weights = [np.exp(h) / total for h in odds]
    rest = base_mass / total
    density = getattr(base, "pmf", None) or base.pdf
    mean = rest * base.mean() + sum(w * a for w, a in zip(weights, atoms, strict=True))
    square = rest * (base.var() + base.mean() ** 2)
    square = square + sum(w * a * a for w, a in zip(weights, atoms, strict=True))
    return SimpleNamespace(
        pdf=lambda y: (
            sum((w * (y == a) for w, a in zip(weights, atoms, strict=True)), 0.0)
            + (rest * density(y) if shared or y not in atoms else 0.0)
        ),
        cdf=lambda y: (
            rest * base.cdf(y) + sum(w * (y >= a) for w, a in zip(weights, atoms, strict=True))
        ),
        mean=lambda: mean,
        var=lambda: square - mean**2,
    )


def hurdle(base, h):
    """The base without its zeros, behind a hurdle."""
    p0, p = base.pmf(0), expit(h)
    mean = base.mean() / (1 - p0)
    square = (base.var() + base.mean() ** 2) / (1 - p0)
    return SimpleNamespace(
        pdf=lambda y: p if y == 0 else (1 - p) * base.pmf(y) / (1 - p0),
        cdf=lambda y: p * (y >= 0) + (1 - p) * np.maximum(base.cdf(y) - p0, 0.0) / (1 - p0),
        mean=lambda: (1 - p) * mean,
        var=lambda: (1 - p) * square - ((1 - p) * mean) ** 2,
    )


def inflated_hurdle(base, h, k):
    """The same with more twos."""
    inside, p = hurdle(base, h), expit(k)
    square = inside.var() + inside.mean() ** 2
    mean = (1 - p) * inside.mean() + 2 * p
    return SimpleNamespace(
        pdf=lambda y: (1 - p) * inside.pdf(y) + p * (y == 2),
        cdf=lambda y: (1 - p) * inside.cdf(y) + p * (y >= 2),
        mean=lambda: mean,
        var=lambda: (1 - p) * square + 4 * p - mean**2,
    )


def rounded(base, width):
    """The base, but for the density of what was written down."""
    return SimpleNamespace(
        pdf=lambda y: (base.cdf(y + 0.5 * width) - base.cdf(y - 0.5 * width)) / width,
        cdf=base.cdf,
        mean=base.mean,
        var=base.var,
    )


def classes(probabilities):
    """Classes 0 … K − 1; probabilities (K, nodes)."""
    return SimpleNamespace(pdf=lambda y: probabilities[int(y)])


def softmax(*f):
    powers = np.exp(np.array(f))
    return classes(powers / powers.sum(axis=0))


def ordinal(f):
    below = [0.0 * f, expit(-0.8 - f), expit(0.5 - f), 0.0 * f + 1.0]
    return classes(np.diff(below, axis=0))


def by_normal(y_of, z_of, slope, base, low=-np.inf, high=np.inf):
    """y = y_of(z), z of scipy's law `base` between two ends; slope is dz/dy at y."""
    share = base.cdf(high) - base.cdf(low)
    if np.all(np.isinf(low) & np.isinf(high)):
        t = np.linspace(-3.7, 3.7, 101)[:, None]
        z, w = np.sinh(t), np.cosh(t)
    else:  # It ends at `low`.
        t = np.linspace(-30.0, 5.0, 201)[:, None]
        z, w = low + np.exp(t), np.exp(t)
    w, y = w * base.pdf(z), y_of(z)
    w = w / w.sum(axis=0)
    mean = (w * y).sum(axis=0)
    return SimpleNamespace(
        pdf=lambda t: base.pdf(z_of(t)) * slope(t) / share,
        cdf=lambda t: (base.cdf(z_of(t)) - base.cdf(low)) / share,
        mean=lambda: mean,
        var=lambda: (w * (y - mean) ** 2).sum(axis=0),
    )


def shash(f, g, k=0.4, tau=1.3):
    scale, centre = np.exp(g) / (tau * np.cosh(k)), f - np.exp(g) / tau * np.tanh(k)

    def a_of(y):
        return (np.arcsinh((y - centre) / scale) - k) / tau

    return by_normal(
        lambda z: centre + scale * np.sinh(tau * np.arcsinh(z) + k),
        lambda y: np.sinh(a_of(y)),
        lambda y: np.cosh(a_of(y)) / (tau * np.hypot(scale, y - centre)),
        stats.norm(),
    )


def box_cox(base, power):
    def at(f, g):
        sigma, mu = np.exp(g), np.exp(f)
        end = -1.0 / (power * sigma)
        return by_normal(
            lambda z: mu * (1.0 + power * sigma * z) ** (1.0 / power),
            lambda y: ((y / mu) ** power - 1.0) / (power * sigma),
            lambda y: (y / mu) ** power / (y * sigma),
            base,
            *((end, np.inf) if power > 0.0 else (-np.inf, end)),
        )

    return at


def tweedie(f, g, power=1.6):
    mu, phi = np.exp(f), np.exp(g)
    rate = mu ** (2 - power) / (phi * (2 - power))
    alpha, scale = (2 - power) / (power - 1), phi * (power - 1) * mu ** (power - 1)
    j = np.arange(1, 60)[:, None]
    weights = stats.poisson.pmf(j, rate)
    return SimpleNamespace(
        pdf=lambda y: (
            (weights * stats.gamma.pdf(y, j * alpha, scale=scale)).sum(axis=0)
            if y
            else np.exp(-rate)
        ),
        cdf=lambda y: (
            (y >= 0) * np.exp(-rate)
            + (weights * stats.gamma.cdf(y, j * alpha, scale=scale)).sum(axis=0)
        ),
        mean=lambda: mu,
        var=lambda: phi * mu**power,
    )


def negative_binomial(f, g):
    r = np.exp(-g)
    return stats.nbinom(r, r / (r + 2.0 * np.exp(f)))


class Angle:
    """A von Mises variable from −π to π, whatever its direction is; scipy's is on the line."""

    dist = stats.vonmises

    def __init__(self, f, g):
        self.f, self.k, self.law = f, np.exp(g), stats.vonmises(np.exp(g), f)

    def pdf(self, y):
        return np.exp(self.k * (np.cos(y - self.f) - 1.0)) / (2.0 * np.pi * i0e(self.k))

    def cdf(self, y):
        return self.law.cdf(y) - self.law.cdf(-np.pi)

    def _moment(self, power):
        y, weights = np.polynomial.legendre.leggauss(100)
        pairs = zip(np.pi * y, np.pi * weights, strict=True)
        return sum(w * t**power * self.pdf(t) for t, w in pairs)

    def mean(self):
        return self._moment(1)

    def var(self):
        return self._moment(2) - self._moment(1) ** 2


CASES = {
    "HetGaussian": (liks.HetGaussian(), (0.3, -1.0), (0.5, 0.3),
                    lambda f, g: stats.norm(f, np.exp(g / 2))),
    "Gaussian": (liks.Gaussian(0.4), (0.3,), (0.5,), lambda f: stats.norm(f, np.sqrt(0.4))),
    "SignalNoiseGaussian": (liks.SignalNoiseGaussian(), (0.4, 0.3, -1.0), (0.3, 0.1, 0.2),
                            lambda f, s, g: stats.norm(f * np.exp(s), np.exp(g / 2))),
    "HetStudentT": (liks.HetStudentT(nu=5.0), (0.3, -1.0), (0.5, 0.3),
                    lambda f, g: stats.t(5.0, f, np.exp(g / 2))),
    "StudentT": (liks.StudentT(nu=5.0, log_scale2=-1.0), (0.3,), (0.5,),
                 lambda f: stats.t(5.0, f, np.exp(-0.5))),
    "HetStudentTNu": (liks.HetStudentTNu(), (0.3, -1.0, 1.5), (0.2, 0.2, 0.2),
                      lambda f, g, h: stats.t(np.exp(h), f, np.exp(g / 2))),
    "HetLaplace": (liks.HetLaplace(), (0.3, -0.5), (0.1, 0.2),
                   lambda f, g: stats.laplace(f, np.exp(g))),
    "AsymmetricLaplace": (liks.AsymmetricLaplace(0.8), (0.3, -0.5), (0.1, 0.2), lambda f, g: (
        stats.laplace_asymmetric(2.0, f, np.exp(g) / 0.4))),
    "SHASH": (liks.SHASH(skewness=0.4, tail=1.3), (0.3, -0.5), (0.1, 0.2), shash),
    "BoxCoxNormal": (liks.BoxCoxNormal(power=0.7), (0.3, -1.0), (0.05, 0.2),
                     box_cox(stats.norm(), 0.7)),
    "BoxCoxT": (liks.BoxCoxT(power=1.0, nu=9.0), (0.3, -1.5), (0.03, 0.1),
                box_cox(stats.t(9.0), 1.0)),
    "Tweedie": (liks.Tweedie(power=1.6), (0.3, 0.2), (0.2, 0.2), tweedie),
    "GEV": (liks.GEV(shape=0.15), (0.3, -0.5), (0.1, 0.1),
            lambda f, g: stats.genextreme(-0.15, f, np.exp(g))),
    "GEVShape": (liks.GEVShape(), (0.3, -0.5, 0.3), (0.1, 0.1, 0.02), lambda f, g, h: (
        stats.genextreme(0.5 - 1.5 / (1 + 2 * np.exp(-h)), f, np.exp(g)))),
    "GeneralisedPareto": (liks.GeneralisedPareto(2.0, shape=0.15), (0.3,), (0.2,),
                          lambda g: stats.genpareto(0.15, 2.0, np.exp(g))),
    "GeneralisedParetoShape": (
        liks.GeneralisedParetoShape(), (0.3, 0.3), (0.1, 0.02), lambda g, h: (
            stats.genpareto(1.5 / (1 + 2 * np.exp(-h)) - 0.5, 0.0, np.exp(g)))),
    "VonMises": (liks.VonMises(), (0.3, 0.7), (0.2, 0.2), Angle),
    "HetGamma": (liks.HetGamma(), (0.3, 0.7), (0.2, 0.2),
                 lambda f, g: stats.gamma(np.exp(g), scale=np.exp(f - g))),
    "Beta": (liks.Beta(), (0.8, 1.1), (0.3, 0.2), lambda f, g: stats.beta(np.exp(f), np.exp(g))),
    "BetaMeanPrecision": (liks.BetaMeanPrecision(), (0.4, 1.5), (0.3, 0.2), lambda f, g: stats.beta(
        expit(f) * np.exp(g), expit(-f) * np.exp(g))),
    "Poisson": (liks.Poisson(), (1.0,), (0.4,), lambda f: stats.poisson(2.0 * np.exp(f)),
                {"exposure": 2.0}),
    "AdditivePoisson": (liks.AdditivePoisson(), (1.0, 0.2), (0.4, 0.3),
                        lambda f, g: stats.poisson(2.0 * (np.exp(f) + np.exp(g))),
                        {"exposure": 2.0}),
    "NegativeBinomial": (liks.NegativeBinomial(), (1.0, -0.5), (0.3, 0.2), negative_binomial,
                         {"exposure": 2.0}),
    "Binomial": (liks.Binomial(), (0.4,), (0.6,), lambda f: stats.binom(9, expit(f)),
                 {"trials": 9.0}),
    "BetaBinomial": (liks.BetaBinomial(), (0.4, 1.0), (0.6, 0.3), lambda f, g: stats.betabinom(
        9, expit(f) * np.exp(g), expit(-f) * np.exp(g)), {"trials": 9.0}),
    "Bernoulli": (liks.Bernoulli(), (0.4,), (2.0,), lambda f: stats.bernoulli(expit(f))),
    "HetProbit": (liks.HetProbit(), (0.4, 0.3), (0.6, 0.3),
                  lambda f, g: stats.bernoulli(ndtr(f * np.exp(-g / 2)))),
    "Softmax": (liks.Softmax(3), (0.4, 0.0, -1.0), (0.6, 0.3, 0.9), softmax),
    "Ordinal": (liks.Ordinal(3, cutpoint=-0.8, gap_1=1.3), (0.4,), (0.6,), ordinal),
    "LogLogisticSurvival": (liks.LogLogisticSurvival(), (0.3, 0.5), (0.3, 0.1),
                            lambda f, g: stats.fisk(np.exp(g), scale=np.exp(f))),
    "LogLogistic": (liks.LogLogistic(log_shape=0.5), (0.3,), (0.3,),
                    lambda f: stats.fisk(np.exp(0.5), scale=np.exp(f))),
    "WeibullSurvival": (liks.WeibullSurvival(), (0.3, 0.5), (0.2, 0.1),
                        lambda f, g: stats.weibull_min(np.exp(g), scale=np.exp(f))),
    "LogNormalSurvival": (liks.LogNormalSurvival(), (0.3, -0.4), (0.3, 0.1),
                          lambda f, g: stats.lognorm(np.exp(g), scale=np.exp(f))),
    "Inflated": (liks.Inflated(liks.Poisson(), (0, 2)), (1.0, -0.5, -1.0), (0.2, 0.4, 0.3),
                 lambda f, h, k: inflated(stats.poisson(np.exp(f)), (0, 2), h, k, shared=True)),
    "Hurdle": (liks.Hurdle(liks.Poisson()), (0.4, -0.5), (0.3, 0.4),
               lambda f, h: hurdle(stats.poisson(np.exp(f)), h)),
    "ZeroInflatedPoisson": (liks.ZeroInflatedPoisson(), (1.0, -0.5), (0.3, 0.4), lambda f, h: (
        inflated(stats.poisson(np.exp(f)), (0,), h, shared=True))),
    "ZeroInflatedNegativeBinomial": (
        liks.ZeroInflatedNegativeBinomial(), (1.0, -0.5, -0.5), (0.2, 0.2, 0.4), lambda f, g, h: (
            inflated(stats.nbinom(np.exp(-g), 1 / (1 + np.exp(f + g))), (0,), h, shared=True))),
    "ZeroOneInflatedBeta": (liks.ZeroOneInflatedBeta(), (0.8, 1.1, -0.5, -1), (0.2, 0.2, 0.3, 0.2),
                            lambda f, g, h, k: inflated(stats.beta(np.exp(f), np.exp(g)), (0, 1),
                                                        h, k)),
    "ScipyLikelihood": (
        liks.Likelihood.from_scipy("logistic", loc="identity", scale="exp"), (0.3, -0.5),
        (0.4, 0.2), lambda f, g: stats.logistic(f, np.exp(g))),
    "Rounded": (liks.Rounded(liks.HetGaussian(), 0.5), (0.3, -0.5), (0.4, 0.2),
                lambda f, g: rounded(stats.norm(f, np.exp(0.5 * g)), 0.5)),
    "ConstantLatent": (liks.HetGamma().with_constant("log_shape", 0.7), (0.3,), (0.2,),
                       lambda f: stats.gamma(np.exp(0.7), scale=np.exp(f - 0.7))),
}  # fmt: skip


SEVERAL = {case: entry for case, entry in CASES.items() if len(entry[1]) > 1} | {
    "Density": (Logistic(), (0.3, -0.5), (0.4, 0.2), lambda f, g: stats.logistic(f, np.exp(g))),
    "Inflated(HetGaussian)": (
        liks.Inflated(liks.HetGaussian(), (0.7,)), (0.3, -0.4, -0.5), (0.2, 0.2, 0.4),
        lambda f, g, h: inflated(stats.norm(f, np.exp(g / 2)), (0.7,), h)),
    "Hurdle(Hurdle)": (
        liks.Inflated(liks.Hurdle(liks.Poisson()), (2,)), (0.4, -0.5, -1.0), (0.3, 0.4, 0.2),
        lambda f, h, k: inflated_hurdle(stats.poisson(np.exp(f)), h, k)),
    "HetStudentTNu.with_constant": (
        liks.HetStudentTNu().with_constant(2, np.log(5.0)), (0.3, -1.0), (0.5, 0.3),
        lambda f, g: stats.t(5.0, f, np.exp(g / 2))),
    "heavy HetStudentT": (liks.HetStudentT(nu=1.2), (0.3, -1.0), (0.5, 0.3),
                          lambda f, g: stats.t(1.2, f, np.exp(g / 2))),
    "wide HetGaussian": (liks.HetGaussian(), (0.3, -7.0), (1.0, 0.3),
                         lambda f, g: stats.norm(f, np.exp(g / 2))),
}  # fmt: skip
"""Latents that may be correlated."""
NODES = {1: 2001, 2: 181, 3: 41, 4: 21}
STEEP = {
    "Tweedie": 61,
    "SHASH": 101,
    "BoxCoxNormal": 101,
    "BoxCoxT": 101,
    "wide HetGaussian": 901,
    "HetLaplace": 601,
    "AsymmetricLaplace": 601,
}


def covariance(case, rho):
    """V (b, b), latents that are k apart in their list correlated by ρᵏ."""
    sds = np.sqrt(SEVERAL[case][2])
    apart = np.abs(np.subtract.outer(range(len(sds)), range(len(sds))))
    return rho**apart * np.outer(sds, sds)


def mixture(case, rho=0.0):
    """Weights (K,) of the nodes of a dense grid, and the distribution at each of them."""
    _, means, variances, at = (CASES | SEVERAL)[case][:4]
    b, root = len(means), np.diag(np.sqrt(variances))
    if rho != 0.0:
        values, vectors = np.linalg.eigh(covariance(case, rho))
        root = vectors * np.sqrt(values)
    fine = 81 if b == 3 and abs(rho) > 0.9 else NODES[b]  # what is not small is one-dimensional
    x = np.linspace(-6.5, 6.5, STEEP.get(case, fine))
    grids = np.stack(np.meshgrid(*[x] * b, indexing="ij")).reshape(b, -1)
    w = np.exp(-0.5 * np.sum(grids**2, axis=0))
    keep = w > 1e-12
    return w[keep] / w[keep].sum(), at(*(np.array(means)[:, None] + root @ grids[:, keep]))


def predictive(case, factor=1.0, rho=0.0):
    likelihood, means, variances, _, *metadata = (CASES | SEVERAL)[case]
    rows = {key: np.array([value]) for key, value in (metadata[0] if metadata else {}).items()}
    V = np.array([covariance(case, rho) if rho else variances])
    return Predictive(likelihood, np.array([means]), factor * V, rows)


def density(at, y):
    return at.pmf(y) if hasattr(at, "pmf") and not hasattr(at.dist, "pdf") else at.pdf(y)


def errors(case, p, rho=0.0):
    """Largest errors of density (relative), cdf at quantiles, mean and variance (relative)."""
    weights, at = mixture(case, rho)
    likelihood = (CASES | SEVERAL)[case][0]
    support = likelihood.support
    if support == "categories":
        y = np.arange(3.0)
        true = np.array([weights @ at.pdf(t) for t in y])
        return {"pdf": np.abs(p.pdf(y)[0] / true - 1).max()}
    y = p.ppf(QUANTILES)[0]
    below = np.array([weights @ at.cdf(t) for t in y])
    discrete = support in ("counts", "binary")
    continuous = ~np.isin(y, likelihood.atoms) & (not discrete)
    found = {
        "pdf": np.abs(p.pdf(y)[0] / [weights @ density(at, t) for t in y] - 1).max(),
        "cdf": np.abs(p.cdf(y)[0] - below).max(),
        "ppf": np.abs(below - QUANTILES)[continuous].max(initial=0.0),
    }
    if (~continuous).any():  # the smallest at which the cdf is q or more
        jump = np.array([weights @ at.cdf(t - 1e-9) for t in y])
        right = (below >= QUANTILES - 1e-9) & (jump < QUANTILES + 1e-9)
        found["ppf"] = max(found["ppf"], float(not right[~continuous].all()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MomentWarning)
        mean, variance = p.mean[0, 0], p.variance[0, 0]
    if np.isfinite(mean):
        mu, var = at.mean(), at.var()
        true = weights @ mu
        found["mean"] = abs(mean / true - 1)
    if np.isfinite(variance):
        found["variance"] = abs(variance / (weights @ (var + mu * mu) - true**2) - 1)
    return found


TOLERANCE = {"pdf": 5e-6, "cdf": 1e-7, "ppf": 1e-7, "mean": 1e-7, "variance": 1e-6}
LOOSE = {
    "GEV": {"ppf": 3e-6},  # few nodes serve where two rules agree to 3e-6 of logit F
    "AsymmetricLaplace": {"pdf": 5e-5},
    "HetLaplace": {"pdf": 5e-5},  # the grid's own error at the kink
    "BoxCoxNormal": {"mean": 1e-5, "variance": 5e-5},  # few nodes: moments are integrals over y
    "BoxCoxT": {"mean": 1e-5, "variance": 5e-5},
    "ZeroOneInflatedBeta": {"mean": 1e-4, "variance": 1e-4},  # four latents: scattered nodes
}


def wrong(case, p, rho=0.0):
    """What is off by more than its tolerance."""
    limits = TOLERANCE | LOOSE.get(case, {})
    return {key: error for key, error in errors(case, p, rho).items() if not error <= limits[key]}


def quick_first(cases):
    """The brute force takes two seconds for one of them, which is left to .ci/run."""
    return [pytest.param(c, marks=pytest.mark.long) if c == "BetaBinomial" else c for c in cases]


@pytest.mark.parametrize("case", quick_first(CASES))
def test_against_brute_force(case):
    assert wrong(case, predictive(case)) == {}


SLOW = pytest.mark.slow
RHOS = [0.6, *(pytest.param(rho, marks=SLOW) for rho in (-0.95, 0.999, -0.999))]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("case", quick_first(SEVERAL))
def test_against_brute_force_under_correlation(case, rho):
    assert wrong(case, predictive(case, rho=rho), rho) == {}


QUICK = ("HetGaussian", "HetStudentT", "Beta", "Hurdle", "LogLogisticSurvival")
MUTANTS = [case if case in QUICK else pytest.param(case, marks=SLOW) for case in SEVERAL]


@pytest.mark.parametrize("case", MUTANTS)
def test_a_correlation_that_is_ignored_or_of_the_wrong_sign_is_seen(case):
    """The mutants: c = 0, and −c."""
    for mutant in (predictive(case), predictive(case, rho=-0.6)):
        assert wrong(case, mutant, 0.6)["pdf"] > 1e-3


@pytest.mark.parametrize("case", ["HetGaussian", "Beta", "Poisson", "LogLogistic"])
def test_a_wider_q_is_seen(case):
    """The mutant: variances of q a hundredth larger."""
    assert {"pdf", "cdf"} <= set(wrong(case, predictive(case, 1.01)))


def test_no_likelihood_is_left_out():
    assert set(liks.__all__) - {"Likelihood", "Survival"} == set(CASES)
