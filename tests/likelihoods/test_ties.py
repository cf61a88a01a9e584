"""Targets that several rows share: found, spread, told; no noise vanishes at them."""

import warnings

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.data.rows import Rows
from chainedgp.errors import ConvergenceWarning, InputError, NoiseWarning, TargetWarning
from chainedgp.likelihoods.ties import OUTER, Ties, expectation, log_density

RNG = np.random.default_rng(0)


def ties_of(y, likelihood=None, **metadata):
    y = np.asarray(y, dtype=float)
    return Ties.of(likelihood or L.HetGaussian(), Rows(np.zeros((len(y), 1)), y, metadata))


@pytest.mark.parametrize("step", [1.0, 0.5, 0.05, 1.0 / 16.0, 0.1, 0.01, 1e-3, 300.0])
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_the_step_of_a_scale_is_found(step, offset):
    """Also where a float is not the decimal that it stands for, by sums or by products."""
    k = RNG.poisson(5.0, size=300)
    for y in (offset + step * k, np.array([sum([step] * j) + offset for j in k])):
        found = ties_of(y)
        assert found.step == pytest.approx(step, rel=1e-6)
        inner = (found.values > np.quantile(y, 0.1)) & (found.values < np.quantile(y, 0.9))
        width = (found.above - found.below)[inner] / (2.0 * OUTER)
        np.testing.assert_allclose(width, 0.5 * step, rtol=1e-6)


def test_targets_that_differ_have_no_ties():
    y = RNG.normal(size=500)
    assert ties_of(y) is None
    assert ties_of(np.append(y, y[:3])) is None  # These are too few to matter.
    assert ties_of(np.float32(y)) is None
    assert ties_of(np.round(y, 1), L.Rounded(L.HetGaussian(), 0.1)) is None
    assert ties_of(np.abs(np.round(3.0 * y)), L.Poisson()) is None


@pytest.mark.parametrize("share", [0.05, 0.5, 0.97])
def test_a_value_of_its_own_is_as_wide_as_a_part_of_the_others(share):
    n = 400
    y = RNG.normal(size=n)
    y[: int(share * n)] = 0.0
    found = ties_of(y)
    assert found.largest == (0.0, share) and found.step == 0.0
    assert found.is_atom == (share >= 0.1)
    others = np.abs(y[int(share * n) :])
    rank = min(share * n / 2.0, len(others) / 8.0)
    width = (found.above - found.below)[0] / (2.0 * OUTER)
    assert width == pytest.approx(0.5 * np.sort(others)[int(np.ceil(rank)) - 1])


def test_positive_targets_are_spread_by_their_logarithms():
    y = np.round(np.exp(RNG.normal(size=300)), 1) + 0.1
    found = ties_of(y, L.HetGamma())
    assert (found.below > 0.0).all()
    np.testing.assert_allclose(np.sqrt(found.below * found.above), found.values)
    shares = np.clip(np.round(RNG.uniform(size=300), 1), 0.1, 0.9)
    found = ties_of(shares, L.Beta())
    assert (found.below > 0.0).all() and (found.above < 1.0).all()


def test_atoms_and_censored_rows_are_left_alone():
    y = np.where(np.arange(200) % 2, 0.0, RNG.gamma(2.0, size=200))
    assert ties_of(y, L.Inflated(L.HetGamma())) is None
    times = np.where(np.arange(200) % 2, 5.0, RNG.gamma(2.0, size=200))
    assert ties_of(times, L.WeibullSurvival(), censored=np.arange(200) % 2.0) is None
    found = ties_of(times, L.WeibullSurvival())
    rows = found.find(np.array([5.0, 5.0, 1.0]), {"censored": np.array([0.0, 1.0, 0.0])})[0]
    assert list(rows) == [0]


def test_expectation_is_the_mean_over_the_interval():
    """For a Gaussian that is w²/24 e^{−m_g + v_g/2} less, as the mean over the interval has it."""
    y = np.round(RNG.normal(size=60), 1)
    found, lik = ties_of(y), L.HetGaussian()
    means, variances = RNG.normal(size=(60, 2)), RNG.uniform(0.1, 0.5, (60, 2))
    rows, below, above = found.find(y, {})
    got = expectation(found, lik, y, means, variances, 1, {})
    plain = lik.expectation(y, means, variances, 1)
    less = np.zeros(60)
    less[rows] = (0.5 * (above - below) / OUTER) ** 2 / 24.0
    less *= np.exp(0.5 * variances[:, 1] - means[:, 1])
    np.testing.assert_allclose(got[0], plain[0] - less)
    np.testing.assert_allclose(got[1][:, 1], plain[1][:, 1] + less)
    np.testing.assert_allclose(got[2][:, 1], plain[2][:, 1] - 0.5 * less)
    width = np.zeros(60)
    width[rows] = (above - below) / (2.0 * OUTER)
    f, g = means.T
    jensen = L.Rounded(lik).log_density(y, f, g, rounding=np.maximum(width, 1e-9))
    mean = log_density(found, lik, y, [f, g], {})
    assert (mean <= jensen + 1e-9).all()
    variance = np.exp(g)  # The loss is of the order of the variance of log p in the interval.
    slack = width**2 * (y - f) ** 2 / variance**2 + width**4 / variance**2
    assert (mean >= jensen - slack - 1e-9).all()


