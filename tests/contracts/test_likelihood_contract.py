"""Every shipped likelihood keeps the contract; wrong ones are refused with words that help."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, xlogy

import chainedgp.likelihoods as liks
from chainedgp.errors import InputError
from chainedgp.kernels import RBF
from chainedgp.likelihoods import HetGaussian, HetStudentT, Likelihood, Poisson
from chainedgp.likelihoods.from_density import tabulate
from chainedgp.parameters.domains import AboveOne
from chainedgp.testing.kernel import check_kernel
from chainedgp.testing.likelihood import check_likelihood
from chainedgp.testing.report import ContractError

CODES = np.arange(8) % 2.0
ALL_WAYS = {"censored": [0, 1, -1, 2, 0, 1, -1, 2], "y_upper": 9.0, "entry": 0.05}

CASES = [
    (liks.HetGaussian(), {}),
    (liks.Gaussian(variance=0.5), {}),
    (liks.HetStudentT(), {}),
    (liks.HetStudentT(nu=2.5), {}),
    (liks.StudentT(), {}),
    (liks.Beta(), {}),
    (liks.LogLogisticSurvival(), {}),
    (liks.LogLogisticSurvival(), {"censored": CODES}),
    (liks.LogLogistic(), {"censored": CODES}),
    (liks.WeibullSurvival(), {}),
    (liks.WeibullSurvival(), ALL_WAYS),
    (liks.LogNormalSurvival(), {}),
    (liks.LogNormalSurvival(), ALL_WAYS),
    (liks.Poisson(), {}),
    (liks.Poisson(), {"exposure": np.linspace(0.5, 2.0, 8)}),
    (liks.AdditivePoisson(), {}),
    (liks.AdditivePoisson(), {"exposure": np.linspace(0.5, 2.0, 8)}),
    (liks.Bernoulli(), {}),
    (liks.HetStudentT(nu=5.0).with_constant("location", 0.3), {}),
    (liks.Beta().with_constant(1), {}),
    (liks.HetLaplace(), {}),
    (liks.AsymmetricLaplace(0.1), {}),
    (liks.SHASH(skewness=0.6, tail=1.5), {}),
    (liks.SHASH(skewness="latent", tail=0.7), {}),
    (liks.SHASH(skewness="latent", tail="latent"), {}),
    (liks.BoxCoxNormal(power=-1.3), {}),
    (liks.BoxCoxNormal(power="latent"), {}),
    (liks.BoxCoxT(power=0.8, nu=4.0), {}),
    (liks.BoxCoxT(nu="latent"), {}),
    (liks.Tweedie(power=1.4), {"exposure": np.linspace(0.5, 2.0, 8)}),
    (liks.GEV(), {}),
    (liks.GEV(shape=-0.15), {}),
    (liks.GEV(shape=0.0), {}),
    (liks.GEVShape(), {}),
    (liks.GEVShape().with_constant("logit_shape", 0.4), {}),
    (liks.GeneralisedPareto(), {}),
    (liks.GeneralisedPareto(30.0, shape=-0.1), {}),
    (liks.GeneralisedParetoShape(-2.5), {}),
    (liks.Rounded(liks.GEV(), 0.5), {}),
    (liks.Inflated(liks.GeneralisedPareto()), {}),
    (liks.VonMises(), {}),
    (liks.VonMises().with_constant("log_concentration", 1.2), {}),
    (liks.SignalNoiseGaussian(), {}),
    (liks.HetStudentTNu(), {}),
    (liks.HetStudentTNu().with_constant("log_nu", 1.0), {}),
    (liks.HetGamma(), {}),
    (liks.HetGamma().with_constant("log_shape"), {}),
    (liks.BetaMeanPrecision(), {}),
    (liks.NegativeBinomial(), {}),
    (liks.NegativeBinomial(), {"exposure": np.linspace(0.5, 2.0, 8)}),
    (liks.Binomial(), {"trials": 7.0 + np.arange(8)}),
    (liks.BetaBinomial(), {"trials": 7.0 + np.arange(8)}),
    (liks.HetProbit(), {}),
    (liks.Softmax(3), {}),
    (liks.Softmax(5), {}),
    (liks.Softmax(3).with_constant("logit_3", 0.0), {}),
    (liks.Ordinal(2), {}),
    (liks.Ordinal(5, cutpoint=-1.0, gap_2=0.4), {}),
    (liks.ZeroInflatedPoisson(), {}),
    (liks.ZeroInflatedPoisson(), {"exposure": np.linspace(0.5, 2.0, 8)}),
    (liks.ZeroInflatedNegativeBinomial(), {}),
    (liks.ZeroOneInflatedBeta(), {}),
    (liks.Inflated(liks.HetStudentT(nu=5.0)), {}),
    (liks.Inflated(liks.Poisson(), at=(3, 1)).with_constant("log_odds_1", -0.5), {}),
    (liks.Hurdle(liks.Poisson()), {"exposure": np.linspace(0.5, 2.0, 8)}),
    (Likelihood.from_scipy(stats.invgauss, mu="exp", scale=2.0), {}),
    (Likelihood.from_scipy("skewnorm", a="identity", loc="identity", scale="softplus"), {}),
    (Likelihood.from_scipy("nbinom", n="exp", p="logistic"), {}),
    (liks.Inflated(Likelihood.from_scipy("gamma", a="exp", scale="exp").with_constant(0)), {}),
    (liks.Hurdle(liks.LogLogisticSurvival().with_constant("log_shape", 1.5)), {}),
    (liks.Rounded(liks.HetGaussian()), {"rounding": np.linspace(0.1, 1.0, 8)}),
    (liks.Rounded(liks.StudentT(), 0.5), {}),
    (liks.Rounded(liks.HetLaplace(), 0.5), {}),
    pytest.param(liks.Rounded(liks.Beta(), 0.05), {}, marks=pytest.mark.long),
    (liks.Rounded(liks.WeibullSurvival(), 0.3), ALL_WAYS),
    pytest.param(liks.Inflated(liks.Rounded(liks.HetGamma(), 0.3)), {}, marks=pytest.mark.long),
]
ABSTRACT = {"Likelihood", "Survival", "Family", "Wrapper"}  # bases without a density


@pytest.mark.parametrize("lik, metadata", CASES, ids=lambda v: getattr(v, "name", None))
def test_shipped_likelihood_keeps_the_contract(lik, metadata):
    check_likelihood(lik, metadata=metadata)


def _subclasses(cls):
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def values_of(case):
    """What a case is made of, also of one that is marked."""
    return getattr(case, "values", case)


def test_no_shipped_class_is_without_a_case():
    covered = {type(lik).__name__ for lik, _ in map(values_of, CASES)} | ABSTRACT
    shipped = {c.__name__ for c in _subclasses(Likelihood) if c.__module__.startswith("chainedgp.")}
    assert {c for c in shipped if not c.startswith("_")} <= covered
    public = {k for k in liks.__all__ if inspect.isclass(getattr(liks, k))}
    assert public <= covered


# ---- a user's likelihood with nothing but its density ------------------------------------------


class Logistic(Likelihood):
    """One declared parameter, one metadata key."""

    latents = ("location", "log_scale")
    parameters = {"inflation": 1.5}

    def log_density(self, y, f, g, *, inflation, error):
        g = g + np.log(inflation) + np.log(error)
        z = np.abs(y - f) * np.exp(-g)
        return -z - g - 2 * np.log1p(np.exp(-z))


class Gamma(Likelihood):
    """A real parameter and a positive support."""

    latents = ("log_mean",)
    support = "positive"
    parameters = {"log_shape": 0.4}
    domains = {"log_shape": "real"}

    def log_density(self, y, f, *, log_shape):
        k = np.exp(log_shape)
        return xlogy(k, k) - k * f + xlogy(k - 1, y) - k * y * np.exp(-f) - gammaln(k)


class Geometric(Likelihood):
    """Counts."""

    latents = ("logit",)
    support = "counts"

    def log_density(self, y, f):
        return -np.logaddexp(0.0, -f) - y * np.logaddexp(0.0, f)


class Softmax(Likelihood):
    """Three categories, three latents."""

    latents = ("a", "b", "c")
    support = "categories"

    def log_density(self, y, *latents):
        top = np.logaddexp(np.logaddexp(latents[0], latents[1]), latents[2])
        picked = sum(np.where(y == k, f, 0.0) for k, f in enumerate(latents))
        return picked - top


class FiveNormal(Likelihood):
    """Five latents: scattered nodes."""

    latents = ("a", "b", "c", "d", "e")

    def log_density(self, y, *latents):
        return -0.5 * (y - sum(latents)) ** 2 - 0.5 * np.log(2 * np.pi)


USERS = [
    (Logistic(), {"error": np.linspace(0.5, 2.0, 8)}),
    (Logistic(inflation=0.7).with_constant("log_scale"), {"error": 1.0}),
    (Gamma(), {}),
    (Geometric(), {}),
    (Softmax(), {}),
    (FiveNormal(), {}),
]


@pytest.mark.parametrize("lik, metadata", USERS, ids=lambda v: getattr(v, "name", None))
def test_density_alone_is_enough(lik, metadata):
    check_likelihood(lik, metadata=metadata)


def test_given_targets_on_another_scale():
    y = np.random.default_rng(0).gamma(3.0, 2000.0, 12)
    check_likelihood(Gamma(), y=y)


def test_defaults_agree_with_scipy():
    lik, f, q = Gamma(), np.linspace(-1, 2, 7), np.array([0.01, 0.5, 0.99])[:, None]
    kw, k = lik.parameter_values(), np.exp(0.4)
    dist = stats.gamma(k, scale=np.exp(f) / k)
    np.testing.assert_allclose(lik.cdf(1.3, f, **kw), dist.cdf(1.3), atol=1e-10)
    np.testing.assert_allclose(lik.ppf(q, f, **kw), dist.ppf(q), rtol=1e-8)
    np.testing.assert_allclose(lik.conditional_mean(f, **kw), dist.mean(), rtol=1e-9)
    np.testing.assert_allclose(lik.conditional_variance(f, **kw), dist.var(), rtol=1e-9)
    student, g = HetStudentT(), np.array([-6.0, 0.0, 3.0])
    dist = stats.t(4.0, 7.0, np.exp(0.5 * g))
    for method, args, want in (("cdf", (7.5,), dist.cdf(7.5)), ("ppf", (0.01,), dist.ppf(0.01))):
        got = getattr(Likelihood, method)(student, *args, np.full(3, 7.0), g, nu=4.0)
        np.testing.assert_allclose(got, want, rtol=1e-8)
    assert np.all(np.isinf(Likelihood.conditional_variance(student, 0.0, g, nu=2.0)))
    counts, f = Poisson(), np.array([-2.0, 3.0, 12.0])  # up to 160,000: a moving window
    dist = stats.poisson(np.exp(f))
    np.testing.assert_allclose(Likelihood.conditional_mean(counts, f), dist.mean(), rtol=1e-9)
    np.testing.assert_array_equal(Likelihood.ppf(counts, q, f), dist.ppf(q))


def test_default_derivatives_are_exact_to_1e_minus_8():
    rng = np.random.default_rng(0)
    y, f, g = rng.normal(size=(3, 200))
    for lik, kw in ((HetGaussian(), {}), (HetStudentT(), {"nu": 4.0})):
        for name, tol in (("dlog_density", 1e-9), ("d2log_density", 1e-8)):
            for a, b in zip(
                getattr(Likelihood, name)(lik, y, f, g, **kw),
                getattr(lik, name)(y, f, g, **kw),
                strict=True,
            ):
                np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def test_default_starts_are_finite_and_near_the_maximum():
    rng = np.random.default_rng(0)
    y = 100.0 + 3.0 * rng.logistic(size=2000)
    location, log_scale = Logistic().initial_latents(y, inflation=1.0, error=np.ones(2000))
    assert abs(location - 100.0) < 0.5
    assert abs(log_scale - np.log(3.0)) < 0.1
    assert abs(Gamma().initial_latents(rng.gamma(2, 500.0, 800), log_shape=0.7)[0] - 6.9) < 0.1
    for y in (np.zeros(20), np.full(20, 1e6)):
        assert np.all(np.isfinite(Geometric().initial_latents(y)))
        assert np.all(np.isfinite(Logistic().initial_latents(y, inflation=1.0, error=1.0)))


# ---- mutants: each must be refused, naming the method ------------------------------------------


class SignError(HetGaussian):
    def dlog_density(self, y, f, g):
        df, dg = super().dlog_density(y, f, g)
        return df, -dg


class FactorTwo(HetGaussian):
    def expected_log_density(self, y, means, variances, *, nodes=20, **kw):
        value, dm, dv, dt = super().expected_log_density(y, means, variances, nodes=nodes, **kw)
        return value, dm, 2.0 * dv, dt


class WrongExpectation(HetGaussian):
    def expected_log_density(self, y, means, variances, *, nodes=20, **kw):
        variances = variances * [1.0, 2.0]
        value, dm, dv, dt = super().expected_log_density(y, means, variances, nodes=nodes, **kw)
        return value, dm, dv * [1.0, 2.0], dt


class JointForm(HetGaussian):
    """A user's own forms, which mutants below spoil."""

    def expected_log_density(self, y, means, variances, *, nodes=20):
        return super().expected_log_density(y, means, variances, nodes=nodes)

    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        return super().joint_expected_log_density(y, means, covariances, nodes=nodes)


