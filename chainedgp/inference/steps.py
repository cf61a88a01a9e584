"""Steps on batches of rows: by elementwise rules on all parameters, or natural gradients on q."""

from __future__ import annotations

import numpy as np

from ..errors import NumericalError
from ..linalg import Array
from ..posterior.evaluator import Evaluator
from ..posterior.gaussian import Gaussian
from ..posterior.shards import Shard
from ..posterior.sums import Gram
from .problem import Problem

# A batch moves the natural parameters of q by this share ρ of the way to its own optimum.
NATURAL_STEP = 0.05
# Adam moves θ at this learning rate if the user gives none.
THETA_RATE = 0.005


class StepRule:
    """A step rule of a stochastic optimiser, with memory; `learning_rate` is its default step."""

    learning_rate = 0.01

    def step(self, gradient: Array) -> Array:
        """The direction of the step, before the learning rate is applied; shape of the gradient."""
        raise NotImplementedError


class Adam(StepRule):
    """The step rule Adam, Kingma & Ba (2015): m̂ / √v̂ of bias-corrected running moments."""

    beta1, beta2 = 0.9, 0.99

    def __init__(self) -> None:
        self.count = 0
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

    decay = 0.9

    def __init__(self) -> None:
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


class PlainSteps:
    """Stochastic steps by a plain rule on hyperparameters and q together, as in the paper."""

    def __init__(self, problem: Problem, method: str, rate: float | None) -> None:
        self.problem, self.method, self.rule = problem, method, RULES[method]()
        self.rate = rate or self.rule.learning_rate
        self.vector = problem.free_vector(with_q=True)
        self.x = self.vector.read()
        self.evaluator = Evaluator([], problem.evaluator.family)

    def step(self, shard: Shard, scale: float, decay: float) -> float:
        """Move by the gradient of a batch; returns the bound that the batch estimates."""
        problem, evaluator = self.problem, self.evaluator
        evaluator.set_hyperparameters(problem.parts.theta())
        evaluator.take(shard, scale)
        state = evaluator.evaluate(problem.parts.q(), gradient=True)
        evaluator.accept(0.0)
        if not np.isfinite(state.bound):
            raise NumericalError(
                f"{self.method}: the bound of a batch is not finite; use a smaller learning_rate."
            )
        problem.write_gradient(evaluator.gradient(state, sites_fixed=False), state)
        x = self.vector.read()
        self.vector.write(x + self.rate * decay * self.rule.step(self.vector.gradient()))
        self.x = self.vector.read()
        return state.bound

    def put_back(self) -> None:
        """Put θ and q of the last step into the leaves."""
        self.vector.write(self.x)


class NaturalSteps:
    """Stochastic steps: natural gradients on q, held by its natural parameters, and Adam on θ."""

    def __init__(self, problem: Problem, q: tuple[Gaussian, ...], rate: float | None) -> None:
        self.problem, self.q, self.gram = problem, q, Gram.of(q)
        self.rate, self.rule = rate or THETA_RATE, Adam()
        self.vector = problem.free_vector()
        self.point = self.vector.read(), q  # It is the point after the last whole step.
        self.evaluator = Evaluator([], problem.evaluator.family)
        self.evaluator.set_hyperparameters(problem.parts.theta())

    def step(self, shard: Shard, scale: float, decay: float) -> float:
        """Move q and θ by the gradients of a batch; returns the bound that the batch estimates."""
        evaluator = self.evaluator
        evaluator.take(shard, scale)
        state = evaluator.evaluate(self.q, self.gram, gradient=True)
        self.problem.write_gradient(evaluator.gradient(state, sites_fixed=False))
        slopes = self.vector.gradient()
        if np.isfinite([state.bound, *slopes]).all():  # Else the batch is skipped.
            self._move_q(state.proposal(), NATURAL_STEP * decay)
            self._move_theta(self.rate * decay * self.rule.step(slopes))
            self.point = self.vector.read(), self.q
        return state.bound

    def put_back(self) -> None:
        """Put θ and q of the last whole step into the leaves."""
        x, q = self.point
        self.vector.write(x)
        self.problem.parts.write_q(q)

    def _move_q(self, ahead: Gram, rho: float) -> None:
        """Natural-gradient step (1 − ρ) λ + ρ λ⁺ on the sums, halved while q does not exist."""
        for _ in range(10):
            mixed = Gram.mixed((1.0 - rho, rho), (self.gram, ahead))
            try:
                self.q = self.evaluator.gaussians(mixed)
            except NumericalError:
                rho *= 0.5
            else:
                self.gram = mixed
                return

    def _move_theta(self, step: Array) -> None:
        """Move θ by a step of Adam, with q(v) as it is; stay if that fails."""
        x = self.vector.read()
        self.vector.write(x + step)
        try:
            self.evaluator.set_hyperparameters(self.problem.parts.theta())
        except NumericalError:
            self.vector.write(x)
            self.evaluator.set_hyperparameters(self.problem.parts.theta())
