"""The report of `m.check()`: answers to all questions about a fit, in words, the worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..data.arguments import as_generator, positive_int
from ..data.types import Seed
from ..inference.problem import Problem
from ..inference.result import OptimizationResult
from . import questions
from .questions.evidence import Evidence, Finding

ROWS = 1000  # Questions that look at single rows look at no more rows than this.
# The questions in ALWAYS are put to every model; those in ONCE_FITTED make sense after a fit.
ALWAYS = (questions.convergence, questions.scaling)
ONCE_FITTED = (
    questions.quadrature,
    questions.negative_sites,
    questions.posterior,
    questions.pareto_k,
    questions.calibration,
    questions.outliers,
    questions.inducing_inputs,
    questions.hyperparameters,
    questions.noise,
)
# The report prints each level of a finding as the word beside it here, the worst level first.
WORDS = {"problem": "PROBLEM", "look": "look", "ok": "ok"}
WIDTH = 100  # Lines of the printed report have at most this many characters.


@dataclass(frozen=True, repr=False)
class Check:
    """The findings of `m.check()` about a fit; prints them in words, the worst first.

    Attributes
    ----------
    findings : one `Finding` for each question, in the order they were asked. `check["pareto_k"]`
        is the finding of the question with that name.
    capped : a sentence for each question that was answered from some of the rows, or not at all.
    name : the name of the model.
    """

    findings: tuple[Finding, ...]
    capped: tuple[str, ...]
    name: str

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, name: str) -> Finding:
        return {finding.name: finding for finding in self.findings}[name]

    def of_level(self, level: str) -> tuple[Finding, ...]:
        """The findings of a check that have the level "problem", "look" or "ok"."""
        return tuple(finding for finding in self.findings if finding.level == level)

    @property
    def ok(self) -> bool:
        """Whether every finding of the check has the level "ok"."""
        return len(self.of_level("ok")) == len(self.findings)

    def __str__(self) -> str:
        counts = [f"{len(self.of_level(level))} {word}" for level, word in WORDS.items()]
        lines = [f"Check of {self.name}: {', '.join(counts)}"]
        for level, word in WORDS.items():
            for finding in self.of_level(level):
                lines.append(_wrapped(f"{word:<8}", f"{finding.name}: {finding.message}"))
                for title, text in (("why", finding.cause), ("do", finding.remedy)):
                    lines += [_wrapped(f"{'':<8} {title}:", text)] if text else []
        lines += [_wrapped("partial ", text) for text in self.capped]
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(first: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"{first} ", subsequent_indent=" " * 13)


def check(
    problem: Problem,
    result: OptimizationResult | None,
    input_names: Sequence[str] | None,
    rows: int = ROWS,
    rng: Seed = 0,
) -> Check:
    """Ask what a careful statistician would ask of a fit; see `ChainedGP.check` and `Evidence`."""
    most, generator = positive_int(rows, "rows"), as_generator(rng)
    evidence = Evidence(problem, result, input_names, most, generator)
    findings = [_in_the_table(question(evidence), problem) for question in ALWAYS]
    if findings[0].level != "problem" or result is not None:
        findings += [_in_the_table(question(evidence), problem) for question in ONCE_FITTED]
    else:
        evidence.capped.append("all other questions: they need a fitted model")
    return Check(tuple(findings), tuple(evidence.capped), problem.parameters.name)


def _in_the_table(finding: Finding, problem: Problem) -> Finding:
    """A finding whose "rows" are counted as in the user's table, with those that were left out."""
    if "rows" not in finding.values or problem.rows.kept is None:
        return finding
    rows = problem.rows.numbers[finding.values["rows"]]
    return replace(finding, values={**finding.values, "rows": rows})
