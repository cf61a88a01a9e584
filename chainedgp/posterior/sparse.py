"""One latent's sparse Gaussian process on a chunk of rows: marginals of q(f), and the reverse pass.

Whitened: u = L v + mean(Z), Kuu + jitter = L Lᵀ, q(v) = N(μ, S), A = L⁻¹ Kuf (M, n). Then

    m = mean(X) + Aᵀμ,    v = kff + Σ_M A ∘ (S − I) A        (Saul et al. 2016, eqs. 4 and 5).

Where gradients follow, v = kff + Σ_M Kuf ∘ P A with P = L⁻ᵀ(S − I): the same number, and P A is
what the gradient in Kuf is made of. Where Kuu is well conditioned, P L⁻¹ Kuf needs no A.

Everything here is a pure function of arrays and of kernels and mean functions that are only read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

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
from .gaussian import Gaussian

__all__ = [
    "KernelGradient",
    "Prior",
    "Projection",
    "make_prior",
    "marginals",
    "marginals_for_gradient",
    "project",
    "reverse_chunk",
    "reverse_prior",
    "reverse_sites",
]

VARIANCE_FLOOR = 1e-12  # of the prior variance: rounding can make v negative, never less than this
BLOCK = 20  # rows of a matrix (M, n) that are scaled at once: few enough to stay in the cache

_work = Workspace()


@dataclass(frozen=True)
class Prior:
    """One latent's prior at given hyperparameters; small: nothing here has the size of the data."""

    kernel: Any
    mean: Any
    Z: Array  # (M, D)
    L: Array  # (M, M)
    L_inv: Array  # (M, M)
    pull_Kuu: Callable[[Array], Any]
    jitter: float

    @cached_property
    def covariance(self) -> Callable[[Array], Any]:
        """X (n, D) -> Kuf (M, n) and its pullback, at the parameters of the first use."""
        return self.kernel.prepare(self.Z)


class Projection(NamedTuple):
    """What the passes over one chunk of rows share at given hyperparameters."""

    Kuf: Array  # (M, n)
    A: Array  # (M, n), or Kuf itself
    kff: Array  # (n,)
    mean: Array  # (n,)
    pull_Kuf: Callable[..., Any]
    pull_kff: Callable[[Array], Any]
    pull_mean: Callable[[Array], Array]


class KernelGradient(NamedTuple):
    """Gradients in one latent's kernel parameters, inducing inputs and mean parameters."""

    kernel: Array
    Z: Array
    mean: Array

    def plus(self, other: KernelGradient) -> KernelGradient:
        """Sum of two gradients, part by part."""
        return KernelGradient(*(a + b for a, b in zip(self, other, strict=True)))


def make_prior(kernel: Any, mean: Any, Z: Array, jitter: float) -> Prior:
    """Factorise Kuu + jitter · mean(diag Kuu) I; the jitter is a constant of the model."""
    covariance = kernel.prepare(Z)
    K, pull_Kuu = covariance()
    Kuu = _work.array("Kuu", *K.shape)
    Kuu[:] = K  # which the pullback keeps
    Kuu.flat[:: Kuu.shape[0] + 1] += jitter * np.trace(Kuu) / Kuu.shape[0]
    L = cholesky(Kuu, "the prior covariance Kuu of the inducing values")
    prior = Prior(kernel, mean, Z, L, invert_lower(L), pull_Kuu, jitter)
    prior.__dict__["covariance"] = covariance  # what the property would make
    return prior


def project(prior: Prior, X: Array, out: Array | None = None, *, whiten: bool = True) -> Projection:
    """A = L⁻¹ Kuf (M, n), perhaps in `out`, and the prior mean and variance of rows X (n, D).

    whiten : whether A is needed; if not, Kuf stands in its place.
    """
    Kuf, pull_Kuf = prior.covariance(X)
    kff, pull_kff = prior.kernel.evaluate_diag(X)
    mean, pull_mean = prior.mean.evaluate(X)
    A = lower_product(prior.L_inv, Kuf, out) if whiten else Kuf
    return Projection(Kuf, A, kff, mean, pull_Kuf, pull_kff, pull_mean)


def marginals(chunk: Projection, q: Gaussian) -> tuple[Array, Array, Array]:
    """Mean and variance of q(f_i) for a chunk, each (n,) (Saul et al. 2016, eqs. 4 and 5).

    Also where the variance hit its floor.
    """
    SA = np.matmul(q.S_minus_I, chunk.A, out=_work.array("SA", *chunk.A.shape))
    return _moments(chunk, q.mu @ chunk.A, chunk.A, SA)


