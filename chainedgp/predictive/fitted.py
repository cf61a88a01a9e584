"""The type of a fitted model: what figures and checks, which lie below the model, read of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..data.columns import Columns
from ..data.types import Data, Metadata
from ..likelihoods import Likelihood
from ..linalg import Array, Indices
from .distribution import Predictive
from .predictor import Predictor


class FittedModel(Protocol):
    """The type of a model with rows, which predicts. `ChainedGP` is one."""

    name: str
    likelihood: Likelihood
    input_names: Sequence[str] | None
    target_name: str | None
    columns: Columns | None

    @property
    def X(self) -> Array:
        """The inputs (N, D) of a fitted model."""

    @property
    def Y(self) -> Array:
        """The targets (N, 1) of a fitted model."""

    @property
    def Y_metadata(self) -> dict[str, Array]:
        """Per-row values of a fitted model, (N,) each, weights included."""

    @property
    def kept_rows(self) -> Indices:
        """Numbers (N,) of the rows of a fitted model in the table that it was given."""

    @property
    def latents(self) -> tuple[str, ...]:
        """Names of the latent functions of a fitted model."""

    def predict_latents(self, Xnew: Data) -> tuple[Array, Array]:
        """Mean and variance (n, b) of q(f*) of a fitted model at Xnew."""

    def predictive(self, Xnew: Data, Y_metadata: Metadata = None) -> Predictive:
        """The predictive distribution that a fitted model has of the targets at Xnew."""

    def _predictor(self) -> Predictor:
        """What predictions of a fitted model are made of, at the current parameters and q."""
