"""A node's governor as threads use it: the ledger behind a lock, and what it sees of the node."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from actors import grants, patience
from actors.grants import Grant, Wanted
from cluster.governor.state import NOBODY, Budget, Holder, Ledger, Request
from cluster.governor.watch import NodeWatch, Samples
from distprove.errors import ClusterError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Asked(NamedTuple):
    """A request that was queued. Whoever does not wait for it to the end must release its ticket."""

    ticket: int
    threads: Future[int]
    """Number of threads of the lease, once it is granted; ClusterError when the holder is reclaimed before."""


class LocalGovernor(grants.Governor):
    """A node's governor, for any thread of this process.

    Workers here ask by `acquire` and `lease`. `ask` is for whoever speaks for other holders, and does not wait.
    """

    def __init__(
        self,
        budget: Budget,
        lives: Callable[[Holder], bool] | None = None,
        watch: NodeWatch | None = None,
        first: int = 1,
    ) -> None:
        """`lives` tells whether a holder still does; None: all do,
        until `reclaim`. `watch`: None is one of what this process starts. `first`: the first ticket."""
        self._lives = lives
        self._state = Ledger(budget, first)
        self._lock = threading.RLock()
        self._waiting: dict[int, Future[int]] = {}
        """Futures of the requests that wait, by ticket."""
        self._samples = Samples()
        self.watch = watch or NodeWatch()
        self._epoch = time.time() - time.monotonic()
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look at the node. Needs `close`."""
        ticker = threading.Thread(target=self._tick, name="distprove-governor", daemon=True)
        ticker.start()
        self._ticker = ticker  # one that could not start is not waited for

    def close(self) -> None:
        """Stop looking. Leases are still given and taken back."""
        if self._ticker is not None:
            self._stop.set()
            self._ticker.join()
            self._ticker = None
        self.watch.close()

    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        return self.hold(Request((os.getpid(), 0.0), **wanted))

    def keep(self, key: str, *, memory: int = 0) -> int:
        """Keep a key resident until `release` of the ticket that is returned, whatever thread that comes from."""
        return self.hold(Request(NOBODY, memory=memory, key=key)).ticket

    def hold(self, request: Request) -> Grant:
        """Wait for a lease. Raises ClusterError if it never can be had, or when its holder is reclaimed meanwhile."""
        ticket, threads = self.ask(request)
        try:
            return Grant(ticket, threads.result())
        except BaseException:
            self.release(ticket)
            raise

    def ask(self, request: Request) -> Asked:
        """Queue a request. Raises ClusterError if it never can be granted."""
        with self._lock:
            self.reclaim_dead()
            asked = Asked(self._state.request(request), Future())
            self._waiting[asked.ticket] = asked.threads
            self._tell()
            return asked

    def release(self, ticket: int) -> None:
        """Give back a lease, or withdraw a request. A ticket that is not known is ignored."""
        self._change(lambda state: state.release(ticket))

    def shrink(self, ticket: int, memory: int) -> None:
        self._change(lambda state: state.shrink(ticket, memory))

    def threads_wanted(self) -> bool:
        with self._lock:
            return self._state.threads_wanted

    def shrink_key(self, ticket: int, memory: int) -> None:
        """Reduce a key that this lease alone keeps to so many bytes of memory."""
        self._change(lambda state: state.shrink_key(ticket, memory))

    def reclaim(self, holder: Holder) -> None:
        """Take back what a holder has that is no more, and end its waiting."""
        self._change(lambda state: state.reclaim(holder))

    def reclaim_dead(self) -> None:
        """Take back what holders have that do not live, and end their waiting."""
        if self._lives is not None:
            with self._lock:
                for holder in self._state.holders:
                    if not self._lives(holder):
                        self.reclaim(holder)

    def sample(self) -> None:
        """Look at the node, if that is due."""
        with suppress(OSError), self._lock:  # no descriptor is free: there is another look
            self._samples.take(time.monotonic(), self._state)

    def report(self, began: float = 0.0) -> dict[str, Any]:
        """Plain data for report.json, with times in seconds since `began` (since the epoch)."""
        shift = self._epoch - began
        seen = self.watch.report()
        with self._lock:
            taken = self._samples.taken
            # A standing scheduler's governor was there before the job.
            taken = [sample for sample in taken if sample["t"] + shift >= -patience.GOVERNOR_LOOK] or taken[-1:]
            return {
                **self._state.report(),
                **seen,
                "samples": [{**sample, "t": round(sample["t"] + shift, 3)} for sample in taken],
            }

    def _change(self, change: Callable[[Ledger], None]) -> None:
        with self._lock:
            change(self._state)
            self._tell()

    def _tell(self) -> None:
        """Tell those whose waiting is over. Called with the lock held, after every change of the state."""
        if not self._waiting:
            return
        still = {ticket for ticket, _ in self._state.waiting}
        for ticket in self._waiting.keys() - still:
            future, lease = self._waiting.pop(ticket), self._state.leases.get(ticket)
            if not future.set_running_or_notify_cancel():
                continue  # whoever asked waits no more, and is about to release the ticket
            if lease is None:
                future.set_exception(ClusterError("the holder that asked is gone"))
            else:
                future.set_result(lease.threads)

    def _tick(self) -> None:
        while not self._stop.wait(patience.GOVERNOR_LOOK):
            with suppress(OSError):  # no descriptor is free: the next look is soon
                self.sample()
                self.watch.look()
