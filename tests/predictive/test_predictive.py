"""The predictive mixture against adaptive integration, samples and its own laws."""

import pickle
import warnings

import numpy as np
import pytest
from cases import small_model
from scipy import integrate, stats
from scipy.special import betaln, expit, gammaln, xlogy
from stacks import Logistic

from chainedgp import likelihoods
from chainedgp.errors import InputError, MomentWarning
from chainedgp.expectations import quadrature
from chainedgp.likelihoods import (
    AdditivePoisson,
    Bernoulli,
    Beta,
    Gaussian,
    HetGaussian,
    HetStudentT,
    Inflated,
    Likelihood,
    LogLogistic,
    LogLogisticSurvival,
    LogNormalSurvival,
    Poisson,
    Softmax,
    StudentT,
    WeibullSurvival,
)
from chainedgp.predictive import Predictive, moments, quantiles, tables
from chainedgp.predictive.mixtures import ScaleMixture
from chainedgp.predictive.nodes import lattice

KAPPAS = (1e-4, 1e-2, 1.0, 1e2, 1e3)
LEVELS = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1.0 - 1e-6])


def brute(noise, y, scale):
    """∫ noise((y − f)/scale)/scale N(f; 0, 1) df by brute force: 20,001 nodes where it matters.

    Over f where the noise is wide, else over e = y − f = scale · sinh(x), which resolves its peak.
    """
    x = np.linspace(-1.0, 1.0, 20_001)
    if scale > 1.0:
        f = 9.0 * x
        return 9.0 * (x[1] - x[0]) * (noise((y - f) / scale) / scale) @ stats.norm.pdf(f)
    reach = np.arcsinh((abs(y) + 9.0) / scale)
    e = np.sinh(reach * x)
    step = reach * (x[1] - x[0]) * np.cosh(reach * x)
    return (step * noise(e)) @ stats.norm.pdf(y - scale * e)


def over_g(function, m_g, v_g):
    """∫ function(g) N(g; m_g, v_g) dg for a function that is smooth once f is integrated."""
    x, w = np.polynomial.hermite_e.hermegauss(24)
    return float(w @ [function(m_g + np.sqrt(v_g) * t) for t in x]) / w.sum()


def normal(y, variance):
    return np.exp(-0.5 * y * y / variance) / np.sqrt(2.0 * np.pi * variance)


def logistic(z):
    return expit(z) * expit(-z)


def one(likelihood, means, variances, **kw):
    return Predictive(likelihood, np.array([means]), np.array([variances]), **kw)


def near_and_far(kappa, width=0.6):
    """Targets in units of the predictive's spread, none on a symmetric spot; v_f = 1."""
    return np.array([-3.1, -0.73, 0.02, 1.4]) * np.hypot(1.0, width / np.sqrt(kappa))


# ---- densities, pointwise ----------------------------------------------------------------------


@pytest.mark.parametrize("kappa", KAPPAS)
def test_gaussian_density_matches_the_exact_mixture(kappa):
    m_g, v_g = -np.log(kappa), 0.3
    y = near_and_far(kappa)
    expected = [over_g(lambda g, t=t: normal(t, 1.0 + np.exp(g)), m_g, v_g) for t in y]
    p = one(HetGaussian(), [0.0, m_g], [1.0, v_g])
    np.testing.assert_allclose(p.pdf(y)[0], expected, rtol=1e-7)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("nu", [1.5, 4.0])
