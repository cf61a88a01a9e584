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

# A lengthscale so short that different levels are uncorrelated is as good as any shorter one:
# exp(−1500/2) is 0 to rounding, and larger weights would spoil the digits of the sum over columns.
LARGEST_WEIGHT = 1500.0
# Squared distances r² of numbers and ranks above this count as this: exp(−500) is 0 to rounding.
LARGEST_R2 = 1e3


class Mixed(Kernel):
    """Kernel of numbers and categories, an RBF: k = variance · exp(−½ Σ_d δ_d² / lengthscale_d²).

    δ_d is x_d − z_d in a column of numbers. In a column of levels it is 0 where x_d and z_d are the
    same level, else 1: any two levels of a category are equally alike, as if they were points at
    distance 1 of each other, and correlate by exp(−1/(2 lengthscale_d²)). In a column of ranks,
    which are levels in an order, it is the number of steps from one to the other.

    This is the default kernel of a model with a table of numbers and categories. Every level has a
    function of its own, and the functions are correlated.

    Columns of levels and ranks hold codes: numbers there are rounded to whole ones, and any two
    different codes are different levels, whether the data have them or not. Gradients in these
    columns are 0, and inducing inputs of a model keep the codes of their rows.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on.
    variance : k(x, x), positive.
    lengthscale : one value, or (input_dim,) with ARD; 1 if None.
    ARD : one lengthscale per column.
    levels, ranks : which of its columns are levels and ranks, counted from 0 among the columns that
        it acts on; all others are numbers.
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
        input_dim: int,
        variance: float = 1.0,
        lengthscale: Values | None = None,
        ARD: bool = False,
        levels: Sequence[int] = (),
        ranks: Sequence[int] = (),
        active_dims: Columns | None = None,
        name: str = "mixed",
    ) -> None:
        super().__init__(input_dim, name, active_dims)
        owner, self.ARD = type(self).__name__, bool(ARD)
        self.levels, self.ranks = self._checked_columns(levels), self._checked_columns(ranks)
        if set(self.levels) & set(self.ranks):
            raise InputError(f"{owner}: levels and ranks name a column twice: {levels}, {ranks}")
        self.variance = positive(owner, "variance", variance)
        self.lengthscale = self._per_dimension("lengthscale", lengthscale, self.ARD)
        self.link_parameters(self.variance, self.lengthscale)

    def _checked_columns(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Check the numbers of the kernel's columns that hold levels or ranks, and sort them."""
        values = np.array(columns)
        whole = values.size == 0 or (values.ndim == 1 and values.dtype.kind in "iu")
        inside = whole and bool(np.all((values >= 0) & (values < self.input_dim)))
        if not inside or np.unique(values).size != values.size:
            raise InputError(
                f"{type(self).__name__}: levels and ranks must be numbers of columns below "
                f"input_dim = {self.input_dim}, each once, got {columns!r}"
            )
        return tuple(sorted(values.astype(int).tolist()))

    def _of_X(self, columns: Sequence[int]) -> Indices:
        """The numbers in X of some of the kernel's columns, ascending."""
        dims = np.arange(self.input_dim) if self.active_dims is None else self.active_dims
        return np.sort(dims[list(columns)]).astype(np.intp)

    @property
    def level_columns(self) -> Indices:
        """The columns of X that hold codes of categories, both of levels and of ranks."""
        return self._of_X([*self.levels, *self.ranks])

    @property
    def unordered_columns(self) -> Indices:
        """The columns of X that hold codes of levels without an order."""
        return self._of_X(self.levels)

    def distances_in(self, spread: Array) -> Array:
        """Standard deviations (d,) of numbers and categories, in units of lengthscales."""
        own = np.array(super().distances_in(spread))
        own[list(self.levels)] = LEVEL_SPREAD
        return own

    def _prepare(self, X: Array) -> Evaluate:
        variance = float(self.variance.values[0])
        lengthscale = np.broadcast_to(self.lengthscale.values, X.shape[1]).copy()
        numbers = [d for d in range(X.shape[1]) if d not in self.levels]
        distances = DistancesFrom(
            self._rounded(X)[:, numbers],
            lengthscale[numbers],
            largest=LARGEST_R2,
            scale=-0.5,
            shift=np.log(variance),
        )
        levels = list(self.levels)
        weights = np.minimum(np.square(1.0 / lengthscale[levels]), LARGEST_WEIGHT)
        same = _Same(X[:, levels])

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """Matrix K (n, m) of numbers and categories and its pullback, at parameters as
            prepared.
            """
            other = None if Z is None else self._rounded(Z)[:, numbers]
            K, pull = distances.among() if other is None else distances.to(other)
            H = same.add(K, weights, None if Z is None else Z[:, levels])
            np.exp(K, out=K)

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """Reverse pass: dL/dθ, dL/dX and dL/dZ from dL/dK, 0 in columns of codes."""
                W = dL_dK * K
                total, dX, dZ, squares = pull(W, wrt_second)
                by_column = np.empty(X.shape[1])
                by_column[numbers] = squares / lengthscale[numbers]
                by_column[levels] = (W.sum() - same.pull(W, H)) / lengthscale[levels] ** 3
                by_column = by_column if self.ARD else by_column.sum(keepdims=True)
                dL_dtheta = np.concatenate([[total / variance], by_column])
                dL_dX = self._scattered(-dX / lengthscale[numbers], numbers)
                if dZ is None:
                    return dL_dtheta, dL_dX, None
                return dL_dtheta, dL_dX, self._scattered(-dZ / lengthscale[numbers], numbers)

            return K, pullback

        return evaluate

    def _rounded(self, X: Array) -> Array:
        """Inputs X of the kernel with the codes in columns of ranks rounded to whole numbers."""
        ranks = list(self.ranks)
        if not ranks:
            return X
        X = np.array(X)
        X[:, ranks] = np.rint(X[:, ranks])
        return X

    def _scattered(self, gradient: Array, numbers: Sequence[int]) -> Array:
        """Put the gradient in columns of numbers into all columns, 0 in those of category codes."""
        full = np.zeros((len(gradient), self.input_dim))
        full[:, numbers] = gradient
        full[:, list(self.ranks)] = 0.0
        return full

    def _evaluate_diag(self, X: Array) -> tuple[Array, PullbackDiag]:
        return constant_diag(self, X)


