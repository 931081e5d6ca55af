"""Which of a prover's memory plans a partition is proven under: the fastest that fits.

*whole*: extensions are held on all their cosets, from their commitment to the queries. *streamed*: they are held on one
coset, in the memory of the trace, and moved from coset to coset where they are read (`distprove.stark.extension`). The
proof is the same. A partition that is committed and waits for its job's challenge keeps what its plan holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from distprove.stark.memory import committed_bytes, peak_bytes
from distprove.stark.shape import ProofShape
from kernels.backend import OutOfMemory
from kernels.units import format_bytes

UNPLANNED = 64
"""One part of so many of a device's memory is left to what no plan counts: tables of roots, partial sums, and what
arrays of other sizes leave between them.
"""


@dataclass(frozen=True)
class MemoryPlan:
    """A way to prove one partition, and what it takes, in bytes."""

    streamed: bool
    peak: int
    """The most in use at once from commitment to proof, the key included, other partitions not."""
    held: int
    """What is kept between commitment and proof."""

    @property
    def name(self) -> str:
        return "streamed" if self.streamed else "whole"


def usable(budget: int) -> int:
    """What plans may take of a backend's memory budget."""
    return budget - budget // UNPLANNED


def plans(shape: ProofShape, *, key_streamed: bool) -> list[MemoryPlan]:
    """The plans for a partition, the fastest first. A streamed key leaves no other plan to its proofs."""
    return [
        MemoryPlan(
            streamed,
            peak_bytes(shape, streamed=streamed, key_streamed=key_streamed),
            committed_bytes(shape, streamed=streamed),
        )
        for streamed in ([True] if key_streamed else [False, True])
    ]


def choose(shape: ProofShape, budget: int, held: int, *, key_streamed: bool = False, more: bool = False) -> MemoryPlan:
    """The plan for one more partition in a `usable` budget of which others hold `held` bytes: the fastest that fits.

    With `more` to come while this one waits for its challenge, rather the fastest that leaves room for them.
    Raises OutOfMemory, which says what was needed.
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
    """Whether another partition of this shape fits beside one that waits under `plan`, and `held` bytes of others."""
    leanest = plans(shape, key_streamed=key_streamed)[-1]
    return held + plan.held + leanest.peak <= budget
