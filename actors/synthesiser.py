"""A synthesiser: turns inputs into witnesses on the CPU. The same class works in a thread and inside a Ray actor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.prover import process_facts
from distprove.system import Partition, ProofSystem, Synthesiser, UsesArena, Witness
from kernels.host.arena import HostArena


class SynthesiserWorker:
    """Synthesises one partition at a time. `load` must have succeeded before anything else is asked."""

    def __init__(self, system: ProofSystem, threads: int, arena: HostArena | None = None) -> None:
        self._system = system
        self._threads = threads
        self._arena = arena
        self._synthesiser: Synthesiser | None = None

    def load(self, shared: dict[str, NDArray[np.uint8]]) -> dict[str, Any]:
        """Make the witness program ready; returns public facts. Raises InputError when the program is at fault."""
        if self._synthesiser is None:
            self._synthesiser = self._system.synthesiser(shared, self._threads)
            if self._arena is not None and isinstance(self._synthesiser, UsesArena):
                self._synthesiser.use_arena(self._arena)
        return {"device": "CPU", "kind": "cpu", "threads": self._threads, **process_facts()}

    def synthesise(self, partition: Partition) -> Witness:
        if self._synthesiser is None:
            raise RuntimeError("the synthesiser was asked for work before its program was loaded")
        return self._synthesiser.synthesise(partition)
