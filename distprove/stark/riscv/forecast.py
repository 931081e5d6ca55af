"""Predicts from a guest's execution what proving it takes, before anything is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from distprove.stark.plan import plans
from distprove.stark.program import Program
from distprove.stark.proof import content_bytes
from distprove.stark.security import choose_parameters
from distprove.stark.shape import ProofShape
from distprove.stark.verifying_key import compile_program

MEASURED_ON = "one NVIDIA H200 with 16 cores of its host"
"""The hardware of `SEGMENT_SECONDS` and `CELL_SECONDS`."""
SEGMENT_SECONDS = 0.0478
CELL_SECONDS = 6.52e-10
"""Time for a segment, and for each cell of its tables (base field columns times rows), from the run's folder to the
bound proof, without the seconds in which a prover starts. Fitted to the three runs of docs/results/h200-riscv.json, off
by at most 5 %."""


@dataclass(frozen=True)
class Forecast:
    """What proving a run takes, at the default parameters of `distprove prove stark riscv`."""

    segments: int
    queries: int
    blowup: int
    device_bytes: int
    """Peak device memory of the segment that takes the most, by the memory plan of a prover that holds it whole."""
    least_device_bytes: int
    """The same by the leanest plan, which takes longer."""
    segment_proof_bytes: int
    """Upper bound of the size of a segment's proof."""
    proof_bytes: int
    """Upper bound of the size of all segments' proofs."""
    seconds: float
    """Estimate for the hardware `MEASURED_ON`, which is not this machine."""

    def to_record(self) -> dict[str, Any]:
        return asdict(self) | {"seconds_on": MEASURED_ON}


def forecast(program: Program, log_heights: Sequence[Sequence[int | None]]) -> Forecast:
    """The forecast for a run of which each segment has tables of these heights (log2). Raises UsageError for a run
    that cannot be proven."""
    params = choose_parameters(program, len(log_heights), known=log_heights)
    key = compile_program(program, params)
    shapes = {heights: ProofShape(key, heights) for heights in dict.fromkeys(map(tuple, log_heights))}
    sizes = {heights: content_bytes(shape, at_most=True) for heights, shape in shapes.items()}
    memory = [plans(shape, key_streamed=False) for shape in shapes.values()]
    cells = {h: sum(sum(t.widths) << t.log_height for t in shape.tables) for h, shape in shapes.items()}
    return Forecast(
        segments=len(log_heights),
        queries=params.queries,
        blowup=params.blowup,
        device_bytes=max(known[0].peak for known in memory),
        least_device_bytes=max(known[-1].peak for known in memory),
        segment_proof_bytes=max(sizes.values()),
        proof_bytes=sum(sizes[tuple(heights)] for heights in log_heights),
        seconds=sum(SEGMENT_SECONDS + CELL_SECONDS * cells[tuple(heights)] for heights in log_heights),
    )