def test_student_density_matches_brute_force(kappa, nu):
    m_g, v_g = -np.log(kappa), 0.3
    y = near_and_far(kappa)
    noise = stats.t(nu).pdf
    expected = [over_g(lambda g, t=t: brute(noise, t, np.exp(0.5 * g)), m_g, v_g) for t in y]
    p = one(HetStudentT(nu=nu), [0.0, m_g], [1.0, v_g])
    np.testing.assert_allclose(p.pdf(y)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_density_of_a_user_likelihood_matches_brute_force(kappa):
    m_g, v_g = -0.5 * np.log(kappa), 0.1
    y = near_and_far(kappa)
    expected = [over_g(lambda g, t=t: brute(logistic, t, np.exp(g)), m_g, v_g) for t in y]
    p = one(Logistic(), [0.0, m_g], [1.0, v_g])
    np.testing.assert_allclose(p.pdf(y)[0], expected, rtol=1e-4)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_log_logistic_density_matches_brute_force(kappa):
    m_g, v_g = 0.5 * np.log(kappa), 0.1  # log T is logistic with scale e^{−g}
    log_t = near_and_far(kappa)
    expected = [over_g(lambda g, t=t: brute(logistic, t, np.exp(-g)), m_g, v_g) for t in log_t]
    p = one(LogLogisticSurvival(), [0.0, m_g], [1.0, v_g])
    np.testing.assert_allclose(p.pdf(np.exp(log_t))[0] * np.exp(log_t), expected, rtol=1e-4)


@pytest.mark.parametrize("size", [-3.0, 0.0, 3.0, 6.0])
def test_beta_density_matches_brute_force(size):
    """Up to shapes of 400: a ridge along f − g, ten times narrower than q."""
    x = np.linspace(-7.5, 7.5, 601)
    q = stats.norm.pdf(x) * (x[1] - x[0])
    alpha, beta = np.exp(size + np.sqrt(0.5) * x)[:, None], np.exp(size - 0.3 + np.sqrt(0.4) * x)
    y = np.array([0.2, 0.55, 0.9])
    log_beta = betaln(alpha, beta)
    expected = [
        q @ np.exp((alpha - 1.0) * np.log(t) + (beta - 1.0) * np.log1p(-t) - log_beta) @ q
        for t in y
    ]
    p = one(Beta(), [size, size - 0.3], [0.5, 0.4])
    np.testing.assert_allclose(p.pdf(y)[0], expected, rtol=1e-4)


@pytest.mark.parametrize("size", [-2.0, 1.0, 5.0])
def test_count_probabilities_match_brute_force(size):
    grid = np.linspace(-7.5, 7.5, 401)

    def pmf(y, rate):
        return np.exp(xlogy(y, rate) - rate - gammaln(y + 1.0))

    q = stats.norm.pdf(grid) * (grid[1] - grid[0])
    for y in (0.0, 3.0, np.round(np.exp(size))):
        rate = np.exp(size + 0.7 * grid)
        expected = q @ pmf(y, rate)
        value = one(Poisson(), [size], [0.49]).pdf(y)[0, 0]
        np.testing.assert_allclose(value, expected, rtol=1e-4)
        other = np.exp(size - 1.0 + 0.5 * grid)
        expected = q @ pmf(y, rate[:, None] + other) @ q
        value = one(AdditivePoisson(), [size, size - 1.0], [0.49, 0.25]).pdf(y)[0, 0]
        np.testing.assert_allclose(value, expected, rtol=1e-4)


def test_bernoulli_matches_adaptive_integration():
    expected = integrate.quad(lambda x: stats.norm.pdf(x) * expit(0.4 + 1.5 * x), -10, 10)[0]
    p = one(Bernoulli(), [0.4], [2.25])
    np.testing.assert_allclose(p.pdf([0.0, 1.0])[0], [1.0 - expected, expected], rtol=1e-8)
    np.testing.assert_allclose(p.mean, expected, rtol=1e-8)
    np.testing.assert_allclose(p.variance, expected * (1.0 - expected), rtol=1e-8)


def test_homoscedastic_gaussian_is_exactly_normal():
    p = Predictive(Gaussian(0.3), np.array([[1.0], [2.0]]), np.array([[0.5], [40.0]]))
    law = stats.norm([[1.0], [2.0]], np.sqrt([[0.8], [40.3]]))
    y = np.linspace(-9.0, 11.0, 17)
    np.testing.assert_allclose(p.logpdf(y), law.logpdf(y), rtol=1e-7)
    np.testing.assert_allclose(p.cdf(y), law.cdf(y), atol=1e-9)
    np.testing.assert_allclose(p.ppf(LEVELS), law.ppf(LEVELS), rtol=1e-7)
    np.testing.assert_allclose(p.mean, law.mean(), rtol=1e-12)
    np.testing.assert_allclose(p.variance, law.var(), rtol=1e-12)


def test_a_fixed_grid_would_be_rejected():
    """The mutant: 20 × 20 Gauss–Hermite nodes, κ = 100. The tests above would not let it pass."""
    rule = quadrature.product_rule(2, 20)
    y, m, v = near_and_far(100.0), np.array([[0.0, -np.log(100.0)]]), np.array([[1.0, 0.3]])
    good = Predictive(HetGaussian(), m, v).logpdf(y)[0]
    latents, weights = rule.expand(m, v), rule.weights
    with np.errstate(divide="ignore"):
        grid = [np.log((weights * np.exp(HetGaussian().log_density(t, *latents))).sum()) for t in y]
    assert np.abs(np.expm1(np.array(grid) - good)).max() > 0.3
    generic = Predictive(WithoutHook(), m, v).logpdf(y)[0]  # the adaptive lattice, no closed form
    np.testing.assert_allclose(generic, good, atol=1e-5)


class WithoutHook(HetGaussian):
    """It does not declare that it is a normal mixture."""

    def normal_scale_mixture(self):
        return None


class ThreeLatents(Likelihood):
    """N(f + h, e^g): three latents whose predictive is that of HetGaussian."""

    latents = ("first", "second", "log_variance")

    def log_density(self, y, f, h, g):
        return HetGaussian().log_density(y, f + h, g)


def test_three_latents_match_two():
    p = one(ThreeLatents(), [0.0, 1.0, -3.0], [0.3, 0.7, 0.3])
    exact = one(HetGaussian(), [1.0, -3.0], [1.0, 0.3])
    y = np.array([-2.0, 0.3, 1.0, 4.1])
    np.testing.assert_allclose(p.logpdf(y), exact.logpdf(y), atol=1e-4)


def test_the_unresolved_first_lattice_would_be_rejected():
    """The mutant that never refines: the first lattice alone combs at κ = 100."""
    y, m, v = near_and_far(100.0), np.array([[0.0, -np.log(100.0)]]), np.array([[1.0, 0.3]])
    grid = lattice(2, 0)
    f, g = m.T + np.sqrt(v.T) * grid.x
    weights = np.exp(grid.log_volume - 0.5 * np.sum(grid.x**2, axis=0)) / (2.0 * np.pi)
    comb = weights @ np.exp(HetGaussian().log_density(y, f[:, None], g[:, None]))
    good = Predictive(HetGaussian(), m, v).pdf(y)[0]
    assert np.abs(comb / good - 1.0).max() > 0.1
    assert weights.sum() == pytest.approx(1.0, abs=1e-10)  # an integral to 1 does not see it


def test_outliers_move_the_window():
    """300 noise sds out, g would have to leave q by 30 of its sds: the log-density stays right."""
    m, v, y = [0.0, 0.0], [0.5, 0.04], 300.0

    def log_term(g):
        return stats.norm.logpdf(y, 0.0, np.sqrt(0.5 + np.exp(g))) + stats.norm.logpdf(g, 0.0, 0.2)

    g = np.linspace(-2.0, 14.0, 64001)
    terms = log_term(g)
    expected = terms.max() + np.log(np.exp(terms - terms.max()).sum() * (g[1] - g[0]))
    for likelihood in (HetGaussian(), WithoutHook()):
        value = one(likelihood, m, v).logpdf(y)[0, 0]
        assert value == pytest.approx(expected, abs=1e-3)
    still = stats.norm.logpdf(y, 0.0, np.sqrt(0.5 + np.exp(7.5 * 0.2)))
    assert still < expected - 100.0  # what a window that does not move would say, at best


@pytest.mark.parametrize("nu", [1.0, 3.0, 40.0])
@pytest.mark.parametrize("sd", [0.02, 0.4, 0.6, 2.0])
def test_mixing_density_is_the_convolution(nu, sd):
    mixture = ScaleMixture(np.zeros((1, 2)), np.array([[1.0, sd * sd]]), 0.5 * nu)
    for s in (-0.4, 0.0, 1.2):
        # P-density of s = g − log λ: integrate over g
        expected = integrate.quad(
            lambda x, s=s: (
                stats.norm.pdf(x)
                * stats.gamma.pdf(np.exp(sd * x - s), 0.5 * nu, scale=2.0 / nu)
                * np.exp(sd * x - s)
            ),
            -9,
            9,
            points=[s / sd] if abs(s / sd) < 9 else None,
            epsrel=1e-9,
            limit=300,
        )[0]
        value = np.exp(mixture._log_density_s(np.array([[s]]), np.array([sd]))[0, 0])
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-9)


# ---- cdf and quantiles -------------------------------------------------------------------------

CONTINUOUS = [
    (HetGaussian(), 2),
    (HetStudentT(), 2),
    (HetStudentT(nu=1.2), 2),
    (StudentT(), 1),
    (Beta(), 2),
    (LogLogisticSurvival(), 2),
    (LogLogistic(), 1),
    (Gaussian(), 1),
    (likelihoods.HetLaplace(), 2),
    (likelihoods.AsymmetricLaplace(0.3), 2),
    (likelihoods.SHASH(skewness=0.4, tail=1.3), 2),
    (likelihoods.BoxCoxNormal(), 2),
    (likelihoods.BoxCoxT(), 2),
    (likelihoods.HetGamma(), 2),
    (likelihoods.HetStudentTNu(), 3),
    (likelihoods.GEV(), 2),
    (likelihoods.GEVShape(), 3),
    (likelihoods.GeneralisedPareto(), 1),
    (likelihoods.GeneralisedParetoShape(), 2),
    (likelihoods.VonMises(), 2),
    (likelihoods.SignalNoiseGaussian(), 3),
    (likelihoods.BetaMeanPrecision(), 2),
    (likelihoods.WeibullSurvival(), 2),
    (likelihoods.LogNormalSurvival(), 2),
]


