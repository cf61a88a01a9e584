"""Observed against predicted survival: the numbers, by brute force, and the figures of them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp.errors import InputError, UnfittedWarning
from chainedgp.kernels import RBF
from chainedgp.likelihoods import HetGaussian, WeibullSurvival
from chainedgp.means import Constant, Linear
from chainedgp.survival import KaplanMeier, survival_calibration, survival_check

TIMES = np.array([0.3, 0.8, 1.5, 2.5])


@pytest.fixture(autouse=True)
def unfitted_is_meant():
    """The model here predicts the truth that its means are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfittedWarning)
        yield


def true_model(n=600, late=False, seed=0):
    """Weibull times of shape 1.5 whose log-scale is 0.8 x₀, and the model that knows it."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n)])
    T = np.exp(0.8 * X[:, 0]) * rng.weibull(1.5, n)
    entry = np.where(rng.random(n) < 0.5, rng.uniform(0.0, 1.0, n), 0.0) * late
    kept = T > entry
    X, T, entry = X[kept], T[kept], entry[kept]
    C = entry + rng.uniform(0.5, 5.0, len(T))
    metadata = {"censored": 1.0 * (C < T)} | ({"entry": entry} if late else {})
    slope = Linear(2, [0.8, 0.0])
    return cgp.ChainedGP(
        X,
        np.minimum(T, C),
        WeibullSurvival(),
        [RBF(2, variance=1e-4) for _ in range(2)],
        X[:5],
        [slope, Constant(np.log(1.5))],
        metadata,
        input_names=["size", "arm"],
    )


def test_without_entries_the_expected_curve_is_the_mean():
    m = true_model()
    check = survival_check(m, by="arm", times=TIMES)
    assert check.groups == ("arm = 0", "arm = 1")
    for g in range(2):
        own = m.X[:, 1] == g
        np.testing.assert_allclose(
            check.predicted[g, :2], m.predictive(m.X[own]).sf(TIMES[:2]).mean(0), atol=1e-5
        )
        curve = KaplanMeier(m.Y[own, 0], m.Y_metadata["censored"][own])
        np.testing.assert_array_equal(check.observed[g](TIMES), curve(TIMES))
        low, high = curve.interval(TIMES, 0.999)
        assert ((low < check.predicted[g]) & (check.predicted[g] < high)).all()
    assert (check.lower < check.predicted).all() and (check.predicted < check.upper).all()
    assert survival_check(m, times=TIMES, bands=None).lower is None
    table = check.table()
    assert table.index[0] == f"arm = 0, {TIMES[0]:.4g}" and len(table) == 2 * len(TIMES)
    np.testing.assert_array_equal(table["predicted"][: len(TIMES)], check.predicted[0])
    np.testing.assert_array_equal(table["observed"][len(TIMES) :], check.observed[1](TIMES))
    assert (table["observed lower"] <= table["observed"]).all()
    assert (
        repr(check) == str(table)
        and "lower" not in survival_check(m, times=TIMES, bands=None).table().columns
    )
    assert repr(check.observed[0]).startswith("<KaplanMeier of")


def test_bands_are_those_of_the_mean_curve():
    """They hold for the mean of all rows, so rows' errors that are independent average out."""
    m = true_model(60)
    m.kernels[0].variance[:] = 0.04
    check = survival_check(m, times=TIMES, size=400)
    draws = m.posterior_samples_f(m.X, 2000, rng=1)  # (n, b, size)
    f, g = np.moveaxis(draws, 1, 0)
    curves = np.stack([np.exp(-((t / np.exp(f)) ** np.exp(g))).mean(0) for t in TIMES])
    want = np.quantile(curves, (0.025, 0.975), axis=1)
    np.testing.assert_allclose([check.lower[0], check.upper[0]], want, atol=0.02)


