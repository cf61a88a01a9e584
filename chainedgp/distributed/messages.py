"""Messages between the head of a Dask cluster and its workers: settings and tasks of passes.

A worker keeps the likelihood and copies of kernels and means, so that a message brings only the
values of their parameters.
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
    """Message to Dask workers with a latent's projector: kernel and mean parameters, Z and L⁻¹."""

    kernel: list[Array]
    mean: list[Array]
    Z: Array
    L_inv: Array

    @staticmethod
    def of(projector: Projector) -> ProjectorMessage:
        """Make the message that tells Dask workers of a projector."""
        values = _values(projector.kernel), _values(projector.mean)
        return ProjectorMessage(*values, projector.Z, projector.L_inv)

    def read(self, kernel: Kernel, mean: MeanFunction) -> Projector:
        """Rebuild the projector on a Dask worker, from a kernel and a mean of its own."""
        for part, values in ((kernel, self.kernel), (mean, self.mean)):
            for leaf, value in zip(part.flattened_parameters, values, strict=True):
                leaf[:] = value
        return Projector.at(kernel, mean, self.Z, self.L_inv)


@dataclass(frozen=True)
class SettingMessage:
    """Message to Dask workers with a setting of the hyperparameters."""

    family: PosteriorFamily
    projectors: list[ProjectorMessage]
    parameters: Mapping[str, float]
    key: int
    scale: float
    ties: Ties | None

    @staticmethod
    def of(setting: Setting) -> SettingMessage:
        """Make the message that tells Dask workers of a setting of the hyperparameters."""
        projectors = [ProjectorMessage.of(projector) for projector in setting.projectors]
        rest = setting.parameters, setting.key, setting.scale, setting.ties
        return SettingMessage(setting.family, projectors, *rest)

    def read(self, parts: Parts, likelihood: Likelihood) -> Setting:
        """Rebuild the setting on a Dask worker, with the parts and the likelihood that it keeps."""
        pairs = zip(self.projectors, parts, strict=True)
        projectors = tuple(message.read(*part) for message, part in pairs)
        rest = self.parameters, self.key, self.scale, self.ties
        return Setting(self.family, projectors, likelihood, *rest)


class TaskMessage(NamedTuple):
    """Message to Dask workers with a task; its setting is None if they have it already."""

    setting: SettingMessage | None
    request: Request


def pickled(message: object) -> bytes:
    """Pickle a message between the head and the actors on Dask workers, functions included."""
    import cloudpickle

    return bytes(cloudpickle.dumps(message))


def small(request: Request) -> Request:
    """Drop from a request what no Dask worker reads: S⁻¹, roots, and S if left factors tell it."""
    with_S = not request.S_mu_bar
    q = [replace(p, precision=None, root=None, S=p.S if with_S else p.S[:0]) for p in request.q]
    return replace(request, q=tuple(q))


def _values(part: Parameterized) -> list[Array]:
    """Values of all parameters of a kernel or mean, to be sent to Dask workers."""
    return [np.array(leaf.values) for leaf in part.flattened_parameters]
