"""The parameters of a model: leaves of paramz, their roles, where values may lie, and priors."""

from .roles import Role

__all__ = ["Role"]