class IgnoresCovariance(JointForm):
    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        diagonal = covariances * np.eye(2)
        return super().joint_expected_log_density(y, means, diagonal, nodes=nodes)


class WrongSignOfCovariance(JointForm):
    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
        result = super().joint_expected_log_density(y, means, sign * covariances, nodes=nodes)
        return result[0], result[1], sign * result[2], result[3]


class DoubledCovariance(JointForm):
    """The whole slope in V_12 = V_21 in both places."""

    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        value, dm, dV, dt = super().joint_expected_log_density(y, means, covariances, nodes=nodes)
        return value, dm, dV * (2.0 - np.eye(2)), dt


class UnevenCovariance(JointForm):
    """The whole slope in V_12, nothing in V_21."""

    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        value, dm, dV, dt = super().joint_expected_log_density(y, means, covariances, nodes=nodes)
        return value, dm, dV * np.array([[1.0, 2.0], [0.0, 1.0]]), dt


class OnlyVariances(JointForm):
    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        return self.expected_log_density(y, means, variances, nodes=nodes)


class NoNormaliser(Likelihood):
    latents = ("f", "g")

    def log_density(self, y, f, g):
        return -0.5 * (y - f) ** 2 * np.exp(-g)


class NoJacobian(Likelihood):
    latents = ("f",)
    support = "positive"

    def log_density(self, y, f):
        return stats.norm.logpdf(np.log(y), f, 1.0)


