"""Messages name rows as the table does: by its index, also after rows with gaps were left out."""

import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp.data.row_names import WITH_GAPS, RowNames, named_rows
from chainedgp.data.rows import Rows
from chainedgp.errors import InputError

L = cgp.likelihoods
N = 12
rng = np.random.default_rng(0)
IDS = [f"id{k}" for k in range(N)]
TABLE = pd.DataFrame({"dose": rng.uniform(size=N), "sex": np.resize(["f", "m"], N)}, index=IDS)
Y = pd.Series(np.arange(1.0, N + 1.0), index=IDS)


def with_hole(row, value=np.nan):
    table = TABLE.copy()
    table.iloc[row, 0] = value
    return table


def targets(row, value):
    y = Y.copy()
    y.iloc[row] = value
    return y


FITS = {
    "a gap among the inputs": ((with_hole(5), Y), "Row 5 is 'id5' in the index"),
    "an infinite input": ((with_hole(5, np.inf), Y), "Row 5 is 'id5'"),
    "a gap among the targets": ((TABLE, targets(3, np.nan)), "Row 3 is 'id3'"),
    "an impossible target": ((TABLE, targets(4, -1.0)), "Row 4 is 'id4'"),
    "an array of targets": ((TABLE, targets(4, -1.0).to_numpy()), "Row 4 is 'id4'"),
    "an array of inputs": ((TABLE[["dose"]].to_numpy(), targets(4, -1.0)), "Row 4 is 'id4'"),
    "a negative weight": ((TABLE, Y, {"weights": targets(2, -1.0)}), "Row 2 is 'id2'"),
    "a gap in metadata": ((TABLE, Y, {"weights": targets(2, np.nan)}), "Row 2 is 'id2'"),
}


@pytest.mark.parametrize("case", FITS)
def test_a_row_is_named_by_the_index(case):
    (X, y, *metadata), words = FITS[case]
    options = {"Y_metadata": metadata[0]} if metadata else {}
    with pytest.raises(InputError, match=words):
        cgp.ChainedGP(X, y, L.HetGamma(), num_inducing=4, **options)


def test_several_rows_are_named():
    table = with_hole(slice(1, 8))
    with pytest.raises(
        InputError, match="Rows 1, 2, 3, 4, 5, … are 'id1', 'id2', 'id3', 'id4', 'id5'"
    ):
        cgp.ChainedGP(table, Y, L.HetGamma())


def test_rows_to_predict_and_to_add_are_named():
    m = cgp.ChainedGP(TABLE, Y, L.HetGamma(), num_inducing=4)
    new = TABLE.assign(sex=["f", "q", *["m"] * (N - 2)])
    for call in (lambda: m.predictive(new), lambda: m.update(new, Y)):
        with pytest.raises(InputError, match="Row 1 is 'id1' in the index"):
            call()
    counts = cgp.ChainedGP(TABLE, Y, L.Poisson(), num_inducing=4, Y_metadata={"exposure": 1.0})
    exposure = pd.Series(np.where(np.arange(N) == 7, 0.0, 1.0), index=IDS)
    with pytest.raises(InputError, match="Row 7 is 'id7' in the index"):
        counts.predictive(TABLE, {"exposure": exposure})


def test_rows_without_names_keep_their_numbers():
    plain = TABLE.reset_index(drop=True)
    for X in (plain, plain[["dose"]].to_numpy()):
        with pytest.raises(InputError) as found:
            cgp.ChainedGP(X, targets(4, -1.0).to_numpy(), L.HetGamma())
        assert "in the index" not in str(found.value) and "Y[4]" in str(found.value)
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"Y\[4\]"):
        cgp.ChainedGP(
            polars.DataFrame({"dose": plain["dose"].to_numpy()}),
            targets(4, -1.0).to_numpy(),
            L.HetGamma(),
        )


def test_rows_are_counted_with_those_that_were_left_out():
    X, y = TABLE["dose"].to_numpy(), np.array(targets(6, -1.0))
    y[2] = np.nan
    with pytest.raises(InputError, match=rf"Row 5 is 6 {WITH_GAPS}"):
        cgp.ChainedGP(X, y, L.HetGamma(), missing="drop")
    with pytest.raises(InputError, match="Row 5 is 'id6' in the index"):
        cgp.ChainedGP(TABLE, y, L.HetGamma(), missing="drop")
    rows = Rows.read(X, np.abs(y), None, L.HetGamma(), missing="drop")
    assert rows.names.values.tolist() == [0, 1, *range(3, N)]
    assert rows[::2].names.values.tolist() == [0, 3, 5, 7, 9, 11]


