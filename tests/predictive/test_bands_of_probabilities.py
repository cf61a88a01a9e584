"""Bands of exceedance probabilities: percentiles over q(f) of P(Y > y | f), of all likelihoods."""

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.errors import InputError, MomentWarning
from chainedgp.predictive import Predictive
from chainedgp.predictive.averages import AveragedPredictive

rng = np.random.default_rng(0)
DRAWS = 40_000


def of_draws(p, y, conditional):
    """Percentiles of a conditional cdf from plain draws of the latents of row 1."""
    m, v = p._means[1], p._variances[1]
    latents = m[:, None] + np.sqrt(v)[:, None] * rng.standard_normal((len(m), DRAWS))
    return np.quantile(conditional(y, *latents), [0.05, 0.95])


CASES = {
    "one latent": (L.Poisson(), 2.0, lambda y, f: stats.poisson.cdf(y, np.exp(f))),
    "counts of an exposure": (
        L.Poisson(),
        5.0,
        lambda y, f: stats.poisson.cdf(y, 3.0 * np.exp(f)),
    ),
    "two latents": (L.HetGaussian(), 0.4, lambda y, f, g: stats.norm.cdf(y, f, np.exp(g / 2))),
    "positive": (L.LogNormalSurvival(), 1.2, None),
}


@pytest.mark.parametrize("case", CASES)
def test_bands_are_percentiles_over_q(case):
    likelihood, y, conditional = CASES[case]
    b = len(likelihood.latents)
    metadata = {"exposure": np.full(2, 3.0)} if "exposure" in case else {}
    p = Predictive(likelihood, rng.normal(size=(2, b)), np.full((2, b), 0.09), metadata)
    value, lower, upper = p.cdf([y, 2.0 * y], bands=(5, 95))
    np.testing.assert_array_equal(value, p.cdf([y, 2.0 * y]))
    assert (
        lower.shape == upper.shape == (2, 2) and (lower <= value).all() and (value <= upper).all()
    )
    if conditional is not None:
        ends = of_draws(p, y, conditional)
        np.testing.assert_allclose([lower[1, 0], upper[1, 0]], ends, atol=0.01)
    above, low, high = p.sf([y, 2.0 * y], bands=(5, 95))
    for one, other in ((above, value), (low, upper), (high, lower)):
        np.testing.assert_allclose(one, 1.0 - other, atol=2e-3)  # Event times have draws instead.


def test_counts_have_steps_and_supports_have_ends():
    p = Predictive(L.Poisson(), np.zeros((3, 1)), np.full((3, 1), 0.1))
    at_2, between = p.cdf([2.0], bands=(5, 95)), p.cdf([2.7], bands=(5, 95))
    np.testing.assert_array_equal(at_2, between)
    np.testing.assert_array_equal(p.cdf([-1.0], bands=(5, 95)), np.zeros((3, 3, 1)))
    own = p.sf(np.array([[0.0], [1.0], [5.0]]), bands=(5, 95))  # a value for each row
    assert (np.diff(own[1][:, 0]) < 0).all()
    shares = Predictive(L.BetaMeanPrecision(), np.zeros((1, 2)), np.ones((1, 2)))
    np.testing.assert_array_equal(shares.cdf([-0.5, 1.5], bands=(5, 95))[1:], [[[0, 1]], [[0, 1]]])


class ByDensity(L.Likelihood):
    """A normal target that is known by its density alone."""

    latents = ("mean",)

    def log_density(self, y, f):
        return stats.norm.logpdf(y, f)


def test_a_density_alone_has_bands():
    p = Predictive(ByDensity(), np.zeros((2, 1)), np.full((2, 1), 0.25))
    _, lower, upper = p.cdf([0.3], bands=(5, 95))
    f = 0.5 * stats.norm.ppf([0.95, 0.05])
    np.testing.assert_allclose([lower[0, 0], upper[0, 0]], stats.norm.cdf(0.3, f), atol=1e-5)


def test_an_average_pools_the_bands_of_its_parts():
    far, near = np.full((2, 1), 1.0), np.full((2, 1), 0.2)
    parts = [Predictive(L.Poisson(), m, np.full((2, 1), 0.01)) for m in (far, near)]
    both = AveragedPredictive(L.Poisson(), parts, np.array([0.5, 0.5]))
    value, lower, upper = both.sf([2.0], bands=(5, 95))
    np.testing.assert_allclose(value, 0.5 * (parts[0].sf([2.0]) + parts[1].sf([2.0])))
    f = np.concatenate([0.1 * rng.standard_normal(DRAWS) + m for m in (1.0, 0.2)])
    ends = np.quantile(stats.poisson.sf(2.0, np.exp(f)), [0.05, 0.95])
    np.testing.assert_allclose([lower[0, 0], upper[0, 0]], ends, atol=0.01)
    alike = AveragedPredictive(L.Poisson(), [parts[0]], np.array([1.0]))
    one = parts[0].sf([2.0], bands=(5, 95))
    np.testing.assert_allclose(alike.sf([2.0], bands=(5, 95)), one, atol=2e-3)


def test_models_give_them_and_bands_are_two_percentages():
    X = np.linspace(0.0, 1.0, 20)[:, None]
    m = cgp.ChainedGP(X, np.arange(20) % 4, L.NegativeBinomial(), num_inducing=4)
    m.optimize(only="variational", messages=False)
    value, lower, upper = m.predictive(X[:3]).sf([1.0, 3.0], bands=(5, 95))
    assert value.shape == (3, 2) and (lower < value).all() and (value < upper).all()
    for bands in ((95, 5), (5,), (5, 50, 95)):
        with pytest.raises(InputError, match="bands must be two percentages"):
            m.predictive(X[:3]).cdf([1.0], bands=bands)


def test_an_average_has_no_moments_where_a_part_has_none():
    """Infinite moments of parts: one warning, of the rows of the average, and no nan."""
    at, half = (np.zeros((2, 2)), np.full((2, 2), 0.1)), np.array([0.5, 0.5])
    parts = [Predictive(L.HetStudentT(nu=nu), *at) for nu in (5.0, 1.5)]
    average = AveragedPredictive(L.HetStudentT(), parts, half)
    with pytest.warns(MomentWarning, match="Of 2 predictive .* 2 have no variance") as told:
        assert np.isposinf(average.variance).all() and (average.mean == 0.0).all()
    assert len(told) == 1
    np.testing.assert_allclose(average.latent_variance, 0.1)
    endless = AveragedPredictive(
        L.LogLogisticSurvival(), [Predictive(L.LogLogisticSurvival(), *at)] * 2, half
    )
    with pytest.warns(MomentWarning, match="2 have no mean and 2 have no variance") as told:
        assert np.isposinf([endless.mean, endless.variance, endless.latent_variance]).all()
    assert len(told) == 1
