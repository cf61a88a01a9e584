"""Figures: what is on the axes, against the numbers that the model gives."""

import inspect
import re
import runpy
from functools import cache

import matplotlib
from paths import ROOT

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_hex
from scipy import stats

import chainedgp as cgp
from chainedgp import plotting
from chainedgp.assessment.effects.importance import importance
from chainedgp.assessment.effects.population import Population
from chainedgp.assessment.effects.quantities import latent_quantities
from chainedgp.errors import InputError, UnfittedWarning
from chainedgp.inference.result import OptimizationResult, TracePoint
from chainedgp.plotting import grids, style
from chainedgp.plotting.diagnostics import _transform
from chainedgp.plotting.targets import target_limits

L, K = cgp.likelihoods, cgp.kernels


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@cache
def model(kind, D=1):
    """A small model at the best q of its starting parameters; tests do not change it."""
    rng = np.random.default_rng(11)
    n = 40
    X = rng.uniform(-2.0, 2.0, (n, D))
    f, g = np.sin(2.0 * X[:, 0]), 0.4 * X[:, 0]
    table = {
        "gauss": (L.HetGaussian(), f + np.exp(0.5 * g - 1.0) * rng.normal(size=n), None),
        "plain": (L.Gaussian(variance=0.3), f + 0.5 * rng.normal(size=n), None),
        "count": (L.Poisson(), rng.poisson(5.0 * np.exp(f)), {"exposure": np.full(n, 2.0)}),
        "binary": (L.Bernoulli(), rng.uniform(size=n) < 0.5 + 0.4 * f, None),
        "class": (L.Softmax(3), rng.integers(0, 3, n), None),
        "share": (L.Beta(), rng.beta(2.0 * np.exp(f), 2.0), None),
        "time": (
            L.LogLogisticSurvival(),
            np.exp(f + 0.5 * rng.logistic(size=n)),
            {"censored": rng.integers(0, 2, n).astype(float)},
        ),
    }
    likelihood, y, metadata = table[kind]
    m = cgp.ChainedGP(X, y, likelihood, Y_metadata=metadata, num_inducing=10, num_threads=1)
    m.optimize(only="variational")
    return m


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def line(ax, label):
    (found,) = [each for each in ax.lines if each.get_label() == label]
    return found


def band(ax, label):
    """Lower and upper end of a band over x, by the corners of its polygon."""
    (found,) = [each for each in ax.collections if each.get_label() == label]
    corners = found.get_paths()[0].vertices
    xs = np.unique(corners[:, 0])
    ends = [(c.min(), c.max()) for c in (corners[corners[:, 0] == x, 1] for x in xs)]
    return xs, *np.array(ends).T


def mesh(ax):
    (found,) = [each for each in ax.collections if isinstance(each, QuadMesh)]
    return found


# ---- fits ---------------------------------------------------------------------------------------


def test_fit_shows_median_bands_and_data():
    m = model("gauss")
    ax = plotting.plot_fit(m, num=50)
    assert labels(ax) == ["95 % interval", "50 % interval", "median", "data"]
    x = line(ax, "median").get_xdata()
    low, q25, mid, q75, high = (q[:, 0] for q in m.predict_quantiles(x, (2.5, 25, 50, 75, 97.5)))
    np.testing.assert_allclose(line(ax, "median").get_ydata(), mid)
    for label, lower, upper in (("95 % interval", low, high), ("50 % interval", q25, q75)):
        xs, bottom, top = band(ax, label)
        np.testing.assert_allclose(xs, x)
        np.testing.assert_allclose(bottom, lower)
        np.testing.assert_allclose(top, upper)
    points = line(ax, "data").get_xydata()
    np.testing.assert_array_equal(points, np.column_stack([m.X[:, 0], m.Y[:, 0]]))
    assert ax.get_xlim() == (x[0], x[-1]) and x[0] < m.X.min() and x[-1] > m.X.max()
    bottom, top = ax.get_ylim()
    assert bottom < min(m.Y.min(), low.min()) and top > max(m.Y.max(), high.max())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_fit_without_data_and_legend_on_given_axes():
    _, ax = plt.subplots()
    ax.set_xlabel("mine")
    before = plt.get_fignums()
    assert plotting.plot_fit(model("gauss"), (80,), data=False, legend=False, ax=ax) is ax
    assert plt.get_fignums() == before
    assert labels(ax) == ["80 % interval", "median"] and ax.get_legend() is None
    assert ax.get_xlabel() == "mine"


def test_fit_marks_censored_times():
    m = model("time")
    ax = plotting.plot_fit(m, num=30)
    censored = m.Y_metadata["censored"] == 1.0
    marks = line(ax, "right-censored")
    assert marks.get_marker() == "^" and to_hex(marks.get_markerfacecolor()) == "#ffffff"
    np.testing.assert_array_equal(marks.get_ydata(), m.Y[censored, 0])
    np.testing.assert_array_equal(line(ax, "data").get_ydata(), m.Y[~censored, 0])
    assert ax.get_ylabel() == "time" and ax.get_ylim()[0] <= 0.0


def test_fit_marks_left_and_interval_censoring():
    X = np.linspace(0.0, 1.0, 6)
    metadata = {"censored": [0.0, 0, 1, -1, 2, 2], "y_upper": [1.0, 1, 1, 1, 3, 4]}
    y = np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    m = cgp.ChainedGP(X, y, L.LogLogisticSurvival(), Y_metadata=metadata, num_inducing=3)
    ax = plotting.plot_fit(m, num=5)
    assert line(ax, "left-censored").get_marker() == "v"
    (bars,) = [each for each in ax.collections if each.get_label() == "interval-censored"]
    ends = [path.vertices[:, 1].tolist() for path in bars.get_paths()]
    assert ends == [[1.0, 3.0], [2.0, 4.0]]


def test_fit_of_counts_is_stepped_and_takes_a_typical_exposure():
    m = model("count")
    ax = plotting.plot_fit(m, num=30)
    median = line(ax, "median")
    assert median.get_drawstyle() == "steps-mid"
    expected = m.predict_quantiles(median.get_xdata(), (50,), Y_metadata={"exposure": 2.0})
    np.testing.assert_array_equal(median.get_ydata(), expected[0][:, 0])
    other = plotting.plot_fit(m, num=30, Y_metadata={"exposure": 20.0})
    assert line(other, "median").get_ydata().mean() > 5.0 * median.get_ydata().mean()
    assert (ax.get_ylabel(), other.get_ylabel()) == ("y (exposure 2)", "y (exposure 20)")


def test_counts_of_other_exposures_are_drawn_in_proportion():
    X, y, exposure = np.arange(4.0), np.array([2.0, 8.0, 0.0, 5.0]), np.array([1.0, 4.0, 2.0, 2.0])
    metadata = {"exposure": exposure}
    m = cgp.ChainedGP(X, y, L.Poisson(), Y_metadata=metadata, num_inducing=2)
    for given, drawn in ((None, 2.0), ({"exposure": 10.0}, 10.0)):
        ax = plotting.plot_fit(m, num=5, Y_metadata=given)
        points = line(ax, "data").get_ydata()
        np.testing.assert_allclose(points, drawn * y / exposure)
        assert ax.get_ylim()[1] > points.max()
        ax = plotting.plot_density(m, num=5, Y_metadata=given)
        np.testing.assert_allclose(line(ax, "data").get_ydata(), drawn * y / exposure)
        assert ax.get_ylabel() == f"y (exposure {drawn:g})"


