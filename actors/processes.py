"""Processes of this machine that serve: the workers of a device, a synthesiser or a verifier.

    HostProcess --Served.ask(slot, verb, ...)--> what the process serves, or the worker in one of its key slots
    Leases <--Leases.acquire(...)--------------- the process

A `HostProcess` starts its process, again after a death, and calls verbs there; leases are asked for in the other
direction. What the process does with them is in `actors.server`, which a Ray actor does not import.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple

import psutil

from actors import patience
from actors.backends import Ahead
from actors.channel import Channel, ChannelClosed
from actors.fork_server import Forked, ForkServer, interpreter
from actors.grants import Governor, Wanted
from actors.lastwords import CrashMarker, new_page
from actors.messages import HostSpec, Spec, pickled
from actors.protocol import Host, P, R, Verb, WorkerDied, WorkerStuck, invoke
from actors.standby import STANDBY
from distprove.system import PartitionId

if TYPE_CHECKING:
    from kernels.host.shared_arrays import Receiver


class Served(ABC):
    """What a process serves to its parent: one object, once that is known."""

    def __init__(self) -> None:
        self._served: Any = None  # whatever its spec makes; `invoke` looks at its class
        self.ready = threading.Event()
        """Nothing is asked of what is served before this is set: libraries are not loaded by two threads at once."""

    @abstractmethod
    def _make(self, spec: Spec) -> object:
        """Make what a spec describes."""

    def serve(self, spec: bytes, path: list[str]) -> None:
        """Serve what a pickled spec describes. `path` is `sys.path` of the parent, which may have grown."""
        sys.path[:] = path
        self._served = self._make(pickle.loads(spec))

    def ask(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a verb of the worker in that key slot, or of what is served."""
        self.ready.wait()
        if self._served is None:  # it is for an earlier life of this process
            raise WorkerDied("the process was started again")
        return invoke(self._served if slot is None else self._served.worker(slot), verb, arguments, named)

    def tell(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Call a verb as `ask` does, unless the slot is shut."""
        with suppress(WorkerDied):
            self.ask(slot, verb, arguments, named)

    def forward(self, call: bytes) -> bytes:
        """Do `ask` with pickled arguments, and pickle the answer: a Ray actor between can read neither."""
        return pickle.dumps(self.ask(*pickle.loads(call)), pickle.HIGHEST_PROTOCOL)


class Leases:
    """Leases that one life of a process holds of the governor."""

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        self._lock = threading.Lock()
        self._tickets: set[int] = set()
        self._over = False

    def acquire(self, wanted: Wanted) -> tuple[int, int]:
        """Wait for a lease; its ticket and number of threads."""
        grant = self._governor.acquire(**wanted)
        with self._lock:
            self._tickets.add(grant.ticket)
            over = self._over
        if over:  # what the process held was given back before this was granted
            self.release(grant.ticket)
        return grant.ticket, grant.threads

    def release(self, ticket: int) -> None:
        """Give back a lease. A ticket that is not known is ignored."""
        with self._lock:
            known = ticket in self._tickets
            self._tickets.discard(ticket)
        if known:
            self._governor.release(ticket)

    def shrink(self, ticket: int, memory: int) -> None:
        """Give back the memory of a lease above `memory` bytes."""
        self._governor.shrink(ticket, memory)

    def threads_wanted(self) -> bool:
        """Whether anybody waits for threads."""
        return self._governor.threads_wanted()

    def end(self) -> None:
        """Give back all leases: the process has ended."""
        with self._lock:
            tickets, self._tickets, self._over = self._tickets, set(), True
        for ticket in tickets:
            self._governor.release(ticket)


class HostProcess(Host):
    """A process that serves what its spec describes, started by `start`, and again after its death."""

    def __init__(
        self,
        name: str,
        spec: Spec | bytes,
        governor: Governor,
        fork_server: ForkServer | None = None,
        started: Started | None = None,
    ) -> None:
        """`spec` may be pickled. `governor` gives leases to a process that asks for any. With a `fork_server` the
        process is forked from it. One that is `started` lives its first life."""
        self._name = name
        self._spec = spec if isinstance(spec, bytes) else pickled(spec)
        self._fork_server = fork_server
        self._started = started
        self._has_fork_server = isinstance(spec, HostSpec)
        self._governor = governor
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._child: Child | None = None
        self._over = False
        self._serves = False
        """Whether the process has been told what to serve, and does."""
        self._holds = False
        """Whether it has the reserve kept."""

    def start(self) -> None:
        """Start the process, unless it lives; either way it knows what to serve. Raises WorkerDied after `end`."""
        with self._starting:
            with self._lock:
                if self._over:
                    raise WorkerDied(f"{self._name} was ended")
                if self._child is not None and not self._child.ended:
                    if self._serves:
                        return
                    self._child.end()
                started, self._started = self._started, None
                if started is None and self._fork_server is not None:
                    started = _forked(self._name, self._fork_server)
                again = self._child is not None
                started = started or start_process(self._name, has_fork_server=self._has_fork_server, again=again)
                if self._has_fork_server and not again and forking is None:
                    STANDBY.hold()
                    self._holds = True
                self._child = child = Child(self._name, self._governor, started)
                self._serves = False
            child.call(Served.serve, self._spec, sys.path)
            self._serves = True

    def carry(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return self._living().call(Served.ask, slot, verb, arguments, named)

    def post(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        with suppress(ChannelClosed, WorkerDied):
            self._living().channel.tell(Served.tell, slot, verb, arguments, named)

    def forward(self, call: bytes) -> bytes:
        """Call a verb whose pickled form came from another process, and return the pickled answer (`Served.forward`).
        Raises what it raises, or WorkerDied."""
        return self._living().call(Served.forward, call)

    def kill(self) -> None:
        """End the process, and those that it started: one that is stopped would not see its end. Calls under way raise
        WorkerDied."""
        with suppress(WorkerDied):
            self._living().kill()

    def end(self) -> None:
        """End the process, whatever it is at, for good."""
        with self._lock:
            self._over = True
            child, self._child = self._child, None
            started, self._started = self._started, None
            holds, self._holds = self._holds, False
        if holds:
            STANDBY.drop()
        for life in (child, started):
            if life is not None:
                life.end()

    def _living(self) -> Child:
        with self._lock:
            child = self._child
        if child is None:
            raise WorkerDied(f"{self._name} was ended")
        return child


class Started(NamedTuple):
    """A process that serves what it will be told, at the other end of the connection."""

    process: subprocess.Popen[bytes] | Forked
    connection: Connection
    marker: CrashMarker | None = None

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience.PROCESS_ENDS)


forking: ForkServer | None = None
"""Forks what `start_process` starts, if there is one: see `actors.bootstrap.forking_from_here`."""


def start_process(name: str, *, has_fork_server: bool, ahead: Ahead | None = None, again: bool = False) -> Started:
    """A process that imports what it needs; with a fork server it is to be a worker. Not waited for. `ahead`: a device
    that the process opens before it is told to. `again`: it takes the place of one that died, or the reserve was begun
    for it, and it is forked from the reserve if there is one."""
    ours, theirs = Pipe()
    page = new_page()
    arguments = has_fork_server, None if ahead is None else tuple(ahead)
    try:
        with theirs:
            descriptors = theirs.fileno(), page
            fork_server = forking or (STANDBY.server if again else None)
            if fork_server is not None:
                with suppress(OSError):
                    return Started(fork_server.fork(name, descriptors, *arguments), ours, CrashMarker(page))
            begin = f"from actors.bootstrap import main; main(*{descriptors!r}, *{arguments!r})"
            process = interpreter(name, begin, descriptors)
        return Started(process, ours, CrashMarker(page))
    finally:
        os.close(page)


def expect(spec: bytes) -> None:
    """Workers of this process serve this pickled `WorkerSpec`: those that are forked later, in place of one that died,
    are to have imported what they need for it."""
    STANDBY.expect(spec) if forking is None else forking.prepare(spec)


def _forked(name: str, fork_server: ForkServer) -> Started | None:
    """A process from the fork server; None where that has died."""
    ours, theirs = Pipe()
    with theirs, suppress(OSError):
        return Started(fork_server.fork(name, [theirs.fileno()]), ours)
    ours.close()
    return None


class Child:
    """One life of a process."""

    def __init__(self, name: str, governor: Governor, started: Started) -> None:
        """Take charge of a process."""
        self._marker = started.marker
        self._at: PartitionId | None = None
        """The partition that the process computed when it ended."""
        self.rows = 0
        """Number of times that it was asked for witnesses."""
        self.unused: deque[int] = deque()
        """Numbers of witnesses that it may drop. Added to wherever the last reference dies; sent where that is safe."""
        self._name = name
        self._lock = threading.Lock()
        self._leases = Leases(governor)
        self._process = started.process
        self._stuck = False
        """Whether it was killed and did not end."""
        self.channel = Channel(started.connection, self._leases, self._gone)
        with suppress(OSError, ValueError):  # it ended already
            self.channel.send_within(patience.PROCESS_READS)

    @cached_property
    def receiver(self) -> Receiver:
        """What of its memory is mapped here, for as long as it lives."""
        from kernels.host.shared_arrays import Receiver  # with NumPy, which a Ray actor does without

        return Receiver()

    @property
    def ended(self) -> bool:
        """Whether the process is known to have ended. It is when a call has failed for that."""
        return self.channel.ended

    def call(self, verb: Callable[Concatenate[Served, P], R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call the process and return its answer. Raises what it raises, or WorkerDied."""
        try:
            return self.channel.call(verb, *arguments, **named)
        except ChannelClosed:
            try:
                code = self._ended()
            except subprocess.TimeoutExpired:
                raise WorkerStuck(f"the process of {self._name} was killed and does not end") from None
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise WorkerDied(f"the process of {self._name} ended {how}", self._computed()) from None

    def _computed(self) -> PartitionId | None:
        """The partition that the process computed when it ended, which it has."""
        with self._lock:
            if self._marker is not None:
                self._at = self._marker.read()
                self._marker.close()
                self._marker = None
            return self._at

    def _ended(self) -> int:
        """The exit code of a process whose connection has ended. Raises TimeoutExpired where it cannot be ended."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(0.0 if self._stuck else patience.PROCESS_ENDS)
        self._process.kill()
        return self._process.wait(0.0 if self._stuck else patience.PROCESS_ENDS)

    def take_unused(self) -> list[int]:
        """Numbers of witnesses that the process is to be told to drop."""
        numbers: list[int] = []
        with suppress(IndexError):
            while True:
                numbers.append(self.unused.popleft())
        return numbers

    def kill(self) -> None:
        """Kill the process, and those that it started. Where it does not end, what is asked of it ends all the same."""
        started: list[psutil.Process] = []
        with suppress(psutil.Error):  # it, or one of them, is just ending
            started = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for process in started:
            with suppress(psutil.Error):
                process.kill()
        threading.Thread(target=self._see_end, name="distprove-ending", daemon=True).start()

    def end(self) -> None:
        """Kill the process, and wait for its end, but not for one that does not end."""
        self._process.kill()
        self._give_up()

    def _see_end(self) -> None:
        """Wait for the end, so that it leaves no zombie; nobody waits for this."""
        self._give_up()
        self._process.wait()

    def _give_up(self) -> None:
        """End the connection of a process that was killed, where that does not do so."""
        try:
            self._process.wait(patience.PROCESS_ENDS)
        except subprocess.TimeoutExpired:
            self._stuck = True
            self.channel.cut()

    def _gone(self) -> None:
        self._leases.end()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0 if self._stuck else patience.PROCESS_ENDS)  # so that it leaves no zombie
            self._computed()