class WrongBroadcast(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g).reshape(-1, len(y)).mean(axis=0)


class MixesRows(HetGaussian):
    def log_density(self, y, f, g):
        value = super().log_density(y, f, g)
        return value[::-1] if value.ndim > 1 else value


class SinglePrecision(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g).astype(np.float32)


class ReturnsList(HetGaussian):
    def log_density(self, y, f, g):
        return list(super().log_density(y, f, g))


class ScalarsOnly(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g) if y > f else -g


class NotFinite(HetGaussian):
    def log_density(self, y, f, g):
        return np.where(y > 0, super().log_density(y, f, g), -np.inf)


class NanFarOut(HetGaussian):
    def log_density(self, y, f, g):
        return super().log_density(y, f, g) + 0.0 * np.exp(np.exp(np.abs(g) / 10.0))


class WrongCdf(HetGaussian):
    def cdf(self, y, f, g):
        return stats.norm.cdf(y, f, np.exp(g))


class WrongPpf(HetGaussian):
    def ppf(self, q, f, g):
        return stats.norm.ppf(q, f, np.exp(g))


class WrongMean(HetGaussian):
    def conditional_mean(self, f, g):
        return f + 0.01 * np.exp(g)


class WrongVariance(HetGaussian):
    def conditional_variance(self, f, g):
        return np.exp(0.5 * g) + 0.0 * f


