"""The multilinear engine as a proof system for the driver. `distprove.stark.system` has what it shares with FRI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distprove.host.cgroup import memory_available
from distprove.stark.engine import MULTILINEAR
from distprove.stark.multilinear.challenges import list_challenge
from distprove.stark.multilinear.memory import choose, fits, key_bytes, node_bytes, plans
from distprove.stark.multilinear.prover import Committed, commit, prove, restore_columns
from distprove.stark.multilinear.proving_key import MultilinearProvingKey, make_key
from distprove.stark.multilinear.shape import Shape
from distprove.stark.options import MANY
from distprove.stark.provable import check_made
from distprove.stark.system import SharedFiles, StarkProver, StarkSystem, context_of, half_of
from distprove.steps import Steps
from distprove.system import Partition, Witness
from kernels.errors import OutOfMemory
from kernels.interface.backend import Backend

HOST_SHARE = 4
"""A partition is kept in host memory while it takes no more than 1 / HOST_SHARE of what is available there: witnesses
and other provers want the rest."""
COPIED_BYTES = 8e9
"""Bytes a second that a device copies to or from pageable host memory: 6 to 9 GB on hosts of H200s."""


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
        return key_bytes(self.key)

    def provers_per_gpu(self, memory: Callable[[], int]) -> int:
        """Two also where partitions are many and large, if each prover has room for the nodes of half of them: a proof
        waits for the host some fifty times."""
        found = super().provers_per_gpu(memory)
        heights = self._known_heights() if found == 1 and self.partitions >= MANY else ()
        if not heights:
            return found
        nodes = sum(node_bytes(Shape(self.key, tuple(own))) for own in heights) if self.needs_barrier else 0
        return 2 if fits(self.key, heights, half_of(memory()) - nodes // 2) else 1

    def prover(self, shared: SharedFiles, backend: Backend) -> MultilinearProver:
        return MultilinearProver(self, backend)


class MultilinearProver(StarkProver):
    """Proves partitions with the multilinear engine on one backend."""

    def _make_key(self, system: StarkSystem) -> MultilinearProvingKey:
        return make_key(system.program, system.params, self._backend)

    def _prove(self, committed: Committed, challenge: bytes, steps: Steps) -> dict[str, Any]:
        return prove(self._key, committed, challenge, steps).to_record()

    def _can_keep(self, committed: Committed) -> bool:
        """Keep it as it is, or without codewords, or without columns, its own and then others', or in host memory: the
        first for which there is room."""
        if not self._leaves_room(committed):
            self._drop_codewords(committed)
        for each in (committed, *self._kept.values()):
            if not (each.on_host or self._leaves_room(committed)):
                self._drop_columns(each)
        return self._leaves_room(committed) or self._to_host(committed)

    def _can_prove(self, committed: Committed) -> bool:
        while True:
            try:
                committed.plan = choose(committed.shape, self._budget - self._held())
                return True
            except OutOfMemory:
                if not self._make_room():
                    return False

    def _make_room(self) -> bool:
        """Drop codewords of kept partitions; then columns; then move nodes to host memory, or drop the partitions for
        which it has no room."""
        if self._drop_codewords():
            return True
        there = {id: kept for id, kept in self._kept.items() if not kept.on_host}
        made = [self._drop_columns(kept) for kept in there.values()]
        if not any(made):
            for id, kept in there.items():
                if not self._to_host(kept):
                    del self._kept[id]
        return bool(there)

    def _complete(self, committed: Committed, partition: Partition, witness: Witness, steps: Steps) -> bool:
        """Make columns again that were not kept. The nodes of their tree were: nothing is hashed."""
        if committed.columns:
            return True
        try:
            return restore_columns(self._key, committed, witness.arrays, steps, self._program(partition))
        except OutOfMemory:
            return False

    def _leaves_room(self, committed: Committed) -> bool:
        return self._held() + committed.nbytes + plans(committed.shape)[-1].peak <= self._budget

    def _drop_codewords(self, *more: Committed) -> bool:
        """Drop the codewords of kept partitions and of `more`; whether there were any."""
        dropped = [committed.drop_codewords() for committed in (*self._kept.values(), *more)]
        return any(dropped)

    def _drop_columns(self, committed: Committed) -> bool:
        """Drop a partition's columns if making them again is quicker than two copies. Others go to host memory with
        the nodes, and are dropped if that has no room. Returns whether there were any columns."""
        copies = 2 * sum(int(columns.nbytes) for columns in committed.columns) / COPIED_BYTES
        if committed.trace_seconds > copies and committed.columns and self._to_host(committed):
            return True
        return committed.drop_columns()

    def _to_host(self, committed: Committed) -> bool:
        """Move a partition without codewords to host memory, if that is not the device's and has room for it."""
        if self._in_host_memory or committed.nbytes * HOST_SHARE > memory_available():
            return False
        committed.to_host(self._backend)
        return True

    @property
    def _in_host_memory(self) -> bool:
        return self._backend.info().kind == "cpu"

    def _commit_beside(self, partition: Partition, witness: Witness, steps: Steps, more: bool) -> Committed:
        self._backend.watch_memory()
        expected = context_of(partition).log_heights
        told: dict[str, Any] = {"expected": expected, "program": self._program(partition)}
        committed = commit(self._key, partition.name, witness.arrays, steps, held=self._held(), **told)
        committed.peak = self._used()
        check_made(self._key.key, committed.shape.log_heights, expected)
        return committed
