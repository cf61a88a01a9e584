"""Floods in a changing climate: yearly maxima, exceedances of a threshold, and return levels.

Two simulated records of one river gauge:

    maxima        The highest flow of each year from 1880 to 2023, in m³/s. Its location rises after
                  1950, and its scale with it. A stationary model, whose latents are constants, is
                  compared with one in which they change, by leave-one-out.
    exceedances   All flood peaks above 300 m³/s since 1950, a few each year. Their excesses are
                  generalised Pareto, and their number tells the rate.

The 100-year flow, which is exceeded once in 100 years on average, is given with a 90 % band that
tells of the latents, the hyperparameters and the shape of the tail.

Run it with no arguments. It prints what was found and writes a figure for each record.
"""

import argparse
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp

BLUE, TRUTH = "#0072B2", "#D55E00"
GEV, GPD = cgp.likelihoods.GEV, cgp.likelihoods.GeneralisedPareto
SHAPE, THRESHOLD, RATE, PERIOD = 0.12, 300.0, 2.5, 100.0


def climate(year):
    """Location and log-scale of the yearly maximum, in m³/s."""
    rise = 1.0 / (1.0 + np.exp(-(year - 1980.0) / 15.0))
    return 280.0 + 90.0 * rise, np.log(55.0) + 0.35 * rise


def maxima(rng, n):
    year = np.round(np.linspace(1880.0, 2023.0, n))
    return year, GEV().sample(rng, *climate(year), shape=SHAPE)


def exceedances(rng, n):
    year = np.sort(rng.uniform(1950.0, 1950.0 + n / RATE, n))
    log_scale = np.log(50.0) + 0.35 / (1.0 + np.exp(-(year - 1980.0) / 15.0))
    return year, GPD(THRESHOLD).sample(rng, log_scale, shape=SHAPE), log_scale


def fit(year, y, likelihood, kernels=None):
    model = cgp.ChainedGP(year, y, likelihood, kernels, num_inducing=20)
    model.input_names, model.target_name = ["year"], "flow (m³/s)"
    result = model.optimize()
    print(f"  {result}")
    return model


def constant(likelihood):
    """Kernels that make every latent a constant."""
    return [cgp.kernels.Bias(1) for _ in likelihood.latents]


def draw(model, average, years, levels, true, path, rate=1.0):
    """The record with its return level over the years, the return levels of the last year."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.4), layout="constrained")
    left.plot(model.X[:, 0], model.Y[:, 0], ".", color="#333333", ms=4, label="record")
    left.fill_between(
        years, levels.lower[:, 0], levels.upper[:, 0], color=BLUE, alpha=0.2, lw=0, label="90 %"
    )
    left.plot(years, levels.level[:, 0], color=BLUE, label=f"{PERIOD:.0f}-year flow")
    left.plot(years, true, "--", color=TRUTH, label="truth")
    left.set(xlabel="year", ylabel="flow (m³/s)")
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 0.98))
    model.plot_return_levels({"year": years[-1]}, rate=rate, average=average, ax=right)
    right.set_xlabel(f"return period (years), in {years[-1]:.0f}")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"  figure: {path}")


def yearly(rng, n, points, folder):
    year, y = maxima(rng, n)
    print(f"maxima: {n} years")
    still = fit(year, y, GEV(), constant(GEV()))
    model = fit(year, y, GEV())
    gain = model.loo().elpd - still.loo().elpd
    print(f"  shape {model.likelihood.shape.values[0]:.2f}, true {SHAPE}")
    print(f"  leave-one-out: the changing model gains {gain:.1f} nats over the stationary one")
    years = np.linspace(1880.0, 2023.0, 25)
    average = model.over_hyperparameters(points)
    levels = average.predictive(years).return_level(PERIOD)
    true = GEV().ppf(np.array(1.0 - 1.0 / PERIOD), *climate(years), shape=SHAPE)
    for k in (0, -1):
        print(
            f"  {PERIOD:.0f}-year flow in {years[k]:.0f}: {levels.level[k, 0]:.0f} m³/s, "
            f"90 % from {levels.lower[k, 0]:.0f} to {levels.upper[k, 0]:.0f}; true {true[k]:.0f}"
        )
    draw(model, average, years, levels, true, folder / "maxima.png")


def peaks(rng, n, points, folder):
    year, y, _ = exceedances(rng, n)
    span = year[-1] - year[0]
    rate = n / span
    print(f"exceedances: {n} peaks above {THRESHOLD:.0f} m³/s, {rate:.1f} a year")
    model = fit(year, y, GPD(THRESHOLD))
    years = np.linspace(year[0], year[-1], 25)
    average = model.over_hyperparameters(points)
    levels = average.predictive(years).return_level(PERIOD, rate=rate)
    log_scale = np.log(50.0) + 0.35 / (1.0 + np.exp(-(years - 1980.0) / 15.0))
    true = GPD(THRESHOLD).ppf(np.array(1.0 - 1.0 / (RATE * PERIOD)), log_scale, shape=SHAPE)
    print(
        f"  {PERIOD:.0f}-year flow in {years[-1]:.0f}: {levels.level[-1, 0]:.0f} m³/s, 90 % from "
        f"{levels.lower[-1, 0]:.0f} to {levels.upper[-1, 0]:.0f}; true {true[-1]:.0f}"
    )
    draw(model, average, years, levels, true, folder / "exceedances.png", rate)


def main():
    parser = argparse.ArgumentParser(description="Return levels of floods in a changing climate.")
    parser.add_argument("--output", type=Path, default=Path("results/extremes"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rng, points = np.random.default_rng(arguments.seed), 12 if arguments.quick else 100
    # The weights of few points are uneven, of which there is a warning.
    warnings.simplefilter("ignore", cgp.errors.ChainedGPWarning)
    yearly(rng, 60 if arguments.quick else 144, points, arguments.output)
    peaks(rng, 60 if arguments.quick else 185, points, arguments.output)


if __name__ == "__main__":
    main()
