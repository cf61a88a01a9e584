"""Draws every figure of docs/gallery.md: python docs/make_gallery.py [names …]."""

import argparse
import runpy
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image

import chainedgp as cgp
from chainedgp import datasets

FOLDER = Path(__file__).parent / "images" / "gallery"
L = cgp.likelihoods


# ---- models -------------------------------------------------------------------------------------


def fitted(X, Y, likelihood, names, target, Y_metadata=None, **options):
    model = cgp.ChainedGP(X, Y, likelihood, Y_metadata=Y_metadata, **options)
    model.input_names, model.target_name = names, target
    model.optimize()
    return model


@cache
def motorcycle():
    data = datasets.motorcycle()
    return fitted(data.X, data.Y, L.HetGaussian(), ["time (ms)"], "acceleration (g)")


@cache
def proportions():
    """Shares that split into two camps for a while, and agree later."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 10.0, 250))
    mean = 0.5 + 0.3 * np.sin(0.8 * x)
    total = np.exp(0.2 + 0.35 * x)
    y = np.clip(rng.beta(total * mean, total * (1.0 - mean)), 1e-4, 1.0 - 1e-4)
    return fitted(x, y, L.Beta(), ["day"], "share", num_inducing=30)


@cache
def counts():
    """Arrivals over a day: a slow rate, and a fast one that comes every four hours."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 24.0, 250))
    slow = np.exp(1.3 + 0.9 * np.sin(2.0 * np.pi * (x - 7.0) / 24.0))
    fast = np.exp(0.3 + 1.6 * np.sin(2.0 * np.pi * x / 4.0))
    y = rng.poisson(slow + fast)
    return fitted(x, y, L.AdditivePoisson(), ["hour of the day"], "arrivals", num_inducing=40)


@cache
def votes():
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-3.0, 3.0, 150))
    p = 1.0 / (1.0 + np.exp(-3.0 * np.sin(1.5 * x)))
    y = (rng.uniform(size=150) < p).astype(float)
    return fitted(x, y, L.Bernoulli(), ["dose"], "response", num_inducing=20)


@cache
def lifetimes():
    rng = np.random.default_rng(5)
    x = rng.uniform(20.0, 80.0, 180)
    scale = np.exp(3.2 - 0.03 * (x - 20.0) + 0.4 * np.sin(x / 8.0))
    time = scale * np.exp(rng.logistic(size=180) / (1.5 + 0.02 * x))
    end = rng.uniform(2.0, 40.0, 180)
    censored = (time > end).astype(float)
    y, Z = np.minimum(time, end), {"censored": censored}
    return fitted(
        x, y, L.LogLogisticSurvival(), ["age (years)"], "time (months)", Z, num_inducing=30
    )


@cache
def maxima():
    """The highest daily rain of each year, which rises."""
    rng = np.random.default_rng(4)
    year = np.arange(1900.0, 2024.0)
    rise = 1.0 / (1.0 + np.exp(-(year - 1985.0) / 12.0))
    y = L.GEV().sample(rng, 35.0 + 12.0 * rise, np.log(8.0) + 0.3 * rise, shape=0.1)
    return fitted(year, y, L.GEV(), ["year"], "rain (mm)", num_inducing=20)


def daily_rain():
    """Rain of wet days, with a tail that is generalised Pareto from 10 mm on."""
    rng = np.random.default_rng(5)
    low = rng.uniform(0.0, 10.0, 1500)
    high = L.GeneralisedPareto(10.0).sample(rng, np.full(500, np.log(7.0)), shape=0.12)
    return np.concatenate([low, high])


@cache
def lifetimes_2d():
    """The paper's simulated patients, their inputs and times put into units."""
    data = datasets.synthetic_survival(seed=0, n=400)
    X, y = data.X * [60.0, 10.0] + [20.0, 0.0], 12.0 * data.Y
    names, Z = ["age (years)", "dose (mg)"], {"censored": data.censored}
    return fitted(X, y, L.LogLogisticSurvival(), names, "time (months)", Z, num_inducing=40)


@cache
def surface():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (250, 2))
    mean = np.sin(1.6 * X[:, 0]) * np.cos(1.2 * X[:, 1])
    y = mean + np.exp(0.8 * X[:, 0] - 1.6) * rng.standard_normal(250)
    return fitted(X, y, L.HetGaussian(), ["east (km)", "north (km)"], "level", num_inducing=50)


@cache
def many_inputs():
    """Yields: nitrogen and rain drive the mean, the slope drives the noise, pH and sand nothing."""
    rng = np.random.default_rng(4)
    low, high = np.array([[0, 250, 0, 5, 10], [220, 750, 20, 8, 70]], dtype=float)
    X = rng.uniform(low, high, (300, 5)).round(1)
    nitrogen, rain, slope = X[:, :3].T
    mean = 3.0 + 5.0 * (1.0 - np.exp(-nitrogen / 60.0)) + 0.004 * (rain - 500.0)
    y = mean + 0.15 * np.exp(0.1 * slope) * rng.standard_normal(300)
    names = ["nitrogen (kg/ha)", "rain (mm)", "slope (%)", "pH", "sand (%)"]
    return fitted(X, y, L.HetGaussian(), names, "yield (t/ha)", num_inducing=50)


@cache
def rents():
    """Rents whose mean is driven by the district above all, and whose scatter by the age."""
    rng = np.random.default_rng(0)
    n = 300
    area, age = 60.0 * np.exp(0.4 * rng.standard_normal(n)), rng.uniform(0.0, 100.0, n)
    lift, kind = rng.uniform(size=n) < 0.3, rng.integers(3, size=n)
    mean = np.array([9.0, 12.0, 16.0])[kind] + 0.8 * lift - 1.5 * np.log(area / 60.0)
    y = mean + np.exp(-0.6 + 0.012 * age) * rng.standard_normal(n)
    district = np.array(["harbour", "hill", "old town"])[kind]
    columns = {"area (m²)": area, "age (years)": age, "lift": lift, "district": district}
    X = pd.DataFrame(columns)
    return fitted(X, y, L.HetGaussian(), list(columns), "rent (€/m²)", num_inducing=60)


