"""What a target may be: declarations, checks, maps of the line, and an interval through everything.

Oracles: scipy.stats, closed forms of the von Mises distribution.
"""

import pickle

import matplotlib
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import i0e

import chainedgp as cgp
import chainedgp.likelihoods as liks
from chainedgp.errors import InputError
from chainedgp.likelihoods import Likelihood, from_density
from chainedgp.likelihoods.support import NAMED, Continuum, Support, as_support
from chainedgp.testing import check_likelihood
from chainedgp.testing.report import ContractError

matplotlib.use("Agg")


class Directions(Likelihood):
    """The von Mises distribution of an angle around f, with concentration e^g."""

    latents = ("direction", "log_concentration")
    support = (-np.pi, np.pi)

    def log_density(self, y, f, g):
        k = np.exp(np.clip(g, -700.0, 700.0))
        return k * (np.cos(y - f) - 1.0) - np.log(2.0 * np.pi * i0e(k))


class Moved(Directions):
    """The same angles, counted from 0 to 2π."""

    support = Support.interval(0.0, 2.0 * np.pi)


SUPPORTS = [*NAMED.values(), as_support("categories", 4, ""), Support.interval(-2.0, 5.0)]


@pytest.mark.parametrize("support", SUPPORTS, ids=lambda s: s.words)
def test_examples_are_targets_and_ends_are_ends(support):
    y = support.examples(np.random.default_rng(0).standard_normal(200))
    support.check(y, "It")
    low, high = support.ends
    assert y.min() >= low and y.max() <= high
    assert support.continuous == isinstance(support, Continuum) == (support.step == 0.0)
    assert not support.continuous or support.size is None
    assert support.size is None or set(y) == set(range(support.size))
    assert support.holds(np.array([support.interior])).all()
    below, above = support.outside(np.array([-np.inf, low, support.interior, high, np.inf]))
    ends = np.isinf(support.ends)
    assert below.tolist() == [True, ends[0], False, False, False]
    assert above.tolist() == [False, False, False, ends[1], True]
    assert pickle.loads(pickle.dumps(support)) == support
    with pytest.raises(AttributeError):  # it does not change
        support.words = "anything"


@pytest.mark.parametrize("support", [s for s in SUPPORTS if s.continuous], ids=lambda s: s.words)
def test_a_continuum_is_the_image_of_the_line(support):
    u = np.linspace(-5.0, 5.0, 21)
    y = support.to_y(u)
    np.testing.assert_allclose(support.from_y(y), u, rtol=1e-9, atol=1e-9)
    slope = (support.to_y(u + 1e-4) - support.to_y(u - 1e-4)) / 2e-4
    np.testing.assert_allclose(np.exp(support.log_slope(u)), slope, rtol=1e-7)
    far = support.to_y(np.array([support.low, support.high]))
    assert (far > support.ends[0]).all() and (far < support.ends[1]).all()


def test_a_declaration_is_a_name_an_interval_or_an_object():
    assert liks.HetGamma.support == liks.HetGamma().support == "positive"
    assert liks.HetGamma().target_support is NAMED["positive"]
    assert liks.Softmax(3).target_support.size == 3 and not liks.Softmax(3).target_support.ordered
    assert liks.Bernoulli().target_support.size == 2 and liks.Poisson().target_support.size is None
    assert Directions().support == (-np.pi, np.pi)
    assert Directions().target_support == Support.interval(-np.pi, np.pi)
    assert Moved().target_support.ends == (0.0, 2.0 * np.pi)
    assert Directions().with_constant("log_concentration").support == (-np.pi, np.pi)


@pytest.mark.parametrize("wrong", ["angles", ("a", "b", "c"), None, 3.0])
def test_a_declaration_that_means_nothing_is_told(wrong):
    class Wrong(Directions):
        support = wrong

    with pytest.raises(InputError, match=r"Wrong.support is .*: use one of real, positive, unit"):
        Wrong().check_targets(np.zeros(3))


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, -2.0), (0.0, np.inf), (np.nan, 1.0)])
def test_an_interval_needs_two_finite_ends(ends):
    with pytest.raises(InputError, match="two finite ends, low < high"):
        Support.interval(*ends)


def test_targets_outside_an_interval_are_told():
    Directions().check_targets(np.array([-np.pi, 0.0, np.pi]))  # both ends are angles
    with pytest.raises(InputError, match=r"Directions needs targets that are between -3.14159 and"):
        Directions().check_targets(np.array([0.0, 3.2]))
    with pytest.raises(InputError, match=r"2 of 3 are not, the first is Y\[0\] = nan"):
        Directions().check_targets(np.array([np.nan, 1.0, -4.0]))
    with pytest.raises(InputError, match=r"between -3\.14159 and 3\.14159"):
        cgp.ChainedGP(np.arange(3.0), np.array([1.0, 2.0, 4.0]), Directions(), num_inducing=2)


