"""Columns at the edges: remote dates, levels that are numbers, gaps, and what is no column."""

import datetime
import zoneinfo

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp.data.columns import Category, Columns, Date, Duration, Number, column_from
from chainedgp.data.kinds import readable
from chainedgp.errors import InputError
from chainedgp.likelihoods import HetGaussian

DAY = datetime.timedelta(days=1)
OLD = [datetime.datetime(1500, 1, 1) + 30 * k * DAY for k in range(20)]


def read(values, **options):
    """A column as a model sees it, and how."""
    frame = pd.DataFrame({"c": values})
    columns = Columns.of(frame, **options)
    return columns.read(frame, "X")[:, 0], columns[0]


# ---- dates and durations ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(np.array(OLD, dtype="datetime64[s]")),
        pd.Series([moment.date() for moment in OLD], dtype=object),
        pd.Series(OLD, dtype=object),
        pd.Series(np.array(OLD, dtype="datetime64[D]")).dt.to_period("D"),
    ],
    ids=["seconds", "date", "datetime", "period"],
)
def test_dates_that_nanoseconds_have_no_room_for(values):
    days, column = read(values)
    assert column == Date("c", "1500-01-01T00:00:00", "days")
    np.testing.assert_array_equal(days, 30.0 * np.arange(20))
    np.testing.assert_array_equal(column.back(days), np.array(OLD, dtype="datetime64[us]"))
    assert column.shown(30.0) == "1500-01-31"


def test_a_last_day_far_in_the_future():
    last = datetime.date(9999, 12, 31)
    expected = float((last - datetime.date(2022, 1, 1)).days)
    dates = pd.Series(pd.date_range("2022-01-01", periods=20)).astype("datetime64[s]")
    column = Columns.of(pd.DataFrame({"c": dates}))[0]
    assert column.read(pd.Series([last]), "X") == column.number("9999-12-31") == expected
    dates.iloc[3] = pd.Timestamp(last).as_unit("s")
    days, column = read(dates)
    assert column.start == "2022-01-01T00:00:00" and days[3] == expected and days[4] == 4.0


def test_remote_dates_in_polars():
    pl = pytest.importorskip("polars")
    for values in (OLD, [moment.date() for moment in OLD]):
        frame = pl.DataFrame({"c": values})
        columns = Columns.of(frame)
        np.testing.assert_array_equal(columns.read(frame, "X")[:, 0], 30.0 * np.arange(20))
    frame = pl.DataFrame({"c": [4000 * k * DAY for k in range(60)]})
    columns = Columns.of(frame)
    values = columns.read(frame, "X")[:, 0]
    np.testing.assert_array_equal(values, 4000.0 * np.arange(60))
    np.testing.assert_array_equal(columns[0].back(values), np.asarray(frame["c"]))


def test_times_keep_their_nanoseconds():
    values, column = read(pd.Series(np.array([0, 1500, 4500], dtype="timedelta64[ns]")))
    assert column == Duration("c", "seconds")
    np.testing.assert_allclose(values, [0.0, 1.5e-6, 4.5e-6], rtol=1e-12)
    start = np.datetime64("2022-01-01T00:00:01", "ns")
    values, _ = read(
        pd.Series(start + np.array([-1500, 0, 7_000_000_000], dtype="timedelta64[ns]"))
    )
    np.testing.assert_allclose(values, [1 - 1.5e-6, 1.0, 8.0], rtol=1e-12)


def test_the_last_moment_in_a_zone_in_the_west():
    zone = datetime.timezone(-5 * datetime.timedelta(hours=1))
    last = datetime.datetime(9999, 12, 31, 23, tzinfo=zone)
    values, column = read(pd.Series([last - 30 * DAY, last], dtype=object))
    np.testing.assert_allclose(values, [4 / 24, 30 + 4 / 24], rtol=1e-12)
    assert column.zoned and column.shown(values[1]) == "10000-01-01"


def test_dates_with_a_zone_come_back_with_one(zoned):
    frame, m = zoned
    table = m.predict_frame(frame, inputs=True)
    assert str(table["c"].dtype.tz) == "Europe/Paris" and (table["c"] == frame["c"]).all()
    np.testing.assert_array_equal(m.predict(table[["c"]])[0], m.predict(frame)[0])
    values = m.effects("c", num=4)["value"]
    m.predict(pd.DataFrame({"c": values}))
    assert str(values.dtype.tz) == "Europe/Paris"
    ax = m.plot(limits=("2022-01-02", "2022-01-05"))
    assert ax.get_xlim()[0] == pytest.approx(mdates.date2num(pd.Timestamp("2022-01-01 23:00")))
    assert ax.xaxis.get_major_formatter()._tz.utcoffset(None) != datetime.timedelta(0)


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)), "UTC-03:30"),
        (datetime.UTC, "UTC"),
        (zoneinfo.ZoneInfo("America/New_York"), "America/New_York"),
    ],
)
def test_zones_of_every_kind_are_kept(zone, name):
    moments = [datetime.datetime(2022, 3, 1 + k, 12, tzinfo=zone) for k in range(20)]
    for series in (pd.Series(moments, dtype=object), pd.Series(moments)):
        values, column = read(series)
        assert column.zone == name
        assert column_from(column.stored()) == column
        back = column.back(values)
        assert list(back) == moments  # the same moments,
        assert [b.utcoffset() for b in back] == [b.utcoffset() for b in moments]  # in their zone
        assert column.shown(values[0])[:10] == "2022-03-01"


