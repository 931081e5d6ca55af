"""Chooses the memory plan for a partition's proof: the fastest that fits.

*whole*: extensions are held on all their cosets, from their commitment to the queries. *streamed*: they are held on one
coset, in the memory of the trace, and moved from coset to coset when they are read (`distprove.stark.extension`). The
proof is the same. A committed partition that waits for its job's challenge keeps the memory `held` of its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.stark.memory import committed_bytes, peak_bytes
from distprove.stark.shape import ProofShape
from distprove.stark.verifying_key import VerifyingKey
from kernels.errors import OutOfMemory
from kernels.host.units import format_bytes

UNPLANNED = 64
"""1 / UNPLANNED of a device's memory is reserved for what no plan counts: tables of roots, partial sums, and
fragmentation.
"""


PARTITION_BYTES = 32 << 30
"""Memory that a partition takes at most, whole, in a job that leaves the number of partitions to the program. It is the
same for every machine, so that a run can go on elsewhere. Half as much would make more proofs and be no quicker: on an
H200 a file of 60 MB took 27 s in 64 partitions, and 29 in 128."""


SMALL_BYTES = 12 << 30
"""Memory up to which a partition is small, held whole: its prover leaves a GPU idle while it launches kernels and waits
for challenges."""


CONTEXT_BYTES = 1 << 30
"""Memory of a GPU that each of several provers on it takes beside its plans: its context, its kernels' code, and what
the backend leaves to the driver."""


CONSTANT_BYTES = 8 << 20
"""Bytes of what does not grow with a proof's tables, in plans that count blocks: code of rules, tables of roots, and
partial sums. On an H200 the largest proofs of OpenVM took at most 5 MB more than their arrays."""


@dataclass(frozen=True)
class MemoryPlan:
    """A way to prove one partition, with the memory that it takes in bytes."""

    streamed: bool
    peak: int
    """Peak memory from commitment to proof, including the key but no other partitions."""
    held: int
    """Memory that is kept between commitment and proof."""
    lean: bool = False
    """Whether the multilinear engine makes twice what is made quickly. Its streamed plans are lean."""

    @property
    def name(self) -> str:
        return "streamed" if self.streamed else "lean" if self.lean else "whole"


def usable(budget: int) -> int:
    """The bytes of a backend's memory budget that plans may use."""
    return budget - budget // UNPLANNED


def plans(shape: ProofShape, *, key_streamed: bool) -> list[MemoryPlan]:
    """The plans for a partition, the fastest first. With a streamed key the only plan is streamed."""
    return [
        MemoryPlan(
            streamed,
            peak_bytes(shape, streamed=streamed, key_streamed=key_streamed),
            committed_bytes(shape, streamed=streamed),
        )
        for streamed in ([True] if key_streamed else [False, True])
    ]


def fits(key: VerifyingKey, partitions: Sequence[Sequence[int | None]], room: int | None = None) -> bool:
    """Whether partitions of these heights (log2) take no more than `room` bytes each, held whole; by default
    `PARTITION_BYTES`."""
    most = PARTITION_BYTES if room is None else room
    shapes = (ProofShape(key, heights) for heights in dict.fromkeys(map(tuple, partitions)))
    return all(plans(shape, key_streamed=False)[0].peak <= most for shape in shapes)


def choose(shape: ProofShape, budget: int, held: int, *, key_streamed: bool = False, more: bool = False) -> MemoryPlan:
    """Choose the fastest plan for one more partition that fits a `usable` budget, of which others hold `held` bytes.

    If `more` partitions follow while this one waits for its challenge, choose the fastest that leaves room for one more
    if there is one. Raises OutOfMemory, which says what was needed.
    """
    known = plans(shape, key_streamed=key_streamed)
    fitting = [plan for plan in known if held + plan.peak <= budget]
    if not fitting:
        rows = ", ".join(f"2^{t.log_height} x {t.widths[1]}" for t in shape.tables)
        raise OutOfMemory(
            f"a partition with tables of {rows} needs {format_bytes(known[-1].peak)} at blow-up "
            f"{shape.key.params.blowup}, {known[-1].name}; the device has {format_bytes(budget - held)}: cut the job "
            "into more partitions, or take a lower blow-up"
        )
    roomy = [plan for plan in fitting if leaves_room(shape, plan, budget, held, key_streamed=key_streamed)]
    return roomy[0] if more and roomy else fitting[0]


def leaves_room(shape: ProofShape, plan: MemoryPlan, budget: int, held: int, *, key_streamed: bool = False) -> bool:
    """Whether another partition of this shape fits beside one that waits under `plan` and `held` bytes of others."""
    leanest = plans(shape, key_streamed=key_streamed)[-1]
    return held + plan.held + leanest.peak <= budget
