"""Kernels on categories: columns of X that hold codes of levels, 0, 1, 2, …, not quantities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.names import checks_names
from ..errors import InputError
from ..linalg import Array
from ..parameters.roles import Role
from .base import (
    LEVEL_SPREAD,
    Columns,
    Evaluate,
    Indices,
    Kernel,
    Pullback,
    PullbackDiag,
    Values,
    constant_diag,
    positive,
)
from .distances import DistancesFrom

__all__ = ["Categorical", "RandomEffects"]

# A lengthscale so short that different levels are uncorrelated is as good as any shorter one:
# exp(−1500/2) is 0 to rounding, and larger weights would spoil the digits of the sum over columns.
LARGEST_WEIGHT = 1500.0
# Exponents of ordered levels below −500 count as −500.
LARGEST_R2 = 1e3


class _Levels(Kernel):
    """A kernel whose columns are codes: whole numbers, which no gradient moves."""

    @property
    def level_columns(self) -> Indices:
        """All columns that it reads."""
        return self.columns


class Categorical(_Levels):
    """k(x, z) = variance · exp(−½ Σ_d 1(x_d ≠ z_d) / lengthscale_d²): exchangeable levels.

    Any two levels of a category are equally alike: they correlate by exp(−1/(2 lengthscale²)), as
    if they were points at distance 1 of each other. A long lengthscale says that the category
    hardly matters, a short one that nothing is learnt of one level from another. Times another
    kernel, `RBF(2, active_dims=[0, 1]) * Categorical(1, active_dims=[2])`, each level has a
    function of its own, and the functions are alike; see `RandomEffects` for levels that add a
    constant each.

    With `ordered` the distance of two levels is the number of steps between them, |x_d − z_d|:
    neighbours in the order are more alike than others.

    Columns hold codes of levels: numbers are rounded to whole ones, and any two different codes
    are different levels, whether the data have them or not. Gradients in x are 0, and inducing
    inputs of a model keep the codes of their rows.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on, a category each.
    variance : k(x, x), positive.
    lengthscale : one value, or (input_dim,) with ARD; 1 if None.
    ARD : one lengthscale per column.
    ordered : whether the codes are ranks.
    active_dims : the columns of X it acts on; None for all.
    name : ASCII identifier.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    roles = {"variance": Role.VARIANCE, "lengthscale": Role.LENGTHSCALE}

    @checks_names
    def __init__(
        self,
        input_dim: int = 1,
        variance: float = 1.0,
        lengthscale: Values | None = None,
        ARD: bool = False,
        ordered: bool = False,
        active_dims: Columns | None = None,
        name: str = "categorical",
    ) -> None:
        super().__init__(input_dim, name, active_dims)
        owner, self.ARD, self.ordered = type(self).__name__, bool(ARD), bool(ordered)
        self.variance = positive(owner, "variance", variance)
        lengthscale = 1.0 if lengthscale is None else lengthscale
        size = self.input_dim if ARD else 1
        self.lengthscale = positive(owner, "lengthscale", lengthscale, size, self.ARD)
        self.link_parameters(self.variance, self.lengthscale)

    @property
    def correlation(self) -> Array:
        """How much two different levels (with `ordered` neighbours) correlate, by column: (d,)."""
        values = np.exp(-0.5 / np.square(self.lengthscale.values))
        return np.broadcast_to(values, (self.input_dim,)).copy()

    @property
    def unordered_columns(self) -> Indices:
        """All columns that it reads, or none where codes are ranks."""
        return self.columns[:0] if self.ordered else self.columns

    def distances_in(self, spread: Array) -> Array:
        """Standard deviations (d,) of its columns, as its lengthscales measure them."""
        own = super().distances_in(spread)
        return own if self.ordered else np.full(own.size, LEVEL_SPREAD)

    def _prepare(self, X: Array) -> Evaluate:
        return self._by_steps(X) if self.ordered else self._by_identity(X)

    def _by_identity(self, X: Array) -> Evaluate:
        """Levels without an order: the exponent counts the columns in which levels differ."""
        variance, lengthscale = float(self.variance.values[0]), self.lengthscale.values.copy()
        weights = np.minimum(np.square(1.0 / lengthscale), LARGEST_WEIGHT)
        same = _Same(X)

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """K (n, m) and its pullback, at the parameters that it was prepared with."""
            K, H = same.weighted(np.broadcast_to(weights, X.shape[1]), Z)
            K -= np.broadcast_to(weights, X.shape[1]).sum()
            np.minimum(K, 0.0, out=K)
            if Z is None:
                np.fill_diagonal(K, 0.0)
            K *= 0.5
            np.exp(K, out=K)
            K *= variance

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """dL/dθ from dL/dK; the inputs have no gradient."""
                W = dL_dK * K
                total = float(W.sum())
                different = total - same.pull(W, H)  # Σ_ij W_ij 1(x_id ≠ z_jd), (d,)
                dL_dtheta = self._gradient(total / variance, different / lengthscale**3)
                return dL_dtheta, *_zeros(X, Z, wrt_second)

            return K, pullback

        return evaluate

    def _by_steps(self, X: Array) -> Evaluate:
        """Levels in an order: the exponent has the squared numbers of steps between them."""
        variance, lengthscale = float(self.variance.values[0]), self.lengthscale.values.copy()
        distances = DistancesFrom(
            np.rint(X), lengthscale, largest=LARGEST_R2, scale=-0.5, shift=np.log(variance)
        )

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """K (n, m) and its pullback, at the parameters that it was prepared with."""
            K, pull = distances.among() if Z is None else distances.to(np.rint(Z))
            np.exp(K, out=K)

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """dL/dθ from dL/dK; the inputs have no gradient."""
                total, _, _, steps = pull(dL_dK * K, False)
                dL_dtheta = self._gradient(total / variance, steps / lengthscale)
                return dL_dtheta, *_zeros(X, Z, wrt_second)

            return K, pullback

        return evaluate

    def _gradient(self, of_variance: float, by_column: Array) -> Array:
        """dL/dθ (size,) from the derivatives in the variance and in lengthscales by column."""
        by_column = by_column if self.ARD else by_column.sum(keepdims=True)
        return np.concatenate([[of_variance], by_column])

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        return constant_diag(self, X)