@pytest.mark.parametrize(
    "likelihood",
    [
        Directions(),
        pytest.param(Moved(), marks=pytest.mark.long),
        pytest.param(liks.Inflated(Directions(), at=(0.0,)), marks=pytest.mark.long),
    ],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_an_angle_satisfies_the_contract(likelihood):
    check_likelihood(likelihood)


def test_a_density_of_all_angles_on_half_of_them_is_refused():
    class Half(Directions):  # the density of all angles, on half of them
        support = (0.0, np.pi)

    with pytest.raises(ContractError, match=r"integrates to .*, not 1, over the support \(0.0, 3"):
        check_likelihood(Half())


@pytest.mark.parametrize("concentration", [0.1, 1.0, 50.0, 1000.0])
@pytest.mark.parametrize("f", [0.3, -2.0, 3.1, np.pi, 9.0])
def test_tables_of_an_angle_are_exact_where_it_wraps_too(f, concentration):
    table = from_density.tabulate(Directions(), (np.array(f), np.log(concentration)), {})
    np.testing.assert_allclose(table.total, 1.0, rtol=1e-8)
    law = stats.vonmises(concentration)
    y = np.array([-3.1, -1.0, 0.5, 3.0])
    want = [quad(lambda t: law.pdf(t - f), -np.pi, end, limit=200, points=[f])[0] for end in y]
    np.testing.assert_allclose(table.cdf(y), want, atol=1e-7)
    q = np.array([0.01, 0.4, 0.9])
    np.testing.assert_allclose(table.cdf(table.ppf(q)), q, atol=1e-8)
    assert table.cdf(np.array(np.pi)) == pytest.approx(1.0) and table.cdf(np.array(-np.pi)) == 0.0
    assert table.ppf(np.array([0.0, 1.0])).tolist() == [-np.pi, np.pi]
    mean, variance = table.moments()
    assert -np.pi < mean < np.pi and 0.0 < variance < np.pi**2


def test_a_model_of_angles():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, 40)
    y = np.angle(np.exp(1j * (2.0 * np.sin(6.0 * x) + 0.3 * rng.normal(size=40))))
    m = cgp.ChainedGP(x, y, Directions(), num_inducing=6)
    m.optimize()
    predictive = m.predictive(x[::15])
    levels = np.array([0.05, 0.5, 0.95])
    quantiles = predictive.ppf(levels)
    assert (np.abs(quantiles) < np.pi).all()
    np.testing.assert_allclose(predictive.cdf(quantiles), np.tile(levels, (3, 1)), atol=1e-6)
    assert predictive.cdf([-4.0, 4.0]).tolist() == [[0.0, 1.0]] * 3
    assert np.isneginf(predictive.logpdf([-4.0, 4.0])).all()
    z, w = np.polynomial.legendre.leggauss(200)
    density = predictive.pdf(np.pi * z)
    np.testing.assert_allclose(np.pi * density @ w, 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.pi * density @ (w * np.pi * z), predictive.mean[:, 0], atol=1e-4)
    draws = predictive.sample(50, rng=0)
    assert (np.abs(draws) <= np.pi).all()
    pad = 0.04 * np.pi
    np.testing.assert_allclose(m.plot(num=20).get_ylim(), (-np.pi - pad, np.pi + pad))
    np.testing.assert_allclose(m.plot_density(num=20).get_ylim(), (-np.pi, np.pi))


OUTSIDE = {
    "GeneralisedPareto": (liks.GeneralisedPareto(1.0), [0.0, 0.5, 1.0], {"shape": 0.1}),
    "GeneralisedParetoShape": (liks.GeneralisedParetoShape(), [-2.0, 0.0], {}),
    "BoxCoxNormal": (liks.BoxCoxNormal(), [-1.0, 0.0], {"power": 0.5}),
    "BoxCoxT": (liks.BoxCoxT(), [-1.0, 0.0], {"power": -0.5, "nu": 5.0}),
    "Tweedie": (liks.Tweedie(), [-1.0, -1e-9], {"power": 1.5}),
    "Poisson": (liks.Poisson(), [-1.0, -3.0], {}),
    "NegativeBinomial": (liks.NegativeBinomial(), [-1.0, -3.0], {}),
    "ZeroInflatedNegativeBinomial": (liks.ZeroInflatedNegativeBinomial(), [-1.0, -3.0], {}),
    "Binomial": (liks.Binomial(), [-1.0, 11.0], {"trials": 10.0}),
    "BetaBinomial": (liks.BetaBinomial(), [-1.0, -3.0, 11.0], {"trials": 10.0}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_there_is_no_density_outside_the_support(name):
    lik, y, kw = OUTSIDE[name]
    latents = [np.array(0.3)] * len(lik.latents)
    assert np.all(np.isneginf(lik.log_density(np.array(y), *latents, **kw)))
    inside = lik.log_density(np.array([2.0]), *latents, **kw)
    assert inside.shape == (1,) and np.all(np.isfinite(inside))
