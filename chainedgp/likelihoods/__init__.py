"""Noise models. `Likelihood` is the contract; a new one needs its latents and its log-density."""

from .base import Likelihood
from .beta import Beta, BetaMeanPrecision
from .classification import Bernoulli, HetProbit, Ordinal, Softmax
from .continuous import HetGamma, HetLaplace
from .counts import AdditivePoisson, Binomial, NegativeBinomial, Poisson
from .gaussian import Gaussian, HetGaussian, SignalNoiseGaussian
from .inflated import Hurdle, Inflated, ZeroInflatedPoisson, ZeroOneInflatedBeta
from .lifetimes import LogLogistic, LogLogisticSurvival, LogNormalSurvival, WeibullSurvival
from .scipy_wrapper import ScipyLikelihood
from .student_t import HetStudentT, HetStudentTNu, StudentT
from .survival import Survival
from .wrappers import ConstantLatent

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
