"""Noise models. `Likelihood` is the contract; a new one needs its latents and its log-density."""

from .beta import Beta, BetaMeanPrecision
from .classification import Bernoulli, HetProbit, Ordinal, Softmax
from .continuous import HetGamma, HetLaplace
from .contract import Likelihood
from .counts import AdditivePoisson, Binomial, NegativeBinomial, Poisson
from .gaussian import Gaussian, HetGaussian, SignalNoiseGaussian
from .lifetimes import LogLogistic, LogLogisticSurvival, LogNormalSurvival, WeibullSurvival
from .student_t import HetStudentT, HetStudentTNu, StudentT
from .survival import Survival
from .wrappers.constant import ConstantLatent
from .wrappers.inflated import Hurdle, Inflated, ZeroInflatedPoisson, ZeroOneInflatedBeta
from .wrappers.scipy import ScipyLikelihood

__all__ = [
    "AdditivePoisson",
    "Bernoulli",
    "Beta",
    "BetaMeanPrecision",
    "Binomial",
    "ConstantLatent",
    "Gaussian",
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
    "ScipyLikelihood",
    "SignalNoiseGaussian",
    "Softmax",
    "StudentT",
    "Survival",
    "WeibullSurvival",
    "ZeroInflatedPoisson",
    "ZeroOneInflatedBeta",
]
