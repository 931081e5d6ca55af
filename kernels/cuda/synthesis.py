"""Witnesses of placed parts of circuits on the GPU, by `cuda/src/synthesis.cu`."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import Device
from kernels.cuda.field import field_source
from kernels.interface.arrays import Array
from kernels.interface.synthesis import Instances, Products, Program, Synthesis

HASH_THREADS = 256
"""Threads that write the bits of one block of SHA-256."""


class CudaSynthesis(Synthesis):
    """Programs on one device."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device

    def _load(self, program: Program) -> tuple[Array, ...]:
        hosts = (
            (program.row_ptr, program.columns, program.value_index, program.values)
            if isinstance(program, Products)
            else (program.sources, program.bits)
        )
        return tuple(self._device.upload(np.ascontiguousarray(host)) for host in hosts)

    def _find(self, where: Instances) -> tuple[Array, Array]:
        runs, first = (np.ascontiguousarray(array, dtype=np.int64) for array in (where.runs, where.first))
        return self._device.upload(runs), self._device.upload(first)

    def _run(
        self, loaded: tuple[Array, ...], found: tuple[Array, Array], program: Program, wires: Array, where: Instances
    ) -> None:
        device, batch = self._device, int(wires.shape[1])
        runs, first = found
        sizes = (program.inputs, program.own, where.lanes, batch)
        instances = len(where.first) * where.lanes * batch
        arguments = (wires, runs, first, *map(np.uint32, sizes), np.uint64(instances), *loaded)
        source = field_source("synthesis", program.field)
        if isinstance(program, Products):
            device.kernel(source, "synthesis_products").launch_items(instances, arguments)
        else:
            device.kernel(source, "synthesis_sha256").launch(instances, HASH_THREADS, arguments)
