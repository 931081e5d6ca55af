"""Worker processes of this machine, as the executor's threads see them: the other end of `actors.process`."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from actors.backends import BackendChoice
from actors.channel import Channel, ChannelClosed, Handler
from actors.process import ProverSpec, SentWitness, Spec, SynthesiserSpec, WitnessGone, pickled
from cluster.governor import LocalGovernor, Request
from cluster.tasks import WorkerDied, WorkLost
from distprove.inflight import Timed, Turn
from distprove.phases import Phase
from distprove.system import Partition, ProofSystem

PATIENCE = 10.0
"""Seconds that a prover has to give back its device at the end, before its process is ended."""


class WorkerProcess:
    """A process with one worker, started when the worker is loaded and again after its death."""

    def __init__(self, name: str, spec: Spec, governor: LocalGovernor | None = None) -> None:
        """`governor` gives leases to a worker that asks for any."""
        self._name = name
        self._spec = pickled(spec)
        self._governor = governor
        self._throttle: Path | None = None
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._over = False

    def yield_to(self, throttle: Path | None) -> None:
        """See the workers. Before `load`."""
        self._throttle = throttle

    def load(self, shared: object = None, turn: Turn | None = None) -> Any:
        """Start the process if there is none, and load the worker: what it says. `shared` is read there anew."""
        with self._lock:
            if self._over:
                raise WorkerDied(f"{self._name} was ended")
            if self._child is None or self._child.ended:
                self._child = _Child(self._name, self._governor)
            child = self._child
        return child.call("load", self._spec, self._throttle)

    def end(self) -> None:
        """End the process, whatever it is at, for good."""
        with self._lock:
            self._over = True
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def ask(self, name: str, *arguments: Any) -> Any:
        """What the worker's method `name` returns. Raises what it raises, WorkerDied or WorkLost."""
        return self._running().call("ask", name, *arguments)

    def _running(self) -> _Child:
        with self._lock:
            child = self._child
        if child is None:
            raise WorkerDied(f"{self._name} was ended")
        return child


class ProverProcess(WorkerProcess):
    """`ProverWorker` in a process of its own. Turns mean nothing here: the line is there."""

    line = None

    def __init__(self, name: str, system: ProofSystem, choice: BackendChoice, governor: LocalGovernor) -> None:
        super().__init__(name, ProverSpec(system, choice), governor)

    def commit(self, partition: Partition, work: Witness, turn: Turn | None = None) -> Timed:
        timed: Timed = self.ask("commit", partition, work.sent)
        return timed

    def prove(self, partition: Partition, work: Witness, challenge: bytes | None, turn: Turn | None = None) -> Timed:
        timed: Timed = self.ask("prove", partition, work.sent, challenge)
        return timed

    def check(self, turn: Turn | None = None) -> Timed:
        timed: Timed = self.ask("check")
        return timed

    def diagnose(self, partition: Partition, work: Witness, turn: Turn | None = None) -> Timed:
        timed: Timed = self.ask("diagnose", partition, work.sent)
        return timed

    def close(self) -> None:
        """Have the device given back, and end the process."""
        late = threading.Timer(PATIENCE, self.end)
        late.daemon = True
        late.start()
        with suppress(WorkerDied):
            self.ask("close")
        late.cancel()
        self.end()


class SynthesiserProcess(WorkerProcess):
    """`SynthesiserWorker` in a process of its own."""

    def __init__(self, name: str, system: ProofSystem, threads: int, governor: LocalGovernor) -> None:
        super().__init__(name, SynthesiserSpec(system, threads), governor)

    def synthesise(self, partition: Partition) -> HeldWitness:
        child = self._running()
        child.drop_unused()
        return HeldWitness(child.call("ask", "synthesise", partition), child)


class Witness:
    """A witness in shared memory that stays there."""

    def __init__(self, sent: SentWitness) -> None:
        self.sent = sent

    @property
    def nbytes(self) -> int:
        return self.sent.nbytes

    @property
    def seconds(self) -> float:
        return self.sent.seconds

    def release(self) -> None:
        """Nobody reads it any more. A second call does nothing."""


class HeldWitness(Witness):
    """In the memory of the process that made it, where it stays until `release`, or until nothing refers to this object
    and that process is asked for the next one."""

    def __init__(self, sent: SentWitness, child: _Child) -> None:
        super().__init__(sent)
        self._child = child
        self._unused = weakref.finalize(self, child.unused.append, sent.number)
        self._unused.atexit = False

    def release(self) -> None:
        self._unused()
        self._child.drop_unused()


class _Child:
    """One life of a worker's process."""

    def __init__(self, name: str, governor: LocalGovernor | None) -> None:
        self.unused: deque[int] = deque()
        """Numbers of witnesses that it may drop. Added to wherever the last reference dies; sent where that is safe."""
        self._name = name
        self._governor = governor
        self._leases = itertools.count(1)
        ours, theirs = Pipe()
        command = "import sys; sys.path[:] = {!r}; from actors.process import main; main({})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", command.format(sys.path, theirs.fileno()), f"distprove-{name}"],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us; the process ends when we do
                pass_fds=[theirs.fileno()],
            )
        self._holder = (self._process.pid, time.time())
        handlers: dict[str, Handler] = {}
        if governor is not None:
            handlers = {"acquire": self._acquire, "release": governor.release}
        self._channel = Channel(ours, handlers, self._gone)

    @property
    def ended(self) -> bool:
        """Whether the process is known to have ended. It is when a call has failed for that."""
        return self._channel.ended

    def call(self, name: str, *arguments: Any) -> Any:
        """What the process answers. Raises what it raises, WorkerDied or WorkLost."""
        try:
            return self._channel.call(name, *arguments)
        except ChannelClosed:
            code = self._process.wait()
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise WorkerDied(f"the process of {self._name} ended {how}") from None
        except WitnessGone:
            raise WorkLost("the process that made it ended") from None

    def drop_unused(self) -> None:
        """Have the process drop what nobody reads."""
        with suppress(IndexError, ChannelClosed):
            while True:
                self._channel.tell("drop", self.unused.popleft())

    def end(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def _acquire(self, phase: str, threads: int, least: int, lane: bool) -> tuple[int, int]:
        """A lease for the process: its ticket, and of how many threads it is."""
        assert self._governor is not None
        thread = next(self._leases)
        request = Request(self._holder, threads, lane=lane, phase=Phase(phase), thread=thread, least=least)
        ticket, granted = self._governor.acquire(request)
        if self.ended:  # and what it held was taken back before this was asked for
            self._governor.release(ticket)
        return ticket, granted

    def _gone(self) -> None:
        if self._governor is not None:
            self._governor.reclaim(self._holder)
        self._process.wait()