def test_inputs_at_rest_are_named_up_to_four():
    m = cgp.ChainedGP(np.eye(7), np.arange(7.0), L.Gaussian(), num_inducing=2)
    assert grids.axis_name(m, [2]) == "x2\n(others at their medians)"
    some = grids.axis_name(m, [2], {0: 0.25, "x5": 3.0})
    assert some == "x2\n(x0 = 0.25, x5 = 3, others at their medians)"
    assert grids.axis_name(m, [0], np.arange(7.0)).endswith("x4 = 4, 2 more as given)")
    assert grids.axis_name(model("gauss"), [0]) == "x"
    said = grids.axis_name(m, [2], {"x1": 0.0})  # a median, but one that was asked for
    assert said == "x2\n(x1 = 0, others at their medians)"


def test_the_axis_says_where_levels_are_at_rest():
    frame = pd.DataFrame({f"c{k}": np.resize(["a", "b", "b"], 12) for k in range(6)})
    m = cgp.ChainedGP(frame, np.arange(12.0), L.Gaussian(), num_inducing=2)
    assert grids.axis_name(m, [0], {"c3": "b"}) == "c0\n(c3 = b, others at their commonest levels)"
    mixed = frame.assign(x=np.arange(12.0))
    m = cgp.ChainedGP(mixed, np.arange(12.0), L.Gaussian(), num_inducing=2)
    assert grids.axis_name(m, [0]) == "c0\n(others at their medians and commonest levels)"


def test_a_title_needs_no_legend():
    ax = model("gauss").plot(num=5)
    ax.get_legend().remove()
    ax.set_title("a title")
    ax.figure.draw_without_rendering()
    assert ax.title.get_window_extent().y0 < ax.bbox.y1 + 20


@pytest.mark.parametrize("loc", ["left", "center"])
def test_a_title_is_drawn_above_the_legend(loc):
    def boxes(ax):
        ax.figure.draw_without_rendering()
        title = ax.title if loc == "center" else ax._left_title
        return [part.get_window_extent() for part in (title, ax.get_legend())]

    ax = model("gauss").plot(num=5)
    ax.set_title("a title", loc=loc)
    title, legend = boxes(ax)
    assert title.y0 >= legend.y1 and title.y1 <= ax.figure.bbox.y1
    own = plt.figure().add_axes((0.3, 0.2, 0.35, 0.5))  # its legend has two rows, as it is narrow
    model("gauss").plot(num=5, ax=own).set_title("a title", loc=loc)
    title, legend = boxes(own)
    assert title.y0 >= legend.y1 and legend.x1 <= 1.15 * own.bbox.x1


def test_a_long_list_of_inputs_at_rest_is_broken_into_lines():
    m = cgp.ChainedGP(np.eye(4), np.arange(4.0), L.Gaussian(), num_inducing=2)
    m.input_names = [f"a long name of input {k}" for k in range(4)]
    lines = grids.axis_name(m, [0]).split("\n")
    assert lines[0] == m.input_names[0] and max(map(len, lines)) <= grids.LINE_LENGTH
    assert " ".join(lines[1:]) == "(" + ", ".join(f"{name} = 0" for name in m.input_names[1:]) + ")"


def test_legends_read_row_by_row_and_beside_the_factor_of_the_ticks():
    ax = plt.subplots(layout="constrained")[1]
    for k in range(6):
        ax.plot([0, 1], [0, 1e9 + k], label=f"curve {k}")
    style.legend_above(style.tidy(ax), ncols=4)
    ax.figure.canvas.draw()
    texts = ax.get_legend().get_texts()
    places = [text.get_window_extent() for text in texts]
    read = [k for _, _, k in sorted((-round(p.y0), p.x0, k) for k, p in enumerate(places))]
    assert [texts[k].get_text() for k in read] == [f"curve {k}" for k in range(6)]
    factor = ax.yaxis.get_offset_text()
    assert factor.get_text() == "1e9"
    assert not factor.get_window_extent().overlaps(ax.get_legend().get_window_extent())


def test_fit_of_shares_has_the_unit_axis():
    assert plotting.plot_fit(model("share"), num=20).get_ylim() == (-0.02, 1.02)


def test_fit_of_binary_targets_shows_the_probability():
    m = model("binary")
    ax = plotting.plot_fit(m, num=20)
    median = line(ax, "median")
    f = m.predict_latents(median.get_xdata())[0][:, 0]
    np.testing.assert_allclose(median.get_ydata(), 1.0 / (1.0 + np.exp(-f)))
    assert ax.get_ylabel() == "P(y = 1)"


def test_fit_of_classes_has_a_probability_for_each():
    ax = plotting.plot_fit(model("class"), num=20, data=False)
    curves = np.array([each.get_ydata() for each in ax.lines])
    np.testing.assert_allclose(curves.sum(axis=0), 1.0)
    assert labels(ax) == ["y = 0", "y = 1", "y = 2"]
    assert len({each.get_linestyle() for each in ax.lines}) == 3  # not by colour alone
    m = model("class")
    ticks = [each for each in plotting.plot_fit(m, num=20).lines if each.get_marker() == "|"]
    for k, each in enumerate(ticks):
        np.testing.assert_array_equal(each.get_xdata(), m.X[m.Y[:, 0] == k, 0])
    assert len(ticks) == 3


def test_limits_cut_an_endless_tail():
    m = model("gauss")
    low, high = m.Y.min(), m.Y.max()
    bottom, top = target_limits(m, m.Y, np.array([-1e6]), np.array([1e6]))
    assert bottom > low - (high - low) and top < high + (high - low)
    near = target_limits(m, m.Y, np.array([-0.1]), np.array([0.1]), data=False)
    assert -0.2 < near[0] < -0.1 and 0.1 < near[1] < 0.2


def test_limits_hold_most_of_a_band_of_times():
    m = model("time")
    most, flat = np.quantile(m.Y, 0.95), np.ones(20)
    for edge, top in ((2.5, 2.5), (1e6, 3.0)):  # the band, but not more than three times the data
        end = target_limits(m, m.Y, 0.0 * flat, edge * most * flat, data=False)[1]
        assert top * most < end < 1.1 * top * most
    spike = np.r_[2.0 * flat[1:], 1e9] * most
    assert 2.0 * most < target_limits(m, m.Y, 0.0 * flat, spike, data=False)[1] < 2.2 * most
    peak = np.r_[flat[1:], 1.4] * most  # A band that is a little higher at one place is not cut.
    assert target_limits(m, m.Y, 0.0 * flat, peak, data=False)[1] > 1.4 * most
    end = target_limits(m, m.Y, 0.0 * flat, spike)[1]
    assert m.Y.max() < end < 1.6 * m.Y.max()  # the data are shown, and not squeezed


def test_latents_have_one_axes_each():
    m = model("gauss")
    axes = plotting.plot_latents(m, num=30)
    assert axes.shape == (2,)
    assert [ax.get_ylabel() for ax in axes] == ["mean", "log variance"]
    assert axes[1].get_xlabel() == "x"
    x = line(axes[0], "median").get_xdata()
    mean, variance = m.predict_latents(x)
    for j, ax in enumerate(axes):
        np.testing.assert_allclose(line(ax, "median").get_ydata(), mean[:, j])
        _, bottom, top = band(ax, "95 % interval")
        half = stats.norm.ppf(0.975) * np.sqrt(variance[:, j])
        np.testing.assert_allclose(top - bottom, 2.0 * half)


