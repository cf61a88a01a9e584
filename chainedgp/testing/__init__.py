"""Contracts to test a kernel or likelihood against, ours or a user's."""

from .kernel import check_kernel
from .likelihood import check_likelihood
from .report import ContractError

__all__ = ["ContractError", "check_kernel", "check_likelihood"]
