"""Bands over uncertain constants of a likelihood: draws, closed forms, and what they meet."""

import dataclasses
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp import likelihoods as liks
from chainedgp.errors import QuadratureWarning
from chainedgp.predictive import Predictive
from chainedgp.predictive.constants import DRAWS, ConstantsAt, normal_draws

K = cgp.kernels
RNG = np.random.default_rng(3)
X = np.linspace(0.0, 1.0, 60)[:, None]
NOISE = RNG.standard_normal(60)
Y = np.sin(4.0 * X[:, 0]) + 0.4 * NOISE
TIMES = np.exp(0.5 * Y)
AT = np.array([[0.1], [0.5], [0.9]])


def known_constants(m):
    """The same model, which takes the constants of the likelihood for known."""
    other = m.copy()
    other._widening = dataclasses.replace(m._widening, constants=None)
    return other


def with_q(m):
    """The model with q at its first hyperparameters, and what their uncertainty adds."""
    with warnings.catch_warnings():  # Few inducing inputs leave much open before a fit.
        warnings.simplefilter("ignore", QuadratureWarning)
        m.optimize(only="variational", messages=False)
    m._widen()
    return m


@pytest.fixture(scope="module")
def extremes():
    """Extremes with a constant shape."""
    y = stats.gumbel_r.ppf(stats.norm.cdf(NOISE), np.sin(4.0 * X[:, 0]), 0.5)
    return with_q(cgp.ChainedGP(X, y, liks.GEV(), num_inducing=6, num_threads=1))


@pytest.fixture(scope="module")
def survival():
    """A default fit of times whose shape is a constant."""
    seen = {"censored": (np.arange(60) % 5 == 0).astype(float)}
    m = cgp.ChainedGP(X, TIMES, liks.LogLogistic(), Y_metadata=seen, num_inducing=6, num_threads=1)
    m.optimize(messages=False)
    return m


# ---- draws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True])
def test_bands_are_those_of_draws_of_latents_and_constants(joint):
    """Two latents and a shape that goes with both: against many draws and scipy's quantiles."""
    mean, R = np.array([[10.0, 0.3]]), np.array([[[0.3], [-0.15]]])
    own = np.array([[0.3, 0.1 if joint else 0.0], [0.1 if joint else 0.0, 0.2]])
    rest = own @ own.T
    V = rest + R[0] @ R[0].T if joint else np.diag(rest + R[0] @ R[0].T)
    constants = ConstantsAt({"shape": 0.1 + 0.1 * normal_draws(1)[0]}, R)
    p = Predictive(liks.GEV(shape=0.1), mean, V[None], constants=constants)
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200_000)
    own = own if joint else np.sqrt(np.diag(np.diag(rest)))
    f, g = mean[0][:, None] + R[0] * z + own @ rng.standard_normal((2, z.size))
    for T in (5.0, 100.0):
        levels = stats.genextreme.ppf(1.0 - 1.0 / T, -(0.1 + 0.1 * z), f, np.exp(g))
        got = [float(part[0, 0]) for part in p.return_level(T, level=0.9)]
        want = np.quantile(levels, [0.5, 0.05, 0.95])
        np.testing.assert_allclose(got, want, atol=0.09 * levels.std())


def test_draws_of_constants_are_standard_normal():
    for count in (1, 2, 3):
        z = normal_draws(count)
        assert z.shape == (count, DRAWS)
        np.testing.assert_allclose(z.mean(1), 0.0, atol=1e-12)
        np.testing.assert_allclose(z @ z.T / DRAWS, np.eye(count), atol=1e-12)


def test_what_no_constant_moves_is_exact_as_before(extremes):
    known = known_constants(extremes)
    for quantity in ("location", "scale"):
        found = extremes.predictive(AT).parameters()[quantity]
        np.testing.assert_array_equal(found, known.predictive(AT).parameters()[quantity])


# ---- closed forms -------------------------------------------------------------------------------


def test_a_centile_of_a_normal_sample_is_as_uncertain_as_theory_says():
    """N(μ, σ²) of 60 rows: the 97.5th centile has the variance σ²/n + z² σ²/(2n).

    The curvature is a difference over a fifth of a logarithm, which makes bands 5 % wider.
    """
    y = stats.norm.ppf((np.arange(60) + 0.5) / 60)
    m = cgp.ChainedGP(
        X, y, liks.Gaussian(), kernels=K.Bias(1, variance=100.0), num_inducing=1, num_threads=1,
        hyperparameters="uncertain",
    )  # fmt: skip
    for leaf in (m.kernels[0].variance, m.mean_functions):
        leaf.fix()
    m.optimize(messages=False)
    centile, lower, upper = m.predictive(AT).centiles([97.5], (5.0, 95.0))
    s = y.std()
    np.testing.assert_allclose(centile, 1.96 * s, rtol=0.02)
    sd = s * np.sqrt((1.0 + 0.5 * 1.96**2) / 60)
    np.testing.assert_allclose(upper - lower, 2.0 * 1.645 * sd, rtol=0.08)


