"""Draws every figure of docs/gallery.md: python docs/make_gallery.py [names …]."""

import argparse
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
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
    data = datasets.additive_poisson_toy(seed=0, n=250)
    return fitted(data.X, data.Y, L.AdditivePoisson(), ["hour"], "count", num_inducing=40)


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
    return fitted(x, y, L.LogLogisticSurvival(), ["age"], "time (months)", Z, num_inducing=30)


@cache
def lifetimes_2d():
    data = datasets.synthetic_survival(seed=0, n=400)
    metadata = {"censored": data.censored}
    return fitted(
        data.X, data.Y, L.LogLogisticSurvival(), ["x0", "x1"], "time", metadata, num_inducing=40
    )


@cache
def surface():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (250, 2))
    mean = np.sin(1.6 * X[:, 0]) * np.cos(1.2 * X[:, 1])
    y = mean + np.exp(0.8 * X[:, 0] - 1.6) * rng.standard_normal(250)
    return fitted(X, y, L.HetGaussian(), ["east (km)", "north (km)"], "level", num_inducing=50)


@cache
def many_inputs():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 5))
    mean = np.sin(1.5 * X[:, 0]) + 0.4 * X[:, 1]
    y = mean + np.exp(0.6 * X[:, 2] - 1.2) * rng.standard_normal(300)
    names = ["rooms", "age", "distance", "tax", "river"]
    return fitted(X, y, L.HetGaussian(), names, "price", num_inducing=50)


@cache
def growth():
    """Body mass index of children, with a right tail."""
    rng = np.random.default_rng(1)
    age = np.sort(rng.uniform(2.0, 18.0, 600))
    median = 15.6 + 0.075 * np.maximum(age - 5.0, 0.0) ** 1.7
    bmi = L.BoxCoxNormal().sample(rng, np.log(median), np.log(0.075 + 0.004 * age), power=-1.4)
    return fitted(age, bmi, L.BoxCoxNormal(), ["age (years)"], "BMI (kg/m²)", num_inducing=20)


# ---- figures ------------------------------------------------------------------------------------

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
    "slice": lambda: many_inputs().plot_slice("rooms", at={"distance": 1.0}),
    "slice_latent": lambda: many_inputs().plot_slice("distance", latent="log_variance"),
    "map": lambda: surface().plot(),
    "map_latent": lambda: surface().plot_map("log_variance"),
    "map_survival": lambda: lifetimes_2d().plot_map("shape"),
    "survival": lambda: lifetimes().plot_survival([30.0, 50.0, 70.0]),
    "hazard": lambda: lifetimes().plot_hazard([30.0, 50.0, 70.0]),
    "pit": lambda: counts().plot_pit(),
    "calibration": lambda: motorcycle().plot_calibration(),
    "trace": lambda: motorcycle().plot_trace(),
    "trace_gap": lambda: motorcycle().plot_trace("seconds", gap=True),
    "relevance": lambda: many_inputs().plot_relevance(),
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
