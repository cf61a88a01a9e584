"""The table that `m.summary()` prints: each parameter with its value, constraint and prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from paramz import Param
from paramz.transformations import __fixed__

from ..data.tables import Table
from ..parameters.leaves import InputParam, named_leaves
from ..parameters.paramz_model import ParamzModel


def summary(parameters: ParamzModel, left_out: Sequence[Param], title: Mapping[str, str]) -> Table:
    """List the parameters of a model as a table, a row for each entry; see `ChainedGP.summary`.

    left_out : leaves that are not listed. title : headings and values printed above the table.
    """
    large = [id(leaf) for leaf in left_out]
    index: list[str] = []
    cells: list[tuple[float, str, bool, str]] = []
    for name, leaf in named_leaves(parameters).items():
        if id(leaf) in large:
            continue
        words, fixed = np.full(leaf.size, "", dtype=object), np.zeros(leaf.size, dtype=bool)
        for constraint, entries in leaf.constraints.items():
            if constraint == __fixed__:
                fixed[entries] = True
            else:
                words[entries] = str(constraint).strip()
        named = leaf.entry_names() if isinstance(leaf, InputParam) else None
        entries = named or range(leaf.size)
        # Where X has several columns, the entry of a kernel names the column that the kernel reads.
        several = named is not None and len(getattr(parameters, "input_names", None) or ()) > 1
        plain = leaf.size == 1 and not several
        index += [name] if plain else [f"{name}[{entry}]" for entry in entries]
        prior = parameters.hyperpriors.get(name)
        cells += [
            (float(value), words[i], bool(fixed[i]), "" if prior is None else prior.words(i))
            for i, value in enumerate(np.ravel(leaf.values))
        ]
    kinds = {"value": float, "constraint": object, "fixed": bool, "prior": object}
    columns = {
        key: np.array([row[i] for row in cells], dtype=kind)
        for i, (key, kind) in enumerate(kinds.items())
    }
    return Table(tuple(index), columns, {}, title=title)
