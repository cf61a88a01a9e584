"""Box plots of held-out NLPD over folds and replicates, beside the quartiles the paper printed.

Reads what paper_tables.py wrote, results/paper_tables_<protocol>.csv; run that script first, with
--quick or --full. The quartiles of Saul et al. (2016) for motorcycle and Boston are those of their
box plots; they belong to the protocol "code" and are drawn there as narrow grey boxes. Writes
nlpd_boxplots_<protocol>.png for each file.
"""

import argparse
import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

from chainedgp.plotting.style import COLOURS, SEQUENCE, tint

ORDER = ("G", "CHG", "Lt", "Vt", "CHt", "LSurv", "VSurv", "CHSurv")
PAPER = {  # first quartile, median, third quartile
    ("motorCorrupt", "G"): (1.809, 1.880, 2.135),
    ("motorCorrupt", "Lt"): (1.559, 1.703, 1.823),
    ("motorCorrupt", "CHG"): (1.595, 1.702, 1.987),
    ("motorCorrupt", "CHt"): (1.573, 1.681, 1.824),
    ("motorCorrupt", "Vt"): (2.178, 2.554, 2.800),
    ("boston", "G"): (0.178, 0.245, 0.356),
    ("boston", "Lt"): (0.131, 0.209, 0.306),
    ("boston", "CHG"): (0.015, 0.091, 0.139),
    ("boston", "CHt"): (0.012, 0.079, 0.164),
    ("boston", "Vt"): (0.101, 0.190, 0.275),
}


def read(path):
    """{dataset: {model: list of NLPD}}; lines of fits that failed have no NLPD and are left out."""
    table = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["nlpd"]:
                scores = table.setdefault(row.get("dataset") or row["data"], {})
                scores.setdefault(row["model"], []).append(float(row["nlpd"]))
    return table


def draw_panel(axes, dataset, scores, with_paper):
    models = [name for name in ORDER if name in scores]
    quartiles = [np.percentile(scores[name], [25, 75]) for name in models]
    tops = np.array([high + 5.0 * (high - low) for low, high in quartiles])
    top = tops[tops <= 10.0 * np.abs(np.median(tops))].max()  # a model may fail altogether
    for k, name in enumerate(models):
        chained = name.startswith("CH")
        colour = SEQUENCE[0] if chained else COLOURS["orange"]
        box = axes.boxplot(
            scores[name], positions=[k], widths=0.5, patch_artist=True, manage_ticks=False,
            flierprops={"marker": ".", "ms": 3, "mec": colour},
        )  # fmt: skip
        box["boxes"][0].set(facecolor=tint(colour, 0.4), edgecolor=colour)
        for part in (*box["whiskers"], *box["caps"], *box["medians"]):
            part.set_color(colour)
        if with_paper and (dataset, name) in PAPER:
            low, middle, high = PAPER[dataset, name]
            axes.fill_between([k + 0.3, k + 0.45], low, high, color="#bbbbbb", lw=0)
            axes.plot([k + 0.3, k + 0.45], [middle, middle], color="black", lw=1.0)
        far = [value for value in scores[name] if value > top]
        if far:  # would flatten all boxes
            words = ", ".join(f"{v:.1f}" for v in far) if len(far) < 4 else f"{len(far)} runs"
            axes.text(k, top, f"↑ {words}", ha="center", va="top", fontsize=7, color=colour)
    if max(max(scores[name]) for name in models) > top:
        least = min(min(scores[name]) for name in models)
        axes.set_ylim(least - 0.05 * (top - least), top)
    axes.set_xticks(range(len(models)), models)
    axes.set_xlim(-0.5, len(models) - 0.3)
    axes.set_title(f"{dataset} ({len(scores[models[0]])} runs)", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def draw(protocol, table, path):
    names = [name for name, scores in table.items() if any(model in scores for model in ORDER)]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.9 * columns, 2.6 * rows), layout="constrained", squeeze=False
    )
    for axis, name in zip(axes.flat, names, strict=False):
        draw_panel(axis, name, table[name], protocol.startswith("code"))
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("NLPD (lower is better)", fontsize=8)
    note = "\ngrey: quartiles in the paper" if protocol.startswith("code") else ""
    figure.suptitle(f"protocol: {protocol.replace('_', ', ')}{note}", fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Box plots of NLPD from paper_tables.py.")
    parser.add_argument("--input", type=Path, default=Path("results"), help="folder of the CSVs")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--quick", action="store_true", help="the same: nothing is fitted here")
    arguments = parser.parse_args()
    files = sorted(arguments.input.glob("paper_tables_*.csv"))
    if not files:
        raise SystemExit(
            f"No paper_tables_*.csv in {arguments.input}: run examples/paper_tables.py first, or "
            "name the folder by --input."
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    for file in files:
        protocol, table = file.stem.removeprefix("paper_tables_"), read(file)
        for dataset, models in table.items():
            for name in (name for name in ORDER if name in models):
                values = np.array(models[name])
                error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
                print(f"{protocol:<6}{dataset:<20}{name:<8}{values.mean():>8.3f} ± {error:.3f}")
        if table:
            path = arguments.output / f"nlpd_boxplots_{protocol}.png"
            draw(protocol, table, path)
            print(f"figure: {path}")


if __name__ == "__main__":
    main()