def test_a_zone_that_this_computer_does_not_know_is_utc():
    column = Date("c", "2022-01-01T00:00:00", "days", True, "Mars/Olympus")
    assert column.back(np.array([1.0]))[0] == datetime.datetime(2022, 1, 2, tzinfo=datetime.UTC)


def test_dates_with_a_zone_in_polars(zoned):
    pl = pytest.importorskip("polars")
    frame, m = zoned
    given = pl.DataFrame({"c": frame["c"].dt.tz_convert("UTC").dt.to_pydatetime().tolist()})
    table = m.predict_frame(given, inputs=True)
    assert table["c"].dtype == pl.Datetime("us", "Europe/Paris")
    np.testing.assert_array_equal(m.predict(table[["c"]])[0], m.predict(frame)[0])


@pytest.fixture(scope="module")
def zoned():
    dates = pd.date_range("2022-01-01", periods=12, tz="Europe/Paris")
    frame = pd.DataFrame({"c": dates})
    m = cgp.ChainedGP(frame, np.sin(np.arange(12.0)), HetGaussian(), num_inducing=4)
    return frame, m


@pytest.mark.parametrize("nothing", [np.nan, None, np.float32("nan"), pd.NaT])
def test_columns_without_a_value(nothing):
    """A column without any value has gaps, whatever its type."""
    columns = [Date("c", "2022-01-01T00:00:00", "days"), Category("c", ("a", "b"), unseen="prior")]
    for column in columns:
        assert np.isnan(column.read(pd.Series([nothing] * 3, dtype=object), "X")).all()
        with pytest.raises(InputError, match="the value of column 'c' is missing"):
            column.number(nothing)


def test_columns_without_a_value_in_polars():
    pl = pytest.importorskip("polars")
    for column in (Date("c", "2022-01-01T00:00:00", "days"), Category("c", ("a",), unseen="prior")):
        assert np.isnan(column.read(pl.Series("c", [None, None]), "X")).all()


def test_gaps_of_single_precision():
    column = Category("c", ("1", "2"), unseen="prior")
    for given in (np.array([1, np.nan], dtype="f4"), [np.float32(1), np.float32("nan")]):
        np.testing.assert_array_equal(column.read(pd.Series(given), "X"), [0.0, np.nan])
    mixed = pd.Series(["a", np.float32("nan"), "b"], dtype=object)
    assert read(mixed)[1].levels == ("a", "b")


# ---- levels -------------------------------------------------------------------------------------


def test_levels_that_are_numbers():
    """1, 1.0 and "1.0" are one level, whichever of them the data had."""
    for own in ([1.0, 2.0], [1, 2], ["1", "2"], ["1.0", "2.0"]):
        _, column = read(pd.Categorical(own * 3))
        for value, code in ((1, 0.0), (1.0, 0.0), (np.float32(2), 1.0), ("1", 0.0), ("2.0", 1.0)):
            assert column.number(value) == code, (own, value)
        np.testing.assert_array_equal(column.read(pd.Series([2, 1]), "X"), [1.0, 0.0])
        given = pd.Series(pd.Categorical([2.0, 1.0]))
        np.testing.assert_array_equal(column.read(given, "X"), [1.0, 0.0])
    assert Category("c", ("1.0", "1")).number("1.0") == 0.0
    assert Category("c", ("1.0", "1")).number("1") == 1.0


def test_what_can_be_a_new_level():
    names, numbers = (Category("c", own, unseen="prior") for own in (("a", "b"), ("1", "2")))
    assert names.read(pd.Series(["c", "a", "d"]), "X").tolist() == [2.0, 0.0, 3.0]
    assert numbers.read(pd.Series([3.0, 1.0]), "X").tolist() == [2.0, 0.0]
    for column, given in (
        (names, [3.7]),
        (names, [1]),
        (names, [pd.Timestamp("2022-01-01")]),
        (numbers, [3.7]),
        (numbers, [np.inf]),
        (numbers, [pd.Timestamp("2022-01-01")]),
    ):
        with pytest.raises(InputError, match="cannot be a level beside those that the model knows"):
            column.read(pd.Series(given), "X")
    names.check(np.array([0.0, 2.0, np.nan]), "X")
    for code in (-2.0, 0.5, np.inf):
        with pytest.raises(InputError, match="expected the codes of its levels"):
            names.check(np.array([code]), "X")
    with pytest.raises(InputError, match="X has -1 in column 'c', which pandas writes"):
        names.check(np.array([-1.0]), "X")


