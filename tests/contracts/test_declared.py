"""What a likelihood may declare beside its density: documented, with a default, and checked."""

import inspect
import re

import numpy as np
import pytest
from paths import ROOT
from scipy import stats

import chainedgp.likelihoods as liks
from chainedgp.expectations.defaults import Expected
from chainedgp.likelihoods import HetGaussian, HetLaplace, HetStudentT, Likelihood
from chainedgp.predictive.distribution import Predictive
from chainedgp.predictive.mixtures import GaussianLatents, ScaleMixture
from chainedgp.testing import check_likelihood
from chainedgp.testing.report import ContractError

# Members that callers use and authors leave as they are.
FOR_CALLERS = {
    "check_metadata", "check_rows", "class_names", "event_times", "expectation", "few_nodes",
    "from_scipy", "has_cdf", "has_distribution", "has_draws", "has_form", "has_moments", "is_exact",
    "metadata_names", "own_expectation", "own_joint_expectation", "parameter_keys",
    "parameter_values", "required_nodes", "target_support", "tries_nodes", "unmet",
    "with_constant",
}  # fmt: skip


def ladder():
    """Names that stand before a colon in the docstring of `Likelihood`."""
    text = inspect.getdoc(Likelihood)  # As such it has the same margin with every Python.
    text = text[text.index("Required") :]
    lines = re.findall(r"(?:^|\. )((?:\w+, )*\w+):", text, flags=re.M)
    return {name for line in lines for name in line.split(", ")}


def test_the_ladder_and_the_guide_name_all_that_may_be_declared():
    members = {name for cls in (Likelihood, Expected) for name in vars(cls) if name[0] != "_"}
    assert members - FOR_CALLERS | {"parameters"} == ladder()
    guide = (ROOT / "docs" / "writing_a_likelihood.md").read_text("utf-8")
    table = guide[guide.index("## All that may be declared") :].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, flags=re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)", row)} == ladder()


def test_defaults_declare_nothing():
    class Plain(Likelihood):
        latents = ("f", "g")

        def log_density(self, y, f, g):
            return -0.5 * (y - f) ** 2 * np.exp(-g) - 0.5 * g - 0.5 * np.log(2.0 * np.pi)

    lik = Plain()
    assert lik.distribution(0.0, 0.0) is None and lik.normal_scale_mixture() is None
    assert lik.normal_in_first(np.zeros(3)) is None and not lik.infinite_mean
    given = (lik.has_distribution, lik.has_cdf, lik.has_moments, lik.has_draws, lik.event_times)
    assert not any(given) and not lik.own_expectation
    t, f = np.array([0.2, 1.0]), np.zeros(2)
    law = stats.norm(0.0, np.exp(0.2))
    g = np.full(2, 0.4)
    np.testing.assert_allclose(lik.log_survival(t, f, g), law.logsf(t), rtol=1e-8)
    np.testing.assert_allclose(lik.log_cdf(t, f, g), law.logcdf(t), rtol=1e-8)
    np.testing.assert_allclose(lik.log_hazard(t, f, g), law.logpdf(t) - law.logsf(t), rtol=1e-8)
    inflated = liks.Inflated(lik)
    assert not (inflated.has_cdf or inflated.has_moments or inflated.has_draws)


class Heavier(HetGaussian):
    """Another density, with all that follows from it but for one member of its parent."""

    log_density, dlog_density = HetLaplace.log_density, HetLaplace.dlog_density
    _form = HetLaplace._form
    scipy_name, _arguments = "laplace", HetLaplace._arguments
    conditional_mean = conditional_variance = cdf = ppf = None


for name in ("conditional_mean", "conditional_variance", "cdf", "ppf"):
    setattr(Heavier, name, getattr(Likelihood, name))


def test_an_inherited_normal_law_is_told_and_not_used():
    with pytest.raises(
        ContractError, match="normal_scale_mixture: gives another normal distribution"
    ):
        check_likelihood(Heavier())
    moments = np.array([[0.3, -0.5]]), np.array([[0.2, 0.1]])
    assert isinstance(Predictive(Heavier(), *moments)._mixture, GaussianLatents)
    assert isinstance(Predictive(HetStudentT(), *moments)._mixture, ScaleMixture)
    y = np.array([-1.0, 0.3, 2.0])
    want = Predictive(HetLaplace(), *moments)
    np.testing.assert_allclose(Predictive(Heavier(), *moments).pdf(y), want.pdf(y), rtol=1e-12)


class WrongSlope(liks.SignalNoiseGaussian):
    def normal_in_first(self, s, g):
        return np.exp(2.0 * s), np.exp(g)


class WrongShape(HetStudentT):
    def normal_scale_mixture(self, *, nu):
        return nu


class NotSymmetric(HetGaussian):
    symmetric = True


class NotExact(HetStudentT):
    exact_expectation = True


class NoSuchLatent(HetStudentT):
    quadrature_latent = "scale"


class NoSuchMetadata(liks.Poisson):
    positive_metadata = ("hours",)


class FallingLimits(HetStudentT):
    node_limits = (1.0, 0.5)


class FlatScore(HetStudentT):
    def node_score(self, y, means, variances, *, nu):
        return variances


class FiniteMean(liks.HetGamma):
    infinite_mean = True


class WrongSurvival(liks.WeibullSurvival):
    def log_cdf(self, t, f, g, **metadata):
        return super().log_survival(t, f, g)

    def cdf(self, y, f, g, **metadata):
        return np.exp(super().log_cdf(y, f, g))

    def dlog_density(self, y, f, g, **metadata):
        return liks.WeibullSurvival().dlog_density(y, f, g, **metadata)


class WrongHazard(liks.LogNormalSurvival):
    def log_hazard(self, t, f, g):
        return super().log_hazard(t, f, g) + np.log(2.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (WrongSlope, "normal_in_first: gives another normal distribution"),
        (WrongShape, "normal_scale_mixture: gives another normal distribution"),
        (NotSymmetric, "symmetric: the density changes if latents change places"),
        (NotExact, "exact_expectation: the expectation changes with the number of nodes"),
        (NoSuchLatent, "quadrature_latent: is 'scale', which is no latent"),
        (NoSuchMetadata, "positive_metadata: names 'hours', which is no metadata"),
        (FallingLimits, "node_limits: must rise"),
        (FlatScore, "node_score: returns shape"),
        (FiniteMean, "infinite_mean: is declared, but the mean is finite"),
        (WrongSurvival, "log_cdf: differs from log"),
        (WrongHazard, "log_hazard: differs from log_density − log_survival"),
    ],
)
def test_a_wrong_declaration_is_told(wrong, words):
    check_likelihood(wrong.__base__())  # which keeps its contract
    with pytest.raises(ContractError, match=words):
        check_likelihood(wrong())
