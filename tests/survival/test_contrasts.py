"""Contrasts of groups: sums over joint draws, and bands that know what groups share."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

import chainedgp as cgp
from chainedgp.errors import ExtrapolationWarning, InputError
from chainedgp.predictive import Predictive
from chainedgp.survival import CompetingRisks, contrasts

H = 2.0


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    n = 80
    X = pd.DataFrame({"age": rng.uniform(40, 80, n), "arm": np.resize(["old", "new"], n)})
    t = rng.exponential(np.exp(0.5 * (X["arm"] == "new") - 0.02 * (X["age"] - 60)))
    c = rng.exponential(3.0, n)
    lik = cgp.likelihoods.WeibullSurvival()
    seen = {"censored": (c < t).astype(float)}
    m = cgp.ChainedGP(X, np.minimum(t, c), lik, Y_metadata=seen, num_inducing=8, num_threads=1)
    m.optimize(max_iters=15, messages=False)
    return m, X


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_contrasts_of_single_rows(fitted):
    """Estimates are those of the rows; bands those of draws of both latents at both rows."""
    m, _ = fitted
    rows = pd.DataFrame({"age": 60.0, "arm": ["old", "new"]})
    found = contrasts(m, {"old": rows[:1], "new": rows[1:]}, horizon=H, draws=2000, bands=(5, 95))
    assert list(found.index) == ["old", "new", "new − old", "new / old"]
    mean, lower, upper = (part[:, 0] for part in m.predictive(rows).restricted_mean(H, (5, 95)))
    want = [*mean, mean[1] - mean[0], mean[1] / mean[0]]
    np.testing.assert_allclose(found["estimate"], want, rtol=1e-12)
    np.testing.assert_allclose(found["lower"][:2], lower, atol=0.02)
    np.testing.assert_allclose(found["upper"][:2], upper, atol=0.02)

    f = m.posterior_samples_f(rows, 2000, rng=1)  # (2, latents, draws)
    scale, shape = np.exp(f[:, 0]), np.exp(f[:, 1])
    t = np.linspace(0.0, H, 201)[:, None, None]
    drawn = integrate.simpson(np.exp(-((t / scale) ** shape)), x=t[:, 0, 0], axis=0)
    for name, values in (("new − old", drawn[1] - drawn[0]), ("new / old", drawn[1] / drawn[0])):
        want = np.percentile(values, [5, 95])
        np.testing.assert_allclose(found.loc[name, ["lower", "upper"]], want, atol=0.04)


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_contrasts_of_averages(fitted):
    m, X = fitted
    groups = {arm: X.assign(arm=arm)[:30] for arm in ("old", "new")}
    found = contrasts(m, groups, time=1.0, draws=200)
    means = [m.predictive(rows).sf([1.0]).mean() for rows in groups.values()]
    np.testing.assert_allclose(found["estimate"][:2], means, rtol=1e-12)
    assert (found["lower"] < found["estimate"]).all() and (found["estimate"] < found["upper"]).all()
    same = contrasts(m, {"a": X[:3], "b": X[:3]}, time=1.0, draws=50)
    np.testing.assert_allclose(same.loc["b − a"], 0.0, atol=1e-3)
    np.testing.assert_allclose(same.loc["b / a"], 1.0, atol=1e-2)


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_uncertain_constants_are_drawn_with_the_latents():
    """Bands of one group are those of the row, which are over the constant shape too."""
    X = np.linspace(0.0, 1.0, 60)[:, None]
    t = np.exp(0.5 * np.sin(4.0 * X[:, 0]) + 0.2 * np.random.default_rng(3).normal(size=60))
    seen = {"censored": (np.arange(60) % 5 == 0).astype(float)}
    lik = cgp.likelihoods.LogLogistic()
    m = cgp.ChainedGP(X, t, lik, Y_metadata=seen, num_inducing=6, num_threads=1)
    m.optimize(messages=False)
    assert m._predictor().constants is not None
    found = contrasts(m, {"a": X[:1], "b": X[20:21]}, time=1.5, draws=3200, bands=(5, 95))
    _, lower, upper = (p[:, 0] for p in m.predictive(X[[0, 20]]).sf([1.5], bands=(5, 95)))
    np.testing.assert_allclose(found["lower"][:2], lower, atol=0.015)
    np.testing.assert_allclose(found["upper"][:2], upper, atol=0.015)


def test_bad_arguments_of_contrasts(fitted):
    m, X = fitted
    with pytest.raises(InputError, match="dict of two or more"):
        contrasts(m, X, horizon=1.0)
    with pytest.raises(InputError, match="give horizon="):
        contrasts(m, {"a": X, "b": X})
    with pytest.raises(InputError, match="bands must be"):
        contrasts(m, {"a": X, "b": X}, time=1.0, bands=(95, 5))


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_a_horizon_far_beyond_the_data_warns_once(fitted, tmp_path):
    m, X = fitted
    last = float(m.Y.max())
    groups = {"a": X[:2], "b": X[2:4]}
    p = m.predictive(X[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        averages = m.over_hyperparameters(size=10, rng=0).predictive(X[:2])
    for call in (
        lambda h: contrasts(m, groups, horizon=h, draws=10),
        p.restricted_mean,
        averages.restricted_mean,
        lambda h: m.plot_restricted_mean("age", h, num=3),
    ):
        with pytest.warns(ExtrapolationWarning, match="far beyond the last time") as found:
            call(2.0 * last)
        assert len(found) == 1 and found[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(last)
    m.save(tmp_path / "m.cgp", data=False)
    others = (
        cgp.load(tmp_path / "m.cgp").predictive(X[:2]),
        Predictive(m.likelihood, np.zeros((1, 2)), np.ones((1, 2))),
    )
    for known_by_itself in others:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            known_by_itself.restricted_mean(20.0 * last)


def test_the_last_time_counts_ends_of_intervals():
    seen = {"censored": [2, 1, 2], "y_upper": [5.0, np.inf, np.inf]}
    lik = cgp.likelihoods.WeibullSurvival()
    m = cgp.ChainedGP([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0], lik, Y_metadata=seen)
    assert m._predictor().last_time == 5.0


def test_contrasts_of_competing_risks_say_what_there_is(fitted):
    m, X = fitted
    risks = CompetingRisks({"relapse": m, "death": m})
    with pytest.raises(InputError, match=r"cumulative_incidence.*risks\.models\['relapse'\]"):
        contrasts(risks, {"a": X[:1], "b": X[1:2]}, horizon=1.0)
