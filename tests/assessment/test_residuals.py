"""z-scores and quantile residuals: normal where the model is right, for all sorts of targets."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp import metrics
from chainedgp.errors import InputError
from chainedgp.predictive import Predictive

L = cgp.likelihoods


def at(likelihood, latents, rows, variance=1e-12, metadata=None):
    """Predictions of rows whose latents are all but known."""
    means = np.tile(latents, (rows, 1))
    return Predictive(likelihood, means, np.full(means.shape, variance), metadata)


CASES = {
    "SHASH": (L.SHASH(skewness=0.5, tail=1.4), (0.3, -0.5)),
    "BoxCoxT": (L.BoxCoxT(power=-0.5, nu=5.0), (1.0, -1.5)),
    "Tweedie": (L.Tweedie(power=1.5), (0.2, 0.3)),
    "NegativeBinomial": (L.NegativeBinomial(), (1.0, -0.5)),
    "Bernoulli": (L.Bernoulli(), (0.4,)),
    "ZeroOneInflatedBeta": (L.ZeroOneInflatedBeta(), (0.4, 0.7, -0.5, -0.3)),
}


@pytest.mark.parametrize("name", CASES)
def test_residuals_of_the_true_model_are_normal(name):
    likelihood, latents = CASES[name]
    kw = likelihood.parameter_values()
    rows = 100 if name == "Tweedie" else 300
    f = [np.full(rows, v) for v in latents]
    y = likelihood.sample(np.random.default_rng(4), *f, **kw)
    z = metrics.quantile_residuals(at(likelihood, latents, rows), y, rng=1)
    assert z.shape == (rows,) and np.isfinite(z).all()
    assert stats.kstest(z, "norm").pvalue > 0.005


def test_residuals_are_the_formula():
    y = np.array([-1.0, 0.3, 2.0])
    z = metrics.quantile_residuals(at(L.HetGaussian(), (0.5, np.log(4.0)), 3), y)
    np.testing.assert_allclose(z, (y - 0.5) / 2.0, rtol=1e-6)
    far = metrics.quantile_residuals(at(L.HetGaussian(), (0.0, 0.0), 2), [1e3, -1e3])
    assert np.isfinite(far).all() and far[0] == pytest.approx(8.2, abs=0.1) and far[1] < -8.0


def test_censored_times_are_spread_over_what_they_may_have_been():
    rng = np.random.default_rng(7)
    lik, f = L.LogLogisticSurvival(), (1.0, 0.5)
    t = lik.sample(rng, *(np.full(400, v) for v in f))
    end = rng.uniform(0.5, 6.0, 400)
    seen = {"censored": (t > end).astype(float)}
    p = at(lik, f, 400, metadata=seen)
    assert stats.kstest(metrics.quantile_residuals(p, np.minimum(t, end)), "norm").pvalue > 0.005
    same = metrics.quantile_residuals(p, np.minimum(t, end), rng=0)
    np.testing.assert_array_equal(same, metrics.quantile_residuals(p, np.minimum(t, end)))


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 5.0, 60))
    y = np.sin(x) + 0.3 * rng.normal(size=60)
    X = pd.DataFrame({"age": x}, index=np.arange(100, 160))
    m = cgp.ChainedGP(X, pd.Series(y, index=X.index, name="score"), L.HetGaussian(),
                      num_inducing=8, num_threads=1)  # fmt: skip
    m.optimize()
    return m, X, y


def test_z_scores_of_a_model(model):
    m, X, y = model
    z = m.z_scores(X, y)
    np.testing.assert_array_equal(z, m.z_scores())
    np.testing.assert_allclose(stats.norm.cdf(z), m.predict_cdf(X, y[:, None])[:, 0], atol=1e-6)
    assert z.std() == pytest.approx(1.0, abs=0.15)
    with pytest.raises(InputError, match="both inputs and targets"):
        m.z_scores(X)
    with pytest.raises(InputError, match="in another order"):
        m.z_scores(X, pd.Series(y, index=X.index)[::-1])
    classes = cgp.ChainedGP(np.arange(6.0), np.arange(6) % 3, L.Softmax(3), num_inducing=3)
    with pytest.raises(InputError, match="no order"):
        classes.z_scores()
    with pytest.raises(InputError, match="no order"):
        classes.predictive([[0.0]]).centiles()


# ---- centiles ------------------------------------------------------------------------------------


def test_centiles_are_quantiles_given_the_latents():
    """Of one latent the centile is a shift of it; of two its band is that of many draws."""
    p = Predictive(L.Gaussian(0.25), np.array([[1.0], [2.0]]), np.array([[0.04], [0.09]]))
    middle, low, high = p.centiles((10, 50, 90), bands=(5, 95))
    z = stats.norm.ppf([0.1, 0.5, 0.9])
    np.testing.assert_allclose(middle, np.array([[1.0], [2.0]]) + 0.5 * z, rtol=1e-9)
    half = 1.6448536269514722 * np.array([[0.2], [0.3]])
    np.testing.assert_allclose(high - low, 2.0 * half + 0 * middle, rtol=1e-9)
    np.testing.assert_array_equal(p.centiles((10, 50, 90)), middle)
    two = Predictive(L.HetGaussian(), np.array([[1.0, -0.5]]), np.array([[0.2, 0.3]]))
    found = two.centiles((3, 97), bands=(10, 90))
    draws = np.random.default_rng(0).normal(size=(2, 200_000))
    f, g = 1.0 + np.sqrt(0.2) * draws[0], -0.5 + np.sqrt(0.3) * draws[1]
    curve = f + np.exp(0.5 * g) * stats.norm.ppf([[0.03], [0.97]])
    want = np.quantile(curve, [0.5, 0.1, 0.9], axis=1)
    np.testing.assert_allclose(np.array(found)[:, 0], want, atol=0.02)
    spread = np.diff(two.ppf([0.03, 0.97]))[0, 0]  # of a new target: it is wider
    assert spread > found[0][0, 1] - found[0][0, 0]


def test_centiles_do_not_cross_and_know_metadata():
    lik = L.Poisson()
    p = Predictive(
        lik, np.zeros((3, 1)), np.full((3, 1), 0.1), {"exposure": np.array([1, 5, 20.0])}
    )
    curves = p.centiles((3, 25, 50, 75, 97))
    assert (np.diff(curves, axis=1) >= 0).all() and (np.diff(curves, axis=0) >= 0).all()
    np.testing.assert_array_equal(curves[:, 2], stats.poisson([1, 5, 20]).ppf(0.5))
    for wrong in ((), (0.0, 50.0), "many"):
        with pytest.raises(InputError, match="centiles must be percentages"):
            p.centiles(wrong)
    for wrong in ((95, 5), (5, 50, 95)):
        with pytest.raises(InputError, match="two percentages, lower and upper"):
            p.centiles((50,), bands=wrong)


def test_a_table_of_centiles_is_a_frame(model):
    m, X, _ = model
    table = m.predict_centiles(X.iloc[:4], (3, 50, 97.5))
    assert list(table.columns[:4]) == ["3%", "3% lower", "3% upper", "50%"]
    assert list(table.index) == [100, 101, 102, 103] and "97.5% upper" in table.columns
    assert (table["50% lower"] < table["50%"]).all() and (table["50%"] < table["50% upper"]).all()
    plain = m.predict_centiles(X.iloc[:4], (3, 50, 97.5), bands=None)
    assert list(plain.columns) == ["3%", "50%", "97.5%"]
    np.testing.assert_allclose(plain["50%"], m.predictive(X.iloc[:4]).centiles((50,))[:, 0])
