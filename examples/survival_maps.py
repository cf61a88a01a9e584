"""Survival times whose median and shape both depend on the patient.

A log-logistic survival time with median exp f(x) and shape exp g(x), each with its own process:

    log-logistic(median = exp f(x), shape = exp g(x)),    censored times count as log P(T > t)

With a shape above 1 the density has a peak and the hazard rises and falls; below 1 both only fall.
A model with one shape for all patients must choose. Two data sets of Saul et al. (2016):

    synthetic   1,000 patients on the unit square, a fifth of them censored; simulated here, by the
                formula in the paper's text, so the truth is known
    leukemia    1,043 patients in North West England (Henderson et al. 2002), read from leukemia.csv
                in the folder that CHAINEDGP_DATA names (or ../shared/data beside this project)

Writes survival_synthetic.png and survival_leukemia.png: maps of log median and log shape, and
density and hazard of two patients.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp
from chainedgp import datasets
from chainedgp.plotting.style import LINE_STYLES, SEQUENCE

LIKELIHOOD = cgp.likelihoods.LogLogisticSurvival


def fit(X, time, censored, names, inducing):
    model = cgp.ChainedGP(
        X,
        time,
        likelihood=LIKELIHOOD(),
        Y_metadata={"censored": censored},  # 1: the event came later than the time
        num_inducing=inducing,
    )
    model.Z.fix()  # chosen from the data; moving them costs time and gains little here
    model.input_names, model.target_name = names, "time"
    print(model.optimize())
    return model


# The two maps, the rows of two patients marked A and B.


def draw_maps(axes, model, patients, inputs, truth=None):
    for axis, what, name in zip(
        axes, ("log_median", "log_shape"), ("log median", "log shape"), strict=True
    ):
        model.plot_map(what, inputs=inputs, at=patients[0], data=False, ax=axis)
        image = axis.collections[0]
        if truth is not None:  # dots that melt into the background are well fitted
            values = np.r_[image.get_array().ravel(), truth[what]]
            image.set_clim(values.min(), values.max())
            axis.scatter(
                *model.X[:, list(inputs)].T,
                c=truth[what],
                cmap=image.cmap,
                norm=image.norm,
                s=9,
                edgecolors="white",
                linewidths=0.25,
            )
        for label, row in zip("AB", patients, strict=True):
            axis.text(
                *row[list(inputs)],
                label,
                ha="center",
                va="center",
                fontsize=9,
                fontweight="bold",
                bbox={"boxstyle": "circle,pad=0.25", "fc": "white", "ec": "black", "lw": 0.8},
            )
        axis.set_title(f"{name}{', dots: truth' if truth is not None else ''}", fontsize=9)


# Density and hazard of the two patients. With a truth it is drawn dotted.


def draw_curves(axes, model, patients, times, labels, unit, truth=None):
    density = model.predictive(patients).pdf(times)
    for i, label in enumerate(labels):
        axes[0].plot(times, density[i], color=SEQUENCE[i], ls=LINE_STYLES[i], lw=1.6, label=label)
    model.plot_hazard(patients, times=times, labels=labels, ax=axes[1])
    tops = [1.6 * np.quantile(density, 0.98), axes[1].get_ylim()[1]]
    inside = []
    for i, row in enumerate(truth if truth is not None else ()):
        log_p = LIKELIHOOD().log_density(times, *row)
        log_s = LIKELIHOOD().log_density(times, *row, censored=np.ones(times.size))
        look = {"color": SEQUENCE[i], "ls": ":", "lw": 1.4}
        axes[0].plot(times, np.exp(log_p), **look)
        tops[0] = max(tops[0], 1.6 * np.quantile(np.exp(log_p), 0.95))
        hazard = np.exp(log_p - log_s)
        axes[1].plot(times, hazard, **look)
        _, lower, upper = model.predictive(patients[[i]]).hazard(times, bands=(2.5, 97.5))
        inside.append(((lower[0] < hazard) & (hazard < upper[0])).mean())
    axes[0].set_ylabel("density")
    words = " and ".join(f"{share:.0%}" for share in inside)
    told = f"\n{words} of the true curve inside" if inside else ""
    axes[1].set_title(f"hazard, 95 % bands{told}", fontsize=9)
    for axis, top in zip(axes, tops, strict=True):
        axis.set_ylim(0.0, top)
        axis.set_xlim(0.0, times[-1])
        axis.set_xlabel(unit)
        if axis.get_legend() is not None:
            axis.get_legend().remove()
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    if truth is not None:
        axes[0].plot([], [], ":", color="black", lw=1.4, label="truth")
    axes[0].legend(fontsize=8, frameon=False)


def draw(path, model, patients, inputs, times, labels, unit, truth=None, true_rows=None):
    figure, axes = plt.subplots(2, 2, figsize=(7.4, 5.9), layout="constrained")
    draw_maps(axes[0], model, patients, inputs, truth)
    draw_curves(axes[1], model, patients, times, labels, unit, true_rows)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"figure: {path}\n")


def synthetic(arguments):
    n, inducing = (500, 40) if arguments.quick else (1000, 64)
    data = datasets.synthetic_survival(seed=arguments.seed, n=n)
    print(f"synthetic: {n} patients, {int(data.censored.sum())} censored")
    model = fit(data.X, data.Y, data.censored, ["covariate 1", "covariate 2"], inducing)
    mean, _ = model.predict_latents(data.X)
    truth = {"log_median": data.log_median, "log_shape": data.log_shape}
    for j, (name, values) in enumerate(truth.items()):
        correlation = np.corrcoef(mean[:, j], values)[0, 1]
        print(f"  {name}: mean |error| {np.abs(mean[:, j] - values).mean():.2f}, "
              f"correlation with the truth {correlation:.2f}")  # fmt: skip
    patients = np.array([[0.40, 0.15], [0.60, 0.25]])
    x0, x1 = patients.T
    true_rows = np.stack(
        [
            2 * np.exp(-30 * (x0 - 0.25) ** 2) + np.sin(np.pi * x1**2) - 2,
            np.sin(2 * np.pi * x0) + np.cos(2 * np.pi * x1),
        ],
        axis=1,
    )
    labels = [
        f"patient {k}: covariates {a:g}, {b:g}" for k, (a, b) in zip("AB", patients, strict=True)
    ]
    draw(
        arguments.output / "survival_synthetic.png",
        model,
        patients,
        (0, 1),
        np.linspace(0.004, 1.2, 300),
        labels,
        "time",
        truth,
        true_rows,
    )


# Inputs as in the paper's experiment: age, sex, log10(wbc + 0.3) and the deprivation score, all but
# sex standardised for the fit. Times are in years.


def leukemia(arguments):
    try:
        columns = datasets.load_csv("leukemia")
    except (FileNotFoundError, cgp.errors.InputError):
        print("leukemia: needs leukemia.csv in the folder that CHAINEDGP_DATA names; left out.")
        return
    raw = np.stack(
        [columns["age"], columns["sex"], np.log10(columns["wbc"] + 0.3), columns["tpi"]], axis=1
    )
    years, censored = columns["time"] / 365.25, 1.0 - columns["event"]
    if arguments.quick:
        some = np.random.default_rng(arguments.seed).permutation(years.size)[:250]
        raw, years, censored = raw[some], years[some], censored[some]
    centre, scale = raw.mean(axis=0), raw.std(axis=0)
    centre[1], scale[1] = 0.0, 1.0
    X = (raw - centre) / scale
    print(f"leukemia: {years.size} patients, {int(censored.sum())} censored")
    names = ["age", "sex", "log10(wbc + 0.3)", "deprivation"]
    model = fit(X, years, censored, names, 25 if arguments.quick else 64)
    patients_raw = np.array([[30.0, 1.0, np.log10(5.3), 0.0], [75.0, 1.0, np.log10(100.3), 0.0]])
    patients = (patients_raw - centre) / scale
    found = model.predictive(patients).parameters((5.0, 50.0, 95.0))
    for i, label in enumerate("AB"):
        median, shape = found["median"][i], found["shape"][i]
        print(f"  patient {label}: median {median[1]:.2f} ({median[0]:.2f} to {median[2]:.2f}) "
              f"years, shape {shape[1]:.2f} ({shape[0]:.2f} to {shape[2]:.2f})")  # fmt: skip
    latents, _ = model.predict_latents(X)
    print(f"  over the patients: log median varies by sd {latents[:, 0].std():.2f}, "
          f"log shape by sd {latents[:, 1].std():.2f}")  # fmt: skip
    labels = ["patient A: 30 years, wbc 5", "patient B: 75 years, wbc 100"]
    path = arguments.output / "survival_leukemia.png"
    figure, axes = plt.subplots(2, 2, figsize=(7.4, 5.9), layout="constrained")
    draw_maps(axes[0], model, patients, (0, 2))
    for axis in axes[0]:  # ticks in the units of the data
        ages, cells = np.array([20, 40, 60, 80]), np.array([0, 1, 10, 100, 500])
        axis.set_xticks((ages - centre[0]) / scale[0], ages)
        axis.set_yticks((np.log10(cells + 0.3) - centre[2]) / scale[2], cells)
        axis.set(xlabel="age (years)", ylabel="white blood cell count")
    draw_curves(axes[1], model, patients, np.linspace(0.01, 4.0, 300), labels, "years")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"figure: {path}\n")


def main():
    parser = argparse.ArgumentParser(description="Maps of median and shape of survival times.")
    parser.add_argument("--data", choices=("synthetic", "leukemia", "both"), default="both")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few patients: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.data != "leukemia":
        synthetic(arguments)
    if arguments.data != "synthetic":
        leukemia(arguments)


if __name__ == "__main__":
    main()
