"""Threads for the passes over rows: work in the background, results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

R = TypeVar("R")


class Threads:
    """A pool of `count` threads for passes, made when first used; with one, work is done here."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def map(self, work: Callable[..., R], jobs: Sequence[tuple[object, ...]]) -> Iterator[R]:
        """Call work(*job) of all jobs on threads, in their order; at most a few are in flight."""
        if self.count == 1 or len(jobs) == 1:
            for job in jobs:
                yield _quiet(work, *job)
            return
        pool, flying = self._executor(), deque[Future[R]]()
        try:
            for job in jobs:
                flying.append(pool.submit(_quiet, work, *job))
                if len(flying) > 2 * self.count:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:  # After an error no work may go on in the background.
            for future in flying:
                future.cancel()
            wait(flying)

    def _executor(self) -> ThreadPoolExecutor:
        """The pool of threads of this process; threads do not survive a fork."""
        key = (os.getpid(), self.count)
        if self._pool is None or self._pool[0] != key:
            self._pool = (key, ThreadPoolExecutor(self.count))
        return self._pool[1]


def _quiet(work: Callable[..., R], *job: object) -> R:
    """Work without floating-point warnings: what is not finite shows in the bound, checked."""
    with np.errstate(all="ignore"):  # belongs to a thread, so it is set in each
        return work(*job)
