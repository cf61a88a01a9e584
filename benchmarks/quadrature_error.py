"""Tabulate the error of the expected log-density; writes docs/quadrature_error.md.

    python benchmarks/quadrature_error.py

Every entry is the largest error over a set of targets y, against adaptive integration (QUADPACK) in
the first latent of a fine trapezoidal sum in the second: nothing of the reduced forms is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad

from chainedgp.likelihoods import (
    AdditivePoisson,
    Beta,
    HetGaussian,
    HetStudentT,
    Likelihood,
    LogLogisticSurvival,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "quadrature_error.md"
DEFAULT = 20

TEXT = r"""# Quadrature errors

A fit needs the expected log-density $\mathrm{E}[\log p(y \mid f, g)]$ of every row, here under
independent Gaussian marginals $f \sim N(m_f, v_f)$ and $g \sim N(m_g, v_g)$. How accurate is it?
The table gives the largest absolute error, in nats for a row, of three ways to compute it:

- **plain 20 × 20**: a Gauss–Hermite grid in both latents, without any analytical integral, for
  comparison;
- **20 nodes**: `expected_log_density` of the class with the default `nodes=20`;
- **chosen**: the same with as many nodes as `required_nodes` chooses for an error of about 1e-6
  (the number in brackets); this is what a mean-field fit uses.

In the table, $v$ is the variance $v_g$ of $g$, and κ compares the variance of $f$ with the scale
of the density: $\kappa = v_f\, e^{-m_g}$ for HetGaussian and HetStudentT, and $\kappa = v_f\,
e^{2 m_g + 2 v_g}$ for the log-logistic. The error of the plain grid grows with κ. The classes
integrate over $f$ analytically, so for them only $v_g$ matters. For AdditivePoisson and Beta κ
has no meaning, and $v_f = v_g = v$.

- HetGaussian and AdditivePoisson have closed forms and need no nodes.
- HetStudentT: the expectation of $\log(1 + (y - f)^2/c^2)$ over $f$ comes from the Faddeeva
  function; only $g$ needs nodes.
- LogLogisticSurvival: the expectation of $\log(1 + e^a)$ comes from a mixture of normal
  distributions (12 terms, error 3e-10); only $g$ needs nodes.
- Beta: Stirling's part of the gamma functions has a closed form; its small remainder needs nodes.

By default a model of `AdditivePoisson` or `Beta` has correlated latents. Their expectations are not
in this table.

The targets $y$ of the rows are:

- HetGaussian and HetStudentT: $y - m_f = 0, 1, 3, 10$ and, for HetStudentT, 30, at scale 1;
- LogLogisticSurvival: $\log y - m_f = 0, \pm 1, \pm 4$, exact and right-censored, at shape 1;
- AdditivePoisson: $y = 0, 3, 50$ at $m_f = 1$, $m_g = 0.5$;
- Beta: $y = 0.02, 0.5, 0.9$ at $m_f = 3$, $m_g = 2$.

Errors below 1e-9 are written as "< 1e-9", because the reference values are no more accurate than
that.

`python benchmarks/quadrature_error.py` writes this page, and a test recomputes some of the
entries.