def rows(b, n, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    return 0.7 * rng.standard_normal((n, b)) + 0.8, 10.0 ** rng.uniform(
        -3.0, np.log10(spread), (n, b)
    )


@pytest.mark.parametrize(("likelihood", "b"), CONTINUOUS, ids=lambda x: getattr(x, "name", ""))
def test_cdf_inverts_ppf(likelihood, b):
    means, variances = rows(b, 8)
    if isinstance(likelihood, likelihoods.BetaMeanPrecision):
        means[:, 1] += 2.0  # else some quantiles round to 1
    p = Predictive(likelihood, means, variances)
    y = p.ppf(LEVELS)
    assert y.shape == (8, len(LEVELS))
    assert np.isfinite(y).all()
    assert (np.diff(y, axis=1) > 0.0).all()  # no crossing
    probability = np.stack([p.cdf(y[:, k : k + 1])[:, 0] for k in range(len(LEVELS))], axis=1)
    np.testing.assert_allclose(probability, np.broadcast_to(LEVELS, y.shape), rtol=0, atol=5e-7)
    np.testing.assert_allclose(probability[:, :3], np.tile(LEVELS[:3], (8, 1)), rtol=1e-3)


def test_no_continuous_likelihood_is_left_out():
    """Wrappers and bases aside, all that `likelihoods` exports with a density is in the list."""
    classes = {getattr(likelihoods, name) for name in likelihoods.__all__}
    ready = classes - {Likelihood, likelihoods.Survival, likelihoods.ConstantLatent}
    ready -= {likelihoods.Inflated, likelihoods.Hurdle, likelihoods.ScipyLikelihood}
    ready -= {likelihoods.Rounded}
    made = [cls(3) if cls in (likelihoods.Softmax, likelihoods.Ordinal) else cls() for cls in ready]
    dense = {type(one) for one in made if one.support in ("real", "positive", "unit")}
    assert dense - {type(one) for one, _ in CONTINUOUS} == {
        likelihoods.ZeroOneInflatedBeta,
        likelihoods.Tweedie,
    }


@pytest.mark.parametrize("kappa", [1e-4, 1e3])
@pytest.mark.parametrize("likelihood", [HetGaussian(), HetStudentT(), WithoutHook()])
def test_cdf_inverts_ppf_whatever_the_width(likelihood, kappa):
    p = one(likelihood, [2.0, -np.log(kappa)], [1.0, 0.2])
    y = p.ppf(LEVELS)
    np.testing.assert_allclose(p.cdf(y[0])[0], LEVELS, rtol=0, atol=1e-7)
    if kappa == 1e3:  # nearly N(2, 1)
        np.testing.assert_allclose(p.ppf(0.9), stats.norm.ppf(0.9, 2.0, np.sqrt(1.0011)), rtol=2e-3)


def test_cdf_is_the_integral_of_the_density():
    for likelihood, b in CONTINUOUS[1:6:2]:
        p = Predictive(likelihood, *rows(b, 1, seed=3))
        low, high = p.ppf([0.2, 0.7])[0]
        mass = integrate.quad(lambda t, p=p: p.pdf(t)[0, 0], low, high, epsrel=1e-7)[0]
        assert mass == pytest.approx(0.5, abs=1e-6)


def test_a_density_alone_gives_cdf_and_quantiles():
    p = Predictive(Logistic(), *rows(2, 1, seed=1, spread=0.3))
    q = np.array([0.025, 0.5, 0.9])
    y = p.ppf(q)
    np.testing.assert_allclose(p.cdf(y[0]), q[None], atol=1e-7)
    draws = p.sample(1000, rng=3)
    below = (draws[:, :, None] <= y[:, None]).mean(axis=1)
    assert np.all(np.abs(below - q) < 5.0 * np.sqrt(q * (1.0 - q) / 1000))


@pytest.mark.parametrize(
    ("likelihood", "b"), [(Poisson(), 1), (AdditivePoisson(), 2), (Bernoulli(), 1)]
)
def test_discrete_quantiles_are_the_smallest_integers(likelihood, b):
    p = Predictive(likelihood, *rows(b, 6, seed=2))
    q = np.array([0.01, 0.3, 0.5, 0.99])
    y = p.ppf(q)
    assert np.array_equal(y, np.floor(y))
    assert (p.cdf(y) >= q - 1e-12).all()
    assert (p.cdf(y - 1.0) < q).all()
    last = 1 if likelihood.support == "binary" else 40
    np.testing.assert_allclose(
        p.pdf(np.arange(last + 1.0)).sum(1), p.cdf(float(last))[:, 0], rtol=1e-6
    )
    assert (p.pdf(0.5) == 0.0).all()
    np.testing.assert_array_equal(p.cdf(0.5), p.cdf(0.0))


# ---- latents that are integrated exactly ---------------------------------------------------------


def test_signal_is_integrated_exactly():
    class Generic(likelihoods.SignalNoiseGaussian):
        """By the lattice in all three latents: it does not tell that y is normal in the first."""

        def normal_in_first(self, s, g):
            return None

    means, variances = np.array([[0.4, 0.3, -1.0]]), np.array([[0.3, 0.1, 0.2]])
    y = np.array([-2.0, 0.1, 0.6, 3.0])
    exact = Predictive(likelihoods.SignalNoiseGaussian(), means, variances)
    generic = Predictive(Generic(), means, variances)
    np.testing.assert_allclose(exact.pdf(y), generic.pdf(y), rtol=1e-4)
    np.testing.assert_allclose(exact.cdf(y), generic.cdf(y), atol=1e-5)
    # s known: N(e^s m_f, e^2s v_f + e^g)
    known = one(likelihoods.SignalNoiseGaussian(), [0.4, 0.3, -1.0], [0.3, 0.0, 0.0])
    law = stats.norm(0.4 * np.exp(0.3), np.sqrt(0.3 * np.exp(0.6) + np.exp(-1.0)))
    np.testing.assert_allclose(known.cdf(y)[0], law.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(known.ppf(LEVELS)[0], law.ppf(LEVELS), rtol=1e-7)


def test_point_masses_are_a_mixture_with_the_base():
    m, v = [0.3, -1.0, -0.7], [0.2, 0.1, 1.5]
    base = one(HetGaussian(), m[:2], v[:2])
    weight = integrate.quad(lambda z: stats.norm.pdf(z) * expit(m[2] + v[2] ** 0.5 * z), -9, 9)[0]
    p = one(likelihoods.Inflated(HetGaussian()), m, v)
    y = np.array([-1.0, -1e-9, 0.4, 2.0])
    np.testing.assert_allclose(p.pdf(y), (1.0 - weight) * base.pdf(y), rtol=1e-8)
    np.testing.assert_allclose(p.pdf(0.0), weight, rtol=1e-8)
    np.testing.assert_allclose(p.cdf(y), (1.0 - weight) * base.cdf(y) + weight * (y >= 0.0))
    start = (1.0 - weight) * base.cdf(0.0)[0, 0]
    levels = np.array([1e-6, 0.5 * start, start + 0.01, start + 0.99 * weight, 0.9, 1.0 - 1e-6])
    quantile = p.ppf(levels)[0]
    np.testing.assert_array_equal(quantile[2:4], 0.0)
    others = [0, 1, 4, 5]
    np.testing.assert_allclose(p.cdf(quantile[others])[0], levels[others], atol=1e-9)


@pytest.mark.parametrize(
    "likelihood", [likelihoods.ZeroOneInflatedBeta(), likelihoods.Hurdle(Poisson())], ids=str
)
def test_inflated_quantiles_and_samples_agree(likelihood):
    b = len(likelihood.latents)
    p = Predictive(likelihood, *rows(b, 3, seed=9, spread=0.3))
    draws = p.sample(40_000, rng=2)
    levels = np.array([0.05, 0.3, 0.6, 0.97])
    quantile = p.ppf(levels)
    below = (draws[:, :, None] <= quantile[:, None]).mean(axis=1)
    np.testing.assert_allclose(below, p.cdf(quantile), atol=0.012)
    assert (p.cdf(quantile) >= levels - 1e-9).all()


def test_a_density_with_an_atom_alone_gives_quantiles():
    m, v = [0.3, -1.0, -0.7], [0.2, 0.1, 0.5]
    p = one(likelihoods.Inflated(Logistic()), m, v)
    plain = one(likelihoods.Inflated(WithCdf()), m, v)
    levels = np.array([0.01, 0.4, 0.6, 0.95])
    np.testing.assert_allclose(p.ppf(levels), plain.ppf(levels), rtol=1e-6)
    np.testing.assert_allclose(p.cdf([-1.0, 0.0, 0.7]), plain.cdf([-1.0, 0.0, 0.7]), atol=1e-7)


class WithCdf(Logistic):
    """The same with its cdf and quantiles."""

    def log_density(self, y, f, g):
        return super().log_density(y, f, g)

    def cdf(self, y, f, g):
        return expit((y - f) * np.exp(-g))

    def ppf(self, q, f, g):
        return f + np.exp(g) * np.log(q / (1.0 - q))


def test_joint_draws_have_the_covariance_of_q(monkeypatch):
    monkeypatch.setattr("chainedgp.predictive.latents.JOINT_ROWS", 5)
    m = small_model("HetGaussian")
    X = np.linspace([-1.0, 0.5], [1.0, -0.3], 8)
    mean, covariance = m.predict_latents(X, full_cov=True)
    draws = m.posterior_samples_f(X, 40_000, rng=3)
    np.testing.assert_allclose(draws.mean(axis=2), mean, atol=0.03)
    for j in range(2):
        found, size = np.cov(draws[:, j]), np.abs(covariance[j]).max()
        same = np.add.outer(np.arange(8) < 5, np.arange(8) < 5) != 1  # rows of one block: exact
        np.testing.assert_allclose(found[same], covariance[j][same], atol=0.03 * size)
        prior = m.kernels[j].K(X)
        assert np.abs(found - covariance[j])[~same].max() < np.abs(prior - covariance[j]).max()


def test_latents_of_the_mean_field_have_no_covariance():
    m = small_model("HetGaussian")
    X = np.linspace([-1.0, 0.5], [1.0, -0.3], 5)
    _, variance = m.predict_latents(X)
    for full_cov in (False, True):
        own, cross = (m.predict_latents(X, full_cov, cross_cov=cross) for cross in (False, True))
        np.testing.assert_array_equal(own[0], cross[0])
    np.testing.assert_array_equal(cross[1][[0, 1], [0, 1]], own[1])
    np.testing.assert_array_equal(cross[1][[0, 1], [1, 0]], np.zeros((2, 5, 5)))
    rows = m.predict_latents(X, cross_cov=True)[1]
    np.testing.assert_array_equal(rows, variance[:, :, None] * np.eye(2))
    np.testing.assert_allclose(np.diagonal(own[1], axis1=1, axis2=2).T, variance, rtol=1e-9)


# ---- many rows ----------------------------------------------------------------------------------


def test_many_rows_agree_with_each_row_alone():
    """More rows than knots: the interpolated mixing density, blocks, and rows in any order."""
    means, variances = rows(2, 900, seed=5)
    p = Predictive(HetStudentT(), means, variances)
    some = np.array([0, 17, 512, 899])
    q = [0.001, 0.6]
    few = Predictive(HetStudentT(), means[some], variances[some])
    np.testing.assert_allclose(p.ppf(q)[some], few.ppf(q), rtol=1e-6)
    y = means[:, :1] + 1.0
    np.testing.assert_allclose(p.logpdf(y)[some], few.logpdf(y[some]), rtol=1e-6)


def test_extreme_rows_stay_finite_or_at_the_ends():
    means = np.array([[30.0, -30.0], [-30.0, 30.0], [1e6, 0.0], [0.0, 0.0]])
    variances = np.array([[1e-12, 1e-12], [25.0, 1e-12], [1.0, 9.0], [0.0, 0.0]])
    for likelihood in (HetGaussian(), HetStudentT(), Beta()):
        y = Predictive(likelihood, means, variances).ppf([0.05, 0.95])
        assert not np.isnan(y).any()
        assert (y[:, 0] <= y[:, 1]).all()
    p = Predictive(HetGaussian(), means, variances)
    np.testing.assert_allclose(p.ppf(0.95)[3], stats.norm.ppf(0.95), rtol=1e-9)


# ---- moments, samples, parameters --------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "b"),
    [
        (HetGaussian(), 2),
        (HetStudentT(nu=9.0), 2),
        (Beta(), 2),
        (AdditivePoisson(), 2),
        (Poisson(), 1),
        (likelihoods.HetGamma(), 2),
        (likelihoods.SignalNoiseGaussian(), 3),
        (likelihoods.ZeroOneInflatedBeta(), 4),
    ],
)
def test_moments_match_samples(likelihood, b):
    n, size = 3, 200_000
    p = Predictive(likelihood, *rows(b, n, seed=4, spread=0.3))
    draws = p.sample(size, rng=8)
    error = draws.std(axis=1) / np.sqrt(size)
    assert (np.abs(draws.mean(axis=1) - p.mean[:, 0]) < 5.0 * error).all()
    square = (draws - draws.mean(axis=1, keepdims=True)) ** 2
    assert (
        np.abs(square.mean(axis=1) - p.variance[:, 0]) < 5.0 * square.std(axis=1) / np.sqrt(size)
    ).all()
    np.testing.assert_allclose(p.variance, p.noise_variance + p.latent_variance)
    assert (p.noise_variance >= 0.0).all() and (p.latent_variance >= 0.0).all()
    # the mutant that forgets the latents' variance is 5 standard errors away
    assert (
        np.abs(square.mean(axis=1) - p.noise_variance[:, 0])
        > 5.0 * square.std(axis=1) / np.sqrt(size)
    ).any()


class Plain(Likelihood):
    """N(f, 1) by its density alone: what the mixture makes of it is known."""

    latents = ("location",)

    def log_density(self, y, f):
        return stats.norm.logpdf(y, f)


def test_log_densities_neither_underflow_nor_overflow():
    y, m, v = np.array([0.3, -1.0, 60.0]), np.array([0.0, 0.5, 1.0]), np.array([0.3, 0.1, 0.8])
    value = Predictive(Plain(), m[:, None], v[:, None], {}).logpdf(y[:, None])[:, 0]
    truth = stats.norm.logpdf(y, m, np.sqrt(1 + v))
    assert truth[2] < -900.0  # e to this power is 0 in floating point
    np.testing.assert_allclose(value, truth, rtol=1e-6)


def test_log_normal_moments_far_out():
    """E e^{2f} with sd 3 has its mass at 6 sd: the lattice must be widened."""
    p = one(Poisson(), [0.2], [9.0])
    rate = np.exp(0.2 + 4.5)
    np.testing.assert_allclose(p.mean, rate, rtol=1e-6)
    np.testing.assert_allclose(p.latent_variance, rate**2 * np.expm1(9.0), rtol=1e-6)


class Product(Likelihood):
    """Exponential with mean e^{Σ f}: both moments are closed under any q."""

    latents = ("a", "b", "c", "d")
    support = "positive"

    def log_density(self, y, *f):
        return -y * np.exp(-sum(f)) - sum(f)

    def conditional_mean(self, *f):
        return np.exp(sum(f))

    def conditional_variance(self, *f):
        return np.exp(2.0 * sum(f))

    @staticmethod
    def truth(v):
        """Mean and variance for f_j ~ N(0, v_j)."""
        total = np.sum(v)
        return np.exp(0.5 * total), 2.0 * np.exp(2.0 * total) - np.exp(total)


class Sum(Product):
    """Exponential with mean Σ e^f."""

    def log_density(self, y, *f):
        mean = sum(np.exp(part) for part in f)
        return -y / mean - np.log(mean)

    def conditional_mean(self, *f):
        return sum(np.exp(part) for part in f)

    def conditional_variance(self, *f):
        return self.conditional_mean(*f) ** 2

    @staticmethod
    def truth(v):
        first, second = np.exp(0.5 * v), np.exp(2.0 * v)
        square = np.sum(first) ** 2 + np.sum(second - first**2)
        return np.sum(first), 2.0 * square - np.sum(first) ** 2


def by_density(family, count):
    """The same with `count` latents, known by its density alone."""
    own = {"latents": family.latents[:count]}
    own |= {k: getattr(Likelihood, k) for k in ("conditional_mean", "conditional_variance")}
    return type("Numeric", (family,), own)


@pytest.mark.filterwarnings("ignore:.*uncertain.*:chainedgp.errors.MomentWarning")
@pytest.mark.parametrize(
    ("family", "v", "tol"),
    [
        *((family, np.full(4, v), 0.01) for family in (Product, Sum) for v in (0.1, 1.0, 2.0)),
        *((family, np.array([0.1, 3.0, 0.5, 1.5]), 0.01) for family in (Product, Sum)),
        (Sum, np.full(4, 4.0), 0.02),
        *((by_density(Sum, 1), np.array([v]), 1e-6) for v in (0.01, 0.5, 4.0, 9.0)),
        *((by_density(Sum, 2), np.array([v, 0.3]), 1e-6) for v in (0.01, 2.0, 9.0)),
        *((by_density(Product, 3), np.array([0.1, v, 0.3]), 0.02) for v in (0.01, 2.0)),
        (by_density(Sum, 4), np.array([0.01, 0.3, 0.1, 0.2]), 0.02),
        pytest.param(
            by_density(Sum, 4), np.array([3.0, 0.3, 0.1, 0.2]), 0.02, marks=pytest.mark.long
        ),
    ],
)
def test_moments_of_a_wide_q_have_their_closed_values(family, v, tol):
    p = Predictive(family(), np.zeros((1, len(v))), v[None])
    mean, variance = family.truth(v)
    np.testing.assert_allclose(p.mean[0, 0], mean, rtol=tol)
    np.testing.assert_allclose(p.variance[0, 0], variance, rtol=tol)


@pytest.mark.parametrize(
    "family", [likelihoods.SignalNoiseGaussian, likelihoods.ZeroOneInflatedBeta]
)
def test_moments_of_many_latents_are_those_of_a_finer_rule(family):
    lik, b = family(), len(family().latents)
    means, variances = rows(b, 3, seed=8)
    found = Predictive(lik, means, 4.0 * variances)
    x, w = np.polynomial.hermite_e.hermegauss(17)
    grid = np.reshape(np.meshgrid(*[x] * b), (b, -1, 1))
    weights = np.prod(np.reshape(np.meshgrid(*[w / w.sum()] * b), (b, -1, 1)), axis=0)
    f = means.T[:, None] + 2.0 * np.sqrt(variances.T)[:, None] * grid
    mean_at, noise = lik.conditional_mean(*f), lik.conditional_variance(*f)
    mean = np.sum(weights * mean_at, axis=0)
    variance = np.sum(weights * (noise + (mean_at - mean) ** 2), axis=0)
    np.testing.assert_allclose(found.mean[:, 0], mean, rtol=1e-5)
    np.testing.assert_allclose(found.variance[:, 0], variance, rtol=1e-5)


def test_moments_that_nodes_do_not_give_are_told(monkeypatch):
    monkeypatch.setattr(moments, "SCATTERED", 8)
    p = Predictive(Sum(), np.zeros((2, 4)), np.array([[0.01], [2.0]]) * np.ones(4))
    with pytest.warns(MomentWarning, match="Of 2 .* 1 have a mean or variance .* uncertain"):
        p.variance  # noqa: B018


def test_moments_that_grow_without_end_are_infinite():
    class Endless(Product):
        def conditional_mean(self, *f):
            return np.exp(0.1 * f[0] ** 2) + sum(f[1:])

        def conditional_variance(self, *f):
            return np.ones(np.shape(f[0]))

    with pytest.warns(MomentWarning, match="1 have no mean"):
        assert Predictive(Endless(), np.zeros((1, 4)), np.full((1, 4), 9.0)).mean[0, 0] == np.inf


@pytest.mark.parametrize(
    ("likelihood", "b", "mean"),
    [
        (LogLogisticSurvival(), 2, np.inf),
        (HetStudentT(nu=1.5), 2, 0.5),
        (LogLogistic(log_shape=-0.1), 1, np.inf),
    ],
)
def test_missing_moments_are_infinite_with_one_warning(likelihood, b, mean):
    p = one(likelihood, [0.5, 1.0][:b], [0.1, 0.1][:b])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert p.mean[0, 0] == mean
        assert p.variance[0, 0] == np.inf
        assert p.noise_variance[0, 0] == np.inf
    assert [w.category for w in caught] == [MomentWarning]
    assert "median" in str(caught[0].message)
    words = "1 have no mean and 1 have no variance" if mean == np.inf else "HetStudentT 1 have no v"
    assert words in str(caught[0].message)


@pytest.mark.parametrize("family", [LogLogisticSurvival, WeibullSurvival, LogNormalSurvival])
def test_times_with_a_latent_shape_have_no_mean_however_well_it_is_known(family):
    p = Predictive(family(), np.array([[2.0, 1.5], [2.0, 0.2]]), np.full((2, 2), 0.01))
    with pytest.warns(MomentWarning, match="2 have no mean and 2 have no variance"):
        assert np.isinf(p.mean).all() and np.isinf(p.variance).all()
    known = family().with_constant(1, 0.9)
    assert np.isfinite(Predictive(known, np.full((2, 1), 2.0), np.full((2, 1), 0.01)).mean).all()


def test_sampling_is_seeded_and_leaves_the_global_state_alone():
    p = Predictive(HetStudentT(), *rows(2, 4))
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - to see that it does not move
    a = p.sample(5, rng=1)
    np.testing.assert_array_equal(a, p.sample(5, rng=np.random.default_rng(1)))
    assert a.shape == (4, 5)
    assert not np.array_equal(a, p.sample(5, rng=2))
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_parameters_have_quantiles_under_q():
    means, variances = rows(2, 5)
    levels = (5.0, 50.0, 95.0)
    z = stats.norm.ppf([0.05, 0.5, 0.95])
    table = Predictive(HetStudentT(), means, variances).parameters(levels)
    scale = np.exp(0.5 * (means[:, 1:] + np.sqrt(variances[:, 1:]) * z))
    np.testing.assert_allclose(table["scale"], scale, rtol=1e-12)
    table = Predictive(AdditivePoisson(), means, variances).parameters(levels)
    rng = np.random.default_rng(0)
    f = means[:, None] + np.sqrt(variances[:, None]) * rng.standard_normal((5, 200_000, 2))
    total = np.exp(f).sum(axis=2)
    np.testing.assert_allclose(
        table["rate"], np.quantile(total, [0.05, 0.5, 0.95], axis=1).T, rtol=5e-3
    )


# ---- survival ----------------------------------------------------------------------------------


def survival_rows(**kw):
    return Predictive(LogLogisticSurvival(), *rows(2, 4, seed=6), **kw)


def test_survival_falls_from_one_and_agrees_with_cdf():
    p = survival_rows()
    t = np.array([0.0, 1e-9, 0.3, 1.0, 4.0, 50.0, 1e6])
    s = p.sf(t)
    np.testing.assert_allclose(s[:, 0], 1.0)
    assert (np.diff(s, axis=1) <= 0.0).all()
    np.testing.assert_allclose(s, 1.0 - p.cdf(t), atol=1e-8)
    np.testing.assert_allclose(p.cumulative_hazard(t), -np.log(s), atol=1e-12)
    np.testing.assert_allclose(p.sf(p.median()), 0.5, atol=1e-8)


@pytest.mark.parametrize("name", ["LogLogistic", "Weibull", "LogNormal"])
def test_hazard_is_the_slope_of_log_survival(name):
    likelihood = getattr(likelihoods, f"{name}Survival")()
    means, variances = rows(2, 4, seed=6)
    p = Predictive(likelihood, means, variances)
    t, h = np.array([0.4, 1.0, 3.0]), 1e-4
    slope = -(np.log(p.sf(t + h)) - np.log(p.sf(t - h))) / (2.0 * h)
    np.testing.assert_allclose(p.hazard(t), slope, rtol=1e-5)
    f, g = means.T[:, :, None]
    plug_in = np.exp(likelihood.log_density(t, f, g) - likelihood.log_survival(t, f, g))
    assert np.abs(plug_in / slope - 1.0).max() > 1e-3  # the mutant: hazard at the mean of q


def test_bands_are_quantiles_of_the_curve_over_q():
    p = survival_rows()
    means, variances = rows(2, 4, seed=6)
    rng = np.random.default_rng(1)
    f, g = (means[:, None] + np.sqrt(variances[:, None]) * rng.standard_normal((4, 50_000, 2))).T
    lik = LogLogisticSurvival()
    curves = {
        "sf": lambda t: np.exp(lik.log_survival(t, f, g)),
        "hazard": lambda t: np.exp(lik.log_hazard(t, f, g)),
        "cumulative_hazard": lambda t: -lik.log_survival(t, f, g),
    }
    for name, curve in curves.items():
        estimate, lower, upper = getattr(p, name)(np.array([0.7, 2.0]), bands=(5, 95))
        assert estimate.shape == lower.shape == upper.shape == (4, 2)
        for k, t in enumerate((0.7, 2.0)):
            below = (curve(t) < lower[:, k]).mean(axis=0), (curve(t) < upper[:, k]).mean(axis=0)
            np.testing.assert_allclose(below, np.outer([0.05, 0.95], np.ones(4)), atol=0.006)
    estimate, lower, upper = p.median(bands=(5, 95))
    z = stats.norm.ppf(0.95)
    np.testing.assert_allclose(
        upper[:, 0], np.exp(means[:, 0] + z * np.sqrt(variances[:, 0])), rtol=1e-12
    )
    assert (lower < estimate).all() and (estimate < upper).all()


def test_every_number_has_a_median_with_bands():
    means, variances = rows(2, 4, seed=6)
    p, z = Predictive(HetGaussian(), means, variances), stats.norm.ppf([0.05, 0.95])
    estimate, *ends = p.median(bands=(5, 95))
    np.testing.assert_allclose(estimate[:, 0], means[:, 0], atol=1e-8)
    latent = means[:, 0] + np.outer(z, np.sqrt(variances[:, 0]))
    np.testing.assert_allclose(np.stack(ends)[..., 0], latent, rtol=1e-6, atol=1e-8)
    counts = Predictive(Poisson(), means[:, :1], variances[:, :1])
    np.testing.assert_array_equal(counts.median(), counts.ppf(0.5))
    _, *ends = counts.median(bands=(5, 95))
    given = [
        stats.poisson.median(np.exp(means[:, 0] + level * np.sqrt(variances[:, 0]))) for level in z
    ]
    np.testing.assert_array_equal(np.stack(ends)[..., 0], given)
    with pytest.raises(InputError, match="classes have no order"):
        Predictive(Softmax(3), *rows(3, 3)).median()


def test_restricted_mean_is_the_mean_of_the_capped_time():
    p = survival_rows()
    estimate, lower, upper = p.restricted_mean(3.0, bands=(5, 95))
    draws = np.minimum(p.sample(200_000, rng=5), 3.0)
    error = draws.std(axis=1) / np.sqrt(200_000)
    assert (np.abs(draws.mean(axis=1) - estimate[:, 0]) < 5.0 * error).all()
    assert (lower < estimate).all() and (estimate < upper).all()


def test_censored_rows_score_what_was_seen():
    censored = np.array([0.0, 1.0, 0.0, 1.0])
    plain, seen = survival_rows(), survival_rows(metadata={"censored": censored})
    t = np.full((4, 1), 1.7)
    expected = np.where(censored[:, None] == 1.0, np.log(plain.sf(t)), plain.logpdf(t))
    np.testing.assert_allclose(seen.logpdf(t), expected, rtol=1e-5)
    np.testing.assert_array_equal(seen.cdf(t), plain.cdf(t))
    np.testing.assert_array_equal(seen.hazard(t), plain.hazard(t))


def test_a_wrapped_survival_likelihood_has_curves():
    p = one(LogLogistic(log_shape=0.5), [0.3], [0.2])
    np.testing.assert_allclose(p.sf(1.3), 1.0 - p.cdf(1.3), atol=1e-9)
    p = one(Inflated(WeibullSurvival(), (0.0,)), [0.3, 0.1, -1.0], [0.2, 0.1, 0.3])
    np.testing.assert_allclose(p.sf(1.3), 1.0 - p.cdf(1.3), atol=1e-7)
    assert p.sf(1.3)[0, 0] < 0.9  # some did not live at all


def test_a_density_with_a_constant_is_still_a_density_alone():
    """Its cdf is tabulated, as that of the likelihood it was made from, not taken node by node."""
    wrapped = Logistic().with_constant("log_scale", 0.0)
    p = one(wrapped, [0.3], [0.2])
    assert p._tables is not None
    bare = one(Logistic(), [0.3, 0.0], [0.2, 1e-14])
    np.testing.assert_allclose(p.cdf(LEVELS), bare.cdf(LEVELS), atol=1e-6)


# ---- the object --------------------------------------------------------------------------------


def test_shapes_of_grids_and_rows():
    p = Predictive(HetGaussian(), *rows(2, 3))
    grid, each = np.array([0.0, 1.0, 2.0]), np.array([[0.0], [1.0], [2.0]])
    assert p.pdf(grid).shape == p.cdf(grid).shape == (3, 3)
    assert p.pdf(0.5).shape == p.ppf(0.5).shape == p.mean.shape == (3, 1)
    np.testing.assert_allclose(p.logpdf(each)[:, 0], np.diag(p.logpdf(grid)))
    lower, upper = p.interval(0.9)
    np.testing.assert_allclose(np.hstack([lower, upper]), p.ppf([0.05, 0.95]))
    assert len(p) == 3


def test_outside_the_support():
    p = Predictive(LogLogisticSurvival(), *rows(2, 2))
    assert (p.pdf([-1.0]) == 0.0).all()
    np.testing.assert_array_equal(p.cdf([-1.0, 0.0, np.inf]), [[0.0, 0.0, 1.0]] * 2)
    unit = Predictive(Beta(), *rows(2, 2))
    np.testing.assert_array_equal(unit.cdf([-0.5, 1.5]), [[0.0, 1.0]] * 2)
    assert (unit.pdf([1.5]) == 0.0).all()


def test_the_object_is_a_snapshot():
    likelihood = HetStudentT(nu=5.0)
    means, variances = rows(2, 2)
    p = Predictive(likelihood, means, variances)
    before = p.logpdf(1.0)
    likelihood.nu[:] = 50.0
    means += 3.0
    np.testing.assert_array_equal(p.logpdf(1.0), before)
    assert np.abs(Predictive(likelihood, means, variances).logpdf(1.0) - before).max() > 0.01


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.ppf(1.0), "between 0 and 1"),
        (lambda p: p.interval(95), "level"),
        (lambda p: p.pdf(np.zeros((2, 1))), "each row"),
        (lambda p: p.pdf([np.nan]), "missing"),
        (lambda p: p.hazard(1.0), "HetGaussian"),
        (lambda p: p.cumulative_hazard(1.0), "HetGaussian"),
        (lambda p: p.restricted_mean(1.0), "HetGaussian"),
        (lambda p: p.parameters((0.0,)), "percentages"),
        (lambda p: p.sample(0), "size"),
        (lambda p: p.sample(1, rng="a"), "rng"),
    ],
)
def test_bad_arguments_are_named(call, words):
    p = Predictive(HetGaussian(), *rows(2, 3))
    with pytest.raises(InputError, match=words):
        call(p)


