"""Two rates that add up: counts from a slow process plus a fast one, taken apart again.

    y ~ Poisson(exp f(x) + exp g(x))

No link function turns this sum into a sum of Gaussian processes, so it is a chained model. Saul et
al. (2016) show that with 350 counts one begins to see the two apart. Their functions are not given;
`datasets.additive_poisson_toy` draws its own, with lengthscales 3 and 0.4. No data are needed.

The sum does not say which rate is which, nor how a constant is shared between them: only their
lengthscales tell them apart. So there are two fits, side by side in the figure. In the first the
kernels are held at what they are known to be and only the curves are found. In the second the
kernels are learnt too. That bound has several optima, and in some of them one rate does all the
work and the other is a constant; the script fits from several starts, prints the bound of each and
draws the best. Writes additive_poisson.png.
"""

import argparse
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp
from chainedgp import datasets
from chainedgp.plotting.style import COLOURS

LENGTHSCALES = (3.0, 0.4)  # of the simulated functions

# The first kernel is long and the second short, with variance 1. Means start at half of the rate.


def make_model(data, inducing, posterior):
    kernels = [cgp.kernels.RBF(1, lengthscale=lengthscale) for lengthscale in LENGTHSCALES]
    Z = np.linspace(data.X.min(), data.X.max(), inducing)[:, None]
    model = cgp.ChainedGP(
        data.X,
        data.Y,
        likelihood=cgp.likelihoods.AdditivePoisson(),
        kernels=kernels,
        Z=Z,
        posterior=posterior,
        hyperparameters="uncertain",  # bands are wider than those of q alone
    )
    model.Z.fix()  # evenly spaced and close together: nothing to gain from moving them
    model.input_names, model.target_name = ["x"], "count"
    return model


# The two latents may change places: the longer lengthscale is the slow one, whatever its number.


def slow_first(model):
    return np.argsort([-float(kernel.lengthscale[0]) for kernel in model.kernels])


def draw_column(axes, model, data, title):
    """Counts with the total rate; below, each latent with the truth dotted."""
    x = data.X[:, 0]
    grid = np.linspace(x[0], x[-1], 300)
    axes[0].plot(x, data.Y, "x", color=COLOURS["vermilion"], ms=3, mew=0.7, label="counts")
    rate = model.predictive(grid).parameters((50.0,))["rate"][:, 0]
    axes[0].plot(grid, rate, color=COLOURS["blue"], lw=1.6, label="rate")
    truth = np.exp(data.log_rate_1) + np.exp(data.log_rate_2)
    axes[0].plot(x, truth, ":", color="black", lw=1.4, label="truth")
    long, short, _, inside = compared(model, data)
    axes[0].set_title(f"{title}\nlengthscales {long:.2g} and {short:.2g}", fontsize=9)
    for axis, share in zip(axes[1:], inside, strict=True):
        axis.set_title(f"{share:.0%} of the true curve is in the band", fontsize=8, loc="right")
    panels = axes[1:][np.argsort(slow_first(model))]  # the slow one above
    model.plot_latents(levels=(95,), limits=(grid[0], grid[-1]), legend=False, ax=panels)
    for axis, latent in zip(axes[1:], (data.log_rate_1, data.log_rate_2), strict=True):
        axis.plot(x, latent, ":", color="black", lw=1.4, label="truth")
        axis.set(ylabel="", xlabel="")
    axes[2].set_xlabel("x")
    axes[0].spines[["top", "right"]].set_visible(False)
    axes[0].tick_params(labelsize=8)


def draw(models, data, path):
    figure, axes = plt.subplots(
        3, 2, sharex=True, sharey="row", figsize=(7.4, 5.4), layout="constrained"
    )
    for column, (title, model) in zip(axes.T, models.items(), strict=True):
        draw_column(column, model, data, title)
    for axis, name in zip(axes[:, 0], ("count", "slow log rate", "fast log rate"), strict=True):
        axis.set_ylabel(name)
    axes[0, 0].legend(fontsize=8, frameon=False)
    axes[1, 0].legend(fontsize=8, frameon=False)
    figure.align_ylabels(axes[:, 0])
    figure.savefig(path, dpi=150)
    plt.close(figure)


def compared(model, data):
    """Lengthscales, slow and fast; errors of both latents, shares of the truth in their bands."""
    order = slow_first(model)
    mean, variance = (part[:, order] for part in model.predict_latents(data.X))
    away = np.abs(mean - np.stack([data.log_rate_1, data.log_rate_2], axis=1))
    inside = (away < 1.96 * np.sqrt(variance)).mean(axis=0)
    long, short = (float(model.kernels[j].lengthscale[0]) for j in order)
    return long, short, away.mean(axis=0), inside


def describe(name, model, result, data):
    long, short, errors, inside = compared(model, data)
    print(
        f"{name:<26}{result.bound:>10.2f}{long:>11.3g}{short:>9.3g}{errors[0]:>11.2f}"
        f"{errors[1]:>7.2f}{inside[0]:>11.0%}{inside[1]:>6.0%}{result.seconds:>9.1f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description="Take the sum of two Poisson rates apart.")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--seed", type=int, default=0, help="of the simulated counts")
    parser.add_argument("--restarts", type=int, default=3, help="perturbed starts")
    parser.add_argument("--posterior", default="auto", help="auto, joint or mean_field")
    parser.add_argument("--quick", action="store_true", help="one start: a smoke test")
    arguments = parser.parse_args()

    n, inducing = (120, 25) if arguments.quick else (350, 50)
    data = datasets.additive_poisson_toy(seed=arguments.seed, n=n)
    long, short = LENGTHSCALES
    print(f"{n} simulated counts; true lengthscales {long:g} and {short:g}\n")
    words = f"{'fit':<26}{'bound':>10}{'lengthscales':>20}{'mean |error|':>18}"
    print(f"{words}{'in 95 % band':>17}{'seconds':>9}")
    held = make_model(data, inducing, arguments.posterior)
    with warnings.catch_warnings():  # in some draws the last digits take very long
        warnings.simplefilter("ignore", cgp.errors.ConvergenceWarning)
        for part in (held.kernels, held.mean_functions):
            part.fix()
        describe("kernels held", held, held.optimize(), data)
    learnt = held.copy()
    for part in (learnt.kernels, learnt.mean_functions):
        part.unfix()
    describe("learnt from there", learnt, learnt.optimize(), data)
    if not arguments.quick:
        # a new model of this likelihood tries several pairs of lengthscales by itself, and each
        # restart does so from perturbed kernels
        other = make_model(data, inducing, arguments.posterior)
        found = other.optimize_restarts(arguments.restarts, rng=arguments.seed)
        describe(f"learnt, {arguments.restarts} restarts", other, found, data)
        print(*(f"  {note}" for note in found.warnings), sep="\n")
        learnt = max((learnt, other), key=lambda one: one.log_likelihood())

    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "additive_poisson.png"
    titles = (
        f"kernels held: bound {held.log_likelihood():.1f}",
        f"kernels learnt: bound {learnt.log_likelihood():.1f}",
    )
    draw(dict(zip(titles, (held, learnt), strict=True)), data, path)
    print(f"\nfigure: {path}")


if __name__ == "__main__":
    main()
