"""A STARK whose prover dies once after the barrier; a module of its own, so that workers can import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from distprove.stark.params import Parameters
from distprove.stark.program import Program
from distprove.stark.system import StarkProver, StarkSystem


class DyingSystem(StarkSystem):
    """The first `prove` of all ends its process; `folder` remembers."""

    def __init__(self, program: Program, params: Parameters, partitions: int, folder: Path) -> None:
        super().__init__(program, params, partitions)
        self.folder = folder

    def prover(self, shared: Any, backend: Any) -> StarkProver:
        return DyingProver(self, backend, self.folder / "died")


class DyingProver(StarkProver):
    def __init__(self, system: StarkSystem, backend: Any, marker: Path) -> None:
        super().__init__(system, backend)
        self._marker = marker

    def prove_partition(self, *args: Any) -> Any:
        if not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().prove_partition(*args)