class WrongSample(HetGaussian):
    def sample(self, rng, f, g, *, size=None):
        return f + 1.3 * (super().sample(rng, f, g, size=size) - f)


class WrongCurvature(HetGaussian):
    def d2log_density(self, y, f, g):
        a, b = super().d2log_density(y, f, g)
        return a, 2.0 * b


class WrongTheta(HetStudentT):
    def dlog_density_dtheta(self, y, f, g, *, nu):
        return (1.01 * super().dlog_density_dtheta(y, f, g, nu=nu)[0],)


class TooFew(HetGaussian):
    def dlog_density(self, y, f, g):
        return super().dlog_density(y, f, g)[:1]


class Mutates(HetGaussian):
    def log_density(self, y, f, g):
        value = super().log_density(y, f, g)
        f += 1.0
        return value


class BadStart(HetGaussian):
    def initial_latents(self, y):
        return np.array([np.nan, 0.0])


class BadNodes(HetGaussian):
    def required_nodes(self, y, means, variances, **kw):
        return np.full(len(y), 65)


class ForgetsExposure(Poisson):
    def expected_log_density(self, y, means, variances, *, nodes=20, exposure=1.0):
        return super().expected_log_density(y, means, variances, nodes=nodes)


MUTANTS = [
    (SignError, "dlog_density: derivative in log_variance disagrees"),
    (FactorTwo, "expected_log_density: dvariances of mean disagrees"),
    (WrongExpectation, "expected_log_density: value differs from quadrature"),
    (IgnoresCovariance, "joint_expected_log_density: value differs from quadrature"),
    (WrongSignOfCovariance, "joint_expected_log_density: value differs from quadrature"),
    (DoubledCovariance, "dvariances of mean and log_variance disagrees"),
    (UnevenCovariance, "joint_expected_log_density: dvariances must be symmetric"),
    (OnlyVariances, r"joint_expected_log_density: returns shape \(8, 2\) instead of \(8, 2, 2\)"),
    (NoNormaliser, "log_density: the density integrates to .* not 1"),
    (NoJacobian, "log_density: the density integrates to .* Jacobian"),
    (WrongBroadcast, r"log_density: returns shape \(8,\) instead of \(2, 2, 8\)"),
    (MixesRows, "log_density: on a grid differs"),
    (SinglePrecision, "log_density: returns float32"),
    (ReturnsList, "log_density: returns a list"),
    (ScalarsOnly, "log_density: raised ValueError"),
    (NotFinite, "log_density: is -inf inside the support"),
    (NanFarOut, "log_density: is NaN"),
    (WrongCdf, "cdf: differs from the integral"),
    (WrongPpf, "ppf: is not the inverse"),
    (WrongMean, "conditional_mean: differs"),
    (WrongVariance, "conditional_variance: differs"),
    (WrongSample, "sample: .* draws are"),
    (WrongCurvature, "d2log_density: second derivative in log_variance"),
    (WrongTheta, "dlog_density_dtheta: derivative in nu"),
    (TooFew, "dlog_density: must return 2 arrays"),
    (Mutates, "log_density: changes its input"),
    (BadStart, "initial_latents: is not finite"),
    (BadNodes, "required_nodes: must be"),
]