def test_latents_on_the_natural_scale_and_on_given_axes():
    m = model("share")
    _, given = plt.subplots(1, 2)
    axes = plotting.plot_latents(m, natural=True, num=20, ax=given)
    assert list(axes) == list(given)
    assert [ax.get_ylabel() for ax in axes] == ["alpha", "beta"]
    x = line(axes[0], "median").get_xdata()
    np.testing.assert_allclose(
        line(axes[0], "median").get_ydata(), np.exp(m.predict_latents(x)[0][:, 0]), rtol=1e-6
    )
    with pytest.raises(InputError, match="2 matplotlib axes"):
        plotting.plot_latents(m, ax=given[:1])


def test_slice_holds_the_others():
    m = model("gauss", 3)
    ax = plotting.plot_slice(m, "x1", at={"x0": 0.7, 2: -0.5}, num=20)
    median = line(ax, "median")
    x = median.get_xdata()
    rows = np.column_stack([np.full(20, 0.7), x, np.full(20, -0.5)])
    np.testing.assert_allclose(median.get_ydata(), m.predict_quantiles(rows, (50,))[0][:, 0])
    assert ax.get_xlabel() == "x1\n(x0 = 0.7, x2 = -0.5)"
    assert "data" not in labels(ax)
    rug = [each for each in ax.lines if each.get_marker() == "|"]
    np.testing.assert_array_equal(rug[0].get_xdata(), m.X[:, 1])
    resting = plotting.plot_slice(m, 1, latent="log_variance", num=20)
    rows[:, [0, 2]] = np.median(m.X, axis=0)[[0, 2]]
    np.testing.assert_allclose(
        line(resting, "median").get_ydata(), m.predict_latents(rows)[0][:, 1]
    )
    assert resting.get_ylabel() == "log variance"
    assert "data" in labels(plotting.plot_slice(m, 0, data=True, num=5))


# ---- maps and densities -------------------------------------------------------------------------


def test_density_is_the_predictive_density():
    m = model("gauss")
    y = np.linspace(-6.0, 6.0, 121)
    ax = plotting.plot_density(m, y=y, num=15)
    p = np.asarray(mesh(ax).get_array()).reshape(121, 15)
    x = grids.axis_values(m, 0, 15)
    np.testing.assert_allclose(p, m.predict_density(x, y).T)
    np.testing.assert_allclose(np.trapezoid(p, y, axis=0), 1.0, atol=1e-3)
    assert ax.get_ylim() == (-6.0, 6.0) and ax.get_xlim() == (x[0], x[-1])
    assert len(line(ax, "data").get_xdata()) == 40
    assert ax.figure.axes[1].get_ylabel() == "predictive density"
    assert mesh(ax).get_clim() == (0.0, np.quantile(p, 0.995))


def test_density_of_counts_has_a_cell_for_each_count():
    m = model("count")
    ax = plotting.plot_density(m, num=8, data=False)
    cells = np.asarray(mesh(ax).get_array())
    top = int(ax.get_ylim()[1] - 0.5)
    assert cells.shape == (top + 1, 8) and ax.get_ylim()[0] == -0.5 and not len(ax.lines)
    assert (cells.sum(axis=0) <= 1.0 + 1e-9).all() and cells.sum(axis=0).mean() > 0.9
    assert ax.figure.axes[1].get_ylabel() == "probability"


def test_density_stays_inside_the_support():
    ax = plotting.plot_density(model("share"), num=10)
    assert ax.get_ylim() == pytest.approx((0.0, 1.0))
    assert plotting.plot_density(model("time"), num=10).get_ylim()[0] == pytest.approx(0.0)
    with pytest.raises(InputError, match="classes"):
        plotting.plot_density(model("binary"))


def map_values(ax, num):
    return np.asarray(mesh(ax).get_array()).reshape(num, num)


def test_map_shows_what_is_asked_for():
    m = model("gauss", 3)
    x, y = grids.axis_values(m, 2, 7), grids.axis_values(m, 0, 7)
    rows = np.array([[b, 0.4, a] for b in y for a in x])
    mean, variance = m.predict(rows)
    latents = m.predict_latents(rows)[0]
    expected = {
        "mean": mean[:, 0],
        "sd": np.sqrt(variance[:, 0]),
        "median": m.predict_quantiles(rows, (50,))[0][:, 0],
        90: m.predict_quantiles(rows, (90,))[0][:, 0],
        "log_variance": latents[:, 1],
        "variance": np.exp(latents[:, 1]),
    }
    for what, values in expected.items():
        ax = plotting.plot_map(m, what, ("x2", 0), at={1: 0.4}, num=7)
        np.testing.assert_allclose(map_values(ax, 7), values.reshape(7, 7), rtol=1e-6)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x2\n(x1 = 0.4)", "x0")
    assert ax.figure.axes[1].get_ylabel() == "variance"
    with pytest.raises(InputError, match="percentile or one of mean, median, sd, log_variance"):
        plotting.plot_map(m, "spread")


def test_map_draws_the_rows_in_the_colours_of_the_map():
    m = model("gauss", 2)
    ax = plotting.plot_map(m, num=6)
    (points,) = [each for each in ax.collections if isinstance(each, PathCollection)]
    np.testing.assert_array_equal(points.get_offsets(), m.X)
    np.testing.assert_array_equal(points.get_array(), m.Y[:, 0])
    assert points.norm is mesh(ax).norm
    ax = plotting.plot_map(m, "log_variance", num=6, data=False)
    assert not [each for each in ax.collections if isinstance(each, PathCollection)]


def test_map_of_a_mean_that_does_not_exist_is_that_of_the_median():
    m = model("time", 2)
    ax = plotting.plot_map(m, num=5)
    assert ax.figure.axes[1].get_ylabel() == "median of time"
    triangles, circles = 0, 0
    for each in ax.collections:
        if isinstance(each, PathCollection):
            size = len(each.get_offsets())
            if len(each.get_paths()[0].vertices) < 10:
                triangles += size
            else:
                circles += size
    assert triangles == m.Y_metadata["censored"].sum() and triangles + circles == 40
    assert labels(ax) == ["event", "censored"]
    with pytest.raises(InputError, match='what="median"'):
        plotting.plot_map(m, "mean", num=5)


# ---- survival -----------------------------------------------------------------------------------


def test_survival_curves_with_bands():
    m = model("time")
    X, t = np.array([[-1.0], [0.5]]), np.linspace(0.01, 4.0, 30)
    ax = plotting.plot_survival(m, X, times=t, bands=(5, 95))
    estimate, lower, upper = m.predictive(X).sf(t, bands=(5, 95))
    assert len(ax.lines) == len(ax.collections) == 2
    for i in range(2):
        np.testing.assert_allclose(ax.lines[i].get_ydata(), estimate[i])
        corners = ax.collections[i].get_paths()[0].vertices[:, 1]
        assert corners.min() == pytest.approx(lower[i].min())
        assert corners.max() == pytest.approx(upper[i].max())
    assert labels(ax) == ["x = -1", "x = 0.5", "90 % band"]
    assert ax.get_ylim() == (0.0, 1.02) and ax.get_ylabel() == "survival probability"
    named = plotting.plot_survival(m, X, times=t, labels=["young", "old"])
    assert labels(named) == ["young", "old", "95 % band"]
    for index, words in (
        (["Ann", "Bob"], ["Ann", "Bob"]),
        (pd.Index([7, 12], name="patient"), ["patient 7", "patient 12"]),
        ([7, 12], ["row 7", "row 12"]),
        ([0, 1], ["x = -1", "x = 0.5"]),
    ):
        frame = pd.DataFrame(X, index=index)
        assert labels(plotting.plot_survival(m, frame, times=t, bands=None)) == words
    uneven = plotting.plot_survival(m, X, times=t, bands=(10, 95))
    assert labels(uneven)[-1] == "10 to 95 % band"
    with pytest.raises(InputError, match="2 names"):
        plotting.plot_survival(m, X, labels=["young"])


