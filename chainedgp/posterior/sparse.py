"""The sparse Gaussian process of one latent: its prior at inducing inputs, what rows see of it.

Whitened: u = L v + mean(Z), Kuu + jitter = L Lᵀ, p(v) = N(0, I). A row sees v through a column of
A = L⁻¹ Kuf (M, n): f = mean(X) + Aᵀv + what the inducing values leave open, of variance kff − Σ A².
The latents are independent a priori (Saul et al. 2016, eq. 1): each has a prior of its own.
From the projection of rows `blocks` makes the marginals of q(f) (Saul et al. 2016, eqs. 4 and 5).

Everything here is a pure function of arrays and of kernels and mean functions that are only read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..kernels.base import Kernel, Pullback, PullbackDiag
from ..linalg import (
    Array,
    Workspace,
    cholesky,
    invert_lower,
    lower_product,
    lower_triangle_product,
    mirrored,
    upper_product,
)
from ..means import MeanFunction

_work = Workspace()


@dataclass(frozen=True)
class Projector:
    """One latent's sparse prior as rows see it, at given hyperparameters.

    Nothing in it has the data's size.

    covariance : X (n, D) -> Kuf (M, n) and its pullback, at the parameters when this was made.
    """

    kernel: Kernel
    mean: MeanFunction
    Z: Array  # (M, D)
    L_inv: Array  # (M, M)
    covariance: Callable[..., tuple[Array, Pullback]]

    @staticmethod
    def at(kernel: Kernel, mean: MeanFunction, Z: Array, L_inv: Array) -> Projector:
        """The sparse prior as rows see it at the current parameters of its kernel and mean."""
        return Projector(kernel, mean, Z, L_inv, kernel.prepare(Z))

    def __reduce__(self) -> tuple[Callable[..., Projector], tuple[object, ...]]:
        # Closures are not pickled, but made anew.
        return Projector.at, (self.kernel, self.mean, self.Z, self.L_inv)


@dataclass(frozen=True)
class InducingPrior(Projector):
    """One latent's prior p(u) = N(mean(Z), L Lᵀ) at its inducing inputs, to be differentiated."""

    L: Array  # (M, M)
    pull_Kuu: Pullback
    jitter: float


class Projection(NamedTuple):
    """What the passes over one chunk of rows share at given hyperparameters: Kuf, A, kff, mean."""

    Kuf: Array  # (M, n)
    A: Array  # (M, n), or Kuf in its place
    kff: Array  # (n,) prior variances
    mean: Array  # (n,) prior means
    pull_Kuf: Pullback
    pull_kff: PullbackDiag
    pull_mean: Callable[[Array], Array]


class KernelGradient(NamedTuple):
    """Gradients in one latent's kernel parameters, inducing inputs and mean parameters."""

    kernel: Array
    Z: Array
    mean: Array

    def plus(self, other: KernelGradient) -> KernelGradient:
        """Sum of two gradients in kernel, Z and mean, part by part."""
        return KernelGradient(*(a + b for a, b in zip(self, other, strict=True)))


def make_prior(kernel: Kernel, mean: MeanFunction, Z: Array, jitter: float) -> InducingPrior:
    """Prior at inducing inputs: factorise Kuu + jitter · mean(diag Kuu) I, the jitter constant."""
    covariance: Callable[..., tuple[Array, Pullback]] = kernel.prepare(Z)
    K, pull_Kuu = covariance()
    Kuu = _work.array("Kuu", *K.shape)
    Kuu[:] = K  # The pullback keeps K, which must not change.
    Kuu.flat[:: Kuu.shape[0] + 1] += jitter * np.trace(Kuu) / Kuu.shape[0]
    L = cholesky(Kuu, "the prior covariance Kuu of the inducing values")
    return InducingPrior(kernel, mean, Z, invert_lower(L), covariance, L, pull_Kuu, jitter)


def project(
    prior: Projector, X: Array, out: Array | None = None, *, whiten: bool = True
) -> Projection:
    """Project rows X (n, D) on inducing values, A = L⁻¹ Kuf (M, n), with prior mean and variance.

    A is written to `out`, if that is given.

    whiten : whether A is needed; if not, Kuf stands in its place.
    """
    Kuf, pull_Kuf = prior.covariance(X)
    kff, pull_kff = prior.kernel.evaluate_diag(X)
    mean, pull_mean = prior.mean.evaluate(X)
    A = lower_product(prior.L_inv, Kuf, out) if whiten else Kuf
    return Projection(Kuf, A, kff, mean, pull_Kuf, pull_kff, pull_mean)


def pull(chunk: Projection, dL_dKuf: Array, dL_dkff: Array, dL_dmean: Array) -> KernelGradient:
    """Gradients of one latent in kernel, Z and mean from those in Kuf, kff and mean of a chunk."""
    d_theta, d_Z, _ = chunk.pull_Kuf(dL_dKuf, wrt_second=False)
    d_theta_diag, _ = chunk.pull_kff(dL_dkff)
    return KernelGradient(d_theta + d_theta_diag, d_Z, chunk.pull_mean(dL_dmean))


def reverse_prior(prior: InducingPrior, H: Array) -> tuple[Array, Array]:
    """Gradients through L = chol(Kuu) in kernel parameters and Z, from H = (∂/∂A) Aᵀ (M, M).

    ∂/∂Kuu = −½ L⁻ᵀ (tril(H) + tril(H)ᵀ with the diagonal once) L⁻¹: the reverse of the Cholesky
    factorisation, with LᵀL̄ = −H already known. The jitter scales with the mean of diag(Kuu).
    Overwrites H, of which only the lower triangle is read.
    """
    half = upper_product(prior.L_inv.T, mirrored(H), _work.array("half", *H.shape))
    dL_dKuu = lower_triangle_product(
        half, prior.L_inv, _work.array("dL_dKuu", *H.shape), lower=True
    )
    mirrored(dL_dKuu)  # It is symmetric, and only its lower triangle was computed.
    dL_dKuu *= -0.5
    dL_dKuu.flat[:: H.shape[0] + 1] += prior.jitter * np.trace(dL_dKuu) / H.shape[0]
    d_theta, d_Z, _ = prior.pull_Kuu(dL_dKuu)
    return d_theta, d_Z
