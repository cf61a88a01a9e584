"""Noise models. `Likelihood` is the contract; a new one needs its latents and its log-density."""

from .. import numeric as numeric  # re-exported
from .additive_poisson import AdditivePoisson
from .base import Likelihood
from .beta import Beta
from .binary import Bernoulli
from .counts import Poisson
from .gaussian import Gaussian, HetGaussian
from .student_t import HetStudentT, StudentT
from .survival import LogLogistic, LogLogisticSurvival, Survival
from .wrappers import ConstantLatent

__all__ = [
    "AdditivePoisson",
    "Bernoulli",
    "Beta",
    "ConstantLatent",
    "Gaussian",
    "HetGaussian",
    "HetStudentT",
    "Likelihood",
    "LogLogistic",
    "LogLogisticSurvival",
    "Poisson",
    "StudentT",
    "Survival",
]
