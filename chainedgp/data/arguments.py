"""Checks of arguments that are numbers or choices: every error names the argument and what came."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import TypeVar

import numpy as np

from ..errors import ChainedGPWarning, InputError, warn
from ..linalg import Array
from .types import Seed

Choice = TypeVar("Choice")
Number = int | float | np.integer | np.floating


def one_of(value: Choice, allowed: Collection[Choice], name: str) -> Choice:
    """Check an argument that must be one of the allowed choices; the error lists them."""
    if value not in allowed:
        listed = ", ".join(repr(a) for a in allowed)
        raise InputError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def positive_int(value: object, name: str) -> int:
    """Check an argument that must be an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be an integer of at least 1; got {value!r}.")
    return int(value)


def positive_float(value: object, name: str) -> float:
    """Check an argument that must be a positive finite number."""
    if isinstance(value, bool) or not (isinstance(value, Number) and 0.0 < value < np.inf):
        raise InputError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def fraction(value: object, name: str) -> float:
    """Check an argument that must be a float strictly between 0 and 1."""
    if not (isinstance(value, float | np.floating) and 0.0 < value < 1.0):
        raise InputError(f"{name} must be strictly between 0 and 1; got {value!r}.")
    return float(value)


def as_fractions(values: object, name: str) -> Array:
    """Check an argument of numbers strictly between 0 and 1: a scalar array or (k,)."""
    fractions = _numbers(values)
    if fractions.ndim > 1 or not (fractions.size and np.all((fractions > 0) & (fractions < 1))):
        raise InputError(
            f"{name} must be a number or a list of numbers strictly between 0 and 1; got "
            f"{values!r}. For percentages use predict_quantiles of the model."
        )
    return fractions


def as_percent(values: object, name: str) -> Array:
    """Check an argument of percentages; returns fractions (k,) and warns if all were below 1."""
    percent = np.atleast_1d(_numbers(values))
    inside = (percent > 0.0) & (percent < 100.0)
    if percent.ndim != 1 or not (percent.size and inside.all()):
        raise InputError(
            f"{name} must be percentages between 0 and 100 (not included); got {values!r}."
        )
    if (percent < 1.0).all():
        warn(
            f"{name} are percentages, and all of {values!r} are below 1: for the median write 50, "
            "not 0.5.",
            ChainedGPWarning,
        )
    return percent / 100.0


def as_band(bands: object) -> Array:
    """Check the argument `bands`, the two ends of a band in percent; returns fractions (2,)."""
    ends = as_percent(bands, "bands")
    if len(ends) != 2 or ends[0] >= ends[1]:
        raise InputError(f"bands must be two percentages, lower and upper; got {bands!r}.")
    return ends


def as_name(name: object) -> str:
    """Check a name given by the user: paramz and regular expressions need an ASCII identifier."""
    if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
        raise InputError(
            f"name must be an ASCII identifier (letters, digits, underscores); got {name!r}."
        )
    return name


def as_generator(rng: Seed) -> np.random.Generator:
    """Turn the argument `rng` (int, Generator or None for fresh entropy) into a numpy Generator."""
    if isinstance(rng, int | np.integer) and rng < 0:
        raise InputError(f"rng must not be negative where it is an int; got {rng}.")
    if rng is None or isinstance(rng, int | np.integer | np.random.Generator):
        return np.random.default_rng(rng)
    raise InputError(f"rng must be an int, a numpy Generator or None; got {type(rng).__name__}.")


def thread_count(num_threads: int | None) -> int:
    """Number of threads: the argument, else CHAINEDGP_NUM_THREADS, else one per usable core."""
    if num_threads is not None:
        return positive_int(num_threads, "num_threads")
    setting = os.environ.get("CHAINEDGP_NUM_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if not setting.isdigit() or int(setting) < 1:
        raise InputError(
            f"CHAINEDGP_NUM_THREADS must be an integer of at least 1; got {setting!r}."
        )
    return int(setting)


def shows_progress(messages: bool | None) -> bool:
    """Whether to show progress: as asked, else if it is seen in a terminal or notebook."""
    return (sys.stderr.isatty() or "ipykernel" in sys.modules) if messages is None else messages


def _numbers(values: object) -> Array:
    """Turn an argument into an array of floats; an empty array if it holds no numbers."""
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        return np.empty(0)
