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
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import kernels.interface.backend  # noqa: F401 - for processes that are forked from one that imports this
from actors.backends import Ahead, open_ahead
from actors.channel import Channel, ChannelClosed
from actors.fork_server import ForkServer
from actors.grants import Governor, Grant, Wanted
from actors.lastwords import CrashMarker
from actors.messages import HostSpec, Spec, SynthesiserSpec, VerifierSpec, WorkerSpec, pickled
from actors.processes import Leases, Served
from actors.prover import SWITCH_INTERVAL, process_facts
from actors.rooms import Rooms
from actors.synthesiser import SynthesiserProcess, SynthesiserServer
from actors.worker import SynthesiserHandle
from distprove.formats.owncode import OURS, names_code
from distprove.host.beside import in_background
from distprove.host.log import set_up_logging, wants_json
from distprove.host.memory import give_back_large_blocks
from distprove.proof import fingerprint
from distprove.system import ImportsAhead, PartitionProof, PreparesVerifying
from kernels.host.arena import HostArena

if TYPE_CHECKING:
    from typing_extensions import Unpack


def serve(
    connection: int,
    fork_server: ForkServer | None = None,
    ahead: tuple[str, int, str] | None = None,
    page: int | None = None,
) -> None:
    """Serve whoever is at the other end of this descriptor, until the connection ends. What a worker starts is forked
    from the `fork_server`, if there is one. `ahead` is the `Ahead` of a device, to be opened meanwhile. `page` is the
    descriptor of `actors.lastwords`, if there is one."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    give_back_large_blocks()
    if wants_json():
        set_up_logging()
    server = _Server(connection, fork_server, None if page is None else CrashMarker(page))
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


class _Server(Served):
    """Serves one object over a connection, until that ends."""

    def __init__(self, connection: int, fork_server: ForkServer | None, marker: CrashMarker | None) -> None:
        super().__init__()
        self._fork_server = fork_server
        self._marker = marker
        self._made = threading.Event()
        self._channel = Channel(Connection(connection), self, lambda: os._exit(1))
        self._made.set()

    def _make(self, spec: Spec) -> object:
        self._made.wait()
        governor = _Asking(self._channel)
        if isinstance(spec, HostSpec):
            return _Rooms(spec, governor, self._fork_server, self._marker)
        if isinstance(spec, SynthesiserSpec):
            return SynthesiserServer(spec, HostArena(reclaim_lock=lambda: governor.lease(reclaim=True), shared=True))
        if isinstance(spec, VerifierSpec):
            return VerifierServer(spec)
        return spec.served()


class _Rooms(Rooms):
    """Key slots of this process, whose synthesisers are processes, forked from the `fork_server` if there is one."""

    def __init__(
        self, spec: HostSpec, governor: Governor, fork_server: ForkServer | None, marker: CrashMarker | None
    ) -> None:
        arena = HostArena(reclaim_lock=lambda: governor.lease(reclaim=True))
        super().__init__(spec, governor, arena, marker)
        self._fork_server = fork_server

    def _synthesisers(self, spec: WorkerSpec) -> dict[str, SynthesiserHandle]:
        made = pickled(SynthesiserSpec(spec.system, spec.threads, spec.shared))
        if self._fork_server is not None:
            self._fork_server.prepare(made)
        return {name: SynthesiserProcess(name, made, self._governor, self._fork_server) for name in spec.synthesisers}


class VerifierServer:
    """Verifies proofs; nothing of them is secret."""

    def __init__(self, spec: VerifierSpec) -> None:
        self._system = spec.system

    def load(self) -> dict[str, Any]:
        """Compile what verifying needs; public facts."""
        self._system.key_digest()  # what a verifier compiles, it has then compiled
        if isinstance(self._system, PreparesVerifying):
            in_background(self._system.prepare_verifying, "distprove-verifier-ahead")
        return process_facts()

    def verify(self, proof: PartitionProof) -> tuple[bool, bytes]:
        """Whether a proof holds, and the fingerprint of the proof that this is about."""
        return self._system.verify(proof), fingerprint(proof)


class _Asking(Governor):
    """The governor, as whoever started this process gives its leases."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        return Grant(*self._channel.call(Leases.acquire, wanted))

    def release(self, ticket: int) -> None:
        with suppress(ChannelClosed):
            self._channel.tell(Leases.release, ticket)

    def shrink(self, ticket: int, memory: int) -> None:
        with suppress(ChannelClosed):
            self._channel.tell(Leases.shrink, ticket, memory)

    def threads_wanted(self) -> bool:
        return self._channel.call(Leases.threads_wanted)
