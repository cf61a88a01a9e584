"""Derivatives of densities by finite differences, for likelihoods whose author gives none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..data.types import Value

SHORTEST = 1e-14  # A step of a finite difference that is this short is not shortened any more.


At = TypeVar("At", float, np.ndarray, Value)


def difference(function: Callable[[At], np.ndarray], x: At, step: Value) -> np.ndarray:
    """The derivative of a density by a central difference of fourth order, error step⁴/30·f⁽⁵⁾.

    It is 0 where the function is not finite (−inf: outside the support). The step grows with
    |x| only as far as rounding of x asks for. It is divided by 100 where it proves too long, as
    for the location of targets that vary by less: differences over one and two steps then
    disagree.
    """
    h = step + 1e-8 * np.abs(x)
    with np.errstate(all="ignore"):
        near = (function(x + h) - function(x - h)) / (2.0 * h)
        far = (function(x + 2.0 * h) - function(x - 2.0 * h)) / (4.0 * h)
        gap = np.abs(near - far)
        rough = (gap > 1e-3 * (np.abs(near) + np.abs(far))) & (gap * h > 1e-8)
        if step > SHORTEST and np.mean(rough) > 0.25:
            return difference(function, x, 0.01 * step)
        total = (4.0 * near - far) / 3.0
    return np.where(np.isfinite(total), total, 0.0)


def differences(
    function: Callable[..., np.ndarray | tuple[np.ndarray, ...]],
    arguments: Sequence[np.ndarray],
    step: float,
    own: bool = False,
) -> tuple[np.ndarray, ...]:
    """Derivatives of a density in each of its latents by finite differences.

    own: the function returns one array for each argument, and that of the j-th is
    differentiated in the j-th argument alone.
    """

    def along(j: int) -> np.ndarray:
        def moved(x: np.ndarray) -> np.ndarray:
            value: Any = function(*arguments[:j], x, *arguments[j + 1 :])
            return value[j] if own else value

        return difference(moved, arguments[j], step)

    return tuple(along(j) for j in range(len(arguments)))