def test_bad_moments_of_q_are_refused():
    with pytest.raises(InputError, match="log_variance"):
        Predictive(HetGaussian(), np.zeros((3, 1)), np.ones((3, 1)))
    with pytest.raises(InputError, match="negative"):
        Predictive(HetGaussian(), np.zeros((3, 2)), -np.ones((3, 2)))


def test_no_variance_is_infinite_whatever_the_scale():
    heavy = HetStudentT(nu=1.5)
    variances = heavy.conditional_variance(np.zeros(2), np.array([-1e4, 1.0]), nu=1.5)
    assert np.isposinf(variances).all()
    with pytest.warns(MomentWarning):
        assert np.isposinf(one(heavy, [0.0, -1e4], [1.0, 0.1]).variance).all()


@pytest.mark.parametrize("kappa", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    "likelihood", [likelihoods.HetGamma(), likelihoods.HetLaplace(), likelihoods.HetStudentTNu()]
)
def test_quantiles_of_few_nodes_are_those_of_lattices(likelihood, kappa, monkeypatch):
    """A lattice resolves F at the quantile to far below 1e-6, and judges few nodes by that."""
    rng, b = np.random.default_rng(5), len(likelihood.latents)
    n = 12 if b == 2 else 3
    means, sds = 0.5 * rng.standard_normal((n, b)), rng.uniform(0.1, 0.4, (n, b))
    sds[:, 0] *= min(kappa, 2.0)
    p = Predictive(likelihood, means, sds**2)
    levels = np.array([1e-3, 0.025, 0.5, 0.975])
    few = p.ppf(levels)
    monkeypatch.setattr(quantiles, "FEW", {})
    assert np.abs(p.cdf(few) - levels).max() < 1e-6
    slow = p.ppf(levels)
    np.testing.assert_allclose(few, slow, atol=1e-5, rtol=1e-5)


