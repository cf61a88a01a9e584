"""The model: kernels, means, inducing inputs and a likelihood, joined in `ChainedGP`."""

from .chained_gp import ChainedGP

__all__ = ["ChainedGP"]
