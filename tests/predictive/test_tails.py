"""Small probabilities P(Y > y): those of scipy.stats, and integrals over latents on fine grids."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from chainedgp import likelihoods as L
from chainedgp.predictive.averages import AveragedPredictive
from chainedgp.predictive.distribution import Predictive

LEVELS = np.array([1e-2, 1e-5, 1e-9, 1e-14, 1e-30, 1e-80])
KNOWN = [  # a likelihood, latents, and their distribution of scipy.stats
    (L.Gaussian(), [0.4], lambda v: stats.norm(0.4, np.sqrt(v["variance"]))),
    (L.HetGaussian(), [0.4, 0.6], lambda v: stats.norm(0.4, np.exp(0.3))),
    (L.HetStudentT(), [0.4, 0.6], lambda v: stats.t(v["nu"], 0.4, np.exp(0.3))),
    (L.HetStudentTNu(), [0.4, 0.6, 1.5], lambda v: stats.t(np.exp(1.5), 0.4, np.exp(0.3))),
    (L.HetLaplace(), [0.4, 0.6], lambda v: stats.laplace(0.4, np.exp(0.6))),
    (L.HetGamma(), [0.4, 0.6], lambda v: stats.gamma(np.exp(0.6), 0, np.exp(-0.2))),
    (L.Poisson(), [1.4], lambda v: stats.poisson(np.exp(1.4))),
    (L.AdditivePoisson(), [0.4, 0.6], lambda v: stats.poisson(np.exp(0.4) + np.exp(0.6))),
    (L.GEV(), [0.4, 0.6], lambda v: stats.genextreme(-v["shape"], 0.4, np.exp(0.6))),
    (L.WeibullSurvival(), [0.4, 0.6], lambda v: stats.weibull_min(np.exp(0.6), 0, np.exp(0.4))),
    (L.LogNormalSurvival(), [0.4, 0.6], lambda v: stats.lognorm(np.exp(0.6), 0, np.exp(0.4))),
]


def narrow(likelihood, latents, metadata=None):
    """A predictive distribution of one row whose latents are all but known."""
    V = np.full((1, len(latents)), 1e-18)
    return Predictive(likelihood, np.array([latents]), V, metadata)


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: type(case[0]).__name__)
def test_tails_are_those_of_scipy(case):
    likelihood, latents, known = case
    law = known(likelihood.parameter_values())
    y = np.unique(law.isf(LEVELS))
    y = y[np.isfinite(y)]
    p = narrow(likelihood, latents)
    np.testing.assert_allclose(p.logsf(y)[0], law.logsf(y), rtol=1e-6)
    np.testing.assert_allclose(p.sf(y)[0], law.sf(y), rtol=1e-5)


def test_the_tail_of_a_sum_of_amounts_is_that_of_its_terms():
    """Tweedie: P(Y > y) = Σ_j Poisson(j; λ) P(jα amounts > y)."""
    lik, f, g, power, exposure = L.Tweedie(), 0.4, -0.3, 1.4, 2.0
    lik.power = power
    m, phi = exposure * np.exp(f), exposure ** (1.0 - power) * np.exp(g)
    rate, alpha = m ** (2 - power) / (phi * (2 - power)), (2 - power) / (power - 1)
    scale, j = phi * (power - 1) * m ** (power - 1), np.arange(1, 400)
    y = np.array([4.0, 15.0, 40.0, 90.0])
    terms = [stats.poisson.logpmf(j, rate) + stats.gamma.logsf(t, j * alpha, 0, scale) for t in y]
    want = logsumexp(terms, axis=1)
    assert want[-1] < -80.0
    p = narrow(lik, [f, g], {"exposure": np.full(1, exposure)})
    np.testing.assert_allclose(p.logsf(y)[0], want, rtol=1e-6)
    many = np.full(40, y[1]), np.full(40, f), np.full(40, g)  # These are interpolated.
    found = lik.log_tails(*many, power=power, exposure=exposure)[1]
    np.testing.assert_allclose(found, want[1], rtol=1e-8)


def over_latents(likelihood, means, sds, y):
    """log P(Y > y) by a fine grid over two independent latents."""
    z = np.linspace(-13.0, 13.0, 261)
    log_w = stats.norm.logpdf(z) + np.log(z[1] - z[0])
    f, g = means[0] + sds[0] * z[:, None], means[1] + sds[1] * z
    return logsumexp(likelihood.log_tails(np.array(y), f, g)[1] + log_w[:, None] + log_w)


@pytest.mark.parametrize("likelihood", [L.HetGamma(), L.NegativeBinomial(), L.HetGaussian()])
def test_tails_of_a_wide_posterior_are_integrals(likelihood):
    """Far targets come from far latents, so that the window over the latents has to reach them."""
    means, sds = [0.3, -0.3], [0.5, 0.4]
    p = Predictive(likelihood, np.array([means]), np.array([sds]) ** 2)
    y = p.ppf([0.5, 1.0 - 1e-6])[0]
    y = np.ceil([y[1], y[1] + 2.0 * (y[1] - y[0])])
    want = [over_latents(likelihood, means, sds, t) for t in y]
    assert max(want) < -12.0
    np.testing.assert_allclose(p.logsf(y)[0], want, rtol=0.0, atol=2e-4)


def test_tails_of_gaussian_latents_are_gaussian():
    """A normal y with f ~ N(m, v) is normal, also forty standard deviations out."""
    p = Predictive(L.HetGaussian(), np.array([[1.0, 0.2]]), np.array([[0.7, 1e-18]]))
    y = 1.0 + np.array([3.0, 8.0, 40.0])
    law = stats.norm(1.0, np.sqrt(0.7 + np.exp(0.2)))
    np.testing.assert_allclose(p.logsf(y)[0], law.logsf(y), rtol=1e-8)
    own, lower, upper = p.sf(y, bands=(5, 95))
    known = [stats.norm.sf(y, 1.0 + z * np.sqrt(0.7), np.exp(0.1)) for z in (-1.645, 1.645)]
    assert lower[0, 0] < own[0, 0] < upper[0, 0]
    np.testing.assert_allclose(np.log([lower[0, :2], upper[0, :2]]), np.log(known)[:, :2], atol=0.3)


def test_tails_of_atoms_rounding_and_averages():
    base, V = np.array([[0.4, 0.6]]), np.full((1, 2), 1e-18)
    half = Predictive(L.Hurdle(L.HetGamma()), np.c_[base, 0.0], np.c_[V, 1e-18])
    plain = Predictive(L.HetGamma(), base, V)
    y = plain.ppf(0.999)[0] * np.array([1.0, 5.0])
    np.testing.assert_allclose(half.logsf(y), np.log(0.5) + plain.logsf(y), rtol=1e-7)
    rounded = Predictive(L.Rounded(L.HetGaussian(), width=0.5), base, V)
    bare = Predictive(L.HetGaussian(), base, V)
    np.testing.assert_allclose(rounded.logsf([12.0]), bare.logsf([12.0]), rtol=1e-9)
    both = AveragedPredictive(L.HetGaussian(), [bare, bare], np.array([0.25, 0.75]))
    np.testing.assert_allclose(both.logsf([2.0, 30.0]), bare.logsf([2.0, 30.0]), rtol=1e-9)
    np.testing.assert_allclose(both.sf([2.0]), bare.sf([2.0]), rtol=1e-9)
    np.testing.assert_allclose(bare.sf(0.7) + bare.cdf(0.7), 1.0, rtol=1e-12)


def test_a_density_alone_has_the_tail_that_its_table_tells():
    class Own(L.Likelihood):
        latents = ("f", "g")

        def log_density(self, y, f, g):
            return stats.norm.logpdf(y, f, np.exp(0.5 * g))

    p = Predictive(Own(), np.array([[0.0, 0.0]]), np.full((1, 2), 1e-4))
    np.testing.assert_allclose(p.sf(2.0) + p.cdf(2.0), 1.0, rtol=1e-12)
    assert abs(p.sf(2.0)[0, 0] - integrate.quad(lambda y: p.pdf(y)[0, 0], 2.0, 9.0)[0]) < 1e-6