def marginals_for_gradient(
    chunk: Projection, left: Array, PA: Array, *, whitened: bool
) -> tuple[Array, Array, Array]:
    """As `marginals`, from `left` = [P, L⁻ᵀμ] (M, M + 1); fills PA (M, n) for `reverse_chunk`.

    whitened : P = L⁻ᵀ(S − I) acts on A; else P = L⁻ᵀ(S − I) L⁻¹ on Kuf, which is exact enough where
    Kuu is well conditioned.
    """
    np.matmul(left[:, :-1], chunk.A if whitened else chunk.Kuf, out=PA)
    return _moments(chunk, left[:, -1] @ chunk.Kuf, chunk.Kuf, PA)


def _moments(chunk: Projection, m: Array, B: Array, C: Array) -> tuple[Array, Array, Array]:
    """mean(X) + m and kff + Σ_M B ∘ C, but not below the floor."""
    v = chunk.kff + np.einsum("ij,ij->j", B, C)
    floor = VARIANCE_FLOOR * chunk.kff
    floored = v <= floor
    if floored.any():
        v = np.maximum(v, floor)
    return chunk.mean + m, v, floored


def reverse_chunk(
    chunk: Projection, g_m: Array, g_v: Array, left: Array, PA: Array
) -> KernelGradient:
    """Gradients at fixed q from ∂E/∂m and ∂E/∂v of a chunk, all but the part that goes through L.

    ∂/∂Kuf = P A diag(2 g_v) + L⁻ᵀμ g_mᵀ with `left` = [P, L⁻ᵀμ]; overwrites PA (M, n).
    """
    twice, alpha = 2.0 * g_v, left[:, -1:]
    for i in range(0, len(PA), BLOCK):
        block = PA[i : i + BLOCK]
        block *= twice
        block += alpha[i : i + BLOCK] * g_m
    return _pull(chunk, PA, g_v, g_m)


def reverse_sites(
    chunk: Projection, g_m: Array, g_v: Array, left: Array, lam2: Array, r: Array, S_mu_bar: Array
) -> KernelGradient:
    """As `reverse_chunk`, but for q as a function of the hyperparameters at fixed sites.

    That adds L⁻ᵀΠ A diag(2 λ2) + L⁻ᵀSμ̄ rᵀ with r = λ1 − λ2 mean(X) to ∂/∂Kuf: one product with
    `left` = [L⁻ᵀ(S − I), L⁻ᵀμ, L⁻ᵀΠ, L⁻ᵀSμ̄] (M, 2M + 2).
    """
    M, n = chunk.A.shape
    right = _work.array("right", 2 * M + 2, n)
    np.multiply(chunk.A, 2.0 * g_v, out=right[:M])
    right[M] = g_m
    np.multiply(chunk.A, 2.0 * lam2, out=right[M + 1 : -1])
    right[-1] = r
    dL_dKuf = np.matmul(left, right, out=_work.array("dKuf", M, n))
    return _pull(chunk, dL_dKuf, g_v, g_m - lam2 * (S_mu_bar @ chunk.A))


def _pull(chunk: Projection, dL_dKuf: Array, dL_dkff: Array, dL_dmean: Array) -> KernelGradient:
    d_theta, d_Z, _ = chunk.pull_Kuf(dL_dKuf, wrt_second=False)
    d_theta_diag, _ = chunk.pull_kff(dL_dkff)
    return KernelGradient(d_theta + d_theta_diag, d_Z, chunk.pull_mean(dL_dmean))


def reverse_prior(prior: Prior, H: Array) -> tuple[Array, Array]:
    """The part through L: gradients in kernel parameters and Z from H = (∂/∂A) Aᵀ (M, M).

    ∂/∂Kuu = −½ L⁻ᵀ (tril(H) + tril(H)ᵀ with the diagonal once) L⁻¹: the reverse of the Cholesky
    factorisation, with LᵀL̄ = −H already known. The jitter scales with the mean of diag(Kuu).
    Overwrites H, of which only the lower triangle is read.
    """
    half = upper_product(prior.L_inv.T, mirrored(H), _work.array("half", *H.shape))
    dL_dKuu = lower_triangle_product(
        half, prior.L_inv, _work.array("dL_dKuu", *H.shape), lower=True
    )
    mirrored(dL_dKuu)  # which is symmetric too
    dL_dKuu *= -0.5
    dL_dKuu.flat[:: H.shape[0] + 1] += prior.jitter * np.trace(dL_dKuu) / H.shape[0]
    d_theta, d_Z, _ = prior.pull_Kuu(dL_dKuu)
    return d_theta, d_Z
