"""Predicts the memory of a partition's proof from its shape, before it starts."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.plan import PARTITION_BYTES, MemoryPlan
from kernels.errors import OutOfMemory
from kernels.host.units import format_bytes

WORD, DIGEST, EXTENSION = 8, 32, 3
CODEWORDS = WORD + 2 * DIGEST
"""Bytes of a key's codeword, and of its tree, for each point."""


def plan_of(shape: Shape) -> MemoryPlan:
    """The memory of one partition: its columns, stack, codewords and tree, and the greatest of what its steps add."""
    params = shape.key.params
    columns = sum(WORD * t.main_width << h for t, h in zip(shape.tables, shape.heights, strict=True))
    stacked = WORD * shape.main.width << shape.log_height
    held = columns + stacked + (stacked << params.log_blowup) + (2 * DIGEST << shape.rounds[0].log_leaves)
    leaves = sum(len(t.uses) << h for t, h in zip(shape.tables, shape.heights, strict=True))
    vector = EXTENSION * WORD
    gkr = 4 * 2 * vector * leaves  # all layers, and what a round makes of the lowest
    rows = sum(
        (t.columns + len(t.next_row) + 3) * 3 * vector << h - shape.log_skip
        for t, h in zip(shape.tables, shape.heights, strict=True)
    )
    rows += max((3 * WORD * (t.columns + 3) << h for t, h in zip(shape.tables, shape.heights, strict=True)), default=0)
    opening = 6 * vector << shape.log_height
    return MemoryPlan(False, held + max(gkr, rows, opening), held)


def check_room(shape: Shape, budget: int) -> MemoryPlan:
    """The plan of a partition. Raises OutOfMemory where it needs more than `budget` bytes."""
    plan = plan_of(shape)
    if plan.peak > budget:
        raise OutOfMemory(
            f"a partition of 2^{shape.log_height} x {shape.main.width} stacked cells needs {format_bytes(plan.peak)}; "
            f"the device has {format_bytes(budget)}: cut the job into more partitions"
        )
    return plan


def fits(key: MultilinearKey, partitions: Sequence[Sequence[int | None]], room: int = PARTITION_BYTES) -> bool:
    """Whether partitions of these heights (log2) take no more than `room` bytes each."""
    return all(
        heights_fit(key, heights) and plan_of(Shape(key, heights)).peak <= room
        for heights in dict.fromkeys(map(tuple, partitions))
    )
