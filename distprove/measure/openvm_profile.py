"""`distprove bench openvm-profile`: segments of a profile of stark-backend, proven with the shapes that it records.

A segment has a key and traces of its own (`distprove.measure.openvm_segments`). Its first proof compiles what the key's
AIRs need. The proofs after it are timed, with a wait for the device after every stage; launches and
waits are counted by stage.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from distprove.errors import InvalidProof, JobFailed
from distprove.measure.openvm_segments import Segment, key_of, traces_of
from distprove.measure.results import Row
from distprove.measure.timing import Timing
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.memory import planned
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.security import security_bits
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.verifier import verify
from distprove.steps import Steps
from kernels.interface.backend import Backend, Traffic

FIELD = "BabyBear"
LOADING = "load"
"""The step in which traces pass to the device."""
TIMED = (
    "traces in host memory to proof in host memory, less the copy of the traces to the device, as in stark-backend's "
    "runner; key and kernels resident; wall time, with the device waited for after every stage"
)
CHECKED = "a proof of each segment is verified, unless that is asked to be left out"


@dataclass
class CountedSteps(Steps):
    """Steps that count what each one launches and waits for, too."""

    traffic: Traffic = field(default_factory=Traffic)
    """The counters of the backend."""
    counts: dict[str, Traffic] = field(default_factory=dict)
    """What each step added to them."""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        before = self.traffic.snapshot()
        with super().__call__(name):
            yield
        spent = self.traffic.since(before)
        self.counts[name] = spent.plus(self.counts.get(name, Traffic()))


def bench_segments(
    backend: Backend,
    segments: Sequence[Segment],
    log_stacked: int,
    repeats: int,
    progress: Callable[[str], None],
    *,
    warm_up: bool = True,
    verified: bool = True,
) -> list[Row]:
    """Time proofs of each segment; gives a row for each. Raises JobFailed for a proof that does not verify."""
    rows = []
    for segment in segments:
        progress(f"segment {segment.number}: {len(segment.airs)} AIRs, {segment.cells:,} cells")
        rows.append(bench_segment(backend, segment, log_stacked, repeats, warm_up=warm_up, verified=verified))
    return rows


def bench_segment(
    backend: Backend, segment: Segment, log_stacked: int, repeats: int, *, warm_up: bool = True, verified: bool = True
) -> Row:
    """Time proofs of a segment with stacks of 2^log_stacked rows.

    Without `warm_up` there is no untimed proof first, for segments whose AIRs others had before. Raises JobFailed for a
    proof that does not verify.
    """
    begin = time.perf_counter()
    key = key_of(segment, log_stacked)
    traces = traces_of(segment)
    made = time.perf_counter() - begin

    begin = time.perf_counter()
    if warm_up:
        prove(backend.openvm, key, traces, Steps())
    warming = time.perf_counter() - begin

    runs, walls = list[CountedSteps](), list[float]()
    backend.watch_memory()
    for _ in range(repeats):
        steps = CountedSteps(settle=backend.synchronize, traffic=backend.traffic)
        begin = time.perf_counter()
        proof = prove(backend.openvm, key, traces, steps)
        walls.append(time.perf_counter() - begin - steps.seconds[LOADING])
        runs.append(steps)
    verify_seconds = _check(key, proof, segment) if verified else None
    counts = runs[-1].counts
    shape = Shape.of(key, proof.traces)
    return Row(
        what=f"segment {segment.number}",
        curve=FIELD,
        log_n=log_stacked,
        variant=f"{len(segment.airs)} AIRs, {segment.cells} cells",
        timing=Timing(tuple(walls)),
        to_device=sum(each.to_device for each in counts.values()),
        to_host=sum(each.to_host for each in counts.values()),
        steps={name: statistics.median(run.seconds[name] for run in runs) for name in runs[0].seconds},
        facts={
            "segment": segment.number,
            "airs": len(segment.airs),
            "cells": segment.cells,
            "stacked_columns": sum(layout.width for layout in shape.layouts),
            "fractions": shape.interactions,
            "key_hash": key.pre_hash.tolist(),
            "key_and_traces_seconds": made,
            "warm_up_seconds": warming if warm_up else None,
            "verify_seconds": verify_seconds,
            "proof_bytes": len(proof.to_bytes()),
            "security_bits": security_bits(key),
            "peak_bytes": backend.memory_peak(),
            "planned_bytes": planned(shape).peak,
            "counts": {name: asdict(each) for name, each in counts.items()},
        },
    )


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Of all segments, each by its median: the sum of their times, and each stage's sum and median."""
    stages = {name: [row.steps[name] for row in rows] for name in rows[0].steps}
    walls = [row.timing.median for row in rows]
    peaks = [row.facts["peak_bytes"] for row in rows if row.facts["peak_bytes"] is not None]
    return {
        "segments": len(rows),
        "cells": sum(row.facts["cells"] for row in rows),
        "total_seconds": sum(walls),
        "median_seconds": statistics.median(walls),
        "stages": {
            name: {"total_seconds": sum(times), "median_seconds": statistics.median(times)}
            for name, times in stages.items()
        },
        "peak_bytes": max(peaks, default=None),
    }


def _check(key: OpenVmKey, proof: OpenVmProof, segment: Segment) -> float:
    begin = time.perf_counter()
    try:
        verify(key, OpenVmProof.from_bytes(proof.to_bytes()))
    except InvalidProof as error:
        raise JobFailed(f"segment {segment.number}: the proof does not verify: {error}") from None
    return time.perf_counter() - begin
