"""Witnesses of placed parts of circuits on the GPU, by `cuda/src/synthesis.cu`."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import Device, grid_for
from kernels.cuda.field import field_source
from kernels.interface.arrays import Array, HostArray
from kernels.interface.synthesis import Bits, Instances, Products, Program, Synthesis

HASH_THREADS = 256
"""Threads that write the bits of one block of SHA-256."""
GROUPED_BLOCK = 128
"""Threads of a block where a group of threads makes the wires of an instance."""
GROUP_THREADS = 512
"""Most threads for each multiprocessor of the groups that make products. A group is a power of two, at most a warp."""


class CudaSynthesis(Synthesis):
    """Programs on one device."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device
        self.group_threads = GROUP_THREADS

    def _load(self, program: Program) -> tuple[Array, ...]:
        hosts: tuple[HostArray, ...]
        match program:
            case Products():
                hosts = (program.row_ptr, program.columns, program.value_index, program.values, *_levels(program))
            case Bits():
                hosts = (program.row_ptr, program.columns, program.value_index, program.values)
            case _:
                hosts = (program.sources, program.bits)
        return tuple(self._device.upload(np.ascontiguousarray(host)) for host in hosts)

    def _find(self, where: Instances) -> tuple[Array, Array]:
        runs, own_runs = (np.ascontiguousarray(array, dtype=np.int64) for array in (where.runs, where.own_runs))
        return self._device.upload(runs), self._device.upload(own_runs)

    def _run(
        self, loaded: tuple[Array, ...], found: tuple[Array, Array], program: Program, wires: Array, where: Instances
    ) -> None:
        device, batch = self._device, int(wires.shape[1])
        runs, own_runs = found
        sizes = (program.inputs, program.own, where.lanes, batch)
        instances = len(where.own_runs) * where.lanes * batch
        arguments = (wires, runs, own_runs, *map(np.uint32, sizes), np.uint64(instances), *loaded)
        source = field_source("synthesis", program.field)
        if isinstance(program, Bits):
            arguments = (*arguments, np.uint32(program.shift))
            device.kernel(source, "synthesis_element_bits").launch_items(instances, arguments)
            return
        if not isinstance(program, Products):
            device.kernel(source, "synthesis_sha256").launch(instances, HASH_THREADS, arguments)
            return
        log_group = min(5, (device.sm_count * self.group_threads // instances).bit_length() - 1)
        if log_group < 1:
            device.kernel(source, "synthesis_products").launch_items(instances, arguments[:-2])
            return
        levels = np.uint32(len(loaded[-1]) // 2), np.uint32(log_group)
        grid = grid_for(instances << log_group, GROUPED_BLOCK)
        device.kernel(source, "synthesis_products_grouped").launch(grid, GROUPED_BLOCK, (*arguments, *levels))


def _levels(program: Products) -> tuple[HostArray, HostArray]:
    """The own wires in the order of their levels, (own,) uint32, and two words of each level with one more at the end,
    (2 * levels + 1,) uint32: see synthesis.cu."""
    row_ptr, columns, own = program.row_ptr.astype(np.int64), program.columns.astype(np.int64), program.own
    level = np.zeros(own, dtype=np.int64)
    for wire in range(own):
        read = columns[row_ptr[3 * wire] : row_ptr[3 * wire + 3]]
        made = read[read > program.inputs] - program.inputs - 1
        level[wire] = 1 + level[made].max() if len(made) else 0
    order, begins = np.argsort(level, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(level))])
    terms = np.diff(row_ptr).reshape(own, 3)[order]
    most = np.maximum.reduceat(terms, begins[:-1])
    logs = np.ceil(np.log2(np.maximum(most, 1))).astype(np.int64)
    words = np.zeros(2 * len(begins) - 1, dtype=np.uint32)
    words[0::2], words[1::2] = begins, logs @ [1, 1 << 8, 1 << 16]
    return order.astype(np.uint32), words