"""

HEADER = "| likelihood | κ | v | plain 20 × 20 | 20 nodes | chosen |\n|---|---|---|---|---|---|\n"


class Case(NamedTuple):
    """A likelihood, the (κ, v) of its rows, its targets, and the moments for one (κ, v)."""

    likelihood: Likelihood
    kappas: tuple[float | None, ...]
    variances: tuple[float, ...]
    y: np.ndarray
    moments: Callable[[float | None, float], tuple[tuple[float, float], tuple[float, float]]]
    metadata: dict[str, np.ndarray]


def cases() -> dict[str, Case]:
    residual = np.array([0.0, 1.0, 3.0, 10.0, 30.0])
    times = np.exp([0.0, 1.0, -1.0, 4.0, -4.0] * 2)
    censored = np.repeat([0.0, 1.0], 5)
    kappas, wide = (0.01, 1.0, 100.0), (0.1, 1.0, 4.0)

    def scale(kappa: float | None, v: float) -> tuple:
        return (0.0, 0.0), (kappa, v)

    def shape(kappa: float | None, v: float) -> tuple:
        return (0.0, 0.0), (kappa * np.exp(-2.0 * v), v)

    return {
        "HetGaussian": Case(HetGaussian(), kappas, wide, residual[:4], scale, {}),
        "HetStudentT": Case(HetStudentT(), kappas, wide, residual, scale, {}),
        "LogLogisticSurvival": Case(
            LogLogisticSurvival(), kappas, (0.1, 0.5, 2.0), times, shape, {"censored": censored}
        ),
        "AdditivePoisson": Case(
            AdditivePoisson(),
            (None,),
            (0.1, 1.0, 4.0, 9.0),
            np.array([0.0, 3.0, 50.0]),
            lambda _, v: ((1.0, 0.5), (v, v)),
            {},
        ),
        "Beta": Case(
            Beta(),
            (None,),
            (0.1, 1.0, 2.0, 4.0),
            np.array([0.02, 0.5, 0.9]),
            lambda _, v: ((3.0, 2.0), (v, v)),
            {},
        ),
    }


def adaptive(log_p: Callable, means: tuple, variances: tuple, kink: float) -> float:
    """E log_p(f, g): QUADPACK in f, told where the density peaks; 201 trapezoidal nodes in g."""
    x, step = np.linspace(-12.0, 12.0, 201, retstep=True)
    weights = step * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    g = means[1] + np.sqrt(variances[1]) * x
    sd = np.sqrt(variances[0])

    def integrand(t: float) -> float:
        return float(weights @ log_p(means[0] + sd * t, g)) * np.exp(-0.5 * t * t)

    inside = [t for t in ((kink - means[0]) / sd, 0.0) if abs(t) < 12.0]
    value = quad(integrand, -12.0, 12.0, points=inside, epsabs=1e-12, epsrel=1e-11, limit=500)[0]
    return value / np.sqrt(2.0 * np.pi)


@cache
def entry(name: str, kappa: float | None, v: float) -> tuple[float, float, float, int]:
    """Largest errors over y: plain grid, default nodes, chosen nodes; and the chosen number."""
    case = cases()[name]
    lik, y = case.likelihood, case.y
    mean, variance = case.moments(kappa, v)
    means, variances = np.tile(mean, (y.size, 1)), np.tile(variance, (y.size, 1))
    kw = {**lik.parameter_values(), **case.metadata}
    exact = []
    for i, target in enumerate(y):
        row = {k: val[i] if np.ndim(val) else val for k, val in kw.items()}
        kink = np.log(target) if name == "LogLogisticSurvival" else float(target)
        exact.append(
            adaptive(
                lambda f, g, t=target, row=row: lik.log_density(np.float64(t), f, g, **row),
                mean,
                variance,
                kink,
            )
        )
    nodes = lik.required_nodes(y, means, variances, **kw)
    values = (
        Likelihood._quadrature(lik, y, means, variances, nodes=DEFAULT, **kw)[0],
        lik.expected_log_density(y, means, variances, nodes=DEFAULT, **kw)[0],
        lik.expectation(y, means, variances, nodes, **kw)[0],
    )
    plain, default, chosen = (float(np.max(np.abs(value - exact))) for value in values)
    return plain, default, chosen, int(nodes.max())


def cell(error: float) -> str:
    return "< 1e-9" if error < 1e-9 else f"{error:.1e}"


def table() -> str:
    """The Markdown table of all cases."""
    lines = [HEADER]
    for name, case in cases().items():
        for kappa in case.kappas:
            for v in case.variances:
                plain, default, chosen, nodes = entry(name, kappa, v)
                shown = "" if kappa is None else f"{kappa:g}"
                cells = [name, shown, f"{v:g}", cell(plain), cell(default)]
                lines.append(f"| {' | '.join(cells)} | {cell(chosen)} ({nodes}) |\n")
    return "".join(lines)


def main() -> None:
    text = table()
    print(text)
    PAGE.write_text(TEXT + text, encoding="utf-8")


if __name__ == "__main__":
    main()