@cache
def demand():
    """A town's demand of electricity over 20 years, with the kernels of examples/forecast.py."""
    forecast = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "forecast.py"))
    x, _, _, y = forecast["simulate"](np.random.default_rng(0), forecast["ALL"])
    early = x < forecast["FITTED"]
    return forecast["fit"](x[early], y[early]), x[~early], y[~early]


def forecast_figure():
    model, x, y = demand()
    ax = model.plot(levels=(50, 90), limits=(0.0, 25.0))
    ax.plot(x, y, ".", ms=3, color="#D55E00", label="not fitted")
    ax.legend(loc="upper left", fontsize=8, frameon=False, ncols=3)
    ax.set_ylim(25.0, 90.0)
    ax.figure.set_size_inches(7.5, 3.2)
    return ax


@cache
def growth():
    """Body mass index of children, with a right tail."""
    rng = np.random.default_rng(1)
    age = np.sort(rng.uniform(2.0, 18.0, 600))
    median = 15.6 + 0.075 * np.maximum(age - 5.0, 0.0) ** 1.7
    bmi = L.BoxCoxNormal().sample(rng, np.log(median), np.log(0.075 + 0.004 * age), power=-1.4)
    return fitted(age, bmi, L.BoxCoxNormal(), ["age (years)"], "BMI (kg/m²)", num_inducing=20)


# ---- figures ------------------------------------------------------------------------------------


def named(ax, **labels):
    """The axes with other labels, where the figure cannot know the units."""
    ax.set(**labels)
    return ax


FIGURES = {
    "fit": lambda: motorcycle().plot(),
    "fit_counts": lambda: counts().plot(),
    "fit_proportions": lambda: proportions().plot(),
    "fit_survival": lambda: lifetimes().plot(),
    "fit_binary": lambda: votes().plot(),
    "latents": lambda: motorcycle().plot_latents(),
    "latents_natural": lambda: proportions().plot_latents(natural=True),
    "density": lambda: proportions().plot_density(),
    "density_motorcycle": lambda: motorcycle().plot_density(),
    "density_counts": lambda: counts().plot_density(),
    "slice": lambda: many_inputs().plot_slice("nitrogen (kg/ha)", at={"slope (%)": 2.0}),
    "slice_latent": lambda: many_inputs().plot_slice("slope (%)", latent="log_variance"),
    "map": lambda: surface().plot(),
    "map_latent": lambda: surface().plot_map("log_variance"),
    "map_survival": lambda: lifetimes_2d().plot_map("shape"),
    "survival": lambda: lifetimes().plot_survival([30.0, 50.0, 70.0]),
    "hazard": lambda: lifetimes().plot_hazard([30.0, 50.0, 70.0]),
    "survival_check": lambda: lifetimes().plot_survival_check(by="age (years)"),
    "survival_calibration": lambda: lifetimes().plot_survival_calibration(6.0, groups=6),
    "survival_along": lambda: lifetimes().plot_survival_along("age (years)", [25.0, 45.0, 65.0]),
    "restricted_mean": lambda: lifetimes().plot_restricted_mean("age (years)", 24.0),
    "return_levels": lambda: named(
        maxima().plot_return_levels({"year": 2023.0}, average=maxima().over_hyperparameters()),
        xlabel="return period (years)",
    ),
    "mean_excess": lambda: named(
        cgp.plotting.plot_mean_excess(daily_rain()),
        xlabel="threshold (mm)",
        ylabel="mean excess (mm)",
    ),
    "pit": lambda: counts().plot_pit(),
    "calibration": lambda: motorcycle().plot_calibration(),
    "trace": lambda: motorcycle().plot_trace(),
    "trace_gap": lambda: motorcycle().plot_trace("seconds", gap=True),
    "relevance": lambda: many_inputs().plot_relevance(),
    "effects": lambda: rents().plot_effects(),
    "effects_curve": lambda: rents().plot_effects("area (m²)", kind="individual"),
    "effects_category": lambda: rents().plot_effects("district"),
    "effects_noise": lambda: rents().plot_effects("age (years)", of="variance"),
    "variance": lambda: rents().plot_variance(
        "area (m²)", limits=(20.0, 300.0), at={"district": "hill"}
    ),
    "forecast": forecast_figure,
    "components": lambda: demand()[0].plot_components(
        "mean", limits=(0.0, 25.0), groups={"trend": ["line", "trend"]}
    ),
    "components_noise": lambda: demand()[0].plot_components("log_variance", limits=(0.0, 25.0)),
    "centiles": lambda: growth().plot_centiles(),
    "worm": lambda: motorcycle().plot_worm(),
    "worm_panels": lambda: growth().plot_worm(input="age (years)"),
}


def main():
    parser = argparse.ArgumentParser(description="Draw the figures of the gallery.")
    parser.add_argument("names", nargs="*", help="figures to draw; none draws all")
    parser.add_argument("--output", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or FIGURES:
        axes = np.atleast_1d(FIGURES[name]())
        path = arguments.output / f"{name}.png"
        axes[0].figure.savefig(path, dpi=130)
        with Image.open(path) as image:  # a palette of 256 colours: a third of the size
            small = image.convert("RGB").quantize(256)
        small.save(path, optimize=True)
        plt.close(axes[0].figure)
        print(f"{path} {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
