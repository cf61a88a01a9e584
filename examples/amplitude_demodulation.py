"""Amplitude demodulation with a likelihood of one's own, after Turner and Sahani (2011).

A sound is a fast carrier times a slow, positive amplitude, plus noise:

    y(t) = a(t) c(t) + ε,    a = log(1 + e^f),    ε ~ N(0, σ²).

Only the product is observed. Given slow f and fast c, both Gaussian processes, the two can be told
apart: p(y | f, c; σ²) = N(y; log(1 + e^f) c, σ²) is a likelihood with two latent functions, and it
is written below in a few lines. As c enters the mean linearly, E[log p] is exact in c and a sum
over f alone, which `expected_log_density` says.

    R. E. Turner and M. Sahani (2011). Demodulation as probabilistic inference.
    IEEE Transactions on Audio, Speech, and Language Processing 19(8), 2398–2411.

Run it with no arguments. The signal is simulated. It prints what was recovered, and writes a figure
with the signal, the amplitude and the carrier.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws without a display
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

import chainedgp as cgp
from chainedgp.expectations.quadrature import gauss_hermite
from chainedgp.testing import check_likelihood

BLUE, GREEN, TRUTH, GREY = "#0072B2", "#009E73", "#D55E00", "#999999"
LOG_2PI = np.log(2 * np.pi)


def softplus(f):
    return np.logaddexp(0, f)


class Demodulation(cgp.Likelihood):
    """y ~ N(a c, σ²), amplitude a = log(1 + e^f) and carrier c."""

    latents = ("raw_amplitude", "carrier")
    parameters = {"variance": 0.01}

    def log_density(self, y, f, c, *, variance):
        return -0.5 * (LOG_2PI + np.log(variance) + (y - softplus(f) * c) ** 2 / variance)

    # E (y − a c)² = y² − 2 y E[a] E[c] + E[a²] E[c²]: the carrier is integrated on paper, and the
    # amplitude is a function of one Gaussian variable. The derivatives are those of the sum.

    def expected_log_density(self, y, means, variances, *, nodes=20, variance):
        (m_f, m_c), (v_f, v_c) = means.T, variances.T
        x, w = gauss_hermite(nodes)
        sd = np.sqrt(np.maximum(v_f, 1e-20))
        f = m_f + sd * x[:, None]  # (nodes, n)
        a, c2 = softplus(f), m_c**2 + v_c
        a1, a2 = w @ a, w @ a**2
        square = y**2 - 2 * y * a1 * m_c + a2 * c2
        value = -0.5 * (LOG_2PI + np.log(variance) + square / variance)
        slope = (y * m_c - a * c2) * expit(f) / variance  # of the terms, in f
        dmeans = np.stack([w @ slope, (y * a1 - a2 * m_c) / variance], axis=1)
        dvariances = np.stack([(w * x) @ slope / (2 * sd), -0.5 * a2 / variance], axis=1)
        dtheta = 0.5 * (square / variance - 1) / variance
        return value, dmeans, dvariances, dtheta[:, None]

    def conditional_mean(self, f, c, *, variance):
        return softplus(f) * c

    def conditional_variance(self, f, c, *, variance):
        return variance + 0 * (f + c)

    def natural_parameters(self, f, c, *, variance):
        return {"amplitude": softplus(f), "carrier": c}


# A signal of two syllables or so a second. The carrier is noise: a draw from its own prior.


def simulate(rng, n, seconds):
    t = np.linspace(0, seconds, n)
    amplitude = softplus(1 + 2 * np.sin(2 * np.pi * 0.9 * t) + np.cos(2 * np.pi * 0.4 * t))
    K = cgp.kernels.RBF(1, variance=1.0, lengthscale=0.03).K(t[:, None])
    carrier = np.linalg.cholesky(K + 1e-6 * np.eye(n)) @ rng.standard_normal(n)
    return t, amplitude * carrier + 0.1 * rng.standard_normal(n), amplitude, carrier


# What tells amplitude and carrier apart is said by the kernels: how fast each is, and that the
# carrier has variance 1, since only the product has a size. The carrier needs many more inducing
# inputs than the amplitude, so each has its own.


def fit(t, y):
    seconds = t[-1]
    slow = cgp.kernels.RBF(1, variance=1.0, lengthscale=0.3)
    fast = cgp.kernels.RBF(1, variance=1.0, lengthscale=0.02)
    fast.variance.fix(warning=False)
    Z = [np.linspace(0, seconds, int(k * seconds))[:, None] for k in (8, 40)]
    model = cgp.ChainedGP(
        t,
        y,
        Demodulation(variance=0.1 * np.var(y)),
        kernels=[slow, fast],
        Z=Z,
        mean_functions=[cgp.means.Constant(np.std(y)), cgp.means.Zero()],
    )
    model.Z.fix(warning=False)
    print(model.optimize())
    return model


# The posterior treats the two as independent, so the bands do not know that a larger amplitude
# could go with a smaller carrier: they are too narrow. The medians are what to look at.


def draw(model, amplitude, carrier, path):
    t = model.X[:, 0]
    quantiles = model.predictive(t).parameters((2.5, 50, 97.5))
    figure, axes = plt.subplots(3, figsize=(7.4, 5.2), sharex=True, layout="constrained")
    envelope = quantiles["amplitude"][:, 1]
    axes[0].plot(t, model.Y, color=GREY, lw=0.8, label="signal")
    axes[0].plot(t, 2 * envelope, color=BLUE, label="± 2 amplitude")
    axes[0].plot(t, -2 * envelope, color=BLUE)
    for ax, name, truth, colour in (
        (axes[1], "amplitude", amplitude, BLUE),
        (axes[2], "carrier", carrier, GREEN),
    ):
        low, middle, high = quantiles[name].T
        ax.fill_between(t, low, high, color=colour, alpha=0.25, lw=0, label="95 % interval")
        ax.plot(t, middle, color=colour, lw=1.2, label="median")
        ax.plot(t, truth, "--", color=TRUTH, lw=1.0, label="truth")
        print(f"{name}: correlation with the truth {np.corrcoef(middle, truth)[0, 1]:.3f}")
    for ax, label in zip(axes, ("signal", "amplitude", "carrier"), strict=True):
        ax.set_ylabel(label)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0)
        ax.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 0.97))
    axes[1].set_title("only the product with the carrier is seen", fontsize=8, loc="right")
    axes[-1].set_xlabel("time (s)")
    figure.savefig(path, dpi=180)
    plt.close(figure)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description="Take a signal apart: amplitude and carrier.")
    parser.add_argument("--output", type=Path, default=Path("results/amplitude_demodulation"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a shorter signal: a smoke test")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    check_likelihood(Demodulation())  # would say in words what is wrong
    seconds = 1 if arguments.quick else 2
    rng = np.random.default_rng(arguments.seed)
    t, y, amplitude, carrier = simulate(rng, 250 * seconds, seconds)
    model = fit(t, y)
    noise = np.sqrt(model.likelihood.variance.values[0])
    print(f"{t.size} samples; standard deviation of the noise {noise:.3f}, true 0.100")
    draw(model, amplitude, carrier, arguments.output / "amplitude_demodulation.png")


if __name__ == "__main__":
    main()
