"""Serves the processes that `actors.processes` starts: the workers of a device, a synthesiser or a verifier.

Whoever started the process runs `actors.bootstrap.main` there, at the other end of a connection, and calls methods of
what is served.
Leases are asked for in the other direction. The process ends when the connection does, whatever it is at: one whose
parent dies leaves nobody behind.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import kernels.interface.backend  # noqa: F401 - for processes that are forked from one that imports this
from actors.backends import Ahead, open_ahead
from actors.channel import Channel, ChannelClosed, Handler
from actors.fork_server import ForkServer
from actors.grants import Governor, Grant, Wanted
from actors.inflight import Timed
from actors.lastwords import LastWords
from actors.messages import (
    HostSpec,
    Kept,
    MappedFile,
    Spec,
    SynthesiserSpec,
    VerifierSpec,
    WorkerSpec,
    pickled,
)
from actors.processes import SynthesiserProcess, WorkerDied
from actors.prover import SWITCH_INTERVAL, process_facts
from actors.rooms import Rooms, shared_files
from actors.synthesiser import SynthesiserWorker
from actors.worker import SynthesiserHandle
from distprove.formats.owncode import OURS, names_code
from distprove.host.lease_class import LeaseClass
from distprove.host.log import set_up_logging, wants_json
from distprove.host.memory import give_back_large_blocks
from distprove.proof import fingerprint
from distprove.system import ImportsAhead, Partition, PartitionProof
from distprove.wanted import unless
from kernels.host.arena import HostArena
from kernels.host.shared_arrays import Sent

if TYPE_CHECKING:
    from typing_extensions import Unpack


def serve(
    connection: int,
    nursery: ForkServer | None = None,
    ahead: tuple[str, int, str] | None = None,
    page: int | None = None,
) -> None:
    """Serve whoever is at the other end of this descriptor, until the connection ends. What a worker starts is forked
    from the `nursery`, if there is one. `ahead` is the `Ahead` of a device, to be opened meanwhile. `page` is the
    descriptor of `actors.lastwords`, if there is one."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    give_back_large_blocks()
    if wants_json():
        set_up_logging()
    server = _Server(connection, nursery, None if page is None else LastWords(page))
    if ahead is not None:
        open_ahead(Ahead(*ahead))
    server.ready.set()
    threading.Event().wait()


def warm(spec: bytes) -> None:
    """Import what those need that serve a pickled spec."""
    system = pickle.loads(spec).system
    if isinstance(system, ImportsAhead):
        system.import_ahead()


class NotShipped(Exception):
    """A spec names code that does not ship with distprove."""


class _Shipped(pickle.Unpickler):
    """An unpickler that imports nothing but distprove and what it depends on."""

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        if package not in OURS and package not in ("numpy", *sys.stdlib_module_names):
            raise NotShipped(module)
        return super().find_class(module, name)


def require_shipped(spec: bytes) -> None:
    """Raise NotShipped for a pickled spec whose system, or whose circuit, is a user's own. Imports none of it."""
    system = _Shipped(io.BytesIO(spec)).load().system
    for value in vars(system).values():
        if isinstance(value, str) and names_code(value):
            raise NotShipped(value)


class _Server:
    """Serves one object, once it is known."""

    def __init__(self, connection: int, nursery: ForkServer | None, words: LastWords | None) -> None:
        self._nursery = nursery
        self._words = words
        self._served: Any = None
        self._made = threading.Event()
        self.ready = threading.Event()
        """Nothing is asked of what is served before this is set: libraries are not loaded by two threads at once."""
        handlers: dict[str, Handler] = {"serve": self._serve, "ask": self._ask, "tell": self._tell}
        self._channel = Channel(Connection(connection), handlers, lambda: os._exit(1))
        self._made.set()

    def _serve(self, spec: bytes, path: list[str]) -> None:
        """`path` is `sys.path` of whoever started this process, which may have grown since."""
        self._made.wait()
        sys.path[:] = path
        wanted: Spec = pickle.loads(spec)
        if isinstance(wanted, HostSpec):
            self._served = _Rooms(wanted, _Asking(self._channel), self._nursery, self._words)
        elif isinstance(wanted, SynthesiserSpec):
            self._served = _Synthesiser(wanted, _Asking(self._channel))
        elif isinstance(wanted, VerifierSpec):
            self._served = _Verifier(wanted, _Asking(self._channel))
        else:
            self._served = wanted.served()

    def _ask(self, room: int | None, name: str, *arguments: Any) -> Any:
        self.ready.wait()
        if self._served is None:  # it is for an earlier life of this process
            raise WorkerDied("the process was started again")
        return getattr(self._served if room is None else self._served.worker(room), name)(*arguments)

    def _tell(self, room: int | None, name: str, *arguments: Any) -> None:
        with suppress(WorkerDied):
            self._ask(room, name, *arguments)