def test_few_nodes_that_disagree_are_not_taken(monkeypatch):
    """Where q is ten times wider than the noise, nodes that are not compared give wrong answers."""
    p = Predictive(likelihoods.HetGamma(), np.array([[0.3, 5.0]]), np.array([[1.0, 0.01]]))
    levels = np.array([0.1, 0.6])
    assert np.abs(p.cdf(p.ppf(levels)) - levels).max() < 1e-6
    monkeypatch.setattr(quantiles, "SAME", np.inf)
    monkeypatch.setattr(quantiles, "SAME_SLOPE", np.inf)
    assert np.abs(p.cdf(p.ppf(levels)) - levels).max() > 1e-4


class SkewLogistic(Likelihood):
    """Three latents, and a density alone."""

    latents = ("location", "log_scale", "log_skew")

    def log_density(self, y, f, g, h):
        z = (y - f) * np.exp(-g)
        return h - z - g - (np.exp(h) + 1.0) * np.logaddexp(0.0, -z)


class SkewLogisticWithCdf(SkewLogistic):
    def cdf(self, y, f, g, h):
        return expit((y - f) * np.exp(-g)) ** np.exp(h)


class HetLogisticWithCdf(Logistic):
    def cdf(self, y, f, g):
        return expit((y - f) * np.exp(-g))


