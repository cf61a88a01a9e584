"""Times of default fits with two to four latents, and of classes beside from_scipy's likelihoods.

    python benchmarks/class_or_scipy.py [--parts latents scipy] [--seed 0] [--only NAME …]

Data are those of simulated_sets.py: 500 rows, one input for an even seed and two for an odd one,
and 2,000 fresh rows. Printed are the processor time of a fit on one thread, that time in units of
a `HetGaussian` fit in the same run, the bound, and by how much the negative log predictive density
(NLPD) of the fresh rows exceeds that of the true functions. "latents" fits likelihoods of two to
four latents; "scipy" fits each class and `Likelihood.from_scipy` of the same distribution.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from simulated_sets import CASES, Case, Data, simulate

from chainedgp import ChainedGP, Likelihood
from chainedgp import likelihoods as L
from chainedgp.errors import ChainedGPWarning

PARTS = ("latents", "scipy")
TWO = ((0.0, 1.0, 1.0), (-1.5, 0.7, 1.5))
POSITIVE = ((2.0, 0.5, 1.0), (-2.0, 0.5, 1.5), (0.5, 0.5, 2.0), (1.8, 0.3, 2.0))
SHAPES = ((0.2, 0.5, 2.0), (0.2, 0.3, 2.0))
LATENTS = {
    "HetGaussian": CASES["HetGaussian"],
    "BoxCoxT": CASES["BoxCoxT"],
    "GEVShape": CASES["GEVShape"],
    "ZeroInflatedNegativeBinomial": CASES["ZeroInflatedNegativeBinomial"],
    "SHASH(skewness)": Case(partial(L.SHASH, skewness="latent"), (*TWO, SHAPES[0]), {"tail": 1.3}),
    "SHASH(skewness, tail)": Case(
        partial(L.SHASH, skewness="latent", tail="latent"), (*TWO, *SHAPES)
    ),
    "BoxCoxT(power, nu)": Case(partial(L.BoxCoxT, power="latent", nu="latent"), POSITIVE),
}
of_scipy = Likelihood.from_scipy
# scipy's shape c of a GEV has the opposite sign; the quantile of level 0.75 is that of kappa² = 3.
SCIPY: dict[str, Callable[[], Likelihood]] = {
    "GEV": lambda: of_scipy("genextreme", loc="identity", scale="exp", c="identity").with_constant(
        "c"
    ),
    "GeneralisedPareto": lambda: of_scipy(
        "genpareto", loc=0.0, scale="exp", c="identity"
    ).with_constant("c"),
    "AsymmetricLaplace": lambda: of_scipy(
        "laplace_asymmetric", loc="identity", scale="exp", kappa=np.sqrt(3.0)
    ),
    "VonMises": lambda: of_scipy("vonmises", loc="identity", kappa="exp"),
}


def fit(make: Callable[[], Likelihood], data: Data) -> tuple[float, float, float]:
    """Seconds of a default fit, its bound, and the excess of its NLPD."""
    start = time.process_time()
    model = ChainedGP(data.X, data.y, make(), Y_metadata=data.metadata, num_threads=1)
    bound = model.optimize(messages=False).bound
    seconds = time.process_time() - start
    scores = model.log_predictive_density(data.X_new, data.y_new, data.metadata_new)
    return seconds, bound, float(-np.mean(scores)) - data.nlpd


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of likelihoods")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ChainedGPWarning)
    parts, seed = options.parts, options.seed
    unit = fit(CASES["HetGaussian"].make, simulate(CASES["HetGaussian"], seed))[0]
    print(f"unit: {unit:.2f} s\n")
    print("| likelihood | units | seconds | bound | NLPD |\n|---|---|---|---|---|")
    tasks = [(name, case.make, case) for name, case in LATENTS.items() if "latents" in parts]
    for name, of_same in SCIPY.items():
        if "scipy" in parts:
            tasks.append((name, CASES[name].make, CASES[name]))
            tasks.append((f"{name}, from_scipy", of_same, CASES[name]))
    for name, make, case in tasks:
        if options.only and name.split(",")[0] not in options.only and name not in options.only:
            continue
        seconds, bound, excess = fit(make, simulate(case, seed))
        ratio = seconds / unit
        print(f"| {name} | {ratio:.1f} | {seconds:.1f} | {bound:.2f} | {excess:+.4f} |", flush=True)


if __name__ == "__main__":
    main()
