"""Tables with words, truth values and dates meet everything that a fitted model can be asked."""

import matplotlib
import numpy as np
import pytest

import chainedgp as cgp
from chainedgp.errors import InputError

pd = pytest.importorskip("pandas")
matplotlib.use("Agg")

pytestmark = pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")

TOWNS = {"York": 2.0, "Bath": 0.0, "Ely": -1.0}


def table(n=90, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "depth": rng.uniform(0.0, 50.0, n),
        "town": np.resize(list(TOWNS), n),
        "open": np.resize([True, False], n),
        "when": pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
    })  # fmt: skip
    noise = 0.1 * (1.0 + 2.0 * frame["open"]) * rng.standard_normal(n)
    return frame, frame["town"].map(TOWNS).to_numpy() + np.sin(frame["depth"] / 8.0) + noise


@pytest.fixture(scope="module")
def fitted():
    frame, y = table()
    m = cgp.ChainedGP(frame, y, cgp.likelihoods.HetGaussian(), num_inducing=30)
    m.optimize(max_iters=25)
    return m


def test_effects_have_the_values_of_the_table(fitted):
    by_town = fitted.effects("town", "mean").set_index("value")
    assert by_town.index.tolist() == ["Bath", "Ely", "York"]
    assert by_town["mean"].idxmax() == "York" and by_town["mean"].idxmin() == "Ely"
    assert fitted.effects("open", "width")["value"].tolist() == [False, True]
    dates = fitted.effects("when", num=3)["value"]
    assert np.issubdtype(dates.dtype, np.datetime64) and dates.is_monotonic_increasing
    single = fitted.effects("town", "mean", values=["York"])
    assert single["mean"][0] == pytest.approx(by_town.loc["York", "mean"], rel=1e-12)
    with pytest.raises(InputError):
        fitted.effects("town", values=["Rome"])
    shares = fitted.effects()
    assert shares["mean"].idxmax() == "town" and shares["width"].idxmax() == "open"


def test_figures_of_effects_name_levels_and_dates(fitted):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for draw in (fitted.plot_effects, fitted.plot_variance, fitted.plot_slice):
        pyplot.figure()
        axes = draw("town")
        words = [label.get_text() for label in np.atleast_1d(axes)[0].get_xticklabels()]
        assert words == ["Bath", "Ely", "York"], draw
    axes = fitted.plot_effects("when", ax=pyplot.figure().subplots())
    axes.figure.canvas.draw()
    assert any("2023" in label.get_text() for label in axes.get_xticklabels())
    low, high = matplotlib.dates.num2date(axes.get_xlim())
    assert (low.year, high.year) == (2022, 2023)
    axes = fitted.plot_centiles((10, 50, 90), "town", num=5)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Bath", "Ely", "York"]
    titles = [axis.get_title(loc="left") for axis in fitted.plot_worm(input="town")]
    assert titles == ["town: Bath", "town: Ely", "town: York"]
    assert "when: 2022-" in fitted.plot_worm(input="when", panels=2)[0].get_title(loc="left")
    names = [axis.get_xlabel() for axis in fitted.plot_components()]
    assert "town" in names
    pyplot.close("all")


def test_rows_of_a_table_are_added(fitted, tmp_path):
    m = fitted.copy()
    frame, y = table(3, seed=1)
    m.update(frame[["when", "open", "town", "depth"]], y)  # Columns go by their names.
    assert len(m.X) == 93
    np.testing.assert_allclose(m.X[-3:, 1], [2.0, 0.0, 1.0])
    with pytest.raises(InputError, match="Rome"):
        m.update(frame.assign(town="Rome"), y)
    assert len(m.X) == 93
    m.save(tmp_path / "m.npz")
    again = cgp.load(tmp_path / "m.npz")
    np.testing.assert_allclose(again.predict(frame)[0], m.predict(frame)[0], rtol=1e-12)


def test_centiles_and_scores_of_a_table(fitted):
    frame, y = table(4, seed=2)
    centiles = fitted.predict_centiles(frame, (10.0, 90.0))
    assert (centiles["10%"] < centiles["90%"]).all() and len(centiles) == 4
    assert np.isfinite(fitted.z_scores(frame, y)).all()
    parts = fitted.predictive(frame).variance_parts()
    total = parts["noise"] + parts["ignorance"]
    np.testing.assert_allclose(total, fitted.predict(frame)[1], rtol=1e-8)
