"""Tables as they are: categories, text, truth values, dates and gaps among the inputs."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp.data.columns import Boolean, Category, Columns, Date, Duration, Number
from chainedgp.errors import InputError
from chainedgp.kernels import RBF, Categorical, Linear, RandomEffects
from chainedgp.likelihoods import HetGaussian, Poisson

N = 30
# Fits are cut short: what they find is not the question here.
pytestmark = pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "age": rng.uniform(20, 80, N),
        "town": np.resize(["York", "Bath", "Ely"], N),
        "size": pd.Categorical(np.resize(["s", "m", "l", "m"], N), ["s", "m", "l"], ordered=True),
        "smoker": np.resize([True, False], N),
        "when": pd.Timestamp("2021-03-04 12:00") + pd.to_timedelta(np.arange(N) * 5, unit="D"),
        "wait": pd.to_timedelta(np.arange(N) * 10, unit="min"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def target(frame):
    effects = {"York": 2.0, "Bath": 0.0, "Ely": -1.0}
    rng = np.random.default_rng(1)
    y = frame["age"] / 20 + frame["town"].map(effects) + 0.2 * rng.standard_normal(N)
    return y.rename("score")


@pytest.fixture(scope="module")
def model(frame, target):
    m = cgp.ChainedGP(frame, target, HetGaussian(), num_inducing=15, num_threads=1)
    m.optimize(messages=False, max_iters=30)
    return m


def test_how_columns_are_read(frame, model):
    expected = np.column_stack([
        frame["age"],
        np.resize([2, 0, 1], N),  # text is sorted
        np.resize([0, 1, 2, 1], N),  # categories have their own order
        np.resize([1, 0], N),
        0.5 + 5.0 * np.arange(N),  # days since midnight of the first day
        np.arange(N) / 6,  # hours
    ])  # fmt: skip
    np.testing.assert_allclose(model.X, expected, rtol=1e-12)
    assert model.columns.each == (
        Number("age"),
        Category("town", ("Bath", "Ely", "York")),
        Category("size", ("s", "m", "l"), ordered=True),
        Boolean("smoker"),
        Date("when", "2021-03-04T00:00:00", "days"),
        Duration("wait", "hours"),
    )
    text = str(model.summary())
    for words in (
        "town     : category of 3 levels: Bath, Ely, York",
        "size     : ordered category: s < m < l",
        "smoker   : boolean: 0 is False, 1 is True",
        "when     : date, in days since 2021-03-04",
        "wait     : duration, in hours",
        "kernels.mean.mixed.lengthscale[town]",
        "kernels.mean.random_effects.variances[town]",
    ):
        assert words in text
    back = pd.DataFrame(model.columns.back(model.X))
    assert (back["town"] == frame["town"]).all() and (back["size"] == frame["size"]).all()
    for name in ("smoker", "when", "wait"):
        assert back[name].equals(frame[name].astype(back[name].dtype)), name
    np.testing.assert_array_equal(back["age"], frame["age"])


def test_frames_to_predict_at(frame, model):
    """Columns are matched by name, whatever their order and types, if they say the same."""
    expected = model.predict(frame)[0]
    same = frame.assign(
        town=frame["town"].astype("category").cat.reorder_categories(["York", "Ely", "Bath"]),
        size=frame["size"].astype(str),
        smoker=frame["smoker"].astype(int),
        when=[moment.to_pydatetime() for moment in frame["when"]],
        wait=[wait.to_pytimedelta() for wait in frame["wait"]],
    )
    for other in (same, frame[frame.columns[::-1]], model.columns.read(frame, "X")):
        np.testing.assert_allclose(model.predict(other)[0], expected, rtol=1e-12)
    table = model.predict_frame(frame.iloc[3:5], inputs=True)
    assert list(table.columns)[:6] == list(frame.columns) and "mean" in table
    assert table["town"].tolist() == ["York", "Bath"] and table["when"].iloc[0] == frame["when"][3]
    plain = model.predict_frame(model.X[3:5], inputs=True)
    assert plain["town"].tolist() == ["York", "Bath"]
    assert plain["when"].tolist() == table["when"].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"town": "Rome"}, r"column 'town' of Xnew has a level that the model does not know: Rome, "
         r"first in row 0\. It knows Bath, Ely, York\..*m\.unseen"),
        ({"size": "xl"}, "column 'size' of Xnew has a level.*xl.*Give one of these"),
        ({"age": "old"}, "column 'age' of Xnew is a text; the model was built with numbers"),
        ({"smoker": 0.3}, "column 'smoker' of Xnew has 0.3; expected True and False"),
        ({"smoker": "yes"}, "column 'smoker' of Xnew is a text.*truth values"),
        ({"when": 3.0}, "column 'when' of Xnew is a number; the model was built with dates"),
        ({"when": pd.Timestamp("2021-04-01", tz="UTC")}, "dates with a time zone"),
        ({"wait": 3.0}, "column 'wait' of Xnew is a number; the model was built with durations"),
        ({"town": None}, "Xnew has 30 missing values: column 'town' in 30 rows, 0, 1, 2, 3, 4, …"),
    ],
)  # fmt: skip
def test_frames_that_are_refused(frame, model, change, message):
    with pytest.raises(InputError, match=message):
        model.predict(frame.assign(**change))


def test_arrays_of_codes(model):
    with pytest.raises(InputError, match=r"Xnew has 2\.5 in column 'town'; expected the codes"):
        model.predict(model.X + [0, 0.5, 0, 0, 0, 0])
    with pytest.raises(InputError, match="from 0 for Bath to 2 for York"):
        model.predict(model.X + [0, 3, 0, 0, 0, 0])


def test_unseen_levels(frame, target):
    """With "prior" a new level has the prior of an exchangeable one, each new level its own."""
    kernels = RBF(1, 4.0, 30.0, active_dims=["age"])
    kernels = kernels * Categorical(1, lengthscale=0.7, active_dims=["town"])
    options = {"num_inducing": 20, "num_threads": 1, "unseen": "prior"}
    m = cgp.ChainedGP(frame[["age", "town"]], target, HetGaussian(), kernels, **options)
    m.optimize(messages=False, only="variational")
    new = pd.DataFrame({"age": [50.0] * 5, "town": ["Bath", "Rome", "Oslo", "Rome", "Bath"]})
    mean, covariance = m.predict_latents(new, full_cov=True)
    assert mean[1] == pytest.approx(mean[2]) and mean[1] == pytest.approx(mean[3])
    S = covariance[0]
    assert S[1, 3] == pytest.approx(S[1, 1], rel=1e-6) and S[1, 2] < 0.9 * S[1, 1]
    assert S[1, 1] > 2.0 * S[0, 0]
    with pytest.raises(InputError, match="unseen must be one of 'raise', 'prior'"):
        m.unseen = "guess"
    m.unseen = "raise"
    with pytest.raises(InputError, match="levels that the model does not know: Rome, Oslo"):
        m.predict(new)


def test_default_kernels(model):
    mixed, linear, effects = model.kernels.mean.parts
    assert (mixed.input_dim, mixed.levels, mixed.ranks) == (6, (1,), (2,))
    assert mixed.lengthscale["town"].values.size == 1
    assert linear.active_dims.tolist() == [0, 2, 3, 4, 5] and effects.active_dims.tolist() == [1]
    assert effects.num_levels == (3,)
    prior = model.hyperpriors["kernels.mean.mixed.lengthscale"]
    spread = model.X.std(0)
    spread[1] = 0.5  # two levels are as far from each other as 0 and 1
    np.testing.assert_allclose(prior.median, np.sqrt(6) * spread, rtol=1e-12)
    effects_prior = model.hyperpriors["kernels.mean.random_effects.variances"]
    scale2 = float(model.problem.starts.scales[0]) ** 2
    assert effects_prior.median == pytest.approx([0.3 * scale2 / 6 / (1 - 1 / 3)])
    plain = cgp.ChainedGP(model.X, model.Y, HetGaussian(), num_inducing=5)
    assert [type(part) for part in plain.kernels.mean.parts] == [RBF, Linear]


def test_inducing_inputs_keep_their_codes(frame, target):
    """Levels are spread over the inducing inputs, and no fit moves a code."""
    few = frame[["age", "town"]]
    codes = Columns.of(few).read(few, "X")
    for posterior, X, kernels in (
        ("mean_field", few, None),
        (
            "joint",
            codes,
            RBF(2) + RandomEffects(1, active_dims=[1]),
        ),  # the RBF has a gradient there
    ):
        m = cgp.ChainedGP(
            X, target, HetGaussian(), kernels, num_inducing=9, posterior=posterior, num_threads=1
        )
        before = m.Z.values.copy()
        counts = np.bincount(before[:, 1].astype(int))
        assert counts.size == 3 and counts.min() >= 2
        m.optimize(messages=False, max_iters=5)
        np.testing.assert_array_equal(m.Z.values[:, 1], before[:, 1])
        assert not np.array_equal(m.Z.values[:, 0], before[:, 0])
        m.optimize(messages=False, batch_size=10, epochs=1, rng=0)
        np.testing.assert_array_equal(m.Z.values[:, 1], before[:, 1])
        m.optimize_restarts(2, messages=False, max_iters=3)
        np.testing.assert_array_equal(m.Z.values[:, 1], before[:, 1])
    assert m.checkgrad()
    separate = cgp.ChainedGP(few, target, HetGaussian(), Z=[few[:4], few[4:9]], num_threads=1)
    assert [z.values[:, 1].tolist() for z in separate.Z] == [[2, 0, 1, 2], [0, 1, 2, 0, 1]]
    for X, Z, message in (
        (separate.X + 0.5, None, "column 1 of X has 2.5 in row 0, but a kernel of categories"),
        (separate.X, separate.X[:4] + 0.25, "column 1 of Z has 2.25"),
    ):
        with pytest.raises(InputError, match=message):
            cgp.ChainedGP(X, target, HetGaussian(), Categorical(1, active_dims=[1]), Z=Z)


def test_same_as_one_column_of_0_and_1(frame, target):
    """Two levels: the kernel on levels is an RBF on 0 and 1, so the bounds are the same."""
    two = frame[["age"]].assign(sex=np.resize(["f", "m", "m"], N))
    coded = two.assign(sex=(two["sex"] == "m").astype(float))
    kernels = [
        RBF(1, 1.0, 9.0, active_dims=[0]) * second
        for second in (
            Categorical(1, lengthscale=0.7, active_dims=[1]),
            RBF(1, lengthscale=0.7, active_dims=[1]),
        )
    ]
    Z = coded[:8].to_numpy()
    bounds = [
        cgp.ChainedGP(X, target, HetGaussian(), k, Z=Z, num_threads=1).log_likelihood()
        for X, k in zip((two, coded), kernels, strict=True)
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)


# ---- gaps ---------------------------------------------------------------------------------------


def test_missing_inputs(frame, target):
    gaps = frame.copy()
    gaps.loc[[2, 5], "town"] = None
    gaps.loc[7, "when"] = pd.NaT
    gaps.loc[5, "age"] = np.nan
    message = (
        r"X has 4 missing values: column 'age' in row 5; column 'town' in 2 rows, 2, 5; column "
        r"'when' in row 7\. missing=\"drop\" leaves those rows out"
    )
    with pytest.raises(InputError, match=message):
        cgp.ChainedGP(gaps, target, HetGaussian())
    y = target.copy()
    y[9] = np.nan
    weights = {"weights": np.arange(1.0, N + 1)}
    m = cgp.ChainedGP(
        gaps, y, HetGaussian(), missing="drop", Y_metadata=weights, num_inducing=5, num_threads=1
    )
    kept = np.setdiff1d(np.arange(N), [2, 5, 7, 9])
    np.testing.assert_array_equal(m.Y[:, 0], target[kept])
    np.testing.assert_array_equal(m.Y_metadata["weights"], kept + 1.0)
    count = len(gaps) - len(m.Y)
    assert f"{len(m.Y)} rows ({count} more had gaps)" in str(m.summary())
    m.set_data(gaps, y, missing="drop")
    assert m.X.shape == (N - 4, 6)
    array = m.X.copy()
    array[3, 0] = np.nan
    m.set_data(array, m.Y, missing="drop")
    assert m.X.shape == (N - 5, 6)
    with pytest.raises(InputError, match="1 value that is missing, NaN or infinite"):
        m.set_data(np.where(array == array[0, 0], np.inf, array), m.Y[:-1], missing="drop")
    with pytest.raises(InputError, match="X has no value in its column 'town'"):
        m.set_data(gaps.assign(town=None), y, missing="drop")
    with pytest.raises(InputError, match="column 'town' of X has no value at all"):
        cgp.ChainedGP(gaps.assign(town=pd.Categorical([None] * N)), target, HetGaussian())


# ---- what is no category, though it is text ------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"{k}.5" for k in range(N)], "text that reads like numbers.*astype.float"),
        ([f"2021-03-{k + 1:02}" for k in range(N)], "text that reads like dates.*to_datetime"),
        ([f"patient {k}" for k in range(N)], "30 different texts in 30 rows.*Leave it out"),
    ],
)
def test_text_that_is_no_category(frame, target, values, message):
    text = frame[["age"]].assign(column=values)
    with pytest.raises(InputError, match=f"column 'column' of X .*{message}"):
        cgp.ChainedGP(text, target, HetGaussian())
    levels = text.assign(column=text["column"].astype("category"))
    assert len(Columns.of(levels).levels[1]) == N


def test_kinds_of_columns():
    """What each column of pandas holds, read and read again from other types."""
    zip_codes = pd.DataFrame({"zip": pd.Categorical([60601, 60612, 60601])})
    columns = Columns.of(zip_codes)
    assert columns[0].levels == ("60601", "60612")
    for same in ([60601, 60612], ["60601", "60612"], [60601.0, 60612.0]):
        np.testing.assert_array_equal(columns.read(pd.DataFrame({"zip": same}), "X")[:, 0], [0, 1])
    flags = pd.DataFrame({"flag": pd.array([True, None, False], dtype="boolean")})
    np.testing.assert_array_equal(Columns.of(flags).read(flags, "X")[:, 0], [1, np.nan, 0])
    loose = pd.DataFrame({"flag": pd.Series([True, None, False], dtype=object)})
    assert Columns.of(loose)[0] == Boolean("flag")
    assert Columns.of(pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})) is None
    assert Columns.of(np.zeros((2, 2))) is None
    doubled = pd.DataFrame([["a", 1.0, 2.0]] * 3, columns=["t", "x", "x"])
    with pytest.raises(InputError, match="several columns named 'x'"):
        cgp.ChainedGP(doubled, [1.0, 2.0, 3.0], HetGaussian())
    with pytest.raises(InputError, match="names of columns that are no text"):
        Columns.of(pd.DataFrame({0: ["a", "b"]}))


@pytest.mark.parametrize(
    ("step", "unit", "start"),
    [
        ("9D", "days", "2021-03-04T00:00:00"),
        ("90min", "hours", "2021-03-04T00:00:00"),
        ("30s", "minutes", "2021-03-04T10:30:00"),
        ("1s", "seconds", "2021-03-04T10:30:00"),
    ],
)
def test_units_of_dates(step, unit, start):
    """The unit fits the range; the numbers times the unit are the differences."""
    dates = pd.Series(pd.date_range("2021-03-04 10:30", periods=9, freq=step))
    column = Columns.of(pd.DataFrame({"t": dates}))[0]
    assert (column.unit, column.start) == (unit, start)
    values = column.read(dates, "X")
    length = pd.Timedelta(1, unit)
    np.testing.assert_allclose(values, (dates - pd.Timestamp(start)) / length, rtol=1e-12)
    assert (pd.Series(column.back(values)) == dates).all()
    assert (
        column.number("2021-03-05") == (pd.Timestamp("2021-03-05") - pd.Timestamp(start)) / length
    )
    assert column.shown(0.0) == start.replace("T", " ")[: 10 if unit == "days" else 19]


def test_dates_of_every_type():
    days = pd.date_range("2021-03-04", periods=5, freq="D")
    expected = np.arange(5.0)
    for values in (
        days,
        days.tz_localize("Europe/Berlin"),
        [day.date() for day in days],
        days.to_period("D"),
        days.to_numpy().astype("datetime64[s]"),
    ):
        table = pd.DataFrame({"t": values})
        columns = Columns.of(table)
        read = columns.read(table, "X")[:, 0]
        np.testing.assert_allclose(read - read[0], expected)
    zoned = Columns.of(pd.DataFrame({"t": days.tz_localize("Europe/Berlin")}))[0]
    assert zoned.words == ("date, in days since 2021-03-03 UTC, shown in the time of Europe/Berlin")
    # Midnight in Berlin is an hour before midnight of UTC, and what is shown is read back.
    assert zoned.number(datetime.datetime(2021, 3, 4)) == pytest.approx(23 / 24)
    assert zoned.shown(zoned.number("2021-03-04")) == "2021-03-04"
    with pytest.raises(InputError, match="dates without a time zone"):
        zoned.read(pd.Series(days), "X")


# ---- seasons ------------------------------------------------------------------------------------


def test_seasons(frame, target):
    few = frame[["when", "wait", "age", "town"]]
    periodic = {
        "when": ["year", pd.Timedelta("30D"), pd.Timedelta("7D")],
        "wait": pd.Timedelta("1h"),
        "age": 12,
    }
    m = cgp.ChainedGP(few, target, HetGaussian(), num_inducing=5, periodic=periodic)
    for latent in ("mean", "log_variance"):
        parts = [p for p in m.kernels[latent].parts if p.name.startswith("periodic")]
        found = [(int(p.active_dims[0]), float(p.period.values[0])) for p in parts]
        assert found == [(0, 365.25), (0, 30.0), (0, 7.0), (1, 1.0), (2, 12.0)]
        assert all(p.period.is_fixed for p in parts)
    m = cgp.ChainedGP(np.arange(9.0), np.arange(9.0), HetGaussian(), periodic={0: 3})
    assert m.kernels.mean.periodic.period.values == 3.0
    for season, expected in (("year", [365.25]), (["week", "year"], [7.0, 365.25])):
        m = cgp.ChainedGP(few, target, HetGaussian(), num_inducing=5, periodic=season)
        parts = [p for p in m.kernels.mean.parts if p.name.startswith("periodic")]
        assert [(int(p.active_dims[0]), float(p.period.values[0])) for p in parts] == [
            (0, period) for period in expected
        ]
    with pytest.raises(InputError, match=r"of the column of dates, but X has none\. Give a dict"):
        cgp.ChainedGP(few[["age"]], target, HetGaussian(), periodic="year")
    twice = few.assign(then=few["when"])
    with pytest.raises(InputError, match="several columns of dates, 'when', 'then'"):
        cgp.ChainedGP(twice, target, HetGaussian(), periodic="year")
    for periodic, message in (
        ({"month": 12}, "periodic names the column 'month'; the columns of X are 'when', 'wait'"),
        ({"town": 2}, "periodic names 'town', which is a category"),
        ({"age": -1}, r"periodic\['age'\] must be a positive number"),
        ({"age": "year"}, r"periodic\['age'\] must be a positive number"),
        ({"when": "fortnight"}, "must be one of 'hour', 'day', 'week', 'month', 'year'"),
        ("when", r"periodic\['when'\] must be one of 'hour'"),
        ({"when": 12}, r"periodic\['when'\] is 12, a number without a unit.*'year'.*12, 'D'"),
    ):
        with pytest.raises(InputError, match=message):
            cgp.ChainedGP(few, target, HetGaussian(), periodic=periodic)
    with pytest.raises(InputError, match="periodic adds a part to the default kernels"):
        cgp.ChainedGP(few, target, HetGaussian(), RBF(1, active_dims=[0]), periodic={"age": 1})


def test_a_season_is_found_and_goes_on():
    rng = np.random.default_rng(2)
    when = pd.date_range("2018-01-01", periods=150, freq="7D")
    season = 3.0 * np.sin(2 * np.pi * (when.day_of_year / 365.25))
    y = season + 0.3 * rng.standard_normal(150)
    table = pd.DataFrame({"when": when})
    m = cgp.ChainedGP(table[:110], y[:110], HetGaussian(), periodic={"when": "year"})
    m.optimize(messages=False, max_iters=60)
    ahead = m.predict(table[110:])[0][:, 0]
    assert np.sqrt(np.mean((ahead - season[110:]) ** 2)) < 0.3


# ---- polars -------------------------------------------------------------------------------------


def test_polars(frame, target, model):
    pl = pytest.importorskip("polars")
    sizes = pl.Series(frame["size"].astype(str).tolist(), dtype=pl.Enum(["s", "m", "l"]))
    theirs = pl.DataFrame({
        "age": frame["age"].to_numpy(),
        "town": pl.Series(frame["town"].tolist()),
        "size": sizes,
        "smoker": frame["smoker"].to_numpy(),
        "when": pl.Series([moment.to_pydatetime() for moment in frame["when"]]),
        "wait": pl.Series([wait.to_pytimedelta() for wait in frame["wait"]]),
    })  # fmt: skip
    columns = Columns.of(theirs)
    assert columns == model.columns
    np.testing.assert_allclose(columns.read(theirs, "X"), model.X, rtol=1e-12)
    expected = model.predict_frame(frame)
    table = model.predict_frame(theirs[["town", "age", "wait", "when", "smoker", "size"]])
    assert type(table) is pl.DataFrame
    np.testing.assert_allclose(table.to_numpy(), expected.to_numpy(), rtol=1e-10)
    assert model.predict_frame(theirs[:2], inputs=True)["town"].to_list() == ["York", "Bath"]
    days = pl.DataFrame({"t": [datetime.date(2021, 3, day) for day in (4, 6, 9)]})
    np.testing.assert_array_equal(Columns.of(days).read(days, "X")[:, 0], [0, 2, 5])
    gaps = theirs.with_columns(pl.Series("town", [None, *frame["town"][1:]]))
    m = cgp.ChainedGP(gaps, target.to_numpy(), HetGaussian(), num_inducing=5, missing="drop")
    assert m.X.shape == (N - 1, 6)


# ---- counts, classes and everything that predicts ------------------------------------------------


def test_other_methods_read_tables(frame, model, target):
    assert model.predict_latents(frame)[0].shape == (N, 2)
    assert model.log_predictive_density(frame, target).shape == (N, 1)
    assert model.predict_component(frame, "mean", "random_effects")[0].shape == (N, 1)
    assert model.posterior_samples(frame[:3], 2, rng=0).shape == (3, 1, 2)
    assert model.check().findings
    around = model.over_hyperparameters(10)
    assert around.predict(frame[frame.columns[::-1]])[0].shape == (N, 1)
    counts = cgp.ChainedGP(frame, np.arange(N) % 4, Poisson(), num_inducing=5, num_threads=1)
    assert counts.predict_quantiles(frame, (50,))[0].shape == (N, 1)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_inputs_beside_predictions_are_those_of_the_frame(library):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + np.arange(12)
    columns = {
        "day": days.astype("datetime64[D]"),
        "town": np.resize(["Ely", "York"], 12),
        "rooms": np.arange(12),
    }
    table = pd.DataFrame(columns).assign(town=lambda t: t["town"].astype("category"))
    if library == "polars":
        table = pytest.importorskip("polars").DataFrame(columns)
    m = cgp.ChainedGP(table, rng.normal(size=12), HetGaussian(), num_inducing=4, unseen="prior")
    m.optimize(only="variational", messages=False)
    new = table[:3] if library == "polars" else table.head(3)
    found = m.predict_frame(new, inputs=True)[["day", "town", "rooms"]]
    assert found.equals(new) and [str(t) for t in found.dtypes] == [str(t) for t in new.dtypes]
    elsewhere = pd.DataFrame({**columns, "town": ["Rome", "Ely", "Oslo"] * 4}).head(3)
    assert list(m.predict_frame(elsewhere, inputs=True)["town"]) == ["Rome", "Ely", "Oslo"]
    doubled = pd.concat([elsewhere, elsewhere])  # An index may have the same label twice.
    assert len(m.predict_frame(doubled, inputs=True)) == 6


PEOPLE = {
    "decimal commas": (["1,5", "2,25", "3"], r"reads like numbers: .*replace\(',', '\.'\)"),
    "thousands": (["1,200", "12.500,00", "900"], "reads like numbers: .*between thousands"),
    "prices": (["$ 5", "$1,200", "7 €"], "reads like numbers: .*replaced by ''"),
    "shares": (["5 %", "10%", "12,5 %"], "reads like numbers"),
    "prices with gaps": (["$ 5", "$ 7", "n/a"], "numbers, but for 'n/a'.*to_numeric"),
    "days first": (["31.12.2024", "1.1.2025"], "reads like dates: .*dayfirst=True"),
    "months first": (["12/31/2024", "01/01/2025"], "reads like dates: .*dayfirst=True"),
}


@pytest.mark.parametrize("kind", PEOPLE)
def test_numbers_and_dates_as_people_write_them_are_no_levels(kind):
    texts, words = PEOPLE[kind]
    frame = pd.DataFrame({"x": np.resize(texts, 12)})
    with pytest.raises(InputError, match=words) as told:
        Columns.of(frame)
    way = re.search(r"numbers: (X\['x'\]\.str\S+(?: \S+)?\.astype\(float\))", str(told.value))
    if kind == "decimal commas":
        assert eval(way[1], {"X": frame}).tolist()[:3] == [1.5, 2.25, 3.0]
    assert Columns.of(frame.astype("category"))[0].level_names == tuple(sorted(texts))


def test_codes_with_points_and_commas_are_levels():
    for texts in (["A-1", "B,2", "1.2.3"], ["x,5", "10-12"], ["a", "$ b"]):
        assert Columns.of(pd.DataFrame({"x": texts}))[0].level_names == tuple(sorted(texts))