MOVING = {
    "genextreme": {"c": "identity", "loc": "identity", "scale": "exp"},
    "uniform": {"loc": "identity", "scale": "exp"},
    "expon": {"loc": "identity", "scale": "exp"},
    "genpareto": {"c": "identity", "loc": 0.0, "scale": "exp"},
    "beta": {"a": "exp", "b": "exp", "loc": "identity", "scale": "exp"},
    "pareto": {"b": "exp", "scale": "exp"},
    "weibull_min": {"c": "exp", "loc": "identity", "scale": "exp"},
    "powerlaw": {"a": "exp", "scale": "exp"},
    "arcsine": {"loc": "identity", "scale": "exp"},
    "semicircular": {"loc": "identity", "scale": "exp"},
}


def long_if(name, which):
    """The name as a parameter of a test, left to .ci/run where it takes more than a second."""
    return pytest.param(name, marks=pytest.mark.long) if name == which else name


@pytest.mark.parametrize("name", [long_if(name, "beta") for name in MOVING])
def test_densities_whose_ends_move_with_the_latents_keep_the_contract(name):
    check_likelihood(Likelihood.from_scipy(name, **MOVING[name]))


@pytest.mark.parametrize("name", MOVING)
def test_tables_of_densities_whose_ends_move(name):
    """cdf, quantiles and moments from the density alone, against scipy's own."""
    lik = Likelihood.from_scipy(name, **MOVING[name])
    latents = tuple(0.4 * np.random.default_rng(0).standard_normal((len(lik.latents), 12)))
    frozen, q = lik.distribution(*latents), np.array([0.01, 0.2, 0.5, 0.9, 0.999])[:, None]
    table = tabulate(lik, latents, {}, near=frozen.median())
    np.testing.assert_allclose(table.total, 1.0, atol=1e-5)
    np.testing.assert_allclose(table.cdf(frozen.ppf(q)), q + np.zeros(12), atol=1e-5)
    np.testing.assert_allclose(table.ppf(q), frozen.ppf(q), rtol=1e-5, atol=1e-5)
    finite = np.isfinite(frozen.var())
    for got, want in zip(table.moments(), (frozen.mean(), frozen.var()), strict=True):
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-5, atol=1e-5)


def test_a_wrong_density_with_moving_ends_is_refused():
    class WrongUniform(Likelihood):
        latents = ("centre", "log_width")

        def log_density(self, y, f, g):
            return np.where(np.abs(y - f) <= np.exp(g), -g, -np.inf)  # its width is 2 e^g

    with pytest.raises(ContractError, match="integrates to 2, not 1"):
        check_likelihood(WrongUniform())


