"""A fitted model in words: a table of its parameters, and what to look at before trusting it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from paramz.transformations import __fixed__

from ..data.arguments import as_generator, positive_int
from ..data.tables import Table
from . import questions as asked
from .evidence import Evidence, Finding

__all__ = ["Check", "Finding", "check", "summary"]

ROWS = 1000
ALWAYS = (asked.convergence, asked.scaling)
ONCE_FITTED = (
    asked.quadrature,
    asked.negative_sites,
    asked.pareto_k,
    asked.calibration,
    asked.outliers,
    asked.inducing_inputs,
    asked.hyperparameters,
    asked.noise,
)
WORDS = {"problem": "PROBLEM", "look": "look", "ok": "ok"}
WIDTH = 100


@dataclass(frozen=True, repr=False)
class Check:
    """Findings about a fit; prints them in words, the worst first.

    Attributes
    ----------
    findings : one `Finding` for each question, in the order they were asked. `check["pareto_k"]`
        is the one of that name.
    capped : where work was cut short, and by how much.
    name : of the model.
    """

    findings: tuple[Finding, ...]
    capped: tuple[str, ...]
    name: str

    def __getitem__(self, name: str) -> Finding:
        return {finding.name: finding for finding in self.findings}[name]

    def of_level(self, level: str) -> tuple[Finding, ...]:
        """The findings of a level: "problem", "look" or "ok"."""
        return tuple(finding for finding in self.findings if finding.level == level)

    @property
    def ok(self) -> bool:
        """Whether there is nothing to look at."""
        return len(self.of_level("ok")) == len(self.findings)

    def __str__(self) -> str:
        counts = [f"{len(self.of_level(level))} {word}" for level, word in WORDS.items()]
        lines = [f"Check of {self.name}: {', '.join(counts)}"]
        for level, word in WORDS.items():
            for finding in self.of_level(level):
                lines.append(_wrapped(f"{word:<8}", f"{finding.name}: {finding.message}"))
                for title, text in (("why", finding.cause), ("do", finding.remedy)):
                    lines += [_wrapped(f"{'':<8} {title}: ", text)] if text else []
        lines += [_wrapped("partial ", text) for text in self.capped]
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(first: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"{first} ", subsequent_indent=" " * 13)


def check(model: Any, rows: int = ROWS, rng: Any = 0) -> Check:
    """Ask what a careful statistician would ask of a fit; see `ChainedGP.check`."""
    evidence = Evidence(model, positive_int(rows, "rows"), as_generator(rng))
    findings = [question(evidence) for question in ALWAYS]
    if findings[0].level != "problem" or hasattr(model, "last_result"):
        findings += [question(evidence) for question in ONCE_FITTED]
    else:
        evidence.capped.append("all else: it makes sense once the model is fitted")
    return Check(tuple(findings), tuple(evidence.capped), model.name)


def summary(model: Any) -> Table:
    """The parameters as a table; see `ChainedGP.summary`."""
    model.log_likelihood()
    title = dict(model._header())
    if model.input_names is not None:
        title["Inputs"] = ", ".join(map(str, model.input_names))
    result = getattr(model, "last_result", None)
    title["Last fit"] = "none" if result is None else str(result)
    large = [id(leaf) for part in (model.Z, model.q_mu, model.q_sqrt) for leaf in _leaves(part)]
    index: list[str] = []
    cells: list[tuple[float, str, bool, str]] = []
    for name, leaf in model._named_leaves().items():
        if id(leaf) in large:
            continue
        words, fixed = np.full(leaf.size, "", dtype=object), np.zeros(leaf.size, dtype=bool)
        for constraint, entries in leaf.constraints.items():
            if constraint == __fixed__:
                fixed[entries] = True
            else:
                words[entries] = str(constraint).strip()
        entries = getattr(leaf, "_names", lambda: None)() or range(leaf.size)
        index += [name] if leaf.size == 1 else [f"{name}[{entry}]" for entry in entries]
        prior = str(model.hyperpriors.get(name, ""))
        cells += [
            (float(value), words[i], bool(fixed[i]), prior)
            for i, value in enumerate(np.ravel(leaf.values))
        ]
    kinds = {"value": float, "constraint": object, "fixed": bool, "prior": object}
    columns = {
        key: np.array([row[i] for row in cells], dtype=kind)
        for i, (key, kind) in enumerate(kinds.items())
    }
    return Table(tuple(index), columns, {}, title=title)


def _leaves(part: Any) -> list[Any]:
    return list(part.flattened_parameters) if hasattr(part, "flattened_parameters") else [part]
