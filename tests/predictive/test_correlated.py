"""Predictions under a q whose latents are correlated: laws, closed forms and Monte Carlo.

Densities, cdfs, quantiles and moments of every likelihood are held against brute force in
tests/oracles/test_predictive_truth.py; here are the rest, and what holds between them.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from chainedgp import likelihoods as L
from chainedgp.errors import InputError
from chainedgp.predictive import Predictive, mixtures
from chainedgp.predictive.observed import ObservedLaw, pit_ends

SEVERAL = {
    "HetGaussian": L.HetGaussian(),
    "HetStudentT": L.HetStudentT(),
    "HetLaplace": L.HetLaplace(),
    "AsymmetricLaplace": L.AsymmetricLaplace(0.3),
    "GEV": L.GEV(),
    "GEVShape": L.GEVShape(),
    "GeneralisedParetoShape": L.GeneralisedParetoShape(),
    "VonMises": L.VonMises(),
    "HetGamma": L.HetGamma(),
    "HetStudentTNu": L.HetStudentTNu(),
    "SignalNoiseGaussian": L.SignalNoiseGaussian(),
    "Beta": L.Beta(),
    "BetaMeanPrecision": L.BetaMeanPrecision(),
    "LogLogisticSurvival": L.LogLogisticSurvival(),
    "WeibullSurvival": L.WeibullSurvival(),
    "LogNormalSurvival": L.LogNormalSurvival(),
    "AdditivePoisson": L.AdditivePoisson(),
    "NegativeBinomial": L.NegativeBinomial(),
    "HetProbit": L.HetProbit(),
    "ZeroInflatedPoisson": L.ZeroInflatedPoisson(),
    "ZeroInflatedNegativeBinomial": L.ZeroInflatedNegativeBinomial(),
    "ZeroOneInflatedBeta": L.ZeroOneInflatedBeta(),
    "Hurdle": L.Hurdle(L.NegativeBinomial()),
    "Inflated survival": L.Inflated(L.WeibullSurvival(), (0.0,)),
    "scipy": L.Likelihood.from_scipy("gumbel_r", loc="identity", scale="exp"),
    "constant": L.HetStudentTNu().with_constant(2, 1.5),
}
SURVIVAL = [name for name, likelihood in SEVERAL.items() if likelihood.event_times]
HEAVY = ("LogLogisticSurvival", "WeibullSurvival", "LogNormalSurvival", "HetStudentT")
HEAVY += (
    "GEVShape",
    "GeneralisedParetoShape",
    "HetStudentTNu",
    "constant",
    "Inflated survival",
)  # A mean or a variance is infinite.


def moments(b, rhos=(0.9, -0.6, 0.3), seed=0):
    """Means (n, b) and covariances (n, b, b) of some rows, latents k apart correlated by ρᵏ."""
    rng = np.random.default_rng(seed)
    apart = np.abs(np.subtract.outer(range(b), range(b)))
    means, sds = 0.4 * rng.normal(size=(len(rhos), b)), rng.uniform(0.2, 0.5, (len(rhos), b))
    C = np.array([rho**apart for rho in rhos])
    return means, sds[:, :, None] * C * sds[:, None, :]


def rows(name, **keywords):
    return Predictive(SEVERAL[name], *moments(len(SEVERAL[name].latents)), **keywords)


def latent_draws(means, V, size, seed=1):
    """(b, size, n), by numpy."""
    rng = np.random.default_rng(seed)
    pairs = zip(means, V, strict=True)
    return np.stack([rng.multivariate_normal(m, v, size).T for m, v in pairs], axis=2)


def wrong_sign(V):
    return V * (2.0 * np.eye(V.shape[1]) - 1.0)


def test_every_likelihood_of_several_latents_is_here():
    others = {"Likelihood", "Survival", "ConstantLatent", "Inflated", "Hurdle", "ScipyLikelihood"}
    others |= {"Softmax", "Ordinal", "Rounded"}  # Classes have no order, or there is one latent.
    others |= {"BetaBinomial"}  # It needs trials.
    made = {name: getattr(L, name)() for name in set(L.__all__) - others}
    several = {name for name, likelihood in made.items() if len(likelihood.latents) > 1}
    assert several <= set(SEVERAL)


# ---- one law from another -----------------------------------------------------------------------


SIZE = 20_000
QUANTILES = np.array([0.1, 0.35, 0.6, 0.9])


def excess(p, draws):
    """How many standard errors the share of draws up to some y is away from the cdf there."""
    y = np.quantile(draws, QUANTILES, axis=1).T
    expected = p.cdf(y)
    below = (draws[:, :, None] <= y[:, None]).mean(axis=1)
    error = np.sqrt(expected * (1.0 - expected) / draws.shape[1]) + 1e-9
    return np.abs(below - expected) / error


@pytest.mark.parametrize("name", SEVERAL)
def test_draws_have_the_cdf_and_the_moments(name):
    """To five standard errors of 20,000 draws of each row: the PIT of draws is uniform."""
    p = rows(name)
    draws = p.sample(SIZE, rng=3)
    assert excess(p, draws).max() < 5.0
    if name in HEAVY:
        return
    error = draws.std(axis=1) / np.sqrt(SIZE)
    assert (np.abs(draws.mean(axis=1) - p.mean[:, 0]) < 5.0 * error).all()
    square = (draws - draws.mean(axis=1, keepdims=True)) ** 2
    error = square.std(axis=1) / np.sqrt(SIZE)
    assert (np.abs(square.mean(axis=1) - p.variance[:, 0]) < 5.0 * error).all()


@pytest.mark.parametrize("name", ["HetGaussian", "Beta", "WeibullSurvival"])
def test_draws_under_another_correlation_are_seen(name):
    means, V = moments(2, rhos=(0.9, -0.9))
    draws = Predictive(SEVERAL[name], means, V).sample(4 * SIZE, rng=3)
    for mutant in (np.diagonal(V, axis1=1, axis2=2), wrong_sign(V)):
        assert excess(Predictive(SEVERAL[name], means, mutant), draws).max() > 7.0


@pytest.mark.parametrize("name", ["HetStudentT", "SignalNoiseGaussian", "Beta", "HetGamma"])
def test_the_density_integrates_to_the_cdf(name):
    p = rows(name)
    low, high = p.ppf([0.2, 0.7]).T[:, :, None]
    x, w = np.polynomial.legendre.leggauss(24)
    mass = 0.5 * (high - low) * p.pdf(0.5 * (low + high + (high - low) * x)) @ w[:, None]
    np.testing.assert_allclose(mass, 0.5, atol=1e-6)


@pytest.mark.parametrize("name", SURVIVAL)
def test_survival_curves_follow_from_each_other(name):
    p, t, h = rows(name), np.array([0.2, 0.8, 2.0]), 1e-4
    np.testing.assert_allclose(p.sf(t), 1.0 - p.cdf(t), atol=1e-7)
    slope = -(np.log(p.sf(t + h)) - np.log(p.sf(t - h))) / (2.0 * h)
    np.testing.assert_allclose(p.hazard(t), slope, rtol=1e-4)
    np.testing.assert_allclose(p.cumulative_hazard(t), -np.log(p.sf(t)), atol=1e-12)
    draws = p.sample(SIZE, rng=7)
    capped = np.minimum(draws, 1.5)
    error = capped.std(axis=1) / np.sqrt(draws.shape[1])
    assert (np.abs(capped.mean(axis=1) - p.restricted_mean(1.5)[:, 0]) < 5.0 * error).all()
    middle = p.median()
    np.testing.assert_allclose(p.sf(middle)[middle > 0.0], 0.5, atol=1e-7)  # At 0 may be an atom.


@pytest.mark.parametrize("name", SURVIVAL)
def test_bands_of_curves_are_percentiles_over_q(name):
    """40,000 draws of the latents: an error of 0.0011 of a share of 5 %."""
    likelihood = SEVERAL[name]
    means, V = moments(len(likelihood.latents))
    p, f = Predictive(likelihood, means, V), latent_draws(means, V, 40_000)
    curves = {
        "sf": lambda t: np.exp(likelihood.log_survival(t, *f)),
        "hazard": lambda t: np.exp(likelihood.log_density(t, *f) - likelihood.log_survival(t, *f)),
        "cumulative_hazard": lambda t: -likelihood.log_survival(t, *f),
    }
    for curve, at in curves.items():
        _, lower, upper = getattr(p, curve)(np.array([0.8]), bands=(5, 95))
        for end, share in ((lower, 0.05), (upper, 0.95)):
            np.testing.assert_allclose((at(0.8) < end[:, 0]).mean(axis=0), share, atol=0.007)


class Sum(L.Likelihood):
    """Exponential with mean Σ e^f: its moments are closed under any Gaussian q."""

    support = "positive"

    def __init__(self, count):
        self.latents = tuple("abcd"[:count])
        super().__init__()

    def log_density(self, y, *f):
        mean = self.conditional_mean(*f)
        return -y / mean - np.log(mean)

    def conditional_mean(self, *f):
        return sum(np.exp(part) for part in f)

    def conditional_variance(self, *f):
        return self.conditional_mean(*f) ** 2


@pytest.mark.filterwarnings("ignore:.*uncertain.*:chainedgp.errors.MomentWarning")
@pytest.mark.parametrize(("b", "tol"), [(2, 1e-7), (3, 1e-7), (4, 5e-3)])
@pytest.mark.parametrize("rho", [0.9, -0.9])
def test_moments_have_their_closed_values(b, tol, rho):
    """E e^{f_j} e^{f_k} = exp(m_j + m_k + ½ (V_jj + V_kk) + V_jk)."""
    means, V = moments(b, rhos=(rho, rho))
    V[1] *= 3.0  # most of a second moment lies far out
    p, v = Predictive(Sum(b), means, V), np.diagonal(V, axis1=1, axis2=2)
    first = np.exp(means + 0.5 * v)
    squares = np.einsum("nj,nk,njk->n", first, first, np.exp(V))
    np.testing.assert_allclose(p.mean[:, 0], first.sum(axis=1), rtol=tol)
    np.testing.assert_allclose(p.noise_variance[:, 0], squares, rtol=tol)
    expected = squares - first.sum(axis=1) ** 2
    np.testing.assert_allclose(p.latent_variance[:, 0], expected, rtol=4.0 * tol)
    lost = Predictive(Sum(b), means, v)  # the mutant: c = 0
    assert (np.abs(lost.latent_variance[:, 0] / expected - 1.0) > 0.1).all()


# ---- how rows were seen ------------------------------------------------------------------------


def test_what_was_seen_of_a_row():
    """Right-, left- and interval-censored rows, and rows after an entry, on a dense grid."""
    likelihood, (m, V) = L.WeibullSurvival(), moments(2, rhos=(0.9,))
    f, g = m[0][:, None] + np.sqrt(np.diag(V[0]))[:, None] * np.linspace(-6.5, 6.5, 301)
    q = stats.multivariate_normal(m[0], V[0]).pdf(np.dstack(np.meshgrid(f, g, indexing="ij")))
    at_nodes = stats.weibull_min(np.exp(g), scale=np.exp(f)[:, None])

    def under_q(function):
        return np.sum(q * function(at_nodes)) / q.sum()

    t = 0.8
    cases = [
        ({"censored": 1.0}, lambda at: at.sf(t)),
        ({"censored": -1.0}, lambda at: at.cdf(t)),
        ({"censored": 2.0, "y_upper": 1.4}, lambda at: at.cdf(1.4) - at.cdf(t)),
        ({"entry": 0.5}, lambda at: at.pdf(t) / at.sf(0.5)),
        ({"entry": 0.5, "censored": 1.0}, lambda at: at.sf(t) / at.sf(0.5)),
    ]
    for metadata, function in cases:
        p = Predictive(likelihood, m, V, {k: np.array([v]) for k, v in metadata.items()})
        assert p.pdf(t)[0, 0] == pytest.approx(under_q(function), rel=2e-5), metadata
    after = Predictive(likelihood, m, V, {"entry": np.array([0.5])})
    expected = under_q(lambda at: (at.cdf(t) - at.cdf(0.5)) / at.sf(0.5))
    assert ObservedLaw(after).cdf(np.array([t]))[0, 0] == pytest.approx(expected, abs=1e-6)
    assert pit_ends(after, np.array([t]))[0][0] == pytest.approx(expected, abs=1e-6)
    lost = Predictive(likelihood, m, np.diagonal(V, axis1=1, axis2=2), {"censored": np.ones(1)})
    assert abs(lost.pdf(t)[0, 0] / under_q(cases[0][1]) - 1.0) > 1e-3  # the mutant: c = 0


# ---- functions of the latents --------------------------------------------------------------------

LEVELS = (5.0, 50.0, 95.0)


def test_bands_of_functions_of_the_latents():
    """log-odds f − g and log of the product f + g are normal; a total is compared with draws."""
    means, V = moments(2, rhos=(0.95, -0.95, 0.999))
    p, z = Predictive(L.Beta(), means, V), stats.norm.ppf(np.array(LEVELS) / 100.0)
    table = p.parameters(
        LEVELS,
        {
            "mean": lambda f, g: expit(f - g),
            "product": lambda f, g: np.exp(f + g),
            "precision": lambda f, g: np.exp(f) + np.exp(g),
            "alpha": lambda f, g: np.exp(f),
        },
    )
    total = V[:, 0, 0] + V[:, 1, 1]
    for name, sign, link in (("mean", -1, expit), ("product", 1, np.exp)):
        centre, sd = means[:, 0] + sign * means[:, 1], np.sqrt(total + sign * 2.0 * V[:, 0, 1])
        back = {expit: lambda v: np.log(v / (1.0 - v)), np.exp: np.log}[link](table[name])
        share = stats.norm.cdf((back - centre[:, None]) / sd[:, None])
        np.testing.assert_allclose(share, np.tile(np.array(LEVELS) / 100, (3, 1)), atol=0.004)
        mutant = stats.norm.cdf((back - centre[:, None]) / np.sqrt(total)[:, None])
        assert np.abs(mutant[:, [0, 2]] - [0.05, 0.95]).max() > 0.03
    exact = np.exp(means[:, :1] + np.sqrt(V[:, 0, :1]) * z)  # what depends on one latent
    np.testing.assert_allclose(table["alpha"], exact, rtol=1e-12)
    np.testing.assert_allclose(p.parameters(LEVELS)["alpha"], exact, rtol=1e-12)
    draws = np.exp(latent_draws(means, V, 100_000)).sum(axis=0)  # (size, n)
    for k, level in enumerate(LEVELS):
        share = (draws < table["precision"][:, k]).mean(axis=0)
        np.testing.assert_allclose(share, level / 100.0, atol=0.005)


def test_bands_of_monotone_maps_are_maps_of_bands():
    means, V = moments(2)
    p = Predictive(L.AdditivePoisson(), means, V)
    table = p.parameters(LEVELS, {"log": lambda f, g: np.logaddexp(f, g)})
    np.testing.assert_allclose(np.exp(table["log"]), p.parameters(LEVELS)["rate"], rtol=2e-4)


def test_functions_that_are_none_are_refused():
    with pytest.raises(InputError, match="functions must be a dict of functions of the latents"):
        rows("Beta").parameters(LEVELS, {"mean": 1.0})


# ---- the two kinds of q --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEVERAL)
def test_without_covariances_the_mean_field_is_left(name):
    """Bit for bit; and to the accuracy of a lattice if one row alone is correlated."""
    means, V = moments(len(SEVERAL[name].latents), rhos=(0.0, 0.5))
    mean_field = Predictive(SEVERAL[name], means[:1], np.diagonal(V[:1], axis1=1, axis2=2))
    alone, both = Predictive(SEVERAL[name], means[:1], V[:1]), Predictive(SEVERAL[name], means, V)
    y = mean_field.ppf([0.1, 0.8])
    np.testing.assert_array_equal(alone.ppf([0.1, 0.8]), y)
    for method in ("logpdf", "cdf"):
        value = getattr(mean_field, method)(y[0])
        np.testing.assert_array_equal(getattr(alone, method)(y[0]), value)
        np.testing.assert_allclose(getattr(both, method)(y[0])[:1], value, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(alone.sample(5, rng=0), mean_field.sample(5, rng=0))


@pytest.mark.parametrize("name", ["HetGaussian", "HetStudentT", "Beta", "ZeroInflatedPoisson"])
def test_latents_that_are_one_and_the_same(name):
    """|ρ| = 1, and a variance of 0: one dimension is left, which brute force sums."""
    likelihood = SEVERAL[name]
    for direction in (np.array([0.5, 0.3]), np.array([0.5, -0.3]), np.array([0.0, 0.4])):
        means = np.array([[0.3, -0.2]])
        p = Predictive(likelihood, means, np.outer(direction, direction)[None])
        z = np.linspace(-8.0, 8.0, 4001)
        w = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
        f = means.T + np.outer(direction, z)
        y = np.array([1.0, 3.0]) if likelihood.support == "counts" else np.array([0.2, 0.7])
        kw = likelihood.parameter_values()
        found = [w @ np.exp(likelihood.log_density(t, *f, **kw)) for t in y]
        np.testing.assert_allclose(p.pdf(y)[0], found, rtol=1e-5)


def test_what_is_normal_in_the_first_latent_is_integrated_exactly():
    """One dimension is left of HetGaussian and two of HetStudentT, whatever the correlation."""
    means, V = moments(2)
    kinds = {
        "HetGaussian": (mixtures.CorrelatedScale, 1),
        "HetStudentT": (mixtures.CorrelatedScale, 2),
        "Beta": (mixtures.GaussianLatents, 2),
    }
    for name, (kind, dim) in kinds.items():
        mixture = Predictive(SEVERAL[name], means, V)._mixture
        assert type(mixture) is kind and mixture.dim == dim
    mixture = rows("SignalNoiseGaussian")._mixture
    assert type(mixture) is mixtures.NormalInFirst and mixture.dim == 2


def test_an_outlier_moves_the_window():
    """y = 300: g is far out in q, and takes f with it."""
    m, V, y = np.zeros((1, 2)), np.array([[[0.5, 0.1], [0.1, 0.04]]]), 300.0
    g = np.linspace(-2.0, 14.0, 64001)
    shifted, left = 0.1 / 0.04 * g, 0.5 - 0.1**2 / 0.04
    terms = stats.norm.logpdf(y, shifted, np.sqrt(left + np.exp(g))) + stats.norm.logpdf(g, 0, 0.2)
    expected = terms.max() + np.log(np.exp(terms - terms.max()).sum() * (g[1] - g[0]))
    assert Predictive(L.HetGaussian(), m, V).logpdf(y)[0, 0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("V", "words"),
    [
        (np.ones((3, 2, 3)), r"covariances \(n, 2, 2\)"),
        (np.array([[[1.0, 0.5], [0.4, 1.0]]] * 3), "symmetric.*3 of 3 rows are not"),
        (np.array([[[1.0, 1.5], [1.5, 1.0]]] * 3), "correlations from −1 to 1"),
        (-np.ones((3, 2, 2)), "negative"),
        (np.full((3, 2, 2), np.nan), "finite"),
    ],
)
def test_covariances_that_are_none_are_refused(V, words):
    with pytest.raises(InputError, match=words):
        Predictive(L.HetGaussian(), np.zeros((3, 2)), V)
