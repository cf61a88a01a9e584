"""What travels between the head and the workers: settings and tasks without what workers have.

A worker keeps the likelihood and copies of kernels and means; a message brings the values of their
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from paramz import Parameterized

from ..kernels.base import Kernel
from ..likelihoods import Likelihood
from ..likelihoods.ties import Ties
from ..linalg import Array
from ..means import MeanFunction
from ..posterior.family import PosteriorFamily
from ..posterior.sparse import Projector
from ..posterior.sums import Request, Setting

Parts = list[tuple[Kernel, MeanFunction]]  # There is one pair for each latent.
Call = tuple[Callable[..., Any], tuple[Any, ...]]  # It names an actor's method and its arguments.


@dataclass(frozen=True)
class ProjectorMessage:
    """A latent's projector: values of the parameters of its kernel and mean, Z and L⁻¹."""

    kernel: list[Array]
    mean: list[Array]
    Z: Array
    L_inv: Array

    @staticmethod
    def of(projector: Projector) -> ProjectorMessage:
        """The message that tells of a projector."""
        values = _values(projector.kernel), _values(projector.mean)
        return ProjectorMessage(*values, projector.Z, projector.L_inv)

    def read(self, kernel: Kernel, mean: MeanFunction) -> Projector:
        """The projector, with a kernel and a mean that take the parameters from the message."""
        for part, values in ((kernel, self.kernel), (mean, self.mean)):
            for leaf, value in zip(part.flattened_parameters, values, strict=True):
                leaf[:] = value
        return Projector.at(kernel, mean, self.Z, self.L_inv)


@dataclass(frozen=True)
class SettingMessage:
    """A setting of the hyperparameters."""

    family: PosteriorFamily
    projectors: list[ProjectorMessage]
    parameters: Mapping[str, float]
    key: int
    scale: float
    ties: Ties | None

    @staticmethod
    def of(setting: Setting) -> SettingMessage:
        """The message that tells of a setting."""
        projectors = [ProjectorMessage.of(projector) for projector in setting.projectors]
        rest = setting.parameters, setting.key, setting.scale, setting.ties
        return SettingMessage(setting.family, projectors, *rest)

    def read(self, parts: Parts, likelihood: Likelihood) -> Setting:
        """The setting, with parts and a likelihood that a worker has."""
        pairs = zip(self.projectors, parts, strict=True)
        projectors = tuple(message.read(*part) for message, part in pairs)
        rest = self.parameters, self.key, self.scale, self.ties
        return Setting(self.family, projectors, likelihood, *rest)


class TaskMessage(NamedTuple):
    """A task; its setting is None where the worker has it from the last task."""

    setting: SettingMessage | None
    request: Request


def pickled(message: object) -> bytes:
    """A message between head and actors, which may hold functions and a user's own classes."""
    import cloudpickle

    return bytes(cloudpickle.dumps(message))


def small(request: Request) -> Request:
    """A request without what no pass reads: S⁻¹ and roots, and S where left factors tell it."""
    with_S = not request.S_mu_bar
    q = [replace(p, precision=None, root=None, S=p.S if with_S else p.S[:0]) for p in request.q]
    return replace(request, q=tuple(q))


def _values(part: Parameterized) -> list[Array]:
    """Values of all parameters of a kernel or mean."""
    return [np.array(leaf.values) for leaf in part.flattened_parameters]
