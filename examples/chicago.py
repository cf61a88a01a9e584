"""Homicides in Chicago: a rate that is a sum of two maps, each with its own course in time.

Counts by zip code and quarter, with rate (per month and zip code)

    rate(x, t) = exp(f1(x) + f2(t)) + exp(g1(x) + g2(t))

Each latent is a sum of a spatial and a temporal process, that is one kernel of longitude and
latitude plus one of time. Each term of the rate is separable, their sum is not: a map of fine
detail may follow the seasons while a coarse one stays. As in Saul et al. (2016) the spatial
lengthscales are fixed, at 0.04 and 0.09 degrees; temporal lengthscales and variances are learnt.

The paper's newspaper list of homicides could not be had. The counts here are from the police record
of the City of Chicago (Crimes - 2001 to Present), the file chicago_homicides_zip_quarter.csv in the
folder that CHAINEDGP_DATA names (or ../shared/data beside this project). Without it the script says
so and stops. Writes chicago.png.
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
from chainedgp.plotting.style import SEQUENCE, tint

SPACE = (0.04, 0.09)  # degrees: fine and coarse, fixed
MONTHS = 3.0  # in a quarter: the exposure of a count, so that rates are per month
NAMES = ("short spatial lengthscale", "long spatial lengthscale")


def read(first, last):
    columns = datasets.load_csv("chicago_homicides_zip_quarter")
    time = columns["year"] + (columns["quarter"] - 0.5) / 4
    rows = (columns["year"] >= first) & (columns["year"] <= last)
    X = np.stack([columns["longitude"], columns["latitude"], time], axis=1)
    return X[rows], columns["count"][rows]


# A latent f(x, t) = a(x) + b(t) is known everywhere once it is known at every place for one time
# and at every time for one place: these inducing inputs, a cross, lose nothing.


def cross(X):
    places, times = np.unique(X[:, :2], axis=0), np.unique(X[:, 2])
    centre = places[np.argmin(((places - places.mean(axis=0)) ** 2).sum(axis=1))]
    middle = times[times.size // 2]
    across = np.column_stack([places, np.full(len(places), middle)])
    along = np.column_stack([np.tile(centre, (times.size, 1)), times])
    return np.vstack([across, along[times != middle]]), centre, times


# The bound has several optima. Left to itself, one term takes the whole rate and the other dies
# out: its mean, or a temporal process that has become a constant, goes far below 0. To see two
# terms they are made to share: both means are held at half of the rate, the spatial variances at
# 1, and a temporal process has to be a curve (lengthscale below 3 years, variance below 1/4). What
# is left to find is which map follows which course; `STARTS` are temporal lengthscales to start
# from. With `free` all of this is learnt, for comparison: the bounds say which suits the data.

STARTS = ((0.3, 2.0), (2.0, 0.3))  # years


def make_model(X, y, Z, start, free=False):
    kernels = []
    for space, time in zip(SPACE, start, strict=True):
        where = cgp.kernels.RBF(2, lengthscale=space, active_dims=[0, 1], name="space")
        when = cgp.kernels.RBF(1, variance=0.1, lengthscale=time, active_dims=[2], name="time")
        where.lengthscale.fix()
        if not free:
            where.variance.fix()
            when.lengthscale.constrain_bounded(0.1, 3.0, warning=False)
            when.variance.constrain_bounded(1e-4, 0.25, warning=False)
        kernels.append(where + when)
    means = [cgp.means.Constant(float(np.log(y.mean() / MONTHS / 2))) for _ in SPACE]
    model = cgp.ChainedGP(
        X,
        y,
        likelihood=cgp.likelihoods.AdditivePoisson(),
        kernels=kernels,
        Z=Z,
        mean_functions=means,
        Y_metadata={"exposure": MONTHS},
    )
    model.Z.fix()
    if not free:
        model.mean_functions.fix()
    return model


# Finding q first, at the starting values, keeps both terms alive; the fit then goes on from there.


def fit(model):
    with warnings.catch_warnings():  # it is only a start: no matter if it has not converged
        warnings.simplefilter("ignore", cgp.errors.ConvergenceWarning)
        model.optimize(only="variational")
    return model.optimize()


# `predict_component` gives the posterior of one part of one latent. A constant can move from a map
# to its curve, so each curve is scaled to a geometric mean of 1 and its map takes the factor.


def curve(model, j, centre, times):
    rows = np.column_stack([np.tile(centre, (times.size, 1)), times])
    mean, variance = model.predict_component(rows, j, "time")
    shift = mean.mean()
    low, middle, high = (
        mean[:, 0] - shift + z * np.sqrt(variance[:, 0]) for z in (-1.645, 0, 1.645)
    )
    return shift, np.exp(np.stack([low, middle, high]))


def spatial_map(model, j, shift, grid):
    rows = np.column_stack([grid, np.full(len(grid), model.X[0, 2])])
    level = float(model.mean_functions[j].value[0]) + shift
    return np.exp(model.predict_component(rows, j, "space")[0][:, 0] + level)


def draw(model, centre, times, path):
    figure, axes = plt.subplots(
        2, 2, figsize=(7.4, 6.0), layout="constrained", gridspec_kw={"height_ratios": (2.6, 1)}
    )
    places = np.unique(model.X[:, :2], axis=0)
    west, south = places.min(axis=0) - 0.03
    east, north = places.max(axis=0) + 0.03
    x, y = np.linspace(west, east, 120), np.linspace(south, north, 140)
    grid = np.stack([part.ravel() for part in np.meshgrid(x, y)], axis=1)
    distance = np.sqrt(((grid[:, None] - places) ** 2).sum(axis=2)).min(axis=1)
    fine = np.linspace(times[0] - 0.125, times[-1] + 0.125, 400)
    for j, name in enumerate(NAMES):
        shift, bands = curve(model, j, centre, fine)
        rate = spatial_map(model, j, shift, grid)
        rate[distance > 0.045] = np.nan  # far from every zip code there are no data
        above, below = axes[0, j], axes[1, j]
        table = rate.reshape(y.size, x.size)
        image = above.pcolormesh(x, y, table, cmap="cividis", shading="nearest", rasterized=True)
        above.contour(x, y, table, levels=6, colors="white", linewidths=0.6)
        above.plot(*places.T, ".", color="white", mec="black", mew=0.3, ms=3.5)
        above.set_aspect(1 / np.cos(np.radians(41.85)))
        above.set_title(f"{name}: {SPACE[j]:g}°", fontsize=9)
        above.set_xlabel("longitude", fontsize=8)
        bar = figure.colorbar(image, ax=above, shrink=0.9, pad=0.02)
        bar.set_label("deaths a month and zip code", fontsize=8)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_visible(False)
        below.fill_between(fine, bands[0], bands[2], color=tint(SEQUENCE[j], 0.3), lw=0)
        below.plot(fine, bands[1], color=SEQUENCE[j], lw=1.3)
        below.axhline(1.0, color="black", lw=0.5, ls=":")
        for year in np.unique(np.floor(times)):
            below.axvspan(year + 0.25, year + 0.75, color="#000000", alpha=0.05, lw=0)
        below.set_xlim(fine[0], fine[-1])
        below.set_xlabel("year (shaded: April to September)", fontsize=8)
        below.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("latitude", fontsize=8)
    axes[1, 0].set_ylabel("factor, with 5-95 % band", fontsize=8)
    limits = [axis.get_ylim() for axis in axes[1]]
    for axis in axes[1]:
        axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
    figure.savefig(path, dpi=150)
    plt.close(figure)


# In numbers: how much of the rate each term carries, and how far its curve swings.


def report(model, centre, times):
    mean, variance = model.predict_latents(model.X)
    rates = np.exp(mean + 0.5 * variance).mean(axis=0)  # a month and zip code, over all rows
    quarter = np.round((times % 1) * 4 - 0.5).astype(int)
    for j, name in enumerate(NAMES):
        _, bands = curve(model, j, centre, times)
        seasons = [np.exp(np.log(bands[1][quarter == q]).mean()) for q in range(4)]
        text = ", ".join(f"{value:.2f}" for value in seasons)
        kernel = model.kernels[j]
        print(
            f"  {name}: {rates[j]:.3f} deaths a month and zip code; time: lengthscale "
            f"{float(kernel.time.lengthscale[0]):.2f} years, factor by quarter {text}, "
            f"sd of the log factor {np.log(bands[1]).std():.3f}"
        )


def main():
    parser = argparse.ArgumentParser(description="Homicides in Chicago as two maps in time.")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--years", type=int, nargs=2, default=(2009, 2014), help="first and last")
    parser.add_argument("--quick", action="store_true", help="one year, one start: a smoke test")
    arguments = parser.parse_args()
    first, last = (2014, 2014) if arguments.quick else arguments.years
    try:
        X, y = read(first, last)
    except (FileNotFoundError, cgp.errors.InputError):
        print(
            "Needs chicago_homicides_zip_quarter.csv (columns zip, latitude, longitude, year, "
            "quarter, count) in the folder that CHAINEDGP_DATA names."
        )
        return
    print(f"{int(y.sum())} homicides in {y.size} zip codes and quarters, {first} to {last}")
    Z, centre, times = cross(X)
    models = []
    for start in STARTS[: 1 if arguments.quick else None]:
        model = make_model(X, y, Z, start)
        result = fit(model)
        print(f"start with {start[0]:g} and {start[1]:g} years: {result}", flush=True)
        report(model, centre, times)
        models.append(model)
    best = max(models, key=lambda one: one.log_likelihood())
    if not arguments.quick:
        model = make_model(X, y, Z, STARTS[0], free=True)
        print(f"everything free: {fit(model)}", flush=True)
        report(model, centre, times)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "chicago.png"
    draw(best, centre, times, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