class Spread(Likelihood):
    """Counts, and their probabilities alone."""

    latents = ("log_mean", "log_dispersion")
    support = "counts"

    def log_density(self, y, f, g):
        return likelihoods.NegativeBinomial().log_density(y, f, g)


@pytest.mark.parametrize("sd", [0.02, 0.2, 1.5])
@pytest.mark.parametrize(
    ("alone", "known"),
    [
        (Logistic(), HetLogisticWithCdf()),
        (SkewLogistic(), SkewLogisticWithCdf()),
        (Spread(), likelihoods.NegativeBinomial()),
    ],
)
def test_a_density_alone_has_the_quantiles_of_its_cdf(alone, known, sd):
    b = len(alone.latents)
    if sd > 1.0 and not isinstance(alone, Logistic):
        pytest.skip("a lattice for thousands of targets takes seconds")
    rng, n = np.random.default_rng(8), 4
    given = 0.5 * rng.standard_normal((n, b)), (sd * rng.uniform(0.5, 1.0, (n, b))) ** 2
    levels = np.array([1e-3, 0.025, 0.5, 0.975])
    y = Predictive(alone, *given).ppf(levels)
    truth = Predictive(known, *given)
    if known.target_support.continuous:
        assert np.abs(truth.cdf(y) - levels).max() < 1e-6
        assert np.abs(Predictive(alone, *given).cdf(y) - levels).max() < 1e-6
    else:
        assert np.array_equal(y, truth.ppf(levels))


