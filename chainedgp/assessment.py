"""Methods of the model that look into a fit: leave-one-out densities, parts of a latent."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import checks
from .bound.sparse import VARIANCE_FLOOR
from .errors import InputError
from .kernels import Kernel
from .kernels.combine import Sum
from .linalg import Array, one_blas_thread
from .loo import LOO, loo
from .parameters import latent_index

__all__ = ["Assessment"]

BLOCK_ROWS = 4096


class Assessment:
    """Methods of the model that look into a fit."""

    def loo(self, rng: Any = 0, size: int = 4000, refit: bool = False) -> LOO:
        """Pointwise leave-one-out log-densities from q, without a refit (PSIS-LOO).

        rng, size : seed and number of draws from q for each row; see `chainedgp.loo`.
        refit : find q anew for the rows where draws from q cannot tell (large Pareto k).
        """
        return loo(self, rng, size, refit)

    def predict_component(
        self, Xnew: Any, latent: int | str, part: int | str
    ) -> tuple[Array, Array]:
        """q of one additive part h of a latent f = mean(x) + Σ h_p(x), h_p ~ GP(0, k_p), at Xnew.

        With A = L⁻¹ k_p(Z, X*): mean = Aᵀμ, variance = k_p(x*, x*) + aᵀ(S − I)a. The mean function
        belongs to no part: it is not included, and the parts' means add up to that of
        `predict_latents` less mean(x). The parts are correlated under q: their variances do not add
        up to the latent's.

        Parameters
        ----------
        Xnew : (n, D).
        latent : index or name of the latent.
        part : index or name of the part in the latent's kernel, nested sums counted through. A
            kernel that is not a sum is its own only part.

        Returns
        -------
        mean, variance : (n, 1) each.
        """
        model: Any = self
        X = checks.as_inputs(Xnew, "Xnew", model.X.shape[1])
        j = latent_index(latent, model.latents)
        kernel = _part(model.kernels[j], part)
        priors, q = model._posterior()
        mean, variance = np.empty((2, X.shape[0], 1))
        with one_blas_thread():
            for start in range(0, X.shape[0], BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                block = np.ascontiguousarray(X[rows], dtype=float)
                A = priors[j].L_inv @ kernel.evaluate(priors[j].Z, block)[0]  # (M, n)
                kff = kernel.evaluate_diag(block)[0]
                v = kff + np.einsum("ij,ij->j", q[j].S_minus_I @ A, A)
                mean[rows, 0] = q[j].mu @ A
                variance[rows, 0] = np.maximum(v, VARIANCE_FLOOR * kff)
        return mean, variance


def _part(kernel: Kernel, part: int | str) -> Kernel:
    """The additive part with this index or name; an error that lists the parts."""
    parts = _flat(kernel)
    if isinstance(part, str):
        found = [one for one in parts if one.name == part]
        if len(found) == 1:
            return found[0]
    elif isinstance(part, int | np.integer) and not isinstance(part, bool):
        if -len(parts) <= part < len(parts):
            return parts[part]
    names = ", ".join(one.name for one in parts)
    kind = "is a sum of" if len(parts) > 1 else "is not a sum: its only part is"
    raise InputError(
        f"part must be an index below {len(parts)} or a name; the latent's kernel {kind} {names}; "
        f"got {part!r}."
    )


def _flat(kernel: Kernel) -> list[Kernel]:
    if not isinstance(kernel, Sum):
        return [kernel]
    return [leaf for part in kernel.parts for leaf in _flat(part)]