def test_hazard_curves_of_typical_rows():
    m = model("time")
    t = np.linspace(0.1, 3.0, 20)
    ax = plotting.plot_hazard(m, times=t)
    values = np.array([each.get_ydata() for each in ax.lines])
    assert values.shape == (3, 20) and (values > 0).all()
    x = [float(label.split(" = ")[1]) for label in labels(ax)[:3]]
    medians = m.predictive(x).median()[:, 0]
    assert medians[0] < medians[1] < medians[2]
    many = plotting.plot_hazard(m, np.linspace(-1, 1, 5), times=t)
    assert len(many.lines) == 5 and not len(many.collections)  # too many bands to read


def test_survival_is_for_survival_likelihoods():
    with pytest.raises(InputError, match="survival likelihoods"):
        plotting.plot_survival(model("gauss"))


# ---- diagnostics --------------------------------------------------------------------------------


def test_pit_of_a_gaussian():
    m = model("plain")
    mean, variance = m.predict(m.X)
    u = stats.norm.cdf(m.Y, mean, np.sqrt(variance))[:, 0]
    np.testing.assert_allclose(_transform(m, None, None, None, 0), u, atol=1e-9)
    ax = plotting.plot_pit(m, bins=5)
    heights = [bar.get_height() for bar in ax.patches if bar.get_width() == pytest.approx(0.2)]
    np.testing.assert_allclose(heights, np.histogram(u, 5, (0, 1))[0] * 5 / 40)
    assert labels(ax) == ["rows", "95 % if calibrated"]


def test_pit_is_uniform_where_only_a_range_is_known():
    m = model("time")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (1500, 1))
    event = m.predictive(X).sample(1, rng)[:, 0]
    end = rng.uniform(0.1, 3.0, 1500)
    censored = (event > end).astype(float)
    metadata = {"censored": censored}
    u = _transform(m, X, np.minimum(event, end), metadata, 1)
    assert stats.kstest(u, "uniform").pvalue > 0.01
    naive = _transform(m, X, np.minimum(event, end), {"censored": 0.0}, 1)
    assert stats.kstest(naive, "uniform").pvalue < 1e-10
    seen = end < event  # the same rows, known to have happened after `entry` only
    late = {"entry": end[seen], "censored": 0.0}
    u = _transform(m, X[seen], event[seen], late, 1)
    assert stats.kstest(u, "uniform").pvalue > 0.01


def test_pit_of_counts_is_randomised():
    m = model("count")
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (3000, 1))
    metadata = {"exposure": 0.3}
    y = m.predictive(X, metadata).sample(1, 2)[:, 0]
    u = _transform(m, X, y, metadata, 1)
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert stats.kstest(m.predict_cdf(X, y[:, None], metadata)[:, 0], "uniform").pvalue < 1e-10


def test_calibration_is_the_coverage_of_intervals():
    m = model("gauss")
    ax = plotting.plot_calibration(m)
    curve = dict(zip(*line(ax, "rows").get_data(), strict=True))
    for level in (0.5, 0.9):
        low, high = m.predictive(m.X).interval(level)
        covered = ((m.Y >= low) & (m.Y <= high)).mean()
        assert curve[level] == pytest.approx(covered, abs=1e-9)
    assert curve[1.0] == 1.0 and ax.get_xlim() == ax.get_ylim() == (0, 1)
    with pytest.raises(InputError, match="both X and Y"):
        plotting.plot_calibration(m, m.X)


@pytest.mark.parametrize("name", ["binary", "class"])
def test_calibration_of_classes_compares_probabilities_with_shares(name):
    m = model(name)
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (200, m.X.shape[1]))
    y = m.predictive(X).sample(1, 1)[:, 0].astype(int)
    ax = plotting.plot_calibration(m, X, y)
    assert labels(ax) == ["95 % if calibrated", "rows"]
    want, p = [], m.predict_proba(X)
    pairs = [(p[i, k], y[i] == k) for k in range(p.shape[1]) for i in range(len(X))]
    pairs = pairs[len(X) :] if name == "binary" else pairs  # The second class alone.
    for low in range(10):
        inside = [pair for pair in pairs if low / 10 <= pair[0] < (low + 1) / 10]
        want += [np.mean(inside, axis=0)] if inside else []
    found = np.transpose(line(ax, "rows").get_data())
    np.testing.assert_allclose(found, want, atol=1e-12)
    (bars,) = ax.collections
    ends = [path.vertices[:, 1] for path in bars.get_paths()]
    held = [low <= share <= high for (low, high), (_, share) in zip(ends, found, strict=True)]
    assert np.mean(held) > 0.8  # These targets are drawn from the model itself.


def test_calibration_takes_the_labels_of_classes():
    x = np.linspace(0.0, 1.0, 30)
    m = cgp.ChainedGP(x, np.where(x > 0.4, "yes", "no"), L.Bernoulli(), num_inducing=4)
    ax = m.plot_calibration([0.1, 0.9], ["no", "yes"])
    assert ax.get_xlabel() == "predicted P(y = yes)"
    assert m.plot_pit([0.1, 0.9], ["no", "yes"]).patches
    with pytest.raises(InputError, match="no class of the model: 'perhaps'"):
        m.plot_calibration([0.1, 0.9], ["no", "perhaps"])


def result(**extra):
    trace = [
        TracePoint(-50.0, 3, 1, 0.1),
        TracePoint(-20.0, 9, 2, 0.4),
        TracePoint(-10.0, 11, 3, 1),
    ]
    return OptimizationResult("x", True, "converged", "", -10.0, 3, 11, 3, 1.0, trace, **extra)


def test_trace_of_a_result():
    ax = plotting.plot_trace(result(), "seconds")
    np.testing.assert_allclose(line(ax, "trace").get_xdata(), [0.1, 0.4, 1.0])
    np.testing.assert_allclose(line(ax, "trace").get_ydata(), [-50, -20, -10])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("seconds", "bound")
    ax = plotting.plot_trace(result(), "evaluations", gap=True)
    assert ax.get_yscale() == "log"
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[3, 40], [9, 10]])
    ax = plotting.plot_trace(result(estimates=[(-50.0, 2.0), (-20.0, 1.0), (-10.0, 0.5)]))
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == (-54.0, -9.0)


def test_trace_of_a_model():
    m = model("gauss")
    ax = m.plot_trace()
    assert len(line(ax, "trace").get_xdata()) == len(m.last_result.trace)
    fresh = cgp.ChainedGP(m.X, m.Y, L.HetGaussian(), num_inducing=5)
    with pytest.raises(InputError, match="optimize"):
        plotting.plot_trace(fresh)


def relevances(m, groups=None):
    """Standard deviations (inputs, latents) that the bars of plot_relevance have."""
    return importance(Population.of(m, groups), latent_quantities(m.likelihood)).sd


