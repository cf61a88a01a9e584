"""Counts over different times: rates, predictions for another time, and a check of calibration.

Simulated data: moths in 250 light traps. A trap was open for 1 to 7 nights, its exposure, and the
mean temperature of these nights is known. Warm nights have more moths. No two places are alike, so
that counts scatter more than a Poisson distribution allows, most of all in the cold.

`NegativeBinomial` has two latent functions: the logarithm of the mean per unit of exposure, here
moths a night, and the logarithm of the dispersion a: counts with mean μ have the variance μ + a μ².
The nights go into `Y_metadata`. Predictions are for one night, unless they are told otherwise.

Run it with no arguments. It prints rates, predictions for traps that stay open for ten nights, and
how well the intervals hold at traps that were not fitted, beside those of a Poisson model. It
writes a figure. It needs pandas: pip install pandas.
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

L = cgp.likelihoods
TEMPERATURE = "temperature (°C)"


def truth(temperature):
    """Moths a night, and the dispersion."""
    rate = 12 / (1 + np.exp(-(temperature - 13) / 2.5))
    return rate, np.exp(-1.2 - 0.12 * (temperature - 13))


def simulate(rng, n):
    """A frame with temperature, nights and moths of n traps."""
    temperature, nights = rng.uniform(5, 24, n).round(1), rng.integers(1, 8, n)
    rate, dispersion = truth(temperature)
    place = rng.gamma(1 / dispersion, dispersion)  # of mean 1: good and bad places
    moths = rng.poisson(nights * rate * place)
    return pd.DataFrame({TEMPERATURE: temperature, "nights": nights, "moths": moths})


def fit(traps, likelihood):
    model = cgp.ChainedGP(
        traps[[TEMPERATURE]],
        traps["moths"],
        likelihood,
        Y_metadata={"exposure": traps["nights"]},
        num_inducing=15,
    )
    print(f"{type(likelihood).__name__}: {model.optimize()}")
    return model


def tell(model):
    """Rates a night with bands, and counts of ten nights."""
    new = pd.DataFrame({TEMPERATURE: [8.0, 13.0, 18.0, 23.0]})
    rate = model.predictive(new).parameters((5, 50, 95))["mean"]
    table = pd.DataFrame(rate, columns=["rate 5%", "rate", "rate 95%"], index=new[TEMPERATURE])
    table["true rate"] = truth(new[TEMPERATURE].to_numpy())[0]
    ten = model.predictive(new, Y_metadata={"exposure": 10.0})
    table["10 nights 5%"], table["10 nights 95%"] = ten.interval(0.9)
    table["P(none)"] = ten.cdf(0.0)
    print(table.round(2).to_string())


def draw(models, test, path):
    """The fit for one night, and the share of new traps inside the intervals of both models."""
    figure, axes = plt.subplots(1, 3, figsize=(10.6, 3.6), layout="constrained")
    models[0].plot(Y_metadata={"exposure": 1.0}, ax=axes[0])
    axes[0].set_ylabel("moths in one night")
    rows = test[[TEMPERATURE]], test["moths"]
    for ax, model in zip(axes[1:], models, strict=True):
        model.plot_calibration(*rows, Y_metadata={"exposure": test["nights"]}, ax=ax)
        name = type(model.likelihood).__name__
        ax.text(0.97, 0.04, name, ha="right", transform=ax.transAxes)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Fit counts that were made over different times.")
    parser.add_argument("--output", type=Path, default=Path("results/counts_with_exposure"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    traps, test = simulate(rng, 60 if arguments.quick else 250), simulate(rng, 250)
    print(traps.head(4).to_string())
    models = [fit(traps, L.NegativeBinomial()), fit(traps, L.Poisson())]
    tell(models[0])
    for model in models:
        p = model.predictive(test[[TEMPERATURE]], Y_metadata={"exposure": test["nights"]})
        shares = [cgp.metrics.interval_coverage(p, test["moths"], level) for level in (0.5, 0.9)]
        print(
            f"{type(model.likelihood).__name__}, new traps: {shares[0]:.0%} in 50 % intervals, "
            f"{shares[1]:.0%} in 90 % intervals, nlpd {cgp.metrics.nlpd(p, test['moths']):.2f}"
        )
    draw(models, test, arguments.output / "moths.png")


if __name__ == "__main__":
    main()
