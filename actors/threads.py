"""Workers on threads of this process, with their synthesisers: nothing between them and whoever asks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from actors.messages import WorkerSpec
from actors.processes import WorkerDied
from actors.rooms import Rooms
from actors.synthesiser import SynthesiserWorker
from actors.worker import SynthesiserHandle
from distprove.system import Witness
from kernels.host.arena import HostArena


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
        self.stop()


class SynthesiserThread(SynthesiserWorker):
    """A synthesiser on whatever thread asks: an `actors.worker.SynthesiserHandle`."""

    def __init__(self, spec: WorkerSpec, arena: HostArena) -> None:
        super().__init__(spec.system, spec.threads, arena, spec.system.shared, WitnessHere)

    def tidy(self) -> None:
        """Do nothing: a witness goes with its last reference."""

    def kill(self) -> None:
        """Threads cannot be ended."""

    def end(self) -> None:
        """Do nothing: it is at nothing of its own."""


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
