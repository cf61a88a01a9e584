"""Distributions of scipy.stats by name: their parameters, links and supports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import expit

from ...data.types import ScipyFamily
from ...errors import InputError
from ...expectations.special import softplus
from ...linalg import Array

LINKS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "identity": ("{}", np.asarray),
    "exp": ("log_{}", np.exp),
    "logistic": ("logit_{}", expit),
    "unit": ("logit_{}", expit),
    "softplus": ("raw_{}", softplus),
}
"""The links by name: how the latent is called, and the function that gives the parameter."""


def find_family(name: str, given: object = None) -> ScipyFamily:
    """The scipy.stats distribution of that name; InputError if none, or if `given` is another."""
    from scipy import stats  # slow to import

    found = getattr(stats, name, None)
    known = isinstance(found, stats.rv_continuous | stats.rv_discrete)
    if known and (given is None or isinstance(given, str) or type(given) is type(found)):
        return found
    raise InputError(
        f"{given!r} is not a distribution that scipy.stats has by name: give, for example, "
        "scipy.stats.norm or 'norm', not a frozen one such as scipy.stats.norm(0, 1)."
    )


def checked_links(family: ScipyFamily, links: dict[str, str | float]) -> dict[str, str | float]:
    """Links of scipy.stats parameters, each a name of `LINKS` or a number; all shapes needed."""
    shapes = [p.strip() for p in (family.shapes or "").split(",") if p.strip()]
    known = [*shapes, "loc", *([] if hasattr(family, "pmf") else ["scale"])]
    wrong = [key for key in links if key not in known]
    missing = [key for key in shapes if key not in links]
    if wrong or missing:
        raise InputError(
            f"{family.name} has the parameters {', '.join(known)}: give a link for each (loc and "
            f"scale are optional); unknown: {wrong}, missing: {missing}."
        )
    return {key: _checked(key, link) for key, link in links.items()}


def _checked(key: str, link: object) -> str | float:
    """The link of a scipy.stats parameter: its name in `LINKS`, or a finite number."""
    if isinstance(link, str) and link in LINKS:
        return link
    if isinstance(link, int | float | np.number) and np.isfinite(link):
        return float(link)
    raise InputError(
        f"The link of {key} must be a number or one of {', '.join(LINKS)}; got {link!r}."
    )


def kind_of_support(
    tries: Sequence[tuple[float, float]], discrete: bool, name: str
) -> tuple[tuple[float, float], str]:
    """The support of a scipy.stats distribution: ends that do not move, else ∓inf, and kind.

    The kind is that around all supports that were tried.
    """
    ends = np.array(tries, dtype=float)
    ends = ends[~np.isnan(ends).any(axis=1)]
    if not len(ends):
        raise InputError(f"{name} has no support at these numbers: look at their signs.")
    least, fixed = float(ends[:, 0].min()), (ends == ends[0]).all(axis=0) & (len(ends) > 1)
    low, high = (float(end) for end in np.where(fixed, ends[0], (-np.inf, np.inf)))
    unit = (low, high) == (0.0, 1.0)
    if not discrete:
        return (low, high), "unit" if unit else "positive" if least >= 0.0 else "real"
    if not least >= 0.0:
        raise InputError(f"{name} has values below 0: only counts 0, 1, … can be used.")
    return (low, high), "binary" if unit else "counts"
