"""The tables and the figure of docs/panel.md, from records of panel.py.

    python benchmarks/panel_page.py --old OLD.jsonl --new NEW.jsonl --rivals RIVALS.jsonl

replaces what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` in docs/panel.md and
draws docs/images/panel.png. OLD has the defaults of an earlier tree, NEW those of this one. In each
set all scores are means over the same folds: those that every method has that finished at least
`FOLDS` of them. Other methods have a dash.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from panel import OURS, RIVALS, Record, load
from panel_data import TABLES, find_folder

ROOT = Path(__file__).resolve().parents[1]
FOLDS = 3
DEFAULT = {
    "regression": "HetGaussian",
    "survival": "LogLogisticSurvival",
    "counts": "NegativeBinomial",
}
OLD = " before"  # Methods of the old record are told apart by it.
SURVIVAL_SCORES = (("survival", "nlpd"), ("survival", "harrell"), ("survival", "brier"))
CLOSE = 0.02  # nats a row: a smaller difference of two NLPDs is not called a loss


class Scores:
    """Scores by set, method and fold; a method of the old tree has `OLD` behind its name."""

    def __init__(self, old: Record, new: Record, rivals: Record) -> None:
        self.entries = {
            (name, method + tag, fold): entry
            for record, tag in ((old, OLD), (new, ""), (rivals, ""))
            for (name, method, fold), entry in record.items()
            if "error" not in entry
        }
        self.sets = [name for name in TABLES if self.folds(name)]

    def has(self, name: str, method: str) -> set[int]:
        """The folds of a set that a method has."""
        return {fold for n, m, fold in self.entries if (n, m) == (name, method)}

    def folds(self, name: str) -> list[int]:
        """The folds that every method has that has enough of them; none without our default.

        Where this tree has not been run the folds are those of the old one.
        """
        kind = TABLES[name].kind
        own = self.has(name, DEFAULT[kind]) or self.has(name, DEFAULT[kind] + OLD)
        enough = min(FOLDS, len(own))
        others = [self.has(name, m) for m in methods(kind, old=True)]
        return sorted(own.intersection(*[folds for folds in others if len(folds) >= enough > 0]))

    def finished(self) -> list[str]:
        """The sets on which our default of this tree has been run."""
        return [name for name in self.sets if self.has(name, DEFAULT[TABLES[name].kind])]

    def each(self, name: str, method: str, score: str) -> np.ndarray:
        """A score of the set's folds, (folds,); nan where a fold or the score is missing."""
        values = [
            self.entries.get((name, method, fold), {}).get(score) for fold in self.folds(name)
        ]
        return np.array([np.nan if value is None else value for value in values], dtype=float)

    def mean(self, name: str, method: str, score: str) -> float:
        """The mean over folds, each with its number of rows; squared for the RMSE."""
        values = self.each(name, method, score)
        rows = self.each(name, method, "rows")
        if not np.isfinite(values).all():
            return np.nan
        if score == "rmse":
            return float(np.sqrt(np.average(values**2, weights=rows)))
        if score in ("harrell", "brier", "processor"):
            return float(np.mean(values))
        return float(np.average(values, weights=rows))


def methods(kind: str, old: bool = False) -> list[str]:
    """Ours, the default first, then rivals; with `old` the default of the old tree too."""
    own = sorted(OURS[kind], key=lambda name: name != DEFAULT[kind])
    return own + [DEFAULT[kind] + OLD] * old + list(RIVALS[kind])


def ranks(scores: Scores, kind: str, score: str, sign: float = 1.0) -> dict[str, float]:
    """The mean rank of each method, 1 the best, over the sets on which our default has been run.

    Methods that miss one of these sets are left out, since ranks among other methods or over other
    sets could not be compared.
    """
    names = [name for name in scores.finished() if TABLES[name].kind == kind]
    values = {m: [sign * scores.mean(name, m, score) for name in names] for m in methods(kind)}
    ranked = [m for m in values if names and np.isfinite(values[m]).all()]
    order = np.argsort(np.argsort([values[m] for m in ranked], axis=0), axis=0) if ranked else []
    places = dict(zip(ranked, np.mean(order, axis=1) + 1.0, strict=True)) if ranked else {}
    return {method: float(places.get(method, np.nan)) for method in values}


