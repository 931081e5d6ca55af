"""A synthesiser: turns inputs into witnesses on the CPU. The same class works in a thread and inside a Ray actor."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.prover import process_facts
from distprove.system import Partition, ProofSystem, Synthesised, Synthesiser, UsesArena
from kernels.host.arena import HostArena
from kernels.host.throttle import Brake

PATIENCE = 0.25
"""Seconds that a witness waits for critical phases elsewhere before it begins, at most: a program that runs in wasmtime
cannot be slowed down on its way."""


class SynthesiserWorker:
    """Synthesises one partition at a time. `load` must have succeeded before anything else is asked."""

    def __init__(self, system: ProofSystem, threads: int, arena: HostArena | None = None) -> None:
        self._system = system
        self._threads = threads
        self._arena = arena
        self._synthesiser: Synthesiser | None = None
        self._brake: Brake | None = None

    def yield_to(self, throttle: Path | None) -> None:
        """From here on a witness waits a moment to begin while the throttle word in this file is raised.

        A file that is gone, as when its governor is started anew, or is no throttle word holds nobody up.
        """
        if self._brake is not None:
            self._brake.close()
            self._brake = None
        if throttle is not None:
            with suppress(OSError):
                self._brake = Brake(throttle)

    def load(self, shared: dict[str, NDArray[np.uint8]]) -> dict[str, Any]:
        """Make the witness program ready; returns public facts. Raises InputError when the program is at fault."""
        if self._synthesiser is None:
            self._synthesiser = self._system.synthesiser(shared, self._threads)
            if self._arena is not None and isinstance(self._synthesiser, UsesArena):
                self._synthesiser.use_arena(self._arena)
        return {"device": "CPU", "kind": "cpu", "threads": self._threads, **process_facts()}

    def synthesise(self, partition: Partition) -> Synthesised:
        if self._synthesiser is None:
            raise RuntimeError("the synthesiser was asked for work before its program was loaded")
        if self._brake is not None:
            self._brake.wait(PATIENCE)
        return self._synthesiser.synthesise(partition)
