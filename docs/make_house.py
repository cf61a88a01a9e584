"""Draws the way of a row through the package, the picture of CONTRIBUTING.md."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

PATH = Path(__file__).parent / "images" / "way_of_a_row.png"

# (column, row) of a box, the folder, what happens to a row there
BOXES = {
    "data": (0, 3, "data", "check the user's X, Y, metadata:\nRows (X, y, metadata, weights)"),
    "shard": (
        1,
        3,
        "posterior",
        "a Shard holds the rows and their sites\nand passes over them in chunks",
    ),
    "prior": (
        2,
        3,
        "kernels, means",
        "Kuf, kff and the prior mean at the row\n(their leaves lie in parameters)",
    ),
    "family": (
        2,
        2,
        "posterior",
        "a family turns q(u) into marginals q(f)\nof the row, eqs. 4 and 5",
    ),
    "expected": (
        2,
        1,
        "likelihoods, expectations",
        "E[log p(y | f)] of the row and its slopes:\nclosed, reduced or by nodes, eq. 6",
    ),
    "bound": (
        1,
        1,
        "posterior",
        "the Evaluator adds up all rows:\nΣ E − KL, eq. 7, and its gradient",
    ),
    "optimiser": (
        1,
        2,
        "inference",
        "an optimiser sees a Problem:\nbound, gradient, accept, restore",
    ),
    "model": (0, 2, "model", "ChainedGP joins the parts;\nthin methods over the folders"),
    "predictive": (
        0,
        1,
        "predictive",
        "p(y* | x*): moments, densities,\nquantiles, draws, survival",
    ),
    "sampling": (
        1,
        0,
        "sampling",
        "draws of u and θ by the no-U-turn sampler,\nwhere a Gaussian q is not enough",
    ),
    "assessment": (0, 0, "assessment, plotting", "loo, check, metrics,\ncross-validation, figures"),
}
ARROWS = [
    ("data", "shard"), ("shard", "prior"), ("prior", "family"), ("family", "expected"),
    ("expected", "bound"), ("bound", "optimiser"), ("model", "data"), ("optimiser", "model"),
    ("model", "predictive"), ("predictive", "assessment"), ("bound", "sampling"),
]  # fmt: skip
WIDTH, HEIGHT, STEP_X, STEP_Y = 3.5, 0.98, 4.15, 1.5


def corner(name: str) -> tuple[float, float]:
    column, row, *_ = BOXES[name]
    return column * STEP_X, row * STEP_Y


def ends(start: str, end: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The points on the edges of two boxes that an arrow joins."""
    (x0, y0), (x1, y1) = corner(start), corner(end)
    if y0 == y1 or abs(x0 - x1) > 0:
        right = x1 > x0
        return (x0 + WIDTH * right, y0 + HEIGHT / 2), (x1 + WIDTH * (not right), y1 + HEIGHT / 2)
    up = y1 > y0
    return (x0 + WIDTH / 2, y0 + HEIGHT * up), (x1 + WIDTH / 2, y1 + HEIGHT * (not up))


def main() -> None:
    figure, axes = plt.subplots(figsize=(11.8, 5.6))
    for name, (_, _, folder, words) in BOXES.items():
        x, y = corner(name)
        box = FancyBboxPatch(
            (x, y), WIDTH, HEIGHT, "round,pad=0.05", facecolor="#eef3f8", edgecolor="#35618e"
        )
        axes.add_patch(box)
        middle = x + WIDTH / 2
        axes.text(middle, y + 0.76, folder, ha="center", va="center", weight="bold", fontsize=10.5)
        axes.text(middle, y + 0.31, words, ha="center", va="center", fontsize=8.8)
    for start, end in ARROWS:
        a, b = ends(start, end)
        style = {"arrowstyle": "-|>", "color": "#35618e", "shrinkA": 4, "shrinkB": 4}
        axes.annotate("", b, a, arrowprops=style)
    axes.set_xlim(-0.15, 2 * STEP_X + WIDTH + 0.15)
    axes.set_ylim(-0.15, 3 * STEP_Y + HEIGHT + 0.15)
    axes.axis("off")
    figure.savefig(PATH, dpi=110, bbox_inches="tight", pad_inches=0.05)


if __name__ == "__main__":
    main()
