"""A survival study from the table to the answers: fit, check, effects, competing causes, episodes.

Simulated patients after a tumour was removed. Time is in years since the operation, and ends with
the first of three: the tumour comes back (relapse), death without relapse, or the last visit
(censored). Some patients were referred later: they are known only because nothing had happened to
them before their entry. Inputs: age in years, a blood marker (log10 of its concentration), and the
arm, 1 for a new treatment, whose effect fades after some time.

    relapse    log-logistic, the median falls with marker and age; the new arm has another shape
    death      Weibull of shape 1.4, whose scale falls with age alone

Writes five figures: observed against expected survival, calibration at 2 years on patients that
were held out, survival along the marker, restricted mean along age, and cumulative incidences. It
needs pandas: pip install pandas.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp
from chainedgp.survival import AalenJohansen, CompetingRisks, split_episodes

try:
    import pandas as pd
except ModuleNotFoundError:
    raise SystemExit("This example needs pandas: pip install pandas") from None

INPUTS = ["age", "marker", "arm"]


def simulate(n, rng):
    """A table of n patients or a few less: inputs, entry, time, cause."""
    age = np.clip(rng.normal(62.0, 10.0, n), 35.0, 88.0)
    marker, arm = rng.normal(1.0, 0.5, n), rng.integers(0, 2, n)
    median = np.exp(1.3 - 0.02 * (age - 62.0) - 0.8 * (marker - 1.0) + 0.35 * arm)
    relapse = median * np.exp(rng.logistic(size=n) / np.exp(0.25 + 0.45 * arm))
    death = np.exp(2.3 - 0.05 * (age - 62.0)) * rng.weibull(1.4, n)
    entry = np.where(rng.random(n) < 0.3, rng.uniform(0.0, 1.0, n), 0.0)
    last = entry + rng.uniform(1.0, 6.0, n)
    time = np.minimum(np.minimum(relapse, death), last)
    cause = np.select([time == relapse, time == death], ["relapse", "death"], "censored")
    table = pd.DataFrame({
        "age": age.round(1), "marker": marker.round(2), "arm": arm.astype(float),
        "entry": entry, "time": time, "cause": cause,
    })  # fmt: skip
    return table[time > entry].reset_index(drop=True)  # Who was gone before was never referred.


def seen(table):
    """What a model must know of how the times came about; here any event counts."""
    return {"censored": (table["cause"] == "censored").astype(float), "entry": table["entry"]}


def fit(table, inducing):
    model = cgp.ChainedGP(
        table[INPUTS],
        table["time"],
        cgp.likelihoods.WeibullSurvival(),
        Y_metadata=seen(table),
        num_inducing=inducing,
    )
    model.target_name = "time (years)"
    print(model.optimize())
    return model


def draw(path, plot, **options):
    ax = plot(**options)
    ax.figure.savefig(path, dpi=130)
    plt.close(ax.figure)
    print(f"figure: {path}")


def episodes(table):
    """The new treatment ends after a year: its patients are cut there, and their arm is then 0."""
    e = split_episodes(table[INPUTS], table["time"], seen(table), times=[1.0])
    treated = int(e.X["arm"].sum())
    e.X.loc[e.start >= 1.0, "arm"] = 0.0
    print(
        f"episodes: {len(table)} patients, {len(e.Y)} episodes, {treated} of them in the new arm "
        f"before the change and {int(e.X['arm'].sum())} after it"
    )
    return e


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer patients")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/survival_study"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    n, inducing = (300, 20) if arguments.quick else (1200, 60)
    table, test = simulate(n, rng), simulate(n, rng)
    print(f"{len(table)} patients: {table['cause'].value_counts().to_dict()}")

    model = fit(table, inducing)
    out = arguments.output
    draw(out / "check.png", model.plot_survival_check, by="arm")
    held_out = test[INPUTS], test["time"], seen(test)
    draw(
        out / "calibration.png",
        lambda: model.plot_survival_calibration(2.0, *held_out, groups=6),
    )
    draw(out / "along.png", lambda: model.plot_survival_along("marker", [0.5, 1.0, 1.5]))
    fig, ax = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for arm in (0.0, 1.0):
        model.plot_restricted_mean("age", 5.0, at={"arm": arm}, ax=ax)
    for line, band, colour, name in zip(
        ax.lines, ax.collections, ("#0072B2", "#D55E00"), ("standard", "new"), strict=True
    ):
        line.set(color=colour, label=name)
        band.set(color=colour)
    ax.set_xlabel("age in years (marker at its median)")
    ax.legend(frameon=False, fontsize=8)
    fig.savefig(out / "restricted_mean.png", dpi=130)
    plt.close(fig)
    print(f"figure: {out / 'restricted_mean.png'}")

    risks = CompetingRisks.from_data(
        table[INPUTS],
        table["time"],
        table["cause"],
        cgp.likelihoods.WeibullSurvival(),
        censored="censored",
        Y_metadata={"entry": table["entry"]},
        num_inducing=inducing,
    )
    risks.optimize()
    for cause_model in risks.models.values():
        cause_model.target_name = "time (years)"
    times = np.linspace(0.0, 5.0, 41)
    old, young = (pd.DataFrame([[age, 1.0, 0.0]], columns=INPUTS) for age in (80.0, 50.0))
    for name, row in (("50", young), ("80", old)):
        F = risks.cumulative_incidence(row, [5.0], bands=(2.5, 97.5))
        words = ", ".join(
            f"{cause} {100 * e[0, 0]:.0f} % ({100 * a[0, 0]:.0f} to {100 * b[0, 0]:.0f})"
            for cause, (e, a, b) in F.items()
        )
        print(f"  at the age of {name}, within 5 years: {words}")
    late = AalenJohansen(table["time"], table["cause"], "censored", table["entry"])
    draw(out / "incidence.png", lambda: risks.plot(times=times, observed=late(times)))
    episodes(table)


if __name__ == "__main__":
    main()
