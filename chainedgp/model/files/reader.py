"""Reading a saved model: from a JSON header and arrays, neither of them trusted, to contents."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
from paramz import Param, Parameterized
from paramz import transformations as tf

from ...data.columns import Columns
from ...inference.result import OptimizationResult, TracePoint
from ...kernels import Kernel
from ...likelihoods import Likelihood
from ...linalg import Array
from ...means import MeanFunction
from ...parameters.parts import Part, name_after
from ...parameters.priors import Prior
from ...posterior.choice import family_of
from ...predictive.constants import DRAWS, Constants
from .archive import FileFormatError, Header, Json
from .classes import MOST_LEAVES, MOST_LEVELS, MOST_PARTS, SHIPPED, Classes, signature_of
from .contents import Contents, StoredLeaf, StoredRows, restore_leaves

# Larger values of parameters in a file are refused: no fit has them, and their squares overflow.
LARGEST_VALUE = 1e150


class Reader:
    """Builds the contents of a saved model from header and arrays of its file, neither trusted.

    Nothing is built that would be larger than what the file holds: sizes are those of its arrays.
    """

    def __init__(self, arrays: dict[str, Array], own: Classes) -> None:
        self.arrays, self.own = arrays, own
        self.columns = 0  # columns of X, known once Z is read
        # This is how many more parameters the parts may have.
        self.room = sum(array.size for array in arrays.values())
        self.parts, self.level = 0, 0  # parts built so far, and how deep inside each other
        # An integer argument of a constructor may be a size: none needs more than the file has
        # leaves.
        self.largest_int = MOST_LEAVES

    def model(self, stored: Header) -> Contents:
        """All that a file says of a model; nothing is built but its parts."""
        header: Any = stored  # may hold anything: whatever goes wrong is the file's fault
        leaves = {record["name"]: record for record in header["leaves"]}
        if len(header["leaves"]) > MOST_LEAVES:
            raise FileFormatError(f"it has more than {MOST_LEAVES} parameters.")
        Z = self._inducing(leaves, header["shared_Z"])
        self.largest_int = max(self.columns, 2 + len(leaves))
        likelihood = self.build(header["likelihood"])
        kernels, means = (
            [self.build(node) for node in header[key]] for key in ("kernels", "means")
        )
        b = len(likelihood.latents)
        for parts, kind in ((kernels, Kernel), (means, MeanFunction)):
            if len(parts) != b or not all(isinstance(part, kind) for part in parts):
                raise FileFormatError(f"it does not have a {kind.__name__} for each latent.")
        posterior = header.get("posterior", "mean_field")  # Format 1 had this one alone.
        if posterior not in ("mean_field", "joint"):
            raise FileFormatError(f"its posterior is {posterior!r}.")
        family = family_of(posterior, likelihood)
        sizes = [len(z) for z in (Z if isinstance(Z, list) else [Z] * b)]
        totals = [sum(group) for group in family.grouped(sizes)]
        if sum(M * (M + 1) // 2 for M in totals) > sum(a.size for a in self.arrays.values()):
            raise FileFormatError("q_sqrt is smaller than Z needs.")
        unknown = next((name for name in header["priors"] if name not in leaves), None)
        if unknown is not None:
            raise FileFormatError(f"there is a prior for {unknown!r}, which is no parameter.")
        columns, target = header.get("columns", {}), header.get("target_name")
        rows, sites = None, None
        if header["data"] is not None:
            rows = _with_numbers(StoredRows(**self._decode(header["data"])))
            if header["sites"] is not None:
                sites = self._array(header["sites"], (*family.site_shape(b), len(rows.X)))
        names = self._names(columns.get("_column_names"))
        return Contents(
            name=_of_type(header["name"], str, "name"),
            input_names=self._names(columns.get("input_names")),
            column_names=None if names is None else tuple(names),
            columns=self._read_columns(header.get("read"), names),
            target_name=None if target is None else _of_type(target, str, "target_name"),
            class_names=_class_names(header.get("class_names"), likelihood),
            jitter=header["jitter"],
            num_nodes=header["num_nodes"],
            posterior=posterior,
            ties=_of_type(header.get("ties", False), bool, "ties"),
            hyperparameters=_hyperparameters(header.get("hyperparameters", "fixed")),
            widening=self._widening(header.get("widening"), totals),
            of_targets=_of_type(header.get("of_targets", True), bool, "of_targets"),
            constants=self._constants(header.get("constants"), likelihood, sizes),
            open_inducing=_of_type(header.get("open_inducing", False), bool, "open_inducing"),
            likelihood=likelihood,
            kernels=kernels,
            means=means,
            Z=Z,
            leaves=self._leaves(header["leaves"]),
            hyperpriors=self._priors(header["priors"], leaves),
            told=_told(header.get("told", []), likelihood),
            rows=rows,
            sites=sites,
            result=None if header["result"] is None else self._result(header["result"]),
        )

    def _names(self, names: Any) -> list[str] | None:
        """Names of the columns of X in a saved model that was built with a data frame."""
        if names is None:
            return None
        strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not strings or len(names) != self.columns:
            raise FileFormatError(f"its columns have the names {names!r}.")
        return names

    def _widening(self, stored: Any, totals: list[int]) -> list[Array] | None:
        """Roots of what bands add to the covariance of q of each group, read from a file.

        totals : the number of inducing values of each group.
        """
        if stored is None:
            return None
        roots = [self._array(reference) for reference in stored]
        for root, M in zip(roots, totals, strict=True):
            shaped = root.ndim == 2 and len(root) == M
            # The comparison is false for NaN.
            if not shaped or not (np.abs(root) <= LARGEST_VALUE).all():
                raise FileFormatError("the widening of q is not of q's size, or not finite.")
        return roots

    def _constants(self, stored: Any, likelihood: Likelihood, sizes: list[int]) -> Constants | None:
        """How own constants of the likelihood are uncertain, with latents of these sizes."""
        if stored is None:
            return None
        values = {key: self._array(each, (DRAWS,)) for key, each in stored["values"].items()}
        if not values or set(values) - set(likelihood.parameter_keys):
            raise FileFormatError(f"its uncertain constants are {', '.join(values) or 'none'}.")
        pairs = zip(stored["links"], sizes, strict=True)
        links = tuple(self._array(each, (M, len(values))) for each, M in pairs)
        for array in (*values.values(), *links):
            if not (np.abs(array) <= LARGEST_VALUE).all():  # false for NaN
                raise FileFormatError("its uncertain constants are not finite.")
        return Constants(values, links)

    def _read_columns(self, stored: Any, names: list[str] | None) -> Columns | None:
        """How a saved model reads the columns of frames, where some are no numbers."""
        if stored is None:
            return None
        columns = Columns.from_stored(stored)
        if names is None or list(columns.names) != names:
            raise FileFormatError("its columns are not read by their names.")
        return columns

    def _array(self, reference: Any, shape: tuple[int, ...] | None = None) -> Array:
        """The array behind a reference in a file; of floats and of this shape, if one is given."""
        array = self.arrays[reference["array"]]
        if shape is not None and (array.shape != shape or array.dtype != np.dtype("<f8")):
            raise FileFormatError(f"an array {array.shape} stands where one of {shape} belongs.")
        return array

    def _inducing(self, leaves: dict[str, Any], shared: bool) -> Array | list[Array]:
        """Z of a saved model as the constructor wants it; notes the number of columns."""
        names = ["Z"] if shared else [name for name in leaves if name.startswith("Z.")]
        Z = [self._array(leaves[name]["values"]) for name in names]
        if not Z or any(z.ndim != 2 or z.shape[1] != Z[0].shape[1] for z in Z):
            raise FileFormatError("Z is not (M, D).")
        self.columns = Z[0].shape[1]
        return Z[0] if shared else Z

    def _decode(self, value: Any) -> Any:
        """An argument of a part's constructor from the JSON of a file."""
        if not isinstance(value, dict):
            return value
        ((what, content),) = value.items()
        if what == "array":
            return self._array(value).copy()
        if what == "object":
            return self.build(content)
        if what == "dict":
            return {key: self._decode(v) for key, v in content.items()}
        return {"list": list, "tuple": tuple}[what](self._decode(v) for v in content)

    def _find(self, node: dict[str, Any]) -> Any:
        """The class of a part that a file names: ours, or one that the user gave."""
        key = (node["kind"], node["class"])
        if not node["own"] and key in SHIPPED:
            return SHIPPED[key]
        if node["own"] and key in self.own:
            return self.own[key]
        name = str(node["class"])
        if not node["own"]:
            raise FileFormatError(f"this version of chainedgp has no {key[0]} {name!r}.")
        raise FileFormatError(
            f"it uses the class {name!r} (a {key[0]}), which is not part of chainedgp: give it by "
            f"load(path, classes=({name if name.isidentifier() else '…'},))."
        )

    def build(self, stored: Json) -> Part:
        """Build a kernel, mean or likelihood that a file describes, by its constructor."""
        node: Any = stored
        cls, name = self._find(node), _identifier(node["name"])
        if not issubclass(cls, Parameterized):
            raise FileFormatError(f"{node['class']!r} is no part of a model.")
        self.parts, self.level = self.parts + 1, self.level + 1
        if self.parts > MOST_PARTS or self.level > MOST_LEVELS:
            raise FileFormatError("it has too many parts, or they are nested too deeply.")
        args = {key: self._decode(v) for key, v in node["args"].items()}
        self.level -= 1
        ints = [v for v in args.values() if isinstance(v, int)]
        too_large = not node["own"] and any(abs(v) > self.largest_int for v in ints)
        if too_large or args.get("input_dim", 0) > self.columns:
            raise FileFormatError(f"{node['class']} has an argument larger than the model.")
        signature = signature_of(cls)
        if "name" in signature and signature["name"].default is inspect.Parameter.empty:
            args["name"] = name
        part = cls(**args)
        part.name = _identifier(node.get("own_name", name))
        if "own_name" in node:
            name_after(part, name)
        self.room -= sum(leaf.size for leaf in part.parameters if isinstance(leaf, Param))
        if self.room < 0:
            raise FileFormatError("its parts have more parameters than it holds values.")
        if "leaves" in node:
            restore_leaves(part, self._leaves(node["leaves"]))
        return part

    def _leaves(self, records: list[dict[str, Any]]) -> list[StoredLeaf]:
        """Values, constraints and fixes of some parameters, read from a file."""
        if sum(len(record["constraints"]) for record in records) > 2 * MOST_LEAVES:
            raise FileFormatError("its parameters have too many constraints.")
        for record in records:
            values = self._array(record["values"])
            if not (np.abs(values) <= LARGEST_VALUE).all():  # The comparison is false for NaN.
                raise FileFormatError(f"{record['name']} has values that are not finite or huge.")
        return [
            StoredLeaf(
                record["name"],
                self._array(record["values"]),
                [
                    (self._constraint(what), None if index is None else self._array(index))
                    for what, index in record["constraints"]
                ],
            )
            for record in records
        ]

    def _constraint(self, node: Any) -> Any:
        """A constraint of a parameter read from a file: a transformation, or the mark of a fix."""
        if node is None:
            return tf.__fixed__
        cls = self._find(node)
        if not issubclass(cls, tf.Transformation):
            raise FileFormatError(f"{node['class']!r} is no constraint.")
        bounds = [float(v) for v in node["args"]]
        if bounds and not bounds[0] < bounds[1]:
            raise FileFormatError(f"the bounds of a constraint are out of order: {bounds}.")
        return cls(*bounds)

    def _priors(self, nodes: dict[str, Any], leaves: dict[str, Any]) -> dict[str, Prior]:
        """The hyperpriors of a saved model by the names of their parameters."""
        priors = {}
        for name, node in nodes.items():
            values = self._array(leaves[name]["values"])
            priors[name] = self._prior(node, values)
        return priors

    def _prior(self, node: dict[str, Any], values: Array) -> Prior:
        """A hyperprior read from a file, of a parameter of these values."""
        cls = self._find(node)
        if not issubclass(cls, Prior):
            raise FileFormatError(f"{node['class']!r} is no prior.")
        prior: Prior = cls(**self._decode(node["args"]))
        with np.errstate(all="ignore"):
            shape = np.shape(prior.log_density(values))
        if shape != values.shape and not node["own"]:
            raise FileFormatError(f"a prior {prior!r} stands where one of {values.size} belongs.")
        return prior

    def _result(self, node: dict[str, Any]) -> OptimizationResult:
        """How the last optimisation of a saved model ended; unknown fields are left out."""
        known = {f.name: f.type for f in dataclasses.fields(OptimizationResult)}
        fields = {key: self._decode(v) for key, v in node.items() if key in known}
        for key, value in fields.items():
            kind = str(known[key]).partition("[")[0]
            fits = type(value).__name__ == kind or (kind == "float" and type(value) is int)
            if key != "trace" and not fits:
                raise FileFormatError(f"the field {key} of the last result is {value!r}.")
        trace = self._array(node["trace"], (len(fields["trace"]), 4))
        points = [TracePoint(float(b), int(e), int(t), float(s)) for b, e, t, s in trace]
        return OptimizationResult(**{**fields, "trace": points})