def rounded_rows(n=150, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.round(1.2 * np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(n))


def quiet(*args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TargetWarning)
        return cgp.ChainedGP(*args, **keywords)


@pytest.mark.parametrize("likelihood", [L.HetGaussian(), L.HetStudentT(), L.HetLaplace()], ids=str)
def test_no_noise_vanishes_at_three_integers(likelihood):
    X, y = rounded_rows()
    m = quiet(X, y, likelihood, num_inducing=20)
    assert m.optimize().converged
    low, high = m.predictive(X).interval(0.9)
    assert (high - low).min() > 0.3
    assert 0.85 < np.mean((low[:, 0] <= y) & (y <= high[:, 0])) <= 1.0


def test_no_noise_vanishes_at_an_atom():
    X, y = rounded_rows()
    y = np.where(X[:, 0] < 1.0, 0.0, y + 0.3 * X[:, 1])
    m = quiet(X, y, L.HetStudentT(), num_inducing=20)
    assert m.optimize().converged
    low, high = m.predictive(X).interval(0.9)
    assert (high - low).min() > 0.02


def test_it_is_told():
    X, y = rounded_rows()
    with pytest.warns(TargetWarning, match=r"4 different values.*Rounded"):
        m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=5)
    assert "multiples of 1" in str(m.summary())
    with pytest.warns(TargetWarning, match="Inflated") as told:
        cgp.ChainedGP(X, np.where(X[:, 0] < 0.0, 0.0, X[:, 1]), L.HetGaussian(), num_inducing=5)
    assert len(told) == 1 and told[0].filename == __file__
    m = cgp.ChainedGP(X, np.round(np.sin(X[:, 0]), 2), L.HetGaussian(), num_inducing=5)
    assert "repeated" in str(m.summary())  # This is fine enough to need no warning.


def test_kernels_that_are_given_are_left_alone_and_ties_can_be_chosen(tmp_path):
    X, y = rounded_rows()
    given = {"kernels": cgp.kernels.RBF(2), "num_inducing": 5}
    plain = cgp.ChainedGP(X, y, L.HetGaussian(), **given)
    spread = quiet(X, y, L.HetGaussian(), **given, ties="spread")
    exact = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=5, ties=None)
    assert "Ties" not in str(plain.summary()) and "Ties" not in str(exact.summary())
    assert spread.log_likelihood() < plain.log_likelihood()
    spread.save(tmp_path / "m.cgp")
    again = cgp.load(tmp_path / "m.cgp")
    assert again.log_likelihood() == spread.log_likelihood()
    assert "Ties" in str(again.summary())
    again.set_data(X, X[:, 0])
    assert "Ties" not in str(again.summary())
    with pytest.raises(InputError, match="ties"):
        cgp.ChainedGP(X, y, L.HetGaussian(), ties="some")


def test_bound_threads_batches_and_weights_agree():
    """A row of weight 2 is the row twice, at the same spread of its target."""
    X, y = rounded_rows(60)
    given = {"kernels": cgp.kernels.RBF(2), "Z": X[:5], "ties": "spread"}
    one = quiet(X, y, L.HetGaussian(), **given, num_threads=1)
    two = quiet(X, y, L.HetGaussian(), **given, num_threads=2)
    assert one.log_likelihood() == two.log_likelihood()
    assert one.checkgrad()
    half = quiet(X, y, L.HetGaussian(), **given, Y_metadata={"weights": np.full(60, 0.5)})
    twice = quiet(np.r_[X, X], np.r_[y, y], L.HetGaussian(), **given)
    twice._parts.ties = one._parts.ties
    for m in (half, twice):
        for mean, value in zip(m.mean_functions, one.mean_functions, strict=True):
            mean.value[:] = value.value
    np.testing.assert_allclose(half.log_likelihood(), 0.5 * one.log_likelihood(), rtol=1e-12)
    np.testing.assert_allclose(twice.log_likelihood(), 2.0 * one.log_likelihood(), rtol=1e-12)
    result = one.optimize("natgrad", batch_size=30, epochs=2, rng=0)
    assert np.isfinite(result.bound)


def test_predictions_warn_where_a_noise_has_vanished():
    X, y = rounded_rows()
    y = np.where(np.arange(len(y)) % 30, 0.0, y)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=20, ties=None, priors=None)
    with pytest.warns(ConvergenceWarning, match="noise vanishes"):
        m.optimize()
    for predict in (m.predict, m.predict_quantiles, m.predictive, m.predict_latents):
        with pytest.warns(NoiseWarning, match="ties") as told:
            predict(X[:3])
        assert told[0].filename == __file__
    m = quiet(X, y, L.HetGaussian(), num_inducing=20)
    m.optimize()
    m.predict(X[:3])


def test_all_targets_equal():
    X = rounded_rows()[0]
    m = quiet(X, np.full(len(X), 3.0), L.HetGaussian(), num_inducing=5)
    m.optimize()
    mean, variance = m.predict(X[:3])
    np.testing.assert_allclose(mean, 3.0, atol=1e-3)
    assert (variance > 0.1).all()


def test_targets_far_from_0_are_not_tied():
    """Targets around 1e9 differ by far more than the last digits of such numbers."""
    y = np.random.default_rng(3).normal(size=300)
    assert ties_of(1e9 + y) is None
    assert ties_of(1e9 + np.round(y, 1)).step == pytest.approx(0.1, rel=1e-6)


def test_few_different_targets_that_are_no_scale_have_no_step():
    found = ties_of(np.exp(np.repeat([-1.0, 0.0, 1.0], 30)), L.HetGamma())
    assert found.step == 0.0 and found.advice is None
