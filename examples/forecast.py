"""Forecast a monthly series with a trend, a season and noise that changes.

Simulated data: the electricity demand of a town in GWh a month, over 25 years. The first 20 years
are fitted, the last five are forecast and compared with what was simulated.

    demand   A trend that bends, and a season whose height grows with the town.
    noise    Winters are less certain than summers, and the scatter grows with the years.

Dates are numbers here: years since the first of January 2000. A month in its middle is 1/24, 3/24
and so on. The mean is a sum of kernels, a line, a smooth trend and a season that may drift, and so
is the log-variance. The period of one year is known and stays fixed.

Run it with no arguments: it prints what each part contributes and how many months of the forecast
lie in the bands, and writes three figures. `--sets 20` repeats the forecast on more simulated sets.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp

K = cgp.kernels
FITTED, ALL = 20, 25  # years
TRUTH = "#D55E00"


def simulate(rng, years):
    """Months as years since 2000, the mean and the sd of the demand, and the demand."""
    x = (np.arange(12 * years) + 0.5) / 12
    trend = 42 + 0.8 * x - 3 * np.cos(x / 5)
    season = (6 + 0.15 * x) * np.cos(2 * np.pi * (x - 0.04)) + 1.5 * np.cos(4 * np.pi * x)
    sd = np.exp(-0.1 + 0.7 * np.cos(2 * np.pi * x) + 0.03 * x)
    return x, trend + season, sd, trend + season + sd * rng.standard_normal(x.size)


def kernels():
    """One kernel for the mean and one for the log-variance, each a sum of named parts."""
    season = K.Periodic(1, variance=36, period=1, name="year") * K.RBF(
        1, lengthscale=20, name="drift"
    )
    season.name = "season"
    season.drift.variance.fix()  # the height of the season is the variance of the other factor
    season.year.period.fix()
    noise_season = K.Periodic(1, period=1, name="season")
    noise_season.period.fix()
    trend = K.RBF(1, variance=50, lengthscale=8, name="trend")
    return [
        K.Linear(1, name="line") + trend + season,
        K.RBF(1, lengthscale=20, name="slow") + noise_season,
    ]


def fit(x, y, num_inducing=80):
    model = cgp.ChainedGP(
        x[:, None],
        y,
        cgp.likelihoods.HetGaussian(),
        kernels(),
        num_inducing=num_inducing,
        priors="default",
        input_names=["years since 2000"],
    )
    model.target_name = "demand (GWh a month)"
    model.optimize()
    return model


def inside(predictive, y, levels=(0.5, 0.9, 0.95)):
    """Shares of y inside the central intervals, by the probability of less than each y."""
    u = predictive.cdf(y[:, None])
    return [float(np.mean(np.abs(u - 0.5) < 0.5 * level)) for level in levels]


def told(shares):
    return ", ".join(
        f"{share:.0%} in the {level} % band"
        for share, level in zip(shares, (50, 90, 95), strict=True)
    )


def draw(model, x, y, mean, sd, folder):
    """The fit with the forecast, the parts of the mean, and the noise over one year."""
    late = x > FITTED
    ax = model.plot(levels=(50, 90), limits=(0, ALL))
    ax.plot(x[late], y[late], ".", ms=3, color=TRUTH, label="not fitted")
    ax.legend(*ax.get_legend_handles_labels(), loc="upper left", fontsize=8, frameon=False, ncols=3)
    ax.set_ylim(25, 90)
    ax.figure.set_size_inches(8.0, 3.4)
    axes = model.plot_components("mean", limits=(0, ALL), groups={"trend": ["line", "trend"]})
    noise = model.plot_latents(limits=(FITTED - 2, FITTED + 2), natural=True)
    late_years = np.abs(x - FITTED) < 2
    for axis, truth in zip(noise, (mean, sd**2), strict=True):
        axis.plot(x[late_years], truth[late_years], ".", ms=3, color=TRUTH, label="truth")
    noise[0].legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8, frameon=False, ncols=4)
    for name, each in (("forecast", ax), ("parts", axes[0]), ("parameters", noise[0])):
        path = folder / f"{name}.png"
        each.figure.savefig(path, dpi=150)
        plt.close(each.figure)
        print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Forecast a series whose noise changes.")
    parser.add_argument("--output", type=Path, default=Path("results/forecast"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", type=int, default=1, help="forecasts of so many simulated sets")
    parser.add_argument("--quick", action="store_true", help="fewer inducing inputs: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    shares, shares_known, shares_over = [], [], []
    for seed in range(arguments.seed, arguments.seed + arguments.sets):
        x, mean, sd, y = simulate(np.random.default_rng(seed), ALL)
        early = x < FITTED
        model = fit(x[early], y[early], 40 if arguments.quick else 80)
        new, y_new = x[~early, None], y[~early]
        shares.append(inside(model.predictive(new), y_new))
        # Bands that take the fitted hyperparameters as known are a little too narrow.
        model.hyperparameters = "fixed"
        shares_known.append(inside(model.predictive(new), y_new))
        model.hyperparameters = "auto"
        if not arguments.quick:
            over = model.over_hyperparameters(200)
            shares_over.append(inside(over.predictive(new), y_new))
        if seed == arguments.seed:
            print(model.effects(kind="parts"))
            draw(model, x, y, mean, sd, arguments.output)
    print(f"months of {arguments.sets} forecasts: {told(np.mean(shares, axis=0))}")
    print(f"hyperparameters taken as known: {told(np.mean(shares_known, axis=0))}")
    if shares_over:
        print(f"averaged over hyperparameters: {told(np.mean(shares_over, axis=0))}")


if __name__ == "__main__":
    main()
