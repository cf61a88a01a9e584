"""Methods of the model that look into a fit: check, summary, leave-one-out, parts of a latent."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from ..data.arguments import as_percent
from ..data.tables import Table
from ..errors import InputError
from ..kernels import Kernel
from ..kernels.combine import Sum
from ..linalg import Array, one_blas_thread
from ..parameters.leaves import latent_index
from ..posterior.sparse import VARIANCE_FLOOR
from .check import ROWS, Check, check
from .loo import LOO, REFIT, loo
from .summary import summary

__all__ = ["Assessment"]

BLOCK_ROWS = 4096


class Assessment:
    """Methods of the model that look into a fit."""

    def loo(self, refit: int | bool = REFIT, rng: Any = 0, size: int = 4000) -> LOO:
        """Log-densities of each row when it is left out, at the same hyperparameters.

        From the sites of q, and for the `refit` rows of the greatest influence (largest Pareto k)
        by finding q anew: exact for up to 200 rows by default. True refits all, False none.

        rng, size : seed and number of draws from q for the Pareto k; see `assessment.loo`.
        """
        return loo(self, refit, rng, size)

    def check(self, rows: int = ROWS, rng: Any = 0) -> Check:
        """What to look at before trusting the fit, in words, each with its cause and remedy.

        Asks whether the fit converged, whether quadrature nodes suffice, how many rows widen q
        (negative sites), how influential single rows are (Pareto k), whether predictions of rows
        left out are calibrated, which rows are outliers, whether more inducing inputs would help,
        which parameters are at a bound or run away, whether data are badly scaled, and whether the
        noise vanishes. A few passes over the data; the model is not changed.

        rows : most rows for what is done row by row. rng : seed or Generator that chooses them.
        """
        return check(self, rows, rng)

    def summary(self) -> Table:
        """The parameters in a table: value, constraint, whether fixed, prior; a row for each entry.

        Above it likelihood, data, bound and the last fit. `summary()["value"]` is an array, and
        `summary().frame()` a pandas DataFrame. Z and q are left out.
        """
        return summary(self)

    def predict_component(
        self,
        Xnew: Any,
        latent: int | str,
        part: int | str | None = None,
        *,
        bands: tuple[float, float] | None = None,
        natural: bool = False,
    ) -> tuple[Array, ...]:
        """q of one additive part h of a latent f = mean(x) + Σ h_p(x), h_p ~ GP(0, k_p), at Xnew.

        With A = L⁻¹ k_p(Z, X*): mean = Aᵀμ, variance = k_p(x*, x*) + aᵀ(S − I)a. The mean function
        belongs to no part: it is not included, and the parts' means add up to that of
        `predict_latents` less mean(x). The parts are correlated under q: their variances do not add
        up to the latent's. For a latent that is a logarithm, a part on the natural scale is a
        factor e^h, and the whole latent is the likelihood's own parameter, such as a rate.

            m.predict_component(X, "log_rate_1", bands=(5, 95), natural=True)  # the first rate
            m.predict_component(X, 0, "space")  # of kernels RBF(2, …, name="space") + RBF(1, …)

        Parameters
        ----------
        Xnew : (n, D). A part that reads some columns only takes any values in the others.
        latent : index or name of the latent.
        part : index or name of the part in the latent's kernel, nested sums counted through. A
            kernel that is not a sum, such as a product, is its own only part. None is the whole
            latent, with its mean function.
        bands : percentages; (2.5, 97.5) if only `natural` is given.
        natural : on the scale of the likelihood's own parameter that this latent drives.

        Returns
        -------
        mean, variance : (n, 1) each; with `bands` or `natural` the median and the two percentiles.
        """
        model: Any = self
        j = latent_index(latent, model.latents)
        if part is None:
            mean, variance = (moment[:, j : j + 1] for moment in model.predict_latents(Xnew))
        else:
            kernel = _part(model.kernels[j], part)
            mean, variance = _moments_of_part(model, kernel, j, model._rows(Xnew))
        if bands is None and not natural:
            return mean, variance
        ends = as_percent((2.5, 97.5) if bands is None else bands, "bands")
        if len(ends) != 2:
            raise InputError(f"bands must be two percentages, lower and upper; got {bands!r}.")
        curves = [mean + np.sqrt(variance) * z for z in (0.0, *ndtri(np.sort(ends)))]
        return tuple(_natural_scale(model.likelihood, j, curves) if natural else curves)


def _moments_of_part(model: Any, kernel: Kernel, j: int, X: Array) -> tuple[Array, Array]:
    """Mean and variance (n, 1) of the part of latent j that has this kernel."""
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


def _natural_scale(likelihood: Any, j: int, curves: list[Array]) -> list[Array]:
    """Curves of latent j, the lower before the upper, as the parameter that it alone drives."""
    b, parameters = len(likelihood.latents), likelihood.parameter_values()

    def named(k: int, values: Array) -> dict[str, Array]:
        latents = [values if i == k else np.zeros(values.shape) for i in range(b)]
        return likelihood.natural_parameters(*latents, **parameters)

    probe = np.linspace(-3.0, 3.0, 13)
    steps = [{key: np.diff(value) for key, value in named(k, probe).items()} for k in range(b)]
    for key, step in steps[j].items():
        alone = not any(steps[k][key].any() for k in range(b) if k != j)
        if alone and ((step > 0).all() or (step < 0).all()):
            middle, *ends = (named(j, curve)[key] for curve in curves)
            return [middle, *(ends if step[0] > 0 else ends[::-1])]
    raise InputError(
        f"natural: no parameter of {type(likelihood).__name__} depends on "
        f"{likelihood.latents[j]} alone. Use predictive(Xnew).parameters(), over all latents."
    )


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
