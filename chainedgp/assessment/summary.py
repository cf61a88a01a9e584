"""`m.summary()`: the parameters of a model as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from paramz.transformations import __fixed__

from ..data.tables import Table

__all__ = ["summary"]


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