def test_rows_that_enter_late_count_from_then_on():
    m = true_model(1500, late=True)
    check = survival_check(m, times=TIMES, bands=None)
    low, high = check.observed[0].interval(TIMES, 0.999)
    assert ((low < check.predicted[0]) & (check.predicted[0] < high)).all()
    # The mean over the rows, most of which are there because they live long, is too high.
    assert (m.predictive(m.X).sf(TIMES[:2]).mean(0) > check.predicted[0, :2] + 0.005).all()


def test_groups():
    m = true_model(90)
    thirds = survival_check(m, by=0, times=TIMES, bands=None)
    assert len(thirds.groups) == 3 and "< size ≤" in thirds.groups[1]
    assert [curve.at_risk[0] for curve in thirds.observed] == [30, 30, 30]
    risks = survival_check(m, by="risk", times=TIMES, bands=None)
    assert risks.groups == ("low risk", "middle risk", "high risk")
    assert (np.diff(risks.predicted, axis=0) < 0.0).all()
    ward = survival_check(m, by=np.repeat(["a", "b"], 45), times=TIMES, bands=None)
    assert ward.groups == ("a", "b")
    for by in ("ward", 5, np.zeros(3)):
        with pytest.raises(InputError, match="by must"):
            survival_check(m, by=by)


def test_weights_count_rows():
    m = true_model(50)
    weights = np.random.default_rng(1).integers(1, 4, 50)
    twice = np.repeat(np.arange(50), weights)
    one = survival_check(m, m.X, m.Y, {**m.Y_metadata, "weights": weights}, times=TIMES, bands=None)
    other = survival_check(
        m, m.X[twice], m.Y[twice], {"censored": m.Y_metadata["censored"][twice]},
        times=TIMES, bands=None,
    )  # fmt: skip
    np.testing.assert_allclose(one.predicted, other.predicted, atol=1e-12)
    np.testing.assert_allclose(one.observed[0](TIMES), other.observed[0](TIMES), atol=1e-12)


@pytest.mark.parametrize("late", [False, True])
def test_calibration_of_the_truth(late):
    m = true_model(1000, late)
    table = survival_calibration(m, 1.0, groups=5, level=0.99)
    assert table["rows"].sum() == len(m.X) and (np.diff(table["predicted"]) > 0.0).all()
    inside = (table["lower"] < table["predicted"]) & (table["predicted"] < table["upper"])
    assert inside.sum() >= 4
    seen = (m.Y[:, 0] <= 1.0) & (m.Y_metadata["censored"] == 0)
    assert table["events"].sum() == seen.sum()
    assert list(table.frame().columns)[:3] == ["rows", "events", "predicted"]
    # A model that is wrong is seen to be.
    m.mean_functions[0].weights[:] = 0.0
    flat = survival_calibration(m, 1.0, m.X, m.Y, m.Y_metadata, groups=2)
    assert np.ptp(flat["predicted"]) < 0.05


def test_what_cannot_be_checked_is_told():
    m = true_model(40)
    with pytest.raises(InputError, match="after the last time"):
        survival_calibration(m, 99.0)
    with pytest.raises(InputError, match="at most the number of rows"):
        survival_calibration(m, 0.5, groups=41)
    with pytest.raises(InputError, match="give both"):
        survival_check(m, X=m.X)
    with pytest.raises(InputError, match="belong to X and Y"):
        survival_check(m, Y_metadata={"censored": 0})
    with pytest.raises(InputError, match="ascending"):
        survival_check(m, times=[2.0, 1.0])
    with pytest.raises(InputError, match="bands"):
        survival_check(m, bands=(97.5, 2.5))
    with pytest.raises(InputError, match="left- or interval-censored"):
        survival_check(m, m.X, m.Y, {"censored": -1})
    other = cgp.ChainedGP(m.X, m.Y, HetGaussian(), num_inducing=3)
    with pytest.raises(InputError, match="no survival likelihood"):
        survival_check(other)