def test_relevances_of_the_fitted_functions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1.0, 2.0, 1.0]
    y = 2.0 * X[:, 0] + 0.5 * X[:, 1] + np.exp(0.5 * X[:, 2] - 3.0) * rng.normal(size=200)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), kernels=K.Linear(3, ARD=True) + K.White(3, 0.7))
    m.optimize(messages=False)
    m.input_names = ["width", "height", "depth"]
    found, s = relevances(m), X.std(axis=0)
    np.testing.assert_allclose(found[:, 0], [2.0 * s[0], 0.5 * s[1], 0.0], atol=0.02)
    np.testing.assert_allclose(found[:, 1], [0.0, 0.0, s[2]], atol=0.25)  # of the log-variance
    ax = plotting.plot_relevance(m)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, relevances(m).T.ravel())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == m.input_names
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first input on top
    assert labels(ax) == ["mean", "log variance"]
    ax = m.plot_effects()
    assert labels(ax) == ["mean", "width"]
    expected = m.effects()[["mean", "width"]].to_numpy().T.ravel()
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], expected)
    assert labels(m.plot_effects(of=["log_variance", "variance"])) == ["log variance", "variance"]


def with_categories(n=150):
    """y = 0.1 z + 5 [c] + an effect of one of three kinds: columns z, c, kind_a, kind_b, kind_c."""
    rng = np.random.default_rng(0)
    z, c, kind = rng.normal(size=n), (rng.uniform(size=n) < 0.4) * 1.0, rng.integers(3, size=n)
    effect = np.array([0.0, 1.0, 3.0])[kind]
    X = np.column_stack([z, c, np.eye(3)[kind]])
    y = 0.1 * z + 5.0 * c + effect + 0.05 * rng.normal(size=n)
    # a length of 0.1 makes a function of c flat at 0 and at 1, where its slope says nothing
    lengthscale = [5.0, 0.1, 0.7, 0.7, 0.7]
    kernel = K.RBF(5, variance=9.0, lengthscale=lengthscale, ARD=True)
    m = cgp.ChainedGP(X, y, L.Gaussian(variance=0.0025), kernels=kernel, Z=X, jitter=1e-8)
    m.optimize(only="variational", messages=False)
    m.input_names = ["z", "c", "kind_a", "kind_b", "kind_c"]
    return m, X, effect


def test_a_column_of_two_values_is_judged_by_the_step_between_them():
    m, X, _ = with_categories()
    found = relevances(m)[:, 0]
    assert found[1] == pytest.approx(5.0 * X[:, 1].std(), rel=0.05)
    assert found[0] == pytest.approx(0.1 * X[:, 0].std(), rel=0.3)
    assert grids.most_relevant(m) == 1
    assert m.plot(num=5).get_xlabel().startswith("c\n(")
    # the unit of a column says nothing, nor does a constant column
    scaled = cgp.ChainedGP(
        X * [1.0, 1e3, 1.0, 1.0, 1.0],
        m.Y,
        L.Gaussian(variance=0.0025),
        kernels=K.RBF(5, variance=9.0, lengthscale=[5.0, 100.0, 0.7, 0.7, 0.7], ARD=True),
        Z=X * [1.0, 1e3, 1.0, 1.0, 1.0],
        jitter=1e-8,
    )
    scaled.optimize(only="variational", messages=False)
    np.testing.assert_allclose(relevances(scaled)[:, 0], found, rtol=1e-3)
    flat = cgp.ChainedGP(np.c_[X[:, 0], np.ones(len(X))], m.Y, L.Gaussian(), num_inducing=5)
    with pytest.warns(UnfittedWarning):
        assert relevances(flat)[1, 0] == 0.0


def test_columns_of_one_category_have_one_bar():
    m, _, effect = with_categories()
    groups = {"kind": ["kind_a", 3, "kind_c"]}
    ax = m.plot_relevance(groups=groups)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["z", "c", "kind"]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths[2] == pytest.approx(effect.std(), rel=0.05)
    np.testing.assert_allclose(widths[:2], relevances(m)[:2, 0])
    for wrong in ({"a": []}, {"a": [0], "b": ["z"]}):
        with pytest.raises(InputError, match="groups must be"):
            m.plot_relevance(groups=wrong)
    with pytest.raises(InputError, match="kind_d"):
        m.plot_relevance(groups={"kind": ["kind_d"]})


