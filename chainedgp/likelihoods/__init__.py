"""Likelihoods p(y | f), the noise models; `Likelihood` is the contract that a new one fulfils."""

from .angles import VonMises
from .beta import Beta, BetaMeanPrecision
from .box_cox import BoxCoxNormal, BoxCoxT
from .classification import Bernoulli, HetProbit, Ordinal, Softmax
from .continuous import AsymmetricLaplace, HetGamma, HetLaplace
from .contract import Likelihood
from .counts import AdditivePoisson, BetaBinomial, Binomial, NegativeBinomial, Poisson
from .extremes import GEV, GeneralisedPareto, GeneralisedParetoShape, GEVShape
from .gaussian import Gaussian, HetGaussian, SignalNoiseGaussian
from .lifetimes import LogLogistic, LogLogisticSurvival, LogNormalSurvival, WeibullSurvival
from .shapes import SHASH
from .student_t import HetStudentT, HetStudentTNu, StudentT
from .survival import Survival
from .tweedie import Tweedie
from .wrappers.constant import ConstantLatent
from .wrappers.inflated import (
    Hurdle,
    Inflated,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    ZeroOneInflatedBeta,
)
from .wrappers.rounded import Rounded
from .wrappers.scipy import ScipyLikelihood

__all__ = [
    "GEV",
    "SHASH",
    "AdditivePoisson",
    "AsymmetricLaplace",
    "Bernoulli",
    "Beta",
    "BetaBinomial",
    "BetaMeanPrecision",
    "Binomial",
    "BoxCoxNormal",
    "BoxCoxT",
    "ConstantLatent",
    "GEVShape",
    "Gaussian",
    "GeneralisedPareto",
    "GeneralisedParetoShape",
    "HetGamma",
    "HetGaussian",
    "HetLaplace",
    "HetProbit",
    "HetStudentT",
    "HetStudentTNu",
    "Hurdle",
    "Inflated",
    "Likelihood",
    "LogLogistic",
    "LogLogisticSurvival",
    "LogNormalSurvival",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Rounded",
    "ScipyLikelihood",
    "SignalNoiseGaussian",
    "Softmax",
    "StudentT",
    "Survival",
    "Tweedie",
    "VonMises",
    "WeibullSurvival",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "ZeroOneInflatedBeta",
]
