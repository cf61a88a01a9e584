"""A noise model of your own, in ten lines: a sensor that now and then sends a random number.

Simulated data: the temperature of a river over 60 days, measured every four hours. The noise grows
as the battery runs down. In addition a few readings have nothing to do with the river: with
probability p a reading is random, around 20 °C with a standard deviation of 12 °C:

    p(y | f, g; odds) = (1 − p) N(y | f, e^2g) + p N(y | 20, 12²),    p = odds / (1 + odds).

No likelihood of the library says this. Written as a class, with the names of the latent functions,
the constant that is learnt and the logarithm of the density, it can be fitted and predicts. The
model then tells for each reading how probably it is a wild one.

Run it with no arguments. It prints what was recovered, beside a plain `HetGaussian`, and writes a
figure. The page docs/writing_a_likelihood.md says what else a likelihood may declare.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import chainedgp as cgp
from chainedgp.testing import check_likelihood

RANDOM = stats.norm(20.0, 12.0)  # °C, of wild readings
WILD = 0.08  # their share


class FaultySensor(cgp.Likelihood):
    latents = ("temperature", "log_sd")
    parameters = {"odds": 0.05}  # positive, learnt; this is where it starts

    def log_parts(self, y, f, g, odds):
        """Logarithms of both terms of the density."""
        good = stats.norm.logpdf((y - f) * np.exp(-g)) - g
        return good - np.log1p(odds), RANDOM.logpdf(y) + np.log(odds) - np.log1p(odds)

    def log_density(self, y, f, g, *, odds):
        return np.logaddexp(*self.log_parts(y, f, g, odds))

    def cdf(self, y, f, g, *, odds):  # not needed: with it quantiles are faster
        return (stats.norm.cdf((y - f) * np.exp(-g)) + odds * RANDOM.cdf(y)) / (1 + odds)


def simulate(rng, n):
    """Days, temperatures of the river, readings, and which of them are wild."""
    day = np.linspace(0, 60, n)
    river = 14 + 0.08 * day + 2.5 * np.sin(day / 5)
    wild = rng.random(n) < WILD
    reading = river + np.exp(-1.6 + 0.025 * day) * rng.standard_normal(n)
    return day, river, np.where(wild, rng.normal(20, 12, n), reading), wild


def fit(day, reading, likelihood):
    model = cgp.ChainedGP(day, reading, likelihood, num_inducing=25, input_names=["day"])
    model.target_name = "temperature (°C)"
    print(f"{type(likelihood).__name__}: {model.optimize()}")
    return model


def main():
    parser = argparse.ArgumentParser(description="Fit readings of a sensor that fails at times.")
    parser.add_argument("--output", type=Path, default=Path("results/faulty_sensor"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer rows: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    n = 120 if arguments.quick else 360
    day, river, reading, wild = simulate(np.random.default_rng(arguments.seed), n)

    check_likelihood(FaultySensor())  # says nothing if the density is right
    own, plain = (fit(day, reading, lik) for lik in (FaultySensor(), cgp.likelihoods.HetGaussian()))
    odds = own.likelihood.odds.values[0]
    print(f"share of wild readings: {odds / (1 + odds):.3f}, true {WILD}")
    for model in (own, plain):
        f = model.predict_latents(day)[0][:, 0]
        error, name = np.sqrt(np.mean((f - river) ** 2)), type(model.likelihood).__name__
        print(f"{name}: error of the temperature {error:.2f} °C, elpd {model.loo().elpd:.0f}")

    # How probably each reading is wild, at the posterior means of the latents.
    good, random = own.likelihood.log_parts(reading, *own.predict_latents(day)[0].T, odds)
    found = random > good
    print(f"recognised as wild: {found.sum()}, right in {(found & wild).sum()} of {wild.sum()}")

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.6), sharey=True, layout="constrained")
    for ax, model in zip(axes, (own, plain), strict=True):
        model.plot(levels=(50, 90), ax=ax)
        ax.text(0.97, 0.04, type(model.likelihood).__name__, ha="right", transform=ax.transAxes)
    axes[0].plot(day[found], reading[found], "x", color="#D55E00", ms=5, label="recognised as wild")
    for ax in axes:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8, ncols=3)
    figure.savefig(arguments.output / "sensor.png", dpi=120)
    plt.close(figure)
    print(f"figure: {arguments.output / 'sensor.png'}")


if __name__ == "__main__":
    main()