def test_an_effect_is_a_curve_or_points():
    m, _, _ = with_categories()
    groups = {"kind": ["kind_a", "kind_b", "kind_c"]}
    ax = m.plot_effects("z", num=7)
    found = m.effects("z", num=7)
    np.testing.assert_allclose(line(ax, "average").get_ydata(), found["mean"])
    xs, low, high = band(ax, "95 % interval")
    np.testing.assert_allclose(np.c_[xs, low, high], found[["value", "low", "high"]])
    ax = m.plot_effects("kind", groups=groups, level=0.9, kind="individual")
    found = m.effects("kind", groups=groups, level=0.9)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == groups["kind"]
    np.testing.assert_allclose(line(ax, "average").get_ydata(), found["mean"])
    (bars,) = [each for each in ax.collections if each.get_label() == "90 % interval"]
    ends = [segment[:, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, found[["low", "high"]])
    assert labels(ax) == ["single rows", "90 % interval", "average"]
    ax = m.plot_effects("c", "width")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1"]
    assert not ax.collections and ax.get_ylabel() == "width"
    ax = m.plot_effects("z", kind="individual", num=3)
    assert len(ax.lines) > 40 and ax.get_ylabel() == "mean of y"


def test_the_two_parts_of_the_variance_are_stacked():
    m = model("gauss", 3)
    ax = m.plot_variance(1, at={0: 0.5}, num=9)
    assert labels(ax) == ["noise", "ignorance"] and ax.get_ylabel() == "variance of y"
    m.target_name = "rent (€)"  # a variance has the square of the unit
    try:
        assert m.plot_variance(1, num=3).get_ylabel() == "variance of rent (€)²"
    finally:
        m.target_name = "y"
    x, bottom, middle = band(ax, "noise")
    _, again, top = band(ax, "ignorance")
    rows = grids.rows_along(m, [1], x[:, None], {0: 0.5})
    np.testing.assert_allclose(middle - bottom, m.predictive(rows).noise_variance[:, 0])
    np.testing.assert_allclose(again, middle)
    np.testing.assert_allclose(top, m.predict(rows)[1][:, 0])
    assert not bottom.any() and ax.get_ylim()[0] == 0.0
    with pytest.raises(InputError, match="no finite variance"):
        model("time").plot_variance(num=5)


# ---- seasons ------------------------------------------------------------------------------------


def seasons(period=1.0):
    x = np.linspace(0.0, 42.0, 120)[:, None]
    season = K.Periodic(1, period=period) * K.RBF(1, lengthscale=100.0, name="memory")
    season.name = "season"
    kernel = K.RBF(1, lengthscale=15.0, name="trend") + season
    m = cgp.ChainedGP(x, np.sin(2.0 * np.pi * x) + 0.1 * x, L.Gaussian(), kernel, num_inducing=60)
    m.optimize(only="variational")
    return m


def test_a_curve_resolves_every_season():
    m = seasons()
    x = line(m.plot(), "median").get_xdata()
    assert 15 * 42 < len(x) < 20 * 45
    assert len(line(m.plot(limits=(0.0, 2.0)), "median").get_xdata()) == 200
    assert len(line(m.plot(num=30), "median").get_xdata()) == 30
    assert len(line(m.plot_latents()[0], "median").get_xdata()) == len(x)
    assert len(line(seasons(1e-3).plot(), "median").get_xdata()) == grids.MOST_POINTS


def test_a_season_that_repeats_often_is_drawn_three_times():
    x = np.linspace(0.0, 42.0, 60)[:, None]
    kernel = K.RBF(1, lengthscale=15.0, name="trend") + K.Periodic(1, period=2.0, name="season")
    m = cgp.ChainedGP(x, np.sin(np.pi * x), L.Gaussian(), kernel, num_inducing=5)
    m.optimize(only="variational")
    trend, season = m.plot_components()
    assert np.ptp(trend.get_xlim()) > 42.0 and 6.0 <= np.ptp(season.get_xlim()) < 7.0
    own = line(m.plot_components(limits=(0.0, 40.0))[1], "median").get_xdata()
    assert own[0] == 0.0 and own[-1] == 40.0


def test_parts_of_a_kernel_have_an_axes_each():
    m = seasons()
    axes = m.plot_components(centred=False)
    assert [ax.get_ylabel() for ax in axes] == ["trend", "season"]
    for ax, part in zip(axes, ("trend", "season"), strict=True):
        x = line(ax, "median").get_xdata()
        middle, low, high = m.predict_component(x, 0, part, bands=(2.5, 97.5))
        np.testing.assert_allclose(line(ax, "median").get_ydata(), middle[:, 0])
        np.testing.assert_allclose(np.c_[band(ax, "95 % interval")], np.c_[x, low, high])
    centred = m.plot_components(num=50)[1]  # against the joint posterior of rows, by brute force
    x, kernel = np.r_[line(centred, "median").get_xdata(), m.X[:, 0]][:, None], m.kernels[0].season
    prior, q = m._predictor().priors[0], m._predictor().q[0]
    A = prior.L_inv @ kernel.K(prior.Z, x)
    mean, C = q.mu @ A, kernel.K(x) + A.T @ (q.S - np.eye(len(A))) @ A
    T = np.c_[np.eye(50), np.full((50, len(m.X)), -1.0 / len(m.X))]
    sd = np.sqrt(np.diag(T @ C @ T.T))
    np.testing.assert_allclose(line(centred, "median").get_ydata(), T @ mean, atol=1e-9)
    _, low, high = band(centred, "95 % interval")
    np.testing.assert_allclose((high - low) / (2.0 * stats.norm.ppf(0.975)), sd, rtol=1e-6)
    (both,) = m.plot_components(num=50, groups={"both": ["trend", "season"]}, centred=False)
    x = line(both, "median").get_xdata()[:, None]
    mean = m.predict_latents(x)[0][:, 0] - m.mean_functions[0].value
    np.testing.assert_allclose(line(both, "median").get_ydata(), mean, rtol=1e-9)
    for wrong in ({"a": []}, {"a": ["trend"], "b": [0]}):
        with pytest.raises(InputError, match="groups must be"):
            m.plot_components(groups=wrong)
    one = model("gauss").plot_components("log_variance", num=5)
    assert [ax.get_ylabel() for ax in one] == ["log variance"]
    kernel = K.RBF(2, name="space") + K.RBF(1, active_dims=[1], name="time")
    X = np.random.default_rng(0).normal(size=(20, 2))
    m = cgp.ChainedGP(X, X[:, 0], L.Gaussian(), kernel, num_inducing=5)
    m.optimize(only="variational")
    assert [ax.get_xlabel() for ax in m.plot_components(num=4)] == ["x0", "x1"]
    assert [ax.get_xlabel() for ax in m.plot_components(input=1, num=4)] == ["x1", "x1"]


# ---- extremes -----------------------------------------------------------------------------------


def test_return_levels_and_data_agree():
    """Points of data that have the model's own law lie on its curve; all are moved to one place."""
    lik = L.GEV(shape=0.1)
    x = np.linspace(0.0, 1.0, 200)
    latents = np.stack([10.0 + 5.0 * x, 0.5 * x])
    u = (np.random.default_rng(0).permutation(200) + 0.5) / 200.0
    y = lik.ppf(u, *latents, shape=0.1)
    kernels = [cgp.kernels.Linear(1, 25.0), cgp.kernels.Linear(1, 1.0)]
    m = cgp.ChainedGP(x, y, lik, kernels, num_inducing=5, num_threads=1)
    m.optimize(messages=False)
    ax = m.plot_return_levels([1.0], periods=(2.0, 100.0))
    curve, points = ax.lines[:2]
    assert ax.get_xscale() == "log" and ax.get_xlim() == (2.0, 100.0)
    period, level = points.get_data()
    inside = (period > 2.0) & (period < 50.0)
    on_curve = np.interp(np.log(period[inside]), np.log(curve.get_xdata()), curve.get_ydata())
    np.testing.assert_allclose(level[inside], on_curve, rtol=0.05)
    np.testing.assert_allclose(period, 201.0 / (201.0 - np.arange(1, 201)))
    at = m.predictive([[1.0]]).return_level(curve.get_xdata(), level=0.9)
    np.testing.assert_allclose(curve.get_ydata(), at.level[0])
    for wrong in ((1.0, 5.0), (5.0, 2.0), (2.0,)):
        with pytest.raises(InputError, match="periods must be two numbers"):
            m.plot_return_levels(periods=wrong)
    with pytest.raises(InputError, match="rate must be"):
        m.plot_return_levels(rate=0.0)
    with pytest.raises(InputError, match="targets of Poisson"):
        model("count").plot_return_levels()


def test_mean_excess():
    """Of exponential targets it is about their mean, whatever the threshold is."""
    y = np.random.default_rng(0).exponential(3.0, 4000)
    ax = plotting.plot_mean_excess(y, thresholds=[0.0, 2.0, 5.0])
    u, mean = ax.lines[0].get_data()
    np.testing.assert_array_equal(u, [0.0, 2.0, 5.0])
    np.testing.assert_allclose(mean, [(y[y > t] - t).mean() for t in u])
    np.testing.assert_allclose(mean, 3.0, rtol=0.1)
    assert len(plotting.plot_mean_excess(y).lines[0].get_xdata()) == 80
    assert model("time").plot_mean_excess().get_xlabel() == "threshold"
    with pytest.raises(InputError, match="5 targets or more above"):
        plotting.plot_mean_excess(y, thresholds=[1e3])
    with pytest.raises(InputError, match="needs 10 targets"):
        plotting.plot_mean_excess(y[:5])
    for kind in ("class", "binary"):
        with pytest.raises(InputError, match="classes"):
            model(kind).plot_mean_excess()


# ---- methods, names, style ----------------------------------------------------------------------


def test_plot_chooses_by_the_number_of_inputs():
    assert labels(model("gauss").plot(num=5))[-1] == "data"
    assert mesh(model("gauss", 2).plot(num=5)) is not None
    m = model("gauss", 3)
    ax = m.plot(num=5)
    assert "median" in labels(ax)
    assert ax.get_xlabel().startswith(f"x{grids.most_relevant(m)}\n(")


# Arguments without which a figure cannot be drawn.
NEEDED = {
    "plot_restricted_mean": {"input": 0, "horizon": 1.0, "num": 4},
    "plot_survival_along": {"input": 0},
    "plot_survival_calibration": {"t": 0.5, "groups": 3},
}


@pytest.mark.parametrize("name", plotting.__all__)
def test_every_figure_is_a_method_that_takes_axes(name):
    m = model("gauss" if name == "plot_variance" else "time", 2 if name == "plot_map" else 1)
    _, given = plt.subplots(2) if name == "plot_latents" else plt.subplots()
    before = plt.get_fignums()
    options = {"num": 6} if name in ("plot_density", "plot_map") else NEEDED.get(name, {})
    found = getattr(m, name)(ax=given, **options)
    assert plt.get_fignums() == before
    assert np.all(np.atleast_1d(found) == np.atleast_1d(given))
    for ax in np.atleast_1d(found):
        assert ax.lines or ax.collections or ax.patches
        assert ax.get_xlabel() or name == "plot_latents"
    with pytest.raises(InputError, match="axes"):
        getattr(m, name)(ax=["no", "axes"], **NEEDED.get(name, {}))


@pytest.mark.parametrize("name", sorted(set(plotting.__all__) - {"plot_trace"}))
def test_a_model_without_data_says_that_they_are_needed(name, tmp_path):
    m = model("gauss" if name == "plot_variance" else "time", 1 if name == "plot_fit" else 2)
    m.save(tmp_path / "bare.cgp", data=False)
    bare = cgp.load(tmp_path / "bare.cgp")
    with pytest.raises(InputError, match="saved without its data") as told:
        getattr(bare, name)(**NEEDED.get(name, {}))
    # What the message says to give is an argument of the figure.
    rows_may_be_given = name in {
        "plot_calibration", "plot_effects", "plot_hazard", "plot_pit", "plot_survival",
        "plot_survival_calibration", "plot_survival_check", "plot_worm",
    }  # fmt: skip
    assert ("or give" in str(told.value)) == (rows_may_be_given or name == "plot_mean_excess")
    if name in ("plot_slice", "plot_latents", "plot_variance", "plot_density"):
        with pytest.raises(InputError, match="saved without its data"):
            getattr(bare, name)(1, limits=(0.0, 1.0))


def test_names_of_inputs_and_target():
    m = cgp.ChainedGP(np.ones((4, 2)) * [[1], [2], [3], [4]], [1.0, 2, 3, 4], L.Gaussian())
    m.input_names, m.target_name = ["dose", "age"], "response"
    ax = m.plot_slice("age", num=5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age\n(dose = 2.5)", "response")
    with pytest.raises(InputError, match="dose, age"):
        m.plot_slice("weight")
    m.input_names = ["dose"]
    with pytest.raises(InputError, match="2 names"):
        m.plot_relevance()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": [1.0]}, "at must be"),
        ({"input": 7}, "input must be"),
        ({"levels": (0,)}, "levels are percentages"),
        ({"limits": (1.0, 0.0)}, "limits must be"),
        ({"num": 0}, "num must be"),
        ({"latent": "scale"}, "latent must be"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(InputError, match=message):
        plotting.plot_slice(model("gauss", 3), **options)
    if "input" not in options:
        with pytest.raises(InputError, match="plot_slice"):
            plotting.plot_fit(model("gauss", 3))


def test_colours_differ_in_lightness_too():
    greys = [
        np.dot([0.299, 0.587, 0.114], style.density_map()(v)[:3]) for v in (0.0, 0.3, 0.6, 1.0)
    ]
    assert (np.diff(greys) < -0.15).all()
    assert style.tint("#000000", 0.25) == (0.75, 0.75, 0.75)
    assert style.words("log_scale2") == "log scale²" and style.words("log_rate_2") == "log rate 2"


def test_gallery_shows_every_figure():
    figures = runpy.run_path(str(ROOT / "docs" / "make_gallery.py"))["FIGURES"]
    page = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    assert set(re.findall(r"\]\(images/gallery/(\w+)\.png\)", page)) == set(figures)
    for name in figures:
        image = ROOT / "docs" / "images" / "gallery" / f"{name}.png"
        assert image.read_bytes()[:4] == b"\x89PNG" and image.stat().st_size < 120_000
    for name in plotting.__all__:
        assert f"`{name}`" in page, name


# ---- centiles and worms --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gauss", "count", "time"])
def test_centiles_are_drawn_as_the_model_has_them(kind):
    m = model(kind)
    ax = m.plot_centiles((10, 50, 90), num=20)
    x = grids.axis_values(m, 0, 20)
    metadata = grids.metadata_at_rest(m)
    middle, lower, upper = m.predictive(x[:, None], metadata).centiles((10, 50, 90), (5, 95))
    curves = [each for each in ax.lines if len(each.get_xdata()) == 20]
    for k, curve in enumerate(curves):
        np.testing.assert_allclose(curve.get_ydata(), middle[:, k])
    assert [text.get_text() for text in ax.texts] == ["10", "50", "90"]
    heights = [text.xy[1] for text in ax.texts]
    assert heights == sorted(heights)
    assert "90 % band" in labels(ax)
    if kind == "gauss":
        _, low, high = band(ax, "90 % band")
        np.testing.assert_allclose([low, high], [lower[:, 0], upper[:, 0]])
        bare = m.plot_centiles((10, 50, 90), num=5, bands=None, data=False)
        assert not labels(bare)


def test_worms():
    m = model("gauss")
    ax = m.plot_worm()
    z = np.sort(m.z_scores())
    normal = stats.norm.ppf((np.arange(40) + 0.5) / 40)
    np.testing.assert_allclose(line(ax, "rows").get_ydata(), z - normal, atol=1e-12)
    x, low, high = band(ax, "95 % if right")
    want = 1.96 * np.sqrt(stats.norm.cdf(x) * stats.norm.sf(x) / 40) / stats.norm.pdf(x)
    np.testing.assert_allclose(high, want, rtol=1e-9)
    np.testing.assert_allclose(low, -want, rtol=1e-9)
    axes = m.plot_worm(input=0, panels=3)
    assert len(axes) == 3 and sum(len(line(a, "rows").get_xdata()) for a in axes) == 40
    assert len({a.get_ylim() for a in axes}) == 1 and "x: " in axes[0].get_title(loc="left")
    m.plot_worm(m.X[:25], m.Y[:25], ax=plt.subplots()[1])
    with pytest.raises(InputError, match="no order"):
        model("class").plot_worm()
    with pytest.raises(InputError, match="one axes"):
        m.plot_worm(ax=plt.subplots(2)[1])


# ---- tables with words and dates -----------------------------------------------------------------


@pytest.fixture(scope="module")
def table_model():
    rng = np.random.default_rng(0)
    n = 40
    frame = pd.DataFrame({
        "town": np.resize(["York", "Bath", "Ely", "Bath"], n),
        "open": np.resize([True, False, True], n),
        "when": pd.Timestamp("2021-03-04") + pd.to_timedelta(np.arange(n), unit="D"),
    })  # fmt: skip
    m = cgp.ChainedGP(
        frame, rng.normal(size=n), cgp.likelihoods.HetGaussian(), num_inducing=5, num_threads=1
    )
    m.optimize(only="variational", messages=False)
    return m


@pytest.mark.parametrize("figure", ["plot_slice", "plot_centiles"])
def test_curves_of_a_group_are_drawn_with_the_rows_of_that_group(table_model, figure):
    """The town and the day are of York, open: rows of Ely and Bath do not belong to its curves."""
    m = table_model
    ax = getattr(m, figure)(input="when", at={"town": "York", "open": True}, data=True, num=5)
    own = (m.X[:, 0] == 2.0) & (m.X[:, 1] == 1.0)  # The codes of York, and of True.
    found = line(ax, "data of these levels").get_ydata()
    np.testing.assert_allclose(found, np.asarray(m.Y)[own, 0])
    everything = getattr(m, figure)(input="town", at={"open": True}, data=True, num=5)
    assert len(line(everything, "data of these levels").get_xdata()) == (m.X[:, 1] == 1.0).sum()


def test_levels_and_dates_are_on_the_axes(table_model):
    from matplotlib.dates import date2num

    ax = table_model.plot_slice("when", at={"town": "Ely"}, limits=("2021-03-01", "2021-05-01"))
    assert ax.get_xlim() == tuple(date2num(np.array(["2021-03-01", "2021-05-01"], "datetime64[D]")))
    assert ax.get_xlabel() == "when\n(town = Ely, open = True)"
    ax = table_model.plot_slice("town", at={"when": pd.Timestamp("2021-03-20")}, data=True)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["Bath", "Ely", "York"]
    assert ax.get_xlim() == (-0.5, 2.5) and "when = 2021-03-20" in ax.get_xlabel()
    median = next(line for line in ax.lines if line.get_label() == "median")
    x, y = median.get_data()
    expected = table_model.predict_quantiles(
        pd.DataFrame({"town": ["Bath", "Ely", "York"], "open": True, "when": "2021-03-20"}).assign(
            when=pd.Timestamp("2021-03-20")
        ),
        (50,),
    )[0]
    np.testing.assert_allclose(y[::3], expected[:, 0], rtol=1e-6)  # a piece for each level
    np.testing.assert_allclose(x[::3], [-0.35, 0.65, 1.65])
    for ax in (
        table_model.plot_map(inputs=("when", "town"), num=5),
        table_model.plot_density("town", num=5),
        table_model.plot_latents("town", num=5)[-1],
        table_model.plot_density("when", num=5),
    ):
        assert ax.figure is not None
    assert table_model.plot_relevance() is not None
    plt.close("all")


def test_places_of_levels_and_dates(table_model):
    row = grids.resting_point(table_model)
    assert row.tolist() == [0.0, 1.0, 19.5]  # the most frequent town and flag, the median date
    row = grids.resting_point(table_model, {"town": "York", "open": False, 2: "2021-03-05"})
    assert row.tolist() == [2.0, 0.0, 1.0]
    with pytest.raises(InputError, match="column 'town' of the value has a level"):
        grids.resting_point(table_model, {"town": "Rome"})
    relevances = importance(
        Population.of(table_model), latent_quantities(table_model.likelihood)
    ).sd
    means = np.stack([
        table_model.predict_latents(np.column_stack([np.full(40, code), table_model.X[:, 1:]]))[0]
        for code in range(3)
    ])  # fmt: skip
    share = np.bincount(table_model.X[:, 0].astype(int)) / 40
    variance = np.einsum("k,knb->nb", share, (means - np.einsum("k,knb->nb", share, means)) ** 2)
    np.testing.assert_allclose(relevances[0], np.sqrt(variance.mean(axis=0)), rtol=1e-8)


# ---- ends of the data, and rows at risk ---------------------------------------------------------


def ends_of_data(ax):
    found = [one for one in ax.lines if one.get_linestyle() == "--" and one.get_color() == "0.4"]
    return [float(one.get_xdata()[0]) for one in found]


def test_figures_that_go_on_after_the_data_mark_where_these_end():
    m = model("gauss")
    low, high = m.X.min(), m.X.max()
    assert ends_of_data(m.plot()) == []  # The usual margin is no forecast.
    assert ends_of_data(m.plot(limits=(0.0, 1.0))) == []
    assert ends_of_data(m.plot(limits=(low, high + 2.0))) == [high]
    ax = m.plot(limits=(low - 2.0, high + 2.0))
    assert ends_of_data(ax) == [low, high]
    assert [t.get_text() for t in ax.get_legend().get_texts()].count("end of the data") == 1
    for axes in (
        m.plot_latents(limits=(low, high + 2.0)),
        m.plot_components("mean", limits=(0, 9)),
    ):
        assert all(ends_of_data(axis) == [high] for axis in axes)


def test_numbers_at_risk_stand_below_a_new_figure():
    m = model("time")
    ax = m.plot_survival_check()
    ticks = [t for t in ax.get_xticks() if 0.0 <= t <= ax.get_xlim()[1]]
    expected = [str(int((m.Y >= t).sum())) for t in ticks]
    assert [text.get_text() for text in ax.texts] == ["at risk", *expected]
    _, own = plt.subplots()
    assert not m.plot_survival_check(ax=own).texts
    groups = m.plot_survival_check(by=np.arange(40) % 2, at_risk=True).texts
    assert len(groups) == 1 + 2 * len(ticks)


def test_medians_of_counts_reach_every_level_of_a_category():
    """matplotlib loses the ends of stepped pieces, so that pieces over levels are drawn plainly."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"road": rng.choice(["a", "b", "c"], 40), "age": rng.uniform(18, 80, 40)})
    m = cgp.ChainedGP(X, rng.poisson(3.0, 40), cgp.likelihoods.Poisson(), num_inducing=6)
    m.optimize(only="variational")
    ax = m.plot_slice("road")
    (median,) = (line for line in ax.lines if line.get_label() == "median")
    assert median.get_drawstyle() == "default" and np.isfinite(median.get_ydata()[:2]).all()


def test_metadata_follow_the_targets_in_all_figures():
    found = []
    for name in plotting.__all__:
        known = inspect.signature(getattr(plotting, name)).parameters
        if {"Y", "Y_metadata"} <= set(known):
            found.append(name)
            assert list(known).index("Y_metadata") == list(known).index("Y") + 1, name
            assert known["Y_metadata"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, name
    assert {"plot_pit", "plot_calibration", "plot_worm", "plot_survival_check"} <= set(found)


ALONG = {
    "plot_slice": {},
    "plot_latents": {},
    "plot_density": {},
    "plot_variance": {},
    "plot_effects": {},
    "plot_components": None,
    "plot_map": None,
    "plot_worm": None,
}


@pytest.mark.parametrize("name", ALONG)
def test_truth_values_have_two_places_on_an_axis(name, table_model):
    draw = getattr(table_model, name)
    found = {
        "plot_map": lambda: draw(inputs=("open", "town"), num=4),
        "plot_components": lambda: draw("mean"),
        "plot_worm": lambda: draw(input="open"),
    }.get(name, lambda: draw("open"))()
    axes = np.atleast_1d(np.asarray(found, dtype=object)).ravel()
    assert all(np.isfinite(ax.get_xlim()).all() for ax in axes)
    if name not in ("plot_components", "plot_worm"):
        ticks = [tick.get_text() for tick in axes[-1].get_xticklabels()]
        assert ticks == ["False", "True"]


def test_a_level_that_the_data_do_not_have_is_named_as_it_was_given(table_model):
    table_model.unseen = "prior"
    try:
        ax = table_model.plot_slice("when", at={"town": "Rome"}, num=4)
        assert "town = Rome" in ax.get_xlabel()
        ax = table_model.plot_slice("when", at={"town": 3}, num=4)
        assert "town = code 3" in ax.get_xlabel()
    finally:
        table_model.unseen = "raise"


def test_bars_of_two_classes_are_those_of_the_second():
    x = np.random.default_rng(0).uniform(size=(30, 2))
    m = cgp.ChainedGP(x, np.where(x[:, 0] > 0.4, "yes", "no"), L.Bernoulli(), num_inducing=4)
    ax = m.plot_effects(rows=10)
    assert len(ax.patches) == 2  # one bar for each input
    assert "P(no)" in m.effects(rows=10).columns
