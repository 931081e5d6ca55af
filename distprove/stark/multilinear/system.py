"""The multilinear engine as a proof system for the driver. `distprove.stark.system` has what it shares with FRI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distprove.stark.engine import MULTILINEAR
from distprove.stark.multilinear.challenges import list_challenge
from distprove.stark.multilinear.memory import CODEWORDS, plan_of
from distprove.stark.multilinear.prover import Committed, commit, prove
from distprove.stark.multilinear.proving_key import MultilinearProvingKey, make_key
from distprove.stark.multilinear.stacking import Stack
from distprove.stark.provable import check_security
from distprove.stark.system import SharedFiles, StarkProver, StarkSystem, context_of
from distprove.steps import Steps
from distprove.system import Partition, Witness
from kernels.interface.backend import Backend


class MultilinearSystem(StarkSystem):
    """A job under the multilinear engine."""

    engine = MULTILINEAR

    def describe(self) -> dict[str, Any]:
        return {"engine": "multilinear", **super().describe(), "queries": self.params.queries[0]}

    def _tables(self) -> list[dict[str, Any]]:
        return [
            {"name": t.name, "columns": t.main_width, "degree": max(t.constraint_degree, t.interaction_degree)}
            for t in self.key.tables
        ]

    def planned_challenge(self) -> bytes | None:
        if self.needs_barrier:
            return None
        return list_challenge(self.key, [part.name for part in self._made.slices])

    def key_bytes(self) -> int:
        stack: Stack = self.key.preprocessed
        return CODEWORDS * stack.width << stack.log_height + int(self.params.log_blowup)

    def provers_per_gpu(self, memory: Callable[[], int]) -> int:
        return 1

    def prover(self, shared: SharedFiles, backend: Backend) -> MultilinearProver:
        return MultilinearProver(self, backend)


class MultilinearProver(StarkProver):
    """Proves partitions with the multilinear engine on one backend."""

    def _make_key(self, system: StarkSystem) -> MultilinearProvingKey:
        return make_key(system.program, system.params, self._backend)

    def _prove(self, committed: Committed, challenge: bytes, steps: Steps) -> dict[str, Any]:
        return prove(self._key, committed, challenge, steps).to_record()

    def _leaves_room(self, committed: Committed) -> bool:
        return self._held() + committed.plan.held + plan_of(committed.shape).peak <= self._budget

    def _commit_beside(self, partition: Partition, witness: Witness, steps: Steps, more: bool) -> Committed:
        self._backend.watch_memory()
        told: dict[str, Any] = {"expected": context_of(partition).log_heights, "program": self._program(partition)}
        committed = commit(self._key, partition.name, witness.arrays, steps, held=self._held(), **told)
        committed.peak = self._used()
        check_security(self._key.key, [committed.shape.log_heights])
        return committed
