"""A synthesiser: turns inputs into witnesses on the CPU, in a process of its own or on a thread."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.channel import ChannelClosed
from actors.inflight import attempted
from actors.messages import Kept, SentWitness, SynthesiserSpec, WorkerSpec
from actors.processes import Child, HostProcess, Served
from actors.protocol import Timed, WitnessGone, WorkerDied
from actors.prover import Shared, process_facts, shared_files
from distprove.system import Partition, ProofSystem, Synthesiser, UsesArena, Witness
from distprove.wanted import require_wanted, unless

if TYPE_CHECKING:  # with NumPy, which a Ray actor does without
    from kernels.host.arena import HostArena
    from kernels.host.shared_arrays import Receiver

DROPS = 8 << 20
"""Bytes of witnesses that nobody reads any more from which a synthesiser is told at once to drop them. Fewer are told
with the next order, or when its worker tidies up: a message for each takes the interpreter from the prover once more.
"""


class SynthesiserWorker:
    """Synthesises one partition at a time. `load` must have succeeded before anything else is asked."""

    def __init__(
        self,
        system: ProofSystem,
        threads: int,
        arena: HostArena,
        files: Callable[[], Shared],
        refer: Callable[[Witness], Any],
    ) -> None:
        """`files` gives the system's files, and `refer` the reference by which a witness, made in the `arena`, is told
        to whoever asked for it."""
        self._system = system
        self._threads = threads
        self._arena = arena
        self._files = files
        self._refer = refer
        self._synthesiser: Synthesiser | None = None

    def load(self) -> Timed:
        """Make the witness program ready; public facts. Raises InputError when the program is at fault."""
        started = time.time()
        if self._synthesiser is None:
            self._synthesiser = self._system.synthesiser(self._files(), self._threads)
            if isinstance(self._synthesiser, UsesArena):
                self._synthesiser.use_arena(self._arena)
        facts = {"device": "CPU", "kind": "cpu", "threads": self._threads, **process_facts()}
        return Timed(facts, started, time.time())

    def make(self, partitions: Sequence[Partition]) -> list[Timed]:
        """For each partition the reference to its witness, or the error."""
        return [attempted(partial(self._make, each)) for each in partitions]

    def _make(self, partition: Partition) -> Any:
        if self._synthesiser is None:
            raise RuntimeError("the synthesiser was asked for work before its program was loaded")
        require_wanted()
        return self._refer(self._synthesiser.synthesise(partition))


class SynthesiserServer(SynthesiserWorker):
    """A synthesiser in a process of its own, which keeps what it made until it is told to drop it."""

    def __init__(self, spec: SynthesiserSpec, arena: HostArena) -> None:
        """The `arena` is of shared memory."""
        self._kept = Kept(arena)
        self._cancelled = 0
        """Number of the last cancelled row of witnesses."""
        super().__init__(spec.system, spec.threads, arena, partial(shared_files, spec), self._kept.send)

    def synthesise(self, partitions: Sequence[Partition], unused: Sequence[int], row: int) -> list[Timed]:
        """For each partition the `SentWitness`, or the error. Drops those under the numbers `unused` before. This is
        row number `row`, by which it may be cancelled."""
        self.drop(unused)
        with unless(lambda: row <= self._cancelled):
            return self.make(partitions)

    def cancel(self, row: int) -> None:
        """Cancel the witnesses of this row."""
        self._cancelled = row

    def drop(self, unused: Sequence[int]) -> None:
        """Drop witnesses, which nobody reads any more."""
        self._kept.drop(unused)


class SynthesiserThread(SynthesiserWorker):
    """A synthesiser on whatever thread asks: an `actors.worker.SynthesiserHandle`."""

    def __init__(self, spec: WorkerSpec, arena: HostArena) -> None:
        super().__init__(spec.system, spec.threads, arena, spec.system.shared, WitnessHere)
        self._ended = threading.Event()

    def load(self) -> Timed:
        with unless(self._ended.is_set):
            return super().load()

    def cancel(self) -> None:
        """Do nothing: what it makes asks on its thread whether it is cancelled."""

    def tidy(self) -> None:
        """Do nothing: a witness goes with its last reference."""

    def kill(self) -> None:
        """Threads cannot be ended."""

    def end(self) -> None:
        """Give up what it loads."""
        self._ended.set()


@dataclass
class WitnessHere:
    """A witness in this process."""

    witness: Witness | None

    @property
    def nbytes(self) -> int:
        return 0 if self.witness is None else self.witness.nbytes

    def read(self) -> Witness:
        assert self.witness is not None, "released"
        return self.witness

    def release(self) -> None:
        self.witness = None


class SynthesiserProcess(HostProcess):
    """A synthesiser in a process of its own: an `actors.worker.SynthesiserHandle`."""

    def load(self) -> Timed:
        self.start()
        return self.call(SynthesiserServer.load)

    def make(self, partitions: Sequence[Partition]) -> list[Timed]:
        child = self._living()
        child.rows += 1
        verb, arguments = SynthesiserServer.synthesise, (partitions, child.take_unused(), child.rows)
        made: list[Timed] = child.call(Served.ask, None, verb, arguments, {})
        return [
            Timed(HeldWitness(value, child), *times) if isinstance(value, SentWitness) else Timed(value, *times)
            for value, *times in made
        ]

    def cancel(self) -> None:
        with suppress(WorkerDied, ChannelClosed):
            child = self._living()
            child.channel.tell(Served.tell, None, SynthesiserServer.cancel, (child.rows,), {})

    def tidy(self) -> None:
        with suppress(WorkerDied):
            _drop_unused(self._living())


class HeldWitness:
    """A witness in the memory of the process that made it, where it stays until `release`, or until nothing refers to
    this object and that process is asked for the next one."""

    def __init__(self, sent: SentWitness, child: Child) -> None:
        self.nbytes = sent.nbytes
        self._sent = sent
        self._child = child
        self._unused = weakref.finalize(self, child.unused.append, sent.number)
        self._unused.atexit = False

    def read(self) -> Witness:
        """Raises WitnessGone when the process that made it has ended."""
        if self._child.ended:
            raise WitnessGone("the process that made the witness ended")
        return received(self._sent, self._child.receiver)

    def release(self) -> None:
        self._unused()
        if len(self._child.unused) * self.nbytes >= DROPS:
            _drop_unused(self._child)


def received(sent: SentWitness, receiver: Receiver) -> Witness:
    """The witness, where it lies. Raises WitnessGone."""
    try:
        return Witness(sent.name, {name: receiver.array(a) for name, a in sent.arrays.items()}, sent.seconds)
    except OSError:
        raise WitnessGone("the process that made the witness ended") from None


def _drop_unused(child: Child) -> None:
    """Have a process drop the witnesses that nobody reads."""
    unused = child.take_unused()
    if unused:
        with suppress(ChannelClosed):
            child.channel.tell(Served.tell, None, SynthesiserServer.drop, (unused,), {})
