"""Real tables with words and dates, fitted as they are, against columns of 0 and 1.

The tables are not part of the package: without them these tests are skipped.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paths import ROOT

import chainedgp as cgp

PLACES = [Path(os.environ["CHAINEDGP_DATA"])] if "CHAINEDGP_DATA" in os.environ else []
PLACES.append(ROOT.parent / "shared" / "data")
FOLDER = next((place for place in PLACES if (place / "panel").is_dir()), None)
pytestmark = [
    pytest.mark.skipif(FOLDER is None, reason="the tables of the panel are not here"),
    pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning"),
]
# Nats a row by which a fit of the table itself may score worse than one of columns of 0 and 1: the
# scores of a fold differ by more between two starts.
TOLERANCE = 0.005
WORDS = {
    "biochemists": ("fem", "mar"),
    "mgus": ("sex",),
    "nmes1988": ("health", "adl", "region", "afam", "gender", "married", "employed", "insurance",
                 "medicaid"),
}  # fmt: skip


@pytest.fixture
def panel_data(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import panel_data

    yield panel_data
    sys.modules.pop("panel_data", None)


def read(panel_data, name):
    """Inputs as a frame, the same as numbers, targets and metadata of a table."""
    table = panel_data.TABLES[name]
    frame = pd.read_csv(FOLDER / "panel" / table.file)
    arrays = panel_data.read(name, FOLDER / "panel")
    frame = frame.drop(columns=["status", table.target], errors="ignore")
    metadata = {"censored": arrays["censored"]} if "censored" in arrays else {}
    return frame, arrays["X"], arrays["y"], metadata


def likelihood_of(panel_data, name):
    survival = panel_data.TABLES[name].kind == "survival"
    return cgp.likelihoods.LogLogisticSurvival() if survival else cgp.likelihoods.NegativeBinomial()


@pytest.mark.parametrize("name", WORDS)
def test_a_table_with_words_is_fitted_as_it_is(panel_data, name):
    frame, _, y, metadata = read(panel_data, name)
    rows = np.arange(0, len(y), max(1, len(y) // 300))
    frame, y = frame.iloc[rows], y[rows]
    metadata = {key: value[rows] for key, value in metadata.items()}
    m = cgp.ChainedGP(
        frame, y, likelihood_of(panel_data, name), Y_metadata=metadata, num_inducing=30
    )
    words = tuple(c.name for c in m.columns.each if c.kind == "category")
    assert words == WORDS[name]
    m.optimize(messages=False, max_iters=10)
    text = str(m.summary())
    assert all(f"{word} " in text for word in words)
    shuffled = frame.sample(frac=1.0, axis=1, random_state=0).iloc[:4]
    assert np.isfinite(m.predict_quantiles(shuffled, (50,))[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "folds"), [("biochemists", 3), ("mgus", 3), ("nmes1988", 1)])
def test_scores_are_no_worse_than_of_columns_of_0_and_1(panel_data, name, folds):
    frame, X, y, metadata = read(panel_data, name)
    scores = np.empty((folds, 2))
    for fold, test in enumerate(panel_data.held_out(name, FOLDER / "panel")[:folds]):
        held = np.zeros(len(y), dtype=bool)
        held[test] = True
        train = {key: value[~held] for key, value in metadata.items()}
        new = {key: value[held] for key, value in metadata.items()}
        for k, table in enumerate((frame, X)):
            m = cgp.ChainedGP(
                table[~held], y[~held], likelihood_of(panel_data, name), Y_metadata=train
            )
            m.optimize(messages=False)
            scores[fold, k] = -m.log_predictive_density(table[held], y[held], new).mean()
    print(name, scores.mean(axis=0))
    assert scores[:, 0].mean() <= scores[:, 1].mean() + TOLERANCE


def test_a_table_with_dates():
    """Homicides of Chicago by month: the date is its number of days, and a year is a season."""
    times = pd.read_csv(FOLDER / "chicago_homicides.csv.gz", usecols=["datetime"])["datetime"]
    months = pd.to_datetime(times).dt.to_period("M").value_counts().sort_index()
    frame = pd.DataFrame({"month": months.index.to_timestamp()})
    y = months.to_numpy()
    fit, ahead = slice(0, len(y) - 24), slice(len(y) - 24, None)
    m = cgp.ChainedGP(
        frame[fit],
        y[fit],
        cgp.likelihoods.NegativeBinomial(),
        num_inducing=50,
        periodic={"month": "year"},
    )
    m.optimize(messages=False, max_iters=40)
    assert m.columns[0].words == f"date, in days since {frame['month'][0].date()}"
    days = (frame["month"] - frame["month"][0]) / pd.Timedelta("1D")
    np.testing.assert_array_equal(m.X[:, 0], days[fit])
    # A year later the season is the same: months are told apart two years ahead.
    mean = m.predict(frame[ahead])[0][:, 0]
    summer = frame["month"][ahead].dt.month.isin([6, 7, 8]).to_numpy()
    winter = frame["month"][ahead].dt.month.isin([12, 1, 2]).to_numpy()
    assert mean[summer].min() > mean[winter].max()
