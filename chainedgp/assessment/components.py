"""Additive parts of a latent function, with bands, and their shares: `m.predict_component()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from ..data.arguments import as_percent
from ..data.names import checks_names
from ..data.types import Data
from ..errors import InputError
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..linalg import Array, one_blas_thread
from ..parameters.parts import latent_index
from ..posterior.family import VARIANCE_FLOOR
from ..posterior.gaussian import Gaussian
from ..posterior.sparse import Projector
from ..predictive.fitted import FittedModel
from ..predictive.predictor import Predictor

BLOCK_ROWS = 4096  # Components are computed for this many rows at once, to bound the memory.


@checks_names
def predict_component(
    model: FittedModel,
    Xnew: Data,
    latent: int | str,
    part: int | str | None = None,
    *,
    bands: tuple[float, float] | None = None,
    natural: bool = False,
) -> tuple[Array, ...]:
    """Predict an additive part h of a latent f = mean(x) + Σ h_p(x), h_p ~ GP(0, k_p), at Xnew.

    With A = L⁻¹ k_p(Z, X*): mean = Aᵀμ, variance = k_p(x*, x*) + aᵀ(S − I)a. The mean function
    belongs to no part: it is not included, and the parts' means add up to that of
    `predict_latents` less mean(x). The parts are correlated under q: their variances do not add
    up to the latent's. For a latent that is a logarithm, a part on the natural scale is a
    factor e^h, and the whole latent is the likelihood's own parameter, such as a rate.

        m.predict_component(X, "log_rate_1", bands=(5, 95), natural=True)  # the first rate
        m.predict_component(X, 0, "space")  # of kernels RBF(2, …, name="space") + RBF(1, …)

    Parameters
    ----------
    Xnew : (n, D). Columns that the part does not read may have any values.
    latent : index or name of the latent.
    part : index or name of the part in the latent's kernel; terms of nested sums count as parts. A
        kernel that is not a sum, such as a product, is its own only part. None is the whole
        latent, with its mean function.
    bands : percentages; (2.5, 97.5) if only `natural` is given.
    natural : whether to predict on the scale of the likelihood's own parameter.

    Returns
    -------
    mean, variance : (n, 1) each; with `bands` or `natural` the median and the two percentiles.
    """
    predictor = model._predictor()
    likelihood = predictor.likelihood
    j = latent_index(latent, likelihood.latents)
    if part is None:
        mean, variance = (moment[:, j : j + 1] for moment in predictor.latents(Xnew))
    else:
        sizes = [len(prior.Z) for prior in predictor.priors]
        prior, q = predictor.priors[j], predictor.family.by_latent(predictor.q, sizes)[j]
        kernel = additive_part(prior.kernel, part)
        mean, variance = _moments_of_part(kernel, prior, q, predictor.inputs(Xnew))
    if bands is None and not natural:
        return mean, variance
    ends = as_percent((2.5, 97.5) if bands is None else bands, "bands")
    if len(ends) != 2:
        raise InputError(f"bands must be two percentages, lower and upper; got {bands!r}.")
    curves = [mean + np.sqrt(variance) * z for z in (0.0, *ndtri(np.sort(ends)))]
    return tuple(_natural_scale(likelihood, j, curves) if natural else curves)


def centred_component(
    predictor: Predictor,
    X: Array,
    latent: int,
    kernels: Sequence[Kernel],
    rows: Array,
    weights: Array,
) -> tuple[Array, Array]:
    """Moments (n,) under q of a latent's additive parts less their average, h(x) − Σ_i w_i h(x_i).

    The level of a latent may belong to any of its parts, so that each alone is known only up to a
    constant; their shapes are known better. With k the sum of the parts' kernels and d(x) the
    difference of columns, A_x − Σ_i w_i A_i, of A = L⁻¹ k(Z, X),

        variance = k(x, x) − 2 Σ_i w_i k(x, x_i) + Σ_ij w_i w_j k(x_i, x_j) + dᵀ(S − I)d.

    X : (n, D). kernels : additive parts of the latent's kernel. rows, weights : (m, D) and (m,), of
    sum 1; no weights and no rows, (0, D), leave the level as it is.
    """
    prior, sizes = predictor.priors[latent], [len(prior.Z) for prior in predictor.priors]
    q = predictor.family.by_latent(predictor.q, sizes)[latent]

    def K(one: Array, two: Array | None = None) -> Array:
        return np.sum([kernel.K(one, two) for kernel in kernels], axis=0)

    with one_blas_thread():
        d = prior.L_inv @ K(prior.Z, X)  # (M, n)
        own = np.sum([kernel.Kdiag(X) for kernel in kernels], axis=0)
        before = own.copy()
        if len(rows):
            d -= (prior.L_inv @ (K(prior.Z, rows) @ weights))[:, None]
            before += weights @ K(rows) @ weights - 2.0 * K(X, rows) @ weights
        variance = before + np.einsum("ij,ij->j", q.S_minus_I @ d, d)
        return q.mu @ d, np.maximum(variance, VARIANCE_FLOOR * own)


def grouped_parts(
    kernel: Kernel, groups: Mapping[str, Sequence[int | str]] | None
) -> dict[str, list[Kernel]]:
    """Additive parts of a latent's kernel by name: parts of a group together, others alone."""
    parts = kernel.additive_parts
    together = {
        name: [additive_part(kernel, member) for member in members]
        for name, members in (groups or {}).items()
    }
    taken = [id(part) for members in together.values() for part in members]
    if not all(together.values()) or len(set(taken)) < len(taken):
        raise InputError(
            f"groups must be {{name: parts}}, each part in one group at most; got {groups!r}."
        )
    alone = {part.name: [part] for part in parts if id(part) not in taken}
    return {**together, **alone}


