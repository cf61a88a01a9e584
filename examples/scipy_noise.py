"""Noise from scipy.stats, without writing a class: inverse Gaussian and skew normal.

`Likelihood.from_scipy` takes a distribution and a link for each of its parameters. The latent
functions are named after them: `scale="exp"` is driven by the latent `log_scale`.

Two simulated data sets:

    times      Times until a drifting random walk first reaches a level are inverse Gaussian. Both
               parameters of `scipy.stats.invgauss` depend on the input, so each has a latent
               function: log_mu and log_scale. The mean is mu·scale.
    skew       Readings whose errors lean to one side. Location and scale of `scipy.stats.skewnorm`
               depend on the input, and its shape is one number, learnt: `with_constant("a")`.

Run it with no arguments. It prints what was recovered and writes a figure for each.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import chainedgp as cgp

BLUE, TRUTH = "#0072B2", "#D55E00"


def times(rng, n):
    x = np.sort(rng.uniform(0, 10, n))
    mu, scale = np.exp(0.2 - 0.15 * x), np.exp(1 + 0.8 * np.sin(x))
    y = stats.invgauss.rvs(mu, scale=scale, random_state=rng)
    likelihood = cgp.Likelihood.from_scipy(stats.invgauss, mu="exp", scale="exp")
    return x, y, likelihood, {"mu": mu, "scale": scale}, ("load", "first passage (s)")


def skew(rng, n):
    x = np.sort(rng.uniform(0, 10, n))
    location, scale = 4 * np.cos(0.6 * x), np.exp(0.8 * np.sin(0.8 * x))
    y = stats.skewnorm.rvs(6.0, location, scale, random_state=rng)
    likelihood = cgp.Likelihood.from_scipy(
        stats.skewnorm, a="identity", loc="identity", scale="exp"
    ).with_constant("a", 1.0)
    return x, y, likelihood, {"loc": location, "scale": scale}, ("load", "reading")


def fit(x, y, likelihood):
    model = cgp.ChainedGP(x, y, likelihood, num_inducing=20)
    result = model.optimize()
    print(f"  latents {', '.join(model.latents)}; {result}")
    for name, leaf in model.likelihood.parameter_values().items():
        print(f"  constant {name}: {leaf:.2f}")
    return model


# `predictive(x).parameters()` gives quantiles of the distribution's own parameters, not of the
# latents: log_scale is already turned into scale.


def draw(model, truth, names, path):
    figure = plt.figure(figsize=(7.4, 5.0), layout="constrained")
    axes = figure.subplot_mosaic("AA;BC")
    model.input_names, model.target_name = [names[0]], names[1]
    model.plot(ax=axes["A"], num=60)  # the cdf of scipy's skew normal is slow
    x = model.X[:, 0]
    quantiles = model.predictive(model.X).parameters((2.5, 50, 97.5))
    for ax, (name, value) in zip((axes["B"], axes["C"]), truth.items(), strict=True):
        low, middle, high = quantiles[name].T
        ax.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0, label="95 % interval")
        ax.plot(x, middle, color=BLUE, label="median")
        ax.plot(x, value, "--", color=TRUTH, label="truth")
        ax.set(xlabel=names[0], ylabel=name)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 0.98))
        error = np.abs(middle - value) / np.abs(value).mean()
        print(f"  {name}: mean error {100 * error.mean():.0f} % of its size")
    figure.savefig(path, dpi=180)
    plt.close(figure)
    print(f"  figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Fit distributions of scipy.stats.")
    parser.add_argument("--output", type=Path, default=Path("results/scipy_noise"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    n = 80 if arguments.quick else 300
    for name, simulate in (("inverse_gaussian", times), ("skew_normal", skew)):
        x, y, likelihood, truth, names = simulate(np.random.default_rng(arguments.seed), n)
        print(f"{name}: {n} rows")
        draw(fit(x, y, likelihood), truth, names, arguments.output / f"{name}.png")


if __name__ == "__main__":
    main()