def test_rows_of_a_fit_have_known_levels():
    """Codes of levels that are not known differ from call to call, so no row may keep one."""
    frame = pd.DataFrame({"x": np.arange(12.0), "town": ["York", "Bath", "Ely"] * 4})
    y = np.sin(frame["x"])
    m = cgp.ChainedGP(frame, y, HetGaussian(), num_inducing=4, unseen="prior")
    m.predict(frame.assign(town="Rome"))
    new, message = frame.assign(town="Rome"), "does not know: Rome.*a new model"
    with pytest.raises(InputError, match=message):
        m.update(new, y)
    with pytest.raises(InputError, match=message):
        m.set_data(new, y)
    with pytest.raises(InputError, match="has 5 in column 'town'"):
        m.set_data(m.X + [0.0, 3.0], y)
    assert m.X.shape == (12, 2) and m.unseen == "prior"
    m.set_data(frame, y)


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["n/a"] + [str(k % 30) for k in range(119)], r"like numbers, but for 'n/a'.*to_numeric"),
        ([1.5, "n/a"] * 3, "like numbers, but for 'n/a'"),
        ([1.5] * 10 + ["n/a", "gone"], "like numbers, but for 'gone', 'n/a'"),
        (
            [pd.Timestamp("2022-01-01") + k * DAY for k in range(9)] + ["foo"],
            "dates, but for 'foo'",
        ),
        (["2022-01-01", "2022-01-02", "?"], r"like dates, but for '\?'.*coerce"),
        (["1", "2"], r"is text that reads like numbers: X\['c'\]\.astype\(float\), "),
        ([datetime.time(8, 30)] * 3, "is a time of day.*hours"),
        ([1j, 2.0], "is a complex number.*imaginary"),
        ([datetime.date(2022, 1, 1), 3.0], "is a mixture of date and float"),
        ([pd.Timestamp("2022-01-01"), pd.Timestamp("2022-01-01", tz="UTC")], "without one. Give"),
    ],
)
def test_columns_that_are_refused(values, message):
    kept = np.resize(["a", "b"], len(values))
    with pytest.raises(InputError, match=f"column 'c' of X .*{message}"):
        Columns.of(pd.DataFrame({"c": pd.Series(values, dtype=object), "kept": kept}))


def test_text_that_stays_a_category():
    for values in (["a", "b", "1"], [True, False, "unknown"], ["1", "n/a"] * 2, ["x"] * 9 + [1]):
        assert isinstance(read(pd.Series(values, dtype=object))[1], Category)


@pytest.mark.filterwarnings("ignore::chainedgp.errors.UnfittedWarning")
def test_complex_columns_and_times_of_the_day():
    frame = pd.DataFrame({"c": np.array([1j, 2.0]), "kept": ["a", "b"]})
    with pytest.raises(InputError, match="column 'c' of X is a complex number"):
        Columns.of(frame)
    pl = pytest.importorskip("polars")
    for other in ({}, {"kept": ["a", "b"]}):
        frame = pl.DataFrame({"c": [datetime.time(8, 30), datetime.time(9)], **other})
        with pytest.raises(InputError, match="column 'c' of X is a time of day"):
            Columns.of(frame)
    m = cgp.ChainedGP(np.arange(4.0)[:, None], np.arange(4.0) ** 2, HetGaussian())
    with pytest.raises(InputError, match="column 'c' of Xnew holds times of the day"):
        m.predict(frame[["c"]])


def test_single_values_that_are_refused():
    with pytest.raises(InputError, match="column 'c' has dates, and 'nonsense' is none"):
        Date("c", "2022-01-01T00:00:00", "days").number("nonsense")
    with pytest.raises(InputError, match="the value"):
        Category("c", ("a", "b")).number(("a", "b"))


@pytest.mark.parametrize(
    ("periodic", "message"),
    [
        ({"flag": 3}, "periodic names 'flag', which has truth values"),
        ({"day": ["year", "week", "year"]}, r"periodic\['day'\] has a season twice"),
        ({"day": ["year", pd.Timedelta("365.25D")]}, r"periodic\['day'\] has a season twice"),
    ],
)
def test_seasons_that_are_refused(periodic, message):
    dates = pd.date_range("2022-01-01", periods=8, freq="90D")
    frame = pd.DataFrame({"day": dates, "flag": [True, False] * 4})
    with pytest.raises(InputError, match=message):
        cgp.ChainedGP(frame, np.arange(8.0), HetGaussian(), periodic=periodic)


@pytest.mark.filterwarnings("ignore::chainedgp.errors.UnfittedWarning")
def test_lazy_frames_have_one_error():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"x": np.arange(8.0), "c": ["a", "b"] * 4})
    m = cgp.ChainedGP(frame, np.arange(8.0), HetGaussian(), num_inducing=4)
    with pytest.raises(InputError, match="Xnew is a LazyFrame, not read yet"):
        m.predict(frame.lazy())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2018.0, "2018"),
        (-2018.46, "-2018.5"),
        (125000.4, "125000"),
        (9999.97, "10000"),
        (999.6, "999.6"),
        (12.345, "12.3"),
        (0.00012345, "0.000123"),
        (3.0e7, "3e+07"),
        (np.nan, "nan"),
    ],
)
def test_years_and_amounts_are_printed_with_all_their_digits(value, words):
    assert readable(value) == words
    assert Number("x").shown(value) == words