class Categorical(Mixed):
    """Kernel of exchangeable levels, k = variance · exp(−½ Σ_d 1(x_d ≠ z_d) / lengthscale_d²).

    Any two different levels of a category have the correlation exp(−1/(2 lengthscale²)). With a
    long lengthscale the category hardly matters; with a short one the levels are nearly
    independent. In a product such as `RBF(2, active_dims=[0, 1]) * Categorical(1, active_dims=[2])`
    each level has a function of its own, and the functions are correlated. With `RandomEffects`
    each level adds a constant.

    With `ordered` the distance of two levels is the number of steps between them, |x_d − z_d|:
    neighbours in the order are more alike than others.

    Columns hold codes of levels, as in `Mixed`, which has numbers beside them.

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
        every = range(input_dim) if isinstance(input_dim, int | np.integer) else range(0)
        levels, ranks = (range(0), every) if ordered else (every, range(0))
        super().__init__(input_dim, variance, lengthscale, ARD, levels, ranks, active_dims, name)
        self.ordered = bool(ordered)

    @property
    def correlation(self) -> Array:
        """How much two different levels (neighbours if `ordered`) correlate, by column: (d,)."""
        values = np.exp(-0.5 / np.square(self.lengthscale.values))
        return np.broadcast_to(values, (self.input_dim,)).copy()


class RandomEffects(Kernel):
    """Kernel of random effects, k = Σ_d variances_d · 1(x_d = z_d): every level adds a constant.

    The effects of levels are independent, N(0, variances_d): random intercepts. Effects of several
    categories add up.

    With `num_levels` K_d the effects of the levels 0 … K_d − 1 sum to 0, so that they do not shift
    the function as a whole: 1(x_d = z_d) is replaced by 1(x_d = z_d) − 1/K_d if both are such
    levels. The effect of any other level is independent of these.

    Columns hold codes of levels, as in `Categorical`.

    Parameters
    ----------
    input_dim : number of columns the kernel acts on, a category each.
    variances : variances of the effects: one value, or (input_dim,) with ARD; 1 if None.
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
        self.variances = self._per_dimension("variances", variances, self.ARD)
        self.link_parameter(self.variances)

    @property
    def level_columns(self) -> Indices:
        """The columns of X with category codes: all that the kernel of random effects reads."""
        return self.columns

    def _checked_levels(self, num_levels: int | Sequence[int] | None) -> tuple[int, ...] | None:
        """Check the numbers of levels K_d whose random effects sum to 0, one for each column."""
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
        """dL/dθ (size,) of random effects from the derivatives in the variances by column."""
        return by_column if self.ARD else by_column.sum(keepdims=True)

    def _centres(self, X: Array) -> Array:
        """1/√K_d where a row has a level whose random effects sum to 0, else 0: (n, d)."""
        if self.num_levels is None:
            return np.zeros(X.shape)
        codes, K = np.rint(X), np.array(self.num_levels, dtype=float)
        return np.where((codes >= 0.0) & (codes < K), 1.0 / np.sqrt(K), 0.0)

    def _prepare(self, X: Array) -> Evaluate:
        variances = np.broadcast_to(self.variances.values, X.shape[1]).copy()
        same, centres = _Same(X), self._centres(X)
        scaled = centres * np.sqrt(variances)

        def evaluate(Z: Array | None) -> tuple[Array, Pullback]:
            """Matrix K (n, m) of random effects and its pullback, at the parameters as prepared."""
            K, H = same.weighted(variances, Z)
            others = centres if Z is None else self._centres(Z)
            K -= scaled @ (scaled if Z is None else others * np.sqrt(variances)).T

            def pullback(
                dL_dK: Array, wrt_second: bool = True
            ) -> tuple[Array, Array, Array | None]:
                """Reverse pass of random effects: dL/dθ from dL/dK; inputs have no gradient."""
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
    """Which rows have the same category level as rows of X (n, d), column by column.

    It is found by products of indicators: H (n, L) has a column for each level of each column of X,
    and is 1 where a row has that level. A level that X does not have has no column in H, and is the
    same as none of X.
    """

    def __init__(self, X: Array) -> None:
        codes = np.rint(X)
        self.num_columns = codes.shape[1]
        self.levels = [np.unique(column) for column in codes.T]
        self.column = np.repeat(np.arange(self.num_columns), [len(own) for own in self.levels])
        self.own = self._indicators(codes)

    def _indicators(self, codes: Array) -> Array:
        """Indicators H (n, L) of the category levels of some rows."""
        parts = [c[:, None] == own for c, own in zip(codes.T, self.levels, strict=True)]
        return np.concatenate([np.empty((len(codes), 0)), *parts], axis=1, dtype=float)

    def add(self, exponents: Array, weights: Array, Z: Array | None) -> Array:
        """Add −½ Σ_d weights_d 1(x_id ≠ z_jd) to a kernel's exponents (n, m); the H of Z, or X.

        If Z is None, the diagonal stays as it is: a row is the same as itself.
        """
        H = self.own
        if not len(weights):
            return H if Z is None else np.zeros((len(Z), 0))
        S, H = self.weighted(weights, Z)
        S -= weights.sum()
        np.minimum(S, 0.0, out=S)
        if Z is None:
            np.fill_diagonal(S, 0.0)
        S *= 0.5
        exponents += S
        return H

    def weighted(self, weights: Array, Z: Array | None) -> tuple[Array, Array]:
        """Σ_d weights_d 1(x_id = z_jd) of levels, (n, m), and the H of Z, or of X if Z is None."""
        if Z is None:
            scaled = self.own * np.sqrt(weights)[self.column]
            return scaled @ scaled.T, self.own  # This product is exactly symmetric.
        H = self._indicators(np.rint(Z))
        return (self.own * weights[self.column]) @ H.T, H

    def pull(self, W: Array, H: Array) -> Array:
        """Reverse pass: Σ_ij W_ij 1(x_id = z_jd) of levels, for each column d, (d,)."""
        by_level = np.einsum("il,il->l", self.own, W @ H)
        return np.asarray(np.bincount(self.column, by_level, self.num_columns), dtype=float)


def _zeros(X: Array, Z: Array | None, wrt_second: bool) -> tuple[Array, Array | None]:
    """Gradients of a kernel of levels in X and Z, which are 0 because codes are rounded."""
    return np.zeros(X.shape), np.zeros(Z.shape) if wrt_second and Z is not None else None