def test_figures():
    plt = pytest.importorskip("matplotlib.pyplot")
    m = true_model(80)
    ax = m.plot_survival_check(by="arm", times=TIMES)
    assert ax.get_legend_handles_labels()[1][:2] == ["arm = 0", "arm = 1"]
    np.testing.assert_allclose(
        ax.lines[0].get_ydata()[1:], survival_check(m, by="arm", times=TIMES).predicted[0]
    )
    assert len(m.plot_survival_check(bands=None, level=0).lines) == 4
    ax = m.plot_survival_calibration(1.0, groups=4)
    points = ax.containers[0].lines[0]
    np.testing.assert_allclose(
        points.get_ydata(), survival_calibration(m, 1.0, groups=4)["observed"]
    )
    assert ax.get_xlabel() == "predicted risk up to time = 1"
    m.target_name = "time (months)"
    ax = m.plot_survival_calibration(1.5, groups=4)
    assert ax.get_xlabel() == "predicted risk up to 1.5 months"
    ax = m.plot_survival_along("size", times=TIMES)
    labels = [line.get_label() for line in ax.lines]
    assert len(labels) == 3 and labels[0].startswith("size = ") and "arm" in ax.get_xlabel()
    want = m.predictive([[float(np.percentile(m.X[:, 0], 10)), np.median(m.X[:, 1])]]).sf(TIMES)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), want[0])
    assert len(m.plot_survival_along("arm").lines) == 2
    ax = m.plot_restricted_mean("size", 2.0, at={"arm": 1}, num=5)
    x, y = ax.lines[0].get_data()
    rows = np.column_stack([x, np.ones(5)])
    np.testing.assert_allclose(y, m.predictive(rows).restricted_mean(2.0)[:, 0])
    m.plot_restricted_mean("arm", 2.0)
    with pytest.raises(InputError, match=r"values must be|is missing"):
        m.plot_survival_along("size", [np.nan])
    with pytest.raises(InputError, match="horizon"):
        m.plot_restricted_mean("size", -1.0)
    plt.close("all")


@pytest.fixture(scope="module")
def of_a_table():
    """Times beside a category of five levels, truth values and dates."""
    rng, n = np.random.default_rng(3), 60
    X = pd.DataFrame(
        {
            "ward": rng.permutation(np.repeat(list("abcde"), 12)),
            "flag": rng.random(n) < 0.5,
            "day": pd.Timestamp("2022-01-01") + pd.to_timedelta(np.arange(n), unit="D"),
        }
    )
    likelihood = WeibullSurvival().with_constant("log_shape")
    m = cgp.ChainedGP(
        X, rng.weibull(1.5, n), likelihood, Y_metadata={"censored": 0}, num_inducing=10
    )
    m.optimize(only="variational")
    return m


def test_groups_have_the_words_of_the_table(of_a_table):
    check = survival_check(of_a_table, by="ward", times=TIMES, bands=None)
    assert check.groups == tuple(f"ward = {level}" for level in "abcde")
    assert [curve.at_risk[0] for curve in check.observed] == [12.0] * 5
    check = survival_check(of_a_table, by="flag", times=TIMES, bands=None)
    assert check.groups == ("flag = False", "flag = True")
    check = survival_check(of_a_table, by="day", times=TIMES, bands=None)
    edges = [f"2022-{edge}" for edge in ("01-20", "02-09")]
    assert check.groups == (
        f"day ≤ {edges[0]}", f"{edges[0]} < day ≤ {edges[1]}", f"day > {edges[1]}"
    )  # fmt: skip


