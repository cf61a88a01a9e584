"""The whitened Gaussian q(v) = N(μ, S) of one latent, or of several: its KL, its root."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..linalg import (
    Array,
    Workspace,
    cholesky,
    invert_lower,
    lower_triangle_product,
    pack_lower,
    root_gram,
    unpack_lower,
)

_work = Workspace()


@dataclass(frozen=True)
class Gaussian:
    """q(v) = N(μ, S) of the whitened inducing values v of a group of latents, S of shape (M, M).

    `precision` is S⁻¹ where q came from sites, `root` is R where it came from S = R Rᵀ.
    """

    mu: Array
    S: Array
    log_det_S: float
    precision: Array | None = None
    root: Array | None = None

    @cached_property
    def S_minus_I(self) -> Array:
        """S − I of a Gaussian q(v), the matrix of every product with a chunk of rows."""
        D = self.S.copy()
        D.flat[:: D.shape[0] + 1] -= 1.0
        return D

    @cached_property
    def kl(self) -> float:
        """KL(q(v) ‖ N(0, I)) = ½ (tr S + μᵀμ − M − log|S|), (Saul et al. 2016, eq. 7)."""
        M = self.mu.size
        return 0.5 * float(np.trace(self.S) + self.mu @ self.mu - M - self.log_det_S)


def from_natural(b: Array, Lam: Array) -> Gaussian:
    """The Gaussian q with natural parameters S⁻¹ = I + Λ and S⁻¹μ = b: prior N(0, I) times sites.

    Raises NumericalError where I + Λ is not positive definite (sites may be negative).
    """
    precision = Lam.copy()
    precision.flat[:: precision.shape[0] + 1] += 1.0
    R = cholesky(precision, "the precision of q(u)")
    R_inv = invert_lower(R)
    S = R_inv.T @ R_inv
    return Gaussian(S @ b, S, -2.0 * float(np.log(np.diag(R)).sum()), precision)


def from_root(mu: Array, packed: Array) -> Gaussian:
    """The Gaussian q with mean μ (M,) and S = R Rᵀ; R is lower triangular, packed row by row.

    The diagonal may have either sign.
    """
    root = unpack_lower(packed, mu.size)
    diagonal = np.abs(np.diag(root))
    with np.errstate(divide="ignore"):
        log_det = 2.0 * float(np.log(diagonal).sum())
    return Gaussian(np.array(mu), root_gram(root), log_det, root=root)


def root_of(q: Gaussian) -> Array:
    """The packed lower triangular root R of a Gaussian's covariance S = R Rᵀ.

    R comes from the precision if there is one: S itself may be singular to working precision. With
    S⁻¹ = L Lᵀ, as `from_natural` found it, and L⁻¹ = Q T, T upper triangular: S = L⁻ᵀL⁻¹ = Tᵀ T.
    """
    if q.root is not None:
        return pack_lower(q.root)
    if q.precision is None:
        return pack_lower(cholesky(q.S, "the covariance of q(u)"))
    T = np.linalg.qr(invert_lower(cholesky(q.precision, "the precision of q(u)")), mode="r")
    return pack_lower((np.sign(np.diag(T))[:, None] * T).T)


def root_gradient(q: Gaussian, G: Array) -> Array:
    """Gradient of the bound in the packed root R of S = R Rᵀ, from ∂E/∂S = G.

    It is the lower triangle of 2 G R − R + diag(1/R_ii).
    """
    if q.root is None:
        raise RuntimeError("this q was not made from a root")
    GR = lower_triangle_product(G, q.root, _work.array("GR", *G.shape), lower=True)
    d_root = 2.0 * pack_lower(GR) - pack_lower(q.root)
    d_root[np.cumsum(np.arange(1, len(G) + 1)) - 1] += 1.0 / np.diag(q.root)
    return d_root


def symmetric_kl(p: Gaussian, q: Gaussian) -> float:
    """The symmetric KL ½ [KL(p‖q) + KL(q‖p)] of two Gaussians.

    It tracks how far the bound at p is below its optimum.

    = ¼ [tr(S_q⁻¹ S_p) + tr(S_p⁻¹ S_q) − 2M + (μ_p − μ_q)ᵀ (S_p⁻¹ + S_q⁻¹) (μ_p − μ_q)]
    """
    if p.precision is None or q.precision is None:
        raise ValueError("both Gaussians must come from sites")
    d = p.mu - q.mu
    traces = np.vdot(q.precision, p.S) + np.vdot(p.precision, q.S) - 2.0 * d.size
    return 0.25 * float(traces + d @ (p.precision @ d) + d @ (q.precision @ d))
