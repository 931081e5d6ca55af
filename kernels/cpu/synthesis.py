"""Witnesses of placed parts of circuits, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.cpu.points import flat_bytes
from kernels.interface.arrays import Array
from kernels.interface.synthesis import Bits, Instances, Products, Program, Synthesis


class CpuSynthesis(Synthesis):
    """Programs on the threads of `pool`, an instance at a time."""

    def __init__(self, pool: LeasedPool) -> None:
        super().__init__()
        self._pool = pool

    def _load(self, program: Program) -> Any:
        native, name = self._pool.native, program.field.name
        if isinstance(program, Products | Bits):
            arrays = (program.row_ptr, program.columns, program.value_index, program.values)
            combinations = (name, program.inputs, *map(flat_bytes, arrays))
            if isinstance(program, Products):
                return native.products_program(*combinations)
            return native.bits_program(*combinations, program.shift, program.own)
        return native.sha256_program(name, program.inputs, flat_bytes(program.sources), flat_bytes(program.bits))

    def _find(self, where: Instances) -> tuple[Any, Any]:
        arrays = (where.runs, where.own_runs)
        runs, own_runs = (flat_bytes(np.ascontiguousarray(array, dtype=np.int64)) for array in arrays)
        return runs, own_runs

    def _run(self, loaded: Any, found: tuple[Any, Any], program: Program, wires: Array, where: Instances) -> None:
        runs, own_runs = found
        batch = int(wires.shape[1])
        with self._pool.leased(where.lanes * len(where.own_runs) * batch * program.own) as threads:
            self._pool.native.run_program(threads, loaded, runs, own_runs, where.lanes, batch, flat_bytes(wires))
