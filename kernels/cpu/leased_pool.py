"""The threads of the CPU backend, and the leases under which they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

SMALL = 1 << 17
"""Smallest work, in field multiplications, that asks for a lease: a few milliseconds of one thread. Waiting for
the lease may take as long."""


Lease = Callable[[], "AbstractContextManager[int]"]
"""Returns a lease of CPU threads, held during a computation, which yields how many may be used. The caller decides who
grants it: in distprove a node's governor does."""


class LeasedPool:
    """A pool of at most `threads` threads of `native`, a build of the extension, the caller's included.

    `lease` is held during each computation that is not small. Nothing else is waited for while it is held; it may allow
    fewer threads.
    """

    def __init__(self, native: Any, threads: int, lease: Lease | None = None) -> None:
        self.native = native
        self.most = threads
        self.threads = native.Pool(threads)
        self._lease = lease

    def limit_threads(self, threads: int) -> None:
        """Limit later computations to `threads` threads, and never to more than the pool was created with."""
        wanted = max(1, min(threads, self.most))
        if wanted != self.threads.threads:
            self.threads = self.native.Pool(wanted)

    @contextmanager
    def leased(self, work: int) -> Iterator[Any]:
        """Hold a lease for a computation of about `work` field multiplications; yields the threads."""
        if self._lease is None or work < SMALL:
            yield self.threads
            return
        with self._lease() as threads:
            self.limit_threads(threads)
            yield self.threads

    def close(self) -> None:
        """End the threads."""
        self.threads = None