def contributions(
    predictor: Predictor, X: Array, weights: Array, least: Array
) -> dict[str, np.ndarray]:
    """How much the additive parts of every latent vary over weighted rows X: table columns.

    f = mean(x) + Σ_p h_p(x), all at their posterior means. "sd" is the standard deviation of h_p
    over the rows, "share" is cov(h_p, f)/var(f): shares of one latent sum to 1. A share below 0
    belongs to a part that others counteract; in a latent whose standard deviation is below `least`
    (b,) all are 0, because it is flat. A mean function that is not constant is a part.
    """
    rows: dict[str, list[object]] = {key: [] for key in ("latent", "part", "sd", "share")}
    sizes = [len(prior.Z) for prior in predictor.priors]
    by_latent = predictor.family.by_latent(predictor.q, sizes)
    for name, prior, q, flat in zip(
        predictor.likelihood.latents, predictor.priors, by_latent, least, strict=True
    ):
        parts = {
            part.name: _moments_of_part(part, prior, q, X)[0][:, 0]
            for part in prior.kernel.additive_parts
        }
        level = np.broadcast_to(prior.mean.evaluate(X)[0], len(X))
        if np.ptp(level) > 0.0:
            parts["mean function"] = level
        centred = {part: h - weights @ h for part, h in parts.items()}
        whole = np.sum(list(centred.values()), axis=0)
        variance = float(weights @ whole**2)
        for part, h in centred.items():
            rows["latent"].append(name)
            rows["part"].append(part)
            rows["sd"].append(float(np.sqrt(weights @ h**2)))
            varies = variance > flat**2
            rows["share"].append(float(weights @ (h * whole)) / variance if varies else 0.0)
    return {key: np.array(column) for key, column in rows.items()}


def _moments_of_part(
    kernel: Kernel, prior: Projector, q: Gaussian, X: Array
) -> tuple[Array, Array]:
    """Mean and variance (n, 1) under q of the additive part of a latent that has this kernel."""
    mean, variance = np.empty((2, X.shape[0], 1))
    with one_blas_thread():
        for start in range(0, X.shape[0], BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            block = np.ascontiguousarray(X[rows], dtype=float)
            A = prior.L_inv @ kernel.evaluate(prior.Z, block)[0]  # (M, n)
            kff = kernel.evaluate_diag(block)[0]
            v = kff + np.einsum("ij,ij->j", q.S_minus_I @ A, A)
            mean[rows, 0] = q.mu @ A
            variance[rows, 0] = np.maximum(v, VARIANCE_FLOOR * kff)
    return mean, variance


def _natural_scale(likelihood: Likelihood, j: int, curves: list[Array]) -> list[Array]:
    """Turn curves of latent j (middle, ends) into curves of the parameter that it alone drives."""
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


def additive_part(kernel: Kernel, part: int | str) -> Kernel:
    """The additive part of a latent's kernel with this index or name; an error lists the parts."""
    parts = kernel.additive_parts
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