def sets_of(scores: Scores, kind: str) -> list[str]:
    return [name for name in scores.sets if TABLES[name].kind == kind]


# ---- tables --------------------------------------------------------------------------------------


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float, digits: int = 3) -> str:
    return "–" if not np.isfinite(value) else f"{value:.{digits}f}".replace("-", "−")


def marked(values: list[float], digits: int, best: float) -> list[str]:
    """Numbers, those that print as the best one in bold."""
    words = [number(value, digits) for value in values]
    return [f"**{w}**" if w == number(best, digits) and w != "–" else w for w in words]


def least(values: list[float]) -> float:
    """The least number, nan if there is none."""
    return min((v for v in values if np.isfinite(v)), default=np.nan)


def old_and_new(scores: Scores) -> str:
    """Our defaults before and now: NLPD, difference with its standard error, coverage, time."""
    rows = []
    for name in scores.finished():
        now = DEFAULT[TABLES[name].kind]
        shift = scores.each(name, now, "nlpd") - scores.each(name, now + OLD, "nlpd")
        error = np.std(shift, ddof=1) / np.sqrt(len(shift)) if len(shift) > 1 else np.nan
        cpu = [scores.mean(name, method, "processor") for method in (now + OLD, now)]
        rows.append(
            [
                name + ("" if TABLES[name].tuned else " ¹"),
                now,
                str(len(shift)),
                *[number(scores.mean(name, m, "nlpd")) for m in (now + OLD, now)],
                f"{number(difference(scores, name))} ± {number(error)}",
                *[number(100 * scores.mean(name, m, "coverage"), 1) for m in (now + OLD, now)],
                number(cpu[1], 1),
                number(cpu[1] / cpu[0], 2),
            ]
        )
    head = "set,likelihood,folds,NLPD before,now,difference,coverage % before,now,seconds,ratio"
    return table(head.split(","), rows)


def difference(scores: Scores, name: str) -> float:
    now = DEFAULT[TABLES[name].kind]
    return scores.mean(name, now, "nlpd") - scores.mean(name, now + OLD, "nlpd")


def by_method(scores: Scores, kind: str, score: str, digits: int, factor: float = 1.0) -> str:
    """A score of every method on the sets of a kind, the best in bold, and for NLPD the ranks."""
    names, rows = methods(kind, old=True), []
    for name in sets_of(scores, kind):
        values = [factor * scores.mean(name, method, score) for method in names]
        best = np.nan if score == "coverage" else least(values)
        folds = str(len(scores.folds(name)))
        rows.append([name, folds, *marked(values, digits, float(best))])
    if score == "nlpd":
        place = ranks(scores, kind, score)
        values = [place.get(method, np.nan) for method in names]
        rows.append(["mean rank", "", *marked(values, 1, least(values))])
    return table(["", "folds", *names], rows)


def relative_rmse(scores: Scores) -> str:
    """RMSE over that of our Gaussian fit."""
    names = [DEFAULT["regression"] + OLD, *[m for m in methods("regression") if m != "Gaussian"]]
    rows = []
    for name in sets_of(scores, "regression"):
        base = scores.mean(name, "Gaussian", "rmse")
        if np.isfinite(base):
            rows.append([name, *[number(scores.mean(name, m, "rmse") / base, 2) for m in names]])
    return table(["", *names], rows) if rows else "Not run yet."


def survival(scores: Scores, published: dict[str, dict[str, float]]) -> str:
    """Harrell's C, integrated Brier score and the share of Kaplan–Meier's that is explained."""
    names, rows = methods("survival", old=True), []
    for name in sets_of(scores, "survival"):
        for score, word, sign in (("harrell", "C", -1), ("brier", "Brier score", 1)):
            values = [scores.mean(name, method, score) for method in names]
            best = sign * np.nanmin(sign * np.array(values))
            theirs = [published[name][f"{score} {who}"] for who in ("CPH", "best")]
            rows.append([name, word, *marked(values, 3, float(best)), *map(number, theirs)])
        base = scores.mean(name, "Kaplan-Meier", "brier")
        shares = [1.0 - scores.mean(name, method, "brier") / base for method in names]
        theirs = [published[name][f"share {who}"] for who in ("CPH", "best")]
        words = marked(shares, 3, max(shares, key=lambda s: -np.inf if np.isnan(s) else s))
        rows.append([name, "explained", *words, *map(number, theirs)])
    for score, word, sign in (("harrell", "C", -1.0), ("brier", "Brier score", 1.0)):
        place = ranks(scores, "survival", score, sign)
        values = [place.get(method, np.nan) for method in names]
        rows.append(["mean rank", word, *marked(values, 1, least(values)), "", ""])
    return table(["", "", *names, "published Cox", "published best"], rows)