def test_survival_along_levels_and_dates(of_a_table):
    plt, m = pytest.importorskip("matplotlib.pyplot"), of_a_table

    def drawn(*args):
        lines = m.plot_survival_along(*args, times=TIMES, bands=None).lines
        return [line.get_label() for line in lines], lines[0].get_ydata()

    at = {"flag": [m.X[:, 1].mean() > 0.5], "day": [pd.Timestamp("2022-01-30 12:00")]}
    labels, curve = drawn("ward", ["b", "d"])
    assert labels == ["ward = b", "ward = d"]
    want = m.predictive(pd.DataFrame({"ward": ["b"], **at})).sf(TIMES)[0]
    np.testing.assert_allclose(curve, want, rtol=1e-6)
    assert drawn("ward")[0] == [f"ward = {level}" for level in "abcde"]
    assert drawn("ward", "c")[0] == ["ward = c"]
    assert drawn("day", ["2022-02-01", pd.Timestamp("2022-02-03")])[0] == [
        "day = 2022-02-01",
        "day = 2022-02-03",
    ]
    assert drawn("day", np.array(["2022-02-01"], "datetime64[ns]"))[0] == ["day = 2022-02-01"]
    assert drawn("flag", [True])[0] == ["flag = True"]
    for values in ([], [[1.0]], [np.nan]):
        with pytest.raises(InputError, match=r"values must be|is missing"):
            drawn("day", values)
    with pytest.raises(InputError, match="does not know: z"):
        drawn("ward", ["z"])
    ticks = m.plot_restricted_mean("ward", 1.0).get_xticklabels()
    assert [tick.get_text() for tick in ticks] == list("abcde")
    line = m.plot_restricted_mean("day", 1.0, num=5, bands=None).lines[0]
    assert line.get_xdata()[2] == pytest.approx(19022.5)  # 30 January 2022, noon, since 1970.
    plt.close("all")


@pytest.mark.parametrize("own_labels", [True, False])
def test_groups_are_paired_by_the_index(own_labels):
    rng = np.random.default_rng(0)
    index = [f"p{i}" for i in range(40)] if own_labels else range(40)
    X = pd.DataFrame({"size": rng.normal(size=40), "arm": np.resize(["a", "b"], 40)}, index)
    y = pd.Series(rng.weibull(1.5, 40) + 0.01, X.index)
    given = {"Y_metadata": {"censored": 0}, "num_inducing": 4}
    m = cgp.ChainedGP(X, y, WeibullSurvival(), **given)
    want = survival_check(m, by="arm", times=[1.0], bands=None)
    group = X["arm"]

    def check(model, by, *data):
        return survival_check(model, *data, by=by, times=[1.0], bands=None).predicted

    np.testing.assert_array_equal(check(m, group), want.predicted)
    for call in (lambda: check(m, group[::-1]), lambda: check(m, group[::-1], X, y)):
        with pytest.raises(InputError, match=r"^by has the rows of X in another order"):
            call()
    np.testing.assert_array_equal(check(m, group[::-1].to_numpy()), want.predicted[::-1])
    np.testing.assert_array_equal(
        check(m, group[::-1], X[5:], y[5:]), check(m, "arm", X[5:], y[5:])
    )
    # A model that left out rows takes the whole column, in any order.
    X.iloc[[3, 8, 9], 0] = np.nan
    m = cgp.ChainedGP(X, y, WeibullSurvival(), missing="drop", **given)
    want = check(m, "arm")
    np.testing.assert_array_equal(check(m, group), want)
    np.testing.assert_array_equal(check(m, group[::-1]), want)
    np.testing.assert_array_equal(check(m, group.to_numpy()), want)
    np.testing.assert_array_equal(check(m, group.set_axis(range(100, 140))), want)
    with pytest.raises(InputError, match=r"each of the 37 rows, or of the 40 of the table; got 39"):
        check(m, group.to_numpy()[1:])


def test_observed_curves_end_where_the_last_row_leaves():
    X = np.repeat([0.0, 1.0], 6)[:, None]
    y = np.concatenate([np.arange(1.0, 7.0), 4.0 * np.arange(1.0, 7.0)])
    seen = {"censored": np.resize([0, 1], 12)}
    m = cgp.ChainedGP(X, y, WeibullSurvival(), Y_metadata=seen, num_inducing=2)
    ax = m.plot_survival_check(by=0, times=[5.0, 10.0, 20.0], bands=None)
    ends = [line.get_xdata()[-1] for line in ax.lines if line.get_drawstyle() == "steps-post"]
    assert ends[:6] == [6.0] * 3 + [20.0] * 3
    observed = [line for line in ax.lines if line.get_drawstyle() == "steps-post"][:6]
    assert all(np.isfinite(line.get_ydata()).all() for line in observed)