class _Synthesiser(SynthesiserWorker):
    """A synthesiser that keeps what it made until it is told to drop it."""

    def __init__(self, spec: SynthesiserSpec, governor: Governor) -> None:
        arena = HostArena(lane=lambda: governor.lease(lane=True), shared=True)
        kept = Kept(arena)
        self.drop = kept.drop
        self._called_off = 0
        """Number of the last cancelled row of witnesses."""
        super().__init__(spec.system, spec.threads, arena, partial(shared_files, spec), kept.send)

    def synthesise(self, partitions: Sequence[Partition], unused: Sequence[int], row: int) -> list[Timed]:
        """For each partition the `SentWitness`, or the error. Those under the numbers `unused` are dropped before. This
        is row number `row`, by which it may be called off."""
        self.drop(unused)
        with unless(lambda: row <= self._called_off):
            return self.make(partitions)

    def call_off(self, row: int) -> None:
        """Cancel the witnesses of this row."""
        self._called_off = row


class _Rooms(Rooms):
    """Rooms of this process, whose synthesisers are processes, forked from the `nursery` if there is one."""

    def __init__(self, spec: HostSpec, governor: Governor, nursery: ForkServer | None, words: LastWords | None) -> None:
        arena = HostArena(lane=lambda: governor.lease(lane=True))
        super().__init__(spec, governor, arena, words)
        self._nursery = nursery

    def open_sent(
        self, room: int, spec: bytes, path: list[str], shared: dict[str, Sent | MappedFile] | None = None
    ) -> None:
        """Open a room as a pickled spec says, with the `shared` files, if these were not known to whoever pickled it.
        `path` is `sys.path` of whoever asks, which may have grown."""
        sys.path[:] = path
        made: WorkerSpec = pickle.loads(spec)
        self.open(room, made if shared is None else replace(made, shared=shared))

    def _synthesisers(self, spec: WorkerSpec) -> dict[str, SynthesiserHandle]:
        made = pickled(SynthesiserSpec(spec.system, spec.threads, spec.shared))
        if self._nursery is not None:
            self._nursery.prepare(made)
        return {name: SynthesiserProcess(name, made, self._governor, self._nursery) for name in spec.synthesisers}


class _Verifier:
    """Verifies proofs; nothing of them is secret."""

    def __init__(self, spec: VerifierSpec, governor: Governor) -> None:
        self._system = spec.system
        self._governor = governor

    def load(self) -> dict[str, Any]:
        self._system.key_digest()  # what a verifier compiles, it has then compiled
        return process_facts()

    def verify(self, proof: PartitionProof) -> tuple[bool, bytes]:
        """Whether a proof holds, and which one that was."""
        with self._governor.lease(lease_class=LeaseClass.VERIFICATION, threads=1):
            return self._system.verify(proof), fingerprint(proof)


class _Asking(Governor):
    """The governor, as whoever started this process gives its leases."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        return Grant(*self._channel.call("acquire", wanted))

    def release(self, ticket: int) -> None:
        with suppress(ChannelClosed):
            self._channel.tell("release", ticket)

    def shrink(self, ticket: int, memory: int) -> None:
        with suppress(ChannelClosed):
            self._channel.tell("shrink", ticket, memory)

    def threads_wanted(self) -> bool:
        return bool(self._channel.call("threads_wanted"))
