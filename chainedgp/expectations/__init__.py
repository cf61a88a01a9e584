"""Expectations of log-densities under Gaussian latents: closed, reduced, and by quadrature."""

from .quadrature import gauss_hermite

__all__ = ["gauss_hermite"]
