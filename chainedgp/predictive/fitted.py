"""What figures and checks, which lie below the model, read of it: a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..data.columns import Columns
from ..data.types import Data, Metadata
from ..likelihoods import Likelihood
from ..linalg import Array
from .distribution import Predictive
from .predictor import Predictor


class FittedModel(Protocol):
    """A model with rows, which predicts. `ChainedGP` is one."""

    name: str
    likelihood: Likelihood
    input_names: Sequence[str] | None
    target_name: str | None
    columns: Columns | None

    @property
    def X(self) -> Array:
        """The inputs (N, D)."""

    @property
    def Y(self) -> Array:
        """The targets (N, 1)."""

    @property
    def Y_metadata(self) -> dict[str, Array]:
        """Per-row values, (N,) each, weights included."""

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the latent functions."""

    def predict_latents(self, Xnew: Data) -> tuple[Array, Array]:
        """Mean and variance (n, b) of q(f*)."""

    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """The predictive distribution of the targets at Xnew."""

    def _predictor(self) -> Predictor:
        """What predictions are made of, at the current parameters and q."""