def read_published(folder: Path) -> dict[str, dict[str, float]]:
    """Cox's and the best learner's scores of the published benchmark, by set."""
    import pandas

    rows = pandas.read_csv(folder / "survival_published.csv")
    result = {}
    for name, group in rows.groupby("task_id"):
        cox = group[group["learner_id"] == "CPH"].iloc[0]
        result[str(name)] = {
            "harrell CPH": cox["harrell_c"],
            "harrell best": group["harrell_c"].max(),
            "brier CPH": cox["isbs"],
            "brier best": group["isbs"].min(),
            "share CPH": cox["isbs_erv"],
            "share best": group["isbs_erv"].max(),
        }
    return result


def losses(scores: Scores) -> str:
    """Every rival that beats our default: by NLPD, and for survival by C or Brier score."""
    lines = []
    for name in scores.sets:
        kind = TABLES[name].kind
        ours = {s: scores.mean(name, DEFAULT[kind], s) for s in ("nlpd", "harrell", "brier")}
        for rival in RIVALS[kind]:
            theirs = {s: scores.mean(name, rival, s) for s in ours}
            words = []
            if theirs["nlpd"] < ours["nlpd"] - CLOSE:
                words.append(f"NLPD {number(theirs['nlpd'])} against {number(ours['nlpd'])}")
            if theirs["harrell"] > ours["harrell"]:
                words.append(f"C {number(theirs['harrell'])} against {number(ours['harrell'])}")
            if theirs["brier"] < ours["brier"]:
                pair = f"{number(theirs['brier'], 4)} against {number(ours['brier'], 4)}"
                words.append(f"Brier score {pair}")
            if words:
                lines.append(f"- {name}, {rival}: {', '.join(words)}")
    return "\n".join(lines) or "None."


def bars(scores: Scores) -> list[str]:
    """What is asked of the defaults, with figures; printed, for whoever judges them."""
    shifts = {name: difference(scores, name) for name in scores.finished()}
    lines = [f"NLPD better than before on {sum(d < 0 for d in shifts.values())} of {len(shifts)}"]
    worse = {name: round(d, 3) for name, d in shifts.items() if d > CLOSE}
    lines.append(f"worse by more than {CLOSE}: {worse or 'none'}")
    for method in ("HetGaussian", "HetStudentT"):
        ratio = {
            name: scores.mean(name, method, "rmse") / scores.mean(name, "Gaussian", "rmse")
            for name in sets_of(scores, "regression")
        }
        far = {name: round(r, 3) for name, r in ratio.items() if r > 1.03}
        lines.append(f"{method}: RMSE more than 3 % above the Gaussian's: {far or 'none'}")
    for name in sets_of(scores, "survival"):
        pairs = [
            (scores.mean(name, m, "harrell"), scores.mean(name, m, "brier"))
            for m in (DEFAULT["survival"], "Cox")
        ]
        words = [f"C {c:.4f}, Brier {b:.4f}" for c, b in pairs]
        lines.append(f"{name}: ours {words[0]}; Cox {words[1]}")
    for kind in OURS:
        for method in OURS[kind]:
            cover = {n: scores.mean(n, method, "coverage") for n in sets_of(scores, kind)}
            out = {n: round(100 * c, 1) for n, c in cover.items() if c < 0.85 or c > 0.95}
            lines.append(f"{method}: coverage outside 85 to 95 %: {out or 'none'}")
    place = {"nlpd": 1.0, "brier": 1.0, "harrell": -1.0}
    for kind, score in (("regression", "nlpd"), ("counts", "nlpd"), *SURVIVAL_SCORES):
        mean = ranks(scores, kind, score, place[score])
        ordered = sorted(mean.items(), key=lambda item: item[1])
        lines.append(f"ranks {kind} {score}: " + ", ".join(f"{m} {r:.2f}" for m, r in ordered))
    ratios = [
        scores.mean(n, DEFAULT[TABLES[n].kind], "processor")
        / scores.mean(n, DEFAULT[TABLES[n].kind] + OLD, "processor")
        for n in scores.finished()
    ]
    lines.append(f"processor time over that before: median {np.median(ratios):.2f}")
    return lines