def test_names_are_joined_where_all_rows_have_them():
    first = Rows.read(TABLE[["dose"]], Y, None, L.HetGamma())
    bare = Rows.read(TABLE[["dose"]].to_numpy(), Y.to_numpy(), None, L.HetGamma())
    both = first.followed_by(first[:2])
    assert both.names.values.tolist() == [*IDS, "id0", "id1"]
    assert first.followed_by(bare).names is None and bare.names is None


def test_what_is_told_of_names():
    dates = pd.date_range("2024-01-01", periods=3)
    names = RowNames.of(None, pd.Series([1, 2, 3], index=dates))
    assert names.listed([1]).startswith("2024-01-02")
    assert RowNames.of(pd.Series([1, 2], index=[0, 1]), [3, 4]) is None
    with pytest.raises(InputError, match="Row 2 is 2024-01-03"), named_rows(names):
        raise InputError("wrong.", rows=[2])
    with pytest.raises(InputError, match=r"^wrong\.$"), named_rows(names):
        raise InputError("wrong.")  # It is about no row.


def test_the_check_names_rows_by_the_index():
    X = pd.DataFrame({"x": np.linspace(0.0, 1.0, 60)}, index=[f"plot {k}" for k in range(60)])
    y = np.sin(6.0 * X["x"].to_numpy()) + 0.1 * rng.standard_normal(60)
    y[41] = 5.0
    m = cgp.ChainedGP(X, y, L.Gaussian(), num_inducing=6)
    m.optimize(max_iters=8, only="variational")
    found = m.check(rows=60)["outliers"]
    assert "'plot 41' in the index" in found.message and list(found.values["rows"]) == [41]


def test_numbers_of_rows_lead_back_to_the_table(tmp_path):
    x = np.linspace(0.0, 1.0, 60)
    table = pd.DataFrame({"x": x}, index=[f"plot {k}" for k in range(60)])
    y = np.sin(6.0 * x) + 0.1 * rng.standard_normal(60)
    y[41] = 5.0
    table.iloc[[3, 17], 0], y[0] = np.nan, np.nan
    kept = np.setdiff1d(np.arange(60), [0, 3, 17])
    m = cgp.ChainedGP(table, y, L.Gaussian(), num_inducing=6, missing="drop")
    m.optimize(max_iters=8, only="variational")
    np.testing.assert_array_equal(m.kept_rows, kept)
    np.testing.assert_array_equal(table["x"].iloc[m.kept_rows], m.X[:, 0])
    found = m.check(rows=60)["outliers"]
    assert "'plot 41'" in found.message and list(found.values["rows"]) == [41]
    curves = m.effects("x", kind="individual", num=2)
    assert list(curves["row"].unique()) == list(kept)
    assert list(m.effects("x", kind="individual", num=2, X=table[40:43])["row"].unique()) == [
        0,
        1,
        2,
    ]
    m.save(tmp_path / "m.npz")
    loaded = cgp.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.kept_rows, kept)
    assert "3 more had gaps" in str(loaded)
    found = loaded.check(rows=60)["outliers"]
    assert f"41 {WITH_GAPS}" in found.message and list(found.values["rows"]) == [41]
    for model in (m, loaded):
        model.update(table[:5], np.full(5, 0.1), missing="drop")
        np.testing.assert_array_equal(model.kept_rows, [*kept, 60, 61, 62, 64])
        model.set_data(table[5:10], y[5:10])
        np.testing.assert_array_equal(model.kept_rows, np.arange(5))


def test_a_file_whose_numbers_of_rows_are_wrong_is_refused(tmp_path):
    X = np.linspace(0.0, 1.0, 6)
    m = cgp.ChainedGP(
        X, np.where(np.arange(6) == 2, np.nan, X), L.Gaussian(), missing="drop", num_inducing=3
    )
    for kept, given in (([0, 1, 2, 2, 5], 6), ([0, 1, 2, 3, 5], 5), ([0, 1], 6), ([0.0] * 5, 6)):
        m._data = m._data.known_as((np.array(kept), given))
        m.save(tmp_path / "m.npz")
        with pytest.raises(ValueError, match="not rows of a table"):
            cgp.load(tmp_path / "m.npz")


def test_a_column_without_values_is_named():
    """A series that was aligned to another index has the name of the target, and no values."""
    table = pd.DataFrame({"dose": np.linspace(0.0, 1.0, 8), "y": np.full(8, np.nan)})
    y = pd.Series(np.arange(8.0), name="y")
    for options in ({}, {"missing": "drop"}):
        with pytest.raises(InputError, match="X has no value in its column 'y': leave it out"):
            cgp.ChainedGP(table, y, L.Gaussian(), **options)
    with pytest.raises(InputError, match="has the target 'y' among its columns"):
        cgp.ChainedGP(table.assign(y=y.where(y > 2.0)), y, L.Gaussian())
