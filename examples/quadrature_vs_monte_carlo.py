"""Quadrature against Monte Carlo: how well E[log p(y | f, g)] of a Student-t is computed.

A fit needs this expectation, f and g Gaussian, for every row at every step. Saul et al. (2016,
supplement) compare two ways at the mode, the shoulder and the tail of the density: a Gauss-Hermite
grid of h x h nodes, and the mean over random draws, which is right on average but noisy. Two things
are added here:

    the form that chainedgp uses, exact in f, so that only the h nodes in g remain;
    a second row with a posterior much wider than the noise, where a grid in f misses the peak.

Everything is computed here: no data are needed. Writes quadrature_vs_monte_carlo.png and prints the
errors.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy import stats

import chainedgp as cgp
from chainedgp.plotting.style import COLOURS, POINTS, tint

NU = 4.0
LIKELIHOOD = cgp.likelihoods.HetStudentT(nu=NU)
M_F, M_G, V_G = 0.0, 0.0, 0.25  # f ~ N(0, v_f); g ~ N(0, 1/4), so that the scale is about 1
POSTERIORS = {"narrow": 0.1, "wide": 100.0}  # v_f, in units of the squared scale
PLACES = {"mode": 0.0, "shoulder": 2.0, "tail": 6.0}  # y, in standard deviations of y
NODES = (2, 4, 6, 8, 12, 16, 20)  # h; a grid has h * h evaluations
SMALLEST = 1e-13  # errors below are rounding


# The reference is a trapezoidal sum over 10 standard deviations in f and in g. For a smooth
# function that dies out at both ends it converges faster than any power of the step.


def reference(y, v_f):
    z_f, step_f = np.linspace(-10, 10, 16_001, retstep=True)
    z_g, step_g = np.linspace(-10, 10, 401, retstep=True)
    f, g = M_F + np.sqrt(v_f) * z_f[:, None], M_G + np.sqrt(V_G) * z_g
    weights = stats.norm.pdf(z_f)[:, None] * stats.norm.pdf(z_g) * step_f * step_g
    return float((weights * LIKELIHOOD.log_density(y, f, g, nu=NU)).sum())


# Gauss-Hermite: nodes x and weights w for e^(-x^2), moved to N(m, v) by m + sqrt(2 v) x.


def grid(y, v_f, h):
    x, w = np.polynomial.hermite.hermgauss(h)
    f, g = M_F + np.sqrt(2 * v_f) * x[:, None], M_G + np.sqrt(2 * V_G) * x
    return float((np.outer(w, w) / np.pi * LIKELIHOOD.log_density(y, f, g, nu=NU)).sum())


# Monte Carlo with as many evaluations as the grid, repeated.


def monte_carlo(y, v_f, evaluations, reruns, rng):
    f = M_F + np.sqrt(v_f) * rng.standard_normal((reruns, evaluations))
    g = M_G + np.sqrt(V_G) * rng.standard_normal((reruns, evaluations))
    return LIKELIHOOD.log_density(y, f, g, nu=NU).mean(axis=1)


# chainedgp: E over f of log(1 + (y - f)^2 / c^2) by the Faddeeva function, nodes in g alone.


def exact_in_f(y, v_f, h):
    means, variances = np.array([[M_F, M_G]]), np.array([[v_f, V_G]])
    value = LIKELIHOOD.expected_log_density(np.array([y]), means, variances, nodes=h, nu=NU)[0]
    return float(value[0])


def target(place, v_f):
    """y at so many standard deviations of the predictive distribution (its variance exists)."""
    return PLACES[place] * np.sqrt(v_f + np.exp(M_G + V_G / 2) * NU / (NU - 2))


def draw_places(axes, v_f):
    sd = np.sqrt(v_f + np.exp(M_G + V_G / 2) * NU / (NU - 2))
    y = np.linspace(-3 * sd, 7 * sd, 1000)
    axes.plot(y, stats.t.pdf(y, NU), color=COLOURS["blue"], lw=1.4)
    axes.plot(y, stats.norm.pdf(y, M_F, np.sqrt(v_f)), color=POINTS, ls="--", lw=1.0)
    for place in PLACES:
        axes.axvline(target(place, v_f), color=COLOURS["vermilion"], lw=0.8, ls=":")
        axes.annotate(
            place,
            (target(place, v_f), 0.97),
            xycoords=("data", "axes fraction"),
            rotation=90,
            va="top",
            ha="left" if place == "mode" else "right",
            fontsize=7,
            color=COLOURS["vermilion"],
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )
    axes.set_xlim(y[0], y[-1])
    axes.set_ylim(bottom=0)
    axes.set_yticks([])


def draw_errors(axes, errors):
    for k, row in enumerate(errors):
        box = axes.boxplot(
            np.maximum(row["monte carlo"], SMALLEST),
            positions=[k],
            widths=0.6,
            whis=(1, 99),
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
        )
        box["boxes"][0].set(facecolor=tint(COLOURS["sky"], 0.5), edgecolor=COLOURS["blue"], lw=0.7)
        for part in (*box["whiskers"], *box["caps"], *box["medians"]):
            part.set(color=COLOURS["blue"], lw=0.8)
    for key, colour, marker, shift in (
        ("grid", COLOURS["vermilion"], "o", -0.2),
        ("exact in f", COLOURS["black"], "D", 0.2),
    ):
        values = [max(row[key], SMALLEST) for row in errors]
        places = np.arange(len(errors)) + shift
        axes.plot(places, values, marker, mfc="white", mec=colour, ms=4.5, mew=1.2, clip_on=False)
    axes.set_yscale("log")
    axes.set_ylim(0.4 * SMALLEST, 10)
    axes.set_xticks(range(len(errors)), [str(row["h"] ** 2) for row in errors])
    axes.grid(axis="y", color="#e5e5e5", lw=0.5)
    axes.set_axisbelow(True)


def draw(table, reruns, path):
    figure, axes = plt.subplots(
        len(POSTERIORS), 1 + len(PLACES), figsize=(9.6, 4.9), layout="constrained"
    )
    for row, (name, v_f) in zip(axes, POSTERIORS.items(), strict=True):
        draw_places(row[0], v_f)
        row[0].set_title(f"{name} posterior: $v_f$ = {v_f:g}", fontsize=9)
        row[0].set_ylabel("density", fontsize=8)
        for axis, place in zip(row[1:], PLACES, strict=True):
            draw_errors(axis, table[name, place])
            axis.set_title(f"{place}: y = {target(place, v_f):.1f}", fontsize=9)
            if place != "mode":
                axis.tick_params(labelleft=False)
        row[1].set_ylabel("absolute error", fontsize=8)
    axes[-1, 0].set_xlabel("y", fontsize=8)
    for axis in axes[-1, 1:]:
        axis.set_xlabel("h² draws, or nodes of the grid", fontsize=8)
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    handles = [
        Line2D([], [], color=COLOURS["blue"], lw=1.4, label="Student-t, scale 1"),
        Line2D([], [], color=POINTS, ls="--", lw=1.0, label="q(f)"),
        Patch(
            facecolor=tint(COLOURS["sky"], 0.5),
            edgecolor=COLOURS["blue"],
            label=f"Monte Carlo, {reruns:,} reruns (whiskers 1st and 99th percentile)",
        ),
        Line2D(
            [], [], ls="", marker="o", mfc="white", mec=COLOURS["vermilion"], label="h × h grid"
        ),
        Line2D([], [], ls="", marker="D", mfc="white", mec="black", label="exact in f, h nodes"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Quadrature against Monte Carlo, Student-t.")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder")
    parser.add_argument("--reruns", type=int, default=1000, help="of Monte Carlo")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="100 reruns: a smoke test")
    arguments = parser.parse_args()
    reruns = 100 if arguments.quick else arguments.reruns
    rng = np.random.default_rng(arguments.seed)

    table = {}
    head = f"{'q(f)':<8}{'place':<10}{'h':>3}{'Monte Carlo':>13}{'grid':>11}{'exact in f':>12}"
    print(f"absolute errors; Monte Carlo: median of {reruns} reruns with h² draws\n\n{head}")
    for name, v_f in POSTERIORS.items():
        for place in PLACES:
            y = target(place, v_f)
            truth = reference(y, v_f)
            rows = table[name, place] = []
            for h in NODES:
                draws = monte_carlo(y, v_f, h * h, reruns, rng)
                rows.append(
                    {
                        "h": h,
                        "monte carlo": np.abs(draws - truth),
                        "grid": abs(grid(y, v_f, h) - truth),
                        "exact in f": abs(exact_in_f(y, v_f, h) - truth),
                    }
                )
                last = rows[-1]
                print(
                    f"{name:<8}{place:<10}{h:>3}{np.median(last['monte carlo']):>13.1e}"
                    f"{last['grid']:>11.1e}{last['exact in f']:>12.1e}"
                )
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "quadrature_vs_monte_carlo.png"
    draw(table, reruns, path)
    print(f"\nfigure: {path}")


if __name__ == "__main__":
    main()
