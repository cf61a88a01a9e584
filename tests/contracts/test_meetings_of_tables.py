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


# ---- every pair: it works, or is refused in words -----------------------------------------------

L = cgp.likelihoods


def fresh(**options):
    frame, y = table()
    return cgp.ChainedGP(frame, y, L.HetGaussian(), num_inducing=10, **options), frame, y


def batches():
    m, frame, _ = fresh()
    m.optimize(batch_size=45, epochs=1, rng=0, holdout=0.1)
    assert set(m.Z.values[:, 1]) <= {0.0, 1.0, 2.0}  # Steps of batches move no codes.
    return m.predict(frame[:2])


def restarts():
    m, frame, _ = fresh()
    m.optimize_restarts(2, max_iters=2)
    return m.predict(frame[:2])


def joint():
    m, frame, y = fresh(posterior="joint")
    m.optimize(only="variational")
    m.update(frame[:2], y[:2])
    return m.effects("town", "mean")["mean"]


def averaged(m, frame, y):
    over = m.over_hyperparameters(10)
    band = m.effects("town", "mean", over=over)
    return over.predict_quantiles(frame[:2])[0], band["high"] - band["low"]


def left_out(m, frame, y):
    return m.loo(refit=20).pointwise


def folds(m, frame, y):
    def make(X, Y):
        return cgp.ChainedGP(X, Y, L.HetGaussian(), num_inducing=8)

    found = cgp.cross_validate(
        make, frame, y, 2, num_threads=1, fit=lambda m: m.optimize(only="variational")
    )
    return found.log_density


def updated_and_averaged(m, frame, y):
    m = m.copy()
    m.update(frame[:3], y[:3], {"weights": [2.0, 1.0, 1.0]})
    assert m.Y_metadata["weights"].sum() == 94.0
    return m.over_hyperparameters(10).predict(frame[:2])[0], m.effects("town")["mean"]


def codes_in_arrays(m, frame, y):
    np.testing.assert_array_equal(m.predict(m.X[:3])[0], m.predict(frame[:3])[0])
    with pytest.raises(InputError, match="codes of its levels"):
        m.predict([[1.0, 3.0, 0.0, 5.0]])
    m = m.copy()
    m.unseen = "prior"
    assert "in an array codes from 3 on, are new levels" in m.columns[1].words
    rome = frame[:1].assign(town="Rome")
    coded = np.array([[*m.X[0, :1], 3.0, *m.X[0, 2:]]])
    np.testing.assert_array_equal(m.predict(coded)[0], m.predict(rome)[0])
    return m.predict(rome)


def on_blocks(m, frame, y):
    da = pytest.importorskip("dask.array")
    return m.predict(da.from_array(m.X[:4], chunks=2))[0].compute()


def competing(m, frame, y):
    from chainedgp.survival import CompetingRisks

    times, cause = np.exp(y / 4.0) + 0.1, np.resize(["a", "b", "none"], len(y))
    lik = L.WeibullSurvival()
    risks = CompetingRisks.from_data(frame, times, cause, lik, censored="none", num_inducing=8)
    for one in risks.models.values():
        one.optimize(only="variational")
    with pytest.raises(InputError, match="Rome"):
        risks.cumulative_incidence(frame[:2].assign(town="Rome"), [1.0])
    for name in ("effects", "plot_effects"):
        with pytest.raises(AttributeError, match=rf"\.models\['a'\]\.{name}"):
            getattr(risks, name)
    with pytest.raises(AttributeError, match="an event of another cause is a row with censored"):
        risks.update(frame[:2], times[:2])
    one = risks.models["a"]
    one.update(frame[:2], times[:2], {"censored": [0, 1]})
    return risks.cumulative_incidence(frame[:2], [1.0])["a"], one.effects("town")["median"]


ALONE = {"batches": batches, "restarts": restarts, "joint": joint}
WITH = {
    "averaged": averaged,
    "loo": left_out,
    "folds": folds,
    "update, weights, averaged": updated_and_averaged,
    "codes": codes_in_arrays,
    "Dask": on_blocks,
    "competing risks": competing,
}
REFUSED = {
    "levels of set_data": (
        lambda m, f, y: m.set_data(f.assign(town="Rome"), y),
        "need a new model",
    ),
    "update in blocks": (
        lambda m, f, y: m.update(pytest.importorskip("dask.array").from_array(m.X[:4]), y[:4]),
        "update holds all rows in memory",
    ),
    "averaged, new level": (
        lambda m, f, y: m.over_hyperparameters(10).predict(f[:1].assign(town="Rome")),
        "does not know: Rome",
    ),
}


