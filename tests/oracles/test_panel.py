"""The panel's harness: folds, scores against their definitions, and a record that is continued."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from paths import ROOT
from scipy import stats


@pytest.fixture
def panel(monkeypatch, tmp_path):
    """The harness with a folder of its own, which has a small table of each kind."""
    for place in (ROOT / "benchmarks", ROOT / "benchmarks" / "peers"):
        monkeypatch.syspath_prepend(str(place))
    import panel
    import panel_answer
    import panel_data

    rng = np.random.default_rng(3)
    n, folder = 30, tmp_path / "panel"
    folder.mkdir()
    x, word = rng.uniform(size=n), rng.choice(["a", "b", "c"], n)
    sex = rng.choice(["f", "m"], n)
    y = np.round(x + 0.1 * rng.standard_normal(n), 1)
    frame = pd.DataFrame({"x": x, "word": word, "sex": sex})
    frame.assign(y=y).to_csv(folder / "plain.csv", index=False)
    times = {"time": 1.0 + rng.exponential(size=n).round(2), "status": rng.integers(0, 2, n)}
    frame.assign(**times).to_csv(folder / "times.csv", index=False)
    frame.assign(count=rng.poisson(2.0, n)).to_csv(folder / "counts.csv", index=False)
    folds = [("times", i, row) for i in (1, 2) for row in range(i, n, 2)]
    folds = pd.DataFrame(folds, columns=["set", "iteration", "row"])
    folds.to_csv(folder / "survival_folds.csv.gz", index=False)
    tables = {
        "plain": panel_data.Table("plain.csv", "regression", n, step=0.1),
        "times": panel_data.Table("times.csv", "survival", n, "time"),
        "counts": panel_data.Table("counts.csv", "counts", n, "count"),
    }
    for module in (panel, panel_data):
        monkeypatch.setattr(module, "TABLES", tables)
    monkeypatch.setenv("CHAINEDGP_DATA", str(tmp_path))
    return SimpleNamespace(
        main=panel, data=panel_data, answer=panel_answer, folder=folder, record=tmp_path / "r.jsonl"
    )


def run_main(panel, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["panel.py", str(panel.record), *arguments])
    panel.main.main()
    return panel.record.read_text().splitlines()


def test_words_and_folds(panel):
    """Two words are one column, three are three; every row is held out once."""
    arrays = panel.data.read("plain", panel.folder)
    assert arrays["X"].shape == (30, 5)
    assert set(arrays["X"][:, 1:].ravel()) == {0.0, 1.0} and (arrays["X"][:, 1:4].sum(1) == 1).all()
    folds = panel.data.held_out("plain", panel.folder)
    assert len(folds) == 10
    assert (np.concatenate(folds) == np.random.default_rng(0).permutation(30)).all()
    assert (panel.data.held_out("times", panel.folder)[1] == np.arange(2, 30, 2)).all()


def test_scores_of_real_targets(panel):
    task = panel.data.task_of("plain", 2, panel.folder)
    mean, sd, y = task["X_new"][:, 0], 0.1 + task["X_new"][:, 0], task["y_new"]
    got = panel.data.scores(
        task, panel.answer.answer_of(stats.norm(mean[:, None], sd[:, None]), task)
    )
    z = (y - mean) / sd
    assert got["nlpd"] == pytest.approx(np.mean(0.5 * z**2 + np.log(sd) + 0.5 * np.log(2 * np.pi)))
    chance = [
        stats.norm(m, s).cdf([v - 0.05, v + 0.05]) for m, s, v in zip(mean, sd, y, strict=True)
    ]
    assert got["interval_nlpd"] == pytest.approx(-np.mean(np.log(np.diff(chance)[:, 0] / 0.1)))
    assert got["coverage"] == np.mean(np.abs(z) <= 1.6448536)
    assert got["width"] == pytest.approx(2 * 1.6448536 * sd.mean())
    assert got["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))


def test_intervals_far_in_the_tail_have_the_density(panel):
    """There a difference of cdfs is 0 and its logarithm would be −∞."""
    task = panel.data.task_of("plain", 0, panel.folder)
    far = stats.norm(task["y_new"][:, None] + 40.0, 1.0)
    answer = panel.answer.answer_of(far, task)
    assert answer["log_interval"] == pytest.approx(answer["log_density"])


def test_scores_of_counts(panel):
    """Coverage of a count is that of the probability transform, randomised over its jump."""
    task = panel.data.task_of("counts", 1, panel.folder)
    y, law = task["y_new"], stats.poisson(2.0 * np.ones((3, 1)))
    got = panel.data.scores(task, panel.answer.answer_of(law, task))
    assert got["nlpd"] == pytest.approx(-np.mean(stats.poisson(2.0).logpmf(y)))
    spread = np.random.default_rng(0).uniform(size=(200_000, 3))
    below, upto = stats.poisson(2.0).cdf(y - 1), stats.poisson(2.0).cdf(y)
    u = below + spread * (upto - below)
    assert got["coverage"] == pytest.approx(np.mean((u > 0.05) & (u < 0.95)), abs=0.004)


def test_scores_of_times(panel):
    """Concordance pair by pair; a censored row has log S(y) and the covered share of what is left.

    The Brier score is checked where no row is censored: a mean of squares, no weights."""
    task = panel.data.task_of("times", 0, panel.folder)
    task["censored"][:] = 0.0
    scale, y, hidden = 1.0 + task["X_new"][:, 0], task["y_new"], task["censored_new"] > 0
    law = stats.expon(scale=scale[:, None])
    got = panel.data.scores(task, panel.answer.answer_of(law, task))
    assert got["nlpd"] == pytest.approx(np.mean(y / scale + np.where(hidden, 0.0, np.log(scale))))
    pairs = [
        (scale[i] < scale[j]) + 0.5 * (scale[i] == scale[j])
        for i in np.flatnonzero(~hidden)
        for j in range(len(y))
        if y[i] < y[j] or (y[i] == y[j] and hidden[j])
    ]
    assert got["harrell"] == pytest.approx(np.mean(pairs))
    F = 1.0 - np.exp(-y / scale)
    later = F[:, None] + (1.0 - F[:, None]) * np.linspace(0.0, 1.0, 100_001)
    drawn = np.where(hidden[:, None], later, F[:, None])
    assert got["coverage"] == pytest.approx(np.mean((drawn > 0.05) & (drawn < 0.95)), abs=1e-4)

    task["censored_new"][:] = 0.0
    got = panel.data.scores(task, panel.answer.answer_of(law, task))
    assert task["times"][-1] <= np.quantile(y, 0.8) < np.max(y)
    squares = [np.mean((np.exp(-t / scale) - (y > t)) ** 2) for t in task["times"]]
    length = task["times"][-1] - task["times"][0]
    assert got["brier"] == pytest.approx(np.trapezoid(squares, task["times"]) / length)


def test_a_record_is_continued(panel, monkeypatch, capsys):
    """Fits that are there are not run again, failures are; more folds add to the record."""
    done = []

    def run(key, *_):
        done.append(key)
        entry = dict(zip(("set", "method", "fold"), key, strict=True))
        return entry | ({"error": "no"} if len(done) == 1 else {"nlpd": len(done), "coverage": 0.9})

    monkeypatch.setattr(panel.main, "run", run)
    few = "--sets", "plain", "--methods", "HetGaussian,LogLogisticSurvival"
    assert len(run_main(panel, monkeypatch, *few, "--folds", "2")) == 2
    assert len(run_main(panel, monkeypatch, *few, "--folds", "3")) == 4
    assert [key[2] for key in done] == [0, 1, 0, 2] and {key[1] for key in done} == {"HetGaussian"}
    capsys.readouterr()
    run_main(panel, monkeypatch, "--show", "--against", str(panel.record))
    shown = capsys.readouterr().out.splitlines()[1].split()
    assert shown[:4] == ["plain", "HetGaussian", "3", "3.000"] and len(done) == 4


@pytest.mark.slow
def test_a_fit_in_its_own_process(panel, monkeypatch):
    """A fit is scored and timed; one that fails says why, and the next ones go on."""
    arguments = "--sets", "plain,times", "--folds", "1", "--options", '{"num_inducing": 3}'
    lines = run_main(
        panel, monkeypatch, *arguments, "--methods", "Gaussian,NoSuchNoise,LogLogisticSurvival"
    )
    plain, failed, times = map(json.loads, lines)
    assert plain["method"] == "Gaussian" and plain["nlpd"] < 1.0 and plain["processor"] > 0.0
    assert "NoSuchNoise" in failed["error"]
    assert times["harrell"] >= 0.0 and 0.0 < times["brier"] < 1.0


def test_wrong_arguments_end_at_once(panel, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_main(panel, monkeypatch, "--sets", "plane")
    assert "plane not among plain, times, counts" in capsys.readouterr().err
    monkeypatch.setenv("CHAINEDGP_DATA", "")
    monkeypatch.setattr(panel.data, "ROOT", panel.folder)
    with pytest.raises(SystemExit, match="CHAINEDGP_DATA"):
        run_main(panel, monkeypatch)


def test_laws_of_rivals(panel):
    """A step function has the cdf and quantiles of its definition; a mixture those of draws."""
    import panel_rivals

    steps = panel_rivals.Steps(
        np.array([1.0, 2.0, 4.0]), np.array([[0.9, 0.5, 0.5], [0.4, 0.1, 0.0]])
    )
    assert steps.cdf([0.5, 1.0, 3.0]) == pytest.approx(np.array([[0, 0.1, 0.5], [0, 0.6, 0.9]]))
    assert steps.cdf(np.array([[3.0], [0.0]])) == pytest.approx(np.array([[0.5], [0.0]]))
    assert (steps.ppf([0.1, 0.5, 0.7]) == [[1.0, 2.0, np.inf], [1.0, 1.0, 2.0]]).all()

    mean, variance, alpha = np.array([0.5, 1.5]), np.array([0.3, 0.1]), 0.7
    law, rng = panel_rivals.Mixture(mean, variance, alpha), np.random.default_rng(0)
    rate = np.exp(mean + np.sqrt(variance) * rng.standard_normal((400_000, 2)))
    draws = rng.poisson(rate * rng.gamma(1 / alpha, alpha, rate.shape))
    shares = np.array([[np.mean(draws[:, i] <= k) for k in (0, 2, 6)] for i in (0, 1)])
    assert law.cdf([0, 2, 6]) == pytest.approx(shares, abs=0.003)
    masses = [[np.mean(draws[:, i] == k) for k in (0, 2, 6)] for i in (0, 1)]
    assert np.exp(law.logpmf([0, 2, 6])) == pytest.approx(np.array(masses), abs=0.003)
    assert law.mean()[:, 0] == pytest.approx(draws.mean(axis=0), rel=0.01)
    assert (law.ppf([0.5]) == np.median(draws, axis=0)[:, None]).all()


def test_tables_of_the_page(panel, monkeypatch, tmp_path):
    """Means over the folds that all have, weighted by rows; ranks; parts of the page replaced."""
    import panel_page

    monkeypatch.setattr(panel_page, "TABLES", panel.data.TABLES)

    def record(methods, folds, **more):
        rows = {0: 10, 1: 30, 2: 10, 3: 10}
        return {
            ("plain", m, f): {"rows": rows[f], "nlpd": value + f, "coverage": 0.9, "rmse": 2.0}
            | {"processor": 1.0, "set": "plain", "method": m, "fold": f}
            | more
            for m, value in methods.items()
            for f in range(folds)
        }

    old = record({"HetGaussian": 1.5}, 4)
    new = record({"HetGaussian": 1.0, "Gaussian": 1.2, "HetStudentT": 0.9}, 4, processor=3.0)
    rivals = record({"NGBoost": 0.8, "sklearn-GP": 1.1}, 3) | record({"GPBoost": 0.0}, 1)
    rivals |= record({"boosted-mean": 0.0}, 3, error="it failed")
    scores = panel_page.Scores(old, new, rivals)
    assert scores.sets == ["plain"] and scores.folds("plain") == [0, 1, 2]
    assert scores.mean("plain", "HetGaussian", "nlpd") == pytest.approx(1.0 + (30 + 2 * 10) / 50)
    assert panel_page.difference(scores, "plain") == pytest.approx(-0.5)
    places = panel_page.ranks(scores, "regression", "nlpd")
    assert [places[m] for m in ("NGBoost", "HetStudentT", "HetGaussian")] == [1.0, 2.0, 3.0]
    assert np.isnan(places["GPBoost"]) and np.isnan(places["boosted-mean"])
    assert panel_page.losses(scores) == "- plain, NGBoost: NLPD 1.800 against 2.000"
    row = panel_page.old_and_new(scores).splitlines()[2]
    assert "| 3 | 2.500 | 2.000 | −0.500 ± 0.000 | 90.0 | 90.0 | 3.0 | 3.00 |" in row
    assert "NLPD better than before on 1 of 1" in panel_page.bars(scores)[0]

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n")
    for _ in range(2):
        panel_page.write(page, {"a": "new"})
    assert page.read_text() == "before\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nafter\n"
    with pytest.raises(SystemExit, match="no marks for b"):
        panel_page.write(page, {"b": ""})
