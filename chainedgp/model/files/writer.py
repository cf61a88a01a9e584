"""Writing a saved model: from a model's contents to a JSON header and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from paramz import Param, Parameterized
from paramz import transformations as tf

from ..._version import __version__
from ...data.types import Data
from ...errors import InputError
from ...inference.result import OptimizationResult
from ...likelihoods import ConstantLatent
from ...linalg import Array
from .archive import Header, Json
from .classes import MOST_LEVELS, MOST_PARTS, SHIPPED, Classes, kind_of, signature_of
from .contents import Contents, StoredLeaf, StoredRows, leaves_of

# The version of the header: a reader refuses a newer one. Files of a mean field have 1, and every
# version reads them; a joint posterior needs 2, columns that are no numbers need 3.
FORMAT = 3


class Writer:
    """Turns the contents of a model into a JSON header, and collects the arrays it refers to."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.own: Classes = {}  # the user's classes that the model uses
        self.parts, self.level = 0, 0

    def _put(self, array: Data) -> dict[str, str]:
        """Keep an array for the file, and return the reference to it."""
        array = np.asarray(array)
        if array.dtype.kind not in "biuf":
            raise InputError(f"an array of dtype {array.dtype} cannot be stored: make it numeric.")
        key = f"a{len(self.arrays)}"
        self.arrays[key] = array
        return {"array": key}

    def _encode(self, value: object) -> Json:
        """An argument of a part's constructor as JSON."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray):
            return self._put(value)
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self._encode(v) for v in value]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self._encode(v) for key, v in value.items()}}
        if isinstance(value, Parameterized):
            return {"object": self._node(value)}
        raise InputError(f"a value of type {type(value).__name__} cannot be stored: {value!r}.")

    def _class_of(self, obj: object) -> Header:
        """How the class of a part is found again when a file is loaded."""
        cls = type(obj)
        key = (kind_of(cls), cls.__name__)
        own = SHIPPED.get(key) is not cls
        if own and self.own.setdefault(key, cls) is not cls:
            raise InputError(f"the model has two classes of the name {cls.__name__}: rename one.")
        return {"class": cls.__name__, "kind": key[0], "own": own}

    def _node(self, obj: Parameterized) -> Header:
        """A kernel, mean or likelihood in the header: class, name and constructor's arguments."""
        self.parts, self.level = self.parts + 1, self.level + 1
        if self.parts > MOST_PARTS or self.level > MOST_LEVELS:
            raise InputError(
                f"a model of more than {MOST_PARTS} parts, or of parts nested deeper than "
                f"{MOST_LEVELS}, cannot be saved."
            )
        try:
            args = {key: self._encode(v) for key, v in _arguments(obj).items()}
            self.level -= 1
        except InputError as error:
            raise InputError(f"{type(obj).__name__} cannot be saved: {error}") from None
        node = {**self._class_of(obj), "name": obj.name, "args": args}
        if "own_name" in vars(obj):  # its name in a model is that of its latent
            node["own_name"] = obj.own_name
        # a part inside another one, but not linked to it, keeps leaves of its own
        if obj._parent_ is None and obj.size:
            node["leaves"] = self._leaves(leaves_of(obj))
        return node

    def _leaves(self, leaves: Iterable[StoredLeaf]) -> Json:
        """Values, constraints and fixes of some parameters in the header of a file."""
        return [
            {
                "name": leaf.name,
                "values": self._put(leaf.values),
                "constraints": [
                    [
                        None if what == tf.__fixed__ else self._constraint(what),
                        None if index is None else self._put(index),
                    ]
                    for what, index in leaf.constraints
                ],
            }
            for leaf in leaves
        ]

    def _constraint(self, what: tf.Transformation) -> Header:
        """A constraint in the header of a file; of paramz's, only Logistic takes arguments."""
        args = [what.lower, what.upper] if isinstance(what, tf.Logistic) else []
        return {**self._class_of(what), "args": args}

    def model(self, model: Contents) -> Header:
        """The header of the file that saves a model."""
        # What only some models have is left out for the others, whose files stay as they were, to
        # the last byte.
        named: Header = {}
        if model.class_names is not None:
            named["class_names"] = list(model.class_names)
        if model.columns is not None:
            named["read"] = [_plain(column) for column in model.columns.stored()]
        if model.told:
            named["told"] = list(model.told)
        older = 1 if model.posterior == "mean_field" else 2
        opened = {"open_inducing": True} if model.open_inducing else {}
        uncertain: Header = {}
        if model.hyperparameters != "fixed":
            uncertain["hyperparameters"] = model.hyperparameters
        if model.widening is not None:
            uncertain["widening"] = [self._put(root) for root in model.widening]
            uncertain["of_targets"] = model.of_targets
        if (known := model.constants) is not None:
            uncertain["constants"] = {
                "values": {key: self._put(values) for key, values in known.values.items()},
                "links": [self._put(link) for link in known.links],
            }
        return {
            "format": older if model.columns is None else FORMAT,
            "version": __version__,
            "name": model.name,
            "columns": {
                "input_names": _names(model.input_names),
                "_column_names": _names(model.column_names),
            },
            "target_name": None if model.target_name is None else str(model.target_name),
            **named,
            "jitter": model.jitter,
            "num_nodes": model.num_nodes,
            "posterior": model.posterior,
            "ties": model.ties,
            **opened,
            **uncertain,
            "likelihood": self._node(model.likelihood),
            "kernels": [self._node(kernel) for kernel in model.kernels],
            "means": [self._node(mean) for mean in model.means],
            "shared_Z": not isinstance(model.Z, list),
            "leaves": self._leaves(model.leaves),
            "priors": {
                name: {**self._class_of(prior), "args": self._encode(vars(prior))}
                for name, prior in model.hyperpriors.items()
            },
            "data": None if model.rows is None else self._rows(model.rows),
            "sites": None if model.sites is None else self._put(model.sites),
            "result": None if model.result is None else self._result(model.result),
        }

    def _rows(self, rows: StoredRows) -> Json:
        """The rows of a model in the header of a file; their numbers only if some were left out."""
        held = rows._asdict()
        if rows.kept is None:
            held = {key: held[key] for key in ("X", "Y", "Y_metadata")}
        return self._encode(held)

    def _result(self, result: OptimizationResult) -> Header:
        """How the last optimisation ended, in the header of a file."""
        fields = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
        return {
            key: self._encode(v) for key, v in {**fields, "trace": result.trace_array()}.items()
        }


