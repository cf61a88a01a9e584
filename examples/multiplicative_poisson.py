"""Counts whose rate is a product: a Poisson likelihood with a summed kernel.

Saul et al. (2016) set two models of counts side by side. In the additive one the rate is a sum,
λ = e^f + e^g: two sources that are counted together, which needs a chained Gaussian process
(`AdditivePoisson`). In the multiplicative one the rate is a product,

    λ = e^f e^g = e^{f + g},

one influence that scales another. A sum of Gaussian processes is a Gaussian process, so this is an
ordinary Poisson model whose kernel is a sum, and `predict_component` takes it apart again.

The simulated data: visits to a shop per hour, over four weeks. The time of day sets the pattern,
and demand drifts over the weeks and scales it.

Run it with no arguments. It prints what was recovered and writes a figure.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp

BLUE, GREEN, TRUTH = "#0072B2", "#009E73", "#D55E00"


def drift(day):
    return 0.6 * np.sin(2 * np.pi * day / 28) + 0.02 * day


def daily(day):
    return 1.2 * np.sin(2 * np.pi * (day - 0.3)) + 0.6 * np.cos(4 * np.pi * day)


def simulate(rng, days):
    day = np.arange(0, days, 1 / 24) + 1 / 48
    return day, rng.poisson(np.exp(1.0 + drift(day) + daily(day))).astype(float)


# The sum of two kernels, one for each influence. The period of a day is known, so it is fixed.


def fit(day, visits):
    slow = cgp.kernels.RBF(1, variance=0.3, lengthscale=5.0, name="drift")
    rhythm = cgp.kernels.Periodic(1, variance=1.0, lengthscale=0.5, period=1.0, name="daily")
    rhythm.period.fix(warning=False)
    model = cgp.ChainedGP(
        day, visits, cgp.likelihoods.Poisson(), kernels=slow + rhythm, num_inducing=60
    )
    model.input_names, model.target_name = ["day"], "visits per hour"
    result = model.optimize()
    print(result)
    return model


# The parts of the log-rate add up, with the mean function, to the whole. A constant can move from
# one to the other without changing the sum, so each factor is shown relative to its own mean. Its
# band still has that unknown constant in it: the rate is known far better than either factor.


def factor(model, x, part):
    mean, variance = model.predict_component(x, "log_rate", part)
    sd = np.sqrt(variance[:, 0])
    mean = mean[:, 0] - mean.mean()
    return np.exp(mean), np.exp(mean - 2 * sd), np.exp(mean + 2 * sd)


def draw_factor(ax, model, x, part, log_truth, colour, label):
    middle, low, high = factor(model, x, part)
    truth = np.exp(log_truth(x) - log_truth(x).mean())
    ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0, label="± 2 sd")
    ax.plot(x, middle, color=colour, label="factor")
    ax.plot(x, truth, "--", color=TRUTH, lw=1.2, label="truth")
    ax.set(xlabel="day", ylabel=label, yscale="log", xlim=(x[0], x[-1]), ylim=(0.08, 16))
    ax.yaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    ax.set_yticks([0.1, 0.3, 1, 3, 10])
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 0.98))
    print(f"{part}: correlation with the truth {np.corrcoef(middle, truth)[0, 1]:.3f}")


def draw(model, days, path):
    figure = plt.figure(figsize=(7.4, 4.8), layout="constrained")
    axes = figure.subplot_mosaic("AA;BC")
    model.plot(ax=axes["A"], num=24 * days, limits=(0, days))
    axes["A"].set_xlim(0, days)
    whole, first = np.linspace(0, days, 300), np.linspace(0, 1, 300)
    draw_factor(axes["B"], model, whole, "drift", drift, BLUE, "drift of demand")
    draw_factor(axes["C"], model, first, "daily", daily, GREEN, "time of day")
    figure.savefig(path, dpi=180)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Fit the multiplicative Poisson model.")
    parser.add_argument("--output", type=Path, default=Path("results/multiplicative_poisson"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one week: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    days = 7 if arguments.quick else 28
    day, visits = simulate(rng, days)
    print(f"{visits.size} hours, {visits.sum():.0f} visits")
    draw(fit(day, visits), days, arguments.output / "multiplicative_poisson.png")


if __name__ == "__main__":
    main()
