"""The distribution p(y | latents) itself: from the density alone, or from one of scipy.stats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from . import from_density

__all__ = ["Conditional"]

Array = np.ndarray


def _of_distribution(method: str, leading: int) -> Any:
    """A method of the frozen distribution; `leading` arguments come before the latents."""

    def call(self: Any, *args: Any, **kw: Any) -> Array:
        with np.errstate(all="ignore"):
            frozen = self.distribution(*args[leading:], **kw)
            value = np.asarray(getattr(frozen, method)(*args[:leading]), dtype=float)
        return value if leading else np.where(np.isnan(value), np.inf, value)  # no such moment

    call.__doc__ = f"`{method}` of the distribution."
    return call


def _draw(
    self: Any, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Any
) -> Array:
    """Draws from the distribution: the broadcast shape, or (size, *shape)."""
    shape = self._draw_shape(size, latents, kw)
    with np.errstate(all="ignore"):  # a draw beyond all numbers is infinite
        try:
            draws = self.distribution(*latents, **kw).rvs(shape, random_state=rng)
        except ValueError:  # numpy draws no counts that a 64-bit integer cannot hold
            draws = self.ppf(rng.uniform(size=shape), *latents, **kw)
    return np.where(np.isnan(draws), np.inf, np.asarray(draws, dtype=float))


_FROM_DISTRIBUTION = {
    "conditional_mean": _of_distribution("mean", 0),
    "conditional_variance": _of_distribution("var", 0),
    "cdf": _of_distribution("cdf", 1),
    "ppf": _of_distribution("ppf", 1),
    "log_survival": _of_distribution("logsf", 1),
    "log_cdf": _of_distribution("logcdf", 1),
    "sample": _draw,
}


class Conditional:
    """Moments, cdf, quantiles and draws of y given the latents, for a class with `log_density`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "distribution" in cls.__dict__:
            for name, method in _FROM_DISTRIBUTION.items():
                if name not in cls.__dict__ and hasattr(cls, name):
                    setattr(cls, name, method)

    def distribution(self: Any, *latents: Array, **kw: Any) -> Any:
        """p(y | latents) as a frozen distribution of scipy.stats. Optional.

        A class that defines it has mean, variance, cdf, ppf and sample (a `Survival` log_survival
        and log_cdf too) from it, but for those that it defines itself.
        """
        raise NotImplementedError(f"{type(self).__name__} has no distribution of scipy.stats.")

    def conditional_mean(self: Any, *latents: Array, **kw: Any) -> Array:
        """E[y | latents], broadcast shape; inf where it does not exist. Default: numeric."""
        return from_density.tabulate(self, latents, kw).moments()[0]

    def conditional_variance(self: Any, *latents: Array, **kw: Any) -> Array:
        """var[y | latents], broadcast shape; inf where it does not exist. Default: numeric."""
        return from_density.tabulate(self, latents, kw).moments()[1]

    def cdf(self: Any, y: Array, *latents: Array, **kw: Any) -> Array:
        """P(Y ≤ y | latents), broadcast shape. Default: integral or sum of the density."""
        return from_density.tabulate(self, latents, kw).cdf(y)

    def ppf(self: Any, q: Array, *latents: Array, **kw: Any) -> Array:
        """The smallest y with cdf(y) ≥ q, broadcast shape. Default: inverts the numeric cdf."""
        return from_density.tabulate(self, latents, kw).ppf(q)

    def sample(
        self: Any, rng: np.random.Generator, *latents: Array, size: int | None = None, **kw: Any
    ) -> Array:
        """Draws from p(y | latents): the broadcast shape, or (size, *shape). Default: `ppf`."""
        shape = self._draw_shape(size, latents, kw)
        return self.ppf(rng.uniform(size=shape), *latents, **kw)

    @staticmethod
    def _draw_shape(
        size: int | None, latents: Iterable[Array], kw: dict[str, Any]
    ) -> tuple[int, ...]:
        """Shape of `sample`: that of latents and metadata together, preceded by `size`."""
        arrays = [*latents, *(value for value in kw.values() if value is not None)]
        shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
        return shape if size is None else (size, *shape)