def _plain(column: Mapping[str, object]) -> dict[str, Json]:
    """How a column of X is read, in what the JSON of a file has: texts, flags, lists of texts."""
    return {
        key: [str(level) for level in value]
        if isinstance(value, tuple)
        else value
        if isinstance(value, bool)
        else str(value)
        for key, value in column.items()
    }


def _names(names: Any) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _arguments(obj: Parameterized) -> dict[str, object]:
    """Arguments that build a saved part again, but for its name and for parameter values."""
    told = getattr(obj, "constructor_arguments", None)
    if told is not None:
        return dict(told())
    if type(obj) is ConstantLatent:
        return {
            "base": obj.base,
            "latent": obj._index,
            "value": None if obj._open else obj._start,
            "positive": obj._key if obj._positive else None,
        }
    arguments = {}
    for key, parameter in signature_of(type(obj)).items():
        if key == "name":
            continue
        value = getattr(obj, key, getattr(obj, f"_{key}", parameter.empty))
        if value is parameter.empty:
            raise InputError(
                f"the argument {key} of its constructor is not an attribute of the object; keep it "
                f"as self.{key}, or give all arguments by a method constructor_arguments(self)."
            )
        if not isinstance(value, Param):
            arguments[key] = value
        elif parameter.default is parameter.empty:
            arguments[key] = value.values.copy()
    return arguments