def test_a_density_that_jumps_is_told_so():
    class Contaminated(Likelihood):
        """Normal, or with probability 5 % uniform from −5 to 45: right, but with two jumps."""

        latents = ("location", "log_scale")

        def log_density(self, y, f, g):
            normal = stats.norm.logpdf((y - f) * np.exp(-g)) - g
            uniform = np.where((y >= -5.0) & (y <= 45.0), -np.log(50.0), -np.inf)
            return np.logaddexp(np.log(0.95) + normal, np.log(0.05) + uniform)

    class Smooth(Contaminated):
        def log_density(self, y, f, g):
            normal = stats.norm.logpdf((y - f) * np.exp(-g)) - g
            return np.logaddexp(np.log(0.95) + normal, np.log(0.05) + stats.norm.logpdf(y, 20, 15))

    with pytest.raises(ContractError, match=r"jumps at y = (-5|45), .* without a jump"):
        check_likelihood(Contaminated())
    check_likelihood(Smooth())

    class Unnormalised(Smooth):
        def log_density(self, y, f, g):
            return super().log_density(y, f, g) + 0.01

    with pytest.raises(ContractError, match=r"integrates to 1\.01.*a normaliser"):
        check_likelihood(Unnormalised())


@pytest.mark.parametrize("support", ["real", "positive"])
def test_a_density_with_a_point_mass_is_told_of_inflated(support):
    class Mixed(Likelihood):
        latents = ("log_mean", "log_odds")

        def log_density(self, y, f, h):
            beside = np.where(y > 0.0, -y * np.exp(-f) - f - np.logaddexp(0.0, h), -np.inf)
            return np.where(y == 0.0, h - np.logaddexp(0.0, h), beside)

    Mixed.support = support
    words = r"probability at y = 0 and a density beside it; declare atoms = \(0,\), .* Inflated"
    for y in (None, np.array([0.0, 0.0, 1.5, 0.3, 2.0])):
        with pytest.raises(ContractError, match=words):
            check_likelihood(Mixed(), y)


@pytest.mark.parametrize("mutant, words", MUTANTS, ids=lambda v: getattr(v, "__name__", ""))
def test_mutant_is_refused_in_words(mutant, words):
    with pytest.raises(ContractError, match=words):
        check_likelihood(mutant())


def test_a_density_that_raises_is_one_fault():
    with pytest.raises(ContractError) as caught:
        check_likelihood(ScalarsOnly())
    assert "in 1 way:" in str(caught.value) and "NoneType" not in str(caught.value)


def test_a_class_is_no_object():
    with pytest.raises(InputError, match=r"check_likelihood\(ScalarsOnly\(\), …\)"):
        check_likelihood(ScalarsOnly)
    with pytest.raises(InputError, match=r"check_kernel\(RBF\(…\), …\)"):
        check_kernel(RBF)


def test_mutant_that_ignores_metadata_is_refused():
    check_likelihood(ForgetsExposure())  # right as long as there is no exposure
    with pytest.raises(ContractError, match="expected_log_density: value differs"):
        check_likelihood(ForgetsExposure(), metadata={"exposure": 2.0})


# ---- parameters, names, metadata, copies -------------------------------------------------------


def test_parameters_become_leaves_and_are_inherited():
    class Child(HetStudentT):
        parameters = {"extra": 2.0}
        domains = {"extra": "real"}

        def log_density(self, y, f, g, *, nu, extra):
            return super().log_density(y, f, g, nu=nu) + 0.0 * extra

    lik = Child(nu=6.0, extra=-1.0)
    assert lik.parameter_values() == {"nu": 6.0, "extra": -1.0}
    assert lik.parameter_keys == ("nu", "extra")
    assert lik.metadata_names == ()
    assert list(HetStudentT().parameter_values()) == ["nu"]
    lik.nu = 3.0
    assert lik.parameter_values()["nu"] == 3.0
    assert [p.name for p in lik.parameters] == ["nu", "extra"]


def test_an_author_may_write_an_init():
    class Sum(Likelihood):
        def __init__(self, count):
            self.latents = tuple(f"part_{k}" for k in range(count))
            super().__init__()

        def log_density(self, y, *latents):
            return -0.5 * (y - sum(latents)) ** 2 - 0.5 * np.log(2 * np.pi)

    assert Sum(2).latents == ("part_0", "part_1")
    check_likelihood(Sum(2))


