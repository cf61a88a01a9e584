"""The mean field and the joint q against long MCMC: which latents are coupled?

    python benchmarks/families_against_mcmc.py [LIKELIHOOD …] [--output FILE.json]

For every likelihood of `tests/stored/mcmc.json` (80 rows, hyperparameters given, inducing inputs at
the rows; see `mcmc_reference.py`) the package finds q in both families. Prints the table of
docs/inference_truth.md, for both and for the joint q with the bands that default models have at
known hyperparameters ("joint, widened", `sampling.response`): the bound; the largest error of a
posterior mean, in posterior standard deviations; ratios of q's standard deviations to the
posterior's, least and median; over all rows and latents. Latents are called coupled where the joint
q is nearer to the posterior by more than 0.1, in the median sd ratio of a latent or in the largest
error of a mean; `coupled` of a likelihood says so.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from chainedgp import ChainedGP, kernels, likelihoods, means

ROOT = Path(__file__).resolve().parent.parent
TRUTH = ROOT / "tests" / "stored" / "mcmc.json"
FAMILIES = ("mean_field", "joint")
ALL = (*FAMILIES, "widened")  # The last is the joint q with a wider covariance.
DECISIVE = 0.1  # of a standard deviation, in its ratio (median over rows) or in a mean (largest)


def make(name: str) -> likelihoods.Likelihood:
    """The likelihood of a case, with its default parameters; Softmax has three classes."""
    return likelihoods.Softmax(3) if name == "Softmax" else getattr(likelihoods, name)()


def fitted(name: str, case: dict[str, Any], posterior: Any) -> ChainedGP:
    """The model with Z = X and all hyperparameters as given; only q is found."""
    X, hidden = np.array(case["x"])[:, None], np.array(case["censored"], dtype=float)
    model = ChainedGP(
        X,
        np.array(case["y"]),
        make(name),
        kernels=[kernels.RBF(1, sd * sd, length) for _, sd, length in case["latents"]],
        mean_functions=[means.Constant(mean) for mean, _, _ in case["latents"]],
        Z=X,
        Y_metadata={"censored": hidden} if hidden.any() else None,
        num_threads=1,
        posterior="joint" if posterior == "widened" else posterior,
        hyperparameters="uncertain" if posterior == "widened" else "fixed",
    )
    for part in (model.kernels, model.mean_functions, model.likelihood, model.Z):
        part.fix()
    result = model.optimize(messages=False)
    if not result.converged:
        raise ArithmeticError(f"{name}, {posterior}: q was not found")
    return model


def distance(name: str, case: dict[str, Any], posterior: str) -> dict[str, Any]:
    """The figures of one family; errors and ratios by latent."""
    model = fitted(name, case, posterior)
    mean, variance = model.predict_latents(model.X)
    true_mean, true_sd = np.array(case["mean"]), np.array(case["sd"])
    error, ratio = np.abs(mean.T - true_mean) / true_sd, np.sqrt(variance.T) / true_sd
    return {
        "bound": round(float(model.log_likelihood()), 3),
        "error": np.round(error.max(axis=1), 3).tolist(),
        "least": np.round(ratio.min(axis=1), 3).tolist(),
        "median": np.round(np.median(ratio, axis=1), 3).tolist(),
    }


def coupled(found: dict[str, dict[str, Any]]) -> bool:
    """Whether the joint q is nearer to the posterior by what is decisive."""
    one, both = (found[name] for name in FAMILIES)
    nearer = np.abs(1.0 - np.array(one["median"])) - np.abs(1.0 - np.array(both["median"]))
    return bool(max(nearer.max(), max(one["error"]) - max(both["error"])) > DECISIVE)


def table(whole: dict[str, dict[str, Any]]) -> str:
    """Markdown: both families side by side, latents separated by spaces."""
    lines = [
        "| likelihood | q | bound | largest error of a mean | least sd ratio | median sd ratio "
        "| coupled |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in whole.items():
        for family in ALL:
            row = found[family]
            cells = [" ".join(f"{x:.2f}" for x in row[key]) for key in ("error", "least", "median")]
            said = ("yes" if coupled(found) else "no") if family == "joint" else ""
            words = "joint, widened" if family == "widened" else family.replace("_", " ")
            lines.append(
                f"| {name} | {words} | {row['bound']:.2f} | {' | '.join(cells)} | {said} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("likelihoods", nargs="*", metavar="likelihood")
    parser.add_argument("--output", type=Path, help="where to write the figures, as JSON")
    options = parser.parse_args()
    truth = json.loads(TRUTH.read_text("utf-8"))
    whole = {}
    for name in options.likelihoods or truth:
        whole[name] = {family: distance(name, truth[name], family) for family in ALL}
        print(table({name: whole[name]}).splitlines()[-3:], flush=True)
    if options.output is not None:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in whole.items())
        options.output.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(table(whole))


if __name__ == "__main__":
    main()
