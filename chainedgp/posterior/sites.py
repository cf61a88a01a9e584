"""Sites: a few numbers per row that stand for its likelihood; q is the prior times all sites.

What these are is told by the family of posteriors (`family`); here they are mixed and copied. There
are four sets of them: `committed` at the last accepted hyperparameters, `current` (they define q),
`proposal` (from the slopes at the current q) and `trial` (from the last evaluation).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import deque
from contextlib import suppress
from typing import Literal, get_args

import numpy as np

from ..linalg import Array

DISK_BYTES = 2**26  # A set of sites of this size is kept on disk if the rows are on disk too.
SetName = Literal["committed", "current", "proposal", "trial"]


class Sites:
    """The four sets of sites of some rows, and the steps between them.

    Parameters
    ----------
    shape : of every set; its last axis are the rows.
    on_disk : whether large sets are kept in temporary files.
    """

    def __init__(self, shape: tuple[int, ...], *, on_disk: bool = False) -> None:
        make = _on_disk if on_disk else np.zeros
        names: tuple[SetName, ...] = get_args(SetName)
        self.sets: dict[SetName, Array] = {name: make(shape) for name in names}
        self.history: deque[Array] = deque(maxlen=8)  # These are the remembered proposals.

    @property
    def current(self) -> Array:
        """The current sites, which define q."""
        return self.sets["current"]

    @property
    def proposal(self) -> Array:
        """The proposed sites of a full natural-gradient step from the current q."""
        return self.sets["proposal"]

    @property
    def trial(self) -> Array:
        """The trial sites of a full natural-gradient step from the q of the last evaluation."""
        return self.sets["trial"]

    def load(self, sites: Array) -> None:
        """Set current and committed sites from an array of their shape."""
        self.sets["current"][:] = sites
        self.sets["committed"][:] = sites

    def accept(self, rho: float) -> None:
        """Mix sites, λ ← (1 − ρ) λ + ρ λ_proposal; those of the last evaluation are proposed."""
        current, proposal = self.current, self.proposal
        if rho == 1.0:
            current[:] = proposal
        elif rho > 0.0:
            current *= 1.0 - rho
            current += rho * proposal
        self._swap_trial()

    def accept_combination(self, weights: Array) -> None:
        """Combine remembered proposals to sites, λ ← Σ_k c_k λ_proposal^(k): Anderson's method."""
        combined = sum(c * old for c, old in zip(weights, self.history, strict=True))
        self.sets["current"][:] = combined
        self._swap_trial()

    def _swap_trial(self) -> None:
        s = self.sets
        s["proposal"], s["trial"] = s["trial"], s["proposal"]

    def remember(self) -> None:
        """Keep a copy of the proposed sites for a later combination."""
        self.history.append(self.sets["proposal"].copy())

    def forget(self, keep: int = 0) -> None:
        """Drop all but the last `keep` remembered proposals of sites."""
        while len(self.history) > keep:
            self.history.popleft()

    def commit(self) -> None:
        """Keep the current sites for the accepted hyperparameters: later trials start from them."""
        self.sets["committed"][:] = self.sets["current"]

    def restore(self) -> None:
        """Set current sites to those of the last accepted hyperparameters, to start a trial."""
        self.sets["current"][:] = self.sets["committed"]

    def clear(self) -> None:
        """Set current sites to 0, so that q is the prior; the committed ones stay."""
        self.sets["current"][:] = 0.0

    def take_proposal(self) -> None:
        """Take the proposal for the current sites: rebuilds them after one evaluation at any q."""
        self.sets["current"][:] = self.sets["proposal"]


def _on_disk(shape: tuple[int, ...]) -> Array:
    """A set of sites, all 0, in a temporary file that goes with the array.

    It is in memory if it is small, or if the disk is full.
    """
    size = 8 * math.prod(shape)
    if size >= DISK_BYTES:
        # The map outlives its file's name.
        with suppress(OSError), tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):  # A full disk raises here; later it would crash.
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return np.asarray(np.memmap(file, dtype=float, mode="r+", shape=shape))
    return np.zeros(shape)