class RandomEffects(_Levels):
    """k(x, z) = Σ_d variances_d · 1(x_d = z_d): every level of a category adds a constant.

    The effects of levels are independent, N(0, variances_d): random intercepts. Effects of several
    categories add up. To a `Categorical` it is what `Linear` is to an `RBF`.

    With `num_levels` K_d the effects of the levels 0 … K_d − 1 sum to 0, so that they are no part
    of the level of the whole: 1(x_d = z_d) − 1/K_d stands for 1(x_d = z_d) where both are such
    levels. The effect of any other level is independent of these.

    Columns hold codes of levels, as in `Categorical`.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on, a category each.
    variances : of the effects: one value, or (input_dim,) with ARD; 1 if None.
    ARD : one variance per column.
    active_dims : the columns of X it acts on; None for all.
    name : ASCII identifier.
    num_levels : number of levels whose effects sum to 0, one or (input_dim,); None for no sum.

    Raises
    ------
    InputError : an argument that cannot be used, by name.
    """

    roles = {"variances": Role.VARIANCE}

    @checks_names
    def __init__(
        self,
        input_dim: int = 1,
        variances: Values | None = None,
        ARD: bool = False,
        active_dims: Columns | None = None,
        name: str = "random_effects",
        num_levels: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__(input_dim, name, active_dims)
        self.num_levels = self._checked_levels(num_levels)
        self.ARD = bool(ARD)
        variances = 1.0 if variances is None else variances
        size = self.input_dim if ARD else 1
        self.variances = positive(type(self).__name__, "variances", variances, size, self.ARD)
        self.link_parameter(self.variances)

    def _checked_levels(self, num_levels: int | Sequence[int] | None) -> tuple[int, ...] | None:
        """The K_d, one for each column."""
        if num_levels is None:
            return None
        values = np.atleast_1d(np.array(num_levels))
        whole = values.ndim == 1 and values.dtype.kind in "iu" and bool((values >= 1).all())
        if not whole or values.size not in (1, self.input_dim):
            raise InputError(
                f"{type(self).__name__}: num_levels must be 1 or {self.input_dim} whole numbers "
                f"of at least 1, got {num_levels!r}"
            )
        return tuple(np.broadcast_to(values, self.input_dim).tolist())

    def _gradient(self, by_column: Array) -> Array:
        """dL/dθ (size,) from the derivatives in the variances by column."""
        return by_column if self.ARD else by_column.sum(keepdims=True)

    def _centres(self, X: Array) -> Array:
        """1/√K_d where a row has one of the levels whose effects sum to 0, else 0: (n, d)."""
        if self.num_levels is None:
            return np.zeros(X.shape)
        codes, K = np.rint(X), np.array(self.num_levels, dtype=float)
        return np.where((codes >= 0.0) & (codes < K), 1.0 / np.sqrt(K), 0.0)

    def _prepare(self, X: Array) -> Evaluate:
        variances = np.broadcast_to(self.variances.values, X.shape[1]).copy()
        same, centres = _Same(X), self._centres(X)
        scaled = centres * np.sqrt(variances)

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """K (n, m) and its pullback, at the parameters that it was prepared with."""
            K, H = same.weighted(variances, Z)
            others = centres if Z is None else self._centres(Z)
            K -= scaled @ (scaled if Z is None else others * np.sqrt(variances)).T

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """dL/dθ from dL/dK; the inputs have no gradient."""
                shared = np.einsum("id,id->d", centres, dL_dK @ others)
                dL_dtheta = self._gradient(same.pull(dL_dK, H) - shared)
                return dL_dtheta, *_zeros(X, Z, wrt_second)

            return K, pullback

        return evaluate

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        variances = np.broadcast_to(self.variances.values, X.shape[1])
        own = 1.0 - np.square(self._centres(X))  # (n, d)

        def pullback(dL_dk: Array) -> tuple[Array, None]:
            return self._gradient(dL_dk @ own), None

        return own @ variances, pullback


class _Same:
    """Which rows have the same level as rows of X (n, d), column by column.

    By products of indicators: H (n, L) has a column for each level of each column of X, 1 where a
    row has that level. Levels that X does not have belong to no column of H: they are the same as
    none of X.
    """

    def __init__(self, X: Array) -> None:
        codes = np.rint(X)
        self.num_columns = codes.shape[1]
        self.levels = [np.unique(column) for column in codes.T]
        self.column = np.repeat(np.arange(self.num_columns), [len(own) for own in self.levels])
        self.own = self._indicators(codes)

    def _indicators(self, codes: Array) -> Array:
        """H of some rows."""
        parts = [c[:, None] == own for c, own in zip(codes.T, self.levels, strict=True)]
        return np.concatenate(parts, axis=1).astype(float)

    def weighted(self, weights: Array, Z: Array | None) -> tuple[Array, Array]:
        """Σ_d weights_d 1(x_id = z_jd), (n, m), and the H of Z, or of X where Z is None."""
        if Z is None:
            scaled = self.own * np.sqrt(weights)[self.column]
            return scaled @ scaled.T, self.own  # This product is exactly symmetric.
        H = self._indicators(np.rint(Z))
        return (self.own * weights[self.column]) @ H.T, H

    def pull(self, W: Array, H: Array) -> Array:
        """Σ_ij W_ij 1(x_id = z_jd) of each column d, (d,)."""
        by_level = np.einsum("il,il->l", self.own, W @ H)
        return np.asarray(np.bincount(self.column, by_level, self.num_columns), dtype=float)


def _zeros(X: Array, Z: Array | None, wrt_second: bool) -> tuple[Array, Array | None]:
    """The gradients in X and Z, which are 0 almost everywhere: codes are rounded."""
    return np.zeros(X.shape), np.zeros(Z.shape) if wrt_second and Z is not None else None
