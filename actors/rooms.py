"""The rooms of a process: a worker for each key that is resident there, on one device.

    host --open(number, spec)--> room: Worker, ProverWorker, synthesisers of its own
                                   '--> one Device (backend, line) and one Crew for all rooms

Whoever gives keys to workers numbers the rooms, opens one for each key, asks in it, and shuts it: that gives back the
key's memory and ends its synthesisers, and the device stays open for the others. A number is used once.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from actors.grants import Governor
from actors.lastwords import LastWords
from actors.messages import HostSpec, MappedFile, SynthesiserSpec, WorkerSpec
from actors.processes import WorkerDied
from actors.prover import Device, ProverWorker, Shared
from actors.synthesiser import SynthesiserThread
from actors.worker import Crew, SynthesiserHandle, Worker
from kernels.host.arena import HostArena
from kernels.host.shared_arrays import Receiver


class Rooms(ABC):
    """See the module's text. Any thread may call."""

    def __init__(self, spec: HostSpec, governor: Governor, arena: HostArena, words: LastWords | None = None) -> None:
        """`words`: as of `Line`."""
        self._governor = governor
        self._arena = arena
        self._device = Device(spec.choice, governor, arena)
        self._device.in_flight.line.words = words
        self._in_flight = spec.in_flight
        self._crew = Crew(spec.name, spec.in_flight)
        self._lock = threading.Lock()
        self._workers: dict[int, Worker] = {}

    @abstractmethod
    def _synthesisers(self, spec: WorkerSpec) -> Mapping[str, SynthesiserHandle]:
        """The synthesisers of a room, by id."""

    def open(self, room: int, spec: WorkerSpec) -> None:
        """Make the worker of a room, unless it is there; nothing is loaded before it is told to load."""
        with self._lock:
            if room in self._workers:
                return
            self._workers[room] = Worker(
                spec.name,
                spec.system,
                partial(shared_files, spec),
                ProverWorker(spec.system, self._device),
                self._synthesisers(spec),
                lambda name: self._synthesisers(replace(spec, synthesisers=(name,)))[name],
                self._governor,
                self._in_flight,
                spec.threads,
                self._crew,
            )

    def worker(self, room: int) -> Worker:
        """The worker of a room. Raises WorkerDied where there is no such room: it was in a process that is gone."""
        try:
            return self._workers[room]
        except KeyError:
            raise WorkerDied("the key is not loaded in this process") from None

    def shut(self, room: int) -> None:
        """End a room, once what is under way in it is done: its key's memory and its synthesisers are given back."""
        with self._lock:
            worker = self._workers.pop(room, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """Shut all rooms, then give back the device."""
        for room in list(self._workers):
            self.shut(room)
        self._crew.end()
        self._crew.wait()
        with self._governor.lease(reclaim=True):
            self._device.close()


class RoomsHere(Rooms):
    """The rooms of a device in this process, and the transport to them."""

    def _synthesisers(self, spec: WorkerSpec) -> dict[str, SynthesiserHandle]:
        return {name: SynthesiserThread(spec, self._arena) for name in spec.synthesisers}

    def start(self) -> None:
        """Do nothing: a thread needs no start."""

    def call(self, name: str, *arguments: Any, room: int | None = None) -> Any:
        return getattr(self if room is None else self.worker(room), name)(*arguments)

    def tell(self, name: str, *arguments: Any, room: int | None = None) -> None:
        with suppress(WorkerDied):
            self.call(name, *arguments, room=room)

    def kill(self) -> None:
        """Threads cannot be ended."""

    def end(self) -> None:
        """Begin nothing more, and end all synthesisers."""
        for worker in list(self._workers.values()):
            worker.stop()
        self._crew.end()


def shared_files(spec: WorkerSpec | SynthesiserSpec) -> Shared:
    """The files of a spec's system, read or mapped in this process."""
    if spec.shared is None:
        return spec.system.shared()
    receiver = Receiver()
    return {
        name: sent.content() if isinstance(sent, MappedFile) else receiver.array(sent)
        for name, sent in spec.shared.items()
    }
