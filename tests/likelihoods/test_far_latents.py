"""Latents and targets at the ends of what floats can hold: no answer is NaN, no density +inf."""

import numpy as np
import pytest
from scipy import stats

from chainedgp import likelihoods as L

FAR = np.array([0.0, 1.0, -1.0, 5.0, -5.0, 30.0, -30.0, 300.0, -300.0, 700.0, -700.0, 1e4, -1e4])
REAL = np.array([-1e300, -1e3, -1.0, 0.0, 1e-300, 1.0, 1e3, 1e300])
POSITIVE = np.array([1e-300, 1e-10, 1.0, 1e3, 1e300])
CASES = [
    (L.GEV(), REAL),
    (L.GEVShape(), REAL),
    (L.GeneralisedPareto(), POSITIVE),
    (L.GeneralisedParetoShape(3.0), 3.0 + POSITIVE),
    (L.SHASH(), REAL),
    (L.SHASH(skewness="latent", tail="latent"), REAL),
    (L.BoxCoxNormal(power="latent"), POSITIVE),
    (L.BoxCoxT(power="latent", nu="latent"), POSITIVE),
    (L.BetaBinomial(), np.array([0.0, 1.0, 3.0, 7.0])),
    (L.AsymmetricLaplace(0.9), REAL),
    (L.Tweedie(), np.array([0.0, *POSITIVE])),
    (L.ZeroInflatedNegativeBinomial(), np.array([0.0, 1.0, 3.0, 1e3, 1e15])),
    (L.VonMises(), np.array([-np.pi, -1.0, 0.0, 2.0, np.pi])),
]


@pytest.mark.parametrize(("lik", "y"), CASES, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_nan(lik, y):
    rng = np.random.default_rng(0)
    f = rng.choice(FAR, size=(len(lik.latents), 200))
    kw = {**lik.parameter_values(), **({"trials": 7.0} if "trials" in lik.metadata_names else {})}
    at = y[:, None]
    q = np.array([0.0, 1e-12, 1e-3, 0.5, 0.999, 1.0])[:, None]
    answers = {
        "log_density": lik.log_density(at, *f, **kw),
        "dlog_density": lik.dlog_density(at, *f, **kw),
        "dlog_density_dtheta": lik.dlog_density_dtheta(at, *f, **kw),
        "cdf": lik.cdf(at, *f, **kw),
        "log_tails": lik.log_tails(at, *f, **kw),
        "ppf": lik.ppf(q, *f, **kw),
        "conditional_mean": lik.conditional_mean(*f, **kw),
        "conditional_variance": lik.conditional_variance(*f, **kw),
        "sample": lik.sample(rng, *f, **kw),
        "natural_parameters": tuple(lik.natural_parameters(*f, **kw).values()),
        "quantile_slopes": lik.quantile_slopes(at, *f, **kw) or (),
    }
    for name, found in answers.items():
        for part in found if isinstance(found, tuple) else (found,):
            assert not np.isnan(part).any(), name
    assert not np.isposinf(answers["log_density"]).any()


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2])
def test_the_quantile_of_all_is_infinite(shape):
    """The tail of a negative shape goes on beyond its end: see `GEV`."""
    assert L.GEV(shape=shape).ppf(1.0, 2.0, 0.5, shape=shape) == np.inf
    assert L.GeneralisedPareto(shape=shape).ppf(1.0, 0.5, shape=shape) == np.inf


MIXED = [
    L.ZeroInflatedNegativeBinomial(),
    L.Hurdle(L.Poisson()),
    L.Hurdle(L.HetGamma()),
    L.Inflated(L.GEV(), (0.5, -1.0)),
    L.Inflated(L.Tweedie(), (2.0,)),
]


@pytest.mark.parametrize("lik", MIXED, ids=lambda lik: lik.name)
def test_tails_beside_point_masses_are_logarithms_of_the_cdf(lik):
    f = np.random.default_rng(1).normal(0.0, 0.5, (len(lik.latents), 5))
    y, kw = np.array([0.0, 0.5, 1.0, 3.0])[:, None], lik.parameter_values()
    lower, upper = lik.log_tails(y, *f, **kw)
    cdf = lik.cdf(y, *f, **kw)
    np.testing.assert_allclose(np.exp(lower), cdf, rtol=1e-9)
    np.testing.assert_allclose(np.exp(upper), 1.0 - cdf, atol=1e-12)


def test_the_upper_tail_beside_a_point_mass_keeps_its_digits():
    lik = L.Inflated(L.GEV(), (0.0,))
    upper = lik.log_tails(np.array(1e4), 0.0, 0.0, 0.0, shape=0.1)[1]
    exact = np.log(0.5) + stats.genextreme.logsf(1e4, -0.1)
    assert upper == pytest.approx(exact, rel=1e-10)