def test_few_nodes_of_a_density_alone_must_agree(monkeypatch):
    """Where q is wide a table on few nodes that is not compared is wrong."""
    given = np.array([[0.3, -3.0]]), np.array([[1.0, 0.04]])
    levels, truth = np.array([0.1, 0.6]), Predictive(HetLogisticWithCdf(), *given)
    assert np.abs(truth.cdf(Predictive(Logistic(), *given).ppf(levels)) - levels).max() < 1e-6
    monkeypatch.setattr(tables, "SAME", np.inf)
    monkeypatch.setattr(tables, "BETWEEN", np.inf)
    wrong = Predictive(Logistic(), *given).ppf(levels)
    assert np.abs(truth.cdf(wrong) - levels).max() > 1e-3


@pytest.mark.parametrize("alone", [Logistic(), Spread()])
def test_tables_are_made_once_and_not_pickled(alone, monkeypatch):
    """A second question of few rows evaluates no density; with many rows each makes its own."""
    given, levels = (np.array([[0.3, -1.0]]), np.array([[0.04, 0.02]])), np.array([0.1, 0.6])
    p = Predictive(alone, *given)
    y, asked = p.ppf(levels), []
    monkeypatch.setattr(
        type(alone),
        "log_density",
        lambda self, *a, real=type(alone).log_density, **kw: asked.append(1) or real(self, *a),
    )
    np.testing.assert_array_equal(p.ppf(levels), y)
    below = p.cdf(y)
    assert not asked
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(p)).cdf(y), below)
    monkeypatch.setattr(tables, "KEPT_ROWS", 0)
    other, made = Predictive(alone, *given), len(asked)
    for _ in range(2):
        np.testing.assert_array_equal(other.cdf(y), below)
        assert len(asked) > made
        made = len(asked)


