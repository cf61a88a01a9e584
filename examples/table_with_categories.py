"""A table as it comes: numbers, categories, dates and gaps. What drives the mean, what the noise?

Simulated data: nitrate in river water, 420 samples from 2019 to 2023.

    nitrate       mg/l, the target
    station       where the sample was taken: Ouse, Swale, Ure or Wharfe
    laboratory    who measured it: Leeds or York; York scatters more
    filtered      whether the sample was filtered in the field
    flow          of the river, m³/s; empty where the gauge was down
    date          of the sample; winters have more nitrate than summers

The model takes the frame as it is. It leaves out the rows with gaps, and knows that dates have a
season of one year. Mean and variance are both functions of all columns.

Run it with no arguments. It prints how the columns were read, what drives mean and noise, and
predictions for new samples, and writes a figure. It needs pandas: pip install pandas.
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

STATIONS = {"Ouse": 8.0, "Swale": 6.5, "Ure": 5.5, "Wharfe": 4.5}  # mean nitrate in mg/l


def simulate(rng, n):
    """A frame of n samples and the nitrate of each."""
    table = pd.DataFrame(
        {
            "station": rng.choice(list(STATIONS), n),
            "laboratory": rng.choice(["Leeds", "York"], n, p=[0.6, 0.4]),
            "filtered": rng.random(n) < 0.5,
            "flow": np.exp(rng.normal(2.5, 0.7, n)).round(1),
            "date": pd.Timestamp("2019-01-07") + pd.to_timedelta(rng.integers(0, 1820, n), "D"),
        }
    )
    winter = np.cos(2 * np.pi * (table["date"].dt.day_of_year - 30) / 365.25)
    diluted = -0.6 * np.log(table["flow"] / 12)
    mean = table["station"].map(STATIONS) + 1.2 * winter + diluted
    sd = np.where(table["laboratory"] == "York", 0.9, 0.3)
    nitrate = (mean + sd * rng.standard_normal(n)).round(2).rename("nitrate (mg/l)")
    table.loc[rng.random(n) < 0.04, "flow"] = np.nan
    return table, nitrate


def draw(model, path):
    """Shares of all columns, and the curves behind the largest of them."""
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.0), layout="constrained")
    model.plot_effects(of=["mean", "variance"], ax=axes[0, 0])
    model.plot_effects("station", ax=axes[0, 1])
    model.plot_effects("laboratory", of="variance", ax=axes[1, 0])
    model.plot_slice("date", at={"station": "Ouse", "laboratory": "Leeds"}, ax=axes[1, 1])
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Fit a table with categories, dates and gaps.")
    parser.add_argument("--output", type=Path, default=Path("results/table_with_categories"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    table, nitrate = simulate(np.random.default_rng(arguments.seed), 80 if arguments.quick else 420)
    print(table.head(4).to_string())
    print(f"{table['flow'].isna().sum()} of {len(table)} rows have no flow\n")

    model = cgp.ChainedGP(
        table,
        nitrate,
        cgp.likelihoods.HetGaussian(),
        missing="drop",
        periodic={"date": "year"},
        num_inducing=20 if arguments.quick else 60,
    )
    print(model.optimize())
    print(model.summary())

    # Shares of the variation over the table. Columns are quantities, rows are inputs.
    print(model.effects(of=["mean", "variance"]).round(2).to_string())
    for laboratory, row in model.effects("laboratory", of="variance").set_index("value").iterrows():
        low, middle, high = np.sqrt(row[["low", "variance", "high"]].astype(float))
        print(f"sd of {laboratory}: {middle:.2f} mg/l, 95 % from {low:.2f} to {high:.2f}")

    new = pd.DataFrame(
        {
            "date": pd.to_datetime(["2024-01-15", "2024-07-15", "2024-07-15"]),
            "station": ["Ouse", "Ouse", "Wharfe"],
            "laboratory": ["Leeds", "York", "York"],
            "flow": [20.0, 8.0, 8.0],
            "filtered": True,
        }
    )
    print(model.predict_frame(new, inputs=True).to_string(float_format="{:.2f}".format))
    draw(model, arguments.output / "effects.png")


if __name__ == "__main__":
    main()
