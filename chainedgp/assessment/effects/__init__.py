"""Effects: what drives the mean, the noise and every other parameter of the distribution."""

from .frames import effects

__all__ = ["effects"]
