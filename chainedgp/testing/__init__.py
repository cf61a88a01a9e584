"""Contracts that any kernel or likelihood, ours or a user's, can be held to."""

from .kernel import check_kernel
from .likelihood import check_likelihood
from .report import ContractError

__all__ = ["ContractError", "check_kernel", "check_likelihood"]
