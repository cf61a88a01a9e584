"""What becomes of random cases: a case makes an outcome with a name.

A model is built, evaluated, fitted, asked for predictions and draws, saved and loaded. It fails
where a number is NaN, the bound or a prediction infinite, a variance negative, the data changed,
where the loaded model predicts other bits, a warning that is not the package's own escapes, it
takes over 60 s of one core, or an error comes that no rule of `torture_cases` allows.

Infinite predictions are allowed where documented: a mean or variance with a MomentWarning; a
quantile or a draw where the latents, a logarithm of the target, have mass beyond e^300, a shape or
degrees of freedom below e^-5 or the sigma of a logarithm above e^5, or where the fit has stopped
because a noise vanishes.

A fit is scored by its NLPD at the rows it was fitted to, against constant latents of maximum
likelihood. These rows, since there a theorem holds: the model with kernel variances of 0 is the
constant one, so the best bound is no lower than its log-likelihood, and the predictive density, by
Jensen's inequality, no lower than the bound. A worse score is a fault of the fit and not of luck,
whatever the data. Where constant latents have no finite maximum (a noise of 0 fits all targets)
there is nothing to compare with: `no finite optimum of constants`.

    python tests/torture/torture.py --cases 2000 --record torture.jsonl --output torture.md
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from torture_cases import FAMILIES, STEP_RULES, Array, Case, expected_error, make_case

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning, InputError, MomentWarning, NumericalError

LIMIT = 60.0  # seconds
WORSE = 0.05  # nats a row that a fit may score below constant latents
PRIORS_COST = 0.5  # Priors may cost the rows of a model so many nats in all.


@dataclass
class Outcome:
    """What became of a case: `name` is counted, `detail` tells of a failure."""

    seed: int
    likelihood: str
    method: str
    rows: int
    name: str = ""
    stage: str = ""
    detail: str = ""
    seconds: float = 0.0
    gap: float | None = None  # NLPD above that of constant latents
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.name.startswith("FAILED")


class Broken(Exception):
    """A promise was not kept."""


# ---- running it ----------------------------------------------------------------------------------


def run_case(case: Case) -> Outcome:
    """Do all there is to do with a model; never raises."""
    out = Outcome(case.seed, case.likelihood, case.method, len(case.Y))
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            _run(case, out)
        except Broken as fault:
            out.name, out.detail = f"FAILED: {fault.args[0]}", " ".join(map(str, fault.args[1:]))
        except Exception as error:
            out.name = f"FAILED: {type(error).__name__} not allowed"
            out.detail = str(error)[:300]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    out.seconds = round(time.process_time() - start, 3)
    stray = [w for w in caught if not issubclass(w.category, ChainedGPWarning)]
    out.notes += sorted({w.category.__name__ for w in caught})
    if stray and not out.failed:
        where = f"{Path(stray[0].filename).name}:{stray[0].lineno}"
        out.name, out.detail = "FAILED: stray warning", f"{stray[0].message} ({where})"
    return out


def _too_long(*_: Any) -> None:
    raise Broken("over 60 s")


def _run(case: Case, out: Outcome) -> None:
    given = case.X.copy(), case.Y.copy(), {k: v.copy() for k, v in case.metadata.items()}
    likelihood = FAMILIES[case.likelihood][0]()
    m = _stage(case, out, "construct", lambda: cgp.ChainedGP(
        case.X, case.Y, likelihood, case.kernels, case.Z, case.means, case.metadata,
        case.num_inducing, num_threads=1))  # fmt: skip
    if m is None:
        return
    start = [mean.evaluate(m.X[:1])[0][0] for mean in m.mean_functions]
    bound = _stage(case, out, "evaluate", m.log_likelihood)
    if bound is not None and not np.isfinite(bound):
        raise Broken("bound not finite", bound)
    result = _stage(case, out, "fit", lambda: m.optimize(messages=False, **case.options))
    if result is None:
        return
    if not np.isfinite(result.bound):
        raise Broken("bound not finite", result.bound)
    _stage(case, out, "predict", lambda: _check_predictions(m, case))
    _stage(case, out, "save", lambda: _check_file(m, case))
    _check_data(m, case, given)
    out.name = result.status if "limit" not in result.reason else "stopped: a noise vanishes"
    _stage(case, out, "score", lambda: _check_score(m, case, np.array(start), out))


def _stage(case: Case, out: Outcome, stage: str, work: Callable[[], Any]) -> Any:
    """The result of a stage; None, and the outcome's name, where a rule allows its error."""
    rule = expected_error(case, stage)
    out.stage = stage
    try:
        result = work()
    except (InputError, NumericalError) as error:
        if rule is None or not isinstance(error, rule[1]):
            raise
        out.name, out.detail = f"refused: {rule[0]}", str(error)[:300]
        return None
    if rule is not None and rule[2]:
        raise Broken("no error", rule[0])
    return result


