"""Predicts from a guest's execution what proving it takes, before anything is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from distprove.stark.engine import FRI, MULTILINEAR, engine_named
from distprove.stark.program import Program

MEASURED_ON = "one NVIDIA H200 with 16 cores of its host"
"""The hardware of `SECONDS`."""
SECONDS = {FRI: (0.0478, 6.52e-10), MULTILINEAR: (0.0754, 1.09e-9)}
"""Time for a segment, and for each cell of its tables (committed base field columns times rows). FRI's is that of jobs,
from the run's folder to the bound proof, without the seconds in which a prover starts: fitted to the three runs of
docs/results/h200-riscv.json, off by at most 5 %. The multilinear engine's is that of two single proofs with their
commitments, in docs/results/h200-multilinear.json, through which the line passes."""


@dataclass(frozen=True)
class Forecast:
    """What proving a run takes, at the default parameters of `distprove prove stark riscv`."""

    engine: str
    segments: int
    queries: int
    """Number of queries; of the first round, for an engine with several."""
    blowup: int
    device_bytes: int
    """Peak device memory of the segment that takes the most, by the fastest memory plan."""
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


def forecast(program: Program, log_heights: Sequence[Sequence[int | None]], engine_name: str = FRI) -> Forecast:
    """The forecast for a run of which each segment has tables of these heights (log2). Raises UsageError for a run
    that cannot be proven."""
    engine = engine_named(engine_name)
    params = engine.choose(program, len(log_heights), known=log_heights)
    key = engine.compile_key(program, params)
    heights = [tuple(own) for own in log_heights]
    kinds = dict.fromkeys(heights)
    sizes = {kind: engine.most_proof_bytes(key, kind) for kind in kinds}
    memory = [engine.plans(key, kind) for kind in kinds]
    segment, cell = SECONDS[engine.name]
    return Forecast(
        engine=engine.name,
        segments=len(heights),
        queries=params.queries if engine.name == FRI else params.queries[0],
        blowup=params.blowup,
        device_bytes=max(known[0].peak for known in memory),
        least_device_bytes=max(known[-1].peak for known in memory),
        segment_proof_bytes=max(sizes.values()),
        proof_bytes=sum(sizes[kind] for kind in heights),
        seconds=sum(segment + cell * engine.cells(key, kind) for kind in heights),
    )
