"""Step rules of the stochastic optimisers: each turns a gradient into a step, elementwise."""

from __future__ import annotations

import numpy as np

from ..linalg import Array


class StepRule:
    """A step rule of a stochastic optimiser, with memory; `learning_rate` is its default step."""

    learning_rate = 0.01

    def step(self, gradient: Array) -> Array:
        """The direction of the step, before the learning rate is applied; shape of the gradient."""
        raise NotImplementedError


class Adam(StepRule):
    """The step rule Adam, Kingma & Ba (2015): m̂ / √v̂ of bias-corrected running moments."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.99) -> None:
        self.beta1, self.beta2, self.count = beta1, beta2, 0
        self.m: Array | float = 0.0
        self.v: Array | float = 0.0

    def step(self, gradient: Array) -> Array:
        """The direction of Adam's step, m̂ / (√v̂ + 1e-8)."""
        self.count += 1
        self.m = self.beta1 * self.m + (1.0 - self.beta1) * gradient
        self.v = self.beta2 * self.v + (1.0 - self.beta2) * gradient**2
        m_hat = self.m / (1.0 - self.beta1**self.count)
        v_hat = self.v / (1.0 - self.beta2**self.count)
        return m_hat / (np.sqrt(v_hat) + 1e-8)


class RMSProp(StepRule):
    """The step rule RMSProp, Tieleman & Hinton (2012): g / √(running mean of g²)."""

    def __init__(self, decay: float = 0.9) -> None:
        self.decay = decay
        self.v: Array | None = None

    def step(self, gradient: Array) -> Array:
        """The direction of RMSProp's step, g / (√v + 1e-8); the first mean is the first square."""
        square = gradient**2
        self.v = square if self.v is None else self.decay * self.v + (1.0 - self.decay) * square
        return gradient / (np.sqrt(self.v) + 1e-8)


class AdaGrad(StepRule):
    """The step rule AdaGrad, Duchi et al. (2011): g / √(sum of all g²)."""

    learning_rate = 0.1

    def __init__(self) -> None:
        self.v: Array | float = 0.0

    def step(self, gradient: Array) -> Array:
        """The direction of AdaGrad's step, g / (√Σg² + 1e-8)."""
        self.v = self.v + gradient**2
        return gradient / (np.sqrt(self.v) + 1e-8)


RULES: dict[str, type[StepRule]] = {
    "adam": Adam,
    "rmsprop": RMSProp,
    "adagrad": AdaGrad,
}
