"""Sites: two numbers per row i and latent j that stand for the likelihood, of which q is made.

In absolute form λ2 = −2 ∂E/∂v, λ1 = ∂E/∂m + λ2 m. There are four sets of them, each (2, b, n):
`committed` at the last accepted hyperparameters, `current` (they define q), `proposal` (from the
gradients at the current q) and `trial` (from the last evaluation).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import deque
from contextlib import suppress

import numpy as np

from ..linalg import Array

__all__ = ["Sites"]

DISK_BYTES = 2**26  # of a set of sites, from which it is kept on disk where the rows are


class Sites:
    """The four sets of sites of some rows, and the steps between them."""

    def __init__(self) -> None:
        self._sites: dict[str, Array] = {}
        self._history: deque[Array] = deque(maxlen=8)

    def start_sites(self, b: int) -> None:
        """All sites 0: q is the prior."""
        raise NotImplementedError(f"{type(self).__name__} must implement start_sites")

    def make_sites(self, b: int, n: int, *, on_disk: bool = False) -> None:
        """All sites 0: q is the prior. on_disk : in temporary files, where they are large."""
        for name in ("committed", "current", "proposal", "trial"):
            self._sites[name] = _on_disk((2, b, n)) if on_disk else np.zeros((2, b, n))
        self._history.clear()

    def has_sites(self) -> bool:
        """Whether sites have been started."""
        return bool(self._sites)

    def sites(self, name: str = "current") -> Array:
        """One of the four sets of sites, (2, b, n)."""
        return self._sites[name]

    def load_sites(self, sites: Array) -> None:
        """Set current and committed sites from an array (2, b, n)."""
        self.start_sites(sites.shape[1])
        self._sites["current"][:] = sites
        self._sites["committed"][:] = sites

    def accept(self, rho: float) -> None:
        """λ ← (1 − ρ) λ + ρ λ_proposal, then the last evaluation's sites become the proposal."""
        current, proposal = self._sites["current"], self._sites["proposal"]
        if rho == 1.0:
            current[:] = proposal
        elif rho > 0.0:
            current *= 1.0 - rho
            current += rho * proposal
        self._swap_trial()

    def accept_combination(self, weights: Array) -> None:
        """λ ← Σ_k c_k λ_proposal^(k) over the remembered proposals (Anderson acceleration)."""
        combined = sum(c * old for c, old in zip(weights, self._history, strict=True))
        self._sites["current"][:] = combined
        self._swap_trial()

    def _swap_trial(self) -> None:
        s = self._sites
        s["proposal"], s["trial"] = s["trial"], s["proposal"]

    def remember(self) -> None:
        """Keep a copy of the proposal for a later combination."""
        self._history.append(self._sites["proposal"].copy())

    def forget(self, keep: int = 0) -> None:
        """Drop all but the last `keep` remembered proposals."""
        while len(self._history) > keep:
            self._history.popleft()

    def commit(self) -> None:
        """The hyperparameters were accepted: later trials start from these sites."""
        self._sites["committed"][:] = self._sites["current"]

    def restore(self) -> None:
        """Start a trial from the sites of the last accepted hyperparameters."""
        self._sites["current"][:] = self._sites["committed"]

    def clip(self) -> None:
        """Drop the sites of negative precision: a start from which q always exists."""
        lam1, lam2 = self._sites["current"]
        negative = lam2 < 0.0
        lam1[negative] = 0.0
        lam2[negative] = 0.0

    def clear(self) -> None:
        """Current sites 0, q the prior; the committed ones stay."""
        self._sites["current"][:] = 0.0

    def take_proposal(self) -> None:
        """The proposal becomes the current sites: rebuilds them after one evaluation at any q."""
        self._sites["current"][:] = self._sites["proposal"]


def _on_disk(shape: tuple[int, ...]) -> Array:
    """Zeros in a temporary file that goes with the array; in memory if few, or the disk is full."""
    size = 8 * math.prod(shape)
    if size >= DISK_BYTES:
        with suppress(OSError), tempfile.TemporaryFile() as file:  # the map outlives its name
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and a crash later
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return np.asarray(np.memmap(file, dtype=float, mode="r+", shape=shape))
    return np.zeros(shape)
