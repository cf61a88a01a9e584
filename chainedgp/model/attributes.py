"""What to do in the place of reading or setting an attribute that a model does not have."""

from __future__ import annotations

import inspect

from paramz import Model

from ..data.names import OF_MODELS, meant


def not_there(model: Model, name: str) -> str:
    """The error for an attribute that a model does not have, and other libraries may have."""
    if name in OF_MODELS:
        return f"a model has no {name!r}; here it is {OF_MODELS[name].rstrip(',')}."
    words = f"{type(model).__name__!r} object has no attribute {name!r}"
    kernels = vars(model).get("kernels", ()) if name[0] != "_" else ()
    for latent, kernel in zip(model.latents if kernels else (), kernels, strict=False):
        if any(part.name == name for part in (kernel, *getattr(kernel, "parts", ()))):
            return f"{words}; each latent has kernels of its own: m.kernels.{latent}."
    return words


def not_to_be_set(model: Model, attribute: str) -> str:
    """The error for an attribute that cannot be set on a model: what to do in its place."""
    arguments = inspect.signature(type(model).__init__).parameters
    public = [name for name in (*vars(model), *dir(type(model))) if name[0] != "_"]
    found = meant(attribute, [*arguments, *public])
    words = f"a model has no attribute {attribute!r} to be set"
    if attribute in ("X", "Y"):
        return f"m.{attribute} cannot be set: m.set_data(X, Y) replaces rows, m.update(X, Y) adds."
    if attribute in arguments:
        return (
            f"{words}: it is an argument of the constructor. Build a new model, "
            f"ChainedGP(X, Y, …, {attribute}=…)."
        )
    if hasattr(type(model), attribute):
        return f"m.{attribute} cannot be set: it follows from the model's other parts."
    hint = "" if found is None else f" Did you mean {found!r}?"
    return f"{words}.{hint} Names that begin with _ are free for values of your own."
