"""The key slots of a process: a worker for each key that is resident there, on one device.

    host --Rooms.open(number, spec)--> slot: Worker, ProverWorker, synthesisers of its own
                                       '--> one Device (backend, line) and one ProverThreads for all slots

The executor of a key numbers the slots, opens one on each worker, calls verbs in it, and shuts it: that gives back the
key's memory and ends its synthesisers, and the device stays open for the other slots. A number is used once.
"""

from __future__ import annotations

import pickle
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.grants import Governor
from actors.lastwords import CrashMarker
from actors.messages import HostSpec, MappedFile, WorkerSpec
from actors.protocol import Host, Verb, WorkerDied, invoke
from actors.prover import Device, ProverWorker, shared_files
from actors.synthesiser import SynthesiserThread
from actors.worker import ProverThreads, SynthesiserHandle, Worker

if TYPE_CHECKING:  # with NumPy, which a Ray actor does without
    from kernels.host.arena import HostArena
    from kernels.host.shared_arrays import Sent


class Rooms(ABC):
    """The key slots of one device. Any thread may call."""

    def __init__(self, spec: HostSpec, governor: Governor, arena: HostArena, marker: CrashMarker | None = None) -> None:
        """`marker`: as of `actors.inflight.Line`."""
        self._spec = spec
        self._governor = governor
        self._arena = arena
        self._device = Device(spec.choice, governor, arena, spec.gpus)
        self._device.in_flight.line.marker = marker
        self._threads = ProverThreads(spec.name, spec.in_flight)
        self._lock = threading.Lock()
        self._workers: dict[int, Worker] = {}

    @abstractmethod
    def _synthesisers(self, spec: WorkerSpec) -> Mapping[str, SynthesiserHandle]:
        """The synthesisers of a slot, by id."""

    def open(self, slot: int, spec: WorkerSpec) -> None:
        """Make the worker of a slot, unless it is there. It loads nothing before it is told to."""
        with self._lock:
            if slot in self._workers:
                return
            self._workers[slot] = Worker(
                spec.name,
                spec.system,
                partial(shared_files, spec),
                ProverWorker(spec.system, self._device),
                self._synthesisers(spec),
                lambda name: self._synthesisers(replace(spec, synthesisers=(name,)))[name],
                self._governor,
                self._spec.in_flight,
                spec.threads,
                self._threads,
                self._spec.facts,
            )

    def open_sent(
        self, slot: int, spec: bytes, path: list[str], shared: dict[str, Sent | MappedFile] | None = None
    ) -> None:
        """Open a slot as a pickled spec says, with the `shared` files, if the sender of the spec did not know them.
        `path` is `sys.path` of the caller, which may have grown."""
        sys.path[:] = path
        made: WorkerSpec = pickle.loads(spec)
        self.open(slot, made if shared is None else replace(made, shared=shared))

    def worker(self, slot: int) -> Worker:
        """The worker of a slot. Raises WorkerDied where there is no such slot: it was in a process that is gone."""
        try:
            return self._workers[slot]
        except KeyError:
            raise WorkerDied("the key is not loaded in this process") from None

    def shut(self, slot: int) -> None:
        """Shut a slot, once what is under way in it is done: its key's memory and its synthesisers are given back."""
        with self._lock:
            worker = self._workers.pop(slot, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """Shut all slots, then give back the device."""
        for slot in list(self._workers):
            self.shut(slot)
        self._threads.end()
        self._threads.wait()
        with self._governor.lease(reclaim=True):
            self._device.close()


class RoomsHere(Rooms, Host):
    """The key slots of a device in this process, and the transport to them."""

    def _synthesisers(self, spec: WorkerSpec) -> dict[str, SynthesiserHandle]:
        return {name: SynthesiserThread(spec, self._arena) for name in spec.synthesisers}

    def start(self) -> None:
        """Do nothing: a thread needs no start."""

    def carry(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return invoke(self if slot is None else self.worker(slot), verb, arguments, named)

    def post(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        with suppress(WorkerDied):
            self.carry(slot, verb, arguments, named)

    def kill(self) -> None:
        """Threads cannot be ended."""

    def end(self) -> None:
        """Begin nothing more, and end all synthesisers."""
        for worker in list(self._workers.values()):
            worker.stop()
        self._threads.end()