def _check_data(m: Any, case: Case, given: Any) -> None:
    X, Y, metadata = given
    kept = [(case.X, X), (case.Y, Y), (m.X, X), (m.Y[:, 0], Y)]
    kept += [(case.metadata[k], v) for k, v in metadata.items()]
    kept += [(m.Y_metadata[k], v) for k, v in metadata.items()]
    if not all(np.array_equal(a, b) for a, b in kept):
        raise Broken("data changed")


def _questions(case: Case) -> tuple[Array, dict[str, Array]]:
    """Rows to predict at: some of the data, between and far beyond them."""
    rows = np.unique(np.linspace(0, len(case.X) - 1, 12).astype(int))
    X = case.X[rows]
    metadata = {k: np.r_[v[rows], v[rows], v[rows]] for k, v in case.metadata.items()
                if k in ("exposure", "trials")}  # fmt: skip
    return np.vstack([X, 0.5 * (X + X[::-1]), 1e3 * X]), metadata


def _check_predictions(m: Any, case: Case) -> bool:
    X, metadata = _questions(case)
    f, v = m.predict_latents(X)
    if not np.isfinite(f).all() or not np.isfinite(v).all():
        raise Broken("latents not finite")
    if (v < 0.0).any():
        raise Broken("negative variance", v.min())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if (m.likelihood.target_support.num_classes or 0) > 2:
            law = m.predictive(X, metadata)  # Several classes have no mean, but their codes do.
            moments = law.mean, law.variance
        else:
            moments = m.predict(X, metadata)
    told = any(issubclass(w.category, MomentWarning) for w in caught)
    for w in caught:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    if any(np.isnan(part).any() for part in moments) or (moments[1] < 0.0).any():
        raise Broken("moment NaN or negative", *moments)
    if not told and not all(np.isfinite(part).all() for part in moments):
        raise Broken("moment infinite without a warning")
    vanishes = "limit" in m.last_result.reason
    huge = vanishes or (np.abs(f) + 7.0 * np.sqrt(v)).max() > 300.0
    for j, latent in enumerate(m.latents):  # y is of the size of exp(1 / shape) or of exp(sigma)
        sign = {"log_shape": -1.0, "log_nu": -1.0, "log_sigma": 1.0}.get(latent, 0.0)
        huge |= bool((sign * f[:, j] + abs(sign) * 7.0 * np.sqrt(v[:, j])).max() > 5.0)
    huge |= m.likelihood.parameter_values().get("log_shape", 0.0) < -5.0
    quantiles = np.hstack(m.predict_quantiles(X, (2.5, 50.0, 97.5), metadata))
    draws = m.posterior_samples(X, 3, 0, metadata)
    for what, values in (("quantile", quantiles), ("draw", draws)):
        if np.isnan(values).any() or not (huge or np.isfinite(values).all()):
            raise Broken(f"{what} not finite")
    if (quantiles[:, 1:] < quantiles[:, :-1]).any():
        raise Broken("quantiles cross")
    if not np.isfinite(m.posterior_samples_f(X, 2, 0)).all():
        raise Broken("draw of latents not finite")
    return True


def _check_file(m: Any, case: Case) -> bool:
    X, _ = _questions(case)
    with tempfile.TemporaryDirectory() as folder:
        m.save(Path(folder) / "m.npz")
        other = cgp.load(Path(folder) / "m.npz")
    for a, b in zip(m.predict_latents(X), other.predict_latents(X), strict=True):
        if not np.array_equal(a, b):
            raise Broken("loaded model predicts other bits", np.abs(a - b).max())
    return True


def _check_score(m: Any, case: Case, start: Array, out: Outcome) -> bool:
    metadata = {k: v for k, v in case.metadata.items() if k != "weights"}
    w = case.metadata.get("weights", np.ones(len(case.Y)))
    log_p = m.log_predictive_density(case.X, case.Y, metadata)[:, 0]
    if not np.isfinite(log_p).all():
        raise Broken("density not finite", f"{int((~np.isfinite(log_p)).sum())} rows", log_p.min())
    flat = constant_score(m.likelihood, case.Y, metadata, w, start, m.hyperpriors)
    if flat is None:
        out.name += ", no finite optimum of constants"
        return True
    out.gap = round(float(flat - (w @ log_p) / w.sum()), 6)
    worse = WORSE + (PRIORS_COST / w.sum() if m.hyperpriors else 0.0)
    if out.gap > worse and out.method in (*STEP_RULES, "natgrad"):
        out.name += " before it reached constants"  # after a given number of small steps
    elif out.gap > worse and out.method == "variational":
        out.name += ", q alone"  # at hyperparameters that were drawn
    elif out.gap > worse:
        raise Broken("worse than constant latents", f"{out.gap:.3f} ({m.last_result})")
    return True


