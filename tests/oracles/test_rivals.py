"""The comparison with other libraries: its laws against draws, its tables against their meaning."""

import numpy as np
import pytest
from paths import ROOT


@pytest.fixture
def rivals(monkeypatch):
    for place in (ROOT / "benchmarks", ROOT / "benchmarks" / "peers"):
        monkeypatch.syspath_prepend(str(place))
    import rivals

    return rivals


def test_normals_mixed_over_their_scale(rivals):
    """cdf, quantiles and density of y = f + e^g ε with normal f and g agree with draws."""
    import panel_rivals

    mean, variance = np.array([1.0, 2.0]), np.array([0.3, 0.1])
    log_sd, spread = np.array([0.0, -1.0]), np.array([0.5, 0.2])
    law, rng = panel_rivals.Normals(mean, variance, log_sd, spread), np.random.default_rng(0)
    e = rng.standard_normal((3, 400_000, 2))
    y = mean + np.sqrt(variance) * e[0] + np.exp(log_sd + np.sqrt(spread) * e[1]) * e[2]
    at = np.array([0.0, 1.5, 2.5])
    shares = np.mean(y[:, :, None] <= at, axis=0)
    assert law.cdf(at) == pytest.approx(shares, abs=0.004)
    assert law.cdf(law.ppf([0.05, 0.5, 0.95])) == pytest.approx(np.tile([0.05, 0.5, 0.95], (2, 1)))
    step = 1e-4
    slope = (law.cdf(at + step) - law.cdf(at - step)) / (2 * step)
    assert np.exp(law.logpdf(at)) == pytest.approx(slope, rel=1e-5)
    task = {"y": np.array([10.0, 14.0])}  # mean 12, standard deviation 2
    scaled = panel_rivals.scaled_back(task, mean, variance, log_sd, spread)
    assert scaled.cdf(12 + 2 * at) == pytest.approx(law.cdf(at))


def entry(name, method, fold, **scores):
    return {(name, method, fold): {"rows": 10, "coverage": 0.9, "processor": 1.0} | scores}


def test_tables_count_wins_and_losses(rivals):
    """Only folds of all finished methods count; a method that was stopped is not run again."""
    record = {}
    for fold, shift in enumerate((0.0, 1.0)):
        record |= entry("servo", "HetGaussian", fold, nlpd=1.0 + shift)
        record |= entry("servo", "GPyTorch", fold, nlpd=0.5 + shift, processor=4.0)
    record |= entry("servo", "HetGaussian", 2, nlpd=9.0)  # GPyTorch does not have this fold.
    record |= {("servo", "GPBoost", 0): {"error": "longer than 60 seconds of the processor"}}
    record |= {("servo", "GPflow", 0): {"error": "it failed"}}
    results = rivals.Results(record)
    assert results.folds("servo") == [0, 1]
    line = rivals.scores_table(results).splitlines()[2]
    assert line == (
        "| servo | 167 | 2 | 1.50 | stopped | failed | **−0.50 ± 0.00** | failed | failed |"
    )
    assert "| GPyTorch | 0 | 0 | 1 | 4.0 |" in rivals.tally(results)
    assert "| servo | 167 | stopped | failed | 4.0 |" in rivals.times_table(results)
    assert not rivals.waits(("servo", "GPBoost", 1), record)
    assert rivals.waits(("servo", "GPflow", 0), record)
    assert rivals.waits(("servo", "GPyTorch", 2), record)
    assert not rivals.waits(("servo", "GPyTorch", 1), record)


def test_places_among_published_learners(rivals):
    record = {}
    for method, C, brier in (
        ("LogLogisticSurvival", 0.7, 0.15),
        ("Kaplan-Meier", 0.5, 0.2),
        ("Cox", 0.72, 0.16),
    ):
        record |= entry("mgus", method, 0, harrell=C, brier=brier)
    published = {
        "mgus": {
            "harrell_c": {"KM": 0.5, "CPH": 0.69, "RFSRC": 0.71},
            "isbs_erv": {"KM": 0.0, "CPH": 0.2, "RFSRC": 0.3},
        }
    }
    table = rivals.survival_table(rivals.Results(record), published).splitlines()
    assert table[2] == (
        "| mgus | 1 | C | 0.700 | 0.720 | −0.020 | 0.690 | +0.020 (RFSRC) | 3 of 4 |"
    )
    assert table[3] == (
        "| mgus | 1 | explained | 0.250 | 0.200 | +0.050 | 0.200 | +0.100 (RFSRC) | 2 of 4 |"
    )
