"""Three named classes on a map: probabilities, a decision, and where the decision is not clear.

Simulated data: what grows at 240 places in the mountains. The altitude in metres and the rain in mm
a year decide, and chance does the rest.

    beech     low, with enough rain
    spruce    higher, or drier
    meadow    above the tree line, which is lower where it rains more

`Softmax` has one latent function for each class. `predict_proba` gives the probability of each
class at new places. The most probable class is the decision; where no class is more probable than
60 %, somebody should go and look.

Run it with no arguments. It prints probabilities and decisions for five places, and a table of
decisions against truth at places that were not fitted, and writes a map. Beside it is the
calibration at these places: how often a class occurred that was predicted with some probability. It
needs pandas: pip install pandas.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp

try:
    import pandas as pd
except ModuleNotFoundError:
    raise SystemExit("This example needs pandas: pip install pandas") from None

CLASSES = ("beech", "meadow", "spruce")  # sorted, as the model sorts text
CLEAR = 0.6


def simulate(rng, n):
    """Places and what grows there."""
    places = pd.DataFrame(
        {
            "altitude (m)": rng.uniform(200, 2400, n).round(),
            "rain (mm/year)": rng.uniform(500, 2000, n).round(),
        }
    )
    height, rain = places["altitude (m)"] / 1000, places["rain (mm/year)"] / 1000
    beech = 9 * (0.9 - height) - 6 * (1.0 - rain).clip(lower=0)
    meadow = 9 * (height - 1.9 + 0.3 * (rain - 1.2))
    scores = np.column_stack([beech, meadow, np.zeros(n)]) + rng.gumbel(size=(n, 3))
    return places, pd.Series(np.array(CLASSES)[scores.argmax(axis=1)], name="cover")


def decide(probabilities):
    """The most probable class of each row, or "not clear" where none is."""
    clear = probabilities.max(axis=1) >= CLEAR
    return probabilities.idxmax(axis=1).where(clear, "not clear").rename("decision")


def draw(model, test, path):
    """Probabilities as mixed colours, dots where the decision is not clear; and the calibration."""
    figure, (ax, right) = plt.subplots(
        1, 2, figsize=(9.2, 4.2), layout="constrained", width_ratios=(3, 2)
    )
    model.plot(ax=ax)
    altitude, rain = np.linspace(*ax.get_xlim(), 80), np.linspace(*ax.get_ylim(), 80)
    grid = np.stack([part.ravel() for part in np.meshgrid(altitude, rain)], axis=1)
    largest = model.predict_proba(grid).max(axis=1).reshape(80, 80)
    ax.contourf(altitude, rain, largest, levels=[0, CLEAR], colors="none", hatches=["..."])
    ax.contour(altitude, rain, largest, levels=[CLEAR], colors="black", linewidths=0.8)
    ax.fill([], [], facecolor="none", edgecolor="black", hatch="...", label="not clear")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8, ncols=4)
    model.plot_calibration(*test, ax=right)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Classify places, with probabilities.")
    parser.add_argument("--output", type=Path, default=Path("results/classification"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    places, cover = simulate(rng, 60 if arguments.quick else 240)
    model = cgp.ChainedGP(places, cover, cgp.likelihoods.Softmax(3), num_inducing=25)
    print(model.optimize())

    names = ["valley", "dry slope", "wood", "tree line", "summit"]
    heights, rains = [400.0, 500.0, 1300.0, 1930.0, 2300.0], [1400.0, 550.0, 1100.0, 1200.0, 1600.0]
    new = pd.DataFrame({"altitude (m)": heights, "rain (mm/year)": rains}, index=names)
    probabilities = model.predict_proba(new)
    print(pd.concat([probabilities.round(2), decide(probabilities)], axis=1).to_string())

    places, cover = simulate(rng, 600)  # not fitted
    probabilities = model.predict_proba(places)
    print(f"\n{pd.crosstab(cover, decide(probabilities)).to_string()}")
    loss = -model.log_predictive_density(places, cover).mean()
    shares = cover.value_counts(normalize=True)
    guess = -(shares * np.log(shares)).sum()
    print(f"log-loss {loss:.2f}; {guess:.2f} for the shares of the classes without inputs")
    draw(model, (places, cover), arguments.output / "map.png")


if __name__ == "__main__":
    main()
