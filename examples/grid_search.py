"""Which noise model suits the data? scikit-learn's GridSearchCV over likelihoods.

Silverman's motorcycle measurements, a fifth of them replaced by wild readings. The search fits
every noise model on folds of the rows and keeps the one with the best mean log predictive density
on the rows left out. Needs scikit-learn: pip install "chainedgp[sklearn]".

Run it with no arguments. It prints a table and writes a figure.
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

try:
    from sklearn.model_selection import GridSearchCV, KFold

    from chainedgp.sklearn import ChainedGPRegressor
except ImportError:
    raise SystemExit("This example needs scikit-learn: pip install scikit-learn") from None

LIKELIHOODS = ("gaussian", "student_t", "het_gaussian", "het_laplace", "het_student_t")


def search(data, quick):
    names = LIKELIHOODS[:2] if quick else LIKELIHOODS
    folds = KFold(2 if quick else 5, shuffle=True, random_state=0)
    estimator = ChainedGPRegressor(standardize=True, max_iter=20 if quick else 300)
    return GridSearchCV(estimator, {"likelihood": names}, cv=folds).fit(data.X, data.Y)


def draw(data, estimator, path):
    x = np.linspace(data.X.min(), data.X.max(), 200)[:, None]
    lower, median, upper = estimator.predict_quantiles(x, (0.025, 0.5, 0.975)).T
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    axes.fill_between(x[:, 0], lower, upper, color="#d6e6f2", lw=0, label="95 % of new data")
    axes.plot(x[:, 0], median, color="#1b4f72", label="median")
    axes.plot(data.X, data.Y, ".", color="#333333", ms=3.5, label="measured")
    axes.set(xlabel="time (standardised)", ylabel="acceleration (standardised)")
    reach = 1.08 * np.abs(data.Y).max()
    axes.set_ylim(-reach, reach)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Choose a likelihood by cross-validation.")
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder of the figure")
    parser.add_argument("--quick", action="store_true", help="two models, two folds: a smoke test")
    arguments = parser.parse_args()

    data = datasets.corrupted_motorcycle()
    found = search(data, arguments.quick)
    print("mean log predictive density of held-out rows, higher is better\n")
    results = found.cv_results_
    for name, mean, deviation in zip(
        results["param_likelihood"],
        results["mean_test_score"],
        results["std_test_score"],
        strict=True,
    ):
        print(f"{name:<16}{mean:>8.3f}  ± {deviation:.3f} over folds")
    print(f"\nbest: {found.best_params_['likelihood']}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "grid_search.png"
    draw(data, found.best_estimator_, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", cgp.errors.ConvergenceWarning)  # of the quick run
    main()
