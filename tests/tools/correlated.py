"""Likelihoods with several latents, targets in every way of being seen, and correlated moments."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainedgp.likelihoods as liks
from chainedgp.likelihoods import Likelihood

TIMES = np.array([0.4, 1.3, 0.7, 2.2, 0.9, 1.6])
SEEN = {
    "censored": np.array([0.0, 1.0, -1.0, 2.0, 0.0, 2.0]),
    "y_upper": np.array([np.inf, np.inf, np.inf, 3.1, np.inf, np.inf]),
}
ENTRY = {**SEEN, "entry": np.array([0.1, 0.5, 0.2, 0.0, 0.0, 1.1])}
REAL = np.array([-1.2, 0.1, 0.4, 2.3, -0.3, 0.9])
UNIT = np.array([0.03, 0.2, 0.5, 0.71, 0.9, 0.988])
COUNTS = np.array([0.0, 1.0, 2.0, 5.0, 0.0, 9.0])
BINARY = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])

CASES: dict[str, tuple[Likelihood, np.ndarray, dict[str, Any]]] = {
    "HetGaussian": (liks.HetGaussian(), REAL, {}),
    "HetStudentT": (liks.HetStudentT(nu=3.0), REAL, {}),
    "HetLaplace": (liks.HetLaplace(), REAL, {}),
    "AsymmetricLaplace": (liks.AsymmetricLaplace(0.3), REAL, {}),
    "GEV": (liks.GEV(), REAL, {}),
    "GEVShape": (liks.GEVShape(), REAL, {}),
    "GeneralisedParetoShape": (liks.GeneralisedParetoShape(), TIMES, {}),
    "VonMises": (liks.VonMises(), REAL, {}),
    "SignalNoiseGaussian": (liks.SignalNoiseGaussian(), REAL, {}),
    "HetStudentTNu": (liks.HetStudentTNu(), REAL, {}),
    "Beta": (liks.Beta(), UNIT, {}),
    "BetaMeanPrecision": (liks.BetaMeanPrecision(), UNIT, {}),
    "SHASH": (liks.SHASH(skewness=0.4, tail=1.3), REAL, {}),
    "BoxCoxNormal": (liks.BoxCoxNormal(power=-0.7), TIMES, {}),
    "BoxCoxT": (liks.BoxCoxT(power=0.6, nu=6.0), TIMES, {}),
    "Tweedie": (liks.Tweedie(power=1.6), np.where(COUNTS, TIMES, 0.0), {"exposure": TIMES}),
    "HetGamma": (liks.HetGamma(), TIMES, {}),
    "AdditivePoisson": (liks.AdditivePoisson(), COUNTS, {"exposure": TIMES}),
    "NegativeBinomial": (liks.NegativeBinomial(), COUNTS, {"exposure": TIMES}),
    "BetaBinomial": (liks.BetaBinomial(), COUNTS, {"trials": COUNTS + 3.0}),
    "HetProbit": (liks.HetProbit(), BINARY, {}),
    "LogLogisticSurvival": (liks.LogLogisticSurvival(), TIMES, SEEN),
    "LogLogisticSurvival, entry": (liks.LogLogisticSurvival(), TIMES, ENTRY),
    "WeibullSurvival": (liks.WeibullSurvival(), TIMES, SEEN),
    "WeibullSurvival, entry": (liks.WeibullSurvival(), TIMES, ENTRY),
    "LogNormalSurvival": (liks.LogNormalSurvival(), TIMES, SEEN),
    "LogNormalSurvival, entry": (liks.LogNormalSurvival(), TIMES, ENTRY),
    "Softmax of 2": (liks.Softmax(2), BINARY, {}),
    "Softmax of 3": (liks.Softmax(3), np.array([0.0, 1.0, 2.0, 2.0, 1.0, 0.0]), {}),
    "ZeroInflatedPoisson": (liks.ZeroInflatedPoisson(), COUNTS, {}),
    "ZeroOneInflatedBeta": (
        liks.ZeroOneInflatedBeta(), np.array([0.0, 0.2, 0.5, 0.71, 1.0, 0.988]), {},
    ),
    "Hurdle of NegativeBinomial": (liks.Hurdle(liks.NegativeBinomial()), COUNTS, {}),
    "Hurdle of HetGamma": (liks.Hurdle(liks.HetGamma()), np.where(COUNTS, TIMES, 0.0), {}),
    "Inflated LogLogisticSurvival": (
        liks.Inflated(liks.LogLogisticSurvival()), np.array([0.4, 1.3, 0.7, 2.2, 0.0, 1.6]), SEEN,
    ),
    "Inflated WeibullSurvival, entry": (liks.Inflated(liks.WeibullSurvival()), TIMES, ENTRY),
    "constant of HetStudentTNu": (liks.HetStudentTNu().with_constant("log_nu", 1.2), REAL, {}),
    "constant of SignalNoiseGaussian": (
        liks.SignalNoiseGaussian().with_constant("log_variance", -0.3), REAL, {},
    ),
    "constant of Softmax": (liks.Softmax(3).with_constant("logit_3", 0.2), COUNTS % 3, {}),
    "constant of Inflated": (
        liks.ZeroOneInflatedBeta().with_constant("log_odds_0", -1.0), UNIT, {},
    ),
    "from_scipy": (
        Likelihood.from_scipy("logistic", loc="identity", scale="exp"), REAL, {},
    ),
}  # fmt: skip


def keywords(name: str) -> dict[str, Any]:
    """Parameters and metadata of a case."""
    lik, _, metadata = CASES[name]
    return {**lik.parameter_values(), **metadata}


def moments(b: int, n: int, rho: float, scale: float = 0.15, seed: int = 0) -> tuple[Any, Any]:
    """Means (n, b) and covariances (n, b, b) whose first pair has the correlation ±rho."""
    rng = np.random.default_rng(seed)
    means, sds = 0.4 * rng.standard_normal((n, b)), np.sqrt(scale * rng.uniform(0.5, 1.5, (n, b)))
    R = np.zeros((n, b, b))
    R[:, 0, 0] = 1.0
    for j in range(1, b):
        lean = 0.8 * rho * rng.standard_normal((n, j)) / max(1, j)
        lean[:, 0] = rho * (-1.0) ** (np.arange(n) + j) if j == 1 else lean[:, 0]
        lean = lean / np.maximum(1.0, np.linalg.norm(lean, axis=1) / abs(rho or 1.0))[:, None]
        R[:, j, :j], R[:, j, j] = lean, np.sqrt(1.0 - np.sum(lean**2, axis=1))
    C = R @ R.swapaxes(1, 2)
    return means, C * sds[:, :, None] * sds[:, None, :]
