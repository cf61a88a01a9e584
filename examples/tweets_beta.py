"""Sentiment of election tweets over a week: a Beta distribution whose two shapes change with time.

Every tweet has a sentiment between 0 and 1. Its distribution may be skewed, may have one peak or
two, and changes from hour to hour, so both shapes of a Beta get a process of their own:

    y ~ Beta(alpha = exp f(t), beta = exp g(t))

The data are of Saul et al. (2016): tweets on a party in the week of the UK election of 7 May 2015,
with the exit poll at 22:00 that evening. The paper shows the Labour party; its tweets are not to be
had, those on the Conservatives and the Greens are (a mirror of the authors' files). They are read
from tweets_conservative.csv.gz or tweets_greens.csv in the folder that CHAINEDGP_DATA names (or
../shared/data beside this project). Without them the script makes up a week of tweets and says so.

Writes tweets_density.png (density, mean, variance) and tweets_shapes.png (alpha and beta).
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp
from chainedgp import datasets
from chainedgp.plotting.style import COLOURS, tint

DAY = 86_400_000  # milliseconds
START = 1_430_438_400_000 - DAY // 24  # 1 May 2015, 00:00 in Britain, which is UTC + 1 h
EXIT_POLL = (1_431_032_400_000 - START) / DAY  # 7 May, 22:00
NIGHT = (1 / 24, 6 / 24)  # one to six in the morning


# Time is in days since 1 May, 00:00 British time, so that 1 is the first midnight.


def read_tweets(party):
    columns = datasets.load_csv(f"tweets_{party}")
    return (columns["unix_ms"] - START) / DAY, columns["pos"]


# The stand-in has what the paper saw in Labour's tweets: few tweets at night, and a drop after the
# poll. It shows that the model finds such things, not that they are in any data.


def made_up_tweets(rng, number=4000):
    t = rng.uniform(0.7, 8.0, size=6 * number)
    rate = 0.08 + np.clip(np.sin(2 * np.pi * (t - 0.3)), 0, 1) + 2.0 * (t > EXIT_POLL)
    t = t[rng.uniform(0, rate.max(), size=t.size) < rate][:number]
    mean = 0.46 + 0.02 * np.sin(2 * np.pi * t) - 0.08 * np.exp(-(((t - 7.1) / 0.15) ** 2))
    precision = 14 + 4 * np.sin(2 * np.pi * (t - 0.3))
    return t, rng.beta(mean * precision, (1 - mean) * precision)


# The kernel is the paper's Matern-3/2 and the inducing times are evenly spaced. Kernels are learnt
# from a part of the tweets, chosen at random: 4,000 say enough about four numbers. Finding q first
# has the fit begin from the given kernels, and not from what a few hundred tweets say of them. Then
# the curves themselves are found from all tweets, with the kernels as they are.


def fit(t, y, rows, inducing, posterior, rng):
    Z = np.linspace(t.min(), t.max(), inducing)[:, None]
    kernel = cgp.kernels.Matern32(1, variance=0.1, lengthscale=0.3)  # days
    some = rng.permutation(t.size)[:rows]
    model = cgp.ChainedGP(
        t[some, None],
        y[some],
        likelihood=cgp.likelihoods.Beta(),
        kernels=kernel,
        Z=Z,
        posterior=posterior,
    )
    model.input_names, model.target_name = [""], "sentiment"
    model.Z.fix()
    model.optimize(only="variational")
    print("kernels:", model.optimize())
    if rows < t.size:
        model.set_data(t[:, None], y)
        print("curves: ", model.optimize(only="variational"))
    return model


# Mean and variance of a Beta are functions of alpha and beta. Their bands come from q of both, in
# which these are correlated: where alpha is higher than thought, so is beta, and the mean the same.


def share(f, g):
    return 1 / (1 + np.exp(g - f))


def spread(f, g):
    return share(f, g) * (1 - share(f, g)) / (np.exp(f) + np.exp(g) + 1)


def moments(model, t):
    table = model.predictive(t).parameters((5, 50, 95), {"mean": share, "variance": spread})
    return {name: values.T for name, values in table.items()}


def mark_time(axes, first, last):
    days = np.arange(np.ceil(first), np.floor(last) + 1)
    axes.set_xticks(days, [f"{1 + int(day)} May" for day in days])
    axes.axvline(EXIT_POLL, color=COLOURS["vermilion"], lw=1.2, ls="--")
    for day in np.arange(np.floor(first), np.ceil(last)):
        axes.axvspan(day + NIGHT[0], day + NIGHT[1], color="#000000", alpha=0.06, lw=0)
    axes.set_xlim(first, last)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def draw_density(model, t, y, curves, title, cells, path):
    """The density with the data, then mean and variance, then how many tweets there are."""
    figure, axes = plt.subplots(
        4,
        sharex=True,
        figsize=(7.4, 6.6),
        layout="constrained",
        gridspec_kw={"height_ratios": (3, 1.3, 1.3, 0.8)},
    )
    grid, bands = curves
    model.plot_density(
        limits=(grid[0], grid[-1]),
        y=np.linspace(0.005, 0.995, 100),
        num=cells,
        data=False,
        ax=axes[0],
    )
    shown = np.random.default_rng(0).permutation(t.size)[:4000]
    axes[0].plot(t[shown], y[shown], ".", color=COLOURS["black"], ms=1.8, alpha=0.35, mew=0)
    axes[0].set_ylim(0, 1)
    axes[0].set_title(title, fontsize=9, loc="left")
    axes[0].text(EXIT_POLL - 0.04, 0.96, "exit poll", ha="right", va="top", fontsize=8)
    for axis, key in zip(axes[1:3], ("mean", "variance"), strict=True):
        low, middle, high = bands[key]
        axis.fill_between(grid, low, high, color=tint(COLOURS["blue"], 0.3), lw=0)
        axis.plot(grid, middle, color=COLOURS["blue"], lw=1.2)
        axis.set_ylabel(key)
    hours = np.arange(grid[0], grid[-1], 1 / 24)
    counts, edges = np.histogram(t, hours)
    axes[3].stairs(counts, edges, color="#555555", fill=True)
    axes[3].set_yscale("log")
    axes[3].set_ylabel("tweets\nan hour")
    for axis in axes:
        mark_time(axis, grid[0], grid[-1])
    axes[3].set_xlabel("British time; ticks at midnight, shaded from one to six in the morning")
    figure.align_ylabels(axes)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_shapes(model, limits, path):
    """alpha(t) and beta(t): the parameters of the likelihood, with the bands of q."""
    figure, axes = plt.subplots(2, sharex=True, figsize=(7.4, 3.6), layout="constrained")
    model.plot_latents(natural=True, levels=(90,), limits=limits, num=400, ax=axes)
    for axis, name in zip(axes, ("α(t)", "β(t)"), strict=True):
        axis.set_ylabel(name)
        mark_time(axis, *limits)
    axes[1].set_xlabel("British time; ticks at midnight")
    figure.savefig(path, dpi=150)
    plt.close(figure)


# What the figure says, in numbers: the mean before and after the poll, and nights against days.


def report(t, y, curves):
    grid, bands = curves
    print("\nsentiment about the exit poll (22:00 on 7 May):")
    for first, last in ((-6, -3), (-3, 0), (0, 3), (3, 6), (6, 12)):
        near = (t >= EXIT_POLL + first / 24) & (t < EXIT_POLL + last / 24)
        here = (grid >= EXIT_POLL + first / 24) & (grid < EXIT_POLL + last / 24)
        if near.sum() > 1 and here.any():
            error = y[near].std() / np.sqrt(near.sum())
            fitted = bands["mean"][1][here].mean()
            print(
                f"  {first:>3} to {last:>3} h: {near.sum():>6} tweets, mean of the tweets "
                f"{y[near].mean():.3f} ± {error:.3f}, of the model {fitted:.3f}"
            )
    hour = grid % 1
    night = (hour >= NIGHT[0]) & (hour < NIGHT[1]) & (grid < EXIT_POLL)
    day = (hour >= 9 / 24) & (hour < 22 / 24) & (grid < EXIT_POLL)
    print("before the poll, nights against days:")
    for key in ("mean", "variance"):
        low, middle, high = bands[key]
        width = high - low
        print(
            f"  {key:<9}{middle[night].mean():.4f} against {middle[day].mean():.4f}; width of its "
            f"5-95 % band {width[night].mean():.4f} against {width[day].mean():.4f}"
        )


def main():
    parser = argparse.ArgumentParser(description="A Beta model of tweets over time.")
    parser.add_argument("--party", choices=("conservative", "greens"), default="conservative")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--rows", type=int, default=4000, help="tweets for the kernels")
    parser.add_argument("--inducing", type=int, default=100, help="inducing times")
    parser.add_argument("--posterior", default="auto", help="auto, joint or mean_field")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few tweets: a smoke test")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)

    try:
        t, y = read_tweets(arguments.party)
        kind = f"tweets on the {arguments.party.title().rstrip('s')}s"
    except (FileNotFoundError, cgp.errors.InputError):
        t, y = made_up_tweets(rng)
        kind = "made-up tweets"
        print(
            f"No tweets_{arguments.party} file in CHAINEDGP_DATA: made-up tweets instead. "
            "The file comes from the data mirror of the paper's authors."
        )
    rows, inducing, points, cells = arguments.rows, arguments.inducing, 600, 240
    if arguments.quick:
        some = rng.permutation(t.size)[:800]
        t, y, rows, inducing, points, cells = t[some], y[some], 400, 25, 150, 60
    title = f"{t.size:,} {kind}"
    print(title)

    model = fit(t, y, rows, inducing, arguments.posterior, rng)
    grid = np.linspace(t.min(), t.max(), points)
    curves = grid, moments(model, grid)
    report(t, y, curves)
    arguments.output.mkdir(parents=True, exist_ok=True)
    draw_density(model, t, y, curves, title, cells, arguments.output / "tweets_density.png")
    draw_shapes(model, (grid[0], grid[-1]), arguments.output / "tweets_shapes.png")
    print(f"\nfigures: {arguments.output}/tweets_density.png, {arguments.output}/tweets_shapes.png")


if __name__ == "__main__":
    main()