# By domain of a parameter: to a number that is free, and back.
FREE: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "real": (float, float),
    "positive": (np.log, np.exp),
    "above_one": (lambda v: np.log(v - 1.0), lambda t: 1.0 + np.exp(t)),
    "tail_shape": (lambda v: logit((v + 0.5) / 1.5), lambda t: 1.5 * expit(t) - 0.5),
    "one_to_two": (lambda v: logit(v - 1.0), lambda t: 1.0 + expit(t)),
}


def constant_score(
    likelihood: Any,
    y: Array,
    metadata: dict[str, Array],
    w: Array,
    start: Array,
    priors: Mapping[str, Any] | None = None,
) -> float | None:
    """Largest weighted mean of log p(y | constants); None where it has no finite maximum.

    priors : of the model. A parameter of the likelihood that has one pays for leaving the value
        that the model found.
    """
    exact = y[(w > 0) & (metadata.get("censored", 0.0 * y) == 0.0) & ~np.isin(y, likelihood.atoms)]
    if likelihood.support in ("real", "positive", "unit") and exact.size and not np.ptp(exact):
        return None
    keys, values = likelihood.parameter_keys, likelihood.parameter_values()
    free = [FREE[likelihood._domain(key)] for key in keys]
    theta = [to_free(values[k]) for k, (to_free, _) in zip(keys, free, strict=True)]
    origin = np.array([*likelihood.initial_latents(y, **values, **metadata), *theta])
    unit = np.ones(len(origin))
    if likelihood.support == "real":  # a latent in the units of y
        unit[0] = y.std() or 1.0

    known = [(priors or {}).get(f"likelihood.{key}") for key in keys]

    def gain(tail: list[float]) -> float:
        """What priors of the parameters gain, per row, against the values of the model."""
        pairs = zip(known, tail, (values[key] for key in keys), strict=True)
        each = [
            prior.log_density(np.array([new]))[0] - prior.log_density(np.array([old]))[0]
            for prior, new, old in pairs
            if prior is not None
        ]
        return float(sum(each)) / w.sum()

    def loss(z: Array, reach: float) -> float:
        x = origin + unit * z
        tail = [back(t) for t, (_, back) in zip(x[len(start) :], free, strict=True)]
        latents = [np.full(len(y), c) for c in x[: len(start)]]
        kw = {**metadata, **dict(zip(keys, tail, strict=True))}
        value = (w @ likelihood.log_density(y, *latents, **kw)) / w.sum() + gain(tail)
        return -value if np.isfinite(value) and np.abs(z).max() <= reach else 1e300

    best, z = [], np.zeros(len(origin))
    with np.errstate(all="ignore"):
        for reach in (20.0, 30.0):
            for _ in range(2):  # a second simplex where the first collapsed
                z = minimize(loss, z, (reach,), "Nelder-Mead", options={"maxfev": 300}).x
            best.append(-loss(z, reach))
            if np.abs(z).max() < 15.0:
                break
    return None if best[-1] - best[0] > 0.3 else best[-1]


# ---- many of them --------------------------------------------------------------------------------


def run_many(seeds: range, record: Path | None = None, largest: int = 5000) -> list[Outcome]:
    """Outcomes of seeds in turn; those that stand in `record` (JSON lines) are not run again."""
    done: dict[int, Outcome] = {}
    if record is not None and record.exists():
        lines = record.read_text().splitlines()
        done = {o.seed: o for o in (Outcome(**json.loads(line)) for line in lines)}
    for seed in seeds:
        if seed not in done:
            done[seed] = run_case(make_case(seed, largest))
            if record is not None:
                with record.open("a") as file:
                    file.write(json.dumps(done[seed].__dict__) + "\n")
    return [done[seed] for seed in seeds]


def report(outcomes: list[Outcome]) -> str:
    """Counts of all outcomes and the failures by seed, as Markdown."""
    counts = Counter(o.name for o in outcomes)
    lines = ["| outcome | cases | share |", "|---|---|---|"]
    lines += [f"| {name} | {k} | {k / len(outcomes):.1%} |" for name, k in sorted(counts.items())]
    seconds = [o.seconds for o in outcomes]
    gaps = [o.gap for o in outcomes if o.gap is not None]
    lines += ["", f"{len(outcomes)} cases; seconds: mean {np.mean(seconds):.2f}, largest "
              f"{max(seconds):.1f}; NLPD above constants: median {np.median(gaps or [0]):.3f}, "
              f"largest {max(gaps or [0]):.3f} ({len(gaps)} scored).", ""]  # fmt: skip
    lines += [f"- seed {o.seed}, {o.likelihood}, {o.method}, {o.rows} rows, {o.stage}: "
              f"{o.name} {o.detail}" for o in outcomes if o.failed]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Run torture cases and count their outcomes.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--record", type=Path, help="JSON lines; a run goes on where it stopped")
    parser.add_argument("--output", type=Path, help="Markdown with the counts")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.cases)
    text = report(run_many(seeds, arguments.record))
    if arguments.output:
        arguments.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