@pytest.mark.parametrize(
    ("name", "joint"),
    [("ZeroOneInflatedBeta", False), ("Hurdle(HetGamma)", True), ("Inflated", True)],
)
def test_quantiles_at_atoms_are_those_of_many_nodes(monkeypatch, name, joint):
    """A few nodes tell which quantiles are atoms, and leave to many those that are close to one."""
    likelihood = {
        "ZeroOneInflatedBeta": likelihoods.ZeroOneInflatedBeta(),
        "Hurdle(HetGamma)": likelihoods.Hurdle(likelihoods.HetGamma()),
        "Inflated": likelihoods.Inflated(likelihoods.HetGaussian(), at=[0.3]),
    }[name]
    b, n, rng = len(likelihood.latents), 6, np.random.default_rng(4)
    means, A = 0.5 * rng.standard_normal((n, b)), 0.3 * rng.standard_normal((n, b, b))
    V = A @ A.swapaxes(1, 2) + 0.01 * np.eye(b)
    p = Predictive(likelihood, means, V if joint else np.einsum("njj->nj", V))
    top = p.cdf(np.full((n, 1), likelihood.atoms[0]))
    levels = np.unique(
        np.concatenate([[0.03, 0.4, 0.97], (top - 1e-9).ravel(), (top + 1e-9).ravel()])
    )
    few = p.ppf(levels)
    monkeypatch.setattr(quantiles, "AT_ATOMS", {})
    many = p.ppf(levels)
    assert np.isin(few, likelihood.atoms).any() and not np.isin(few, likelihood.atoms).all()
    np.testing.assert_array_equal(np.isin(few, likelihood.atoms), np.isin(many, likelihood.atoms))
    np.testing.assert_allclose(few, many, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["NegativeBinomial", "Tweedie"])
def test_the_mean_among_the_parameters_is_of_the_exposure_that_is_given(name):
    """E_q of the parameter "mean" is the predictive mean, whatever the exposure."""
    lik = getattr(likelihoods, name)()
    means, variances = np.array([[0.3, -1.0], [1.2, 0.1]]), np.full((2, 2), 0.05)
    exposed = Predictive(lik, means, variances, {"exposure": np.array([3.0, 24.0])})
    one = Predictive(lik, means, variances)
    np.testing.assert_allclose(exposed.parameter_means()["mean"], exposed.mean, rtol=1e-6)
    np.testing.assert_allclose(exposed.parameters()["mean"][1], 24 * one.parameters()["mean"][1])


def test_a_function_of_the_latents_may_be_infinite():
    """No warning of numpy comes where a function is infinite at several of its nodes."""
    p = Predictive(HetGaussian(), np.array([[0.3, -1.0]]), np.array([[0.2, 0.5]]))
    steep = {"steep": lambda f, g: np.where(g > -0.5, np.inf, g)}
    found = p.parameters((5.0, 50.0, 95.0), functions=steep)["steep"]
    np.testing.assert_allclose(found, [[-1.0 - 1.6448536 * np.sqrt(0.5), -1.0, np.inf]])
