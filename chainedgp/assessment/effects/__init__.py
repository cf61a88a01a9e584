"""Effects of inputs: what drives the mean, the noise and every other parameter of predictions."""

from .frames import effects

__all__ = ["effects"]
