"""Three noise models on data with outliers: the corrupted motorcycle data of Saul et al. (2016).

Silverman's motorcycle measurements (1985; they ship with the package) have noise that changes over
time. A fifth of them is replaced here by wild readings, which a good model should not follow. Three
models are compared:

    G     one Gaussian process and constant Gaussian noise
    CHG   chained: mean and log-variance of a Gaussian each have their own process
    CHt   chained: location and log-scale of a Student-t each have their own process

Run it with no arguments. It prints a table and writes two figures: corrupted_motorcycle.png, the
bands that hold new data, and corrupted_motorcycle_scale.png, the noise that each model believes in.
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

MODELS = {
    "G": ("Gaussian", cgp.likelihoods.Gaussian),
    "CHG": ("Heteroscedastic Gaussian", cgp.likelihoods.HetGaussian),
    "CHt": ("Heteroscedastic Student-t", cgp.likelihoods.HetStudentT),
}
INDUCING = (100, 40)  # all distinct times, and fewer
BANDS = {95: "#d6e6f2", 50: "#8fbbdb"}  # per cent of new data, colour
LINE, POINT, WILD = "#1b4f72", "#333333", "#c0392b"


# A fit is two lines: make the model, optimize. Kernels and starting values are chosen from the
# data, and every number is learnt: lengthscales, variances, noise, degrees of freedom of the t.
# The bound of such a model can have several optima. The t has two here: one with a noise of very
# short lengthscale, as CHG has, and a better one with a smooth noise. Which one is found depends on
# how densely the inducing inputs lie, so each model is fitted with many and with few, and the fit
# with the better bound is kept. Test rows have no part in that choice. Before the impact the same
# acceleration was read off a dozen times. The models take such readings for rounded; of that they
# would warn in every fit, and we know it.

warnings.filterwarnings("ignore", category=cgp.errors.TargetWarning)


def fit(X, Y, likelihood, inducing):
    fits = []
    for number in inducing:
        model = cgp.ChainedGP(X, Y, likelihood=likelihood, num_inducing=number)
        model.Z.fix()  # they lie close together: nothing to gain from moving them
        fits.append((model, model.optimize()))
    return max(fits, key=lambda one: one[1].bound)


# The models are scored on rows they have not seen: the mean of −log p(y*), lower is better.
# The wild rows are as unseen as the others; the last column of the table leaves them out.


def held_out_scores(data, likelihood, inducing, folds, rng):
    scores = np.empty(data.Y.size)
    for test in np.array_split(rng.permutation(data.Y.size), folds):
        train = np.setdiff1d(np.arange(data.Y.size), test)
        model, _ = fit(data.X[train], data.Y[train], likelihood, inducing)
        scores[test] = -model.log_predictive_density(data.X[test], data.Y[test])[:, 0]
    return scores


# The first figure shows the mean of each model's first latent function, which is also the mean of
# y, and the bands that hold 95 % and 50 % of new measurements. The t buys its narrow inner band
# with a wide outer one: it expects most measurements close to the curve, and a few anywhere. Its
# quantiles always exist; its variance need not, so the bands are quantiles.


def draw_bands(axes, model, x):
    for percent, colour in BANDS.items():
        lower, upper = model.predict_quantiles(x, (50 - percent / 2, 50 + percent / 2))
        label = f"{percent} % of new data"
        axes.fill_between(x, lower[:, 0], upper[:, 0], color=colour, lw=0, label=label)


# The second shows what the paper drew: the curve and twice the scale of the noise about it, the
# standard deviation of the Gaussians and the scale e^(g/2) of the t. Outliers widen the first two;
# the t leaves them to its tails.


def draw_scale(axes, model, x):
    parameters = model.predictive(x).parameters((50.0,))  # medians under q
    first = next(iter(parameters.values()))[:, 0]
    scale = parameters["scale"] if "scale" in parameters else np.sqrt(parameters["variance"])
    lower, upper = first - 2 * scale[:, 0], first + 2 * scale[:, 0]
    axes.fill_between(x, lower, upper, color=BANDS[95], lw=0, label="± 2 scales of the noise")
    for edge in (lower, upper):
        axes.plot(x, edge, ":", color=LINE, lw=0.8)


def draw(axes, data, model, title, bands):
    x = np.linspace(data.X.min() - 0.1, data.X.max() + 0.1, 600)
    bands(axes, model, x)
    axes.plot(x, model.predict_latents(x)[0][:, 0], color=LINE, lw=1.6, label="mean")
    clean, wild = ~data.corrupted, data.corrupted
    axes.plot(data.X[clean, 0], data.Y[clean], ".", color=POINT, ms=3.5, label="measured")
    axes.plot(data.X[wild, 0], data.Y[wild], "x", color=WILD, ms=4.5, mew=1.1, label="corrupted")
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("time (standardised)", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(x[0], x[-1])


def draw_all(data, models, bands, path):
    figure, panels = plt.subplots(1, len(models), figsize=(7.4, 2.7), sharey=True)
    for axes, (key, model) in zip(panels, models.items(), strict=True):
        draw(axes, data, model, f"{key}: {MODELS[key][0]}", bands)
    reach = 1.08 * np.abs(data.Y).max()
    panels[0].set_ylim(-reach, reach)
    panels[0].set_ylabel("acceleration (standardised)", fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=180)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(
        description="Fit three noise models to the corrupted motorcycle data."
    )
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument(
        "--seed", type=int, default=0, help="which rows are corrupted, and the folds"
    )
    parser.add_argument("--protocol", choices=("figure", "text"), default="figure")
    parser.add_argument("--folds", type=int, default=5, help="folds of the held-out scores")
    parser.add_argument(
        "--quick", action="store_true", help="two folds, few inducing inputs: a smoke test"
    )
    arguments = parser.parse_args()
    folds = 2 if arguments.quick else arguments.folds
    inducing = INDUCING[1:] if arguments.quick else INDUCING

    data = datasets.corrupted_motorcycle(arguments.protocol, seed=arguments.seed)
    print(f"{data.Y.size} measurements, {data.corrupted.sum()} of them corrupted")
    print(f"NLPD over {folds} folds, lower is better\n")
    print(f"{'model':<6}{'bound':>9}{'seconds':>9}{'converged':>11}{'NLPD':>8}{'clean rows':>12}")
    models = {}
    for key, (_, likelihood) in MODELS.items():
        models[key], result = fit(data.X, data.Y, likelihood(), inducing)
        scores = held_out_scores(
            data, likelihood(), inducing, folds, np.random.default_rng(arguments.seed)
        )
        print(
            f"{key:<6}{result.bound:>9.1f}{result.seconds:>9.1f}"
            f"{'yes' if result.converged else 'no':>11}"
            f"{scores.mean():>8.2f}{scores[~data.corrupted].mean():>12.2f}",
            flush=True,
        )

    nu = float(models["CHt"].likelihood.nu[0])
    print(f"\ndegrees of freedom of CHt, learnt: {nu:.2f} (few: heavy tails)")
    arguments.output.mkdir(parents=True, exist_ok=True)
    draw_all(data, models, draw_bands, arguments.output / "corrupted_motorcycle.png")
    draw_all(data, models, draw_scale, arguments.output / "corrupted_motorcycle_scale.png")


if __name__ == "__main__":
    # a fit that stops early says so in the table
    warnings.simplefilter("ignore", cgp.errors.ConvergenceWarning)
    main()