def test_nu_stays_above_one():
    lik = HetStudentT(nu=1.5)
    lik.optimizer_array = np.array([-200.0])
    assert lik.parameter_values()["nu"] >= 1.0
    theta, x = (
        np.array([1.0001, 1.5, 4.0, 80.0]),
        AboveOne().finv(np.array([1.0001, 1.5, 4.0, 80.0])),
    )
    np.testing.assert_allclose(AboveOne().f(x), theta, rtol=1e-10)
    slope = (AboveOne().f(x + 1e-6) - AboveOne().f(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(AboveOne().gradfactor(theta, np.ones(4)), slope, rtol=1e-6)
    with pytest.raises(InputError, match="nu must be finite and above one"):
        HetStudentT(nu=0.5)


@pytest.mark.parametrize(
    "body, words",
    [
        ({"latents": ("size",)}, "'size' is taken"),
        ({"latents": ("naïve",)}, "cannot be a name"),
        ({"latents": ("a b",)}, "cannot be a name"),
        ({"latents": ("f", "f")}, "share a name"),
        ({"latents": "f"}, "non-empty tuple"),
        ({"latents": ()}, "non-empty tuple"),
        ({"latents": ("f",), "parameters": {"gradient": 1.0}}, "'gradient' is taken"),
        ({"latents": ("f",), "parameters": {"cdf": 1.0}}, "'cdf' is taken"),
        ({"latents": ("f",), "parameters": {"f": 1.0}}, "share a name"),
        ({"latents": ("f",), "parameters": {"s": -1.0}}, "s must be finite and positive"),
        ({"latents": ("f",), "parameters": {"s": 1.0}, "domains": {"s": "odd"}}, "Domain 'odd'"),
    ],
)
def test_bad_names_and_starts_are_refused(body, words):
    cls = type("Wrong", (Likelihood,), {**body, "log_density": lambda self, y, f: y - f})
    with pytest.raises(InputError, match=words):
        cls()


def test_unknown_parameters_and_metadata_are_refused():
    with pytest.raises(InputError, match="no parameter mu; it has nu"):
        HetStudentT(mu=1.0)
    lik = Logistic()
    assert lik.metadata_names == ("error",)
    with pytest.raises(InputError, match="needs Y_metadata with error"):
        lik.check_metadata([])
    with pytest.raises(InputError, match="'exposure', which Logistic does not use; it takes error"):
        lik.check_metadata(["error", "exposure"])
    with pytest.raises(InputError, match="needs Y_metadata with error"):
        check_likelihood(lik)


@pytest.mark.parametrize(
    "lik",
    [HetStudentT(nu=6.0), Logistic(inflation=3.0).with_constant("log_scale", 0.2), liks.Gaussian()],
    ids=lambda lik: lik.name,
)
def test_copies_are_equal_and_independent(lik):
    for other in (lik.copy(), copy.deepcopy(lik), pickle.loads(pickle.dumps(lik))):
        assert other.parameter_values() == lik.parameter_values()
        assert (other.latents, other.metadata_names) == (lik.latents, lik.metadata_names)
        assert str(other) == str(lik)  # values and constraints
        key, before = lik.parameter_keys[0], lik.parameter_values()
        setattr(other, key, 9.0)
        assert other.parameter_values()[key] == 9.0
        assert lik.parameter_values() == before


def test_constant_latent_is_the_base_with_that_latent_fixed():
    base = HetStudentT(nu=5.0)
    lik = base.with_constant("log_scale2", -0.7)
    assert lik.latents == ("location",)
    assert lik.parameter_values() == {"nu": 5.0, "log_scale2": -0.7}
    y, f = np.array([0.2, -1.0]), np.array([0.1, 0.4])
    kw = lik.parameter_values()
    want = stats.t.logpdf(y, 5.0, f, np.exp(-0.35))
    np.testing.assert_allclose(lik.log_density(y, f, **kw), want, rtol=1e-12)
    with pytest.raises(InputError, match="no latent of HetStudentT"):
        base.with_constant("scale")
    with pytest.raises(InputError, match="one latent only"):
        lik.with_constant("location")
    times = liks.LogLogisticSurvival().with_constant("log_shape", 0.4)
    t, f, full = np.array([0.3, 2.0]), np.array([0.1, -0.4]), np.array([0.4, 0.4])
    for method in ("log_survival", "log_hazard", "log_cdf"):
        got, want = getattr(times, method), getattr(liks.LogLogisticSurvival(), method)
        assert np.array_equal(got(t, f, log_shape=0.4), want(t, f, full))
    assert times.event_times and not lik.event_times


def test_rows_with_different_numbers_of_nodes_are_put_together():
    rng = np.random.default_rng(0)
    y, means = rng.normal(size=9), rng.normal(size=(2, 9)).T
    variances = rng.uniform(0.1, 1.0, (2, 9)).T
    kw = {"inflation": 1.0, "error": rng.uniform(0.5, 2.0, 9)}
    nodes = np.array([8, 20, 8, 12, 20, 8, 12, 20, 8])
    mixed = Logistic().expectation(y, means, variances, nodes, **kw)
    for level in (8, 12, 20):
        rows = nodes == level
        whole = Logistic().expectation(y, means, variances, np.full(9, level), **kw)
        for a, b in zip(mixed, whole, strict=True):
            np.testing.assert_allclose(a[rows], b[rows], rtol=1e-12)
            assert not np.allclose(a[~rows], b[~rows], rtol=1e-12, atol=0)


def test_constants_are_not_started_where_a_density_is_infinite_at_one_number():
    """With one row the exact location makes every shape possible: 6e7 is none to start from."""
    y = np.array([6e7])
    for exact in (y, np.exp([np.log(6e7)])):
        start = liks.LogLogisticSurvival().initial_latents(exact)
        assert np.isfinite(start).all() and np.abs(start).max() < 40.0


STEEP = {
    "GEV": liks.GEV(shape=-0.4),
    "GEV, less": liks.GEV(shape=-0.3),
    "GEV, close to the last": liks.GEV(shape=-0.49),
    "GeneralisedPareto": liks.GeneralisedPareto(-5.0, shape=-0.4),
    "BoxCoxT": liks.BoxCoxT(power="latent", nu="latent"),
    "GeneralisedPareto, close to the last": liks.GeneralisedPareto(shape=-0.49),
}


@pytest.mark.parametrize("name", [long_if(name, "BoxCoxT") for name in STEEP])
def test_a_density_that_falls_steeply_at_its_end_keeps_the_contract(name):
    check_likelihood(STEEP[name])


class SkewLogistic(Likelihood):
    """A user's likelihood, right in all it says, that mutants below spoil."""

    latents = ("location", "log_scale")
    parameters = {"skew": 1.0}

    def log_density(self, y, f, g, *, skew):
        z = (y - f) * np.exp(-g)
        return np.log(skew) - z - g - (skew + 1.0) * np.logaddexp(0.0, -z)

    def cdf(self, y, f, g, *, skew):
        return np.exp(-skew * np.logaddexp(0.0, -(y - f) * np.exp(-g)))


class ForgetsSkew(SkewLogistic):
    def cdf(self, y, f, g, *, skew):
        return super().cdf(y, f, g, skew=1.0)


class ForgetsNormaliser(SkewLogistic):
    def log_density(self, y, f, g, *, skew):
        return super().log_density(y, f, g, skew=skew) - np.log(skew)


class ForgetsTilt(Likelihood):
    """The tilt is any number, and starts at 0."""

    latents = ("location",)
    parameters = {"tilt": 0.0}
    domains = {"tilt": "real"}

    def log_density(self, y, f, *, tilt):
        return stats.norm.logpdf(y, f + tilt)

    def dlog_density_dtheta(self, y, f, *, tilt):
        return (y - f + 0.0 * tilt,)


@pytest.mark.parametrize(
    "cls, words",
    [
        (ForgetsSkew, "cdf: differs from the integral of the density, at skew = 1.7"),
        (ForgetsNormaliser, "log_density: the density integrates to .*, at skew = 1.7"),
        (ForgetsTilt, "dlog_density_dtheta: derivative in tilt disagrees .*, at tilt = 0.6"),
    ],
)
def test_a_fault_that_the_start_of_a_parameter_hides_is_found(cls, words):
    with pytest.raises(ContractError, match=words):
        check_likelihood(cls())


def test_other_values_of_parameters_keep_to_what_holds_them():
    check_likelihood(SkewLogistic())
    lik = ForgetsSkew()
    lik.skew.fix(warning=False)  # No other value is ever used.
    check_likelihood(lik)
    lik = ForgetsTilt()
    lik.tilt.constrain_bounded(-0.1, 0.2, warning=False)
    with pytest.raises(ContractError, match=r"at tilt = 0\.06"):
        check_likelihood(lik)
    assert lik.parameter_values() == {"tilt": 0.0}


def test_latents_in_another_order_are_told():
    class Swapped(SkewLogistic):
        def log_density(self, y, log_scale, location, *, skew):
            return super().log_density(y, log_scale, location, skew=skew)

    with pytest.raises(ContractError, match=r"log_density: takes \(log_scale, location\), but lat"):
        check_likelihood(Swapped())


def test_a_support_is_told_in_words():
    class Doubled(liks.GeneralisedPareto):
        def log_density(self, y, g, *, shape):
            return super().log_density(y, g, shape=shape) + np.log(2.0)

    with pytest.raises(ContractError, match="to 2, not 1, over the support of numbers above the "):
        check_likelihood(Doubled(-5.0))
