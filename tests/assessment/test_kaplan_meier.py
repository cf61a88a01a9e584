"""Curves without a model, against textbook values and brute force."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from chainedgp.errors import InputError
from chainedgp.survival import AalenJohansen, KaplanMeier

# Remission times in weeks of 21 patients under 6-mercaptopurine (Freireich et al. 1963).
WEEKS = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
LATE = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]


def test_textbook_values():
    curve = KaplanMeier(WEEKS, LATE)
    assert curve.times.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert curve.at_risk.tolist() == [21, 17, 15, 12, 11, 7, 6]
    want = [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]
    np.testing.assert_allclose(curve.values, want, atol=6e-4)
    errors = [0.0764, 0.0869, 0.0963, 0.1068, 0.1141, 0.1282, 0.1346]
    np.testing.assert_allclose(np.sqrt(curve.variances), errors, atol=6e-5)
    assert curve.median == 23.0
    assert curve(0.0) == curve(5.9) == 1.0 and curve(6.0) == pytest.approx(18 / 21)
    # The interval of R's survfit with conf.type = "log-log" at 23 weeks.
    low, high = curve.interval(23.0)
    assert (low, high) == (pytest.approx(0.188, abs=6e-4), pytest.approx(0.680, abs=6e-4))
    assert curve.interval(0.0) == (1.0, 1.0)
    assert np.isnan(curve(36.0)) and np.isnan(curve.interval(36.0)[0])


def brute_force(y, censored, entry, weights, t):
    """S(t), row by row."""
    S = 1.0
    for s in np.unique(y[(censored == 0) & (y <= t) & (entry < y)]):
        at_risk = sum(w for a, b, w in zip(entry, y, weights, strict=True) if a < s <= b)
        died = sum(
            w
            for a, b, c, w in zip(entry, y, censored, weights, strict=True)
            if b == s and c == 0 and a < s
        )
        S *= 1.0 - died / at_risk
    return S


def test_entries_ties_and_weights_against_brute_force():
    rng = np.random.default_rng(0)
    y = np.round(rng.weibull(1.5, 60), 1) + 0.1
    entry = np.minimum(np.round(rng.uniform(-0.5, 0.6, 60), 1).clip(0.0), y)
    censored, weights = rng.integers(0, 2, 60), rng.integers(0, 4, 60).astype(float)
    curve = KaplanMeier(y, censored, entry, weights)
    for t in np.linspace(0.05, 2.0, 23):
        if t <= curve.last:
            want = brute_force(y, censored, entry, weights, t)
            assert curve(t) == pytest.approx(want, abs=1e-12)
    twice = np.repeat(np.arange(60), weights.astype(int))
    other = KaplanMeier(y[twice], censored[twice], entry[twice])
    np.testing.assert_allclose(curve.variances, other.variances, atol=1e-14)


def test_a_curve_that_comes_to_0():
    curve = KaplanMeier([1.0, 2.0, 3.0], 0)
    assert curve(3.0) == 0.0 == curve(9.0) and curve.interval(3.0)[0] == 0.0
    assert curve.interval(3.0)[1] == curve.interval(2.0)[1] < 1.0
    with pytest.raises(InputError, match="censored must be 0"):
        KaplanMeier([1.0, 2.0], [0, 2])


def test_the_interval_without_an_event_is_that_of_clopper_and_pearson():
    curve = KaplanMeier(WEEKS, LATE)
    exact = binomtest(21, 21).proportion_ci(0.9, "exact")
    assert curve.interval(3.0, 0.9) == (pytest.approx(exact.low), 1.0)
    # Of 12 rows 10 are followed up to 2, where the first two have gone without an event.
    none = KaplanMeier([1.0, 1.5, *[2.0] * 10], 1)
    low, high = none.interval([1.0, 2.0])
    want = [binomtest(n, n).proportion_ci(0.95, "exact").low for n in (12, 10)]
    np.testing.assert_allclose(low, want)
    assert high.tolist() == [1.0, 1.0] and np.isnan(none.interval(3.0)[0])
    # Rows count by their weights, and from their entries on.
    late = KaplanMeier([1.0, 2.0, 2.0], [0, 1, 1], [0.5, 0.0, 0.5], [1.0, 4.0, 3.0])
    low = late.interval([0.4, 0.9])[0]
    np.testing.assert_allclose(low, [binomtest(n, n).proportion_ci().low for n in (4, 8)])


@pytest.mark.parametrize("estimate", [KaplanMeier, AalenJohansen])
def test_what_is_no_time_is_told(estimate):
    with pytest.raises(InputError, match="y is empty"):
        estimate([], [])
    with pytest.raises(InputError, match="times from 0 on; row 1 is -2"):
        estimate([1.0, -2.0], [0, 1])
    with pytest.raises(InputError, match="row 1 goes at 2, before its entry 3"):
        estimate([1.0, 2.0], [0, 1], entry=[0.5, 3.0])
    with pytest.raises(InputError, match="weights must not be negative; row 0"):
        estimate([1.0, 2.0], [0, 1], weights=[-1.0, 1.0])
    with pytest.raises(InputError, match="missing"):
        estimate([1.0, 2.0], [0, 1])([1.0, np.nan])
    with pytest.raises(InputError, match="missing"):
        KaplanMeier([1.0, 2.0], [0, 1]).interval(np.nan)


def test_aalen_johansen():
    rng = np.random.default_rng(1)
    y, cause = np.round(rng.exponential(1.0, 80), 1) + 0.1, rng.choice(["a", "b", "none"], 80)
    entry = np.minimum(np.round(rng.uniform(-1.0, 0.5, 80), 1).clip(0.0), y)
    found = AalenJohansen(y, cause, "none", entry)
    overall = KaplanMeier(y, cause == "none", entry)
    t = np.linspace(0.0, found.last, 31)
    F = found(t)
    assert list(F) == found.causes == ["a", "b"]
    np.testing.assert_allclose(F["a"] + F["b"] + overall(t), 1.0, atol=1e-12)
    # Without other causes it is 1 − Kaplan–Meier.
    alone = AalenJohansen(y, np.where(cause == "a", 1, 0), 0, entry)(t)[1]
    np.testing.assert_allclose(alone, 1.0 - KaplanMeier(y, cause != "a", entry)(t), atol=1e-12)
    assert np.isnan(AalenJohansen([1.0, 2.0], [1, 0])(3.0)[1])


def test_causes_that_cannot_be_read():
    with pytest.raises(InputError, match="row 1 is missing"):
        AalenJohansen([1.0, 2.0], ["a", None])
    with pytest.raises(InputError, match="there is no event"):
        AalenJohansen([1.0, 2.0], [0, 0])
    with pytest.raises(InputError, match="2 rows"):
        AalenJohansen([1.0, 2.0], [0, 1, 1])
    with pytest.raises(InputError, match="numbers and text"):
        AalenJohansen([1.0, 2.0, 3.0], np.array(["a", 1, 0], dtype=object))


def test_numbers_at_risk_are_counts_of_rows():
    y, entry = np.array([1.0, 2.0, 2.0, 3.0, 5.0]), np.array([0.0, 0.0, 1.5, 2.0, 0.5])
    t = np.array([0.0, 0.5, 1.0, 1.6, 2.0, 2.1, 5.0, 6.0])
    plain, late = KaplanMeier(y, 0), KaplanMeier(y, 0, entry)
    np.testing.assert_array_equal(plain.number_at_risk(t), [(y >= s).sum() for s in t])
    counted = [((y >= s) & ((entry < s) | (entry == 0.0))).sum() for s in t]
    np.testing.assert_array_equal(late.number_at_risk(t), counted)
    np.testing.assert_array_equal(late.number_at_risk(late.times), late.at_risk)
    twice = KaplanMeier(y, 0, entry, np.full(5, 2.0))
    np.testing.assert_array_equal(twice.number_at_risk(t), 2 * np.array(counted))


def test_rows_in_another_order_are_refused():
    y = pd.Series(WEEKS, [f"p{i}" for i in range(len(WEEKS))])
    late = pd.Series(LATE, y.index)
    other = late[::-1]
    for estimate in (KaplanMeier, AalenJohansen):
        name = "censored" if estimate is KaplanMeier else "cause"
        with pytest.raises(InputError, match=rf"^{name} has the rows of y in another order"):
            estimate(y, other)
        with pytest.raises(InputError, match=r"^entry has only 20 of the 21 rows of y"):
            estimate(y, late, entry=0.0 * late.rename({"p3": "?"}))
        with pytest.raises(InputError, match=rf"^weights has the rows of {name} in another"):
            estimate(WEEKS, late, weights=other + 1.0)
        estimate(y, late, weights=other.to_numpy() + 1.0)
    plain = KaplanMeier(WEEKS, LATE[::-1])
    for fine in (other.to_numpy(), list(other), other.reset_index(drop=True)):
        np.testing.assert_array_equal(KaplanMeier(y, fine).values, plain.values)
