"""Which classes a file of a model may name, and how their constructors are called again."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from paramz import Parameterized
from paramz import transformations as tf

from ... import kernels, likelihoods, means
from ...kernels import Kernel
from ...likelihoods import Likelihood
from ...means import MeanFunction
from ...parameters import domains, priors

# The most kernels, means and likelihoods in one file, and the most levels of nesting: the time that
# paramz takes grows with the square of the one and the cube of the other.
MOST_PARTS, MOST_LEVELS = 300, 20
MOST_LEAVES = 1000  # A model has at most so many parameter arrays, for the same reason.

# Classes that a file may name, by kind and name.
Classes = dict[tuple[str, str], type]

# A class is of the first kind whose base it has.
KINDS: dict[str, type] = {
    "likelihood": Likelihood,
    "kernel": Kernel,
    "mean": MeanFunction,
    "constraint": tf.Transformation,
    "prior": priors.Prior,
    "part": Parameterized,  # anything else, for example a kernel of GPy inside its adapter
}
# A file may name these constraints.
CONSTRAINTS = (
    domains.AboveOne,
    tf.Exponent,
    tf.Logexp,
    tf.Logistic,
    tf.NegativeExponent,
    tf.NegativeLogexp,
    tf.Square,
)


def kind_of(cls: type) -> str:
    """What a class makes of a model, one of `KINDS`; empty if nothing a model is made of."""
    return next((kind for kind, base in KINDS.items() if issubclass(cls, base)), "")


def table_of(classes: Iterable[type]) -> Classes:
    """Classes that a file may name, by kind and name."""
    return {(kind_of(cls), cls.__name__): cls for cls in classes}


def _exported() -> Iterable[type]:
    """The public classes of the package that a saved model can be made of."""
    for module in (kernels, likelihoods, means, priors):
        yield from (v for v in map(vars(module).get, module.__all__) if isinstance(v, type))


SHIPPED = table_of([*_exported(), *CONSTRAINTS])


def signature_of(cls: type) -> dict[str, inspect.Parameter]:
    """Arguments of a part's constructor, with those that it passes on by *args, **kw.

    Python gives such arguments to the next class in order of inheritance that has a constructor, so
    their names are those of that one: a user's subclass of RBF need not repeat them.
    """
    found: dict[str, inspect.Parameter] = {}
    for parent in cls.__mro__:
        if parent is Parameterized:
            break
        if "__init__" not in vars(parent):
            continue
        own = list(inspect.signature(parent.__init__).parameters.values())[1:]
        plain = [p for p in own if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        found = {**{p.name: p for p in plain}, **found}
        if len(plain) == len(own):
            break
    return found