def _identifier(name: Any) -> str:
    if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
        raise FileFormatError(f"a part has the name {name!r}.")
    return name


def _hyperparameters(value: Any) -> str:
    if value not in ("auto", "uncertain", "fixed"):
        raise FileFormatError(f"its hyperparameters are {value!r}.")
    return str(value)


def _class_names(names: Any, likelihood: Any) -> tuple[str, ...] | None:
    """Labels of the classes in a saved model; a file without them has codes alone."""
    if names is None:
        return None
    strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not strings or len({*names}) != likelihood.target_support.num_classes:
        raise FileFormatError(f"its classes have the names {names!r}.")
    return tuple(names)


def _with_numbers(rows: StoredRows) -> StoredRows:
    """Stored rows, whose numbers in the table that they are from are checked."""
    kept, given = rows.kept, rows.num_given
    if kept is None:
        return rows
    numbers = isinstance(kept, np.ndarray) and kept.dtype.kind == "i" and type(given) is int
    if (
        not numbers
        or kept.shape != (len(rows.X),)
        or not (np.diff(kept, prepend=-1, append=given) > 0).all()
    ):
        raise FileFormatError("its rows are not rows of a table.")
    return rows


def _told(names: Any, likelihood: Any) -> tuple[str, ...]:
    """Names of the metadata that the rows of a saved model had, where these are not in the file."""
    if not isinstance(names, list) or not set(map(str, names)) <= set(likelihood.metadata_names):
        raise FileFormatError(f"its rows had the metadata {names!r}.")
    return tuple(map(str, names))


def _of_type(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise FileFormatError(f"{name} is {value!r}, not a {kind.__name__}.")
    return value
