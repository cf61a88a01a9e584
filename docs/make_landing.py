"""Draws the figure of docs/index.md: python docs/make_landing.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import chainedgp as cgp

PATH = Path(__file__).parent / "images" / "landing.png"
IMPACT = 14.0  # milliseconds; before it nothing happens
L = cgp.likelihoods


def main():
    data = cgp.datasets.motorcycle()
    figure, axes = plt.subplots(
        1, 2, figsize=(9.0, 3.4), layout="constrained", sharey=True, sharex=True
    )
    early = np.linspace(data.X.min(), IMPACT - 1.0, 50)
    models = {
        "Ordinary GP: the noise is one number": L.Gaussian(),
        "Chained GP: the noise has a GP of its own": L.HetGaussian(),
    }
    for ax, (title, likelihood) in zip(axes, models.items(), strict=True):
        m = cgp.ChainedGP(data.X, data.Y, likelihood)
        m.input_names, m.target_name = ["time (ms)"], "acceleration (g)"
        m.optimize()
        m.plot(ax=ax, legend=False)
        lower, upper = m.predict_quantiles(early, (2.5, 97.5))
        width = float(np.mean(upper - lower))
        ax.set_title(title, fontsize=10)
        ax.annotate(
            f"95 % band\n{width:.0f} g wide",
            (7.0, float(lower.min())),
            (3.5, -110.0),
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": "0.3", "lw": 0.8},
        )
    axes[1].set_ylabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8
    )
    figure.savefig(PATH, dpi=130)
    with Image.open(PATH) as image:  # a palette of 256 colours: a third of the size
        small = image.convert("RGB").quantize(256)
    small.save(PATH, optimize=True)
    print(f"{PATH} {PATH.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