# ---- figure --------------------------------------------------------------------------------------


def draw(scores: Scores, path: Path) -> None:
    """NLPD of every method above that of our default, by set; C and Brier score for survival."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), width_ratios=(3, 2))
    names = [n for n in scores.finished() if TABLES[n].kind != "survival"][::-1]
    looks = {
        DEFAULT["regression"] + OLD: ("x", "0.35"),
        "Gaussian": ("o", "0.7"),
        "HetStudentT": ("s", "C0"),
        "NGBoost": ("^", "C1"),
        "sklearn-GP": ("v", "C2"),
        "boosted-mean": ("D", "C3"),
        "GPBoost": ("P", "C4"),
        "NB-GLM": ("*", "C5"),
    }
    for method, (marker, color) in looks.items():
        points = []
        for place, name in enumerate(names):
            ours = DEFAULT[TABLES[name].kind]
            asked = ours + OLD if method.endswith(OLD) else method
            gap = scores.mean(name, asked, "nlpd") - scores.mean(name, ours, "nlpd")
            points.append((gap, place))
        label = "our default before" if method.endswith(OLD) else method
        left.plot(*np.array(points).T, marker, color=color, label=label, alpha=0.85, ms=6)
    left.axvline(0.0, color="k", lw=1)
    left.set_xscale("symlog", linthresh=0.1)
    left.set_yticks(range(len(names)), names)
    left.set_xlabel("NLPD above our default's (nats a row; right: ours is better)")
    left.grid(axis="y", alpha=0.2)
    left.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    own = DEFAULT["survival"]
    marks = {own: "o", own + OLD: "x", "Cox": "s", "Weibull-AFT": "^", "NGBoost": "D"}
    for color, name in enumerate(sets_of(scores, "survival")):
        base = scores.mean(name, "Kaplan-Meier", "brier")
        for method, marker in marks.items():
            at = scores.mean(name, method, "harrell")
            share = 1.0 - scores.mean(name, method, "brier") / base
            right.plot(at, share, marker, color=f"C{color}", ms=7, alpha=0.85)
        right.plot([], [], "-", color=f"C{color}", label=name)
    for method, marker in marks.items():
        label = "our default before" if method.endswith(OLD) else method
        right.plot([], [], marker, color="0.4", label=label)
    right.set_xlabel("Harrell's C")
    right.set_ylabel("share of Kaplan–Meier's Brier score explained")
    right.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def write(page: Path, parts: dict[str, str]) -> None:
    """Replace the parts between their marks."""
    text = page.read_text()
    for name, part in parts.items():
        mark = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not mark.search(text):
            raise SystemExit(f"{page.name} has no marks for {name}")
        text = mark.sub(lambda m, part=part: f"{m[1]}\n{part}\n\n{m[2]}", text)
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("old", "new", "rivals"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "panel.md")
    parser.add_argument("--bars", action="store_true", help="print the bars, write nothing")
    given = parser.parse_args()
    scores = Scores(load(given.old), load(given.new), load(given.rivals))
    print("\n".join(bars(scores)))
    if given.bars:
        return
    parts = {
        "old-and-new": old_and_new(scores),
        "regression": by_method(scores, "regression", "nlpd", 2),
        "coverage": by_method(scores, "regression", "coverage", 1, 100.0),
        "rmse": relative_rmse(scores),
        "survival": survival(scores, read_published(find_folder())),
        "counts": by_method(scores, "counts", "nlpd", 3),
        "losses": losses(scores),
    }
    write(given.page, parts)
    draw(scores, given.page.parent / "images" / "panel.png")


if __name__ == "__main__":
    main()
