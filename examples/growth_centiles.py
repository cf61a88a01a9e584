"""A growth chart: centiles of the body mass index with bands, z-scores, worm plots.

Simulated children of 2 to 18 years, whose body mass index (kg/m²) falls until six and then rises,
becomes more variable with age and is skewed to the right, as that of real children is. The model
is `BoxCoxNormal`, the LMS method with a Gaussian process on the median and on the coefficient of
variation; a plain `HetGaussian` beside it shows what a worm plot tells of a skewness that is
missed.

Run it with no arguments. It prints a table of centiles, z-scores of three children and how far the
curves are from the truth, and writes a chart and two worm plots. It needs pandas: pip install
pandas.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np

import chainedgp as cgp

try:
    import pandas as pd
except ModuleNotFoundError:
    raise SystemExit("This example needs pandas: pip install pandas") from None

L = cgp.likelihoods
CENTILES = (3, 10, 25, 50, 75, 90, 97)
POWER = -1.4


def truth(age):
    """Median and coefficient of variation."""
    median = (
        15.6 + 0.075 * np.maximum(age - 5.0, 0.0) ** 1.7 + 0.11 * np.minimum(age - 5.5, 0.0) ** 2
    )
    return median, 0.075 + 0.004 * age


def simulate(rng, n):
    age = np.round(np.sort(rng.uniform(2.0, 18.0, n)), 2)
    median, cv = truth(age)
    bmi = L.BoxCoxNormal(power=POWER).sample(rng, np.log(median), np.log(cv), power=POWER)
    return pd.DataFrame({"age (years)": age}), pd.Series(bmi, name="BMI (kg/m²)")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("results/growth_centiles"))
    parser.add_argument("--quick", action="store_true", help="few children")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    X, y = simulate(np.random.default_rng(1), 150 if given.quick else 800)

    m = cgp.ChainedGP(X, y, L.BoxCoxNormal(), num_inducing=20)
    print(m.optimize())
    ages = pd.DataFrame({"age (years)": [3.0, 6.0, 10.0, 14.0, 17.0]})
    table = m.predict_centiles(ages, CENTILES, bands=None)
    table.index = pd.Index(ages["age (years)"], name="age (years)")
    print(table.round(1).to_string())

    median, cv = truth(ages["age (years)"].to_numpy())
    found = m.predict_centiles(ages, (3, 50, 97))
    for level in (3, 50, 97):
        right = L.BoxCoxNormal().ppf(level / 100, np.log(median), np.log(cv), power=POWER)
        inside = (found[f"{level}% lower"] < right) & (right < found[f"{level}% upper"])
        print(f"centile {level}: the truth is inside its 90 % band at {inside.sum()} of 5 ages")

    children = pd.DataFrame({"age (years)": [4.0, 9.0, 15.0]})
    for age, value, z in zip(
        children["age (years)"],
        (16.0, 21.0, 16.5),
        m.z_scores(children, [16.0, 21.0, 16.5]),
        strict=True,
    ):
        print(f"a child of {age:g} years with a BMI of {value:g}: z = {z:+.2f}")

    figures = {"chart": m.plot_centiles(CENTILES).figure}
    figures["worms"] = m.plot_worm(input="age (years)")[0].figure
    plain = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=20)
    plain.optimize()
    figures["worm_of_a_gaussian"] = plain.plot_worm().figure
    for name, figure in figures.items():
        path = given.output / f"growth_{name}.png"
        figure.savefig(path, dpi=130)
        plt.close(figure)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