@pytest.mark.parametrize("meet", ALONE.values(), ids=ALONE)
def test_tables_meet_ways_to_fit(meet):
    assert all(np.isfinite(np.asarray(part, dtype=float)).all() for part in meet())


@pytest.mark.parametrize("meet", WITH.values(), ids=WITH)
def test_tables_meet_what_is_asked_of_a_fit(meet, fitted):
    frame, y = table()
    found = meet(fitted, frame, y)
    parts = found if isinstance(found, tuple) else (found,)
    assert all(np.isfinite(np.asarray(part, dtype=float)).all() for part in parts)


@pytest.mark.parametrize(("ask", "words"), REFUSED.values(), ids=REFUSED)
def test_what_tables_cannot_is_refused_in_words(ask, words, fitted):
    with pytest.raises(InputError, match=words):
        ask(fitted, *table())


# ---- batches, files and clusters ----------------------------------------------------------------


def test_batches_of_a_table(tmp_path):
    """Rows of a batch are read as the table is; the fit is kept in a file and takes new rows."""
    frame, y = table(60)
    m = cgp.ChainedGP(frame, y, cgp.likelihoods.HetGaussian(), num_inducing=12, num_threads=1)
    before = m.log_likelihood()
    result = m.optimize("adam", batch_size=25, epochs=3, rng=0, holdout=0.2)
    assert np.isfinite(result.held_out).all() and m.log_likelihood() > before
    np.testing.assert_array_equal(np.unique(m.Z[:, 1]), [0.0, 1.0, 2.0])  # Levels do not move.
    m.save(tmp_path / "m.npz")
    again = cgp.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.predict(frame)[0], m.predict(frame)[0])
    new, targets = table(3, seed=1)
    again.update(new, targets)
    assert again.X.shape == (63, 4) and np.isfinite(again.log_likelihood())


def test_a_table_on_a_cluster(fitted, cluster, tmp_path):
    """A cluster takes the codes of the table, by block; what it cannot take is refused in words."""
    da = pytest.importorskip("dask.array")
    frame, y = table()
    codes = np.asarray(fitted.X)  # y is a pandas series, whose blocks are series too.
    lazy = da.from_array(codes, chunks=(40, 2))
    m = fitted.copy()
    m.set_data(lazy, da.from_array(y, chunks=25))
    assert m.log_likelihood() == pytest.approx(fitted.log_likelihood(), rel=1e-10)
    np.testing.assert_allclose(m.predict(lazy)[0].compute(), fitted.predict(frame)[0], rtol=1e-10)
    np.testing.assert_array_equal(m.predict(frame)[0], fitted.predict(frame)[0])
    m.save(tmp_path / "m.npz", data=False)
    again = cgp.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.predict(frame)[0], fitted.predict(frame)[0])
    with pytest.raises(InputError, match="rows are on a Dask cluster, and update holds all rows"):
        m.update(frame, y)
    with pytest.raises(InputError, match="Xnew is on a Dask cluster"):
        fitted.update(lazy, y)
    with pytest.raises(InputError, match="batches of rows, which stay on the cluster"):
        m.optimize(batch_size=10)
    codes[50, 1] = 7.0
    unknown = da.from_array(codes, chunks=(40, 2))
    with pytest.raises(InputError, match=r"rows 45 to 89.*has 7 in column 'town'"):
        m.set_data(unknown, y)
    with pytest.raises(InputError, match="has 7 in column 'town'"):
        fitted.predict(unknown)[0].compute()


def test_what_is_no_number_is_refused_on_a_cluster(cluster):
    da = pytest.importorskip("dask.array")
    frame, y = table(20)
    numbers = da.from_array(frame[["depth"]].to_numpy(), chunks=(10, 1))
    HetGaussian, Bernoulli = cgp.likelihoods.HetGaussian, cgp.likelihoods.Bernoulli
    words = np.resize(["a", "b"], 20)
    for X, Y, likelihood, match in (
        (da.from_array(frame.to_numpy(), chunks=(10, 4)), y, HetGaussian(), "'York'.*data frame"),
        (da.from_array(frame["when"].to_numpy(), chunks=10), y, HetGaussian(), "X holds dates"),
        (
            numbers,
            da.from_array(frame["when"].to_numpy(), chunks=10),
            HetGaussian(),
            "Y holds dates",
        ),
        (numbers, da.from_array(words, chunks=10), Bernoulli(), "Code two classes as 0 and 1"),
    ):
        with pytest.raises(InputError, match=match):
            cgp.ChainedGP(X, Y, likelihood, num_inducing=4)
