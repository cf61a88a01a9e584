"""A noise model of your own: from a density on paper to a checked, fitted, plotted, saved model.

The logistic distribution with a skew a, location f(x) and scale e^g(x),

    p(y | f, g; a) = a e^{−z−g} / (1 + e^{−z})^{a+1},    z = (y − f) e^{−g},

is not among the likelihoods of the library. Here it is written in three steps, each of which works
by itself: the density alone, then its cdf and moments, then its derivatives. After that, rain
through the year, with a noise model that is put together from parts and needs no class at all.

`faulty_sensor.py` is a shorter example, with the first step alone. The page
docs/writing_a_likelihood.md explains what is done here.

Run it with no arguments. It prints what it finds and writes three figures and a model. The data are
simulated.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from scipy.special import expit, polygamma, psi

import chainedgp as cgp
from chainedgp.testing import ContractError, check_likelihood

# Step 1. The names of the latent functions, the parameters with their starting values, and the
# logarithm of the density. This is all that is needed. `y` and the latents are arrays that
# broadcast against each other; the parameter arrives by keyword.


class SkewLogistic(cgp.Likelihood):
    latents = ("location", "log_scale")
    parameters = {"skew": 1.0}

    def log_density(self, y, f, g, *, skew):
        z = (y - f) * np.exp(-g)
        return np.log(skew) - z - g - (skew + 1) * np.logaddexp(0, -z)


# The same with a slip: it forgets that dz/dy = e^{−g}. `check_likelihood` finds it.


class Forgetful(cgp.Likelihood):
    latents = ("location", "log_scale")
    parameters = {"skew": 1.0}

    def log_density(self, y, f, g, *, skew):
        z = (y - f) * np.exp(-g)
        return np.log(skew) - z - (skew + 1) * np.logaddexp(0, -z)


# Step 2. With a cdf, quantiles no longer need an integral over y, and come far faster.
# Whatever is not given is computed from the density.


class WithCdf(SkewLogistic):
    def cdf(self, y, f, g, *, skew):
        return expit((y - f) * np.exp(-g)) ** skew

    def ppf(self, q, f, g, *, skew):
        return f - np.exp(g) * np.log(np.expm1(-np.log(q) / skew))

    def conditional_mean(self, f, g, *, skew):
        return f + np.exp(g) * (psi(skew) - psi(1))

    def conditional_variance(self, f, g, *, skew):
        return np.exp(2 * g) * (polygamma(1, skew) + polygamma(1, 1))

    def natural_parameters(self, f, g, *, skew):
        return {"location": f, "scale": np.exp(g)}


# Step 3. Derivatives replace differences, and the fit is faster.


class WithDerivatives(WithCdf):
    def dlog_density(self, y, f, g, *, skew):
        z = (y - f) * np.exp(-g)
        slope = (skew + 1) * expit(-z) - 1  # ∂ log p / ∂z
        return -slope * np.exp(-g), -slope * z - 1

    def dlog_density_dtheta(self, y, f, g, *, skew):
        z = (y - f) * np.exp(-g)
        return (1 / skew - np.logaddexp(0, -z),)


def simulate(rng, n, skew=3.0):
    x = np.sort(rng.uniform(0, 10, n))
    f, g = 2 * np.sin(x), -1 + np.cos(0.7 * x)
    return x, f + np.exp(g) * stats.genlogistic(skew).rvs(n, random_state=rng)


def fit(x, y, likelihood):
    model = cgp.ChainedGP(x, y, likelihood, num_inducing=20)
    result = model.optimize()
    return model, result


def build_up(x, y, num_new, folder):
    print("The check of a density with a slip says:\n")
    try:
        check_likelihood(Forgetful())
    except ContractError as error:
        print(f"{error}\n")
    print(f"{'noise model':<18}{'bound':>8}{'skew':>7}{'fit (s)':>9}{'bands (s)':>11}")
    for likelihood in (SkewLogistic, WithCdf, WithDerivatives):
        check_likelihood(likelihood(skew=3.0))  # says nothing if all is well
        model, result = fit(x, y, likelihood())
        start = time.perf_counter()
        model.predict_quantiles(np.linspace(0, 10, num_new), (5, 95))
        seconds = time.perf_counter() - start
        print(
            f"{likelihood.__name__:<18}{result.bound:>8.1f}{model.likelihood.skew.values[0]:>7.2f}"
            f"{result.seconds:>9.1f}{seconds:>11.2f}",
            flush=True,
        )
    print(f"the true skew is 3; bands: 5 % and 95 % quantiles at {num_new} inputs\n")
    save(model.plot_latents()[0].figure, folder / "latents.png")
    save(model.plot().figure, folder / "fit.png")

    # A file names no class to import, so that it is safe to open: hand over your own.
    model.save(folder / "fit.npz")
    print(f"model: {folder / 'fit.npz'}")
    again = cgp.load(folder / "fit.npz", classes=WithDerivatives)
    assert again.log_likelihood() == model.log_likelihood()


# Parts that fit into each other: a distribution of scipy.stats, one of its parameters constant, and
# a probability of exact zeros. Rain is gamma distributed on wet days; the chance of a dry day and
# the scale depend on the season.


def rain_through_the_year(rng, n, folder):
    day = np.sort(rng.uniform(0, 365, n))
    season = np.cos(2 * np.pi * day / 365)
    dry = rng.uniform(size=n) < expit(-0.5 - 1.5 * season)
    rain = np.where(dry, 0.0, rng.gamma(2.0, np.exp(0.5 + season)))

    gamma = cgp.Likelihood.from_scipy(stats.gamma, a="exp", scale="exp").with_constant("log_a")
    likelihood = cgp.likelihoods.Inflated(gamma, at=(0,))
    model = cgp.ChainedGP(day, rain, likelihood, num_inducing=12)
    model.input_names, model.target_name = ["day"], "rain (mm)"
    model.optimize()
    shape = np.exp(model.likelihood.log_a.values[0])
    print(f"rain: latents {', '.join(model.latents)}; shape {shape:.1f}, true 2.0")

    grid = np.linspace(0, 365, 200)
    low, middle, high = model.predictive(grid).parameters((2.5, 50, 97.5))["probability_0"].T
    figure, (top, bottom) = plt.subplots(
        2, figsize=(5.2, 4.6), sharex=True, layout="constrained", height_ratios=(3, 2)
    )
    model.plot(ax=top)
    top.set_xlabel("")
    bottom.fill_between(grid, low, high, color="#fbe6d8", lw=0, label="95 % interval")
    bottom.plot(grid, middle, color="#D55E00", label="median")
    bottom.plot(grid, expit(-0.5 - 1.5 * np.cos(2 * np.pi * grid / 365)), "k:", label="truth")
    bottom.set(xlabel="day", ylabel="P(dry day)", ylim=(0, 1), xlim=(0, 365))
    bottom.tick_params(labelsize=8)
    bottom.spines[["top", "right"]].set_visible(False)
    bottom.legend(frameon=False, fontsize=8, loc="upper right")
    save(figure, folder / "rain.png")


def save(figure, path):
    figure.savefig(path, dpi=180)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Write, check, fit, plot and save a noise model.")
    parser.add_argument("--output", type=Path, default=Path("results/write_a_likelihood"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    n, num_new = (80, 2) if arguments.quick else (300, 20)
    build_up(*simulate(rng, n), num_new, arguments.output)
    rain_through_the_year(rng, n, arguments.output)


if __name__ == "__main__":
    main()