def test_uncertain_degrees_of_freedom_are_never_those_of_a_cauchy():
    """ν is log-normal above 1: normal on its own scale it would be 1 in some draws."""
    m = cgp.ChainedGP(X, Y, liks.HetStudentT(), num_inducing=5, num_threads=1)
    m.optimize(messages=False)
    nu, own = np.sort(m._widening.constants.values["nu"]), m.likelihood.parameter_values()["nu"]
    assert nu[0] > 1.2 and nu[-1] > 2.0 * own
    np.testing.assert_allclose((nu[:32] - 1.0) * (nu[:31:-1] - 1.0), (own - 1.0) ** 2, rtol=1e-6)
    table = m.predict_centiles(AT, [99.0])
    known = known_constants(m).predict_centiles(AT, [99.0])
    width, narrow = (t["99% upper"] - t["99% lower"] for t in (table, known))
    assert (width < 4.0 * narrow).all()


# ---- what stays, and what it meets --------------------------------------------------------------


def test_predictions_of_targets_stay_as_they_are(extremes):
    now, known = extremes.predictive(AT), known_constants(extremes).predictive(AT)
    np.testing.assert_array_equal(now.mean, known.mean)
    np.testing.assert_array_equal(now.variance, known.variance)
    levels = [0.05, 0.5, 0.95]
    np.testing.assert_array_equal(now.ppf(levels), known.ppf(levels))
    np.testing.assert_array_equal(now.logpdf(np.array([0.2])), known.logpdf(np.array([0.2])))
    for a, b in zip(now.parameter_means().values(), known.parameter_means().values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_curves_of_survival_have_wider_bands(survival):
    t = np.array([0.5, 2.0])
    now, known = survival.predictive(AT), known_constants(survival).predictive(AT)
    for name in ("sf", "hazard", "cumulative_hazard"):
        wide, narrow = (getattr(p, name)(t, bands=(5, 95)) for p in (now, known))
        np.testing.assert_array_equal(wide[0], narrow[0])
        assert ((wide[2] - wide[1]) > (narrow[2] - narrow[1])).mean() > 0.6, name
    estimate, lower, upper = now.restricted_mean(3.0, bands=(5, 95))
    assert ((lower < estimate) & (estimate < upper)).all()
    median = now.median(bands=(5, 95))  # No shape moves it.
    np.testing.assert_allclose(median, known.median(bands=(5, 95)), rtol=0.03)


@pytest.mark.parametrize("data", [True, False])
def test_files_copies_and_pickles_keep_them(extremes, data, tmp_path):
    m = extremes
    m.save(tmp_path / "model.cgp", data=data)
    wanted = m.predictive(AT).return_level(100.0)
    for other in (cgp.load(tmp_path / "model.cgp"), m.copy(), pickle.loads(pickle.dumps(m))):
        np.testing.assert_allclose(other.predictive(AT).return_level(100.0), wanted, rtol=1e-10)


MODELS = {
    "a power": (TIMES, liks.BoxCoxNormal, 1),
    "one constant": (Y, liks.HetStudentT, 1),
    "two constants": (Y, liks.SHASH, 2),
    "a latent as a constant": (Y, lambda: liks.HetGaussian().with_constant("log_variance"), 1),
    "one latent": (Y, liks.StudentT, 2),
    "rounding": (np.round(Y, 1), lambda: liks.Rounded(liks.Gaussian(), 0.1), 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_centiles_have_bands_whatever_the_constants(name, tmp_path):
    y, make, count = MODELS[name]
    m = with_q(cgp.ChainedGP(X, y, make(), num_inducing=5, num_threads=1))
    assert len(m._widening.constants.values) == count
    table = m.predict_centiles(pd.DataFrame({"x": AT[:, 0]}), [90.0])
    assert (table["90% lower"] < table["90%"]).all() and (table["90%"] < table["90% upper"]).all()
    known = known_constants(m).predict_centiles(AT, [90.0])
    width, narrow = (t["90% upper"] - t["90% lower"] for t in (table, known))
    # Latents may take back a part of what a constant does: bands need not be wider everywhere.
    assert (width > 0.8 * narrow).all() and not np.allclose(width, narrow, rtol=1e-3)
    m.save(tmp_path / "model.cgp")
    again = cgp.load(tmp_path / "model.cgp").predict_centiles(AT, [90.0])
    np.testing.assert_allclose(again.to_numpy(), table.to_numpy(), rtol=1e-10)


def test_constants_that_are_fixed_have_no_part_in_bands():
    m = cgp.ChainedGP(X, Y, liks.HetStudentT(), num_inducing=5, num_threads=1)
    m.likelihood.nu.fix()
    assert with_q(m)._widening.constants is None
