"""Noise models. `Likelihood` is the contract; a new one needs its latents and its log-density."""

from .. import numeric as numeric  # re-exported
from .additive_poisson import AdditivePoisson
from .base import Likelihood
from .beta import Beta
from .binary import Bernoulli
from .classes import Binomial, HetProbit, NegativeBinomial, Ordinal, Softmax
from .counts import Poisson
from .gaussian import Gaussian, HetGaussian
from .inflated import Hurdle, Inflated, ZeroInflatedPoisson, ZeroOneInflatedBeta
from .lifetimes import LogNormalSurvival, WeibullSurvival
from .noise import (
    BetaMeanPrecision,
    HetGamma,
    HetLaplace,
    HetStudentTNu,
    SignalNoiseGaussian,
)
from .scipy_wrapper import ScipyLikelihood
from .student_t import HetStudentT, StudentT
from .survival import LogLogistic, LogLogisticSurvival, Survival
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
