"""What the body of a likelihood class declares: slips are answered when the class is made."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..data.types import Keywords
from ..errors import InputError
from ..linalg import Array

# Other libraries call the log-density so.
OTHER_DENSITIES = ("log_prob", "logp", "logpdf", "logpmf", "log_pdf", "log_likelihood", "loglik")
# What these are called with before the latents; "" is nothing.
CALLED_WITH = {
    "conditional_mean": "",
    "conditional_variance": "",
    "cdf": "y",
    "ppf": "q",
    "log_survival": "t",
    "log_cdf": "t",
    "log_hazard": "t",
    "natural_parameters": "",
    "dlog_density": "y",
    "d2log_density": "y",
}
DICTS = {
    "parameters": "{'sigma': 1.0}, names with their starting values",
    "domains": "{'sigma': 'positive'}, names of parameters with where they may lie",
    "default_priors": "{'sigma': priors.Gamma(2.0, 0.1)}, names of parameters with their priors",
}
LISTS = {
    "positive_metadata": "('exposure',), names of metadata",
    "unbounded_metadata": "('y_upper',), names of metadata",
    "atoms": "(0.0,), values that have a probability of their own",
}


def check_declarations(cls: type, body: Mapping[str, object]) -> None:
    """Raise InputError for what the body of a class declares in the wrong form."""
    for name, (example, kind) in {
        **{name: (example, Mapping) for name, example in DICTS.items()},
        **{name: (example, Sequence) for name, example in LISTS.items()},
    }.items():
        value = body.get(name)
        other = isinstance(value, str) or (value is not None and not isinstance(value, kind))
        if other and not _computed(value):
            raise InputError(
                f"{cls.__name__}.{name} must be {'a dict' if kind is Mapping else 'a tuple'} such "
                f"as {example}; got {value!r}."
            )
    if "target_support" in body and not _computed(body["target_support"]):
        raise InputError(
            f"{cls.__name__}.target_support is computed from `support`: write support = "
            f"{body['target_support']!r}."
        )
    if "log_density" in body and not (callable(body["log_density"])):
        raise InputError(
            f"{cls.__name__}.log_density must be a method, log_density(self, y, *latents); got "
            f"{body['log_density']!r}."
        )


def check_parameter_names(
    owner: str, member: str, names: Iterable[str], known: Iterable[str]
) -> None:
    """Raise InputError for a domain or a prior of a parameter that a likelihood does not have."""
    declared = list(known)
    for name in names:
        if name not in declared:
            raise InputError(
                f"{owner}.{member} names {name!r}, which is no parameter: it has "
                f"{', '.join(declared) or 'none'}. Declare it with its starting value: "
                f"parameters = {{{name!r}: 1.0}}."
            )


def no_density(cls: type) -> InputError:
    """The error for a class that does not define its density."""
    name, found = cls.__name__, next((one for one in OTHER_DENSITIES if hasattr(cls, one)), None)
    way = "" if found is None else f" {name}.{found} is called log_density here: rename it."
    return InputError(
        f"{name} must define its log-density, log_density(self, y, *latents), the latents as "
        f"arrays that broadcast against y.{way}"
    )


def check_signatures(
    likelihood: object, names: Sequence[str], y: Array, latents: Sequence[Array], kw: Keywords
) -> None:
    """Raise InputError where a method cannot take what it will be called with."""
    for name, first in CALLED_WITH.items():
        method = getattr(likelihood, name)
        try:
            inspect.signature(method).bind(*([y] if first else []), *latents, **kw)
        except TypeError as error:
            given = ", ".join(filter(None, [first, *names, *(f"{k}=…" for k in kw)]))
            raise InputError(
                f"{type(likelihood).__name__}.{name} is called as {name}({given}), and cannot be: "
                f"{error}. Write def {name}(self{', ' * bool(given)}{given.replace('=…', '')})."
            ) from None


def _computed(value: object) -> bool:
    """Whether something in the body of a class computes a value, and is none itself."""
    return hasattr(value, "__get__") or isinstance(value, np.ndarray)
